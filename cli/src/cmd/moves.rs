//! `tracecast plan moves`.

use std::path::PathBuf;

use anyhow::Result;
use clap::{ArgAction, Args, ValueEnum};
use tracecast_analytics::time::HOUR_MS;
use tracecast_planner::instances::scaling::ScalingTable;
use tracecast_planner::moves::answer::{MovesAnswer, MovesRequest};
use tracecast_planner::moves::emit;
use tracecast_planner::moves::market::PriceHistory;
use tracecast_planner::moves::run::MoveTerms;
use tracecast_planner::moves::trial::TrialPlan;

use crate::args::{Reading, duration, entries, listed, within};
use crate::cmd::answer::{self, Answering};
use crate::cmd::emitting::{Audience, Emitting};
use crate::cmd::instances::RunJobs;
use crate::cmd::spot_traces::{NO_JOBS, moment};
use crate::exit::Usage;
use crate::source;

/// Who reads the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Emit {
    /// A CSV with the price below which each job moves to each place
    List,
    /// SkyPilot: a task for each job, at the place where it begins
    Skypilot,
}

impl Audience for Emit {
    const WHAT: &'static str = "Write where jobs begin and move for these, separated by commas: list, skypilot [default: both, if --emit-to is given]";
    const FOLDER: &'static str = "Folder into which it is written";
}

#[derive(Debug, Args)]
#[command(after_help = "\
Example, with the prices that AWS keeps of the last 90 days:
  aws ec2 describe-spot-price-history --instance-types p3.2xlarge p2.xlarge --product-descriptions Linux/UNIX > prices.json
  tracecast plan moves simulation_throughputs.json.gz --history prices.json --run \"ResNet-50 (batch size 64)=10000000\"")]
pub(crate) struct PlanMoves {
    /// Throughputs: Gavel's JSON, or a CSV with the columns gpu_type, job, gpus and steps_per_s
    #[arg(value_name = "THROUGHPUTS")]
    pub(crate) throughputs: PathBuf,
    /// History of spot prices: files or folders of `aws ec2 describe-spot-price-history` (JSON) or of daily tables of Azure (CSV); may be given several times
    #[arg(long, value_name = "PATH", required = true, num_args = 1.., action = ArgAction::Append, help_heading = "Prices")]
    pub(crate) history: Vec<PathBuf>,
    /// Use only offers whose zone begins with one of these, separated by commas: us-east-1,us_east
    #[arg(long, value_name = "ZONES", value_delimiter = ',', value_parser = entries(), help_heading = "Prices")]
    pub(crate) zones: Vec<String>,
    /// Nothing begins at a price that was quoted longer ago than this
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "7d", help_heading = "Prices")]
    pub(crate) trusted: i64,
    #[command(flatten)]
    pub(crate) asked: RunJobs,
    /// From the order of an instance until a job makes its first step, at most an hour
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10min", help_heading = "Moves")]
    pub(crate) start: i64,
    /// Size of what is carried to another region, GB
    #[arg(long, value_name = "GB", default_value_t = 50.0, value_parser = size, help_heading = "Moves")]
    pub(crate) checkpoint_gb: f64,
    /// Dollars a GB that leaves a region
    #[arg(long, value_name = "USD", default_value_t = 0.02, value_parser = price, help_heading = "Moves")]
    pub(crate) egress_price: f64,
    /// Times between two looks at the prices that may be chosen from, whole hours, separated by commas
    #[arg(long, value_name = "TIMES", value_delimiter = ',', value_parser = listed(duration), default_value = "1h,6h,1d,7d", help_heading = "Moves")]
    pub(crate) checks: Vec<i64>,
    /// Starts tried in the earlier and in the later part of the history
    #[arg(long, value_name = "COUNT", default_value_t = 20, value_parser = clap::value_parser!(u32).range(2..=200), help_heading = "Test")]
    pub(crate) starts: u32,
    /// Where the later part begins, such as 2020-03-01T00:00:00Z [default: after two thirds of the history]
    #[arg(long, value_name = "TIME", value_parser = moment, help_heading = "Test")]
    pub(crate) test_from: Option<i64>,
    #[command(flatten)]
    pub(crate) emitting: Emitting<Emit>,
    #[command(flatten)]
    pub(crate) reading: Reading,
    #[command(flatten)]
    pub(crate) answering: Answering,
}

fn size(text: &str) -> Result<f64, &'static str> {
    within(text, (0.0, 1e6), "write a number of gigabytes from 0 to 1000000")
}

fn price(text: &str) -> Result<f64, &'static str> {
    within(text, (0.0, 100.0), "write dollars a gigabyte from 0 to 100")
}

impl PlanMoves {
    /// The times between checks, seconds, in rising order.
    fn checks_s(&self) -> Result<Vec<f64>> {
        let mut checks = self.checks.clone();
        checks.sort_unstable();
        checks.dedup();
        if let Some(odd) = checks.iter().find(|ms| **ms < HOUR_MS || **ms % HOUR_MS != 0) {
            return Err(Usage(format!(
                "--checks: {} s is not a whole number of hours; write times such as 1h or 1d",
                odd / 1000
            ))
            .into());
        }
        Ok(checks.iter().map(|ms| *ms as f64 / 1e3).collect())
    }
}

pub(crate) fn plan(asked: &PlanMoves, quiet: bool) -> Result<()> {
    let checked = asked.answering.check("plan-moves", &[])?;
    asked.answering.replacing.folders([&asked.emitting.emit_to])?;
    let checks_s = asked.checks_s()?;
    if !(0..=HOUR_MS).contains(&asked.start) {
        return Err(Usage("--start: write a time of at most 1h".to_owned()).into());
    }
    let rates = source::rates(&asked.throughputs)?;
    let table = ScalingTable::of(&rates);
    let jobs = asked.asked.read(&table, None)?;
    let trace = source::open_whole(&asked.history, &asked.reading, quiet, NO_JOBS)?;
    let title = asked.history.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
    let history = PriceHistory::of(&trace, &title, &table, &asked.zones)?;
    let two_thirds_ms = history.begins_ms + (history.ends_ms - history.begins_ms) / 3 * 2;
    let split_ms = asked.test_from.unwrap_or((two_thirds_ms / HOUR_MS + 1) * HOUR_MS);
    if !(history.begins_ms..history.ends_ms).contains(&split_ms) {
        let what = match asked.test_from {
            Some(_) => "--test-from: write a time within the history of prices",
            None => "the history of prices is shorter than an hour or two; give one of some weeks",
        };
        return Err(Usage(what.to_owned()).into());
    }
    let request = MovesRequest {
        jobs,
        terms: MoveTerms {
            start_ms: asked.start,
            egress_usd: asked.checkpoint_gb * asked.egress_price,
            trusted_ms: asked.trusted,
        },
        trial: TrialPlan { split_ms, starts: asked.starts as usize, checks_s },
    };
    let answer = MovesAnswer::of(&history, &table, title, &request)?;
    let nowhere = answer.jobs.iter().all(|job| job.place.is_none());
    let file = |who: &Emit| {
        Ok(match who {
            Emit::List => vec![emit::list(&answer)?],
            Emit::Skypilot => emit::sky_pilot(&answer)?,
        })
    };
    let refused = nowhere.then(|| answer.action.clone());
    asked.emitting.write(refused, file, quiet)?;
    checked.write(None, quiet, || answer.report(), || answer::json(&answer, "the answer"))
}
