//! HTCondor: job ClassAds, as `condor_history -long`, `-json` and `-jsonl` print them and the schedd's history file holds them.
//!
//! In text an ad is a line `Name = value` for each attribute. Ads are divided by blank lines (`-long`) or by a banner that
//! follows each (`*** Offset = 0 ClusterId = 12 ProcId = 0 …`, in the history file). Names know no case, and a repeated
//! attribute counts with its last value. `condor_q -long` gives the jobs that wait and run. Source: HTCondor Manual, "Job
//! ClassAd Attributes" and `condor_history(1)`.
//!
//! * `QDate` is the submission, `JobStartDate` the first start, `JobCurrentStartDate` the last, `CompletionDate` the end of a
//!   completed job, `EnteredCurrentStatus` that of a removed one. All are seconds since the epoch, 0 is unknown.
//! * `JobStatus`: 1 idle, 2 running, 3 removed, 4 completed, 5 held, 6 transferring output, 7 suspended. A held job waits.
//! * `RemoteWallClockTime` is the time of all runs, with that suspended (`CumulativeSuspensionTime`), in which the job
//!   keeps its slot. `NumJobStarts` counts the runs, whose first and last are known: the runs between them have no times.
//! * GPUs: `GPUsProvisioned`, the devices in `AssignedGPUs`, else `RequestGpus`. An expression in place of a number is
//!   unknown. An ad that asks for CPUs and no GPUs has 0, if others of the same schedd name some.
//! * Jobs of the scheduler and local universes (7, 12), such as DAGMan, run on the submit machine and are no jobs here.
//! * A cluster is the schedd, which `GlobalJobId` names, as each schedd counts jobs by itself.
//!
//! Of several ads of a job, the one with the latest status counts. Worked number: `QDate` 1000, `JobStartDate` 1060,
//! `JobCurrentStartDate` 2000, `CompletionDate` 2300, `NumJobStarts` 2, `RemoteWallClockTime` 330: the last run took 300 s, so
//! the first ran 30 s, from 1060 to 1090. O(bytes + n log n); one ad is in memory beside the rows.

use std::collections::HashMap;

use serde_json::Value;

use super::job::{Assembly, Gpus, Job, NamedNode, Run, Snapshots};
use crate::error::Result;
use crate::ingest::document::{self, Sink};
use crate::ingest::field::{self, MIB, Moment};
use crate::ingest::{Confidence, Head, ReadOptions, Reader, SourceFile};
use crate::quality::{Ledger, Reason, RowAudit, reason};
use crate::report::format::counted;
use crate::schema::JobState;
use crate::time::{SECOND_MS, TimeBasis, seconds_to_ms};
use crate::trace::Trace;

/// Attributes that are read, in lower case.
const READ: [&str; 40] = [
    "acctgroup",
    "accountinggroup",
    "allowedexecuteduration",
    "allowedjobduration",
    "allremotehosts",
    "assignedgpus",
    "clusterid",
    "cmd",
    "completiondate",
    "cpusprovisioned",
    "cumulativesuspensiontime",
    "enteredcurrentstatus",
    "exitbysignal",
    "exitcode",
    "globaljobid",
    "gpusprovisioned",
    "holdreason",
    "jobbatchname",
    "jobcurrentstartdate",
    "jobruncount",
    "jobstartdate",
    "jobstatus",
    "jobuniverse",
    "lastremotehost",
    "lastremotewallclocktime",
    "machineattrgpus_devicename0",
    "maxhosts",
    "memoryprovisioned",
    "numjobstarts",
    "numshadowstarts",
    "owner",
    "procid",
    "projectname",
    "qdate",
    "remotehost",
    "remotewallclocktime",
    "requestcpus",
    "requestgpus",
    "requestmemory",
    "user",
];
/// Universes whose jobs run on the submit machine.
const LOCAL_UNIVERSES: [&str; 2] = ["7", "12"];
/// A line within an ad that is no attribute.
const NOT_AN_ATTRIBUTE: Reason = Reason {
    id: "not_an_attribute",
    what: "a line of the ad is no attribute (Name = value); it is passed over",
    remedy: "check the place in the source; the last line of a file that is still written may be cut",
};
/// A number that is an expression.
const EXPRESSION: Reason = Reason {
    id: "expression",
    what: "an attribute holds an expression in place of a number, which only the pool can evaluate; it is unknown",
    remedy: "nothing to do; GPUsProvisioned and CpusProvisioned hold the value for jobs that ran",
};

/// Reads job ClassAds.
#[derive(Debug)]
pub(crate) struct HtCondor;

impl Reader for HtCondor {
    fn id(&self) -> &'static str {
        "htcondor"
    }

    fn describes(&self) -> &'static str {
        "HTCondor jobs: condor_history or condor_q -long, -json or -jsonl, and the schedd's history file"
    }

    fn sniff(&self, head: &Head) -> Confidence {
        let text = head.text.trim_start();
        let is_json = text.starts_with(['[', '{']);
        // In JSON a name stands in quotes.
        let has = |name: &str| {
            let line = |line: &str| line.split_once('=').is_some_and(|(key, _)| key.trim().eq_ignore_ascii_case(name));
            if is_json { text.contains(&format!("\"{name}\"")) } else { text.lines().any(line) }
        };
        let known = ["ClusterId", "ProcId", "JobStatus", "QDate", "Owner"].into_iter().filter(|name| has(name)).count();
        if has("ClusterId") && known >= 3 { Confidence::Sure } else { Confidence::No }
    }

    fn read(&self, files: &[SourceFile], options: &ReadOptions<'_>, trace: &mut Trace) -> Result<()> {
        let mut assembly = Assembly::default();
        let (mut jobs, mut local) = (Snapshots::new(), 0);
        for file in files {
            assembly.begin(file.name());
            let (words, jobs, local, ledger) = (&mut assembly, &mut jobs, &mut local, &mut trace.ledger);
            let mut history = History { file: file.name(), number: 0, words, jobs, local, ledger };
            if file.head()?.text.trim_start().starts_with(['[', '{']) {
                let remedy = "export with `condor_history -json` again";
                document::read(file, options, &[], "a document of `condor_history -json`", remedy, &mut history)?;
            } else {
                history.read_text(file, options)?;
            }
        }
        trace.basis = TimeBasis::Utc;
        options.zone_or("UTC")?.name().clone_into(&mut trace.zone);
        if local > 0 {
            let jobs = counted(local, "job", "jobs");
            trace.note(format!(
                "{jobs} of the scheduler and local universes ran on the submit machine and are left out."
            ));
        }
        for job in jobs.into_jobs() {
            assembly.add(job);
        }
        assembly.finish("jobs ask for them with request_gpus.", trace);
        Ok(())
    }
}

/// The attributes of an ad that are read: names in lower case, values as they are written.
#[derive(Debug, Default)]
struct Ad(HashMap<&'static str, String>);

impl Ad {
    fn put(&mut self, name: &str, value: &str) {
        let name = name.to_ascii_lowercase();
        if let Some(name) = READ.into_iter().find(|known| *known == name) {
            self.0.insert(name, value.trim().to_owned());
        }
    }

    /// A known value as it is written; `undefined` and `error` are none.
    fn raw(&self, name: &str) -> Option<&str> {
        let value = field::text(self.0.get(name).map(String::as_str))?;
        let is_none = ["undefined", "error", "\"\""].iter().any(|none| value.eq_ignore_ascii_case(none));
        (!is_none).then_some(value)
    }

    /// A text without its quotes.
    fn text(&self, name: &str) -> Option<String> {
        let value = self.raw(name)?;
        let bare = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value);
        field::text(Some(&bare.replace("\\\"", "\""))).map(str::to_owned)
    }

    /// A number that is not negative; an expression is unknown, and noted.
    fn amount(&self, name: &str, row: &mut RowAudit<'_>) -> Option<f64> {
        let value = self.raw(name)?;
        if value.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.'))
            && value.parse::<f64>().is_ok()
        {
            return field::amount(Some(value), name, row);
        }
        row.repair(EXPRESSION, name, value);
        None
    }

    /// A number that the pool has evaluated, where there is one.
    fn evaluated(&self, name: &str) -> Option<f64> {
        self.raw(name)?.parse::<f64>().ok().filter(|number| (0.0..=1e15).contains(number))
    }

    /// A time in seconds since the epoch; 0 is unknown.
    fn moment(&self, name: &str, row: &mut RowAudit<'_>) -> Option<i64> {
        Moment::Seconds.read(self.raw(name), name, row).filter(|ms| *ms > 0)
    }
}

/// Takes ads as they are read.
struct History<'a> {
    file: &'a str,
    number: u64,
    words: &'a mut Assembly,
    /// Jobs, ranked by when they took their status, whether they are over, and their runs.
    jobs: &'a mut Snapshots<(bool, Option<i64>, i64)>,
    local: &'a mut u64,
    ledger: &'a mut Ledger,
}

impl Sink for History<'_> {
    fn element(&mut self, value: Value) {
        self.number += 1;
        let row = RowAudit::new(self.file, self.number);
        let Some(fields) = value.as_object() else {
            self.ledger.quarantine(&row, reason::MALFORMED, "", &value.to_string());
            return;
        };
        let mut ad = Ad::default();
        for (name, value) in fields {
            match value {
                Value::String(text) => ad.put(name, text),
                Value::Number(_) | Value::Bool(_) => ad.put(name, &value.to_string()),
                _ => {}
            }
        }
        self.ad(&ad, row);
    }

    fn ledger(&mut self) -> &mut Ledger {
        self.ledger
    }
}

impl History<'_> {
    fn read_text(&mut self, file: &SourceFile, options: &ReadOptions<'_>) -> Result<()> {
        let mut lines = file.lines(options.observer)?;
        let mut open: Option<(Ad, RowAudit<'_>)> = None;
        while let Some((number, bytes)) = lines.next_line() {
            let text = String::from_utf8_lossy(bytes);
            let line = text.trim();
            if line.is_empty() || line.starts_with("***") {
                if let Some((ad, row)) = open.take() {
                    self.ad(&ad, row);
                }
                continue;
            }
            // `-- Schedd: name : <address>` stands above the ads of a schedd.
            if line.starts_with("--") || line.starts_with('#') {
                continue;
            }
            let (ad, row) = open.get_or_insert_with(|| (Ad::default(), RowAudit::new(self.file, number)));
            match line.split_once('=').map(|(name, value)| (name.trim(), value)).filter(|(name, _)| is_name(name)) {
                Some((name, value)) => ad.put(name, value),
                None => row.repair(NOT_AN_ATTRIBUTE, "", line),
            }
        }
        if let Some((ad, row)) = open.take() {
            self.ad(&ad, row);
        }
        lines.finish(self.ledger);
        Ok(())
    }

    /// Takes one ad.
    fn ad(&mut self, ad: &Ad, mut row: RowAudit<'_>) {
        let ids = ["clusterid", "procid"].map(|name| ad.raw(name).and_then(|id| id.parse::<u64>().ok()));
        let [Some(cluster), Some(proc)] = ids else {
            self.ledger.quarantine(&row, reason::NO_KEY, "ClusterId", &shown(ad));
            return;
        };
        if ad.raw("jobuniverse").is_some_and(|universe| LOCAL_UNIVERSES.contains(&universe)) {
            *self.local += 1;
            self.ledger.keep(row);
            return;
        }
        let since = ad.moment("enteredcurrentstatus", &mut row);
        let mut job = self.job(ad, since, &mut row);
        job.id = format!("{cluster}.{proc}");
        job.parent = (proc > 0).then(|| cluster.to_string());
        if job.submit.is_none() && job.runs.is_empty() && job.end.is_none() {
            self.ledger.quarantine(&row, reason::NO_SUBMIT, "QDate", &shown(ad));
            return;
        }
        self.words.check(&mut job, &mut row);
        let is_over = job.state.is_some_and(JobState::is_final);
        let runs = job.attempts.unwrap_or(job.runs.len() as i64);
        if self.jobs.take((is_over, since, runs), job) {
            self.ledger.keep(row);
        } else {
            self.ledger.quarantine(&row, reason::DUPLICATE, "", &shown(ad));
        }
    }

    fn job(&mut self, ad: &Ad, since: Option<i64>, row: &mut RowAudit<'_>) -> Job {
        let code = ad.raw("jobstatus").and_then(|code| code.parse::<u8>().ok());
        let by_signal = ad.raw("exitbysignal").is_some_and(|flag| flag.eq_ignore_ascii_case("true"));
        let exit = ad.raw("exitcode").and_then(|code| code.parse::<i64>().ok()).filter(|_| !by_signal);
        let state = match (code, exit) {
            (Some(1 | 5), _) => JobState::Pending,
            (Some(2 | 6 | 7), _) => JobState::Running,
            (Some(3), _) => JobState::Cancelled,
            (Some(4), _) if by_signal => JobState::Failed,
            (Some(4), Some(0)) => JobState::Completed,
            (Some(4), Some(_)) => JobState::Failed,
            _ => JobState::Unknown,
        };
        let over = state.is_final() || code == Some(4);
        let completed = ad.moment("completiondate", row);
        let end = completed.or(since.filter(|_| state == JobState::Cancelled)).filter(|_| over);
        let gpus = gpus(ad, row);
        let cpus = ad.amount("requestcpus", row);
        let mem_bytes = ad.amount("requestmemory", row).map(|mib| (mib * MIB) as i64);
        let given = Run {
            ended_by: Some(state).filter(|state| state.is_final()),
            running: state == JobState::Running,
            gpus: given_gpus(ad, gpus),
            cpus: ad.evaluated("cpusprovisioned").or(cpus),
            mem_bytes: ad.evaluated("memoryprovisioned").map(|mib| (mib * MIB) as i64),
            nodes: self.nodes(ad, row),
            ..Run::default()
        };
        let (runs, attempts) = runs(ad, given, end, row);
        let reported = code.map(|code| format!("JobStatus {code}"));
        // What holds a cluster's number together is its schedd, the first part of `schedd#12.0#1714982400`.
        let schedd = ad.text("globaljobid").and_then(|id| id.split_once('#').map(|(schedd, _)| schedd.to_owned()));
        let group = ad.text("acctgroup").or_else(|| ad.text("accountinggroup"));
        let owner = ad.text("owner").or_else(|| ad.text("user").map(|user| before_at(&user).to_owned()));
        let name = ad.text("jobbatchname").or_else(|| ad.text("cmd").map(|path| last_part(&path).to_owned()));
        let limit = ["allowedjobduration", "allowedexecuteduration"].into_iter().find_map(|name| ad.amount(name, row));
        let words = &mut self.words;
        Job {
            cluster: words.word(schedd.as_deref()),
            user: words.word(owner.as_deref()),
            account: words.word(ad.text("projectname").as_deref().or(group.as_deref())),
            vc: words.word(group.as_deref()),
            name: words.word(name.as_deref()),
            gpu_type: words.word(ad.text("machineattrgpus_devicename0").as_deref()),
            state: Some(state),
            reported_state: words.word(reported.as_deref()),
            pending_reason: words.word(ad.text("holdreason").as_deref().filter(|_| code == Some(5))),
            submit: ad.moment("qdate", row),
            // A removed job may have waited again after its last run.
            end: end.filter(|_| runs.is_empty() || state == JobState::Cancelled),
            time_limit_s: limit.filter(|seconds| *seconds > 0.0),
            exit_code: exit.filter(|_| code == Some(4)),
            req_nodes: ad.raw("maxhosts").and_then(|hosts| hosts.parse().ok()),
            req_cpus: cpus,
            req_mem_bytes: mem_bytes,
            req_gpus: gpus,
            attempts,
            runs,
            ..Job::default()
        }
    }

    /// Nodes of the last run: what follows the `@` of its slots.
    fn nodes(&mut self, ad: &Ad, row: &mut RowAudit<'_>) -> Vec<super::job::Node> {
        let hosts = ["allremotehosts", "remotehost", "lastremotehost"].into_iter().find_map(|name| ad.text(name));
        let Some(hosts) = hosts else { return Vec::new() };
        let ids = ad.text("assignedgpus").filter(|_| !hosts.contains(','));
        let mut named: Vec<NamedNode<'_>> =
            hosts.split(',').map(|host| NamedNode::plain(host.rsplit('@').next().unwrap_or(host).trim())).collect();
        if let (Some(ids), [only]) = (&ids, named.as_slice()) {
            let gpu = |id| NamedNode { name: only.name, gpus: Some(1.0), gpu_id: Some(id) };
            named = ids.split(',').map(str::trim).filter(|id| !id.is_empty()).map(gpu).collect();
        }
        self.words.nodes(named, "LastRemoteHost", row)
    }
}

/// Whether a text can be the name of an attribute.
fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.'))
}

fn before_at(text: &str) -> &str {
    text.split('@').next().unwrap_or(text)
}

fn last_part(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

/// An ad as the ledger shows it.
fn shown(ad: &Ad) -> String {
    let mut pairs: Vec<String> = ad.0.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    pairs.sort_unstable();
    pairs.join("; ")
}

/// GPUs asked for.
fn gpus(ad: &Ad, row: &mut RowAudit<'_>) -> Gpus {
    let is_asked = ad.raw("requestgpus").is_some();
    Gpus { count: ad.amount("requestgpus", row), listed: !is_asked && ad.raw("requestcpus").is_some() }
}

/// GPUs of the last run: those of its slot, else those asked for.
fn given_gpus(ad: &Ad, request: Gpus) -> Gpus {
    let devices = || {
        let ids = ad.text("assignedgpus")?;
        Some(ids.split(',').filter(|id| !id.trim().is_empty()).count() as f64)
    };
    match ad.evaluated("gpusprovisioned").or_else(devices) {
        Some(count) => Gpus { count: Some(count), listed: true },
        None => request,
    }
}

/// The runs of a job that are known, and how many there were if that is more. `last` is what is known of the last beside
/// its times.
fn runs(ad: &Ad, mut last: Run, end: Option<i64>, row: &mut RowAudit<'_>) -> (Vec<Run>, Option<i64>) {
    let first_start = ad.moment("jobstartdate", row);
    let Some(start) = ad.moment("jobcurrentstartdate", row).or(first_start) else { return (Vec::new(), None) };
    let count = |name: &str| ad.raw(name).and_then(|count| count.parse::<i64>().ok()).filter(|count| *count > 0);
    let several = first_start.is_some_and(|first| first < start);
    let starts = ["numjobstarts", "jobruncount", "numshadowstarts"].into_iter().find_map(count);
    let starts = starts.filter(|_| several).unwrap_or(if several { 2 } else { 1 });
    let wall_s = ad.amount("remotewallclocktime", row);
    let suspended_s = ad.amount("cumulativesuspensiontime", row);
    let later = |from: i64, seconds: f64| seconds_to_ms(from as f64 / SECOND_MS as f64 + seconds);
    // What ended a run that was not the job's end is told by its length alone.
    let length_s = ad.amount("lastremotewallclocktime", row).or(wall_s.filter(|_| starts == 1));
    let by_length = length_s.filter(|length| *length > 0.0).and_then(|length| later(start, length));
    let completed = ad.moment("completiondate", row);
    last.start = Some(start);
    last.end = if last.running { None } else { completed.or(by_length).or(end) };
    last.suspended_s = suspended_s.filter(|seconds| *seconds > 0.0);
    // The clock of the runs does not stop while the job is suspended; what is reported as a run elsewhere does.
    let ran_s = wall_s.filter(|wall| *wall > 0.0).map(|wall| (wall - suspended_s.unwrap_or(0.0)).max(0.0));
    last.reported_s = ran_s.filter(|_| !last.running);
    if last.ended_by.is_none() && last.end.is_some() {
        last.ended_by = Some(JobState::Cancelled);
    }
    let Some(first_start) = first_start.filter(|_| several) else { return (vec![last], None) };
    let last_s = last.end.map(|end| (end - start) as f64 / SECOND_MS as f64);
    let first_s = wall_s.zip(last_s).map(|(all, last)| all - last).filter(|_| starts == 2);
    let first_end = first_s.filter(|first| *first >= 0.0).and_then(|first| later(first_start, first));
    let first_end = first_end.filter(|end| *end <= start);
    let first = Run {
        start: Some(first_start),
        end: first_end,
        ended_by: Some(JobState::Cancelled),
        // The time of all runs is one figure, which the last has.
        reported_s: last.reported_s.map(|_| 0.0),
        // What it was given is not kept; it asked for the same.
        gpus: last.gpus,
        cpus: last.cpus,
        mem_bytes: last.mem_bytes,
        ..Run::default()
    };
    (vec![first, last], Some(starts).filter(|starts| *starts > 2))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ad(text: &str) -> Ad {
        let mut ad = Ad::default();
        for line in text.split(';') {
            let (name, value) = line.split_once('=').unwrap();
            ad.put(name.trim(), value);
        }
        ad
    }

    #[test]
    fn a_repeated_attribute_counts_with_its_last_value() {
        let ad = ad("RequestGPUs = 1; REQUESTGPUS = 4; Owner = \"a \\\"b\\\"\"; AcctGroup = undefined; Cmd = \"\"");
        let mut row = RowAudit::new("f", 1);
        assert_eq!(ad.amount("requestgpus", &mut row), Some(4.0));
        assert_eq!((ad.text("owner").as_deref(), ad.text("acctgroup"), ad.text("cmd")), (Some("a \"b\""), None, None));
    }

    // The worked number of the module; three runs, of which the second is unknown; one that runs.
    #[test]
    fn of_several_runs_the_first_and_the_last_are_known() {
        let mut row = RowAudit::new("f", 1);
        let mut of = |text: &str, running: bool| {
            let ad = ad(text);
            let end = ad.moment("completiondate", &mut row);
            let (runs, attempts) = runs(&ad, Run { running, ..Run::default() }, end, &mut row);
            let times = |run: &Run| (run.start.unwrap() / 1_000, run.end.map(|end| end / 1_000));
            (runs.iter().map(times).collect::<Vec<_>>(), attempts)
        };
        let two = "JobStartDate = 1060; JobCurrentStartDate = 2000; CompletionDate = 2300; RemoteWallClockTime = 330.0";
        assert_eq!(
            of(&format!("{two}; NumJobStarts = 2"), false),
            (vec![(1060, Some(1090)), (2000, Some(2300))], None)
        );
        assert_eq!(of(&format!("{two}; NumJobStarts = 3"), false), (vec![(1060, None), (2000, Some(2300))], Some(3)));
        assert_eq!(of("JobCurrentStartDate = 2000; RemoteWallClockTime = 0.0", true), (vec![(2000, None)], None));
        assert_eq!(of("QDate = 2000", false), (vec![], None));
    }

    proptest! {
        #[test]
        fn no_text_panics(value in "[0-9a-zA-Z\"=.,@()é-]{0,24}") {
            let text = format!("JobStartDate = {value}; RequestGpus = {value}; LastRemoteHost = {value}");
            let ad = ad(&text.split(';').filter(|part| part.contains('=')).collect::<Vec<_>>().join(";"));
            let mut row = RowAudit::new("f", 1);
            let _ = (runs(&ad, Run::default(), None, &mut row), gpus(&ad, &mut row), shown(&ad));
        }
    }
}
