//! Random forest of regression trees (smartcore): a second learner of means, to hold the boosted trees against.
//!
//! smartcore takes no unknown values: they become a number below all others of the column. O(trees × rows × log rows × columns).
//! Worked example: a column of 2, unknown, 5 is seen as 2, 1, 5.

use smartcore::ensemble::random_forest_regressor::{RandomForestRegressor, RandomForestRegressorParameters};
use smartcore::linalg::basic::matrix::DenseMatrix;

use super::{Fit, Predict, Training};
use crate::error::{Error, Result};
use crate::matrix::Matrix;

/// A random forest, not fitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forest {
    /// Trees.
    pub trees: usize,
    /// Levels a tree.
    pub depth: u16,
    /// Seed of the random parts.
    pub seed: u64,
}

/// A random forest, fitted.
#[derive(Debug)]
pub struct FittedForest {
    model: RandomForestRegressor<f32, f32, DenseMatrix<f32>, Vec<f32>>,
    unknown: Vec<f32>,
}

fn refused(reason: impl std::fmt::Display) -> Error {
    Error::Learner { learner: "random forest", reason: reason.to_string() }
}

/// A number below all others, for each column.
pub(super) fn stand_ins(rows: &Matrix) -> Vec<f32> {
    let mut lowest = vec![f32::INFINITY; rows.columns()];
    for row in 0..rows.rows() {
        for (low, value) in lowest.iter_mut().zip(rows.row(row)) {
            *low = low.min(*value);
        }
    }
    lowest.into_iter().map(|low| if low.is_finite() { low - 1.0 } else { 0.0 }).collect()
}

/// The rows with unknown values replaced.
pub(super) fn filled(rows: &Matrix, unknown: &[f32]) -> Vec<f32> {
    let fill = |(value, unknown): (&f32, &f32)| if value.is_nan() { *unknown } else { *value };
    (0..rows.rows()).flat_map(|row| rows.row(row).iter().zip(unknown).map(fill)).collect()
}

fn dense(rows: &Matrix, unknown: &[f32]) -> Result<DenseMatrix<f32>> {
    DenseMatrix::new(rows.rows(), rows.columns(), filled(rows, unknown), false).map_err(refused)
}

impl Fit for Forest {
    type Fitted = FittedForest;

    fn fit(&self, training: Training<'_>) -> Result<FittedForest> {
        if training.rows.rows() < 2 {
            return Err(Error::TooFew(format!("{} rows are too few to grow a forest", training.rows.rows())));
        }
        let unknown = stand_ins(training.rows);
        let parameters = RandomForestRegressorParameters::default()
            .with_n_trees(self.trees)
            .with_max_depth(self.depth)
            .with_min_samples_leaf(5)
            .with_seed(self.seed);
        let rows = dense(training.rows, &unknown)?;
        let model = RandomForestRegressor::fit(&rows, &training.labels.to_vec(), parameters).map_err(refused)?;
        Ok(FittedForest { model, unknown })
    }
}

impl Predict for FittedForest {
    fn predict(&self, rows: &Matrix) -> Result<Vec<f32>> {
        if rows.rows() == 0 {
            return Ok(Vec::new());
        }
        self.model.predict(&dense(rows, &self.unknown)?).map_err(refused)
    }
}
