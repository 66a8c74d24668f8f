//! `plan cloud`: where and how to run one job with a deadline, chosen on earlier windows, reported on later ones, decided from the end of the data on.
//!
//! The spine of [every plan](crate::plan): the evidence is the availability of each zone named. The candidates are every zone with every policy. The windows
//! are as long as the time to the deadline and [spread]: over the first two thirds of each trace to *choose* on, over the last third
//! to *report* on (or both halves, where a third does not hold one). The criterion is the least mean cost on the windows of choice without a miss. What is
//! chosen is reported on the later windows beside all on-demand, greedy, Uniform Progress and the omniscient optimum. Then it is fitted on all data and
//! asked what to do from the last tick on: at once if spot is there, at once if not, and until when to wait for spot.
//!
//! Worked example: chosen on the first 30 of 45 days, 0.55 of all on-demand; on the last 15 it costs 0.58 (0.55 to 0.61), where the optimum costs 0.55.

mod render;

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::report::format;
use tracecast_analytics::trace::SourceRecord;
use tracecast_predictors::watch::Watch;

use super::answer::{Regions, moving, notes, taking};
use super::attempt::{Attempt, Told, attempt, on_windows};
use super::availability::SpotSeries;
use super::backtest::TOGETHER;
use super::checkpoint::CheckpointAdvice;
use super::job::{DeadlineJob, FromNow, Holding, JobRun};
use super::lanes_plan::{ElasticNow, from_now};
use super::market::Market;
use super::policy::{CloudPolicy, Lessons};
use super::price_words::{guessed_in_words, is_guessed, prices_in_words};
use super::purchase::{CloudOnDemand, CloudPurchases};
use super::request::{CloudRequest, check_need, longest, too_short};
use super::sensitivity::{CloudPriceTurn, CloudSensitivity, Tried};
use super::uncertain::UncertainWork;
use super::zones::attempt_zones;
use super::zones_plan::{ZonesNow, zones_from_now};
use crate::error::{Error, Result};
use crate::plan::interval::{average, mean};
use crate::plan::window::{Window, learn_and_choose, spread};
use crate::plan::{Basis, Confidence, Effect, Harm, Recommendation, Regret, WORTH, worth};
use crate::replay::compare::IntervalEstimate;

/// Version of the JSON.
pub const SCHEMA: &str = "plan-cloud/1";

/// A zone and a policy.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CloudCandidate {
    /// Name of the trace.
    pub trace: String,
    /// Which policy.
    pub policy: CloudPolicy,
    /// Whether it decides from the past alone.
    pub causal: bool,
    /// Windows it was chosen on.
    pub choose_windows: usize,
    /// Mean cost on them, as a share of all on-demand.
    pub choose_cost_ratio: f64,
    /// Windows it is reported on.
    pub report_windows: usize,
    /// Mean cost on them, as a share of all on-demand, with its interval.
    pub report_cost_ratio: IntervalEstimate,
    /// The dearest of them.
    pub report_worst: f64,
    /// Deadlines missed on the windows it was chosen on.
    pub choose_misses: usize,
    /// Deadlines missed on those it is reported on.
    pub report_misses: usize,
}

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
    /// Its zone, if known.
    pub zone: Option<String>,
    /// Its instance, if known.
    pub instance: Option<String>,
    /// Whether the traces are zones of one job.
    pub regions: Regions,
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

/// The windows of a trace: to choose on, and to report on.
fn windows(series: &SpotSeries, jobs: &[DeadlineJob], starts: usize) -> Result<[Vec<Window>; 2]> {
    let (ticks, needed) = (series.counts.len(), longest(series, jobs));
    let (early, late) = learn_and_choose(&(0..ticks));
    let halves = (0..ticks / 2, ticks / 2..ticks);
    let (early, late) = if late.len() >= needed { (early, late) } else { halves };
    let found = [spread(&early, needed, starts), spread(&late, needed, starts)];
    if found.iter().any(Vec::is_empty) { Err(too_short(series, ticks, needed, 2)) } else { Ok(found) }
}

/// Whether what was chosen saves enough on the later windows to be recommended.
fn is_worth(best: &CloudCandidate) -> bool {
    let cost = best.report_cost_ratio;
    best.policy != CloudPolicy::OnDemand && worth(1.0 - cost.value, 1.0 - cost.high, 1.0)
}

/// The trace that was chosen.
fn chosen_of<'a>(series: &'a [SpotSeries], best: &CloudCandidate) -> Result<&'a SpotSeries> {
    let found = series.iter().find(|zone| zone.name == best.trace);
    found.ok_or_else(|| Error::Defect("the chosen zone is none of those named".to_owned()))
}

/// What was learned of a zone.
fn learned_of<'a>(
    lessons: &'a [(&'a SpotSeries, Lessons)],
    zone: &SpotSeries,
) -> Result<(&'a SpotSeries, &'a Lessons)> {
    let found = lessons.iter().find(|(of, _)| of.name == zone.name);
    let found = found.map(|(of, all)| (*of, all));
    found.ok_or_else(|| Error::Defect("nothing was learned of the chosen zone".to_owned()))
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
        let Some(job) = jobs.first() else { return Err(Error::NoScenario("no trace is named; name at least one")) };
        let market = match &request.together {
            Some(together) => Some(Market::of(series, request.need, request.price_ratio, together.egress())?),
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
        let mut candidates: Vec<CloudCandidate> = Vec::new();
        // What each did on the windows that it is reported on.
        let mut reported: Vec<Vec<JobRun>> = Vec::new();
        // Over zones, all of it.
        let mut reported_over: Vec<Attempt> = Vec::new();
        let mut lessons: Vec<(&SpotSeries, Lessons)> = Vec::new();
        for zone in tried_on {
            let zone_lessons = Lessons::new(zone.supply(request.need, request.elastic), zone.tick_ms);
            let told = Told::of(request.uncertain.as_ref());
            let tried = |windows: &[Window]| {
                on_windows(windows, watch, |window| match &market {
                    Some(market) => attempt_zones(market, window.ahead.start, jobs, request.uncertain.as_ref()),
                    None => {
                        let price = zone.price.as_ref();
                        attempt(&CloudPolicy::ALL, &zone_lessons, price, window, jobs, told)
                    }
                })
            };
            let [choose, report] = windows(zone, jobs, request.starts)?;
            let (choose, report) = (tried(&choose)?, tried(&report)?);
            for policy in policies.iter().copied() {
                let shares = |of: &[Attempt]| -> Vec<f64> { of.iter().map(|attempt| attempt.share(policy)).collect() };
                let (early, late) = (shares(&choose), shares(&report));
                let missed = |of: &[Attempt]| of.iter().filter(|attempt| attempt.run(policy).missed).count();
                reported.push(report.iter().map(|attempt| attempt.run(policy)).collect());
                candidates.push(CloudCandidate {
                    trace: if market.is_some() { TOGETHER.to_owned() } else { zone.name.clone() },
                    policy,
                    causal: policy.causal(),
                    choose_windows: early.len(),
                    choose_cost_ratio: average(early.iter().copied()),
                    report_windows: late.len(),
                    report_cost_ratio: mean(&late),
                    report_worst: late.iter().copied().fold(0.0, f64::max),
                    choose_misses: missed(&choose),
                    report_misses: missed(&report),
                });
            }
            if market.is_some() {
                reported_over = report;
            }
            lessons.push((zone, zone_lessons));
        }
        // Of equals, on-demand alone, which needs nobody to watch; else the policy that is listed first among those to choose from, in the earlier zone.
        let order = |policy: CloudPolicy| {
            let place = choices.iter().position(|of| *of == policy).unwrap_or(usize::MAX);
            if policy == CloudPolicy::OnDemand { 0 } else { place + 1 }
        };
        let allowed =
            candidates.iter().zip(&reported).filter(|(candidate, _)| candidate.causal && candidate.choose_misses == 0);
        let best = allowed.min_by(|(a, _), (b, _)| {
            a.choose_cost_ratio.total_cmp(&b.choose_cost_ratio).then(order(a.policy).cmp(&order(b.policy)))
        });
        let Some((best, runs)) = best.map(|(best, runs)| (best.clone(), runs)) else {
            return Err(Error::NoScenario("no trace is named; name at least one"));
        };
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
                let (now, nodes) = from_now(chosen_of(series, &best)?, followed, of, job);
                (now, None, nodes)
            }
        };
        let of_one = if market.is_some() { None } else { Some(chosen_of(series, &best)?) };
        let on = of_one.or_else(shortest).ok_or(Error::NoScenario("no trace is named"))?;
        let tried = Tried {
            series,
            zone: of_one.map(|zone| learned_of(&lessons, zone)).transpose()?,
            request,
            job: *job,
            policy: best.policy,
            windows: windows(on, jobs, request.starts)?,
            watch,
        };
        let [_, reported_on] = &tried.windows;
        let uncertain = if market.is_some() {
            let attempts: Vec<&[Attempt]> = reported_over.iter().map(std::slice::from_ref).collect();
            UncertainWork::over_zones(&attempts, jobs, request, best.policy)
        } else {
            let learned = tried.zone.into_iter();
            let on: Vec<_> =
                learned.flat_map(|(zone, all)| reported_on.iter().map(move |at| (zone, all, at))).collect();
            UncertainWork::of(&on, jobs, request, best.policy)?
        };
        let as_said = CloudSensitivity::as_said(best.report_cost_ratio.value, best.report_misses, best.policy);
        let sensitivity = tried.cases(as_said)?;
        let price_turn = tried.turn(followed != CloudPolicy::OnDemand)?;
        let zone = match &zones {
            Some(zones) => {
                let named = zones.order.first().or(Some(&zones.on_demand_zone));
                series.iter().find(|of| of.zone.as_ref() == named || Some(&of.name) == named)
            }
            None => series.iter().find(|zone| zone.name == best.trace),
        };
        let follows = followed != CloudPolicy::OnDemand;
        let purchases = follows.then(|| CloudPurchases::of(runs, (series, of_one), request, zones.as_ref()));
        let all_on_demand = CloudOnDemand::of((series, of_one), request, zones.as_ref());
        let used: Vec<&SpotSeries> = of_one.map_or_else(|| series.iter().collect(), |zone| vec![zone]);
        let mut notes = notes(series);
        if let Some(together) = &request.together {
            notes.extend(moving(series, request, together)?);
        }
        notes.extend(request.elastic.then(|| taking(request.need)));
        notes.extend(request.uncertain.as_ref().map(|work| work.promise(request.planned())));
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
            trace: best.trace.clone(),
            zone: zone.and_then(|of| of.zone.clone()),
            instance: zone.and_then(|of| of.instance.clone()),
            regions: Regions::of(request),
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
        answer.cautions.extend(answer.price_turn.as_ref().map(CloudPriceTurn::in_words));
        answer.cautions.extend(guessed_in_words(&series.iter().collect::<Vec<_>>(), request));
        answer.cheaper_later = answer.cheaper(&best);
        (answer.confidence, answer.confidence_why) = answer.sure(&best, is_guessed(&used, request));
        answer.action = answer.act();
        answer.recommendation = answer.recommended(&best);
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
            return format!(
                "**Run the job on-demand**, in {place}: the {}, which cost least on the windows of choice, cost {said} on the later ones{sure}.{}",
                self.chosen.in_words(),
                self.all_on_demand_in_words()
            );
        }
        if self.now.if_up == Holding::OnDemand && self.now.if_down == Holding::OnDemand {
            return format!(
                "**Begin on-demand**, in {place} (policy: {}): the deadline leaves no time for spot yet.",
                self.chosen.in_words()
            );
        }
        let wait = if self.now.wait_at_most_s > 0.0 {
            format!(" If spot does not come for {}, go on-demand.", format::duration(self.now.wait_at_most_s))
        } else {
            String::new()
        };
        format!(
            "**Run the job on spot with on-demand behind it**, in {place} (policy: {}): {}.{wait}",
            self.chosen.in_words(),
            self.begin_with()
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

    /// The candidate of the chosen zone with a policy.
    fn beside(&self, policy: CloudPolicy) -> Option<&CloudCandidate> {
        self.candidates.iter().find(|candidate| candidate.trace == self.trace && candidate.policy == policy)
    }

    /// Policies that cost less than `best` on the windows to report on.
    fn cheaper(&self, best: &CloudCandidate) -> Vec<CloudPolicy> {
        let beside = self.candidates.iter().filter(|of| of.trace == best.trace && of.causal && of.report_misses == 0);
        let cost = |of: &CloudCandidate| of.report_cost_ratio.value;
        let mut found: Vec<&CloudCandidate> = beside.filter(|of| cost(of) < cost(best) - 1e-9).collect();
        found.sort_by(|a, b| cost(a).total_cmp(&cost(b)));
        found.into_iter().map(|of| of.policy).collect()
    }

    /// How sure the advice is, and why. Whether the price of on-demand is `guessed` in the zones that are used.
    fn sure(&self, best: &CloudCandidate, guessed: bool) -> (Confidence, String) {
        let windows = format::counted(best.report_windows as u64, "later window", "later windows");
        if best.report_windows < 3 {
            return (Confidence::Low, format!("it is reported on {windows}"));
        }
        let follows = self.followed != CloudPolicy::OnDemand;
        if let Some(turn) = &self.price_turn {
            return turn.sure(follows);
        }
        if guessed {
            return self.sure_of_guessed(follows);
        }
        let cost = best.report_cost_ratio;
        if !follows && best.policy != CloudPolicy::OnDemand && cost.low < 1.0 - WORTH {
            let why = format!("the interval of the {} reaches a saving worth having", best.policy.in_words());
            return (Confidence::Low, why);
        }
        (Confidence::Medium, format!("it is reported on {windows}, which overlap"))
    }

    /// The same where the price of on-demand is assumed from that of spot, and the plan `follows` spot or not: by what comes at other prices.
    fn sure_of_guessed(&self, follows: bool) -> (Confidence, String) {
        let says = |case: &CloudSensitivity| {
            Some((format!("at {} times that", format::float(case.times, 2)), case.is_spot_at_price(self.chosen)?))
        };
        let cases: Vec<(String, bool)> = self.sensitivity.iter().filter_map(says).collect();
        if let Some((at, _)) = cases.iter().find(|(_, spot)| *spot != follows) {
            let worth = if follows { "is not" } else { "is" };
            let why = format!("the price of on-demand is assumed, and {at} spot {worth} worth it on average");
            return (Confidence::Low, why);
        }
        if cases.is_empty() {
            return (Confidence::Low, "the price of on-demand is assumed; no other was tried".to_owned());
        }
        let tried: Vec<&str> = cases.iter().map(|(at, _)| at.as_str()).collect();
        let why =
            format!("the price of on-demand is assumed; {} the advice is the same on average", tried.join(" and "));
        (Confidence::Medium, why)
    }

    fn recommended(&self, best: &CloudCandidate) -> Option<Recommendation> {
        let cost = best.report_cost_ratio;
        if self.followed == CloudPolicy::OnDemand {
            return None;
        }
        let change = |share: f64| share - 1.0;
        let naive = self.beside(CloudPolicy::UniformProgress).map(|uniform| change(uniform.report_cost_ratio.value));
        let least = self.beside(CloudPolicy::Omniscient).map(|least| change(least.report_cost_ratio.value));
        Some(Recommendation {
            plan: "cloud".to_owned(),
            action: self.action.clone(),
            effects: vec![Effect {
                what: "cost of the job, as a share of all on-demand".to_owned(),
                unit: String::new(),
                change: change(cost.value),
                low: Some(change(cost.low)),
                high: Some(change(cost.high)),
                interval: format!(
                    "95 %, {} after those it was chosen on, drawn anew; they overlap, so it is rather too narrow",
                    format::counted(best.report_windows as u64, "window", "windows")
                ),
            }],
            against: "all on-demand".to_owned(),
            basis: Basis::LaterDays,
            regret: least.map(|least| Regret {
                oracle: "the optimum that knows all availability".to_owned(),
                oracle_change: least,
                naive_change: naive,
                naive: naive.map(|_| CloudPolicy::UniformProgress.in_words().to_owned()),
            }),
            harmed: vec![Harm {
                who: "whoever waits for the job".to_owned(),
                how_much: format!(
                    "it ends by its deadline, {} from its start, where on-demand alone would take {}{}",
                    format::duration(self.deadline_s),
                    if self.uncertain.is_some() { "up to " } else { "" },
                    format::duration(self.work_s + self.changeover_s)
                ),
            }],
            confidence: self.confidence,
            risk: format!(
                "Confidence is {}: {}. The dearest of the later windows cost {} of all on-demand. No window missed its deadline, as on-demand begins in time whatever spot does; that takes on-demand for granted.",
                self.confidence.in_words(),
                self.confidence_why,
                format::percent(best.report_worst)
            ),
            assumptions: vec![
                format!("Prices: {}.", self.prices),
                format!(
                    "On-demand can always be had, and another instance takes {}.",
                    format::duration(self.changeover_s)
                ),
                "Work that is done stays done: the job writes checkpoints.".to_owned(),
            ],
            holds_until: format!("the deadline, {} from the start of the job", format::duration(self.deadline_s)),
            apply: "Write the tasks of SkyPilot and launch the one that the plan begins with, or write the node pools of Karpenter and let the pods select what it begins with.".to_owned(),
            command: self.command.clone(),
            undo: "Launch the task on-demand from the last checkpoint, and cancel the one on spot.".to_owned(),
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
