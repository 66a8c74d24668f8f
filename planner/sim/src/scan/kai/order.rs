//! Which queue comes first, and which is the last: the order of queues of [`super`], and the next job that is worth a look.
//!
//! The queues below one are merged by their fronts: the one that stands least gives its job, and its next one is in front. A queue stands the further back the more its front asks for, so a job that lies behind others of its queue has its turn when the greatest of them has: of two jobs of different queues, that one comes
//! first whose queue stands least with the most that it or a job before it asks for. So the first job that is *such* is found from the heads of lines, and how far every leaf has come by then: up to its first job with which the queue stands further back.
//!
//! O(2^depth × lines × log) for the next job, whatever waits. Worked example: a's jobs ask for 8 and 1 GPUs, b's for 4 and 2, nobody holds anything of equal shares, and the 8 and the 4 are known to be in vain: b's job of 2 comes first (4 before 8), and a has not given its 8 by then. Another, of standing: two queues of quota 4 hold 4 and 2 of 8 GPUs, and both have jobs of 2: the second would be within its quota with it and comes first.

use std::cell::Cell;
use std::cmp::Reverse;

use crate::engine::{Line, Lines, Run};
use crate::kai::held::KaiState;
use crate::ratio::Ratio;

/// Fair shares of the queues in a cycle.
#[derive(Debug, Clone)]
pub(super) struct Shares {
    /// Fair share of each queue, thousandths.
    pub(super) fair: Vec<u64>,
    /// In service, thousandths.
    pub(super) total: u64,
}

/// Sort key of queues, the least first.
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

/// Progress of a stage in each leaf, and the lines that are in vain.
#[derive(Debug)]
pub(super) struct Passed {
    /// The rank that each leaf goes on from.
    from: Vec<u32>,
    /// Refused lines, by class.
    refused: Vec<bool>,
    /// By class: the first rank from where its leaf went on when it was last asked for, or [`BEYOND`]; it is that until the leaf has gone beyond it.
    first: Vec<Cell<Option<u32>>>,
}

/// Beyond all ranks.
const BEYOND: u32 = u32::MAX;

impl Passed {
    pub(super) fn new(lines: &Lines<'_>, leaves: usize) -> Self {
        let classes = lines.classes() as usize;
        Self { from: vec![0; leaves], refused: vec![false; classes], first: vec![Cell::new(None); classes] }
    }

    pub(super) fn is_refused(&self, line: Line) -> bool {
        self.refused.get(line.class as usize).copied().unwrap_or(false)
    }

    pub(super) fn refuse(&mut self, line: Line) {
        if let Some(refused) = self.refused.get_mut(line.class as usize) {
            *refused = true;
        }
    }

    /// The first rank of a line that its leaf has not gone beyond; [`BEYOND`] if there is none.
    fn first(&self, lines: &Lines<'_>, leaf: u16, line: Line) -> u32 {
        let from = self.from[usize::from(leaf)];
        let known = &self.first[line.class as usize];
        if let Some(rank) = known.get().filter(|rank| *rank >= from) {
            return rank;
        }
        let rank = lines.next(line, from).unwrap_or(BEYOND);
        known.set(Some(rank));
        rank
    }

    /// Refuses the lines of which jobs come before the next one.
    pub(super) fn refuse_passed(&mut self, lines: &Lines<'_>, next: &Next) {
        for (leaf, until) in (0u16..).zip(&next.until) {
            for line in lines.of(leaf) {
                if self.first(lines, leaf, *line) < *until {
                    self.refuse(*line);
                }
            }
        }
    }

    /// Goes on behind the next job.
    pub(super) fn pass(&mut self, next: &Next) {
        self.from.clone_from(&next.until);
        self.from[usize::from(next.head.leaf)] = next.head.rank + 1;
    }
}

/// A job at the head of what is left of its line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head {
    pub(super) leaf: u16,
    pub(super) line: Line,
    pub(super) rank: u32,
}

/// The next job that is worth a look.
#[derive(Debug)]
pub(super) struct Next {
    pub(super) head: Head,
    /// The first rank of each leaf that does not come before it.
    until: Vec<u32>,
}

/// The first job below a queue that is such, and what it asks for.
type Front = (Head, u64);

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
    fn first(&mut self, queue: Option<u16>, such: &dyn Fn(u16, Line) -> bool) -> (Option<Front>, u64) {
        match queue {
            Some(leaf) if usize::from(leaf) < self.until.len() => self.first_of_leaf(leaf, such),
            _ => self.first_below(queue, such),
        }
    }

    fn first_of_leaf(&mut self, leaf: u16, such: &dyn Fn(u16, Line) -> bool) -> (Option<Front>, u64) {
        let heads = |merge: &Self| {
            let (lines, passed) = (merge.lines, merge.passed);
            lines.of(leaf).iter().map(move |line| (*line, passed.first(lines, leaf, *line)))
        };
        let open = heads(self).filter(|(line, rank)| *rank != BEYOND && such(leaf, *line));
        let result = open.min_by_key(|(_, rank)| *rank);
        let until = result.map_or(BEYOND, |(_, rank)| rank);
        self.until[usize::from(leaf)] = until;
        let before = heads(self).filter(|(_, rank)| *rank < until).map(|(line, _)| self.run.amount_of(line));
        let most = before.max().unwrap_or(0);
        (result.map(|(line, rank)| (Head { leaf, line, rank }, self.run.amount_of(line))), most)
    }

    fn first_below(&mut self, queue: Option<u16>, such: &dyn Fn(u16, Line) -> bool) -> (Option<Front>, u64) {
        let below = self.kai.tree.below(queue);
        let mut before = Vec::with_capacity(below.len());
        let mut best: Option<(Standing, u16, Front)> = None;
        for child in below {
            let (result, most) = self.first(Some(*child), such);
            before.push(most);
            let Some(front) = result else { continue };
            let standing = self.standing(*child, front.1.max(most));
            if best.as_ref().is_none_or(|(least, ..)| standing < *least) {
                best = Some((standing, *child, front));
            }
        }
        let Some((least, first, front)) = best else { return (None, most(before)) };
        for (child, before) in below.iter().zip(&mut before).filter(|(child, _)| **child != first) {
            let (held, kai, shares) = (self.kai.held.all[usize::from(*child)], self.kai, self.shares);
            let run = self.run;
            let is_behind = |_: u16, line: Line| {
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
        let is_open = |leaf: u16, line: Line| !passed.is_refused(line) && such(leaf, line);
        let until = vec![0; passed.from.len()];
        let mut merge = Merge { run: self, kai: self.kai()?, shares, lines, passed, until };
        let (head, _) = merge.first(None, &is_open).0?;
        Some(Next { head, until: merge.until })
    }
}
