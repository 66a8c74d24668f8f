//! Intervals of what a rule meant on the days evaluated: what other weeks like these might have given.
//!
//! Blocks of whole weeks, or of days where there are under four weeks, are [drawn anew](crate::plan::interval) with replacement. Two rules are compared on the same draws, day by day. O(draws × blocks).
//!
//! Worked example: of two days, one saved 10 kWh more than the other rule and one 2 kWh less: on average 4, and a draw of the second day twice gives −2.

use tracecast_analytics::time::DAY_MS;

use super::{NodeDemand, Sums};
use crate::plan::interval::drawn;
use crate::replay::compare::IntervalEstimate;

/// Figures with intervals.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct Intervals {
    /// Mean number of nodes asleep.
    pub nodes_asleep_mean: IntervalEstimate,
    /// Node-slots a day of demand that found no node ready.
    pub unserved_per_day: IntervalEstimate,
    /// Nodes woken a day.
    pub node_wakes_per_day: IntervalEstimate,
    /// Energy saved a day, kWh.
    pub energy_saved_kwh_per_day: IntervalEstimate,
    /// Days of a block that is drawn as a whole.
    pub block_days: usize,
}

/// Outcome of a rule in one block of the days evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Block {
    /// Slots.
    pub slots: f64,
    /// Days.
    pub days: f64,
    /// Node-slots asleep.
    pub asleep: f64,
    /// Node-slots unserved.
    pub unserved: f64,
    /// Nodes woken.
    pub woken: f64,
    /// Energy saved, kWh.
    pub saved_kwh: f64,
}

impl Block {
    /// Converts sums to a block.
    pub(in crate::power) fn new(demand: &NodeDemand<'_>, sums: &Sums) -> Self {
        Self {
            slots: sums.slots,
            days: demand.days_of(sums),
            asleep: sums.asleep,
            unserved: sums.unserved,
            woken: sums.woken,
            saved_kwh: demand.outcome(sums).energy_saved_kwh,
        }
    }

    /// Adds what happened beside it, in the same slots.
    pub fn beside(&mut self, other: &Self, times: f64) {
        self.slots = self.slots.max(other.slots);
        self.days = self.days.max(other.days);
        self.asleep += other.asleep * times;
        self.unserved += other.unserved * times;
        self.woken += other.woken * times;
        self.saved_kwh += other.saved_kwh * times;
    }

    fn then(&mut self, other: &Self) {
        let (slots, days) = (self.slots + other.slots, self.days + other.days);
        self.beside(other, 1.0);
        (self.slots, self.days) = (slots, days);
    }

    /// Sleep, and shortage, wakes and energy a day.
    fn figures(&self) -> [f64; 4] {
        let (slots, days) = (self.slots.max(1.0), self.days.max(f64::MIN_POSITIVE));
        [self.asleep / slots, self.unserved / days, self.woken / days, self.saved_kwh / days]
    }

    /// Several pools beside each other, block by block.
    pub fn together<'a>(pools: impl IntoIterator<Item = &'a [Self]>) -> Vec<Self> {
        let mut sum: Vec<Self> = Vec::new();
        for pool in pools {
            sum.resize(sum.len().max(pool.len()), Self::default());
            sum.iter_mut().zip(pool).for_each(|(sum, block)| sum.beside(block, 1.0));
        }
        sum
    }
}

/// Slots of a block of the days evaluated.
pub(in crate::power) fn block_slots(demand: &NodeDemand<'_>) -> usize {
    let a_day = usize::try_from(DAY_MS / demand.slot_ms.max(1)).unwrap_or(1).max(1);
    if demand.need.len() >= 28 * a_day { 7 * a_day } else { a_day }
}

impl Intervals {
    /// Confidence intervals of a plan's outcome, bootstrapped from its blocks.
    pub fn new(blocks: &[Block]) -> Self {
        let whole = |blocks: &mut dyn Iterator<Item = &Block>| {
            let mut sum = Block::default();
            blocks.for_each(|block| sum.then(block));
            sum.figures()
        };
        let [nodes_asleep_mean, unserved_per_day, node_wakes_per_day, energy_saved_kwh_per_day] =
            drawn(blocks.len(), &|held| whole(&mut held.filter_map(|block| blocks.get(block))));
        Self {
            nodes_asleep_mean,
            unserved_per_day,
            node_wakes_per_day,
            energy_saved_kwh_per_day,
            block_days: blocks.first().map_or(0, |block| block.days.round() as usize),
        }
    }

    /// Confidence intervals of how much more some blocks meant than others, block by block.
    pub fn of_differences(blocks: &[Block], others: &[Block]) -> Self {
        let less = |(block, other): (&Block, &Block)| {
            let mut less = *block;
            less.beside(other, -1.0);
            less
        };
        Self::new(&blocks.iter().zip(others).map(less).collect::<Vec<_>>())
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp)]
mod tests {
    use super::*;

    fn day(saved_kwh: f64) -> Block {
        Block { slots: 144.0, days: 1.0, asleep: 144.0, saved_kwh, ..Block::default() }
    }

    #[test]
    fn the_worked_example() {
        let result = Intervals::of_differences(&[day(15.0), day(3.0)], &[day(5.0), day(5.0)]);
        let saved = result.energy_saved_kwh_per_day;
        assert_eq!((saved.value, saved.low, saved.high), (4.0, -2.0, 10.0));
        assert_eq!((result.nodes_asleep_mean.value, result.block_days), (0.0, 1));
    }

    #[test]
    fn pools_beside_each_other_add_up() {
        let sum = Block::together([[day(1.0), day(2.0)].as_slice(), [day(3.0), day(4.0)].as_slice()]);
        let result = Intervals::new(&sum);
        // 4 and 6 kWh a day; each pool has one node asleep in each slot.
        assert_eq!((result.energy_saved_kwh_per_day.value, result.nodes_asleep_mean.value), (5.0, 2.0));
    }
}
