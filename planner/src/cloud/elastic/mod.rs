//! An elastic job with a deadline: one that runs on whatever number of nodes there is, up to K at once, spot and on-demand together. It is also how a job of one
//! instance is run, with K = 1.
//!
//! **Contract.** The job has K places for nodes, called **lanes**, and one pool of work, counted in node-time. Nodes are alike, and n nodes that work do n times the work
//! of one: linear progress, without a cost of working together. At the beginning of a tick the job sees how many spot nodes can be had, a. Lane j can hold spot if
//! j ≤ a, so of more nodes than can be had those in the highest lanes are lost. Each lane keeps the [contract of one instance](crate::cloud::job): it holds nothing,
//! spot or on-demand, and a node that joins pays a **changeover** of its own, in which it runs and is paid for and does no work. The others work on meanwhile. A node that
//! leaves, or is lost, costs the others nothing, and its work stays done. So a changeover stands for what the newcomer needs: to be provided, set up, and to read the
//! checkpoint. A gang that stops as a whole whenever its size changes pays more than is counted here.
//!
//! A lane ends within a tick once its share of the work is done, and pays to that moment, as one instance does. Policies share the work as it comes, so that this happens in the
//! last tick only: there nodes that are set up go first, spot before on-demand, and those that are not needed are let go. Which lane a node is in makes no difference
//! otherwise: s spot and v on-demand nodes fit lanes 1 to s and K − v + 1 to K, and a node begins in a lane exactly where their number grows. So the optimum is found
//! [lane by lane](crate::cloud::elastic::optimum). Costs are in spot milliseconds of one node.
//!
//! **Safety net.** Let w be the work left, L the time left, d the changeover, g the tick, and r what is left of a lane's changeover. What is held is *safe* if, with all spot lost
//! after this tick and on-demand begun in every lane without it, the deadline is still made:
//!
//! ```text
//! w ≤ Σ over lanes (done in this tick + able after it)
//! able = L − g − r (on-demand that is held),  L − g − d (all others),  none below 0
//! ```
//!
//! What is not safe is made so, lane by lane from the highest on: on-demand that was to be let go stays, then lanes that wait begin it, then lanes with spot. On-demand
//! in every lane does (L − r) in each, which is what the line before promised. So by induction no deadline is missed that on-demand alone in K lanes would make
//! from the start. All of it is in whole milliseconds. With K = 1 it is the safety net of one instance.
//!
//! **Uncertain work.** The safety net takes the top amount for the work, and nobody knows before the end that it is near. So no node is let go within the last tick: all that are held run, and are paid for, to the
//! millisecond in which the work is done by all of them together. With K = 1 that is the rule of known work.
//!
//! O(ticks × lanes). Worked example: 4 node-hours of work, K = 2, 3 h to the deadline, no changeover, ticks of 1 h, on-demand at three times the spot price; 1, 2 and 0 spot
//! nodes can be had. Whoever takes only spot does 1 h in the first hour and 2 h in the second, and the last hour is on-demand in one lane: 3·1 + 3 = 6 spot hours, where
//! all on-demand is 3·4 = 12. A job that needs both nodes at once has spot in the second hour only, and pays 2 + 3·2 = 8.

pub mod optimum;
pub mod programme;
pub mod rule;

use crate::cloud::job::{DeadlineJob, Holding, JobRun, JobView, Pilot};
use crate::market::availability::Supply;

/// A place for a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lane {
    /// Instance held from the tick before.
    pub holding: Holding,
    /// Time left of its changeover, milliseconds.
    pub setup_ms: i64,
}

/// What a policy of lanes sees at the beginning of a tick.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LanesView<'a> {
    /// Time since the start, milliseconds.
    pub elapsed_ms: i64,
    /// Time to the deadline, milliseconds.
    pub left_ms: i64,
    /// Work left, milliseconds of one node.
    pub work_ms: i64,
    /// Holdings of each lane.
    pub lanes: &'a [Lane],
    /// How many lanes can have spot in this tick: the first.
    pub up: usize,
    /// Length of the tick, milliseconds.
    pub tick_ms: i64,
}

impl LanesView<'_> {
    /// What one lane sees, if so much of the work is its own.
    pub fn one(&self, lane: usize, work_ms: i64) -> JobView {
        let held = self.lanes.get(lane).copied().unwrap_or(Lane { holding: Holding::Idle, setup_ms: 0 });
        JobView {
            elapsed_ms: self.elapsed_ms,
            left_ms: self.left_ms,
            work_ms,
            holding: held.holding,
            setup_ms: held.setup_ms,
            up: lane < self.up,
            tick_ms: self.tick_ms,
        }
    }

    /// Time left of the changeover of a lane if it holds `next` in this tick.
    fn setup(&self, job: &DeadlineJob, lane: &Lane, next: Holding) -> i64 {
        match next {
            Holding::Idle => 0,
            _ if next == lane.holding => lane.setup_ms,
            _ => job.changeover_ms,
        }
    }

    /// Work that a lane does for sure by the deadline if it holds `next` in this tick and on-demand after it.
    fn sure(&self, job: &DeadlineJob, lane: &Lane, next: Holding) -> i64 {
        let setup = self.setup(job, lane, next);
        let length = self.tick_ms.min(self.left_ms);
        let after = self.left_ms - self.tick_ms;
        let done = if next == Holding::Idle { 0 } else { (length - setup).max(0) };
        let able = if next == Holding::OnDemand { after - (setup - length).max(0) } else { after - job.changeover_ms };
        done + able.max(0)
    }

    /// Makes what is to be held safe.
    fn mend(&self, job: &DeadlineJob, next: &mut [Holding]) {
        let of = |lane: usize, next: Holding| self.lanes.get(lane).map_or(0, |held| self.sure(job, held, next));
        let mut sure: i64 = next.iter().enumerate().map(|(lane, next)| of(lane, *next)).sum();
        for turn in 0..3 {
            for (lane, next) in next.iter_mut().enumerate().rev() {
                if self.work_ms <= sure {
                    return;
                }
                let held = self.lanes.get(lane).is_some_and(|held| held.holding == Holding::OnDemand);
                let mends = match turn {
                    0 => held,
                    1 => *next == Holding::Idle,
                    _ => true,
                };
                if mends && *next != Holding::OnDemand {
                    sure += of(lane, Holding::OnDemand) - of(lane, *next);
                    *next = Holding::OnDemand;
                }
            }
        }
    }
}

/// A policy of lanes: it is asked once a tick, in order, and sees nothing of the future.
pub trait LanesPilot {
    /// Writes what each lane is to hold for the tick that begins; what it holds already stands there. Spot where there is none counts as waiting.
    fn hold(&mut self, job: &DeadlineJob, view: &LanesView<'_>, next: &mut [Holding]);
}

/// A policy of one instance in each lane, as if each had an equal share of the work that is left.
#[derive(Debug, Clone)]
pub struct InLanes<P>(pub P);

impl<P: Pilot> LanesPilot for InLanes<P> {
    fn hold(&mut self, job: &DeadlineJob, view: &LanesView<'_>, next: &mut [Holding]) {
        let lanes = next.len().max(1) as i64;
        let share_ms = (view.work_ms + lanes - 1) / lanes;
        for (lane, next) in next.iter_mut().enumerate() {
            *next = self.0.hold(job, &view.one(lane, share_ms));
        }
    }
}

impl Pilot for &mut dyn Pilot {
    fn hold(&mut self, job: &DeadlineJob, view: &JobView) -> Holding {
        (**self).hold(job, view)
    }
}

impl Pilot for Box<dyn Pilot + '_> {
    fn hold(&mut self, job: &DeadlineJob, view: &JobView) -> Holding {
        (**self).hold(job, view)
    }
}

/// Runs an elastic job under a policy and the safety net: `job` is what each lane would do if the work were shared equally, `up` how many of the `lanes` can have spot in each
/// tick from its start on. A tick of spot costs `price` times what it costs without; 1 beyond its end. `seen` is told what each tick held. Ticks beyond the end of
/// `up` have no spot.
pub fn ride_lanes(
    pilot: &mut dyn LanesPilot,
    (up, price): (&[u32], &[f64]),
    lanes: usize,
    tick_ms: i64,
    job: &DeadlineJob,
    seen: &mut dyn FnMut(&[Holding]),
) -> JobRun {
    run(pilot, (up, price), lanes, Terms { net: true, ..Terms::new(tick_ms) }, (job, job.work_ms), seen)
}

/// Runs a job of uncertain length: [`ride_lanes`] for a job that is done after `work_ms`, at most
/// its full work. Nobody knows that before: the policy and the safety net keep the deadline for all
/// of it.
pub(in crate::cloud) fn ride_uncertain(
    pilot: &mut dyn LanesPilot,
    (up, price): (&[u32], &[f64]),
    lanes: usize,
    tick_ms: i64,
    (job, work_ms): (&DeadlineJob, i64),
    seen: &mut dyn FnMut(&[Holding]),
) -> JobRun {
    let terms = Terms { net: true, foreseen: false, ..Terms::new(tick_ms) };
    run(pilot, (up, price), lanes, terms, (job, work_ms), seen)
}

/// Outcome of a job that holds what a list says, lane by lane and tick by tick, without a safety
/// net, and how many ticks it took. Nobody knew the work.
pub(in crate::cloud) fn ride_held(
    held: &[Holding],
    (up, price): (&[u32], &[f64]),
    lanes: usize,
    tick_ms: i64,
    job: &DeadlineJob,
) -> (JobRun, i64) {
    let mut ticks = 0;
    let terms = Terms { foreseen: false, ..Terms::new(tick_ms) };
    let run = run(&mut HeldLanes(held), (up, price), lanes, terms, (job, job.work_ms), &mut |_: &[Holding]| ticks += 1);
    (run, ticks)
}

/// Holds what a list says, lane by lane of each tick, and then waits.
struct HeldLanes<'a>(&'a [Holding]);

impl LanesPilot for HeldLanes<'_> {
    fn hold(&mut self, _: &DeadlineJob, _: &LanesView<'_>, next: &mut [Holding]) {
        match self.0.split_at_checked(next.len()) {
            Some((now, later)) => {
                next.copy_from_slice(now);
                self.0 = later;
            }
            None => next.fill(Holding::Idle),
        }
    }
}

/// A policy that was told another amount of work than there is, and keeps the safety net for that. Once what it was told is done, or its deadline has passed, spot that is held is used to
/// its end, and all else is on-demand.
struct Misled<'a> {
    pilot: &'a mut dyn LanesPilot,
    told: &'a DeadlineJob,
}

impl LanesPilot for Misled<'_> {
    fn hold(&mut self, job: &DeadlineJob, view: &LanesView<'_>, next: &mut [Holding]) {
        let untold_ms = (job.work_ms - self.told.work_ms) * view.lanes.len() as i64;
        let believed =
            LanesView { left_ms: self.told.deadline_ms - view.elapsed_ms, work_ms: view.work_ms - untold_ms, ..*view };
        if believed.work_ms <= 0 || believed.left_ms <= 0 {
            next.iter_mut().filter(|next| **next != Holding::Spot).for_each(|next| *next = Holding::OnDemand);
            return;
        }
        self.pilot.hold(self.told, &believed, next);
        next.iter_mut().skip(view.up).filter(|next| **next == Holding::Spot).for_each(|next| *next = Holding::Idle);
        believed.mend(self.told, next);
    }
}

/// Runs a job under a wrong statement of its work: [`ride_lanes`] where the policy and the safety
/// net were `told` of other work than the job has, so nobody knows which tick is the last.
pub(in crate::cloud) fn ride_misled(
    pilot: &mut dyn LanesPilot,
    told: &DeadlineJob,
    (up, price): (&[u32], &[f64]),
    lanes: usize,
    tick_ms: i64,
    job: &DeadlineJob,
    seen: &mut dyn FnMut(&[Holding]),
) -> JobRun {
    let terms = Terms { foreseen: false, ..Terms::new(tick_ms) };
    run(&mut Misled { pilot, told }, (up, price), lanes, terms, (job, job.work_ms), seen)
}

/// Runs a job of one instance over `up`, whether spot can be had in each tick from its start on, under a policy and the safety net. `seen` is told what each tick held.
/// Ticks beyond the end of `up` have no spot.
pub fn ride(
    pilot: &mut dyn Pilot,
    up: &[bool],
    tick_ms: i64,
    job: &DeadlineJob,
    seen: &mut dyn FnMut(Holding),
) -> JobRun {
    one(pilot, (up, &[]), Terms { net: true, ..Terms::new(tick_ms) }, job, seen)
}

/// Runs a job as [`ride`] does, where a tick of spot costs `price` times what it costs without; 1
/// beyond the end of `price`.
pub fn ride_priced(
    pilot: &mut dyn Pilot,
    up: &[bool],
    price: &[f64],
    tick_ms: i64,
    job: &DeadlineJob,
    seen: &mut dyn FnMut(Holding),
) -> JobRun {
    one(pilot, (up, price), Terms { net: true, ..Terms::new(tick_ms) }, job, seen)
}

/// Runs a job as [`ride`] does, without the safety net: for decisions made with all of `up` known.
pub fn ride_without_net(
    pilot: &mut dyn Pilot,
    up: &[bool],
    price: &[f64],
    tick_ms: i64,
    job: &DeadlineJob,
    seen: &mut dyn FnMut(Holding),
) -> JobRun {
    one(pilot, (up, price), Terms::new(tick_ms), job, seen)
}

fn one(
    pilot: &mut dyn Pilot,
    (up, price): (&[bool], &[f64]),
    terms: Terms,
    job: &DeadlineJob,
    seen: &mut dyn FnMut(Holding),
) -> JobRun {
    let supply = Supply::one(up);
    let mut seen = |held: &[Holding]| held.iter().for_each(|held| seen(*held));
    run(&mut InLanes(pilot), (&supply.up, price), 1, terms, (job, job.work_ms), &mut seen)
}

/// By which rules a job is run.
#[derive(Debug, Clone, Copy)]
struct Terms {
    /// Length of a tick, milliseconds.
    tick_ms: i64,
    /// Whether there is a safety net.
    net: bool,
    /// Whether it is known which tick is the last, so that nodes which are not needed in it are let go.
    foreseen: bool,
}

impl Terms {
    /// Without a safety net, of known work.
    fn new(tick_ms: i64) -> Self {
        Self { tick_ms, net: false, foreseen: true }
    }
}

/// When in a tick lanes that begin to work after `setups` have done so much work together, milliseconds from its beginning; rounded up. 0 without lanes.
///
/// Worked example: lanes that work from 0 and from 4 on have done 10 at 7: 7 and 3.
fn done_after(mut setups: Vec<i64>, work_ms: i64) -> i64 {
    setups.sort_unstable();
    let mut done = 0;
    for (working, from) in (1..).zip(&setups) {
        let needed = (work_ms - done + working - 1) / working;
        match setups.get(working as usize) {
            Some(next) if needed > next - from => done += working * (next - from),
            _ => return from + needed,
        }
    }
    0
}

fn run(
    pilot: &mut dyn LanesPilot,
    (up, price): (&[u32], &[f64]),
    lanes: usize,
    Terms { tick_ms, net, foreseen }: Terms,
    (job, true_ms): (&DeadlineJob, i64),
    seen: &mut dyn FnMut(&[Holding]),
) -> JobRun {
    let mut run = JobRun::default();
    let mut spot_cost = 0.0;
    let mut work_ms = true_ms * lanes as i64;
    // Work that the job may have, and has not.
    let not_there_ms = (job.work_ms - true_ms) * lanes as i64;
    let mut held = vec![Lane { holding: Holding::Idle, setup_ms: 0 }; lanes];
    let mut next = vec![Holding::Idle; lanes];
    for tick in 0..job.ticks(tick_ms) {
        let elapsed_ms = tick as i64 * tick_ms;
        let left_ms = job.deadline_ms - elapsed_ms;
        let up = up.get(tick).map_or(0, |up| *up as usize).min(lanes);
        for lane in held.iter_mut().skip(up).filter(|lane| lane.holding == Holding::Spot) {
            *lane = Lane { holding: Holding::Idle, setup_ms: 0 };
            run.lost += 1;
        }
        next.iter_mut().zip(&held).for_each(|(next, held)| *next = held.holding);
        let view = LanesView { elapsed_ms, left_ms, work_ms: work_ms + not_there_ms, lanes: &held, up, tick_ms };
        pilot.hold(job, &view, &mut next);
        next.iter_mut().skip(up).filter(|next| **next == Holding::Spot).for_each(|next| *next = Holding::Idle);
        if net {
            view.mend(job, &mut next);
        }
        let setups: Vec<i64> = held.iter().zip(&next).map(|(held, next)| view.setup(job, held, *next)).collect();
        for ((held, next), setup_ms) in held.iter_mut().zip(&next).zip(setups) {
            run.changeovers += usize::from(*next != held.holding && *next != Holding::Idle);
            *held = Lane { holding: *next, setup_ms };
        }
        seen(&next);
        let length = tick_ms.min(left_ms);
        let price = price.get(tick).copied().unwrap_or(1.0);
        let mut order: Vec<usize> = (0..lanes).filter(|lane| held[*lane].holding != Holding::Idle).collect();
        let able: i64 = order.iter().map(|lane| (length - held[*lane].setup_ms).max(0)).sum();
        let ends = able >= work_ms;
        let setups = || order.iter().map(|lane| held[*lane].setup_ms).collect();
        let until = (ends && !foreseen).then(|| done_after(setups(), work_ms));
        if ends && foreseen {
            order.sort_by_key(|lane| (held[*lane].setup_ms, held[*lane].holding == Holding::OnDemand));
        }
        for lane in order {
            let lane = &mut held[lane];
            let used = match until {
                Some(until) => until,
                None if ends && work_ms == 0 => 0,
                None => length.min(lane.setup_ms + work_ms),
            };
            if lane.holding == Holding::Spot {
                run.spot_ms += used;
                spot_cost += price * used as f64;
            } else {
                run.on_demand_ms += used;
            }
            let set_up = lane.setup_ms.min(used);
            lane.setup_ms -= set_up;
            work_ms -= used - set_up;
        }
        if work_ms <= 0 {
            break;
        }
    }
    run.missed = work_ms > 0;
    run.cost = spot_cost + job.price_ratio * run.on_demand_ms as f64;
    run
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::float_cmp)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::cloud::elastic::optimum::lanes_optimum;
    use crate::cloud::rule::{AllOnDemand, Greedy};

    const HOUR: i64 = 3_600_000;

    /// Holds what a list says, tick by tick and lane by lane, and then waits.
    struct Listed(Vec<Vec<Holding>>);

    impl LanesPilot for Listed {
        fn hold(&mut self, _: &DeadlineJob, view: &LanesView<'_>, next: &mut [Holding]) {
            let tick = usize::try_from(view.elapsed_ms / view.tick_ms).unwrap();
            for (lane, next) in next.iter_mut().enumerate() {
                *next = self.0.get(tick).map_or(Holding::Idle, |held| held[lane]);
            }
        }
    }

    #[test]
    fn the_worked_example() {
        let job = DeadlineJob { work_ms: 2 * HOUR, deadline_ms: 3 * HOUR, changeover_ms: 0, price_ratio: 3.0 };
        let run = |pilot: &mut dyn LanesPilot| ride_lanes(pilot, (&[1, 2, 0], &[]), 2, HOUR, &job, &mut |_| ());
        let greedy = run(&mut InLanes(Greedy));
        assert_eq!((greedy.missed, greedy.cost, greedy.lost), (false, 6.0 * HOUR as f64, 2));
        assert_eq!(run(&mut InLanes(AllOnDemand)).cost, 12.0 * HOUR as f64);
        // Both nodes at once or none: a job of one lane, at twice the price. Spot in the second hour, on-demand in the first or the third.
        let gang = ride(&mut Greedy, &[false, true, false], HOUR, &job, &mut |_| ());
        assert_eq!(2.0 * gang.cost, 8.0 * HOUR as f64);
    }

    /// Half an hour of changeover, ticks of an hour, two lanes and 3 node-hours. One spot node works from 0:30 on; another joins at 1:00, alone pays until 1:30, and is lost at
    /// 2:00: 0.5 + 1 + 0.5 node-hours by then. The first does the last hour. It runs for 3 h and the other for 1 h.
    #[test]
    fn a_node_that_joins_or_is_lost_costs_the_others_nothing() {
        let job =
            DeadlineJob { work_ms: 3 * HOUR / 2, deadline_ms: 6 * HOUR, changeover_ms: HOUR / 2, price_ratio: 3.0 };
        let run = ride_lanes(&mut InLanes(Greedy), (&[1, 2, 1], &[]), 2, HOUR, &job, &mut |_| ());
        assert_eq!((run.cost, run.changeovers, run.lost, run.missed), (4.0 * HOUR as f64, 2, 1, false));
    }

    /// Three lanes without spot, no changeover, 6 node-hours in 4 h. By the end of the second hour all three must run; none needs to before it.
    #[test]
    fn the_net_takes_no_more_on_demand_than_it_must() {
        let job = DeadlineJob { work_ms: 2 * HOUR, deadline_ms: 4 * HOUR, changeover_ms: 0, price_ratio: 3.0 };
        let mut held = Vec::new();
        let mut seen = |of: &[Holding]| held.push(of.iter().filter(|of| **of == Holding::OnDemand).count());
        ride_lanes(&mut Listed(Vec::new()), (&[], &[]), 3, HOUR, &job, &mut seen);
        assert_eq!(held, [0, 0, 3, 3]);
        // With 7 node-hours, one would be too much after a second hour without on-demand: one lane begins, the highest.
        let job = DeadlineJob { work_ms: 7 * HOUR / 3, ..job };
        let mut first = Vec::new();
        ride_lanes(&mut Listed(Vec::new()), (&[], &[]), 3, HOUR, &job, &mut |of| first.push(of.to_vec()));
        assert_eq!(first[0], [Holding::Idle; 3]);
        assert_eq!(first[1], [Holding::Idle, Holding::Idle, Holding::OnDemand]);
    }

    /// Nodes that are not needed to the end are let go: on-demand before spot.
    #[test]
    fn the_last_tick_is_paid_as_far_as_it_is_needed() {
        let job = DeadlineJob { work_ms: HOUR / 2, deadline_ms: 2 * HOUR, changeover_ms: 0, price_ratio: 3.0 };
        let way = vec![vec![Holding::Spot, Holding::OnDemand]];
        let run = ride_lanes(&mut Listed(way), (&[1], &[]), 2, HOUR, &job, &mut |_| ());
        assert_eq!((run.spot_ms, run.on_demand_ms), (HOUR, 0));
    }

    /// Nobody knows that it is the last tick: spot and on-demand work side by side until the work is done, after a quarter of an hour.
    #[test]
    fn of_uncertain_work_all_nodes_run_to_the_end() {
        let job = DeadlineJob { work_ms: HOUR / 4, deadline_ms: 2 * HOUR, changeover_ms: 0, price_ratio: 3.0 };
        let mut way = Listed(vec![vec![Holding::Spot, Holding::OnDemand]]);
        let run = ride_uncertain(&mut way, (&[1], &[]), 2, HOUR, (&job, job.work_ms), &mut |_| ());
        assert_eq!((run.spot_ms, run.on_demand_ms, run.missed), (HOUR / 4, HOUR / 4, false));
        assert_eq!(done_after(vec![4, 0], 10), 7);
        assert_eq!(done_after(vec![4, 0], 11), 8);
        assert_eq!((done_after(vec![9, 0], 8), done_after(Vec::new(), 0)), (8, 0));
        let held = [Holding::Idle, Holding::Idle, Holding::Spot, Holding::OnDemand];
        let (run, ticks) = ride_held(&held, (&[1, 1], &[]), 2, HOUR, &job);
        assert_eq!((run.cost, ticks, run.missed), (HOUR as f64, 2, false));
    }

    fn holding() -> impl Strategy<Value = Holding> {
        prop_oneof![Just(Holding::Idle), Just(Holding::Spot), Just(Holding::OnDemand)]
    }

    proptest! {
        /// Whatever a policy asks for and whatever spot does, what on-demand alone would make is made, to the millisecond, and costs no less than the optimum.
        #[test]
        fn no_policy_can_miss(
            lanes in 1usize..5,
            up in prop::collection::vec(0u32..6, 0..9),
            way in prop::collection::vec(prop::collection::vec(holding(), 4), 9),
            tick_ms in 2i64..7,
            work_ms in 1i64..20,
            spare_ms in 0i64..20,
            changeover_ms in 0i64..9,
        ) {
            let deadline_ms = work_ms + changeover_ms + spare_ms;
            let job = DeadlineJob { work_ms, deadline_ms, changeover_ms, price_ratio: 3.0 };
            let run = ride_lanes(&mut Listed(way.clone()), (&up, &[]), lanes, tick_ms, &job, &mut |_| ());
            prop_assert!(!run.missed);
            let least = lanes_optimum(&up, lanes, &[], tick_ms, &crate::cloud::elastic::optimum::whole(&job, tick_ms)).unwrap();
            let whole = crate::cloud::elastic::optimum::whole(&job, tick_ms);
            let run = ride_lanes(&mut Listed(way.clone()), (&up, &[]), lanes, tick_ms, &whole, &mut |_| ());
            prop_assert!(!run.missed && run.cost >= least * (1.0 - 1e-12), "{} below {least}", run.cost);
            // Of uncertain work each amount up to that is done by the deadline, and for no less than it takes to do it.
            for amount_ms in 1..=work_ms {
                let mut held = Vec::new();
                let mut pilot = Listed(way.clone());
                ride_uncertain(&mut pilot, (&up, &[]), lanes, tick_ms, (&whole, whole.work_ms), &mut |of| held.extend_from_slice(of));
                let ride = DeadlineJob { work_ms: amount_ms, ..whole };
                let (alone, _) = ride_held(&held, (&up, &[]), lanes, tick_ms, &ride);
                let request = ride_uncertain(&mut Listed(way.clone()), (&up, &[]), lanes, tick_ms, (&whole, amount_ms), &mut |_| ());
                prop_assert_eq!(alone, request);
                prop_assert!(!request.missed && request.cost >= (amount_ms * lanes as i64) as f64);
            }
            // On-demand alone, with no time to spare and with a millisecond too little.
            let tight = DeadlineJob { deadline_ms: work_ms + changeover_ms, ..job };
            prop_assert!(!ride_lanes(&mut Listed(Vec::new()), (&up, &[]), lanes, tick_ms, &tight, &mut |_| ()).missed);
            let late = DeadlineJob { deadline_ms: tight.deadline_ms - 1, ..job };
            let run = ride_lanes(&mut Listed(Vec::new()), (&[], &[]), lanes, tick_ms, &late, &mut |_| ());
            prop_assert!(late.deadline_ms <= 0 || run.missed);
        }
    }
}
