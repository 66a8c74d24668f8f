//! What a format has to provide.

use super::options::ReadOptions;
use super::source::{Head, SourceFile, TableHeaders};
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

/// Whose clock the local times of a format without a zone are of. Readers of other clocks come first, so that a trace's zone
/// is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Clock {
    /// The cluster's, which the format, its documentation or the user tells.
    Cluster,
    /// That of the mapping, if it says one, else of the trace beside it.
    Mapping,
    /// That of the trace beside which the file is read, as telemetry says nothing.
    Trace,
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
    /// How sure it is that the file beginning with `head` is its own: by the columns that it knows. Must not depend on anything else.
    fn sniff(&self, head: &Head) -> Confidence {
        if head.is_one_of(self.columns()) { Confidence::Sure } else { Confidence::No }
    }
    /// The tables that it knows by their columns, for saying what a file lacks that no reader recognises.
    fn columns(&self) -> TableHeaders {
        &[]
    }
    /// Whose clock its local times are of.
    fn clock(&self) -> Clock {
        Clock::Cluster
    }
    /// Reads `files` into `trace`.
    ///
    /// # Errors
    /// When a file cannot be opened or is not in this format.
    fn read(&self, files: &[SourceFile], options: &ReadOptions<'_>, trace: &mut Trace) -> Result<()>;
}
