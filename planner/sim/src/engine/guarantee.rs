//! Who is within the guarantee of its VC, and who borrows beyond it.
//!
//! O(jobs) for the bands of the queue, O(running × log running) for those that borrow. Worked number: of a guarantee of 8 GPUs with 4 at work, waiting jobs of 2, 4
//! and 2 are within it (6), beyond it (10) and beyond it (12).

use super::Run;

impl Run<'_> {
    /// Waiting jobs in the order's order, those within the guarantees of their VCs first, and how many these are. O(jobs).
    pub(crate) fn banded(&self, order: Vec<u32>) -> (Vec<u32>, usize) {
        if !self.guaranteed {
            return (order, 0);
        }
        let mut left = self.guarantees();
        left.iter_mut().zip(&self.used).for_each(|(left, used)| *left -= i128::from(*used));
        let (mut within, beyond): (Vec<u32>, Vec<u32>) =
            order.into_iter().partition(|job| self.counts_within(&mut left, *job));
        let count = within.len();
        within.extend(beyond);
        (within, count)
    }

    /// Whether a job would keep its VC within its guarantee now.
    pub(crate) fn is_within(&self, job: u32) -> bool {
        let vc = usize::from(self.workload.vc[job as usize]);
        self.used[vc] + self.shape(job).amount() <= self.cluster.vcs[vc].guarantee_at(self.now)
    }

    /// Running jobs that borrow beyond the guarantees of their VCs, the last started first. O(running × log running).
    pub(crate) fn borrowers(&self) -> Vec<u32> {
        let running = self.running.iter().map(|segment| &self.schedule.segments[*segment as usize]);
        let mut running: Vec<(i64, u32, bool)> =
            running.map(|segment| (segment.start_ms, segment.job, self.has_progressed(segment))).collect();
        running.sort_unstable();
        let mut left = self.guarantees();
        let mut borrowers: Vec<u32> = running
            .into_iter()
            .filter(|(_, job, progressed)| !self.counts_within(&mut left, *job) && *progressed)
            .map(|(_, job, _)| job)
            .collect();
        borrowers.reverse();
        borrowers
    }

    /// Returns the guarantee of each VC now, thousandths of GPUs.
    fn guarantees(&self) -> Vec<i128> {
        self.cluster.vcs.iter().map(|vc| i128::from(vc.guarantee_at(self.now))).collect()
    }

    /// Takes a job out of what is `left` of its VC's guarantee; whether that was enough.
    fn counts_within(&self, left: &mut [i128], job: u32) -> bool {
        let left = &mut left[usize::from(self.workload.vc[job as usize])];
        *left -= i128::from(self.shape(job).amount());
        *left >= 0
    }
}
