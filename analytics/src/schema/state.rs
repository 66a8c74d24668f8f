//! Job states: one closed set for all schedulers.

use serde::{Deserialize, Serialize};

/// State of a job, or how it ended. The source's own word is kept in `reported_state`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// Ended by itself with success.
    Completed,
    /// Ended by itself with an error.
    Failed,
    /// Ended by its user or an operator.
    Cancelled,
    /// Ended at its time limit.
    Timeout,
    /// Ended as memory ran out.
    OutOfMemory,
    /// Ended as a node failed or did not boot.
    NodeFail,
    /// Ended to make room and not run again.
    Preempted,
    /// Holding resources when the record was taken.
    Running,
    /// Waiting when the record was taken.
    Pending,
    /// Nothing recorded, or a word we do not know.
    Unknown,
}

impl JobState {
    /// All states, in the order reports list them.
    pub const ALL: [Self; 10] = [
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
        Self::Timeout,
        Self::OutOfMemory,
        Self::NodeFail,
        Self::Preempted,
        Self::Running,
        Self::Pending,
        Self::Unknown,
    ];

    /// The word the tables hold.
    pub fn id(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Timeout => "timeout",
            Self::OutOfMemory => "out_of_memory",
            Self::NodeFail => "node_fail",
            Self::Preempted => "preempted",
            Self::Running => "running",
            Self::Pending => "pending",
            Self::Unknown => "unknown",
        }
    }

    /// The state a table's word stands for; anything else is [`JobState::Unknown`].
    pub fn from_id(id: &str) -> Self {
        Self::ALL.into_iter().find(|state| state.id() == id).unwrap_or(Self::Unknown)
    }

    /// Whether the job is over.
    pub fn is_final(self) -> bool {
        !matches!(self, Self::Running | Self::Pending | Self::Unknown)
    }

    /// Reads the words that schedulers and public traces use, in any case, with their decorations
    /// (`CANCELLED by 1001`, `CANCELLED+`). `None` for a word we do not know.
    pub fn parse(word: &str) -> Option<Self> {
        let word = word.trim().trim_end_matches('+');
        let first = word.split_whitespace().next()?;
        let state = match first.to_ascii_uppercase().as_str() {
            "COMPLETED" | "COMPLETE" | "CD" | "PASS" | "PASSED" | "SUCCEEDED" | "SUCCESS" | "TERMINATED" => {
                Self::Completed
            }
            "FAILED" | "FAIL" | "F" | "UNSUCCESSFUL" | "ERROR" => Self::Failed,
            "CANCELLED" | "CANCELED" | "CA" | "KILLED" | "REVOKED" | "RV" | "STOPPED" => Self::Cancelled,
            "TIMEOUT" | "TO" | "DEADLINE" | "DL" => Self::Timeout,
            "OUT_OF_MEMORY" | "OOM" | "OUT_OF_ME" => Self::OutOfMemory,
            "NODE_FAIL" | "NF" | "BOOT_FAIL" | "BF" | "LAUNCH_FAILED" => Self::NodeFail,
            "PREEMPTED" | "PR" | "EVICTED" => Self::Preempted,
            "RUNNING" | "R" | "SUSPENDED" | "S" | "COMPLETING" | "CG" | "RESIZING" | "STOPPING" => Self::Running,
            "PENDING" | "PD" | "REQUEUED" | "RQ" | "CONFIGURING" | "CF" | "WAITING" | "READY" => Self::Pending,
            _ => return None,
        };
        Some(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decorated_words_are_read() {
        assert_eq!(JobState::parse("CANCELLED by 1001"), Some(JobState::Cancelled));
        assert_eq!(JobState::parse("CANCELLED+"), Some(JobState::Cancelled));
        assert_eq!(JobState::parse("Pass"), Some(JobState::Completed));
        assert_eq!(JobState::parse("banana"), None);
        assert_eq!(JobState::parse(""), None);
    }

    #[test]
    fn every_state_survives_its_table_word() {
        for state in JobState::ALL {
            assert_eq!(JobState::from_id(state.id()), state);
        }
    }
}
