//! Densities and distribution functions of the fitted laws, written anew from their formulas, and the checks of a fit.
//!
//! A fit's likelihood, criteria and distance are recomputed from its parameters; closed forms are recomputed; for the
//! iterated ones a step of 1 % in any parameter must not raise the likelihood.

use crate::checker::{Checker, SUM};

/// Relative tolerance of special functions.
const SPECIAL: f64 = 1e-7;

/// Regularised lower incomplete gamma function P(a, x): series below a + 1, continued fraction above.
fn gamma_p(a: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    let front = (a * x.ln() - x - ln_gamma(a)).exp();
    if x < a + 1.0 {
        let (mut term, mut sum, mut n) = (1.0 / a, 1.0 / a, a);
        while term > sum * 1e-16 {
            n += 1.0;
            term *= x / n;
            sum += term;
        }
        return sum * front;
    }
    // Lentz's method on 1/(x+1-a- 1(1-a)/(x+3-a- ...)).
    let mut b = x + 1.0 - a;
    let mut c = 1e300;
    let mut d = 1.0 / b;
    let mut h = d;
    for i in 1..10_000 {
        let i = f64::from(i);
        let an = -i * (i - a);
        b += 2.0;
        d = 1.0 / (an * d + b);
        c = b + an / c;
        h *= d * c;
        if (d * c - 1.0).abs() < 1e-16 {
            break;
        }
    }
    1.0 - front * h
}

/// ln Γ: Stirling's series after shifting the argument above 15.
fn ln_gamma(x: f64) -> f64 {
    let (mut x, mut shift) = (x, 0.0);
    while x < 15.0 {
        shift += x.ln();
        x += 1.0;
    }
    let series = 1.0 / (12.0 * x) - 1.0 / (360.0 * x.powi(3)) + 1.0 / (1260.0 * x.powi(5)) - 1.0 / (1680.0 * x.powi(7));
    (x - 0.5) * x.ln() - x + 0.5 * (2.0 * std::f64::consts::PI).ln() + series - shift
}

/// Φ(z) by P(1/2, z²/2).
fn normal(z: f64) -> f64 {
    let half = 0.5 * gamma_p(0.5, z * z / 2.0);
    if z < 0.0 { 0.5 - half } else { 0.5 + half }
}

fn normal_density(z: f64) -> f64 {
    (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt()
}

#[test]
fn special_functions_by_hand() {
    // Γ(5) = 24, Γ(1/2) = √π, P(1, x) = 1 - e^-x, Φ(1.959964) = 0.975.
    assert!((ln_gamma(5.0) - 24f64.ln()).abs() < 1e-12);
    assert!((ln_gamma(0.5) - std::f64::consts::PI.sqrt().ln()).abs() < 1e-12);
    for x in [0.1, 1.0, 3.0, 20.0] {
        assert!((gamma_p(1.0, x) - (1.0 - (-x).exp())).abs() < 1e-12);
    }
    assert!((normal(1.959_964) - 0.975).abs() < 1e-8 && (normal(-1.959_964) - 0.025).abs() < 1e-8);
}

/// ln of the density at x.
fn ln_density(family: &str, p: &[f64], x: f64) -> f64 {
    match family {
        "exponential" => p[0].ln() - p[0] * x,
        "gamma" => (p[0] - 1.0) * x.ln() - x / p[1] - p[0] * p[1].ln() - ln_gamma(p[0]),
        "lognormal" => (normal_density((x.ln() - p[0]) / p[1]) / (p[1] * x)).ln(),
        "lognormal_mixture" => {
            let part = |mu: f64, sigma: f64| normal_density((x.ln() - mu) / sigma) / (sigma * x);
            (p[0] * part(p[1], p[2]) + (1.0 - p[0]) * part(p[3], p[4])).ln()
        }
        "pareto" | "pareto_tail" => p[0].ln() + p[0] * p[1].ln() - (p[0] + 1.0) * x.ln(),
        "weibull" => p[0].ln() - p[1].ln() + (p[0] - 1.0) * (x / p[1]).ln() - (x / p[1]).powf(p[0]),
        other => panic!("no density of {other}"),
    }
}

/// P(X ≤ x).
fn distribution(family: &str, p: &[f64], x: f64) -> f64 {
    match family {
        "exponential" => 1.0 - (-p[0] * x).exp(),
        "gamma" => gamma_p(p[0], x / p[1]),
        "lognormal" => normal((x.ln() - p[0]) / p[1]),
        "lognormal_mixture" => p[0] * normal((x.ln() - p[1]) / p[2]) + (1.0 - p[0]) * normal((x.ln() - p[3]) / p[4]),
        "pareto" | "pareto_tail" => 1.0 - (p[1] / x).powf(p[0]),
        "weibull" => 1.0 - (-(x / p[1]).powf(p[0])).exp(),
        other => panic!("no distribution of {other}"),
    }
}

/// Distinct values, ascending, with how often each occurs.
fn grouped(values: &[f64]) -> Vec<(f64, f64)> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let mut groups: Vec<(f64, f64)> = Vec::new();
    for value in sorted {
        match groups.last_mut() {
            Some((last, count)) if *last == value => *count += 1.0,
            _ => groups.push((value, 1.0)),
        }
    }
    groups
}

fn likelihood(family: &str, p: &[f64], data: &[(f64, f64)]) -> f64 {
    data.iter().map(|(x, count)| count * ln_density(family, p, *x)).sum()
}

/// Largest gap between the law and the data, just before and at each value.
fn distance(family: &str, p: &[f64], data: &[(f64, f64)]) -> f64 {
    let n: f64 = data.iter().map(|(_, count)| count).sum();
    let (mut below, mut gap) = (0.0, 0f64);
    for (x, count) in data {
        let law = distribution(family, p, *x);
        gap = gap.max((law - below / n).abs()).max((law - (below + count) / n).abs());
        below += count;
    }
    gap
}

/// The names of a family's parameters.
fn names(family: &str) -> &'static [&'static str] {
    match family {
        "exponential" => &["rate"],
        "gamma" | "weibull" => &["shape", "scale"],
        "lognormal" => &["mu", "sigma"],
        "lognormal_mixture" => &["weight", "mu_1", "sigma_1", "mu_2", "sigma_2"],
        "pareto" => &["alpha", "x_min"],
        "pareto_tail" => &["alpha", "x_min", "tail_share"],
        other => panic!("no parameters of {other}"),
    }
}

/// The six families of all the data.
const FAMILIES: [&str; 6] = ["exponential", "gamma", "lognormal", "lognormal_mixture", "pareto", "weibull"];

/// The fits at `path` of complete data: the right families, each checked, ranked by AIC. `not_fitted` is where failures are
/// listed, if they are.
pub fn fits(c: &mut Checker, path: &str, values: &[f64], not_fitted: Option<&str>) {
    let zeros = values.iter().filter(|value| **value == 0.0).count() as u64;
    let small = values.iter().filter(|value| **value < 1.0).count() as u64;
    let mut expected: Vec<(String, Option<String>)> = Vec::new();
    for family in FAMILIES {
        if zeros == 0 {
            expected.push((family.to_owned(), None));
        } else {
            expected.push(("two_part".to_owned(), Some(family.to_owned())));
        }
    }
    let count = c.length(path);
    let mut previous = f64::NEG_INFINITY;
    let mut found = Vec::new();
    for ix in 0..count {
        let path = format!("{path}[{ix}]");
        let family = c.value(&format!("{path}.family")).as_str().unwrap().to_owned();
        let base = c.value(&format!("{path}.base")).as_str().map(str::to_owned);
        let aic = fit(c, &path, &family, base.as_deref(), values);
        if aic < previous {
            c.mismatch(format!("{path}: not ranked by AIC"));
        }
        previous = aic;
        found.push((family, base));
    }
    // Below a second but not zero: the continuous families and the best two-part fit beside them.
    if zeros == 0 && small > 0 {
        let two: Vec<_> = found.iter().filter(|(family, _)| family == "two_part").cloned().collect();
        if two.len() != 1 {
            c.mismatch(format!("{path}: {} two-part fits beside continuous ones", two.len()));
        }
        expected.extend(two);
    }
    found.sort();
    expected.sort();
    if found != expected {
        c.mismatch(format!("{path}: fitted {found:?} instead of {expected:?}"));
    }
    let Some(not_fitted) = not_fitted else { return };
    let mut failures: Vec<(&str, &str)> = Vec::new();
    if zeros > 0 {
        failures.extend(FAMILIES.map(|family| (family, "zeros")));
    } else if small == 0 {
        failures.push(("two_part", "no_zeros"));
    }
    c.list(not_fitted, failures.len());
    for (ix, (family, reason)) in failures.iter().enumerate() {
        c.text(&format!("{not_fitted}[{ix}].family"), family);
        c.text(&format!("{not_fitted}[{ix}].error.reason"), reason);
        if *reason == "zeros" {
            c.count(&format!("{not_fitted}[{ix}].error.count"), zeros);
        }
    }
}

/// Reads the parameters of a fit, checking their names.
fn parameters(c: &mut Checker, path: &str, expected: &[&str]) -> Vec<f64> {
    c.list(&format!("{path}.params"), expected.len());
    let read = expected.iter().enumerate().map(|(ix, name)| {
        c.text(&format!("{path}.params[{ix}].name"), name);
        c.read(&format!("{path}.params[{ix}].value"))
    });
    read.collect()
}

/// Checks one fit to all of `values`; returns its AIC.
fn fit(c: &mut Checker, path: &str, family: &str, base: Option<&str>, values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let (zeros, rest, inner, two_part) = match base {
        Some(base) => {
            let rest: Vec<f64> = values.iter().copied().filter(|value| *value >= 1.0).collect();
            (n - rest.len() as f64, rest, base, true)
        }
        None => {
            c.null(&format!("{path}.base"));
            (0.0, values.to_vec(), family, false)
        }
    };
    let mut expected = names(inner).to_vec();
    if two_part {
        expected.insert(0, "zero_share");
    }
    let mut p = parameters(c, path, &expected);
    let k = p.len() as f64;
    let mut zero_share = 0.0;
    if two_part {
        zero_share = p.remove(0);
        c.number(&format!("{path}.params[0].value"), zeros / n, SUM);
    }
    let data = grouped(&rest);
    let ln_l = likelihood(inner, &p, &data);
    let mass = if two_part { zeros * zero_share.ln() + (n - zeros) * (1.0 - zero_share).ln() } else { 0.0 };
    let ll = ln_l + mass;
    c.number(&format!("{path}.log_likelihood"), ll, SUM);
    c.number(&format!("{path}.aic"), 2.0 * k - 2.0 * ll, SUM);
    c.number(&format!("{path}.bic"), k * n.ln() - 2.0 * ll, SUM);
    // With a mass at zero both curves shrink alike above it, and agree at it.
    c.number(&format!("{path}.ks"), (1.0 - zeros / n) * distance(inner, &p, &data), SPECIAL);
    c.count(&format!("{path}.n"), values.len() as u64);
    c.count(&format!("{path}.n_fitted"), values.len() as u64);
    c.count(&format!("{path}.censored"), 0);
    c.flag(&format!("{path}.converged"), true);
    optimal(c, path, inner, &p, &data, ln_l);
    2.0 * k - 2.0 * ll
}

/// Checks that the parameters are where the likelihood is largest.
fn optimal(c: &mut Checker, path: &str, family: &str, p: &[f64], data: &[(f64, f64)], ln_l: f64) {
    let n: f64 = data.iter().map(|(_, count)| count).sum();
    let mean = |f: &dyn Fn(f64) -> f64| data.iter().map(|(x, count)| count * f(*x)).sum::<f64>() / n;
    let closed: Option<Vec<f64>> = match family {
        "exponential" => Some(vec![1.0 / mean(&|x| x)]),
        "lognormal" => {
            let mu = mean(&f64::ln);
            Some(vec![mu, mean(&|x| (x.ln() - mu).powi(2)).sqrt()])
        }
        "pareto" => {
            let first = data[0].0;
            Some(vec![1.0 / mean(&|x| (x / first).ln()), first])
        }
        _ => None,
    };
    if let Some(closed) = closed {
        for (found, expected) in p.iter().zip(&closed) {
            if (found - expected).abs() > 1e-9 * expected.abs() {
                c.mismatch(format!("{path}: {family} parameter {found} instead of {expected}"));
            }
        }
        return;
    }
    // No component of the mixture may be narrower than a twentieth of the spread of all logs, or it could shrink onto one
    // value; nor may its weight leave 0 to 1.
    let mu = mean(&f64::ln);
    let narrowest = 0.05 * mean(&|x| (x.ln() - mu).powi(2)).sqrt();
    let allowed = |p: &[f64]| family != "lognormal_mixture" || (p[0] < 1.0 && p[2] >= narrowest && p[4] >= narrowest);
    if p[..].iter().any(|value| !value.is_finite()) || !allowed(&p.iter().map(|v| v * (1.0 + 1e-9)).collect::<Vec<_>>())
    {
        c.mismatch(format!("{path}: {family} parameters {p:?} are not allowed"));
    }
    for ix in 0..p.len() {
        for factor in [0.99, 1.01] {
            let mut moved = p.to_vec();
            moved[ix] *= factor;
            if !allowed(&moved) {
                continue;
            }
            let other = likelihood(family, &moved, data);
            if other > ln_l + 1e-9 * ln_l.abs() {
                c.mismatch(format!("{path}: {family} parameter {ix} × {factor} raises ln L from {ln_l} to {other}"));
            }
        }
    }
}

/// The Pareto tail at `path`: of the candidates for its beginning the one with the smallest distance.
pub fn tail(c: &mut Checker, path: &str, values: &[f64]) {
    let positive: Vec<f64> = values.iter().copied().filter(|value| *value > 0.0).collect();
    let data = grouped(&positive);
    let from = |ix: usize| data[ix..].iter().map(|(_, count)| count).sum::<f64>();
    // Values from which at least 50 lie ahead; at most a hundred of them at even ranks are tried.
    let mut starts = Vec::new();
    let mut left = positive.len() as f64;
    for (ix, (_, count)) in data.iter().enumerate() {
        if left >= 50.0 {
            starts.push(ix);
        }
        left -= count;
    }
    let tried = starts.len().min(100);
    let mut best: Option<(f64, usize)> = None;
    let exponent = |ix: usize| {
        let sum: f64 = data[ix..].iter().map(|(x, count)| count * (x / data[ix].0).ln()).sum();
        from(ix) / sum
    };
    let gap = |ix: usize| distance("pareto_tail", &[exponent(ix), data[ix].0], &data[ix..]);
    for i in 0..tried {
        let ix = starts[i * starts.len() / tried];
        if data.len() - ix < 2 {
            continue;
        }
        let distance = gap(ix);
        if best.is_none_or(|(smallest, _)| distance < smallest) {
            best = Some((distance, ix));
        }
    }
    let (_, ix) = best.unwrap();
    let p = parameters(c, path, names("pareto_tail"));
    c.text(&format!("{path}.family"), "pareto_tail");
    c.null(&format!("{path}.base"));
    let n = from(ix);
    for (at, expected) in [exponent(ix), data[ix].0, n / positive.len() as f64].into_iter().enumerate() {
        c.number(&format!("{path}.params[{at}].value"), expected, SUM);
    }
    let ll = likelihood("pareto_tail", &p, &data[ix..]);
    c.number(&format!("{path}.log_likelihood"), ll, SUM);
    // The share of the tail is counted, not fitted: two parameters.
    c.number(&format!("{path}.aic"), 4.0 - 2.0 * ll, SUM);
    c.number(&format!("{path}.bic"), 2.0 * n.ln() - 2.0 * ll, SUM);
    c.number(&format!("{path}.ks"), gap(ix), SPECIAL);
    c.count(&format!("{path}.n"), n as u64);
    c.count(&format!("{path}.n_fitted"), n as u64);
    c.count(&format!("{path}.censored"), 0);
    c.flag(&format!("{path}.converged"), true);
}
