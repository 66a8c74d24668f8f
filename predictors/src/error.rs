//! The crate's error: what went wrong, where, and what would fix it.

use std::path::PathBuf;

use tracecast_analytics::Kind;

/// Result of this crate's fallible functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a prediction, a training or a back-test could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Too few jobs, rows or slots for what was asked.
    #[error("{0}")]
    TooFew(String),
    /// The data do not contain what was asked for.
    #[error("{0}")]
    NotRecorded(String),
    /// A model cannot be fitted to data of this kind.
    #[error("{0}")]
    Unsuited(String),
    /// No VC or model has that name.
    #[error("there is no {what} {found}; there are {}", known.join(", "))]
    Unknown {
        /// Kind of the name, such as VC or model.
        what: &'static str,
        /// The name given.
        found: String,
        /// Names there are.
        known: Vec<String>,
    },
    /// A setting makes no sense, whatever the data.
    #[error("{0}")]
    Setting(String),
    /// The dates and the length of a slot give more slots than the rows can fill.
    #[error("{0}")]
    TooManySlots(String),
    /// A newer record does not go on where the predictor's ends.
    #[error("{0}")]
    NotTheSequel(String),
    /// Parts that do not fit each other were handed over: a defect of the program, not of the data.
    #[error("{0}")]
    Defect(String),
    /// A learner refused its data.
    #[error("train {learner}: {reason}")]
    Learner {
        /// Name of the learner.
        learner: &'static str,
        /// Message of the learner.
        reason: String,
    },
    /// A model file is not one, or is damaged, or is of a later version.
    #[error("{file}: {found}; {remedy}")]
    ModelFile {
        /// The file.
        file: String,
        /// Fault found.
        found: String,
        /// Remedy for the user.
        remedy: String,
    },
    /// A file of measurements is not what it should be, at a place.
    #[error("{file}{}: {found}; {remedy}", line.map(|line| format!(", line {line}")).unwrap_or_default())]
    Measured {
        /// The file.
        file: String,
        /// 1-based line, where one is to blame.
        line: Option<u64>,
        /// Fault found.
        found: String,
        /// Remedy for the user.
        remedy: String,
    },
    /// The operating system refused a file.
    #[error("{action} {}", path.display())]
    Io {
        /// Action that failed.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's own reason.
        #[source]
        source: std::io::Error,
    },
    /// A table could not be written or read.
    #[error("{file}: {reason}")]
    Table {
        /// The file.
        file: String,
        /// The library's own words.
        reason: String,
    },
}

impl Error {
    /// Kind of the failure.
    pub fn kind(&self) -> Kind {
        match self {
            Self::TooFew(_) | Self::NotRecorded(_) | Self::Unsuited(_) => Kind::TooLittleData,
            Self::Unknown { .. } | Self::Setting(_) => Kind::Usage,
            Self::TooManySlots(_)
            | Self::NotTheSequel(_)
            | Self::Defect(_)
            | Self::Learner { .. }
            | Self::ModelFile { .. }
            | Self::Measured { .. }
            | Self::Io { .. }
            | Self::Table { .. } => Kind::Failed,
        }
    }
}
