//! Buddy cells (HiveD; Zhao et al., OSDI 2020).
//!
//! See [`super`] for the rule. O(nodes × GPUs) for a piece; for a job of several pieces where nodes lie in domains, that for each domain that is tried. Worked example: a node of 8 whose GPU 0 is busy
//! has the free cells {1}, {2, 3} and {4 … 7}. A job of 1 takes GPU 1 (its home is itself), one of 2 GPUs 2 and 3, one of 3 needs a cell of 4: GPUs 4 to 6. Of two racks of two nodes
//! the first is free and the second has one job: the next job goes to the second, whose free node is a home of 8, where those of the first are one of 16; a job of 16 then still has a rack.

use std::ops::Range;

use super::is_taken;
use super::packed::cut;
use crate::sim::nodes::Nodes;
use crate::sim::schedule::Piece;
use crate::sim::topology::Domains;
use crate::sim::workload::Shape;

/// A cell above the node: a rack, a block.
struct Cell {
    /// Its nodes, as positions in the order of the domains.
    nodes: Range<usize>,
    /// Free GPUs on nodes that take jobs: its own, those of the cell that it lies in, and so on.
    free: Vec<u32>,
    /// GPUs in all, if all are free on nodes that take jobs.
    whole: Option<u32>,
}

/// The cells above the nodes of a pool, the widest level first; none where nodes lie in no domains.
struct Above<'n> {
    domains: Option<&'n Domains>,
    levels: Vec<Vec<Cell>>,
}

impl<'n> Above<'n> {
    /// O(nodes × levels).
    fn of(nodes: &'n Nodes) -> Self {
        let Some(domains) = nodes.domains() else { return Self { domains: None, levels: Vec::new() } };
        let free = |node: &u32| if nodes.is_eligible(*node) { nodes.free(*node) } else { 0 };
        let cell = |within: Range<usize>, above: &[u32]| {
            let own = domains.nodes().get(within.clone()).unwrap_or_default();
            let (free, size) = (own.iter().map(free).sum(), own.iter().map(|node| nodes.size(*node)).sum());
            let all = std::iter::once(free).chain(above.iter().copied()).collect();
            Cell { nodes: within, free: all, whole: (free == size).then_some(size) }
        };
        let mut levels: Vec<Vec<Cell>> = Vec::with_capacity(domains.lowest());
        for level in 0..domains.lowest() {
            let cells = match levels.last() {
                None => (0..domains.count(0)).map(|at| cell(domains.span(0, at as u32), &[])).collect(),
                Some(wider) => {
                    let within = |(at, wider): (usize, &Cell)| {
                        let inner = domains.below(level - 1, at as u32);
                        inner.map(|inner| cell(domains.span(level, inner), &wider.free)).collect::<Vec<_>>()
                    };
                    wider.iter().enumerate().flat_map(within).collect()
                }
            };
            levels.push(cells);
        }
        Self { domains: Some(domains), levels }
    }

    /// By node the GPUs of the widest free cell above it; 0 if there is none.
    fn homes(&self, nodes: &Nodes) -> Vec<u32> {
        let mut homes = vec![0; nodes.len() as usize];
        // The wider comes first, and its home counts for all within.
        for cell in self.levels.iter().flatten() {
            for node in self.nodes(cell) {
                if let Some(home) = homes.get_mut(*node as usize) {
                    *home = (*home).max(cell.whole.unwrap_or(0));
                }
            }
        }
        homes
    }

    /// Nodes of a cell.
    fn nodes(&self, cell: &Cell) -> &[u32] {
        self.domains.and_then(|domains| domains.nodes().get(cell.nodes.clone())).unwrap_or_default()
    }
}

/// Places a job of whole GPUs.
pub(super) fn place(nodes: &Nodes, shape: Shape, pieces: &mut Vec<Piece>) -> bool {
    if nodes.domains().is_none() {
        return fill(nodes, shape, pieces);
    }
    let above = Above::of(nodes);
    let homes = above.homes(nodes);
    if cut(shape, nodes.largest(shape.gpu_type)).nth(1).is_some() {
        for cells in above.levels.iter().rev() {
            let mut roomy: Vec<&Cell> =
                cells.iter().filter(|cell| cell.free.first().is_some_and(|free| *free >= shape.gpus)).collect();
            roomy.sort_by_key(|cell| &cell.free);
            if roomy.into_iter().any(|cell| fill_of(nodes, shape, above.nodes(cell), &homes, pieces)) {
                return true;
            }
        }
    }
    let all: Vec<u32> = nodes.eligible().collect();
    fill_of(nodes, shape, &all, &homes, pieces)
}

/// Whether a job of whole GPUs has a place. No later piece is larger than one before it, and a node that holds a larger piece holds a smaller one. So whichever nodes the first pieces take, the
/// same number is left for the others, and cells above the node do not matter.
pub(super) fn fits(nodes: &Nodes, shape: Shape) -> bool {
    fill(nodes, shape, &mut Vec::new())
}

/// Each piece on any node, with no cell above.
fn fill(nodes: &Nodes, shape: Shape, pieces: &mut Vec<Piece>) -> bool {
    pieces.clear();
    for size in cut(shape, nodes.largest(shape.gpu_type)) {
        let mut best: Option<(u32, u32, u32)> = None;
        'search: for free in size..=nodes.most() {
            for node in nodes.with_free(free) {
                let Some((home, position)) = cell_on(nodes, node, shape, size, pieces) else { continue };
                let candidate = (home, node, position);
                if best.is_none_or(|known| candidate < known) {
                    best = Some(candidate);
                }
                // The lowest node of these that has a home of just the cell's size cannot be beaten by later ones.
                if free == nodes.most() && nodes.is_empty(node) && home == nodes.size(node) {
                    break 'search;
                }
            }
        }
        let Some(best) = best else { return false };
        pieces.push(piece(nodes, shape, size, best));
    }
    !pieces.is_empty()
}

/// Each piece on one of `among`, of which each has a home above where it is free.
fn fill_of(nodes: &Nodes, shape: Shape, among: &[u32], homes: &[u32], pieces: &mut Vec<Piece>) -> bool {
    pieces.clear();
    for size in cut(shape, nodes.largest(shape.gpu_type)) {
        let candidate = |node: &u32| {
            let (home, position) = cell_on(nodes, *node, shape, size, pieces)?;
            let is_whole = home == nodes.size(*node);
            let above = homes.get(*node as usize).copied().filter(|_| is_whole).unwrap_or(0);
            Some((home.max(above), *node, position))
        };
        let best = among.iter().filter(|node| nodes.is_eligible(**node)).filter_map(candidate).min();
        let Some(best) = best else { return false };
        pieces.push(piece(nodes, shape, size, best));
    }
    !pieces.is_empty()
}

/// The home and position of the best cell of a node for `size` GPUs of a job that has `pieces` already.
fn cell_on(nodes: &Nodes, node: u32, shape: Shape, size: u32, pieces: &[Piece]) -> Option<(u32, u32)> {
    let can = nodes.is_type(node, shape.gpu_type)
        && nodes.free(node) >= size
        && nodes.holds(node, shape, size)
        && !is_taken(nodes, pieces, node);
    if can { cell(nodes.free_bits(node), nodes.size(node), size) } else { None }
}

/// `size` GPUs of the cell that was chosen: (home, node, position).
fn piece(nodes: &Nodes, shape: Shape, size: u32, (_, node, position): (u32, u32, u32)) -> Piece {
    let gpus = block(position, size) & nodes.free_bits(node);
    Piece { host: shape.host_of(size), ..Piece::whole(nodes.number(node), gpus) }
}

/// `count` bits from `position` on.
fn block(position: u32, count: u32) -> u64 {
    let ones = if count >= 64 { u64::MAX } else { (1 << count) - 1 };
    ones << position
}

/// Size of the home and position of the best cell for `size` GPUs on a node of `node_size`.
fn cell(free: u64, node_size: u32, size: u32) -> Option<(u32, u32)> {
    let whole = free == block(0, node_size);
    let needs = size.next_power_of_two();
    if needs > node_size {
        return whole.then_some((node_size, 0));
    }
    if whole {
        return Some((node_size, 0));
    }
    let is_free = |position: u32, count: u32| {
        position + count <= node_size && free & block(position, count) == block(position, count)
    };
    let mut best: Option<(u32, u32)> = None;
    for position in (0..node_size).step_by(needs as usize) {
        if !is_free(position, needs) {
            continue;
        }
        let mut home = needs;
        while home * 2 <= node_size && is_free(position / (home * 2) * (home * 2), home * 2) {
            home *= 2;
        }
        if best.is_none_or(|known| (home, position) < known) {
            best = Some((home, position));
        }
    }
    best
}
