//! Reads the Alibaba spot GPU trace of 2026 (GFS): jobs of high priority and spot jobs, and the nodes.
//!
//! Two CSV files with headers: `job_info_df.csv` (`job_name,organization,gpu_model,cpu_request,gpu_request,worker_num,
//! submit_time,duration,job_type`) and `node_info_df.csv` (`gpu_model,gpu_capacity_num,cpu_num,node_name`; its own
//! documentation lists another order, so columns are found by name). Times are seconds since the trace began. Requests
//! are per worker: a job has `gpu_request × worker_num` GPUs. There is no start and no end, and whether `duration`
//! counts time lost to evictions is not documented: it is kept as reported.
//!
//! O(bytes). Worked number: 4 workers of 0.5 GPUs are 2 GPUs.

use super::delimited::{Delimited, Record};
use super::field::Moment;
use super::options::ReadOptions;
use super::read::{SeenKeys, check_job};
use super::reader::Reader;
use super::source::{SourceFile, TableHeaders};
use crate::error::{Error, Result};
use crate::quality::reason;
use crate::schema::{JobRow, NodeRow, Table};
use crate::time::TimeBasis;
use crate::trace::Trace;

const JOB_COLUMNS: &[&str] = &["job_name", "organization", "gpu_request", "worker_num", "submit_time", "job_type"];
const NODE_COLUMNS: &[&str] = &["gpu_model", "gpu_capacity_num", "cpu_num", "node_name"];

/// The job and node lists of the Alibaba spot GPU trace.
#[derive(Debug)]
pub(super) struct AlibabaSpot;

impl Reader for AlibabaSpot {
    fn id(&self) -> &'static str {
        "alibaba-spot"
    }

    fn describes(&self) -> &'static str {
        "Alibaba spot GPU trace 2026 (GFS): job_info_df.csv and node_info_df.csv"
    }

    fn columns(&self) -> TableHeaders {
        &[(',', JOB_COLUMNS), (',', NODE_COLUMNS)]
    }

    fn read(&self, files: &[SourceFile], options: &ReadOptions<'_>, trace: &mut Trace) -> Result<()> {
        let (mut jobs, mut nodes) = (SeenKeys::default(), SeenKeys::default());
        for file in files {
            let rows = Delimited::open(file, b',', options.observer)?;
            if rows.column("job_name").is_some() {
                trace.basis = TimeBasis::Relative;
                read_jobs(rows, &mut jobs, trace)?;
            } else if rows.column("node_name").is_some() {
                read_nodes(rows, &mut nodes, trace)?;
            } else {
                return Err(Error::format(
                    file.name(),
                    format!("neither a job list nor a node list: the columns are {}", rows.header().join(", ")),
                    "give job_info_df.csv and node_info_df.csv as published",
                ));
            }
        }
        if !trace.jobs.is_empty() {
            trace.note(
                "Alibaba spot: the source has no start and no end; its duration is kept as the reported run time, and \
                 whether it counts time lost to evictions is not documented.",
            );
        }
        Ok(())
    }
}

fn read_jobs(mut rows: Delimited<'_>, seen: &mut SeenKeys, trace: &mut Trace) -> Result<()> {
    let name = Some(rows.require("job_name")?);
    let submit_time = Some(rows.require("submit_time")?);
    let gpu_request = Some(rows.require("gpu_request")?);
    let worker_num = Some(rows.require("worker_num")?);
    let (organization, model) = (rows.column("organization"), rows.column("gpu_model"));
    let (cpu_request, duration, kind) = (rows.column("cpu_request"), rows.column("duration"), rows.column("job_type"));
    while let Some(mut record) = rows.next_row(&mut trace.ledger) {
        let raw = record.raw();
        let Some(key) = record.text(name) else {
            trace.ledger.quarantine(&record.audit, reason::NO_KEY, "job_name", raw);
            continue;
        };
        if !seen.is_new(raw) {
            trace.ledger.quarantine(&record.audit, reason::DUPLICATE, "job_name", raw);
            continue;
        }
        let Some(submit) = record.moment(submit_time, Moment::Seconds, "submit_time") else {
            trace.ledger.quarantine(&record.audit, reason::NO_SUBMIT, "submit_time", raw);
            continue;
        };
        let workers = record.amount(worker_num, "worker_num");
        let of_all = |column, name: &str, record: &mut Record<'_>| {
            let each = record.amount(column, name)?;
            workers.map(|workers| each * workers)
        };
        let req_gpus = of_all(gpu_request, "gpu_request", &mut record);
        let req_cpus = of_all(cpu_request, "cpu_request", &mut record);
        let mut job = JobRow {
            job_key: Some(key.into()),
            account: record.text(organization).map(Into::into),
            qos: record.text(kind).map(Into::into),
            gpu_type: record.text(model).map(Into::into),
            submit: Some(submit),
            req_cpus,
            req_gpus,
            reported_run_s: record.amount(duration, "duration"),
            ..JobRow::default()
        };
        check_job(&mut job, &mut record.audit);
        trace.jobs.push(job);
        trace.ledger.keep(record.audit);
    }
    rows.finish(&mut trace.ledger);
    Ok(())
}

fn read_nodes(mut rows: Delimited<'_>, seen: &mut SeenKeys, trace: &mut Trace) -> Result<()> {
    let name = Some(rows.require("node_name")?);
    let gpus = Some(rows.require("gpu_capacity_num")?);
    let (model, cpus) = (rows.column("gpu_model"), rows.column("cpu_num"));
    while let Some(mut record) = rows.next_row(&mut trace.ledger) {
        let raw = record.raw();
        let Some(node) = record.text(name) else {
            trace.ledger.quarantine(&record.audit, reason::NO_KEY, "node_name", raw);
            continue;
        };
        if !seen.is_new(raw) {
            trace.ledger.quarantine(&record.audit, reason::DUPLICATE, "node_name", raw);
            continue;
        }
        let row = NodeRow {
            node: Some(node.into()),
            gpu_type: record.text(model).map(Into::into),
            gpus: record.amount(gpus, "gpu_capacity_num"),
            cpus: record.amount(cpus, "cpu_num"),
            ..NodeRow::default()
        };
        trace.nodes.push(row);
        trace.ledger.keep(record.audit);
    }
    rows.finish(&mut trace.ledger);
    Ok(())
}
