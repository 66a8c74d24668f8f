//! Timeline of a trace: submissions, starts and ends of jobs in order, as a store or a server is
//! told them.
//!
//! * **Run** of a job: the time its attempts ran as the source sums it, else as derived from timestamps, else as the source reports it.
//! * **Start**: as recorded, else the recorded end less the run, else **assumed** to be the submission. The ends of such jobs are then too early by
//!   their waits, and what is learned from them is learned too early: [`Timeline::with_drawn_waits`] shows what that is worth.
//! * **End**: as recorded, but no sooner than start + run; else start + run. A job that still runs at the end of the record has none, and is a
//!   censored observation.
//!
//! Time limits that are the runs themselves (some published traces have such a column) are left out, and said to be.
//!
//! At equal times ends come first, then starts, then submissions in the order of the source: a job that ends in the millisecond in which
//! another is submitted is known to it. O(n log n). Worked example: a job submitted at 0 s, started at 10 s, that ran 60 s, ends at 70 s.

use tracecast_analytics::Trace;
use tracecast_analytics::facts::{JobFacts, SizeClass};
use tracecast_analytics::schema::{JobState, Resource, gpu_count};
use tracecast_analytics::stats::rank;

use crate::error::{Error, Result};
use crate::feature::Known;
use crate::job::Submission;

/// Options of a timeline: its jobs, and which of their facts may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TimelineOptions {
    /// Only jobs whose VC is known.
    pub known_vc_only: bool,
    /// Ignore the VCs of jobs.
    pub ignore_vc: bool,
    /// Ignore the names of jobs.
    pub ignore_name: bool,
    /// Ignore the users of jobs.
    pub ignore_user: bool,
    /// Resource that jobs compete for; as the trace has it if `None`. Only jobs that have a known
    /// amount of it are learned from.
    pub resource: Option<Resource>,
}

/// A job of a timeline.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// Row of the trace.
    pub row: u32,
    /// Facts known at submission.
    pub submission: Submission,
    /// Start, milliseconds; `None` if the job never started.
    pub start_ms: Option<i64>,
    /// Whether that start is assumed: nothing was recorded that tells it.
    pub assumed_start: bool,
    /// End, milliseconds; `None` if the job had not ended by the end of the record.
    pub end_ms: Option<i64>,
    /// Run, seconds; `None` unless the job started and ended.
    pub run_s: Option<f64>,
    /// Whether it failed.
    pub failed: bool,
}

impl Job {
    /// A job that starts when it is submitted, ends after `run_s` seconds, and does not fail. For examples and tests.
    pub fn without_wait(row: u32, submission: Submission, run_s: f64) -> Self {
        let submit_ms = submission.submit_ms;
        Self {
            row,
            submission,
            start_ms: Some(submit_ms),
            assumed_start: false,
            end_ms: Some(submit_ms + (run_s * 1000.0) as i64),
            run_s: Some(run_s),
            failed: false,
        }
    }
}

/// Kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The job ended.
    End,
    /// The job started.
    Start,
    /// The job was submitted.
    Submit,
}

/// An event: its time, its kind, and the job of the timeline.
pub type Moment = (i64, Kind, u32);

/// Jobs in order of submission, and what happened to them in order of time.
#[derive(Debug, Clone, Default)]
pub struct Timeline {
    /// The jobs.
    pub jobs: Vec<Job>,
    /// Facts of jobs known at submission.
    pub known: Known,
    /// Resource that jobs compete for.
    pub resource: Resource,
    /// Rows of the trace that are not jobs to learn from, by reason.
    pub left_out: Vec<(String, usize)>,
    /// Share of the trace's GPU time that the jobs here hold, where some are left out for want of a VC; `None` where none is, or GPU time is unknown.
    pub gpu_time_share: Option<f64>,
    /// Jobs that ran whose start is taken to be their submission.
    pub assumed_starts: usize,
    /// GPUs of the cluster, where the trace has its inventory or capacity; no fewer than a job had.
    pub cluster_gpus: Option<f64>,
    /// Whether the time limits were the runs themselves, written down afterwards, and are left out.
    pub limit_is_run: bool,
}

/// Whether the limits are the runs, recorded afterwards: four in five jobs ran to within a second
/// of their limit, or to within a minute or a hundredth of it while there are about as many limits
/// as jobs. No user asks so well; users who run to their limits ask for few round ones.
fn limit_is_run(jobs: &[Job]) -> bool {
    let both: Vec<(f64, f64)> = jobs.iter().filter_map(|job| Some((job.run_s?, job.submission.limit_s?))).collect();
    let four_in_five = |same: &dyn Fn(f64, f64) -> bool| {
        both.iter().filter(|(run, limit)| same(*run, *limit)).count() * 5 >= both.len() * 4
    };
    let kinds: std::collections::HashSet<i64> = both.iter().map(|(_, limit)| limit.round() as i64).collect();
    both.len() >= 20
        && (four_in_five(&|run, limit| (run - limit).abs() <= 1.0)
            || kinds.len() * 3 >= both.len()
                && four_in_five(&|run, limit| (run - limit).abs() <= (0.01 * run).max(60.0)))
}

/// Waits that [`Timeline::with_drawn_waits`] drew.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct DrawnWaits {
    /// Jobs whose start is recorded, of which waits were drawn.
    pub known: usize,
    /// Jobs whose wait was drawn.
    pub drawn: usize,
    /// Mean of the waits drawn, seconds.
    pub mean_s: f64,
    /// Median of the waits drawn, seconds.
    pub median_s: f64,
}

/// Known waits that a size class needs to be drawn from alone.
const LEAST_WAITS: usize = 30;

/// GPUs that there are, or were at most: of the inventory, of the cluster's recorded capacity, and of its VCs' in sum the most.
fn cluster_gpus(trace: &Trace) -> Option<f64> {
    let nodes = trace.nodes.gpus.iter().flatten().filter(|gpus| gpus.is_finite()).sum::<f64>();
    let capacity = &trace.capacity;
    let mut cluster = 0f64;
    let mut vcs: std::collections::BTreeMap<&str, f64> = std::collections::BTreeMap::new();
    for row in 0..tracecast_analytics::schema::Table::len(capacity) {
        let Some(gpus) = capacity.gpus.get(row).filter(|gpus| gpus.is_finite()) else { continue };
        match (capacity.scope.get(row), capacity.name.get(row)) {
            (Some("cluster"), _) => cluster = cluster.max(gpus),
            (Some("vc"), Some(name)) => {
                let most = vcs.entry(name).or_default();
                *most = most.max(gpus);
            }
            _ => {}
        }
    }
    Some(nodes.max(cluster).max(vcs.values().sum())).filter(|gpus| *gpus > 0.0)
}

impl Timeline {
    /// The timeline of a trace.
    ///
    /// # Errors
    /// If no job is left.
    pub fn new(trace: &Trace, options: TimelineOptions) -> Result<Self> {
        let facts = JobFacts::new(trace);
        let table = &trace.jobs;
        let resource = options.resource.unwrap_or_else(|| Resource::of_jobs(table));
        let unknown = match resource {
            Resource::Gpus => "the number of GPUs is unknown",
            Resource::Cpus => "the number of CPUs is unknown",
            Resource::Nodes => "the number of nodes is unknown",
        };
        let mut left_out = [
            ("the submission is unknown", 0usize),
            (unknown, 0),
            ("the VC is unknown", 0),
            ("it is over, but neither its run nor its end is known", 0),
        ];
        let mut timeline = Self { resource, ..Self::default() };
        for row in 0..facts.len() {
            let submit_ms = table.submit.get(row);
            // What was asked for: what was given is known only once the job starts.
            let gpus = table.req_gpus.get(row).and_then(gpu_count).or_else(|| facts.gpus(row));
            // A log of processors has jobs without a count of GPUs: they asked for none.
            let gpus =
                if resource == Resource::Gpus { gpus } else { resource.asked(table, row).map(|_| gpus.unwrap_or(0.0)) };
            let vc = table.vc.get(row);
            let reason = if submit_ms.is_none() {
                Some(0)
            } else if gpus.is_none() {
                Some(1)
            } else if options.known_vc_only && vc.is_none() {
                Some(2)
            } else if facts.state(row).is_final() && run_of(&facts, row).is_none() && table.end.get(row).is_none() {
                Some(3)
            } else {
                None
            };
            if let Some(reason) = reason {
                if let Some((_, count)) = left_out.get_mut(reason) {
                    *count += 1;
                }
                continue;
            }
            let (Some(submit_ms), Some(gpus)) = (submit_ms, gpus) else { continue };
            let kept = |text: Option<&str>, ignored: bool| text.filter(|_| !ignored).map(str::to_owned);
            let submission = Submission {
                job_id: table.job_key.get(row).map_or_else(|| format!("row-{row}"), str::to_owned),
                submit_ms,
                user: kept(table.user.get(row), options.ignore_user),
                vc: kept(vc, options.ignore_vc),
                name: kept(table.name.get(row), options.ignore_name),
                gpus,
                cpus: table
                    .req_cpus
                    .get(row)
                    .filter(|cpus| cpus.is_finite())
                    .or_else(|| if resource == Resource::Cpus { resource.asked(table, row) } else { None }),
                limit_s: table.time_limit_s.get(row).filter(|limit| limit.is_finite() && *limit > 0.0),
            };
            timeline.jobs.push(timeline_job(&facts, row, submission, &mut timeline.assumed_starts));
        }
        if left_out.get(2).is_some_and(|(_, count)| *count > 0) {
            timeline.gpu_time_share = facts.gpu_time_without_vc().map(|without| 1.0 - without);
        }
        // Stable: those of the same millisecond stay in the order of the source.
        timeline.jobs.sort_by_key(|job| job.submission.submit_ms);
        if timeline.jobs.is_empty() {
            return Err(Error::TooFew(format!(
                "there is no job with a known submission and number of {} to learn from",
                if resource == Resource::Gpus { "GPUs" } else { resource.many() }
            )));
        }
        timeline.cluster_gpus =
            cluster_gpus(trace).map(|gpus| timeline.jobs.iter().map(|job| job.submission.gpus).fold(gpus, f64::max));
        timeline.limit_is_run = limit_is_run(&timeline.jobs);
        if timeline.limit_is_run {
            for job in &mut timeline.jobs {
                job.submission.limit_s = None;
            }
        }
        timeline.left_out =
            left_out.into_iter().filter(|(_, count)| *count > 0).map(|(why, count)| (why.to_owned(), count)).collect();
        timeline.known = Known {
            user: timeline.jobs.iter().any(|job| job.submission.user.is_some()),
            name: timeline.jobs.iter().any(|job| job.submission.name.is_some()),
            vc: timeline.jobs.iter().any(|job| job.submission.vc.is_some()),
            limit: timeline.jobs.iter().any(|job| job.submission.limit_s.is_some()),
        };
        Ok(timeline)
    }

    /// Timeline as known at a moment: without the jobs submitted later, and without later starts
    /// and ends.
    ///
    /// # Errors
    /// If no job is left.
    pub fn until(mut self, now_ms: i64) -> Result<Self> {
        self.jobs.retain(|job| job.submission.submit_ms < now_ms);
        if self.jobs.is_empty() {
            return Err(Error::TooFew("no job was submitted before that moment".to_owned()));
        }
        for job in &mut self.jobs {
            if job.end_ms.is_some_and(|end| end > now_ms) {
                (job.end_ms, job.run_s, job.failed) = (None, None, false);
            }
            job.start_ms = job.start_ms.filter(|start| *start <= now_ms);
        }
        Ok(self)
    }

    /// Timeline with waits in place of assumed starts: each such job waits as long as one whose
    /// start is recorded, drawn by `seed` from those of its size class (from all, where a class has
    /// fewer than 30), and starts and ends that much later. `None` where fewer than 30 waits are
    /// recorded, or no start is assumed.
    ///
    /// Runs stay as they are; only when they are learned of changes. O(n log n).
    pub fn with_drawn_waits(&self, seed: u64) -> Option<(Self, DrawnWaits)> {
        let waits_of = |size: Option<SizeClass>| {
            let of = |job: &Job| size.is_none_or(|size| SizeClass::new(job.submission.gpus) == size);
            let known = self.jobs.iter().filter(|job| !job.assumed_start && job.run_s.is_some() && of(job));
            let mut waits: Vec<i64> = known.filter_map(|job| Some(job.start_ms? - job.submission.submit_ms)).collect();
            waits.sort_unstable();
            waits
        };
        let all = waits_of(None);
        if all.len() < LEAST_WAITS || self.assumed_starts == 0 {
            return None;
        }
        let by_size = SizeClass::ALL.map(|size| (size, waits_of(Some(size))));
        let mut later = self.clone();
        let mut drawn = Vec::new();
        for (at, job) in (0u64..).zip(&mut later.jobs) {
            let (true, Some(start_ms)) = (job.assumed_start && job.run_s.is_some(), job.start_ms) else { continue };
            let size = SizeClass::new(job.submission.gpus);
            let of_size = by_size.iter().find(|(other, waits)| *other == size && waits.len() >= LEAST_WAITS);
            let from = of_size.map_or(&all, |(_, waits)| waits);
            let Some(wait_ms) = from.get((mixed(seed ^ mixed(at)) % from.len() as u64) as usize) else { continue };
            job.start_ms = Some(start_ms + wait_ms);
            job.end_ms = job.end_ms.map(|end| end + wait_ms);
            drawn.push(*wait_ms);
        }
        drawn.sort_unstable();
        let seconds = |ms: i64| ms as f64 / 1000.0;
        let facts = DrawnWaits {
            known: all.len(),
            drawn: drawn.len(),
            mean_s: drawn.iter().map(|ms| seconds(*ms)).sum::<f64>() / drawn.len().max(1) as f64,
            median_s: rank::upper_sorted(&drawn, 0.5).map_or(f64::NAN, seconds),
        };
        Some((later, facts))
    }

    /// Everything that happened, in order.
    pub fn moments(&self) -> Vec<Moment> {
        let mut moments = Vec::with_capacity(3 * self.jobs.len());
        for (at, job) in (0u32..).zip(&self.jobs) {
            moments.push((job.submission.submit_ms, Kind::Submit, at));
            if let Some(start) = job.start_ms {
                moments.push((start, Kind::Start, at));
            }
            if let Some(end) = job.end_ms {
                moments.push((end, Kind::End, at));
            }
        }
        // A job's own start comes after its submission, and its own end after its start, also where all are in one millisecond.
        moments.sort_by_key(|(time, kind, at)| {
            let job = self.jobs.get(*at as usize);
            let submitted_now = job.is_some_and(|job| *time <= job.submission.submit_ms);
            let started_now = job.is_some_and(|job| job.start_ms == Some(*time));
            // What befalls a job in the millisecond of its submission comes right behind it, before the next submission.
            let (class, step) = match kind {
                Kind::Submit => (2u8, 0u8),
                Kind::Start if submitted_now => (2, 1),
                Kind::End if submitted_now => (2, 2),
                Kind::End if started_now => (1, 2),
                Kind::Start => (1, 1),
                Kind::End => (0, 0),
            };
            // Of others that start, all do before any of them ends.
            (*time, class, if class == 1 { step } else { 0 }, *at, step)
        });
        moments
    }
}

fn run_of(facts: &JobFacts<'_>, row: usize) -> Option<f64> {
    facts.trace.jobs.reported_attempts_s.get(row).or_else(|| facts.run_s(row)).filter(|run| *run >= 0.0)
}

/// A number that looks drawn, from another (SplitMix64).
fn mixed(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn timeline_job(facts: &JobFacts<'_>, row: usize, submission: Submission, assumed: &mut usize) -> Job {
    let table = &facts.trace.jobs;
    let failed = matches!(facts.state(row), JobState::Failed | JobState::NodeFail | JobState::OutOfMemory);
    let submit_ms = submission.submit_ms;
    let run_s = run_of(facts, row);
    let recorded = table.start.get(row).filter(|start| *start >= submit_ms);
    let whole = Job {
        row: row as u32,
        submission,
        start_ms: recorded,
        assumed_start: false,
        end_ms: None,
        run_s: None,
        failed,
    };
    if facts.is_censored(row) {
        return Job { start_ms: recorded.or(Some(submit_ms)), assumed_start: recorded.is_none(), ..whole };
    }
    let Some(run_s) = run_s else {
        // Never ran, as far as is known: it leaves when the source says, or is waiting still.
        return Job { start_ms: None, end_ms: table.end.get(row).filter(|end| *end >= submit_ms), ..whole };
    };
    let run_ms = (run_s * 1000.0).round() as i64;
    // An end that is recorded tells the start, too: without it, a job that waited would be taken to run from its submission on.
    let told = recorded
        .or_else(|| table.end.get(row).map(|end| end.saturating_sub(run_ms)).filter(|start| *start >= submit_ms));
    if told.is_none() {
        *assumed += 1;
    }
    let start_ms = told.unwrap_or(submit_ms);
    let least_end_ms = start_ms.saturating_add(run_ms);
    let end_ms = table.end.get(row).map_or(least_end_ms, |end| end.max(least_end_ms));
    Job { start_ms: Some(start_ms), assumed_start: told.is_none(), end_ms: Some(end_ms), run_s: Some(run_s), ..whole }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use tracecast_analytics::schema::{JobRow, Table as _};

    use super::*;

    fn trace(rows: Vec<JobRow<'static>>) -> Trace {
        let mut trace = Trace::default();
        for row in rows {
            trace.jobs.push(row);
        }
        trace
    }

    fn row(key: &'static str, submit: i64) -> JobRow<'static> {
        JobRow { job_key: Some(key.into()), submit: Some(submit), alloc_gpus: Some(1.0), ..JobRow::default() }
    }

    #[test]
    fn ends_come_before_submissions_of_the_same_moment_and_a_jobs_own_events_after_its_submission() {
        let trace = trace(vec![
            JobRow { reported_run_s: Some(60.0), start: Some(10_000), ..row("a", 0) },
            // Submitted in the millisecond in which `a` ends, and over at once.
            JobRow { reported_run_s: Some(0.0), start: Some(70_000), ..row("b", 70_000) },
        ]);
        assert_eq!(trace.jobs.len(), 2);
        let timeline = Timeline::new(&trace, TimelineOptions::default()).unwrap();
        assert_eq!(timeline.jobs[0].end_ms, Some(70_000));
        use Kind::{End, Start, Submit};
        let expected = [
            (0, Submit, 0),
            (10_000, Start, 0),
            (70_000, End, 0),
            (70_000, Submit, 1),
            (70_000, Start, 1),
            (70_000, End, 1),
        ];
        assert_eq!(timeline.moments(), expected);
    }

    #[test]
    fn waits_are_drawn_from_those_recorded_and_ends_move_with_them() {
        let mut rows = Vec::new();
        // Thirty jobs waited 100 s and say so; ten say nothing.
        for at in 0..40i64 {
            let start = (at < 30).then_some(at * 1000 + 100_000);
            rows.push(JobRow { reported_run_s: Some(60.0), start, ..row("a", at * 1000) });
        }
        let timeline = Timeline::new(&trace(rows), TimelineOptions::default()).unwrap();
        assert_eq!(timeline.assumed_starts, 10);
        let (later, facts) = timeline.with_drawn_waits(1).unwrap();
        assert_eq!((facts.known, facts.drawn), (30, 10));
        assert!((facts.mean_s - 100.0).abs() < 1e-9 && (facts.median_s - 100.0).abs() < 1e-9);
        for (job, before) in later.jobs.iter().zip(&timeline.jobs) {
            assert_eq!(job.start_ms, Some(job.submission.submit_ms + 100_000));
            assert_eq!(job.end_ms, Some(job.submission.submit_ms + 160_000));
            assert_eq!(job.run_s, before.run_s);
        }
        assert_eq!(timeline.with_drawn_waits(1).unwrap().0.jobs, later.jobs);
        assert!(later.jobs.iter().filter(|job| job.assumed_start).count() == 10);
    }

    #[test]
    fn an_end_that_is_recorded_tells_the_start() {
        let rows = vec![JobRow { reported_run_s: Some(60.0), end: Some(500_000), ..row("a", 0) }];
        let timeline = Timeline::new(&trace(rows), TimelineOptions::default()).unwrap();
        assert_eq!((timeline.jobs[0].start_ms, timeline.jobs[0].end_ms), (Some(440_000), Some(500_000)));
        assert_eq!(timeline.assumed_starts, 0);
    }

    #[test]
    fn limits_that_are_the_runs_are_refused_and_those_that_users_asked_for_are_kept() {
        let of = |limit: &dyn Fn(f64) -> f64| {
            let rows = (0..50i64).map(|at| {
                let run = 61.0 + 977.0 * at as f64;
                JobRow { reported_run_s: Some(run), time_limit_s: Some(limit(run)), ..row("a", at * 1000) }
            });
            let timeline = Timeline::new(&trace(rows.collect()), TimelineOptions::default()).unwrap();
            (timeline.limit_is_run, timeline.known.limit)
        };
        // The runs themselves, and the runs rounded up to minutes.
        assert_eq!(of(&|run| run), (true, false));
        assert_eq!(of(&|run| (run / 60.0).ceil() * 60.0), (true, false));
        // Days that hold the run, and twice the run.
        assert_eq!(of(&|run| (run / 86_400.0).ceil() * 86_400.0), (false, true));
        assert_eq!(of(&|run| 2.0 * run), (false, true));
    }

    #[test]
    fn a_log_of_processors_is_learned_from() {
        let cpu = |key: &'static str, submit: i64, cpus: Option<f64>| JobRow {
            alloc_gpus: None,
            alloc_cpus: cpus,
            reported_run_s: Some(60.0),
            start: Some(submit),
            time_limit_s: Some(3_600.0),
            ..row(key, submit)
        };
        let log = trace(vec![cpu("a", 0, Some(4.0)), cpu("b", 10, None)]);
        let result = Timeline::new(&log, TimelineOptions::default()).unwrap();
        let (jobs, left) = (&result.jobs, &result.left_out);
        assert_eq!((result.resource, jobs.len(), left.len()), (Resource::Cpus, 1, 1));
        assert_eq!(left[0], ("the number of CPUs is unknown".to_owned(), 1));
        let request = &jobs[0].submission;
        assert_eq!((request.gpus, request.cpus, request.limit_s), (0.0, Some(4.0), Some(3_600.0)));
        // Asked for GPUs, there is nothing to learn from.
        let gpus = TimelineOptions { resource: Some(Resource::Gpus), ..TimelineOptions::default() };
        assert!(Timeline::new(&log, gpus).unwrap_err().to_string().contains("number of GPUs"));
    }

    #[test]
    fn a_job_without_a_start_is_taken_to_start_at_once_and_one_that_runs_on_has_no_end() {
        let trace = trace(vec![
            JobRow { reported_run_s: Some(60.0), ..row("a", 0) },
            JobRow { start: Some(5000), censored: Some(true), state: Some("RUNNING".into()), ..row("b", 1000) },
        ]);
        let timeline = Timeline::new(&trace, TimelineOptions::default()).unwrap();
        assert_eq!(
            (timeline.jobs[0].start_ms, timeline.jobs[0].end_ms, timeline.assumed_starts),
            (Some(0), Some(60_000), 1)
        );
        assert_eq!(
            (timeline.jobs[1].start_ms, timeline.jobs[1].end_ms, timeline.jobs[1].run_s),
            (Some(5000), None, None)
        );
    }
}
