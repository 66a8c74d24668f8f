//! Rules that cut a job into as few pieces as possible and choose a node for each by its free GPUs.
//!
//! See [`super`] for the rules. O(GPUs per node) for a piece, whatever the number of nodes, where nodes are of one type.

use super::{is_taken, piece};
use crate::nodes::Nodes;
use crate::policy::Placement;
use crate::schedule::Piece;
use crate::workload::Shape;

/// The sizes of the pieces of a job of whole GPUs, in order. `largest` is *L*.
pub(super) fn cut(shape: Shape, largest: u32) -> impl Iterator<Item = u32> {
    let (piece, full, rest) = shape.cut(largest).unwrap_or_default();
    std::iter::repeat_n(piece, full as usize).chain((rest > 0).then_some(rest))
}

/// Places a job of whole GPUs by first, best or worst fit or consolidated.
pub(super) fn place(rule: Placement, nodes: &Nodes, shape: Shape, pieces: &mut Vec<Piece>) -> bool {
    let (largest, bounded) = (nodes.largest(shape.gpu_type), nodes.bounds(shape));
    for size in cut(shape, largest) {
        let remainder = shape.nodes == 0 && shape.gpus > largest && size < largest;
        let can = |node: &u32| {
            nodes.is_type(*node, shape.gpu_type)
                && !is_taken(nodes, pieces, *node)
                && (!bounded || nodes.holds(*node, shape, size))
        };
        let exactly = |count: u32| nodes.with_free(count).find(can);
        let most = nodes.most();
        let node = match rule {
            Placement::FirstFit => (size..=most).filter_map(exactly).min(),
            Placement::WorstFit => (size..=most).rev().find_map(exactly),
            Placement::Consolidate | Placement::Locality(_) if remainder => {
                exactly(largest).or_else(|| (size..=most).rev().find_map(exactly))
            }
            _ => (size..=most).find_map(exactly),
        };
        let Some(node) = node else { return false };
        pieces.push(piece(nodes, node, shape, size));
    }
    !pieces.is_empty()
}

/// Whether a job of whole GPUs can be cut into pieces that all find a node, under any rule that asks no more than enough room. Pieces
/// never grow from one to the next, so it is enough that the nodes with room for the *k*-th number at least *k*.
pub(super) fn fits(nodes: &Nodes, shape: Shape) -> bool {
    let mut pieces = 0usize;
    let mut roomy = 0usize;
    let mut level = nodes.most() + 1;
    let rooms = nodes.bounds(shape).then(|| rooms(nodes, shape));
    for size in cut(shape, nodes.largest(shape.gpu_type)) {
        pieces += 1;
        while roomy < pieces && level > size {
            level -= 1;
            roomy += match (&rooms, shape.gpu_type) {
                (Some(rooms), _) => rooms.get(level as usize).copied().unwrap_or(0),
                (None, None) => nodes.count_with_free(level),
                (None, Some(_)) => nodes.with_free(level).filter(|node| nodes.is_type(*node, shape.gpu_type)).count(),
            };
        }
        if roomy < pieces {
            return false;
        }
    }
    pieces > 0
}

/// How many nodes that a shape may use have so much room for it. O(nodes with a free GPU).
fn rooms(nodes: &Nodes, shape: Shape) -> Vec<usize> {
    let mut rooms = vec![0; nodes.most() as usize + 1];
    for free in 1..=nodes.most() {
        for node in nodes.with_free(free).filter(|node| nodes.is_type(*node, shape.gpu_type)) {
            if let Some(count) = rooms.get_mut(nodes.room(node, shape) as usize) {
                *count += 1;
            }
        }
    }
    rooms
}
