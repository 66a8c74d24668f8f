//! Inequality of a total over its holders: GPU time over users, wait over jobs, load over VCs.
//!
//! With the values sorted ascending, x_1 ≤ ... ≤ x_n, and their sum S:
//! * Lorenz curve: the poorest i of n hold (x_1 + ... + x_i) / S.
//! * Gini coefficient: G = 2 Σ i x_i / (n S) - (n + 1) / n, exactly the area ratio of that curve; 0 when all hold the same,
//!   (n - 1) / n when one holds everything. No small-sample factor n / (n - 1).
//! * Top share: the `ceil(share · n)` largest holders over S. So the top 1 % of 3 users is one user.
//! * Imbalance: coefficient of variation (population form, divisor n), largest over smallest, and Jain's index
//!   S² / (n Σ x²) (Jain, Chiu and Hawe, DEC-TR-301, 1984): 1 when equal, 1/n when one holds everything.
//!
//! NaN stands for unknown and is left out. A negative or infinite value, or a total of 0, makes every measure `None`.
//!
//! Complexity: O(n log n).
//!
//! Worked number: 1, 1, 1, 5 has G = 2 (1 + 2 + 3 + 20) / (4 · 8) - 5/4 = 0.375 and Jain 64 / (4 · 28) = 0.571.

use schemars::JsonSchema;
use serde::Serialize;

use super::{ecdf::thin_indices, sum::NeumaierSum, sum::sum};

/// A point of a Lorenz curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct LorenzPoint {
    /// Share of the holders, poorest first, 0 to 1.
    pub holder_share: f64,
    /// Share of the total that they hold, 0 to 1.
    pub value_share: f64,
}

/// Concentration of a total over its holders.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Concentration {
    /// Holders with a known value, those who hold 0 among them.
    pub holders: u64,
    /// Sum of all holdings, in the unit of the values.
    pub total: f64,
    /// Gini coefficient, 0 (equal) to below 1.
    pub gini: f64,
    /// Share of the total held by the `ceil(1 %)` largest holders.
    pub top_1_percent_share: f64,
    /// Share of the total held by the `ceil(5 %)` largest holders.
    pub top_5_percent_share: f64,
    /// Share of the total held by the `ceil(10 %)` largest holders.
    pub top_10_percent_share: f64,
    /// Lorenz curve, from (0, 0) to (1, 1).
    pub lorenz: Vec<LorenzPoint>,
}

impl Concentration {
    /// Measures one value per holder; at most `max_points` points of the Lorenz curve.
    #[must_use]
    pub fn new(values: &[f64], max_points: usize) -> Option<Self> {
        let sorted = Sorted::new(values)?;
        Some(Self {
            holders: sorted.values.len() as u64,
            total: sorted.total,
            gini: sorted.gini(),
            top_1_percent_share: sorted.top_share(0.01),
            top_5_percent_share: sorted.top_share(0.05),
            top_10_percent_share: sorted.top_share(0.10),
            lorenz: sorted.lorenz(max_points),
        })
    }
}

/// Gini coefficient; `None` where the module text says so.
#[must_use]
pub fn gini(values: &[f64]) -> Option<f64> {
    Some(Sorted::new(values)?.gini())
}

/// Share of the total held by the `ceil(share · n)` largest holders; `share` in 0..=1.
#[must_use]
pub fn top_share(values: &[f64], share: f64) -> Option<f64> {
    if !(0.0..=1.0).contains(&share) {
        return None;
    }
    Some(Sorted::new(values)?.top_share(share))
}

/// Number of holders in the top `share` of `n`: the share rounded up to whole holders.
#[must_use]
pub fn top_count(n: usize, share: f64) -> usize {
    let exact = share * n as f64;
    // 0.07 * 100 is 7.000000000000001 in binary: what lies a rounding error above a whole number is that number.
    let nearest = exact.round();
    let count = if (exact - nearest).abs() <= 1e-9 * exact.abs() { nearest } else { exact.ceil() };
    (count.max(0.0) as usize).min(n)
}

/// Returns at most `max_points` points exactly on the Lorenz curve, (0, 0) and (1, 1) included.
#[must_use]
pub fn lorenz(values: &[f64], max_points: usize) -> Option<Vec<LorenzPoint>> {
    Some(Sorted::new(values)?.lorenz(max_points))
}

/// Known values in ascending order, checked, with their sum.
struct Sorted {
    values: Vec<f64>,
    total: f64,
}

impl Sorted {
    fn new(values: &[f64]) -> Option<Self> {
        let mut values: Vec<f64> = values.iter().copied().filter(|v| !v.is_nan()).collect();
        values.sort_unstable_by(f64::total_cmp);
        let total = sum(&values);
        (values.iter().all(|v| *v >= 0.0) && total.is_finite() && total > 0.0).then_some(Self { values, total })
    }

    fn gini(&self) -> f64 {
        let n = self.values.len() as f64;
        // Σ (2i - n - 1) x_i / (n S) is the same formula without the final cancellation.
        let weighted: NeumaierSum =
            self.values.iter().enumerate().map(|(i, v)| (2.0 * (i + 1) as f64 - n - 1.0) * (v / self.total)).collect();
        (weighted.value() / n).clamp(0.0, (n - 1.0) / n)
    }

    fn top_share(&self, share: f64) -> f64 {
        let skip = self.values.len() - top_count(self.values.len(), share);
        (sum(&self.values[skip..]) / self.total).min(1.0)
    }

    fn lorenz(&self, max_points: usize) -> Vec<LorenzPoint> {
        let n = self.values.len();
        let mut held = NeumaierSum::new();
        let mut value_share = vec![0.0];
        for value in &self.values {
            held.add(*value);
            value_share.push((held.value() / self.total).min(1.0));
        }
        let holder_share: Vec<f64> = (0..=n).map(|i| i as f64 / n as f64).collect();
        thin_indices(&holder_share, &value_share, max_points)
            .into_iter()
            .map(|i| LorenzPoint { holder_share: holder_share[i], value_share: value_share[i] })
            .collect()
    }
}

/// Imbalance between parts that should carry equal load, such as VCs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Imbalance {
    /// Parts with a known value.
    pub parts: u64,
    /// Coefficient of variation: standard deviation (divisor n) over mean.
    pub cov: f64,
    /// Largest over smallest; absent when the smallest is 0.
    pub max_min_ratio: Option<f64>,
    /// Jain's index, 1/n (one part carries everything) to 1 (equal).
    pub jain: f64,
}

impl Imbalance {
    /// Measures one value per part; `None` where the module text says so.
    #[must_use]
    pub fn new(values: &[f64]) -> Option<Self> {
        let sorted = Sorted::new(values)?;
        let n = sorted.values.len() as f64;
        let mean = sorted.total / n;
        // Scaled by the mean, squares neither overflow nor underflow.
        let deviations: NeumaierSum = sorted.values.iter().map(|v| (v / mean - 1.0).powi(2)).collect();
        let cov_squared = deviations.value() / n;
        let (min, max) = (sorted.values.first()?, sorted.values.last()?);
        Some(Self {
            parts: sorted.values.len() as u64,
            cov: cov_squared.sqrt(),
            max_min_ratio: (*min > 0.0).then(|| max / min).filter(|r| r.is_finite()),
            // S² / (n Σ x²) = 1 / (1 + CoV²).
            jain: 1.0 / (1.0 + cov_squared),
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn by_hand() {
        // Sorted 1 1 1 5: cumulative shares 1/8 2/8 3/8 1; the rest is worked in the module text.
        let values = [5.0, 1.0, 1.0, 1.0];
        let c = Concentration::new(&values, 100).unwrap();
        assert!((c.gini - 0.375).abs() < 1e-12);
        assert_eq!((c.holders, c.total), (4, 8.0));
        // ceil(0.01 * 4) = ceil(0.05 * 4) = ceil(0.1 * 4) = 1 user with 5 of 8.
        assert_eq!((c.top_1_percent_share, c.top_5_percent_share, c.top_10_percent_share), (0.625, 0.625, 0.625));
        let curve: Vec<_> = c.lorenz.iter().map(|p| (p.holder_share, p.value_share)).collect();
        assert_eq!(curve, vec![(0.0, 0.0), (0.25, 0.125), (0.5, 0.25), (0.75, 0.375), (1.0, 1.0)]);
        let i = Imbalance::new(&values).unwrap();
        assert!((i.jain - 64.0 / 112.0).abs() < 1e-12);
        // Mean 2, squared deviations 9 + 1 + 1 + 1 = 12, variance 3.
        assert!((i.cov - 3.0_f64.sqrt() / 2.0).abs() < 1e-12);
        assert_eq!(i.max_min_ratio, Some(5.0));
    }

    #[test]
    fn extremes() {
        assert_eq!(gini(&[3.0, 3.0, 3.0]), Some(0.0));
        assert!((gini(&[0.0, 0.0, 0.0, 9.0]).unwrap() - 0.75).abs() < 1e-12);
        assert_eq!(gini(&[0.0, 0.0]), None);
        assert_eq!(gini(&[-1.0, 2.0]), None);
        assert_eq!(gini(&[]), None);
        assert_eq!(Imbalance::new(&[0.0, 4.0]).unwrap().max_min_ratio, None);
        assert!((Imbalance::new(&[0.0, 4.0]).unwrap().jain - 0.5).abs() < 1e-12);
    }

    #[test]
    fn top_counts_round_up_whole_holders_only() {
        assert_eq!(top_count(100, 0.01), 1);
        assert_eq!(top_count(100, 0.07), 7);
        assert_eq!(top_count(101, 0.01), 2);
        assert_eq!(top_count(3, 0.01), 1);
        assert_eq!(top_count(3, 0.0), 0);
        assert_eq!(top_count(3, 1.0), 3);
        // Of 20 users with 1 ... 20, the top 10 % are 20 and 19 of 210.
        let values: Vec<f64> = (1..=20).map(f64::from).collect();
        assert!((top_share(&values, 0.1).unwrap() - 39.0 / 210.0).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn gini_is_the_mean_difference_and_below_one(values in prop::collection::vec(0.0_f64..1e6, 1..60)) {
            prop_assume!(values.iter().sum::<f64>() > 0.0);
            let n = values.len() as f64;
            let g = gini(&values).unwrap();
            prop_assert!((0.0..1.0).contains(&g));
            // The definition by pairs: mean absolute difference over twice the mean.
            let pairs: f64 = values.iter().flat_map(|a| values.iter().map(move |b| (a - b).abs())).sum();
            prop_assert!((g - pairs / (2.0 * n * values.iter().sum::<f64>())).abs() < 1e-9);
        }

        #[test]
        fn lorenz_is_convex_below_the_diagonal(values in prop::collection::vec(0.0_f64..1e3, 2..120), max_points in 2_usize..50) {
            prop_assume!(values.iter().sum::<f64>() > 0.0);
            let curve = lorenz(&values, max_points).unwrap();
            prop_assert!(curve.len() <= max_points);
            prop_assert_eq!((curve[0].holder_share, curve[0].value_share), (0.0, 0.0));
            prop_assert_eq!(curve.last().unwrap().holder_share, 1.0);
            for point in &curve {
                prop_assert!(point.value_share <= point.holder_share + 1e-12);
            }
        }
    }
}
