//! What a format has to provide.

use super::read::ReadOptions;
use super::source::SourceFile;
use crate::error::Result;
use crate::trace::Trace;

/// How sure a reader is that a file is its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confidence {
    /// It is not.
    No,
    /// It could be: the shape fits, nothing else says so.
    Maybe,
    /// It is: names that only this format has.
    Sure,
}

/// The beginning of a file, decompressed.
#[derive(Debug, Clone)]
pub struct Head {
    /// File name without its folder and without `.gz` or `.zst`, in lower case.
    pub name: String,
    /// Up to 64 KiB of text; bad bytes are replaced, a byte order mark is gone, line ends are `\n`.
    pub text: String,
    /// Whether the file is longer than `text`.
    pub more: bool,
}

impl Head {
    /// The first line that is neither empty nor a `#` comment.
    pub fn first_line(&self) -> &str {
        self.text.lines().find(|line| !line.trim().is_empty() && !line.starts_with('#')).unwrap_or("")
    }

    /// Whether the first line is a header that holds all of `names`, in any order and case, separated by `separator`.
    pub fn has_columns(&self, separator: char, names: &[&str]) -> bool {
        let header: Vec<String> =
            self.first_line().split(separator).map(|name| name.trim().trim_matches('"').to_ascii_lowercase()).collect();
        names.iter().all(|name| header.iter().any(|have| have == name))
    }
}

/// A format.
///
/// A reader gets all files of a request that are its own, in the order the user named them, and tells their roles (job
/// log, machine list …) apart itself. It pushes rows into the trace's tables and accounts for each in `trace.ledger`.
/// It returns an error only when a file as a whole makes no sense; a bad row is quarantined.
pub trait Reader: Sync {
    /// Stable identifier, as `--reader` takes it.
    fn id(&self) -> &'static str;
    /// What it reads, one line.
    fn describes(&self) -> &'static str;
    /// How sure it is that the file beginning with `head` is its own. Must not depend on anything else.
    fn sniff(&self, head: &Head) -> Confidence;
    /// Reads `files` into `trace`.
    ///
    /// # Errors
    /// When a file cannot be opened or is not in this format.
    fn read(&self, files: &[SourceFile], options: &ReadOptions<'_>, trace: &mut Trace) -> Result<()>;
}
