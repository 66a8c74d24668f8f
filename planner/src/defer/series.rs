//! What a kWh emits or costs in each hour, in whole numbers, and its integral between any two moments.
//!
//! ```text
//! value      whole thousandths of a g/kWh, or millionths of money a kWh: sums are exact, so equal is equal
//! integral   Σ value × milliseconds, from cumulated sums: O(1) for any stretch
//! ```
//!
//! An hour without a value has none. It counts for nothing in an integral, so whoever integrates asks first whether a stretch [is known](HourSeries::is_known): a job that may touch such an hour is left out.
//!
//! O(hours) to build. Worked example: hours of 300 and 100 g/kWh; from 0:30 to 1:30 the integral is 30 min × 300,000 + 30 min × 100,000 = 720,000,000,000, on average 200 g/kWh.

use tracecast_analytics::audit::factors::Hourly;
use tracecast_analytics::time::HOUR_MS;

use crate::error::{Error, Result};

/// What a series is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HourValue {
    /// Carbon intensity, g/kWh.
    Carbon,
    /// Price of electricity, money a kWh.
    Price,
}

impl HourValue {
    /// Whole parts of a unit.
    pub fn parts(self) -> f64 {
        match self {
            Self::Carbon => 1e3,
            Self::Price => 1e6,
        }
    }
}

/// Values by the hour.
#[derive(Debug, Clone, PartialEq)]
pub struct HourSeries {
    first: i64,
    values: Vec<Option<i64>>,
    /// Integral from the beginning to each hour.
    sums: Vec<i128>,
    /// Hours without a value before each hour.
    gaps: Vec<u32>,
}

impl HourSeries {
    /// The hours of a file, in whole parts.
    ///
    /// # Errors
    /// If it has no hours, as one that is the same at all times.
    pub fn new(hourly: &Hourly, value: HourValue, name: &str) -> Result<Self> {
        let (from, to) = hourly.span().ok_or_else(|| {
            Error::file(
                name.to_owned(),
                1,
                "there is no value by the hour, so no hour is better than another; name a file with hourly values"
                    .to_owned(),
            )
        })?;
        let at = |hour: i64| Some((hourly.at(hour * HOUR_MS)? * value.parts()).round() as i64);
        Ok(Self::from_values(from / HOUR_MS, ((from / HOUR_MS)..(to / HOUR_MS)).map(at).collect()))
    }

    /// From the value of each hour from hour `first` of the epoch on.
    pub fn from_values(first: i64, values: Vec<Option<i64>>) -> Self {
        let (mut sum, mut gap) = (0i128, 0u32);
        let (mut sums, mut gaps) = (Vec::with_capacity(values.len() + 1), Vec::with_capacity(values.len() + 1));
        for value in &values {
            sums.push(sum);
            gaps.push(gap);
            sum += i128::from(value.unwrap_or(0)) * i128::from(HOUR_MS);
            gap += u32::from(value.is_none());
        }
        sums.push(sum);
        gaps.push(gap);
        Self { first, values, sums, gaps }
    }

    /// First hour and the hour after the last, hours of the epoch.
    pub fn hours(&self) -> (i64, i64) {
        (self.first, self.first + self.values.len() as i64)
    }

    /// The value of an hour of the epoch.
    pub fn at(&self, hour: i64) -> Option<i64> {
        usize::try_from(hour - self.first).ok().and_then(|at| self.values.get(at).copied().flatten())
    }

    /// Hours between the first and the last that have no value.
    pub fn missing(&self) -> u64 {
        u64::from(self.gaps.last().copied().unwrap_or(0))
    }

    /// The integral from the beginning to a moment within the series.
    fn up_to(&self, ms: i64) -> i128 {
        let hour = ms.div_euclid(HOUR_MS);
        let at = usize::try_from(hour - self.first).unwrap_or(0).min(self.values.len());
        let sum = self.sums.get(at).copied().unwrap_or(0);
        sum + i128::from(self.at(hour).unwrap_or(0)) * i128::from(ms - hour * HOUR_MS)
    }

    /// Value times milliseconds from a moment to a later one. O(1).
    pub fn integral(&self, from_ms: i64, to_ms: i64) -> i128 {
        self.up_to(to_ms) - self.up_to(from_ms)
    }

    /// Whether every hour that a stretch touches has a value. O(1).
    pub fn is_known(&self, from_ms: i64, to_ms: i64) -> bool {
        let (first, end) = (from_ms.div_euclid(HOUR_MS), (to_ms - 1).div_euclid(HOUR_MS) + 1);
        if first < self.first || end > self.first + self.values.len() as i64 {
            return false;
        }
        let gaps = |hour: i64| usize::try_from(hour - self.first).ok().and_then(|at| self.gaps.get(at).copied());
        gaps(first).is_some() && gaps(first) == gaps(end)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_worked_example() {
        let series = HourSeries::from_values(0, vec![Some(300_000), Some(100_000)]);
        assert_eq!(series.integral(HOUR_MS / 2, HOUR_MS * 3 / 2), 720_000_000_000);
        assert_eq!(720_000_000_000 / i128::from(HOUR_MS), 200_000);
        assert!(series.is_known(0, 2 * HOUR_MS) && !series.is_known(0, 2 * HOUR_MS + 1) && !series.is_known(-1, 5));
    }

    #[test]
    fn an_hour_without_a_value_is_not_0() {
        let hourly = Hourly::new([(0, 100.0), (2 * HOUR_MS, 50.0)]);
        let series = HourSeries::new(&hourly, HourValue::Carbon, "c.csv").unwrap();
        assert_eq!(
            (series.at(0), series.at(1), series.at(2), series.missing()),
            (Some(100_000), None, Some(50_000), 1)
        );
        assert!(!series.is_known(HOUR_MS / 2, HOUR_MS + 1) && series.is_known(HOUR_MS / 2, HOUR_MS));
        let same = HourSeries::new(&Hourly::constant(5.0), HourValue::Carbon, "c.csv").unwrap_err().to_string();
        assert!(same.contains("c.csv") && same.contains("no hour is better"), "{same}");
    }

    proptest! {
        #[test]
        fn integrals_are_sums_by_the_millisecond(values in prop::collection::vec(-9i64..900, 1..5), a in 0i64..4000, b in 0i64..4000) {
            // An hour is cut short to what is looked at: steps of an hour's 800th.
            let series = HourSeries::from_values(3, values.iter().copied().map(Some).collect());
            let step = HOUR_MS / 800;
            let most = values.len() as i64 * 800;
            let (from, to) = (a.min(b).min(most), a.max(b).min(most));
            let slow: i128 = (from..to).map(|at| i128::from(values[(at / 800) as usize]) * i128::from(step)).sum();
            prop_assert_eq!(series.integral(3 * HOUR_MS + from * step, 3 * HOUR_MS + to * step), slow);
        }
    }
}
