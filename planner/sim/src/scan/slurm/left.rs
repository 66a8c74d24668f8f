//! Nodes of a pool as running jobs leave them, counted as by Slurm's backfill, and its choice of
//! nodes for a job.
//!
//! Only numbers of GPUs count, and no single ones, so that jobs are taken away fast: O(pieces) for a job, O(nodes / 64) to find that nodes do not suffice, and O(nodes) for a choice.
//!
//! Worked number: nodes 0, 1, 3, 4 and 5 fit, with 0, 2, 1, 1 and 1 jobs. They are two runs of neighbours. A job of one node goes to the shorter, and there to the busier node, 1; one of three to the longer.

use super::mask::Mask;
use super::tree;
use crate::host::{HostNeed, HostRoom};
use crate::nodes::{Nodes, ones_of};
use crate::schedule::Piece;
use crate::workload::Shape;

/// How many nodes a job asks for, and how many GPUs on each, with what these need beside them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gang {
    pub(super) nodes: usize,
    pub(super) each: u32,
    shape: Shape,
}

impl Gang {
    pub(super) fn new(shape: Shape, nodes: &Nodes) -> Self {
        let largest = nodes.largest(shape.gpu_type).max(1);
        let count = if shape.nodes > 0 { u32::from(shape.nodes) } else { shape.gpus.div_ceil(largest) }.max(1);
        Self { nodes: count as usize, each: shape.gpus.div_ceil(count), shape }
    }

    /// Whether a node has room for its part now.
    pub(super) fn fits(self, nodes: &Nodes, node: u32) -> bool {
        nodes.room(node, self.shape) >= self.each
    }

    /// Nodes in service, of its GPU type, with room for its part now; rising.
    pub(super) fn fitting(self, nodes: &Nodes) -> impl Iterator<Item = u32> {
        nodes.eligible().filter(move |node| nodes.is_type(*node, self.shape.gpu_type) && self.fits(nodes, *node))
    }
}

/// Free processors of a node: whole cores; where these are not known, one and less its jobs, as nodes have many more processors than jobs.
type Free = (i64, i64);

/// Free part of the nodes of a pool: now ([`Nodes`]), or once jobs have gone ([`Left`]).
pub(super) trait Room {
    /// Returns those in service of the 64 nodes from 64 · `word` on with as many free GPUs, a bit
    /// each.
    fn with_gpus(&self, gpus: u32, word: usize) -> u64;
    /// Processors and memory left on each node; none where no node has a bound.
    fn hosts(&self) -> &[HostRoom];
    /// How many pieces of jobs are on a node.
    fn pieces(&self, node: u32) -> i64;

    /// Nodes for a gang among the allowed, which are in service: by switches if they hang on any, else by runs of neighbours.
    fn choose(&self, nodes: &Nodes, gang: Gang, allowed: &Mask) -> Option<Vec<u32>> {
        let words = || allowed.words().iter().enumerate().map(|(at, word)| word & self.with_gpus(gang.each, at));
        if words().map(|word| word.count_ones() as usize).sum::<usize>() < gang.nodes {
            return None;
        }
        let holds =
            |node: &u32| self.hosts().get(*node as usize).is_none_or(|left| left.gpus(gang.shape.host) >= gang.each);
        let of_word = |(at, word): (u32, u64)| ones_of(word).map(move |bit| at * 64 + bit);
        let fitting = || (0..).zip(words()).flat_map(of_word).filter(holds);
        let by_cores = !self.hosts().is_empty() && self.hosts().iter().all(|left| left.cores_milli.is_some());
        // What jobs take is rounded down, by less than a thousandth for each GPU, so what is left is whole cores and a bit.
        let cores = |node: u32| self.hosts().get(node as usize).and_then(|left| left.cores_milli).unwrap_or(0) / 1000;
        let free = |node: u32| if by_cores { (i64::from(cores(node)), 0) } else { (1, -self.pieces(node)) };
        if let Some(domains) = nodes.domains() {
            return tree::pick(domains, &fitting().collect::<Vec<u32>>(), gang.nodes);
        }
        if gang.nodes == 1 {
            return pick_one(fitting(), free).map(|node| vec![node]);
        }
        pick(&fitting().collect::<Vec<u32>>(), gang.nodes, free)
    }
}

impl Room for Nodes {
    fn with_gpus(&self, gpus: u32, word: usize) -> u64 {
        self.with_at_least(gpus, word)
    }

    fn hosts(&self) -> &[HostRoom] {
        self.hosts()
    }

    fn pieces(&self, node: u32) -> i64 {
        self.pieces().get(node as usize).copied().map_or(0, i64::from)
    }
}

/// Part of a node that a job holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    /// The node, numbered within the pool.
    pub(super) node: u32,
    pub(super) gpus: u32,
    host: HostNeed,
}

impl Part {
    pub(super) fn new(nodes: &Nodes, piece: &Piece) -> Self {
        Self { node: nodes.local(piece.node), gpus: piece.gpus.count_ones(), host: piece.host }
    }
}

/// GPUs, processors and memory that are left of each node, and how many pieces of jobs it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Left {
    free: Vec<u8>,
    /// Words in a set of nodes.
    words: usize,
    /// Nodes with at least no free GPU, one, two …, a bit each, one set after the other.
    at_least: Vec<u64>,
    host: Vec<HostRoom>,
    pieces: Vec<u16>,
}

impl Left {
    /// The nodes as they are.
    pub(super) fn of(nodes: &Nodes) -> Self {
        let words = (nodes.len() as usize).div_ceil(64);
        let with = |free: u32| (0..words).map(move |word| nodes.with_at_least(free, word));
        Self {
            free: (0..nodes.len()).map(|node| nodes.free(node) as u8).collect(),
            words,
            at_least: (0..=nodes.most()).flat_map(with).collect(),
            host: nodes.hosts().to_vec(),
            pieces: nodes.pieces().to_vec(),
        }
    }

    /// Free GPUs of each node.
    pub(super) fn free(&self) -> &[u8] {
        &self.free
    }

    /// Copies another state without new memory.
    pub(super) fn become_as(&mut self, other: &Self) {
        self.free.clone_from(&other.free);
        self.at_least.clone_from(&other.at_least);
        self.host.clone_from(&other.host);
        self.pieces.clone_from(&other.pieces);
    }

    /// Frees what a job held.
    pub(super) fn give(&mut self, part: Part) {
        let node = part.node as usize;
        let before = usize::from(self.free[node]);
        self.free[node] += part.gpus as u8;
        for free in before + 1..=usize::from(self.free[node]) {
            self.at_least[free * self.words + node / 64] |= 1 << (node % 64);
        }
        self.pieces[node] = self.pieces[node].saturating_sub(1);
        if let Some(left) = self.host.get_mut(node) {
            *left = left.and(part.host);
        }
    }
}

impl Room for Left {
    fn with_gpus(&self, gpus: u32, word: usize) -> u64 {
        self.at_least.get(gpus as usize * self.words + word).copied().unwrap_or(0)
    }

    fn hosts(&self) -> &[HostRoom] {
        &self.host
    }

    fn pieces(&self, node: u32) -> i64 {
        self.pieces.get(node as usize).copied().map_or(0, i64::from)
    }
}

/// Picks one of the fitting nodes (rising): of the run with the fewest free processors the one with
/// the fewest, of equals the first.
fn pick_one(fitting: impl Iterator<Item = u32>, free: impl Fn(u32) -> Free) -> Option<u32> {
    let mut fitting = fitting.map(|node| (free(node), node)).peekable();
    let mut best: Option<(Free, u32)> = None;
    while let Some(first) = fitting.next() {
        let (mut of_run, mut least, mut last) = (first.0, first, first.1);
        while let Some(next) = fitting.next_if(|(_, node)| *node == last + 1) {
            of_run = (of_run.0 + next.0.0, of_run.1 + next.0.1);
            (least, last) = (least.min(next), next.1);
        }
        if best.is_none_or(|(of_best, _)| of_run < of_best) {
            best = Some((of_run, least.1));
        }
    }
    best.map(|(_, node)| node)
}

/// `count` of the fitting nodes (rising), by runs of neighbours; at least two.
fn pick(fitting: &[u32], count: usize, free: impl Fn(u32) -> Free) -> Option<Vec<u32>> {
    if fitting.len() < count {
        return None;
    }
    let of = |run: &[u32]| {
        run.iter().map(|node| free(*node)).fold((0, 0), |sum: Free, more| (sum.0 + more.0, sum.1 + more.1))
    };
    let mut runs: Vec<(Free, &[u32])> = fitting.chunk_by(|a, b| a + 1 == *b).map(|run| (of(run), run)).collect();
    let mut chosen: Vec<u32> = Vec::with_capacity(count);
    while chosen.len() < count {
        let missing = count - chosen.len();
        if let Some((_, run)) = runs.iter().filter(|(_, run)| run.len() >= missing).min_by_key(|(of, _)| *of) {
            chosen.extend(&run[..missing]);
            break;
        }
        // None suffices: the largest, the first of equals.
        let largest = (0..runs.len()).rev().max_by_key(|at| runs[*at].0)?;
        chosen.extend(runs.remove(largest).1);
    }
    chosen.sort_unstable();
    Some(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Part {
        /// GPUs of a node, and nothing beside.
        pub(in super::super) fn bare(node: u32, gpus: u32) -> Self {
            Self { node, gpus, host: HostNeed::default() }
        }
    }

    impl Left {
        /// Nodes of so many GPUs at most, with as many free; nobody is on them.
        pub(in super::super) fn with_free(free: &[u8], most: u8) -> Self {
            let words = free.len().div_ceil(64);
            let mut left = Self {
                free: vec![0; free.len()],
                words,
                at_least: vec![0; (usize::from(most) + 1) * words],
                host: Vec::new(),
                pieces: vec![0; free.len()],
            };
            (0..).zip(free).for_each(|(node, free)| left.give(Part::bare(node, u32::from(*free))));
            left
        }
    }

    #[test]
    fn nodes_are_picked_by_runs() {
        // Runs 0–1 and 3–5; one node: the shorter run, its busier node. Two: the shorter run. Three: the longer. Four: longer, then shorter.
        let jobs = |node: u32| (1, -[0, 2, 9, 1, 1, 1][node as usize]);
        let fitting = [0, 1, 3, 4, 5];
        let pick_one = |free: &dyn Fn(u32) -> Free| pick_one(fitting.into_iter(), free);
        assert_eq!(pick_one(&jobs), Some(1));
        assert_eq!(pick(&fitting, 2, jobs), Some(vec![0, 1]));
        assert_eq!(pick(&fitting, 3, jobs), Some(vec![3, 4, 5]));
        assert_eq!(pick(&fitting, 4, jobs), Some(vec![0, 3, 4, 5]));
        assert_eq!(pick(&fitting, 6, jobs), None);
        // By cores: runs of 40 and 36 cores. One node: the run with fewer, its fullest node. Four: the run with more, then one of the other.
        let cores = |node: u32| ([32, 8, 32, 10, 10, 16][node as usize], 0);
        assert_eq!(pick_one(&cores), Some(3));
        assert_eq!(pick(&fitting, 2, cores), Some(vec![3, 4]));
        assert_eq!(pick(&fitting, 4, cores), Some(vec![0, 1, 3, 4]));
    }
}
