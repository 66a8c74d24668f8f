//! A power plan, from a request to its answer: gathered, studied, carried out in a replay, decided forward.
//!
//! ```text
//! trace, request ──▶ demand (request) ──▶ rules fitted, chosen, scored (study) ──▶ jobs replayed (apply) ──▶ from now on (forward) ──▶ answer
//! ```
//!
//! Nothing of the evaluated days enters a choice; what is decided forward is fitted on all days. Worked number: the bundled sample of 28 days is
//! learned on 21 days and evaluated on 7.

use rayon::prelude::*;
use tracecast_analytics::Trace;
use tracecast_analytics::audit::factors::Hourly;
use tracecast_analytics::facts::{Capacity, JobFacts};
use tracecast_analytics::report::format;
use tracecast_analytics::schema::Table as _;
use tracecast_analytics::time::{DAY_MS, Zone};
use tracecast_analytics::watch::Watch;
use tracecast_predictors::demand::Series;

use crate::error::{Error, Result};
use crate::plan::answer::Head;
use crate::power::answer::{ByHour, PoolFindings, PowerAnswer, PowerBody, PowerTrial, SCHEMA, Together, answered};
use crate::power::forward::clock::Clock;
use crate::power::forward::plan::{Action, PoolPlan, PowerPlan};
use crate::power::forward::saved::{Learned, SavedPlan, SavedPool};
use crate::power::forward::{self, Forward};
use crate::power::replay::apply::{ChosenRules, ReplayCase, Resimulated};
use crate::power::replay::resim::{self, PerHour};
use crate::power::request::given;
use crate::power::request::{Days, Figures, Hours, Pools, PowerRequest};
use crate::power::rule::ces::Thresholds;
use crate::power::rule::family::Family;
use crate::power::score::boot::boot_slots;
use crate::power::score::service::Service;
use crate::power::score::tariff::Rates;
use crate::power::score::yearly::Yearly;
use crate::power::study::{self, Request, Studied, worth};
use crate::replay::input;

/// A request on a trace, up to where rules are studied.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// Power of nodes, and prices.
    pub figures: Figures,
    /// Demand in nodes.
    pub pools: Pools,
    /// What is studied, less its slots.
    pub like: Request,
    /// Assumptions about the nodes, a sentence each.
    pub assumed: Vec<String>,
}

impl Prepared {
    /// Gathers the demand of a trace.
    ///
    /// # Errors
    /// If there is none, or the figures cannot be.
    pub fn new(trace: &Trace, request: &PowerRequest) -> Result<Self> {
        let given = request.replay.as_ref().map(|replayed| given::given(&replayed.site, trace)).transpose()?;
        let (figures, assumed) = request.figures.complete(request.demand.gpus_per_node, trace, given.as_ref())?;
        let pools = Pools::new(trace, request, figures.worth.gpus_per_node, given)?;
        // Who names the days to evaluate means them.
        let whole = request.eval_to.is_some() || request.eval_from.is_some();
        let zone = Zone::named(&trace.zone)?;
        let begins_ms = Clock::beginning(trace, &zone, pools.pool.start_ms);
        let mut pools = pools.without_tail(whole, &Clock::new(zone, begins_ms));
        pools.notes.extend(assumed.iter().cloned());
        pools.notes.extend(without_gpus(trace));
        let from_philly = || trace.sources.iter().any(|source| source.reader.starts_with("philly"));
        let like = Request {
            fit: 0..0,
            eval: 0..0,
            families: Family::ALL.into_iter().filter(|family| !(request.naive && family.learns())).collect(),
            boot_slots: request.boot_slots.unwrap_or_else(|| boot_slots(&figures.power, request.demand.slot_ms)),
            rates: Rates::default(),
            constants: figures.power.clone(),
            worth: figures.worth,
            ces: request.ces.unwrap_or_else(|| if from_philly() { Thresholds::PHILLY } else { Thresholds::EARTH }),
            budget: request.service,
            services: Service::USUAL.to_vec(),
        };
        if like.boot_slots * request.demand.slot_ms as f64 > DAY_MS as f64 {
            let boots = like.boot_slots;
            return Err(Error::Power(format!(
                "a boot of {boots} slots takes longer than a day; name fewer with --boot-slots"
            )));
        }
        Ok(Self { figures, pools, like, assumed })
    }
}

/// A note that jobs without GPUs keep no node busy here, where demand is that of jobs.
fn without_gpus(trace: &Trace) -> Option<String> {
    let facts = JobFacts::new(trace);
    let many = (0..facts.len()).filter(|job| !facts.is_gpu_job(*job)).count();
    (trace.activity.is_empty() && many > 0 && many < facts.len()).then(|| {
        format!(
            "{} of {} ask for no GPU: a node that runs such jobs alone counts as one that may sleep. Slurm puts no node with jobs to sleep, and the loop counts such nodes as in use.",
            format::count(many as u64),
            format::counted(facts.len() as u64, "job", "jobs")
        )
    })
}

/// Told where VCs that have nodes of their own are planned for as one pool.
const AS_ONE_POOL: &str = "This is for all nodes as one pool, as if every node could serve every VC. In the trace each VC has nodes of its own: unless they are pooled, plan with --by-vc.";

/// Parts of a plan that are told to who watches: rules, rules where boots take longer, VCs, replays, from now on.
const PARTS: usize = 5;

/// The plan for a trace, and what of it can be saved and asked; `say` is told what takes long, and `watch` how far it is.
///
/// # Errors
/// If there is nothing to plan for, days are too few, or what was asked for cannot be.
pub fn evaluate(
    trace: &Trace,
    title: String,
    request: &PowerRequest,
    say: &dyn Fn(&str),
    watch: &dyn Watch,
) -> Result<(PowerAnswer, SavedPlan)> {
    watch.more(PARTS);
    let prepared = Prepared::new(trace, request)?;
    let Prepared { figures, pools, like, assumed } = &prepared;
    let prices = request.figures.prices_assumed(figures).filter(|_| request.service.is_none());
    let zone = Zone::named(&trace.zone)?;
    let (pool, gpus) = (&pools.pool, figures.worth.gpus_per_node);
    let days = Days::new(request, pool, &zone)?;
    let begins_ms = Clock::beginning(trace, &zone, pool.start_ms);
    let weighing = request.hours.weighing(request.weigh)?;
    say(&format!("rules on {} …", format::count(days.slots(pool))));
    let of = |series: &Series, like: &Request| Request {
        rates: Hours::rates(weighing, series),
        ..days.request(series, like)
    };
    let main = study::study(pool, &of(pool, like))?;
    watch.made();
    // Where boots take a slot more, the rule that stands, the one chosen, and the optimum.
    let followed = Family::of(&main.followed());
    let mut families = vec![Family::TrailingMaximum];
    families.extend(Some(followed).filter(|family| !families.contains(family)));
    let slower = Request { families, boot_slots: like.boot_slots + 1.0, ..like.clone() };
    let slower = study::study(pool, &of(pool, &slower))?;
    watch.made();
    named(request, &main)?;
    let mut notes = pools.notes.clone();
    notes.extend(prices.clone());
    notes.extend(trace.warnings());
    // Where the trace says which nodes each VC has, they are not one pool unless somebody pools them.
    let stand = pools.vcs.len() > 1 && pools.vcs.iter().all(|vc| !pools.unknown(&vc.name));
    let mut vcs = Vec::new();
    if request.by_vc || stand || request.replay.is_some() {
        let mut like = like.clone();
        // With fewer days of choice than evidence takes, nothing learned could be chosen for a VC.
        if !days.may_tell(pool) {
            like.families.retain(|family| !family.learns());
        }
        let asked: Vec<(&Series, Request)> = pools.vcs.iter().map(|vc| (vc, of(vc, &like))).collect();
        for (study_result, vc) in study::study_together(&asked).into_iter().zip(&pools.vcs) {
            // A VC that is too short or idle to learn from is said, not dropped.
            match study_result {
                Ok(study_result) => vcs.push(study_result),
                Err(error) => notes.push(format!("{}: left out: {error}", vc.name)),
            }
        }
    }
    watch.made();
    let slurm_by_vc = request.by_vc && !vcs.is_empty();
    let chosen = ChosenRules { pool: &main, vcs: &vcs, slurm_by_vc };
    let (effects, more) = effects(request, trace, figures, &days, &chosen)?;
    notes.extend(more);
    if let Some((by, _)) = weighing.filter(|_| !main.weighted) {
        notes.push(format!(
            "No {by} of an hour before the evaluation is known, so all hours weigh alike in the choice; give a file that covers the days before as well."
        ));
    }
    let nodes = main.total.last().copied().unwrap_or(0.0);
    if let Some(replayed) = effects.first()
        && f64::from(replayed.effect.nodes) != nodes
    {
        notes.push(format!(
            "The cluster of the replay has {} and the series {nodes}: savings of the two cannot be compared. A VC called `*` gets its nodes once for each VC that is not named.",
            format::counted(u64::from(replayed.effect.nodes), "node", "nodes")
        ));
    }
    watch.made();
    say("from now on …");
    let pools_ahead: Vec<(&Series, &Studied)> = if slurm_by_vc {
        vcs.iter().filter_map(|vc| Some((pools.vcs.iter().find(|series| series.name == vc.name)?, vc))).collect()
    } else {
        vec![(pool, &main)]
    };
    let note = (stand && !slurm_by_vc).then_some(AS_ONE_POOL);
    let ahead = pools_ahead
        .par_iter()
        .map(|(series, study_result)| forward::forward(series, study_result.followed(), like, note));
    let (mut forward, mut saved): (Vec<Forward>, Vec<SavedPool>) =
        ahead.collect::<Result<Vec<_>>>()?.into_iter().unzip();
    saved
        .iter_mut()
        .for_each(|pool| pool.pending_in_peaks = Some(request.demand.pending && pool.series.counts_pending));
    watch.made();
    let learned = Learned { learned_from_ms: pool.start_ms, learned_to_ms: pool.time_ms(pool.slots.len()) };
    let written = request.nodes.as_ref().map(|(_, written)| written.clone());
    let plans = |timeout: fn(&Studied) -> (u32, u32)| -> PowerPlan {
        let pools = pools_ahead.iter().zip(&forward).map(|((_, study_result), forward)| {
            let nodes = written.clone().filter(|_| !slurm_by_vc);
            pool_plan(nodes, gpus, study_result, (timeout(study_result), forward.actions()))
        });
        PowerPlan { begins_ms, ..power_plan(request, figures, pools.collect()) }
    };
    let (plan, slurm_plan) = (plans(Studied::timeout), plans(Studied::slurm));
    if !trace.basis.has_calendar() {
        notes
            .push("Hours and weekdays are unknown; rules take the first moment for midnight of a Thursday.".to_owned());
    }
    let price_kwh = figures.worth.price_kwh;
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let saved_kwh = main.saved_kwh.iter().sum();
    let yearly = Yearly::new(saved_kwh, main.days[2], mean(&main.total), mean(&main.active), &figures.power);
    let hours = &request.hours;
    let currency = hours.currency.clone().or(figures.currency.clone());
    if begins_ms.is_some() {
        // Dates that nobody recorded are none.
        let clock = Clock::new(zone, begins_ms);
        forward.iter_mut().for_each(|ahead| ahead.tell_by(&clock));
    }
    let trial = PowerTrial {
        begins_ms,
        capacity_known: !pools.unknown(&main.name),
        planned_apart: slurm_by_vc,
        slot_s: request.demand.slot_ms as f64 / 1000.0,
        boot_slots: like.boot_slots,
        constants: figures.power.clone(),
        worth: figures.worth,
        weighted_by: weighing.filter(|_| main.weighted).map(|(by, _)| by.to_owned()),
        criterion: request.service,
        services: like.services.clone(),
        pool: PoolFindings::new(&main)?,
        slower_boots: PoolFindings::new(&slower)?,
        vcs_as_they_stand: Together::new(&vcs).filter(|_| stand),
        vcs: vcs.iter().map(PoolFindings::new).collect::<Result<_>>()?,
        effects,
        yearly,
        cost_saved: currency.is_some().then(|| {
            ByHour::new(&main, |at| match &hours.price {
                Some(price) => price.at(at),
                None => Some(price_kwh),
            })
        }),
        currency,
        co2_saved_kg: hours.carbon.as_ref().map(|carbon| ByHour::new(&main, |at| carbon.at(at).map(|g| g / 1000.0))),
        chart: chart(&main),
        zone: trace.zone.clone(),
    };
    let body = PowerBody { assumed: assumed.iter().cloned().chain(prices).collect(), forward, plan, slurm_plan };
    let cautions = pools.cautions.clone();
    let leading: Vec<&Studied> = if stand { vcs.iter().collect() } else { vec![&main] };
    let forecasting = worth::forecasting(&leading, &main, request.naive);
    let head = Head { schema: SCHEMA, title, cautions, notes, forecasting, sources: trace.sources.clone() };
    let sizes_unknown = request.replay.is_none() && pools.from_jobs && Capacity::of_another_time(trace).is_some();
    let answer = answered(head, trial, body, &pools.doubts, sizes_unknown);
    Ok((answer, SavedPlan { learned, pools: saved }))
}

/// Checks that as many nodes are named as the plan is for: a buffer for 400 nodes says nothing of 12.
fn named(request: &PowerRequest, study_result: &Studied) -> Result<()> {
    let Some((names, _)) = &request.nodes else { return Ok(()) };
    let total = study_result.total.last().copied().unwrap_or(0.0) as usize;
    if names.len() != total {
        return Err(Error::Power(format!(
            "--host-list names {} and the plan is for the {total} of {}; name those that were counted, or plan with --vc for a part of them",
            format::counted(names.len() as u64, "node", "nodes"),
            study_result.name
        )));
    }
    Ok(())
}

fn effects(
    request: &PowerRequest,
    trace: &Trace,
    figures: &Figures,
    days: &Days,
    chosen: &ChosenRules<'_>,
) -> Result<(Vec<Resimulated>, Vec<String>)> {
    let Some(replayed) = &request.replay else { return Ok((Vec::new(), Vec::new())) };
    let demand = &request.demand;
    let options = input::Options {
        from_ms: Some(days.fit_ms),
        to_ms: Some(days.to_ms),
        vcs: (!demand.vcs.is_empty()).then(|| demand.vcs.clone()),
        ..input::Options::default()
    };
    let loaded = input::load(trace, Some(&replayed.site), &options)?;
    let by_hour = |rate: &Option<Hourly>| rate.as_ref().map(|rate| Hours::by_hour(rate, days.from_ms, days.to_ms));
    let hours = &request.hours;
    let (price, carbon) =
        (by_hour(&hours.price), by_hour(&hours.carbon.as_ref().map(|grams| grams.map(|g| g / 1000.0))));
    let replay = ReplayCase {
        loaded: &loaded,
        policy: &replayed.policy,
        constants: &figures.power,
        rates: resim::HourlyRates {
            // Money without a currency is not told.
            price_per_kwh: hours
                .currency
                .as_ref()
                .or(figures.currency.as_ref())
                .map(|_| price.as_ref().map_or(PerHour::Constant(figures.worth.price_kwh), hourly)),
            co2_kg_per_kwh: carbon.as_ref().map(hourly),
        },
        slot_ms: demand.slot_ms,
        from_ms: days.from_ms,
        to_ms: days.to_ms,
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

fn chart(study_result: &Studied) -> Vec<(i64, f64, f64, f64)> {
    let slots = study_result.need.iter().zip(&study_result.active).zip(&study_result.orders).enumerate();
    let at = |slot: usize| study_result.from_ms + study_result.slot_ms * i64::try_from(slot).unwrap_or(0);
    slots.map(|(slot, ((need, active), powered))| (at(slot), *active, *need, *powered)).collect()
}

/// What to do with a pool: for a scheduler that can only time out and keep some idle, seconds and nodes; and as a schedule.
fn pool_plan(
    nodes: Option<String>,
    gpus: f64,
    study_result: &Studied,
    ((idle_s, keep_idle), actions): ((u32, u32), Vec<Action>),
) -> PoolPlan {
    let total = study_result.total.last().copied().unwrap_or(0.0) as u32;
    PoolPlan {
        name: study_result.name.clone(),
        nodes,
        total_nodes: total,
        gpus_per_node: gpus.round() as u32,
        keep_idle: keep_idle.min(total),
        idle_s,
        actions,
    }
}

fn power_plan(request: &PowerRequest, figures: &Figures, pools: Vec<PoolPlan>) -> PowerPlan {
    let seconds = |value: f64| value.ceil() as u32;
    PowerPlan {
        pools,
        begins_ms: None,
        boot_s: seconds(figures.power.boot_s),
        shutdown_s: seconds(figures.power.shutdown_s),
        wakes_per_minute: figures.power.wakes_per_minute,
        sleeps_per_minute: figures.power.sleeps_per_minute,
        canaries: request.canaries.clone(),
        suspend_program: None,
        resume_program: None,
    }
}
