//! `tracecast describe`.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use tracecast_analytics::Trace;
use tracecast_analytics::describe::{Description, tables};
use tracecast_analytics::ingest::{MAPPING_FILE, METRICS_FILE};

use crate::args::{Between, Input, TIMES};
use crate::cmd::answer::{self, Charting};
use crate::progress::Clock;
use crate::{output, source};

#[derive(Debug, Args)]
#[command(after_help = format!("\
Example, the bundled sample as one HTML file:
  tracecast describe datasets/sample --format html --out sample.html

{TIMES}"))]
pub(crate) struct Describe {
    #[command(flatten)]
    pub(crate) input: Input,
    #[command(flatten)]
    pub(crate) between: Between,
    #[command(flatten)]
    pub(crate) charting: Charting,
    /// Write every table of the answer into this folder, as Parquet
    ///
    /// A further table has the columns that were derived for each job.
    #[arg(long, value_name = "FOLDER", help_heading = "Answer")]
    pub(crate) tables: Option<PathBuf>,
}

pub(crate) fn run(request: &Describe, quiet: bool) -> Result<()> {
    let checked = request.charting.check("describe", &[])?;
    request.charting.answering.replacing.folders([&request.tables])?;
    let trace = source::open_between(&request.input.sources, &request.input.reading, &request.between, None, quiet)?;
    let clock = Clock::new(quiet, "describing");
    let description = Description::new(&trace);
    drop(clock);
    let title = title(&trace, &request.input.sources);
    if let Some(folder) = &request.tables {
        let count = tables::save(&trace, &description, folder)?;
        output::say(quiet, &format!("{count} tables written to {}", folder.display()));
    }
    checked.write(quiet, || description.report(&title), || json(&description))
}

/// The description as JSON, ending in a line end.
pub(crate) fn json(description: &Description) -> Result<String> {
    answer::json(description, "the description")
}

/// Title of the report: the name of the folder asked for, else those of the files.
pub(crate) fn title(trace: &Trace, sources: &[PathBuf]) -> String {
    if let [folder] = sources
        && folder.is_dir()
        && let Some(name) = folder.canonicalize().ok().as_deref().and_then(Path::file_name)
    {
        return name.to_string_lossy().into_owned();
    }
    let names: Vec<String> = trace
        .sources
        .iter()
        .filter(|source| ![MAPPING_FILE, METRICS_FILE].contains(&source.reader.as_str()))
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
