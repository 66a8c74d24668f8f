//! The answer of `plan rent fleet`.
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
use tracecast_analytics::trace::Trace;

use super::carbon::{FleetCarbon, FleetCarbonRequest, carbon};
use super::heldout::{KnownOffers, Spent, TestedRule, planned_uncommitted, test};
use super::rule::FleetRule;
use super::stress::ZoneLoss;
use crate::error::Result;
use crate::market::demand::{DemandTimes, Flexible, PoolJobs};
use crate::market::purchase::BoughtAs;
use crate::market::supply::SupplyOptions;
use crate::plan::answer::{Advice, Answer, Head, answer};
use crate::plan::checkpoint::CheckpointCosts;
use crate::plan::forecast::{ForecastUsed, ForecastWords, Forecasting};
use crate::plan::money::MONTH_H;
use crate::plan::trial::{Priced, Roles, Trial};
use crate::plan::verdict::{Verdict, is_simpler_next, judge};
use crate::plan::weeks::{WeekSplit, whole};
use crate::replay::compare::IntervalEstimate;

pub use render::report;

/// Version of the answer; a change that breaks its readers raises it.
pub const SCHEMA: &str = "plan-rent-fleet/2";

/// Request for a fleet plan.
#[derive(Debug, Clone, PartialEq)]
pub struct FleetRequest {
    /// When jobs need their GPUs.
    pub times: DemandTimes,
    /// Which jobs may run on spot.
    pub flexible: Flexible,
    /// Which jobs may run on spot, in words.
    pub flexible_in_words: String,
    /// Beginning of the windows that the mix is priced on; a third of the record, if `None`.
    pub eval_from_ms: Option<i64>,
    /// Months that are planned for.
    pub horizon_months: f64,
    /// Costs of checkpoints and restarts.
    pub costs: CheckpointCosts,
    /// For how long a zone's spot is gone in the stress test, hours.
    pub stress_hours: u32,
    /// Factor on the demand to come.
    pub scale: f64,
    /// What is said of the carbon of the offers, if it is asked for.
    pub carbon: Option<FleetCarbonRequest>,
}

/// Needs of the jobs of a GPU type.
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
    /// Cost a month.
    pub cost_per_month: f64,
}

/// Figures of a rule over all windows, beside its cost.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct FleetFigures {
    /// GPUs that it committed to.
    pub committed_gpus: f64,
    /// Share of these that was in use; none without any.
    pub committed_used: Option<f64>,
    /// GPU-hours that nothing served.
    pub waiting_gpu_hours: f64,
    /// Emissions a month, kg; nothing where that is not asked for.
    pub carbon_kg_per_month: Option<f64>,
}

/// Figures of a rule in a window, beside its cost.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct FleetInWindow {
    /// GPU-hours that nothing served.
    pub waiting_gpu_hours: f64,
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
    /// Difference in words.
    pub what: String,
    /// GPUs that would be committed to.
    pub committed_gpus: f64,
    /// Cost a month.
    pub cost_per_month: f64,
    /// Cost of the mix of this answer a month.
    pub kept_cost_per_month: f64,
    /// Cost of all on demand a month.
    pub on_demand_per_month: f64,
}

/// What nodes of one's own would change.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FleetBuying {
    /// The mix where they can be bought.
    pub mix: Vec<FleetMixRow>,
    /// Cost a month.
    pub cost_per_month: f64,
}

/// The test on later windows. The limit that rules keep is to leave no more work without GPUs than all on demand.
pub type FleetTrial = Trial<FleetRule, FleetFigures, FleetInWindow>;

/// The answer.
pub type FleetAnswer = Answer<FleetTrial, FleetBody>;

/// Part of the answer that only this plan has.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FleetBody {
    /// Currency of all money.
    pub currency: String,
    /// The offers file.
    pub offers: String,
    /// Months that are planned for.
    pub horizon_months: f64,
    /// When jobs need their GPUs.
    pub demand_times: DemandTimes,
    /// Factor on the demand to come.
    pub scale: f64,
    /// Needs of jobs, pool by pool.
    pub demand: Vec<FleetDemand>,
    /// Whether the mix reserves nothing, as what reserving adds may be chance.
    pub reserves_nothing: bool,
    /// The mix to come.
    pub mix: Vec<FleetMixRow>,
    /// Cost a month, on all weeks of the record.
    pub cost_per_month: IntervalEstimate,
    /// Cost of all on demand a month on the same weeks.
    pub on_demand_per_month: IntervalEstimate,
    /// GPU-hours a week that nothing serves, as limits leave no room.
    pub waiting_gpu_hours_per_week: f64,
    /// How far the mix may be from the least cost, a share of it: 0 but where the search ended early.
    pub gap: f64,
    /// From which use on commitments are worth it.
    pub break_even: Vec<FleetBreakEven>,
    /// The mix under other prices and other demand.
    pub sensitivity: Vec<FleetSensitivity>,
    /// Effect of the loss of a zone's spot.
    pub stress: Vec<ZoneLoss>,
    /// What nodes of one's own would change; none where the offers file has none.
    pub buying: Option<FleetBuying>,
    /// Carbon, and the front of cost and carbon; nothing where that is not asked for.
    pub carbon: Option<FleetCarbon>,
    /// Months of the record that the mix was chosen and priced on.
    #[serde(skip)]
    #[schemars(skip)]
    pub(super) record_months: f64,
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

/// Plans the fleet for the jobs of a trace. Where what reserving adds on the later windows may be chance, a mix that reserves nothing is planned instead if that is advised.
///
/// # Errors
/// If GPU types are not offered, there are no GPU jobs, or there are too few days to choose on or to price on.
pub fn plan(trace: &Trace, offers: &KnownOffers, title: String, request: &FleetRequest) -> Result<FleetAnswer> {
    let facts = JobFacts::new(trace);
    let jobs = PoolJobs::new(&facts, &offers.all, request.times, &request.flexible)?;
    let span = jobs.span()?;
    let split = WeekSplit::new(span, request.eval_from_ms)?;
    let options = SupplyOptions { horizon_months: request.horizon_months, buy: false, costs: request.costs };
    let tested = test(&jobs, offers, &split, &options);
    let known = request.carbon.as_ref();
    let result = known.map(|known| {
        let before = jobs.demand(whole(&split.before), split.split_ms());
        let after = jobs.demand(whole(&split.after), i64::MAX);
        carbon(known, offers, (&before, &after), &split, &options)
    });
    let emitted = result.transpose()?;
    let zone = Zone::named(&trace.zone)?;
    let day = |ms: i64| trace.moment(&zone, ms, span.0);
    let by_the_mean =
        "The record's times have no calendar, so carbon counts by the mean of each grid, and not by the hour.";
    let by_the_mean = (known.is_some() && !trace.basis.has_calendar()).then(|| by_the_mean.to_owned());
    let told_of_carbon = known.into_iter().flat_map(|known| known.notes((split.split_ms(), span.1))).chain(by_the_mean);
    let planned = |tested: &[TestedRule], reserves_nothing: bool| -> Result<(FleetTrial, FleetBody)> {
        let trial = tested_on(tested, &split, emitted.is_some(), &offers.all.currency, &day)?;
        let forward = forward::plan(&jobs, &offers.all, &split, &options, request, reserves_nothing, &day);
        let [mix_kg_per_month, on_demand_kg_per_month] = forward.carbon_kg_per_month;
        let body = FleetBody {
            currency: offers.all.currency.clone(),
            offers: offers.all.file.clone(),
            horizon_months: request.horizon_months,
            demand_times: request.times,
            scale: request.scale,
            demand: forward.demand,
            reserves_nothing,
            mix: forward.mix,
            cost_per_month: forward.cost_per_month,
            on_demand_per_month: forward.on_demand_per_month,
            waiting_gpu_hours_per_week: forward.waiting_gpu_hours_per_week,
            gap: forward.gap,
            break_even: forward.break_even,
            sensitivity: forward.sensitivity,
            stress: forward.stress,
            buying: forward.buying,
            carbon: emitted.clone().map(|of| FleetCarbon { mix_kg_per_month, on_demand_kg_per_month, ..of }),
            record_months: split.months(),
            zone: trace.basis.has_dates().then(|| zone.name().to_owned()),
            curves: forward.curves,
        };
        Ok((trial, body))
    };
    let (mut trial, mut body) = planned(&tested, false)?;
    let judged = body.judged(&trial);
    let mut verdict = judge(&trial, &judged);
    let mut turned_to = None;
    if is_simpler_next(&trial, &judged, verdict) {
        let uncommitted = planned(&planned_uncommitted(tested), true)?;
        if judge(&uncommitted.0, &uncommitted.1.judged(&uncommitted.0)) == Verdict::Advised {
            turned_to = Some(advise::reserving_failed(&trial, &body, verdict));
            ((trial, body), verdict) = (uncommitted, Verdict::Advised);
        }
    }
    let head = Head {
        schema: SCHEMA,
        title,
        cautions: offers.all.oddities().into_iter().map(|odd| format!("A price is odd. {odd}")).collect(),
        notes: offers
            .all
            .notes_in_words()
            .chain(notes(&jobs, span, &split, request, &day))
            .chain(told_of_carbon)
            .chain(turned_to)
            .collect(),
        forecasting: forecasting(&trial),
        sources: trace.sources.clone(),
    };
    let action = advise::act(&trial, &body, verdict);
    let advice = Advice::new(&trial, verdict, || advise::change(&trial, &body));
    Ok(answer(head, trial, body, (verdict, action), advice))
}

/// What a forecast of demand would be worth: the mix is chosen as if the later weeks were like the
/// earlier ones.
fn forecasting(trial: &FleetTrial) -> Forecasting {
    let why = "no model forecasts demand months ahead, so the earlier weeks stand for those to come";
    let words = ForecastWords {
        forecast: "demand of the weeks to come",
        naive: "the earlier weeks",
        model: "a model",
        metric: "cost of the later weeks",
        unit: &trial.unit_in_words(),
    };
    let driven = trial.driven(trial.roles.plan, trial.roles.oracle);
    let per = driven.iter().map(|block| block.naive).sum::<f64>() / trial.of.plan.amount;
    Forecasting::new(&words, &driven, per, ForecastUsed::Naive, Some(why.to_owned()))
}

/// GPU-hours that wait by which rules may differ.
const SAME_WAITING: f64 = 1e-6;

/// The test, with carbon where `emits`.
fn tested_on(
    tested: &[TestedRule],
    split: &WeekSplit,
    emits: bool,
    currency: &str,
    day: &dyn Fn(i64) -> String,
) -> Result<FleetTrial> {
    let months = split.hours_after() as f64 / MONTH_H;
    let steady = tested.iter().find(|tested| tested.rule == FleetRule::OnDemand);
    let may_wait = steady.map_or(0.0, |steady| steady.spent().waiting_gpu_h) + SAME_WAITING;
    let roles = Roles {
        plan: FleetRule::Mix,
        baseline: FleetRule::OnDemand,
        simplest: FleetRule::Uncommitted,
        naive: FleetRule::Newsvendor,
        oracle: FleetRule::Hindsight,
    };
    let window = |spent: &Spent| (spent.cost(), FleetInWindow { waiting_gpu_hours: spent.waiting_gpu_h });
    let priced = |rule: &TestedRule| {
        let spent = rule.spent();
        Priced {
            id: rule.rule,
            words: rule.rule.in_words().to_owned(),
            kept: spent.waiting_gpu_h <= may_wait,
            windows: rule.windows.iter().map(window).collect(),
            blocks: rule.blocks.iter().map(Spent::cost).collect(),
            figures: FleetFigures {
                committed_gpus: spent.committed_room_gpu_h / split.hours_after().max(1) as f64,
                committed_used: (spent.committed_room_gpu_h > 0.0)
                    .then(|| spent.committed_gpu_h / spent.committed_room_gpu_h),
                waiting_gpu_hours: spent.waiting_gpu_h,
                // What a bought node draws is in its price, and on no grid.
                carbon_kg_per_month: (emits && rule.rule != FleetRule::Buying).then_some(spent.carbon_kg / months),
            },
        }
    };
    Trial::new(currency, &tested.iter().map(priced).collect::<Vec<_>>(), roles, split.stretches(day))
}

/// Assumptions, in words.
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
