//! How users fared under a policy.
//!
//! O(jobs + stints). Worked example: a user with one job of 2 GPUs that held them for half of the time from its submission to its end had 50 % of what it asked for.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::{AllocationFigure, Tried, over};
use crate::job::GangJob;
use crate::pool::TypedFleet;
use crate::replay::AllocationReplay;
use tracecast_plan::interval;

/// How users fared.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "AllocationUsers_{F}")]
pub struct AllocationUsers<F> {
    /// GPU time that a user's jobs had, as a share of what they asked for from submission to end:
    /// the least of a user.
    pub had_least: F,
    /// The mean over users.
    pub had_mean: F,
    /// The greatest of a user.
    pub had_most: F,
    /// Mean time from submission to end of the user with the greatest, seconds.
    pub longest_jct_s: F,
    /// Mean time from submission to end of the user with the least, seconds.
    pub shortest_jct_s: F,
}

/// How users fared, if there are several.
pub(super) fn of(fleet: &TypedFleet, jobs: &[GangJob], result: &AllocationReplay) -> Option<AllocationUsers<f64>> {
    /// Sums over the jobs of a user.
    #[derive(Default)]
    struct Sums {
        jobs: f64,
        took_s: f64,
        asked_gpu_s: f64,
        had_gpu_s: f64,
    }
    let mut by_user: BTreeMap<Option<&str>, Sums> = BTreeMap::new();
    let gpus = |job: &GangJob| fleet.kinds.get(job.kind).map_or(0.0, |kind| f64::from(kind.gpus));
    for (job, end_ms) in jobs.iter().zip(&result.ends_ms) {
        let took_s = (end_ms - job.submit_ms) as f64 / 1e3;
        let sums = by_user.entry(job.user.as_deref()).or_default();
        sums.jobs += 1.0;
        sums.took_s += took_s;
        sums.asked_gpu_s += gpus(job) * took_s;
    }
    for stint in &result.stints {
        let Some(job) = jobs.get(stint.job) else { continue };
        let sums = by_user.entry(job.user.as_deref()).or_default();
        sums.had_gpu_s += f64::from(stint.gpus) * (stint.to_ms - stint.from_ms) as f64 / 1e3;
    }
    if by_user.len() < 2 {
        return None;
    }
    let had = || by_user.values().map(|sums| sums.had_gpu_s / sums.asked_gpu_s.max(1e-9));
    let took = || by_user.values().map(|sums| sums.took_s / sums.jobs);
    Some(AllocationUsers {
        had_least: had().fold(f64::INFINITY, f64::min),
        had_mean: interval::average(had()),
        had_most: had().fold(0.0, f64::max),
        longest_jct_s: took().fold(0.0, f64::max),
        shortest_jct_s: took().fold(f64::INFINITY, f64::min),
    })
}

/// Averages the figures of the policy at index `at` over all sets of jobs.
pub(super) fn over_sets(at: usize, tried: &[Tried<'_>]) -> Option<AllocationUsers<AllocationFigure>> {
    let by_user = |of: fn(&AllocationUsers<f64>) -> f64| over(tried, &|set| set.runs.get(at)?.users.as_ref().map(of));
    tried.iter().all(|set| set.runs.get(at).is_some_and(|run| run.users.is_some())).then(|| AllocationUsers {
        had_least: by_user(|users| users.had_least),
        had_mean: by_user(|users| users.had_mean),
        had_most: by_user(|users| users.had_most),
        longest_jct_s: by_user(|users| users.longest_jct_s),
        shortest_jct_s: by_user(|users| users.shortest_jct_s),
    })
}
