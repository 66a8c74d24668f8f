//! Quantile trees: what the peak of a slot to come will be above or below the last one.
//!
//! A structure for each level of [`GROWN`]: one for all of them lost 2 % more on the slots to choose on. The horizon is a feature, so that all
//! horizons share their rows. The label is the difference to the last peak over the typical difference at that horizon: trees split on shapes, not
//! on sizes. Levels between the grown ones are on the line between them on the normal scale. Features of a slot to come, all from slots that have
//! ended:
//!
//! * the last peak, count and mean; what waits; what is free; whether the last slot was counted;
//! * differences of the last peak to those before it (1 to 72 slots, a day, a week);
//! * maximum, minimum, mean over the last 3 to 432 slots, spread over some of them, less the last peak;
//! * hour and weekday of the slot to come, its peak a day and a week before, and the mean of its last seven days, less the last peak;
//! * the horizon.
//!
//! Each slot gives rows for some horizons only, evenly spread, where all would be more than [`ForecastSettings::most_rows`]. Training is O(levels × trees
//! × rows × features). Worked example: last peak 300, typical difference 20 an hour ahead, a tree's 95 % at 1.5: 330.

use std::ops::Range;

use tracecast_analytics::time::{DAY_MS, HOUR_MS, Zone};

use super::naive::period_before;
use super::{Fan, ForecastSettings, Forecaster, Seen, Series};
use crate::demand::fan::{LEVELS, NORMAL, Quantiles};
use crate::error::{Error, Result};
use crate::matrix::Matrix;
use crate::model::boosted::{Boosted, FittedTrees, Target};
use crate::model::{Fit as _, Predict as _, Training};

/// Levels that trees are grown for.
pub const GROWN: [f64; 5] = [0.05, 0.25, 0.5, 0.75, 0.95];
/// Quantiles of the standard normal distribution there.
const GROWN_NORMAL: [f64; 5] = [-1.644_853_6, -0.674_489_8, 0.0, 0.674_489_8, 1.644_853_6];

/// Lags, slots.
const LAGS: [usize; 11] = [1, 2, 3, 4, 6, 9, 12, 18, 24, 36, 72];
/// Windows, slots.
const WINDOWS: [usize; 6] = [3, 6, 12, 36, 144, 432];
/// Windows whose spread is a feature.
const SPREADS: [usize; 3] = [6, 36, 144];
/// Features that do not depend on the horizon.
const BASE: usize = 7 + LAGS.len() + 2 + 3 * WINDOWS.len() + SPREADS.len();
/// Features that do.
const AHEAD: usize = 6;

/// Fewest slots to learn from.
const LEAST: usize = 300;

/// Quantile trees, fitted.
#[derive(Debug, Clone)]
pub struct BoostedDemand {
    /// Typical difference to the last peak, a horizon each.
    pub(crate) scales: Vec<f64>,
    /// Trees that predict the levels of [`GROWN`].
    pub(crate) trees: FittedTrees,
}

/// The clock of a series.
struct Clock<'a> {
    series: &'a Series,
    zone: Zone,
    day: usize,
}

impl<'a> Clock<'a> {
    fn of(series: &'a Series) -> Self {
        let zone = Zone::named(&series.zone).unwrap_or_else(|_| Zone::utc());
        let day = usize::try_from(DAY_MS / series.slot_ms.max(1)).unwrap_or(1).max(1);
        Self { series, zone, day }
    }

    /// Hour with its fraction, and weekday, of slot `at`.
    fn local(&self, at: usize) -> (f64, f64) {
        let ms = self.series.time_ms(at);
        let local = ms.saturating_add(self.zone.offset_ms(ms));
        let weekday = self.zone.local(ms).weekday;
        (local.rem_euclid(DAY_MS) as f64 / HOUR_MS as f64, f64::from(weekday))
    }

    /// Features of the moment before slot `now`.
    fn base(&self, now: usize, row: &mut [f32]) {
        let seen = self.series.before(now).slots;
        let Some(last) = seen.last() else { return };
        let peak = |back: usize| seen.len().checked_sub(back + 1).and_then(|at| seen.get(at)).map(|slot| slot.peak);
        let known = |value: Option<f64>| value.map_or(f32::NAN, |value| (value - last.peak) as f32);
        let mut cells = row.iter_mut();
        let mut put = |value: f32| {
            if let Some(cell) = cells.next() {
                *cell = value;
            }
        };
        put(last.peak as f32);
        put((last.last - last.peak) as f32);
        put((last.mean - last.peak) as f32);
        put(last.pending as f32);
        put((last.total - last.peak) as f32);
        put(f32::from(u8::from(last.counted)));
        // What has been asked for and not been served for an hour is asked for still.
        put(seen
            .get(seen.len().saturating_sub(6)..)
            .unwrap_or_default()
            .iter()
            .map(|slot| slot.pending)
            .fold(f64::INFINITY, f64::min) as f32);
        for lag in LAGS {
            put(known(peak(lag)));
        }
        put(known(peak(self.day)));
        put(known(peak(7 * self.day)));
        for window in WINDOWS {
            let slots = seen.get(seen.len().saturating_sub(window)..).unwrap_or_default();
            let (mut high, mut low, mut sum) = (f64::NEG_INFINITY, f64::INFINITY, 0.0);
            for slot in slots {
                high = high.max(slot.peak);
                low = low.min(slot.peak);
                sum += slot.peak;
            }
            let mean = sum / slots.len().max(1) as f64;
            put((high - last.peak) as f32);
            put((low - last.peak) as f32);
            put((mean - last.peak) as f32);
            if SPREADS.contains(&window) {
                let spread =
                    slots.iter().map(|slot| (slot.peak - mean).powi(2)).sum::<f64>() / slots.len().max(1) as f64;
                put(spread.sqrt() as f32);
            }
        }
    }

    /// Features of slot `now + ahead − 1` as of the moment before slot `now`.
    fn ahead(&self, now: usize, ahead: usize, row: &mut [f32]) {
        let seen = self.series.before(now).slots;
        let Some(last) = seen.last() else { return };
        let target = now + ahead - 1;
        let (hour, weekday) = self.local(target);
        let before = |period: usize| period_before(target, now, period).and_then(|at| seen.get(at));
        let less = |value: f64| (value - last.peak) as f32;
        let mut days = (0.0, 0u32);
        let mut at = period_before(target, now, self.day);
        while let Some(slot) = at.and_then(|at| seen.get(at)).filter(|_| days.1 < 7) {
            days = (days.0 + slot.peak, days.1 + 1);
            at = at.and_then(|at| at.checked_sub(self.day));
        }
        let values = [
            ahead as f32,
            hour as f32,
            weekday as f32,
            before(self.day).map_or(f32::NAN, |slot| less(slot.peak)),
            before(7 * self.day).map_or(f32::NAN, |slot| less(slot.peak)),
            if days.1 > 0 { less(days.0 / f64::from(days.1)) } else { f32::NAN },
        ];
        for (cell, value) in row.iter_mut().zip(values) {
            *cell = value;
        }
    }
}

impl BoostedDemand {
    /// Grows trees on what is known.
    ///
    /// # Errors
    /// If there are too few slots, or the learner fails.
    pub fn fit(seen: Seen<'_>, settings: &ForecastSettings) -> Result<Self> {
        let horizon = settings.horizon.max(1);
        let count = seen.slots.len();
        if count < LEAST + horizon {
            return Err(Error::TooFew(format!(
                "{count} slots are too few to grow trees that look {horizon} slots ahead; {} are the least",
                LEAST + horizon
            )));
        }
        let slots = seen.slots;
        let peak = |at: usize| slots.get(at).filter(|slot| slot.counted).map(|slot| slot.peak);
        let typical = |ahead: usize| {
            let apart = (1..count).filter_map(|now| Some((peak(now + ahead - 1)? - peak(now - 1)?).abs()));
            let (sum, many) = apart.fold((0.0, 0u32), |(sum, many), gap| (sum + gap, many + 1));
            (sum / f64::from(many.max(1))).max(1e-3)
        };
        let scales: Vec<f64> = (1..=horizon).map(typical).collect();
        // As many horizons of each slot as there is room for, another set each time.
        let first = 6.min(count / 10);
        let origins = count - first;
        let each = (settings.most_rows / origins.max(1)).clamp(1, horizon);
        let clock = Clock::of(seen.series);
        let mut rows = Matrix::new(BASE + AHEAD);
        let mut labels = Vec::new();
        let mut base = vec![f32::NAN; BASE];
        for now in first..count {
            base.fill(f32::NAN);
            clock.base(now, &mut base);
            let Some(last) = peak(now - 1) else { continue };
            for turn in 0..each {
                // Strides of an odd number visit all horizons in turn.
                let ahead = 1 + (now * 7 + turn * horizon / each) % horizon;
                let Some((target, scale)) = peak(now + ahead - 1).zip(scales.get(ahead - 1)) else { continue };
                let row = rows.push();
                let (front, rest) = row.split_at_mut(BASE);
                front.copy_from_slice(&base);
                clock.ahead(now, ahead, rest);
                labels.push(((target - last) / scale) as f32);
            }
        }
        let targets = GROWN.map(|level| vec![Target::Quantile(level)]).to_vec();
        let boosted = Boosted { targets, trees: settings.trees };
        let trees = boosted.fit(Training { rows: &rows, labels: &labels, censored: &[] })?;
        Ok(Self { scales, trees })
    }

    /// Quantiles of rows of features, before they are scaled back.
    fn say(&self, rows: &Matrix) -> Result<Vec<Quantiles>> {
        let said = self.trees.predict(rows)?;
        let one = |levels: &[f32; GROWN.len()]| {
            let mut values = levels.map(f64::from);
            values.sort_unstable_by(f64::total_cmp);
            NORMAL.map(|z| on_line(&values, z))
        };
        Ok(said.as_chunks().0.iter().map(one).collect())
    }

    fn fans(&self, series: &Series, origins: Range<usize>) -> Result<Vec<Fan>> {
        let horizon = self.scales.len();
        let clock = Clock::of(series);
        let mut rows = Matrix::new(BASE + AHEAD);
        let mut base = vec![f32::NAN; BASE];
        for now in origins.clone() {
            base.fill(f32::NAN);
            clock.base(now, &mut base);
            for ahead in 1..=horizon {
                let (front, rest) = rows.push().split_at_mut(BASE);
                front.copy_from_slice(&base);
                clock.ahead(now, ahead, rest);
            }
        }
        let said = self.say(&rows)?;
        let fan = |(chunk, now): (&[Quantiles], usize)| {
            let last = series.before(now).slots.last().map_or(f64::NAN, |slot| slot.peak);
            let quantiles: Vec<Quantiles> =
                chunk.iter().zip(&self.scales).map(|(set, scale)| set.map(|value| last + scale * value)).collect();
            let point =
                quantiles.iter().map(|set| set.get(super::super::fan::MEDIAN).copied().unwrap_or(last)).collect();
            Fan { point, quantiles }
        };
        Ok(said.chunks(horizon.max(1)).zip(origins).map(fan).collect())
    }
}

/// The value at `z` on the line through those at [`GROWN_NORMAL`], beyond them on that of the last two.
fn on_line(knots: &[f64; GROWN.len()], z: f64) -> f64 {
    let at = GROWN_NORMAL.partition_point(|known| *known < z - 1e-9).clamp(1, GROWN.len() - 1);
    let knot = |at: usize| GROWN_NORMAL.get(at).copied().zip(knots.get(at).copied()).unwrap_or((0.0, f64::NAN));
    let ((low, a), (high, b)) = (knot(at - 1), knot(at));
    a + (b - a) * (z - low) / (high - low)
}

impl Forecaster for BoostedDemand {
    fn forecast(&self, seen: Seen<'_>) -> Result<Fan> {
        let now = seen.slots.len();
        Ok(self.fans(seen.series, now..now + 1)?.pop().unwrap_or_default())
    }

    fn forecasts(&self, series: &Series, origins: Range<usize>) -> Result<Vec<Fan>> {
        // In parts, so that memory stays small; each comes back in its place.
        let mut fans = Vec::with_capacity(origins.len());
        let mut from = origins.start;
        while from < origins.end {
            let to = (from + 512).min(origins.end);
            fans.extend(self.fans(series, from..to)?);
            from = to;
        }
        Ok(fans)
    }
}

/// Levels, so that the interpolation has its constants checked.
const _: () = assert!(LEVELS.len() == NORMAL.len() && GROWN.len() == GROWN_NORMAL.len());
