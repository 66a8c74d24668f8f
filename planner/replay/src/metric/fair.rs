//! How evenly a schedule treats users and VCs.
//!
//! * **Jain index** of x₁ … x_k, the mean bounded slowdown of each user (or VC) with a finished job:
//!   J = (Σx)² / (k · Σx²), 1 if all are served alike, 1/k if one bears everything (Jain, Chiu and Hawe, DEC-TR-301, 1984).
//! * **Finish-time ratio** of a job (Themis, Mahajan et al., NSDI 2020): JCT / (max(run, 10 s) · max(1, n·N / G)), what it took
//!   against what it would have taken alone on its user's equal part of the pool. G is the most GPUs the pool ever has, n the job's
//!   GPUs, N the time mean over the job's life of the users with a job that waits or runs in the pool. Above 1 the user would
//!   have been better off with a part of its own.
//!
//! O(n log n).
//!
//! Worked numbers: mean slowdowns 1 and 3 have J = 16 / (2 · 10) = 0.8. A job of 4 GPUs that runs 100 s and completes after 150 s,
//! beside one other user all the time, on 8 GPUs: 150 / (100 · max(1, 4 · 2 / 8)) = 1.5.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::stats::{quantile, sum};

use super::times::{JobTimes, SHORTEST_MS};
use tracecast_sim::cluster::{Cluster, Group};
use tracecast_sim::schedule::Outcome;
use tracecast_sim::workload::Workload;

/// How evenly a schedule treats users and VCs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Fairness {
    /// Jain index over users of the mean bounded slowdown, 0 to 1.
    pub jain_users: Option<f64>,
    /// Jain index over VCs of the mean bounded slowdown, 0 to 1.
    pub jain_vcs: Option<f64>,
    /// Largest finish-time ratio of a finished job.
    pub max_finish_time_ratio: Option<f64>,
    /// The user of that job; of equals the one submitted first.
    pub max_finish_time_user: Option<String>,
    /// 95 % quantile of the finish-time ratio.
    pub p95_finish_time_ratio: Option<f64>,
    /// Share of jobs with a finish-time ratio above 1.
    pub over_fair_share: Option<f64>,
}

/// Jain index of values that are not negative; `None` if there are none or all are 0.
pub fn jain(values: &[f64]) -> Option<f64> {
    let squares: Vec<f64> = values.iter().map(|value| value * value).collect();
    let below = values.len() as f64 * sum::sum(&squares);
    let above = sum::sum(values);
    (below > 0.0).then(|| above * above / below)
}

/// Mean bounded slowdown by group, of groups with a finished job.
fn mean_slowdowns(workload: &Workload, times: &JobTimes, groups: usize, of: impl Fn(usize) -> usize) -> Vec<f64> {
    let mut totals = vec![(sum::NeumaierSum::new(), 0u64); groups];
    for (job, run) in workload.run_ms.iter().enumerate() {
        if let Some(slowdown) = times.slowdown(job, *run)
            && let Some((total, jobs)) = totals.get_mut(of(job))
        {
            total.add(slowdown);
            *jobs += 1;
        }
    }
    totals.into_iter().filter(|(_, jobs)| *jobs > 0).map(|(total, jobs)| total.value() / jobs as f64).collect()
}

/// Users with a job in a pool over time, and their integral.
#[derive(Debug, Clone, Default)]
struct Presence {
    at: Vec<i64>,
    users: Vec<i64>,
    /// Users × milliseconds up to the moment of the same index.
    area: Vec<i128>,
}

impl Presence {
    fn of(mut changes: Vec<(i64, i64)>) -> Self {
        changes.sort_unstable();
        let mut presence = Self::default();
        let (mut users, mut area, mut last) = (0, 0i128, 0);
        for (at, change) in changes {
            area += i128::from(users) * i128::from(at - last);
            last = at;
            users += change;
            if presence.at.last() == Some(&at) {
                presence.at.pop();
                presence.users.pop();
                presence.area.pop();
            }
            presence.at.push(at);
            presence.users.push(users);
            presence.area.push(area);
        }
        presence
    }

    fn area_to(&self, at: i64) -> i128 {
        let Some(ix) = self.at.partition_point(|known| *known <= at).checked_sub(1) else { return 0 };
        let get = |values: &[i64]| values.get(ix).copied().unwrap_or(0);
        self.area.get(ix).copied().unwrap_or(0) + i128::from(get(&self.users)) * i128::from(at - get(&self.at))
    }

    /// Time mean over [from, to); 1 if that is empty.
    fn mean(&self, from: i64, to: i64) -> f64 {
        if to <= from {
            return 1.0;
        }
        (self.area_to(to) - self.area_to(from)) as f64 / (to - from) as f64
    }
}

/// Users with a job, by pool; jobs that did not finish are there until `to`.
fn presences(workload: &Workload, cluster: &Cluster, times: &JobTimes, ends: &[Option<i64>], to: i64) -> Vec<Presence> {
    let mut changes: Vec<Vec<(i64, i64)>> = vec![Vec::new(); cluster.pools.len()];
    let mut open: BTreeMap<(u16, u32), (i64, i64)> = BTreeMap::new();
    for (job, submit) in workload.submit_ms.iter().copied().enumerate() {
        if times.outcome.get(job) == Some(&Outcome::Rejected) {
            continue;
        }
        let end = ends.get(job).copied().flatten().unwrap_or(to).max(submit);
        let (Some(pool), Some(user)) = (pool_of(workload, cluster, job), workload.user.get(job)) else { continue };
        let stay = open.entry((pool, *user)).or_insert((submit, end));
        if submit <= stay.1 {
            stay.1 = stay.1.max(end);
        } else {
            if let Some(changes) = changes.get_mut(usize::from(pool)) {
                changes.extend([(stay.0, 1), (stay.1, -1)]);
            }
            *stay = (submit, end);
        }
    }
    for ((pool, _), (from, until)) in open {
        if let Some(changes) = changes.get_mut(usize::from(pool)) {
            changes.extend([(from, 1), (until, -1)]);
        }
    }
    changes.into_iter().map(Presence::of).collect()
}

fn pool_of(workload: &Workload, cluster: &Cluster, job: usize) -> Option<u16> {
    Some(cluster.vcs.get(usize::from(*workload.vc.get(job)?))?.pool)
}

/// `ends` are the ends of all jobs, warm ones too; `to` is the end of the window.
pub(super) fn fairness(
    workload: &Workload,
    cluster: &Cluster,
    times: &JobTimes,
    ends: &[Option<i64>],
    to: i64,
) -> Fairness {
    let user = |job: usize| workload.user.get(job).map_or(usize::MAX, |user| *user as usize);
    let vc = |job: usize| workload.vc.get(job).map_or(usize::MAX, |vc| usize::from(*vc));
    let presences = presences(workload, cluster, times, ends, to);
    let most = |group: &Group| f64::from(group.most_nodes()) * f64::from(group.gpus_per_node);
    let gpus: Vec<f64> = cluster.pools.iter().map(|pool| pool.groups.iter().map(most).sum()).collect();
    let mut ratios = Vec::with_capacity(workload.len());
    let mut worst: Option<(f64, usize)> = None;
    for (job, (submit, run)) in workload.submit_ms.iter().zip(&workload.run_ms).enumerate() {
        let Some(jct) = times.jct_ms.get(job).copied().flatten() else { continue };
        let Some(pool) = pool_of(workload, cluster, job).map(usize::from) else { continue };
        let (Some(presence), Some(gpus)) = (presences.get(pool), gpus.get(pool)) else { continue };
        let users = presence.mean(*submit, submit + jct);
        let alone =
            (*run).max(SHORTEST_MS) as f64 * (workload.shape_of(job).as_gpus() * users / gpus.max(1.0)).max(1.0);
        let ratio = jct as f64 / alone;
        if worst.is_none_or(|(known, _)| ratio > known) {
            worst = Some((ratio, job));
        }
        ratios.push(ratio);
    }
    let over = ratios.iter().filter(|ratio| **ratio > 1.0).count();
    let over_fair_share = (!ratios.is_empty()).then(|| over as f64 / ratios.len() as f64);
    Fairness {
        jain_users: jain(&mean_slowdowns(workload, times, workload.users.len(), user)),
        jain_vcs: jain(&mean_slowdowns(workload, times, cluster.vcs.len(), vc)),
        max_finish_time_ratio: worst.map(|(ratio, _)| ratio),
        max_finish_time_user: worst.and_then(|(_, job)| workload.users.get(user(job)).cloned()),
        p95_finish_time_ratio: quantile::quantiles_in_place(&mut ratios, &[0.95]).pop().flatten(),
        over_fair_share,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn jain_by_hand() {
        // (1 + 3)² / (2 · (1 + 9)) = 0.8; (1 + 0 + 0)² / 3 = 1/3.
        assert!((jain(&[1.0, 3.0]).unwrap() - 0.8).abs() < 1e-12);
        assert!((jain(&[1.0, 0.0, 0.0]).unwrap() - 1.0 / 3.0).abs() < 1e-12);
        assert_eq!((jain(&[2.0, 2.0]), jain(&[])), (Some(1.0), None));
    }

    #[test]
    fn presence_is_a_mean_over_time() {
        // One user over 0–100, another over 40–60: over 20–60 it is (40 + 20) / 40 = 1.5, over 60–100 1.
        let presence = Presence::of(vec![(0, 1), (100, -1), (40, 1), (60, -1)]);
        assert_eq!((presence.mean(20, 60), presence.mean(60, 100), presence.mean(7, 7)), (1.5, 1.0, 1.0));
    }
}
