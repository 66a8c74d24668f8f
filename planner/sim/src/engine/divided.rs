//! A replay under queues that divide the cluster, KAI's or Volcano's: whom they let start, and what each start and end is to them.
//!
//! O(depth of the tree) for a start or an end. Worked number: see [`crate::divided`].

use super::{Line, Run};
use crate::divided::{self, Divided};
use crate::error::{Error, Result};
use crate::kai::held::KaiState;
use crate::volcano::state::VolcanoState;

impl<'a> Run<'a> {
    /// The queues, if they are KAI's.
    pub(crate) fn kai(&self) -> Option<&KaiState<'a>> {
        match self.divided.as_ref() {
            Some(Divided::Kai(kai)) => Some(kai),
            _ => None,
        }
    }

    /// The queues, if they are Volcano's.
    pub(crate) fn volcano(&self) -> Option<&VolcanoState<'a>> {
        match self.divided.as_ref() {
            Some(Divided::Volcano(volcano)) => Some(volcano),
            _ => None,
        }
    }

    /// Whether a job cannot be stopped, under KAI.
    pub(crate) fn is_firm(&self, job: u32) -> bool {
        divided::is_firm(self.priority(job))
    }

    /// Whether the queues' bounds let a job start; as if there were none where there are none.
    pub(crate) fn queue_allows(&self, job: u32) -> bool {
        let (leaf, amount) = (self.workload.vc[job as usize], self.shape(job).amount());
        self.divided.as_ref().is_none_or(|queues| queues.allows(leaf, amount, self.priority(job)))
    }

    /// Whether the queues' bounds let a job start with nothing held.
    pub(super) fn queue_could(&self, job: u32) -> bool {
        let (leaf, amount) = (self.workload.vc[job as usize], self.shape(job).amount());
        self.divided.as_ref().is_none_or(|queues| queues.could_allow(leaf, amount, self.priority(job)))
    }

    /// A job starts.
    pub(super) fn queue_start(&mut self, job: u32, amount: u64) -> Result<()> {
        if !self.queue_allows(job) {
            return Err(Error::Action(format!("job {job} starts over a bound of a queue")));
        }
        self.queue_hold(job, amount, true);
        Ok(())
    }

    /// Gives back what a job held that stops.
    pub(super) fn queue_stop(&mut self, job: u32, amount: u64) {
        self.queue_hold(job, amount, false);
    }

    fn queue_hold(&mut self, job: u32, amount: u64, takes: bool) {
        let (now, leaf, priority) = (self.now, self.workload.vc[job as usize], self.priority(job));
        if let Some(queues) = &mut self.divided {
            queues.hold(now, leaf, amount, priority, takes);
        }
    }

    /// A job joins those that wait.
    pub(super) fn queue_join(&mut self, job: u32) {
        let (leaf, amount) = (self.workload.vc[job as usize], self.shape(job).amount());
        if let Some(queues) = &mut self.divided {
            queues.join(leaf, amount);
        }
    }

    /// A job of a leaf that waited has started.
    pub(super) fn queue_leave(&mut self, leaf: u16, amount: u64) {
        if let Some(queues) = &mut self.divided {
            queues.leave(leaf, amount);
        }
    }

    /// Returns the amount that a job of a line asks for, thousandths.
    pub(crate) fn amount_of(&self, line: Line) -> u64 {
        self.workload.shapes.get(usize::from(line.shape)).map_or(0, |shape| shape.amount())
    }

    /// Nodes have come or gone.
    pub(super) fn queue_service(&mut self) {
        let (now, gpus) = (self.now, self.service.gpus(&self.nodes));
        if let Some(queues) = &mut self.divided {
            queues.serve(now, gpus * 1000);
        }
    }
}
