//! Whether a cloud plan is advised, how sure that is, what to do, and the recommendation.
//!
//! Windows that overlap tell much of the same days, so what counts is how many of them do not. O(cases). Worked example: of ten later windows two do not overlap; with fewer than three the confidence is low, whatever they say.

use tracecast_analytics::report::format;

use super::super::job::Holding;
use super::super::policy::CloudPolicy;
use super::super::request::CloudRequest;
use super::super::sensitivity::CloudSensitivity;
use super::candidate::CloudCandidate;
use super::{CloudBody, CloudTrial};
use crate::cloud::zones::seen::FEW;
use crate::plan::answer::Change;
use crate::plan::verdict::Verdict;
use crate::plan::{Assurance, Basis, Confidence, Effect, Harm, Regret, WORTH, worth};

/// Whether what was chosen saves enough on the later windows to be followed.
pub(super) fn judge(best: &CloudCandidate) -> Verdict {
    let cost = best.report_cost_ratio;
    if best.policy == CloudPolicy::OnDemand {
        Verdict::NothingBetter
    } else if worth(1.0 - cost.value, 1.0 - cost.high, 1.0) {
        Verdict::Advised
    } else {
        Verdict::NoSaving
    }
}

/// How sure the advice is, and why. `cautions` are those of the answer; `guessed` says whether the
/// price of on-demand is, in the zones that are used.
pub(super) fn sure(
    (trial, body, best): (&CloudTrial, &CloudBody, &CloudCandidate),
    verdict: Verdict,
    cautions: &[String],
    guessed: bool,
) -> Assurance {
    let follows = verdict == Verdict::Advised;
    let because = |confidence: Confidence, why: &str| Assurance::lowered(confidence, Vec::new(), why);
    // A low confidence in a price that is assumed is due to the caution that says so.
    let assumed = |(confidence, why): (Confidence, String), caution: Option<&String>| {
        let lowered_by = caution.filter(|_| confidence == Confidence::Low).cloned();
        Assurance::lowered(confidence, lowered_by.into_iter().collect(), &why)
    };
    let windows = format::counted(best.report_windows as u64, "later window", "later windows");
    let reported = format!("It is reported on {windows}, {}.", trial.overlap_in_words());
    if trial.later_disjoint < FEW {
        return because(Confidence::Low, &reported);
    }
    if let Some(expected) = body.expected_of(best.policy).filter(|expected| follows && 1.0 - expected < WORTH) {
        let why = format!(
            "The later windows saved, but of the job that begins now the programme expects {} of all on-demand.",
            format::percent(expected)
        );
        return because(Confidence::Low, &why);
    }
    if let Some(turn) = &trial.price_turn {
        return assumed(turn.sure(follows), cautions.first());
    }
    if guessed {
        return assumed(sure_of_guessed(trial, follows), cautions.last());
    }
    if verdict == Verdict::NoSaving && best.report_cost_ratio.low < 1.0 - WORTH {
        let why = format!("The interval of the {} reaches a saving worth having.", best.policy.in_words());
        return because(Confidence::Low, &why);
    }
    because(Confidence::Medium, &reported)
}

/// How sure the advice is where the price of on-demand is assumed from that of spot, and the plan
/// `follows` spot or not: by what comes at other prices.
fn sure_of_guessed(trial: &CloudTrial, follows: bool) -> (Confidence, String) {
    let says = |case: &CloudSensitivity| {
        Some((format!("at {} times that", format::float(case.times, 2)), case.is_spot_at_price(trial.chosen)?))
    };
    let cases: Vec<(String, bool)> = trial.sensitivity.iter().filter_map(says).collect();
    let assumed = "The price of on-demand is assumed";
    if let Some((at, _)) = cases.iter().find(|(_, spot)| *spot != follows) {
        let worth = if follows { "is not" } else { "is" };
        return (Confidence::Low, format!("{assumed}, and {at} spot {worth} worth it on average."));
    }
    if cases.is_empty() {
        return (Confidence::Low, format!("{assumed}; no other was tried."));
    }
    let tried: Vec<&str> = cases.iter().map(|(at, _)| at.as_str()).collect();
    (Confidence::Medium, format!("{assumed}; {} the advice is the same on average.", tried.join(" and ")))
}

/// Recommended action, in a sentence.
pub(super) fn act(trial: &CloudTrial, body: &CloudBody, verdict: Verdict) -> String {
    let (place, policy) = (body.place(verdict), trial.chosen.in_words());
    if verdict == Verdict::NothingBetter {
        return format!(
            "**Run the job on-demand**, in {place}: no use of spot was cheaper on the windows of choice.{}",
            body.all_on_demand_in_words()
        );
    }
    if verdict != Verdict::Advised {
        let (said, sure) = match trial.beside(trial.chosen).map(|of| of.report_cost_ratio) {
            Some(cost) if cost.value < 1.0 => {
                let sure = format!(
                    ", which is not worth it: a change is worth it from {} on, if its interval leaves out no saving",
                    format::percent(WORTH)
                );
                (format!("{} less than on-demand", format::percent(1.0 - cost.value)), sure)
            }
            _ => ("no less than on-demand".to_owned(), String::new()),
        };
        let expected = body.expected_of(trial.chosen).map_or_else(String::new, |cost_ratio| {
            format!(" Expected of it now: {} of all on-demand.", format::percent(cost_ratio))
        });
        return format!(
            "**Run the job on-demand**, in {place}: the {policy}, which cost least on the windows of choice, cost {said} on the later ones{sure}.{expected}{}",
            body.all_on_demand_in_words()
        );
    }
    let expected = body.expected_and_tested(trial);
    if body.now.if_up == Holding::OnDemand && body.now.if_down == Holding::OnDemand {
        return format!(
            "**Begin on-demand**, in {place} (policy: {policy}): the deadline leaves no time for spot yet.{expected}"
        );
    }
    let wait = if body.now.wait_at_most_s > 0.0 {
        format!(" If spot does not come for {}, go on-demand.", format::duration(body.now.wait_at_most_s))
    } else {
        String::new()
    };
    format!(
        "**Run the job on spot with on-demand behind it**, in {place} (policy: {policy}): {}.{wait}{expected}",
        body.begin_with()
    )
}

impl CloudBody {
    /// Where the job runs, in words.
    fn place(&self, verdict: Verdict) -> String {
        match &self.zones {
            Some(zones) if verdict != Verdict::Advised || zones.order.is_empty() => {
                format!("`{}`", zones.on_demand_zone)
            }
            Some(zones) => {
                let named: Vec<String> = zones.order.iter().map(|zone| format!("`{zone}`")).collect();
                format!("{}, in this order", format::names(&named, 3))
            }
            None => format!("`{}`", self.trace),
        }
    }

    /// What all on-demand costs, as a sentence.
    fn all_on_demand_in_words(&self) -> String {
        let mean = if self.uncertain.is_some() { " on the mean" } else { "" };
        format!(" That takes {}{mean}.", self.all_on_demand.in_words(self.price_ratio))
    }
}

/// The recommendation: the policy chosen, beside all on-demand.
pub(super) fn change(
    (trial, body, best): (&CloudTrial, &CloudBody, &CloudCandidate),
    sure: Assurance,
    request: &CloudRequest,
) -> Change {
    let cost = best.report_cost_ratio;
    let change = |share: f64| share - 1.0;
    let beside = |policy: CloudPolicy| trial.beside(policy).map(|of| change(of.report_cost_ratio.value));
    let naive = beside(CloudPolicy::UniformProgress);
    let mut effects = vec![Effect {
        what: "cost of the job on later windows, as a share of all on-demand".to_owned(),
        unit: String::new(),
        change: change(cost.value),
        low: Some(change(cost.low)),
        high: Some(change(cost.high)),
        interval: format!(
            "95 %, {} after those it was chosen on, drawn anew, {}; where they overlap it is too narrow",
            format::counted(best.report_windows as u64, "window", "windows"),
            trial.overlap_in_words()
        ),
    }];
    effects.extend(body.expected_of(best.policy).map(|cost_ratio| {
        let what = "expected cost of the job that begins now, as a share of all on-demand";
        let why = "it is what the programme expects from what holds at the end of the data";
        Effect::counted(what, "", change(cost_ratio), why)
    }));
    Change {
        plan: "rent job",
        effects,
        against: "all on-demand".to_owned(),
        basis: Basis::LaterDays,
        regret: beside(CloudPolicy::Omniscient).map(|least| Regret {
            oracle: "the optimum that knows all availability".to_owned(),
            oracle_change: least,
            naive_change: naive,
            naive: naive.map(|_| CloudPolicy::UniformProgress.in_words().to_owned()),
        }),
        harmed: vec![Harm {
            who: "whoever waits for the job".to_owned(),
            how_much: format!(
                "it ends by its deadline, {} from its start, where on-demand alone would take {}{}",
                format::duration(body.deadline_s),
                if body.uncertain.is_some() { "up to " } else { "" },
                format::duration(body.work_s + body.changeover_s)
            ),
        }],
        risk: format!(
            "{} The dearest of the later windows cost {} of all on-demand. No window missed its deadline, as on-demand begins in time whatever spot does; that takes on-demand for granted.",
            sure.risk,
            format::percent(best.report_worst)
        ),
        sure,
        assumed: vec![
            format!("Prices: {}.", body.prices),
            format!(
                "On-demand can always be had, and another instance takes {}.",
                format::duration(body.changeover_s)
            ),
            "Work that is done stays done: the job writes checkpoints.".to_owned(),
        ],
        holds_until: format!("the deadline, {} from the start of the job", format::duration(body.deadline_s)),
        apply: "Write the tasks of SkyPilot and launch the one that the plan begins with, or write the node pools of Karpenter and let the pods select what it begins with.".to_owned(),
        command: request.command.clone(),
        undo: "Launch the task on-demand from the last checkpoint, and cancel the one on spot.",
    }
}
