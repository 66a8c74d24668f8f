//! A replay under KAI's queues: whom they let start, and what each start and end is to them.
//!
//! O(depth of the tree) for a start or an end. Worked number: see [`crate::sim::kai::held`].

use super::Run;
use crate::error::{Error, Result};
use crate::sim::kai::held::is_within;

/// Jobs of this priority and above are not stopped, and run within quotas alone.
const FIRM_PRIORITY: i32 = 100;

impl Run<'_> {
    /// Whether a job cannot be stopped.
    pub(in crate::sim) fn is_firm(&self, job: u32) -> bool {
        self.priority(job) >= FIRM_PRIORITY
    }

    /// Whether KAI's queues let a job start; as if there were none where there are none.
    pub(in crate::sim) fn kai_allows(&self, job: u32) -> bool {
        let (leaf, amount) = (self.workload.vc[job as usize], self.shape(job).amount());
        self.kai.as_ref().is_none_or(|kai| kai.held.allows(kai.tree, leaf, amount, self.is_firm(job)))
    }

    /// Whether they ever could.
    pub(super) fn kai_could(&self, job: u32) -> bool {
        let (leaf, amount) = (self.workload.vc[job as usize], self.shape(job).amount());
        self.kai.as_ref().is_none_or(|kai| is_within(kai.tree, leaf, self.is_firm(job), |_| (amount, amount)))
    }

    /// A job starts.
    pub(super) fn kai_start(&mut self, job: u32, amount: u64) -> Result<()> {
        if !self.kai_allows(job) {
            return Err(Error::Action(format!("job {job} starts over the limit, or the quota, of a queue")));
        }
        self.kai_hold(job, amount, true);
        Ok(())
    }

    /// It stops.
    pub(super) fn kai_stop(&mut self, job: u32, amount: u64) {
        self.kai_hold(job, amount, false);
    }

    fn kai_hold(&mut self, job: u32, amount: u64, takes: bool) {
        let (now, leaf, firm) = (self.now, self.workload.vc[job as usize], self.is_firm(job));
        if let Some(kai) = &mut self.kai {
            kai.hold(now, leaf, amount, firm, takes);
        }
    }

    /// Nodes have come or gone.
    pub(super) fn kai_service(&mut self) {
        let (now, gpus) = (self.now, self.service.gpus(&self.nodes));
        if let Some(kai) = &mut self.kai {
            kai.serve(now, gpus * 1000);
        }
    }
}
