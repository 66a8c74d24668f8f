//! What a replay under KAI's queues keeps in mind: what each queue holds, of it what cannot be stopped, and what it used.
//!
//! O(depth of the tree) for a start or an end. Worked number: a queue with a limit of 8 GPUs, below one with a limit of 10 that holds 9, may hold 1 more if it holds 7 or less.

use super::Run;
use crate::error::{Error, Result};
use crate::sim::kai::Hierarchy;
use crate::sim::kai::usage::Usage;

/// Jobs of this priority and above are not stopped, and run within quotas alone.
const FIRM_PRIORITY: i32 = 100;

/// What queues hold, thousandths of GPUs.
#[derive(Debug, Clone)]
pub(in crate::sim) struct Held {
    /// By queue.
    pub(in crate::sim) all: Vec<u64>,
    /// Of it, by jobs that cannot be stopped.
    pub(in crate::sim) firm: Vec<u64>,
}

impl Held {
    /// A leaf holds `more`.
    pub(in crate::sim) fn add(&mut self, tree: &Hierarchy, leaf: u16, more: u64, firm: bool) {
        for at in tree.path(leaf).map(usize::from) {
            self.all[at] += more;
            self.firm[at] += if firm { more } else { 0 };
        }
    }

    /// A leaf holds `less`.
    pub(in crate::sim) fn remove(&mut self, tree: &Hierarchy, leaf: u16, less: u64, firm: bool) {
        for at in tree.path(leaf).map(usize::from) {
            self.all[at] = self.all[at].saturating_sub(less);
            self.firm[at] = self.firm[at].saturating_sub(if firm { less } else { 0 });
        }
    }

    /// Whether a job may have `more`: no queue above its limit, and if it is firm, none above its quota with firm jobs.
    pub(in crate::sim) fn allows(&self, tree: &Hierarchy, leaf: u16, more: u64, firm: bool) -> bool {
        tree.path(leaf).all(|at| {
            let (queue, at) = (&tree.queues()[usize::from(at)], usize::from(at));
            queue.limit.is_none_or(|limit| self.all[at] + more <= limit)
                && (!firm || queue.quota.is_none_or(|quota| self.firm[at] + more <= quota))
        })
    }
}

/// The state of the queues.
#[derive(Debug)]
pub(in crate::sim) struct Queues<'a> {
    pub(in crate::sim) tree: &'a Hierarchy,
    pub(in crate::sim) held: Held,
    pub(in crate::sim) usage: Option<Usage>,
}

impl<'a> Queues<'a> {
    pub(super) fn new(tree: &'a Hierarchy) -> Self {
        let count = tree.queues().len();
        let held = Held { all: vec![0; count], firm: vec![0; count] };
        Self { tree, held, usage: tree.rules().usage.map(|rule| Usage::new(rule, count)) }
    }

    /// What a leaf uses changes, and so what the queues above it use.
    fn spend(&mut self, leaf: u16, now: i64, by: i64) {
        let tree = self.tree;
        if let Some(usage) = &mut self.usage {
            tree.path(leaf).for_each(|at| usage.hold(at, now, by));
        }
    }
}

/// An amount, with a sign.
fn signed(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}

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
        let (leaf, amount, firm) = (self.workload.vc[job as usize], self.shape(job).amount(), self.is_firm(job));
        let Some(kai) = &self.kai else { return true };
        kai.tree.path(leaf).map(|at| &kai.tree.queues()[usize::from(at)]).all(|queue| {
            queue.limit.is_none_or(|limit| amount <= limit)
                && (!firm || queue.quota.is_none_or(|quota| amount <= quota))
        })
    }

    /// A job starts.
    pub(super) fn kai_start(&mut self, job: u32, amount: u64) -> Result<()> {
        if !self.kai_allows(job) {
            return Err(Error::Action(format!("job {job} starts over the limit, or the quota, of a queue")));
        }
        let (leaf, firm, now) = (self.workload.vc[job as usize], self.is_firm(job), self.now);
        if let Some(kai) = &mut self.kai {
            kai.held.add(kai.tree, leaf, amount, firm);
            kai.spend(leaf, now, signed(amount));
        }
        Ok(())
    }

    /// It stops.
    pub(super) fn kai_stop(&mut self, job: u32, amount: u64) {
        let (leaf, firm, now) = (self.workload.vc[job as usize], self.is_firm(job), self.now);
        if let Some(kai) = &mut self.kai {
            kai.held.remove(kai.tree, leaf, amount, firm);
            kai.spend(leaf, now, -signed(amount));
        }
    }

    /// Nodes have come or gone.
    pub(super) fn kai_service(&mut self) {
        let (now, gpus) = (self.now, self.service.gpus(&self.nodes));
        if let Some(usage) = self.kai.as_mut().and_then(|kai| kai.usage.as_mut()) {
            usage.serve(now, gpus * 1000);
        }
    }
}
