//! Gradient-boosted trees (hessboost): the mean, a quantile, the censored mean or the order of log runs, or the chance of an event.
//!
//! * [`Target::Mean`]: squared error.
//! * [`Target::Quantile`]: pinball loss, each leaf the exact quantile of its rows.
//! * [`Target::Survival`]: accelerated failure time with normal noise of the given scale; rows of jobs that still run are bounds from below.
//! * [`Target::Chance`]: log loss; labels are 0 or 1, and what is predicted is the chance of 1.
//! * [`Target::Rank`]: pairwise LambdaMART within runs of 64 neighbouring rows: only the order matters.
//!
//! Trees see a random part of rows and columns each, from a seed: same rows, same model, whatever the number of threads. Training is
//! O(trees × rows × columns), prediction O(trees × depth) a row. Worked number: 120 trees of 31 leaves are about 120 × 6 comparisons a row.

use hessboost::config::{GrowPolicy, LeafEstimation};
use hessboost::data::ViewCuts;
use hessboost::objective::{Aft, AftDistribution, LambdaRank, Quantiles};
use hessboost::prelude::{BoostedModel, DMatrix, Iterations, ModelFormat, Objective, RegLoss, TrainingParams, train};
use serde::{Deserialize, Serialize};

use super::{Fit, Predict, Training};
use crate::error::{Error, Result};
use crate::matrix::Matrix;

/// Rows whose order is learned together.
const LIST: usize = 64;
/// Grades of a list: the order within it, coarsely.
const GRADES: f32 = 31.0;

/// What is predicted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// The mean.
    Mean,
    /// A quantile, 0 to 1.
    Quantile(f64),
    /// The mean, with jobs that still run as bounds; the scale of the noise.
    Survival(f64),
    /// The chance that the label is 1 and not 0.
    Chance,
    /// The order.
    Rank,
}

/// How trees are grown.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Trees {
    /// How many.
    pub trees: usize,
    /// Leaves a tree.
    pub leaves: usize,
    /// How far each tree goes, 0 to 1.
    pub rate: f64,
    /// Share of rows a tree sees.
    pub rows: f64,
    /// Share of columns a tree sees.
    pub columns: f64,
    /// Weight of rows that a leaf needs.
    pub least: f64,
    /// Pull of the leaves towards zero.
    pub lambda: f64,
    /// Bins a feature is cut into.
    pub bins: usize,
    /// Seed of the random parts.
    pub seed: u64,
}

impl Default for Trees {
    /// Chosen on the first 60 % of Philly's jobs (its last fifth as the part to score on).
    fn default() -> Self {
        Self {
            trees: 120,
            leaves: 31,
            rate: 0.08,
            rows: 0.4,
            columns: 0.3,
            least: 100.0,
            lambda: 1.0,
            bins: 255,
            seed: 1,
        }
    }
}

impl Trees {
    /// The same for so many rows: with few, fewer leaves a tree, so that a leaf's quantile is one of some rows and not of two, and fewer bins, as there
    /// is less to tell apart. Nothing changes from 3,100 rows on.
    #[must_use]
    pub fn for_rows(self, rows: usize) -> Self {
        Self {
            leaves: self.leaves.min((rows / ROWS_A_LEAF).max(LEAST_LEAVES)),
            bins: self.bins.min((rows / ROWS_A_BIN).max(LEAST_BINS)),
            ..self
        }
    }
}

/// Rows for each leaf, bin; and the least of both.
const ROWS_A_LEAF: usize = 100;
const ROWS_A_BIN: usize = 10;
const LEAST_LEAVES: usize = 6;
const LEAST_BINS: usize = 32;

/// Boosted trees, not fitted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Boosted {
    /// What they predict.
    pub target: Target,
    /// How they are grown.
    pub trees: Trees,
}

/// Boosted trees, fitted.
#[derive(Debug, Clone)]
pub struct FittedTrees {
    model: BoostedModel,
    logged: bool,
}

/// Rows of features that several models learn from, cut into bins once whatever the labels.
#[derive(Debug, Clone)]
pub struct SharedRows {
    data: DMatrix,
}

impl SharedRows {
    /// The rows of a table, O(rows × columns); they are cut into bins when the first model is grown.
    ///
    /// # Errors
    /// If there are fewer than two rows, or no columns.
    pub fn of(rows: &Matrix) -> Result<Self> {
        enough(rows.rows(), rows.columns())?;
        Ok(Self { data: DMatrix::from_dense(rows.values(), rows.rows(), rows.columns()).map_err(refused)? })
    }

    /// Those of the rows that are named, in the same bins.
    ///
    /// # Errors
    /// If there are fewer than two, or one of them does not exist.
    pub fn only(&self, rows: &[u32]) -> Result<Self> {
        enough(rows.len(), self.data.n_cols())?;
        let rows: Vec<usize> = rows.iter().map(|row| *row as usize).collect();
        Ok(Self { data: self.data.select_rows_with_cuts(&rows, ViewCuts::Source).map_err(refused)? })
    }

    /// How many rows.
    pub fn rows(&self) -> usize {
        self.data.n_rows()
    }
}

fn enough(rows: usize, columns: usize) -> Result<()> {
    if rows < 2 || columns == 0 {
        return Err(Error::TooFew(format!("{rows} rows of {columns} features are too few to grow trees")));
    }
    Ok(())
}

const LEARNER: &str = "boosted trees";

fn refused(reason: impl std::fmt::Display) -> Error {
    Error::Learner { learner: LEARNER, reason: reason.to_string() }
}

impl Boosted {
    fn objective(&self) -> Result<Objective> {
        Ok(match self.target {
            Target::Mean => Objective::SquaredError(RegLoss::default()),
            Target::Quantile(level) => Objective::Quantile(Quantiles::new([level]).map_err(refused)?),
            Target::Survival(scale) => Objective::Aft(Aft::new(AftDistribution::Normal, scale).map_err(refused)?),
            Target::Chance => Objective::BinaryLogistic(RegLoss::default()),
            Target::Rank => Objective::RankPairwise(LambdaRank::default()),
        })
    }

    fn params(&self, rows: usize) -> Result<TrainingParams> {
        let trees = &self.trees;
        // The quantile's surrogate loss has curvatures far from one a row, so the weight a leaf needs is no count of rows there.
        let least = match self.target {
            // Of few rows, a twentieth.
            Target::Mean => trees.least.min((rows as f64 / 20.0).max(1.0)),
            // A row weighs p (1 − p), which is least where events are rare.
            Target::Chance => trees.least.min((rows as f64 / 1000.0).max(1.0)),
            _ => 1.0,
        };
        let builder = TrainingParams::builder()
            .objective(self.objective()?)
            .grow_policy(GrowPolicy::LossGuide)
            .unlimited_depth()
            .max_leaves(trees.leaves)
            .eta(trees.rate)
            .subsample(trees.rows)
            .colsample_bytree(trees.columns)
            .min_child_weight(least)
            .lambda(trees.lambda)
            .max_bin(trees.bins)
            // On several threads the learner grows children of leaves that are then not split, and copies what they start from: the same
            // trees for half as much CPU time again. Whoever fits several models fits them side by side.
            .nthread(1)
            .seed(trees.seed);
        let builder = match self.target {
            Target::Quantile(_) => builder.leaf_estimation(LeafEstimation::Exact),
            _ => builder,
        };
        builder.build().map_err(refused)
    }
}

impl Boosted {
    /// Learns a mean, a quantile or a chance from rows whose labels are all known, one a row.
    ///
    /// # Errors
    /// If the target is another one, the labels are not one a row, or the library refuses them.
    pub fn fit_shared(&self, rows: &SharedRows, labels: &[f32]) -> Result<FittedTrees> {
        if matches!(self.target, Target::Survival(_) | Target::Rank) {
            return Err(refused("rows are shared by means, quantiles and chances alone"));
        }
        let data = rows.data.clone().with_labels(labels).map_err(refused)?;
        let model = train(&self.params(rows.rows())?, &data, self.trees.trees).map_err(refused)?;
        Ok(FittedTrees { model, logged: true })
    }
}

impl Fit for Boosted {
    type Fitted = FittedTrees;

    fn fit(&self, training: Training<'_>) -> Result<FittedTrees> {
        let Training { rows, labels, censored } = training;
        let survival = matches!(self.target, Target::Survival(_));
        let kept: Vec<u32> = (0u32..)
            .zip(labels)
            .filter(|(row, _)| survival || !censored.get(*row as usize).copied().unwrap_or(false))
            .map(|(row, _)| row)
            .collect();
        enough(kept.len(), rows.columns())?;
        let label = |row: &u32| labels.get(*row as usize).copied().unwrap_or(0.0);
        let kept_labels: Vec<f32> = kept.iter().map(label).collect();
        let data = if kept.len() == rows.rows() {
            DMatrix::from_dense(rows.values(), rows.rows(), rows.columns())
        } else {
            let all: Vec<u32> = (0..rows.columns() as u32).collect();
            let part = rows.select(&kept, &all);
            DMatrix::from_dense(part.values(), part.rows(), part.columns())
        }
        .map_err(refused)?;
        let data = match self.target {
            Target::Mean | Target::Quantile(_) | Target::Chance => data.with_labels(&kept_labels),
            Target::Survival(_) => {
                let lower: Vec<f32> = kept_labels.iter().map(|y| y.exp()).collect();
                let still = |row: &u32| censored.get(*row as usize).copied().unwrap_or(false);
                let upper: Vec<f32> = kept
                    .iter()
                    .zip(&lower)
                    .map(|(row, lower)| if still(row) { f32::INFINITY } else { *lower })
                    .collect();
                data.with_label_bounds(&lower, &upper)
            }
            Target::Rank => {
                let sizes: Vec<usize> = kept_labels.chunks(LIST).map(<[f32]>::len).collect();
                data.with_labels(&grades(&kept_labels)).and_then(|data| data.with_group_sizes(&sizes))
            }
        }
        .map_err(refused)?;
        let model = train(&self.params(kept.len())?, &data, self.trees.trees).map_err(refused)?;
        Ok(FittedTrees { model, logged: !survival })
    }
}

/// Grades of rows: the place in the list of 64, scaled to whole grades from 0 to 31.
fn grades(labels: &[f32]) -> Vec<f32> {
    let mut grades = Vec::with_capacity(labels.len());
    for list in labels.chunks(LIST) {
        let mut sorted = list.to_vec();
        sorted.sort_unstable_by(f32::total_cmp);
        let most = (list.len().max(2) - 1) as f32;
        grades.extend(list.iter().map(|y| (sorted.partition_point(|other| other < y) as f32 / most * GRADES).round()));
    }
    grades
}

impl Predict for FittedTrees {
    fn predict(&self, rows: &Matrix) -> Result<Vec<f32>> {
        if rows.rows() == 0 {
            return Ok(Vec::new());
        }
        let found = self.model.predict_rows(rows.values(), Iterations::Best).map_err(refused)?;
        let values = found.as_slice().iter();
        Ok(if self.logged { values.copied().collect() } else { values.map(|seconds| seconds.max(1e-6).ln()).collect() })
    }
}

impl FittedTrees {
    /// The prediction of one row, without allocating.
    ///
    /// # Errors
    /// If the row has another width than those it was fitted on.
    pub fn predict_one(&self, row: &[f32]) -> Result<f32> {
        let value = self.model.predict_row(row, Iterations::Best).map_err(refused)?;
        Ok(if self.logged { value } else { value.max(1e-6).ln() })
    }

    /// The model as bytes of the library's own stable format.
    ///
    /// # Errors
    /// If the library cannot write it.
    pub fn encode(&self) -> Result<Vec<u8>> {
        self.model.encode(ModelFormat::Binary).map_err(refused)
    }

    /// The model in XGBoost's JSON, which XGBoost reads.
    ///
    /// # Errors
    /// If XGBoost has no such objective.
    pub fn xgboost_json(&self) -> Result<Vec<u8>> {
        self.model.encode(ModelFormat::XgboostJson).map_err(refused)
    }

    /// The model from bytes that [`FittedTrees::encode`] gave.
    ///
    /// # Errors
    /// If they are damaged.
    pub fn decode(bytes: &[u8], survival: bool) -> Result<Self> {
        Ok(Self { model: BoostedModel::decode(bytes, ModelFormat::Binary).map_err(refused)?, logged: !survival })
    }

    /// Share of the loss each feature took away, by its number.
    pub fn gains(&self) -> Vec<(u32, f64)> {
        let gains = self.model.feature_importance(hessboost::prelude::ImportanceType::TotalGain);
        let mut gains: Vec<(u32, f64)> = gains.into_iter().map(|(feature, gain)| (feature as u32, gain)).collect();
        gains.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        gains
    }
}
