//! What the answer rests on: that hours and jobs share a calendar, and what was assumed.
//!
//! O(1). Worked example: jobs of April 2020 and hours of April 2023 share no day; 157 weeks later they meet the same season.

use tracecast_analytics::report::format;
use tracecast_analytics::time::{HOUR_MS, WEEK_MS, Zone};

use super::super::job::{DeferClassBy, DeferJobs};
use super::super::series::HourSeries;
use super::{DeferAim, DeferHours, DeferRequest};
use crate::error::{Error, Result};
use crate::market::demand::PoolJobs;
use crate::plan::weeks::{Moments, WeekSplit};

/// Checks that some hour of the series meets the jobs; the error names a shift by which it would.
pub(super) fn check_calendar(span: Moments, (name, series): (&str, &HourSeries), shift_weeks: i64) -> Result<()> {
    let (first, end) = series.hours();
    let (first, end) = (first * HOUR_MS, end * HOUR_MS);
    let shift = shift_weeks * WEEK_MS;
    if span.0 + shift >= first && span.0 + shift < end && span.1 + shift > first {
        return Ok(());
    }
    // Shifts by whole years, to the next week, to keep the season and bring the jobs into the file.
    let year = (365.2425 * 24.0) * HOUR_MS as f64;
    let weeks_of = |years: i64| ((years as f64 * year) / WEEK_MS as f64).round() as i64;
    let years = ((first - span.0) as f64 / year).floor() as i64;
    let meets = |weeks: &i64| span.0 + weeks * WEEK_MS >= first && span.0 + weeks * WEEK_MS < end;
    let weeks =
        (years..=years + 1).map(weeks_of).find(meets).unwrap_or_else(|| (first - span.0).div_euclid(WEEK_MS) + 1);
    let utc = Zone::utc();
    let day = |ms: i64| utc.rfc3339(ms).get(..10).map(str::to_owned).unwrap_or_default();
    let remedy = if weeks == 0 {
        "leave --carbon-shift out: the file has the days of the jobs".to_owned()
    } else {
        format!(
            "name a file of those days, or take another year's hours for them with --carbon-shift {weeks}w, which keeps weekdays and seasons; it is an assumption, and the answer says so"
        )
    };
    Err(Error::malformed(
        "calendar that the hours of the file and the jobs share",
        format!(
            "{} from {} to {}, jobs from {} to {}",
            name,
            day(first),
            day(end - HOUR_MS),
            day(span.0 + shift),
            day(span.1 + shift)
        ),
        remedy,
    ))
}

/// Adds to an error what is to be known of the hours.
pub(super) fn with_notes(error: Error, notes: &[String]) -> Error {
    match error {
        Error::NothingToEvaluate(what) if !notes.is_empty() => {
            Error::NothingToEvaluate(format!("{what}. {}", notes.join(" ")))
        }
        other => other,
    }
}

/// Assumptions, in words.
pub(super) fn notes(
    jobs: &PoolJobs<'_>,
    span: Moments,
    split: &WeekSplit,
    hours: &DeferHours,
    request: &DeferRequest,
    (predicted, class_by, taken): (String, DeferClassBy, &DeferJobs),
    day: &dyn Fn(i64) -> String,
) -> Vec<String> {
    let mut notes = Vec::new();
    if request.shift_weeks != 0 {
        notes.push(format!(
            "Assumed: the hours of {} are those of other days. Each job is compared with the hour {} {} (--carbon-shift), at the same hour of the same weekday. Savings are of that grid in that time with these jobs.",
            hours.name,
            format::counted(request.shift_weeks.unsigned_abs(), "week", "weeks"),
            if request.shift_weeks > 0 { "later" } else { "earlier" }
        ));
    }
    notes.extend([
        "Each job runs for as long as it ran, and its GPUs are there when it starts: capacity is elastic, and no job waits for another.".to_owned(),
        format!(
            "A GPU draws {} kW while a job holds it: {}. Shares that are saved do not depend on it.",
            format::compact(request.gpu_kw.0),
            request.gpu_kw.1
        ),
        "The value of an hour is known from its beginning on, and of later hours nothing is. The plan is written down once a day, at midnight UTC, with what is known then.".to_owned(),
        predicted,
        format!("The plan pauses no job. Beside it, resuming a paused job costs {} of its run, with its power.", format::duration(request.terms.resume_ms as f64 / 1e3)),
    ]);
    notes.push(match class_by {
        DeferClassBy::Limit if taken.without_class > 0 => format!(
            "Classes are of time limits, which a scheduler knows. {} without one start at once under every way.",
            format::counted(taken.without_class, "job", "jobs")
        ),
        DeferClassBy::Limit => "Classes are of time limits, which a scheduler knows.".to_owned(),
        DeferClassBy::Predicted => {
            "Classes are of predicted runs. Lines for Slurm go by time limits: --class-by limit tests that.".to_owned()
        }
    });
    if taken.without_value > 0 {
        notes.push(format!(
            "{} may touch an hour without a value{}, or beyond the file, and are left out.",
            format::counted(taken.without_value, "job", "jobs"),
            if request.energy.is_some() && hours.aim == DeferAim::Carbon { " or a price" } else { "" }
        ));
    }
    if hours.series.missing() > 0 {
        notes.push(format!("{} of the file have no value.", format::counted(hours.series.missing(), "hour", "hours")));
    }
    notes.extend(hours.notes.iter().cloned());
    notes.extend(split.left_over(span.0, day, "neither chosen on nor told"));
    if request.prices.is_some() {
        notes.extend(jobs.notes());
    }
    notes
}
