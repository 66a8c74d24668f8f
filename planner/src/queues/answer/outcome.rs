//! What the objective looks at beside waits: how the chosen and today differ in it on the later jobs.
//!
//! O(1). Worked example: starts that are off by 20 min today and by 5 as chosen are told as a change of −900 s.

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::report::format;

use super::super::objective::Objective;
use super::super::search::TriedSetup;
use crate::plan::Effect;

/// Measures of the objective beside waits, on the later jobs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct ObjectiveOutcome {
    /// Cost of the chosen setup; today's is 1.
    pub cost: f64,
    /// How far starts are today from what jobs could be told when they came, on average, seconds; none if the objective does not ask.
    pub told_error_s: Option<f64>,
    /// Mean error of the estimated starts under the chosen setup, seconds; none if the objective
    /// does not ask.
    pub recommended_told_error_s: Option<f64>,
    /// The mean wait of the VC that fares worst today, as a share of that on nodes of its own, a minute added to both; none if the objective does not ask.
    pub worst_vc: Option<f64>,
    /// Mean wait of the VC that fares worst under the chosen setup, as a share of that on private
    /// nodes, a minute added to both; none if the objective does not ask.
    pub recommended_worst_vc: Option<f64>,
    /// GPU time that jobs hold today, with what is lost when they are stopped, GPU-hours.
    pub held_gpu_hours: f64,
    /// GPU time that jobs hold under the chosen setup, with what is lost when they are stopped,
    /// GPU-hours.
    pub recommended_held_gpu_hours: f64,
}

impl ObjectiveOutcome {
    pub(in crate::queues) fn new(today: &TriedSetup, chosen: &TriedSetup) -> Self {
        let (before, after) = (&today.later.measured, &chosen.later.measured);
        Self {
            cost: chosen.later.cost,
            told_error_s: before.told_error_s,
            recommended_told_error_s: after.told_error_s,
            worst_vc: before.worst_vc,
            recommended_worst_vc: after.worst_vc,
            held_gpu_hours: before.held_gpu_s / 3600.0,
            recommended_held_gpu_hours: after.held_gpu_s / 3600.0,
        }
    }

    /// What changes of it; no interval was found.
    pub(super) fn effects(self, objective: &Objective) -> impl Iterator<Item = Effect> {
        let of = |what: &str, unit: &str, before: Option<f64>, after: Option<f64>| {
            Some(Effect {
                what: what.to_owned(),
                unit: unit.to_owned(),
                change: after? - before?,
                low: None,
                high: None,
                interval: "none: one later stretch".to_owned(),
            })
        };
        let told =
            of("Distance of starts from what could be told", "s", self.told_error_s, self.recommended_told_error_s);
        let worst = of(
            "Wait of the VC that fares worst, in waits on nodes of its own",
            "",
            self.worst_vc,
            self.recommended_worst_vc,
        );
        let held =
            of("GPU time that jobs hold", "GPU-h", Some(self.held_gpu_hours), Some(self.recommended_held_gpu_hours));
        told.into_iter().chain(worst).chain(held.filter(|_| objective.is_of_time_held()))
    }

    /// In words, what is asked for.
    pub(super) fn in_words(self) -> Vec<String> {
        let told = self.told_error_s.zip(self.recommended_told_error_s).map(|(before, after)| {
            format!(
                "What a later job could be told of its start when it came would be off by {} on average, today by {}.",
                format::duration(after),
                format::duration(before)
            )
        });
        let worst = self.worst_vc.zip(self.recommended_worst_vc).map(|(before, after)| {
            format!(
                "The VC that fares worst waits {after:.2} times as long on average as on nodes of its own, today {before:.2} times (a minute added to each wait)."
            )
        });
        told.into_iter().chain(worst).collect()
    }
}
