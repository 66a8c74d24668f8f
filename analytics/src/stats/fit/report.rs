//! Fits scored by likelihood, AIC, BIC and KS distance, and the ranking of all families on one set of data.
//!
//! Formulas, the treatment of zeros and of thinned data, complexity and a worked number are in the [parent](super) text.

use schemars::JsonSchema;
use serde::Serialize;

use super::{
    FitError,
    distribution::{Distribution, Family, Param},
    mixture,
    positive::{self, Estimator},
    sample::Sample,
    tail,
};

/// Values below this (1 in the unit of the data: one second of a duration in seconds) count as zero in the two-part family.
pub const ZERO_BELOW: f64 = 1.0;

/// A fitted family.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Fit {
    /// Family fitted.
    pub family: Family,
    /// Family of the rest, for the two-part family.
    pub base: Option<Family>,
    /// Parameters by name.
    pub params: Vec<Param>,
    /// Log likelihood at its maximum.
    pub log_likelihood: f64,
    /// Akaike's criterion; smaller is better, on the same data only.
    pub aic: f64,
    /// Bayesian information criterion; smaller is better, on the same data only.
    pub bic: f64,
    /// Kolmogorov-Smirnov distance from the data, 0 to 1.
    pub ks: f64,
    /// Observations the fit describes.
    pub n: u64,
    /// Observations the likelihood was computed from: fewer than `n` after thinning.
    pub n_fitted: u64,
    /// Censored ones among `n_fitted`.
    pub censored: u64,
    /// Whether the iteration reached its tolerance.
    pub converged: bool,
    #[serde(skip)]
    distribution: Distribution,
}

impl Fit {
    /// Name for people, with the family of the rest where there is one; `unit` is that of the data.
    #[must_use]
    pub fn label(&self, unit: &str) -> String {
        match self.base {
            Some(base) => {
                format!("{} (mass below {ZERO_BELOW} {unit} + {})", self.family.label(), base.label())
            }
            None => self.family.label().to_owned(),
        }
    }

    fn new(distribution: Distribution, converged: bool, sample: &Sample) -> Result<Self, FitError> {
        let fit = Self {
            log_likelihood: sample.log_likelihood(&distribution),
            ks: sample.ks(&distribution),
            n: sample.given,
            n_fitted: sample.n,
            censored: sample.n - sample.events,
            ..Self::bare(distribution, converged)
        };
        fit.scored()
    }

    fn bare(distribution: Distribution, converged: bool) -> Self {
        Self {
            family: distribution.family(),
            base: None,
            params: distribution.params(),
            log_likelihood: 0.0,
            aic: 0.0,
            bic: 0.0,
            ks: 0.0,
            n: 0,
            n_fitted: 0,
            censored: 0,
            converged,
            distribution,
        }
    }

    /// Fills in the criteria; refuses a fit that is not finite.
    fn scored(mut self) -> Result<Self, FitError> {
        let k = self.distribution.free_parameters() as f64;
        self.aic = 2.0 * k - 2.0 * self.log_likelihood;
        self.bic = k * (self.n_fitted as f64).ln() - 2.0 * self.log_likelihood;
        let finite = self.aic.is_finite() && self.bic.is_finite() && self.ks.is_finite();
        if finite && self.params.iter().all(|p| p.value.is_finite()) { Ok(self) } else { Err(FitError::Diverged) }
    }

    /// The fitted distribution.
    #[must_use]
    pub fn distribution(&self) -> &Distribution {
        &self.distribution
    }

    /// Parameter by name.
    #[must_use]
    pub fn param(&self, name: &str) -> Option<f64> {
        self.params.iter().find(|p| p.name == name).map(|p| p.value)
    }

    /// P(X ≤ x); for a Pareto tail, among the values from x_min on.
    #[must_use]
    pub fn cdf(&self, x: f64) -> f64 {
        self.distribution.cdf(x)
    }

    /// Smallest x with P(X ≤ x) ≥ p; `None` when p is not in 0..1.
    #[must_use]
    pub fn quantile(&self, p: f64) -> Option<f64> {
        self.distribution.quantile(p)
    }
}

/// A family that could not be fitted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FitFailure {
    /// Family that could not be fitted.
    pub family: Family,
    /// Reason.
    pub error: FitError,
}

/// All families on one set of data.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FitReport {
    /// Fits to all the data, best AIC first, ties by family name. Where zeros bar the continuous families, there is a two-part
    /// fit per family of the rest instead; otherwise at most the best one.
    pub fits: Vec<Fit>,
    /// Pareto tail: described apart, as its AIC is of the tail alone.
    pub pareto_tail: Option<Fit>,
    /// Families that could not be fitted, in the order of [`Family`].
    pub failures: Vec<FitFailure>,
}

/// The continuous families for all the data, with their estimators.
const CONTINUOUS: [(Family, Estimator); 6] = [
    (Family::Exponential, positive::exponential),
    (Family::Gamma, positive::gamma),
    (Family::Lognormal, positive::lognormal),
    (Family::LognormalMixture, mixture::lognormal_mixture),
    (Family::Pareto, positive::pareto),
    (Family::Weibull, positive::weibull),
];

/// Fits every family; `censored[i]` says that the value is only known to exceed `values[i]`.
///
/// # Errors
/// When the lengths differ or a value is negative or infinite. What one family cannot do is among the failures.
pub fn fit_report(values: &[f64], censored: &[bool]) -> Result<FitReport, FitError> {
    let data = check(values, censored)?;
    let positive = positive_sample(&data);
    let (fits, failures) = fit_continuous(&positive);
    let mut report = FitReport { fits, pareto_tail: None, failures };

    match two_part(&data, thinned_size(&positive)) {
        // Where zeros bar the continuous families, the two-part fits carry the ranking of those.
        Ok(two_parts) if report.fits.is_empty() => report.fits = two_parts,
        Ok(two_parts) => report.fits.extend(two_parts.into_iter().next()),
        Err(error) => report.failures.push(FitFailure { family: Family::TwoPart, error }),
    }
    match fit_tail(&data) {
        Ok(fit) => report.pareto_tail = Some(fit),
        Err(error) => report.failures.push(FitFailure { family: Family::ParetoTail, error }),
    }
    sort_by_aic(&mut report.fits);
    report.failures.sort_by_key(|f| f.family);
    Ok(report)
}

/// The fits of [`fit_report`] to all the data, best AIC first; empty when there are none.
#[must_use]
pub fn fit_all(values: &[f64], censored: &[bool]) -> Vec<Fit> {
    fit_report(values, censored).map(|report| report.fits).unwrap_or_default()
}

/// Fits one family.
///
/// # Errors
/// When the data are not fit for it, with the reason.
pub fn fit_family(family: Family, values: &[f64], censored: &[bool]) -> Result<Fit, FitError> {
    let data = check(values, censored)?;
    match CONTINUOUS.iter().find(|(f, _)| *f == family) {
        Some((_, estimate)) => fit_one(*estimate, &positive_sample(&data)?),
        None if family == Family::TwoPart => {
            two_part(&data, thinned_size(&positive_sample(&data)))?.into_iter().next().ok_or(FitError::Diverged)
        }
        None => fit_tail(&data),
    }
}

/// Known observations, each finite and 0 or more.
fn check(values: &[f64], censored: &[bool]) -> Result<Vec<(f64, bool)>, FitError> {
    if values.len() != censored.len() {
        return Err(FitError::LengthMismatch { values: values.len(), flags: censored.len() });
    }
    let count = |test: fn(f64) -> bool| values.iter().filter(|v| test(**v)).count() as u64;
    match (count(f64::is_infinite), count(|v| v < 0.0)) {
        (0, 0) => {}
        (0, count) => return Err(FitError::Negative { count }),
        (count, _) => return Err(FitError::NotFinite { count }),
    }
    Ok(values.iter().copied().zip(censored.iter().copied()).filter(|(value, _)| !value.is_nan()).collect())
}

fn positive_sample(data: &[(f64, bool)]) -> Result<Sample, FitError> {
    let zeros = data.iter().filter(|(value, censored)| *value == 0.0 && !censored).count() as u64;
    if zeros > 0 {
        return Err(FitError::Zeros { count: zeros });
    }
    Sample::new(data.iter().copied().filter(|(value, _)| *value > 0.0).collect())
}

fn fit_one(estimate: Estimator, sample: &Sample) -> Result<Fit, FitError> {
    let (distribution, converged) = estimate(sample)?;
    Fit::new(distribution, converged, sample)
}

fn fit_continuous(sample: &Result<Sample, FitError>) -> (Vec<Fit>, Vec<FitFailure>) {
    let (mut fits, mut failures) = (Vec::new(), Vec::new());
    for (family, estimate) in CONTINUOUS {
        match sample.as_ref().map_err(Clone::clone).and_then(|s| fit_one(estimate, s)) {
            Ok(fit) => fits.push(fit),
            Err(error) => failures.push(FitFailure { family, error }),
        }
    }
    (fits, failures)
}

fn sort_by_aic(fits: &mut [Fit]) {
    fits.sort_by(|a, b| {
        a.aic.total_cmp(&b.aic).then_with(|| a.family.name().cmp(b.family.name())).then_with(|| a.base.cmp(&b.base))
    });
}

/// Tail of the positive values: zeros do not hinder it.
fn fit_tail(data: &[(f64, bool)]) -> Result<Fit, FitError> {
    let sample = Sample::new(data.iter().copied().filter(|(value, _)| *value > 0.0).collect())?;
    let (distribution, tail) = tail::pareto_tail(&sample)?;
    Fit::new(distribution, true, &tail)
}

/// Observations that the continuous families are fitted to, when those are thinned.
fn thinned_size(sample: &Result<Sample, FitError>) -> Option<u64> {
    sample.as_ref().ok().filter(|s| s.n < s.given).map(|s| s.n)
}

/// Point mass at 0 and each continuous family for the rest, best first. The likelihood is scaled to `size` observations
/// where one is given, since AIC compares likelihoods of equally many.
fn two_part(data: &[(f64, bool)], size: Option<u64>) -> Result<Vec<Fit>, FitError> {
    let zeros = data.iter().filter(|(value, censored)| *value < ZERO_BELOW && !censored).count() as u64;
    if zeros == 0 {
        return Err(FitError::NoZeros);
    }
    let rest = Sample::new(data.iter().copied().filter(|(value, _)| *value >= ZERO_BELOW).collect())?;
    let (fits, mut failures) = fit_continuous(&Ok(rest));
    let mut combined: Vec<Fit> = fits.into_iter().filter_map(|base| with_zeros(base, zeros, size).ok()).collect();
    if combined.is_empty() {
        return Err(failures.pop().map_or(FitError::Diverged, |failure| failure.error));
    }
    sort_by_aic(&mut combined);
    Ok(combined)
}

fn with_zeros(base: Fit, zeros: u64, size: Option<u64>) -> Result<Fit, FitError> {
    let n = base.n + zeros;
    let zero_share = zeros as f64 / n as f64;
    // The zeros count in proportion where the rest is thinned.
    let natural = n as f64 * base.n_fitted as f64 / base.n as f64;
    let n_fitted = size.unwrap_or(natural.round() as u64);
    let scale = n_fitted as f64 / natural;
    let per_value = zero_share * zero_share.ln() + (1.0 - zero_share) * (-zero_share).ln_1p();
    let log_likelihood = n_fitted as f64 * per_value + scale * base.log_likelihood;
    let distribution = Distribution::TwoPart { zero_share, rest: Box::new(base.distribution) };
    Fit {
        base: Some(base.family),
        log_likelihood,
        // All zeros come before any censoring that counts, so both curves are shrunk by the same factor.
        ks: (1.0 - zero_share) * base.ks,
        n,
        n_fitted,
        censored: (base.censored as f64 * scale).round() as u64,
        ..Fit::bare(distribution, base.converged)
    }
    .scored()
}
