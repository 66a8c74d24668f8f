//! What can be typed, and which file answers it: one file a command, its arguments beside it.

mod allocation;
mod answer;
mod as_run;
mod audit;
mod backtest;
mod backtest_demand;
mod backtest_interference;
mod backtest_power;
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
mod plan;
mod plan_jobs;
mod predict;
mod predict_interference;
mod query;
mod query_standard;
mod queues;
mod report;
mod schema;
mod serve;
mod serving;
mod sharing;
mod simulate;
mod simulate_sharing;
mod simulate_site;
mod spot;
mod spot_traces;
mod synth;
mod train;
mod train_demand;
mod train_interference;
mod utilisation;

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
Example, a report on the bundled sample:
  tracecast report datasets/sample

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
    /// What to do
    #[command(subcommand)]
    pub(crate) command: Command,
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
    /// The file has the nodes and GPU types of each VC, and the quotas of VCs that share nodes. `simulate`, `plan queues`, `plan capacity`, `plan power` and
    /// other commands take it as --cluster. What the source does not say stands in comments. If the source records no nodes at all, they are inferred
    /// from what ran at once, and a comment says so.
    Cluster(cluster::Cluster),
    /// Account for energy: where it went, its carbon and its cost, with a manifest that others can verify
    Audit(Box<audit::Audit>),
    /// Train a model of run times, of demand, of sharing, or of spot instances, or write what telemetry knows of job types
    #[command(
        subcommand,
        after_help = "\
Example, a model of run times from the bundled sample:
  tracecast train duration datasets/sample --trees 20 --out sample.model"
    )]
    Train(Train),
    /// Predict how long jobs will run, how much two jobs slow each other, how much of a GPU jobs use, or whether spot instances will be there
    ///
    /// The predictions are written as rows, and on request as a table for Slurm and as a summary for Prometheus.
    Predict(predict::Predict),
    /// Forecast how many nodes or GPUs the next slots will need
    Forecast(train_demand::Forecast),
    /// Serve predictions to schedulers over HTTP, and learn from the events that they send
    Serve(serve::Serve),
    /// Compare predictions with what really happened, beside simple baselines
    #[command(
        subcommand,
        after_help = "\
Example, two simple models of run times on the bundled sample:
  tracecast backtest duration datasets/sample --models running_mean,recent_median"
    )]
    Backtest(Backtest),
    /// Recommend what to do from now on, and test the recommendation on later days of the record
    ///
    /// There are plans of nodes that sleep, of the nodes that are needed, of queues, of jobs that share GPUs, of rented fleets, of jobs that wait for nodes of your own or go to the cloud, of replicas that serve requests, and of spot instances.
    #[command(
        subcommand,
        after_help = "\
Example, which nodes of the bundled sample can sleep:
  tracecast plan power datasets/sample"
    )]
    Plan(plan::Plan),
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
    /// Print the JSON Schema of what a command writes or reads
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

/// What to learn.
#[derive(Debug, Subcommand)]
pub(crate) enum Train {
    /// Train a model of how long jobs run
    Duration(train::TrainDuration),
    /// Train a model of how many nodes or GPUs will be needed
    Demand(train_demand::TrainDemand),
    /// Train a model of how much jobs slow each other that share a GPU
    Interference(train_interference::TrainInterference),
    /// Train a model of whether spot instances will be there, and say what it knows
    ///
    /// It says how long spot lasts in each zone, when in the week it is worst, how zones move together, and the chance of enough spot for the next hours.
    Spot(Box<spot::TrainSpot>),
    /// Write what the telemetry of a trace knows of its job types, as a table of profiles (CSV)
    ///
    /// Readings of GPUs are joined to the jobs that held them. `backtest interference`, `train interference` and `plan sharing` take the table as --profiles,
    /// `predict utilisation` forecasts other job types from it, and `backtest utilisation` tests such forecasts.
    Utilisation(utilisation::TrainUtilisation),
}

/// What to hold against what happened.
#[derive(Debug, Subcommand)]
pub(crate) enum Backtest {
    /// Compare predictions of run times with the recorded runs, model by model
    ///
    /// Every model is fitted again and again, each time on what was known at that moment, and predicts the jobs that came next.
    Duration(Box<backtest::BacktestDuration>),
    /// Compare forecasts of nodes or GPUs in use with what was used, model by model
    ///
    /// Every model is fitted again and again, each time on what was known at that moment, and forecasts the slots that came next.
    Demand(Box<backtest_demand::BacktestDemand>),
    /// Compare forecast speeds of jobs that share a GPU with measured ones, model by model
    ///
    /// Whole families of jobs, or whole GPU types, are left out in turn, and every model forecasts their speeds from the other pairs.
    Interference(backtest_interference::BacktestInterference),
    /// Check on past windows whether power plans would have kept what they promise
    ///
    /// The data are cut into windows. Each window is planned with the data before it, and the answer compares the promise with what came.
    Power(Box<backtest_power::BacktestPower>),
    /// Compare what a job with a deadline costs on spot and on-demand instances, policy by policy
    ///
    /// The job begins at many moments of each trace. Each is decided with the data before it, beside the optimum, which knows all availability.
    Cloud(Box<cloud::BacktestCloud>),
    /// Compare chances of spot instances with what came, model by model
    ///
    /// Every model is fitted again and again, each time on what was known at that moment, and says how likely there is enough spot for the hours that come.
    Spot(Box<spot::BacktestSpot>),
    /// Compare forecasts of GPU utilisation and memory with what was read, model by model
    ///
    /// On a trace, every job is forecast when it starts, from readings taken before. On a table of profiles, whole families of models are left out in turn.
    Utilisation(utilisation::BacktestUtilisation),
    /// Compare policies that give jobs GPUs of several types, on throughputs that were measured
    ///
    /// Jobs are replayed in rounds under each policy, beside a bound that no schedule undercuts. The answer says what knowing GPU types is worth.
    Allocation(Box<allocation::BacktestAllocation>),
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments, settings: &Settings) -> Result<()> {
    let quiet = arguments.quiet;
    match &arguments.command {
        Command::Describe(request) => describe::run(request, quiet),
        Command::Report(request) => report::run(request, quiet),
        Command::Ingest(request) => ingest::run(request, quiet),
        Command::Inspect(request) => inspect::run(request, quiet),
        Command::Query(request) => query::run(request, arguments.threads, quiet),
        Command::Simulate(request) => simulate::run(request, quiet),
        Command::Cluster(request) => cluster::run(request, quiet),
        Command::Audit(request) => audit::run(request, quiet),
        Command::Train(Train::Duration(request)) => train::run(request, quiet),
        Command::Train(Train::Demand(request)) => train_demand::run(request, quiet),
        Command::Train(Train::Interference(request)) => train_interference::run(request, quiet),
        Command::Train(Train::Spot(request)) => spot::train(request, quiet),
        Command::Train(Train::Utilisation(request)) => utilisation::train(request, quiet),
        Command::Forecast(request) => train_demand::forecast(request, quiet),
        Command::Predict(request) => predict::run(request, quiet),
        Command::Serve(request) => serve::run(request, quiet),
        Command::Backtest(Backtest::Duration(request)) => backtest::run(request, quiet),
        Command::Backtest(Backtest::Demand(request)) => backtest_demand::run(request, quiet),
        Command::Backtest(Backtest::Interference(request)) => backtest_interference::run(request, quiet),
        Command::Backtest(Backtest::Power(request)) => backtest_power::run(request, quiet),
        Command::Backtest(Backtest::Cloud(request)) => cloud::backtest(request, quiet),
        Command::Backtest(Backtest::Spot(request)) => spot::backtest(request, quiet),
        Command::Backtest(Backtest::Utilisation(request)) => utilisation::backtest(request, quiet),
        Command::Backtest(Backtest::Allocation(request)) => allocation::backtest(request, quiet),
        Command::Plan(plan::Plan::Power(request)) => plan::run(request, quiet),
        Command::Plan(plan::Plan::Cloud(request)) => cloud::plan(request, quiet),
        Command::Plan(plan::Plan::Instances(request)) => instances::plan(request, quiet),
        Command::Plan(plan::Plan::Fleet(request)) => fleet::plan(request, quiet),
        Command::Plan(plan::Plan::Burst(request)) => burst::plan(request, quiet),
        Command::Plan(plan::Plan::Defer(request)) => defer::plan(request, quiet),
        Command::Plan(plan::Plan::Serving(request)) => serving::plan(request, quiet),
        Command::Plan(plan::Plan::Queues(request)) => queues::plan(request, quiet),
        Command::Plan(plan::Plan::Capacity(request)) => capacity::plan(request, quiet),
        Command::Plan(plan::Plan::Sharing(request)) => sharing::plan(request, quiet),
        Command::Plan(plan::Plan::Mig(request)) => mig::plan(request, quiet),
        Command::Decide(decide::Decide::Power(request)) => decide::run(request),
        Command::Synth(request) => synth::run(request, quiet),
        Command::Formats => formats::run(),
        Command::Schema(request) => schema::run(request.of),
        Command::Config(request) => config::run(request, settings),
        Command::Manual(request) => manual::run(request, quiet),
        Command::Completions { shell } => output::bytes(&manual::completions(*shell), None),
    }
}
