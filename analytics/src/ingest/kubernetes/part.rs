//! Requests and grants in GPUs, where device plugins hand out parts of GPUs.
//!
//! How the GPUs of each node are divided its labels say ([`super::division`]). **Requests**: of a pod by the node it is on; else by the
//! product that its node selector, or the flavor it was admitted to, names; else what all nodes with that resource have in common.
//! Where they have nothing in common, a unit counts whole, and a note says of how many objects. Shares that the KAI scheduler gives by
//! annotation are parts of a GPU already. Quotas of a ClusterQueue are in units of their flavor; those of KAI queues are taken as they
//! are.
//!
//! Worked example: on a node with 4 T4 with 4 replicas, a pod with `nvidia.com/gpu: 1` holds 0.25. On one with A100 of 40 GB cut into
//! `1g.5gb` it holds 1/7. One that waits with a node selector for `Tesla-T4-SHARED` asks for 0.25.

use std::collections::{BTreeSet, HashMap};

use super::node::{Node, machines};
use super::objects::Objects;
use super::quantity::{Amounts, GPU, SHARED};
use super::queue::Flavor;
use super::workload::Workload;

/// Counts of divided GPUs, for the notes.
#[derive(Debug, Default)]
pub(super) struct Divided {
    /// Nodes with divided GPUs, the units they hand out and the GPUs they have.
    pub(super) nodes: u64,
    pub(super) units: f64,
    pub(super) gpus: f64,
    /// Pods, Workloads and Jobs whose units were counted whole, though some nodes divide them.
    pub(super) whole: u64,
    /// Whether shares of unknown size were requested.
    pub(super) unknown_shares: bool,
}

/// GPUs that a unit is, wherever that is known.
#[derive(Debug, Default)]
struct Parts<'o> {
    by_node: HashMap<&'o str, f64>,
    /// GPUs a unit, by product label; `None` where nodes of that product differ.
    by_product: HashMap<&'o str, Option<f64>>,
    by_flavor: HashMap<&'o str, Option<f64>>,
    /// GPUs a unit that all nodes with a resource have in common.
    by_resource: HashMap<&'static str, Option<f64>>,
    /// Memory of one GPU, mebibytes, by node, and what all nodes have in common.
    memory_by_node: HashMap<&'o str, f64>,
    memory: Option<f64>,
    divided: bool,
}

/// The value that all of these have; `None` if they differ, or there are none.
fn common(mut parts: impl Iterator<Item = f64>) -> Option<f64> {
    let first = parts.next()?;
    parts.all(|part| part.total_cmp(&first).is_eq()).then_some(first)
}

impl<'o> Parts<'o> {
    fn of(nodes: &[&'o Node], flavors: impl Iterator<Item = &'o Flavor>) -> Self {
        let with: Vec<&Node> =
            nodes.iter().copied().filter(|node| node.units(GPU) + node.units(SHARED) > 0.0).collect();
        let mut parts = Self { divided: with.iter().any(|node| node.part() < 1.0), ..Self::default() };
        parts.by_node = with.iter().map(|node| (&*node.meta.name, node.part())).collect();
        parts.memory_by_node = with.iter().filter_map(|node| Some((&*node.meta.name, node.memory_mib()?))).collect();
        parts.memory = common(with.iter().filter_map(|node| node.memory_mib()));
        let products: BTreeSet<&str> = with.iter().filter_map(|node| node.label.as_deref()).collect();
        for product in products {
            let of = with.iter().filter(|node| node.label.as_deref() == Some(product));
            parts.by_product.insert(product, common(of.map(|node| node.part())));
        }
        for flavor in flavors {
            // A flavor without labels stands for all nodes.
            let of = with.iter().filter(|node| node.has(&flavor.labels));
            parts.by_flavor.insert(&flavor.meta.name, common(of.map(|node| node.part())));
        }
        for resource in [GPU, SHARED] {
            let of = with.iter().filter(|node| node.units(resource) > 0.0);
            parts.by_resource.insert(resource, common(of.map(|node| node.part())));
        }
        parts
    }

    /// Turns the units in `amounts` into GPUs; `known` is what is known of them beyond the nodes' common part.
    fn apply(&self, amounts: &mut Amounts, known: Option<f64>, divided: &mut Divided) {
        for resource in [GPU, SHARED] {
            if !amounts.asks_for(resource) {
                continue;
            }
            let part = known.or_else(|| self.by_resource.get(resource).copied().flatten());
            amounts.scale(resource, part.unwrap_or(1.0));
            // What is called a share is never a whole GPU, even if no label says how large it is.
            divided.unknown_shares |= resource == SHARED && part.is_none_or(|part| part >= 1.0);
            divided.whole += u64::from(resource == GPU && part.is_none() && self.divided);
        }
    }

    fn of_products<'p>(&self, products: impl Iterator<Item = &'p str>) -> Option<f64> {
        let parts: Option<Vec<f64>> = products.map(|product| self.by_product.get(product).copied().flatten()).collect();
        common(parts?.into_iter())
    }

    fn of_workload(&self, workload: &Workload) -> Option<f64> {
        let parts: Option<Vec<f64>> =
            workload.flavors.iter().map(|flavor| self.by_flavor.get(&**flavor).copied().flatten()).collect();
        let of_flavors = parts.and_then(|parts| common(parts.into_iter()));
        of_flavors.or_else(|| self.of_products(workload.selected.iter().map(|product| &**product)))
    }
}

/// Counts what is asked for, given and granted in GPUs, where device plugins hand out parts. O(objects × products).
pub(super) fn apply(objects: &mut Objects) -> Divided {
    let Objects { nodes, pods, workloads, jobs, cluster_queues, cohorts, flavors, .. } = objects;
    let nodes: Vec<&Node> = machines(nodes).into_iter().map(|kept| &kept.object).collect();
    let parts = Parts::of(&nodes, flavors.iter().map(|kept| &kept.object));
    let mut divided = Divided::default();
    for division in nodes.iter().filter_map(|node| node.division.as_ref()) {
        divided.nodes += 1;
        divided.units += division.units;
        divided.gpus += division.gpus;
    }
    for pod in pods.iter_mut().filter(|pod| !pod.fraction) {
        let on = pod.node.as_deref().and_then(|node| parts.by_node.get(node).copied());
        let known = on.or_else(|| parts.of_products(pod.selected.iter().map(|product| &**product)));
        parts.apply(&mut pod.amounts, known, &mut divided);
        let memory = pod.node.as_deref().and_then(|node| parts.memory_by_node.get(node).copied());
        if let Some(memory) = memory.or(parts.memory) {
            pod.amounts.settle_memory(memory);
        }
    }
    for workload in workloads.iter_mut() {
        let known = parts.of_workload(workload);
        let mut none = Divided::default();
        for (amounts, divided) in [(&mut workload.asked, &mut divided), (&mut workload.given, &mut none)] {
            if let Some(amounts) = amounts {
                parts.apply(amounts, known, divided);
                if let Some(memory) = parts.memory {
                    amounts.settle_memory(memory);
                }
            }
        }
    }
    for job in jobs.iter_mut() {
        let known = parts.of_products(job.selected.iter().map(|product| &**product));
        parts.apply(&mut job.asked, known, &mut divided);
        if let Some(memory) = parts.memory {
            job.asked.settle_memory(memory);
        }
    }
    for queue in cluster_queues.iter_mut().chain(cohorts.iter_mut()) {
        for (flavor, amounts) in &mut queue.quotas {
            let known = parts.by_flavor.get(&**flavor).copied().flatten();
            parts.apply(amounts, known, &mut Divided::default());
        }
    }
    divided
}
