//! The predictive distribution of one run: quantiles, mean, the chance that it ends in time, what is left at an age, and the Gittins index.
//!
//! A [`Distribution`] is the log of the run at fixed levels ([`LEVELS`]), straight in between, so that within a step the run is log-uniform. Below the
//! lowest level and above the highest all lies at that knot. Then
//!
//! * the mean is Σ Δa (eᵇ − eᵃ)/(b − a) over the steps, with a and b their ends;
//! * P(run ≤ T) is the level at log T;
//! * given an age, the distribution is that of the runs beyond it, rescaled;
//! * the Gittins index at an age is the largest of P(end within Δ) / E[time run within Δ] over Δ: what a job promises per second.
//!
//! Worked example: a distribution that is 100 s up to level 0.5 and 1,000 s from 0.6 on has mean 0.5 × 100 + 0.4 × 1,000 + 0.1 × 900 / ln 10 = 489 s,
//! P(run ≤ 500 s) = 0.57, and given an age of 200 s a median of 1,000 s.

use serde::{Deserialize, Serialize};

/// Levels of the knots.
pub const LEVELS: [f64; 13] = [0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99];
/// Indices of 5, 10, 50, 90 and 95 % in [`LEVELS`].
pub const SCORED_AT: [usize; 5] = [1, 2, 6, 10, 11];

/// A predictive distribution of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// Log of the run in seconds at [`LEVELS`], ascending.
    knots: [f32; LEVELS.len()],
}

impl Distribution {
    /// The distribution with these knots, put in order where they cross.
    pub fn new(mut knots: [f32; LEVELS.len()]) -> Self {
        knots.sort_unstable_by(f32::total_cmp);
        Self { knots }
    }

    /// The log of the run at a level, 0 to 1.
    pub fn log_quantile(&self, level: f64) -> f64 {
        let at = LEVELS.partition_point(|known| *known < level);
        let (Some(high), Some(b)) = (LEVELS.get(at), self.knots.get(at)) else {
            return self.knots.last().map_or(f64::NAN, |knot| f64::from(*knot));
        };
        let below = at.checked_sub(1);
        let (Some(low), Some(a)) = (below.and_then(|at| LEVELS.get(at)), below.and_then(|at| self.knots.get(at)))
        else {
            return f64::from(*b);
        };
        let (a, b) = (f64::from(*a), f64::from(*b));
        a + (b - a) * (level - low) / (high - low)
    }

    /// The run at a level, seconds.
    pub fn quantile_s(&self, level: f64) -> f64 {
        self.log_quantile(level).exp()
    }

    /// Quantiles of 5, 10, 50, 90 and 95 %, log seconds.
    pub fn scored(&self) -> [f64; 5] {
        SCORED_AT.map(|at| self.knots.get(at).map_or(f64::NAN, |knot| f64::from(*knot)))
    }

    /// Steps: chance, and the log of the run at both ends. The chances add up to 1.
    fn steps(&self) -> impl Iterator<Item = (f64, f64, f64)> + '_ {
        let first = self.knots.first().copied().map_or(f64::NAN, f64::from);
        let last = self.knots.last().copied().map_or(f64::NAN, f64::from);
        let inner = LEVELS.windows(2).zip(self.knots.windows(2)).filter_map(|pair| match pair {
            ([low, high], [a, b]) => Some((high - low, f64::from(*a), f64::from(*b))),
            _ => None,
        });
        let ends = [(LEVELS.first().copied().unwrap_or(0.0), first, first)];
        let tail = [(1.0 - LEVELS.last().copied().unwrap_or(1.0), last, last)];
        ends.into_iter().chain(inner).chain(tail)
    }

    /// Expected run, seconds.
    pub fn mean_s(&self) -> f64 {
        self.expected_within_s(f64::INFINITY)
    }

    /// Expected time run if cut off at `most_s`, seconds: E[min(run, most)].
    pub fn expected_within_s(&self, most_s: f64) -> f64 {
        self.steps().map(|(chance, a, b)| chance * mean_within(a, b, most_s)).sum()
    }

    /// Chance that the run is at most `t_s` seconds.
    pub fn ends_within(&self, t_s: f64) -> f64 {
        let y = t_s.max(1e-9).ln();
        let share = |(chance, a, b): (f64, f64, f64)| {
            let part = if b > a { ((y - a) / (b - a)).clamp(0.0, 1.0) } else { f64::from(u8::from(y >= a)) };
            chance * part
        };
        self.steps().map(share).sum::<f64>().min(1.0)
    }

    /// The distribution of the whole run, given that it has lasted `age_s` seconds. A run that has outlived its distribution is given as much again.
    #[must_use]
    pub fn given_age(&self, age_s: f64) -> Self {
        let gone = self.ends_within(age_s);
        if gone <= 0.0 {
            return *self;
        }
        let y = age_s.max(1e-9).ln();
        if gone >= 0.99 {
            // Nothing is known out there; with a tail of t⁻¹, the median of what is left is the age.
            return Self::new(LEVELS.map(|level| (y - (1.0 - level).ln()) as f32));
        }
        let knot = |level: f64| self.log_quantile(gone + (1.0 - gone) * level).max(y) as f32;
        Self::new(LEVELS.map(knot))
    }

    /// Gittins index of a job of this age, per second: the largest chance to end per second of expected run, over the knots as horizons.
    /// The order by run × GPUs wants it divided by the GPUs.
    pub fn gittins(&self, age_s: f64) -> f64 {
        let distribution = self.given_age(age_s);
        let left = |knot: &f32| f64::from(*knot).exp();
        let index = |to: f64| {
            // Time run within the horizon, beyond the age that has been run.
            let expected = distribution.expected_within_s(to) - age_s;
            if expected > 1e-9 { distribution.ends_within(to) / expected } else { 0.0 }
        };
        distribution.knots.iter().map(left).map(index).fold(0.0, f64::max)
    }
}

/// The run that a share of jobs stays under when each job follows one of `distributions`, as often as its weight says, seconds: the quantile of the
/// **mixture**, which no mean of the distributions' own quantiles is. `None` of no distribution of positive weight.
///
/// It is the least time T with Σ weight × P(run ≤ T) ≥ level × Σ weight, found by halving between the least and the greatest of the distributions' own
/// quantiles, O(distributions). Worked example: half the jobs always run 100 s and half 100,000 s: 95 % stay under 100,000 s, not under 50,050 s.
pub fn mixture_quantile_s(distributions: &[(f64, Distribution)], level: f64) -> Option<f64> {
    let distributions: Vec<&(f64, Distribution)> = distributions
        .iter()
        .filter(|(weight, distribution)| *weight > 0.0 && distribution.log_quantile(level).is_finite())
        .collect();
    let all: f64 = distributions.iter().map(|(weight, _)| weight).sum();
    let at_level = || distributions.iter().map(|(_, distribution)| distribution.log_quantile(level));
    let (mut low, mut high) = (at_level().reduce(f64::min)?, at_level().reduce(f64::max)?);
    let under = |y: f64| {
        distributions.iter().map(|(weight, distribution)| weight * distribution.ends_within(y.exp())).sum::<f64>()
    };
    // A distribution may jump: the upper end is kept where the share is reached.
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        if under(middle) + 1e-9 * all >= level * all {
            high = middle;
        } else {
            low = middle;
        }
    }
    Some(high.exp())
}

/// Halvings of the interval of logs: from e⁴⁰ to a thousandth.
const HALVINGS: u32 = 40;

/// Mean of min(run, most) where log run is uniform between a and b.
fn mean_within(a: f64, b: f64, most_s: f64) -> f64 {
    let cut = most_s.ln();
    if b - a < 1e-9 {
        return a.exp().min(most_s);
    }
    if cut <= a {
        return most_s;
    }
    let top = b.min(cut);
    let below = (top.exp() - a.exp()) / (b - a);
    if cut < b { below + most_s * (b - cut) / (b - a) } else { below }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 100 s up to level ½, 1,000 s from 0.6 on.
    fn two() -> Distribution {
        Distribution::new(LEVELS.map(|level| if level <= 0.5 { 100f32.ln() } else { 1000f32.ln() }))
    }

    #[test]
    fn the_worked_example() {
        let distribution = two();
        // Steps: 0.5 at 100 s, 0.4 at 1,000 s, 0.1 log-uniform between: (1000 − 100) / ln 10 = 390.9: 50 + 400 + 39.1.
        assert!((distribution.mean_s() - 489.09).abs() < 0.1, "{}", distribution.mean_s());
        // Half, and of the middle step ln 5 / ln 10 = 0.699.
        assert!((distribution.ends_within(500.0) - 0.5699).abs() < 1e-3);
        assert!((distribution.quantile_s(0.5) - 100.0).abs() < 0.01);
        assert!(distribution.given_age(200.0).quantile_s(0.5) > 900.0);
        assert!((distribution.expected_within_s(100.0) - 100.0).abs() < 1e-3);
    }

    #[test]
    fn age_makes_the_rest_longer_and_never_shorter_than_itself() {
        let distribution = two();
        let mut before = 0.0;
        for age in [0.0, 50.0, 99.0, 150.0, 500.0, 2000.0, 1e6] {
            let given = distribution.given_age(age);
            assert!(given.quantile_s(0.05) >= age * 0.999);
            let median = given.quantile_s(0.5);
            assert!(median >= before * 0.999);
            before = median;
        }
        // An outlived job is expected to run as long again: P(run ≤ 2 age) = ½.
        assert!((distribution.given_age(1e6).ends_within(2e6) - 0.5).abs() < 0.01);
        // P(end within 900 s more | age 100) = all but the top percent, which lies at 1,000 s too.
        assert!(distribution.given_age(100.0).ends_within(1001.0) > 0.98);
    }

    #[test]
    fn a_job_about_to_end_promises_most() {
        let distribution = two();
        // Fresh: half end at 100 s, E[min(run, 100)] = 100: 0.005 per second.
        assert!((distribution.gittins(0.0) - 0.005).abs() < 1e-4, "{}", distribution.gittins(0.0));
        assert!(distribution.gittins(950.0) > distribution.gittins(200.0));
    }

    #[test]
    fn a_mixture_has_a_quantile_of_its_own() {
        let always = |seconds: f64| Distribution::new([seconds.ln() as f32; LEVELS.len()]);
        let at = |distributions: &[(f64, Distribution)], level: f64| {
            mixture_quantile_s(distributions, level).unwrap_or(f64::NAN)
        };
        let two = [(1.0, always(100.0)), (1.0, always(100_000.0))];
        // Half end at 100 s, the others at 100,000 s: any level above a half is the latter.
        assert!((at(&two, 0.95) / 100_000.0 - 1.0).abs() < 1e-4, "{}", at(&two, 0.95));
        assert!((at(&two, 0.4) / 100.0 - 1.0).abs() < 1e-4);
        // 96 of 100 jobs run 100 s: so do 95 %.
        let rare = [(96.0, always(100.0)), (4.0, always(100_000.0))];
        assert!((at(&rare, 0.95) / 100.0 - 1.0).abs() < 1e-4, "{}", at(&rare, 0.95));
        // Of one distribution, its own: 100 s up to ½, 1,000 s from 0.6 on.
        assert!((at(&[(3.0, self::two())], 0.95) / 1000.0 - 1.0).abs() < 1e-3);
        assert!(mixture_quantile_s(&[], 0.5).is_none());
    }

    #[test]
    fn chances_are_a_distribution() {
        let distribution = Distribution::new(LEVELS.map(|level| (level * 10.0) as f32));
        let mut before = 0.0;
        for step in 0..200 {
            let at = distribution.ends_within((f64::from(step) / 10.0 - 2.0).exp());
            assert!((before..=1.0).contains(&at));
            before = at;
        }
        assert!((before - 1.0).abs() < 1e-12);
    }
}
