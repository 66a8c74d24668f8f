//! Forecast of the next k slots: a point and quantiles for each.
//!
//! Horizon 1 is the slot that begins now, the first of which nothing is known. Worked example: at ten-minute slots, horizon 6 of a forecast
//! made at 12:00 is the slot from 12:50 to 13:00; the last known slot, 11:50 to 12:00, is an hour before it.

use tracecast_analytics::facts::demand::Series;
use tracecast_analytics::time::DAY_MS;

/// Levels of the quantiles.
pub const LEVELS: [f64; 8] = [0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99];
/// Index of the median in [`LEVELS`].
pub const MEDIAN: usize = 3;
/// Ends of the 80 % interval in [`LEVELS`].
pub const ENDS80: (usize, usize) = (1, 5);
/// Ends of the 90 % interval in [`LEVELS`].
pub const ENDS90: (usize, usize) = (0, 6);
/// Quantiles of the standard normal distribution at [`LEVELS`].
pub const NORMAL: [f64; 8] =
    [-1.644_853_6, -1.281_551_6, -0.674_489_8, 0.0, 0.674_489_8, 1.281_551_6, 1.644_853_6, 2.326_347_9];

/// Quantiles at [`LEVELS`].
pub type Quantiles = [f64; LEVELS.len()];

/// Forecast of the next slots.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Fan {
    /// The one number, a horizon each.
    pub point: Vec<f64>,
    /// Quantiles at [`LEVELS`], a horizon each, ascending.
    pub quantiles: Vec<Quantiles>,
}

impl Fan {
    /// Forecast whose quantiles all equal the point.
    pub fn of_points(point: Vec<f64>) -> Self {
        let quantiles = point.iter().map(|value| [*value; LEVELS.len()]).collect();
        Self { point, quantiles }
    }

    /// Slots it says something of.
    pub fn horizons(&self) -> usize {
        self.point.len()
    }

    /// The quantile at a level between the lowest and the highest of [`LEVELS`] (beyond them, theirs), of a horizon from 1.
    pub fn quantile(&self, horizon: usize, level: f64) -> Option<f64> {
        let quantiles = self.quantiles.get(horizon.checked_sub(1)?)?;
        let at = LEVELS.partition_point(|known| *known < level);
        let Some((high, b)) = LEVELS.get(at).zip(quantiles.get(at)) else { return quantiles.last().copied() };
        let Some(below) = at.checked_sub(1) else { return Some(*b) };
        let (low, a) = LEVELS.get(below).zip(quantiles.get(below))?;
        Some(a + (b - a) * (level - low) / (high - low))
    }

    /// Puts quantiles in order and all where they can be: none below 0 or above the most, whole where counts are.
    #[must_use]
    pub fn within(mut self, bounds: Bounds) -> Self {
        let bound = |value: f64| {
            let value = if bounds.whole { value.round() } else { value };
            if value.is_finite() { value.clamp(0.0, bounds.most.max(0.0)) } else { value }
        };
        for value in &mut self.point {
            *value = bound(*value);
        }
        for quantiles in &mut self.quantiles {
            quantiles.sort_unstable_by(f64::total_cmp);
            for value in quantiles {
                *value = bound(*value);
            }
        }
        self
    }
}

/// Known bounds of demand.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// All there is, or more if more was asked for within the last week.
    pub most: f64,
    /// Whether all peaks of the last week are whole numbers.
    pub whole: bool,
}

impl Bounds {
    /// Bounds known before slot `at`.
    pub fn before(series: &Series, at: usize) -> Self {
        let seen = series.before(at).slots;
        let week = (7 * DAY_MS / series.slot_ms.max(1)) as usize;
        let recent = seen.get(seen.len().saturating_sub(week)..).unwrap_or_default();
        let request = recent.iter().map(|slot| slot.peak).fold(0.0, f64::max);
        let whole = recent.iter().all(|slot| slot.peak.fract() == 0.0);
        Self { most: request.max(seen.last().map_or(0.0, |slot| slot.total)), whole }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    #[test]
    fn levels_in_between_are_on_the_line_and_impossible_values_are_cut() {
        let quantiles = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 9.0];
        let fan = Fan { point: vec![4.0], quantiles: vec![quantiles] };
        // Level 0.97 is half of the way from 0.95 (7) to 0.99 (9).
        assert!((fan.quantile(1, 0.97).unwrap() - 8.0).abs() < 1e-12);
        assert_eq!((fan.quantile(1, 0.01), fan.quantile(1, 1.0), fan.quantile(2, 0.5)), (Some(1.0), Some(9.0), None));
        let bounds = Bounds { most: 6.5, whole: false };
        assert_eq!(fan.clone().within(bounds).quantiles[0], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 6.5, 6.5]);
        let near = Fan { point: vec![-0.6], quantiles: vec![quantiles.map(|value| value - 0.3)] };
        // Whole: 0.7 is 1, …, 8.7 is 9, cut at 8; nothing is below none.
        let near = near.within(Bounds { most: 8.0, whole: true });
        assert_eq!((near.quantiles[0], near.point[0]), ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], 0.0));
    }
}
