//! The test of a plan: rules that were chosen on earlier windows, priced on later ones.
//!
//! A plan brings the [stretches](crate::window::Stretches) it was tested on, and what each rule came to in every later window and block; [`Trial::new`] makes of it what is told of every
//! plan: amounts, such as money a month, shares of the baseline, regret, savings with the intervals of one [block bootstrap](interval), and the window in which the plan
//! saved least. What else a plan tells of a rule (`R`) or of a rule in a window (`W`) stands beside these.
//!
//! O(rules × windows + draws × blocks). Worked example: in two windows the baseline came to 100 each and the plan to 60 and 80: it saved 30 %, and least in the second, 20 %.

use std::fmt::Debug;

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::report::format;
use tracecast_analytics::time::to_the_minute;
use tracecast_replay::compare::IntervalEstimate;

use crate::error::{Error, Result};
use crate::forecast::Driven;
use crate::interval::{self, ratio};
use crate::window::Stretches;
use crate::{Effect, Regret};

/// Empty set of further figures, for a rule with nothing but an amount in a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NoMore {}

/// The rules that a test is told by: their names, or what they came to.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Roles<T> {
    /// The rule that the plan chose.
    pub plan: T,
    /// The rule that savings are measured against.
    pub baseline: T,
    /// The simplest rule that may do as well as the plan; the baseline where there is no other.
    pub simplest: T,
    /// The usual rule that the plan is shown beside.
    pub naive: T,
    /// The best with future data.
    pub oracle: T,
}

impl<T: Copy> Roles<T> {
    fn try_map<U>(self, of: impl Fn(T) -> Result<U>) -> Result<Roles<U>> {
        let Self { plan, baseline, simplest, naive, oracle } = self;
        Ok(Roles {
            plan: of(plan)?,
            baseline: of(baseline)?,
            simplest: of(simplest)?,
            naive: of(naive)?,
            oracle: of(oracle)?,
        })
    }
}

/// A rule as a plan priced it.
#[derive(Debug, Clone, PartialEq)]
pub struct Priced<I, R, W> {
    /// The rule.
    pub id: I,
    /// The rule in words, for tables and sentences.
    pub words: String,
    /// Whether it kept the limits of the plan.
    pub kept: bool,
    /// The amount of each later window, and what else is told of it.
    pub windows: Vec<(f64, W)>,
    /// The amount of each block that intervals draw.
    pub blocks: Vec<f64>,
    /// Further figures of the rule.
    pub figures: R,
}

/// A rule over all later windows.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "RuleOverWindows")]
pub struct RuleOverWindows<I, R> {
    /// The rule.
    pub id: I,
    /// The rule in words, for tables and sentences.
    pub words: String,
    /// Amount over all windows, in the unit of the trial, per the period that the trial names, such
    /// as a month of 730.5 hours.
    pub amount: f64,
    /// Amount as a share of the baseline's.
    pub of_baseline: f64,
    /// Amount beyond the oracle's, as a share of the oracle's.
    pub regret: f64,
    /// Whether the rule kept the limits of the plan.
    pub kept: bool,
    /// Further figures of the rule.
    #[serde(flatten)]
    pub figures: R,
}

/// A rule in a later window.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "RuleInWindow")]
pub struct RuleInWindow<I, W> {
    /// The rule.
    pub id: I,
    /// Amount in the window, in the unit of the trial.
    pub amount: f64,
    /// Further figures of the rule.
    #[serde(flatten)]
    pub figures: W,
}

/// A window that nothing was chosen on.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "TrialWindow")]
pub struct TrialWindow<I, W> {
    /// Beginning of the window.
    pub from: String,
    /// End of the window.
    pub to: String,
    /// Amounts of the rules.
    pub rules: Vec<RuleInWindow<I, W>>,
}

/// The test of a plan on later windows.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Trial")]
pub struct Trial<I, R, W> {
    /// Start of the stretch that the rules were chosen on.
    pub chosen_from: String,
    /// End of that stretch, and start of the windows that the rules are priced on.
    pub split: String,
    /// Periods that the rules were chosen on, such as weeks or days.
    pub chosen_on: String,
    /// Unit of amounts.
    pub unit: String,
    /// Period that amounts of all windows together are given for, such as `a month`.
    pub per: String,
    /// Windows, in order of time.
    pub windows: Vec<TrialWindow<I, W>>,
    /// Rules over all of them.
    pub rules: Vec<RuleOverWindows<I, R>>,
    /// Rule of each role: the plan, the baseline, the simplest, the usual and the best with future
    /// data.
    pub roles: Roles<I>,
    /// Saving of the plan, as a share of the baseline.
    pub saving: IntervalEstimate,
    /// Saving of the plan, in the unit and period of amounts over all windows.
    pub saved: IntervalEstimate,
    /// Saving of the plan beyond the simplest rule, as a share of the baseline.
    pub beyond_simplest: IntervalEstimate,
    /// The interval in words: how many draws, and of what.
    pub interval: String,
    /// Blocks that intervals draw; of one, nothing is drawn and the interval is none.
    pub blocks: usize,
    /// The window in which the plan saved least.
    pub worst_window: String,
    /// Saving in that window, as a share.
    pub worst_saving: f64,
    /// Whether the windows are long enough for a sure test.
    #[serde(skip)]
    #[schemars(skip)]
    pub is_long: bool,
    /// Results of the rules in their roles.
    #[serde(skip)]
    #[schemars(skip)]
    pub of: Roles<RuleOverWindows<I, R>>,
}

impl<I, R, W> Trial<I, R, W> {
    /// Returns the change of an amount by the plan, such as "Cost of the GPUs on the later
    /// windows".
    pub fn effect(&self, amount: &str) -> Effect {
        Effect::new(amount, &self.unit_in_words(), &self.saved.negated(), &self.interval)
    }

    /// Returns the distance to the best with future data, in words `oracle`, beside the usual rule,
    /// in words `naive`.
    pub fn regret(&self, oracle: &str, naive: &str) -> Option<Regret> {
        let beyond = |rule: &RuleOverWindows<I, R>| rule.amount - self.of.baseline.amount;
        Some(Regret {
            oracle: oracle.to_owned(),
            oracle_change: beyond(&self.of.oracle),
            naive_change: Some(beyond(&self.of.naive)),
            naive: Some(naive.to_owned()),
        })
    }

    /// The unit of amounts of all windows.
    pub fn unit_in_words(&self) -> String {
        format!("{} {}", self.unit, self.per).trim_end().to_owned()
    }
}

impl<I: PartialEq, R, W> Trial<I, R, W> {
    /// Returns the distance of the plan to the best with future data, and the window in which it
    /// saved least, or lost most, in words after "the plan".
    pub fn outcome_in_words(&self) -> String {
        let of = &self.of;
        let from = to_the_minute(&self.worst_window);
        let worst = match self.worst_saving < 0.0 {
            true => format!("lost most from {from} on: {}", format::percent(-self.worst_saving)),
            false => format!("saved least from {from} on: {}", format::percent(self.worst_saving)),
        };
        let is_best = self.roles.oracle == self.roles.plan;
        let more = format!("came to {} more than “{}”", format::percent(of.plan.regret), of.oracle.words);
        // Of one window none is the worst.
        match (is_best, self.windows.len() > 1) {
            (false, true) => format!("{more}, and {worst}"),
            (false, false) => more,
            (true, true) => worst,
            (true, false) => "came to the least of all that were tried".to_owned(),
        }
    }

    /// Returns the risk of following the advice: what the test shows, then `more`.
    pub fn risk(&self, more: &str) -> String {
        let (on, split, outcome) = (&self.chosen_on, to_the_minute(&self.split), self.outcome_in_words());
        format!("Chosen on {on} before {split} and tested on later windows, the plan {outcome}. {more}")
    }
}

impl<I: Copy + PartialEq + Debug, R: Clone, W: Clone> Trial<I, R, W> {
    /// Compares rules on later windows.
    ///
    /// # Errors
    /// If a rule of the roles is not among the rules, which is a defect.
    pub fn new(unit: &str, priced: &[Priced<I, R, W>], roles: Roles<I>, stretches: Stretches) -> Result<Self> {
        let result = roles.try_map(|id| {
            let result = priced.iter().find(|rule| rule.id == id);
            result.ok_or_else(|| Error::defect(format!("{id:?} was not tested")))
        })?;
        let spans = stretches.spans;
        let total = |rule: &Priced<I, R, W>| rule.windows.iter().map(|(amount, _)| amount).sum::<f64>();
        let (baseline, best) = (total(result.baseline), total(result.oracle));
        let over = |rule: &Priced<I, R, W>| RuleOverWindows {
            id: rule.id,
            words: rule.words.clone(),
            amount: total(rule) / spans,
            of_baseline: ratio(total(rule), baseline),
            regret: ratio(total(rule), best) - 1.0,
            kept: rule.kept,
            figures: rule.figures.clone(),
        };
        let window = |(at, (from, to)): (usize, &(String, String))| {
            let in_window = |rule: &Priced<I, R, W>| {
                let (amount, figures) = rule.windows.get(at)?.clone();
                Some(RuleInWindow { id: rule.id, amount, figures })
            };
            TrialWindow { from: from.clone(), to: to.clone(), rules: priced.iter().filter_map(in_window).collect() }
        };
        let blocks = result.plan.blocks.len();
        let [saving, saved, beyond_simplest] = interval::drawn(blocks, &|held| {
            let held: Vec<usize> = held.collect();
            let sum = |rule: &Priced<I, R, W>| held.iter().filter_map(|at| rule.blocks.get(*at)).sum::<f64>();
            let (plan, baseline, simplest) = (sum(result.plan), sum(result.baseline), sum(result.simplest));
            [1.0 - ratio(plan, baseline), (baseline - plan) / spans, ratio(simplest, baseline) - ratio(plan, baseline)]
        });
        let amount = |rule: &Priced<I, R, W>, at: usize| rule.windows.get(at).map_or(0.0, |(amount, _)| *amount);
        let share = |at: usize| 1.0 - ratio(amount(result.plan, at), amount(result.baseline, at));
        // A window in which neither came to anything says nothing.
        let worst = (0..stretches.windows.len())
            .filter(|at| amount(result.plan, *at) != 0.0 || amount(result.baseline, *at) != 0.0)
            .min_by(|a, b| share(*a).total_cmp(&share(*b)))
            .unwrap_or(0);
        Ok(Self {
            unit: unit.to_owned(),
            per: stretches.per.to_owned(),
            windows: stretches.windows.iter().enumerate().map(window).collect(),
            rules: priced.iter().map(over).collect(),
            roles,
            saving,
            saved,
            beyond_simplest,
            blocks,
            worst_window: stretches.windows.get(worst).map_or_else(String::new, |(from, _)| from.clone()),
            worst_saving: share(worst),
            chosen_from: stretches.chosen_from,
            split: stretches.split,
            chosen_on: stretches.chosen_on,
            interval: stretches.interval,
            is_long: stretches.is_long,
            of: result.try_map(|rule| Ok(over(rule)))?,
        })
    }

    /// Amounts of the naive rule and of the truth, window by window, without those where one was not tested.
    pub fn driven(&self, naive: I, truth: I) -> Vec<Driven> {
        let block = |window: &TrialWindow<I, W>| {
            let amount = |id: I| window.rules.iter().find(|rule| rule.id == id).map(|rule| rule.amount);
            Some(Driven { naive: amount(naive)?, model: None, truth: amount(truth)? })
        };
        self.windows.iter().filter_map(block).collect()
    }

    /// A rule over all windows, if it was tested.
    pub fn rule(&self, id: I) -> Option<&RuleOverWindows<I, R>> {
        self.rules.iter().find(|rule| rule.id == id)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(crate) mod tests {
    use tracecast_analytics::time::DAY_MS;

    use super::*;
    use crate::weeks::WeekSplit;

    /// Rules are numbers: 0 the baseline, 1 the simplest, 2 the plan, 3 the oracle; each came to so much on two days.
    pub(crate) fn trial(amounts: [[f64; 2]; 4]) -> Trial<usize, (), ()> {
        let priced: Vec<Priced<usize, (), ()>> = (0..4)
            .zip(amounts)
            .map(|(id, days)| Priced {
                id,
                words: format!("rule {id}"),
                kept: true,
                windows: days.map(|day| (day, ())).to_vec(),
                blocks: days.to_vec(),
                figures: (),
            })
            .collect();
        let roles = Roles { plan: 2, baseline: 0, simplest: 1, naive: 1, oracle: 3 };
        let split = WeekSplit::new((0, 6 * DAY_MS), None).unwrap();
        Trial::new("EUR", &priced, roles, split.stretches(&|ms| format!("day {}", ms / DAY_MS))).unwrap()
    }

    #[test]
    fn the_worked_example() {
        let trial = trial([[100.0, 100.0], [90.0, 90.0], [60.0, 80.0], [50.0, 80.0]]);
        assert!((trial.saving.value - 0.3).abs() < 1e-12 && (trial.beyond_simplest.value - 0.2).abs() < 1e-12);
        assert!((trial.saving.low - 0.2).abs() < 1e-12 && (trial.saving.high - 0.4).abs() < 1e-12);
        assert_eq!((trial.worst_window.as_str(), trial.windows.len(), trial.blocks), ("day 5", 2, 2));
        assert!((trial.worst_saving - 0.2).abs() < 1e-12);
        assert!((trial.of.plan.of_baseline - 0.7).abs() < 1e-12 && trial.of.plan.amount > 0.0);
        assert!((trial.of.plan.regret - (140.0 / 130.0 - 1.0)).abs() < 1e-12);
    }
}
