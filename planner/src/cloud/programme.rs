//! The dynamic programme: the least expected cost of a job with a deadline when availability follows [phases](tracecast_predictors::spot::phases).
//!
//! Time runs in steps of h. The state is the work left w, the spare time s (time to the deadline less w), what is held, whether spot is up, and the
//! belief: with two phases of each kind one number, the chance of the long one. A step that works takes w down by one, a step that waits or sets up takes s down by one, and less spare time than a changeover is infinitely dear unless on-demand runs. With E
//! over the phases a step on, and k the price of on-demand:
//!
//! ```text
//! V(w, s, idle)      = min { E V(w, s−1, idle),  begin on-demand,  begin spot (if up) }
//! V(w, s, on-demand) = min { k + E V(w−1, s, on-demand),  V(w, s, idle) }
//! V(w, s, spot)      = 1 + E [ kept: V(w−1, s, spot);  lost: half of each, V(w−1, s, idle) and V(w, s−1, idle) ]
//! ```
//!
//! **Uncertain work** ([`WorkDistribution`]): w is what is left of the top amount, and every value is weighed by the chance that the job still runs. With S of the work done, a step that works costs the mean of S over it in
//! place of 1, and to begin an instance S times a changeover; values of w − 1 have the chance of being reached in them. Known work has S = 1 everywhere.
//!
//! Beginning an instance takes n whole steps of changeover, during which spot may be lost, or, where a changeover is less than a step, that share of a
//! first step; the rest of it works. The step is the changeover, or a part of it where that is more than 1/`LEAST_STEPS` of the work; a tick where that is
//! longer; or what keeps the table below `MOST_CELLS` works and spare times. What is left until the deadline, w + s, tells the hour of the day, whose
//! chances hold for the step.
//!
//! [`Programmed`] asks it at every tick, with the belief of that moment, and between the points of the grid by linear interpolation; beliefs lie
//! densest near certainty, at sin²(πi/2n). However little work is left, to begin an instance costs a changeover: below one step of work the values of being idle lie between that and
//! those of one step, and what runs is paid for what is left. A run on spot is used to its end, and a changeover that is paid for is finished. On-demand is let go to wait only where
//! that saves what it costs to begin it again. The [safety net](super::job) makes the deadline exact, whatever the steps.
//!
//! O(works × spare times × beliefs). Worked number: 48 h of work at a slack of 0.65 and 12 min of changeover are 241 × 131 × 5 states × 13 beliefs, 2.1
//! million values.

mod fill;

use std::f64::consts::FRAC_PI_2;
use tracecast_predictors::spot::factor::HOURS;

use super::job::{DeadlineJob, Holding, JobView, Pilot};
use super::work::WorkDistribution;
use tracecast_predictors::spot::phases::{Belief, PhaseMatrix, Phases};

/// Most pairs of work and spare time in the table.
const MOST_CELLS: f64 = 60_000.0;
/// Most pairs of work and spare time in the table of one lane of an elastic job; only those with
/// less than the time to the deadline in all are filled.
const MOST_LANE_CELLS: f64 = 60_000.0;
/// Steps that the work has at least, where a changeover is long.
const LEAST_STEPS: i64 = 96;
/// Points of the axis of belief, where there are two phases of a kind.
const AXIS: usize = 13;
/// A cost that nothing is worth.
const NEVER: f32 = 1e18;

/// A chance, the point of belief at or below which it leads, and how far it is to the next.
#[derive(Debug, Clone, Copy, Default)]
struct Branch {
    chance: f32,
    point: usize,
    part: f32,
}

/// Where a step leads, down and up; and with spot held, lost and down, lost and up, or kept.
#[derive(Debug, Clone, Copy, Default)]
struct Onward {
    any: [Branch; 2],
    lost: [Branch; 2],
    kept: Branch,
}

/// A solved programme.
#[derive(Debug, Clone)]
pub struct Programme {
    phases: Phases,
    /// Chances over a step, and over what beginning an instance takes, hour by hour of the day.
    over: Vec<[(PhaseMatrix, PhaseMatrix); 2]>,
    /// The deadline, milliseconds after the first tick of the trace.
    end_ms: i64,
    step_ms: f64,
    /// Whole steps of a changeover; none where it is less than a step.
    setup: usize,
    /// Share of the first step that sets up, where the changeover is less than one.
    setup_part: f32,
    /// Steps that must be spare to begin on-demand.
    reserve: usize,
    works: usize,
    spares: usize,
    /// Most of work and spare time together that are asked for.
    most: usize,
    beliefs: usize,
    price_ratio: f32,
    /// Distribution of the work, where it is uncertain.
    work: Option<WorkDistribution>,
    values: Vec<f32>,
}

/// What a moment leads to, of a belief.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outlook {
    step: Onward,
    setup: Onward,
}

/// States beside work, spare time and belief: idle while down and while up, on-demand likewise, on spot.
const IDLE: [usize; 2] = [0, 1];
const ON_DEMAND: [usize; 2] = [2, 3];
const SPOT: usize = 4;
const STATES: usize = 5;

/// A point of an axis of belief: they lie densest near certainty.
fn axis_point(point: usize) -> f64 {
    let sine = (FRAC_PI_2 * point as f64 / (AXIS - 1) as f64).sin();
    sine * sine
}

/// The point of an axis at or below `share`, and how far it is to the next.
fn on_axis(share: f64) -> (usize, f32) {
    let last = AXIS - 1;
    let share = share.clamp(0.0, 1.0);
    let point = ((last as f64 * share.sqrt().asin() / FRAC_PI_2).floor() as usize).min(last - 1);
    let (from, to) = (axis_point(point), axis_point(point + 1));
    (point, ((share - from) / (to - from)).clamp(0.0, 1.0) as f32)
}

impl Programme {
    /// Solves it for a job that begins at tick `start` of the trace.
    pub fn solve(phases: Phases, tick_ms: i64, job: &DeadlineJob, start: usize) -> Self {
        Self::solve_uncertain(phases, tick_ms, job, start, None)
    }

    /// Solves it for a job whose work is uncertain, and `job.work_ms` its top.
    pub fn solve_uncertain(
        phases: Phases,
        tick_ms: i64,
        job: &DeadlineJob,
        start: usize,
        work: Option<&WorkDistribution>,
    ) -> Self {
        Self::table(phases, tick_ms, job, start, (job.work_ms, job.spare_ms(), MOST_CELLS), work)
    }

    /// Solves it for any share of the work that a lane of an elastic job could do by the deadline.
    pub fn solve_lane(phases: Phases, tick_ms: i64, job: &DeadlineJob, start: usize) -> Self {
        Self::table(phases, tick_ms, job, start, (job.deadline_ms, job.deadline_ms, MOST_LANE_CELLS), None)
    }

    fn table(
        phases: Phases,
        tick_ms: i64,
        job: &DeadlineJob,
        start: usize,
        (work_ms, spare_ms, most_cells): (i64, i64, f64),
        work: Option<&WorkDistribution>,
    ) -> Self {
        let changeover_ms = job.changeover_ms as f64;
        let table_ms = (work_ms as f64 * spare_ms.max(1) as f64 / most_cells).sqrt();
        let least_ms = table_ms.max(tick_ms as f64);
        let (step_ms, setup) = if changeover_ms < least_ms {
            (least_ms, 0)
        } else {
            let wanted_ms = least_ms.max(job.work_ms as f64 / LEAST_STEPS as f64);
            let steps = (changeover_ms / wanted_ms).floor().max(1.0);
            (changeover_ms / steps, steps as usize)
        };
        let setup_part = if setup == 0 { changeover_ms / step_ms } else { 0.0 };
        let mut programme = Self {
            over: (0..HOURS)
                .map(|hour| [phases.over(step_ms, hour), phases.over(changeover_ms.max(step_ms), hour)])
                .collect(),
            end_ms: start as i64 * tick_ms + job.deadline_ms,
            beliefs: if phases.each() == 1 { 1 } else { AXIS },
            phases,
            step_ms,
            setup,
            setup_part: setup_part as f32,
            reserve: if setup_part > 0.0 { 1 } else { setup },
            works: (work_ms as f64 / step_ms).ceil() as usize,
            spares: (spare_ms as f64 / step_ms).ceil() as usize + 1,
            // The corners around any point that can come about.
            most: (job.deadline_ms as f64 / step_ms).ceil() as usize + 3,
            price_ratio: job.price_ratio as f32,
            work: work.cloned(),
            values: Vec::new(),
        };
        programme.fill();
        programme
    }

    fn place(&self, work: usize, spare: usize, state: usize) -> usize {
        ((work * (self.spares + 1) + spare) * STATES + state) * self.beliefs
    }

    /// Where the phases' chances `next` lead among those that show as `up`.
    fn branch(&self, next: &[f64], up: bool) -> Branch {
        let of = next.get(self.phases.of(up)).unwrap_or_default();
        let chance: f64 = of.iter().sum();
        let &[_, long] = of else { return Branch { chance: chance as f32, ..Branch::default() } };
        if chance <= 0.0 {
            return Branch::default();
        }
        let (point, part) = on_axis(long / chance);
        Branch { chance: chance as f32, point, part }
    }

    fn onward(&self, belief: &[f64], over: &(PhaseMatrix, PhaseMatrix)) -> Onward {
        let step = |matrix: &PhaseMatrix| -> Vec<f64> {
            let mut next = vec![0.0; belief.len()];
            for (chance, row) in belief.iter().zip(matrix) {
                next.iter_mut().zip(row).for_each(|(sum, to)| *sum += chance * to);
            }
            next
        };
        let (any, kept) = (step(&over.0), step(&over.1));
        let lost: Vec<f64> = any.iter().zip(&kept).map(|(any, kept)| (any - kept).max(0.0)).collect();
        Onward {
            any: [self.branch(&any, false), self.branch(&any, true)],
            lost: [self.branch(&lost, false), self.branch(&lost, true)],
            kept: self.branch(&kept, true),
        }
    }

    /// The belief at a point of the grid.
    fn belief(&self, up: bool, point: usize) -> Vec<f64> {
        let mut belief = vec![0.0; self.phases.count()];
        let long = axis_point(point);
        match belief.get_mut(self.phases.of(up)).unwrap_or_default() {
            [only] => *only = 1.0,
            [short, last] => (*short, *last) = (1.0 - long, long),
            _ => {}
        }
        belief
    }

    /// The hour of the day at which a job with so much left is.
    fn hour(&self, work: f64, spare: f64) -> usize {
        self.phases.hour(self.end_ms - ((work + spare) * self.step_ms) as i64)
    }

    /// The chance that a job of which so much work is left, in steps of the top amount, still runs.
    fn alive(&self, work: f64) -> f64 {
        let alive = |of: &WorkDistribution| of.alive(of.top_ms() as f64 - work * self.step_ms);
        self.work.as_ref().map_or(1.0, alive)
    }

    /// Mean steps of work that are done of the next `steps`, likewise.
    fn worked(&self, work: f64, steps: f64) -> f64 {
        let Some(of) = &self.work else { return steps };
        let done = of.top_ms() as f64 - work * self.step_ms;
        (of.mean_done(done + steps * self.step_ms) - of.mean_done(done)) / self.step_ms
    }

    fn expected(&self, place: usize, branch: &Branch) -> f32 {
        if branch.chance == 0.0 {
            return 0.0;
        }
        let low = self.values[place + branch.point];
        let high = if branch.part > 0.0 { self.values[place + branch.point + 1] } else { low };
        branch.chance * (low + (high - low) * branch.part)
    }

    /// Expected cost between the points of the grid, in steps of spot; a spare time below `floor` counts as that.
    fn between(&self, work: f64, spare: f64, floor: usize, state: usize, branch: &Branch) -> f64 {
        if branch.chance == 0.0 || work <= 0.0 {
            return 0.0;
        }
        let work = work.min(self.works as f64);
        let spare = spare.clamp(floor.min(self.spares) as f64, self.spares as f64);
        let (low_work, low_spare) =
            ((work.floor() as usize).min(self.works - 1), (spare.floor() as usize).min(self.spares - 1));
        let (work_part, spare_part) = (work - low_work as f64, spare - low_spare as f64);
        let at = |work: usize, spare: usize| f64::from(self.expected(self.place(work, spare, state), branch));
        let along = |work: usize| {
            if spare_part == 0.0 {
                return at(work, low_spare);
            }
            if spare_part >= 1.0 {
                return at(work, low_spare + 1);
            }
            let (from, to) = (at(work, low_spare), at(work, low_spare + 1));
            from + (to - from) * spare_part
        };
        let (from, to) = (along(low_work), along(low_work + 1));
        from + (to - from) * work_part
    }

    /// What a moment with so much time left leads to, of a belief.
    pub(super) fn outlook(&self, belief: &Belief, left_ms: i64) -> Option<Outlook> {
        let [over, over_setup] = self.over.get(self.hour(left_ms as f64 / self.step_ms - 0.5, 0.0))?;
        Some(Outlook { step: self.onward(&belief.0, over), setup: self.onward(&belief.0, over_setup) })
    }

    /// Expected cost from a view on of each choice, a step long: wait, on-demand and spot; spot milliseconds, weighed by the chance that the job runs. What cannot be is infinite. On-demand that
    /// is held is taken to be set up.
    pub(super) fn costs(&self, of: &Outlook, view: &JobView) -> [f64; 3] {
        let work = view.work_ms as f64 / self.step_ms;
        let spare = (view.left_ms - view.work_ms) as f64 / self.step_ms;
        let Outlook { step, setup } = of;
        let price = f64::from(self.price_ratio);
        let idle = |spare: f64, branches: &[Branch; 2]| self.two_between(work, spare, self.reserve, IDLE, branches);
        let on_demand =
            |work: f64, spare: f64, branches: &[Branch; 2]| self.two_between(work, spare, 0, ON_DEMAND, branches);
        let (whole, part) = (self.setup as f64, f64::from(self.setup_part));
        // The last of the work takes less than a step, and is paid to its end.
        let last = work.min(1.0);
        let (alive, worked) = (self.alive(work), self.worked(work, last));
        // A first step of which a part sets up.
        let begun = alive + (1.0 - part) * (worked - alive);
        let on_demand = if view.holding == Holding::OnDemand {
            price * worked + on_demand(work - 1.0, spare, &step.any)
        } else if self.setup > 0 {
            price * whole * alive + on_demand(work, spare - whole, &setup.any)
        } else if work < 1.0 {
            price * (part * alive + worked)
        } else {
            price * begun
                + part * on_demand(work, spare - 1.0, &step.any)
                + (1.0 - part) * on_demand(work - 1.0, spare, &step.any)
        };
        let kept = |work: f64, spare: f64, onward: &Onward| self.between(work, spare, self.reserve, SPOT, &onward.kept);
        let spot = || {
            if self.setup > 0 {
                whole * alive + idle(spare - whole, &setup.lost) + kept(work, spare - whole, setup)
            } else if work < 1.0 {
                part * alive + worked + (part + work).min(1.0) * idle(spare - 1.0, &step.lost)
            } else {
                begun
                    + idle(spare - 1.0, &step.lost)
                    + part * kept(work, spare - 1.0, step)
                    + (1.0 - part) * kept(work - 1.0, spare, step)
            }
        };
        let begins = (self.setup + self.reserve.max(1)) as f64;
        let costs = [
            if spare - 1.0 >= self.reserve as f64 { idle(spare - 1.0, &step.any) } else { f64::INFINITY },
            on_demand,
            if view.up && spare >= begins { spot() } else { f64::INFINITY },
        ];
        costs.map(|cost| cost * self.step_ms)
    }

    /// Expected cost between the points of the grid of two states, one while down and one while up.
    fn two_between(&self, work: f64, spare: f64, floor: usize, states: [usize; 2], branches: &[Branch; 2]) -> f64 {
        let [down, up] = states;
        let [if_down, if_up] = branches;
        self.between(work, spare, floor, down, if_down) + self.between(work, spare, floor, up, if_up)
    }

    /// Expected cost of a lane from a view on, spot milliseconds: the least of its choices, or what it holds if a run is used to its end or a changeover finished. What
    /// is left of a changeover is paid for and takes spare time. Infinite where the work cannot be done.
    pub(super) fn worth(&self, of: &Outlook, view: &JobView) -> f64 {
        if view.work_ms <= 0 {
            return 0.0;
        }
        let cost = if view.holding == Holding::Spot {
            let work = view.work_ms as f64 / self.step_ms;
            let spare = (view.left_ms - view.setup_ms - view.work_ms) as f64 / self.step_ms;
            let lost = |work: f64, spare: f64| self.two_between(work, spare, self.reserve, IDLE, &of.step.lost);
            let half_lost = 0.5 * (lost(work - 1.0, spare) + lost(work, spare - 1.0));
            let kept = self.between(work - 1.0, spare, self.reserve, SPOT, &of.step.kept);
            let cost = (1.0_f64.min(work) + half_lost + kept) * self.step_ms;
            if spare < self.reserve as f64 { f64::INFINITY } else { view.setup_ms as f64 + cost }
        } else if view.holding == Holding::OnDemand && view.setup_ms > 0 {
            let after = JobView { left_ms: view.left_ms - view.setup_ms, setup_ms: 0, ..*view };
            let [_, on_demand, _] = self.costs(of, &after);
            if after.left_ms < after.work_ms {
                f64::INFINITY
            } else {
                f64::from(self.price_ratio) * view.setup_ms as f64 + on_demand
            }
        } else {
            let [idle, on_demand, spot] = self.costs(of, view);
            let setup_ms =
                if view.holding == Holding::OnDemand { 0 } else { (self.reserve as f64 * self.step_ms) as i64 };
            let on_demand = if view.left_ms - setup_ms < view.work_ms { f64::INFINITY } else { on_demand };
            idle.min(on_demand).min(spot)
        };
        if cost < f64::from(NEVER) { cost } else { f64::INFINITY }
    }

    /// Steps of a changeover, or the part of one.
    fn begins(&self) -> f64 {
        self.setup as f64 + f64::from(self.setup_part)
    }

    /// What to hold: a run is used to its end, and a changeover that is paid for is finished. On-demand is let go to wait only where that saves what it costs to begin it again.
    pub(super) fn choice(&self, of: &Outlook, view: &JobView) -> Holding {
        match view.holding {
            Holding::Spot => Holding::Spot,
            Holding::OnDemand if view.setup_ms > 0 => Holding::OnDemand,
            _ => {
                let [idle, on_demand, spot] = self.costs(of, view);
                // What is let go to wait is begun again if spot does not come. Models are learned anew on the way, so that the next may think otherwise.
                let again = match view.holding {
                    Holding::OnDemand => {
                        let alive = self.alive(view.work_ms as f64 / self.step_ms);
                        f64::from(self.price_ratio) * self.begins() * self.step_ms * alive
                    }
                    _ => 0.0,
                };
                match () {
                    () if spot <= idle && spot <= on_demand => Holding::Spot,
                    () if on_demand < idle + again => Holding::OnDemand,
                    () => Holding::Idle,
                }
            }
        }
    }

    /// Length of a step, milliseconds.
    pub(super) fn step_ms(&self) -> f64 {
        self.step_ms
    }
}

/// Programmes in order of the tick from which they serve, each with the belief before that tick: those fitted at the start and at moments after it.
pub type Fitted = [(usize, Programme, Belief)];

/// The belief of the moment, under the programme solved last.
#[derive(Debug, Clone)]
pub(super) struct Followed<'a> {
    programmes: &'a Fitted,
    tick: usize,
    at: usize,
    belief: Option<Belief>,
}

impl<'a> Followed<'a> {
    pub(super) fn new(programmes: &'a Fitted) -> Self {
        Self { programmes, tick: 0, at: 0, belief: None }
    }

    /// Takes in what the next tick shows; the programme to ask and what it says of the moment.
    pub(super) fn see(&mut self, up: bool, left_ms: i64) -> Option<(&'a Programme, Outlook)> {
        while self.programmes.get(self.at + 1).is_some_and(|(from, ..)| *from <= self.tick) {
            self.at += 1;
            self.belief = None;
        }
        self.tick += 1;
        let (_, programme, before) = self.programmes.get(self.at)?;
        let belief = self.belief.get_or_insert_with(|| before.clone());
        programme.phases.see(belief, up);
        Some((programme, programme.outlook(belief, left_ms)?))
    }
}

/// The policy of one instance that follows programmes.
#[derive(Debug, Clone)]
pub struct Programmed<'a>(Followed<'a>);

impl<'a> Programmed<'a> {
    /// Follows the programme solved last.
    pub fn new(programmes: &'a Fitted) -> Self {
        Self(Followed::new(programmes))
    }
}

impl Pilot for Programmed<'_> {
    fn hold(&mut self, _: &DeadlineJob, view: &JobView) -> Holding {
        let seen = self.0.see(view.up, view.left_ms);
        seen.map_or(Holding::OnDemand, |(programme, outlook)| programme.choice(&outlook, view))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
