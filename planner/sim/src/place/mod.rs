//! Where a job goes: the placement rules.
//!
//! A node is *eligible* if it is in service, does not drain and has the GPU type asked for. *L* is the largest number of GPUs on any
//! node, in service or not, of the pool's groups with that type (any group if none is asked for). *Free* is the number of a node's GPUs no job touches; its *room* is that, or less where processors or memory are short (see [`super`]). All ties go to the lowest
//! node index. On a node the lowest free GPUs are taken, except by buddy cells.
//!
//! **Pieces.** A job of *n* whole GPUs is one piece if n ≤ L, else ⌊n/L⌋ pieces of L GPUs and, if anything is left, a last piece with the
//! rest. A job that asks for k nodes is k pieces of ⌈n/k⌉ GPUs, the last ones smaller (12 on 2 is 6 + 6, 13 on 3 is 5 + 5 + 3); pieces that would be empty are left out. Pieces are placed in turn, each on
//! an eligible node that has no other piece of the job and at least as much room. If one finds no node, the job does not fit. Of the nodes with room:
//!
//! | rule | the node of a piece |
//! |---|---|
//! | first fit | the lowest index |
//! | best fit | the least free |
//! | worst fit | the most free |
//! | consolidate | the least free; but the last, smaller piece of a job with n > L goes to a node with L free GPUs if there is one with room, else to the most free |
//! | fragmentation (FGD) | the least increase in fragmentation |
//! | buddy | see below |
//! | locality | as consolidate until the job has waited for its timeout since its submission, then node by node, most free first, each filled up |
//! | spread | no pieces: GPU by GPU on the node with the most free GPUs left, of those with room left |
//! | random | no pieces: eligible nodes in rising order of [`draw`]`(seed, job, node)`, each filled up; under [`Compat::Helios`](super::Compat) in order of index |
//!
//! **Requests.** A job of whole GPUs that asks for blocks, racks or the like is placed by none of these rules, but as the module `place::domain` says.
//!
//! `spread`, `random` and `locality` after its timeout need only as much room as the job has GPUs, wherever it is; a node is filled up when its room is used.
//!
//! **Parts of a GPU.** A job of a part of a GPU fits on a node that has a shared GPU with enough left, or a free GPU, and its processors and memory. There it takes the shared
//! GPU with the least left that suffices (lowest index on ties), else the lowest free GPU, which becomes shared. For choosing the node, its
//! free amount in thousandths, shared GPUs' rests included, takes the place of *free*: least for best fit, consolidate, buddy and locality
//! (before and after the timeout), most for worst fit and spread; first fit and random take the first in their order that fits.
//!
//! **Fragmentation** (Weng et al., ATC 2023). The waste of a node for a shape m: if m asks for whole GPUs, with p = min(n, L_m) (L_m is L
//! for m's GPU type): what its shared GPUs have left, and if it has fewer than p free GPUs, its free GPUs as well; if m asks for a part: what those of its shared GPUs
//! have left on which m does not fit. If the node's processors or memory left do not hold p GPUs of m, or its part, all is waste that its GPUs have left. A node of another type than m asks for wastes nothing for it. The fragmentation of a node is the sum over
//! shapes of waste (thousandths of a GPU) × jobs of that shape submitted to the pool so far (rejected ones not counted), in whole numbers. The increase is
//! what it would be with the piece on it (lowest free GPUs; parts as above) less what it is.
//!
//! **Buddy cells** (HiveD, Zhao et al., OSDI 2020). A node's cells are its aligned blocks of 1, 2, 4, … GPUs, as far as they lie within it, and
//! the whole node. A piece of p GPUs needs room and a cell all of whose GPUs are free: of the next power of two at least p, or the whole node if that power
//! exceeds the node's GPUs. The *home* of a cell is the largest free cell that contains it (of a power-of-two block as large as the node, the block). The piece takes the cell with the smallest home, then the
//! lowest node index, then the lowest position, and of the cell its lowest p GPUs.
//!
//! Where nodes lie in domains (racks, blocks; see [`crate::topology`]), these are cells above the node, of as many GPUs as their nodes in the pool have, and free if all of these are free on nodes that take jobs. A job of several
//! pieces lies within one cell above the node if it can: of the narrowest level that has one in which all its pieces find cells; of those the one with the fewest free GPUs on nodes that take jobs, of equals the one that lies in
//! the cell of the next wider level with the fewest, and so on, then the first in the order of the domains. If there is none, its pieces go to any nodes. HiveD gives a job the whole cell; here others may use what it leaves of it.
//!
//! Worked example: nodes with 3, 8 and 5 free GPUs, all of 8. A job of 3 goes to the first under best fit, to the second under worst fit; a job
//! of 12 takes the second and cannot have 4 of the third's 5 under buddy cells unless they are an aligned block.

mod buddy;
mod domain;
mod fragmentation;
mod packed;
mod part;
mod scattered;
#[cfg(test)]
mod tests;

pub use scattered::draw;

use super::nodes::{Nodes, lowest};
use super::policy::{Compat, Placement, Policy};
use super::schedule::Piece;
use super::workload::Shape;

/// A placement rule, with what it knows of the jobs of its pool.
#[derive(Debug, Clone)]
pub(crate) struct Placer {
    rule: Placement,
    seed: u64,
    helios: bool,
    /// The shapes of the workload, and how many jobs of each were submitted to the pool so far.
    submitted: Vec<(Shape, u64)>,
}

/// A job that asks for a place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ask {
    /// Index of the job.
    pub(crate) job: u32,
    /// Shape of the job.
    pub(crate) shape: Shape,
    /// Whether the job has waited for its locality timeout.
    pub(crate) relaxed: bool,
}

impl Placer {
    /// The rule of `policy`, for jobs of `shapes`.
    pub(crate) fn new(policy: &Policy, shapes: &[Shape]) -> Self {
        Self {
            rule: policy.placement,
            seed: policy.seed,
            helios: policy.compat == Compat::Helios,
            submitted: shapes.iter().map(|shape| (*shape, 0)).collect(),
        }
    }

    /// Takes note that a job of the shape with this index was submitted.
    pub(crate) fn submitted(&mut self, shape: u16) {
        if let Some((_, jobs)) = self.submitted.get_mut(usize::from(shape)) {
            *jobs += 1;
        }
    }

    /// Finds nodes for `ask` and puts its pieces into `pieces` (emptied first); `false` if there are none for all of it.
    pub(crate) fn place(&self, nodes: &Nodes, ask: Ask, pieces: &mut Vec<Piece>) -> bool {
        pieces.clear();
        let shape = ask.shape;
        if shape.milli > 0 {
            return self.place_part(nodes, ask, pieces);
        }
        if shape.amount() > nodes.eligible_free() * 1000 {
            return false;
        }
        if let Some(request) = shape.request {
            return domain::place(nodes, shape, request, pieces);
        }
        match self.rule {
            Placement::Spread => scattered::spread(nodes, shape, pieces),
            Placement::Random if self.helios => scattered::fill(nodes, shape, nodes.eligible(), pieces),
            Placement::Random => scattered::fill(nodes, shape, scattered::drawn(nodes, self.seed, ask.job), pieces),
            Placement::Locality(_) if ask.relaxed => {
                scattered::fill(nodes, shape, scattered::most_free_first(nodes), pieces)
            }
            Placement::Fragmentation => fragmentation::place(nodes, shape, &self.submitted, pieces),
            Placement::Buddy => buddy::place(nodes, shape, pieces),
            Placement::Consolidate
            | Placement::FirstFit
            | Placement::BestFit
            | Placement::WorstFit
            | Placement::Locality(_) => packed::place(self.rule, nodes, shape, pieces),
        }
    }

    /// Whether [`Placer::place`] would find nodes for `ask`; which, it does not say. Cheaper than finding them.
    pub(crate) fn fits(&self, nodes: &Nodes, ask: Ask) -> bool {
        let shape = ask.shape;
        if shape.milli > 0 {
            return nodes.eligible().any(|node| nodes.is_type(node, shape.gpu_type) && part::fits(nodes, node, shape));
        }
        if shape.amount() > nodes.eligible_free() * 1000 {
            return false;
        }
        if let Some(request) = shape.request {
            return domain::fits(nodes, shape, request);
        }
        let scattered = matches!(self.rule, Placement::Spread | Placement::Random)
            || (matches!(self.rule, Placement::Locality(_)) && ask.relaxed);
        match self.rule {
            _ if scattered && shape.gpu_type.is_none() && !nodes.bounds(shape) => true,
            // Nodes with room are enough for the other rules, whichever of them decides among the nodes.
            _ if !scattered && self.rule != Placement::Buddy => packed::fits(nodes, shape),
            Placement::Buddy => buddy::fits(nodes, shape),
            _ => self.place(nodes, ask, &mut Vec::new()),
        }
    }

    fn place_part(&self, nodes: &Nodes, ask: Ask, pieces: &mut Vec<Piece>) -> bool {
        let shape = ask.shape;
        let can = |node: &u32| nodes.is_type(*node, shape.gpu_type) && part::fits(nodes, *node, shape);
        let node = match self.rule {
            Placement::FirstFit => nodes.eligible().find(can),
            Placement::Random if self.helios => nodes.eligible().find(can),
            Placement::Random => scattered::drawn(nodes, self.seed, ask.job).find(can),
            Placement::WorstFit | Placement::Spread => {
                nodes.eligible().filter(can).max_by_key(|node| (nodes.amount(*node), std::cmp::Reverse(*node)))
            }
            Placement::Fragmentation => fragmentation::node_of_part(nodes, shape, &self.submitted),
            Placement::Consolidate | Placement::BestFit | Placement::Buddy | Placement::Locality(_) => {
                nodes.eligible().filter(can).min_by_key(|node| (nodes.amount(*node), *node))
            }
        };
        pieces.extend(node.and_then(|node| part::piece(nodes, node, shape)));
        !pieces.is_empty()
    }
}

/// `count` of the free GPUs of `node`, the lowest, for a shape of whole GPUs.
fn piece(nodes: &Nodes, node: u32, shape: Shape, count: u32) -> Piece {
    let gpus = lowest(nodes.free_bits(node), count);
    Piece { host: shape.host_of(count), ..Piece::whole(nodes.number(node), gpus) }
}

/// Whether a job has a piece on `node` already.
fn is_taken(nodes: &Nodes, pieces: &[Piece], node: u32) -> bool {
    pieces.iter().any(|taken| taken.node == nodes.number(node))
}
