//! The energy ledger: joules by hour, by what they were spent on, and by whose they are. It is where measuring ends and accounting begins.
//!
//! In every hour, Σ over [`Use`] = meter (where there is one, with what fills its gaps, else the estimate), to the joule: what no part
//! explains is [`Use::Residual`] and may be below 0. What a model gave and no reading is told by its [`Basis`], in every sum.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::constant::Constant;

/// Purpose of energy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Use {
    /// Energy above idle, of GPUs at work for a job.
    Active,
    /// Energy of GPUs at work for a job between the bounds of their idle power: work or idle power.
    Unsplit,
    /// Idle power of GPUs that a job holds.
    IdleAllocated,
    /// Idle power of GPUs that nobody holds.
    IdleUnallocated,
    /// Idle power of whole nodes, GPUs and all else, by the part that jobs hold: their GPUs have no readings, and nothing tells the two apart.
    NodeIdleAllocated,
    /// Idle power of whole nodes, by the part that nobody holds.
    NodeIdleUnallocated,
    /// Energy of nodes beside their GPUs (CPUs, memory, fans, power supplies).
    Overhead,
    /// The meter less all parts.
    Residual,
}

/// Origin of a figure of energy, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// Reading of an energy counter.
    Counter,
    /// Integrated power readings.
    Power,
    /// A short gap bridged.
    Bridged,
    /// A model of power from utilisation, or the state of the device.
    Model,
}

impl Basis {
    /// Whether the energy comes from a device's own reading, without a gap bridged.
    #[must_use]
    pub fn is_read(self) -> bool {
        matches!(self, Self::Counter | Self::Power)
    }
}

/// Time from the first to the last reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReadSpan {
    /// First moment, milliseconds since the epoch.
    pub from_ms: i64,
    /// Last moment.
    pub to_ms: i64,
}

/// Energy of one hour, cell by cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EnergyEntry {
    /// Beginning of the hour, milliseconds since the epoch.
    pub hour_ms: i64,
    /// Purpose of the energy.
    pub spent_on: Use,
    /// Owner: user and VC (`None`: nobody's).
    pub owner: Option<u32>,
    /// Origin of the figure.
    pub basis: Basis,
    /// Joules.
    pub energy_j: f64,
    /// Lower bound, joules (idle power in gaps).
    pub lower_j: f64,
    /// Upper bound, joules (the most a device can draw in gaps).
    pub upper_j: f64,
}

/// Owner that energy is charged to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Owner {
    /// Virtual cluster, partition or queue.
    pub vc: Option<String>,
    /// User.
    pub user: Option<String>,
}

/// Energy of one job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobEnergy {
    /// The job.
    pub job_key: String,
    /// Owner of the job.
    pub owner: Option<u32>,
    /// Energy above idle, joules.
    pub active_j: f64,
    /// Work or idle power, not told apart, joules.
    pub unsplit_j: f64,
    /// Idle power of the GPUs it held, or of its part of nodes whose GPUs have no readings, joules.
    pub idle_j: f64,
    /// Share of nodes' overhead, joules.
    pub overhead_j: f64,
    /// Part of the sum that a model supplies, joules.
    pub modelled_j: f64,
    /// GPU time it held within the audited window, seconds × GPUs.
    pub gpu_s: f64,
    /// Share of that GPU time which has readings, 0 to 1.
    pub coverage_ratio: Option<f64>,
}

/// Everything measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EnergyLedger {
    /// First moment audited, milliseconds since the epoch.
    pub from_ms: i64,
    /// Moment after the last.
    pub to_ms: i64,
    /// Owners that entries point to.
    pub owners: Vec<Owner>,
    /// Energy by hour, use, owner and basis.
    pub entries: Vec<EnergyEntry>,
    /// Energy by job.
    pub jobs: Vec<JobEnergy>,
    /// Energy of whole-node meters, joules; `None` without meters, and where some nodes have none.
    pub metered_j: Option<f64>,
    /// Energy that a model fills in for these meters' gaps, joules.
    pub filled_j: f64,
    /// Sum of all entries, joules: equal to `metered_j` and `filled_j` together where all nodes have meters.
    pub total_j: f64,
    /// First and last reading of all devices, whatever is audited; `None` without readings.
    pub record: Option<ReadSpan>,
    /// Hours of the clock with any energy that a reading tells.
    pub hours_read: u64,
    /// Share of device time with readings of its own (counter or power), 0 to 1.
    pub coverage_ratio: Option<f64>,
    /// Device time seen, GPU hours.
    pub gpu_hours: f64,
    /// GPU hours held by jobs.
    pub allocated_gpu_hours: f64,
    /// Constants that set figures.
    pub constants: Vec<Constant>,
    /// Caveats, one sentence each.
    pub notes: Vec<String>,
}
