//! The folder of trained models: what `tracecast model train SOURCE --save FOLDER` writes, and
//! plans read as `--models FOLDER`.
//!
//! | file | holds |
//! |---|---|
//! | `duration.model` | run times of jobs, learned from the whole record |
//! | `duration.csv` | predicted runs of jobs submitted in the record's later half |
//! | `demand.model` | GPUs in use by the hour |
//! | `utilisation.csv` | profiles of job types from telemetry |
//! | `interference.model` | slowdown of jobs that share a GPU |
//! | `spot.model` | availability of spot instances |
//!
//! A plan is tested on later jobs of the same record, of which a model of the whole record knows
//! the runs. So it takes those jobs from `duration.csv`: a model of the first half predicted each
//! when it was submitted, having learned from what had ended by then. `duration.model` predicts
//! jobs that were submitted after the record.
//!
//! Worked example: a record of jobs 0 to 399, one an hour, gives rows for the jobs 200 to 399; in a
//! later dump with jobs up to 419, the model predicts the jobs 400 to 419.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::Args;
use serde::{Deserialize, Serialize};
use tracecast_analytics::Trace;
use tracecast_planner::replay::input::Column;
use tracecast_predictors::duration::apply::{Applied, apply};
use tracecast_predictors::duration::predictor::Predictor;
use tracecast_predictors::job::Prediction;
use tracecast_predictors::timeline::{Timeline, TimelineOptions};

use crate::cmd::{predict, simulate};
use crate::exit::Usage;

pub(crate) const DURATION: &str = "duration.model";
/// Predictions of jobs of the record that were made without knowing what came later.
pub(crate) const PAST_RUNS: &str = "duration.csv";
pub(crate) const DEMAND: &str = "demand.model";
pub(crate) const UTILISATION: &str = "utilisation.csv";
pub(crate) const INTERFERENCE: &str = "interference.model";
pub(crate) const SPOT: &str = "spot.model";
/// All files that a folder of models may hold.
pub(crate) const FILES: [&str; 6] = [DURATION, PAST_RUNS, DEMAND, UTILISATION, INTERFERENCE, SPOT];

/// Source of the predicted runs of a plan.
#[derive(Debug, Args)]
pub(crate) struct PredictedRuns {
    /// CSV of predicted run times: job_id, predicted_duration_s (seconds)
    ///
    /// A prediction must have been made when its job was submitted. `tracecast model predict
    /// duration` writes such a file. Without this file and --models a job is predicted to run as
    /// long as the last two jobs of its user and name on average.
    #[arg(long, value_name = "CSV", conflicts_with = "models", help_heading = "Jobs and nodes")]
    pub(crate) predictions: Option<PathBuf>,
    /// Folder of trained models, of which that of run times predicts the jobs
    ///
    /// `tracecast model train SOURCE --save FOLDER` writes one.
    /// Jobs of the record that it was trained on are predicted by what was known when they were
    /// submitted.
    #[arg(long, value_name = "FOLDER", help_heading = "Jobs and nodes")]
    pub(crate) models: Option<PathBuf>,
}

impl PredictedRuns {
    /// Predicted runs of the jobs of `trace`; nothing if no source is named.
    pub(crate) fn column(&self, trace: &Trace) -> Result<Option<Column>> {
        match &self.models {
            Some(folder) => runs(folder, trace).map(Some),
            None => simulate::predictions(self.predictions.as_deref()),
        }
    }
}

/// Predicted runs of the jobs of `trace` by the models in `folder`.
fn runs(folder: &Path, trace: &Trace) -> Result<Column> {
    let model = folder.join(DURATION);
    let refuse = |why: &str| {
        let folder = folder.display();
        Usage(format!("--models {folder}: {why}; `tracecast model train SOURCE --save {folder}` writes it anew"))
    };
    if !model.is_file() {
        return Err(refuse(&format!("there is no {DURATION}, the model of run times")).into());
    }
    let timeline = Timeline::new(trace, TimelineOptions::default())?;
    let mut runs = past(&folder.join(PAST_RUNS), &timeline)?;
    runs.extend(submitted_later(&mut predict::load(&model)?, &timeline)?);
    if runs.is_empty() {
        let why = format!(
            "no job of this trace was submitted in the later half of the model's record or after it, so {DURATION} predicts none"
        );
        return Err(refuse(&why).into());
    }
    let values = runs.into_iter().map(|run| (run.job_id, run.predicted_duration_s));
    Ok(Column::new(&model.display().to_string(), values))
}

/// Row of [`PAST_RUNS`].
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct PredictedRun {
    job_id: String,
    /// Milliseconds since the Unix epoch.
    submit_ms: i64,
    predicted_duration_s: f64,
}

/// Predictions of the jobs that were submitted after the predictor's training data end. Of jobs
/// that were open then, their age would be known, which it was not at submission.
pub(crate) fn submitted_later(predictor: &mut Predictor, timeline: &Timeline) -> Result<Vec<PredictedRun>> {
    let trained_ms = predictor.trained().to_ms;
    let Applied { predictions, submits_ms, .. } = apply(predictor, timeline)?;
    let later = predictions.into_iter().zip(submits_ms).filter(|(_, submit_ms)| *submit_ms > trained_ms);
    let run = |(job, submit_ms): (Prediction, i64)| PredictedRun {
        job_id: job.job_id,
        submit_ms,
        predicted_duration_s: job.predicted_duration_s,
    };
    Ok(later.map(run).collect())
}

/// Text of [`PAST_RUNS`].
pub(crate) fn past_text(runs: &[PredictedRun]) -> Result<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    runs.iter().try_for_each(|run| writer.serialize(run))?;
    Ok(writer.into_inner().map_err(csv::IntoInnerError::into_error)?)
}

/// Runs in a file of past predictions, of jobs of `timeline`: those of the same name and
/// submission.
fn past(path: &Path, timeline: &Timeline) -> Result<Vec<PredictedRun>> {
    if !path.is_file() {
        return Ok(Vec::new());
    }
    let jobs = timeline.jobs.iter().map(|job| (job.submission.job_id.as_str(), job.submission.submit_ms));
    let jobs: HashSet<(&str, i64)> = jobs.collect();
    let named = || format!("read {}", path.display());
    let mut reader = csv::Reader::from_path(path).with_context(named)?;
    let mut runs = reader.deserialize().collect::<csv::Result<Vec<PredictedRun>>>().with_context(named)?;
    runs.retain(|run| jobs.contains(&(run.job_id.as_str(), run.submit_ms)));
    Ok(runs)
}
