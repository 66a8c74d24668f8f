//! Jobs that wait, where their order is fixed when they are submitted.
//!
//! Jobs are ranked once, by (key, submit time, index). They wait in classes that share a fate: by VC for a strict walk, by VC and
//! shape for the others, as of two jobs of one VC and shape either both fit or neither. A class is a heap of ranks; for
//! backfill a tree that finds the first job after a rank whose estimate is short enough; where the first job after a rank is asked
//! for, whatever its estimate, a set of bits. O(log n) for a submission and a start, O(1) for the head of a class: walks ask for the heads of all classes again and again.
//! Worked number: with estimates 50, 10, 30 in order of rank, the first of at most 20 is the second; of at most 40
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

/// Positions, which finds the first from one on. An insertion and a removal may be repeated.
#[derive(Debug, Clone)]
struct Positions {
    words: Vec<u64>,
    /// Which words are not zero.
    summary: Vec<u64>,
}

impl Positions {
    fn new(len: usize) -> Self {
        let words = len.div_ceil(64);
        Self { words: vec![0; words], summary: vec![0; words.div_ceil(64)] }
    }

    fn insert(&mut self, at: usize) {
        self.words[at / 64] |= 1 << (at % 64);
        self.summary[at / 4096] |= 1 << (at / 64 % 64);
    }

    fn remove(&mut self, at: usize) {
        let word = &mut self.words[at / 64];
        *word &= !(1 << (at % 64));
        if *word == 0 {
            self.summary[at / 4096] &= !(1 << (at / 64 % 64));
        }
    }

    /// The first from `from` on. O(positions / 4096).
    fn first(&self, from: usize) -> Option<usize> {
        let here = self.words.get(from / 64)? >> (from % 64);
        if here != 0 {
            return Some(from + here.trailing_zeros() as usize);
        }
        // The next word that is not zero, by the words' own words.
        let next = from / 64 + 1;
        let in_first = self.summary.get(next / 64)? >> (next % 64) << (next % 64);
        let mut rest = std::iter::once(in_first).chain(self.summary.iter().skip(next / 64 + 1).copied());
        let (skipped, summary) = (0..).zip(&mut rest).find(|(_, word): &(usize, u64)| *word != 0)?;
        let word = (next / 64 + skipped) * 64 + summary.trailing_zeros() as usize;
        Some(word * 64 + self.words.get(word)?.trailing_zeros() as usize)
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
    /// Ranks of all jobs of the class, rising, and which of them wait.
    Set {
        ranks: Vec<u32>,
        waiting: Positions,
    },
}

/// How a walk looks for jobs of a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Search {
    /// At the head alone.
    Head,
    /// The first after a rank whose estimate is short enough.
    Estimate,
    /// The first after a rank.
    Rank,
}

/// No rank: the head of an empty class.
const NOBODY: u32 = u32::MAX;

/// Jobs that wait.
#[derive(Debug, Clone)]
pub(crate) struct Ranked {
    classes: Vec<Class>,
    /// The lowest rank that waits in each class.
    heads: Vec<u32>,
    /// By rank, its position among those of its class; only where classes are sets.
    positions: Vec<u32>,
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
    /// Creates a queue without a job in any of `classes`. For a search beyond heads, `members` are
    /// the rank and class of every job that may ever wait, by rank.
    pub(super) fn new(classes: usize, search: Search, members: &[(u32, u32)]) -> Self {
        let mut ranks: Vec<Vec<u32>> = vec![Vec::new(); classes];
        let mut positions = Vec::new();
        if search == Search::Rank {
            positions = vec![0; members.last().map_or(0, |(rank, _)| *rank as usize + 1)];
        }
        if search != Search::Head {
            for (rank, class) in members {
                let ranks = &mut ranks[*class as usize];
                if let Some(position) = positions.get_mut(*rank as usize) {
                    *position = ranks.len() as u32;
                }
                ranks.push(*rank);
            }
        }
        let class = |ranks: Vec<u32>| match search {
            Search::Head => Class::Heap(BinaryHeap::new()),
            Search::Estimate => Class::Tree { estimates: MinTree::new(ranks.len()), ranks },
            Search::Rank => Class::Set { waiting: Positions::new(ranks.len()), ranks },
        };
        let heads = vec![NOBODY; classes];
        Self { classes: ranks.into_iter().map(class).collect(), heads, positions, waiting: 0 }
    }

    /// Jobs that wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting
    }

    /// Classes, empty ones included.
    pub(crate) fn classes(&self) -> u32 {
        self.classes.len() as u32
    }

    /// Lets the job with `rank` wait.
    pub(super) fn insert(&mut self, rank: u32, entry: Entry) {
        self.waiting += 1;
        let at = entry.class as usize;
        self.heads[at] = self.heads[at].min(rank);
        match &mut self.classes[at] {
            Class::Heap(heap) => heap.push(Reverse(rank)),
            Class::Tree { ranks, estimates } => {
                if let Ok(at) = ranks.binary_search(&rank) {
                    estimates.set(at, entry.estimate_ms);
                }
            }
            Class::Set { waiting, .. } => {
                if let Some(at) = self.positions.get(rank as usize) {
                    waiting.insert(*at as usize);
                }
            }
        }
    }

    /// The lowest rank that waits in a class. O(1).
    pub(crate) fn head(&self, class: u32) -> Option<u32> {
        self.heads.get(class as usize).copied().filter(|head| *head != NOBODY)
    }

    /// The lowest rank of at least `from` that waits in a class; only where classes can be searched.
    pub(crate) fn next(&self, class: u32, from: u32) -> Option<u32> {
        let head = self.head(class)?;
        if head >= from {
            return Some(head);
        }
        self.first(class, from, ABSENT - 1)
    }

    /// The lowest rank of at least `from` in a class whose estimate is at most `bound`; only where classes can be searched, and `bound` counts only where they can be by estimate.
    pub(crate) fn first(&self, class: u32, from: u32, bound: i64) -> Option<u32> {
        match &self.classes[class as usize] {
            Class::Heap(_) => None,
            // Most classes are empty most of the time, and most searches begin at the front: neither needs the ranks of a year.
            Class::Tree { estimates, .. } if !estimates.has(bound) => None,
            Class::Tree { ranks, estimates } => {
                let at = if from == 0 { 0 } else { ranks.partition_point(|rank| *rank < from) };
                ranks.get(estimates.first(at, bound)?).copied()
            }
            Class::Set { ranks, waiting } => {
                ranks.get(waiting.first(ranks.partition_point(|rank| *rank < from))?).copied()
            }
        }
    }

    /// All ranks that wait, rising. O(n log n).
    pub(super) fn waiting(&self) -> Vec<u32> {
        let mut waiting = Vec::with_capacity(self.waiting);
        for (class, members) in (0u32..).zip(&self.classes) {
            match members {
                Class::Heap(heap) => waiting.extend(heap.iter().map(|Reverse(rank)| *rank)),
                Class::Tree { .. } | Class::Set { .. } => {
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
    pub(crate) fn remove(&mut self, class: u32, rank: u32) {
        let head = self.heads[class as usize];
        let next = match &mut self.classes[class as usize] {
            Class::Heap(heap) => {
                debug_assert_eq!(heap.peek(), Some(&Reverse(rank)));
                heap.pop();
                heap.peek().map(|Reverse(rank)| *rank)
            }
            Class::Tree { ranks, estimates } => {
                let at = ranks.binary_search(&rank).unwrap_or_else(|at| at);
                if ranks.get(at) == Some(&rank) {
                    estimates.set(at, ABSENT);
                }
                if rank == head {
                    estimates.first(at, ABSENT - 1).and_then(|at| ranks.get(at).copied())
                } else {
                    Some(head)
                }
            }
            Class::Set { ranks, waiting } => {
                let at = self.positions.get(rank as usize).map_or(0, |at| *at as usize);
                waiting.remove(at);
                if rank == head { waiting.first(at).and_then(|at| ranks.get(at).copied()) } else { Some(head) }
            }
        };
        self.heads[class as usize] = next.unwrap_or(NOBODY);
        self.waiting -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::{ABSENT, Entry, MinTree, Positions, Ranked, Search};

    /// Drawn numbers below a bound.
    fn draws(mut state: u64) -> impl FnMut(u64) -> u64 {
        move |below| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        }
    }

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
        let mut draw = draws(7);
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

    #[test]
    fn the_first_position_is_found_across_words() {
        let mut result = Positions::new(300_000);
        assert_eq!(result.first(0), None);
        for at in [3, 64, 4_095, 4_096, 262_144, 299_999] {
            result.insert(at);
        }
        let of = |result: &Positions| [0, 3, 4, 65, 4_096, 4_097, 262_145, 300_000].map(|from| result.first(from));
        let some = [3, 3, 64, 4_095, 4_096, 262_144, 299_999].map(Some);
        assert_eq!(of(&result)[..7], some);
        assert_eq!(of(&result)[7], None);
        result.remove(262_144);
        result.remove(4_096);
        assert_eq!([4_096, 64, 65].map(|from| result.first(from)), [Some(299_999), Some(64), Some(4_095)]);
    }

    /// Classes of all kinds have the heads of a plain list.
    #[test]
    fn heads_are_those_of_a_list() {
        let mut draw = draws(11);
        let members: Vec<(u32, u32)> = (0..200u32).map(|rank| (rank, rank % 3)).collect();
        for search in [Search::Head, Search::Estimate, Search::Rank] {
            let mut ranked = Ranked::new(3, search, &members);
            let mut plain: Vec<u32> = Vec::new();
            for _ in 0..2_000 {
                let rank = draw(200) as u32;
                let of = |plain: &[u32], class: u32, from: u32| {
                    plain.iter().copied().filter(|rank| rank % 3 == class && *rank >= from).min()
                };
                if !plain.contains(&rank) {
                    ranked.insert(rank, Entry { class: rank % 3, estimate_ms: 5 });
                    plain.push(rank);
                } else if search != Search::Head || of(&plain, rank % 3, 0) == Some(rank) {
                    ranked.remove(rank % 3, rank);
                    plain.retain(|known| *known != rank);
                }
                for class in 0..3 {
                    assert_eq!(ranked.head(class), of(&plain, class, 0));
                    let from = draw(201) as u32;
                    if search != Search::Head {
                        assert_eq!(ranked.next(class, from), of(&plain, class, from));
                    }
                }
                assert_eq!(ranked.len(), plain.len());
            }
            let mut rising = plain.clone();
            rising.sort_unstable();
            assert_eq!(ranked.waiting(), rising);
        }
    }
}
