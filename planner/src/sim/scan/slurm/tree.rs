//! Where Slurm puts a job on a network of switches (`TopologyPlugin=topology/tree` with `select/cons_tres`, 22.05).
//!
//! # Contract
//!
//! Nodes hang on *leaf switches*, these on switches above them: the levels of the [`Topology`](crate::sim::topology::Topology), the widest first. It is followed if the narrowest level is called `leaf`, as `tracecast cluster` calls it. `fits` are the nodes of which a
//! job could have one: free enough, of its GPU type, and kept for nobody while it would run. It wants k of them.
//!
//! **One network.** A job lies below one of the widest switches: the last that has k nodes that fit. If none has, the job does not fit, however many are free elsewhere. Nodes on no switch take no job.
//!
//! **Leaf by leaf.** Of a leaf the job takes the first nodes that fit, as many as it still wants. So one after the other, until it has k. Which leaf is next: those with a node that fits, and not taken yet, are looked at in order. The first is the best so far, and a later one takes its place if
//!
//! * it is nearer to the leaves taken, and does not fit worse; or
//! * it is as near, and fits better.
//!
//! *Near* is the sum of the steps up to the switch that joins it with each leaf taken. To the first leaf all are equally near. A leaf that is farther than the best so far never takes its place, even if it alone has enough.
//!
//! *Fit*, if r nodes are still wanted: if both leaves have r, the one with fewer is better; if one has, that one. If neither has, the switches above them are held against each other by the same rule, with all nodes that fit below them when the search began; and those above these, as long as the two differ.
//! Where they are one switch, that with more nodes is better.
//!
//! **Order** of switches is that of their first node, those below one switch together. Slurm's is that of `topology.conf`, in which racks mostly stand in this order.
//!
//! So the guide's "lowest level switch that can satisfy the request" holds for one leaf. For more it does not: a job that fits below one spine may get its last node from another, if a leaf there fits it better and comes first. Jobs on a node play no part, unlike without switches.
//!
//! **What is not known.** `--switches=COUNT@DELAY` makes a job wait for at most so long (`max_switch_wait`, 5 min unless set) until it would lie on so few leaves. `sacct` has no column for it, so no job asks it here. It is no `required:leaf`, which waits for ever; jobs with such requests are refused. topology/block, of 23.11, is not replayed.
//! A switch with nodes that hangs beside wider ones counts as a branch of full height here, which makes it a step farther.
//!
//! Found by asking a real Slurm, see `planner/RESULTS.md`. O(nodes + leaves² × levels) for a job.
//!
//! Worked number: below the spine A are leaves with 2 and 3 nodes that fit, below B with 3 and 2. Six nodes: A and B have 5 each, so the first leaf with most, A's of 3, comes first. Three are wanted now. A's other leaf has 2 and is near; B's of 3 would be enough, and is farther: the job takes the 2, and its last node where 1 fits best and it is as near: B's leaf of 2.

use std::cmp::Ordering;

use crate::sim::topology::Domains;

/// Nodes that fit, by switch.
struct Switches {
    /// Of each leaf, rising.
    nodes: Vec<Vec<u32>>,
    /// Of each leaf the switch above it at each level, the widest first, and itself at the last.
    paths: Vec<Vec<u32>>,
    /// How many there are below each switch of each level.
    room: Vec<Vec<usize>>,
}

impl Switches {
    fn of(domains: &Domains, fitting: &[u32]) -> Self {
        let lowest = domains.lowest();
        let mut paths: Vec<Vec<u32>> = (0..domains.count(0) as u32).map(|switch| vec![switch]).collect();
        for level in 1..lowest {
            let below = |path: Vec<u32>| {
                let within = path.last().map_or(0..0, |switch| domains.below(level - 1, *switch));
                within.map(move |switch| [path.as_slice(), &[switch]].concat())
            };
            paths = paths.into_iter().flat_map(below).collect();
        }
        let of_leaf = |path: &Vec<u32>| -> Vec<u32> {
            let within = path.last().map_or(0..0, |leaf| domains.below(lowest - 1, *leaf));
            let nodes = &domains.nodes()[within.start as usize..within.end as usize];
            nodes.iter().copied().filter(|node| fitting.binary_search(node).is_ok()).collect()
        };
        let nodes: Vec<Vec<u32>> = paths.iter().map(of_leaf).collect();
        let mut room: Vec<Vec<usize>> = (0..lowest).map(|level| vec![0; domains.count(level)]).collect();
        for (path, nodes) in paths.iter().zip(&nodes) {
            for (room, switch) in room.iter_mut().zip(path) {
                room[*switch as usize] += nodes.len();
            }
        }
        Self { nodes, paths, room }
    }

    /// Steps up from a leaf to the switch that joins it with another.
    fn steps(&self, leaf: usize, other: usize) -> usize {
        let shared = self.paths[leaf].iter().zip(&self.paths[other]).take_while(|(a, b)| a == b).count();
        self.paths[leaf].len() - shared
    }

    /// `Less` if a leaf is better than another for so many nodes.
    fn fit(&self, leaf: usize, other: usize, wanted: usize) -> Ordering {
        let pairs = self.paths[leaf].iter().zip(&self.paths[other]);
        let mut found = Ordering::Equal;
        for ((a, b), room) in pairs.zip(&self.room).rev() {
            if a == b {
                break;
            }
            let (here, there) = (room[*a as usize], room[*b as usize]);
            match (here >= wanted, there >= wanted) {
                (true, true) => return here.cmp(&there),
                (true, false) => return Ordering::Less,
                (false, true) => return Ordering::Greater,
                (false, false) => found = there.cmp(&here),
            }
        }
        found
    }
}

/// `count` of the fitting nodes (rising), below one of the widest switches.
pub(super) fn pick(domains: &Domains, fitting: &[u32], count: usize) -> Option<Vec<u32>> {
    if fitting.len() < count || domains.nodes().is_empty() {
        return None;
    }
    let switches = Switches::of(domains, fitting);
    let root = switches.room.first()?.iter().rposition(|room| *room >= count)? as u32;
    let mut left: Vec<usize> = (0..switches.nodes.len())
        .filter(|leaf| switches.paths[*leaf].first() == Some(&root) && !switches.nodes[*leaf].is_empty())
        .collect();
    let mut steps = vec![0; switches.nodes.len()];
    let mut chosen: Vec<u32> = Vec::with_capacity(count);
    while chosen.len() < count {
        let wanted = count - chosen.len();
        let leaf = left.iter().copied().reduce(|best, leaf| {
            let fit = switches.fit(leaf, best, wanted);
            let takes = match steps[leaf].cmp(&steps[best]) {
                Ordering::Less => fit.is_le(),
                Ordering::Equal => fit.is_lt(),
                Ordering::Greater => false,
            };
            if takes { leaf } else { best }
        })?;
        let nodes = &switches.nodes[leaf];
        chosen.extend(&nodes[..wanted.min(nodes.len())]);
        left.retain(|other| *other != leaf);
        for other in &left {
            steps[*other] += switches.steps(*other, leaf);
        }
    }
    chosen.sort_unstable();
    Some(chosen)
}
