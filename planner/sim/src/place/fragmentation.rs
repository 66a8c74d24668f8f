//! Least increase of fragmentation (FGD; Weng et al., ATC 2023).
//!
//! See [`super`] for the measure. Whole numbers throughout, so that nodes are compared exactly. O(different nodes × shapes) for a piece:
//! nodes without shared GPUs are alike when they have as many free GPUs, the same type and size, and the same processors and memory left.
//!
//! Worked number: of 10 jobs submitted, 9 asked for 1 GPU and 1 for 8. Two GPUs of a full node of 8 are taken: before, nothing was
//! wasted; after, 6 free GPUs are of no use to a job of 8: the increase is 6,000 × 1. On a node with 4 free, 2 are left: −2,000 × 1. So the second is taken.

use super::{is_taken, part, piece};
use crate::host::HostRoom;
use crate::nodes::{Nodes, WHOLE};
use crate::schedule::Piece;
use crate::workload::Shape;

/// Shapes and how many jobs of each were submitted.
type Submitted<'a> = &'a [(Shape, u64)];

/// Places a job of whole GPUs.
pub(super) fn place(nodes: &Nodes, shape: Shape, submitted: Submitted<'_>, pieces: &mut Vec<Piece>) -> bool {
    for size in super::packed::cut(shape, nodes.largest(shape.gpu_type)) {
        let mut best: Option<(i128, u32)> = None;
        // The lowest node of each kind seen decides for the kind.
        let mut seen: Vec<(u32, u32, Option<u16>, HostRoom)> = Vec::new();
        for free in size..=nodes.most() {
            for node in nodes.with_free(free) {
                let can = nodes.is_type(node, shape.gpu_type) && nodes.holds(node, shape, size);
                if !can || is_taken(nodes, pieces, node) {
                    continue;
                }
                if nodes.shared(node).is_empty() {
                    let kind = (free, nodes.size(node), nodes.gpu_type(node), nodes.host(node));
                    if seen.contains(&kind) {
                        continue;
                    }
                    seen.push(kind);
                }
                let rests: Vec<u16> = nodes.shared(node).iter().map(|gpu| gpu.left).collect();
                let host = nodes.host(node);
                let before = waste(nodes, node, (nodes.free(node), host), &rests, submitted);
                let left = (nodes.free(node) - size, host.less(shape.host_of(size)));
                let after = waste(nodes, node, left, &rests, submitted);
                let candidate = (after - before, node);
                if best.is_none_or(|known| candidate < known) {
                    best = Some(candidate);
                }
            }
        }
        let Some((_, node)) = best else { return false };
        pieces.push(piece(nodes, node, shape, size));
    }
    !pieces.is_empty()
}

/// The node for a part of a GPU.
pub(super) fn node_of_part(nodes: &Nodes, shape: Shape, submitted: Submitted<'_>) -> Option<u32> {
    let increase = |node: u32| {
        let taken = part::piece(nodes, node, shape)?;
        let mut rests: Vec<u16> = nodes.shared(node).iter().map(|gpu| gpu.left).collect();
        let host = nodes.host(node);
        let before = waste(nodes, node, (nodes.free(node), host), &rests, submitted);
        let gpu = taken.gpus.trailing_zeros();
        let mut free = nodes.free(node);
        match nodes.shared(node).iter().position(|shared| u32::from(shared.gpu) == gpu) {
            Some(at) => rests[at] -= shape.milli,
            None => {
                free -= 1;
                rests.push(WHOLE - shape.milli);
            }
        }
        Some((waste(nodes, node, (free, host.less(taken.host)), &rests, submitted) - before, node))
    };
    let can = |node: &u32| nodes.is_type(*node, shape.gpu_type) && part::fits(nodes, *node, shape);
    nodes.eligible().filter(can).filter_map(increase).min().map(|(_, node)| node)
}

/// Fragmentation of a node with so many free GPUs, so much left beside them and these rests of shared ones, thousandths of a GPU × jobs.
fn waste(nodes: &Nodes, node: u32, (free, host): (u32, HostRoom), rests: &[u16], submitted: Submitted<'_>) -> i128 {
    let shared: u64 = rests.iter().map(|left| u64::from(*left)).sum();
    let of = |shape: &Shape| {
        if !nodes.is_type(node, shape.gpu_type) {
            return 0;
        }
        let needs = shape.gpus.min(nodes.largest(shape.gpu_type));
        if !host.holds(shape.host_of(needs)) {
            return shared + u64::from(free) * u64::from(WHOLE);
        }
        if shape.milli > 0 {
            return rests.iter().filter(|left| **left < shape.milli).map(|left| u64::from(*left)).sum();
        }
        shared + if free < needs { u64::from(free) * u64::from(WHOLE) } else { 0 }
    };
    submitted.iter().filter(|(_, jobs)| *jobs > 0).map(|(shape, jobs)| i128::from(of(shape)) * i128::from(*jobs)).sum()
}
