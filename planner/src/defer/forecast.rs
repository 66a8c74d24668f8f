//! What the hours to come are expected to be, from those that have begun.
//!
//! The value of an hour is known from its beginning on, as publishers tell a live one; of later hours nothing is known.
//!
//! | forecast | of an hour to come |
//! |---|---|
//! | persistence | the value of the current hour |
//! | yesterday | the last known value at that hour of the day |
//! | mean | the mean of the last days at that hour of the day, working days and weekends apart |
//! | level | that mean, moved as far as the current hour is from its own |
//! | clock | as *mean*, of all hours before the split, and never renewed |
//! | known | the value that came: a bound, and no forecast |
//!
//! Hours of the day and weekends are those of UTC, as grids span zones. Where the last days have no weekend, or no working day, at that hour, all their days count. Without any value there is no forecast, and
//! nobody waits.
//!
//! O(hours) to build, O(1) an hour asked. Worked example: at 13:00 of a Tuesday the intensity is 300; the mean at 13:00 of the working days of the last week, today's among them, is 250, and at 15:00 it is 200. *Mean* expects 200 at 15:00,
//! *level* 250, *persistence* 300.

use schemars::JsonSchema;
use serde::Serialize;

use super::series::HourSeries;

/// Hours of the day, of working days and of weekends.
const SLOTS: usize = 48;
/// Hours of a day.
pub(super) const DAY_H: i64 = 24;

/// How hours to come are forecast.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ForecastBy {
    /// The current hour's value.
    Persistence,
    /// The last known value at that hour of the day.
    Yesterday,
    /// The mean at that hour over the last days, weekdays and weekends apart.
    Mean(u16),
    /// The mean of `Mean`, shifted to the level of the current hour.
    Level(u16),
    /// The mean at that hour over all days before the split, weekdays and weekends apart.
    Clock,
    /// The values that came: a perfect forecast.
    Known,
}

impl ForecastBy {
    /// Forecasts that a plan may choose from, where windows are sought.
    pub const TRIED: [Self; 5] = [Self::Yesterday, Self::Mean(7), Self::Mean(28), Self::Level(7), Self::Level(28)];
    /// Forecasts that are scored.
    pub const SCORED: [Self; 7] = [
        Self::Persistence,
        Self::Yesterday,
        Self::Mean(7),
        Self::Mean(28),
        Self::Level(7),
        Self::Level(28),
        Self::Clock,
    ];

    /// In words, after "by".
    pub fn in_words(self) -> String {
        match self {
            Self::Persistence => "the current hour".to_owned(),
            Self::Yesterday => "the same hour of yesterday".to_owned(),
            Self::Mean(days) => format!("the mean of {days} days"),
            Self::Level(days) => format!("the mean of {days} days at the current level"),
            Self::Clock => "the clock (mean of all earlier days)".to_owned(),
            Self::Known => "the values that came".to_owned(),
        }
    }
}

/// The hour of the day, of a working day or a weekend, that an hour of the epoch is.
fn slot(hour: i64) -> usize {
    // The epoch began on a Thursday.
    let weekend = (hour.div_euclid(DAY_H) + 3).rem_euclid(7) >= 5;
    hour.rem_euclid(DAY_H) as usize + if weekend { SLOTS / 2 } else { 0 }
}

/// Sums over slots.
#[derive(Debug, Clone)]
struct SlotMeans {
    sums: [i64; SLOTS],
    counts: [i64; SLOTS],
}

impl SlotMeans {
    fn empty() -> Self {
        Self { sums: [0; SLOTS], counts: [0; SLOTS] }
    }

    /// Adds a value, or takes it away.
    fn count(&mut self, hour: i64, value: Option<i64>, times: i64) {
        let Some(value) = value else { return };
        let at = slot(hour);
        if let (Some(sum), Some(count)) = (self.sums.get_mut(at), self.counts.get_mut(at)) {
            *sum += value * times;
            *count += times;
        }
    }

    /// The mean of each slot, of both kinds of days where one has none.
    fn means(&self) -> [Option<i64>; SLOTS] {
        let mean = |sum: i64, count: i64| (count > 0).then(|| (sum as f64 / count as f64).round() as i64);
        std::array::from_fn(|at| {
            let of = |at: usize| (self.sums.get(at).copied().unwrap_or(0), self.counts.get(at).copied().unwrap_or(0));
            let (own, other) = (of(at), of((at + SLOTS / 2) % SLOTS));
            mean(own.0, own.1).or_else(|| mean(other.0, other.1))
        })
    }
}

/// A forecast of a series.
#[derive(Debug, Clone)]
pub struct HourForecast<'s> {
    series: &'s HourSeries,
    by: ForecastBy,
    /// Means by slot as they are known in each hour of the series, or at all times.
    means: Vec<[Option<i64>; SLOTS]>,
}

impl<'s> HourForecast<'s> {
    /// A forecast; *clock* is of the hours from one to before another. O(hours).
    pub fn new(series: &'s HourSeries, by: ForecastBy, clock: (i64, i64)) -> Self {
        let (first, end) = series.hours();
        let mut sums = SlotMeans::empty();
        let means = match by {
            ForecastBy::Mean(days) | ForecastBy::Level(days) => (first..end)
                .map(|hour| {
                    sums.count(hour, series.at(hour), 1);
                    let gone = hour - i64::from(days) * DAY_H;
                    sums.count(gone, series.at(gone), -1);
                    sums.means()
                })
                .collect(),
            ForecastBy::Clock => {
                (clock.0.max(first)..clock.1.min(end)).for_each(|hour| sums.count(hour, series.at(hour), 1));
                vec![sums.means()]
            }
            ForecastBy::Persistence | ForecastBy::Yesterday | ForecastBy::Known => Vec::new(),
        };
        Self { series, by, means }
    }

    /// The series.
    pub fn series(&self) -> &'s HourSeries {
        self.series
    }

    /// How it forecasts.
    pub fn by(&self) -> ForecastBy {
        self.by
    }

    fn mean(&self, now: i64, hour: i64) -> Option<i64> {
        let (first, _) = self.series.hours();
        let at = if self.by == ForecastBy::Clock { 0 } else { usize::try_from(now - first).ok()? };
        self.means.get(at)?.get(slot(hour)).copied().flatten()
    }

    /// Expected value of an hour, as is known in the hour `now`. O(1).
    pub fn at(&self, now: i64, hour: i64) -> Option<i64> {
        if hour <= now || self.by == ForecastBy::Known {
            return self.series.at(hour);
        }
        match self.by {
            ForecastBy::Persistence => self.series.at(now),
            ForecastBy::Yesterday => {
                let days = (hour - now + DAY_H - 1).div_euclid(DAY_H);
                self.series.at(hour - days * DAY_H)
            }
            ForecastBy::Mean(_) | ForecastBy::Clock => self.mean(now, hour),
            ForecastBy::Level(_) => Some(self.mean(now, hour)? + self.series.at(now)? - self.mean(now, now)?),
            ForecastBy::Known => self.series.at(hour),
        }
    }

    /// The mean distance of what was expected `ahead` hours before from what came, over hours of the series, in whole parts; `None` without any. O(hours).
    pub fn error(&self, hours: (i64, i64), ahead: i64) -> Option<f64> {
        let of = |hour: i64| Some((self.at(hour - ahead, hour)? - self.series.at(hour)?).abs() as f64);
        let (mut sum, mut count) = (0.0, 0u64);
        for error in (hours.0..hours.1).filter_map(of) {
            sum += error;
            count += 1;
        }
        (count > 0).then(|| sum / count as f64)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A week of working days at 13:00: 250, at 15:00: 200; on the eighth day, a Tuesday, 300 at 13:00.
    fn week() -> HourSeries {
        // Day 5 of the epoch was a Tuesday.
        let value = |hour: i64| match (hour.div_euclid(24), hour.rem_euclid(24)) {
            (12, 13) => 300,
            (_, 13) => 250,
            (_, 15) => 200,
            _ => 100,
        };
        HourSeries::from_values(5 * 24, (5 * 24..13 * 24).map(|hour| Some(value(hour))).collect())
    }

    #[test]
    fn the_worked_example() {
        let series = week();
        let now = 12 * 24 + 13;
        let expected = |by: ForecastBy| HourForecast::new(&series, by, (5 * 24, 12 * 24)).at(now, now + 2).unwrap();
        // The current hour counts in the mean of its own hour of the day: (4 × 250 + 300) / 5 = 260.
        assert_eq!((expected(ForecastBy::Mean(7)), expected(ForecastBy::Level(7))), (200, 240));
        assert_eq!((expected(ForecastBy::Persistence), expected(ForecastBy::Clock)), (300, 200));
        assert_eq!((expected(ForecastBy::Yesterday), expected(ForecastBy::Known)), (200, 200));
        let clock = HourForecast::new(&series, ForecastBy::Clock, (5 * 24, 12 * 24));
        assert_eq!((clock.error((12 * 24 + 13, 12 * 24 + 14), 1), clock.error((0, 3), 1)), (Some(50.0), None));
    }

    #[test]
    fn days_are_sorted_by_their_weekday() {
        // 1970-01-03 was a Saturday, and the 5th a Monday.
        assert_eq!([0, 2, 3, 4].map(|day| slot(day * 24) >= 24), [false, true, true, false]);
    }

    proptest! {
        #[test]
        fn what_comes_after_the_current_hour_changes_nothing(values in prop::collection::vec(0i64..900, 100..300), more in prop::collection::vec(0i64..900, 48), cut in 60usize..100) {
            let first: Vec<Option<i64>> = values.iter().copied().map(Some).collect();
            let mut other = first.clone();
            for (slot, value) in other.iter_mut().skip(cut).zip(more) {
                *slot = Some(value);
            }
            let (one, two) = (HourSeries::from_values(7, first), HourSeries::from_values(7, other));
            let now = 7 + cut as i64 - 1;
            for by in ForecastBy::SCORED {
                let of = |series: &HourSeries| {
                    let forecast = HourForecast::new(series, by, (7, now + 1));
                    (0..40).map(|ahead| forecast.at(now, now + ahead)).collect::<Vec<_>>()
                };
                prop_assert_eq!(of(&one), of(&two), "{:?}", by);
            }
        }
    }
}
