//! The learners of how much of a GPU a job will use, and the quantiles of what rules and learners say.
//!
//! All is on the scale ln(1 + value). A rule or a learner of one number has quantiles by what it missed by on others; the quantiles of the trees are moved by the same
//! (conformal: `Reach`). Worked number: of 19 errors the 0.05 and the 0.95 quantile are the smallest and the largest, rank (19 + 1) × 0.05 = 1 and 19.

use tracecast_analytics::stats::quantile::weighted_quantile;

use super::history::Usage;
use super::model::UsageModel;
use crate::error::Result;
use crate::interference::committee::LEVELS;
use crate::matrix::Matrix;
use crate::model::boosted::{Boosted, Target, Trees};
use crate::model::forest::Forest;
use crate::model::linear::Linear;
use crate::model::{Fit as _, Predict as _, Training};

/// Place of the median in [`LEVELS`].
const MEDIAN: usize = 2;
/// Rows below which learners say the mean: two for each of the few columns that tell anything in tables so small.
const LEAST_ROWS: usize = 8;

/// Trees of the forest. Each fold fits a forest, so time grows with them.
const FOREST_TREES: usize = 60;
/// Levels of its trees: 256 leaves, more than the rows of most tables.
const FOREST_DEPTH: u16 = 8;
/// Share of the rows that each boosted tree sees, and of the columns: so that trees differ where rows are few.
const TREE_ROWS: f64 = 0.7;
const TREE_COLUMNS: f64 = 0.5;

/// Forecast for a job, on the log scale.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct UsageForecast {
    /// The one number.
    pub(super) point: f64,
    /// Quantiles at [`LEVELS`].
    pub(super) quantiles: [f64; LEVELS.len()],
}

impl UsageForecast {
    /// Forecast with all quantiles at one number.
    pub(super) fn one(point: f64) -> Self {
        Self { point, quantiles: [point; LEVELS.len()] }
    }

    /// Moves the median to what was measured, with an interval of the same width, clamped to what
    /// is possible.
    pub(super) fn moved_to(self, measured: f64, usage: Usage) -> Self {
        let most = usage.most().ln_1p();
        let [_, _, median, _, _] = self.quantiles;
        let quantiles = self.quantiles.map(|quantile| (quantile + measured - median).clamp(0.0, most));
        Self { point: measured, quantiles }
    }

    /// Moves the quantiles by `reach`, in order and clamped to what is possible.
    pub(super) fn reaching(self, reach: &Reach, usage: Usage) -> Self {
        let most = usage.most().ln_1p();
        let mut quantiles = self.quantiles;
        for (quantile, by) in quantiles.iter_mut().zip(reach.0) {
            *quantile = (*quantile + by).clamp(0.0, most);
        }
        quantiles.sort_by(f64::total_cmp);
        Self { point: self.point.clamp(0.0, most), quantiles }
    }
}

/// Moves of quantiles by which they would have held earlier outcomes.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Reach([f64; LEVELS.len()]);

impl Reach {
    /// Reach from pairs of forecast and outcome, all of the same weight: ranks (n + 1) a, rounded
    /// outwards.
    pub(super) fn of(missed: &[(UsageForecast, f64)]) -> Self {
        let count = missed.len();
        let mut reach = [0.0; LEVELS.len()];
        for ((reach, level), at) in reach.iter_mut().zip(LEVELS).zip(0..) {
            let mut errors = errors(missed, at);
            errors.sort_by(f64::total_cmp);
            let rank = (count + 1) as f64 * level;
            let rank = if level > 0.5 { (rank - 1e-9).ceil() } else { (rank + 1e-9).floor() };
            *reach = errors.get((rank as usize).clamp(1, count.max(1)) - 1).copied().unwrap_or_default();
        }
        Self(reach)
    }

    /// Reach from weighted pairs of forecast and outcome, each of `groups` groups left out in turn:
    /// `groups / (groups − 1)` times as far out.
    pub(super) fn weighted(missed: &[(UsageForecast, f64)], weights: &[f64], groups: usize) -> Self {
        let wider = groups as f64 / groups.saturating_sub(1).max(1) as f64;
        let mut reach = [0.0; LEVELS.len()];
        for ((reach, level), at) in reach.iter_mut().zip(LEVELS).zip(0..) {
            let found = weighted_quantile(&errors(missed, at), weights, level).unwrap_or_default();
            *reach = if at == MEDIAN { found } else { found * wider };
        }
        Self(reach)
    }
}

fn errors(missed: &[(UsageForecast, f64)], at: usize) -> Vec<f64> {
    missed.iter().map(|(told, came)| came - told.quantiles.get(at).copied().unwrap_or(told.point)).collect()
}

/// Forecasts of a learner fitted to `rows`, for the rows `asked`; none for a rule.
pub(super) fn learn(
    model: UsageModel,
    rows: &Matrix,
    labels: &[f32],
    request: &Matrix,
    seed: u64,
) -> Result<Vec<UsageForecast>> {
    let every: Vec<u32> = (0u32..).take(rows.rows()).collect();
    // Columns that never differ teach nothing, and learners refuse some of them.
    let telling = rows.telling_columns(&every);
    if rows.rows() < LEAST_ROWS || telling.is_empty() {
        let mean = labels.iter().map(|label| f64::from(*label)).sum::<f64>() / labels.len().max(1) as f64;
        return Ok(vec![UsageForecast::one(mean); request.rows()]);
    }
    let learn = rows.select(&every, &telling);
    let asked_rows: Vec<u32> = (0u32..).take(request.rows()).collect();
    let ask = request.select(&asked_rows, &telling);
    let training = Training { rows: &learn, labels, censored: &[] };
    let points = |result: Vec<f32>| -> Vec<UsageForecast> {
        result.into_iter().map(|point| UsageForecast::one(f64::from(point))).collect()
    };
    Ok(match model {
        UsageModel::Linear => points(Linear.fit(training)?.predict(&ask)?),
        UsageModel::Forest => {
            points(Forest { trees: FOREST_TREES, depth: FOREST_DEPTH, seed }.fit(training)?.predict(&ask)?)
        }
        _ => {
            // The usual least of a leaf would leave tables of some dozens of rows a single one.
            let least = (learn.rows() as f64 / 10.0).clamp(3.0, Trees::default().least);
            let trees = Trees { rows: TREE_ROWS, columns: TREE_COLUMNS, least, seed, ..Trees::default() }
                .for_rows(learn.rows());
            let learner = Boosted { targets: vec![LEVELS.map(Target::Quantile).to_vec()], trees };
            let said = learner.fit(training)?.predict(&ask)?;
            let told = |row: &[f32]| {
                let mut quantiles = [0.0; LEVELS.len()];
                for (quantile, said) in quantiles.iter_mut().zip(row) {
                    *quantile = f64::from(*said);
                }
                quantiles.sort_by(f64::total_cmp);
                let [_, _, point, _, _] = quantiles;
                UsageForecast { point, quantiles }
            };
            said.chunks(LEVELS.len()).map(told).collect()
        }
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_reach_as_far_as_was_missed() {
        let missed: Vec<(UsageForecast, f64)> =
            (1..=19).map(|at| (UsageForecast::one(2.0), 2.0 + f64::from(at - 10) / 10.0)).collect();
        let told = UsageForecast::one(3.0).reaching(&Reach::of(&missed), Usage::GpuUtilPct);
        // 19 errors from −0.9 to 0.9: ranks 1, 2, 10, 18, 19.
        for (result, by) in told.quantiles.iter().zip([-0.9, -0.8, 0.0, 0.8, 0.9]) {
            assert!((result - (3.0 + by)).abs() < 1e-9, "{told:?}");
        }
        // Never above 100 %, and in order.
        let full = UsageForecast::one(4.5).reaching(&Reach::of(&missed), Usage::GpuUtilPct);
        assert_eq!(full.quantiles[4], 101f64.ln());
        assert!(full.quantiles.is_sorted());
        assert_eq!(Reach::of(&[]), Reach::default());
        let twice = Reach::weighted(&missed, &[1.0; 19], 2);
        assert!((twice.0[4] - 1.8).abs() < 1e-9 && twice.0[2].abs() < 1e-9, "{twice:?}");
    }

    #[test]
    fn learners_find_a_line_and_say_the_mean_where_nothing_tells() {
        let values: Vec<f32> = (0..200).map(|at| (at % 50) as f32 / 50.0).collect();
        let labels: Vec<f32> = values.iter().map(|x| 1.0 + 2.0 * x).collect();
        let rows = Matrix::of(1, values).unwrap();
        let request = Matrix::of(1, vec![0.25, 0.75]).unwrap();
        for model in [UsageModel::Linear, UsageModel::Forest, UsageModel::Boosted] {
            let told = learn(model, &rows, &labels, &request, 1).unwrap();
            assert!((told[0].point - 1.5).abs() < 0.15 && (told[1].point - 2.5).abs() < 0.15, "{model:?}: {told:?}");
            let same = Matrix::of(1, vec![1.0; 20]).unwrap();
            let told = learn(model, &same, &labels[..20], &request, 1).unwrap();
            assert!((told[0].point - 1.38).abs() < 1e-6, "{told:?}");
        }
    }
}
