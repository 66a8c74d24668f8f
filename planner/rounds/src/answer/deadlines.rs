//! Missed and met deadlines under a policy.
//!
//! O(jobs). Worked example: of four jobs with deadlines one ends an hour late: 25 % missed, late by an hour.

use schemars::JsonSchema;
use serde::Serialize;

use super::{AllocationFigure, Tried, apart, over};
use crate::job::GangJob;
use crate::policy::AllocationPolicy;
use crate::replay::AllocationReplay;
use tracecast_plan::interval;

/// Missed and met deadlines.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "AllocationDeadlines_{F}")]
pub struct AllocationDeadlines<F> {
    /// Share of the jobs with deadlines that missed them.
    pub missed: F,
    /// By how much those that did were late on average, seconds; nothing if none was.
    pub late_s: Option<F>,
    /// Mean time from submission to end of the jobs with deadlines, seconds.
    pub due_jct_s: F,
    /// Mean time from submission to end of the jobs without deadlines, seconds; nothing if all have
    /// one.
    pub best_effort_jct_s: Option<F>,
    /// Share of the jobs with deadlines that were admitted; only under a policy that admits jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admitted: Option<F>,
    /// Share of the admitted ones that were late all the same; nothing if none was admitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broken: Option<F>,
}

/// Who misses the fewest deadlines.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FewestMissed {
    /// The policy.
    pub policy: AllocationPolicy,
    /// Share of the deadlines that are missed under it.
    pub missed: AllocationFigure,
    /// Share of the deadlines that are missed under the policy advised for its mean time; nothing
    /// if that is the same, or none is advised.
    pub advised_missed: Option<AllocationFigure>,
    /// Whether the policy was chosen on other seeds than these figures are of.
    pub chosen_apart: bool,
}

/// Who misses the fewest deadlines, chosen as the advice is.
pub(super) fn fewest(
    policies: &[AllocationPolicy],
    tried: &[Tried<'_>],
    advised: Option<AllocationPolicy>,
) -> Option<FewestMissed> {
    let (choose, told, chosen_apart) = apart(tried);
    let missed = |set: &Tried<'_>, at: usize| Some(set.runs.get(at)?.deadlines.as_ref()?.missed);
    let known: Vec<usize> =
        (0..policies.len()).filter(|at| tried.iter().any(|set| missed(set, *at).is_some())).collect();
    let mean = |at: usize| interval::average(choose.iter().filter_map(|set| missed(set, at)));
    let least = known.iter().copied().min_by(|a, b| mean(*a).total_cmp(&mean(*b)))?;
    let over_told = |at: usize| over(told, &|set| missed(set, at));
    let policy = *policies.get(least)?;
    let other = advised.filter(|advised| *advised != policy);
    let other = other.and_then(|advised| known.iter().copied().find(|at| policies.get(*at) == Some(&advised)));
    Some(FewestMissed { policy, missed: over_told(least), advised_missed: other.map(over_told), chosen_apart })
}

/// Computes the figures of one replay, if jobs have deadlines.
pub(super) fn of(jobs: &[GangJob], result: &AllocationReplay) -> Option<AllocationDeadlines<f64>> {
    let ends: Vec<(usize, &GangJob, i64)> =
        jobs.iter().zip(&result.ends_ms).enumerate().map(|(at, (job, end))| (at, job, *end)).collect();
    let mean = |values: Vec<f64>| (!values.is_empty()).then(|| interval::average(values.into_iter()));
    let took = |due: bool| {
        let of = ends.iter().filter(|(_, job, _)| job.due_ms.is_some() == due);
        mean(of.map(|(_, job, end)| (end - job.submit_ms) as f64 / 1e3).collect())
    };
    let dues: Vec<(usize, f64)> =
        ends.iter().filter_map(|(at, job, end)| Some((*at, (end - job.due_ms?) as f64 / 1e3))).collect();
    if dues.is_empty() {
        return None;
    }
    let share = |of: &dyn Fn(&(usize, f64)) -> bool, part: &dyn Fn(&(usize, f64)) -> bool| {
        mean(dues.iter().filter(|due| of(due)).map(|due| f64::from(u8::from(part(due)))).collect())
    };
    let late = |due: &(usize, f64)| due.1 > 0.0;
    let admits = |due: &(usize, f64)| result.admitted.as_ref().is_some_and(|admitted| admitted.contains(&due.0));
    Some(AllocationDeadlines {
        missed: share(&|_| true, &late)?,
        late_s: mean(dues.iter().filter(|due| late(due)).map(|due| due.1).collect()),
        due_jct_s: took(true)?,
        best_effort_jct_s: took(false),
        admitted: result.admitted.as_ref().and_then(|_| share(&|_| true, &admits)),
        broken: result.admitted.as_ref().and_then(|_| share(&admits, &late)),
    })
}

/// Averages the figures of the policy at index `at` over all sets of jobs.
pub(super) fn over_sets(at: usize, tried: &[Tried<'_>]) -> Option<AllocationDeadlines<AllocationFigure>> {
    let by_deadline = |of: &dyn Fn(&AllocationDeadlines<f64>) -> Option<f64>| {
        over(tried, &|set| of(set.runs.get(at)?.deadlines.as_ref()?))
    };
    let told = |of: &dyn Fn(&AllocationDeadlines<f64>) -> bool| {
        tried.iter().any(|set| set.runs.get(at).and_then(|run| run.deadlines.as_ref()).is_some_and(of))
    };
    // Sets of jobs in which there is none of the kind say nothing of it.
    let known = |of: &dyn Fn(&AllocationDeadlines<f64>) -> Option<f64>| {
        told(&|dues| of(dues).is_some()).then(|| by_deadline(of))
    };
    told(&|_| true).then(|| AllocationDeadlines {
        missed: by_deadline(&|dues| Some(dues.missed)),
        late_s: known(&|dues| dues.late_s),
        due_jct_s: by_deadline(&|dues| Some(dues.due_jct_s)),
        best_effort_jct_s: known(&|dues| dues.best_effort_jct_s),
        admitted: known(&|dues| dues.admitted),
        broken: known(&|dues| dues.broken),
    })
}
