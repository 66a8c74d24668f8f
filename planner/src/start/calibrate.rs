//! Quantiles of a start from draws of it, corrected by how earlier answers came true.
//!
//! With waits from the moment of the answer on, y = ln(1 + wait / 60 s). Of an answer, m is the median of the draws of y and s half the way from their 10 % to their 90 % quantile, at
//! least `LEAST_SPREAD`. An answer that came true at y has the **residual** |y − m| / s. The corrected interval that holds a share p is m ± s · Q(p), with Q that quantile of the
//! residuals of the last `WINDOW` answers of its class of horizon (by m), of all classes while there are fewer than `LEAST` in its own, and of the draws themselves while there are fewer
//! than `LEAST` in all. So a model that is too sure is widened as it was wrong, each class by itself. The median is not moved: what made a queue late last week seldom does next week.
//!
//! **What has not come true yet** counts as far as it is known: a job that was asked about and still waits has a residual of at least what the time it has waited comes to, and at least 0. To leave it out would
//! make waits look short, as short ones come true first. So Q is the quantile of the product-limit estimate (Kaplan and Meier, 1958) of the residuals: with n at risk at a residual that came
//! true, the share above falls by 1/n there. Where the estimate never comes to a level, Q is the largest residual seen.
//!
//! O(WINDOW log WINDOW) an answer. Worked number: m = ln 11 (10 min), s = 0.5, and Q = 1.6 at 80 %: the 90 % quantile of the wait is 60 · (11 · e^0.8 − 1) = 1,409 s.

use std::collections::VecDeque;

use tracecast_analytics::stats::quantile::quantile;

/// Answers kept of a class.
const WINDOW: usize = 300;
/// Fewest answers to go by: at the 90 % interval two of 40 lie beyond each end.
const LEAST: usize = 40;
/// Least spread: what is within a tenth is the same wait.
const LEAST_SPREAD: f64 = 0.1;
/// Unit in which waits are told apart near 0, seconds.
const UNIT_S: f64 = 60.0;
/// Largest log of a wait: a thousand years.
const MOST_LOG: f64 = 20.0;
/// Horizons, seconds: an answer is of the first that its median is at most.
pub const HORIZONS_S: [f64; 5] = [600.0, 3600.0, 6.0 * 3600.0, 24.0 * 3600.0, f64::INFINITY];

/// The log of a wait.
fn log(wait_s: f64) -> f64 {
    (wait_s.max(0.0) / UNIT_S).ln_1p()
}

/// Estimate of a wait before it is corrected.
#[derive(Debug, Clone, PartialEq)]
pub struct WaitEstimate {
    logs: Vec<f64>,
    middle: f64,
    spread: f64,
}

impl WaitEstimate {
    /// From draws of the wait, seconds; `None` of none.
    pub fn new(draws_s: impl Iterator<Item = f64>) -> Option<Self> {
        let mut logs: Vec<f64> = draws_s.map(log).collect();
        logs.sort_unstable_by(f64::total_cmp);
        let at = |level: f64| quantile(&logs, level);
        let (low, middle, high) = (at(0.1)?, at(0.5)?, at(0.9)?);
        Some(Self { middle, spread: ((high - low) / 2.0).max(LEAST_SPREAD), logs })
    }

    /// Class of its horizon, a place in [`HORIZONS_S`].
    pub fn horizon(&self) -> usize {
        let median_s = self.middle.exp_m1() * UNIT_S;
        HORIZONS_S.iter().position(|most| median_s <= *most + 1e-3).unwrap_or(HORIZONS_S.len() - 1)
    }

    /// Quantiles of the draws, seconds.
    pub fn drawn<const N: usize>(&self, levels: [f64; N]) -> [f64; N] {
        levels.map(|level| quantile(&self.logs, level).unwrap_or(self.middle).max(0.0).exp_m1() * UNIT_S)
    }

    #[cfg(test)]
    fn residual(&self, wait_s: f64) -> f64 {
        (log(wait_s) - self.middle) / self.spread
    }
}

/// An answer, and what is known of how it came true.
#[derive(Debug, Clone, Copy)]
struct Answer {
    middle: f64,
    spread: f64,
    at_ms: i64,
    /// Wait that came, seconds; it is known from the moment on at which it is over.
    wait_s: f64,
}

/// How earlier answers came true.
#[derive(Debug, Clone, Default)]
pub struct Record {
    of: [VecDeque<Answer>; HORIZONS_S.len()],
    all: VecDeque<Answer>,
}

fn keep(answers: &mut VecDeque<Answer>, answer: Answer) {
    if answers.len() == WINDOW {
        answers.pop_front();
    }
    answers.push_back(answer);
}

impl Record {
    /// Takes in an answer of a moment and the wait that came; the wait counts from the moment on at which it is over.
    pub fn add(&mut self, estimate: &WaitEstimate, at_ms: i64, wait_s: f64) {
        let answer = Answer { middle: estimate.middle, spread: estimate.spread, at_ms, wait_s };
        if let Some(of) = self.of.get_mut(estimate.horizon()) {
            keep(of, answer);
        }
        keep(&mut self.all, answer);
    }

    /// Quantiles of a wait at some rising levels, seconds, as they are known at a moment.
    pub fn quantiles<const N: usize>(&self, estimate: &WaitEstimate, now_ms: i64, levels: [f64; N]) -> [f64; N] {
        let class = self.of.get(estimate.horizon()).filter(|of| of.len() >= LEAST);
        let Some(answers) = class.or_else(|| Some(&self.all).filter(|all| all.len() >= LEAST)) else {
            return estimate.drawn(levels);
        };
        let known = |answer: &Answer| {
            let waited_s = (now_ms - answer.at_ms) as f64 / 1e3;
            let residual = (log(answer.wait_s.min(waited_s)) - answer.middle) / answer.spread;
            let came = answer.wait_s <= waited_s;
            // What still waits may come true right at the median, until it has waited longer than that.
            (if came { residual.abs() } else { residual.max(0.0) }, came)
        };
        let residuals: Vec<(f64, bool)> = answers.iter().map(known).collect();
        let mut result = product_limit(residuals, levels.map(|level| (2.0 * level - 1.0).abs()));
        for (slot, level) in result.iter_mut().zip(levels) {
            // The median stays.
            let side = if level == 0.5 { 0.0 } else { (level - 0.5).signum() };
            let y = estimate.middle + side * estimate.spread * *slot;
            *slot = y.clamp(0.0, MOST_LOG).exp_m1() * UNIT_S;
        }
        result
    }
}

/// Quantiles of values of which some are only known to be larger (`false`).
fn product_limit<const N: usize>(mut values: Vec<(f64, bool)>, levels: [f64; N]) -> [f64; N] {
    // Of equal values those that came are before those that are larger.
    values.sort_unstable_by(|one, other| one.0.total_cmp(&other.0).then(other.1.cmp(&one.1)));
    let count = values.len();
    let (mut above, mut steps) = (1.0, Vec::with_capacity(count));
    for (at, (value, came)) in values.iter().enumerate() {
        if *came {
            above *= 1.0 - 1.0 / (count - at) as f64;
            steps.push((1.0 - above, *value));
        }
    }
    let largest = values.last().map_or(0.0, |(value, _)| *value);
    // The next value beyond a level in the mean keeps what it says.
    let spare = 1.0 / (count as f64 + 1.0);
    levels.map(|level| {
        let level = level + spare * level;
        let at = steps.partition_point(|(share, _)| *share < level - 1e-9);
        steps.get(at).map_or(largest, |(_, value)| *value)
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn estimate() -> WaitEstimate {
        WaitEstimate { logs: vec![11f64.ln()], middle: 11f64.ln(), spread: 0.5 }
    }

    #[test]
    fn the_worked_number() {
        let mut record = Record::default();
        // 99 residuals, evenly from −1.98 to 1.96: four fifths are within 1.6.
        for at in 1..100 {
            let residual = f64::from(at) * 0.02 * if at % 2 == 0 { 1.0 } else { -1.0 };
            record.add(&estimate(), 0, (11.0 * (0.5 * residual).exp() - 1.0) * 60.0);
        }
        let [p90] = record.quantiles(&estimate(), 1 << 40, [0.9]);
        assert!((p90 - 60.0 * (11.0 * 0.8f64.exp() - 1.0)).abs() < 1.0, "{p90}");
        assert!((estimate().residual(p90) - 1.6).abs() < 1e-6);
        assert_eq!(estimate().horizon(), 0);
    }

    #[test]
    fn without_a_record_the_draws_tell() {
        let estimate = WaitEstimate::new([60.0, 120.0, 180.0].into_iter()).unwrap();
        let [middle, high] = Record::default().quantiles(&estimate, 0, [0.5, 1.0]);
        assert!((middle - 120.0).abs() < 1e-6 && (high - 180.0).abs() < 1e-6);
        assert!(WaitEstimate::new(std::iter::empty()).is_none());
    }

    /// By hand: 1 and 3 came, 2 and 4 are larger than that. Above 1 there are 3/4, above 3 half of that.
    #[test]
    fn what_still_waits_counts_as_longer() {
        let values = vec![(1.0, true), (2.0, false), (3.0, true), (4.0, false)];
        assert_eq!(product_limit(values.clone(), [0.2, 0.5, 0.9]), [1.0, 3.0, 4.0]);
        // Had only those counted that came, nine tenths would have been up to 3.
        assert_eq!(product_limit(vec![(1.0, true), (3.0, true)], [0.9]), [3.0]);
    }

    /// Answers of an hour where a few minutes came: the interval reaches as far.
    #[test]
    fn a_model_that_was_wrong_is_widened() {
        let estimate = WaitEstimate::new([3000.0, 3600.0, 4000.0].into_iter()).unwrap();
        let mut record = Record::default();
        (0..60).for_each(|at| record.add(&estimate, 0, 200.0 + f64::from(at)));
        let [p10, p50, p90] = record.quantiles(&estimate, 1 << 40, [0.1, 0.5, 0.9]);
        assert!((200.0..215.0).contains(&p10) && (p50 - 3600.0).abs() < 1e-6 && p90 > 3600.0, "{p10} {p50} {p90}");
        // Before they come true, all that is known is that they were not shorter than that.
        let [early] = record.quantiles(&estimate, 100_000, [0.1]);
        assert!((early - 3600.0).abs() < 1e-6, "{early}");
    }
}
