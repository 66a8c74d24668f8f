//! What to set from the end of the log on, on which terms, and what if things were otherwise.
//!
//! The chosen policy's settings are chosen anew on the whole log, from its first tenth on; where nothing keeps the target there, the constant number stands in, and nothing is
//! advised. **Terms**: the k-th replica is wanted for some share of the time; committing to it
//! pays if that share is more than the reserved price over that on demand (the newsvendor's number). On spot that price says nothing, so there are no terms. **What if** replays the settings as they were chosen on the earlier half
//! on a later half that is otherwise.
//!
//! O(settings × replay). Worked example: reserved costs 2.25 an hour and on-demand 3.75: what is wanted for more than 60 % of the time is worth committing to. Of 10 slots, 6
//! want three replicas and 4 want five: three.

use super::super::choose::{ServingCase, ServingScore, grown};
use super::super::heldout::{ServingChoice, ServingPolicy, ServingSplit, ServingTest, choose};
use super::super::rule::{MOST_REPLICAS, SpotHedge};
use super::super::target::ServingTarget;
use super::advise::setting;
use super::{ServingAhead, ServingReplica, ServingSensitivity, ServingTerms};
use crate::error::{Error, Result};

/// Time that the level of now is the mean of, microseconds.
const NOW_US: i64 = 600_000_000;

/// What to set, and how many replicas it wanted slot by slot, without those that are more on spot.
pub(super) fn ahead(
    case: &ServingCase<'_>,
    tested: &ServingTest,
    split: &ServingSplit,
) -> Result<(ServingAhead, Vec<u32>)> {
    let window = (case.from_us + (split.end_us - case.from_us) / 10, split.end_us);
    let choice: ServingChoice = choose(case, window, Some(tested.best));
    let by = |policy: ServingPolicy| choice.policy(policy).map(|chosen| (policy, chosen));
    let of = by(tested.best).or_else(|| by(ServingPolicy::Constant));
    let (by, chosen) = of.ok_or_else(|| Error::defect(format!("{:?} was not chosen anew", tested.best)))?;
    let replayed = case.run(chosen.rule, chosen.hedge, choice.load, choice.initial, split.end_us);
    let slots = case.slots(split.end_us);
    let counted: Vec<u32> = replayed
        .wanted
        .iter()
        .enumerate()
        .filter(|(slot, _)| slots.at(*slot) >= window.0)
        .map(|(_, of)| chosen.hedge.map_or(of.on_demand, |hedge| of.spot.saturating_sub(hedge.extra)))
        .collect();
    let hours = (window.1 - window.0).max(1) as f64 / 3.6e9;
    let most = counted.iter().copied().max().unwrap_or(1);
    let known = case.loads(&choice.load, split.end_us);
    let last = usize::try_from(NOW_US / case.slot_us).unwrap_or(1).clamp(1, known.len().max(1));
    let now = known.iter().rev().take(last);
    let ahead = ServingAhead {
        by,
        rule: chosen.rule,
        hedge: chosen.hedge,
        setting: setting(&chosen.rule, chosen.hedge, case.slot_us),
        constants_tried: choice.constants_tried(by),
        kept: chosen.kept && chosen.as_good,
        load: choice.load,
        load_now: now.sum::<f64>() / last as f64,
        replicas_now: counted.last().copied().unwrap_or(1),
        least: counted.iter().copied().min().unwrap_or(1),
        most,
        limit: (most + most.div_ceil(2)).min(MOST_REPLICAS),
        mean_replicas: counted.iter().map(|count| f64::from(*count)).sum::<f64>() / counted.len().max(1) as f64,
        requests_per_s: chosen.score.requests as f64 / (3600.0 * hours),
        cost_per_h: chosen.score.cost / hours,
        attained: chosen.score.attained,
    };
    Ok((ahead, counted))
}

/// On which terms replicas are had that were wanted so, slot by slot; nothing without prices, and nothing of replicas on spot.
pub(super) fn terms(replica: &ServingReplica, hedge: Option<SpotHedge>, wanted: &[u32]) -> Vec<ServingTerms> {
    let Some(on_demand) = replica.on_demand_per_h.filter(|_| hedge.is_none()) else { return Vec::new() };
    let most = wanted.iter().copied().max().unwrap_or(0);
    let share =
        |count: u32| wanted.iter().filter(|wanted| **wanted >= count).count() as f64 / wanted.len().max(1) as f64;
    let mut rows: Vec<ServingTerms> = replica
        .reserved
        .iter()
        .map(|(months, price)| {
            let break_even = price / on_demand;
            let replicas =
                (1..=most).take_while(|count| break_even < 1.0 && share(*count) >= break_even).count() as u32;
            ServingTerms { months: Some(*months), price_per_h: *price, break_even, replicas }
        })
        .collect();
    rows.push(ServingTerms { months: None, price_per_h: on_demand, break_even: 1.0, replicas: most });
    rows
}

/// The later half otherwise than it was.
pub(super) fn sensitivity(
    case: &ServingCase<'_>,
    tested: &ServingTest,
    split: &ServingSplit,
    against: ServingPolicy,
) -> Vec<ServingSensitivity> {
    let setting = |by: ServingPolicy| tested.policy(by).and_then(|policy| policy.setting);
    let (Some(best), Some(other)) = (setting(tested.best), setting(against)) else { return Vec::new() };
    let row = |what: String, case: &ServingCase<'_>| {
        let score =
            |(rule, hedge)| -> ServingScore { case.scored(rule, hedge, tested.load, tested.initial, split.later()) };
        let (best, other) = (score(best), score(other));
        ServingSensitivity {
            what,
            attained: best.attained,
            keeps: case.keeps(&best, case.target),
            cost: best.cost,
            against_attained: other.attained,
            against_cost: other.cost,
        }
    };
    let mut rows = vec![row("as it was".to_owned(), case)];
    for (what, times) in [("starts in half the time", 0.5), ("starts in twice the time", 2.0)] {
        let mut service = case.service.clone();
        service.start_us = (service.start_us as f64 * times).round() as i64;
        rows.push(row(what.to_owned(), &ServingCase { service: &service, ..*case }));
    }
    for more in [0.2, 0.5] {
        let requests = grown(case.requests, more);
        rows.push(row(format!("{:.0} % more requests", more * 100.0), &ServingCase { requests: &requests, ..*case }));
    }
    let of = |what: &str, target: ServingTarget| row(what.to_owned(), &ServingCase { target, ..*case });
    let target = case.target;
    rows.push(of("half the time to the first token", ServingTarget { ttft_s: target.ttft_s / 2.0, ..target }));
    rows.push(of("half the time between tokens", ServingTarget { tpot_s: target.tpot_s / 2.0, ..target }));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_example() {
        let replica = ServingReplica {
            on_demand_per_h: Some(3.75),
            reserved: vec![(12.0, 2.25), (1.0, 4.0)],
            ..ServingReplica::default()
        };
        let wanted = [3, 3, 5, 5, 3, 3, 5, 3, 5, 3];
        let rows: Vec<(Option<f64>, u32)> =
            terms(&replica, None, &wanted).iter().map(|row| (row.months, row.replicas)).collect();
        assert_eq!(rows, [(Some(12.0), 3), (Some(1.0), 0), (None, 5)]);
        assert!(terms(&replica, Some(SpotHedge { extra: 1 }), &wanted).is_empty());
        assert!(terms(&ServingReplica { on_demand_per_h: None, ..replica }, None, &wanted).is_empty());
    }
}
