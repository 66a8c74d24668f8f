//! Quantiles that hold: what a forecaster said is moved by how far the truth fell from it, per horizon and level, as time goes on.
//!
//! For each horizon and level the last scores y − q of slots that have ended are kept (split conformal on signed residuals; Romano et al. 2019 for
//! quantiles), and the forecast's quantile is moved by their quantile of that level. The level itself is moved with every slot that ends (adaptive conformal
//! inference, Gibbs and Candès 2021): a + γ (level − \[y ≤ q\]), so that coverage returns where demand drifts. A forecast made at t for h slots
//! ahead teaches only what is said from t + h on: its truth is not known sooner.
//!
//! O(log w + w) a score of w kept. Worked example: scores −2, 0, 1, 5 of the median: the one at ⌈(4 + 1) × ½⌉ = 3 is 1, so the next median is
//! 1 more than the forecaster said.

use super::fan::{Fan, LEVELS};
use crate::recent::RecentScores;

/// Scores before which nothing is moved.
const LEAST: usize = 30;

/// Scores of one level of one horizon.
#[derive(Debug, Clone, PartialEq)]
struct Cell {
    level: f64,
    scores: RecentScores,
}

/// Scores of the recent past, and the levels they have led to.
#[derive(Debug, Clone, PartialEq)]
pub struct DemandCalibrator {
    adapt: f64,
    window: usize,
    /// Horizon by horizon, level by level.
    cells: Vec<Cell>,
}

impl DemandCalibrator {
    /// Calibrator without any scores. `adapt` is γ: how far a slot moves a level. `window` scores
    /// are kept.
    pub fn new(horizon: usize, adapt: f64, window: usize) -> Self {
        let cell = |level: &f64| Cell { level: *level, scores: RecentScores::default() };
        let cells = (0..horizon).flat_map(|_| LEVELS.iter().map(cell)).collect();
        Self { adapt, window: window.max(LEAST), cells }
    }

    /// The fan, moved; the point is its median if `point_is_median`.
    #[must_use]
    pub fn moved(&self, raw: &Fan, point_is_median: bool) -> Fan {
        let mut fan = raw.clone();
        let cells = self.cells.chunks(LEVELS.len());
        for ((quantiles, point), cells) in fan.quantiles.iter_mut().zip(&mut fan.point).zip(cells) {
            for (value, cell) in quantiles.iter_mut().zip(cells) {
                *value += cell.shift();
            }
            quantiles.sort_unstable_by(f64::total_cmp);
            if point_is_median {
                *point = quantiles.get(super::fan::MEDIAN).copied().unwrap_or(*point);
            }
        }
        fan
    }

    /// Returns the calibrator as little-endian bytes: γ and the window, then for each cell its
    /// level, the number of its scores, and the scores.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(self.adapt.to_le_bytes());
        bytes.extend((self.window as u64).to_le_bytes());
        for cell in &self.cells {
            bytes.extend(cell.level.to_le_bytes());
            bytes.extend((cell.scores.len() as u64).to_le_bytes());
            bytes.extend(cell.scores.in_time().flat_map(f32::to_le_bytes));
        }
        bytes
    }

    /// Restores a calibrator from the bytes of [`DemandCalibrator::to_bytes`]; `None` if they are
    /// damaged or for another number of horizons.
    pub fn from_bytes(bytes: &[u8], horizon: usize) -> Option<Self> {
        fn eight(rest: &mut &[u8]) -> Option<[u8; 8]> {
            let (head, after) = rest.split_first_chunk::<8>()?;
            *rest = after;
            Some(*head)
        }
        let mut rest = bytes;
        let adapt = f64::from_le_bytes(eight(&mut rest)?);
        let window = usize::try_from(u64::from_le_bytes(eight(&mut rest)?)).ok()?;
        let mut calibrator = Self::new(horizon, adapt, window);
        for cell in &mut calibrator.cells {
            cell.level = f64::from_le_bytes(eight(&mut rest)?);
            let count = usize::try_from(u64::from_le_bytes(eight(&mut rest)?)).ok()?;
            let (scores, after) = rest.split_at_checked(count.checked_mul(4)?)?;
            rest = after;
            let number = |four: &[u8]| four.try_into().map_or(f32::NAN, f32::from_le_bytes);
            cell.scores = scores.chunks_exact(4).map(number).collect();
        }
        rest.is_empty().then_some(calibrator)
    }

    /// Learns what became of a slot: `ahead` (from 0) slots after the forecast `raw`, which was told as `moved`.
    pub fn learn(&mut self, ahead: usize, raw: &Fan, moved: &Fan, truth: f64) {
        let Some((raw, moved)) = raw.quantiles.get(ahead).zip(moved.quantiles.get(ahead)) else { return };
        let cells = self.cells.iter_mut().skip(ahead * LEVELS.len());
        for ((cell, level), (raw, moved)) in cells.zip(LEVELS).zip(raw.iter().zip(moved)) {
            let score = (truth - raw) as f32;
            if !score.is_finite() {
                continue;
            }
            if cell.scores.len() >= LEAST {
                let under = f64::from(u8::from(truth <= *moved));
                cell.level = (cell.level + self.adapt * (level - under)).clamp(0.001, 0.999);
            }
            cell.scores.learn(score, self.window);
        }
    }
}

impl Cell {
    fn shift(&self) -> f64 {
        let scores = Some(&self.scores).filter(|scores| scores.len() >= LEAST);
        scores.and_then(|scores| scores.nearest_quantile(self.level)).map_or(0.0, f64::from)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_hold_after_a_forecaster_that_is_wrong_and_a_change_is_followed() {
        let mut calibrator = DemandCalibrator::new(1, 0.02, 200);
        // Truths cycle through 0..99; the forecaster always says 7.
        let raw = Fan::of_points(vec![7.0]);
        let mut under = 0;
        for at in 0..2000u32 {
            // From 1,000 on everything is 50 more.
            let truth = f64::from(at * 37 % 100) + if at < 1000 { 0.0 } else { 50.0 };
            let moved = calibrator.moved(&raw, true);
            if at >= 1300 {
                under += u32::from(truth <= moved.quantiles[0][5]);
            }
            calibrator.learn(0, &raw, &moved, truth);
        }
        let fan = calibrator.moved(&raw, true);
        // The median of 50..149 is 100, the 90 % quantile 140.
        assert!((fan.point[0] - 100.0).abs() <= 3.0 && (fan.quantiles[0][5] - 140.0).abs() <= 4.0, "{fan:?}");
        assert!((f64::from(under) / 700.0 - 0.9).abs() < 0.03, "{under} of 700");
    }

    #[test]
    fn the_worked_example_needs_thirty_scores_and_old_ones_leave() {
        let mut calibrator = DemandCalibrator::new(2, 0.0, 30);
        let raw = Fan::of_points(vec![10.0, 10.0]);
        for _ in 0..29 {
            calibrator.learn(1, &raw, &raw, 13.0);
        }
        assert_eq!(calibrator.moved(&raw, true).point, [10.0, 10.0]);
        calibrator.learn(1, &raw, &raw, 13.0);
        assert_eq!(calibrator.moved(&raw, true).point, [10.0, 13.0]);
        // Thirty others push the first out.
        for _ in 0..30 {
            calibrator.learn(1, &raw, &raw, 4.0);
        }
        assert_eq!(calibrator.moved(&raw, false).quantiles[1], [4.0; 8]);
    }
}
