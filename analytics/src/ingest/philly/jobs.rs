//! The job log: a JSON array of jobs, each with its scheduling attempts.
//!
//! Two spellings are read: the official `{status, vc, jobid, user, submitted_time, attempts[{start_time, end_time,
//! detail[{ip, gpus[]}]}]}` and an extract `{id, num_gpus, runtime, attempts, submitted_time}` whose `runtime` is in
//! minutes from first start to last end. Unknown is `null`, `""` or the text `None`. Times are UTC (see the module
//! above).
//!
//! A job may have no attempt (it never ran) and an attempt no start or end (a logging error); only a missing end of the
//! *last* attempt means that the job still ran when the log was taken. The GPUs asked for are those of the first attempt
//! that says where it ran, the GPUs given the most of any attempt.
//!
//! Worked number: attempts 01:12:09 to 01:13:23 and 01:13:30 to 01:23:30 ran 74 + 600 = 674 s; first start to last end
//! is 681 s, the 7 s between being the requeue gap.

use serde_json::Value;

use super::elements::{self, Element};
use super::known::{Known, Place, fold};
use crate::error::Result;
use crate::ingest::field::{self, Moment};
use crate::ingest::options::ReadOptions;
use crate::ingest::read::check_job;
use crate::ingest::source::SourceFile;
use crate::quality::{Ledger, RowAudit, reason};
use crate::schema::{AttemptRow, JobRow, JobState, PlacementRow};
use crate::time::{SECOND_MS, Zone};
use crate::trace::Trace;

/// Jobs known so far, across the files of a request.
#[derive(Debug, Default)]
pub(super) struct JobLog {
    known: Known,
    files: u64,
    jobs: u64,
    never_ran: u64,
    running: u64,
    gaps: u64,
    from_minutes: u64,
}

/// An attempt as the log has it.
struct Attempt {
    start: Option<i64>,
    end: Option<i64>,
    /// Node and GPU names.
    places: Vec<(String, Vec<String>)>,
}

impl Attempt {
    fn gpus(&self) -> Option<f64> {
        (!self.places.is_empty()).then(|| self.places.iter().map(|(_, gpus)| gpus.len()).sum::<usize>() as f64)
    }

    fn hostlist(&self) -> Option<String> {
        (!self.places.is_empty())
            .then(|| self.places.iter().map(|(node, _)| node.as_str()).collect::<Vec<_>>().join(","))
    }

    fn run_s(&self) -> Option<f64> {
        Some((self.end? - self.start?) as f64 / SECOND_MS as f64)
    }
}

impl JobLog {
    /// Begins with the jobs that other readers have brought into `trace`.
    pub(super) fn new(trace: &Trace) -> Self {
        Self { known: Known::of(trace), ..Self::default() }
    }

    /// Reads one job log.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub(super) fn read(&mut self, file: &SourceFile, options: &ReadOptions<'_>, trace: &mut Trace) -> Result<()> {
        self.files += 1;
        let mut ledger = std::mem::take(&mut trace.ledger);
        let outcome = elements::for_each(file, options.observer, &mut ledger, |element, ledger| {
            self.element(file.name(), element, ledger, trace);
        });
        trace.ledger = ledger;
        outcome
    }

    fn element(&mut self, file: &str, element: &Element, ledger: &mut Ledger, trace: &mut Trace) {
        let mut audit = RowAudit::new(file, element.number);
        let Ok(Value::Object(fields)) = serde_json::from_str::<Value>(&element.text) else {
            ledger.quarantine(&audit, reason::MALFORMED, "", &element.text);
            return;
        };
        let known = |name: &str| fields.get(name).and_then(text);
        let Some(key) = known("jobid").or_else(|| known("id")) else {
            ledger.quarantine(&audit, reason::NO_KEY, "jobid", &element.text);
            return;
        };
        let utc = Zone::utc();
        let Some(submit) = Moment::Local(&utc).read(known("submitted_time"), "submitted_time", &mut audit) else {
            ledger.quarantine(&audit, reason::NO_SUBMIT, "submitted_time", &element.text);
            return;
        };
        let place = self.known.place(key);
        if place == Place::Repeated {
            ledger.quarantine(&audit, reason::DUPLICATE, "jobid", &element.text);
            return;
        }
        let attempts: Vec<Attempt> = fields
            .get("attempts")
            .and_then(Value::as_array)
            .map(|list| list.iter().map(|value| attempt(value, &utc, &mut audit)).collect())
            .unwrap_or_default();
        for pair in attempts.windows(2) {
            if let [before, after] = pair
                && let (Some(end), Some(start)) = (before.end, after.start)
                && start < end
            {
                let text = format!("{} s before the attempt before it ended", (end - start) as f64 / SECOND_MS as f64);
                audit.repair(reason::OVERLAPPING_ATTEMPTS, "attempts", &text);
            }
        }
        let last = attempts.last();
        let running = last.is_some_and(|last| last.start.is_some() && last.end.is_none() && !last_end_is_bad(&fields));
        let reported_state = known("status");
        let state = if running {
            JobState::Running
        } else {
            reported_state.map_or(JobState::Unknown, |word| {
                JobState::parse(word).unwrap_or_else(|| {
                    audit.repair(reason::UNKNOWN_STATE, "status", word);
                    JobState::Unknown
                })
            })
        };
        let stated_gpus = field::amount(number(fields.get("num_gpus")).as_deref(), "num_gpus", &mut audit);
        let minutes = field::amount(number(fields.get("runtime")).as_deref(), "runtime", &mut audit);
        let placed = attempts.iter().filter_map(Attempt::gpus);
        let runs: Option<Vec<f64>> = attempts.iter().map(Attempt::run_s).collect();
        let last_placed = attempts.iter().rev().find(|attempt| !attempt.places.is_empty());
        let mut job = JobRow {
            cluster: Some(super::CLUSTER.into()),
            job_key: Some(key.into()),
            user: known("user").map(Into::into),
            vc: known("vc").map(Into::into),
            state: Some(state.id().into()),
            reported_state: reported_state.map(Into::into),
            submit: Some(submit),
            start: attempts.first().and_then(|first| first.start),
            end: last.and_then(|last| last.end),
            censored: running.then_some(true),
            attempts: i64::try_from(attempts.len()).ok(),
            req_gpus: placed.clone().next().or(stated_gpus),
            alloc_nodes: last_placed.and_then(|attempt| i64::try_from(attempt.places.len()).ok()),
            alloc_gpus: placed.reduce(f64::max).or(stated_gpus.filter(|_| !attempts.is_empty())),
            nodes_hostlist: last_placed.and_then(Attempt::hostlist).map(Into::into),
            run_s: runs.filter(|runs| !runs.is_empty()).map(|runs| runs.iter().sum()),
            reported_run_s: minutes.map(|minutes| minutes * 60.0),
            ..JobRow::default()
        };
        check_job(&mut job, &mut audit);
        self.jobs += 1;
        self.never_ran += u64::from(attempts.is_empty());
        self.running += u64::from(running);
        self.from_minutes += u64::from(minutes.is_some());
        self.gaps += attempts.iter().rev().skip(1).filter(|attempt| attempt.run_s().is_none()).count() as u64;
        push_attempts(key, state, running, &attempts, trace);
        match place {
            Place::Elsewhere(ix) => fold(&mut trace.jobs, ix, &job),
            Place::New | Place::Repeated => trace.jobs.push(job),
        }
        ledger.keep(audit);
    }

    /// Says what a reader of the report must know of the job log.
    pub(super) fn note(&self, trace: &mut Trace) {
        if self.files == 0 {
            return;
        }
        trace.note(
            "philly: the job log's times are UTC: its job ids hold the epoch second their scheduler started, and the \
             first jobs follow it by that clock",
        );
        trace.note(
            "philly: run time is the sum of a job's attempts; gaps between attempts are not in it. Other published \
             totals count the last attempt only, or first start to last end",
        );
        trace.note(format!(
            "philly: of {} jobs {} never ran and {} still ran when the log was taken; {} earlier attempts lack a start \
             or an end",
            self.jobs, self.never_ran, self.running, self.gaps
        ));
        if self.from_minutes > 0 {
            trace.note("philly: the reported run time of the extract is first start to last end");
        }
    }
}

/// Whether the last attempt's end is present but unreadable, so that its absence does not mean that
/// the job still ran.
fn last_end_is_bad(fields: &serde_json::Map<String, Value>) -> bool {
    let last = fields.get("attempts").and_then(Value::as_array).and_then(|list| list.last());
    last.and_then(|last| last.get("end_time")).and_then(text).is_some()
}

fn attempt(value: &Value, utc: &Zone, audit: &mut RowAudit<'_>) -> Attempt {
    let start = Moment::Local(utc).read(value.get("start_time").and_then(text), "start_time", audit);
    let mut end = Moment::Local(utc).read(value.get("end_time").and_then(text), "end_time", audit);
    if start.zip(end).is_some_and(|(start, end)| end < start) {
        audit.repair(reason::END_BEFORE_START, "end_time", value.get("end_time").and_then(text).unwrap_or_default());
        end = None;
    }
    let places = value.get("detail").and_then(Value::as_array).into_iter().flatten().filter_map(|place| {
        let node = place.get("ip").and_then(text)?;
        let gpus = place.get("gpus").and_then(Value::as_array).into_iter().flatten().filter_map(text);
        Some((node.to_owned(), gpus.map(str::to_owned).collect()))
    });
    Attempt { start, end, places: places.collect() }
}

fn push_attempts(key: &str, state: JobState, running: bool, attempts: &[Attempt], trace: &mut Trace) {
    let count = attempts.len();
    for (number, attempt) in (1_i64..).zip(attempts) {
        let is_last = usize::try_from(number) == Ok(count);
        trace.attempts.push(AttemptRow {
            job_key: Some(key.into()),
            attempt: Some(number),
            start: attempt.start,
            end: attempt.end,
            censored: (is_last && running).then_some(true),
            end_reason: (is_last && state.is_final()).then(|| state.id().into()),
            nodes_hostlist: attempt.hostlist().map(Into::into),
            alloc_gpus: attempt.gpus(),
            ..AttemptRow::default()
        });
        for (node, gpus) in &attempt.places {
            trace.placements.push(PlacementRow {
                job_key: Some(key.into()),
                attempt: Some(number),
                node: Some(node.into()),
                gpu_ids: Some(gpus.join(",").into()),
                gpus: Some(gpus.len() as f64),
            });
        }
    }
}

/// The known text of a JSON value.
fn text(value: &Value) -> Option<&str> {
    field::text(value.as_str())
}

/// The text of a JSON number, or of a text that should be one.
fn number(value: Option<&Value>) -> Option<String> {
    match value? {
        Value::Number(number) => Some(number.to_string()),
        Value::String(text) => Some(text.clone()),
        _ => None,
    }
}
