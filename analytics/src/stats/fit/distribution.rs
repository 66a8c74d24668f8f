//! The fitted distributions: distribution function, log density, log survival function and quantile of each family.
//!
//! | family | survival function S(x) for x in its support |
//! |---|---|
//! | exponential | exp(-rate x) |
//! | Weibull | exp(-(x / scale)^shape) |
//! | gamma | Q(shape, x / scale), the upper incomplete gamma function |
//! | lognormal | 1 - Φ((ln x - mu) / sigma) |
//! | lognormal mixture | weight S₁(x) + (1 - weight) S₂(x) |
//! | Pareto | (x / x_min)^-alpha; the density exponent of Clauset et al. is alpha + 1 |
//! | two-part | (1 - zero_share) S of the rest |
//!
//! O(1) each, quantiles of gamma and mixture by bisection. Worked number: Weibull(2, 10) at 10 has S = exp(-1) = 0.368.

use schemars::JsonSchema;
use serde::Serialize;
use statrs::function::gamma::ln_gamma;

use super::special::{gamma_cdf, gamma_ln_sf, normal_cdf, normal_ln_pdf, normal_ln_sf, normal_quantile};

/// A family of distributions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Family {
    /// Exponential: rate.
    Exponential,
    /// Gamma: shape, scale.
    Gamma,
    /// Lognormal: mu, sigma of the natural logarithm.
    Lognormal,
    /// Two lognormals: weight of the first, mu and sigma of both, the smaller mu first.
    LognormalMixture,
    /// Pareto of all the data: alpha, x_min (the smallest value).
    Pareto,
    /// Pareto of the values from x_min on: alpha, x_min, tail_share (share of the positive values that lie there).
    ParetoTail,
    /// A point mass at 0 and a continuous family for the rest: zero_share and the parameters of the rest.
    TwoPart,
    /// Weibull: shape, scale.
    Weibull,
}

impl Family {
    /// Name for people.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Exponential => "exponential",
            Self::Gamma => "gamma",
            Self::Lognormal => "lognormal",
            Self::LognormalMixture => "lognormal mixture",
            Self::Pareto => "Pareto",
            Self::ParetoTail => "Pareto tail",
            Self::TwoPart => "two-part",
            Self::Weibull => "Weibull",
        }
    }

    /// Name as in serialised output.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Exponential => "exponential",
            Self::Gamma => "gamma",
            Self::Lognormal => "lognormal",
            Self::LognormalMixture => "lognormal_mixture",
            Self::Pareto => "pareto",
            Self::ParetoTail => "pareto_tail",
            Self::TwoPart => "two_part",
            Self::Weibull => "weibull",
        }
    }
}

/// A named parameter.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Param {
    /// Name, as listed at [`Family`].
    pub name: String,
    /// Value; scales and x_min in the unit of the data.
    pub value: f64,
}

/// Parameters of one lognormal distribution.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LogNormal {
    /// Mean of the natural logarithm.
    pub mu: f64,
    /// Standard deviation of the natural logarithm, above 0.
    pub sigma: f64,
}

impl LogNormal {
    fn z(self, x: f64) -> f64 {
        (x.ln() - self.mu) / self.sigma
    }

    fn ln_pdf(self, x: f64) -> f64 {
        normal_ln_pdf(self.z(x)) - self.sigma.ln() - x.ln()
    }

    fn quantile(self, p: f64) -> f64 {
        (self.mu + self.sigma * normal_quantile(p)).exp()
    }
}

/// A distribution with its parameters.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the parameters are described at Family")]
pub enum Distribution {
    /// See [`Family::Exponential`].
    Exponential { rate: f64 },
    /// See [`Family::Gamma`].
    Gamma { shape: f64, scale: f64 },
    /// See [`Family::Lognormal`].
    Lognormal(LogNormal),
    /// See [`Family::LognormalMixture`].
    LognormalMixture { weight: f64, first: LogNormal, second: LogNormal },
    /// See [`Family::Pareto`].
    Pareto { alpha: f64, x_min: f64 },
    /// See [`Family::ParetoTail`]. The functions describe the values from `x_min` on.
    ParetoTail { alpha: f64, x_min: f64, tail_share: f64 },
    /// See [`Family::TwoPart`].
    TwoPart { zero_share: f64, rest: Box<Distribution> },
    /// See [`Family::Weibull`].
    Weibull { shape: f64, scale: f64 },
}

impl Distribution {
    /// Returns the family.
    #[must_use]
    pub fn family(&self) -> Family {
        match self {
            Self::Exponential { .. } => Family::Exponential,
            Self::Gamma { .. } => Family::Gamma,
            Self::Lognormal(_) => Family::Lognormal,
            Self::LognormalMixture { .. } => Family::LognormalMixture,
            Self::Pareto { .. } => Family::Pareto,
            Self::ParetoTail { .. } => Family::ParetoTail,
            Self::TwoPart { .. } => Family::TwoPart,
            Self::Weibull { .. } => Family::Weibull,
        }
    }

    /// Parameters by name, in the order listed at [`Family`].
    #[must_use]
    pub fn params(&self) -> Vec<Param> {
        let named = |list: &[(&str, f64)]| {
            list.iter().map(|(name, value)| Param { name: (*name).to_owned(), value: *value }).collect::<Vec<_>>()
        };
        match self {
            Self::Exponential { rate } => named(&[("rate", *rate)]),
            Self::Gamma { shape, scale } | Self::Weibull { shape, scale } => {
                named(&[("shape", *shape), ("scale", *scale)])
            }
            Self::Lognormal(distribution) => named(&[("mu", distribution.mu), ("sigma", distribution.sigma)]),
            Self::LognormalMixture { weight, first, second } => named(&[
                ("weight", *weight),
                ("mu_1", first.mu),
                ("sigma_1", first.sigma),
                ("mu_2", second.mu),
                ("sigma_2", second.sigma),
            ]),
            Self::Pareto { alpha, x_min } => named(&[("alpha", *alpha), ("x_min", *x_min)]),
            Self::ParetoTail { alpha, x_min, tail_share } => {
                named(&[("alpha", *alpha), ("x_min", *x_min), ("tail_share", *tail_share)])
            }
            Self::TwoPart { zero_share, rest } => {
                let mut list = named(&[("zero_share", *zero_share)]);
                list.extend(rest.params());
                list
            }
        }
    }

    /// Number of parameters that the likelihood was maximised over, for AIC and BIC.
    pub(super) fn free_parameters(&self) -> usize {
        match self {
            // The share of the tail is counted, not fitted.
            Self::ParetoTail { .. } => 2,
            other => other.params().len(),
        }
    }

    /// P(X ≤ x); NaN for NaN.
    #[must_use]
    pub fn cdf(&self, x: f64) -> f64 {
        match self {
            Self::TwoPart { zero_share, rest } => {
                if x < 0.0 {
                    0.0
                } else {
                    zero_share + (1.0 - zero_share) * rest.cdf(x)
                }
            }
            _ if x <= 0.0 => 0.0,
            _ if x == f64::INFINITY => 1.0,
            Self::Exponential { rate } => -(-rate * x).exp_m1(),
            Self::Gamma { shape, scale } => gamma_cdf(*shape, x / scale),
            Self::Lognormal(distribution) => normal_cdf(distribution.z(x)),
            Self::LognormalMixture { weight, first, second } => {
                weight * normal_cdf(first.z(x)) + (1.0 - weight) * normal_cdf(second.z(x))
            }
            Self::Pareto { .. } | Self::ParetoTail { .. } | Self::Weibull { .. } => -self.ln_sf(x).exp_m1(),
        }
    }

    /// ln P(X > x) for x > 0.
    pub(super) fn ln_sf(&self, x: f64) -> f64 {
        match self {
            Self::Exponential { rate } => -rate * x,
            Self::Gamma { shape, scale } => gamma_ln_sf(*shape, x / scale),
            Self::Lognormal(distribution) => normal_ln_sf(distribution.z(x)),
            Self::LognormalMixture { weight, first, second } => {
                ln_mix(*weight, normal_ln_sf(first.z(x)), normal_ln_sf(second.z(x)))
            }
            Self::Pareto { alpha, x_min } | Self::ParetoTail { alpha, x_min, .. } => -alpha * (x / x_min).ln().max(0.0),
            Self::TwoPart { zero_share, rest } => (-zero_share).ln_1p() + rest.ln_sf(x),
            Self::Weibull { shape, scale } => -(shape * (x / scale).ln()).exp(),
        }
    }

    /// Log density at x > 0 in the support.
    pub(super) fn ln_pdf(&self, x: f64) -> f64 {
        match self {
            Self::Exponential { rate } => rate.ln() - rate * x,
            Self::Gamma { shape, scale } => (shape - 1.0) * x.ln() - x / scale - shape * scale.ln() - ln_gamma(*shape),
            Self::Lognormal(distribution) => distribution.ln_pdf(x),
            Self::LognormalMixture { weight, first, second } => ln_mix(*weight, first.ln_pdf(x), second.ln_pdf(x)),
            Self::Pareto { alpha, x_min } | Self::ParetoTail { alpha, x_min, .. } => {
                alpha.ln() - x_min.ln() - (alpha + 1.0) * (x / x_min).ln()
            }
            Self::TwoPart { zero_share, rest } => (-zero_share).ln_1p() + rest.ln_pdf(x),
            Self::Weibull { shape, scale } => {
                let t = (x / scale).ln();
                shape.ln() - scale.ln() + (shape - 1.0) * t - (shape * t).exp()
            }
        }
    }

    /// Smallest x with P(X ≤ x) ≥ p; `None` when p is not in 0..1 (all distributions are unbounded above).
    #[must_use]
    pub fn quantile(&self, p: f64) -> Option<f64> {
        if !(0.0..1.0).contains(&p) {
            return None;
        }
        let value = match self {
            Self::TwoPart { zero_share, rest } => {
                if p <= *zero_share {
                    0.0
                } else {
                    rest.quantile((p - zero_share) / (1.0 - zero_share))?
                }
            }
            Self::Pareto { alpha, x_min } | Self::ParetoTail { alpha, x_min, .. } => {
                x_min * (-(-p).ln_1p() / alpha).exp()
            }
            _ if p == 0.0 => 0.0,
            Self::Exponential { rate } => -(-p).ln_1p() / rate,
            Self::Weibull { shape, scale } => scale * (-(-p).ln_1p()).powf(1.0 / shape),
            Self::Lognormal(distribution) => distribution.quantile(p),
            Self::LognormalMixture { first, second, .. } => {
                // The quantile of a mixture lies between those of its parts.
                let (a, b) = (first.quantile(p), second.quantile(p));
                self.bisect(p, a.min(b), a.max(b))
            }
            Self::Gamma { shape, scale } => {
                let mean = shape * scale;
                let mut low = mean;
                while self.cdf(low) > p && low > f64::MIN_POSITIVE {
                    low *= 0.125;
                }
                let mut high = mean;
                while self.cdf(high) < p && high < f64::MAX / 8.0 {
                    high *= 2.0;
                }
                self.bisect(p, low, high)
            }
        };
        value.is_finite().then_some(value)
    }

    /// Bisection in log x on 0 < low ≤ quantile ≤ high.
    fn bisect(&self, p: f64, low: f64, high: f64) -> f64 {
        let (mut low, mut high) = (low.max(f64::MIN_POSITIVE).ln(), high.max(f64::MIN_POSITIVE).ln());
        for _ in 0..200 {
            let middle = 0.5 * (low + high);
            if middle <= low || middle >= high {
                break;
            }
            if self.cdf(middle.exp()) < p {
                low = middle;
            } else {
                high = middle;
            }
        }
        high.exp()
    }
}

/// ln(w exp a + (1 - w) exp b) without underflow.
fn ln_mix(weight: f64, a: f64, b: f64) -> f64 {
    let (a, b) = (weight.ln() + a, (-weight).ln_1p() + b);
    let high = a.max(b);
    if high == f64::NEG_INFINITY {
        return high;
    }
    high + ((a - high).exp() + (b - high).exp()).ln()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(super) mod tests {
    use super::*;

    pub(in crate::stats::fit) fn examples() -> Vec<Distribution> {
        vec![
            Distribution::Exponential { rate: 0.01 },
            Distribution::Gamma { shape: 0.4, scale: 900.0 },
            Distribution::Gamma { shape: 3.0, scale: 20.0 },
            Distribution::Lognormal(LogNormal { mu: 6.0, sigma: 2.0 }),
            Distribution::LognormalMixture {
                weight: 0.3,
                first: LogNormal { mu: 3.0, sigma: 0.8 },
                second: LogNormal { mu: 8.0, sigma: 1.2 },
            },
            Distribution::Pareto { alpha: 1.5, x_min: 4.0 },
            Distribution::Weibull { shape: 0.6, scale: 500.0 },
        ]
    }

    #[test]
    fn by_hand() {
        assert!((Distribution::Weibull { shape: 2.0, scale: 10.0 }.cdf(10.0) - (1.0 - (-1.0_f64).exp())).abs() < 1e-12);
        // (8/4)^-1.5 = 0.3536 remain above 8.
        assert!((Distribution::Pareto { alpha: 1.5, x_min: 4.0 }.cdf(8.0) - (1.0 - 0.5_f64.powf(1.5))).abs() < 1e-12);
        // The median of a lognormal is exp(mu).
        let distribution = Distribution::Lognormal(LogNormal { mu: 2.0, sigma: 3.0 });
        assert!((distribution.quantile(0.5).unwrap() - 2.0_f64.exp()).abs() < 1e-9);
        assert!(
            examples()
                .iter()
                .all(|distribution| distribution.cdf(f64::INFINITY) == 1.0 && distribution.cdf(-1.0) == 0.0)
        );
        assert_eq!(distribution.quantile(1.0), None);
        assert_eq!(distribution.quantile(f64::NAN), None);
        let two = Distribution::TwoPart { zero_share: 0.25, rest: Box::new(Distribution::Exponential { rate: 1.0 }) };
        assert_eq!((two.cdf(-1.0), two.cdf(0.0), two.quantile(0.2)), (0.0, 0.25, Some(0.0)));
        // 0.25 + 0.75 · 0.5 at the median of the rest.
        assert!((two.quantile(0.625).unwrap() - 2.0_f64.ln()).abs() < 1e-12);
    }

    #[test]
    fn the_four_functions_of_each_law_agree() {
        for distribution in examples() {
            for p in [0.001, 0.1, 0.5, 0.9, 0.999] {
                let x = distribution.quantile(p).unwrap();
                assert!((distribution.cdf(x) - p).abs() < 1e-9, "{distribution:?} at {p}");
                assert!((distribution.ln_sf(x).exp() - (1.0 - p)).abs() < 1e-9, "{distribution:?} at {p}");
                let h = x * 1e-5;
                let slope = (distribution.cdf(x + h) - distribution.cdf(x - h)) / (2.0 * h);
                assert!((distribution.ln_pdf(x).exp() / slope - 1.0).abs() < 1e-4, "{distribution:?} at {p}");
            }
        }
    }
}
