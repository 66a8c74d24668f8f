//! A mergeable histogram with logarithmic bins, for data too big to sort: quantiles of 100 million rows in 64 KiB.
//!
//! A bin is the exponent of the value and the top 7 bits of its mantissa, read straight from the `f64` bits: 128 bins of
//! equal width per factor of two, so adding costs a shift and an increment and no logarithm (the layout of HdrHistogram,
//! with the bits of the float in place of leading-zero counts). A bin is at most 1/128 of its lower edge wide and a
//! quantile is reported as the middle of its bin, so **it is within 2^-8 = 0.39 % of the exact value**, whatever the data.
//!
//! Covered are 0, which has a bin of its own and is exact, and 2^-20 (about 1e-6) to 2^44 (about 1.8e13: 557 years in ms).
//! Smaller positive values fall into the lowest bin and larger ones into the highest; the exact minimum and maximum are
//! kept. Negative, infinite and NaN values are counted as rejected and otherwise left out.
//!
//! Counts and weights are integers, so merging is exact, in any order and on any number of threads: scale a fractional
//! weight first (GPU milliseconds, not GPU hours). Counts saturate at `u64::MAX` per bin.
//!
//! Complexity: O(1) to add, O(8192) to merge or to read a quantile; 64 KiB per histogram.
//!
//! Worked number: 1000 = 2^9 · 1.953125 has mantissa bits floor(0.953125 · 128) = 122 and lies in [1000, 1004), which
//! reads back as 1002.

use super::ecdf::{CurvePoint, thin_indices};
use super::sum::NeumaierSum;

/// Mantissa bits that choose the bin within a factor of two.
const MANTISSA_BITS: u32 = 7;
/// Shift that leaves the exponent and those bits of a positive `f64`.
const SHIFT: u32 = f64::MANTISSA_DIGITS - 1 - MANTISSA_BITS;
/// Smallest covered power of two.
const MIN_EXPONENT: i64 = -20;
/// Covered powers of two.
const OCTAVES: usize = 64;
/// Bins of positive values.
const BINS: usize = OCTAVES << MANTISSA_BITS;
/// Key of the lowest bin: its biased exponent and zero mantissa bits.
const FIRST_KEY: u64 = ((1023 + MIN_EXPONENT) as u64) << MANTISSA_BITS;

/// A histogram of values of 0 or more, with integer weights.
#[derive(Debug, Clone, PartialEq)]
pub struct LogHistogram {
    zeros: u64,
    bins: Box<[u64]>,
    rejected: u64,
    /// Smallest and largest accepted value; infinite while empty.
    min: f64,
    max: f64,
}

impl Default for LogHistogram {
    fn default() -> Self {
        Self::new()
    }
}

impl LogHistogram {
    /// Bound of the relative error of a quantile within the covered range.
    pub const RELATIVE_ERROR: f64 = 1.0 / (2 << MANTISSA_BITS) as f64;

    /// An empty histogram.
    #[must_use]
    pub fn new() -> Self {
        Self {
            zeros: 0,
            bins: vec![0; BINS].into_boxed_slice(),
            rejected: 0,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
        }
    }

    /// Adds one value, in any unit.
    #[inline]
    pub fn add(&mut self, value: f64) {
        self.add_weighted(value, 1);
    }

    /// Adds one integer value, such as milliseconds. Above 2^53 it is rounded, far below the bin width.
    #[inline]
    pub fn add_i64(&mut self, value: i64) {
        self.add_weighted(value as f64, 1);
    }

    /// Adds a value that counts `weight` times. A weight of 0 changes nothing.
    #[inline]
    pub fn add_weighted(&mut self, value: f64, weight: u64) {
        if weight == 0 {
            return;
        }
        if value > 0.0 && value < f64::INFINITY {
            let key = value.to_bits() >> SHIFT;
            let index = (key.saturating_sub(FIRST_KEY) as usize).min(BINS - 1);
            if let Some(bin) = self.bins.get_mut(index) {
                *bin = bin.saturating_add(weight);
            }
        } else if value == 0.0 {
            self.zeros = self.zeros.saturating_add(weight);
        } else {
            self.rejected = self.rejected.saturating_add(weight);
            return;
        }
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Adds all that another histogram holds.
    pub fn merge(&mut self, other: &Self) {
        self.zeros = self.zeros.saturating_add(other.zeros);
        self.rejected = self.rejected.saturating_add(other.rejected);
        for (bin, more) in self.bins.iter_mut().zip(&other.bins) {
            *bin = bin.saturating_add(*more);
        }
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Total weight of the accepted values: their number when every weight is 1.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.bins.iter().fold(self.zeros, |total, bin| total.saturating_add(*bin))
    }

    /// Total weight of the zeros.
    #[must_use]
    pub fn zeros(&self) -> u64 {
        self.zeros
    }

    /// Total weight of the negative, infinite and NaN values, which are in no bin.
    #[must_use]
    pub fn rejected(&self) -> u64 {
        self.rejected
    }

    /// Smallest accepted value, exact; `None` when empty.
    #[must_use]
    pub fn min(&self) -> Option<f64> {
        self.min.is_finite().then_some(self.min)
    }

    /// Largest accepted value, exact; `None` when empty.
    #[must_use]
    pub fn max(&self) -> Option<f64> {
        self.max.is_finite().then_some(self.max)
    }

    /// Estimate of the smallest value at which the cumulative weight reaches `q` of the total, within
    /// [`LogHistogram::RELATIVE_ERROR`]. `None` when empty or `q` is not in 0..=1.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let (min, max) = (self.min()?, self.max()?);
        if !(0.0..=1.0).contains(&q) {
            return None;
        }
        let rank = (q * self.count() as f64).ceil().max(1.0);
        if rank <= self.zeros as f64 {
            return Some(0.0);
        }
        let mut seen = self.zeros;
        for (index, bin) in self.bins.iter().enumerate() {
            seen = seen.saturating_add(*bin);
            if *bin > 0 && seen as f64 >= rank {
                return Some(middle(index).clamp(min, max));
            }
        }
        Some(max)
    }

    /// Estimate of the weighted mean from the middles of the bins, within [`LogHistogram::RELATIVE_ERROR`]; `None` when empty.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        let total: NeumaierSum = self
            .bins
            .iter()
            .enumerate()
            .filter(|(_, bin)| **bin > 0)
            .map(|(index, bin)| middle(index).clamp(self.min, self.max) * *bin as f64)
            .collect();
        let count = self.count();
        (count > 0).then(|| total.value() / count as f64)
    }

    /// Non-empty bins of positive values, ascending: lower edge (included), upper edge (excluded), weight.
    pub fn bins(&self) -> impl Iterator<Item = (f64, f64, u64)> + '_ {
        self.bins
            .iter()
            .enumerate()
            .filter(|(_, bin)| **bin > 0)
            .map(|(index, bin)| (edge(index), edge(index + 1), *bin))
    }

    /// At most `max_points` points of the distribution function. They lie at upper bin edges, where the share of the values
    /// below the edge is exact, and at 0 when there are zeros.
    #[must_use]
    pub fn cumulative(&self, max_points: usize) -> Vec<CurvePoint> {
        let total = self.count() as f64;
        let (mut x, mut share) = (Vec::new(), Vec::new());
        if self.zeros > 0 {
            x.push(0.0);
            share.push(self.zeros as f64 / total);
        }
        let mut seen = self.zeros;
        for (_, upper, weight) in self.bins() {
            seen = seen.saturating_add(weight);
            x.push(upper);
            share.push(seen as f64 / total);
        }
        thin_indices(&x, &share, max_points).into_iter().map(|i| CurvePoint { x: x[i], fraction: share[i] }).collect()
    }
}

/// Lower edge of a bin.
fn edge(index: usize) -> f64 {
    f64::from_bits((FIRST_KEY + index as u64) << SHIFT)
}

/// Middle of a bin.
fn middle(index: usize) -> f64 {
    0.5 * (edge(index) + edge(index + 1))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bins_by_hand() {
        let mut h = LogHistogram::new();
        h.add_i64(1000);
        // 2^9 · (1 + 122/128) = 512 + 488 = 1000 and 512 + 492 = 1004.
        assert_eq!(h.bins().collect::<Vec<_>>(), vec![(1000.0, 1004.0, 1)]);
        // One value only: the middle, 1002, is clamped to the exact maximum.
        assert_eq!(h.quantile(0.5), Some(1000.0));
        h.add_i64(1003);
        h.add_i64(2000);
        // Rank ceil(0.5 · 3) = 2 is in [1000, 1004).
        assert_eq!(h.quantile(0.5), Some(1002.0));
        assert_eq!((h.min(), h.max(), h.count()), (Some(1000.0), Some(2000.0), 3));
    }

    #[test]
    fn zeros_are_exact_and_the_impossible_is_counted() {
        let mut h = LogHistogram::new();
        assert_eq!((h.quantile(0.5), h.mean(), h.min()), (None, None, None));
        for value in [0.0, 0.0, 0.0, 8.0, -1.0, f64::NAN, f64::INFINITY] {
            h.add(value);
        }
        assert_eq!((h.count(), h.zeros(), h.rejected()), (4, 3, 3));
        assert_eq!(h.quantile(0.75), Some(0.0));
        assert_eq!(h.quantile(0.76), Some(8.0));
        assert_eq!(h.mean(), Some(2.0));
        assert_eq!(h.quantile(-0.1), None);
        // 3 of 4 at 0, all below the upper edge 8 · (1 + 1/128).
        let points = h.cumulative(10);
        assert_eq!((points[0].x, points[0].fraction), (0.0, 0.75));
        assert_eq!((points[1].x, points[1].fraction), (8.0625, 1.0));
    }

    #[test]
    fn out_of_range_values_keep_their_rank_and_the_exact_extremes() {
        let mut h = LogHistogram::new();
        for value in [1e-300, 5e-324, 1.0, 1e300, i64::MAX as f64] {
            h.add(value);
        }
        assert_eq!(h.count(), 5);
        assert_eq!(h.quantile(0.6), Some(1.0 + 1.0 / 256.0));
        assert_eq!((h.min(), h.max()), (Some(5e-324), Some(1e300)));
    }

    proptest! {
        #[test]
        fn quantiles_are_within_the_stated_error(values in prop::collection::vec((0_i64..50, 0_u32..44).prop_map(|(m, e)| m << (e / 2) << (e / 3)), 1..300), q in 0.0_f64..=1.0) {
            let mut h = LogHistogram::new();
            for value in &values {
                h.add_i64(*value);
            }
            let mut sorted = values;
            sorted.sort_unstable();
            let rank = (q * sorted.len() as f64).ceil().max(1.0) as usize;
            let exact = sorted[rank - 1] as f64;
            let got = h.quantile(q).unwrap();
            prop_assert!((got - exact).abs() <= LogHistogram::RELATIVE_ERROR * exact, "{} for {}", got, exact);
        }

        #[test]
        fn a_value_lies_in_its_bin(value in 1e-6_f64..1e13) {
            let mut h = LogHistogram::new();
            h.add(value);
            let (lower, upper, _) = h.bins().next().unwrap();
            prop_assert!(lower <= value && value < upper);
            prop_assert!((upper - lower) / lower <= 1.0 / 128.0);
        }

        #[test]
        fn merging_is_adding_in_any_order(list in prop::collection::vec((0.0_f64..1e9, 0_u64..5), 0..200), cut in 0_usize..200) {
            let cut = cut.min(list.len());
            let (mut whole, mut left, mut right) = (LogHistogram::new(), LogHistogram::new(), LogHistogram::new());
            for (value, weight) in &list {
                whole.add_weighted(*value, *weight);
            }
            for (value, weight) in &list[..cut] {
                left.add_weighted(*value, *weight);
            }
            for (value, weight) in list[cut..].iter().rev() {
                right.add_weighted(*value, *weight);
            }
            right.merge(&left);
            prop_assert_eq!(&whole, &right);
            prop_assert_eq!(whole.count(), list.iter().map(|p| p.1).sum::<u64>());
        }
    }
}
