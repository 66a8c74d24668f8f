//! The test on the later half, as it is told.
//!
//! O(policies × blocks × draws). Worked example: where the tuned reactive rule missed the target when it was chosen, what is chosen is held against the defaults, which run without a plan.

use tracecast_analytics::report::format;
use tracecast_analytics::time::DAY_MS;

use super::super::choose::{ServingCase, ServingScore};
use super::super::heldout::{BLOCKS, ServingPolicy, ServingSplit, ServingTest, TestedPolicy};
use super::super::rule::ServingRule;
use super::windows::ServingWindowSum;
use super::{Moments, ServingFigures, ServingReferenceRow, ServingTrial, advise};
use crate::error::Result;
use crate::plan::forecast::{Driven, ForecastUsed, ForecastWords, Forecasting};
use crate::plan::interval::{self, ratio};
use crate::plan::trial::{NoMore, Priced, Roles, Trial};
use crate::plan::window::Stretches;
use crate::replay::compare::IntervalEstimate;

/// Replicas of a few policies over the later half, for the chart.
pub(super) fn curves(tested: &ServingTest, split: &ServingSplit, from_us: i64) -> Vec<(String, Vec<(f64, f64)>)> {
    let hours = |us: i64| (us - from_us) as f64 / 3.6e9;
    let shown = [tested.best, ServingPolicy::Reactive, ServingPolicy::Hindsight];
    let mut result: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
    for policy in shown.iter().filter_map(|by| tested.policy(*by)) {
        let name = policy.by.in_words().to_owned();
        if result.iter().all(|(other, _)| *other != name) {
            let inside = policy.wanted.iter().filter(|(at, _)| *at < split.end_us);
            result.push((name, inside.map(|(at, count)| (hours(*at), f64::from(*count))).collect()));
        }
    }
    result
}

/// The test, and the chosen policy beside each reactive rule that is not it.
pub(super) fn trial(
    case: &ServingCase<'_>,
    tested: &ServingTest,
    split: &ServingSplit,
    told: &Moments<'_>,
) -> Result<(ServingTrial, Vec<ServingReferenceRow>)> {
    let words = |by: ServingPolicy| match (by, case.spot) {
        (ServingPolicy::Hindsight, Some(_)) => format!("{}, on demand only", by.in_words()),
        _ => by.in_words().to_owned(),
    };
    let priced = |policy: &TestedPolicy| Priced {
        id: policy.by,
        words: words(policy.by),
        kept: case.keeps(&policy.later, case.target),
        windows: vec![(policy.later.cost, NoMore {})],
        blocks: policy.blocks.iter().map(|score| score.cost).collect(),
        figures: ServingFigures {
            rule: policy.setting.map(|(rule, _)| rule),
            hedge: policy.setting.and_then(|(_, hedge)| hedge),
            setting: policy.setting.map_or_else(
                || "replicas by stretch, started ahead of time".to_owned(),
                |(rule, hedge)| advise::setting(&rule, hedge, case.slot_us),
            ),
            tried: policy.chosen.map_or(0, |chosen| chosen.tried as u64),
            kept_when_chosen: policy.chosen.map(|chosen| chosen.kept),
            as_good_as_reactive: policy.chosen.map(|chosen| chosen.as_good),
            earlier: policy.chosen.map(|chosen| chosen.score),
            later: policy.later,
        },
    };
    let priced: Vec<_> = tested.policies.iter().map(priced).collect();
    let kept = |by: ServingPolicy| tested.policy(by).and_then(|policy| policy.chosen).is_some_and(|chosen| chosen.kept);
    let baseline = match tested.best {
        ServingPolicy::Reactive => ServingPolicy::ReactiveDefault,
        _ if kept(ServingPolicy::Reactive) => ServingPolicy::Reactive,
        // Nobody would set a reactive rule that missed the target when it was chosen; the defaults are what runs without a plan.
        _ if tested.policy(ServingPolicy::ReactiveDefault).is_some() => ServingPolicy::ReactiveDefault,
        // Nothing kept the target on the earlier half, so nothing else was tried.
        _ => ServingPolicy::Peak,
    };
    let cost = |by: ServingPolicy| tested.policy(by).map_or(f64::INFINITY, |policy| policy.later.cost);
    let keeping = priced.iter().filter(|rule| rule.kept).map(|rule| rule.id);
    let roles = Roles {
        plan: tested.best,
        baseline,
        simplest: ServingPolicy::Constant,
        naive: ServingPolicy::Peak,
        oracle: keeping.min_by(|a, b| cost(*a).total_cmp(&cost(*b))).unwrap_or(tested.best),
    };
    let stretches = Stretches {
        chosen_from: told.moment(split.warm_us),
        split: told.moment(split.split_us),
        chosen_on: "the earlier half".to_owned(),
        windows: vec![(told.moment(split.split_us), told.moment(split.end_us))],
        per: "on the later half",
        spans: 1.0,
        interval: format!("95 % of {} draws of {BLOCKS} parts of the later half", format::count(interval::DRAWS)),
        is_long: split.end_us - split.split_us >= DAY_MS * 1000,
    };
    let reactive = [ServingPolicy::ReactiveDefault, ServingPolicy::Reactive].into_iter();
    let others = reactive.filter(|by| *by != tested.best).filter_map(|by| tested.policy(by));
    let best = tested.policy(tested.best).map_or(&[][..], |best| &best.blocks);
    let beside = others.map(|other| {
        let [saving, more_in_time] = beyond(best, &other.blocks);
        ServingReferenceRow { by: other.by, kept_when_chosen: kept(other.by), saving, more_in_time }
    });
    Ok((Trial::new(told.unit, &priced, roles, stretches)?, beside.collect()))
}

/// What the forecast of the load is worth: the reactive rule goes by what is in flight, the schedule
/// with hindsight knows all requests.
pub(super) fn forecasting(tested: &ServingTest, split: &ServingSplit, unit: &str, naive_only: bool) -> Forecasting {
    let of = |by: ServingPolicy| tested.policy(by);
    let naive = of(ServingPolicy::Reactive).or_else(|| of(ServingPolicy::ReactiveDefault));
    let (Some(naive), Some(truth)) = (naive, of(ServingPolicy::Hindsight)) else {
        return Forecasting::none(
            "no number of replicas kept the target on the earlier half, or no schedule does on the later",
        );
    };
    let model = of(ServingPolicy::Forecast);
    // The schedule is scored as one: each part has the share of its cost that it has of its replicas.
    let blocks = naive.blocks.len();
    let mut truths = vec![0.0; blocks];
    let all: f64 = truth.wanted.iter().map(|(_, replicas)| f64::from(*replicas)).sum();
    let long_us = (split.end_us - split.split_us).max(1) as f64;
    for (at_us, replicas) in &truth.wanted {
        let part = ((at_us - split.split_us) as f64 / long_us * blocks as f64) as usize;
        if let Some(sum) = truths.get_mut(part.min(blocks.saturating_sub(1))) {
            *sum += truth.later.cost * f64::from(*replicas) / all.max(1.0);
        }
    }
    let costs = |policy: &TestedPolicy| policy.blocks.iter().map(|score| score.cost).collect::<Vec<f64>>();
    let driven = Driven::blocks(&costs(naive), model.map(costs).as_deref(), &truths);
    let hedged = of(ServingPolicy::Spot).and_then(|policy| policy.setting).map(|(rule, _)| rule);
    let rests_on_forecast = matches!(hedged, Some(ServingRule::Forecast { .. }));
    let used = match tested.best {
        ServingPolicy::Forecast => ForecastUsed::Model,
        ServingPolicy::Spot if rests_on_forecast => ForecastUsed::Model,
        ServingPolicy::Constant | ServingPolicy::Peak => ForecastUsed::None,
        _ => ForecastUsed::Naive,
    };
    let why = match (used, model) {
        (_, None) if naive_only => Some("no rule by a forecast was to be chosen".to_owned()),
        (_, None) => Some("no setting by a forecast kept the target on the earlier half".to_owned()),
        (ForecastUsed::Model, _) => None,
        _ => Some("another rule was chosen on the earlier half".to_owned()),
    };
    let words = ForecastWords {
        forecast: "the load of requests",
        naive: "the load now (reactive)",
        model: "the forecast rule",
        metric: "cost of the replicas on the later half",
        unit,
    };
    Forecasting::new(&words, &driven, 1.0, used, why)
}

/// What one policy saved of the cost of another, and the share of the requests that it served in time beyond that one.
fn beyond(best: &[ServingScore], other: &[ServingScore]) -> [IntervalEstimate; 2] {
    interval::drawn(best.len(), &|held| {
        let held: Vec<usize> = held.collect();
        let of = |scores: &[ServingScore]| ServingWindowSum::new(held.iter().filter_map(|at| scores.get(*at)));
        let (best, other) = (of(best), of(other));
        [1.0 - ratio(best.cost, other.cost), best.attained() - other.attained()]
    })
}
