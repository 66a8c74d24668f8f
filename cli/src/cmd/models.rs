//! `tracecast model list`, and the files of a folder of models.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::Args;
use tracecast_analytics::report::{self, Cell, Column, ReportTable, format};
use tracecast_analytics::time::format_utc;
use tracecast_predictors::model_file::{Heading, heading};

use crate::exit::Usage;
use crate::output;

pub(crate) const DURATION: &str = "duration.model";
/// Predictions of jobs of the record that were made without knowing what came later.
pub(crate) const PAST_RUNS: &str = "duration.csv";
pub(crate) const DEMAND: &str = "demand.model";
pub(crate) const UTILISATION: &str = "utilisation.csv";
pub(crate) const INTERFERENCE: &str = "interference.model";
pub(crate) const SPOT: &str = "spot.model";
/// All files that a folder of models may hold.
pub(crate) const FILES: [&str; 6] = [DURATION, PAST_RUNS, DEMAND, UTILISATION, INTERFERENCE, SPOT];

/// The model file that a path names: itself, or the file of this name in a folder of models.
pub(crate) fn model_file(path: &Path, name: &str) -> PathBuf {
    if path.is_dir() { path.join(name) } else { path.to_path_buf() }
}

#[derive(Debug, Args)]
#[command(after_help = "\
Example, the models in a folder:
  tracecast model train duration datasets/sample --trees 20 --out models/sample.model
  tracecast model list models")]
pub(crate) struct ListModels {
    /// Model files, or folders whose files are looked at
    #[arg(required = true, value_name = "FILE|FOLDER")]
    pub(crate) paths: Vec<PathBuf>,
}

/// Row of the list for a model file.
fn row(path: &Path, heading: &Heading) -> Result<Vec<Cell>> {
    let bytes = path.metadata().with_context(|| format!("read {}", path.display()))?.len();
    let kind = heading.format.trim_start_matches("tracecast-").trim_end_matches("-model");
    let trained = heading.trained.as_ref().and_then(|trained| {
        let number = |key: &str| trained.get(key)?.as_i64();
        let jobs = format::counted(u64::try_from(number("jobs")?).ok()?, "job", "jobs");
        Some(format!("{jobs} until {}", format_utc(number("to_ms")?)))
    });
    Ok(vec![
        path.display().to_string().into(),
        if kind == "sharing" { "interference" } else { kind }.into(),
        Cell::Int(heading.version.into()),
        heading.tracecast.as_str().into(),
        format::bytes(bytes).into(),
        Cell::opt(trained, Cell::from),
    ])
}

pub(crate) fn run(request: &ListModels) -> Result<()> {
    let number = ["Format", "Written by", "Size"].map(Column::number);
    let text = ["File", "Predicts"].map(Column::text);
    let columns = text.into_iter().chain(number).chain([Column::text("Trained on")]).collect();
    let mut table = ReportTable::new("Models", columns);
    for path in &request.paths {
        if !path.is_dir() {
            table.rows.push(row(path, &heading(path)?)?);
            continue;
        }
        let entries = std::fs::read_dir(path).with_context(|| format!("read {}", path.display()))?;
        let mut files = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
        files.sort();
        // A folder may hold other files, which are not listed.
        let models = files.iter().filter(|file| file.is_file()).filter_map(|file| Some((file, heading(file).ok()?)));
        for (file, heading) in models {
            table.rows.push(row(file, &heading)?);
        }
    }
    if table.rows.is_empty() {
        let what = "no file there is a model; `tracecast model train` writes one";
        return Err(Usage(what.to_owned()).into());
    }
    output::text(&report::text::table(&table, output::terminal()), None)
}
