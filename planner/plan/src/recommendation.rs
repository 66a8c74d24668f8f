//! Recommendations: one form for every plan.
//!
//! A recommendation says what to do, what it changes and by how much (with an interval, or why there is none), against what, how far the best
//! possible is away, who is harmed, how sure it is, what it assumes, until when it holds, how to apply it and how to undo it. Where nothing is worth
//! changing there is no recommendation, and the report says so.
//!
//! Worked example: "Put idle GPU nodes to sleep after 60 minutes": 7.2 nodes asleep on average (5.1 to 9.0), against all nodes on; the optimum
//! sleeps 14.5; jobs of two VCs wait 4 minutes longer in all.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use tracecast_replay::compare::IntervalEstimate;

/// Note where recorded sizes are of another time than the jobs: nothing may then be taken away, or
/// written for a site.
pub const SIZES_UNKNOWN: &str = "how many nodes there are today is not recorded, as the sizes are of another time than the jobs. Name the nodes of today with --site (`tracecast cluster SOURCE --out cluster.toml` writes the last known ones, to correct)";

/// Share of what it changes that an effect must have to be worth a change.
pub const WORTH: f64 = 0.05;

/// True if `gain` is at least 5 % of the baseline `of`, and its lower bound `least` exceeds 0.
pub fn worth(gain: f64, least: f64, of: f64) -> bool {
    least > 0.0 && of > 0.0 && gain >= WORTH * of
}

/// A figure that a recommendation changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Effect {
    /// The figure that changes, such as "GPU-hours waited".
    pub what: String,
    /// Unit, such as `GPU-h`; empty where `what` says it.
    pub unit: String,
    /// Change of the figure: below 0 it falls.
    pub change: f64,
    /// Lower end of the interval of the change.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// Basis of the interval, or why there is none.
    pub interval: String,
}

impl Effect {
    /// A change with the interval it was measured with; `interval` says what that is of.
    pub fn new(what: &str, unit: &str, estimate: &IntervalEstimate, interval: &str) -> Self {
        Self {
            what: what.to_owned(),
            unit: unit.to_owned(),
            change: estimate.value,
            low: Some(estimate.low),
            high: Some(estimate.high),
            interval: interval.to_owned(),
        }
    }

    /// A change without an interval, and why there is none.
    pub fn counted(what: &str, unit: &str, change: f64, why: &str) -> Self {
        let none = IntervalEstimate { value: change, low: change, high: change };
        Self { low: None, high: None, ..Self::new(what, unit, &none, &format!("none: {why}")) }
    }

    /// Whether the change may be chance: its interval includes no change, or has no bound towards
    /// none. `false` where there is no interval.
    pub fn may_be_none(&self) -> bool {
        let (near, far, sign) = match self.change >= 0.0 {
            true => (self.low, self.high, 1.0),
            false => (self.high, self.low, -1.0),
        };
        near.map_or(far.is_some(), |near| near * sign <= 0.0)
    }
}

/// Distance to the best possible.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Regret {
    /// The oracle, such as "the optimum that knows all demand".
    pub oracle: String,
    /// Change under the oracle, in the unit of the first [effect](Recommendation::effects).
    pub oracle_change: f64,
    /// Change under the naive rule, in the same unit.
    pub naive_change: Option<f64>,
    /// Name of the naive rule.
    pub naive: Option<String>,
}

/// Harm to a party.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Harm {
    /// The party: a VC, a group of jobs, the operator.
    pub who: String,
    /// Size of the harm, in words with numbers and units.
    pub how_much: String,
}

/// Confidence in an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// A count or a comparison that no held-out data has tested.
    Low,
    /// Tested on one stretch of later data, or an effect whose interval is wide.
    Medium,
    /// Tested on several stretches of later data, and the effect's interval excludes none.
    High,
}

impl Confidence {
    /// Returns the confidence in a word.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// Confidence in an answer, and its reasons; of an answer that changes something, or nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Assurance {
    /// The confidence.
    pub confidence: Confidence,
    /// The cautions that made it low, as they stand among the cautions of the answer; empty where none did.
    pub lowered_by: Vec<String>,
    /// Why it is so sure and not surer, and what can go wrong.
    pub risk: String,
}

impl Assurance {
    /// Builds an assurance of the confidence that the test gave (`tested`, in words `in_words`),
    /// lowered to low if there are cautions in `lowered_by`. Each of these is named as a reason,
    /// and has to stand among the cautions of the answer.
    pub fn lowered(tested: Confidence, lowered_by: Vec<String>, in_words: &str) -> Self {
        let names: Vec<String> = lowered_by.iter().map(|caution| format!("“{}”", named(caution))).collect();
        let risk = match names.as_slice() {
            [] => String::new(),
            [one] => format!("Lowered by the caution {one}."),
            [several @ .., last] => format!("Lowered by the cautions {} and {last}.", several.join(", ")),
        };
        let said: Vec<&str> = [risk.as_str(), in_words].into_iter().filter(|said| !said.is_empty()).collect();
        let risk = said.join(" ");
        let confidence = if lowered_by.is_empty() { tested } else { Confidence::Low };
        Self { confidence, lowered_by, risk }
    }

    /// Returns the confidence and its reasons in a sentence.
    pub fn sentence(&self) -> String {
        format!("Confidence: {}. {}", self.confidence.in_words(), self.risk)
    }
}

/// Returns the name of a caution: its bold part, else its first sentence.
fn named(caution: &str) -> &str {
    let bold = caution.split_once("**").and_then(|(_, rest)| rest.split_once("**")).map(|(bold, _)| bold);
    bold.unwrap_or_else(|| caution.split_once([':', '.']).map_or(caution, |(first, _)| first)).trim_end_matches('.')
}

/// Basis of an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// Days after those it was chosen on.
    LaterDays,
    /// Jobs of the past, simulated again.
    Replay,
    /// A count of what happened.
    Count,
}

/// One change worth making.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Recommendation {
    /// Name of the plan it comes from, such as `power`: lower-case words joined by `-`.
    pub plan: String,
    /// The recommended action: one imperative sentence; `**bold**` is allowed.
    pub action: String,
    /// Changed figures; the first is the reason for the recommendation.
    pub effects: Vec<Effect>,
    /// Baseline of the effects, such as "all nodes powered".
    pub against: String,
    /// Basis of the effects.
    pub basis: Basis,
    /// Distance to the best possible; `None` where no bound is known.
    pub regret: Option<Regret>,
    /// Parties that are worse off; empty where nobody is known to be.
    pub harmed: Vec<Harm>,
    /// Confidence in the effects.
    pub confidence: Confidence,
    /// Why it is so sure and not surer, and what can go wrong.
    pub risk: String,
    /// Assumptions, one sentence each.
    pub assumptions: Vec<String>,
    /// End of the recommendation's validity, in words: a date, or an event.
    pub holds_until: String,
    /// Instructions to apply the change, in one or two sentences.
    pub apply: String,
    /// The command that applies or emits it, where there is one.
    pub command: Option<String>,
    /// Instructions to undo the change.
    pub undo: String,
}

impl Recommendation {
    /// Lowers the confidence where the interval of the first effect, which is the reason, includes
    /// no change.
    #[must_use]
    pub fn weighed(self) -> Self {
        match self.refused() {
            Some(why) => Self { confidence: Confidence::Low, risk: format!("{why} {}", self.risk), ..self },
            None => self,
        }
    }

    /// Why nothing may be written of it for a site to apply: the interval of its reason holds no change at all.
    pub fn refused(&self) -> Option<String> {
        let reason = self.effects.first().filter(|effect| effect.may_be_none())?;
        Some(format!("The interval of “{}” holds no change at all: what was found may be chance.", reason.what))
    }
}

/// Why nothing is written for a site to apply where no change is advised; `action` is what to do, in words.
pub fn nothing_advised(action: &str) -> String {
    format!("no change is advised, so there is nothing to set. {action}")
}

/// Why nothing may be written for a site to apply: no change is advised, or what is may be chance.
pub fn unadvised(recommendation: Option<&Recommendation>, action: &str) -> Option<String> {
    recommendation.map_or_else(|| Some(nothing_advised(action)), Recommendation::refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_that_holds_no_change_makes_an_answer_low() {
        let effect = |change: f64, low: Option<f64>, high: Option<f64>| Effect {
            what: "Mean wait".to_owned(),
            unit: "s".to_owned(),
            change,
            low,
            high,
            interval: String::new(),
        };
        let none = |change: f64, low: f64, high: f64| effect(change, Some(low), Some(high)).may_be_none();
        assert!(none(-5.0, -9.0, 1.0) && none(5.0, -1.0, 9.0) && none(5.0, 0.0, 9.0));
        assert!(!none(-5.0, -9.0, -1.0) && !none(5.0, 1.0, 9.0));
        // An end that is not known towards none excludes nothing; without any interval nothing is said.
        assert!(effect(5.0, None, Some(9.0)).may_be_none() && !effect(5.0, Some(1.0), None).may_be_none());
        assert!(!effect(5.0, None, None).may_be_none());
        let of = |low: f64| Recommendation {
            plan: "x".to_owned(),
            action: String::new(),
            effects: vec![effect(5.0, Some(low), Some(9.0))],
            against: String::new(),
            basis: Basis::LaterDays,
            regret: None,
            harmed: Vec::new(),
            confidence: Confidence::Medium,
            risk: "Later.".to_owned(),
            assumptions: Vec::new(),
            holds_until: String::new(),
            apply: String::new(),
            command: None,
            undo: String::new(),
        };
        assert_eq!(of(1.0).weighed(), of(1.0));
        assert_eq!((unadvised(Some(&of(1.0)), ""), unadvised(None, "Wait.")), (None, Some(nothing_advised("Wait."))));
        assert_eq!(unadvised(Some(&of(-1.0)), ""), of(-1.0).refused());
        let low = of(-1.0).weighed();
        assert_eq!(low.confidence, Confidence::Low);
        assert!(low.refused().is_some() && low.risk.ends_with("may be chance. Later."), "{}", low.risk);
    }

    #[test]
    fn what_made_an_answer_low_is_named() {
        let sure = Assurance::lowered(Confidence::Medium, Vec::new(), "One stretch was tested.");
        assert_eq!(sure.sentence(), "Confidence: medium. One stretch was tested.");
        let cautions = ["**The sizes are old**: of April.", "Nobody knows: guess."].map(str::to_owned).to_vec();
        let low = Assurance::lowered(Confidence::High, cautions.clone(), "One stretch was tested.");
        assert_eq!((low.confidence, &low.lowered_by), (Confidence::Low, &cautions));
        assert_eq!(
            low.sentence(),
            "Confidence: low. Lowered by the cautions “The sizes are old” and “Nobody knows”. One stretch was tested."
        );
    }
}
