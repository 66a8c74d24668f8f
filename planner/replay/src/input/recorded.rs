//! The cluster as the trace has it, where no file says.
//!
//! In this order: nodes that belong to no one, as one pool for VCs whose quotas are known beside those of the whole cluster (a Kubernetes
//! cluster with Kueue); GPUs or nodes of VCs over time (`capacity`); nodes that belong to VCs (`nodes`); nodes that belong to no one, as
//! one pool for all VCs; GPUs of the whole cluster, as such a pool. Worked number: a VC with 96 GPUs and no word on nodes is taken to be
//! 12 nodes of 8, and so is one of 12 nodes with no word on GPUs.

use std::collections::{BTreeMap, BTreeSet};

use tracecast_analytics::Trace;
use tracecast_analytics::facts::sizes::{self, Held};
use tracecast_analytics::report::format;
use tracecast_analytics::schema::{Resource, Table};

use super::failure;
use super::host;
use super::place::{Located, NodePlaces};
use super::quota::QuotaFile;
use crate::error::{Error, Result};
use tracecast_analytics::stats::divisor;
use tracecast_sim;
use tracecast_sim::cluster::{Cluster, Group, MAX_GPUS_PER_NODE, Pool, Vc};
use tracecast_sim::host::HostRoom;

/// The reader whose VCs are queues with quotas.
const KUBERNETES: &str = "kubernetes";
/// GPUs of a node where the trace does not say.
const GPUS_PER_NODE: u32 = 8;

/// Nodes of a trace, as far as they are known.
#[derive(Debug)]
pub(super) struct Recorded {
    pub(super) cluster: Cluster,
    /// In words, for the report.
    pub(super) basis: String,
    /// Treatment of failures of nodes by the replay, in words; `None` where none is recorded.
    pub(super) failures: Option<String>,
    /// Places of the nodes, if any is known.
    pub(super) located: Option<Located>,
}

impl Recorded {
    fn new(cluster: Cluster, basis: impl Into<String>) -> Self {
        Self { cluster, basis: basis.into(), failures: None, located: None }
    }

    /// Says where its nodes lie, if `places` knows any of them; nothing else says it then.
    pub(super) fn locate(&mut self, trace: &Trace, places: Option<&NodePlaces>) -> Result<()> {
        let placed = |error: tracecast_sim::Error| match error {
            tracecast_sim::Error::Cluster(what) => Error::cluster(format!("where the nodes lie: {what}")),
            other => other.into(),
        };
        self.located = places.and_then(|places| places.located(trace, &self.cluster));
        self.cluster.topology = self.located.as_ref().map(Located::topology).transpose().map_err(placed)?;
        Ok(())
    }

    /// Returns a description of the nodes, their failures and their places.
    pub(super) fn in_words(&self) -> String {
        let lie = self.located.as_ref().map(|of| {
            let apart = of.paths.iter().flatten().count();
            let nodes = format::counted(apart as u64, "node lies", "nodes lie");
            format!("Where {nodes} is known, by {}.", of.levels.join(" and "))
        });
        let said = [Some(self.basis.clone()), self.failures.clone(), lie];
        said.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }
}

/// The cluster of `trace` with VCs `names`, time 0 being `origin_ms`; `None` if it says nothing of its size. Its nodes have processors and memory if `hosts`.
pub(super) fn cluster(
    trace: &Trace,
    names: &[String],
    origin_ms: i64,
    resource: Resource,
    quotas: Option<&QuotaFile>,
    hosts: bool,
) -> Result<Option<Recorded>> {
    if resource != Resource::Gpus {
        let result = counted(trace, names, origin_ms, resource);
        if let Some(result) = &result {
            result.cluster.validate().map_err(|error| Error::cluster(format!("as the trace has it: {error}")))?;
        }
        return Ok(result);
    }
    // What Kubernetes says of queues are quotas, not nodes; and flavors that are types of GPUs need nodes that have types.
    let inventory = quotas.and_then(|quotas| {
        let result = pooled_nodes(trace, names, hosts)?;
        (is_of_kubernetes(trace) || quotas.tells_types(&result.cluster.gpu_types)).then_some(result)
    });
    let result = inventory
        .or_else(|| within_quotas(trace, names, origin_ms, hosts))
        .or_else(|| by_vc_capacity(trace, names, origin_ms, hosts))
        .or_else(|| by_vc_nodes(trace, names, hosts))
        .or_else(|| pooled_nodes(trace, names, hosts))
        .or_else(|| pooled_capacity(trace, names, origin_ms, hosts))
        .or_else(|| nominal(trace, names, quotas?));
    let mut result = result;
    if let Some(result) = &mut result {
        let failures = failure::add(trace, &mut result.cluster, origin_ms);
        if failures > 0 {
            let failures = format::counted(failures as u64, "failure of a node is", "failures of nodes are");
            result.failures =
                Some(format!("The trace's {failures} replayed: what runs there runs again from the beginning."));
        }
        result.locate(trace, NodePlaces::of_trace(trace).as_ref())?;
        result.cluster.validate().map_err(|error| Error::cluster(format!("as the trace has it: {error}")))?;
    }
    Ok(result)
}

/// A cluster with its VCs in the order of `names`, those that it does not know without nodes.
fn in_order(mut cluster: Cluster, names: &[String]) -> Cluster {
    let mut vcs = Vec::with_capacity(names.len());
    for name in names {
        let known = cluster.vcs.iter().find(|vc| vc.name == *name).cloned();
        vcs.push(known.unwrap_or_else(|| {
            cluster.pools.push(Pool::default());
            Vc::new(name.clone(), (cluster.pools.len() - 1) as u16)
        }));
    }
    Cluster { vcs, ..cluster }
}

/// The trace's own nodes for the VCs of `cluster`, if it has all of them and jobs of `cluster`, which may want GPUs `of_types`, can be placed there.
pub(super) fn own(
    trace: &Trace,
    cluster: &Cluster,
    origin_ms: i64,
    resource: Resource,
    (of_types, hosts): (bool, bool),
) -> Result<Option<Cluster>> {
    let names: Vec<String> = cluster.vcs.iter().map(|vc| vc.name.clone()).collect();
    let Some(result) = self::cluster(trace, &names, origin_ms, resource, None, hosts)? else { return Ok(None) };
    let mut result = result;
    if cluster.cohorts.is_some() || cluster.kai.is_some() || cluster.volcano.is_some() {
        // Queues are VCs, those without nodes and jobs of their own as well.
        result.cluster = in_order(result.cluster, &names);
    }
    let same_vcs = result.cluster.vcs.iter().map(|vc| &vc.name).eq(names.iter());
    let same_types = !of_types || cluster.gpu_types == result.cluster.gpu_types;
    Ok(Some(result.cluster).filter(|_| same_vcs && same_types))
}

fn is_of_kubernetes(trace: &Trace) -> bool {
    trace.sources.iter().any(|source| source.reader == KUBERNETES)
}

/// Processors or nodes, shared by all VCs: what `capacity` says of the cluster over time, else the inventory's sum.
fn counted(trace: &Trace, names: &[String], origin_ms: i64, resource: Resource) -> Option<Recorded> {
    let capacity = &trace.capacity;
    let mut clusters: BTreeMap<Option<&str>, Vec<(i64, u32)>> = BTreeMap::new();
    for row in 0..capacity.len() {
        let up = capacity.state.get(row).is_none_or(|state| state == "up");
        let many = if resource == Resource::Cpus { capacity.cpus.get(row) } else { capacity.nodes.get(row) };
        if let (true, Some("cluster"), Some(many)) = (up, capacity.scope.get(row), many.filter(|many| *many >= 1.0)) {
            let from = capacity.from.get(row).map_or(i64::MIN, |from| from.saturating_sub(origin_ms));
            clusters.entry(capacity.name.get(row)).or_default().push((from, many.min(1e7) as u32));
        }
    }
    // Several clusters that were read together are one, as large as each ever was.
    let most = |sizes: &Vec<(i64, u32)>| sizes.iter().map(|(_, many)| *many).max().unwrap_or(0);
    let mut sizes = match clusters.len() {
        0 | 1 => clusters.into_values().next().unwrap_or_default(),
        _ => vec![(i64::MIN, clusters.values().map(most).fold(0, u32::saturating_add))],
    };
    let mut basis = format!("The {} are as many as the trace says of the cluster", resource.many());
    if sizes.is_empty() {
        let nodes = &trace.nodes;
        let many: f64 = match resource {
            Resource::Cpus => nodes.cpus.iter().flatten().filter(|cpus| *cpus >= 1.0).sum(),
            Resource::Gpus | Resource::Nodes => nodes.len() as f64,
        };
        if many < 1.0 {
            return None;
        }
        sizes.push((i64::MIN, many.min(1e7) as u32));
        basis = format!("The {} are those of the trace's inventory of nodes", resource.many());
    }
    sizes.sort_unstable();
    sizes.dedup_by_key(|(from, _)| *from);
    sizes.dedup_by_key(|(_, many)| *many);
    // They stand on equal pieces of at most 64, as many as divide all sizes; jobs go wherever any are free.
    let all = sizes.iter().fold(0, |all, (_, many)| divisor(all, *many));
    let each = (1..=MAX_GPUS_PER_NODE.min(all)).rev().find(|each| all % each == 0).unwrap_or(1);
    let each = if resource == Resource::Nodes { 1 } else { each };
    let sizes = sizes.into_iter().map(|(from, many)| (from, many / each)).collect();
    basis.push_str("; all VCs share all of them, without quotas.");
    pooled(names, vec![Group { sizes, ..Group::fixed(0, each) }], Vec::new(), &basis)
}

/// GPUs per node that most nodes with GPUs have.
pub(super) fn usual_node(trace: &Trace) -> u32 {
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    for gpus in trace.nodes.gpus.iter().flatten().filter(|gpus| *gpus >= 1.0) {
        *counts.entry(gpus as u32).or_default() += 1;
    }
    counts.into_iter().max_by_key(|(gpus, count)| (*count, *gpus)).map_or(GPUS_PER_NODE, |(gpus, _)| gpus)
}

/// Returns the sentence that so many GPUs a node are assumed; `None` where the trace says how many
/// a node has.
pub(super) fn gpus_assumed(trace: &Trace) -> Option<String> {
    let capacity = &trace.capacity;
    let counted = (0..capacity.len()).any(|row| {
        let of_cluster = matches!(capacity.scope.get(row), Some("vc" | "cluster"));
        of_cluster && capacity.nodes.get(row).is_some() && capacity.gpus.get(row).is_some()
    });
    let listed = trace.nodes.gpus.iter().flatten().any(|gpus| gpus >= 1.0);
    let usual = usual_node(trace);
    (!counted && !listed).then(|| format!("How many GPUs a node has is not recorded: {usual} each are assumed."))
}

/// (from, GPUs, nodes) of what `capacity` says of `name`; where it has nodes only, with `usual` GPUs on each. Before the first and after the last there is nothing where [sizes say so](sizes).
fn intervals(
    trace: &Trace,
    held: &[Held],
    scope: &str,
    name: Option<&str>,
    origin_ms: i64,
    usual: u32,
) -> Vec<(i64, f64, Option<f64>)> {
    let capacity = &trace.capacity;
    let mut result: Vec<(i64, f64, Option<f64>)> = Vec::new();
    let (mut begins, mut ends) = (Some(i64::MAX), Some(i64::MIN));
    for (ix, held) in held.iter().enumerate() {
        let up = capacity.state.get(ix).is_none_or(|state| state == "up");
        let is_of_name = name.is_none() || capacity.name.get(ix) == name;
        if capacity.scope.get(ix) != Some(scope) || !is_of_name || !up {
            continue;
        }
        let nodes = capacity.nodes.get(ix);
        if let Some(gpus) = capacity.gpus.get(ix).or_else(|| nodes.map(|nodes| nodes * f64::from(usual))) {
            let from = capacity.from.get(ix).map_or(i64::MIN, |from| from.saturating_sub(origin_ms));
            result.push((from, gpus, nodes));
            begins = begins.zip(held.since).map(|(begins, since)| begins.min(since));
            ends = ends.zip(held.until).map(|(ends, until)| ends.max(until));
        }
    }
    if !result.is_empty() {
        result.extend(begins.map(|_| (i64::MIN, 0.0, None)));
        result.extend(ends.map(|ends| (ends.saturating_sub(origin_ms), 0.0, None)));
    }
    result.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    result.dedup_by_key(|(from, _, _)| *from);
    result.dedup_by(|later, earlier| later.1.total_cmp(&earlier.1).is_eq());
    result
}

/// VCs of which `capacity` has sizes, all of 0 GPUs.
pub(super) fn without_gpus(trace: &Trace) -> BTreeSet<&str> {
    let capacity = &trace.capacity;
    let mut most: BTreeMap<&str, f64> = BTreeMap::new();
    for row in (0..capacity.len()).filter(|row| capacity.scope.get(*row) == Some("vc")) {
        let many = capacity.gpus.get(row).or(capacity.nodes.get(row));
        if let (Some(vc), Some(many)) = (capacity.name.get(row), many) {
            let known = most.entry(vc).or_default();
            *known = known.max(many);
        }
    }
    most.into_iter().filter(|(_, most)| *most <= 0.0).map(|(vc, _)| vc).collect()
}

fn group(intervals: &[(i64, f64, Option<f64>)], usual: u32) -> Option<Group> {
    let per_node = intervals.iter().find_map(|(_, gpus, nodes)| {
        let nodes = nodes.filter(|nodes| *nodes >= 1.0)?;
        let per_node = gpus / nodes;
        (per_node.fract() == 0.0 && per_node >= 1.0).then_some(per_node as u32)
    });
    let gpus_per_node = per_node.unwrap_or(usual).clamp(1, MAX_GPUS_PER_NODE);
    let nodes = |gpus: f64| (gpus / f64::from(gpus_per_node)).round().clamp(0.0, 1e7) as u32;
    let mut sizes: Vec<(i64, u32)> = intervals.iter().map(|(from, gpus, _)| (*from, nodes(*gpus))).collect();
    sizes.dedup_by_key(|(_, nodes)| *nodes);
    let largest = sizes.iter().map(|(_, nodes)| *nodes).max()?;
    (largest > 0).then_some(Group { sizes, ..Group::fixed(0, gpus_per_node) })
}

fn by_vc_capacity(trace: &Trace, names: &[String], origin_ms: i64, hosts: bool) -> Option<Recorded> {
    let usual = usual_node(trace);
    let mut cluster = Cluster::default();
    let held = sizes::held(trace);
    for name in names {
        if let Some(group) = group(&intervals(trace, &held, "vc", Some(name), origin_ms, usual), usual) {
            // What its nodes have, if the list names them; else what all have.
            let listed = (0..trace.nodes.len()).any(|row| trace.nodes.vc.get(row) == Some(name.as_str()));
            let of = listed.then_some(name.as_str());
            let host = if hosts { host::alike(trace, of) } else { HostRoom::default() };
            push_own(&mut cluster, name, vec![Group { host, ..group }]);
        }
    }
    let basis = "Sizes of VCs over time are the trace's own; in the record every VC has its nodes to itself.";
    (!cluster.vcs.is_empty()).then(|| Recorded::new(cluster, basis))
}

/// Nodes that all VCs share, each within its quota: the inventory names no VC, and `capacity` knows the GPUs of VCs beside those of the
/// whole cluster. A VC without a quota, or with one of 0 (it lives on what others leave), has no bound.
fn within_quotas(trace: &Trace, names: &[String], origin_ms: i64, hosts: bool) -> Option<Recorded> {
    let capacity = &trace.capacity;
    let scoped = |scope: &str| {
        let sized = |row: &usize| capacity.scope.get(*row) == Some(scope) && capacity.gpus.get(*row).is_some();
        (0..capacity.len()).any(|row| sized(&row))
    };
    if !scoped("vc") || !scoped("cluster") || !trace.nodes.vc.is_all_unknown() {
        return None;
    }
    let mut result = pooled_nodes(trace, names, hosts)?;
    let held = sizes::held(trace);
    for vc in &mut result.cluster.vcs {
        let quotas = intervals(trace, &held, "vc", Some(&vc.name), origin_ms, 0);
        if quotas.iter().all(|(_, gpus, _)| *gpus > 0.0) {
            let milli = |gpus: f64| (gpus.min(1e9) * 1000.0).round() as u64;
            vc.quota_milli = quotas.into_iter().map(|(from, gpus, _)| (from, milli(gpus))).collect();
        }
    }
    result.basis = "Nodes are the trace's own inventory. All VCs share them, each within the quota that the trace records, if any; \
                   what one may borrow beyond it is not known."
        .to_owned();
    if is_of_kubernetes(trace) {
        result.basis.push_str(" `simulate --site quota` reads that from the objects of the queues.");
    }
    Some(result)
}

fn push_own(cluster: &mut Cluster, name: &str, groups: Vec<Group>) {
    cluster.vcs.push(Vc::new(name, cluster.pools.len() as u16));
    cluster.pools.push(Pool { groups });
}

/// Nodes with GPUs by (GPUs, type), and by processors and memory if `rooms` says what each row has, of one VC or of all. New types are numbered in the order of the groups, as a file that
/// lists these groups numbers them.
fn groups(trace: &Trace, vc: Option<&str>, types: &mut Vec<String>, rooms: Option<&[HostRoom]>) -> Vec<Group> {
    let nodes = &trace.nodes;
    let mut met: Vec<&str> = Vec::new();
    let mut counts: BTreeMap<(u32, Option<usize>, HostRoom), u32> = BTreeMap::new();
    for ix in 0..nodes.len() {
        if vc.is_some() && nodes.vc.get(ix) != vc {
            continue;
        }
        let Some(gpus) = nodes.gpus.get(ix).filter(|gpus| *gpus >= 1.0 && *gpus <= f64::from(MAX_GPUS_PER_NODE)) else {
            continue;
        };
        let gpu_type = nodes.gpu_type.get(ix).map(|name| {
            met.iter().position(|known| *known == name).unwrap_or_else(|| {
                met.push(name);
                met.len() - 1
            })
        });
        let host = rooms.and_then(|rooms| rooms.get(ix)).copied().unwrap_or_default();
        *counts.entry((gpus as u32, gpu_type, host)).or_default() += 1;
    }
    let mut number = |name: &str| {
        let known = types.iter().position(|known| known == name);
        known.unwrap_or_else(|| {
            types.push(name.to_owned());
            types.len() - 1
        }) as u16
    };
    let group = |((gpus_per_node, gpu_type, host), nodes): ((u32, Option<usize>, HostRoom), u32)| {
        let gpu_type = gpu_type.and_then(|at| met.get(at)).map(|name| number(name));
        Group { gpus_per_node, gpu_type, host, sizes: vec![(i64::MIN, nodes)] }
    };
    counts.into_iter().map(group).collect()
}

fn by_vc_nodes(trace: &Trace, names: &[String], hosts: bool) -> Option<Recorded> {
    let mut cluster = Cluster::default();
    let rooms = hosts.then(|| host::rooms(trace));
    for name in names {
        let groups = groups(trace, Some(name), &mut cluster.gpu_types, rooms.as_deref());
        if !groups.is_empty() {
            push_own(&mut cluster, name, groups);
        }
    }
    (!cluster.vcs.is_empty()).then(|| {
        let basis =
            "Nodes and the VCs they belong to are the trace's own inventory, as of its one record; VCs do not share.";
        Recorded::new(cluster, basis)
    })
}

fn pooled(names: &[String], groups: Vec<Group>, gpu_types: Vec<String>, basis: &str) -> Option<Recorded> {
    if groups.is_empty() {
        return None;
    }
    let vc = |name: &String| Vc::new(name.clone(), 0);
    let vcs = names.iter().map(vc).collect();
    let cluster = Cluster { pools: vec![Pool { groups }], vcs, gpu_types, ..Cluster::default() };
    Some(Recorded::new(cluster, basis))
}

/// Returns as many nodes as the quotas add up to.
fn nominal(trace: &Trace, names: &[String], quotas: &QuotaFile) -> Option<Recorded> {
    let (usual, gpus) = (usual_node(trace), quotas.nominal_gpus());
    let nodes = (gpus / f64::from(usual)).ceil().min(1e7) as u32;
    let basis = format!(
        "The trace records no nodes; there are taken to be as many as the quotas add up to, {} GPUs on nodes of {usual}. Name others with --site.",
        format::float(gpus, 0)
    );
    if nodes == 0 {
        return None;
    }
    pooled(names, vec![Group::fixed(nodes, usual)], Vec::new(), &basis)
}

fn pooled_nodes(trace: &Trace, names: &[String], hosts: bool) -> Option<Recorded> {
    let mut types = Vec::new();
    let rooms = hosts.then(|| host::rooms(trace));
    let groups = groups(trace, None, &mut types, rooms.as_deref());
    let basis = "Nodes are the trace's own inventory; it does not say which VC they belong to, so all VCs share all of them, without quotas.";
    pooled(names, groups, types, basis)
}

fn pooled_capacity(trace: &Trace, names: &[String], origin_ms: i64, hosts: bool) -> Option<Recorded> {
    let usual = usual_node(trace);
    let host = if hosts { host::alike(trace, None) } else { HostRoom::default() };
    let group =
        Group { host, ..group(&intervals(trace, &sizes::held(trace), "cluster", None, origin_ms, usual), usual)? };
    let basis = "The trace knows how many GPUs the cluster has, not how VCs divide them, so all VCs share all of them, without quotas.";
    pooled(names, vec![group], Vec::new(), basis)
}
