//! Pareto tail by the method of Clauset, Shalizi and Newman (SIAM Review 51, 2009): for each candidate x_min the exponent by
//! maximum likelihood (Hill's estimator), and of the candidates the one whose fitted tail has the smallest KS distance.
//!
//! Candidates are at most [`MAX_CANDIDATES`] distinct values at even ranks among the distinct values that ended, each with at least
//! [`MIN_TAIL`] ends from it on; the paper tries every value, which is quadratic. Censored values count as in the paper's
//! estimator for complete data with the number of ends in the numerator: alpha = D / Σ ln(x / x_min).
//!
//! alpha here is the exponent of the survival function (x / x_min)^-alpha; the paper's is alpha + 1. The mean is infinite for
//! alpha ≤ 1, the variance for alpha ≤ 2.
//!
//! The likelihood is that of the tail alone, so AIC and BIC must not be compared with those of fits to all the data.
//!
//! Complexity: O(candidates · distinct values). Worked number: ends at e and e² above x_min = 1 give alpha = 2 / 3.

use super::{FitError, distribution::Distribution, positive::pareto_alpha, sample::Sample};

const MAX_CANDIDATES: usize = 100;
/// Fewest ends in a tail.
pub(super) const MIN_TAIL: u64 = 50;

/// The best tail: its distribution and the observations it was fitted to.
pub(super) fn pareto_tail(sample: &Sample) -> Result<(Distribution, Sample), FitError> {
    // Share of the mass from each value on, and the ends from it on.
    let mut starts = Vec::new();
    let mut left = sample.events;
    let mut ends = sample.points.iter().filter(|p| p.events > 0);
    sample.walk_survival(|x, before, _| {
        if left >= MIN_TAIL {
            starts.push((x, before));
        }
        left -= ends.next().map_or(0, |p| p.events);
    });
    let count = starts.len().min(MAX_CANDIDATES);
    let mut best: Option<(f64, Distribution, Sample)> = None;
    for i in 0..count {
        let Some(&(x_min, tail_share)) = starts.get(i * starts.len() / count) else {
            continue;
        };
        // A tail of one repeated value has no exponent.
        let Ok(tail) = sample.tail(x_min) else {
            continue;
        };
        let alpha = pareto_alpha(&tail, x_min.ln());
        let distribution = Distribution::ParetoTail { alpha, x_min, tail_share };
        let distance = tail.ks(&distribution);
        if alpha.is_finite() && best.as_ref().is_none_or(|(smallest, _, _)| distance < *smallest) {
            best = Some((distance, distribution, tail));
        }
    }
    best.map(|(_, distribution, tail)| (distribution, tail)).ok_or(FitError::NoTail { needed: MIN_TAIL })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::super::grid;
    use super::*;

    #[test]
    fn finds_where_the_tail_begins() {
        // Half uniform on 1..100, half Pareto from 100 on with alpha 1.5.
        let distribution = Distribution::Pareto { alpha: 1.5, x_min: 100.0 };
        let mut data: Vec<(f64, bool)> =
            (0..2000).map(|i| (1.0 + 99.0 * (f64::from(i) + 0.5) / 2000.0, false)).collect();
        data.extend(grid(&distribution, 2000).into_iter().map(|x| (x, false)));
        let (got, tail) = pareto_tail(&Sample::new(data).unwrap()).unwrap();
        let Distribution::ParetoTail { alpha, x_min, tail_share } = got else { panic!("{got:?}") };
        // The candidate nearest to 100 is at most one of a hundred steps (40 values) away.
        assert!((95.0..110.0).contains(&x_min), "{x_min}");
        assert!((alpha - 1.5).abs() < 0.03, "{alpha}");
        assert!((tail_share - 0.5).abs() < 0.03);
        assert_eq!(tail.n, (tail_share * 4000.0).round() as u64);
    }

    #[test]
    fn censoring_does_not_bend_the_exponent() {
        let distribution = Distribution::Pareto { alpha: 1.2, x_min: 10.0 };
        let data = grid(&distribution, 3000).into_iter().map(|x| (x.min(200.0), x > 200.0)).collect();
        let (got, _) = pareto_tail(&Sample::new(data).unwrap()).unwrap();
        let Distribution::ParetoTail { alpha, .. } = got else { panic!("{got:?}") };
        assert!((alpha - 1.2).abs() < 0.05, "{alpha}");
    }

    #[test]
    fn a_short_tail_is_no_tail() {
        let data = (1..=49).map(|i| (f64::from(i), false)).collect();
        assert_eq!(pareto_tail(&Sample::new(data).unwrap()).unwrap_err(), FitError::NoTail { needed: 50 });
    }
}
