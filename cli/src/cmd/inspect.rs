//! `tracecast inspect`: the quality ledger.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Args;
use tracecast_analytics::describe::Quality;
use tracecast_analytics::ingest;
use tracecast_analytics::report::{Cell, Column, Report, ReportTable, Section, text};

use crate::args::{Input, Plain};
use crate::early::Replacing;
use crate::{output, source};

#[derive(Debug, Args)]
#[command(after_help = "\
Example, the ledger of the bundled sample:
  tracecast inspect datasets/sample")]
pub(crate) struct Inspect {
    #[command(flatten)]
    pub(crate) input: Input,
    /// Form in which the answer is written
    #[arg(long, value_enum, default_value_t = Plain::Table)]
    pub(crate) format: Plain,
    /// Write the rows that could not be used to this file, one JSON object a line
    ///
    /// It needs the source itself, as a trace folder does not keep such rows.
    #[arg(long, value_name = "FILE")]
    pub(crate) quarantine: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) replacing: Replacing,
}

pub(crate) fn run(request: &Inspect, quiet: bool) -> Result<()> {
    request.input.reading.needs_all_jobs("the ledger counts rows of the source, whatever job they belong to")?;
    request.replacing.files([&request.quarantine])?;
    let trace = source::read(&request.input.sources, &request.input.reading, request.quarantine.as_deref(), quiet)?;
    let quality = Quality::new(&trace);
    if request.format == Plain::Json {
        let mut json = serde_json::to_string_pretty(&quality).context("write the ledger as JSON")?;
        json.push('\n');
        output::text(&json, None)?;
        return Ok(ingest::check_usable(&trace)?);
    }
    let mut tables = ReportTable::new("Tables", vec![Column::text("Table"), Column::number("Rows")]);
    for (name, rows) in trace.row_counts() {
        tables.rows.push(vec![name.into(), Cell::Int(i64::try_from(rows).unwrap_or(i64::MAX))]);
    }
    let mut report = Report::new(super::describe::title(&trace, &request.input.sources), "");
    report.summary.push(quality.sentence());
    report.notes.clone_from(&trace.notes);
    report.sections.push(Section::new("tables", "What was read").with_table(tables));
    report.quality = Some(quality.table());
    report.provenance =
        trace.sources.iter().map(|s| (s.name.clone(), format!("{}, SHA-256 {}", s.reader, s.sha256))).collect();
    output::text(&text::render(&report, output::terminal()), None)?;
    // The ledger is the answer, also where no row could be used; the exit code says that there is no other.
    Ok(ingest::check_usable(&trace)?)
}
