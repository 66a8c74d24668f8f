//! Quantities over time for charts: means and maxima over equal stretches, so that no peak is lost.
//!
//! A window is cut into at most 500 stretches of whole milliseconds. Each has the exact time mean of the quantity and the
//! largest value that held for any time within it. O(events + 500) in all.
//!
//! Worked number: 2 jobs wait over 0–10 s and 5 over 10–15 s. One stretch of 20 s has the mean (20 + 25) / 20 = 2.25, the
//! maximum 5.

use schemars::JsonSchema;
use serde::Serialize;

/// Most stretches of a timeline.
pub const STRETCHES: i64 = 500;

/// A quantity, stretch by stretch.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Series {
    /// Mean over time.
    pub mean: Vec<f64>,
    /// Largest value.
    pub max: Vec<f64>,
}

/// Quantities over time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Timeline {
    /// When the first stretch begins, seconds from the origin.
    pub from_s: f64,
    /// Length of a stretch, seconds; the last may be shorter.
    pub step_s: f64,
    /// Jobs that wait.
    pub queue_jobs: Series,
    /// GPUs they ask for.
    pub queue_gpus: Series,
    /// GPUs jobs hold.
    pub gpus_in_use: Series,
    /// GPUs in service.
    pub gpus_in_service: Series,
    /// Gangs of so many GPUs that would have fitted beside what ran.
    pub gangs: Vec<(u32, Series)>,
}

/// A quantity that is being cut into stretches.
#[derive(Debug, Clone)]
pub(super) struct Buckets {
    from: i64,
    to: i64,
    step: i64,
    /// Value × milliseconds.
    area: Vec<u128>,
    max: Vec<u64>,
}

impl Buckets {
    /// For the window [from, to).
    pub(super) fn new((from, to): (i64, i64)) -> Self {
        let length = (to - from).max(0);
        let step = length.div_euclid(STRETCHES) + i64::from(length.rem_euclid(STRETCHES) != 0);
        let stretches =
            if step == 0 { 0 } else { (length.div_euclid(step) + i64::from(length.rem_euclid(step) != 0)) as usize };
        Self { from, to, step: step.max(1), area: vec![0; stretches], max: vec![0; stretches] }
    }

    /// The quantity is `value` over [start, end).
    pub(super) fn add(&mut self, start: i64, end: i64, value: u64) {
        let (mut start, end) = (start.max(self.from), end.min(self.to));
        while start < end {
            let at = (start - self.from).div_euclid(self.step);
            let until = (self.from + (at + 1) * self.step).min(end);
            let (Some(area), Some(max)) = (self.area.get_mut(at as usize), self.max.get_mut(at as usize)) else {
                return;
            };
            *area += u128::from(value) * u128::from((until - start).unsigned_abs());
            *max = (*max).max(value);
            start = until;
        }
    }

    /// Length of a stretch, milliseconds.
    pub(super) fn step_ms(&self) -> i64 {
        self.step
    }

    /// The quantity with `unit` as its one.
    pub(super) fn series(&self, unit: f64) -> Series {
        let length = |at: i64| self.step.min(self.to - self.from - at * self.step).max(1) as f64;
        Series {
            mean: (0i64..).zip(&self.area).map(|(at, area)| *area as f64 / length(at) / unit).collect(),
            max: self.max.iter().map(|max| *max as f64 / unit).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_exact_and_peaks_stay() {
        // 1,000 ms in 500 stretches of 2 ms; a peak of 1 ms at 501 lies in the stretch from 500 (number 250).
        let mut buckets = Buckets::new((0, 1_000));
        buckets.add(0, 501, 2);
        buckets.add(501, 502, 9);
        buckets.add(502, 2_000, 4);
        let series = buckets.series(1.0);
        assert_eq!(series.mean.len(), 500);
        assert_eq!((series.mean[249], series.mean[250], series.mean[251]), (2.0, 5.5, 4.0));
        assert_eq!((series.max[249], series.max[250], series.max[251]), (2.0, 9.0, 4.0));
    }

    #[test]
    fn the_last_stretch_may_be_shorter() {
        // 1,001 ms: a step of 3 ms, 334 stretches, the last from 999 to 1,001.
        let mut buckets = Buckets::new((0, 1_001));
        buckets.add(1_000, 1_001, 8);
        let series = buckets.series(1.0);
        assert_eq!((series.mean.len(), series.mean.last().copied()), (334, Some(4.0)));
        assert!(Buckets::new((5, 5)).series(1.0).mean.is_empty());
    }
}
