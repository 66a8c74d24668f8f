//! Content of one record of an allocation or of a step, whatever form it was read in.

use std::sync::Arc;

use super::jobstats::{self, Summary};
use crate::quality::{Reason, RowAudit, reason};
use crate::schema::JobState;
use crate::time::SECOND_MS;

/// Energy beyond this many watts a node is a glitch of the meter: no node draws 30 kW.
const MOST_NODE_W: f64 = 30_000.0;

/// An energy no job can have used.
const ENERGY_GLITCH: Reason = Reason {
    id: "energy_glitch",
    what: "the energy is negative or more than the nodes can draw (a counter was reset); it is set to unknown",
    remedy: "check the energy plugin on the nodes the job ran on",
};
/// A summary of Jobstats that cannot be read.
const BAD_JOBSTATS: Reason = Reason {
    id: "bad_jobstats",
    what: "the summary of Jobstats in AdminComment (JS1:) cannot be read; what it says of GPUs is unknown",
    remedy: "export AdminComment in full (a width such as AdminComment%50 cuts it)",
};

/// One record of an allocation.
#[derive(Debug, Clone, Default)]
pub(super) struct Allocation {
    pub(super) cluster: Option<Arc<str>>,
    pub(super) user: Option<Arc<str>>,
    pub(super) account: Option<Arc<str>>,
    pub(super) partition: Option<Arc<str>>,
    pub(super) qos: Option<Arc<str>>,
    pub(super) name: Option<Arc<str>>,
    pub(super) gpu_type: Option<Arc<str>>,
    pub(super) nodes_hostlist: Option<Arc<str>>,
    pub(super) reported_state: Option<Arc<str>>,
    /// Why it was last blocked. Slurm keeps it after the job has started; it counts for jobs that wait.
    pub(super) pending_reason: Option<Arc<str>>,
    pub(super) state: Option<JobState>,
    /// The words of the state say that the job went on in another record (queued again, or resized).
    pub(super) requeued: bool,
    pub(super) submit: Option<i64>,
    pub(super) eligible: Option<i64>,
    pub(super) start: Option<i64>,
    pub(super) end: Option<i64>,
    pub(super) elapsed_s: Option<f64>,
    pub(super) planned_s: Option<f64>,
    pub(super) time_limit_s: Option<f64>,
    pub(super) exit_code: Option<i64>,
    pub(super) req_nodes: Option<i64>,
    pub(super) alloc_nodes: Option<i64>,
    pub(super) req_cpus: Option<f64>,
    pub(super) alloc_cpus: Option<f64>,
    pub(super) req_mem_bytes: Option<i64>,
    pub(super) alloc_mem_bytes: Option<i64>,
    /// GPUs as listed; `None` also where the list names none, which means 0 if the cluster counts GPUs.
    pub(super) req_gpus: Option<f64>,
    pub(super) alloc_gpus: Option<f64>,
    /// Whether there was a list of resources that could have named GPUs.
    pub(super) req_listed: bool,
    pub(super) alloc_listed: bool,
    pub(super) energy_j: Option<f64>,
    /// Time within start to end in which it did not run.
    pub(super) suspended_s: Option<f64>,
    /// GPUs and their utilisation as a monitor of the site sums them up beside the record.
    pub(super) summary: Option<Summary>,
    /// Whether its command line or script asks for GPUs.
    pub(super) typed_gpus: bool,
    /// Whether the record could have named nodes.
    pub(super) nodes_told: bool,
}

impl Allocation {
    /// Whether the job ended without ever having been given anything, though a start is written:
    /// Slurm writes the moment of the cancellation as start and end of a job that never left the
    /// queue.
    pub(super) fn never_started(&self) -> bool {
        let Some(state) = self.state.filter(|state| state.is_final() && *state != JobState::Completed) else {
            return false;
        };
        if self.requeued || self.start.is_none() || !self.took_no_time() || self.nodes_hostlist.is_some() {
            return false;
        }
        // Where the export does not tell nodes, only what ends jobs in the queue says that this one was there.
        let given = [self.alloc_gpus, self.alloc_cpus.filter(|_| self.alloc_listed)];
        self.nodes_told
            || (matches!(state, JobState::Cancelled | JobState::Timeout)
                && given.into_iter().flatten().all(|count| count == 0.0))
    }

    fn took_no_time(&self) -> bool {
        match self.elapsed_s {
            Some(seconds) => seconds == 0.0,
            None => self.start.zip(self.end).is_some_and(|(start, end)| start >= end),
        }
    }

    /// Whether the record is the remainder of a job on a cluster of a federation that did not get
    /// it.
    pub(super) fn is_revoked(&self) -> bool {
        let words = self.reported_state.as_deref().unwrap_or_default().to_ascii_uppercase();
        let revoked = words.split([',', ' ']).any(|word| matches!(word.trim_end_matches('+'), "REVOKED" | "RV"));
        revoked && self.nodes_hostlist.is_none() && (self.start.is_none() || self.took_no_time())
    }

    /// Takes away what only a job that started has.
    pub(super) fn forget_run(&mut self) {
        self.start = None;
        self.elapsed_s = None;
        self.energy_j = None;
        self.req_nodes = self.req_nodes.or(self.alloc_nodes);
        self.alloc_nodes = None;
        self.alloc_cpus = None;
        self.alloc_mem_bytes = None;
        self.alloc_gpus = None;
        self.alloc_listed = false;
    }

    /// Whether the job ended, by its state or, without one, by its end.
    pub(super) fn is_over(&self) -> bool {
        self.state.map_or(self.end.is_some(), JobState::is_final) || (self.requeued && self.end.is_some())
    }

    pub(super) fn run_s(&self) -> Option<f64> {
        let held_s = (self.end? - self.start?) as f64 / SECOND_MS as f64;
        Some((held_s - self.suspended_s.unwrap_or(0.0)).max(0.0))
    }
}

/// Content of a step for the job it belongs to.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Step {
    /// Share of its GPUs' time a kernel was resident, 0 to 1.
    pub(super) gpu_util_ratio: Option<f64>,
    /// Energy, joules.
    pub(super) energy_j: Option<f64>,
}

/// GPU utilisation of a step from its usage: `percent` summed over `gpus`. Zero with no GPU memory in use is what
/// boards that cannot measure report, so it says nothing; nor does more than 100 % a GPU.
pub(super) fn util_ratio(percent: Option<f64>, mem_bytes: Option<f64>, gpus: Option<f64>) -> Option<f64> {
    let (percent, gpus) = (percent?, gpus.filter(|gpus| *gpus > 0.0)?);
    if percent == 0.0 && mem_bytes.unwrap_or(0.0) == 0.0 {
        return None;
    }
    let ratio = percent / 100.0 / gpus;
    (0.0..=1.0).contains(&ratio).then_some(ratio)
}

/// An energy in joules, `None` for the sentinels and for zero (a cluster without a meter writes 0 for every job).
/// Negative, or more than 30 kW a node over the run, is a glitch: unknown, and noted.
pub(super) fn energy_j(
    joules: Option<f64>,
    elapsed_s: Option<f64>,
    nodes: Option<i64>,
    row: &mut RowAudit<'_>,
) -> Option<f64> {
    let joules = joules.filter(|joules| joules.is_finite() && *joules != 0.0)?;
    // NO_VAL and INFINITE, of 32 and 64 bits.
    if [4_294_967_294.0, 4_294_967_295.0].contains(&joules) || joules >= 18_446_744_073_709_500_000.0 {
        return None;
    }
    let most = elapsed_s.map(|seconds| seconds.max(1.0) * nodes.unwrap_or(1).max(1) as f64 * MOST_NODE_W);
    if joules < 0.0 || most.is_some_and(|most| joules > most) {
        row.repair(ENERGY_GLITCH, "ConsumedEnergy", &joules.to_string());
        return None;
    }
    Some(joules)
}

/// The summary of Jobstats in an administrator's comment; one that cannot be read is noted.
pub(super) fn summary(comment: Option<&str>, row: &mut RowAudit<'_>) -> Option<Summary> {
    jobstats::summary(comment?)
        .inspect_err(|why| row.repair(BAD_JOBSTATS, "AdminComment", &format!("{why}: {}", comment.unwrap_or_default())))
        .ok()
        .flatten()
}

/// Reads the words of a state: canonical, and whether they say the job went on in another record. A word we do not
/// know is noted.
pub(super) fn state(words: &str, row: &mut RowAudit<'_>) -> (Option<JobState>, bool) {
    let words = words.trim();
    let goes_on = |word: &str| matches!(word.trim_end_matches('+'), "REQUEUED" | "RQ" | "RESIZING" | "RS");
    let requeued = words.to_ascii_uppercase().split([',', ' ']).any(goes_on);
    let state = words.split(',').find_map(JobState::parse);
    if state.is_none() && !words.is_empty() {
        row.repair(reason::UNKNOWN_STATE, "State", words);
    }
    (state, requeued)
}
