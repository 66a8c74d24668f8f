//! Buddy cells (HiveD; Zhao et al., OSDI 2020).
//!
//! See [`super`] for the rule. O(nodes × GPUs) for a piece. Worked example: a node of 8 whose GPU 0 is busy has the free cells {1}, {2, 3}
//! and {4 … 7}. A job of 1 takes GPU 1 (its home is itself), one of 2 GPUs 2 and 3, one of 3 needs a cell of 4: GPUs 4 to 6.

use super::is_taken;
use super::packed::cut;
use crate::sim::nodes::Nodes;
use crate::sim::schedule::Piece;
use crate::sim::workload::Shape;

/// Places a job of whole GPUs.
pub(super) fn place(nodes: &Nodes, shape: Shape, pieces: &mut Vec<Piece>) -> bool {
    for size in cut(shape, nodes.largest(shape.gpu_type)) {
        let mut best: Option<(u32, u32, u32)> = None;
        'search: for free in size..=nodes.most() {
            for node in nodes.with_free(free) {
                let can = nodes.is_type(node, shape.gpu_type) && nodes.holds(node, shape, size);
                if !can || is_taken(nodes, pieces, node) {
                    continue;
                }
                if let Some((home, position)) = cell(nodes.free_bits(node), nodes.size(node), size) {
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
        }
        let Some((_, node, position)) = best else { return false };
        let gpus = block(position, size) & nodes.free_bits(node);
        pieces.push(Piece { host: shape.host_of(size), ..Piece::whole(nodes.number(node), gpus) });
    }
    !pieces.is_empty()
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
