//! How long jobs are predicted to run when they are submitted: by a file, else by runs alike that had ended.
//!
//! O(jobs log jobs). Worked example: of two jobs that ran 30 and 50 s and were predicted to run 60 s each, one is within a factor of 2: a share of 0.5.

use tracecast_analytics::facts::JobFacts;
use tracecast_analytics::report::format;

use super::demand::UnwaitedJob;
use crate::error::Result;
use crate::plan::interval::average;
use crate::replay::input::{Column, last_two_of};

/// Predicted run of each row of the trace, seconds, and how it is predicted, in words.
pub(crate) fn predictions(
    facts: &JobFacts<'_>,
    jobs: &[UnwaitedJob],
    file: Option<&Column>,
) -> Result<(Vec<f64>, String)> {
    const LAST_TWO: &str = "predicted as the mean of the last two of the same user and job name that had ended, else of the user, else of all";
    let mut result = last_two_by_row(facts, jobs);
    let Some(column) = file else {
        return Ok((result, format!("Runs are {LAST_TWO}; --models or --predictions gives others.")));
    };
    let key = |job: &UnwaitedJob| facts.trace.jobs.job_key.get(job.row).unwrap_or_default();
    let (values, matched) = column.of_keys(&jobs.iter().map(key).collect::<Vec<_>>())?;
    for (job, value) in jobs.iter().zip(values) {
        if let (Some(slot), Some(value)) = (result.get_mut(job.row), value) {
            *slot = value;
        }
    }
    let told = format!(
        "Predictions are given: of {}; runs of the other {} are {LAST_TWO}.",
        format::counted(matched.jobs as u64, "job", "jobs"),
        format::count(matched.without as u64)
    );
    Ok((result, told))
}

/// The mean of the last two runs alike of each job, seconds, by rows of the trace; 0 in other rows.
pub(crate) fn last_two_by_row(facts: &JobFacts<'_>, jobs: &[UnwaitedJob]) -> Vec<f64> {
    let mut result = vec![0.0; facts.len()];
    let known = last_two_of(facts, jobs.iter().map(|job| (job.row, job.submit_ms)));
    for (job, run_s) in jobs.iter().zip(known) {
        if let Some(slot) = result.get_mut(job.row) {
            *slot = run_s;
        }
    }
    result
}

/// Share of the jobs submitted from a moment on that ran within a factor of 2 of what was predicted.
pub(crate) fn within_twice(jobs: &[UnwaitedJob], predicted_s: &[f64], from_ms: i64) -> f64 {
    let near = |job: &UnwaitedJob| {
        let (run, predicted) = (job.run_ms as f64 / 1e3, predicted_s.get(job.row).copied().unwrap_or(0.0));
        f64::from(run <= 2.0 * predicted && predicted <= 2.0 * run)
    };
    average(jobs.iter().filter(|job| job.submit_ms >= from_ms).map(near))
}
