//! Dumps of Slurm as JSON: `squeue`, `scontrol show job|node|partition|reservation`, `sinfo` and slurmrestd, of 21.08 to 26.05.
//!
//! Versions differ: a number is a number, or `{"set", "infinite", "number"}` from 23.02 on, where what is not set is unknown; a state is a word, or a list of words with its flags. A number of
//! 0 where there is none (an end, an array) is none. Priority 0 is a job that is held. Where the list of resources names no GPUs, what is asked for on each node
//! counts (`tres_per_node`, times the nodes). An answer with `errors` is that error.
//!
//! O(bytes). Worked example: `{"set": true, "infinite": false, "number": 30}` as a time limit is 30 min, 1,800 s; with `infinite` there is no limit.

use serde_json::Value;

use super::{Blocked, ClusterState, LiveJob, NodeState, Phase, Reservation};
use crate::error::{Error, Result};
use crate::ingest::slurm::hostlist;
use crate::ingest::slurm::job_id::tasks;
use crate::ingest::slurm::tres::Tres;

/// Most nodes that a list of nodes may name.
const MOST_NODES: usize = 1 << 20;
/// States of a node in which it takes no jobs.
const OUT: [&str; 12] = [
    "DOWN",
    "DRAIN",
    "DRAINED",
    "DRAINING",
    "FAIL",
    "FAILING",
    "MAINTENANCE",
    "NOT_RESPONDING",
    "POWERING_DOWN",
    "REBOOT_ISSUED",
    "UNKNOWN",
    "FUTURE",
];

/// A number of either form, if it is set and finite.
fn number(value: Option<&Value>) -> Option<f64> {
    match value? {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok().filter(|number: &f64| number.is_finite()),
        Value::Object(fields) => {
            let is = |name: &str| fields.get(name).and_then(Value::as_bool);
            if is("set") == Some(false) || is("infinite") == Some(true) {
                return None;
            }
            fields.get("number").and_then(Value::as_f64)
        }
        _ => None,
    }
}

/// A moment in seconds since the epoch, as milliseconds; 0 is none.
fn moment(value: Option<&Value>) -> Option<i64> {
    number(value).filter(|seconds| *seconds > 0.0 && *seconds < 1e11).map(|seconds| (seconds * 1e3).round() as i64)
}

/// A text that says something.
fn text<'v>(of: &'v Value, name: &str) -> Option<&'v str> {
    of.get(name).and_then(Value::as_str).map(str::trim).filter(|text| !matches!(*text, "" | "(null)" | "N/A" | "None"))
}

fn owned(of: &Value, name: &str) -> Option<String> {
    text(of, name).map(str::to_owned)
}

/// Words of a state: a list, or one word.
fn words(of: &Value, name: &str) -> Vec<String> {
    match of.get(name) {
        Some(Value::String(word)) => word
            .split('+')
            .map(|word| word.trim_end_matches(['*', '-', '$', '~', '#', '@', '^', '!', '%']).to_ascii_uppercase())
            .collect(),
        Some(Value::Array(words)) => words.iter().filter_map(Value::as_str).map(str::to_ascii_uppercase).collect(),
        _ => Vec::new(),
    }
}

fn names(list: Option<&str>) -> Vec<String> {
    list.and_then(|list| hostlist::expand(list, MOST_NODES).ok()).unwrap_or_default()
}

/// A dump that was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Dump {
    /// Whether it is of jobs.
    pub(super) has_jobs: bool,
    /// When it was made, milliseconds since the Unix epoch.
    pub(super) at_ms: Option<i64>,
}

/// Takes a document into a state; none if it holds nothing of a cluster.
///
/// # Errors
/// If it is an answer that failed.
pub(super) fn take(state: &mut ClusterState, file: &str, document: &Value) -> Result<Option<Dump>> {
    let list = |name: &str| document.get(name).and_then(Value::as_array);
    let Some(fields) = document.as_object() else { return Ok(None) };
    let errors: Vec<String> = list("errors").into_iter().flatten().map(in_words).collect();
    if !errors.is_empty() {
        return Err(Error::Format {
            file: file.to_owned(),
            line: None,
            column: None,
            found: format!("it is an answer of Slurm that failed: {}", errors.join("; ")),
            remedy: "ask Slurm again".to_owned(),
        });
    }
    let mut dump = Dump { has_jobs: false, at_ms: moment(fields.get("last_update")) };
    let mut holds = false;
    let is_live = |job: &Value| job.get("job_state").is_some() && job.get("submit_time").is_some();
    if let Some(jobs) = list("jobs").filter(|jobs| jobs.is_empty() || jobs.iter().any(is_live)) {
        holds = true;
        state.jobs.extend(jobs.iter().filter_map(job));
        // Of versions that do not say when they were asked, the last thing that they know.
        let of_job = |job: &Value| {
            ["last_sched_evaluation", "submit_time", "eligible_time"]
                .into_iter()
                .filter_map(|name| moment(job.get(name)))
                .max()
        };
        dump.at_ms = dump.at_ms.or_else(|| jobs.iter().filter_map(of_job).max());
        dump.has_jobs = true;
    }
    if let Some(nodes) = list("nodes").filter(|nodes| nodes.iter().any(|node| node.get("name").is_some())) {
        holds = true;
        state.nodes.extend(nodes.iter().filter_map(node));
    }
    if let Some(reservations) = list("reservations") {
        holds = true;
        state.reservations.extend(reservations.iter().filter_map(reservation));
    }
    holds |= ["partitions", "sinfo", "statistics", "shares"].iter().any(|name| fields.contains_key(*name));
    Ok(holds.then_some(dump))
}

/// An error of an answer in words.
fn in_words(error: &Value) -> String {
    let said = ["description", "error", "source"].into_iter().filter_map(|name| text(error, name));
    let said: Vec<&str> = said.collect();
    if said.is_empty() { error.to_string() } else { said.join(", ") }
}

fn reservation(of: &Value) -> Option<Reservation> {
    let nodes = names(text(of, "node_list"));
    let span_ms = (moment(of.get("start_time"))?, moment(of.get("end_time"))?);
    Some(Reservation { name: owned(of, "name")?, nodes, span_ms })
}

fn node(of: &Value) -> Option<NodeState> {
    let mut state = words(of, "state");
    state.extend(words(of, "state_flags"));
    let tres = Tres::parse(text(of, "tres").unwrap_or_default());
    let gres = gpus_of_gres(text(of, "gres").unwrap_or_default());
    let gpus = tres.gpus().or(gres.0).unwrap_or(0.0);
    Some(NodeState {
        name: owned(of, "name")?,
        partitions: of
            .get("partitions")
            .and_then(Value::as_array)
            .map_or_else(Vec::new, |all| all.iter().filter_map(Value::as_str).map(str::to_owned).collect()),
        gpus: gpus as u32,
        gpu_type: tres.gpu_type().or(gres.1),
        cpus: tres.cpus.or_else(|| number(of.get("cpus"))).unwrap_or(0.0) as u32,
        usable: !state.iter().any(|word| OUT.contains(&word.as_str())),
    })
}

/// GPUs of a list such as `gpu:a100:8(S:0-1),shard:32`, and their type.
fn gpus_of_gres(list: &str) -> (Option<f64>, Option<String>) {
    let (mut count, mut of_type) = (None, None);
    for entry in list.split(',') {
        let entry = entry.split('(').next().unwrap_or_default().trim();
        let entry = entry.strip_prefix("gres/").or_else(|| entry.strip_prefix("gres:")).unwrap_or(entry);
        let mut parts = entry.split([':', '=']);
        if parts.next() != Some("gpu") {
            continue;
        }
        let rest: Vec<&str> = parts.collect();
        let (kind, amount) = match rest.as_slice() {
            [] => (None, 1.0),
            [one] => one.parse().map_or((Some(*one), 1.0), |amount| (None, amount)),
            [kind, amount, ..] => (Some(*kind), amount.parse().unwrap_or(1.0)),
        };
        *count.get_or_insert(0.0) += amount;
        of_type = of_type.or_else(|| kind.map(str::to_owned));
    }
    (count, of_type)
}

fn job(of: &Value) -> Option<LiveJob> {
    let state = words(of, "job_state");
    let is = |word: &str| state.iter().any(|of| of == word);
    let phase = if is("PENDING") {
        Phase::Pending
    } else if ["RUNNING", "COMPLETING", "CONFIGURING", "STAGE_OUT", "RESIZING"].iter().any(|word| is(word)) {
        Phase::Running
    } else if is("SUSPENDED") {
        // It keeps its GPUs.
        Phase::Running
    } else {
        return None;
    };
    let whole = number(of.get("job_id"))? as u64;
    let array = number(of.get("array_job_id")).filter(|id| *id > 0.0).map(|id| id as u64);
    let task = number(of.get("array_task_id")).filter(|_| array.is_some()).map(|task| task as u64);
    let list = text(of, "array_task_string");
    let id = match (array, task) {
        (Some(array), Some(task)) => format!("{array}_{task}"),
        (Some(array), None) if list.is_some() => array.to_string(),
        _ => whole.to_string(),
    };
    let waits = if task.is_none() { list.and_then(tasks).map_or(1, |tasks| tasks.len().max(1)) } else { 1 };
    let at_once = number(of.get("array_max_tasks"))
        .filter(|most| *most > 0.0)
        .or_else(|| list?.split_once('%')?.1.parse().ok())
        .map(|most| most as u32);
    let nodes = number(of.get("node_count")).filter(|nodes| *nodes > 0.0).map(|nodes| nodes as u32);
    let held = match phase {
        Phase::Running => ["tres_alloc_str", "tres_req_str"],
        Phase::Pending => ["tres_req_str", "tres_alloc_str"],
    };
    let listed: Vec<Tres> = held.into_iter().filter_map(|name| text(of, name)).map(Tres::parse).collect();
    let asked = || {
        let per = |name: &str| text(of, name).and_then(|list| gpus_of_gres(list).0);
        per("tres_per_job").or_else(|| Some(per("tres_per_node")? * f64::from(nodes.unwrap_or(1))))
    };
    // A list of resources without GPUs says that there are none, if nothing else says that there are.
    let gpus = listed.iter().find_map(Tres::gpus).or_else(asked).or_else(|| (!listed.is_empty()).then_some(0.0));

    Some(LiveJob {
        id,
        user: owned(of, "user_name"),
        partition: text(of, "partition").map(|all| all.split(',').next().unwrap_or(all).to_owned()),
        phase,
        blocked: if phase == Phase::Pending { blocked(of, text(of, "state_reason")) } else { None },
        priority: number(of.get("priority")),
        submit_ms: moment(of.get("submit_time")),
        start_ms: moment(of.get("start_time")),
        limit_s: number(of.get("time_limit")).filter(|minutes| *minutes > 0.0).map(|minutes| minutes * 60.0),
        gpus,
        cpus: listed.iter().find_map(|tres| tres.cpus).or_else(|| number(of.get("cpus"))),
        nodes,
        on: if phase == Phase::Running { names(text(of, "nodes")) } else { Vec::new() },
        tasks: u32::try_from(waits).unwrap_or(u32::MAX),
        at_once,
    })
}

/// What keeps a pending job from starting beside its turn and room.
fn blocked(of: &Value, reason: Option<&str>) -> Option<Blocked> {
    let reason = reason.unwrap_or_default();
    let is_held = of.get("hold").and_then(Value::as_bool) == Some(true) || number(of.get("priority")) == Some(0.0);
    if is_held || reason.starts_with("JobHeld") {
        return Some(Blocked::Held);
    }
    if let Some(depends) = text(of, "dependency") {
        return Some(Blocked::Depends(depends.to_owned()));
    }
    if let Some(name) = text(of, "resv_name").filter(|_| reason == "Reservation") {
        return Some(Blocked::Reservation(name.to_owned()));
    }
    match reason {
        "BeginTime" => Some(Blocked::Begins(moment(of.get("eligible_time")).or_else(|| moment(of.get("start_time"))))),
        "Dependency" | "DependencyNeverSatisfied" => Some(Blocked::Depends(reason.to_owned())),
        "JobArrayTaskLimit" => Some(Blocked::ArrayLimit),
        "Licenses" => Some(Blocked::Licences),
        "ReqNodeNotAvail" | "ReqNodeNotAvailable" | "NodeDown" | "BadConstraints" => Some(Blocked::Nodes),
        _ if reason.starts_with("QOS")
            || reason.starts_with("Assoc")
            || reason.starts_with("Max")
            || reason.ends_with("Limit") =>
        {
            Some(Blocked::Limit(reason.to_owned()))
        }
        _ => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(document: &Value) -> ClusterState {
        let mut state = ClusterState::default();
        let dump = take(&mut state, "dump", document).unwrap().unwrap();
        ClusterState { now_ms: dump.at_ms, ..state }
    }

    fn set(number: i64) -> Value {
        json!({"set": true, "infinite": false, "number": number})
    }

    #[test]
    fn both_forms_of_numbers_and_states_say_the_same() {
        let new = json!({"jobs": [{
            "job_id": 5, "job_state": ["PENDING"], "state_reason": "Resources", "user_name": "u4", "partition": "gpu",
            "priority": set(7), "submit_time": set(1000), "start_time": set(0), "time_limit": set(120), "node_count": set(4),
            "tres_req_str": "cpu=4,node=4,gres/gpu=32", "array_job_id": set(0), "array_task_string": ""
        }], "last_update": set(1100)});
        let old = json!({"jobs": [{
            "job_id": 5, "job_state": "PENDING", "state_reason": "Resources", "user_name": "u4", "partition": "gpu",
            "priority": 7, "submit_time": 1000, "start_time": 0, "time_limit": 120, "node_count": 4,
            "tres_req_str": "cpu=4,node=4,gres/gpu=32", "array_job_id": 0, "array_task_string": ""
        }], "last_update": 1100});
        let state = read(&new);
        assert_eq!(state, read(&old));
        let job = &state.jobs[0];
        assert_eq!((job.gpus, job.nodes, job.limit_s, job.start_ms), (Some(32.0), Some(4), Some(7200.0), None));
        assert_eq!(
            (state.now_ms, job.phase, job.blocked.as_ref(), job.tasks),
            (Some(1_100_000), Phase::Pending, None, 1)
        );
    }

    #[test]
    fn what_keeps_a_job_is_told_apart() {
        let job = |fields: Value| {
            let mut job = json!({"job_id": 1, "job_state": "PENDING", "submit_time": 9, "priority": 1});
            job.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            read(&json!({"jobs": [job]})).jobs[0].clone()
        };
        let of = |fields: Value| job(fields).blocked;
        assert_eq!(of(json!({"priority": 0, "state_reason": "JobHeldUser"})), Some(Blocked::Held));
        assert_eq!(of(json!({"state_reason": "BeginTime", "eligible_time": 50})), Some(Blocked::Begins(Some(50_000))));
        assert_eq!(
            of(json!({"state_reason": "Priority", "dependency": "afterok:6(unfulfilled)"})),
            Some(Blocked::Depends("afterok:6(unfulfilled)".to_owned()))
        );
        assert_eq!(
            of(json!({"state_reason": "QOSMaxGRESPerUser"})),
            Some(Blocked::Limit("QOSMaxGRESPerUser".to_owned()))
        );
        assert_eq!(of(json!({"state_reason": "Priority"})), None);
        let sweep =
            job(json!({"job_id": 6, "array_job_id": 6, "array_task_string": "1-6%2", "tres_per_node": "gres/gpu:2"}));
        assert_eq!((sweep.id.as_str(), sweep.tasks, sweep.at_once, sweep.gpus), ("6", 6, Some(2), Some(2.0)));
    }

    #[test]
    fn nodes_that_drain_take_no_jobs() {
        let state = read(&json!({"nodes": [
            {"name": "n2", "state": ["IDLE", "DRAIN"], "gres": "gpu:a100:8(S:0-1)", "partitions": ["gpu"], "tres": "cpu=64"},
            {"name": "n1", "state": "mixed", "state_flags": [], "gres": "", "tres": "cpu=64,gres/gpu=4", "partitions": ["gpu"]}
        ]}));
        let of = |at: usize| (state.nodes[at].usable, state.nodes[at].gpus, state.nodes[at].gpu_type.as_deref());
        assert_eq!([of(0), of(1)], [(false, 8, Some("a100")), (true, 4, None)]);
    }

    #[test]
    fn an_answer_that_failed_is_that_error() {
        let told = take(&mut ClusterState::default(), "f", &json!({"errors": [{"error": "no slurmctld"}], "jobs": []}));
        assert!(told.unwrap_err().to_string().contains("no slurmctld"));
    }
}
