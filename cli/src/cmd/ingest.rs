//! `tracecast ingest`: a source becomes a trace folder.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use tracecast_analytics::storage;

use crate::args::{Between, Reading, TIMES};
use crate::early::{self, Replacing};
use crate::{output, source};

#[derive(Debug, Args)]
#[command(after_help = format!("\
Example, a bundled CSV file with its mapping file:
  tracecast ingest datasets/mappings/example/site.csv \\
    --mapping datasets/mappings/example/site.toml --out site-trace

{TIMES}"))]
pub(crate) struct Ingest {
    /// Source to convert: files, folders or patterns
    #[arg(required = true, value_name = "SOURCE")]
    pub(crate) sources: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: Reading,
    #[command(flatten)]
    pub(crate) between: Between,
    /// Trace folder to write
    #[arg(long, short, value_name = "FOLDER")]
    pub(crate) out: PathBuf,
    /// Replace the trace folder if it already exists, and the file of --quarantine
    #[arg(long)]
    pub(crate) force: bool,
    /// Write the rows that could not be used to this file, one JSON object a line
    #[arg(long, value_name = "FILE")]
    pub(crate) quarantine: Option<PathBuf>,
}

pub(crate) fn run(request: &Ingest, quiet: bool) -> Result<()> {
    output::may_replace(&request.out, request.force)?;
    early::writable_folder(&request.out)?;
    Replacing { force: request.force }.files([&request.quarantine])?;
    let trace = source::open_between(
        &request.sources,
        &request.reading,
        &request.between,
        request.quarantine.as_deref(),
        quiet,
    )?;
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
