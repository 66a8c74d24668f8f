//! How jobs fared in a replay with sharing, in figures: what the answers of `plan sharing` and of `simulate --share` have in common.
//!
//! **Wait** is all time in the queue, **delay** from submission to end less the run, **slowdown** the time on a GPU over the run. Jobs lose that end later than with nobody sharing, by
//! more than 1 % of their run.
//!
//! O(jobs log jobs). Worked number: a job that ran 60 min alone and 75 beside others, after 10 in the queue, has a wait of 10 min, a slowdown of 1.25, and a delay of 25 min.

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::report::format;
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

/// Figures of some jobs.
pub(super) fn figures(jobs: &TypedJobs, times: &[SharingTimes], which: &[usize], slo: f64) -> SharingFigures {
    let (mut waits, mut delays, mut slowdowns) = (Vec::new(), Vec::new(), Vec::new());
    let (mut over, mut failed, mut taken_out, mut shared) = (0usize, 0, 0, 0usize);
    for job in which {
        let (Some(times), Some(submit), Some(run)) = (times.get(*job), jobs.submit_ms.get(*job), jobs.run_ms.get(*job))
        else {
            continue;
        };
        waits.push(times.wait_ms(*submit) as f64 / 1e3);
        delays.push((times.end_ms - submit - run) as f64 / 1e3);
        failed += u64::from(times.failed);
        taken_out += u64::from(times.taken_out);
        if times.shared_ms > 0 {
            shared += 1;
            let (slowdown, is_over) = slowdown(times.held_ms, *run, slo);
            over += usize::from(is_over);
            slowdowns.push(slowdown);
        }
    }
    let share = |part: usize, of: usize| if of == 0 { 0.0 } else { part as f64 / of as f64 };
    SharingFigures {
        mean_wait_s: interval::average(waits.iter().copied()),
        p95_wait_s: quantile(&waits, 0.95).unwrap_or_default(),
        mean_delay_s: interval::average(delays.iter().copied()),
        p95_delay_s: quantile(&delays, 0.95).unwrap_or_default(),
        shared: share(shared, which.len()),
        slowdown90: quantile(&slowdowns, 0.9),
        over_slo: share(over, slowdowns.len()),
        failed,
        taken_out,
    }
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

/// Share of the jobs that end later, and by how many seconds on average.
pub(super) fn losses(jobs: &TypedJobs, which: &[usize], base: &[SharingTimes], times: &[SharingTimes]) -> (f64, f64) {
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
    (later.len() as f64 / which.len().max(1) as f64, interval::average(later.iter().copied()))
}

/// A change of seconds, in words.
pub(super) fn signed(seconds: f64) -> String {
    let sign = if seconds < 0.0 { "−" } else { "" };
    format!("{sign}{}", format::duration(seconds.abs()))
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
        let found = figures(&jobs, &[times], &[0], 1.2);
        assert_eq!((found.mean_wait_s, found.mean_delay_s, found.slowdown90), (600.0, 1500.0, Some(1.25)));
        assert!((found.over_slo - 1.0).abs() < 1e-12);
    }
}
