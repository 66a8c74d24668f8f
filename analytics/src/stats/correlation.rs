//! Correlation of two variables and of a series with itself.
//!
//! * Pearson: r = Σ (x - x̄)(y - ȳ) / sqrt(Σ (x - x̄)² Σ (y - ȳ)²).
//! * Spearman: Pearson of the ranks, ties sharing their average rank.
//! * Autocorrelation at lag k: Σ_{t < n-k} (x_t - x̄)(x_{t+k} - x̄) / Σ (x_t - x̄)² (Box and Jenkins; the full-series mean and
//!   sum of squares, as R's `acf`), which keeps it in -1..=1.
//!
//! A constant variable has no correlation: `None`. NaN anywhere gives `None`; drop unknown pairs before.
//!
//! Complexity: Pearson and one lag O(n), Spearman O(n log n).
//!
//! Worked number: 1, 2, 3 against 1, 2, 4 gives Pearson 3 / sqrt(2 · 14/3) = 0.982 and Spearman 1.

use super::sum::{NeumaierSum, mean};

/// Pearson correlation; `None` for different lengths, fewer than two pairs, or a constant variable.
#[must_use]
pub fn pearson(x: &[f64], y: &[f64]) -> Option<f64> {
    if x.len() != y.len() || x.len() < 2 {
        return None;
    }
    let (mean_x, mean_y) = (mean(x)?, mean(y)?);
    let (mut xx, mut yy, mut xy) = (NeumaierSum::new(), NeumaierSum::new(), NeumaierSum::new());
    for (a, b) in x.iter().zip(y) {
        let (dx, dy) = (a - mean_x, b - mean_y);
        xx.add(dx * dx);
        yy.add(dy * dy);
        xy.add(dx * dy);
    }
    // Two roots, not the root of the product, which may underflow.
    ratio(xy.value(), xx.value().sqrt() * yy.value().sqrt())
}

/// Spearman rank correlation, average ranks for ties; `None` as for [`pearson`] and when a value is NaN.
#[must_use]
pub fn spearman(x: &[f64], y: &[f64]) -> Option<f64> {
    pearson(&average_ranks(x)?, &average_ranks(y)?)
}

/// Ranks from 1, ties sharing the average of the ranks they cover; `None` when a value is NaN.
#[must_use]
pub fn average_ranks(values: &[f64]) -> Option<Vec<f64>> {
    if values.iter().any(|v| v.is_nan()) {
        return None;
    }
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_unstable_by(|a, b| values[*a].total_cmp(&values[*b]).then(a.cmp(b)));
    let mut ranks = vec![0.0; values.len()];
    let mut before = 0;
    for ties in order.chunk_by(|a, b| values[*a] == values[*b]) {
        // Ranks before + 1 ..= before + k have the mean before + (k + 1) / 2.
        let rank = before as f64 + (ties.len() + 1) as f64 / 2.0;
        for index in ties {
            ranks[*index] = rank;
        }
        before += ties.len();
    }
    Some(ranks)
}

/// Autocorrelation of an evenly spaced series at a lag in steps; `None` for a constant series or a lag not below its length.
#[must_use]
pub fn autocorrelation(series: &[f64], lag: usize) -> Option<f64> {
    if lag >= series.len() {
        return None;
    }
    let mean = mean(series)?;
    let square: NeumaierSum = series.iter().map(|v| (v - mean) * (v - mean)).collect();
    let product: NeumaierSum = series.iter().zip(&series[lag..]).map(|(a, b)| (a - mean) * (b - mean)).collect();
    ratio(product.value(), square.value())
}

/// A correlation from its two halves: `None` where the data do not determine it.
fn ratio(product: f64, square: f64) -> Option<f64> {
    let value = product / square;
    (square > 0.0 && value.is_finite()).then(|| value.clamp(-1.0, 1.0))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn pearson_by_hand() {
        // Means 2 and 7/3; Σdxdy = (-1)(-4/3) + 0 + (1)(5/3) = 3; Σdx² = 2; Σdy² = (16 + 1 + 25)/9 = 14/3.
        let r = pearson(&[1.0, 2.0, 3.0], &[1.0, 2.0, 4.0]).unwrap();
        assert!((r - 3.0 / (2.0_f64 * 14.0 / 3.0).sqrt()).abs() < 1e-12);
        assert_eq!(pearson(&[1.0, 1.0], &[1.0, 2.0]), None);
        assert_eq!(pearson(&[1.0], &[1.0]), None);
        assert_eq!(pearson(&[1.0, 2.0], &[1.0]), None);
        assert_eq!(pearson(&[1.0, f64::NAN], &[1.0, 2.0]), None);
    }

    #[test]
    fn ties_share_their_average_rank() {
        assert_eq!(average_ranks(&[10.0, 20.0, 10.0, 5.0]), Some(vec![2.5, 4.0, 2.5, 1.0]));
        // Ranks 1.5 1.5 3 against 1 2 3: means 2; Σ = (-.5)(-1) + 0 + 1 = 1.5; Σdx² = 1.5; Σdy² = 2; 1.5/sqrt 3.
        let r = spearman(&[1.0, 1.0, 7.0], &[1.0, 2.0, 3.0]).unwrap();
        assert!((r - 1.5 / 3.0_f64.sqrt()).abs() < 1e-12);
        assert_eq!(spearman(&[f64::NAN, 1.0], &[1.0, 2.0]), None);
    }

    #[test]
    fn autocorrelation_by_hand() {
        // 1, -1, 1, -1: mean 0, square sum 4, three products of -1 at lag 1, two of +1 at lag 2.
        let series = [1.0, -1.0, 1.0, -1.0];
        assert_eq!(autocorrelation(&series, 0), Some(1.0));
        assert_eq!(autocorrelation(&series, 1), Some(-0.75));
        assert_eq!(autocorrelation(&series, 2), Some(0.5));
        assert_eq!(autocorrelation(&series, 4), None);
        assert_eq!(autocorrelation(&[2.0, 2.0], 1), None);
    }

    proptest! {
        #[test]
        fn spearman_ignores_monotone_maps(pairs in prop::collection::vec((-20_i32..20, -20_i32..20), 2..60)) {
            let x: Vec<f64> = pairs.iter().map(|p| f64::from(p.0)).collect();
            let y: Vec<f64> = pairs.iter().map(|p| f64::from(p.1)).collect();
            let mapped: Vec<f64> = x.iter().map(|v| v.powi(3) + 5.0).collect();
            let falling: Vec<f64> = x.iter().map(|v| -v).collect();
            let r = spearman(&x, &y);
            prop_assert_eq!(r, spearman(&mapped, &y));
            if let Some(r) = r {
                prop_assert!((-1.0..=1.0).contains(&r));
                prop_assert!((r + spearman(&falling, &y).unwrap()).abs() < 1e-12);
            }
        }
    }
}
