//! Mixture of two lognormals by expectation maximisation (Dempster, Laird and Rubin, JRSS B 39, 1977), censored data included.
//!
//! With y = ln x and component densities N(mu_j, sigma_j²): an observation belongs to component j with a probability
//! proportional to its weight times its density at y, or times its survival function at y when censored. A censored value in
//! component j has the mean mu + sigma h and the mean square deviation sigma² (1 + h z) about mu, with z = (y - mu) / sigma
//! and h the normal hazard at z. Weights, means and variances are then averages with those probabilities.
//!
//! The likelihood is unbounded when a component shrinks onto one repeated value (a time limit, say), so no sigma may fall
//! below [`SIGMA_FLOOR`] of the spread of all logs: a spike is not a component.
//!
//! Starts are fixed: the logs split at the median, at the lower and at the upper quartile; the best end point wins, the
//! earlier start on ties. Each step raises the likelihood; the iteration ends when the relative gain falls below 1e-9.
//!
//! Complexity: O(cells) per step, at most [`MAX_STEPS`] steps per start.
//!
//! Worked number: halves around ln x = 3 and ln x = 8 with sigma 0.5 and equal weights are told apart with certainty, and the
//! fit is the mean and spread of each half.

use super::{
    FitError,
    distribution::{Distribution, LogNormal},
    positive::Estimate,
    sample::{Cell, Sample},
    special::{normal_hazard, normal_ln_pdf, normal_ln_sf},
};

/// Smallest sigma of a component, as a share of the standard deviation of all logs.
const SIGMA_FLOOR: f64 = 0.05;
const MAX_STEPS: usize = 1000;
const TOLERANCE: f64 = 1e-9;

/// Component weights and distributions.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Mixture {
    weight: [f64; 2],
    distribution: [LogNormal; 2],
}

pub(super) fn lognormal_mixture(sample: &Sample) -> Estimate {
    let cells = sample.cells();
    let Some((_, overall)) = moments(&cells) else {
        return Err(FitError::Diverged);
    };
    let floor = SIGMA_FLOOR * overall;
    let mut best: Option<(f64, Mixture, bool)> = None;
    for split in [0.5, 0.25, 0.75] {
        let Some(mut mixture) = start(&cells, split, floor) else {
            continue;
        };
        let mut previous = f64::NEG_INFINITY;
        let mut converged = false;
        for _ in 0..MAX_STEPS {
            let (next, likelihood) = step(&cells, &mixture, floor);
            converged = likelihood - previous <= TOLERANCE * (1.0 + likelihood.abs());
            if converged {
                // `likelihood` is that of `mixture`, not of `next`.
                previous = previous.max(likelihood);
                break;
            }
            previous = likelihood;
            mixture = next;
        }
        if previous.is_finite() && best.is_none_or(|(likelihood, _, _)| previous > likelihood) {
            best = Some((previous, mixture, converged));
        }
    }
    let Some((_, Mixture { weight, distribution: [a, b] }, converged)) = best else {
        return Err(FitError::Diverged);
    };
    // The smaller mu first, so that the same distribution has one spelling.
    let (weight, first, second) = if a.mu <= b.mu { (weight[0], a, b) } else { (weight[1], b, a) };
    if !(weight > 1e-6 && weight < 1.0 - 1e-6) {
        return Err(FitError::Collapsed);
    }
    Ok((Distribution::LognormalMixture { weight, first, second }, converged))
}

/// Mean and standard deviation of the logs, censored values taken as ends; `None` without spread.
fn moments(cells: &[Cell]) -> Option<(f64, f64)> {
    let total: f64 = cells.iter().map(|c| c.weight).sum();
    let mean = cells.iter().map(|c| c.weight * c.ln_x).sum::<f64>() / total;
    let square = cells.iter().map(|c| c.weight * (c.ln_x - mean).powi(2)).sum::<f64>() / total;
    (square > 0.0 && square.is_finite()).then(|| (mean, square.sqrt()))
}

/// The two sides of a quantile of the logs, as a first mixture; `None` when a side would be empty.
fn start(cells: &[Cell], split: f64, floor: f64) -> Option<Mixture> {
    let total: f64 = cells.iter().map(|c| c.weight).sum();
    let mut below = 0.0;
    let mut cut = 0;
    for cell in cells {
        if cut > 0 && below >= split * total {
            break;
        }
        below += cell.weight;
        cut += 1;
    }
    let side = |cells: &[Cell]| {
        let mean = cells.iter().map(|c| c.weight * c.ln_x).sum::<f64>() / cells.iter().map(|c| c.weight).sum::<f64>();
        // A side of one cell has no spread of its own.
        let sigma = moments(cells).map_or(floor, |(_, sigma)| sigma.max(floor));
        LogNormal { mu: mean, sigma }
    };
    let (left, right) = cells.split_at(cut);
    if left.is_empty() || right.is_empty() {
        return None;
    }
    Some(Mixture { weight: [below / total, 1.0 - below / total], distribution: [side(left), side(right)] })
}

/// One step: the improved mixture, and the log likelihood (of the logs) of the one given.
fn step(cells: &[Cell], mixture: &Mixture, floor: f64) -> (Mixture, f64) {
    let mut likelihood = 0.0;
    // Per component: Σ r, Σ r E(Y - mu), Σ r E(Y - mu)².
    let mut sums = [[0.0_f64; 3]; 2];
    let ln_weight = mixture.weight.map(f64::ln);
    let ln_sigma = mixture.distribution.map(|distribution| distribution.sigma.ln());
    for cell in cells {
        let z = mixture.distribution.map(|distribution| (cell.ln_x - distribution.mu) / distribution.sigma);
        let log = [0, 1]
            .map(|j| ln_weight[j] + if cell.censored { normal_ln_sf(z[j]) } else { normal_ln_pdf(z[j]) - ln_sigma[j] });
        let high = log[0].max(log[1]);
        let scaled = log.map(|l| (l - high).exp());
        let total = scaled[0] + scaled[1];
        likelihood += cell.weight * (high + total.ln());
        for (j, sums) in sums.iter_mut().enumerate() {
            let share = cell.weight * scaled[j] / total;
            let sigma = mixture.distribution[j].sigma;
            let (first, second) = if cell.censored {
                let hazard = normal_hazard(z[j]);
                (hazard, 1.0 + hazard * z[j])
            } else {
                (z[j], z[j] * z[j])
            };
            sums[0] += share;
            sums[1] += share * sigma * first;
            sums[2] += share * sigma * sigma * second;
        }
    }
    let total = sums[0][0] + sums[1][0];
    let mut next = *mixture;
    for (j, [share, first, second]) in sums.into_iter().enumerate() {
        next.weight[j] = share / total;
        // A component that nothing belongs to any more keeps its shape; its weight says that it is gone.
        if share > 1e-9 * total {
            let shift = first / share;
            next.distribution[j] = LogNormal {
                mu: mixture.distribution[j].mu + shift,
                sigma: (second / share - shift * shift).max(0.0).sqrt().max(floor),
            };
        }
    }
    (next, likelihood)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::super::grid;
    use super::*;
    use proptest::prelude::*;

    fn distribution() -> Distribution {
        Distribution::LognormalMixture {
            weight: 0.3,
            first: LogNormal { mu: 3.0, sigma: 0.8 },
            second: LogNormal { mu: 8.0, sigma: 1.2 },
        }
    }

    fn assert_close(got: &Distribution, expected: &Distribution, tolerance: f64) {
        for (a, b) in got.params().iter().zip(expected.params()) {
            assert!((a.value - b.value).abs() <= tolerance * b.value.abs(), "{got:?}");
        }
    }

    #[test]
    fn complete_data_give_the_parameters_back() {
        let data = grid(&distribution(), 5000).into_iter().map(|x| (x, false)).collect();
        let (got, converged) = lognormal_mixture(&Sample::new(data).unwrap()).unwrap();
        assert!(converged);
        assert_close(&got, &distribution(), 0.01);
    }

    #[test]
    fn censored_data_give_the_parameters_back() {
        // Cut in the middle of the second component.
        let limit = 8.5_f64.exp();
        let data = grid(&distribution(), 5000).into_iter().map(|x| (x.min(limit), x > limit)).collect();
        let (got, _) = lognormal_mixture(&Sample::new(data).unwrap()).unwrap();
        assert_close(&got, &distribution(), 0.03);
    }

    #[test]
    fn halves_far_apart_are_fitted_each_alone() {
        // ln x is 1 ± 0.1 and 9 ± 0.1, ten each of the four values: mu 1 and 9; sigma 0.1 is below the floor of 5 % of the
        // overall spread sqrt(16 + 0.01) = 4.00125.
        let data = [0.9, 1.1, 8.9, 9.1].iter().flat_map(|y: &f64| vec![(y.exp(), false); 10]).collect();
        let (got, _) = lognormal_mixture(&Sample::new(data).unwrap()).unwrap();
        let Distribution::LognormalMixture { weight, first, second } = got else { panic!("{got:?}") };
        assert!((weight - 0.5).abs() < 1e-9 && (first.mu - 1.0).abs() < 1e-9 && (second.mu - 9.0).abs() < 1e-9);
        assert!((first.sigma - 0.05 * 16.01_f64.sqrt()).abs() < 1e-9);
    }

    proptest! {
        #[test]
        fn no_step_lowers_the_likelihood(data in prop::collection::vec((0.01_f64..1e5, any::<bool>()), 2..80), split in 0.1_f64..0.9) {
            let cells: Vec<Cell> = {
                let mut data = data;
                data.sort_by(|a, b| a.0.total_cmp(&b.0));
                data.iter().map(|(x, censored)| Cell { ln_x: x.ln(), weight: 1.0, censored: *censored }).collect()
            };
            let Some((_, spread)) = moments(&cells) else { return Ok(()) };
            let Some(mut mixture) = start(&cells, split, SIGMA_FLOOR * spread) else { return Ok(()) };
            let mut previous = f64::NEG_INFINITY;
            for _ in 0..60 {
                let (next, likelihood) = step(&cells, &mixture, SIGMA_FLOOR * spread);
                prop_assert!(likelihood >= previous - 1e-9 * (1.0 + previous.abs()), "{} after {}", likelihood, previous);
                previous = likelihood;
                mixture = next;
            }
        }
    }
}
