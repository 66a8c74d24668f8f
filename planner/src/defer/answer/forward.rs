//! How jobs to come are deferred, and the day after the last hour of the series.
//!
//! What is to come is chosen on all jobs of all windows. The hours after the last one of the series are then taken as they are forecast, and what a job of each class that waits would do is asked for each hour in which it may be
//! submitted. The job is the median of its class.
//!
//! O(one search + classes × 24). Worked example: at the end of a day the cleanest of the next 24 h is forecast for 13:00; a job of 1 h that is submitted at 8:00 and may wait 6 h is told to start 5 h later.

use tracecast_analytics::time::{HOUR_MS, Zone};

use super::super::choose::DeferSetup;
use super::super::engine::DeferEngine;
use super::super::forecast::{ForecastBy, HourForecast};
use super::super::heldout::DeferCase;
use super::super::job::{CELLS, DeferJob, of_cell, runs_in_words};
use super::super::policy::DeferPolicy;
use super::tested::setup_told;
use super::{NextDay, NextStart, ToldDefer, Units};
use crate::error::Result;
use crate::fleet::window::whole;
use crate::plan::interval::ratio;

/// Hours of the day to come.
const DAY_H: i64 = 24;
/// The longest run that is looked at beyond it, hours.
const LONGEST_H: i64 = 7 * 24;

/// All that looks forward.
pub(super) struct Forward {
    pub(super) plan: ToldDefer,
    pub(super) saves: f64,
    pub(super) next_day: Option<NextDay>,
}

pub(super) fn plan(case: &DeferCase<'_>, jobs: &[DeferJob], units: &Units) -> Result<Forward> {
    let stretch = whole(&case.split.all);
    let jobs: Vec<DeferJob> =
        jobs.iter().filter(|job| (stretch.0..stretch.1).contains(&job.submit_ms)).copied().collect();
    let engine = case.engine(stretch);
    let (setup, choice) = case.forward(&engine, &jobs, stretch)?;
    let now: i128 = jobs
        .iter()
        .map(|job| case.series.integral(job.submit_ms, job.submit_ms + job.run_ms) * i128::from(job.milli_gpus))
        .sum();
    Ok(Forward {
        plan: setup_told(&setup, units),
        saves: 1.0 - ratio(choice.amount as f64, now as f64),
        next_day: if setup.is_now() { None } else { next_day(case, &setup, &jobs, units) },
    })
}

/// The value in the middle of some; none of none.
fn median<T: Ord + Copy>(mut values: Vec<T>) -> Option<T> {
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}

fn next_day(case: &DeferCase<'_>, setup: &DeferSetup, jobs: &[DeferJob], units: &Units) -> Option<NextDay> {
    let by = setup.policy.forecast().unwrap_or(ForecastBy::Mean(7));
    let stretch = whole(&case.split.all);
    let clock = (stretch.0.div_euclid(HOUR_MS), stretch.1.div_euclid(HOUR_MS));
    let forecast = HourForecast::of(case.series, by, clock);
    let (_, end) = case.series.hours();
    let most_h = case.terms.most_ms / HOUR_MS + 1;
    let told = case.series.extended(DAY_H + most_h + LONGEST_H + 1, |hour| forecast.at(end - 1, hour));
    let policies: Vec<DeferPolicy> = vec![setup.policy];
    let engine = DeferEngine::of(&told, &policies, clock, case.terms.resume_ms);
    let expected: Option<Vec<f64>> =
        (end..end + DAY_H + most_h).map(|hour| Some(units.value(told.at(hour)? as f64))).collect();
    let starts = (0..CELLS).filter_map(|cell| {
        let bound = setup.bounds_ms.get(cell).copied().filter(|bound| *bound > 0)?;
        let of = |of: &dyn Fn(&DeferJob) -> i64| median(jobs.iter().filter(|job| job.cell == cell).map(of).collect());
        let run_ms = of(&|job| job.predicted_ms)?.clamp(1, LONGEST_H * HOUR_MS);
        let milli_gpus = of(&|job| i64::try_from(job.milli_gpus).unwrap_or(i64::MAX))?.unsigned_abs();
        let after = |hour: i64| {
            let submit_ms = hour * HOUR_MS;
            let job =
                DeferJob { row: 0, submit_ms, run_ms, milli_gpus, predicted_ms: run_ms, size_mean_ms: run_ms, cell };
            let start = engine.pieces(setup.policy, &job, bound).first().map_or(submit_ms, |piece| piece.0);
            (start - submit_ms) as f64 / HOUR_MS as f64
        };
        let (size, runs) = of_cell(cell);
        let after_h: Vec<f64> = (end..end + DAY_H).map(after).collect();
        let waits = after_h.iter().any(|after| *after > 0.0);
        waits.then(|| NextStart {
            size,
            runs: runs_in_words(runs).to_owned(),
            run_h: run_ms as f64 / HOUR_MS as f64,
            after_h,
        })
    });
    Some(NextDay {
        from: Zone::utc().rfc3339(end * HOUR_MS),
        by: by.in_words(),
        expected: expected?,
        starts: starts.collect(),
        from_ms: end * HOUR_MS,
    })
}
