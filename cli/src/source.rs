//! From what was typed to a trace: a trace folder is loaded, anything else is read on the fly.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use tracecast_analytics::ingest::{self, ReadOptions};
use tracecast_analytics::{Trace, storage};
use tracecast_planner::sim::input::Site;

use crate::args::Reading;
use crate::output;
use crate::progress::Bar;

/// Loads or reads `sources`. Quarantined rows go to the file `quarantine`, also where `--strict` then makes them an
/// error.
pub(crate) fn open(sources: &[PathBuf], reading: &Reading, quarantine: Option<&Path>, quiet: bool) -> Result<Trace> {
    let zone = reading.timezone.clone();
    if sources.len() > 1
        && let Some(folder) = sources.iter().find(|source| storage::is_folder(source))
    {
        bail!("{} is a trace folder, and others are named beside it; one trace folder at a time", folder.display());
    }
    if let [folder] = sources
        && storage::is_folder(folder)
    {
        if quarantine.is_some() {
            bail!("a trace folder does not hold the quarantined rows themselves; name the source it was made from");
        }
        let mut trace = storage::load(folder)?;
        if let Some(zone) = zone {
            zone.name().clone_into(&mut trace.zone);
        }
        if reading.strict {
            ingest::check_strict(&trace)?;
        }
        return Ok(trace);
    }
    let bar = Bar::new(quiet);
    let options = ReadOptions {
        reader: reading.reader.clone(),
        zone,
        mapping: reading.mapping.clone(),
        keep_quarantined: quarantine.is_some(),
        // Below, once what is wrong has been written out.
        strict: reading.strict && quarantine.is_none(),
        most_expansion: reading.max_expansion,
        observer: &bar,
    };
    let trace = ingest::read(&ingest::expand(sources)?, &options);
    bar.finish();
    let trace = trace?;
    if let Some(path) = quarantine {
        write_quarantined(&trace, path)?;
    }
    if reading.strict {
        ingest::check_strict(&trace)?;
    }
    for note in trace.notes.iter().filter(|note| note.starts_with(ingest::NO_ROWS)) {
        output::say(quiet, &format!("tracecast: {note}"));
    }
    Ok(trace)
}

/// The text of a file the user named.
pub(crate) fn text(path: &Path) -> Result<String> {
    Ok(storage::read_text(path)?)
}

/// The cluster as its operator wrote it down in a file.
pub(crate) fn site(path: &Path) -> Result<Site> {
    Ok(Site::parse(&path.display().to_string(), &text(path)?)?)
}

/// Writes the quarantined rows, one JSON object a line.
fn write_quarantined(trace: &Trace, path: &Path) -> Result<()> {
    let mut lines = Vec::new();
    for row in trace.ledger.rows() {
        serde_json::to_writer(&mut lines, row).context("write a quarantined row as JSON")?;
        lines.push(b'\n');
    }
    output::write(path, &lines)
}

/// The bundled sample: `datasets/sample` in the current folder or one above it, else where the program was built.
pub(crate) fn sample() -> Result<PathBuf> {
    let current = std::env::current_dir().context("find the current folder")?;
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for folder in current.ancestors().map(Path::to_path_buf).chain([built]) {
        let sample = folder.join("datasets").join("sample");
        if storage::is_folder(&sample) {
            return Ok(sample);
        }
    }
    bail!("the bundled sample datasets/sample is not here; run from a checkout, or name a source")
}
