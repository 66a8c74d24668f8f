//! Sums that do not lose small terms beside large ones, and the mean and variance built on them.
//!
//! Neumaier's variant of Kahan's summation (A. Neumaier, ZAMM 54, 1974): beside the running sum `s` it keeps the sum `c`
//! of what each addition rounded away, and reports `s + c`. The error bound no longer grows with the number of terms.
//! O(n) time, O(1) memory.
//!
//! Worked number: 1 + 1e100 + 1 - 1e100 is 0 in plain `f64` arithmetic and 2 here.

use std::borrow::Borrow;

/// A running compensated sum.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct NeumaierSum {
    sum: f64,
    compensation: f64,
}

impl NeumaierSum {
    /// The empty sum, 0.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one term.
    #[inline]
    pub fn add(&mut self, term: f64) {
        let next = self.sum + term;
        if self.sum.abs() >= term.abs() {
            self.compensation += (self.sum - next) + term;
        } else {
            self.compensation += (term - next) + self.sum;
        }
        self.sum = next;
    }

    /// Adds another running sum. Merge partial sums in a fixed order where the last bit matters.
    pub fn merge(&mut self, other: Self) {
        self.add(other.sum);
        self.compensation += other.compensation;
    }

    /// The sum so far.
    #[inline]
    #[must_use]
    pub fn value(self) -> f64 {
        // Once the sum overflows, the compensation is inf - inf: the plain sum says more.
        if self.sum.is_finite() { self.sum + self.compensation } else { self.sum }
    }
}

impl FromIterator<f64> for NeumaierSum {
    fn from_iter<I: IntoIterator<Item = f64>>(terms: I) -> Self {
        let mut total = Self::new();
        for term in terms {
            total.add(term);
        }
        total
    }
}

/// Compensated sum of a slice; 0 for an empty one.
#[must_use]
pub fn sum(values: &[f64]) -> f64 {
    values.iter().copied().collect::<NeumaierSum>().value()
}

/// Mean of a slice or of an iterator, by a compensated sum; `None` of no values.
#[must_use]
pub fn mean(values: impl IntoIterator<Item: Borrow<f64>>) -> Option<f64> {
    let (mut sum, mut count) = (NeumaierSum::new(), 0_usize);
    for value in values {
        sum.add(*value.borrow());
        count += 1;
    }
    (count > 0).then(|| sum.value() / count as f64)
}

/// `part / whole`, `None` if the whole is zero.
pub fn share(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

/// Sample variance (divisor n - 1), by two passes; `None` for fewer than two values.
#[must_use]
pub fn variance(values: &[f64]) -> Option<f64> {
    let mean = mean(values)?;
    if values.len() < 2 {
        return None;
    }
    let squares: NeumaierSum = values.iter().map(|v| (v - mean) * (v - mean)).collect();
    Some(squares.value() / (values.len() - 1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn keeps_small_terms_beside_large_ones() {
        // 1 + 1e100 + 1 - 1e100 = 2 exactly; plain addition absorbs both ones and gives 0.
        assert_eq!(sum(&[1.0, 1e100, 1.0, -1e100]), 2.0);
        assert_eq!([1.0, 1e100, 1.0, -1e100].iter().sum::<f64>(), 0.0);
    }

    #[test]
    fn overflow_is_infinite_not_nan() {
        assert_eq!(sum(&[f64::MAX, f64::MAX]), f64::INFINITY);
    }

    #[test]
    fn mean_and_variance_by_hand() {
        // Mean of 2, 4, 4, 4, 5, 5, 7, 9 is 40/8 = 5; squared deviations 9+1+1+1+0+0+4+16 = 32; 32/7.
        let values = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        assert_eq!(mean(values), Some(5.0));
        assert!((variance(&values).unwrap_or(0.0) - 32.0 / 7.0).abs() < 1e-12);
        assert_eq!(mean([0.0; 0]), None);
        assert_eq!(variance(&[3.0]), None);
    }

    proptest! {
        #[test]
        fn sums_of_integers_are_exact_and_merge(values in prop::collection::vec(-1_000_000_i64..1_000_000, 0..200), cut in 0_usize..200) {
            let floats: Vec<f64> = values.iter().map(|v| *v as f64).collect();
            let cut = cut.min(floats.len());
            let mut left: NeumaierSum = floats[..cut].iter().copied().collect();
            left.merge(floats[cut..].iter().copied().collect());
            let exact = values.iter().sum::<i64>() as f64;
            prop_assert_eq!(sum(&floats), exact);
            prop_assert_eq!(left.value(), exact);
        }
    }
}
