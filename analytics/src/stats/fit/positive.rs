//! Maximum likelihood of the one-piece families for positive data: exponential, Weibull, gamma, lognormal, Pareto.
//!
//! With D ends among n observations and sums over all observations unless said otherwise:
//! * Exponential: rate = D / Σ x.
//! * Weibull: the shape k solves 1/k + mean over ends of ln x = Σ x^k ln x / Σ x^k, which has one root; scale^k = Σ x^k / D
//!   (Cohen, Technometrics 7, 1965). Newton's method, kept in a bracket.
//! * Gamma, complete: ln k - ψ(k) = ln mean - mean of ln x, by Minka's generalised Newton step (Estimating a gamma
//!   distribution, 2002). Censored: Nelder-Mead on (ln shape, ln scale).
//! * Lognormal, complete: mean and standard deviation (divisor n) of ln x. Censored: Newton's method on (1/sigma, mu/sigma),
//!   in which the likelihood is concave (Olsen, Econometrica 46, 1978).
//! * Pareto: x_min is the smallest value, alpha = D / Σ ln(x / x_min).
//!
//! Complexity: O(distinct values) per iteration, some ten iterations; gamma with censoring some hundred over the cells.
//!
//! Worked number: ends at 1, 2 and a censoring at 3 give an exponential rate of 2 / 6.

use statrs::function::gamma::{digamma, ln_gamma};

use super::{
    FitError,
    distribution::{Distribution, LogNormal},
    sample::Sample,
    simplex::maximise,
    special::{gamma_ln_sf, normal_hazard, normal_ln_sf, trigamma},
};

/// A distribution and whether its iteration converged.
pub(super) type Estimate = Result<(Distribution, bool), FitError>;
/// Maximum likelihood of one family.
pub(super) type Estimator = fn(&Sample) -> Estimate;

const MAX_ITERATIONS: usize = 200;
/// Relative step below which an iteration has converged.
const TOLERANCE: f64 = 1e-10;

pub(super) fn exponential(sample: &Sample) -> Estimate {
    let exposure = sample.sum_events(|p| p.x) + sample.sum_censored(|p| p.x);
    if !exposure.is_finite() {
        return Err(FitError::Diverged);
    }
    let rate = sample.events as f64 / exposure;
    Ok((Distribution::Exponential { rate }, true))
}

pub(super) fn pareto(sample: &Sample) -> Estimate {
    let first = sample.points.iter().find(|p| p.events > 0).ok_or(FitError::AllEqual)?;
    let alpha = pareto_alpha(sample, first.ln_x);
    Ok((Distribution::Pareto { alpha, x_min: first.x }, true))
}

/// Exponent of the survival function for the observations from x_min on; those censored below tell nothing.
pub(super) fn pareto_alpha(sample: &Sample, ln_x_min: f64) -> f64 {
    let above = |ln_x: f64| (ln_x - ln_x_min).max(0.0);
    sample.events as f64 / (sample.sum_events(|p| above(p.ln_x)) + sample.sum_censored(|p| above(p.ln_x)))
}

pub(super) fn weibull(sample: &Sample) -> Estimate {
    let mean_ln = sample.sum_events(|p| p.ln_x) / sample.events as f64;
    // Powers of x over the largest x cannot overflow, and the factor cancels out of the shape equation.
    let top = sample.points.last().map_or(0.0, |p| p.ln_x);
    let moments = |k: f64| {
        let (mut a, mut b, mut c) = (0.0, 0.0, 0.0);
        for p in &sample.points {
            let y = p.ln_x - top;
            let power = (p.events + p.censored) as f64 * (k * y).exp();
            a += power;
            b += power * y;
            c += power * y * y;
        }
        (a, b / a, c / a)
    };
    // g falls from +inf to mean_ln - top < 0 (some end lies below the largest value).
    let (mut low, mut high) = (0.0, f64::INFINITY);
    let mut k = 1.0;
    let mut converged = false;
    for _ in 0..MAX_ITERATIONS {
        let (_, first, second) = moments(k);
        let g = 1.0 / k + (mean_ln - top) - first;
        let slope = -1.0 / (k * k) - (second - first * first);
        if g > 0.0 {
            low = k;
        } else {
            high = k;
        }
        if !g.is_finite() {
            return Err(FitError::Diverged);
        }
        let mut next = k - g / slope;
        if !(next > low && next < high) {
            next = if high.is_finite() { 0.5 * (low + high) } else { 2.0 * k };
        }
        converged = (next - k).abs() <= TOLERANCE * k;
        k = next;
        if converged {
            break;
        }
    }
    let (sum, _, _) = moments(k);
    let scale = (top + (sum / sample.events as f64).ln() / k).exp();
    Ok((Distribution::Weibull { shape: k, scale }, converged))
}

pub(super) fn gamma(sample: &Sample) -> Estimate {
    let events = sample.events as f64;
    let sum_ln = sample.sum_events(|p| p.ln_x);
    let sum_x = sample.sum_events(|p| p.x);
    let (shape, scale, converged) = complete_gamma(sum_x / events, sum_ln / events)?;
    if sample.events == sample.n {
        return Ok((Distribution::Gamma { shape, scale }, converged));
    }
    // The ends enter through two sums; only the censorings need the incomplete gamma function one by one.
    let cells: Vec<_> = sample.cells().into_iter().filter(|c| c.censored).map(|c| (c.ln_x.exp(), c.weight)).collect();
    let likelihood = |at: &[f64; 2]| {
        let (k, theta) = (at[0].exp(), at[1].exp());
        let ends = (k - 1.0) * sum_ln - sum_x / theta - events * (k * at[1] + ln_gamma(k));
        ends + cells.iter().map(|(x, weight)| weight * gamma_ln_sf(k, x / theta)).sum::<f64>()
    };
    let (best, converged) = maximise(likelihood, [shape.ln(), scale.ln()], 0.5, TOLERANCE);
    Ok((Distribution::Gamma { shape: best[0].exp(), scale: best[1].exp() }, converged))
}

fn complete_gamma(mean: f64, mean_ln: f64) -> Result<(f64, f64, bool), FitError> {
    let s = mean.ln() - mean_ln;
    // Below this the difference of the logarithms is rounding: the values are all but equal. NaN after an overflow.
    if s.is_nan() || s <= 1e-12 {
        return Err(FitError::Diverged);
    }
    let mut k = (3.0 - s + ((s - 3.0).powi(2) + 24.0 * s).sqrt()) / (12.0 * s);
    let mut converged = false;
    for _ in 0..MAX_ITERATIONS {
        let inverse = 1.0 / k + (k.ln() - digamma(k) - s) / (k * k * (1.0 / k - trigamma(k)));
        let next = 1.0 / inverse;
        if !(next > 0.0 && next.is_finite()) {
            return Err(FitError::Diverged);
        }
        converged = (next - k).abs() <= TOLERANCE * k;
        k = next;
        if converged {
            break;
        }
    }
    Ok((k, mean / k, converged))
}

pub(super) fn lognormal(sample: &Sample) -> Estimate {
    let events = sample.events as f64;
    let mean = sample.sum_events(|p| p.ln_x) / events;
    let spread = (sample.sum_events(|p| (p.ln_x - mean).powi(2)) / events).sqrt();
    if spread.is_nan() || spread <= 0.0 {
        return Err(FitError::Diverged);
    }
    if sample.events == sample.n {
        return Ok((Distribution::Lognormal(LogNormal { mu: mean, sigma: spread }), true));
    }

    // In units of the ends' own mean and spread, y = (ln x - mean) / spread; the residual of y is theta y - gamma.
    let scaled = |ln_x: f64| (ln_x - mean) / spread;
    let likelihood = |theta: f64, gamma: f64| {
        // Σ over ends of y is 0 and of y² is D.
        events * theta.ln() - 0.5 * events * (theta * theta + gamma * gamma)
            + sample.sum_censored(|p| normal_ln_sf(theta * scaled(p.ln_x) - gamma))
    };
    let (mut theta, mut gamma) = (1.0, 0.0);
    let mut value = likelihood(theta, gamma);
    let mut converged = false;
    for _ in 0..MAX_ITERATIONS {
        let (mut g_theta, mut g_gamma) = (events / theta - events * theta, -events * gamma);
        let (mut h_tt, mut h_tg, mut h_gg) = (events / (theta * theta) + events, 0.0, events);
        for p in sample.points.iter().filter(|p| p.censored > 0) {
            let (y, w) = (scaled(p.ln_x), p.censored as f64);
            let r = theta * y - gamma;
            let hazard = normal_hazard(r);
            // Derivative of the hazard, in 0..1.
            let bend = (hazard * (hazard - r)).clamp(0.0, 1.0);
            g_theta -= w * hazard * y;
            g_gamma += w * hazard;
            h_tt += w * bend * y * y;
            h_tg -= w * bend * y;
            h_gg += w * bend;
        }
        // Solve the negative Hessian, positive definite, for the step.
        let determinant = h_tt * h_gg - h_tg * h_tg;
        let step_theta = (g_theta * h_gg - g_gamma * h_tg) / determinant;
        let step_gamma = (g_gamma * h_tt - g_theta * h_tg) / determinant;
        if !(step_theta.is_finite() && step_gamma.is_finite()) {
            return Err(FitError::Diverged);
        }
        let mut scale = 1.0;
        let mut moved = false;
        for _ in 0..60 {
            let (t, g) = (theta + scale * step_theta, gamma + scale * step_gamma);
            let next = if t > 0.0 { likelihood(t, g) } else { f64::NEG_INFINITY };
            if next >= value {
                (theta, gamma, value) = (t, g, next);
                moved = true;
                break;
            }
            scale *= 0.5;
        }
        // At the top of a concave function rounding may refuse even the smallest step.
        converged = !moved || step_theta.abs().max(step_gamma.abs()) <= TOLERANCE * (1.0 + theta + gamma.abs());
        if converged {
            break;
        }
    }
    let distribution = LogNormal { mu: mean + spread * gamma / theta, sigma: spread / theta };
    Ok((Distribution::Lognormal(distribution), converged))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::super::grid;
    use super::*;

    fn complete(distribution: &Distribution) -> Sample {
        Sample::new(grid(distribution, 4000).into_iter().map(|x| (x, false)).collect()).unwrap()
    }

    /// Observations cut off at a time: type I censoring at the quantile `at` of the distribution.
    fn cut(distribution: &Distribution, at: f64) -> Sample {
        let limit = distribution.quantile(at).unwrap();
        Sample::new(grid(distribution, 4000).into_iter().map(|x| (x.min(limit), x > limit)).collect()).unwrap()
    }

    fn assert_recovers(fit: Estimator, distribution: &Distribution, sample: &Sample, tolerance: f64) {
        let (got, converged) = fit(sample).unwrap();
        assert!(converged);
        for (a, b) in got.params().iter().zip(distribution.params()) {
            assert!((a.value - b.value).abs() <= tolerance * b.value.abs(), "{got:?} for {distribution:?}");
        }
        // Where the maximum is: a step of 1 % in any direction is no better.
        let top = sample.log_likelihood(&got);
        assert!(top >= sample.log_likelihood(distribution) - 1e-6 * top.abs());
    }

    #[test]
    fn exponential_by_hand() {
        // Twenty ends at 1 and 2, ten censored at 3: 20 / (10 + 20 + 30).
        let mut data = vec![(1.0, false); 10];
        data.extend(vec![(2.0, false); 10]);
        data.extend(vec![(3.0, true); 10]);
        let (distribution, _) = exponential(&Sample::new(data).unwrap()).unwrap();
        assert_eq!(distribution, Distribution::Exponential { rate: 20.0 / 60.0 });
    }

    #[test]
    fn lognormal_by_hand() {
        // ln x is 0 or 2, ten each: mu 1, sigma 1.
        let e2 = 2.0_f64.exp();
        let mut data = vec![(1.0, false); 10];
        data.extend(vec![(e2, false); 10]);
        let (distribution, _) = lognormal(&Sample::new(data).unwrap()).unwrap();
        let Distribution::Lognormal(distribution) = distribution else { panic!("{distribution:?}") };
        assert!((distribution.mu - 1.0).abs() < 1e-12 && (distribution.sigma - 1.0).abs() < 1e-12);
    }

    #[test]
    fn pareto_by_hand() {
        // ln(x / 1) is 0 or 1, ten each: 20 / 10.
        let mut data = vec![(1.0, false); 10];
        data.extend(vec![(1.0_f64.exp(), false); 10]);
        let (distribution, _) = pareto(&Sample::new(data).unwrap()).unwrap();
        let Distribution::Pareto { alpha, x_min } = distribution else { panic!("{distribution:?}") };
        assert!((alpha - 2.0).abs() < 1e-12 && x_min == 1.0);
    }

    #[test]
    fn complete_data_give_the_parameters_back() {
        for distribution in super::super::distribution::tests::examples() {
            let fit = match distribution {
                Distribution::Exponential { .. } => exponential,
                Distribution::Gamma { .. } => gamma,
                Distribution::Lognormal(_) => lognormal,
                Distribution::Weibull { .. } => weibull,
                Distribution::Pareto { .. } => pareto,
                _ => continue,
            };
            assert_recovers(fit, &distribution, &complete(&distribution), 0.01);
        }
    }

    #[test]
    fn censored_data_give_the_parameters_back() {
        for at in [0.4, 0.8] {
            let lognormal_law = Distribution::Lognormal(LogNormal { mu: 6.0, sigma: 2.0 });
            assert_recovers(lognormal, &lognormal_law, &cut(&lognormal_law, at), 0.01);
            let weibull_law = Distribution::Weibull { shape: 0.6, scale: 500.0 };
            assert_recovers(weibull, &weibull_law, &cut(&weibull_law, at), 0.01);
            let gamma_law = Distribution::Gamma { shape: 0.4, scale: 900.0 };
            assert_recovers(gamma, &gamma_law, &cut(&gamma_law, at), 0.02);
            let exponential_law = Distribution::Exponential { rate: 0.01 };
            assert_recovers(exponential, &exponential_law, &cut(&exponential_law, at), 0.01);
        }
    }

    #[test]
    fn censoring_at_many_times_gives_the_lognormal_back() {
        // Ages at which observation stops, spread over the same range and independent of the value: the k-th censoring
        // time belongs to the value at rank 633 k mod 4001 (4001 is prime), so the two grids cross evenly.
        let distribution = Distribution::Lognormal(LogNormal { mu: 6.0, sigma: 2.0 });
        let stop = Distribution::Lognormal(LogNormal { mu: 7.0, sigma: 1.0 });
        let (values, stops) = (grid(&distribution, 4001), grid(&stop, 4001));
        let data = stops
            .iter()
            .enumerate()
            .map(|(k, stop)| {
                let value = values[k * 633 % 4001];
                (value.min(*stop), value > *stop)
            })
            .collect();
        assert_recovers(lognormal, &distribution, &Sample::new(data).unwrap(), 0.03);
    }

    #[test]
    fn without_censoring_the_newton_path_is_the_closed_form() {
        // One observation censored at a time long before every end tells next to nothing.
        let distribution = Distribution::Lognormal(LogNormal { mu: 6.0, sigma: 1.0 });
        let mut data: Vec<(f64, bool)> = grid(&distribution, 500).into_iter().map(|x| (x, false)).collect();
        let (closed, _) = lognormal(&Sample::new(data.clone()).unwrap()).unwrap();
        data.push((1e-6, true));
        let (newton, _) = lognormal(&Sample::new(data).unwrap()).unwrap();
        for (a, b) in closed.params().iter().zip(newton.params()) {
            assert!((a.value - b.value).abs() < 1e-9);
        }
    }
}
