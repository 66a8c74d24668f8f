//! `plan rent job`: where and how to run one job with a deadline, chosen on earlier windows,
//! reported on later ones, decided from the end of the data on.
//!
//! The spine of [every plan](crate::plan): the evidence is the availability of each zone named. The candidates are every zone with every policy. The windows
//! are as long as the time to the deadline and spread over the traces (module `moments`): over their first two thirds to *choose* on, over the last third
//! to *report* on. The criterion is the least mean cost on the windows of choice without a miss; [among several zones](crate::cloud::zones::choice) that names the policy, and the zone is chosen anew for each later window, and at the end of the data. What is
//! chosen is reported on the later windows beside all on-demand, greedy, Uniform Progress and the omniscient optimum. Then it is fitted on all data and
//! asked what to do from the last tick on: at once if spot is there, at once if not, and until when to wait for spot.
//!
//! Worked example: chosen on the first 30 of 45 days, 0.55 of all on-demand; on the last 15 it costs 0.58 (0.55 to 0.61), where the optimum costs 0.55.

mod advise;
pub mod candidate;
mod chosen;
pub mod expected;
pub mod now;
mod render;

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::report::format;
use tracecast_analytics::time::HOUR_MS;
use tracecast_analytics::watch::Watch;

use self::candidate::CloudCandidate;
use self::chosen::{Chosen, TriedZone, among_zones, as_one};
use self::expected::CloudExpected;
use self::now::{ElasticNow, from_now};
use super::answer::{Regions, ZoneProbes, moving, notes, taking};
use super::attempt::{Attempt, Told, attempt, on_windows};
use super::backtest::TOGETHER;
use super::checkpoint::CheckpointAdvice;
use super::job::FromNow;
use super::moments::{Moments, disjoint};
use super::policy::{CloudPolicy, Lessons};
use super::price_words::{guessed_in_words, is_guessed, prices_in_words};
use super::purchase::{CloudOnDemand, CloudPurchases};
use super::request::{CloudRequest, check_need};
use super::sensitivity::{CloudPriceTurn, CloudSensitivity, Tried};
use super::uncertain::UncertainWork;
use crate::cloud::zones::attempt_zones;
use crate::cloud::zones::choice::ZonesCompared;
use crate::cloud::zones::plan::{ZonesNow, zones_from_now};
use crate::error::{Error, Result};
use crate::market::availability::SpotSeries;
use crate::plan::answer::{Advice, Answer, Head, answer};
use crate::plan::forecast::{Driven, ForecastUsed, ForecastWords, Forecasting};
use crate::plan::verdict::Verdict;
use crate::plan::window::Window;

pub use render::report;

/// Version of the JSON.
pub const SCHEMA: &str = "plan-rent-job/3";

/// The test on later windows.
///
/// It is no [`Trial`](crate::plan::trial::Trial). A cost is the mean of what single windows cost,
/// each
/// as a share of all on-demand in its zone, and no quotient of sums of money. The interval is of
/// that
/// mean; the ends of one that is drawn of the saving would be other draws.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CloudTrial {
    /// The policy chosen on the earlier windows; it is followed if the verdict is that it is
    /// advised, and on-demand alone is if not.
    pub chosen: CloudPolicy,
    /// The trace, or `zone chosen anew`, whose candidates say what the plan came to on the later
    /// windows.
    pub judged: String,
    /// How many of the later windows do not overlap.
    pub later_disjoint: usize,
    /// Every zone with every policy, and what they came to on the windows of choice and on the
    /// later ones.
    pub candidates: Vec<CloudCandidate>,
    /// Policies that cost less than the chosen one on the later windows, where the plan is judged,
    /// the cheapest first; which of them would do so was not known when it was chosen.
    pub cheaper_later: Vec<CloudPolicy>,
    /// What if prices, changeover or work are not as said.
    pub sensitivity: Vec<CloudSensitivity>,
    /// From which price ratio on the advice is another; nothing where prices or the ratio are
    /// given.
    pub price_turn: Option<CloudPriceTurn>,
}

/// The answer of `plan rent job`.
pub type CloudPlanAnswer = Answer<CloudTrial, CloudBody>;

/// Part of the answer that only this plan has.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CloudBody {
    /// Work, seconds; the top of it where it is uncertain.
    pub work_s: f64,
    /// Time to the deadline, seconds.
    pub deadline_s: f64,
    /// Time to take another instance, seconds.
    pub changeover_s: f64,
    /// Price of on-demand over that of spot.
    pub price_ratio: f64,
    /// Instances needed at once, or at most where the job is elastic.
    pub need: u32,
    /// Whether the job runs on whatever number of instances there is, up to so many.
    pub elastic: bool,
    /// The trace chosen.
    pub trace: String,
    /// Expected cost of a job that begins at the end of the data; nothing over several zones as one
    /// job, or where the programme finds no way.
    pub expected_now: Option<CloudExpected>,
    /// How the zones compare, and how sure the choice among them is; nothing where there is one, or they are of one job, or of other times.
    pub compared: Option<ZonesCompared>,
    /// Zone, if known.
    pub zone: Option<String>,
    /// Instance type, if known.
    pub instance: Option<String>,
    /// Whether the traces are zones of one job.
    pub regions: Regions,
    /// When zones of one job are probed; nothing where they are seen at every tick.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probes: Option<ZoneProbes>,
    /// What to do over several zones, where they are those of one job.
    pub zones: Option<ZonesNow>,
    /// What to do from the end of the data on.
    pub now: FromNow,
    /// Nodes of each kind to hold, where the job is elastic.
    pub nodes: Option<ElasticNow>,
    /// What it is worth to plan on the distribution of the work, on the windows to report on; nothing where the work is known.
    pub uncertain: Option<UncertainWork>,
    /// How often to write a checkpoint on spot; nothing where it was not asked what one costs.
    pub checkpoint: Option<CheckpointAdvice>,
    /// Purchases, if the plan is followed.
    pub purchases: Option<CloudPurchases>,
    /// The job on-demand from beginning to end.
    pub all_on_demand: CloudOnDemand,
    /// Prices in use, in words.
    pub prices: String,
}

/// The JSON Schema of [`CloudPlanAnswer`].
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(CloudPlanAnswer).to_value()
}

/// How much earlier some records end than others of the same beginning, in a sentence; nothing where all end together.
fn ends_apart(series: &[SpotSeries]) -> Option<String> {
    // Where one does not say when it begins, all are taken to begin together.
    let dated = series.iter().all(|zone| zone.begins_ms.is_some());
    let end = |zone: &SpotSeries| zone.begins_ms.filter(|_| dated).unwrap_or(0) + zone.span_ms();
    let last = series.iter().map(end).max()?;
    let early: Vec<String> = series
        .iter()
        .filter(|zone| last - end(zone) > HOUR_MS)
        .map(|zone| format!("{} {}", zone.name, format::duration((last - end(zone)) as f64 / 1e3)))
        .collect();
    (!early.is_empty()).then(|| {
        format!(
            "Records end earlier than that of the zone seen last: {}. The end of each is taken for now.",
            format::names(&early, 8)
        )
    })
}

/// Plans the first of the request's deadlines. `watch` is told of each window on which policies
/// were tried.
///
/// # Errors
/// If what is asked makes no sense, a trace is too short, or an optimum cannot be computed.
pub fn plan(
    series: &[SpotSeries],
    title: String,
    request: &CloudRequest,
    watch: &dyn Watch,
) -> Result<CloudPlanAnswer> {
    let jobs = request.jobs()?;
    check_need(series, request.need)?;
    let jobs = jobs.get(..1).unwrap_or(&jobs);
    let Some(job) = jobs.first() else { return Err(Error::no_scenario("no trace is named; name at least one")) };
    let market = request.market(series)?;
    let tried_on = request.tried_on(series);
    let moments = match market {
        Some(_) => Moments::of(&tried_on.iter().copied().cloned().collect::<Vec<_>>(), jobs, request.starts)?,
        None => Moments::of(series, jobs, request.starts)?,
    };
    let told = Told::of(request.uncertain.as_ref());
    let mut all: Vec<TriedZone<'_>> = Vec::with_capacity(tried_on.len());
    for (zone, [choose_on, report_on]) in tried_on.iter().copied().zip(&moments.zones) {
        let lessons = Lessons::new(zone.supply(request.need, request.elastic), zone.tick_ms);
        let tried = |windows: &[Window]| {
            on_windows(windows, watch, |window| match &market {
                Some(market) => attempt_zones(market, window.ahead.start, jobs, request.uncertain.as_ref()),
                None => attempt(&CloudPolicy::ALL, &lessons, zone.price.as_ref(), window, jobs, told),
            })
        };
        let attempts = [tried(choose_on)?, tried(report_on)?];
        let name = if market.is_some() { TOGETHER.to_owned() } else { zone.name.clone() };
        all.push(TriedZone { name, zone, lessons, attempts });
    }
    let compares = market.is_none() && all.len() > 1 && moments.apart.is_none();
    let Chosen { best, runs, later, place, candidates, compared } =
        if compares { among_zones(&all, (series, &moments), (request, job), watch)? } else { as_one(&all, request)? };
    let lost = || Error::defect("the chosen zone is none of those named".to_owned());
    let in_zone = all.get(place).ok_or_else(lost)?;
    // What the policy of the plan came to in that zone.
    let there = candidates.iter().find(|of| of.trace == in_zone.name && of.policy == best.policy).ok_or_else(lost)?;
    let verdict = advise::judge(&best);
    let follows = verdict == Verdict::Advised;
    // What the later windows do not show to be worth it is not followed.
    let followed = if follows { best.policy } else { CloudPolicy::OnDemand };
    let (now, zones, nodes) = match &market {
        Some(market) => {
            let (now, zones) = zones_from_now(market, followed, job);
            (now, Some(zones), None)
        }
        None => {
            let of = (request.need, request.elastic);
            let job = (job, request.uncertain.as_ref());
            let (now, nodes) = from_now(in_zone.zone, followed, of, job);
            (now, None, nodes)
        }
    };
    let of_one = market.is_none().then_some(in_zone.zone);
    let windows = moments.zones.get(place).cloned().ok_or_else(lost)?;
    let [chosen_on, reported_on] = windows.clone();
    let expected_now = match market {
        Some(_) => None,
        None => CloudExpected::new(&all, (place, &later, &moments.zones), (best.policy, job), request),
    };
    let tried = Tried {
        series,
        zone: of_one.map(|zone| (zone, &in_zone.lessons)),
        request,
        job: *job,
        policy: best.policy,
        windows,
        watch,
    };
    let uncertain = if market.is_some() {
        let attempts: Vec<&[Attempt]> = in_zone.attempts[1].iter().map(std::slice::from_ref).collect();
        UncertainWork::over_zones(&attempts, jobs, request, best.policy)
    } else {
        let on: Vec<_> = reported_on.iter().map(|at| (in_zone.zone, &in_zone.lessons, at)).collect();
        UncertainWork::of(&on, jobs, request, best.policy)?
    };
    let as_said = CloudSensitivity::as_said(there.report_cost_ratio.value, there.report_misses, best.policy);
    let sensitivity = tried.cases(as_said)?;
    let price_turn = tried.turn(follows)?;
    let zone = match &zones {
        Some(zones) => {
            let named = zones.order.first().or(Some(&zones.on_demand_zone));
            series.iter().find(|of| of.zone.as_ref() == named || Some(&of.name) == named)
        }
        None => Some(in_zone.zone),
    };
    let without_overlap = disjoint(&chosen_on) + disjoint(&reported_on);
    let purchases =
        follows.then(|| CloudPurchases::new((&runs, without_overlap), (series, of_one), request, zones.as_ref()));
    let all_on_demand = CloudOnDemand::new((series, of_one), request, zones.as_ref());
    let checkpoint = request.checkpoint_s.map(|checkpoint_s| {
        let is_in = |zone: &&SpotSeries| match &zones {
            Some(zones) => zones.order.is_empty() || zones.order.contains(zone.zone.as_ref().unwrap_or(&zone.name)),
            None => zone.name == in_zone.name,
        };
        CheckpointAdvice::new(series.iter().filter(is_in), (request.need, request.elastic), checkpoint_s)
    });
    let used: Vec<&SpotSeries> = of_one.map_or_else(|| series.iter().collect(), |zone| vec![zone]);
    let mut notes = notes(series, request);
    if let Some(together) = &request.together {
        notes.extend(moving(series, request, together)?);
    }
    notes.extend(request.elastic.then(|| taking(request.need)));
    notes.extend(request.uncertain.as_ref().map(|work| work.promise(request.planned())));
    notes.extend(moments.apart.as_ref().map(|why| {
        format!("The zones are judged on different days, so that their costs are hard to compare: {why}. Name traces of one time.")
    }));
    notes.extend(ends_apart(series).filter(|_| compares));
    let trial = CloudTrial {
        chosen: best.policy,
        judged: best.trace.clone(),
        later_disjoint: disjoint(&reported_on),
        cheaper_later: cheaper_later(&candidates, &best),
        candidates,
        sensitivity,
        price_turn,
    };
    let body = CloudBody {
        work_s: job.work_ms as f64 / 1e3,
        deadline_s: job.deadline_ms as f64 / 1e3,
        changeover_s: job.changeover_ms as f64 / 1e3,
        price_ratio: job.price_ratio,
        need: request.need,
        elastic: request.elastic,
        trace: in_zone.name.clone(),
        expected_now,
        compared,
        zone: zone.and_then(|of| of.zone.clone()),
        instance: zone.and_then(|of| of.instance.clone()),
        regions: Regions::new(request),
        probes: ZoneProbes::new(request),
        zones,
        now,
        nodes,
        uncertain,
        checkpoint,
        purchases,
        all_on_demand,
        prices: prices_in_words(&used, request),
    };
    let turn = trial.price_turn.map(|turn| turn.in_words(trial.alone(&body)));
    let guessed = guessed_in_words(&series.iter().collect::<Vec<_>>(), request);
    let cautions: Vec<String> = turn.into_iter().chain(guessed).collect();
    let sure = advise::sure((&trial, &body, &best), verdict, &cautions, is_guessed(&used, request));
    let action = advise::act(&trial, &body, verdict);
    let advice = Advice::sure(verdict, sure, |sure| advise::change((&trial, &body, &best), sure, request));
    let sources = series.iter().flat_map(|zone| zone.sources.clone()).collect();
    let forecasting = forecasting(&in_zone.attempts[1], followed, request.naive);
    let head = Head { schema: SCHEMA, title, cautions, notes, forecasting, sources };
    Ok(answer(head, trial, body, (verdict, action), advice))
}

/// What the forecast of spot availability is worth on the later windows: Uniform Progress goes by
/// the clock alone, and the omniscient optimum knows all availability.
fn forecasting(later: &[Attempt], followed: CloudPolicy, naive: bool) -> Forecasting {
    let model = match followed {
        CloudPolicy::Markov | CloudPolicy::SkyNomad => followed,
        _ => CloudPolicy::SemiMarkov,
    };
    let driven = |attempt: &Attempt| Driven {
        naive: attempt.share(CloudPolicy::UniformProgress),
        model: Some(attempt.share(model)),
        truth: attempt.share(CloudPolicy::Omniscient),
    };
    let used = match followed {
        CloudPolicy::SemiMarkov | CloudPolicy::Markov | CloudPolicy::SkyNomad => ForecastUsed::Model,
        CloudPolicy::UniformProgress | CloudPolicy::TimeSliced | CloudPolicy::Greedy => ForecastUsed::Naive,
        CloudPolicy::OnDemand | CloudPolicy::Omniscient => ForecastUsed::None,
    };
    let words = ForecastWords {
        forecast: "spot availability",
        naive: "Uniform Progress, which forecasts nothing",
        model: &format!("the {}", model.in_words()),
        metric: "mean cost of the later windows",
        unit: "of all on-demand",
    };
    let why = match used {
        ForecastUsed::Model => None,
        _ if naive => Some("no policy that forecasts was to be chosen".to_owned()),
        ForecastUsed::Naive => Some("a policy without a forecast was the cheapest on the earlier windows".to_owned()),
        ForecastUsed::None => Some("all on demand is advised".to_owned()),
    };
    let driven: Vec<Driven> = later.iter().map(driven).collect();
    Forecasting::new(&words, &driven, driven.len() as f64, used, why)
}

/// Policies that cost less than `best` on the later windows, where it is judged, the cheapest
/// first.
fn cheaper_later(candidates: &[CloudCandidate], best: &CloudCandidate) -> Vec<CloudPolicy> {
    let beside = candidates.iter().filter(|of| of.trace == best.trace && of.causal && of.report_misses == 0);
    let cost = |of: &CloudCandidate| of.report_cost_ratio.value;
    let shows = |of: &CloudCandidate| format::percent(cost(of));
    // What a report shows as the same is no cheaper.
    let is_cheaper = |of: &&CloudCandidate| cost(of) < cost(best) && shows(of) != shows(best);
    let mut result: Vec<&CloudCandidate> = beside.filter(is_cheaper).collect();
    result.sort_by(|a, b| cost(a).total_cmp(&cost(b)));
    result.into_iter().map(|of| of.policy).collect()
}

impl CloudTrial {
    /// The candidate with a policy, where the plan is judged.
    fn beside(&self, policy: CloudPolicy) -> Option<&CloudCandidate> {
        self.candidates.iter().find(|candidate| candidate.trace == self.judged && candidate.policy == policy)
    }

    /// The zone of the plan, where it was chosen among several: other cases are judged on its
    /// windows alone.
    fn alone<'a>(&self, body: &'a CloudBody) -> Option<&'a str> {
        let others = body.zones.is_none() && self.candidates.iter().any(|of| of.trace != body.trace);
        others.then_some(body.trace.as_str())
    }

    /// How many of the later windows overlap, as a clause.
    fn overlap_in_words(&self) -> String {
        match self.beside(self.chosen).map_or(0, |of| of.report_windows) {
            windows if windows <= self.later_disjoint => "which do not overlap".to_owned(),
            _ if self.later_disjoint == 1 => "which all overlap".to_owned(),
            _ => format!("of which {} do not overlap", self.later_disjoint),
        }
    }
}

impl CloudBody {
    /// The work, in words: the most of it where it is uncertain.
    fn work_in_words(&self) -> String {
        let up_to = if self.uncertain.is_some() { "up to " } else { "" };
        format!("{up_to}{}", format::duration(self.work_s))
    }

    /// What to begin with, in words.
    pub fn begin_with(&self) -> String {
        let Some(nodes) = &self.nodes else { return self.now.begin_with() };
        let ends = [nodes.by_had.last(), nodes.by_had.first()].into_iter().flatten();
        let said: Vec<String> = ends.map(|of| format!("{} if {} can be had", of.in_words(), of.had)).collect();
        said.join(", ")
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
