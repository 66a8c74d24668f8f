//! Durations in log-linear bins: mergeable, integer only, with a bounded relative error.
//!
//! Values below 128 ms have a bin each; above, every power of two is cut into 64 bins of equal width (the layout of
//! `HdrHistogram`). A bin [lo, lo + w) has w ≤ lo / 64, so its middle is within w / 2 ≤ lo / 128 of any value in it:
//! [`Histogram::ERROR_RATIO`]. The bin that holds an order statistic is found exactly.
//!
//! O(1) to add, O(bins) for a quantile; at most 2,496 bins for the 139 years a duration can have.
//! Worked number: 1,000 ms is in bin [1000, 1008) and is told as 1,003.5 ms, 0.35 % off.

/// Bins in a power of two.
const PARTS: u64 = 1 << PART_BITS;
const PART_BITS: u32 = 6;

/// Counts of durations in log-linear bins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Histogram {
    count: u64,
    bins: Vec<u64>,
}

impl Histogram {
    /// Largest relative distance between a quantile told here and the exact order statistic.
    pub const ERROR_RATIO: f64 = 1.0 / 128.0;

    /// Counts a duration, milliseconds.
    #[inline]
    pub fn add(&mut self, value_ms: u64) {
        let ix = bin(value_ms);
        self.count += 1;
        match self.bins.get_mut(ix) {
            Some(bin) => *bin += 1,
            None => self.grow_and_add(ix),
        }
    }

    #[cold]
    fn grow_and_add(&mut self, ix: usize) {
        self.bins.resize((ix + 1).next_multiple_of(PARTS as usize), 0);
        if let Some(bin) = self.bins.get_mut(ix) {
            *bin += 1;
        }
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        if self.bins.len() < other.bins.len() {
            self.bins.resize(other.bins.len(), 0);
        }
        for (bin, more) in self.bins.iter_mut().zip(&other.bins) {
            *bin += more;
        }
    }

    /// Durations counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The smallest value that at least `percent` of the durations do not exceed (the ⌈n·percent/100⌉-th), milliseconds,
    /// within [`Histogram::ERROR_RATIO`]. `None` without durations.
    pub fn quantile_ms(&self, percent: u8) -> Option<f64> {
        if self.count == 0 {
            return None;
        }
        // In 128 bits, as a count times a hundred may not fit in 64.
        let rank = (u128::from(self.count) * u128::from(percent)).div_ceil(100).max(1);
        let mut seen = 0u128;
        let ix = self.bins.iter().position(|count| {
            seen += u128::from(*count);
            seen >= rank
        })?;
        let (low, width) = bounds(ix as u64);
        Some(low as f64 + (width - 1) as f64 / 2.0)
    }
}

#[inline]
fn bin(value: u64) -> usize {
    let shift = (63 - (value | PARTS).leading_zeros()) - PART_BITS;
    (u64::from(shift) * PARTS + (value >> shift)) as usize
}

/// Lowest value of a bin and the number of values it holds.
fn bounds(ix: u64) -> (u64, u64) {
    let shift = (ix / PARTS).saturating_sub(1);
    ((ix - shift * PARTS) << shift, 1 << shift)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_contiguous_and_narrow() {
        let mut expected = 0;
        for ix in 0..2_496 {
            let (low, width) = bounds(ix);
            assert_eq!(low, expected, "bin {ix} begins where the one before ends");
            assert_eq!((bin(low), bin(low + width - 1)), (ix as usize, ix as usize));
            assert!(width == 1 || width * 64 <= low);
            expected = low + width;
        }
        // 39 powers of two above 64 and the first 64 values: 2^44 ms is past any duration, 2 · 2^42 ms.
        assert_eq!(expected, 1 << 44);
    }

    #[test]
    fn a_second_is_told_as_the_middle_of_its_bin() {
        let mut histogram = Histogram::default();
        histogram.add(1_000);
        // 1000 has its highest bit at 512 = 2^9, so bins are 2^(9-6) = 8 wide: [1000, 1008), middle 1003.5.
        assert_eq!(histogram.quantile_ms(50), Some(1_003.5));
    }

    #[test]
    fn quantiles_are_lower_order_statistics() {
        let mut histogram = Histogram::default();
        (1..=10).for_each(|value| histogram.add(value));
        // ⌈10·0.5⌉ = 5th, ⌈10·0.9⌉ = 9th, ⌈10·0.99⌉ = 10th; values below 128 are exact.
        assert_eq!([50, 90, 99].map(|p| histogram.quantile_ms(p).unwrap()), [5.0, 9.0, 10.0]);
        assert_eq!(Histogram::default().quantile_ms(50), None);
    }

    #[test]
    fn merging_is_adding() {
        let (mut a, mut b, mut both) = (Histogram::default(), Histogram::default(), Histogram::default());
        for value in [0, 5, 130, 9_000_000] {
            a.add(value);
            both.add(value);
        }
        b.add(70);
        both.add(70);
        b.merge(&a);
        assert_eq!((b.count(), b.quantile_ms(50)), (5, both.quantile_ms(50)));
    }
}
