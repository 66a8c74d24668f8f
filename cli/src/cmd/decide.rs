//! `tracecast decide power`.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand};
use tracecast_planner::power::decide;
use tracecast_planner::power::saved::SavedPlan;

use crate::cmd::answer;
use crate::{output, source};

/// What to decide.
#[derive(Debug, Subcommand)]
pub(crate) enum Decide {
    /// How many nodes to power in the slot to come: one answer in JSON, from a saved plan and the latest counts
    Power(DecidePower),
}

#[derive(Debug, Args)]
pub(crate) struct DecidePower {
    /// The latest counts, in JSON (`tracecast schema decide-power-state` has the form); - for stdin
    #[arg(value_name = "STATE")]
    pub(crate) state: PathBuf,
    /// The plan, from `tracecast plan power --save`
    #[arg(long, value_name = "FILE")]
    pub(crate) plan: PathBuf,
    /// Write the answer to a file instead of stdout
    #[arg(long, short, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

pub(crate) fn run(asked: &DecidePower) -> Result<()> {
    let bytes = tracecast_predictors::read_model(&asked.plan)?;
    let plan = SavedPlan::from_bytes(&asked.plan.display().to_string(), &bytes)?;
    let stdin = asked.state.as_os_str() == "-";
    let text = if stdin { std::io::read_to_string(std::io::stdin())? } else { source::text(&asked.state)? };
    let name = if stdin { "stdin".to_owned() } else { asked.state.display().to_string() };
    let decision = decide::decide(&plan, &decide::state(&name, &text)?)?;
    output::text(&answer::json(&decision, "the decision")?, asked.out.as_deref())
}
