//! The answer of `plan power`: one JSON (`plan-power/2`) and one [report], from what was [studied](super::study) and [re-simulated](super::resim).
//!
//! First comes what was chosen beforehand, with intervals; curves, which are read with hindsight, follow. The first of the series is the pool or
//! cluster; VCs follow, which learn from each other. Worked example: a chosen rule that lets 115.1 of 420 nodes sleep where
//! the optimum at a switching cost of two hours lets 126.6 reaches 91 % of it.

mod ahead;
mod notes;
pub mod report;
mod sentences;
mod words;

pub(super) use words::change_of_wait;

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::trace::SourceRecord;

use super::apply::Resimulated;
use super::choice::Because;
use super::config::Target;
use super::family::{Family, Scored};
use super::forward::Forward;
use super::interval::{Block, Intervals};
use super::plan::PowerPlan;
use super::resim::Constants;
use super::score::{SleepOutcome, Worth};
use super::service::Service;
use super::study::{Curve, Promise, QUOTED_H, Studied, SwitchingOptimum};
use super::yearly::Yearly;
use crate::error::{Error, Result};
use crate::plan::interval::average;
use crate::plan::{Assurance, Recommendation, SIZES_UNKNOWN, nothing_advised};

/// Version of the JSON.
pub const SCHEMA: &str = "plan-power/2";
/// Share of the demand that a rule must serve to be held against an optimum that serves all of it.
const SERVED: f64 = 0.999;
/// Rules that stand beside the chosen one, chosen in the same way.
const BESIDE: [Family; 4] = [Family::TrailingMaximum, Family::Timeout, Family::Reach, Family::SlurmConf];

/// A point of a curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Point {
    /// Rule, parameters and what they meant.
    #[serde(flatten)]
    pub scored: Scored,
    /// Whether the days before would have chosen it.
    pub chosen: bool,
}

/// One kind of rule.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PolicyCurve {
    /// Its name.
    pub name: Family,
    /// Whether it decides from the past alone.
    pub causal: bool,
    /// Settings that were tried: the best of many looks well by chance.
    pub settings_tried: usize,
    /// Settings that the days before left as possible.
    pub settings_kept: usize,
    /// Those of them that turned out best, most sleep first, and the chosen one. Where on it one stands is read with hindsight.
    pub curve: Vec<Point>,
    /// The chosen setting.
    pub chosen: Scored,
    /// What it had meant on the days it was chosen on.
    pub chosen_before: SleepOutcome,
    /// For each of the levels of service asked for, what the setting meant that the days before would have chosen; `null` if none kept to it there.
    pub for_service: Vec<Option<Scored>>,
}

/// Money or carbon of the energy saved, by the hour.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct ByHour {
    /// In its unit, over the evaluated days.
    pub value: f64,
    /// Share of the evaluated slots whose hour has a rate; of the others nothing is in `value`.
    pub covered_share: f64,
}

impl ByHour {
    /// What a plan saved, at a rate for each kWh.
    pub fn of(studied: &Studied, rate: impl Fn(i64) -> Option<f64>) -> Self {
        let (mut value, mut covered) = (0.0, 0usize);
        for (slot, kwh) in studied.saved_kwh.iter().enumerate() {
            if let Some(rate) = rate(studied.from_ms + studied.slot_ms * i64::try_from(slot).unwrap_or(0)) {
                value += kwh * rate;
                covered += 1;
            }
        }
        Self { value, covered_share: covered as f64 / studied.saved_kwh.len().max(1) as f64 }
    }
}

/// What one day, on average, was to bring, and what it brought.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct PerDay {
    /// Mean number of nodes asleep.
    pub nodes_asleep_mean: f64,
    /// Unserved node-slots a day.
    pub unserved_per_day: f64,
    /// Node-wakes a day.
    pub node_wakes_per_day: f64,
}

impl PerDay {
    fn of(outcome: &SleepOutcome, days: f64) -> Self {
        Self {
            nodes_asleep_mean: outcome.nodes_asleep_mean,
            unserved_per_day: outcome.unserved_node_slots / days.max(f64::MIN_POSITIVE),
            node_wakes_per_day: outcome.node_wakes_per_day,
        }
    }
}

/// What the setting of a rule was chosen for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChosenFor {
    /// The least cost of wakes and shortage, and the most sleep.
    Cost,
    /// The most sleep within the service that was asked for. Nothing watches whether it is kept.
    Service,
    /// The same under the guard of a promise.
    Promise,
}

/// One rule, with the setting that the days before would have chosen.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Beforehand {
    /// Which policy.
    pub policy: Family,
    /// What its setting was chosen for.
    pub chosen_for: ChosenFor,
    /// Whether it is the one to follow.
    pub chosen: bool,
    /// Settings that it was chosen from.
    pub settings_tried: usize,
    /// What the days of choice promised: each by the setting chosen on the others. Under a promise, what was asked for, and the sleep of the days of choice.
    pub promised: PerDay,
    /// What the days evaluated brought.
    pub delivered: PerDay,
    /// Whether it kept to the service that was asked for, on the days of choice and on those evaluated; `null` if none was asked for.
    pub keeps_service: Option<bool>,
    /// The setting and what it meant.
    #[serde(flatten)]
    pub scored: Scored,
    /// With intervals.
    pub intervals: Intervals,
    /// The optimum at a switching cost of two hours that leaves as much unserved.
    pub optimum_at_service: OfflineOptimum,
    /// Energy saved, of what that optimum saves. `null` if it saves nothing, or less, as it wakes fewer nodes.
    pub share_of_optimum: Option<f64>,
    /// Energy saved, of what the optimum saves that serves all. `null` if less than 99.9 % of the demand was served: then the two cannot be compared.
    pub share_of_optimum_serving_all: Option<f64>,
}

impl Beforehand {
    fn of(curve: &Curve, chosen_for: ChosenFor, studied: &Studied, serving_all: &SleepOutcome) -> Self {
        let (outcome, at) = (&curve.chosen.outcome, curve.optimum_at_service);
        let share = |of: &SleepOutcome| {
            let share = outcome.energy_saved_kwh / of.energy_saved_kwh;
            (of.energy_saved_kwh > 0.0 && share <= 1.0 + 1e-9).then_some(share)
        };
        let need: f64 = studied.need.iter().sum();
        let [_, choice_days, days] = studied.days;
        let held_out = PerDay::of(&curve.held_out, choice_days);
        let asked = studied.promise.filter(|_| chosen_for == ChosenFor::Promise).map(|promise| PerDay {
            unserved_per_day: promise.asked.unserved_per_day,
            node_wakes_per_day: promise.asked.node_wakes_per_day,
            ..held_out
        });
        Self {
            policy: curve.family,
            chosen_for,
            chosen: studied.leads().is_some_and(|leads| std::ptr::eq(leads, curve)),
            settings_tried: curve.tried,
            promised: asked.unwrap_or(held_out),
            delivered: PerDay::of(outcome, days),
            keeps_service: studied.keeps_service(curve),
            scored: curve.chosen,
            intervals: curve.intervals,
            optimum_at_service: OfflineOptimum { switch_h: QUOTED_H, outcome: at },
            share_of_optimum: share(&at),
            share_of_optimum_serving_all: share(serving_all).filter(|_| serves_all(outcome, need)),
        }
    }
}

/// Whether so much of the demand (node-slots) was served that an outcome can be held against an optimum that serves all of it.
fn serves_all(outcome: &SleepOutcome, need: f64) -> bool {
    outcome.unserved_node_slots <= (1.0 - SERVED) * need
}

/// The choice among causal rules: under a promise the rule that is to keep it, as it is under guard.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Chosen {
    /// Which policy.
    pub name: Family,
    /// Why.
    pub because: Because,
    /// Its setting and what it meant.
    #[serde(flatten)]
    pub scored: Scored,
    /// With intervals.
    pub intervals: Intervals,
    /// By how much more it sleeps, leaves unserved, wakes and saves than the trailing maximum chosen in the same way, day by day.
    pub over_trailing_maximum: Option<Intervals>,
    /// The optimum at a switching cost of two hours that leaves as much unserved.
    pub optimum_at_service: OfflineOptimum,
    /// Energy saved, of what that optimum saves; `null` if it saves nothing, or less, as it wakes fewer nodes.
    pub share_of_optimum: Option<f64>,
}

/// The exact optimum of someone who knew all demand.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct OfflineOptimum {
    /// What a wake costs it, hours of idle power.
    pub switch_h: f64,
    /// What it means.
    #[serde(flatten)]
    pub outcome: SleepOutcome,
}

/// What was found of one series.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Pool")]
pub struct PoolFindings {
    /// Of what.
    pub series: String,
    /// Begin of the evaluated days, milliseconds since the epoch.
    pub from_ms: i64,
    /// Evaluated slots.
    pub slots: usize,
    /// Of these, slots in which nothing was counted.
    pub uncounted_slots: usize,
    /// Days learned from, before the days of choice.
    pub learned_days: f64,
    /// Days on which settings were chosen.
    pub choice_days: f64,
    /// Days evaluated.
    pub days: f64,
    /// Mean number of nodes there are.
    pub nodes_mean: f64,
    /// Mean of the largest counts.
    pub demand_mean: f64,
    /// Mean of the same with the nodes that waiting jobs need, up to those there are.
    pub asked_mean: f64,
    /// The choice.
    pub chosen: Chosen,
    /// What was promised for the days evaluated, if a service was asked for, and what became of it.
    pub promise: Option<Promise>,
    /// What is followed, and beside it what the same days would have chosen otherwise: under a promise first what would be followed without it; then a trailing maximum, a timeout, `reach`, and what `slurm.conf` can hold.
    pub beforehand: Vec<Beforehand>,
    /// By kind of rule.
    pub policies: Vec<PolicyCurve>,
    /// The optimum at a switching cost of two hours, nothing unserved.
    pub offline_optimum: OfflineOptimum,
    /// Optima at other switching costs.
    pub optima: Vec<OfflineOptimum>,
}

/// All VCs as they stand, each on its own nodes.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Together {
    /// VCs that could be studied.
    pub vcs: usize,
    /// Mean number of their nodes.
    pub nodes_mean: f64,
    /// Mean of the largest counts of their nodes in use, VC by VC.
    pub demand_mean: f64,
    /// The same with the nodes that waiting jobs of a VC need, up to those that it has.
    pub asked_mean: f64,
    /// What the rules chosen for each mean together.
    pub chosen: Intervals,
    /// What a trailing maximum for each means together, chosen in the same way.
    pub trailing_maximum: Option<Intervals>,
    /// By how much more the chosen rules sleep, leave unserved, wake and save than that.
    pub over_trailing_maximum: Option<Intervals>,
    /// Node-slots unserved over all days evaluated.
    pub unserved_node_slots: f64,
    /// Energy saved over all days evaluated, kWh.
    pub energy_saved_kwh: f64,
    /// Mean number of nodes that the optima of the VCs, serving all, let sleep.
    pub optimum_asleep_mean: f64,
    /// VCs that kept the promise, each its own; `null` if none was asked for.
    pub promises_kept: Option<usize>,
    /// What the rules mean together that would be followed without a promise; `null` if none was asked for.
    pub unpromised: Option<Intervals>,
}

impl Together {
    /// Of some VCs; `None` of none.
    pub fn of(vcs: &[Studied]) -> Option<Self> {
        let days = vcs.first()?.days[2];
        fn all<'s>(vcs: &'s [Studied], of: impl Fn(&'s Studied) -> Option<&'s [Block]>) -> Option<Vec<Block>> {
            let found: Vec<&[Block]> = vcs.iter().filter_map(of).collect();
            (found.len() == vcs.len()).then(|| Block::together(found))
        }
        let chosen = Block::together(vcs.iter().filter_map(|vc| Some(vc.leads()?.blocks.as_slice())));
        let trailing = all(vcs, |vc| vc.trailing.as_deref());
        let unpromised = all(vcs, |vc| Some(vc.unpromised.as_ref()?.blocks.as_slice()));
        let promised = vcs.iter().any(|vc| vc.promise.is_some());
        let optimum = |vc: &Studied| {
            let found = vc.optima.iter().find(|optimum| optimum.switch_h == QUOTED_H);
            found.map_or(0.0, |optimum| optimum.outcome.nodes_asleep_mean)
        };
        let figures = Intervals::of(&chosen);
        Some(Self {
            vcs: vcs.len(),
            nodes_mean: vcs.iter().map(|vc| average(vc.total.iter().copied())).sum(),
            demand_mean: vcs.iter().map(|vc| average(vc.need.iter().copied())).sum(),
            asked_mean: vcs.iter().map(|vc| average(vc.asked.iter().copied())).sum(),
            chosen: figures,
            trailing_maximum: trailing.as_deref().map(Intervals::of),
            over_trailing_maximum: trailing.as_deref().map(|other| Intervals::of_differences(&chosen, other)),
            unserved_node_slots: figures.unserved_per_day.value * days,
            energy_saved_kwh: figures.energy_saved_kwh_per_day.value * days,
            optimum_asleep_mean: vcs.iter().map(optimum).sum(),
            promises_kept: promised.then(|| vcs.iter().filter(|vc| vc.promise.is_some_and(|of| of.kept)).count()),
            unpromised: unpromised.as_deref().map(Intervals::of),
        })
    }
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Answer")]
pub struct PowerAnswer {
    /// Version of this form.
    pub schema: String,
    /// Trace.
    pub title: String,
    /// What a reader must know of the data.
    pub notes: Vec<String>,
    /// What has to be known before any number here is believed: nodes and days that are left out, and why; and what the test speaks against relying on it.
    pub cautions: Vec<String>,
    /// What is taken for granted of the nodes, and is told with what is emitted.
    pub assumed: Vec<String>,
    /// Whether the recorded sizes are of another time than the jobs: how many nodes there are today is then not known, and no node is advised to sleep.
    pub sizes_unknown: bool,
    /// How sure the answer is, also where it changes nothing.
    pub assurance: Assurance,
    /// Where the trace has no dates, the moment that its days are counted from, milliseconds since the epoch as all times here; dates in this answer then mean nothing. `null` where it has.
    pub begins_ms: Option<i64>,
    /// Whether the trace says how many nodes there are; if not, the most in use so far stand for them, which is an assumption.
    pub capacity_known: bool,
    /// All VCs as they stand, if each was studied: what leads where the trace says how many nodes each VC has.
    pub vcs_as_they_stand: Option<Together>,
    /// Length of a slot, seconds.
    pub slot_s: f64,
    /// Slots that a boot takes, such as 0.5.
    pub boot_slots: f64,
    /// What nodes draw.
    pub constants: Constants,
    /// What things are worth.
    pub worth: Worth,
    /// What the hours were weighted by for the choice and the optimum, if they were not alike.
    pub weighted_by: Option<String>,
    /// Energy saved by the pool's chosen setting in a year, and of all energy of the nodes.
    pub yearly: Option<Yearly>,
    /// Money saved by it, if the currency of the price is known.
    pub cost_saved: Option<ByHour>,
    /// Currency of all money here; `null` if nobody named one, and then no money is told.
    pub currency: Option<String>,
    /// CO₂ equivalent saved by it, kg, if a carbon intensity was given.
    pub co2_saved_kg: Option<ByHour>,
    /// Levels of service of `for_service`.
    pub services: Vec<Service>,
    /// The pool, or the only series.
    #[serde(flatten)]
    pub pool: PoolFindings,
    /// The same where a boot takes a slot more: the trailing maximum, and the rule chosen if it is another.
    pub slower_boots: PoolFindings,
    /// The service chosen for; `null`: the cheapest was chosen.
    pub criterion: Option<Service>,
    /// VCs, each alone.
    pub vcs: Vec<PoolFindings>,
    /// Plans re-simulated with the jobs, if jobs and nodes are known.
    pub effects: Vec<Resimulated>,
    /// What to do from the end of the data on, by pool: the one pool, or each VC if they are planned apart.
    pub forward: Vec<Forward>,
    /// What to change, if anything is worth it.
    pub recommendation: Option<Recommendation>,
    /// What to do: timeouts with a reserve, and the schedule.
    pub plan: PowerPlan,
    /// The same for Slurm, which times out node by node and holds no reserve.
    pub slurm_plan: PowerPlan,
    /// Files it rests on.
    pub sources: Vec<SourceRecord>,
    /// What of the cautions takes the ground from the answer; these come first.
    #[serde(skip)]
    pub doubts: Vec<String>,
    /// Slots of the pool for the chart: demand, mean count, powered.
    #[serde(skip)]
    pub chart: Vec<(i64, f64, f64, f64)>,
    /// IANA zone of the chart.
    #[serde(skip)]
    pub zone: String,
}

impl PowerAnswer {
    /// Why nothing may be written for these systems that a site applies; `None` if it may. A plan may advise that nodes sleep, and what is written keep all of them on: of VCs as they stand, where
    /// it is written for all nodes as one pool, or of a promise that no system keeps without the loop.
    pub fn refused(&self, targets: &[Target]) -> Option<String> {
        if self.sizes_unknown {
            return Some(SIZES_UNKNOWN.to_owned());
        }
        if self.recommendation.is_none() {
            return Some(nothing_advised("Keep all nodes on."));
        }
        let may_sleep = |plan: &PowerPlan| plan.pools.iter().any(|pool| pool.keep_idle < pool.total_nodes);
        let by_loop = || match self.planned_apart() {
            true => self.vcs.iter().any(|vc| vc.chosen.name != Family::AlwaysOn),
            false => self.pool.chosen.name != Family::AlwaysOn,
        };
        let sleeps = |target: &Target| match target {
            Target::Loop => by_loop(),
            Target::Slurm => may_sleep(&self.slurm_plan) || targets.contains(&Target::Loop) && by_loop(),
            // It takes the place of the schedule of the day before.
            Target::Actions => true,
            Target::Karpenter | Target::ClusterAutoscaler => may_sleep(&self.plan),
        };
        let apart = if self.vcs_as_they_stand.is_some() && !self.planned_apart() {
            " Nodes may sleep in VCs as they stand: make the plan with --by-vc."
        } else {
            ""
        };
        let why = "what would be written keeps all nodes on, so there is nothing to set.";
        (!targets.iter().any(sleeps)).then(|| format!("{why}{apart}"))
    }
}

/// The JSON Schema of [`PowerAnswer`].
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(PowerAnswer).to_value()
}

fn policy(curve: &Curve) -> PolicyCurve {
    let mut points: Vec<Point> = curve
        .points
        .iter()
        .map(|scored| Point { scored: *scored, chosen: scored.setting == curve.chosen.setting })
        .collect();
    if !points.iter().any(|point| point.chosen) {
        points.push(Point { scored: curve.chosen, chosen: true });
    }
    PolicyCurve {
        name: curve.family,
        causal: curve.family.causal(),
        settings_tried: curve.tried,
        settings_kept: curve.kept,
        curve: points,
        chosen: curve.chosen,
        chosen_before: curve.chosen_before,
        for_service: curve.for_service.clone(),
    }
}

impl PoolFindings {
    /// A rule as a site can hold it without a loop: under a promise the one that was chosen for its service, and has no guard.
    pub(super) fn as_emitted(&self, family: Family) -> Option<&Beforehand> {
        let wanted = if self.promise.is_some() { ChosenFor::Service } else { ChosenFor::Cost };
        self.beforehand.iter().find(|rule| rule.policy == family && rule.chosen_for == wanted)
    }

    /// Node-slots that were demanded over the days evaluated.
    fn need(&self) -> f64 {
        self.demand_mean * self.slots as f64
    }

    /// From what was studied.
    ///
    /// # Errors
    /// If nothing was studied.
    pub fn of(studied: &Studied) -> Result<Self> {
        let of = |optimum: &SwitchingOptimum| OfflineOptimum { switch_h: optimum.switch_h, outcome: optimum.outcome };
        let quoted = studied.optima.iter().find(|optimum| optimum.switch_h == QUOTED_H).or(studied.optima.first());
        let offline_optimum =
            quoted.map_or(OfflineOptimum { switch_h: QUOTED_H, outcome: SleepOutcome::default() }, of);
        let curve = studied.leads().ok_or_else(|| Error::policy(format!("{}: no rule was studied", studied.name)))?;
        let beforehand =
            |curve: &Curve, chosen_for: ChosenFor| Beforehand::of(curve, chosen_for, studied, &offline_optimum.outcome);
        let (first, others) = match &studied.guarded {
            Some(_) => (ChosenFor::Promise, ChosenFor::Service),
            None => (ChosenFor::Cost, ChosenFor::Cost),
        };
        let chosen = beforehand(curve, first);
        let unpromised = studied.unpromised.iter().map(|curve| beforehand(curve, ChosenFor::Cost));
        // Without a promise the chosen one is one of them.
        let beside = BESIDE.iter().filter(|family| studied.guarded.is_some() || **family != curve.family);
        let beside = beside.filter_map(|family| studied.curve(*family)).map(|curve| beforehand(curve, others));
        let [learned_days, choice_days, days] = studied.days;
        Ok(Self {
            series: studied.name.clone(),
            from_ms: studied.from_ms,
            slots: studied.need.len(),
            uncounted_slots: studied.uncounted,
            learned_days,
            choice_days,
            days,
            nodes_mean: average(studied.total.iter().copied()),
            demand_mean: average(studied.need.iter().copied()),
            asked_mean: average(studied.asked.iter().copied()),
            chosen: Chosen {
                name: chosen.policy,
                because: studied.because,
                scored: chosen.scored,
                intervals: chosen.intervals,
                over_trailing_maximum: studied.over_trailing,
                optimum_at_service: chosen.optimum_at_service,
                share_of_optimum: chosen.share_of_optimum,
            },
            promise: studied.promise,
            beforehand: std::iter::once(chosen.clone()).chain(unpromised).chain(beside).collect(),
            policies: studied.curves.iter().map(policy).collect(),
            offline_optimum,
            optima: studied.optima.iter().map(of).collect(),
        })
    }
}
