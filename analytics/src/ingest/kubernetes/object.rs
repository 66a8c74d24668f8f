//! Common parts of all objects of a Kubernetes dump: kind, metadata, conditions and times.
//!
//! Objects are told by `kind` and the group in `apiVersion`. The items of a raw answer of the API server (`kubectl get --raw`) name
//! neither; there the fields that only one kind has decide. Times are RFC 3339; Go's zero time (year 1) is unknown.
//!
//! Worked example: `{"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job"}` is no `batch/v1` Job, and `{"spec": {"podSets": […]}}`
//! without a kind is a Workload.

use serde_json::Value;

use crate::ingest::field;
use crate::quality::{RowAudit, reason};
use crate::time::parse_with_offset;

/// Kinds that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Kind {
    Workload,
    Pod,
    Job,
    Node,
    ClusterQueue,
    LocalQueue,
    Cohort,
    Flavor,
    /// A queue of the KAI scheduler.
    Queue,
    PodGroup,
    /// Labels that say where nodes lie, of Kueue or of the KAI scheduler.
    Topology,
    Event,
    /// An entry of the API server's audit log, which calls itself an `Event` too and is no object.
    Audit,
    /// Any other.
    Other,
}

impl Kind {
    /// The kind of an object and its own word for it; `None` if it has none and nothing tells it.
    pub(super) fn of(object: &Value) -> Option<(Self, &str)> {
        let Some(word) = text(object.get("kind")) else { return Self::by_fields(object).map(|kind| (kind, "")) };
        // Without a group the word decides alone.
        let group = text(object.get("apiVersion")).map(|api| api.split_once('/').map_or("", |(group, _)| group));
        let is = |groups: &[&str]| group.is_none_or(|group| groups.contains(&group));
        let kind = match word {
            _ if group == Some("audit.k8s.io") => Self::Audit,
            "Workload" if is(&["kueue.x-k8s.io"]) => Self::Workload,
            "ClusterQueue" if is(&["kueue.x-k8s.io"]) => Self::ClusterQueue,
            "LocalQueue" if is(&["kueue.x-k8s.io"]) => Self::LocalQueue,
            "Cohort" if is(&["kueue.x-k8s.io"]) => Self::Cohort,
            "ResourceFlavor" if is(&["kueue.x-k8s.io"]) => Self::Flavor,
            "Pod" if is(&[""]) => Self::Pod,
            "Node" if is(&[""]) => Self::Node,
            "Event" if is(&["", "events.k8s.io"]) => Self::Event,
            "Job" if is(&["batch"]) => Self::Job,
            "Queue" if is(&["scheduling.run.ai"]) => Self::Queue,
            "PodGroup" => Self::PodGroup,
            "Topology" if is(&["kueue.x-k8s.io", "kai.scheduler"]) => Self::Topology,
            _ => Self::Other,
        };
        Some((kind, word))
    }

    /// The kind that the fields of an object tell.
    fn by_fields(object: &Value) -> Option<Self> {
        let has = |path: &str| object.pointer(path).is_some();
        Some(match () {
            () if has("/spec/podSets") => Self::Workload,
            () if has("/spec/containers") => Self::Pod,
            () if has("/status/nodeInfo") => Self::Node,
            () if has("/spec/clusterQueue") => Self::LocalQueue,
            () if has("/spec/queueingStrategy") || has("/spec/namespaceSelector") => Self::ClusterQueue,
            () if has("/spec/nodeLabels") => Self::Flavor,
            () if has("/spec/levels/0/nodeLabel") => Self::Topology,
            () if has("/auditID") => Self::Audit,
            () if has("/involvedObject") || has("/regarding") => Self::Event,
            () if has("/spec/template") && has("/spec/backoffLimit") => Self::Job,
            () => return None,
        })
    }
}

/// Owner of an object.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Owner {
    pub(super) kind: Box<str>,
    pub(super) name: Box<str>,
    pub(super) uid: Box<str>,
}

/// Metadata of an object.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Meta {
    /// Empty where the object belongs to the whole cluster.
    pub(super) namespace: Box<str>,
    pub(super) name: Box<str>,
    pub(super) uid: Box<str>,
    /// The number of its version, which rises with every change.
    pub(super) version: Option<u64>,
    pub(super) created: Option<i64>,
    pub(super) owner: Option<Owner>,
}

impl Meta {
    /// Reads the metadata; `None` if the object has no name.
    pub(super) fn read(object: &Value, kind: Kind, row: &mut RowAudit<'_>) -> Option<Self> {
        let meta = object.get("metadata")?;
        let name: Box<str> = text(meta.get("name"))?.into();
        let namespace: Box<str> = text(meta.get("namespace")).unwrap_or_default().into();
        // Exports that were cleaned lack the identifier; then the name stands for it.
        let uid = text(meta.get("uid")).map_or_else(|| format!("{kind:?}/{namespace}/{name}").into(), Into::into);
        let owners = || meta.get("ownerReferences").and_then(Value::as_array).into_iter().flatten();
        let controls = |owner: &&Value| owner.get("controller").and_then(Value::as_bool) == Some(true);
        let owner = owners().find(controls).or_else(|| owners().next()).and_then(|owner| {
            let of = |key: &str| text(owner.get(key)).map(Into::into);
            Some(Owner { kind: of("kind")?, name: of("name")?, uid: of("uid").unwrap_or_default() })
        });
        Some(Self {
            namespace,
            name,
            uid,
            version: text(meta.get("resourceVersion")).and_then(|version| version.parse().ok()),
            created: moment(meta.get("creationTimestamp"), "creationTimestamp", row),
            owner,
        })
    }

    /// `namespace/name`.
    pub(super) fn path(&self) -> String {
        if self.namespace.is_empty() { self.name.to_string() } else { format!("{}/{}", self.namespace, self.name) }
    }
}

/// The known text of a value.
pub(super) fn text(value: Option<&Value>) -> Option<&str> {
    field::text(value.and_then(Value::as_str))
}

/// A text of an object's labels or annotations. Their keys hold `/`, which a JSON pointer could not.
pub(super) fn tag<'v>(object: &'v Value, of: &str, key: &str) -> Option<&'v str> {
    text(object.get("metadata")?.get(of)?.get(key))
}

/// A moment in milliseconds, `None` if unknown. What is no time is noted.
pub(super) fn moment(value: Option<&Value>, column: &str, row: &mut RowAudit<'_>) -> Option<i64> {
    let text = text(value).filter(|text| !text.starts_with("0001-01-01"))?;
    let ms = parse_with_offset(text);
    if ms.is_none() {
        row.repair(reason::NOT_A_TIME, column, text);
    }
    ms
}

/// A whole number that is not negative, bare or as a text. What is none is noted.
pub(super) fn count(value: Option<&Value>, column: &str, row: &mut RowAudit<'_>) -> Option<u64> {
    let value = value.filter(|value| !value.is_null())?;
    let number = value.as_u64().or_else(|| value.as_str()?.trim().parse().ok());
    if number.is_none() {
        row.repair(reason::NOT_A_NUMBER, column, &value.to_string());
    }
    number
}

/// A condition of an object's status.
#[derive(Debug, Clone, Copy)]
pub(super) struct Condition<'v> {
    /// Whether the condition holds; one in doubt (`Unknown`) does not.
    pub(super) holds: bool,
    /// Time of the last change.
    pub(super) at: Option<i64>,
    pub(super) reason: &'v str,
    pub(super) message: &'v str,
}

impl Condition<'_> {
    /// Message of the condition, else its reason.
    pub(super) fn said(&self) -> Option<Box<str>> {
        [self.message, self.reason].into_iter().map(str::trim).find(|words| !words.is_empty()).map(Into::into)
    }
}

/// The condition of a type, where the object has it.
pub(super) fn condition<'v>(object: &'v Value, name: &str, row: &mut RowAudit<'_>) -> Option<Condition<'v>> {
    let list = object.pointer("/status/conditions")?.as_array()?;
    let result = list.iter().find(|condition| text(condition.get("type")) == Some(name))?;
    Some(Condition {
        holds: text(result.get("status")) == Some("True"),
        at: moment(result.get("lastTransitionTime"), name, row),
        reason: text(result.get("reason")).unwrap_or_default(),
        message: text(result.get("message")).unwrap_or_default(),
    })
}

/// Names of fields that hold a moment at which something had happened, never one to come.
const PAST: [&str; 12] = [
    "creationTimestamp",
    "lastTransitionTime",
    "lastHeartbeatTime",
    "lastProbeTime",
    "startTime",
    "startedAt",
    "finishedAt",
    "completionTime",
    "firstTimestamp",
    "lastTimestamp",
    "eventTime",
    "lastScheduleTime",
];

/// The latest moment that an object names as past: the dump was taken no earlier.
pub(super) fn latest(object: &Value) -> Option<i64> {
    fn walk(value: &Value, depth: u32, latest: &mut Option<i64>) {
        match value {
            Value::Object(fields) => {
                for (key, value) in fields {
                    match value {
                        Value::String(text) if PAST.contains(&key.as_str()) => {
                            *latest = (*latest).max(parse_with_offset(text));
                        }
                        Value::Object(_) | Value::Array(_) if depth < 8 => walk(value, depth + 1, latest),
                        _ => {}
                    }
                }
            }
            Value::Array(list) if depth < 8 => list.iter().for_each(|value| walk(value, depth + 1, latest)),
            _ => {}
        }
    }
    let mut result = None;
    // What an object is made of says nothing of when it was read.
    let metadata = object.pointer("/metadata/creationTimestamp").and_then(Value::as_str);
    result = result.max(metadata.and_then(parse_with_offset));
    for key in ["firstTimestamp", "lastTimestamp", "eventTime"] {
        result = result.max(object.get(key).and_then(Value::as_str).and_then(parse_with_offset));
    }
    if let Some(status) = object.get("status") {
        walk(status, 0, &mut result);
    }
    result
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn kinds_are_told_by_word_group_and_fields() {
        let kind = |object: Value| Kind::of(&object).map(|(kind, _)| kind);
        assert_eq!(kind(json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload"})), Some(Kind::Workload));
        assert_eq!(kind(json!({"apiVersion": "batch/v1", "kind": "Job"})), Some(Kind::Job));
        assert_eq!(kind(json!({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job"})), Some(Kind::Other));
        assert_eq!(kind(json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue"})), Some(Kind::Other));
        assert_eq!(kind(json!({"apiVersion": "events.k8s.io/v1", "kind": "Event"})), Some(Kind::Event));
        assert_eq!(kind(json!({"apiVersion": "audit.k8s.io/v1", "kind": "Event"})), Some(Kind::Audit));
        assert_eq!(kind(json!({"level": "Metadata", "auditID": "1", "verb": "get"})), Some(Kind::Audit));
        assert_eq!(kind(json!({"kind": "Pod"})), Some(Kind::Pod));
        assert_eq!(kind(json!({"spec": {"containers": []}})), Some(Kind::Pod));
        assert_eq!(kind(json!({"spec": {}})), None);
    }

    #[test]
    fn the_latest_moment_is_no_plan() {
        let object = json!({
            "metadata": {"creationTimestamp": "2024-03-04T10:00:00Z", "deletionTimestamp": "2024-03-04T12:00:00Z"},
            "status": {
                "requeueState": {"requeueAt": "2024-03-04T13:00:00Z"},
                "conditions": [{"lastTransitionTime": "2024-03-04T10:30:00Z"}]
            }
        });
        assert_eq!(latest(&object), parse_with_offset("2024-03-04T10:30:00Z"));
        assert_eq!(latest(&json!({})), None);
    }

    #[test]
    fn the_controller_is_the_owner_and_the_name_stands_for_a_missing_uid() {
        let mut row = RowAudit::new("f", 1);
        let object = json!({"metadata": {
            "name": "a", "namespace": "n", "creationTimestamp": "soon",
            "ownerReferences": [{"kind": "X", "name": "x", "uid": "1"}, {"kind": "Job", "name": "j", "uid": "2", "controller": true}]
        }});
        let meta = Meta::read(&object, Kind::Pod, &mut row);
        let told = meta.map(|meta| (meta.path(), meta.uid, meta.owner.map(|owner| owner.name), meta.created));
        assert_eq!(told, Some(("n/a".to_owned(), "Pod/n/a".into(), Some("j".into()), None)));
        assert!(!row.is_clean());
    }
}
