//! Quotas in a tree, by recursion.
//!
//! Worked number: queues of 9 and 12 GPUs in one cohort may each use 21 while the other is idle.

use std::cmp::Ordering;

use tracecast_planner::sim::cohort::{Cohorts, Quota};

/// Usage: (queue, flavor, thousandths of GPUs).
pub(super) type Held = Vec<(usize, usize, i128)>;

/// A share of what can be borrowed: infinite, or a fraction.
#[derive(Debug, Clone, Copy)]
pub(super) struct Share(Option<(i128, i128)>);

impl Share {
    pub(super) fn is_zero(self) -> bool {
        matches!(self.0, Some((0, _)))
    }

    pub(super) fn compare(self, other: Self) -> Ordering {
        match (self.0, other.0) {
            (None, None) => Ordering::Equal,
            (None, _) => Ordering::Greater,
            (_, None) => Ordering::Less,
            (Some((a, of)), Some((b, over))) => (a * over).cmp(&(b * of)),
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Tree<'a>(pub(super) &'a Cohorts);

impl Tree<'_> {
    pub(super) fn is_queue(self, node: usize) -> bool {
        node < self.0.rules().len()
    }

    pub(super) fn parent(self, node: usize) -> Option<usize> {
        self.0.members()[node].parent.map(usize::from)
    }

    pub(super) fn children(self, node: usize) -> Vec<usize> {
        (0..self.0.members().len()).filter(|child| self.parent(*child) == Some(node)).collect()
    }

    /// The node, its cohort, the cohort's, …
    pub(super) fn path(self, node: usize) -> Vec<usize> {
        let mut path = vec![node];
        while let Some(above) = path.last().and_then(|last| self.parent(*last)) {
            path.push(above);
        }
        path
    }

    pub(super) fn contains(self, node: usize, queue: usize) -> bool {
        self.path(queue).contains(&node)
    }

    pub(super) fn quota(self, node: usize, flavor: usize) -> Quota {
        self.0.members()[node].quotas[flavor].unwrap_or_default()
    }

    pub(super) fn subtree(self, node: usize, flavor: usize) -> i128 {
        let lent = |child: usize| self.subtree(child, flavor) - self.local(child, flavor);
        i128::from(self.quota(node, flavor).nominal) + self.children(node).into_iter().map(lent).sum::<i128>()
    }

    fn local(self, node: usize, flavor: usize) -> i128 {
        let limit = self.quota(node, flavor).lending_limit;
        limit.map_or(0, |limit| (self.subtree(node, flavor) - i128::from(limit)).max(0))
    }

    pub(super) fn usage(self, held: &Held, node: usize, flavor: usize) -> i128 {
        if self.is_queue(node) {
            return held.iter().filter(|held| (held.0, held.1) == (node, flavor)).map(|held| held.2).sum();
        }
        let above = |child: usize| (self.usage(held, child, flavor) - self.local(child, flavor)).max(0);
        self.children(node).into_iter().map(above).sum()
    }

    pub(super) fn available(self, held: &Held, node: usize, flavor: usize) -> i128 {
        let (subtree, usage) = (self.subtree(node, flavor), self.usage(held, node, flavor));
        let Some(parent) = self.parent(node) else { return subtree - usage };
        let local = self.local(node, flavor);
        let above = self.available(held, parent, flavor);
        let limit = self.quota(node, flavor).borrowing_limit;
        let most = limit.map(|limit| subtree - local - (usage - local).max(0) + i128::from(limit));
        (local - usage).max(0) + most.map_or(above, |most| most.min(above))
    }

    pub(super) fn potential(self, node: usize, flavor: usize) -> i128 {
        self.available(&Vec::new(), node, flavor)
    }

    pub(super) fn borrows(self, held: &Held, node: usize, flavor: usize) -> bool {
        self.usage(held, node, flavor) > self.subtree(node, flavor)
    }

    fn height(self, node: usize) -> usize {
        self.children(node).into_iter().map(|child| 1 + self.height(child)).max().unwrap_or(0)
    }

    /// The lowest subtree around a queue that does not borrow.
    fn lowest(self, held: &Held, queue: usize, flavor: usize) -> Option<usize> {
        self.path(queue).into_iter().find(|node| !self.borrows(held, *node, flavor))
    }

    /// Height of the lowest node that does not borrow; the whole tree's if there is none.
    pub(super) fn level(self, held: &Held, queue: usize, flavor: usize) -> usize {
        let root = self.path(queue).into_iter().next_back().unwrap_or(queue);
        self.height(self.lowest(held, queue, flavor).unwrap_or(root))
    }

    /// Whether a subtree smaller than the whole tree does not borrow.
    pub(super) fn is_within_a_part(self, held: &Held, queue: usize, flavor: usize) -> bool {
        self.lowest(held, queue, flavor).is_some_and(|node| self.parent(node).is_some())
    }

    pub(super) fn share(self, held: &Held, node: usize) -> Share {
        let flavors = || 0..self.0.flavors().len();
        let over = |flavor: usize| (self.usage(held, node, flavor) - self.subtree(node, flavor)).max(0);
        let borrowed: i128 = flavors().map(over).sum();
        let Some(parent) = self.parent(node).filter(|_| borrowed > 0) else { return Share(Some((0, 1))) };
        let of: i128 = flavors().map(|flavor| self.potential(parent, flavor)).sum();
        let of = of * i128::from(self.0.members()[node].weight_milli);
        Share((of > 0).then_some((borrowed * 1000, of)))
    }
}
