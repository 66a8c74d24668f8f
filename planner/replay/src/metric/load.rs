//! Offered load: what the jobs of each VC ask for, of what it has and of the most it may ever use. No order of jobs changes it.
//!
//! Over the time T from the first submission (or time 0, if later) to the last, or as long as the longest run if that is more:
//!
//! ```text
//! asked(v)   Σ GPUs × run over the jobs of v that can run at all
//! own(v)     ∫ of what is v's own: the nodes that only it queues for, else its guarantee, its nominal quota in its cohort, or its quota; none of a VC that shares all
//! most(v)    ∫ of the most it may use at once: its pool's nodes, at most its quota, or what it can ever borrow in its cohort
//! load       asked / own, or asked / most where nothing is its own
//! ```
//!
//! A VC with asked > most **cannot catch up** as long as jobs come so, in whatever order they run; and if all VCs together ask for more than the nodes have, no way to share them helps. Runs count
//! whole, also beyond T. Shares of KAI's and Volcano's queues are no one's own here. O(jobs + changes of size). Worked number: a VC of one node of 8 GPUs whose jobs of 8 GPUs and
//! 1 h come every half hour has a load of 2.

use schemars::JsonSchema;
use serde::Serialize;

use tracecast_sim::cluster::{Cluster, Vc, amount_at};
use tracecast_sim::workload::Workload;

/// The offered load of a VC.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct VcLoad {
    /// Name of the VC.
    pub vc: String,
    /// GPU time that the VC's jobs ask for, GPU-hours.
    pub asked_gpu_hours: f64,
    /// GPUs of its own, mean over the time; `null` if it shares all that it uses.
    pub own_gpus: Option<f64>,
    /// The most GPUs it may use at once, mean over the time.
    pub most_gpus: f64,
    /// Asked for over what is its own, or over the most it may use where nothing is; `null` if that is nothing.
    pub load: Option<f64>,
    /// Asked for over the most it may use; `null` if that is nothing.
    pub load_at_most: Option<f64>,
    /// Whether the VC asks for more than the most it may use: no order catches up.
    pub over_capacity: bool,
}

/// Offered loads over the time in which jobs come.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct OfferedLoads {
    /// The time from the first to the last submission, or the longest run if that is more, seconds.
    pub span_s: f64,
    /// GPU time that all jobs ask for, GPU-hours.
    pub asked_gpu_hours: f64,
    /// GPUs there are, mean over the time.
    pub gpus: f64,
    /// The one over the other; `null` without GPUs.
    pub load: Option<f64>,
    /// Whether all jobs ask for more than all nodes have: no way to share them helps.
    pub over_capacity: bool,
    /// By VC, in the order of the cluster.
    pub by_vc: Vec<VcLoad>,
}

impl OfferedLoads {
    /// Computes the loads of the jobs for which `can_run` holds; `None` where all come at one
    /// moment.
    pub fn new(workload: &Workload, cluster: &Cluster, can_run: impl Fn(usize) -> bool) -> Option<Self> {
        let first = workload.submit_ms.first().copied()?.max(0);
        // No shorter than the longest job: what comes within an hour and runs for ten is not asked of that hour.
        let longest = (0..workload.len()).filter(|job| can_run(*job)).filter_map(|job| workload.run_ms.get(job)).max();
        let last = workload.submit_ms.last().copied()?.max(0);
        let last = if last > first { last.max(first + longest.copied().unwrap_or(0)) } else { last };
        let span_s = (last - first) as f64 / 1e3;
        if span_s <= 0.0 {
            return None;
        }
        let mut asked_s = vec![0.0; cluster.vcs.len()];
        for job in (0..workload.len()).filter(|job| can_run(*job)) {
            let vc = workload.vc.get(job).copied().map_or(0, usize::from);
            if let Some(request) = asked_s.get_mut(vc) {
                *request += workload.gpu_s(job);
            }
        }
        let there = Capacities { cluster, window: (first, last) };
        let of = |(vc, asked_s): (u16, f64)| {
            let known = cluster.vcs.get(usize::from(vc))?;
            let (own_gpus, most_gpus) = (there.own(vc, known), there.most(vc, known));
            let request = asked_s / span_s;
            let over = |gpus: f64| (gpus > 0.0).then(|| request / gpus);
            Some(VcLoad {
                vc: known.name.clone(),
                asked_gpu_hours: asked_s / 3600.0,
                own_gpus,
                most_gpus,
                load: over(own_gpus.unwrap_or(most_gpus)),
                load_at_most: over(most_gpus),
                over_capacity: request > most_gpus,
            })
        };
        let request: f64 = asked_s.iter().sum();
        let gpus: f64 = (0..cluster.pools.len()).map(|pool| there.of_pool(pool)).sum();
        Some(Self {
            span_s,
            asked_gpu_hours: request / 3600.0,
            gpus,
            load: (gpus > 0.0).then(|| request / span_s / gpus),
            over_capacity: request / span_s > gpus,
            by_vc: (0u16..).zip(asked_s).filter_map(of).collect(),
        })
    }

    /// VCs that cannot catch up, with how many times more they ask for than they may ever use.
    pub(crate) fn over_capacity(&self) -> impl Iterator<Item = &VcLoad> {
        self.by_vc.iter().filter(|of| of.over_capacity)
    }
}

/// Mean capacities over a time.
struct Capacities<'a> {
    cluster: &'a Cluster,
    window: (i64, i64),
}

impl Capacities<'_> {
    /// The mean of an amount that changes at some times only.
    fn mean(&self, changes: impl Iterator<Item = i64>, amount: impl Fn(i64) -> f64) -> f64 {
        let (from, to) = self.window;
        let mut times: Vec<i64> = changes.filter(|at| (from..to).contains(at)).chain([from, to]).collect();
        times.sort_unstable();
        let area: f64 = times
            .windows(2)
            .filter_map(|pair| Some(amount(*pair.first()?) * (pair.last()? - pair.first()?) as f64))
            .sum();
        area / (to - from).max(1) as f64
    }

    fn of_pool(&self, pool: usize) -> f64 {
        let groups = self.cluster.pools.get(pool).map_or(&[][..], |pool| &pool.groups);
        let of = |group: &tracecast_sim::Group| {
            let nodes = self.mean(group.sizes.iter().map(|(from, _)| *from), |now| f64::from(group.nodes_at(now)));
            nodes * f64::from(group.gpus_per_node)
        };
        groups.iter().map(of).sum()
    }

    fn of_amounts(&self, amounts: &[(i64, u64)]) -> f64 {
        self.mean(amounts.iter().map(|(from, _)| *from), |now| amount_at(amounts, now) as f64 / 1e3)
    }

    fn own(&self, at: u16, vc: &Vc) -> Option<f64> {
        if let Some(cohorts) = &self.cluster.cohorts {
            let of = |flavor: usize| cohorts.nominal(at, flavor as u16) as f64 / 1e3;
            return Some((0..cohorts.flavors().len()).map(of).sum());
        }
        if !vc.guarantee_cells.is_empty() {
            return Some(vc.cell_gpus() as f64);
        }
        let amounts = if vc.guarantee_milli.is_empty() { &vc.quota_milli } else { &vc.guarantee_milli };
        match amounts.is_empty() {
            _ if self.cluster.is_alone(vc) && self.cluster.vcs.len() > 1 => Some(self.of_pool(usize::from(vc.pool))),
            true => None,
            false => Some(self.of_amounts(amounts)),
        }
    }

    fn most(&self, at: u16, vc: &Vc) -> f64 {
        let pool = self.of_pool(usize::from(vc.pool));
        if let Some(cohorts) = &self.cluster.cohorts {
            let of = |flavor: usize| cohorts.potential(at, flavor as u16) as f64 / 1e3;
            return pool.min((0..cohorts.flavors().len()).map(of).sum());
        }
        if vc.quota_milli.is_empty() { pool } else { pool.min(self.of_amounts(&vc.quota_milli)) }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use tracecast_sim::{Group, Pool, Shape};

    const HOUR: i64 = 3_600_000;

    /// Jobs of 8 GPUs and 1 h: of the first VC every half hour, of the second every two hours, for ten hours.
    fn jobs() -> Workload {
        let mut rows: Vec<(i64, u16)> = (0..=20).map(|at| (at * HOUR / 2, 0)).collect();
        rows.extend((0..5).map(|at| (at * 2 * HOUR, 1)));
        rows.sort_unstable();
        let mut jobs = Workload::default();
        for (submit, vc) in rows {
            jobs.push(submit, HOUR, Shape::whole(8));
            *jobs.vc.last_mut().unwrap() = vc;
        }
        jobs
    }

    #[test]
    fn the_worked_number() {
        let result = OfferedLoads::new(&jobs(), &Cluster::of_vcs(&[("a", 1, 8), ("b", 1, 8)]), |_| true).unwrap();
        assert_eq!((result.span_s, result.asked_gpu_hours, result.gpus), (36_000.0, 26.0 * 8.0, 16.0));
        // 21 jobs of 8 GPU-hours in ten hours of 8 GPUs, as the last comes at their end; 5 of the second.
        let loads: Vec<(Option<f64>, bool)> = result.by_vc.iter().map(|of| (of.load, of.over_capacity)).collect();
        assert_eq!(loads, [(Some(2.1), true), (Some(0.5), false)]);
        assert_eq!((result.load, result.over_capacity), (Some(1.3), true));
        // With a third node there is enough in all, and a still cannot catch up on its own.
        let result = OfferedLoads::new(&jobs(), &Cluster::of_vcs(&[("a", 1, 8), ("b", 2, 8)]), |_| true).unwrap();
        assert_eq!(result.over_capacity().map(|of| of.vc.as_str()).collect::<Vec<_>>(), ["a"]);
        assert!(!result.over_capacity && result.load < Some(1.0));
        // Jobs that can never run ask for nothing.
        let none = OfferedLoads::new(&jobs(), &Cluster::of_vcs(&[("a", 1, 8), ("b", 2, 8)]), |_| false).unwrap();
        assert_eq!((none.load, none.over_capacity().count()), (Some(0.0), 0));
    }

    /// 40 jobs of a GPU and 10 h, one a minute: 400 GPU-hours, of 40 GPUs in the ten hours of the longest and not in the 39 min in which they come.
    #[test]
    fn what_comes_at_once_and_runs_long_is_asked_of_its_run() {
        let mut jobs = Workload::default();
        for at in 0..40 {
            jobs.push(at * 60_000, 10 * HOUR, Shape::whole(1));
        }
        let result = OfferedLoads::new(&jobs, &Cluster::of_vcs(&[("a", 8, 8)]), |_| true).unwrap();
        assert_eq!((result.span_s, result.load, result.over_capacity), (36_000.0, Some(40.0 / 64.0), false));
    }

    #[test]
    fn what_is_ones_own_and_what_one_may_use() {
        let mut pooled = Cluster::of_vcs(&[("a", 1, 8), ("b", 3, 8)]).pooled();
        let of = |cluster: &Cluster| {
            let result = OfferedLoads::new(&jobs(), cluster, |_| true).unwrap().by_vc[0].clone();
            (result.own_gpus, result.most_gpus, result.over_capacity)
        };
        // Of a pool that is shared without quotas nothing is anybody's own.
        assert_eq!(of(&pooled), (None, 32.0, false));
        // A guarantee is; a quota is the most.
        pooled.vcs[0].guarantee_milli = vec![(0, 8_000)];
        pooled.vcs[0].quota_milli = vec![(0, 12_000)];
        assert_eq!(of(&pooled), (Some(8.0), 12.0, true));
        // 12 GPUs for half of the time, then 24: 18 on average, of which 16.8 are asked for.
        pooled.vcs[0].quota_milli.push((5 * HOUR, 24_000));
        assert_eq!(of(&pooled), (Some(8.0), 18.0, false));
        // Nodes that come later count from then on.
        let mut alone = Cluster::of_vcs(&[("a", 1, 8), ("b", 1, 8)]);
        alone.pools[0] = Pool { groups: vec![Group { sizes: vec![(0, 1), (5 * HOUR, 3)], ..Group::fixed(1, 8) }] };
        assert_eq!(of(&alone), (Some(16.0), 16.0, true));
    }
}
