//! `tracecast train utilisation` and `tracecast backtest utilisation`.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args, ValueEnum};
use tracecast_analytics::report::format;
use tracecast_analytics::storage;
use tracecast_predictors::interference::read::{is_profiles, read_profiles};
use tracecast_predictors::interference::table::SharingTable;
use tracecast_predictors::utilisation::answer::UsageAnswer;
use tracecast_predictors::utilisation::history::UsageHistory;
use tracecast_predictors::utilisation::profile::{self, TypeOfJob};
use tracecast_predictors::utilisation::{backtest, held_out};

use crate::args::Reading;
use crate::cmd::answer::{self, Answering};
use crate::cmd::describe;
use crate::early::Replacing;
use crate::progress::Clock;
use crate::{output, source};

/// Why telemetry takes no `--where`.
const TELEMETRY_OF_ALL: &str = "readings of GPUs are joined to all jobs of a cluster, so all are needed";

/// What a job type is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TypeBy {
    /// The name of the job, by which `plan sharing` knows job types
    Name,
    /// The user and the name without its numbers, such as ann/train_#
    UserName,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Example, profiles of the job names of the bundled sample:
  tracecast train utilisation datasets/sample --out profiles.csv")]
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
    let history = UsageHistory::of(&trace)?;
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
  tracecast backtest utilisation datasets/sample
  tracecast backtest utilisation profiles.csv")]
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

/// The table of profiles that a request names, if it is one.
fn table(request: &BacktestUtilisation) -> Result<Option<&Path>> {
    let reading = &request.reading;
    match request.sources.as_slice() {
        [one]
            if reading.reader.is_none() && reading.mapping.is_empty() && one.is_file() && !storage::is_folder(one) =>
        {
            Ok(is_profiles(one)?.then_some(one.as_path()))
        }
        _ => Ok(None),
    }
}

pub(crate) fn backtest(request: &BacktestUtilisation, quiet: bool) -> Result<()> {
    let checked = request.answering.check("backtest-utilisation", &[])?;
    let (title, notes, splits) = if let Some(path) = table(request)? {
        request.reading.needs_all_jobs("a table of profiles holds no jobs")?;
        let mut table = SharingTable::new();
        read_profiles(path, &mut table)?;
        let table = table.sorted();
        let clock = Clock::new(quiet, "fitting and forecasting");
        let splits = held_out::run(&table, request.seed)?;
        drop(clock);
        (path.display().to_string(), table.notes, splits)
    } else {
        let trace = source::open_whole(&request.sources, &request.reading, quiet, TELEMETRY_OF_ALL)?;
        let clock = Clock::new(quiet, "fitting and forecasting");
        let history = UsageHistory::of(&trace)?;
        let splits = backtest::run(&history, request.seed)?;
        drop(clock);
        let mut notes = history.notes;
        notes.extend(trace.warnings());
        (describe::title(&trace, &request.sources), notes, splits)
    };
    let answer = UsageAnswer::new(title, notes, request.seed, splits);
    checked.write(None, true, || answer.report(), || answer::json(&answer, "the answer"))
}
