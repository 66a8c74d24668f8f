//! Nodes of a dump as pools, and what jobs take of them: GPUs, or processor cores where a job asks for none.
//!
//! Nodes that share a partition, directly or over others, are one pool; each partition queues for its pool.
//!
//! O(nodes log nodes). Worked number: 128 cores of the largest node are 64 units of two cores, and a job of
//! 127 cores takes all of them.

use std::collections::{BTreeMap, BTreeSet};

use tracecast_analytics::state::{ClusterState, LiveJob, NodeState, Phase};

use crate::sim::cluster::MAX_GPUS_PER_NODE;
use crate::sim::{Cluster, Group, Pool, Vc};

/// Resource that jobs wait for: GPUs, or so many processor cores at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unit {
    /// Cores that are one unit; none if units are GPUs.
    pub(super) cores: Option<u32>,
}

impl Unit {
    /// What a job waits for; one that is not in the queue for GPUs.
    pub(super) fn new(state: &ClusterState, found: Option<&LiveJob>) -> Self {
        let most = state.nodes.iter().map(|node| node.cpus).max().unwrap_or(0);
        let is_without = found.is_some_and(|job| job.gpus.is_none_or(|gpus| gpus <= 0.0));
        Self { cores: is_without.then(|| most.div_ceil(MAX_GPUS_PER_NODE).max(1)) }
    }

    /// Units of a node.
    pub(super) fn of_node(self, node: &NodeState) -> u32 {
        self.cores.map_or(node.gpus, |cores| node.cpus / cores).min(MAX_GPUS_PER_NODE)
    }

    /// Units of a job, as a number of GPUs.
    pub(super) fn of_job(self, job: &LiveJob) -> Option<f64> {
        match self.cores {
            None => job.gpus,
            Some(cores) => job.cpus.map(|cpus| (cpus / f64::from(cores)).ceil()),
        }
    }
}

/// Names of the nodes that take jobs now and are in no reservation that has begun.
pub(super) fn usable(state: &ClusterState, now_ms: i64) -> BTreeSet<String> {
    let begun = state.reservations.iter().filter(|of| of.has_begun(now_ms));
    let reserved: BTreeSet<&String> = begun.flat_map(|of| &of.nodes).collect();
    let usable = state.nodes.iter().filter(|node| node.usable && !reserved.contains(&node.name));
    usable.map(|node| node.name.clone()).collect()
}

/// Units that are free on each node of a job's partition that takes jobs, as these are held now: a job
/// holds as many of each of its nodes.
pub(in crate::start) fn free_units(state: &ClusterState, job: &LiveJob) -> Vec<f64> {
    let unit = Unit::new(state, Some(job));
    let usable = usable(state, state.now_ms.unwrap_or_default());
    let mut held: BTreeMap<&str, f64> = BTreeMap::new();
    for other in state.jobs.iter().filter(|other| other.phase == Phase::Running) {
        let each = unit.of_job(other).unwrap_or(0.0) / other.on.len().max(1) as f64;
        other.on.iter().for_each(|name| *held.entry(name).or_default() += each);
    }
    let nodes = state.nodes.iter().filter(|node| is_of(job, node)).filter(|node| usable.contains(&node.name));
    let free = |node: &NodeState| f64::from(unit.of_node(node)) - held.get(node.name.as_str()).copied().unwrap_or(0.0);
    nodes.map(|node| free(node).max(0.0)).collect()
}

/// Whether a node is of a job's partition.
pub(in crate::start) fn is_of(job: &LiveJob, node: &NodeState) -> bool {
    job.partition.as_ref().is_none_or(|name| node.partitions.contains(name))
}

/// Nodes of each partition that are in service and have what a job waits for: GPUs, or processor cores.
pub(in crate::start) fn nodes_by_partition<'s>(state: &'s ClusterState, job: &LiveJob) -> BTreeMap<&'s str, usize> {
    let unit = Unit::new(state, Some(job));
    let mut result = BTreeMap::new();
    for node in state.nodes.iter().filter(|node| node.usable && unit.of_node(node) > 0) {
        node.partitions.iter().for_each(|name| *result.entry(name.as_str()).or_default() += 1);
    }
    result
}

/// Whether as many units are free as a job asks for, wherever they are.
pub(in crate::start) fn has_units_free(state: &ClusterState, job: &LiveJob) -> bool {
    let asked = Unit::new(state, Some(job)).of_job(job).unwrap_or(0.0);
    free_units(state, job).iter().sum::<f64>() >= asked
}

/// Whether the units of a job are free together: as many on each of its nodes, or on as few nodes as can be.
pub(in crate::start) fn fits_together(state: &ClusterState, job: &LiveJob) -> bool {
    let unit = Unit::new(state, Some(job));
    let Some(asked) = unit.of_job(job).filter(|units| *units >= 1.0) else { return true };
    let mut free = free_units(state, job);
    free.sort_unstable_by(|one, other| other.total_cmp(one));
    if let Some(nodes) = job.nodes.filter(|nodes| *nodes > 1) {
        return free.iter().filter(|free| **free >= asked / f64::from(nodes)).count() >= nodes as usize;
    }
    // Whole nodes, and one for the rest.
    let of_partition = state.nodes.iter().filter(|node| is_of(job, node));
    let most = of_partition.map(|node| f64::from(unit.of_node(node))).fold(1.0, f64::max);
    let whole = (asked / most).floor() as usize;
    let rest = asked - most * whole as f64;
    free.iter().filter(|free| **free >= most).count() >= whole
        && (rest <= 0.0 || free.get(whole).is_some_and(|free| *free >= rest))
}

/// Nodes as pools, and the partitions as VCs.
pub(super) fn cluster(state: &ClusterState, usable: &BTreeSet<String>, unit: Unit) -> (Cluster, BTreeMap<String, u16>) {
    let mut names: BTreeSet<&str> = state.nodes.iter().flat_map(|node| &node.partitions).map(String::as_str).collect();
    names.extend(state.jobs.iter().filter_map(|job| job.partition.as_deref()));
    let places: BTreeMap<&str, usize> = names.iter().copied().zip(0..).collect();
    // Partitions that share a node are in one pool: each leads to the first of its set.
    let mut first: Vec<usize> = (0..places.len()).collect();
    fn find(first: &[usize], at: usize) -> usize {
        let to = first.get(at).copied().unwrap_or(at);
        if to == at { at } else { find(first, to) }
    }
    for node in &state.nodes {
        let shared: Vec<usize> = node.partitions.iter().filter_map(|name| places.get(name.as_str()).copied()).collect();
        for pair in shared.windows(2) {
            let [a, b] = [0, 1].map(|at| pair.get(at).map_or(0, |place| find(&first, *place)));
            if let Some(slot) = first.get_mut(a.max(b)) {
                *slot = a.min(b);
            }
        }
    }
    let mut pools: BTreeMap<usize, BTreeMap<(u32, Option<String>), u32>> = BTreeMap::new();
    for (at, _) in first.iter().enumerate() {
        pools.entry(find(&first, at)).or_default();
    }
    for node in state.nodes.iter().filter(|node| unit.of_node(node) > 0 && usable.contains(&node.name)) {
        let Some(place) = node.partitions.first().and_then(|name| places.get(name.as_str())) else { continue };
        let group = pools.entry(find(&first, *place)).or_default();
        *group.entry((unit.of_node(node), node.gpu_type.clone())).or_default() += 1;
    }
    let roots: Vec<usize> = pools.keys().copied().collect();
    let mut result = Cluster::default();
    for groups in pools.into_values() {
        let groups = groups.into_iter().map(|((gpus, _), nodes)| Group::fixed(nodes, gpus)).collect();
        result.pools.push(Pool { groups });
    }
    let mut vcs = BTreeMap::new();
    for (name, place) in &places {
        let pool = roots.binary_search(&find(&first, *place)).unwrap_or_default();
        let at = u16::try_from(result.vcs.len()).unwrap_or(u16::MAX);
        vcs.insert((*name).to_owned(), at);
        result.vcs.push(Vc::new(*name, u16::try_from(pool).unwrap_or(u16::MAX)));
    }
    (result, vcs)
}
