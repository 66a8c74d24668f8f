//! The answer of `plan serving`.
//!
//! The later half says whether the setting chosen on the earlier half is worth having; what to set from now on is then chosen anew on the whole log. Costs are hours of
//! replicas, and money where an offers file says what they cost.
//!
//! O(1) beside the replays. Worked example: a forecast that paid for 4.1 hours of replicas where the reactive rule paid for 5.0 saves 18 %.

mod advise;
mod forward;
mod looser;
mod render;
mod spot;
mod tested;
mod windows;

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::quality::Ledger;
use tracecast_analytics::report::format;
use tracecast_analytics::time::Zone;

pub use self::looser::ServingLooser;
pub use self::render::report;
use self::tested::curves;
use self::windows::ServingWindowRow;
use super::choose::{ReplicaPrice, ServedStandard, ServingCase, ServingScore, SpotSupply};
use super::heldout::{ServingChoice, ServingPolicy, ServingSplit, ServingTest, choose, test};
use super::requests::{LoggedRequest, RequestLog};
use super::rule::{ServingLoad, ServingRule, SpotHedge};
use super::service::ReplicaService;
use super::target::ServingTarget;
use crate::error::{Error, Result};
use crate::market::availability::SpotSeries;
use crate::market::offers::Offers;
use crate::plan::answer::{Advice, Answer, Head, answer};
use crate::plan::interval::ratio;
use crate::plan::trial::{NoMore, Trial};
use crate::plan::verdict::{Verdict, is_simpler_next};
use crate::replay::compare::IntervalEstimate;

/// Version of the answer; a change that breaks its readers raises it.
pub const SCHEMA: &str = "plan-serving/2";

/// Request for a serving plan.
#[derive(Debug, Clone, PartialEq)]
pub struct ServingRequest {
    /// The promised service.
    pub target: ServingTarget,
    /// Time between decisions, milliseconds.
    pub slot_ms: i64,
    /// Where the earlier part ends, milliseconds; the middle, if `None`.
    pub eval_from_ms: Option<i64>,
    /// Service that a setting must give.
    pub standard: ServedStandard,
    /// Leave out rules by a forecast of the load.
    pub naive: bool,
    /// Windows of the later half before each of which everything is chosen anew; none by default.
    pub splits: u32,
    /// Zone in which times are told.
    pub zone: String,
}

/// Definition and price of a replica.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct ServingReplica {
    /// Name of the replica.
    pub name: String,
    /// GPUs of one.
    pub gpus: u32,
    /// Time from the decision until it serves, seconds.
    pub start_s: f64,
    /// Instance of the offers file that it runs on.
    pub offer: Option<String>,
    /// GPU type of that.
    pub gpu: Option<String>,
    /// Currency of prices; none without an offers file.
    pub currency: Option<String>,
    /// An hour of a replica on demand, as its share of the instance's GPUs.
    pub on_demand_per_h: Option<f64>,
    /// An hour of a replica on spot.
    pub spot_per_h: Option<f64>,
    /// Commitments: months, and an hour of a replica; told as terms.
    #[serde(skip)]
    #[schemars(skip)]
    pub reserved: Vec<(f64, f64)>,
}

impl ServingReplica {
    /// With the prices of an offers file, if there is one.
    ///
    /// # Errors
    /// If the table names no instance of that file.
    pub fn new(service: &ReplicaService, table: &str, offers: Option<&Offers>) -> Result<Self> {
        let mut replica = Self {
            name: service.name.clone(),
            gpus: service.gpus,
            start_s: service.start_us as f64 / 1e6,
            offer: service.offer.clone(),
            ..Self::default()
        };
        let Some(offers) = offers else { return Ok(replica) };
        let wrong = |what: String| Error::file(table.to_owned(), 1, what);
        let known = || offers.instances.iter().map(|offer| offer.name.as_str()).collect::<Vec<_>>().join(", ");
        let name = service.offer.as_deref().ok_or_else(|| {
            wrong(format!(
                "there is no `offer`, so prices say nothing of a replica; write which of {} it runs on",
                known()
            ))
        })?;
        let offer = offers.instances.iter().find(|offer| offer.name == name).ok_or_else(|| {
            wrong(format!("offer is `{name}`, and {} has no such instance; there are {}", offers.file, known()))
        })?;
        let share = f64::from(service.gpus) / f64::from(offer.gpus.max(1));
        let on_demand = offer.on_demand.ok_or_else(|| {
            wrong(format!("{name} has no on_demand price in {}; write one, or name another instance", offers.file))
        })?;
        replica.gpu = Some(offer.gpu.clone());
        replica.currency = Some(offers.currency.clone());
        replica.on_demand_per_h = Some(on_demand * share);
        replica.spot_per_h = offer.spot.as_ref().map(|spot| spot.price * share);
        replica.reserved = offer.reserved.iter().map(|offer| (offer.months, offer.price * share)).collect();
        Ok(replica)
    }

    /// Cost of a second: an hour of a replica is 1 where no price is known, and spot counts as on
    /// demand where it cannot be had.
    fn price(&self, on_spot: bool) -> ReplicaPrice {
        let on_demand = self.on_demand_per_h.unwrap_or(1.0) / 3600.0;
        ReplicaPrice { on_demand, spot: self.spot_per_h.filter(|_| on_spot).map_or(on_demand, |price| price / 3600.0) }
    }
}

/// Figures of the log.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct ServingLogFigures {
    /// Requests that are served.
    pub requests: u64,
    /// Beginning of the log.
    pub from: String,
    /// End of the log.
    pub to: String,
    /// Hours of it.
    pub hours: f64,
    /// Requests in a second.
    pub requests_per_s: f64,
    /// Mean input, tokens.
    pub mean_input: f64,
    /// Mean output, tokens.
    pub mean_output: f64,
    /// Load of the whole log, in replicas at full use.
    pub mean_load: f64,
    /// Most of a slot.
    pub most_load: f64,
    /// Requests left out, as they fit into the memory of no replica.
    pub too_large: u64,
    /// Share of the earlier requests that are late even on a replica that has nothing else to do.
    pub late_alone_share: f64,
    /// The least time to the first token that could be promised on such replicas: with it, as many of the earlier requests are in time as a setting has to serve, seconds.
    pub least_ttft_s: f64,
    /// Time between two tokens of such a replica, seconds.
    pub least_tpot_s: f64,
}

/// Figures of a policy over the later half, beside its cost there.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ServingFigures {
    /// Setting of the rule; none for a schedule.
    pub rule: Option<ServingRule>,
    /// Spot beside it.
    pub hedge: Option<SpotHedge>,
    /// The setting in words.
    pub setting: String,
    /// How many settings were tried.
    pub tried: u64,
    /// Whether it kept the target with its reserve where it was chosen; none of what was not chosen there.
    pub kept_when_chosen: Option<bool>,
    /// Whether it was late there with no more requests than the reactive rule, also with more requests, and cost less. Where it is not held against that rule (it is that rule, a
    /// row for comparison, that rule kept no target, or `--standard target`), whether it kept the target.
    pub as_good_as_reactive: Option<bool>,
    /// Score where it was chosen.
    pub earlier: Option<ServingScore>,
    /// Score on the later half.
    pub later: ServingScore,
}

/// The test on the later half, which is its one window. The limit that rules keep is the target, the simplest rule is a constant number, and the oracle is the cheapest that was found to keep the
/// target, with hindsight or without.
pub type ServingTrial = Trial<ServingPolicy, ServingFigures, NoMore>;

/// What the chosen policy did beside a reactive rule.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ServingReferenceRow {
    /// Policy of the rule.
    pub by: ServingPolicy,
    /// Whether that kept the target with its reserve where it was chosen.
    pub kept_when_chosen: bool,
    /// What the chosen policy saved of its cost on the later half, a share.
    pub saving: IntervalEstimate,
    /// Share of the later requests that the chosen policy served in time beyond it.
    pub more_in_time: IntervalEstimate,
}

/// Settings from now on.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ServingAhead {
    /// The policy.
    pub by: ServingPolicy,
    /// Setting, chosen on the whole log.
    pub rule: ServingRule,
    /// Spot beside it.
    pub hedge: Option<SpotHedge>,
    /// The setting in words.
    pub setting: String,
    /// Constant numbers of replicas that were tried on the whole log, where it is one of them: the fewest and the most.
    pub constants_tried: Option<[u32; 2]>,
    /// Whether it keeps the target with its reserve on the whole log.
    pub kept: bool,
    /// How loads are counted.
    pub load: ServingLoad,
    /// Mean load of the last ten minutes, or of the log where it is shorter, in replicas at full use.
    pub load_now: f64,
    /// Replicas that it asks for at the end of the log.
    pub replicas_now: u32,
    /// Fewest that it asked for on the log.
    pub least: u32,
    /// Most that it asked for on the log.
    pub most: u32,
    /// Most that should be allowed: half as many again.
    pub limit: u32,
    /// Mean of what it asked for on the log, without those that are more on spot.
    pub mean_replicas: f64,
    /// Requests in a second, of those that it was chosen on.
    pub requests_per_s: f64,
    /// Cost of an hour on the log.
    pub cost_per_h: f64,
    /// Share of the requests in time on the log, on which it was chosen.
    pub attained: f64,
}

/// On which terms replicas are had.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ServingTerms {
    /// Months of the commitment; none by the hour.
    pub months: Option<f64>,
    /// An hour of a replica.
    pub price_per_h: f64,
    /// Share of the time from which on it costs less than on demand; 1 of on-demand itself.
    pub break_even: f64,
    /// Replicas that were wanted for at least that share of the log.
    pub replicas: u32,
}

/// What if things were otherwise.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ServingSensitivity {
    /// Difference in words.
    pub what: String,
    /// Share of the later requests in time, with the setting as it was chosen.
    pub attained: f64,
    /// Whether the target is kept.
    pub keeps: bool,
    /// Cost.
    pub cost: f64,
    /// Share in time of what it is told against, as that was chosen.
    pub against_attained: f64,
    /// Cost of what it is compared with.
    pub against_cost: f64,
}

/// The answer.
pub type ServingAnswer = Answer<ServingTrial, ServingBody>;

/// Part of the answer that only this plan has.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ServingBody {
    /// Definition and price of a replica.
    pub replica: ServingReplica,
    /// The table of the service.
    pub table: String,
    /// The promised service.
    pub target: ServingTarget,
    /// Service that a setting had to give to be taken.
    pub standard: ServedStandard,
    /// Time between decisions, seconds.
    pub slot_s: f64,
    /// Figures of the log.
    pub log: ServingLogFigures,
    /// Constant numbers of replicas that were tried on the earlier half, where one of them was chosen: the fewest and the most.
    pub constants_tried: Option<[u32; 2]>,
    /// The chosen policy beside each reactive rule that is not it.
    pub beside: Vec<ServingReferenceRow>,
    /// Everything chosen anew before each window of the later half; nothing unless asked for.
    pub splits: Vec<ServingWindowRow>,
    /// Least that any schedule costs which keeps the target: a bound, which may not be reachable.
    pub bound_cost: f64,
    /// Least hours of replicas of any schedule that keeps the target.
    pub bound_h: f64,
    /// Settings from now on.
    pub ahead: ServingAhead,
    /// On which terms.
    pub terms: Vec<ServingTerms>,
    /// What if things were otherwise.
    pub sensitivity: Vec<ServingSensitivity>,
    /// Where nothing keeps the target: a looser one that is planned for.
    pub looser: Option<ServingLooser>,
    /// Ledger of the rows that were read or skipped.
    pub quality: Ledger,
    /// Replicas and loads of the later half, for the chart: hours since the beginning of the log.
    #[serde(skip)]
    #[schemars(skip)]
    pub(super) curves: Vec<(String, Vec<(f64, f64)>)>,
}

/// The JSON Schema of [`ServingAnswer`].
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(ServingAnswer).to_value()
}

/// Moments as they are told, of a log without dates since its beginning; and the unit of costs.
struct Moments<'a> {
    zone: Zone,
    dated: bool,
    from_us: i64,
    unit: &'a str,
}

impl Moments<'_> {
    fn moment(&self, at_us: i64) -> String {
        if self.dated {
            self.zone.rfc3339(at_us.div_euclid(1000))
        } else {
            format!("{} after the beginning", format::duration((at_us - self.from_us) as f64 / 1e6))
        }
    }
}

/// Plans the replicas for a log. `table` is the file of the service; `spot` is a trace of availability, if one is given. Where scaling fails on the later half, or what it adds to a constant number may
/// be chance, that number is planned instead if it is advised.
///
/// # Errors
/// If the log is too short to choose on and to report on, or no request fits into a replica.
pub fn plan(
    log: &RequestLog,
    title: String,
    (service, table): (&ReplicaService, &str),
    replica: ServingReplica,
    spot: Option<&SpotSeries>,
    request: &ServingRequest,
) -> Result<ServingAnswer> {
    let requests: Vec<LoggedRequest> =
        log.requests.iter().filter(|request| request.tokens() <= service.kv_tokens).copied().collect();
    let too_large = (log.requests.len() - requests.len()) as u64;
    let Some(first) = requests.first() else {
        return Err(Error::no_jobs(format!(
            "no request fits into the {} tokens of a replica (kv_tokens of {table}); check the table",
            service.kv_tokens
        )));
    };
    let from_us = first.at_us;
    let last_us = requests.last().map_or(from_us, |last| last.at_us);
    spot.map_or(Ok(()), |series| spot::covers(series, last_us - from_us))?;
    let on_spot = spot.map(|series| spot::supply(series, from_us));
    let case = ServingCase {
        service,
        target: request.target,
        requests: &requests,
        from_us,
        slot_us: request.slot_ms.max(1) * 1000,
        price: replica.price(spot.is_some()),
        spot: on_spot.as_ref().map(|supply| supply as &SpotSupply<'_>),
        standard: request.standard,
        naive: request.naive,
    };
    let unit = replica.currency.as_deref().unwrap_or("replica-hours");
    let told = Moments { zone: Zone::named(&request.zone)?, dated: log.dated, from_us, unit };
    let split = ServingSplit::new(&case, request.eval_from_ms.map(|ms| ms * 1000))?;
    let Planned { tested, trial, beside, ahead, wanted, verdict, scaling_failed } = planned(&case, &split, &told)?;
    let figures = figures(&case, &tested, &split, &told, too_large);
    let looser = match (verdict, trial.of.plan.figures.kept_when_chosen) {
        (Verdict::NothingKeeps, kept) if kept != Some(true) => looser::looser(&case, &split, &told, &figures)?,
        _ => None,
    };
    let mut notes = notes(log, &case, too_large, spot, (&replica, ahead.hedge));
    notes.extend(scaling_failed);
    let forecasting = tested::forecasting(&tested, &split, unit, request.naive);
    let head = Head { schema: SCHEMA, title, cautions: Vec::new(), notes, forecasting, sources: log.sources.clone() };
    let body = ServingBody {
        table: table.to_owned(),
        target: request.target,
        standard: request.standard,
        slot_s: request.slot_ms as f64 / 1e3,
        log: figures,
        constants_tried: tested.constants_tried,
        beside,
        splits: windows::windows(&case, &split, &told, request.splits)?,
        bound_cost: tested.bound_h * 3600.0 * case.price.on_demand.min(case.price.spot),
        bound_h: tested.bound_h,
        terms: forward::terms(&replica, ahead.hedge, &wanted),
        sensitivity: forward::sensitivity(&case, &tested, &split, trial.roles.baseline),
        ahead,
        replica,
        looser,
        quality: log.ledger.clone(),
        curves: curves(&tested, &split, from_us),
    };
    let action = advise::act(&trial, &body, verdict);
    let advice = Advice::new(&trial, verdict, || advise::change(&trial, &body));
    Ok(answer(head, trial, body, (verdict, action), advice))
}

/// What is chosen, tested and said to be worth it or not, for one target.
struct Planned {
    tested: ServingTest,
    trial: ServingTrial,
    beside: Vec<ServingReferenceRow>,
    ahead: ServingAhead,
    /// Replicas that it wanted on the whole log, slot by slot.
    wanted: Vec<u32>,
    verdict: Verdict,
    /// Why a constant number is planned where scaling was tested first.
    scaling_failed: Option<String>,
}

impl Planned {
    fn of(case: &ServingCase<'_>, split: &ServingSplit, told: &Moments<'_>, choice: &ServingChoice) -> Result<Self> {
        let tested = test(case, split, choice);
        let (trial, beside) = tested::trial(case, &tested, split, told)?;
        let (ahead, wanted) = forward::ahead(case, &tested, split)?;
        let verdict = advise::judge(&trial, &beside, ahead.kept);
        Ok(Self { tested, trial, beside, ahead, wanted, verdict, scaling_failed: None })
    }
}

fn planned(case: &ServingCase<'_>, split: &ServingSplit, told: &Moments<'_>) -> Result<Planned> {
    let choice = choose(case, split.earlier(), None);
    let first = Planned::of(case, split, told, &choice)?;
    if is_simpler_next(&first.trial, &advise::judged(&first.trial), first.verdict) {
        let constant = ServingChoice { best: ServingPolicy::Constant, ..choice };
        let constant = Planned::of(case, split, told, &constant)?;
        if constant.verdict == Verdict::Advised {
            let why = advise::scaling_failed(&first.trial, case.target, first.verdict);
            return Ok(Planned { scaling_failed: Some(why), ..constant });
        }
    }
    Ok(first)
}

fn figures(
    case: &ServingCase<'_>,
    tested: &ServingTest,
    split: &ServingSplit,
    told: &Moments<'_>,
    too_large: u64,
) -> ServingLogFigures {
    let count = case.requests.len().max(1) as f64;
    let span_s = (split.end_us - case.from_us) as f64 / 1e6;
    let sum =
        |of: &dyn Fn(&LoggedRequest) -> u32| case.requests.iter().map(|request| f64::from(of(request))).sum::<f64>();
    let loads = case.loads(&tested.load, split.end_us);
    let (earlier, late) = case.late_alone(case.target, split.earlier());
    ServingLogFigures {
        requests: case.requests.len() as u64,
        from: told.moment(case.from_us),
        to: told.moment(split.end_us),
        hours: span_s / 3600.0,
        requests_per_s: count / span_s.max(1e-9),
        mean_input: sum(&|request| request.input) / count,
        mean_output: sum(&|request| request.output) / count,
        mean_load: loads.iter().sum::<f64>() / loads.len().max(1) as f64,
        most_load: loads.iter().copied().fold(0.0, f64::max),
        too_large,
        late_alone_share: ratio(late as f64, earlier as f64),
        least_ttft_s: case.least_ttft_s(case.target.with_reserve().share, split.earlier()),
        least_tpot_s: case.service.step_us(1) as f64 / 1e6,
    }
}

/// Assumptions, in words.
fn notes(
    log: &RequestLog,
    case: &ServingCase<'_>,
    too_large: u64,
    spot: Option<&SpotSeries>,
    (replica, hedge): (&ServingReplica, Option<SpotHedge>),
) -> Vec<String> {
    let counted = |count: u64| format::counted(count, "request", "requests");
    let mut notes = vec![
        "What a replica does is what its table says; nothing of it was measured here. A prefill goes before the next decode step, and a request is taken in once all its tokens fit into memory."
            .to_owned(),
        format!(
            "A rule decides every {}, and sees what arrived until then, not how long an output will be. A replica is paid for from the decision to start it until it has served its last request.",
            format::duration(case.slot_us as f64 / 1e6)
        ),
        "A request goes to the replica with the fewest requests; what nobody has begun is dealt out anew when a replica becomes ready.".to_owned(),
    ];
    if log.sorted > 0 {
        notes.push(format!("{} stood out of order and were sorted by their times.", counted(log.sorted)));
    }
    if log.others > 0 {
        notes.push(format!("{} of other models were left out.", counted(log.others)));
    } else if log.models.len() > 1 {
        notes.push(format!(
            "The log names {} models, which are planned as if one replica served them all; --model-name plans one.",
            log.models.len()
        ));
    }
    if too_large > 0 {
        notes.push(format!(
            "{} with more tokens than fit into a replica ({}) were left out.",
            counted(too_large),
            format::count(case.service.kv_tokens)
        ));
    }
    match spot {
        Some(spot) => notes.push(format!(
            "Spot replicas are there as {} says, from its beginning on with that of the log; what is taken away is begun anew elsewhere.",
            spot.name
        )),
        None => notes.push("No trace of spot is given (--spot), so spot is left out.".to_owned()),
    }
    if replica.on_demand_per_h.is_some() {
        notes.push(
            "A replica costs its share of the GPUs of its instance: several replicas fill one instance without gaps."
                .to_owned(),
        );
        if hedge.is_some() {
            notes.push(
                "The setting is on spot, and a commitment is told against the price on demand, so no terms are given."
                    .to_owned(),
            );
        }
    }
    notes
}
