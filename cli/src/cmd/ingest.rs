//! `tracecast ingest`: a source becomes a trace folder.

use anyhow::Result;
use tracecast_analytics::storage;

use crate::args::Ingest;
use crate::{early, output, source};

pub(crate) fn run(request: &Ingest, quiet: bool) -> Result<()> {
    output::may_replace(&request.out, request.force)?;
    early::folder(&request.out)?;
    early::files([&request.quarantine])?;
    let trace = source::open(&request.sources, &request.reading, request.quarantine.as_deref(), quiet)?;
    let manifest = storage::save(&trace, &request.out)?;
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
