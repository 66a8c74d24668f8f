//! Running jobs of a pool in the order of their limits, and the earliest second at which a gang fits if each ends with its limit.
//!
//! Slurm's backfill takes them away one by one and tries at the end of each step. Steps are counted from the first job that holds an allowed node, rounded up to 30 s, and double. A step goes on past jobs
//! that hold none, and ends after one that does if the next, whichever, ends beyond the step. The last that was taken away gives the second.
//!
//! Nothing is tried before enough nodes have their GPUs ([`Ready`]), and where a step ends is found by bisection, so that mostly few jobs are looked at. What is left after the first 32, 64 … of them is kept, as it
//! is asked for again and again. O(steps × log jobs + nodes), and O(jobs) once.
//!
//! Worked number: limits end at 65 s, 80 s, 100 s and 400 s. The first step reaches to 90 + 30 s and takes three of them away, whence 100 s; the next doubles until it reaches 400 s.

use std::ops::Range;

use super::left::{Gang, Left, Part, Room};
use super::mask::Mask;
use super::ready::Ready;
use crate::nodes::Nodes;

/// First step in which running jobs are taken away, seconds.
const STEP_S: i64 = 30;
/// Jobs from one state that is kept to the next.
const STRIDE: usize = 32;

/// A running job: the end of its limit in whole seconds, its index, and where in [`AtWork::parts`] what it holds stands (nothing in another pool).
#[derive(Debug, Clone, PartialEq, Eq)]
struct Holder {
    end_s: i64,
    job: u32,
    parts: Range<usize>,
}

impl Holder {
    /// Returns the parts that the job holds, out of all parts.
    fn held<'p>(&self, parts: &'p [Part]) -> &'p [Part] {
        parts.get(self.parts.clone()).unwrap_or_default()
    }
}

/// Running jobs by the end of their limits, and what they leave of the nodes.
pub(super) struct AtWork {
    holders: Vec<Holder>,
    parts: Vec<Part>,
    /// Nodes left once the first 0, 1, 2 … times [`STRIDE`] jobs have gone, as far as was asked
    /// for; the first is now.
    states: Vec<Left>,
    /// Nodes left once so many jobs have gone.
    left: (usize, Left),
    /// Times at which nodes have so many GPUs, by the numbers that were asked for.
    ready: Vec<Ready>,
}

impl AtWork {
    /// Nothing runs yet, and so much is left. Room for `jobs`.
    pub(super) fn new(left: Left, jobs: usize) -> Self {
        let (holders, parts) = (Vec::with_capacity(jobs), Vec::with_capacity(jobs));
        Self { holders, parts, left: (0, left.clone()), states: vec![left], ready: Vec::new() }
    }

    /// Adds a job; [`AtWork::sort`] when all are there.
    pub(super) fn push(&mut self, end_s: i64, job: u32, parts: impl IntoIterator<Item = Part>) {
        let first = self.parts.len();
        self.parts.extend(parts);
        self.holders.push(Holder { end_s, job, parts: first..self.parts.len() });
    }

    /// Puts the jobs in order.
    pub(super) fn sort(&mut self) {
        self.holders.sort_by_key(|holder| (holder.end_s, holder.job));
    }

    /// Returns the state once these jobs have gone.
    pub(super) fn without(&self, jobs: &[u32]) -> Self {
        let mut left = self.now().clone();
        let (gone, stay): (Vec<&Holder>, Vec<&Holder>) =
            self.holders.iter().partition(|holder| jobs.contains(&holder.job));
        gone.into_iter().flat_map(|holder| holder.held(&self.parts)).for_each(|part| left.give(*part));
        let mut without = Self::new(left, stay.len());
        for holder in stay {
            without.push(holder.end_s, holder.job, holder.held(&self.parts).iter().copied());
        }
        without
    }

    /// Returns the nodes left now.
    fn now(&self) -> &Left {
        &self.states[0]
    }

    /// The end of the last limit that must have passed for a gang to fit on the allowed nodes, none if it fits now, and where it does then; nothing if that is after `until_s`.
    pub(super) fn earliest(
        &mut self,
        nodes: &Nodes,
        gang: Gang,
        allowed: &Mask,
        until_s: Option<i64>,
    ) -> Option<(Option<i64>, Vec<u32>)> {
        let ready = self.ready_of(gang.each);
        if allowed.shares(self.ready[ready].now(), gang.nodes)
            && let Some(result) = self.now().choose(nodes, gang, allowed)
        {
            return Some((None, result));
        }
        let count = self.holders.len();
        let first_s = self.holders[self.next_of(0, allowed)?].end_s;
        let edge_s = first_s + STEP_S - first_s.rem_euclid(STEP_S);
        let (mut step_s, mut next, mut passed) = (STEP_S, 0, 0);
        while next < count {
            // The first that ends beyond the step.
            let beyond = next + self.holders[next..].partition_point(|holder| holder.end_s <= edge_s + step_s);
            let (last, then) = if beyond > next && self.holds(beyond - 1, allowed) {
                (beyond - 1, beyond)
            } else if let Some(later) = self.next_of(beyond, allowed) {
                (later, later + 1)
            } else {
                ((next..beyond).rev().find(|at| self.holds(*at, allowed))?, count)
            };
            let last_s = self.holders[last].end_s;
            if until_s.is_some_and(|until_s| last_s > until_s) {
                return None;
            }
            // Nothing is chosen before enough nodes have their GPUs.
            if allowed.shares(self.ready[ready].by(Some(last_s), &mut passed), gang.nodes)
                && let Some(result) = self.left_after(then).choose(nodes, gang, allowed)
            {
                return Some((Some(last_s), result));
            }
            next = then;
            step_s *= 2;
            while self.holders.get(next).is_some_and(|holder| holder.end_s > edge_s + step_s) {
                step_s *= 2;
            }
        }
        None
    }

    /// Whether a job holds one of these nodes.
    fn holds(&self, at: usize, nodes: &Mask) -> bool {
        self.holders[at].held(&self.parts).iter().any(|part| nodes.contains(part.node))
    }

    /// The first job from one on that holds one of these nodes.
    fn next_of(&self, from: usize, nodes: &Mask) -> Option<usize> {
        (from..self.holders.len()).find(|at| self.holds(*at, nodes))
    }

    /// Returns when nodes have so many GPUs, if only limits pass.
    pub(super) fn ready(&mut self, gpus: u32) -> &Ready {
        let at = self.ready_of(gpus);
        &self.ready[at]
    }

    /// Returns the index in [`AtWork::ready`] of a number of GPUs. O(running jobs +
    /// nodes² / 64) once for a number of GPUs.
    fn ready_of(&mut self, gpus: u32) -> usize {
        self.ready.iter().position(|ready| ready.gpus() == gpus).unwrap_or_else(|| {
            let given = self.holders.iter().flat_map(|of| of.held(&self.parts).iter().map(|part| (of.end_s, *part)));
            let ready = Ready::new(self.now(), gpus, given);
            self.ready.push(ready);
            self.ready.len() - 1
        })
    }

    /// Returns the nodes left once the first `count` jobs have gone.
    fn left_after(&mut self, count: usize) -> &Left {
        let Self { holders, parts, states, left: (gone, left), .. } = self;
        let give = |left: &mut Left, holders: &[Holder]| {
            for holder in holders {
                holder.held(parts).iter().for_each(|part| left.give(*part));
            }
        };
        let before = count / STRIDE;
        for at in states.len()..=before {
            let mut next = states[at - 1].clone();
            give(&mut next, &holders[(at - 1) * STRIDE..at * STRIDE]);
            states.push(next);
        }
        if !(before * STRIDE..=count).contains(gone) {
            left.become_as(&states[before]);
            *gone = before * STRIDE;
        }
        give(left, &holders[*gone..count]);
        *gone = count;
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hundred jobs of one GPU on 25 nodes of four, of which the first ends first: whatever is asked for before, and across states that are kept, it is as if each was taken away in turn.
    #[test]
    fn what_is_left_is_as_if_jobs_were_taken_away_in_turn() {
        let full = Left::with_free(&[0; 25], 4);
        let mut at_work = AtWork::new(full.clone(), 100);
        for job in (0..100u32).rev() {
            at_work.push(i64::from(job) * 10, job, [Part::bare(job * 7 % 25, 1)]);
        }
        at_work.sort();
        for count in [0, 33, 40, 10, 96, 95, 64, 100, 31, 32, 99] {
            let mut left = full.clone();
            (0..count).for_each(|job| left.give(Part::bare(job * 7 % 25, 1)));
            assert_eq!(at_work.left_after(count as usize), &left, "{count}");
        }
        let others = at_work.without(&[5, 30]);
        let mut left = full;
        [5u32, 30].iter().for_each(|job| left.give(Part::bare(job * 7 % 25, 1)));
        assert_eq!((others.now(), others.holders.len()), (&left, 98));
    }
}
