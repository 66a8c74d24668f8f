//! `tracecast plan rent instances`.

use std::path::PathBuf;

use anyhow::Result;
use clap::{ArgAction, Args, ValueEnum};
use tracecast_planner::instances::answer::{InstancesAnswer, InstancesRequest};
use tracecast_planner::instances::choose::RentGoal;
use tracecast_planner::instances::emit;
use tracecast_planner::instances::job::{self, RentedJob};
use tracecast_planner::instances::option::RentTerms;
use tracecast_planner::instances::scaling::ScalingTable;
use tracecast_planner::market::offers::InstanceOffer;
use tracecast_planner::plan::checkpoint::CheckpointCosts;
use tracecast_planner::plan::nothing_advised;

use crate::args::{Tables, duration, within};
use crate::cmd::answer::{self, Answering};
use crate::cmd::emitting::{Audience, Emitting};
use crate::cmd::trained::Models;
use crate::exit::Usage;
use crate::source;

/// Quantity to minimise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Minimise {
    /// The cost of all jobs
    Cost,
    /// The sum of their times; give a --budget
    Time,
}

/// Reader of the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Emit {
    /// A CSV with a line for each job
    List,
    /// SkyPilot: a task for each job
    Skypilot,
}

impl Audience for Emit {
    const WHAT: &'static str =
        "Write what to rent for these, separated by commas: list, skypilot [default: both, if --emit-to is given]";
}

/// The jobs that are to run.
#[derive(Debug, Args)]
pub(crate) struct RunJobs {
    /// A job: its type in the throughputs, and the steps that it makes; may be given several times
    #[arg(long, value_name = "TYPE=STEPS", action = ArgAction::Append, required_unless_present = "jobs", help_heading = "Jobs")]
    pub(crate) run: Vec<String>,
    /// Jobs: a CSV with the columns job, type and steps, and deadline if there is one
    #[arg(long, value_name = "CSV", conflicts_with = "run", help_heading = "Jobs")]
    pub(crate) jobs: Option<PathBuf>,
}

impl RunJobs {
    /// Reads them; `deadline_s` is of those that name none.
    pub(crate) fn read(&self, table: &ScalingTable, deadline_s: Option<f64>) -> Result<Vec<RentedJob>> {
        if let Some(path) = &self.jobs {
            return Ok(job::read(path, &source::text(path)?, table, deadline_s)?);
        }
        let of_text = |text: &String| job::of_text(table, text, deadline_s);
        let mut jobs: Vec<RentedJob> = self.run.iter().map(of_text).collect::<tracecast_planner::error::Result<_>>()?;
        // Several of one type are told apart by their number.
        let names: Vec<String> = jobs.iter().map(|job| job.name.clone()).collect();
        for (at, job) in jobs.iter_mut().enumerate() {
            if names.iter().filter(|name| **name == job.name).count() > 1 {
                job.name = format!("{} #{}", job.name, at + 1);
            }
        }
        Ok(jobs)
    }
}

#[derive(Debug, Args)]
#[command(after_help = "\
Example, one job with a deadline, at invented prices:
  tracecast plan rent instances simulation_throughputs.json.gz --offers datasets/offers/gpu_types.toml --run \"ResNet-50 (batch size 64)=1000000\" --deadline 24h")]
pub(crate) struct PlanInstances {
    /// Throughputs: Gavel's JSON, or a CSV with the columns gpu_type, job, gpus and steps_per_s, and perhaps apart_steps_per_s
    #[arg(value_name = "THROUGHPUTS")]
    pub(crate) throughputs: PathBuf,
    /// Offers file (TOML) as `plan rent fleet` reads it: instance types with their GPUs and prices
    ///
    /// `gpu` or `also` must hold the names that the throughputs have for GPU types.
    /// A table of prices as `tracecast formats` lists them (cloud-gpus.csv, or SkyPilot's vms.csv) can stand in its place or beside it; then what the file says goes first.
    #[arg(long, value_name = "TOML", required = true, help_heading = "Prices")]
    pub(crate) offers: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) tables: Tables,
    /// Put jobs without a deadline on spot where it is cheaper
    #[arg(long, help_heading = "Prices")]
    pub(crate) spot: bool,
    /// Billing unit: times are rounded up to it
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "1s", help_heading = "Prices")]
    pub(crate) bill_by: i64,
    #[command(flatten)]
    pub(crate) runs: RunJobs,
    /// Within which time a job must be done, such as 24h [default: none, but for jobs of a file that have one]
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = "Jobs")]
    pub(crate) deadline: Option<i64>,
    /// Most instances of one job
    ///
    /// On several a job is as fast as it was measured with each GPU on a machine of its own (`apart_steps_per_s`, or Gavel's unconsolidated rates). Other numbers of GPUs are then not used on several. Where nothing was measured so of a job type on a GPU type, the throughputs of one machine are taken, and the answer says so.
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=512), help_heading = "Jobs")]
    pub(crate) most_instances: u32,
    /// Use numbers of GPUs that were not measured as well, by a forecast of their throughput
    ///
    /// Deadlines are held against the forecast with a margin. The answer tests whether forecasts are worth it on your throughputs.
    #[arg(long, help_heading = "Jobs")]
    pub(crate) forecasts: bool,
    /// From the order of an instance until a job makes its first step
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "5min", help_heading = "Jobs")]
    pub(crate) start: i64,
    /// What writing a checkpoint takes, on spot
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "5min", requires = "spot", help_heading = "Jobs")]
    pub(crate) checkpoint_cost: i64,
    /// From an interruption until a job runs again, on spot
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10min", requires = "spot", help_heading = "Jobs")]
    pub(crate) restart_cost: i64,
    /// What is to be least
    #[arg(long, value_enum, value_name = "WHAT", default_value = "cost", help_heading = "Choice")]
    pub(crate) minimise: Minimise,
    /// Most cost of all jobs together
    #[arg(long, value_name = "AMOUNT", value_parser = amount, help_heading = "Choice")]
    pub(crate) budget: Option<f64>,
    #[command(flatten)]
    pub(crate) models: Models,
    #[command(flatten)]
    pub(crate) emitting: Emitting<Emit>,
    #[command(flatten)]
    pub(crate) answering: Answering,
}

fn amount(text: &str) -> Result<f64, &'static str> {
    within(text, (f64::MIN_POSITIVE, 1e15), "write an amount of money above 0")
}

pub(crate) fn plan(arguments: &PlanInstances, quiet: bool) -> Result<()> {
    let checked = arguments.answering.check("plan-rent-instances", &[])?;
    arguments.answering.replacing.folders([&arguments.emitting.emit_to])?;
    for (option, ms) in [("--bill-by", Some(arguments.bill_by)), ("--deadline", arguments.deadline)] {
        if ms.is_some_and(|ms| ms < 1_000) {
            return Err(Usage(format!("{option}: write a time of at least 1s")).into());
        }
    }
    if arguments.forecasts && arguments.models.is_naive() {
        return Err(Usage("--forecasts and --models none exclude each other; leave one out".to_owned()).into());
    }
    let unused = arguments.models.unused("throughputs are forecast from those measured, with --forecasts")?;
    let rates = source::rates(&arguments.throughputs)?;
    let table = ScalingTable::new(&rates);
    let deadline_s = arguments.deadline.map(|ms| ms as f64 / 1e3);
    let jobs = arguments.runs.read(&table, deadline_s)?;
    let offers = source::offers(&arguments.offers, &arguments.tables.filter())?;
    let of_trace = |offer: &&InstanceOffer| offer.spot.as_ref().is_some_and(|spot| spot.trace.is_some());
    if let Some(offer) = offers.instances.iter().find(of_trace).filter(|_| arguments.spot) {
        let what = format!(
            "{}: the availability of spot of {} is in a trace, which this plan does not read; write `available` and `interrupted_every`",
            offers.file, offer.name
        );
        return Err(Usage(what).into());
    }
    let seconds = |ms: i64| ms as f64 / 1e3;
    let request = InstancesRequest {
        jobs,
        offers,
        terms: RentTerms {
            most_instances: arguments.most_instances,
            start_s: seconds(arguments.start),
            bill_s: seconds(arguments.bill_by),
            spot: arguments.spot,
            forecasts: arguments.forecasts,
            costs: CheckpointCosts {
                checkpoint_s: seconds(arguments.checkpoint_cost),
                restart_s: seconds(arguments.restart_cost),
            },
        },
        goal: match arguments.minimise {
            Minimise::Cost => RentGoal::Cost,
            Minimise::Time => RentGoal::Time,
        },
        budget: arguments.budget,
    };
    let title = arguments.throughputs.display().to_string();
    let mut answer = InstancesAnswer::new(&rates, title, &request)?;
    answer.notes.extend(unused);
    let refused = answer.plan.is_none().then(|| nothing_advised(&answer.action));
    let file = |who: &Emit| {
        Ok(match who {
            Emit::List => vec![emit::list(&answer)?],
            Emit::Skypilot => emit::sky_pilot(&answer)?,
        })
    };
    arguments.emitting.write(refused, file, quiet)?;
    checked.write(quiet, || answer.report(), || answer::json(&answer, "the answer"))
}
