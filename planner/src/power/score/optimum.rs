//! The exact offline optimum: what could have been saved by someone who knew all demand beforehand.
//!
//! It minimises Σ w(t) A(t) + β Σ max(0, A(t) − A(t − 1)) + γ × unserved: powered node-slots, node-wakes at β slots each, and node-slots that found no node
//! ready at γ each (or none allowed, as far as it can be); w is 1, or what energy costs or emits in the slot against the mean. Nodes are alike, so the sum splits by level: level k
//! is needed where u(t) ≥ k, costs 1 a slot when on, β to switch on, and γ for as long as it is needed and off, or boots: who knows the future orders it a boot ahead, and pays
//! for the slots in which it boots. With all w equal to 1 and without unserved slots the best is to keep a level on across an idle gap if and only if the gap is at
//! most β slots and those of the boot. In general each level is a walk between states (off, and on for so many slots), solved by going through the slots once. Where nodes join, they
//! arrive ready: in such a slot any level may switch on for nothing, which is at least what joining nodes allow, so the optimum stays a bound.
//!
//! The levels' plans add up to one of nodes: where a higher level is on and a lower one off, the two may change places, and what is ready, woken and
//! unserved is then no worse, as needs nest. O(slots × levels × boot). Checked against all plans of small cases.
//!
//! Worked example: demand 3, 1, 1, 3 from 3 powered, boots that take no time. With β = 1, keeping the upper two levels on costs 2 slots each and waking them 1 each: they
//! sleep, 8 node-slots powered and 2 wakes, cost 10. With β = 3 they stay on: 12 powered, none woken. If a boot takes half a slot they are woken a slot
//! before: with β = 1 that costs as much as to stay on, which they do.

use super::boot::{missing, slots_booting};

/// Prices in slots of one powered node.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prices {
    /// Price of a wake.
    pub wake: f64,
    /// Price of an unserved node-slot; `None`: all is served that can be.
    pub unserved: Option<f64>,
}

/// A price of unserved node-slots at which all is served that can be: the least shortage costs more than to keep a node on throughout.
pub(in crate::power) fn dear(slots: usize, weights: &[f64], boot_slots: f64, wake: f64) -> f64 {
    let on = weights.iter().map(|weight| weight.abs()).sum::<f64>() + slots.saturating_sub(weights.len()) as f64;
    let least = Some(boot_slots.fract()).filter(|part| *part > 0.0).unwrap_or(1.0);
    (2.0 * wake + on + 1.0) / least
}

/// Nodes powered in each slot, of all plans the cheapest, with `before` ready before the first slot and boots of `boot_slots`. `need` must not
/// exceed `total`, which may change from slot to slot; without `weights` all are 1.
pub fn optimum(need: &[f64], total: &[f64], weights: &[f64], before: f64, boot_slots: f64, prices: Prices) -> Vec<f64> {
    let most = total.iter().copied().fold(0.0, f64::max).max(0.0) as usize;
    let mut powered = vec![0.0; need.len()];
    let earlier = total.first().into_iter().chain(total);
    let slots: Vec<(f64, bool)> = total
        .iter()
        .zip(earlier)
        .enumerate()
        .map(|(at, (now, before))| (weights.get(at).copied().unwrap_or(1.0), now > before))
        .collect();
    let unserved = prices.unserved.unwrap_or_else(|| dear(need.len(), weights, boot_slots, prices.wake));
    let booting = slots_booting(boot_slots);
    let mut walk = Walk {
        slots: &slots,
        wake: prices.wake,
        missed: (0..=booting).map(|on| unserved * missing(boot_slots, on)).collect(),
        off: unserved,
        came: Vec::new(),
        states: Vec::new(),
    };
    for level in 1..=most {
        let level = level as f64;
        let needed = need.iter().zip(total).map(|(need, total)| need.ceil().min(*total) >= level);
        walk.solve(needed, before >= level);
        for (sum, state) in powered.iter_mut().zip(&walk.states) {
            *sum += f64::from(u8::from(state.is_some()));
        }
    }
    powered
}

/// What a level is in a slot: off, or on after so many slots in which it was on, up to those of a boot.
type State = Option<usize>;

/// The cheaper of two ends of a walk, of equals the first.
fn cheaper(best: (f64, State), other: (f64, State)) -> (f64, State) {
    if other.0 < best.0 { other } else { best }
}

/// The walk of one level.
struct Walk<'a> {
    /// By slot: what it costs to be on, and whether nodes join.
    slots: &'a [(f64, bool)],
    wake: f64,
    /// What it costs to be needed, by the slots for which it was on before: for as long as it boots.
    missed: Vec<f64>,
    /// Price of being needed while off.
    off: f64,
    /// By slot: the best state in the slot before, given that it is off in this one, and given that it has booted.
    came: Vec<[State; 2]>,
    states: Vec<State>,
}

impl Walk<'_> {
    fn solve(&mut self, needed: impl Iterator<Item = bool>, before: bool) {
        self.came.clear();
        let booting = self.missed.len() - 1;
        // Cheapest so far, ending off, and ending on after so many slots on.
        let mut off = if before { f64::INFINITY } else { 0.0 };
        let mut on = vec![f64::INFINITY; booting + 1];
        if let Some(ready) = on.last_mut().filter(|_| before) {
            *ready = 0.0;
        }
        for (needed, (weight, joins)) in needed.zip(self.slots) {
            let missed = |price: f64| if needed { price } else { 0.0 };
            // Of equals what has booted stays on, and what is off stays off.
            let ended = on.iter().enumerate().map(|(slots, cost)| (*cost, Some(slots)));
            let (least_off, from_off) = ended.fold((off, None), cheaper);
            let woken = off + if *joins { 0.0 } else { self.wake };
            let ready = (on.last().copied().unwrap_or(f64::INFINITY), Some(booting));
            let booted = booting.checked_sub(1).and_then(|last| Some((*on.get(last)?, Some(last))));
            let joined = (booting == 0 || *joins).then_some((woken, None));
            let (least_ready, from_ready) = booted.into_iter().chain(joined).fold(ready, cheaper);
            self.came.push([from_off, from_ready]);
            // One slot on, and one on after each that boots.
            on.rotate_right(1);
            if let Some(first) = on.first_mut() {
                *first = woken;
            }
            if let Some(last) = on.last_mut() {
                *last = least_ready;
            }
            on.iter_mut().zip(&self.missed).for_each(|(cost, price)| *cost += weight + missed(*price));
            off = least_off + missed(self.off);
        }
        let ends = on.iter().enumerate().rev().map(|(slots, cost)| (*cost, Some(slots)));
        let (_, mut state) = ends.chain([(off, None)]).fold((f64::INFINITY, None), cheaper);
        self.states.clear();
        self.states.resize(self.came.len(), None);
        for (place, [off, ready]) in self.states.iter_mut().zip(&self.came).rev() {
            *place = state;
            state = match state {
                None => *off,
                Some(slots) if slots == booting => *ready,
                Some(slots) => slots.checked_sub(1),
            };
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::super::boot::Boots;
    use super::*;

    fn cost(need: &[f64], orders: &[f64], weights: &[f64], (before, boot_slots): (f64, f64), prices: Prices) -> f64 {
        let unserved = prices.unserved.unwrap_or_else(|| dear(need.len(), weights, boot_slots, prices.wake));
        let mut boots = Boots::new(boot_slots, before);
        let mut cost = 0.0;
        let mut last = before;
        for (at, (need, order)) in need.iter().zip(orders).enumerate() {
            let missed = boots.unserved(*order, 0.0, *need) * unserved;
            cost += order * weights.get(at).copied().unwrap_or(1.0) + prices.wake * (order - last).max(0.0) + missed;
            last = *order;
        }
        cost
    }

    /// The cheapest of all plans, by trying every one.
    fn brute(need: &[f64], weights: &[f64], most: u32, (before, boot_slots): (f64, f64), prices: Prices) -> f64 {
        let plans = u32::pow(most + 1, need.len() as u32);
        (0..plans)
            .map(|mut plan| {
                let orders: Vec<f64> = need
                    .iter()
                    .map(|_| {
                        let order = plan % (most + 1);
                        plan /= most + 1;
                        f64::from(order)
                    })
                    .collect();
                cost(need, &orders, weights, (before, boot_slots), prices)
            })
            .fold(f64::INFINITY, f64::min)
    }

    #[test]
    fn the_worked_example() {
        let need = [3.0, 1.0, 1.0, 3.0];
        let total = [5.0; 5];
        let cheap = Prices { wake: 1.0, unserved: None };
        assert_eq!(optimum(&need, &total, &[], 3.0, 0.0, cheap), vec![3.0, 1.0, 1.0, 3.0]);
        assert_eq!(optimum(&need, &total, &[], 3.0, 0.0, Prices { wake: 3.0, ..cheap }), vec![3.0; 4]);
        assert_eq!(optimum(&need, &total, &[], 3.0, 0.5, cheap), vec![3.0; 4]);
        // The last of a gap of three slots is a boot.
        let (need, cheap) = ([3.0, 1.0, 1.0, 1.0, 3.0], Prices { wake: 0.5, ..cheap });
        assert_eq!(optimum(&need, &total, &[], 3.0, 0.5, cheap), vec![3.0, 1.0, 1.0, 3.0, 3.0]);
    }

    proptest! {
        #[test]
        fn nothing_is_cheaper(
            need in prop::collection::vec(0u32..=3, 1..=6),
            before in 0u32..=3,
            boot in 0u32..=6,
            wake in 0u32..=4,
            unserved in prop::option::of(1u32..=5),
            weights in prop::collection::vec(0u32..=3, 0..=6),
        ) {
            let weights: Vec<f64> = weights.into_iter().map(f64::from).collect();
            let need: Vec<f64> = need.into_iter().map(f64::from).collect();
            let prices = Prices { wake: f64::from(wake), unserved: unserved.map(f64::from) };
            let (before, boot_slots) = (f64::from(before), f64::from(boot) * 0.4);
            let result = optimum(&need, &vec![3.0; need.len()], &weights, before, boot_slots, prices);
            let paid = cost(&need, &result, &weights, (before, boot_slots), prices);
            let least = brute(&need, &weights, 3, (before, boot_slots), prices);
            prop_assert!((paid - least).abs() < 1e-6, "{result:?} costs {paid}, the cheapest {least}");
        }

        #[test]
        fn levels_stay_on_across_gaps_of_at_most_the_switching_cost(need in prop::collection::vec(0u32..=4, 2..=40), wake in 1u32..=6) {
            let need: Vec<f64> = need.into_iter().map(f64::from).collect();
            let result = optimum(&need, &vec![4.0; need.len()], &[], 0.0, 0.0, Prices { wake: f64::from(wake) + 0.5, unserved: None });
            for level in 1..=4u32 {
                let level = f64::from(level);
                let at: Vec<usize> = (0..need.len()).filter(|slot| need.get(*slot).is_some_and(|need| *need >= level)).collect();
                for pair in at.windows(2) {
                    let (from, to) = (*pair.first().unwrap(), *pair.last().unwrap());
                    let kept = result.get(from + 1..to).unwrap().iter().all(|on| *on >= level);
                    prop_assert_eq!(kept, to - from - 1 <= wake as usize);
                }
            }
        }
    }
}
