//! The pools to come, chosen on all weeks of the record, what other targets would cost, and what other numbers of nodes would.
//!
//! O(one search a GPU type). Worked example: with a target of 1 h, 16 nodes and 700 a month; with one of 10 min the same search says 20 nodes and 760.

use tracecast_analytics::time::{HOUR_MS, MINUTE_MS};

use super::super::heldout::{BurstCase, BurstSupply, plan_of};
use super::super::part::{BurstPart, BurstSetup, BurstSpent, WaitedJob};
use super::super::policy::{RunsFrom, WaitingPolicy};
use super::super::search::{BurstSearch, tried};
use super::{BurstPoolPlan, BurstTarget, BurstWaits, CostCurve, Teller, ToldPolicy};
use crate::error::Result;
use crate::market::supply::Term;
use crate::plan::interval;
use crate::plan::money::MONTH_H;
use crate::plan::weeks::{Moments, WeekSplit, blocks, whole};
use crate::replay::compare::IntervalEstimate;

/// Targets that are told beside the one asked for, ms.
const TARGETS_MS: [i64; 6] = [0, 10 * MINUTE_MS, HOUR_MS, 4 * HOUR_MS, 12 * HOUR_MS, 24 * HOUR_MS];

/// What numbers of nodes may cost more and be as good, a share.
const ALIKE: f64 = 0.03;

/// All that looks forward.
pub(super) struct Forward {
    pub(super) pools: Vec<BurstPoolPlan>,
    pub(super) cost_per_month: IntervalEstimate,
    pub(super) baseline_per_month: IntervalEstimate,
    pub(super) targets: Vec<BurstTarget>,
    pub(super) curves: Vec<CostCurve>,
}

pub(super) fn plan(
    case: &BurstCase<'_>,
    supplies: &[BurstSupply],
    split: &WeekSplit,
    teller: &Teller<'_>,
) -> Result<Forward> {
    let terms = case.terms;
    let stretch = whole(&split.all);
    let ranges = blocks(&split.all);
    let months = ((stretch.1 - stretch.0) / HOUR_MS) as f64 / MONTH_H;
    let fallback = terms.unwaited();
    let (mut planned, mut base) =
        (vec![BurstSpent::default(); ranges.len()], vec![BurstSpent::default(); ranges.len()]);
    let (mut pools, mut curves) = (Vec::new(), Vec::new());
    let mut searches: Vec<BurstSearch> = Vec::new();
    for supply in supplies {
        let (part, demand) = case.part(supply, stretch, i64::MAX);
        let search = BurstSearch::new(&part, &demand, stretch, &terms.candidates(), &terms.aim())?;
        let setup = plan_of(&search, terms).unwrap_or(fallback);
        let times = part.replay(&setup)?;
        let spent = part.account(&setup, &times, stretch, &ranges);
        let waits: Vec<WaitedJob> = part.waits(&times, stretch).collect();
        let before = part.account(&fallback, &part.replay(&fallback)?, stretch, &ranges);
        let alike = alike(&part, &setup, stretch, terms.target_s)?;
        let bought =
            case.offers.owned.iter().find(|node| supply.own.term == Term::Owned && node.name == supply.own.name);
        pools.push(BurstPoolPlan {
            nodes_alike: alike,
            purchase: bought.map(|node| node.price * f64::from(setup.nodes)),
            years: bought.map(|node| node.years),
            ..told(&part, &setup, (&spent, &before), &waits, months)
        });
        planned.iter_mut().zip(&spent).for_each(|(sum, spent)| sum.add(spent));
        base.iter_mut().zip(&before).for_each(|(sum, spent)| sum.add(spent));
        curves.push(curve(&part, &search, &setup, stretch));
        searches.push(search);
    }
    let a_month = |spent: &[BurstSpent]| -> Vec<f64> {
        let of =
            |(spent, range): (&BurstSpent, &std::ops::Range<usize>)| spent.cost() / range.len().max(1) as f64 * MONTH_H;
        spent.iter().zip(&ranges).map(of).collect()
    };
    let most_s = terms.most_ms as f64 / 1e3;
    let mut targets: Vec<f64> =
        TARGETS_MS.iter().map(|ms| *ms as f64 / 1e3).filter(|target| *target <= most_s).collect();
    targets.push(terms.target_s);
    targets.sort_unstable_by(f64::total_cmp);
    targets.dedup();
    let target = |target_s: f64| {
        let best = searches.iter().map(|search| search.best(|tried| tried.judged_s <= target_s));
        let best: Vec<(BurstSetup, f64)> =
            best.map(|best| best.map_or((fallback, 0.0), |best| (best.setup, best.cost))).collect();
        let setups: Vec<BurstSetup> = best.iter().map(|(setup, _)| *setup).collect();
        BurstTarget {
            target_s,
            chosen: teller.chosen(&setups),
            own_gpus: teller.own_gpus(&setups),
            cost_per_month: best.iter().map(|(_, cost)| cost).sum::<f64>() / months,
        }
    };
    Ok(Forward {
        pools,
        cost_per_month: interval::mean(&a_month(&planned)),
        baseline_per_month: interval::mean(&a_month(&base)),
        targets: targets.into_iter().map(target).collect(),
        curves,
    })
}

/// A pool to come.
fn told(
    part: &BurstPart,
    setup: &BurstSetup,
    (spent, before): (&[BurstSpent], &[BurstSpent]),
    waits: &[WaitedJob],
    months: f64,
) -> BurstPoolPlan {
    let (spent, before): (BurstSpent, BurstSpent) = (spent.iter().sum(), before.iter().sum());
    let own = &part.own;
    let (how, term_months) = own.term.how();
    let gpu_h = spent.own_gpu_h + spent.cloud_gpu_h;
    BurstPoolPlan {
        gpu: part.gpu.clone(),
        offer: own.name.clone(),
        how,
        months: term_months,
        nodes: setup.nodes,
        nodes_alike: (setup.nodes, setup.nodes),
        purchase: None,
        years: None,
        gpus_per_node: own.gpus,
        own_per_gpu_h: own.per_h / own.gpus,
        on_demand_per_gpu_h: part.supply.on_demand.first().map_or(0.0, |rental| rental.per_gpu_h),
        policy: ToldPolicy::new(setup, part.most_ms),
        own_per_month: spent.own / months,
        cloud_per_month: spent.cloud / months,
        put_off_per_month: spent.put_off / months,
        baseline_per_month: before.cost() / months,
        own_used: (spent.room_gpu_h > 0.0).then(|| spent.own_gpu_h / spent.room_gpu_h),
        cloud_share: if gpu_h > 0.0 { spent.cloud_gpu_h / gpu_h } else { 0.0 },
        waits: BurstWaits::new(waits),
    }
}

/// Fewest and most nodes that keep the target under the same policy and cost hardly more: by bisection between the chosen number and none, or twice as many. O(log nodes) replays.
fn alike(part: &BurstPart, setup: &BurstSetup, stretch: Moments, target_s: f64) -> Result<(u32, u32)> {
    let least = tried(part, *setup, stretch)?.cost;
    let is_alike = |nodes: u32| -> Result<bool> {
        let result = tried(part, BurstSetup { nodes, ..*setup }, stretch)?;
        Ok(result.cost <= least * (1.0 + ALIKE) && result.judged_s <= target_s)
    };
    let ends = [0, setup.nodes.saturating_mul(2).min(part.own.limit.unwrap_or(u32::MAX))];
    let mut result = [setup.nodes; 2];
    for (end, result) in ends.into_iter().zip(&mut result) {
        let (mut near, mut far) = (setup.nodes, end);
        if is_alike(far)? {
            near = far;
        }
        while near.abs_diff(far) > 1 {
            let middle = u32::midpoint(near, far);
            if is_alike(middle)? { near = middle } else { far = middle }
        }
        *result = near;
    }
    Ok((result[0], result[1]))
}

/// Costs of a month over GPUs of the pool: nobody waiting, and the policy of the plan.
fn curve(part: &BurstPart, search: &BurstSearch, setup: &BurstSetup, stretch: (i64, i64)) -> CostCurve {
    let month = MONTH_H / ((stretch.1 - stretch.0) / HOUR_MS).max(1) as f64;
    let line = |policy: WaitingPolicy, name: String| {
        let same = search.tried.iter().filter(|tried| tried.setup.policy == policy);
        let mut points: Vec<(f64, f64)> =
            same.map(|tried| (f64::from(tried.setup.nodes) * part.own.gpus, tried.cost * month)).collect();
        points.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        points.dedup();
        (name, points)
    };
    let mut lines = vec![line(WaitingPolicy::Nobody, "nobody waits".to_owned())];
    if setup.policy != WaitingPolicy::Nobody {
        lines.push(line(setup.policy, setup.policy.in_words(RunsFrom::Predicted, part.most_ms)));
    }
    CostCurve { gpu: part.gpu.clone(), lines, chosen: f64::from(setup.nodes) * part.own.gpus }
}
