//! Values of one job as the pass counts them: GPUs in millionths, times and durations in milliseconds, range checked.
//!
//! Worked number: 0.22 GPUs are 220,000 millionths; for 1.5 s they make 220,000 × 1,500 = 330,000,000 µGPU·ms.

use crate::schema::{JobState, gpu_count};
use crate::time::{FARTHEST_MS, within_reach};

/// Times further from the epoch, and durations the source reports to be longer than this, are unknown.
pub(super) const RANGE_MS: i64 = FARTHEST_MS;
/// Millionths of a GPU in a GPU.
pub(super) const MICRO: i64 = 1_000_000;

/// GPUs in millionths, rounded to the nearest; `None` outside 0 to a million GPUs.
#[inline]
pub(super) fn micro_gpus(gpus: f64) -> Option<i64> {
    // Adding a half and cutting rounds, as the product is not negative.
    gpu_count(gpus).map(|gpus| (gpus * MICRO as f64 + 0.5) as i64)
}

/// The time, if it is in range.
#[inline]
pub(super) fn in_range(time_ms: i64) -> Option<i64> {
    within_reach(time_ms)
}

/// A duration in seconds as milliseconds; `None` if negative or not in range.
#[inline]
pub(super) fn duration_ms(seconds: f64) -> Option<i64> {
    (seconds >= 0.0 && seconds < RANGE_MS as f64 / 1e3).then_some((seconds * 1e3 + 0.5) as i64)
}

/// Values of one job that the pass needs, before definitions are applied.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Job {
    pub(super) submit: Option<i64>,
    pub(super) start: Option<i64>,
    pub(super) end: Option<i64>,
    pub(super) run_s: Option<f64>,
    pub(super) reported_run_s: Option<f64>,
    pub(super) alloc_gpus: Option<f64>,
    pub(super) req_gpus: Option<f64>,
    pub(super) suspended_s: Option<f64>,
    /// Position in `JobState::ALL`.
    pub(super) state: u8,
    /// Slot of the user; 0 if unknown.
    pub(super) user: u32,
}

impl Job {
    /// Milliseconds it ran.
    #[inline]
    pub(super) fn duration_ms(&self) -> Option<i64> {
        // The attempts' own time first: from first start to last end there may be gaps between attempts.
        self.run_s
            .and_then(duration_ms)
            .or_else(|| self.end?.checked_sub(self.start?).filter(|span| *span >= 0))
            .or_else(|| self.reported_run_s.and_then(duration_ms))
    }

    /// Milliseconds it was suspended; 0 where nothing is said of it.
    #[inline]
    pub(super) fn suspended_ms(&self) -> i64 {
        self.suspended_s.and_then(duration_ms).unwrap_or(0)
    }

    /// Until when it had run when the record was taken, if it still ran then.
    #[inline]
    pub(super) fn ran_until(&self) -> Option<i64> {
        let run_ms = self.reported_run_s.and_then(duration_ms)?;
        in_range(self.running_since()?.saturating_add(run_ms).saturating_add(self.suspended_ms()))
    }

    /// Start of the job, if it still ran when the record was taken.
    #[inline]
    pub(super) fn running_since(&self) -> Option<i64> {
        if self.end.is_none() && JobState::ALL.get(usize::from(self.state)) == Some(&JobState::Running) {
            self.start
        } else {
            None
        }
    }

    /// GPUs of the job in millionths.
    #[inline]
    pub(super) fn micro_gpus(&self) -> Option<i64> {
        self.alloc_gpus.and_then(micro_gpus).or_else(|| self.req_gpus.and_then(micro_gpus))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_are_rounded_to_millionths_and_nonsense_is_unknown() {
        assert_eq!([0.0, 0.22, 8.0, 0.000_000_4].map(micro_gpus), [Some(0), Some(220_000), Some(8_000_000), Some(0)]);
        assert_eq!([-1.0, f64::NAN, f64::INFINITY, 2e6].map(micro_gpus), [None; 4]);
    }

    #[test]
    fn a_duration_falls_back_from_run_time_to_times_to_the_reported_one() {
        let job = Job { start: Some(1_000), end: Some(2_500), run_s: Some(1.0), ..Job::default() };
        assert_eq!(job.duration_ms(), Some(1_000));
        assert_eq!(Job { run_s: None, ..job }.duration_ms(), Some(1_500));
        assert_eq!(Job { run_s: None, end: Some(999), reported_run_s: Some(0.5), ..job }.duration_ms(), Some(500));
        assert_eq!(Job { run_s: Some(-1.0), end: None, ..job }.duration_ms(), None);
    }

    #[test]
    fn allocated_gpus_win_over_requested_ones_and_zero_is_known() {
        let job = Job { alloc_gpus: Some(0.0), req_gpus: Some(4.0), ..Job::default() };
        assert_eq!(job.micro_gpus(), Some(0));
        assert_eq!(Job { alloc_gpus: Some(-2.0), ..job }.micro_gpus(), Some(4 * MICRO));
    }
}
