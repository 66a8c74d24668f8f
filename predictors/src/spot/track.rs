//! State of a zone at each tick, as far as was known then: its level, since when, what came before,
//! the other zones, the price.
//!
//! The **age** is the number of ticks of the spell so far, 1 at its first. The **memory** says from which level the spell was entered, and whether the two spells before
//! it were short, which is half an hour or less, or one tick. After a tick that was not read both begin anew. The **crowd** says which share of the other zones is without
//! enough: none, up to a third, up to two thirds, or more. The **step** says whether the price last rose or fell, and how many ticks ago.
//!
//! What comes later changes nothing of a tick. O(ticks × zones). Worked example: enough for two ticks of a quarter of an hour, nothing for three, and enough again: the last tick has an age of
//! 1 and was entered from nothing, after a spell that was not short and one that was.

use serde::{Deserialize, Serialize};
use tracecast_analytics::time::DAY_MS;

use super::record::{SpotLevel, SpotRecord};

/// Longest spell that counts as short, milliseconds.
const SHORT_MS: i64 = 1_800_000;
/// Memories that a spell can have.
pub(super) const MEMORIES: usize = 8;
/// Classes of the crowd.
pub(super) const CROWDS: usize = 4;

/// Last step of a price.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PriceStep {
    /// Whether it rose.
    pub rose: bool,
    /// Ticks since the step.
    pub ticks: usize,
}

/// State of a zone at a tick.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    /// Level of instances.
    pub level: SpotLevel,
    /// Ticks at this level, this one included.
    pub age: usize,
    /// Class of the spells before.
    pub(super) memory: usize,
    /// Beginning of the tick, milliseconds: since the epoch, or since the first tick where that is
    /// not known.
    pub time_ms: i64,
    /// Class of the number of other zones without spot.
    pub(super) crowd: Option<usize>,
    /// The last step of the price.
    pub(super) step: Option<PriceStep>,
}

impl Standing {
    /// Whether it is such as a track holds.
    pub(super) fn is_sound(&self) -> bool {
        self.age >= 1 && self.memory < MEMORIES && self.crowd.is_none_or(|crowd| crowd < CROWDS)
    }
}

/// The two levels beside one, in order.
pub(super) fn others(level: SpotLevel) -> [SpotLevel; 2] {
    match level {
        SpotLevel::Nothing => [SpotLevel::Few, SpotLevel::Enough],
        SpotLevel::Few => [SpotLevel::Nothing, SpotLevel::Enough],
        SpotLevel::Enough => [SpotLevel::Nothing, SpotLevel::Few],
    }
}

/// The memory of a spell at `to` after one at `from` that had a memory of its own.
pub(super) fn remembered(from: SpotLevel, memory: usize, short: bool, to: SpotLevel) -> usize {
    let entered = usize::from(others(to)[1] == from);
    entered * 4 + usize::from(short) * 2 + (memory / 2) % 2
}

/// Level beside it from which a spell was entered, by position.
pub(super) fn entered(memory: usize) -> usize {
    (memory / 4).min(1)
}

/// Ticks that a short spell has at most.
pub(super) fn short_ticks(tick_ms: i64) -> usize {
    usize::try_from(SHORT_MS / tick_ms.max(1)).unwrap_or(0).max(1)
}

/// Class of the share of zones without spot.
fn crowd(without: usize, known: usize) -> Option<usize> {
    match (without, known) {
        (_, 0) => None,
        (0, _) => Some(0),
        (without, known) if 3 * without <= known => Some(1),
        (without, known) if 3 * without <= 2 * known => Some(2),
        _ => Some(3),
    }
}

/// State of the zone `at` at each of its ticks; None where it was not read. `together` tells that
/// all records begin at the same moment, with ticks of one length.
pub fn track(records: &[SpotRecord], at: usize, need: u32, together: bool) -> Vec<Option<Standing>> {
    let Some(record) = records.get(at) else { return Vec::new() };
    let short = short_ticks(record.tick_ms);
    let begins_ms = record.begins_ms.unwrap_or(0);
    let mut result: Vec<Option<Standing>> = Vec::with_capacity(record.counts.len());
    let (mut price, mut step): (Option<f64>, Option<PriceStep>) = (None, None);
    for (tick, level) in record.levels(need).into_iter().enumerate() {
        step = step.map(|step| PriceStep { ticks: step.ticks + 1, ..step });
        if let Some(now) = record.prices.get(tick).copied().flatten() {
            if let Some(before) = price.filter(|before| *before != now) {
                step = Some(PriceStep { rose: now > before, ticks: 0 });
            }
            price = Some(now);
        }
        let crowd = if together {
            let beside = records.iter().enumerate().filter(|(other, _)| *other != at);
            let seen = beside.filter_map(|(_, other)| other.counts.get(tick).copied().flatten());
            let (without, known) =
                seen.fold((0, 0), |(without, known), count| (without + usize::from(count < need), known + 1));
            crowd(without, known)
        } else {
            None
        };
        let time_ms = begins_ms.saturating_add((tick as i64).saturating_mul(record.tick_ms));
        let before = result.last().copied().flatten();
        result.push(level.map(|level| {
            let (age, memory) = match before {
                Some(before) if before.level == level => (before.age + 1, before.memory),
                Some(before) => (1, remembered(before.level, before.memory, before.age <= short, level)),
                None => (1, if level == SpotLevel::Enough { 0 } else { 4 }),
            };
            Standing { level, age, memory, time_ms, crowd, step }
        }));
    }
    result
}

/// The hour of the day and the day of the week (0 is a Thursday, or the first day of the record) at a moment.
pub(super) fn hour_and_day(time_ms: i64) -> (usize, usize) {
    let hour = time_ms.rem_euclid(DAY_MS) / (DAY_MS / 24);
    let day = time_ms.div_euclid(DAY_MS).rem_euclid(7);
    (usize::try_from(hour).unwrap_or(0).min(23), usize::try_from(day).unwrap_or(0).min(6))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::record::tests::record;
    use super::*;

    const HOUR: i64 = 3_600_000;

    #[test]
    fn the_worked_example() {
        let result = track(&[record(&[1, 1, 0, 0, 0, 1], HOUR / 4)], 0, 1, false);
        let last = result[5].unwrap();
        assert_eq!((last.level, last.age, last.memory, last.time_ms), (SpotLevel::Enough, 1, 1, 5 * HOUR / 4));
        // One tick is short, however long it is.
        assert_eq!(track(&[record(&[1, 1, 0, 1], HOUR)], 0, 1, false)[3].unwrap().memory, 2);
        assert_eq!((result[1].unwrap().age, result[4].unwrap().age), (2, 3));
    }

    #[test]
    fn the_crowd_and_the_price_are_those_of_the_tick() {
        let mut one = record(&[1, 1, 0, 1], HOUR);
        one.prices = vec![Some(1.0), Some(1.5), Some(1.5), Some(1.2)];
        let zones = [one, record(&[1, 0, 0, 0], HOUR), record(&[1, 1, 0], HOUR)];
        let result: Vec<Standing> = track(&zones, 0, 1, true).into_iter().flatten().collect();
        // None, one of two, both, and the only one that is known.
        assert_eq!(result.iter().map(|at| at.crowd).collect::<Vec<_>>(), [Some(0), Some(2), Some(3), Some(3)]);
        let steps: Vec<_> = result.iter().map(|at| at.step.map(|step| (step.rose, step.ticks))).collect();
        assert_eq!(steps, [None, Some((true, 0)), Some((true, 1)), Some((false, 0))]);
        assert!(track(&zones, 0, 1, false).iter().flatten().all(|at| at.crowd.is_none()));
    }

    #[test]
    fn what_was_not_read_begins_anew() {
        let mut gap = record(&[1, 1, 9, 1, 1], HOUR);
        gap.counts[2] = None;
        let ages: Vec<Option<usize>> = track(&[gap], 0, 1, false).iter().map(|at| at.map(|at| at.age)).collect();
        assert_eq!(ages, [Some(1), Some(2), None, Some(1), Some(2)]);
    }

    #[test]
    fn hours_and_days() {
        assert_eq!(hour_and_day(25 * HOUR), (1, 1));
        assert_eq!(hour_and_day(7 * DAY_MS - 1), (23, 6));
        assert_eq!(hour_and_day(-1), (23, 6));
    }
}
