//! How much to commit to: all sums of commitments are looked at, those apart that cannot be the best.
//!
//! ```text
//! R       GPUs that are committed to
//! C(R)    the least cost of whole commitments that have R GPUs or more, an hour
//! K(R)    what is rented beside R GPUs, over all hours: whole instances, see `rent`
//! least over R of H·C(R) + K(R)
//! ```
//!
//! Hours count by their need alone, so equal ones are one **level** with a weight. What is rented depends on the sum of the GPUs alone, whatever sizes they are committed in, so one number is searched, and C is a
//! covering knapsack as in `rent`. C never falls and K never rises with R: between two sums that were costed nothing costs less than C just above the lower one and K at the upper one (a
//! **bound**). Sums between are costed at the middle, again and again, as long as that bound is below the least cost found. So the choice is the cheapest of all, of several sizes too, though
//! cost then falls and rises many times. A search that costed enough ends before that, and tells the **gap** that its bounds leave. Where hours rent by different prices, as with a weight on [carbon](super::carbon), levels are of a **class** of hours
//! with the same prices; all of this holds of a sum over classes.
//!
//! With one commitment, instances of its size, no spot and no limits this is the newsvendor: commit to the GPUs that are needed for more than c / p of the time.
//!
//! O(levels × states × units looked at, see `rent`) to cost a sum, and as many sums as there are at worst. Worked example: needs of 2, 4 and 6 GPUs for an hour each, on-demand at 2.5 and a
//! reserved GPU at 1 (0.4 of it): 4 GPUs are needed for two thirds of the time, 6 for one third, so 4 are reserved, for 12 + 5 = 17.

use rayon::prelude::*;

use crate::market::levels::{NeedLevel, peak};
use crate::market::rent::{CoverTable, Covering, HourRents};
use crate::market::supply::{Commitment, PoolSupply};

/// Ways to rent that are costed in a search at most: an hour in a state of spot is as many as are looked at for it.
const MOST_COSTED: usize = 60_000_000;

/// Commitments, and what they cost.
#[derive(Debug, Clone, PartialEq)]
pub struct FleetMix {
    /// Number of each commitment of the [`PoolSupply`].
    pub counts: Vec<u32>,
    /// Cost of all hours, what waits included at its price.
    pub cost: f64,
    /// The least that any choice can cost: its cost, but where the search ended before all others were ruled out.
    pub bound: f64,
}

impl FleetMix {
    /// How far above the bound it is, a share of its cost.
    pub fn gap(&self) -> f64 {
        if self.cost > 0.0 { ((self.cost - self.bound) / self.cost).max(0.0) } else { 0.0 }
    }
}

/// What is rented over all levels beside so many GPUs of commitments, what waits included at its price. O(levels × states).
fn rented(rents: &[HourRents<'_>], supply: &PoolSupply, levels: &[NeedLevel], committed: f64) -> f64 {
    let hour = |level: &NeedLevel| -> f64 {
        let Some(rents) = rents.get(level.class) else { return 0.0 };
        let states = supply.states.iter().enumerate();
        states.map(|(at, state)| state.weight * rents.cost(level.need, committed, at)).sum()
    };
    levels.iter().map(|level| level.hours * hour(level)).sum()
}

/// Cost of commitments over all levels; what waits included at its price. O(levels × states).
pub fn cost(supply: &PoolSupply, levels: &[NeedLevel], counts: &[u32]) -> f64 {
    let hours: f64 = levels.iter().map(|level| level.hours).sum();
    let rents = HourRents::new(supply, peak(levels));
    hours * supply.committed_per_h(counts) + rented(&[rents], supply, levels, supply.committed_gpus(counts))
}

/// Sums that were not costed, between two that were.
#[derive(Debug, Clone, Copy)]
struct Between {
    /// Positions of the sums on both sides.
    ends: (usize, usize),
    /// What is rented at the upper one.
    rented: f64,
    /// The least that one between can cost.
    bound: f64,
}

/// The cheapest commitments for these hours.
pub fn solve(supply: &PoolSupply, levels: &[NeedLevel]) -> FleetMix {
    solve_by(supply, std::slice::from_ref(supply), levels)
}

/// Finds the cheapest mix where each class of hours rents by its own prices, those of `by`;
/// commitments cost what they do in `supply`. O(classes) more tables.
pub(super) fn solve_by(supply: &PoolSupply, by: &[PoolSupply], levels: &[NeedLevel]) -> FleetMix {
    let most = peak(levels);
    let rents: Vec<HourRents<'_>> = by.par_iter().map(|supply| HourRents::new(supply, most)).collect();
    let widest = rents.iter().map(HourRents::widest).max().unwrap_or(1);
    let each = levels.len().saturating_mul(supply.states.len()).saturating_mul(widest);
    search(supply, levels, &rents, MOST_COSTED / each.max(1))
}

/// The cheapest of the commitments that `most` sums tell, the first and the last among them.
fn search(supply: &PoolSupply, levels: &[NeedLevel], rents: &[HourRents<'_>], most: usize) -> FleetMix {
    let nothing = vec![0; supply.commitments.len()];
    if nothing.is_empty() || levels.is_empty() {
        let cost = rented(rents, supply, levels, 0.0);
        return FleetMix { counts: nothing, cost, bound: cost };
    }
    let hours: f64 = levels.iter().map(|level| level.hours).sum();
    let kind = |of: &Commitment| Covering { size: supply.units(of.gpus), price: of.per_h, most: of.limit };
    let kinds: Vec<Covering> = supply.commitments.iter().map(kind).collect();
    let committed = CoverTable::new(&kinds, supply.units(peak(levels)));
    // Of sums that cost the same, the greatest: it never rents more.
    let steps = |units: &usize| *units == committed.room() || committed.price(units + 1) > committed.price(*units);
    let sums: Vec<usize> = (0..=committed.room()).filter(steps).collect();
    let at = |place: usize| sums.get(place).copied().unwrap_or(0);
    let costed = |place: usize| {
        let rented = rented(rents, supply, levels, at(place) as f64 * supply.unit);
        (place, rented, hours * committed.price(at(place)) + rented)
    };
    let last = sums.len().saturating_sub(1);
    // Of equal costs, the fewest GPUs; what sums of floats differ by is equal.
    let better = |(place, _, cost): (usize, f64, f64), best: (usize, f64)| {
        let hair = 1e-11 * (1.0 + best.1.abs());
        cost < best.1 - hair || (cost <= best.1 + hair && place < best.0)
    };
    let first = costed(0);
    let mut best = (first.0, first.2);
    let mut left = most.saturating_sub(2);
    let between = |from: usize, (to, rented, _): (usize, f64, f64)| {
        let bound = hours * committed.price(at(from + 1)) + rented;
        (to > from + 1).then_some(Between { ends: (from, to), rented, bound })
    };
    let upper = costed(last);
    if better(upper, best) {
        best = (upper.0, upper.2);
    }
    let mut open: Vec<Between> = between(0, upper).into_iter().collect();
    loop {
        open.retain(|of| of.bound < best.1 - 1e-11 * (1.0 + best.1.abs()));
        if open.is_empty() || left == 0 {
            break;
        }
        // The most promising first where not all can be costed.
        open.sort_by(|a, b| a.bound.total_cmp(&b.bound).then(a.ends.cmp(&b.ends)));
        let now = open.len().min(left);
        left -= now;
        let later = open.split_off(now);
        let result: Vec<(usize, f64, f64)> =
            open.par_iter().map(|of| costed(usize::midpoint(of.ends.0, of.ends.1))).collect();
        let mut next = later;
        for (of, middle) in open.iter().zip(result) {
            if better(middle, best) {
                best = (middle.0, middle.2);
            }
            next.extend(between(of.ends.0, middle));
            next.extend(between(middle.0, (of.ends.1, of.rented, 0.0)));
        }
        open = next;
    }
    let bound = open.iter().map(|of| of.bound).fold(best.1, f64::min);
    FleetMix { counts: committed.counts(at(best.0), kinds.len()), cost: best.1, bound }
}

#[cfg(test)]
#[path = "commit_tests.rs"]
mod tests;
