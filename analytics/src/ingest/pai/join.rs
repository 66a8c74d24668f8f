//! Joins the tables on the job: tags before jobs, then tasks, instances and sensors, one pass each.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::error::Result;
use crate::ingest::delimited::{Delimited, Record};
use crate::ingest::field::{self, GIB, Moment};
use crate::ingest::read::check_job;
use crate::ingest::source::SourceFile;
use crate::quality::{Ledger, Reason, RowAudit, reason};
use crate::schema::{JobRow, JobState, NodeRow, PlacementRow};
use crate::trace::Trace;

const UNKNOWN_JOB: Reason = Reason {
    id: "unknown_job",
    what: "the row belongs to a job that the job table does not have, or none at all",
    remedy: "give the whole job table; parts of a cut trace lose the jobs outside",
};
const REPEATED_KEY: Reason = Reason {
    id: "repeated_key",
    what: "another row with other values describes the same job, task or machine; only the first is used",
    remedy: "check whether two versions of the trace were given",
};
const ENDED_WHILE_RUNNING: Reason = Reason {
    id: "ended_while_running",
    what: "the status says that the job is running or waiting, yet it has an end; the end is set to unknown",
    remedy: "check the status in the source",
};

/// Texts held once, by code in order of first appearance.
#[derive(Debug, Default)]
struct Names {
    codes: HashMap<Box<str>, u32>,
    texts: Vec<Box<str>>,
}

impl Names {
    fn code(&mut self, text: &str) -> u32 {
        if let Some(code) = self.codes.get(text) {
            return *code;
        }
        // Memory ends long before codes do.
        let code = u32::try_from(self.texts.len()).unwrap_or(u32::MAX);
        self.texts.push(text.into());
        self.codes.insert(text.into(), code);
        code
    }

    fn text(&self, code: u32) -> Option<&str> {
        self.texts.get(code as usize).map(AsRef::as_ref)
    }
}

/// A sum that is unknown as soon as one part is, or when there is no part.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    total: f64,
    parts: u32,
    unknown: bool,
}

impl Sum {
    fn add(&mut self, part: Option<f64>) {
        self.parts = self.parts.saturating_add(1);
        match part {
            Some(part) => self.total += part,
            None => self.unknown = true,
        }
    }

    fn value(self) -> Option<f64> {
        (self.parts > 0 && !self.unknown).then_some(self.total)
    }
}

/// Entry of the group tag table for a job.
#[derive(Debug, Clone, Copy)]
struct Tag {
    gpu_type: Option<u32>,
    group: Option<u32>,
    workload: Option<u32>,
}

/// A job while its tables are read.
#[derive(Debug)]
struct Job<'f> {
    audit: RowAudit<'f>,
    row: u64,
    key: Box<str>,
    user: Option<u32>,
    status: Option<u32>,
    tag: Option<Tag>,
    state: JobState,
    submit: i64,
    start: Option<i64>,
    end: Option<i64>,
    gpus: Sum,
    cpus: Sum,
    mem: Sum,
    /// GPU models its tasks were given, in order of first appearance.
    gpu_types: Vec<u32>,
    /// Sum and count of the sensors' utilisation.
    util: Sum,
    nodes: u32,
}

/// A task, as its instances look it up.
#[derive(Debug)]
struct Task {
    row: u64,
    /// GPUs of one instance.
    gpus: Option<f64>,
}

/// The tables read so far.
#[derive(Debug, Default)]
pub(super) struct Join<'f> {
    names: Names,
    tags: HashMap<Box<str>, Tag>,
    jobs: Vec<Job<'f>>,
    index: HashMap<Box<str>, u32>,
    tasks: HashMap<(u32, u32), Task>,
    /// Job, machine and GPUs of each instance; unknown GPUs are not a number, to keep the row at 16 bytes.
    instances: Vec<(u32, u32, f64)>,
    machines: HashMap<Box<str>, u64>,
    /// Hashes of rows of the tables without a key. Ten million rows collide with a chance of one in 10⁵.
    seen: HashSet<u64>,
}

impl<'f> Join<'f> {
    /// Tags by `inst_id`, which is really the job's.
    pub(super) fn read_group_tags(&mut self, mut rows: Delimited<'_>, ledger: &mut Ledger) -> Result<()> {
        let id = Some(rows.require("inst_id")?);
        let (spec, group) = (rows.column("gpu_type_spec"), rows.column("group"));
        let workload = rows.column("workload");
        while let Some(record) = rows.next_row(ledger) {
            let Some(key) = record.text(id) else {
                ledger.quarantine(&record.audit, reason::NO_KEY, "inst_id", record.raw());
                continue;
            };
            if !self.seen.insert(hash(record.raw())) {
                ledger.quarantine(&record.audit, reason::DUPLICATE, "inst_id", record.raw());
                continue;
            }
            let mut code = |column| record.text(column).map(|text| self.names.code(text));
            let tag = Tag { gpu_type: code(spec), group: code(group), workload: code(workload) };
            if self.tags.contains_key(key) {
                ledger.quarantine(&record.audit, REPEATED_KEY, "inst_id", record.raw());
                continue;
            }
            self.tags.insert(key.into(), tag);
            ledger.keep(record.audit);
        }
        rows.finish(ledger);
        Ok(())
    }

    /// Jobs. Rows that are used are accounted for by [`Join::finish`], when all that may need repair is known.
    pub(super) fn read_jobs(
        &mut self,
        file: &'f SourceFile,
        mut rows: Delimited<'_>,
        ledger: &mut Ledger,
    ) -> Result<()> {
        let name = Some(rows.require("job_name")?);
        let (id, user) = (rows.column("inst_id"), rows.column("user"));
        let status = Some(rows.require("status")?);
        let (submitted, ended) = (Some(rows.require("start_time")?), rows.column("end_time"));
        while let Some(record) = rows.next_row(ledger) {
            let raw = record.raw();
            let Some(key) = record.text(name) else {
                ledger.quarantine(&record.audit, reason::NO_KEY, "job_name", raw);
                continue;
            };
            let row = hash(raw);
            if let Some(first) = self.index.get(key).and_then(|ix| self.jobs.get(*ix as usize)) {
                let reason = if first.row == row { reason::DUPLICATE } else { REPEATED_KEY };
                ledger.quarantine(&record.audit, reason, "job_name", raw);
                continue;
            }
            // The record's own audit does not outlive the record.
            let mut audit = RowAudit::new(file.name(), record.audit.line());
            if raw.contains('\u{fffd}') {
                audit.repair(reason::NOT_UTF8, "", raw);
            }
            let Some(submit) = Moment::Seconds.read(record.field(submitted), "start_time", &mut audit) else {
                ledger.quarantine(&audit, reason::NO_SUBMIT, "start_time", raw);
                continue;
            };
            let word = record.text(status);
            let state = word.map_or(Some(JobState::Unknown), JobState::parse).unwrap_or_else(|| {
                audit.repair(reason::UNKNOWN_STATE, "status", word.unwrap_or_default());
                JobState::Unknown
            });
            let ix = u32::try_from(self.jobs.len()).unwrap_or(u32::MAX);
            self.index.insert(key.into(), ix);
            self.jobs.push(Job {
                row,
                key: key.into(),
                user: record.text(user).map(|text| self.names.code(text)),
                status: word.map(|text| self.names.code(text)),
                tag: record.text(id).and_then(|id| self.tags.get(id)).copied(),
                state,
                submit,
                start: None,
                end: Moment::Seconds.read(record.field(ended), "end_time", &mut audit),
                gpus: Sum::default(),
                cpus: Sum::default(),
                mem: Sum::default(),
                gpu_types: Vec::new(),
                util: Sum::default(),
                nodes: 0,
                audit,
            });
        }
        rows.finish(ledger);
        Ok(())
    }

    /// Tasks: a job's start, and what it asks for.
    pub(super) fn read_tasks(&mut self, mut rows: Delimited<'_>, ledger: &mut Ledger) -> Result<()> {
        let name = Some(rows.require("job_name")?);
        let task_name = Some(rows.require("task_name")?);
        let inst_num = Some(rows.require("inst_num")?);
        let (started, gpu_type) = (rows.column("start_time"), rows.column("gpu_type"));
        let (plan_cpu, plan_mem) = (rows.column("plan_cpu"), rows.column("plan_mem"));
        let plan_gpu = Some(rows.require("plan_gpu")?);
        while let Some(mut record) = rows.next_row(ledger) {
            let raw = record.raw();
            let Some(ix) = self.job_of(&record, name) else {
                ledger.quarantine(&record.audit, UNKNOWN_JOB, "job_name", raw);
                continue;
            };
            let task = self.names.code(record.text(task_name).unwrap_or_default());
            let row = hash(raw);
            let free = match self.tasks.entry((ix, task)) {
                Entry::Vacant(free) => free,
                Entry::Occupied(first) => {
                    let reason = if first.get().row == row { reason::DUPLICATE } else { REPEATED_KEY };
                    ledger.quarantine(&record.audit, reason, "task_name", raw);
                    continue;
                }
            };
            let count = record.amount(inst_num, "inst_num");
            let cpus = record.amount(plan_cpu, "plan_cpu").map(|percent| percent / 100.0);
            // In GB; machines of 512 show that binary ones are meant.
            let mem = record.amount(plan_mem, "plan_mem").map(|gib| gib * GIB);
            let gpus_text = record.text(plan_gpu);
            let mut gpus = record.amount(plan_gpu, "plan_gpu").map(|percent| percent / 100.0);
            if gpus_text.is_none() && (cpus.is_some() || mem.is_some()) {
                gpus = Some(0.0);
            }
            let start = record.moment(started, Moment::Seconds, "start_time");
            // Tasks without a GPU have a type too: `CPU`, or that of the machine they happen to be on.
            let model = record.text(gpu_type).filter(|_| gpus != Some(0.0)).map(|text| self.names.code(text));
            free.insert(Task { row, gpus });
            if let Some(job) = self.jobs.get_mut(ix as usize) {
                let of_all = |each: Option<f64>| Some(each? * count?);
                job.gpus.add(of_all(gpus));
                job.cpus.add(of_all(cpus));
                job.mem.add(of_all(mem));
                job.start = [job.start, start].into_iter().flatten().min();
                if let Some(model) = model.filter(|model| !job.gpu_types.contains(model)) {
                    job.gpu_types.push(model);
                }
            }
            ledger.keep(record.audit);
        }
        rows.finish(ledger);
        Ok(())
    }

    /// Instances: where jobs ran.
    pub(super) fn read_instances(&mut self, mut rows: Delimited<'_>, ledger: &mut Ledger) -> Result<()> {
        let name = Some(rows.require("job_name")?);
        let (task_name, machine) = (rows.column("task_name"), Some(rows.require("machine")?));
        while let Some(record) = rows.next_row(ledger) {
            let raw = record.raw();
            let Some(ix) = self.job_of(&record, name) else {
                ledger.quarantine(&record.audit, UNKNOWN_JOB, "job_name", raw);
                continue;
            };
            if !self.seen.insert(hash(raw)) {
                ledger.quarantine(&record.audit, reason::DUPLICATE, "inst_name", raw);
                continue;
            }
            // An instance that never got a machine ran nowhere.
            if let Some(machine) = record.text(machine) {
                let task = self.names.code(record.text(task_name).unwrap_or_default());
                let gpus = self.tasks.get(&(ix, task)).and_then(|task| task.gpus);
                let machine = self.names.code(machine);
                self.instances.push((ix, machine, gpus.unwrap_or(f64::NAN)));
            }
            ledger.keep(record.audit);
        }
        rows.finish(ledger);
        Ok(())
    }

    /// Sensors: utilisation over the life of an instance, one row a GPU.
    pub(super) fn read_sensors(&mut self, mut rows: Delimited<'_>, ledger: &mut Ledger) -> Result<()> {
        let name = Some(rows.require("job_name")?);
        let util = Some(rows.require("gpu_wrk_util")?);
        while let Some(mut record) = rows.next_row(ledger) {
            let raw = record.raw();
            let Some(ix) = self.job_of(&record, name) else {
                ledger.quarantine(&record.audit, UNKNOWN_JOB, "job_name", raw);
                continue;
            };
            if !self.seen.insert(hash(raw)) {
                ledger.quarantine(&record.audit, reason::DUPLICATE, "worker_name", raw);
                continue;
            }
            if let Some(percent) = record.amount(util, "gpu_wrk_util") {
                if percent > 100.0 {
                    record.audit.repair(reason::OUT_OF_RANGE, "gpu_wrk_util", &percent.to_string());
                } else if let Some(job) = self.jobs.get_mut(ix as usize) {
                    job.util.add(Some(percent / 100.0));
                }
            }
            ledger.keep(record.audit);
        }
        rows.finish(ledger);
        Ok(())
    }

    /// Machines: the inventory.
    pub(super) fn read_machines(&mut self, mut rows: Delimited<'_>, trace: &mut Trace) -> Result<()> {
        let machine = Some(rows.require("machine")?);
        let gpus = Some(rows.require("cap_gpu")?);
        let (model, cpus, mem) = (rows.column("gpu_type"), rows.column("cap_cpu"), rows.column("cap_mem"));
        while let Some(mut record) = rows.next_row(&mut trace.ledger) {
            let raw = record.raw();
            let Some(node) = record.text(machine) else {
                trace.ledger.quarantine(&record.audit, reason::NO_KEY, "machine", raw);
                continue;
            };
            match self.machines.entry(node.into()) {
                Entry::Vacant(free) => _ = free.insert(hash(raw)),
                Entry::Occupied(first) => {
                    let reason = if *first.get() == hash(raw) { reason::DUPLICATE } else { REPEATED_KEY };
                    trace.ledger.quarantine(&record.audit, reason, "machine", raw);
                    continue;
                }
            }
            let row = NodeRow {
                node: Some(node.into()),
                gpu_type: record.text(model).map(Into::into),
                gpus: record.amount(gpus, "cap_gpu"),
                cpus: record.amount(cpus, "cap_cpu"),
                mem_bytes: record.amount(mem, "cap_mem").map(|gib| (gib * GIB).round() as i64),
                ..NodeRow::default()
            };
            trace.nodes.push(row);
            trace.ledger.keep(record.audit);
        }
        rows.finish(&mut trace.ledger);
        Ok(())
    }

    /// Pushes placements and jobs, and accounts for the rows of the job table. O(n log n) in instances.
    pub(super) fn finish(mut self, trace: &mut Trace) {
        self.instances.sort_unstable_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)).then(a.2.total_cmp(&b.2)));
        for group in self.instances.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
            let Some((ix, machine, _)) = group.first().copied() else { continue };
            let Some(job) = self.jobs.get_mut(ix as usize) else { continue };
            job.nodes += 1;
            let gpus: f64 = group.iter().map(|(_, _, gpus)| gpus).sum();
            trace.placements.push(PlacementRow {
                job_key: Some(job.key.as_ref().into()),
                attempt: Some(1),
                node: self.names.text(machine).map(Into::into),
                gpu_ids: None,
                gpus: Some(gpus).filter(|gpus| !gpus.is_nan()),
            });
        }
        let placed = !self.instances.is_empty();
        for mut job in self.jobs {
            let mut audit = job.audit;
            let open = matches!(job.state, JobState::Running | JobState::Pending);
            if let (true, Some(end)) = (open, job.end) {
                audit.repair(ENDED_WHILE_RUNNING, "end_time", &crate::time::format_utc(end));
                job.end = None;
            }
            let text = |code: Option<u32>| code.and_then(|code| self.names.text(code));
            let request = text(job.tag.and_then(|tag| tag.gpu_type));
            let given = || {
                let models: Vec<&str> = job.gpu_types.iter().filter_map(|code| self.names.text(*code)).collect();
                (!models.is_empty()).then(|| models.join("|"))
            };
            let started = job.start.is_some();
            let mut row = JobRow {
                job_key: Some(job.key.as_ref().into()),
                user: text(job.user).map(Into::into),
                name: text(job.tag.and_then(|tag| tag.group)).map(Into::into),
                job_type: text(job.tag.and_then(|tag| tag.workload)).map(Into::into),
                gpu_type: request.map(Into::into).or_else(|| given().map(Into::into)),
                state: Some(job.state.id().into()),
                reported_state: text(job.status).map(Into::into),
                submit: Some(job.submit),
                start: job.start,
                end: job.end,
                censored: (job.state != JobState::Unknown).then_some(open),
                req_cpus: job.cpus.value(),
                req_mem_bytes: job.mem.value().map(|bytes| bytes.round() as i64),
                req_gpus: job.gpus.value(),
                alloc_nodes: (placed && job.nodes > 0).then_some(i64::from(job.nodes)),
                alloc_cpus: job.cpus.value().filter(|_| started),
                alloc_gpus: job.gpus.value().filter(|_| started),
                reported_gpu_util_ratio: job.util.value().map(|sum| sum / f64::from(job.util.parts)),
                ..JobRow::default()
            };
            check_job(&mut row, &mut audit);
            trace.jobs.push(row);
            trace.ledger.keep(audit);
        }
    }

    fn job_of(&self, record: &Record<'_>, name: Option<usize>) -> Option<u32> {
        self.index.get(field::text(record.field(name))?).copied()
    }
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}
