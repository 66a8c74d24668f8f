//! Jobs that come by the clock: what the jobs ran that were submitted at the same point of the hour or of ten minutes, and one period ago.
//!
//! Pipelines submit every ten minutes, every hour, every night, and such jobs run alike, whatever people submit in between. A submission at
//! `t` falls into slot ⌊(t mod P) / w⌋ of its group, with P = 600 s and w = 4 s, and P = 3,600 s and w = 8 s; the last twelve jobs that ended
//! in that slot and its two neighbours within a week give mean, median, spread, count, last and ages. For P of 1, 5, 10, 30 and 60 minutes and
//! 24 hours, the submission nearest to t − P (within 2 to 10 s) gives its y, or minus the log of its age if it still runs.
//!
//! Worked example: jobs at 0:00:00, 0:10:01 and 0:19:59 ran 70 s each; one at 0:30:00 finds all three in slots 149, 0 and 0 of its period.

use std::collections::{HashMap, VecDeque};
use tracecast_analytics::stats::rank;
use tracecast_analytics::time::DAY_MS;

use serde::{Deserialize, Serialize};

/// Periods with slots, and the width of these, seconds.
const CLOCKS_S: [(i64, i64); 2] = [(600, 4), (3600, 8)];
/// Periods looked back, and how far beside, seconds.
const BACK_S: [(i64, i64); 6] = [(60, 2), (300, 2), (600, 3), (1800, 3), (3600, 4), (86_400, 10)];
/// Jobs remembered a slot.
const KEPT: usize = 12;
/// Age at which a job in a slot no longer counts, milliseconds.
const FRESH_MS: i64 = 7 * DAY_MS;
/// Submissions remembered to look back at: beyond the longest period, or beyond this many, they are forgotten.
const SUBMITTED: usize = 4096;

/// Features in order, named.
pub(crate) const COLUMNS: [&str; 20] = [
    "back_1m",
    "back_5m",
    "back_10m",
    "back_30m",
    "back_1h",
    "back_1d",
    "slot10m_mean",
    "slot10m_median",
    "slot10m_spread",
    "slot10m_count",
    "slot10m_last",
    "slot10m_since",
    "slot10m_span",
    "slot1h_mean",
    "slot1h_median",
    "slot1h_spread",
    "slot1h_count",
    "slot1h_last",
    "slot1h_since",
    "slot1h_span",
];

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Ended {
    end_ms: i64,
    submit_ms: i64,
    y: f32,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Submitted {
    job: u64,
    submit_ms: i64,
    start_ms: Option<i64>,
    y: Option<f32>,
}

/// Runs of one group's jobs, by slot of a clock.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Phase {
    #[serde(with = "crate::feature::pairs")]
    slots: HashMap<(u8, u16), VecDeque<Ended>>,
    submitted: VecDeque<Submitted>,
}

/// Slot of a moment on a clock.
fn slot(submit_ms: i64, (period_s, width_s): (i64, i64)) -> u16 {
    (submit_ms.div_euclid(1000).rem_euclid(period_s) / width_s) as u16
}

impl Phase {
    /// Records the submission of a job.
    pub(crate) fn submit(&mut self, job: u64, submit_ms: i64) {
        let oldest = submit_ms.saturating_sub(86_411_000);
        while self.submitted.len() >= SUBMITTED || self.submitted.front().is_some_and(|old| old.submit_ms < oldest) {
            self.submitted.pop_front();
        }
        self.submitted.push_back(Submitted { job, submit_ms, start_ms: None, y: None });
    }

    fn find(&mut self, job: u64) -> Option<&mut Submitted> {
        let at = self.submitted.partition_point(|submitted| submitted.job < job);
        self.submitted.get_mut(at).filter(|submitted| submitted.job == job)
    }

    /// A job started.
    pub(crate) fn start(&mut self, job: u64, start_ms: i64) {
        if let Some(submitted) = self.find(job) {
            submitted.start_ms = Some(start_ms);
        }
    }

    /// Records the end of a job that was submitted at `submit_ms`.
    pub(crate) fn end(&mut self, job: u64, submit_ms: i64, end_ms: i64, y: f64) {
        if let Some(submitted) = self.find(job) {
            submitted.y = Some(y as f32);
        }
        for (clock, hand) in (0u8..).zip(CLOCKS_S) {
            let slot = self.slots.entry((clock, slot(submit_ms, hand))).or_default();
            if slot.len() == KEPT {
                slot.pop_front();
            }
            slot.push_back(Ended { end_ms, submit_ms, y: y as f32 });
        }
    }

    /// Fills the features of [`COLUMNS`] for a submission at a moment. O(log submitted), and those within ten seconds of a period ago.
    pub(crate) fn features(&self, now_ms: i64, row: &mut [f32]) {
        let mut cells = row.iter_mut();
        let mut put = |value: f32| {
            if let Some(cell) = cells.next() {
                *cell = value;
            }
        };
        for (period_s, beside_s) in BACK_S {
            put(self.back(now_ms, period_s * 1000, beside_s * 1000));
        }
        for (clock, hand) in (0u8..).zip(CLOCKS_S) {
            let here = i64::from(slot(now_ms, hand));
            let slots = hand.0 / hand.1;
            let mut seen: Vec<Ended> = [-1, 0, 1]
                .into_iter()
                .filter_map(|beside| self.slots.get(&(clock, (here + beside).rem_euclid(slots) as u16)))
                .flatten()
                .filter(|ended| ended.end_ms > now_ms.saturating_sub(FRESH_MS))
                .copied()
                .collect();
            seen.sort_unstable_by(|a, b| a.end_ms.cmp(&b.end_ms).then(a.y.total_cmp(&b.y)));
            let seen = seen.get(seen.len().saturating_sub(KEPT)..).unwrap_or_default();
            let (Some(first), Some(last)) = (seen.first(), seen.last()) else {
                [f32::NAN, f32::NAN, f32::NAN, 0.0, f32::NAN, f32::NAN, f32::NAN].into_iter().for_each(&mut put);
                continue;
            };
            let mut values: Vec<f32> = seen.iter().map(|ended| ended.y).collect();
            let mean = values.iter().sum::<f32>() / values.len() as f32;
            let spread = (values.iter().map(|y| (y - mean).powi(2)).sum::<f32>() / values.len() as f32).sqrt();
            put(mean);
            put(rank::upper(&mut values, 0.5).unwrap_or(f32::NAN));
            put(spread);
            put(values.len() as f32);
            put(last.y);
            put(since(now_ms, last.submit_ms));
            put(since(now_ms, first.submit_ms));
        }
    }

    /// Outcome of the submission nearest to a period ago.
    fn back(&self, now_ms: i64, period_ms: i64, beside_ms: i64) -> f32 {
        let wanted = now_ms.saturating_sub(period_ms);
        let from = self.submitted.partition_point(|submitted| submitted.submit_ms < wanted.saturating_sub(beside_ms));
        let near = self
            .submitted
            .iter()
            .skip(from)
            .take_while(|submitted| submitted.submit_ms <= wanted.saturating_add(beside_ms));
        // The later of two at equal distance.
        let nearest =
            near.min_by_key(|submitted| (submitted.submit_ms.abs_diff(wanted), std::cmp::Reverse(submitted.submit_ms)));
        match nearest {
            None => f32::NAN,
            Some(Submitted { y: Some(y), .. }) => *y,
            Some(open) => -open.start_ms.map_or(0.0, |start| since(now_ms, start)),
        }
    }
}

/// log(1 + seconds) since a moment.
fn since(now_ms: i64, then_ms: i64) -> f32 {
    (now_ms.saturating_sub(then_ms).max(0) as f64 / 1000.0).ln_1p() as f32
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    #[test]
    fn a_job_every_ten_minutes_is_found_by_the_clock_whatever_runs_between() {
        let mut phase = Phase::default();
        // The module's worked example, and a long job between.
        for (job, submit_s, ran_s) in [(0u64, 0i64, 70.0f64), (1, 300, 9000.0), (2, 601, 70.0), (3, 1199, 70.0)] {
            phase.submit(job, submit_s * 1000);
            phase.start(job, submit_s * 1000);
            if ran_s < 100.0 {
                phase.end(job, submit_s * 1000, (submit_s + 70) * 1000, ran_s.ln());
            }
        }
        let mut row = vec![f32::NAN; COLUMNS.len()];
        phase.features(1_800_000, &mut row);
        let at = |name: &str| row[COLUMNS.iter().position(|column| *column == name).unwrap()];
        assert!((at("slot10m_mean") - 70f32.ln()).abs() < 1e-5);
        assert!((at("slot10m_count") - 3.0).abs() < 1e-6);
        assert!(at("slot10m_spread").abs() < 1e-5);
        assert!((at("back_10m") - 70f32.ln()).abs() < 1e-5, "the one at 1,199 s is within 3 s of 1,200 s");
        assert!(at("back_5m").is_nan());
    }
}
