//! `tracecast plan rent job`, also with --test.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use tracecast_planner::cloud::answer::CloudBacktestAnswer;
use tracecast_planner::cloud::emit;
use tracecast_planner::cloud::karpenter::karpenter;
use tracecast_planner::cloud::plan::{plan as planned, report};
use tracecast_planner::cloud::request::{CloudRequest, ZonesTogether};
use tracecast_planner::cloud::work::WorkDistribution;
use tracecast_planner::cloud::zones::probe::{Past, Probes};
use tracecast_planner::market::availability::SpotSeries;
use tracecast_planner::plan::unadvised;

use crate::args::{duration, numbers};
use crate::cmd::answer::{self, Answering};
use crate::cmd::as_run;
use crate::cmd::emitting::{Audience, Emitting};
use crate::cmd::spot_traces::{SpotPrices, SpotTraces, moment};
use crate::cmd::trained::Models;
use crate::exit::Usage;
use crate::progress::Steps;
use crate::{output, source};

/// Traces of spot availability, and the job.
#[derive(Debug, Args)]
pub(crate) struct Spot {
    #[command(flatten)]
    pub(crate) from: SpotTraces,
    /// Work of the job, such as 48h: the time it takes on all the instances of --need
    #[arg(long, value_name = "TIME", value_parser = duration, required_unless_present_any = ["work_quantiles", "predictions"], help_heading = "Job")]
    pub(crate) work: Option<i64>,
    /// Work that is uncertain, in place of --work: chances and the times that it stays within, such as 0.1=36h,0.5=48h,0.9=60h,1=72h
    ///
    /// A chance of 0 is the least amount: 0=24h,1=48h is anything from 24 to 48 hours. Between two of them amounts are equally likely. All below the first counts as that, and all above the last as the last, which is the most that the deadline is kept for.
    #[arg(long, value_name = "CHANCE=TIME", value_delimiter = ',', value_parser = quantile, conflicts_with = "work", help_heading = "Job")]
    pub(crate) work_quantiles: Vec<(f64, i64)>,
    /// Predictions of run times, as `tracecast model predict duration` writes them (CSV or JSON
    /// lines): the quantiles of --job are its work, in place of --work
    #[arg(long, value_name = "CSV", requires = "job", conflicts_with_all = ["work", "work_quantiles"], help_heading = "Job")]
    pub(crate) predictions: Option<PathBuf>,
    /// The job of --predictions, by its job_id
    #[arg(long, value_name = "ID", requires = "predictions", help_heading = "Job")]
    pub(crate) job: Option<String>,
    /// Time that it takes to begin on another instance
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "12min", help_heading = "Job")]
    pub(crate) changeover: i64,
    /// How many times the price of spot on-demand costs, where prices are not known [default: 3]
    #[arg(long, value_name = "TIMES", help_heading = "Prices")]
    pub(crate) price_ratio: Option<f64>,
    #[command(flatten)]
    pub(crate) beside: SpotPrices,
    /// When the first sample of the traces was taken, such as 2023-02-15T00:00:00Z; for prices that are dated
    #[arg(long, value_name = "TIME", requires = "prices", value_parser = moment, help_heading = "Prices")]
    pub(crate) begins: Option<i64>,
    /// Price of on-demand, dollars an hour, in zones whose trace does not name it; for traces with prices of spot
    #[arg(long, value_name = "USD", value_parser = usd, help_heading = "Prices")]
    pub(crate) on_demand_price: Option<f64>,
    /// Whether the traces are zones of one job, which may move between them
    #[arg(long, value_enum, value_name = "HOW", default_value = "apart", help_heading = "Zones")]
    pub(crate) regions: Regions,
    /// Size of the checkpoint that a move takes along, gigabytes
    #[arg(long, value_name = "GB", default_value_t = 50.0, value_parser = amount, help_heading = "Zones")]
    pub(crate) checkpoint_gb: f64,
    /// Price of a gigabyte moved to another region, dollars [default is what AWS lists between regions of the United States]
    #[arg(long, value_name = "USD", default_value_t = 0.02, value_parser = amount, help_heading = "Zones")]
    pub(crate) egress_price: f64,
    /// Time between looks at all zones, such as 2h, where zones are those of one job (--regions together) [default: all are seen at every sample]
    ///
    /// Between two looks (probes) a zone is seen only where the job holds a spot instance or tries to begin one. A try that finds no spot is known a sample later. The first probe is at the start of the job.
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = "Zones")]
    pub(crate) probe: Option<i64>,
    /// Time of spot that a probe pays for in each zone that has it, such as 1min [default: nothing]
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "probe", help_heading = "Zones")]
    pub(crate) probe_bill: Option<i64>,
    /// What is known of the time before the job where zones are probed
    #[arg(long, value_enum, value_name = "WHAT", default_value = "probed", requires = "probe", help_heading = "Zones")]
    pub(crate) probe_past: PastSeen,
    /// Instances that the job needs at once; a tick with fewer counts as one without spot. With --elastic: the most that it runs on
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..), help_heading = "Job")]
    pub(crate) need: u32,
    /// Run on whatever number of instances there is, up to --need, spot and on-demand together
    ///
    /// It does as much work as it has instances. One that joins takes the time of --changeover, and the others work on meanwhile.
    #[arg(long, help_heading = "Job")]
    pub(crate) elastic: bool,
}

/// Price of on-demand over that of spot, where it is not given.
const PRICE_RATIO: f64 = 3.0;
/// Shares of the time to the deadline that a test tries where none are named.
const SLACKS: [f64; 3] = [0.65, 0.8, 0.9];
/// Starts in each trace: of a plan, on each of its two parts, and of a test.
const PLANNED_STARTS: usize = 10;
const TESTED_STARTS: usize = 20;

/// Use of several zones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Regions {
    /// Each zone on its own
    Apart,
    /// All are zones of one job, which may move between them
    Together,
}

/// Observations of zones before the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum PastSeen {
    /// What probes with the same period would have seen
    Probed,
    /// All samples, as in a public record
    Recorded,
}

fn amount(text: &str) -> Result<f64, &'static str> {
    text.parse().ok().filter(|amount: &f64| *amount >= 0.0 && amount.is_finite()).ok_or("write a number of 0 or more")
}

fn usd(text: &str) -> Result<f64, &'static str> {
    text.parse()
        .ok()
        .filter(|price: &f64| *price > 0.0 && price.is_finite())
        .ok_or("write a price above 0, such as 3.06")
}

/// A quantile such as `0.9=60h`.
fn quantile(text: &str) -> Result<(f64, i64), String> {
    let (level, time) = text.split_once('=').ok_or("write a chance and a time, such as 0.9=60h")?;
    let level = level.trim().parse().map_err(|_| format!("{level:?} is no chance; write such as 0.9=60h"))?;
    Ok((level, duration(time.trim())?))
}

impl Spot {
    /// Distribution of the work; None where the work is known for sure.
    fn uncertain(&self, quiet: bool) -> Result<Option<WorkDistribution>> {
        if let (Some(path), Some(job)) = (&self.predictions, &self.job) {
            let text = source::text(path)?;
            let (work, unsure) = WorkDistribution::predicted(&path.display().to_string(), &text, job)?;
            if unsure {
                let warning =
                    format!("tracecast: warning: the model is unsure of job {job}: its quantiles may not hold");
                output::say(quiet, &warning);
            }
            return Ok(Some(work));
        }
        if self.work_quantiles.is_empty() {
            return Ok(None);
        }
        Ok(Some(WorkDistribution::new(&self.work_quantiles)?))
    }

    fn request(&self, deadline_ms: Option<i64>, slacks: Vec<f64>, starts: usize, quiet: bool) -> Result<CloudRequest> {
        let uncertain = self.uncertain(quiet)?;
        let top_ms = uncertain.as_ref().map(WorkDistribution::top_ms);
        let uncertain = uncertain.filter(|work| !(work.is_certain() && work.beyond() == 0.0));
        let moving = ZonesTogether {
            checkpoint_gb: self.checkpoint_gb,
            egress_usd_per_gb: self.egress_price,
            probes: self.probes()?,
        };
        Ok(CloudRequest {
            work_ms: top_ms.or(self.work).unwrap_or(0),
            deadline_ms,
            slacks,
            changeover_ms: self.changeover,
            price_ratio: self.price_ratio.unwrap_or(PRICE_RATIO),
            is_ratio_given: self.price_ratio.is_some(),
            starts,
            need: self.need,
            elastic: self.elastic,
            together: (self.regions == Regions::Together).then_some(moving),
            moving,
            uncertain,
            ..CloudRequest::default()
        })
    }

    /// Probes of the zones of one job.
    fn probes(&self) -> Result<Option<Probes>> {
        let Some(every_ms) = self.probe else { return Ok(None) };
        if self.regions != Regions::Together {
            let what = "--probe says when the zones of one job are looked at; give --regions together with it";
            return Err(Usage(what.to_owned()).into());
        }
        if every_ms <= 0 {
            return Err(Usage("--probe 0s: there is time between probes; write 2h".to_owned()).into());
        }
        let past = match self.probe_past {
            PastSeen::Probed => Past::Probed,
            PastSeen::Recorded => Past::Recorded,
        };
        Ok(Some(Probes { every_ms, bill_ms: self.probe_bill.unwrap_or(0), past }))
    }

    /// The zones with their prices, and what they are called together.
    fn series(&self, quiet: bool) -> Result<(Vec<SpotSeries>, String)> {
        let (mut series, title) = self.from.series(&self.beside, self.begins, quiet)?;
        for zone in &mut series {
            match (&mut zone.price, self.on_demand_price) {
                (Some(price), told) => price.on_demand = price.on_demand.or(told),
                (None, None) => {}
                (None, Some(_)) => {
                    let what = format!(
                        "--on-demand-price stands beside prices of spot, and {} has none; give them with --prices FILE, or say with \
                         --price-ratio how many times the price of spot on-demand costs",
                        zone.name
                    );
                    return Err(Usage(what).into());
                }
            }
        }
        Ok((series, title))
    }
}

fn starts(text: &str) -> Result<usize, &'static str> {
    text.parse().ok().filter(|count| (1..=100_000).contains(count)).ok_or("write a number from 1 to 100000")
}

/// Runs the job from many starts of each trace, under every policy.
fn test(arguments: &PlanCloud, quiet: bool) -> Result<()> {
    let checked = arguments.answering.check("plan-rent-job-test", &[])?.with_charts(&arguments.charts)?;
    let slacks = if arguments.slack.is_empty() { SLACKS.to_vec() } else { arguments.slack.clone() };
    let starts = arguments.starts.unwrap_or(TESTED_STARTS);
    let request = arguments.spot.request(None, slacks, starts, quiet)?.trying(&arguments.deadline)?;
    request.jobs()?;
    let (series, title) = arguments.spot.series(quiet)?;
    let together = request.together.is_some();
    let jobs = if together { 1 } else { series.len() };
    let steps = Steps::new(quiet, "running the job from each start", jobs * request.starts);
    let mut answer = CloudBacktestAnswer::new(&series, title, &request, &steps)?;
    drop(steps);
    if checked.reports() {
        answer = answer.with_timeline(&series, &request)?;
    }
    checked.write(quiet, || answer.report(), || answer::json(&answer, "the answer"))
}

/// Reader of the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Emit {
    /// SkyPilot: a task on spot and one on-demand, and notes
    Skypilot,
    /// Karpenter: NodePools (karpenter.sh/v1) on spot by the order of zones, and on-demand, and notes
    Karpenter,
    /// A CSV of the hours of instances to expect, and what they cost
    Purchases,
}

impl Audience for Emit {
    const WHAT: &'static str = "Write the plan for these, separated by commas: skypilot, karpenter, purchases [default: all, if --emit-to is given]";
}

#[derive(Debug, Args)]
#[command(after_help = "\
Example, 48 hours of work within 60 hours, with tasks for SkyPilot:
  tracecast plan rent job us-east-1a_v100_1.json --work 48h --deadline 60h --emit skypilot --emit-to tasks
Example, a test of every policy with three deadlines:
  tracecast plan rent job --test us-east-1a_v100_1.json --work 48h --slack 0.65,0.8,0.9")]
pub(crate) struct PlanCloud {
    #[command(flatten)]
    pub(crate) spot: Spot,
    /// Compare every policy over many starts of each trace, and plan nothing
    #[arg(long, conflicts_with_all = ["checkpoint_cost", "emit", "emit_to"], help_heading = "Evaluation")]
    pub(crate) test: bool,
    /// Time to the deadline, such as 60h; with --test several, separated by commas
    #[arg(long, value_name = "TIME", value_delimiter = ',', value_parser = duration, required_unless_present_any = ["slack", "test"], conflicts_with = "slack", help_heading = "Job")]
    pub(crate) deadline: Vec<i64>,
    /// Work over time to the deadline, from 0 to 1, in place of --deadline; with --test several,
    /// separated by commas [default with --test: 0.65,0.8,0.9]
    #[arg(long, value_name = "SHARES", value_delimiter = ',', value_parser = numbers(), help_heading = "Job")]
    pub(crate) slack: Vec<f64>,
    /// Windows to choose on, and as many to report on, spread evenly over each part of each trace;
    /// with --test the starts in each trace [default: 10; 20 with --test]
    #[arg(long, value_name = "COUNT", value_parser = starts, help_heading = "Evaluation")]
    pub(crate) starts: Option<usize>,
    /// Time that a checkpoint takes; the answer then says how often to write one on spot
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = "Job")]
    pub(crate) checkpoint_cost: Option<i64>,
    #[command(flatten)]
    pub(crate) models: Models,
    #[command(flatten)]
    pub(crate) emitting: Emitting<Emit>,
    #[command(flatten)]
    pub(crate) answering: Answering,
    /// Write each chart of a test into this folder, as SVG and as PNG
    #[arg(long, value_name = "FOLDER", requires = "test", help_heading = "Answer")]
    pub(crate) charts: Option<PathBuf>,
}

pub(crate) fn plan(arguments: &PlanCloud, quiet: bool) -> Result<()> {
    if arguments.test {
        return test(arguments, quiet);
    }
    if arguments.deadline.len() > 1 || arguments.slack.len() > 1 {
        return Err(Usage("a plan is for one deadline; --test compares policies at several".to_owned()).into());
    }
    let checked = arguments.answering.check("plan-rent-job", &[])?;
    arguments.answering.replacing.folders([&arguments.emitting.emit_to])?;
    if arguments.checkpoint_cost.is_some_and(|cost_ms| cost_ms <= 0) {
        return Err(Usage("--checkpoint-cost 0: a checkpoint takes time; write 5min".to_owned()).into());
    }
    let unused = arguments.models.unused("programmes are fitted to the traces that are named, up to each window")?;
    let request = CloudRequest {
        naive: arguments.models.is_naive(),
        checkpoint_s: arguments.checkpoint_cost.map(|cost_ms| cost_ms as f64 / 1e3),
        command: Some(as_run::command()),
        ..arguments.spot.request(
            arguments.deadline.first().copied(),
            arguments.slack.clone(),
            arguments.starts.unwrap_or(PLANNED_STARTS),
            quiet,
        )?
    };
    request.jobs()?;
    let (series, title) = arguments.spot.series(quiet)?;
    let steps = Steps::watching(quiet, "trying policies on windows");
    let mut answer = planned(&series, title, &request, &steps)?;
    drop(steps);
    answer.notes.extend(unused);
    let refused = unadvised(answer.recommendation.as_ref(), &answer.action);
    let file = |who: &Emit| {
        Ok(match who {
            Emit::Skypilot => emit::sky_pilot(&answer),
            Emit::Karpenter => karpenter(&answer),
            Emit::Purchases => vec![emit::purchases(&answer)?],
        })
    };
    arguments.emitting.write(refused, file, quiet)?;
    checked.write(quiet, || report(&answer), || answer::json(&answer, "the answer"))
}
