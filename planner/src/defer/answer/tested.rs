//! The test on later windows, as it is told.
//!
//! A job counts where it is submitted, with all that it emits. O(rules × (jobs + windows) + draws × blocks). Worked example: in two windows starting at once emits 100 kg each, and the plan 90 and 96: it saved 7 %, and least in
//! the second: 4 %.

use std::collections::BTreeMap;

use tracecast_analytics::facts::SizeClass;
use tracecast_analytics::time::HOUR_MS;

use super::super::choose::DeferSetup;
use super::super::cost::DeferSpent;
use super::super::forecast::{ForecastBy, HourForecast};
use super::super::heldout::{DeferCase, DeferTerms, DeferTested, TestedDefer, TestedJob, later_blocks};
use super::super::job::{of_cell, runs_in_words};
use super::super::policy::{DeferPolicy, WindowGoal};
use super::super::rule::DeferRule;
use super::{
    DeferClass, DeferCost, DeferFigures, DeferFrontPoint, DeferInWindow, DeferPlan, DeferSize, DeferTrial,
    ForecastScore, Units,
};
use crate::error::Result;
use crate::plan::interval::{self, ratio};
use crate::plan::money::MONTH_H;
use crate::plan::trial::{Priced, Roles, Trial};
use crate::plan::waits::WaitSummary;
use crate::plan::weeks::{Moments, WeekSplit, whole};
use crate::replay::compare::IntervalEstimate;

/// Hours ahead at which forecasts are scored.
const AHEAD_H: [u32; 3] = [1, 6, 24];

/// Emissions or cost of some jobs, at once and deferred, and how long they wait.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct DeferSum {
    now: i128,
    pub(super) amount: i128,
    wait_ms: i128,
    jobs: u64,
}

impl DeferSum {
    fn new<'j>(jobs: impl Iterator<Item = &'j TestedJob>) -> Self {
        let mut sum = Self::default();
        for told in jobs {
            let gpus = i128::from(told.job.milli_gpus);
            sum.now += told.now * gpus;
            sum.amount += told.found.amount * gpus;
            sum.wait_ms += i128::from(told.found.wait_ms);
            sum.jobs += 1;
        }
        sum
    }

    /// Share saved.
    fn saved(&self) -> f64 {
        1.0 - ratio(self.amount as f64, self.now as f64)
    }

    fn mean_wait_s(&self) -> f64 {
        self.wait_ms as f64 / 1e3 / self.jobs.max(1) as f64
    }
}

fn waits<'j>(jobs: impl Iterator<Item = &'j TestedJob>) -> WaitSummary {
    WaitSummary::new(&jobs.map(|told| told.found.wait_ms).collect::<Vec<_>>())
}

/// What the jobs that are submitted in each part come to.
pub(super) fn sums(rule: &TestedDefer, parts: &[Moments]) -> Vec<DeferSum> {
    let of = |(from, to): &Moments| {
        DeferSum::new(rule.jobs.iter().filter(|told| (*from..*to).contains(&told.job.submit_ms)))
    };
    parts.iter().map(of).collect()
}

/// A setup in the words of the answer.
pub(super) fn plan_of(setup: &DeferSetup, units: &Units) -> DeferPlan {
    let classes = if setup.is_now() { &[][..] } else { &setup.bounds_ms[..] };
    let classes = classes.iter().enumerate().filter(|(_, bound)| **bound > 0);
    let class = |(cell, bound): (usize, &i64)| {
        let (size, runs) = of_cell(cell);
        DeferClass { size, runs: runs_in_words(runs).to_owned(), most_wait_s: *bound as f64 / 1e3 }
    };
    // A worth is in value × thousandths of a GPU for a ms waited each ms: an hour of an hour.
    let least_worth = match setup.policy {
        DeferPolicy::Window { goal: WindowGoal::Worth(worth), .. } => {
            Some(units.amount(i128::from(worth) * i128::from(HOUR_MS)))
        }
        _ => None,
    };
    let policy = if setup.is_now() { DeferPolicy::Now } else { setup.policy };
    DeferPlan { what: units.words(&policy.in_words()), least_worth, classes: classes.map(class).collect() }
}

/// The later windows, in the units of the answer.
pub(super) struct LaterWindows<'a> {
    pub(super) units: Units,
    /// Split on the calendar of the series.
    pub(super) split: &'a WeekSplit,
    /// Split on the calendar of the trace.
    pub(super) trace_split: &'a WeekSplit,
    pub(super) terms: &'a DeferTerms,
    pub(super) day: &'a dyn Fn(i64) -> String,
}

impl LaterWindows<'_> {
    /// The test. A job counts where it is submitted.
    pub(super) fn trial(&self, tested: &DeferTested, unit: &str) -> Result<DeferTrial> {
        let base = tested.rules.iter().find(|rule| rule.rule == DeferRule::Now).and_then(|now| now.spent);
        let roles = Roles {
            plan: DeferRule::Plan,
            baseline: DeferRule::Now,
            simplest: DeferRule::Now,
            naive: DeferRule::AllWait,
            oracle: DeferRule::Oracle,
        };
        let amount = |sum: &DeferSum| self.units.amount(sum.amount);
        let priced = |rule: &TestedDefer| {
            let figures = self.figures(rule, base);
            let is_dearer = base.is_some_and(|base| base.on_demand + base.reserved > 0.0)
                && figures.cost.is_some_and(|cost| cost.of_now > 1.0 + self.terms.most_cost);
            Priced {
                id: rule.rule,
                words: self.units.words(rule.rule.in_words()),
                kept: DeferSum::new(rule.jobs.iter()).mean_wait_s() * 1e3 <= self.terms.target_ms && !is_dearer,
                windows: sums(rule, &self.split.after)
                    .iter()
                    .map(|sum| (amount(sum), DeferInWindow { mean_wait_s: sum.mean_wait_s() }))
                    .collect(),
                blocks: sums(rule, &later_blocks(self.split)).iter().map(amount).collect(),
                figures,
            }
        };
        let priced: Vec<_> = tested.rules.iter().map(priced).collect();
        Trial::new(unit, &priced, roles, self.trace_split.stretches(self.day))
    }

    /// The mean wait under the plan, seconds, and what becomes of each size.
    pub(super) fn waits(&self, tested: &DeferTested) -> (IntervalEstimate, Vec<DeferSize>) {
        let plan = || tested.rules.iter().filter(|rule| rule.rule == DeferRule::Plan);
        let of_blocks = plan().flat_map(|plan| sums(plan, &later_blocks(self.split)));
        let of_blocks = of_blocks.map(|sum| (sum.wait_ms as f64 / 1e3, sum.jobs as f64));
        let all = DeferSum::new(plan().flat_map(|plan| &plan.jobs)).now;
        let mut by_size: BTreeMap<SizeClass, Vec<TestedJob>> = BTreeMap::new();
        for told in plan().flat_map(|plan| &plan.jobs) {
            by_size.entry(told.job.size()).or_default().push(*told);
        }
        let size = |(size, jobs): (SizeClass, Vec<TestedJob>)| {
            let sum = DeferSum::new(jobs.iter());
            DeferSize { size, waits: waits(jobs.iter()), saved: sum.saved(), of_all: ratio(sum.now as f64, all as f64) }
        };
        (interval::quotient(&of_blocks.collect::<Vec<_>>()), by_size.into_iter().map(size).collect())
    }

    /// Figures of a rule beside its amount; `base` is what starting at once cost.
    fn figures(&self, rule: &TestedDefer, base: Option<DeferSpent>) -> DeferFigures {
        let months = self.split.hours_after() as f64 / MONTH_H;
        let drawn: i128 = rule
            .jobs
            .iter()
            .map(|told| i128::from(told.job.run_ms + told.found.extra_ms) * i128::from(told.job.milli_gpus))
            .sum();
        let cost = |(spent, base): (DeferSpent, DeferSpent)| DeferCost {
            per_month: spent.cost() / months,
            on_demand_per_month: spent.on_demand / months,
            energy_per_month: spent.energy / months,
            of_now: ratio(spent.cost(), base.cost()),
        };
        DeferFigures {
            chosen: plan_of(&rule.setup, &self.units),
            knows: rule.rule.knows(),
            kwh_per_month: drawn as f64 * self.units.kwh() / months,
            waits: waits(rule.jobs.iter()),
            cost: rule.spent.zip(base).map(cost),
        }
    }

    /// How well hours are forecast before and after the split.
    pub(super) fn forecasts(&self, case: &DeferCase<'_>) -> Vec<ForecastScore> {
        let hours = |(from, to): Moments| (from.div_euclid(HOUR_MS), to.div_euclid(HOUR_MS));
        let (before, after) = (hours(whole(&self.split.before)), hours(whole(&self.split.after)));
        let mut scores = Vec::new();
        for by in ForecastBy::SCORED {
            let forecast = HourForecast::new(case.series, by, before);
            for ahead_h in AHEAD_H {
                let error = |hours| forecast.error(hours, i64::from(ahead_h)).map(|parts| self.units.value(parts));
                // The clock is the mean of the earlier hours themselves.
                let earlier = error(before).filter(|_| by != ForecastBy::Clock);
                scores.push(ForecastScore { by: by.in_words(), ahead_h, earlier, later: error(after) });
            }
        }
        scores
    }

    /// The front on the earlier windows.
    pub(super) fn front(&self, tested: &DeferTested) -> Vec<DeferFrontPoint> {
        let plan = tested.rules.iter().find(|rule| rule.rule == DeferRule::Plan).map(|rule| rule.setup);
        let now = tested.front.iter().map(|choice| choice.earlier.amount).max().unwrap_or(0);
        let first = tested.front.first().and_then(|choice| choice.spent).map(|spent| spent.cost());
        tested
            .front
            .iter()
            .map(|choice| DeferFrontPoint {
                saved: 1.0 - ratio(choice.earlier.amount as f64, now as f64),
                mean_wait_s: choice.earlier.mean_wait_ms / 1e3,
                cost_of_now: choice.spent.zip(first).map(|(spent, first)| ratio(spent.cost(), first)),
                chosen: Some(choice.setup) == plan,
            })
            .collect()
    }
}
