//! The zones taken together, as if they were one: what a job has still to pay, on average, by the work and the spare time that it has left.
//!
//! The [programme over zones](crate::cloud::zones::programme) looks at each zone as it is now, until its instance is lost. What comes after that it takes from here. The **pool**
//! has spot if any zone has. With π the share of time that a zone is up, all are down with chance D = Π(1−π) if zones know nothing of each other, and leave that
//! state with the chance b that any comes up; a = b·D/(1−D) leads there. Both are corrected by what was seen of the pool: `PRIOR_CHANGES` departures of each kind are
//! added to those seen, so zones that fail together are learned to. Which zone one would be in comes from an index: price, and a changeover and the egress over
//! its mean life. In this order the first zone that is up is taken, which gives the pool's price, its runs, and how often taking the next moves the checkpoint.
//!
//! **Runs** come short and long, and whoever begins does not know which. An instance begun in the pool is of kind k with the share σ of the runs that begin so
//! (`Phases::runs`), and is kept over a step with that kind's chance κ. A mean of both would lose long runs too soon and keep short ones too long.
//!
//! **Spare time** left at the end is worth c·S·(1 − e^(−s/S)): the first step c = `SPARE_SHARE` of what on-demand costs more than spot in a step, and each further
//! one less, by e over S = `SPARE_H`. It stands for what no model knows, as that a bad day may come, which the first hours cover and the twentieth hardly.
//!
//! ```text
//! V(w, s, idle)      = min { E V(w, s−1, idle),  begin on-demand,  Σ σ·(begin spot, kind k) and pay the egress expected (if up) }
//! V(w, s, on-demand) = min { k + E V(w−1, s, on-demand),  V(w, s, idle) }
//! V(w, s, spot k)    = p·(1+κ)/2 + κ·V(w−1, s, spot k) + (1−κ)·½[L(w−1, s) + L(w, s)],   L idle, up with chance ρ
//! V(0, s)            = −c·S·(1 − e^(−s/S))
//! ```
//!
//! Without a changeover to begin spot is to go on in a run just begun. Dollars; time in steps as in [one zone](crate::cloud::programme). O(zones² + works × spare times).
//! Worked example: two zones, each up for half of the time and each with chance 0.1 a step to come up: D = 0.25, b = 0.19, a = 0.19·0.25/0.75 = 0.063. One zone
//! that comes up at once when it is down, half of its runs lost in their first step and half never, 1 dollar a step, on-demand 3, no changeover, no spare time: a
//! step of work costs 1 in a long run and 0.5 + 0.5·3 = 2 in a short one, 1.5 on average; two cost 2 and 0.5 + 0.5·(3 + 4.5) = 4.25, 3.125 on average. One kind of
//! run that is lost every other time would cost 1.5 and 3.375.

use crate::cloud::job::DeadlineJob;
use crate::cloud::zones::market::Places;
use tracecast_predictors::spot::phases::{MOST, Phases, Run};

/// Departures of the pool, of each kind, that count as seen before.
const PRIOR_CHANGES: f64 = 5.0;
/// Most pairs of work and spare time in the table.
const MOST_PAIRS: f64 = 80_000.0;
/// Steps that the work has at least, where a changeover is long.
const LEAST_STEPS: f64 = 96.0;
/// What the first spare step is worth at the end, over what on-demand costs more than spot in a step.
const SPARE_SHARE: f64 = 0.2;
/// Hours of spare time over which the worth of one more falls by e.
const SPARE_H: f64 = 8.0;
/// A cost that nothing is worth.
pub(in crate::cloud) const NEVER: f64 = 1e15;

/// Steps of time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::cloud) struct Steps {
    /// Length, milliseconds.
    pub(in crate::cloud) step_ms: f64,
    /// A changeover, in steps.
    pub(in crate::cloud) setup: f64,
    /// Steps that must be spare to begin on-demand.
    pub(in crate::cloud) reserve: f64,
}

impl Steps {
    /// Cuts a job in ticks into steps.
    pub(in crate::cloud) fn of(job: &DeadlineJob, tick_ms: i64) -> Self {
        let (work, spare, changeover) = (job.work_ms as f64, job.spare_ms() as f64, job.changeover_ms as f64);
        let least_ms = (work * spare.max(1.0) / MOST_PAIRS).sqrt().max(tick_ms as f64);
        if changeover < least_ms {
            let setup = changeover / least_ms;
            return Self { step_ms: least_ms, setup, reserve: setup.ceil() };
        }
        let count = (changeover / least_ms.max(work / LEAST_STEPS)).floor().max(1.0);
        Self { step_ms: changeover / count, setup: count, reserve: count }
    }

    /// A step, hours.
    pub(in crate::cloud) fn hours(&self) -> f64 {
        self.step_ms / 3.6e6
    }
}

/// What is known of a zone for the pool.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::cloud) struct Standing {
    /// Share of time up.
    pub(in crate::cloud) up: f64,
    /// Chance a tick to go down and to come up.
    pub(in crate::cloud) goes: f64,
    /// Chance a tick to come up.
    pub(in crate::cloud) comes: f64,
    /// Spot runs by kind, as they begin.
    pub(in crate::cloud) runs: [Run; MOST],
    /// Dollars an hour of spot; infinite if unknown.
    pub(in crate::cloud) price: f64,
}

impl Standing {
    /// What is known of a zone, from its phases and a price.
    pub(in crate::cloud) fn of(phases: &Phases, price: f64) -> Self {
        let (up, goes, comes) = phases.shares();
        Self { up, goes, comes, runs: phases.runs(), price }
    }
}

/// What was seen of the pool: ticks up and down, and changes to down and to up.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(in crate::cloud) struct Seen {
    /// Ticks up, but the last.
    pub(in crate::cloud) up: f64,
    /// Ticks down, but the last.
    pub(in crate::cloud) down: f64,
    /// Changes to down.
    pub(in crate::cloud) goes: f64,
    /// Changes to up.
    pub(in crate::cloud) comes: f64,
}

/// The zones taken together.
#[derive(Debug, Clone)]
pub(in crate::cloud) struct Pool {
    /// Steps of its table.
    pub(in crate::cloud) steps: Steps,
    /// Given that an instance of each zone is lost: the chance that another zone is up, and the dollars of egress expected then.
    pub(in crate::cloud) after: Vec<(f64, f64)>,
    /// Dollars of egress expected when an instance is begun.
    moves: f64,
    /// Chances a step to go down and to come up.
    goes: f64,
    comes: f64,
    /// Share of each kind of run, and the chance to keep an instance over a step.
    runs: [(f64, f64); MOST],
    /// Chance that the pool is up where an instance is lost.
    up_when_lost: f64,
    /// Dollars a step of spot and of on-demand.
    price: f64,
    list: f64,
    /// Dollars that the first spare step is worth once the work is done, and the steps over which that falls by e.
    spare_worth: f64,
    spare_steps: f64,
    works: usize,
    spares: usize,
    values: Vec<f32>,
}

/// States beside work and spare time: idle while down and while up, on-demand likewise, on spot in each kind of run.
const STATES: usize = 4 + MOST;
pub(in crate::cloud) const IDLE: [usize; 2] = [0, 1];
pub(in crate::cloud) const ON_DEMAND: [usize; 2] = [2, 3];
const SPOT: usize = 4;

impl Pool {
    /// Solves the pool of zones for a job, with what was seen of them together.
    pub(in crate::cloud) fn new(places: &Places, zones: &[Standing], seen: &Seen, job: &DeadlineJob) -> Self {
        let steps = Steps::of(job, places.tick_ms);
        let ticks = steps.step_ms / places.tick_ms as f64;
        let over = |chance: f64| 1.0 - (1.0 - chance.clamp(0.0, 1.0)).powf(ticks);
        let setup_h = steps.setup * steps.hours();
        let none: f64 = zones.iter().map(|zone| 1.0 - zone.up).product::<f64>().clamp(1e-9, 1.0 - 1e-9);
        let b = 1.0 - zones.iter().map(|zone| 1.0 - zone.comes).product::<f64>();
        let a = b * none / (1.0 - none);
        let comes = ((seen.comes + PRIOR_CHANGES) / (seen.down + PRIOR_CHANGES / b.max(1e-9))).min(1.0);
        let goes = ((seen.goes + PRIOR_CHANGES) / (seen.up + PRIOR_CHANGES / a.max(1e-9))).min(1.0);
        // How much likelier all are down than if zones knew nothing of each other.
        let together = (goes / (goes + comes) / none).clamp(0.2, 50.0);
        // The order in which zones are taken with the checkpoint in a region, and the chance of each to be the first that is up.
        let firsts = |at: Option<usize>, but: Option<usize>| -> Vec<(usize, f64)> {
            let index = |zone: usize| {
                let of = &zones[zone];
                let life_h = places.tick_ms as f64 / 3.6e6 / of.goes.max(1e-6);
                of.price + (setup_h * of.price + places.moves(at, zone)) / life_h
            };
            let mut order: Vec<usize> = (0..zones.len()).filter(|zone| Some(*zone) != but).collect();
            order.sort_by(|x, y| index(*x).total_cmp(&index(*y)));
            let mut left = 1.0;
            order
                .into_iter()
                .filter(|zone| zones[*zone].price.is_finite())
                .map(|zone| {
                    let chance = left * zones[zone].up;
                    left -= chance;
                    (zone, chance)
                })
                .collect()
        };
        let after: Vec<(f64, f64)> = (0..zones.len())
            .map(|zone| {
                let at = places.region.get(zone).copied();
                let firsts = firsts(at, Some(zone));
                let any: f64 = firsts.iter().map(|(_, chance)| chance).sum();
                let moved: f64 = firsts.iter().map(|(next, chance)| chance * places.moves(at, *next)).sum();
                (1.0 - ((1.0 - any) * together).min(1.0), moved / any.max(1e-9))
            })
            .collect();
        let (mut sum, mut price, mut up_when_lost, mut moves) = (1e-12, 0.0, 0.0, 0.0);
        let mut losses = 1e-12;
        let mut runs = [(0.0, 0.0); MOST];
        for (zone, chance) in firsts(None, None) {
            let goes = over(zones[zone].goes);
            sum += chance;
            price += chance * zones[zone].price;
            for ((share, kept), run) in runs.iter_mut().zip(&zones[zone].runs) {
                *share += chance * run.share;
                *kept += chance * run.share * (1.0 - over(run.ends));
            }
            losses += chance * goes;
            up_when_lost += chance * goes * after[zone].0;
            moves += chance * goes * after[zone].1;
        }
        let list = places.on_demand.iter().copied().fold(f64::INFINITY, f64::min);
        let dearest = if price > 0.0 { price / sum } else { list };
        let mut pool = Self {
            after,
            moves: moves / losses,
            goes: over(goes),
            comes: over(comes),
            runs: runs.map(|(share, kept)| (share / sum, kept / share.max(f64::MIN_POSITIVE))),
            up_when_lost: up_when_lost / losses,
            price: dearest * steps.hours(),
            list: list * steps.hours(),
            spare_worth: SPARE_SHARE * ((list - dearest) * steps.hours()).max(0.0),
            spare_steps: SPARE_H / steps.hours(),
            works: (job.work_ms as f64 / steps.step_ms).ceil() as usize,
            spares: (job.spare_ms() as f64 / steps.step_ms).ceil() as usize + 1,
            values: Vec::new(),
            steps,
        };
        pool.fill();
        pool
    }

    fn place(&self, work: usize, spare: usize) -> usize {
        (work * (self.spares + 1) + spare) * STATES
    }

    fn fill(&mut self) {
        self.values = vec![0.0; (self.works + 1) * (self.spares + 1) * STATES];
        let (whole, part) =
            if self.steps.setup < 1.0 { (0, self.steps.setup) } else { (self.steps.setup as usize, 0.0) };
        let reserve = self.steps.reserve as usize;
        for spare in 0..=self.spares {
            let place = self.place(0, spare);
            let worth = -self.done(spare as f64) as f32;
            self.values[place..place + STATES].fill(worth);
        }
        for work in 1..=self.works {
            for spare in 0..=self.spares {
                let at =
                    |work: usize, spare: usize, state: usize| f64::from(self.values[self.place(work, spare) + state]);
                // Where beginning leads: after a changeover of whole steps, or of a part of one.
                let begun = |state: usize| {
                    if whole > 0 {
                        at(work, spare - whole, state)
                    } else if part > 0.0 {
                        part * at(work, spare - 1, state) + (1.0 - part) * at(work - 1, spare, state)
                    } else {
                        at(work - 1, spare, state)
                    }
                };
                let paid = if whole > 0 { whole as f64 } else { 1.0 };
                let either = |chance: f64, up: f64, down: f64| chance * up + (1.0 - chance) * down;
                let up_next = [self.comes, 1.0 - self.goes];
                let list = |kind: usize, work: usize| {
                    self.list
                        + either(up_next[kind], at(work - 1, spare, ON_DEMAND[1]), at(work - 1, spare, ON_DEMAND[0]))
                };
                let mut idle = [NEVER; 2];
                for (kind, cost) in idle.iter_mut().enumerate() {
                    if spare >= whole + usize::from(part > 0.0) {
                        *cost = self.list * paid + either(up_next[kind], begun(ON_DEMAND[1]), begun(ON_DEMAND[0]));
                    }
                    if spare > reserve {
                        *cost =
                            cost.min(either(up_next[kind], at(work, spare - 1, IDLE[1]), at(work, spare - 1, IDLE[0])));
                    }
                }
                let lost = |of: [f64; 2]| either(self.up_when_lost, of[1], of[0]);
                let of_kinds = |of: &dyn Fn(usize, f64) -> f64| -> f64 {
                    self.runs.iter().enumerate().map(|(kind, (share, kept))| share * of(kind, *kept)).sum()
                };
                // A step on spot, and on: half of the step is done and paid where the instance is lost in it.
                let works = |idle: [f64; 2], kind: usize, kept: f64| {
                    let before = lost(IDLE.map(|state| at(work - 1, spare, state)));
                    let gone = 0.5 * (before + lost(idle).min(before + self.list));
                    self.price * (1.0 + kept) / 2.0 + kept * at(work - 1, spare, SPOT + kind) + (1.0 - kept) * gone
                };
                if spare >= whole + usize::from(part > 0.0) + reserve {
                    let begins = |kind: usize, kept: f64| {
                        if whole == 0 && part == 0.0 {
                            // Without a changeover to begin is to go on.
                            return works(idle, kind, kept);
                        }
                        let kept = kept.powi(paid as i32);
                        let gone = lost(IDLE.map(|state| at(work, spare - paid as usize, state)));
                        self.price * paid * (1.0 + kept) / 2.0 + kept * begun(SPOT + kind) + (1.0 - kept) * gone
                    };
                    idle[1] = idle[1].min(self.moves + of_kinds(&begins));
                }
                let on_demand = [0, 1].map(|kind| list(kind, work).min(idle[kind]));
                let place = self.place(work, spare);
                let mut values = [NEVER; STATES];
                for kind in 0..2 {
                    values[IDLE[kind]] = idle[kind];
                    values[ON_DEMAND[kind]] = on_demand[kind];
                }
                for (kind, (_, kept)) in self.runs.iter().enumerate() {
                    let spot = if spare >= reserve { works(idle, kind, *kept) } else { NEVER };
                    values[SPOT + kind] = spot.min(idle[1]);
                }
                for (state, cost) in values.into_iter().enumerate() {
                    self.values[place + state] = cost as f32;
                }
            }
        }
    }

    /// Expected cost in a state between the points of the table; spare time below `floor` counts as that.
    pub(in crate::cloud) fn at(&self, work: f64, spare: f64, floor: f64, state: usize) -> f64 {
        if work <= 0.0 {
            return -self.done(spare);
        }
        let work = work.min(self.works as f64);
        let spare = spare.clamp(floor.min(self.spares as f64), self.spares as f64);
        let (low, left) = ((work as usize).min(self.works - 1), (spare as usize).min(self.spares - 1));
        let (up, on) = (work - low as f64, spare - left as f64);
        let value = |work: usize, spare: usize| f64::from(self.values[self.place(work, spare) + state]);
        let along = |work: usize| {
            if on > 0.0 { value(work, left) * (1.0 - on) + value(work, left + 1) * on } else { value(work, left) }
        };
        along(low) * (1.0 - up) + if up > 0.0 { along(low + 1) * up } else { 0.0 }
    }

    /// What is saved by being done with so much spare time, dollars.
    pub(in crate::cloud) fn done(&self, spare: f64) -> f64 {
        self.spare_worth * self.spare_steps * (1.0 - (-spare.max(0.0) / self.spare_steps).exp())
    }

    /// Dollars a step of on-demand.
    pub(in crate::cloud) fn list(&self) -> f64 {
        self.list
    }

    /// Expected cost once an instance of a zone is lost.
    pub(in crate::cloud) fn lost(&self, zone: usize, work: f64, spare: f64) -> f64 {
        let (up, moves) = self.after.get(zone).copied().unwrap_or((0.0, 0.0));
        let of = |state: usize| self.at(work, spare, self.steps.reserve, state);
        up * (of(IDLE[1]) + moves - self.moves) + (1.0 - up) * of(IDLE[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloud::zones::market::tests::places;

    const HOUR: i64 = 3_600_000;

    fn standing(up: f64, goes: f64, comes: f64) -> Standing {
        let runs = [Run { share: 1.0, ends: goes }, Run { share: 0.0, ends: 1.0 }];
        Standing { up, goes, comes, runs, price: 1.0 }
    }

    #[test]
    fn the_worked_example() {
        let job = DeadlineJob { work_ms: 10 * HOUR, deadline_ms: 20 * HOUR, changeover_ms: 0, price_ratio: 3.0 };
        let zones = [standing(0.5, 0.1, 0.1); 2];
        let pool = Pool::new(&places(&[0, 1], &[3.0, 3.0], 1.0, HOUR), &zones, &Seen::default(), &job);
        assert!(
            (pool.comes - 0.19).abs() < 1e-9 && (pool.goes - 0.19 / 3.0).abs() < 1e-9,
            "{} {}",
            pool.comes,
            pool.goes
        );
        assert!((pool.after[0].0 - 0.5).abs() < 1e-9 && (pool.after[0].1 - 1.0).abs() < 1e-9);
    }

    /// The second worked example, and the same with runs of one kind.
    #[test]
    fn a_pool_of_a_short_and_a_long_run() {
        let job = DeadlineJob { work_ms: 2 * HOUR, deadline_ms: 2 * HOUR, changeover_ms: 0, price_ratio: 3.0 };
        let places = places(&[0], &[3.0], 1.0, HOUR);
        let cost = |runs: [Run; MOST]| {
            let zone = Standing { runs, ..standing(1.0 - 1e-9, 0.5, 1.0) };
            let pool = Pool::new(&places, &[zone], &Seen::default(), &job);
            [1.0, 2.0].map(|work| pool.at(work, 0.0, 0.0, IDLE[1]))
        };
        let run = |share: f64, ends: f64| Run { share, ends };
        let near = |result: [f64; 2], hand: [f64; 2]| result.iter().zip(hand).all(|(a, b)| (a - b).abs() < 1e-6);
        let (kinds, mean) = (cost([run(0.5, 1.0), run(0.5, 0.0)]), cost([run(1.0, 0.5), run(0.0, 1.0)]));
        assert!(near(kinds, [1.5, 3.125]) && near(mean, [1.5, 3.375]), "{kinds:?} {mean:?}");
    }

    /// What is spare is worth c a step at first, c·S in all, and the table of no work says the same.
    #[test]
    fn spare_time_is_worth_less_the_more_there_is() {
        let job = DeadlineJob { work_ms: 10 * HOUR, deadline_ms: 40 * HOUR, changeover_ms: 0, price_ratio: 3.0 };
        let pool = Pool::new(&places(&[0], &[3.0], 1.0, HOUR), &[standing(0.5, 0.1, 0.1)], &Seen::default(), &job);
        // Steps of an hour: c = 0.2·(3 − 1), S = 8.
        let worth = |spare: f64| 3.2 * (1.0 - (-spare / 8.0f64).exp());
        for spare in [0.0, 1.0, 8.0, 30.0] {
            let table = f64::from(pool.values[pool.place(0, spare as usize)]);
            assert!((pool.done(spare) - worth(spare)).abs() < 1e-9 && (table + worth(spare)).abs() < 1e-6, "{spare}");
            assert_eq!(pool.at(0.0, spare, 0.0, IDLE[1]), -pool.done(spare));
        }
        assert!((pool.done(0.01) - 0.004).abs() < 1e-5 && (pool.done(1e9) - 3.2).abs() < 1e-9);
    }

    /// A zone that is never lost costs its price; one that is never up costs on-demand. More work never costs less, more spare time never more.
    #[test]
    fn what_is_sure_costs_what_it_costs() {
        let job = DeadlineJob { work_ms: 10 * HOUR, deadline_ms: 20 * HOUR, changeover_ms: HOUR / 5, price_ratio: 3.0 };
        let places = places(&[0], &[3.0], 1.0, HOUR / 5);
        let steps = (10 * HOUR) as f64 / (HOUR / 5) as f64;
        // What is spare once a changeover has passed is worth something at the end.
        let cost = |pool: &Pool, state: usize| pool.at(steps, steps, 0.0, state) + pool.done(steps - 1.0);
        let sure = Pool::new(&places, &[standing(1.0 - 1e-9, 1e-12, 1.0)], &Seen::default(), &job);
        assert!((cost(&sure, IDLE[1]) - 10.2).abs() < 0.01, "{}", cost(&sure, IDLE[1]));
        let never = Pool::new(&places, &[standing(1e-9, 0.5, 1e-9)], &Seen { down: 1e9, ..Seen::default() }, &job);
        assert!((cost(&never, IDLE[0]) - 30.6).abs() < 0.01, "{}", cost(&never, IDLE[0]));
        let some = Pool::new(&places, &[standing(0.5, 0.1, 0.1)], &Seen::default(), &job);
        for work in 1..45 {
            for spare in 1..45 {
                let of = |work: usize, spare: usize| some.at(work as f64, spare as f64, 0.0, IDLE[0]);
                assert!(of(work, spare) <= of(work + 1, spare) + 1e-3 && of(work, spare + 1) <= of(work, spare) + 1e-3);
            }
        }
    }
}
