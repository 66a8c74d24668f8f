//! `tracecast report`: what to change, what was found and where the energy went in one HTML file; the same as JSON.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::Args;
use tracecast_analytics::{report, storage};
use tracecast_planner::advice::{self, ReportRequest};

use crate::args::{Between, Reading, TIMES};
use crate::cmd::{answer, as_run, describe};
use crate::early::Replacing;
use crate::exit::Usage;
use crate::progress::Steps;
use crate::{output, source};

#[derive(Debug, Args)]
#[command(after_help = format!("\
Example, the bundled sample:
  tracecast report datasets/sample --out sample-report

{TIMES}"))]
pub(crate) struct Report {
    /// Trace to read: files, folders or patterns, or a trace folder [default: the bundled synthetic sample]
    #[arg(value_name = "SOURCE")]
    pub(crate) sources: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: Reading,
    #[command(flatten)]
    pub(crate) between: Between,
    /// Folder into which report.html and report.json are written [default: tracecast-report, where the last report is replaced]
    #[arg(long, short, value_name = "FOLDER")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) replacing: Replacing,
    /// Title of the report [default: the name of the source]
    #[arg(long)]
    pub(crate) title: Option<String>,
    /// Leave out the replays and plans, which take most of the time
    ///
    /// The report then recommends no other order, no pooling and no sleeping nodes, and says so.
    #[arg(long)]
    pub(crate) quick: bool,
}

pub(crate) fn run(request: &Report, quiet: bool) -> Result<()> {
    if let Some(out) =
        request.out.as_deref().filter(|out| out.extension().is_some_and(|of| of == "html" || of == "json"))
    {
        let what = format!("--out {}: name a folder; report.html and report.json are written into it", out.display());
        return Err(Usage(what).into());
    }
    // The usual place is the command's own.
    let replacing = Replacing { force: request.replacing.force || request.out.is_none() };
    let folder = request.out.as_deref().unwrap_or(Path::new("tracecast-report"));
    let (page, file) = (folder.join("report.html"), folder.join("report.json"));
    replacing.file(&page)?;
    replacing.file(&file)?;
    let bundled = request.sources.is_empty();
    let sources = if bundled { vec![source::sample()?] } else { request.sources.clone() };
    let trace = source::open_between(&sources, &request.reading, &request.between, None, quiet)?;
    let title = match &request.title {
        Some(title) => title.clone(),
        None if bundled => "The bundled synthetic sample".to_owned(),
        None => describe::title(&trace, &sources),
    };
    let arguments = ReportRequest { title, trace: named(&request.sources, &request.reading), quick: request.quick };
    let steps = Steps::watching(quiet, "describing, replaying and planning");
    let (document, data) = advice::report(&trace, &arguments, &steps)?;
    drop(steps);
    let html = report::html::render(&document).context("draw the report")?;
    let json = answer::json(&data, "the report's data")?;
    output::write_all(&[(&page, html.as_bytes()), (&file, json.as_bytes())])?;
    let mut text = report::text::short(&document, output::terminal());
    text.push_str(&format!("\nThe whole report: {}\nThe same as data:  {}\n", page.display(), file.display()));
    output::text(&text, None)
}

/// The sources as they stand on a command line, with the options by which they were read; the sample as it lies in a checkout.
fn named(sources: &[PathBuf], reading: &Reading) -> String {
    let named: Vec<String> = match sources {
        [] if storage::is_folder(Path::new(source::SAMPLE)) => vec![source::SAMPLE.to_owned()],
        [] => vec!["TRACE".to_owned()],
        sources => sources.iter().map(|path| path.display().to_string()).collect(),
    };
    let words = named.into_iter().chain(reading.as_typed());
    words.map(|word| as_run::quoted(&word)).collect::<Vec<_>>().join(" ")
}
