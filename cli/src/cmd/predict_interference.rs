//! `tracecast model predict interference`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use clap::Args;
use tracecast_analytics::report;
use tracecast_predictors::interference::predictor::{MOST_TOGETHER, SharingJob, SharingPredictor};
use tracecast_predictors::interference::share::{self, SharingAnswer, SharingLimits};
use tracecast_predictors::interference::table::JobProfile;

use crate::args::RowsForm;
use crate::cmd::answer;
use crate::cmd::models::{INTERFERENCE, model_file};
use crate::early::Replacing;
use crate::exit::Usage;
use crate::output;

/// Limits that sharing must keep.
#[derive(Debug, Clone, Copy, Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct Limits {
    /// How many times as slow the worse of the two jobs may be, at the 0.9 quantile
    #[arg(long, value_name = "TIMES", default_value_t = 1.5)]
    pub(crate) slo: f64,
    /// Highest chance that the two jobs do not fit into the memory of the GPU
    #[arg(long, value_name = "SHARE", default_value_t = 0.05)]
    pub(crate) most_oom: f64,
}

impl Limits {
    /// The limits, if they can be met at all.
    pub(crate) fn checked(self) -> Result<SharingLimits> {
        let limits = SharingLimits { slo: self.slo, most_out_of_memory: self.most_oom, ..SharingLimits::default() };
        limits.check()?;
        Ok(limits)
    }
}

#[derive(Debug, Args)]
#[command(after_help = "\
Example, which of two running jobs a new one should share with:
  tracecast model train interference simulation_throughputs.json.gz --out share.tcm
  tracecast model predict interference --model share.tcm --gpu-type v100 'ResNet-18 (batch size 16)' A3C 'LM (batch size 20)'
and beside which three job types to measure one of which nothing is known:
  tracecast model predict interference --model share.tcm --gpu-type v100 --to-measure 3 BERT
and how fast three jobs run that all share one GPU:
  tracecast model predict interference --model share.tcm --gpu-type v100 --together A3C A3C 'LM (batch size 20)'")]
pub(crate) struct PredictInterference {
    /// Job type of the new job, then those of the running jobs, which are ranked
    #[arg(value_name = "JOB", num_args = 1.., required_unless_present = "couples", conflicts_with = "couples", requires = "gpu_type")]
    pub(crate) jobs: Vec<String>,
    /// GPU type that the jobs share
    #[arg(long, value_name = "NAME", conflicts_with = "couples")]
    pub(crate) gpu_type: Option<String>,
    /// CSV of couples to forecast, with the columns gpu_type, job_a and job_b
    ///
    /// It may also have family_a and family_b, and what was seen of a job, such as sm_util_pct_a or memory_mb_b. What was seen counts in place of
    /// what is known of the job type.
    #[arg(long, value_name = "CSV")]
    pub(crate) couples: Option<PathBuf>,
    /// Say beside which job types to measure the one JOB first, and what is known of it then
    ///
    /// These are the pairs that leave the least unknown of all its pairs, the first one first.
    #[arg(long, value_name = "PAIRS", conflicts_with = "couples", value_parser = clap::value_parser!(u16).range(1..=100))]
    pub(crate) to_measure: Option<u16>,
    /// All JOBs share one GPU: say how fast each of them runs there
    ///
    /// With more than two jobs the answer is composed from forecasts of couples, as no larger group
    /// teaches. `model backtest interference --groups` tests that.
    #[arg(long, conflicts_with_all = ["couples", "to_measure", "top", "slices"])]
    pub(crate) together: bool,
    /// Say how fast each JOB runs on MIG slices, on all that were measured or on those named
    ///
    /// It takes a model that was trained with --slices. Speeds are relative to the whole GPU.
    #[arg(long, value_name = "NAME,…", num_args = 0..=1, require_equals = true, default_missing_value = "", conflicts_with_all = ["couples", "to_measure", "top"])]
    pub(crate) slices: Option<String>,
    /// Show no more than the best so many of the running jobs
    #[arg(long, value_name = "JOBS", conflicts_with_all = ["couples", "to_measure"], value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) top: Option<u32>,
    /// Model file that `tracecast model train interference` wrote, or the folder of all trained models
    #[arg(long, short, visible_alias = "models", value_name = "FILE|FOLDER")]
    pub(crate) model: PathBuf,
    #[command(flatten)]
    pub(crate) limits: Limits,
    /// Form in which the answer is written
    #[arg(long, value_enum, default_value_t = RowsForm::Table, help_heading = "Answer")]
    pub(crate) format: RowsForm,
    /// Write the answer to a file instead of stdout; FOLDER/ writes it there under the name of the command
    #[arg(long, short, value_name = "FILE|FOLDER/", help_heading = "Answer")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) replacing: Replacing,
}

/// The predictor in a file.
pub(crate) fn load(path: &Path) -> Result<Arc<SharingPredictor>> {
    let bytes = tracecast_predictors::read_model(path)?;
    Ok(Arc::new(SharingPredictor::from_bytes(&path.display().to_string(), &bytes)?))
}

/// Each job on each slice.
fn on_slices(
    predictor: &SharingPredictor,
    limits: SharingLimits,
    gpu_type: &str,
    (jobs, named): (&[String], &str),
) -> Result<SharingAnswer> {
    let Some(slices) = predictor.slices() else {
        return Err(Usage("this model knows no speeds on slices; train one with --slices".to_owned()).into());
    };
    let named: Vec<String> =
        named.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect();
    let mut result = Vec::new();
    for job in jobs {
        let none = |name| Usage(format!("`{name}` is no MIG slice; name slices as NVIDIA does, such as 3g.20gb"));
        result.extend(slices.speeds_on(job, None, &JobProfile::default(), &named).map_err(none)?);
    }
    Ok(SharingAnswer::of_slices(predictor, limits, gpu_type, result))
}

pub(crate) fn run(request: &PredictInterference, quiet: bool) -> Result<()> {
    let out = request.replacing.answer(request.out.as_deref(), "model-predict-interference", &request.format)?;
    let out = out.as_deref();
    let limits = request.limits.checked()?;
    let predictor = load(&model_file(&request.model, INTERFERENCE))?;
    let mut notes = Vec::new();
    let mut pairs = Vec::new();
    let usage = || {
        Usage("name a GPU type and at least two job types, one with --to-measure, or a CSV with --couples".to_owned())
    };
    let mut other = None;
    if let (Some(named), Some(gpu_type)) = (&request.slices, &request.gpu_type) {
        other = Some(on_slices(&predictor, limits, gpu_type, (&request.jobs, named))?);
    } else if let (true, Some(gpu_type)) = (request.together, &request.gpu_type) {
        let jobs: Vec<SharingJob> = request.jobs.iter().map(SharingJob::new).collect();
        if !(2..=MOST_TOGETHER).contains(&jobs.len()) {
            return Err(Usage(format!("name 2 to {MOST_TOGETHER} job types with --together")).into());
        }
        jobs.iter().for_each(|job| predictor.note_unknown(job, &mut notes));
        let group = share::group(&predictor, gpu_type, &jobs, &limits);
        other = Some(SharingAnswer::of_group(&predictor, limits, group));
    } else if let Some(count) = request.to_measure {
        let (Some(gpu_type), [job]) = (&request.gpu_type, request.jobs.as_slice()) else { return Err(usage().into()) };
        let job = SharingJob::new(job);
        predictor.note_unknown(&job, &mut notes);
        let arguments = (predictor.gpu_type(gpu_type), &job);
        other = Some(SharingAnswer::to_measure(&predictor, limits, arguments, count.into(), &mut notes)?);
    } else if let Some(path) = &request.couples {
        for (gpu_type, a, b) in share::read_couples(path)? {
            predictor.note_unknown(&a, &mut notes);
            predictor.note_unknown(&b, &mut notes);
            pairs.push(share::pair(&predictor, &gpu_type, &a, &b, &limits));
        }
    } else {
        let (Some((new, running)), Some(gpu_type)) = (request.jobs.split_first(), &request.gpu_type) else {
            return Err(usage().into());
        };
        if running.is_empty() {
            return Err(usage().into());
        }
        let new = SharingJob::new(new);
        predictor.note_unknown(&new, &mut notes);
        for other in running {
            let other = SharingJob::new(other);
            predictor.note_unknown(&other, &mut notes);
            pairs.push(share::pair(&predictor, gpu_type, &new, &other, &limits));
        }
        share::rank(&mut pairs);
        pairs.truncate(request.top.map_or(usize::MAX, |top| top as usize));
    }
    let result = other.unwrap_or_else(|| SharingAnswer::new(&predictor, limits, pairs));
    if !matches!(request.format, RowsForm::Table) {
        result
            .warnings
            .iter()
            .for_each(|warning| output::say(quiet, &format!("tracecast: {}", warning.replace("**", ""))));
    }
    match request.format {
        RowsForm::Table => {
            let text = report::text::render(&result.report(notes), output::width(out));
            output::text(&text, out)
        }
        RowsForm::Csv => {
            notes.iter().for_each(|note| output::say(quiet, &format!("tracecast: {note}")));
            output::bytes(&result.csv()?, out)
        }
        RowsForm::Json => output::text(&answer::json(&result, "the answer")?, out),
    }
}
