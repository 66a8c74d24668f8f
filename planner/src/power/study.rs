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

/// Switching costs for which the optimum is told, hours of idle power.
const SWITCH_H: [f64; 4] = [0.5, 1.0, 2.0, 6.0];

/// What is to be studied.
#[derive(Debug, Clone)]
pub struct Request {
    /// Slots to learn from and to choose on; what lies before serves as their past.
    pub fit: Range<usize>,
    /// Slots evaluated.
    pub eval: Range<usize>,
    /// Slots that a boot takes beyond the one it is ordered for.
    pub boot_slots: usize,
    /// What nodes draw.
    pub constants: Constants,
    /// What things are worth, for the choice.
    pub worth: Worth,
    /// CES as published for the like of this cluster.
    pub ces: Thresholds,
    /// Choose the setting that slept most with at most so many unserved node-slots a day and so many node-wakes a day, instead of the cheapest.
    pub budget: Option<(f64, f64)>,
}

/// One family: its curve and its choice.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// Which.
    pub family: Family,
    /// Settings of the curve, scored on the evaluated days, in the order of how much they slept on the days of choice.
    pub points: Vec<Scored>,
    /// Place of the chosen one.
    pub chosen: usize,
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
    /// Place of the curve that was best on the days of choice, of the causal ones.
    pub chosen: usize,
    /// Orders of its chosen setting, by evaluated slot.
    pub orders: Vec<f64>,
    /// Optima.
    pub optima: Vec<Optimum>,
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
            before: range.start.checked_sub(1).and_then(|before| self.need.get(before)).copied().unwrap_or(0.0),
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

/// The place of the best of a curve by what it meant on the days of choice.
fn choose(points: &[Scored], demand: &Demand<'_>, budget: Option<(f64, f64)>) -> usize {
    let within = |own: &Scored| match budget {
        None => true,
        Some((unserved, wakes)) => {
            own.outcome.unserved_node_slots <= unserved * demand.days() && own.outcome.node_wakes_per_day <= wakes
        }
    };
    let cost = |own: &Scored| match budget {
        None => demand.cost(&own.outcome),
        Some(_) => -own.outcome.nodes_asleep_mean,
    };
    let fitting = points.iter().enumerate().filter(|(_, own)| within(own));
    let best = fitting.min_by(|a, b| cost(a.1).total_cmp(&cost(b.1)).then(a.0.cmp(&b.0)));
    // Where nothing fits the budget, what serves best comes nearest to it.
    let unserved = |own: &Scored| own.outcome.unserved_node_slots;
    let safest = || points.iter().enumerate().min_by(|a, b| unserved(a.1).total_cmp(&unserved(b.1)));
    best.or_else(safest).map_or(0, |(place, _)| place)
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
    let sides = Sides::of(series);
    let split = fit.start + fit.len() * 2 / 3;
    let (learn, pick) = (fit.start..split, split..fit.end);
    let ahead = horizons(series.slot_ms, request.boot_slots);
    let readings =
        |learn: Range<usize>, read: &Range<usize>| Reach::fit(series, learn, &ahead)?.read(series, read.clone());
    let (before, after) = rayon::join(|| readings(learn.clone(), &pick), || readings(fit.clone(), eval));
    let (before, after) = (before?, after?);
    let picking = stretch(&sides, &before, &pick, series, request);
    let evaluating = stretch(&sides, &after, eval, series, request);
    let curves: Vec<Curve> = Family::ALL
        .par_iter()
        .map(|family| {
            let kept = front(picking.sweep(*family));
            let place = choose(&kept, &picking.demand, request.budget);
            let before = kept.get(place).map(|own| own.outcome).unwrap_or_default();
            Curve {
                family: *family,
                points: kept.iter().map(|own| evaluating.score(&own.setting)).collect(),
                chosen: place,
                chosen_before: before,
                cost_before: picking.demand.cost(&before),
            }
        })
        .collect();
    let causal = curves.iter().enumerate().filter(|(_, curve)| curve.family.causal());
    let fits = |curve: &Curve| match request.budget {
        None => curve.cost_before,
        Some((unserved, wakes)) => {
            let own = &curve.chosen_before;
            let kept = own.unserved_node_slots <= unserved * picking.demand.days() && own.node_wakes_per_day <= wakes;
            if kept { -own.nodes_asleep_mean } else { own.unserved_node_slots }
        }
    };
    let chosen = causal.min_by(|a, b| fits(a.1).total_cmp(&fits(b.1))).map_or(0, |(place, _)| place);
    let setting = curves.get(chosen).and_then(|curve| curve.points.get(curve.chosen)).map(|own| own.setting);
    let (orders, buffer) = evaluating.orders(&setting.unwrap_or(Setting::AlwaysOn));
    let totals = evaluating.demand.total;
    let slots = series.slots.get(eval.clone()).unwrap_or_default();
    let days = |range: &Range<usize>| range.len() as f64 * series.slot_ms as f64 / (24 * HOUR_MS) as f64;
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
        optima: optima(&evaluating.demand),
        curves,
    })
}

fn optima(demand: &Demand<'_>) -> Vec<Optimum> {
    SWITCH_H
        .par_iter()
        .map(|switch_h| {
            let wake = switch_h * HOUR_MS as f64 / demand.slot_ms as f64;
            let orders = optimum(demand.need, demand.total, demand.before, Prices { wake, unserved: None });
            // Who knows the future orders early enough, so a boot that takes longer costs it nothing.
            let ahead = Demand { boot_slots: 0, ..*demand };
            Optimum { switch_h: *switch_h, outcome: ahead.score(&orders, 0.0) }
        })
        .collect()
}
