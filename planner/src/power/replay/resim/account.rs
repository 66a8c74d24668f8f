//! What sleep did in each day or week of a window: energy, money, carbon, wakes, shortage and waiting, and intervals
//! from drawing those.
//!
//! Energy saved is what a node draws less than when idle: P_idle − P_off asleep, P_idle − E_boot / t_boot while it
//! boots, likewise for its shutdown; nothing while it is powered, as jobs run equally long with and without sleep. It
//! is cut at every hour of the clock, so each piece has the price and carbon intensity of its hour.
//!
//! **Intervals**: the window falls into blocks of weeks, or of days where it has fewer than four weeks; blocks are
//! drawn [whole](resample::whole), 1,000 times, and every figure is taken anew from what was drawn (all
//! figures from the same draws, so they stay paired). Jobs belong to the block of their submission. The 2.5 % and 97.5
//! % quantiles are the interval. With a handful of blocks it is too narrow rather than too wide.
//!
//! Worked number: one node asleep 00:30–02:00 at a difference of 1,000 W and 0.10, 0.20 per kWh in the two hours: 0.5
//! kWh · 0.10 + 1 kWh · 0.20 = 0.25.

use tracecast_analytics::KWH_J;
use tracecast_analytics::stats::resample;
use tracecast_analytics::time::{DAY_MS, HOUR_MS};

use crate::power::score::constants::Constants;
use crate::replay::compare::{IntervalEstimate, RESAMPLES};
use crate::sim::power::{State, boots};

/// A rate that may change every hour.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PerHour<'a> {
    /// Always the same.
    Constant(f64),
    /// One for each hour from a moment (milliseconds since the epoch) on; `None` where it is not known, as before and after.
    Hours {
        /// When the first hour begins.
        from_ms: i64,
        /// Values by hour.
        values: &'a [Option<f64>],
    },
}

impl PerHour<'_> {
    /// The rate at a moment, milliseconds since the epoch.
    pub fn at(&self, ms: i64) -> Option<f64> {
        match self {
            Self::Constant(value) => Some(*value),
            Self::Hours { from_ms, values } => {
                let hour = usize::try_from((ms - from_ms).div_euclid(HOUR_MS)).ok()?;
                values.get(hour).copied().flatten()
            }
        }
    }

    /// When the hour ends that `ms` is in.
    fn next(&self, ms: i64) -> i64 {
        match self {
            Self::Constant(_) => i64::MAX,
            Self::Hours { from_ms, .. } => from_ms + ((ms - from_ms).div_euclid(HOUR_MS) + 1) * HOUR_MS,
        }
    }
}

/// Price and emissions of a kilowatt-hour.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct HourlyRates<'a> {
    /// Price of a kilowatt-hour, in whatever currency.
    pub price_per_kwh: Option<PerHour<'a>>,
    /// Kilograms of CO₂ equivalent for a kilowatt-hour.
    pub co2_kg_per_kwh: Option<PerHour<'a>>,
}

/// Sums over a block.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Sums {
    pub(super) span_ms: i64,
    pub(super) asleep_ms: i64,
    /// Saved at the nodes, net of boots and shutdowns, joules.
    pub(super) saved_j: f64,
    /// Saved at the meter in hours with a known rate, joules.
    pub(super) priced_j: f64,
    pub(super) cost: f64,
    pub(super) rated_j: f64,
    pub(super) co2_kg: f64,
    pub(super) wakes: u64,
    pub(super) unserved: f64,
    pub(super) jobs: u64,
    pub(super) added_wait_ms: i64,
    pub(super) added_jct_ms: i64,
    pub(super) delayed: u64,
}

impl Sums {
    fn add(&mut self, other: &Self) {
        self.span_ms += other.span_ms;
        self.asleep_ms += other.asleep_ms;
        self.saved_j += other.saved_j;
        self.priced_j += other.priced_j;
        self.cost += other.cost;
        self.rated_j += other.rated_j;
        self.co2_kg += other.co2_kg;
        self.wakes += other.wakes;
        self.unserved += other.unserved;
        self.jobs += other.jobs;
        self.added_wait_ms += other.added_wait_ms;
        self.added_jct_ms += other.added_jct_ms;
        self.delayed += other.delayed;
    }

    pub(super) fn days(&self) -> f64 {
        self.span_ms as f64 / DAY_MS as f64
    }

    /// `total` over so many days of drawn blocks, for a window of `days`.
    pub(super) fn scaled(&self, total: f64, days: f64) -> f64 {
        if self.span_ms > 0 { total * days / self.days() } else { 0.0 }
    }
}

/// Blocks of a window.
#[derive(Debug, Clone)]
pub(super) struct Blocks {
    from_ms: i64,
    length_ms: i64,
    pub(super) sums: Vec<Sums>,
}

impl Blocks {
    /// Weeks, or days where there are fewer than four of those.
    pub(super) fn new(from_ms: i64, to_ms: i64) -> Self {
        let span = to_ms - from_ms;
        let length_ms = if span >= 28 * DAY_MS { 7 * DAY_MS } else { DAY_MS };
        let count = span.max(1).div_euclid(length_ms) + i64::from(span.max(1).rem_euclid(length_ms) != 0);
        let length = |at: i64| (from_ms + (at + 1) * length_ms).min(to_ms) - (from_ms + at * length_ms);
        let sums = (0..count).map(|at| Sums { span_ms: length(at), ..Sums::default() }).collect();
        Self { from_ms, length_ms, sums }
    }

    /// What the blocks are.
    pub(super) fn unit(&self) -> &'static str {
        if self.length_ms == DAY_MS { "day" } else { "week" }
    }

    /// The block of a moment of the window.
    pub(super) fn at(&mut self, ms: i64) -> Option<&mut Sums> {
        let at = usize::try_from((ms - self.from_ms).div_euclid(self.length_ms)).ok()?;
        self.sums.get_mut(at)
    }

    pub(super) fn total(&self) -> Sums {
        let mut total = Sums::default();
        self.sums.iter().for_each(|sums| total.add(sums));
        total
    }

    /// The figures of all blocks, with intervals from `seed`; `None` for one that is not known.
    pub(super) fn estimates<const N: usize>(
        &self,
        seed: u64,
        figures: impl Fn(&Sums) -> [Option<f64>; N],
    ) -> [Option<IntervalEstimate>; N] {
        let mut drawn: [Vec<f64>; N] = std::array::from_fn(|_| Vec::with_capacity(RESAMPLES));
        for number in 0..RESAMPLES {
            let mut sums = Sums::default();
            let held = resample::whole(self.sums.len(), seed, number as u64);
            held.filter_map(|block| self.sums.get(block)).for_each(|block| sums.add(block));
            for (drawn, figure) in drawn.iter_mut().zip(figures(&sums)) {
                drawn.extend(figure);
            }
        }
        let values = figures(&self.total());
        let mut drawn = drawn.into_iter();
        values.map(|value| {
            IntervalEstimate::new(value?, drawn.next().unwrap_or_default()).or(value.map(IntervalEstimate::certain))
        })
    }
}

/// Adds what nodes, whose states are given, draw less than always on, and what they do, to the blocks of a window.
/// O(changes + hours × nodes).
pub(super) fn energy(
    nodes: &[Vec<(i64, State)>],
    constants: &Constants,
    rates: &HourlyRates<'_>,
    origin_ms: i64,
    window: (i64, i64),
    blocks: &mut Blocks,
) {
    let rate = |energy_j: f64, time_s: f64| if time_s > 0.0 { energy_j / time_s } else { 0.0 };
    for boot in boots(nodes).filter(|boot| !boot.again && (window.0..window.1).contains(&boot.at_ms)) {
        blocks.at(boot.at_ms).into_iter().for_each(|sums| sums.wakes += 1);
    }
    for states in nodes {
        let ends = states.iter().skip(1).map(|(at, _)| *at).chain([i64::MAX]);
        for ((begun, state), end) in states.iter().copied().zip(ends) {
            let less_w = match state {
                State::Powered | State::Out => continue,
                State::Asleep => constants.idle_w - constants.off_w,
                State::Booting => constants.idle_w - rate(constants.boot_j, constants.boot_s),
                State::ShuttingDown => constants.idle_w - rate(constants.shutdown_j, constants.shutdown_s),
            };
            let (mut at, end) = (begun.max(window.0), end.min(window.1));
            while at < end {
                let block_ends =
                    blocks.from_ms + ((at - blocks.from_ms).div_euclid(blocks.length_ms) + 1) * blocks.length_ms;
                let hours = [rates.price_per_kwh, rates.co2_kg_per_kwh].into_iter().flatten();
                let hour_ends = hours.map(|rate| rate.next(origin_ms + at).saturating_sub(origin_ms)).min();
                let until = end.min(block_ends).min(hour_ends.unwrap_or(i64::MAX));
                let less_j = less_w * (until - at) as f64 / 1000.0;
                let metered_j = less_j * constants.pue_marginal;
                if let Some(sums) = blocks.at(at) {
                    sums.saved_j += less_j;
                    if state == State::Asleep {
                        sums.asleep_ms += until - at;
                    }
                    if let Some(price) = rates.price_per_kwh.and_then(|rate| rate.at(origin_ms + at)) {
                        sums.priced_j += metered_j;
                        sums.cost += metered_j / KWH_J * price;
                    }
                    if let Some(intensity) = rates.co2_kg_per_kwh.and_then(|rate| rate.at(origin_ms + at)) {
                        sums.rated_j += metered_j;
                        sums.co2_kg += metered_j / KWH_J * intensity;
                    }
                }
                at = until;
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::sim::power::{Change, Record};

    /// The example of the module, at half past midnight of the epoch's first day: origin 00:10, asleep from minute 20
    /// to 110 of the replay.
    #[test]
    fn energy_has_the_price_of_its_hour() {
        let minute = |minute: i64, state| Change { at_ms: minute * 60_000, node: 0, state };
        let record = Record {
            nodes: 1,
            changes: vec![minute(20, State::Asleep), minute(110, State::Booting), minute(115, State::Powered)],
            pools: Vec::new(),
        };
        let constants =
            Constants { idle_w: 1010.0, off_w: 10.0, boot_s: 300.0, boot_j: 1510.0 * 300.0, ..Constants::default() };
        let prices = [Some(0.1), Some(0.2)];
        let rates = HourlyRates {
            price_per_kwh: Some(PerHour::Hours { from_ms: 0, values: &prices }),
            co2_kg_per_kwh: Some(PerHour::Constant(0.5)),
        };
        let window = (0, 200 * 60_000);
        let mut blocks = Blocks::new(window.0, window.1);
        energy(&record.by_node(), &constants, &rates, 600_000, window, &mut blocks);
        let total = blocks.total();
        // 1.5 kWh asleep, less 500 W for 5 min.
        let boot_kwh = 0.5 * 5.0 / 60.0;
        assert!((total.saved_j / KWH_J - (1.5 - boot_kwh)).abs() < 1e-12);
        // The boot at 02:00 has no price.
        assert!((total.cost - 0.25).abs() < 1e-12 && (total.priced_j / KWH_J - 1.5).abs() < 1e-12);
        assert!((total.co2_kg - 0.5 * (1.5 - boot_kwh)).abs() < 1e-12);
        assert_eq!((total.wakes, total.asleep_ms), (1, 90 * 60_000));
    }

    #[test]
    fn blocks_are_days_and_then_weeks() {
        let days = Blocks::new(0, 2 * DAY_MS + HOUR_MS);
        assert_eq!((days.unit(), days.sums.len(), days.sums[2].span_ms), ("day", 3, HOUR_MS));
        let weeks = Blocks::new(DAY_MS, 31 * DAY_MS);
        assert_eq!((weeks.unit(), weeks.sums.len(), weeks.sums[4].span_ms), ("week", 5, 2 * DAY_MS));
        // Equal blocks have no spread; a figure of days scales with the window.
        let mut equal = Blocks::new(0, 5 * DAY_MS);
        equal.sums.iter_mut().for_each(|sums| sums.wakes = 3);
        let [wakes] = equal.estimates(1, |sums| [Some(sums.scaled(sums.wakes as f64, 5.0))]);
        assert_eq!(wakes, Some(IntervalEstimate { value: 15.0, low: 15.0, high: 15.0 }));
    }
}
