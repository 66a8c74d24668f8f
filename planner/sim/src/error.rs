//! Errors of a replay.

use tracecast_analytics::Kind;

/// An error of the engine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A job of a workload cannot be what it says.
    #[error("job {job} of the workload: {what}")]
    Workload {
        /// Index of the job.
        job: usize,
        /// The problem.
        what: String,
    },
    /// A cluster cannot be what it says.
    #[error("cluster: {0}")]
    Cluster(String),
    /// Switches of a policy that do not go together.
    #[error("policy: {0}")]
    Policy(String),
    /// The engine was asked for something impossible: a defect of a policy, not of the input.
    #[error("the policy asked for what cannot be: {0}")]
    Action(String),
}

impl Error {
    /// Returns the kind of failure.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Policy(_) => Kind::Usage,
            Self::Workload { .. } | Self::Cluster(_) | Self::Action(_) => Kind::Failed,
        }
    }
}

/// Result of the engine.
pub type Result<T> = std::result::Result<T, Error>;
