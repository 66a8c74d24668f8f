//! How jobs fared in a replay with sharing, in figures: what the answers of `plan share couples`
//! and of `simulate --share` have in common.
//!
//! **Wait** is all time in the queue, **delay** from submission to end less the run, **slowdown** the time on a GPU over the run. Jobs lose that end later than with nobody sharing, by
//! more than 1 % of their run.
//!
//! O(jobs log jobs). Worked number: a job that ran 60 min alone and 75 beside others, after 10 in the queue, has a wait of 10 min, a slowdown of 1.25, and a delay of 25 min.

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::stats::quantile::quantile;
use tracecast_predictors::interference::share::SharingLimits;

use super::engine::{SharingRule, SharingTimes};
use super::evidence::PairEvidence;
use crate::one_gpu::{TypedJobs, mean_change, slowdown};
use crate::plan::interval;
use crate::replay::compare::IntervalEstimate;

/// Share of its delay by which a job must be later to have lost.
const LOST: f64 = 0.01;

/// How jobs fared.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct SharingFigures {
    /// Mean time in the queue, seconds.
    pub mean_wait_s: f64,
    /// 95 % quantile of it.
    pub p95_wait_s: f64,
    /// Mean time from submission to end less the run alone, seconds.
    pub mean_delay_s: f64,
    /// 95 % quantile of it.
    pub p95_delay_s: f64,
    /// Share of the jobs that were beside another for any time.
    pub shared: f64,
    /// 0.9 quantile of the slowdown of those; none where nobody shared.
    pub slowdown90: Option<f64>,
    /// Share of those that were slower than the SLO allows.
    pub over_slo: f64,
    /// How often a job did not fit beside another and failed.
    pub failed: u64,
    /// How often one was taken out after a trial.
    pub taken_out: u64,
}

/// Some jobs, counted.
#[derive(Debug, Clone, Default)]
pub(super) struct Counted {
    /// How many were asked for.
    jobs: usize,
    /// Time in the queue of each, seconds.
    pub(super) waits_s: Vec<f64>,
    /// Time from submission to end less the run alone of each.
    delays_s: Vec<f64>,
    /// Slowdown of each job that was beside another for any time.
    pub(super) slowdowns: Vec<f64>,
    /// How many of those were slower than the SLO allows.
    pub(super) over_slo: usize,
    failed: u64,
    taken_out: u64,
}

impl Counted {
    /// Counts the jobs at these places.
    pub(super) fn new(jobs: &TypedJobs, times: &[SharingTimes], which: &[usize], slo: f64) -> Self {
        let mut counted = Self { jobs: which.len(), ..Self::default() };
        for job in which {
            let (Some(times), Some(submit), Some(run)) =
                (times.get(*job), jobs.submit_ms.get(*job), jobs.run_ms.get(*job))
            else {
                continue;
            };
            counted.waits_s.push(times.wait_ms(*submit) as f64 / 1e3);
            counted.delays_s.push((times.end_ms - submit - run) as f64 / 1e3);
            counted.failed += u64::from(times.failed);
            counted.taken_out += u64::from(times.taken_out);
            if times.shared_ms > 0 {
                let (slowdown, is_over) = slowdown(times.held_ms, *run, slo);
                counted.over_slo += usize::from(is_over);
                counted.slowdowns.push(slowdown);
            }
        }
        counted
    }

    /// Figures of the counted jobs.
    pub(super) fn figures(&self) -> SharingFigures {
        let share = |part: usize, of: usize| if of == 0 { 0.0 } else { part as f64 / of as f64 };
        SharingFigures {
            mean_wait_s: interval::average(self.waits_s.iter().copied()),
            p95_wait_s: quantile(&self.waits_s, 0.95).unwrap_or_default(),
            mean_delay_s: interval::average(self.delays_s.iter().copied()),
            p95_delay_s: quantile(&self.delays_s, 0.95).unwrap_or_default(),
            shared: share(self.slowdowns.len(), self.jobs),
            slowdown90: quantile(&self.slowdowns, 0.9),
            over_slo: share(self.over_slo, self.slowdowns.len()),
            failed: self.failed,
            taken_out: self.taken_out,
        }
    }
}

/// Figures of some jobs.
pub(super) fn figures(jobs: &TypedJobs, times: &[SharingTimes], which: &[usize], slo: f64) -> SharingFigures {
    Counted::new(jobs, times, which, slo).figures()
}

/// The 95 % wait of some jobs, seconds.
pub(super) fn p95_wait_s(jobs: &TypedJobs, times: &[SharingTimes], which: &[usize]) -> f64 {
    let wait = |job: &usize| Some(times.get(*job)?.wait_ms(*jobs.submit_ms.get(*job)?) as f64 / 1e3);
    quantile(&which.iter().filter_map(wait).collect::<Vec<_>>(), 0.95).unwrap_or_default()
}

/// Couples of kinds that a rule lets share, and how many of them keep what is asked.
pub(super) fn couples(evidence: &PairEvidence, rule: &SharingRule, limits: &SharingLimits) -> (usize, usize) {
    let kept = |(a, b): &(usize, usize)| {
        evidence.speeds(*a, *b).is_some_and(|(x, y)| x + y > 1.0 && 1.0 / x.min(y) <= limits.slo)
    };
    let allowed: Vec<(usize, usize)> =
        evidence.couples().filter(|(a, b)| rule.preference(*a, *b).or(rule.preference(*b, *a)).is_some()).collect();
    (allowed.len(), allowed.iter().filter(|couple| kept(couple)).count())
}

/// Mean changes of wait and of delay against nobody sharing (`base`), seconds, with intervals over days drawn anew.
pub(super) fn changes(
    jobs: &TypedJobs,
    days: &[Vec<usize>],
    base: &[SharingTimes],
    times: &[SharingTimes],
) -> [IntervalEstimate; 2] {
    let both = |job: usize| Some((times.get(job)?, base.get(job)?));
    let wait = mean_change(days, &|job| {
        let ((now, before), submit) = (both(job)?, jobs.submit_ms.get(job)?);
        Some((now.wait_ms(*submit) - before.wait_ms(*submit)) as f64 / 1e3)
    });
    let delay = mean_change(days, &|job| {
        let (now, before) = both(job)?;
        Some((now.end_ms - before.end_ms) as f64 / 1e3)
    });
    [wait, delay]
}

/// How many of the jobs end later, and by how many seconds on average.
pub(super) fn losses(jobs: &TypedJobs, which: &[usize], base: &[SharingTimes], times: &[SharingTimes]) -> (usize, f64) {
    let mut later = Vec::new();
    for job in which {
        let (Some(before), Some(now), Some(run)) = (base.get(*job), times.get(*job), jobs.run_ms.get(*job)) else {
            continue;
        };
        let by = now.end_ms - before.end_ms;
        if by as f64 > LOST * *run as f64 && by > 0 {
            later.push(by as f64 / 1e3);
        }
    }
    (later.len(), interval::average(later.iter().copied()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_number() {
        let jobs = TypedJobs { submit_ms: vec![0], run_ms: vec![3_600_000], kind: vec![0] };
        let times = SharingTimes {
            start_ms: 600_000,
            end_ms: 5_100_000,
            held_ms: 4_500_000,
            shared_ms: 900_000,
            failed: 0,
            taken_out: 0,
        };
        let result = figures(&jobs, &[times], &[0], 1.2);
        assert_eq!((result.mean_wait_s, result.mean_delay_s, result.slowdown90), (600.0, 1500.0, Some(1.25)));
        assert!((result.over_slo - 1.0).abs() < 1e-12);
    }
}
