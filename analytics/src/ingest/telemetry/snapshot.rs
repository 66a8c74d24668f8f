//! Files with snapshots of a node: one answer of a tool, or several one after another.
//!
//! Such an answer often has neither the time nor the node in it. Then the file's name tells both
//! (`n7_20240501-120000.json`); a time in a name holds for the first snapshot only. A time that nothing tells is unknown,
//! and said to be.

use super::gather::{Device, Gather, When};
use super::label::{moment_in_name, node_in_name};
use super::series::put_gpu;
use super::table::MetricTable;
use crate::error::{Error, Result};
use crate::ingest::source::SourceFile;
use crate::quality::{Reason, RowAudit};
use crate::time::Zone;
use crate::trace::Trace;

/// A GPU of which nothing is said that has a column.
const NO_READING: Reason = Reason {
    id: "no_known_reading",
    what: "nothing is said of the GPU that the table of metrics knows",
    remedy: "ask the tool for use, power and memory, or say what its keys mean with --metrics FILE",
};

/// The snapshots in a file.
#[derive(Debug)]
pub(super) struct Snapshots<'f> {
    file: &'f SourceFile,
    /// The node after which the file is named.
    pub(super) node: Option<String>,
    named: Option<i64>,
    count: u32,
    rows: u64,
    untimed: bool,
}

impl<'f> Snapshots<'f> {
    /// Snapshots in `file`; local times in its name are those of `zone`.
    pub(super) fn new(file: &'f SourceFile, zone: &Zone) -> Self {
        let name = file.path().file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let (node, named) = (node_in_name(file.path()), moment_in_name(&name, zone));
        Self { file, node, named, count: 0, rows: 0, untimed: false }
    }

    /// Whether there was no row yet.
    pub(super) fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Begins a snapshot that was taken at `own`, if it says so. `scrape` numbers those of all files.
    pub(super) fn begin(&mut self, own: Option<i64>, scrape: &mut u32) -> When {
        *scrape = scrape.saturating_add(1);
        self.count += 1;
        let named = self.named.filter(|_| self.count == 1);
        self.untimed |= own.or(named).is_none();
        own.or(named).map_or(When { ts: None, scrape: *scrape }, When::at)
    }

    /// The account of the next row: a GPU, or a meter. Its line is its number in the file.
    pub(super) fn row(&mut self) -> RowAudit<'f> {
        self.rows += 1;
        RowAudit::new(self.file.name(), self.rows)
    }

    /// Adds the row of a GPU with the names and values that the tool wrote.
    pub(super) fn gpu<'v>(
        &mut self,
        at: (When, &Device),
        values: impl Iterator<Item = (&'v str, Option<&'v str>)>,
        (table, gather, trace): (&MetricTable, &mut Gather, &mut Trace),
        mut row: RowAudit<'_>,
    ) {
        match put_gpu(table, gather, at, values, &mut row) {
            Some(put) => put.account(row, &at.1.name, &mut trace.ledger),
            None => trace.ledger.quarantine(&row, NO_READING, "", &at.1.name),
        }
    }

    /// Says what the file leaves unknown.
    ///
    /// # Errors
    /// When it holds no row, for which the tool is to be run again as `remedy` says.
    pub(super) fn finish(self, what: &str, remedy: &str, trace: &mut Trace) -> Result<()> {
        let damaged = trace.ledger.damage.iter().any(|damage| damage.file == self.file.name());
        if self.rows == 0 && !damaged {
            return Err(Error::Empty {
                source_name: self.file.name().to_owned(),
                what: format!("the file holds no {what}"),
                remedy: remedy.to_owned(),
            });
        }
        if self.untimed {
            trace.note(format!(
                "{} holds a snapshot that tells no time, neither within nor in the file's name: its samples have none. \
                 Name such files after node and time, as node07_20240501-120000.",
                self.file.name()
            ));
        }
        if self.node.is_none() {
            trace.note(format!("{} is not named after its node, so its samples have none.", self.file.name()));
        }
        Ok(())
    }
}
