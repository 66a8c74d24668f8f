//! Policies that know no probabilities: all on-demand, greedy, time-sliced, and Uniform Progress (Wu et al., *Can't Be Late*, NSDI 2024).
//!
//! * **All on-demand** from the first tick to the end.
//! * **Greedy**: spot where it can be had, else nothing, until the [safety net](super::job) begins on-demand, which then stays.
//! * **Time-sliced**: the time is cut into [`SLICES`] slices of equal length, each with an equal share of the work. Within a slice it is greedy; once what
//!   is left of the slice is what its share takes on-demand, on-demand begins. What is done beyond a share is carried on.
//! * **Uniform Progress**: with C the work, R the time to the deadline and e(t) = t·C/R the progress expected by t: waiting with less progress than e(t), it
//!   takes on-demand; it takes spot whenever it can be had; on-demand, it stays until the progress has reached e(t + 2d), d the changeover.
//!
//! The published rules take a safety net two changeovers wide; here all share the exact one, which makes them slightly cheaper than published. O(1) a
//! tick. Worked example: 48 h of work in 60 h. After 10 h without spot Uniform Progress has been on-demand since the first tick with e(t) > 0;
//! it lets go when its progress reaches e(t) + 0.32 h (0.4 h · 48/60).

use super::job::{DeadlineJob, Holding, JobView, Pilot};

/// Slices of the time-sliced policy.
pub const SLICES: i64 = 8;

/// On-demand throughout.
#[derive(Debug, Clone, Copy, Default)]
pub struct AllOnDemand;

impl Pilot for AllOnDemand {
    fn hold(&mut self, _: &DeadlineJob, _: &JobView) -> Holding {
        Holding::OnDemand
    }
}

/// Spot or nothing, until only on-demand is left.
#[derive(Debug, Clone, Copy, Default)]
pub struct Greedy;

impl Pilot for Greedy {
    fn hold(&mut self, _: &DeadlineJob, view: &JobView) -> Holding {
        match (view.holding, view.up) {
            (Holding::OnDemand, _) => Holding::OnDemand,
            (_, true) => Holding::Spot,
            (_, false) => Holding::Idle,
        }
    }
}

/// Greedy within slices, each with its share of the work.
#[derive(Debug, Clone, Copy, Default)]
pub struct TimeSliced;

impl Pilot for TimeSliced {
    fn hold(&mut self, job: &DeadlineJob, view: &JobView) -> Holding {
        let slice = (view.elapsed_ms * SLICES / job.deadline_ms.max(1)).min(SLICES - 1);
        let share_ms = job.work_ms * (slice + 1) / SLICES - (job.work_ms - view.work_ms);
        let left_ms = job.deadline_ms * (slice + 1) / SLICES - view.elapsed_ms;
        let setup_ms = if view.holding == Holding::OnDemand { view.setup_ms } else { job.changeover_ms };
        if share_ms > 0 && view.holding == Holding::OnDemand {
            return Holding::OnDemand;
        }
        if view.up {
            return Holding::Spot;
        }
        // One more tick of waiting would not leave enough of the slice.
        if share_ms > 0 && share_ms + setup_ms > left_ms - view.tick_ms { Holding::OnDemand } else { Holding::Idle }
    }
}

/// Uniform progress: keeps the share of work done at the share of time passed.
#[derive(Debug, Clone, Copy, Default)]
pub struct UniformProgress;

impl Pilot for UniformProgress {
    fn hold(&mut self, job: &DeadlineJob, view: &JobView) -> Holding {
        let expected = |at_ms: i64| at_ms as f64 * job.work_ms as f64 / job.deadline_ms as f64;
        let done = (job.work_ms - view.work_ms) as f64;
        match view.holding {
            Holding::OnDemand if done < expected(view.elapsed_ms + 2 * job.changeover_ms) => Holding::OnDemand,
            _ if view.up => Holding::Spot,
            Holding::Idle | Holding::Spot if done < expected(view.elapsed_ms) => Holding::OnDemand,
            _ => Holding::Idle,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloud::elastic::ride;

    const HOUR: i64 = 3_600_000;

    fn held(pilot: &mut dyn Pilot, up: &[bool], job: &DeadlineJob) -> Vec<Holding> {
        let mut held = Vec::new();
        assert!(!ride(pilot, up, HOUR, job, &mut |holding| held.push(holding)).missed);
        held
    }

    /// 4 h of work in 8 h, no changeover, spot in the hours 3 and 8 (from 1).
    ///
    /// All on-demand runs the first four hours. Greedy waits for the third, runs on spot, and waits until after hour 5 the three hours left are all
    /// that is left: on-demand in hours 6 to 8. Uniform Progress waits an hour (nothing is expected at 0), is then behind, takes on-demand in
    /// hour 2 and so is level again (1 h of 2 h · ½), takes spot in hour 3 (2 h of 1.5 h), waits in hour 4, is level after it, waits in hour 5, behind: on-demand in
    /// hour 6, level, waits in hour 7, behind, and takes spot in hour 8.
    #[test]
    fn eight_hours_by_hand() {
        use Holding::{Idle as I, OnDemand as D, Spot as S};
        let job = DeadlineJob { work_ms: 4 * HOUR, deadline_ms: 8 * HOUR, changeover_ms: 0, price_ratio: 3.0 };
        let up = [false, false, true, false, false, false, false, true];
        assert_eq!(held(&mut AllOnDemand, &up, &job), [D, D, D, D]);
        assert_eq!(held(&mut Greedy, &up, &job), [I, I, S, I, I, D, D, D]);
        assert_eq!(held(&mut UniformProgress, &up, &job), [I, D, S, I, I, D, I, S]);
        // A share of half an hour in each slice of one hour: on-demand from the first tick, which is longer than a share; what is done beyond is
        // carried on, so that every other slice has nothing to do.
        assert_eq!(held(&mut TimeSliced, &up, &job), [D, I, S, I, D, I, D]);
    }
}
