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
use super::super::heldout::{DeferCase, DeferTerms, DeferTested, TestedDefer, TestedJob};
use super::super::job::{of_cell, runs_in_words};
use super::super::policy::{DeferPolicy, WindowGoal};
use super::super::rule::DeferRule;
use super::{
    DeferClass, DeferCost, DeferFrontPoint, DeferHeldOut, DeferPlan, DeferRuleInWindow, DeferRuleOverWindows,
    DeferSize, DeferWindow, ForecastScore, Units,
};
use crate::error::{Error, Result};
use crate::plan::interval::{self, ratio};
use crate::plan::money::MONTH_H;
use crate::plan::waits::WaitSummary;
use crate::plan::weeks::{Moments, WeekSplit, blocks, draws_weeks, whole};

/// Hours ahead at which forecasts are scored.
const AHEAD_H: [u32; 3] = [1, 6, 24];

/// What some jobs emit or cost, at once and deferred, and how long they wait.
#[derive(Debug, Clone, Copy, Default)]
struct DeferSum {
    now: i128,
    amount: i128,
    wait_ms: i128,
    jobs: u64,
}

impl DeferSum {
    fn of<'j>(jobs: impl Iterator<Item = &'j TestedJob>) -> Self {
        let mut sum = Self::default();
        for told in jobs {
            let gpus = i128::from(told.job.milli_gpus);
            sum.add(&Self {
                now: told.now * gpus,
                amount: told.found.amount * gpus,
                wait_ms: i128::from(told.found.wait_ms),
                jobs: 1,
            });
        }
        sum
    }

    fn add(&mut self, other: &Self) {
        self.now += other.now;
        self.amount += other.amount;
        self.wait_ms += other.wait_ms;
        self.jobs += other.jobs;
    }

    /// What is saved, a share.
    fn saved(&self) -> f64 {
        1.0 - ratio(self.amount as f64, self.now as f64)
    }

    fn mean_wait_s(&self) -> f64 {
        self.wait_ms as f64 / 1e3 / self.jobs.max(1) as f64
    }
}

fn waits<'j>(jobs: impl Iterator<Item = &'j TestedJob>) -> WaitSummary {
    WaitSummary::of(&jobs.map(|told| told.found.wait_ms).collect::<Vec<_>>())
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
    /// On the calendar of the series.
    pub(super) split: &'a WeekSplit,
    /// On that of the trace.
    pub(super) trace_split: &'a WeekSplit,
    pub(super) terms: &'a DeferTerms,
    pub(super) day: &'a dyn Fn(i64) -> String,
}

impl LaterWindows<'_> {
    /// The test; `near` is the share of the later jobs that were predicted within a factor of 2.
    pub(super) fn held_out(&self, tested: &DeferTested, earlier_jobs: u64, near: f64) -> Result<DeferHeldOut> {
        let of = |rule: DeferRule| {
            let found = tested.rules.iter().find(|tested| tested.rule == rule);
            found.ok_or_else(|| Error::defect(format!("{rule:?} was not tested")))
        };
        let (plan, now, oracle) = (of(DeferRule::Plan)?, of(DeferRule::Now)?, of(DeferRule::Oracle)?);
        let months = self.split.hours_after() as f64 / MONTH_H;
        let (all, best) = (DeferSum::of(plan.jobs.iter()).now, DeferSum::of(oracle.jobs.iter()).amount);
        let base = now.spent;
        let over = |rule: &TestedDefer| self.over(rule, (all, best, base), months);
        let sums = |rule: &TestedDefer, parts: &[Moments]| -> Vec<DeferSum> {
            let inside = |part: &Moments| {
                DeferSum::of(rule.jobs.iter().filter(|told| (part.0..part.1).contains(&told.job.submit_ms)))
            };
            parts.iter().map(inside).collect()
        };
        let by_window: Vec<(DeferRule, Vec<DeferSum>)> =
            tested.rules.iter().map(|rule| (rule.rule, sums(rule, &self.split.after))).collect();
        let window = |(at, (from, to)): (usize, &Moments)| DeferWindow {
            from: (self.day)(*from),
            to: (self.day)(*to),
            by: by_window
                .iter()
                .filter_map(|(rule, sums)| {
                    let sum = sums.get(at)?;
                    let (amount, mean_wait_s) = (self.units.amount(sum.amount), sum.mean_wait_s());
                    Some(DeferRuleInWindow { by: *rule, amount, mean_wait_s })
                })
                .collect(),
        };
        let begin = whole(&self.split.after).0;
        let parts: Vec<Moments> = blocks(&self.split.after)
            .into_iter()
            .map(|hours| (begin + hours.start as i64 * HOUR_MS, begin + hours.end as i64 * HOUR_MS))
            .collect();
        let blocks = sums(plan, &parts);
        let [saving, saving_per_month, mean_wait_s] = interval::drawn(blocks.len(), &|held| {
            let mut sum = DeferSum::default();
            held.filter_map(|block| blocks.get(block)).for_each(|block| sum.add(block));
            [sum.saved(), self.units.amount(sum.now - sum.amount) / months, sum.mean_wait_s()]
        });
        let of_plan = sums(plan, &self.split.after);
        let saved = |at: usize| of_plan.get(at).map_or(0.0, DeferSum::saved);
        // A window without jobs tells nothing.
        let worst = (0..of_plan.len())
            .filter(|at| of_plan.get(*at).is_some_and(|sum| sum.jobs > 0))
            .min_by(|a, b| saved(*a).total_cmp(&saved(*b)))
            .unwrap_or(0);
        let mut by_size: BTreeMap<SizeClass, Vec<TestedJob>> = BTreeMap::new();
        for told in &plan.jobs {
            by_size.entry(told.job.size()).or_default().push(*told);
        }
        let size = |(size, jobs): (SizeClass, Vec<TestedJob>)| {
            let sum = DeferSum::of(jobs.iter());
            DeferSize { size, waits: waits(jobs.iter()), saved: sum.saved(), of_all: ratio(sum.now as f64, all as f64) }
        };
        Ok(DeferHeldOut {
            chosen_from: (self.day)(whole(&self.trace_split.before).0),
            split: (self.day)(self.trace_split.split_ms()),
            chosen_on: self.split.chosen_on(),
            earlier_jobs,
            windows: self.trace_split.after.iter().enumerate().map(window).collect(),
            by: tested.rules.iter().map(over).collect(),
            saving,
            saving_per_month,
            mean_wait_s,
            interval: self.split.interval_in_words(),
            drawn_weeks: draws_weeks(&self.split.after),
            worst_window: self.trace_split.after.get(worst).map_or_else(String::new, |(from, _)| (self.day)(*from)),
            worst_saving: saved(worst),
            sizes: by_size.into_iter().map(size).collect(),
            predicted_within_twice: near,
        })
    }

    /// A rule over all windows, beside what starting at once and all known come to.
    fn over(
        &self,
        rule: &TestedDefer,
        (now, best, base): (i128, i128, Option<DeferSpent>),
        months: f64,
    ) -> DeferRuleOverWindows {
        let sum = DeferSum::of(rule.jobs.iter());
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
        DeferRuleOverWindows {
            by: rule.rule,
            what: self.units.words(rule.rule.in_words()),
            chosen: plan_of(&rule.setup, &self.units),
            knows: rule.rule.knows(),
            amount_per_month: self.units.amount(sum.amount) / months,
            of_now: ratio(sum.amount as f64, now as f64),
            regret: ratio(sum.amount as f64, best as f64) - 1.0,
            kwh_per_month: drawn as f64 * self.units.kwh() / months,
            waits: waits(rule.jobs.iter()),
            kept: sum.mean_wait_s() * 1e3 <= self.terms.target_ms,
            cost: rule.spent.zip(base).map(cost),
        }
    }

    /// How well hours are forecast before and after the split.
    pub(super) fn forecasts(&self, case: &DeferCase<'_>) -> Vec<ForecastScore> {
        let hours = |(from, to): Moments| (from.div_euclid(HOUR_MS), to.div_euclid(HOUR_MS));
        let (before, after) = (hours(whole(&self.split.before)), hours(whole(&self.split.after)));
        let mut scores = Vec::new();
        for by in ForecastBy::SCORED {
            let forecast = HourForecast::of(case.series, by, before);
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
