//! Buddy cells (HiveD; Zhao et al., OSDI 2020).
//!
//! See [`super`] for the rule. O(nodes with room × GPUs) for a piece; for a job of several pieces where nodes lie in domains, O(domains) and that for the nodes of each domain that is tried, of which there is mostly one. Worked example: a node of 8 whose GPU 0 is busy
//! has the free cells {1}, {2, 3} and {4 … 7}. A job of 1 takes GPU 1 (its home is itself), one of 2 GPUs 2 and 3, one of 3 needs a cell of 4: GPUs 4 to 6. Of two racks of two nodes
//! the first is free and the second has one job: the next job goes to the second, whose free node is a home of 8, where those of the first are one of 16; a job of 16 then still has a rack.

use super::is_taken;
use super::packed::cut;
use crate::nodes::{Nodes, block};
use crate::schedule::Piece;
use crate::workload::Shape;

/// A cell on a node, the best first: GPUs of its home, the node, and its position there.
type Found = (u32, u32, u32);

/// Places a job of whole GPUs.
pub(super) fn place(nodes: &Nodes, shape: Shape, pieces: &mut Vec<Piece>) -> bool {
    let Some(fullness) = nodes.fullness() else { return fill_any(nodes, shape, pieces, |_| 0) };
    let domains = fullness.domains();
    if cut(shape, nodes.largest(shape.gpu_type)).nth(1).is_some() {
        for level in (0..domains.lowest()).rev() {
            let all = 0..domains.count(level) as u32;
            let mut roomy: Vec<u32> = all.filter(|domain| fullness.free(level, *domain) >= shape.gpus).collect();
            roomy.sort_by_cached_key(|domain| fullness.outward(level, *domain));
            let fills = |domain: u32| {
                let within = domains.nodes().get(domains.span(level, domain)).unwrap_or_default();
                let takes_jobs = within.iter().copied().filter(|node| nodes.is_eligible(*node));
                let takes_jobs: Vec<u32> = takes_jobs.collect();
                fill(nodes, shape, pieces, |size, pieces| {
                    let result = |node: &u32| cell_on(nodes, *node, shape, size, pieces, |node| fullness.home(node));
                    takes_jobs.iter().filter_map(result).min()
                })
            };
            if roomy.into_iter().any(fills) {
                return true;
            }
        }
    }
    fill_any(nodes, shape, pieces, |node| fullness.home(node))
}

/// Whether a job of whole GPUs has a place. No later piece is larger than one before it, and a node that holds a larger piece holds a smaller one. So whichever nodes the first pieces take, the
/// same number is left for the others, and cells above the node do not matter.
pub(super) fn fits(nodes: &Nodes, shape: Shape) -> bool {
    fill_any(nodes, shape, &mut Vec::new(), |_| 0)
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

/// Each piece on any node. `above` are the GPUs of the widest free cell above a node, 0 if there is none.
fn fill_any(nodes: &Nodes, shape: Shape, pieces: &mut Vec<Piece>, above: impl Fn(u32) -> u32) -> bool {
    fill(nodes, shape, pieces, |size, pieces| {
        let mut best: Option<Found> = None;
        for free in size..=nodes.most() {
            // What is left are nodes of the largest size that are empty, and so homes of at least that.
            if free == nodes.most() && best.is_some_and(|(home, ..)| home < free) {
                return best;
            }
            for node in nodes.with_free(free) {
                let Some(result) = cell_on(nodes, node, shape, size, pieces, &above) else { continue };
                if best.is_none_or(|known| result < known) {
                    best = Some(result);
                }
                // The lowest node of these that is a home by itself cannot be beaten by later ones.
                if free == nodes.most() && nodes.is_empty(node) && result.0 == nodes.size(node) {
                    return best;
                }
            }
        }
        best
    })
}

/// The best cell of a node for `size` GPUs of a job that has `pieces` already.
fn cell_on(
    nodes: &Nodes,
    node: u32,
    shape: Shape,
    size: u32,
    pieces: &[Piece],
    above: impl Fn(u32) -> u32,
) -> Option<Found> {
    let can = nodes.is_type(node, shape.gpu_type)
        && nodes.free(node) >= size
        && nodes.holds(node, shape, size)
        && !is_taken(nodes, pieces, node);
    let (home, position) = can.then(|| cell(nodes.free_bits(node), nodes.size(node), size)).flatten()?;
    let above = if home == nodes.size(node) { above(node) } else { 0 };
    Some((home.max(above), node, position))
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
