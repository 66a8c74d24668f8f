//! Parts of a GPU on a node.
//!
//! A part goes to the shared GPU with the least left that suffices, else to the lowest free GPU. O(shared GPUs). Worked number: a job of
//! 0.3 on a node whose shared GPUs have 0.5 and 0.4 left takes the second, which then has 0.1 left.

use crate::nodes::Nodes;
use crate::schedule::Piece;
use crate::workload::Shape;

/// Whether a node has room for a part, processors and memory included.
pub(super) fn fits(nodes: &Nodes, node: u32, shape: Shape) -> bool {
    let gpu = nodes.free(node) > 0 || nodes.shared(node).iter().any(|gpu| gpu.left >= shape.milli);
    gpu && nodes.holds(node, shape, 0)
}

/// Where on a node a part goes.
pub(super) fn piece(nodes: &Nodes, node: u32, shape: Shape) -> Option<Piece> {
    let milli = shape.milli;
    let tightest = nodes.shared(node).iter().filter(|gpu| gpu.left >= milli).min_by_key(|gpu| (gpu.left, gpu.gpu));
    let bits = nodes.free_bits(node);
    let gpus = tightest.map_or(bits & bits.wrapping_neg(), |gpu| 1 << gpu.gpu);
    (gpus != 0).then(|| Piece { node: nodes.number(node), milli, gpus, host: shape.host_of(0) })
}
