//! The test on later windows, as it is told.
//!
//! O(rules × (jobs + windows) + draws × blocks). Worked example: a plan that cost 60 and 80 in two windows, where all on demand cost 100 in each, saved 30 %, and least in the second: 20 %.

use std::collections::BTreeMap;

use tracecast_analytics::facts::SizeClass;

use super::super::heldout::{BurstRule, BurstTerms, TestedBurst};
use super::super::part::{BurstSpent, WaitedJob};
use super::{BurstHeldOut, BurstRuleInWindow, BurstRuleOverWindows, BurstSize, BurstWaits, BurstWindow, Teller};
use crate::error::{Error, Result};
use crate::plan::interval::{self, ratio};
use crate::plan::money::MONTH_H;
use crate::plan::weeks::{WeekSplit, draws_weeks, whole};

/// The rule that savings are told against: all on demand, or, where the nodes are there already, nobody waiting.
fn baseline(terms: &BurstTerms) -> BurstRule {
    if terms.nodes.is_some() { BurstRule::Nobody } else { BurstRule::OnDemand }
}

/// The test as it is told; `predicted_within_twice` is the share of the later jobs that were predicted so.
pub(super) fn told(
    tested: &[TestedBurst],
    split: &WeekSplit,
    terms: &BurstTerms,
    teller: &Teller<'_>,
    day: &dyn Fn(i64) -> String,
    predicted_within_twice: f64,
) -> Result<BurstHeldOut> {
    let of = |rule: BurstRule| {
        tested
            .iter()
            .find(|tested| tested.rule == rule)
            .ok_or_else(|| Error::defect(format!("{rule:?} was not tested")))
    };
    let baseline = baseline(terms);
    let (plan, base) = (of(BurstRule::Plan)?, of(baseline)?);
    let (best, nobody) = (of(BurstRule::Hindsight)?, of(BurstRule::Nobody)?);
    let months = split.hours_after() as f64 / MONTH_H;
    let (all, hindsight) = (base.spent().cost(), best.spent().cost());
    let over = |rule: &TestedBurst| {
        let spent = rule.spent();
        let gpu_h = spent.own_gpu_h + spent.cloud_gpu_h;
        BurstRuleOverWindows {
            by: rule.rule,
            what: rule.rule.in_words().to_owned(),
            chosen: teller.chosen(&rule.setups),
            own_gpus: teller.own_gpus(&rule.setups),
            own_used: (spent.room_gpu_h > 0.0).then(|| spent.own_gpu_h / spent.room_gpu_h),
            cloud_share: if gpu_h > 0.0 { spent.cloud_gpu_h / gpu_h } else { 0.0 },
            cost_per_month: spent.cost() / months,
            of_baseline: ratio(spent.cost(), all),
            regret: ratio(spent.cost(), hindsight) - 1.0,
            waits: BurstWaits::of(&rule.waits),
            p95_of_sizes_s: rule.p95_s,
            kept: rule.p95_s <= terms.target_s,
        }
    };
    let window = |(at, (from, to)): (usize, &(i64, i64))| BurstWindow {
        from: day(*from),
        to: day(*to),
        by: tested
            .iter()
            .filter_map(|rule| {
                let spent = rule.windows.get(at)?;
                let mean_wait_s = spent.wait_s / spent.jobs.max(1) as f64;
                Some(BurstRuleInWindow { by: rule.rule, cost: spent.cost(), mean_wait_s })
            })
            .collect(),
    };
    let sums = |rule: &TestedBurst, held: &[usize]| -> BurstSpent {
        held.iter().filter_map(|block| rule.blocks.get(*block)).sum()
    };
    let [saving, saving_per_month, waiting, mean_wait_s] = interval::drawn(plan.blocks.len(), &|held| {
        let held: Vec<usize> = held.collect();
        let (plan, base, nobody) = (sums(plan, &held), sums(base, &held).cost(), sums(nobody, &held).cost());
        let cost = plan.cost();
        [
            1.0 - ratio(cost, base),
            (base - cost) / months,
            ratio(nobody, base) - ratio(cost, base),
            plan.wait_s / plan.jobs.max(1) as f64,
        ]
    });
    let saved = |at: usize| {
        let cost = |rule: &TestedBurst| rule.windows.get(at).map_or(0.0, BurstSpent::cost);
        1.0 - ratio(cost(plan), cost(base))
    };
    let worst = (0..plan.windows.len()).min_by(|a, b| saved(*a).total_cmp(&saved(*b))).unwrap_or(0);
    let mut by_size: BTreeMap<SizeClass, Vec<WaitedJob>> = BTreeMap::new();
    for job in &plan.waits {
        by_size.entry(job.size).or_default().push(*job);
    }
    Ok(BurstHeldOut {
        chosen_from: day(whole(&split.before).0),
        split: day(split.split_ms()),
        chosen_on: split.chosen_on(),
        windows: split.after.iter().enumerate().map(window).collect(),
        by: tested.iter().map(over).collect(),
        baseline,
        saving,
        saving_per_month,
        waiting,
        mean_wait_s,
        interval: split.interval_in_words(),
        blocks: plan.blocks.len(),
        drawn_weeks: draws_weeks(&split.after),
        worst_window: split.after.get(worst).map_or_else(String::new, |(from, _)| day(*from)),
        worst_saving: saved(worst),
        sizes: by_size.into_iter().map(|(size, jobs)| BurstSize { size, waits: BurstWaits::of(&jobs) }).collect(),
        predicted_within_twice,
    })
}
