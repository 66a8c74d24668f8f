//! Reads openb 2023, the pods and nodes of an Alibaba cluster whose GPUs are shared by fractions (published with
//! "Beware of Fragmentation", USENIX ATC '23).
//!
//! Two CSV files with headers: pods (`name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,
//! deletion_time,scheduled_time`) and nodes (`sn,cpu_milli,memory_mib,gpu,model`). Times are seconds since the trace
//! began. `gpu_milli` is *per GPU*, so a pod has `num_gpu × gpu_milli / 1000` GPUs.
//!
//! `pod_phase` is a snapshot of some earlier moment: most `Running` pods have a deletion time. A deletion time is an
//! end whatever the phase, and the phase tells how the pod ended only where it is final: a `Running` pod that was
//! deleted ended in a state we do not know, a `Pending` pod that was deleted was cancelled before it ever started.
//!
//! O(bytes). Worked number: `num_gpu` 1 and `gpu_milli` 460 are 0.46 GPUs, 8 and 1000 are 8 GPUs.

use super::delimited::{Delimited, Record};
use super::field::{MIB, Moment};
use super::options::ReadOptions;
use super::read::{SeenKeys, check_job};
use super::reader::Reader;
use super::source::{SourceFile, TableHeaders};
use crate::error::{Error, Result};
use crate::quality::reason;
use crate::schema::{JobRow, JobState, NodeRow, Table};
use crate::time::TimeBasis;
use crate::trace::Trace;

const POD_COLUMNS: &[&str] = &["name", "num_gpu", "gpu_milli", "pod_phase", "creation_time", "deletion_time"];
const NODE_COLUMNS: &[&str] = &["sn", "cpu_milli", "memory_mib", "gpu", "model"];

/// The openb 2023 pod and node lists.
#[derive(Debug)]
pub(super) struct Openb;

impl Reader for Openb {
    fn id(&self) -> &'static str {
        "openb"
    }

    fn describes(&self) -> &'static str {
        "openb 2023 pod and node lists (Alibaba, fractional GPUs)"
    }

    fn columns(&self) -> TableHeaders {
        &[(',', POD_COLUMNS), (',', NODE_COLUMNS)]
    }

    fn read(&self, files: &[SourceFile], options: &ReadOptions<'_>, trace: &mut Trace) -> Result<()> {
        let (mut pods, mut nodes) = (SeenKeys::default(), SeenKeys::default());
        for file in files {
            let rows = Delimited::open(file, b',', options.observer)?;
            if rows.column("pod_phase").is_some() {
                trace.basis = TimeBasis::Relative;
                read_pods(rows, &mut pods, trace)?;
            } else if rows.column("sn").is_some() {
                read_nodes(rows, &mut nodes, trace)?;
            } else {
                return Err(Error::format(
                    file.name(),
                    format!("neither a pod list nor a node list: the columns are {}", rows.header().join(", ")),
                    "give openb_pod_list_*.csv and openb_node_list_*.csv as published",
                ));
            }
        }
        if !trace.jobs.is_empty() {
            trace.note(
                "openb: the phase of a pod is a snapshot; its deletion time is taken as its end whatever the phase, so \
                 a deleted `Running` pod ended in an unknown state and a deleted `Pending` pod was cancelled unscheduled.",
            );
            trace.note("openb: times are seconds since the trace began; hours and weekdays are not known.");
        }
        Ok(())
    }
}

fn read_pods(mut rows: Delimited<'_>, seen: &mut SeenKeys, trace: &mut Trace) -> Result<()> {
    let columns = PodColumns::new(&rows)?;
    while let Some(mut record) = rows.next_row(&mut trace.ledger) {
        let raw = record.raw();
        let Some(name) = record.text(Some(columns.name)) else {
            trace.ledger.quarantine(&record.audit, reason::NO_KEY, "name", raw);
            continue;
        };
        if !seen.is_new(raw) {
            trace.ledger.quarantine(&record.audit, reason::DUPLICATE, "name", raw);
            continue;
        }
        let Some(submit) = record.moment(Some(columns.creation), Moment::Seconds, "creation_time") else {
            trace.ledger.quarantine(&record.audit, reason::NO_SUBMIT, "creation_time", raw);
            continue;
        };
        let start = record.moment(columns.scheduled, Moment::Seconds, "scheduled_time");
        let end = record.moment(columns.deletion, Moment::Seconds, "deletion_time");
        let phase = record.text(columns.phase);
        let state = state(phase, start.is_some(), end.is_some(), &mut record);
        let gpus = gpus(&columns, &mut record);
        let cpus = record.amount(columns.cpu_milli, "cpu_milli").map(|milli| milli / 1_000.0);
        let mut job = JobRow {
            job_key: Some(name.into()),
            qos: record.text(columns.qos).map(Into::into),
            gpu_type: record.text(columns.gpu_spec).map(Into::into),
            state: Some(state.id().into()),
            reported_state: phase.map(Into::into),
            submit: Some(submit),
            start,
            end,
            censored: Some(end.is_none() && !state.is_final()),
            req_nodes: Some(1),
            req_cpus: cpus,
            req_mem_bytes: bytes(columns.memory_mib, &mut record),
            req_gpus: gpus,
            // A pod gets what it asks for, or is not scheduled.
            alloc_nodes: start.map(|_| 1),
            alloc_cpus: cpus.filter(|_| start.is_some()),
            alloc_gpus: gpus.filter(|_| start.is_some()),
            ..JobRow::default()
        };
        check_job(&mut job, &mut record.audit);
        trace.jobs.push(job);
        trace.ledger.keep(record.audit);
    }
    rows.finish(&mut trace.ledger);
    Ok(())
}

/// Positions of the columns of a pod list.
struct PodColumns {
    name: usize,
    creation: usize,
    scheduled: Option<usize>,
    deletion: Option<usize>,
    phase: Option<usize>,
    cpu_milli: Option<usize>,
    memory_mib: Option<usize>,
    num_gpu: Option<usize>,
    gpu_milli: Option<usize>,
    gpu_spec: Option<usize>,
    qos: Option<usize>,
}

impl PodColumns {
    fn new(rows: &Delimited<'_>) -> Result<Self> {
        Ok(Self {
            name: rows.require("name")?,
            creation: rows.require("creation_time")?,
            scheduled: Some(rows.require("scheduled_time")?),
            deletion: Some(rows.require("deletion_time")?),
            phase: rows.column("pod_phase"),
            cpu_milli: rows.column("cpu_milli"),
            memory_mib: rows.column("memory_mib"),
            num_gpu: Some(rows.require("num_gpu")?),
            gpu_milli: Some(rows.require("gpu_milli")?),
            gpu_spec: rows.column("gpu_spec"),
            qos: rows.column("qos"),
        })
    }
}

/// GPUs a pod asks for. No GPU is a known zero, whatever the share says.
fn gpus(columns: &PodColumns, record: &mut Record<'_>) -> Option<f64> {
    let count = record.amount(columns.num_gpu, "num_gpu")?;
    let milli = record.amount(columns.gpu_milli, "gpu_milli");
    if count == 0.0 {
        return Some(0.0);
    }
    milli.map(|milli| count * milli / 1_000.0)
}

/// End state of a pod, from its phase and whether it was scheduled and deleted.
fn state(phase: Option<&str>, scheduled: bool, deleted: bool, record: &mut Record<'_>) -> JobState {
    match (phase.map(JobState::parse), deleted) {
        (None, _) => JobState::Unknown,
        (Some(None), _) => {
            record.audit.repair(reason::UNKNOWN_STATE, "pod_phase", phase.unwrap_or_default());
            JobState::Unknown
        }
        (Some(Some(JobState::Running)), true) => JobState::Unknown,
        (Some(Some(JobState::Pending)), true) if !scheduled => JobState::Cancelled,
        (Some(Some(JobState::Pending)), true) => JobState::Unknown,
        (Some(Some(state)), _) => state,
    }
}

fn bytes(column: Option<usize>, record: &mut Record<'_>) -> Option<i64> {
    // A float that does not fit saturates, which no machine's memory reaches.
    record.amount(column, "memory_mib").map(|mib| (mib * MIB).round() as i64)
}

fn read_nodes(mut rows: Delimited<'_>, seen: &mut SeenKeys, trace: &mut Trace) -> Result<()> {
    let name = rows.require("sn")?;
    let (cpu, memory) = (rows.column("cpu_milli"), rows.column("memory_mib"));
    let (gpu, model) = (Some(rows.require("gpu")?), rows.column("model"));
    while let Some(mut record) = rows.next_row(&mut trace.ledger) {
        let raw = record.raw();
        let Some(node) = record.text(Some(name)) else {
            trace.ledger.quarantine(&record.audit, reason::NO_KEY, "sn", raw);
            continue;
        };
        if !seen.is_new(raw) {
            trace.ledger.quarantine(&record.audit, reason::DUPLICATE, "sn", raw);
            continue;
        }
        let row = NodeRow {
            node: Some(node.into()),
            gpu_type: record.text(model).map(Into::into),
            gpus: record.amount(gpu, "gpu"),
            cpus: record.amount(cpu, "cpu_milli").map(|milli| milli / 1_000.0),
            mem_bytes: bytes(memory, &mut record),
            ..NodeRow::default()
        };
        trace.nodes.push(row);
        trace.ledger.keep(record.audit);
    }
    rows.finish(&mut trace.ledger);
    Ok(())
}
