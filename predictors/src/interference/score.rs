//! How good forecasts of sharing are: errors, quantiles, coverage, and how well slow pairs and pairs that do not fit are told.
//!
//! With y a speed and p the forecast, MAE is the mean of |y − p| and RMSE the root of the mean of (y − p)². The **AUC** is the share of couples of a slow pair
//! and one that is not in which the slow one has the higher chance (ties count half); there is none where all pairs are of one kind. The **Brier** score of
//! chances is the mean of (chance − what came)².
//!
//! O(n log n). Worked example: chances 0.9 and 0.4 of two slow pairs beside 0.5 of another: one of two couples is in order, AUC 0.5.

use serde::Serialize;

use crate::score::{Pinball, pinball};

/// A normal distribution reaches so far, in standard deviations, with its 90 % interval.
pub(super) const NORMAL90: f64 = 1.644_853_6;

/// What was forecast of one speed, and what came.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct SpeedAndTruth {
    pub(super) truth: f64,
    pub(super) mean: f64,
    /// 5, 10, 50, 90 and 95 %.
    pub(super) quantiles: [f64; 5],
}

/// How good forecasts of speeds are.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
pub struct SpeedScore {
    /// Speeds scored.
    pub speeds: usize,
    /// Mean absolute error of the forecast, as a share of the speed alone.
    pub mae: f64,
    /// Root of the mean squared error.
    pub rmse: f64,
    /// Pinball loss.
    pub pinball: Pinball,
    /// Share of speeds within the 90 % interval (5 to 95 %).
    pub coverage90: f64,
    /// Mean width of the 90 % interval.
    pub width90: f64,
}

/// The score of forecasts; `None` of none.
pub(super) fn speeds(forecasts: &[SpeedAndTruth]) -> Option<SpeedScore> {
    if forecasts.is_empty() {
        return None;
    }
    let count = forecasts.len() as f64;
    let mean = |of: &dyn Fn(&SpeedAndTruth) -> f64| forecasts.iter().map(of).sum::<f64>() / count;
    let at = |one: &SpeedAndTruth, place: usize| one.quantiles.get(place).copied().unwrap_or(one.mean);
    let within = |one: &SpeedAndTruth| at(one, 0) - 1e-9 <= one.truth && one.truth <= at(one, 4) + 1e-9;
    Some(SpeedScore {
        speeds: forecasts.len(),
        mae: mean(&|one| (one.truth - one.mean).abs()),
        rmse: mean(&|one| (one.truth - one.mean).powi(2)).sqrt(),
        pinball: Pinball {
            p10: mean(&|one| pinball(one.truth, at(one, 1), 0.1)),
            p50: mean(&|one| pinball(one.truth, at(one, 2), 0.5)),
            p90: mean(&|one| pinball(one.truth, at(one, 3), 0.9)),
        },
        coverage90: mean(&|one| f64::from(u8::from(within(one)))),
        width90: mean(&|one| at(one, 4) - at(one, 0)),
    })
}

/// Area under the curve of chances and what came; `None` where all are of one kind.
pub(super) fn auc(told: &[(f64, bool)]) -> Option<f64> {
    let mut sorted = told.to_vec();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut below, mut sum) = (0usize, 0.0);
    for ties in sorted.chunk_by(|a, b| a.0.total_cmp(&b.0).is_eq()) {
        let came = ties.iter().filter(|one| one.1).count();
        let not = ties.len() - came;
        sum += came as f64 * (below as f64 + not as f64 / 2.0);
        below += not;
    }
    let came = told.len() - below;
    (came > 0 && below > 0).then(|| sum / (came as f64 * below as f64))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_as_worked_out_by_hand() {
        assert_eq!(auc(&[(0.9, true), (0.4, true), (0.5, false)]), Some(0.5));
        assert_eq!(auc(&[(0.5, true), (0.5, false)]), Some(0.5));
        assert_eq!(auc(&[(0.5, true)]), None);
        let one = |truth: f64| SpeedAndTruth { truth, mean: 0.5, quantiles: [0.3, 0.4, 0.5, 0.6, 0.7] };
        let found = speeds(&[one(0.5), one(0.8)]).unwrap();
        assert!((found.mae - 0.15).abs() < 1e-12 && (found.rmse - 0.045f64.sqrt()).abs() < 1e-12);
        assert!((found.coverage90 - 0.5).abs() < 1e-12 && (found.width90 - 0.4).abs() < 1e-12);
    }
}
