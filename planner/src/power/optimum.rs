//! The exact offline optimum: what could have been saved by someone who knew all demand beforehand.
//!
//! It minimises Σ w(t) A(t) + β Σ max(0, A(t) − A(t − 1)) + γ Σ max(0, u(t) − A(t)): powered node-slots, node-wakes at β slots each, unserved node-slots
//! at γ each (or none allowed); w is 1, or what energy costs or emits in the slot against the mean. Nodes are alike, so the sum splits by level: level k is needed where u(t) ≥ k, costs 1 a slot when on, β to switch
//! on, and γ where it is needed and off. With all w equal to 1 and without unserved slots the best is to keep a level on across an idle gap if and only if the gap is at
//! most β slots. In general each level is a walk between two states, solved by going through the slots once. Where nodes join, they arrive powered: in
//! such a slot any level may switch on for nothing, which is at least what joining nodes allow, so the optimum stays a bound.
//!
//! That the levels' plans nest (a higher level is on only where all lower ones are) follows from needs that nest: the state of a level with more
//! needs is never off where that of one with fewer is on, if ties are broken alike. O(slots × levels). Checked against all plans of small cases.
//!
//! Worked example: demand 3, 1, 1, 3 from 3 powered. With β = 1, keeping the upper two levels on costs 2 slots each and waking them 1 each: they
//! sleep, 8 node-slots powered and 2 wakes, cost 10. With β = 3 they stay on: 12 powered, none woken.

/// Prices in slots of one powered node.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prices {
    /// Of a wake.
    pub wake: f64,
    /// Of an unserved node-slot; `None`: all is served.
    pub unserved: Option<f64>,
}

/// Nodes powered in each slot, of all plans the cheapest, with `before` powered before the first slot. `need` must not
/// exceed `total`, which may change from slot to slot; without `weights` all are 1.
pub fn optimum(need: &[f64], total: &[f64], weights: &[f64], before: f64, prices: Prices) -> Vec<f64> {
    let most = total.iter().copied().fold(0.0, f64::max).max(0.0) as usize;
    let mut powered = vec![0.0; need.len()];
    let mut walk = Walk::default();
    let earlier = total.first().into_iter().chain(total);
    let wakes: Vec<f64> =
        total.iter().zip(earlier).map(|(now, before)| if now > before { 0.0 } else { prices.wake }).collect();
    for level in 1..=most {
        let level = level as f64;
        let needed = need.iter().zip(total).map(|(need, total)| need.ceil().min(*total) >= level);
        walk.solve(needed, weights, before >= level, &wakes, prices.unserved);
        for (sum, on) in powered.iter_mut().zip(&walk.on) {
            *sum += f64::from(u8::from(*on));
        }
    }
    powered
}

/// The walk of one level.
#[derive(Debug, Default)]
struct Walk {
    /// By slot: whether it is best to have been on (off) in the slot before, given that it is on (off) in this one.
    came: Vec<(bool, bool)>,
    on: Vec<bool>,
}

impl Walk {
    fn solve(
        &mut self,
        needed: impl Iterator<Item = bool>,
        weights: &[f64],
        before: bool,
        wakes: &[f64],
        unserved: Option<f64>,
    ) {
        self.came.clear();
        // Cheapest so far, ending on and ending off.
        let (mut on, mut off) = if before { (0.0, f64::INFINITY) } else { (f64::INFINITY, 0.0) };
        for (at, needed) in needed.enumerate() {
            // Ties go to what is on: with needs that nest, that keeps plans nested.
            let wake = wakes.get(at).copied().unwrap_or(0.0);
            let stays = on <= off + wake;
            let leaves = on < off;
            self.came.push((stays, leaves));
            let next_on = if stays { on } else { off + wake } + weights.get(at).copied().unwrap_or(1.0);
            let missed = if needed { unserved.unwrap_or(f64::INFINITY) } else { 0.0 };
            off = if leaves { on } else { off } + missed;
            on = next_on;
        }
        let mut state = on <= off;
        self.on.clear();
        self.on.resize(self.came.len(), false);
        for (place, (stays, leaves)) in self.on.iter_mut().zip(&self.came).rev() {
            *place = state;
            state = if state { *stays } else { *leaves };
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cost(need: &[f64], orders: &[f64], weights: &[f64], before: f64, prices: Prices) -> f64 {
        let mut cost = 0.0;
        let mut last = before;
        for (at, (need, order)) in need.iter().zip(orders).enumerate() {
            let missed = (need - order).max(0.0);
            let missed = if missed > 0.0 { missed * prices.unserved.unwrap_or(f64::INFINITY) } else { 0.0 };
            cost += order * weights.get(at).copied().unwrap_or(1.0) + prices.wake * (order - last).max(0.0) + missed;
            last = *order;
        }
        cost
    }

    /// The cheapest of all plans, by trying every one.
    fn brute(need: &[f64], weights: &[f64], most: u32, before: f64, prices: Prices) -> f64 {
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
                cost(need, &orders, weights, before, prices)
            })
            .fold(f64::INFINITY, f64::min)
    }

    #[test]
    fn the_worked_example() {
        let need = [3.0, 1.0, 1.0, 3.0];
        let total = [5.0; 4];
        let cheap = Prices { wake: 1.0, unserved: None };
        assert_eq!(optimum(&need, &total, &[], 3.0, cheap), vec![3.0, 1.0, 1.0, 3.0]);
        assert_eq!(optimum(&need, &total, &[], 3.0, Prices { wake: 3.0, ..cheap }), vec![3.0; 4]);
    }

    proptest! {
        #[test]
        fn nothing_is_cheaper(
            need in prop::collection::vec(0u32..=3, 1..=6),
            before in 0u32..=3,
            wake in 0u32..=4,
            unserved in prop::option::of(1u32..=5),
            weights in prop::collection::vec(0u32..=3, 0..=6),
        ) {
            let weights: Vec<f64> = weights.into_iter().map(f64::from).collect();
            let need: Vec<f64> = need.into_iter().map(f64::from).collect();
            let prices = Prices { wake: f64::from(wake), unserved: unserved.map(f64::from) };
            let found = optimum(&need, &vec![3.0; need.len()], &weights, f64::from(before), prices);
            let paid = cost(&need, &found, &weights, f64::from(before), prices);
            let least = brute(&need, &weights, 3, f64::from(before), prices);
            prop_assert!((paid - least).abs() < 1e-9, "{found:?} costs {paid}, the cheapest {least}");
        }

        #[test]
        fn levels_stay_on_across_gaps_of_at_most_the_switching_cost(need in prop::collection::vec(0u32..=4, 2..=40), wake in 1u32..=6) {
            let need: Vec<f64> = need.into_iter().map(f64::from).collect();
            let found = optimum(&need, &vec![4.0; need.len()], &[], 0.0, Prices { wake: f64::from(wake) + 0.5, unserved: None });
            for level in 1..=4u32 {
                let level = f64::from(level);
                let at: Vec<usize> = (0..need.len()).filter(|slot| need.get(*slot).is_some_and(|need| *need >= level)).collect();
                for pair in at.windows(2) {
                    let (from, to) = (*pair.first().unwrap(), *pair.last().unwrap());
                    let kept = found.get(from + 1..to).unwrap().iter().all(|on| *on >= level);
                    prop_assert_eq!(kept, to - from - 1 <= wake as usize);
                }
            }
        }
    }
}
