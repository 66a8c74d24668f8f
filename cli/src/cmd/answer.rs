//! Output of an answer: rendered in the form asked for, its charts drawn, written to stdout or a
//! file. Every command that answers with a report uses it.

use std::cell::LazyCell;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::Args;
use serde::Serialize;
use tracecast_analytics::report::csv::CsvTable;
use tracecast_analytics::report::{self, Block, Report, Section};

use crate::args::{self, Form, entries};
use crate::early::{self, Replacing};
use crate::exit::Usage;
use crate::output;

/// Form and parts of an answer, and where it is written.
#[derive(Debug, Args)]
pub(crate) struct Answering {
    /// Form in which the answer is written [default: as the name of --out ends, else table]
    #[arg(long, value_enum, help_heading = "Answer")]
    format: Option<Form>,
    /// Write the answer as JSON: short for --format json
    #[arg(long, conflicts_with = "format", help_heading = "Answer")]
    json: bool,
    /// Show the whole answer as text: all tables, cautions and notes
    #[arg(long, help_heading = "Answer")]
    details: bool,
    /// Write only these sections of the answer, separated by commas
    ///
    /// A section is named by its ID, as in the links of the HTML form. An unknown ID is an error that lists all IDs. JSON holds the whole answer
    /// and takes no sections. --charts then draws only the charts of these sections.
    #[arg(long, value_name = "IDS", value_delimiter = ',', value_parser = entries(), conflicts_with = "json", help_heading = "Answer")]
    section: Vec<String>,
    /// Write the answer to a file instead of stdout; FOLDER/ writes it there under the name of the command
    #[arg(long, short, value_name = "FILE|FOLDER/", help_heading = "Answer")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) replacing: Replacing,
}

/// Form of an answer with charts, and where both are written.
#[derive(Debug, Args)]
pub(crate) struct Charting {
    #[command(flatten)]
    pub(crate) answering: Answering,
    /// Write each chart of the answer into this folder, as SVG and as PNG
    #[arg(long, value_name = "FOLDER", help_heading = "Answer")]
    pub(crate) charts: Option<PathBuf>,
}

/// An answer whose form and place were found to be in order.
#[derive(Debug)]
pub(crate) struct Checked<'a> {
    answering: &'a Answering,
    command: &'a str,
    out: Option<PathBuf>,
    charts: Option<&'a Path>,
}

impl Answering {
    /// The form in which the answer is written.
    pub(crate) fn form(&self) -> Form {
        let of_name = || early::form_of_name(self.out.as_deref());
        if self.json { Form::Json } else { self.format.or_else(of_name).unwrap_or(Form::Table) }
    }

    /// Refuses what does not go together or cannot be written, before anything is read: the file of the answer of `command`, and `others` that the
    /// command writes.
    pub(crate) fn check<'a>(&'a self, command: &'a str, others: &[&Option<PathBuf>]) -> Result<Checked<'a>> {
        let form = self.form();
        if form == Form::Json && !self.section.is_empty() {
            let what = "JSON holds the whole answer; leave --section out, or choose another form";
            return Err(Usage(what.to_owned()).into());
        }
        if self.format.is_none() && !self.json {
            args::not_foreign::<Form>(self.out.as_deref())?;
        }
        let out = self.replacing.answer(self.out.as_deref(), command, &form)?;
        self.replacing.files(others.iter().copied())?;
        early::apart([&out].into_iter().chain(others.iter().copied()))?;
        Ok(Checked { answering: self, command, out, charts: None })
    }
}

impl Charting {
    /// Checks as [`Answering::check`] does, and the folder of the charts.
    pub(crate) fn check<'a>(&'a self, command: &'a str, others: &[&Option<PathBuf>]) -> Result<Checked<'a>> {
        self.answering.check(command, others)?.with_charts(&self.charts)
    }
}

impl<'a> Checked<'a> {
    /// The answer with charts in a folder, if one is named.
    pub(crate) fn with_charts(self, charts: &'a Option<PathBuf>) -> Result<Self> {
        self.answering.replacing.folders([charts])?;
        Ok(Self { charts: charts.as_deref(), ..self })
    }

    /// Whether a form or a chart needs the report.
    pub(crate) fn reports(&self) -> bool {
        self.charts.is_some() || !matches!(self.answering.form(), Form::Json)
    }

    /// Renders, draws charts into a folder if one is named, and writes. The report is made only if a
    /// form or a chart needs it.
    pub(crate) fn write<F: FnOnce() -> Report>(
        &self,
        quiet: bool,
        report: F,
        json: impl FnOnce() -> Result<String>,
    ) -> Result<()> {
        let section = &self.answering.section;
        let mut report = LazyCell::new(report);
        // Which sections there are is known before the others are left out.
        let single = match self.answering.form() {
            Form::Csv => sections_of_one_table(&report),
            _ => Vec::new(),
        };
        if !section.is_empty() {
            LazyCell::force_mut(&mut report).keep(section).map_err(|error| Usage(error.to_string()))?;
        }
        let text = match self.answering.form() {
            Form::Json => json()?,
            Form::Csv => {
                draw(&report, self.charts, quiet)?;
                return self.write_csv(&report, &single, quiet);
            }
            Form::Table => {
                let options = output::width(self.out.as_deref());
                if self.answering.details || !section.is_empty() {
                    report::text::render(&report, options)
                } else {
                    report::text::short(&report, options) + &report::text::more(&report, options)
                }
            }
            Form::Markdown => report::markdown::render(&report),
            Form::Html => report::html::render(&report).context("draw the report")?,
        };
        draw(&report, self.charts, quiet)?;
        output::text(&text, self.out.as_deref())
    }

    /// Writes all tables into the folder that was named, or the one table of the answer to where that goes. `single` are the sections with one table, before any was left out.
    fn write_csv(&self, report: &Report, single: &[String], quiet: bool) -> Result<()> {
        let tables = report::csv::tables(report).context("write the tables as CSV")?;
        if let Some(folder) = self.answering.out.as_deref().filter(|out| early::is_folder(out)) {
            let name = |table: &CsvTable| format!("{}-{}.csv", self.command, table.name);
            let files: Vec<(String, String)> = tables.into_iter().map(|table| (name(&table), table.text)).collect();
            files.iter().try_for_each(|(name, _)| self.answering.replacing.file(&folder.join(name)))?;
            return output::emitted(folder, &files, quiet);
        }
        match tables.as_slice() {
            [one] => output::text(&one.text, self.out.as_deref()),
            tables => {
                let names: Vec<&str> = tables.iter().map(|table| table.name.as_str()).collect();
                let arguments = &self.answering.section;
                let of = if arguments.is_empty() {
                    "the answer".to_owned()
                } else {
                    format!("--section {}", arguments.join(","))
                };
                // What was asked for has none of its own, or it would have been written.
                let one = single.first().map(|first| {
                    format!(
                        "for one table, choose one of these sections, such as --section {first}: {}",
                        single.join(", ")
                    )
                });
                let all = (!names.is_empty()).then(|| "for all of them, name a folder: --out FOLDER/".to_owned());
                let text = names.is_empty().then(|| "for its text, leave --format csv out".to_owned());
                let ways: Vec<String> = [all, text, one].into_iter().flatten().collect();
                let result = match names.as_slice() {
                    [] => format!("CSV holds one table, and of {of} there is none"),
                    several => {
                        format!("CSV holds one table, and of {of} there are {}: {}", several.len(), several.join(", "))
                    }
                };
                Err(Usage(format!("{result}; {}", ways.join("; "))).into())
            }
        }
    }
}

/// Sections of a report with one table.
fn sections_of_one_table(report: &Report) -> Vec<String> {
    let tables = |section: &&Section| section.blocks.iter().filter(|block| matches!(block, Block::Table(_))).count();
    report.available().into_iter().filter(|section| tables(section) == 1).map(|section| section.id.clone()).collect()
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
