//! Mean waits of the same jobs under many policies, of which any two can be compared without the waits of their jobs being kept.
//!
//! Each policy leaves the sum of its waits over every resample, and all are resampled by the same stretches of jobs: the difference of two sums is the sum of the differences job by job. These are the intervals of
//! [`compare`](super::compare), of mean waits alone.
//!
//! O(jobs + resamples × stretches) a policy, and a number a resample is kept. Worked number: two jobs in blocks of one wait 100 and 20 s under the first policy, 40 and 30 s under the second: the mean
//! difference is −25 s, and of resamples with either job twice it is −60 and +10 s.

use super::resampled::Running;
use super::{IntervalEstimate, RESAMPLES, blocks};
use crate::metric::JobTimes;
use tracecast_analytics::stats::resample::Blocks;
use tracecast_sim::workload::Workload;

/// The jobs that are compared, and how they are resampled.
#[derive(Debug, Clone)]
pub struct MeanWaits {
    jobs: Vec<usize>,
    blocks: Blocks,
}

/// Sums of the waits of these jobs under one policy, milliseconds.
#[derive(Debug, Clone)]
pub struct SummedWaits {
    jobs: usize,
    whole: i128,
    resampled: Vec<i128>,
}

impl MeanWaits {
    /// Takes the jobs that count and finish under the first policy. `seed` is the bootstrap's.
    pub fn new(workload: &Workload, first: &JobTimes, seed: u64) -> Self {
        let jobs: Vec<usize> =
            (0..workload.len()).filter(|job| first.is_counted(*job) && first.wait_ms(*job).is_some()).collect();
        Self { blocks: blocks(workload, &jobs, seed).0, jobs }
    }

    /// Sums the waits under a policy; nothing where one of the jobs never finishes under it.
    pub fn under(&self, times: &JobTimes) -> Option<SummedWaits> {
        let waits: Option<Vec<i64>> = self.jobs.iter().map(|job| times.wait_ms(*job)).collect();
        let running = Running::new(waits?.into_iter());
        let resampled = self.blocks.resample(RESAMPLES, |stretches| running.over(stretches));
        Some(SummedWaits { jobs: self.jobs.len(), whole: running.total(), resampled })
    }
}

impl SummedWaits {
    /// Mean wait less that under another policy, seconds; nothing without jobs.
    pub fn less(&self, other: &Self) -> Option<IntervalEstimate> {
        if self.jobs == 0 || self.jobs != other.jobs {
            return None;
        }
        let mean_s = |own: i128, other: i128| (own - other) as f64 / self.jobs as f64 / 1e3;
        let drawn = self.resampled.iter().zip(&other.resampled).map(|(own, other)| mean_s(*own, *other));
        IntervalEstimate::new(mean_s(self.whole, other.whole), drawn.collect())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::compare;
    use super::super::tests::{jobs, waits};
    use super::*;

    #[test]
    fn the_worked_number() {
        let (first, other) = (waits(&[Some(100), Some(20)]), waits(&[Some(40), Some(30)]));
        let means = MeanWaits::new(&jobs(2), &first, 1);
        let less = means.under(&other).unwrap().less(&means.under(&first).unwrap()).unwrap();
        assert_eq!(less, IntervalEstimate { value: -25.0, low: -60.0, high: 10.0 });
    }

    /// The figures of the comparison that keeps every wait.
    #[test]
    fn intervals_are_those_of_the_comparison() {
        let drawn = |factor: i64| waits(&(0..700).map(|job| Some(job * factor % 1013)).collect::<Vec<_>>());
        let (first, other) = (drawn(7919), drawn(104_729));
        let means = MeanWaits::new(&jobs(700), &first, 9);
        let less = means.under(&other).unwrap().less(&means.under(&first).unwrap()).unwrap();
        let compared = compare(&jobs(700), &[("a", &first), ("b", &other)], 9).unwrap();
        assert_eq!(less, compared.differences[0].mean_wait_s);
        assert!(less.low < less.value && less.value < less.high);
    }

    #[test]
    fn a_job_that_never_finishes_leaves_nothing_to_compare() {
        let (first, other) = (waits(&[Some(1), None, Some(3)]), waits(&[Some(1), Some(5), None]));
        let means = MeanWaits::new(&jobs(3), &first, 1);
        assert!(means.under(&first).is_some() && means.under(&other).is_none());
        let none = MeanWaits::new(&jobs(1), &waits(&[None]), 1);
        let nothing = none.under(&waits(&[None])).unwrap();
        assert_eq!(nothing.less(&nothing), None);
    }
}
