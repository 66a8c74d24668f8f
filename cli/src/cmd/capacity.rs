//! `tracecast plan nodes`.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use clap::{ArgGroup, Args, ValueEnum};
use tracecast_analytics::facts::SizeClass;
use tracecast_analytics::ingest::SourceFile;
use tracecast_analytics::schema::Resource;
use tracecast_analytics::time::Written;
use tracecast_planner::capacity::faults::{FaultLog, MOST_NODES};
use tracecast_planner::capacity::search::WaitTarget;
use tracecast_planner::capacity::{AskedOfFaults, CapacityRequest, NodeKinds, answer as found, emit};
use tracecast_planner::plan::checkpoint::CheckpointCosts;
use tracecast_planner::plan::forecast::runs::ChosenRuns;
use tracecast_planner::plan::nothing_advised;
use tracecast_planner::replay::nearest::{Backfill, Today};

use crate::args::{Reading, TIMES, duration, factor, resource};
use crate::cmd::answer::{self, Charting};
use crate::cmd::emitting::{Audience, Emitting, written_of_another};
use crate::cmd::plan_jobs::{OpenedPlan, PlanInput, PlanJobs};
use crate::cmd::simulate::{PolicyArguments, growth};
use crate::cmd::site::SiteArguments;
use crate::cmd::trained::{PredictedRuns, trained_drivers};
use crate::exit::Usage;
use crate::progress::Steps;
use crate::source;

/// Why the plan takes no part of the jobs.
const NEEDED: &str = "jobs that share nodes wait for each other, so a plan of capacity needs them all";

/// Most of a log of faults that is read, bytes.
const MOST_FAULTS: u64 = 64 << 20;

/// Reader of the nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Emit {
    /// cluster.toml, as `simulate --site` reads it
    Cluster,
    /// Slurm: NodeName lines
    Slurm,
}

impl Audience for Emit {
    const WHAT: &'static str = "Write the recommended nodes for these, separated by commas: cluster, slurm";

    fn unnamed() -> &'static [Self] {
        &[]
    }
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("more_work").args(["scale", "add"]).multiple(true))]
#[command(after_help = format!("\
Example, the bundled sample, and the recommended nodes as `simulate` reads them:
  tracecast plan nodes datasets/sample --target-p95 1h --emit cluster --emit-to nodes

{TIMES}"))]
pub(crate) struct PlanCapacity {
    /// Trace with jobs: files, folders or patterns, or a trace folder that `tracecast ingest` wrote
    #[arg(required = true, value_name = "SOURCE")]
    pub(crate) sources: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: Reading,
    /// Longest wait of 95 % of the jobs, such as 1h; for one size class write CLASS=2h, and repeat the option
    ///
    /// The target is for all jobs of a pool and for each of its size classes with at least 20 jobs. Size classes are <1, 1, 2-4, 5-8 and >8
    /// GPUs, as in --target-p95 1h --target-p95 ">8=6h".
    #[arg(long, value_name = "TIME", required = true, help_heading = "Target")]
    pub(crate) target_p95: Vec<String>,
    /// Multiply the work by this factor, from 0.05 to 20
    ///
    /// Whole weeks of each user are drawn, as in `simulate --scale`. Every draw is planned for; the interval is of the days of all draws
    /// together.
    #[arg(long, value_name = "FACTOR", value_parser = factor, help_heading = "Growth")]
    pub(crate) scale: Option<f64>,
    /// Teams that join: a TOML file with a name and gpu_hours_per_week for each
    #[arg(long, value_name = "TOML", help_heading = "Growth")]
    pub(crate) add: Option<PathBuf>,
    /// Number of draws for --scale and --add
    #[arg(long, value_name = "N", default_value_t = 5, requires = "more_work", value_parser = clap::value_parser!(u64).range(1..=1000), help_heading = "Growth")]
    pub(crate) draws: u64,
    /// Kinds of nodes that can be had: a TOML file with a name, gpus_per_node and a price for each, and perhaps a GPU type and a speed
    ///
    /// The answer then has the cheapest mix of kinds that keeps the target, what another kind does, and what all of it costs. The nodes that there
    /// are must be among the kinds.
    #[arg(long, value_name = "TOML", help_heading = "Kinds of nodes")]
    pub(crate) node_types: Option<PathBuf>,
    /// Log of faults: a CSV with the columns node, down_from and down_to, or a JSON of events as InfiniteHBD published them
    ///
    /// The answer then says how many nodes to hold in reserve, how long nodes run between failures, and how often jobs should write a
    /// checkpoint. The log may be compressed with gzip.
    #[arg(long, value_name = "FILE", help_heading = "Failures")]
    pub(crate) faults: Option<PathBuf>,
    /// Number of nodes that the log of faults watches, at most 10 million [default: those that it names]
    #[arg(long, value_name = "NODES", requires = "faults", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_NODES)), help_heading = "Failures")]
    pub(crate) fault_nodes: Option<u32>,
    /// Share of the time in which the nodes in reserve are to be enough
    #[arg(long, value_name = "SHARE", default_value_t = 0.99, requires = "faults", value_parser = share, help_heading = "Failures")]
    pub(crate) availability: f64,
    /// Time that a checkpoint of a job takes
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "5min", requires = "faults", help_heading = "Failures")]
    pub(crate) checkpoint_cost: i64,
    /// Time from a failure until the job runs again
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10min", requires = "faults", help_heading = "Failures")]
    pub(crate) restart_cost: i64,
    /// What jobs compete for: gpus, cpus or nodes [default: chosen from the trace]
    #[arg(long, value_name = "WHAT", value_parser = resource, help_heading = "Jobs and nodes")]
    pub(crate) resource: Option<Resource>,
    #[command(flatten)]
    pub(crate) site: SiteArguments,
    /// Test on what comes from this time on, and choose on what is before it [default: a quarter of
    /// the time before the end, at most 14 days]
    ///
    /// Earlier windows of the same length are tested as well, as long as each has as much time before it.
    #[arg(long, value_name = "TIME", value_parser = Written::parse, allow_hyphen_values = true, help_heading = "Evaluation")]
    pub(crate) eval_from: Option<Written>,
    #[command(flatten)]
    pub(crate) runs: PredictedRuns,
    #[command(flatten)]
    pub(crate) which: PlanJobs,
    #[command(flatten)]
    pub(crate) today: PolicyArguments,
    #[command(flatten)]
    pub(crate) emitting: Emitting<Emit>,
    #[command(flatten)]
    pub(crate) charting: Charting,
}

/// A share above 0 and up to 1.
fn share(text: &str) -> Result<f64, String> {
    let share = text.parse::<f64>().ok().filter(|share| *share > 0.0 && *share <= 1.0);
    share.ok_or_else(|| "write a share above 0 and up to 1, such as 0.99".to_owned())
}

/// The log of faults, if one is named.
fn faults(arguments: &PlanCapacity) -> Result<Option<AskedOfFaults>> {
    let Some(path) = &arguments.faults else { return Ok(None) };
    let name = path.display().to_string();
    let mut text = String::new();
    let opened = SourceFile::new(path).open(&())?;
    opened.take(MOST_FAULTS + 1).read_to_string(&mut text).with_context(|| format!("read {name}"))?;
    if text.len() as u64 > MOST_FAULTS {
        bail!("{name}: it has more than 64 MiB, the most that is read of a log of faults; name a shorter one");
    }
    if arguments.checkpoint_cost <= 0 {
        return Err(Usage("--checkpoint-cost 0: a checkpoint takes time; write 5min".to_owned()).into());
    }
    let costs = CheckpointCosts {
        checkpoint_s: arguments.checkpoint_cost as f64 / 1e3,
        restart_s: arguments.restart_cost as f64 / 1e3,
    };
    let log = FaultLog::parse(&name, &text, arguments.fault_nodes)?;
    Ok(Some(AskedOfFaults { log, availability: arguments.availability, costs }))
}

/// The kinds of nodes, if a file is named.
fn kinds(arguments: &PlanCapacity) -> Result<Option<NodeKinds>> {
    let Some(path) = &arguments.node_types else { return Ok(None) };
    Ok(Some(NodeKinds::parse(&path.display().to_string(), &source::text(path)?)?))
}

/// The targets, as typed.
fn target(typed: &[String]) -> Result<WaitTarget> {
    let wrong = |text: &str, why: &str| Usage(format!("--target-p95 {text}: {why}"));
    let mut all = None;
    let mut by_class = BTreeMap::new();
    for text in typed {
        let (class, time) = match text.rsplit_once('=') {
            None => (None, text.as_str()),
            Some((class, time)) => {
                let known = SizeClass::ALL.into_iter().find(|known| known.id() == class.trim());
                (Some(known.ok_or_else(|| wrong(text, "the size classes are <1, 1, 2-4, 5-8 and >8"))?), time)
            }
        };
        let seconds = duration(time).map_err(|why| wrong(text, &why))? as f64 / 1e3;
        let before = match class {
            None => all.replace(seconds),
            Some(class) => by_class.insert(class, seconds),
        };
        if before.is_some() {
            return Err(wrong(text, "this target is given twice").into());
        }
    }
    let all_s =
        all.ok_or_else(|| wrong(&typed.join(" "), "give the target of all jobs as well, such as --target-p95 1h"))?;
    Ok(WaitTarget { all_s, by_class })
}

pub(crate) fn plan(arguments: &PlanCapacity, quiet: bool) -> Result<()> {
    let checked = arguments.charting.check("plan-nodes", &[])?;
    arguments.emitting.check()?;
    arguments.charting.answering.replacing.folders([&arguments.emitting.emit_to])?;
    let target = target(&arguments.target_p95)?;
    let growth = growth(arguments.scale, arguments.add.as_deref(), arguments.draws, &arguments.today)?;
    let faults = faults(arguments)?;
    let kinds = kinds(arguments)?;
    let plan = PlanInput {
        sources: &arguments.sources,
        reading: &arguments.reading,
        site: &arguments.site,
        resource: arguments.resource,
        eval_from: arguments.eval_from.as_ref(),
        jobs: &arguments.which,
        policy: &arguments.today,
    };
    let mut opened = plan.open(NEEDED, quiet)?;
    // Nothing may decide what is tested that comes after the first test has begun.
    let first_ms = found::first_test_ms(&opened.loaded, opened.eval_from_ms)?;
    let named = arguments.runs.drivers(&opened.trace, &mut opened.loaded)?;
    let Today { policy, known: scan_is_known, .. } = opened.todays(Some(first_ms), Backfill::ByWhatIsKnown)?;
    let OpenedPlan { title, trace, mut loaded, mut subject, eval_from_ms, .. } = opened;
    if arguments.emitting.readers().contains(&Emit::Slurm) && loaded.resource != Resource::Gpus {
        let what = format!("--emit slurm: the lines count GPUs, and the jobs compete for {}", loaded.resource.many());
        return Err(Usage(what).into());
    }
    let split_ms = first_ms - loaded.workload.origin_ms;
    let runs = if policy.goes_by_predictions() {
        let drivers = named.map_or_else(|| trained_drivers(&trace, &mut loaded, quiet), Ok)?;
        Some(drivers.choose(&mut loaded, &policy, split_ms)?)
    } else {
        None
    };
    if let Some(matched) = runs.as_ref().and_then(ChosenRuns::matched) {
        subject.note_column("Predictions", matched);
    }
    loaded.notes = subject.notes;
    let request = CapacityRequest { target, eval_from_ms, policy, scan_is_known, growth, faults, kinds, runs };
    let steps = Steps::new(quiet, "planning", found::steps(&loaded, &request));
    let answer = found::plan(&trace, &loaded, title, &request, &steps)?;
    drop(steps);
    let refused =
        answer.body.refused().or_else(|| answer.recommendation.is_none().then(|| nothing_advised(&answer.action)));
    if refused.is_none() && arguments.emitting.emit_to.is_some() && answer.body.fidelity.warns() {
        written_of_another();
    }
    let file = |who: &Emit| {
        Ok(vec![match who {
            Emit::Cluster => emit::cluster(&answer),
            Emit::Slurm => emit::slurm(&answer)?,
        }])
    };
    arguments.emitting.write(refused, file, quiet)?;
    checked.write(quiet, || found::report(&answer), || answer::json(&answer, "the answer"))
}
