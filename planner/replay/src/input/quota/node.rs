//! Where the nodes of a Kubernetes cluster lie, as the labels of its Node objects say, at the levels of a `Topology`.
//!
//! A replay knows how many nodes of a kind there are, not their names. So of the nodes of each kind (the number of GPUs, and the type where labels say it) the first lies where the first Node object of that kind lies, and so on, the Node objects being in
//! the order of their labels. A level is called as its label ends: `cloud.provider.com/topology-rack` is `rack`. The label of the node itself makes no level.
//!
//! O(groups × nodes). Worked example: Nodes n1 and n3 have the label rack=r1, n2 has rack=r2, all with 8 GPUs: of three nodes of 8 GPUs the first two lie in r1.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tracecast_analytics::ingest::quantity::{is_gpu, is_slice, quantity};
use tracecast_analytics::schema::Resource;

use super::super::near::{self, HOSTNAME};
use super::{QuotaFile, counts, is_of_type};
use crate::error::{Error, Result};
use tracecast_sim::cluster::Cluster;
use tracecast_sim::topology::Topology;

/// How labels of levels often begin.
const PREFIX: &str = "topology-";

/// A Node object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LabelledNode {
    labels: BTreeMap<String, String>,
    gpus: u32,
}

impl LabelledNode {
    /// Reads a Node object; `None` if it has no GPUs.
    pub(super) fn new(object: &Value) -> Option<Self> {
        let amounts =
            ["/status/allocatable", "/status/capacity"].into_iter().find_map(|at| object.pointer(at)?.as_object());
        let gpus = amounts?.iter().filter(|(name, _)| is_gpu(name) && !is_slice(name));
        let gpus: f64 = gpus.filter_map(|(_, amount)| quantity(amount)).sum();
        let labels = object.pointer("/metadata/labels").and_then(Value::as_object).into_iter().flatten();
        let labels = labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
        (1.0..=1e3).contains(&gpus).then(|| Self { labels: labels.collect(), gpus: gpus as u32 })
    }

    fn is_of(&self, gpu_type: &str) -> bool {
        is_of_type("", self.labels.values().map(String::as_str), gpu_type)
    }

    /// The domain of each level; `None` if it lacks a label.
    fn path(&self, labels: &[&String]) -> Option<Vec<&str>> {
        labels.iter().map(|label| self.labels.get(*label).map(String::as_str)).collect()
    }
}

/// Name of the level with this label.
fn name(label: &str) -> &str {
    let plain = label.rsplit_once('/').map_or(label, |(_, plain)| plain);
    plain.strip_prefix(PREFIX).filter(|rest| !rest.is_empty()).unwrap_or(plain)
}

/// Where the nodes of `cluster` lie by the labels of `nodes`; `None` if no node has the labels.
///
/// # Errors
/// If the levels make no topology.
pub(super) fn lie(cluster: &Cluster, nodes: &[LabelledNode], labels: &[String]) -> Result<Option<Topology>> {
    let labels: Vec<&String> = labels.iter().filter(|label| *label != HOSTNAME).collect();
    if labels.is_empty() || !nodes.iter().any(|node| node.path(&labels).is_some()) {
        return Ok(None);
    }
    let mut left: Vec<&LabelledNode> = nodes.iter().collect();
    // Those without the labels come last.
    left.sort_by_key(|node| (node.path(&labels).is_none(), node.path(&labels)));
    let mut paths = Vec::new();
    for group in cluster.pools.iter().flat_map(|pool| &pool.groups) {
        let gpu_type = group.gpu_type.and_then(|at| cluster.gpu_types.get(usize::from(at)));
        let is_typed = |node: &LabelledNode| gpu_type.is_none_or(|known| node.is_of(known));
        // Of a type that no label says, any will do that is of no other one.
        let is_of_none = |node: &LabelledNode| !cluster.gpu_types.iter().any(|known| node.is_of(known));
        let of_size = left.iter().enumerate().filter(|(_, node)| node.gpus == group.gpus_per_node);
        let (typed, others): (Vec<_>, Vec<_>) = of_size.partition(|(_, node)| is_typed(node));
        let none = others.into_iter().filter(|(_, node)| is_of_none(node));
        let nodes = group.most_nodes() as usize;
        let taken: Vec<(usize, &LabelledNode)> =
            typed.into_iter().chain(none).take(nodes).map(|(at, node)| (at, *node)).collect();
        paths.extend((0..nodes).map(|at| taken.get(at).and_then(|(_, node)| node.path(&labels))));
        let gone: BTreeSet<usize> = taken.iter().map(|(at, _)| *at).collect();
        let stay = left.iter().enumerate().filter(|(at, _)| !gone.contains(at)).map(|(_, node)| *node);
        left = stay.collect();
    }
    Ok(Some(Topology::of_names(labels.iter().map(|label| name(label).to_owned()).collect(), &paths)?))
}

impl QuotaFile {
    /// Whether all flavors of a queue name a Topology: its jobs are then scheduled topology-aware, whether they ask for it or not.
    pub(in crate::input) fn is_near(&self, queue: &str, resource: Resource) -> bool {
        let quotas = self.queues.iter().find(|known| known.name == queue).map_or(&[][..], |queue| &queue.quotas);
        let mut flavors = quotas.iter().filter(|written| counts(&written.resource, resource)).peekable();
        flavors.peek().is_some() && flavors.all(|written| self.topology_of.contains_key(&written.flavor))
    }

    /// Where the nodes lie by the labels of the file's Node objects, unless the cluster says it; what is to say of the topologies that the flavors of queues name is added to `notes`.
    pub(super) fn locate(&self, cluster: &mut Cluster, resource: Resource, notes: &mut Vec<String>) -> Result<()> {
        let written = self.queues.iter().flat_map(|queue| &queue.quotas);
        let flavors = written.filter(|written| counts(&written.resource, resource)).map(|written| &written.flavor);
        let names: BTreeSet<&String> = flavors.filter_map(|flavor| self.topology_of.get(flavor)).collect();
        let of = |name: &&String| Some(((*name).clone(), self.topologies.get(*name)?.clone()));
        let known: BTreeMap<String, Vec<String>> = names.iter().filter_map(of).collect();
        let missing = names.into_iter().filter(|name| !self.topologies.contains_key(*name)).cloned().collect();
        if let (None, Resource::Gpus, Some((name, labels))) = (&cluster.topology, resource, known.first_key_value()) {
            cluster.topology = lie(cluster, &self.nodes, labels).map_err(|error| Error::File {
                file: self.file.clone(),
                line: 1,
                what: format!("Topology {name}: {error}"),
            })?;
            if cluster.topology.is_some() {
                notes.push(format!(
                    "Where nodes lie is what the labels of the Node objects in {} say, for the levels of the Topology {name}.",
                    self.file
                ));
            }
        }
        notes.extend(near::notes(&known, &missing, cluster.topology.as_ref()));
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;
    use tracecast_sim::cluster::{Group, Pool};

    fn node(rack: Option<&str>, gpus: u32, product: &str) -> LabelledNode {
        let mut labels = json!({"nvidia.com/gpu.product": product});
        if let Some(rack) = rack {
            labels["example.com/topology-rack"] = rack.into();
        }
        let object = json!({"metadata": {"labels": labels}, "status": {"allocatable": {"nvidia.com/gpu": gpus.to_string(), "cpu": "96"}}});
        LabelledNode::new(&object).unwrap()
    }

    fn levels() -> Vec<String> {
        vec!["example.com/topology-rack".to_owned(), HOSTNAME.to_owned()]
    }

    #[test]
    fn nodes_lie_where_those_of_their_kind_lie() {
        let nodes = [
            node(Some("r2"), 8, "A100"),
            node(Some("r1"), 8, "A100"),
            node(None, 8, "A100"),
            node(Some("r1"), 4, "V100"),
            node(Some("r2"), 8, "V100"),
        ];
        let mut cluster = Cluster { gpu_types: vec!["A100".to_owned(), "V100".to_owned()], ..Cluster::default() };
        let group = |nodes, gpus, of| Group { gpu_type: Some(of), ..Group::fixed(nodes, gpus) };
        cluster.pools.push(Pool { groups: vec![group(1, 4, 1), group(3, 8, 0), group(2, 8, 1)] });
        let result = lie(&cluster, &nodes, &levels()).unwrap().unwrap();
        assert_eq!(result.levels(), ["rack"]);
        let of: Vec<Option<u32>> = (0..6).map(|node| result.domain(node, 0)).collect();
        // r1 is 0, r2 is 1. The third A100 lacks the label, and of V100 with 8 GPUs there is only one Node.
        assert_eq!(of, [Some(0), Some(0), Some(1), None, Some(1), None]);
    }

    #[test]
    fn without_labels_nothing_is_said() {
        let cluster = Cluster::of_vcs(&[("a", 2, 8)]);
        assert_eq!(lie(&cluster, &[node(None, 8, "A100")], &levels()).unwrap(), None);
        assert_eq!(lie(&cluster, &[node(Some("r1"), 8, "A100")], &[HOSTNAME.to_owned()]).unwrap(), None);
        assert!(LabelledNode::new(&json!({"status": {"allocatable": {"cpu": "8"}}})).is_none());
        assert_eq!(
            [name("cloud.provider.com/topology-rack"), name("zone"), name("a/topology-")],
            ["rack", "zone", "topology-"]
        );
    }
}
