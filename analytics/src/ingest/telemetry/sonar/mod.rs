//! Sonar: samples of nodes, GPUs and processes, and Slurm's jobs, as NordicHPC's monitor writes them a day a file.
//!
//! Two forms. *Free CSV* (the old one) names every value: `v=0.14.0,time=…,host=…,job=…,cmd=…`, in any order, values that are
//! 0 left out. In *JSON* (the new one) a line or document is an envelope of `meta` and `data`, or of `errors`; versions before
//! it printed one object a sample. Source: `doc/OLD-FORMAT.md` and `doc/NEW-FORMAT.md` of NordicHPC/sonar.
//!
//! * A sample gives a row for each GPU: `cutil%` or `ce_util` (percent), `mutil%` or `memory_util`, `musekib` or `memory`
//!   (KiB), `poww` or `power` (W), `tempc` or `temperature`. A GPU is called by its index on the node.
//!   Sonar leaves out what is 0 and what a GPU does not measure: a utilisation left out is 0, other values are unknown.
//! * A process names the GPUs that it uses, and its job. A job with an epoch is none of the batch system's: it is called
//!   `host/job`, as such numbers begin again on every node.
//! * `sonar slurm` hands on what `sacct` says (`JobID=…`; `slurm_jobs` in JSON), with offsets at times.
//! * `sysinfo` tells what a node has. `cluster` is passed over.
//!
//! Worked number: `cutil%=78|58,poww=209|214`: GPU 0 at 0.78 and 209 W, GPU 1 at 0.58 and 214 W. O(bytes + n log n).

mod csv;
mod json;

use super::super::field;
use super::super::options::ReadOptions;
use super::super::reader::{Confidence, Reader};
use super::super::slurm::Records;
use super::super::source::{Head, SourceFile};
use super::gather::{Device, Gather, Way, When};
use super::metric::{GpuField, gpu_in_range};
use crate::error::Result;
use crate::quality::{Reason, RowAudit};
use crate::time::TimeBasis;
use crate::trace::Trace;

/// A record that says why there is none.
const FAILED: Reason = Reason {
    id: "failed_probe",
    what: "Sonar could not look and wrote an error in place of a sample",
    remedy: "see what the record says, on the node it names",
};

/// Most GPUs that a node has.
const MOST_GPUS: u64 = 4_096;

/// See the module.
pub(crate) struct Sonar;

impl Reader for Sonar {
    fn id(&self) -> &'static str {
        "sonar"
    }

    fn describes(&self) -> &'static str {
        "Sonar samples of nodes, GPUs and processes, and its Slurm jobs (CSV and JSON)"
    }

    fn sniff(&self, head: &Head) -> Confidence {
        if csv::is_csv(head) || json::is_json(head) { Confidence::Sure } else { Confidence::No }
    }

    fn read(&self, files: &[SourceFile], options: &ReadOptions<'_>, trace: &mut Trace) -> Result<()> {
        let mut samples = Samples { gather: Gather::default(), jobs: Records::new(options), others: 0 };
        for file in files {
            samples.jobs.begin(file.name());
            if file.head()?.text.trim_start().starts_with(['{', '[']) {
                json::read(file, options, &mut samples, trace)?;
            } else {
                csv::read(file, options, &mut samples, trace)?;
            }
        }
        trace.basis = TimeBasis::Utc;
        options.zone_or("UTC")?.name().clone_into(&mut trace.zone);
        samples.jobs.finish(trace);
        samples.gather.finish(trace);
        if samples.others > 0 {
            trace
                .note(format!("{} records of partitions, nodes' disks and the like were passed over.", samples.others));
        }
        Ok(())
    }
}

/// Samples read so far.
struct Samples {
    gather: Gather,
    jobs: Records,
    /// Records that hold nothing a table has.
    others: u64,
}

/// One value of a GPU as Sonar writes it.
struct Reading<'a> {
    field: GpuField,
    name: &'a str,
    value: Option<f64>,
}

impl Samples {
    /// Adds readings of a GPU of a node.
    fn gpu(&mut self, node: &str, index: u64, ts: i64, readings: &[Reading<'_>], row: &mut RowAudit<'_>) {
        let device = self.gather.device(Device { node: Some(node.to_owned()), name: index.to_string() });
        for Reading { field, name, value } in readings {
            let text = value.map(|value| value.to_string()).unwrap_or_default();
            let scaled = value.map(|value| match field {
                GpuField::Util | GpuField::MemUtil => value / 100.0,
                GpuField::MemUsed => value * 1_024.0,
                _ => value,
            });
            let value = scaled.and_then(|value| gpu_in_range(*field, value, name, &text, false, row));
            self.gather.gpu((When::at(ts), device), *field, Way::ONLY, value, None);
        }
    }

    /// Notes that a job used a GPU at a moment.
    fn used_by(&mut self, node: &str, index: u64, ts: i64, job: &str) {
        let device = self.gather.device(Device { node: Some(node.to_owned()), name: index.to_string() });
        let job = self.gather.job_id(job);
        self.gather.gpu_job((When::at(ts), device), job);
    }
}

/// The key of a job: its number in the batch system, or, of another, its number on the node.
fn job_key(node: &str, job: &str, epoch: Option<&str>) -> Option<String> {
    let number = job.parse::<u64>().ok().filter(|number| *number > 0)?;
    let is_batch = epoch.and_then(|epoch| field::text(Some(epoch))).is_none_or(|epoch| epoch == "0");
    Some(if is_batch { number.to_string() } else { format!("{node}/{number}") })
}
