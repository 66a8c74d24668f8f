//! `tracecast formats`: what can be read.

use anyhow::Result;
use tracecast_analytics::ingest;
use tracecast_analytics::report::{Column, Table, text};

use crate::output;

pub(crate) fn run() -> Result<()> {
    let mut table = Table::new("Readers", vec![Column::text("--reader"), Column::text("Reads")]);
    for reader in ingest::readers() {
        table.rows.push(vec![reader.id().into(), reader.describes().into()]);
    }
    output::text(&text::table(&table, output::terminal()), None)
}
