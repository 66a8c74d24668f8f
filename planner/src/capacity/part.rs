//! Parts of a cluster that do not touch one another, and the same part with more or fewer nodes.
//!
//! A part is a pool with the VCs that queue for it: jobs of one pool never wait for those of another, so each part is sized alone. Its nodes may be of
//! several kinds (groups); then nodes are added and taken away in the proportions that there are today: the next node goes to the group with the greatest
//! nodes / (2·had + 1) (Webster), so that one more node never takes one away from a group. Quotas and guarantees within a shared pool grow with its GPUs,
//! rounded up. A node that fails in the record fails as long as it is there; a further node fails as one of the record does, taken in turn. Kinds that a part has no
//! node of can be set beside its own, for a [mix](super::mix).
//!
//! O(cluster) a part. Worked number: a pool of 4 nodes of one kind and 2 of another has, with 3 nodes, 2 and 1.

use std::collections::BTreeMap;

use crate::sim::cluster::amount_at;
use crate::sim::{Cluster, Group, Outage, Pool, Vc, Workload};

/// A pool with its VCs, as it is at some moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// Name: the VC, or the VCs of the pool.
    pub name: String,
    /// Names of its VCs.
    pub vcs: Vec<String>,
    /// The pool alone, with the nodes, quotas and guarantees of that moment.
    cluster: Cluster,
    /// Nodes by group.
    now: Vec<u32>,
    /// Number of groups that have nodes; those after them are kinds that the part has no node of.
    own: usize,
    /// For each VC of the whole cluster, its number here.
    vc_of: BTreeMap<u16, u16>,
}

impl Part {
    /// The parts of a cluster as they are at `now` (milliseconds from time 0), in the order of its pools; pools without a VC or without nodes are none.
    pub fn all(cluster: &Cluster, now: i64) -> Vec<Self> {
        let firsts = cluster.first_nodes();
        let part = |(at, pool): (usize, &Pool)| {
            let members = (0u16..).zip(&cluster.vcs).filter(|(_, vc)| usize::from(vc.pool) == at);
            let fixed = |amounts: &[(i64, u64)]| match amounts {
                [] => Vec::new(),
                amounts => vec![(i64::MIN, amount_at(amounts, now))],
            };
            let (mut vcs, mut vc_of) = (Vec::new(), BTreeMap::new());
            for (new, (old, vc)) in (0u16..).zip(members) {
                vc_of.insert(old, new);
                let (quota_milli, guarantee_milli) = (fixed(&vc.quota_milli), fixed(&vc.guarantee_milli));
                vcs.push(Vc { quota_milli, guarantee_milli, ..Vc::new(vc.name.clone(), 0) });
            }
            let nodes: Vec<u32> = pool.groups.iter().map(|group| group.nodes_at(now)).collect();
            let first = firsts.get(at).copied().unwrap_or(0);
            let most: u32 = pool.groups.iter().map(Group::most_nodes).sum();
            let outages = cluster.outages.iter().filter(|outage| (first..first + most).contains(&outage.node));
            let names: Vec<String> = vcs.iter().map(|vc| vc.name.clone()).collect();
            let part = Self {
                name: match names.as_slice() {
                    [] => return None,
                    [one] => one.clone(),
                    [a, b] => format!("{a}, {b}"),
                    [a, b, rest @ ..] => format!("{a}, {b}, {} more", rest.len()),
                },
                cluster: Cluster {
                    outages: outages.map(|outage| Outage { node: outage.node - first, ..*outage }).collect(),
                    pools: vec![pool.clone()],
                    vcs,
                    gpu_types: cluster.gpu_types.clone(),
                    cohorts: None,
                    kai: None,
                    volcano: None,
                    topology: None,
                    limits: None,
                },
                vcs: names,
                own: nodes.len(),
                now: nodes,
                vc_of,
            };
            (part.nodes() > 0).then_some(part)
        };
        cluster.pools.iter().enumerate().filter_map(part).collect()
    }

    /// Number of nodes.
    pub fn nodes(&self) -> u32 {
        self.now.iter().copied().fold(0, u32::saturating_add)
    }

    /// Kinds of nodes.
    pub fn groups(&self) -> &[Group] {
        self.cluster.pools.first().map_or(&[], |pool| &pool.groups)
    }

    /// Name of a kind's GPUs.
    pub fn gpu_type(&self, group: &Group) -> Option<&str> {
        group.gpu_type.and_then(|at| self.cluster.gpu_types.get(usize::from(at))).map(String::as_str)
    }

    /// Nodes of today, by kind.
    pub fn now(&self) -> &[u32] {
        &self.now
    }

    /// Kinds that it has today; further ones stand after them.
    pub fn own_kinds(&self) -> usize {
        self.own
    }

    /// Returns the part with further kinds of nodes (GPUs of a node, and their type), of which it
    /// has none yet. O(cluster).
    #[must_use]
    pub fn with_kinds(&self, kinds: &[(u32, Option<String>)]) -> Self {
        let mut part = self.clone();
        for (gpus_per_node, name) in kinds {
            let types = &mut part.cluster.gpu_types;
            let gpu_type = name.as_ref().map(|name| {
                let known = types.iter().position(|known| known.eq_ignore_ascii_case(name));
                known.unwrap_or_else(|| {
                    types.push(name.clone());
                    types.len() - 1
                })
            });
            let gpu_type = gpu_type.and_then(|at| u16::try_from(at).ok());
            for pool in &mut part.cluster.pools {
                pool.groups.push(Group { gpu_type, ..Group::fixed(0, *gpus_per_node) });
            }
            part.now.push(0);
        }
        part
    }

    /// `nodes` nodes by kind, in the proportions of today. O(nodes × kinds) with several kinds.
    pub fn counts(&self, nodes: u32) -> Vec<u32> {
        if self.now.len() == 1 {
            return vec![nodes];
        }
        let mut counts = vec![0u32; self.now.len()];
        for _ in 0..nodes {
            let due = |at: usize| {
                let (of, had) = (self.now.get(at).copied().unwrap_or(0), counts.get(at).copied().unwrap_or(0));
                f64::from(of) / (2.0 * f64::from(had) + 1.0)
            };
            // The first of equals.
            let next = (0..counts.len()).reduce(|best, at| if due(at) > due(best) { at } else { best });
            if let Some(count) = next.and_then(|next| counts.get_mut(next)) {
                *count += 1;
            }
        }
        counts
    }

    /// GPUs of `nodes` nodes.
    pub fn gpus(&self, nodes: u32) -> u64 {
        self.gpus_of(&self.counts(nodes))
    }

    /// GPUs of so many nodes by kind.
    pub fn gpus_of(&self, counts: &[u32]) -> u64 {
        let of = |(group, nodes): (&Group, &u32)| u64::from(group.gpus_per_node) * u64::from(*nodes);
        self.groups().iter().zip(counts).map(of).sum()
    }

    /// Fewest nodes with at least so many GPUs.
    pub fn nodes_for(&self, gpus: f64) -> u32 {
        let each = self.gpus(self.nodes()) as f64 / f64::from(self.nodes().max(1));
        let mut nodes = ((gpus / each.max(1.0)).ceil() as u32).max(1);
        while nodes > 1 && self.gpus(nodes - 1) as f64 >= gpus {
            nodes -= 1;
        }
        while (self.gpus(nodes) as f64) < gpus {
            nodes += 1;
        }
        nodes
    }

    /// The part with `nodes` nodes, throughout.
    pub fn with(&self, nodes: u32) -> Cluster {
        self.with_counts(&self.counts(nodes))
    }

    /// The part with so many nodes by kind, throughout. A further kind that there is no node of is left out, so that gangs are cut as on the nodes
    /// that there are; today's kinds are not, so that what one of today's nodes holds goes to one node.
    pub fn with_counts(&self, counts: &[u32]) -> Cluster {
        let (has, had) = (self.gpus_of(counts), self.gpus_of(&self.now).max(1));
        let mut cluster = self.cluster.clone();
        cluster.outages = self.outages(counts);
        for pool in &mut cluster.pools {
            for (group, count) in pool.groups.iter_mut().zip(counts) {
                group.sizes = vec![(i64::MIN, *count)];
            }
            let mut at = 0;
            pool.groups.retain(|group| {
                at += 1;
                at <= self.own || group.most_nodes() > 0
            });
        }
        for vc in &mut cluster.vcs {
            for (_, milli) in vc.quota_milli.iter_mut().chain(&mut vc.guarantee_milli) {
                let scaled = u128::from(*milli) * u128::from(has);
                *milli = u64::try_from(scaled.div_ceil(u128::from(had))).unwrap_or(u64::MAX);
            }
        }
        cluster
    }

    /// Failures of so many nodes by kind.
    fn outages(&self, counts: &[u32]) -> Vec<Outage> {
        let mut result = Vec::new();
        let all: u32 = self.groups().iter().map(Group::most_nodes).fold(0, u32::saturating_add);
        let (mut first_old, mut first_new) = (0u32, 0u32);
        for (group, count) in self.groups().iter().zip(counts) {
            let known = group.most_nodes();
            // A kind without a record fails as the nodes of the others do.
            let (first, known) = if known > 0 { (first_old, known) } else { (0, all) };
            for outage in &self.cluster.outages {
                let Some(rank) = outage.node.checked_sub(first).filter(|rank| *rank < known) else { continue };
                result.extend(
                    (rank..*count)
                        .step_by(known.max(1) as usize)
                        .map(|rank| Outage { node: first_new + rank, ..*outage }),
                );
            }
            (first_old, first_new) = (first_old + group.most_nodes(), first_new + count);
        }
        result
    }

    /// Returns the part with the failures known at `now` (milliseconds from time 0): those that had
    /// begun, until then at most, and the nodes that had been there. O(failures).
    pub fn known_at(&self, now: i64) -> Self {
        let mut known = self.clone();
        for group in known.cluster.pools.iter_mut().flat_map(|pool| &mut pool.groups) {
            let later = group.sizes.partition_point(|(from, _)| *from <= now).max(1);
            group.sizes.truncate(later);
        }
        known.cluster.outages.clear();
        let (mut first_old, mut first_new) = (0u32, 0u32);
        for (group, then) in self.groups().iter().zip(known.groups().to_vec()) {
            let (nodes, nodes_then) = (group.most_nodes(), then.most_nodes());
            let begun = self.cluster.outages.iter().filter(|outage| outage.from_ms < now);
            let of_group = begun.filter_map(|outage| {
                let rank = outage.node.checked_sub(first_old).filter(|rank| *rank < nodes_then)?;
                Some(Outage { node: first_new + rank, to_ms: outage.to_ms.min(now), ..*outage })
            });
            known.cluster.outages.extend(of_group);
            (first_old, first_new) = (first_old + nodes, first_new + nodes_then);
        }
        known
    }

    /// Jobs of the part, by position.
    pub fn members(&self, workload: &Workload) -> Vec<u32> {
        let mine = |job: &u32| workload.vc.get(*job as usize).is_some_and(|vc| self.vc_of.contains_key(vc));
        (0u32..).take(workload.len()).filter(mine).collect()
    }

    /// Jobs of the part, with VCs as it numbers them.
    pub fn jobs(&self, workload: &Workload) -> Workload {
        let mut part = workload.only(&self.members(workload));
        for vc in &mut part.vc {
            *vc = self.vc_of.get(vc).copied().unwrap_or(0);
        }
        part
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use crate::sim::{Shape, Warm};

    #[test]
    fn nodes_keep_their_proportions_and_none_is_taken_away() {
        let mut cluster = Cluster::of_vcs(&[("a", 4, 8)]);
        cluster.pools[0].groups.push(Group::fixed(2, 4));
        let part = Part::all(&cluster, 0).remove(0);
        assert_eq!((part.counts(3), part.counts(6), part.counts(12)), (vec![2, 1], vec![4, 2], vec![8, 4]));
        for nodes in 0..40 {
            let (now, then) = (part.counts(nodes), part.counts(nodes + 1));
            assert!(now.iter().zip(&then).all(|(now, then)| now <= then));
        }
        assert_eq!((part.gpus(6), part.nodes_for(40.0), part.nodes_for(41.0)), (40, 6, 7));
    }

    #[test]
    fn failures_and_nodes_of_later_are_not_known_before() {
        let mut cluster = Cluster::of_vcs(&[("a", 2, 8)]);
        cluster.pools[0].groups[0].sizes.push((50, 4));
        cluster.pools[0].groups.push(Group::fixed(1, 4));
        let outage = |node: u32, from_ms: i64, to_ms: i64| Outage { node, from_ms, to_ms };
        // Nodes 0 to 3 are of the first kind, of which two are there before 50; node 4 is of the second.
        cluster.outages =
            vec![outage(0, 5, 9), outage(1, 30, 60), outage(1, 40, 45), outage(3, 55, 58), outage(4, 39, 70)];
        let part = Part::all(&cluster, 60).remove(0);
        let known = part.known_at(40);
        assert_eq!(known.cluster.outages, [outage(0, 5, 9), outage(1, 30, 40), outage(2, 39, 40)]);
        assert_eq!((known.nodes(), part.known_at(100).cluster), (part.nodes(), part.cluster.clone()));
    }

    #[test]
    fn a_part_has_its_own_nodes_jobs_quotas_and_failures() {
        let mut cluster = Cluster::of_vcs(&[("a", 2, 8), ("b", 3, 8)]);
        cluster.vcs.push(Vc { quota_milli: vec![(0, 10_000)], ..Vc::new("c", 1) });
        cluster.pools[1].groups[0].sizes.push((50, 4));
        cluster.outages.push(Outage { node: 3, from_ms: 5, to_ms: 9 });
        let mut jobs = Workload::default();
        for (at, vc) in [1u16, 0, 2].into_iter().enumerate() {
            jobs.push(at as i64, 10, Shape::whole(1));
            *jobs.vc.last_mut().unwrap() = 0;
            jobs.vc.resize(at + 1, 0);
            jobs.vc[at] = vc;
        }
        jobs.warm.push(Warm { job: 2, start_ms: -1 });
        let parts = Part::all(&cluster, 60);
        assert_eq!(
            parts.iter().map(|part| (part.name.as_str(), part.nodes())).collect::<Vec<_>>(),
            [("a", 2), ("b, c", 4)]
        );
        let own = parts[1].jobs(&jobs);
        assert_eq!((own.submit_ms.clone(), own.vc.clone(), own.warm[0].job), (vec![0, 2], vec![0, 1], 1));
        let twice = parts[1].with(8);
        assert_eq!(twice.vcs[1].quota_milli[0].1, 20_000);
        // Node 1 of the part fails, and so does the further node 5; with one node none does.
        assert_eq!(twice.outages.iter().map(|outage| outage.node).collect::<Vec<_>>(), [1, 5]);
        assert!(parts[1].with(1).outages.is_empty() && parts[0].with(9).outages.is_empty());
        twice.validate().unwrap();
        own.validate(2).unwrap();
    }
}
