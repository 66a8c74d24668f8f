//! Errors of a plan, worded so that the reader knows what to change.

use tracecast_analytics::Kind;
pub use tracecast_replay::error::{excerpt, line_of};

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A plan that cannot be written as configuration, and what to do.
    #[error("no configuration is written: {0}")]
    NotEmitted(String),
    /// A series has too few days to learn from and to choose on.
    #[error(
        "{series}: {days:.1} days before the evaluation are too few to learn from and to choose on; {least:.0} are the least"
    )]
    TooFewDays {
        /// The VC, pool or cluster.
        series: String,
        /// Days there are.
        days: f64,
        /// Days needed.
        least: f64,
    },
    /// Nothing lies in the time that was to be evaluated.
    #[error("{0}")]
    NothingToEvaluate(String),
    /// A power plan cannot be carried out as asked.
    #[error("power plan: {0}")]
    Power(String),
    /// A trace of spot availability cannot be used as asked.
    #[error("{file}: {found}; {remedy}")]
    SpotTrace {
        /// Name of the file.
        file: String,
        /// The problem.
        found: String,
        /// The remedy.
        remedy: &'static str,
    },
    /// A file could not be read or written.
    #[error("{file}")]
    Io {
        /// Name of the file.
        file: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Error of a replay, or in the jobs, files and names that a replay begins with.
    #[error(transparent)]
    Replay(#[from] tracecast_replay::Error),
    /// Error of a predictor.
    #[error(transparent)]
    Predictor(#[from] tracecast_predictors::Error),
}

impl From<tracecast_sim::Error> for Error {
    fn from(error: tracecast_sim::Error) -> Self {
        Self::Replay(error.into())
    }
}

impl From<tracecast_analytics::Error> for Error {
    fn from(error: tracecast_analytics::Error) -> Self {
        Self::Replay(error.into())
    }
}

impl Error {
    /// A job of a workload that cannot be what it says.
    pub fn workload(job: usize, what: impl Into<String>) -> Self {
        tracecast_sim::Error::Workload { job, what: what.into() }.into()
    }

    /// A cluster that cannot be what it says.
    pub fn cluster(what: impl Into<String>) -> Self {
        tracecast_sim::Error::Cluster(what.into()).into()
    }

    /// Switches of a policy that do not go together.
    pub fn policy(what: impl Into<String>) -> Self {
        tracecast_sim::Error::Policy(what.into()).into()
    }

    /// Error that no job is left to plan for, and why.
    pub fn no_jobs(why: impl Into<String>) -> Self {
        tracecast_replay::Error::NoJobs(why.into()).into()
    }

    /// Error that nothing was given that could be compared.
    pub fn no_scenario(what: &'static str) -> Self {
        tracecast_replay::Error::NoScenario(what).into()
    }

    /// A defect of the program, not of the data.
    pub fn defect(what: impl Into<String>) -> Self {
        tracecast_replay::Error::Defect(what.into()).into()
    }

    /// A name that there is not.
    pub fn unknown(what: &'static str, found: impl Into<String>, known: &'static [&'static str]) -> Self {
        tracecast_replay::Error::Unknown { what, found: found.into(), known }.into()
    }

    /// A text that is not of the form asked for, and what to write.
    pub fn malformed(what: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        tracecast_replay::Error::Malformed { what, found: found.into(), remedy: remedy.into() }.into()
    }

    /// Error in a line, counted from 1, of a user's file: the problem and its remedy.
    pub fn file(file: impl Into<String>, line: u64, what: impl Into<String>) -> Self {
        tracecast_replay::Error::File { file: file.into(), line, what: what.into() }.into()
    }

    /// Error that the text of a user's file is not the TOML it should be.
    pub fn toml(file: &str, text: &str, error: &toml::de::Error) -> Self {
        tracecast_replay::Error::toml(file, text, error).into()
    }

    /// Returns the kind of failure.
    pub fn kind(&self) -> Kind {
        match self {
            Self::NotEmitted(_) => Kind::Usage,
            Self::TooFewDays { .. } | Self::NothingToEvaluate(_) => Kind::TooLittleData,
            Self::Replay(error) => error.kind(),
            Self::Predictor(error) => error.kind(),
            Self::Power(_) | Self::SpotTrace { .. } | Self::Io { .. } => Kind::Failed,
        }
    }
}

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;
