//! Clusters: pools of nodes, and the VCs that queue for them.
//!
//! A pool is a set of nodes with one queue. Most clusters give every VC a pool of its own; several VCs on one pool share its
//! nodes, perhaps within quotas. The nodes of a pool come in groups of equal nodes, and a group's size may change over time.
//! Worked number: a VC of 12 nodes of 8 GPUs is a pool with one group of 12, 96 GPUs.

use super::cohort::Cohorts;
use super::host::HostRoom;
use super::kai::Hierarchy;
use super::limit::Limits;
use super::topology::Topology;
use super::volcano::VolcanoQueues;
use super::workload::Workload;
use crate::error::{Error, Result};

/// GPUs a node may have: one bit each.
pub const MAX_GPUS_PER_NODE: u32 = 64;

/// Equal nodes of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// GPUs on each.
    pub gpus_per_node: u32,
    /// GPU type, an index into [`Cluster::gpu_types`].
    pub gpu_type: Option<u16>,
    /// Processors and memory of each.
    pub host: HostRoom,
    /// How many there are: (from, nodes), in order of time; the first holds from the beginning, whatever its time.
    pub sizes: Vec<(i64, u32)>,
}

impl Group {
    /// `nodes` nodes of `gpus_per_node` GPUs, always.
    pub fn fixed(nodes: u32, gpus_per_node: u32) -> Self {
        Self { gpus_per_node, gpu_type: None, host: HostRoom::default(), sizes: vec![(0, nodes)] }
    }

    /// Returns the number of nodes at a moment.
    pub fn nodes_at(&self, now: i64) -> u32 {
        value_at(&self.sizes, now).unwrap_or(0)
    }

    /// The most nodes it ever has.
    pub fn most_nodes(&self) -> u32 {
        self.sizes.iter().map(|(_, nodes)| *nodes).max().unwrap_or(0)
    }
}

/// Nodes with one queue.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pool {
    /// Groups of the pool; nodes are numbered group by group.
    pub groups: Vec<Group>,
}

impl Pool {
    /// The fewest GPUs that it has at any time from 0 on.
    fn fewest_gpus(&self) -> u64 {
        let at = |now: i64| -> u64 {
            self.groups.iter().map(|group| u64::from(group.nodes_at(now)) * u64::from(group.gpus_per_node)).sum()
        };
        let changes = self.groups.iter().flat_map(|group| &group.sizes).map(|(from, _)| *from).filter(|from| *from > 0);
        changes.chain([0]).map(at).min().unwrap_or(0)
    }

    /// Checks the cells that its VCs are guaranteed: that they are cells of its nodes, and that there are as many GPUs.
    fn check_cells(&self, vcs: &[&Vc]) -> Result<()> {
        let wrong = |what: String| Err(Error::Cluster(what));
        let kind = |group: &Group| (group.gpus_per_node, group.gpu_type);
        let first = self.groups.first().map(kind);
        let whole = first.map_or(0, |(gpus, _)| gpus);
        let with: Vec<&&Vc> = vcs.iter().filter(|vc| !vc.guarantee_cells.is_empty()).collect();
        let names = with.iter().map(|vc| vc.name.as_str()).collect::<Vec<_>>().join(", ");
        if self.groups.iter().any(|group| Some(kind(group)) != first) || !whole.is_power_of_two() {
            return wrong(format!(
                "guaranteed cells ({names}) are of nodes that all have 1, 2, 4, 8 … GPUs, as many on each and of one type; give other nodes a pool of their own"
            ));
        }
        if let Some(vc) = vcs.iter().find(|vc| !vc.quota_milli.is_empty() || !vc.guarantee_milli.is_empty()) {
            return wrong(format!(
                "VC {}: where VCs of a pool are guaranteed cells ({names}), none has a quota or guaranteed GPUs; leave these out",
                vc.name
            ));
        }
        for vc in &with {
            if let Some((size, _)) =
                vc.guarantee_cells.iter().find(|(size, _)| !size.is_power_of_two() || *size > whole)
            {
                return wrong(format!(
                    "VC {}: there is no cell of {size} GPUs; cells are of 1, 2, 4 … GPUs, up to a node, which has {whole}",
                    vc.name
                ));
            }
            if !vc.guarantee_cells.is_sorted_by(|a, b| a.0 < b.0) {
                return wrong(format!("VC {}: its cells are not in order of their size", vc.name));
            }
        }
        let (request, there) = (with.iter().map(|vc| vc.cell_gpus()).sum::<u64>(), self.fewest_gpus());
        if request > there {
            return wrong(format!(
                "the cells that VCs are guaranteed ({names}) have {request} GPUs in all, and their pool has {there} when it is smallest; guarantee fewer"
            ));
        }
        Ok(())
    }
}

/// A virtual cluster, partition or queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vc {
    /// Name of the VC.
    pub name: String,
    /// Pool, an index into [`Cluster::pools`].
    pub pool: u16,
    /// GPUs it may use at once, in thousandths: (from, amount), in order of time; the first holds from the beginning. Empty if
    /// only the pool bounds it.
    pub quota_milli: Vec<(i64, u64)>,
    /// GPUs of its pool that it is served first for, in thousandths, as a quota is written; empty if there is no such promise.
    pub guarantee_milli: Vec<(i64, u64)>,
    /// Cells of its pool that its jobs always find: (GPUs of a cell, how many), rising; see [`super::cell`]. Empty if there is no such promise.
    pub guarantee_cells: Vec<(u32, u32)>,
}

impl Vc {
    /// A VC that only its pool bounds.
    pub fn new(name: impl Into<String>, pool: u16) -> Self {
        Self {
            name: name.into(),
            pool,
            quota_milli: Vec::new(),
            guarantee_milli: Vec::new(),
            guarantee_cells: Vec::new(),
        }
    }

    /// Returns the guarantee at a moment, thousandths of GPUs; 0 without one.
    pub fn guarantee_at(&self, now: i64) -> u64 {
        amount_at(&self.guarantee_milli, now)
    }

    /// GPUs of the cells that it is guaranteed.
    pub fn cell_gpus(&self) -> u64 {
        self.guarantee_cells.iter().map(|(size, count)| u64::from(*size) * u64::from(*count)).sum()
    }
}

/// Value of a step function at `now`, its first value holding from the beginning; 0 if empty.
pub fn amount_at(amounts: &[(i64, u64)], now: i64) -> u64 {
    value_at(amounts, now).unwrap_or(0)
}

/// Value of a step function at `now`, its first value holding from the beginning; `None` if empty.
pub fn value_at<T: Copy>(values: &[(i64, T)], now: i64) -> Option<T> {
    let current = values.partition_point(|(from, _)| *from <= now).saturating_sub(1);
    values.get(current).map(|(_, value)| *value)
}

/// A node out of service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outage {
    /// The node, numbered over all pools in order.
    pub node: u32,
    /// Moment of the failure, milliseconds.
    pub from_ms: i64,
    /// Moment of the repair, milliseconds.
    pub to_ms: i64,
}

/// Pools, VCs and rules that jobs run under.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Cluster {
    /// Pools. The nodes are numbered over all pools, in order.
    pub pools: Vec<Pool>,
    /// VCs.
    pub vcs: Vec<Vc>,
    /// Names of GPU types, the same as the workload's.
    pub gpu_types: Vec<String>,
    /// Outages of nodes.
    pub outages: Vec<Outage>,
    /// Quotas of its VCs in cohorts, which hold under [`Scan::Kueue`](super::Scan::Kueue).
    pub cohorts: Option<Cohorts>,
    /// Queues with fair shares, which hold under [`Scan::Kai`](super::Scan::Kai).
    pub kai: Option<Hierarchy>,
    /// Queues as Volcano has them, which hold under [`Scan::Volcano`](super::Scan::Volcano).
    pub volcano: Option<VolcanoQueues>,
    /// Limits by QOS, account and partition, which hold under every other scan.
    pub limits: Option<Limits>,
    /// Blocks, racks or the like that its nodes lie in. A plan may have fewer nodes than it names, or more, which then lie in none.
    pub topology: Option<Topology>,
}

impl Cluster {
    /// Builds a cluster with private nodes for every VC: (name, nodes, GPUs per node).
    pub fn of_vcs(vcs: &[(&str, u32, u32)]) -> Self {
        let mut cluster = Self::default();
        for (at, (name, nodes, gpus_per_node)) in (0u16..).zip(vcs) {
            cluster.pools.push(Pool { groups: vec![Group::fixed(*nodes, *gpus_per_node)] });
            cluster.vcs.push(Vc::new(*name, at));
        }
        cluster
    }

    /// The name of the VC at a position; empty where there is none.
    pub fn vc_name(&self, vc: usize) -> String {
        self.vcs.get(vc).map_or_else(String::new, |vc| vc.name.clone())
    }

    /// Whether a VC shares the nodes of its pool with no other.
    pub fn is_alone(&self, vc: &Vc) -> bool {
        self.vcs.iter().filter(|other| other.pool == vc.pool).count() == 1
    }

    /// Whether a VC of a pool has a guarantee, in GPUs or in cells.
    pub fn guarantees(&self, pool: usize) -> bool {
        self.vcs.iter().any(|vc| usize::from(vc.pool) == pool && !vc.guarantee_milli.is_empty())
            || self.guarantees_cells(pool)
    }

    /// Whether a VC of a pool is guaranteed cells.
    pub fn guarantees_cells(&self, pool: usize) -> bool {
        self.vcs.iter().any(|vc| usize::from(vc.pool) == pool && !vc.guarantee_cells.is_empty())
    }

    /// A VC that is guaranteed cells, if there is one.
    pub fn with_cells(&self) -> Option<&Vc> {
        self.vcs.iter().find(|vc| !vc.guarantee_cells.is_empty())
    }

    /// Returns the cluster without guaranteed cells.
    #[must_use]
    pub fn without_cells(&self) -> Self {
        let mut cluster = self.clone();
        cluster.vcs.iter_mut().for_each(|vc| vc.guarantee_cells.clear());
        cluster
    }

    /// The most nodes there ever are.
    pub fn most_nodes(&self) -> u32 {
        self.pools.iter().flat_map(|pool| &pool.groups).map(Group::most_nodes).fold(0, u32::saturating_add)
    }

    /// The most GPUs there ever are.
    pub fn most_gpus(&self) -> u64 {
        let of = |group: &Group| u64::from(group.most_nodes()) * u64::from(group.gpus_per_node);
        self.pools.iter().flat_map(|pool| &pool.groups).map(of).sum()
    }

    /// Nodes at a moment, milliseconds.
    pub fn nodes_at(&self, now: i64) -> u64 {
        self.pools.iter().flat_map(|pool| &pool.groups).map(|group| u64::from(group.nodes_at(now))).sum()
    }

    /// Nodes and GPUs when there are the most GPUs at one time. A node that goes from one pool to another is counted once.
    /// O(changes of size).
    pub fn largest(&self) -> (u64, u64) {
        self.largest_within(i64::MIN, i64::MAX)
    }

    /// Returns the nodes and GPUs when there are the most GPUs from one moment to another,
    /// milliseconds: sizes that were over before, and those that come after, are not counted.
    pub fn largest_within(&self, from_ms: i64, to_ms: i64) -> (u64, u64) {
        // (when, change of nodes, change of GPUs)
        let mut changes: Vec<(i64, i64, i64)> = Vec::new();
        for group in self.pools.iter().flat_map(|pool| &pool.groups) {
            let mut before = 0;
            for (at, (from, nodes)) in group.sizes.iter().enumerate() {
                let nodes = i64::from(*nodes);
                let from = if at == 0 { from_ms } else { (*from).max(from_ms) };
                changes.push((from, nodes - before, (nodes - before) * i64::from(group.gpus_per_node)));
                before = nodes;
            }
        }
        changes.retain(|(at, ..)| *at <= to_ms);
        changes.sort_unstable();
        let (mut now, mut most) = ((0, 0), (0, 0));
        for moment in changes.chunk_by(|a, b| a.0 == b.0) {
            for (_, nodes, gpus) in moment {
                now = (now.0 + nodes, now.1 + gpus);
            }
            if (now.1, now.0) > (most.1, most.0) {
                most = now;
            }
        }
        (most.0.unsigned_abs(), most.1.unsigned_abs())
    }

    /// Whether processors and memory count: jobs ask for some, and nodes have so much and no more. O(shapes + groups).
    pub fn counts_hosts(&self, workload: &Workload) -> bool {
        workload.asks_hosts() && self.has_hosts()
    }

    /// Checks that cells are of what jobs ask for: whole GPUs, wherever they lie, and nothing beside. O(shapes + groups).
    pub(super) fn goes_in_cells(&self, workload: &Workload) -> Result<()> {
        let Some(vc) = self.with_cells() else { return Ok(()) };
        let wrong =
            |what: &str| Err(Error::Cluster(format!("VC {} is guaranteed cells (guaranteed_cells), {what}", vc.name)));
        if workload.shapes.iter().any(|shape| shape.milli > 0) {
            return wrong("which are of whole GPUs, and jobs ask for parts; guarantee it GPUs (guaranteed_gpus)");
        }
        if workload.has_requests() {
            return wrong("which lie on a node, and jobs ask for blocks or racks; use --site topology=none");
        }
        if self.counts_hosts(workload) {
            return wrong("which count GPUs alone; leave processors and memory out (--site hosts=none)");
        }
        Ok(())
    }

    /// Whether it is known how many cores or how much memory any node has.
    pub fn has_hosts(&self) -> bool {
        self.pools.iter().flat_map(|pool| &pool.groups).any(|group| !group.host.is_unbounded())
    }

    /// The number of each pool's first node, over all pools. O(groups).
    pub fn first_nodes(&self) -> Vec<u32> {
        let mut first = 0u32;
        let mut firsts = Vec::with_capacity(self.pools.len());
        for pool in &self.pools {
            firsts.push(first);
            first += pool.groups.iter().map(Group::most_nodes).sum::<u32>();
        }
        firsts
    }

    /// Checks sizes, times and indices. O(cluster).
    ///
    /// # Errors
    /// Names the first pool, VC or outage that is wrong, and how.
    pub fn validate(&self) -> Result<()> {
        let wrong = |what: String| Err(Error::Cluster(what));
        if self.pools.len() > usize::from(u16::MAX) || self.vcs.len() > usize::from(u16::MAX) {
            return wrong(format!("there are more than {} pools or VCs", u16::MAX));
        }
        let nodes: u64 =
            self.pools.iter().flat_map(|pool| &pool.groups).map(|group| u64::from(group.most_nodes())).sum();
        if nodes > 10_000_000 {
            return wrong(format!("there are {nodes} nodes; at most 10,000,000 can be replayed"));
        }
        for (at, pool) in self.pools.iter().enumerate() {
            for group in &pool.groups {
                if !(1..=MAX_GPUS_PER_NODE).contains(&group.gpus_per_node) {
                    let gpus = group.gpus_per_node;
                    return wrong(format!(
                        "pool {at}: a node has {gpus} GPUs; 1 to {MAX_GPUS_PER_NODE} can be replayed"
                    ));
                }
                if group.sizes.is_empty() || !group.sizes.is_sorted_by(|a, b| a.0 < b.0) {
                    return wrong(format!("pool {at}: its sizes are not in order of time"));
                }
                if group.gpu_type.is_some_and(|known| usize::from(known) >= self.gpu_types.len()) {
                    return wrong(format!("pool {at}: its GPU type is unknown"));
                }
            }
        }
        for vc in &self.vcs {
            if usize::from(vc.pool) >= self.pools.len() {
                return wrong(format!("VC {}: its pool does not exist", vc.name));
            }
            if [&vc.quota_milli, &vc.guarantee_milli].iter().any(|amounts| !amounts.is_sorted_by(|a, b| a.0 < b.0)) {
                return wrong(format!("VC {}: its quotas or guarantees are not in order of time", vc.name));
            }
        }
        for (at, pool) in self.pools.iter().enumerate().filter(|(at, _)| self.guarantees_cells(*at)) {
            let members: Vec<&Vc> = self.vcs.iter().filter(|vc| usize::from(vc.pool) == at).collect();
            pool.check_cells(&members)?;
        }
        if self.limits.as_ref().is_some_and(|limits| limits.partitions().len() != self.vcs.len()) {
            return wrong("limits are of other partitions than there are".to_owned());
        }
        if let Some(cohorts) = &self.cohorts {
            if cohorts.rules().len() != self.vcs.len() || self.vcs.iter().any(|vc| vc.pool != 0) {
                return wrong("under cohorts every VC is a queue, and all queue for one pool".to_owned());
            }
            let types = self.gpu_types.len();
            if cohorts.flavors().iter().any(|flavor| flavor.gpu_type.is_some_and(|known| usize::from(known) >= types)) {
                return wrong("a flavor's GPU type is unknown".to_owned());
            }
        }
        let leaves = self.kai.iter().map(Hierarchy::leaves).chain(self.volcano.iter().map(VolcanoQueues::leaves));
        if leaves.into_iter().any(|leaves| leaves != self.vcs.len() || self.vcs.iter().any(|vc| vc.pool != 0)) {
            return wrong("under KAI's and Volcano's queues every VC is a leaf, and all queue for one pool".to_owned());
        }
        for outage in &self.outages {
            if u64::from(outage.node) >= nodes || outage.to_ms <= outage.from_ms {
                return wrong(format!("node {}: its outage names no node or ends before it begins", outage.node));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HostNeed, Shape};

    #[test]
    fn a_node_that_moves_is_counted_once() {
        let mut cluster = Cluster::of_vcs(&[("a", 3, 8), ("b", 2, 8)]);
        cluster.pools[0].groups[0].sizes.push((50, 2));
        cluster.pools[1].groups[0].sizes.push((50, 3));
        // Three slots each, but never more than five nodes.
        assert_eq!((cluster.most_nodes(), cluster.largest()), (6, (5, 40)));
        assert_eq!((cluster.nodes_at(49), cluster.nodes_at(50)), (5, 5));
    }

    #[test]
    fn sizes_that_were_over_before_or_come_after_are_not_counted() {
        let mut cluster = Cluster::of_vcs(&[("a", 9, 8), ("b", 2, 8)]);
        cluster.pools[0].groups[0].sizes.extend([(50, 3), (60, 4), (90, 12)]);
        assert_eq!((cluster.largest(), cluster.largest_within(55, 80)), ((14, 112), (6, 48)));
        assert_eq!((cluster.largest_within(55, 59), cluster.largest_within(0, 49)), ((5, 40), (11, 88)));
        assert_eq!([49, 60, 90].map(|now| cluster.nodes_at(now)), [11, 6, 14]);
    }

    #[test]
    fn processors_count_where_jobs_ask_for_what_nodes_have_not_without_bound() {
        let free = Cluster::of_vcs(&[("a", 1, 8)]);
        let mut bounded = free.clone();
        bounded.pools[0].groups[0].host = HostRoom { cores_milli: Some(96_000), memory_mib: None };
        let mut jobs = Workload::default();
        assert!(!bounded.counts_hosts(&jobs));
        let host = HostNeed { cores_milli: 1000, memory_mib: 0 };
        jobs.push(0, 1, Shape { host, ..Shape::whole(1) });
        assert!(bounded.counts_hosts(&jobs) && !free.counts_hosts(&jobs));
    }
}
