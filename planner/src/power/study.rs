//! One series under every policy: what is fitted and chosen on the days before, and what it meant on the days evaluated.
//!
//! ```text
//! series ── first two thirds of the past ──▶ fitted ──▶ settings scored on the last third ──▶ curve, choice
//!        └─ all of the past ───────────────▶ fitted ──▶ the curve's settings scored on the evaluated days
//! ```
//!
//! Beside them stands the [offline optimum](super::optimum) at several switching costs. Worked example: 59 days before the first of December:
//! fitted on 39, chosen on 20; then fitted on 59 and scored on the fourteen days that follow.

use std::ops::Range;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use tracecast_analytics::time::HOUR_MS;
use tracecast_predictors::demand::{Series, Unit};

use super::ces::Thresholds;
use super::family::{Family, Scored, Setting, Stretch, front};
use super::optimum::{Prices, optimum};
use super::reach::{Reach, horizons};
use super::resim::Constants;
use super::score::{Demand, Outcome, Worth};
use crate::error::{Error, Result};
use crate::sim::compare::Estimate;

/// Share of all nodes by which sleep must differ for one setting to rule another out.
const TOLERANCE: f64 = 1.0 / 1600.0;
/// Days that there must be before the evaluation.
const LEAST_DAYS: f64 = 4.0;
/// Switching costs for which the optimum is told, hours of idle power.
const SWITCH_H: [f64; 4] = [0.5, 1.0, 2.0, 6.0];

/// How much shortage and wear is accepted.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct Service {
    /// Unserved node-slots a day, at most.
    pub unserved_per_day: f64,
    /// Node-wakes a day, at most.
    pub node_wakes_per_day: f64,
}

impl Service {
    /// Four levels from hardly any shortage to some, for a cluster of some hundred nodes.
    pub const USUAL: [Self; 4] = [
        Self { unserved_per_day: 15.0 / 14.0, node_wakes_per_day: 30.0 },
        Self { unserved_per_day: 40.0 / 14.0, node_wakes_per_day: 30.0 },
        Self { unserved_per_day: 100.0 / 14.0, node_wakes_per_day: 60.0 },
        Self { unserved_per_day: 250.0 / 14.0, node_wakes_per_day: 60.0 },
    ];

    /// Whether an outcome of so many days keeps to it.
    pub fn holds(&self, outcome: &Outcome, days: f64) -> bool {
        outcome.unserved_node_slots <= self.unserved_per_day * days + 1e-9
            && outcome.node_wakes_per_day <= self.node_wakes_per_day + 1e-9
    }
}

/// What is to be studied.
#[derive(Debug, Clone)]
pub struct Request {
    /// Slots to learn from and to choose on; what lies before serves as their past.
    pub fit: Range<usize>,
    /// Slots evaluated.
    pub eval: Range<usize>,
    /// Families to study.
    pub families: Vec<Family>,
    /// Slots that a boot takes beyond the one it is ordered for.
    pub boot_slots: usize,
    /// What energy costs or emits in each slot of the series, against the mean; empty where hours are alike.
    pub weights: Vec<f64>,
    /// What nodes draw.
    pub constants: Constants,
    /// What things are worth, for the choice.
    pub worth: Worth,
    /// CES as published for the like of this cluster.
    pub ces: Thresholds,
    /// Choose the setting that slept most within this, instead of the cheapest.
    pub budget: Option<Service>,
    /// Levels of service to choose for beside that.
    pub services: Vec<Service>,
}

/// One family: its curve and its choice.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// Which.
    pub family: Family,
    /// Settings that were kept.
    pub kept: usize,
    /// The upper edge of what was kept, on the evaluated days, most sleep first.
    pub points: Vec<Scored>,
    /// The chosen setting, on the evaluated days.
    pub chosen: Scored,
    /// What the settings meant that the days of choice would have picked for each of [`Request::services`]; `None` where none kept to it there.
    pub for_service: Vec<Option<Scored>>,
    /// What the chosen one meant on the days it was chosen on.
    pub chosen_before: Outcome,
    /// Its cost there, slots of sleep a slot.
    pub cost_before: f64,
}

/// The optimum at one switching cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Optimum {
    /// Hours of idle power that a wake costs.
    pub switch_h: f64,
    /// What it means.
    pub outcome: Outcome,
}

/// Figures with intervals.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct Intervals {
    /// Mean number of nodes asleep.
    pub nodes_asleep_mean: Estimate,
    /// Node-slots a day of demand that found no node ready.
    pub unserved_per_day: Estimate,
    /// Nodes woken a day.
    pub node_wakes_per_day: Estimate,
    /// Energy saved a day, kWh.
    pub energy_saved_kwh_per_day: Estimate,
    /// Days of a block that is drawn as a whole.
    pub block_days: usize,
}

/// Draws for an interval.
const DRAWS: u64 = 1000;

/// Blocks of whole weeks, or of days where there are under four weeks, are drawn with replacement.
fn intervals(demand: &Demand<'_>, orders: &[f64], buffer: f64) -> Intervals {
    let a_day = usize::try_from(24 * HOUR_MS / demand.slot_ms.max(1)).unwrap_or(1).max(1);
    let block_days = if demand.need.len() >= 28 * a_day { 7 } else { 1 };
    let blocks = demand.in_blocks(orders, buffer, block_days * a_day);
    let whole = demand.score(orders, buffer);
    let days = demand.days();
    let mut drawn: [Vec<f64>; 4] = std::array::from_fn(|_| Vec::with_capacity(DRAWS as usize));
    for draw in 0..DRAWS {
        let mut random = ChaCha8Rng::seed_from_u64(draw);
        let (mut sums, mut length) = ([0.0; 4], 0.0);
        for _ in 0..blocks.len() {
            let Some((own, outcome)) = blocks.get(random.random_range(0..blocks.len().max(1))) else { continue };
            let figures = figures(outcome, *own);
            sums.iter_mut().zip(figures).for_each(|(sum, figure)| *sum += figure * own);
            length += own;
        }
        drawn.iter_mut().zip(sums).for_each(|(values, sum)| values.push(sum / length));
    }
    let whole = figures(&whole, days);
    let mut found = drawn.into_iter().zip(whole).map(|(mut values, value)| {
        values.sort_unstable_by(f64::total_cmp);
        let at = |share: f64| values.get((share * (DRAWS - 1) as f64) as usize).copied().unwrap_or(value);
        Estimate { value, low: at(0.025), high: at(0.975) }
    });
    let mut next = || found.next().unwrap_or(Estimate { value: 0.0, low: 0.0, high: 0.0 });
    Intervals {
        nodes_asleep_mean: next(),
        unserved_per_day: next(),
        node_wakes_per_day: next(),
        energy_saved_kwh_per_day: next(),
        block_days,
    }
}

/// Sleep, shortage, wakes and energy, each a day, of an outcome of so many days.
fn figures(outcome: &Outcome, days: f64) -> [f64; 4] {
    let Outcome { nodes_asleep_mean, unserved_node_slots, node_wakes_per_day, energy_saved_kwh, .. } = *outcome;
    [nodes_asleep_mean, unserved_node_slots / days, node_wakes_per_day, energy_saved_kwh / days]
}

/// What was found of one series.
#[derive(Debug, Clone)]
pub struct Studied {
    /// Of what.
    pub name: String,
    /// Begin of the evaluated days, milliseconds since the epoch.
    pub from_ms: i64,
    /// Length of a slot, milliseconds.
    pub slot_ms: i64,
    /// Largest count of each evaluated slot, nodes.
    pub need: Vec<f64>,
    /// Nodes there are.
    pub total: Vec<f64>,
    /// Mean count of each evaluated slot, nodes.
    pub active: Vec<f64>,
    /// Slots evaluated in which nothing was counted.
    pub uncounted: usize,
    /// Days learned from, chosen on, evaluated.
    pub days: [f64; 3],
    /// By family.
    pub curves: Vec<Curve>,
    /// Our rule's chances, fitted on all days before.
    pub reach: Reach,
    /// Place of the curve that was best on the days of choice, of the causal ones.
    pub chosen: usize,
    /// Orders of its chosen setting, by evaluated slot.
    pub orders: Vec<f64>,
    /// Of the chosen setting, what other weeks (days, if there are under four weeks) like these might have given.
    pub intervals: Intervals,
    /// Of the chosen setting, energy saved in each slot, kWh at the building's meter.
    pub saved_kwh: Vec<f64>,
    /// Optima.
    pub optima: Vec<Optimum>,
}

impl Studied {
    /// The chosen trailing maximum as a scheduler carries it out that can only time out and keep some idle: seconds and nodes.
    pub fn timeout(&self) -> (u32, u32) {
        let found = self.curves.iter().find_map(|curve| match curve.chosen.setting {
            Setting::TrailingMaximum { slots, buffer } => Some((slots, buffer)),
            _ => None,
        });
        let (slots, buffer) = found.unwrap_or((6, 0));
        let idle_s = i64::try_from(slots).unwrap_or(0) * self.slot_ms / 1000;
        (u32::try_from(idle_s).unwrap_or(u32::MAX), buffer)
    }
}

/// A series in whole nodes: GPUs are divided by those of a node and rounded up, as a node in use for one GPU cannot sleep.
pub fn in_nodes(series: &Series, gpus_per_node: f64) -> Series {
    let mut nodes = series.clone();
    if series.unit == Unit::Gpus {
        for slot in &mut nodes.slots {
            slot.peak = (slot.peak / gpus_per_node).ceil();
            slot.last = (slot.last / gpus_per_node).ceil();
            slot.mean /= gpus_per_node;
            slot.pending = (slot.pending / gpus_per_node).ceil();
            slot.total = (slot.total / gpus_per_node).ceil();
        }
        nodes.unit = Unit::Nodes;
    }
    nodes
}

/// Needs and totals of a series in nodes, slot by slot: nobody can be served beyond what there is.
struct Sides {
    need: Vec<f64>,
    total: Vec<f64>,
}

impl Sides {
    fn of(series: &Series) -> Self {
        Self {
            need: series.slots.iter().map(|slot| slot.peak.min(slot.total)).collect(),
            total: series.slots.iter().map(|slot| slot.total).collect(),
        }
    }

    fn demand<'a>(&'a self, range: &Range<usize>, series: &Series, request: &'a Request) -> Demand<'a> {
        Demand {
            need: self.need.get(range.clone()).unwrap_or_default(),
            total: self.total.get(range.clone()).unwrap_or_default(),
            weights: request.weights.get(range.clone()).unwrap_or_default(),
            // Until then all nodes were on, as nobody had a plan.
            before: range.start.checked_sub(1).and_then(|before| self.total.get(before)).copied().unwrap_or(f64::MAX),
            boot_slots: request.boot_slots,
            slot_ms: series.slot_ms,
            constants: &request.constants,
            worth: &request.worth,
        }
    }
}

fn stretch<'a>(
    sides: &'a Sides,
    readings: &'a super::reach::Readings,
    range: &Range<usize>,
    series: &Series,
    request: &'a Request,
) -> Stretch<'a> {
    Stretch {
        need: &sides.need,
        total: &sides.total,
        range: range.clone(),
        readings,
        hour: usize::try_from(HOUR_MS / series.slot_ms.max(1)).unwrap_or(1).max(1),
        demand: sides.demand(range, series, request),
        ces: request.ces,
    }
}

/// The best of some settings, by what they meant on the days of choice; `None` if none keeps to the service asked for.
fn choose<'a>(scored: &'a [Scored], demand: &Demand<'_>, service: Option<&Service>) -> Option<&'a Scored> {
    let fitting = scored.iter().filter(|own| service.is_none_or(|service| service.holds(&own.outcome, demand.days())));
    let worse = |own: &Scored| match service {
        None => demand.cost(&own.outcome),
        Some(_) => -own.outcome.nodes_asleep_mean,
    };
    fitting.min_by(|a, b| worse(a).total_cmp(&worse(b)))
}

/// Of some settings, the one with the least shortage.
fn safest(scored: &[Scored]) -> Option<&Scored> {
    scored.iter().min_by(|a, b| a.outcome.unserved_node_slots.total_cmp(&b.outcome.unserved_node_slots))
}

/// Studies `series`, which counts nodes.
///
/// # Errors
/// If the ranges leave nothing to learn from, or a learner fails.
pub fn study(series: &Series, request: &Request) -> Result<Studied> {
    let (fit, eval) = (&request.fit, &request.eval);
    if eval.is_empty() || eval.end > series.slots.len() || fit.end > eval.start {
        return Err(Error::Policy(format!(
            "{}: the evaluated slots ({} to {}) must lie behind those fitted (to {}) and within the {} of the series",
            series.name,
            eval.start,
            eval.end,
            fit.end,
            series.slots.len()
        )));
    }
    let days = |range: &Range<usize>| range.len() as f64 * series.slot_ms as f64 / (24 * HOUR_MS) as f64;
    if days(fit) < LEAST_DAYS {
        return Err(Error::Policy(format!(
            "{}: {:.1} days before the evaluation are too few to learn from and to choose on; {LEAST_DAYS:.0} are the least",
            series.name,
            days(fit)
        )));
    }
    let sides = Sides::of(series);
    let split = fit.start + fit.len() * 2 / 3;
    let (learn, pick) = (fit.start..split, split..fit.end);
    let ahead = horizons(series.slot_ms, request.boot_slots);
    let fitted = |learn: Range<usize>, read: &Range<usize>| {
        let reach = Reach::fit(series, learn, &ahead)?;
        let readings = reach.read(series, read.clone())?;
        Ok::<_, Error>((reach, readings))
    };
    let (before, after) = rayon::join(|| fitted(learn.clone(), &pick), || fitted(fit.clone(), eval));
    let ((_, before), (reach, after)) = (before?, after?);
    let picking = stretch(&sides, &before, &pick, series, request);
    let evaluating = stretch(&sides, &after, eval, series, request);
    let curves: Vec<Curve> = request
        .families
        .par_iter()
        .map(|family| {
            let most = picking.demand.total.iter().copied().fold(0.0, f64::max);
            let kept = front(picking.sweep(*family), most * TOLERANCE);
            // Where nothing keeps to what is asked for, what serves best comes nearest to it.
            let own = choose(&kept, &picking.demand, request.budget.as_ref()).or_else(|| safest(&kept));
            let own = own.copied().unwrap_or_else(|| picking.score(&Setting::AlwaysOn));
            let for_service = request
                .services
                .iter()
                .map(|service| choose(&kept, &picking.demand, Some(service)).map(|own| evaluating.score(&own.setting)));
            Curve {
                family: *family,
                kept: kept.len(),
                for_service: for_service.collect(),
                points: front(kept.iter().map(|own| evaluating.score(&own.setting)).collect(), 0.0),
                chosen: evaluating.score(&own.setting),
                chosen_before: own.outcome,
                cost_before: picking.demand.cost(&own.outcome),
            }
        })
        .collect();
    let causal = curves.iter().enumerate().filter(|(_, curve)| curve.family.causal());
    let worse = |curve: &Curve| match &request.budget {
        None => (false, curve.cost_before),
        Some(service) if service.holds(&curve.chosen_before, picking.demand.days()) => {
            (false, -curve.chosen_before.nodes_asleep_mean)
        }
        Some(_) => (true, curve.chosen_before.unserved_node_slots),
    };
    let order = |a: &Curve, b: &Curve| {
        let (a, b) = (worse(a), worse(b));
        a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
    };
    let chosen = causal.min_by(|a, b| order(a.1, b.1)).map_or(0, |(place, _)| place);
    let setting = curves.get(chosen).map_or(Setting::AlwaysOn, |curve| curve.chosen.setting);
    let (orders, buffer) = evaluating.orders(&setting);
    let totals = evaluating.demand.total;
    let slots = series.slots.get(eval.clone()).unwrap_or_default();
    Ok(Studied {
        name: series.name.clone(),
        from_ms: series.time_ms(eval.start),
        slot_ms: series.slot_ms,
        need: evaluating.demand.need.to_vec(),
        total: totals.to_vec(),
        active: slots.iter().map(|slot| slot.mean).collect(),
        uncounted: slots.iter().filter(|slot| !slot.counted).count(),
        days: [days(&learn), days(&pick), days(eval)],
        chosen,
        orders: orders.iter().zip(totals).map(|(order, total)| (order + buffer).min(*total)).collect(),
        intervals: intervals(&evaluating.demand, &orders, buffer),
        reach,
        saved_kwh: evaluating.demand.saved_kwh(&orders, buffer),
        optima: optima(&evaluating.demand),
        curves,
    })
}

fn optima(demand: &Demand<'_>) -> Vec<Optimum> {
    SWITCH_H
        .par_iter()
        .map(|switch_h| {
            let wake = switch_h * HOUR_MS as f64 / demand.slot_ms as f64;
            let orders =
                optimum(demand.need, demand.total, demand.weights, demand.before, Prices { wake, unserved: None });
            // Who knows the future orders early enough, so a boot that takes longer costs it nothing.
            let ahead = Demand { boot_slots: 0, ..*demand };
            Optimum { switch_h: *switch_h, outcome: ahead.score(&orders, 0.0) }
        })
        .collect()
}
