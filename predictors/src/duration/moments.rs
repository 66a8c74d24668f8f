//! Times at which models of duration are fitted again, and the jobs each fit predicts.
//!
//! Fits are as frequent as is asked for, but more frequent in a short log, and no more frequent
//! than the jobs are worth. O(jobs log jobs). Worked example: 3,000 jobs spread over twenty years,
//! of which the last 2,400 are predicted, have 120 fits and not 835 that are a week apart.

use std::ops::Range;

use tracecast_analytics::report::format;
use tracecast_analytics::time::{DAY_MS, HOUR_MS};

use super::forecast;
use super::options::BacktestOptions;
use super::rows::{Row, Rows, skeleton};
use crate::holdout::{Refit, by_time, position};
use crate::timeline::Timeline;

/// Share of the jobs from which on calibration learns in training.
pub(super) const CALIBRATE_FROM: f64 = 0.7;

/// Jobs before `choose_from` that calibration is to learn from, if the log has them.
const TEACHING: usize = 10_000;
/// Least share of the jobs before any model predicts.
const PREDICT_FROM_LEAST: f64 = 0.2;
/// Fits between the first prediction and the last job, at least: what a short log would not have at one a week.
const LEAST_FITS: i64 = 8;
/// Shortest time between fits of a short log, milliseconds.
const SHORTEST_STEP_MS: i64 = 6 * HOUR_MS;

/// First job that models predict: earlier than `predict_from` where few jobs lie between it and
/// `choose_from`, as calibration learns from the predicted jobs alone.
pub(super) fn first_predicted(rows: &Rows, options: &BacktestOptions) -> usize {
    let count = rows.rows.len();
    let usual = position(options.predict_from, count);
    let early = position(options.choose_from, count).saturating_sub(TEACHING);
    let wanted = usual.min(early.max(position(PREDICT_FROM_LEAST, count)));
    // In a log that begins with a burst, or with long jobs, few have ended by then.
    let mut ends: Vec<i64> = rows.rows.iter().filter_map(|row| row.end_ms.filter(|_| row.y.is_some())).collect();
    ends.sort_unstable();
    let enough = ends.get(forecast::LEAST_ENDED.saturating_sub(1)).copied();
    let known = enough.map_or(count, |end| rows.rows.partition_point(|row| row.submit_ms <= end));
    wanted.max(known.min(position(options.choose_from, count)))
}

/// Fits in a back-test at most: one for so many jobs predicted, but as many as the least and no more than the most. A record of few jobs over many years
/// would else be fitted anew each week for a job or two.
const JOBS_A_FIT: usize = 20;
const FITS: (usize, usize) = (60, 150);

/// Time between fits that serve some jobs, milliseconds: as asked for, but eight at least over the jobs from the first of them to the last of all, and no more than
/// the jobs are worth.
pub(super) fn step_between(rows: &[Row], serves: Range<usize>, options: &BacktestOptions) -> i64 {
    let at = |row: Option<&Row>| row.map_or(0, |row| row.submit_ms);
    let first_ms = at(rows.get(serves.start));
    let span_ms = at(rows.last()) - first_ms;
    let served_ms = at(serves.end.checked_sub(1).and_then(|last| rows.get(last))) - first_ms;
    let most = (serves.len() / JOBS_A_FIT).clamp(FITS.0, FITS.1) as i64;
    (span_ms / LEAST_FITS).max(SHORTEST_STEP_MS).min(options.refit_days.max(1) * DAY_MS).max(served_ms / most)
}

/// Submission times of the jobs, milliseconds.
pub(super) fn submissions(rows: &[Row]) -> Vec<i64> {
    rows.iter().map(|row| row.submit_ms).collect()
}

/// Jobs that must have ended before the first fit of [`track_between`], and of predictions of the past.
pub(super) const LEAST: usize = 200;

/// The fits of [`track_between`].
pub(crate) fn moments_between(rows: &[Row], (from_ms, to_ms): (i64, i64), options: &BacktestOptions) -> Vec<Refit> {
    let mut ends: Vec<i64> = rows.iter().filter_map(|row| row.end_ms.filter(|_| row.y.is_some())).collect();
    ends.sort_unstable();
    let begin_ms = ends.get(LEAST).copied().unwrap_or(from_ms).max(from_ms - 14 * DAY_MS);
    let first = rows.partition_point(|row| row.submit_ms <= begin_ms);
    let until = rows.partition_point(|row| row.submit_ms < to_ms);
    let mut moments = by_time(&submissions(rows), first, step_between(rows, first..until, options));
    moments.retain(|refit| refit.serves.start < until);
    moments
}

/// CPU-seconds of a fit and the predictions up to the next, for a thousand jobs learned from, about.
const FIT_S: f64 = 0.08;

/// Estimated work of a back-test, or of a training if `training`, in words.
pub fn work(timeline: &Timeline, options: &BacktestOptions, training: bool) -> String {
    let rows = Rows { rows: skeleton(timeline), ..Rows::default() };
    let count = rows.rows.len();
    let (first, learners) = if training {
        (position(CALIBRATE_FROM, count), 1)
    } else {
        let learners = options.models.iter().filter(|model| model.learns());
        (first_predicted(&rows, options), learners.count())
    };
    let moments = if training {
        let from_ms = rows.rows.get(first).map_or(0, |row| row.submit_ms);
        moments_between(&rows.rows, (from_ms, i64::MAX), options)
    } else {
        by_time(&submissions(&rows.rows), first, step_between(&rows.rows, first..count, options))
    };
    let learned = |refit: &Refit| refit.serves.start.min(options.settings.most_rows);
    let jobs: usize = moments.iter().map(learned).sum::<usize>() + if training { count } else { 0 };
    format!(
        "{} fitted {} on up to {}: about {} of CPU time",
        format::counted(learners as u64, "model is", "models are"),
        format::counted(moments.len() as u64 + u64::from(training), "time", "times"),
        format::counted(moments.last().map_or(0, learned) as u64, "job", "jobs"),
        format::duration((FIT_S * learners as f64 * jobs as f64 / 1000.0).max(1.0).round())
    )
}

#[cfg(test)]
#[allow(clippy::indexing_slicing)]
mod tests {
    use super::*;
    use crate::job::Submission;
    use crate::timeline::Job;

    #[test]
    fn the_worked_example_is_not_fitted_each_week() {
        let job = |at: i64| {
            let submission = Submission { submit_ms: at * 210_384_000, gpus: 1.0, ..Submission::default() };
            Job::without_wait(0, submission, 600.0)
        };
        let timeline = Timeline { jobs: (0..3_000).map(job).collect(), ..Timeline::default() };
        let rows = skeleton(&timeline);
        let options = BacktestOptions::default();
        let fits = by_time(&submissions(&rows), 600, step_between(&rows, 600..3_000, &options));
        assert!((118..=121).contains(&fits.len()), "{}", fits.len());
        // Each job is predicted once, by a fit at which it had not been submitted.
        assert_eq!(fits.iter().map(|refit| refit.serves.len()).sum::<usize>(), 2_400);
        assert!(fits.iter().all(|refit| rows[refit.serves.start].submit_ms >= refit.now_ms));
        // Four weeks of as many jobs are fitted each half week, as they ever were.
        let weekly = |at: i64| {
            let submission = Submission { submit_ms: at * 806_400, gpus: 1.0, ..Submission::default() };
            Job::without_wait(0, submission, 600.0)
        };
        let short = skeleton(&Timeline { jobs: (0..3_000).map(weekly).collect(), ..Timeline::default() });
        let span_ms = 806_400 * (2_999 - 600);
        assert_eq!(step_between(&short, 600..3_000, &options), span_ms / LEAST_FITS);
    }
}
