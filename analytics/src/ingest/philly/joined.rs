//! The joined Philly job table: public extracts of the job log joined on (submit second, GPUs), one CSV row a job.
//!
//! Columns: `row, submit_utc, submit_offset_s, num_gpus, wall_duration_s, vc, pollux_duration_s, vc_match, jobid,
//! num_attempts, first_start_utc, queue_s, inferred_status`. Only some jobs have a `jobid` and `first_start_utc`; the
//! others have a submit time and a length but no place in time for it, so their start and end stay unknown.
//!
//! `wall_duration_s` runs from the first attempt's start to the last attempt's end, `pollux_duration_s` is the sum of
//! attempts. Worked number: a job submitted 10:00:00 that first starts 10:00:12 with a wall duration of 100 s ends at
//! 10:01:52; on 8 GPUs it is 800 GPU-seconds by wall duration. O(rows).

use super::known::{Known, Place, fold};
use crate::error::Result;
use crate::ingest::delimited::Delimited;
use crate::ingest::field::Moment;
use crate::ingest::options::ReadOptions;
use crate::ingest::read::check_job;
use crate::ingest::reader::Reader;
use crate::ingest::source::{SourceFile, TableHeaders};
use crate::quality::reason;
use crate::schema::{JobRow, JobState};
use crate::time::{TimeBasis, Zone};
use crate::trace::Trace;

/// The extract's only word for a job that did not pass.
const NOT_PASS: &str = "not_Pass";

/// Reads the joined job table.
pub(crate) struct PhillyJoined;

impl Reader for PhillyJoined {
    fn id(&self) -> &'static str {
        "philly-joined"
    }

    fn describes(&self) -> &'static str {
        "Microsoft Philly 2017: jobs joined from public extracts (CSV)"
    }

    fn columns(&self) -> TableHeaders {
        &[(',', &["submit_utc", "num_gpus", "wall_duration_s", "pollux_duration_s", "inferred_status"])]
    }

    fn read(&self, files: &[SourceFile], options: &ReadOptions<'_>, trace: &mut Trace) -> Result<()> {
        trace.basis = TimeBasis::Utc;
        options.zone_or(super::ZONE)?.name().clone_into(&mut trace.zone);
        trace.note(
            "philly-joined: the reported run time is the wall duration, from the start of the first attempt to the end \
             of the last; gaps between attempts are in it, so GPU-hours by it are an upper bound",
        );
        trace.note(
            "philly-joined: `not_Pass` is failed or killed, the join cannot tell which; such jobs are counted as \
             unknown, not as failed",
        );
        trace.note(
            "philly-joined: the VC is known only for jobs that passed, so whether it is known tells the outcome; it \
             must not be used to predict",
        );
        trace.note("philly-joined: jobs get all their GPUs at once, so GPUs asked for and GPUs given are the same");
        let mut known = Known::of(trace);
        let mut counts = Counts::default();
        for file in files {
            read_file(file, options, &mut known, &mut counts, trace)?;
        }
        counts.note(trace);
        Ok(())
    }
}

/// Counts for the notes.
#[derive(Default)]
struct Counts {
    jobs: u64,
    placed: u64,
    ambiguous: u64,
}

impl Counts {
    fn note(&self, trace: &mut Trace) {
        trace.note(format!(
            "philly-joined: start, end and wait are known for {} of {} jobs; start times come from the published subset of \
             the job log, which holds only jobs of four GPUs and more, so waits describe those jobs only",
            self.placed, self.jobs
        ));
        if self.ambiguous > 0 {
            trace.note(format!("philly-joined: the VC of {} jobs is one of several possible matches", self.ambiguous));
        }
    }
}

fn read_file(
    file: &SourceFile,
    options: &ReadOptions<'_>,
    known: &mut Known,
    counts: &mut Counts,
    trace: &mut Trace,
) -> Result<()> {
    let utc = Zone::utc();
    let mut table = Delimited::open(file, b',', options.observer)?;
    let submit_at = Some(table.require("submit_utc")?);
    let gpus_at = Some(table.require("num_gpus")?);
    let wall_at = Some(table.require("wall_duration_s")?);
    let status_at = Some(table.require("inferred_status")?);
    let [row_at, vc_at, match_at, id_at, attempts_at, start_at, queue_at, sum_at] =
        ["row", "vc", "vc_match", "jobid", "num_attempts", "first_start_utc", "queue_s", "pollux_duration_s"]
            .map(|name| table.column(name));
    while let Some(mut row) = table.next_row(&mut trace.ledger) {
        let key = match (row.text(id_at), row.text(row_at)) {
            (Some(id), _) => id.to_owned(),
            (None, Some(number)) => format!("row-{number}"),
            (None, None) => {
                trace.ledger.quarantine(&row.audit, reason::NO_KEY, "row", row.raw());
                continue;
            }
        };
        let Some(submit) = row.moment(submit_at, Moment::Local(&utc), "submit_utc") else {
            trace.ledger.quarantine(&row.audit, reason::NO_SUBMIT, "submit_utc", row.raw());
            continue;
        };
        let place = known.place(&key);
        if place == Place::Repeated {
            trace.ledger.quarantine(&row.audit, reason::DUPLICATE, "jobid", row.raw());
            continue;
        }
        let gpus = row.amount(gpus_at, "num_gpus");
        let wall_s = row.amount(wall_at, "wall_duration_s");
        let start = row.moment(start_at, Moment::Local(&utc), "first_start_utc");
        // A wall time too long to be one is noted by `check_job`.
        let end = start.zip(wall_s).and_then(|(start, wall_s)| {
            crate::time::within_reach(start.saturating_add(crate::time::seconds_to_ms(wall_s)?))
        });
        let reported_state = row.text(status_at);
        let state = match reported_state {
            None | Some(NOT_PASS) => JobState::Unknown,
            Some(word) => JobState::parse(word).unwrap_or_else(|| {
                row.audit.repair(reason::UNKNOWN_STATE, "inferred_status", word);
                JobState::Unknown
            }),
        };
        let mut job = JobRow {
            cluster: Some(super::CLUSTER.into()),
            job_key: Some(key.into()),
            vc: row.text(vc_at).map(Into::into),
            state: Some(state.id().into()),
            reported_state: reported_state.map(Into::into),
            submit: Some(submit),
            start,
            end,
            attempts: row.whole(attempts_at, "num_attempts"),
            req_gpus: gpus,
            alloc_gpus: gpus,
            reported_run_s: wall_s,
            reported_attempts_s: row.amount(sum_at, "pollux_duration_s"),
            reported_wait_s: row.amount(queue_at, "queue_s"),
            ..JobRow::default()
        };
        check_job(&mut job, &mut row.audit);
        counts.jobs += 1;
        counts.placed += u64::from(start.is_some());
        counts.ambiguous += u64::from(row.text(match_at) == Some("ambiguous"));
        match place {
            Place::Elsewhere(ix) => fold(&mut trace.jobs, ix, &job),
            Place::New | Place::Repeated => trace.jobs.push(job),
        }
        trace.ledger.keep(row.audit);
    }
    table.finish(&mut trace.ledger);
    Ok(())
}
