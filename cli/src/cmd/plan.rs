//! `tracecast plan`: what there is to plan, and `plan power`.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::{Args, Subcommand, ValueEnum};
use tracecast_analytics::audit::factors::{Hourly, Method};
use tracecast_analytics::time::{Window, Written};
use tracecast_planner::plan::Emitted;
use tracecast_planner::plan::emit::own::OwnFile;
use tracecast_planner::plan::emit::slurm::hosts;
use tracecast_planner::power::answer::PowerAnswer;
use tracecast_planner::power::ces::Thresholds;
use tracecast_planner::power::config::{self, ConfigOptions, Target};
use tracecast_planner::power::evaluate;
use tracecast_planner::power::request::{Demanded, EVALUATED, Hours, PowerRequest, Replayed, SaidFigures, Weigh};
use tracecast_planner::power::service::Service;
use tracecast_planner::replay::scenario::Scenario;

use crate::args::{NODES_OF_ALL, Reading, TIMES, entries};
use crate::cmd::answer::{self, Answering};
use crate::cmd::emitting::{Audience, Emitting, host_list, own_files};
use crate::cmd::{
    backtest_demand, burst, capacity, cloud, defer, describe, fleet, instances, mig, queues, serving, sharing,
};
use crate::exit::Usage;
use crate::progress::Steps;
use crate::{output, source};

/// What to plan.
#[derive(Debug, Subcommand)]
pub(crate) enum Plan {
    /// Plan how many nodes can sleep at which time, and test the plan on later days
    ///
    /// Rules are fitted on earlier days. The answer compares them on later days with nodes that are always on, and with the exact optimum,
    /// which knows all demand.
    Power(Box<PlanPower>),
    /// Plan how one job with a deadline uses spot and on-demand instances, and test the plan on later days
    ///
    /// Every policy in every zone is tried on earlier days. The answer compares the cheapest on later days with on-demand alone, and with
    /// the exact optimum, which knows all availability.
    Cloud(Box<cloud::PlanCloud>),
    /// Plan which instances to rent for which job, and how many, from measured throughputs and prices
    ///
    /// The cheapest way is chosen that keeps each job's deadline, or the fastest within a budget. The answer tests choices that rest on forecast
    /// throughputs on numbers of GPUs that were measured and hidden.
    Instances(Box<instances::PlanInstances>),
    /// Plan how many GPUs to reserve, and what to run on demand and on spot, and test the plan on later weeks
    ///
    /// A search chooses the mix on earlier weeks. The answer compares what it costs on later weeks with all on demand, with usual rules, with
    /// nodes of one's own, and with the best mix seen with hindsight.
    Fleet(Box<fleet::PlanFleet>),
    /// Plan how many nodes of your own to have, and which jobs wait for them before they go to the cloud, and test the plan on later weeks
    ///
    /// Waiting policies and numbers of nodes are replayed on earlier weeks. The answer compares the cheapest that keeps the target of waits on later
    /// weeks with all on demand, with nobody and with all waiting, and with the best seen with hindsight.
    Burst(Box<burst::PlanBurst>),
    /// Plan which jobs wait for hours of cleaner or cheaper electricity, and test the plan on later weeks
    ///
    /// Ways to defer are tried on earlier jobs. The answer compares the one that saved most within a mean wait, on later jobs, with starting at once, with
    /// published ways, and with bounds that know all hours and runs.
    Defer(Box<defer::PlanDefer>),
    /// Plan how many replicas of an inference service are up when, and test the plan on later requests
    ///
    /// Settings of constant, reactive and forecast-driven scaling are replayed on the earlier half of a request log. The answer compares the cheapest that kept
    /// the promised latency on the later half with the others, and with the best schedule seen with hindsight.
    Serving(Box<serving::PlanServing>),
    /// Plan how VCs share the nodes and in which order jobs are served, and test the plan on later jobs
    ///
    /// Every way is replayed on earlier jobs, and the best is chosen that makes no VC wait longer than nodes of its own would. The answer
    /// compares it on later jobs with today, with nodes of one's own, and with the best seen with hindsight.
    Queues(Box<queues::PlanQueues>),
    /// Plan how many nodes keep the waits of jobs within a target, and test the number on later days
    ///
    /// Numbers of nodes are replayed on earlier jobs. The answer compares the fewest that kept the target, on later jobs, with the nodes as they
    /// are, with rules of thumb, and with the fewest that would have been enough.
    Capacity(Box<capacity::PlanCapacity>),
    /// Plan which job types share GPUs with which, and test the plan on later jobs
    ///
    /// The plan forecasts how much jobs slow each other, and is tested without the measured pairs that it decides on. The answer compares it with nobody
    /// sharing, with published ways to pack, and with sharing that knows every pair.
    Sharing(Box<sharing::PlanSharing>),
    /// Plan which GPUs are partitioned into which MIG slices, and test the plan on families that it did not know
    ///
    /// An integer programme finds the fewest GPUs that carry the jobs, or the most progress on the GPUs there are, with a bound. The answer compares it with
    /// whole GPUs, with one partition for all, and with plans that know every speed.
    Mig(Box<mig::PlanMig>),
}

/// Whose published thresholds CES takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Ces {
    /// Thresholds for Philly
    Philly,
    /// Thresholds for Earth, a cluster of Helios
    Earth,
}

/// What makes an hour of sleep worth more than another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum WeighBy {
    /// Price of electricity in the hour
    Price,
    /// Carbon intensity in the hour
    Carbon,
    /// Nothing: all hours weigh the same
    No,
}

/// Which demand is planned for, and what nodes draw.
#[derive(Debug, Args)]
pub(crate) struct Nodes {
    /// Length of a slot, from 1s to 1d, such as 10min or 1h
    #[arg(long, value_name = "TIME", value_parser = backtest_demand::length, default_value = "10min", help_heading = "Demand")]
    pub(crate) slot: i64,
    /// Plan only for these VCs and their pool, separated by commas [default: all VCs]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = entries(), help_heading = "Demand")]
    pub(crate) vc: Vec<String>,
    /// Also plan each VC on nodes of its own, and not only all nodes as one pool
    #[arg(long, help_heading = "Demand")]
    pub(crate) by_vc: bool,
    /// Count what waiting jobs need as demand, up to the nodes there are [default: only what is in use]
    #[arg(long, help_heading = "Demand")]
    pub(crate) pending: bool,
    /// Count the nodes as idle when the whole cluster falls from busy to 0 at once
    ///
    /// By default such counts are taken for an outage of the counting and are not used.
    #[arg(long, help_heading = "Demand")]
    pub(crate) outages_are_idle: bool,
    /// GPUs of a node [default: gpus_per_node of --constants, else the mean of the nodes with GPUs of --cluster or of the inventory, else 8]
    #[arg(long, value_name = "GPUS", help_heading = "Demand")]
    pub(crate) gpus_per_node: Option<f64>,
    /// Length of a boot in slots, such as 0.5 or 2 [default: from boot_s of --constants]
    ///
    /// The default is boot_s divided by the length of a slot. A node that is woken for a slot begins to boot with it, and serves nobody while it boots.
    #[arg(long, value_name = "SLOTS", value_parser = slots, help_heading = "Demand")]
    pub(crate) boot_slots: Option<f64>,
    /// File (TOML) with the power that nodes draw, and with what energy, waits and wakes cost
    ///
    /// It has the tables `[power]`, with keys such as idle_w, off_w and boot_s, and `[worth]`, with price_kwh, gpu_hour and wear_h. Every key
    /// is optional. By default an idle node draws 155 W for each of its GPUs and a sleeping node draws 20 W.
    #[arg(long, value_name = "TOML", help_heading = "Demand")]
    pub(crate) constants: Option<PathBuf>,
}

impl Nodes {
    /// The request for this demand, with the file of constants read.
    pub(crate) fn request(&self) -> Result<PowerRequest> {
        let figures = match &self.constants {
            None => SaidFigures::default(),
            Some(path) => SaidFigures::parse(&path.display().to_string(), &source::text(path)?)?,
        };
        Ok(PowerRequest {
            demand: Demanded {
                slot_ms: self.slot,
                vcs: self.vc.clone(),
                pending: self.pending,
                outages_are_idle: self.outages_are_idle,
                gpus_per_node: self.gpus_per_node,
            },
            by_vc: self.by_vc,
            boot_slots: self.boot_slots,
            figures,
            ..PowerRequest::default()
        })
    }
}

/// Who carries the plan out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Emit {
    /// Slurm: a diff of slurm.conf, and the programs that suspend and resume nodes
    Slurm,
    /// Program for Slurm that asks the plan of --save every slot (`decide power`) and wakes nodes or puts them to sleep
    Loop,
    /// Schedule of the next day as JSON lines
    Actions,
    /// Node pools of Karpenter (Kubernetes)
    Karpenter,
    /// Values of the cluster-autoscaler (Kubernetes)
    ClusterAutoscaler,
}

impl Audience for Emit {
    const WHAT: &'static str = "Systems for which configuration is written into --emit-to, separated by commas [default: actions, if --emit-to is given]";

    fn unnamed() -> &'static [Self] {
        &[Self::Actions]
    }
}

/// One invocation that works, for the end of the help.
const EXAMPLE: &str = "\
Example, the bundled sample, with a report in HTML and a plan for `tracecast decide power`:
  tracecast plan power datasets/sample --format html --out power.html --save sample.plan";

#[derive(Debug, Args)]
#[command(after_help = format!("{EXAMPLE}\n\n{TIMES}"))]
pub(crate) struct PlanPower {
    /// Trace with jobs, or with counts of nodes or GPUs in use: files, folders or patterns, or a trace folder
    #[arg(required = true, value_name = "SOURCE")]
    pub(crate) sources: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: Reading,
    #[command(flatten)]
    pub(crate) demand: Nodes,
    /// Learn from slots from this time on [default: from the beginning of the data]
    #[arg(long, value_name = "TIME", value_parser = Written::parse, allow_hyphen_values = true, help_heading = "Evaluation")]
    pub(crate) fit_from: Option<Written>,
    /// Test on slots from this time on, and learn from those before it [default: the last quarter of the data]
    #[arg(long, value_name = "TIME", value_parser = Written::parse, allow_hyphen_values = true, help_heading = "Evaluation")]
    pub(crate) eval_from: Option<Written>,
    /// Test on slots before this time, where a date includes that day [default: to the end of the data]
    #[arg(long, value_name = "TIME", value_parser = Written::parse, allow_hyphen_values = true, help_heading = "Evaluation")]
    pub(crate) eval_to: Option<Written>,
    /// Service to promise, such as 3,30 [default: none; the cheapest rule is chosen]
    ///
    /// A service is the most unserved node-slots and the most node-wakes a day. A node-slot is unserved if a node was needed in a slot and
    /// none was ready. A node-wake is one wake of one node. As many nodes sleep as the promise allows.
    #[arg(long, value_name = "UNSERVED,WAKES", value_parser = service, help_heading = "Evaluation")]
    pub(crate) service: Option<Service>,
    /// Published thresholds of the rule CES, which the plan is compared with [default: philly for Philly, else earth]
    ///
    /// CES (cluster energy saving) was published with the Helios traces.
    #[arg(long, value_enum, value_name = "WHOSE", help_heading = "Evaluation")]
    pub(crate) ces: Option<Ces>,
    /// Hourly prices of electricity (CSV) [default: price_kwh of --constants in every hour]
    ///
    /// The columns are `Datetime (UTC)` and `Price (EUR/MWh)`. Another currency, or /kWh, may stand in the heading.
    #[arg(long, value_name = "FILE", help_heading = "Energy")]
    pub(crate) price: Option<PathBuf>,
    /// Hourly carbon intensity of the grid (CSV of Electricity Maps)
    #[arg(long, value_name = "FILE", help_heading = "Energy")]
    pub(crate) carbon: Option<PathBuf>,
    /// Grid zone to use if the file of --carbon covers several zones
    #[arg(long, value_name = "ZONE", requires = "carbon", help_heading = "Energy")]
    pub(crate) zone: Option<String>,
    /// What makes sleep worth more in one hour than in another [default: price with --price, else carbon with --carbon, else no]
    ///
    /// The choice of a rule and the optimum weigh the hours by it.
    #[arg(long, value_enum, value_name = "BY", help_heading = "Energy")]
    pub(crate) weigh: Option<WeighBy>,
    /// Cluster file (TOML) with the nodes of each VC: the plan is for these nodes, and the jobs are replayed on them
    ///
    /// The nodes of the file count, whatever the source records. The replay shows how much longer jobs wait when only the powered nodes take
    /// them. Without this option, the plan is for the nodes that the source records, and nothing is replayed.
    #[arg(long, value_name = "TOML", help_heading = "Jobs")]
    pub(crate) cluster: Option<PathBuf>,
    /// What happens in that replay when a job does not fit: strict, skip, easy or conservative
    ///
    /// With strict, no later job starts. With skip, later jobs that fit may start. The values easy and
    /// conservative are kinds of backfill.
    #[arg(long, value_name = "SCAN", requires = "cluster", default_value = "easy", help_heading = "Jobs")]
    pub(crate) scan: String,
    /// Save the plan to this file, fitted on all days, for `tracecast decide power`
    #[arg(long, value_name = "FILE", help_heading = "Configuration")]
    pub(crate) save: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) emitting: Emitting<Emit>,
    /// Your own slurm.conf (its name ends in .conf): --emit slurm needs it for its patch, and --emit loop takes the partitions of the nodes from it
    #[arg(long, value_name = "FILE", requires = "emit_to", help_heading = "Configuration")]
    pub(crate) against: Option<PathBuf>,
    /// Version of Slurm at the site, such as 23.11 [default: 22.05, or newer if slurm.conf needs it]
    #[arg(long, value_name = "VERSION", help_heading = "Configuration")]
    pub(crate) slurm_version: Option<String>,
    /// Host names of all planned nodes, as slurm.conf writes them, such as `gpu[01-52]`
    #[arg(long, value_name = "HOSTLIST", value_parser = host_list, help_heading = "Configuration")]
    pub(crate) host_list: Option<String>,
    /// Host names of nodes that must never sleep, written in the same way
    #[arg(long, value_name = "HOSTLIST", value_parser = host_list, help_heading = "Configuration")]
    pub(crate) canaries: Option<String>,
    #[command(flatten)]
    pub(crate) answering: Answering,
    /// Write each chart of the answer into this folder, as SVG and as PNG
    #[arg(long, value_name = "FOLDER", help_heading = "Answer")]
    pub(crate) charts: Option<PathBuf>,
}

fn slots(text: &str) -> Result<f64, &'static str> {
    let slots = text.trim().parse().ok().filter(|slots: &f64| slots.is_finite() && *slots >= 0.0);
    slots.ok_or("write a number of slots, such as 0.5 or 2")
}

pub(crate) fn service(text: &str) -> Result<Service, &'static str> {
    let number = |part: &str| part.trim().parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0);
    let pair = text.split_once(',').and_then(|(unserved, wakes)| Some((number(unserved)?, number(wakes)?)));
    let (unserved_per_day, node_wakes_per_day) =
        pair.ok_or("write two numbers with a comma between them, such as 3,30")?;
    Ok(Service { unserved_per_day, node_wakes_per_day })
}

pub(crate) fn run(asked: &PlanPower, quiet: bool) -> Result<()> {
    if asked.emitting.readers().contains(&Emit::Slurm) && asked.against.is_none() {
        let what = "--emit slurm writes a patch to the site's slurm.conf; name that file with --against";
        return Err(Usage(what.to_owned()).into());
    }
    if asked.emitting.readers().contains(&Emit::Loop) && asked.save.is_none() {
        let what = "--emit loop writes a program that asks the saved plan; name the file for it with --save";
        return Err(Usage(what.to_owned()).into());
    }
    // What was typed and the files that were named, before the trace is read.
    let checked = asked.answering.check("plan-power", &[&asked.save])?;
    asked.answering.replacing.folders([&asked.charts, &asked.emitting.emit_to])?;
    let request = asked.request()?;
    let options = asked.options()?;
    let trace = source::open_whole(&asked.sources, &asked.reading, quiet, NODES_OF_ALL)?;
    let say = |what: &str| output::say(quiet, &format!("tracecast: {what}"));
    let steps = Steps::watching(quiet, "learning demand and planning");
    let (answer, saved) = evaluate::evaluate(&trace, describe::title(&trace, &asked.sources), &request, &say, &steps)?;
    drop(steps);
    if let Some(path) = &asked.save {
        output::write(path, &saved.to_bytes()?)?;
        say(&format!("plan written to {}", path.display()));
    }
    emit(asked, options, &answer, quiet)?;
    checked.write(asked.charts.as_deref(), quiet, || answer.report(), || answer::json(&answer, "the answer"))
}

impl PlanPower {
    /// The request, with the files that it names read.
    fn request(&self) -> Result<PowerRequest> {
        Window::new(EVALUATED, self.eval_from.as_ref(), self.eval_to.as_ref())?;
        let price = self.price.as_deref().map(Hourly::price_file).transpose()?;
        let carbon = self.carbon.as_deref();
        let carbon = carbon.map(|path| Hourly::carbon_file(path, self.zone.as_deref(), Method::Direct)).transpose()?;
        let (price, currency) = price.unzip();
        let hours = Hours { price, currency, carbon };
        let weigh = self.weigh.map(|by| match by {
            WeighBy::Price => Weigh::Price,
            WeighBy::Carbon => Weigh::Carbon,
            WeighBy::No => Weigh::Nothing,
        });
        hours.weighing(weigh)?;
        let replay = match &self.cluster {
            None => None,
            Some(path) => {
                let policy = Scenario { scan: Some(self.scan.clone()), ..Scenario::default() }.policy(false)?;
                Some(Replayed { site: source::site(path)?, policy })
            }
        };
        // A node that is named twice is one node.
        let named = |written: &String| Some((hosts::expand(written).ok()?.into_iter().collect(), written.clone()));
        Ok(PowerRequest {
            fit_from: self.fit_from.clone(),
            eval_from: self.eval_from.clone(),
            eval_to: self.eval_to.clone(),
            service: self.service,
            ces: self.ces.map(|whose| match whose {
                Ces::Philly => Thresholds::PHILLY,
                Ces::Earth => Thresholds::EARTH,
            }),
            hours,
            weigh,
            replay,
            nodes: self.host_list.as_ref().and_then(named),
            canaries: self.canaries.clone(),
            ..self.demand.request()?
        })
    }

    /// What configurations are written with.
    fn options(&self) -> Result<ConfigOptions> {
        let mut options = ConfigOptions::default();
        let reads = |emit: &Emit| matches!(emit, Emit::Slurm | Emit::Loop);
        let own = own_files(self.against.as_slice(), self.emitting.emit_to.as_deref(), |is_slurm| match is_slurm {
            true if self.emitting.readers().iter().any(reads) => None,
            true => Some("--emit names neither slurm nor loop, who would read it"),
            false => Some("only slurm.conf (its name ends in .conf) is patched"),
        })?;
        for OwnFile { name, text, .. } in own {
            (options.slurm.conf_name, options.slurm.conf) = (name, text);
        }
        if let Some(version) = &self.slurm_version {
            let version = config::slurm::Version::parse(version);
            let what =
                || format!("`{}` is no version of Slurm; write 23.11", self.slurm_version.as_deref().unwrap_or(""));
            options.slurm.version = Some(version.with_context(what)?);
        }
        Ok(options)
    }
}

fn emit(request: &PlanPower, mut options: ConfigOptions, answer: &PowerAnswer, quiet: bool) -> Result<()> {
    let of = |target: &Emit| match target {
        Emit::Slurm => Target::Slurm,
        Emit::Loop => Target::Loop,
        Emit::Actions => Target::Actions,
        Emit::Karpenter => Target::Karpenter,
        Emit::ClusterAutoscaler => Target::ClusterAutoscaler,
    };
    let targets: Vec<Target> = request.emitting.readers().iter().map(of).collect();
    let Some(folder) = request.emitting.folder(answer.refused(&targets)) else { return Ok(()) };
    options.beside_loop = targets.contains(&Target::Loop);
    let saved = request.save.as_ref().and_then(|path| path.file_name());
    options.plan_file = saved.map(|name| name.to_string_lossy().into_owned());
    if let Some(pooled) = answer.pooled_in_words() {
        output::say(quiet, &format!("tracecast: {}", pooled.replace("**", "")));
    }
    let mut notes = answer.plan_in_words(&targets);
    let mut files: Vec<Emitted> = Vec::new();
    for target in targets {
        let plan = if target == Target::Slurm { &answer.slurm_plan } else { &answer.plan };
        let rendered = config::render(plan, target, &options)?;
        for warning in rendered.warnings.iter().map(|warning| format!("{}: {warning}", target.name())) {
            output::say(quiet, &format!("tracecast: {warning}"));
            notes.push(warning);
        }
        // Karpenter and the autoscaler have some of the same name.
        files.retain(|(name, _)| rendered.files.iter().all(|(other, _)| other != name));
        files.extend(rendered.files);
    }
    files.push(("NOTES.txt".to_owned(), notes.join("\n\n") + "\n"));
    output::emitted(folder, &files, quiet)?;
    let programs = files.iter().map(|(name, _)| folder.join(name));
    programs.filter(|path| path.extension().is_some_and(|kind| kind == "sh")).try_for_each(|path| executable(&path))
}

#[cfg(unix)]
fn executable(path: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))
        .with_context(|| format!("make {} a program", path.display()))
}

#[cfg(not(unix))]
fn executable(_path: &Path) -> Result<()> {
    Ok(())
}
