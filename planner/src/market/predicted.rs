//! How long jobs are predicted to run when they are submitted: by a model or a file, else by runs
//! alike that had ended; and what that is worth to a plan.
//!
//! O(jobs log jobs). Worked example: of two jobs that ran 30 and 50 s and were predicted to run 60 s
//! each, one is within a factor of 2: a share of 0.5.

use rayon::prelude::*;
use tracecast_analytics::facts::JobFacts;
use tracecast_analytics::report::format;

use super::demand::UnwaitedJob;
use crate::error::{Error, Result};
use crate::plan::forecast::runs::RunForecast;
use crate::plan::forecast::{Driven, ForecastUsed};
use crate::plan::interval::average;
use crate::replay::input::{Column, Matched, last_two_of};

/// Predicted run of each row of the trace by what predicts it, seconds; 0 in rows of no job.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PredictedRows {
    /// Forecast that they are of.
    pub(crate) forecast: RunForecast,
    naive: Vec<f64>,
    /// Predictions of the model, of the naive rule where it has none; `None` without a model.
    model: Option<Vec<f64>>,
    /// Recorded runs.
    truth: Vec<f64>,
    matched: Matched,
}

/// Outcomes of a plan by what drives it, as a plan brings them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DrivenOutcome {
    /// Cost of the time that the plan was chosen on.
    pub(crate) earlier: f64,
    /// Cost of each block of later time.
    pub(crate) later: Vec<f64>,
}

impl PredictedRows {
    /// Predicts the jobs of a trace.
    ///
    /// # Errors
    /// If the predictions are of other jobs.
    pub(crate) fn new(facts: &JobFacts<'_>, jobs: &[UnwaitedJob], forecast: &RunForecast) -> Result<Self> {
        let naive = last_two_by_row(facts, jobs);
        let with = |values: &mut dyn Iterator<Item = Option<f64>>, mut rows: Vec<f64>| {
            for (job, value) in jobs.iter().zip(values) {
                if let (Some(slot), Some(value)) = (rows.get_mut(job.row), value) {
                    *slot = value;
                }
            }
            rows
        };
        let truth = with(&mut jobs.iter().map(|job| Some(job.run_ms as f64 / 1e3)), naive.clone());
        let key = |job: &UnwaitedJob| facts.trace.jobs.job_key.get(job.row).unwrap_or_default();
        let of = |column: &Column| column.of_keys(&jobs.iter().map(key).collect::<Vec<_>>());
        let (forecast, matched) = forecast.clone().matched(of)?;
        let Some((values, matched)) = matched else {
            return Ok(Self { forecast, naive, model: None, truth, matched: Matched::default() });
        };
        let model = Some(with(&mut values.into_iter(), naive.clone()));
        Ok(Self { forecast, naive, model, truth, matched })
    }

    /// Predictions by what is used.
    pub(crate) fn by(&self, used: ForecastUsed) -> &[f64] {
        match (used, &self.model) {
            (ForecastUsed::Model, Some(model)) => model,
            _ => &self.naive,
        }
    }

    /// Describes how runs are predicted, in a sentence.
    pub(crate) fn in_words(&self, used: ForecastUsed) -> String {
        const LAST_TWO: &str = "predicted as the mean of the last two of the same user and job name that had ended, else of the user, else of all";
        let who = match (&self.forecast, used) {
            (RunForecast::Given(_), _) => "Predictions are given",
            (RunForecast::Trained(_), ForecastUsed::Model) => "Runs are predicted by the trained model",
            _ => return format!("Runs are {LAST_TWO}."),
        };
        format!(
            "{who}: of {}; runs of the other {} are {LAST_TWO}.",
            format::counted(self.matched.jobs as u64, "job", "jobs"),
            format::count(self.matched.without as u64)
        )
    }

    /// Chooses what to use by the time that the plan is chosen on, and gives the outcomes on later time;
    /// `outcome` is that of the plan by these predicted runs.
    ///
    /// # Errors
    /// Errors of `outcome`.
    pub(crate) fn choose(
        &self,
        outcome: &(dyn Fn(&[f64]) -> Result<DrivenOutcome> + Sync),
    ) -> Result<(ForecastUsed, Vec<Driven>)> {
        let drivers: Vec<&[f64]> =
            [&self.naive, &self.truth].into_iter().chain(&self.model).map(Vec::as_slice).collect();
        let outcomes = drivers.into_par_iter().map(outcome).collect::<Result<Vec<_>>>()?;
        let &[ref naive, ref truth, ref model @ ..] = outcomes.as_slice() else {
            return Err(Error::defect("a plan was driven by nothing".to_owned()));
        };
        let model = model.first();
        let used = self.forecast.used(model.is_some_and(|model| model.earlier < naive.earlier));
        Ok((used, Driven::blocks(&naive.later, model.map(|model| model.later.as_slice()), &truth.later)))
    }
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
