//! One file a command.

pub(crate) mod answer;
pub(crate) mod audit;
mod backtest;
pub(crate) mod backtest_demand;
mod describe;
mod formats;
mod ingest;
mod inspect;
pub(crate) mod plan;
mod predict;
mod report;
mod rollup;
mod schema;
mod serve;
mod simulate;
mod synth;
mod train;
pub(crate) mod train_demand;

use anyhow::Result;
use clap::CommandFactory as _;

use crate::args::{Arguments, Backtest, Command, Train};
use crate::output;

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
        Command::Plan(plan::Plan::Power(request)) => plan::run(request, quiet),
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
