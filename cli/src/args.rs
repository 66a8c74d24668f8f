//! What can be typed.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use tracecast_analytics::ingest;
use tracecast_analytics::schema::Resource;
use tracecast_analytics::time::{Window, Written, Zone};
use tracecast_predictors::duration::forecast::Model;

use crate::cmd::answer::Answering;
use crate::cmd::audit::Audit;

/// Trace analytics and predictive planning for GPU clusters, offline.
#[derive(Debug, Parser)]
#[command(name = "tracecast", version, about, max_term_width = 100)]
#[command(
    after_help = "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 rows quarantined or a file damaged under --strict, 4 format not recognised."
)]
pub(crate) struct Arguments {
    /// Threads to use (results do not depend on it) [default: all cores]
    #[arg(long, global = true, value_name = "N")]
    pub(crate) threads: Option<NonZeroUsize>,
    /// No progress on stderr
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
    /// What to do
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Say what a trace holds: sizes, runs, waits, states, load, users, VCs, energy …
    Describe(Describe),
    /// Write one self-contained HTML report and its JSON; on the bundled sample without an argument
    Report(Report),
    /// Convert a source to a trace folder (Parquet tables and manifest.json)
    Ingest(Ingest),
    /// Show the quality ledger: what became of every row, and why
    Inspect(Inspect),
    /// Six standard aggregates of a jobs table of any size, streaming, in flat memory
    Rollup(Rollup),
    /// Replay the jobs under another policy or on another cluster: waits, use, causes, fairness
    Simulate(Box<Simulate>),
    /// Account for energy: what it was spent on, whose it is, carbon, cost; signed off by a manifest
    Audit(Box<Audit>),
    /// Learn from a trace how long jobs run
    #[command(subcommand)]
    Train(Train),
    /// Say how long jobs will run, with intervals: for files, Slurm, Prometheus
    Predict(Predict),
    /// Say how many nodes or GPUs the next slots will need
    Forecast(crate::cmd::train_demand::Forecast),
    /// Answer schedulers over HTTP, and learn from what they tell
    Serve(Serve),
    /// Hold predictions against what really happened, beside the baselines
    #[command(subcommand)]
    Backtest(Backtest),
    /// Recommend what to change, with its effect back-tested
    #[command(subcommand)]
    Plan(crate::cmd::plan::Plan),
    /// Generate a complete synthetic trace from a small specification
    Synth(Synth),
    /// List the formats that can be read
    Formats,
    /// Print the JSON Schema of a machine-readable output
    Schema(Schema),
    /// Print shell completions
    Completions {
        /// The shell
        shell: Shell,
    },
}

/// How sources are read.
#[derive(Debug, Default, Args)]
pub(crate) struct Reading {
    /// Reader to use instead of recognising each file (see `tracecast formats`)
    #[arg(long, value_name = "ID", value_parser = reader)]
    pub(crate) reader: Option<String>,
    /// The cluster's time zone: of local times in the source, of times given without an offset, and of times in the answer
    #[arg(long, value_name = "IANA NAME", value_parser = Zone::named)]
    pub(crate) timezone: Option<Zone>,
    /// What CSV or Parquet columns mean; for one source only: SOURCE=TOML
    #[arg(long, value_name = "TOML")]
    pub(crate) mapping: Vec<String>,
    /// Fail if any row has to be quarantined or a file is damaged
    #[arg(long)]
    pub(crate) strict: bool,
    /// How many times its size a compressed JSON document may expand to, beyond 16 MiB
    #[arg(long, value_name = "TIMES", default_value_t = ingest::MOST_EXPANSION, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_expansion: u64,
}

fn reader(id: &str) -> Result<String, &'static str> {
    let known = ingest::readers().iter().any(|reader| reader.id() == id);
    known.then(|| id.to_owned()).ok_or("no such reader; see `tracecast formats`")
}

/// Form of a description.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// Text and tables for a terminal
    Table,
    /// JSON (`tracecast schema` has its form)
    Json,
    /// Markdown
    Markdown,
    /// One self-contained HTML file
    Html,
}

/// Form of a smaller answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Plain {
    /// Text and tables for a terminal
    Table,
    /// JSON
    Json,
}

#[derive(Debug, Args)]
pub(crate) struct Describe {
    /// Files, folders or patterns; or one trace folder
    #[arg(required = true, value_name = "SOURCE")]
    pub(crate) sources: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: Reading,
    /// Form of the answer
    #[arg(long, value_enum, default_value_t = Form::Table)]
    pub(crate) format: Form,
    /// Write the answer to a file instead of stdout
    #[arg(long, short, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Write each chart as SVG and PNG into this folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) charts: Option<PathBuf>,
    /// Write every table of the answer, and the derived columns of each job, as Parquet into this folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) tables: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Report {
    /// Files, folders or patterns; or one trace folder [default: the bundled synthetic sample]
    #[arg(value_name = "SOURCE")]
    pub(crate) sources: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: Reading,
    /// Folder for report.html and report.json
    #[arg(long, short, value_name = "FOLDER", default_value = "tracecast-report")]
    pub(crate) out: PathBuf,
    /// Title of the report [default: from the source]
    #[arg(long)]
    pub(crate) title: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Ingest {
    /// Files, folders or patterns
    #[arg(required = true, value_name = "SOURCE")]
    pub(crate) sources: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: Reading,
    /// The trace folder to write
    #[arg(long, short, value_name = "FOLDER")]
    pub(crate) out: PathBuf,
    /// Replace a trace folder that is already there
    #[arg(long)]
    pub(crate) force: bool,
    /// Write quarantined rows to this file, one JSON object a line
    #[arg(long, value_name = "FILE")]
    pub(crate) quarantine: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Inspect {
    /// Files, folders or patterns; or one trace folder
    #[arg(required = true, value_name = "SOURCE")]
    pub(crate) sources: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: Reading,
    /// Form of the answer
    #[arg(long, value_enum, default_value_t = Plain::Table)]
    pub(crate) format: Plain,
    /// Write quarantined rows to this file, one JSON object a line
    #[arg(long, value_name = "FILE")]
    pub(crate) quarantine: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Rollup {
    /// A trace folder, or a Parquet or CSV file with the columns of the jobs table
    #[arg(value_name = "SOURCE")]
    pub(crate) source: PathBuf,
    /// Form of the answer
    #[arg(long, value_enum, default_value_t = Plain::Table)]
    pub(crate) format: Plain,
    /// Fail if any row has to be quarantined or a file is damaged
    #[arg(long)]
    pub(crate) strict: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Synth {
    /// The specification (see datasets/specs)
    #[arg(value_name = "SPEC")]
    pub(crate) spec: PathBuf,
    /// The trace folder to write
    #[arg(long, short, value_name = "FOLDER")]
    pub(crate) out: PathBuf,
    /// Replace a trace folder that is already there
    #[arg(long)]
    pub(crate) force: bool,
    /// Seed; the same specification and seed give the same bytes
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

#[derive(Debug, Args)]
#[command(after_help = TIMES)]
pub(crate) struct Simulate {
    /// Files, folders or patterns; or one trace folder
    #[arg(required = true, value_name = "SOURCE")]
    pub(crate) sources: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: Reading,
    #[command(flatten)]
    pub(crate) jobs: Jobs,
    #[command(flatten)]
    pub(crate) policy: PolicyArguments,
    #[command(flatten)]
    pub(crate) comparison: ComparisonArguments,
    #[command(flatten)]
    pub(crate) answering: Answering,
    /// Write when and where each job ran (CSV); of several policies under the first
    #[arg(long, value_name = "FILE", help_heading = "Answer")]
    pub(crate) schedule: Option<PathBuf>,
    /// Write each chart as SVG and PNG into this folder
    #[arg(long, value_name = "FOLDER", help_heading = "Answer")]
    pub(crate) charts: Option<PathBuf>,
}

/// Which jobs, on which nodes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Jobs and nodes")]
pub(crate) struct Jobs {
    /// What jobs compete for: gpus, cpus (the processors of a log without GPUs) or nodes [default: as the trace has them]
    #[arg(long, value_name = "WHAT", value_parser = resource)]
    pub(crate) resource: Option<Resource>,
    /// Nodes of each VC [default: as the trace has them]
    #[arg(long, value_name = "TOML")]
    pub(crate) cluster: Option<PathBuf>,
    /// Jobs submitted from this time on; those that run or wait then are taken along [default: from the first]
    #[arg(long, value_name = "TIME", value_parser = Written::parse, allow_hyphen_values = true)]
    pub(crate) from: Option<Written>,
    /// Jobs submitted before this time; a bare date is in to its end [default: to the last]
    #[arg(long, value_name = "TIME", value_parser = Written::parse, allow_hyphen_values = true)]
    pub(crate) to: Option<Written>,
    /// Only jobs that ran at most so long (such as 7d)
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) max_run: Option<i64>,
    /// Only jobs of these VCs
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) vcs: Option<Vec<String>>,
    /// Give each job as many nodes as it had
    #[arg(long)]
    pub(crate) gangs_as_recorded: bool,
    /// Predictions: CSV with job_id and predicted_duration_s
    #[arg(long, value_name = "CSV")]
    pub(crate) predictions: Option<PathBuf>,
    /// Scores for --order score: CSV with job_id and score, lowest first
    #[arg(long, value_name = "CSV")]
    pub(crate) score: Option<PathBuf>,
}

/// The switches of a policy.
#[derive(Debug, Args)]
#[command(next_help_heading = "Policy")]
pub(crate) struct PolicyArguments {
    /// Who is served first: fifo, fewest-gpus, sjf, ljf, srtf, qssf, las, tiresias, gittins, wfp3, f1, unicef, multifactor, fair-share, long-term, finish-time, score [default: as --recorded, else fifo]
    #[arg(long, value_name = "ORDER")]
    pub(crate) order: Option<String>,
    /// How the queue is walked: strict, skip, easy, conservative, slurm [default: as --recorded, else strict]
    #[arg(long, value_name = "SCAN")]
    pub(crate) scan: Option<String>,
    /// Where jobs go: consolidate, first-fit, best-fit, worst-fit, spread, random, fgd, buddy, locality, anywhere [default: consolidate; anywhere for processors and nodes]
    #[arg(long, value_name = "RULE")]
    pub(crate) place: Option<String>,
    /// Whether running jobs may be stopped: never, helios, tiresias, or what it costs for 1, 2-8 and more GPUs (7s,30s,60s) [default: never]
    #[arg(long, value_name = "COST")]
    pub(crate) preempt: Option<String>,
    /// Which duration the scheduler knows: true, requested, predicted [default: as --recorded, else true; with --predictions, predicted for qssf and for backfill]
    #[arg(long, value_name = "WHICH")]
    pub(crate) estimate: Option<String>,
    /// Decide only every so often (such as 60s) [default: whenever something happens]
    #[arg(long, value_name = "TIME")]
    pub(crate) interval: Option<String>,
    /// Jobs a conservative scan looks at [default: all]
    #[arg(long, value_name = "JOBS")]
    pub(crate) depth: Option<u32>,
    /// How often jobs save their progress by themselves, for node failures [default: never]
    #[arg(long, value_name = "TIME")]
    pub(crate) checkpoint: Option<String>,
    /// Between whom fair orders are fair: user, vc [default: user]
    #[arg(long, value_name = "WHO")]
    pub(crate) tenants: Option<String>,
    /// Imitate a published simulator: none, helios [default: none]
    #[arg(long, value_name = "WHOSE")]
    pub(crate) compat: Option<String>,
    /// Seed of what is drawn [default: 1]
    #[arg(long)]
    pub(crate) seed: Option<u64>,
}

/// Several policies at once.
#[derive(Debug, Args)]
#[command(next_help_heading = "Comparison")]
pub(crate) struct ComparisonArguments {
    /// Compare several policies on the same jobs: orders (fifo,sjf,qssf) or a file of scenarios (TOML)
    #[arg(long, value_name = "ORDERS|TOML", conflicts_with = "order")]
    pub(crate) compare: Option<String>,
    /// The policy the cluster had: ORDER, ORDER/SCAN or ORDER/SCAN/ESTIMATE. The replay is checked with it, and each switch that is not given otherwise is replayed as here [default: fifo/strict/true]
    #[arg(long, value_name = "POLICY")]
    pub(crate) recorded: Option<String>,
    /// Run only the i-th of n parts of the scenarios, and write their schedules to --results
    #[arg(long, value_name = "I/N", requires = "results", conflicts_with_all = ["merge", "schedule", "out", "charts", "format"])]
    pub(crate) shard: Option<String>,
    /// Folder for the schedules of a part
    #[arg(long, value_name = "FOLDER", requires = "shard")]
    pub(crate) results: Option<PathBuf>,
    /// Take the schedules from these folders instead of running the scenarios
    #[arg(long, value_name = "FOLDER", num_args = 1..)]
    pub(crate) merge: Option<Vec<PathBuf>>,
}

/// How times are given, for the end of a help.
pub(crate) const TIMES: &str = "\
Times: 2017-10-03 (that whole day), 2017-10-03T12:00, 2017-10-03T12:00:00Z, 2017-10-03T12:00:00+08:00, or seconds since the epoch. \
A time without an offset is in the trace's zone (--timezone). What happens at a beginning counts, what happens at an end does not; \
a bare date ends when that day ends, so that from 2017-10-03 to 2017-10-03 is one day.";

/// The window of `--from` and `--to`, which is in order as far as that can be told before the zone is known.
pub(crate) fn window<'a>(from: &'a Option<Written>, to: &'a Option<Written>) -> anyhow::Result<Window<'a>> {
    Ok(Window::new(["--from", "--to"], from.as_ref(), to.as_ref())?)
}

/// What jobs compete for, by its name.
fn resource(text: &str) -> Result<Resource, String> {
    let known = Resource::ALL.into_iter().find(|resource| resource.id() == text);
    known.ok_or_else(|| format!("there are {}", Resource::ALL.map(Resource::id).join(", ")))
}

/// A length of time, milliseconds.
pub(crate) fn duration(text: &str) -> Result<i64, String> {
    tracecast_planner::replay::scenario::parse_duration(text).map_err(|error| error.to_string())
}

/// What to learn.
#[derive(Debug, Subcommand)]
pub(crate) enum Train {
    /// How long jobs run
    Duration(TrainDuration),
    /// How many nodes or GPUs will be needed
    Demand(crate::cmd::train_demand::TrainDemand),
}

/// What to hold against what happened.
#[derive(Debug, Subcommand)]
pub(crate) enum Backtest {
    /// How long jobs run
    Duration(BacktestDuration),
    /// How many nodes or GPUs will be needed
    Demand(crate::cmd::backtest_demand::BacktestDemand),
}

/// What of a job is not to be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Ignored {
    /// Its VC, queue or partition
    Vc,
    /// Its name
    Name,
    /// Its user
    User,
}

/// Which jobs, and what of them.
#[derive(Debug, Args)]
#[command(next_help_heading = "Learning")]
pub(crate) struct Choosing {
    /// What jobs compete for: gpus, cpus (the processors of a log without GPUs) or nodes [default: as the trace has them]
    #[arg(long, value_name = "WHAT", value_parser = resource)]
    pub(crate) resource: Option<Resource>,
    /// Only jobs whose VC is known
    #[arg(long)]
    pub(crate) known_vc_only: bool,
    /// Do not use these, as where they were filled in afterwards
    #[arg(long, value_enum, value_name = "WHAT", value_delimiter = ',')]
    pub(crate) ignore: Vec<Ignored>,
}

/// What is learned from, and how.
#[derive(Debug, Args)]
#[command(next_help_heading = "Learning")]
pub(crate) struct Learning {
    #[command(flatten)]
    pub(crate) choosing: Choosing,
    /// Trees a model [default: 120]
    #[arg(long, value_name = "N")]
    pub(crate) trees: Option<NonZeroUsize>,
    /// Seed of what is drawn
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

#[derive(Debug, Args)]
#[command(after_help = TIMES)]
pub(crate) struct TrainDuration {
    /// Files, folders or patterns; or one trace folder
    #[arg(required = true, value_name = "SOURCE")]
    pub(crate) sources: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: Reading,
    #[command(flatten)]
    pub(crate) learning: Learning,
    /// Learn only what happened before this time, to predict the rest; a bare date is in to its end
    #[arg(long, value_name = "TIME", value_parser = Written::parse, allow_hyphen_values = true)]
    pub(crate) to: Option<Written>,
    /// The model file to write
    #[arg(long, short, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// Write the trees in XGBoost's JSON into this folder, too
    #[arg(long, value_name = "FOLDER")]
    pub(crate) xgboost: Option<PathBuf>,
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

#[derive(Debug, Args)]
pub(crate) struct Predict {
    /// Files, folders or patterns; or one trace folder: jobs after the training, and jobs still open
    #[arg(required = true, value_name = "SOURCE")]
    pub(crate) sources: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: Reading,
    /// The model file, from `tracecast train duration`
    #[arg(long, short, value_name = "FILE")]
    pub(crate) model: PathBuf,
    #[command(flatten)]
    pub(crate) choosing: Choosing,
    /// Form of the rows
    #[arg(long, value_enum, default_value_t = RowForm::Csv, help_heading = "Answer")]
    pub(crate) format: RowForm,
    /// Write the rows to a file instead of stdout
    #[arg(long, short, value_name = "FILE", help_heading = "Answer")]
    pub(crate) out: Option<PathBuf>,
    /// Write job_submit.lua and its table into this folder
    #[arg(long, value_name = "FOLDER", help_heading = "Answer")]
    pub(crate) slurm: Option<PathBuf>,
    /// Where the table will lie on the controller's host
    #[arg(long, value_name = "PATH", default_value = "/etc/slurm/tracecast-durations.txt", help_heading = "Answer")]
    pub(crate) slurm_table: String,
    /// Let job_submit.lua set the time limit of jobs that have none, where limits held for later jobs of these sources (trains four times)
    #[arg(long, requires = "slurm", help_heading = "Answer")]
    pub(crate) slurm_time_limit: bool,
    /// Write a summary for node_exporter's textfile collector
    #[arg(long, value_name = "FILE", help_heading = "Answer")]
    pub(crate) textfile: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// The model file, from `tracecast train duration`
    #[arg(long, short, value_name = "FILE")]
    pub(crate) model: PathBuf,
    /// File with the token that clients must show
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: PathBuf,
    /// Address and port to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7420")]
    pub(crate) bind: std::net::SocketAddr,
    /// Folder in which what is learned survives a crash; without it nothing is learned
    #[arg(long, value_name = "FOLDER")]
    pub(crate) journal: Option<PathBuf>,
    /// Train again after so many ended jobs [default: never]
    #[arg(long, value_name = "JOBS")]
    pub(crate) retrain_after: Option<std::num::NonZeroU64>,
    /// GPUs of the cluster: jobs of more are refused [default: as the trace that the model was trained on has it, if it says]
    #[arg(long, value_name = "GPUS")]
    pub(crate) cluster_gpus: Option<std::num::NonZeroU32>,
}

#[derive(Debug, Args)]
#[command(after_help = TIMES)]
pub(crate) struct BacktestDuration {
    /// Files, folders or patterns; or one trace folder
    #[arg(required = true, value_name = "SOURCE")]
    pub(crate) sources: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: Reading,
    #[command(flatten)]
    pub(crate) learning: Learning,
    /// Models: running_mean, weighted_mean, shrunk_mean, recent_median, limit, limit_share, qssf, linear, forest, survival, rank, boosted [default: all but linear, forest, rank]; limit and limit_share where jobs have time limits
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = model, help_heading = "Learning")]
    pub(crate) models: Option<Vec<Model>>,
    /// Days between fits
    #[arg(long, value_name = "DAYS", default_value_t = 7, value_parser = clap::value_parser!(i64).range(1..=365), help_heading = "Learning")]
    pub(crate) refit_days: i64,
    /// Nodes of each VC: replays the queue under the predictions, too
    #[arg(long, value_name = "TOML", help_heading = "Queue")]
    pub(crate) cluster: Option<PathBuf>,
    /// Replay jobs submitted from this time on [default: from the first]
    #[arg(long, value_name = "TIME", value_parser = Written::parse, allow_hyphen_values = true, requires = "cluster", help_heading = "Queue")]
    pub(crate) from: Option<Written>,
    /// Replay jobs submitted before this time; a bare date is in to its end [default: to the last]
    #[arg(long, value_name = "TIME", value_parser = Written::parse, allow_hyphen_values = true, requires = "cluster", help_heading = "Queue")]
    pub(crate) to: Option<Written>,
    /// Replay only jobs that ran at most so long (such as 7d)
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "cluster", help_heading = "Queue")]
    pub(crate) max_run: Option<i64>,
    /// Imitate a published simulator: helios
    #[arg(long, value_name = "WHOSE", value_parser = ["helios"], requires = "cluster", help_heading = "Queue")]
    pub(crate) compat: Option<String>,
    #[command(flatten)]
    pub(crate) answering: Answering,
}

fn model(name: &str) -> Result<Model, String> {
    let known = || Model::ALL.map(Model::name).join(", ");
    Model::ALL
        .into_iter()
        .find(|model| model.name() == name)
        .ok_or_else(|| format!("no such model; there are {}", known()))
}

#[derive(Debug, Args)]
pub(crate) struct Schema {
    /// Which output
    #[arg(value_enum)]
    pub(crate) of: SchemaOf,
}

/// Machine-readable outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SchemaOf {
    /// `describe --format json`
    Describe,
    /// `inspect --format json`
    Inspect,
    /// `report.json`
    Report,
    /// `rollup --format json`
    Rollup,
    /// `simulate --format json`
    Simulate,
    /// `plan power --format json`
    PlanPower,
    /// `backtest duration --format json`
    BacktestDuration,
    /// `backtest demand --format json`
    BacktestDemand,
    /// A line of `predict --format jsonl`
    Predictions,
    /// `forecast --format json`
    DemandForecast,
    /// `audit --format json`
    Audit,
    /// `audit --manifest`
    AuditManifest,
    /// `manifest.json` of a trace folder
    Manifest,
    /// Columns of the tables in a trace folder
    Tables,
}
