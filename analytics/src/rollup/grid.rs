//! Counts on a regular grid of time, in pages that exist only where something was counted.
//!
//! A lone wrong date therefore costs one page and not the years between. Cells are `i64` and wrap: differences of GPUs
//! may overflow on the way as long as the number in use itself fits.
//!
//! O(1) to add. The directory has one entry for 4096 cells of the whole range of times, 28 KB for a ten-minute grid.
//! Worked number: with a step of 600,000 ms, 00:05 is in cell 0 and its next grid instant is that of cell 1.

use super::value::RANGE_MS;

/// Cells in a page.
const PAGE: usize = 1 << PAGE_BITS;
const PAGE_BITS: u32 = 12;

type Page = Box<[i64; PAGE]>;

/// Counts in cells of `STEP_MS` milliseconds.
#[derive(Debug, Default)]
pub(super) struct Grid<const STEP_MS: i64> {
    pages: Vec<Option<Page>>,
}

impl<const STEP_MS: i64> Grid<STEP_MS> {
    /// Cells before the epoch; a whole number of pages.
    const ORIGIN: i64 = (RANGE_MS / STEP_MS + 1 + PAGE as i64 - 1) / PAGE as i64 * PAGE as i64;

    /// Number of the cell that holds `time_ms`, counted from [`Self::ORIGIN`] cells before the epoch.
    #[inline]
    pub(super) fn cell(time_ms: i64) -> u64 {
        // Never negative for a time in range; unsigned division by a constant is a multiplication.
        ((time_ms + Self::ORIGIN * STEP_MS) as u64) / STEP_MS as u64
    }

    /// Number of the first cell that begins at `time_ms` or later.
    #[inline]
    pub(super) fn cell_from(time_ms: i64) -> u64 {
        Self::cell(time_ms + STEP_MS - 1)
    }

    /// Adds to a cell.
    #[inline]
    pub(super) fn add(&mut self, cell: u64, amount: i64) {
        let page = (cell >> PAGE_BITS) as usize;
        if let Some(Some(cells)) = self.pages.get_mut(page)
            && let Some(count) = cells.get_mut(cell as usize % PAGE)
        {
            *count = count.wrapping_add(amount);
            return;
        }
        self.open(page);
        if let Some(Some(cells)) = self.pages.get_mut(page)
            && let Some(count) = cells.get_mut(cell as usize % PAGE)
        {
            *count = amount;
        }
    }

    #[cold]
    fn open(&mut self, page: usize) {
        if self.pages.len() <= page {
            self.pages.resize(page + 1, None);
        }
        if let Some(slot) = self.pages.get_mut(page) {
            *slot = Some(Box::new([0; PAGE]));
        }
    }

    /// Adds the counts of `other`.
    pub(super) fn merge(&mut self, other: Self) {
        if self.pages.len() < other.pages.len() {
            self.pages.resize(other.pages.len(), None);
        }
        for (mine, theirs) in self.pages.iter_mut().zip(other.pages) {
            match (mine.as_mut(), theirs) {
                (Some(mine), Some(theirs)) => {
                    mine.iter_mut().zip(theirs.iter()).for_each(|(count, more)| *count = count.wrapping_add(*more));
                }
                (None, Some(theirs)) => *mine = Some(theirs),
                (_, None) => {}
            }
        }
    }

    /// Start of the first cell that is not 0 (milliseconds) and the cells from there to the last one that is not 0.
    pub(super) fn cells(&self) -> Option<(i64, Vec<i64>)> {
        let filled = || {
            self.pages.iter().enumerate().filter_map(|(ix, page)| Some((ix, page.as_ref()?))).flat_map(|(ix, page)| {
                page.iter().enumerate().filter(|(_, count)| **count != 0).map(move |(at, _)| ix * PAGE + at)
            })
        };
        let (first, last) = (filled().next()?, filled().last()?);
        let at = |cell: usize| self.pages.get(cell / PAGE)?.as_ref()?.get(cell % PAGE).copied();
        let cells = (first..=last).map(|cell| at(cell).unwrap_or(0)).collect();
        Some(((first as i64 - Self::ORIGIN) * STEP_MS, cells))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    type Ten = Grid<600_000>;

    #[test]
    fn cells_hold_their_beginning_and_not_their_end() {
        let zero = Ten::cell(0);
        assert_eq!([0, 599_999, 600_000, -1, -600_000].map(|t| Ten::cell(t) as i64 - zero as i64), [0, 0, 1, -1, -1]);
        assert_eq!([0, 1, 600_000, -599_999].map(|t| Ten::cell_from(t) as i64 - zero as i64), [0, 1, 1, 0]);
        assert_eq!(Ten::cell(-RANGE_MS) as i64 / PAGE as i64, 0);
    }

    #[test]
    fn pages_far_apart_merge_into_one_series() {
        let (mut a, mut b) = (Ten::default(), Ten::default());
        let far = 600_000 * 10_000;
        a.add(Ten::cell(0), 2);
        b.add(Ten::cell(far), 3);
        b.add(Ten::cell(0), 5);
        a.merge(b);
        let (first_ms, cells) = a.cells().unwrap();
        assert_eq!((first_ms, cells.len(), cells[0], cells[10_000]), (0, 10_001, 7, 3));
        assert_eq!(cells.iter().sum::<i64>(), 10);
        assert_eq!(Ten::default().cells(), None);
    }
}
