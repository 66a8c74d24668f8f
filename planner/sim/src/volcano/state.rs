//! Volcano's queues as jobs start, stop and wait. The engine and what is told of a schedule go by it.
//!
//! O(depth) for a start or an end. Worked number: of a queue that deserves 2.667 GPUs and holds 2 the share is 3/4; a queue that deserves 4 and holds 3, of the same priority, is as far.

use std::collections::BTreeMap;

use super::deserved::Due;
use super::{FINE, Plugin, VolcanoQueues};
use crate::ratio::Ratio;

/// Sort key of queues, the least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Standing {
    share: Ratio,
    deserves_nothing: bool,
    created: (u32, u16),
}

/// The queues of a replay at a moment.
#[derive(Debug)]
pub struct VolcanoState<'a> {
    pub(crate) tree: &'a VolcanoQueues,
    /// Amount that each queue holds, thousandths.
    pub(crate) held: Vec<u64>,
    /// Amount that the waiting jobs of each leaf ask for, thousandths.
    pub(crate) waiting: Vec<u64>,
    /// Jobs of each leaf that run, by priority.
    running: Vec<BTreeMap<i32, u32>>,
}

impl<'a> VolcanoState<'a> {
    pub(crate) fn new(tree: &'a VolcanoQueues) -> Self {
        let (queues, leaves) = (tree.queues().len(), tree.leaves());
        Self { tree, held: vec![0; queues], waiting: vec![0; leaves], running: vec![BTreeMap::new(); leaves] }
    }

    /// A job of a leaf takes `amount`, or gives it back.
    pub(crate) fn hold(&mut self, leaf: u16, amount: u64, priority: i32, takes: bool) {
        change(self.tree, &mut self.held, leaf, amount, takes);
        let jobs = self.running[usize::from(leaf)].entry(priority).or_default();
        *jobs = if takes { *jobs + 1 } else { jobs.saturating_sub(1) };
        if *jobs == 0 {
            self.running[usize::from(leaf)].remove(&priority);
        }
    }

    /// The lowest priority of a leaf's jobs that run.
    pub(crate) fn lowest(&self, leaf: u16) -> Option<i32> {
        self.running[usize::from(leaf)].keys().next().copied()
    }

    /// Returns the amounts due to each queue now, of `total` in service.
    pub(crate) fn due(&self, total: u64) -> Due {
        let leaves = self.held.iter().zip(&self.waiting).map(|(held, waiting)| held + waiting).collect::<Vec<_>>();
        self.tree.due(total, &leaves)
    }
}

/// A leaf, and what lies above it, holds more, or less.
pub(crate) fn change(tree: &VolcanoQueues, held: &mut [u64], leaf: u16, amount: u64, takes: bool) {
    for at in tree.path(leaf).map(usize::from) {
        held[at] = if takes { held[at] + amount } else { held[at].saturating_sub(amount) };
    }
}

impl VolcanoQueues {
    /// Whether a leaf may have `amount` more, where queues hold so much.
    pub(crate) fn may_have(&self, due: &Due, held: &[u64], leaf: u16, amount: u64) -> bool {
        match self.rules().plugin {
            Plugin::Proportion => due.is_within(usize::from(leaf), held[usize::from(leaf)] + amount),
            Plugin::Capacity => self.path(leaf).map(usize::from).all(|at| held[at] + amount <= due.bounds[at]),
        }
    }

    /// Returns the sort key of a queue that holds so much.
    fn standing(&self, due: &Due, queue: u16, held: u64) -> Standing {
        let (of, deserved) = (&self.queues()[usize::from(queue)], due.deserved[usize::from(queue)]);
        let is_capacity = self.rules().plugin == Plugin::Capacity;
        let share = match (deserved, is_capacity) {
            (0, true) => Ratio(1, 1),
            (0, false) => Ratio(u64::from(held > 0), 1),
            _ => Ratio(held * FINE, deserved),
        };
        Standing { share, deserves_nothing: is_capacity && deserved == 0, created: (of.created, queue) }
    }

    /// The first of the leaves that are such: of the highest priority, then from the top down.
    pub(crate) fn first(&self, due: &Due, held: &[u64], such: impl Fn(u16) -> bool) -> Option<u16> {
        let priority = self.leaves_such(&such).map(|leaf| self.queues()[usize::from(leaf)].priority).max()?;
        let such = |leaf: u16| self.queues()[usize::from(leaf)].priority == priority && such(leaf);
        self.choose(None, &such, &|queues: &mut dyn Iterator<Item = u16>| {
            queues.min_by_key(|queue| self.standing(due, *queue, held[usize::from(*queue)]))
        })
    }

    /// The last of them.
    pub(crate) fn last(&self, due: &Due, held: &[u64], such: impl Fn(u16) -> bool) -> Option<u16> {
        let priority = self.leaves_such(&such).map(|leaf| self.queues()[usize::from(leaf)].priority).min()?;
        let such = |leaf: u16| self.queues()[usize::from(leaf)].priority == priority && such(leaf);
        self.choose(None, &such, &|queues: &mut dyn Iterator<Item = u16>| {
            queues.max_by_key(|queue| self.standing(due, *queue, held[usize::from(*queue)]))
        })
    }

    fn leaves_such<'s>(&'s self, such: &'s impl Fn(u16) -> bool) -> impl Iterator<Item = u16> + 's {
        (0..self.leaves() as u16).filter(|leaf| such(*leaf))
    }

    /// From a queue downwards, the leaf that `best` leads to, among those that are such.
    fn choose(
        &self,
        above: Option<u16>,
        such: &dyn Fn(u16) -> bool,
        best: &dyn Fn(&mut dyn Iterator<Item = u16>) -> Option<u16>,
    ) -> Option<u16> {
        let leaves = self.leaves();
        let mut open = self.forest().below(above).iter().copied().filter(|queue| self.has(*queue, such));
        let queue = best(&mut open)?;
        if usize::from(queue) < leaves { Some(queue) } else { self.choose(Some(queue), such, best) }
    }

    /// Whether a queue is a leaf for which `such` holds, or has one below it.
    fn has(&self, queue: u16, such: &dyn Fn(u16) -> bool) -> bool {
        if usize::from(queue) < self.leaves() {
            return such(queue);
        }
        self.forest().below(Some(queue)).iter().any(|below| self.has(*below, such))
    }
}
