//! The border to the learners: rows of features and labels in, a fitted model out. Unfitted and fitted are different types.
//!
//! Three back ends pass the same tests: boosted trees ([`boosted`], ours), random forests ([`forest`], smartcore) and ordinary least squares ([`linear`],
//! linfa). A label is the natural log of a run in seconds: the squared error of seconds would see only the longest jobs. Worked number: runs of 60 s and 6,000 s have labels 4.09 and 8.70; their mean 6.40 is 600 s, not 3,030 s.

pub mod boosted;
pub mod forest;
pub mod linear;

use crate::error::Result;
use crate::matrix::Matrix;

/// Data that a learner learns from.
#[derive(Debug, Clone, Copy)]
pub struct Training<'a> {
    /// Features, a row each.
    pub rows: &'a Matrix,
    /// Labels, one a row: the log of the run, or of the age where the job still ran.
    pub labels: &'a [f32],
    /// Whether the job still ran, one a row; empty if none did. Learners that cannot use such rows leave them out.
    pub censored: &'a [bool],
}

/// Something that can be fitted.
pub trait Fit {
    /// Fitted model.
    type Fitted: Predict;
    /// Learns from rows.
    ///
    /// # Errors
    /// If there are too few rows, or the library refuses them.
    fn fit(&self, training: Training<'_>) -> Result<Self::Fitted>;
}

/// Something fitted.
pub trait Predict {
    /// A number for each row.
    ///
    /// # Errors
    /// If the rows have another width than those it was fitted on.
    fn predict(&self, rows: &Matrix) -> Result<Vec<f32>>;
}

#[cfg(test)]
mod tests;
