//! Acme (Shanghai AI Laboratory, clusters Seren and Kalos, March to August 2023): job traces and wide telemetry.
//!
//! Source: the `InternLM/AcmeTrace` repository. A file is a job trace if it has `job_id` and `gpu_time`, and telemetry
//! if its header is `Time` and server addresses; which metric it holds only its name says (`GPU_UTIL.csv`), so a file
//! of another name is left alone.

mod jobs;
mod telemetry;

use super::options::ReadOptions;
use super::reader::{Confidence, Reader};
use super::source::{Head, SourceFile, TableHeaders};
use crate::error::{Error, Result};
use crate::time::TimeBasis;
use crate::trace::Trace;

/// The clusters' zone.
const ZONE: &str = "Asia/Shanghai";

/// Reads job traces and telemetry.
pub(super) struct Acme;

impl Reader for Acme {
    fn id(&self) -> &'static str {
        "acme"
    }

    fn describes(&self) -> &'static str {
        "Acme 2023: trace_seren.csv, trace_kalos.csv and telemetry (GPU_UTIL.csv, POWER_USAGE.csv …)"
    }

    fn columns(&self) -> TableHeaders {
        &[(',', jobs::JOBS)]
    }

    fn sniff(&self, head: &Head) -> Confidence {
        if jobs::is_jobs(head) || telemetry::Metric::new(head).is_some() { Confidence::Sure } else { Confidence::No }
    }

    fn read(&self, files: &[SourceFile], options: &ReadOptions<'_>, trace: &mut Trace) -> Result<()> {
        trace.basis = TimeBasis::Utc;
        options.zone_or(ZONE)?.name().clone_into(&mut trace.zone);
        let mut log = jobs::JobLog::default();
        for file in files {
            let head = file.head()?;
            if jobs::is_jobs(&head) {
                log.read(file, options, trace)?;
            } else if let Some(metric) = telemetry::Metric::new(&head) {
                telemetry::read(metric, file, options, trace)?;
            } else {
                return Err(Error::format(
                    file.name(),
                    "neither an Acme job trace nor telemetry whose metric the file name tells",
                    "keep the published file names (trace_seren.csv, GPU_UTIL.csv …)",
                ));
            }
        }
        log.note(trace);
        Ok(())
    }
}
