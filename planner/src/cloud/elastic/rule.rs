//! Uniform Progress for k of n nodes: [Uniform Progress](crate::cloud::rule) in lanes.
//!
//! With W all the work, R the time to the deadline and e(t) = t·W/R the progress expected by t: spot is taken in every lane that can have it and holds no on-demand. With less
//! progress than e(t), on-demand is taken in so many other lanes, the highest first, that the nodes in all are as many as the work left w needs in the time left L: w/(L − d),
//! rounded up. On-demand that is held stays until the progress has reached e(t + 2d), d the changeover. With one lane it is the published rule. The others
//! ([rule](crate::cloud::rule)) run [in each lane](crate::cloud::elastic::InLanes) as they are.
//!
//! O(lanes) a tick. Worked example: four lanes, 32 node-hours in 10 h, no changeover, one spot node. After the first hour the progress is 1 h of 3.2 h, and 31 h in 9 h need 4 nodes: on-demand
//! in three lanes.

use crate::cloud::elastic::{LanesPilot, LanesView};
use crate::cloud::job::{DeadlineJob, Holding};

/// Uniform progress: keeps the share of work done at the share of time passed, with as many nodes
/// as that takes.
#[derive(Debug, Clone, Copy, Default)]
pub struct UniformLanes;

impl LanesPilot for UniformLanes {
    fn hold(&mut self, job: &DeadlineJob, view: &LanesView<'_>, next: &mut [Holding]) {
        let lanes = next.len() as i64;
        let all_ms = (job.work_ms * lanes) as f64;
        let expected = |at_ms: i64| at_ms as f64 * all_ms / job.deadline_ms as f64;
        let done = all_ms - view.work_ms as f64;
        let stays = done < expected(view.elapsed_ms + 2 * job.changeover_ms);
        for (lane, next) in next.iter_mut().enumerate() {
            *next = match *next {
                Holding::OnDemand if stays => Holding::OnDemand,
                _ if lane < view.up => Holding::Spot,
                _ => Holding::Idle,
            };
        }
        if done < expected(view.elapsed_ms) {
            let able_ms = (view.left_ms - job.changeover_ms).max(1);
            let nodes = (view.work_ms.saturating_add(able_ms - 1) / able_ms).min(lanes);
            let held = next.iter().filter(|next| **next != Holding::Idle).count() as i64;
            let more = usize::try_from(nodes - held).unwrap_or(0);
            let idle = next.iter_mut().rev().filter(|next| **next == Holding::Idle);
            idle.take(more).for_each(|next| *next = Holding::OnDemand);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::cloud::elastic::{Lane, ride, ride_lanes};
    use crate::cloud::rule::UniformProgress;
    use crate::market::availability::Supply;

    const HOUR: i64 = 3_600_000;

    #[test]
    fn the_worked_example() {
        let job = DeadlineJob { work_ms: 8 * HOUR, deadline_ms: 10 * HOUR, changeover_ms: 0, price_ratio: 3.0 };
        let lane = |holding| Lane { holding, setup_ms: 0 };
        let lanes = [Holding::Spot, Holding::Idle, Holding::Idle, Holding::Idle].map(lane);
        let view =
            LanesView { elapsed_ms: HOUR, left_ms: 9 * HOUR, work_ms: 31 * HOUR, lanes: &lanes, up: 1, tick_ms: HOUR };
        let mut next = lanes.map(|lane| lane.holding);
        UniformLanes.hold(&job, &view, &mut next);
        assert_eq!(next, [Holding::Spot, Holding::OnDemand, Holding::OnDemand, Holding::OnDemand]);
        // 13 h in 4 h need four nodes, too; in 8 h two, one more than there is on spot. Level with what is expected, spot alone.
        for (left, more) in [(4, 3), (8, 1)] {
            let mut next = lanes.map(|lane| lane.holding);
            let behind = LanesView { elapsed_ms: 8 * HOUR, left_ms: left * HOUR, work_ms: 13 * HOUR, ..view };
            UniformLanes.hold(&job, &behind, &mut next);
            let on_demand: Vec<usize> = (0..4).filter(|lane| next[*lane] == Holding::OnDemand).collect();
            assert_eq!(on_demand, (4 - more..4).collect::<Vec<_>>());
        }
        let mut next = lanes.map(|lane| lane.holding);
        let level = LanesView { elapsed_ms: 6 * HOUR, left_ms: 4 * HOUR, work_ms: 12 * HOUR, ..view };
        UniformLanes.hold(&job, &level, &mut next);
        assert_eq!(next, lanes.map(|lane| lane.holding));
    }

    proptest! {
        /// With one lane it is the published rule.
        #[test]
        fn one_lane_is_one_instance(
            up in prop::collection::vec(any::<bool>(), 0..12),
            tick_ms in 2i64..7,
            work_ms in 1i64..30,
            spare_ms in 0i64..20,
            changeover_ms in 0i64..9,
        ) {
            let deadline_ms = work_ms + changeover_ms + spare_ms;
            let job = DeadlineJob { work_ms, deadline_ms, changeover_ms, price_ratio: 3.0 };
            let (mut one, mut lanes) = (Vec::new(), Vec::new());
            ride(&mut UniformProgress, &up, tick_ms, &job, &mut |held| one.push(held));
            let supply = Supply::one(&up);
            ride_lanes(&mut UniformLanes, (&supply.up, &[]), 1, tick_ms, &job, &mut |held| lanes.extend(held.to_vec()));
            prop_assert_eq!(one, lanes);
        }
    }
}
