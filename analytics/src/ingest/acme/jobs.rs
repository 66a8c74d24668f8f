//! Job traces: `job_id, user, node_num, gpu_num, cpu_num, type, state, submit_time, start_time, end_time, duration,
//! queue, gpu_time`; Kalos has `mem_per_pod_GB, shared_mem_per_pod, fail_time, stop_time` too.
//!
//! Times carry their offset (`+08:00` in Seren, `+00:00` in Kalos), which is honoured. Durations are recomputed: in
//! Kalos `duration` runs from *submission* to end, so the published GPU time includes the wait. Worked number: submitted
//! 11:00:58, started 11:01:08, ended 11:01:16 ran 8 s; the file says 18 s.

use crate::error::Result;
use crate::ingest::delimited::{Delimited, Record};
use crate::ingest::field::Moment;
use crate::ingest::options::ReadOptions;
use crate::ingest::read::{SeenKeys, check_job, forget_unstarted};
use crate::ingest::source::{Head, SourceFile};
use crate::quality::{Reason, reason};
use crate::schema::{JobRow, JobState};
use crate::time::Zone;
use crate::trace::Trace;

/// Bytes in a GB, as the source's column is named.
const GB: f64 = 1e9;

/// A running job has an end.
const END_WHILE_RUNNING: Reason = Reason {
    id: "end_while_running",
    what: "the job still ran when the record was taken, so its end is not one; it is set to unknown",
    remedy: "nothing to do",
};

/// Columns of a job trace.
pub(super) const JOBS: &[&str] =
    &["job_id", "user", "node_num", "gpu_num", "state", "submit_time", "start_time", "end_time", "gpu_time"];

/// Whether a file is a job trace.
pub(super) fn is_jobs(head: &Head) -> bool {
    head.has_columns(',', JOBS) && !head.has_columns(',', &["vc"])
}

/// Jobs read so far, across the files of a request.
#[derive(Debug, Default)]
pub(super) struct JobLog {
    seen: SeenKeys,
    jobs: u64,
    from_submit: u64,
    has_pod_memory: bool,
}

struct Columns {
    id: Option<usize>,
    submit: Option<usize>,
    start: Option<usize>,
    end: Option<usize>,
    state: Option<usize>,
    gpus: Option<usize>,
    user: Option<usize>,
    nodes: Option<usize>,
    cpus: Option<usize>,
    kind: Option<usize>,
    duration: Option<usize>,
    queue: Option<usize>,
    mem: Option<usize>,
}

impl JobLog {
    /// Reads one job trace.
    ///
    /// # Errors
    /// When it cannot be opened or lacks its columns.
    pub(super) fn read(&mut self, file: &SourceFile, options: &ReadOptions<'_>, trace: &mut Trace) -> Result<()> {
        let zone = options.zone_or(super::ZONE)?;
        let mut table = Delimited::open(file, b',', options.observer)?;
        let columns = Columns {
            id: Some(table.require("job_id")?),
            submit: Some(table.require("submit_time")?),
            start: Some(table.require("start_time")?),
            end: Some(table.require("end_time")?),
            state: Some(table.require("state")?),
            gpus: Some(table.require("gpu_num")?),
            user: table.column("user"),
            nodes: table.column("node_num"),
            cpus: table.column("cpu_num"),
            kind: table.column("type").or_else(|| table.column("job_type")),
            duration: table.column("duration"),
            queue: table.column("queue"),
            mem: table.column("mem_per_pod_gb"),
        };
        self.has_pod_memory |= columns.mem.is_some();
        let name = file.stem();
        let cluster = if name.contains("kalos") || columns.mem.is_some() {
            Some("kalos")
        } else {
            name.contains("seren").then_some("seren")
        };
        while let Some(mut row) = table.next_row(&mut trace.ledger) {
            let Some(key) = row.text(columns.id) else {
                trace.ledger.quarantine(&row.audit, reason::NO_KEY, "job_id", row.raw());
                continue;
            };
            let Some(submit) = row.moment(columns.submit, Moment::Local(&zone), "submit_time") else {
                trace.ledger.quarantine(&row.audit, reason::NO_SUBMIT, "submit_time", row.raw());
                continue;
            };
            if !self.seen.is_new(key) {
                trace.ledger.quarantine(&row.audit, reason::DUPLICATE, "job_id", row.raw());
                continue;
            }
            let mut job = columns.job(&mut row, &zone);
            job.cluster = cluster.map(Into::into);
            job.job_key = Some(key.into());
            job.submit = Some(submit);
            forget_unstarted(&mut job);
            check_job(&mut job, &mut row.audit);
            self.jobs += 1;
            self.from_submit += u64::from(counts_the_wait(&job));
            trace.jobs.push(job);
            trace.ledger.keep(row.audit);
        }
        table.finish(&mut trace.ledger);
        Ok(())
    }

    /// Says what a reader of the report must know of the job traces.
    pub(super) fn note(&self, trace: &mut Trace) {
        if self.jobs == 0 {
            return;
        }
        trace.note("acme: run time is end minus start; the published duration is kept as reported");
        if self.from_submit > 0 {
            trace.note(format!(
                "acme: the published duration of {} of {} jobs counts from their submission, so GPU time summed from \
                 it includes the wait",
                self.from_submit, self.jobs
            ));
        }
        if self.has_pod_memory {
            trace.note("acme: memory asked for is that of a pod times the nodes, taking one pod a node");
        }
        trace.note("acme: the traces have no VC or queue; they hold fewer jobs than the published cluster summary");
    }
}

/// Whether the reported run time equals that from submission to end, and not that from start to
/// end.
fn counts_the_wait(job: &JobRow<'_>) -> bool {
    let (Some(submit), Some(end), Some(run_s), Some(reported_s)) = (job.submit, job.end, job.run_s, job.reported_run_s)
    else {
        return false;
    };
    let whole_s = (end - submit) as f64 / 1_000.0;
    (reported_s - whole_s).abs() <= 1.0 && (reported_s - run_s).abs() > 1.0
}

impl Columns {
    fn job<'r>(&self, row: &mut Record<'r>, zone: &Zone) -> JobRow<'r> {
        let reported_state = row.text(self.state);
        let state = reported_state.map_or(JobState::Unknown, |word| {
            JobState::parse(word).unwrap_or_else(|| {
                row.audit.repair(reason::UNKNOWN_STATE, "state", word);
                JobState::Unknown
            })
        });
        let unfinished = matches!(state, JobState::Running | JobState::Pending);
        let mut end = row.moment(self.end, Moment::Local(zone), "end_time");
        if unfinished && end.is_some() {
            row.audit.repair(END_WHILE_RUNNING, "end_time", row.field(self.end).unwrap_or_default());
            end = None;
        }
        let gpus = row.amount(self.gpus, "gpu_num");
        let cpus = row.amount(self.cpus, "cpu_num");
        let nodes = row.whole(self.nodes, "node_num");
        // A pod is a node's share of the job.
        let mem = row.amount(self.mem, "mem_per_pod_GB").zip(nodes);
        JobRow {
            user: row.text(self.user).map(Into::into),
            job_type: row.text(self.kind).map(Into::into),
            state: Some(state.id().into()),
            reported_state: reported_state.map(Into::into),
            start: row.moment(self.start, Moment::Local(zone), "start_time"),
            end,
            censored: unfinished.then_some(true),
            req_nodes: nodes,
            req_cpus: cpus,
            req_mem_bytes: mem.map(|(gb, pods)| (gb * GB * pods as f64) as i64),
            req_gpus: gpus,
            alloc_nodes: nodes,
            alloc_cpus: cpus,
            alloc_gpus: gpus,
            reported_run_s: row.amount(self.duration, "duration"),
            reported_wait_s: row.amount(self.queue, "queue"),
            ..JobRow::default()
        }
    }
}
