//! `sacct --json`, of any data parser version.
//!
//! The document is streamed: one element of `jobs[]` is in memory at a time, so that files of many gigabytes can be
//! read, and several documents in a file are read one after the other. Keys come and go between versions, so each value is looked up on its own; unknown keys are passed over and
//! absent ones are unknown. Numbers are bare or `{"set":…,"infinite":…,"number":…}`; `state.current` is a word or a
//! list. Times are epoch seconds, 0 unset; `time.limit` is minutes. 4294967294 and its kin (`NO_VAL`) are unknown. Old
//! versions wrote bare `Infinity` and `NaN`, which are no JSON; they are read as null. A document cut short gives the
//! jobs before the cut. An answer without jobs that lists errors is that error, and one that lists both is damaged. The
//! live state (`squeue --json`) has jobs, too, but other fields: it is refused. O(bytes).

use std::fmt;
use std::io::BufReader;

use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::allocation::{Allocation, Step, energy_j, state, summary, util_ratio};
use super::assembly::Assembly;
use super::job_id::{JobId, Part};
use super::mem::whole;
use super::submit_line::{names_gpus, script_names_gpus};
use super::tres::{self, Tres};
use crate::error::{Error, Result};
use crate::ingest::document::{self, Since};
use crate::ingest::field::{self, MIB};
use crate::ingest::live::{LIVE, LIVE_REMEDY};
use crate::ingest::plain_json::Plain;
use crate::ingest::{Confidence, Head, ReadOptions, Reader, SeenKeys, SourceFile};
use crate::quality::{Ledger, RowAudit, reason};
use crate::schema::JobState;
use crate::time::{TimeBasis, seconds_to_ms};
use crate::trace::Trace;

/// Reads `sacct --json`.
#[derive(Debug)]
pub struct SacctJson;

impl Reader for SacctJson {
    fn id(&self) -> &'static str {
        "sacct-json"
    }

    fn describes(&self) -> &'static str {
        "Slurm accounting: sacct --json, any data parser version"
    }

    fn sniff(&self, head: &Head) -> Confidence {
        let text = head.text.trim_start();
        let says = |word: &str| text.contains(word);
        // An answer of Slurm that is an error, whatever was asked.
        let failed = says("\"error_number\"") && says("\"data_parser\"");
        let by_slurm = || text.to_ascii_lowercase().contains("\"slurm\"") && !says("\"job_state\"");
        if !text.starts_with('{') {
            Confidence::No
        } else if says("\"jobs\"") && says("\"association\"") && says("\"submission\"") {
            // `squeue --json` has jobs too, but neither of these.
            Confidence::Sure
        } else if failed || (says("\"jobs\"") && by_slurm()) {
            Confidence::Maybe
        } else {
            Confidence::No
        }
    }

    fn read(&self, files: &[SourceFile], options: &ReadOptions<'_>, trace: &mut Trace) -> Result<()> {
        let mut assembly = Assembly::new(options.shards_per_gpu);
        let mut seen = SeenKeys::default();
        for file in files {
            assembly.begin(file.name());
            read_file(file, options, &mut assembly, &mut seen, &mut trace.ledger)?;
        }
        trace.basis = TimeBasis::Utc;
        options.zone_or("UTC")?.name().clone_into(&mut trace.zone);
        assembly.finish(trace);
        Ok(())
    }
}

fn read_file(
    file: &SourceFile,
    options: &ReadOptions<'_>,
    assembly: &mut Assembly,
    seen: &mut SeenKeys,
    ledger: &mut Ledger,
) -> Result<()> {
    let bounded = document::open(file, options)?;
    let since = bounded.since();
    let plain = BufReader::with_capacity(1 << 16, Plain::new(BufReader::new(bounded)));
    let mut parser = serde_json::Deserializer::from_reader(plain);
    let mut sink = Sink { file: file.name(), number: 0, live: false, errors: None, since, assembly, seen, ledger };
    let mut documents = 0;
    // Exports put one after the other are documents one after the other.
    while documents == 0 || parser.end().is_err() {
        let result = (Document { sink: &mut sink }).deserialize(&mut parser);
        if sink.live {
            return Err(Error::format(file.name(), LIVE, LIVE_REMEDY));
        }
        if let (Ok(_), Some(said)) = (&result, sink.errors.take()) {
            if sink.number == 0 {
                return Err(Error::format(
                    file.name(),
                    format!("Slurm answered with an error: {said}"),
                    "export it again once the command succeeds",
                ));
            }
            sink.ledger.damaged(file.name(), sink.number, format!("Slurm reports an error beside the jobs: {said}"));
        }
        match result {
            Ok(true) => documents += 1,
            Ok(false) => {
                return Err(Error::format(
                    file.name(),
                    "the document has no list of jobs",
                    "export with `sacct --json`, and check that the command did not fail",
                ));
            }
            Err(e) => {
                let any = documents > 0 || sink.number > 0;
                let remedy = "export with `sacct --json` again";
                return document::failure(file, e, any, "a `sacct --json` document", remedy, sink.ledger);
            }
        }
    }
    Ok(())
}

/// Receiver of the jobs as they are parsed.
struct Sink<'s> {
    file: &'s str,
    number: u64,
    /// Whether a job is one of the live queue.
    live: bool,
    /// Errors that the document reports.
    errors: Option<String>,
    /// Counts what one job takes.
    since: Since,
    assembly: &'s mut Assembly,
    seen: &'s mut SeenKeys,
    ledger: &'s mut Ledger,
}

/// The document; gives whether it had a list of jobs.
struct Document<'s, 'a> {
    sink: &'a mut Sink<'s>,
}

impl<'de> DeserializeSeed<'de> for Document<'_, '_> {
    type Value = bool;
    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Document<'_, '_> {
    type Value = bool;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with a list of jobs")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<bool, A::Error> {
        let mut result = false;
        while let Some(key) = map.next_key::<String>()? {
            if key == "jobs" {
                result = true;
                map.next_value_seed(Jobs { sink: &mut *self.sink })?;
            } else if key == "errors" {
                let errors: Value = map.next_value()?;
                self.sink.errors = said(&errors);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(result)
    }
}

/// The list of jobs.
struct Jobs<'s, 'a> {
    sink: &'a mut Sink<'s>,
}

impl<'de> DeserializeSeed<'de> for Jobs<'_, '_> {
    type Value = ();
    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Jobs<'_, '_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of jobs")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(job) = list.next_element::<Value>()? {
            self.sink.since.restart();
            // A job of the queue is in a state, and has no times beside it.
            if job.get("job_state").is_some() && job.get("time").is_none() {
                self.sink.live = true;
            } else {
                self.sink.job(&job);
            }
        }
        Ok(())
    }
}

/// Words of a list of errors; `None` if it is empty.
fn said(errors: &Value) -> Option<String> {
    let of = |error: &Value| {
        let words = ["description", "error"].map(|key| text(error.get(key)));
        let number = error.get("error_number").or_else(|| error.get("errno")).and_then(Value::as_i64);
        let number = number.map(|number| format!("error {number}"));
        let parts: Vec<&str> = words.into_iter().flatten().chain(number.as_deref()).collect();
        if parts.is_empty() { error.to_string() } else { parts.join(", ") }
    };
    let list: Vec<String> = errors.as_array()?.iter().map(of).collect();
    (!list.is_empty()).then(|| list.join("; "))
}

/// A number, bare or in its struct; unknown if unset, infinite or a sentinel.
fn number(value: Option<&Value>) -> Option<f64> {
    let value = value?;
    let number = match value {
        Value::Object(fields) => {
            let flag = |name: &str| fields.get(name).and_then(Value::as_bool);
            if flag("set") == Some(false) || flag("infinite") == Some(true) {
                return None;
            }
            fields.get("number")?.as_f64()?
        }
        bare => bare.as_f64()?,
    };
    // NO_VAL16, INFINITE16, NO_VAL, INFINITE and their 64-bit kin (which lose their last digits as real numbers).
    let sentinel = [65_534.0, 65_535.0, 4_294_967_294.0, 4_294_967_295.0].contains(&number)
        || number >= 18_446_744_073_709_500_000.0;
    (number.is_finite() && !sentinel).then_some(number)
}

/// A number without a unit that could be any size: only the 32 and 64-bit sentinels count.
fn count(value: Option<&Value>) -> Option<f64> {
    match value.and_then(Value::as_f64) {
        // A job can well use 65,534 of something.
        Some(exact) if exact == 65_534.0 || exact == 65_535.0 => Some(exact),
        _ => number(value),
    }
}

fn integer(value: Option<&Value>) -> Option<i64> {
    number(value).filter(|value| value.fract() == 0.0 && value.abs() < 9e15).map(|value| value as i64)
}

fn text(value: Option<&Value>) -> Option<&str> {
    field::text(value.and_then(Value::as_str))
}

/// A moment in milliseconds from epoch seconds; 0 is unset.
fn moment(value: Option<&Value>) -> Option<i64> {
    number(value).filter(|seconds| *seconds != 0.0).and_then(seconds_to_ms)
}

/// The words of a state: one, or a list joined by commas.
fn words(value: Option<&Value>) -> Option<String> {
    match value? {
        Value::String(word) => Some(word.clone()),
        Value::Array(list) => {
            let words: Vec<&str> = list.iter().filter_map(Value::as_str).collect();
            (!words.is_empty()).then(|| words.join(","))
        }
        _ => None,
    }
}

/// Resources from a list of `{type, name, id, count}`; `None` if there is no list or it is empty. An entry whose amount cannot be read is noted.
fn resources(value: Option<&Value>) -> Option<Tres> {
    let list = value?.as_array().filter(|list| !list.is_empty())?;
    let mut tres = Tres::default();
    for entry in list {
        let kind = entry.get("type").and_then(Value::as_str).unwrap_or_default();
        let name = entry.get("name").and_then(Value::as_str).unwrap_or_default();
        let Some(amount) = count(entry.get("count")).filter(|amount| *amount >= 0.0) else {
            if kind == "gres" && (name == "gpu" || name.starts_with("gpu:")) {
                tres.unreadable_gpus = true;
                tres.unreadable.get_or_insert_with(|| entry.to_string());
            }
            continue;
        };
        match kind {
            "cpu" => tres.cpus = Some(amount),
            "mem" => tres.mem_bytes = whole(amount * MIB),
            "energy" => tres.energy_j = Some(amount),
            "node" => tres.nodes = Some(amount as i64),
            "gres" if name == "gpu" => tres.any_gpus = Some(amount),
            "gres" => {
                if let Some(kind) = name.strip_prefix("gpu:") {
                    tres.add_typed(kind, amount);
                } else if let Some(kind) = name.strip_prefix("shard") {
                    tres.add_shards(kind, amount);
                }
            }
            _ => {}
        }
    }
    Some(tres)
}

/// The count of one resource in a list of `{type, name, id, count}`.
fn one(value: Option<&Value>, kind: &str, name: &str) -> Option<f64> {
    let is = |entry: &&Value, key: &str, wanted: &str| entry.get(key).and_then(Value::as_str) == Some(wanted);
    let entry = value?.as_array()?.iter().find(|entry| is(entry, "type", kind) && is(entry, "name", name))?;
    count(entry.get("count"))
}

/// The identifier of an element of `jobs[]`.
fn identifier(job: &Value) -> Option<JobId> {
    let number = integer(job.get("job_id")).filter(|number| *number > 0)?.unsigned_abs();
    let positive = |path: &str| integer(job.pointer(path)).filter(|number| *number > 0).map(i64::unsigned_abs);
    if let Some(array) = positive("/array/job_id") {
        let task = integer(job.pointer("/array/task_id")).and_then(|task| u64::try_from(task).ok());
        let waiting = text(job.pointer("/array/task"));
        let part = match (task, waiting) {
            (Some(task), _) => Part::Task(task),
            (None, Some(list)) => Part::Waiting(list.to_owned()),
            (None, None) => Part::Whole,
        };
        return Some(JobId { job: if part == Part::Whole { number } else { array }, part, step: None });
    }
    if let Some(het) = positive("/het/job_id") {
        let offset = integer(job.pointer("/het/job_offset")).and_then(|offset| u64::try_from(offset).ok());
        return Some(JobId { job: het, part: Part::Component(offset.unwrap_or(0)), step: None });
    }
    Some(JobId { job: number, part: Part::Whole, step: None })
}

impl Sink<'_> {
    fn job(&mut self, job: &Value) {
        self.number += 1;
        let mut row = RowAudit::new(self.file, self.number);
        let Some(id) = identifier(job) else {
            let raw = job.to_string();
            self.ledger.quarantine(&row, reason::NO_KEY, "job_id", &raw);
            return;
        };
        let cluster = text(job.get("cluster")).or_else(|| text(job.pointer("/association/cluster")));
        let said = words(job.pointer("/state/current"));
        let mut at = |name: &'static str| {
            let value = job.get("time").and_then(|time| time.get(name));
            let ms = moment(value);
            if ms.is_none() && number(value).is_some_and(|seconds| seconds != 0.0) {
                row.repair(reason::NOT_A_TIME, name, &value.map(ToString::to_string).unwrap_or_default());
            }
            ms
        };
        let times = ["submission", "start", "end"].map(&mut at);
        let eligible = at("eligible");
        let same = format!("{}|{}|{times:?}|{said:?}", cluster.unwrap_or_default(), id.allocation());
        if !self.seen.is_new(&same) {
            self.ledger.quarantine(&row, reason::DUPLICATE, "", &job.to_string());
            return;
        }
        let cluster = self.assembly.word(cluster);
        for step in job.get("steps").and_then(Value::as_array).into_iter().flatten() {
            let result = read_step(step, &mut row);
            self.assembly.step(cluster.clone(), &id, result);
        }
        let (state, requeued) = said.as_deref().map_or((None, false), |words| state(words, &mut row));
        let request = resources(job.pointer("/tres/requested"));
        let given = resources(job.pointer("/tres/allocated"));
        let (has_asked, has_given) = (request.is_some(), given.is_some());
        let (mut request, mut given) = (request.unwrap_or_default(), given.unwrap_or_default());
        self.assembly.settle_shards(&mut request, &mut given);
        let (req_listed, alloc_listed) = (has_asked && !request.hides_gpus(), has_given && !given.hides_gpus());
        tres::note(&request, "tres.requested", &mut row);
        tres::note(&given, "tres.allocated", &mut row);
        let start = times.get(1).copied().flatten();
        // `allocation_nodes` is a count; a job that never started is listed with what it asks for.
        let nodes = integer(job.get("allocation_nodes")).filter(|nodes| *nodes > 0);
        let started = start.is_some() && state != Some(JobState::Pending);
        let elapsed_s = number(job.pointer("/time/elapsed")).filter(|seconds| *seconds >= 0.0 && start.is_some());
        let req_cpus = number(job.pointer("/required/CPUs")).or(request.cpus).filter(|cpus| *cpus > 0.0);
        let per = |name: &str, of: Option<f64>| {
            let each =
                number(job.get("required").and_then(|required| required.get(name))).filter(|each| *each > 0.0)?;
            whole(each * MIB * of?)
        };
        let per_node = || per("memory_per_node", request.nodes.or(nodes).map(|nodes| nodes as f64));
        let gpu_type = request.gpu_type().or_else(|| given.gpu_type());
        let user = text(job.get("user")).or_else(|| text(job.pointer("/association/user")));
        let account = text(job.get("account")).or_else(|| text(job.pointer("/association/account")));
        let name = job.get("name").and_then(Value::as_str).filter(|name| !name.is_empty());
        let allocation = Allocation {
            user: self.assembly.word(user),
            account: self.assembly.word(account),
            partition: self.assembly.word(text(job.get("partition"))),
            qos: self.assembly.word(text(job.get("qos"))),
            name: self.assembly.word(name),
            gpu_type: self.assembly.word(gpu_type.as_deref()),
            nodes_hostlist: self.assembly.word(text(job.get("nodes"))),
            reported_state: self.assembly.word(said.as_deref()),
            pending_reason: self.assembly.word(text(job.pointer("/state/reason"))),
            state,
            requeued,
            submit: times.first().copied().flatten(),
            eligible,
            start,
            end: times.get(2).copied().flatten(),
            elapsed_s,
            suspended_s: number(job.pointer("/time/suspended")).filter(|seconds| *seconds >= 0.0 && start.is_some()),
            planned_s: number(job.pointer("/time/planned")),
            time_limit_s: number(job.pointer("/time/limit")).map(|minutes| minutes * 60.0),
            exit_code: integer(job.pointer("/exit_code/return_code")),
            req_nodes: request.nodes.or_else(|| nodes.filter(|_| !started)),
            alloc_nodes: given.nodes.or_else(|| nodes.filter(|_| started)),
            req_cpus,
            alloc_cpus: given.cpus,
            req_mem_bytes: request
                .mem_bytes
                .filter(|bytes| *bytes > 0)
                .or_else(|| per("memory_per_cpu", req_cpus))
                .or_else(per_node),
            alloc_mem_bytes: given.mem_bytes,
            req_gpus: request.gpus(),
            alloc_gpus: given.gpus(),
            req_listed,
            alloc_listed,
            energy_j: energy_j(given.energy_j, elapsed_s, given.nodes.or(nodes), &mut row),
            summary: summary(text(job.pointer("/comment/administrator")), &mut row),
            typed_gpus: text(job.get("submit_line")).is_some_and(names_gpus)
                || text(job.get("script")).is_some_and(script_names_gpus),
            nodes_told: job.get("nodes").is_some_and(|nodes| !nodes.is_null()),
            cluster,
        };
        self.assembly.allocation(id, allocation, &mut row);
        self.ledger.keep(row);
    }
}

fn read_step(step: &Value, row: &mut RowAudit<'_>) -> Step {
    let given = resources(step.pointer("/tres/allocated")).unwrap_or_default();
    let total = step.pointer("/tres/consumed/total").or_else(|| step.pointer("/tres/requested/total"));
    let percent = one(total, "gres", "gpuutil");
    let mem = one(total, "gres", "gpumem");
    let elapsed_s = number(step.pointer("/time/elapsed"));
    let joules = count(step.pointer("/statistics/energy/consumed"));
    Step {
        gpu_util_ratio: util_ratio(percent, mem, given.gpus()),
        energy_j: energy_j(joules, elapsed_s, given.nodes, row),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn gpus_whose_amount_cannot_be_read_are_unknown_and_not_none() {
        let entry = |name: &str, count: Value| json!({"type": "gres", "name": name, "id": 1001, "count": count});
        let of = |list: Value| resources(Some(&list)).unwrap();
        for count in [json!(-1), json!("four"), json!(null), json!(4_294_967_294_u64)] {
            let tres = of(json!([{"type": "cpu", "name": "", "id": 1, "count": 8}, entry("gpu", count.clone())]));
            assert_eq!((tres.cpus, tres.gpus(), tres.hides_gpus()), (Some(8.0), None, true), "{count}");
        }
        let total = of(json!([entry("gpu", json!(4)), entry("gpu:a100", json!(-1))]));
        assert_eq!((total.gpus(), total.hides_gpus()), (Some(4.0), false));
        let other = of(json!([entry("shard", json!(-1))]));
        assert_eq!((other.gpus(), other.hides_gpus()), (None, false));
        let mut shards = of(json!([entry("shard:a100", json!(3))]));
        assert!(shards.settle_shards(Some(4)));
        assert_eq!((shards.gpus(), shards.gpu_type().as_deref()), (Some(0.75), Some("a100")));
    }

    #[test]
    fn numbers_in_both_spellings_and_their_sentinels() {
        assert_eq!(number(Some(&json!(5))), Some(5.0));
        assert_eq!(number(Some(&json!({"set": true, "infinite": false, "number": 0}))), Some(0.0));
        for unknown in [
            json!({"set": false, "infinite": false, "number": 7}),
            json!({"set": true, "infinite": true, "number": 7}),
            json!(4_294_967_294_u64),
            json!(18_446_744_073_709_551_614_u64),
            json!(65_534),
            json!(null),
            json!("x"),
        ] {
            assert_eq!(number(Some(&unknown)), None, "{unknown}");
        }
        assert_eq!(moment(Some(&json!(0))), None);
    }
}
