//! `tracecast decide power`.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args, Subcommand};
use tracecast_analytics::storage;
use tracecast_planner::power::forward::decide;
use tracecast_planner::power::forward::saved::SavedPlan;

use crate::cmd::answer;
use crate::early::Replacing;
use crate::{output, source};

/// Invocations that work, for the end of the help.
pub(crate) const EXAMPLE: &str = "\
Example, a plan of the bundled sample, and the slot after its end:
  tracecast plan power datasets/sample --save sample.plan
  echo '{\"slots\": [{\"at\": \"2024-03-31T15:50:00Z\", \"peak\": 21, \"total\": 40}]}' |
    tracecast decide power --plan sample.plan -";

/// What to decide.
#[derive(Debug, Subcommand)]
pub(crate) enum Decide {
    /// Say how many nodes to power in the next slot, from a saved plan and the latest counts
    ///
    /// The answer is JSON. It also says whether the rule or the promise asks for these nodes, and what is left of the promise.
    Power(DecidePower),
}

#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct DecidePower {
    /// File with the latest counts (JSON), or - for stdin
    ///
    /// It lists the slots that have ended since the plan was made, with the nodes in use. `tracecast schema decide-power-state` prints its
    /// schema.
    #[arg(value_name = "STATE")]
    pub(crate) state: PathBuf,
    /// Plan that `tracecast plan power --save` wrote
    #[arg(long, value_name = "FILE")]
    pub(crate) plan: PathBuf,
    /// Write the answer to a file instead of stdout, in place of the last one
    #[arg(long, short, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

pub(crate) fn run(arguments: &DecidePower) -> Result<()> {
    // Asked again and again by a loop, for the latest decision.
    Replacing { force: true }.files([&arguments.out])?;
    let bytes = tracecast_predictors::read_model(&arguments.plan)?;
    let plan = SavedPlan::from_bytes(&arguments.plan.display().to_string(), &bytes)?;
    let stdin = arguments.state.as_os_str() == "-";
    let text = if stdin {
        storage::read_text_from(Path::new("stdin"), std::io::stdin())?
    } else {
        source::text(&arguments.state)?
    };
    let name = if stdin { "stdin".to_owned() } else { arguments.state.display().to_string() };
    let decision = decide::decide(&plan, &decide::state(&name, &text)?)?;
    output::text(&answer::json(&decision, "the decision")?, arguments.out.as_deref())
}
