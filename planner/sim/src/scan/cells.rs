//! The two walks where VCs are guaranteed cells: jobs within them first, then the others outside.
//!
//! The rules stand in [`crate::cell`]. O(waiting) for a decision, a search for cells for each VC and shape, and O(running) for each job that stops others.
//!
//! Worked example: a VC with a cell of 4 GPUs has jobs of 4, 4 and 1 in the queue. The first is within its cell. The second is not, and neither is the third, as the first has all of the cell; under skip the third would be if the first asked for 2.

use super::{Refused, loose};
use crate::cell::PieceInCell;
use crate::engine::{Action, Run};
use crate::error::Result;
use crate::policy::Scan;
use crate::schedule::Piece;

impl Run<'_> {
    /// Strict and skip, where VCs are guaranteed cells.
    pub(super) fn walk_cells(&mut self) -> Result<()> {
        let (mut others, mut behind) = (Vec::new(), Vec::new());
        // What is not within its VC's cells is not until a job leaves them, which none does in a walk.
        let mut beyond = Refused::default();
        let mut stopped = false;
        for job in self.in_order() {
            let vc = self.workload.vc[job as usize];
            let is_left = behind.contains(&vc) || beyond.holds(self, job);
            let result = if is_left { None } else { self.found_in_cells(job) };
            if let Some(result) = result {
                stopped |= self.start_in_cells(job, result)?;
                continue;
            }
            others.push(job);
            match self.policy.scan {
                _ if is_left => {}
                Scan::Strict => behind.push(vc),
                _ => beyond.insert(self, job),
            }
        }
        let mut walk = loose::Walk::default();
        for job in others {
            self.look(&mut walk, job, false)?;
        }
        if stopped {
            self.due_next();
        }
        Ok(())
    }

    /// Where a job goes, if it is within its VC's cells.
    pub(crate) fn found_in_cells(&self, job: u32) -> Option<Vec<PieceInCell>> {
        self.cells.as_ref()?.find(&self.nodes, self.workload.vc[job as usize], self.shape(job))
    }

    /// Starts a job in cells of its VC, and stops those that are in its way; whether there were any.
    pub(crate) fn start_in_cells(&mut self, job: u32, result: Vec<PieceInCell>) -> Result<bool> {
        let in_the_way = self.in_the_way(&result);
        for other in &in_the_way {
            self.apply(Action::Preempt { job: *other })?;
        }
        let shape = self.shape(job);
        let piece = |of: &PieceInCell| {
            let host = shape.host_of(of.gpus.count_ones());
            Piece { host, ..Piece::whole(self.nodes.number(of.node()), of.gpus) }
        };
        let pieces: Vec<Piece> = result.iter().map(piece).collect();
        self.apply(Action::Start { job, pieces: &pieces })?;
        if let Some(cells) = &mut self.cells {
            cells.enter(job, self.workload.vc[job as usize], result);
        }
        Ok(!in_the_way.is_empty())
    }

    /// Running jobs that have GPUs of these pieces, in order of their start.
    fn in_the_way(&self, result: &[PieceInCell]) -> Vec<u32> {
        if result.iter().all(|of| self.nodes.free_bits(of.node()) & of.gpus == of.gpus) {
            return Vec::new();
        }
        let has = |piece: &Piece| {
            let node = self.nodes.local(piece.node);
            result.iter().any(|of| of.node() == node && of.gpus & piece.gpus != 0)
        };
        let running = self.running.iter().map(|segment| &self.schedule.segments[*segment as usize]);
        running.filter(|segment| self.schedule.pieces_of(segment).iter().any(has)).map(|segment| segment.job).collect()
    }
}
