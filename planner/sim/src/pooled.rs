//! All nodes of a cluster as one pool.
//!
//! Worked number: VC a hands two of its six nodes to VC b, which has two, at 50 s: the pool has eight nodes throughout.

use std::collections::BTreeMap;

use super::cluster::{Cluster, Group, Outage, Pool, Vc};
use super::host::HostRoom;

impl Cluster {
    /// The nodes of all pools as one, which all VCs queue for, without quotas, guarantees, cohorts or limits. Groups of equal nodes become one group, so that a node
    /// that one VC hands over to another stays where it is. Nodes stay in their domains. O(groups × changes of size).
    #[must_use]
    pub fn pooled(&self) -> Self {
        let mut alike: BTreeMap<(u32, Option<u16>, HostRoom), Vec<&Group>> = BTreeMap::new();
        for group in self.pools.iter().flat_map(|pool| &pool.groups) {
            alike.entry((group.gpus_per_node, group.gpu_type, group.host)).or_default().push(group);
        }
        let groups: Vec<Group> = alike
            .into_iter()
            .map(|((gpus_per_node, gpu_type, host), groups)| Group {
                gpus_per_node,
                gpu_type,
                host,
                sizes: together(&groups),
            })
            .collect();
        let places = places(self, &groups);
        let outages = self
            .outages
            .iter()
            .filter_map(|outage| Some(Outage { node: *places.get(usize::try_from(outage.node).ok()?)?, ..*outage }))
            .collect();
        let vcs = self.vcs.iter().map(|vc| Vc::new(vc.name.clone(), 0)).collect();
        Self {
            pools: vec![Pool { groups }],
            vcs,
            gpu_types: self.gpu_types.clone(),
            outages,
            cohorts: None,
            kai: None,
            volcano: None,
            limits: None,
            topology: self.topology.as_ref().map(|topology| topology.renumbered(&places)),
        }
    }
}

/// Where each node of `cluster` stands in the groups of the one pool: among those like it, in order.
fn places(cluster: &Cluster, groups: &[Group]) -> Vec<u32> {
    let mut seen = vec![0u32; groups.len()];
    let mut places = Vec::new();
    for old in cluster.pools.iter().flat_map(|pool| &pool.groups) {
        let mut before = 0;
        for (group, seen) in groups.iter().zip(&mut seen) {
            let most = group.most_nodes();
            if (group.gpus_per_node, group.gpu_type, group.host) == (old.gpus_per_node, old.gpu_type, old.host) {
                for _ in 0..old.most_nodes() {
                    // A node that one VC handed over to another has a number in each.
                    places.push(before + *seen % most.max(1));
                    *seen += 1;
                }
            }
            before += most;
        }
    }
    places
}

/// The sum of the sizes of several groups over time. The first size of each holds from the beginning.
fn together(groups: &[&Group]) -> Vec<(i64, u32)> {
    let mut changes: BTreeMap<i64, i64> = BTreeMap::new();
    for group in groups {
        let mut before = 0;
        for (at, (from, nodes)) in group.sizes.iter().enumerate() {
            let from = if at == 0 { i64::MIN } else { *from };
            *changes.entry(from).or_default() += i64::from(*nodes) - before;
            before = i64::from(*nodes);
        }
    }
    let mut now = 0;
    let mut sizes: Vec<(i64, u32)> = changes
        .into_iter()
        .map(|(from, change)| {
            now += change;
            (from, u32::try_from(now).unwrap_or(0))
        })
        .collect();
    sizes.dedup_by_key(|(_, nodes)| *nodes);
    sizes
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn nodes_that_vcs_hand_over_stay_in_the_pool() {
        let group = |sizes: &[(i64, u32)]| Group { sizes: sizes.to_vec(), ..Group::fixed(0, 8) };
        // At 50 a hands two nodes to b.
        let (a, b) = (group(&[(5, 6), (50, 4)]), group(&[(0, 2), (50, 4), (90, 5)]));
        assert_eq!(together(&[&a, &b]), [(i64::MIN, 8), (90, 9)]);
    }

    #[test]
    fn nodes_that_fail_fail_in_the_pool_too() {
        // Nodes 0 and 1 (8 GPUs) of a, 2 (4 GPUs) and 3 (8 GPUs) of b: of one pool, the node of 4 GPUs comes first.
        let mut cluster = Cluster::of_vcs(&[("a", 2, 8), ("b", 1, 4)]);
        cluster.pools.iter_mut().skip(1).for_each(|pool| pool.groups.push(Group::fixed(1, 8)));
        cluster.outages = (0..4).map(|node| Outage { node, from_ms: 10, to_ms: 20 }).collect();
        let pool = cluster.pooled();
        assert_eq!(pool.outages.iter().map(|outage| outage.node).collect::<Vec<_>>(), [1, 2, 0, 3]);
        pool.validate().unwrap();
    }
}
