//! Uniform Progress for k of n nodes: [Uniform Progress](super::rule) in lanes.
//!
//! With W all the work, R the time to the deadline and e(t) = t·W/R the progress expected by t: spot is taken in every lane that can have it and holds no on-demand. With less
//! progress than e(t), on-demand is taken in so many other lanes, the highest first, that the nodes in all are as many as the work left w needs in the time left L: w/(L − d),
//! rounded up. On-demand that is held stays until the progress has reached e(t + 2d), d the changeover. With one lane it is the published rule. The others
//! ([rule](super::rule)) run [in each lane](super::lanes::InLanes) as they are.
//!
//! O(lanes) a tick. Worked example: four lanes, 32 node-hours in 10 h, no changeover, one spot node. After the first hour the progress is 1 h of 3.2 h, and 31 h in 9 h need 4 nodes: on-demand
//! in three lanes.

use super::job::{DeadlineJob, Holding};
use super::lanes::{LanesPilot, LanesView};

/// As much progress as time has passed, with as many nodes as that takes.
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
