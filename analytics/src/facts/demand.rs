//! Demand as slots of equal length.
//!
//! A slot ([`Slot`]) is described by what was counted within it: the largest count (which is what capacity has to serve), the last one (the newest that
//! is known when the slot has ended) and the mean. Slots in which nothing was counted carry on what the last one ended with, and say so.
//!
//! Worked example: counts 3, 5, 4 at minutes 0, 1, 2 of a slot of three minutes: peak 5, last 4, mean 4.

pub use super::slot::Slot;

/// Unit of a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Nodes with at least one GPU in use.
    Nodes,
    /// GPUs in use.
    Gpus,
}

/// Demand of one VC, pool or cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Name of the VC or cluster.
    pub name: String,
    /// Unit of the counts.
    pub unit: Unit,
    /// Whether `pending` is known.
    pub counts_pending: bool,
    /// Beginning of the first slot, milliseconds since the epoch, UTC.
    pub start_ms: i64,
    /// Length of a slot, milliseconds.
    pub slot_ms: i64,
    /// IANA name of the zone whose clock people there live by.
    pub zone: String,
    /// Slots in order of time, without a gap.
    pub slots: Vec<Slot>,
}

/// Information available for a decision on slot `self.slots.len()`: all slots before it, nothing of
/// it or after it.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// The series, for its unit and clock.
    pub series: &'a Series,
    /// The slots that have ended.
    pub slots: &'a [Slot],
}

impl Series {
    /// Beginning of slot `at`, milliseconds since the epoch.
    pub fn time_ms(&self, at: usize) -> i64 {
        self.start_ms + self.slot_ms * i64::try_from(at).unwrap_or(i64::MAX / self.slot_ms.max(1))
    }

    /// Returns the information available before slot `at` begins.
    pub fn before(&self, at: usize) -> Seen<'_> {
        Seen { series: self, slots: self.slots.get(..at).unwrap_or(&self.slots) }
    }
}

impl Seen<'_> {
    /// Beginning of the slot to decide for, milliseconds since the epoch.
    pub fn now_ms(&self) -> i64 {
        self.series.time_ms(self.slots.len())
    }
}
