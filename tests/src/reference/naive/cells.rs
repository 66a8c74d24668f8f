//! Guarantees in cells, in the plainest way, from the rules that `tracecast_planner`'s module `sim::cell` states. Nothing is kept but the cell and the block of each piece of a running job: which cells are bound, and which GPUs of
//! them are had, is found anew from the jobs that run at every question.
//!
//! Worked number: one node of 8, a job of 2 in a cell of 4 that is bound to GPUs 4 to 7: for a job of 1 of the same VC GPUs 6 and 7 are a home of 2.

use std::collections::BTreeSet;

use tracecast_planner::sim::{Piece, Scan, Shape, Stop};

use super::place::whole;
use super::{Phase, Pool, View};

/// (node, first GPU, GPUs)
pub(super) type Cell = (usize, usize, usize);

/// GPUs as (node, number).
type Gpus = BTreeSet<(usize, usize)>;

fn gpus((node, from, size): Cell) -> Gpus {
    (from..from + size).map(|gpu| (node, gpu)).collect()
}

/// The largest block about one that lies within a cell and has none of the GPUs that are had; none if that one has any.
fn home(block: Cell, within: Cell, had: &Gpus) -> Option<usize> {
    let (node, from, size) = block;
    let mut homes = Vec::new();
    let mut wider = size;
    while wider <= within.2 {
        let of = (node, from / wider * wider, wider);
        homes.push((wider, gpus(of).is_disjoint(had)));
        wider *= 2;
    }
    homes.into_iter().take_while(|(_, free)| *free).map(|(size, _)| size).max()
}

fn blocks((node, from, size): Cell, of: usize) -> Vec<Cell> {
    (from..from + size).filter(|at| at % of == 0 && at + of <= from + size).map(|at| (node, at, of)).collect()
}

impl Pool<'_> {
    /// Whether a VC of the pool is guaranteed cells.
    pub(super) fn has_cells(&self) -> bool {
        self.cluster.vcs.iter().any(|vc| usize::from(vc.pool) == self.pool && !vc.guarantee_cells.is_empty())
    }

    fn cells_of(&self, of: impl Fn(usize) -> bool) -> Vec<Cell> {
        let running = self.in_phase(Phase::Running).into_iter().filter(|job| of(self.vc(*job)));
        let cells: BTreeSet<Cell> =
            running.flat_map(|job| self.jobs[job].cells.iter().map(|(cell, _)| *cell)).collect();
        cells.into_iter().collect()
    }

    /// Placement of a job within its VC's cells, piece by piece with the cell of each, if it is
    /// within them.
    pub(super) fn within_cells(&self, view: &View, job: usize) -> Option<Vec<(Piece, (Cell, Cell))>> {
        let (vc, shape) = (self.vc(job), self.shape(job));
        let mut own: Vec<usize> = Vec::new();
        for (size, count) in &self.cluster.vcs[vc].guarantee_cells {
            own.extend(std::iter::repeat_n(*size as usize, *count as usize));
        }
        let node = *self.sizes.first()?;
        let sizes = pieces(shape, node);
        let small = sizes.iter().filter(|size| **size < node).count();
        let mut bound = self.cells_of(|other| other == vc);
        let mut everyones = self.cells_of(|_| true);
        // GPUs in blocks of jobs in cells of the VC.
        let mut had = Gpus::new();
        for other in self.in_phase(Phase::Running) {
            if self.vc(other) == vc {
                had.extend(self.jobs[other].cells.iter().flat_map(|(_, block)| gpus(*block)));
            }
        }
        let in_use = |block: Cell| gpus(block).into_iter().filter(|(node, gpu)| view[*node].0[*gpu] < 1000).count();
        let mut result = Vec::new();
        for size in sizes {
            let mut needs = 1;
            while needs < size || (small > 1 && needs < node) {
                needs *= 2;
            }
            let inside = |bound: &[Cell], had: &Gpus| {
                let mut all = Vec::new();
                for cell in bound.iter().copied().filter(|cell| view[cell.0].1) {
                    for block in blocks(cell, needs) {
                        if let Some(home) = home(block, cell, had) {
                            all.push((home, in_use(block), block, cell));
                        }
                    }
                }
                all.into_iter().min()
            };
            let left = |size: usize| {
                own.iter().filter(|cell| **cell == size).count() > bound.iter().filter(|cell| cell.2 == size).count()
            };
            let new = own.iter().copied().filter(|cell| *cell >= needs && left(*cell)).min();
            let mut best = inside(&bound, &had);
            if let Some(new) = new
                && best.is_none_or(|(home, ..)| home > new)
            {
                let closed: Gpus = everyones.iter().flat_map(|cell| gpus(*cell)).collect();
                let mut open = Vec::new();
                for at in (0..view.len()).filter(|at| view[*at].1) {
                    for block in blocks((at, 0, node), new) {
                        if let Some(home) = home(block, (at, 0, node), &closed) {
                            open.push((home, in_use(block), block));
                        }
                    }
                }
                let (_, _, cell) = open.into_iter().min()?;
                bound.push(cell);
                everyones.push(cell);
                best = inside(&bound, &had);
            }
            let (_, _, block, cell) = best?;
            had.extend(gpus(block));
            let (at, from, _) = block;
            result.push((whole(self.first + at as u32, shape, from..from + size), (cell, block)));
        }
        Some(result)
    }

    fn gpus_of(&self, piece: &Piece) -> Gpus {
        let node = (piece.node - self.first) as usize;
        (0..64).filter(|gpu| piece.gpus >> gpu & 1 == 1).map(|gpu| (node, gpu)).collect()
    }

    /// Starts a job where it was found to go within its VC's cells; whether others were stopped for it.
    pub(super) fn start_in_cells(&mut self, job: usize, result: Vec<(Piece, (Cell, Cell))>) -> bool {
        let wanted: Gpus = result.iter().flat_map(|(piece, _)| self.gpus_of(piece)).collect();
        let mut stopped = false;
        for other in self.in_phase(Phase::Running) {
            if self.jobs[other].pieces.iter().any(|piece| !self.gpus_of(piece).is_disjoint(&wanted)) {
                assert!(self.jobs[other].cells.is_empty(), "a job in cells is stopped");
                self.stop(other, Stop::Preempted);
                stopped = true;
            }
        }
        let (pieces, cells) = result.into_iter().unzip();
        self.start(job, pieces);
        self.jobs[job].cells = cells;
        stopped
    }

    /// The two walks; whether any job was stopped.
    pub(super) fn two_walks(&mut self) -> bool {
        let mut stopped = false;
        let mut others = Vec::new();
        for job in self.sorted(self.in_phase(Phase::Waiting)) {
            let is_behind =
                self.policy.scan == Scan::Strict && others.iter().any(|other| self.vc(*other) == self.vc(job));
            match self.within_cells(&self.view(), job).filter(|_| !is_behind) {
                Some(result) => stopped |= self.start_in_cells(job, result),
                None => others.push(job),
            }
        }
        self.walk(&others, &[], &[]) || stopped
    }
}

/// Sizes of the pieces of a job on nodes of so many GPUs.
fn pieces(shape: Shape, node: usize) -> Vec<usize> {
    let all = shape.gpus as usize;
    let each = if shape.nodes > 0 { all.div_ceil(usize::from(shape.nodes)) } else { node };
    let mut sizes = Vec::new();
    while sizes.iter().sum::<usize>() < all {
        sizes.push(each.min(all - sizes.iter().sum::<usize>()));
    }
    sizes
}
