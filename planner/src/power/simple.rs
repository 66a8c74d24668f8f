//! Policies of a line each, against which anything cleverer has to show its worth.
//!
//! All decide for slot t from slots before t. *Timeout* is the trailing maximum without a buffer: level k sleeps when nobody has needed it for
//! so many slots. Lazy capacity provisioning (Lin, Wierman, Andrew and Thereska, INFOCOM 2011) clips the last order between the optima of what
//! has passed, computed with wakes and with sleeps charged; where all demand must be served these are the demand itself and the demand kept for as
//! long as a wake costs, so it *is* the timeout at the switching cost, unless it is told some slots ahead: with a window w it lets a level go
//! when it has been idle for β − w slots and is not expected for w more.
//!
//! Worked example: demand 5, 9, 4, 4, 4. A trailing maximum of two slots with a buffer of 1, from slot 1 on: 6, 10, 10, 5, 5.

use std::collections::VecDeque;

/// For each slot from `from` on: the largest of the `length` values before it.
pub fn trailing_maximum(values: &[f64], from: usize, length: usize) -> Vec<f64> {
    // Places of values that are larger than all after them, in order.
    let mut stairs: VecDeque<usize> = VecDeque::new();
    let mut found = Vec::with_capacity(values.len().saturating_sub(from));
    let at = |place: usize| values.get(place).copied().unwrap_or(0.0);
    for slot in 0..values.len() {
        if slot >= from {
            while stairs.front().is_some_and(|first| first + length < slot) {
                stairs.pop_front();
            }
            found.push(stairs.front().map_or(0.0, |first| at(*first)));
        }
        while stairs.back().is_some_and(|last| at(*last) <= at(slot)) {
            stairs.pop_back();
        }
        stairs.push_back(slot);
    }
    found
}

/// For each slot from `from` on, lazy capacity provisioning at a switching cost of `switch` slots, told the most of the `window` slots to come:
/// `expected` has it by slot, of the same length as the answer.
pub fn lazy(values: &[f64], from: usize, switch: usize, window: usize, expected: &[f64]) -> Vec<f64> {
    let past = trailing_maximum(values, from, switch.saturating_sub(window).max(1));
    past.iter().zip(expected).map(|(past, expected)| past.max(*expected)).collect()
}

/// For each slot from `from` on, what a scheduler leaves powered that puts each node to sleep that was idle for `slots`, unless fewer than `keep` idle
/// ones would be left, and wakes nodes only for jobs that need them: Slurm's `SuspendTime` with `SuspendExcNodes=set:keep`. The `keep` are no
/// reserve: once in use, nobody wakes others in their place. `before` were powered before `from`.
pub fn idle_timeout(values: &[f64], from: usize, slots: usize, keep: f64, before: f64) -> Vec<f64> {
    let recent = trailing_maximum(values, from, slots);
    let last = from.checked_sub(1).and_then(|last| values.get(last)).copied().unwrap_or(0.0);
    let lasts = std::iter::once(last).chain(values.iter().skip(from).copied());
    let mut powered = before;
    recent
        .into_iter()
        .zip(lasts)
        .map(|(recent, last)| {
            powered = recent.max(powered.min(last + keep));
            powered
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_worked_example() {
        let orders: Vec<f64> =
            trailing_maximum(&[5.0, 9.0, 4.0, 4.0, 4.0, 0.0], 1, 2).iter().map(|most| most + 1.0).collect();
        assert_eq!(orders, vec![6.0, 10.0, 10.0, 5.0, 5.0]);
    }

    /// Ten nodes, of which each sleeps after two idle slots unless fewer than 2 idle ones would be left. Demand 4, 4, 4, 7, 4, 4, 4, 4 from 4: the ten
    /// fall to 4 + 2; 7 wakes the one that is missing and no reserve, so 7 stay for two slots more, then 6.
    #[test]
    fn idle_nodes_time_out_one_by_one_and_nobody_fills_a_reserve() {
        let demand = [4.0, 4.0, 4.0, 4.0, 7.0, 4.0, 4.0, 4.0, 4.0];
        let powered = idle_timeout(&demand, 1, 2, 2.0, 10.0);
        assert_eq!(powered, vec![6.0, 6.0, 6.0, 6.0, 7.0, 7.0, 6.0, 6.0]);
        // The trailing maximum with a buffer of 2 would have had 9 after the jump.
        let trailing = trailing_maximum(&demand, 1, 2);
        assert_eq!(trailing.get(4).copied(), Some(7.0));
    }

    proptest! {
        #[test]
        fn the_stairs_find_the_maximum(values in prop::collection::vec(0u32..50, 1..60), from in 0usize..20, length in 1usize..12) {
            let values: Vec<f64> = values.into_iter().map(f64::from).collect();
            let plain: Vec<f64> = (from..values.len())
                .map(|slot| values.iter().take(slot).skip(slot.saturating_sub(length)).copied().fold(0.0, f64::max))
                .collect();
            prop_assert_eq!(trailing_maximum(&values, from, length), plain);
        }

        #[test]
        fn lazy_provisioning_that_is_told_nothing_is_the_timeout_at_the_switching_cost(
            values in prop::collection::vec(0u32..50, 1..60),
            switch in 1usize..12,
        ) {
            let values: Vec<f64> = values.into_iter().map(f64::from).collect();
            let nothing = vec![0.0; values.len()];
            prop_assert_eq!(lazy(&values, 0, switch, 0, &nothing), trailing_maximum(&values, 0, switch));
        }
    }
}
