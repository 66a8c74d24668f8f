//! Order statistics that do not interpolate: each is one of the values, as waits of jobs or scores of forecasts are compared.
//!
//! | rank, from 1 | of n values at the level q | 0.5 of 1, 2, 3, 4 |
//! |---|---|---|
//! | nearest rank ([`nearest`]) | ⌈n q⌉, at least 1: the least value that a share q does not exceed | 2 |
//! | upper rank ([`upper`]) | ⌊n q⌋ + 1, at most n: the nearest rank counted from the top | 3 |
//! | closest rank ([`closest_sorted`]) | 1 + (n − 1) q, rounded: the value next to the interpolated quantile | 3 |
//!
//! The nearest rank is type 1 of Hyndman and Fan (The American Statistician 50, 1996); [`quantile`](super::quantile) has type 7, which interpolates.
//! Floats are in the order of `total_cmp`, with NaN above all numbers.
//!
//! Complexity: O(1) of sorted values, O(n) by selection of others.
//!
//! Worked number: of 20 waits the 95 % by nearest rank is the 19th, as 20 × 0.95 = 19; by upper rank it is the 20th.

use std::cmp::Ordering;

/// Rounding error by which a product of a count and a level may exceed a whole number: 100 × 0.07
/// is 7.000000000000001.
const ROUNDING: f64 = 1e-9;

/// Numbers in a total order.
pub trait Ranked: Copy {
    /// Compares two numbers; of floats as `total_cmp` does.
    fn rank_cmp(&self, other: &Self) -> Ordering;
}

impl Ranked for f64 {
    fn rank_cmp(&self, other: &Self) -> Ordering {
        self.total_cmp(other)
    }
}

impl Ranked for f32 {
    fn rank_cmp(&self, other: &Self) -> Ordering {
        self.total_cmp(other)
    }
}

impl Ranked for i64 {
    fn rank_cmp(&self, other: &Self) -> Ordering {
        self.cmp(other)
    }
}

/// Place, from 0, of the nearest rank among `n` values in ascending order; `None` if there are none or `q` is not in 0..=1.
#[must_use]
pub fn nearest_place(n: usize, q: f64) -> Option<usize> {
    let rank = (n as f64 * q - ROUNDING).ceil().max(1.0) as usize;
    (n > 0 && (0.0..=1.0).contains(&q)).then(|| rank.min(n) - 1)
}

/// Place, from 0, of the upper rank among `n` values in ascending order; `None` if there are none or `q` is not in 0..=1.
#[must_use]
pub fn upper_place(n: usize, q: f64) -> Option<usize> {
    (n > 0 && (0.0..=1.0).contains(&q)).then(|| ((n as f64 * q) as usize).min(n - 1))
}

/// Value closest to the level q, from 0 for the first to 1 for the last of values in order; `None` if there are none or `q` is not in 0..=1.
#[must_use]
pub fn closest_sorted<T: Copy>(sorted: &[T], q: f64) -> Option<T> {
    let last = sorted.len().checked_sub(1)?;
    sorted.get((q * last as f64).round() as usize).filter(|_| (0.0..=1.0).contains(&q)).copied()
}

/// Nearest rank of values in ascending order.
#[must_use]
pub fn nearest_sorted<T: Copy>(sorted: &[T], q: f64) -> Option<T> {
    sorted.get(nearest_place(sorted.len(), q)?).copied()
}

/// Upper rank of values in ascending order.
#[must_use]
pub fn upper_sorted<T: Copy>(sorted: &[T], q: f64) -> Option<T> {
    sorted.get(upper_place(sorted.len(), q)?).copied()
}

/// Nearest rank of values in any order, which are put into another. At 0.5 it is the median, of an even number the lower of the middle two.
#[must_use]
pub fn nearest<T: Ranked>(values: &mut [T], q: f64) -> Option<T> {
    let place = nearest_place(values.len(), q)?;
    Some(*values.select_nth_unstable_by(place, T::rank_cmp).1)
}

/// Upper rank of values in any order, which are put into another. At 0.5 it is the median, of an even number the upper of the middle two.
#[must_use]
pub fn upper<T: Ranked>(values: &mut [T], q: f64) -> Option<T> {
    let place = upper_place(values.len(), q)?;
    Some(*values.select_nth_unstable_by(place, T::rank_cmp).1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ranks_by_hand() {
        let four = [1, 2, 3, 4];
        assert_eq!([0.0, 0.25, 0.5, 0.51, 0.99, 1.0].map(|q| nearest_sorted(&four, q)), [1, 1, 2, 3, 4, 4].map(Some));
        assert_eq!([0.0, 0.24, 0.25, 0.5, 0.75, 1.0].map(|q| upper_sorted(&four, q)), [1, 1, 2, 3, 4, 4].map(Some));
        assert_eq!(
            (nearest(&mut [4.0, 1.0, 3.0, 2.0], 0.5), upper(&mut [4.0f32, 1.0, 3.0, 2.0], 0.5)),
            (Some(2.0), Some(3.0))
        );
        assert_eq!([0.0, 0.16, 0.17, 0.5, 1.0].map(|q| closest_sorted(&four, q)), [1, 1, 2, 3, 4].map(Some));
        // 20 × 0.95 = 19.
        assert_eq!((nearest_place(20, 0.95), upper_place(20, 0.95)), (Some(18), Some(19)));
        // 100 × 0.07 is 7.000000000000001, and the 7 % of a hundred values is the seventh.
        assert_eq!(nearest_place(100, 0.07), Some(6));
    }

    #[test]
    fn nothing_and_impossible() {
        assert_eq!((nearest::<i64>(&mut [], 0.5), upper::<f64>(&mut [], 0.5)), (None, None));
        assert_eq!([-0.1, 1.1, f64::NAN].map(|q| (nearest_place(4, q), upper_place(4, q))), [(None, None); 3]);
        assert_eq!((closest_sorted(&[1], f64::NAN), closest_sorted::<f64>(&[], 0.5)), (None, None));
    }

    proptest! {
        /// Nearest rank by its definition, upper rank as that of the values counted from the top.
        #[test]
        fn ranks_are_what_they_are_defined_as(mut values in prop::collection::vec(-50_i64..50, 1..80), percent in 0_usize..=100) {
            let n = values.len();
            let q = percent as f64 / 100.0;
            let least = values.iter().filter(|value| values.iter().filter(|other| other <= value).count() * 100 >= n * percent).min().copied();
            prop_assert_eq!(nearest(&mut values.clone(), q), least);
            // Levels that floats hold exactly, as the upper rank has no room for rounding.
            let q = (percent / 25) as f64 / 4.0;
            let negated: Vec<i64> = values.iter().map(|value| -value).collect();
            prop_assert_eq!(upper(&mut values.clone(), q), nearest(&mut negated.clone(), 1.0 - q).map(|value| -value));
            let (by_nearest, by_upper) = (nearest(&mut values.clone(), q), upper(&mut values.clone(), q));
            values.sort_unstable();
            prop_assert_eq!((nearest_sorted(&values, q), upper_sorted(&values, q)), (by_nearest, by_upper));
            let floats: Vec<f64> = values.iter().rev().map(|value| *value as f64).collect();
            prop_assert_eq!(upper(&mut floats.clone(), q), by_upper.map(|value| value as f64));
        }
    }
}
