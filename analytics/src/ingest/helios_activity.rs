//! Helios, minute by minute: jobs and GPUs running, pending and idle in one VC (or a whole cluster).
//!
//! The files name neither VC nor cluster: it is the file's own name (`vc3sl.csv`) or, for `cluster_sequence*.csv`, its
//! folder's. Times are local (China) without a zone. `gpu_utilization` is the share of the VC's GPUs that are given to
//! jobs, 0 to 1: an allocation, not a measurement of the GPUs.
//!
//! The published analysis counts a job in both its first and its last minute and cuts running GPUs at capacity, so the
//! ratio leans high. Worked number: 59 of 64 GPUs given out are 0.922. O(rows).

use std::path::Path;

use super::delimited::Delimited;
use super::field::Moment;
use super::options::ReadOptions;
use super::reader::Reader;
use super::source::{SourceFile, TableHeaders};
use crate::error::Result;
use crate::quality::reason;
use crate::schema::ActivityRow;
use crate::time::TimeBasis;
use crate::trace::Trace;

/// Reads minute series.
pub(super) struct HeliosActivity;

impl Reader for HeliosActivity {
    fn id(&self) -> &'static str {
        "helios-activity"
    }

    fn describes(&self) -> &'static str {
        "Helios 2020: jobs and GPUs of a VC by the minute (cluster_sequence CSV)"
    }

    fn columns(&self) -> TableHeaders {
        &[(',', &["time", "running_job_num", "pending_job_num", "total_gpu_num", "running_gpu_num", "gpu_utilization"])]
    }

    fn read(&self, files: &[SourceFile], options: &ReadOptions<'_>, trace: &mut Trace) -> Result<()> {
        let zone = options.zone_or(super::helios::ZONE)?;
        trace.basis = TimeBasis::Local;
        zone.name().clone_into(&mut trace.zone);
        trace.note(
            "helios-activity: the reported utilisation is the share of GPUs given to jobs, not how busy they were; its \
             makers count a job in both its first and last minute, so it leans high",
        );
        for file in files {
            let name = series_name(file.path());
            let scope = if name.to_ascii_lowercase().starts_with("vc") { "vc" } else { "cluster" };
            let mut table = Delimited::open(file, b',', options.observer)?;
            let time_at = Some(table.require("time")?);
            let util_at = Some(table.require("gpu_utilization")?);
            let running_at = Some(table.require("running_gpu_num")?);
            let total_at = Some(table.require("total_gpu_num")?);
            let [jobs_at, waiting_at, pending_at, idle_at] =
                ["running_job_num", "pending_job_num", "pending_gpu_num", "idle_gpu_num"]
                    .map(|name| table.column(name));
            while let Some(mut row) = table.next_row(&mut trace.ledger) {
                let Some(ts) = row.moment(time_at, Moment::Local(&zone), "time") else {
                    trace.ledger.quarantine(&row.audit, reason::NOT_A_TIME, "time", row.raw());
                    continue;
                };
                let mut ratio = row.amount(util_at, "gpu_utilization");
                if ratio.is_some_and(|ratio| ratio > 1.0) {
                    row.audit.repair(reason::OUT_OF_RANGE, "gpu_utilization", row.field(util_at).unwrap_or_default());
                    ratio = None;
                }
                trace.activity.push(ActivityRow {
                    scope: Some(scope.into()),
                    name: Some(name.as_str().into()),
                    ts: Some(ts),
                    jobs_running: row.amount(jobs_at, "running_job_num"),
                    jobs_pending: row.amount(waiting_at, "pending_job_num"),
                    gpus_total: row.amount(total_at, "total_gpu_num"),
                    gpus_running: row.amount(running_at, "running_gpu_num"),
                    gpus_pending: row.amount(pending_at, "pending_gpu_num"),
                    gpus_idle: row.amount(idle_at, "idle_gpu_num"),
                    reported_util_ratio: ratio,
                    ..ActivityRow::default()
                });
                trace.ledger.keep(row.audit);
            }
            table.finish(&mut trace.ledger);
        }
        Ok(())
    }
}

/// Name of a series: its file's name up to the first dot, case kept, or its folder's if the name is
/// the same for all.
fn series_name(path: &Path) -> String {
    let file_name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let stem = file_name.split('.').next().unwrap_or_default().to_owned();
    if !stem.to_ascii_lowercase().starts_with("cluster_sequence") {
        return stem;
    }
    path.parent().and_then(Path::file_name).map_or(stem, |folder| folder.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_the_files_or_its_folders() {
        assert_eq!(series_name(Path::new("a/vc3sl.csv.gz")), "vc3sl");
        assert_eq!(series_name(Path::new("Earth_vcs/vc6YE/cluster_sequence_vc.csv")), "vc6YE");
        assert_eq!(series_name(Path::new("cluster_sequence.csv")), "cluster_sequence");
    }
}
