//! Nelder and Mead's simplex method (Computer Journal 7, 1965) for two variables, for likelihoods without usable derivatives.
//!
//! Standard coefficients: reflection 1, expansion 2, contraction 1/2, shrinking 1/2. Restarted once from its result, which
//! frees it from a collapsed simplex. Deterministic: ties keep the older vertex first. Some hundred evaluations.
//!
//! Worked number: for -(x - 1)² - 10 (y + 2)² from (0, 0) it returns (1, -2) to six digits.

const MAX_STEPS: usize = 1000;

/// The point at which `f` is largest, from a start and the size of the first simplex, and whether the spread of the values on the
/// simplex fell below `tolerance` relative to their size. NaN counts as minus infinity.
pub(super) fn maximise(f: impl Fn(&[f64; 2]) -> f64, start: [f64; 2], size: f64, tolerance: f64) -> ([f64; 2], bool) {
    let value = |at: [f64; 2]| {
        let v = f(&at);
        (if v.is_nan() { f64::NEG_INFINITY } else { v }, at)
    };
    let (first, _) = climb(&value, start, size, tolerance);
    climb(&value, first, 0.1 * size, tolerance)
}

fn climb(value: &impl Fn([f64; 2]) -> (f64, [f64; 2]), start: [f64; 2], size: f64, tolerance: f64) -> ([f64; 2], bool) {
    let mut simplex = [value(start), value([start[0] + size, start[1]]), value([start[0], start[1] + size])];
    for _ in 0..MAX_STEPS {
        simplex.sort_by(|a, b| b.0.total_cmp(&a.0));
        let [best, second, worst] = simplex;
        let width =
            (0..2).map(|i| (best.1[i] - worst.1[i]).abs().max((best.1[i] - second.1[i]).abs())).fold(0.0, f64::max);
        if (best.0 - worst.0).abs() <= tolerance * 1e-2 * (1.0 + best.0.abs()) && width < 1e-5 {
            return (best.1, true);
        }
        // The point at a multiple of the way from the worst vertex through the middle of the other two.
        let along = |t: f64| {
            let point = |i: usize| {
                let middle = 0.5 * (best.1[i] + second.1[i]);
                middle + t * (middle - worst.1[i])
            };
            value([point(0), point(1)])
        };
        let reflected = along(1.0);
        let replacement = if reflected.0 > best.0 {
            let expanded = along(2.0);
            Some(if expanded.0 > reflected.0 { expanded } else { reflected })
        } else if reflected.0 > second.0 {
            Some(reflected)
        } else {
            let contracted = along(if reflected.0 > worst.0 { 0.5 } else { -0.5 });
            (contracted.0 > worst.0.max(reflected.0)).then_some(contracted)
        };
        match replacement {
            Some(vertex) => simplex[2] = vertex,
            None => {
                for vertex in &mut simplex[1..] {
                    *vertex = value([0.5 * (best.1[0] + vertex.1[0]), 0.5 * (best.1[1] + vertex.1[1])]);
                }
            }
        }
    }
    simplex.sort_by(|a, b| b.0.total_cmp(&a.0));
    (simplex[0].1, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_top_of_a_bowl_and_of_a_ridge() {
        let (at, converged) = maximise(|p| -(p[0] - 1.0).powi(2) - 10.0 * (p[1] + 2.0).powi(2), [0.0, 0.0], 0.5, 1e-10);
        assert!(converged && (at[0] - 1.0).abs() < 1e-4 && (at[1] + 2.0).abs() < 1e-4, "{at:?}");
        // Rosenbrock's valley has its only optimum at (1, 1).
        let (at, _) =
            maximise(|p| -(1.0 - p[0]).powi(2) - 100.0 * (p[1] - p[0] * p[0]).powi(2), [-1.2, 1.0], 0.5, 1e-12);
        assert!((at[0] - 1.0).abs() < 1e-3 && (at[1] - 1.0).abs() < 1e-3, "{at:?}");
    }

    #[test]
    fn stays_out_of_nan() {
        let (at, _) = maximise(|p| p[0].ln() - p[0] - p[1] * p[1], [0.1, 0.1], 0.5, 1e-10);
        assert!((at[0] - 1.0).abs() < 1e-3, "{at:?}");
    }
}
