//! The figures of a group of jobs.
//!
//! Quantiles are of type 7 ([`tracecast_analytics::stats::quantile`]) over the jobs that finished. O(n) a grouping.
//!
//! Worked number: waits of 0, 10 and 20 s have the mean and median 10 s and the 95 % quantile 10 + 0.9 · 10 = 19 s.

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::facts::SizeClass;
use tracecast_analytics::stats::{quantile, sum};

use super::times::JobTimes;
use tracecast_sim::schedule::{Outcome, Schedule};
use tracecast_sim::workload::Workload;

/// A class of true run times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub enum DurationClass {
    /// Less than 1 min.
    #[serde(rename = "<1 min")]
    Minute,
    /// 1 min to less than 10 min.
    #[serde(rename = "1-10 min")]
    Minutes,
    /// 10 min to less than 1 h.
    #[serde(rename = "10-60 min")]
    Hour,
    /// 1 h to less than 6 h.
    #[serde(rename = "1-6 h")]
    Hours,
    /// 6 h to less than 24 h.
    #[serde(rename = "6-24 h")]
    Day,
    /// A day or longer.
    #[serde(rename = ">1 d")]
    Days,
}

impl DurationClass {
    /// All classes, shortest first.
    pub const ALL: [Self; 6] = [Self::Minute, Self::Minutes, Self::Hour, Self::Hours, Self::Day, Self::Days];

    /// The class of a run.
    pub fn new(run_ms: i64) -> Self {
        match run_ms {
            ..60_000 => Self::Minute,
            60_000..600_000 => Self::Minutes,
            600_000..3_600_000 => Self::Hour,
            3_600_000..21_600_000 => Self::Hours,
            21_600_000..86_400_000 => Self::Day,
            _ => Self::Days,
        }
    }

    /// Name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Minute => "under 1 min",
            Self::Minutes => "1–10 min",
            Self::Hour => "10–60 min",
            Self::Hours => "1–6 h",
            Self::Day => "6–24 h",
            Self::Days => "1 day and over",
        }
    }
}

/// Times of jobs, seconds. In JSON the unit stands in the name of what they are times of (`wait_s.mean`).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Times {
    /// Mean.
    #[serde(rename = "mean")]
    pub mean_s: f64,
    /// Median.
    #[serde(rename = "median")]
    pub median_s: f64,
    /// 95 % quantile.
    #[serde(rename = "p95")]
    pub p95_s: f64,
    /// 99 % quantile.
    #[serde(rename = "p99")]
    pub p99_s: f64,
}

impl Times {
    /// Computes the figures of values; `None` without any.
    pub fn of(mut values_s: Vec<f64>) -> Option<Self> {
        let mean_s = sum::mean(&values_s)?;
        let result: Option<Vec<f64>> =
            quantile::quantiles_in_place(&mut values_s, &[0.5, 0.95, 0.99]).into_iter().collect();
        let &[median_s, p95_s, p99_s] = result?.as_slice() else { return None };
        Some(Self { mean_s, median_s, p95_s, p99_s })
    }
}

/// Bounded slowdown of jobs, a ratio of at least 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Slowdown {
    /// Mean.
    pub mean: f64,
    /// 95 % quantile.
    pub p95: f64,
}

/// The figures of a group of jobs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Group")]
pub struct GroupFigures {
    /// Jobs.
    pub jobs: u64,
    /// Jobs that ran to their end; wait, JCT and slowdown are theirs.
    pub finished: u64,
    /// Could never run in their pool.
    pub rejected: u64,
    /// Had not ended when nothing was left to happen.
    pub stranded: u64,
    /// GPU time they held, work that was lost or repeated included, GPU-hours.
    pub gpu_hours: f64,
    /// Time between submission and end in which they held no GPU, seconds.
    #[serde(rename = "wait_s")]
    pub wait: Option<Times>,
    /// Submission to end, seconds.
    #[serde(rename = "jct_s")]
    pub jct: Option<Times>,
    /// max(1, JCT / max(true run, 10 s)).
    pub bounded_slowdown: Option<Slowdown>,
    /// Preemptions.
    pub preemptions: u64,
    /// Starts from the queue after a failure of a node.
    pub restarts: u64,
}

impl GroupFigures {
    /// No jobs.
    pub(super) fn empty() -> Self {
        Gather::default().group()
    }
}

/// The figures of one size class.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct OfSize {
    /// The size class.
    pub size: SizeClass,
    /// Figures of the class.
    #[serde(flatten)]
    pub group: GroupFigures,
}

/// The figures of one duration class.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct OfDuration {
    /// The duration class.
    pub duration: DurationClass,
    /// Figures of the class.
    #[serde(flatten)]
    pub group: GroupFigures,
}

/// The figures of a VC or a user.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct OfName {
    /// Name of the VC or user.
    pub name: String,
    /// Figures of the group.
    #[serde(flatten)]
    pub group: GroupFigures,
}

/// Figures of a group that is being gathered.
#[derive(Debug, Clone, Default)]
struct Gather {
    jobs: u64,
    rejected: u64,
    stranded: u64,
    /// Thousandths of GPUs × milliseconds.
    held: u128,
    wait_s: Vec<f64>,
    jct_s: Vec<f64>,
    slowdown: Vec<f64>,
    preemptions: u64,
    restarts: u64,
}

impl Gather {
    fn group(self) -> GroupFigures {
        let finished = self.jct_s.len() as u64;
        let slowdown_mean = sum::mean(&self.slowdown);
        let mut slowdown = self.slowdown;
        let p95 = quantile::quantiles_in_place(&mut slowdown, &[0.95]).pop().flatten();
        GroupFigures {
            jobs: self.jobs,
            finished,
            rejected: self.rejected,
            stranded: self.stranded,
            gpu_hours: gpu_hours(self.held),
            wait: Times::of(self.wait_s),
            jct: Times::of(self.jct_s),
            bounded_slowdown: slowdown_mean.zip(p95).map(|(mean, p95)| Slowdown { mean, p95 }),
            preemptions: self.preemptions,
            restarts: self.restarts,
        }
    }
}

/// Thousandths of GPUs × milliseconds as GPU-hours.
pub(super) fn gpu_hours(held: u128) -> f64 {
    held as f64 / 3_600_000_000.0
}

/// The figures of `groups` groups; `of` says to which a job belongs. Groups without jobs are `None`.
pub(super) fn groups(
    workload: &Workload,
    schedule: &Schedule,
    times: &JobTimes,
    groups: usize,
    of: impl Fn(usize) -> Option<usize>,
) -> Vec<Option<GroupFigures>> {
    let mut gathered = vec![Gather::default(); groups];
    for job in (0..times.len()).filter(|job| times.is_counted(*job)) {
        let Some(gather) = of(job).and_then(|at| gathered.get_mut(at)) else { continue };
        gather.jobs += 1;
        match times.outcome.get(job) {
            Some(Outcome::Rejected) => gather.rejected += 1,
            Some(Outcome::Stranded) => gather.stranded += 1,
            _ => {}
        }
        let held = times.held_ms.get(job).map_or(0, |held| held.unsigned_abs());
        gather.held += u128::from(held) * u128::from(workload.shape_of(job).amount());
        gather.preemptions += u64::from(schedule.preemptions.get(job).copied().unwrap_or(0));
        gather.restarts += u64::from(schedule.restarts.get(job).copied().unwrap_or(0));
        let run = workload.run_ms.get(job).copied().unwrap_or(0);
        if let (Some(wait), Some(jct), Some(slowdown)) =
            (times.wait_ms(job), times.jct_ms.get(job).copied().flatten(), times.slowdown(job, run))
        {
            gather.wait_s.push(wait as f64 / 1000.0);
            gather.jct_s.push(jct as f64 / 1000.0);
            gather.slowdown.push(slowdown);
        }
    }
    gathered.into_iter().map(|gather| (gather.jobs > 0).then(|| gather.group())).collect()
}
