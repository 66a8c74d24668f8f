//! `tracecast plan power`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::{Args, Parser as _, Subcommand, ValueEnum};
use serde::Deserialize;
use tracecast_analytics::audit::factors::{Hourly, Method};
use tracecast_analytics::ingest::slurm::hostlist;
use tracecast_analytics::report::{Section, format};
use tracecast_analytics::time::{self, DAY_MS, HOUR_MS, Written, Zone};
use tracecast_analytics::{Trace, schema::Table as _};
use tracecast_planner::power::answer::{Answer, ByHour, Pool, Resimulated, SCHEMA, Together};
use tracecast_planner::power::apply::{self, Chosen, Replay};
use tracecast_planner::power::ces::Thresholds;
use tracecast_planner::power::choice::LEAST_BLOCKS;
use tracecast_planner::power::config::{self, Target};
use tracecast_planner::power::family::Family;
use tracecast_planner::power::plan::{Action, PoolPlan, PowerPlan};
use tracecast_planner::power::resim::{self, Constants, PerHour};
use tracecast_planner::power::score::Worth;
use tracecast_planner::power::study::{self, Request, Service, Studied};
use tracecast_planner::power::tariff::Rates;
use tracecast_planner::power::yearly::Yearly;
use tracecast_planner::replay::input::{self};
use tracecast_planner::replay::scenario::Scenario;
use tracecast_planner::sim::Policy;
use tracecast_predictors::demand::gather::{self, Asked, Gathered};
use tracecast_predictors::demand::{Series, Unit};

use crate::args::{Reading, TIMES};
use crate::cmd::answer::{self, Answering};
use crate::cmd::{Arguments, Command, backtest_demand, describe};
use crate::{early, output, source};

/// What to plan.
#[derive(Debug, Subcommand)]
pub(crate) enum Plan {
    /// Which nodes can sleep when: rules fitted on the past, held against the days after it and the exact optimum
    Power(Box<PlanPower>),
}

/// Whose published thresholds CES takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Ces {
    /// Those for Philly
    Philly,
    /// Those for Helios' Earth
    Earth,
}

/// What makes an hour of sleep worth more than another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Weigh {
    /// Its price
    Price,
    /// Its carbon intensity
    Carbon,
    /// Nothing
    No,
}

/// Rates of energy, hour by hour.
#[derive(Debug, Default)]
struct Hours {
    /// Money for a kWh.
    price: Option<Hourly>,
    /// What the prices are in.
    currency: Option<String>,
    /// Grams of CO₂ for a kWh.
    carbon: Option<Hourly>,
}

impl Hours {
    fn read(request: &PlanPower) -> Result<Self> {
        let price = request.price.as_deref().map(Hourly::price_file).transpose()?;
        let carbon = request.carbon.as_deref();
        let carbon =
            carbon.map(|path| Hourly::carbon_file(path, request.zone.as_deref(), Method::Direct)).transpose()?;
        let (price, currency) = price.unzip();
        Ok(Self { price, currency, carbon })
    }

    /// What hours are weighed by.
    fn weighing(&self, request: &PlanPower) -> Result<Option<(&'static str, &Hourly)>> {
        let chosen = match request.weigh {
            Some(chosen) => chosen,
            None if self.price.is_some() => Weigh::Price,
            None if self.carbon.is_some() => Weigh::Carbon,
            None => Weigh::No,
        };
        Ok(match chosen {
            Weigh::No => None,
            Weigh::Price => {
                Some(("price", self.price.as_ref().context("to weigh by price, name hourly prices with --price")?))
            }
            Weigh::Carbon => Some((
                "carbon",
                self.carbon.as_ref().context("to weigh by carbon, name its hourly intensity with --carbon")?,
            )),
        })
    }

    /// By slot of the series.
    fn rates(by: Option<(&str, &Hourly)>, series: &Series) -> Rates {
        let Some((name, by)) = by else { return Rates::default() };
        let by_slot = (0..series.slots.len()).map(|slot| by.at(series.time_ms(slot)));
        Rates { by_slot: by_slot.collect(), are_money: name == "price" }
    }

    /// The rate by hour from `from_ms` to `to_ms`, for a replay.
    fn by_hour(rate: &Hourly, from_ms: i64, to_ms: i64) -> (i64, Vec<Option<f64>>) {
        let first = from_ms.div_euclid(HOUR_MS) * HOUR_MS;
        let hours = usize::try_from((to_ms - first) / HOUR_MS + 1).unwrap_or(0);
        let hours = (0..hours).map(|hour| rate.at(first + HOUR_MS * i64::try_from(hour).unwrap_or(0)));
        (first, hours.collect())
    }
}

/// Who carries the plan out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Emit {
    /// slurm.conf as a diff, with the suspend and resume programs
    Slurm,
    /// The schedule as JSON lines
    Actions,
    /// Karpenter node pools
    Karpenter,
    /// Values of the cluster-autoscaler
    ClusterAutoscaler,
}

#[derive(Debug, Args)]
#[command(after_help = TIMES)]
pub(crate) struct PlanPower {
    /// Files, folders or patterns; or one trace folder: counts of nodes or GPUs in use, or jobs
    #[arg(required = true, value_name = "SOURCE")]
    pub(crate) sources: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: Reading,
    /// Length of a slot (such as 10min, 1h)
    #[arg(long, value_name = "TIME", value_parser = backtest_demand::length, default_value = "10min", help_heading = "Demand")]
    pub(crate) slot: i64,
    /// Only these VCs, and the pool of them
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help_heading = "Demand")]
    pub(crate) vc: Vec<String>,
    /// Each VC on nodes of its own, too, and not only all nodes as one pool
    #[arg(long, help_heading = "Demand")]
    pub(crate) by_vc: bool,
    /// Count what waits as demand, up to what there is
    #[arg(long, help_heading = "Demand")]
    pub(crate) pending: bool,
    /// Take a whole cluster at 0 between busy samples as idle, not as an outage of the counting
    #[arg(long, help_heading = "Demand")]
    pub(crate) outages_are_idle: bool,
    /// GPUs of a node [default: gpus_per_node of the constants, else as most nodes of the inventory, else 8]
    #[arg(long, value_name = "GPUS", help_heading = "Demand")]
    pub(crate) gpus_per_node: Option<f64>,
    /// Learn from slots from this time on [default: from the beginning]
    #[arg(long, value_name = "TIME", value_parser = Written::parse, allow_hyphen_values = true, help_heading = "Evaluation")]
    pub(crate) fit_from: Option<Written>,
    /// Evaluate slots from this time on, and learn from those before it [default: the last quarter]
    #[arg(long, value_name = "TIME", value_parser = Written::parse, allow_hyphen_values = true, help_heading = "Evaluation")]
    pub(crate) eval_from: Option<Written>,
    /// Evaluate slots before this time; a bare date is in to its end [default: to the end]
    #[arg(long, value_name = "TIME", value_parser = Written::parse, allow_hyphen_values = true, help_heading = "Evaluation")]
    pub(crate) eval_to: Option<Written>,
    /// Slots that a node takes to boot beyond the one it is woken for [default: as boot_s of the constants has it]
    #[arg(long, value_name = "SLOTS", help_heading = "Evaluation")]
    pub(crate) boot_slots: Option<usize>,
    /// Choose the most sleep within UNSERVED node-slots and WAKES node-wakes a day, instead of the cheapest
    #[arg(long, value_name = "UNSERVED,WAKES", value_parser = service, help_heading = "Evaluation")]
    pub(crate) service: Option<Service>,
    /// Whose published thresholds CES takes [default: philly for Philly, else earth]
    #[arg(long, value_enum, value_name = "WHOSE", help_heading = "Evaluation")]
    pub(crate) ces: Option<Ces>,
    /// What nodes draw and what things are worth: the tables power and worth of a TOML file
    #[arg(long, value_name = "TOML", help_heading = "Evaluation")]
    pub(crate) constants: Option<PathBuf>,
    /// Hourly prices of electricity, as `audit` reads them [default: price_kwh of the constants, at all hours]
    #[arg(long, value_name = "FILE", help_heading = "Energy")]
    pub(crate) price: Option<PathBuf>,
    /// Hourly carbon intensity in Electricity Maps' form
    #[arg(long, value_name = "FILE", help_heading = "Energy")]
    pub(crate) carbon: Option<PathBuf>,
    /// Its zone, if it has several
    #[arg(long, value_name = "ZONE", requires = "carbon", help_heading = "Energy")]
    pub(crate) zone: Option<String>,
    /// Weigh the hours for the choice and the optimum [default: by price if one is given, else by carbon if it is]
    #[arg(long, value_enum, value_name = "BY", help_heading = "Energy")]
    pub(crate) weigh: Option<Weigh>,
    /// Nodes of each VC: runs the scheduler again on the powered nodes
    #[arg(long, value_name = "TOML", help_heading = "Jobs")]
    pub(crate) cluster: Option<PathBuf>,
    /// How its queue is walked: strict, skip, easy, conservative
    #[arg(long, value_name = "SCAN", requires = "cluster", default_value = "easy", help_heading = "Jobs")]
    pub(crate) scan: String,
    /// Write the plan for these
    #[arg(
        long,
        value_enum,
        value_name = "TARGETS",
        value_delimiter = ',',
        requires = "emit_to",
        help_heading = "Configuration"
    )]
    pub(crate) emit: Vec<Emit>,
    /// Folder for it
    #[arg(long, value_name = "FOLDER", help_heading = "Configuration")]
    pub(crate) emit_to: Option<PathBuf>,
    /// The site's slurm.conf
    #[arg(long, value_name = "FILE", help_heading = "Configuration")]
    pub(crate) slurm_conf: Option<PathBuf>,
    /// Its Slurm's version, such as 23.11 [default: 22.05]
    #[arg(long, value_name = "VERSION", help_heading = "Configuration")]
    pub(crate) slurm_version: Option<String>,
    /// The nodes of the plan, as slurm.conf names them: gpu[01-52]
    #[arg(long, value_name = "HOSTLIST", help_heading = "Configuration")]
    pub(crate) nodes: Option<String>,
    /// Nodes that never sleep
    #[arg(long, value_name = "HOSTLIST", help_heading = "Configuration")]
    pub(crate) canaries: Option<String>,
    #[command(flatten)]
    pub(crate) answering: Answering,
    /// Write each chart as SVG and PNG into this folder
    #[arg(long, value_name = "FOLDER", help_heading = "Answer")]
    pub(crate) charts: Option<PathBuf>,
}

fn service(text: &str) -> Result<Service, &'static str> {
    let number = |part: &str| part.trim().parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0);
    let pair = text.split_once(',').and_then(|(unserved, wakes)| Some((number(unserved)?, number(wakes)?)));
    let (unserved_per_day, node_wakes_per_day) = pair.ok_or("two numbers are needed, such as 3,30")?;
    Ok(Service { unserved_per_day, node_wakes_per_day })
}

/// The file of `--constants`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Figures {
    power: Constants,
    worth: Worth,
    /// What the prices are in, such as EUR. Without it no money is told, as a number without a unit is none.
    currency: Option<String>,
}

/// The figures of a file, completed: what it does not say follows from the GPUs of a node and the power of an idle one.
fn figures(request: &PlanPower, trace: &Trace) -> Result<Figures> {
    let text = match &request.constants {
        None => String::new(),
        Some(path) => source::text(path)?,
    };
    let named = || request.constants.as_ref().map_or_else(String::new, |path| path.display().to_string());
    let mut found: Figures = toml::from_str(&text).with_context(|| format!("read {}", named()))?;
    let table: toml::Table = toml::from_str(&text).with_context(|| format!("read {}", named()))?;
    let said = |part: &str, key: &str| table.get(part).is_some_and(|part| part.get(key).is_some());
    let gpus = match request.gpus_per_node {
        Some(gpus) => gpus,
        None if said("worth", "gpus_per_node") => found.worth.gpus_per_node,
        None => usual_gpus(trace).unwrap_or(found.worth.gpus_per_node),
    };
    if !(1.0..=1024.0).contains(&gpus) || gpus.fract() != 0.0 {
        bail!("a node of {gpus} GPUs cannot be; name a whole number from 1 to 1024");
    }
    found.worth.gpus_per_node = gpus;
    let power = &mut found.power;
    if !said("power", "idle_w") {
        power.idle_w = Constants::of_node(gpus as u32).idle_w;
    }
    if !said("power", "boot_j") {
        power.boot_j = power.idle_w * power.boot_s;
    }
    if !said("power", "shutdown_j") {
        power.shutdown_j = power.idle_w * power.shutdown_s;
    }
    power.validate()?;
    if power.idle_w <= power.off_w || power.pue_marginal <= 0.0 {
        bail!(
            "a node that is off must draw less than an idle one ({} W, {} W), and pue_marginal must be above 0, or sleep saves nothing",
            power.off_w,
            power.idle_w
        );
    }
    let Worth { price_kwh, wear_h, gpu_hour, .. } = found.worth;
    if !(price_kwh > 0.0 && price_kwh.is_finite())
        || [wear_h, gpu_hour].iter().any(|value| !(*value >= 0.0 && value.is_finite()))
    {
        bail!("[worth]: price_kwh must be above 0, wear_h and gpu_hour not below");
    }
    Ok(found)
}

/// GPUs of most nodes of the inventory.
fn usual_gpus(trace: &Trace) -> Option<f64> {
    let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
    for gpus in trace.nodes.gpus.iter().flatten().filter(|gpus| *gpus >= 1.0 && gpus.fract() == 0.0) {
        *counts.entry(gpus as u32).or_default() += 1;
    }
    counts.into_iter().max_by_key(|(gpus, count)| (*count, *gpus)).map(|(gpus, _)| f64::from(gpus))
}

pub(crate) fn run(request: &PlanPower, quiet: bool) -> Result<()> {
    if request.emit.contains(&Emit::Slurm) && request.slurm_conf.is_none() {
        bail!("the change for Slurm is a diff of the site's slurm.conf; name it with --slurm-conf");
    }
    check(request)?;
    if let (Some(folder), Some(conf)) = (&request.emit_to, &request.slurm_conf)
        && let Some(name) = conf.file_name()
    {
        // Before the long work, and again for each file that is written.
        output::not_over(&folder.join(name), conf, "the site's slurm.conf")?;
    }
    let trace = source::open(&request.sources, &request.reading, None, quiet)?;
    let answer = answer(request, &trace, describe::title(&trace, &request.sources), quiet)?;
    emit(request, &answer, quiet)?;
    request.answering.write(
        request.charts.as_deref(),
        quiet,
        || answer.report(),
        || answer::json(&answer, "the answer"),
    )
}

/// What was typed and the files that were named, before the trace is read.
fn check(request: &PlanPower) -> Result<()> {
    Window::asked(request)?;
    early::files([&request.answering.out])?;
    early::folders([&request.charts, &request.emit_to])?;
    if let Some(path) = &request.constants {
        toml::from_str::<Figures>(&source::text(path)?).with_context(|| format!("read {}", path.display()))?;
    }
    Hours::read(request)?.weighing(request)?;
    if let Some(path) = &request.cluster {
        source::site(path)?;
        policy(request)?;
    }
    for names in [&request.nodes, &request.canaries].into_iter().flatten() {
        hosts(names)?;
    }
    emitting(request)?;
    Ok(())
}

/// The host names of a list.
fn hosts(names: &str) -> Result<Vec<String>> {
    const MOST: usize = 100_000;
    hostlist::expand(names, MOST).ok().with_context(|| format!("`{names}` is no host list; write gpu[01-52,60]"))
}

/// The policy under which jobs are replayed.
fn policy(request: &PlanPower) -> Result<Policy> {
    Ok(Scenario { scan: Some(request.scan.clone()), ..Scenario::default() }.policy(false)?)
}

/// The plan for a trace.
fn answer(request: &PlanPower, trace: &Trace, title: String, quiet: bool) -> Result<Answer> {
    let figures = figures(request, trace)?;
    let zone = Zone::named(&trace.zone)?;
    let gpus = figures.worth.gpus_per_node;
    let gathered = gather(request, trace, gpus)?;
    let mut series: Vec<Series> = gathered.series.iter().map(|own| study::in_nodes(own, gpus)).collect();
    let Some(pool) = series.pop() else { bail!("there is no demand to plan for") };
    if pool.slots.iter().all(|slot| slot.peak <= 0.0 || slot.total <= 0.0) {
        bail!("{}: no node or GPU is ever in use; a source that counts GPUs or nodes is needed", pool.name);
    }
    let window = Window::of(request, &pool, &zone)?;
    let ces = match request.ces {
        Some(Ces::Philly) => Thresholds::PHILLY,
        Some(Ces::Earth) => Thresholds::EARTH,
        None if trace.sources.iter().any(|own| own.reader.starts_with("philly")) => Thresholds::PHILLY,
        None => Thresholds::EARTH,
    };
    let hours = Hours::read(request)?;
    let weighing = hours.weighing(request)?;
    let studies = Request {
        fit: 0..0,
        eval: 0..0,
        families: Family::ALL.to_vec(),
        boot_slots: request.boot_slots.unwrap_or_else(|| apply::boot_slots(&figures.power, request.slot)),
        rates: Rates::default(),
        constants: figures.power.clone(),
        worth: figures.worth,
        ces,
        budget: request.service,
        services: Service::USUAL.to_vec(),
    };
    output::say(quiet, &format!("tracecast: rules on {} …", format::count(window.slots(&pool))));
    if studies.boot_slots as i64 * request.slot > DAY_MS {
        bail!("a boot of {} slots takes longer than a day; name fewer with --boot-slots", studies.boot_slots);
    }
    let of = |series: &Series, like: &Request| Request {
        rates: Hours::rates(weighing, series),
        ..window.request(series, like)
    };
    let main = study::study(&pool, &of(&pool, &studies))?;
    // Where boots take a slot more, the same rules and the optimum.
    let slower = Request {
        families: vec![Family::TrailingMaximum, Family::Reach],
        boot_slots: studies.boot_slots + 1,
        ..studies.clone()
    };
    let slower = study::study(&pool, &of(&pool, &slower))?;
    if let Some(names) = &request.nodes {
        named(names, &main)?;
    }
    let mut notes = gathered.notes.clone();
    notes.extend(trace.warnings());
    // Where the trace says which nodes each VC has, they are not one pool unless somebody pools them.
    let unknown = |name: &str| gathered.totals_unknown.iter().any(|unknown| unknown == name);
    let stand = series.len() > 1 && series.iter().all(|own| !unknown(&own.name));
    let mut vcs = Vec::new();
    if request.by_vc || stand || request.cluster.is_some() {
        let mut like = studies.clone();
        // With fewer days of choice than evidence takes, nothing learned could be chosen for a VC.
        if !window.may_tell(&pool) {
            like.families.retain(|family| !family.learns());
        }
        let asked: Vec<(&Series, Request)> = series.iter().map(|own| (own, of(own, &like))).collect();
        for (studied, own) in study::study_together(&asked).into_iter().zip(&series) {
            // A VC that is too short or idle to learn from is said, not dropped.
            match studied {
                Ok(studied) => vcs.push(studied),
                Err(error) => notes.push(format!("{}: left out: {error}", own.name)),
            }
        }
    }
    let slurm_by_vc = request.by_vc && !vcs.is_empty();
    let chosen = Chosen { pool: &main, vcs: &vcs, slurm_by_vc };
    let (effects, more) = effects(request, trace, &figures, &hours, &window, &chosen)?;
    notes.extend(more);
    if let Some((by, _)) = weighing.filter(|_| !main.weighted) {
        notes.push(format!(
            "No {by} of an hour before the evaluation is known, so all hours weigh alike in the choice; give a file that covers the days before as well."
        ));
    }
    let nodes = main.total.last().copied().unwrap_or(0.0);
    if let Some(own) = effects.first()
        && f64::from(own.effect.nodes) != nodes
    {
        notes.push(format!(
            "The cluster of the replay has {} and the series {nodes}: savings of the two cannot be compared. A VC called `*` gets its nodes once for each VC that is not named.",
            format::counted(u64::from(own.effect.nodes), "node", "nodes")
        ));
    }
    let plans = |timeout: fn(&Studied) -> (u32, u32)| -> PowerPlan {
        let by_vc = vcs.iter().filter(|_| slurm_by_vc).map(|own| pool_plan(None, gpus, own, timeout(own)));
        let mut pools: Vec<PoolPlan> = by_vc.collect();
        if pools.is_empty() {
            pools.push(pool_plan(request.nodes.clone(), gpus, &main, timeout(&main)));
        }
        power_plan(request, &figures, pools)
    };
    let (plan, slurm_plan) = (plans(Studied::timeout), plans(Studied::slurm));
    if !trace.basis.has_calendar() {
        notes
            .push("Hours and weekdays are unknown; rules take the first moment for midnight of a Thursday.".to_owned());
    }
    let price_kwh = figures.worth.price_kwh;
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let saved_kwh = main.saved_kwh.iter().sum();
    let yearly = Yearly::of(saved_kwh, main.days[2], mean(&main.total), mean(&main.active), &figures.power);
    let currency = hours.currency.clone().or(figures.currency);
    Ok(Answer {
        schema: SCHEMA.to_owned(),
        title,
        notes,
        capacity_known: !unknown(&main.name),
        vcs_as_they_stand: Together::of(&vcs).filter(|_| stand),
        slot_s: request.slot as f64 / 1000.0,
        boot_slots: studies.boot_slots,
        constants: figures.power,
        worth: figures.worth,
        weighted_by: weighing.filter(|_| main.weighted).map(|(by, _)| by.to_owned()),
        yearly,
        cost_saved: currency.is_some().then(|| {
            ByHour::of(&main, |at| match &hours.price {
                Some(price) => price.at(at),
                None => Some(price_kwh),
            })
        }),
        currency,
        co2_saved_kg: hours.carbon.as_ref().map(|carbon| ByHour::of(&main, |at| carbon.at(at).map(|g| g / 1000.0))),
        services: studies.services,
        slower_boots: Pool::of(&slower)?,
        criterion: request.service,
        pool: Pool::of(&main)?,
        vcs: vcs.iter().map(Pool::of).collect::<Result<_, _>>()?,
        effects,
        plan,
        slurm_plan,
        sources: trace.sources.clone(),
        chart: chart(&main),
        zone: trace.zone.clone(),
    })
}

/// What a report on a trace says of sleep, with all defaults: its headline, its sections, and what it assumes.
pub(crate) fn sections(trace: &Trace) -> (Option<String>, Vec<Section>, Vec<String>) {
    let title = "Which nodes can sleep";
    let arguments = Arguments::try_parse_from(["tracecast", "plan", "power", "-"]);
    let Ok(Arguments { command: Command::Plan(Plan::Power(request)), .. }) = arguments else {
        return (None, Vec::new(), Vec::new());
    };
    match answer(&request, trace, String::new(), true) {
        Ok(answer) => {
            let mut report = answer.report();
            (report.summary.drain(..).next(), report.sections, report.notes)
        }
        Err(error) => (None, vec![Section::not_available("power", title, format!("{error:#}."))], Vec::new()),
    }
}

/// Checks that as many nodes are named as the plan is for: a buffer for 400 nodes says nothing of 12.
fn named(names: &str, studied: &Studied) -> Result<()> {
    let mut found = hosts(names)?;
    // A node that is named twice is one node.
    found.sort_unstable();
    found.dedup();
    let total = studied.total.last().copied().unwrap_or(0.0) as usize;
    if found.len() != total {
        bail!(
            "--nodes names {} and the plan is for the {total} of {}; name those that were counted, or plan with --vc for a part of them",
            format::counted(found.len() as u64, "node", "nodes"),
            studied.name
        );
    }
    Ok(())
}

/// Demand in nodes where the source counts them, else in GPUs.
fn gather(request: &PlanPower, trace: &Trace, gpus: f64) -> Result<Gathered> {
    let options = gather::Options {
        slot_ms: request.slot,
        asked: if request.pending { Asked::WithPendingUpToTotal } else { Asked::InUse },
        gpus_per_node: Some(gpus),
        vcs: request.vc.clone(),
        outages_are_idle: request.outages_are_idle,
        unit: (trace.activity.is_empty() && !trace.jobs.is_empty()).then_some(Unit::Nodes),
        ..gather::Options::default()
    };
    Ok(gather::gather(trace, &options)?)
}

/// Which moments are learned from and evaluated.
#[derive(Debug, Clone, Copy)]
struct Window {
    fit_ms: i64,
    from_ms: i64,
    to_ms: i64,
}

impl Window {
    /// The evaluated days as they were asked for.
    fn asked(request: &PlanPower) -> Result<time::Window<'_>> {
        let (from, to) = (request.eval_from.as_ref(), request.eval_to.as_ref());
        Ok(time::Window::new(backtest_demand::EVALUATED, from, to)?)
    }

    fn of(request: &PlanPower, series: &Series, zone: &Zone) -> Result<Self> {
        let end = series.time_ms(series.slots.len());
        let (eval_from, eval_to) = Self::asked(request)?.resolve(zone)?;
        let to_ms = eval_to.unwrap_or(end).min(end);
        let fit_from = request.fit_from.as_ref().map(|from| from.first_ms(zone)).transpose()?;
        let fit_ms = fit_from.unwrap_or(series.start_ms).max(series.start_ms);
        let quarter = to_ms - (to_ms - fit_ms) / 4;
        let from_ms = eval_from.unwrap_or(quarter);
        let span = || format!("the series goes from {}", zone.show_between(series.start_ms, end));
        if from_ms >= to_ms {
            bail!("nothing is left to evaluate: --eval-from is not before the end of the evaluation; {}", span());
        }
        if from_ms <= fit_ms {
            bail!("nothing is left to learn from: --eval-from is not after the beginning of the learning; {}", span());
        }
        Ok(Self { fit_ms, from_ms, to_ms })
    }

    fn request(&self, series: &Series, like: &Request) -> Request {
        let slot = |ms: i64| usize::try_from((ms - series.start_ms).div_euclid(series.slot_ms)).unwrap_or(0);
        let eval = slot(self.from_ms)..slot(self.to_ms).min(series.slots.len());
        Request { fit: slot(self.fit_ms)..eval.start, eval, ..like.clone() }
    }

    /// Whether there are days enough to choose on (the last third of the past) to leave a plain rule.
    fn may_tell(&self, series: &Series) -> bool {
        let days = (self.from_ms - self.fit_ms.max(series.start_ms)) / 3 / DAY_MS;
        usize::try_from(days).unwrap_or(0) >= LEAST_BLOCKS
    }

    fn slots(&self, series: &Series) -> u64 {
        u64::try_from((self.to_ms - self.fit_ms) / series.slot_ms).unwrap_or(0)
    }
}

fn effects(
    request: &PlanPower,
    trace: &Trace,
    figures: &Figures,
    hours: &Hours,
    window: &Window,
    chosen: &Chosen<'_>,
) -> Result<(Vec<Resimulated>, Vec<String>)> {
    let Some(path) = &request.cluster else { return Ok((Vec::new(), Vec::new())) };
    let site = source::site(path)?;
    let options = input::Options {
        from_ms: Some(window.fit_ms),
        to_ms: Some(window.to_ms),
        vcs: (!request.vc.is_empty()).then(|| request.vc.clone()),
        ..input::Options::default()
    };
    let loaded = input::load(trace, Some(&site), &options)?;
    let policy = policy(request)?;
    let by_hour = |rate: &Option<Hourly>| rate.as_ref().map(|rate| Hours::by_hour(rate, window.from_ms, window.to_ms));
    let (price, carbon) =
        (by_hour(&hours.price), by_hour(&hours.carbon.as_ref().map(|grams| grams.map(|g| g / 1000.0))));
    let replay = Replay {
        loaded: &loaded,
        policy: &policy,
        constants: &figures.power,
        rates: resim::Rates {
            // Money without a currency is not told.
            price_per_kwh: hours
                .currency
                .as_ref()
                .or(figures.currency.as_ref())
                .map(|_| price.as_ref().map_or(PerHour::Constant(figures.worth.price_kwh), hourly)),
            co2_kg_per_kwh: carbon.as_ref().map(hourly),
        },
        slot_ms: request.slot,
        from_ms: window.from_ms,
        to_ms: window.to_ms,
        zone: &trace.zone,
        seed: 1,
    };
    let (effects, mut notes) = replay.run(chosen)?;
    notes.extend(loaded.notes.iter().map(|note| format!("Replay of the jobs: {note}")));
    Ok((effects, notes))
}

fn hourly(of: &(i64, Vec<Option<f64>>)) -> PerHour<'_> {
    PerHour::Hours { from_ms: of.0, values: &of.1 }
}

fn chart(studied: &Studied) -> Vec<(i64, f64, f64, f64)> {
    let slots = studied.need.iter().zip(&studied.active).zip(&studied.orders).enumerate();
    let at = |slot: usize| studied.from_ms + studied.slot_ms * i64::try_from(slot).unwrap_or(0);
    slots.map(|(slot, ((need, active), powered))| (at(slot), *active, *need, *powered)).collect()
}

/// What to do with a pool: for a scheduler that can only time out and keep some idle, seconds and nodes; as a schedule, what the chosen rule ordered on
/// the evaluated days.
fn pool_plan(nodes: Option<String>, gpus: f64, studied: &Studied, (idle_s, keep_idle): (u32, u32)) -> PoolPlan {
    let total = studied.total.iter().copied().fold(0.0, f64::max) as u32;
    let mut actions = Vec::new();
    let mut before: Option<u32> = None;
    for (slot, order) in studied.orders.iter().enumerate() {
        let powered = (order.ceil().max(0.0) as u32).min(total);
        if before != Some(powered) {
            let change = before.map_or(0, |before| i64::from(powered) - i64::from(before));
            actions.push(Action {
                at_ms: studied.from_ms + studied.slot_ms * i64::try_from(slot).unwrap_or(0),
                powered,
                change: i32::try_from(change).unwrap_or(0),
            });
            before = Some(powered);
        }
    }
    PoolPlan {
        name: studied.name.clone(),
        nodes,
        total_nodes: total,
        gpus_per_node: gpus as u32,
        keep_idle: keep_idle.min(total),
        idle_s,
        actions,
    }
}

fn power_plan(request: &PlanPower, figures: &Figures, pools: Vec<PoolPlan>) -> PowerPlan {
    let seconds = |value: f64| value.ceil() as u32;
    PowerPlan {
        pools,
        boot_s: seconds(figures.power.boot_s),
        shutdown_s: seconds(figures.power.shutdown_s),
        wakes_per_minute: figures.power.wakes_per_minute,
        sleeps_per_minute: figures.power.sleeps_per_minute,
        canaries: request.canaries.clone(),
        suspend_program: None,
        resume_program: None,
    }
}

/// What configurations are written with.
fn emitting(request: &PlanPower) -> Result<config::Options> {
    let mut options = config::Options::default();
    if let Some(path) = &request.slurm_conf {
        options.slurm.conf = source::text(path)?;
        if let Some(name) = path.file_name() {
            options.slurm.conf_name = name.to_string_lossy().into_owned();
        }
    }
    if let Some(version) = &request.slurm_version {
        options.slurm.version = Some(
            config::slurm::Version::parse(version)
                .with_context(|| format!("`{version}` is no version of Slurm; write 23.11"))?,
        );
    }
    Ok(options)
}

fn emit(request: &PlanPower, answer: &Answer, quiet: bool) -> Result<()> {
    let Some(folder) = &request.emit_to else { return Ok(()) };
    let options = emitting(request)?;
    let targets: Vec<Target> = match request.emit.as_slice() {
        [] => vec![Target::Actions],
        some => some
            .iter()
            .map(|own| match own {
                Emit::Slurm => Target::Slurm,
                Emit::Actions => Target::Actions,
                Emit::Karpenter => Target::Karpenter,
                Emit::ClusterAutoscaler => Target::ClusterAutoscaler,
            })
            .collect(),
    };
    let mut notes = answer.plan_in_words();
    for target in targets {
        let plan = if target == Target::Slurm { &answer.slurm_plan } else { &answer.plan };
        let rendered = config::render(plan, target, &options)?;
        for (name, content) in &rendered.files {
            let path = folder.join(name);
            if let Some(conf) = &request.slurm_conf {
                output::not_over(&path, conf, "the site's slurm.conf")?;
            }
            output::write(&path, content.as_bytes())?;
            if Path::new(name).extension().is_some_and(|kind| kind == "sh") {
                executable(&path)?;
            }
        }
        for warning in &rendered.warnings {
            notes.push(format!("{}: {warning}", target.name()));
            output::say(quiet, &format!("tracecast: {}: {warning}", target.name()));
        }
        output::say(
            quiet,
            &format!(
                "tracecast: {} for {} in {}",
                format::counted(rendered.files.len() as u64, "file", "files"),
                target.name(),
                folder.display()
            ),
        );
    }
    output::write(&folder.join("NOTES.txt"), (notes.join("\n\n") + "\n").as_bytes())
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
