//! Machine lists and VC sizes.
//!
//! The official machine list's GPU counts are wrong for many nodes: of 321 nodes it gives 2 GPUs, 238 report eight in
//! the utilisation logs. A revised list, made from those logs, wins where both are given. `12GB` is read as 12 GiB,
//! which is what boards sold as "12 GB" hold.

use crate::error::Result;
use crate::ingest::delimited::Delimited;
use crate::ingest::field::{self, GIB};
use crate::ingest::options::ReadOptions;
use crate::ingest::source::SourceFile;
use crate::quality::reason;
use crate::schema::{CapacityRow, NodeRow};
use crate::trace::Trace;

/// The nodes of all machine lists of a request, in the order they are first named.
#[derive(Debug, Default)]
pub(super) struct Inventory {
    nodes: Vec<Node>,
    index: std::collections::BTreeMap<String, usize>,
    official: bool,
    revised: bool,
}

#[derive(Debug, Default)]
struct Node {
    name: String,
    official_gpus: Option<f64>,
    revised_gpus: Option<f64>,
    gpu_mem_bytes: Option<i64>,
    in_official: bool,
    in_revised: bool,
}

impl Inventory {
    /// Reads one machine list; one with GPU memory is the official, one without the revised.
    ///
    /// # Errors
    /// When it cannot be opened or lacks its columns.
    pub(super) fn read(&mut self, file: &SourceFile, options: &ReadOptions<'_>, trace: &mut Trace) -> Result<()> {
        let mut table = Delimited::open(file, b',', options.observer)?;
        let node_at = Some(table.require("machineid")?);
        let gpus_at = Some(table.require("number of gpus")?);
        let mem_at = table.column("single gpu mem");
        let official = mem_at.is_some();
        self.official |= official;
        self.revised |= !official;
        while let Some(mut row) = table.next_row(&mut trace.ledger) {
            let Some(name) = row.text(node_at) else {
                trace.ledger.quarantine(&row.audit, reason::NO_KEY, "machineId", row.raw());
                continue;
            };
            let next = self.nodes.len();
            let ix = *self.index.entry(name.to_owned()).or_insert(next);
            if ix == next {
                self.nodes.push(Node { name: name.to_owned(), ..Node::default() });
            }
            let Some(node) = self.nodes.get_mut(ix) else { continue };
            let listed = if official { &mut node.in_official } else { &mut node.in_revised };
            if std::mem::replace(listed, true) {
                trace.ledger.quarantine(&row.audit, reason::DUPLICATE, "machineId", row.raw());
                continue;
            }
            let gpus = row.amount(gpus_at, "number of GPUs");
            if official {
                node.official_gpus = gpus;
                let mem = row.text(mem_at).map(|text| text.trim_end_matches("GB").trim());
                let mem = field::amount(mem, "single GPU mem", &mut row.audit);
                node.gpu_mem_bytes = mem.map(|gib| (gib * GIB) as i64);
            } else {
                node.revised_gpus = gpus;
            }
            trace.ledger.keep(row.audit);
        }
        table.finish(&mut trace.ledger);
        Ok(())
    }

    /// Writes the nodes into the trace.
    pub(super) fn push(self, trace: &mut Trace) {
        if self.official && self.revised {
            let differ = |node: &&Node| {
                node.official_gpus.zip(node.revised_gpus).is_some_and(|(official, revised)| official != revised)
            };
            let count = self.nodes.iter().filter(differ).count();
            trace.note(format!(
                "philly: the machine lists differ on the GPUs of {count} of {} nodes; the revised list is used",
                self.nodes.len()
            ));
        } else if self.official {
            trace.note(
                "philly: the official machine list understates or overstates the GPUs of most nodes (238 of 321 nodes \
                 with 2 GPUs have eight); read the revised list too",
            );
        }
        for node in self.nodes {
            trace.nodes.push(NodeRow {
                node: Some(node.name.into()),
                gpus: node.revised_gpus.or(node.official_gpus),
                gpu_mem_bytes: node.gpu_mem_bytes,
                ..NodeRow::default()
            });
        }
    }
}

/// Reads the nodes of each VC; the list has no GPUs and no dates.
///
/// # Errors
/// When the file cannot be opened or lacks its columns.
pub(super) fn read_vc_sizes(file: &SourceFile, options: &ReadOptions<'_>, trace: &mut Trace) -> Result<()> {
    let mut table = Delimited::open(file, b',', options.observer)?;
    let vc_at = Some(table.require("vc")?);
    let nodes_at = Some(table.require("node num")?);
    while let Some(mut row) = table.next_row(&mut trace.ledger) {
        let Some(vc) = row.text(vc_at) else {
            trace.ledger.quarantine(&row.audit, reason::NO_KEY, "vc", row.raw());
            continue;
        };
        trace.capacity.push(CapacityRow {
            scope: Some("vc".into()),
            name: Some(vc.into()),
            nodes: row.amount(nodes_at, "node num"),
            state: Some("up".into()),
            ..CapacityRow::default()
        });
        trace.ledger.keep(row.audit);
    }
    table.finish(&mut trace.ledger);
    trace.note("philly: VC sizes are given in nodes and without dates; nodes hold different numbers of GPUs");
    Ok(())
}
