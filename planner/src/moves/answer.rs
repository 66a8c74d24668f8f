//! The answer of `plan moves`: where each job begins now, whether it is worth moving it as prices change, and at which prices.
//!
//! What is told: for each job the cheapest place at the last prices, and below which price each other place would be worth a move under the rule; the rules on later starts; and how often each place was the cheapest. A rule that moves is recommended if the interval of what it saves excludes none and it saves
//! [`WORTH`](crate::plan::recommendation::WORTH) of the cost of staying.
//!
//! O(trial). Worked example: staying costs 100, moving once a day 96 (94 to 98): 4 % is too little to be recommended, and the answer says so.

mod render;

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::report::format;
use tracecast_analytics::time::format_rfc3339;

use super::bound::GRID_MS;
use super::market::{PriceHistory, PricedJob};
use super::run::{FirstPlace, MoveRule, MoveTerms, egress, first, rest};
use super::trial::{MoveTrial, TrialPlan, trial};
use crate::error::Result;
use crate::instances::job::RentedJob;
use crate::instances::scaling::ScalingTable;
use crate::plan::{Basis, Confidence, Effect, Harm, Recommendation, Regret};

/// Version of the answer; a change that breaks its readers raises it.
pub const SCHEMA: &str = "plan-moves/1";

/// Other places that are told of a job.
const OTHERS: usize = 5;

/// What is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct MovesRequest {
    /// The jobs; deadlines are left aside.
    pub jobs: Vec<RentedJob>,
    /// What moves cost.
    pub terms: MoveTerms,
    /// How rules are tried.
    pub trial: TrialPlan,
}

/// An instance type in a zone, for a job.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Place {
    /// Who sells it.
    pub provider: String,
    /// Zone, or region where prices are of regions.
    pub zone: String,
    /// Instance type.
    pub instance: String,
    /// GPU type.
    pub gpu: String,
    /// GPUs that the job uses there.
    pub gpus: u32,
    /// Steps a second.
    pub steps_per_s: f64,
    /// Dollars an hour, as last quoted.
    pub usd_per_h: f64,
    /// Dollars of the whole job at that price, with its start.
    pub usd: f64,
    /// Its time there, seconds.
    pub time_s: f64,
    /// Dollars an hour below which a job that has just begun at the cheapest place moves here under the rule; nothing for that place, and where the advice is to stay.
    pub move_below_usd_per_h: Option<f64>,
}

/// Where a job begins.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PlacedJob {
    /// The job.
    pub job: String,
    /// Its type.
    #[serde(rename = "type")]
    pub job_type: String,
    /// Its steps.
    pub steps: f64,
    /// The cheapest place at the last prices, or at the mean prices if that is advised; nothing where no price is recent enough.
    pub place: Option<Place>,
    /// The next cheapest, at most five.
    pub others: Vec<Place>,
}

/// How often a place was the cheapest for a job.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CheapestPlace {
    /// The job.
    pub job: String,
    /// Zone.
    pub zone: String,
    /// Instance type.
    pub instance: String,
    /// GPU type.
    pub gpu: String,
    /// Share of the hours of the history.
    pub share: f64,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MovesAnswer {
    /// Version of this form.
    pub schema: String,
    /// What the prices are of.
    pub title: String,
    /// Currency.
    pub currency: String,
    /// The first and the last quote.
    pub from: String,
    /// The last quote: the moment that is planned from.
    pub to: String,
    /// Where the later part begins.
    pub split: String,
    /// Offers, instance type by zone.
    pub offers: usize,
    /// Jobs, in the order in which they were named.
    pub jobs: Vec<PlacedJob>,
    /// Rules on earlier and later starts; nothing where no start of one of the parts counts.
    pub trial: Option<MoveTrial>,
    /// How often each place was the cheapest, job by job, the most often first.
    pub cheapest: Vec<CheapestPlace>,
    /// What was assumed.
    pub notes: Vec<String>,
    /// What to do, in a sentence.
    pub action: String,
    /// The recommendation, if moving saves enough.
    pub recommendation: Option<Recommendation>,
}

/// The JSON Schema of [`MovesAnswer`].
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(MovesAnswer).to_value()
}

impl MovesAnswer {
    /// Plans.
    ///
    /// # Errors
    /// If a job runs on nothing that has prices.
    pub fn of(history: &PriceHistory, table: &ScalingTable, title: String, request: &MovesRequest) -> Result<Self> {
        let MovesRequest { jobs, terms, trial: plan } = request;
        let priced: Vec<PricedJob> = jobs.iter().map(|job| history.job(job, table)).collect::<Result<_>>()?;
        let trial = trial(history, &priced, plan, terms);
        let rule = trial.as_ref().filter(|trial| trial.worth().is_some()).map_or(MoveRule::STAY, |trial| trial.chosen);
        let placed = jobs.iter().zip(&priced).map(|(job, priced)| placed(history, job, priced, &rule, terms)).collect();
        let cheapest = priced.iter().flat_map(|job| cheapest(history, job, terms)).collect();
        let mut answer = Self {
            schema: SCHEMA.to_owned(),
            title,
            currency: "USD".to_owned(),
            from: format_rfc3339(history.begins_ms),
            to: format_rfc3339(history.ends_ms),
            split: format_rfc3339(plan.split_ms),
            offers: history.offers.len(),
            jobs: placed,
            trial,
            cheapest,
            notes: notes(history, request),
            action: String::new(),
            recommendation: None,
        };
        answer.action = answer.act();
        answer.recommendation = answer.recommend().map(Recommendation::weighed);
        Ok(answer)
    }

    fn recommend(&self) -> Option<Recommendation> {
        let trial = self.trial.as_ref()?;
        let (chosen, bound) = (trial.worth()?, trial.score(None)?);
        let less = |share: f64| 100.0 * (share - 1.0);
        let longer = chosen.time_share.filter(|share| *share > 1.005);
        let harmed = longer.map(|share| Harm {
            who: "The jobs".to_owned(),
            how_much: format!("take {} longer on average, as cheaper places are slower", format::percent(share - 1.0)),
        });
        Some(Recommendation {
            plan: "moves".to_owned(),
            action: self.action.clone(),
            effects: vec![Effect {
                what: "Cost of a job".to_owned(),
                unit: "%".to_owned(),
                change: less(chosen.share.value),
                low: Some(less(chosen.share.low)),
                high: Some(less(chosen.share.high)),
                interval: "95 % over starts of the later part, which overlap in time".to_owned(),
            }],
            against: "each job where it costs least when it begins, to its end".to_owned(),
            basis: Basis::LaterDays,
            regret: Some(Regret {
                oracle: "a bound that knows all prices".to_owned(),
                oracle_change: less(bound.share.value),
                naive_change: Some(0.0),
                naive: Some("stay where it begins".to_owned()),
            }),
            harmed: harmed.into_iter().collect(),
            confidence: Confidence::Medium,
            risk: "Prices do not say whether an instance can be had: where it cannot, stay, and look again at the next check. The later part is one stretch of prices.".to_owned(),
            assumptions: self.notes.clone(),
            holds_until: format!("prices move otherwise than until {}", self.to),
            apply: "Begin each job at its place. At each check, compare the prices with moves.csv, write a checkpoint, and begin anew where the price is below the one given.".to_owned(),
            command: Some("tracecast plan moves THROUGHPUTS --history PRICES --jobs JOBS --emit-to moves".to_owned()),
            undo: "Nothing is committed to: stop moving.".to_owned(),
        })
    }
}

/// Where a job begins at the last prices, and what else there is.
fn placed(
    history: &PriceHistory,
    job: &RentedJob,
    priced: &PricedJob,
    rule: &MoveRule,
    terms: &MoveTerms,
) -> PlacedJob {
    let now_ms = history.ends_ms;
    let here = first(history, priced, now_ms, rule.first, terms);
    // What a job that has just started at the cheapest place would pay for the rest there.
    let stay = here.and_then(|here| rest(history, priced, here, now_ms, priced.steps, 0));
    let place = |at: usize| {
        let offer = history.offers.get(at)?;
        let (quoted_ms, usd_per_h) = offer.price.standing(now_ms)?;
        let (steps_per_s, gpus) = priced.speed.get(at).copied().flatten()?;
        let time_s = terms.start_ms as f64 / 1e3 + priced.steps / steps_per_s;
        let below = rule.moving.zip(stay).zip(here).filter(|(_, here)| at != *here).map(|((moving, stay), here)| {
            let most = (1.0 - moving.margin) * stay - egress(history, here, at, terms);
            (most / (time_s / 3600.0)).max(0.0)
        });
        (now_ms - quoted_ms <= terms.trusted_ms).then(|| Place {
            provider: offer.provider.clone(),
            zone: offer.zone.clone(),
            instance: offer.instance.clone(),
            gpu: offer.gpu.clone(),
            gpus,
            steps_per_s,
            usd_per_h,
            usd: time_s / 3600.0 * usd_per_h,
            time_s,
            move_below_usd_per_h: below,
        })
    };
    let mut others: Vec<Place> = (0..history.offers.len()).filter(|at| Some(*at) != here).filter_map(place).collect();
    others.sort_by(|a, b| a.usd.total_cmp(&b.usd));
    others.truncate(OTHERS);
    PlacedJob {
        job: job.name.clone(),
        job_type: job.job_type.clone(),
        steps: job.steps,
        place: here.and_then(place),
        others,
    }
}

/// How often each place was the cheapest, hour by hour.
fn cheapest(history: &PriceHistory, job: &PricedJob, terms: &MoveTerms) -> Vec<CheapestPlace> {
    let mut hours = vec![0u64; history.offers.len()];
    let mut all = 0u64;
    let mut at_ms = history.begins_ms;
    while at_ms <= history.ends_ms {
        if let Some(hours) = first(history, job, at_ms, FirstPlace::Now, terms).and_then(|offer| hours.get_mut(offer)) {
            *hours += 1;
            all += 1;
        }
        at_ms += GRID_MS;
    }
    let mut found: Vec<(u64, usize)> = hours.into_iter().zip(0..).filter(|(hours, _)| *hours > 0).collect();
    found.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    let told = found.into_iter().filter_map(|(hours, at)| {
        let offer = history.offers.get(at)?;
        Some(CheapestPlace {
            job: job.name.clone(),
            zone: offer.zone.clone(),
            instance: offer.instance.clone(),
            gpu: offer.gpu.clone(),
            share: hours as f64 / all as f64,
        })
    });
    told.collect()
}

/// What was assumed.
fn notes(history: &PriceHistory, request: &MovesRequest) -> Vec<String> {
    let terms = &request.terms;
    let mut notes = vec![
        format!(
            "A job needs {} from the order of an instance to its first step, at the beginning and after each move, and pays for it. Checkpoints are written before a move, so no step is made twice.",
            format::duration(terms.start_ms as f64 / 1e3)
        ),
        format!(
            "A move to another region or provider costs {} USD for what is carried over; one within a region costs nothing.",
            format::float(terms.egress_usd, 2)
        ),
        "**Instances are taken to be there whenever a price is quoted, and to be kept.** Interruptions make each place dearer and slower; where they come more often at one place than another, this plan does not see it. `plan cloud` follows availability.".to_owned(),
        format!(
            "A price holds until the next quote; nothing begins at one that is older than {}.",
            format::duration(terms.trusted_ms as f64 / 1e3)
        ),
        "A job uses the number of GPUs that is fastest of those that were measured and that an instance has.".to_owned(),
    ];
    if request.jobs.iter().any(|job| job.deadline_s.is_some()) {
        notes.push("Deadlines are left aside: `plan cloud` keeps them.".to_owned());
    }
    if !history.aside.is_empty() {
        notes.push(format!("No throughput is known on {}, so these are left aside.", history.aside.join(", ")));
    }
    if let Some(words) = history.audit.in_words() {
        notes.push(format!("Of the prices, {words}."));
    }
    notes
}
