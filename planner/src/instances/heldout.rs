//! What choosing by forecasts costs: numbers of GPUs that were measured are hidden, ways are chosen without them, and judged by what was measured.
//!
//! Of each job type that was measured on three numbers of GPUs or more of a type, all numbers between the least and the greatest are hidden, with those of its family. It is to make what the fastest way makes in a day, without a
//! deadline and within 4, 2 and 1.2 days. Each rule chooses one way on demand, of those whose truth is known:
//!
//! | rule | knows | chooses |
//! |---|---|---|
//! | with margin | measured numbers, forecasts of others by the way that is best on other families | the cheapest that keeps the deadline with the margin |
//! | no margin | the same | the cheapest that keeps it as forecast |
//! | in proportion | forecasts in proportion | the cheapest that keeps it as forecast |
//! | measured only | measured numbers | the cheapest that keeps it |
//! | least an hour | as with margin | what costs least an hour of those that keep it with the margin |
//! | fastest | as with margin | the fastest |
//! | all known | everything | the cheapest that keeps it |
//!
//! A way **misses** if it takes longer than the deadline in truth. Costs are over that of *all known*, of those cases in which the rule kept the deadline, with what *measured only* pays in the same cases beside it: rules keep other cases, and those with tight deadlines cost more.
//!
//! O(job types × offers). Worked example: of 10 cases a rule finds a way in 9, misses 1, and pays 1.10 times what all known pays in the other 8.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::stats::sum;

use super::choose::{RentGoal, best, least_an_hour};
use super::job::RentedJob;
use super::option::{RentMarket, RentOption, RentTerms, billed, gpu_of, offered_types, options};
use super::scaling::{HiddenRate, RateBasis, ScalingChoice, ScalingChoices, ScalingModel, ScalingTable};
use crate::market::offers::Offers;

/// Time of the fastest way, seconds.
pub(super) const DAY_S: f64 = 86_400.0;
/// Deadlines over the time of the fastest way; none is none.
pub(super) const DEADLINES: [Option<f64>; 4] = [None, Some(4.0), Some(2.0), Some(1.2)];

/// A way to choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RentRule {
    /// The cheapest by forecasts, with a margin for deadlines: the plan with forecasts.
    WithMargin,
    /// The cheapest by forecasts, without a margin.
    NoMargin,
    /// By forecasts in proportion, without a margin.
    InProportion,
    /// The cheapest of measured numbers of GPUs alone: the plan without forecasts.
    MeasuredOnly,
    /// What costs least an hour.
    LeastAnHour,
    /// The fastest.
    Fastest,
    /// The cheapest, all known.
    AllKnown,
}

impl RentRule {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::WithMargin,
        Self::NoMargin,
        Self::InProportion,
        Self::MeasuredOnly,
        Self::LeastAnHour,
        Self::Fastest,
        Self::AllKnown,
    ];

    /// Name in words.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::WithMargin => "cheapest, forecasts with a margin",
            Self::NoMargin => "cheapest, forecasts without a margin",
            Self::InProportion => "cheapest, throughput in proportion to GPUs",
            Self::MeasuredOnly => "cheapest of what is measured",
            Self::LeastAnHour => "least price an hour, forecasts with a margin",
            Self::Fastest => "fastest, by forecasts",
            Self::AllKnown => "cheapest, all known",
        }
    }
}

/// Score of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct RentRuleScore {
    /// The rule.
    pub rule: RentRule,
    /// Cases.
    pub cases: u64,
    /// Cases in which it found no way.
    pub found_none: u64,
    /// Cases with a deadline in which its way took longer than that.
    pub missed: u64,
    /// Mean cost over that of all known, of the cases in which it kept the deadline, and so did measured numbers alone; none without such a case.
    pub cost_over_known: Option<f64>,
    /// Mean cost of measured numbers alone over that of all known, in these cases.
    pub measured_only_there: Option<f64>,
}

/// The test of choices.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RentTest {
    /// Job types.
    pub job_types: u64,
    /// Rules.
    pub rules: Vec<RentRuleScore>,
}

/// How far a way to forecast is off.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct ScalingScore {
    /// The way; none is that which is chosen on other families.
    pub model: Option<ScalingModel>,
    /// Whether between measured numbers of GPUs, or beyond them.
    pub basis: RateBasis,
    /// Hidden numbers of GPUs.
    pub hidden: u64,
    /// Mean of |truth / forecast − 1|.
    pub mean_error: f64,
    /// Share in which the truth was at least the forecast with the margin; none without a margin.
    pub margin_kept: Option<f64>,
}

/// How far forecasts of hidden rates are off, by each way and by what is chosen.
pub fn scaling_scores(choices: &ScalingChoices, hidden: &[HiddenRate]) -> Vec<ScalingScore> {
    let mut result = Vec::new();
    for basis in [RateBasis::Inside, RateBasis::Beyond] {
        let such: Vec<&HiddenRate> = hidden.iter().filter(|rate| rate.basis == basis).collect();
        let off = |rate: &HiddenRate, model: ScalingModel| (rate.error(model).exp() - 1.0).abs();
        let mut add = |model: Option<ScalingModel>, errors: Vec<f64>, margin_kept: Option<f64>| {
            if let Some(mean_error) = sum::mean(&errors) {
                result.push(ScalingScore { model, basis, hidden: errors.len() as u64, mean_error, margin_kept });
            }
        };
        let choices: Vec<ScalingChoice> = such.iter().map(|rate| choices.of(&rate.job)).collect();
        let errors = such.iter().zip(&choices).map(|(rate, choice)| off(rate, choice.model(basis))).collect();
        let kept = such
            .iter()
            .zip(&choices)
            .filter(|(rate, choice)| rate.error(choice.model(basis)).exp() >= choice.margin(basis));
        add(None, errors, Some(kept.count() as f64 / such.len().max(1) as f64));
        for model in ScalingModel::ALL {
            add(Some(model), such.iter().map(|rate| off(rate, model)).collect(), None);
        }
    }
    result
}

/// A case: what a family's rules may know, and the job.
struct RentCase<'a> {
    job: RentedJob,
    known: &'a ScalingTable,
    choice: ScalingChoice,
}

/// Tests choices on the job types of a table; `None` where no job type was measured on three numbers of GPUs of an offered type.
pub fn test(table: &ScalingTable, choices: &ScalingChoices, offers: &Offers, terms: &RentTerms) -> Option<RentTest> {
    let terms = RentTerms { spot: false, forecasts: true, ..*terms };
    let offered = offered_types(table, offers);
    let several = |job: &&str| offered.iter().any(|gpu| table.points(gpu, job).len() >= 3);
    let families = table.by_family();
    let of_family = |family: &'_ ScalingTable| family.jobs().into_iter().filter(several).map(str::to_owned).collect();
    let jobs: Vec<(&ScalingTable, Vec<String>)> = families.values().map(|family| (family, of_family(family))).collect();
    let job_types: usize = jobs.iter().map(|(_, names)| names.len()).sum();
    if job_types == 0 {
        return None;
    }
    // Of each rule the score, and in which cases it paid how many times what all known pays.
    let mut scores: Vec<(RentRuleScore, BTreeMap<u64, f64>)> = RentRule::ALL
        .iter()
        .map(|rule| {
            (
                RentRuleScore {
                    rule: *rule,
                    cases: 0,
                    found_none: 0,
                    missed: 0,
                    cost_over_known: None,
                    measured_only_there: None,
                },
                BTreeMap::new(),
            )
        })
        .collect();
    let mut number = 0;
    for (family, names) in &jobs {
        let known = family.ends();
        for name in names {
            let fastest =
                offered.iter().flat_map(|gpu| family.points(gpu, name)).map(|point| point.1).fold(0.0, f64::max);
            for deadline in DEADLINES {
                let deadline_s = deadline.map(|times| times * DAY_S + terms.start_s);
                let job = RentedJob { name: name.clone(), job_type: name.clone(), steps: fastest * DAY_S, deadline_s };
                let case = RentCase { job, known: &known, choice: choices.of(name) };
                let of_truth = |option: &RentOption| judged(&case.job, option, family, offers, &terms);
                let is_known = |option: &RentOption| of_truth(option).is_some();
                let all = chosen(RentRule::AllKnown, &case, family, (offers, &terms), &is_known);
                let Some((_, least)) = all.and_then(|option| of_truth(&option)) else { continue };
                number += 1;
                for (score, ratios) in &mut scores {
                    score.cases += 1;
                    let way = chosen(score.rule, &case, family, (offers, &terms), &is_known);
                    let Some((time_s, cost)) = way.and_then(|option| of_truth(&option)) else {
                        score.found_none += 1;
                        continue;
                    };
                    if is_late(&case.job, time_s) {
                        score.missed += 1;
                    } else {
                        ratios.insert(number, cost / least);
                    }
                }
            }
        }
    }
    let measured = scores.iter().find(|(score, _)| score.rule == RentRule::MeasuredOnly);
    let measured = measured.map(|(_, ratios)| ratios.clone()).unwrap_or_default();
    let told = |(score, ratios): (RentRuleScore, BTreeMap<u64, f64>)| {
        let both: Vec<(f64, f64)> =
            ratios.iter().filter_map(|(case, own)| Some((*own, *measured.get(case)?))).collect();
        RentRuleScore {
            cost_over_known: sum::mean(both.iter().map(|pair| pair.0)),
            measured_only_there: sum::mean(both.iter().map(|pair| pair.1)),
            ..score
        }
    };
    Some(RentTest { job_types: job_types as u64, rules: scores.into_iter().map(told).collect() })
}

/// Time and cost of a way by what was measured; `None` where that was not.
pub(super) fn judged(
    job: &RentedJob,
    option: &RentOption,
    measured: &ScalingTable,
    offers: &Offers,
    terms: &RentTerms,
) -> Option<(f64, f64)> {
    let offer = offers.instances.get(option.offer)?;
    let gpu = gpu_of(measured, offers, offer)?;
    let bare = ScalingChoice::bare(ScalingModel::Between);
    let rate = measured.on(gpu, &job.job_type, (option.gpus, offer.gpus), &bare);
    let rate = rate.filter(|rate| !rate.basis.is_forecast())?;
    let time_s = terms.start_s + job.steps / rate.steps_per_s;
    Some((time_s, billed(option.instances, option.market.price(offer)?, time_s, terms.bill_s)))
}

/// Whether a job that took so long missed its deadline.
pub(super) fn is_late(job: &RentedJob, time_s: f64) -> bool {
    job.deadline_s.is_some_and(|deadline_s| time_s > deadline_s * (1.0 + 1e-9))
}

/// What a rule chooses, of ways whose truth is known.
fn chosen(
    rule: RentRule,
    case: &RentCase<'_>,
    table: &ScalingTable,
    (offers, terms): (&Offers, &RentTerms),
    is_known: &dyn Fn(&RentOption) -> bool,
) -> Option<RentOption> {
    let (known, choice) = match rule {
        RentRule::AllKnown => (table, ScalingChoice::bare(ScalingModel::Between)),
        RentRule::WithMargin | RentRule::MeasuredOnly | RentRule::LeastAnHour | RentRule::Fastest => {
            (case.known, case.choice)
        }
        RentRule::NoMargin => (case.known, case.choice.without_margins()),
        RentRule::InProportion => (case.known, ScalingChoice::bare(ScalingModel::Proportional)),
    };
    let terms = RentTerms { forecasts: rule != RentRule::MeasuredOnly, ..*terms };
    let (mut ways, _) = options(&case.job, known, &choice, offers, &terms);
    ways.retain(|option| option.market == RentMarket::OnDemand && is_known(option));
    match rule {
        RentRule::LeastAnHour => least_an_hour(&ways, offers),
        RentRule::Fastest => best(&ways, RentGoal::Time),
        _ => best(&ways, RentGoal::Cost),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::option::tests::{TERMS, offers};
    use super::super::scaling::tests::rate;
    use super::*;

    fn scores(rates: &[(&str, &str, u32, f64)]) -> Vec<RentRuleScore> {
        let rates: Vec<_> = rates.iter().map(|(gpu, job, gpus, speed)| rate(gpu, job, *gpus, *speed)).collect();
        let table = ScalingTable::new(&rates);
        test(&table, &table.choices(&table.hidden()), &offers(), &TERMS).map_or_else(Vec::new, |test| test.rules)
    }

    fn of(scores: &[RentRuleScore], rule: RentRule) -> RentRuleScore {
        *scores.iter().find(|score| score.rule == rule).unwrap()
    }

    #[test]
    fn by_hand() {
        // One job type, measured on 1, 4 and 8 GPUs; only 4 is hidden. Eight make 40 steps a second, which is a day. Offers: one GPU at 3 an hour, eight at 24.
        let result = scores(&[("v", "a", 1, 10.0), ("v", "a", 4, 30.0), ("v", "a", 8, 40.0)]);
        // Without a deadline and within 4 days one GPU: 4 days, 288. Within 2 and 1.2 days eight: a day, 576 (on four GPUs of the eight it would be 1.33 days and 768).
        let known = of(&result, RentRule::AllKnown);
        assert_eq!((known.cases, known.found_none, known.missed, known.cost_over_known), (4, 0, 0, Some(1.0)));
        assert_eq!(of(&result, RentRule::WithMargin), RentRuleScore { rule: RentRule::WithMargin, ..known });
        // The fastest is always the eight.
        let fastest = of(&result, RentRule::Fastest).cost_over_known.unwrap();
        assert!((fastest - (2.0 + 2.0 + 1.0 + 1.0) / 4.0).abs() < 1e-9, "{fastest}");
        // Nothing was measured on three numbers of GPUs.
        assert!(scores(&[("v", "a", 1, 10.0), ("v", "a", 8, 40.0)]).is_empty());
    }

    #[test]
    fn a_forecast_that_is_too_fast_misses() {
        // Offers of four GPUs, of which nobody knows that the job is slow there.
        let text = "[[instance]]\nname = \"four\"\ngpu = \"V\"\ngpus = 4\non_demand = 4.0\n[[instance]]\nname = \"eight\"\ngpu = \"V\"\ngpus = 8\non_demand = 40.0\n";
        let offers = Offers::parse("o.toml", text).unwrap();
        let rates =
            [("a", 1, 10.0), ("a", 4, 12.0), ("a", 8, 80.0)].map(|(job, gpus, speed)| rate("v", job, gpus, speed));
        let table = ScalingTable::new(&rates);
        let result = test(&table, &table.choices(&table.hidden()), &offers, &TERMS).unwrap().rules;
        // In proportion four make 40 steps a second, so that two days and four would do; they make 12, and take 6.7 days.
        assert_eq!(of(&result, RentRule::InProportion).missed, 2);
        // With the margin of who knows nothing of errors, a half, four days seem enough, and are not.
        assert_eq!((of(&result, RentRule::WithMargin).missed, of(&result, RentRule::MeasuredOnly).missed), (1, 0));
    }
}
