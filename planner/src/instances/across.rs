//! What it costs to take throughputs of one machine for several.
//!
//! For each job type that was measured with its GPUs on machines apart, a job is to make what the fastest way makes in a day, without a deadline and within 4, 2 and 1.2 days. Each rule chooses the cheapest way on demand that
//! keeps the deadline as far as it knows, and is judged by what was measured:
//!
//! | rule | takes on several machines |
//! |---|---|
//! | all known | what was measured there: the plan |
//! | as on one | what was measured on one machine |
//! | one instance | no way on several machines |
//!
//! Several instances are of one GPU each here, as nothing was measured between one machine and a machine for each GPU. Costs are over those of *all known*, of the cases in which a rule kept the deadline.
//!
//! O(job types × offers). Worked example: four GPUs make 36 steps a second in one machine and 12 in four. A day's work of the former takes three days on four instances of one GPU, so that who takes the one for the other misses a deadline of two days.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::stats::sum;

use super::choose::{RentGoal, best};
use super::heldout::{DAY_S, DEADLINES, is_late, judged};
use super::job::RentedJob;
use super::option::{RentMarket, RentTerms, gpu_of, offered_types, options};
use super::scaling::{ScalingChoice, ScalingModel, ScalingTable};
use crate::market::offers::Offers;

/// What is taken for the throughput on several machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AcrossRule {
    /// What was measured there: the plan.
    AllKnown,
    /// What was measured on one machine.
    AsOnOne,
    /// Nothing: a job has one instance.
    OneInstance,
}

impl AcrossRule {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::AllKnown, Self::AsOnOne, Self::OneInstance];

    /// Name in words.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::AllKnown => "as measured across machines (the plan)",
            Self::AsOnOne => "as measured on one machine",
            Self::OneInstance => "one instance a job",
        }
    }
}

/// Score of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct AcrossScore {
    /// The rule.
    pub rule: AcrossRule,
    /// Cases that something keeps.
    pub cases: u64,
    /// Cases in which it found no way.
    pub found_none: u64,
    /// Cases in which its way took longer than the deadline.
    pub missed: u64,
    /// Ways on several instances.
    pub on_several: u64,
    /// Mean cost over that of all known, where it kept the deadline; none if it never did.
    pub cost_over_known: Option<f64>,
}

/// The test.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct AcrossTest {
    /// Job types that were measured apart on a GPU type that is offered with one GPU.
    pub job_types: u64,
    /// Rules.
    pub rules: Vec<AcrossScore>,
}

/// Tests what is taken for several machines; `None` where a job has one instance, or nothing that is offered with one GPU was measured apart.
pub fn test(table: &ScalingTable, offers: &Offers, terms: &RentTerms) -> Option<AcrossTest> {
    let terms = RentTerms { spot: false, forecasts: false, ..*terms };
    let offered = offered_types(table, offers);
    let is_single =
        |gpu: &str| offers.instances.iter().any(|offer| offer.gpus == 1 && gpu_of(table, offers, offer) == Some(gpu));
    let is_apart = |job: &str| offered.iter().any(|gpu| is_single(gpu) && !table.apart(gpu, job).is_empty());
    let jobs: BTreeSet<&str> = table.jobs().into_iter().filter(|job| is_apart(job)).collect();
    if terms.most_instances < 2 || jobs.is_empty() {
        return None;
    }
    let near = table.without_apart();
    let bare = ScalingChoice::bare(ScalingModel::Between);
    let ways = |rule: AcrossRule, job: &RentedJob| {
        let most_instances = if rule == AcrossRule::OneInstance { 1 } else { terms.most_instances };
        let known = if rule == AcrossRule::AsOnOne { &near } else { table };
        let (mut ways, _) = options(job, known, &bare, offers, &RentTerms { most_instances, ..terms });
        ways.retain(|way| {
            let single = offers.instances.get(way.offer).is_some_and(|offer| offer.gpus == 1);
            way.market == RentMarket::OnDemand
                && (way.instances == 1 || single)
                && judged(job, way, table, offers, &terms).is_some()
        });
        ways
    };
    let empty = |rule| AcrossScore { rule, cases: 0, found_none: 0, missed: 0, on_several: 0, cost_over_known: None };
    let mut scores = AcrossRule::ALL.map(|rule| (empty(rule), Vec::new()));
    for name in &jobs {
        let of = |steps: f64, deadline_s: Option<f64>| RentedJob {
            name: (*name).to_owned(),
            job_type: (*name).to_owned(),
            steps,
            deadline_s,
        };
        let rates = ways(AcrossRule::AllKnown, &of(1.0, None));
        let fastest = rates.iter().map(|way| way.steps_per_s).fold(0.0, f64::max);
        for deadline in DEADLINES {
            let job = of(fastest * DAY_S, deadline.map(|times| times * DAY_S + terms.start_s));
            let chosen = AcrossRule::ALL.map(|rule| best(&ways(rule, &job), RentGoal::Cost));
            let truth = chosen.map(|way| judged(&job, &way?, table, offers, &terms));
            let Some((_, least)) = truth[0] else { continue };
            for (((score, ratios), way), truth) in scores.iter_mut().zip(chosen).zip(truth) {
                score.cases += 1;
                score.on_several += u64::from(way.is_some_and(|way| way.instances > 1));
                match truth {
                    None => score.found_none += 1,
                    Some((time_s, _)) if is_late(&job, time_s) => score.missed += 1,
                    Some((_, cost)) => ratios.push(cost / least),
                }
            }
        }
    }
    let rules = scores.into_iter().map(|(score, ratios)| AcrossScore { cost_over_known: sum::mean(&ratios), ..score });
    Some(AcrossTest { job_types: jobs.len() as u64, rules: rules.collect() })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::option::tests::TERMS;
    use super::super::scaling::tests::rate;
    use super::*;

    #[test]
    fn by_hand() {
        let mut four = rate("v", "a", 4, 36.0);
        four.apart_steps_per_s = Some(12.0);
        let rates = [rate("v", "a", 1, 10.0), four];
        let table = ScalingTable::new(&rates);
        let text = "[[instance]]\nname = \"one\"\ngpu = \"V\"\ngpus = 1\non_demand = 3.0\n\
                    [[instance]]\nname = \"four\"\ngpu = \"V\"\ngpus = 4\non_demand = 20.0\n";
        let offers = Offers::parse("o.toml", text).unwrap();
        let terms = RentTerms { most_instances: 4, ..TERMS };
        let test = test(&table, &offers, &terms).unwrap();
        // The work is a day of the four in one machine, 480. On one GPU it is 3.6 days, 259.2: without a deadline and within four days that is what all take.
        // Within 2 and 1.2 days it is the four in one machine; four apart are thought to take a day for 288, and take three.
        let of = |at: usize| {
            let score = test.rules[at];
            (score.cases, score.found_none, score.missed, score.on_several, score.cost_over_known)
        };
        assert_eq!((test.job_types, of(0)), (1, (4, 0, 0, 0, Some(1.0))));
        assert_eq!(of(1), (4, 0, 2, 2, Some(1.0)));
        assert_eq!(of(2), (4, 0, 0, 0, Some(1.0)));
        assert!(super::test(&table, &offers, &TERMS).is_none());
        assert!(super::test(&table.without_apart(), &offers, &terms).is_none());
    }
}
