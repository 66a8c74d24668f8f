//! `tracecast plan power`, also with --test.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};
use tracecast_analytics::audit::factors::{Hourly, Method};
use tracecast_analytics::report::format;
use tracecast_analytics::time::{DAY_MS, Window, Written};
use tracecast_planner::plan::Emitted;
use tracecast_planner::plan::emit::own::OwnFile;
use tracecast_planner::plan::emit::slurm::hosts;
use tracecast_planner::power::answer::{self as found, PowerAnswer};
use tracecast_planner::power::evaluate;
use tracecast_planner::power::forward::config::{self, ConfigOptions, Target};
use tracecast_planner::power::request::{Demanded, EVALUATED, Hours, PowerRequest, Replayed, SaidFigures, Weigh};
use tracecast_planner::power::rolling::PowerBacktestAnswer;
use tracecast_planner::power::rule::ces::Thresholds;
use tracecast_planner::power::score::service::Service;
use tracecast_planner::replay::scenario::Scenario;

use crate::args::{NODES_OF_ALL, Reading, TIMES, duration, entries};
use crate::cmd::answer::{self, Charting};
use crate::cmd::emitting::{Audience, Emitting, host_list, own_files};
use crate::cmd::site::SiteArguments;
use crate::cmd::trained::Models;
use crate::cmd::{backtest_demand, describe};
use crate::exit::Usage;
use crate::progress::Steps;
use crate::{output, source};

/// Whose published thresholds CES takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Ces {
    /// Thresholds for Philly
    Philly,
    /// Thresholds for Earth, a cluster of Helios
    Earth,
}

/// Weight of the hours of sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum WeighBy {
    /// Price of electricity in the hour
    Price,
    /// Carbon intensity in the hour
    Carbon,
    /// Nothing: all hours weigh the same
    No,
}

/// Demand that is planned for, and the power that nodes draw.
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
    /// Count what waiting jobs need as demand, up to the nodes there are [default: only what is in
    /// use]
    #[arg(long, help_heading = "Demand")]
    pub(crate) pending: bool,
    /// Count the nodes as idle when the whole cluster falls from busy to 0 at once
    ///
    /// By default such counts are taken for an outage of the counting and are not used.
    #[arg(long, help_heading = "Demand")]
    pub(crate) outages_are_idle: bool,
    /// GPUs of a node [default: gpus_per_node of --constants, else the mean of the nodes with GPUs
    /// of --site or of the inventory, else 8]
    #[arg(long, value_name = "GPUS", help_heading = "Demand")]
    pub(crate) gpus_per_node: Option<f64>,
    /// Length of a boot in slots, such as 0.5 or 2 [default: from boot_s of --constants]
    ///
    /// The default is boot_s divided by the length of a slot. A node that is woken for a slot
    /// begins to boot with it, and serves nobody while it boots.
    #[arg(long, value_name = "SLOTS", value_parser = slots, help_heading = "Demand")]
    pub(crate) boot_slots: Option<f64>,
    /// File (TOML) with the power that nodes draw, and with what energy, waits and wakes cost
    ///
    /// It has the tables `[power]`, with keys such as idle_w, off_w and boot_s, and `[worth]`, with
    /// price_kwh, gpu_hour and wear_h. Every key is optional. By default an idle node draws 155 W
    /// for each of its GPUs and a sleeping node draws 20 W.
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

/// Reader of the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Emit {
    /// Slurm: a diff of slurm.conf, and the programs that suspend and resume nodes
    Slurm,
    /// Program for Slurm that asks the plan of --save every slot (`decide power`) and wakes nodes
    /// or puts them to sleep
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

/// Examples for the end of the help.
const EXAMPLE: &str = "\
Example, the bundled sample, with a report in HTML and a plan for `tracecast decide power`:
  tracecast plan power datasets/sample --format html --out power.html --save sample.plan
Example, promises for each week of the bundled sample, and whether they were kept:
  tracecast plan power --test datasets/sample --windows 7d";

#[derive(Debug, Args)]
#[command(after_help = format!("{EXAMPLE}\n\n{TIMES}"))]
pub(crate) struct PlanPower {
    /// Trace with jobs, or with counts of nodes or GPUs in use: files, folders or patterns, or a
    /// trace folder
    #[arg(required = true, value_name = "SOURCE")]
    pub(crate) sources: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: Reading,
    #[command(flatten)]
    pub(crate) demand: Nodes,
    /// Learn from slots from this time on [default: from the beginning of the data]
    #[arg(long, value_name = "TIME", value_parser = Written::parse, allow_hyphen_values = true, help_heading = "Evaluation")]
    pub(crate) fit_from: Option<Written>,
    /// Test on what comes from this time on, and choose on what is before it [default: the last
    /// quarter of the data]
    #[arg(long, value_name = "TIME", value_parser = Written::parse, allow_hyphen_values = true, help_heading = "Evaluation")]
    pub(crate) eval_from: Option<Written>,
    /// Test on slots before this time, where a date includes that day [default: to the end of the
    /// data]
    #[arg(long, value_name = "TIME", value_parser = Written::parse, allow_hyphen_values = true, help_heading = "Evaluation")]
    pub(crate) eval_to: Option<Written>,
    /// Check on past windows whether power plans would have kept what they promise
    ///
    /// The data are cut into windows. Each window is planned with the data before it, and the
    /// answer compares the promise with what came.
    #[arg(long, conflicts_with_all = ["fit_from", "eval_from", "eval_to", "ces", "price", "carbon", "zone", "weigh", "site", "save", "emit", "emit_to", "against", "slurm_version", "host_list", "canaries"], help_heading = "Evaluation")]
    pub(crate) test: bool,
    /// Length of the windows of --test, from 1d to 366d
    #[arg(long, value_name = "TIME", value_parser = window, requires = "test", default_value = "14d", help_heading = "Evaluation")]
    pub(crate) windows: i64,
    /// Service to promise, such as 3,30; with --test it may be repeated [default: none, the
    /// cheapest rule is chosen; with --test four usual services]
    ///
    /// A service is the most unserved node-slots and the most node-wakes a day. A node-slot is
    /// unserved if a node was needed in a slot and none was ready. A node-wake is one wake of one
    /// node. As many nodes sleep as the promise allows.
    #[arg(long, value_name = "UNSERVED,WAKES", value_parser = service, help_heading = "Evaluation")]
    pub(crate) promise: Vec<Service>,
    /// Published thresholds of the rule CES, which the plan is compared with [default: philly for
    /// Philly, else earth]
    ///
    /// CES (cluster energy saving) was published with the Helios traces.
    #[arg(long, value_enum, value_name = "WHOSE", help_heading = "Evaluation")]
    pub(crate) ces: Option<Ces>,
    /// Hourly prices of electricity (CSV) [default: price_kwh of --constants in every hour]
    ///
    /// The columns are `Datetime (UTC)` and `Price (EUR/MWh)`. Another currency, or /kWh, may stand
    /// in the heading.
    #[arg(long, value_name = "FILE", help_heading = "Energy")]
    pub(crate) price: Option<PathBuf>,
    /// Hourly carbon intensity of the grid (CSV of Electricity Maps)
    #[arg(long, value_name = "CSV", help_heading = "Energy")]
    pub(crate) carbon: Option<PathBuf>,
    /// Grid zone to use if the file of --carbon covers several zones
    #[arg(long, value_name = "ZONE", requires = "carbon", help_heading = "Energy")]
    pub(crate) zone: Option<String>,
    /// What makes sleep worth more in one hour than in another [default: price with --price, else
    /// carbon with --carbon, else no]
    ///
    /// The choice of a rule and the optimum weigh the hours by it.
    #[arg(long, value_enum, value_name = "BY", help_heading = "Energy")]
    pub(crate) weigh: Option<WeighBy>,
    #[command(flatten)]
    pub(crate) site: SiteArguments,
    /// What happens in the replay on the nodes of --site when a job does not fit: strict, skip,
    /// easy or conservative [default: easy]
    ///
    /// With strict, no later job starts. With skip, later jobs that fit may start. The values easy
    /// and conservative are kinds of backfill.
    #[arg(long, value_name = "SCAN", help_heading = "Jobs")]
    pub(crate) scan: Option<String>,
    /// Save the plan to this file, fitted on all days, for `tracecast decide power`
    #[arg(long, value_name = "PATH", help_heading = "Configuration")]
    pub(crate) save: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) emitting: Emitting<Emit>,
    /// Your own slurm.conf (its name ends in .conf): --emit slurm needs it for its patch, and
    /// --emit loop takes the partitions of the nodes from it
    #[arg(long, value_name = "FILE", requires = "emit_to", help_heading = "Configuration")]
    pub(crate) against: Option<PathBuf>,
    /// Version of Slurm at the site, such as 23.11 [default: 22.05, or newer if slurm.conf needs
    /// it]
    #[arg(long, value_name = "VERSION", help_heading = "Configuration")]
    pub(crate) slurm_version: Option<String>,
    /// Host names of all planned nodes, as slurm.conf writes them, such as `gpu[01-52]`
    #[arg(long, value_name = "HOSTLIST", value_parser = host_list, help_heading = "Configuration")]
    pub(crate) host_list: Option<String>,
    /// Host names of nodes that must never sleep, written in the same way
    #[arg(long, value_name = "HOSTLIST", value_parser = host_list, help_heading = "Configuration")]
    pub(crate) canaries: Option<String>,
    #[command(flatten)]
    pub(crate) models: Models,
    #[command(flatten)]
    pub(crate) charting: Charting,
}

fn slots(text: &str) -> Result<f64, &'static str> {
    let slots = text.trim().parse().ok().filter(|slots: &f64| slots.is_finite() && *slots >= 0.0);
    slots.ok_or("write a number of slots, such as 0.5 or 2")
}

fn service(text: &str) -> Result<Service, &'static str> {
    let number = |part: &str| part.trim().parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0);
    let pair = text.split_once(',').and_then(|(unserved, wakes)| Some((number(unserved)?, number(wakes)?)));
    let (unserved_per_day, node_wakes_per_day) =
        pair.ok_or("write two numbers with a comma between them, such as 3,30")?;
    Ok(Service { unserved_per_day, node_wakes_per_day })
}

fn window(text: &str) -> Result<i64, String> {
    let result = duration(text)?;
    if (DAY_MS..=366 * DAY_MS).contains(&result) {
        Ok(result)
    } else {
        Err("a window must be 1d to 366d long".to_owned())
    }
}

/// Plans window after window with the data before it, and compares what was promised with what
/// came.
fn test(arguments: &PlanPower, quiet: bool) -> Result<()> {
    let checked = arguments.charting.check("plan-power-test", &[])?;
    let request = arguments.demand.request()?;
    let trace = source::open_whole(&arguments.sources, &arguments.reading, quiet, NODES_OF_ALL)?;
    let services = if arguments.promise.is_empty() { Service::USUAL.to_vec() } else { arguments.promise.clone() };
    let say = |series: usize| {
        let what = format::counted(series as u64, "series", "series");
        output::say(quiet, &format!("tracecast: promises on {what} …"));
    };
    let title = describe::title(&trace, &arguments.sources);
    let steps = Steps::watching(quiet, "planning window after window");
    let answer = PowerBacktestAnswer::new(&trace, title, &request, arguments.windows, &services, &say, &steps)?;
    drop(steps);
    checked.write(quiet, || answer.report(), || answer::json(&answer, "the answer"))
}

pub(crate) fn run(arguments: &PlanPower, quiet: bool) -> Result<()> {
    if arguments.test {
        return test(arguments, quiet);
    }
    if arguments.promise.len() > 1 {
        return Err(Usage("a plan promises one service; --test compares several".to_owned()).into());
    }
    if arguments.emitting.readers().contains(&Emit::Loop) && arguments.save.is_none() {
        let what = "--emit loop writes a program that asks the saved plan; name the file for it with --save";
        return Err(Usage(what.to_owned()).into());
    }
    // What was typed and the files that were named, before the trace is read.
    let checked = arguments.charting.check("plan-power", &[&arguments.save])?;
    arguments.charting.answering.replacing.folders([&arguments.emitting.emit_to])?;
    let request = arguments.request()?;
    let options = arguments.options()?;
    let unused = arguments.models.unused("chances of demand are learned from the days before those of the test")?;
    let trace = source::open_whole(&arguments.sources, &arguments.reading, quiet, NODES_OF_ALL)?;
    let say = |what: &str| output::say(quiet, &format!("tracecast: {what}"));
    let steps = Steps::watching(quiet, "learning demand and planning");
    let (mut answer, saved) =
        evaluate::evaluate(&trace, describe::title(&trace, &arguments.sources), &request, &say, &steps)?;
    drop(steps);
    answer.notes.extend(unused);
    if let Some(path) = &arguments.save {
        output::write(path, &saved.to_bytes()?)?;
        say(&format!("plan written to {}", path.display()));
        if !answer.is_advised() {
            output::warn("no change is advised; the saved plan still says what its rule would do, slot by slot");
        }
    }
    let emitted = emit(arguments, options, &answer, quiet);
    checked.write(quiet, || found::report(&answer), || answer::json(&answer, "the answer"))?;
    emitted
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
        let input = self.site.read()?;
        input.warn_of_others(&[]);
        let replay = match input.site().cloned() {
            None if self.scan.is_some() => {
                return Err(
                    Usage("--scan is of the replay on the nodes of --site; name the site as well".to_owned()).into()
                );
            }
            None => None,
            Some(site) => {
                let policy =
                    Scenario { scan: self.scan.clone().or_else(|| Some("easy".to_owned())), ..Scenario::default() }
                        .policy(false)?;
                Some(Replayed { site, policy })
            }
        };
        // A node that is named twice is one node.
        let named = |written: &String| Some((hosts::expand(written).ok()?.into_iter().collect(), written.clone()));
        Ok(PowerRequest {
            naive: self.models.is_naive(),
            fit_from: self.fit_from.clone(),
            eval_from: self.eval_from.clone(),
            eval_to: self.eval_to.clone(),
            service: self.promise.first().copied(),
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

    /// Options that configurations are written with.
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
    let Some(folder) = request.emitting.folder(found::refused(answer, &targets)) else { return Ok(()) };
    // Not before: where nothing is advised, no file of the site is needed.
    if targets.contains(&Target::Slurm) && request.against.is_none() {
        let what = "--emit slurm writes a patch to the site's slurm.conf; name that file with --against";
        return Err(Usage(what.to_owned()).into());
    }
    options.beside_loop = targets.contains(&Target::Loop);
    let saved = request.save.as_ref().and_then(|path| path.file_name());
    options.plan_file = saved.map(|name| name.to_string_lossy().into_owned());
    if let Some(pooled) = found::pooled_in_words(&answer.trial) {
        output::say(quiet, &format!("tracecast: {}", pooled.replace("**", "")));
    }
    let mut notes = found::plan_in_words(answer, &targets);
    let mut files: Vec<Emitted> = Vec::new();
    for target in targets {
        let plan = if target == Target::Slurm { &answer.body.slurm_plan } else { &answer.body.plan };
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
