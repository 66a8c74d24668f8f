//! Scores of demand forecasts, per horizon.
//!
//! With p forecast and a what came, over n slots: sMAPE = 200 / n Σ |p − a| / (|p| + |a|) (0 where both are 0), RMSE, MAE, the pinball loss of
//! each level, the share of slots within the 80 and 90 % intervals, and the mean width of these. Lengths are in nodes or GPUs. Worked example: 90
//! forecast where 110 came: sMAPE 200 × 20 / 200 = 20.

use serde::Serialize;

use super::fan::{ENDS80, ENDS90, LEVELS, Quantiles};
use crate::score::pinball;

/// Forecast of one slot, and the observed count.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ForecastAndTruth {
    /// The one number.
    pub point: f64,
    /// Quantiles at [`LEVELS`].
    pub quantiles: Quantiles,
    /// Observed count.
    pub truth: f64,
}

/// A score.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct DemandScore {
    /// Slots scored.
    pub slots: usize,
    /// Symmetric mean absolute percentage error, 0 to 200.
    pub smape: f64,
    /// Root of the mean squared error, nodes or GPUs.
    pub rmse: f64,
    /// Mean absolute error, nodes or GPUs.
    pub mae: f64,
    /// Mean pinball loss over all levels, nodes or GPUs.
    pub pinball_mean: f64,
    /// Pinball loss of each level, in their order.
    pub pinball: Vec<f64>,
    /// Share of slots within the 80 % interval.
    pub coverage80: f64,
    /// Share of slots within the 90 % interval.
    pub coverage90: f64,
    /// Mean width of the 80 % interval, nodes or GPUs.
    pub width80: f64,
    /// Mean width of the 90 % interval, nodes or GPUs.
    pub width90: f64,
}

/// Sums, so that scores of parts add up.
#[derive(Debug, Clone, Default)]
pub struct Sums {
    slots: usize,
    smape: f64,
    square: f64,
    absolute: f64,
    pinball: [f64; LEVELS.len()],
    within80: f64,
    within90: f64,
    width80: f64,
    width90: f64,
}

impl Sums {
    /// Adds a slot.
    pub fn add(&mut self, told: &ForecastAndTruth) {
        let ForecastAndTruth { point, quantiles, truth } = told;
        let apart = (point - truth).abs();
        let both = point.abs() + truth.abs();
        self.slots += 1;
        self.smape += if both > 0.0 { 200.0 * apart / both } else { 0.0 };
        self.square += apart * apart;
        self.absolute += apart;
        for ((sum, level), value) in self.pinball.iter_mut().zip(LEVELS).zip(quantiles) {
            *sum += pinball(*truth, *value, level);
        }
        let at = |ix: usize| quantiles.get(ix).copied().unwrap_or(f64::NAN);
        let within = |(low, high): (usize, usize)| f64::from(u8::from(at(low) <= *truth && *truth <= at(high)));
        self.within80 += within(ENDS80);
        self.within90 += within(ENDS90);
        self.width80 += at(ENDS80.1) - at(ENDS80.0);
        self.width90 += at(ENDS90.1) - at(ENDS90.0);
    }

    /// Adds others.
    pub fn merge(&mut self, other: &Self) {
        self.slots += other.slots;
        self.smape += other.smape;
        self.square += other.square;
        self.absolute += other.absolute;
        self.within80 += other.within80;
        self.within90 += other.within90;
        self.width80 += other.width80;
        self.width90 += other.width90;
        for (sum, more) in self.pinball.iter_mut().zip(other.pinball) {
            *sum += more;
        }
    }

    /// The score; `None` of no slots.
    pub fn score(&self) -> Option<DemandScore> {
        if self.slots == 0 {
            return None;
        }
        let count = self.slots as f64;
        let pinball: Vec<f64> = self.pinball.iter().map(|sum| sum / count).collect();
        Some(DemandScore {
            slots: self.slots,
            smape: self.smape / count,
            rmse: (self.square / count).sqrt(),
            mae: self.absolute / count,
            pinball_mean: pinball.iter().sum::<f64>() / pinball.len() as f64,
            pinball,
            coverage80: self.within80 / count,
            coverage90: self.within90 / count,
            width80: self.width80 / count,
            width90: self.width90 / count,
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn two_slots_by_hand() {
        let quantiles = [80.0, 85.0, 88.0, 90.0, 95.0, 100.0, 112.0, 120.0];
        let mut sums = Sums::default();
        sums.add(&ForecastAndTruth { point: 90.0, quantiles, truth: 110.0 });
        sums.add(&ForecastAndTruth { point: 0.0, quantiles: [0.0; 8], truth: 0.0 });
        let score = sums.score().unwrap();
        // sMAPE (20 + 0) / 2, RMSE √(400 / 2), MAE 10; within 85..100 is one of two, within 80..112 both.
        assert!((score.smape - 10.0).abs() < 1e-12 && (score.rmse - 200f64.sqrt()).abs() < 1e-12);
        assert!((score.mae - 10.0).abs() < 1e-12);
        assert!((score.coverage80 - 0.5).abs() < 1e-12 && (score.coverage90 - 1.0).abs() < 1e-12);
        assert!((score.width80 - 7.5).abs() < 1e-12 && (score.width90 - 16.0).abs() < 1e-12);
        // Median: ½ × 20 / 2; 99 %: 0.01 × 10 / 2.
        let at = |ix: usize| score.pinball.get(ix).copied().unwrap();
        assert!((at(3) - 5.0).abs() < 1e-12 && (at(7) - 0.05).abs() < 1e-12);
    }
}
