//! What is known of each level of demand, slot by slot: the facts from which the chance that a level is reached is told.
//!
//! **Level** k is the k-th node, counted from the bottom: it is needed in a slot if the largest count of the slot, u, is at least k. Nodes are
//! alike, so a plan is which levels are powered, and what a level costs does not depend on the others. For level k the facts are how far it lies
//! above recent counts and maxima, the same in units of recent movement, for how long nobody has needed it, how often it was needed within a
//! day, what yesterday had at this hour, and how restless demand is.
//!
//! [`Levels::push`] takes one ended slot, O(levels); [`Levels::row`] gives the facts of one level, O(1). Nothing of a later slot can enter.
//!
//! Worked example: counts 5, 7, 6: level 7 was last needed one slot ago (idle 1), lies 1 above the last count, 0 above the half-hour maximum,
//! and was needed in 1 of 3 slots.

use tracecast_analytics::stats::sum::mean;
use tracecast_analytics::time::{DAY_MS, HOUR_MS, Zone};

use super::{Series, Slot};

/// Lengths over which maxima are taken, hours.
const MAXIMA_H: [f64; 8] = [1.0 / 3.0, 0.5, 1.0, 2.0, 3.0, 6.0, 12.0, 24.0];
/// Facts of a level.
pub const FACTS: usize = 28;
/// Slots for which a level counts as idle, at most.
const MOST_IDLE: u32 = 2000;

/// What is known of all levels after some slots.
#[derive(Debug, Clone)]
pub struct Levels {
    slot_ms: i64,
    start_ms: i64,
    zone: Zone,
    day: usize,
    maxima: [usize; MAXIMA_H.len()],
    peaks: Vec<f64>,
    moves: Vec<f64>,
    means: Vec<f64>,
    last: f64,
    mean: f64,
    /// By level.
    idle: Vec<u32>,
    needed: Vec<u32>,
    reached: Vec<u32>,
    /// The facts that are the same for all levels, and what levels are measured against.
    against: [f64; 3 + MAXIMA_H.len() + 2],
    movement: [f64; 2],
    shared: [f32; 7],
}

fn slots_of(hours: f64, slot_ms: i64) -> usize {
    (hours * HOUR_MS as f64 / slot_ms.max(1) as f64).round().max(1.0) as usize
}

fn tail(values: &[f64], length: usize) -> &[f64] {
    values.get(values.len().saturating_sub(length)..).unwrap_or(values)
}

fn largest(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

fn deviation(values: &[f64]) -> f64 {
    let centre = mean(values).unwrap_or(0.0);
    (values.iter().map(|value| (value - centre).powi(2)).sum::<f64>() / values.len().max(1) as f64).sqrt()
}

impl Levels {
    /// Nothing seen yet, of `series`, for levels up to `most`.
    pub fn new(series: &Series, most: usize) -> Self {
        let slots = |hours| slots_of(hours, series.slot_ms);
        Self {
            slot_ms: series.slot_ms,
            start_ms: series.start_ms,
            zone: Zone::named(&series.zone).unwrap_or_else(|_| Zone::utc()),
            day: slots(24.0),
            maxima: MAXIMA_H.map(slots),
            peaks: Vec::new(),
            moves: Vec::new(),
            means: Vec::new(),
            last: 0.0,
            mean: 0.0,
            idle: vec![MOST_IDLE; most + 1],
            needed: vec![0; most + 1],
            reached: vec![0; most + 1],
            against: [0.0; 3 + MAXIMA_H.len() + 2],
            movement: [1.0; 2],
            shared: [0.0; 7],
        }
    }

    /// Slots seen.
    pub fn seen(&self) -> usize {
        self.peaks.len()
    }

    /// The lowest level that is not in use at the end of the last slot is the one after this.
    pub fn in_use(&self) -> usize {
        self.last.max(0.0).ceil() as usize
    }

    /// A slot has ended.
    pub fn push(&mut self, slot: &Slot) {
        let before = self.peaks.last().copied();
        self.count(slot.peak, before);
        self.moves.push(slot.peak - before.unwrap_or(slot.peak));
        self.peaks.push(slot.peak);
        self.means.push(slot.mean);
        self.last = slot.last;
        self.mean = slot.mean;
        self.look_back();
    }

    /// Counts the levels that a slot of this peak needed.
    fn count(&mut self, peak: f64, before: Option<f64>) {
        let at = self.peaks.len();
        let top = self.idle.len();
        let until = |peak: f64| (peak.max(0.0).floor() as usize + 1).min(top);
        let (now, past) = (until(peak), before.map_or(0, until));
        for (level, idle) in self.idle.iter_mut().enumerate() {
            *idle = if level < now { 0 } else { (*idle + 1).min(MOST_IDLE) };
        }
        self.needed.iter_mut().take(now).for_each(|count| *count += 1);
        self.reached.iter_mut().take(now).skip(past).for_each(|count| *count += 1);
        // What has become older than a day.
        if let Some(old) = at.checked_sub(self.day)
            && let Some(gone) = self.peaks.get(old).copied()
        {
            let older = old.checked_sub(1).and_then(|older| self.peaks.get(older).copied());
            let (gone, older) = (until(gone), older.map_or(0, until));
            self.needed.iter_mut().take(gone).for_each(|count| *count = count.saturating_sub(1));
            self.reached.iter_mut().take(gone).skip(older).for_each(|count| *count = count.saturating_sub(1));
        }
    }

    fn look_back(&mut self) {
        let hours = |hours: f64| slots_of(hours, self.slot_ms);
        let peak = self.peaks.last().copied().unwrap_or(0.0);
        let mut against = [self.last, peak, self.mean, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, peak, peak];
        for (place, length) in against.iter_mut().skip(3).zip(self.maxima) {
            *place = largest(tail(&self.peaks, length));
        }
        // The same hours of yesterday: from the slot to come, two and six hours on.
        if let Some(first) = (self.peaks.len()).checked_sub(self.day) {
            for (place, length) in against.iter_mut().rev().zip([hours(6.0), hours(2.0)]) {
                let end = (first + length).min(self.peaks.len());
                *place = largest(self.peaks.get(first..end).unwrap_or_default());
            }
        }
        self.against = against;
        let restless = |length: usize| {
            let moves = tail(&self.moves, length);
            (moves.iter().map(|step| step.abs()).sum::<f64>() / moves.len().max(1) as f64).max(1.0)
        };
        self.movement = [restless(hours(6.0)), restless(hours(48.0))];
        let recent_mean = |length: f64| mean(tail(&self.means, hours(length))).unwrap_or(0.0);
        let now_ms = self.start_ms + self.slot_ms * i64::try_from(self.peaks.len()).unwrap_or(0);
        let local = now_ms + self.zone.offset_ms(now_ms);
        self.shared = [
            deviation(tail(&self.moves, hours(1.0))) as f32,
            deviation(tail(&self.moves, hours(6.0))) as f32,
            deviation(tail(&self.moves, hours(24.0))) as f32,
            (local.rem_euclid(DAY_MS) as f64 / HOUR_MS as f64) as f32,
            // 0: Thursday, the weekday of the epoch.
            local.div_euclid(DAY_MS).rem_euclid(7) as f32,
            (self.last - recent_mean(0.5)) as f32,
            (self.last - recent_mean(6.0)) as f32,
        ];
    }

    /// The facts of level `k` for the slot to come.
    pub fn row(&self, k: usize) -> [f32; FACTS] {
        let level = k as f64;
        let [recent, lasting] = self.movement;
        let [last, peak, mean, m0, m1, hour, m3, m4, six, m6, day, two_on, six_on] =
            self.against.map(|other| level - other);
        let count = |counts: &[u32]| counts.get(k).copied().unwrap_or(0) as f32;
        let [s0, s1, s2, s3, s4, s5, s6] = self.shared;
        let far = [last, peak, mean, m0, m1, hour, m3, m4, six, m6, day, last / recent, last / lasting, hour / lasting];
        let [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13] = far.map(|value| value as f32);
        let [g0, g1, g2, g3] = [six / lasting, day / lasting, two_on, six_on].map(|value| value as f32);
        let (idle, needed, reached) = (count(&self.idle), count(&self.needed), count(&self.reached));
        [
            f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, g0, g1, g2, g3, idle, needed, reached, s0, s1,
            s2, s3, s4, s5, s6,
        ]
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use crate::demand::reach::tests::series as made;

    fn series(slot_ms: i64) -> Series {
        Series { slot_ms, ..made([]) }
    }

    fn slot(peak: f64) -> Slot {
        Slot { peak, last: peak, mean: peak, pending: 0.0, total: 10.0, counted: true }
    }

    #[test]
    fn the_worked_example() {
        let mut levels = Levels::new(&series(600_000), 10);
        for peak in [5.0, 7.0, 6.0] {
            levels.push(&slot(peak));
        }
        let row = levels.row(7);
        assert_eq!((row[0], row[4], row[18], row[19], row[20]), (1.0, 0.0, 1.0, 1.0, 1.0));
        // Level 5 was needed in all three and reached once, from nothing.
        let five = levels.row(5);
        assert_eq!((five[18], five[19], five[20]), (0.0, 3.0, 1.0));
        // The next slot begins half an hour after midnight, on a Thursday.
        assert_eq!((row[24], row[25]), (0.5, 0.0));
        assert_eq!(levels.in_use(), 6);
    }

    #[test]
    fn what_is_older_than_a_day_is_forgotten() {
        // Slots of six hours: a day is four.
        let mut levels = Levels::new(&series(6 * HOUR_MS), 10);
        for peak in [8.0, 2.0, 8.0, 2.0, 2.0] {
            levels.push(&slot(peak));
        }
        // In the last four slots (2, 8, 2, 2), level 8 was needed in one, which reached it anew.
        let row = levels.row(8);
        assert_eq!((row[18], row[19], row[20]), (2.0, 1.0, 1.0));
        levels.push(&slot(2.0));
        levels.push(&slot(2.0));
        assert_eq!((levels.row(8)[19], levels.row(8)[20]), (0.0, 0.0));
    }
}
