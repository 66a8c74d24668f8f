//! Topology of nodes: which of their labels name zones, blocks and racks.
//!
//! In this order: the labels that the user names; the levels of the `Topology` object, of Kueue or of the KAI scheduler, that most nodes with GPUs have all labels of (of equals the first by name); well-known labels of clouds and of tools that find out how nodes are wired.
//! Of the well-known ones count those that at least half of the nodes with GPUs have, and that tell some of these apart, but not every one of them. The node itself is no level. A node that lacks a label lies nowhere. O(nodes × labels × log nodes).
//!
//! Worked example: a Topology with the levels `a/block`, `a/rack` and `kubernetes.io/hostname`, and a node with `a/block: b1` and `a/rack: r7`: it lies in `a/block=b1,a/rack=r7`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::node::Node;
use super::object::{Meta, text};
use super::store::{Store, Stored};
use crate::quality::{Reason, RowAudit};
use crate::report::format::counted;

/// The label of the node itself.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// Labels that say where nodes lie, those of wider levels first.
const KNOWN: [&str; 16] = [
    "topology.kubernetes.io/zone",
    "network.topology.nvidia.com/core",
    "network.topology.nvidia.com/spine",
    "network.topology.nvidia.com/leaf",
    "network.topology.nvidia.com/accelerator",
    "cloud.google.com/gce-topology-block",
    "cloud.google.com/gce-topology-subblock",
    "cloud.google.com/gce-topology-host",
    "topology.k8s.aws/network-node-layer-1",
    "topology.k8s.aws/network-node-layer-2",
    "topology.k8s.aws/network-node-layer-3",
    "oci.oraclecloud.com/rdma.hpc_island_id",
    "oci.oraclecloud.com/rdma.network_block_id",
    "oci.oraclecloud.com/rdma.local_block_id",
    "cloud.provider.com/topology-block",
    "cloud.provider.com/topology-rack",
];

/// A `Topology` without levels.
const NO_LEVELS: Reason = Reason {
    id: "topology_levels",
    what: "the Topology names no level, or a level names no node label; it is left out",
    remedy: "write spec.levels as a list of nodeLabel",
};

/// A `Topology` object.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Levels {
    pub(super) meta: Meta,
    /// Labels of its levels, the widest first, without the node.
    labels: Vec<Box<str>>,
}

impl Levels {
    pub(super) fn read(object: &Value, meta: Meta, row: &mut RowAudit<'_>) -> Self {
        let levels = object.pointer("/spec/levels").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let labels: Option<Vec<Box<str>>> =
            levels.iter().map(|level| Some(text(level.get("nodeLabel"))?.into())).collect();
        let mut labels = labels.unwrap_or_default();
        if labels.is_empty() {
            row.repair(NO_LEVELS, "levels", &meta.name);
        }
        let mut met = BTreeSet::new();
        labels.retain(|label| **label != *HOSTNAME && met.insert(label.clone()));
        Self { meta, labels }
    }
}

impl Stored for Levels {
    fn meta(&self) -> &Meta {
        &self.meta
    }
}

/// Origin of the choice of labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Basis<'o> {
    User,
    /// The Topology of this name, one of so many.
    Topology(&'o str, usize),
    WellKnown,
}

/// The labels that say where nodes lie.
#[derive(Debug)]
pub(super) struct Chosen<'o> {
    labels: Vec<&'o str>,
    basis: Basis<'o>,
}

impl<'o> Chosen<'o> {
    /// Chooses the labels for `nodes`: those named by the user, else of a Topology, else well-known
    /// ones.
    pub(super) fn new(nodes: &[&'o Node], topologies: &'o Store<Levels>, named: &'o [String]) -> Self {
        if !named.is_empty() {
            // Who names one twice means one level.
            let mut met = BTreeSet::new();
            let labels = named.iter().map(String::as_str).filter(|label| *label != HOSTNAME && met.insert(*label));
            let labels = labels.collect();
            return Self { labels, basis: Basis::User };
        }
        let with_gpus: Vec<&Node> = nodes.iter().copied().filter(|node| node.gpus() != Some(0.0)).collect();
        let placed = |labels: &[Box<str>]| {
            with_gpus.iter().filter(|node| labels.iter().all(|label| node.tagged(label).is_some())).count()
        };
        let mut known: Vec<&Levels> = topologies.iter().map(|kept| &kept.object).collect();
        known.retain(|levels| !levels.labels.is_empty());
        known.sort_by_key(|levels| (std::cmp::Reverse(placed(&levels.labels)), &*levels.meta.name));
        if let Some(first) = known.first().filter(|levels| placed(&levels.labels) > 0) {
            let labels = first.labels.iter().map(|label| &**label).collect();
            return Self { labels, basis: Basis::Topology(&first.meta.name, known.len()) };
        }
        let tells = |label: &&&str| {
            let values: Vec<&str> = with_gpus.iter().filter_map(|node| node.tagged(label)).collect();
            let domains = values.iter().collect::<BTreeSet<_>>().len();
            2 * values.len() >= with_gpus.len() && (2..values.len()).contains(&domains)
        };
        Self { labels: KNOWN.iter().filter(tells).copied().collect(), basis: Basis::WellKnown }
    }

    /// Place of a node; `None` if it lacks a label, or none counts.
    pub(super) fn place(&self, node: &Node) -> Option<String> {
        let of = |label: &&str| Some(format!("{label}={}", node.tagged(label)?));
        let path: Vec<String> = self.labels.iter().map(of).collect::<Option<_>>()?;
        (!path.is_empty()).then(|| path.join(","))
    }

    /// Note on the choice of labels, if anything is to be said.
    pub(super) fn note(&self, nodes: &[&Node]) -> Option<String> {
        let lost = nodes.iter().filter(|node| node.gpus() != Some(0.0) && self.place(node).is_none()).count();
        if self.labels.is_empty() || nodes.is_empty() {
            return None;
        }
        let basis = match self.basis {
            Basis::User => "as asked for".to_owned(),
            Basis::Topology(name, 1) => format!("the levels of the Topology {name}"),
            Basis::Topology(name, many) => {
                format!("the levels of the Topology {name}, which most nodes have of {many} Topologies")
            }
            Basis::WellKnown => "well-known ones".to_owned(),
        };
        let rest = match lost {
            0 => String::new(),
            _ => format!(
                " {} one, and where they lie is unknown.",
                counted(lost as u64, "node with GPUs lacks", "nodes with GPUs lack")
            ),
        };
        Some(format!("kubernetes: where nodes lie is by their labels {} ({basis}).{rest}", self.labels.join(", ")))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::super::object::Kind;
    use super::super::store::{Place, Taken};
    use super::*;

    fn node(name: &str, labels: &Value) -> Node {
        let object =
            json!({"metadata": {"name": name, "labels": labels}, "status": {"capacity": {"nvidia.com/gpu": "8"}}});
        let mut row = RowAudit::new("f", 1);
        let meta = Meta::read(&object, Kind::Node, &mut row).unwrap();
        Node::read(&object, meta, &mut row)
    }

    fn topologies(list: &[(&str, Value)]) -> Store<Levels> {
        let mut store = Store::default();
        for (name, levels) in list {
            let object = json!({"metadata": {"name": name}, "spec": {"levels": levels}});
            let mut row = RowAudit::new("f", 1);
            let meta = Meta::read(&object, Kind::Topology, &mut row).unwrap();
            let levels = Levels::read(&object, meta, &mut row);
            assert_eq!(row.is_clean(), !levels.labels.is_empty());
            let place = Place { file: 0, line: 1, clean: true };
            store.take(levels, Taken { place, document: 0, latest: None, deleted: false });
        }
        store
    }

    #[test]
    fn a_topology_names_the_labels_and_the_user_names_others() {
        let nodes = [json!({"a/block": "b1", "a/rack": "r7", "zone": "z"}), json!({"a/block": "b1", "zone": "z"})];
        let nodes: Vec<Node> = nodes.iter().enumerate().map(|(at, labels)| node(&format!("n{at}"), labels)).collect();
        let nodes: Vec<&Node> = nodes.iter().collect();
        let level = |label: &str| json!({"nodeLabel": label});
        let store = topologies(&[
            ("rows", json!([level("a/rack"), level("row")])),
            ("site", json!([level("a/block"), level("a/rack"), level(HOSTNAME)])),
            ("broken", json!([])),
        ]);
        let chosen = Chosen::new(&nodes, &store, &[]);
        assert_eq!((chosen.place(nodes[0]).as_deref(), chosen.place(nodes[1])), (Some("a/block=b1,a/rack=r7"), None));
        let note = chosen.note(&nodes).unwrap();
        assert!(
            note.contains("Topology site, which most nodes have of 2") && note.contains("1 node with GPUs lacks one"),
            "{note}"
        );
        let named = ["zone".to_owned()];
        assert_eq!(Chosen::new(&nodes, &store, &named).place(nodes[1]).as_deref(), Some("zone=z"));
        let twice = ["zone".to_owned(), "zone".to_owned()];
        assert_eq!(Chosen::new(&nodes, &store, &twice).place(nodes[1]).as_deref(), Some("zone=z"));
    }

    // Four nodes: the zone is the same for all and a host has one node each, so only the block says something.
    #[test]
    fn of_well_known_labels_those_count_that_tell_nodes_apart_but_not_all() {
        let labels = |block: &str, host: &str| json!({"topology.kubernetes.io/zone": "z", "cloud.google.com/gce-topology-block": block, "cloud.google.com/gce-topology-host": host});
        let nodes = [labels("b1", "h1"), labels("b1", "h2"), labels("b2", "h3"), json!({})];
        let nodes: Vec<Node> = nodes.iter().enumerate().map(|(at, labels)| node(&format!("n{at}"), labels)).collect();
        let nodes: Vec<&Node> = nodes.iter().collect();
        let none = Store::default();
        let chosen = Chosen::new(&nodes, &none, &[]);
        assert_eq!(chosen.labels, ["cloud.google.com/gce-topology-block"]);
        assert_eq!(Chosen::new(&nodes[..1], &none, &[]).note(&nodes[..1]), None);
    }
}
