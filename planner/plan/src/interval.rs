//! Intervals of what a plan meant: what other stretches of time like those it was tried on might have given.
//!
//! Blocks (weeks, days, windows, traces) are drawn anew with replacement, as many as there are, [`DRAWS`] times; the interval is where 95 % of the draws
//! lie. Whatever is compared is computed of the same draws. O(draws × blocks).
//!
//! Worked example: of two windows, one cost 0.5 and one 0.7 of all on-demand. The mean is 0.6, and a quarter of the draws each hold only the first
//! or only the second, so the interval is from 0.5 to 0.7.

use tracecast_analytics::stats::resample;

use tracecast_replay::compare::IntervalEstimate;

/// Draws for an interval.
pub const DRAWS: u64 = 1000;

/// Computes figures of all `blocks` with their intervals; `figures` computes them from blocks given
/// by position.
pub fn drawn<const N: usize>(
    blocks: usize,
    figures: &dyn Fn(&mut dyn Iterator<Item = usize>) -> [f64; N],
) -> [IntervalEstimate; N] {
    let mut drawn: [Vec<f64>; N] = std::array::from_fn(|_| Vec::with_capacity(DRAWS as usize));
    for draw in 0..DRAWS {
        let result = figures(&mut resample::whole(blocks, draw, 0));
        drawn.iter_mut().zip(result).for_each(|(values, value)| values.push(value));
    }
    let whole = figures(&mut (0..blocks));
    let mut result = drawn.into_iter().zip(whole).map(|(mut values, value)| {
        values.sort_unstable_by(f64::total_cmp);
        let at = |share: f64| values.get((share * (DRAWS - 1) as f64) as usize).copied().unwrap_or(value);
        IntervalEstimate { value, low: at(0.025), high: at(0.975) }
    });
    std::array::from_fn(|_| result.next().unwrap_or(IntervalEstimate { value: 0.0, low: 0.0, high: 0.0 }))
}

/// A ratio, 1 of nothing.
pub fn ratio(part: f64, of: f64) -> f64 {
    if of > 0.0 { part / of } else { 1.0 }
}

/// The mean of `values`; 0 of none.
pub fn average(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0usize), |(sum, count), value| (sum + value, count + 1));
    sum / count.max(1) as f64
}

/// The mean of one figure a block, and its interval.
pub fn mean(values: &[f64]) -> IntervalEstimate {
    let [mean] = drawn(values.len(), &|held| [average(held.filter_map(|block| values.get(block)).copied())]);
    mean
}

/// The quotient of two sums over blocks, such as seconds waited over jobs, and its interval; the divisor counts as 1 at least.
pub fn quotient(blocks: &[(f64, f64)]) -> IntervalEstimate {
    let [quotient] = drawn(blocks.len(), &|held| {
        let parts = held.filter_map(|block| blocks.get(block));
        let (part, of) = parts.fold((0.0, 0.0), |(part, of), block| (part + block.0, of + block.1));
        [part / f64::max(of, 1.0)]
    });
    quotient
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_example() {
        let result = mean(&[0.5, 0.7]);
        assert!(
            (result.value - 0.6).abs() < 1e-12 && (result.low - 0.5).abs() < 1e-12 && (result.high - 0.7).abs() < 1e-12
        );
        let alone = mean(&[0.5]);
        assert!((alone.low - 0.5).abs() < 1e-12 && (alone.high - 0.5).abs() < 1e-12);
    }
}
