//! When each job ran under a way to share, as CSV, one row a job of one GPU, in order of submission.
//!
//! `job_id,job_type,type_from,submit_s,run_s,start_s,end_s,wait_s,held_s,shared_s,slowdown,failed,taken_out,end_exclusive_s,scored`, times in seconds from the first submission, without
//! decimals where they are whole. `type_from` is `name`, `telemetry` or `draw`. `run_s` is the run alone, `start_s` the first start, `held_s` the time on a GPU, `shared_s` that of it beside another, and
//! `slowdown` `held_s` over `run_s`, empty for a run of no length. `failed` counts how often the job did not fit beside another, `taken_out` how often a trial ended badly for it.
//! `end_exclusive_s` is when it ends with nobody sharing. `scored` is `false` for a job that was submitted before the split or still ran at the end of the record.
//!
//! Texts are such that no spreadsheet takes them for formulas ([`csv_text`]). O(jobs). Worked number: submitted at 30 s, alone from 50 to 60 s and beside another from 60 to 80 s at a speed of 0.5:
//! run 20, start 50, end 80, wait 20, held 30, shared 20, slowdown 1.5.

use std::collections::BTreeSet;
use std::io::Write;

use tracecast_analytics::report::markup::csv_text;

use super::super::engine::SharingTimes;
use super::super::job_type::TypeFrom;
use crate::one_gpu::TypedJobs;
use crate::replay::output::seconds;

/// Header of the CSV.
pub const HEADER: [&str; 15] = [
    "job_id",
    "job_type",
    "type_from",
    "submit_s",
    "run_s",
    "start_s",
    "end_s",
    "wait_s",
    "held_s",
    "shared_s",
    "slowdown",
    "failed",
    "taken_out",
    "end_exclusive_s",
    "scored",
];

/// When each job ran.
#[derive(Debug, Clone)]
pub struct SharedSchedule {
    /// The jobs.
    pub(super) jobs: TypedJobs,
    /// What tells the type of each.
    pub(super) type_from: Vec<TypeFrom>,
    /// Job types.
    pub(super) kinds: Vec<String>,
    /// Keys of the jobs.
    pub(super) keys: Vec<String>,
    /// Jobs that are scored.
    pub(super) scored: Vec<usize>,
    /// Times of each.
    pub(super) times: Vec<SharingTimes>,
    /// Times with nobody sharing.
    pub(super) exclusive: Vec<SharingTimes>,
}

impl SharedSchedule {
    /// Writes it.
    ///
    /// # Errors
    /// If `out` cannot be written to.
    pub fn write_csv(&self, out: impl Write) -> csv::Result<()> {
        let mut out = csv::Writer::from_writer(out);
        out.write_record(HEADER)?;
        let scored: BTreeSet<usize> = self.scored.iter().copied().collect();
        let columns = self.jobs.submit_ms.iter().zip(&self.jobs.run_ms).zip(&self.jobs.kind);
        let times = self.times.iter().zip(&self.exclusive);
        for (job, (((submit, run), kind), (times, exclusive))) in columns.zip(times).enumerate() {
            let slowdown = if *run > 0 { format!("{:.4}", times.held_ms as f64 / *run as f64) } else { String::new() };
            let from = self.type_from.get(job).copied().unwrap_or(TypeFrom::Draw).id();
            let text = |of: Option<&String>| csv_text(of.map_or("", String::as_str));
            let row: [String; 15] = [
                text(self.keys.get(job)),
                text(self.kinds.get(usize::from(*kind))),
                from.to_owned(),
                seconds(*submit),
                seconds(*run),
                seconds(times.start_ms),
                seconds(times.end_ms),
                seconds(times.wait_ms(*submit)),
                seconds(times.held_ms),
                seconds(times.shared_ms),
                slowdown,
                times.failed.to_string(),
                times.taken_out.to_string(),
                seconds(exclusive.end_ms),
                scored.contains(&job).to_string(),
            ];
            out.write_record(&row)?;
        }
        out.flush()?;
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_number() {
        let times = SharingTimes {
            start_ms: 20_000,
            end_ms: 50_000,
            held_ms: 30_000,
            shared_ms: 20_000,
            ..SharingTimes::default()
        };
        let schedule = SharedSchedule {
            jobs: TypedJobs { submit_ms: vec![0], run_ms: vec![20_000], kind: vec![0] },
            type_from: vec![TypeFrom::Name],
            kinds: vec!["=bert".to_owned()],
            keys: vec!["7".to_owned()],
            scored: Vec::new(),
            times: vec![times],
            exclusive: vec![SharingTimes { end_ms: 60_500, ..times }],
        };
        let mut out = Vec::new();
        schedule.write_csv(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let row = text.lines().nth(1).unwrap();
        assert!(row.ends_with(",name,0,20,20,50,20,30,20,1.5000,0,0,60.500,false") && !row.contains(",="), "{text}");
    }
}
