//! Hours by what they need, and the newsvendor's number of a commitment.
//!
//! What an hour costs depends on its need alone, so hours of equal need are one **level** with a weight.
//!
//! O(hours log hours) for the levels. Worked example: hours that need 2, 4 and 4 GPUs are two levels. At 2.5 an hour on demand and 1 reserved, 4 reserved cost least: 12, and 25 without any.

use std::collections::BTreeMap;

use super::demand::HourDemand;
use super::rent::HourRents;
use super::supply::{Commitment, PoolSupply};

/// Hours of equal need.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NeedLevel {
    /// Need of these hours.
    pub need: HourDemand,
    /// How many they are.
    pub hours: f64,
    /// By which prices they rent, where hours differ in them: the position among the supplies that the search is given.
    pub class: usize,
}

/// Hours in whole units, equal ones put together; without spot, all is firm. O(hours log hours).
pub fn levels(supply: &PoolSupply, hours: impl IntoIterator<Item = HourDemand>) -> Vec<NeedLevel> {
    levels_by(supply, hours, &|_| 0)
}

/// Hours of equal need as by [`levels`], put together within each class only.
pub(crate) fn levels_by(
    supply: &PoolSupply,
    hours: impl IntoIterator<Item = HourDemand>,
    class: &dyn Fn(&HourDemand) -> usize,
) -> Vec<NeedLevel> {
    let mut result: BTreeMap<(usize, u64, u64), f64> = BTreeMap::new();
    for hour in hours {
        let mut need = supply.rounded(hour);
        if supply.spot.is_empty() {
            need.firm = need.total;
        }
        // Needs are at least 0, so their bits are in their order.
        *result.entry((class(&hour), need.firm.to_bits(), need.total.to_bits())).or_default() += 1.0;
    }
    let level = |((class, firm, total), hours)| NeedLevel {
        need: HourDemand::new(f64::from_bits(firm), f64::from_bits(total)),
        hours,
        class,
    };
    result.into_iter().map(level).collect()
}

/// The most GPUs that some level needs.
pub(crate) fn peak(levels: &[NeedLevel]) -> f64 {
    levels.iter().map(|level| level.need.total).fold(0.0, f64::max)
}

/// How many of a commitment cost least beside on-demand alone: of equals, the fewest. With instances of its size that is one more as long as it saves more on-demand than it costs; with several sizes the cost falls and rises, so all numbers are looked at. O(peak × levels).
pub(crate) fn newsvendor(supply: &PoolSupply, levels: &[NeedLevel], of: &Commitment) -> u32 {
    let hours: f64 = levels.iter().map(|level| level.hours).sum();
    let steady = supply.without_spot();
    let rents = HourRents::new(&steady, peak(levels));
    let all = |need: HourDemand| HourDemand { firm: need.total, ..need };
    let cost = |count: u32| -> f64 {
        let committed = f64::from(count) * of.gpus;
        let rented = levels.iter().map(|level| level.hours * rents.cost(all(level.need), committed, 0));
        f64::from(count) * of.per_h * hours + rented.sum::<f64>()
    };
    let most = (peak(levels) / of.gpus).ceil().clamp(0.0, 1e6) as u32;
    let mut best = (0, cost(0));
    for count in 1..=most {
        let cost = cost(count);
        if cost < best.1 - 1e-9 * (1.0 + best.1.abs()) {
            best = (count, cost);
        }
    }
    best.0
}
