//! Jobs that wait, where their order is fixed when they are submitted.
//!
//! Jobs are ranked once, by (key, submit time, index). They wait in classes that share a fate: by VC for a strict walk, by VC and
//! shape for the others, as of two jobs of one VC and shape either both fit or neither. A class is a heap of ranks, or, for
//! backfill, a tree that finds the first job after a rank whose estimate is short enough. O(log n) for a submission and a
//! start. Worked number: with estimates 50, 10, 30 in order of rank, the first of at most 20 is the second; of at most 40
//! after it, the third.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Values by position, which finds the first of at most a bound. Absent values are greater than any bound.
#[derive(Debug, Clone)]
struct MinTree {
    leaves: usize,
    least: Vec<i64>,
}

/// Greater than any estimate.
const ABSENT: i64 = i64::MAX;

impl MinTree {
    fn new(len: usize) -> Self {
        let leaves = len.next_power_of_two();
        Self { leaves, least: vec![ABSENT; 2 * leaves] }
    }

    fn set(&mut self, at: usize, value: i64) {
        let mut at = at + self.leaves;
        self.least[at] = value;
        while at > 1 {
            at /= 2;
            self.least[at] = self.least[2 * at].min(self.least[2 * at + 1]);
        }
    }

    /// Whether any value is at most `bound`.
    fn has(&self, bound: i64) -> bool {
        self.least[1] <= bound
    }

    /// The first position from `from` on whose value is at most `bound`, which is less than [`ABSENT`].
    fn first(&self, from: usize, bound: i64) -> Option<usize> {
        if from >= self.leaves || !self.has(bound) {
            return None;
        }
        let mut at = if from == 0 { 1 } else { from + self.leaves };
        // Up and to the right until a subtree has one, then down to its first.
        while self.least[at] > bound {
            while at % 2 == 1 {
                at /= 2;
            }
            if at == 0 {
                return None;
            }
            at += 1;
        }
        while at < self.leaves {
            at *= 2;
            if self.least[at] > bound {
                at += 1;
            }
        }
        Some(at - self.leaves)
    }
}

#[derive(Debug, Clone)]
enum Class {
    Heap(BinaryHeap<Reverse<u32>>),
    /// Ranks of all jobs of the class, rising, and the estimates of those that wait.
    Tree {
        ranks: Vec<u32>,
        estimates: MinTree,
    },
}

/// Jobs that wait.
#[derive(Debug, Clone)]
pub(in crate::sim) struct Ranked {
    classes: Vec<Class>,
    waiting: usize,
}

/// A job that joins.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) class: u32,
    /// Estimate, ms; only for backfill.
    pub(super) estimate_ms: i64,
}

impl Ranked {
    /// No job yet in any of `classes`. With `search`, classes can be searched by estimate, and `members` are the rank and class
    /// of every job that may ever wait, by rank.
    pub(super) fn new(classes: usize, search: bool, members: &[(u32, u32)]) -> Self {
        let mut ranks: Vec<Vec<u32>> = vec![Vec::new(); classes];
        for (rank, class) in members {
            ranks[*class as usize].push(*rank);
        }
        let class = |ranks: Vec<u32>| {
            if !search {
                return Class::Heap(BinaryHeap::new());
            }
            let estimates = MinTree::new(ranks.len());
            Class::Tree { ranks, estimates }
        };
        Self { classes: ranks.into_iter().map(class).collect(), waiting: 0 }
    }

    /// Jobs that wait.
    pub(in crate::sim) fn len(&self) -> usize {
        self.waiting
    }

    /// Classes, empty ones included.
    pub(in crate::sim) fn classes(&self) -> u32 {
        self.classes.len() as u32
    }

    /// Lets the job with `rank` wait.
    pub(super) fn insert(&mut self, rank: u32, entry: Entry) {
        self.waiting += 1;
        match &mut self.classes[entry.class as usize] {
            Class::Heap(heap) => heap.push(Reverse(rank)),
            Class::Tree { ranks, estimates } => {
                if let Ok(at) = ranks.binary_search(&rank) {
                    estimates.set(at, entry.estimate_ms);
                }
            }
        }
    }

    /// The lowest rank that waits in a class.
    pub(in crate::sim) fn head(&self, class: u32) -> Option<u32> {
        match &self.classes[class as usize] {
            Class::Heap(heap) => heap.peek().map(|Reverse(rank)| *rank),
            Class::Tree { .. } => self.next(class, 0),
        }
    }

    /// The lowest rank of at least `from` that waits in a class; only where classes can be searched.
    pub(in crate::sim) fn next(&self, class: u32, from: u32) -> Option<u32> {
        self.first(class, from, ABSENT - 1)
    }

    /// The lowest rank of at least `from` in a class whose estimate is at most `bound`; only where classes can be searched.
    pub(in crate::sim) fn first(&self, class: u32, from: u32, bound: i64) -> Option<u32> {
        match &self.classes[class as usize] {
            Class::Heap(_) => None,
            // Most classes are empty most of the time, and most searches begin at the front: neither needs the ranks of a year.
            Class::Tree { estimates, .. } if !estimates.has(bound) => None,
            Class::Tree { ranks, estimates } => {
                let at = if from == 0 { 0 } else { ranks.partition_point(|rank| *rank < from) };
                ranks.get(estimates.first(at, bound)?).copied()
            }
        }
    }

    /// All ranks that wait, rising. O(n log n).
    pub(super) fn waiting(&self) -> Vec<u32> {
        let mut waiting = Vec::with_capacity(self.waiting);
        for (class, members) in (0u32..).zip(&self.classes) {
            match members {
                Class::Heap(heap) => waiting.extend(heap.iter().map(|Reverse(rank)| *rank)),
                Class::Tree { .. } => {
                    let mut next = self.head(class);
                    while let Some(rank) = next {
                        waiting.push(rank);
                        next = self.next(class, rank + 1);
                    }
                }
            }
        }
        waiting.sort_unstable();
        waiting
    }

    /// Takes the job with `rank` out; in a class that cannot be searched it must be the head.
    pub(in crate::sim) fn remove(&mut self, class: u32, rank: u32) {
        match &mut self.classes[class as usize] {
            Class::Heap(heap) => {
                debug_assert_eq!(heap.peek(), Some(&Reverse(rank)));
                heap.pop();
            }
            Class::Tree { ranks, estimates } => {
                if let Ok(at) = ranks.binary_search(&rank) {
                    estimates.set(at, ABSENT);
                }
            }
        }
        self.waiting -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::{ABSENT, MinTree};

    #[test]
    fn the_first_that_is_short_enough() {
        let mut tree = MinTree::new(3);
        for (at, value) in [50, 10, 30].into_iter().enumerate() {
            tree.set(at, value);
        }
        assert_eq!(tree.first(0, 20), Some(1));
        assert_eq!(tree.first(2, 40), Some(2));
        assert_eq!(tree.first(2, 20), None);
        tree.set(1, ABSENT);
        assert_eq!(tree.first(0, 20), None);
        assert_eq!(tree.first(0, 60), Some(0));
        assert_eq!(tree.first(4, 60), None);
    }

    #[test]
    fn the_tree_finds_what_a_walk_finds() {
        let mut state = 7u64;
        let mut draw = move |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for len in [1usize, 2, 5, 16, 33] {
            let mut tree = MinTree::new(len);
            let mut plain = vec![ABSENT; len];
            for _ in 0..400 {
                let at = draw(len as u64) as usize;
                let value = if draw(4) == 0 { ABSENT } else { draw(50) as i64 };
                tree.set(at, value);
                plain[at] = value;
                let (from, bound) = (draw(len as u64 + 2) as usize, draw(60) as i64);
                let expected = (from..len).find(|at| plain[*at] <= bound);
                assert_eq!(tree.first(from, bound), expected);
            }
        }
    }
}
