//! The answer of `plan fleet`.
//!
//! The later windows say whether a mix that was chosen so is worth having; the mix to come is then chosen anew on all weeks, back from the end of the record.
//! Money is told by the month, of 730.5 hours.
//!
//! O(pools × hours × states) beside the searches. Worked example: a mix that cost 700 a month on later weeks where all on demand cost 1,000 saves 30 %.

mod advise;
mod footprint;
mod forward;
mod render;

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::facts::JobFacts;
use tracecast_analytics::time::Zone;
use tracecast_analytics::trace::{SourceRecord, Trace};

use super::carbon::{FleetCarbon, FleetCarbonRequest, carbon};
use super::heldout::{KnownOffers, Spent, TestedRule, test};
use super::rule::FleetRule;
use super::stress::ZoneLoss;
use crate::error::{Error, Result};
use crate::market::demand::{DemandTimes, Flexible, PoolJobs};
use crate::market::purchase::BoughtAs;
use crate::market::supply::SupplyOptions;
use crate::plan::checkpoint::CheckpointCosts;
use crate::plan::interval::ratio;
use crate::plan::money::MONTH_H;
use crate::plan::weeks::{WeekSplit, draws_weeks, whole};
use crate::plan::{Confidence, Recommendation, interval};
use crate::replay::compare::IntervalEstimate;

/// Version of the answer; a change that breaks its readers raises it.
pub const SCHEMA: &str = "plan-fleet/1";

/// What is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct FleetRequest {
    /// When jobs need their GPUs.
    pub times: DemandTimes,
    /// Which jobs may run on spot.
    pub flexible: Flexible,
    /// The same in words.
    pub flexible_in_words: String,
    /// Beginning of the windows that the mix is priced on; a third of the record, if `None`.
    pub eval_from_ms: Option<i64>,
    /// Months that are planned for.
    pub horizon_months: f64,
    /// What checkpoints and restarts cost.
    pub costs: CheckpointCosts,
    /// For how long a zone's spot is gone in the stress test, hours.
    pub stress_hours: u32,
    /// By what the demand to come is multiplied.
    pub scale: f64,
    /// What is said of the carbon of the offers, if it is asked for.
    pub carbon: Option<FleetCarbonRequest>,
}

/// What jobs of a GPU type need.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FleetDemand {
    /// GPU type.
    pub gpu: String,
    /// Jobs.
    pub jobs: u64,
    /// GPU-hours that they hold a week.
    pub gpu_hours_per_week: f64,
    /// GPU-hours a week of the instances that all on demand rents for the peaks of the hours: what is paid for.
    pub paid_gpu_hours_per_week: f64,
    /// Mean of the hours' peaks, GPUs.
    pub mean_gpus: f64,
    /// The greatest, GPUs.
    pub peak_gpus: f64,
    /// Share of the GPU-hours that may run on spot.
    pub flexible_share: f64,
}

/// A line of the mix.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FleetMixRow {
    /// GPU type.
    pub gpu: String,
    /// The instance or node, as the offers file calls it.
    pub offer: String,
    /// Instance type as its provider calls it, if the offers tell it; none of own nodes.
    pub instance_type: Option<String>,
    /// Zone.
    pub zone: Option<String>,
    /// Whose the instance is, as the offers file or the form of its zone's name tells it; none of own nodes.
    pub provider: Option<String>,
    /// How it is had.
    pub how: BoughtAs,
    /// Months of the commitment.
    pub months: Option<f64>,
    /// Instances that are committed to; none for what is rented by the hour.
    pub count: Option<u32>,
    /// Fewest in 95 % of resampled weeks or days.
    pub low: Option<u32>,
    /// Most in 95 % of them.
    pub high: Option<u32>,
    /// Mean number of instances in use.
    pub mean_instances: f64,
    /// Most instances in use in an hour.
    pub peak_instances: f64,
    /// GPUs of an instance.
    pub gpus_per_instance: f64,
    /// An hour of an instance, as the offers file has it.
    pub price_per_h: f64,
    /// How many times as long jobs run on it, as it is interrupted: 1 but for spot.
    pub overhead: f64,
    /// What it costs a month.
    pub cost_per_month: f64,
}

/// What a rule cost in a window.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FleetRuleInWindow {
    /// The rule.
    pub by: FleetRule,
    /// What the window cost.
    pub cost: f64,
    /// GPU-hours that nothing served.
    pub waiting_gpu_hours: f64,
}

/// A window that nothing was chosen on.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FleetWindow {
    /// From here.
    pub from: String,
    /// To here.
    pub to: String,
    /// Rules.
    pub by: Vec<FleetRuleInWindow>,
}

/// A rule over all windows.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FleetRuleOverWindows {
    /// The rule.
    pub by: FleetRule,
    /// The same in words.
    pub what: String,
    /// GPUs that it committed to.
    pub committed_gpus: f64,
    /// Share of these that was in use; none without any.
    pub committed_used: Option<f64>,
    /// What it cost a month.
    pub cost_per_month: f64,
    /// The same as a share of all on demand.
    pub of_on_demand: f64,
    /// What it cost beyond the best mix with hindsight, a share of that.
    pub regret: f64,
    /// GPU-hours that nothing served.
    pub waiting_gpu_hours: f64,
    /// What it emitted a month, kg; nothing where that is not asked for.
    pub carbon_kg_per_month: Option<f64>,
}

/// The test on later windows.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FleetHeldOut {
    /// From where on the mix was chosen.
    pub chosen_from: String,
    /// Until where it was chosen, and from where on it is priced.
    pub split: String,
    /// Weeks or days that it was chosen on.
    pub chosen_on: String,
    /// Windows, in order of time.
    pub windows: Vec<FleetWindow>,
    /// Rules over all of them.
    pub by: Vec<FleetRuleOverWindows>,
    /// What the mix saved of all on demand, a share.
    pub saving: IntervalEstimate,
    /// The same, money a month.
    pub saving_per_month: IntervalEstimate,
    /// What reserving adds to that: what the mix saved beyond nothing reserved, a share of all on demand.
    pub reserving: IntervalEstimate,
    /// What intervals draw anew.
    pub interval: String,
    /// Whether these are weeks.
    #[serde(skip)]
    #[schemars(skip)]
    pub(super) drawn_weeks: bool,
    /// Months of the record that the mix was chosen and priced on.
    #[serde(skip)]
    #[schemars(skip)]
    pub(super) months: f64,
    /// The window in which the mix saved least.
    pub worst_window: String,
    /// What it saved there, a share.
    pub worst_saving: f64,
}

/// From which use on a commitment is worth it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FleetBreakEven {
    /// GPU type.
    pub gpu: String,
    /// The instance or node.
    pub offer: String,
    /// Reserved or bought.
    pub how: BoughtAs,
    /// Months of the commitment.
    pub months: Option<f64>,
    /// An hour of a GPU over the horizon.
    pub per_gpu_h: f64,
    /// An hour of a GPU on demand, the cheapest.
    pub on_demand_per_gpu_h: f64,
    /// Share of the hours from which on it costs less than on-demand; above 1 it never does.
    pub utilisation: f64,
    /// GPUs that this trace needs for at least that share of the hours, in whole instances.
    pub gpus_above: f64,
    /// Share of the hours in which those would be in use; none without any.
    pub used: Option<f64>,
}

/// The mix under other prices or other demand.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FleetSensitivity {
    /// What is different.
    pub what: String,
    /// GPUs that would be committed to.
    pub committed_gpus: f64,
    /// What that mix would cost a month.
    pub cost_per_month: f64,
    /// What the mix of this answer would cost a month.
    pub kept_cost_per_month: f64,
    /// What all on demand would cost a month.
    pub on_demand_per_month: f64,
}

/// What nodes of one's own would change.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FleetBuying {
    /// The mix where they can be bought.
    pub mix: Vec<FleetMixRow>,
    /// What it costs a month.
    pub cost_per_month: f64,
}

/// Whether the mix is advised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FleetVerdict {
    /// It is.
    Advised,
    /// No: on later windows it did not save enough, or chance alone may have saved it.
    NoSaving,
    /// No: on later windows, reserving nothing cost less.
    ReservingLost,
    /// No: on later windows it left more work without GPUs than all on demand.
    MoreWaits,
    /// Not by cost: all on demand leaves work without GPUs that the mix serves, so what they cost cannot be compared.
    ServesMore,
    /// No: all on demand is the cheapest mix already.
    NothingBetter,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FleetAnswer {
    /// Version of this form.
    pub schema: String,
    /// What was planned for.
    pub title: String,
    /// What was assumed, in words.
    pub notes: Vec<String>,
    /// Currency of all money.
    pub currency: String,
    /// The offers file.
    pub offers: String,
    /// Months that are planned for.
    pub horizon_months: f64,
    /// When jobs need their GPUs.
    pub demand_times: DemandTimes,
    /// By what the demand to come is multiplied.
    pub scale: f64,
    /// What jobs need, pool by pool.
    pub demand: Vec<FleetDemand>,
    /// The test on later windows.
    pub held_out: FleetHeldOut,
    /// Whether the mix is advised.
    pub verdict: FleetVerdict,
    /// The mix to come.
    pub mix: Vec<FleetMixRow>,
    /// What it costs a month, on all weeks of the record.
    pub cost_per_month: IntervalEstimate,
    /// What all on demand costs a month on the same weeks.
    pub on_demand_per_month: IntervalEstimate,
    /// GPU-hours a week that nothing serves, as limits leave no room.
    pub waiting_gpu_hours_per_week: f64,
    /// How far the mix may be from the least cost, a share of it: 0 but where the search ended early.
    pub gap: f64,
    /// From which use on commitments are worth it.
    pub break_even: Vec<FleetBreakEven>,
    /// The mix under other prices and other demand.
    pub sensitivity: Vec<FleetSensitivity>,
    /// What the loss of a zone's spot does.
    pub stress: Vec<ZoneLoss>,
    /// What nodes of one's own would change; none where the offers file has none.
    pub buying: Option<FleetBuying>,
    /// Carbon, and the front of cost and carbon; nothing where that is not asked for.
    pub carbon: Option<FleetCarbon>,
    /// How sure the advice is, also where it is to change nothing; nothing where what may wait has to be decided first.
    pub confidence: Option<Confidence>,
    /// What to do, in a sentence.
    pub action: String,
    /// The recommendation, if the mix is advised.
    pub recommendation: Option<Recommendation>,
    /// Files it rests on.
    pub sources: Vec<SourceRecord>,
    /// The trace's zone, in which the report tells times; none where they are no dates.
    #[serde(skip)]
    #[schemars(skip)]
    pub(super) zone: Option<String>,
    /// Share of the hours and GPUs needed, pool by pool, the most first.
    #[serde(skip)]
    #[schemars(skip)]
    pub(super) curves: Vec<LoadCurve>,
}

/// How many GPUs of a type are needed for which share of the hours.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LoadCurve {
    pub(super) gpu: String,
    pub(super) points: Vec<(f64, f64)>,
    pub(super) firm: Vec<(f64, f64)>,
    pub(super) committed: f64,
}

/// The JSON Schema of [`FleetAnswer`].
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(FleetAnswer).to_value()
}

impl FleetAnswer {
    /// Plans the fleet for the jobs of a trace.
    ///
    /// # Errors
    /// If GPU types are not offered, there are no GPU jobs, or there are too few days to choose on or to price on.
    pub fn of(trace: &Trace, offers: &KnownOffers, title: String, request: &FleetRequest) -> Result<Self> {
        let facts = JobFacts::of(trace);
        let jobs = PoolJobs::of(&facts, &offers.all, request.times, &request.flexible)?;
        let span = jobs.span()?;
        let split = WeekSplit::of(span, request.eval_from_ms)?;
        let options = SupplyOptions { horizon_months: request.horizon_months, buy: false, costs: request.costs };
        let tested = test(&jobs, offers, &split, &options);
        let known = request.carbon.as_ref();
        let found = known.map(|known| {
            let before = jobs.demand(whole(&split.before), split.split_ms());
            let after = jobs.demand(whole(&split.after), i64::MAX);
            carbon(known, offers, (&before, &after), &split, &options)
        });
        let mut emitted = found.transpose()?;
        let zone = Zone::named(&trace.zone)?;
        let (begins_ms, _) = span;
        let day = |ms: i64| trace.moment(&zone, ms, begins_ms);
        let held_out = held_out(&tested, &split, emitted.is_some(), &day)?;
        let forward = forward::plan(&jobs, &offers.all, &split, &options, request, &day);
        if let Some(carbon) = &mut emitted {
            [carbon.mix_kg_per_month, carbon.on_demand_kg_per_month] = forward.carbon_kg_per_month;
        }
        let by_the_mean =
            "The record's times have no calendar, so carbon counts by the mean of each grid, and not by the hour.";
        let by_the_mean = (known.is_some() && !trace.basis.has_calendar()).then(|| by_the_mean.to_owned());
        let told_of_carbon =
            known.into_iter().flat_map(|known| known.notes((split.split_ms(), span.1))).chain(by_the_mean);
        let odd = offers.all.oddities().into_iter().map(|odd| format!("A price is odd. {odd}"));
        let mut answer = Self {
            schema: SCHEMA.to_owned(),
            title,
            notes: odd
                .chain(offers.all.notes_in_words())
                .chain(notes(&jobs, span, &split, request, &day))
                .chain(told_of_carbon)
                .collect(),
            currency: offers.all.currency.clone(),
            offers: offers.all.file.clone(),
            horizon_months: request.horizon_months,
            demand_times: request.times,
            scale: request.scale,
            demand: forward.demand,
            held_out,
            verdict: FleetVerdict::Advised,
            mix: forward.mix,
            cost_per_month: forward.cost_per_month,
            on_demand_per_month: forward.on_demand_per_month,
            waiting_gpu_hours_per_week: forward.waiting_gpu_hours_per_week,
            gap: forward.gap,
            break_even: forward.break_even,
            sensitivity: forward.sensitivity,
            stress: forward.stress,
            buying: forward.buying,
            carbon: emitted,
            confidence: None,
            action: String::new(),
            recommendation: None,
            sources: trace.sources.clone(),
            zone: trace.basis.has_dates().then(|| zone.name().to_owned()),
            curves: forward.curves,
        };
        answer.verdict = answer.judge();
        answer.action = answer.act();
        answer.recommendation = answer.recommend().map(Recommendation::weighed);
        answer.confidence = answer.sure();
        Ok(answer)
    }

    /// A rule over all windows.
    pub fn rule(&self, by: FleetRule) -> Option<&FleetRuleOverWindows> {
        self.held_out.by.iter().find(|rule| rule.by == by)
    }
}

/// The test as it is told.
fn held_out(
    tested: &[TestedRule],
    split: &WeekSplit,
    emits: bool,
    day: &dyn Fn(i64) -> String,
) -> Result<FleetHeldOut> {
    let of = |rule: FleetRule| {
        tested
            .iter()
            .find(|tested| tested.rule == rule)
            .ok_or_else(|| Error::defect(format!("{rule:?} was not tested")))
    };
    let (mix, steady, best) = (of(FleetRule::Mix)?, of(FleetRule::OnDemand)?, of(FleetRule::Hindsight)?);
    let free = of(FleetRule::Uncommitted)?;
    let months = split.hours_after() as f64 / MONTH_H;
    let (all, hindsight) = (steady.spent().cost(), best.spent().cost());
    let over = |rule: &TestedRule| {
        let spent = rule.spent();
        FleetRuleOverWindows {
            by: rule.rule,
            what: rule.rule.in_words().to_owned(),
            committed_gpus: spent.committed_room_gpu_h / split.hours_after().max(1) as f64,
            committed_used: (spent.committed_room_gpu_h > 0.0)
                .then(|| spent.committed_gpu_h / spent.committed_room_gpu_h),
            cost_per_month: spent.cost() / months,
            of_on_demand: ratio(spent.cost(), all),
            regret: ratio(spent.cost(), hindsight) - 1.0,
            waiting_gpu_hours: spent.waiting_gpu_h,
            // What a bought node draws is in its price, and on no grid.
            carbon_kg_per_month: (emits && rule.rule != FleetRule::Buying).then_some(spent.carbon_kg / months),
        }
    };
    let window = |(at, (from, to)): (usize, &(i64, i64))| FleetWindow {
        from: day(*from),
        to: day(*to),
        by: tested
            .iter()
            .filter_map(|rule| {
                let spent = rule.windows.get(at)?;
                Some(FleetRuleInWindow { by: rule.rule, cost: spent.cost(), waiting_gpu_hours: spent.waiting_gpu_h })
            })
            .collect(),
    };
    let sums = |rule: &TestedRule, held: &[usize]| -> f64 {
        held.iter().filter_map(|block| rule.blocks.get(*block)).map(Spent::cost).sum()
    };
    let [saving, saving_per_month, reserving] = interval::drawn(mix.blocks.len(), &|held| {
        let held: Vec<usize> = held.collect();
        let (mix, steady, free) = (sums(mix, &held), sums(steady, &held), sums(free, &held));
        [1.0 - ratio(mix, steady), (steady - mix) / months, ratio(free, steady) - ratio(mix, steady)]
    });
    let saved = |at: usize| {
        let cost = |rule: &TestedRule| rule.windows.get(at).map_or(0.0, Spent::cost);
        1.0 - ratio(cost(mix), cost(steady))
    };
    let worst = (0..mix.windows.len()).min_by(|a, b| saved(*a).total_cmp(&saved(*b))).unwrap_or(0);
    Ok(FleetHeldOut {
        chosen_from: day(whole(&split.before).0),
        split: day(split.split_ms()),
        chosen_on: split.chosen_on(),
        windows: split.after.iter().enumerate().map(window).collect(),
        by: tested.iter().map(over).collect(),
        saving,
        saving_per_month,
        reserving,
        interval: split.interval_in_words(),
        drawn_weeks: draws_weeks(&split.after),
        months: split.months(),
        worst_window: split.after.get(worst).map_or_else(String::new, |(from, _)| day(*from)),
        worst_saving: saved(worst),
    })
}

/// What was assumed, in words.
fn notes(
    jobs: &PoolJobs<'_>,
    span: (i64, i64),
    split: &WeekSplit,
    request: &FleetRequest,
    day: &dyn Fn(i64) -> String,
) -> Vec<String> {
    let mut notes = vec![
        match request.times {
            DemandTimes::Unwaited => "Each job needs its GPUs from its submission on for as long as it ran: what waited on the old cluster would have begun at once.",
            DemandTimes::Recorded => "Each job needs its GPUs when it held them: what the old cluster's queue flattened stays flat.",
        }
        .to_owned(),
        "An hour needs the most GPUs that are in use at once within it, and rents the whole instances that cover this for the least money. Jobs are packed onto instances without gaps."
            .to_owned(),
        request.flexible_in_words.clone(),
    ];
    notes.extend(split.left_over(span.0, day, "left out"));
    notes.extend(jobs.notes());
    if (request.scale - 1.0).abs() > 1e-12 {
        notes.push(format!(
            "The demand to come is {} times that of the record. The later windows are priced as they were.",
            request.scale
        ));
    }
    notes
}
