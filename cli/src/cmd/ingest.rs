//! `tracecast ingest`: a source becomes a trace folder.

use std::path::Path;

use anyhow::{Context as _, Result};
use tracecast_analytics::{Trace, storage};

use crate::args::Ingest;
use crate::{output, source};

pub(crate) fn run(request: &Ingest, quiet: bool) -> Result<()> {
    let trace = source::open(&request.sources, &request.reading, request.quarantine.is_some(), quiet)?;
    let manifest = storage::save(&trace, &request.out)?;
    if let Some(path) = &request.quarantine {
        quarantine(&trace, path)?;
    }
    let tables: Vec<String> = manifest.tables.iter().map(|table| format!("{} {}", table.name, table.rows)).collect();
    let ledger = &trace.ledger;
    output::say(
        quiet,
        &format!(
            "{}: {}; {} rows read = {} kept + {} repaired + {} quarantined",
            request.out.display(),
            tables.join(", "),
            ledger.read,
            ledger.kept,
            ledger.repaired,
            ledger.quarantined
        ),
    );
    Ok(())
}

/// Writes the quarantined rows, one JSON object a line.
pub(crate) fn quarantine(trace: &Trace, path: &Path) -> Result<()> {
    let mut lines = Vec::new();
    for row in trace.ledger.rows() {
        serde_json::to_writer(&mut lines, row).context("write a quarantined row as JSON")?;
        lines.push(b'\n');
    }
    output::write(path, &lines)
}
