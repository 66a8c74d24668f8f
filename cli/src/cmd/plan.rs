//! `tracecast plan power`.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use serde::Deserialize;
use tracecast_analytics::report;
use tracecast_analytics::report::{Section, format};
use tracecast_analytics::time::Zone;
use tracecast_analytics::{Trace, schema::Table as _};
use tracecast_planner::power::answer::{Answer, Pool, Resimulated, SCHEMA};
use tracecast_planner::power::apply::Replay;
use tracecast_planner::power::ces::Thresholds;
use tracecast_planner::power::config::{self, Target};
use tracecast_planner::power::plan::{Action, PoolPlan, PowerPlan};
use tracecast_planner::power::resim::{Constants, PerHour, Rates};
use tracecast_planner::power::score::Worth;
use tracecast_planner::power::study::{self, Request, Service, Studied};
use tracecast_planner::sim::input::{self, Site};
use tracecast_planner::sim::scenario::Scenario;
use tracecast_predictors::demand::gather::{self, Asked, Gathered};
use tracecast_predictors::demand::series::{Series, Unit};

use crate::args::{Form, Reading};
use crate::cmd::{backtest_demand, describe};
use crate::{output, source};

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
    /// GPUs of a node, where nodes are made of GPUs [default: as the inventory has it, else 8]
    #[arg(long, value_name = "GPUS", help_heading = "Demand")]
    pub(crate) gpus_per_node: Option<f64>,
    /// Learn from slots from here on; a bare date is in the trace's zone [default: from the beginning]
    #[arg(long, value_name = "TIME", help_heading = "Evaluation")]
    pub(crate) fit_from: Option<String>,
    /// Evaluate slots from here on; a bare date is in the trace's zone [default: the last quarter]
    #[arg(long, value_name = "TIME", help_heading = "Evaluation")]
    pub(crate) eval_from: Option<String>,
    /// Evaluate slots up to here; a bare date is that whole day [default: to the end]
    #[arg(long, value_name = "TIME", help_heading = "Evaluation")]
    pub(crate) eval_to: Option<String>,
    /// Slots that a node takes to boot beyond the one it is woken for
    #[arg(long, value_name = "SLOTS", default_value_t = 0, help_heading = "Evaluation")]
    pub(crate) boot_slots: usize,
    /// Choose the most sleep within UNSERVED node-slots and WAKES node-wakes a day, instead of the cheapest
    #[arg(long, value_name = "UNSERVED,WAKES", value_parser = service, help_heading = "Evaluation")]
    pub(crate) service: Option<Service>,
    /// Whose published thresholds CES takes [default: philly for Philly, else earth]
    #[arg(long, value_enum, value_name = "WHOSE", help_heading = "Evaluation")]
    pub(crate) ces: Option<Ces>,
    /// What nodes draw and what things are worth: [power] and [worth] of a TOML file
    #[arg(long, value_name = "TOML", help_heading = "Evaluation")]
    pub(crate) constants: Option<PathBuf>,
    /// CO₂ of a kWh, kg
    #[arg(long, value_name = "KG", help_heading = "Evaluation")]
    pub(crate) co2: Option<f64>,
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
    /// Form of the answer
    #[arg(long, value_enum, default_value_t = Form::Table, help_heading = "Answer")]
    pub(crate) format: Form,
    /// Write the answer to a file instead of stdout
    #[arg(long, short, value_name = "FILE", help_heading = "Answer")]
    pub(crate) out: Option<PathBuf>,
    /// Write each chart as SVG and PNG into this folder
    #[arg(long, value_name = "FOLDER", help_heading = "Answer")]
    pub(crate) charts: Option<PathBuf>,
}

impl PlanPower {
    /// All defaults, for a trace that is read already.
    fn plain() -> Self {
        Self {
            sources: Vec::new(),
            reading: Reading::default(),
            slot: 600_000,
            vc: Vec::new(),
            by_vc: false,
            pending: false,
            gpus_per_node: None,
            fit_from: None,
            eval_from: None,
            eval_to: None,
            boot_slots: 0,
            service: None,
            ces: None,
            constants: None,
            co2: None,
            cluster: None,
            scan: "easy".to_owned(),
            emit: Vec::new(),
            emit_to: None,
            slurm_conf: None,
            slurm_version: None,
            nodes: None,
            canaries: None,
            format: Form::Table,
            out: None,
            charts: None,
        }
    }
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
}

fn figures(path: Option<&Path>, gpus_per_node: Option<f64>) -> Result<Figures> {
    let mut found = Figures::default();
    if let Some(gpus) = gpus_per_node {
        if !(gpus >= 1.0 && gpus <= 1024.0) {
            bail!("a node of {gpus} GPUs cannot be; name 1 to 1024");
        }
        found.power = Constants::of_node(gpus as u32);
        found.worth.gpus_per_node = gpus;
    }
    if let Some(path) = path {
        let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
        found = toml::from_str(&text).with_context(|| format!("read {}", path.display()))?;
    }
    found.power.validate()?;
    let Worth { price_kwh, wear_h, gpu_hour, gpus_per_node } = found.worth;
    if [price_kwh, gpus_per_node].iter().any(|value| !(*value > 0.0 && value.is_finite()))
        || [wear_h, gpu_hour].iter().any(|value| !(*value >= 0.0 && value.is_finite()))
    {
        bail!("[worth]: price_kwh and gpus_per_node must be above 0, wear_h and gpu_hour not below");
    }
    Ok(found)
}

pub(crate) fn run(request: &PlanPower, quiet: bool) -> Result<()> {
    let trace = source::open(&request.sources, &request.reading, None, quiet)?;
    let answer = answer(request, &trace, describe::title(&trace, &request.sources), quiet)?;
    emit(request, &answer.plan, quiet)?;
    let text = match request.format {
        Form::Json => {
            let mut text = serde_json::to_string_pretty(&answer).context("write the answer as JSON")?;
            text.push('\n');
            text
        }
        Form::Table => {
            let options = if request.out.is_some() { report::text::TextOptions::default() } else { output::terminal() };
            report::text::render(&answer.report(), options)
        }
        Form::Markdown => report::markdown::render(&answer.report()),
        Form::Html => report::html::render(&answer.report()).context("draw the report")?,
    };
    if let Some(folder) = &request.charts {
        let count = describe::charts(&answer.report(), folder)?;
        output::say(quiet, &format!("{count} charts in {}", folder.display()));
    }
    output::text(&text, request.out.as_deref())
}

/// The plan for a trace.
fn answer(request: &PlanPower, trace: &Trace, title: String, quiet: bool) -> Result<Answer> {
    let figures = figures(request.constants.as_deref(), request.gpus_per_node)?;
    let zone = Zone::named(&trace.zone)?;
    let gathered = gather(request, trace)?;
    let gpus = request.gpus_per_node.unwrap_or(figures.worth.gpus_per_node);
    let mut series: Vec<Series> = gathered.series.iter().map(|own| study::in_nodes(own, gpus)).collect();
    let Some(pool) = series.pop() else { bail!("there is no demand to plan for") };
    let window = Window::of(request, &pool, &zone)?;
    let ces = match request.ces {
        Some(Ces::Philly) => Thresholds::PHILLY,
        Some(Ces::Earth) => Thresholds::EARTH,
        None if trace.sources.iter().any(|own| own.reader.starts_with("philly")) => Thresholds::PHILLY,
        None => Thresholds::EARTH,
    };
    let studies = Request {
        fit: 0..0,
        eval: 0..0,
        boot_slots: request.boot_slots,
        constants: figures.power.clone(),
        worth: figures.worth,
        ces,
        budget: request.service,
        services: Service::USUAL.to_vec(),
    };
    output::say(quiet, &format!("tracecast: rules on {} …", format::count(window.slots(&pool))));
    let study = |series: &Series| study::study(series, &window.request(series, &studies));
    let main = study(&pool)?;
    let mut notes = gathered.notes.clone();
    let mut vcs = Vec::new();
    if request.by_vc {
        for own in &series {
            // A VC that is too short or idle to learn from is said, not dropped.
            match study(own) {
                Ok(studied) => vcs.push(Pool::of(&studied)),
                Err(error) => notes.push(format!("{}: left out: {error}", own.name)),
            }
        }
    }
    let effects = effects(request, trace, &figures, &window)?;
    let plan = power_plan(request, &figures, &main);
    if !trace.basis.has_calendar() {
        notes
            .push("Hours and weekdays are unknown; rules take the first moment for midnight of a Thursday.".to_owned());
    }
    Ok(Answer {
        schema: SCHEMA.to_owned(),
        title,
        notes,
        slot_s: request.slot as f64 / 1000.0,
        boot_slots: request.boot_slots,
        constants: figures.power,
        worth: figures.worth,
        services: studies.services,
        pool: Pool::of(&main),
        vcs,
        effects,
        plan,
        chart: chart(&main),
        zone: trace.zone.clone(),
    })
}

/// What a report on a trace says of sleep, with all defaults.
pub(crate) fn sections(trace: &Trace) -> Vec<Section> {
    let title = "Which nodes can sleep";
    match answer(&PlanPower::plain(), trace, String::new(), true) {
        Ok(answer) => answer.report().sections,
        Err(error) => vec![Section::not_available("power", title, format!("{error:#}."))],
    }
}

/// Demand in nodes where the source counts them, else in GPUs.
fn gather(request: &PlanPower, trace: &Trace) -> Result<Gathered> {
    let options = gather::Options {
        slot_ms: request.slot,
        asked: if request.pending { Asked::WithPendingUpToTotal } else { Asked::InUse },
        gpus_per_node: request.gpus_per_node,
        vcs: request.vc.clone(),
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
    fn of(request: &PlanPower, series: &Series, zone: &Zone) -> Result<Self> {
        let end = series.time_ms(series.slots.len());
        let moment = |text: &Option<String>, is_end| {
            text.as_deref().map(|text| backtest_demand::moment(text, zone, is_end)).transpose()
        };
        let to_ms = moment(&request.eval_to, true)?.unwrap_or(end).min(end);
        let fit_ms = moment(&request.fit_from, false)?.unwrap_or(series.start_ms).max(series.start_ms);
        let quarter = to_ms - (to_ms - fit_ms) / 4;
        let from_ms = moment(&request.eval_from, false)?.unwrap_or(quarter);
        if from_ms >= to_ms || from_ms <= fit_ms {
            bail!(
                "nothing is left to learn from or to evaluate; the series goes from {} to {}",
                tracecast_analytics::time::format_utc(series.start_ms),
                tracecast_analytics::time::format_utc(end)
            );
        }
        Ok(Self { fit_ms, from_ms, to_ms })
    }

    fn request(&self, series: &Series, like: &Request) -> Request {
        let slot = |ms: i64| usize::try_from((ms - series.start_ms).div_euclid(series.slot_ms)).unwrap_or(0);
        let eval = slot(self.from_ms)..slot(self.to_ms).min(series.slots.len());
        Request { fit: slot(self.fit_ms)..eval.start, eval, ..like.clone() }
    }

    fn slots(&self, series: &Series) -> u64 {
        u64::try_from((self.to_ms - self.fit_ms) / series.slot_ms).unwrap_or(0)
    }
}

fn effects(request: &PlanPower, trace: &Trace, figures: &Figures, window: &Window) -> Result<Vec<Resimulated>> {
    let Some(path) = &request.cluster else { return Ok(Vec::new()) };
    let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    let site = Site::parse(&path.display().to_string(), &text)?;
    let options = input::Options {
        from_ms: Some(window.fit_ms),
        to_ms: Some(window.to_ms),
        vcs: (!request.vc.is_empty()).then(|| request.vc.clone()),
        ..input::Options::default()
    };
    let loaded = input::load(trace, Some(&site), &options)?;
    let policy = Scenario { scan: Some(request.scan.clone()), ..Scenario::default() }.policy(false)?;
    let replay = Replay {
        loaded: &loaded,
        policy: &policy,
        constants: &figures.power,
        rates: Rates {
            price_per_kwh: Some(PerHour::Constant(figures.worth.price_kwh)),
            co2_kg_per_kwh: request.co2.map(PerHour::Constant),
        },
        worth: figures.worth,
        slot_ms: request.slot,
        from_ms: window.from_ms,
        to_ms: window.to_ms,
        zone: &trace.zone,
        seed: 1,
    };
    Ok(replay.run()?)
}

fn chart(studied: &Studied) -> Vec<(i64, f64, f64, f64)> {
    let slots = studied.need.iter().zip(&studied.active).zip(&studied.orders).enumerate();
    let at = |slot: usize| studied.from_ms + studied.slot_ms * i64::try_from(slot).unwrap_or(0);
    slots.map(|(slot, ((need, active), powered))| (at(slot), *active, *need, *powered)).collect()
}

/// What to do: for a scheduler that can only time out and keep some idle, the trailing maximum as chosen; as a schedule, the chosen rule.
fn power_plan(request: &PlanPower, figures: &Figures, studied: &Studied) -> PowerPlan {
    let (idle_s, keep_idle) = studied.timeout();
    let total = studied.total.last().copied().unwrap_or(0.0) as u32;
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
    let seconds = |value: f64| value.ceil() as u32;
    PowerPlan {
        pools: vec![PoolPlan {
            name: studied.name.clone(),
            nodes: request.nodes.clone(),
            total_nodes: total,
            gpus_per_node: figures.worth.gpus_per_node as u32,
            keep_idle: keep_idle.min(total),
            idle_s,
            actions,
        }],
        boot_s: seconds(figures.power.boot_s),
        shutdown_s: seconds(figures.power.shutdown_s),
        wakes_per_minute: figures.power.wakes_per_minute,
        sleeps_per_minute: figures.power.sleeps_per_minute,
        canaries: request.canaries.clone(),
        suspend_program: None,
        resume_program: None,
    }
}

fn emit(request: &PlanPower, plan: &PowerPlan, quiet: bool) -> Result<()> {
    let Some(folder) = &request.emit_to else { return Ok(()) };
    let mut options = config::Options::default();
    if let Some(path) = &request.slurm_conf {
        options.slurm.conf = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
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
    for target in targets {
        if target == Target::Slurm && request.slurm_conf.is_none() {
            bail!("the change for Slurm is a diff of the site's slurm.conf; name it with --slurm-conf");
        }
        let rendered = config::render(plan, target, &options)?;
        for (name, content) in &rendered.files {
            let path = folder.join(name);
            output::write(&path, content.as_bytes())?;
            if Path::new(name).extension().is_some_and(|kind| kind == "sh") {
                executable(&path)?;
            }
        }
        for warning in &rendered.warnings {
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
    Ok(())
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
