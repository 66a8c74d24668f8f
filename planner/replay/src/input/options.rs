//! Which jobs of a trace are replayed, and what of them counts.
//!
//! Worked example: nothing set is all jobs, whatever they compete for, on GPUs alone, each on as few nodes as the placement rule finds.

use std::sync::Arc;

use tracecast_analytics::schema::Resource;

use super::host::Hosts;
use super::limit::LimitFile;
use super::near::TopologyRules;
use super::quota::QuotaFile;

/// Options of loading: which jobs, and how exactly.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Submitted from here on, milliseconds since the Unix epoch; jobs that run or wait then are taken along.
    pub from_ms: Option<i64>,
    /// Submitted before this.
    pub to_ms: Option<i64>,
    /// Only jobs that ran at most so long, milliseconds.
    pub longest_ms: Option<i64>,
    /// Only jobs of these VCs.
    pub vcs: Option<Vec<String>>,
    /// Times in whole seconds, as the Helios simulator has them: submissions and runs are cut off, time 0 is the second of the first
    /// submission, and no job runs or waits at that time.
    pub whole_seconds: bool,
    /// Jobs get as many nodes as they had, not as few as the placement rule finds.
    pub gangs_as_recorded: bool,
    /// The resource that jobs compete for; as the trace has it if `None`.
    pub resource: Option<Resource>,
    /// Quotas of queues, by which all nodes are one pool.
    pub quotas: Option<Arc<QuotaFile>>,
    /// Limits by QOS, account and partition.
    pub limits: Option<Arc<LimitFile>>,
    /// Topology requests of the jobs; if `None`, none at all, their own included, and nodes are not
    /// chosen by switches.
    pub topology: Option<Arc<TopologyRules>>,
    /// Whether processors and memory count beside GPUs.
    pub hosts: Hosts,
}
