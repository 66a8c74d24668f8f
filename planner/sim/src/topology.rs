//! Topology of nodes, and requests of jobs for nearness: blocks, racks, and requests for them.
//!
//! Nodes lie in *domains* of *levels*, the widest level first: a cluster of blocks, blocks of racks. Domains are nested: all nodes of a rack are of one
//! block. Below all levels that have a name comes the node itself, the lowest level. A node may lie in no domain (in Kubernetes: it lacks a label); it takes no job that has a
//! [`TopologyRequest`]. What is done with a request stands in the module `place::domain`.
//!
//! Checked in O(nodes × levels). Worked number: 64 nodes in racks of 8 and blocks of 4 racks are 8 racks and 2 blocks; node 35 lies in rack 4, which is the first of
//! block 1.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::error::{Error, Result};

/// Name of the lowest level, the node itself.
pub const NODE: &str = "node";
/// Name of the level of leaf switches of a Slurm cluster.
pub const LEAF: &str = "leaf";
/// Levels with a name there may be: Kueue allows eight, the node among them.
pub const MOST_LEVELS: usize = 8;

/// Nearness of the nodes of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Nearness {
    /// In one domain of this level; else the job waits.
    Required(u8),
    /// In one domain of this level, else of the nearest wider one, else in as few as it takes of the widest.
    Preferred(u8),
    /// Anywhere, wherever least is free.
    Unconstrained,
}

/// Pods of a job that must lie together, in groups of equal size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slices {
    /// The level of which each group has one domain.
    pub level: u8,
    /// Pods of a group, at least 1.
    pub pods: u16,
}

/// Topology request of a job: Kueue's `topologyRequest`. Levels are indices into
/// [`Topology::levels`]; the number after the last is the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopologyRequest {
    /// Nearness of the job's nodes.
    pub nearness: Nearness,
    /// Groups of its pods that must lie nearer still.
    pub slices: Option<Slices>,
}

impl TopologyRequest {
    /// Requests all nodes in one domain of a level.
    pub fn required(level: u8) -> Self {
        Self { nearness: Nearness::Required(level), slices: None }
    }

    /// Requests one domain of a level if that can be.
    pub fn preferred(level: u8) -> Self {
        Self { nearness: Nearness::Preferred(level), slices: None }
    }

    /// Requests nothing: nodes may lie anywhere.
    pub fn unconstrained() -> Self {
        Self { nearness: Nearness::Unconstrained, slices: None }
    }

    /// Adds groups of `pods` in one domain of `level` each.
    #[must_use]
    pub fn sliced(self, level: u8, pods: u16) -> Self {
        Self { slices: Some(Slices { level, pods }), ..self }
    }
}

/// The domains of all nodes of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Topology {
    levels: Vec<String>,
    /// By node, numbered over all pools, its domain of each level; `None` if it lies in none.
    domains: Vec<Option<Vec<u32>>>,
    /// Whether Slurm's choice of nodes follows the topology.
    followed: bool,
    /// Switches that are not there: of each the level, and the domain, for which the switch of the same name below stands.
    stood_for: BTreeSet<(u8, u32)>,
}

impl Topology {
    /// Domains of nodes, numbered over all pools of a cluster: for each node one of each of `levels`, the widest first, or `None`. Nodes beyond the list lie in none.
    ///
    /// # Errors
    /// If there are no levels or too many, two have one name, one is called as the node is, a node has another number of domains than there are levels, or domains are not nested.
    pub fn new(levels: Vec<String>, domains: Vec<Option<Vec<u32>>>) -> Result<Self> {
        let wrong = |what: String| Err(Error::Cluster(what));
        if levels.is_empty() || levels.len() >= MOST_LEVELS {
            return wrong(format!(
                "the topology has {} levels; there may be 1 to {}, beside the node",
                levels.len(),
                MOST_LEVELS - 1
            ));
        }
        if let Some(level) = levels.iter().find(|level| level.as_str() == NODE || level.is_empty()) {
            return wrong(format!("a level of the topology is called `{level}`; name blocks, racks or the like"));
        }
        if let Some((_, level)) = levels.iter().enumerate().find(|(at, level)| levels[..*at].contains(level)) {
            return wrong(format!("two levels of the topology are called `{level}`"));
        }
        let mut parents: BTreeMap<(usize, u32), Option<u32>> = BTreeMap::new();
        for (node, of) in domains.iter().enumerate().filter_map(|(node, of)| Some((node, of.as_ref()?))) {
            if of.len() != levels.len() {
                return wrong(format!("node {node}: it has {} domains of {} levels", of.len(), levels.len()));
            }
            for (level, domain) in of.iter().enumerate() {
                let parent = level.checked_sub(1).map(|above| of[above]);
                if *parents.entry((level, *domain)).or_insert(parent) != parent {
                    let (inner, outer) = (&levels[level], &levels[level.saturating_sub(1)]);
                    return wrong(format!("node {node}: its {inner} lies in two domains of the level {outer}"));
                }
            }
        }
        let followed = levels.last().is_some_and(|level| level == LEAF);
        Ok(Self { levels, domains, followed, stood_for: BTreeSet::new() })
    }

    /// `nodes` nodes in order, of which `sizes[level]` make a domain: nodes for the narrowest level, domains of the next for the others.
    ///
    /// # Errors
    /// Errors of [`Topology::new`], and if there is not one size above 0 for each level.
    pub fn regular(levels: Vec<String>, sizes: &[u32], nodes: u32) -> Result<Self> {
        if sizes.len() != levels.len() || sizes.contains(&0) {
            return Err(Error::Cluster("the topology needs one size above 0 for each of its levels".to_owned()));
        }
        // Nodes of a domain of each level.
        let mut each: Vec<u64> = vec![1; sizes.len()];
        let mut all = 1u64;
        for (each, size) in each.iter_mut().zip(sizes).rev() {
            all = all.saturating_mul(u64::from(*size));
            *each = all;
        }
        let of = |node: u32| Some(each.iter().map(|each| (u64::from(node) / each) as u32).collect());
        Self::new(levels, (0..nodes).map(of).collect())
    }

    /// Where each node lies by name, the widest level first. A name is of one domain only within the same wider one. A domain called as the one below it is no switch of its own: that below stands for it.
    ///
    /// # Errors
    /// Errors of [`Topology::new`].
    pub fn of_names(levels: Vec<String>, paths: &[Option<Vec<&str>>]) -> Result<Self> {
        let mut known: BTreeMap<&[&str], u32> = BTreeMap::new();
        let mut domains = Vec::with_capacity(paths.len());
        let mut stood_for = BTreeSet::new();
        for path in paths {
            domains.push(path.as_ref().map(|path| {
                let number = |depth: usize| {
                    let next = known.len() as u32;
                    *known.entry(&path[..depth]).or_insert(next)
                };
                let numbers = (1..=path.len()).map(number).collect::<Vec<u32>>();
                let pairs = (0u8..).zip(path.windows(2)).zip(&numbers);
                stood_for
                    .extend(pairs.filter(|((_, pair), _)| pair[0] == pair[1]).map(|((level, _), of)| (level, *of)));
                numbers
            }));
        }
        Ok(Self { stood_for, ..Self::new(levels, domains)? })
    }

    /// Names of the levels, the widest first, without the node.
    pub fn levels(&self) -> &[String] {
        &self.levels
    }

    /// Whether Slurm's choice of nodes follows the topology: the narrowest level is called
    /// [`LEAF`], and nobody turned that off.
    pub fn is_of_switches(&self) -> bool {
        self.followed
    }

    /// Returns the topology, not followed by Slurm's choice of nodes.
    #[must_use]
    pub fn unfollowed(self) -> Self {
        Self { followed: false, ..self }
    }

    /// The number of the level below all that have a name: the node.
    pub fn node_level(&self) -> u8 {
        self.levels.len() as u8
    }

    /// Returns the name of a level.
    pub fn name(&self, level: u8) -> &str {
        self.levels.get(usize::from(level)).map_or(NODE, String::as_str)
    }

    /// The level of a name; `None` if there is none.
    pub fn level(&self, name: &str) -> Option<u8> {
        if name == NODE {
            return Some(self.node_level());
        }
        self.levels.iter().position(|level| level == name).map(|at| at as u8)
    }

    /// Whether a domain of a level is no switch of its own, as one below stands for it.
    pub fn is_stood_for(&self, level: u8, domain: u32) -> bool {
        self.stood_for.contains(&(level, domain))
    }

    /// The domain of a node at a level, the node itself at the lowest; `None` if it lies in none.
    pub fn domain(&self, node: u32, level: u8) -> Option<u32> {
        let of = self.domains.get(node as usize)?.as_ref()?;
        Some(of.get(usize::from(level)).copied().unwrap_or(node))
    }

    /// How many domains there are of a level with a name.
    pub fn count(&self, level: u8) -> usize {
        let all = self.domains.iter().flatten().filter_map(|of| of.get(usize::from(level)));
        all.collect::<BTreeSet<_>>().len()
    }

    /// Nodes that the list knows of.
    pub fn nodes(&self) -> usize {
        self.domains.len()
    }

    /// Nodes of the list that lie in a domain.
    pub fn placed(&self) -> usize {
        self.domains.iter().flatten().count()
    }

    /// Returns the topology for nodes that have other numbers: `places[old]` is the new one. Of
    /// several with one number the first counts.
    pub(crate) fn renumbered(&self, places: &[u32]) -> Self {
        let most = places.iter().max().map_or(0, |most| *most as usize + 1);
        let mut domains: Vec<Option<Vec<u32>>> = vec![None; most];
        for (of, place) in self.domains.iter().zip(places) {
            let to = &mut domains[*place as usize];
            if to.is_none() {
                to.clone_from(of);
            }
        }
        Self { domains, levels: self.levels.clone(), stood_for: self.stood_for.clone(), ..*self }
    }

    /// Checks what a job asks for.
    ///
    /// # Errors
    /// If a level does not exist, or slices are of a wider level than the job's own, or of no pod.
    pub(crate) fn check(&self, request: TopologyRequest) -> Result<()> {
        let wrong = |what: &str| Err(Error::Cluster(what.to_owned()));
        let own = match request.nearness {
            Nearness::Required(level) | Nearness::Preferred(level) => level,
            Nearness::Unconstrained => 0,
        };
        let inner = request.slices.map_or(own, |slices| slices.level);
        if own.max(inner) > self.node_level() {
            return wrong("jobs ask for a level that the topology does not have");
        }
        if inner < own {
            return wrong("slices of a job are to lie in a wider domain than the job");
        }
        if request.slices.is_some_and(|slices| slices.pods == 0) {
            return wrong("a slice of a job has no pod");
        }
        Ok(())
    }
}

/// The domains of the nodes of one pool, as placement looks at them: at each level numbered so that those within one domain follow each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Domains {
    /// For each level with a name, where the domains (at the last, the nodes) within each domain begin at the level below; one more entry at the end.
    within: Vec<Vec<u32>>,
    /// Nodes of the pool, in the order of the domains.
    nodes: Vec<u32>,
    /// Domains of each level that are no switches of their own.
    stood_for: BTreeSet<(usize, u32)>,
}

impl Domains {
    /// Takes the domains of the nodes `first..first + count`. Domains are in the order of their
    /// first node, those of one domain together. O(nodes × levels × log nodes).
    pub(crate) fn new(topology: &Topology, first: u32, count: u32) -> Self {
        let levels = topology.levels.len();
        // Of each domain its first node.
        let mut firsts: BTreeMap<(u8, u32), u32> = BTreeMap::new();
        let mut paths: Vec<(Vec<u32>, u32)> = Vec::new();
        for node in 0..count {
            let mut path = Vec::with_capacity(levels);
            for level in 0..topology.node_level() {
                let Some(domain) = topology.domain(first + node, level) else { break };
                path.push(*firsts.entry((level, domain)).or_insert(node));
            }
            if path.len() == levels {
                paths.push((path, node));
            }
        }
        paths.sort_unstable();
        let mut within = Vec::with_capacity(levels);
        let mut stood_for = BTreeSet::new();
        for level in 0..levels {
            let same = |a: &(Vec<u32>, u32), b: &(Vec<u32>, u32), depth: usize| a.0[..depth] == b.0[..depth];
            let mut starts = vec![0];
            let mut below = 0;
            for (at, path) in paths.iter().enumerate() {
                let before = at.checked_sub(1).map(|before| &paths[before]);
                let begins = |depth: usize| before.is_none_or(|before| !same(before, path, depth));
                if at > 0 && begins(level + 1) {
                    starts.push(below);
                }
                let own = topology.domain(first + path.1, level as u8);
                if own.is_some_and(|own| topology.is_stood_for(level as u8, own)) {
                    stood_for.insert((level, starts.len() as u32 - 1));
                }
                if level + 1 == levels || begins(level + 2) {
                    below += 1;
                }
            }
            if !paths.is_empty() {
                starts.push(below);
            }
            within.push(starts);
        }
        Self { within, nodes: paths.into_iter().map(|(_, node)| node).collect(), stood_for }
    }

    /// The lowest level, the node.
    pub(crate) fn lowest(&self) -> usize {
        self.within.len()
    }

    /// How many there are of a level.
    pub(crate) fn count(&self, level: usize) -> usize {
        self.within.get(level).map_or(self.nodes.len(), |starts| starts.len() - 1)
    }

    /// Whether a domain of a level is no switch of its own, as one below stands for it.
    pub(crate) fn is_stood_for(&self, level: usize, domain: u32) -> bool {
        self.stood_for.contains(&(level, domain))
    }

    /// Returns the domains, or nodes, of a domain at the level below.
    pub(crate) fn below(&self, level: usize, domain: u32) -> Range<u32> {
        let starts = self.within.get(level);
        let at = |at: usize| starts.and_then(|starts| starts.get(at)).copied().unwrap_or(0);
        at(domain as usize)..at(domain as usize + 1)
    }

    /// Which of [`Domains::nodes`] lie in a domain of a level. O(levels).
    pub(crate) fn span(&self, level: usize, domain: u32) -> Range<usize> {
        let mut span = domain..domain + 1;
        for level in level..self.lowest() {
            span = self.below(level, span.start).start..self.below(level, span.end.saturating_sub(1)).end;
        }
        span.start as usize..span.end as usize
    }

    /// Nodes of the pool that lie in domains, in their order.
    pub(crate) fn nodes(&self) -> &[u32] {
        &self.nodes
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn named(levels: &[&str]) -> Vec<String> {
        levels.iter().map(|level| (*level).to_owned()).collect()
    }

    #[test]
    fn racks_are_filled_in_order() {
        let topology = Topology::regular(named(&["block", "rack"]), &[4, 8], 64).unwrap();
        assert_eq!(
            (topology.domain(35, 0), topology.domain(35, 1), topology.domain(35, 2)),
            (Some(1), Some(4), Some(35))
        );
        assert_eq!((topology.count(0), topology.count(1), topology.level("node")), (2, 8, Some(2)));
        let domains = Domains::new(&topology, 0, 64);
        assert_eq!((domains.count(0), domains.count(1), domains.count(2)), (2, 8, 64));
        assert_eq!((domains.below(0, 1), domains.below(1, 4)), (4..8, 32..40));
        assert_eq!((domains.span(0, 1), domains.span(1, 4), domains.span(2, 35)), (32..64, 32..40, 35..36));
        // A pool that begins within a rack has part of it.
        let part = Domains::new(&topology, 4, 8);
        assert_eq!((part.count(0), part.count(1), part.below(1, 0), part.below(1, 1)), (1, 2, 0..4, 4..8));
    }

    #[test]
    fn domains_come_together_whatever_the_order_of_nodes() {
        // Nodes of rack 7 (block 1), 3 (block 0), none, 7, 5 (block 1), 3.
        let of = |block, rack| Some(vec![block, rack]);
        let list = vec![of(1, 7), of(0, 3), None, of(1, 7), of(1, 5), of(0, 3)];
        let topology = Topology::new(named(&["block", "rack"]), list).unwrap();
        let domains = Domains::new(&topology, 0, 6);
        assert_eq!(domains.nodes(), [0, 3, 4, 1, 5]);
        assert_eq!((domains.below(0, 0), domains.below(0, 1)), (0..2, 2..3));
        assert_eq!((domains.below(1, 0), domains.below(1, 1), domains.below(1, 2)), (0..2, 2..3, 3..5));
    }

    /// The leaf s2 hangs on the core itself, beside the spine t: it stands for a spine that is not there.
    #[test]
    fn switches_are_followed_and_those_that_are_not_there_known() {
        let switches = |levels: &[&str]| {
            let paths = [["core", "t", "s1"], ["core", "s2", "s2"]].map(|path| Some(path.to_vec()));
            Topology::of_names(named(levels), &paths).unwrap()
        };
        let topology = switches(&["core", "spine", "leaf"]);
        let is_stood_for = |node: u32| {
            let of = |level: u8| topology.is_stood_for(level, topology.domain(node, level).unwrap());
            [0, 1, 2].map(of)
        };
        assert_eq!((is_stood_for(0), is_stood_for(1)), ([false; 3], [false, true, false]));
        let domains = Domains::new(&topology, 0, 2);
        assert_eq!([0, 1].map(|spine| domains.is_stood_for(1, spine)), [false, true]);
        assert!(topology.is_of_switches() && topology.renumbered(&[1, 0]).is_of_switches());
        assert!(!topology.unfollowed().is_of_switches() && !switches(&["core", "block", "rack"]).is_of_switches());
    }

    #[test]
    fn what_is_no_tree_is_refused() {
        let told = |levels: &[&str], list| Topology::new(named(levels), list).unwrap_err().to_string();
        let twice = vec![Some(vec![0, 1]), Some(vec![1, 1])];
        assert!(told(&["block", "rack"], twice).contains("its rack lies in two domains of the level block"));
        assert!(told(&["rack", "rack"], Vec::new()).contains("two levels"));
        assert!(told(&["node"], Vec::new()).contains("is called `node`"));
        assert!(told(&[], Vec::new()).contains("0 levels"));
        assert!(told(&["rack"], vec![Some(vec![0, 1])]).contains("2 domains of 1 levels"));
        assert!(Topology::regular(named(&["rack"]), &[0], 4).is_err());
    }
}
