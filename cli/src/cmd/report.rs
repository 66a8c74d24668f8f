//! `tracecast report`: the catalogue, where the energy went and which nodes can sleep in one HTML file, and the catalogue's JSON.

use anyhow::{Context as _, Result};
use tracecast_analytics::describe::Description;
use tracecast_analytics::report;

use crate::args::Report;
use crate::cmd::{audit, describe, plan};
use crate::{output, source};

pub(crate) fn run(request: &Report, quiet: bool) -> Result<()> {
    let bundled = request.sources.is_empty();
    let sources = if bundled { vec![source::sample()?] } else { request.sources.clone() };
    let trace = source::open(&sources, &request.reading, None, quiet)?;
    let description = Description::of(&trace);
    let title = match &request.title {
        Some(title) => title.clone(),
        None if bundled => "The bundled synthetic sample".to_owned(),
        None => describe::title(&trace, &sources),
    };
    let mut document = description.report(&title);
    for (headline, sections) in [audit::sections(&trace)?, plan::sections(&trace)] {
        document.summary.extend(headline);
        document.sections.extend(sections);
    }
    let html = report::html::render(&document).context("draw the report")?;
    let (page, data) = (request.out.join("report.html"), request.out.join("report.json"));
    let json = describe::json(&description)?;
    output::write_all(&[(&page, html.as_bytes()), (&data, json.as_bytes())])?;
    // The summary is what most readers want; the rest is in the page.
    let mut short = document;
    short.sections.clear();
    short.quality = None;
    short.provenance.clear();
    let mut text = report::text::render(&short, output::terminal());
    text.push_str(&format!("\nThe whole report: {}\nThe same as data:  {}\n", page.display(), data.display()));
    output::text(&text, None)
}
