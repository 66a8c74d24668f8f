//! Failures of nodes, as a trace records them: when nodes are out, and which runs of jobs that ended.
//!
//! A node is out while `capacity` says that it is `down`. The replay repeats that: jobs on it end and run again from the
//! beginning. So a run that such a failure cut short is not part of what its job needs, as the replay cuts it short again.
//! O(rows of capacity, nodes and attempts). Worked number: a job ran 100 s until its node failed, then 300 s to its end: it needs
//! 300 s, and the replay, in which the node fails as well, has it hold GPUs for 400 s.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tracecast_analytics::Trace;
use tracecast_analytics::ingest::slurm::hostlist;
use tracecast_analytics::schema::{JobState, Table};

use super::host;
use tracecast_sim::cluster::{Cluster, Outage};

/// State of a node that has failed, in `capacity`.
const DOWN: &str = "down";
/// Nodes of one attempt that are looked at.
const MOST_NODES: usize = 100_000;

/// When each node is down: (node, from, to), milliseconds since the Unix epoch.
fn downs(trace: &Trace) -> impl Iterator<Item = (&str, i64, i64)> {
    let capacity = &trace.capacity;
    (0..capacity.len()).filter_map(|row| {
        if capacity.scope.get(row) != Some("node") || capacity.state.get(row) != Some(DOWN) {
            return None;
        }
        let from = capacity.from.get(row)?;
        // Without an end it is out for good.
        let to = capacity.to.get(row).unwrap_or(i64::MAX / 4);
        (to > from).then_some((capacity.name.get(row)?, from, to))
    })
}

/// The number that each node of the inventory has in the trace's own cluster: nodes are those of the inventory, in order, of each VC (or of all, where they belong to none). O(nodes × groups).
pub(super) fn numbers<'t>(trace: &'t Trace, cluster: &Cluster) -> HashMap<&'t str, u32> {
    let shared = cluster.pools.len() == 1 && cluster.vcs.len() > 1;
    let firsts = cluster.first_nodes();
    let pool_of: BTreeMap<&str, usize> =
        cluster.vcs.iter().map(|vc| (vc.name.as_str(), usize::from(vc.pool))).collect();
    let mut ranks: BTreeMap<(usize, usize), u32> = BTreeMap::new();
    let mut numbers: HashMap<&str, u32> = HashMap::new();
    let nodes = &trace.nodes;
    let rooms = host::rooms(trace);
    for row in 0..nodes.len() {
        let (Some(name), Some(gpus)) = (nodes.node.get(row), nodes.gpus.get(row)) else { continue };
        let of_vc = nodes.vc.get(row).and_then(|vc| pool_of.get(vc).copied());
        let Some(pool) = of_vc.or_else(|| (shared || cluster.vcs.len() == 1).then_some(0)) else { continue };
        let Some(groups) = cluster.pools.get(pool).map(|pool| &pool.groups) else { continue };
        let type_of = |at: u16| cluster.gpu_types.get(usize::from(at)).map(String::as_str);
        let is_own = |group: &tracecast_sim::Group| {
            f64::from(group.gpus_per_node) == gpus
                && group.gpu_type.is_none_or(|at| type_of(at) == nodes.gpu_type.get(row))
        };
        // Of groups that only processors and memory tell apart, that of its own.
        let has = |group: &tracecast_sim::Group| group.host.is_unbounded() || Some(&group.host) == rooms.get(row);
        let alone = groups.iter().filter(|group| is_own(group)).count() == 1;
        let Some(at) = groups.iter().position(|group| is_own(group) && (alone || has(group))) else { continue };
        let rank = ranks.entry((pool, at)).or_default();
        if *rank < groups.get(at).map_or(0, tracecast_sim::Group::most_nodes) {
            let before: u32 = groups.iter().take(at).map(tracecast_sim::Group::most_nodes).sum();
            numbers.insert(name, firsts.get(pool).copied().unwrap_or(0) + before + *rank);
        }
        *rank += 1;
    }
    numbers
}

/// Adds the failures of `trace` to its own nodes. How many were added.
pub(super) fn add(trace: &Trace, cluster: &mut Cluster, origin_ms: i64) -> usize {
    let numbers = numbers(trace, cluster);
    let outage = |(name, from, to): (&str, i64, i64)| {
        let (from_ms, to_ms) = (from.saturating_sub(origin_ms), to.saturating_sub(origin_ms));
        Some(Outage { node: *numbers.get(name)?, from_ms, to_ms })
    };
    let outages: Vec<Outage> = downs(trace).filter_map(outage).filter(|outage| outage.to_ms > 0).collect();
    let added = outages.len();
    cluster.outages.extend(outages);
    added
}

/// The runs of a job that has several, with the failures of nodes taken into account.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Runs {
    /// Runs that no failure of a node cut short, together, milliseconds.
    whole_ms: i64,
    /// The longest that one did.
    longest_cut_ms: i64,
}

impl Runs {
    /// Least run that the job needs, milliseconds: longer than any run that was cut short.
    pub(super) fn needs_ms(self) -> i64 {
        self.whole_ms.max(self.longest_cut_ms + 1)
    }
}

/// Jobs of which a failure that the replay repeats cut a run short, by identifier. `until_ms` ends a run that still lasts.
pub(super) fn cut_short(trace: &Trace, until_ms: i64) -> HashMap<&str, Runs> {
    let mut fails: HashMap<&str, BTreeSet<i64>> = HashMap::new();
    for (node, from, _) in downs(trace) {
        fails.entry(node).or_default().insert(from);
    }
    let mut cut: HashMap<&str, (Runs, bool)> = HashMap::new();
    if fails.is_empty() {
        return HashMap::new();
    }
    let attempts = &trace.attempts;
    for row in 0..attempts.len() {
        let (Some(key), Some(start)) = (attempts.job_key.get(row), attempts.start.get(row)) else { continue };
        let end = attempts.end.get(row).unwrap_or(until_ms);
        let failed = attempts.end_reason.get(row).map(JobState::from_id) == Some(JobState::NodeFail);
        let by_outage = failed
            && attempts.nodes_hostlist.get(row).is_some_and(|list| {
                let names = hostlist::expand(list, MOST_NODES).unwrap_or_default();
                names.iter().any(|name| fails.get(name.as_str()).is_some_and(|at| at.contains(&end)))
            });
        let (runs, any) = cut.entry(key).or_default();
        let ran = (end - start).max(0);
        if by_outage {
            runs.longest_cut_ms = runs.longest_cut_ms.max(ran);
            *any = true;
        } else {
            runs.whole_ms += ran;
        }
    }
    cut.into_iter().filter(|(_, (_, any))| *any).map(|(key, (runs, _))| (key, runs)).collect()
}
