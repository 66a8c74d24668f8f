//! Which queue comes first, and which is the last: the order of queues of [`super`], and the next job that is worth a look.
//!
//! The queues below one are merged by their fronts: the one that stands least gives its job, and its next one is in front. A queue stands the further back the more its front asks for, so a job that lies behind others of its queue has its turn when the greatest of them has: of two jobs of different queues, that one comes
//! first whose queue stands least with the most that it or a job before it asks for. So the first job that is *such* is found from the heads of lines, and how far every leaf has come by then: up to its first job with which the queue stands further back.
//!
//! O(2^depth × lines × log) for the next job, whatever waits. Worked example: a's jobs ask for 8 and 1 GPUs, b's for 4 and 2, nobody holds anything of equal shares, and the 8 and the 4 are known to be in vain: b's job of 2 comes first (4 before 8), and a has not given its 8 by then. Another, of standing: two queues of quota 4 hold 4 and 2 of 8 GPUs, and both have jobs of 2: the second would be within its quota with it and comes first.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use crate::sim::engine::{Line, Lines, Run};
use crate::sim::kai::held::KaiState;
use crate::sim::ratio::Ratio;

/// What is due to whom in a cycle.
#[derive(Debug, Clone)]
pub(super) struct Shares {
    /// Fair share of each queue, thousandths.
    pub(super) fair: Vec<u64>,
    /// In service, thousandths.
    pub(super) total: u64,
}

/// What queues are ordered by, first the least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Standing {
    is_over: bool,
    is_beyond_quota: bool,
    priority: Reverse<i32>,
    has_nothing: bool,
    with: Ratio,
    without: Ratio,
    allocatable: (bool, u64),
    created: (u32, u16),
}

impl Shares {
    /// Where a queue stands that would hold `with` of its allocatable share, and would hold `quota` of its quota.
    pub(super) fn standing(&self, kai: &KaiState<'_>, queue: u16, with: u64, quota: u64) -> Standing {
        let (of, at) = (&kai.tree.queues()[usize::from(queue)], usize::from(queue));
        let (held, fair) = (kai.held.all[at], self.fair[at]);
        let allocatable = kai.tree.allocatable(queue, fair);
        let whole = allocatable.unwrap_or(self.total);
        // Of nothing, every GPU counts a thousandfold.
        let ratio = |held: u64| if whole == 0 { Ratio(held, 1) } else { Ratio(held, whole) };
        Standing {
            is_over: held > fair,
            is_beyond_quota: of.quota.is_some_and(|own| quota > own),
            priority: Reverse(of.priority),
            has_nothing: allocatable == Some(0) && quota > 0,
            with: ratio(with),
            without: ratio(held),
            allocatable: (allocatable.is_none(), allocatable.unwrap_or(0)),
            created: (of.created, queue),
        }
    }
}

/// How far a stage has come in each leaf, and which lines are in vain.
#[derive(Debug)]
pub(super) struct Passed {
    /// The rank that each leaf goes on from.
    from: Vec<u32>,
    refused: BTreeSet<(u16, usize)>,
}

impl Passed {
    pub(super) fn new(leaves: usize) -> Self {
        Self { from: vec![0; leaves], refused: BTreeSet::new() }
    }

    pub(super) fn is_refused(&self, leaf: u16, at: usize) -> bool {
        self.refused.contains(&(leaf, at))
    }

    pub(super) fn refuse(&mut self, leaf: u16, at: usize) {
        self.refused.insert((leaf, at));
    }

    /// Refuses the lines of which jobs come before the next one.
    pub(super) fn refuse_passed(&mut self, lines: &Lines<'_>, next: &Next) {
        for (leaf, (from, until)) in (0u16..).zip(self.from.iter().zip(&next.until)) {
            for (at, line) in lines.of(leaf).iter().enumerate() {
                if lines.next(*line, *from).is_some_and(|rank| rank < *until) {
                    self.refused.insert((leaf, at));
                }
            }
        }
    }

    /// Goes on behind the next job.
    pub(super) fn pass(&mut self, next: &Next) {
        self.from.clone_from(&next.until);
        self.from[usize::from(next.leaf)] = next.rank + 1;
    }
}

/// The next job that is worth a look.
#[derive(Debug)]
pub(super) struct Next {
    pub(super) leaf: u16,
    /// Which of the leaf's lines.
    pub(super) at: usize,
    pub(super) line: Line,
    pub(super) rank: u32,
    /// The first rank of each leaf that does not come before it.
    until: Vec<u32>,
}

/// The first job below a queue that is such.
#[derive(Debug, Clone, Copy)]
struct Front {
    leaf: u16,
    at: usize,
    line: Line,
    rank: u32,
    amount: u64,
}

/// A merge of lines.
struct Merge<'m, 'a> {
    run: &'m Run<'a>,
    kai: &'m KaiState<'a>,
    shares: &'m Shares,
    lines: &'m Lines<'a>,
    passed: &'m Passed,
    /// The first rank of each leaf that does not come before what was found.
    until: Vec<u32>,
}

impl Merge<'_, '_> {
    /// Where a queue stands with a job in front that asks for so much.
    fn standing(&self, queue: u16, amount: u64) -> Standing {
        let with = self.kai.held.all[usize::from(queue)] + amount;
        self.shares.standing(self.kai, queue, with, with)
    }

    /// The first job below a queue whose line is such, and the most that a job before it asks for: of all, if there is none.
    fn first(&mut self, queue: Option<u16>, such: &dyn Fn(u16, usize, Line) -> bool) -> (Option<Front>, u64) {
        match queue {
            Some(leaf) if usize::from(leaf) < self.until.len() => self.first_of_leaf(leaf, such),
            _ => self.first_below(queue, such),
        }
    }

    fn first_of_leaf(&mut self, leaf: u16, such: &dyn Fn(u16, usize, Line) -> bool) -> (Option<Front>, u64) {
        let from = self.passed.from[usize::from(leaf)];
        let head = |(at, line): (usize, &Line)| {
            let rank = self.lines.next(*line, from)?;
            Some(Front { leaf, at, line: *line, rank, amount: self.run.amount_of(*line) })
        };
        let heads: Vec<Front> = self.lines.of(leaf).iter().enumerate().filter_map(head).collect();
        let found = heads.iter().filter(|head| such(leaf, head.at, head.line)).min_by_key(|head| head.rank).copied();
        let until = found.map_or(u32::MAX, |found| found.rank);
        self.until[usize::from(leaf)] = until;
        (found, most(heads.iter().filter(|head| head.rank < until).map(|head| head.amount)))
    }

    fn first_below(&mut self, queue: Option<u16>, such: &dyn Fn(u16, usize, Line) -> bool) -> (Option<Front>, u64) {
        let below = self.kai.tree.below(queue);
        let mut before = Vec::with_capacity(below.len());
        let mut best: Option<(Standing, u16, Front)> = None;
        for child in below {
            let (found, most) = self.first(Some(*child), such);
            before.push(most);
            let Some(front) = found else { continue };
            let standing = self.standing(*child, front.amount.max(most));
            if best.as_ref().is_none_or(|(least, ..)| standing < *least) {
                best = Some((standing, *child, front));
            }
        }
        let Some((least, first, front)) = best else { return (None, most(before)) };
        for (child, before) in below.iter().zip(&mut before).filter(|(child, _)| **child != first) {
            let (held, kai, shares) = (self.kai.held.all[usize::from(*child)], self.kai, self.shares);
            let run = self.run;
            let is_behind = |_: u16, _: usize, line: Line| {
                let with = held + run.amount_of(line);
                shares.standing(kai, *child, with, with) > least
            };
            *before = self.first(Some(*child), &is_behind).1;
        }
        (Some(front), most(before))
    }
}

fn most(amounts: impl IntoIterator<Item = u64>) -> u64 {
    amounts.into_iter().max().unwrap_or(0)
}

impl<'a> Run<'a> {
    /// The next job, in the order of queues, of a line that was not in vain and that is such.
    pub(super) fn next_job(
        &self,
        shares: &Shares,
        lines: &Lines<'a>,
        passed: &Passed,
        such: &dyn Fn(u16, Line) -> bool,
    ) -> Option<Next> {
        let is_open = |leaf: u16, at: usize, line: Line| !passed.is_refused(leaf, at) && such(leaf, line);
        let until = vec![0; passed.from.len()];
        let mut merge = Merge { run: self, kai: self.kai()?, shares, lines, passed, until };
        let Front { leaf, at, line, rank, .. } = merge.first(None, &is_open).0?;
        Some(Next { leaf, at, line, rank, until: merge.until })
    }
}
