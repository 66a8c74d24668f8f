//! A table of 32-bit numbers in rows, as learners take it: unknown is NaN.
//!
//! Worked example: two rows of three features are six numbers, row after row; row 1 begins at 3.

use crate::error::{Error, Result};

/// Rows of features.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Matrix {
    columns: usize,
    values: Vec<f32>,
}

impl Matrix {
    /// An empty table of so many columns.
    pub fn new(columns: usize) -> Self {
        Self { columns, values: Vec::new() }
    }

    /// A table of the given values, row after row.
    ///
    /// # Errors
    /// If the values do not fill whole rows.
    pub fn of(columns: usize, values: Vec<f32>) -> Result<Self> {
        let whole = if columns == 0 { values.is_empty() } else { values.len().is_multiple_of(columns) };
        if !whole {
            return Err(Error::Defect(format!("{} values do not fill rows of {columns}", values.len())));
        }
        Ok(Self { columns, values })
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        self.values.len().checked_div(self.columns).unwrap_or(0)
    }

    /// Columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// All values, row after row.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// A row; empty if there is none of that number.
    pub fn row(&self, row: usize) -> &[f32] {
        let from = row.saturating_mul(self.columns);
        self.values.get(from..from + self.columns).unwrap_or_default()
    }

    /// A cell, NaN if there is none.
    pub fn get(&self, row: usize, column: usize) -> f32 {
        self.row(row).get(column).copied().unwrap_or(f32::NAN)
    }

    /// Room for a further row, filled with NaN.
    pub fn push(&mut self) -> &mut [f32] {
        let from = self.values.len();
        self.values.resize(from + self.columns, f32::NAN);
        self.values.get_mut(from..).unwrap_or_default()
    }

    /// The rows and columns named, in that order.
    pub fn select(&self, rows: &[u32], columns: &[u32]) -> Self {
        let mut values = Vec::with_capacity(rows.len() * columns.len());
        for row in rows {
            let row = self.row(*row as usize);
            values.extend(columns.iter().map(|column| row.get(*column as usize).copied().unwrap_or(f32::NAN)));
        }
        Self { columns: columns.len(), values }
    }

    /// Columns that differ between rows: those of one value only, or of none, teach nothing.
    pub fn telling_columns(&self, rows: &[u32]) -> Vec<u32> {
        let Some((first, rest)) = rows.split_first() else { return Vec::new() };
        let first = self.row(*first as usize);
        let mut telling = vec![false; self.columns];
        let mut left = self.columns;
        for row in rest {
            if left == 0 {
                break;
            }
            for ((seen, value), one) in telling.iter_mut().zip(self.row(*row as usize)).zip(first) {
                if !*seen && value.to_bits() != one.to_bits() {
                    *seen = true;
                    left -= 1;
                }
            }
        }
        (0u32..).zip(telling).filter_map(|(column, telling)| telling.then_some(column)).collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_columns_are_selected_in_the_order_named_and_constant_columns_are_told() {
        let table = Matrix::of(3, vec![1.0, f32::NAN, 5.0, 1.0, f32::NAN, 6.0]).unwrap();
        assert_eq!(table.telling_columns(&[0, 1]), [2]);
        assert_eq!(table.select(&[1, 0], &[2, 0]).values(), [6.0, 1.0, 5.0, 1.0]);
        assert!(Matrix::of(3, vec![1.0]).is_err());
        assert!(table.get(7, 0).is_nan());
    }
}
