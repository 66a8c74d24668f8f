//! Scores of predicted run times: errors, quantiles, intervals, order; and the Brier score of any
//! chances.
//!
//! With y the natural log of a run and q a predicted quantile of level a, the **pinball** loss is max(a (y − q), (a − 1)(y − q)), averaged.
//! **Coverage** of an interval is the share of runs within it, its **width** the ratio of its ends, as the median over jobs. **Spearman** is the
//! correlation of ranks (ties share their mean rank), **Kendall** τ-b that of pairs. **R²** is one less the squared error of log runs over that
//! of their mean.
//!
//! O(n log n). Worked example: y = 2 and q₀.₉ = 1: the loss is 0.9 × 1; with q₀.₉ = 3 it is 0.1 × 1.

use serde::Serialize;
use tracecast_analytics::stats::quantile::quantile;

/// Pinball loss at 10, 50 and 90 %.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Pinball {
    #[allow(missing_docs)]
    pub p10: f64,
    #[allow(missing_docs)]
    pub p50: f64,
    #[allow(missing_docs)]
    pub p90: f64,
}

/// Prediction for one job, on the log scale, and its run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scored {
    /// Log of the run.
    pub y: f64,
    /// The one number predicted, log seconds.
    pub point: f64,
    /// Quantiles of 5, 10, 50, 90 and 95 %, log seconds.
    pub quantiles: [f64; 5],
}

/// Scores of predictions, over some jobs.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Score {
    /// Jobs scored.
    pub jobs: usize,
    /// Mean absolute error of the predicted median, seconds.
    pub mae_s: f64,
    /// Median of |log₁₀(predicted median / run)|.
    pub median_log10_ratio: f64,
    /// Share of jobs whose predicted median is within a factor of two of the run.
    pub within_2x: f64,
    /// Pinball loss on log runs.
    pub pinball: Pinball,
    /// Share of runs within the 80 % interval (10 to 90 %).
    pub coverage80: f64,
    /// Share of runs within the 90 % interval (5 to 95 %).
    pub coverage90: f64,
    /// Median ratio of the ends of the 80 % interval.
    pub width80: f64,
    /// Median ratio of the ends of the 90 % interval.
    pub width90: f64,
    /// Rank correlation of prediction and run.
    #[schemars(with = "Option<f64>")]
    pub spearman: f64,
    /// Pair correlation (τ-b) of prediction and run.
    #[schemars(with = "Option<f64>")]
    pub kendall: f64,
    /// R² on log runs; `null` if all ran equally long.
    #[schemars(with = "Option<f64>")]
    pub r2: f64,
}

/// Pinball loss of one quantile of one job.
pub fn pinball(y: f64, q: f64, level: f64) -> f64 {
    let above = y - q;
    if above >= 0.0 { level * above } else { (level - 1.0) * above }
}

/// The score of predictions; `None` of none.
pub fn score(predictions: &[Scored]) -> Option<Score> {
    if predictions.is_empty() {
        return None;
    }
    let count = predictions.len() as f64;
    let mean = |of: &dyn Fn(&Scored) -> f64| predictions.iter().map(of).sum::<f64>() / count;
    let at = |scored: &Scored, ix: usize| scored.quantiles.get(ix).copied().unwrap_or(f64::NAN);
    let within =
        |scored: &Scored, low, high| f64::from(u8::from(at(scored, low) <= scored.y && scored.y <= at(scored, high)));
    let median_of = |of: &dyn Fn(&Scored) -> f64| {
        quantile(&predictions.iter().map(of).collect::<Vec<_>>(), 0.5).unwrap_or(f64::NAN)
    };
    let middle = mean(&|scored| scored.y);
    let spread = mean(&|scored| (scored.y - middle).powi(2));
    let error = mean(&|scored| (scored.y - scored.point).powi(2));
    let points: Vec<f64> = predictions.iter().map(|scored| scored.point).collect();
    let truth: Vec<f64> = predictions.iter().map(|scored| scored.y).collect();
    Some(Score {
        jobs: predictions.len(),
        mae_s: mean(&|scored| (scored.y.exp() - at(scored, 2).exp()).abs()),
        median_log10_ratio: median_of(&|scored| (scored.y - at(scored, 2)).abs() / std::f64::consts::LN_10),
        within_2x: mean(&|scored| f64::from(u8::from((scored.y - at(scored, 2)).abs() <= std::f64::consts::LN_2))),
        pinball: Pinball {
            p10: mean(&|scored| pinball(scored.y, at(scored, 1), 0.1)),
            p50: mean(&|scored| pinball(scored.y, at(scored, 2), 0.5)),
            p90: mean(&|scored| pinball(scored.y, at(scored, 3), 0.9)),
        },
        coverage80: mean(&|scored| within(scored, 1, 3)),
        coverage90: mean(&|scored| within(scored, 0, 4)),
        width80: median_of(&|scored| at(scored, 3) - at(scored, 1)).exp(),
        width90: median_of(&|scored| at(scored, 4) - at(scored, 0)).exp(),
        spearman: spearman(&points, &truth),
        kendall: kendall(&points, &truth),
        r2: if spread > 0.0 { 1.0 - error / spread } else { f64::NAN },
    })
}

/// Brier score of chances and what came; `None` of none.
pub fn brier(told: &[(f64, bool)]) -> Option<f64> {
    let sum: f64 = told.iter().map(|(chance, came)| (chance - f64::from(u8::from(*came))).powi(2)).sum();
    (!told.is_empty()).then(|| sum / told.len() as f64)
}

/// Ranks from 1, equal values sharing the mean of theirs.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    let value = |ix: usize| values.get(ix).copied().unwrap_or(f64::NAN);
    order.sort_by(|a, b| value(*a).total_cmp(&value(*b)));
    let mut ranks = vec![0.0; values.len()];
    let mut rank = 0;
    for ties in order.chunk_by(|a, b| value(*a).total_cmp(&value(*b)).is_eq()) {
        let shared = rank as f64 + (ties.len() as f64 + 1.0) / 2.0;
        for ix in ties {
            if let Some(slot) = ranks.get_mut(*ix) {
                *slot = shared;
            }
        }
        rank += ties.len();
    }
    ranks
}

/// Spearman's rank correlation; NaN if either does not vary.
pub fn spearman(one: &[f64], other: &[f64]) -> f64 {
    let (one, other) = (ranks(one), ranks(other));
    let middle = (one.len() as f64 + 1.0) / 2.0;
    let (mut both, mut first, mut second) = (0.0, 0.0, 0.0);
    for (a, b) in one.iter().zip(&other) {
        both += (a - middle) * (b - middle);
        first += (a - middle).powi(2);
        second += (b - middle).powi(2);
    }
    both / (first * second).sqrt()
}

/// Kendall's τ-b by counting exchanges in a merge sort (Knight 1966); NaN if either does not vary. O(n log n).
pub fn kendall(one: &[f64], other: &[f64]) -> f64 {
    let mut pairs: Vec<(f64, f64)> = one.iter().copied().zip(other.iter().copied()).collect();
    pairs.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let tied = |sizes: &mut dyn Iterator<Item = usize>| sizes.map(|n| n as f64 * (n as f64 - 1.0) / 2.0).sum::<f64>();
    let ties_one = tied(&mut pairs.chunk_by(|a, b| a.0 == b.0).map(<[_]>::len));
    let ties_both = tied(&mut pairs.chunk_by(|a, b| a == b).map(<[_]>::len));
    let mut values: Vec<f64> = pairs.iter().map(|pair| pair.1).collect();
    let mut buffer = values.clone();
    let exchanges = sort_counting(&mut values, &mut buffer) as f64;
    let ties_other = tied(&mut values.chunk_by(|a, b| a == b).map(<[_]>::len));
    let all = pairs.len() as f64 * (pairs.len() as f64 - 1.0) / 2.0;
    (all - ties_one - ties_other + ties_both - 2.0 * exchanges) / ((all - ties_one) * (all - ties_other)).sqrt()
}

/// Sorts values, and counts the pairs that were out of order.
fn sort_counting(values: &mut [f64], buffer: &mut [f64]) -> u64 {
    let half = values.len() / 2;
    if half == 0 {
        return 0;
    }
    let (left, right) = values.split_at_mut(half);
    let (left_buffer, right_buffer) = buffer.split_at_mut(half);
    let mut exchanges = sort_counting(left, left_buffer) + sort_counting(right, right_buffer);
    let (mut a, mut b) = (left.iter().peekable(), right.iter().peekable());
    for slot in buffer.iter_mut() {
        let take_left = match (a.peek(), b.peek()) {
            (Some(left), Some(right)) => left <= right,
            (left, _) => left.is_some(),
        };
        if !take_left {
            exchanges += a.len() as u64;
        }
        if let Some(value) = if take_left { a.next() } else { b.next() } {
            *slot = *value;
        }
    }
    values.copy_from_slice(buffer);
    exchanges
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn order_is_scored_as_worked_out_by_hand() {
        // Ranks 1 2 3 4 against 2 1 4 3: d² = 1 each, 1 − 6 × 4 / (4 × 15) = 0.6; of 6 pairs 2 are out of order: (4 − 2) / 6.
        assert!((spearman(&[1.0, 2.0, 3.0, 4.0], &[2.0, 1.0, 4.0, 3.0]) - 0.6).abs() < 1e-12);
        assert!((kendall(&[1.0, 2.0, 3.0, 4.0], &[2.0, 1.0, 4.0, 3.0]) - 1.0 / 3.0).abs() < 1e-12);
        // A tie in one: of 3 pairs one is tied, two agree: 2 / √(2 × 3).
        assert!((kendall(&[1.0, 1.0, 2.0], &[1.0, 2.0, 3.0]) - 2.0 / 6f64.sqrt()).abs() < 1e-12);
        assert!(spearman(&[1.0, 1.0], &[1.0, 2.0]).is_nan());
    }

    #[test]
    fn a_chance_is_scored_by_its_square() {
        assert_eq!(brier(&[(0.5, true), (0.0, false)]), Some(0.125));
        assert_eq!(brier(&[]), None);
    }

    #[test]
    fn kendall_agrees_with_all_pairs() {
        let one: Vec<f64> = (0..200).map(|i| f64::from((i * 37) % 23)).collect();
        let other: Vec<f64> = (0..200).map(|i| f64::from((i * 53 + 7) % 31)).collect();
        let (mut sum, mut first, mut second) = (0.0, 0.0, 0.0);
        for i in 0..200 {
            for j in 0..i {
                let sign = |x: f64| if x == 0.0 { 0.0 } else { x.signum() };
                let (a, b): (f64, f64) = (sign(one[i] - one[j]), sign(other[i] - other[j]));
                sum += a * b;
                first += a * a;
                second += b * b;
            }
        }
        assert!((kendall(&one, &other) - sum / (first * second).sqrt()).abs() < 1e-12);
    }

    #[test]
    fn two_jobs_scored_by_hand() {
        let ln = |s: f64| s.ln();
        let job = |run: f64, q: [f64; 5]| Scored { y: ln(run), point: ln(q[2]), quantiles: q.map(ln) };
        let result =
            score(&[job(100.0, [10.0, 50.0, 100.0, 200.0, 400.0]), job(300.0, [10.0, 50.0, 100.0, 200.0, 400.0])])
                .unwrap();
        assert!((result.mae_s - 100.0).abs() < 1e-9);
        assert!((result.within_2x - 0.5).abs() < 1e-12);
        assert!((result.coverage80 - 0.5).abs() < 1e-12 && (result.coverage90 - 1.0).abs() < 1e-12);
        assert!((result.width80 - 4.0).abs() < 1e-9 && (result.width90 - 40.0).abs() < 1e-9);
        // p50: (0 + ½ ln 3) / 2; p90: (0.1 ln 2 + 0.9 ln 1.5) / 2; p10: (0.1 ln 2 + 0.1 ln 6) / 2.
        assert!((result.pinball.p50 - 3f64.ln() / 4.0).abs() < 1e-12);
        assert!((result.pinball.p90 - (0.1 * 2f64.ln() + 0.9 * 1.5f64.ln()) / 2.0).abs() < 1e-12);
        assert!((result.pinball.p10 - (0.1 * 2f64.ln() + 0.1 * 6f64.ln()) / 2.0).abs() < 1e-12);
    }
}
