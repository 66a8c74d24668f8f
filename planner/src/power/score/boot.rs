//! Nodes that are ready: those that are powered, less those that still boot.
//!
//! A boot takes L slots, which need not be whole: five minutes are half a slot of ten. A node that is ordered on for a slot begins to boot with it. With
//! n = ⌊L⌋ and f = L − n, and A(t) powered in slot t, ready are
//!
//! ```text
//! min(A(t − n − 1), …, A(t))     in the first f of slot t
//! min(A(t − n), …, A(t))         in the rest of it
//! ```
//!
//! What was needed beyond is unserved for as long as it lacks: f × the shortage of the first part and 1 − f × that of the rest. Where demand moves within a slot,
//! its largest count stands for the slot, so that a count by the minute finds at most as much.
//!
//! O(1 + L) a slot. Worked example: five nodes are ready and seven needed in slots 1 and 2, of which two are ordered on for slot 1 and boot for half a
//! slot: two are short for half of slot 1, one node-slot unserved, and none in slot 2.

use std::collections::VecDeque;

use crate::power::score::constants::Constants;

/// Length of a boot in slots, such as 0.5.
pub(in crate::power) fn boot_slots(constants: &Constants, slot_ms: i64) -> f64 {
    constants.boot_s.max(0.0) * 1000.0 / slot_ms.max(1) as f64
}

/// Slots in which a node that is ordered on may still boot: a boot, rounded up.
pub(in crate::power) fn slots_booting(boot_slots: f64) -> usize {
    boot_slots.max(0.0).ceil() as usize
}

/// Share of a slot for which a node lacks that was on in so many slots before it.
pub(in crate::power) fn missing(boot_slots: f64, slots_on: usize) -> f64 {
    (boot_slots - slots_on as f64).clamp(0.0, 1.0)
}

/// Nodes that are ready, slot by slot.
#[derive(Debug, Clone)]
pub(in crate::power) struct Boots {
    /// Whole slots of a boot, and the rest of it.
    whole: usize,
    part: f64,
    /// Nodes powered in the slots that still matter, the newest first.
    lately: VecDeque<f64>,
}

impl Boots {
    /// With `before` nodes ready before the first slot.
    pub(in crate::power) fn new(boot_slots: f64, before: f64) -> Self {
        let whole = boot_slots.max(0.0).floor();
        let lately = std::iter::repeat_n(before, slots_booting(boot_slots)).collect();
        Self { whole: whole as usize, part: boot_slots.max(0.0) - whole, lately }
    }

    /// Nodes that are ready now.
    pub(in crate::power) fn ready(&self) -> f64 {
        self.lately.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// Node-slots of `need` that find no node ready in the slot to come. `powered` are on in it, of which `joined` came ready to the cluster.
    pub(in crate::power) fn unserved(&mut self, powered: f64, joined: f64, need: f64) -> f64 {
        self.lately.iter_mut().for_each(|earlier| *earlier += joined);
        let later = self.lately.iter().take(self.whole).copied().fold(powered, f64::min);
        let first = self.lately.iter().skip(self.whole).copied().fold(later, f64::min);
        if self.lately.pop_back().is_some() {
            self.lately.push_front(powered);
        }
        self.part * (need - first).max(0.0) + (1.0 - self.part) * (need - later).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{NodeDemand, Worth};
    use super::*;

    const MINUTES: usize = 10;

    #[test]
    fn the_worked_example() {
        let mut boots = Boots::new(0.5, 5.0);
        assert_eq!((boots.unserved(7.0, 0.0, 7.0), boots.unserved(7.0, 0.0, 7.0)), (1.0, 0.0));
        // A boot of a slot and a half: all of slot 1 and half of slot 2. What joins is ready at once.
        let mut boots = Boots::new(1.5, 5.0);
        let result =
            [(7.0, 0.0), (7.0, 0.0), (7.0, 0.0), (9.0, 2.0)].map(|(on, joined)| boots.unserved(on, joined, on));
        assert_eq!(result, [2.0, 1.0, 0.0, 0.0]);
        // A node that is put to sleep before it is ready has never been.
        let mut boots = Boots::new(1.5, 5.0);
        assert_eq!([7.0, 5.0, 7.0, 7.0].map(|on| boots.unserved(on, 0.0, 7.0)), [2.0, 2.0, 2.0, 1.0]);
        assert_eq!((boot_slots(&Constants::default(), 600_000), slots_booting(0.5), slots_booting(0.0)), (0.5, 1, 0));
    }

    /// Counts by the minute, node by node: each node knows since which minute it is on, and whether it came ready. Node-minutes that were needed and
    /// found nobody ready.
    fn by_the_minute(orders: &[usize], need: &[usize], before: usize, boot: usize) -> usize {
        let mut ready_from: Vec<Option<usize>> =
            (0..*orders.iter().max().unwrap_or(&0)).map(|node| (node < before).then_some(0)).collect();
        let mut unserved = 0;
        for (minute, need) in need.iter().enumerate() {
            if minute % MINUTES == 0 {
                let on = orders.get(minute / MINUTES).copied().unwrap_or(0);
                for (node, ready) in ready_from.iter_mut().enumerate() {
                    *ready = (node < on).then(|| ready.unwrap_or(minute + boot));
                }
            }
            let ready = ready_from.iter().flatten().filter(|from| **from <= minute).count();
            unserved += need.saturating_sub(ready);
        }
        unserved
    }

    /// What a plan of orders leaves unserved by the slot, node-minutes.
    fn by_the_slot(orders: &[usize], need: &[f64], before: usize, boot: usize) -> f64 {
        let (constants, worth) = (Constants::default(), Worth::default());
        let orders: Vec<f64> = orders.iter().map(|order| *order as f64).collect();
        let demand = NodeDemand {
            need,
            total: &vec![9.0; need.len()],
            weights: &[],
            before: before as f64,
            boot_slots: boot as f64 / MINUTES as f64,
            slot_ms: 600_000,
            constants: &constants,
            worth: &worth,
        };
        demand.score(&orders, 0.0).unserved_node_slots * MINUTES as f64
    }

    /// Found in review: five minutes of boot were no slot of ten, so that a node that was woken served at once.
    #[test]
    fn by_hand_a_boot_of_five_minutes_takes_five_minutes() {
        // Two nodes are woken for the second slot, in which they are needed: 2 × 5 min. One is needed in the last slot and asleep: 10 min.
        let (orders, need) = ([3, 5, 5, 4], [3.0, 5.0, 5.0, 5.0]);
        assert_eq!(by_the_slot(&orders, &need, 3, 5), 20.0);
        let minutes: Vec<usize> = need.iter().flat_map(|need| std::iter::repeat_n(*need as usize, MINUTES)).collect();
        assert_eq!(by_the_minute(&orders, &minutes, 3, 5), 20);
    }

    proptest! {
        #[test]
        fn slots_count_what_minutes_do(
            plan in prop::collection::vec((0usize..=9, 0usize..=9), 1..20),
            before in 0usize..=9,
            boot in 0usize..35,
            moves in prop::collection::vec(0usize..=9, 200),
        ) {
            let (orders, need): (Vec<usize>, Vec<usize>) = plan.into_iter().unzip();
            let whole: Vec<f64> = need.iter().map(|need| *need as f64).collect();
            let slots = by_the_slot(&orders, &whole, before, boot);
            let steady: Vec<usize> = need.iter().flat_map(|need| std::iter::repeat_n(*need, MINUTES)).collect();
            prop_assert!((slots - by_the_minute(&orders, &steady, before, boot) as f64).abs() < 1e-6);
            // Within a slot demand is at most its largest count, so the minutes find no more.
            let moving: Vec<usize> = steady.iter().zip(&moves).map(|(most, now)| *most.min(now)).collect();
            prop_assert!(by_the_minute(&orders, &moving, before, boot) as f64 <= slots + 1e-6);
        }
    }
}
