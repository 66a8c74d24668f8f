//! Pods: what they ask for, where and when they held it, and how they ended.
//!
//! **Asked for**: for each resource the sum over the containers, or the most that any init container needs while it runs, whichever
//! is more; init containers that keep running (sidecars, `restartPolicy: Always`) count with both. Requests default to limits.
//! `spec.resources` replaces the sums, `spec.overhead` is added. The KAI scheduler shares GPUs by annotation: `gpu-fraction` (times
//! `gpu-fraction-num-devices`) is the GPUs asked for; of `gpu-memory` how much of a GPU that is stays unknown. So do the GPUs of a
//! pod that has resource claims (dynamic resource allocation) and asks for no GPU otherwise.
//!
//! **Held**: from the moment the pod was bound to its node (condition `PodScheduled`, else `status.startTime`) to the last
//! `finishedAt` of its containers; a pod that was taken away without them ends with its condition `DisruptionTarget`. Only a pod
//! whose phase is `Succeeded` or `Failed` has an end.
//!
//! **Waits**: a pod without a node says why in its condition `PodScheduled`: the message of the scheduler.
//!
//! Worked example: containers with 1 and 2 GPUs, a sidecar with 1 and an init container with 8 that runs beside the sidecar:
//! max(1 + 2 + 1, 1 + 8) = 9 GPUs.

use serde_json::Value;

use super::object::{Meta, condition, moment, tag, text};
use super::quantity::{Amounts, is_shared, quantity};
use super::store::Stored;
use super::topology;
use crate::quality::{RowAudit, reason};
use crate::schema::JobState;

/// Labels by which pods name the job they work for, beside their owner.
const JOB_LABELS: [&str; 5] = [
    "jobset.sigs.k8s.io/jobset-name",
    "training.kubeflow.org/job-name",
    "ray.io/cluster",
    "leaderworkerset.sigs.k8s.io/name",
    "kueue.x-k8s.io/pod-group-name",
];

/// Namespaces in which the KAI scheduler and Run:ai keep pods that hold a GPU for the pods that share it.
const RESERVATIONS: [&str; 2] = ["kai-resource-reservation", "runai-reservation"];

/// Labels that name the GPU model of a node, and node selectors that ask for one.
const PRODUCTS: [&str; 5] = [
    "nvidia.com/gpu.product",
    "amd.com/gpu.product-name",
    "gpu.intel.com/product",
    "cloud.google.com/gke-accelerator",
    "k8s.amazonaws.com/accelerator",
];

/// The GPU model that a map of node labels names.
pub(super) fn product(labels: Option<&Value>) -> Option<&str> {
    let labels = labels?;
    PRODUCTS.iter().find_map(|key| text(labels.get(key)))
}

/// A pod that asks for GPUs.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pod {
    pub(super) meta: Meta,
    pub(super) amounts: Amounts,
    /// Whether its GPUs were asked for by annotation, as parts of GPUs.
    pub(super) fraction: bool,
    pub(super) node: Option<Box<str>>,
    /// GPU model that its node selector asks for, as the nodes' label has it.
    pub(super) selected: Option<Box<str>>,
    /// Name of the Workload it says it belongs to.
    pub(super) workload: Option<Box<str>>,
    /// Names of jobs or groups of pods that its labels give.
    pub(super) jobs: Vec<Box<str>>,
    /// The PodGroup of its scheduler.
    pub(super) group: Option<Box<str>>,
    /// The LocalQueue it was submitted to.
    pub(super) local_queue: Option<Box<str>>,
    /// The queue of the KAI scheduler.
    pub(super) queue: Option<Box<str>>,
    pub(super) priority: Option<Box<str>>,
    pub(super) phase: Box<str>,
    pub(super) state: JobState,
    /// Time at which the pod was bound to its node.
    pub(super) start: Option<i64>,
    pub(super) end: Option<i64>,
    pub(super) exit_code: Option<i64>,
    /// Why it waits for a node.
    pub(super) waits: Option<Box<str>>,
    /// Topology that the pod requests towards the other pods of its job.
    pub(super) topology: Option<Box<str>>,
}

impl Pod {
    pub(super) fn read(object: &Value, meta: Meta, row: &mut RowAudit<'_>) -> Self {
        let spec = object.get("spec").unwrap_or(&Value::Null);
        let mut amounts = asked(spec, row);
        let shared = shared(object, row);
        if let Some(shared) = shared {
            amounts.set_gpus(shared);
        }
        let phase = text(object.pointer("/status/phase")).unwrap_or("Unknown");
        let scheduled = condition(object, "PodScheduled", row);
        let bound = scheduled.filter(|condition| condition.holds);
        let started = moment(object.pointer("/status/startTime"), "startTime", row);
        let node = text(spec.get("nodeName"));
        // A pod that never was on a node can have failed, but held nothing.
        let start = bound.and_then(|bound| bound.at).or(started).filter(|_| node.is_some());
        let (state, end, exit_code) = outcome(object, phase, node.is_some(), row);
        let owned = |text: Option<&str>| text.map(Into::into);
        let label = |key| tag(object, "labels", key);
        let annotation = |key| tag(object, "annotations", key);
        let groups = ["pod-group-name", "scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name"];
        Self {
            node: owned(node),
            selected: owned(product(spec.get("nodeSelector"))),
            workload: owned(annotation("kueue.x-k8s.io/workload")),
            jobs: JOB_LABELS.iter().filter_map(|key| label(key)).map(Into::into).collect(),
            group: owned(groups.into_iter().find_map(|key| annotation(key).or_else(|| label(key)))),
            local_queue: owned(label("kueue.x-k8s.io/queue-name")),
            queue: owned(label("kai.scheduler/queue").or_else(|| label("runai/queue"))),
            priority: owned(text(spec.get("priorityClassName"))),
            phase: phase.into(),
            state,
            start,
            end,
            exit_code,
            waits: scheduled.filter(|of| state == JobState::Pending && !of.holds).and_then(|of| of.said()),
            topology: topology::annotated(object, row),
            amounts,
            fraction: shared.is_some(),
            meta,
        }
    }

    /// Whether the pod only keeps a GPU for pods that share it.
    pub(super) fn is_reservation(&self) -> bool {
        RESERVATIONS.contains(&&*self.meta.namespace)
    }

    pub(super) fn gpus(&self) -> Option<f64> {
        self.amounts.gpus()
    }
}

/// Resources that a pod of this specification requests.
pub(super) fn asked(spec: &Value, row: &mut RowAudit<'_>) -> Amounts {
    let mut of = |container: &Value| {
        let resources = container.get("resources");
        let mut part = |key: &str| Amounts::read(resources.and_then(|resources| resources.get(key)), row);
        let requests = part("requests");
        let mut amounts = requests.or(part("limits"));
        if let Some(resources) = resources.filter(|resources| is_shared(resources)) {
            let of = |name: &str| {
                let of = |list: &str| resources.get(list).and_then(|of| of.get(name)).and_then(quantity);
                of("requests").or_else(|| of("limits"))
            };
            amounts.share(of);
        }
        amounts
    };
    let list = |key: &str| spec.get(key).and_then(Value::as_array).into_iter().flatten();
    let mut total = Amounts::default();
    for container in list("containers") {
        total.add(&of(container));
    }
    // While an init container runs, the sidecars before it run too.
    let (mut sidecars, mut most) = (Amounts::default(), Amounts::default());
    for container in list("initContainers") {
        let mut needs = of(container);
        if text(container.get("restartPolicy")) == Some("Always") {
            sidecars.add(&needs);
            most.raise(&sidecars);
        } else {
            needs.add(&sidecars);
            most.raise(&needs);
        }
    }
    total.add(&sidecars);
    total.raise(&most);
    let whole = of(spec);
    total.replace(whole);
    total.add(&Amounts::read(spec.get("overhead"), row));
    let claims = spec.get("resourceClaims").and_then(Value::as_array).is_some_and(|claims| !claims.is_empty());
    if claims && !total.has_gpus() {
        // What a claim is for stands in another object.
        total.set_gpus(None);
    }
    total
}

/// GPUs asked for by annotation (unknown inside, where only their memory is); `None` where no annotation asks.
fn shared(object: &Value, row: &mut RowAudit<'_>) -> Option<Option<f64>> {
    let mut number = |key: &str| {
        let value = object.get("metadata")?.get("annotations")?.get(key)?;
        let known = quantity(value).filter(|number| *number > 0.0);
        if known.is_none() {
            row.repair(reason::NOT_A_NUMBER, key, &value.to_string());
        }
        Some(known)
    };
    let devices = number("gpu-fraction-num-devices").unwrap_or(Some(1.0));
    match number("gpu-fraction") {
        Some(fraction) => Some(fraction.zip(devices).map(|(fraction, devices)| fraction * devices)),
        None => number("gpu-memory").map(|_| None),
    }
}

/// State, end and exit code of a pod.
fn outcome(object: &Value, phase: &str, bound: bool, row: &mut RowAudit<'_>) -> (JobState, Option<i64>, Option<i64>) {
    match phase {
        "Succeeded" | "Failed" => {}
        "Running" => return (JobState::Running, None, None),
        // Bound and not yet running: images are pulled while the GPUs are held.
        "Pending" => return (if bound { JobState::Running } else { JobState::Pending }, None, None),
        "Unknown" => return (JobState::Unknown, None, None),
        other => {
            row.repair(reason::UNKNOWN_STATE, "phase", other);
            return (JobState::Unknown, None, None);
        }
    }
    let (mut end, mut exit_code, mut oom) = (None, None, false);
    for list in ["containerStatuses", "initContainerStatuses"] {
        let statuses = object.get("status").and_then(|status| status.get(list)).and_then(Value::as_array);
        for status in statuses.into_iter().flatten() {
            let Some(over) = status.pointer("/state/terminated") else { continue };
            end = end.max(moment(over.get("finishedAt"), "finishedAt", row));
            exit_code = exit_code.max(over.get("exitCode").and_then(Value::as_i64));
            oom |= text(over.get("reason")) == Some("OOMKilled");
        }
    }
    let disrupted = condition(object, "DisruptionTarget", row).filter(|condition| condition.holds);
    let end = end.or(disrupted.and_then(|condition| condition.at));
    if phase == "Succeeded" {
        return (JobState::Completed, end, exit_code);
    }
    let why = text(object.pointer("/status/reason")).or(disrupted.map(|condition| condition.reason));
    let state = match why.unwrap_or_default() {
        "DeadlineExceeded" => JobState::Timeout,
        "Evicted" | "Preempting" | "PreemptionByScheduler" | "EvictionByEvictionAPI" => JobState::Preempted,
        "NodeLost"
        | "NodeShutdown"
        | "Shutdown"
        | "Terminated"
        | "DeletionByTaintManager"
        | "DeletionByPodGC"
        | "TerminationByKubelet" => JobState::NodeFail,
        _ if oom => JobState::OutOfMemory,
        _ => JobState::Failed,
    };
    (state, end, exit_code)
}

/// Reads a pod, or says that it asks for no GPU.
pub(super) fn with_gpus(object: &Value, meta: Meta, row: &mut RowAudit<'_>) -> Option<Pod> {
    let pod = Pod::read(object, meta, row);
    pod.amounts.has_gpus().then_some(pod)
}

impl Stored for Pod {
    fn meta(&self) -> &Meta {
        &self.meta
    }
    fn stage(&self) -> u8 {
        match &*self.phase {
            "Succeeded" | "Failed" => 3,
            _ if self.node.is_some() => 2,
            _ => 1,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::super::object::Kind;
    use super::*;

    fn read(object: &Value) -> Option<Pod> {
        let mut row = RowAudit::new("f", 1);
        let meta = Meta::read(object, Kind::Pod, &mut row)?;
        with_gpus(object, meta, &mut row)
    }

    fn needs(gpus: u32) -> Value {
        json!({"resources": {"limits": {"nvidia.com/gpu": gpus}}})
    }

    // Containers 1 + 2 and the sidecar 1 are 4; the init container with 8 runs beside the sidecar, which are 9; the one before the
    // sidecar runs alone.
    #[test]
    fn init_containers_count_by_their_most_and_sidecars_are_added() {
        let mut row = RowAudit::new("f", 1);
        let mut sidecar = needs(1);
        sidecar["restartPolicy"] = json!("Always");
        let asks = |init: Value| {
            asked(&json!({"containers": [needs(1), needs(2)], "initContainers": init}), &mut RowAudit::new("f", 1))
                .gpus()
        };
        assert_eq!(asks(json!([sidecar, needs(8)])), Some(9.0));
        assert_eq!(asks(json!([needs(8), sidecar])), Some(8.0));
        assert_eq!(asks(json!([sidecar])), Some(4.0));
        let spec = json!({
            "containers": [{"resources": {"requests": {"cpu": "500m"}, "limits": {"cpu": 4, "memory": "1Gi"}}}],
            "overhead": {"cpu": "250m"}
        });
        let amounts = asked(&spec, &mut row);
        assert_eq!((amounts.cpus(), amounts.mem_bytes(), amounts.gpus()), (Some(0.75), Some(1 << 30), Some(0.0)));
        let claims = json!([{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]);
        let claimed = |containers: Value| asked(&json!({"containers": containers, "resourceClaims": claims}), &mut row);
        let [alone, beside] = [json!([{}]), json!([needs(8)])].map(claimed).map(|amounts| amounts.gpus());
        assert_eq!((alone, beside), (None, Some(8.0)));
    }

    #[test]
    fn a_share_by_annotation_is_a_part_of_a_gpu_and_memory_alone_is_unknown() {
        let pod = |annotations: Value| json!({"metadata": {"name": "a", "annotations": annotations}, "spec": {"containers": [{}]}});
        let half = read(&pod(json!({"gpu-fraction": "0.5", "gpu-fraction-num-devices": "2"}))).unwrap();
        assert_eq!(half.gpus(), Some(1.0));
        assert_eq!(read(&pod(json!({"gpu-memory": "2000"}))).unwrap().gpus(), None);
        assert_eq!(read(&pod(json!({}))), None);
    }

    #[test]
    fn how_a_pod_ended() {
        let pod = |phase: &str, status: Value| {
            let mut object = json!({"metadata": {"name": "a"}, "spec": {"nodeName": "n", "containers": [needs(1)]}, "status": status});
            object["status"]["phase"] = json!(phase);
            let pod = read(&object).unwrap();
            (pod.state, pod.end.is_some(), pod.exit_code)
        };
        let over = |reason: &str, code: i64| json!({"containerStatuses": [{"state": {"terminated": {"finishedAt": "2024-03-04T10:00:00Z", "reason": reason, "exitCode": code}}}]});
        assert_eq!(pod("Succeeded", over("Completed", 0)), (JobState::Completed, true, Some(0)));
        assert_eq!(pod("Failed", over("OOMKilled", 137)), (JobState::OutOfMemory, true, Some(137)));
        assert_eq!(pod("Failed", over("Error", 1)), (JobState::Failed, true, Some(1)));
        assert_eq!(pod("Failed", json!({"reason": "DeadlineExceeded"})), (JobState::Timeout, false, None));
        let taken = json!({"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "lastTransitionTime": "2024-03-04T10:00:00Z"}]});
        assert_eq!(pod("Failed", taken), (JobState::Preempted, true, None));
        assert_eq!(pod("Pending", json!({})), (JobState::Running, false, None));
    }

    #[test]
    fn why_a_pod_waits() {
        let waits = |node: Value, message: &str| {
            let condition =
                json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message});
            let spec = json!({"nodeName": node, "containers": [needs(1)]});
            let status = json!({"phase": "Pending", "conditions": [condition]});
            read(&json!({"metadata": {"name": "a"}, "spec": spec, "status": status})).unwrap().waits
        };
        let message = "0/4 nodes are available: 4 Insufficient nvidia.com/gpu.";
        assert_eq!(waits(json!(null), message).as_deref(), Some(message));
        assert_eq!(waits(json!(null), " ").as_deref(), Some("Unschedulable"));
        assert_eq!(waits(json!("n"), message), None);
    }
}
