//! How jobs to come are deferred, and what to set for the day after the last hour of the series.
//!
//! What is to come is chosen on all jobs of all windows. It is then written down for a day as the test wrote it down for each later day: a *table* with the hours forecast as of the last hour and the median run of each class, or a
//! *limit* with the percentile as of the last hour.
//!
//! O(one search + classes × 24). Worked example: at the end of a day the cleanest of the next 24 h is forecast for 13:00; a job of 1 h that is submitted at 8:00 and may wait 6 h is told to start 5 h later.

use tracecast_analytics::time::{HOUR_MS, Zone};

use super::super::choose::DeferSetup;
use super::super::engine::DeferEngine;
use super::super::forecast::{DAY_H, ForecastBy};
use super::super::heldout::DeferCase;
use super::super::job::{DeferJob, of_cell, runs_in_words};
use super::super::policy::DeferPolicy;
use super::tested::plan_of;
use super::{DeferPlan, NextDay, NextLimit, NextStart, NextTable, NextWay, Units};
use crate::error::Result;
use crate::plan::interval::ratio;
use crate::plan::weeks::whole;

/// All that looks forward.
pub(super) struct Forward {
    pub(super) plan: DeferPlan,
    pub(super) saves: f64,
    pub(super) next_day: Option<NextDay>,
}

pub(super) fn plan(case: &DeferCase<'_>, jobs: &[DeferJob], units: &Units) -> Result<Forward> {
    let stretch = whole(&case.split.all);
    let jobs: Vec<DeferJob> =
        jobs.iter().filter(|job| (stretch.0..stretch.1).contains(&job.submit_ms)).copied().collect();
    let engine = case.engine(stretch, &jobs);
    let (setup, choice) = case.forward(&engine, &jobs, stretch)?;
    let now: i128 = jobs
        .iter()
        .map(|job| case.series.integral(job.submit_ms, job.submit_ms + job.run_ms) * i128::from(job.milli_gpus))
        .sum();
    Ok(Forward {
        plan: plan_of(&setup, units),
        saves: 1.0 - ratio(choice.amount as f64, now as f64),
        next_day: next_day(case, &engine, &setup, units),
    })
}

/// Settings for the day to come; `None` where nobody waits, or the hours before it are not known.
fn next_day(case: &DeferCase<'_>, engine: &DeferEngine<'_>, setup: &DeferSetup, units: &Units) -> Option<NextDay> {
    let (_, end) = case.series.hours();
    let way = match setup.policy {
        _ if setup.is_now() => return None,
        DeferPolicy::Table(by) => {
            let expected = expected(case, engine, by, units)?;
            NextWay::Table(NextTable { by: by.in_words(), expected, starts: starts(engine, by, setup, end) })
        }
        DeferPolicy::Threshold(at) => NextWay::Limit(NextLimit {
            limit: units.value(engine.limit_after(at)? as f64),
            lowest: {
                let hours = end - i64::from(at.days) * DAY_H..end;
                units.value(hours.filter_map(|hour| case.series.at(hour)).min()? as f64)
            },
            percent: at.percent,
            days: at.days,
        }),
        _ => return None,
    };
    Some(NextDay { from: Zone::utc().rfc3339(end * HOUR_MS), way, from_ms: end * HOUR_MS })
}

/// Expected value of each hour of the day and of the longest wait after it.
fn expected(case: &DeferCase<'_>, engine: &DeferEngine<'_>, by: ForecastBy, units: &Units) -> Option<Vec<f64>> {
    let (_, end) = case.series.hours();
    let most_h = case.terms.most_ms / HOUR_MS + 1;
    let forecast = engine.forecast(by)?;
    (end..end + DAY_H + most_h).map(|hour| Some(units.value(forecast.at(end - 1, hour)? as f64))).collect()
}

/// The starts of each class that waits.
fn starts(engine: &DeferEngine<'_>, by: ForecastBy, setup: &DeferSetup, end: i64) -> Vec<NextStart> {
    let of = |(cell, bound): (usize, &i64)| {
        let after = |hour: i64| {
            let start = engine.table(by, cell, (end - 1, hour), &[*bound]).first().copied();
            start.map_or(0.0, |start| (start - hour * HOUR_MS) as f64 / HOUR_MS as f64)
        };
        let after_h: Vec<f64> = (end..end + DAY_H).map(after).collect();
        let waits = *bound > 0 && after_h.iter().any(|after| *after > 0.0);
        let (size, runs) = of_cell(cell);
        waits.then(|| NextStart {
            size,
            runs: runs_in_words(runs).to_owned(),
            run_h: engine.class_run_ms(cell) as f64 / HOUR_MS as f64,
            after_h,
        })
    };
    setup.bounds_ms.iter().enumerate().filter_map(of).collect()
}
