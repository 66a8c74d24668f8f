//! Standard Workload Format, versions 2 to 2.2 (Parallel Workloads Archive).
//!
//! Header comments begin with `;`; rows are 18 numbers, -1 unknown: job, submit, wait, run, processors given, CPU
//! seconds, KB used, processors asked, seconds asked, KB asked, status, user, group, executable, queue, partition,
//! preceding job, think time; fields of a site's own after these are passed over, and noted. Start is submit + wait, end is start + run. Where the wait is unknown, so are start and
//! end, and `run_s` is the log's own run time. Processors are not GPUs: the format counts none.
//!
//! A job that was swapped out has a line for itself (status 0 or 1), then one for each partial execution: status 2 for
//! all but the last, 3 or 4 for that. Only the first of them has a submit time; the others' waits count from the end of
//! the one before. They become the attempts of the job.
//!
//! Worked number: `UnixStartTime: 1000`, submit 60, wait 5, run 30: submitted at 1,060 s, start 1,065 s, end 1,095 s.
//! O(bytes).

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::field;
use super::options::ReadOptions;
use super::reader::{Confidence, Reader};
use super::source::{Head, SourceFile};
use crate::error::{Error, Result};
use crate::quality::{Ledger, Reason, RowAudit, reason};
use crate::schema::{AttemptRow, CapacityRow, JobRow, JobState};
use crate::time::{TimeBasis, Zone, seconds_to_ms};
use crate::trace::Trace;

/// Fields of a row.
const FIELDS: [&str; 18] = [
    "job number",
    "submit time",
    "wait time",
    "run time",
    "allocated processors",
    "average CPU time",
    "used memory",
    "requested processors",
    "requested time",
    "requested memory",
    "status",
    "user",
    "group",
    "executable",
    "queue",
    "partition",
    "preceding job",
    "think time",
];

/// Header comments that only this format has.
const TELLING: [&str; 6] = ["unixstarttime", "maxprocs", "maxnodes", "maxjobs", "timezonestring", "maxrecords"];

/// A row that is cut.
const TOO_FEW_FIELDS: Reason = Reason {
    id: "field_count",
    what: "the line has fewer than the 18 fields of the format, so its values cannot be told apart",
    remedy: "fetch the log again, or write -1 for what is unknown",
};
/// A row with a site's own fields.
const MORE_FIELDS: Reason = Reason {
    id: "more_fields",
    what: "the line has more than the 18 fields of the format; what follows them is not read",
    remedy: "nothing to do; the format does not say what the other fields mean",
};

/// Reads SWF.
#[derive(Debug)]
pub(super) struct Swf;

impl Reader for Swf {
    fn id(&self) -> &'static str {
        "swf"
    }

    fn describes(&self) -> &'static str {
        "Standard Workload Format 2.x (Parallel Workloads Archive)"
    }

    fn sniff(&self, head: &Head) -> Confidence {
        let comments = head.text.lines().filter_map(|line| line.trim_start().strip_prefix(';'));
        let told = comments
            .filter_map(|comment| comment.split_once(':'))
            .any(|(name, _)| TELLING.contains(&name.trim().to_ascii_lowercase().as_str()));
        let first = head.text.lines().find(|line| !line.trim().is_empty() && !line.trim_start().starts_with(';'));
        let shaped = first.map(|line| {
            let numbers = line.split_whitespace().take(FIELDS.len());
            numbers.clone().count() == FIELDS.len() && numbers.clone().all(|number| number.parse::<f64>().is_ok())
        });
        let more = first.is_some_and(|line| line.split_whitespace().count() > FIELDS.len());
        match (told, shaped) {
            (true, Some(true) | None) => Confidence::Sure,
            (false, Some(true)) if head.name.ends_with(".swf") => Confidence::Sure,
            // A table of numbers with more columns may be anything.
            (false, Some(true)) if !more => Confidence::Maybe,
            _ => Confidence::No,
        }
    }

    fn read(&self, files: &[SourceFile], options: &ReadOptions<'_>, trace: &mut Trace) -> Result<()> {
        trace.counts_gpus = false;
        trace.note("SWF has no field for GPUs: processors are counted as CPU cores, GPU counts are unknown.");
        let mut headers = Vec::with_capacity(files.len());
        for file in files {
            headers.push(read_file(file, options, trace, files.len() > 1)?);
        }
        let absolute = headers.iter().all(|header| header.start_s.is_some());
        if !absolute && headers.iter().any(|header| header.start_s.is_some()) {
            return Err(Error::format(
                files.iter().map(SourceFile::name).collect::<Vec<_>>().join(", "),
                "some of these logs say when they begin (UnixStartTime) and some do not, so they share no clock",
                "read them one at a time",
            ));
        }
        trace.basis = if absolute { TimeBasis::Utc } else { TimeBasis::Relative };
        let zone = headers.iter().find_map(|header| header.zone.clone()).unwrap_or_else(Zone::utc);
        options.zone.clone().unwrap_or(zone).name().clone_into(&mut trace.zone);
        Ok(())
    }
}

/// Content of the header comments.
#[derive(Debug, Default)]
struct Header {
    start_s: Option<f64>,
    zone: Option<Zone>,
    computer: Option<String>,
    /// Processors and nodes of the machine.
    procs: Option<f64>,
    nodes: Option<f64>,
    /// Names of queues by number, where given.
    queues: BTreeMap<i64, String>,
    partitions: BTreeMap<i64, String>,
    /// The comment being continued on the next line.
    note: Option<String>,
    notes: Vec<String>,
}

impl Header {
    /// Takes a comment line, without its semicolon.
    fn comment(&mut self, text: &str) {
        let named = text.split_once(':').map(|(name, value)| (name.trim(), value.trim()));
        let Some((name, value)) = named.filter(|(name, _)| name.bytes().all(|byte| byte.is_ascii_alphabetic())) else {
            match &mut self.note {
                Some(note) if !text.trim().is_empty() => {
                    note.push(' ');
                    note.push_str(text.trim());
                }
                _ => self.flush(),
            }
            return;
        };
        self.flush();
        match name.to_ascii_lowercase().as_str() {
            "unixstarttime" => self.start_s = value.parse().ok().filter(|seconds: &f64| *seconds > 0.0),
            "timezonestring" => self.zone = Zone::named(value).ok(),
            "computer" => self.computer = Some(value.to_owned()),
            "maxprocs" => self.procs = machine_size(value),
            "maxnodes" => self.nodes = machine_size(value),
            "queue" => enlist(&mut self.queues, value),
            "partition" => enlist(&mut self.partitions, value),
            "note" => self.note = Some(value.to_owned()),
            _ => {}
        }
    }

    fn flush(&mut self) {
        self.notes.extend(self.note.take());
    }

    /// The notes that bear on how the numbers are to be read.
    fn telling(&self) -> impl Iterator<Item = &String> {
        self.notes.iter().filter(|note| {
            let note = note.to_lowercase();
            ["wait time", "submit time", "start time", "cleaned", "run time", "runtime"]
                .iter()
                .any(|w| note.contains(w))
        })
    }
}

/// The size of the machine: a number above 0, perhaps with a remark behind it; partitions of several sizes (`400;80`) are summed by nobody.
fn machine_size(text: &str) -> Option<f64> {
    let first = text.split_whitespace().next()?;
    first.parse::<f64>().ok().filter(|size| (1.0..=1e8).contains(size))
}

/// `1  batch` into a table of names.
fn enlist(names: &mut BTreeMap<i64, String>, text: &str) {
    let mut parts = text.splitn(2, char::is_whitespace);
    if let (Some(number), Some(name)) = (parts.next().and_then(|number| number.parse().ok()), parts.next())
        && !name.trim().is_empty()
    {
        names.insert(number, name.trim().to_owned());
    }
}

/// One row's numbers, each known or unknown.
#[derive(Debug, Clone, Copy, Default)]
struct Line {
    job: i64,
    submit_s: Option<f64>,
    wait_s: Option<f64>,
    run_s: Option<f64>,
    procs: Option<f64>,
    req_procs: Option<f64>,
    limit_s: Option<f64>,
    mem_kb: Option<f64>,
    status: Option<i64>,
    user: Option<i64>,
    group: Option<i64>,
    executable: Option<i64>,
    queue: Option<i64>,
    partition: Option<i64>,
    preceding: Option<i64>,
}

/// A partial execution, seconds on the log's clock.
#[derive(Debug, Clone, Copy)]
struct Burst {
    start_s: Option<f64>,
    end_s: Option<f64>,
    end_reason: Option<JobState>,
    procs: Option<f64>,
}

/// A job being put together.
#[derive(Debug)]
struct Pending {
    line: Line,
    bursts: Vec<Burst>,
    /// Whether the job has a line of its own, and is not known from its partial executions only.
    summed: bool,
}

fn read_file(file: &SourceFile, options: &ReadOptions<'_>, trace: &mut Trace, several: bool) -> Result<Header> {
    let mut lines = file.lines(options.observer)?;
    let mut header = Header::default();
    let mut jobs: Vec<Pending> = Vec::new();
    let mut by_number: BTreeMap<i64, usize> = BTreeMap::new();
    let mut any = false;
    while let Some((number, bytes)) = lines.next_line() {
        let text = String::from_utf8_lossy(bytes);
        let text = text.trim();
        any |= !text.is_empty();
        if let Some(comment) = text.strip_prefix(';') {
            header.comment(comment);
            continue;
        }
        if text.is_empty() {
            continue;
        }
        let mut audit = RowAudit::new(file.name(), number);
        let Some(line) = parse(text, &mut audit, &mut trace.ledger) else { continue };
        let partial = matches!(line.status, Some(2..=4));
        let known = by_number.get(&line.job).and_then(|at| jobs.get_mut(*at));
        match known {
            Some(job) if partial => job.add(&line),
            Some(_) => {
                trace.ledger.quarantine(&audit, reason::DUPLICATE, "job number", text);
                continue;
            }
            None => {
                let mut job = Pending { line, bursts: Vec::new(), summed: !partial };
                if partial {
                    job.add(&line);
                }
                by_number.insert(line.job, jobs.len());
                jobs.push(job);
            }
        }
        trace.ledger.keep(audit);
    }
    lines.finish(&mut trace.ledger);
    if !any {
        return Err(Error::Empty {
            source_name: file.name().to_owned(),
            what: "the file is empty".to_owned(),
            remedy: "fetch it again".to_owned(),
        });
    }
    header.flush();
    if header.procs.is_some() || header.nodes.is_some() {
        trace.capacity.push(CapacityRow {
            scope: Some(Cow::Borrowed("cluster")),
            name: header.computer.as_deref().map(Cow::Borrowed),
            cpus: header.procs,
            nodes: header.nodes,
            state: Some(Cow::Borrowed("up")),
            ..CapacityRow::default()
        });
    }
    for note in header.telling() {
        trace.note(format!("The log says: {note}"));
    }
    let waitless = jobs.iter().filter(|job| job.line.wait_s.is_none()).count();
    if waitless > 0 {
        trace.note(format!(
            "{waitless} of {} jobs have no wait time: their start and end are unknown, and their run time is the log's own.",
            jobs.len()
        ));
    }
    let prefix = if several { format!("{}/", file.stem().trim_end_matches(".swf")) } else { String::new() };
    for job in &jobs {
        job.emit(&header, &prefix, trace);
    }
    Ok(header)
}

/// Reads a row; one that is none is quarantined.
fn parse(text: &str, audit: &mut RowAudit<'_>, ledger: &mut Ledger) -> Option<Line> {
    let fields: Vec<&str> = text.split_whitespace().collect();
    if fields.len() < FIELDS.len() {
        ledger.quarantine(audit, TOO_FEW_FIELDS, "", text);
        return None;
    }
    if let Some(more) = fields.get(FIELDS.len()..).filter(|more| !more.is_empty()) {
        audit.repair(MORE_FIELDS, "", &more.join(" "));
    }
    let field = |ix: usize| (fields.get(ix).copied(), FIELDS.get(ix).copied().unwrap_or_default());
    // -1 is unknown in every field; other negative numbers are damage.
    let mut amount = |ix: usize| -> Option<f64> {
        let (text, name) = field(ix);
        let text = text.filter(|text| text.parse::<f64>().ok() != Some(-1.0));
        let value = field::amount(text, name, audit)?;
        // Submission, wait and run become times.
        if (1..=3).contains(&ix) && seconds_to_ms(value).is_none() {
            audit.repair(reason::OUT_OF_RANGE, name, text.unwrap_or_default());
            return None;
        }
        Some(value)
    };
    let line = Line {
        job: 0,
        submit_s: amount(1),
        wait_s: amount(2),
        run_s: amount(3),
        procs: amount(4),
        req_procs: amount(7),
        limit_s: amount(8),
        mem_kb: amount(9),
        ..Line::default()
    };
    let mut whole = |ix: usize| -> Option<i64> {
        let (text, name) = field(ix);
        field::whole(text, name, audit).filter(|value| *value >= 0)
    };
    let Some(job) = whole(0) else {
        ledger.quarantine(audit, reason::NO_KEY, "job number", text);
        return None;
    };
    Some(Line {
        job,
        status: whole(10),
        user: whole(11),
        group: whole(12),
        executable: whole(13),
        queue: whole(14),
        partition: whole(15),
        preceding: whole(16),
        ..line
    })
}

impl Pending {
    /// Adds a partial execution.
    fn add(&mut self, line: &Line) {
        // The first has the job's submission; the wait of the others counts from the end of the one before.
        let from = match self.bursts.last() {
            Some(before) => before.end_s,
            None => line.submit_s.or(self.line.submit_s),
        };
        let start_s = from.zip(line.wait_s).map(|(from, wait)| from + wait);
        self.bursts.push(Burst {
            start_s,
            end_s: start_s.zip(line.run_s).map(|(start, run)| start + run),
            end_reason: match line.status {
                // Swapped out to make room.
                Some(2) => Some(JobState::Preempted),
                status => state(status),
            },
            procs: line.procs,
        });
        if !self.summed {
            // Known from its parts only: the sum of their runs, the state of the last.
            if self.bursts.len() > 1 {
                self.line.run_s = self.line.run_s.zip(line.run_s).map(|(sum, run)| sum + run);
            }
            self.line.status = line.status;
        }
    }

    fn emit(&self, header: &Header, prefix: &str, trace: &mut Trace) {
        let line = &self.line;
        let origin_s = header.start_s.unwrap_or(0.0);
        let ms = |seconds: Option<f64>| seconds.and_then(|seconds| seconds_to_ms(origin_s + seconds));
        let state = state(line.status);
        // A job cancelled while it waited: its wait ends with the cancellation, and it never ran.
        let never_ran = line.status == Some(5) && line.run_s.is_none_or(|run| run == 0.0);
        let after_wait = line.submit_s.zip(line.wait_s).map(|(submit, wait)| submit + wait);
        let (start_s, end_s) = match (self.bursts.first(), self.bursts.last()) {
            (Some(first), Some(last)) => (first.start_s, last.end_s),
            _ if never_ran => (None, after_wait),
            _ => (after_wait, after_wait.zip(line.run_s).map(|(start, run)| start + run)),
        };
        let key = format!("{prefix}{}", line.job);
        let named = |names: &BTreeMap<i64, String>, number: Option<i64>| -> Option<Cow<'static, str>> {
            let number = number?;
            Some(Cow::Owned(names.get(&number).cloned().unwrap_or_else(|| number.to_string())))
        };
        let number = |value: Option<i64>| value.map(|value| Cow::Owned(value.to_string()));
        let attempts = match self.bursts.len() {
            0 if never_ran => Some(0),
            0 => (line.run_s.is_some() || line.wait_s.is_some()).then_some(1),
            many => i64::try_from(many).ok(),
        };
        let procs = line.procs.filter(|procs| *procs > 0.0);
        // Times are built from amounts that are not negative, so they are in order.
        trace.jobs.push(JobRow {
            cluster: header.computer.as_deref().map(Cow::Borrowed),
            job_key: Some(Cow::Borrowed(&key)),
            user: number(line.user),
            account: number(line.group),
            vc: named(&header.queues, line.queue).or_else(|| named(&header.partitions, line.partition)),
            name: number(line.executable),
            state: Some(Cow::Borrowed(state.unwrap_or(JobState::Unknown).id())),
            reported_state: number(line.status),
            submit: ms(line.submit_s),
            start: ms(start_s),
            end: ms(end_s),
            // The archive's logs hold jobs that are over; a job of unknown status may not be.
            censored: line.status.map(|_| false),
            attempts,
            req_cpus: line.req_procs.filter(|procs| *procs > 0.0),
            alloc_cpus: procs,
            // KB a processor.
            req_mem_bytes: line.mem_kb.zip(line.req_procs.or(procs)).map(|(kb, procs)| (kb * 1_024.0 * procs) as i64),
            time_limit_s: line.limit_s.filter(|limit| *limit > 0.0),
            run_s: line.run_s.filter(|_| !never_ran),
            reported_run_s: line.run_s.filter(|_| !never_ran),
            reported_wait_s: line.wait_s,
            depends_on: line.preceding.filter(|job| *job > 0).map(|job| Cow::Owned(format!("{prefix}{job}"))),
            ..JobRow::default()
        });
        for (nth, burst) in (1i64..).zip(&self.bursts) {
            trace.attempts.push(AttemptRow {
                job_key: Some(Cow::Borrowed(&key)),
                attempt: Some(nth),
                start: ms(burst.start_s),
                end: ms(burst.end_s),
                censored: Some(false),
                end_reason: burst.end_reason.map(|state| Cow::Borrowed(state.id())),
                alloc_cpus: burst.procs.filter(|procs| *procs > 0.0),
                ..AttemptRow::default()
            });
        }
    }
}

/// Canonical state of a status number; partial executions that ended a job count as its end.
fn state(status: Option<i64>) -> Option<JobState> {
    match status? {
        0 | 4 => Some(JobState::Failed),
        1 | 3 => Some(JobState::Completed),
        5 => Some(JobState::Cancelled),
        _ => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn notes_run_over_lines_and_queues_have_names() {
        let mut header = Header::default();
        for line in [
            " UnixStartTime: 749458803",
            " TimeZoneString: US/Pacific",
            " Note: There is no information on wait times - the given submit",
            "       times are actually start times",
            " Note: group 1 is normal users",
            " Queue:  1  batch          ",
        ] {
            header.comment(line);
        }
        header.flush();
        assert_eq!(header.start_s, Some(749_458_803.0));
        assert_eq!(header.zone.as_ref().unwrap().name(), "US/Pacific");
        assert_eq!(header.queues.get(&1).unwrap(), "batch");
        let telling: Vec<&String> = header.telling().collect();
        assert_eq!(
            telling,
            ["There is no information on wait times - the given submit times are actually start times"]
        );
    }

    #[test]
    fn a_time_out_of_reach_is_unknown_and_noted() {
        let mut ledger = Ledger::default();
        let mut audit = RowAudit::new("f", 7);
        let text = "1 1e300 -1 60 8 -1 -1 8 -1 -1 1 1 1 1 1 1 -1 -1";
        let line = parse(text, &mut audit, &mut ledger).unwrap();
        assert_eq!((line.submit_s, line.wait_s, line.run_s), (None, None, Some(60.0)));
        ledger.keep(audit);
        assert_eq!((ledger.repaired, ledger.count("out_of_range")), (1, 1));
    }
}
