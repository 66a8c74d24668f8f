//! With the truth in its model, the programme costs the optimum; of uncertain work, the least mean cost of all that keep the deadline.

use proptest::prelude::*;

use super::super::optimum::optimum;
use super::*;
use crate::cloud::elastic::{InLanes, ride, ride_uncertain};
use crate::market::availability::Supply;

const MIN: i64 = 60_000;

/// What the programme costs if it is given the truth: phases that follow each other for certain, from the first one on.
fn foreseen(next: &[usize], first: usize, tick_ms: i64, job: &DeadlineJob) -> (f64, f64) {
    let mut phases = vec![first];
    phases.extend((1..job.ticks(tick_ms)).scan(first, |phase, _| {
        *phase = next[*phase];
        Some(*phase)
    }));
    let up: Vec<bool> = phases.iter().map(|phase| *phase >= next.len() / 2).collect();
    let model = Phases::certain(next, tick_ms);
    // Before the first tick, what leads to it: where nothing does, it leads to itself.
    let before = next.iter().position(|to| *to == first).unwrap_or(first);
    let mut belief = vec![0.0; next.len()];
    belief[before] = 1.0;
    let fitted = [(0, Programme::solve(model, tick_ms, job, 0), Belief(belief))];
    let run = ride(&mut Programmed::new(&fitted), &up, tick_ms, job, &mut |_| ());
    assert!(!run.missed);
    (run.cost, optimum(&up, &[], tick_ms, job).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    /// Spot that is never there, always, or from the second or third tick on: with the true future in the model the programme costs the optimum. There is time to spare for what
    /// the safety net keeps, which knows no future: a changeover, and the ticks without spot.
    #[test]
    fn with_perfect_foresight_it_is_the_optimum(
        future in 0usize..4,
        tick_min in 3i64..30,
        work in 1i64..40,
        spare in 0i64..30,
        changeover in 0i64..4,
        price_ratio in 1.05f64..6.0,
    ) {
        let (next, first): (&[usize], usize) = match future {
            0 => (&[0, 1], 0),
            1 => (&[0, 1], 1),
            2 => (&[1, 1], 0),
            _ => (&[1, 2, 2, 2], 0),
        };
        let tick_ms = tick_min * MIN;
        let job = DeadlineJob {
            work_ms: work * tick_ms,
            deadline_ms: (work + 2 * changeover + 3 + spare) * tick_ms,
            changeover_ms: changeover * tick_ms,
            price_ratio,
        };
        let (cost, least) = foreseen(next, first, tick_ms, &job);
        prop_assert!((cost - least).abs() <= 1e-9 * least, "{cost} against {least}");
    }
}

/// A job of one of two amounts, in ticks, where spot comes with a chance in each tick without and then stays; a changeover takes a tick.
#[derive(Debug, Clone, Copy)]
struct TwoAmounts {
    less: i64,
    top: i64,
    /// The chance of the lesser.
    chance: f64,
    spare: i64,
    /// The chance of spot in a tick, after one without.
    comes: f64,
    price: f64,
}

impl TwoAmounts {
    /// The least mean cost from a moment on, in ticks of spot, by trying everything that keeps the deadline of the top: the contract itself, tick by tick.
    fn least(&self, left: i64, up: bool, held: (Holding, i64), work: i64, known: &mut Known) -> f64 {
        if work == 0 {
            return 0.0;
        }
        let key = (left, up, held.0 as u8, held.1, work);
        if let Some(result) = known.get(&key) {
            return *result;
        }
        let mut least = f64::INFINITY;
        for next in [Holding::Idle, Holding::Spot, Holding::OnDemand] {
            let setup = match next {
                Holding::Idle => 0,
                _ if next == held.0 => held.1,
                _ => 1,
            };
            let after = work - i64::from(next != Holding::Idle && setup == 0);
            let safe = if next == Holding::OnDemand { work + setup <= left } else { after + 1 < left };
            if !safe || (next == Holding::Spot && !up) {
                continue;
            }
            let paid = match next {
                Holding::Idle => 0.0,
                Holding::Spot => 1.0,
                Holding::OnDemand => self.price,
            };
            let goes_on = if after < work && self.top - after == self.less { 1.0 - self.chance } else { 1.0 };
            let held = (next, 0.max(setup - 1));
            let mut on = |up: bool| self.least(left - 1, up, held, after, known);
            let onward = if up { on(true) } else { self.comes * on(true) + (1.0 - self.comes) * on(false) };
            least = least.min(paid + goes_on * onward);
        }
        known.insert(key, least);
        least
    }

    fn job(&self) -> DeadlineJob {
        DeadlineJob {
            work_ms: self.top * MIN,
            deadline_ms: (self.top + self.spare) * MIN,
            changeover_ms: MIN,
            price_ratio: self.price,
        }
    }

    fn work(&self) -> WorkDistribution {
        let [less, top] = [self.less, self.top].map(|ticks| ticks * MIN);
        WorkDistribution::new(&[(self.chance, less), (self.chance, top), (1.0, top)]).unwrap()
    }

    /// The mean cost of the programme, told the distribution or the top alone, and of everything that could be done, after a tick without spot.
    fn costs(&self) -> ([f64; 2], f64) {
        let (job, work) = (self.job(), self.work());
        let ticks = job.ticks(MIN);
        let of = |told: Option<&WorkDistribution>| -> f64 {
            let solved = Programme::solve_uncertain(Phases::arriving(self.comes, MIN), MIN, &job, 0, told);
            let fitted = [(0, solved, Belief(vec![1.0, 0.0]))];
            let mut sum = 0.0;
            for comes_at in 0..=ticks {
                let stays_away = (1.0 - self.comes).powi(comes_at as i32);
                let chance = if comes_at == ticks { stays_away } else { stays_away * self.comes };
                let supply = Supply::one(&(0..ticks).map(|tick| tick >= comes_at).collect::<Vec<_>>());
                for (work_ms, share) in work.amounts() {
                    let mut pilot = InLanes(Programmed::new(&fitted));
                    let run = ride_uncertain(&mut pilot, (&supply.up, &[]), 1, MIN, (&job, work_ms), &mut |_| ());
                    assert!(!run.missed);
                    sum += chance * share * run.cost / MIN as f64;
                }
            }
            sum
        };
        let mut known = Known::new();
        let mut from = |up: bool| self.least(self.top + self.spare, up, (Holding::Idle, 0), self.top, &mut known);
        let least = self.comes * from(true) + (1.0 - self.comes) * from(false);
        ([of(Some(&work)), of(None)], least)
    }
}

type Known = std::collections::HashMap<(i64, bool, u8, i64, i64), f64>;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    /// Nothing that keeps the deadline and does not know which of two amounts it is costs less on
    /// the mean, with the truth of spot in the model.
    #[test]
    fn of_two_amounts_it_is_the_least_mean_cost(
        less in 1i64..12,
        more in 1i64..12,
        spare in 1i64..8,
        chance in 0.05f64..0.95,
        comes in 0.02f64..0.7,
        price in 1.1f64..6.0,
    ) {
        let of = TwoAmounts { less, top: less + more, chance, spare, comes, price };
        let ([cost, on_top], least) = of.costs();
        prop_assert!((cost - least).abs() <= 1e-5 * least, "{cost} against {least}, {on_top} on the top");
        prop_assert!(on_top >= least * (1.0 - 1e-9));
    }
}

/// A job of one tick in nineteen cases of twenty and of seven in the other waits for spot as long as it may. Told seven it begins on-demand while spot can still take over, which costs more on the mean: 6.5 in place of 5.612
/// ticks of spot, as a second recursion in another language has it.
#[test]
fn what_may_come_decides() {
    let of = TwoAmounts { less: 1, top: 7, chance: 0.95, spare: 3, comes: 0.4, price: 5.0 };
    let ([cost, on_top], least) = of.costs();
    assert!((cost - 5.612).abs() < 1e-5 && (least - 5.612).abs() < 1e-9, "{cost} against {least}");
    assert!(on_top > 1.1 * least, "{on_top}");
}

/// A distribution that leaves nothing open is solved as known work is, value by value.
#[test]
fn certain_work_is_known_work() {
    let job = DeadlineJob { work_ms: 1000 * MIN, deadline_ms: 1500 * MIN, changeover_ms: 12 * MIN, price_ratio: 3.0 };
    let up: Vec<bool> = (0..2000).map(|tick| tick / 13 % 3 != 0).collect();
    let phases = Phases::fit(&up, 2, 5 * MIN);
    let work = WorkDistribution::new(&[(1.0, job.work_ms)]).unwrap();
    let known = Programme::solve(phases.clone(), 5 * MIN, &job, 2000);
    let told = Programme::solve_uncertain(phases, 5 * MIN, &job, 2000, Some(&work));
    let near = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-5 * a.abs();
    assert!(known.values.iter().zip(&told.values).all(near));
}

/// Half a step of work is left and on-demand runs: to end it costs half a step of on-demand. To let it go and begin again costs a changeover besides.
#[test]
fn the_last_of_the_work_is_not_begun_again() {
    let job = DeadlineJob { work_ms: 1000 * MIN, deadline_ms: 1500 * MIN, changeover_ms: 30 * MIN, price_ratio: 3.0 };
    let phases = Phases::fit(&[false; 2000], 1, 5 * MIN);
    let belief = phases.after(&[false; 2000]);
    let programme = Programme::solve(phases, 5 * MIN, &job, 2000);
    let view = JobView {
        elapsed_ms: 900 * MIN,
        left_ms: 600 * MIN,
        work_ms: (programme.step_ms() / 2.0) as i64,
        holding: Holding::OnDemand,
        setup_ms: 0,
        up: false,
        tick_ms: 5 * MIN,
    };
    let [idle, on_demand, _] = programme.costs(&programme.outlook(&belief, view.left_ms).unwrap(), &view);
    assert!((on_demand - 3.0 * view.work_ms as f64).abs() < 1e-3 * on_demand, "{on_demand}");
    // At the least a changeover of spot.
    assert!(idle > (job.changeover_ms + view.work_ms) as f64, "{idle} against {on_demand}");
}
