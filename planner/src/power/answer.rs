//! The answer of `plan power`: one JSON (`plan-power/3`) and one [report], from what was
//! [studied](crate::power::study) and [re-simulated](crate::power::replay::resim).
//!
//! First comes what was chosen beforehand, with intervals; curves, which are read with hindsight, follow. The first of the series is the pool or
//! cluster; VCs follow, which learn from each other. Worked example: a chosen rule that lets 115.1 of 420 nodes sleep where
//! the optimum at a switching cost of two hours lets 126.6 reaches 91 % of it.

mod advise;
mod ahead;
mod notes;
mod render;
mod sentences;
mod words;

pub use notes::{plan_in_words, pooled_in_words};
pub use render::report;

use schemars::JsonSchema;
use serde::Serialize;

use crate::error::{Error, Result};
use crate::plan::answer::{Advice, Answer, Head, answer};
use crate::plan::interval::average;
use crate::plan::verdict::{Verdict, uncounted};
use crate::plan::{SIZES_UNKNOWN, nothing_advised};
use crate::power::forward::Forward;
use crate::power::forward::config::Target;
use crate::power::forward::plan::{PoolPlan, PowerPlan};
use crate::power::replay::apply::Resimulated;
use crate::power::rule::family::{Family, Scored};
use crate::power::score::constants::Constants;
use crate::power::score::interval::{Block, Intervals};
use crate::power::score::service::Service;
use crate::power::score::yearly::Yearly;
use crate::power::score::{SleepOutcome, Worth};
use crate::power::study::choice::Because;
use crate::power::study::{Curve, Promise, QUOTED_H, Studied, SwitchingOptimum};

/// Version of the JSON.
pub const SCHEMA: &str = "plan-power/3";
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
    /// Name of the rule.
    pub name: Family,
    /// Whether it decides from the past alone.
    pub causal: bool,
    /// Settings that were tried: the best of many looks well by chance.
    pub settings_tried: usize,
    /// Settings that the days before left as possible.
    pub settings_kept: usize,
    /// Kept settings that turned out best, most sleep first, and the chosen one. Which settings are
    /// best is known only from the evaluated days.
    pub curve: Vec<Point>,
    /// The chosen setting.
    pub chosen: Scored,
    /// Outcome on the days it was chosen on.
    pub chosen_before: SleepOutcome,
    /// For each of the levels of service asked for, what the setting meant that the days before would have chosen; `null` if none kept to it there.
    pub for_service: Vec<Option<Scored>>,
}

/// Money or carbon of the energy saved, by the hour.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct ByHour {
    /// Money or carbon, over the evaluated days.
    pub value: f64,
    /// Share of the evaluated slots whose hour has a rate; of the others nothing is in `value`.
    pub covered_share: f64,
}

impl ByHour {
    /// What a plan saved, at a rate for each kWh.
    pub fn new(study_result: &Studied, rate: impl Fn(i64) -> Option<f64>) -> Self {
        let (mut value, mut covered) = (0.0, 0usize);
        for (slot, kwh) in study_result.saved_kwh.iter().enumerate() {
            if let Some(rate) = rate(study_result.from_ms + study_result.slot_ms * i64::try_from(slot).unwrap_or(0)) {
                value += kwh * rate;
                covered += 1;
            }
        }
        Self { value, covered_share: covered as f64 / study_result.saved_kwh.len().max(1) as f64 }
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
    fn new(outcome: &SleepOutcome, days: f64) -> Self {
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
    /// The most sleep within the service, under the guard of a promise.
    Promise,
}

/// One rule, with the setting that the days before would have chosen.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Beforehand {
    /// Policy of the rule.
    pub policy: Family,
    /// What its setting was chosen for.
    pub chosen_for: ChosenFor,
    /// Whether it is the one to follow.
    pub chosen: bool,
    /// Settings that it was chosen from.
    pub settings_tried: usize,
    /// What the days of choice promised: each by the setting chosen on the others. Under a promise, what was asked for, and the sleep of the days of choice.
    pub promised: PerDay,
    /// Service on the days evaluated.
    pub delivered: PerDay,
    /// Whether it kept to the service that was asked for, on the days of choice and on those evaluated; `null` if none was asked for.
    pub keeps_service: Option<bool>,
    /// The setting and what it meant.
    #[serde(flatten)]
    pub scored: Scored,
    /// Confidence intervals of the outcome.
    pub intervals: Intervals,
    /// The optimum at a switching cost of two hours that leaves as much unserved.
    pub optimum_at_service: OfflineOptimum,
    /// Energy saved, of what that optimum saves. `null` if it saves nothing, or less, as it wakes fewer nodes.
    pub share_of_optimum: Option<f64>,
    /// Energy saved, of what the optimum saves that serves all. `null` if less than 99.9 % of the demand was served: then the two cannot be compared.
    pub share_of_optimum_serving_all: Option<f64>,
}

impl Beforehand {
    fn new(curve: &Curve, chosen_for: ChosenFor, study_result: &Studied, serving_all: &SleepOutcome) -> Self {
        let (outcome, at) = (&curve.chosen.outcome, curve.optimum_at_service);
        let share = |of: &SleepOutcome| {
            let share = outcome.energy_saved_kwh / of.energy_saved_kwh;
            (of.energy_saved_kwh > 0.0 && share <= 1.0 + 1e-9).then_some(share)
        };
        let need: f64 = study_result.need.iter().sum();
        let [_, choice_days, days] = study_result.days;
        let held_out = PerDay::new(&curve.held_out, choice_days);
        let asked = study_result.promise.filter(|_| chosen_for == ChosenFor::Promise).map(|promise| PerDay {
            unserved_per_day: promise.asked.unserved_per_day,
            node_wakes_per_day: promise.asked.node_wakes_per_day,
            ..held_out
        });
        Self {
            policy: curve.family,
            chosen_for,
            chosen: study_result.leads().is_some_and(|leads| std::ptr::eq(leads, curve)),
            settings_tried: curve.tried,
            promised: asked.unwrap_or(held_out),
            delivered: PerDay::new(outcome, days),
            keeps_service: study_result.keeps_service(curve),
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
    /// Policy of the rule.
    pub name: Family,
    /// Why.
    pub because: Because,
    /// Setting of the rule and its outcome.
    #[serde(flatten)]
    pub scored: Scored,
    /// Confidence intervals of the outcome.
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
    /// Outcome of the optimum.
    #[serde(flatten)]
    pub outcome: SleepOutcome,
}

/// Findings on one series.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Pool")]
pub struct PoolFindings {
    /// Name of the series.
    pub series: String,
    /// Begin of the evaluated days, milliseconds since the epoch.
    pub from_ms: i64,
    /// Evaluated slots.
    pub slots: usize,
    /// Evaluated slots in which nothing was counted.
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
    /// Mean of the largest counts, VC by VC, with the nodes that waiting jobs of a VC need, up to
    /// those that it has.
    pub asked_mean: f64,
    /// Total outcome of the rules chosen for each.
    pub chosen: Intervals,
    /// Total outcome of a trailing maximum for each, chosen as the rules are.
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
    /// Total outcome of the rules that would be followed without a promise; `null` if none was
    /// asked for.
    pub unpromised: Option<Intervals>,
}

impl Together {
    /// Sums up some VCs; `None` if there are none.
    pub fn new(vcs: &[Studied]) -> Option<Self> {
        let days = vcs.first()?.days[2];
        fn all<'s>(vcs: &'s [Studied], of: impl Fn(&'s Studied) -> Option<&'s [Block]>) -> Option<Vec<Block>> {
            let result: Vec<&[Block]> = vcs.iter().filter_map(of).collect();
            (result.len() == vcs.len()).then(|| Block::together(result))
        }
        let chosen = Block::together(vcs.iter().filter_map(|vc| Some(vc.leads()?.blocks.as_slice())));
        let trailing = all(vcs, |vc| vc.trailing.as_deref());
        let unpromised = all(vcs, |vc| Some(vc.unpromised.as_ref()?.blocks.as_slice()));
        let promised = vcs.iter().any(|vc| vc.promise.is_some());
        let optimum = |vc: &Studied| {
            let result = vc.optima.iter().find(|optimum| optimum.switch_h == QUOTED_H);
            result.map_or(0.0, |optimum| optimum.outcome.nodes_asleep_mean)
        };
        let figures = Intervals::new(&chosen);
        Some(Self {
            vcs: vcs.len(),
            nodes_mean: vcs.iter().map(|vc| average(vc.total.iter().copied())).sum(),
            demand_mean: vcs.iter().map(|vc| average(vc.need.iter().copied())).sum(),
            asked_mean: vcs.iter().map(|vc| average(vc.asked.iter().copied())).sum(),
            chosen: figures,
            trailing_maximum: trailing.as_deref().map(Intervals::new),
            over_trailing_maximum: trailing.as_deref().map(|other| Intervals::of_differences(&chosen, other)),
            unserved_node_slots: figures.unserved_per_day.value * days,
            energy_saved_kwh: figures.energy_saved_kwh_per_day.value * days,
            optimum_asleep_mean: vcs.iter().map(optimum).sum(),
            promises_kept: promised.then(|| vcs.iter().filter(|vc| vc.promise.is_some_and(|of| of.kept)).count()),
            unpromised: unpromised.as_deref().map(Intervals::new),
        })
    }
}

/// How the plan was tested, and by which figures: series of nodes in use and jobs replayed, so it
/// is no [`Trial`](crate::plan::trial::Trial) of amounts by window.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PowerTrial {
    /// Where the trace has no dates, the moment that its days are counted from, milliseconds since the epoch as all times here; dates in this answer then mean nothing. `null` where it has.
    pub begins_ms: Option<i64>,
    /// Whether the trace says how many nodes there are; if not, the most in use so far stand for them, which is an assumption.
    pub capacity_known: bool,
    /// Whether each VC is planned, and its promise made, by itself.
    pub planned_apart: bool,
    /// Length of a slot, seconds.
    pub slot_s: f64,
    /// Slots that a boot takes, such as 0.5.
    pub boot_slots: f64,
    /// Power of nodes.
    pub constants: Constants,
    /// Prices of sleep, service and wear.
    pub worth: Worth,
    /// What the hours were weighted by for the choice and the optimum, if they were not alike.
    pub weighted_by: Option<String>,
    /// The service chosen for; `null`: the cheapest was chosen.
    pub criterion: Option<Service>,
    /// Levels of service of `for_service`.
    pub services: Vec<Service>,
    /// All nodes as one pool, or the only series.
    pub pool: PoolFindings,
    /// The pool where a boot takes one slot more: the trailing maximum, and the chosen rule if it
    /// is another.
    pub slower_boots: PoolFindings,
    /// All VCs as they stand, if each was studied: what leads where the trace says how many nodes
    /// each VC has.
    pub vcs_as_they_stand: Option<Together>,
    /// VCs, each alone.
    pub vcs: Vec<PoolFindings>,
    /// Plans re-simulated with the jobs, if jobs and nodes are known.
    pub effects: Vec<Resimulated>,
    /// Energy saved by the pool's chosen setting in a year, and of all energy of the nodes.
    pub yearly: Option<Yearly>,
    /// Money saved by it, if the currency of the price is known.
    pub cost_saved: Option<ByHour>,
    /// Currency of all money here; `null` if nobody named one, and then no money is told.
    pub currency: Option<String>,
    /// CO₂ equivalent saved by it, kg, if a carbon intensity was given.
    pub co2_saved_kg: Option<ByHour>,
    /// Slots of the pool for the chart: demand, mean count, powered.
    #[serde(skip)]
    pub chart: Vec<(i64, f64, f64, f64)>,
    /// IANA zone of the chart.
    #[serde(skip)]
    pub zone: String,
}

/// The answer.
pub type PowerAnswer = Answer<PowerTrial, PowerBody>;

/// Part of the answer that only this plan has: what it is to do from now on, or, where nothing is
/// advised, what the rules that were tried would do.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PowerBody {
    /// Assumptions about the nodes, repeated in the files that are written.
    pub assumed: Vec<String>,
    /// What the rule does from the end of the data on, by pool: the one pool, or each VC if they
    /// are planned apart.
    pub forward: Vec<Forward>,
    /// What a scheduler holds: timeouts with a reserve, and the schedule.
    pub plan: PowerPlan,
    /// The plan for Slurm, which times out node by node and holds no reserve.
    pub slurm_plan: PowerPlan,
}

/// The answer with what follows from the test; `doubts` are the cautions that take the ground from
/// it, and come first among those of `head`.
pub(super) fn answered(
    head: Head,
    trial: PowerTrial,
    body: PowerBody,
    doubts: &[String],
    sizes_unknown: bool,
) -> PowerAnswer {
    let verdict = trial.judge(sizes_unknown);
    let sure = match verdict {
        // The action says what was missed, and nothing that sleeps can go wrong.
        Verdict::LimitMissed => uncounted(verdict).unwrap_or_else(|| trial.assurance(doubts)),
        _ => trial.assurance(doubts),
    };
    // What the test speaks against relying on the answer stands among the cautions, behind what the
    // data lack.
    let result = sure.lowered_by.iter().filter(|caution| !head.cautions.contains(caution));
    let cautions = head.cautions.iter().chain(result).cloned().collect();
    let action = trial.action(&body, verdict);
    let advice = Advice::sure(verdict, sure, |sure| trial.change(&body, sure));
    answer(Head { cautions, ..head }, trial, body, (verdict, action), advice)
}

/// Why nothing may be written for these systems that a site applies; `None` if it may. A plan may
/// advise that nodes sleep, and what is written keep all of them on: of VCs as they stand, where it
/// is written for all nodes as one pool, or of a promise that no system keeps without the loop.
pub fn refused(answer: &PowerAnswer, targets: &[Target]) -> Option<String> {
    let PowerAnswer { trial, body, .. } = answer;
    match answer.verdict {
        Verdict::Advised => {}
        Verdict::SizesUnknown => return Some(SIZES_UNKNOWN.to_owned()),
        _ => return Some(nothing_advised("Keep all nodes on.")),
    }
    let may_sleep = |plan: &PowerPlan| plan.pools.iter().any(PoolPlan::may_sleep);
    let by_loop = || match trial.planned_apart {
        true => trial.vcs.iter().any(|vc| vc.chosen.name != Family::AlwaysOn),
        false => trial.pool.chosen.name != Family::AlwaysOn,
    };
    let sleeps = |target: &Target| match target {
        Target::Loop => by_loop(),
        Target::Slurm => may_sleep(&body.slurm_plan) || targets.contains(&Target::Loop) && by_loop(),
        // Today's schedule replaces that of the day before.
        Target::Actions => true,
        Target::Karpenter | Target::ClusterAutoscaler => may_sleep(&body.plan),
    };
    let apart = if trial.vcs_as_they_stand.is_some() && !trial.planned_apart {
        " Nodes may sleep in VCs as they stand: make the plan with --by-vc."
    } else {
        ""
    };
    let why = "what would be written keeps all nodes on, so there is nothing to set.";
    (!targets.iter().any(sleeps)).then(|| format!("{why}{apart}"))
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
    pub fn new(study_result: &Studied) -> Result<Self> {
        let of = |optimum: &SwitchingOptimum| OfflineOptimum { switch_h: optimum.switch_h, outcome: optimum.outcome };
        let quoted =
            study_result.optima.iter().find(|optimum| optimum.switch_h == QUOTED_H).or(study_result.optima.first());
        let offline_optimum =
            quoted.map_or(OfflineOptimum { switch_h: QUOTED_H, outcome: SleepOutcome::default() }, of);
        let curve =
            study_result.leads().ok_or_else(|| Error::policy(format!("{}: no rule was studied", study_result.name)))?;
        let beforehand = |curve: &Curve, chosen_for: ChosenFor| {
            Beforehand::new(curve, chosen_for, study_result, &offline_optimum.outcome)
        };
        let (first, others) = match &study_result.guarded {
            Some(_) => (ChosenFor::Promise, ChosenFor::Service),
            None => (ChosenFor::Cost, ChosenFor::Cost),
        };
        let chosen = beforehand(curve, first);
        let unpromised = study_result.unpromised.iter().map(|curve| beforehand(curve, ChosenFor::Cost));
        // Without a promise the chosen one is one of them.
        let beside = BESIDE.iter().filter(|family| study_result.guarded.is_some() || **family != curve.family);
        let beside = beside.filter_map(|family| study_result.curve(*family)).map(|curve| beforehand(curve, others));
        let [learned_days, choice_days, days] = study_result.days;
        Ok(Self {
            series: study_result.name.clone(),
            from_ms: study_result.from_ms,
            slots: study_result.need.len(),
            uncounted_slots: study_result.uncounted,
            learned_days,
            choice_days,
            days,
            nodes_mean: average(study_result.total.iter().copied()),
            demand_mean: average(study_result.need.iter().copied()),
            asked_mean: average(study_result.asked.iter().copied()),
            chosen: Chosen {
                name: chosen.policy,
                because: study_result.because,
                scored: chosen.scored,
                intervals: chosen.intervals,
                over_trailing_maximum: study_result.over_trailing,
                optimum_at_service: chosen.optimum_at_service,
                share_of_optimum: chosen.share_of_optimum,
            },
            promise: study_result.promise,
            beforehand: std::iter::once(chosen.clone()).chain(unpromised).chain(beside).collect(),
            policies: study_result.curves.iter().map(policy).collect(),
            offline_optimum,
            optima: study_result.optima.iter().map(of).collect(),
        })
    }
}
