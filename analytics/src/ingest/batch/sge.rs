//! Grid Engine's accounting file: Sun, Son of, Univa and Altair Grid Engine, Open Cluster Scheduler's old form.
//!
//! `$SGE_ROOT/$SGE_CELL/common/accounting` has a line for each job (or array task) that ended, its fields separated by
//! colons. Sources: `accounting(5)` for the fields and their order, `sge_status(5)` for the failure codes, `complex(5)` for
//! what a resource counts by; Open XDMoD, "GPU metrics", and its Univa reader for GPUs and milliseconds.
//!
//! * The fields: `qname hostname group owner job_name job_number account priority submission_time start_time end_time failed
//!   exit_status ru_wallclock`, 17 of `getrusage(2)`, `project department granted_pe slots task_number cpu mem io category
//!   iow pe_taskid maxvmem`, and in later versions `arid ar_submission_time job_class qdel_info` and more. `#` begins a
//!   comment. Only `category`, the job's request as options of `qsub`, may hold a colon (`-l h_rt=01:00:00`): it ends
//!   where a number, a `pe_taskid` (`NONE` or `1.host`) and a number follow.
//! * Times are seconds since the epoch, milliseconds (Univa and Altair) or microseconds (the JSON form): above
//!   100,000,000,000 they are milliseconds, as no seconds are, and above 100,000,000,000,000 microseconds. 0 is unknown.
//! * A line whose `pe_taskid` is not `NONE` is a task of a tightly integrated parallel job: it adds its host to the job's.
//!   Without such lines (`accounting_summary`, or loose integration) a parallel job's hosts are known only in part, and are
//!   left unknown.
//! * Several lines of one job and submission are attempts. After `failed` 24 (migrating) or 25 (rescheduling) the job waits
//!   to run again. A line without a start could not be started (26, opening an output file, and the like).
//! * `failed` 37 is a limit that the master enforced. `failed` 100 says that the job ran and was killed by a signal, which is
//!   `exit_status` less 128. At or after `h_rt` that is the time limit. Otherwise SIGKILL and SIGTERM are taken as a
//!   deletion, as `qdel` sends them.
//! * GPUs: `-l gpu=2` (also `gpus`, `ngpus`, `num_gpus`) in the category, as the number of the whole job. That is right for
//!   a resource counted by the job; a site that counts by the slot multiplies, which the file does not tell.
//!
//! Worked number: `-l gpu=2,h_rt=3600 -pe smp 8`, submission 1000, start 1060, end 1360: 2 GPUs, 8 slots, limit 3,600 s, wait
//! 60 s, run 300 s. O(bytes + n log n).

use std::collections::HashMap;

use super::job::{Assembly, Gpus, Job, NamedNode, Run};
use super::line::{TOO_FEW_FIELDS, each_record, mostly_records};
use crate::error::Result;
use crate::ingest::field;
use crate::ingest::{Confidence, Head, ReadOptions, Reader, SeenKeys, SourceFile};
use crate::quality::{Reason, RowAudit, reason};
use crate::report::format::counted;
use crate::schema::JobState;
use crate::time::{TimeBasis, seconds_to_ms};
use crate::trace::Trace;

/// Places of the fields.
pub(super) const QNAME: usize = 0;
pub(super) const HOSTNAME: usize = 1;
pub(super) const OWNER: usize = 3;
pub(super) const JOB_NAME: usize = 4;
pub(super) const JOB_NUMBER: usize = 5;
pub(super) const ACCOUNT: usize = 6;
pub(super) const SUBMISSION: usize = 8;
pub(super) const START: usize = 9;
pub(super) const END: usize = 10;
pub(super) const FAILED: usize = 11;
pub(super) const EXIT_STATUS: usize = 12;
pub(super) const WALLCLOCK: usize = 13;
pub(super) const PROJECT: usize = 31;
pub(super) const GRANTED_PE: usize = 33;
pub(super) const SLOTS: usize = 34;
pub(super) const TASK_NUMBER: usize = 35;
pub(super) const CATEGORY: usize = 39;
/// Fields that every version has, up to `maxvmem`.
pub(super) const FIELDS: usize = 43;
/// Places of fields after `iow`.
pub(super) const PE_TASKID: usize = 1;
pub(super) const QDEL_INFO: usize = 6;
/// Times above this are milliseconds, and above a thousand times this microseconds.
const MOST_SECONDS: f64 = 1e11;

/// Names under which sites count GPUs.
const GPUS: [&str; 5] = ["gpu", "gpus", "ngpus", "num_gpu", "num_gpus"];
/// Names under which sites say the model of the GPUs.
const GPU_TYPES: [&str; 4] = ["gpu_type", "gpu_model", "gputype", "gpu_name"];

/// A line that never started and has no time.
const NO_TIMES: Reason = Reason {
    id: "no_times",
    what: "the record of a job that could not be started has no times, so there is nothing to be learned from it",
    remedy: "nothing to do; the field `failed` says why it could not be started",
};
/// A GPU request that is no number.
const GPU_FLAG: Reason = Reason {
    id: "gpu_flag",
    what: "the job asks for GPUs without saying how many; their number is unknown",
    remedy: "nothing to do; a resource that is true or false does not count",
};

/// Reads Grid Engine's accounting file.
#[derive(Debug)]
pub(crate) struct Sge;

impl Reader for Sge {
    fn id(&self) -> &'static str {
        "sge"
    }

    fn describes(&self) -> &'static str {
        "Grid Engine accounting file (Sun, Son of, Univa, Altair)"
    }

    fn sniff(&self, head: &Head) -> Confidence {
        let is_number = |text: &str| text.parse::<f64>().is_ok();
        let is_record = |line: &str| {
            let fields: Vec<&str> = line.split(':').collect();
            let numbers = [JOB_NUMBER, SUBMISSION, START, END, FAILED, EXIT_STATUS, WALLCLOCK, SLOTS, TASK_NUMBER];
            fields.len() >= FIELDS && numbers.iter().all(|at| fields.get(*at).copied().is_some_and(is_number))
        };
        if mostly_records(head, is_record) { Confidence::Sure } else { Confidence::No }
    }

    fn read(&self, files: &[SourceFile], options: &ReadOptions<'_>, trace: &mut Trace) -> Result<()> {
        read_records(files, options, trace, Accounting::record)
    }
}

/// A line cut into its fields.
pub(super) struct Fields<'a> {
    pub(super) fields: Vec<&'a str>,
    pub(super) category: &'a str,
    /// Place of `iow`, the field after `category`.
    pub(super) after: usize,
}

impl<'a> Fields<'a> {
    fn split(line: &'a str) -> Option<Self> {
        let fields: Vec<&str> = line.split(':').collect();
        if fields.len() < FIELDS {
            return None;
        }
        let is_number = |at: usize| fields.get(at).is_some_and(|field| field.trim().parse::<f64>().is_ok());
        let is_task = |at: usize| fields.get(at).is_some_and(|field| field::is_null(field) || is_pe_task(field));
        let ends = |at: &usize| is_number(*at) && is_task(at + PE_TASKID) && is_number(at + 2);
        let after = (CATEGORY + 1..fields.len().saturating_sub(2)).find(ends)?;
        let start: usize = fields.iter().take(CATEGORY).map(|field| field.len() + 1).sum();
        let length: usize = fields.iter().take(after).skip(CATEGORY).map(|field| field.len() + 1).sum();
        let category = line.get(start..(start + length).saturating_sub(1))?;
        Some(Self { fields, category, after })
    }

    fn at(&self, ix: usize) -> &'a str {
        self.fields.get(ix).copied().unwrap_or_default()
    }

    fn text(&self, ix: usize) -> Option<&'a str> {
        field::text(Some(self.at(ix)))
    }

    fn pe_task(&self) -> Option<&'a str> {
        self.text(self.after + PE_TASKID)
    }

    /// A time in seconds, milliseconds or microseconds; 0 is unknown.
    fn time(&self, ix: usize, name: &str, row: &mut RowAudit<'_>) -> Option<i64> {
        let value = field::amount(Some(self.at(ix)), name, row).filter(|value| *value > 0.0)?;
        let in_a_second = match value {
            _ if value > MOST_SECONDS * 1e3 => 1e6,
            _ if value > MOST_SECONDS => 1e3,
            _ => 1.0,
        };
        let ms = seconds_to_ms(value / in_a_second);
        if ms.is_none() {
            row.repair(reason::OUT_OF_RANGE, name, self.at(ix));
        }
        ms
    }
}

/// Whether a text is the identifier of a slave task: a number, a point and a host.
fn is_pe_task(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    let number = text.bytes().take_while(u8::is_ascii_digit).count();
    number > 0 && text.as_bytes().get(number) == Some(&b'.') && text.len() > number + 1 && text.bytes().all(plain)
}

/// Requests in the `qsub` options of a category.
#[derive(Debug, Default, PartialEq)]
struct Request<'a> {
    gpus: Option<f64>,
    /// Part that requests GPUs without a number, if any.
    flag: Option<&'a str>,
    /// Whether GPUs are wished for, which may have been given or not.
    wished: bool,
    gpu_type: Option<&'a str>,
    time_limit_s: Option<f64>,
    slots: Option<f64>,
}

impl<'a> Request<'a> {
    fn new(category: &'a str) -> Self {
        let mut request = Self::default();
        let mut words = category.split_whitespace();
        let mut soft = false;
        while let Some(word) = words.next() {
            match word {
                "-soft" => soft = true,
                "-hard" => soft = false,
                "-l" => {
                    let parts = words.next().unwrap_or_default().split(',');
                    if soft {
                        request.wished |= parts.into_iter().any(names_gpus);
                    } else {
                        parts.for_each(|part| request.resource(part));
                    }
                }
                "-pe" => request.slots = words.nth(1).and_then(|slots| slots.parse().ok()),
                _ => {}
            }
        }
        request
    }

    /// Whether the lack of a number of GPUs means none.
    fn says_all(&self) -> bool {
        self.flag.is_none() && !self.wished && (self.gpu_type.is_none() || self.gpus.is_some())
    }

    fn resource(&mut self, part: &'a str) {
        let (name, value) = part.split_once('=').unwrap_or((part, "true"));
        let name = name.to_ascii_lowercase();
        if GPUS.contains(&name.as_str()) {
            // A resource map may name what it wants: `gpu=2(v100)`.
            let digits = value.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(value.len());
            match value.get(..digits).and_then(|digits| digits.parse().ok()) {
                Some(count) => self.gpus = Some(count),
                None => self.flag = Some(part),
            }
        } else if GPU_TYPES.contains(&name.as_str()) {
            self.gpu_type = Some(value);
        } else if name == "h_rt" {
            self.time_limit_s = seconds(value);
        }
    }
}

/// Whether a part of a resource list is one of GPUs.
fn names_gpus(part: &str) -> bool {
    let name = part.split('=').next().unwrap_or_default().to_ascii_lowercase();
    GPUS.contains(&name.as_str()) || GPU_TYPES.contains(&name.as_str())
}

/// Seconds in `3600` or `[[H]:M]:S`; `INFINITY` is no limit.
fn seconds(text: &str) -> Option<f64> {
    let part = |text: &str| if text.is_empty() { Some(0.0) } else { text.parse::<f64>().ok() };
    let parts = text.split(':').map(part).collect::<Option<Vec<f64>>>()?;
    let seconds = match parts.as_slice() {
        [seconds] => *seconds,
        [minutes, seconds] => minutes * 60.0 + seconds,
        [hours, minutes, seconds] => hours * 3_600.0 + minutes * 60.0 + seconds,
        _ => return None,
    };
    (0.0..=1e12).contains(&seconds).then_some(seconds).filter(|seconds| *seconds > 0.0)
}

/// End state of the run of a line, and whether the job is to run again.
fn ended(
    failed: i64,
    exit: Option<i64>,
    ran: Option<(i64, i64)>,
    request: &Request<'_>,
    deleted: bool,
) -> (JobState, bool) {
    let over_limit = || {
        let ran_s = ran.map(|(start, end)| (end - start) as f64 / 1_000.0);
        ran_s.zip(request.time_limit_s).is_some_and(|(ran, limit)| ran >= limit)
    };
    match (failed, exit) {
        (24 | 25, _) => (JobState::Cancelled, true),
        // The master enforced the limit.
        (37, _) => (JobState::Timeout, false),
        (0, Some(0)) => (JobState::Completed, false),
        _ if deleted => (JobState::Cancelled, false),
        // 128 + SIGKILL, SIGTERM, SIGUSR1, SIGUSR2 or SIGXCPU: what ends a job at its limit, or on the way there.
        (_, Some(137 | 138 | 140 | 143 | 152)) if over_limit() => (JobState::Timeout, false),
        (100, Some(137 | 143)) => (JobState::Cancelled, false),
        (0, None) => (JobState::Unknown, false),
        _ => (JobState::Failed, false),
    }
}

/// Job, task and start of a job's line; its slaves carry the first two.
type Key = (u64, u64);

/// The records of all files.
#[derive(Debug, Default)]
pub(super) struct Accounting {
    assembly: Assembly,
    seen: SeenKeys,
    jobs: Vec<(Key, Parallel, Job)>,
    /// Hosts of slave tasks, with their start and end.
    slaves: HashMap<Key, Vec<Slave>>,
    by_the_slot: u64,
}

/// Reads files whose records `record` puts into the accounting, in either form.
///
/// # Errors
/// If a file cannot be opened, holds no record, or the time zone is unknown.
pub(super) fn read_records(
    files: &[SourceFile],
    options: &ReadOptions<'_>,
    trace: &mut Trace,
    record: fn(&mut Accounting, &str, RowAudit<'_>, &mut Trace),
) -> Result<()> {
    let zone = options.zone_or("UTC")?;
    let mut accounting = Accounting::default();
    for file in files {
        accounting.assembly.begin(file.name());
        each_record(file, options, trace, |text, audit, trace| record(&mut accounting, text, audit, trace))?;
    }
    trace.basis = TimeBasis::Utc;
    zone.name().clone_into(&mut trace.zone);
    accounting.finish(trace);
    Ok(())
}

/// Whether a job ran on more than its own host.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Parallel {
    No,
    Yes,
}

#[derive(Debug)]
struct Slave {
    host: Box<str>,
    start: Option<i64>,
}

impl Accounting {
    fn record(&mut self, text: &str, row: RowAudit<'_>, trace: &mut Trace) {
        // Lines of one character or less are no records.
        if text.trim().len() <= 1 {
            return;
        }
        match Fields::split(text) {
            Some(fields) => self.take(&fields, text, row, trace),
            None => trace.ledger.quarantine(&row, TOO_FEW_FIELDS, "", text),
        }
    }

    /// Takes the fields of one record, whose text is `text`.
    pub(super) fn take(&mut self, fields: &Fields<'_>, text: &str, mut row: RowAudit<'_>, trace: &mut Trace) {
        let Some(number) = fields.at(JOB_NUMBER).trim().parse::<u64>().ok().filter(|number| *number > 0) else {
            trace.ledger.quarantine(&row, reason::NO_KEY, "job_number", text);
            return;
        };
        let task = fields.at(TASK_NUMBER).trim().parse::<u64>().unwrap_or(0);
        let same = [SUBMISSION, START, END, FAILED, HOSTNAME].map(|ix| fields.at(ix)).join(":");
        if !self.seen.is_new(&format!("{number}.{task}:{same}:{}", fields.at(fields.after + PE_TASKID))) {
            trace.ledger.quarantine(&row, reason::DUPLICATE, "", text);
            return;
        }
        let start = fields.time(START, "start_time", &mut row);
        if fields.pe_task().is_some() {
            let slave = Slave { host: fields.at(HOSTNAME).into(), start };
            self.slaves.entry((number, task)).or_default().push(slave);
            trace.ledger.keep(row);
            return;
        }
        let submit = fields.time(SUBMISSION, "submission_time", &mut row);
        let end = fields.time(END, "end_time", &mut row);
        if submit.is_none() && start.is_none() && end.is_none() {
            trace.ledger.quarantine(&row, NO_TIMES, "submission_time", text);
            return;
        }
        let (parallel, mut job) = self.job(fields, [submit, start, end], &mut row);
        job.id = if task == 0 { number.to_string() } else { format!("{number}.{task}") };
        job.parent = (task > 0).then(|| number.to_string());
        self.assembly.check(&mut job, &mut row);
        trace.ledger.keep(row);
        self.jobs.push(((number, task), parallel, job));
    }

    fn job(
        &mut self,
        fields: &Fields<'_>,
        [submit, start, end]: [Option<i64>; 3],
        row: &mut RowAudit<'_>,
    ) -> (Parallel, Job) {
        let request = Request::new(fields.category);
        if let (Some(flag), None) = (request.flag, request.gpus) {
            row.repair(GPU_FLAG, "category", flag);
        }
        let failed = field::whole(Some(fields.at(FAILED)), "failed", row).unwrap_or(0);
        let exit = field::whole(Some(fields.at(EXIT_STATUS)), "exit_status", row);
        let slots = field::amount(Some(fields.at(SLOTS)), "slots", row).filter(|slots| *slots > 0.0);
        let deleted = fields.text(fields.after + QDEL_INFO).is_some_and(|info| info.contains('@'));
        let (state, again) = ended(failed, exit, start.zip(end), &request, deleted);
        let parallel = match fields.text(GRANTED_PE) {
            Some(_) if slots != Some(1.0) => Parallel::Yes,
            _ => Parallel::No,
        };
        if parallel == Parallel::Yes && request.gpus.is_some_and(|gpus| gpus > 0.0) {
            self.by_the_slot += 1;
        }
        let words = &mut self.assembly;
        let host = fields.text(HOSTNAME);
        let run = start.map(|start| Run {
            start: Some(start),
            end,
            ended_by: Some(state).filter(|state| *state != JobState::Unknown),
            reported_s: field::amount(Some(fields.at(WALLCLOCK)), "ru_wallclock", row).filter(|_| end.is_some()),
            // The request is all that is told; a job gets no more and no less.
            gpus: Gpus { count: request.gpus, listed: request.flag.is_none() },
            cpus: slots,
            nodes: words.nodes(host.map(NamedNode::plain).into_iter().collect(), "hostname", row),
            ..Run::default()
        });
        let state = match run {
            _ if again => JobState::Pending,
            // It could not be started: exit status and signal are of nothing.
            None if failed != 0 && state != JobState::Cancelled => JobState::Failed,
            _ => state,
        };
        // Sun Grid Engine calls the account of those who name none so.
        let account = fields.text(PROJECT).or_else(|| fields.text(ACCOUNT).filter(|account| *account != "sge"));
        let job = Job {
            user: words.word(fields.text(OWNER)),
            account: words.word(account),
            vc: words.word(fields.text(QNAME)),
            name: words.word(Some(fields.at(JOB_NAME)).filter(|name| !name.is_empty())),
            gpu_type: words.word(request.gpu_type),
            state: Some(state),
            reported_state: words.word(Some(&format!("failed {failed}"))),
            submit,
            end: if run.is_none() { end } else { None },
            time_limit_s: request.time_limit_s,
            exit_code: exit.filter(|_| run.is_some()),
            req_cpus: request.slots.or(slots),
            req_gpus: Gpus { count: request.gpus, listed: request.says_all() },
            runs: run.into_iter().collect(),
            ..Job::default()
        };
        (parallel, job)
    }

    pub(super) fn finish(mut self, trace: &mut Trace) {
        let mut in_part = 0u64;
        for (key, parallel, mut job) in std::mem::take(&mut self.jobs) {
            if let Some(run) = job.runs.last_mut() {
                let slaves = self.slaves.get(&key).map(Vec::as_slice).unwrap_or_default();
                let during = |slave: &&Slave| {
                    let (Some(at), Some(start)) = (slave.start, run.start) else { return true };
                    at >= start && run.end.is_none_or(|end| at <= end)
                };
                let hosts: Vec<&str> = slaves.iter().filter(during).map(|slave| &*slave.host).collect();
                if !hosts.is_empty() {
                    let master: Vec<String> = run.nodes.iter().map(|node| node.name.to_string()).collect();
                    let named = master.iter().map(String::as_str).chain(hosts).map(NamedNode::plain).collect();
                    // A slave's host that cannot be one leaves the hosts unknown; the row itself was kept.
                    run.nodes = self.assembly.nodes(named, "hostname", &mut RowAudit::new("", 0));
                } else if parallel == Parallel::Yes {
                    run.nodes.clear();
                    in_part += 1;
                }
            }
            self.assembly.add(job);
        }
        if !self.slaves.is_empty() {
            let jobs = counted(self.slaves.len() as u64, "parallel job", "parallel jobs");
            trace.note(format!("Slave tasks of {jobs} add their hosts to the job's and are no jobs."));
        }
        if in_part > 0 {
            let runs = counted(in_part, "parallel run", "parallel runs");
            trace.note(format!("The hosts of {runs} are unknown: the file names that of the master task only."));
        }
        if self.by_the_slot > 0 {
            let records = counted(self.by_the_slot, "record", "records");
            trace.note(format!(
                "GPUs of parallel jobs ({records}) are taken as those of the whole job. Where the complex is counted by the \
                 slot (consumable YES in complex(5)), they had more.",
            ));
        }
        let remedy = "they stand in the category as -l gpu=N, if the job asked for them so.";
        self.assembly.finish(remedy, trace);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LINE: &str = "gpu.q:n1:lab:ana:train:7:sge:0:1000:1060:1360:0:0:300:1:1:1:0:0:0:0:0:0:0:0:0:0:0:0:0:0:vision:\
                        defaultdepartment:smp:8:0:1.0:1.0:0.0:-l gpu=2,h_rt=01:00:00 -pe smp 8:0.000000:NONE:1.0:0:0";

    #[test]
    fn a_category_may_hold_colons() {
        let fields = Fields::split(LINE).unwrap();
        assert_eq!(fields.category, "-l gpu=2,h_rt=01:00:00 -pe smp 8");
        assert_eq!((fields.at(fields.after), fields.pe_task()), ("0.000000", None));
        assert_eq!((fields.text(GRANTED_PE), fields.at(SLOTS), fields.at(TASK_NUMBER)), (Some("smp"), "8", "0"));
        let moved = LINE.replace("-l gpu=2,h_rt=01:00:00 -pe", "-l h_rt=01:00:00,h_vmem=1.5G,gpu=2 -pe");
        assert_eq!(Request::new(Fields::split(&moved).unwrap().category).gpus, Some(2.0));
        let slave = LINE.replace(":NONE:1.0:", ":1.n2:1.0:");
        assert_eq!(Fields::split(&slave).unwrap().pe_task(), Some("1.n2"));
        assert!(Fields::split("a:b:c").is_none());
    }

    #[test]
    fn requests_are_read_and_wishes_are_not() {
        let request = Request::new("-u ana -l gpu=2,h_rt=3600,gpu_type=v100 -pe smp 8 -soft -l gpu=9");
        assert_eq!((request.gpus, request.time_limit_s, request.slots), (Some(2.0), Some(3_600.0), Some(8.0)));
        assert_eq!(request.gpu_type, Some("v100"));
        assert_eq!(Request::new("-l ngpus=1(a100)").gpus, Some(1.0));
        assert_eq!((Request::new("-l gpu=true").gpus, Request::new("-l gpu").flag), (None, Some("gpu")));
        assert_eq!(Request::new("-l gpumem=4,h_rt=INFINITY -pe mpi 4-8"), Request::default());
        // A wish and a model without a number leave open how many there were.
        let says_all = |category: &str| Request::new(category).says_all();
        assert!(says_all("-l h_rt=1") && says_all("-l gpu=1,gpu_type=v100"));
        assert!(!says_all("-soft -l gpu=1") && !says_all("-l gpu_type=v100") && !says_all("-l gpu"));
        assert_eq!((seconds("01:00:00"), seconds(":30"), seconds("1:2:3:4")), (Some(3_600.0), Some(30.0), None));
    }

    #[test]
    fn failures_and_exit_statuses_become_states() {
        let of = |failed, exit, ran_s: i64, limit_s, deleted| {
            let request = Request { time_limit_s: limit_s, ..Request::default() };
            ended(failed, Some(exit), Some((0, ran_s * 1_000)), &request, deleted)
        };
        assert_eq!(of(0, 0, 5, None, false), (JobState::Completed, false));
        assert_eq!(of(0, 1, 5, None, false), (JobState::Failed, false));
        assert_eq!(of(100, 137, 60, Some(60.0), false), (JobState::Timeout, false));
        assert_eq!(of(100, 137, 59, Some(60.0), false), (JobState::Cancelled, false));
        assert_eq!(of(100, 139, 5, None, false), (JobState::Failed, false));
        assert_eq!(of(100, 152, 5, None, true), (JobState::Cancelled, false));
        assert_eq!(of(25, 0, 5, None, false), (JobState::Cancelled, true));
        assert_eq!(of(37, 137, 5, None, false), (JobState::Timeout, false));
        assert_eq!(of(26, 0, 0, None, false), (JobState::Failed, false));
    }

    #[test]
    fn milliseconds_are_told_from_seconds_by_their_size() {
        let mut row = RowAudit::new("f", 1);
        let seconds = Fields::split(LINE).unwrap();
        assert_eq!(seconds.time(START, "start_time", &mut row), Some(1_060_000));
        let micros = LINE.replace(":1060:", ":1714982460000000:");
        assert_eq!(Fields::split(&micros).unwrap().time(START, "start_time", &mut row), Some(1_714_982_460_000));
        let line = LINE.replace(":1060:", ":1700000060123:").replace(":1000:", ":0:");
        let millis = Fields::split(&line).unwrap();
        assert_eq!(millis.time(START, "start_time", &mut row), Some(1_700_000_060_123));
        assert_eq!(millis.time(SUBMISSION, "submission_time", &mut row), None);
        assert!(row.is_clean());
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[0-9a-z:=, é.-]{0,60}", category in "[0-9a-z:=, é(-]{0,30}") {
            let _ = (Fields::split(&text), Request::new(&category), seconds(&category));
            let _ = Fields::split(&LINE.replace("-l gpu=2", &category));
        }
    }
}
