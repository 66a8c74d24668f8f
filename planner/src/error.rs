//! What can go wrong in a plan, said so that the reader knows what to change.

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A job of a workload cannot be what it says.
    #[error("job {job} of the workload: {what}")]
    Workload {
        /// Its index.
        job: usize,
        /// What is wrong.
        what: String,
    },
    /// A cluster cannot be what it says.
    #[error("cluster: {0}")]
    Cluster(String),
    /// Switches that do not go together.
    #[error("policy: {0}")]
    Policy(String),
    /// A power plan cannot be carried out as asked.
    #[error("power plan: {0}")]
    Power(String),
    /// A file of the user is wrong.
    #[error("{file}, line {line}: {what}")]
    File {
        /// Its name.
        file: String,
        /// The line, counted from 1.
        line: u64,
        /// What is wrong, and what would mend it.
        what: String,
    },
    /// A file could not be read or written.
    #[error("{file}")]
    Io {
        /// Its name.
        file: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The engine was asked for something impossible: a defect of a policy, not of the input.
    #[error("the policy asked for what cannot be: {0}")]
    Action(String),
    /// From a predictor.
    #[error(transparent)]
    Predictor(#[from] tracecast_predictors::Error),
    /// From reading a trace.
    #[error(transparent)]
    Trace(#[from] tracecast_analytics::Error),
}

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// The beginning of a text, for a message.
pub(crate) fn excerpt(text: &str) -> String {
    text.chars().take(40).collect()
}
