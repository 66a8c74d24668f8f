//! What can be typed, and which file answers it: one file a command, its arguments beside it.

mod answer;
mod audit;
mod backtest;
mod backtest_demand;
mod backtest_power;
mod decide;
mod describe;
mod formats;
mod ingest;
mod inspect;
mod plan;
mod predict;
mod report;
mod rollup;
mod schema;
mod serve;
mod simulate;
mod synth;
mod train;
mod train_demand;

use std::num::NonZeroUsize;

use anyhow::Result;
use clap::{CommandFactory as _, Parser, Subcommand};
use clap_complete::Shell;

use crate::output;

/// Trace analytics and predictive planning for GPU clusters, offline.
#[derive(Debug, Parser)]
#[command(name = "tracecast", version, about, max_term_width = 100)]
#[command(
    after_help = "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 rows quarantined or a file damaged under --strict, 4 format not recognised, 5 too little data for what was asked."
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
    Describe(describe::Describe),
    /// Write one self-contained HTML report and its JSON; on the bundled sample without an argument
    Report(report::Report),
    /// Convert a source to a trace folder (Parquet tables and manifest.json)
    Ingest(ingest::Ingest),
    /// Show the quality ledger: what became of every row, and why
    Inspect(inspect::Inspect),
    /// Six standard aggregates of a jobs table of any size, streaming, in flat memory
    Rollup(rollup::Rollup),
    /// Replay the jobs under another policy or on another cluster: waits, use, causes, fairness
    Simulate(Box<simulate::Simulate>),
    /// Account for energy: what it was spent on, whose it is, carbon, cost; signed off by a manifest
    Audit(Box<audit::Audit>),
    /// Learn from a trace how long jobs run
    #[command(subcommand)]
    Train(Train),
    /// Say how long jobs will run, with intervals: for files, Slurm, Prometheus
    Predict(predict::Predict),
    /// Say how many nodes or GPUs the next slots will need
    Forecast(train_demand::Forecast),
    /// Answer schedulers over HTTP, and learn from what they tell
    Serve(serve::Serve),
    /// Hold predictions against what really happened, beside the baselines
    #[command(subcommand)]
    Backtest(Backtest),
    /// Recommend what to change, with its effect back-tested
    #[command(subcommand)]
    Plan(plan::Plan),
    /// Ask a saved plan what to do now
    #[command(subcommand)]
    Decide(decide::Decide),
    /// Generate a complete synthetic trace from a small specification
    Synth(synth::Synth),
    /// List the formats that can be read
    Formats,
    /// Print the JSON Schema of a machine-readable output
    Schema(schema::Schema),
    /// Print shell completions
    Completions {
        /// The shell
        shell: Shell,
    },
}

/// What to learn.
#[derive(Debug, Subcommand)]
pub(crate) enum Train {
    /// How long jobs run
    Duration(train::TrainDuration),
    /// How many nodes or GPUs will be needed
    Demand(train_demand::TrainDemand),
}

/// What to hold against what happened.
#[derive(Debug, Subcommand)]
pub(crate) enum Backtest {
    /// How long jobs run
    Duration(backtest::BacktestDuration),
    /// How many nodes or GPUs will be needed
    Demand(backtest_demand::BacktestDemand),
    /// Promises of power plans: kept or not, on every window that the data allow
    Power(Box<backtest_power::BacktestPower>),
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let quiet = arguments.quiet;
    match &arguments.command {
        Command::Describe(request) => describe::run(request, quiet),
        Command::Report(request) => report::run(request, quiet),
        Command::Ingest(request) => ingest::run(request, quiet),
        Command::Inspect(request) => inspect::run(request, quiet),
        Command::Rollup(request) => rollup::run(request, arguments.threads),
        Command::Simulate(request) => simulate::run(request, quiet),
        Command::Audit(request) => audit::run(request, quiet),
        Command::Train(Train::Duration(request)) => train::run(request, quiet),
        Command::Train(Train::Demand(request)) => train_demand::run(request, quiet),
        Command::Forecast(request) => train_demand::forecast(request, quiet),
        Command::Predict(request) => predict::run(request, quiet),
        Command::Serve(request) => serve::run(request, quiet),
        Command::Backtest(Backtest::Duration(request)) => backtest::run(request, quiet),
        Command::Backtest(Backtest::Demand(request)) => backtest_demand::run(request, quiet),
        Command::Backtest(Backtest::Power(request)) => backtest_power::run(request, quiet),
        Command::Plan(plan::Plan::Power(request)) => plan::run(request, quiet),
        Command::Decide(decide::Decide::Power(request)) => decide::run(request),
        Command::Synth(request) => synth::run(request, quiet),
        Command::Formats => formats::run(),
        Command::Schema(request) => schema::run(request.of),
        Command::Completions { shell } => {
            // Into memory first: the generator panics where it cannot write.
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Arguments::command(), "tracecast", &mut script);
            output::bytes(&script, None)
        }
    }
}
