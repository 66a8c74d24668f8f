//! The trailing maximum of a series: what most rules look back on, and what the guard of a promise measures rises against.
//!
//! Places of values that are larger than all after them are kept in a queue, so all maxima together take O(slots). Worked example: of 5, 9, 4, 4, 4 with two
//! slots of memory, from slot 1 on: 5, 9, 9, 4.

use std::collections::VecDeque;
use std::ops::Range;

/// For each slot of a range, as far as there are values: the largest of the `length` values before it. Nothing else is looked at.
pub fn trailing_maximum(values: &[f64], Range { start, end }: Range<usize>, length: usize) -> Vec<f64> {
    let end = end.min(values.len());
    // Places of values that are larger than all after them, in order.
    let mut stairs: VecDeque<usize> = VecDeque::new();
    let mut result = Vec::with_capacity(end.saturating_sub(start));
    let at = |place: usize| values.get(place).copied().unwrap_or(0.0);
    for slot in start.saturating_sub(length)..end {
        if slot >= start {
            while stairs.front().is_some_and(|first| first + length < slot) {
                stairs.pop_front();
            }
            result.push(stairs.front().map_or(0.0, |first| at(*first)));
        }
        while stairs.back().is_some_and(|last| at(*last) <= at(slot)) {
            stairs.pop_back();
        }
        stairs.push_back(slot);
    }
    result
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_worked_example() {
        assert_eq!(trailing_maximum(&[5.0, 9.0, 4.0, 4.0, 4.0], 1..5, 2), vec![5.0, 9.0, 9.0, 4.0]);
    }

    proptest! {
        #[test]
        fn the_stairs_find_the_maximum(values in prop::collection::vec(0u32..50, 1..60), from in 0usize..20, end in 0usize..70, length in 1usize..12) {
            let values: Vec<f64> = values.into_iter().map(f64::from).collect();
            let plain: Vec<f64> = (from..end.min(values.len()))
                .map(|slot| values.iter().take(slot).skip(slot.saturating_sub(length)).copied().fold(0.0, f64::max))
                .collect();
            prop_assert_eq!(trailing_maximum(&values, from..end, length), plain);
        }
    }
}
