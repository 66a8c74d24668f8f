//! `tracecast why`.

use anyhow::Result;
use clap::Args;
use tracecast_planner::start::why::WhyRequest;

use crate::cmd::answer::{self, Answering};
use crate::cmd::when::Now;
use crate::progress::Steps;

#[derive(Debug, Args)]
#[command(after_help = "\
Example, dumps of a Slurm in a folder, and its accounting:
  squeue --json >now/jobs.json; scontrol show node --json >now/nodes.json
  tracecast why 4711 --state now --history accounting.txt")]
pub(crate) struct Why {
    /// Job that waits, by its identifier
    #[arg(value_name = "JOB")]
    pub(crate) job: String,
    #[command(flatten)]
    pub(crate) now: Now,
    /// Replays of the queue as it is, and of each change
    #[arg(long, value_name = "N", default_value_t = 70, value_parser = clap::value_parser!(u32).range(7..=10_000))]
    pub(crate) draws: u32,
    #[command(flatten)]
    pub(crate) answering: Answering,
}

pub(crate) fn run(request: &Why, quiet: bool) -> Result<()> {
    let checked = request.answering.check("why", &[])?;
    let (state, history) = request.now.read(quiet)?;
    let steps = Steps::watching(quiet, "replaying changes");
    let answer = WhyRequest {
        state: &state,
        history: history.as_ref(),
        job: &request.job,
        scan: request.now.scan(),
        draws: request.draws as usize,
        seed: request.now.seed,
    }
    .answer()?;
    drop(steps);
    checked.write(quiet, || answer.report(), || answer::json(&answer, "the answer"))
}
