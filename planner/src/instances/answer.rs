//! The answer of `plan rent instances`: one way for each job, what it costs, what faster would
//! cost, and how well choices by forecasts do.
//!
//! Beside the plan stand, for the same jobs: each job on what costs least an hour and keeps its deadline, which is how machines are often picked, and each job as fast as it can be. What is advised saves at least 5 % of the former.
//!
//! O(jobs × ways), beside the programme. Worked example: two jobs cost 83 and 93 as planned and 110 and 93 on what costs least an hour: 13 % less.

mod render;

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::report::format;
use tracecast_predictors::interference::rates::GangRate;

use super::across::{self, AcrossTest};
use super::choose::{RentBounds, RentGoal, best, choose, least_an_hour};
use super::heldout::{self, RentRule, RentTest, ScalingScore};
use super::job::RentedJob;
use super::option::{RentOption, RentTerms, front, offered_types, options};
use super::scaling::ScalingTable;
use crate::error::{Error, Result};
use crate::market::offers::Offers;
use crate::plan::forecast::{Driven, ForecastUsed, ForecastWords, Forecasting};
use crate::plan::recommendation::WORTH;
use crate::plan::{Basis, Confidence, Effect, Harm, Recommendation};

/// Version of the answer; a change that breaks its readers raises it.
pub const SCHEMA: &str = "plan-rent-instances/1";

/// Request for a plan of instances to rent.
#[derive(Debug, Clone)]
pub struct InstancesRequest {
    /// The jobs.
    pub jobs: Vec<RentedJob>,
    /// Offers to rent.
    pub offers: Offers,
    /// How jobs are run and billed.
    pub terms: RentTerms,
    /// Quantity to minimise.
    pub goal: RentGoal,
    /// Most cost of all jobs.
    pub budget: Option<f64>,
}

/// A way to run a job, with the names of its offer.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RentWay {
    /// The offer.
    pub instance: String,
    /// Instance type as its provider calls it, if the offer has one.
    pub instance_type: Option<String>,
    /// Whose it is, if the offer or the form of its zone's name tells it.
    pub provider: Option<String>,
    /// GPU type of the instance.
    pub gpu: String,
    /// Zone of the instance, if the offer has one.
    pub zone: Option<String>,
    /// The way.
    #[serde(flatten)]
    pub option: RentOption,
}

impl RentWay {
    fn new(option: &RentOption, offers: &Offers) -> Option<Self> {
        let offer = offers.instances.get(option.offer)?;
        let (instance, gpu, zone) = (offer.name.clone(), offer.gpu.clone(), offer.zone.clone());
        let instance_type = offer.instance_type.clone();
        Some(Self { instance, instance_type, provider: offer.whose(), gpu, zone, option: *option })
    }
}

/// What is planned for a job.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RentedWay {
    /// The job.
    pub job: String,
    /// Type of the job.
    #[serde(rename = "type")]
    pub job_type: String,
    /// Steps of the job.
    pub steps: f64,
    /// Within which time it must be done, seconds.
    pub deadline_s: Option<f64>,
    /// The way; none where no way keeps the deadline, or none was found for all jobs within limits and budget.
    pub way: Option<RentWay>,
    /// The least time in which any way would be done, seconds; none where it runs on nothing that is offered.
    pub fastest_s: Option<f64>,
    /// Ways that keep the deadline and of which no other is as fast and as cheap, the cheapest first.
    pub front: Vec<RentWay>,
}

/// Totals of all jobs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct RentSum {
    /// Cost.
    pub cost: f64,
    /// Mean time of a job, seconds.
    pub mean_time_s: f64,
    /// Time of the longest, seconds.
    pub longest_s: f64,
    /// Whether it is within the limits of the offers and the budget.
    pub is_possible: bool,
}

impl RentSum {
    fn new(ways: &[RentOption], bounds: &RentBounds<'_>) -> Self {
        Self {
            is_possible: bounds.hold(ways),
            cost: ways.iter().map(|way| way.cost).sum(),
            mean_time_s: ways.iter().map(|way| way.time_s).sum::<f64>() / ways.len().max(1) as f64,
            longest_s: ways.iter().map(|way| way.time_s).fold(0.0, f64::max),
        }
    }
}

/// Verdict of a plan of instances.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum InstancesVerdict {
    /// Each job has a way.
    Chosen,
    /// Some jobs have none that keeps the deadline; the others have one.
    SomeTooLate,
    /// Within the limits of offers and the budget no way was found for all jobs.
    NotWithinLimits,
    /// No job has a way.
    None,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct InstancesAnswer {
    /// Version of this form.
    pub schema: String,
    /// What the throughputs are of.
    pub title: String,
    /// Currency.
    pub currency: String,
    /// Quantity that is minimised.
    pub goal: RentGoal,
    /// Most cost of all jobs.
    pub budget: Option<f64>,
    /// Verdict of the plan.
    pub verdict: InstancesVerdict,
    /// Jobs, in the order in which they were named.
    pub jobs: Vec<RentedWay>,
    /// No choice is better by more than this share of what is to be least; none without a plan.
    pub gap: Option<f64>,
    /// What those with a way come to.
    pub plan: Option<RentSum>,
    /// Total where each job by itself runs on what costs least an hour and keeps its deadline.
    pub least_an_hour: Option<RentSum>,
    /// Total where each job by itself runs as fast as it can.
    pub fastest: Option<RentSum>,
    /// How far forecasts are off, on hidden numbers of GPUs.
    pub scaling: Vec<ScalingScore>,
    /// What choosing by forecasts costs; none where too little was measured to say.
    pub test: Option<RentTest>,
    /// What taking throughputs of one machine for several costs; none where a job has one instance, or nothing was measured across machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub across: Option<AcrossTest>,
    /// Assumptions.
    pub notes: Vec<String>,
    /// Recommended action, in a sentence.
    pub action: String,
    /// The recommendation, if the plan saves enough.
    pub recommendation: Option<Recommendation>,
    /// Worth of the forecast that the plan rests on.
    #[serde(flatten)]
    pub forecasting: Forecasting,
}

/// The JSON Schema of [`InstancesAnswer`].
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(InstancesAnswer).to_value()
}

/// Whether a way that was taken rests on a forecast of its throughput.
fn rest_on_forecasts(jobs: &[RentedWay]) -> bool {
    jobs.iter().filter_map(|job| job.way.as_ref()).any(|way| way.option.basis.is_forecast())
}

/// What forecasts of throughput are worth where numbers of GPUs are hidden.
fn forecasting(test: Option<&RentTest>, is_used: bool) -> Forecasting {
    let tested = test.and_then(|test| test.rules.iter().find(|score| score.rule == RentRule::WithMargin));
    // Both on the cases that both keep.
    let Some((naive, score)) = tested.and_then(|score| Some((score.measured_only_there?, score))) else {
        return Forecasting::none("too little was measured to hide some of it");
    };
    let words = ForecastWords {
        forecast: "throughput of numbers of GPUs that were not measured",
        naive: "what is measured alone",
        model: "forecasts with a margin",
        metric: "mean cost of hidden cases that keep their deadline",
        unit: "of all known",
    };
    let driven = Driven { naive, model: score.cost_over_known, truth: 1.0 };
    let used = if is_used { ForecastUsed::Model } else { ForecastUsed::None };
    let why = (!is_used).then(|| "each way that was taken is measured".to_owned());
    Forecasting::new(&words, &[driven], 1.0, used, why)
}

impl InstancesAnswer {
    /// Plans.
    ///
    /// # Errors
    /// If no GPU type that is offered was measured, or the solver fails.
    pub fn new(rates: &[GangRate], title: String, request: &InstancesRequest) -> Result<Self> {
        let InstancesRequest { jobs, offers, terms, goal, budget } = request;
        let table = ScalingTable::new(rates);
        if offered_types(&table, offers).is_empty() {
            let measured = table.gpu_types().join(", ");
            return Err(Error::malformed(
                "GPU type that is offered and measured",
                offers.pools.iter().map(|pool| pool.gpu.as_str()).collect::<Vec<_>>().join(", "),
                format!("the throughputs are of {measured}; name these in the offers file, in `gpu` or in `also`"),
            ));
        }
        let hidden = table.hidden();
        let choices = table.choices(&hidden);
        let tried: Vec<(Vec<RentOption>, Option<f64>)> =
            jobs.iter().map(|job| options(job, &table, &choices.of(&job.job_type), offers, terms)).collect();
        let can: Vec<Vec<RentOption>> =
            tried.iter().map(|(ways, _)| ways.clone()).filter(|ways| !ways.is_empty()).collect();
        let bounds = RentBounds { offers, budget: *budget };
        let choice = if can.is_empty() { None } else { choose(&can, *goal, &bounds)? };
        let (taken, gap) = choice.map_or((None, None), |choice| (Some(choice.ways), Some(choice.gap)));
        let verdict = match &taken {
            _ if can.is_empty() => InstancesVerdict::None,
            None => InstancesVerdict::NotWithinLimits,
            Some(_) if can.len() < jobs.len() => InstancesVerdict::SomeTooLate,
            Some(_) => InstancesVerdict::Chosen,
        };
        let mut next = taken.iter().flatten();
        let told = jobs.iter().zip(&tried).map(|(job, (ways, fastest_s))| RentedWay {
            job: job.name.clone(),
            job_type: job.job_type.clone(),
            steps: job.steps,
            deadline_s: job.deadline_s,
            way: if ways.is_empty() { None } else { next.next().and_then(|way| RentWay::new(way, offers)) },
            fastest_s: *fastest_s,
            front: front(ways).iter().filter_map(|way| RentWay::new(way, offers)).collect(),
        });
        let told: Vec<RentedWay> = told.collect();
        let each = |of: &dyn Fn(&[RentOption]) -> Option<RentOption>| {
            let ways: Option<Vec<RentOption>> = can.iter().map(|ways| of(ways)).collect();
            ways.filter(|ways| !ways.is_empty()).map(|ways| RentSum::new(&ways, &bounds))
        };
        let test = heldout::test(&table, &choices, offers, terms);
        let forecasting = forecasting(test.as_ref(), rest_on_forecasts(&told));
        let forecast = forecasting.sentence();
        let mut answer = Self {
            schema: SCHEMA.to_owned(),
            title,
            currency: offers.currency.clone(),
            goal: *goal,
            budget: *budget,
            verdict,
            jobs: told,
            gap,
            plan: taken.as_ref().map(|ways| RentSum::new(ways, &bounds)),
            least_an_hour: each(&|ways| least_an_hour(ways, offers)),
            fastest: each(&|ways| best(ways, RentGoal::Time)),
            scaling: heldout::scaling_scores(&choices, &hidden),
            notes: forecast
                .into_iter()
                .chain(offers.notes_in_words())
                .chain(notes(&table, request, test.is_some()))
                .collect(),
            test,
            across: across::test(&table, offers, terms),
            action: String::new(),
            recommendation: None,
            forecasting,
        };
        answer.action = answer.act();
        answer.recommendation = answer.recommend();
        Ok(answer)
    }

    /// Share of the cost on what costs least an hour that is saved.
    fn saved(&self) -> Option<f64> {
        let (plan, naive) = (self.plan?, self.least_an_hour.filter(|naive| naive.is_possible)?);
        (naive.cost > 0.0).then(|| 1.0 - plan.cost / naive.cost)
    }

    fn recommend(&self) -> Option<Recommendation> {
        let (plan, naive) = (self.plan?, self.least_an_hour?);
        if self.saved()? < WORTH {
            return None;
        }
        let forecasts = rest_on_forecasts(&self.jobs);
        let longer = plan.mean_time_s - naive.mean_time_s;
        let harmed = (longer > 1.0).then(|| Harm {
            who: "The jobs".to_owned(),
            how_much: format!("take {} longer on average", format::duration(longer)),
        });
        Some(Recommendation {
            plan: "rent instances".to_owned(),
            action: self.action.clone(),
            effects: vec![Effect {
                what: "Cost of the jobs".to_owned(),
                unit: self.currency.clone(),
                change: plan.cost - naive.cost,
                low: None,
                high: None,
                interval: "none: throughputs and prices are taken as they were given".to_owned(),
            }],
            against: "each job on what costs least an hour and keeps its deadline".to_owned(),
            basis: Basis::Count,
            regret: None,
            harmed: harmed.into_iter().collect(),
            confidence: if forecasts { Confidence::Low } else { Confidence::Medium },
            risk: if forecasts {
                "Some throughputs are forecast for numbers of GPUs that were not measured. A run of a few minutes there tells.".to_owned()
            } else {
                "Throughputs are those of the file; with other data loading, network or software a job may be slower."
                    .to_owned()
            },
            assumptions: self.notes.clone(),
            holds_until: "prices or the jobs' code change".to_owned(),
            apply: "Launch each job on the instances of its line; --emit-to writes a list and SkyPilot tasks."
                .to_owned(),
            command: Some(
                "tracecast plan rent instances THROUGHPUTS --offers OFFERS --jobs JOBS --emit-to instances".to_owned(),
            ),
            undo: "Nothing is committed to: end the instances.".to_owned(),
        })
    }
}

/// Assumption on several instances.
fn on_several(table: &ScalingTable, request: &InstancesRequest) -> String {
    let InstancesRequest { jobs, offers, terms, .. } = request;
    let most = terms.most_instances;
    if most == 1 {
        return "A job has one instance, as throughputs are mostly measured within one machine; --most-instances lets it have more.".to_owned();
    }
    let types = offered_types(table, offers);
    let asked: BTreeSet<&str> = jobs.iter().map(|job| job.job_type.as_str()).collect();
    // Gangs of which it was not measured apart how fast they are.
    let is_gang = |gpu: &str, job: &str| table.points(gpu, job).iter().any(|(gpus, _)| *gpus > 1);
    let taken_on = |job: &'_ str| {
        types
            .iter()
            .copied()
            .find(|gpu| is_gang(gpu, job) && table.apart(gpu, job).is_empty())
            .map(|gpu| (job.to_owned(), gpu))
    };
    let taken: Vec<(String, &str)> = asked.iter().filter_map(|job| taken_on(job)).collect();
    let is_measured = asked.iter().any(|job| types.iter().any(|gpu| !table.apart(gpu, job).is_empty()));
    let mut said = format!("A job has up to {most} instances.");
    if is_measured {
        said += " On several it is as fast as it was measured with each GPU on a machine of its own; machines of several GPUs may be faster than that. Numbers of GPUs that were not measured so are not used on several.";
    }
    if let Some((job, gpu)) = taken.first() {
        said += &format!(
            " **The throughputs of {}, such as {job} on {gpu}, are taken to hold across machines**, where they are often several times lower; a column `apart_steps_per_s` says what was measured there.",
            format::counted(taken.len() as u64, "job type", "job types")
        );
    }
    said
}

/// Assumptions.
fn notes(table: &ScalingTable, request: &InstancesRequest, is_tested: bool) -> Vec<String> {
    let InstancesRequest { offers, terms, .. } = request;
    let mut notes = vec![
        format!(
            "A job runs at a constant rate from {} after the order on, which is paid for as well. Bills are in units of {}.",
            format::duration(terms.start_s),
            format::duration(terms.bill_s)
        ),
        on_several(table, request),
        if terms.forecasts && !is_tested {
            "A job may use numbers of GPUs that were not measured: their throughput is forecast. **Nothing tests these forecasts**: no job type was measured on three numbers of GPUs of one type. A type measured on one number alone is not forecast.".to_owned()
        } else if terms.forecasts {
            "A job may use numbers of GPUs that were not measured: their throughput is forecast. A type measured on one number alone is not forecast.".to_owned()
        } else {
            "A job uses numbers of GPUs that were measured for its type, and no others; --forecasts allows more."
                .to_owned()
        },
        "All jobs run at the same time, so each limit of an offer is shared among them.".to_owned(),
    ];
    if terms.spot {
        notes.push("Spot is for jobs without a deadline. Its times and costs are means over interruptions; `plan rent job` guarantees deadlines on spot. Several instances are taken to be there or away together, and each to be interrupted by itself.".to_owned());
    }
    let offered = offered_types(table, offers);
    let missing = table.gpu_types().iter().map(String::as_str).filter(|gpu| !offered.contains(gpu));
    let missing: Vec<&str> = missing.collect();
    if !missing.is_empty() {
        notes.push(format!("Nothing is offered of {}, which the throughputs know.", missing.join(", ")));
    }
    let unknown: Vec<&str> = offers
        .pools
        .iter()
        .filter(|pool| !offered.iter().any(|gpu| pool.names.iter().any(|name| name.eq_ignore_ascii_case(gpu))))
        .map(|pool| pool.gpu.as_str())
        .collect();
    if !unknown.is_empty() {
        notes.push(format!("Offers of {} are left aside: no throughput is known there.", unknown.join(", ")));
    }
    if !offers.owned.is_empty() || offers.instances.iter().any(|offer| !offer.reserved.is_empty()) {
        notes
            .push("Commitments and nodes to buy are left aside: `plan rent fleet` weighs them over months.".to_owned());
    }
    notes
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::option::tests::{TERMS, job, offers};
    use super::super::scaling::tests::rate;
    use super::*;

    fn rates() -> Vec<GangRate> {
        vec![rate("v", "a", 1, 10.0), rate("v", "a", 4, 36.0), rate("v", "a", 8, 60.0), rate("k", "a", 1, 2.0)]
    }

    fn answer(jobs: Vec<RentedJob>, goal: RentGoal, budget: Option<f64>) -> InstancesAnswer {
        let request = InstancesRequest { jobs, offers: offers(), terms: TERMS, goal, budget };
        InstancesAnswer::new(&rates(), "test".to_owned(), &request).unwrap()
    }

    #[test]
    fn one_job_by_hand() {
        // One GPU costs 83.33 and takes 27.8 h; the K80 costs 1 an hour and 138.89 in all.
        let free = answer(vec![job(1e6, None)], RentGoal::Cost, None);
        let way = free.jobs[0].way.as_ref().unwrap();
        assert_eq!((way.instance.as_str(), way.option.gpus, free.verdict), ("one", 1, InstancesVerdict::Chosen));
        assert!((free.saved().unwrap() - (1.0 - 83.333 / 138.889)).abs() < 1e-3);
        assert!(free.action.contains("one") && free.recommendation.is_some(), "{}", free.action);
        // Faster costs more: the front goes on to eight GPUs.
        assert_eq!(free.jobs[0].front.iter().map(|way| way.option.gpus).collect::<Vec<_>>(), [1, 8]);
        // Within a day it is the eight, whatever is preferred.
        let day = answer(vec![job(1e6, Some(24.0))], RentGoal::Cost, None);
        assert_eq!(day.jobs[0].way.as_ref().unwrap().option.gpus, 8);
        assert!(day.recommendation.is_none(), "what costs least an hour is the same there");
        // Nothing makes it within an hour.
        let hour = answer(vec![job(1e6, Some(1.0))], RentGoal::Cost, None);
        assert_eq!((hour.verdict, hour.jobs[0].way.is_none()), (InstancesVerdict::None, true));
        assert!(hour.action.contains("4 h 38 min"), "{}", hour.action);
    }

    #[test]
    fn several_jobs_share_limits_and_a_budget() {
        // There are two instances with eight.
        let three = vec![job(1e6, Some(24.0)), job(1e6, Some(24.0)), job(1e6, Some(24.0))];
        assert_eq!(answer(three.clone(), RentGoal::Cost, None).verdict, InstancesVerdict::NotWithinLimits);
        let mixed = answer(vec![job(1e6, Some(24.0)), job(1e6, Some(1.0))], RentGoal::Cost, None);
        assert_eq!((mixed.verdict, mixed.jobs[1].way.is_none()), (InstancesVerdict::SomeTooLate, true));
        // Eight GPUs cost 111.11 a job and one 83.33: a budget of 200 buys one of two jobs the eight.
        let fast = answer(vec![job(1e6, None), job(1e6, None)], RentGoal::Time, Some(200.0));
        let mut gpus: Vec<u32> = fast.jobs.iter().map(|job| job.way.as_ref().unwrap().option.gpus).collect();
        gpus.sort_unstable();
        assert_eq!(gpus, [1, 8]);
        assert_eq!(answer(three, RentGoal::Time, Some(10.0)).plan, None);
    }

    #[test]
    fn offers_of_other_gpus_are_refused() {
        let request = InstancesRequest {
            jobs: vec![job(1.0, None)],
            offers: offers(),
            terms: TERMS,
            goal: RentGoal::Cost,
            budget: None,
        };
        let told = InstancesAnswer::new(&[rate("h100", "a", 1, 1.0)], String::new(), &request).unwrap_err().to_string();
        assert!(told.contains("the throughputs are of h100"), "{told}");
    }
}
