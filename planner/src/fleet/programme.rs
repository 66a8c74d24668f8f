//! How much to commit to: a mixed-integer programme over hours of need.
//!
//! ```text
//! n_k   commitments of each kind, whole numbers           R = Σ g_k·n_k, the GPUs they have
//! x, y  GPUs on demand and on spot in a level l and a state s of spot; z those that wait
//! minimise  H·Σ c_k·n_k + Σ_l Σ_s w_l·q_s·(p·x + p'·y + P·z)
//! so that   R + Σ x + z ≥ firm_l          what must not be interrupted
//!           R + Σ x + Σ y + z ≥ total_l   all
//! ```
//!
//! Hours count by their need alone, so equal ones are one **level** with a weight. Many levels are put together into cells, each with its mean. The least cost is
//! convex in the need, so the programme over cells is never above the true least cost (Jensen): a **lower bound**. Its numbers are then costed on all levels exactly,
//! improved by single steps and swaps, and the **gap** between the two is told. Cells are made finer until the gap is at most a ten-thousandth or there are
//! 192 of them.
//!
//! With one commitment, no spot and no limits this is the newsvendor: commit to the GPUs that are needed for more than c / p of the time.
//!
//! O(cells³) at worst for the programme, O(levels × states) to cost a choice. Worked example: needs of 2, 4 and 6 GPUs for an hour each, on-demand at 2.5 and a
//! reserved GPU at 1 (0.4 of it): 4 GPUs are needed for two thirds of the time, 6 for one third, so 4 are reserved, for 12 + 5 = 17.

use std::collections::BTreeMap;

use good_lp::{Expression, Solution as _, constraint, variable, variables};

use super::demand::HourDemand;
use super::supply::{FleetSupply, SpotState};
use crate::error::Result;
use crate::plan::programme::solved;

/// Cells to begin with, and at most.
const FIRST_CELLS: usize = 24;
/// Most cells.
const MOST_CELLS: usize = 192;
/// Gap at which a choice is good enough, a share of its cost.
const GAP: f64 = 1e-4;
/// Rounds of improvement at most.
const ROUNDS: usize = 200;

/// Hours of equal need.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NeedLevel {
    /// What they need.
    pub need: HourDemand,
    /// How many they are.
    pub hours: f64,
}

/// Commitments, and what they cost.
#[derive(Debug, Clone, PartialEq)]
pub struct FleetMix {
    /// Number of each commitment of the [`FleetSupply`].
    pub counts: Vec<u32>,
    /// Cost of all hours, what waits included at its price.
    pub cost: f64,
    /// The least that any choice can cost, by the programme over cells.
    pub bound: f64,
}

impl FleetMix {
    /// How far above the bound it is, a share of its cost.
    pub fn gap(&self) -> f64 {
        if self.cost > 0.0 { ((self.cost - self.bound) / self.cost).max(0.0) } else { 0.0 }
    }
}

/// Hours in whole instances, equal ones put together. O(hours log hours).
pub fn levels(supply: &FleetSupply, hours: impl IntoIterator<Item = HourDemand>) -> Vec<NeedLevel> {
    let mut found: BTreeMap<(u64, u64), f64> = BTreeMap::new();
    for need in hours {
        let need = supply.rounded(need);
        // Needs are at least 0, so their bits are in their order.
        *found.entry((need.firm.to_bits(), need.total.to_bits())).or_default() += 1.0;
    }
    let level = |((firm, total), hours)| NeedLevel {
        need: HourDemand { firm: f64::from_bits(firm), total: f64::from_bits(total) },
        hours,
    };
    found.into_iter().map(level).collect()
}

/// What commitments cost over all levels, exactly; what waits included at its price. O(levels × states).
pub fn cost(supply: &FleetSupply, levels: &[NeedLevel], counts: &[u32]) -> f64 {
    let committed = supply.committed_gpus(counts);
    let hours: f64 = levels.iter().map(|level| level.hours).sum();
    let waiting = supply.waiting_price();
    let rented = |level: &NeedLevel| -> f64 {
        let of = |state: &SpotState| {
            let fill = supply.fill(level.need, committed, state);
            state.weight * (fill.cost + fill.waiting * waiting)
        };
        level.hours * supply.states.iter().map(of).sum::<f64>()
    };
    hours * supply.committed_per_h(counts) + levels.iter().map(rented).sum::<f64>()
}

/// Most of each commitment that could be of use.
fn most(supply: &FleetSupply, levels: &[NeedLevel]) -> Vec<u32> {
    let peak = levels.iter().map(|level| level.need.total).fold(0.0, f64::max);
    let useful = |gpus: f64| (peak / gpus).ceil().min(1e6) as u32;
    let of = |commitment: &super::supply::Commitment| useful(commitment.gpus).min(commitment.limit.unwrap_or(u32::MAX));
    supply.commitments.iter().map(of).collect()
}

/// The cheapest commitments for these hours.
///
/// # Errors
/// If the solver finds no solution, which no input should bring about.
pub fn solve(supply: &FleetSupply, levels: &[NeedLevel]) -> Result<FleetMix> {
    let nothing = vec![0; supply.commitments.len()];
    if nothing.is_empty() || levels.is_empty() {
        let cost = cost(supply, levels, &nothing);
        return Ok(FleetMix { counts: nothing, cost, bound: cost });
    }
    let mut cells = FIRST_CELLS;
    let mut best: Option<FleetMix> = None;
    loop {
        let grouped = group(levels, cells);
        let (counts, bound) = integer(supply, &grouped, &most(supply, levels))?;
        let begin = best.as_ref().map_or(counts.clone(), |best| best.counts.clone());
        let found = [counts, begin].map(|counts| descend(supply, levels, counts));
        let [one, other] = found;
        let (counts, cost) = if other.1 < one.1 { other } else { one };
        let bound = best.as_ref().map_or(bound, |best| best.bound.max(bound)).min(cost);
        let mix = FleetMix { counts, cost, bound };
        if mix.gap() <= GAP || cells >= MOST_CELLS || grouped.len() >= levels.len() {
            return Ok(mix);
        }
        best = Some(mix);
        cells *= 2;
    }
}

/// The cheapest commitments that steps and swaps lead to from `counts`, with their cost.
pub fn descend(supply: &FleetSupply, levels: &[NeedLevel], mut counts: Vec<u32>) -> (Vec<u32>, f64) {
    let most = most(supply, levels);
    counts.iter_mut().zip(&most).for_each(|(count, most)| *count = (*count).min(*most));
    let mut least = cost(supply, levels, &counts);
    let mut step = most.iter().copied().max().unwrap_or(1).max(1).next_power_of_two();
    for _ in 0..ROUNDS {
        let mut found: Option<(Vec<u32>, f64)> = None;
        for other in neighbours(supply, &counts, &most, step) {
            let cost = cost(supply, levels, &other);
            // Beyond what sums of floats differ by.
            if cost < found.as_ref().map_or(least, |found| found.1) - 1e-9 * (1.0 + least.abs()) {
                found = Some((other, cost));
            }
        }
        match found {
            Some((other, cost)) => (counts, least) = (other, cost),
            None if step > 1 => step /= 2,
            None => break,
        }
    }
    (counts, least)
}

/// Choices a step away: one commitment more or fewer by `step`, and one in place of another for about as many GPUs.
fn neighbours(supply: &FleetSupply, counts: &[u32], most: &[u32], step: u32) -> Vec<Vec<u32>> {
    let mut found = Vec::new();
    let mut push = |changes: &[(usize, i64)]| {
        let mut other = counts.to_vec();
        for (at, change) in changes {
            let (Some(count), Some(most)) = (other.get_mut(*at), most.get(*at)) else { return };
            let new = i64::from(*count) + change;
            if new < 0 || new > i64::from(*most) {
                return;
            }
            *count = u32::try_from(new).unwrap_or(0);
        }
        found.push(other);
    };
    let step = i64::from(step);
    for (one, of) in supply.commitments.iter().enumerate() {
        push(&[(one, step)]);
        push(&[(one, -step)]);
        for (two, other) in supply.commitments.iter().enumerate().filter(|(two, _)| *two != one) {
            let gpus = of.gpus * step as f64 / other.gpus;
            let whole = [gpus.floor() as i64, gpus.ceil() as i64];
            for in_place in if whole[0] == whole[1] { &whole[..1] } else { &whole[..] } {
                push(&[(one, -step), (two, *in_place)]);
            }
        }
    }
    found
}

/// Levels put together into at most `cells`, each with its mean: the cell with the most spread is cut at its mean, again and again. O(levels × cells).
fn group(levels: &[NeedLevel], cells: usize) -> Vec<NeedLevel> {
    type Of = fn(&NeedLevel) -> f64;
    let axes: [Of; 2] = [|level| level.need.firm, |level| level.need.total];
    let hours = |cell: &[NeedLevel]| cell.iter().map(|level| level.hours).sum::<f64>();
    let mean = |cell: &[NeedLevel], of: Of| {
        cell.iter().map(|level| of(level) * level.hours).sum::<f64>() / hours(cell).max(f64::MIN_POSITIVE)
    };
    // The axis along which a cell spreads most, and how much: hours times the mean distance from the mean.
    let spread = |cell: &[NeedLevel]| {
        let along = |of: Of| {
            let mean = mean(cell, of);
            cell.iter().map(|level| level.hours * (of(level) - mean).abs()).sum::<f64>()
        };
        let (firm, total) = (along(axes[0]), along(axes[1]));
        if firm > total { (firm, 0) } else { (total, 1) }
    };
    let mut found: Vec<(f64, usize, Vec<NeedLevel>)> = Vec::new();
    let push = |found: &mut Vec<(f64, usize, Vec<NeedLevel>)>, cell: Vec<NeedLevel>| {
        let (spread, axis) = spread(&cell);
        found.push((spread, axis, cell));
    };
    push(&mut found, levels.to_vec());
    while found.len() < cells {
        let widest = (0..found.len()).max_by(|a, b| found[*a].0.total_cmp(&found[*b].0));
        let Some(at) = widest.filter(|at| found[*at].0 > 1e-9) else { break };
        let (_, axis, cell) = found.swap_remove(at);
        let middle = mean(&cell, axes[axis]);
        let (low, high): (Vec<NeedLevel>, Vec<NeedLevel>) =
            cell.into_iter().partition(|level| axes[axis](level) <= middle);
        for part in [low, high] {
            if !part.is_empty() {
                push(&mut found, part);
            }
        }
    }
    found
        .into_iter()
        .map(|(_, _, cell)| NeedLevel {
            need: HourDemand { firm: mean(&cell, axes[0]), total: mean(&cell, axes[1]) },
            hours: hours(&cell),
        })
        .collect()
}

/// The programme over cells: numbers of each commitment, and the least cost.
fn integer(supply: &FleetSupply, cells: &[NeedLevel], most: &[u32]) -> Result<(Vec<u32>, f64)> {
    let mut vars = variables!();
    let counts: Vec<good_lp::Variable> =
        most.iter().map(|most| vars.add(variable().integer().min(0).max(*most))).collect();
    let hours: f64 = cells.iter().map(|cell| cell.hours).sum();
    let mut objective = Expression::default();
    let mut committed = Expression::default();
    for (count, commitment) in counts.iter().zip(&supply.commitments) {
        objective.add_mul(hours * commitment.per_h, *count);
        committed.add_mul(commitment.gpus, *count);
    }
    // Beyond the first without a limit, on-demand is never taken.
    let unlimited = supply.on_demand.iter().position(|rental| rental.limit.is_infinite());
    let steady = supply.on_demand.get(..unlimited.map_or(supply.on_demand.len(), |at| at + 1)).unwrap_or(&[]);
    let mut rows = Vec::new();
    for cell in cells {
        for state in &supply.states {
            let weight = cell.hours * state.weight;
            let mut firm = committed.clone();
            for rental in steady {
                let rented = vars.add(variable().min(0.0).max(rental.limit));
                objective.add_mul(weight * rental.per_gpu_h, rented);
                firm.add_mul(1.0, rented);
            }
            if unlimited.is_none() {
                let waiting = vars.add(variable().min(0.0));
                objective.add_mul(weight * supply.waiting_price(), waiting);
                firm.add_mul(1.0, waiting);
            }
            let mut all = firm.clone();
            for (rental, share) in supply.spot.iter().zip(&state.shares).filter(|(_, share)| **share > 0.0) {
                let rented = vars.add(variable().min(0.0).max(rental.limit * share));
                objective.add_mul(weight * rental.per_gpu_h, rented);
                all.add_mul(1.0, rented);
            }
            if cell.need.firm > 0.0 {
                rows.push(constraint!(firm >= cell.need.firm));
            }
            if cell.need.total > 0.0 {
                rows.push(constraint!(all >= cell.need.total));
            }
        }
    }
    let solution = solved(vars.minimise(objective.clone()), rows, "a fleet")?;
    let found = counts.iter().map(|count| solution.value(*count).round().max(0.0) as u32).collect();
    Ok((found, solution.eval(objective)))
}

#[cfg(test)]
#[path = "programme_tests.rs"]
mod tests;
