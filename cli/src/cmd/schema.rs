//! `tracecast schema`: the published forms of machine-readable outputs.

use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};
use tracecast_analytics::{audit, describe, rollup, schema, storage};

use crate::output;

#[derive(Debug, Args)]
#[command(after_help = "\
Example, the schema of a description:
  tracecast schema describe")]
pub(crate) struct Schema {
    /// What the schema is of
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
    /// `query --standard --format json`
    Rollup,
    /// `simulate --format json`
    Simulate,
    /// `simulate --share … --format json`
    SimulateSharing,
    /// `plan power --format json`
    PlanPower,
    /// The answer of `decide power`
    DecidePower,
    /// The latest counts, which `decide power` reads
    DecidePowerState,
    /// `backtest duration --format json`
    BacktestDuration,
    /// `backtest demand --format json`
    BacktestDemand,
    /// `backtest interference --format json`
    BacktestInterference,
    /// `backtest power --format json`
    BacktestPower,
    /// `plan cloud --format json`
    PlanCloud,
    /// `plan fleet --format json`
    PlanFleet,
    /// `plan instances --format json`
    PlanInstances,
    /// `plan burst --format json`
    PlanBurst,
    /// `plan defer --format json`
    PlanDefer,
    /// `plan serving --format json`
    PlanServing,
    /// `backtest cloud --format json`
    BacktestCloud,
    /// `backtest spot --format json`
    BacktestSpot,
    /// `backtest utilisation --format json`
    BacktestUtilisation,
    /// `backtest allocation --format json`
    BacktestAllocation,
    /// `plan queues --format json`
    PlanQueues,
    /// `plan capacity --format json`
    PlanCapacity,
    /// `plan sharing --format json`
    PlanSharing,
    /// `plan mig --format json`
    PlanMig,
    /// A line of `predict --format jsonl`
    Predictions,
    /// `predict interference --format json`
    PredictInterference,
    /// `predict spot --format json`
    PredictSpot,
    /// `predict utilisation --format json`
    PredictUtilisation,
    /// `forecast --format json`
    DemandForecast,
    /// `audit --format json`
    Audit,
    /// `audit --manifest`
    AuditManifest,
    /// `manifest.json` of a trace folder
    Manifest,
    /// All columns of the tables in a trace folder
    Tables,
}

pub(crate) fn run(of: SchemaOf) -> Result<()> {
    let value = match of {
        SchemaOf::Describe => describe::json_schema(),
        SchemaOf::Inspect => describe::Quality::json_schema(),
        SchemaOf::Report => tracecast_planner::advice::json_schema(),
        SchemaOf::Rollup => rollup::json_schema(),
        SchemaOf::Simulate => tracecast_planner::replay::answer::json_schema(),
        SchemaOf::SimulateSharing => tracecast_planner::sharing::simulated::json_schema(),
        SchemaOf::PlanPower => tracecast_planner::power::answer::json_schema(),
        SchemaOf::DecidePower => tracecast_planner::power::decide::json_schema(),
        SchemaOf::DecidePowerState => tracecast_planner::power::decide::state_schema(),
        SchemaOf::BacktestDuration => tracecast_planner::backtest::json_schema(),
        SchemaOf::BacktestDemand => tracecast_predictors::demand::answer::json_schema(),
        SchemaOf::BacktestInterference => tracecast_predictors::interference::answer::json_schema(),
        SchemaOf::BacktestPower => tracecast_planner::power::rolling::json_schema(),
        SchemaOf::PlanCloud => tracecast_planner::cloud::plan::json_schema(),
        SchemaOf::PlanFleet => tracecast_planner::fleet::answer::json_schema(),
        SchemaOf::PlanInstances => tracecast_planner::instances::answer::json_schema(),
        SchemaOf::PlanBurst => tracecast_planner::burst::answer::json_schema(),
        SchemaOf::PlanDefer => tracecast_planner::defer::answer::json_schema(),
        SchemaOf::PlanServing => tracecast_planner::serving::answer::json_schema(),
        SchemaOf::BacktestCloud => tracecast_planner::cloud::answer::json_schema(),
        SchemaOf::BacktestSpot => tracecast_predictors::spot::backtest_answer::json_schema(),
        SchemaOf::BacktestUtilisation => tracecast_predictors::utilisation::answer::json_schema(),
        SchemaOf::BacktestAllocation => tracecast_planner::rounds::answer::json_schema(),
        SchemaOf::PlanSharing => tracecast_planner::sharing::answer::json_schema(),
        SchemaOf::PlanMig => tracecast_planner::mig::answer::json_schema(),
        SchemaOf::PlanQueues => tracecast_planner::queues::answer::json_schema(),
        SchemaOf::PlanCapacity => tracecast_planner::capacity::answer::json_schema(),
        SchemaOf::Predictions => tracecast_predictors::output::json_schema(),
        SchemaOf::PredictInterference => tracecast_predictors::interference::share::json_schema(),
        SchemaOf::PredictSpot => tracecast_predictors::spot::answer::json_schema(),
        SchemaOf::PredictUtilisation => tracecast_predictors::utilisation::prediction::json_schema(),
        SchemaOf::DemandForecast => tracecast_predictors::demand::predictor::json_schema(),
        SchemaOf::Audit => audit::answer::json_schema(),
        SchemaOf::AuditManifest => audit::manifest::json_schema(),
        SchemaOf::Manifest => storage::json_schema(),
        SchemaOf::Tables => serde_json::to_value(
            schema::all_specs()
                .into_iter()
                .map(|(name, columns)| serde_json::json!({ "table": name, "columns": columns }))
                .collect::<Vec<_>>(),
        )
        .context("write the tables as JSON")?,
    };
    let mut text = serde_json::to_string_pretty(&value).context("write the schema as JSON")?;
    text.push('\n');
    output::text(&text, None)
}
