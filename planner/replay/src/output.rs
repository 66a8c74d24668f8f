//! A schedule as CSV, one row a job, in order of submission.
//!
//! `job_id,vc,gpus,submit_s,start_s,end_s,wait_s,preemptions,nodes`, times in seconds from the first submission, without decimals where they
//! are whole. `wait_s` is from submission to end less the run, as [`times`](super::metric::times) has it. `nodes` is where it ran last: `node:GPUs`
//! joined by `+`, nodes counted from 0 in the VC's pool (`0:8+3:4`; `2:0.5` for a part). Of a job that could not run, times and nodes
//! are empty. Jobs that ran when the replay began are left out.
//!
//! Texts are such that no spreadsheet takes them for formulas ([`csv_text`]).
//!
//! Worked number: a job of 50 s, submitted at 30 s, ran 50–80 s and 100–120 s: start 50, end 120, wait 120 − 30 − 50 = 40.

use std::io::Write;

use tracecast_analytics::report::markup::csv_text;

use super::metric::JobTimes;
use tracecast_sim::cluster::Cluster;
use tracecast_sim::schedule::{Outcome, Schedule};
use tracecast_sim::workload::Workload;

/// Header of the CSV.
pub const HEADER: [&str; 9] =
    ["job_id", "vc", "gpus", "submit_s", "start_s", "end_s", "wait_s", "preemptions", "nodes"];

/// Writes `schedule`, with the waits of `times`; `keys` are the identifiers of the jobs. O(jobs).
///
/// # Errors
/// If `out` cannot be written to.
pub fn write_csv(
    out: impl Write,
    workload: &Workload,
    cluster: &Cluster,
    (schedule, times): (&Schedule, &JobTimes),
    keys: &[String],
) -> csv::Result<()> {
    let mut out = csv::Writer::from_writer(out);
    out.write_record(HEADER)?;
    let uncounted = workload.uncounted();
    let firsts = cluster.first_nodes();
    let first_submit = workload.submit_ms.first().copied().unwrap_or(0);
    let mut nodes = String::new();
    for job in 0..workload.len() {
        if uncounted.contains(&(job as u32)) {
            continue;
        }
        let shape = workload.shapes[usize::from(workload.shape[job])];
        let vc = &cluster.vcs[usize::from(workload.vc[job])];
        nodes.clear();
        let finished = schedule.outcome[job] == Outcome::Finished;
        if let Some(segment) = schedule.last_segment(job).filter(|_| finished) {
            for piece in schedule.pieces_of(segment) {
                if !nodes.is_empty() {
                    nodes.push('+');
                }
                let node = piece.node - firsts.get(usize::from(vc.pool)).copied().unwrap_or(0);
                nodes.push_str(&format!("{node}:{}", piece.amount() as f64 / 1000.0));
            }
        }
        out.write_record([
            &csv_text(keys.get(job).map_or("", String::as_str)),
            &csv_text(&vc.name),
            &shape.as_gpus().to_string(),
            &seconds(workload.submit_ms[job] - first_submit),
            &schedule.start_ms(job).map_or_else(String::new, |start| seconds(start - first_submit)),
            &schedule.end_ms(job).map_or_else(String::new, |end| seconds(end - first_submit)),
            &times.wait_ms(job).map_or_else(String::new, seconds),
            &schedule.preemptions[job].to_string(),
            &nodes,
        ])?;
    }
    out.flush()?;
    Ok(())
}

/// Milliseconds as seconds, with as many decimals as there are.
pub fn seconds(ms: i64) -> String {
    if ms % 1000 == 0 { (ms / 1000).to_string() } else { format!("{:.3}", ms as f64 / 1000.0) }
}
