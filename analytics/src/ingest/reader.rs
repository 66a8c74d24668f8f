//! Interface of a format.

use super::options::ReadOptions;
use super::source::{Head, SourceFile, TableHeaders};
use crate::error::Result;
use crate::trace::Trace;

/// Confidence of a reader that a file is its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confidence {
    /// Another format.
    No,
    /// Possibly this format: the shape fits, nothing else says so.
    Maybe,
    /// Certainly this format: names that only it has.
    Sure,
}

/// Clock that the local times of a format without a zone are of. Readers of other clocks come
/// first, so that a trace's zone is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Clock {
    /// Clock of the cluster, which the format, its documentation or the user tells.
    Cluster,
    /// Clock that the mapping names, else that of the trace beside it.
    Mapping,
    /// Clock of the trace beside which the file is read, as telemetry names none.
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
    /// Description of the format, one line.
    fn describes(&self) -> &'static str;
    /// Confidence that the file beginning with `head` is of this format, by the columns that the
    /// reader knows. Must not depend on anything else.
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
