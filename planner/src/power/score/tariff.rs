//! What hours are worth: prices or carbon as weights of slots, from the past alone wherever something is chosen.
//!
//! A slot's weight is its **price against `price_kwh` of the [worth](super::Worth)**, at which wear
//! and shortage are priced: at ten times the price an hour of sleep is worth ten times as much
//! against an hour that a job waits. **Carbon** has no price, so its weight is the intensity
//! against the mean of the days before the evaluation.
//!
//! What is chosen is chosen by what could be *expected*: the mean of the past at that hour of the week (of the day, where there are less than
//! [`WEEKS`] weeks of it). What came later only *accounts*: it weighs the sleep of the days evaluated, and the optimum of who knew it. No rate of
//! the days evaluated enters anything that is chosen.
//!
//! O(slots). Worked example: price_kwh 0.10, past prices of 0.05 by night and 0.15 by day: nights weigh 0.5, days 1.5. If days cost 0.30 from the
//! evaluation on, they still weigh 1.5 in the choice, and 3 in what was realised.

use std::ops::Range;

use tracecast_analytics::time::{WEEK_MS, Zone};
use tracecast_predictors::demand::Series;

use crate::plan::week::WeekMeans;

/// Weeks of rates from which on each hour of the week has its own expectation.
pub const WEEKS: f64 = 3.0;

/// Price or emissions of a kWh in each slot of a series; empty where hours are alike.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rates {
    /// By slot of the series, where known.
    pub by_slot: Vec<Option<f64>>,
    /// Whether they are money; else they emit.
    pub are_money: bool,
}

/// Weights of all slots of a series; empty where hours are alike.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HourWeights {
    /// Weights expected from the past; choices are made by these.
    pub expected: Vec<f64>,
    /// Realised weights; the expected ones where nothing is known.
    pub realised: Vec<f64>,
}

impl Rates {
    /// Weights for a choice made before slot `now`, from the rates of the slots before it; `None` where none of those has a rate (or their mean says
    /// nothing), so that all hours are alike.
    pub fn weights(&self, series: &Series, now: usize, price_kwh: f64) -> Option<HourWeights> {
        let past = 0..now.min(series.slots.len());
        let known =
            |range: Range<usize>| range.filter_map(|slot| Some((slot, self.by_slot.get(slot).copied().flatten()?)));
        let zone = Zone::named(&series.zone).unwrap_or_else(|_| Zone::utc());
        let hour = |slot: usize| zone.local(series.time_ms(slot)).hour_of_week();
        let mut means = WeekMeans::default();
        known(past).for_each(|(slot, rate)| means.add(hour(slot), rate));
        let mean = means.of_all()?;
        let unit = if self.are_money { price_kwh } else { mean };
        if unit <= 0.0 {
            return None;
        }
        let weekly = means.count() * series.slot_ms as f64 >= WEEKS * WEEK_MS as f64;
        let at = if weekly { WeekMeans::at } else { WeekMeans::at_time_of_day };
        let expect = |slot: usize| at(&means, hour(slot)).unwrap_or(mean) / unit;
        let expected: Vec<f64> = (0..series.slots.len()).map(expect).collect();
        let mut realised = expected.clone();
        for (slot, rate) in known(0..series.slots.len()) {
            realised.get_mut(slot).into_iter().for_each(|weight| *weight = rate / unit);
        }
        Some(HourWeights { expected, realised })
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp)]
mod tests {
    use tracecast_analytics::time::HOUR_MS;

    use super::*;
    use crate::power::made;

    fn series(slots: usize) -> Series {
        Series { slot_ms: 12 * HOUR_MS, ..made::series((0..slots).map(|_| (0.0, 0.0))) }
    }

    #[test]
    fn the_worked_example() {
        let cheap_and_dear = |slot: usize| {
            Some(if slot.is_multiple_of(2) {
                0.05
            } else if slot < 4 {
                0.15
            } else {
                0.30
            })
        };
        let rates = Rates { by_slot: (0..6).map(cheap_and_dear).collect(), are_money: true };
        let weights = rates.weights(&series(6), 4, 0.10);
        let close = |result: &[f64], told: [f64; 6]| result.iter().zip(told).all(|(a, b)| (a - b).abs() < 1e-12);
        let Some(weights) = weights else { unreachable!("four slots have a price") };
        assert!(close(&weights.expected, [0.5, 1.5, 0.5, 1.5, 0.5, 1.5]), "{weights:?}");
        assert!(close(&weights.realised, [0.5, 1.5, 0.5, 1.5, 0.5, 3.0]), "{weights:?}");
        // Carbon against the mean of the past, 0.10, whatever the price.
        let carbon = Rates { are_money: false, ..rates.clone() };
        assert_eq!(carbon.weights(&series(6), 4, 7.0), Some(weights));
        // Nothing is known of the past: hours are alike, whatever comes.
        let late = Rates { by_slot: vec![None, None, None, None, Some(1.0), Some(2.0)], are_money: true };
        assert_eq!(late.weights(&series(6), 4, 0.10), None);
    }

    #[test]
    fn ten_times_the_price_is_ten_times_the_weight() {
        let rates = |times: f64| Rates { by_slot: vec![Some(0.1 * times); 4], are_money: true };
        let weight =
            |times| rates(times).weights(&series(4), 2, 0.10).and_then(|weights| weights.expected.first().copied());
        assert!((weight(10.0).unwrap_or(0.0) / weight(1.0).unwrap_or(1.0) - 10.0).abs() < 1e-12);
    }
}
