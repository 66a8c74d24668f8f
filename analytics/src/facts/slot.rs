//! Counts within slots of equal length: the largest, the last and the mean of each, as demand forecasts and plans take them.
//!
//! A slot begins on a whole multiple of its length after local midnight. Slots that the record covers in part, at its ends, are
//! left out. Slots in which nothing was counted carry on the last count and say so ([`Slot::counted`]).
//!
//! O(slots + what is added). Worked number: counts 3, 5, 4 at minutes 0, 1, 2 of a slot of three minutes: peak 5, last 4, mean 4.

use crate::time::Zone;

/// Counts within one slot.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Slot {
    /// Largest count, in use.
    pub peak: f64,
    /// Count at the end.
    pub last: f64,
    /// Mean count.
    pub mean: f64,
    /// Asked for by what waits, largest within the slot, in the same unit; 0 where the source does not say.
    pub pending: f64,
    /// Nodes or GPUs there are, at the end of the slot.
    pub total: f64,
    /// Whether anything was counted in it.
    pub counted: bool,
}

/// Running sums of a slot.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    slot: Slot,
    weight: f64,
    area: f64,
}

/// Slots being filled.
#[derive(Debug)]
pub struct Slots {
    start_ms: i64,
    slot_ms: i64,
    tallies: Vec<Tally>,
}

impl Slots {
    /// Prepares all slots of `slot_ms` that begin no sooner than `from_ms` and end no later than
    /// `to_ms`; `None` if there is none. Memory follows their number, which the caller has to
    /// bound.
    pub fn new(from_ms: i64, to_ms: i64, slot_ms: i64, zone: &Zone) -> Option<Self> {
        if slot_ms <= 0 {
            return None;
        }
        let offset = zone.offset_ms(from_ms);
        let begun = from_ms.saturating_add(offset).div_euclid(slot_ms);
        let late = i64::from(from_ms.saturating_add(offset).rem_euclid(slot_ms) > 0);
        let start_ms = (begun + late).saturating_mul(slot_ms).saturating_sub(offset);
        let count = to_ms.saturating_sub(start_ms).div_euclid(slot_ms);
        let count = usize::try_from(count).ok().filter(|count| *count > 0)?;
        Some(Self { start_ms, slot_ms, tallies: vec![Tally::default(); count] })
    }

    /// Adds what held over [from, to), or at a moment if both are the same.
    pub fn add(&mut self, from_ms: i64, to_ms: i64, count: f64, pending: f64, total: f64) {
        let at = |ms: i64| ms.saturating_sub(self.start_ms).div_euclid(self.slot_ms);
        let all = self.tallies.len() as i64;
        let (first, last) = (at(from_ms).max(0), at((to_ms - 1).max(from_ms)).min(all - 1));
        for place in first..=last {
            let begin = self.start_ms + place * self.slot_ms;
            let within = to_ms.min(begin + self.slot_ms) - from_ms.max(begin);
            let weight = if to_ms > from_ms { within as f64 } else { 1.0 };
            let Some(tally) = usize::try_from(place).ok().and_then(|place| self.tallies.get_mut(place)) else {
                continue;
            };
            tally.weight += weight;
            tally.area += weight * count;
            let slot = &mut tally.slot;
            slot.peak = if slot.counted { slot.peak.max(count) } else { count };
            slot.pending = slot.pending.max(pending);
            (slot.last, slot.total, slot.counted) = (count, total, true);
        }
    }

    /// Beginning of the first counted slot, ms, and the slots; `None` if nothing was counted in
    /// any.
    pub fn finish(self) -> Option<(i64, Vec<Slot>)> {
        let first = self.tallies.iter().position(|tally| tally.slot.counted)?;
        let start_ms = self.start_ms + self.slot_ms * first as i64;
        let mut held = Slot::default();
        let slots = self.tallies.into_iter().skip(first).map(|tally| {
            if tally.slot.counted {
                let mut slot = tally.slot;
                slot.mean = tally.area / tally.weight;
                held = Slot { peak: slot.last, mean: slot.last, counted: false, ..slot };
                slot
            } else {
                held
            }
        });
        Some((start_ms, slots.collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_number_and_a_gap_that_carries_on() {
        const MINUTE: i64 = 60_000;
        let slots = Slots::new(0, 12 * MINUTE, 3 * MINUTE, &Zone::utc()).map(|mut slots| {
            for (minute, count) in [(0, 3.0), (1, 5.0), (2, 4.0), (9, 1.0)] {
                slots.add(minute * MINUTE, minute * MINUTE, count, 0.0, 8.0);
            }
            slots.finish()
        });
        let result: Vec<_> = slots
            .flatten()
            .map(|(_, slots)| slots.iter().map(|slot| (slot.peak, slot.last, slot.mean, slot.counted)).collect())
            .unwrap_or_default();
        assert_eq!(
            result,
            [(5.0, 4.0, 4.0, true), (4.0, 4.0, 4.0, false), (4.0, 4.0, 4.0, false), (1.0, 1.0, 1.0, true)]
        );
    }

    #[test]
    fn what_holds_over_time_weighs_by_its_time() {
        // 2 over [0, 15), 6 over [15, 20): slots of 10 s have means 2 and (2·5 + 6·5)/10 = 4.
        let slots = Slots::new(0, 20_000, 10_000, &Zone::utc()).and_then(|mut slots| {
            slots.add(0, 15_000, 2.0, 1.0, 8.0);
            slots.add(15_000, 20_000, 6.0, 0.0, 8.0);
            slots.finish()
        });
        let means: Vec<_> =
            slots.iter().flat_map(|(_, slots)| slots).map(|slot| (slot.peak, slot.mean, slot.pending)).collect();
        assert_eq!(means, [(2.0, 2.0, 1.0), (6.0, 4.0, 1.0)]);
    }
}
