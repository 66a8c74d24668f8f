//! Waits of jobs: the quantile that targets are for, a summary, and whom they harm.
//!
//! O(jobs). Worked example: of twenty waits the 95 % quantile by nearest rank is the second longest.

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::facts::SizeClass;
use tracecast_analytics::report::{Cell, Column, format};
use tracecast_analytics::stats::rank;
use tracecast_replay::compare::IntervalEstimate;

use super::Harm;
use super::interval::average;

/// The share of the jobs that the target is for.
pub const TAIL: f64 = 0.95;
/// Fewest jobs of a size class that are judged.
pub const FEWEST_OF_CLASS: usize = 20;
/// The wait of a job that never runs.
pub const NEVER: i64 = i64::MAX;

/// Share of the jobs of a size that must wait for it to be named as harmed.
const HARMED: f64 = 0.01;

/// The quantile by nearest rank of waits in milliseconds, seconds: the least that at least this share waits no longer than. `None` if that job never
/// ran, or there is none.
pub fn nearest_rank_s(waits_ms: &[i64], share: f64) -> Option<f64> {
    let wait = rank::nearest(&mut waits_ms.to_vec(), share)?;
    (wait != NEVER).then_some(wait as f64 / 1e3)
}

/// How long jobs waited.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct WaitSummary {
    /// Jobs.
    pub jobs: u64,
    /// Share of them that waited at all.
    pub waited: f64,
    /// Mean wait of all, seconds.
    pub mean_s: f64,
    /// The wait that 95 % of them did not exceed, seconds.
    pub p95_s: f64,
    /// The longest, seconds.
    pub longest_s: f64,
}

impl WaitSummary {
    /// Summarises waits in milliseconds. O(jobs).
    pub fn new(waits_ms: &[i64]) -> Self {
        Self {
            jobs: waits_ms.len() as u64,
            waited: waits_ms.iter().filter(|wait| **wait > 0).count() as f64 / waits_ms.len().max(1) as f64,
            mean_s: average(waits_ms.iter().map(|wait| *wait as f64 / 1e3)),
            p95_s: nearest_rank_s(waits_ms, TAIL).unwrap_or(0.0),
            longest_s: waits_ms.iter().copied().max().unwrap_or(0) as f64 / 1e3,
        }
    }

    /// Returns the waits in a sentence, with the interval of the mean.
    pub fn in_words(&self, mean_s: &IntervalEstimate) -> String {
        format!(
            "Of the later jobs {} waited, on average of all {} ({} to {}); 95 % waited up to {}, the longest {}.",
            format::percent(self.waited),
            format::duration(self.mean_s),
            format::duration(mean_s.low),
            format::duration(mean_s.high),
            format::duration(self.p95_s),
            format::duration(self.longest_s)
        )
    }

    /// Columns of a table, those of [`WaitSummary::cells`].
    pub fn columns() -> Vec<Column> {
        ["Jobs that wait", "Mean wait", "95 % wait up to", "Longest"].map(Column::number).into()
    }

    /// Returns the row of a table.
    pub fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::Percent(self.waited),
            Cell::Duration(self.mean_s),
            Cell::Duration(self.p95_s),
            Cell::Duration(self.longest_s),
        ]
    }
}

/// GPUs of a size, in words.
pub fn gpus_in_words(size: SizeClass) -> String {
    format!("{} GPU{}", size.id(), if size == SizeClass::One { "" } else { "s" })
}

/// Sizes of which at least 1 % of the jobs wait, and how long these do.
pub fn harmed(sizes: impl Iterator<Item = (SizeClass, WaitSummary)>) -> Vec<Harm> {
    let harm = |(size, waits): (SizeClass, WaitSummary)| Harm {
        who: format!("jobs of {}", gpus_in_words(size)),
        how_much: format!(
            "{} of {} wait; on average {}, 95 % up to {}, the longest {}",
            format::percent(waits.waited),
            format::count(waits.jobs),
            format::duration(waits.mean_s),
            format::duration(waits.p95_s),
            format::duration(waits.longest_s)
        ),
    };
    sizes.filter(|(_, waits)| waits.waited >= HARMED).map(harm).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_ranks() {
        let waits: Vec<i64> = (1..=20).map(|wait| wait * 1000).collect();
        assert_eq!(
            (nearest_rank_s(&waits, 0.95), nearest_rank_s(&waits, 0.5), nearest_rank_s(&[], 0.5)),
            (Some(19.0), Some(10.0), None)
        );
        assert_eq!(nearest_rank_s(&[5, NEVER], 0.95), None);
    }
}
