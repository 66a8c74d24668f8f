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
//! the runs. So it takes those jobs from `duration.csv`: models of what had ended by then predicted
//! each when it was submitted. `duration.model` predicts jobs that were submitted after the record.
//! Without a folder a plan makes the same predictions for itself.
//!
//! Worked example: a record of jobs 0 to 399, one an hour, gives rows for the jobs 200 to 399; in a
//! later dump with jobs up to 419, the model predicts the jobs 400 to 419.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::Args;
use serde::{Deserialize, Serialize};
use tracecast_analytics::Trace;
use tracecast_planner::plan::forecast::runs::{RunDrivers, RunForecast};
use tracecast_planner::replay::input::{Column, Loaded};
use tracecast_predictors::duration::apply::{Applied, apply};
use tracecast_predictors::duration::backtest::BacktestOptions;
use tracecast_predictors::duration::predictor::{PastRun, Predictor, predict_past};
use tracecast_predictors::job::Prediction;
use tracecast_predictors::timeline::{Timeline, TimelineOptions};

use crate::cmd::models::{DURATION, PAST_RUNS};
use crate::cmd::{predict, simulate};
use crate::exit::Usage;
use crate::output;
use crate::progress::Steps;

/// Source of the predicted runs of a plan.
#[derive(Debug, Args)]
pub(crate) struct PredictedRuns {
    /// CSV of predicted run times: job_id, predicted_duration_s (seconds)
    ///
    /// A prediction must have been made when its job was submitted. `tracecast model predict
    /// duration` writes such a file. Without this file and --models, a plan that goes by run times
    /// trains a model on what had ended when each job was submitted, and uses it where it does better
    /// on the earlier jobs than the mean of the last two runs of the same user and name.
    #[arg(long, value_name = "CSV", conflicts_with = "models", help_heading = "Jobs and nodes")]
    pub(crate) predictions: Option<PathBuf>,
    /// Folder of trained models, of which that of run times predicts the jobs; none for the last two runs
    ///
    /// `tracecast model train SOURCE --save FOLDER` writes one.
    /// Jobs of the record that it was trained on are predicted by what was known when they were
    /// submitted.
    #[arg(long, value_name = "FOLDER|none", help_heading = "Jobs and nodes")]
    pub(crate) models: Option<PathBuf>,
}

impl PredictedRuns {
    /// Forecast of the runs of all jobs of `trace`: as named, else by a model that is trained for it.
    pub(crate) fn forecast(&self, trace: &Trace, quiet: bool) -> Result<RunForecast> {
        Ok(self.named(trace)?.unwrap_or_else(|| trained(trace, (i64::MIN, i64::MAX), quiet)))
    }

    /// Predicted runs of loaded jobs by the models or the file that are named; `None` where none are.
    pub(crate) fn drivers(&self, trace: &Trace, loaded: &mut Loaded) -> Result<Option<RunDrivers>> {
        Ok(self.named(trace)?.map(|forecast| RunDrivers::new(loaded, forecast)).transpose()?)
    }

    /// Forecast by the models or the file that are named; `None` where none are.
    fn named(&self, trace: &Trace) -> Result<Option<RunForecast>> {
        match &self.models {
            Some(none) if is_none(none) => Ok(Some(RunForecast::Naive("--models none asks for it".to_owned()))),
            Some(folder) => Ok(Some(RunForecast::Trained(runs(folder, trace)?))),
            None => Ok(simulate::predictions(self.predictions.as_deref())?.map(RunForecast::Given)),
        }
    }
}

/// Whether `--models` asks for the naive rule alone.
fn is_none(models: &Path) -> bool {
    models.as_os_str() == "none"
}

/// Refusal of the folder that `--models` names.
fn refusal(folder: &Path, why: &str) -> Usage {
    let folder = folder.display();
    Usage(format!("--models {folder}: {why}; `tracecast model train SOURCE --save {folder}` writes it anew"))
}

/// Trained models of a plan that fits what it needs to what it reads.
#[derive(Debug, Args)]
pub(crate) struct Models {
    /// Folder of trained models, or none to learn nothing
    ///
    /// By default a plan learns what it needs from what it reads.
    ///
    /// `tracecast model train SOURCE --save FOLDER` writes one. A plan uses what it can of it, and a
    /// note of the answer says where that is nothing. A test always goes by models of earlier data.
    #[arg(long, value_name = "FOLDER|none", help_heading = "Evaluation")]
    pub(crate) models: Option<PathBuf>,
}

impl Models {
    /// Whether the option was given.
    pub(crate) fn is_named(&self) -> bool {
        self.models.is_some()
    }

    /// Whether rules that learn are to be left out.
    pub(crate) fn is_naive(&self) -> bool {
        self.models.as_deref().is_some_and(is_none)
    }

    /// The file of this name in the folder that is named; `None` where no folder is.
    pub(crate) fn file(&self, name: &str) -> Result<Option<PathBuf>> {
        let Some(folder) = self.models.as_ref().filter(|_| !self.is_naive()) else { return Ok(None) };
        if !folder.is_dir() {
            return Err(refusal(folder, "there is no such folder").into());
        }
        Ok(Some(folder.join(name)))
    }

    /// Note that nothing of a folder that is named is used, and why; it is a warning, too.
    pub(crate) fn unused(&self, why: &str) -> Result<Option<String>> {
        let folder = self.file("")?;
        let note = folder.map(|folder| format!("Nothing of --models {} is used: {why}.", folder.display()));
        note.iter().for_each(|note| output::warn(note));
        Ok(note)
    }
}

/// Predicted runs of loaded jobs by a model that is trained for them.
pub(crate) fn trained_drivers(trace: &Trace, loaded: &mut Loaded, quiet: bool) -> Result<RunDrivers> {
    let workload = &loaded.workload;
    let at = |submit: Option<&i64>| workload.origin_ms + submit.copied().unwrap_or(0);
    let window = (at(workload.submit_ms.first()), at(workload.submit_ms.last()) + 1);
    Ok(RunDrivers::new(loaded, trained(trace, window, quiet))?)
}

/// Forecast of the runs of the jobs of `trace` that are submitted from a moment on and up to another,
/// milliseconds since the Unix epoch, by a model that is trained for them, where enough jobs had ended.
fn trained(trace: &Trace, (from_ms, to_ms): (i64, i64), quiet: bool) -> RunForecast {
    if trace.jobs.end.is_all_unknown() {
        return RunForecast::Naive("no job has a recorded end, so nobody knows what had ended when".to_owned());
    }
    let steps = Steps::watching(quiet, "training a model of run times");
    let timeline = Timeline::new(trace, TimelineOptions::default());
    let past = timeline.and_then(|timeline| {
        let timeline = timeline.until(to_ms)?;
        let past = predict_past(&timeline, from_ms, &BacktestOptions::default(), &steps)?;
        Ok(past_runs(&timeline, &past))
    });
    match past {
        Ok(runs) if runs.is_empty() => RunForecast::Naive("too few jobs had ended to train a model".to_owned()),
        Ok(runs) => RunForecast::Trained(column("the model of run times", runs)),
        // What cannot be learned from stops no plan.
        Err(error) => RunForecast::Naive(format!("no model was trained: {error}")),
    }
}

/// Column of predicted runs; `source` is what to call it in messages.
fn column(source: &str, runs: Vec<PredictedRun>) -> Column {
    Column::new(source, runs.into_iter().map(|run| (run.job_id, run.predicted_duration_s)))
}

/// Predictions with the identifiers of their jobs.
pub(crate) fn past_runs(timeline: &Timeline, past: &[PastRun]) -> Vec<PredictedRun> {
    let run = |run: &PastRun| {
        let submission = &timeline.jobs.get(run.at)?.submission;
        Some(PredictedRun {
            job_id: submission.job_id.clone(),
            submit_ms: submission.submit_ms,
            predicted_duration_s: run.predicted_s,
        })
    };
    past.iter().filter_map(run).collect()
}

/// Predicted runs of the jobs of `trace` by the models in `folder`.
fn runs(folder: &Path, trace: &Trace) -> Result<Column> {
    let model = folder.join(DURATION);
    if !model.is_file() {
        return Err(refusal(folder, &format!("there is no {DURATION}, the model of run times")).into());
    }
    let timeline = Timeline::new(trace, TimelineOptions::default())?;
    let mut runs = past(&folder.join(PAST_RUNS), &timeline)?;
    runs.extend(submitted_later(&mut predict::load(&model)?, &timeline)?);
    if runs.is_empty() {
        let why = format!(
            "no job of this trace was submitted in the later half of the model's record or after it, so {DURATION} predicts none"
        );
        return Err(refusal(folder, &why).into());
    }
    Ok(column(&model.display().to_string(), runs))
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
fn submitted_later(predictor: &mut Predictor, timeline: &Timeline) -> Result<Vec<PredictedRun>> {
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
