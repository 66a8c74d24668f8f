//! Nodes in reserve, time between failures, and checkpoints, from a log of faults.
//!
//! What is learnt on the first two thirds of the log is tested on the last third.
//!
//! * **Spares**: the fewest nodes so that at most so many are down at once in a share of the time (the availability asked for). For a cluster of another
//!   size than the log's, its nodes are taken to be drawn from those of the log at each moment (hypergeometric; binomial if it is larger). The naive rule takes
//!   failures to be independent: binomial with the mean share of nodes that are down.
//! * **Time between failures** of a node: node-time in service over failures, with Poisson's exact 95 % interval, and a Kaplan-Meier curve in which nodes that have
//!   not failed by the end are censored.
//! * **Checkpoints** by job size: Young's and Daly's intervals with what was learnt, replayed on the later failures of nodes drawn from those that the log watches,
//!   beside an hour and the best with hindsight.
//!
//! O(faults × draws). Worked number: of 400 nodes, 8 down at most in 99 % of the time: eight spares.

mod log;
mod section;

use std::collections::BTreeMap;

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use schemars::JsonSchema;
use serde::Serialize;
use statrs::distribution::{Binomial, ChiSquared, ContinuousCDF as _, DiscreteCDF as _, Hypergeometric};
use tracecast_analytics::stats::survival::{KaplanMeier, Observation};

use crate::plan::checkpoint::CheckpointCosts;
pub use log::{FaultLog, MOST_NODES, NodeDown};

/// Share of the log that is learnt from.
const LEARNT: f64 = 2.0 / 3.0;
/// Draws of nodes for a job.
const DRAWS: u64 = 64;
/// Seed of them.
const SEED: u64 = 1;
/// Shortest and longest checkpoint interval that is tried with hindsight, seconds, and how many.
const TRIED: (f64, f64, u32) = (120.0, 14.0 * 86_400.0, 60);

/// Request about a log of faults.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FaultsRequest {
    /// Share of the time in which the spares are to be enough.
    pub availability: f64,
    /// Nodes of the cluster that spares are for.
    pub cluster_nodes: u32,
    /// Costs of checkpoints and restarts.
    pub costs: CheckpointCosts,
}

/// Spares for one number of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Spares {
    /// Nodes.
    pub nodes: u32,
    /// Spares learnt on the earlier part.
    pub spares: u32,
    /// Share of the later time in which they were enough.
    pub held: f64,
    /// Spares if failures were independent, by the earlier part.
    pub independent: u32,
    /// Share of the later time in which those were enough.
    pub independent_held: f64,
    /// Fewest that would have been enough in the later part.
    pub oracle: u32,
    /// Spares by the whole log, from now on.
    pub from_now_on: u32,
}

/// Time between failures of a node.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct TimeBetween {
    /// Failures.
    pub failures: u64,
    /// Node-hours in service over failures.
    pub mean_h: f64,
    /// Lower end of its 95 % interval, if failures were independent.
    pub low_h: f64,
    /// Upper end.
    pub high_h: f64,
    /// Time by which a quarter of the nodes has failed, by Kaplan and Meier, hours; none if fewer did.
    pub quarter_h: Option<f64>,
    /// Time by which half has.
    pub median_h: Option<f64>,
    /// Variance of the failures of a node over their mean: 1 if all nodes were alike and failures independent.
    pub dispersion: f64,
    /// Mean time that a node is down, hours.
    pub mean_down_h: f64,
    /// Share of the node-time in which nodes were down.
    pub down_share: f64,
}

/// Checkpoints of a job on some nodes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct CheckpointsOfSize {
    /// Nodes of the job.
    pub nodes: u32,
    /// Mean time between its failures, by the earlier part, hours.
    pub mtbf_h: f64,
    /// Young's interval, seconds.
    pub young_s: f64,
    /// Daly's interval, seconds.
    pub daly_s: f64,
    /// Goodput of Daly's interval by his model.
    pub model_goodput: f64,
    /// Goodput of Young's interval on the later part, mean over draws of nodes.
    pub young_goodput: f64,
    /// Goodput of Daly's interval on the later part, mean over draws of nodes.
    pub daly_goodput: f64,
    /// Goodput of a checkpoint every hour on the later part, mean over draws of nodes.
    pub hourly_goodput: f64,
    /// The best interval with hindsight, seconds.
    pub best_s: f64,
    /// Goodput of that interval.
    pub best_goodput: f64,
}

/// Answer from a log of faults.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FaultsAnswer {
    /// Nodes that it watches.
    pub nodes: u32,
    /// Nodes that failed at all.
    pub failed_nodes: u32,
    /// Length of the log, days.
    pub days: f64,
    /// Share of the time in which spares are to be enough.
    pub availability: f64,
    /// Share of the time with so many nodes down at once, from 0 on.
    pub down_at_once: Vec<f64>,
    /// Spares for the nodes of the log.
    pub of_log: Spares,
    /// Spares for the cluster that is planned for.
    pub of_cluster: Spares,
    /// Time between failures of a node.
    pub between: TimeBetween,
    /// Cost of a checkpoint, seconds.
    pub checkpoint_s: f64,
    /// Cost of a restart, seconds.
    pub restart_s: f64,
    /// Checkpoints by job size.
    pub checkpoints: Vec<CheckpointsOfSize>,
}

/// Share of some time with so many of the log's nodes down.
fn shares(log: &FaultLog, window: (f64, f64)) -> BTreeMap<u32, f64> {
    let mut result: BTreeMap<u32, f64> = BTreeMap::new();
    let length = (window.1 - window.0).max(f64::MIN_POSITIVE);
    for (from, to, down) in log.down_at_once(window) {
        *result.entry(down).or_default() += (to - from) / length;
    }
    result
}

/// Share of the time in which at most `spares` of `nodes` nodes are down, where `shares` is of the `of` nodes of the log.
fn enough(shares: &BTreeMap<u32, f64>, (nodes, of): (u32, u32), spares: u32) -> f64 {
    let held = |(down, share): (&u32, &f64)| {
        let within = if nodes == of {
            f64::from(u8::from(*down <= spares))
        } else if *down == 0 || spares >= nodes {
            1.0
        } else if nodes < of {
            Hypergeometric::new(u64::from(of), u64::from(*down), u64::from(nodes))
                .map_or(0.0, |drawn| drawn.cdf(u64::from(spares)))
        } else {
            Binomial::new(f64::from(*down) / f64::from(of), u64::from(nodes))
                .map_or(0.0, |drawn| drawn.cdf(u64::from(spares)))
        };
        share * within
    };
    shares.iter().map(held).sum()
}

/// Fewest of `nodes` for which `held` is at least the availability.
fn fewest(nodes: u32, availability: f64, held: &dyn Fn(u32) -> f64) -> u32 {
    // A sum of shares may miss 1 by rounding.
    (0..nodes).find(|spares| held(*spares) >= availability - 1e-9).unwrap_or(nodes)
}

fn spares(log: &FaultLog, nodes: u32, availability: f64) -> Spares {
    let split = log.length_s * LEARNT;
    let [before, after, whole] =
        [(0.0, split), (split, log.length_s), (0.0, log.length_s)].map(|window| shares(log, window));
    let of = (nodes, log.nodes);
    let learnt = fewest(nodes, availability, &|spares| enough(&before, of, spares));
    let mean = before.iter().map(|(down, share)| f64::from(*down) * share).sum::<f64>() / f64::from(log.nodes.max(1));
    let alone = Binomial::new(mean.clamp(0.0, 1.0), u64::from(nodes));
    let independent =
        fewest(nodes, availability, &|spares| alone.as_ref().map_or(0.0, |alone| alone.cdf(u64::from(spares))));
    Spares {
        nodes,
        spares: learnt,
        held: enough(&after, of, learnt),
        independent,
        independent_held: enough(&after, of, independent),
        oracle: fewest(nodes, availability, &|spares| enough(&after, of, spares)),
        from_now_on: fewest(nodes, availability, &|spares| enough(&whole, of, spares)),
    }
}

/// Failures within a stretch, and the node-seconds in service in it.
fn in_service(log: &FaultLog, (from, to): (f64, f64)) -> (u64, f64) {
    let failures = log.downs.iter().filter(|down| (from..to).contains(&down.from_s)).count() as u64;
    let down: f64 = log.downs.iter().map(|down| (down.to_s.min(to) - down.from_s.max(from)).max(0.0)).sum();
    (failures, (f64::from(log.nodes) * (to - from) - down).max(0.0))
}

fn between(log: &FaultLog) -> TimeBetween {
    let (failures, up_s) = in_service(log, (0.0, log.length_s + 1.0));
    let quantile = |degrees: f64, share: f64| ChiSquared::new(degrees).map_or(f64::NAN, |of| of.inverse_cdf(share));
    let (k, up_h) = (failures as f64, up_s / 3600.0);
    // Times in service, to the next failure or the end.
    let mut times = Vec::new();
    let mut seen = |from: f64, to: f64, event: bool| {
        if to > from {
            times.push(Observation { entry: None, time: (to - from) / 3600.0, event });
        }
    };
    // Faults of the nodes that failed; the others had none.
    let mut by_node: Vec<f64> = vec![0.0; log.named as usize];
    for of_node in log.downs.chunk_by(|a, b| a.node == b.node) {
        let mut since = 0.0;
        for down in of_node {
            seen(since, down.from_s, true);
            since = down.to_s;
        }
        seen(since, log.length_s, false);
        if let Some(count) = of_node.first().and_then(|down| by_node.get_mut(down.node as usize)) {
            *count = of_node.len() as f64;
        }
    }
    (log.named..log.nodes).for_each(|_| seen(0.0, log.length_s, false));
    let curve = KaplanMeier::fit(&times, 0.95).ok();
    let mean = k / f64::from(log.nodes.max(1));
    let never = f64::from(log.nodes.saturating_sub(log.named));
    let squares = by_node.iter().map(|count| (count - mean).powi(2)).sum::<f64>() + never * mean.powi(2);
    let variance = squares / (f64::from(log.nodes) - 1.0).max(1.0);
    let down_s: f64 = log.downs.iter().map(|down| down.to_s - down.from_s).sum();
    TimeBetween {
        failures,
        mean_h: up_h / k.max(1.0),
        low_h: 2.0 * up_h / quantile(2.0 * k + 2.0, 0.975),
        high_h: 2.0 * up_h / quantile(2.0 * k.max(0.5), 0.025),
        quarter_h: curve.as_ref().and_then(|curve| curve.quantile(0.25)),
        median_h: curve.as_ref().and_then(KaplanMeier::median),
        dispersion: variance / mean.max(f64::MIN_POSITIVE),
        mean_down_h: down_s / k.max(1.0) / 3600.0,
        down_share: down_s / (log.length_s * f64::from(log.nodes)).max(f64::MIN_POSITIVE),
    }
}

/// Draws `nodes` from all nodes of the log without replacement; returns which of the nodes that
/// failed are among them. Goes node by node, with the chance of what is still to be drawn over what
/// is left; nodes that never failed are not gone through. O(nodes that failed).
fn drawn(rng: &mut ChaCha8Rng, log: &FaultLog, nodes: u32) -> Vec<bool> {
    let (mut due, mut left) = (nodes, log.nodes);
    let mut next = || {
        let is_drawn = rng.random_range(0..left.max(1)) < due;
        (due, left) = (due - u32::from(is_drawn), left.saturating_sub(1));
        is_drawn
    };
    (0..log.named).map(|_| next()).collect()
}

/// Checkpoints of jobs of 1, 2, 4 … nodes of the log.
fn checkpoints(log: &FaultLog, costs: CheckpointCosts) -> Vec<CheckpointsOfSize> {
    let split = log.length_s * LEARNT;
    let (failures, up_s) = in_service(log, (0.0, split));
    if failures == 0 {
        return Vec::new();
    }
    let later: Vec<(u32, f64)> =
        log.downs.iter().filter(|down| down.from_s >= split).map(|down| (down.node, down.from_s - split)).collect();
    let sizes = (0..32).map(|power| 1u32 << power).take_while(|nodes| *nodes <= log.nodes);
    let of_size = |nodes: u32| {
        let draws: Vec<Vec<f64>> = (0..DRAWS)
            .map(|draw| {
                let mut rng = ChaCha8Rng::seed_from_u64(SEED);
                rng.set_stream((u64::from(nodes) << 32) + draw);
                let of_job = drawn(&mut rng, log, nodes);
                let mine = |(node, _): &&(u32, f64)| of_job.get(*node as usize) == Some(&true);
                let mut failures: Vec<f64> = later.iter().filter(mine).map(|(_, at)| *at).collect();
                failures.sort_by(f64::total_cmp);
                failures
            })
            .collect();
        let replayed = |interval_s: f64| {
            let all = draws.iter().map(|failures| costs.replayed(interval_s, failures, log.length_s - split));
            all.sum::<f64>() / DRAWS as f64
        };
        let mtbf_s = up_s / failures as f64 / f64::from(nodes);
        let (shortest, longest, count) = TRIED;
        let tried = (0..count).map(|at| shortest * (longest / shortest).powf(f64::from(at) / f64::from(count - 1)));
        let (best_s, best_goodput) = tried
            .chain([costs.young_s(mtbf_s), costs.daly_s(mtbf_s), 3600.0])
            .map(|interval| (interval, replayed(interval)))
            .fold((shortest, 0.0), |best, found| if found.1 > best.1 { found } else { best });
        let daly_s = costs.daly_s(mtbf_s);
        CheckpointsOfSize {
            nodes,
            mtbf_h: mtbf_s / 3600.0,
            young_s: costs.young_s(mtbf_s),
            daly_s,
            model_goodput: costs.goodput(daly_s, mtbf_s),
            young_goodput: replayed(costs.young_s(mtbf_s)),
            daly_goodput: replayed(daly_s),
            hourly_goodput: replayed(3600.0),
            best_s,
            best_goodput,
        }
    };
    sizes.map(of_size).collect()
}

impl FaultsAnswer {
    /// What a log says.
    pub fn new(log: &FaultLog, request: FaultsRequest) -> Self {
        let at_once = shares(log, (0.0, log.length_s));
        let most = at_once.keys().next_back().copied().unwrap_or(0);
        Self {
            nodes: log.nodes,
            failed_nodes: log.named,
            days: log.length_s / 86_400.0,
            availability: request.availability,
            down_at_once: (0..=most).map(|down| at_once.get(&down).copied().unwrap_or(0.0)).collect(),
            of_log: spares(log, log.nodes, request.availability),
            of_cluster: spares(log, request.cluster_nodes, request.availability),
            between: between(log),
            checkpoint_s: request.costs.checkpoint_s,
            restart_s: request.costs.restart_s,
            checkpoints: checkpoints(log, request.costs),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    const DAY_S: f64 = 86_400.0;

    /// Ten nodes over 90 days: in each ten days node 0 is down for five and node 1 for the last two of these.
    fn log() -> FaultLog {
        let down = |node: u32, from: f64, to: f64| NodeDown { node, from_s: from * DAY_S, to_s: to * DAY_S };
        let stretches = |node: u32, from: f64| {
            (0..9).map(move |ten| down(node, f64::from(ten) * 10.0 + from, f64::from(ten) * 10.0 + 5.0))
        };
        FaultLog {
            nodes: 10,
            named: 2,
            length_s: 90.0 * DAY_S,
            downs: stretches(0, 0.0).chain(stretches(1, 3.0)).collect(),
        }
    }

    #[test]
    fn spares_by_hand() {
        // Half of the time none is down, 3/10 of it one, 2/10 of it two.
        let result = spares(&log(), 10, 0.8);
        assert_eq!((result.spares, result.oracle, result.from_now_on), (1, 1, 1));
        assert!((result.held - 0.8).abs() < 1e-9);
        assert_eq!((spares(&log(), 10, 0.5).spares, spares(&log(), 10, 0.81).spares), (0, 2));
        // On five of the ten nodes: P(none down) = 0.5 + 0.3·1/2 + 0.2·(5·4)/(10·9).
        let half = enough(&shares(&log(), (0.0, 90.0 * DAY_S)), (5, 10), 0);
        assert!((half - (0.5 + 0.15 + 0.2 * 20.0 / 90.0)).abs() < 1e-9, "{half}");
        // Twenty nodes, each down with 1/10 where one is, and with 2/10 where two are.
        let twice = enough(&shares(&log(), (0.0, 90.0 * DAY_S)), (20, 10), 0);
        assert!((twice - (0.5 + 0.3 * 0.9f64.powi(20) + 0.2 * 0.8f64.powi(20))).abs() < 1e-9, "{twice}");
    }

    #[test]
    fn nodes_are_drawn_alike_and_all_of_them_where_all_are_asked_for() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        assert_eq!(drawn(&mut rng, &log(), 10), [true, true]);
        // Three of ten: each node in 30 % of the draws, both in 3·2 / (10·9) = 6.7 %.
        let draws: Vec<Vec<bool>> = (0..20_000).map(|_| drawn(&mut rng, &log(), 3)).collect();
        let share = |of: &dyn Fn(&Vec<bool>) -> bool| draws.iter().filter(|draw| of(draw)).count() as f64 / 20_000.0;
        assert!((share(&|draw| draw[0]) - 0.3).abs() < 0.015 && (share(&|draw| draw[1]) - 0.3).abs() < 0.015);
        assert!((share(&|draw| draw[0] && draw[1]) - 1.0 / 15.0).abs() < 0.01);
    }

    #[test]
    fn time_between_failures_by_hand() {
        let result = between(&log());
        // 18 failures; 900 node-days less 45 and 18.
        assert_eq!(result.failures, 18);
        assert!((result.mean_h - 837.0 / 18.0 * 24.0).abs() < 0.1, "{result:?}");
        assert!(result.low_h < result.mean_h && result.mean_h < result.high_h);
        assert!((result.mean_down_h - 63.0 / 18.0 * 24.0).abs() < 1e-9);
        // Two of ten nodes have nine failures each: mean 1.8, variance (2·7.2² + 8·1.8²) / 9 = 14.4.
        assert!((result.dispersion - 8.0).abs() < 1e-9);
    }

    #[test]
    fn what_lies_after_the_split_changes_nothing_that_is_learnt() {
        let mut other = log();
        for down in other.downs.iter_mut().filter(|down| down.from_s > 60.0 * DAY_S) {
            down.to_s = 90.0 * DAY_S;
        }
        let (a, b) = (spares(&log(), 10, 0.9), spares(&other, 10, 0.9));
        assert_eq!((a.spares, a.independent), (b.spares, b.independent));
        let costs = CheckpointCosts { checkpoint_s: 300.0, restart_s: 600.0 };
        let (a, b) = (checkpoints(&log(), costs), checkpoints(&other, costs));
        assert_eq!(a.len(), 4);
        assert!(a.iter().zip(&b).all(|(a, b)| a.daly_s == b.daly_s && a.best_goodput >= a.daly_goodput));
    }
}
