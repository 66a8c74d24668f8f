//! Amounts that queues hold as jobs start and stop: in all, by jobs that cannot be stopped, and
//! used over time. The engine and the metrics of a schedule go by them.
//!
//! O(depth of the tree) for a start or an end. Worked number: a queue with a limit of 8 GPUs, below one with a limit of 10 that holds 9, may hold 1 more if it holds 7 or less.

use super::Hierarchy;
use super::usage::Usage;

/// Amounts that queues hold, thousandths of GPUs.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    /// Amounts held by all jobs, by queue.
    pub(crate) all: Vec<u64>,
    /// Amounts held by jobs that cannot be stopped, by queue.
    pub(crate) firm: Vec<u64>,
}

impl Held {
    /// A leaf holds `more`.
    pub(crate) fn add(&mut self, tree: &Hierarchy, leaf: u16, more: u64, firm: bool) {
        for at in tree.path(leaf).map(usize::from) {
            self.all[at] += more;
            self.firm[at] += if firm { more } else { 0 };
        }
    }

    /// A leaf holds `less`.
    pub(crate) fn remove(&mut self, tree: &Hierarchy, leaf: u16, less: u64, firm: bool) {
        for at in tree.path(leaf).map(usize::from) {
            self.all[at] = self.all[at].saturating_sub(less);
            self.firm[at] = self.firm[at].saturating_sub(if firm { less } else { 0 });
        }
    }

    /// Whether a job may have `more`: no queue above its limit, and if it is firm, none above its quota with firm jobs.
    pub(crate) fn allows(&self, tree: &Hierarchy, leaf: u16, more: u64, firm: bool) -> bool {
        is_within(tree, leaf, firm, |at| (self.all[at] + more, self.firm[at] + more))
    }
}

/// Whether a leaf and the queues above it are within their bounds if they hold so much (in all, and
/// by firm jobs); quotas bind firm jobs alone.
pub(crate) fn is_within(tree: &Hierarchy, leaf: u16, firm: bool, held: impl Fn(usize) -> (u64, u64)) -> bool {
    tree.path(leaf).map(usize::from).all(|at| {
        let (queue, (all, of_firm)) = (&tree.queues()[at], held(at));
        queue.limit.is_none_or(|limit| all <= limit) && (!firm || queue.quota.is_none_or(|quota| of_firm <= quota))
    })
}

/// The queues of a replay at a moment.
#[derive(Debug)]
pub struct KaiState<'a> {
    pub(crate) tree: &'a Hierarchy,
    pub(crate) held: Held,
    /// Amount that the waiting jobs of each leaf ask for, thousandths.
    pub(crate) waiting: Vec<u64>,
    pub(crate) usage: Option<Usage>,
}

impl<'a> KaiState<'a> {
    pub(crate) fn new(tree: &'a Hierarchy) -> Self {
        let count = tree.queues().len();
        let held = Held { all: vec![0; count], firm: vec![0; count] };
        let waiting = vec![0; tree.leaves()];
        Self { tree, held, waiting, usage: tree.rules().usage.map(|rule| Usage::new(rule, count)) }
    }

    /// A job of a leaf takes `amount` from `now`, or gives it back.
    pub(crate) fn hold(&mut self, now: i64, leaf: u16, amount: u64, firm: bool, takes: bool) {
        if takes {
            self.held.add(self.tree, leaf, amount, firm);
        } else {
            self.held.remove(self.tree, leaf, amount, firm);
        }
        if let Some(usage) = &mut self.usage {
            let by = i64::try_from(amount).unwrap_or(i64::MAX);
            self.tree.path(leaf).for_each(|at| usage.hold(at, now, if takes { by } else { -by }));
        }
    }

    /// Sets the thousandths of GPUs in service from `now`.
    pub(crate) fn serve(&mut self, now: i64, milli: u64) {
        if let Some(usage) = &mut self.usage {
            usage.serve(now, milli);
        }
    }
}
