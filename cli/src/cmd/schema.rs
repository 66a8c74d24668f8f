//! `tracecast schema`: the published forms of machine-readable outputs.

use anyhow::{Context as _, Result};
use tracecast_analytics::{audit, describe, rollup, schema, storage};

use crate::args::SchemaOf;
use crate::output;

pub(crate) fn run(of: SchemaOf) -> Result<()> {
    let value = match of {
        SchemaOf::Describe => describe::json_schema(),
        SchemaOf::Inspect => describe::Quality::json_schema(),
        SchemaOf::Report => tracecast_planner::advice::json_schema(),
        SchemaOf::Rollup => rollup::json_schema(),
        SchemaOf::Simulate => tracecast_planner::replay::answer::json_schema(),
        SchemaOf::PlanPower => tracecast_planner::power::answer::json_schema(),
        SchemaOf::BacktestDuration => tracecast_planner::backtest::json_schema(),
        SchemaOf::BacktestDemand => tracecast_predictors::demand::answer::json_schema(),
        SchemaOf::Predictions => tracecast_predictors::output::json_schema(),
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
