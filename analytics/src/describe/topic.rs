//! What a topic has to provide, and how one the data do not allow is told.

use schemars::JsonSchema;
use serde::Serialize;

use super::facts::JobFacts;
use crate::report::Section;

/// A topic's answer, or in one line why the data do not allow it.
pub type TopicResult<T> = std::result::Result<T, String>;

/// One entry of the catalogue.
pub trait Topic: Sized {
    /// Stable identifier: the field of the JSON form and the anchor in the report.
    const ID: &'static str;
    /// Number in the catalogue.
    const CODE: &'static str;
    /// Heading.
    const TITLE: &'static str;

    /// Computes it.
    ///
    /// # Errors
    /// In one line why the data do not allow it.
    fn of(facts: &JobFacts<'_>) -> TopicResult<Self>;

    /// Tells it: finding, tables, charts, definitions, coverage.
    fn section(&self) -> Section;

    /// An empty section with the topic's name.
    fn heading() -> Section {
        Section::new(Self::ID, Self::TITLE).with_code(Self::CODE)
    }
}

/// A topic the data do not allow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Missing {
    /// Identifier of the topic.
    pub topic: String,
    /// Number in the catalogue.
    pub code: String,
    /// Why.
    pub reason: String,
}

/// Computes a topic, or notes why not.
pub(super) fn attempt<T: Topic>(facts: &JobFacts<'_>, missing: &mut Vec<Missing>) -> Option<T> {
    match T::of(facts) {
        Ok(topic) => Some(topic),
        Err(reason) => {
            missing.push(Missing { topic: T::ID.to_owned(), code: T::CODE.to_owned(), reason });
            None
        }
    }
}

/// The section of a topic, or the line that says why there is none.
pub(super) fn tell<T: Topic>(topic: Option<&T>, missing: &[Missing]) -> Section {
    match topic {
        Some(topic) => topic.section(),
        None => {
            let reason = missing.iter().find(|m| m.topic == T::ID).map_or("", |m| m.reason.as_str());
            Section::not_available(T::ID, T::TITLE, reason).with_code(T::CODE)
        }
    }
}

/// Hours in so many seconds.
pub(super) fn hours(seconds: f64) -> f64 {
    seconds / 3_600.0
}

/// `part / whole`, `None` if the whole is zero.
pub(super) fn share(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}
