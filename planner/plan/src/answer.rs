//! The answer of every plan: one envelope, built whole.
//!
//! O(rows). Worked example: a plan that is not advised has a verdict, an action that begins with "Change nothing", and no recommendation.

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::report::format;
use tracecast_analytics::time::to_the_minute;
use tracecast_analytics::trace::SourceRecord;

use crate::trial::Trial;
use crate::verdict::{Verdict, unchanged};
use crate::{Assurance, Basis, Confidence, Effect, Harm, Recommendation, Regret};

/// The answer of a plan: its rules (`I`), what it tells of them (`R`, and `W` in a window), and what only it has (`B`).
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Answer")]
pub struct Answer<I, R, W, B> {
    /// Version of this form.
    pub schema: String,
    /// What was planned for.
    pub title: String,
    /// What to do, in a sentence.
    pub action: String,
    /// Whether the plan is advised.
    pub verdict: Verdict,
    /// How sure the advice is, also where it is to change nothing; nothing where something has to be decided first.
    pub assurance: Option<Assurance>,
    /// What speaks against believing the answer, one sentence each.
    pub cautions: Vec<String>,
    /// What was assumed, in words.
    pub notes: Vec<String>,
    /// The test on later windows.
    pub trial: Trial<I, R, W>,
    /// The recommendation, if the plan is advised.
    pub recommendation: Option<Recommendation>,
    /// What only this plan has.
    #[serde(flatten)]
    pub body: B,
    /// Files it rests on.
    pub sources: Vec<SourceRecord>,
}

/// What an answer begins and ends with.
#[derive(Debug, Clone, PartialEq)]
pub struct Head {
    /// Version of the form.
    pub schema: &'static str,
    /// What was planned for.
    pub title: String,
    /// What speaks against believing the answer.
    pub cautions: Vec<String>,
    /// What was assumed, in words.
    pub notes: Vec<String>,
    /// Files it rests on.
    pub sources: Vec<SourceRecord>,
}

/// What a plan says of the change that it advises, beyond its trial.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// Name of the plan.
    pub plan: &'static str,
    /// What the amounts of the trial are, such as "Cost of the GPUs on the later windows".
    pub amount: String,
    /// What else changes.
    pub effects: Vec<Effect>,
    /// The baseline in words.
    pub against: String,
    /// The oracle in words.
    pub oracle: String,
    /// The usual rule in words.
    pub naive: String,
    /// Who is worse off.
    pub harmed: Vec<Harm>,
    /// How sure it is.
    pub confidence: Confidence,
    /// Why it is no surer, in sentences for the summary; may be empty.
    pub doubt: String,
    /// What can go wrong beside what the trial shows, in sentences; may be empty.
    pub risk: String,
    /// What is taken for granted of the time to come.
    pub assumption: &'static str,
    /// Until when it holds.
    pub holds_until: String,
    /// How to apply it.
    pub apply: String,
    /// The command that applies or emits it, where there is one.
    pub command: Option<String>,
    /// How to undo it.
    pub undo: &'static str,
}

/// Builds the answer of a plan; `change` is what is advised, if the verdict is that something is.
pub fn answer<I, R, W, B>(
    head: Head,
    trial: Trial<I, R, W>,
    body: B,
    (verdict, action): (Verdict, String),
    change: Option<Change>,
) -> Answer<I, R, W, B> {
    let Head { schema, title, cautions, notes, sources } = head;
    let (recommendation, assurance) = match change {
        None => (None, unchanged(&trial, verdict)),
        Some(change) => {
            let risk = change.doubt.clone();
            let assumptions = cautions.iter().chain(&notes).cloned().collect();
            let recommendation = recommend(&trial, change, &action, assumptions);
            let confidence = recommendation.confidence;
            (Some(recommendation), Some(Assurance { confidence, lowered_by: Vec::new(), risk }))
        }
    };
    let schema = schema.to_owned();
    Answer { schema, title, action, verdict, assurance, cautions, notes, trial, recommendation, body, sources }
}

/// The recommendation of a change, with what its trial says.
fn recommend<I, R, W>(
    trial: &Trial<I, R, W>,
    change: Change,
    action: &str,
    mut assumptions: Vec<String>,
) -> Recommendation {
    let of = &trial.of;
    let beyond = |amount: f64| amount - of.baseline.amount_per_month;
    let unit = format!("{} a month", trial.unit);
    let first = Effect::of(&change.amount, &unit, &trial.saving_per_month.negated(), &trial.interval);
    let risk = format!(
        "Chosen on {} before {}, the plan came to {} more than “{}” on the later windows; it {}.",
        trial.chosen_on,
        to_the_minute(&trial.split),
        format::percent(of.plan.regret),
        of.oracle.words,
        trial.worst_in_words()
    );
    assumptions.push(change.assumption.to_owned());
    Recommendation {
        plan: change.plan.to_owned(),
        action: action.to_owned(),
        effects: [vec![first], change.effects].concat(),
        against: change.against,
        basis: Basis::LaterDays,
        regret: Some(Regret {
            oracle: change.oracle,
            oracle_change: beyond(of.oracle.amount_per_month),
            naive_change: Some(beyond(of.naive.amount_per_month)),
            naive: Some(change.naive),
        }),
        harmed: change.harmed,
        confidence: change.confidence,
        risk: [risk, change.risk].join(" ").trim_end().to_owned(),
        assumptions,
        holds_until: change.holds_until,
        apply: change.apply,
        command: change.command,
        undo: change.undo.to_owned(),
    }
    .weighed()
}
