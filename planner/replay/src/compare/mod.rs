//! Schedules of the same jobs under several policies, job by job.
//!
//! Every policy replays the same jobs (common random numbers), so differences are taken for each job and only then averaged:
//! what all policies have in common cancels. Intervals (95 %) are by a moving-block bootstrap over
//! the jobs in submit order: blocks as long as the mean number of jobs a day, at least n^(1/3), at most n/10. A trace of a few days
//! has few blocks, and its intervals are too narrow rather than too wide. How much hangs on the order of jobs of one second is another
//! question ([`ties`]), and so is whether a difference comes from one episode ([`pair`]).
//!
//! O(n log n) a policy; a resample costs O(n / 256 + stretches · log stretches + jobs beyond the quantile) of each.
//!
//! Jobs that are not counted, or did not finish under every policy, are left out of the differences; their number is given. Bounded
//! slowdown is that of [`JobTimes`].
//!
//! Worked number: two jobs wait 100 and 20 s under the first policy, 40 and 30 s under the second: the differences −60 and +10 have
//! the mean −25 s, half of the jobs wait less and half more.

pub mod mean;
pub mod pair;
mod resampled;
pub mod ties;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tracecast_analytics::report::format;
use tracecast_analytics::stats::interval;

use super::metric::JobTimes;
use crate::error::{Error, Result};
pub use pair::{Episode, PairedWait, pairs};
use resampled::{Drawn, Ranked, Running};
pub use ties::{TieBand, TieBreak, permute_ties};
use tracecast_analytics::stats::resample::{Blocks, block_length};
use tracecast_sim::workload::Workload;

/// Resamples of the bootstrap.
pub const RESAMPLES: usize = 1_000;
/// The quantile of the wait that is compared.
const TAIL: f64 = 0.95;
/// Slowdowns are added as whole millionths.
const MICRO: f64 = 1e6;

/// A figure and its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Estimate")]
pub struct IntervalEstimate {
    /// The figure.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

impl IntervalEstimate {
    /// A figure with the middle 95 % of what resamples gave; `None` without resamples.
    pub fn new(value: f64, mut resampled: Vec<f64>) -> Option<Self> {
        let (low, high) = interval::percentile(&mut resampled)?;
        Some(Self { value, low, high })
    }

    /// A figure without any spread.
    pub fn certain(value: f64) -> Self {
        Self { value, low: value, high: value }
    }

    /// Returns the estimate with the other sign: a saving as a change of the cost.
    #[must_use]
    pub fn negated(&self) -> Self {
        Self { value: -self.value, low: -self.high, high: -self.low }
    }

    /// A change of a duration and its interval: `−3 h (−5 h to +1 h)`.
    pub fn as_durations(&self) -> String {
        format!("{} ({})", format::duration_change(self.value), self.ends_as_durations())
    }

    /// The interval alone: `−5 h to +1 h`.
    pub fn ends_as_durations(&self) -> String {
        format!("{} to {}", format::duration_change(self.low), format::duration_change(self.high))
    }

    /// Whether the interval leaves out `value`.
    pub fn excludes(&self, value: f64) -> bool {
        value < self.low || value > self.high
    }
}

/// Difference between two policies for the same jobs; negative differences are gains.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Difference {
    /// The other policy.
    pub name: String,
    /// Mean of wait − wait under the first, seconds.
    pub mean_wait_s: IntervalEstimate,
    /// Mean of JCT − JCT under the first, seconds.
    pub mean_jct_s: IntervalEstimate,
    /// 95 % quantile of the wait less that under the first, seconds.
    pub p95_wait_s: IntervalEstimate,
    /// Mean bounded slowdown / that under the first.
    pub slowdown_ratio: IntervalEstimate,
    /// Share of jobs that wait less.
    pub less_wait_share: f64,
    /// Share of jobs that wait longer.
    pub more_wait_share: f64,
}

/// Several policies against the first.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Comparison {
    /// The first policy.
    pub baseline: String,
    /// Jobs that are compared.
    pub jobs: u64,
    /// Counted jobs that are left out because they did not finish under every policy.
    pub left_out: u64,
    /// Block length of the bootstrap, jobs.
    pub block_jobs: u64,
    /// Resamples.
    pub resamples: u64,
    /// The others, in the order given; empty where no job can be compared.
    pub differences: Vec<Difference>,
}

/// The columns of one policy over the jobs compared, and its resamples.
struct Columns {
    wait_ms: Vec<i64>,
    whole: Figures,
    resampled: Vec<Figures>,
}

/// Sums and quantile of all jobs, or of a resample of them.
struct Figures {
    /// Sums, milliseconds.
    wait: i128,
    jct: i128,
    /// Sum, millionths.
    slowdown: i128,
    /// Quantile of the wait, milliseconds.
    tail: f64,
}

impl Columns {
    fn of(workload: &Workload, times: &JobTimes, jobs: &[usize], blocks: &Blocks) -> Self {
        let running =
            |of: &dyn Fn(usize) -> Option<i64>| Running::new(jobs.iter().map(|job| of(*job).unwrap_or_default()));
        let wait_ms: Vec<i64> = jobs.iter().map(|job| times.wait_ms(*job).unwrap_or_default()).collect();
        let wait = Running::new(wait_ms.iter().copied());
        let jct = running(&|job| times.jct_ms.get(job).copied().flatten());
        let slowdown = running(&|job| {
            let slowdown = times.slowdown(job, workload.run_ms.get(job).copied()?)?;
            Some((slowdown * MICRO).round() as i64)
        });
        let ranked = Ranked::new(wait_ms.iter().copied());
        let figures = |stretches: &[(usize, usize)]| Figures {
            wait: wait.over(stretches),
            jct: jct.over(stretches),
            slowdown: slowdown.over(stretches),
            tail: ranked.quantile(TAIL, &Drawn::new(jobs.len(), stretches)).unwrap_or_default(),
        };
        Self { whole: figures(&[(0, jobs.len())]), resampled: blocks.resample(RESAMPLES, figures), wait_ms }
    }
}

/// Compares policies by what they did to each job of `workload`: the first of `policies` (name and times) with each of the
/// others. `seed` is the bootstrap's.
///
/// # Errors
/// If there is no policy, or one's times are not of this workload.
pub fn compare(workload: &Workload, policies: &[(&str, &JobTimes)], seed: u64) -> Result<Comparison> {
    let Some((baseline, first)) = policies.first() else {
        return Err(Error::NoScenario("there is nothing to compare: name at least one policy"));
    };
    if let Some((name, _)) = policies.iter().find(|(_, times)| times.len() != workload.len()) {
        return Err(Error::Defect(format!("the schedule of `{name}` is not of these jobs")));
    }
    let counted = (0..workload.len()).filter(|job| first.is_counted(*job));
    let (jobs, left_out): (Vec<usize>, Vec<usize>) =
        counted.partition(|job| policies.iter().all(|(_, times)| times.wait_ms(*job).is_some()));
    let (blocks, length) = blocks(workload, &jobs, seed);
    let columns = |times: &JobTimes| Columns::of(workload, times, &jobs, &blocks);
    let base = columns(first);
    let others = policies.iter().skip(1).filter_map(|(name, times)| difference(name, &base, &columns(times)));
    Ok(Comparison {
        baseline: (*baseline).to_owned(),
        jobs: jobs.len() as u64,
        left_out: left_out.len() as u64,
        block_jobs: length as u64,
        resamples: RESAMPLES as u64,
        differences: others.collect(),
    })
}

/// Blocks of some jobs in the order of their submission, and their length.
fn blocks(workload: &Workload, jobs: &[usize], seed: u64) -> (Blocks, usize) {
    let submit = |job: Option<&usize>| job.and_then(|job| workload.submit_ms.get(*job)).copied().unwrap_or(0);
    let length = block_length(jobs.len(), submit(jobs.last()) - submit(jobs.first()));
    (Blocks::new(jobs.len(), length, seed), length)
}

/// `None` if there are no jobs.
fn difference(name: &str, base: &Columns, other: &Columns) -> Option<Difference> {
    let jobs = base.wait_ms.len();
    if jobs == 0 {
        return None;
    }
    let mean_s = |total: i128| total as f64 / jobs as f64 / 1000.0;
    let estimate = |of: &dyn Fn(&Figures, &Figures) -> f64| {
        let resampled = other.resampled.iter().zip(&base.resampled).map(|(other, base)| of(other, base));
        IntervalEstimate::new(of(&other.whole, &base.whole), resampled.collect())
    };
    let share = |of: fn(i64, i64) -> bool| {
        let such = other.wait_ms.iter().zip(&base.wait_ms).filter(|(other, base)| of(**other, **base));
        such.count() as f64 / jobs as f64
    };
    Some(Difference {
        name: name.to_owned(),
        mean_wait_s: estimate(&|other, base| mean_s(other.wait - base.wait))?,
        mean_jct_s: estimate(&|other, base| mean_s(other.jct - base.jct))?,
        p95_wait_s: estimate(&|other, base| (other.tail - base.tail) / 1000.0)?,
        slowdown_ratio: estimate(&|other, base| other.slowdown as f64 / base.slowdown as f64)?,
        less_wait_share: share(|other, base| other < base),
        more_wait_share: share(|other, base| other > base),
    })
}

/// The sum of a column in the order of submission, with an interval by the same blocks as differences have: `None` without rows. `span_ms` is from
/// the first submission to the last. Values are counted in whole thousandths. O(n log n) at most, and O(n / block) a resample.
pub fn total(values: &[f64], span_ms: i64, seed: u64) -> Option<IntervalEstimate> {
    const MILLI: f64 = 1e3;
    let running = Running::new(values.iter().map(|value| (value * MILLI).round() as i64));
    let blocks = Blocks::new(values.len(), block_length(values.len(), span_ms), seed);
    let sum = |total: i128| total as f64 / MILLI;
    (!values.is_empty()).then_some(())?;
    let resampled = blocks.resample(RESAMPLES, |stretches| sum(running.over(stretches)));
    IntervalEstimate::new(sum(running.total()), resampled)
}

/// The share of the gap between fewest-GPUs-first, which predicts nothing, and an oracle that knows true durations which a
/// policy closes: (fewest − this) / (fewest − oracle), of mean waits (or any figure of which less is better). Negative if it is
/// worse than no prediction; `None` unless the oracle is better than fewest-GPUs-first, as there is no gap then.
pub fn gap_closed(fewest_gpus: f64, this: f64, oracle: f64) -> Option<f64> {
    let gap = fewest_gpus - oracle;
    (gap > 0.0 && this.is_finite()).then(|| (fewest_gpus - this) / gap)
}

/// Figures that policies are weighed by: the wait of jobs, on average and at worst.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Merit {
    /// Mean wait, seconds; less is better.
    pub mean_wait_s: f64,
    /// 95 % quantile of the wait, seconds; less is better.
    pub p95_wait_s: f64,
}

impl Merit {
    /// Whether this is at least as good in everything and better in something. Fairness has no
    /// place here: an index over users that is low under every policy would keep a policy that
    /// waits longer throughout.
    pub fn dominates(&self, other: &Self) -> bool {
        let pairs = [(self.mean_wait_s, other.mean_wait_s), (self.p95_wait_s, other.p95_wait_s)];
        pairs.iter().all(|(a, b)| a <= b) && pairs.iter().any(|(a, b)| a < b)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(super) mod tests {
    use super::*;
    use tracecast_sim::schedule::Outcome;
    use tracecast_sim::workload::{Shape, Warm};

    /// Jobs of 100 s, one a minute, that wait so many seconds; `None` never ends.
    pub(super) fn waits(seconds: &[Option<i64>]) -> JobTimes {
        JobTimes::of_rows(seconds.iter().map(|wait| {
            let outcome = if wait.is_some() { Outcome::Finished } else { Outcome::Stranded };
            (outcome, true, wait.map(|wait| (wait * 1000 + 100_000, wait * 1000)))
        }))
    }

    pub(super) fn jobs(n: i64) -> Workload {
        let mut jobs = Workload::default();
        for job in 0..n {
            jobs.push(job * 60_000, 100_000, Shape::whole(1));
        }
        jobs
    }

    #[test]
    fn differences_by_hand() {
        let first = waits(&[Some(100), Some(20), None, Some(7)]);
        let other = waits(&[Some(40), Some(30), Some(5), Some(7)]);
        let compared = compare(&jobs(4), &[("a", &first), ("b", &other)], 1).unwrap();
        assert_eq!((compared.jobs, compared.left_out, compared.block_jobs), (3, 1, 1));
        let b = &compared.differences[0];
        // −60 + 10 + 0 over three jobs.
        assert!((b.mean_wait_s.value + 50.0 / 3.0).abs() < 1e-9);
        assert_eq!(b.mean_wait_s.value, b.mean_jct_s.value);
        // Quantiles of 7, 30, 40 and 7, 20, 100: h = 1.9, 30 + 9 = 39 and 20 + 72 = 92.
        assert!((b.p95_wait_s.value - (39.0 - 92.0)).abs() < 1e-9);
        // Slowdowns 1.4, 1.3, 1.07 against 2, 1.2, 1.07.
        assert!((b.slowdown_ratio.value - 3.77 / 4.27).abs() < 1e-9);
        assert!((b.less_wait_share - 1.0 / 3.0).abs() < 1e-12 && (b.more_wait_share - 1.0 / 3.0).abs() < 1e-12);
        // Blocks of one of three jobs: the least resampled mean is −60, the greatest 10.
        assert_eq!((b.mean_wait_s.low, b.mean_wait_s.high), (-60.0, 10.0));
    }

    #[test]
    fn the_same_schedule_differs_by_exactly_nothing() {
        let waited: Vec<Option<i64>> = (0..500).map(|job| Some(job * 7919 % 1013)).collect();
        let times = waits(&waited);
        let same = compare(&jobs(500), &[("a", &times), ("b", &times)], 5).unwrap();
        let none = IntervalEstimate { value: 0.0, low: 0.0, high: 0.0 };
        let b = &same.differences[0];
        assert_eq!((b.mean_wait_s, b.mean_jct_s, b.p95_wait_s), (none, none, none));
        assert_eq!(b.slowdown_ratio, IntervalEstimate { value: 1.0, low: 1.0, high: 1.0 });
        assert_eq!((b.less_wait_share, b.more_wait_share), (0.0, 0.0));
    }

    #[test]
    fn a_constant_gain_has_no_spread_but_an_alternating_one_has() {
        let base = waits(&vec![Some(50); 400]);
        let constant = waits(&vec![Some(40); 400]);
        let alternating = waits(&(0..400).map(|job| Some(if job / 40 % 2 == 0 { 0 } else { 80 })).collect::<Vec<_>>());
        let compared = compare(&jobs(400), &[("a", &base), ("b", &constant), ("c", &alternating)], 5).unwrap();
        let (b, c) = (&compared.differences[0].mean_wait_s, &compared.differences[1].mean_wait_s);
        assert_eq!((b.value, b.low, b.high), (-10.0, -10.0, -10.0));
        // Half of the jobs gain 50, half lose 30: −10 in the mean, but hardly to be told from nothing.
        assert_eq!(c.value, -10.0);
        assert!(c.low < -10.0 && c.high > -10.0 && b.excludes(0.0) && !c.excludes(0.0), "{c:?}");
    }

    #[test]
    fn what_cannot_be_compared() {
        let nothing = waits(&[None, None]);
        let compared = compare(&jobs(2), &[("a", &nothing), ("b", &nothing)], 1).unwrap();
        assert_eq!((compared.jobs, compared.left_out, compared.differences.len()), (0, 2, 0));
        assert!(compare(&jobs(2), &[], 1).is_err());
        assert!(compare(&jobs(3), &[("a", &nothing)], 1).is_err());
    }

    #[test]
    fn warm_jobs_are_not_compared() {
        let mut workload = jobs(2);
        workload.warm.push(Warm { job: 0, start_ms: -5 });
        let rows = |warm_wait: i64| {
            JobTimes::of_rows([
                (Outcome::Finished, false, Some((warm_wait + 100, warm_wait))),
                (Outcome::Finished, true, Some((100_000, 0))),
            ])
        };
        let compared = compare(&workload, &[("a", &rows(0)), ("b", &rows(900))], 1).unwrap();
        assert_eq!((compared.jobs, compared.left_out, compared.differences[0].mean_wait_s.value), (1, 0, 0.0));
    }

    #[test]
    fn gaps() {
        // Fewest 200, oracle 100: 150 closes half; worse than fewest is negative; no gap is none.
        assert_eq!(gap_closed(200.0, 150.0, 100.0), Some(0.5));
        assert_eq!(gap_closed(200.0, 220.0, 100.0), Some(-0.2));
        assert_eq!(gap_closed(100.0, 100.0, 100.0), None);
        assert_eq!(gap_closed(100.0, 90.0, 120.0), None);
    }

    #[test]
    fn what_is_as_good_in_both_and_better_in_one_dominates() {
        let merit = |mean_wait_s, p95_wait_s| Merit { mean_wait_s, p95_wait_s };
        // The third is worse than the first in both; the second has the better tail; the fourth has the tail of the first and waits longer on
        // average; the fifth equals the first, and neither dominates the other.
        let merits = [merit(1.0, 9.0), merit(2.0, 5.0), merit(3.0, 9.5), merit(9.0, 9.0), merit(1.0, 9.0)];
        let beaten = |merit: &Merit| merits.iter().any(|other| other.dominates(merit));
        assert_eq!(merits.each_ref().map(beaten), [false, false, true, true, false]);
    }
}
