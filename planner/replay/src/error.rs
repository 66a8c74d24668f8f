//! Errors between a trace and its replay, worded so that the reader knows what to change.

use tracecast_analytics::Kind;
use tracecast_analytics::schema::Resource;

/// An error of a replay, or of a file that a user wrote for one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The trace does not say how large its cluster is.
    #[error(
        "cluster: the source does not say how many {many} there are; write a file with `tracecast cluster SOURCE --resource {id} --out cluster.toml`, correct what it infers, and name it with --site",
        many = .0.many(),
        id = .0.id()
    )]
    ClusterNotRecorded(Resource),
    /// No job is left to replay, or none that could be compared; the text says why.
    #[error("{0}")]
    NoJobs(String),
    /// More or less work than can be drawn.
    #[error("{0}")]
    Growth(String),
    /// A name that there is not: of an order, a scan, a placement.
    #[error("policy: `{found}` is no {what}; there are {}", known.join(", "))]
    Unknown {
        /// Kind of the name: order, scan, placement.
        what: &'static str,
        /// The name given.
        found: String,
        /// Names there are.
        known: &'static [&'static str],
    },
    /// A text that is not of the form asked for: a length of time, a list, a part of a study.
    #[error("`{found}` is no {what}; {remedy}")]
    Malformed {
        /// The form asked for.
        what: &'static str,
        /// The text as written.
        found: String,
        /// The remedy.
        remedy: String,
    },
    /// A study of no scenario, or a comparison of no policy.
    #[error("{0}")]
    NoScenario(&'static str),
    /// Stored schedules that do not belong to this study, or do not make it whole.
    #[error("{0}")]
    Shards(String),
    /// Schedules, starts or times that are not of these jobs: a defect of the program, not of the data.
    #[error("{0}")]
    Defect(String),
    /// A file of the user is wrong.
    #[error("{file}, line {line}: {what}")]
    File {
        /// Name of the file.
        file: String,
        /// The line, counted from 1.
        line: u64,
        /// The problem and its remedy.
        what: String,
    },
    /// A job, a cluster or a policy that the engine refuses, or that whoever prepares them for it does.
    #[error(transparent)]
    Engine(#[from] tracecast_sim::Error),
    /// Error of reading a trace.
    #[error(transparent)]
    Trace(#[from] tracecast_analytics::Error),
}

impl Error {
    /// A job of a workload that cannot be what it says.
    pub(crate) fn workload(job: usize, what: impl Into<String>) -> Self {
        tracecast_sim::Error::Workload { job, what: what.into() }.into()
    }

    /// A cluster that cannot be what it says.
    pub(crate) fn cluster(what: impl Into<String>) -> Self {
        tracecast_sim::Error::Cluster(what.into()).into()
    }

    /// Switches of a policy that do not go together.
    pub(crate) fn policy(what: impl Into<String>) -> Self {
        tracecast_sim::Error::Policy(what.into()).into()
    }

    /// Error that the text of a user's file is not the TOML it should be.
    pub fn toml(file: &str, text: &str, error: &toml::de::Error) -> Self {
        let line = error.span().map_or(1, |span| line_of(text, span.start));
        Self::File { file: file.to_owned(), line, what: error.message().to_owned() }
    }

    /// Returns the kind of failure.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Growth(_) | Self::Unknown { .. } | Self::Malformed { .. } | Self::NoScenario(_) | Self::Shards(_) => {
                Kind::Usage
            }
            Self::ClusterNotRecorded(_) | Self::NoJobs(_) => Kind::TooLittleData,
            Self::Engine(error) => error.kind(),
            Self::Trace(error) => error.kind(),
            Self::File { .. } | Self::Defect(_) => Kind::Failed,
        }
    }
}

/// The line of a byte of a text, counted from 1.
pub fn line_of(text: &str, at: usize) -> u64 {
    1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count() as u64
}

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// The beginning of a text, for a message: at most 40 letters.
pub fn excerpt(text: &str) -> String {
    text.chars().take(40).collect()
}
