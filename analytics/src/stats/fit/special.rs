//! Special functions that the fits need and statrs lacks or computes without logarithms: normal tails far out, trigamma, and
//! the logarithm of the upper incomplete gamma function.
//!
//! Sources: Laplace's continued fraction of the Mills ratio (Abramowitz and Stegun 26.2.14), the recurrence and asymptotic
//! series of trigamma (6.4.6, 6.4.12), series and continued fraction of the incomplete gamma function (6.5.29, 6.5.31), the
//! fractions evaluated by Lentz's method. O(1) each; the gamma functions take about sqrt(shape) terms near their mean.
//!
//! Worked number: the hazard of a standard normal at 0 is φ(0) / 0.5 = 0.7979.

use std::f64::consts::{PI, SQRT_2};

use statrs::function::{
    erf::{erfc, erfc_inv},
    gamma::ln_gamma,
};

/// ln sqrt(2 π).
pub(super) const LN_SQRT_2PI: f64 = 0.918_938_533_204_672_8;
/// Value from which the continued fraction is used for the normal tail.
const FAR: f64 = 6.0;
/// Bound on the terms of a series or fraction, which below [`LARGE_SHAPE`] take some thousand.
const MAX_TERMS: u32 = 100_000;
/// Shape from which a gamma distribution is normal to seven digits on the scale of Wilson and
/// Hilferty.
const LARGE_SHAPE: f64 = 1e5;

/// z with P(a, x) = Φ(z) for large a: the cube root of a gamma variable is all but normal (Wilson and Hilferty, PNAS 17, 1931).
fn wilson_hilferty(a: f64, x: f64) -> f64 {
    ((x / a).cbrt() - 1.0 + 1.0 / (9.0 * a)) * 3.0 * a.sqrt()
}

/// ln φ(z), the log density of the standard normal.
pub(super) fn normal_ln_pdf(z: f64) -> f64 {
    -0.5 * z * z - LN_SQRT_2PI
}

/// Φ(z).
pub(super) fn normal_cdf(z: f64) -> f64 {
    0.5 * erfc(-z / SQRT_2)
}

/// ln (1 - Φ(z)), accurate far beyond the point where 1 - Φ(z) underflows.
pub(super) fn normal_ln_sf(z: f64) -> f64 {
    if z > FAR { normal_ln_pdf(z) + mills(z).ln() } else { (0.5 * erfc(z / SQRT_2)).ln() }
}

/// Hazard φ(z) / (1 - Φ(z)), about z for large z.
pub fn normal_hazard(z: f64) -> f64 {
    if z > FAR { 1.0 / mills(z) } else { (-0.5 * z * z).exp() / (2.0 * PI).sqrt() / (0.5 * erfc(z / SQRT_2)) }
}

/// Inverse of Φ for 0 < p < 1.
pub(super) fn normal_quantile(p: f64) -> f64 {
    -SQRT_2 * erfc_inv(2.0 * p)
}

/// Mills ratio (1 - Φ(z)) / φ(z) = 1/(z + 1/(z + 2/(z + 3/(z + ...)))) for z above [`FAR`], where 40 terms give full accuracy.
fn mills(z: f64) -> f64 {
    let mut tail = z;
    for k in (1..=40_u8).rev() {
        tail = z + f64::from(k) / tail;
    }
    1.0 / tail
}

/// ψ'(x), the second derivative of ln Γ, for x > 0.
pub(super) fn trigamma(x: f64) -> f64 {
    // Upwards by ψ'(x) = ψ'(x + 1) + 1/x² to where the asymptotic series is exact to rounding.
    let mut z = x;
    let mut sum = 0.0;
    while z < 15.0 {
        sum += 1.0 / (z * z);
        z += 1.0;
    }
    let r = 1.0 / (z * z);
    sum + 1.0 / z + 0.5 * r + r / z * (1.0 / 6.0 - r * (1.0 / 30.0 - r * (1.0 / 42.0 - r / 30.0)))
}

/// P(a, x), the regularised lower incomplete gamma function, for a > 0 and x ≥ 0.
pub(super) fn gamma_cdf(a: f64, x: f64) -> f64 {
    if x <= 0.0 {
        0.0
    } else if a > LARGE_SHAPE {
        normal_cdf(wilson_hilferty(a, x))
    } else if x < a + 1.0 {
        ln_lower(a, x).exp().min(1.0)
    } else {
        -ln_upper(a, x).exp_m1()
    }
}

/// ln Q(a, x) = ln (1 - P(a, x)), without underflow in the tail.
pub(super) fn gamma_ln_sf(a: f64, x: f64) -> f64 {
    if x <= 0.0 {
        0.0
    } else if a > LARGE_SHAPE {
        normal_ln_sf(wilson_hilferty(a, x))
    } else if x < a + 1.0 {
        (-ln_lower(a, x).exp().min(1.0)).ln_1p()
    } else {
        ln_upper(a, x)
    }
}

/// ln P(a, x) by its series Σ xⁿ / (a (a+1) ... (a+n)), for x below a + 1.
fn ln_lower(a: f64, x: f64) -> f64 {
    let mut term = 1.0 / a;
    let mut sum = term;
    let mut n = a;
    for _ in 0..MAX_TERMS {
        n += 1.0;
        term *= x / n;
        sum += term;
        if term < sum * 1e-16 {
            break;
        }
    }
    a * x.ln() - x - ln_gamma(a) + sum.ln()
}

/// ln Q(a, x) by its continued fraction, for x from a + 1 on.
fn ln_upper(a: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let mut b = x + 1.0 - a;
    let mut c = 1.0 / TINY;
    let mut d = 1.0 / b;
    let mut h = d;
    for i in 1..=MAX_TERMS {
        let i = f64::from(i);
        let an = -i * (i - a);
        b += 2.0;
        d = an * d + b;
        if d.abs() < TINY {
            d = TINY;
        }
        c = b + an / c;
        if c.abs() < TINY {
            c = TINY;
        }
        d = 1.0 / d;
        let step = d * c;
        h *= step;
        if (step - 1.0).abs() < 1e-15 {
            break;
        }
    }
    a * x.ln() - x - ln_gamma(a) + h.ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use statrs::function::gamma::digamma;

    fn close(got: f64, expected: f64, tolerance: f64) {
        assert!((got - expected).abs() <= tolerance * expected.abs().max(1e-300), "{got} instead of {expected}");
    }

    #[test]
    fn normal_tails() {
        close(normal_hazard(0.0), (2.0 / PI).sqrt(), 1e-12);
        // Both branches agree where they meet.
        close(normal_ln_sf(FAR - 1e-9), normal_ln_sf(FAR + 1e-9), 1e-8);
        close(normal_hazard(FAR - 1e-9), normal_hazard(FAR + 1e-9), 1e-8);
        // ln Q(z) = -z²/2 - ln(z sqrt 2π) + ln(1 - 1/z² + 3/z⁴ ...): at 40, -800 - ln 40 - 0.918939 - 0.000623.
        close(normal_ln_sf(40.0), -800.0 - 40.0_f64.ln() - LN_SQRT_2PI - 1.0 / 1600.0 + 2.5 / 2_560_000.0, 1e-10);
        close(normal_quantile(0.975), 1.959_963_984_540_054, 1e-9);
        close(normal_cdf(1.959_963_984_540_054), 0.975, 1e-11);
    }

    #[test]
    fn trigamma_at_known_points() {
        close(trigamma(1.0), PI * PI / 6.0, 1e-13);
        close(trigamma(0.5), PI * PI / 2.0, 1e-13);
        for x in [0.01, 0.7, 3.0, 20.0] {
            let h = x * 1e-5;
            close(trigamma(x), (digamma(x + h) - digamma(x - h)) / (2.0 * h), 1e-4);
        }
    }

    #[test]
    fn incomplete_gamma_at_closed_forms() {
        for x in [0.001, 0.5, 1.9, 2.1, 30.0, 800.0] {
            // Q(1, x) = exp(-x); Q(2, x) = (1 + x) exp(-x).
            close(gamma_ln_sf(1.0, x), -x, 1e-10);
            close(gamma_ln_sf(2.0, x), x.ln_1p() - x, 1e-9);
            close(gamma_cdf(1.0, x), -(-x).exp_m1(), 1e-12);
        }
        assert_eq!((gamma_cdf(2.0, 0.0), gamma_ln_sf(2.0, 0.0)), (0.0, 0.0));
        // The median of a gamma distribution of large shape is shape - 1/3.
        close(gamma_cdf(1e5, 1e5 - 1.0 / 3.0), 0.5, 1e-6);
    }

    #[test]
    fn large_shapes_join_the_series_without_a_step() {
        for deviations in [-3.0, -1.0, 0.0, 0.5, 2.0, 4.0] {
            let x = LARGE_SHAPE + deviations * LARGE_SHAPE.sqrt();
            let series = gamma_cdf(LARGE_SHAPE, x);
            assert!((series - normal_cdf(wilson_hilferty(LARGE_SHAPE, x))).abs() < 1e-6, "{deviations}");
        }
    }
}
