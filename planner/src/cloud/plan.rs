//! `plan cloud`: where and how to run one job with a deadline, chosen on earlier windows, reported on later ones, decided from the end of the data on.
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
use tracecast_analytics::trace::SourceRecord;
use tracecast_analytics::watch::Watch;

use self::candidate::CloudCandidate;
use self::chosen::{Chosen, TriedZone, among_zones, as_one};
use self::expected::CloudExpected;
use self::now::{ElasticNow, from_now};
use super::answer::{Regions, ZoneProbes, moving, notes, taking};
use super::attempt::{Attempt, Told, attempt, on_windows};
use super::backtest::TOGETHER;
use super::checkpoint::CheckpointAdvice;
use super::job::{FromNow, Holding};
use super::moments::{Moments, disjoint};
use super::policy::{CloudPolicy, Lessons};
use super::price_words::{guessed_in_words, is_guessed, prices_in_words};
use super::purchase::{CloudOnDemand, CloudPurchases};
use super::request::{CloudRequest, check_need};
use super::sensitivity::{CloudPriceTurn, CloudSensitivity, Tried};
use super::uncertain::UncertainWork;
use crate::cloud::zones::attempt_zones;
use crate::cloud::zones::choice::ZonesCompared;
use crate::cloud::zones::market::Market;
use crate::cloud::zones::plan::{ZonesNow, zones_from_now};
use crate::error::{Error, Result};
use crate::market::availability::SpotSeries;
use crate::plan::window::Window;
use crate::plan::{Confidence, Recommendation, WORTH, worth};

/// Version of the JSON.
pub const SCHEMA: &str = "plan-cloud/2";

/// The answer of `plan cloud`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Answer")]
pub struct CloudPlanAnswer {
    /// Version of this form.
    pub schema: String,
    /// Traces.
    pub title: String,
    /// What a reader must know of the data.
    pub notes: Vec<String>,
    /// Work, seconds; the top of it where it is uncertain.
    pub work_s: f64,
    /// Time to the deadline, seconds.
    pub deadline_s: f64,
    /// What taking another instance takes, seconds.
    pub changeover_s: f64,
    /// Price of on-demand over that of spot.
    pub price_ratio: f64,
    /// Instances needed at once, or at most where the job is elastic.
    pub need: u32,
    /// Whether the job runs on whatever number of instances there is, up to so many.
    pub elastic: bool,
    /// The trace chosen.
    pub trace: String,
    /// The trace, or `zone chosen anew`, whose candidates say what the plan came to on the later windows.
    pub judged: String,
    /// How many of the later windows do not overlap.
    pub later_disjoint: usize,
    /// What is expected of a job that begins at the end of the data; nothing over several zones as one job, or where the programme finds no way.
    pub expected_now: Option<CloudExpected>,
    /// How the zones compare, and how sure the choice among them is; nothing where there is one, or they are of one job, or of other times.
    pub compared: Option<ZonesCompared>,
    /// Its zone, if known.
    pub zone: Option<String>,
    /// Its instance, if known.
    pub instance: Option<String>,
    /// Whether the traces are zones of one job.
    pub regions: Regions,
    /// When zones of one job are probed; nothing where they are seen at every tick.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probes: Option<ZoneProbes>,
    /// What to do over several zones, where they are those of one job.
    pub zones: Option<ZonesNow>,
    /// The policy chosen on the earlier windows.
    pub chosen: CloudPolicy,
    /// The policy to follow: the one chosen, or on-demand alone where the later windows do not show that the one chosen is worth it.
    pub followed: CloudPolicy,
    /// Every zone with every policy.
    pub candidates: Vec<CloudCandidate>,
    /// What to do from the end of the data on.
    pub now: FromNow,
    /// With how many nodes of each kind, where the job is elastic.
    pub nodes: Option<ElasticNow>,
    /// What if prices, changeover or work are not as said.
    pub sensitivity: Vec<CloudSensitivity>,
    /// What it is worth to plan on the distribution of the work, on the windows to report on; nothing where the work is known.
    pub uncertain: Option<UncertainWork>,
    /// How often to write a checkpoint on spot; nothing where it was not asked what one costs.
    pub checkpoint: Option<CheckpointAdvice>,
    /// What it buys, if it is followed.
    pub purchases: Option<CloudPurchases>,
    /// The same job on-demand from beginning to end.
    pub all_on_demand: CloudOnDemand,
    /// From which price ratio on the advice is another; nothing where prices or the ratio are given.
    pub price_turn: Option<CloudPriceTurn>,
    /// What is taken for prices, in words.
    pub prices: String,
    /// What the advice rests on and nobody said, one sentence each, before anything else is read.
    pub cautions: Vec<String>,
    /// Policies that cost less than the chosen one on the windows to report on, in its zone, the cheapest first; which of them would do so was not known when it was chosen.
    pub cheaper_later: Vec<CloudPolicy>,
    /// How sure the advice is, also where it is to run the job on-demand.
    pub confidence: Confidence,
    /// Why it is so sure and not surer, in a sentence.
    pub confidence_why: String,
    /// The command that was run, if it is known.
    #[serde(skip)]
    #[schemars(skip)]
    command: Option<String>,
    /// What to do, in a sentence.
    pub action: String,
    /// The recommendation, if spot is worth it.
    pub recommendation: Option<Recommendation>,
    /// Files it rests on.
    pub sources: Vec<SourceRecord>,
}

/// The JSON Schema of [`CloudPlanAnswer`].
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(CloudPlanAnswer).to_value()
}

/// Whether what was chosen saves enough on the later windows to be recommended.
fn is_worth(best: &CloudCandidate) -> bool {
    let cost = best.report_cost_ratio;
    best.policy != CloudPolicy::OnDemand && worth(1.0 - cost.value, 1.0 - cost.high, 1.0)
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

impl CloudPlanAnswer {
    /// Plans the first of the request's deadlines. `watch` is told of each window on which policies were tried.
    ///
    /// # Errors
    /// If what is asked makes no sense, a trace is too short, or an optimum cannot be computed.
    pub fn of(series: &[SpotSeries], title: String, request: &CloudRequest, watch: &dyn Watch) -> Result<Self> {
        let jobs = request.jobs()?;
        check_need(series, request.need)?;
        let jobs = jobs.get(..1).unwrap_or(&jobs);
        let Some(job) = jobs.first() else { return Err(Error::no_scenario("no trace is named; name at least one")) };
        let market = match &request.together {
            Some(together) => {
                Some(Market::of(series, request.need, request.price_ratio, together.egress())?.probed(together.probes))
            }
            None => None,
        };
        let (policies, choices): (&[CloudPolicy], &[CloudPolicy]) = match market {
            Some(_) => (&CloudPolicy::TOGETHER, &CloudPolicy::CAUSAL_TOGETHER),
            None => (&CloudPolicy::ALL, &CloudPolicy::CAUSAL),
        };
        // Together, all traces are one: as long as the shortest.
        let shortest = || series.iter().min_by_key(|zone| zone.counts.len());
        let tried_on: Vec<&SpotSeries> = match market {
            Some(_) => shortest().into_iter().collect(),
            None => series.iter().collect(),
        };
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
        let Chosen { best, runs, later, place, candidates, compared } = if compares {
            among_zones(&all, (series, &moments), (request, job), watch)?
        } else {
            as_one(&all, policies, choices)?
        };
        let lost = || Error::defect("the chosen zone is none of those named".to_owned());
        let in_zone = all.get(place).ok_or_else(lost)?;
        // What the policy of the plan came to in that zone.
        let there =
            candidates.iter().find(|of| of.trace == in_zone.name && of.policy == best.policy).ok_or_else(lost)?;
        // What the later windows do not show to be worth it is not followed.
        let followed = if is_worth(&best) { best.policy } else { CloudPolicy::OnDemand };
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
            None => CloudExpected::of(&all, (place, &later, &moments.zones), (best.policy, job), request),
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
        let price_turn = tried.turn(followed != CloudPolicy::OnDemand)?;
        let zone = match &zones {
            Some(zones) => {
                let named = zones.order.first().or(Some(&zones.on_demand_zone));
                series.iter().find(|of| of.zone.as_ref() == named || Some(&of.name) == named)
            }
            None => Some(in_zone.zone),
        };
        let follows = followed != CloudPolicy::OnDemand;
        let without_overlap = disjoint(&chosen_on) + disjoint(&reported_on);
        let purchases =
            follows.then(|| CloudPurchases::of((&runs, without_overlap), (series, of_one), request, zones.as_ref()));
        let all_on_demand = CloudOnDemand::of((series, of_one), request, zones.as_ref());
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
        let mut answer = Self {
            schema: SCHEMA.to_owned(),
            title,
            notes,
            work_s: job.work_ms as f64 / 1e3,
            deadline_s: job.deadline_ms as f64 / 1e3,
            changeover_s: job.changeover_ms as f64 / 1e3,
            price_ratio: job.price_ratio,
            need: request.need,
            elastic: request.elastic,
            trace: in_zone.name.clone(),
            judged: best.trace.clone(),
            later_disjoint: disjoint(&reported_on),
            expected_now,
            compared,
            zone: zone.and_then(|of| of.zone.clone()),
            instance: zone.and_then(|of| of.instance.clone()),
            regions: Regions::of(request),
            probes: ZoneProbes::of(request),
            zones,
            chosen: best.policy,
            followed,
            candidates,
            now,
            nodes,
            sensitivity,
            uncertain,
            checkpoint: None,
            purchases,
            all_on_demand,
            price_turn,
            prices: prices_in_words(&used, request),
            cautions: Vec::new(),
            cheaper_later: Vec::new(),
            confidence: Confidence::Low,
            confidence_why: String::new(),
            command: None,
            action: String::new(),
            recommendation: None,
            sources: series.iter().flat_map(|zone| zone.sources.clone()).collect(),
        };
        let turn = answer.price_turn.as_ref().map(|turn| turn.in_words(answer.alone()));
        answer.cautions.extend(turn);
        answer.cautions.extend(guessed_in_words(&series.iter().collect::<Vec<_>>(), request));
        answer.cheaper_later = answer.cheaper(&best);
        (answer.confidence, answer.confidence_why) = answer.sure(&best, is_guessed(&used, request));
        answer.action = answer.act();
        answer.recommendation = answer.recommended(&best).map(Recommendation::weighed);
        Ok(answer)
    }

    /// With how often to write a checkpoint that takes so long, from how long spot lasted in the zones of the plan.
    #[must_use]
    pub fn with_checkpoints(mut self, series: &[SpotSeries], checkpoint_s: f64) -> Self {
        let is_in = |zone: &&SpotSeries| match &self.zones {
            Some(zones) => zones.order.is_empty() || zones.order.contains(zone.zone.as_ref().unwrap_or(&zone.name)),
            None => zone.name == self.trace,
        };
        let of = (self.need, self.elastic);
        self.checkpoint = Some(CheckpointAdvice::of(series.iter().filter(is_in), of, checkpoint_s));
        self
    }

    /// With the command that was run, for the recommendation.
    #[must_use]
    pub fn with_command(mut self, command: String) -> Self {
        if let Some(recommendation) = &mut self.recommendation {
            recommendation.command = Some(command.clone());
        }
        self.command = Some(command);
        self
    }

    /// Where the job runs, in words.
    fn place(&self) -> String {
        match &self.zones {
            Some(zones) if self.followed == CloudPolicy::OnDemand || zones.order.is_empty() => {
                format!("`{}`", zones.on_demand_zone)
            }
            Some(zones) => {
                let named: Vec<String> = zones.order.iter().map(|zone| format!("`{zone}`")).collect();
                format!("{}, in this order", format::names(&named, 3))
            }
            None => format!("`{}`", self.trace),
        }
    }

    fn act(&self) -> String {
        let place = self.place();
        if self.chosen == CloudPolicy::OnDemand {
            return format!(
                "**Run the job on-demand**, in {place}: no use of spot was cheaper on the windows of choice.{}",
                self.all_on_demand_in_words()
            );
        }
        if self.followed == CloudPolicy::OnDemand {
            let (said, sure) = match self.beside(self.chosen).map(|of| of.report_cost_ratio) {
                Some(cost) if cost.value < 1.0 => {
                    let sure = format!(
                        ", which is not worth it: a change is worth it from {} on, if its interval leaves out no saving",
                        format::percent(WORTH)
                    );
                    (format!("{} less than on-demand", format::percent(1.0 - cost.value)), sure)
                }
                _ => ("no less than on-demand".to_owned(), String::new()),
            };
            let expected = self.expected_of(self.chosen).map_or_else(String::new, |cost_ratio| {
                format!(" Expected of it now: {} of all on-demand.", format::percent(cost_ratio))
            });
            return format!(
                "**Run the job on-demand**, in {place}: the {}, which cost least on the windows of choice, cost {said} on the later ones{sure}.{expected}{}",
                self.chosen.in_words(),
                self.all_on_demand_in_words()
            );
        }
        if self.now.if_up == Holding::OnDemand && self.now.if_down == Holding::OnDemand {
            return format!(
                "**Begin on-demand**, in {place} (policy: {}): the deadline leaves no time for spot yet.{}",
                self.chosen.in_words(),
                self.expected_and_tested()
            );
        }
        let wait = if self.now.wait_at_most_s > 0.0 {
            format!(" If spot does not come for {}, go on-demand.", format::duration(self.now.wait_at_most_s))
        } else {
            String::new()
        };
        format!(
            "**Run the job on spot with on-demand behind it**, in {place} (policy: {}): {}.{wait}{}",
            self.chosen.in_words(),
            self.begin_with(),
            self.expected_and_tested()
        )
    }

    /// What all on-demand costs, as a sentence.
    fn all_on_demand_in_words(&self) -> String {
        let mean = if self.uncertain.is_some() { " on the mean" } else { "" };
        format!(" That takes {}{mean}.", self.all_on_demand.in_words(self.price_ratio))
    }

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

    /// The cautions as files have them, without marks.
    pub(super) fn cautions_as_text(&self) -> Vec<String> {
        self.cautions
            .iter()
            .map(|caution| caution.replace("**", "").replace(['`', '\r'], "").replace('\n', " "))
            .collect()
    }

    /// The zone on whose windows alone other cases are judged, where it was chosen among several.
    fn alone(&self) -> Option<&str> {
        let others = self.zones.is_none() && self.candidates.iter().any(|of| of.trace != self.trace);
        others.then_some(self.trace.as_str())
    }

    /// The candidate with a policy, where the plan is judged.
    fn beside(&self, policy: CloudPolicy) -> Option<&CloudCandidate> {
        self.candidates.iter().find(|candidate| candidate.trace == self.judged && candidate.policy == policy)
    }

    /// Policies that cost less than `best` on the windows to report on.
    fn cheaper(&self, best: &CloudCandidate) -> Vec<CloudPolicy> {
        let beside = self.candidates.iter().filter(|of| of.trace == best.trace && of.causal && of.report_misses == 0);
        let cost = |of: &CloudCandidate| of.report_cost_ratio.value;
        let shows = |of: &CloudCandidate| format::percent(cost(of));
        // What a report shows as the same is no cheaper.
        let is_cheaper = |of: &&CloudCandidate| cost(of) < cost(best) && shows(of) != shows(best);
        let mut found: Vec<&CloudCandidate> = beside.filter(is_cheaper).collect();
        found.sort_by(|a, b| cost(a).total_cmp(&cost(b)));
        found.into_iter().map(|of| of.policy).collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
