//! Queues as Volcano has them: what each deserves, and the most it may hold.
//!
//! The leaves are the VCs of the cluster. A queue has a *weight*, what it is said to *deserve*, a *guarantee* that the others leave free for it, a *capability* that it never exceeds, a *priority*, and is *reclaimable* or not. All amounts are GPUs in
//! thousandths; what a queue deserves under `proportion` is kept in millionths.
//!
//! **Bound.** A queue may hold at most its *bound*: its capability, and what lies above it (all in service, at the top) less the guarantees of all queues beside it and plus its own, whichever is less.
//!
//! **Deserved**, under the plugin `proportion` (module `deserved`). Only queues with jobs that run or wait count; a queue *requests* what these ask for. All in service is divided in rounds. In each, every queue that is not *met* gets its weight's part of what is left, weights being those of all that
//! are not met. It then deserves at most its bound, at most its request, but at least its guarantee. It is met once it deserves its request, or when a round gave it nothing. What the round added is taken from what is left; the next begins unless nothing is left or nothing has changed. So GPUs go first to
//! whom they are guaranteed only as far as bounds leave them free: guarantees can make the queues deserve more than there is, as in Volcano.
//!
//! Under the plugin `capacity` a queue deserves what it is said to, at most its bound and at least its guarantee; where it is not said, nothing. Queues may lie below each other (`parent`), and bounds and what is held hold on every level.
//!
//! **Share.** What a queue holds of what it deserves. Of nothing deserved it is 0 or, if it holds something, 1; under `capacity` always 1.
//!
//! Worked numbers. 10 GPUs, three queues of weights 1, 2 and 2, which want 10, 1 and 10: first they are due 2, 4 and 4, and the second is met with 1; of the 3 that are left the first gets 1 and the third 2: they deserve 3, 1 and 6. With 8 GPUs and weights 1 and 2 two queues deserve 2.667 and 5.333:
//! with jobs of one GPU they hold 2 and 5, and one GPU idles. Volcano's capacity guide: of 8, queues that deserve 2 and 6; the first runs 8 jobs of 1 while the second is idle, and keeps 2 once the second asks for 8.
//!
//! Sources: Volcano's documentation (capacity plugin, capacity scheduling, hierarchical queues, gang-aware eviction, configuration of the scheduler) and the behaviour of its plugins proportion, capacity, priority, gang and drf. Differences: parts are rounded down to millionths, where Volcano computes in floating
//! point; one resource is divided, GPUs (or processors), so that the dominant share of drf is that of this resource; under `capacity` without hierarchy and with it bounds are the same.

pub mod deserved;
pub(crate) mod state;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(crate) mod tests;

use super::forest::Forest;
use crate::error::{Error, Result};

/// The most of an amount, thousandths of GPUs.
const MOST_MILLI: u64 = 10_000_000_000;
/// Millionths in a thousandth.
pub(crate) const FINE: u64 = 1000;

/// A queue: a leaf, which is a VC, or one above others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolcanoQueue {
    /// Name of the queue.
    pub name: String,
    /// The queue above it, an index into the queues; `None` at the top.
    pub parent: Option<u16>,
    /// Weight, at least 1.
    pub weight: u32,
    /// Configured `deserved`, thousandths of GPUs.
    pub deserved: Option<u64>,
    /// Amount that others leave free for the queue, thousandths of GPUs.
    pub guarantee: u64,
    /// The most it may hold, thousandths of GPUs; no such bound if `None`.
    pub capability: Option<u64>,
    /// Whether other queues may reclaim from this one.
    pub reclaimable: bool,
    /// Priority, highest first.
    pub priority: i32,
    /// Place in the order of creation.
    pub created: u32,
}

/// Which plugin says what queues deserve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plugin {
    /// By weight and request.
    Proportion,
    /// By the `deserved` of each queue.
    Capacity,
}

/// Sort key of the jobs of a queue, before the key of the policy's order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobOrder {
    /// Highest priority first.
    Priority,
    /// Least held first: jobs that wait hold nothing, so that it tells only jobs that run apart.
    Drf,
}

/// From whom queues reclaim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReclaimFrom {
    /// From queues that hold more than they deserve.
    Over,
    /// From any: where no plugin that knows what queues deserve is asked.
    Any,
}

/// An action that stops jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Eviction {
    /// Jobs of other queues.
    Reclaim(ReclaimFrom),
    /// Jobs of lower priority of the same queue.
    Preempt,
}

/// Rules of all queues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolcanoRules {
    /// Which plugin says what queues deserve.
    pub plugin: Plugin,
    /// Sort keys of jobs, the first first.
    pub order: Vec<JobOrder>,
    /// Actions that stop jobs, in their order.
    pub evictions: Vec<Eviction>,
}

impl Default for VolcanoRules {
    /// Volcano's own: proportion, priority before drf, nobody stopped.
    fn default() -> Self {
        Self { plugin: Plugin::Proportion, order: vec![JobOrder::Priority, JobOrder::Drf], evictions: Vec::new() }
    }
}

/// Volcano's queues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolcanoQueues {
    queues: Vec<VolcanoQueue>,
    forest: Forest,
    rules: VolcanoRules,
}

impl VolcanoQueues {
    /// The queues: first the `leaves`, in the order of the cluster's VCs, then those above them.
    ///
    /// # Errors
    /// If a parent is no queue above others, or queues are each other's parents; if one lies above others without the plugin capacity; if amounts of a queue are not in order, or
    /// its weight is 0.
    pub fn new(queues: Vec<VolcanoQueue>, leaves: usize, rules: VolcanoRules) -> Result<Self> {
        let members: Vec<(&str, Option<u16>)> =
            queues.iter().map(|queue| (queue.name.as_str(), queue.parent)).collect();
        let forest = Forest::new(&members, leaves)?;
        let wrong = |queue: &VolcanoQueue, what: &str| Err(Error::Cluster(format!("queue {}: {what}", queue.name)));
        for queue in &queues {
            let most = queue.capability.unwrap_or(u64::MAX);
            if queue.weight == 0 {
                return wrong(queue, "its weight is at least 1");
            }
            let amounts = [queue.deserved, Some(queue.guarantee), queue.capability];
            if amounts.into_iter().flatten().any(|amount| amount > MOST_MILLI) {
                return wrong(queue, "an amount of it is above 10,000,000 GPUs");
            }
            if queue.guarantee > most || queue.deserved.is_some_and(|deserved| deserved > most) {
                return wrong(queue, "what it deserves, and its guarantee, are at most its capability");
            }
            if queue.deserved.is_some_and(|deserved| deserved < queue.guarantee) {
                return wrong(queue, "what it deserves is at least its guarantee");
            }
            if queue.parent.is_some() && rules.plugin == Plugin::Proportion {
                return wrong(queue, "queues lie below each other under the plugin capacity alone");
            }
        }
        Ok(Self { queues, forest, rules })
    }

    /// All queues, the leaves first.
    pub fn queues(&self) -> &[VolcanoQueue] {
        &self.queues
    }

    /// How many of them are leaves.
    pub fn leaves(&self) -> usize {
        self.forest.leaves()
    }

    /// Returns the rules of all queues.
    pub fn rules(&self) -> &VolcanoRules {
        &self.rules
    }

    /// A queue and those above it, the nearest first.
    pub fn path(&self, queue: u16) -> impl Iterator<Item = u16> + '_ {
        self.forest.path(queue)
    }

    /// Whether jobs of the highest priority come first.
    pub(crate) fn orders_by_priority(&self) -> bool {
        self.rules.order.contains(&JobOrder::Priority)
    }

    /// Which lies above which.
    pub(crate) fn forest(&self) -> &Forest {
        &self.forest
    }

    /// The most each queue may hold of `total` in service, by queue. O(queues).
    pub fn bounds(&self, total: u64) -> Vec<u64> {
        let mut bounds = vec![0; self.queues.len()];
        let mut open: Vec<(u64, &[u16])> = vec![(total, self.forest.below(None))];
        while let Some((above, members)) = open.pop() {
            let guaranteed: u64 = members.iter().map(|at| self.queues[usize::from(*at)].guarantee).sum();
            for at in members {
                let queue = &self.queues[usize::from(*at)];
                let left = above.saturating_sub(guaranteed) + queue.guarantee;
                let bound = queue.capability.map_or(left, |capability| capability.min(left));
                bounds[usize::from(*at)] = bound;
                let below = self.forest.below(Some(*at));
                if !below.is_empty() {
                    open.push((bound, below));
                }
            }
        }
        bounds
    }

    /// Whether a leaf and the queues above it are within their capabilities if each holds so much.
    pub(crate) fn is_capable(&self, leaf: u16, held: impl Fn(usize) -> u64) -> bool {
        self.path(leaf).map(usize::from).all(|at| self.queues[at].capability.is_none_or(|most| held(at) <= most))
    }
}
