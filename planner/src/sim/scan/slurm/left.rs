//! What running jobs leave of the nodes of a pool, as Slurm's backfill counts it, and which of the nodes it chooses for a job.
//!
//! Only numbers of GPUs count, and no single ones, so that jobs are taken away fast: O(pieces) for a job, O(nodes) for a choice.
//!
//! Worked number: nodes 0, 1, 3, 4 and 5 fit, with 0, 2, 1, 1 and 1 jobs. They are two runs of neighbours. A job of one node goes to the shorter, and there to the busier node, 1; one of three to the longer.

use super::kept::Mask;
use super::tree;
use crate::sim::host::HostRoom;
use crate::sim::nodes::Nodes;
use crate::sim::schedule::Piece;
use crate::sim::workload::Shape;

/// How many nodes a job asks for, and how many GPUs on each, with what these need beside them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gang {
    pub(super) nodes: usize,
    pub(super) each: u32,
    shape: Shape,
}

impl Gang {
    pub(super) fn of(shape: Shape, nodes: &Nodes) -> Self {
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

/// GPUs, processors and memory that are left of each node, and how many pieces of jobs it has.
#[derive(Debug, Clone)]
pub(super) struct Left {
    free: Vec<u32>,
    host: Vec<HostRoom>,
    jobs: Vec<i64>,
}

impl Left {
    /// The nodes as they are, with these pieces on them.
    pub(super) fn of<'p>(nodes: &Nodes, pieces: impl Iterator<Item = &'p Piece>) -> Self {
        let mut jobs = vec![0; nodes.len() as usize];
        pieces.for_each(|piece| jobs[nodes.local(piece.node) as usize] += 1);
        Self { free: (0..nodes.len()).map(|node| nodes.free(node)).collect(), host: nodes.hosts().to_vec(), jobs }
    }

    /// A piece is gone.
    pub(super) fn give(&mut self, nodes: &Nodes, piece: &Piece) {
        let node = nodes.local(piece.node) as usize;
        self.free[node] += piece.gpus.count_ones();
        self.jobs[node] -= 1;
        if let Some(left) = self.host.get_mut(node) {
            *left = left.and(piece.host);
        }
    }

    fn fits(&self, gang: Gang, node: u32) -> bool {
        let at = node as usize;
        self.free[at] >= gang.each && self.host.get(at).is_none_or(|left| left.gpus(gang.shape.host) >= gang.each)
    }

    /// Nodes for a gang among the allowed: by switches if they hang on any, else by runs of neighbours.
    pub(super) fn choose(&self, nodes: &Nodes, gang: Gang, allowed: &Mask) -> Option<Vec<u32>> {
        let fitting: Vec<u32> = allowed.iter().filter(|node| self.fits(gang, *node)).collect();
        if fitting.len() < gang.nodes {
            return None;
        }
        match nodes.domains() {
            Some(domains) => tree::pick(domains, &fitting, gang.nodes),
            None => pick(&fitting, gang.nodes, &self.processors()),
        }
    }

    fn processors(&self) -> Vec<Free> {
        // What jobs take is rounded down, by less than a thousandth for each GPU, so what is left is whole cores and a bit.
        let cores = |left: &HostRoom| left.cores_milli.map(|milli| (i64::from(milli / 1000), 0));
        let known: Option<Vec<Free>> = self.host.iter().map(cores).collect();
        let by_jobs = || self.jobs.iter().map(|jobs| (1, -jobs)).collect();
        known.filter(|known| !known.is_empty()).unwrap_or_else(by_jobs)
    }
}

/// `count` of the fitting nodes (rising), by runs of neighbours.
fn pick(fitting: &[u32], count: usize, free: &[Free]) -> Option<Vec<u32>> {
    if fitting.len() < count {
        return None;
    }
    let mut runs: Vec<&[u32]> = fitting.chunk_by(|a, b| a + 1 == *b).collect();
    let of = |run: &[u32]| {
        run.iter().fold((0, 0), |sum: Free, node| (sum.0 + free[*node as usize].0, sum.1 + free[*node as usize].1))
    };
    let mut chosen: Vec<u32> = Vec::with_capacity(count);
    while chosen.len() < count {
        let missing = count - chosen.len();
        if let Some(run) = runs.iter().filter(|run| run.len() >= missing).min_by_key(|run| of(run)) {
            if missing == 1 && chosen.is_empty() {
                chosen.extend(run.iter().min_by_key(|node| (free[**node as usize], **node)));
            } else {
                chosen.extend(&run[..missing]);
            }
            break;
        }
        // None suffices: the largest, the first of equals.
        let largest = (0..runs.len()).rev().max_by_key(|at| of(runs[*at]))?;
        chosen.extend(runs.remove(largest));
    }
    chosen.sort_unstable();
    Some(chosen)
}

#[cfg(test)]
mod tests {
    use super::pick;

    #[test]
    fn nodes_are_picked_by_runs() {
        // Runs 0–1 and 3–5; one node: the shorter run, its busier node. Two: the shorter run. Three: the longer. Four: longer, then shorter.
        let jobs = [0, 2, 9, 1, 1, 1].map(|jobs| (1, -jobs));
        let fitting = [0, 1, 3, 4, 5];
        assert_eq!(pick(&fitting, 1, &jobs), Some(vec![1]));
        assert_eq!(pick(&fitting, 2, &jobs), Some(vec![0, 1]));
        assert_eq!(pick(&fitting, 3, &jobs), Some(vec![3, 4, 5]));
        assert_eq!(pick(&fitting, 4, &jobs), Some(vec![0, 3, 4, 5]));
        assert_eq!(pick(&fitting, 6, &jobs), None);
        // By cores: runs of 40 and 36 cores. One node: the run with fewer, its fullest node. Four: the run with more, then one of the other.
        let cores = [32, 8, 32, 10, 10, 16].map(|cores| (cores, 0));
        assert_eq!(pick(&fitting, 1, &cores), Some(vec![3]));
        assert_eq!(pick(&fitting, 2, &cores), Some(vec![3, 4]));
        assert_eq!(pick(&fitting, 4, &cores), Some(vec![0, 1, 3, 4]));
    }
}
