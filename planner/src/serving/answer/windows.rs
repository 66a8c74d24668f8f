//! Tests of the choice at several splits.
//!
//! The later half is cut into windows of equal length. Before each, everything is chosen anew on all requests that came until then, as who plans every so often would, and is reported on
//! that window alone. One split may be luck; the sums over all windows are less so.
//!
//! O(windows × settings × replay). Worked example: an hour in five windows chooses at minutes 30, 36, 42, 48 and 54, and reports on the six minutes after each.

use schemars::JsonSchema;
use serde::Serialize;

use super::super::choose::{ServingCase, ServingScore};
use super::super::heldout::{ServingPolicy, ServingSplit, choose};
use super::Moments;
use super::advise::setting;
use crate::error::{Error, Result};

/// Fewest slots of a window.
const LEAST_SLOTS: i64 = 4;

/// A window of the later half: chosen before it, reported on it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ServingWindowRow {
    /// Chosen until here, reported on from here on.
    pub split: String,
    /// End of the window.
    pub to: String,
    /// What would have been set.
    pub best: ServingPolicy,
    /// Setting of that policy, in words.
    pub setting: String,
    /// Score of that policy in the window.
    pub chosen: ServingScore,
    /// What the reactive rule did, all settings chosen; none where nothing kept the target before the window.
    pub reactive: Option<ServingScore>,
    /// Score of the reactive rule with the defaults of Kubernetes.
    pub reactive_default: Option<ServingScore>,
}

/// Sums over all windows.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct ServingWindowSum {
    /// Requests.
    pub(super) requests: u64,
    /// Requests in time.
    pub(super) in_time: u64,
    /// Amount paid.
    pub(super) cost: f64,
}

impl ServingWindowSum {
    /// Over scores.
    pub(super) fn new<'s>(scores: impl Iterator<Item = &'s ServingScore>) -> Self {
        scores.fold(Self::default(), |sum, score| Self {
            requests: sum.requests + score.requests,
            in_time: sum.in_time + score.in_time,
            cost: sum.cost + score.cost,
        })
    }

    /// Share in time.
    pub(super) fn attained(&self) -> f64 {
        if self.requests > 0 { self.in_time as f64 / self.requests as f64 } else { 1.0 }
    }
}

/// Chooses anew before each of so many windows of the later half.
pub(super) fn windows(
    case: &ServingCase<'_>,
    split: &ServingSplit,
    told: &Moments<'_>,
    count: u32,
) -> Result<Vec<ServingWindowRow>> {
    let (from, to) = split.later();
    let slots = (to - from) / case.slot_us;
    if i64::from(count) * LEAST_SLOTS > slots {
        return Err(Error::NothingToEvaluate(format!(
            "the later part has {slots} slots, and a window takes {LEAST_SLOTS} at least; ask for {} windows or fewer (--splits), give a longer log, or a shorter --slot",
            slots / LEAST_SLOTS
        )));
    }
    let at = |number: u32| from + (to - from) * i64::from(number) / i64::from(count.max(1));
    let row = |number: u32| {
        let (begin, end) = (at(number), at(number + 1));
        let choice = choose(case, (case.from_us + (begin - case.from_us) / 5, begin), None);
        let score = |by: ServingPolicy| {
            let chosen = choice.policy(by)?;
            Some(case.scored(chosen.rule, chosen.hedge, choice.load, choice.initial, (begin, end)))
        };
        let best = choice.policy(choice.best).zip(score(choice.best));
        let (best, chosen) = best.ok_or_else(|| Error::defect(format!("{:?} was not chosen", choice.best)))?;
        Ok(ServingWindowRow {
            split: told.moment(begin),
            to: told.moment(end),
            best: choice.best,
            setting: setting(&best.rule, best.hedge, case.slot_us),
            chosen,
            reactive: score(ServingPolicy::Reactive),
            reactive_default: score(ServingPolicy::ReactiveDefault),
        })
    };
    (0..count).map(row).collect()
}
