//! The crate's error: what went wrong, where, and what would fix it.

use std::path::PathBuf;

/// Result of this crate's fallible functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a prediction, a training or a back-test could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There are too few jobs for what was asked.
    #[error("{0}")]
    TooFew(String),
    /// What was asked does not fit the data or itself.
    #[error("{0}")]
    Request(String),
    /// A learner refused its data.
    #[error("train {learner}: {reason}")]
    Learner {
        /// Which one.
        learner: &'static str,
        /// Its own words.
        reason: String,
    },
    /// A model file is not one, or is damaged, or is of a later version.
    #[error("{file}: {found}; {remedy}")]
    ModelFile {
        /// The file.
        file: String,
        /// What was found.
        found: String,
        /// What would fix it.
        remedy: String,
    },
    /// The operating system refused a file.
    #[error("{action} {}", path.display())]
    Io {
        /// What was being done.
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
