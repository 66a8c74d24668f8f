//! What a re-simulated plan does, as it is written to JSON. Figures only; how they are taken is said in [`super`].
//!
//! Worked number: 26.8 nodes asleep for 12 days at a difference of 1.22 kW are 26.8 × 288 h × 1.22 kW = 9,416 kWh.

use schemars::JsonSchema;
use serde::Serialize;

use crate::replay::compare::{Difference, IntervalEstimate};

/// Node-hours by what nodes did.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct NodeHours {
    /// Powered, with a job.
    pub busy: f64,
    /// Powered, without one.
    pub idle: f64,
    /// On the way to take jobs.
    pub booting: f64,
    /// On the way to sleep.
    pub shutting_down: f64,
    /// Off.
    pub asleep: f64,
    /// Failed, or not there.
    pub out: f64,
}

/// Effect on jobs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct JobEffect {
    /// Jobs that ended in both replays.
    pub jobs: u64,
    /// Jobs that ended on nodes that are always on, and not under the plan.
    pub unfinished: u64,
    /// Mean added wait, seconds.
    pub added_wait_mean_s: Option<IntervalEstimate>,
    /// 95 % quantile of the added wait, job by job, seconds.
    pub added_wait_p95_s: Option<f64>,
    /// Largest added wait, seconds.
    pub added_wait_max_s: Option<f64>,
    /// Mean added completion time, seconds.
    pub added_jct_mean_s: Option<IntervalEstimate>,
    /// 95 % quantile of the added completion time, job by job, seconds.
    pub added_jct_p95_s: Option<f64>,
    /// Jobs that wait at least a second longer.
    pub delayed: u64,
    /// Share of jobs that do.
    pub delayed_share: Option<IntervalEstimate>,
    /// Jobs that wait at least a second less.
    pub sooner: u64,
    /// Added waits of delayed jobs × their GPUs, GPU-hours.
    pub delayed_gpu_hours: f64,
    /// Mean wait on nodes that are always on, seconds.
    pub baseline_wait_mean_s: Option<f64>,
    /// The waits as two distributions; intervals from blocks of jobs. Over all jobs of the replay.
    pub distribution: Option<Difference>,
}

/// What sleep would have saved at most, had nothing run at another time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Optimum {
    /// Gaps longer than this are worth sleeping through, seconds; `None`: none is.
    pub break_even_s: Option<f64>,
    /// Energy saved, with cooling, kilowatt-hours.
    pub energy_saved_kwh: f64,
    /// Mean nodes asleep.
    pub nodes_asleep_mean: f64,
    /// Nodes woken a day.
    pub node_wakes_per_day: f64,
}

/// Money or carbon.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Valued {
    /// Value over the window, in its unit.
    pub value: IntervalEstimate,
    /// Share of the saved energy whose hour has a rate; the rest is not in `value`.
    pub covered_share: Option<f64>,
}

/// A pool.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PoolEffect {
    /// Name of the VC, or number of the pool.
    pub name: String,
    /// Nodes there ever are.
    pub nodes: u32,
    /// Mean nodes asleep.
    pub nodes_asleep_mean: f64,
    /// Mean nodes busy on nodes that are always on.
    pub nodes_busy_mean: f64,
    /// Nodes woken a day.
    pub node_wakes_per_day: f64,
    /// Unserved node-slots.
    pub unserved_node_slots: f64,
}

/// Effect of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PowerEffect {
    /// The plan.
    pub name: String,
    /// Begin of the window, milliseconds since the epoch.
    pub from_ms: i64,
    /// End of the window, milliseconds since the epoch.
    pub to_ms: i64,
    /// Length of the window, days.
    pub days: f64,
    /// Nodes there ever are.
    pub nodes: u32,
    /// Mean nodes asleep.
    pub nodes_asleep_mean: Option<IntervalEstimate>,
    /// Node-hours by what nodes did.
    pub node_hours: NodeHours,
    /// Busy node-hours of those in service, always on.
    pub node_utilisation_before: Option<f64>,
    /// Busy node-hours of those powered or on the way.
    pub node_utilisation_after: Option<f64>,
    /// Nodes woken a day.
    pub node_wakes_per_day: Option<IntervalEstimate>,
    /// Most wakes of one node in one day (of 24 h from the beginning of the replay).
    pub most_wakes_of_a_node_a_day: u32,
    /// Boots that failed.
    pub failed_boots: u64,
    /// Slots × nodes that were busy under always on and are not powered.
    pub unserved_node_slots: f64,
    /// Unserved node-slots a day.
    pub unserved_node_slots_per_day: Option<IntervalEstimate>,
    /// Energy saved, net of boots, with cooling, kilowatt-hours.
    pub energy_saved_kwh: Option<IntervalEstimate>,
    /// Energy saved at the nodes, without cooling, kilowatt-hours.
    pub node_energy_saved_kwh: f64,
    /// Energy of boots and shutdowns, at the nodes, kilowatt-hours; already taken off above.
    pub switching_kwh: f64,
    /// Energy of all nodes, always on, at the nodes: idle power, and where it is known active power
    /// with jobs. Kilowatt-hours.
    pub baseline_kwh: f64,
    /// Share of the idle nodes' energy (always on) that is saved.
    pub idle_energy_saved_share: Option<f64>,
    /// Money saved, in the currency of the price.
    pub cost_saved: Option<Valued>,
    /// CO₂ equivalent saved, kilograms.
    pub co2_saved_kg: Option<Valued>,
    /// The most there was to save with every job when nodes that are always on run it.
    pub offline_optimum: Optimum,
    /// The most there was to save with every job when the plan ran it: at the service that the plan delivered.
    pub optimum_at_service: Optimum,
    /// Energy saved, of the optimum at the same service.
    pub share_of_optimum: Option<f64>,
    /// Effect on jobs.
    pub jobs: JobEffect,
    /// Effects by pool.
    pub pools: Vec<PoolEffect>,
    /// What intervals are drawn from: days or weeks.
    pub block: String,
    /// How many of them there are.
    pub blocks: u64,
}

/// Nodes by what they do in a slot.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Moment {
    /// Begin of the slot, milliseconds since the epoch.
    pub at_ms: i64,
    /// Largest number of busy nodes, summed over pools.
    pub busy: f64,
    /// Largest need of waiting jobs, nodes, summed over pools.
    pub pending: f64,
    /// Powered at its beginning.
    pub powered: u32,
    /// Powered or booting at its beginning.
    pub on: u32,
}
