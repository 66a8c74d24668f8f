//! The test on the later half: what was chosen before it, beside usual rules, the best schedule with hindsight, and the bound.
//!
//! The log is cut in time: the first fifth of what comes before the split fills the replicas, settings are chosen on the rest of it, and what follows the split is
//! reported on. Every rule runs from the
//! beginning of the log, so it comes to the split with the replicas that it has then; what it costs and serves is counted from there on. The best schedule with hindsight
//! begins at the split, with replicas that are up.
//!
//! O(settings × replay). Worked example: of an hour, minutes 6 to 30 are chosen on and minutes 30 to 60 reported on.

use schemars::JsonSchema;
use serde::Serialize;

use super::choose::{
    ChoosingIn, ChosenSetting, Finalist, ScalingSetting, ServingCase, ServingScore, Span, TriedSettings, grown,
    most_for_safety, safest,
};
use super::optimum::bound_s;
use super::rule::{ServingLoad, ServingRule, SpotHedge};
use crate::error::{Error, Result};

/// More requests that a setting must be good for, a share.
pub const MORE: f64 = 0.2;
/// More requests that are counted where rules are told against the reactive one, a share.
const FAR_MORE: f64 = 0.5;
/// Parts of the later half that intervals draw.
pub const BLOCKS: usize = 10;
/// Fewest requests of a part of the log.
const LEAST_REQUESTS: usize = 100;
/// Fewest slots of a half.
const LEAST_SLOTS: i64 = 10;

/// What decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ServingPolicy {
    /// Constant, for the busiest slot before the split at full use.
    Peak,
    /// The fewest at all times that kept the target before the split.
    Constant,
    /// Reactive, with the stabilisation window of Kubernetes and no least number.
    ReactiveDefault,
    /// Reactive, all settings chosen.
    Reactive,
    /// By a forecast, all settings chosen.
    Forecast,
    /// The cheapest of these on spot with more replicas than it asks for, and on demand where spot is not there.
    Spot,
    /// The cheapest reactive setting on the later half itself that serves as many in time as the chosen policy there.
    ReactiveMatched,
    /// The best schedule found with hindsight.
    Hindsight,
}

impl ServingPolicy {
    /// Name in words.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Peak => "constant at the earlier peak",
            Self::Constant => "constant, as the earlier half needs",
            Self::ReactiveDefault => "reactive, with the defaults of Kubernetes",
            Self::Reactive => "reactive",
            Self::Forecast => "forecast",
            Self::Spot => "on spot, with on-demand behind it",
            Self::ReactiveMatched => "reactive, chosen with hindsight to serve as many in time",
            Self::Hindsight => "best schedule found with hindsight",
        }
    }

    /// Whether it may be advised.
    pub fn can_be_advised(self) -> bool {
        matches!(self, Self::Constant | Self::Reactive | Self::Forecast | Self::Spot)
    }
}

/// How the log is cut, microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServingSplit {
    /// Settings are scored from here on.
    pub warm_us: i64,
    /// Until here, and reported on from here on.
    pub split_us: i64,
    /// The end.
    pub end_us: i64,
}

impl ServingSplit {
    /// Cuts a log of a case in the middle, or at `asked_us`.
    ///
    /// # Errors
    /// With too few requests or slots on either side.
    pub fn new(case: &ServingCase<'_>, asked_us: Option<i64>) -> Result<Self> {
        let (from, end) = (case.from_us, case.requests.last().map_or(case.from_us, |last| last.at_us) + 1);
        let split = asked_us.unwrap_or(from + (end - from) / 2);
        let result = Self { warm_us: from + (split - from) / 5, split_us: split, end_us: end };
        let before = case.within(result.earlier()).len();
        let after = case.requests.len() - case.until(split).len();
        for (what, count, span) in [("before", before, split - result.warm_us), ("after", after, end - split)] {
            if count < LEAST_REQUESTS || span < LEAST_SLOTS * case.slot_us {
                return Err(Error::NothingToEvaluate(format!(
                    "there are {count} requests and {} slots {what} the split, and {LEAST_REQUESTS} requests and {LEAST_SLOTS} slots are the least to plan with; give a longer log, a shorter --slot, or another --eval-from",
                    (span / case.slot_us).max(0)
                )));
            }
        }
        Ok(result)
    }

    /// Where settings are chosen.
    pub fn earlier(&self) -> Span {
        (self.warm_us, self.split_us)
    }

    /// Span that policies are reported on.
    pub fn later(&self) -> Span {
        (self.split_us, self.end_us)
    }

    /// Parts of the later half that are drawn.
    fn blocks(&self) -> Vec<Span> {
        let (from, to) = self.later();
        let at = |number: usize| from + (to - from) * number as i64 / BLOCKS as i64;
        (0..BLOCKS).map(|number| (at(number), at(number + 1))).collect()
    }
}

/// A policy on the later half.
#[derive(Debug, Clone, PartialEq)]
pub struct TestedPolicy {
    /// Policy that is tested.
    pub by: ServingPolicy,
    /// Setting of the rule; none for a schedule.
    pub setting: Option<(ServingRule, Option<SpotHedge>)>,
    /// Result of the choice; none for what was not chosen beforehand.
    pub chosen: Option<ChosenSetting>,
    /// Score on the later half.
    pub later: ServingScore,
    /// Score in each part of the later half.
    pub blocks: Vec<ServingScore>,
    /// Replicas that were wanted, by the slot's beginning (microseconds): what is drawn.
    pub wanted: Vec<(i64, u32)>,
}

/// The test.
#[derive(Debug, Clone, PartialEq)]
pub struct ServingTest {
    /// Policies.
    pub policies: Vec<TestedPolicy>,
    /// The one that is taken of those that can be advised, by the earlier half.
    pub best: ServingPolicy,
    /// Constants that were tried, where that is one of them: the fewest and the most replicas.
    pub constants_tried: Option<[u32; 2]>,
    /// Loads as they were known at the split.
    pub load: ServingLoad,
    /// Replicas that are up at the beginning.
    pub initial: u32,
    /// Hours of replicas that no schedule gets by without.
    pub bound_h: f64,
}

/// Settings that were chosen in a window: the constant first.
#[derive(Debug, Clone, PartialEq)]
pub struct ServingChoice {
    /// Loads as they were known at its end.
    pub load: ServingLoad,
    /// Replicas of the constant that is enough.
    pub initial: u32,
    /// Policies and their settings.
    pub by: Vec<(ServingPolicy, ChosenSetting)>,
    /// Policy that is taken.
    pub best: ServingPolicy,
}

impl ServingChoice {
    /// A policy.
    pub fn policy(&self, by: ServingPolicy) -> Option<&ChosenSetting> {
        self.by.iter().find(|of| of.0 == by).map(|of| &of.1)
    }

    /// The fewest and the most replicas of the constants that were tried, where `by` is a constant that kept the target: fewer than these do not keep it.
    pub fn constants_tried(&self, by: ServingPolicy) -> Option<[u32; 2]> {
        let kept = by == ServingPolicy::Constant && self.policy(by).is_some_and(|chosen| chosen.kept);
        let tried = ServingCase::constant_settings(self.initial);
        let replicas = |setting: Option<&ScalingSetting>| match setting {
            Some((ServingRule::Constant { replicas }, _)) => *replicas,
            _ => self.initial,
        };
        kept.then(|| [replicas(tried.first()), replicas(tried.last())])
    }
}

/// The cheapest that can be advised: of those that kept the target with its reserve, if there are any.
fn cheapest(by: &[(ServingPolicy, ChosenSetting)]) -> ServingPolicy {
    let order = |of: &&(ServingPolicy, ChosenSetting)| {
        let score = of.1.score;
        (!of.1.kept, if of.1.kept { 0 } else { score.late() }, score.cost)
    };
    let best = by.iter().filter(|of| of.0.can_be_advised()).min_by(|a, b| {
        let (a, b) = (order(a), order(b));
        (a.0, a.1).cmp(&(b.0, b.1)).then(a.2.total_cmp(&b.2))
    });
    best.map_or(ServingPolicy::Constant, |of| of.0)
}

/// The policy with the fewest late requests of those that are as good as the reactive rule; the
/// reactive rule, if there is none.
fn fewest_late(by: &[(ServingPolicy, ChosenSetting)]) -> ServingPolicy {
    let safe = by.iter().filter(|of| of.0.can_be_advised() && of.1.as_good);
    let order = |of: &(ServingPolicy, ChosenSetting)| of.1.late.unwrap_or(u64::MAX);
    let best = safe.min_by(|a, b| order(a).cmp(&order(b)).then(a.1.score.cost.total_cmp(&b.1.score.cost)));
    best.map_or(ServingPolicy::Reactive, |of| of.0)
}

/// Whether some number of replicas at all times keeps the target with its reserve in a window, also if a fifth more requests came. Where none does, nothing is chosen.
pub fn is_enough(case: &ServingCase<'_>, window: Span) -> bool {
    let known = case.until(window.1);
    let load = ServingLoad::new(case.service, known);
    let strict = case.target.with_reserve();
    let more = || grown(known, MORE);
    case.fewest(strict, load, window).kept
        && ServingCase { requests: &more(), ..*case }.fewest(strict, load, window).kept
}

/// Chooses the settings of all policies in a window, or of `only` one beside the constant and the reactive rule. Where no constant number keeps the target with its reserve,
/// nothing else is tried.
pub fn choose(case: &ServingCase<'_>, window: Span, only: Option<ServingPolicy>) -> ServingChoice {
    let known = case.until(window.1);
    let load = ServingLoad::new(case.service, known);
    let (more, far_more) = (grown(known, MORE), grown(known, FAR_MORE));
    let (grown, far_grown) = (ServingCase { requests: &more, ..*case }, ServingCase { requests: &far_more, ..*case });
    let strict = case.target.with_reserve();
    let (now, then) = (case.fewest(strict, load, window), grown.fewest(strict, load, window));
    let replicas = |chosen: &ChosenSetting| match chosen.rule {
        ServingRule::Constant { replicas } => replicas,
        _ => 1,
    };
    let initial = replicas(&now).max(replicas(&then));
    let within = ChoosingIn { grown: &grown, far_grown: &far_grown, load, initial, window };
    let constant = |replicas: u32| {
        let rule = ServingRule::Constant { replicas };
        let score = case.scored(rule, None, load, initial, window);
        let kept = case.keeps(&score, strict);
        ChosenSetting { rule, hedge: None, score, kept, as_good: kept, late: None, tried: 1 }
    };
    let peak = case.loads(&load, window.1).into_iter().fold(1.0, f64::max).ceil();
    let kept = now.kept && then.kept;
    let fewest = ChosenSetting { kept, as_good: kept, tried: now.tried + then.tried, ..constant(initial) };
    let mut by = vec![(ServingPolicy::Peak, constant(peak as u32)), (ServingPolicy::Constant, fewest)];
    // What no constant number keeps, no rule does that scales.
    if !kept {
        return ServingChoice { load, initial, by, best: ServingPolicy::Constant };
    }
    let request = |policy: ServingPolicy| only.is_none_or(|only| only == policy || only == ServingPolicy::Spot);
    let reactive = |default_only| {
        let tried = case.tried(case.reactive_settings(initial, default_only), &within);
        case.cheapest(&tried, &within)
    };
    if request(ServingPolicy::ReactiveDefault) {
        by.extend(reactive(true).map(|chosen| (ServingPolicy::ReactiveDefault, chosen)));
    }
    let tuned = reactive(false);
    let bar = tuned.as_ref().and_then(|chosen| within.bar(case, chosen));
    by.extend(tuned.map(|chosen| (ServingPolicy::Reactive, chosen)));
    let mut others = vec![(ServingPolicy::Constant, case.tried(ServingCase::constant_settings(initial), &within))];
    if !case.naive && request(ServingPolicy::Forecast) {
        others.push((ServingPolicy::Forecast, case.forecasts(&within)));
    }
    // A start that takes longer than the log has no forecast to try.
    others.retain(|(_, tried)| !tried.is_empty());
    let set = |by: &mut Vec<(ServingPolicy, ChosenSetting)>, policy: ServingPolicy, chosen: ChosenSetting| match by
        .iter_mut()
        .find(|of| of.0 == policy)
    {
        Some(of) => of.1 = ChosenSetting { tried: of.1.tried + chosen.tried, ..chosen },
        None => by.push((policy, chosen)),
    };
    let as_good = |tried: &TriedSettings| -> Vec<Finalist> {
        bar.as_ref().map_or_else(Vec::new, |bar| case.finalists(tried, &within, bar))
    };
    // What is not as good is told as it would be chosen alone.
    let alone = |tried: &TriedSettings| {
        case.cheapest(tried, &within).map(|one| ChosenSetting { as_good: bar.is_none(), ..one })
    };
    let finalists: Vec<Vec<Finalist>> = others.iter().map(|(_, tried)| as_good(tried)).collect();
    let most = bar.as_ref().and_then(|bar| most_for_safety(finalists.iter().flatten(), bar));
    for ((policy, tried), finalists) in others.iter().zip(&finalists) {
        let safe = most.and_then(|most| safest(finalists, most)).map(|one| one.chosen(tried.len()));
        match (safe, policy) {
            (Some(chosen), _) => set(&mut by, *policy, chosen),
            (None, ServingPolicy::Forecast) => {
                if let Some(chosen) = alone(tried) {
                    set(&mut by, *policy, chosen);
                }
            }
            (None, _) => by.iter_mut().filter(|of| of.0 == *policy).for_each(|of| of.1.as_good = bar.is_none()),
        }
    }
    let mut best = if bar.is_some() { fewest_late(&by) } else { cheapest(&by) };
    if case.spot.is_some() && request(ServingPolicy::Spot) {
        let inside = by.iter().find(|of| of.0 == best).map_or(fewest, |of| of.1);
        let tried = case.tried(ServingCase::hedged_settings(inside.rule), &within);
        let safe = safest(&as_good(&tried), f64::INFINITY).map(|one| one.chosen(tried.len()));
        if let Some(hedged) = safe.or_else(|| alone(&tried)) {
            if hedged.kept && hedged.as_good && hedged.score.cost < inside.score.cost {
                best = ServingPolicy::Spot;
            }
            by.push((ServingPolicy::Spot, hedged));
        }
    }
    ServingChoice { load, initial, by, best }
}

/// Reports on the later half what was chosen on the earlier one. Where nothing kept the target there, hindsight is not asked either.
pub fn test(case: &ServingCase<'_>, split: &ServingSplit, choice: &ServingChoice) -> ServingTest {
    let any = choice.by.iter().any(|(by, chosen)| *by == ServingPolicy::Constant && chosen.kept);
    let blocks = split.blocks();
    let slots = case.slots(split.end_us);
    let tested = |by: ServingPolicy, chosen: &ChosenSetting, known: bool| {
        let replayed = case.run(chosen.rule, chosen.hedge, choice.load, choice.initial, split.end_us);
        let score = |window: Span| case.score(case.requests, &replayed, slots, window);
        let wanted = replayed.wanted.iter().enumerate().map(|(slot, of)| (slots.at(slot), of.on_demand + of.spot));
        TestedPolicy {
            by,
            setting: Some((chosen.rule, chosen.hedge)),
            chosen: known.then_some(*chosen),
            later: score(split.later()),
            blocks: blocks.iter().map(|block| score(*block)).collect(),
            wanted: wanted.filter(|(at, _)| *at >= split.split_us).collect(),
        }
    };
    let mut policies: Vec<TestedPolicy> = choice.by.iter().map(|(by, chosen)| tested(*by, chosen, true)).collect();
    let best = choice.best;
    let enough = policies.iter().find(|policy| policy.by == best).map_or(0, |policy| policy.later.in_time);
    // Reactive with the best of chances: the later half is looked at to choose it.
    let settings = if any { case.reactive_settings(choice.initial, false) } else { Vec::new() };
    let scores = case.scores(&settings, choice.load, choice.initial, split.later());
    let matched = settings.iter().zip(&scores).filter(|(_, score)| score.in_time >= enough);
    if let Some(((rule, hedge), score)) = matched.min_by(|a, b| a.1.cost.total_cmp(&b.1.cost)) {
        let (kept, tried) = (true, settings.len());
        let chosen =
            ChosenSetting { rule: *rule, hedge: *hedge, score: *score, kept, as_good: kept, late: None, tried };
        policies.push(tested(ServingPolicy::ReactiveMatched, &chosen, false));
    }
    if let Some(result) = any.then(|| case.oracle(choice.load, split.later())).flatten() {
        policies.push(TestedPolicy {
            by: ServingPolicy::Hindsight,
            setting: None,
            chosen: None,
            later: result.score,
            blocks: Vec::new(),
            wanted: result
                .counts
                .iter()
                .zip(0i64..)
                .map(|(count, slot)| (split.split_us + slot * case.slot_us, *count))
                .collect(),
        });
    }
    let bound_h = bound_s(case.requests, case.service, case.target, split.later()) / 3600.0;
    let constants_tried = choice.constants_tried(best);
    ServingTest { policies, best, constants_tried, load: choice.load, initial: choice.initial, bound_h }
}

impl ServingTest {
    /// A policy.
    pub fn policy(&self, by: ServingPolicy) -> Option<&TestedPolicy> {
        self.policies.iter().find(|policy| policy.by == by)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::super::choose::{ReplicaPrice, ServedStandard};
    use super::super::requests::LoggedRequest;
    use super::super::service::ReplicaService;
    use super::super::service::tests::EXAMPLE;
    use super::super::target::ServingTarget;
    use super::*;

    const MINUTE_US: i64 = 60_000_000;

    fn request() -> impl Strategy<Value = LoggedRequest> {
        (0..6 * MINUTE_US, 100u32..6_000, 1u32..60).prop_map(|(at_us, input, output)| LoggedRequest {
            at_us,
            input,
            output,
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]

        /// What is chosen at six minutes is the same, whatever comes after them, and whatever spot there is then.
        #[test]
        fn what_comes_after_the_split_chooses_nothing(
            earlier in proptest::collection::vec(request(), 120),
            later in proptest::collection::vec(request(), 50),
            others in proptest::collection::vec(request(), 80),
        ) {
            let service = ReplicaService::parse("s.toml", &EXAMPLE.replace("90s", "30s")).unwrap();
            let chosen = |after: &[LoggedRequest], spot_after: u32| {
                let moved = after.iter().map(|one| LoggedRequest { at_us: one.at_us + 6 * MINUTE_US, ..*one });
                let mut requests: Vec<LoggedRequest> = earlier.iter().copied().chain(moved).collect();
                requests.sort_by_key(|one| one.at_us);
                let spot = |at_us: i64| if at_us < 6 * MINUTE_US { u32::from(at_us % (2 * MINUTE_US) < MINUTE_US) * 3 } else { spot_after };
                let case = ServingCase {
                    service: &service,
                    target: ServingTarget { ttft_s: 4.0, tpot_s: 0.5, share: 0.9 },
                    requests: &requests,
                    from_us: 0,
                    slot_us: MINUTE_US / 2,
                    price: ReplicaPrice { on_demand: 1.0, spot: 0.4 },
                    spot: Some(&spot),
                    standard: ServedStandard::Reactive,
                    naive: false,
                };
                choose(&case, (MINUTE_US, 6 * MINUTE_US), None)
            };
            let (result, other) = (chosen(&later, 0), chosen(&others, 9));
            prop_assert!(result.by.iter().any(|(by, _)| *by == ServingPolicy::Spot), "{result:?}");
            // What is taken in place of a reactive rule that kept the target is late with no more than it, and costs less.
            let of = |by| result.policy(by).copied();
            if let Some((reactive, best)) = of(ServingPolicy::Reactive).zip(of(result.best)).filter(|(rule, _)| rule.kept) {
                prop_assert!(best.as_good && best.score.late() <= reactive.score.late(), "{result:?}");
            }
            prop_assert_eq!(result, other);
        }
    }
}
