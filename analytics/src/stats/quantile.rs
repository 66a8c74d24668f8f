//! Exact quantiles of unsorted values, weighted quantiles, and the summary that reports print.
//!
//! Unweighted quantiles are of type 7 (Hyndman and Fan, The American Statistician 50, 1996): with the sorted values
//! x[0..n], `h = q (n - 1)` and `x[floor h] + (h - floor h) (x[floor h + 1] - x[floor h])`. numpy, pandas and DuckDB's
//! `quantile_cont` give the same numbers. Weighted quantiles do not interpolate: the smallest x at which the cumulative
//! weight reaches `q` times the total, so that "half of the GPU time is in jobs up to x" is true as it reads.
//!
//! NaN stands for unknown and is left out. A quantile level outside 0..=1 gives `None`.
//!
//! Complexity: one quantile O(n) by selection; k quantiles O(n log k); weighted O(n log n).
//!
//! Worked number: the 0.9 quantile of 1, 2, 3, 4 has h = 2.7 and is 3 + 0.7 (4 - 3) = 3.7.

use schemars::JsonSchema;
use serde::Serialize;

use super::sum;

/// Type 7 quantile of unsorted values; `None` when there are none or `q` is not in 0..=1.
#[must_use]
pub fn quantile(values: &[f64], q: f64) -> Option<f64> {
    quantiles(values, &[q]).pop().flatten()
}

/// Type 7 quantiles at several levels, in the order of `levels`.
#[must_use]
pub fn quantiles(values: &[f64], levels: &[f64]) -> Vec<Option<f64>> {
    let mut known: Vec<f64> = values.iter().copied().filter(|v| !v.is_nan()).collect();
    quantiles_in_place(&mut known, levels)
}

/// Computes [`quantiles`] without a copy: reorders `values`, which must hold no NaN.
#[must_use]
pub fn quantiles_in_place(values: &mut [f64], levels: &[f64]) -> Vec<Option<f64>> {
    let n = values.len();
    let mut ranks: Vec<usize> = Vec::with_capacity(2 * levels.len());
    for level in levels {
        if let Some((low, _)) = position(n, *level) {
            ranks.push(low);
            ranks.push((low + 1).min(n - 1));
        }
    }
    ranks.sort_unstable();
    ranks.dedup();
    select_ranks(values, &ranks, 0);
    // Only the selected ranks are in place, and those are all that quantile_sorted reads.
    levels.iter().map(|level| quantile_sorted(values, *level)).collect()
}

/// Type 7 quantile of values in ascending order.
#[must_use]
pub fn quantile_sorted(sorted: &[f64], q: f64) -> Option<f64> {
    let (low, fraction) = position(sorted.len(), q)?;
    let a = *sorted.get(low)?;
    let b = sorted.get(low + 1).copied().unwrap_or(a);
    if fraction == 0.0 || a == b {
        return Some(a);
    }
    // Anchored at the nearer end, as numpy does, so that rounding cannot step outside a..=b.
    let value = if fraction < 0.5 { a + (b - a) * fraction } else { b - (b - a) * (1.0 - fraction) };
    Some(value.clamp(a, b))
}

/// Rank below the quantile and the fraction of the way to the next rank.
fn position(n: usize, q: f64) -> Option<(usize, f64)> {
    if n == 0 || !(0.0..=1.0).contains(&q) {
        return None;
    }
    let h = q * (n - 1) as f64;
    let low = (h.floor() as usize).min(n - 1);
    Some((low, h - low as f64))
}

/// Puts each rank of `ranks` (ascending, distinct, counted from `offset`) where a full sort would put it.
fn select_ranks(values: &mut [f64], ranks: &[usize], offset: usize) {
    if ranks.is_empty() || values.len() < 2 {
        return;
    }
    let middle = ranks.len() / 2;
    let at = ranks[middle] - offset;
    let (left, _, right) = values.select_nth_unstable_by(at, f64::total_cmp);
    select_ranks(left, &ranks[..middle], offset);
    select_ranks(right, &ranks[middle + 1..], offset + at + 1);
}

/// Weighted quantile: the smallest value at which the cumulative weight reaches `q` times the total weight.
///
/// Pairs with a NaN value, or with a weight that is not finite and above zero, hold no mass and are left out. `None` when
/// nothing is left, the lengths differ or `q` is not in 0..=1.
#[must_use]
pub fn weighted_quantile(values: &[f64], weights: &[f64], q: f64) -> Option<f64> {
    weighted_quantiles(values, weights, &[q]).pop().flatten()
}

/// Weighted quantiles at several levels, in the order of `levels`.
#[must_use]
pub fn weighted_quantiles(values: &[f64], weights: &[f64], levels: &[f64]) -> Vec<Option<f64>> {
    match super::ecdf::Ecdf::weighted(values, weights) {
        Some(ecdf) => levels.iter().map(|level| ecdf.quantile(*level)).collect(),
        None => vec![None; levels.len()],
    }
}

/// Count, moments and quantiles of one variable, in the unit of the variable.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Summary {
    /// Known values; NaN is not counted.
    pub count: u64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Sample standard deviation (divisor n - 1); absent for a single value.
    pub std: Option<f64>,
    /// Smallest value.
    pub min: f64,
    /// 5 % quantile.
    pub p5: f64,
    /// 10 % quantile.
    pub p10: f64,
    /// Lower quartile.
    pub p25: f64,
    /// Median.
    pub p50: f64,
    /// Upper quartile.
    pub p75: f64,
    /// 90 % quantile.
    pub p90: f64,
    /// 95 % quantile.
    pub p95: f64,
    /// 99 % quantile.
    pub p99: f64,
    /// Largest value.
    pub max: f64,
}

impl Summary {
    /// Summary of the known values; `None` when there are none.
    #[must_use]
    pub fn new(values: &[f64]) -> Option<Self> {
        Self::of_vec(values.to_vec())
    }

    /// Summary of the known values, reusing the vector as work space; `None` when there are none.
    #[must_use]
    pub fn of_vec(mut values: Vec<f64>) -> Option<Self> {
        const LEVELS: [f64; 10] = [0.0, 0.05, 0.10, 0.25, 0.50, 0.75, 0.90, 0.95, 0.99, 1.0];
        values.retain(|v| !v.is_nan());
        // Before the selection reorders them: a sum should depend on the caller's order only.
        let mean = sum::mean(&values)?;
        let std = sum::variance(&values).map(f64::sqrt);
        let count = values.len() as u64;
        let result: Option<Vec<f64>> = quantiles_in_place(&mut values, &LEVELS).into_iter().collect();
        let &[min, p5, p10, p25, p50, p75, p90, p95, p99, max] = result?.as_slice() else {
            return None;
        };
        Some(Self { count, mean, std, min, p5, p10, p25, p50, p75, p90, p95, p99, max })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn type_7_by_hand() {
        // h = 0.9 * 3 = 2.7: 3 + 0.7 * (4 - 3).
        assert!((quantile(&[4.0, 1.0, 3.0, 2.0], 0.9).unwrap() - 3.7).abs() < 1e-12);
        // h = 0.25 * 4 = 1 exactly: the second smallest.
        assert_eq!(quantile(&[50.0, 10.0, 40.0, 20.0, 30.0], 0.25), Some(20.0));
        assert_eq!(quantile(&[7.0], 0.3), Some(7.0));
    }

    #[test]
    fn unknown_and_impossible() {
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(quantile(&[f64::NAN], 0.5), None);
        assert_eq!(quantile(&[1.0], 1.5), None);
        assert_eq!(quantile(&[1.0], f64::NAN), None);
        // Without the NaN: 1, 3 and so 2.
        assert_eq!(quantile(&[1.0, f64::NAN, 3.0], 0.5), Some(2.0));
    }

    #[test]
    fn infinite_values_do_not_make_nan() {
        assert_eq!(quantile(&[1.0, f64::INFINITY, f64::INFINITY], 0.75), Some(f64::INFINITY));
        assert_eq!(quantile(&[1.0, f64::INFINITY], 0.0), Some(1.0));
    }

    #[test]
    fn weighted_by_hand() {
        // Total 10; cumulative 1 (at 1), 3 (at 2), 10 (at 5). Half is 5, first reached at 5; 0.3 * 10 = 3 is reached at 2.
        let values = [5.0, 1.0, 2.0];
        let weights = [7.0, 1.0, 2.0];
        assert_eq!(weighted_quantile(&values, &weights, 0.5), Some(5.0));
        assert_eq!(weighted_quantile(&values, &weights, 0.3), Some(2.0));
        assert_eq!(weighted_quantile(&values, &weights, 0.0), Some(1.0));
        assert_eq!(weighted_quantile(&values, &weights, 1.0), Some(5.0));
        assert_eq!(weighted_quantile(&values, &weights[..2], 0.5), None);
        assert_eq!(weighted_quantile(&[1.0], &[0.0], 0.5), None);
        // The zero-weight 0 and the negative-weight 9 hold no mass.
        assert_eq!(weighted_quantile(&[0.0, 4.0, 9.0], &[0.0, 1.0, -5.0], 0.0), Some(4.0));
    }

    #[test]
    fn summary_by_hand() {
        // 0, 1, ..., 100: every q quantile is 100 q, the mean 50, the variance (101^2 - 1)/12 * 101/100 = 858.5.
        let values: Vec<f64> = (0..=100).rev().map(f64::from).collect();
        let s = Summary::new(&values).unwrap();
        assert_eq!((s.count, s.mean, s.min, s.max), (101, 50.0, 0.0, 100.0));
        assert!((s.std.unwrap() - 858.5_f64.sqrt()).abs() < 1e-12);
        for (got, expected) in [
            (s.p5, 5.0),
            (s.p10, 10.0),
            (s.p25, 25.0),
            (s.p50, 50.0),
            (s.p75, 75.0),
            (s.p90, 90.0),
            (s.p95, 95.0),
            (s.p99, 99.0),
        ] {
            assert!((got - expected).abs() < 1e-9, "{got} instead of {expected}");
        }
        assert_eq!(Summary::new(&[2.0]).unwrap().std, None);
        assert_eq!(Summary::new(&[]), None);
    }

    proptest! {
        #[test]
        fn selection_agrees_with_a_full_sort(mut values in prop::collection::vec(-1e6_f64..1e6, 1..300), levels in prop::collection::vec(0.0_f64..=1.0, 1..12)) {
            let got = quantiles(&values, &levels);
            values.sort_by(f64::total_cmp);
            let expected: Vec<_> = levels.iter().map(|q| quantile_sorted(&values, *q)).collect();
            prop_assert_eq!(got, expected);
        }

        #[test]
        fn quantiles_are_monotone_and_inside(values in prop::collection::vec(-1e300_f64..1e300, 1..60), p in 0.0_f64..=1.0, q in 0.0_f64..=1.0) {
            let (low, high) = (p.min(q), p.max(q));
            let s = Summary::new(&values).unwrap();
            let a = quantile(&values, low).unwrap();
            let b = quantile(&values, high).unwrap();
            prop_assert!(s.min <= a && a <= b && b <= s.max);
        }

        #[test]
        fn equal_weights_give_the_smallest_value_reaching_q(values in prop::collection::vec(-100_i32..100, 1..80), q in 0.0_f64..=1.0) {
            let mut floats: Vec<f64> = values.iter().map(|v| f64::from(*v)).collect();
            let weights = vec![1.0; floats.len()];
            let got = weighted_quantile(&floats, &weights, q).unwrap();
            floats.sort_by(f64::total_cmp);
            let rank = (q * floats.len() as f64).ceil().max(1.0) as usize;
            prop_assert_eq!(got, floats[rank - 1]);
        }
    }
}
