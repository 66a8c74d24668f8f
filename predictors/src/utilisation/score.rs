//! Scores of forecasts of utilisation and memory.
//!
//! With y what came and p the forecast, MAE is the mean of |y − p| in percent or MiB, and RMSLE the root of the mean of (ln(1 + p) − ln(1 + y))², as published.
//! **Coverage** is the share of what came within the interval, **width** the mean of its length in percent or MiB.
//!
//! O(n). Worked example: forecasts of 40 and 60 % where 50 and 50 % came: MAE 10 points, RMSLE √((0.218² + 0.179²) / 2) = 0.200.

use serde::Serialize;

use super::learner::UsageForecast;
use super::model::UsageModelName;

/// Pairs of forecast and outcome of jobs or job types, on the log scale.
pub(super) type Said = Vec<(UsageForecast, f64)>;

/// Score of one model.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct UsageScore {
    /// The model.
    pub name: UsageModelName,
    /// Jobs or job types scored.
    pub scored: usize,
    /// Mean absolute error, percent or MiB.
    pub mae: f64,
    /// Root of the mean squared error of ln(1 + value).
    pub rmsle: f64,
    /// Share within the 80 % interval (10 to 90 %).
    pub coverage80: f64,
    /// Share within the 90 % interval (5 to 95 %).
    pub coverage90: f64,
    /// Mean width of the 90 % interval, percent or MiB.
    pub width90: f64,
    /// RMSLE on what the model is chosen on, in which what is reported has no part; none where nothing could be left out.
    pub choice_rmsle: Option<f64>,
}

/// Below as many, errors and coverage say little. Of 50, the share within the 90 % interval has a standard error of 4 points (√(0.9 × 0.1 / 50)), and an RMSLE one of about a tenth.
const FEW: usize = 50;

/// Warning that so many are too few to tell models apart; `what` they are, such as `9 jobs`.
pub(super) fn too_few(scored: usize, what: &str) -> Option<String> {
    (scored < FEW).then(|| format!("{what} are too few to tell models apart, or to say how often intervals hold: take the figures as a first hint."))
}

/// RMSLE of what was said and came, both on the log scale; `None` of none.
pub(super) fn rmsle(said: &[(UsageForecast, f64)]) -> Option<f64> {
    let sum: f64 = said.iter().map(|(told, came)| (told.point - came).powi(2)).sum();
    (!said.is_empty()).then(|| (sum / said.len() as f64).sqrt())
}

/// MAE of what was said and came, in the unit of the value; `None` of none.
pub(super) fn mae(said: &[(UsageForecast, f64)]) -> Option<f64> {
    let sum: f64 = said.iter().map(|(told, came)| (told.point.exp_m1() - came.exp_m1()).abs()).sum();
    (!said.is_empty()).then(|| sum / said.len() as f64)
}

/// The score of a model that said this, where that came, on the log scale; `None` of none.
pub(super) fn score(
    name: UsageModelName,
    said: &[(UsageForecast, f64)],
    choice_rmsle: Option<f64>,
) -> Option<UsageScore> {
    let count = said.len() as f64;
    let mean =
        |of: &dyn Fn(&UsageForecast, f64) -> f64| said.iter().map(|(told, came)| of(told, *came)).sum::<f64>() / count;
    let within = |low: usize, high: usize| {
        mean(&|told, came| {
            let at = |place: usize| told.quantiles.get(place).copied().unwrap_or(told.point);
            f64::from(u8::from(at(low) - 1e-9 <= came && came <= at(high) + 1e-9))
        })
    };
    let ends = |told: &UsageForecast| {
        let [low, _, _, _, high] = told.quantiles;
        high.exp_m1() - low.exp_m1()
    };
    Some(UsageScore {
        name,
        scored: said.len(),
        mae: mae(said)?,
        rmsle: rmsle(said)?,
        coverage80: within(1, 3),
        coverage90: within(0, 4),
        width90: mean(&|told, _| ends(told)),
        choice_rmsle,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn few_are_called_few() {
        assert_eq!(too_few(50, "50 jobs"), None);
        assert!(too_few(49, "49 jobs").is_some_and(|told| told.starts_with("49 jobs are too few")));
    }

    #[test]
    fn two_forecasts_scored_by_hand() {
        let said = |percent: f64, by: f64| {
            let point = percent.ln_1p();
            UsageForecast { point, quantiles: [point - by, point - by / 2.0, point, point + by / 2.0, point + by] }
        };
        let came = 50f64.ln_1p();
        let result =
            score(UsageModelName::Mean, &[(said(40.0, 0.3), came), (said(60.0, 0.1), came)], Some(0.2)).unwrap();
        assert!((result.mae - 10.0).abs() < 1e-9);
        let (low, high) = ((51f64 / 41.0).ln(), (61f64 / 51.0).ln());
        assert!((result.rmsle - (f64::midpoint(low * low, high * high)).sqrt()).abs() < 1e-12);
        // ln 51 is 0.218 above ln 41, within ±0.3 and not within ±0.15; it is 0.179 below ln 61.
        assert_eq!((result.coverage90, result.coverage80), (0.5, 0.0));
        assert_eq!(score(UsageModelName::Mean, &[], None), None);
    }
}
