//! From what was typed to a trace: a trace folder is loaded, anything else is read on the fly.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use tracecast_analytics::ingest::{self, ReadOptions};
use tracecast_analytics::time::Zone;
use tracecast_analytics::{Trace, storage};

use crate::args::Reading;
use crate::progress::Bar;

/// Loads or reads `sources`.
pub(crate) fn open(sources: &[PathBuf], reading: &Reading, keep_quarantined: bool, quiet: bool) -> Result<Trace> {
    let zone = reading.timezone.as_deref().map(Zone::named).transpose()?;
    if let [folder] = sources
        && storage::is_folder(folder)
    {
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
        keep_quarantined,
        strict: reading.strict,
        observer: &bar,
    };
    let trace = ingest::read(&ingest::expand(sources)?, &options);
    bar.finish();
    Ok(trace?)
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
