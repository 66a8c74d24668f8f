//! Interface of a topic, and the section of a topic that the data do not allow.

use schemars::JsonSchema;
use serde::Serialize;

use crate::facts::JobFacts;
use crate::report::{Axis, Section};
pub(super) use crate::stats::share;
use crate::time::HOUR_S;
use crate::trace::{Selected, Trace};

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
    /// Whether the topic describes the whole cluster, so that it would be wrong for a part of the
    /// jobs.
    const NEEDS_ALL_JOBS: bool = false;

    /// Computes the topic.
    ///
    /// # Errors
    /// In one line why the data do not allow it.
    fn of(facts: &JobFacts<'_>) -> TopicResult<Self>;

    /// Tells it: finding, tables, charts, definitions, coverage.
    fn section(&self) -> Section;

    /// An empty section with the topic's name.
    fn heading() -> Section {
        Section::new(Self::ID, Self::TITLE)
    }
}

/// A topic the data do not allow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Missing {
    /// Identifier of the topic.
    pub topic: String,
    /// Number in the catalogue.
    pub code: String,
    /// Reason, in one line.
    pub reason: String,
}

/// Computes a topic, or notes why not.
pub(super) fn attempt<T: Topic>(facts: &JobFacts<'_>, missing: &mut Vec<Missing>) -> Option<T> {
    let refusal = facts.trace.selected.as_ref().filter(|_| T::NEEDS_ALL_JOBS).map(Selected::refusal);
    match refusal.map_or_else(|| T::of(facts), Err) {
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
            Section::not_available(T::ID, T::TITLE, reason)
        }
    }
}

/// Time axis of a chart: dates in the cluster's zone where the trace has dates, else time since the
/// first moment.
#[derive(Debug, Clone, Default)]
pub(super) struct Moments {
    zone: Option<jiff::tz::TimeZone>,
}

impl Moments {
    pub(super) fn of(trace: &Trace) -> Self {
        let zone = || jiff::tz::TimeZone::get(&trace.zone).unwrap_or(jiff::tz::TimeZone::UTC);
        Self { zone: trace.basis.has_dates().then(zone) }
    }

    /// The axis.
    pub(super) fn axis(&self) -> Axis {
        match &self.zone {
            Some(zone) => Axis::time("Time", zone.clone()),
            None => Axis::duration("Time since the observation began"),
        }
    }

    /// Position of a moment on the axis, seconds; `first` is the first moment of the observation.
    pub(super) fn place(&self, ms: i64, first: i64) -> f64 {
        (if self.zone.is_some() { ms } else { ms - first }) as f64 / 1_000.0
    }
}

/// Share of the jobs below which a finding opens with how many of them it rests on.
pub(super) const CAVEAT_BELOW: f64 = 0.9;

/// Opening of a finding that rests on `known` of `all` jobs: their share where it is below
/// [`CAVEAT_BELOW`], else nothing. `jobs` and `which` tell the jobs apart: `GPU jobs`, `whose wait
/// is known`.
pub(super) fn opening(known: u64, all: u64, jobs: &str, which: &str) -> Option<String> {
    let part = share(known as f64, all as f64).filter(|part| *part < CAVEAT_BELOW)?;
    Some(format!("Of the **{}** of the {jobs} {which}", crate::report::format::percent(part)))
}

/// Rows that a ranking shows to a person; JSON has all.
pub(super) const RANKED: usize = 10;

/// Returns what stands below a ranking of `all` rows; `None` if all of them are shown.
pub(super) fn more(all: usize, one: &str, many: &str) -> Option<String> {
    let left = all.checked_sub(RANKED).filter(|left| *left > 0)?;
    Some(format!("{} in the JSON form.", crate::report::format::counted(left as u64, one, many)))
}

/// Compares two sums of which one may be unknown: the larger first, unknown last.
pub(super) fn larger_first(a: Option<f64>, b: Option<f64>) -> std::cmp::Ordering {
    let key = |sum: Option<f64>| sum.unwrap_or(f64::NEG_INFINITY);
    key(b).total_cmp(&key(a))
}

/// Hours in so many seconds.
pub(super) fn hours(seconds: f64) -> f64 {
    seconds / HOUR_S
}

/// Sentence on the time that a section leaves out; `None` where it leaves out none. `idle` is the
/// figure that would result if the outages were idle time: its name and its value in words.
pub(super) fn left_out(hours: f64, idle: Option<(&str, String)>) -> Option<String> {
    (hours > 0.0).then(|| {
        let mut text = format!(
            "The whole cluster was counted at or near 0 for {hours:.1} h right after it was busy: it was off or its \
             counting failed, which is not idleness, so this time is left out."
        );
        if let Some((what, value)) = idle {
            text.push_str(&format!(" Counted as idle, it would make the {what} {value}."));
        }
        text
    })
}
