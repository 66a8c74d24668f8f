//! Buddy cells (HiveD; Zhao et al., OSDI 2020).
//!
//! See [`super`] for the rule. O(nodes × GPUs) for a piece; for a job of several pieces where nodes lie in domains, that for each domain that is tried. Worked example: a node of 8 whose GPU 0 is busy
//! has the free cells {1}, {2, 3} and {4 … 7}. A job of 1 takes GPU 1 (its home is itself), one of 2 GPUs 2 and 3, one of 3 needs a cell of 4: GPUs 4 to 6. Of two racks of two nodes
//! the first is free and the second has one job: the next job goes to the second, whose free node is a home of 8, where those of the first are one of 16; a job of 16 then still has a rack.

use super::is_taken;
use super::packed::cut;
use crate::sim::nodes::Nodes;
use crate::sim::schedule::Piece;
use crate::sim::topology::Domains;
use crate::sim::workload::Shape;

/// A cell on a node, the best first: GPUs of its home, the node, and its position there.
type Found = (u32, u32, u32);

/// A cell above the node: a rack, a block.
struct Cell<'n> {
    nodes: &'n [u32],
    /// Free GPUs on nodes that take jobs: its own, those of the cell that it lies in, and so on.
    free: Vec<u32>,
    /// GPUs in all, if all are free on nodes that take jobs.
    whole: Option<u32>,
}

/// The cells above the nodes of a pool, the widest level first. O(nodes × levels).
fn above<'n>(nodes: &Nodes, domains: &'n Domains) -> Vec<Vec<Cell<'n>>> {
    let free = |node: &u32| if nodes.is_eligible(*node) { nodes.free(*node) } else { 0 };
    let cell = |level: usize, domain: u32, wider: &[u32]| {
        let own = domains.nodes().get(domains.span(level, domain)).unwrap_or_default();
        let (free, size) = (own.iter().map(free).sum(), own.iter().map(|node| nodes.size(*node)).sum());
        let all = std::iter::once(free).chain(wider.iter().copied()).collect();
        Cell { nodes: own, free: all, whole: (free == size).then_some(size) }
    };
    let mut levels: Vec<Vec<Cell<'n>>> = Vec::with_capacity(domains.lowest());
    for level in 0..domains.lowest() {
        let cells = match levels.last() {
            None => (0..domains.count(level) as u32).map(|domain| cell(level, domain, &[])).collect(),
            Some(wider) => {
                let within = |(at, wider): (u32, &Cell<'n>)| {
                    domains.below(level - 1, at).map(|domain| cell(level, domain, &wider.free)).collect::<Vec<_>>()
                };
                (0u32..).zip(wider).flat_map(within).collect()
            }
        };
        levels.push(cells);
    }
    levels
}

/// By node the GPUs of the widest free cell above it; 0 if there is none.
fn homes(nodes: &Nodes, levels: &[Vec<Cell<'_>>]) -> Vec<u32> {
    let mut homes = vec![0; nodes.len() as usize];
    for cell in levels.iter().flatten() {
        for node in cell.nodes {
            if let Some(home) = homes.get_mut(*node as usize) {
                *home = (*home).max(cell.whole.unwrap_or(0));
            }
        }
    }
    homes
}

/// Places a job of whole GPUs.
pub(super) fn place(nodes: &Nodes, shape: Shape, pieces: &mut Vec<Piece>) -> bool {
    let Some(domains) = nodes.domains() else { return fill_any(nodes, shape, pieces) };
    let levels = above(nodes, domains);
    let homes = homes(nodes, &levels);
    let among = |of: &[u32], size: u32, pieces: &[Piece]| {
        let found = |node: &u32| {
            let (home, node, position) = cell_on(nodes, *node, shape, size, pieces)?;
            let is_whole = home == nodes.size(node);
            let above = homes.get(node as usize).copied().filter(|_| is_whole).unwrap_or(0);
            Some((home.max(above), node, position))
        };
        of.iter().filter(|node| nodes.is_eligible(**node)).filter_map(found).min()
    };
    if cut(shape, nodes.largest(shape.gpu_type)).nth(1).is_some() {
        for cells in levels.iter().rev() {
            let mut roomy: Vec<&Cell<'_>> =
                cells.iter().filter(|cell| cell.free.first().is_some_and(|free| *free >= shape.gpus)).collect();
            roomy.sort_by_key(|cell| &cell.free);
            let fills = |cell: &Cell<'_>| fill(nodes, shape, pieces, |size, pieces| among(cell.nodes, size, pieces));
            if roomy.into_iter().any(fills) {
                return true;
            }
        }
    }
    let all: Vec<u32> = nodes.eligible().collect();
    fill(nodes, shape, pieces, |size, pieces| among(&all, size, pieces))
}

/// Whether a job of whole GPUs has a place. No later piece is larger than one before it, and a node that holds a larger piece holds a smaller one. So whichever nodes the first pieces take, the
/// same number is left for the others, and cells above the node do not matter.
pub(super) fn fits(nodes: &Nodes, shape: Shape) -> bool {
    fill_any(nodes, shape, &mut Vec::new())
}

/// Piece after piece, each in the best cell that there is for its size beside those before.
fn fill(nodes: &Nodes, shape: Shape, pieces: &mut Vec<Piece>, best: impl Fn(u32, &[Piece]) -> Option<Found>) -> bool {
    pieces.clear();
    for size in cut(shape, nodes.largest(shape.gpu_type)) {
        let Some((_, node, position)) = best(size, pieces) else { return false };
        let gpus = block(position, size) & nodes.free_bits(node);
        pieces.push(Piece { host: shape.host_of(size), ..Piece::whole(nodes.number(node), gpus) });
    }
    !pieces.is_empty()
}

/// Each piece on any node, with no cell above.
fn fill_any(nodes: &Nodes, shape: Shape, pieces: &mut Vec<Piece>) -> bool {
    fill(nodes, shape, pieces, |size, pieces| {
        let mut best: Option<Found> = None;
        for free in size..=nodes.most() {
            for node in nodes.with_free(free) {
                let Some(found) = cell_on(nodes, node, shape, size, pieces) else { continue };
                if best.is_none_or(|known| found < known) {
                    best = Some(found);
                }
                // The lowest node of these that has a home of just the cell's size cannot be beaten by later ones.
                if free == nodes.most() && nodes.is_empty(node) && found.0 == nodes.size(node) {
                    return best;
                }
            }
        }
        best
    })
}

/// The best cell of a node for `size` GPUs of a job that has `pieces` already.
fn cell_on(nodes: &Nodes, node: u32, shape: Shape, size: u32, pieces: &[Piece]) -> Option<Found> {
    let can = nodes.is_type(node, shape.gpu_type)
        && nodes.free(node) >= size
        && nodes.holds(node, shape, size)
        && !is_taken(nodes, pieces, node);
    let (home, position) = can.then(|| cell(nodes.free_bits(node), nodes.size(node), size)).flatten()?;
    Some((home, node, position))
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
