//! Kueue Workloads, `kueue.x-k8s.io` v1beta1 and v1beta2: what a job asks for, what it was given, and when.
//!
//! | field of the job | from |
//! |---|---|
//! | submission | `metadata.creationTimestamp` |
//! | start of the latest attempt | condition `Admitted` is true: since then |
//! | end of an evicted attempt | condition `Admitted` is false: since then (its quota was released) |
//! | end | condition `Finished` is true: since then |
//! | state | reason of `Finished`: `Succeeded`, `Failed`; before Kueue 0.7 `JobFinished`, where the message says which |
//! | GPUs asked for | pods of each `spec.podSets[]` times what its template asks for |
//! | GPUs given | `status.admission.podSetAssignments[].resourceUsage`, the total of all pods |
//! | how near its pods ask to lie | `spec.podSets[].topologyRequest`, else the annotations of its template ([`topology`]); of several pod sets, that with the most GPUs |
//! | time limit | `spec.maximumExecutionTimeSeconds` |
//! | why it still waits | message of the condition `QuotaReserved`, else of an admission check that is not ready, else of `Admitted` |
//!
//! A workload that was made inactive (`spec.active: false`) and is not admitted is over: it is not queued again unless someone
//! activates it. Spellings differ by version: `priorityClassName` is `priorityClassRef.name` in v1beta2, and some versions of
//! v1beta1 write `accumulatedPastExexcutionTimeSeconds`. `QuotaReserved` and `PodsReady` are no start: quota alone runs nothing, and
//! GPUs are held before all pods are ready.
//!
//! Worked example: created 10:00:00, `Admitted` true since 10:05:00, `Finished` true since 11:05:00 with reason `Succeeded`, pod set
//! of 4 pods with 8 GPUs each: a job of 32 GPUs that waited 300 s, ran 3,600 s and completed.

use std::collections::BTreeMap;

use serde_json::Value;

use super::object::{Condition, Meta, condition, count, moment, text};
use super::pod::{asked, product};
use super::quantity::{Amounts, is_gpu, is_shared};
use super::store::Stored;
use super::timeline::History;
use super::topology;
use crate::quality::{Reason, RowAudit};
use crate::schema::JobState;

/// More pods than any pod set has: a count beyond is none.
const MOST_PODS: u64 = 1_000_000;

/// A workload is over, and how is not known.
const UNKNOWN_FINISH: Reason = Reason {
    id: "unknown_finish",
    what: "the workload is finished, and neither reason nor message say whether it succeeded; its state is unknown",
    remedy: "nothing is lost, the reason is in reported_state; report it to the maintainers of tracecast",
};

/// A workload.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Workload {
    pub(super) meta: Meta,
    pub(super) local_queue: Option<Box<str>>,
    pub(super) cluster_queue: Option<Box<str>>,
    pub(super) priority_class: Option<Box<str>>,
    pub(super) time_limit_s: Option<f64>,
    /// Asked for, all pods; `None` without pod sets.
    pub(super) asked: Option<Amounts>,
    /// Given, all pods; `None` while not admitted.
    pub(super) given: Option<Amounts>,
    /// Pods with GPUs, as admitted or else asked for.
    pub(super) gpu_pods: Option<u64>,
    /// GPU models that the templates' node selectors ask for.
    pub(super) selected: Vec<Box<str>>,
    /// Flavors it was given GPUs of.
    pub(super) flavors: Vec<Box<str>>,
    /// Whether a pod set may shrink (`minCount`).
    pub(super) elastic: bool,
    /// Topology that the pods request, and whether pod sets with GPUs differ in that.
    pub(super) topology: Option<Box<str>>,
    pub(super) differs: bool,
    pub(super) state: JobState,
    /// Original state text of the source.
    pub(super) reported: Option<Box<str>>,
    /// Why it waits.
    pub(super) waits: Option<Box<str>>,
    /// Time since which the workload is admitted.
    pub(super) admitted: Option<i64>,
    /// Time of the last loss of admission, and the end state of that attempt.
    pub(super) released: Option<(i64, JobState)>,
    /// End of the workload.
    pub(super) end: Option<i64>,
    /// Time that earlier attempts ran, seconds.
    pub(super) past_s: Option<f64>,
    /// Evictions by how they ended the attempt; empty where the version keeps no count.
    pub(super) evictions: Vec<(JobState, u64)>,
    /// Whether admission needs more than quota, so that a workload can be evicted before it ever ran.
    pub(super) checked: bool,
}

impl Workload {
    pub(super) fn read(object: &Value, meta: Meta, row: &mut RowAudit<'_>) -> Self {
        let spec = object.get("spec").unwrap_or(&Value::Null);
        let status = object.get("status").unwrap_or(&Value::Null);
        let admitted = condition(object, "Admitted", row);
        let evicted = condition(object, "Evicted", row);
        let finished = condition(object, "Finished", row).filter(|condition| condition.holds);
        let inactive = spec.get("active").and_then(Value::as_bool) == Some(false);
        let since = admitted.filter(|condition| condition.holds).and_then(|condition| condition.at);
        let is_admitted = admitted.is_some_and(|condition| condition.holds);
        let cause = evicted.map_or(JobState::Cancelled, |condition| evicted_as(condition.reason));
        let released = admitted.filter(|condition| !condition.holds).and_then(|condition| condition.at);
        let (state, end, reported) = match finished {
            Some(condition) => (finish(&condition, row), condition.at, Some(condition.reason)),
            None if is_admitted => (JobState::Running, None, Some("Admitted")),
            None if inactive => {
                let at = released.or(evicted.filter(|condition| condition.holds).and_then(|condition| condition.at));
                (cause, at, Some(evicted.map_or("Deactivated", |condition| condition.reason)))
            }
            None => {
                let reserved = condition(object, "QuotaReserved", row).is_some_and(|condition| condition.holds);
                (JobState::Pending, None, Some(if reserved { "QuotaReserved" } else { "Pending" }))
            }
        };
        let waits = if state == JobState::Pending { waits(object, row) } else { None };
        let sets = Sets::read(spec, status, row);
        let owned = |text: Option<&str>| text.map(Into::into);
        let past = ["accumulatedPastExecutionTimeSeconds", "accumulatedPastExexcutionTimeSeconds"];
        let past_s = past.into_iter().find_map(|key| count(status.get(key), key, row)).map(|seconds| seconds as f64);
        let priority = spec.pointer("/priorityClassRef/name").or_else(|| spec.get("priorityClassName"));
        let limit = count(spec.get("maximumExecutionTimeSeconds"), "maximumExecutionTimeSeconds", row);
        let checks = status.get("admissionChecks").and_then(Value::as_array);
        Self {
            local_queue: owned(text(spec.get("queueName"))),
            cluster_queue: owned(text(status.pointer("/admission/clusterQueue"))),
            priority_class: owned(text(priority)),
            time_limit_s: limit.map(|seconds| seconds as f64),
            asked: sets.asked,
            given: sets.given,
            gpu_pods: sets.gpu_pods,
            selected: sets.selected,
            flavors: sets.flavors,
            elastic: sets.elastic,
            topology: sets.topology,
            differs: sets.differs,
            state,
            reported: owned(reported),
            waits,
            admitted: since,
            released: released.map(|at| (at, cause)),
            end,
            past_s,
            evictions: evictions(status, row),
            checked: checks.is_some_and(|checks| !checks.is_empty()),
            meta,
        }
    }
}

impl Stored for Workload {
    fn meta(&self) -> &Meta {
        &self.meta
    }
    fn stage(&self) -> u8 {
        stage(self.state)
    }
    fn history(&self) -> History {
        let mut history = History::default();
        history.admitted.extend(self.admitted);
        if let Some((at, cause)) = self.released {
            history.release(at, cause);
        }
        history
    }
}

/// Stage of a job in this state.
pub(super) fn stage(state: JobState) -> u8 {
    match state {
        JobState::Pending => 1,
        JobState::Running => 2,
        _ => 3,
    }
}

/// Why a workload waits: what keeps its quota from it; once it has that, the first admission check that is not ready; else what keeps its
/// admission from it.
fn waits(object: &Value, row: &mut RowAudit<'_>) -> Option<Box<str>> {
    let mut lacks = |name: &str| condition(object, name, row).filter(|condition| !condition.holds)?.said();
    let check = || {
        let checks = object.pointer("/status/admissionChecks")?.as_array()?;
        let open = checks.iter().find(|check| text(check.get("state")) != Some("Ready"))?;
        let (name, state) = (text(open.get("name"))?, text(open.get("state")).unwrap_or("Pending"));
        Some(match text(open.get("message")) {
            Some(message) => format!("admission check {name} is {state}: {message}").into(),
            None => format!("admission check {name} is {state}").into(),
        })
    };
    lacks("QuotaReserved").or_else(check).or_else(|| lacks("Admitted"))
}

/// End state of a finished workload.
fn finish(condition: &Condition<'_>, row: &mut RowAudit<'_>) -> JobState {
    let message = condition.message.to_ascii_lowercase();
    match condition.reason {
        "Succeeded" => JobState::Completed,
        "Failed" => JobState::Failed,
        // The job went on as another workload, or another workload took its place.
        "OutOfSync" | "WorkloadSliceReplaced" => JobState::Cancelled,
        _ if message.contains("fail") => JobState::Failed,
        _ if message.contains("success") || message.contains("succeed") => JobState::Completed,
        reason => {
            row.repair(UNKNOWN_FINISH, "Finished", &format!("{reason}: {message}"));
            JobState::Unknown
        }
    }
}

/// End state of the attempt that an eviction ended: being queued again is a cancellation of that
/// attempt.
pub(super) fn evicted_as(reason: &str) -> JobState {
    match reason {
        "Preempted" => JobState::Preempted,
        "NodeFailures" => JobState::NodeFail,
        reason if reason.contains("MaximumExecutionTimeExceeded") => JobState::Timeout,
        _ => JobState::Cancelled,
    }
}

fn evictions(status: &Value, row: &mut RowAudit<'_>) -> Vec<(JobState, u64)> {
    let mut counts: BTreeMap<JobState, u64> = BTreeMap::new();
    for entry in status.pointer("/schedulingStats/evictions").and_then(Value::as_array).into_iter().flatten() {
        let reasons = [text(entry.get("reason")), text(entry.get("underlyingCause"))];
        // `Deactivated` has its cause beside it.
        let states = reasons.into_iter().flatten().map(evicted_as);
        let state = states.reduce(|first, cause| if first == JobState::Cancelled { cause } else { first });
        let many = count(entry.get("count"), "evictions", row).unwrap_or(0);
        let sum = counts.entry(state.unwrap_or(JobState::Cancelled)).or_default();
        *sum = sum.saturating_add(many);
    }
    counts.into_iter().filter(|(_, many)| *many > 0).collect()
}

/// Pod sets, as asked for and as assigned.
#[derive(Default)]
struct Sets {
    asked: Option<Amounts>,
    given: Option<Amounts>,
    gpu_pods: Option<u64>,
    selected: Vec<Box<str>>,
    flavors: Vec<Box<str>>,
    elastic: bool,
    topology: Option<Box<str>>,
    differs: bool,
}

impl Sets {
    fn read(spec: &Value, status: &Value, row: &mut RowAudit<'_>) -> Self {
        let mut sets = Self::default();
        let mut with_gpus: Vec<(&str, u64)> = Vec::new();
        let mut shared = false;
        let mut most: Option<f64> = None;
        for set in spec.get("podSets").and_then(Value::as_array).into_iter().flatten() {
            let template = set.pointer("/template/spec").unwrap_or(&Value::Null);
            let each = asked(template, row);
            let containers = template.get("containers").and_then(Value::as_array).into_iter().flatten();
            shared |= containers.filter_map(|container| container.get("resources")).any(is_shared);
            let many = count(set.get("count"), "count", row).unwrap_or(1).min(MOST_PODS);
            if each.has_gpus() {
                with_gpus.push((text(set.get("name")).unwrap_or("main"), many));
                sets.selected.extend(product(template.get("nodeSelector")).map(Into::into));
                let near = match set.get("topologyRequest").filter(|request| !request.is_null()) {
                    Some(request) => topology::requested(request, row),
                    None => set.get("template").and_then(|template| topology::annotated(template, row)),
                };
                sets.differs |= most.is_some() && sets.topology != near;
                let gpus = each.gpus().unwrap_or(0.0) * many as f64;
                if most.is_none_or(|most| gpus > most) {
                    (most, sets.topology) = (Some(gpus), near);
                }
            }
            sets.elastic |= set.get("minCount").is_some_and(|least| !least.is_null());
            sets.asked.get_or_insert_default().add(&each.times(many as f64));
        }
        for given in status.pointer("/admission/podSetAssignments").and_then(Value::as_array).into_iter().flatten() {
            sets.given.get_or_insert_default().add(&Amounts::read(given.get("resourceUsage"), row));
            for (resource, flavor) in given.get("flavors").and_then(Value::as_object).into_iter().flatten() {
                if is_gpu(resource) {
                    sets.flavors.extend(text(Some(flavor)).map(Into::into));
                }
            }
            let name = text(given.get("name")).unwrap_or("main");
            if let Some(many) = count(given.get("count"), "count", row)
                && let Some((_, pods)) = with_gpus.iter_mut().find(|(set, _)| *set == name)
            {
                *pods = many.min(MOST_PODS);
            }
        }
        if let (true, Some(asked), Some(given)) = (shared, &sets.asked, &mut sets.given) {
            // Usage counts GPUs that are shared as whole ones.
            given.set_gpus_of(asked);
        }
        sets.gpu_pods = sets.asked.is_some().then(|| with_gpus.iter().map(|(_, many)| many).sum());
        for names in [&mut sets.selected, &mut sets.flavors] {
            names.sort_unstable();
            names.dedup();
        }
        sets
    }
}

/// News of a workload in an event: an admission, or an eviction with its end state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    Admitted,
    Evicted(JobState),
}

/// An event of a workload that tells when an attempt began or ended.
#[derive(Debug)]
pub(super) struct WorkloadEvent {
    /// Namespace and name of the workload.
    pub(super) of: (Box<str>, Box<str>),
    pub(super) uid: Option<Box<str>>,
    pub(super) told: Told,
    pub(super) at: Vec<i64>,
}

impl WorkloadEvent {
    /// Reads an event; `None` if it says nothing of when an attempt began or ended.
    pub(super) fn read(object: &Value, row: &mut RowAudit<'_>) -> Option<Self> {
        let about = object.get("involvedObject").or_else(|| object.get("regarding"))?;
        if text(about.get("kind")) != Some("Workload") {
            return None;
        }
        let told = match text(object.get("reason"))? {
            "Admitted" => Told::Admitted,
            reason => Told::Evicted(evicted_as(reason.strip_prefix("EvictedDueTo")?)),
        };
        let name = text(about.get("name"))?;
        let namespace = text(about.get("namespace")).unwrap_or_default();
        // The same event is counted up: its first and its last time are kept, those between are not.
        let keys =
            ["firstTimestamp", "lastTimestamp", "deprecatedFirstTimestamp", "deprecatedLastTimestamp", "eventTime"];
        let mut at: Vec<i64> = keys.into_iter().filter_map(|key| moment(object.get(key), key, row)).collect();
        at.extend(moment(object.pointer("/series/lastObservedTime"), "series", row));
        // Event times are written in seconds and in microseconds beside each other.
        at.iter_mut().for_each(|ms| *ms = ms.div_euclid(1_000) * 1_000);
        at.sort_unstable();
        at.dedup();
        Some(Self { of: (namespace.into(), name.into()), uid: text(about.get("uid")).map(Into::into), told, at })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::super::object::Kind;
    use super::*;

    fn read(spec: &Value, status: &Value) -> (Workload, bool) {
        let object = json!({"metadata": {"name": "w", "namespace": "n"}, "spec": spec, "status": status});
        let mut row = RowAudit::new("f", 1);
        let meta = Meta::read(&object, Kind::Workload, &mut row).unwrap();
        (Workload::read(&object, meta, &mut row), row.is_clean())
    }

    #[test]
    fn the_reason_says_how_a_workload_ended_and_before_it_had_one_the_message() {
        let state = |reason: &str, message: &str| {
            let finished = json!({"type": "Finished", "status": "True", "reason": reason, "message": message});
            let (workload, clean) = read(&json!({}), &json!({"conditions": [finished]}));
            (workload.state, clean)
        };
        assert_eq!(state("Succeeded", "3 of 3 failed pods were retried"), (JobState::Completed, true));
        assert_eq!(state("Failed", ""), (JobState::Failed, true));
        assert_eq!(state("JobFinished", "Job finished successfully"), (JobState::Completed, true));
        assert_eq!(state("JobFinished", "Job failed"), (JobState::Failed, true));
        assert_eq!(state("OutOfSync", "The prebuilt workload is out of sync"), (JobState::Cancelled, true));
        assert_eq!(state("OwnerNotFound", "gone"), (JobState::Unknown, false));
    }

    // Quota alone is no admission; inactive and not admitted is over; being evicted is still running.
    #[test]
    fn the_state_of_a_workload_that_is_not_finished() {
        let state =
            |active: bool, conditions: Value| read(&json!({"active": active}), &json!({"conditions": conditions})).0;
        let is = |kind: &str, status: &str, reason: &str| json!({"type": kind, "status": status, "reason": reason});
        assert_eq!(state(true, json!([is("QuotaReserved", "True", "QuotaReserved")])).state, JobState::Pending);
        assert_eq!(state(true, json!([is("Admitted", "True", "Admitted")])).state, JobState::Running);
        let evicted = json!([is("Admitted", "True", "Admitted"), is("Evicted", "True", "Preempted")]);
        assert_eq!(state(true, evicted).state, JobState::Running);
        let over = |reason: &str| state(false, json!([is("Evicted", "True", reason)])).state;
        assert_eq!(over("Deactivated"), JobState::Cancelled);
        assert_eq!(over("DeactivatedDueToMaximumExecutionTimeExceeded"), JobState::Timeout);
    }

    // Quota first, then what else admission needs. Without a message the reason; an admitted workload waits for nothing.
    #[test]
    fn why_a_workload_waits() {
        let is = |kind: &str, status: &str, message: &str| json!({"type": kind, "status": status, "reason": "Pending", "message": message});
        let told = |conditions: Value, checks: Value| {
            let (workload, _) = read(&json!({}), &json!({"conditions": conditions, "admissionChecks": checks}));
            workload.waits
        };
        let check = json!([{"name": "done", "state": "Ready"}, {"name": "room", "state": "Pending", "message": "no nodes yet"}]);
        let no_quota = is("QuotaReserved", "False", "couldn't assign flavors: 8 more needed");
        let no_word = is("QuotaReserved", "False", "");
        let quota = is("QuotaReserved", "True", "Quota reserved");
        let lost = is("Admitted", "False", "The workload has no reservation");
        assert_eq!(
            told(json!([no_quota, lost]), check.clone()).as_deref(),
            Some("couldn't assign flavors: 8 more needed")
        );
        assert_eq!(told(json!([no_word]), json!([])).as_deref(), Some("Pending"));
        assert_eq!(
            told(json!([quota, lost]), check.clone()).as_deref(),
            Some("admission check room is Pending: no nodes yet")
        );
        assert_eq!(told(json!([quota, lost]), json!([])).as_deref(), Some("The workload has no reservation"));
        assert_eq!(told(json!([]), json!([])), None);
        assert_eq!(told(json!([is("Admitted", "True", "")]), check), None);
    }

    // 3 of 4 pods were admitted: 4 × 2 asked for, 3 × 2 given.
    #[test]
    fn a_workload_may_be_admitted_with_fewer_pods() {
        let template = json!({"spec": {"containers": [{"resources": {"requests": {"nvidia.com/gpu": 2}}}]}});
        let spec = json!({"podSets": [{"name": "main", "count": 4, "minCount": 2, "template": template}]});
        let given = json!({"name": "main", "count": 3, "flavors": {"nvidia.com/gpu": "a"}, "resourceUsage": {"nvidia.com/gpu": "6"}});
        let (workload, clean) = read(&spec, &json!({"admission": {"clusterQueue": "q", "podSetAssignments": [given]}}));
        let gpus = |amounts: Option<Amounts>| amounts.and_then(|amounts| amounts.gpus());
        assert_eq!((gpus(workload.asked), gpus(workload.given), workload.gpu_pods), (Some(8.0), Some(6.0), Some(3)));
        assert!(clean && workload.elastic && workload.flavors == ["a".into()]);
    }

    #[test]
    fn events_in_both_forms_tell_admissions_and_evictions() {
        let mut row = RowAudit::new("f", 1);
        let about = json!({"kind": "Workload", "namespace": "n", "name": "w"});
        let mut at = |object: Value| WorkloadEvent::read(&object, &mut row).map(|event| (event.told, event.at));
        let core = json!({"involvedObject": about, "reason": "Admitted", "firstTimestamp": "1970-01-01T00:00:05Z",
            "lastTimestamp": "1970-01-01T00:00:09Z", "eventTime": null});
        assert_eq!(at(core), Some((Told::Admitted, vec![5_000, 9_000])));
        let new =
            json!({"regarding": about, "reason": "EvictedDueToPreempted", "eventTime": "1970-01-01T00:00:05.250000Z"});
        assert_eq!(at(new), Some((Told::Evicted(JobState::Preempted), vec![5_000])));
        assert_eq!(at(json!({"involvedObject": about, "reason": "Pending"})), None);
    }
}
