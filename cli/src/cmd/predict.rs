//! `tracecast model predict duration`.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use tracecast_analytics::report::format;
use tracecast_analytics::schema::Resource;
use tracecast_analytics::time::Zone;
use tracecast_predictors::duration::apply::apply;
use tracecast_predictors::duration::backtest::BacktestOptions;
use tracecast_predictors::duration::predictor::Predictor;
use tracecast_predictors::output::{self as rows, PredictionRows};
use tracecast_predictors::slurm::{self, Comment, LimitTest, ScriptOptions, TimeLimit};
use tracecast_predictors::timeline::Timeline;

use crate::args::{Between, Reading, TIMES};
use crate::cmd::models::{DURATION, model_file};
use crate::cmd::train::{self, Choosing};
use crate::early::{self, Replacing};
use crate::progress::Clock;
use crate::{output, source};

/// Example for the end of the help.
const EXAMPLE: &str = "\
Example, a model of the bundled sample up to a day, and predictions for the later jobs:
  tracecast model train duration datasets/sample --to 2024-03-24 --trees 20 --out past.model
  tracecast model predict duration datasets/sample --model past.model --out predictions.csv";

#[derive(Debug, Args)]
#[command(after_help = format!("{EXAMPLE}\n\n{TIMES}"))]
pub(crate) struct PredictDuration {
    /// Trace with the jobs to predict: files, folders or patterns, or a trace folder
    ///
    /// Predictions are made for jobs that had not ended when the training data end, and for jobs that were submitted later.
    #[arg(required = true, value_name = "SOURCE")]
    pub(crate) sources: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: Reading,
    #[command(flatten)]
    pub(crate) between: Between,
    /// Model file that `tracecast model train duration` wrote, or the folder of all trained models
    #[arg(long, short, visible_alias = "models", value_name = "FILE|FOLDER")]
    pub(crate) model: PathBuf,
    #[command(flatten)]
    pub(crate) choosing: Choosing,
    /// Form in which the predictions are written, one row a job
    #[arg(long, value_enum, default_value_t = RowForm::Csv, help_heading = "Answer")]
    pub(crate) format: RowForm,
    /// Write the predictions to a file instead of stdout; FOLDER/ writes it there under the name of the command
    #[arg(long, short, value_name = "FILE|FOLDER/", help_heading = "Answer")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) replacing: Replacing,
    /// Write the Slurm plugin job_submit.lua and its table of predictions into this folder
    #[arg(long, value_name = "FOLDER", help_heading = "Answer")]
    pub(crate) slurm: Option<PathBuf>,
    /// Path at which job_submit.lua will find its table on the host of the Slurm controller
    #[arg(long, value_name = "PATH", default_value = "/etc/slurm/tracecast-durations.txt", help_heading = "Answer")]
    pub(crate) slurm_table: String,
    /// Let job_submit.lua set a time limit for jobs that have none
    ///
    /// Only those entries of the table set a limit that were tested on enough later jobs of these sources and would have killed few of
    /// them. The test trains four models.
    #[arg(long, requires = "slurm", help_heading = "Answer")]
    pub(crate) slurm_time_limit: bool,
    /// Write a summary for Prometheus to this file, for the textfile collector of node_exporter
    #[arg(long, value_name = "FILE", help_heading = "Answer")]
    pub(crate) textfile: Option<PathBuf>,
}

/// Form of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RowForm {
    /// CSV, as `simulate --predictions` reads it
    Csv,
    /// One JSON object a line
    Jsonl,
    /// Parquet
    Parquet,
    /// Arrow IPC file
    Arrow,
}

/// Names of the files for Slurm.
const TABLE: &str = "tracecast-durations.txt";
const SCRIPT: &str = "job_submit.lua";
/// File with the results of the back-test of time limits.
const LIMITS: &str = "tracecast-limits.json";

/// The predictor in a file.
pub(crate) fn load(path: &Path) -> Result<Predictor> {
    let bytes = tracecast_predictors::read_model(path)?;
    Ok(Predictor::from_bytes(&path.display().to_string(), &bytes)?)
}

/// Path of the plugin for Slurm, unless something of the site's own lies there.
fn script(request: &PredictDuration, folder: &Path) -> Result<PathBuf> {
    if !Path::new(&request.slurm_table).is_absolute() {
        bail!(
            "--slurm-table {}: the path is relative, but slurmctld runs in a folder of its own; write a path that begins with /",
            request.slurm_table
        );
    }
    let script = folder.join(SCRIPT);
    let begins = |file: File| {
        let mut bytes = Vec::new();
        file.take(slurm::SCRIPT_BEGINS.len() as u64).read_to_end(&mut bytes).map(|_| bytes)
    };
    if File::open(&script).and_then(begins).is_ok_and(|result| result != slurm::SCRIPT_BEGINS.as_bytes()) {
        bail!(
            "{} is a plugin of your own and is not replaced; name another folder, and call the new script from your plugin (the last lines of the new script say how)",
            script.display()
        );
    }
    Ok(script)
}

pub(crate) fn run(request: &PredictDuration, quiet: bool) -> Result<()> {
    request.between.window()?;
    let out = request.replacing.answer(request.out.as_deref(), "model-predict-duration", &request.format)?;
    // Whoever reads this file expects it to be written again and again.
    Replacing { force: true }.files([&request.textfile])?;
    early::apart([&out, &request.textfile])?;
    if let Some(folder) = &request.slurm {
        // Slurm's own, where the table is brought up to date.
        early::writable_folder(folder)?;
    }
    let script = request.slurm.as_ref().map(|folder| script(request, folder)).transpose()?;
    let mut predictor = load(&model_file(&request.model, DURATION))?;
    let trace = source::open_between(&request.sources, &request.reading, &request.between, None, quiet)?;
    let timeline = Timeline::new(&trace, train::which(&request.choosing))?;
    if timeline.resource != Resource::Gpus {
        output::say(
            quiet,
            &format!("tracecast: jobs compete for {}; --resource says otherwise", timeline.resource.many()),
        );
    }
    let trained = predictor.trained().clone();
    let clock = Clock::new(quiet, "predicting");
    let applied = apply(&mut predictor, &timeline)?;
    drop(clock);
    output::say(
        quiet,
        &format!(
            "tracecast: {} predicted, of which {} were open when the training data ended; {} had ended by then and get no prediction",
            format::counted(applied.predictions.len() as u64, "job", "jobs"),
            format::count(applied.open as u64),
            format::count(applied.known as u64)
        ),
    );
    if applied.refused > 0 {
        let events = format::counted(applied.refused as u64, "event was", "events were");
        output::say(
            quiet,
            &format!("tracecast: {events} refused and not learned from, as their jobs appear twice or are unknown"),
        );
    }
    if let Some(path) = &request.textfile {
        output::write(path, rows::prometheus(&applied, &trained).as_bytes())?;
    }
    if let (Some(folder), Some(script)) = (&request.slurm, script) {
        let mut entries = slurm::entries(&predictor, &timeline)?;
        let limit = TimeLimit::default();
        if request.slurm_time_limit {
            output::say(quiet, "tracecast: testing time limits on the later jobs of these sources …");
            let options = BacktestOptions { settings: trained.settings, ..BacktestOptions::default() };
            let test = slurm::back_test(&mut entries, &timeline, &options, &limit)?;
            output::say(quiet, &format!("tracecast: {}", told(&test, &limit)));
            let mut notes = serde_json::to_string_pretty(&test)?;
            notes.push('\n');
            output::write(&folder.join(LIMITS), notes.as_bytes())?;
        }
        output::write(&folder.join(TABLE), &slurm::write_table(&entries))?;
        let options = ScriptOptions {
            table_path: request.slurm_table.clone(),
            comment: Comment::Admin,
            time_limit: request.slurm_time_limit.then_some(limit),
            ..ScriptOptions::default()
        };
        output::write(&script, slurm::script(&options).as_bytes())?;
        output::say(
            quiet,
            &format!("tracecast: {} entries written to {}", format::count(entries.len() as u64), folder.display()),
        );
    }
    let rows = PredictionRows { applied: &applied, trained: &trained, zone: &Zone::named(&trace.zone)? };
    let bytes = match request.format {
        RowForm::Csv => rows.csv()?,
        RowForm::Jsonl => rows.json_lines()?,
        RowForm::Parquet => rows.parquet()?,
        RowForm::Arrow => rows.arrow_ipc()?,
    };
    output::bytes(&bytes, out.as_deref())
}

/// Results of the test of limits, in words.
fn told(test: &LimitTest, limit: &TimeLimit) -> String {
    let most = format::percent(limit.most_killed);
    let Some(share) = test.killed_share() else {
        return format!(
            "no time limit is set: of {} tested, no entry had limits that held for enough later jobs (at most {most} killed of at least {})",
            format::counted(test.tested, "job", "jobs"),
            limit.least_tested
        );
    };
    let killed = format!(
        "of the last {} without a limit of their own, {} would have been given one by entries that had passed before, and {} of these ({}) would have been killed",
        format::counted(test.last, "job", "jobs"),
        format::count(test.limited),
        format::count(test.killed),
        format::percent(share)
    );
    if test.entries == 0 {
        format!("no time limit is set: {killed}; at most {most} may be")
    } else {
        format!("{} a time limit: {killed}", format::counted(test.entries as u64, "entry sets", "entries set"))
    }
}
