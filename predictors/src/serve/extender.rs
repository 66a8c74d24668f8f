//! The Kubernetes scheduler extender, API v1 (`k8s.io/kube-scheduler/extender/v1`): which nodes stay up long enough for a pod, and which
//! of them leave most time to spare. Not responsible for whether a node has room: that is the scheduler's own part.
//!
//! A node says when it goes away with the label or annotation `tracecast.io/available-until`, seconds since the Unix epoch (a spot
//! instance, a maintenance window, a reservation). A pod predicted to run up to p95 s fits if now + p95 ≤ available-until. Everything unknown
//! fails open: no such label, one that is no number, names without nodes (`nodeCacheCapable: true`).
//!
//! Score: with slack = available-until − now − p95, round(10 × slack / greatest slack), no less than 0; where some nodes have no end,
//! those get 10 and the others round(9 × …). All 0 where no node has an end.
//!
//! The pod tells of itself by annotation or label (the annotation counts, as a label cannot hold every name): `tracecast.io/name` (else
//! its own name), `tracecast.io/user`, `tracecast.io/vc`. GPUs are the limits on `nvidia.com/gpu`, CPUs those on `cpu` (else the
//! requests), summed over containers, or the most that one init container has if that is more; the time limit is
//! `activeDeadlineSeconds`.
//!
//! Go writes the keys of `ExtenderArgs` as `Pod`, `Nodes`, `NodeNames` and reads any case; older and other clients write `pod`, `nodes`,
//! `nodenames`. Both are read; answers are written as Go writes them. Cost: O(bytes).
//!
//! Worked example: p95 = 3,600 s, nodes with 1,800 s, 5,400 s and 7,200 s left: the first fails; slacks are 1,800 s and 3,600 s, scores 5
//! and 10.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::job::Submission;

const UNTIL: &str = "tracecast.io/available-until";
const GPU: &str = "nvidia.com/gpu";
/// `extender/v1.MaxExtenderPriority`.
const MOST: f64 = 10.0;

type Words = Option<BTreeMap<String, String>>;

/// Request of kube-scheduler.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Args {
    #[serde(alias = "Pod")]
    pod: Option<Pod>,
    #[serde(alias = "Nodes")]
    nodes: Option<NodeList>,
    #[serde(rename = "nodenames", alias = "NodeNames", alias = "nodeNames")]
    node_names: Option<Vec<String>>,
}

#[derive(Debug, Default, Deserialize)]
struct Pod {
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    spec: PodSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    uid: Option<String>,
    name: Option<String>,
    namespace: Option<String>,
    creation_timestamp: Option<String>,
    labels: Words,
    annotations: Words,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodSpec {
    containers: Option<Vec<Container>>,
    init_containers: Option<Vec<Container>>,
    active_deadline_seconds: Option<f64>,
}

#[derive(Debug, Default, Deserialize)]
struct Container {
    #[serde(default)]
    resources: Resources,
}

#[derive(Debug, Default, Deserialize)]
struct Resources {
    limits: Option<BTreeMap<String, Value>>,
    requests: Option<BTreeMap<String, Value>>,
}

#[derive(Debug, Default, Deserialize)]
struct NodeList {
    /// Whole, as they go back to the scheduler.
    #[serde(alias = "Items")]
    items: Option<Vec<Value>>,
}

/// The answer to `filter`.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Filtered {
    nodes: Option<Items>,
    node_names: Option<Vec<String>>,
    failed_nodes: BTreeMap<String, String>,
    error: &'static str,
}

#[derive(Debug, PartialEq, Serialize)]
struct Items {
    metadata: BTreeMap<String, String>,
    items: Vec<Value>,
}

/// The score of one node.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Score {
    host: String,
    score: i64,
}

/// Value of `key` of a pod or node: its annotation, else its label.
fn word<'a>(annotations: &'a Words, labels: &'a Words, key: &str) -> Option<&'a String> {
    let find = |words: &'a Words| words.as_ref().and_then(|words| words.get(key));
    find(annotations).or_else(|| find(labels))
}

/// A Kubernetes quantity of a countable thing: `8`, `"8"`, `"500m"` (thousandths), `"2k"`.
fn quantity(value: &Value) -> Option<f64> {
    let text = match value {
        Value::Number(number) => return number.as_f64(),
        Value::String(text) => text.trim(),
        _ => return None,
    };
    let (digits, factor) = match text.as_bytes().last()? {
        b'm' => (text.get(..text.len() - 1)?, 1e-3),
        b'k' => (text.get(..text.len() - 1)?, 1e3),
        _ => (text, 1.0),
    };
    digits.parse::<f64>().ok().map(|number| number * factor).filter(|number| number.is_finite() && *number >= 0.0)
}

impl Container {
    fn asks(&self, resource: &str) -> Option<f64> {
        let find = |given: &Option<BTreeMap<String, Value>>| {
            given.as_ref().and_then(|given| given.get(resource)).and_then(quantity)
        };
        find(&self.resources.limits).or_else(|| find(&self.resources.requests))
    }
}

impl PodSpec {
    /// Requests of all containers together, or of one init container if that is more; None if none
    /// states any.
    fn asks(&self, resource: &str) -> Option<f64> {
        let request = |containers: &Option<Vec<Container>>| -> Vec<f64> {
            containers.iter().flatten().filter_map(|container| container.asks(resource)).collect()
        };
        let (main, init) = (request(&self.containers), request(&self.init_containers));
        let together = (!main.is_empty()).then(|| main.iter().sum());
        init.into_iter().chain(together).reduce(f64::max)
    }
}

impl Args {
    /// The job that the pod is; None without a pod. A pod that does not say when it was made was submitted at `now_ms`.
    pub(super) fn submission(&self, now_ms: i64) -> Option<Submission> {
        let Pod { metadata, spec } = self.pod.as_ref()?;
        let told = |key| word(&metadata.annotations, &metadata.labels, key).cloned();
        let made = metadata.creation_timestamp.as_deref().and_then(|text| text.parse::<jiff::Timestamp>().ok());
        let path = || {
            format!(
                "{}/{}",
                metadata.namespace.as_deref().unwrap_or("default"),
                metadata.name.as_deref().unwrap_or_default()
            )
        };
        Some(Submission {
            job_id: metadata.uid.clone().unwrap_or_else(path),
            submit_ms: made.map_or(now_ms, jiff::Timestamp::as_millisecond),
            user: told("tracecast.io/user"),
            vc: told("tracecast.io/vc"),
            name: told("tracecast.io/name").or_else(|| metadata.name.clone()),
            gpus: spec.asks(GPU).unwrap_or(0.0),
            cpus: spec.asks("cpu"),
            limit_s: spec.active_deadline_seconds,
        })
    }

    /// Whether any node states when it goes away: if none does, no prediction is needed.
    pub(super) fn any_end(&self) -> bool {
        self.nodes.iter().flat_map(|list| list.items.iter().flatten()).any(|node| until_s(node).is_some())
    }

    /// The nodes that stay up until `ends_s`, seconds since the epoch; all of them if that is unknown.
    pub(super) fn filter(self, ends_s: Option<f64>) -> Filtered {
        let mut failed_nodes = BTreeMap::new();
        let nodes = self.nodes.map(|list| {
            let mut items = list.items.unwrap_or_default();
            items.retain(|node| {
                let (Some(ends_s), Some(until_s)) = (ends_s, until_s(node)) else { return true };
                // A prediction that is no number compares false with everything, and the node passes.
                let too_long = ends_s > until_s;
                if too_long {
                    let over_s = ends_s - until_s;
                    let reason =
                        format!("the pod may run (p95) until {ends_s:.0}, {over_s:.0} s after {UNTIL} {until_s:.0}");
                    failed_nodes.insert(node_name(node).to_owned(), reason);
                }
                !too_long
            });
            Items { metadata: BTreeMap::new(), items }
        });
        let node_names = self.node_names.map(|mut names| {
            names.retain(|name| !failed_nodes.contains_key(name));
            names
        });
        Filtered { nodes, node_names, failed_nodes, error: "" }
    }

    /// A score from 0 to 10 for every node.
    pub(super) fn prioritize(&self, ends_s: Option<f64>) -> Vec<Score> {
        let nodes = self.nodes.iter().flat_map(|list| list.items.iter().flatten());
        let slacks: Vec<(&str, Option<f64>)> =
            nodes.map(|node| (node_name(node), ends_s.and_then(|ends_s| Some(until_s(node)? - ends_s)))).collect();
        if slacks.is_empty() {
            let names = self.node_names.iter().flatten();
            return names.map(|name| Score { host: name.clone(), score: 0 }).collect();
        }
        let most_s = slacks.iter().filter_map(|(_, slack_s)| *slack_s).fold(0.0, f64::max);
        let none_ends = slacks.iter().all(|(_, slack_s)| slack_s.is_none());
        let scale = if slacks.iter().any(|(_, slack_s)| slack_s.is_none()) { MOST - 1.0 } else { MOST };
        let score = |slack_s: Option<f64>| match slack_s {
            _ if none_ends => 0,
            None => MOST as i64,
            Some(slack_s) if slack_s > 0.0 => (scale * slack_s / most_s).round() as i64,
            Some(_) => 0,
        };
        slacks.iter().map(|(host, slack_s)| Score { host: (*host).to_owned(), score: score(*slack_s) }).collect()
    }
}

fn node_name(node: &Value) -> &str {
    node.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
}

/// Time at which a node goes away, seconds since the epoch; the earlier if label and annotation
/// differ.
fn until_s(node: &Value) -> Option<f64> {
    let metadata = node.get("metadata")?;
    let told = |kind| {
        metadata.get(kind)?.get(UNTIL)?.as_str()?.trim().parse::<f64>().ok().filter(|until_s| until_s.is_finite())
    };
    [told("labels"), told("annotations")].into_iter().flatten().reduce(f64::min)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(name: &str, until: Option<&str>) -> Value {
        let labels = until.map_or(json!({}), |until| json!({ UNTIL: until }));
        json!({"metadata": {"name": name, "labels": labels}, "status": {"phase": "x"}})
    }

    fn args(nodes: &[Value]) -> Args {
        serde_json::from_value(
            json!({"Pod": {"metadata": {}}, "Nodes": {"metadata": {}, "items": nodes}, "NodeNames": null}),
        )
        .unwrap()
    }

    fn scores(nodes: &[Value], ends_s: f64) -> Vec<i64> {
        args(nodes).prioritize(Some(ends_s)).into_iter().map(|score| score.score).collect()
    }

    #[test]
    fn a_pod_is_a_submission_in_either_key_case() {
        let pod = json!({
            "metadata": {
                "name": "train-1", "namespace": "lab", "uid": "u-1", "creationTimestamp": "1970-01-01T00:00:02Z",
                "labels": {"tracecast.io/user": "a_b", "tracecast.io/vc": "vc1", "other": "x"},
                "annotations": {"tracecast.io/user": "a@b", "tracecast.io/name": "train big"}
            },
            "spec": {
                "activeDeadlineSeconds": 600,
                "containers": [
                    {"resources": {"limits": {"nvidia.com/gpu": "2", "cpu": "1500m"}}},
                    {"resources": {"limits": {"nvidia.com/gpu": 1}, "requests": {"cpu": "2"}}},
                    {}
                ],
                "initContainers": [{"resources": {"limits": {"nvidia.com/gpu": "1", "cpu": "8"}}}]
            }
        });
        // GPUs 2 + 1 = 3 > 1; CPUs 1.5 + 2 = 3.5 < 8 of the init container.
        let wanted = Submission {
            job_id: "u-1".into(),
            submit_ms: 2000,
            user: Some("a@b".into()),
            vc: Some("vc1".into()),
            name: Some("train big".into()),
            gpus: 3.0,
            cpus: Some(8.0),
            limit_s: Some(600.0),
        };
        for keys in [["Pod", "Nodes", "NodeNames"], ["pod", "nodes", "nodenames"], ["pod", "nodes", "nodeNames"]] {
            let args: Args = serde_json::from_value(json!({keys[0]: pod, keys[1]: null, keys[2]: ["n1"]})).unwrap();
            assert_eq!(args.submission(9).unwrap(), wanted);
            assert_eq!(args.node_names.unwrap(), ["n1"]);
        }
        let bare: Args =
            serde_json::from_value(json!({"Pod": {"metadata": {"name": "p", "creationTimestamp": null}}})).unwrap();
        let wanted =
            Submission { job_id: "default/p".into(), submit_ms: 9, name: Some("p".into()), ..Submission::default() };
        assert_eq!(bare.submission(9).unwrap(), wanted);
        assert!(Args::default().submission(9).is_none());
    }

    #[test]
    fn quantities() {
        for (value, number) in [(json!("4"), 4.0), (json!(4), 4.0), (json!("250m"), 0.25), (json!("1k"), 1000.0)] {
            assert_eq!(quantity(&value), Some(number), "{value}");
        }
        for value in [json!("many"), json!(null), json!("-1"), json!("m"), json!("")] {
            assert_eq!(quantity(&value), None, "{value}");
        }
    }

    #[test]
    fn filter_refuses_only_what_ends_too_early() {
        let nodes = [
            node("gone", Some("99")),
            node("just", Some("100")),
            node("long", Some("200")),
            node("ever", None),
            node("odd", Some("soon")),
        ];
        assert!(args(&nodes).any_end() && !args(nodes.get(3..).unwrap()).any_end());
        let filtered = args(&nodes).filter(Some(100.0));
        // 100 > 99 fails; 100 > 100 does not; the last two say nothing that can be read.
        assert_eq!(filtered.nodes.unwrap().items, nodes.get(1..).unwrap());
        let reason = "the pod may run (p95) until 100, 1 s after tracecast.io/available-until 99";
        assert_eq!(filtered.failed_nodes, BTreeMap::from([("gone".to_owned(), reason.to_owned())]));
        assert_eq!(filtered.node_names, None);
        for unknown in [None, Some(f64::NAN)] {
            let open = args(&nodes).filter(unknown);
            assert_eq!((open.nodes.unwrap().items.len(), open.failed_nodes.len()), (5, 0));
        }
    }

    #[test]
    fn answers_are_written_as_go_writes_them() {
        let named: Args = serde_json::from_value(json!({"Pod": {}, "NodeNames": ["a", "b"]})).unwrap();
        assert_eq!(
            serde_json::to_value(named.prioritize(Some(1.0))).unwrap(),
            json!([{"Host": "a", "Score": 0}, {"Host": "b", "Score": 0}])
        );
        assert_eq!(
            serde_json::to_value(named.filter(Some(1.0))).unwrap(),
            json!({"Nodes": null, "NodeNames": ["a", "b"], "FailedNodes": {}, "Error": ""})
        );
    }

    #[test]
    fn most_slack_scores_highest() {
        // The example of the module: now 0, p95 3,600 s, slacks −1,800, 1,800 and 3,600 s.
        let ends = [node("a", Some("1800")), node("b", Some("5400")), node("c", Some("7200"))];
        assert_eq!(scores(&ends, 3600.0), [0, 5, 10]);
        // With a node that never ends: 10 for it, 9 × 1,800 / 3,600 = 4.5 → 5 and 9 for the others.
        let mixed = [node("a", Some("1800")), node("b", Some("5400")), node("c", Some("7200")), node("d", None)];
        assert_eq!(scores(&mixed, 3600.0), [0, 5, 9, 10]);
        assert_eq!(scores(&[node("a", None), node("b", None)], 3600.0), [0, 0]);
        assert_eq!(scores(&ends, 1e9), [0, 0, 0]);
        // Nothing known of the pod: no node is better than another.
        let unknown: Vec<i64> = args(&ends).prioritize(None).into_iter().map(|score| score.score).collect();
        assert_eq!(unknown, [0, 0, 0]);
    }

    #[test]
    fn the_earlier_of_label_and_annotation_counts() {
        let node = json!({"metadata": {"name": "a", "labels": {UNTIL: "300"}, "annotations": {UNTIL: " 200 "}}});
        assert_eq!(until_s(&node), Some(200.0));
    }
}
