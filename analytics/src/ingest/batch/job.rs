//! Conversion of jobs from accounting records into the tables.
//!
//! A reader makes a [`Job`] of each record (or of all events of a job) with the [`Run`]s it tells of: from being given
//! nodes to giving them back. [`Assembly`] puts together what has the same identifier and the same submission: these are
//! runs of one job, in order of their start. The same identifier with another submission is another job, as numbers begin
//! again once they run out; its key is `id@submission`, in epoch seconds.
//!
//! GPUs: a number that is not said is unknown. A job has 0 where its list of resources is whole and names none, while
//! other jobs of the same cluster's log name some: a log that never names GPUs does not count them.
//!
//! Memory: one [`Job`] a record. Time: O(n log n).
//!
//! Worked number: records `13` submitted at 0 s, run 10 to 30 s and queued again, and `13` submitted at 0 s, run 150 to
//! 156 s: one job of two attempts, submitted at 0 s, start 10 s, end 156 s, run 26 s.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::ingest::slurm::hostlist;
use crate::quality::{Reason, RowAudit, reason};
use crate::schema::{AttemptRow, JobRow, JobState, PlacementRow};
use crate::time::SECOND_MS;
use crate::trace::Trace;

/// Nodes of one run that get placement rows; more are left as a host list.
pub(in crate::ingest) const MOST_NODES: usize = 4_096;

/// Nodes that cannot be told.
pub(in crate::ingest) const BAD_NODE: Reason = Reason {
    id: "bad_node",
    what: "the list of nodes cannot be read; the job has no nodes and no placements",
    remedy: "check the place in the source",
};
/// More nodes than are kept by name.
pub(in crate::ingest) const MANY_NODES: Reason = Reason {
    id: "many_nodes",
    what: "the job has more than 4,096 nodes; they are not kept by name, and it has no placements",
    remedy: "nothing to do; its number of nodes is kept",
};
/// A text that many records share, if it is known.
pub(in crate::ingest) type Word = Option<Arc<str>>;

/// GPUs as a list of resources tells them.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(in crate::ingest) struct Gpus {
    /// The number named.
    pub(in crate::ingest) count: Option<f64>,
    /// Whether the list is complete: naming no GPUs then means having none, if the log names GPUs
    /// at all.
    pub(in crate::ingest) listed: bool,
}

impl Gpus {
    /// Takes the number as it was checked: one that cannot be is unknown, and not none.
    fn checked(&mut self, count: Option<f64>) {
        self.listed &= self.count.is_none() || count.is_some();
        self.count = count;
    }
}

/// One node of a run.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::ingest) struct Node {
    pub(in crate::ingest) name: Arc<str>,
    pub(in crate::ingest) gpus: Option<f64>,
    /// Identifiers of the GPUs on the node, comma separated.
    pub(in crate::ingest) gpu_ids: Option<String>,
}

/// Location of a record, for findings made later.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::ingest) struct Place {
    /// Number of the file, from 1.
    pub(in crate::ingest) file: usize,
    pub(in crate::ingest) line: u64,
    /// Whether nothing was repaired in the record when it was read.
    pub(in crate::ingest) clean: bool,
}

/// One run of a job.
#[derive(Debug, Clone, Default)]
pub(in crate::ingest) struct Run {
    pub(in crate::ingest) start: Option<i64>,
    pub(in crate::ingest) end: Option<i64>,
    /// End state; `None` while the run lasts, and where nothing tells.
    pub(in crate::ingest) ended_by: Option<JobState>,
    /// Whether the run was in progress when the log ends.
    pub(in crate::ingest) running: bool,
    /// Length as the source reports it, seconds.
    pub(in crate::ingest) reported_s: Option<f64>,
    /// Time in which the job was suspended and kept its GPUs, seconds.
    pub(in crate::ingest) suspended_s: Option<f64>,
    pub(in crate::ingest) gpus: Gpus,
    pub(in crate::ingest) cpus: Option<f64>,
    pub(in crate::ingest) mem_bytes: Option<i64>,
    pub(in crate::ingest) nodes: Vec<Node>,
    pub(in crate::ingest) place: Place,
}

impl Run {
    /// Time it ran, without that in which it was suspended.
    fn length_s(&self) -> Option<f64> {
        let held_s = (self.end? - self.start?) as f64 / SECOND_MS as f64;
        Some((held_s - self.suspended_s.unwrap_or(0.0)).max(0.0))
    }
}

/// A job, as far as it is known.
#[derive(Debug, Clone, Default)]
pub(in crate::ingest) struct Job {
    pub(in crate::ingest) cluster: Word,
    /// The batch system's identifier, without its server.
    pub(in crate::ingest) id: String,
    /// The array it belongs to.
    pub(in crate::ingest) parent: Option<String>,
    pub(in crate::ingest) user: Word,
    pub(in crate::ingest) account: Word,
    pub(in crate::ingest) vc: Word,
    pub(in crate::ingest) qos: Word,
    pub(in crate::ingest) name: Word,
    pub(in crate::ingest) gpu_type: Word,
    pub(in crate::ingest) depends_on: Word,
    pub(in crate::ingest) state: Option<JobState>,
    pub(in crate::ingest) reported_state: Word,
    /// Why it waits, if it does.
    pub(in crate::ingest) pending_reason: Word,
    pub(in crate::ingest) submit: Option<i64>,
    pub(in crate::ingest) eligible: Option<i64>,
    /// End of a job that ended while it waited; the others end with their last run.
    pub(in crate::ingest) end: Option<i64>,
    pub(in crate::ingest) time_limit_s: Option<f64>,
    pub(in crate::ingest) exit_code: Option<i64>,
    pub(in crate::ingest) req_nodes: Option<i64>,
    pub(in crate::ingest) req_cpus: Option<f64>,
    pub(in crate::ingest) req_mem_bytes: Option<i64>,
    pub(in crate::ingest) req_gpus: Gpus,
    /// Number of runs where the source knows of more than it tells: `runs` are then the first and the last.
    pub(in crate::ingest) attempts: Option<i64>,
    pub(in crate::ingest) runs: Vec<Run>,
}

impl Job {
    /// Whether the job will not run again.
    fn is_over(&self) -> bool {
        self.state.is_some_and(JobState::is_final)
    }

    /// Takes in a later record of the same job.
    pub(in crate::ingest) fn join(&mut self, later: Self) {
        let runs = std::mem::take(&mut self.runs);
        let earlier = std::mem::replace(self, later);
        let own = std::mem::take(&mut self.runs);
        self.runs = runs;
        self.runs.extend(own);
        macro_rules! keep {
            ($($field:ident),*) => { $( if self.$field.is_none() { self.$field = earlier.$field; } )* };
        }
        keep!(parent, user, account, vc, qos, name, gpu_type, depends_on, submit, eligible, time_limit_s, req_nodes);
        keep!(req_cpus, req_mem_bytes);
        if self.req_gpus == Gpus::default() {
            self.req_gpus = earlier.req_gpus;
        }
    }
}

/// Jobs of snapshots: of several records of one job, the one that knows most.
#[derive(Debug)]
pub(in crate::ingest) struct Snapshots<R> {
    by_key: HashMap<String, usize>,
    jobs: Vec<(R, Job)>,
}

impl<R: Ord> Snapshots<R> {
    pub(in crate::ingest) fn new() -> Self {
        Self { by_key: HashMap::new(), jobs: Vec::new() }
    }

    /// Takes a job as a record tells it; false if another record of the job knows as much. `rank` says how much it knows.
    pub(in crate::ingest) fn take(&mut self, rank: R, job: Job) -> bool {
        let cluster = job.cluster.as_deref().unwrap_or_default();
        let key = format!("{cluster}/{}@{}", job.id, job.submit.unwrap_or_default());
        let ix = *self.by_key.entry(key).or_insert(self.jobs.len());
        match self.jobs.get_mut(ix) {
            None => self.jobs.push((rank, job)),
            Some(known) if known.0 < rank => *known = (rank, job),
            Some(_) => return false,
        }
        true
    }

    /// The jobs, in the order in which they were first seen.
    pub(in crate::ingest) fn into_jobs(self) -> impl Iterator<Item = Job> {
        self.jobs.into_iter().map(|(_, job)| job)
    }
}

/// Jobs of all files, and texts that many of them share.
#[derive(Debug, Default)]
pub(in crate::ingest) struct Assembly {
    words: HashMap<Box<str>, Arc<str>>,
    files: Vec<String>,
    jobs: Vec<Job>,
    /// Clusters whose records name GPUs at all.
    counting: BTreeSet<Word>,
}

impl Assembly {
    /// Notes that the next records come from the file called `name`.
    pub(in crate::ingest) fn begin(&mut self, name: &str) {
        self.files.push(name.to_owned());
    }

    /// The shared copy of a known text.
    pub(in crate::ingest) fn word(&mut self, text: Option<&str>) -> Word {
        Some(self.shared(text?))
    }

    fn shared(&mut self, text: &str) -> Arc<str> {
        if let Some(word) = self.words.get(text) {
            return Arc::clone(word);
        }
        let word: Arc<str> = Arc::from(text);
        self.words.insert(text.into(), Arc::clone(&word));
        word
    }

    /// Checks the record of a job and its last run, and notes in each run where the record stands in the file that is being read.
    pub(in crate::ingest) fn check(&self, job: &mut Job, row: &mut RowAudit<'_>) -> Place {
        check_record(job, row);
        let place = Place { file: self.files.len(), line: row.line(), clean: row.is_clean() };
        job.runs.iter_mut().for_each(|run| run.place = place);
        place
    }

    /// Nodes called so, each once, in the order named. A name that cannot be one makes them unknown and is noted.
    pub(in crate::ingest) fn nodes(
        &mut self,
        named: Vec<NamedNode<'_>>,
        column: &str,
        row: &mut RowAudit<'_>,
    ) -> Vec<Node> {
        let is_name = |name: &str| {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
            !name.is_empty() && name.bytes().all(plain)
        };
        if let Some(bad) = named.iter().find(|node| !is_name(node.name)) {
            row.repair(BAD_NODE, column, bad.name);
            return Vec::new();
        }
        let mut nodes: Vec<Node> = Vec::with_capacity(named.len().min(MOST_NODES));
        let mut at: HashMap<&str, usize> = HashMap::new();
        for node in named {
            match at.get(node.name).and_then(|ix| nodes.get_mut(*ix)) {
                Some(known) => {
                    known.gpus = known.gpus.zip(node.gpus).map(|(sum, more)| sum + more).or(known.gpus).or(node.gpus);
                    if let Some(id) = node.gpu_id {
                        let ids = known.gpu_ids.get_or_insert_default();
                        if !ids.is_empty() {
                            ids.push(',');
                        }
                        ids.push_str(id);
                    }
                }
                None => {
                    at.insert(node.name, nodes.len());
                    let (gpus, gpu_ids) = (node.gpus, node.gpu_id.map(str::to_owned));
                    nodes.push(Node { name: self.shared(node.name), gpus, gpu_ids });
                }
            }
        }
        nodes
    }

    /// Takes a job.
    pub(in crate::ingest) fn add(&mut self, job: Job) {
        if job.req_gpus.count.is_some() || job.runs.iter().any(|run| run.gpus.count.is_some()) {
            self.counting.insert(job.cluster.clone());
        }
        self.jobs.push(job);
    }

    /// Writes jobs, attempts and placements into `trace`. `remedy` is what to do about a log that names no GPUs.
    pub(in crate::ingest) fn finish(mut self, remedy: &str, trace: &mut Trace) {
        let mut jobs = std::mem::take(&mut self.jobs);
        let clusters: BTreeSet<&Word> = jobs.iter().map(|job| &job.cluster).collect();
        let several = clusters.len() > 1;
        if several {
            trace.note("Several clusters are in these files; job keys are cluster/job id.");
        }
        trace.counts_gpus = !self.counting.is_empty();
        let silent: Vec<&str> = clusters
            .iter()
            .filter(|cluster| !self.counting.contains(**cluster))
            .map(|cluster| cluster.as_deref().unwrap_or("this cluster"))
            .collect();
        if !silent.is_empty() {
            trace.note(format!(
                "No record of {} names GPUs, so GPU counts are unknown there, not 0: {remedy}",
                silent.join(", ")
            ));
        }
        // By cluster, identifier, submission and start; the order read decides ties, so the result is repeatable.
        jobs.sort_by_cached_key(|job| {
            let first = job.runs.first();
            // One that never started has its place by when it ended; of neither time, before all others, so that what came of it later counts.
            let start = first.and_then(|run| run.start).or(job.end).unwrap_or(i64::MIN);
            let place = first.map_or((0, 0), |run| (run.place.file, run.place.line));
            (job.cluster.clone(), numbers(&job.id), job.id.clone(), job.submit, start, place)
        });
        let mut jobs = jobs.into_iter();
        let Some(mut open) = jobs.next() else { return };
        let mut nth = 0;
        for job in jobs {
            let same_id = open.cluster == job.cluster && open.id == job.id;
            if same_id && (open.submit == job.submit || open.submit.is_none()) {
                open.join(job);
                continue;
            }
            let done = std::mem::replace(&mut open, job);
            self.emit(done, nth, several, trace);
            nth = if same_id { nth + 1 } else { 0 };
        }
        self.emit(open, nth, several, trace);
    }

    /// Writes one job, the `nth` of its identifier.
    fn emit(&self, mut job: Job, nth: usize, several: bool, trace: &mut Trace) {
        job.runs.sort_by_key(|run| run.start.unwrap_or(i64::MAX));
        let counts = self.counting.contains(&job.cluster);
        let gpus = |gpus: Gpus| gpus.count.or((counts && gpus.listed).then_some(0.0));
        let prefix = match &job.cluster {
            Some(cluster) if several => format!("{cluster}/"),
            _ => String::new(),
        };
        let mut job_key = format!("{prefix}{}", job.id);
        if nth > 0 {
            let submit = job.submit.map_or(nth as i64, |ms| ms.div_euclid(SECOND_MS));
            job_key = format!("{job_key}@{submit}");
        }
        let runs = &job.runs;
        let last = runs.last();
        let over = job.is_over();
        let start = runs.iter().find_map(|run| run.start);
        let sum = |of: fn(&Run) -> Option<f64>| -> Option<f64> {
            let parts = runs.iter().map(of).collect::<Option<Vec<f64>>>()?;
            (!parts.is_empty()).then(|| parts.iter().sum())
        };
        let end = if over { job.end.or_else(|| last.and_then(|run| run.end)) } else { None };
        trace.jobs.push(JobRow {
            cluster: text(&job.cluster),
            job_key: Some(Cow::Borrowed(&job_key)),
            parent_job: job.parent.as_ref().map(|parent| Cow::Owned(format!("{prefix}{parent}"))),
            user: text(&job.user),
            account: text(&job.account),
            vc: text(&job.vc),
            qos: text(&job.qos),
            name: text(&job.name),
            gpu_type: text(&job.gpu_type),
            state: Some(Cow::Borrowed(job.state.unwrap_or(JobState::Unknown).id())),
            reported_state: text(&job.reported_state),
            pending_reason: text(&job.pending_reason).filter(|_| job.state == Some(JobState::Pending)),
            submit: job.submit,
            eligible: job.eligible,
            start,
            end: end.filter(|end| start.is_none_or(|start| start <= *end)),
            censored: match job.state {
                _ if over => Some(false),
                Some(JobState::Running | JobState::Pending) => Some(true),
                _ => None,
            },
            // A run without a start is a run all the same, and one without any start may not be.
            attempts: job.attempts.or(runs.iter().all(|run| run.start.is_some()).then_some(runs.len() as i64)),
            req_nodes: job.req_nodes,
            req_cpus: job.req_cpus,
            req_mem_bytes: job.req_mem_bytes,
            req_gpus: gpus(job.req_gpus),
            alloc_nodes: last.map(|run| run.nodes.len() as i64).filter(|nodes| *nodes > 0),
            alloc_cpus: last.and_then(|run| run.cpus),
            alloc_gpus: last.and_then(|run| gpus(run.gpus)),
            nodes_hostlist: last.and_then(hostlist_of).map(Cow::Owned),
            time_limit_s: job.time_limit_s,
            run_s: sum(Run::length_s).filter(|_| job.attempts.is_none_or(|attempts| attempts <= runs.len() as i64)),
            suspended_s: runs.iter().filter_map(|run| run.suspended_s).reduce(|sum, more| sum + more),
            reported_run_s: sum(|run| run.reported_s),
            exit_code: job.exit_code,
            depends_on: text(&job.depends_on),
            ..JobRow::default()
        });
        self.note_overlaps(runs, trace);
        // A single run that ended when the job did needs no row of its own.
        let plain = runs.len() <= 1 && runs.iter().all(|run| run.end.is_none() || over);
        for (nth, run) in (1i64..).zip(runs) {
            let attempt = job.attempts.filter(|_| nth > 1).unwrap_or(nth);
            let given = gpus(run.gpus);
            if !plain {
                trace.attempts.push(AttemptRow {
                    job_key: Some(Cow::Borrowed(&job_key)),
                    attempt: Some(attempt),
                    start: run.start,
                    end: run.end,
                    censored: Some(run.running),
                    end_reason: run.ended_by.map(|state| Cow::Borrowed(state.id())),
                    nodes_hostlist: hostlist_of(run).map(Cow::Owned),
                    alloc_gpus: given,
                    alloc_cpus: run.cpus,
                    alloc_mem_bytes: run.mem_bytes,
                });
            }
            if run.nodes.len() > MOST_NODES {
                trace.note(format!("Jobs on more than {MOST_NODES} nodes have no placements, only their host list."));
                continue;
            }
            for node in &run.nodes {
                let of_one = if run.nodes.len() == 1 || given == Some(0.0) { given } else { None };
                trace.placements.push(PlacementRow {
                    job_key: Some(Cow::Borrowed(&job_key)),
                    attempt: Some(attempt),
                    node: Some(Cow::Borrowed(&node.name)),
                    gpu_ids: node.gpu_ids.as_deref().map(Cow::Borrowed),
                    gpus: node.gpus.or(of_one),
                });
            }
        }
    }

    /// Notes each run that begins before the one before it ended.
    fn note_overlaps(&self, runs: &[Run], trace: &mut Trace) {
        for pair in runs.windows(2) {
            let [before, after] = pair else { continue };
            let (Some(end), Some(start)) = (before.end, after.start) else { continue };
            if start >= end {
                continue;
            }
            let text = format!("{} s before the attempt before it ended", (end - start) as f64 / SECOND_MS as f64);
            let Place { file, line, clean } = after.place;
            let file = file.checked_sub(1).and_then(|ix| self.files.get(ix)).map_or("", String::as_str);
            if clean {
                trace.ledger.repair_later(reason::OVERLAPPING_ATTEMPTS, file, line, "start", &text);
            } else {
                trace.ledger.repair_again(reason::OVERLAPPING_ATTEMPTS, file, line, "start", &text);
            }
        }
    }
}

/// A node as a record names it; the same node may be named again.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::ingest) struct NamedNode<'a> {
    pub(in crate::ingest) name: &'a str,
    pub(in crate::ingest) gpus: Option<f64>,
    pub(in crate::ingest) gpu_id: Option<&'a str>,
}

impl<'a> NamedNode<'a> {
    /// A node of which no more is told.
    pub(in crate::ingest) fn plain(name: &'a str) -> Self {
        Self { name, gpus: None, gpu_id: None }
    }
}

/// Checks times, lengths and GPU counts of a record with at most one run, as they are checked in every job.
fn check_record(job: &mut Job, row: &mut RowAudit<'_>) {
    let run = job.runs.last();
    let (start, end) = run.map_or((None, job.end), |run| (run.start, run.end));
    let mut times = JobRow {
        submit: job.submit,
        eligible: job.eligible,
        start,
        end,
        attempts: Some(1),
        req_gpus: job.req_gpus.count,
        alloc_gpus: run.and_then(|run| run.gpus.count),
        reported_run_s: run.and_then(|run| run.reported_s),
        ..JobRow::default()
    };
    crate::ingest::check_job(&mut times, row);
    (job.submit, job.eligible) = (times.submit, times.eligible);
    job.req_gpus.checked(times.req_gpus);
    match job.runs.last_mut() {
        Some(run) => {
            (run.start, run.end, run.reported_s) = (times.start, times.end, times.reported_run_s);
            run.gpus.checked(times.alloc_gpus);
        }
        None => job.end = times.end,
    }
}

/// The text of a word.
fn text(word: &Word) -> Option<Cow<'_, str>> {
    word.as_deref().map(Cow::Borrowed)
}

/// The host list of a run.
fn hostlist_of(run: &Run) -> Option<String> {
    if run.nodes.is_empty() {
        return None;
    }
    let names: Vec<&str> = run.nodes.iter().map(|node| &*node.name).collect();
    Some(hostlist::compress(&names))
}

/// The number of a job and of its array task, for sorting.
fn numbers(id: &str) -> (u64, u64) {
    let mut numbers = id.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty());
    let mut next = || numbers.next().and_then(|digits| digits.parse().ok()).unwrap_or(0);
    (next(), next())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn job(id: &str, submit_s: i64, run_s: Option<(i64, i64)>, state: JobState) -> Job {
        let run = |(start, end): (i64, i64)| Run {
            start: Some(start * 1_000),
            end: Some(end * 1_000),
            ended_by: Some(state),
            place: Place { file: 1, line: 1, clean: true },
            ..Run::default()
        };
        Job {
            id: id.to_owned(),
            submit: Some(submit_s * 1_000),
            state: Some(state),
            runs: run_s.map(run).into_iter().collect(),
            ..Job::default()
        }
    }

    fn trace_of(jobs: Vec<Job>) -> Trace {
        let mut trace = Trace::default();
        let mut assembly = Assembly::default();
        assembly.begin("f");
        for job in jobs {
            trace.ledger.keep(RowAudit::new("f", 1));
            assembly.add(job);
        }
        assembly.finish("remedy", &mut trace);
        trace
    }

    // The worked number of the module, its records in the wrong order, and the number used again at 900 s.
    #[test]
    fn records_of_one_submission_are_runs_of_one_job() {
        let trace = trace_of(vec![
            job("13", 900, Some((901, 903)), JobState::Failed),
            job("13", 0, Some((150, 156)), JobState::Completed),
            job("13", 0, Some((10, 30)), JobState::Pending),
        ]);
        assert_eq!(trace.jobs.job_key.iter().collect::<Vec<_>>(), [Some("13"), Some("13@900")]);
        assert_eq!((trace.jobs.start.get(0), trace.jobs.end.get(0)), (Some(10_000), Some(156_000)));
        assert_eq!((trace.jobs.run_s.get(0), trace.jobs.attempts.get(0)), (Some(26.0), Some(2)));
        assert_eq!(trace.jobs.state.get(0), Some("completed"));
        assert_eq!(trace.attempts.attempt.len(), 2);
    }

    #[test]
    fn a_whole_list_without_gpus_is_zero_only_where_gpus_are_counted() {
        let listed = |count| Gpus { count, listed: true };
        let mut one = job("1", 0, Some((1, 2)), JobState::Completed);
        one.req_gpus = listed(None);
        assert_eq!(trace_of(vec![one.clone()]).jobs.req_gpus.get(0), None);
        assert!(!trace_of(vec![one.clone()]).counts_gpus);
        let mut two = job("2", 0, Some((1, 2)), JobState::Completed);
        two.req_gpus = listed(Some(2.0));
        let three = job("3", 0, Some((1, 2)), JobState::Completed);
        let trace = trace_of(vec![one, two, three]);
        assert_eq!(trace.jobs.req_gpus.iter().collect::<Vec<_>>(), [Some(0.0), Some(2.0), None]);
    }

    #[test]
    fn runs_that_overlap_are_noted_and_kept() {
        let trace = trace_of(vec![
            job("1", 0, Some((10, 30)), JobState::Pending),
            job("1", 0, Some((20, 40)), JobState::Completed),
        ]);
        assert_eq!(trace.ledger.count("overlapping_attempts"), 1);
        assert_eq!(trace.jobs.run_s.get(0), Some(40.0));
    }

    #[test]
    fn nodes_are_named_once_and_a_name_that_is_none_makes_them_unknown() {
        let mut assembly = Assembly::default();
        let mut row = RowAudit::new("f", 1);
        let gpu = |name, id| NamedNode { name, gpus: Some(1.0), gpu_id: Some(id) };
        let nodes = assembly.nodes(vec![gpu("n2", "0"), gpu("n1", "0"), gpu("n2", "3")], "exec", &mut row);
        let told: Vec<(&str, Option<f64>, Option<&str>)> =
            nodes.iter().map(|node| (&*node.name, node.gpus, node.gpu_ids.as_deref())).collect();
        assert_eq!(told, [("n2", Some(2.0), Some("0,3")), ("n1", Some(1.0), Some("0"))]);
        assert!(row.is_clean());
        assert!(assembly.nodes(vec![NamedNode::plain("n[1")], "exec", &mut row).is_empty());
        assert!(!row.is_clean());
    }
}
