//! Scores of forecasts of sharing: errors, quantiles, coverage, and how well slow pairs and pairs
//! that do not fit are told apart from others.
//!
//! With y a speed and p the forecast, MAE is the mean of |y − p| and RMSE the root of the mean of (y − p)². The **AUC** is the share of couples of a slow pair
//! and one that is not in which the slow one has the higher chance (ties count half); there is none where all pairs are of one kind. The **Brier** score of
//! chances is the mean of (chance − what came)². **Reliability**: chances in bins, and what share of each bin came, with Wilson's 90 % interval.
//!
//! O(n log n). Worked example: chances 0.9 and 0.4 of two slow pairs beside 0.5 of another: one of two couples is in order, AUC 0.5.

use serde::Serialize;
use tracecast_analytics::stats::interval::wilson;

use crate::score::{Pinball, pinball};

/// A normal distribution reaches so far, in standard deviations, with its 90 % interval.
pub(super) const NORMAL90: f64 = 1.644_853_6;

/// Forecast of one speed, and the observed one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct SpeedAndTruth {
    pub(super) truth: f64,
    pub(super) mean: f64,
    /// 5, 10, 50, 90 and 95 %; none where nothing was left out to find them by.
    pub(super) quantiles: Option<[f64; 5]>,
}

/// Scores of forecasts of speeds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
pub struct SpeedScore {
    /// Speeds scored.
    pub speeds: usize,
    /// Mean absolute error of the forecast, as a share of the speed alone.
    pub mae: f64,
    /// Root of the mean squared error.
    pub rmse: f64,
    /// Pinball loss; none where a forecast has no quantiles.
    pub pinball: Option<Pinball>,
    /// Share of speeds within the 90 % interval (5 to 95 %); none where a forecast has no quantiles.
    pub coverage90: Option<f64>,
    /// Mean width of the 90 % interval; none where a forecast has no quantiles.
    pub width90: Option<f64>,
}

/// The score of forecasts; `None` of none.
pub(super) fn speeds(forecasts: &[SpeedAndTruth]) -> Option<SpeedScore> {
    if forecasts.is_empty() {
        return None;
    }
    let count = forecasts.len() as f64;
    let mean = |of: &dyn Fn(&SpeedAndTruth) -> f64| forecasts.iter().map(of).sum::<f64>() / count;
    let quantiles: Option<Vec<(f64, [f64; 5])>> =
        forecasts.iter().map(|one| one.quantiles.map(|quantiles| (one.truth, quantiles))).collect();
    let of_quantiles = |of: &dyn Fn(f64, [f64; 5]) -> f64| {
        quantiles.as_ref().map(|all| all.iter().map(|(truth, quantiles)| of(*truth, *quantiles)).sum::<f64>() / count)
    };
    let loss = |level: f64| {
        of_quantiles(&move |truth, [_, p10, p50, p90, _]| {
            let told = if level < 0.5 {
                p10
            } else if level > 0.5 {
                p90
            } else {
                p50
            };
            pinball(truth, told, level)
        })
    };
    let within =
        |truth: f64, [low, .., high]: [f64; 5]| f64::from(u8::from(low - 1e-9 <= truth && truth <= high + 1e-9));
    let losses = loss(0.1).zip(loss(0.5)).zip(loss(0.9));
    Some(SpeedScore {
        speeds: forecasts.len(),
        mae: mean(&|one| (one.truth - one.mean).abs()),
        rmse: mean(&|one| (one.truth - one.mean).powi(2)).sqrt(),
        pinball: losses.map(|((p10, p50), p90)| Pinball { p10, p50, p90 }),
        coverage90: of_quantiles(&within),
        width90: of_quantiles(&|_, [low, .., high]| high - low),
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

/// Bounds of the bins of chances.
const BINS: [f64; 7] = [0.0, 0.01, 0.05, 0.2, 0.5, 0.8, 1.0];

/// Chances that pairs do not fit, of about one size, and how often that came.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
pub struct OomBin {
    /// Least chance in the bin.
    pub from: f64,
    /// Upper end of the bin, exclusive; 1 belongs to the last bin.
    pub to: f64,
    /// Number of forecasts.
    pub forecasts: usize,
    /// Mean of the forecasts.
    pub mean_forecast: f64,
    /// Share of them that did not fit.
    pub did_not_fit: f64,
    /// Lower end of the 90 % interval of that share, as if the pairs had nothing to do with each other.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// Chances and what came, in bins; those without a forecast are left out.
pub(super) fn reliability(told: &[(f64, bool)]) -> Vec<OomBin> {
    let bin = |bounds: &[f64]| {
        let [from, to] = *bounds else { return None };
        let holds = |chance: f64| chance >= from && (chance < to || to >= 1.0);
        let here: Vec<&(f64, bool)> = told.iter().filter(|(chance, _)| holds(*chance)).collect();
        if here.is_empty() {
            return None;
        }
        let count = here.len() as f64;
        let share = here.iter().filter(|(_, came)| *came).count() as f64 / count;
        let (low, high) = wilson(share, count, NORMAL90);
        Some(OomBin {
            from,
            to,
            forecasts: here.len(),
            mean_forecast: here.iter().map(|(chance, _)| chance).sum::<f64>() / count,
            did_not_fit: share,
            low,
            high,
        })
    };
    BINS.windows(2).filter_map(bin).collect()
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
        // Ten of 3 %, of which one did not fit; one of 100 %.
        let mut told = vec![(0.03, false); 9];
        told.extend([(0.03, true), (1.0, true)]);
        let bins = reliability(&told);
        let of = |at: usize| (bins[at].from, bins[at].to, bins[at].forecasts, bins[at].did_not_fit);
        assert_eq!((bins.len(), of(0), of(1)), (2, (0.01, 0.05, 10, 0.1), (0.8, 1.0, 1, 1.0)));
        // Wilson's interval of 1 in 10: (0.1 + 0.1353) / 1.2706 ± 1.6449 / 1.2706 × √((0.09 + 0.0676) / 10).
        assert!((bins[0].low - 0.0226).abs() < 1e-4 && (bins[0].high - 0.3477).abs() < 1e-4, "{bins:?}");
        assert!(bins[1].high >= 1.0 - 1e-12 && bins[1].low > 0.2 && reliability(&[]).is_empty());
        let one = |truth: f64| SpeedAndTruth { truth, mean: 0.5, quantiles: Some([0.3, 0.4, 0.5, 0.6, 0.7]) };
        let result = speeds(&[one(0.5), one(0.8)]).unwrap();
        assert!((result.mae - 0.15).abs() < 1e-12 && (result.rmse - 0.045f64.sqrt()).abs() < 1e-12);
        let close = |one: Option<f64>, other: f64| one.is_some_and(|one| (one - other).abs() < 1e-12);
        assert!(close(result.coverage90, 0.5) && close(result.width90, 0.4), "{result:?}");
        // 0.1 × 0.1 and 0.1 × 0.4 at 10 %, none and 0.5 × 0.3 at 50 %.
        assert!(close(result.pinball.map(|loss| loss.p10), 0.025) && close(result.pinball.map(|loss| loss.p50), 0.075));
        // A forecast without quantiles has an error, and no interval that could hold.
        let bare = speeds(&[one(0.5), SpeedAndTruth { quantiles: None, ..one(0.8) }]).unwrap();
        assert_eq!(
            (bare.mae.to_bits(), bare.pinball, bare.coverage90, bare.width90),
            (result.mae.to_bits(), None, None, None)
        );
    }
}
