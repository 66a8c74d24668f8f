//! `tracecast ingest`: a source becomes a trace folder.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use tracecast_analytics::storage;

use crate::args::Reading;
use crate::{early, output, source};

#[derive(Debug, Args)]
pub(crate) struct Ingest {
    /// Files, folders or patterns
    #[arg(required = true, value_name = "SOURCE")]
    pub(crate) sources: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: Reading,
    /// The trace folder to write
    #[arg(long, short, value_name = "FOLDER")]
    pub(crate) out: PathBuf,
    /// Replace a trace folder that is already there
    #[arg(long)]
    pub(crate) force: bool,
    /// Write quarantined rows to this file, one JSON object a line
    #[arg(long, value_name = "FILE")]
    pub(crate) quarantine: Option<PathBuf>,
}

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
