//! A table of 32-bit numbers in rows, as learners take it: unknown is NaN.
//!
//! Of a long table only the rows from one on may be held: rows keep their numbers, and those before are unknown.
//!
//! Worked example: two rows of three features are six numbers, row after row; row 1 begins at 3.

use crate::error::{Error, Result};

/// Rows of features.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Matrix {
    columns: usize,
    /// Number of the first row that is held.
    first: usize,
    values: Vec<f32>,
}

impl Matrix {
    /// An empty table of so many columns.
    pub fn new(columns: usize) -> Self {
        Self { columns, ..Self::default() }
    }

    /// An empty table whose first row has this number, with room for so many rows.
    pub fn from_row(first: usize, columns: usize, room: usize) -> Self {
        Self { columns, first, values: Vec::with_capacity(room.saturating_mul(columns)) }
    }

    /// Forgets the rows before this one; their memory serves rows to come.
    pub fn forget_before(&mut self, row: usize) {
        let gone = row.saturating_sub(self.first).min(self.held());
        self.values.drain(..gone * self.columns);
        self.first = self.first.max(row);
    }

    /// Rows that are held.
    fn held(&self) -> usize {
        self.values.len().checked_div(self.columns).unwrap_or(0)
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
        Ok(Self { columns, first: 0, values })
    }

    /// Rows, those that are not held any more included.
    pub fn rows(&self) -> usize {
        self.first + self.held()
    }

    /// Columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// All values that are held, row after row.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// A row; empty if there is none of that number, or it is not held.
    pub fn row(&self, row: usize) -> &[f32] {
        let Some(row) = row.checked_sub(self.first) else { return &[] };
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
        Self { columns: columns.len(), first: 0, values }
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
        // Rows keep their numbers when earlier ones are forgotten.
        let mut later = Matrix::from_row(5, 1, 3);
        for value in [1.0, 2.0, 3.0] {
            later.push().copy_from_slice(&[value]);
        }
        later.forget_before(6);
        assert_eq!((later.rows(), later.get(6, 0), later.get(7, 0), later.row(5).len()), (8, 2.0, 3.0, 0));
        assert!(Matrix::of(3, vec![1.0]).is_err());
        assert!(table.get(7, 0).is_nan());
    }
}
