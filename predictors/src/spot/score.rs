//! Scores of chances: Brier score, log loss, and reliability, which is whether events given a
//! chance of p happened in a share p of the cases.
//!
//! The **Brier score** is the mean of (p − y)², with y 1 or 0. The **log loss** is the mean of −ln of the chance given to what came, with chances kept `CLIP` away from
//! 0 and 1; it is not told of forecasts that are 0 or 1 throughout. The **calibration error** is the mean over the cases of |mean forecast − share that happened| in the case's tenth.
//!
//! O(cases). Worked example: 0.8 and 0.6 said of two things of which the first came: Brier (0.04 + 0.36)/2 = 0.2; log loss −(ln 0.8 + ln 0.4)/2 = 0.570; they are in two
//! tenths, so the calibration error is (0.2 + 0.6)/2 = 0.4.

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::stats::sum;

use crate::score::brier;

/// Least distance of a chance from 0 and 1 in the log loss.
const CLIP: f64 = 1e-4;
/// Tenths of the chances.
const TENTHS: usize = 10;

/// A chance, and whether it came.
pub(super) type Case = (f64, bool);

/// Scores of chances.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ChanceScore {
    /// Forecasts scored.
    pub cases: usize,
    /// Share of them that came.
    pub happened: f64,
    /// Mean squared difference of chance and outcome.
    pub brier: f64,
    /// Mean of −ln of the chance of what came; none of forecasts that are all 0 or 1.
    pub log_loss: Option<f64>,
    /// Mean distance of the chances of a tenth from the share of them that came.
    pub calibration_error: f64,
}

/// Forecasts of about one chance.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ReliabilityTenth {
    /// Least chance, in it.
    pub from: f64,
    /// Most chance, not in it but for 1.
    pub to: f64,
    /// Forecasts.
    pub cases: usize,
    /// Mean of the forecasts.
    pub mean_forecast: f64,
    /// Share that came.
    pub happened: f64,
}

/// −ln of the chance given to what came.
pub(super) fn surprise((chance, came): Case) -> f64 {
    let told = if came { chance } else { 1.0 - chance };
    -told.clamp(CLIP, 1.0 - CLIP).ln()
}

/// The forecasts by their tenths; those with none are left out.
pub fn reliability(cases: &[Case]) -> Vec<ReliabilityTenth> {
    let mut tenths = vec![(0usize, sum::NeumaierSum::new(), 0usize); TENTHS];
    for (chance, came) in cases {
        let at = ((chance * TENTHS as f64) as usize).min(TENTHS - 1);
        tenths[at].0 += 1;
        tenths[at].1.add(*chance);
        tenths[at].2 += usize::from(*came);
    }
    let of = |(at, (cases, chances, came)): (usize, (usize, sum::NeumaierSum, usize))| ReliabilityTenth {
        from: at as f64 / TENTHS as f64,
        to: (at + 1) as f64 / TENTHS as f64,
        cases,
        mean_forecast: chances.value() / cases as f64,
        happened: came as f64 / cases as f64,
    };
    tenths.into_iter().enumerate().filter(|(_, (cases, ..))| *cases > 0).map(of).collect()
}

impl ChanceScore {
    /// Scores of some forecasts; None without any.
    pub(super) fn new(cases: &[Case]) -> Option<Self> {
        let count = cases.len() as f64;
        let certain = cases.iter().all(|(chance, _)| *chance == 0.0 || *chance == 1.0);
        let log_loss: Vec<f64> = cases.iter().map(|case| surprise(*case)).collect();
        let off = |tenth: &ReliabilityTenth| tenth.cases as f64 * (tenth.mean_forecast - tenth.happened).abs();
        Some(Self {
            cases: cases.len(),
            happened: cases.iter().filter(|(_, came)| *came).count() as f64 / count,
            brier: brier(cases)?,
            log_loss: sum::mean(&log_loss).filter(|_| !certain),
            calibration_error: reliability(cases).iter().map(off).sum::<f64>() / count,
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_example() {
        let result = ChanceScore::new(&[(0.8, true), (0.6, false)]).unwrap();
        assert!((result.brier - 0.2).abs() < 1e-12 && (result.happened - 0.5).abs() < 1e-12);
        assert!((result.log_loss.unwrap() + (0.8f64.ln() + 0.4f64.ln()) / 2.0).abs() < 1e-12);
        assert!((result.calibration_error - 0.4).abs() < 1e-12);
        assert_eq!(ChanceScore::new(&[]), None);
        // Nobody is infinitely wrong, and who says 0 or 1 has no log loss.
        assert!((surprise((0.0, true)) + CLIP.ln()).abs() < 1e-12);
        assert_eq!(ChanceScore::new(&[(1.0, true), (0.0, true)]).unwrap().log_loss, None);
    }

    #[test]
    fn tenths_hold_their_forecasts() {
        let result = reliability(&[(0.1, false), (0.15, true), (1.0, true), (0.95, true)]);
        assert_eq!(result.iter().map(|tenth| (tenth.from, tenth.cases)).collect::<Vec<_>>(), [(0.1, 2), (0.9, 2)]);
        assert!((result[0].mean_forecast - 0.125).abs() < 1e-12 && (result[0].happened - 0.5).abs() < 1e-12);
    }
}
