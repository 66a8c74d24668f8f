//! Where Slurm puts a job on a network of switches (`TopologyPlugin=topology/tree` with `select/cons_tres`, 22.05).
//!
//! # Contract
//!
//! Nodes hang on *leaf switches*, these on switches above them: the levels of the [`Topology`](crate::topology::Topology), the widest first. It is followed if the narrowest level is called `leaf`, as `tracecast cluster` calls it. A leaf may hang on a
//! wide switch beside narrower ones; it stands for those that it lacks ([`is_stood_for`](crate::topology::Topology::is_stood_for)), which are not there. `Fits` is said of nodes of which a job could have one: free enough, of its GPU type, and kept for nobody while it would run. It wants k of them.
//!
//! **One network.** A job lies below one of the switches that have none above them, which has k nodes that fit: one of the widest level, of equals the last. If none has, the job does not fit, however many nodes are free. Nodes on no switch take no job. A job for which no network would ever do is rejected.
//!
//! **Leaf by leaf.** Of a leaf the job takes the first nodes that fit, as many as it still wants. So one after the other, until it has k. Which leaf is next: those with a node that fits, and not taken yet, are looked at in order. The first is the best so far, and a later one takes its place if
//!
//! * it is nearer to the leaves taken, and does not fit worse; or
//! * it is as near, and fits better.
//!
//! *Near* is the sum of the steps, up and down, to each leaf taken. At first all are equally near. A leaf that is farther than the best so far never takes its place, even if it alone has enough.
//!
//! *Fit* of two leaves, if r nodes are still wanted: if both have r that fit, the one with fewer is better, and equals are equal; if one has, that one. If neither has, the switches above them are held against each other in the same way, with all nodes that fitted below them at first, and so on up; the widest stays itself.
//! Where both come to the same switch, or are both the widest, the last two decide: more nodes are better; of as many, the switch of the lower level.
//!
//! **Order** of switches is that of their first node, those below one switch together. Slurm's is that of `topology.conf`, in which racks mostly stand in this order.
//!
//! So the documented "lowest level switch that can satisfy the request" holds for one leaf. For more leaves it does not: a job that fits below one spine may get its last node from another, if a leaf there fits it better and comes first. How many jobs are on a node plays no part, unlike without switches.
//!
//! **What is not known.** `--switches=COUNT@DELAY` makes a job wait for at most so long (`max_switch_wait`, 5 min unless set) until it would lie on so few leaves. `sacct` has no column for it, so no job asks it here. It is no `required:leaf`, which waits for ever; jobs with such requests are refused. topology/block, of 23.11, is not replayed.
//!
//! Found by asking a real Slurm; how often this gives its answer stands in `planner/RESULTS.md`. O(nodes × log nodes + leaves² × levels) for a job.
//!
//! Worked number: below the spine A are leaves with 2 and 3 nodes that fit, below B with 3 and 2, both below a core. Six nodes: A and B have 5 each, so A's leaf of 3 comes first. Three are wanted now. A's other leaf has 2 and is near; B's of 3 would be enough, and is farther: the job takes the 2. Its last node is taken where one fits best: from B's leaf of 2.

use std::cmp::Ordering;

use crate::topology::Domains;

/// A switch: its level and its domain.
type Switch = (usize, u32);

/// Nodes that fit, by switch.
struct Switches {
    /// Nodes of each leaf, rising.
    nodes: Vec<Vec<u32>>,
    /// Each leaf and the switches above it, the widest last.
    chains: Vec<Vec<Switch>>,
    /// How many there are below each switch of each level.
    room: Vec<Vec<usize>>,
}

impl Switches {
    fn new(domains: &Domains, fitting: &[u32]) -> Self {
        let lowest = domains.lowest();
        let mut paths: Vec<Vec<Switch>> = (0..domains.count(0) as u32).map(|switch| vec![(0, switch)]).collect();
        for level in 1..lowest {
            let below = |path: Vec<Switch>| {
                let within = path.last().map_or(0..0, |(above, switch)| domains.below(*above, *switch));
                within.map(move |switch| [path.as_slice(), &[(level, switch)]].concat())
            };
            paths = paths.into_iter().flat_map(below).collect();
        }
        let of_leaf = |path: &Vec<Switch>| -> Vec<u32> {
            let within = path.last().map_or(0..0, |(level, leaf)| domains.below(*level, *leaf));
            let nodes = &domains.nodes()[within.start as usize..within.end as usize];
            nodes.iter().copied().filter(|node| fitting.binary_search(node).is_ok()).collect()
        };
        let nodes: Vec<Vec<u32>> = paths.iter().map(of_leaf).collect();
        let mut room: Vec<Vec<usize>> = (0..lowest).map(|level| vec![0; domains.count(level)]).collect();
        for (path, nodes) in paths.iter().zip(&nodes) {
            for (level, switch) in path {
                room[*level][*switch as usize] += nodes.len();
            }
        }
        let is_there = |(level, switch): &Switch| !domains.is_stood_for(*level, *switch);
        let chains = paths.into_iter().map(|path| path.into_iter().rev().filter(is_there).collect()).collect();
        Self { nodes, chains, room }
    }

    fn room(&self, (level, switch): Switch) -> usize {
        self.room[level][switch as usize]
    }

    /// The widest switch above the leaf with room for so many: of the widest level, of equals the last.
    fn network(&self, count: usize) -> Option<Switch> {
        let all = self.chains.iter().filter_map(|chain| chain.last().copied());
        all.filter(|switch| self.room(*switch) >= count).max_by_key(|(level, switch)| (usize::MAX - level, *switch))
    }

    /// Steps from a leaf to another.
    fn steps(&self, leaf: usize, other: usize) -> usize {
        let (from, to) = (&self.chains[leaf], &self.chains[other]);
        let shared = from.iter().rev().zip(to.iter().rev()).take_while(|(a, b)| a == b).count();
        from.len() + to.len() - 2 * shared
    }

    /// `Less` if a leaf fits better than another where so many nodes are wanted.
    fn fit(&self, leaf: usize, other: usize, wanted: usize) -> Ordering {
        let (here, there) = (&self.chains[leaf], &self.chains[other]);
        let of = |chain: &[Switch], at: usize| chain.get(at).or(chain.last()).copied().unwrap_or_default();
        let mut at = 0;
        loop {
            let (a, b) = (of(here, at), of(there, at));
            let (room, others) = (self.room(a), self.room(b));
            match (room >= wanted, others >= wanted) {
                (true, true) if room != others => return room.cmp(&others),
                (true, false) => return Ordering::Less,
                (false, true) => return Ordering::Greater,
                (false, false) if at + 1 < here.len().max(there.len()) && of(here, at + 1) != of(there, at + 1) => {
                    at += 1;
                }
                // A level that is wider has a lower number.
                _ => return others.cmp(&room).then(b.0.cmp(&a.0)),
            }
        }
    }
}

/// `count` of the fitting nodes (rising), below one of the widest switches.
pub(super) fn pick(domains: &Domains, fitting: &[u32], count: usize) -> Option<Vec<u32>> {
    if fitting.len() < count || domains.nodes().is_empty() {
        return None;
    }
    let switches = Switches::new(domains, fitting);
    let network = switches.network(count)?;
    let mut left: Vec<usize> = (0..switches.nodes.len())
        .filter(|leaf| switches.chains[*leaf].last() == Some(&network) && !switches.nodes[*leaf].is_empty())
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::pick;
    use crate::topology::{Domains, Topology};
    use crate::*;

    /// Answers of a real Slurm 22.05 to requests for nodes (`sbatch --test-only -N k`), of the
    /// nodes n1 to n16 of which some had jobs or were excluded:
    /// `k: nodes that fit = nodes it chose`. Before each lot the switches of each node, the widest
    /// first, `-` for none; a name twice is one switch.
    const ANSWERS: &str = include_str!("answers.txt");

    fn domains(paths: &[Option<Vec<&str>>]) -> Domains {
        let names = ["core", "spine", "leaf"];
        let depth = paths.iter().flatten().map(Vec::len).max().unwrap();
        let levels = names[3 - depth..].iter().map(|name| (*name).to_owned()).collect();
        let topology = Topology::of_names(levels, paths).unwrap();
        assert!(topology.is_of_switches());
        Domains::new(&topology, 0, paths.len() as u32)
    }

    #[test]
    fn nodes_are_those_that_a_real_slurm_chose() {
        let numbers =
            |text: &str| -> Vec<u32> { text.split_whitespace().map(|node| node.parse::<u32>().unwrap() - 1).collect() };
        let (mut tree, mut request) = (None, 0);
        for line in ANSWERS.lines() {
            if let Some(nodes) = line.strip_prefix("tree ") {
                let path = |node: &'static str| (node != "-").then(|| node.split('.').collect());
                tree = Some(domains(&nodes.split(' ').map(path).collect::<Vec<_>>()));
                continue;
            }
            let (count, rest) = line.split_once(": ").unwrap();
            let (fitting, chosen) = rest.split_once(" = ").unwrap();
            let result = pick(tree.as_ref().unwrap(), &numbers(fitting), count.parse().unwrap());
            assert_eq!(result, Some(numbers(chosen)), "{line}");
            request += 1;
        }
        assert!(request >= 400, "{request}");
    }

    /// The worked number of the module, without the core, and with it.
    #[test]
    fn a_job_goes_from_leaf_to_near_leaf_within_one_network() {
        let leaves = ["A a", "A a", "A b", "A b", "A b", "B c", "B c", "B c", "B d", "B d"];
        let all: Vec<u32> = (0..10).collect();
        let forest: Vec<_> = leaves.iter().map(|path| Some(path.split(' ').collect())).collect();
        // B, the last with enough, then its leaf of 2, which is enough for two; no network has six.
        let forest = domains(&forest);
        assert_eq!(pick(&forest, &all, 2), Some(vec![8, 9]));
        assert_eq!(pick(&forest, &all, 4), Some(vec![5, 6, 7, 8]));
        assert_eq!(pick(&forest, &all, 6), None);
        let one: Vec<_> =
            leaves.iter().map(|path| Some(["top"].into_iter().chain(path.split(' ')).collect())).collect();
        let one = domains(&one);
        assert_eq!(pick(&one, &all, 2), Some(vec![0, 1]));
        assert_eq!(pick(&one, &all, 6), Some(vec![0, 1, 2, 3, 4, 8]));
        // The rest of a job of three: B's leaf of 1 comes before its own spine's leaf of 2 and fits tighter, from farther away.
        assert_eq!(pick(&one, &[0, 2, 3, 5, 6, 7, 8, 9], 4), Some(vec![0, 5, 6, 7]));
        assert_eq!(pick(&one, &all, 11), None);
    }

    /// Two leaves of 2 nodes of 8 GPUs, and a node on no switch. A job of 2 nodes takes the first leaf, one of a node the other; a job of 3 nodes that finds the leaves half taken waits, although the fifth node is free, and one of 5 nodes is rejected.
    #[test]
    fn a_job_waits_for_a_network_and_not_for_nodes() {
        let mut workload = Workload { origin_ms: 600_000, ..Workload::default() };
        for (nodes, run_s) in [(2u16, 60), (1, 100), (3, 10), (5, 10)] {
            let shape = Shape { nodes, ..Shape::whole(8 * u32::from(nodes)) };
            workload.push(0, run_s * 1000, shape);
            if let Some(limit) = workload.requested_ms.last_mut() {
                *limit = Some(run_s * 1000);
            }
        }
        let leaf = |name: &'static str| Some(vec!["top", name]);
        let paths = [leaf("a"), leaf("a"), leaf("b"), leaf("b"), None];
        let topology = Topology::of_names(vec!["spine".to_owned(), "leaf".to_owned()], &paths).unwrap();
        let cluster = Cluster { topology: Some(topology.clone()), ..Cluster::of_vcs(&[("all", 5, 8)]) };
        let policy = Policy { scan: Scan::Slurm, estimate: Estimate::Requested, ..Policy::default() };
        let starts = |cluster: &Cluster| {
            let schedule = simulate(&workload, cluster, &policy).unwrap();
            [0, 1, 2, 3].map(|job| schedule.start_ms(job).map(|start| start / 1000))
        };
        assert_eq!(starts(&cluster), [Some(0), Some(0), Some(60), None]);
        // Without switches the run of five nodes is one.
        let unfollowed = Cluster { topology: Some(topology.unfollowed()), ..cluster };
        assert_eq!(starts(&unfollowed), [Some(0), Some(0), Some(60), Some(100)]);
    }
}
