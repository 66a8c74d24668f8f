//! Jobs of one GPU each: what plans of shared and of partitioned GPUs replay, each with a kind (its job type).
//!
//! A job whose name is a kind is of that kind; every other gets one by a seeded draw: number n among them, in order of submission, has kind draw(seed, n, 0) mod the number of
//! kinds to draw from. At a moment,
//! those are known that had started by then, with their runs cut off there. A job that still ran at the end of the record holds its GPU until then, and is not scored, as nobody knows its run: to leave it
//! out would be to know before that end that it is a long one.
//!
//! O(n log n). Worked number: a job submitted at 5 s that has run from 5 s on is, at 12 s, one of 7 s whose end nobody knows.

pub mod types;

use std::collections::BTreeMap;

use tracecast_analytics::Trace;
use tracecast_analytics::facts::JobFacts;
use tracecast_analytics::report::format;
use tracecast_analytics::time::DAY_MS;

use crate::error::{Error, Result};
use crate::plan::{interval, window};
use crate::replay::compare::IntervalEstimate;
use crate::replay::input::run_known_at;
use crate::sim::place::draw;

/// Longest run, milliseconds: so that millionths of it are whole numbers of 64 bits.
const LONGEST_MS: i64 = 1 << 42;
/// Fewest jobs in the earlier and the later part.
const FEWEST_JOBS: usize = 100;
/// The 95 % wait with the usual number of GPUs, milliseconds.
pub(crate) const USUAL_WAIT_MS: i64 = 1_800_000;
/// Most GPUs that are tried.
const MOST_GPUS: u32 = 1 << 16;
/// Share of the GPU time that must be of named kinds, so that a plan is of jobs that somebody runs.
pub(crate) const LEAST_NAMED: f64 = 0.5;

/// Jobs of one GPU each, in order of submission.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TypedJobs {
    /// Submission, milliseconds, never falling.
    pub submit_ms: Vec<i64>,
    /// Run alone, milliseconds.
    pub run_ms: Vec<i64>,
    /// Kind.
    pub kind: Vec<u16>,
}

impl TypedJobs {
    /// Checks what a replay takes for granted.
    ///
    /// # Errors
    /// If columns differ in length, submissions fall, a run is negative or longer than 139 years, or there are fewer kinds than jobs have.
    pub fn check(&self, kinds: usize) -> Result<()> {
        let wrong = |job: usize, what: &str| Err(Error::workload(job, what));
        let count = self.submit_ms.len();
        if self.run_ms.len() != count || self.kind.len() != count || count >= u32::MAX as usize {
            return wrong(0, "columns differ in length, or there are too many jobs");
        }
        for (job, pair) in self.submit_ms.windows(2).enumerate() {
            if let [before, after] = pair
                && before > after
            {
                return wrong(job + 1, "it is submitted before the job ahead of it");
            }
        }
        if let Some(job) = self.run_ms.iter().position(|run| !(0..=LONGEST_MS).contains(run)) {
            return wrong(job, "its run is negative or longer than 139 years");
        }
        if let Some(job) = self.kind.iter().position(|kind| usize::from(*kind) >= kinds) {
            return wrong(job, "its kind is not in the table of speeds");
        }
        Ok(())
    }
}

/// Jobs of one GPU of a trace.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OneGpuJobs {
    /// Time 0, milliseconds since the Unix epoch.
    pub origin_ms: i64,
    /// Submissions and runs; kinds are set for each GPU type.
    pub jobs: TypedJobs,
    /// When each really started.
    pub started_ms: Vec<i64>,
    /// Names, where they are known.
    pub names: Vec<Option<String>>,
    /// VCs, where they are known.
    pub vcs: Vec<Option<String>>,
    /// Users, where they are known.
    pub users: Vec<Option<String>>,
    /// Whether each still ran at the end of the record.
    pub still_ran: Vec<bool>,
    /// Keys of the jobs.
    pub keys: Vec<String>,
    /// Jobs that are left out: without GPUs, of other sizes, or without times.
    pub left_out: usize,
    /// Left-out jobs without GPUs.
    pub without_gpus: usize,
    /// Left-out jobs of more than one GPU.
    pub larger: usize,
    /// Share of the trace's GPU time that jobs of one GPU hold; none where nobody holds any.
    pub gpu_time: Option<f64>,
    /// What tells the job types of names, in a sentence; none if nobody did.
    pub named_by: Option<String>,
}

impl OneGpuJobs {
    /// Collects the jobs of one GPU of a trace.
    pub fn new(trace: &Trace) -> Self {
        let facts = JobFacts::new(trace);
        let mut rows: Vec<(i64, usize, i64)> = Vec::new();
        for row in 0..facts.len() {
            let one = facts.gpus(row).is_some_and(|gpus| (gpus - 1.0).abs() < 1e-9);
            let run = facts.run_s(row).filter(|run| *run >= 0.0 && *run < 1e9);
            if let (true, Some(submit), Some(run)) = (one, trace.jobs.submit.get(row), run) {
                rows.push((submit, row, (run * 1000.0).round() as i64));
            }
        }
        rows.sort_unstable();
        let origin_ms = rows.first().map_or(0, |(submit, ..)| *submit);
        let sized = |is: fn(f64) -> bool| (0..facts.len()).filter(|row| facts.gpus(*row).is_some_and(is)).count();
        let held_s = |row: usize| facts.gpu_s(row).filter(|held| held.is_finite() && *held > 0.0).unwrap_or_default();
        let (own_s, all_s): (f64, f64) =
            (rows.iter().map(|(_, row, _)| held_s(*row)).sum(), (0..facts.len()).map(held_s).sum());
        let mut result = Self {
            origin_ms,
            left_out: facts.len() - rows.len(),
            without_gpus: sized(|gpus| gpus < 1e-9),
            larger: sized(|gpus| gpus > 1.0 + 1e-9),
            gpu_time: (all_s > 0.0).then_some(own_s / all_s),
            ..Self::default()
        };
        for (submit, row, run) in rows {
            let wait = facts.wait_s(row).map_or(0, |wait| (wait * 1000.0).round() as i64);
            result.jobs.submit_ms.push(submit - origin_ms);
            result.jobs.run_ms.push(run);
            result.started_ms.push(submit - origin_ms + wait.max(0));
            result.names.push(trace.jobs.name.get(row).map(str::to_owned));
            result.vcs.push(trace.jobs.vc.get(row).map(str::to_owned));
            result.users.push(trace.jobs.user.get(row).map(str::to_owned));
            result.still_ran.push(facts.is_censored(row));
            result.keys.push(trace.jobs.job_key.get(row).unwrap_or_default().to_owned());
        }
        result
    }

    /// Leaves out the jobs with one of some names, and says how many these are.
    pub fn without(&mut self, names: &[String]) -> usize {
        let stays: Vec<bool> =
            self.names.iter().map(|name| name.as_ref().is_none_or(|name| !names.contains(name))).collect();
        fn keep<T>(of: &mut Vec<T>, stays: &[bool]) {
            let mut at = stays.iter();
            of.retain(|_| at.next().copied().unwrap_or(true));
        }
        keep(&mut self.jobs.submit_ms, &stays);
        keep(&mut self.jobs.run_ms, &stays);
        keep(&mut self.jobs.kind, &stays);
        keep(&mut self.started_ms, &stays);
        keep(&mut self.names, &stays);
        keep(&mut self.vcs, &stays);
        keep(&mut self.users, &stays);
        keep(&mut self.still_ran, &stays);
        keep(&mut self.keys, &stays);
        stays.iter().filter(|stays| !**stays).count()
    }

    /// What a reader must know of a replay of them: how many there are and what of the GPU time is at stake, who is left out, and that the types of `drawn` were drawn from `those`.
    pub fn notes(&self, drawn: usize, those: &str, seed: u64) -> Vec<String> {
        let jobs = |count: usize| format::counted(count as u64, "job", "jobs");
        let counted = format!(
            "{} replayed{}. {}",
            format::counted(self.names.len() as u64, "job of one GPU is", "jobs of one GPU are"),
            self.gpu_time.map_or_else(String::new, |share| format!(
                "; jobs of one GPU hold {} of the trace's GPU-hours, and no more is at stake here",
                format::percent(share)
            )),
            self.left_out_in_words()
        );
        let running = self.still_ran.iter().filter(|running| **running).count();
        let running = (running > 0).then(|| {
            format!(
                "{} still ran at the end of the record: they take up GPUs until then, and are not scored.",
                jobs(running)
            )
        });
        let drawn = (drawn > 0).then(|| {
            format!(
                "The record does not say of which type {} are: theirs is drawn from those {those}, each alike (seed {seed}). So the answer is of this mix of types.",
                jobs(drawn)
            )
        });
        std::iter::once(counted).chain(running).chain(self.named_by.clone()).chain(drawn).collect()
    }

    /// How many are left out and what they are, in a sentence.
    fn left_out_in_words(&self) -> String {
        let rest = self.left_out.saturating_sub(self.without_gpus + self.larger);
        let parts: Vec<String> = [
            (self.without_gpus, "without GPUs"),
            (self.larger, "of more than one GPU"),
            (rest, "of a part of one, of unknown size or without times"),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{} {what}", format::count(count as u64)))
        .collect();
        match parts.as_slice() {
            [] => "None is left out.".to_owned(),
            parts => format!("Left out: {}.", parts.join("; ")),
        }
    }

    /// The jobs with kinds: of their name, else one of the first `drawn` by a draw. Whether the name of each is a kind.
    pub fn with_kinds(&self, kinds: &[String], drawn: usize, seed: u64) -> (TypedJobs, Vec<bool>) {
        let (mut jobs, mut is_named) = (self.jobs.clone(), Vec::with_capacity(self.names.len()));
        let places: BTreeMap<&str, u16> = kinds.iter().map(String::as_str).zip(0u16..).collect();
        jobs.kind = (0u32..)
            .zip(&self.names)
            .map(|(job, name)| {
                let named = name.as_deref().and_then(|name| places.get(name).copied());
                is_named.push(named.is_some());
                named.unwrap_or_else(|| u16::try_from(draw(seed, job, 0) % drawn.max(1) as u64).unwrap_or_default())
            })
            .collect();
        (jobs, is_named)
    }
}

/// The jobs as they are known at a moment: those that had started by then, their runs cut off there. Which of them had ended, as places among them. `jobs` are those of `all`, with kinds.
fn known_at(all: &OneGpuJobs, jobs: &TypedJobs, now: i64) -> (TypedJobs, Vec<usize>) {
    let (mut known, mut ended) = (TypedJobs::default(), Vec::new());
    let started = all.started_ms.iter().zip(&all.still_ran);
    for (((submit, run), kind), (start, still_ran)) in
        jobs.submit_ms.iter().zip(&jobs.run_ms).zip(&jobs.kind).zip(started)
    {
        let Some((run, has_ended)) = run_known_at(now, [*submit, *start], *start, *run) else { continue };
        if has_ended && !still_ran {
            ended.push(known.run_ms.len());
        }
        known.submit_ms.push(*submit);
        known.run_ms.push(run);
        known.kind.push(*kind);
    }
    (known, ended)
}

/// Jobs in two parts.
#[derive(Debug, Clone)]
pub(crate) struct Parts {
    /// Moment of the split, milliseconds from time 0.
    pub(crate) split_ms: i64,
    /// Jobs known at the split: those that had started by then.
    pub(crate) known: TypedJobs,
    /// Known jobs that had ended by the split.
    pub(crate) earlier: Vec<usize>,
    /// Jobs that were submitted from the split on and ended.
    pub(crate) later: Vec<usize>,
}

/// The jobs that were submitted from a moment on (milliseconds from time 0) and ended, as places among all.
pub(crate) fn ended_from(all: &OneGpuJobs, jobs: &TypedJobs, from_ms: i64) -> Vec<usize> {
    let is_one = |job: &usize| {
        jobs.submit_ms.get(*job) >= Some(&from_ms) && all.still_ran.get(*job).is_some_and(|still_ran| !still_ran)
    };
    (0..jobs.submit_ms.len()).filter(is_one).collect()
}

/// Splits the jobs where two thirds are submitted, or at the moment asked for (milliseconds since the Unix epoch).
///
/// # Errors
/// If too few jobs lie before or after the split.
pub(crate) fn parts(all: &OneGpuJobs, jobs: &TypedJobs, eval_from_ms: Option<i64>) -> Result<Parts> {
    let split_ms = window::split_ms(&jobs.submit_ms, all.origin_ms, eval_from_ms);
    let (known, earlier) = known_at(all, jobs, split_ms);
    let later = ended_from(all, jobs, split_ms);
    for (what, result) in [("before", earlier.len()), ("after", later.len())] {
        if result < FEWEST_JOBS {
            return Err(Error::no_jobs(format!(
                "{result} jobs of one GPU {what} the split are too few to plan on ({FEWEST_JOBS} are the least); choose another --eval-from, or other jobs"
            )));
        }
    }
    Ok(Parts { split_ms, known, earlier, later })
}

/// The fewest GPUs with which `enough` holds, by doubling and bisection.
///
/// # Errors
/// If more are needed than are tried.
pub(crate) fn fewest_of_any(enough: &dyn Fn(u32) -> Result<bool>) -> Result<u32> {
    let mut high = 1;
    while !enough(high)? {
        high *= 2;
        if high > MOST_GPUS {
            return Err(Error::no_jobs(format!("more than {MOST_GPUS} GPUs are needed; plan a part of the jobs")));
        }
    }
    fewest(high / 2, high, enough)
}

/// The fewest GPUs with which `enough` holds, by bisection between `low` (with which it does not) and `high` (with which it does).
pub(crate) fn fewest(mut low: u32, mut high: u32, enough: &dyn Fn(u32) -> Result<bool>) -> Result<u32> {
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if enough(middle)? {
            high = middle;
        } else {
            low = middle;
        }
    }
    Ok(high)
}

/// Whose types are drawn where that is half of the GPU time or more, as a sentence has it: `all of these jobs` where it is all of that time.
pub(crate) fn mostly_drawn(named_gpu_time: f64, jobs: &str) -> String {
    if named_gpu_time > 0.0 { format!("most of {jobs}, by GPU time,") } else { format!("all of {jobs}") }
}

/// Share of the GPU time that is of named jobs; 0 where there is none.
pub(crate) fn named_share(jobs: &TypedJobs, is_named: &[bool]) -> f64 {
    let all: f64 = jobs.run_ms.iter().map(|run| *run as f64).sum();
    // An empty sum of floats is −0.
    let of_named = jobs.run_ms.iter().zip(is_named).filter(|(_, named)| **named);
    let named = of_named.fold(0.0, |sum, (run, _)| sum + *run as f64);
    named / all.max(1.0)
}

/// Jobs by the day of their submission.
pub(crate) fn by_day(jobs: &TypedJobs, which: &[usize]) -> Vec<Vec<usize>> {
    let mut days: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
    for job in which {
        let day = jobs.submit_ms.get(*job).map_or(0, |submit| submit.div_euclid(DAY_MS));
        days.entry(day).or_default().push(*job);
    }
    days.into_values().collect()
}

/// The mean change of something of the jobs, with an interval over days drawn anew; `change` is of a job, `None` where it is not compared.
pub(crate) fn mean_change(days: &[Vec<usize>], change: &dyn Fn(usize) -> Option<f64>) -> IntervalEstimate {
    let of_day = |day: &Vec<usize>| {
        let changes = day.iter().filter_map(|job| change(*job));
        changes.fold((0.0, 0.0), |(sum, count), change| (sum + change, count + 1.0))
    };
    let sums: Vec<(f64, f64)> = days.iter().map(of_day).collect();
    let [mean] = interval::drawn(sums.len(), &|held| {
        let add = |all: (f64, f64), day: &(f64, f64)| (all.0 + day.0, all.1 + day.1);
        let (sum, count) = held.filter_map(|day| sums.get(day)).fold((0.0, 0.0), add);
        [sum / f64::max(count, 1.0)]
    });
    mean
}

/// How many times as long as its run a job held its place, and whether that is more than an SLO allows. A run of some milliseconds is held for whole ones, so one more does not count.
pub(crate) fn slowdown(held_ms: i64, run_ms: i64, slo: f64) -> (f64, bool) {
    let slowdown = held_ms as f64 / run_ms.max(1) as f64;
    (slowdown, slowdown > slo + 1e-3 && held_ms - run_ms > 1)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Submission and run in milliseconds, and kind.
    pub(crate) fn jobs(of: &[(i64, i64, u16)]) -> TypedJobs {
        TypedJobs {
            submit_ms: of.iter().map(|job| job.0).collect(),
            run_ms: of.iter().map(|job| job.1).collect(),
            kind: of.iter().map(|job| job.2).collect(),
        }
    }

    #[test]
    fn what_is_known_at_a_moment_ends_there() {
        let jobs = TypedJobs { submit_ms: vec![0, 5, 6, 20], run_ms: vec![10, 100, 3, 4], kind: vec![0, 1, 0, 1] };
        // The second still runs, the third waited until 12, the fourth comes later.
        let all = OneGpuJobs { started_ms: vec![0, 5, 12, 20], still_ran: vec![false; 4], ..OneGpuJobs::default() };
        let (known, ended) = known_at(&all, &jobs, 12);
        assert_eq!((known.submit_ms, known.run_ms, known.kind), (vec![0, 5], vec![10, 7], vec![0, 1]));
        assert_eq!(ended, [0]);
    }

    #[test]
    fn who_still_runs_at_the_end_is_there_and_is_not_scored() {
        let mut all = OneGpuJobs::default();
        for job in 0..500 {
            all.jobs.submit_ms.push(job);
            all.jobs.run_ms.push(if job == 3 { 10_000 } else { 1 });
            all.jobs.kind.push(0);
            all.started_ms.push(job);
            all.still_ran.push(job == 3 || job == 499);
            all.keys.push(job.to_string());
            all.names.push((job == 5).then(|| "wide".to_owned()));
        }
        let result = parts(&all, &all.jobs, Some(300)).unwrap();
        assert!(result.known.run_ms.contains(&297) && !result.earlier.contains(&3) && result.earlier.len() == 299);
        assert_eq!((result.later.len(), result.later.last()), (199, Some(&498)));
        assert!(all.notes(0, "", 1).iter().any(|note| note.starts_with("2 jobs still ran")));
        assert_eq!((all.without(&["wide".to_owned()]), all.names.len(), all.jobs.submit_ms[5]), (1, 499, 6));
    }

    /// Regression test: jobs without GPUs were counted with those of other sizes, and nothing said
    /// what was at stake.
    #[test]
    fn who_is_left_out_is_told_apart() {
        let names = vec![None; 3];
        let all = OneGpuJobs {
            names,
            left_out: 13,
            without_gpus: 8,
            larger: 4,
            gpu_time: Some(0.25),
            ..OneGpuJobs::default()
        };
        assert_eq!(
            all.notes(0, "", 1),
            [
                "3 jobs of one GPU are replayed; jobs of one GPU hold 25.0 % of the trace's GPU-hours, and no more is at stake here. Left out: 8 without GPUs; 4 of more than one GPU; 1 of a part of one, of unknown size or without times."
            ]
        );
        assert_eq!(OneGpuJobs::default().notes(0, "", 1), ["0 jobs of one GPU are replayed. None is left out."]);
        assert_eq!(mostly_drawn(0.0, "its jobs"), "all of its jobs");
        assert_eq!(mostly_drawn(0.3, "its jobs"), "most of its jobs, by GPU time,");
    }

    #[test]
    fn names_that_are_types_count_by_their_gpu_time() {
        let jobs = TypedJobs { submit_ms: vec![0, 0, 0], run_ms: vec![10, 25, 5], kind: Vec::new() };
        let names = vec![Some("a".to_owned()), Some("x".to_owned()), Some("b".to_owned())];
        let all = OneGpuJobs { jobs, names, ..OneGpuJobs::default() };
        let (jobs, is_named) = all.with_kinds(&["a".to_owned(), "b".to_owned()], 2, 1);
        assert_eq!((is_named.as_slice(), jobs.kind[0], jobs.kind[2]), (&[true, false, true][..], 0, 1));
        assert!((named_share(&jobs, &is_named) - 0.375).abs() < 1e-12);
    }
}
