//! Flux: what `flux jobs -a --json` prints, and the objects of `flux job list`.
//!
//! A document with a list `jobs`, one object, or an object a line. Sources: `flux-jobs(1)`, RFC 21 (states) and RFC 27
//! (annotations) of the Flux framework.
//!
//! * Times are seconds since the epoch with fractions; 0 or nothing is unknown. The job runs from `t_run` to `t_cleanup`, and
//!   ended at `t_inactive` where it never ran. `t_sched` is written by old versions alone.
//! * `state` and `result` are words, or bits: 1 new, 2 depend, 4 priority, 8 sched, 16 run, 32 cleanup, 64 inactive; 1
//!   completed, 2 failed, 4 canceled, 8 timeout. A job that cleans up still holds its nodes.
//! * `duration` is the time limit, 0 none. `expiration` is when the allocation ends.
//! * `nodelist` is a host list, `ranks` the same as numbers. A job that never ran has an empty text for both.
//! * GPUs: `ngpus`, else what `annotations.sched.resource_summary` lists (`rank[0-1]/core[0-3],gpu[0-1]`). A summary without
//!   GPUs means none. Fluxion writes no summary: the number is then unknown.
//! * `returncode` is the exit code, a negative one a signal, -128 that the job was cancelled before it ran.
//!
//! Of several snapshots of a job the last state counts. Worked number: `t_submit` 1000, `t_run` 1060.5, `t_cleanup` 1360.5:
//! wait 60.5 s, run 300 s. O(bytes + n log n); one job is in memory beside its row.

use serde_json::Value;

use super::job::{Assembly, BAD_NODE, Gpus, Job, MANY_NODES, MOST_NODES, NamedNode, Run, Snapshots};
use crate::error::{Error, Result};
use crate::ingest::document::{self, Around, Sink};
use crate::ingest::field;
use crate::ingest::slurm::hostlist;
use crate::ingest::{Confidence, Head, ReadOptions, Reader, SourceFile};
use crate::quality::{Ledger, RowAudit, reason};
use crate::schema::JobState;
use crate::time::{TimeBasis, seconds_to_ms};
use crate::trace::Trace;

/// Reads the jobs of Flux.
#[derive(Debug)]
pub(crate) struct Flux;

impl Reader for Flux {
    fn id(&self) -> &'static str {
        "flux"
    }

    fn describes(&self) -> &'static str {
        "Flux jobs: flux jobs -a --json"
    }

    fn sniff(&self, head: &Head) -> Confidence {
        let text = head.text.trim_start();
        let has = |key: &str| text.contains(&format!("\"{key}\""));
        let is_job = has("t_submit") && has("ntasks") && has("state");
        if text.starts_with(['{', '[']) && is_job { Confidence::Sure } else { Confidence::No }
    }

    fn read(&self, files: &[SourceFile], options: &ReadOptions<'_>, trace: &mut Trace) -> Result<()> {
        let mut assembly = Assembly::default();
        let mut jobs = Snapshots::new();
        for file in files {
            assembly.begin(file.name());
            let (words, jobs, ledger) = (&mut assembly, &mut jobs, &mut trace.ledger);
            let mut queue = Queue { file: file.name(), number: 0, words, jobs, ledger };
            let remedy = "export with `flux jobs -a --json` again";
            document::read(file, options, &["jobs"], "a document of `flux jobs --json`", remedy, &mut queue)?;
        }
        trace.basis = TimeBasis::Utc;
        options.zone_or("UTC")?.name().clone_into(&mut trace.zone);
        for job in jobs.into_jobs() {
            assembly.add(job);
        }
        assembly.finish("Flux tells them in the resource summary of its simple scheduler, not of Fluxion.", trace);
        Ok(())
    }
}

/// Takes jobs as they are read.
struct Queue<'a> {
    file: &'a str,
    number: u64,
    words: &'a mut Assembly,
    /// Jobs, ranked by how far they had come.
    jobs: &'a mut Snapshots<u8>,
    ledger: &'a mut Ledger,
}

impl Sink for Queue<'_> {
    fn element(&mut self, value: Value) {
        self.number += 1;
        let mut row = RowAudit::new(self.file, self.number);
        let Some(id) = identifier(&value) else {
            self.ledger.quarantine(&row, reason::NO_KEY, "id", &value.to_string());
            return;
        };
        let (rank, mut job) = read_job(id, &value, self.words, &mut row);
        if job.submit.is_none() && job.runs.is_empty() && job.end.is_none() {
            self.ledger.quarantine(&row, reason::NO_SUBMIT, "t_submit", &value.to_string());
            return;
        }
        self.words.check(&mut job, &mut row);
        if self.jobs.take(rank, job) {
            self.ledger.keep(row);
        } else {
            self.ledger.quarantine(&row, reason::DUPLICATE, "", &value.to_string());
        }
    }

    fn document(&mut self, around: &Around) -> Result<()> {
        if around.rest.get("id").is_some() {
            self.element(around.rest.clone());
        } else if !(around.rest.is_boolean() || around.rest.get("jobs").is_some()) {
            return Err(Error::format(
                self.file,
                "the document has no list of jobs",
                "export with `flux jobs -a --json`, and check that the command did not fail",
            ));
        }
        Ok(())
    }

    fn ledger(&mut self) -> &mut Ledger {
        self.ledger
    }
}

/// The identifier, a number or a text in one of Flux's encodings.
fn identifier(job: &Value) -> Option<String> {
    match job.get("id")? {
        Value::Number(number) => Some(number.to_string()),
        Value::String(text) => field::text(Some(text)).map(str::to_owned),
        _ => None,
    }
}

/// A number above 0; Flux writes 0, 0.0 or an empty text for what is not there.
fn positive(value: Option<&Value>) -> Option<f64> {
    value.and_then(Value::as_f64).filter(|value| *value > 0.0 && *value < 1e15)
}

/// A known text.
fn text(value: Option<&Value>) -> Option<&str> {
    field::text(value.and_then(Value::as_str))
}

/// A time in seconds since the epoch.
fn moment(job: &Value, key: &str, row: &mut RowAudit<'_>) -> Option<i64> {
    let value = job.get(key)?;
    let seconds = value.as_f64();
    if seconds == Some(0.0) || value.is_null() || value.as_str().is_some_and(field::is_null) {
        return None;
    }
    let ms = seconds.filter(|seconds| *seconds > 0.0).and_then(seconds_to_ms);
    if ms.is_none() {
        row.repair(reason::NOT_A_TIME, key, &value.to_string());
    }
    ms
}

/// A state or a result: its word, or the word of its bit.
fn word(value: Option<&Value>, of_bits: &[(u64, &'static str)]) -> Option<String> {
    let value = value?;
    match value.as_u64() {
        Some(bit) => of_bits.iter().find(|(known, _)| *known == bit).map(|(_, word)| (*word).to_owned()),
        None => text(Some(value)).map(str::to_ascii_uppercase),
    }
}

const STATES: [(u64, &str); 7] =
    [(1, "NEW"), (2, "DEPEND"), (4, "PRIORITY"), (8, "SCHED"), (16, "RUN"), (32, "CLEANUP"), (64, "INACTIVE")];
const RESULTS: [(u64, &str); 4] = [(1, "COMPLETED"), (2, "FAILED"), (4, "CANCELED"), (8, "TIMEOUT")];

/// Reads a job from an object; also returns how far the job had come.
fn read_job(id: String, job: &Value, words: &mut Assembly, row: &mut RowAudit<'_>) -> (u8, Job) {
    let of_state = word(job.get("state"), &STATES);
    let of_result = word(job.get("result"), &RESULTS);
    let reported = of_result.or_else(|| of_state.clone()).or_else(|| word(job.get("status"), &[]));
    let (rank, state) = match reported.as_deref() {
        Some("COMPLETED") => (3, JobState::Completed),
        Some("FAILED") => (3, JobState::Failed),
        Some("CANCELED" | "CANCELLED") => (3, JobState::Cancelled),
        Some("TIMEOUT") => (3, JobState::Timeout),
        Some("RUN" | "RUNNING" | "CLEANUP") => (2, JobState::Running),
        Some("NEW" | "DEPEND" | "PRIORITY" | "SCHED" | "PENDING") => (1, JobState::Pending),
        Some("INACTIVE") => (3, JobState::Unknown),
        None => (0, JobState::Unknown),
        Some(other) => {
            row.repair(reason::UNKNOWN_STATE, "state", other);
            (0, JobState::Unknown)
        }
    };
    let over = rank == 3;
    let start = moment(job, "t_run", row).filter(|_| state != JobState::Pending);
    let [cleanup, inactive] = ["t_cleanup", "t_inactive"].map(|key| moment(job, key, row));
    let end = cleanup.or(inactive).filter(|_| over);
    let gpus = gpus(job);
    let nodes = text(job.get("nodelist")).map_or_else(Vec::new, |list| {
        hostlist::expand(list, MOST_NODES).unwrap_or_else(|error| {
            let is_long = error == hostlist::HostlistError::TooMany;
            row.repair(if is_long { MANY_NODES } else { BAD_NODE }, "nodelist", list);
            Vec::new()
        })
    });
    let count = job.get("nnodes").and_then(Value::as_i64).filter(|count| *count > 0);
    let cores = positive(job.get("ncores"));
    let code = job.get("returncode").and_then(Value::as_i64).filter(|code| *code != -128);
    let run = start.map(|start| Run {
        start: Some(start),
        end,
        ended_by: Some(state).filter(|_| over),
        running: state == JobState::Running,
        reported_s: positive(job.get("runtime")).filter(|_| over),
        gpus,
        cpus: cores,
        nodes: words.nodes(nodes.iter().map(|name| NamedNode::plain(name)).collect(), "nodelist", row),
        ..Run::default()
    });
    let expiration = moment(job, "expiration", row).zip(start);
    let until = expiration.map(|(to, from)| (to - from) as f64 / 1_000.0).filter(|limit| *limit > 0.0);
    let uid = job.get("userid").and_then(Value::as_i64).map(|uid| uid.to_string());
    let sched = job.pointer("/annotations/sched");
    let note = |key: &str| text(sched.and_then(|sched| sched.get(key)));
    let result = Job {
        id,
        user: words.word(text(job.get("username")).or(uid.as_deref())),
        account: words.word(text(job.get("bank")).or_else(|| text(job.get("project")))),
        vc: words.word(text(job.get("queue")).or_else(|| note("queue"))),
        name: words.word(job.get("name").and_then(Value::as_str).filter(|name| !name.is_empty())),
        depends_on: words.word(dependencies(job).as_deref()),
        state: Some(state),
        reported_state: words.word(reported.as_deref()),
        pending_reason: words.word(note("reason_pending")),
        submit: moment(job, "t_submit", row),
        eligible: moment(job, "t_sched", row),
        end: if run.is_none() { inactive.or(cleanup).filter(|_| over) } else { None },
        time_limit_s: positive(job.get("duration")).or(until),
        exit_code: code.filter(|_| run.is_some() && over),
        req_nodes: count,
        req_cpus: cores,
        req_gpus: gpus,
        runs: run.into_iter().collect(),
        ..Job::default()
    };
    (rank, result)
}

/// Jobs that it waits for: texts or objects, separated by commas.
fn dependencies(job: &Value) -> Option<String> {
    let list = job.get("dependencies")?.as_array()?;
    let one = |value: &Value| {
        let parts = ["scheme", "value"].map(|key| text(value.get(key)));
        match parts {
            [Some(scheme), Some(value)] => Some(format!("{scheme}:{value}")),
            _ => value.as_str().map(str::to_owned),
        }
    };
    let names: Vec<String> = list.iter().filter_map(one).collect();
    (!names.is_empty()).then(|| names.join(","))
}

/// GPUs of a job.
fn gpus(job: &Value) -> Gpus {
    if let Some(count) = job.get("ngpus").and_then(Value::as_f64).filter(|count| *count >= 0.0) {
        return Gpus { count: Some(count), listed: true };
    }
    let Some(summary) = text(job.pointer("/annotations/sched/resource_summary")) else { return Gpus::default() };
    match summary.split_whitespace().map(in_ranks).collect::<Option<Vec<f64>>>() {
        Some(counts) => {
            let sum: f64 = counts.iter().sum();
            Gpus { count: Some(sum).filter(|sum| *sum > 0.0), listed: true }
        }
        None => Gpus::default(),
    }
}

/// GPUs in one part of a resource summary, `rank[0-1]/core[0-3],gpu[0-1]`; `None` if it is none.
fn in_ranks(part: &str) -> Option<f64> {
    let (ranks, children) = part.split_once('/')?;
    let ranks = ids(ranks.strip_prefix("rank")?)?;
    let mut gpus = 0.0;
    let mut rest = children;
    while !rest.is_empty() {
        let name = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let (kind, tail) = rest.split_at_checked(name)?;
        // A comma within brackets belongs to the list.
        let end = if tail.starts_with('[') { tail.find(']')? + 1 } else { tail.find(',').unwrap_or(tail.len()) };
        let (list, tail) = tail.split_at_checked(end)?;
        if kind == "gpu" {
            gpus += ids(list)?;
        }
        rest = tail.strip_prefix(',').unwrap_or(tail);
        if rest.len() == tail.len() && !rest.is_empty() {
            return None;
        }
    }
    Some(ranks * gpus)
}

/// Counts the numbers in `3` or `[0-3,7]`.
fn ids(list: &str) -> Option<f64> {
    let list = list.strip_prefix('[').map_or(Some(list), |inner| inner.strip_suffix(']'))?;
    let one = |range: &str| -> Option<f64> {
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        let (low, high) = (low.parse::<u32>().ok()?, high.parse::<u32>().ok()?);
        Some(f64::from(high.checked_sub(low)?) + 1.0)
    };
    list.split(',').map(one).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_resource_summary_lists_gpus_of_ranks() {
        let of = |summary: &str| gpus(&json!({"annotations": {"sched": {"resource_summary": summary}}}));
        let listed = |count| Gpus { count, listed: true };
        assert_eq!(of("rank[0-1]/core[0-3],gpu[0-1]"), listed(Some(4.0)));
        assert_eq!(of("rank0/core[0,2-3],gpu0 rank[2,4-5]/gpu[1,3]"), listed(Some(7.0)));
        assert_eq!(of("rank0/core0"), listed(None));
        for unreadable in ["rank0", "rank0/gpu", "rank[0/gpu0", "node3/gpu0", "rank0/gpu[3-1]"] {
            assert_eq!(of(unreadable), Gpus::default(), "{unreadable}");
        }
        assert_eq!(gpus(&json!({"ngpus": 8})), listed(Some(8.0)));
        assert_eq!(gpus(&json!({"ngpus": 0})), listed(Some(0.0)));
        assert_eq!(gpus(&json!({"ngpus": ""})), Gpus::default());
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[0-9a-z/,\\[\\]é-]{0,24}") {
            let _ = (in_ranks(&text), ids(&text));
        }
    }
}
