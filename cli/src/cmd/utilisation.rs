//! `tracecast model train utilisation`, `tracecast model predict utilisation` and `tracecast model
//! backtest utilisation`.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args, ValueEnum};
use tracecast_analytics::report::{self, format};
use tracecast_analytics::storage;
use tracecast_predictors::interference::read::{is_profiles, read_measured};
use tracecast_predictors::interference::table::SharingTable;
use tracecast_predictors::utilisation::answer::UsageAnswer;
use tracecast_predictors::utilisation::history::UsageHistory;
use tracecast_predictors::utilisation::prediction::UsagePrediction;
use tracecast_predictors::utilisation::profile::{self, TypeOfJob};
use tracecast_predictors::utilisation::{asked, backtest, forecast, held_out};

use crate::args::{Reading, RowsForm};
use crate::cmd::answer::{self, Answering};
use crate::cmd::describe;
use crate::early::{self, Replacing};
use crate::exit::Usage;
use crate::progress::Clock;
use crate::{output, source};

/// Why telemetry takes no `--where`.
const TELEMETRY_OF_ALL: &str = "readings of GPUs are joined to all jobs of a cluster, so all are needed";

/// Definition of a job type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TypeBy {
    /// The name of the job, by which `plan share couples` knows job types
    Name,
    /// The user and the name without its numbers, such as ann/train_#
    UserName,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Example, profiles of the job names of the bundled sample:
  tracecast model train utilisation datasets/sample --out profiles.csv")]
pub(crate) struct TrainUtilisation {
    /// Trace with readings of GPUs: files, folders or patterns, or a trace folder that `tracecast ingest` wrote
    #[arg(required = true, value_name = "SOURCE")]
    pub(crate) sources: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: Reading,
    /// What a job type is
    #[arg(long, value_enum, value_name = "WHAT", default_value = "name")]
    pub(crate) by: TypeBy,
    /// File of profiles (CSV) to write
    #[arg(long, short, value_name = "FILE")]
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) replacing: Replacing,
}

pub(crate) fn train(request: &TrainUtilisation, quiet: bool) -> Result<()> {
    request.replacing.file(&request.out)?;
    let trace = source::open_whole(&request.sources, &request.reading, quiet, TELEMETRY_OF_ALL)?;
    let clock = Clock::new(quiet, "joining readings to jobs");
    let history = UsageHistory::new(&trace)?;
    drop(clock);
    for note in &history.notes {
        output::say(quiet, &format!("tracecast: {note}"));
    }
    let by = match request.by {
        TypeBy::Name => TypeOfJob::Name,
        TypeBy::UserName => TypeOfJob::UserName,
    };
    let (types, nameless) = profile::job_types(&history, by)?;
    output::write(&request.out, profile::csv(&types)?.as_bytes())?;
    let without = match nameless {
        0 => String::new(),
        some => format!("; {} of no known type left out", format::counted(some as u64, "job is", "jobs are")),
    };
    output::say(
        quiet,
        &format!(
            "tracecast: {} of {} with telemetry, written to {}{without}",
            format::counted(types.len() as u64, "profile", "profiles"),
            format::counted(history.jobs.len() as u64, "job", "jobs"),
            request.out.display()
        ),
    );
    Ok(())
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples, the jobs of the bundled sample in order of time, and a table of profiles with each family of models left out in turn:
  tracecast model backtest utilisation datasets/sample
  tracecast model backtest utilisation profiles.csv")]
pub(crate) struct BacktestUtilisation {
    /// Trace with readings of GPUs (files, folders or patterns), or one CSV of profiles
    ///
    /// The columns of a CSV of profiles are gpu_type, job, family and any of the quantities in the guide.
    #[arg(required = true, value_name = "SOURCE|PROFILES")]
    pub(crate) sources: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: Reading,
    /// Seed of the random choices: the same seed gives the same answer
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) answering: Answering,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples, job types that nobody has run, from a table of profiles, and the jobs that wait at the end of a record:
  tracecast model predict utilisation profiles.csv --jobs new.csv
  tracecast model predict utilisation accounting.txt dcgm.prom")]
pub(crate) struct PredictUtilisation {
    /// One CSV of profiles, or a trace with readings of GPUs (files, folders or patterns)
    ///
    /// `model train utilisation` writes profiles. Of a trace, jobs that wait when the record ends
    /// are forecast from the readings of earlier jobs.
    #[arg(required = true, value_name = "PROFILES|SOURCE")]
    pub(crate) sources: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: Reading,
    /// CSV of what to forecast: job types for a table of profiles, else jobs [default: the jobs that wait]
    ///
    /// Of job types it has the columns gpu_type and job, and where known family, batch, flops, parameters and precision_bits. Of jobs it has the
    /// column name, and where known user, gpus, cpus, limit_s and job_id. Where the user is not known, all jobs of the name count.
    #[arg(long, value_name = "CSV")]
    pub(crate) jobs: Option<PathBuf>,
    /// Seed of the random choices: the same seed gives the same answer
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Form in which the answer is written
    #[arg(long, value_enum, default_value_t = RowsForm::Table, help_heading = "Answer")]
    pub(crate) format: RowsForm,
    /// Write the answer to a file instead of stdout; FOLDER/ writes it there under the name of the command
    #[arg(long, short, value_name = "FILE|FOLDER/", help_heading = "Answer")]
    pub(crate) out: Option<PathBuf>,
    /// Also write the table of profiles with the forecasts added (CSV), which `plan share couples`
    /// and `plan share mig` take as --profiles
    ///
    /// Forecasts are the expected utilisation, and the 90 % quantile of the memory. What was measured stays as it was. A column names what is a
    /// forecast, and commands that take the table say so.
    #[arg(long, value_name = "FILE", requires = "jobs", help_heading = "Answer")]
    pub(crate) save_profiles: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) replacing: Replacing,
}

pub(crate) fn predict(request: &PredictUtilisation, quiet: bool) -> Result<()> {
    let out = request.replacing.answer(request.out.as_deref(), "model-predict-utilisation", &request.format)?;
    request.replacing.files([&request.save_profiles])?;
    early::apart([&out, &request.save_profiles])?;
    let answer = if let Some(path) = profiles(&request.sources, &request.reading)? {
        let Some(jobs) = &request.jobs else {
            let what = "name the job types to forecast with --jobs: a CSV with the columns gpu_type and job, and where known family and batch";
            return Err(Usage(what.to_owned()).into());
        };
        let table = read_table(path, &request.reading)?;
        let (asked, notes) = asked::read_types(jobs)?;
        let clock = Clock::new(quiet, "choosing models and forecasting");
        let said = forecast::of_types(&table, &asked, request.seed)?;
        drop(clock);
        let notes = table.notes.iter().cloned().chain(notes).collect();
        let answer = UsagePrediction::of_types(path.display().to_string(), notes, request.seed, &table, &asked, said);
        if let Some(path) = &request.save_profiles {
            output::write(path, &answer.profiles(&table, &asked)?)?;
        }
        answer
    } else {
        if request.save_profiles.is_some() {
            let what = "--save-profiles is of job types: name a table of profiles in place of the trace (`model train utilisation` writes one)";
            return Err(Usage(what.to_owned()).into());
        }
        let trace = source::open_whole(&request.sources, &request.reading, quiet, TELEMETRY_OF_ALL)?;
        let clock = Clock::new(quiet, "choosing models and forecasting");
        let history = UsageHistory::new(&trace)?;
        let (jobs, mut notes) = match &request.jobs {
            Some(path) => asked::read_jobs(path)?,
            None => (asked::waiting(&history)?.to_vec(), Vec::new()),
        };
        let said = forecast::of_jobs(&history, &jobs, request.seed)?;
        drop(clock);
        notes.extend(history.notes);
        notes.extend(trace.warnings());
        UsagePrediction::of_jobs(describe::title(&trace, &request.sources), notes, request.seed, &jobs, said)
    };
    match request.format {
        RowsForm::Table => {
            output::text(&report::text::render(&answer.report(), output::width(out.as_deref())), out.as_deref())
        }
        RowsForm::Csv => {
            answer.notes.iter().for_each(|note| output::say(quiet, &format!("tracecast: {note}")));
            output::bytes(&answer.csv()?, out.as_deref())
        }
        RowsForm::Json => output::text(&answer::json(&answer, "the answer")?, out.as_deref()),
    }
}

/// The table of profiles that a request names, if it is one.
fn profiles<'a>(sources: &'a [PathBuf], reading: &Reading) -> Result<Option<&'a Path>> {
    match sources {
        [one]
            if reading.reader.is_none() && reading.mapping.is_empty() && one.is_file() && !storage::is_folder(one) =>
        {
            Ok(is_profiles(one)?.then_some(one.as_path()))
        }
        _ => Ok(None),
    }
}

/// Reads a table of profiles.
fn read_table(path: &Path, reading: &Reading) -> Result<SharingTable> {
    reading.reads_no_trace("a table of profiles holds no jobs; the option is of a trace")?;
    let mut table = SharingTable::new();
    read_measured(path, &mut table)?;
    Ok(table.sorted())
}

pub(crate) fn backtest(request: &BacktestUtilisation, quiet: bool) -> Result<()> {
    let checked = request.answering.check("model-backtest-utilisation", &[])?;
    let (title, notes, splits) = if let Some(path) = profiles(&request.sources, &request.reading)? {
        let table = read_table(path, &request.reading)?;
        let clock = Clock::new(quiet, "fitting and forecasting");
        let splits = held_out::run(&table, request.seed)?;
        drop(clock);
        (path.display().to_string(), table.notes, splits)
    } else {
        let trace = source::open_whole(&request.sources, &request.reading, quiet, TELEMETRY_OF_ALL)?;
        let clock = Clock::new(quiet, "fitting and forecasting");
        let history = UsageHistory::new(&trace)?;
        let splits = backtest::run(&history, request.seed)?;
        drop(clock);
        let mut notes = history.notes;
        notes.extend(trace.warnings());
        (describe::title(&trace, &request.sources), notes, splits)
    };
    let answer = UsageAnswer::new(title, notes, request.seed, splits);
    checked.write(true, || answer.report(), || answer::json(&answer, "the answer"))
}
