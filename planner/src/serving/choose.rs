//! Settings tried on one part of a log, and which of them is taken.
//!
//! Each rule is replayed from the beginning of the log to the end of the part, and scored on a window within it: what comes before only fills the replicas. A
//! setting must keep the target **with half of the misses** that it allows, also **if a fifth more requests came**, as the requests to come are not those
//! it is chosen on. Of settings that do, the one that costs least on the requests as they were is taken, of equals the one that serves more of the grown ones in time.
//! Where none does, it is the one with the most in time, and the answer says so.
//!
//! **What reactive scaling serves, others must serve too.** Where the reactive rule has a setting that keeps the target so, a constant or a forecast must be late with no more
//! requests than it, both of the requests as they were and in all on these, on a fifth more and on half as many again; and on all three it must cost less. Many settings are tried, so the cheapest of them is late more often on other requests than it was on these. Half of what it saves is therefore spent on
//! safety: of the settings that cost no more than the middle between the cheapest and the reactive one, the one with the fewest late is taken.
//!
//! O(settings × replay), on all threads, taken in order. Worked example: a target of 95 % is chosen with 97.5 %: of a constant of 3 (96 %), 4 (98 %) and 5 replicas (99 %), 4.

mod finalist;

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::stats::rank;

pub use self::finalist::{Finalist, most_for_safety, safest};
use super::replay::{HeldAs, ServedLog, Slots, replay};
use super::requests::LoggedRequest;
use super::rule::{Deciding, MOST_REPLICAS, ServingLoad, ServingRule, SpotHedge, loads, residuals};
use super::service::ReplicaService;
use super::target::ServingTarget;

/// Requests in flight for each replica that reactive rules try, in 48ths of the batch: up to two batches.
const TARGETS: [u32; 17] = [1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 96];
/// Few requests in flight that reactive rules try: where prompts are long, few are much, however
/// large the batch is.
const FEW: [u32; 3] = [1, 2, 4];
/// Stabilisation windows that are tried, seconds.
const HOLDS_S: [u32; 3] = [30, 120, 300];
/// Window of the Kubernetes HPA where nothing is said, seconds.
const DEFAULT_HOLD_S: u32 = 300;
/// Lengths of the level that forecasts try, seconds.
const LEVELS_S: [u32; 4] = [60, 120, 300, 600];
/// Quantiles of residuals that forecasts try.
const QUANTILES: [f64; 4] = [0.5, 0.8, 0.95, 0.99];
/// Load of a replica that forecasts try.
const USES: [f64; 8] = [0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.9];
/// Guards that forecasts try, parts of the batch.
const GUARDS: [u32; 2] = [3, 2];
/// Forecasts that are tried with guards: the cheapest that keep the target without its reserve.
const GUARDED: usize = 60;
/// Most replicas on spot beyond those needed that are tried.
const MOST_EXTRA: u32 = 3;

/// Cost of a second of a replica.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReplicaPrice {
    /// Price on demand.
    pub on_demand: f64,
    /// Price on spot; that on demand where there is none.
    pub spot: f64,
}

/// How many spot replicas can be had at a moment, microseconds.
pub type SpotSupply<'a> = dyn Fn(i64) -> u32 + Sync + 'a;

/// Service that a setting must give to be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ServedStandard {
    /// What is promised, and as many in time as the reactive rule, where that keeps the promise.
    #[default]
    Reactive,
    /// What is promised, and no more.
    Target,
}

/// What is the same for all rules.
#[derive(Clone, Copy)]
pub struct ServingCase<'a> {
    /// Speed of a replica.
    pub service: &'a ReplicaService,
    /// The promised service.
    pub target: ServingTarget,
    /// Requests in order.
    pub requests: &'a [LoggedRequest],
    /// Beginning of the log, microseconds.
    pub from_us: i64,
    /// Length of a slot, microseconds.
    pub slot_us: i64,
    /// Cost of replicas.
    pub price: ReplicaPrice,
    /// Spot, if a trace of it is given.
    pub spot: Option<&'a SpotSupply<'a>>,
    /// Service that a setting must give.
    pub standard: ServedStandard,
    /// Leave out rules by a forecast of the load.
    pub naive: bool,
}

impl std::fmt::Debug for ServingCase<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServingCase").field("requests", &self.requests.len()).finish_non_exhaustive()
    }
}

/// Score of a rule in a window.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct ServingScore {
    /// Requests that arrived in it.
    pub requests: u64,
    /// Requests in time.
    pub in_time: u64,
    /// Share of the requests in time.
    pub attained: f64,
    /// Median time to the first token, seconds.
    pub ttft_p50_s: f64,
    /// 95 % of the requests waited no longer for it.
    pub ttft_p95_s: f64,
    /// 99 % of them.
    pub ttft_p99_s: f64,
    /// 95 % of the requests had their further tokens no further apart on average, seconds.
    pub tpot_p95_s: f64,
    /// 95 % of the requests ended no longer after their arrival, seconds.
    pub whole_p95_s: f64,
    /// Hours of replicas on demand that were paid for.
    pub on_demand_h: f64,
    /// Hours of replicas on spot.
    pub spot_h: f64,
    /// Cost of both.
    pub cost: f64,
    /// Replicas that were started.
    pub starts: u64,
    /// Mean of the replicas that were paid for.
    pub mean_replicas: f64,
    /// Most that served at the beginning of a slot.
    pub most_replicas: u32,
    /// Most requests in flight at the beginning of a slot.
    pub most_in_flight: u32,
}

impl ServingScore {
    /// Requests that were late.
    pub fn late(&self) -> u64 {
        self.requests - self.in_time.min(self.requests)
    }
}

/// A setting that was tried.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChosenSetting {
    /// The rule.
    pub rule: ServingRule,
    /// Spot beside it.
    pub hedge: Option<SpotHedge>,
    /// Score where it was chosen.
    pub score: ServingScore,
    /// Whether it kept the target with its reserve.
    pub kept: bool,
    /// Whether it was late with no more requests than the reactive rule, if that kept the target with its reserve.
    pub as_good: bool,
    /// Late of the requests as they were, of a fifth more and of half as many again; none where these were not replayed.
    pub late: Option<u64>,
    /// How many settings were tried.
    pub tried: usize,
}

/// Settings of one rule, with what each did.
#[derive(Debug, Clone, PartialEq)]
pub struct TriedSettings {
    settings: Vec<ScalingSetting>,
    scores: Vec<ServingScore>,
}

/// Where settings are chosen.
#[derive(Debug, Clone, Copy)]
pub struct ChoosingIn<'a> {
    /// The case with a fifth more requests.
    pub grown: &'a ServingCase<'a>,
    /// The case with half as many requests again.
    pub far_grown: &'a ServingCase<'a>,
    /// How loads are counted.
    pub load: ServingLoad,
    /// Replicas at the beginning.
    pub initial: u32,
    /// What is scored.
    pub window: Span,
}

/// A stretch from where to where, microseconds.
pub type Span = (i64, i64);

/// A rule, and spot beside it.
pub type ScalingSetting = (ServingRule, Option<SpotHedge>);

/// More requests: `share` of them come twice, evenly spread over the log, the second time up to a minute later, or earlier where the log would have ended.
///
/// Worked example: a share of 0.5 repeats the second, fourth and sixth request, and so on. A log ends at 100 s: what came at 70 s comes again at 90 s, if 20 s are drawn for
/// it, and at 30 s, if 40 s are.
pub fn grown(requests: &[LoggedRequest], share: f64) -> Vec<LoggedRequest> {
    let mut result = requests.to_vec();
    let (first, last) = (requests.first().map_or(0, |first| first.at_us), requests.last().map_or(0, |last| last.at_us));
    let whole = |count: usize| (count as f64 * share + 1e-9).floor();
    for (at, request) in requests.iter().enumerate() {
        if whole(at + 1) > whole(at) {
            // Any spread that hangs on nothing but the number of the request.
            let later = (at as i64 * 7_919_000 + 1_000) % 60_000_000;
            let at_us = request.at_us + later;
            let at_us = if at_us <= last { at_us } else { (request.at_us - later).max(first) };
            result.push(LoggedRequest { at_us, ..*request });
        }
    }
    result.sort_by_key(|request| request.at_us);
    result
}

impl<'a> ServingCase<'a> {
    /// Requests that arrive before a moment.
    pub fn until(&self, to_us: i64) -> &'a [LoggedRequest] {
        self.requests.get(..self.requests.partition_point(|request| request.at_us < to_us)).unwrap_or_default()
    }

    /// Requests that arrive in a window.
    pub fn within(&self, window: Span) -> &'a [LoggedRequest] {
        self.until(window.1).get(self.until(window.0).len()..).unwrap_or_default()
    }

    /// The slots of a replay from the beginning of the log to `to_us`.
    pub fn slots(&self, to_us: i64) -> Slots {
        Slots::covering(self.from_us, to_us - 1, self.slot_us)
    }

    /// Loads of the whole slots from the beginning of the log to `to_us`.
    pub fn loads(&self, load: &ServingLoad, to_us: i64) -> Vec<f64> {
        let slots = usize::try_from((to_us - self.from_us) / self.slot_us).unwrap_or(0);
        loads(self.until(to_us), load, (self.from_us, self.slot_us), slots)
    }

    /// Replays a rule from the beginning of the log to `to_us`.
    pub fn run(
        &self,
        rule: ServingRule,
        hedge: Option<SpotHedge>,
        load: ServingLoad,
        initial: u32,
        to_us: i64,
    ) -> ServedLog {
        let mut deciding = Deciding::new(rule, hedge, load, self.slot_us, initial);
        let none = |_: i64| 0;
        let spot = |at: i64| self.spot.map_or_else(|| none(at), |supply| supply(at));
        replay(self.until(to_us), self.service, self.slots(to_us), initial, &spot, &mut |seen| deciding.decide(seen))
    }

    /// What a replay of the requests `of` did in a window.
    pub fn score(&self, of: &[LoggedRequest], replayed: &ServedLog, slots: Slots, window: Span) -> ServingScore {
        let mut in_time = 0u64;
        let (mut ttft, mut tpot, mut whole) = (Vec::new(), Vec::new(), Vec::new());
        for (request, served) in of.iter().zip(&replayed.served) {
            if !(window.0..window.1).contains(&request.at_us) {
                continue;
            }
            in_time += u64::from(self.target.in_time(request.at_us, served.first_us, served.done_us, request.output));
            ttft.push(served.first_us - request.at_us);
            whole.push(served.done_us - request.at_us);
            if request.output > 1 {
                tpot.push((served.done_us - served.first_us) / (i64::from(request.output) - 1));
            }
        }
        let seconds =
            |values: &mut Vec<i64>, share: f64| rank::nearest(values, share).map_or(0.0, |us| us as f64 / 1e6);
        let paid = |held| replayed.paid_s(held, window);
        let (on_demand_s, spot_s) = (paid(HeldAs::OnDemand), paid(HeldAs::Spot));
        let inside = |values: &[u32]| {
            let of = |slot: usize| (window.0..window.1).contains(&slots.at(slot));
            values.iter().enumerate().filter(|(slot, _)| of(*slot)).map(|(_, value)| *value).max().unwrap_or(0)
        };
        let requests = ttft.len() as u64;
        ServingScore {
            requests,
            in_time,
            attained: if requests > 0 { in_time as f64 / requests as f64 } else { 1.0 },
            ttft_p50_s: seconds(&mut ttft, 0.5),
            ttft_p95_s: seconds(&mut ttft, 0.95),
            ttft_p99_s: seconds(&mut ttft, 0.99),
            tpot_p95_s: seconds(&mut tpot, 0.95),
            whole_p95_s: seconds(&mut whole, 0.95),
            on_demand_h: on_demand_s / 3600.0,
            spot_h: spot_s / 3600.0,
            cost: on_demand_s * self.price.on_demand + spot_s * self.price.spot,
            starts: replayed.starts(window),
            mean_replicas: (on_demand_s + spot_s) / ((window.1 - window.0).max(1) as f64 / 1e6),
            most_replicas: inside(&replayed.ready),
            most_in_flight: inside(&replayed.in_flight),
        }
    }

    /// Replays a rule to the end of a window and scores it there.
    pub fn scored(
        &self,
        rule: ServingRule,
        hedge: Option<SpotHedge>,
        load: ServingLoad,
        initial: u32,
        window: Span,
    ) -> ServingScore {
        let replayed = self.run(rule, hedge, load, initial, window.1);
        self.score(self.until(window.1), &replayed, self.slots(window.1), window)
    }

    /// Whether a score keeps a target.
    pub fn keeps(&self, score: &ServingScore, target: ServingTarget) -> bool {
        target.is_kept(score.in_time as usize, score.requests as usize)
    }

    /// Requests of a window, and how many of them are late even if a replica has nothing else to do.
    ///
    /// Worked example: a prompt of 12,000 tokens at 4,000 a second has its first token after 3 s, so with 2 s promised it is late on any number of replicas.
    pub fn late_alone(&self, target: ServingTarget, window: Span) -> (usize, usize) {
        let inside = self.within(window);
        let late = |request: &&LoggedRequest| {
            let first_us = self.service.prefill_us(request.input);
            let further = i64::from(request.output.max(1)) - 1;
            !target.in_time(0, first_us, first_us + further * self.service.step_us(1), request.output)
        };
        (inside.len(), inside.iter().filter(late).count())
    }

    /// The least time to the first token, seconds, that so great a share of the requests of a window keep on a replica that has nothing else to do.
    ///
    /// Worked example: of prompts that take 1, 2, 3 and 20 s, three quarters keep 3 s.
    pub fn least_ttft_s(&self, share: f64, window: Span) -> f64 {
        let mut first_us: Vec<i64> =
            self.within(window).iter().map(|request| self.service.prefill_us(request.input)).collect();
        first_us.sort_unstable();
        let late = ServingTarget { share, ..self.target }.may_miss(first_us.len());
        let last = first_us.len().saturating_sub(late + 1);
        first_us.get(last).map_or(0.0, |us| *us as f64 / 1e6)
    }

    /// Scores of settings, in their order.
    pub fn scores(
        &self,
        settings: &[ScalingSetting],
        load: ServingLoad,
        initial: u32,
        window: Span,
    ) -> Vec<ServingScore> {
        settings.par_iter().map(|(rule, hedge)| self.scored(*rule, *hedge, load, initial, window)).collect()
    }

    /// Settings with what each did on the requests as they were.
    pub fn tried(&self, settings: Vec<ScalingSetting>, within: &ChoosingIn<'_>) -> TriedSettings {
        let scores = self.scores(&settings, within.load, within.initial, within.window);
        TriedSettings { settings, scores }
    }

    /// The cheapest setting that keeps the target as is asked for.
    pub fn cheapest(&self, tried: &TriedSettings, within: &ChoosingIn<'_>) -> Option<ChosenSetting> {
        let (settings, scores) = (&tried.settings, &tried.scores);
        let strict = self.target.with_reserve();
        let mut keeping: Vec<usize> =
            (0..settings.len()).filter(|at| scores.get(*at).is_some_and(|score| self.keeps(score, strict))).collect();
        let cost = |at: &usize| scores.get(*at).map_or(f64::INFINITY, |score| score.cost);
        keeping.sort_by(|a, b| cost(a).total_cmp(&cost(b)).then(a.cmp(b)));
        let chosen = |at: usize, kept: bool| {
            let ((rule, hedge), score) = (settings.get(at)?, scores.get(at)?);
            let tried = settings.len();
            Some(ChosenSetting { rule: *rule, hedge: *hedge, score: *score, kept, as_good: kept, late: None, tried })
        };
        // (In time of the grown ones, setting): the best so far that does not keep the target when there are more.
        let mut next_best: Option<(u64, usize)> = None;
        // Scores of the first of those that keep it, when there are more: as many at a time as there are threads.
        let mut more: Vec<ServingScore> = Vec::new();
        let mut from = 0;
        for part in keeping.chunk_by(|a, b| cost(a).total_cmp(&cost(b)).is_eq()) {
            let to = from + part.len();
            if more.len() < to {
                let next = to.max(more.len() + rayon::current_num_threads()).min(keeping.len());
                let next = keeping.get(more.len()..next).unwrap_or_default();
                let of: Vec<ScalingSetting> = next.iter().filter_map(|at| settings.get(*at)).copied().collect();
                more.extend(within.grown.scores(&of, within.load, within.initial, within.window));
            }
            let mut best: Option<(u64, usize)> = None;
            for (at, score) in part.iter().zip(more.get(from..to).unwrap_or_default()) {
                let place = if self.keeps(score, strict) { &mut best } else { &mut next_best };
                if place.is_none_or(|(in_time, _)| score.in_time > in_time) {
                    *place = Some((score.in_time, *at));
                }
            }
            if let Some((_, at)) = best {
                return chosen(at, true);
            }
            from = to;
        }
        if let Some((_, at)) = next_best {
            return chosen(at, false);
        }
        let in_time = |at: &usize| scores.get(*at).map_or(0, |score| score.in_time);
        let most = (0..settings.len()).min_by(|a, b| in_time(b).cmp(&in_time(a)).then(cost(a).total_cmp(&cost(b))));
        chosen(most?, false)
    }

    /// The fewest replicas at all times that keep the target in a window. O(log) replays from half of the work upwards, then one by one. Where too many requests are late
    /// even alone no number keeps it, and what is found are as many as the work.
    pub fn fewest(&self, target: ServingTarget, load: ServingLoad, window: Span) -> ChosenSetting {
        let mut tried = 0;
        let mut try_with = |replicas: u32| {
            tried += 1;
            let rule = ServingRule::Constant { replicas };
            let score = self.scored(rule, None, load, replicas, window);
            let kept = self.keeps(&score, target);
            ChosenSetting { rule, hedge: None, score, kept, as_good: kept, late: None, tried }
        };
        let work: f64 = loads(self.until(window.1), &load, (window.0, window.1 - window.0), 1).iter().sum();
        let (requests, late) = self.late_alone(target, window);
        if late > target.may_miss(requests) {
            return try_with(work.ceil().clamp(1.0, 2048.0) as u32);
        }
        let mut replicas = (work / 2.0).floor().clamp(1.0, 2048.0) as u32;
        let mut result = try_with(replicas);
        while !result.kept && replicas < MOST_REPLICAS && u64::from(replicas) <= result.score.requests {
            replicas += (replicas / 16).max(1);
            result = try_with(replicas);
        }
        while result.kept && replicas > 1 {
            let fewer = try_with(replicas - 1);
            if !fewer.kept {
                break;
            }
            replicas -= 1;
            result = fewer;
        }
        ChosenSetting { tried, ..result }
    }

    /// Slots of a time.
    fn slots_of(&self, seconds: u32) -> u32 {
        ((i64::from(seconds) * 1_000_000 + self.slot_us / 2) / self.slot_us).max(1) as u32
    }

    /// Lengths of time as slots, without those that are the same.
    fn different(&self, seconds: &[u32]) -> Vec<u32> {
        let mut result: Vec<u32> = seconds.iter().map(|seconds| self.slots_of(*seconds)).collect();
        result.dedup();
        result
    }

    /// Fewest replicas that rules try which scale, where `constant` ones are enough: one, a third, two thirds. A rule with as many as the constant is the constant.
    fn leasts(constant: u32) -> Vec<u32> {
        let mut result = vec![1, constant.div_ceil(3), (2 * constant / 3).max(1)];
        result.sort_unstable();
        result.dedup();
        result
    }

    /// Requests in flight for each replica that reactive rules try.
    fn targets(&self) -> Vec<u32> {
        let batch = self.service.max_batch() as u32;
        let mut result: Vec<u32> = TARGETS.iter().map(|part| (batch * part + 24) / 48).chain(FEW).collect();
        result.retain(|target| *target > 0 && *target <= 2 * batch);
        result.sort_unstable();
        result.dedup();
        result
    }

    /// Reactive settings: all of them, or with the window that Kubernetes takes where nothing is said and at least one replica.
    pub fn reactive_settings(&self, initial: u32, default_only: bool) -> Vec<ScalingSetting> {
        let holds = if default_only { vec![self.slots_of(DEFAULT_HOLD_S)] } else { self.different(&HOLDS_S) };
        let leasts = if default_only { vec![1] } else { Self::leasts(initial) };
        let mut settings = Vec::new();
        for target in self.targets() {
            for hold in &holds {
                for least in &leasts {
                    let rule = ServingRule::Reactive { target, least: *least, hold_slots: *hold };
                    settings.push((rule, None));
                }
            }
        }
        settings
    }

    /// Constant settings: as many as are enough, and up to twice that.
    pub fn constant_settings(initial: u32) -> Vec<ScalingSetting> {
        (initial..=initial.saturating_mul(2).min(MOST_REPLICAS))
            .map(|replicas| (ServingRule::Constant { replicas }, None))
            .collect()
    }

    /// Forecast settings with what each did; their margins are of the loads before the end of the window. The cheapest are tried with guards, too.
    pub fn forecasts(&self, within: &ChoosingIn<'_>) -> TriedSettings {
        let known = self.loads(&within.load, within.window.1);
        let ahead = self.service.start_slots(self.slot_us);
        let mut settings: Vec<ScalingSetting> = Vec::new();
        for window_slots in self.different(&LEVELS_S) {
            for by_root in [false, true] {
                let beyond = residuals(&known, window_slots as usize, ahead, by_root);
                if beyond.is_empty() {
                    continue;
                }
                for share in QUANTILES {
                    let of = rank::nearest_sorted(&beyond, share).unwrap_or(0.0);
                    let (margin, root) = if by_root { (0.0, of) } else { (of, 0.0) };
                    for use_share in USES {
                        for hold_slots in self.different(&HOLDS_S) {
                            settings.extend(Self::leasts(within.initial).into_iter().map(|least| {
                                let (quantile, guard) = (share, None);
                                let rule = ServingRule::Forecast {
                                    window_slots,
                                    quantile,
                                    margin,
                                    root,
                                    use_share,
                                    guard,
                                    least,
                                    hold_slots,
                                };
                                (rule, None)
                            }));
                        }
                    }
                }
            }
        }
        let mut tried = self.tried(settings, within);
        let more = self.tried(self.guarded(&tried), within);
        tried.settings.extend(more.settings);
        tried.scores.extend(more.scores);
        tried
    }

    /// The cheapest forecasts that keep the target without its reserve, with guards.
    fn guarded(&self, tried: &TriedSettings) -> Vec<ScalingSetting> {
        let mut keeping: Vec<(&ScalingSetting, f64)> = tried
            .settings
            .iter()
            .zip(&tried.scores)
            .filter(|(_, score)| self.keeps(score, self.target))
            .map(|(setting, score)| (setting, score.cost))
            .collect();
        keeping.sort_by(|(_, a), (_, b)| a.total_cmp(b));
        let batch = self.service.max_batch() as u32;
        let mut guards: Vec<u32> = GUARDS.iter().map(|part| batch.div_ceil(*part)).collect();
        guards.dedup();
        let with = |rule: ServingRule, most: u32| match rule {
            ServingRule::Forecast { window_slots, quantile, margin, root, use_share, least, hold_slots, .. } => {
                let guard = Some(most);
                ServingRule::Forecast { window_slots, quantile, margin, root, use_share, guard, least, hold_slots }
            }
            other => other,
        };
        let cheapest = keeping.into_iter().take(GUARDED);
        cheapest.flat_map(|((rule, _), _)| guards.iter().map(move |most| (with(*rule, *most), None))).collect()
    }

    /// A rule with spot beside it: how many more.
    pub fn hedged_settings(rule: ServingRule) -> Vec<ScalingSetting> {
        (0..=MOST_EXTRA).map(|extra| (rule, Some(SpotHedge { extra }))).collect()
    }
}

impl TriedSettings {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.settings.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.settings.len()
    }
}

#[cfg(test)]
mod tests;
