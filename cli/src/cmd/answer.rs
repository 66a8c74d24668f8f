//! What becomes of an answer: rendered in the form asked for, its charts drawn, written to stdout or a file. The same for every command that answers
//! with a report.

use std::cell::LazyCell;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::Args;
use serde::Serialize;
use tracecast_analytics::report::{self, Block, Report};

use crate::args::Form;
use crate::exit::Usage;
use crate::{early, output};

/// In which form, which parts, and where to.
#[derive(Debug, Args)]
pub(crate) struct Answering {
    /// Form in which the answer is written
    #[arg(long, value_enum, default_value_t = Form::Table, help_heading = "Answer")]
    format: Form,
    /// Write the answer as JSON: short for --format json
    #[arg(long, conflicts_with = "format", help_heading = "Answer")]
    json: bool,
    /// Write only these sections of the answer, separated by commas
    ///
    /// A section is named by its ID, as in the links of the HTML form. An unknown ID is an error that lists all IDs. JSON holds the whole answer
    /// and takes no sections. --charts then draws only the charts of these sections.
    #[arg(long, value_name = "IDS", value_delimiter = ',', conflicts_with = "json", help_heading = "Answer")]
    section: Vec<String>,
    /// Write the answer to a file instead of stdout
    #[arg(long, short, value_name = "FILE", help_heading = "Answer")]
    pub(crate) out: Option<PathBuf>,
}

impl Answering {
    fn form(&self) -> Form {
        if self.json { Form::Json } else { self.format }
    }

    /// Refuses what does not go together or cannot be written, before anything is read: the answer's own file, and `others` that the command writes.
    pub(crate) fn check(&self, others: &[&Option<PathBuf>]) -> Result<()> {
        if self.form() == Form::Json && !self.section.is_empty() {
            let what = "JSON holds the whole answer; leave --section out, or choose another form";
            return Err(Usage(what.to_owned()).into());
        }
        early::files(std::iter::once(&self.out).chain(others.iter().copied()))
    }

    /// Renders, draws charts into a folder if one is named, and writes. The report is made only if a form or a chart needs it.
    pub(crate) fn write<F: FnOnce() -> Report>(
        &self,
        charts: Option<&Path>,
        quiet: bool,
        report: F,
        json: impl FnOnce() -> Result<String>,
    ) -> Result<()> {
        let mut report = LazyCell::new(report);
        if !self.section.is_empty() {
            LazyCell::force_mut(&mut report).keep(&self.section).map_err(|error| Usage(error.to_string()))?;
        }
        let text = match self.form() {
            Form::Json => json()?,
            Form::Table => report::text::render(&report, output::width(self.out.as_deref())),
            Form::Markdown => report::markdown::render(&report),
            Form::Html => report::html::render(&report).context("draw the report")?,
        };
        draw(&report, charts, quiet)?;
        output::text(&text, self.out.as_deref())
    }
}

/// An answer as JSON, ending in a line end; `what` it is.
pub(crate) fn json(answer: &impl Serialize, what: &'static str) -> Result<String> {
    let mut text = serde_json::to_string_pretty(answer).with_context(|| format!("write {what} as JSON"))?;
    text.push('\n');
    Ok(text)
}

/// Writes each chart of the report as SVG and PNG into a folder, if one is named, and says how many there are.
fn draw<F: FnOnce() -> Report>(report: &LazyCell<Report, F>, folder: Option<&Path>, quiet: bool) -> Result<()> {
    let Some(folder) = folder else { return Ok(()) };
    let mut count = 0;
    for section in report.available() {
        for block in &section.blocks {
            let Block::Chart(chart) = block else { continue };
            let svg = report::plot::svg(chart, report::plot::SvgUse::Standalone).context("draw a chart")?;
            output::write(&folder.join(format!("{}.svg", chart.id)), svg.as_bytes())?;
            let png = report::plot::png(chart).context("draw a chart")?;
            output::write(&folder.join(format!("{}.png", chart.id)), &png)?;
            count += 1;
        }
    }
    output::say(quiet, &format!("{count} charts written to {}", folder.display()));
    Ok(())
}
