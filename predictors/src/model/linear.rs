//! Ordinary least squares (linfa) on standardised features: the plainest learner of means, to hold the others against.
//!
//! Unknown values become the column's mean. Features repeat each other, so a little ridge is added, as rows of √λ with label 0. O(rows × columns²). Worked example: y = 2 x at x = 0, 1, 2 gives slope 2 and intercept 0.

use linfa::Dataset;
use linfa::traits::{Fit as _, Predict as _};
use linfa_linear::{FittedLinearRegression, LinearRegression};
use ndarray::{Array1, Array2, Axis};

use super::{Fit, Predict, Training};
use crate::error::{Error, Result};
use crate::matrix::Matrix;

/// Least squares, not fitted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Linear;

/// Least squares, fitted.
#[derive(Debug)]
pub struct FittedLinear {
    model: FittedLinearRegression<f64>,
    centre: Vec<f64>,
    scale: Vec<f64>,
    mean: f64,
}

/// λ of the ridge, a row.
const RIDGE: f64 = 1e-4;

fn refused(reason: impl std::fmt::Display) -> Error {
    Error::Learner { learner: "least squares", reason: reason.to_string() }
}

/// Mean and standard deviation of the known values of each column; a column that does not vary has deviation 1.
fn moments(rows: &Matrix) -> (Vec<f64>, Vec<f64>) {
    let width = rows.columns();
    let (mut count, mut sum, mut square) = (vec![0.0; width], vec![0.0; width], vec![0.0; width]);
    for row in 0..rows.rows() {
        let sums = count.iter_mut().zip(&mut sum).zip(&mut square);
        for (((count, sum), square), value) in sums.zip(rows.row(row)).filter(|(_, value)| !value.is_nan()) {
            let value = f64::from(*value);
            *count += 1.0;
            *sum += value;
            *square += value * value;
        }
    }
    let centre: Vec<f64> = sum.iter().zip(&count).map(|(sum, count)| sum / f64::max(*count, 1.0)).collect();
    let deviation = |((square, count), centre): ((&f64, &f64), &f64)| {
        let variance = square / f64::max(*count, 1.0) - centre * centre;
        if variance > 1e-12 { variance.sqrt() } else { 1.0 }
    };
    let scale = square.iter().zip(&count).zip(&centre).map(deviation).collect();
    (centre, scale)
}

/// Rows, standardised; unknown values are 0, the mean.
fn standardised(rows: &Matrix, centre: &[f64], scale: &[f64]) -> Result<Array2<f64>> {
    let one = |((value, centre), scale): ((&f32, &f64), &f64)| {
        if value.is_nan() { 0.0 } else { (f64::from(*value) - centre) / scale }
    };
    let values = (0..rows.rows()).flat_map(|row| rows.row(row).iter().zip(centre).zip(scale).map(one)).collect();
    Array2::from_shape_vec((rows.rows(), centre.len()), values).map_err(refused)
}

impl Fit for Linear {
    type Fitted = FittedLinear;

    fn fit(&self, training: Training<'_>) -> Result<FittedLinear> {
        let Training { rows, labels, .. } = training;
        if rows.rows() < 2 {
            return Err(Error::TooFew(format!("{} rows are too few for least squares", rows.rows())));
        }
        let (centre, scale) = moments(rows);
        let width = rows.columns();
        let mean = labels.iter().map(|y| f64::from(*y)).sum::<f64>() / labels.len() as f64;
        let ridge = Array2::<f64>::eye(width) * (RIDGE * rows.rows() as f64).sqrt();
        let mut features = standardised(rows, &centre, &scale)?;
        features.append(Axis(0), ridge.view()).map_err(refused)?;
        let none = std::iter::repeat_n(0.0, width);
        let targets: Array1<f64> = labels.iter().map(|y| f64::from(*y) - mean).chain(none).collect();
        let data = Dataset::new(features, targets);
        let model = LinearRegression::default().with_intercept(false).fit(&data).map_err(refused)?;
        Ok(FittedLinear { model, centre, scale, mean })
    }
}

impl Predict for FittedLinear {
    fn predict(&self, rows: &Matrix) -> Result<Vec<f32>> {
        let result = self.model.predict(&standardised(rows, &self.centre, &self.scale)?);
        Ok(result.iter().map(|y| (*y + self.mean) as f32).collect())
    }
}
