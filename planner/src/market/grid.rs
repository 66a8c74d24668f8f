//! What a grid emits in each hour of the week.
//!
//! The hours of a grid's file are hardly those of the record, so they are put together by the hour of the week in UTC, of which there are 168:
//!
//! ```text
//! g(h)    mean of the file's hours that are hour h of their week; where it has none, of those at that hour of the day; where it has none of these, of all
//! g       mean of all its hours
//! kg of an hour h = kW × g × s(h) / 1000,   shape s(h) = g(h) / g
//! ```
//!
//! An hour of the record that is of no known time counts at the mean: s = 1. Seasons are in neither.
//!
//! **Known when.** With 168 means in place of one, hours that were clean by chance seem worth going to. So what is chosen before the split knows the earlier half of the file, in whole weeks, and what it emits after the split is told with the
//! later half, as with traces of spot. A file of fewer than two weeks, or of which one half has no hour, is taken whole for both.
//!
//! O(hours). Worked example: a grid of 100 g at 0:00 and 500 g at 1:00 of a Monday has a mean of 300 and shapes of 1/3 and 5/3. An instance of 2 kW emits 0.2 and 1 kg in these hours, at 2:00, of which the
//! file has no hour, 0.6 kg, and at 0:00 of a Tuesday 0.2 kg.

use std::sync::Arc;

use tracecast_analytics::audit::factors::Hourly;
use tracecast_analytics::time::{HOUR_MS, WEEK_HOURS, WEEK_MS, Zone};

use crate::plan::week::WeekMeans;

/// Into how many parts a mean is cut, so that sums of equal values are one shape.
const PARTS: f64 = 1e12;

/// How the hours of the week stand to the mean of a grid; 1 at all times where nothing is said.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WeekShape(Option<Arc<[f64]>>);

impl WeekShape {
    /// From a factor for each hour of the week, midnight of Monday first.
    pub fn new(factors: &[f64]) -> Self {
        let rounded: Vec<f64> = factors.iter().map(|factor| (factor * PARTS).round() / PARTS).collect();
        Self(rounded.iter().any(|factor| factor.to_bits() != 1f64.to_bits()).then(|| rounded.into()))
    }

    /// The factor of an hour of the week; 1 for one of an unknown time.
    pub fn at(&self, of_week: Option<usize>) -> f64 {
        let result = self.0.as_ref().zip(of_week).and_then(|(factors, hour)| factors.get(hour));
        result.copied().unwrap_or(1.0)
    }

    /// The least and the greatest factor.
    pub fn range(&self) -> (f64, f64) {
        let factors = self.0.as_deref().unwrap_or(&[1.0]);
        factors.iter().fold((f64::INFINITY, 0.0), |(least, most), factor| (least.min(*factor), most.max(*factor)))
    }
}

/// What some hours of a grid say.
#[derive(Debug, Clone, PartialEq)]
pub struct GridWeek {
    /// Mean carbon intensity, grams a kWh.
    pub g_per_kwh: f64,
    /// How the hours of the week stand to it.
    pub shape: WeekShape,
    /// Hours that this is the mean of.
    pub hours: u64,
    /// Hours of the week of which there is none.
    pub missing: u64,
}

impl GridWeek {
    /// A grid of one carbon intensity at all times.
    pub fn flat(g_per_kwh: f64) -> Self {
        Self { g_per_kwh, shape: WeekShape::default(), hours: WEEK_HOURS as u64, missing: 0 }
    }

    /// Averages the hours from a moment to another; `None` if there are none.
    pub fn new(hourly: &Hourly, (from, to): (i64, i64)) -> Option<Self> {
        let utc = Zone::utc();
        let hours = (from..to).step_by(usize::try_from(HOUR_MS).ok()?);
        let mut means = WeekMeans::default();
        for (hour, g) in hours.filter_map(|hour| Some((utc.local(hour).hour_of_week(), hourly.at(hour)?))) {
            means.add(hour, g);
        }
        let g_per_kwh = means.of_all()?;
        // No hour is below 0, so a mean of 0 is one of zeros.
        let factor = |hour: usize| if g_per_kwh > 0.0 { means.at(hour).unwrap_or(g_per_kwh) / g_per_kwh } else { 1.0 };
        let factors: Vec<f64> = (0..WEEK_HOURS).map(factor).collect();
        let missing = means.missing() as u64;
        Some(Self { g_per_kwh, shape: WeekShape::new(&factors), hours: means.count() as u64, missing })
    }
}

/// What is known of a grid: to choose with, to score with, and for the mix to come.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownWeek {
    /// The earlier half of its hours.
    pub before: GridWeek,
    /// The later half.
    pub after: GridWeek,
    /// All of them.
    pub all: GridWeek,
    /// When the earlier half begins and ends, milliseconds since the Unix epoch; nothing where the file is taken whole.
    pub known: Option<(i64, i64)>,
}

impl KnownWeek {
    /// Uses one week for the earlier half, the later half and all hours.
    pub fn new(all: GridWeek) -> Self {
        Self { before: all.clone(), after: all.clone(), all, known: None }
    }

    /// From the hours of a grid; nothing if there are none.
    pub fn learn(hourly: &Hourly) -> Option<Self> {
        let (from, to) = hourly.span()?;
        let all = GridWeek::new(hourly, (from, to))?;
        let middle = from + (to - from) / WEEK_MS / 2 * WEEK_MS;
        let halves = GridWeek::new(hourly, (from, middle)).zip(GridWeek::new(hourly, (middle, to)));
        let whole = Self::new(all);
        Some(match halves {
            Some((before, after)) => Self { before, after, known: Some((from, middle)), ..whole },
            None => whole,
        })
    }
}

#[cfg(test)]
#[path = "grid_tests.rs"]
mod tests;
