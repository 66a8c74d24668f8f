//! Trial of stopping jobs: they are taken out one at a time until a job fits, and put back where it
//! fits without.
//!
//! O(out) tries. Worked example: jobs of 1, 4 and 1 GPU are taken out, in this order, for one of 4 that fits then: the last stays out, whatever it is, of the others the second is needed, and the first is put back.

use crate::engine::Run;
use crate::nodes::Nodes;

/// A job for which others might stop.
pub(super) trait Rehearsal {
    /// Returns the jobs that are out, in the order in which they were taken.
    fn out(&mut self) -> &mut Vec<u32>;
    /// Takes a job off its nodes and out of what its queue holds.
    fn take_out(&mut self, job: u32);
    /// Puts it back; `false` if its GPUs are gone.
    fn put_back(&mut self, job: u32) -> bool;
    /// Whether the job fits.
    fn fits(&self) -> bool;

    /// Puts jobs that are out back, from the last but one to the first, where the job still fits.
    fn spare(&mut self) {
        for at in (0..self.out().len().saturating_sub(1)).rev() {
            let job = self.out().remove(at);
            if !self.put_back(job) || !self.fits() {
                self.take_out(job);
                self.out().insert(at, job);
            }
        }
    }
}

impl Run<'_> {
    /// Takes a running job off a view of the nodes.
    pub(super) fn lift(&self, nodes: &mut Nodes, job: u32) {
        let Some(segment) = self.schedule.last_segment(job as usize) else { return };
        for piece in self.schedule.pieces_of(segment) {
            nodes.give(piece);
        }
    }

    /// Puts it back on them; `false` if its GPUs are gone.
    pub(super) fn lower(&self, nodes: &mut Nodes, job: u32) -> bool {
        let Some(segment) = self.schedule.last_segment(job as usize) else { return false };
        self.schedule.pieces_of(segment).iter().all(|piece| nodes.retake(piece).is_ok())
    }
}
