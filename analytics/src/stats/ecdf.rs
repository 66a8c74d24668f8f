//! Empirical distribution functions, optionally weighted, and their thinning for plots.
//!
//! F(x) is the share of the mass (of values, or of weight) at values up to and including x. Not for censored values: see
//! [`survival`](super::survival).
//!
//! Complexity: O(n log n) to build, O(log n) for one evaluation, O(N log n) to thin to N points.
//!
//! Worked number: for 1, 1, 2, 4 F(1) = 0.5, F(3) = 0.75; weighted by 1, 1, 2, 4 F(1) = 0.25, F(3) = 0.5.

use schemars::JsonSchema;
use serde::Serialize;

use super::sum::NeumaierSum;

/// A point of a distribution or survival curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct CurvePoint {
    /// Value, in the unit of the variable.
    pub x: f64,
    /// Height of the curve at `x`, 0 to 1.
    pub fraction: f64,
}

/// An empirical distribution function.
#[derive(Debug, Clone, PartialEq)]
pub struct Ecdf {
    /// Distinct values, ascending.
    values: Vec<f64>,
    /// Mass up to and including the value of the same index.
    cumulative: Vec<f64>,
}

impl Ecdf {
    /// Distribution of the values; NaN stands for unknown and is left out. `None` when nothing is left.
    #[must_use]
    pub fn new(values: &[f64]) -> Option<Self> {
        let pairs = values.iter().filter(|v| !v.is_nan()).map(|v| (*v, 1.0)).collect();
        Self::from_pairs(pairs)
    }

    /// Distribution of the weight over the values. Pairs with a NaN value, or with a weight that is not finite and above
    /// zero, are left out. `None` when nothing is left or the lengths differ.
    #[must_use]
    pub fn weighted(values: &[f64], weights: &[f64]) -> Option<Self> {
        if values.len() != weights.len() {
            return None;
        }
        let pairs = values
            .iter()
            .copied()
            .zip(weights.iter().copied())
            .filter(|(v, w)| !v.is_nan() && w.is_finite() && *w > 0.0)
            .collect();
        Self::from_pairs(pairs)
    }

    fn from_pairs(mut pairs: Vec<(f64, f64)>) -> Option<Self> {
        // By weight too, so that the rounding of the sums does not depend on the order of the input.
        pairs.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let mut ecdf = Self { values: Vec::new(), cumulative: Vec::new() };
        let mut mass = NeumaierSum::new();
        for (value, weight) in pairs {
            mass.add(weight);
            // `==`, not total_cmp: 0.0 and -0.0 are one value.
            if ecdf.values.last().is_some_and(|last| *last == value) {
                if let Some(last) = ecdf.cumulative.last_mut() {
                    *last = mass.value();
                }
            } else {
                ecdf.values.push(value);
                ecdf.cumulative.push(mass.value());
            }
        }
        ecdf.total().is_some_and(f64::is_finite).then_some(ecdf)
    }

    fn total(&self) -> Option<f64> {
        self.cumulative.last().copied()
    }

    /// Share of the mass at values up to and including `x`; 0 for NaN.
    #[must_use]
    pub fn fraction_at_most(&self, x: f64) -> f64 {
        self.share_before(self.values.partition_point(|v| *v <= x))
    }

    /// Share of the mass at values strictly below `x`; 0 for NaN.
    #[must_use]
    pub fn fraction_below(&self, x: f64) -> f64 {
        self.share_before(self.values.partition_point(|v| *v < x))
    }

    fn share_before(&self, index: usize) -> f64 {
        let mass = index.checked_sub(1).and_then(|i| self.cumulative.get(i));
        match (mass, self.total()) {
            (Some(mass), Some(total)) => mass / total,
            _ => 0.0,
        }
    }

    /// [`Ecdf::fraction_at_most`] at each threshold.
    #[must_use]
    pub fn evaluate(&self, thresholds: &[f64]) -> Vec<f64> {
        thresholds.iter().map(|x| self.fraction_at_most(*x)).collect()
    }

    /// Smallest value at which the cumulative mass reaches `q` of the total; `None` when `q` is not in 0..=1.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Option<f64> {
        if !(0.0..=1.0).contains(&q) {
            return None;
        }
        let target = q * self.total()?;
        let index = self.cumulative.partition_point(|mass| *mass < target);
        self.values.get(index).or(self.values.last()).copied()
    }

    /// Number of distinct values.
    #[must_use]
    pub fn distinct(&self) -> usize {
        self.values.len()
    }

    /// Returns at most `max_points` points exactly on the curve, ascending, with the first and the
    /// last step among them.
    ///
    /// Half of the points are spread evenly over the height of the curve and half evenly over the axis (in log x when all
    /// values are positive), so that neither a steep rise nor a thin tail loses its shape.
    #[must_use]
    pub fn thin(&self, max_points: usize) -> Vec<CurvePoint> {
        thin_indices(&self.values, &self.cumulative, max_points)
            .into_iter()
            .map(|i| CurvePoint { x: self.values[i], fraction: self.share_before(i + 1) })
            .collect()
    }
}

/// Indices of at most `max_points` of the points (`x` ascending, `height` ascending), first and last included.
pub(crate) fn thin_indices(x: &[f64], height: &[f64], max_points: usize) -> Vec<usize> {
    let n = x.len().min(height.len());
    if n <= max_points {
        return (0..n).collect();
    }
    if max_points < 2 {
        return (n - max_points..n).collect();
    }
    let inner = max_points - 2;
    let by_height = inner.div_ceil(2);
    let by_axis = inner - by_height;
    let mut keep = vec![0, n - 1];
    let at = |low: f64, high: f64, k: usize, steps: usize| low + (high - low) * (k + 1) as f64 / (steps + 1) as f64;
    for k in 0..by_height {
        let target = at(height[0], height[n - 1], k, by_height);
        keep.push(height[..n].partition_point(|h| *h < target).min(n - 1));
    }
    let log = x[0] > 0.0;
    let axis = |v: f64| if log { v.ln() } else { v };
    for k in 0..by_axis {
        let target = at(axis(x[0]), axis(x[n - 1]), k, by_axis);
        keep.push(x[..n].partition_point(|v| axis(*v) < target).min(n - 1));
    }
    keep.sort_unstable();
    keep.dedup();
    keep
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn by_hand() {
        let plain = Ecdf::new(&[4.0, 1.0, 2.0, 1.0, f64::NAN]).unwrap();
        // Two of four are at most 1, three of four at most 3, none below 1.
        assert_eq!(plain.evaluate(&[0.5, 1.0, 3.0, 4.0]), vec![0.0, 0.5, 0.75, 1.0]);
        assert_eq!(plain.fraction_below(1.0), 0.0);
        assert_eq!(plain.fraction_below(4.0), 0.75);
        assert_eq!(plain.quantile(0.5), Some(1.0));
        assert_eq!(plain.quantile(0.51), Some(2.0));
        let weighted = Ecdf::weighted(&[4.0, 1.0, 2.0, 1.0], &[4.0, 1.0, 2.0, 1.0]).unwrap();
        // Weight 2 of 8 is at 1, 4 of 8 up to 3.
        assert_eq!(weighted.evaluate(&[1.0, 3.0]), vec![0.25, 0.5]);
        assert!(Ecdf::new(&[]).is_none());
        assert!(Ecdf::weighted(&[1.0], &[]).is_none());
    }

    #[test]
    fn both_zeros_are_one_value() {
        assert_eq!(Ecdf::new(&[0.0, -0.0]).unwrap().distinct(), 1);
    }

    #[test]
    fn thinning_keeps_the_tail() {
        // 1 000 values at 1..=1000 and one at 1e9. Of 18 inner points 9 lie evenly in log x, at the first values from
        // 1e9^(1/10) = 7.94 and 1e9^(2/10) = 63.1 on; those even in height begin at about 100.
        let mut values: Vec<f64> = (1..=1000).map(f64::from).collect();
        values.push(1e9);
        let points = Ecdf::new(&values).unwrap().thin(20);
        assert!(points.len() <= 20);
        assert_eq!(points.last().unwrap().x, 1e9);
        let low: Vec<f64> = points.iter().map(|p| p.x).filter(|x| *x < 100.0).collect();
        assert_eq!(low, vec![1.0, 8.0, 64.0]);
        assert_eq!(Ecdf::new(&values).unwrap().thin(1).len(), 1);
        assert!(Ecdf::new(&values).unwrap().thin(0).is_empty());
    }

    proptest! {
        #[test]
        fn thinned_points_lie_on_the_curve(values in prop::collection::vec(-50_i32..50, 1..200), max_points in 2_usize..40) {
            let values: Vec<f64> = values.into_iter().map(f64::from).collect();
            let ecdf = Ecdf::new(&values).unwrap();
            let points = ecdf.thin(max_points);
            prop_assert!(points.len() <= max_points);
            prop_assert_eq!(points.last().unwrap().fraction, 1.0);
            prop_assert!(points.windows(2).all(|w| w[0].x < w[1].x && w[0].fraction < w[1].fraction));
            for point in points {
                let exact = values.iter().filter(|v| **v <= point.x).count() as f64 / values.len() as f64;
                prop_assert_eq!(point.fraction, exact);
            }
        }
    }
}
