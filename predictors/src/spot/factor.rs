//! Factors by which circumstances multiply a chance to change: observed over expected changes,
//! shrunk to 1 by a prior.
//!
//! A factor is (seen + c)/(expected + c): with little data it stays near 1, and c says how little. It is kept between `LEAST` and `MOST`.
//!
//! **Hours of the day** ([`daily`]): changes of the hours around an hour count with it, weighed by a bell of `AROUND_H` hours, with c = `PRIOR_CHANGES`.
//!
//! O(1) a factor. Worked example: 30 changes seen where 10 were expected, and c = 10: the factor is 40/20 = 2.

/// Hours of the day, each with its own chances to change.
pub const HOURS: usize = 24;
/// Over how many hours around one its changes are averaged: the deviation of a bell.
const AROUND_H: f64 = 2.0;
/// Changes that the prior adds to those of an hour: as many as expected.
const PRIOR_CHANGES: f64 = 15.0;
/// Least that a circumstance multiplies a chance by.
const LEAST: f64 = 0.25;
/// Most that it multiplies a chance by.
const MOST: f64 = 4.0;

/// The factor of changes seen and expected, and a prior of as many changes.
pub fn shrunk(seen: f64, expected: f64, prior: f64) -> f64 {
    ((seen + prior) / (expected + prior)).clamp(LEAST, MOST)
}

/// The factor of each class by itself.
pub fn each<const CLASSES: usize>(seen: &[f64; CLASSES], expected: &[f64; CLASSES], prior: f64) -> [f64; CLASSES] {
    std::array::from_fn(|class| shrunk(seen[class], expected[class], prior))
}

/// The factors of the hours of the day.
pub fn daily(seen: &[f64; HOURS], expected: &[f64; HOURS]) -> [f64; HOURS] {
    let around = |counts: &[f64; HOURS], hour: usize| -> f64 {
        let weigh = |other: usize| {
            let apart = hour.abs_diff(other).min(HOURS - hour.abs_diff(other)) as f64 / AROUND_H;
            (-0.5 * apart * apart).exp()
        };
        counts.iter().enumerate().map(|(other, count)| count * weigh(other)).sum()
    };
    std::array::from_fn(|hour| shrunk(around(seen, hour), around(expected, hour), PRIOR_CHANGES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_example() {
        assert!((shrunk(30.0, 10.0, 10.0) - 2.0).abs() < 1e-12);
        assert!((shrunk(0.0, 0.0, 10.0) - 1.0).abs() < 1e-12);
        assert!((shrunk(1e9, 1.0, 1.0) - MOST).abs() < 1e-12);
    }

    #[test]
    fn an_hour_stands_out_with_those_around_it() {
        let mut seen = [10.0; HOURS];
        seen[6] = 100.0;
        let factors = daily(&seen, &[10.0; HOURS]);
        assert!(factors[6] > factors[5] && factors[5] > factors[4] && factors[4] > 1.0);
        assert!((factors[18] - 1.0).abs() < 1e-6);
        assert!((factors[5] - factors[7]).abs() < 1e-12);
    }
}
