//! IBM Spectrum LSF's job log `lsb.acct`.
//!
//! The log lies in `$LSB_SHAREDIR/CLUSTER/logdir`, older parts as `lsb.acct.N`. A line is a record of fields separated by
//! blanks; strings stand in double quotes, and a quote within is doubled. Sources: `lsb.acct(5)` for the record types and
//! the order of fields; `bacct(1)`, "Termination reasons", for `exitInfo`; `bsub(1)` for `-gpu`. Other types than `JOB_FINISH`
//! (resized jobs, advance reservations) make no job. The text of `bacct -l` is not read: it has no year.
//!
//! * `JOB_FINISH` fields, in order: type, version, event time (the end), job, user, options, processors, submission, begin
//!   time (not before), deadline, start, user name, queue, resource requirement, dependency, pre-execution command,
//!   submission host, folder, three files, job file, number of hosts asked for and these, number of hosts given and these
//!   (each as often as it gave slots, or `16*host`), status (32 `EXIT`, 64 `DONE`), CPU factor, job name, command, 19 of
//!   resource usage, mail user, project, exit status (as `wait(2)` has it), most processors, shell, time event, array index,
//!   memory, swap, spool files, reservation, service class, exceptions, placement, `exitInfo`, and more.
//! * Later fields differ by version. After the job description come pairs of the submission, usage by host, three numbers and
//!   the effective resource requirement. The manual page names these numbers flags, run limit, average memory; in the logs of
//!   9.1 and 10.1 the run limit is the first (43,200 for `-W 12:00`), and so it is read.
//! * Times are seconds since the epoch; 0 is unknown. A job without a start ended while it waited.
//! * Records of one job and submission are attempts: `exitInfo` 10 and 11 say that it was killed and queued again.
//! * GPUs, the first that says how many: `ngpus_physical` in the effective requirement, in the user's own, the `-gpu` option
//!   among the pairs of the submission, or in the script that LSF keeps as the command. Where the effective requirement is
//!   there and names none, the job has none. Usage by GPU (`gRusage`) has no documented keys and is not read.
//!
//! Worked number: start 1000, end 1600, hosts `"2*n1" "2*n2"`, `rusage[ngpus_physical=2.00]`: 600 s on 2 hosts of 2 slots,
//! 2 × 2 = 4 GPUs. O(bytes + n log n).

mod record;
mod request;

use std::collections::HashMap;

use self::record::{Finish, Tail, fields};
use self::request::{Asked, GpuRequest, Per, of_command, of_gpu_option, of_requirement};
use super::job::{Assembly, Gpus, Job, NamedNode, Run};
use super::line::{TOO_FEW_FIELDS, each_record, mostly_records};
use crate::error::Result;
use crate::ingest::field::{self, Moment};
use crate::ingest::{Confidence, Head, ReadOptions, Reader, SeenKeys, SourceFile};
use crate::quality::{Reason, RowAudit, reason};
use crate::report::format::counted;
use crate::schema::JobState;
use crate::time::TimeBasis;
use crate::trace::Trace;

/// Record types of the log.
const TYPES: [&str; 3] = ["\"JOB_FINISH\" ", "\"JOB_RESIZE\" ", "\"EVENT_ADRSV_FINISH\" "];

/// Termination reasons by number.
const TERMS: [&str; 34] = [
    "TERM_UNKNOWN",
    "TERM_PREEMPT",
    "TERM_WINDOW",
    "TERM_LOAD",
    "TERM_OTHER",
    "TERM_RUNLIMIT",
    "TERM_DEADLINE",
    "TERM_PROCESSLIMIT",
    "TERM_FORCE_OWNER",
    "TERM_FORCE_ADMIN",
    "TERM_REQUEUE_OWNER",
    "TERM_REQUEUE_ADMIN",
    "TERM_CPULIMIT",
    "TERM_CHKPNT",
    "TERM_OWNER",
    "TERM_ADMIN",
    "TERM_MEMLIMIT",
    "TERM_EXTERNAL_SIGNAL",
    "TERM_RMS",
    "TERM_ZOMBIE",
    "TERM_SWAP",
    "TERM_THREADLIMIT",
    "TERM_SLURM",
    "TERM_BUCKET_KILL",
    "TERM_CTRL_PID",
    "TERM_CWD_NOTEXIST",
    "TERM_REMOVE_HUNG_JOB",
    "TERM_ORPHAN_SYSTEM",
    "TERM_PRE_EXEC_FAIL",
    "TERM_DATA",
    "TERM_MC_RECALL",
    "TERM_RC_RECLAIM",
    "TERM_CSM_ALLOC",
    "TERM_KUBE",
];

/// A line that is not in the log's notation.
const NOT_A_RECORD: Reason = Reason {
    id: "malformed_row",
    what: "the line is no record of lsb.acct: a quote is open, or two fields are not separated",
    remedy: "fetch the log again; the last line of a log that is still written may be cut",
};
/// Fields after the job description in an order we do not know.
const UNKNOWN_TAIL: Reason = Reason {
    id: "unknown_tail",
    what: "the fields after the job description cannot be told apart; run limit and effective requirement are unknown",
    remedy: "report the version in the second field to the maintainers of tracecast",
};
/// GPUs of a requirement with several parts.
const UNCLEAR_REQUIREMENT: Reason = Reason {
    id: "unclear_requirement",
    what: "the resource requirement names GPUs in a way that is not understood; the job's GPUs are unknown",
    remedy: "say how your site writes it",
};
const SEVERAL_REQUIREMENTS: Reason = Reason {
    id: "several_requirements",
    what: "the job has a compound or alternative resource requirement; its GPUs are unknown",
    remedy: "nothing to do; the log does not say which part was met by how many slots",
};

/// Reads LSF.
#[derive(Debug)]
pub(crate) struct Lsf;

impl Reader for Lsf {
    fn id(&self) -> &'static str {
        "lsf"
    }

    fn describes(&self) -> &'static str {
        "IBM Spectrum LSF job log: lsb.acct (JOB_FINISH records)"
    }

    fn sniff(&self, head: &Head) -> Confidence {
        let is_record = |line: &str| TYPES.iter().any(|name| line.starts_with(name));
        if mostly_records(head, is_record) { Confidence::Sure } else { Confidence::No }
    }

    fn read(&self, files: &[SourceFile], options: &ReadOptions<'_>, trace: &mut Trace) -> Result<()> {
        let zone = options.zone_or("UTC")?;
        let mut log = Log::default();
        for file in files {
            log.assembly.begin(file.name());
            each_record(file, options, trace, |text, audit, trace| log.record(text, audit, trace))?;
        }
        trace.basis = TimeBasis::Utc;
        zone.name().clone_into(&mut trace.zone);
        log.finish(trace);
        Ok(())
    }
}

/// End state of a record's run, and whether the job is to run again.
fn ended(status: i64, exit_info: i64, started: bool) -> (JobState, bool) {
    if status & 64 != 0 {
        return (JobState::Completed, false);
    }
    let state = match exit_info {
        10 | 11 => return (JobState::Cancelled, true),
        5 | 6 | 12 => JobState::Timeout,
        16 | 20 => JobState::OutOfMemory,
        1 | 30 | 31 => JobState::Preempted,
        // By its owner or an administrator, a queue's window or load, or as what it waited for failed.
        2 | 3 | 8 | 9 | 14 | 15 | 23 | 26 | 27 => JobState::Cancelled,
        19 => JobState::NodeFail,
        _ if !started => JobState::Cancelled,
        _ if status & 32 != 0 => JobState::Failed,
        _ => JobState::Unknown,
    };
    (state, false)
}

/// The exit code in a status as `wait(2)` has it; 128 and the signal for a job that a signal ended.
fn exit_code(status: i64) -> i64 {
    match status & 0x7f {
        0 => (status >> 8) & 0xff,
        signal => 128 + signal,
    }
}

/// Hosts with their slots, each once, in the order named: `16*n1`, or `n1` for each slot.
fn slots<'f>(named: &[&'f str]) -> Vec<(&'f str, f64)> {
    let mut hosts: Vec<(&str, f64)> = Vec::new();
    let mut at: HashMap<&str, usize> = HashMap::new();
    for name in named.iter().copied() {
        let (count, host) = name
            .split_once('*')
            .and_then(|(count, host)| Some((count.parse::<u32>().ok()?, host)))
            .unwrap_or((1, name));
        let ix = *at.entry(host).or_insert(hosts.len());
        match hosts.get_mut(ix) {
            Some((_, slots)) => *slots += f64::from(count),
            None => hosts.push((host, f64::from(count))),
        }
    }
    hosts
}

#[derive(Debug, Default)]
struct Log {
    assembly: Assembly,
    seen: SeenKeys,
    others: u64,
    per_host: bool,
}

impl Log {
    fn record(&mut self, text: &str, mut row: RowAudit<'_>, trace: &mut Trace) {
        let Some(fields) = fields(text) else {
            trace.ledger.quarantine(&row, NOT_A_RECORD, "", text);
            return;
        };
        match fields.first() {
            Some(kind) if kind.quoted && kind.text == "JOB_FINISH" => {}
            Some(kind) if kind.quoted => {
                self.others += 1;
                trace.ledger.keep(row);
                return;
            }
            _ => {
                trace.ledger.quarantine(&row, NOT_A_RECORD, "", text);
                return;
            }
        }
        let Some(finish) = Finish::read(&fields) else {
            trace.ledger.quarantine(&row, TOO_FEW_FIELDS, "", text);
            return;
        };
        let Some(number) = finish.job.parse::<u64>().ok().filter(|number| *number > 0) else {
            trace.ledger.quarantine(&row, reason::NO_KEY, "jobId", text);
            return;
        };
        let index = finish.index.parse::<u64>().unwrap_or(0);
        let same = format!("{number}[{index}]{} {} {}", finish.submit, finish.start, finish.end);
        if !self.seen.is_new(&same) {
            trace.ledger.quarantine(&row, reason::DUPLICATE, "", text);
            return;
        }
        let mut job = self.job(&finish, &mut row);
        job.id = if index == 0 { number.to_string() } else { format!("{number}[{index}]") };
        job.parent = (index > 0).then(|| number.to_string());
        self.assembly.check(&mut job, &mut row);
        trace.ledger.keep(row);
        self.assembly.add(job);
    }

    fn job(&mut self, finish: &Finish<'_>, row: &mut RowAudit<'_>) -> Job {
        if finish.has_tail && finish.tail.is_none() {
            row.repair(UNKNOWN_TAIL, "", "");
        }
        let time = |text: &str, name: &str, row: &mut RowAudit<'_>| {
            Moment::Seconds.read(Some(text), name, row).filter(|ms| *ms > 0)
        };
        let submit = time(finish.submit, "submitTime", row);
        let begin = time(finish.begin, "beginTime", row);
        let start = time(finish.start, "startTime", row);
        let end = time(finish.end, "Event Time", row);
        let status = field::whole(Some(finish.status), "jStatus", row).unwrap_or(0);
        let exit_info = field::whole(finish.exit_info, "exitInfo", row).unwrap_or(0);
        let exit = field::whole(Some(finish.exit_status), "exitStatus", row).filter(|status| *status >= 0);
        let processors = field::amount(Some(finish.processors), "numProcessors", row).filter(|many| *many > 0.0);
        let (state, again) = ended(status, exit_info, start.is_some());
        let hosts = slots(&finish.hosts);
        let tail = finish.tail.unwrap_or_default();
        let (request, listed) = gpus_asked(finish, tail, row);
        let given: f64 = hosts.iter().map(|(_, slots)| slots).sum();
        // A job that never ran has no hosts to count; one that must be on one host has one.
        let one = processors == Some(1.0)
            || [tail.requirement, finish.requirement].iter().any(|text| text.contains("span[hosts=1]"));
        let of_hosts = (!hosts.is_empty()).then_some(hosts.len() as f64).or(one.then_some(1.0));
        let tasks = Some(given).filter(|given| *given > 0.0).or(processors);
        let gpus = Gpus { count: request.and_then(|request| request.total(of_hosts, tasks)), listed };
        self.per_host |= request.is_some_and(|request| request.per == Per::Host && request.count > 0.0);
        let on_host = |slots: f64| match request {
            Some(request) if request.per != Per::Job => request.total(Some(1.0), Some(slots)),
            _ => None,
        };
        let named = hosts.iter().map(|&(name, slots)| NamedNode { name, gpus: on_host(slots), gpu_id: None }).collect();
        let words = &mut self.assembly;
        let nodes = if start.is_some() { words.nodes(named, "execHosts", row) } else { Vec::new() };
        let run = start.map(|start| Run {
            start: Some(start),
            end,
            ended_by: Some(state).filter(|state| *state != JobState::Unknown),
            reported_s: field::amount(tail.run_s, "runTime", row),
            gpus,
            cpus: Some(given).filter(|given| *given > 0.0),
            nodes,
            ..Run::default()
        });
        let term = usize::try_from(exit_info).ok().and_then(|ix| TERMS.get(ix)).copied().unwrap_or("TERM_UNKNOWN");
        let reported = match status {
            _ if status & 64 != 0 => "DONE".to_owned(),
            _ if status & 32 != 0 => format!("EXIT {term}"),
            other => other.to_string(),
        };
        Job {
            user: words.word(field::text(Some(finish.user))),
            // The name of the project of a job that names none.
            account: words.word(field::text(Some(finish.project)).filter(|name| *name != "default")),
            vc: words.word(field::text(Some(finish.queue))),
            qos: words.word(field::text(Some(finish.service_class))),
            name: words.word(Some(finish.name).filter(|name| !name.is_empty())),
            gpu_type: words.word(request.and_then(|request| request.gpu_type)),
            depends_on: words.word(field::text(Some(finish.dependency))),
            state: Some(if again { JobState::Pending } else { state }),
            reported_state: words.word(Some(&reported)),
            submit,
            eligible: begin.filter(|begin| submit.is_none_or(|submit| submit < *begin)),
            end: if run.is_none() { end } else { None },
            time_limit_s: tail.run_limit.parse::<f64>().ok().filter(|limit| (1.0..=1e12).contains(limit)),
            exit_code: exit.filter(|_| run.is_some()).map(exit_code),
            req_cpus: processors,
            req_gpus: gpus,
            runs: run.into_iter().collect(),
            ..Job::default()
        }
    }

    fn finish(self, trace: &mut Trace) {
        if self.others > 0 {
            let records = counted(self.others, "record", "records");
            trace.note(format!("No job is made of {records} of resized jobs and advance reservations."));
        }
        if self.per_host {
            trace.note(
                "GPU numbers without /task or /job are counted per host, LSF's default; with RESOURCE_RESERVE_PER_TASK=Y \
                 they are per task, which the log does not tell.",
            );
        }
        let remedy = "the log has them from the effective resource requirement on (LSF 9.1.2), or in the -gpu option.";
        self.assembly.finish(remedy, trace);
    }
}

/// The GPUs a record asks for, and whether naming none means having none.
fn gpus_asked<'f>(finish: &'f Finish<'_>, tail: Tail<'f>, row: &mut RowAudit<'_>) -> (Option<GpuRequest<'f>>, bool) {
    let mut several = false;
    let mut unclear = None;
    for text in [tail.requirement, finish.requirement] {
        match of_requirement(text) {
            Asked::Some(request) => return (Some(request), false),
            Asked::Several => several = true,
            Asked::Unclear => unclear = unclear.or(Some(text)),
            Asked::None => {}
        }
    }
    if let Some(text) = unclear {
        row.repair(UNCLEAR_REQUIREMENT, "effectiveResReq", text);
        return (None, false);
    }
    if several {
        row.repair(SEVERAL_REQUIREMENTS, "effectiveResReq", tail.requirement);
        return (None, false);
    }
    let option = finish.pairs.iter().find_map(|value| of_gpu_option(value)).or_else(|| of_command(finish.command));
    // The effective requirement is whole: where nothing names GPUs, there are none.
    let listed = option.is_none() && !tail.requirement.is_empty();
    (option, listed)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const USAGE: &str = "1.5 0.5 -1 0 -1 0 0 0 0 0 0 0 -1 0 0 0 0 0 -1";

    fn line(hosts: &str, command: &str, tail: &str) -> String {
        format!(
            "\"JOB_FINISH\" \"10.1\" 1600 7 501 0 4 900 0 0 1000 \"ana\" \"gpu\" \"\" \"\" \"\" \"login\" \"/home\" \"\" \"\" \
             \"\" \"900.7\" 0 {hosts} 64 60.0 \"train\" \"{command}\" {USAGE} \"\" \"vision\" 0 4 \"\" \"\" 0 2048 0 \"\" \"\" \
             \"\" \"\" 0 \"\" 0 \"\" -1 \"\" \"\" \"\" \"\" -1 \"\" \"\" 1024 \"\" 0 \"\" \"\" {tail}"
        )
    }

    fn job(line: &str) -> Job {
        let fields = fields(line).unwrap();
        let finish = Finish::read(&fields).unwrap();
        Log::default().job(&finish, &mut RowAudit::new("f", 1))
    }

    // The worked number of the module; usage by host with pairs of its own and without.
    #[test]
    fn the_effective_requirement_is_found_whatever_the_usage_by_host() {
        let after = "43200 0 8688 \"rusage[ngpus_physical=2.00]\" \"\" -1 \"\" -1 0 \"\" 0 0 \"\" 599";
        for usage in ["0", "2 n1 5 0 1 1 0 n2 5 0 1 1 0", "2 n1 5 0 1 1 1 k v n2 5 0 1 1 0", "1 \"n1\" 5 0 1 1"] {
            let job = job(&line("2 \"2*n1\" \"2*n2\"", "run", &format!("1 1032 \"0\" {usage} {after}")));
            assert_eq!(job.req_gpus.count, Some(4.0), "{usage}");
            assert_eq!((job.time_limit_s, job.runs[0].reported_s), (Some(43_200.0), Some(599.0)), "{usage}");
            assert_eq!((job.runs[0].cpus, job.runs[0].nodes.len()), (Some(4.0), 2));
            assert!(job.runs[0].nodes.iter().all(|node| node.gpus == Some(2.0)));
        }
    }

    #[test]
    fn without_an_effective_requirement_the_option_tells_or_nothing_does() {
        let gpus = |command: &str, tail: &str| job(&line("1 \"n1\"", command, tail)).req_gpus;
        assert_eq!(gpus("run", "1 1044 \"num=2:mode=shared\" 0"), Gpus { count: Some(2.0), listed: false });
        let script = "#!/bin/sh;#BSUB -gpu \"\"num=4\"\";run";
        assert_eq!(gpus(script, "0"), Gpus { count: Some(4.0), listed: false });
        assert_eq!(gpus("run", "0"), Gpus { count: None, listed: false });
        assert_eq!(gpus("run", "0 0 -1 0 1024 \"select[type == any] \""), Gpus { count: None, listed: true });
        let several = "0 0 -1 0 1024 \"{rusage[ngpus_physical=1]} || {rusage[ngpus_physical=2]}\"";
        assert_eq!(gpus("run", several), Gpus { count: None, listed: false });
    }

    #[test]
    fn hosts_states_and_exit_codes() {
        assert_eq!(slots(&["16*n1", "n2", "n2"]), [("n1", 16.0), ("n2", 2.0)]);
        assert_eq!(ended(64, 0, true), (JobState::Completed, false));
        assert_eq!(ended(192, 0, true), (JobState::Completed, false));
        assert_eq!(ended(32, 5, true), (JobState::Timeout, false));
        assert_eq!(ended(32, 16, true), (JobState::OutOfMemory, false));
        assert_eq!(ended(32, 14, false), (JobState::Cancelled, false));
        assert_eq!(ended(32, 0, false), (JobState::Cancelled, false));
        assert_eq!(ended(32, 0, true), (JobState::Failed, false));
        assert_eq!(ended(32, 10, true), (JobState::Cancelled, true));
        assert_eq!((exit_code(65_280), exit_code(256), exit_code(9), exit_code(0)), (255, 1, 137, 0));
    }

    #[test]
    fn a_record_that_is_cut_is_none() {
        let whole = line("1 \"n1\"", "run", "0");
        let upto = whole.find("\"vision\"").unwrap();
        assert!(Finish::read(&fields(&whole[..upto]).unwrap()).is_none());
        // A count of hosts beyond the end of the line.
        let wrong = line("99999999999 \"n1\"", "run", "0");
        assert!(Finish::read(&fields(&wrong).unwrap()).is_none());
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[0-9a-z\" *é-]{0,60}") {
            if let Some(fields) = fields(&text) {
                let _ = Finish::read(&fields);
            }
            let line = line("1 \"n1\"", "run", &text);
            if let Some(fields) = fields(&line)
                && let Some(finish) = Finish::read(&fields)
            {
                let _ = Log::default().job(&finish, &mut RowAudit::new("f", 1));
            }
        }
    }
}
