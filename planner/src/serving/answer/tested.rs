//! The test on the later half, as it is told.
//!
//! O(policies × blocks × draws). Worked example: where the tuned reactive rule missed the target when it was chosen, what is chosen is held against the defaults, which run without a plan.

use tracecast_analytics::report::format;

use super::super::choose::{ServingCase, ServingScore};
use super::super::heldout::{ServingPolicy, ServingSplit, ServingTest, TestedPolicy};
use super::windows::{ServingReferenceRow, ServingWindowRow};
use super::{Moments, ServingHeldOut, ServingPolicyRow, advise};
use crate::error::{Error, Result};
use crate::plan::interval::{self, ratio};

/// Replicas of a few policies over the later half, for the chart.
pub(super) fn curves(tested: &ServingTest, split: &ServingSplit, from_us: i64) -> Vec<(String, Vec<(f64, f64)>)> {
    let hours = |us: i64| (us - from_us) as f64 / 3.6e9;
    let shown = [tested.best, ServingPolicy::Reactive, ServingPolicy::Hindsight];
    let mut found: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
    for policy in shown.iter().filter_map(|by| tested.policy(*by)) {
        let name = policy.by.in_words().to_owned();
        if found.iter().all(|(other, _)| *other != name) {
            let inside = policy.wanted.iter().filter(|(at, _)| *at < split.end_us);
            found.push((name, inside.map(|(at, count)| (hours(*at), f64::from(*count))).collect()));
        }
    }
    found
}

/// The test as it is told.
pub(super) fn held_out(
    case: &ServingCase<'_>,
    tested: &ServingTest,
    split: &ServingSplit,
    (told, windows): (&Moments, Vec<ServingWindowRow>),
) -> Result<ServingHeldOut> {
    let keeps = |score: &ServingScore| case.keeps(score, case.target);
    let what = |by: ServingPolicy| match (by, case.spot) {
        (ServingPolicy::Hindsight, Some(_)) => format!("{}, on demand only", by.in_words()),
        _ => by.in_words().to_owned(),
    };
    let row = |policy: &TestedPolicy| ServingPolicyRow {
        by: policy.by,
        what: what(policy.by),
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
        keeps: keeps(&policy.later),
    };
    let kept = |by: ServingPolicy| tested.policy(by).and_then(|policy| policy.chosen).is_some_and(|chosen| chosen.kept);
    let against = match tested.best {
        ServingPolicy::Reactive => ServingPolicy::ReactiveDefault,
        _ if kept(ServingPolicy::Reactive) => ServingPolicy::Reactive,
        // Nobody would set a reactive rule that missed the target when it was chosen; the defaults are what runs without a plan.
        _ if tested.policy(ServingPolicy::ReactiveDefault).is_some() => ServingPolicy::ReactiveDefault,
        // Nothing kept the target on the earlier half, so nothing else was tried.
        _ => ServingPolicy::Peak,
    };
    let of = |by: ServingPolicy| tested.policy(by).ok_or_else(|| Error::defect(format!("{by:?} was not tested")));
    let (best, other) = (of(tested.best)?, of(against)?);
    let hours = (split.end_us - split.split_us) as f64 / 3.6e9;
    let beyond = |other: &TestedPolicy| {
        interval::drawn(best.blocks.len(), &|held| {
            let held: Vec<usize> = held.collect();
            let sum = |policy: &TestedPolicy| -> f64 {
                held.iter().filter_map(|block| policy.blocks.get(*block)).map(|score| score.cost).sum()
            };
            let in_time = |policy: &TestedPolicy| -> f64 {
                let drawn = held.iter().filter_map(|block| policy.blocks.get(*block));
                let (in_time, of) =
                    drawn.fold((0, 0), |(in_time, of), score| (in_time + score.in_time, of + score.requests));
                ratio(in_time as f64, of as f64)
            };
            let more = in_time(best) - in_time(other);
            let (best, other) = (sum(best), sum(other));
            [1.0 - ratio(best, other), (other - best) / hours, more]
        })
    };
    let [saving, saving_per_h, more_in_time] = beyond(other);
    let reactive = [ServingPolicy::ReactiveDefault, ServingPolicy::Reactive];
    let rules = reactive.into_iter().filter(|by| *by != tested.best).filter_map(|by| tested.policy(by));
    let beside = rules.map(|policy| {
        let [saving, _, more_in_time] = beyond(policy);
        ServingReferenceRow { by: policy.by, kept_when_chosen: kept(policy.by), saving, more_in_time }
    });
    let beside = beside.collect();
    let least = tested.policies.iter().filter(|policy| keeps(&policy.later)).map(|policy| policy.later.cost);
    let least_found = least.min_by(f64::total_cmp).filter(|_| tested.best != ServingPolicy::Spot);
    Ok(ServingHeldOut {
        chosen_from: told.moment(split.warm_us),
        split: told.moment(split.split_us),
        to: told.moment(split.end_us),
        by: tested.policies.iter().map(row).collect(),
        best: tested.best,
        against,
        constants_tried: tested.constants_tried,
        saving,
        saving_per_h,
        more_in_time,
        beside,
        windows,
        interval: format!(
            "95 % of {} draws of {} parts of the later half",
            format::count(interval::DRAWS),
            best.blocks.len()
        ),
        bound_cost: tested.bound_h * 3600.0 * case.price.on_demand.min(case.price.spot),
        bound_h: tested.bound_h,
        least_found,
        regret: least_found.map(|least| ratio(best.later.cost, least) - 1.0),
    })
}
