//! What the jobs of a trace need, hour by hour and pool by pool.
//!
//! A job needs its GPUs for as long as it ran. **When** is a choice. *Unwaited*: from its submission on, as a cloud starts what is asked for; what the old cluster
//! made wait would have run at once. *Recorded*: when it held its GPUs; what a queue flattened stays flat. The GPU-hours are the same, the peaks are not.
//!
//! An hour needs the **most** GPUs in use at once within it, as an instance that serves a peak is rented for it. The most of all jobs is the *total*, and that of
//! jobs that must not be interrupted the *firm* part; the rest may run on spot.
//!
//! What is decided at a moment knows what was known then: jobs submitted later are left out, runs are cut off at that moment, and a job that had not started has no
//! run yet.
//!
//! O(jobs log jobs + hours). Worked example: a job of 4 GPUs from 0:10 to 0:50 and one of 2 from 0:30 to 1:30, which may run on spot: hour 0 needs 6, of which 4
//! are firm, and hour 1 needs 2, none of them firm.

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::facts::JobFacts;
use tracecast_analytics::facts::occupancy::Steps;
use tracecast_analytics::report::format::counted;
use tracecast_analytics::time::{HOUR_MS, Zone};

use super::offers::Offers;
use super::overhead::FlexibleJob;
use crate::error::{Error, Result};

/// GPU types without an offer that an error names.
const MOST_NAMED: usize = 8;

/// When jobs need their GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DemandTimes {
    /// From their submission on.
    Unwaited,
    /// When they held them.
    Recorded,
}

/// Which jobs may run on spot.
#[derive(Debug, Clone, PartialEq)]
pub enum Flexible {
    /// No job.
    Nobody,
    /// Jobs of at most so many GPUs; `None`: of as many as one instance of spot of their pool has.
    UpTo(Option<f64>),
    /// Jobs that are marked, job by job.
    Marked(Vec<bool>),
}

/// Need of one hour, GPUs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HourDemand {
    /// GPUs of jobs that must not be interrupted.
    pub firm: f64,
    /// GPUs of all jobs.
    pub total: f64,
    /// Hour of the week in UTC, by its middle: 0 from midnight of Monday on; unknown where the
    /// record has no calendar.
    pub of_week: Option<usize>,
}

impl HourDemand {
    /// An hour of an unknown time.
    pub fn new(firm: f64, total: f64) -> Self {
        Self { firm, total, of_week: None }
    }

    /// The most that one of some hours needs, GPUs; 0 of none.
    pub(crate) fn most(hours: &[Self]) -> f64 {
        hours.iter().map(|hour| hour.total).fold(0.0, f64::max)
    }

    /// So many times as much.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        Self { firm: self.firm * factor, total: self.total * factor, ..self }
    }
}

/// Need of a pool over a stretch of time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PoolDemand {
    /// Hour by hour.
    pub hours: Vec<HourDemand>,
    /// Jobs that may run on spot.
    pub flexible: Vec<FlexibleJob>,
    /// Jobs that need GPUs in it.
    pub jobs: u64,
    /// GPU-hours that jobs hold, as they hold them: at most the hours of the peaks.
    pub gpu_hours: f64,
    /// GPU-hours of jobs that may run on spot.
    pub flexible_gpu_hours: f64,
}

/// A job as it would run if it began with its submission.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UnwaitedJob {
    /// Row of the job in the trace.
    pub row: usize,
    /// Pool of the job.
    pub pool: usize,
    /// Submission, ms.
    pub submit_ms: i64,
    /// How long it held GPUs, ms.
    pub run_ms: i64,
    /// The most GPUs that it held at once.
    pub gpus: f64,
}

/// Jobs as the plan sees them.
#[derive(Debug)]
pub struct PoolJobs<'t> {
    facts: &'t JobFacts<'t>,
    times: DemandTimes,
    /// Pool of each job; none for a job without GPUs.
    pool: Vec<Option<usize>>,
    /// Whether each may run on spot.
    flexible: Vec<bool>,
    /// Stretches in which each job held GPUs: from where to where in `held`.
    of_job: Vec<(usize, usize)>,
    held: Vec<(i64, i64, f64)>,
    pools: usize,
    /// Jobs that name no GPU type, and were put into the pool of `untyped`.
    pub untyped: u64,
    /// GPU jobs that never held a GPU.
    pub without_run: u64,
}

impl<'t> PoolJobs<'t> {
    /// Sorts the GPU jobs of a trace into the pools of `offers`.
    ///
    /// # Errors
    /// If a GPU type is not offered, jobs name none and `untyped` is not said, or there are no GPU jobs.
    pub fn new(facts: &'t JobFacts<'t>, offers: &Offers, times: DemandTimes, flexible: &Flexible) -> Result<Self> {
        let wrong = |what: String| Error::file(offers.file.clone(), 1, what);
        let mut untyped = 0;
        let mut pool = vec![None; facts.len()];
        let default = offers.untyped.as_deref().and_then(|name| offers.pool_of(name));
        let default = default.or(if offers.pools.len() == 1 { Some(0) } else { None });
        let mut others: std::collections::BTreeMap<&str, u64> = std::collections::BTreeMap::new();
        let mut nameless = 0u64;
        for (job, place) in pool.iter_mut().enumerate().filter(|(job, _)| facts.is_gpu_job(*job)) {
            *place = match facts.trace.jobs.gpu_type.get(job) {
                Some(name) => {
                    let result = offers.pool_of(name);
                    if result.is_none() {
                        *others.entry(name).or_default() += 1;
                    }
                    result
                }
                None => {
                    untyped += 1;
                    nameless += u64::from(default.is_none());
                    default
                }
            };
        }
        if !others.is_empty() {
            let known: Vec<&str> = offers.pools.iter().map(|pool| pool.gpu.as_str()).collect();
            let request = others
                .iter()
                .take(MOST_NAMED)
                .map(|(name, jobs)| format!("`{name}` ({})", counted(*jobs, "job", "jobs")));
            return Err(wrong(format!(
                "jobs ask for GPUs that are not offered: {}{}; there are offers of {}; add an [[instance]] with that gpu, or name it in `also` of one that serves these jobs",
                request.collect::<Vec<_>>().join(", "),
                if others.len() > MOST_NAMED {
                    format!(" and {} more types", others.len() - MOST_NAMED)
                } else {
                    String::new()
                },
                known.join(", ")
            )));
        }
        if nameless > 0 {
            return Err(wrong(format!(
                "{} without a GPU type, and there are offers of {} types; write at the top of the offers file (one beside a table of prices, if there is none) what they run on, such as untyped = \"{}\"",
                counted(nameless, "job comes", "jobs come"),
                offers.pools.len(),
                offers.pools.first().map_or("V100", |pool| pool.gpu.as_str())
            )));
        }
        if pool.iter().all(Option::is_none) {
            return Err(Error::no_jobs(
                "there are no jobs with GPUs in this trace, so there is nothing to plan; sacct tells GPUs in ReqTRES and AllocTRES".to_owned(),
            ));
        }
        let most: Vec<f64> = offers
            .pools
            .iter()
            .map(|pool| match flexible {
                Flexible::UpTo(Some(most)) => *most,
                _ => offers
                    .of(pool)
                    .filter(|offer| offer.spot.is_some())
                    .map(|offer| f64::from(offer.gpus))
                    .fold(0.0, f64::max),
            })
            .collect();
        let may = |job: usize| match flexible {
            Flexible::Nobody => false,
            Flexible::Marked(mask) => mask.get(job).copied().unwrap_or(false),
            Flexible::UpTo(_) => {
                let most = pool.get(job).copied().flatten().and_then(|pool| most.get(pool)).copied().unwrap_or(0.0);
                facts.gpus(job).is_some_and(|gpus| gpus <= most)
            }
        };
        let flexible = (0..facts.len()).map(may).collect();
        let mut stretches: Vec<(usize, i64, i64, f64)> =
            facts.stretches.iter().map(|held| (held.job, held.start, held.end, held.gpus)).collect();
        stretches.sort_by_key(|held| (held.0, held.1, held.2));
        let mut of_job = vec![(0, 0); facts.len()];
        for (at, (job, ..)) in stretches.iter().enumerate() {
            if let Some(range) = of_job.get_mut(*job) {
                *range = (if range.1 == 0 { at } else { range.0 }, at + 1);
            }
        }
        let held = stretches.into_iter().map(|(_, start, end, gpus)| (start, end, gpus)).collect();
        let mut jobs =
            Self { facts, times, pool, flexible, of_job, held, pools: offers.pools.len(), untyped, without_run: 0 };
        jobs.without_run =
            (0..facts.len()).filter(|job| jobs.pool_of(*job).is_some() && jobs.held(*job).is_empty()).count() as u64;
        Ok(jobs)
    }

    fn pool_of(&self, job: usize) -> Option<usize> {
        self.pool.get(job).copied().flatten()
    }

    fn held(&self, job: usize) -> &[(i64, i64, f64)] {
        let (from, to) = self.of_job.get(job).copied().unwrap_or((0, 0));
        self.held.get(from..to).unwrap_or(&[])
    }

    /// Notes on jobs without a GPU type or a run.
    pub fn notes(&self) -> Vec<String> {
        let jobs = |count: u64| counted(count, "job", "jobs");
        let untyped = (self.untyped > 0).then(|| {
            format!("{} named no GPU type and were put to the type that the offers file says.", jobs(self.untyped))
        });
        let without_run =
            (self.without_run > 0).then(|| format!("{} never held a GPU and need none here.", jobs(self.without_run)));
        untyped.into_iter().chain(without_run).collect()
    }

    /// From when to when a job needs how many GPUs, as it was known at `known_ms`, and how long it ran, ms.
    fn needs(&self, job: usize, known_ms: i64) -> (Vec<(i64, i64, f64)>, i64) {
        let seen = self.held(job).iter().filter(|held| held.0 < known_ms);
        let needs: Vec<(i64, i64, f64)> = seen.map(|held| (held.0, held.1.min(known_ms), held.2)).collect();
        let run_ms: i64 = needs.iter().map(|(start, end, _)| (end - start).max(0)).sum();
        let submit = self.facts.trace.jobs.submit.get(job);
        if let (DemandTimes::Unwaited, Some(submit)) = (self.times, submit) {
            let gpus = needs.iter().map(|need| need.2).fold(0.0, f64::max);
            return (vec![(submit, submit.saturating_add(run_ms), gpus)], run_ms);
        }
        (needs, run_ms)
    }

    /// The jobs as they would run if each began with its submission, as they were known at `known_ms`, in order of submission. Those that never held a GPU by then are left
    /// out. A job without a submission is taken to be submitted when it started. O(jobs log jobs).
    pub fn unwaited(&self, known_ms: i64) -> Vec<UnwaitedJob> {
        let of = |job: usize| {
            let pool = self.pool_of(job)?;
            let (needs, run_ms) = self.needs(job, known_ms);
            let submit_ms = needs.iter().map(|need| need.0).min()?;
            let gpus = needs.iter().map(|need| need.2).fold(0.0, f64::max);
            (run_ms > 0 && gpus > 0.0).then_some(UnwaitedJob { row: job, pool, submit_ms, run_ms, gpus })
        };
        let mut jobs: Vec<UnwaitedJob> = (0..self.facts.len()).filter_map(of).collect();
        jobs.sort_by_key(|job| (job.submit_ms, job.row));
        jobs
    }

    /// Needs of each pool from `from_ms` to `to_ms`, as it was known at `known_ms`. O(jobs log
    /// jobs).
    pub fn demand(&self, (from_ms, to_ms): (i64, i64), known_ms: i64) -> Vec<PoolDemand> {
        let mut pools = vec![PoolDemand::default(); self.pools];
        let mut firm: Vec<Vec<(i64, i64, f64)>> = vec![Vec::new(); self.pools];
        let mut all = firm.clone();
        let inside = |start: i64, end: i64| (end.min(to_ms) - start.max(from_ms)).max(0);
        for job in 0..self.facts.len() {
            let Some(pool) = self.pool_of(job) else { continue };
            let (needs, run_ms) = self.needs(job, known_ms);
            let gpu_ms: f64 = needs.iter().map(|(start, end, gpus)| gpus * inside(*start, *end) as f64).sum();
            let (Some(result), true) = (pools.get_mut(pool), gpu_ms > 0.0) else { continue };
            let hours = gpu_ms / HOUR_MS as f64;
            result.jobs += 1;
            result.gpu_hours += hours;
            if self.flexible.get(job).copied().unwrap_or(false) {
                let gpus = needs.iter().map(|need| need.2).fold(0.0, f64::max);
                result.flexible_gpu_hours += hours;
                result.flexible.push(FlexibleJob { gpus, run_s: run_ms as f64 / 1e3, gpu_s: gpu_ms / 1e3 });
            } else if let Some(firm) = firm.get_mut(pool) {
                firm.extend(needs.iter().copied());
            }
            if let Some(all) = all.get_mut(pool) {
                all.extend(needs);
            }
        }
        let (has_calendar, utc) = (self.facts.trace.basis.has_calendar(), Zone::utc());
        // Hours count from the end of the record, and hardly begin on those of the clock.
        let middle = |at: usize| from_ms.saturating_add(at as i64 * HOUR_MS + HOUR_MS / 2);
        let of_week = |at: usize| has_calendar.then(|| utc.local(middle(at)).hour_of_week());
        for ((pool, firm), all) in pools.iter_mut().zip(firm).zip(all) {
            let (firm, all) = (peaks(firm, from_ms, to_ms), peaks(all, from_ms, to_ms));
            let hours = firm.into_iter().zip(all).enumerate();
            pool.hours = hours.map(|(at, (firm, total))| HourDemand { firm, total, of_week: of_week(at) }).collect();
        }
        pools
    }

    /// From the first to the last moment that the record knows of, ms.
    ///
    /// # Errors
    /// If no job names a time.
    pub fn span(&self) -> Result<(i64, i64)> {
        let window = self.facts.window.zip(self.facts.record_end);
        let window = window.map(|((from, _), end)| (from, end));
        window.ok_or_else(|| Error::no_jobs("no job names a time, so nothing can be planned".to_owned()))
    }
}

/// The most at once in each whole hour from `from` to `to`. O((needs + hours) log needs).
pub(crate) fn peaks(needs: Vec<(i64, i64, f64)>, from: i64, to: i64) -> Vec<f64> {
    let steps = Steps::of_intervals(needs);
    let hour = |at: i64| steps.max(from + at * HOUR_MS, from + (at + 1) * HOUR_MS);
    (0..(to - from) / HOUR_MS).map(hour).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(crate) mod tests {
    use proptest::prelude::*;
    use tracecast_analytics::Trace;
    use tracecast_analytics::schema::JobRow;
    use tracecast_analytics::time::TimeBasis;

    use super::*;

    pub(crate) const OFFERS: &str = "[[instance]]\nname = \"a\"\ngpu = \"V100\"\ngpus = 4\non_demand = 10.0\nreserved = [{ months = 12, price = 5.0 }]\nspot = { price = 3.0 }\n";

    /// Jobs: submission, start and end in minutes, GPUs.
    pub(crate) fn trace(jobs: &[(i64, i64, i64, f64)]) -> Trace {
        typed(jobs, None)
    }

    /// Jobs of nine days: submission, wait and run in minutes, GPUs.
    pub(crate) type Drawn = Vec<(i64, i64, i64, u8)>;

    /// Where these nine days are split, minutes.
    pub(crate) const SPLIT: i64 = 6 * 24 * 60;

    pub(crate) fn drawn() -> impl Strategy<Value = Drawn> {
        prop::collection::vec((0i64..12_000, 0i64..300, 1i64..4_000, 1u8..20), 1..25)
    }

    /// What may come in place of what came: waits, runs and GPUs.
    pub(crate) fn changes() -> impl Strategy<Value = Vec<(i64, i64, u8)>> {
        prop::collection::vec((0i64..300, 1i64..4_000, 1u8..20), 25)
    }

    /// The jobs with all that was not known at the split changed.
    pub(crate) fn changed_after_the_split(jobs: &Drawn, changes: Vec<(i64, i64, u8)>) -> Drawn {
        let changed = |((submit, wait, run, gpus), (wait_then, run_then, gpus_then)): (&(i64, i64, i64, u8), _)| {
            if *submit >= SPLIT {
                // Not submitted yet: all of it may be different.
                (*submit, wait_then, run_then, gpus_then)
            } else if submit + wait >= SPLIT {
                // Waits at the split: from when to when it runs is not known.
                (*submit, (SPLIT - submit) + wait_then, run_then, *gpus)
            } else if submit + wait + run > SPLIT {
                (*submit, *wait, (SPLIT - submit - wait) + run_then, *gpus)
            } else {
                (*submit, *wait, *run, *gpus)
            }
        };
        jobs.iter().zip(changes).map(changed).collect()
    }

    /// The trace of drawn jobs; a first and a last one hold the ends of the record where they are.
    pub(crate) fn nine_days(drawn: &Drawn) -> Trace {
        let mut jobs: Vec<(i64, i64, i64, f64)> = vec![(0, 0, 60, 1.0), (12_900, 12_900, 12_960, 1.0)];
        jobs.extend(drawn.iter().map(|(submit, wait, run, gpus)| {
            let start = (submit + wait).min(12_950);
            (*submit, start, (start + run).min(12_960), f64::from(*gpus))
        }));
        trace(&jobs)
    }

    fn typed(jobs: &[(i64, i64, i64, f64)], gpu_type: Option<&str>) -> Trace {
        let mut trace = Trace { zone: "UTC".to_owned(), ..Trace::default() };
        for (at, (submit, start, end, gpus)) in jobs.iter().enumerate() {
            trace.jobs.push(JobRow {
                job_key: Some(format!("j{at}").into()),
                submit: Some(submit * 60_000),
                start: Some(start * 60_000),
                end: Some(end * 60_000),
                run_s: Some((end - start) as f64 * 60.0),
                alloc_gpus: Some(*gpus),
                state: Some("completed".into()),
                gpu_type: gpu_type.map(Into::into),
                ..JobRow::default()
            });
        }
        trace
    }

    fn hours(trace: &Trace, times: DemandTimes, known: i64) -> Vec<(f64, f64)> {
        let facts = JobFacts::new(trace);
        let offers = Offers::parse("o.toml", OFFERS).unwrap();
        let jobs = PoolJobs::new(&facts, &offers, times, &Flexible::UpTo(Some(2.0))).unwrap();
        let result = jobs.demand((0, 3 * HOUR_MS), known * 60_000);
        result[0].hours.iter().map(|hour| (hour.firm, hour.total)).collect()
    }

    #[test]
    fn the_worked_example() {
        let trace = trace(&[(10, 10, 50, 4.0), (30, 30, 90, 2.0)]);
        assert_eq!(hours(&trace, DemandTimes::Recorded, 999), [(4.0, 6.0), (0.0, 2.0), (0.0, 0.0)]);
    }

    /// The epoch began at midnight of a Thursday, hour 72 of its week.
    #[test]
    fn hours_know_when_in_the_week_they_are() {
        let mut trace = trace(&[(10, 10, 170, 4.0)]);
        let of_week = |trace: &Trace, from_minutes: i64| -> Vec<Option<usize>> {
            let facts = JobFacts::new(trace);
            let offers = Offers::parse("o.toml", OFFERS).unwrap();
            let jobs = PoolJobs::new(&facts, &offers, DemandTimes::Recorded, &Flexible::Nobody).unwrap();
            let from = from_minutes * 60_000;
            let result = jobs.demand((from, from + 2 * HOUR_MS), i64::MAX);
            result[0].hours.iter().map(|hour| hour.of_week).collect()
        };
        assert_eq!(of_week(&trace, 0), [Some(72), Some(73)]);
        // From 0:40 to 1:40 most is of 1:00.
        assert_eq!((of_week(&trace, 20), of_week(&trace, 40)), (vec![Some(72), Some(73)], vec![Some(73), Some(74)]));
        trace.basis = TimeBasis::Relative;
        assert_eq!(of_week(&trace, 0), [None, None]);
    }

    #[test]
    fn unwaited_begins_with_the_submission() {
        // Waits until 2:00, runs 30 min; without the wait it runs from 0:10 on, beside the other.
        let trace = trace(&[(0, 0, 60, 4.0), (10, 120, 150, 4.0)]);
        assert_eq!(hours(&trace, DemandTimes::Recorded, 999), [(4.0, 4.0), (0.0, 0.0), (4.0, 4.0)]);
        assert_eq!(hours(&trace, DemandTimes::Unwaited, 999), [(8.0, 8.0), (0.0, 0.0), (0.0, 0.0)]);
        // Ten minutes after its start only these are known, and before it nothing is.
        assert_eq!(hours(&trace, DemandTimes::Unwaited, 130)[0], (8.0, 8.0));
        assert_eq!(hours(&trace, DemandTimes::Unwaited, 119)[0], (4.0, 4.0));
    }

    #[test]
    fn jobs_that_begin_with_their_submission() {
        // The second waits until 2:00; the third never runs, as its end is its start.
        let trace = trace(&[(30, 30, 90, 2.0), (10, 120, 150, 4.0), (20, 40, 40, 1.0)]);
        let facts = JobFacts::new(&trace);
        let offers = Offers::parse("o.toml", OFFERS).unwrap();
        let jobs = PoolJobs::new(&facts, &offers, DemandTimes::Unwaited, &Flexible::Nobody).unwrap();
        let told = |known: i64| -> Vec<(usize, i64, i64, f64)> {
            let minutes = |ms: i64| ms / 60_000;
            let result = jobs.unwaited(known * 60_000);
            result.iter().map(|job| (job.row, minutes(job.submit_ms), minutes(job.run_ms), job.gpus)).collect()
        };
        assert_eq!(told(999), [(1, 10, 30, 4.0), (0, 30, 60, 2.0)]);
        // Known at 1:00: the first runs, and nobody knows for how long; the second waits.
        assert_eq!(told(60), [(0, 30, 30, 2.0)]);
    }

    #[test]
    fn types_must_be_offered() {
        let trace = typed(&[(0, 0, 60, 4.0)], Some("T4"));
        let facts = JobFacts::new(&trace);
        let said = |text: &str| {
            let offers = Offers::parse("o.toml", text).unwrap();
            let jobs = PoolJobs::new(&facts, &offers, DemandTimes::Recorded, &Flexible::Nobody);
            jobs.map(|_| String::new()).unwrap_or_else(|error| error.to_string())
        };
        assert!(said(OFFERS).contains(
            "o.toml, line 1: jobs ask for GPUs that are not offered: `T4` (1 job); there are offers of V100; add"
        ));
        assert_eq!(said(&OFFERS.replace("gpus = 4", "also = [\"T4\"]\ngpus = 4")), "");
    }
}
