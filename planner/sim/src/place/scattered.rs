//! Rules that take GPUs wherever they are: spread, random, and locality that was given up.
//!
//! O(nodes) for a job; spread O(GPUs × sizes of nodes). Worked example: nodes with 3, 8 and 5 free GPUs. A job of 4 spread over them takes
//! 3 of the second (8, 7, 6) and then, as the second and third have 5 each, one more of the second.

use super::piece;
use crate::nodes::Nodes;
use crate::schedule::Piece;
use crate::workload::Shape;

/// A number drawn from the seed for a job and a node (numbered over all pools): two rounds of splitmix64.
pub fn draw(seed: u64, job: u32, node: u32) -> u64 {
    fn mix(z: u64) -> u64 {
        let z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    mix(mix(seed ^ mix(u64::from(job))) ^ u64::from(node))
}

/// Eligible nodes in the order drawn for a job.
pub(super) fn drawn(nodes: &Nodes, seed: u64, job: u32) -> impl Iterator<Item = u32> {
    let mut order: Vec<(u64, u32)> = nodes.eligible().map(|node| (draw(seed, job, nodes.number(node)), node)).collect();
    order.sort_unstable();
    order.into_iter().map(|(_, node)| node)
}

/// Eligible nodes, most free GPUs first.
pub(super) fn most_free_first(nodes: &Nodes) -> impl Iterator<Item = u32> + '_ {
    (1..=nodes.most()).rev().flat_map(|free| nodes.with_free(free))
}

/// Takes nodes in order, each filled up as far as it has room.
pub(super) fn fill(nodes: &Nodes, shape: Shape, order: impl Iterator<Item = u32>, pieces: &mut Vec<Piece>) -> bool {
    let mut left = shape.gpus;
    for node in order {
        let count = nodes.room(node, shape).min(left);
        if count == 0 || !nodes.is_type(node, shape.gpu_type) {
            continue;
        }
        pieces.push(piece(nodes, node, shape, count));
        left -= count;
        if left == 0 {
            return true;
        }
    }
    false
}

/// Takes GPU by GPU from the node with the most free left.
pub(super) fn spread(nodes: &Nodes, shape: Shape, pieces: &mut Vec<Piece>) -> bool {
    // All nodes that have the most free give one each, lowest first, and then have one less: so nodes are levelled down. A node whose room is
    // used gives no more.
    let mut counts: Vec<(u32, u32)> = Vec::new();
    let bounded = nodes.bounds(shape);
    let mut left = shape.gpus;
    for level in (1..=nodes.most()).rev() {
        let here = nodes.with_free(level).filter(|node| nodes.is_type(*node, shape.gpu_type));
        counts.extend(here.map(|node| (node, 0)));
        counts.sort_unstable();
        for (node, count) in &mut counts {
            if left == 0 {
                break;
            }
            if bounded && *count >= nodes.room(*node, shape) {
                continue;
            }
            *count += 1;
            left -= 1;
        }
        if left == 0 {
            break;
        }
    }
    pieces
        .extend(counts.iter().filter(|(_, count)| *count > 0).map(|(node, count)| piece(nodes, *node, shape, *count)));
    left == 0
}
