//! Observations of spot in a zone, tick by tick, and its spells with enough instances and without.
//!
//! A **level** says how many instances there were: none, a few, or **enough**, which is at least as many as needed. A **spell** is a run of ticks at one level. Its
//! beginning is known if the tick before it was seen, and its end if the tick after it was. So the spell at the end of a record is censored, as
//! is one before a tick that was not read. A spell that was under way at the first tick began nobody knows when.
//!
//! O(ticks). Worked example: counts 4, 4, 1, unread, 0, 4 with a need of 4 are enough for two ticks (beginning unknown), few for one tick or more, nothing
//! for one tick (beginning unknown), and enough for one tick or more.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Level of instances, against the number needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SpotLevel {
    /// No instance.
    Nothing,
    /// At least one, and fewer than needed.
    Few,
    /// At least as many as needed.
    Enough,
}

impl SpotLevel {
    /// All, in order.
    pub const ALL: [Self; 3] = [Self::Nothing, Self::Few, Self::Enough];

    /// Level of a count.
    pub fn new(count: u32, need: u32) -> Self {
        match count {
            count if count >= need => Self::Enough,
            0 => Self::Nothing,
            _ => Self::Few,
        }
    }
}

/// Observations of spot in a zone.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SpotRecord {
    /// Name of the zone.
    pub name: String,
    /// Length of a tick, milliseconds.
    pub tick_ms: i64,
    /// Beginning of the first tick, milliseconds since the epoch, if known.
    pub begins_ms: Option<i64>,
    /// Instances to be had in each tick; nothing where it could not be read.
    pub counts: Vec<Option<u32>>,
    /// Dollars an hour in each tick where known; empty without prices.
    pub prices: Vec<Option<f64>>,
}

/// A run of ticks of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spell<T> {
    /// Kind of the spell.
    pub of: T,
    /// Ticks seen.
    pub ticks: usize,
    /// Whether its beginning was seen.
    pub begun: bool,
    /// Whether its end was seen.
    pub ended: bool,
}

/// Spells of values seen tick by tick.
pub fn spells<T: Copy + PartialEq>(seen: &[Option<T>]) -> Vec<Spell<T>> {
    let mut result = Vec::new();
    let mut before: Option<Option<T>> = None;
    for run in seen.chunk_by(|a, b| a == b) {
        let now = run.first().copied().flatten();
        if let Some(of) = now {
            // What was seen just before ended with this.
            let begun = matches!(before, Some(Some(_)));
            if begun && let Some(last) = result.last_mut() {
                let last: &mut Spell<T> = last;
                last.ended = true;
            }
            result.push(Spell { of, ticks: run.len(), begun, ended: false });
        }
        before = Some(now);
    }
    result
}

impl SpotRecord {
    /// The share of the ticks read that have enough; 0 of none.
    pub fn up_share(&self, need: u32) -> f64 {
        let read = self.counts.iter().flatten().count();
        let up = self.counts.iter().flatten().filter(|count| **count >= need).count();
        up as f64 / read.max(1) as f64
    }

    /// The level of each tick.
    pub fn levels(&self, need: u32) -> Vec<Option<SpotLevel>> {
        self.counts.iter().map(|count| count.map(|count| SpotLevel::new(count, need))).collect()
    }

    /// Ticks of a time, at least one.
    pub fn ticks_of(&self, ms: i64) -> usize {
        usize::try_from((ms as f64 / self.tick_ms.max(1) as f64).round() as i64).unwrap_or(0).max(1)
    }

    /// Why nothing can be learned from it, in words; nothing if something can.
    pub fn teaches_nothing(&self, need: u32) -> Option<String> {
        let seen: Vec<u32> = self.counts.iter().flatten().copied().collect();
        let most = seen.iter().copied().max().unwrap_or(0);
        let all = |enough: bool| seen.iter().all(|count| (*count >= need) == enough);
        if seen.len() < 2 {
            let ticks = if seen.is_empty() { "no tick that was read" } else { "one tick only" };
            return Some(format!("{}: it has {ticks}, and at least two are needed to see a change", self.name));
        }
        if most < need {
            let what = if need == 1 { "an instance".to_owned() } else { format!("{need} instances at once") };
            return Some(format!(
                "{}: there never was {what}, and at most {most}; ask for fewer (--need), or name a record of more",
                self.name
            ));
        }
        if all(true) {
            return Some(format!(
                "{}: there was enough spot at every tick, so nothing tells how it is lost; name a longer record",
                self.name
            ));
        }
        None
    }
}

/// Records from which something can be learned, and what is said of the others.
///
/// # Errors
/// If there is none, a need of 0 is asked for, or ticks have no length.
pub fn usable(records: Vec<SpotRecord>, need: u32) -> Result<(Vec<SpotRecord>, Vec<String>)> {
    if need == 0 {
        return Err(Error::Setting("spot is needed by at least one instance (--need)".to_owned()));
    }
    if let Some(record) = records.iter().find(|record| record.tick_ms < 1) {
        return Err(Error::Setting(format!("{}: the time between samples must be more than 0", record.name)));
    }
    let (mut kept, mut notes) = (Vec::new(), Vec::new());
    for record in records {
        match record.teaches_nothing(need) {
            None => kept.push(record),
            Some(why) => notes.push(why),
        }
    }
    if kept.is_empty() {
        let why = if notes.is_empty() { "no record of spot was named".to_owned() } else { notes.join("; ") };
        return Err(Error::TooFew(why));
    }
    notes.iter_mut().for_each(|note| *note = format!("Left out: {note}."));
    Ok((kept, notes))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn record(counts: &[u32], tick_ms: i64) -> SpotRecord {
        SpotRecord {
            name: "us-east-1a".to_owned(),
            tick_ms,
            counts: counts.iter().copied().map(Some).collect(),
            ..SpotRecord::default()
        }
    }

    #[test]
    fn the_worked_example() {
        let mut record = record(&[4, 4, 1, 9, 0, 4], 1000);
        record.counts[3] = None;
        let spell = |of, ticks, begun, ended| Spell { of, ticks, begun, ended };
        assert_eq!(
            spells(&record.levels(4)),
            [
                spell(SpotLevel::Enough, 2, false, true),
                spell(SpotLevel::Few, 1, true, false),
                spell(SpotLevel::Nothing, 1, false, true),
                spell(SpotLevel::Enough, 1, true, false),
            ]
        );
        assert_eq!(record.ticks_of(2600), 3);
    }

    #[test]
    fn what_teaches_nothing_is_told() {
        let told = |counts: &[u32], need: u32| {
            usable(vec![record(counts, 1000)], need).map(|_| ()).map_err(|error| error.to_string())
        };
        assert!(told(&[], 1).unwrap_err().contains("no tick that was read"));
        assert!(told(&[1], 1).unwrap_err().contains("one tick only"));
        assert!(told(&[1, 1, 2], 1).unwrap_err().contains("enough spot at every tick"));
        assert!(told(&[0, 0, 0], 1).unwrap_err().contains("there never was an instance"));
        assert!(told(&[0, 3, 2], 4).unwrap_err().contains("never was 4 instances at once, and at most 3"));
        assert!(told(&[0, 4], 0).unwrap_err().contains("--need"));
        assert!(usable(Vec::new(), 1).unwrap_err().to_string().contains("no record"));
        let (kept, notes) = usable(vec![record(&[1, 0], 1000), record(&[1, 1], 1000)], 1).unwrap();
        assert_eq!((kept.len(), notes.len()), (1, 1));
    }
}
