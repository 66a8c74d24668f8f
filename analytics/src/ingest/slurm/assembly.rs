//! From accounting records to jobs, attempts and placements.
//!
//! One job may have several records: each requeue writes another one with the same identifier and a later submission
//! (the moment it was queued again). Identifiers are also used again once they run out. A record continues the one
//! before it (by submission) if both have the same submission (a resize, or an older snapshot of the same run), or if
//! the earlier was requeued, preempted or lost its node and the later was submitted within a day of its end; otherwise
//! it is another job, whose key is `id@submission` in epoch seconds. Steps give their job's energy and GPU utilisation
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

use super::hostlist;
use super::job_id::{JobId, Part, tasks};
use super::tres::Tres;
use crate::quality::{Reason, RowAudit, reason};
use crate::schema::{AttemptRow, JobRow, JobState, PlacementRow};
use crate::time::{DAY_MS, SECOND_MS};
use crate::trace::Trace;

/// Nodes of one attempt that get placement rows; more are left as a host list.
const MOST_NODES: usize = 4_096;
/// Energy beyond this many watts a node is a glitch of the meter: no node draws 30 kW.
const MOST_NODE_W: f64 = 30_000.0;

/// An energy no job can have used.
const ENERGY_GLITCH: Reason = Reason {
    id: "energy_glitch",
    what: "the energy is negative or more than the nodes can draw (a counter was reset); it is set to unknown",
    remedy: "check the energy plugin on the nodes the job ran on",
};
/// A host list that cannot be read.
const BAD_HOSTLIST: Reason = Reason {
    id: "bad_hostlist",
    what: "the list of nodes cannot be read; the job has no placements",
    remedy: "export NodeList in full (a width such as NodeList%20 cuts it)",
};
/// A waiting array whose tasks cannot be told.
const CUT_TASK_LIST: Reason = Reason {
    id: "cut_task_list",
    what: "the list of waiting array tasks is cut short or too long; one row stands for all of them",
    remedy: "export with SLURM_BITSTR_LEN=0 for whole lists",
};

/// One record of an allocation.
#[derive(Debug, Clone, Default)]
pub(super) struct Allocation {
    pub(super) cluster: Option<Arc<str>>,
    pub(super) user: Option<Arc<str>>,
    pub(super) account: Option<Arc<str>>,
    pub(super) partition: Option<Arc<str>>,
    pub(super) qos: Option<Arc<str>>,
    pub(super) name: Option<Arc<str>>,
    pub(super) gpu_type: Option<Arc<str>>,
    pub(super) nodes_hostlist: Option<Arc<str>>,
    pub(super) reported_state: Option<Arc<str>>,
    /// Why it was last blocked. Slurm keeps it after the job has started; it counts for jobs that wait.
    pub(super) pending_reason: Option<Arc<str>>,
    pub(super) state: Option<JobState>,
    /// The words of the state say that the job went on in another record (queued again, or resized).
    pub(super) requeued: bool,
    pub(super) submit: Option<i64>,
    pub(super) eligible: Option<i64>,
    pub(super) start: Option<i64>,
    pub(super) end: Option<i64>,
    pub(super) elapsed_s: Option<f64>,
    pub(super) planned_s: Option<f64>,
    pub(super) time_limit_s: Option<f64>,
    pub(super) exit_code: Option<i64>,
    pub(super) req_nodes: Option<i64>,
    pub(super) alloc_nodes: Option<i64>,
    pub(super) req_cpus: Option<f64>,
    pub(super) alloc_cpus: Option<f64>,
    pub(super) req_mem_bytes: Option<i64>,
    pub(super) alloc_mem_bytes: Option<i64>,
    /// GPUs as listed; `None` also where the list names none, which means 0 if the cluster counts GPUs.
    pub(super) req_gpus: Option<f64>,
    pub(super) alloc_gpus: Option<f64>,
    /// Whether there was a list of resources that could have named GPUs.
    pub(super) req_listed: bool,
    pub(super) alloc_listed: bool,
    pub(super) energy_j: Option<f64>,
    /// Whether the record could have named nodes.
    pub(super) nodes_told: bool,
}

impl Allocation {
    /// Whether it ended without ever having been given anything, though a start is written: Slurm writes the moment of
    /// the cancellation as start and end of a job that never left the queue.
    fn never_started(&self) -> bool {
        let Some(state) = self.state.filter(|state| state.is_final() && *state != JobState::Completed) else {
            return false;
        };
        let took_no_time = match self.elapsed_s {
            Some(seconds) => seconds == 0.0,
            None => self.start.zip(self.end).is_some_and(|(start, end)| start >= end),
        };
        if self.requeued || self.start.is_none() || !took_no_time || self.nodes_hostlist.is_some() {
            return false;
        }
        // Where the export does not tell nodes, only what ends jobs in the queue says that this one was there.
        let given = [self.alloc_gpus, self.alloc_cpus.filter(|_| self.alloc_listed)];
        self.nodes_told
            || (matches!(state, JobState::Cancelled | JobState::Timeout)
                && given.into_iter().flatten().all(|count| count == 0.0))
    }

    /// Takes away what only a job that started has.
    fn forget_run(&mut self) {
        self.start = None;
        self.elapsed_s = None;
        self.energy_j = None;
        self.req_nodes = self.req_nodes.or(self.alloc_nodes);
        self.alloc_nodes = None;
        self.alloc_cpus = None;
        self.alloc_mem_bytes = None;
        self.alloc_gpus = None;
        self.alloc_listed = false;
    }

    /// Whether it ended, by its state or, without one, by its end.
    fn is_over(&self) -> bool {
        self.state.map_or(self.end.is_some(), JobState::is_final) || (self.requeued && self.end.is_some())
    }

    fn run_s(&self) -> Option<f64> {
        Some((self.end? - self.start?) as f64 / SECOND_MS as f64)
    }
}

/// What a step says about the job it belongs to.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Step {
    /// Share of its GPUs' time a kernel was resident, 0 to 1.
    pub(super) gpu_util_ratio: Option<f64>,
    /// Energy, joules.
    pub(super) energy_j: Option<f64>,
}

/// GPU utilisation of a step from its usage: `percent` summed over `gpus`. Zero with no GPU memory in use is what
/// boards that cannot measure report, so it says nothing; nor does more than 100 % a GPU.
pub(super) fn util_ratio(percent: Option<f64>, mem_bytes: Option<f64>, gpus: Option<f64>) -> Option<f64> {
    let (percent, gpus) = (percent?, gpus.filter(|gpus| *gpus > 0.0)?);
    if percent == 0.0 && mem_bytes.unwrap_or(0.0) == 0.0 {
        return None;
    }
    let ratio = percent / 100.0 / gpus;
    (0.0..=1.0).contains(&ratio).then_some(ratio)
}

/// An energy in joules, `None` for the sentinels and for zero (a cluster without a meter writes 0 for every job).
/// Negative, or more than 30 kW a node over the run, is a glitch: unknown, and noted.
pub(super) fn energy_j(
    joules: Option<f64>,
    elapsed_s: Option<f64>,
    nodes: Option<i64>,
    row: &mut RowAudit<'_>,
) -> Option<f64> {
    let joules = joules.filter(|joules| joules.is_finite() && *joules != 0.0)?;
    // NO_VAL and INFINITE, of 32 and 64 bits.
    if [4_294_967_294.0, 4_294_967_295.0].contains(&joules) || joules >= 18_446_744_073_709_500_000.0 {
        return None;
    }
    let most = elapsed_s.map(|seconds| seconds.max(1.0) * nodes.unwrap_or(1).max(1) as f64 * MOST_NODE_W);
    if joules < 0.0 || most.is_some_and(|most| joules > most) {
        row.repair(ENERGY_GLITCH, "ConsumedEnergy", &joules.to_string());
        return None;
    }
    Some(joules)
}

/// Where a record was read, for what is found out later.
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
}

impl Assembly {
    /// No record yet; a GPU holds so many shards, where that is known.
    pub(super) fn new(shards_per_gpu: Option<u32>) -> Self {
        Self { shards_per_gpu, ..Self::default() }
    }

    /// Takes shards in what was asked for and given for parts of GPUs, and counts the record if there are any.
    pub(super) fn settle_shards(&mut self, asked: &mut Tres, given: &mut Tres) {
        let per_gpu = self.shards_per_gpu;
        let (of_asked, of_given) = (asked.settle_shards(per_gpu), given.settle_shards(per_gpu));
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
        if allocation.req_gpus.is_some() || allocation.alloc_gpus.is_some() {
            self.counting.insert(allocation.cluster.clone());
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
            reported_run_s: allocation.elapsed_s,
            reported_wait_s: allocation.planned_s,
            ..JobRow::default()
        };
        crate::ingest::check_job(&mut times, row);
        (allocation.submit, allocation.eligible) = (times.submit, times.eligible);
        (allocation.start, allocation.end) = (times.start, times.end);
        (allocation.elapsed_s, allocation.planned_s) = (times.reported_run_s, times.reported_wait_s);
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
        trace.counts_gpus = !self.counting.is_empty();
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
        let silent: Vec<&str> = clusters
            .iter()
            .filter(|cluster| !self.counting.contains(**cluster))
            .map(|cluster| cluster.as_deref().unwrap_or("this cluster"))
            .collect();
        if !silent.is_empty() && !self.entries.is_empty() {
            trace.note(format!(
                "No record of {} names GPUs, so GPU counts are unknown there, not 0: list gres/gpu in \
                 AccountingStorageTRES, and export AllocTRES and ReqTRES.",
                silent.join(", ")
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
            alloc_gpus: gpus(ran.alloc_gpus, ran.alloc_listed),
            alloc_mem_bytes: ran.alloc_mem_bytes,
            nodes_hostlist: ran.nodes_hostlist.as_deref().map(Cow::Borrowed),
            time_limit_s: to.time_limit_s,
            run_s: sum(Allocation::run_s),
            reported_run_s: sum(|record| record.elapsed_s),
            reported_wait_s: from.planned_s,
            reported_energy_j: sum(|record| record.energy_j).or_else(|| only(steps, |step| step.energy_j)),
            reported_gpu_util_ratio: only(steps, |step| step.gpu_util_ratio),
            exit_code: to.exit_code,
            ..JobRow::default()
        };
        trace.jobs.push(job);

        // A single attempt that ended when the job did needs no row of its own.
        let plain = begun.len() <= 1 && begun.iter().all(|entry| entry.allocation.end.is_none() || over);
        self.note_overlaps(&begun, trace);
        for (nth, entry) in (1i64..).zip(&begun) {
            let record = &entry.allocation;
            let given = gpus(record.alloc_gpus, record.alloc_listed);
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

/// What ended an attempt, `None` while it runs. Being queued again or resized is a cancellation of that attempt.
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
    if old.submit == new.submit {
        return true;
    }
    let again = old.requeued || matches!(old.state, Some(JobState::Preempted | JobState::NodeFail));
    let (Some(end), Some(submit)) = (old.end.or(old.submit), new.submit) else { return again };
    again && submit - end <= DAY_MS
}

/// Reads the words of a state: canonical, and whether they say the job went on in another record. A word we do not
/// know is noted.
pub(super) fn state(words: &str, row: &mut RowAudit<'_>) -> (Option<JobState>, bool) {
    let words = words.trim();
    let goes_on = |word: &str| matches!(word.trim_end_matches('+'), "REQUEUED" | "RQ" | "RESIZING" | "RS");
    let requeued = words.to_ascii_uppercase().split([',', ' ']).any(goes_on);
    let state = words.split(',').find_map(JobState::parse);
    if state.is_none() && !words.is_empty() {
        row.repair(reason::UNKNOWN_STATE, "State", words);
    }
    (state, requeued)
}
