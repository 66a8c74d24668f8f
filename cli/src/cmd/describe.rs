//! `tracecast describe`.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use tracecast_analytics::Trace;
use tracecast_analytics::describe::{Description, tables};
use tracecast_analytics::ingest::MAPPING_FILE;
use tracecast_analytics::report::{self, Block};

use crate::args::{Describe, Form};
use crate::{output, source};

pub(crate) fn run(request: &Describe, quiet: bool) -> Result<()> {
    let trace = source::open(&request.sources, &request.reading, None, quiet)?;
    let description = Description::of(&trace);
    let title = title(&trace, &request.sources);
    let text = match request.format {
        Form::Json => json(&description)?,
        Form::Table => {
            let options = if request.out.is_some() { report::text::TextOptions::default() } else { output::terminal() };
            report::text::render(&description.report(&title), options)
        }
        Form::Markdown => report::markdown::render(&description.report(&title)),
        Form::Html => report::html::render(&description.report(&title)).context("draw the report")?,
    };
    if let Some(folder) = &request.charts {
        let count = charts(&description.report(&title), folder)?;
        output::say(quiet, &format!("{count} charts in {}", folder.display()));
    }
    if let Some(folder) = &request.tables {
        let count = tables::save(&trace, &description, folder)?;
        output::say(quiet, &format!("{count} tables in {}", folder.display()));
    }
    output::text(&text, request.out.as_deref())
}

/// The description as JSON, ending in a line end.
pub(crate) fn json(description: &Description) -> Result<String> {
    let mut text = serde_json::to_string_pretty(description).context("write the description as JSON")?;
    text.push('\n');
    Ok(text)
}

/// What to call the report: the folder that was asked for by its name, else the files by theirs.
pub(crate) fn title(trace: &Trace, asked: &[PathBuf]) -> String {
    if let [folder] = asked
        && folder.is_dir()
        && let Some(name) = folder.canonicalize().ok().as_deref().and_then(Path::file_name)
    {
        return name.to_string_lossy().into_owned();
    }
    let names: Vec<String> = trace
        .sources
        .iter()
        .filter(|source| source.reader != MAPPING_FILE)
        .map(|source| {
            Path::new(&source.name)
                .file_name()
                .map_or_else(|| source.name.clone(), |n| n.to_string_lossy().into_owned())
        })
        .collect();
    match names.as_slice() {
        [] => "Trace".to_owned(),
        [one] => one.clone(),
        [one, two] => format!("{one} and {two}"),
        [one, rest @ ..] => format!("{one} and {} more files", rest.len()),
    }
}

/// Writes each chart of the report as SVG and PNG; how many there are.
pub(crate) fn charts(report: &report::Report, folder: &Path) -> Result<usize> {
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
    Ok(count)
}
