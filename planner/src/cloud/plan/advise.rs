//! How sure a cloud plan is, and what it recommends.
//!
//! Windows that overlap tell much of the same days, so what counts is how many of them do not. O(cases). Worked example: of ten later windows two do not overlap; with fewer than three the confidence is low, whatever they say.

use tracecast_analytics::report::format;

use super::super::policy::CloudPolicy;
use super::super::sensitivity::CloudSensitivity;
use super::CloudPlanAnswer;
use super::candidate::CloudCandidate;
use crate::cloud::zones::seen::FEW;
use crate::plan::{Basis, Confidence, Effect, Harm, Recommendation, Regret, WORTH};

impl CloudPlanAnswer {
    /// How sure the advice is, and why. Whether the price of on-demand is `guessed` in the zones that are used.
    pub(super) fn sure(&self, best: &CloudCandidate, guessed: bool) -> (Confidence, String) {
        let windows = format::counted(best.report_windows as u64, "later window", "later windows");
        if self.later_disjoint < FEW {
            return (Confidence::Low, format!("it is reported on {windows}, {}", self.overlap_in_words()));
        }
        let follows = self.followed != CloudPolicy::OnDemand;
        if let Some(expected) = self.expected_of(best.policy).filter(|expected| follows && 1.0 - expected < WORTH) {
            let why = format!(
                "the later windows saved, but of the job that begins now the programme expects {} of all on-demand",
                format::percent(expected)
            );
            return (Confidence::Low, why);
        }
        if let Some(turn) = &self.price_turn {
            return turn.sure(follows);
        }
        if guessed {
            return self.sure_of_guessed(follows);
        }
        let cost = best.report_cost_ratio;
        if !follows && best.policy != CloudPolicy::OnDemand && cost.low < 1.0 - WORTH {
            let why = format!("the interval of the {} reaches a saving worth having", best.policy.in_words());
            return (Confidence::Low, why);
        }
        (Confidence::Medium, format!("it is reported on {windows}, {}", self.overlap_in_words()))
    }

    /// How many of the later windows overlap, as a clause.
    pub(super) fn overlap_in_words(&self) -> String {
        match self.beside(self.chosen).map_or(0, |of| of.report_windows) {
            windows if windows <= self.later_disjoint => "which do not overlap".to_owned(),
            _ if self.later_disjoint == 1 => "which all overlap".to_owned(),
            _ => format!("of which {} do not overlap", self.later_disjoint),
        }
    }

    /// The same where the price of on-demand is assumed from that of spot, and the plan `follows` spot or not: by what comes at other prices.
    fn sure_of_guessed(&self, follows: bool) -> (Confidence, String) {
        let says = |case: &CloudSensitivity| {
            Some((format!("at {} times that", format::float(case.times, 2)), case.is_spot_at_price(self.chosen)?))
        };
        let cases: Vec<(String, bool)> = self.sensitivity.iter().filter_map(says).collect();
        if let Some((at, _)) = cases.iter().find(|(_, spot)| *spot != follows) {
            let worth = if follows { "is not" } else { "is" };
            let why = format!("the price of on-demand is assumed, and {at} spot {worth} worth it on average");
            return (Confidence::Low, why);
        }
        if cases.is_empty() {
            return (Confidence::Low, "the price of on-demand is assumed; no other was tried".to_owned());
        }
        let tried: Vec<&str> = cases.iter().map(|(at, _)| at.as_str()).collect();
        let why =
            format!("the price of on-demand is assumed; {} the advice is the same on average", tried.join(" and "));
        (Confidence::Medium, why)
    }

    pub(super) fn recommended(&self, best: &CloudCandidate) -> Option<Recommendation> {
        let cost = best.report_cost_ratio;
        if self.followed == CloudPolicy::OnDemand {
            return None;
        }
        let change = |share: f64| share - 1.0;
        let naive = self.beside(CloudPolicy::UniformProgress).map(|uniform| change(uniform.report_cost_ratio.value));
        let least = self.beside(CloudPolicy::Omniscient).map(|least| change(least.report_cost_ratio.value));
        let expected = self.expected_of(best.policy).map(|cost_ratio| Effect {
            what: "expected cost of the job that begins now, as a share of all on-demand".to_owned(),
            unit: String::new(),
            change: change(cost_ratio),
            low: None,
            high: None,
            interval: "none: it is what the programme expects from what holds at the end of the data".to_owned(),
        });
        Some(Recommendation {
            plan: "cloud".to_owned(),
            action: self.action.clone(),
            effects: vec![Effect {
                what: "cost of the job on later windows, as a share of all on-demand".to_owned(),
                unit: String::new(),
                change: change(cost.value),
                low: Some(change(cost.low)),
                high: Some(change(cost.high)),
                interval: format!(
                    "95 %, {} after those it was chosen on, drawn anew, {}; where they overlap it is too narrow",
                    format::counted(best.report_windows as u64, "window", "windows"),
                    self.overlap_in_words()
                ),
            }]
            .into_iter()
            .chain(expected)
            .collect(),
            against: "all on-demand".to_owned(),
            basis: Basis::LaterDays,
            regret: least.map(|least| Regret {
                oracle: "the optimum that knows all availability".to_owned(),
                oracle_change: least,
                naive_change: naive,
                naive: naive.map(|_| CloudPolicy::UniformProgress.in_words().to_owned()),
            }),
            harmed: vec![Harm {
                who: "whoever waits for the job".to_owned(),
                how_much: format!(
                    "it ends by its deadline, {} from its start, where on-demand alone would take {}{}",
                    format::duration(self.deadline_s),
                    if self.uncertain.is_some() { "up to " } else { "" },
                    format::duration(self.work_s + self.changeover_s)
                ),
            }],
            confidence: self.confidence,
            risk: format!(
                "Confidence is {}: {}. The dearest of the later windows cost {} of all on-demand. No window missed its deadline, as on-demand begins in time whatever spot does; that takes on-demand for granted.",
                self.confidence.in_words(),
                self.confidence_why,
                format::percent(best.report_worst)
            ),
            assumptions: vec![
                format!("Prices: {}.", self.prices),
                format!(
                    "On-demand can always be had, and another instance takes {}.",
                    format::duration(self.changeover_s)
                ),
                "Work that is done stays done: the job writes checkpoints.".to_owned(),
            ],
            holds_until: format!("the deadline, {} from the start of the job", format::duration(self.deadline_s)),
            apply: "Write the tasks of SkyPilot and launch the one that the plan begins with, or write the node pools of Karpenter and let the pods select what it begins with.".to_owned(),
            command: self.command.clone(),
            undo: "Launch the task on-demand from the last checkpoint, and cancel the one on spot.".to_owned(),
        })
    }
}
