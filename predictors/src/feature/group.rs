//! Memory of the jobs of one group (a user, a VC with a size, …), and its features at a moment.
//!
//! `y` is the natural log of the run in seconds, at least one. Of jobs that ended: moving averages by count (weights ½, ¹⁄₅, ¹⁄₂₀, ¹⁄₁₀₀)
//! and by age (1 h, 6 h, 24 h), the last ones, quantiles of the last 30. Of jobs that have not: how many, and their ages, which bound their
//! runs from below (censored observations). Of submissions: the gaps between them, counts in the last minute to day, and what became of the
//! last five. Of the last 20 submissions together: the share ended, the exponential estimate log((time run + 60) / (ended + ½)), and
//! quartiles by Kaplan and Meier.
//!
//! Memory is bounded: 30 ended and 200 submitted jobs a group, besides those open. Features cost O(30 log 30).
//!
//! Worked example: runs of 100 s and 400 s ended, in that order: y = 4.61, 5.99; the average of weight ½ is 4.61 + ½ (5.99 − 4.61) = 5.30.

use std::collections::{BTreeMap, VecDeque};
use tracecast_analytics::stats::rank;
use tracecast_analytics::time::{DAY_S, HOUR_S};

use serde::{Deserialize, Serialize};

/// Ended jobs remembered.
const ENDED: usize = 30;
/// Submissions remembered.
const SUBMITTED: usize = 200;
/// Submissions over which Kaplan and Meier look.
const RECENT: usize = 20;
/// Weights of the averages by count.
const WEIGHTS: [f64; 4] = [0.5, 0.2, 0.05, 0.01];
/// Time constants of the averages by age, seconds.
const SPANS_S: [f64; 3] = [HOUR_S, 6.0 * HOUR_S, DAY_S];
/// Windows in which submissions are counted, seconds.
const WINDOWS_S: [i64; 4] = [60, 600, 3600, 86_400];
/// Gaps to which earlier submission are features.
const GAPS: [usize; 6] = [1, 2, 3, 5, 10, 20];

/// Features of a group in order, named.
pub(crate) const COLUMNS: [&str; 54] = [
    "ewma_2",
    "ewma_5",
    "ewma_20",
    "ewma_100",
    "ewvar_5",
    "ewvar_20",
    "mean_1h",
    "mean_6h",
    "mean_24h",
    "weight_1h",
    "weight_6h",
    "weight_24h",
    "since_end",
    "last_1",
    "last_2",
    "last_3",
    "median_5",
    "q10_30",
    "q50_30",
    "q90_30",
    "open",
    "age_youngest",
    "age_oldest",
    "age_mean",
    "age_5th",
    "gap_1",
    "gap_2",
    "gap_3",
    "gap_5",
    "gap_10",
    "gap_20",
    "fate_1",
    "fate_age_1",
    "fate_2",
    "fate_age_2",
    "fate_3",
    "fate_age_3",
    "fate_4",
    "fate_age_4",
    "fate_5",
    "fate_age_5",
    "submitted_1m",
    "submitted_10m",
    "submitted_1h",
    "submitted_1d",
    "ended_share_20",
    "exponential_20",
    "km25_20",
    "km50_20",
    "km75_20",
    "failed_share_30",
    "spread_30",
    "waiting",
    "trend",
];

/// A job that ended.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Ended {
    y: f32,
    failed: bool,
}

/// A submission, and what became of it.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Submitted {
    job: u64,
    submit_ms: i64,
    start_ms: Option<i64>,
    y: Option<f32>,
    /// Whether it left without running.
    gone: bool,
}

impl Submitted {
    fn runs(&self) -> bool {
        self.y.is_none() && !self.gone && self.start_ms.is_some()
    }
}

/// Memory of the jobs of a group.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Group {
    /// Jobs that ended.
    pub(crate) count: u64,
    /// Sum of their y.
    pub(crate) sum: f64,
    /// Sum of their runs, seconds.
    sum_s: f64,
    averages: [f64; 4],
    variances: [f64; 2],
    weight: [f64; 3],
    weighted: [f64; 3],
    last_end_ms: i64,
    ended: VecDeque<Ended>,
    /// Start of each job that has not ended, by job in order of submission; `None` while it waits.
    open: BTreeMap<u64, Option<i64>>,
    waiting: u32,
    submitted: VecDeque<Submitted>,
}

/// log(1 + seconds) since a moment.
fn log_since(now_ms: i64, then_ms: i64) -> f32 {
    ((now_ms.saturating_sub(then_ms)).max(0) as f64 / 1000.0).ln_1p() as f32
}

impl Group {
    /// Records the submission of a job.
    pub(crate) fn submit(&mut self, job: u64, submit_ms: i64) {
        if self.submitted.len() == SUBMITTED {
            self.submitted.pop_front();
        }
        self.submitted.push_back(Submitted { job, submit_ms, start_ms: None, y: None, gone: false });
        self.open.insert(job, None);
        self.waiting += 1;
    }

    /// A job started.
    pub(crate) fn start(&mut self, job: u64, start_ms: i64) {
        if let Some(open) = self.open.get_mut(&job)
            && open.is_none()
        {
            *open = Some(start_ms);
            self.waiting = self.waiting.saturating_sub(1);
        }
        if let Some(submitted) = self.find(job) {
            submitted.start_ms = Some(start_ms);
        }
    }

    /// Records the end of a job after a run of log length `y`; without one it never ran, and only
    /// leaves.
    pub(crate) fn end(&mut self, job: u64, end_ms: i64, y: Option<f64>, failed: bool) {
        if let Some(start) = self.open.remove(&job)
            && start.is_none()
        {
            self.waiting = self.waiting.saturating_sub(1);
        }
        if let Some(submitted) = self.find(job) {
            submitted.y = y.map(|y| y as f32);
            submitted.gone = y.is_none();
        }
        let Some(y) = y else { return };
        self.learn(end_ms, y, failed);
    }

    fn find(&mut self, job: u64) -> Option<&mut Submitted> {
        let at = self.submitted.partition_point(|submitted| submitted.job < job);
        self.submitted.get_mut(at).filter(|submitted| submitted.job == job)
    }

    fn learn(&mut self, end_ms: i64, y: f64, failed: bool) {
        let first = self.count == 0;
        self.count += 1;
        self.sum += y;
        self.sum_s += y.exp();
        for (average, weight) in self.averages.iter_mut().zip(WEIGHTS) {
            *average = if first { y } else { *average + weight * (y - *average) };
        }
        // Around the averages of weight 1/5 and 1/20, once these have moved.
        for (variance, (average, weight)) in self.variances.iter_mut().zip(self.averages.iter().zip(WEIGHTS).skip(1)) {
            *variance = if first { 1.0 } else { *variance + weight * ((y - average).powi(2) - *variance) };
        }
        let passed_s = if first { 0.0 } else { end_ms.saturating_sub(self.last_end_ms).max(0) as f64 / 1000.0 };
        for ((weight, weighted), span) in self.weight.iter_mut().zip(&mut self.weighted).zip(SPANS_S) {
            let left = (-passed_s / span).exp();
            *weight = *weight * left + 1.0;
            *weighted = *weighted * left + y;
        }
        // Ends may be told late; the averages then stand at the later one.
        self.last_end_ms = if first { end_ms } else { self.last_end_ms.max(end_ms) };
        if self.ended.len() == ENDED {
            self.ended.pop_front();
        }
        self.ended.push_back(Ended { y: y as f32, failed });
    }

    /// Mean of y of the jobs that ended.
    pub(crate) fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }

    /// Mean run of the jobs that ended, seconds.
    pub(crate) fn mean_s(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_s / self.count as f64)
    }

    /// Median of y of the last 30 that ended.
    pub(crate) fn median(&self) -> Option<f64> {
        let mut last: Vec<f32> = self.ended.iter().map(|ended| ended.y).collect();
        rank::upper(&mut last, 0.5).map(f64::from)
    }

    /// Average of y by count with weight ¹⁄₂₀.
    pub(crate) fn recent_mean(&self) -> Option<f64> {
        (self.count > 0).then_some(self.averages[2])
    }

    /// Fills the features of [`COLUMNS`] at a moment, NaN where nothing is known.
    pub(crate) fn features(&self, now_ms: i64, row: &mut [f32]) {
        let mut cells = row.iter_mut();
        let mut put = |value: f32| {
            if let Some(cell) = cells.next() {
                *cell = value;
            }
        };
        let known = self.count > 0;
        let or_nan = |value: f64| if known { value as f32 } else { f32::NAN };
        self.averages.iter().for_each(|value| put(or_nan(*value)));
        self.variances.iter().for_each(|value| put(or_nan(*value)));
        for (weight, weighted) in self.weight.iter().zip(&self.weighted) {
            put(or_nan(weighted / weight));
        }
        let passed_s = now_ms.saturating_sub(self.last_end_ms).max(0) as f64 / 1000.0;
        for (weight, span) in self.weight.iter().zip(SPANS_S) {
            put(if known { (weight * (-passed_s / span).exp()) as f32 } else { 0.0 });
        }
        put(if known { log_since(now_ms, self.last_end_ms) } else { f32::NAN });
        for back in 1..=3 {
            put(self.back(back));
        }
        let mut five: Vec<f32> = self.ended.iter().rev().take(5).map(|ended| ended.y).collect();
        put(rank::upper(&mut five, 0.5).unwrap_or(f32::NAN));
        let mut all: Vec<f32> = self.ended.iter().map(|ended| ended.y).collect();
        all.sort_unstable_by(f32::total_cmp);
        let [low, middle, high] = [0.1, 0.5, 0.9].map(|share| rank::upper_sorted(&all, share).unwrap_or(f32::NAN));
        [low, middle, high].into_iter().for_each(&mut put);
        self.ages(now_ms, &mut put);
        for back in GAPS {
            let at = self.submitted.len().checked_sub(back).and_then(|at| self.submitted.get(at));
            put(at.map_or(f32::NAN, |submitted| log_since(now_ms, submitted.submit_ms)));
        }
        for back in 1..=5 {
            let at = self.submitted.len().checked_sub(back).and_then(|at| self.submitted.get(at));
            put(at.and_then(|submitted| submitted.y).unwrap_or(f32::NAN));
            let open = at.filter(|submitted| submitted.y.is_none() && !submitted.gone);
            put(open.map_or(f32::NAN, |submitted| age(now_ms, submitted)));
        }
        for window in WINDOWS_S {
            let from = now_ms.saturating_sub(window * 1000);
            let before = self.submitted.partition_point(|submitted| submitted.submit_ms < from);
            put((self.submitted.len() - before) as f32);
        }
        self.survival(now_ms, &mut put);
        let failed = self.ended.iter().filter(|ended| ended.failed).count();
        put(if known { failed as f32 / self.ended.len() as f32 } else { f32::NAN });
        put(high - low);
        put(self.waiting as f32);
        put(or_nan(self.averages[0] - self.averages[2]));
    }

    fn back(&self, back: usize) -> f32 {
        let at = self.ended.len().checked_sub(back).and_then(|at| self.ended.get(at));
        at.map_or(f32::NAN, |ended| ended.y)
    }

    /// Number of open jobs, and ages of the 30 submitted last (0 for a waiting job).
    fn ages(&self, now_ms: i64, put: &mut impl FnMut(f32)) {
        put(self.open.len() as f32);
        let of = |start: &Option<i64>| start.map_or(0.0, |start| log_since(now_ms, start));
        let mut ages: Vec<f32> = self.open.values().rev().take(ENDED).map(of).collect();
        let youngest = ages.first().copied();
        let sum: f32 = ages.iter().sum();
        put(youngest.unwrap_or(f32::NAN));
        put(self.open.values().next().map_or(f32::NAN, of));
        put(if ages.is_empty() { f32::NAN } else { sum / ages.len() as f32 });
        ages.sort_unstable_by(f32::total_cmp);
        put(ages.get(4.min(ages.len().saturating_sub(1))).copied().unwrap_or(f32::NAN));
    }

    /// Features of the last 20 submissions that ran or run: share ended, exponential estimate, and
    /// Kaplan–Meier quartiles.
    fn survival(&self, now_ms: i64, put: &mut impl FnMut(f32)) {
        let mut seen: Vec<(f32, bool)> = self
            .submitted
            .iter()
            .rev()
            .filter(|submitted| submitted.y.is_some() || submitted.runs())
            .take(RECENT)
            .map(|submitted| (submitted.y.unwrap_or_else(|| age(now_ms, submitted)), submitted.y.is_some()))
            .collect();
        if seen.is_empty() {
            (0..5).for_each(|_| put(f32::NAN));
            return;
        }
        let ended = seen.iter().filter(|(_, ended)| *ended).count() as f64;
        let ran_s: f64 = seen.iter().map(|(y, _)| f64::from(*y).exp()).sum();
        put((ended / seen.len() as f64) as f32);
        put(((ran_s + 60.0) / (ended + 0.5)).ln() as f32);
        seen.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
        let (mut alive, mut at_risk) = (1.0, seen.len());
        let mut quartiles = [f32::NAN; 3];
        for (y, ended) in seen {
            if ended {
                alive *= 1.0 - 1.0 / at_risk as f64;
                for (quartile, left) in quartiles.iter_mut().zip([0.75, 0.5, 0.25]) {
                    if quartile.is_nan() && alive <= left + 1e-9 {
                        *quartile = y;
                    }
                }
            }
            at_risk -= 1;
        }
        quartiles.into_iter().for_each(put);
    }
}

/// Log age of a job that has not ended, 0 while it waits.
fn age(now_ms: i64, submitted: &Submitted) -> f32 {
    submitted.start_ms.map_or(0.0, |start| log_since(now_ms, start))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    fn named(group: &Group, now_ms: i64) -> impl Fn(&str) -> f32 + use<> {
        let mut row = vec![f32::NAN; COLUMNS.len()];
        group.features(now_ms, &mut row);
        move |name| row[COLUMNS.iter().position(|column| *column == name).unwrap()]
    }

    #[test]
    fn two_ended_jobs_and_one_that_runs() {
        let mut group = Group::default();
        group.submit(1, 0);
        group.start(1, 0);
        group.submit(2, 10_000);
        group.start(2, 10_000);
        group.end(1, 100_000, Some(100f64.ln()), false);
        group.end(2, 410_000, Some(400f64.ln()), true);
        group.submit(3, 500_000);
        group.start(3, 520_000);
        let at = named(&group, 620_000);
        // 4.605 + ½ (5.991 − 4.605) = 5.298.
        assert!((at("ewma_2") - 5.298).abs() < 1e-3);
        assert!((at("last_1") - 400f32.ln()).abs() < 1e-5 && (at("last_2") - 100f32.ln()).abs() < 1e-5);
        assert!(at("last_3").is_nan());
        assert!((at("open") - 1.0).abs() < 1e-6);
        // Runs since 520 s: 100 s.
        assert!((at("age_youngest") - 101f32.ln()).abs() < 1e-5);
        assert!(at("fate_1").is_nan() && (at("fate_age_1") - 101f32.ln()).abs() < 1e-5);
        assert!((at("fate_2") - 400f32.ln()).abs() < 1e-5);
        assert!((at("gap_1") - 121f32.ln()).abs() < 1e-5);
        // In the last 10 minutes: 500 s only (620 − 600 = 20 s is after 10 s); in the last hour: all three.
        assert!((at("submitted_10m") - 1.0).abs() < 1e-6 && (at("submitted_1h") - 3.0).abs() < 1e-6);
        assert!((at("failed_share_30") - 0.5).abs() < 1e-6);
        // Kaplan–Meier over 100 (ended), 101 (runs), 400 (ended): alive 2/3, then 2/3 × (1 − 1/1) = 0.
        assert!((at("km25_20") - 100f32.ln()).abs() < 1e-5);
        assert!((at("km50_20") - 400f32.ln()).abs() < 1e-5);
        assert!((at("ended_share_20") - 2.0 / 3.0).abs() < 1e-6);
        // (100 + 101 + 400 + 60) / 2.5 = 264.4.
        assert!((at("exponential_20") - 264.4f32.ln()).abs() < 1e-4);
    }

    #[test]
    fn a_job_that_never_ran_leaves_without_a_trace_in_the_averages() {
        let mut group = Group::default();
        group.submit(1, 0);
        let waiting = named(&group, 1000);
        assert!((waiting("waiting") - 1.0).abs() < 1e-6);
        group.end(1, 1000, None, false);
        let at = named(&group, 2000);
        assert!(at("ewma_2").is_nan() && at("waiting").abs() < 1e-6 && at("open").abs() < 1e-6);
    }

    #[test]
    fn memory_is_bounded() {
        let mut group = Group::default();
        for job in 0..10_000u64 {
            let now = job as i64 * 1000;
            group.submit(job, now);
            group.start(job, now);
            group.end(job, now + 500, Some(1.0), false);
        }
        assert_eq!((group.submitted.len(), group.ended.len(), group.open.len()), (SUBMITTED, ENDED, 0));
    }
}
