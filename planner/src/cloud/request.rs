//! What is asked of a cloud plan, and of its backtest.

use super::availability::SpotSeries;
use super::job::DeadlineJob;
use crate::error::{Error, Result};

/// A job with a deadline, and how it is tried.
#[derive(Debug, Clone, PartialEq)]
pub struct CloudRequest {
    /// Work, milliseconds on the instances it needs.
    pub work_ms: i64,
    /// Work over time to the deadline: each is tried.
    pub slacks: Vec<f64>,
    /// What taking another instance takes, milliseconds.
    pub changeover_ms: i64,
    /// Price of on-demand over that of spot.
    pub price_ratio: f64,
    /// Moments at which the job begins on each trace.
    pub starts: usize,
    /// Instances it needs at once.
    pub need: u32,
}

impl CloudRequest {
    /// The job with each of the deadlines.
    ///
    /// # Errors
    /// If a figure makes no sense, or on-demand alone would miss a deadline.
    pub fn jobs(&self) -> Result<Vec<DeadlineJob>> {
        if self.slacks.is_empty() || self.starts == 0 || self.need == 0 {
            return Err(Error::NoScenario(
                "nothing is asked for; ask for at least one slack, one start and one instance",
            ));
        }
        self.slacks
            .iter()
            .map(|slack| DeadlineJob::new(self.work_ms, *slack, self.changeover_ms, self.price_ratio))
            .collect()
    }
}

/// Ticks of a series until the last of some deadlines.
pub(super) fn longest(series: &SpotSeries, jobs: &[DeadlineJob]) -> usize {
    jobs.iter().map(|job| job.ticks(series.tick_ms)).max().unwrap_or(0)
}

/// That `ticks` of a series do not hold the time to a deadline.
pub(super) fn too_short(series: &SpotSeries, ticks: usize, needed: usize, parts: usize) -> Error {
    let hours = |ticks: usize| ticks as f64 * series.tick_ms as f64 / 3.6e6;
    let twice = if parts > 1 { ", once to choose on and once to report on" } else { "" };
    Error::NothingToEvaluate(format!(
        "{}: the trace is {:.1} h long, and the time to the deadline is {:.1} h{twice}; ask for less --work or a tighter deadline, or name a longer trace",
        series.name,
        hours(ticks),
        hours(needed)
    ))
}
