//! `tracecast schema`: the published forms of machine-readable outputs, and examples of the files
//! that users write.

use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};
use tracecast_analytics::{audit, describe, rollup, schema, storage};

use crate::exit::Usage;
use crate::output;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples, the schema of a description, and a mapping file to begin with:
  tracecast schema describe
  tracecast schema mapping --example > site.toml")]
pub(crate) struct Schema {
    /// What the schema is of
    #[arg(value_enum)]
    pub(crate) of: SchemaOf,
    /// Print an example with comments: of mapping, offers, services, node-types and site, which
    /// have no schema, and of rates
    #[arg(long)]
    pub(crate) example: bool,
}

/// Machine-readable outputs, and files that users write.
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
    /// `model backtest duration --format json`
    ModelBacktestDuration,
    /// `model backtest demand --format json`
    ModelBacktestDemand,
    /// `model backtest interference --format json`
    ModelBacktestInterference,
    /// `plan power --test --format json`
    PlanPowerTest,
    /// `plan rent job --format json`
    PlanRentJob,
    /// `plan rent fleet --format json`
    PlanRentFleet,
    /// `plan rent instances --format json`
    PlanRentInstances,
    /// `plan rent burst --format json`
    PlanRentBurst,
    /// `plan defer --format json`
    PlanDefer,
    /// `plan serving --format json`
    PlanServing,
    /// `plan rent job --test --format json`
    PlanRentJobTest,
    /// `model backtest spot --format json`
    ModelBacktestSpot,
    /// `model backtest start --format json`
    ModelBacktestStart,
    /// `model backtest utilisation --format json`
    ModelBacktestUtilisation,
    /// `when --format json`
    When,
    /// `bill --format json`
    Bill,
    /// Rates file of `bill`
    Rates,
    /// `why --format json`
    Why,
    /// `plan allocation --format json`
    PlanAllocation,
    /// `plan queues --format json`
    PlanQueues,
    /// `plan nodes --format json`
    PlanNodes,
    /// `plan share couples --format json`
    PlanShareCouples,
    /// `plan share couples --format json` without a SOURCE
    MeasuredCouples,
    /// `plan share mig --format json`
    PlanShareMig,
    /// A line of `model predict duration --format jsonl`
    Predictions,
    /// `model predict interference --format json`
    ModelPredictInterference,
    /// `model predict spot --format json`
    ModelPredictSpot,
    /// `model predict utilisation --format json`
    ModelPredictUtilisation,
    /// `model predict demand --format json`
    ModelPredictDemand,
    /// `audit --format json`
    Audit,
    /// `audit --manifest`
    AuditManifest,
    /// `manifest.json` of a trace folder
    Manifest,
    /// All columns of the tables in a trace folder
    Tables,
    /// A file that says what columns mean, for --mapping
    Mapping,
    /// A file of offers and prices, for --offers of `plan rent fleet` and other plans
    Offers,
    /// A file of what a replica of a service does, for `plan serving --service`
    Services,
    /// A file of kinds of nodes, for `plan nodes --node-types`
    NodeTypes,
    /// A file of nodes and rules, for --site
    Site,
}

impl SchemaOf {
    /// The example of a file that users write.
    fn example(self) -> Option<&'static str> {
        Some(match self {
            Self::Mapping => include_str!("../../../datasets/mappings/example/site.toml"),
            Self::Rates => include_str!("../../../datasets/rates/example.toml"),
            Self::Offers => include_str!("../../../datasets/offers/example.toml"),
            Self::Services => include_str!("../../../datasets/services/example.toml"),
            Self::Site => include_str!("../../../datasets/clusters/example.toml"),
            Self::NodeTypes => include_str!("../../../datasets/node-types/example.toml"),
            _ => return None,
        })
    }
}

pub(crate) fn run(arguments: &Schema) -> Result<()> {
    if arguments.example {
        let none =
            "--example: a command writes that; there are examples of mapping, offers, services, node-types and site";
        return output::text(arguments.of.example().ok_or_else(|| Usage(none.to_owned()))?, None);
    }
    let value = match arguments.of {
        SchemaOf::Describe => describe::json_schema(),
        SchemaOf::Inspect => describe::Quality::json_schema(),
        SchemaOf::Report => tracecast_planner::advice::json_schema(),
        SchemaOf::Rollup => rollup::json_schema(),
        SchemaOf::Simulate => tracecast_planner::replay::answer::json_schema(),
        SchemaOf::SimulateSharing => tracecast_planner::sharing::simulated::json_schema(),
        SchemaOf::PlanPower => tracecast_planner::power::answer::json_schema(),
        SchemaOf::DecidePower => tracecast_planner::power::forward::decide::json_schema(),
        SchemaOf::DecidePowerState => tracecast_planner::power::forward::decide::state_schema(),
        SchemaOf::ModelBacktestDuration => tracecast_planner::backtest::json_schema(),
        SchemaOf::ModelBacktestDemand => tracecast_predictors::demand::answer::json_schema(),
        SchemaOf::ModelBacktestInterference => tracecast_predictors::interference::answer::json_schema(),
        SchemaOf::PlanPowerTest => tracecast_planner::power::rolling::json_schema(),
        SchemaOf::PlanRentJob => tracecast_planner::cloud::plan::json_schema(),
        SchemaOf::PlanRentFleet => tracecast_planner::fleet::answer::json_schema(),
        SchemaOf::PlanRentInstances => tracecast_planner::instances::answer::json_schema(),
        SchemaOf::PlanRentBurst => tracecast_planner::burst::answer::json_schema(),
        SchemaOf::PlanDefer => tracecast_planner::defer::answer::json_schema(),
        SchemaOf::PlanServing => tracecast_planner::serving::answer::json_schema(),
        SchemaOf::PlanRentJobTest => tracecast_planner::cloud::answer::json_schema(),
        SchemaOf::ModelBacktestStart => tracecast_planner::start::answer::json_schema(),
        SchemaOf::ModelBacktestSpot => tracecast_predictors::spot::backtest_answer::json_schema(),
        SchemaOf::Bill => tracecast_analytics::bill::answer::json_schema(),
        SchemaOf::Rates => tracecast_analytics::bill::rates::json_schema(),
        SchemaOf::When => tracecast_planner::start::when::json_schema(),
        SchemaOf::Why => tracecast_planner::start::why::json_schema(),
        SchemaOf::ModelBacktestUtilisation => tracecast_predictors::utilisation::answer::json_schema(),
        SchemaOf::PlanAllocation => tracecast_planner::rounds::answer::json_schema(),
        SchemaOf::PlanShareCouples => tracecast_planner::sharing::answer::json_schema(),
        SchemaOf::MeasuredCouples => tracecast_planner::sharing::couples::json_schema(),
        SchemaOf::PlanShareMig => tracecast_planner::mig::answer::json_schema(),
        SchemaOf::PlanQueues => tracecast_planner::queues::answer::json_schema(),
        SchemaOf::PlanNodes => tracecast_planner::capacity::answer::json_schema(),
        SchemaOf::Predictions => tracecast_predictors::output::json_schema(),
        SchemaOf::ModelPredictInterference => tracecast_predictors::interference::share::json_schema(),
        SchemaOf::ModelPredictSpot => tracecast_predictors::spot::answer::json_schema(),
        SchemaOf::ModelPredictUtilisation => tracecast_predictors::utilisation::prediction::json_schema(),
        SchemaOf::ModelPredictDemand => tracecast_predictors::demand::predictor::json_schema(),
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
        SchemaOf::Mapping | SchemaOf::Offers | SchemaOf::Services | SchemaOf::NodeTypes | SchemaOf::Site => {
            return Err(Usage("the file is TOML and has no JSON schema; add --example".to_owned()).into());
        }
    };
    let mut text = serde_json::to_string_pretty(&value).context("write the schema as JSON")?;
    text.push('\n');
    output::text(&text, None)
}
