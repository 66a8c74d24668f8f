//! Use of time limits: what a job's limit, known at submission, says of its run.
//!
//! Of the jobs of a user, and of all jobs, the last 50 shares log(run / limit) are remembered. The features of a submission with a limit are what
//! such shares make of its own limit: log limit + the 10, 50 and 90 % quantiles of the shares, and the part of the jobs that ran to the limit.
//!
//! O(50 log 50) a submission. Worked example: a user's jobs ran half of their limits; a new one with a limit of 2 h has a feature log 3,600 = 8.19.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use tracecast_analytics::stats::rank;

/// Shares remembered.
const REMEMBERED: usize = 50;
/// Least share of its limit at which a run counts as one to the limit, log.
const TO_THE_LIMIT: f32 = -0.02;

/// Features in order, named.
pub(crate) const COLUMNS: [&str; 4] = ["low", "middle", "high", "reached"];

/// The last shares of some jobs.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Shares(VecDeque<f32>);

impl Shares {
    /// Learns from an ended job with this limit; both as logs of seconds.
    pub(crate) fn learn(&mut self, y: f64, log_limit: f64) {
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back((y - log_limit) as f32);
    }

    /// Fills the features of [`COLUMNS`] for a job with this limit, NaN where nothing is known.
    pub(crate) fn features(&self, log_limit: f32, row: &mut [f32]) {
        if self.0.is_empty() || !log_limit.is_finite() {
            return;
        }
        let mut sorted: Vec<f32> = self.0.iter().copied().collect();
        sorted.sort_unstable_by(f32::total_cmp);
        let at = |share: f64| rank::upper_sorted(&sorted, share).unwrap_or(f32::NAN);
        let reached = sorted.iter().filter(|share| **share >= TO_THE_LIMIT).count() as f32 / sorted.len() as f32;
        let values = [log_limit + at(0.1), log_limit + at(0.5), log_limit + at(0.9), reached];
        for (cell, value) in row.iter_mut().zip(values) {
            *cell = value;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_of_limits_is_put_to_the_next() {
        let mut shares = Shares::default();
        let mut row = [f32::NAN; COLUMNS.len()];
        shares.features(7200f32.ln(), &mut row);
        assert!(row[0].is_nan());
        // Nine jobs ran half of their limit, one all of it.
        for at in 0..10 {
            let limit = 600.0 * f64::from(1 + at);
            shares.learn((limit * if at == 9 { 1.0 } else { 0.5 }).ln(), limit.ln());
        }
        shares.features(7200f32.ln(), &mut row);
        assert!((row[1] - 3600f32.ln()).abs() < 1e-4 && (row[2] - 7200f32.ln()).abs() < 1e-4, "{row:?}");
        assert!((row[3] - 0.1).abs() < 1e-6);
    }
}
