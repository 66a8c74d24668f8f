//! ClusterCockpit's job archive: a folder for each job, with `meta.json` and `data.json` or `data.json.gz`.
//!
//! The archive is a tree `CLUSTER/1403/244/1608923076/`: cluster, the job's number in two parts, its start. Files may be named
//! in any order and number; a data file belongs to the `meta.json` in its folder. Source: the JSON schemas of cc-specifications
//! and cc-backend (`job-meta`, `job-data`).
//!
//! * `meta.json` is a job: `startTime`, `submitTime` (epoch seconds), `duration` and `walltime` (the limit, seconds), `jobState`,
//!   `numNodes`, `numHwthreads` (with `smt`: threads of a core used), `numAcc`, and `resources` by host. `stopTime` is of old
//!   versions.
//! * `data.json` holds series by metric, scope (`node`, `socket`, `accelerator` …) and host, every `timestep` seconds from the
//!   start. `acc_power`, `acc_utilization` (percent) and `acc_mem_used` are of a GPU. `rapl_power` and `cpu_power` are of the
//!   processors alone, `mem_power` of memory; `node_power` of the whole node. Of several scopes the coarsest counts, and parts of
//!   a node are summed. What has no column is passed over.
//! * A limit shorter than the run by more than ten minutes is none that was in force: unknown.
//!
//! Worked number: 228.07 W of processors on each of 32 nodes for 86,486 s are 175.3 kWh. O(values of the metrics that are read).

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::Value;

use super::batch::{Assembly, Gpus, Job, NamedNode, Run};
use super::document;
use super::field;
use super::options::ReadOptions;
use super::plain_json::Plain;
use super::reader::{Confidence, Reader};
use super::source::{Head, SourceFile};
use crate::error::Result;
use crate::quality::{Reason, RowAudit, reason};
use crate::schema::{GpuSampleRow, JobState, NodeSampleRow};
use crate::time::{SECOND_MS, TimeBasis, seconds_to_ms};
use crate::trace::Trace;

/// A limit may be passed by so long until the job is ended, seconds.
const GRACE_S: f64 = 600.0;
/// Data without the job they are of.
const NO_META: Reason = Reason {
    id: "no_meta",
    what: "no meta.json of a job lies beside the data, so neither their job nor their time is known",
    remedy: "name the whole folder of the job",
};

/// Reads the archive.
#[derive(Debug)]
pub(crate) struct ClusterCockpit;

impl Reader for ClusterCockpit {
    fn id(&self) -> &'static str {
        "clustercockpit"
    }

    fn describes(&self) -> &'static str {
        "ClusterCockpit's job archive: meta.json and data.json.gz of jobs"
    }

    fn sniff(&self, head: &Head) -> Confidence {
        let text = head.text.trim_start();
        let has = |keys: &[&str]| keys.iter().all(|key| text.contains(&format!("\"{key}\"")));
        let is_meta = has(&["jobId", "startTime", "resources", "numNodes"]);
        let is_data = has(&["series", "hostname", "data"]) && (has(&["timestep"]) || has(&["statistics"]));
        match text.starts_with('{') {
            true if is_meta => Confidence::Sure,
            true if is_data && head.name.starts_with("data.json") => Confidence::Sure,
            true if is_data && has(&["timestep"]) && text.contains("\"node\"") => Confidence::Maybe,
            _ => Confidence::No,
        }
    }

    fn read(&self, files: &[SourceFile], options: &ReadOptions<'_>, trace: &mut Trace) -> Result<()> {
        let mut assembly = Assembly::default();
        let mut result: BTreeMap<PathBuf, Found> = BTreeMap::new();
        let mut seen = super::SeenKeys::default();
        let (mut jobs, mut data) = (Vec::new(), Vec::new());
        for file in files {
            if !file.head()?.text.contains("\"jobId\"") {
                data.push(file);
                continue;
            }
            assembly.begin(file.name());
            let mut row = RowAudit::new(file.name(), 1);
            let Some(meta) = parse::<Value>(file, options, "a meta.json of a job", trace)? else { continue };
            let Some((job, of_folder)) = read_meta(&meta, &mut assembly, &mut row) else {
                trace.ledger.quarantine(&row, reason::NO_KEY, "jobId", &meta.to_string());
                continue;
            };
            let key = format!("{}/{}/{}", of_folder.cluster, job.id, of_folder.start);
            if !seen.is_new(&key) {
                trace.ledger.quarantine(&row, reason::DUPLICATE, "jobId", &key);
                continue;
            }
            trace.ledger.keep(row);
            let folder = file.path().parent().map(std::path::Path::to_owned).unwrap_or_default();
            result.insert(folder, of_folder);
            jobs.push(job);
        }
        let several = result.values().any(|one| result.values().any(|other| one.cluster != other.cluster));
        for job in jobs {
            assembly.add(job);
        }
        trace.basis = TimeBasis::Utc;
        options.zone_or("UTC")?.name().clone_into(&mut trace.zone);
        assembly.finish("they stand in numAcc and resources, where the archive knows of accelerators.", trace);
        let mut passed: BTreeMap<String, u64> = BTreeMap::new();
        for file in data {
            let row = RowAudit::new(file.name(), 1);
            let folder = file.path().parent().unwrap_or_else(|| std::path::Path::new(""));
            let Some(of_folder) = result.get(folder) else {
                trace.ledger.quarantine(&row, NO_META, "", file.name());
                continue;
            };
            let Some(metrics) = parse::<Metrics>(file, options, "a data.json of a job", trace)? else { continue };
            for name in metrics.passed {
                *passed.entry(name).or_default() += 1;
            }
            samples(metrics.read, of_folder, several, row, trace);
        }
        if !passed.is_empty() {
            let names: Vec<&str> = passed.keys().map(String::as_str).take(6).collect();
            let more = if passed.len() > names.len() { " …" } else { "" };
            trace.note(format!("Metrics without a column were passed over: {}{more}.", names.join(", ")));
        }
        Ok(())
    }
}

/// The document in a file; `None` if it is damaged, which is noted.
fn parse<T: for<'de> Deserialize<'de>>(
    file: &SourceFile,
    options: &ReadOptions<'_>,
    should_be: &str,
    trace: &mut Trace,
) -> Result<Option<T>> {
    let content = std::io::BufReader::new(document::open(file, options)?);
    match serde_json::from_reader(std::io::BufReader::new(Plain::new(content))) {
        Ok(value) => Ok(Some(value)),
        Err(error) => {
            let others = trace.ledger.read > 0;
            let remedy = "copy the folder of the job from the archive again";
            document::failure(file, error, others, should_be, remedy, &mut trace.ledger)?;
            Ok(None)
        }
    }
}

/// Job that the data of a folder are of.
struct Found {
    cluster: String,
    job: String,
    start: i64,
    /// GPUs that its job was given.
    gpus: Vec<(String, String)>,
}

fn text<'v>(value: &'v Value, key: &str) -> Option<&'v str> {
    field::text(value.get(key).and_then(Value::as_str))
}

/// A number above 0, in which the archive leaves out what is not known.
fn positive(value: &Value, key: &str) -> Option<f64> {
    value.get(key).and_then(Value::as_f64).filter(|number| *number > 0.0 && *number < 1e15)
}

/// Reads a `meta.json`; `None` if it names no job or no start.
fn read_meta(meta: &Value, words: &mut Assembly, row: &mut RowAudit<'_>) -> Option<(Job, Found)> {
    let id = meta.get("jobId").filter(|id| id.is_u64()).map(Value::to_string)?;
    let start = positive(meta, "startTime").and_then(seconds_to_ms)?;
    let word = text(meta, "jobState");
    let state = word.and_then(JobState::parse);
    if let (Some(word), None) = (word, state) {
        row.repair(reason::UNKNOWN_STATE, "jobState", word);
    }
    let state = state.unwrap_or(JobState::Unknown);
    let is_running = state == JobState::Running;
    let duration = positive(meta, "duration");
    let by_length = duration.and_then(|length| seconds_to_ms(start as f64 / SECOND_MS as f64 + length));
    let end = positive(meta, "stopTime").and_then(seconds_to_ms).or(by_length).filter(|_| !is_running);
    let hosts = meta.get("resources").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let mut named = Vec::new();
    let mut gpus = Vec::new();
    for host in hosts {
        let Some(name) = text(host, "hostname") else { continue };
        let ids = host.get("accelerators").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let known = ids.iter().filter_map(Value::as_str);
        named.push(NamedNode::plain(name));
        for id in known {
            named.push(NamedNode { name, gpus: Some(1.0), gpu_id: Some(id) });
            gpus.push((name.to_owned(), id.to_owned()));
        }
    }
    let count = positive(meta, "numAcc").or((!gpus.is_empty()).then_some(gpus.len() as f64));
    let given = Gpus { count, listed: !hosts.is_empty() };
    let cores = positive(meta, "numHwthreads").map(|threads| threads / positive(meta, "smt").unwrap_or(1.0));
    let limit = positive(meta, "walltime");
    if let Some((limit, run)) = limit.zip(duration).filter(|(limit, run)| limit + GRACE_S < *run) {
        row.repair(reason::OUT_OF_RANGE, "walltime", &format!("{limit} s, where the job ran {run} s"));
    }
    let cluster = text(meta, "cluster").unwrap_or_default();
    let run = Run {
        start: Some(start),
        end,
        ended_by: Some(state).filter(|state| state.is_final()),
        running: is_running,
        reported_s: duration.filter(|_| !is_running),
        gpus: given,
        cpus: cores,
        nodes: words.nodes(named, "resources", row),
        ..Run::default()
    };
    let array = meta.get("arrayJobId").and_then(Value::as_u64).filter(|array| *array > 0);
    let project = text(meta, "project").filter(|project| *project != "no project");
    let mut job = Job {
        cluster: words.word(field::text(Some(cluster))),
        id: id.clone(),
        parent: array.map(|array| array.to_string()),
        user: words.word(text(meta, "user")),
        account: words.word(project),
        vc: words.word(text(meta, "partition").or_else(|| text(meta, "subCluster"))),
        name: words.word(meta.pointer("/metaData/jobName").and_then(Value::as_str).filter(|name| !name.is_empty())),
        state: Some(state),
        reported_state: words.word(word),
        submit: positive(meta, "submitTime").and_then(seconds_to_ms),
        time_limit_s: limit.filter(|limit| duration.is_none_or(|run| limit + GRACE_S >= run)),
        req_nodes: positive(meta, "numNodes").map(|nodes| nodes as i64),
        req_cpus: cores,
        req_gpus: given,
        runs: vec![run],
        ..Job::default()
    };
    words.check(&mut job, row);
    Some((job, Found { cluster: cluster.to_owned(), job: id, start, gpus }))
}

/// Subject of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum About {
    GpuPower,
    GpuUtil,
    GpuMem,
    /// A power sensor of a node, by the name it gets.
    Node(&'static str),
}

impl About {
    /// Divisor that brings a value to the column's unit.
    fn per(self) -> f64 {
        if self == Self::GpuUtil { 100.0 } else { 1.0 }
    }

    /// The largest value that is possible, in the column's unit.
    fn most(self) -> f64 {
        match self {
            Self::GpuPower => 10_000.0,
            Self::GpuUtil => 1.0,
            Self::GpuMem => 1e15,
            Self::Node(_) => 20_000.0,
        }
    }
}

/// Metrics that are read, by the names that sites give them.
const METRICS: [(&str, About); 10] = [
    ("acc_power", About::GpuPower),
    ("acc_utilization", About::GpuUtil),
    ("acc_used", About::GpuUtil),
    ("acc_mem_used", About::GpuMem),
    ("rapl_power", About::Node("CPU Power")),
    ("cpu_power", About::Node("CPU Power")),
    ("mem_power", About::Node("Memory Power")),
    ("node_power", About::Node("Node Power")),
    ("total_power", About::Node("Node Power")),
    ("system_power", About::Node("Node Power")),
];
/// Scopes from the coarsest on.
const SCOPES: [&str; 7] = ["node", "socket", "memoryDomain", "die", "core", "hwthread", "accelerator"];

/// One series.
#[derive(Debug, Deserialize)]
struct Series {
    hostname: String,
    #[serde(default)]
    id: Option<Value>,
    #[serde(default)]
    data: Vec<Option<f64>>,
}

#[derive(Debug, Deserialize)]
struct Unit {
    #[serde(default)]
    prefix: Option<String>,
}

/// One metric in one scope.
#[derive(Debug, Deserialize)]
struct Scoped {
    timestep: f64,
    #[serde(default)]
    unit: Option<Unit>,
    #[serde(default)]
    series: Vec<Series>,
}

/// The metrics of a job: those that are read, and the names of the others.
#[derive(Debug, Default)]
struct Metrics {
    read: Vec<(About, HashMap<String, Scoped>)>,
    passed: Vec<String>,
}

impl<'de> Deserialize<'de> for Metrics {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct OfJob;
        impl<'de> serde::de::Visitor<'de> for OfJob {
            type Value = Metrics;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object with metrics")
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> std::result::Result<Metrics, A::Error> {
                let mut metrics = Metrics::default();
                while let Some(name) = map.next_key::<String>()? {
                    match METRICS.iter().find(|(known, _)| *known == name) {
                        Some((_, about)) => metrics.read.push((*about, map.next_value()?)),
                        None => {
                            map.next_value::<serde::de::IgnoredAny>()?;
                            metrics.passed.push(name);
                        }
                    }
                }
                Ok(metrics)
            }
        }
        deserializer.deserialize_map(OfJob)
    }
}

/// Factor of a unit's prefix; `None` if the prefix is unknown.
fn scale(unit: Option<&Unit>) -> Option<f64> {
    match unit.and_then(|unit| unit.prefix.as_deref()).unwrap_or_default() {
        "" => Some(1.0),
        "m" => Some(1e-3),
        "K" | "k" => Some(1e3),
        "M" => Some(1e6),
        "G" => Some(1e9),
        "T" => Some(1e12),
        _ => None,
    }
}

/// Adds the samples of a job.
fn samples(
    metrics: Vec<(About, HashMap<String, Scoped>)>,
    of: &Found,
    several: bool,
    mut row: RowAudit<'_>,
    trace: &mut Trace,
) {
    let job_key = if several { format!("{}/{}", of.cluster, of.job) } else { of.job.clone() };
    let mut gpus: BTreeMap<(String, String, i64), GpuSampleRow<'static>> = BTreeMap::new();
    let mut nodes: BTreeMap<(&'static str, String, i64), Option<f64>> = BTreeMap::new();
    let mut nameless = 0u64;
    for (about, mut scopes) in metrics {
        let coarsest = SCOPES.iter().find(|scope| {
            scopes.contains_key(**scope) && (**scope == "accelerator" || matches!(about, About::Node(_)))
        });
        let Some(mut scoped) = coarsest.and_then(|scope| scopes.remove(*scope)) else { continue };
        let factor = scale(scoped.unit.as_ref()).filter(|_| scoped.timestep > 0.0 && scoped.timestep < 1e9);
        let Some(factor) = factor else {
            row.repair(reason::OUT_OF_RANGE, "unit, timestep", &format!("{:?}", scoped.unit));
            continue;
        };
        for series in scoped.series.drain(..) {
            let id = series.id.as_ref().map(|id| id.as_str().map_or_else(|| id.to_string(), str::to_owned));
            for (step, value) in (0u32..).zip(series.data) {
                let since_s = f64::from(step) * scoped.timestep;
                let Some(ts) = seconds_to_ms(of.start as f64 / SECOND_MS as f64 + since_s) else { break };
                let scaled = value.map(|value| value * factor / about.per());
                let value = scaled.filter(|value| (0.0..=about.most()).contains(value));
                if let (Some(beyond), None) = (scaled, value) {
                    row.repair(reason::OUT_OF_RANGE, "data", &format!("{about:?} {beyond} on {}", series.hostname));
                }
                if let About::Node(sensor) = about {
                    add(&mut nodes, (sensor, series.hostname.clone(), ts), value);
                    continue;
                }
                let Some(gpu) = id.clone().or_else(|| only_gpu(of, &series.hostname)) else {
                    nameless += 1;
                    continue;
                };
                let sample = gpus.entry((series.hostname.clone(), gpu, ts)).or_default();
                match about {
                    About::GpuPower => sample.power_w = value,
                    About::GpuUtil => sample.util_ratio = value,
                    About::GpuMem | About::Node(_) => sample.mem_used_bytes = value,
                }
            }
        }
    }
    if nameless > 0 {
        row.repair(reason::NO_KEY, "id", &format!("{nameless} readings of GPUs name none"));
    }
    for ((node, gpu, ts), sample) in gpus {
        trace.gpu_samples.push(GpuSampleRow {
            ts: Some(ts),
            node: Some(Cow::Owned(node)),
            gpu: Some(Cow::Owned(gpu)),
            job_key: Some(Cow::Borrowed(&job_key)),
            ..sample
        });
    }
    for ((sensor, node, ts), watts) in nodes {
        trace.node_samples.push(NodeSampleRow {
            ts: Some(ts),
            node: Some(Cow::Owned(node)),
            sensor: Some(Cow::Borrowed(sensor)),
            power_w: watts,
            ..NodeSampleRow::default()
        });
    }
    trace.ledger.keep(row);
}

/// Adds a reading of a part of a node to that of the others; one that is unknown makes the sum unknown.
fn add<K: Ord>(sums: &mut BTreeMap<K, Option<f64>>, key: K, value: Option<f64>) {
    sums.entry(key).and_modify(|sum| *sum = sum.zip(value).map(|(sum, value)| sum + value)).or_insert(value);
}

/// The GPU of a host where its job has one only.
fn only_gpu(of: &Found, host: &str) -> Option<String> {
    let mut gpus = of.gpus.iter().filter(|(name, _)| name == host);
    let (_, id) = gpus.next()?;
    gpus.next().is_none().then(|| id.clone())
}
