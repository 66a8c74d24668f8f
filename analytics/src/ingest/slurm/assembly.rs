//! Conversion of accounting records into jobs, attempts and placements.
//!
//! One job may have several records: each requeue writes another one with the same identifier and a later submission
//! (the moment it was queued again). Identifiers are also used again once they run out. A record continues the one
//! before it (by submission) if both have the same submission (a resize, or an older snapshot of the same run), or if
//! the earlier was requeued, preempted or lost its node and the later was submitted within a day of its end; otherwise
//! it is another job, whose key is `id@submission` in epoch seconds; so it is where both name a user, and not the same. The
//! record of a cluster of a federation that did not get the job (`REVOKED`) is no job. A suspended job keeps its GPUs and does
//! not run: its run is start to end without the time it was suspended. Steps give their job's energy and GPU utilisation
//! where exactly one step says something about it; with several, sums would count the same joules twice.
//!
//! Memory: one [`Allocation`] (about 600 bytes) a record, as the last record of a file may belong to the first job.
//! Time: O(n log n).
//!
//! Worked number: records `13` submitted at 0 s, run 10 to 30 s, `REQUEUED`, and `13` submitted at 30 s, run 150 to
//! 156 s: one job of two attempts, submitted at 0 s, start 10 s, end 156 s, run 26 s.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::allocation::{Allocation, Step};
use super::hostlist;
use super::job_id::{JobId, Part, tasks};
use super::tres::Tres;
use crate::quality::{Reason, RowAudit, reason};
use crate::report::format::counted;
use crate::schema::{AttemptRow, JobRow, JobState, PlacementRow};
use crate::time::{DAY_MS, SECOND_MS};
use crate::trace::Trace;

/// Nodes of one attempt that get placement rows; more are left as a host list.
const MOST_NODES: usize = 4_096;

/// A host list that cannot be read.
const BAD_HOSTLIST: Reason = Reason {
    id: "bad_hostlist",
    what: "the list of nodes cannot be read; the job has no placements",
    remedy: "export NodeList in full (a width such as NodeList%20 cuts it)",
};
/// The record of a cluster that did not get a job of its federation.
const REVOKED_SIBLING: Reason = Reason {
    id: "revoked_sibling",
    what: "the job was offered to several clusters of a federation and started on another one; this record is no job",
    remedy: "nothing is lost where the records of the other cluster are read, too",
};
/// A waiting array whose tasks cannot be told.
const CUT_TASK_LIST: Reason = Reason {
    id: "cut_task_list",
    what: "the list of waiting array tasks is cut short or too long; one row stands for all of them",
    remedy: "export with SLURM_BITSTR_LEN=0 for whole lists",
};

/// Location of a record, for findings made later.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// Number of the file, from 1.
    file: usize,
    line: u64,
    /// Whether nothing was repaired in the record when it was read.
    clean: bool,
}

#[derive(Debug)]
struct Entry {
    id: JobId,
    place: Place,
    allocation: Allocation,
}

/// Records of all files, and texts that many of them share.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    words: HashMap<Box<str>, Arc<str>>,
    files: Vec<String>,
    entries: Vec<Entry>,
    steps: HashMap<(Option<Arc<str>>, String), Vec<Step>>,
    /// Clusters whose records name GPUs at all.
    counting: BTreeSet<Option<Arc<str>>>,
    no_consume: bool,
    /// Shards that a GPU holds, where that was said.
    shards_per_gpu: Option<u32>,
    /// Records that name shards and no whole GPUs.
    sharded: usize,
    /// Jobs whose command line or script asks for GPUs, while their resources name none.
    untracked: u64,
}

impl Assembly {
    /// No record yet; a GPU holds so many shards, where that is known.
    pub(super) fn new(shards_per_gpu: Option<u32>) -> Self {
        Self { shards_per_gpu, ..Self::default() }
    }

    /// Takes shards in what was asked for and given for parts of GPUs, and counts the record if there are any.
    pub(super) fn settle_shards(&mut self, request: &mut Tres, given: &mut Tres) {
        let per_gpu = self.shards_per_gpu;
        let (of_asked, of_given) = (request.settle_shards(per_gpu), given.settle_shards(per_gpu));
        if of_asked && !of_given {
            given.may_hide_shards();
        }
        self.sharded += usize::from(of_asked || of_given);
    }

    /// The shared copy of a known text.
    pub(super) fn word(&mut self, text: Option<&str>) -> Option<Arc<str>> {
        let text = text?;
        if let Some(word) = self.words.get(text) {
            return Some(Arc::clone(word));
        }
        let word: Arc<str> = Arc::from(text);
        self.words.insert(text.into(), Arc::clone(&word));
        Some(word)
    }

    /// Notes that the next records come from the file called `name`.
    pub(super) fn begin(&mut self, name: &str) {
        self.files.push(name.to_owned());
    }

    /// Takes an allocation, after checking its times and what it was given.
    pub(super) fn allocation(&mut self, id: JobId, mut allocation: Allocation, row: &mut RowAudit<'_>) {
        if allocation.is_revoked() {
            row.repair(REVOKED_SIBLING, "State", allocation.reported_state.as_deref().unwrap_or_default());
            return;
        }
        if allocation.req_gpus.is_some() || allocation.alloc_gpus.is_some() {
            self.counting.insert(allocation.cluster.clone());
        }
        let named = [allocation.req_gpus, allocation.alloc_gpus].into_iter().flatten().any(|gpus| gpus > 0.0);
        if allocation.typed_gpus && !named && allocation.summary.is_none_or(|summary| summary.gpus.is_none()) {
            // What the accounting does not track is not 0.
            (allocation.req_gpus, allocation.alloc_gpus) = (None, None);
            (allocation.req_listed, allocation.alloc_listed) = (false, false);
            self.untracked += 1;
        }
        if allocation.alloc_gpus == Some(0.0) && allocation.req_gpus.is_some_and(|gpus| gpus > 0.0) {
            // Resources configured as `no_consume` are listed as 0 however many were used.
            allocation.alloc_gpus = None;
            allocation.alloc_listed = false;
            self.no_consume = true;
        }
        match allocation.state {
            Some(JobState::Pending) if !allocation.requeued => {
                allocation.start = None;
                allocation.end = None;
            }
            Some(JobState::Running) if !allocation.requeued => allocation.end = None,
            _ => {}
        }
        if allocation.never_started() {
            allocation.forget_run();
        }
        if let Some(list) = &allocation.nodes_hostlist
            && hostlist::expand(list, MOST_NODES) == Err(hostlist::HostlistError::Syntax)
        {
            row.repair(BAD_HOSTLIST, "NodeList", list);
        }
        // One row a waiting task, where the list of tasks is whole.
        let waiting = match &id.part {
            Part::Waiting(list) => {
                let tasks = tasks(list);
                if tasks.is_none() {
                    row.repair(CUT_TASK_LIST, "JobID", list);
                }
                tasks
            }
            _ => None,
        };
        let mut times = JobRow {
            submit: allocation.submit,
            start: allocation.start,
            end: allocation.end,
            eligible: allocation.eligible,
            attempts: Some(1),
            // What Slurm calls elapsed is without suspension; the times are with it.
            reported_run_s: allocation.elapsed_s.map(|run_s| run_s + allocation.suspended_s.unwrap_or(0.0)),
            reported_wait_s: allocation.planned_s,
            ..JobRow::default()
        };
        crate::ingest::check_job(&mut times, row);
        (allocation.submit, allocation.eligible) = (times.submit, times.eligible);
        (allocation.start, allocation.end) = (times.start, times.end);
        allocation.elapsed_s = allocation.elapsed_s.filter(|_| times.reported_run_s.is_some());
        allocation.planned_s = times.reported_wait_s;
        let place = Place { file: self.files.len(), line: row.line(), clean: row.is_clean() };
        match waiting {
            Some(tasks) => self.entries.extend(tasks.into_iter().map(|task| Entry {
                id: JobId { job: id.job, part: Part::Task(task), step: None },
                place,
                allocation: allocation.clone(),
            })),
            None => self.entries.push(Entry { id, place, allocation }),
        }
    }

    /// Takes a step of the allocation `id`.
    pub(super) fn step(&mut self, cluster: Option<Arc<str>>, id: &JobId, step: Step) {
        if step != Step::default() {
            self.steps.entry((cluster, id.allocation())).or_default().push(step);
        }
    }

    /// Writes jobs, attempts and placements into `trace`.
    pub(super) fn finish(mut self, trace: &mut Trace) {
        let clusters: BTreeSet<&Option<Arc<str>>> =
            self.entries.iter().map(|entry| &entry.allocation.cluster).collect();
        let several = clusters.len() > 1;
        let summed = |entry: &Entry| entry.allocation.summary.is_some_and(|summary| summary.gpus.is_some());
        trace.counts_gpus = !self.counting.is_empty() || self.entries.iter().any(summed);
        self.notes(&clusters, trace);
        self.note_stray_steps(trace);
        // By cluster, identifier, submission and start; the order read decides ties, so the result is repeatable.
        let mut entries = std::mem::take(&mut self.entries);
        entries.sort_unstable_by(|a, b| {
            let key = |entry: &Entry| (entry.allocation.submit, entry.allocation.start.unwrap_or(i64::MAX));
            (&a.allocation.cluster, a.id.job, part_order(&a.id))
                .cmp(&(&b.allocation.cluster, b.id.job, part_order(&b.id)))
                .then_with(|| key(a).cmp(&key(b)))
                .then_with(|| (a.place.file, a.place.line).cmp(&(b.place.file, b.place.line)))
        });
        for same in entries.chunk_by(|a, b| a.allocation.cluster == b.allocation.cluster && a.id == b.id) {
            let jobs = split_jobs(same);
            let alone = jobs.len() == 1;
            for (nth, attempts) in jobs.iter().enumerate() {
                self.emit(attempts, nth > 0, several, alone, trace);
            }
        }
    }

    fn notes(&self, clusters: &BTreeSet<&Option<Arc<str>>>, trace: &mut Trace) {
        if clusters.len() > 1 {
            trace.note("Several clusters are in these files; job keys are cluster/job id.");
        }
        let summed = |cluster: &Option<Arc<str>>| {
            let of = self.entries.iter().filter(|entry| entry.allocation.cluster == *cluster);
            of.filter_map(|entry| entry.allocation.summary).any(|summary| summary.gpus.is_some())
        };
        let silent: Vec<&str> = clusters
            .iter()
            .filter(|cluster| !self.counting.contains(**cluster) && !summed(cluster))
            .map(|cluster| cluster.as_deref().unwrap_or("this cluster"))
            .collect();
        if !silent.is_empty() && !self.entries.is_empty() {
            trace.note(format!(
                "No record of {} names GPUs, so GPU counts are unknown there, not 0: list gres/gpu in \
                 AccountingStorageTRES, and export AllocTRES and ReqTRES.",
                silent.join(", ")
            ));
        }
        if self.untracked > 0 {
            trace.note(format!(
                "{} for GPUs in the command line or script, and the accounting tracks none: how many they had is unknown, not 0. \
                 List gres/gpu in AccountingStorageTRES of slurm.conf, so that later jobs are counted.",
                counted(self.untracked, "job asks", "jobs ask")
            ));
        }
        if self.no_consume {
            trace.note(
                "Some jobs asked for GPUs and are listed as given 0 (GRES configured with no_consume): what they were \
                 given is unknown.",
            );
        }
        if self.sharded > 0 {
            let records =
                if self.sharded == 1 { "1 record names".to_owned() } else { format!("{} records name", self.sharded) };
            trace.note(match self.shards_per_gpu {
                Some(shards) => format!("{records} shards of GPUs (gres/shard); they are taken for parts of a GPU that holds {shards} (--shards-per-gpu)."),
                None => format!(
                    "{records} shards of GPUs (gres/shard), and not how many a GPU holds: their number of GPUs is unknown, not 0. Say it with --shards-per-gpu; it is Count of Name=shard in gres.conf, for each GPU."
                ),
            });
        }
        let sliced = |entry: &Entry| entry.allocation.gpu_type.as_deref().is_some_and(|kind| kind.contains("g."));
        if self.entries.iter().any(sliced) {
            trace.note("MIG slices are counted as Slurm counts them: one slice is one GPU of its own type.");
        }
    }

    /// Steps are folded into their job; without it they have nowhere to go.
    fn note_stray_steps(&self, trace: &mut Trace) {
        let key = |entry: &Entry| (entry.allocation.cluster.clone(), entry.id.allocation());
        let mut stray: BTreeSet<(Option<Arc<str>>, String)> = self.steps.keys().cloned().collect();
        if stray.is_empty() {
            return;
        }
        for entry in &self.entries {
            stray.remove(&key(entry));
        }
        if !stray.is_empty() {
            trace.note(format!(
                "{} jobs are known from their steps only, whose energy and GPU utilisation are left out: export the \
                 allocations too.",
                stray.len()
            ));
        }
    }

    /// Notes each attempt that begins before the one before it ended.
    fn note_overlaps(&self, begun: &[&Entry], trace: &mut Trace) {
        for pair in begun.windows(2) {
            let [before, after] = pair else { continue };
            let (Some(end), Some(start)) = (before.allocation.end, after.allocation.start) else { continue };
            if start >= end {
                continue;
            }
            let text = format!("{} s before the attempt before it ended", (end - start) as f64 / SECOND_MS as f64);
            let file = after.place.file.checked_sub(1).and_then(|ix| self.files.get(ix)).map_or("", String::as_str);
            let line = after.place.line;
            if after.place.clean {
                trace.ledger.repair_later(reason::OVERLAPPING_ATTEMPTS, file, line, "Start", &text);
            } else {
                trace.ledger.repair_again(reason::OVERLAPPING_ATTEMPTS, file, line, "Start", &text);
            }
        }
    }

    /// Writes one job made of `attempts` (records in order of submission).
    fn emit(&self, attempts: &[&Entry], reused: bool, several: bool, alone: bool, trace: &mut Trace) {
        let (Some(first), Some(last)) = (attempts.first(), attempts.last()) else { return };
        let begun: Vec<&Entry> = attempts.iter().copied().filter(|entry| entry.allocation.start.is_some()).collect();
        let (from, to) = (&first.allocation, &last.allocation);
        let counts = self.counting.contains(&to.cluster);
        let gpus = |count: Option<f64>, listed: bool| if counts && listed { count.or(Some(0.0)) } else { count };
        let given = |record: &Allocation| {
            let summed = record.summary.and_then(|summary| summary.gpus);
            record.alloc_gpus.or(summed).or_else(|| gpus(None, record.alloc_listed))
        };

        let prefix = match &to.cluster {
            Some(cluster) if several => format!("{cluster}/"),
            _ => String::new(),
        };
        let mut job_key = format!("{prefix}{}", last.id.allocation());
        if reused && let Some(submit) = from.submit {
            job_key = format!("{job_key}@{}", submit.div_euclid(SECOND_MS));
        }
        let steps: &[Step] = if alone {
            let key = (to.cluster.clone(), last.id.allocation());
            self.steps.get(&key).map_or(&[], Vec::as_slice)
        } else {
            // The identifier was used twice, and a step does not say by which job.
            &[]
        };

        let over = to.is_over() && !to.requeued;
        // The resources of the last attempt, or of the one before if the job is waiting to run again.
        let ran = begun.last().map_or(to, |entry| &entry.allocation);
        let sum = |of: fn(&Allocation) -> Option<f64>| -> Option<f64> {
            let parts = begun.iter().map(|entry| of(&entry.allocation)).collect::<Option<Vec<f64>>>()?;
            (!parts.is_empty()).then(|| parts.iter().sum())
        };
        let job = JobRow {
            cluster: to.cluster.as_deref().map(Cow::Borrowed),
            job_key: Some(Cow::Borrowed(&job_key)),
            parent_job: last.id.parent().map(|parent| Cow::Owned(format!("{prefix}{parent}"))),
            user: to.user.as_deref().map(Cow::Borrowed),
            account: to.account.as_deref().map(Cow::Borrowed),
            vc: to.partition.as_deref().map(Cow::Borrowed),
            qos: to.qos.as_deref().map(Cow::Borrowed),
            name: to.name.as_deref().map(Cow::Borrowed),
            gpu_type: to.gpu_type.as_deref().or(ran.gpu_type.as_deref()).map(Cow::Borrowed),
            state: Some(Cow::Borrowed(to.state.unwrap_or(JobState::Unknown).id())),
            reported_state: to.reported_state.as_deref().map(Cow::Borrowed),
            pending_reason: to
                .pending_reason
                .as_deref()
                .filter(|_| to.state == Some(JobState::Pending) && !over)
                .map(Cow::Borrowed),
            submit: from.submit,
            eligible: from.eligible,
            start: begun.first().and_then(|entry| entry.allocation.start),
            end: if over { to.end } else { None },
            censored: match to.state {
                _ if over => Some(false),
                Some(JobState::Running | JobState::Pending) => Some(true),
                _ => None,
            },
            attempts: i64::try_from(begun.len()).ok(),
            req_nodes: to.req_nodes,
            req_cpus: to.req_cpus,
            req_mem_bytes: to.req_mem_bytes,
            req_gpus: gpus(to.req_gpus, to.req_listed),
            alloc_nodes: ran.alloc_nodes,
            alloc_cpus: ran.alloc_cpus,
            alloc_gpus: if begun.is_empty() { gpus(ran.alloc_gpus, ran.alloc_listed) } else { given(ran) },
            alloc_mem_bytes: ran.alloc_mem_bytes,
            nodes_hostlist: ran.nodes_hostlist.as_deref().map(Cow::Borrowed),
            time_limit_s: to.time_limit_s,
            run_s: sum(Allocation::run_s),
            suspended_s: sum(|record| record.suspended_s),
            reported_run_s: sum(|record| record.elapsed_s),
            reported_wait_s: from.planned_s,
            reported_energy_j: sum(|record| record.energy_j).or_else(|| only(steps, |step| step.energy_j)),
            // A summary is of one run.
            reported_gpu_util_ratio: ran
                .summary
                .filter(|_| begun.len() == 1)
                .and_then(|summary| summary.gpu_util_ratio)
                .or_else(|| only(steps, |step| step.gpu_util_ratio)),
            exit_code: to.exit_code,
            ..JobRow::default()
        };
        trace.jobs.push(job);

        // A single attempt that ended when the job did needs no row of its own.
        let plain = begun.len() <= 1 && begun.iter().all(|entry| entry.allocation.end.is_none() || over);
        self.note_overlaps(&begun, trace);
        for (nth, entry) in (1i64..).zip(&begun) {
            let record = &entry.allocation;
            let given = given(record);
            if !plain {
                trace.attempts.push(AttemptRow {
                    job_key: Some(Cow::Borrowed(&job_key)),
                    attempt: Some(nth),
                    start: record.start,
                    end: record.end,
                    censored: Some(!record.is_over() && record.state == Some(JobState::Running)),
                    end_reason: end_reason(record).map(|state| Cow::Borrowed(state.id())),
                    nodes_hostlist: record.nodes_hostlist.as_deref().map(Cow::Borrowed),
                    alloc_gpus: given,
                    alloc_cpus: record.alloc_cpus,
                    alloc_mem_bytes: record.alloc_mem_bytes,
                });
            }
            place(&job_key, nth, record, given, trace);
        }
    }
}

/// The value of the only step that has one.
fn only(steps: &[Step], of: fn(&Step) -> Option<f64>) -> Option<f64> {
    let mut known = steps.iter().filter_map(of);
    let value = known.next()?;
    known.next().is_none().then_some(value)
}

/// Placement rows of one attempt.
fn place(job_key: &str, attempt: i64, record: &Allocation, gpus: Option<f64>, trace: &mut Trace) {
    let Some(list) = record.nodes_hostlist.as_deref() else { return };
    let nodes = match hostlist::expand(list, MOST_NODES) {
        Ok(nodes) => nodes,
        Err(hostlist::HostlistError::TooMany) => {
            trace.note(format!("Jobs on more than {MOST_NODES} nodes have no placements, only their host list."));
            return;
        }
        Err(hostlist::HostlistError::Syntax) => return,
    };
    // Slurm's text does not say how GPUs are spread; an even share is certain only where the total divides and the
    // nodes are alike, so anything else stays unknown.
    let share = gpus.map(|gpus| gpus / nodes.len() as f64).filter(|share| nodes.len() == 1 || share.fract() == 0.0);
    for node in &nodes {
        trace.placements.push(PlacementRow {
            job_key: Some(Cow::Borrowed(job_key)),
            attempt: Some(attempt),
            node: Some(Cow::Borrowed(node)),
            gpu_ids: None,
            gpus: share,
        });
    }
}

/// End state of an attempt, `None` while it runs. Being queued again or resized is a cancellation
/// of that attempt.
fn end_reason(record: &Allocation) -> Option<JobState> {
    match record.state {
        Some(JobState::Pending | JobState::Running) if record.requeued && record.end.is_some() => {
            Some(JobState::Cancelled)
        }
        Some(JobState::Running | JobState::Pending) => None,
        state => state,
    }
}

/// Sorts the parts of a job: itself, components, tasks, waiting rest.
fn part_order(id: &JobId) -> (u8, u64, &str) {
    match &id.part {
        Part::Whole => (0, 0, ""),
        Part::Component(offset) => (1, *offset, ""),
        Part::Task(task) => (2, *task, ""),
        Part::Waiting(list) => (3, 0, list),
    }
}

/// Splits the records of one identifier, in order of submission, into jobs, each the list of its attempts.
fn split_jobs(same: &[Entry]) -> Vec<Vec<&Entry>> {
    let mut jobs: Vec<Vec<&Entry>> = Vec::new();
    for entry in same {
        let Some(attempts) = jobs.last_mut() else {
            jobs.push(vec![entry]);
            continue;
        };
        let Some(before) = attempts.last().copied() else { continue };
        let (old, new) = (&before.allocation, &entry.allocation);
        if old.submit == new.submit && (old.start == new.start || old.start.is_none() || new.start.is_none()) {
            // Two snapshots of the same run: the one that knows more counts.
            if (new.is_over(), new.start.is_some()) >= (old.is_over(), old.start.is_some()) {
                attempts.pop();
                attempts.push(entry);
            }
        } else if continues(old, new) {
            attempts.push(entry);
        } else {
            jobs.push(vec![entry]);
        }
    }
    jobs
}

/// Whether `new` is the next attempt of the job that `old` is an attempt of.
fn continues(old: &Allocation, new: &Allocation) -> bool {
    if old.user.is_some() && new.user.is_some() && old.user != new.user {
        return false;
    }
    if old.submit == new.submit {
        return true;
    }
    let again = old.requeued || matches!(old.state, Some(JobState::Preempted | JobState::NodeFail));
    let (Some(end), Some(submit)) = (old.end.or(old.submit), new.submit) else { return again };
    again && submit - end <= DAY_MS
}
