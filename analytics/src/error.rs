//! The crate's error: what went wrong, where, and what would fix it.
//!
//! Messages are lowercase fragments that complete "failed to …"; the command line prints the chain. A bad *row* is not
//! an error: it is counted in the [quality ledger](crate::quality::Ledger). An error means the whole request cannot be
//! answered.

use std::path::PathBuf;

use crate::report::markup::printable;

/// Result of this crate's fallible functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a request could not be answered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused a file or folder.
    #[error("{action} {}", path.display())]
    Io {
        /// Operation: "open", "read", "write", "rename".
        action: &'static str,
        /// The file or folder concerned.
        path: PathBuf,
        /// The system's own reason.
        #[source]
        source: std::io::Error,
    },
    /// A file is not what it should be, at a place.
    #[error("{}{}: {}; {remedy}", printable(.file), place(.line, .column), printable(.found))]
    Format {
        /// The file as the user named it.
        file: String,
        /// 1-based line, where the format has lines.
        line: Option<u64>,
        /// Column (field) name, where one is to blame.
        column: Option<String>,
        /// Finding.
        found: String,
        /// Remedy.
        remedy: String,
    },
    /// No reader recognised a file.
    #[error("{}: {}; {remedy}", printable(.file), printable(.found))]
    UnknownFormat {
        /// The file as the user named it.
        file: String,
        /// Actual format, as far as that can be told.
        found: String,
        /// Remedy.
        remedy: String,
    },
    /// `--strict` was asked for and a file ends early or cannot be decoded to its end.
    #[error(
        "{}: the file is damaged or ends early, after line {after_line}: {what}; fetch it again, or leave out --strict to use what is readable",
        printable(.file)
    )]
    Damaged {
        /// The file as the user named it.
        file: String,
        /// The last line (or record) that could be read.
        after_line: u64,
        /// Message of the decoder.
        what: String,
    },
    /// The source holds nothing to read.
    #[error("{source_name}: {what}; {remedy}")]
    Empty {
        /// The file, folder or pattern as the user named it.
        source_name: String,
        /// Missing part.
        what: String,
        /// Remedy.
        remedy: String,
    },
    /// `--strict` was asked for and rows were quarantined.
    #[error(
        "{quarantined} of {read} rows were quarantined and --strict allows none: {worst}; run `tracecast inspect` for the whole ledger"
    )]
    Strict {
        /// Rows quarantined.
        quarantined: u64,
        /// Rows read.
        read: u64,
        /// The most frequent reason, in words, with its first place.
        worst: String,
    },
    /// A setting makes no sense.
    #[error("{setting}: {found}; {remedy}")]
    Setting {
        /// The option or key concerned.
        setting: String,
        /// Finding.
        found: String,
        /// Remedy.
        remedy: String,
    },
    /// A moment or a window that was typed cannot be.
    #[error("{asked}: {found}; {remedy}")]
    Window {
        /// Text as typed.
        asked: String,
        /// Fault.
        found: String,
        /// Remedy.
        remedy: String,
    },
    /// None of the rows could be used.
    #[error("{}: no row could be used: {why}; run `tracecast inspect` for the whole ledger", printable(.source_name))]
    Unusable {
        /// The files as the user named them.
        source_name: String,
        /// The most frequent reason, in words, with its first place.
        why: String,
    },
    /// A trace folder was written by a version this one cannot read.
    #[error("{}: trace folder has schema {found}, this version reads {supported}; run `tracecast ingest` on the source again", path.display())]
    SchemaVersion {
        /// The folder.
        path: PathBuf,
        /// Version found.
        found: String,
        /// Version supported.
        supported: &'static str,
    },
    /// A Parquet file cannot be read or written.
    #[error("{action} Parquet file {}", path.display())]
    Parquet {
        /// "read" or "write".
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The library's own reason.
        #[source]
        source: parquet::errors::ParquetError,
    },
    /// Arrow data has an unexpected shape.
    #[error("convert table {table}")]
    Arrow {
        /// The table.
        table: &'static str,
        /// The library's own reason.
        #[source]
        source: arrow::error::ArrowError,
    },
    /// A query or a condition cannot be answered.
    #[error("{}: {}", printable(&shortened(.sql)), printable(.why))]
    Query {
        /// Query as written.
        sql: String,
        /// Fault.
        why: String,
    },
    /// JSON cannot be written or is not what was expected.
    #[error("{action} JSON {}", path.display())]
    Json {
        /// "read" or "write".
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The library's own reason.
        #[source]
        source: serde_json::Error,
    },
}

/// Kind of a failure, whichever crate it comes from. The command line makes its exit code of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A file could not be read or written, is not what it should be, or something else is wrong with the data or the system.
    Failed,
    /// The request names something that does not exist, or does not go together.
    Usage,
    /// Rows were quarantined or a file is damaged where none may be.
    Strict,
    /// No reader recognises the source.
    UnknownFormat,
    /// The data are read, and do not suffice for what was asked: too few days, slots or jobs, or what is needed is not recorded.
    TooLittleData,
}

impl Error {
    /// Returns the kind of failure.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Strict { .. } | Self::Damaged { .. } => Kind::Strict,
            Self::UnknownFormat { .. } => Kind::UnknownFormat,
            Self::Window { .. } | Self::Query { .. } => Kind::Usage,
            _ => Kind::Failed,
        }
    }

    /// An [`Error::Io`] for `action` on `path`.
    pub fn io(action: &'static str, path: impl Into<PathBuf>, source: std::io::Error) -> Self {
        Self::Io { action, path: path.into(), source }
    }

    /// An [`Error::Format`] that concerns a file as a whole.
    pub fn format(file: impl Into<String>, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::Format { file: file.into(), line: None, column: None, found: found.into(), remedy: remedy.into() }
    }
}

/// Remedy for a file that no reader knows.
pub(crate) const UNKNOWN_REMEDY: &str = "see `tracecast formats`, name one with --reader, or describe the columns with --mapping, as datasets/mappings/README.md says";

/// A query as far as it helps to know which one is meant.
fn shortened(sql: &str) -> String {
    const MOST: usize = 60;
    let line = sql.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= MOST { line } else { line.chars().take(MOST).collect::<String>() + " …" }
}

fn place(line: &Option<u64>, column: &Option<String>) -> String {
    match (line, column) {
        (Some(line), Some(column)) => format!(", line {line}, column {column}"),
        (Some(line), None) => format!(", line {line}"),
        (None, Some(column)) => format!(", column {column}"),
        (None, None) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_cannot_drive_a_terminal() {
        let error = Error::format("a\u{1b}[2J.csv", "columns \u{7}x\0y", "export it again");
        assert_eq!(error.to_string(), "a\u{FFFD}[2J.csv: columns \u{FFFD}x\u{FFFD}y; export it again");
    }
}
