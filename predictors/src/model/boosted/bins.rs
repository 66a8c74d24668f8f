//! Features cut into bins: what trees are grown on.
//!
//! A column of at most as many distinct values as there are bins gets a bin a value, with cuts halfway between them; of others each bin holds about as many
//! rows. What is unknown (NaN) has a bin of its own behind the others. Cuts are found on at most [`LOOKED_AT`] rows a bin, evenly spread.
//!
//! O(rows × columns × log bins). Worked example: values 1, 1, 2, 4, NaN with many bins have the cuts 1.5 and 3 and are in the bins 0, 0, 1, 2, 3.

use crate::matrix::Matrix;

/// Rows that cuts are found on, at most so many for each bin.
const LOOKED_AT: usize = 100;
/// Bins of known values, at most: one more is left for what is unknown.
pub(super) const MOST: usize = 255;

/// Bytes that rows are copied by, a number known in advance so that no call is made for each row.
const AT_ONCE: usize = 32;
/// Zeros behind the last row of a table: as many bytes as a number of eight bits can name can be read from each row on.
pub(super) const PAD: usize = 1 << u8::BITS;

/// Rows of features as bins, row after row.
#[derive(Debug, Clone)]
pub(super) struct Binned {
    /// Cuts of each column, ascending: a value is in as many a bin as there are cuts that are not above it.
    pub(super) cuts: Vec<Vec<f32>>,
    /// The rows, and [`PAD`] zeros.
    bins: Vec<u8>,
    rows: usize,
}

impl Binned {
    /// Cuts a table into at most so many bins a column.
    pub(super) fn new(table: &Matrix, most: usize) -> Self {
        let (rows, columns): (Vec<u32>, Vec<u32>) =
            ((0..table.rows() as u32).collect(), (0..table.columns() as u32).collect());
        Self::of_part(table, &rows, &columns, most)
    }

    /// Cuts the rows and columns that are named, in that order, without a copy of them.
    pub(super) fn of_part(table: &Matrix, rows: &[u32], columns: &[u32], most: usize) -> Self {
        let most = most.clamp(2, MOST);
        let step = rows.len().div_ceil(LOOKED_AT * most).max(1);
        let mut values = Vec::with_capacity(rows.len().div_ceil(step));
        let mut cut = |column: &u32| {
            values.clear();
            let known = rows.iter().step_by(step).map(|row| table.get(*row as usize, *column as usize));
            values.extend(known.filter(|value| !value.is_nan()));
            cuts(&mut values, most)
        };
        let cuts: Vec<Vec<f32>> = columns.iter().map(&mut cut).collect();
        let mut bins = Vec::with_capacity(rows.len() * columns.len() + PAD);
        for row in rows {
            let row = table.row(*row as usize);
            let value = |column: &u32| row.get(*column as usize).copied().unwrap_or(f32::NAN);
            bins.extend(columns.iter().zip(&cuts).map(|(column, cuts)| bin(value(column), cuts)));
        }
        bins.resize(bins.len() + PAD, 0);
        Self { cuts, bins, rows: rows.len() }
    }

    /// The rows `rows`, in the same bins.
    pub(super) fn only(&self, rows: &[u32]) -> Self {
        let mut bins = Vec::new();
        copy_rows(&self.bins, self.cuts.len(), rows, &mut bins);
        Self { cuts: self.cuts.clone(), bins, rows: rows.len() }
    }

    /// Number of rows.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// All rows, one after another, and [`PAD`] zeros.
    pub(super) fn bins(&self) -> &[u8] {
        &self.bins
    }

    /// Bins of a row, padded with the bytes behind them, which no column names.
    pub(super) fn padded_row(&self, row: usize) -> Option<&[u8; PAD]> {
        self.bins.get(row * self.cuts.len()..)?.first_chunk()
    }

    /// The bins of a row.
    pub(super) fn row(&self, row: usize) -> &[u8] {
        let from = row * self.cuts.len();
        self.bins.get(from..from + self.cuts.len()).unwrap_or_default()
    }
}

/// Copies the rows that are named, of a table `wide` bytes wide, in their order. Bytes copied
/// beyond a row are overwritten by the next one.
pub(super) fn copy_rows(table: &[u8], wide: usize, rows: &[u32], into: &mut Vec<u8>) {
    let end = rows.len() * wide;
    into.resize(end + PAD, 0);
    for (to, row) in rows.iter().enumerate() {
        for at in (0..wide).step_by(AT_ONCE) {
            let from = table.get(*row as usize * wide + at..).and_then(|rest| rest.first_chunk::<AT_ONCE>());
            let place = into.get_mut(to * wide + at..).and_then(|rest| rest.first_chunk_mut::<AT_ONCE>());
            if let (Some(place), Some(from)) = (place, from) {
                *place = *from;
            }
        }
    }
    // The last row's neighbour was copied with it.
    into.get_mut(end..).into_iter().for_each(|behind| behind.fill(0));
}

/// Bin of unknown values: behind all others.
pub(super) fn unknown(cuts: &[f32]) -> u8 {
    (cuts.len() + 1) as u8
}

/// The bin of a value.
fn bin(value: f32, cuts: &[f32]) -> u8 {
    if value.is_nan() { unknown(cuts) } else { cuts.partition_point(|cut| *cut <= value) as u8 }
}

/// Cut points of known values; sorts the values.
fn cuts(values: &mut [f32], most: usize) -> Vec<f32> {
    values.sort_unstable_by(f32::total_cmp);
    let distinct = values.chunk_by(|a, b| a == b).count();
    let mut cuts = Vec::with_capacity(distinct.min(most).saturating_sub(1));
    let (mut left, mut bins, mut held) = (values.len(), most, 0);
    let mut runs = values.chunk_by(|a, b| a == b).peekable();
    while let (Some(run), Some(next)) = (runs.next(), runs.peek()) {
        held += run.len();
        // Each bin takes its share of what is left, so that one value of many rows does not starve those behind it.
        if distinct <= most || held * bins >= left {
            if let (Some(a), Some(b)) = (run.first(), next.first()) {
                let middle = f32::midpoint(*a, *b);
                cuts.push(if middle > *a { middle } else { *b });
            }
            (left, bins, held) = (left - held, bins.saturating_sub(1), 0);
            if bins <= 1 && distinct > most {
                break;
            }
        }
    }
    cuts
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::float_cmp)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_example() {
        let rows = Matrix::of(1, vec![1.0, 1.0, 2.0, 4.0, f32::NAN]).unwrap();
        let binned = Binned::new(&rows, 10);
        assert_eq!(binned.cuts, [[1.5, 3.0]]);
        assert_eq!((&binned.bins[..5], binned.rows()), ([0, 0, 1, 2, 3].as_slice(), 5));
        assert_eq!(binned.only(&[3, 0]).bins[..2], [2, 0]);
    }

    #[test]
    fn rows_of_any_width_are_copied_whole() {
        for wide in [1, 2, 31, 32, 33, 64, 70] {
            let mut table: Vec<u8> = (0..wide * 5).map(|at| at as u8).collect();
            table.resize(table.len() + PAD, 0);
            let mut copied = vec![7; 999];
            copy_rows(&table, wide, &[4, 0, 4, 2], &mut copied);
            let rows: Vec<u8> =
                [4, 0, 4, 2].iter().flat_map(|row| &table[row * wide..(row + 1) * wide]).copied().collect();
            assert_eq!(copied, [rows.as_slice(), &[0; PAD]].concat());
        }
    }

    #[test]
    fn many_values_are_cut_into_bins_of_about_as_many_rows() {
        let rows = Matrix::of(1, (0..1000).map(|at| (at * 7919 % 1000) as f32).collect()).unwrap();
        let binned = Binned::new(&rows, 10);
        let mut held = [0; 10];
        (0..1000).for_each(|row| held[usize::from(binned.row(row)[0])] += 1);
        assert_eq!(held, [100; 10]);
        // Half of all rows have one value: it has a bin, and the others share the rest.
        let rows = Matrix::of(1, (0..1000).map(|at| if at % 2 == 0 { 0.0 } else { at as f32 }).collect()).unwrap();
        let binned = Binned::new(&rows, 11);
        assert_eq!(binned.cuts[0].len(), 10);
        assert!(binned.cuts[0][0] < 1.0 && binned.cuts[0][1] > 90.0, "{:?}", binned.cuts);
    }

    #[test]
    fn what_teaches_nothing_has_no_cut() {
        let rows = Matrix::of(2, vec![f32::NAN, 5.0, f32::NAN, 5.0]).unwrap();
        let binned = Binned::new(&rows, 255);
        assert!(binned.cuts.iter().all(Vec::is_empty));
        assert_eq!(binned.row(1), [1, 0]);
    }
}
