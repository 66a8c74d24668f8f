//! Sonar's JSON: envelopes of samples, jobs and nodes, and the single objects of the versions before them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::Value;

use super::super::super::document::{self, Sink};
use super::super::super::field::{self, Moment};
use super::super::super::options::ReadOptions;
use super::super::super::source::{Head, SourceFile};
use super::super::metric::GpuField;
use super::{FAILED, MOST_GPUS, Reading, Samples, job_key};
use crate::error::Result;
use crate::quality::{Ledger, RowAudit, reason};
use crate::schema::NodeRow;
use crate::time::Zone;
use crate::trace::Trace;

/// Whether a file begins as Sonar's JSON does.
pub(super) fn is_json(head: &Head) -> bool {
    let text = head.text.trim_start();
    let has = |key: &str| text.contains(&format!("\"{key}\""));
    let envelope = has("meta") && has("producer") && text.contains("\"sonar\"") && (has("data") || has("errors"));
    let single = has("host") && has("samples") && has("v") && has("time");
    text.starts_with(['{', '[']) && (envelope || single)
}

/// Reads a file of documents.
pub(super) fn read(
    file: &SourceFile,
    options: &ReadOptions<'_>,
    samples: &mut Samples,
    trace: &mut Trace,
) -> Result<()> {
    let mut nodes = BTreeMap::new();
    let mut sink = Documents { file: file.name(), number: 0, samples, nodes: &mut nodes, ledger: &mut trace.ledger };
    document::read(file, options, &[], "Sonar's JSON", "save what Sonar writes again", &mut sink)?;
    for node in nodes.into_values() {
        trace.nodes.push(node);
    }
    Ok(())
}

struct Documents<'a> {
    file: &'a str,
    number: u64,
    samples: &'a mut Samples,
    /// The latest description of each node.
    nodes: &'a mut BTreeMap<String, NodeRow<'static>>,
    ledger: &'a mut Ledger,
}

impl Sink for Documents<'_> {
    fn element(&mut self, value: Value) {
        self.number += 1;
        let row = RowAudit::new(self.file, self.number);
        self.take(&value, row);
    }

    fn ledger(&mut self) -> &mut Ledger {
        self.ledger
    }
}

fn text<'v>(value: &'v Value, key: &str) -> Option<&'v str> {
    field::text(value.get(key).and_then(Value::as_str))
}

/// A number, bare or as a text.
fn number(value: &Value, key: &str) -> Option<f64> {
    let value = value.get(key)?;
    value.as_f64().or_else(|| value.as_str()?.parse().ok())
}

fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// A value as text.
fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

impl Documents<'_> {
    fn take(&mut self, value: &Value, mut row: RowAudit<'_>) {
        let data = value.get("data");
        let Some(attributes) = data.and_then(|data| data.get("attributes")) else {
            match (value.get("errors").or_else(|| value.get("error")), value.get("host"), value.get("jobs")) {
                (Some(errors), ..) => self.ledger.quarantine(&row, FAILED, "errors", &errors.to_string()),
                (None, Some(_), _) => self.single(value, row),
                (None, None, Some(_)) => self.jobs(list(value, "jobs"), None, row),
                _ => self.ledger.quarantine(&row, reason::MALFORMED, "", &value.to_string()),
            }
            return;
        };
        match data.and_then(|data| text(data, "type")) {
            Some("sample") => self.sample(attributes, row),
            Some("jobs") => self.jobs(list(attributes, "slurm_jobs"), text(attributes, "cluster"), row),
            Some("sysinfo") => {
                self.node(attributes, &mut row);
                self.ledger.keep(row);
            }
            _ => {
                self.samples.others += 1;
                self.ledger.keep(row);
            }
        }
    }

    /// Node and time of a sample; a sample without them says nothing.
    fn place<'v>(&mut self, value: &'v Value, node: &str, row: &mut RowAudit<'_>) -> Option<(&'v str, i64)> {
        let utc = Zone::utc();
        let at = text(value, node).zip(Moment::Local(&utc).read(text(value, "time"), "time", row));
        if at.is_none() {
            let lacks = if text(value, node).is_none() { reason::NO_KEY } else { reason::NOT_A_TIME };
            self.ledger.quarantine(row, lacks, node, &value.to_string());
        }
        at
    }

    /// A sample in an envelope.
    fn sample(&mut self, sample: &Value, mut row: RowAudit<'_>) {
        let Some((node, ts)) = self.place(sample, "node", &mut row) else { return };
        for gpu in sample.get("system").map_or(&[][..], |system| list(system, "gpus")) {
            // 0 is left out.
            let index = gpu.get("index").map_or(Some(0), Value::as_u64).filter(|index| *index < MOST_GPUS);
            let is_failing = number(gpu, "failing").is_some_and(|code| code != 0.0);
            let of = |field, name| Reading { field, name, value: number(gpu, name).filter(|_| !is_failing) };
            let readings = [
                // A GPU that does nothing has no utilisation written; its power says that it was looked at.
                Reading {
                    value: number(gpu, "ce_util").or(Some(0.0)).filter(|_| !is_failing),
                    ..of(GpuField::Util, "ce_util")
                },
                of(GpuField::MemUtil, "memory_util"),
                of(GpuField::MemUsed, "memory"),
                of(GpuField::Power, "power"),
                of(GpuField::Temp, "temperature"),
            ];
            match index {
                Some(index) => self.samples.gpu(node, index, ts, &readings, &mut row),
                None => row.repair(reason::OUT_OF_RANGE, "index", &gpu.to_string()),
            }
        }
        for job in list(sample, "jobs") {
            let id = job.get("job").and_then(plain);
            let epoch = job.get("epoch").and_then(plain);
            let Some(key) = id.and_then(|id| job_key(node, &id, epoch.as_deref())) else { continue };
            let used = list(job, "processes").iter().flat_map(|process| list(process, "gpus"));
            for index in used.filter_map(|gpu| gpu.get("index").map_or(Some(0), Value::as_u64)) {
                if index < MOST_GPUS {
                    self.samples.used_by(node, index, ts, &key);
                }
            }
        }
        self.ledger.keep(row);
    }

    /// A sample as versions before the envelope printed it.
    fn single(&mut self, sample: &Value, mut row: RowAudit<'_>) {
        let Some((node, ts)) = self.place(sample, "host", &mut row) else { return };
        for (index, gpu) in (0..MOST_GPUS).zip(list(sample, "gpuinfo")) {
            let of = |field, name| Reading { field, name, value: number(gpu, name) };
            let readings = [
                Reading { value: number(gpu, "cutil%").or(Some(0.0)), ..of(GpuField::Util, "cutil%") },
                of(GpuField::MemUtil, "mutil%"),
                of(GpuField::MemUsed, "musekib"),
                of(GpuField::Power, "poww"),
                of(GpuField::Temp, "tempc"),
            ];
            self.samples.gpu(node, index, ts, &readings, &mut row);
        }
        for process in list(sample, "samples") {
            let (job, epoch) = (process.get("job").and_then(plain), process.get("epoch").and_then(plain));
            let Some(key) = job.and_then(|job| job_key(node, &job, epoch.as_deref())) else { continue };
            let gpus = process.get("gpus").and_then(plain).unwrap_or_default();
            for index in gpus.split(',').filter_map(|gpu| gpu.trim().parse::<u64>().ok()) {
                if index < MOST_GPUS {
                    self.samples.used_by(node, index, ts, &key);
                }
            }
        }
        self.ledger.keep(row);
    }

    /// Slurm's jobs. The list is one row of the ledger beside those of its jobs only where it is empty.
    fn jobs(&mut self, jobs: &[Value], cluster: Option<&str>, row: RowAudit<'_>) {
        if jobs.is_empty() {
            self.ledger.keep(row);
            return;
        }
        for job in jobs {
            let fields = sacct_fields(job, cluster);
            let get = |name: &str| fields.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
            let row = RowAudit::new(self.file, self.number);
            self.samples.jobs.take(get, &job.to_string(), row, self.ledger);
        }
    }

    /// Reads a node's inventory row.
    fn node(&mut self, node: &Value, row: &mut RowAudit<'_>) {
        let Some(name) = text(node, "node") else {
            row.repair(reason::NO_KEY, "node", &node.to_string());
            return;
        };
        let cards = list(node, "cards");
        let cores = [number(node, "sockets"), number(node, "cores_per_socket")].into_iter().product::<Option<f64>>();
        let owned = |text: Option<&str>| text.map(|text| Cow::Owned(text.to_owned()));
        let first = cards.first();
        let result = NodeRow {
            node: Some(Cow::Owned(name.to_owned())),
            gpus: Some(cards.len() as f64),
            gpu_type: owned(first.and_then(|card| text(card, "model"))),
            gpu_mem_bytes: first.and_then(|card| number(card, "memory")).map(|kib| (kib * 1_024.0) as i64),
            cpus: cores,
            mem_bytes: number(node, "memory").map(|kib| (kib * 1_024.0) as i64),
            ..NodeRow::default()
        };
        self.nodes.insert(name.to_owned(), result);
    }
}

/// A job of `slurm_jobs` under the names of `sacct`; the flat jobs of older versions have them already.
fn sacct_fields(job: &Value, cluster: Option<&str>) -> Vec<(String, String)> {
    let Some(fields) = job.as_object() else { return Vec::new() };
    if job.get("job_id").is_none() {
        return fields.iter().filter_map(|(name, value)| Some((name.clone(), plain(value)?))).collect();
    }
    let of = |key: &str| job.get(key).and_then(plain);
    let positive = |key: &str| number(job, key).filter(|number| *number > 0.0).map(|number| number as u64);
    let part = match (positive("array_job_id"), positive("het_job_id")) {
        (Some(array), _) => format!("{array}_{}", of("array_task_id").unwrap_or_else(|| "0".to_owned())),
        (None, Some(het)) => format!("{het}+{}", of("het_job_offset").unwrap_or_else(|| "0".to_owned())),
        (None, None) => of("job_id").unwrap_or_default(),
    };
    let step = of("job_step").filter(|step| !step.is_empty()).map_or_else(String::new, |step| format!(".{step}"));
    // 0 is unset, 1 infinite, and any other two more than the number.
    let extended =
        |key: &str| number(job, key).filter(|number| *number >= 2.0).map(|number| (number - 2.0).to_string());
    let nodes: Vec<&str> = list(job, "nodes").iter().filter_map(Value::as_str).collect();
    let sacct = job.get("sacct");
    let given = of("allocated_resources").or_else(|| sacct?.get("AllocTRES").and_then(plain));
    let values = [
        ("JobID", Some(format!("{part}{step}"))),
        ("Cluster", cluster.map(str::to_owned)),
        ("JobName", of("job_name")),
        ("State", of("job_state")),
        ("User", of("user_name")),
        ("Account", of("account")),
        ("Partition", of("partition")),
        ("Submit", of("submit_time")),
        ("Start", of("start_time")),
        ("End", of("end_time")),
        ("TimelimitRaw", extended("time_limit")),
        ("ElapsedRaw", sacct.and_then(|sacct| sacct.get("ElapsedRaw")).and_then(plain)),
        ("Suspended", of("suspend_time")),
        ("ReqTRES", of("requested_resources")),
        ("AllocTRES", given),
        ("ReqCPUS", positive("requested_cpus").map(|cpus| cpus.to_string())),
        ("ReqMem", positive("requested_memory_per_node").map(|kib| format!("{kib}Kn"))),
        ("ReqNodes", positive("requested_node_count").map(|nodes| nodes.to_string())),
        ("NodeList", (!nodes.is_empty()).then(|| nodes.join(","))),
        ("ExitCode", of("exit_code")),
    ];
    values.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}
