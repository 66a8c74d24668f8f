//! What hangs on which node fails: the same replays with the nodes that fail drawn anew among their equals.
//!
//! A trace says when a node was down. In a replay that node is one of several equal ones, and which jobs it holds when it fails follows from
//! the numbers that the nodes happen to have. So failures are dealt anew, [`NUMBERINGS`] times: within each group of equal nodes of a pool,
//! every node's failures go to a node drawn from a seed. How many nodes fail, and when, stays. Told are the mean over the numberings and
//! the least and the greatest of them; the numbering of the trace is one of many and not among them.
//!
//! O(40 replays). Worked number: of two nodes one fails at 50 s. If it holds a job of 8 GPUs since 0 s, 400 GPU-seconds are lost; if it is the
//! idle one, none. Over many numberings the mean is near 200, between 0 and 400.

use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use schemars::JsonSchema;
use serde::Serialize;

use super::Waited;
use crate::error::Result;
use crate::plan::interval::average;
use crate::replay::compare::IntervalEstimate;
use crate::replay::metric::JobTimes;
use crate::sim::{Cluster, Outage, Policy, Workload, simulate};

/// Numberings that are drawn.
pub const NUMBERINGS: u64 = 20;
/// Jobs × distinct requests beyond which none are.
const MOST_WORK: usize = 5_000_000;

/// Waits of some jobs over the numberings: means, and the least and the greatest.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct NumberedWaits {
    /// GPUs × time in the queue, GPU-hours.
    pub gpu_hours: IntervalEstimate,
    /// GPUs × what they held beyond their runs, GPU-hours.
    pub lost_gpu_hours: IntervalEstimate,
    /// Mean wait of a job, lost work included, seconds.
    pub mean_wait_s: IntervalEstimate,
}

/// The replays over the numberings.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Numberings {
    /// How many were drawn.
    pub drawn: u64,
    /// Waits on the VCs as they stand.
    pub apart: NumberedWaits,
    /// Waits on one pool.
    pub pooled: NumberedWaits,
    /// Change of the mean wait of a job by one pool, seconds.
    pub mean_wait_change_s: IntervalEstimate,
}

impl Numberings {
    /// Replays `jobs` on VCs apart and on one pool. `None` where no node fails, or the jobs are too much work.
    pub(super) fn of(
        workload: &Workload,
        clusters: [&Cluster; 2],
        policy: &Policy,
        jobs: &[usize],
    ) -> Result<Option<Self>> {
        let [apart, _] = clusters;
        if apart.outages.is_empty() || workload.len().saturating_mul(workload.shapes.len()) > MOST_WORK {
            return Ok(None);
        }
        let run = |seed: u64| -> Result<Option<[Waited; 2]>> {
            let waited = |cluster: &Cluster| -> Result<Option<Waited>> {
                let schedule = simulate(workload, &renumbered(cluster, seed), policy)?;
                Ok(Waited::replayed(workload, jobs, &JobTimes::new(workload, &schedule)?))
            };
            let [apart, pooled] = clusters.map(waited);
            Ok(apart?.zip(pooled?).map(|(apart, pooled)| [apart, pooled]))
        };
        let result: Result<Vec<Option<[Waited; 2]>>> = (1..=NUMBERINGS).into_par_iter().map(run).collect();
        let result: Vec<[Waited; 2]> = result?.into_iter().flatten().collect();
        let over = |of: &dyn Fn(&[Waited; 2]) -> f64| ranged(result.iter().map(of));
        let waits = |at: usize| {
            Some(NumberedWaits {
                gpu_hours: over(&|of| of.get(at).map_or(0.0, |of| of.gpu_hours))?,
                lost_gpu_hours: over(&|of| of.get(at).and_then(|of| of.lost_gpu_hours).unwrap_or(0.0))?,
                mean_wait_s: over(&|of| of.get(at).map_or(0.0, |of| of.wait_s.mean_s))?,
            })
        };
        let change = over(&|[apart, pooled]| pooled.wait_s.mean_s - apart.wait_s.mean_s);
        Ok(waits(0).zip(waits(1)).zip(change).map(|((apart, pooled), mean_wait_change_s)| Self {
            drawn: result.len() as u64,
            apart,
            pooled,
            mean_wait_change_s,
        }))
    }
}

/// The mean of some values, the least and the greatest; `None` of none.
fn ranged(values: impl Iterator<Item = f64> + Clone) -> Option<IntervalEstimate> {
    let (low, high) = (values.clone().reduce(f64::min)?, values.clone().reduce(f64::max)?);
    Some(IntervalEstimate { value: average(values), low, high })
}

/// The cluster with the failures of each node dealt to a node drawn among its equals.
fn renumbered(cluster: &Cluster, seed: u64) -> Cluster {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut numbers: Vec<u32> = Vec::new();
    for group in cluster.pools.iter().flat_map(|pool| &pool.groups) {
        let first = numbers.len() as u32;
        let mut of_group: Vec<u32> = (first..first + group.most_nodes()).collect();
        of_group.shuffle(&mut rng);
        numbers.extend(of_group);
    }
    let dealt = |outage: &Outage| {
        let node = numbers.get(outage.node as usize).copied().unwrap_or(outage.node);
        Outage { node, ..*outage }
    };
    Cluster { outages: cluster.outages.iter().map(dealt).collect(), ..cluster.clone() }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::sim::Shape;

    /// The worked number.
    #[test]
    fn what_is_lost_hangs_on_which_node_fails() {
        let mut workload = Workload::default();
        workload.push(0, 100_000, Shape::whole(8));
        let mut cluster = Cluster::of_vcs(&[("all", 2, 8)]);
        let policy = Policy::default();
        let pool = cluster.pooled();
        assert_eq!(Numberings::of(&workload, [&cluster, &pool], &policy, &[0]).unwrap(), None);
        cluster.outages.push(Outage { node: 0, from_ms: 50_000, to_ms: 60_000 });
        let pool = cluster.pooled();
        let result = Numberings::of(&workload, [&cluster, &pool], &policy, &[0]).unwrap().unwrap();
        let gpu_s = |of: &IntervalEstimate| [of.low, of.value, of.high].map(|hours| (hours * 3600.0).round());
        let [low, mean, high] = gpu_s(&result.pooled.lost_gpu_hours);
        assert!((low, high) == (0.0, 400.0) && mean > 50.0 && mean < 350.0, "{result:?}");
        // It goes on at once on the other node, so nothing is queued, and what is lost is all that it waits.
        assert_eq!(gpu_s(&result.pooled.gpu_hours), [0.0; 3]);
        assert_eq!((result.pooled.mean_wait_s.low, result.pooled.mean_wait_s.high), (0.0, 50.0));
        assert_eq!(result.drawn, NUMBERINGS);
        // The same numbers for the same seed.
        assert_eq!(Numberings::of(&workload, [&cluster, &pool], &policy, &[0]).unwrap(), Some(result));
    }

    #[test]
    fn failures_stay_within_their_group() {
        let mut cluster = Cluster::of_vcs(&[("a", 3, 8), ("b", 2, 8)]);
        cluster.outages = vec![Outage { node: 1, from_ms: 0, to_ms: 1 }, Outage { node: 4, from_ms: 0, to_ms: 1 }];
        for seed in 0..50 {
            let nodes: Vec<u32> = renumbered(&cluster, seed).outages.iter().map(|of| of.node).collect();
            assert!(matches!(nodes.as_slice(), [0..=2, 3..=4]), "{nodes:?}");
        }
    }
}
