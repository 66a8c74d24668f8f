//! What to do from the end of the data on in one zone: what to hold if spot can be had and if not, how long to wait for it, and for an elastic job how many nodes of each kind.
//!
//! The policy, fitted on all data, is asked at the tick after the last with each number of spot nodes that could be had, and then without any until the deadline. O(lanes ×
//! programme) for each number.
//!
//! Worked example: of four nodes, two could be had last. With two it takes both and waits for the others: 2 on spot and none on-demand.

use schemars::JsonSchema;
use serde::Serialize;

use crate::cloud::elastic::optimum::whole_among;
use crate::cloud::elastic::{LanesPilot, LanesView, ride_lanes};
use crate::cloud::job::{DeadlineJob, FromNow, Holding};
use crate::cloud::policy::{CloudPolicy, lanes_pilot, lanes_programmes, learned_lanes, relative};
use crate::cloud::work::WorkDistribution;
use crate::market::availability::{SpotSeries, Supply};
use crate::plan::window::Window;

/// Most numbers of nodes that are told.
const MOST_TOLD: u32 = 32;

/// Nodes to hold where so many spot nodes can be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NodesNow {
    /// Spot nodes that can be had.
    pub had: u32,
    /// Nodes to hold on spot.
    pub spot: u32,
    /// Nodes to hold on-demand.
    pub on_demand: u32,
}

impl NodesNow {
    /// `2 on spot and 1 on-demand`.
    pub fn in_words(&self) -> String {
        match (self.spot, self.on_demand) {
            (0, 0) => "wait".to_owned(),
            (spot, 0) => format!("{spot} on spot"),
            (0, on_demand) => format!("{on_demand} on-demand"),
            (spot, on_demand) => format!("{spot} on spot and {on_demand} on-demand"),
        }
    }
}

/// What an elastic job holds in the tick after the last of the data.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ElasticNow {
    /// Spot nodes that could be had in the last tick, of those that the job takes.
    pub last: NodesNow,
    /// Nodes to hold, by how many can be had, from none to all.
    pub by_had: Vec<NodesNow>,
}

impl ElasticNow {
    /// How many of each kind for each number that can be had, in words.
    pub(in crate::cloud) fn in_words(&self) -> String {
        let said: Vec<String> =
            self.by_had.iter().map(|of| format!("{} to be had: {}", of.had, of.in_words())).collect();
        said.join("; ")
    }
}

/// Waits until the safety net steps in.
struct Waits;

impl LanesPilot for Waits {
    fn hold(&mut self, _: &DeadlineJob, _: &LanesView<'_>, next: &mut [Holding]) {
        next.fill(Holding::Idle);
    }
}

/// What a policy does after the last tick of a zone; of an elastic job also with how many nodes.
pub(in crate::cloud) fn from_now(
    zone: &SpotSeries,
    policy: CloudPolicy,
    (need, elastic): (u32, bool),
    (job, work): (&DeadlineJob, Option<&WorkDistribution>),
) -> (FromNow, Option<ElasticNow>) {
    let supply: Supply = zone.supply(need, elastic);
    let (lanes, end, tick_ms) = (supply.lanes, supply.up.len(), zone.tick_ms);
    // What spot costs now decides, where that is known.
    let last = Window { past: 0..end, ahead: end.saturating_sub(1)..end };
    let job = DeadlineJob { price_ratio: relative(zone.price.as_ref(), &last, job.price_ratio).1, ..*job };
    let amounts = work.map(WorkDistribution::amounts).unwrap_or_default();
    let works: Vec<i64> = amounts.into_iter().map(|(work_ms, _)| work_ms).collect();
    let job = if lanes > 1 { whole_among(&job, tick_ms, &works) } else { job };
    let learned = learned_lanes(&supply, end, policy, tick_ms, job.ticks(tick_ms));
    let fitted = lanes_programmes(&learned, lanes, end, tick_ms, &job, work);
    let first = |had: u32| -> NodesNow {
        let mut held: Option<Vec<Holding>> = None;
        let mut seen = |of: &[Holding]| {
            held.get_or_insert_with(|| of.to_vec());
        };
        let mut pilot = lanes_pilot(policy, lanes, &fitted, work);
        ride_lanes(pilot.as_mut(), (&[had], &[]), lanes, tick_ms, &job, &mut seen);
        let held = held.unwrap_or_else(|| vec![Holding::OnDemand; lanes]);
        let of = |what: Holding| u32::try_from(held.iter().filter(|held| **held == what).count()).unwrap_or(u32::MAX);
        NodesNow { had, spot: of(Holding::Spot), on_demand: of(Holding::OnDemand) }
    };
    let waits = |pilot: &mut dyn LanesPilot| {
        let (mut waited, mut waiting) = (0, true);
        ride_lanes(pilot, (&[], &[]), lanes, tick_ms, &job, &mut |held| {
            waiting &= held.iter().all(|held| *held == Holding::Idle);
            waited += i64::from(waiting);
        });
        (waited * tick_ms) as f64 / 1e3
    };
    let holding = |of: NodesNow| match of {
        NodesNow { spot: 1.., .. } => Holding::Spot,
        NodesNow { on_demand: 1.., .. } => Holding::OnDemand,
        _ => Holding::Idle,
    };
    let all = u32::try_from(lanes).unwrap_or(u32::MAX);
    let had = supply.up.last().copied().unwrap_or(0);
    let result = FromNow {
        if_up: holding(first(all)),
        if_down: holding(first(0)),
        last_up: had >= all,
        wait_at_most_s: waits(lanes_pilot(policy, lanes, &fitted, work).as_mut()),
        latest_on_demand_s: waits(&mut Waits),
    };
    let told = all.min(MOST_TOLD);
    let by_had = || {
        (0..=told)
            .map(|number| first(u32::try_from(u64::from(number) * u64::from(all) / u64::from(told)).unwrap_or(all)))
    };
    let nodes = elastic.then(|| ElasticNow { last: first(had), by_had: by_had().collect() });
    (result, nodes)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;

    /// Two of four nodes are always there, the others never: 16 node-hours in 6 h on two spot nodes are 12, so that 4 are left for on-demand, which can wait. Greedy takes what there is.
    /// With no time to spare all four run, whatever there is.
    #[test]
    fn as_many_nodes_as_there_are() {
        let zone = SpotSeries::of_counts("half", HOUR, vec![2.0; 200]);
        let job = DeadlineJob { work_ms: 4 * HOUR, deadline_ms: 6 * HOUR, changeover_ms: 0, price_ratio: 3.0 };
        let (now, nodes) = from_now(&zone, CloudPolicy::Greedy, (4, true), (&job, None));
        let nodes = nodes.unwrap();
        assert_eq!(nodes.last, NodesNow { had: 2, spot: 2, on_demand: 0 });
        assert_eq!(nodes.by_had.iter().map(|of| of.spot).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        assert_eq!((now.if_up, now.if_down, now.last_up), (Holding::Spot, Holding::Idle, false));
        assert!((now.latest_on_demand_s - 7200.0).abs() < 1e-9);
        let (_, nodes) = from_now(&zone, CloudPolicy::SemiMarkov, (4, true), (&job, None));
        assert_eq!(nodes.unwrap().last.spot, 2);
        let (_, nodes) =
            from_now(&zone, CloudPolicy::Greedy, (4, true), (&DeadlineJob { deadline_ms: 4 * HOUR, ..job }, None));
        assert_eq!(nodes.unwrap().last.in_words(), "2 on spot and 2 on-demand");
        let (_, none) = from_now(&zone, CloudPolicy::Greedy, (4, false), (&job, None));
        assert!(none.is_none());
    }
}
