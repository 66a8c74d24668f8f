//! `tracecast report`: the catalogue, what one pool would do, where the energy went and which nodes can sleep in one HTML
//! file; the catalogue and the pool as JSON.

use anyhow::{Context as _, Result};
use tracecast_analytics::describe::pool::Poolable;
use tracecast_analytics::describe::{Description, Topic as _};
use tracecast_analytics::report;
use tracecast_planner::pooling::{self, Pooling, ReportData};

use crate::args::Report;
use crate::cmd::{answer, audit, describe, plan};
use crate::{early, output, source};

pub(crate) fn run(request: &Report, quiet: bool) -> Result<()> {
    early::folder(&request.out)?;
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
    let pooling = pooling::compare(&trace);
    add_pooling(&mut document, &pooling);
    let (headline, sections) = audit::sections(&trace)?;
    let (sleep, plan, assumed) = plan::sections(&trace);
    document.summary.extend(headline.into_iter().chain(sleep));
    document.sections.extend(sections.into_iter().chain(plan));
    for note in assumed {
        // The quality section has these.
        if !document.notes.contains(&note) && !trace.warnings().contains(&note) {
            document.notes.push(note);
        }
    }
    let html = report::html::render(&document).context("draw the report")?;
    let (page, data) = (request.out.join("report.html"), request.out.join("report.json"));
    let (pooling, pooling_missing) = match pooling {
        Ok(pooling) => (Some(pooling), None),
        Err(reason) => (None, Some(reason)),
    };
    let values = ReportData { description: &description, pooling, pooling_missing };
    let json = answer::json(&values, "the report's data")?;
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

/// Puts the replay on one pool beside the shares of waiting that met idle GPUs, and its sentence before theirs.
fn add_pooling(document: &mut report::Report, pooling: &Result<Pooling, String>) {
    let (mut section, sentence) = match pooling {
        Ok(found) => (found.section(), Some(found.sentence())),
        Err(reason) => (Pooling::unavailable(reason), None),
    };
    let shares = document.sections.iter().find(|own| own.id == Poolable::ID);
    if let Some(shares) = shares.filter(|own| own.unavailable.is_none()) {
        // Sections are ordered by the GPU-hours they concern: these two stand together.
        section.gpu_hours = shares.gpu_hours;
    }
    if let Some(sentence) = sentence {
        // The replay says more than the shares at single moments, so it leads.
        let first = shares.and_then(|own| own.finding.split(". ").next().map(str::to_owned));
        let first = first.filter(|first| !first.is_empty());
        let beside = first.and_then(|first| document.summary.iter().position(|line| line.starts_with(&first)));
        document.summary.insert(beside.unwrap_or(document.summary.len()), sentence);
    }
    let place = document.sections.iter().position(|own| own.id == Poolable::ID).map_or(0, |at| at + 1);
    document.sections.insert(place.min(document.sections.len()), section);
}
