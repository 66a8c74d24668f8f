//! One series, or several VCs, under every rule: what is fitted and chosen on the days before, and what it meant on the days evaluated.
//!
//! ```text
//! series ── first two thirds of the past ──▶ fitted ──▶ settings scored on the last third ──▶ choice (choice), curve
//!        └─ all of the past ───────────────▶ fitted ──▶ the choice and the curve's settings scored on the evaluated days
//! ```
//!
//! Several VCs are chosen for [together](study_together), as each alone tells little. Beside them
//! stands the [offline optimum](crate::power::score::optimum) at several switching costs. Nothing
//! of the evaluated days, demand or prices, enters a choice. Worked example: 59 days before the
//! first of December: fitted on 39, chosen on 20; then fitted on 59 and scored on the fourteen days
//! that follow.

pub mod choice;
pub mod promise;
pub mod study_result;
pub(in crate::power) mod worth;

use std::ops::Range;

use rayon::prelude::*;
use tracecast_analytics::time::{DAY_MS, HOUR_MS};
use tracecast_predictors::demand::{Series, Slot, Unit};

use crate::error::{Error, Result};
use crate::plan::window::learn_and_choose;
use crate::power::rule::Setting;
use crate::power::rule::ces::Thresholds;
use crate::power::rule::family::{Family, Scored, Stretch, Tried, front};
use crate::power::score::boot::slots_booting;
use crate::power::score::constants::Constants;
use crate::power::score::interval::{self, Block, Intervals};
use crate::power::score::optimum::{Prices, optimum};
use crate::power::score::service::Service;
use crate::power::score::tariff::{HourWeights, Rates};
use crate::power::score::{NodeDemand, Sums, Worth, relative};
use choice::{Because, Elected, Judge, Member};
use promise::{Followed, Guard};
pub use study_result::{Curve, Promise, Studied, SwitchingOptimum};
use tracecast_predictors::demand::reach::{Reach, Readings, horizons};

/// Share of all nodes by which sleep must differ for one setting to rule another out.
const TOLERANCE: f64 = 1.0 / 1600.0;
/// Days that there must be before the evaluation.
pub(super) const LEAST_DAYS: f64 = 4.0;
/// Switching costs for which the optimum is told, hours of idle power.
const SWITCH_H: [f64; 4] = [0.5, 1.0, 2.0, 6.0];
/// The switching cost at which the optimum is quoted, hours of idle power.
pub const QUOTED_H: f64 = 2.0;

/// What is to be studied.
#[derive(Debug, Clone)]
pub struct Request {
    /// Slots to learn from and to choose on; what lies before serves as their past.
    pub fit: Range<usize>,
    /// Slots evaluated.
    pub eval: Range<usize>,
    /// Families to study.
    pub families: Vec<Family>,
    /// Slots that a boot takes, such as 0.5.
    pub boot_slots: f64,
    /// Price or emissions of energy in each slot of the series; empty where hours are alike.
    pub rates: Rates,
    /// Power of nodes.
    pub constants: Constants,
    /// Prices of sleep, service and wear, for the choice.
    pub worth: Worth,
    /// CES as published for the like of this cluster.
    pub ces: Thresholds,
    /// Choose the setting that slept most within this, instead of the cheapest.
    pub budget: Option<Service>,
    /// Levels of service to choose for beside that.
    pub services: Vec<Service>,
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

/// What a slot asks for: the busy nodes and those that waiting jobs need, up to those there are.
pub(super) fn asked(slot: &Slot) -> f64 {
    (slot.peak + slot.pending).min(slot.total)
}

/// Needs and totals of a series in nodes, slot by slot: nobody can be served beyond what there is.
#[derive(Debug)]
struct Sides {
    need: Vec<f64>,
    total: Vec<f64>,
}

impl Sides {
    fn new(series: &Series) -> Self {
        Self {
            need: series.slots.iter().map(|slot| slot.peak.min(slot.total)).collect(),
            total: series.slots.iter().map(|slot| slot.total).collect(),
        }
    }

    fn demand<'a>(
        &'a self,
        range: &Range<usize>,
        series: &Series,
        request: &'a Request,
        weights: &'a [f64],
    ) -> NodeDemand<'a> {
        NodeDemand {
            need: self.need.get(range.clone()).unwrap_or_default(),
            total: self.total.get(range.clone()).unwrap_or_default(),
            weights: weights.get(range.clone()).unwrap_or_default(),
            // Until then all nodes were on, as nobody had a plan, and those that join in the first slot arrive powered.
            before: self.total.get(range.start).copied().unwrap_or(f64::MAX),
            boot_slots: request.boot_slots,
            slot_ms: series.slot_ms,
            constants: &request.constants,
            worth: &request.worth,
        }
    }
}

/// The best of some settings, by what they meant on the days of choice; `None` if none keeps to the service asked for.
fn within<'a>(scored: &'a [Scored], demand: &NodeDemand<'_>, service: &Service) -> Option<&'a Scored> {
    let fitting = scored.iter().filter(|point| service.holds(&point.outcome, demand.days()));
    fitting.max_by(|a, b| {
        // Of equals the first.
        let order = a.outcome.nodes_asleep_mean.total_cmp(&b.outcome.nodes_asleep_mean);
        order.then(std::cmp::Ordering::Greater)
    })
}

/// One rule, as the days of choice saw it.
#[derive(Debug)]
pub(super) struct Surveyed {
    family: Family,
    tried: usize,
    kept: Vec<Scored>,
    elected: Elected,
    /// Where a service is asked for, the setting that would be elected if none were.
    free: Option<Elected>,
    for_service: Vec<Option<Setting>>,
    /// All settings block by block, of rules whose setting VCs may share.
    blocks: Vec<Tried>,
}

impl Surveyed {
    /// All its settings; of a rule with many, those of its [front](Surveyed::front).
    pub(super) fn settings(&self) -> Vec<Setting> {
        if self.blocks.is_empty() { self.front() } else { self.blocks.iter().map(|tried| tried.setting).collect() }
    }

    /// Settings that no other beat on the days of choice.
    pub(super) fn front(&self) -> Vec<Setting> {
        self.kept.iter().map(|scored| scored.setting).collect()
    }

    /// The setting that slept most within a level of service, by its place in [`Request::services`]; where none kept to it, the one with the least
    /// shortage.
    pub(super) fn within(&self, service: usize) -> Option<Setting> {
        let least = || {
            let order =
                |a: &&Scored, b: &&Scored| a.outcome.unserved_node_slots.total_cmp(&b.outcome.unserved_node_slots);
            self.kept.iter().min_by(order).map(|scored| scored.setting)
        };
        self.for_service.get(service).copied().flatten().or_else(least)
    }
}

/// One series, fitted, with every rule scored on the days of choice.
#[derive(Debug)]
pub(super) struct Survey<'a> {
    series: &'a Series,
    request: &'a Request,
    sides: Sides,
    weights: HourWeights,
    weighted: bool,
    learn: Range<usize>,
    pick: Range<usize>,
    before: Readings,
    reach: Reach,
    after: Readings,
    rules: Vec<Surveyed>,
}

fn days(slots: &Range<usize>, series: &Series) -> f64 {
    slots.len() as f64 * series.slot_ms as f64 / DAY_MS as f64
}

impl<'a> Survey<'a> {
    /// Fits everything, and scores every setting on the days of choice.
    pub(super) fn of(series: &'a Series, request: &'a Request) -> Result<Self> {
        let (fit, eval) = (&request.fit, &request.eval);
        if eval.is_empty() || eval.end > series.slots.len() || fit.end > eval.start {
            return Err(Error::policy(format!(
                "{}: the evaluated slots ({} to {}) must lie behind those fitted (to {}) and within the {} of the series",
                series.name,
                eval.start,
                eval.end,
                fit.end,
                series.slots.len()
            )));
        }
        if days(fit, series) < LEAST_DAYS {
            return Err(Error::TooFewDays { series: series.name.clone(), days: days(fit, series), least: LEAST_DAYS });
        }
        let (learn, pick) = learn_and_choose(fit);
        let ahead = horizons(series.slot_ms, slots_booting(request.boot_slots));
        // Nothing is learned for rules that ask for no chances.
        let learns = request.families.iter().any(|family| family.learns());
        let ahead: &[usize] = if learns { ahead.as_slice() } else { &[] };
        let fitted = |learn: Range<usize>, read: &Range<usize>| {
            let reach = Reach::fit(series, learn, ahead)?;
            let readings = reach.read(series, read.clone())?;
            Ok::<_, Error>((reach, readings))
        };
        let (before, after) = rayon::join(|| fitted(learn.clone(), &pick), || fitted(fit.clone(), eval));
        let ((_, before), (reach, after)) = (before?, after?);
        let result = request.rates.weights(series, eval.start, request.worth.price_kwh);
        let mut survey = Self {
            series,
            request,
            sides: Sides::new(series),
            weighted: result.is_some(),
            weights: result.unwrap_or_default(),
            learn,
            pick,
            before,
            reach,
            after,
            rules: Vec::new(),
        };
        survey.rules = request.families.par_iter().map(|family| survey.rule(*family)).collect();
        Ok(survey)
    }

    fn stretch<'b>(&'b self, range: &Range<usize>, readings: &'b Readings, weights: &'b [f64]) -> Stretch<'b> {
        Stretch {
            need: &self.sides.need,
            total: &self.sides.total,
            range: range.clone(),
            readings,
            demand: self.sides.demand(range, self.series, self.request, weights),
            ces: self.request.ces,
        }
    }

    /// The days of choice, weighed as the past lets expect.
    pub(super) fn picking(&self) -> Stretch<'_> {
        self.stretch(&self.pick, &self.before, &self.weights.expected)
    }

    /// The days evaluated, weighed as they came.
    pub(super) fn evaluating(&self) -> Stretch<'_> {
        self.stretch(&self.request.eval, &self.after, &self.weights.realised)
    }

    /// One rule, if it was asked for.
    pub(super) fn rule_of(&self, family: Family) -> Option<&Surveyed> {
        self.rules.iter().find(|rule| rule.family == family)
    }

    /// The settings that keep a promise best, as the days of choice tell.
    pub(super) fn follow(&self, service: &Service) -> Followed {
        let of = |family: Family| self.rule_of(family);
        let trailing: Vec<Setting> = of(Family::TrailingMaximum).into_iter().flat_map(Surveyed::settings).collect();
        let reach: Vec<Setting> = of(Family::Reach).into_iter().flat_map(Surveyed::front).collect();
        promise::follow(&self.picking(), (&trailing, &reach), service, self.request.eval.len())
    }

    fn judge<'b>(&'b self, picking: &Stretch<'_>) -> Judge<'b> {
        Judge::new(&picking.demand, self.request.budget.as_ref())
    }

    /// Judges as if no service were asked for.
    fn free_judge(&self) -> Judge<'static> {
        Judge::new(&self.picking().demand, None)
    }

    /// The rules as they were elected; if `free`, as if no service were asked for.
    fn elected(&self, free: bool) -> Vec<(Family, &Elected)> {
        let elected = |rule| {
            let Surveyed { family, free: unasked, elected, .. }: &Surveyed = rule;
            (*family, unasked.as_ref().filter(|_| free).unwrap_or(elected))
        };
        self.rules.iter().map(elected).collect()
    }

    fn rule(&self, family: Family) -> Surveyed {
        let picking = self.picking();
        let tried = picking.sweep_in_blocks(family, choice::block_slots(self.pick.len(), self.series.slot_ms));
        let nothing = || {
            let whole = Sums::default();
            Elected { setting: Setting::AlwaysOn, whole, held_out: Vec::new() }
        };
        let elected = choice::elect(&self.judge(&picking), &tried).unwrap_or_else(nothing);
        let scored = |trial: &Tried| {
            let outcome = picking.demand.outcome(&Sums::new(&trial.blocks));
            Scored { setting: trial.setting, outcome }
        };
        let most = picking.demand.total.iter().copied().fold(0.0, f64::max);
        let kept = front(tried.iter().map(scored).collect(), most * TOLERANCE);
        let services = self.request.services.iter();
        let shared = family.plain() || family == Family::SlurmConf;
        Surveyed {
            family,
            tried: tried.len(),
            for_service: services
                .map(|service| within(&kept, &picking.demand, service).map(|point| point.setting))
                .collect(),
            kept,
            elected,
            free: self.request.budget.and_then(|_| choice::elect(&self.free_judge(), &tried)),
            blocks: if shared { tried } else { Vec::new() },
        }
    }

    /// Outcome of a setting of a rule on the days evaluated, given what it is taken for beforehand.
    fn curve(&self, rule: &Surveyed, elected: &Elected, evaluating: &Stretch<'_>, picking: &Stretch<'_>) -> Curve {
        let block = interval::block_slots(&evaluating.demand);
        let sums = evaluating.try_in_blocks(&elected.setting, block).blocks;
        self.scored(rule, elected, (evaluating, &sums), picking)
    }

    /// Returns the curve of a rule, given the sums of each block of the days evaluated.
    fn scored(
        &self,
        rule: &Surveyed,
        elected: &Elected,
        (evaluating, sums): (&Stretch<'_>, &[Sums]),
        picking: &Stretch<'_>,
    ) -> Curve {
        let outcome = evaluating.demand.outcome(&Sums::new(sums));
        let blocks: Vec<Block> = sums.iter().map(|sums| Block::new(&evaluating.demand, sums)).collect();
        let wake = QUOTED_H * HOUR_MS as f64 / self.series.slot_ms as f64;
        let for_service = rule.for_service.iter();
        Curve {
            family: rule.family,
            tried: rule.tried,
            kept: rule.kept.len(),
            points: front(evaluating.score_all(&rule.front()), 0.0),
            chosen: Scored { setting: elected.setting, outcome },
            for_service: for_service.map(|setting| setting.as_ref().map(|one| evaluating.score(one))).collect(),
            chosen_before: picking.demand.outcome(&elected.whole),
            held_out: picking.demand.outcome(&Sums::new(&elected.held_out)),
            intervals: Intervals::new(&blocks),
            blocks,
            optimum_at_service: evaluating.demand.optimum_at(outcome.unserved_node_slots, wake),
        }
    }

    /// What keeps a promise, under its guard, and what became of it; `None` where no setting was tried.
    fn guarded(
        &self,
        (service, followed): (&Service, &Followed),
        evaluating: &Stretch<'_>,
        picking: &Stretch<'_>,
    ) -> Option<Kept> {
        let Followed { setting, before, plain, .. } = *followed;
        let setting = setting?;
        let rule = self.rule_of(Family::of(&setting))?;
        let block = interval::block_slots(&evaluating.demand);
        let kept = promise::keep(evaluating, &setting, service);
        // On the days of choice there is one account of the promise, so that no day can be held out.
        let elected = Elected { setting, whole: before, held_out: vec![before] };
        let curve = self.scored(rule, &elected, (evaluating, &kept.blocks(block)), picking);
        let outcome = curve.chosen.outcome;
        let days = evaluating.demand.days();
        let promise = Promise {
            asked: *service,
            realised: Service::of(&outcome, days),
            kept: service.holds(&outcome, days),
            scored: Scored { setting, outcome },
        };
        let blocks_of = |setting: &Setting| {
            let sums = promise::keep(evaluating, setting, service).blocks(block);
            sums.iter().map(|sums| Block::new(&evaluating.demand, sums)).collect()
        };
        let trailing = match plain {
            Some(plain) if plain == setting => Some(curve.blocks.clone()),
            plain => plain.as_ref().map(blocks_of),
        };
        Some(Kept { promise, curve, guard: promise::guard_of(evaluating, &setting), trailing, orders: kept.orders })
    }

    /// What was chosen, on the days evaluated. `stands` are the plain rules that all VCs follow unless the past clearly says otherwise: as asked for, and as if no service were.
    fn finish(self, stands: [Option<(usize, Because)>; 2]) -> Studied {
        let (picking, evaluating) = (self.picking(), self.evaluating());
        let (chosen, mut because) = choice::decide(&self.judge(&picking), &self.elected(false), stands[0]);
        let curves: Vec<Curve> =
            self.rules.par_iter().map(|rule| self.curve(rule, &rule.elected, &evaluating, &picking)).collect();
        let trailing = curves.iter().find(|curve| curve.family == Family::TrailingMaximum);
        let mut trailing = trailing.map(|curve| curve.blocks.clone());
        let setting = curves.get(chosen).map_or(Setting::AlwaysOn, |curve| curve.chosen.setting);
        let (mut orders, mut buffer) = evaluating.orders(&setting);
        let (mut promise, mut guarded, mut guard) = (None, None, None);
        let followed = self.request.budget.as_ref().map(|service| (service, self.follow(service)));
        if let Some((service, followed)) = &followed
            && let Some(kept) = self.guarded((service, followed), &evaluating, &picking)
        {
            because = Because::KeepsPromise;
            (orders, buffer, trailing) = (kept.orders, 0.0, kept.trailing);
            (promise, guarded, guard) = (Some(kept.promise), Some(kept.curve), Some(kept.guard));
        }
        let unpromised = self.request.budget.and_then(|_| {
            let rules = self.elected(true);
            let (place, _) = choice::decide(&self.free_judge(), &rules, stands[1]);
            Some(self.curve(self.rules.get(place)?, rules.get(place)?.1, &evaluating, &picking))
        });
        let leads = guarded.as_ref().or_else(|| curves.get(chosen));
        let over_trailing = leads.zip(trailing.as_ref());
        let over_trailing = over_trailing.map(|(curve, other)| Intervals::of_differences(&curve.blocks, other));
        let totals = evaluating.demand.total;
        let eval = &self.request.eval;
        let slots = self.series.slots.get(eval.clone()).unwrap_or_default();
        Studied {
            name: self.series.name.clone(),
            from_ms: self.series.time_ms(eval.start),
            slot_ms: self.series.slot_ms,
            need: evaluating.demand.need.to_vec(),
            asked: slots.iter().map(asked).collect(),
            total: totals.to_vec(),
            active: slots.iter().map(|slot| slot.mean).collect(),
            uncounted: slots.iter().filter(|slot| !slot.counted).count(),
            days: [&self.learn, &self.pick, eval].map(|slots| days(slots, self.series)),
            chosen,
            because,
            over_trailing,
            trailing,
            weighted: self.weighted,
            promise,
            guarded,
            guard,
            unpromised,
            orders: orders.iter().zip(totals).map(|(order, total)| (order + buffer).min(*total)).collect(),
            saved_kwh: evaluating.demand.saved_kwh(&orders, buffer),
            driven: self.driven(&evaluating, followed.as_ref()),
            optima: optima(&evaluating.demand),
            curves,
            reach: self.reach,
        }
    }
}

/// A rule under the guard of its promise, on the days evaluated.
struct Kept {
    promise: Promise,
    curve: Curve,
    guard: Guard,
    /// Outcome of the trailing maximum under this guard in each block.
    trailing: Option<Vec<Block>>,
    orders: Vec<f64>,
}

/// Studies `series`, which counts nodes.
///
/// # Errors
/// If the ranges leave nothing to learn from, or a learner fails.
pub fn study(series: &Series, request: &Request) -> Result<Studied> {
    Ok(Survey::of(series, request)?.finish([None, None]))
}

/// Studies several VCs, each with its request, that learn from each other: see [`choice`]. An error is that of its VC alone.
pub fn study_together(all: &[(&Series, Request)]) -> Vec<Result<Studied>> {
    let mut surveys: Vec<Result<Survey<'_>>> =
        all.par_iter().map(|(series, request)| Survey::of(series, request)).collect();
    let mut known: Vec<&mut Survey<'_>> = surveys.iter_mut().filter_map(|survey| survey.as_mut().ok()).collect();
    let families = all.first().map_or(0, |(_, request)| request.families.len());
    // Studied as requested, and if a service was, also without it.
    let served = all.first().is_some_and(|(_, request)| request.budget.is_some());
    let ways: &[bool] = if served { &[false, true] } else { &[false] };
    for (place, free) in (0..families).flat_map(|place| ways.iter().map(move |free| (place, *free))) {
        let members: Vec<Member<'_>> = known
            .iter()
            .filter_map(|survey| {
                let rule = survey.rules.get(place).filter(|rule| !rule.blocks.is_empty())?;
                let judge = if free { survey.free_judge() } else { survey.judge(&survey.picking()) };
                Some(Member { judge, tried: &rule.blocks })
            })
            .collect();
        let found = choice::elect_together(&members);
        if found.len() != known.len() {
            continue;
        }
        for (survey, elected) in known.iter_mut().zip(found) {
            match (survey.rules.get_mut(place), elected) {
                (Some(rule), elected @ Some(_)) if free => rule.free = elected,
                (Some(rule), Some(elected)) => rule.elected = elected,
                _ => (),
            }
        }
    }
    let stands = |free: bool| {
        let judge = |survey| {
            let survey: &Survey<'_> = survey;
            if free { survey.free_judge() } else { survey.judge(&survey.picking()) }
        };
        let judges: Vec<Judge<'_>> = known.iter().map(|survey| judge(survey)).collect();
        let rules: Vec<Vec<(Family, &Elected)>> = known.iter().map(|survey| survey.elected(free)).collect();
        choice::decide_together(&judges, &rules)
    };
    let stands = [stands(false), served.then(|| stands(true)).flatten()];
    surveys.into_iter().map(|result| result.map(|survey| survey.finish(stands))).collect()
}

fn optima(demand: &NodeDemand<'_>) -> Vec<SwitchingOptimum> {
    SWITCH_H
        .par_iter()
        .map(|switch_h| {
            let wake = switch_h * HOUR_MS as f64 / demand.slot_ms as f64;
            let weights = relative(demand.weights);
            let prices = Prices { wake, unserved: None };
            let orders = optimum(demand.need, demand.total, &weights, demand.before, demand.boot_slots, prices);
            SwitchingOptimum { switch_h: *switch_h, outcome: demand.score(&orders, 0.0) }
        })
        .collect()
}
