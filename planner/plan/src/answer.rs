//! The answer of every plan: one envelope, built whole.
//!
//! O(rows). Worked example: a plan that is not advised has a verdict that says why, an action that
//! changes nothing, and no recommendation.

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::trace::SourceRecord;

use crate::forecast::Forecasting;
use crate::trial::Trial;
use crate::verdict::{Verdict, unchanged};
use crate::{Assurance, Basis, Effect, Harm, Recommendation, Regret};

/// The answer of a plan: how it was tested (`T`, a [`Trial`] where rules are priced on later windows), and what only it has (`B`).
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Answer")]
pub struct Answer<T, B> {
    /// Version of this form.
    pub schema: String,
    /// The cluster or part that was planned for.
    pub title: String,
    /// The recommended action, in a sentence.
    pub action: String,
    /// Whether the plan is advised.
    pub verdict: Verdict,
    /// Confidence in the advice, also where it is to change nothing; nothing where something has to
    /// be decided first.
    pub assurance: Option<Assurance>,
    /// Reasons not to believe the answer, one sentence each.
    pub cautions: Vec<String>,
    /// Assumptions, in words.
    pub notes: Vec<String>,
    /// The test on later windows.
    pub trial: T,
    /// The recommendation, if the plan is advised.
    pub recommendation: Option<Recommendation>,
    /// Worth of the forecast that the plan rests on.
    #[serde(flatten)]
    pub forecasting: Forecasting,
    /// Fields that only this plan has.
    #[serde(flatten)]
    pub body: B,
    /// Files it rests on.
    pub sources: Vec<SourceRecord>,
}

impl<T, B> Answer<T, B> {
    /// Whether the plan is advised.
    pub fn is_advised(&self) -> bool {
        self.verdict == Verdict::Advised
    }
}

/// The first and last fields of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Head {
    /// Version of the form.
    pub schema: &'static str,
    /// The cluster or part that was planned for.
    pub title: String,
    /// Reasons not to believe the answer.
    pub cautions: Vec<String>,
    /// Assumptions, in words.
    pub notes: Vec<String>,
    /// Worth of the forecast that the plan rests on.
    pub forecasting: Forecasting,
    /// Files it rests on.
    pub sources: Vec<SourceRecord>,
}

/// A change that is advised.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// Name of the plan.
    pub plan: &'static str,
    /// Changed figures, the reason for the change first.
    pub effects: Vec<Effect>,
    /// The baseline in words.
    pub against: String,
    /// Basis of the effects.
    pub basis: Basis,
    /// Distance to the best possible; nothing where no bound is known.
    pub regret: Option<Regret>,
    /// Parties that are worse off.
    pub harmed: Vec<Harm>,
    /// Confidence in the change, and what lowers it.
    pub sure: Assurance,
    /// Risks, in sentences; may be empty.
    pub risk: String,
    /// Assumptions about the time to come.
    pub assumed: Vec<String>,
    /// End of the advice's validity, in words.
    pub holds_until: String,
    /// Instructions to apply the change.
    pub apply: String,
    /// The command that applies or emits it, where there is one.
    pub command: Option<String>,
    /// Instructions to undo the change.
    pub undo: &'static str,
}

/// The outcome of a test: change something, or nothing.
#[derive(Debug, Clone, PartialEq)]
pub enum Advice {
    /// Something is to be changed.
    Change(Box<Change>),
    /// Nothing is, and how sure that is; nothing where something has to be decided first.
    Stay(Option<Assurance>),
}

impl Advice {
    /// The change if the verdict is that it is advised, else that nothing should change; either is
    /// so `sure`.
    pub fn sure(verdict: Verdict, sure: Assurance, change: impl FnOnce(Assurance) -> Change) -> Self {
        match verdict {
            Verdict::Advised => Self::Change(Box::new(change(sure))),
            _ => Self::Stay(Some(sure)),
        }
    }

    /// The change if the verdict is that it is advised, else how sure it is by a trial that nothing should change.
    pub fn new<I, R, W>(trial: &Trial<I, R, W>, verdict: Verdict, change: impl FnOnce() -> Change) -> Self {
        match verdict {
            Verdict::Advised => Self::Change(Box::new(change())),
            _ => Self::Stay(unchanged(trial, verdict)),
        }
    }
}

/// Builds the answer of a plan.
pub fn answer<T, B>(
    head: Head,
    trial: T,
    body: B,
    (verdict, action): (Verdict, String),
    advice: Advice,
) -> Answer<T, B> {
    let Head { schema, title, cautions, notes, forecasting, sources } = head;
    let (recommendation, assurance) = match advice {
        Advice::Stay(assurance) => (None, assurance),
        Advice::Change(change) => {
            let sure = change.sure.clone();
            let recommendation = change.recommended(&action, cautions.iter().chain(&notes));
            let confidence = recommendation.confidence;
            (Some(recommendation), Some(Assurance { confidence, ..sure }))
        }
    };
    let schema = schema.to_owned();
    Answer {
        schema,
        title,
        action,
        verdict,
        assurance,
        cautions,
        notes,
        trial,
        recommendation,
        forecasting,
        body,
        sources,
    }
}

impl Change {
    /// Returns the change as a recommendation; `noted` are the assumptions of the answer.
    pub fn recommended<'a>(self, action: &str, noted: impl Iterator<Item = &'a String>) -> Recommendation {
        Recommendation {
            plan: self.plan.to_owned(),
            action: action.to_owned(),
            effects: self.effects,
            against: self.against,
            basis: self.basis,
            regret: self.regret,
            harmed: self.harmed,
            confidence: self.sure.confidence,
            risk: self.risk.trim_end().to_owned(),
            assumptions: noted.cloned().chain(self.assumed).collect(),
            holds_until: self.holds_until,
            apply: self.apply,
            command: self.command,
            undo: self.undo.to_owned(),
        }
        .weighed()
    }
}
