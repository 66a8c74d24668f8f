//! `tracecast model backtest start`.

use anyhow::Result;
use clap::Args;
use tracecast_analytics::schema::Resource;
use tracecast_analytics::time::Written;
use tracecast_planner::replay::nearest::Backfill;
use tracecast_planner::start::answer::{SCHEMA, StartTestAnswer};
use tracecast_planner::start::backtest::{StartTestOptions, backtest};

use crate::args::{Input, TIMES, duration, resource};
use crate::cmd::answer::{self, Answering};
use crate::cmd::plan_jobs::{PlanInput, PlanJobs};
use crate::cmd::simulate::PolicyArguments;
use crate::cmd::site::SiteArguments;
use crate::progress::Steps;

/// Why a back-test takes no part of the jobs.
const NEEDED: &str = "jobs that share a cluster wait for each other, so a replay needs them all";

#[derive(Debug, Args)]
#[command(after_help = format!("\
Example, the bundled sample with a third more work on its nodes than they were for:
  tracecast model backtest start datasets/sample --order fifo --scan easy

{TIMES}"))]
pub(crate) struct BacktestStart {
    #[command(flatten)]
    pub(crate) input: Input,
    #[command(flatten)]
    pub(crate) site: SiteArguments,
    /// What jobs compete for: gpus, cpus or nodes [default: chosen from the trace]
    #[arg(long, value_name = "WHAT", value_parser = resource, help_heading = "Jobs and nodes")]
    pub(crate) resource: Option<Resource>,
    /// Replay jobs that were submitted at this time or later [default: from the first job]
    #[arg(long, value_name = "TIME", value_parser = Written::parse, allow_hyphen_values = true, help_heading = "Jobs and nodes")]
    pub(crate) from: Option<Written>,
    /// Replay jobs that were submitted before this time, where a date includes that day [default: to the last job]
    #[arg(long, value_name = "TIME", value_parser = Written::parse, allow_hyphen_values = true, help_heading = "Jobs and nodes")]
    pub(crate) to: Option<Written>,
    /// Replay only jobs that ran at most this long, such as 90s, 10m, 2h or 7d [default: all]
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = "Jobs and nodes")]
    pub(crate) max_run: Option<i64>,
    #[command(flatten)]
    pub(crate) policy: PolicyArguments,
    /// Jobs that are asked about, at most; the later half is scored
    #[arg(long, value_name = "N", default_value_t = 600, value_parser = clap::value_parser!(u32).range(80..=100_000), help_heading = "Evaluation")]
    pub(crate) questions: u32,
    /// Replays of each job that is asked about
    #[arg(long, value_name = "N", default_value_t = 28, value_parser = clap::value_parser!(u32).range(7..=1000), help_heading = "Evaluation")]
    pub(crate) draws: u32,
    #[command(flatten)]
    pub(crate) answering: Answering,
}

pub(crate) fn run(request: &BacktestStart, quiet: bool) -> Result<()> {
    let checked = request.answering.check("model-backtest-start", &[])?;
    let jobs = PlanJobs { from: request.from.clone(), max_run: request.max_run, eval_to: request.to.clone() };
    let input = PlanInput {
        sources: &request.input.sources,
        reading: &request.input.reading,
        site: &request.site,
        resource: request.resource,
        eval_from: None,
        jobs: &jobs,
        policy: &request.policy,
    };
    let mut opened = input.open(NEEDED, quiet)?;
    let today = opened.todays(None, Backfill::Never)?;
    let steps = Steps::watching(quiet, "replaying forward");
    let options = StartTestOptions {
        questions: request.questions as usize,
        draws: request.draws as usize,
        seed: request.policy.seed.unwrap_or(1),
    };
    let result = backtest(&opened.loaded.workload, &opened.loaded.cluster, &today.policy, &options, &steps)?;
    drop(steps);
    let answer = StartTestAnswer {
        schema: SCHEMA.to_owned(),
        title: opened.title,
        policy: today.policy.describe(),
        notes: opened.subject.notes,
        draws: options.draws,
        seed: options.seed,
        backtest: result,
    };
    checked.write(quiet, || answer.report(), || answer::json(&answer, "the answer"))
}
