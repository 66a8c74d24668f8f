//! Commands, and the file that answers each: one file a command, its arguments beside it.

mod allocation;
mod answer;
mod as_run;
mod audit;
mod backtest;
mod backtest_demand;
mod backtest_interference;
mod backtest_start;
mod bill;
mod burst;
mod capacity;
mod cloud;
mod cluster;
mod config;
mod decide;
mod defer;
mod describe;
mod emitting;
mod fleet;
mod formats;
mod ingest;
mod inspect;
mod instances;
mod manual;
mod mig;
mod model;
mod models;
mod plan;
mod plan_jobs;
mod power;
mod predict;
mod predict_interference;
mod query;
mod query_standard;
mod questions;
mod queues;
mod report;
mod schema;
mod serve;
mod serving;
mod sharing;
mod simulate;
mod simulate_sharing;
mod site;
mod spot;
mod spot_traces;
mod synth;
mod train;
mod train_all;
mod train_demand;
mod train_interference;
mod trained;
mod utilisation;
mod when;
mod why;

use std::num::NonZeroUsize;

use anyhow::Result;
use clap::{Parser, Subcommand};
use clap_complete::Shell;

use crate::args::up_to;
use crate::output;
use crate::settings::Settings;

/// Trace analytics and predictive planning for GPU clusters, offline.
#[derive(Debug, Parser)]
#[command(name = "tracecast", version, about, max_term_width = 100)]
#[command(after_help = "\
Which command answers which question:
  tracecast

Exit codes:
  0  done
  1  failed
  2  wrong usage
  3  rows were quarantined or a file is damaged, and --strict was given
  4  the format was not recognised
  5  too little data for the question")]
pub(crate) struct Arguments {
    /// Number of threads to use, which does not change the results [default: all cores]
    #[arg(long, global = true, value_name = "N", value_parser = up_to::<1024>)]
    pub(crate) threads: Option<NonZeroUsize>,
    /// Write no progress to stderr; warnings still appear
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
    /// What to do; nothing to see which command answers which question
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Say what a trace holds: job sizes, run times, waits, end states, load, users, VCs, energy
    Describe(describe::Describe),
    /// Write a report on a trace as one self-contained HTML file, and the same as JSON
    ///
    /// The report opens with the changes that are worth making. It also says what the trace holds, where the energy went, which nodes
    /// could sleep, and what one pool of nodes would change.
    Report(report::Report),
    /// Convert a source to a trace folder (Parquet tables and manifest.json)
    ///
    /// The other commands read a trace folder as they read the source.
    Ingest(ingest::Ingest),
    /// Show the quality ledger: how many rows were kept, repaired or quarantined, and why
    Inspect(inspect::Inspect),
    /// Ask a question in SQL about jobs, nodes and samples, and about files of your own
    Query(query::Query),
    /// Replay the jobs of a trace under another scheduling policy or on another cluster
    ///
    /// The answer gives waits, job completion times, use of the GPUs and fairness, and says why jobs waited. First of all it replays the
    /// policy that the cluster had, and states how far this replay is from the recorded starts.
    Simulate(Box<simulate::Simulate>),
    /// Write the cluster that a source records as a cluster file (TOML), to change it and replay on it
    ///
    /// The file has the nodes and GPU types of each VC, and the quotas of VCs that share nodes.
    /// `simulate`, `plan queues`, `plan nodes`, `plan power` and other commands take it as --site.
    /// What the source does not say stands in comments. If the source records no nodes at all, they
    /// are inferred
    /// from what ran at once, and a comment says so.
    Cluster(cluster::Cluster),
    /// Account for energy: where it went, its carbon and its cost, with a manifest that others can verify
    Audit(Box<audit::Audit>),
    /// Train, apply, test and list models of run times, demand, sharing, utilisation and spot
    #[command(
        subcommand,
        after_help = "\
Example, two simple models of run times on the bundled sample:
  tracecast model backtest duration datasets/sample --methods running_mean,recent_median"
    )]
    Model(model::Model),
    /// Recommend what to do from now on, and test the recommendation on later days of the record
    #[command(
        subcommand,
        after_help = "\
Example, which nodes of the bundled sample can sleep:
  tracecast plan power datasets/sample"
    )]
    Plan(plan::Plan),
    /// Charge accounts for what their jobs held and used, to the cent
    ///
    /// Amounts are by the rates of a file. What no job held is spread by its rule, and all lines add up to
    /// the total, to an invoice if one is named.
    Bill(Box<bill::BillOf>),
    /// Say when a waiting job will start, from the cluster as it is now
    ///
    /// The cluster is replayed forward from dumps of its scheduler, again and again, with run times drawn from what jobs of the same user and size took.
    When(Box<when::When>),
    /// Say what keeps a waiting job from starting now, and what would start it sooner
    ///
    /// One thing after the other is taken away from the cluster as it is, and what is left is replayed: the
    /// cause is what alone starts the job.
    Why(Box<why::Why>),
    /// Serve predictions to schedulers over HTTP, and learn from the events that they send
    Serve(serve::Serve),
    /// Ask a saved plan what to do in the next slot
    #[command(subcommand, after_help = decide::EXAMPLE)]
    Decide(decide::Decide),
    /// Generate a complete synthetic trace from a small specification
    Synth(synth::Synth),
    /// List the formats that tracecast can read
    #[command(after_help = "\
Example, the readers of Slurm accounting:
  tracecast formats | grep Slurm")]
    Formats,
    /// Print the JSON Schema of what a command writes, or an example of a file that it reads
    Schema(schema::Schema),
    /// Show which options are set by a file tracecast.toml or by the environment
    Config(config::Config),
    /// Write the man pages and the completions of all shells into a folder
    Manual(manual::Manual),
    /// Print a script that completes tracecast commands in a shell
    #[command(after_help = "\
Example, for the current session of bash:
  source <(tracecast completions bash)")]
    Completions {
        /// Shell that the script is for
        shell: Shell,
    },
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments, settings: &Settings) -> Result<()> {
    let quiet = arguments.quiet;
    let Some(command) = &arguments.command else { return questions::run() };
    match command {
        Command::Describe(request) => describe::run(request, quiet),
        Command::Report(request) => report::run(request, quiet),
        Command::Ingest(request) => ingest::run(request, quiet),
        Command::Inspect(request) => inspect::run(request, quiet),
        Command::Query(request) => query::run(request, arguments.threads, quiet),
        Command::Simulate(request) => simulate::run(request, quiet),
        Command::Cluster(request) => cluster::run(request, quiet),
        Command::Audit(request) => audit::run(request, quiet),
        Command::Model(model) => model::run(model, quiet),
        Command::Serve(request) => serve::run(request, quiet),
        Command::Bill(request) => bill::run(request, quiet),
        Command::When(request) => when::run(request, quiet),
        Command::Why(request) => why::run(request, quiet),
        Command::Plan(plan) => plan::run(plan, quiet),
        Command::Decide(decide::Decide::Power(request)) => decide::run(request),
        Command::Synth(request) => synth::run(request, quiet),
        Command::Formats => formats::run(),
        Command::Schema(request) => schema::run(request),
        Command::Config(request) => config::run(request, settings),
        Command::Manual(request) => manual::run(request, quiet),
        Command::Completions { shell } => output::bytes(&manual::completions(*shell), None),
    }
}
