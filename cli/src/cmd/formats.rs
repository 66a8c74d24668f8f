//! `tracecast formats`: what can be read.

use std::fmt::Write as _;

use anyhow::Result;
use tracecast_analytics::ingest;

use crate::output;

pub(crate) fn run() -> Result<()> {
    let mut out = String::new();
    let width = ingest::readers().iter().map(|reader| reader.id().len()).max().unwrap_or(0);
    for reader in ingest::readers() {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{:width$}  {}", reader.id(), reader.describes());
    }
    output::text(&out, None)
}
