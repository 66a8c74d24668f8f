//! The test on later windows, as it is told.
//!
//! O(rules × (jobs + windows) + draws × blocks). Worked example: a plan that cost 60 and 80 in two windows, where all on demand cost 100 in each, saved 30 %, and least in the second: 20 %.

use std::collections::BTreeMap;

use tracecast_analytics::facts::SizeClass;

use super::super::heldout::{BurstRule, BurstTerms, TestedBurst};
use super::super::part::{BurstSpent, WaitedJob};
use super::{BurstFigures, BurstInWindow, BurstSize, BurstTrial, BurstWaits, Teller};
use crate::error::Result;
use crate::plan::interval;
use crate::plan::trial::{Priced, Roles, Trial};
use crate::plan::weeks::WeekSplit;
use crate::replay::compare::IntervalEstimate;

/// The test. Savings are told against all on demand, or, where the nodes are there already, against nobody waiting.
pub(super) fn trial(
    tested: &[TestedBurst],
    split: &WeekSplit,
    terms: &BurstTerms,
    teller: &Teller<'_>,
    currency: &str,
    day: &dyn Fn(i64) -> String,
) -> Result<BurstTrial> {
    let (baseline, naive) = match terms.nodes {
        Some(_) => (BurstRule::Nobody, BurstRule::Nobody),
        None => (BurstRule::OnDemand, BurstRule::Newsvendor),
    };
    let roles =
        Roles { plan: BurstRule::Plan, baseline, simplest: BurstRule::Nobody, naive, oracle: BurstRule::Hindsight };
    let window = |spent: &BurstSpent| {
        let mean_wait_s = spent.wait_s / spent.jobs.max(1) as f64;
        (spent.cost(), BurstInWindow { mean_wait_s })
    };
    let priced = |rule: &TestedBurst| {
        let spent = rule.spent();
        let gpu_h = spent.own_gpu_h + spent.cloud_gpu_h;
        Priced {
            id: rule.rule,
            words: rule.rule.in_words().to_owned(),
            kept: rule.p95_s <= terms.target_s,
            windows: rule.windows.iter().map(window).collect(),
            blocks: rule.blocks.iter().map(BurstSpent::cost).collect(),
            figures: BurstFigures {
                chosen: teller.chosen(&rule.setups),
                own_gpus: teller.own_gpus(&rule.setups),
                own_used: (spent.room_gpu_h > 0.0).then(|| spent.own_gpu_h / spent.room_gpu_h),
                cloud_share: if gpu_h > 0.0 { spent.cloud_gpu_h / gpu_h } else { 0.0 },
                waits: BurstWaits::new(&rule.waits),
                p95_of_sizes_s: rule.p95_s,
            },
        }
    };
    Trial::new(currency, &tested.iter().map(priced).collect::<Vec<_>>(), roles, split.stretches(day))
}

/// The mean wait under the plan, seconds, and the waits of each size.
pub(super) fn waits(tested: &[TestedBurst]) -> (IntervalEstimate, Vec<BurstSize>) {
    let plan = || tested.iter().filter(|tested| tested.rule == BurstRule::Plan);
    let blocks = plan().flat_map(|plan| &plan.blocks).map(|spent| (spent.wait_s, spent.jobs as f64));
    let mut by_size: BTreeMap<SizeClass, Vec<WaitedJob>> = BTreeMap::new();
    for job in plan().flat_map(|plan| &plan.waits) {
        by_size.entry(job.size).or_default().push(*job);
    }
    let sizes = by_size.into_iter().map(|(size, jobs)| BurstSize { size, waits: BurstWaits::new(&jobs) });
    (interval::quotient(&blocks.collect::<Vec<_>>()), sizes.collect())
}
