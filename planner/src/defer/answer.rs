//! The answer of `plan defer`.
//!
//! The later weeks say whether waiting that was chosen so is worth it; what is to come is then chosen anew on all weeks, and told hour by hour for the day after the last hour of the series. Amounts are told by the
//! month, of 730.5 hours.
//!
//! Energy is a constant power a GPU times GPUs and time, so shares do not depend on it, and amounts are proportional to it.
//!
//! O(rows) beside the search. Worked example: 0.3 kW a GPU; jobs that emitted 1,000 kg in a month of later weeks at once emit 930 kg as they are deferred: 7 % is saved.

mod advise;
mod assumed;
mod forward;
mod render;
mod tested;

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::audit::factors::{Hourly, Method};
use tracecast_analytics::facts::{JobFacts, SizeClass};
use tracecast_analytics::time::{HOUR_MS, MINUTE_MS, WEEK_MS, Zone};
use tracecast_analytics::trace::Trace;

use super::cost::DeferPrices;
use super::heldout::{DeferCase, DeferTerms, PricedEnergy, earlier_jobs, later_blocks, later_jobs};
use super::job::{DeferClassBy, DeferJobs, DeferTaking, MILLI};
use super::rule::DeferRule;
use super::series::{HourSeries, HourValue};
use crate::error::{Error, Result};
use crate::market::demand::{DemandTimes, Flexible, PoolJobs};
use crate::market::offers::{OfferPool, Offers};
use crate::market::predicted::{DrivenOutcome, PredictedRows, within_twice};
use crate::plan::answer::{Advice, Answer, Head, answer};
use crate::plan::forecast::ForecastUsed;
use crate::plan::forecast::runs::RunForecast;
use crate::plan::money::MONTH_H;
use crate::plan::trial::Trial;
use crate::plan::verdict::{Verdict, judge};
use crate::plan::waits::WaitSummary;
use crate::plan::weeks::{Moments, WeekSplit, whole};
use crate::replay::compare::IntervalEstimate;

pub use render::report;

/// Version of the answer; a change that breaks its readers raises it.
pub const SCHEMA: &str = "plan-defer/2";

/// Quantity to keep low.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeferAim {
    /// Carbon.
    Carbon,
    /// The price of electricity.
    Price,
}

/// The hours that jobs are deferred by.
#[derive(Debug, Clone)]
pub struct DeferHours {
    /// Quantity to keep low.
    pub aim: DeferAim,
    /// Values of the hours.
    pub series: HourSeries,
    /// Name of the file.
    pub name: String,
    /// Currency, where it is a price.
    pub currency: Option<String>,
    /// Notes on the series.
    pub notes: Vec<String>,
}

impl DeferHours {
    /// The carbon intensities that a trace itself holds, of `zone` if it holds several.
    ///
    /// # Errors
    /// If they contradict each other, are of several zones and none is named, or are not by the hour.
    pub fn of_trace(trace: &Trace, zone: Option<&str>) -> Result<Self> {
        let table = "the trace's carbon table";
        let hourly = Hourly::carbon(&trace.carbon, table, zone, Method::Direct)?;
        let series = HourSeries::new(&hourly, HourValue::Carbon, table)?;
        Ok(Self { aim: DeferAim::Carbon, series, name: table.to_owned(), currency: None, notes: hourly.notes })
    }
}

/// Request for a plan to defer jobs.
#[derive(Debug, Clone)]
pub struct DeferRequest {
    /// Beginning of the windows that the plan is told on; a third of the record, if `None`.
    pub eval_from_ms: Option<i64>,
    /// Target and limits.
    pub terms: DeferTerms,
    /// Weeks that the calendar of the series is ahead of the trace's.
    pub shift_weeks: i64,
    /// Power of a GPU, kW, and where that is from.
    pub gpu_kw: (f64, String),
    /// Prices of electricity that are told beside, and their currency.
    pub energy: Option<(HourSeries, String)>,
    /// Offers, and GPUs that are reserved.
    pub prices: Option<(Offers, f64)>,
    /// What the classes of jobs are made of; time limits where most jobs record one, if `None`.
    pub class_by: Option<DeferClassBy>,
    /// Predicted runs of jobs; for jobs without, the mean of the last two runs alike.
    pub runs: RunForecast,
}

impl DeferRequest {
    /// What is asked where nothing is named: a mean wait of 4 h, none over a day.
    pub fn usual(trace: &Trace) -> Self {
        let hours = |hours: i64| hours * HOUR_MS;
        let terms =
            DeferTerms { target_ms: hours(4) as f64, most_ms: hours(24), resume_ms: 5 * MINUTE_MS, most_cost: 0.02 };
        Self {
            eval_from_ms: None,
            terms,
            shift_weeks: 0,
            gpu_kw: super::power::gpu_kw(trace),
            energy: None,
            prices: None,
            class_by: None,
            runs: RunForecast::Naive("a report trains no model".to_owned()),
        }
    }
}

/// Costs of deferred jobs, a month.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct DeferCost {
    /// Total of on demand, reserved and electricity, a month.
    pub per_month: f64,
    /// Cost of GPUs on demand within that.
    pub on_demand_per_month: f64,
    /// Cost of electricity within that.
    pub energy_per_month: f64,
    /// The whole as a share of starting at once.
    pub of_now: f64,
}

/// Jobs of a size and a time limit or expected run, and how long they may wait.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct DeferClass {
    /// Size.
    pub size: SizeClass,
    /// Time limit, or expected run, in words.
    pub runs: String,
    /// The longest wait, seconds.
    pub most_wait_s: f64,
}

/// How jobs are deferred.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct DeferPlan {
    /// Choice in words.
    pub what: String,
    /// The least that an hour waited must save, kg or money; none where there is no such condition.
    pub least_worth: Option<f64>,
    /// Classes that may wait; the others start at once.
    pub classes: Vec<DeferClass>,
}

/// Figures of a rule over all later windows, beside its amount.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct DeferFigures {
    /// Plan that the rule chose.
    pub chosen: DeferPlan,
    /// Whether it knows what nobody can.
    pub knows: bool,
    /// Energy a month, kWh.
    pub kwh_per_month: f64,
    /// Waits of the later jobs.
    pub waits: WaitSummary,
    /// Cost; none without prices.
    pub cost: Option<DeferCost>,
}

/// Figures of a rule in a window, beside its amount.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct DeferInWindow {
    /// Mean wait of the jobs submitted in it, seconds.
    pub mean_wait_s: f64,
}

/// The later jobs of a size, under the plan.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct DeferSize {
    /// Size of the jobs.
    pub size: SizeClass,
    /// Waits of the jobs.
    pub waits: WaitSummary,
    /// Saving, a share of what these jobs emit or cost at once.
    pub saved: f64,
    /// Share of what all jobs emit or cost at once.
    pub of_all: f64,
}

/// How well hours to come are forecast.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ForecastScore {
    /// The forecast, in words.
    pub by: String,
    /// Hours ahead.
    pub ahead_h: u32,
    /// Mean distance from what came on the earlier windows, g/kWh or money a kWh.
    pub earlier: Option<f64>,
    /// Mean distance from what came on the later windows, g/kWh or money a kWh.
    pub later: Option<f64>,
}

/// A point of the front.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct DeferFrontPoint {
    /// Share saved on the earlier jobs.
    pub saved: f64,
    /// Mean wait of the earlier jobs, seconds.
    pub mean_wait_s: f64,
    /// Cost on the earlier windows as a share of starting at once; none without prices.
    pub cost_of_now: Option<f64>,
    /// Whether it is the plan.
    pub chosen: bool,
}

/// When to start what is submitted in an hour.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct NextStart {
    /// Size of the jobs.
    pub size: SizeClass,
    /// Time limit or expected run of the jobs, in words.
    pub runs: String,
    /// Expected run of the jobs: the median of the class, hours.
    pub run_h: f64,
    /// Start of each hour of submission, hours after it; as many as there are hours.
    pub after_h: Vec<f64>,
}

/// The starts of a day, by class and hour of submission.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct NextTable {
    /// The forecast, in words.
    pub by: String,
    /// Expected value of each hour of the day, g/kWh or money a kWh; the hours after it that jobs
    /// may wait for follow.
    pub expected: Vec<f64>,
    /// Classes that wait.
    pub starts: Vec<NextStart>,
}

/// The value at or below which jobs start on a day.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct NextLimit {
    /// g/kWh or money a kWh.
    pub limit: f64,
    /// The lowest hour of the last days.
    pub lowest: f64,
    /// Percentile of the last days that the limit is, percent.
    pub percent: u8,
    /// Days.
    pub days: u16,
}

/// How a day is written down.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NextWay {
    /// Starts by class and hour.
    Table(NextTable),
    /// A limit: what waits starts in the first hour at or below it.
    Limit(NextLimit),
}

/// Settings for the day after the last hour of the series.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct NextDay {
    /// First hour of the day, UTC.
    pub from: String,
    /// Starts or limit of the day.
    pub way: NextWay,
    /// First hour, ms.
    #[serde(skip)]
    #[schemars(skip)]
    pub(super) from_ms: i64,
}

impl NextDay {
    /// First hour of the day, ms.
    pub fn first_ms(&self) -> i64 {
        self.from_ms
    }
}

/// The test on later windows. Amounts are carbon in kg, or money for electricity; the limits that rules keep are the mean wait asked for and, where GPUs have prices, the cost.
pub type DeferTrial = Trial<DeferRule, DeferFigures, DeferInWindow>;

/// The answer.
pub type DeferAnswer = Answer<DeferTrial, DeferBody>;

/// Part of the answer that only this plan has.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct DeferBody {
    /// Quantity to keep low.
    pub aim: DeferAim,
    /// Unit of amounts: kg, or a currency.
    pub unit: String,
    /// Currency of costs; none without prices.
    pub currency: Option<String>,
    /// Power of a GPU, kW.
    pub gpu_kw: f64,
    /// Source of the power of a GPU.
    pub gpu_kw_source: String,
    /// Weeks that the calendar of the hours is ahead of the trace's.
    pub shift_weeks: i64,
    /// Jobs left out, as an hour that they may touch has no value, or no price where prices are told.
    pub jobs_without_value: u64,
    /// Jobs taken.
    pub jobs: u64,
    /// What the classes are made of, beside sizes.
    pub class_by: DeferClassBy,
    /// The longest wait, seconds.
    pub max_wait_s: f64,
    /// The mean wait that the plan may bring about, seconds.
    pub target_mean_wait_s: f64,
    /// Cost of resuming, seconds.
    pub checkpoint_s: f64,
    /// How much more than starting at once a plan may cost, a share.
    pub most_cost: f64,
    /// Jobs that the plan was chosen on.
    pub earlier_jobs: u64,
    /// Mean wait of the later jobs under the plan, seconds.
    pub mean_wait_s: IntervalEstimate,
    /// Later jobs by size, under the plan.
    pub sizes: Vec<DeferSize>,
    /// Share of the later jobs that ran no more than twice and no less than half as long as predicted.
    pub predicted_within_twice: f64,
    /// How well hours are forecast.
    pub forecasts: Vec<ForecastScore>,
    /// Amount, mean wait and cost on the earlier windows, of which none is better in all.
    pub front: Vec<DeferFrontPoint>,
    /// How jobs to come are deferred, chosen on all windows.
    pub plan: DeferPlan,
    /// Share that the plan saves on the windows that it was chosen on.
    pub plan_saves: f64,
    /// Settings for the day to come; none where waiting is not advised, and with hours of another
    /// year.
    pub next_day: Option<NextDay>,
}

/// The JSON Schema of [`DeferAnswer`].
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(DeferAnswer).to_value()
}

/// Turns whole parts into what is told.
#[derive(Debug, Clone, Copy)]
struct Units {
    value: HourValue,
    gpu_kw: f64,
    aim: DeferAim,
}

impl Units {
    /// kWh of one thousandth of a GPU and one ms.
    fn kwh(self) -> f64 {
        self.gpu_kw / MILLI as f64 / HOUR_MS as f64
    }

    /// kg or money of value × ms × thousandths of a GPU.
    fn amount(self, parts: i128) -> f64 {
        let grams = parts as f64 / self.value.parts() * self.kwh();
        if self.aim == DeferAim::Carbon { grams / 1e3 } else { grams }
    }

    /// Words of clean hours, of cheap ones where prices are to be low.
    fn words(self, text: &str) -> String {
        if self.aim == DeferAim::Carbon { text.to_owned() } else { text.replace("cleanest", "cheapest") }
    }

    /// g/kWh or money a kWh of whole parts.
    fn value(self, parts: f64) -> f64 {
        parts / self.value.parts()
    }
}

/// Offers under which every GPU job is of one type, where no prices are weighed.
fn one_type(facts: &JobFacts<'_>) -> Offers {
    let mut names: Vec<String> =
        (0..facts.len()).filter_map(|row| facts.trace.jobs.gpu_type.get(row).map(str::to_owned)).collect();
    names.sort_unstable();
    names.dedup();
    let pool = OfferPool { gpu: "GPU".to_owned(), names, instances: Vec::new(), owned: Vec::new() };
    Offers {
        file: String::new(),
        currency: String::new(),
        untyped: None,
        instances: Vec::new(),
        owned: Vec::new(),
        pools: vec![pool],
        notes: Vec::new(),
    }
}

/// The split on the calendar of the series.
fn shifted(split: &WeekSplit, by_ms: i64) -> WeekSplit {
    let moved = |all: &[Moments]| all.iter().map(|(from, to)| (from + by_ms, to + by_ms)).collect();
    WeekSplit { before: moved(&split.before), after: moved(&split.after), all: moved(&split.all) }
}

/// What deferred jobs are measured by, in words.
fn aim_in_words(aim: DeferAim) -> &'static str {
    match aim {
        DeferAim::Carbon => "emissions on the later windows",
        DeferAim::Price => "cost of electricity on the later windows",
    }
}

/// Plans for the jobs of a trace.
///
/// # Errors
/// If there are no GPU jobs, the hours are of another time, predictions are of other jobs, GPU types are not offered, or there are too few days to choose on or to tell.
pub fn plan(trace: &Trace, hours: &DeferHours, title: String, request: &DeferRequest) -> Result<DeferAnswer> {
    let facts = JobFacts::new(trace);
    let open = one_type(&facts);
    let offers = request.prices.as_ref().map_or(&open, |(offers, _)| offers);
    let jobs = PoolJobs::new(&facts, offers, DemandTimes::Unwaited, &Flexible::Nobody)?;
    let span = jobs.span()?;
    assumed::check_calendar(span, (&hours.name, &hours.series), request.shift_weeks)?;
    if let Some((prices, _)) = request.energy.as_ref().filter(|_| hours.aim == DeferAim::Carbon) {
        assumed::check_calendar(span, ("the prices of electricity", prices), request.shift_weeks)?;
    }
    let trace_split = WeekSplit::new(span, request.eval_from_ms)?;
    let shift_ms = request.shift_weeks * WEEK_MS;
    let split = shifted(&trace_split, shift_ms);
    let all = jobs.unwaited(i64::MAX);
    let predicted = PredictedRows::new(&facts, &all, &request.runs)?;
    let terms = &request.terms;
    let prices = request.energy.as_ref().map(|(prices, _)| prices);
    let class_by = request.class_by.unwrap_or_else(|| DeferClassBy::new(&facts, &all));
    let predicted_s = predicted.by(ForecastUsed::Naive);
    let taking = DeferTaking { predicted_s, class_by, shift_ms, most_ms: terms.most_ms, prices };
    if class_by == DeferClassBy::Limit {
        let taken = DeferJobs::new(&facts, &all, &hours.series, &taking);
        if taken.without_class == taken.jobs.len() as u64 && taken.without_class > 0 {
            return Err(Error::NothingToEvaluate(
                "no job records a time limit, so none could wait by it; leave --class-by out, or give --class-by predicted"
                    .to_owned(),
            ));
        }
    }
    let known_jobs = jobs.unwaited(trace_split.split_ms());
    let priced = match &request.prices {
        Some((offers, reserved)) => Some(DeferPrices::new(offers, &all, *reserved)?),
        None => None,
    };
    let value = match hours.aim {
        DeferAim::Carbon => HourValue::Carbon,
        DeferAim::Price => HourValue::Price,
    };
    let units = Units { value, gpu_kw: request.gpu_kw.0, aim: hours.aim };
    let each = units.kwh() / HourValue::Price.parts();
    let base = DeferCase {
        series: &hours.series,
        earlier: &[],
        later: &[],
        split: &split,
        terms,
        prices: priced.as_ref(),
        energy: request.energy.as_ref().map(|(prices, _)| PricedEnergy { prices, each }),
    };
    let sides = |predicted_s: &[f64]| {
        let taking = DeferTaking { predicted_s, ..taking };
        let known = DeferJobs::new(&facts, &known_jobs, &hours.series, &taking);
        let taken = DeferJobs::new(&facts, &all, &hours.series, &taking);
        let later = later_jobs(&taken.jobs, &split);
        (earlier_jobs(&known.jobs, &split, terms.most_ms), later, taken)
    };
    let with_notes = |error: Error| assumed::with_notes(error, &hours.notes);
    let outcome = |predicted_s: &[f64]| {
        let (earlier, later, _) = sides(predicted_s);
        let case = DeferCase { earlier: &earlier, later: &later, ..base };
        let (earlier, planned) = case.planned().map_err(with_notes)?;
        let later = tested::sums(&planned, &later_blocks(&split)).iter().map(|sum| units.amount(sum.amount)).collect();
        Ok(DrivenOutcome { earlier: units.amount(earlier), later })
    };
    let unit = hours.currency.as_deref().unwrap_or("kg");
    let months = trace_split.hours_after() as f64 / MONTH_H;
    let (used, driven) = predicted.choose(&outcome)?;
    let predicted_s = predicted.by(used);
    let (earlier, later, taken) = sides(predicted_s);
    let case = DeferCase { earlier: &earlier, later: &later, ..base };
    let engine = case.engine(whole(&split.before), &earlier);
    let tested = case.test(&engine).map_err(with_notes)?;
    let zone = Zone::named(&trace.zone)?;
    let day = |ms: i64| zone.rfc3339(ms);
    let near = within_twice(&all, predicted_s, trace_split.split_ms());
    let windows = tested::LaterWindows { units, split: &split, trace_split: &trace_split, terms, day: &day };
    let trial = windows.trial(&tested, unit)?;
    let (mean_wait_s, sizes) = windows.waits(&tested);
    let forward = forward::plan(&case, &taken.jobs, &units)?;
    let currency = request.energy.as_ref().map(|(_, currency)| currency.clone());
    let currency = request.prices.as_ref().map(|(offers, _)| offers.currency.clone()).or(currency);
    let verdict = judge(&trial, &advise::judged(&trial, &forward.plan));
    let is_written = verdict == Verdict::Advised && request.shift_weeks == 0;
    let body = DeferBody {
        aim: hours.aim,
        unit: trial.unit.clone(),
        currency,
        gpu_kw: request.gpu_kw.0,
        gpu_kw_source: request.gpu_kw.1.clone(),
        shift_weeks: request.shift_weeks,
        jobs_without_value: taken.without_value,
        jobs: taken.jobs.len() as u64,
        class_by,
        max_wait_s: terms.most_ms as f64 / 1e3,
        target_mean_wait_s: terms.target_ms / 1e3,
        checkpoint_s: terms.resume_ms as f64 / 1e3,
        most_cost: terms.most_cost,
        earlier_jobs: earlier.len() as u64,
        mean_wait_s,
        sizes,
        predicted_within_twice: near,
        forecasts: windows.forecasts(&case),
        front: windows.front(&tested),
        plan: forward.plan,
        plan_saves: forward.saves,
        next_day: forward.next_day.filter(|_| is_written),
    };
    let head = Head {
        schema: SCHEMA,
        title,
        cautions: Vec::new(),
        notes: assumed::notes(
            &jobs,
            span,
            &trace_split,
            hours,
            request,
            (predicted.in_words(used), class_by, &taken),
            &day,
        ),
        forecasting: predicted.forecast.worth(
            (aim_in_words(hours.aim), &format!("{unit} a month"), months),
            &driven,
            used,
            None,
        ),
        sources: trace.sources.clone(),
    };
    let action = advise::act(&trial, &body, verdict);
    let advice = Advice::new(&trial, verdict, || advise::change(&trial, &body));
    Ok(answer(head, trial, body, (verdict, action), advice))
}
