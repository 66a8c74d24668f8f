//! Admission fair sharing: in which ClusterQueues jobs go by what their user has used lately, and how fast that fades.
//!
//! A ClusterQueue asks for it with `admissionScope.admissionMode: UsageBasedAdmissionFairSharing`; it is in force if the manager's Configuration has `admissionFairSharing`, whose `usageHalfLifeTime` is the
//! half-life of usage ([`tracecast_sim::cohort::QueueRules::usage_half_life_ms`]). Kueue counts by LocalQueue and adds all resources by `resourceWeights` (1 unless written, memory in bytes); a trace knows users, and the replay
//! GPUs or processors alone. What cannot be followed is said in a note.
//!
//! O(queues). Worked example: `usageHalfLifeTime: 168h` and two ClusterQueues of which one asks: jobs of that one go by usage with a half-life of 604,800,000 ms, those of the other by priority and time.

use std::collections::BTreeMap;

use serde_json::Value;
use tracecast_analytics::report::format;
use tracecast_analytics::schema::Resource;

use super::kai::period;
use super::{Place, QuotaFile, counts};
use crate::error::Result;
use tracecast_sim::workload::UNKNOWN_USER;

/// Fields of `admissionFairSharing`.
const FIELDS: [&str; 3] = ["usageHalfLifeTime", "usageSamplingInterval", "resourceWeights"];
/// Admission modes of a ClusterQueue.
const MODES: [&str; 2] = ["NoAdmissionFairSharing", "UsageBasedAdmissionFairSharing"];

/// Whether a ClusterQueue asks for admission fair sharing.
pub(super) fn goes_by_usage(object: &Value, place: &Place<'_>) -> Result<bool> {
    Ok(place.word(object, "/spec/admissionScope/admissionMode", &MODES)? == Some(1))
}

/// Admission fair sharing of a Configuration.
#[derive(Debug, Clone)]
pub(super) struct UsageSharing {
    half_life_ms: i64,
    weights: BTreeMap<String, f64>,
}

impl UsageSharing {
    /// Reads the admission fair sharing of a Configuration, if it has any.
    pub(super) fn of(configuration: &Value, place: &Place<'_>) -> Result<Option<Self>> {
        let Some(sharing) = configuration.get("admissionFairSharing").filter(|of| !of.is_null()) else {
            return Ok(None);
        };
        place.fields(Some(sharing), "admissionFairSharing", &FIELDS)?;
        let half_life_ms = period(configuration, "/admissionFairSharing/usageHalfLifeTime", place)?.unwrap_or(0);
        let weights = sharing.get("resourceWeights").and_then(Value::as_object).into_iter().flatten();
        let weights = weights.filter_map(|(name, weight)| Some((name.clone(), weight.as_f64()?))).collect();
        Ok(Some(Self { half_life_ms, weights }))
    }

    /// Whether what jobs compete for counts.
    fn weighs(&self, resource: Resource) -> bool {
        let mut weights = self.weights.iter().filter(|(name, _)| counts(name, resource)).peekable();
        weights.peek().is_none() || weights.any(|(_, weight)| *weight > 0.0)
    }
}

impl QuotaFile {
    /// The half-life of usage of the queues that go by it, milliseconds, if it can be followed.
    pub(super) fn half_life_ms(&self, resource: Resource) -> Option<i64> {
        let usage = self.usage.as_ref().filter(|usage| usage.half_life_ms > 0)?;
        usage.weighs(resource).then_some(usage.half_life_ms)
    }

    /// Returns the notes on the parts of admission fair sharing that are followed and that are not.
    pub(super) fn told_of_usage(&self, resource: Resource) -> Vec<String> {
        let asking: Vec<&str> =
            self.queues.iter().filter(|queue| queue.by_usage).map(|queue| queue.name.as_str()).collect();
        let asks = if asking.len() == 1 { "asks" } else { "ask" };
        let asking = asking.join(", ");
        let what = resource.many();
        let Some(usage) = &self.usage else {
            return match asking.as_str() {
                "" => Vec::new(),
                asking => vec![format!(
                    "ClusterQueue {asking} {asks} for admission fair sharing, and no Configuration of {} has admissionFairSharing: without it Kueue goes by priority and time, and so does the replay. Add kueue-manager-config if it is on.",
                    self.file
                )],
            };
        };
        if asking.is_empty() {
            return vec![format!(
                "The Configuration of {} has admissionFairSharing, but no ClusterQueue asks for it (admissionScope), so jobs go by priority and time.",
                self.file
            )];
        }
        if usage.half_life_ms == 0 {
            return vec![format!(
                "ClusterQueue {asking} {asks} for admission fair sharing with a half-life of 0, which forgets at once: jobs go by priority and time."
            )];
        }
        if !usage.weighs(resource) {
            return vec![format!(
                "ClusterQueue {asking} {asks} for admission fair sharing, but resourceWeights gives {what} no weight: it is not followed, and jobs go by priority and time."
            )];
        }
        let mut told = vec![
            format!(
                "ClusterQueue {asking}: jobs of the user who has used least of the queue lately go first, with a half-life of {}, as admission fair sharing has it; --order sorts those of one user.",
                format::duration(usage.half_life_ms as f64 / 1000.0)
            ),
            format!(
                "Of admission fair sharing these are not followed: users stand for LocalQueues; {what} alone count, where Kueue adds all resources by resourceWeights, memory in bytes; usage is known at every moment, so usageSamplingInterval and the entry penalty have no place; who is stopped does not go by it."
            ),
        ];
        told.extend((self.weighted_queues > 0).then(|| {
            let queues = format::counted(self.weighted_queues, "LocalQueue has a weight", "LocalQueues have weights");
            format!("{queues} of fairSharing: all users weigh the same in the replay.")
        }));
        told
    }

    /// Returns the note for a trace without users where queues go by their usage.
    pub(in crate::input) fn users_unknown(&self, users: &[String], resource: Resource) -> Option<String> {
        let by_usage = self.half_life_ms(resource).is_some() && self.queues.iter().any(|queue| queue.by_usage);
        let nobody = users.iter().all(|user| user.starts_with(UNKNOWN_USER));
        (by_usage && nobody).then(|| {
            "The trace names no users, so admission fair sharing orders nothing: jobs go by priority and time."
                .to_owned()
        })
    }
}
