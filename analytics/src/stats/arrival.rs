//! Burstiness of arrivals: gaps, dispersion of counts, periodicity, jobs that arrive together.
//!
//! * CoV² of the gaps: variance over squared mean; 1 for a Poisson process, more when bursty.
//! * Index of dispersion of counts: variance over mean of the number of arrivals in windows of one length (Cox and Lewis,
//!   The Statistical Analysis of Series of Events, 1966); 1 at every length for a Poisson process. It grows with the
//!   window when arrivals are correlated over long times. Variance with divisor windows - 1.
//! * Autocorrelation of hourly counts at lags of 1 h, 24 h and 168 h: Σ (x_t − x̄)(x_{t+k} − x̄) / Σ (x_t − x̄)².
//! * Same-second share: jobs that share their second with another job over all jobs. Such jobs have no order of their own,
//!   so a first-in-first-out replay depends on how ties are broken.
//!
//! Windows are aligned to whole multiples of their length since 1970-01-01 UTC, and only those that lie wholly within the
//! observed interval count: a window cut off by the edge of the trace would look quiet. Empty windows inside count.
//!
//! Complexity: O(n) time and O(occupied hours) memory, however long the trace or its gaps.
//!
//! Worked number: 3, 0 and 3 arrivals in three windows have mean 2, variance 3 and index 1.5.

use crate::time::{DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS};
use schemars::JsonSchema;
use serde::Serialize;

use super::{quantile::Summary, sum::NeumaierSum};

/// Lengths of the dispersion windows: 1 min, 10 min, 1 h, 1 day, in ms.
pub const WINDOWS_MS: [i64; 4] = [MINUTE_MS, 10 * MINUTE_MS, HOUR_MS, DAY_MS];
/// Lags of the autocorrelation of hourly counts, in hours.
pub const LAGS_H: [u32; 3] = [1, 24, 168];

/// Why arrivals cannot be measured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ArrivalError {
    /// No arrivals.
    #[error("no arrival times")]
    Empty,
    /// The times are not ascending.
    #[error("arrival times must be sorted: entry {index} is earlier than the one before it")]
    Unsorted {
        /// Index of the first time that is earlier than its predecessor.
        index: usize,
    },
    /// The observed interval does not hold every arrival.
    #[error("the observed interval does not hold every arrival time")]
    OutsideObserved,
}

/// Dispersion of the counts in windows of one length.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Dispersion {
    /// Length of the windows, ms.
    pub window_ms: i64,
    /// Full windows in the observed interval.
    pub windows: u64,
    /// Mean arrivals per window; absent without windows.
    pub mean_jobs: Option<f64>,
    /// Variance over mean; absent with fewer than two windows or no arrivals in them.
    pub index: Option<f64>,
}

/// Autocorrelation of the hourly counts at one lag.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct HourlyCorrelation {
    /// Lag, hours.
    pub lag_h: u32,
    /// Autocorrelation, -1 to 1; absent when the trace is not longer than the lag or the counts are constant.
    pub correlation: Option<f64>,
}

/// The second with the most arrivals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Burst {
    /// Start of the second, ms since 1970-01-01 UTC; the earliest on ties.
    pub start_ms: i64,
    /// Arrivals in it.
    pub jobs: u64,
}

/// Statistics of arrival times.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Arrivals {
    /// Number of arrivals.
    pub jobs: u64,
    /// First arrival, ms since 1970-01-01 UTC.
    pub first_ms: i64,
    /// Last arrival, ms since 1970-01-01 UTC.
    pub last_ms: i64,
    /// Gaps between successive arrivals, ms; absent for a single arrival.
    pub gap_ms: Option<Summary>,
    /// Squared coefficient of variation of the gaps; absent for fewer than three arrivals or when all are simultaneous.
    pub gap_cov_squared: Option<f64>,
    /// Dispersion at each of [`WINDOWS_MS`].
    pub dispersion: Vec<Dispersion>,
    /// Autocorrelation at each of [`LAGS_H`].
    pub hourly_correlation: Vec<HourlyCorrelation>,
    /// Share of the jobs that share their second with another job, 0 to 1.
    pub same_second_share: f64,
    /// The second with the most arrivals.
    pub biggest_burst: Burst,
}

impl Arrivals {
    /// Measures ascending arrival times in ms since 1970-01-01 UTC. `observed` is the half-open interval in which arrivals
    /// would have been seen; by default it reaches from the first to the last arrival.
    ///
    /// # Errors
    /// When there are none, they are not sorted, or they leave the observed interval.
    pub fn new(times_ms: &[i64], observed: Option<(i64, i64)>) -> Result<Self, ArrivalError> {
        let (Some(&first_ms), Some(&last_ms)) = (times_ms.first(), times_ms.last()) else {
            return Err(ArrivalError::Empty);
        };
        if let Some(index) = times_ms.windows(2).position(|pair| pair[1] < pair[0]) {
            return Err(ArrivalError::Unsorted { index: index + 1 });
        }
        let (start, end) = observed.unwrap_or((first_ms, last_ms.saturating_add(1)));
        if first_ms < start || last_ms >= end {
            return Err(ArrivalError::OutsideObserved);
        }

        // Differences of wild times may leave i64, hence i128.
        let gaps: Vec<f64> =
            times_ms.windows(2).map(|pair| (i128::from(pair[1]) - i128::from(pair[0])) as f64).collect();
        let gap_ms = Summary::of_vec(gaps);
        let gap_cov_squared =
            gap_ms.as_ref().and_then(|gaps| Some((gaps.std? / gaps.mean).powi(2))).filter(|value| value.is_finite());

        let mut shared = 0;
        let mut biggest_burst = Burst { start_ms: first_ms, jobs: 0 };
        for second in times_ms.chunk_by(|a, b| a.div_euclid(SECOND_MS) == b.div_euclid(SECOND_MS)) {
            let jobs = second.len() as u64;
            if jobs > 1 {
                shared += jobs;
            }
            if jobs > biggest_burst.jobs {
                biggest_burst = Burst { start_ms: second[0] - second[0].rem_euclid(SECOND_MS), jobs };
            }
        }

        let hourly = WindowCounts::new(times_ms, start, end, HOUR_MS);
        Ok(Self {
            jobs: times_ms.len() as u64,
            first_ms,
            last_ms,
            gap_ms,
            gap_cov_squared,
            dispersion: WINDOWS_MS
                .iter()
                .map(|window_ms| WindowCounts::new(times_ms, start, end, *window_ms).dispersion(*window_ms))
                .collect(),
            hourly_correlation: LAGS_H
                .iter()
                .map(|lag_h| HourlyCorrelation { lag_h: *lag_h, correlation: hourly.correlation(i64::from(*lag_h)) })
                .collect(),
            same_second_share: shared as f64 / times_ms.len() as f64,
            biggest_burst,
        })
    }
}

/// Arrivals per full window; empty windows are not stored.
struct WindowCounts {
    /// Full windows in the observed interval.
    windows: i64,
    /// Index of an occupied window, from 0, and its arrivals; ascending.
    occupied: Vec<(i64, u64)>,
}

impl WindowCounts {
    fn new(times_ms: &[i64], start: i64, end: i64, window_ms: i64) -> Self {
        let first = start.div_euclid(window_ms) + i64::from(start.rem_euclid(window_ms) != 0);
        let last = end.div_euclid(window_ms);
        let mut occupied = Vec::new();
        for window in times_ms.chunk_by(|a, b| a.div_euclid(window_ms) == b.div_euclid(window_ms)) {
            let index = window[0].div_euclid(window_ms);
            if (first..last).contains(&index) {
                occupied.push((index - first, window.len() as u64));
            }
        }
        Self { windows: (last - first).max(0), occupied }
    }

    fn mean(&self) -> Option<f64> {
        let jobs: u64 = self.occupied.iter().map(|w| w.1).sum();
        (self.windows > 0).then(|| jobs as f64 / self.windows as f64)
    }

    /// Sum of squared deviations from the mean, empty windows included.
    fn squares(&self, mean: f64) -> f64 {
        let occupied: NeumaierSum = self.occupied.iter().map(|w| (w.1 as f64 - mean).powi(2)).collect();
        occupied.value() + (self.windows - self.occupied.len() as i64) as f64 * mean * mean
    }

    fn dispersion(&self, window_ms: i64) -> Dispersion {
        let mean_jobs = self.mean();
        let index = mean_jobs
            .filter(|mean| self.windows > 1 && *mean > 0.0)
            .map(|mean| self.squares(mean) / (self.windows - 1) as f64 / mean);
        Dispersion { window_ms, windows: self.windows as u64, mean_jobs, index }
    }

    /// Autocorrelation from the occupied windows alone: with m the mean and W windows,
    /// Σ (c_i - m)(c_{i+k} - m) = Σ c_i c_{i+k} - m (Σ_{i < W-k} c_i + Σ_{i ≥ k} c_i) + (W - k) m².
    fn correlation(&self, lag: i64) -> Option<f64> {
        let mean = self.mean()?;
        let squares = self.squares(mean);
        if lag >= self.windows || squares <= 0.0 {
            return None;
        }
        let mut products = NeumaierSum::new();
        let mut ahead = self.occupied.iter().peekable();
        for (index, jobs) in &self.occupied {
            while ahead.next_if(|w| w.0 < index + lag).is_some() {}
            if let Some((_, later)) = ahead.next_if(|w| w.0 == index + lag) {
                products.add(*jobs as f64 * *later as f64);
            }
            let ends = u8::from(*index < self.windows - lag) + u8::from(*index >= lag);
            products.add(-mean * *jobs as f64 * f64::from(ends));
        }
        products.add((self.windows - lag) as f64 * mean * mean);
        Some((products.value() / squares).clamp(-1.0, 1.0))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The definition, on a series with every hour in it.
    fn autocorrelation(series: &[f64], lag: usize) -> Option<f64> {
        let mean = series.iter().sum::<f64>() / series.len() as f64;
        let square: f64 = series.iter().map(|v| (v - mean).powi(2)).sum();
        let product: f64 = series.iter().zip(series.get(lag..)?).map(|(a, b)| (a - mean) * (b - mean)).sum();
        (square > 0.0 && lag < series.len()).then(|| product / square)
    }

    #[test]
    fn by_hand() {
        // Three full minutes with 3, 0 and 3 arrivals: mean 2, variance (1 + 4 + 1)/2 = 3, index 1.5.
        let times = [0, 100, 30_000, 120_000, 120_999, 121_000];
        let a = Arrivals::new(&times, Some((0, 180_000))).unwrap();
        let minute = a.dispersion[0];
        assert_eq!((minute.window_ms, minute.windows, minute.mean_jobs), (60_000, 3, Some(2.0)));
        assert!((minute.index.unwrap() - 1.5).abs() < 1e-12);
        // Ten minutes do not fit into three.
        assert_eq!((a.dispersion[1].windows, a.dispersion[1].mean_jobs, a.dispersion[1].index), (0, None, None));
        // Seconds 0 (two jobs), 30, 120 (two), 121: 4 of 6 share; the earlier pair is the biggest burst.
        assert!((a.same_second_share - 4.0 / 6.0).abs() < 1e-12);
        assert_eq!(a.biggest_burst, Burst { start_ms: 0, jobs: 2 });
        // Gaps 100, 29 900, 90 000, 999, 1: mean 24 200.
        let gaps = a.gap_ms.unwrap();
        assert_eq!((gaps.count, gaps.mean), (5, 24_200.0));
        assert_eq!(a.gap_cov_squared, Some((gaps.std.unwrap() / 24_200.0).powi(2)));
    }

    #[test]
    fn evenly_spaced_arrivals_have_no_dispersion() {
        // One per 10 s over two hours: CoV² 0, and six per minute without variance.
        let times: Vec<i64> = (0..720).map(|i| i * 10_000).collect();
        let a = Arrivals::new(&times, Some((0, 7_200_000))).unwrap();
        assert_eq!(a.gap_cov_squared, Some(0.0));
        assert_eq!((a.dispersion[0].windows, a.dispersion[0].index), (120, Some(0.0)));
        assert_eq!(a.hourly_correlation[0].correlation, None);
        assert_eq!(a.same_second_share, 0.0);
    }

    #[test]
    fn the_cut_off_windows_at_the_edges_do_not_count() {
        // 00:00:30 to 00:02:30: only minute 1 is whole.
        let a = Arrivals::new(&[30_000, 70_000, 150_000], None).unwrap();
        assert_eq!((a.dispersion[0].windows, a.dispersion[0].mean_jobs), (1, Some(1.0)));
    }

    #[test]
    fn errors_and_extremes() {
        assert_eq!(Arrivals::new(&[], None), Err(ArrivalError::Empty));
        assert_eq!(Arrivals::new(&[1, 3, 2], None), Err(ArrivalError::Unsorted { index: 2 }));
        assert_eq!(Arrivals::new(&[1, 3], Some((0, 3))), Err(ArrivalError::OutsideObserved));
        let one = Arrivals::new(&[5], None).unwrap();
        assert_eq!((one.gap_ms, one.gap_cov_squared, one.biggest_burst.jobs), (None, None, 1));
        let same = Arrivals::new(&[5, 5, 5], None).unwrap();
        assert_eq!((same.gap_cov_squared, same.same_second_share), (None, 1.0));
        // The widest possible trace takes no more memory than its two occupied windows.
        assert!(Arrivals::new(&[i64::MIN + 999, i64::MAX - 1], None).is_ok());
    }

    proptest! {
        #[test]
        fn sparse_counts_agree_with_dense_ones(hours in prop::collection::vec(0_i64..400, 1..150), lag in 1_i64..60) {
            let mut times: Vec<i64> = hours.iter().map(|h| h * HOUR_MS + 17).collect();
            times.sort_unstable();
            let sparse = WindowCounts::new(&times, 0, 400 * HOUR_MS, HOUR_MS);
            let mut dense = vec![0.0; 400];
            for hour in &hours {
                dense[*hour as usize] += 1.0;
            }
            let (got, expected) = (sparse.correlation(lag).unwrap(), autocorrelation(&dense, lag as usize).unwrap());
            prop_assert!((got - expected).abs() < 1e-9, "{} {}", got, expected);
        }
    }
}
