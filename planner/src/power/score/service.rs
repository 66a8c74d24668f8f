//! How much shortage and wear a plan may cause.
//!
//! Worked example: 15 unserved node-slots in 14 days are 1.07 a day; a rule that leaves 14 within 14 days keeps to it.

use super::SleepOutcome;

/// How much shortage and wear is accepted.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct Service {
    /// Unserved node-slots a day, at most.
    pub unserved_per_day: f64,
    /// Node-wakes a day, at most.
    pub node_wakes_per_day: f64,
}

impl Service {
    /// Four levels from hardly any shortage to some, for a cluster of some hundred nodes.
    pub const USUAL: [Self; 4] = [
        Self { unserved_per_day: 15.0 / 14.0, node_wakes_per_day: 30.0 },
        Self { unserved_per_day: 40.0 / 14.0, node_wakes_per_day: 30.0 },
        Self { unserved_per_day: 100.0 / 14.0, node_wakes_per_day: 60.0 },
        Self { unserved_per_day: 250.0 / 14.0, node_wakes_per_day: 60.0 },
    ];

    /// What an outcome of so many days brought.
    pub fn of(outcome: &SleepOutcome, days: f64) -> Self {
        Self {
            unserved_per_day: outcome.unserved_node_slots / days.max(f64::MIN_POSITIVE),
            node_wakes_per_day: outcome.node_wakes_per_day,
        }
    }

    /// Whether an outcome of so many days keeps to it.
    pub fn holds(&self, outcome: &SleepOutcome, days: f64) -> bool {
        outcome.unserved_node_slots <= self.unserved_per_day * days + 1e-9
            && outcome.node_wakes_per_day <= self.node_wakes_per_day + 1e-9
    }
}
