//! Whom to stop for a job, in another leaf or its own: the rules of [`super`].
//!
//! Jobs that may be stopped are taken out one at a time until the job fits. **The next** is found from the top down: the *last* queue in the order of queues, of those with such a job left below them, where what it holds for its share counts without the jobs
//! taken out below it and without its next one, and its quota with all it holds; in the leaf the job that would start last. In stage 2 one is passed over if its queue and ours, where they part, do not allow it at its turn.
//!
//! The job **fits** if its queue may have it and the placement rule finds nodes, both without who was taken out; in stage 2 as well only if it upsets no order of shares: on each level from its leaf to the top, if our queue would hold more than its fair share, then for each other queue
//! below the same one from which jobs were taken, and that has a fair share, ours must hold less of its fair share, times the multiplier of saturation, than the other does of its own.
//!
//! When it fits, of those taken out, from the last but one to the first, each that can be put back so that the job still fits is put back. O(running × queues), and a placement for each. Worked example: a and b have quotas of 4 of 8 GPUs, and b runs
//! 8 jobs of 1 GPU. A job of 4 comes to a: b's fair share is 4, so that the four jobs of b that were submitted last are stopped.

use std::cmp::Reverse;
use std::collections::VecDeque;

use super::super::MOST_PREEMPTIONS;
use super::super::rehearsal::Rehearsal;
use super::Stage;
use super::order::Shares;
use crate::engine::{Line, Run};
use crate::kai::held::{Held, KaiState};
use crate::nodes::Nodes;
use crate::place::Ask;

/// Jobs of each leaf that may be stopped, the last of its order in front.
type Stacks = Vec<VecDeque<u32>>;

/// Whom a job would stop.
#[derive(Debug, Default)]
pub(super) struct Search {
    pub(super) victims: Vec<u32>,
    /// When someone could be stopped who cannot be yet.
    pub(super) later_ms: Option<i64>,
    /// Whether nobody at all may be stopped for the job now, wherever it might fit: then nobody may
    /// for a job of its leaf of its priority or a lower one.
    pub(super) is_hopeless: bool,
}

/// Trial of stopping jobs for one.
struct Trial<'r, 'a> {
    run: &'r Run<'a>,
    kai: &'r KaiState<'a>,
    shares: &'r Shares,
    stage: Stage,
    job: u32,
    leaf: u16,
    amount: u64,
    ask: Ask,
    held: Held,
    nodes: Nodes,
    out: Vec<u32>,
}

impl Trial<'_, '_> {
    fn leaf_of(&self, job: u32) -> u16 {
        self.run.workload.vc[job as usize]
    }

    /// Whether a job may be stopped at its turn.
    fn may_stop(&self, other: u32) -> bool {
        if self.stage == Stage::Preempt {
            return true;
        }
        let (ours, theirs) = self.kai.tree.parted(self.leaf, self.leaf_of(other));
        let held = self.held.all[usize::from(theirs)];
        let quota = |queue: u16| self.kai.tree.queues()[usize::from(queue)].quota;
        let is_over =
            self.kai.tree.allocatable(theirs, self.shares.fair[usize::from(theirs)]).is_some_and(|most| held > most);
        // What ours holds does not change: nobody of its own is stopped.
        let is_within = quota(ours).is_none_or(|own| self.kai.held.all[usize::from(ours)] + self.amount <= own);
        is_over || (is_within && quota(theirs).is_some_and(|own| held > own))
    }

    /// Whether shares stay in order.
    fn keeps_order(&self) -> bool {
        let multiplier = u128::from(self.kai.tree.rules().saturation_milli);
        self.kai.tree.path(self.leaf).all(|ours| {
            let at = usize::from(ours);
            let (with, fair) = (u128::from(self.held.all[at] + self.amount), u128::from(self.shares.fair[at]));
            if with <= fair {
                return true;
            }
            let beside = self.kai.tree.below(self.kai.tree.queues()[at].parent);
            beside.iter().filter(|other| **other != ours).map(|other| usize::from(*other)).all(|other| {
                let (held, their_fair) = (self.held.all[other], u128::from(self.shares.fair[other]));
                let is_involved = self
                    .out
                    .iter()
                    .any(|job| self.kai.tree.path(self.leaf_of(*job)).any(|at| usize::from(at) == other));
                !is_involved || their_fair == 0 || with * multiplier * their_fair < u128::from(held) * fair * 1000
            })
        })
    }

    /// The last job of those in `lines` below a queue, the last of each leaf in front.
    fn last_below(&self, lines: &Stacks, above: Option<u16>) -> Option<u32> {
        let next = |queue: u16| match lines.get(usize::from(queue)) {
            Some(line) => line.front().copied(),
            None => self.last_below(lines, Some(queue)),
        };
        let standing = |queue: u16, job: u32| {
            let at = usize::from(queue);
            let with = self.tried(queue).saturating_sub(self.run.shape(job).amount());
            self.shares.standing(self.kai, queue, with, self.kai.held.all[at])
        };
        let candidates = self.kai.tree.below(above).iter().filter_map(|queue| Some((*queue, next(*queue)?)));
        candidates.max_by_key(|(queue, job)| standing(*queue, *job)).map(|(_, job)| job)
    }

    /// Returns the amount that a queue holds without the jobs that were taken out.
    fn tried(&self, queue: u16) -> u64 {
        self.held.all[usize::from(queue)]
    }

    /// Returns the jobs to stop, if there are enough.
    fn solve(mut self, mut lines: Stacks) -> Vec<u32> {
        let mut fits = false;
        while let Some(other) = self.last_below(&lines, None) {
            lines[usize::from(self.leaf_of(other))].pop_front();
            if !self.may_stop(other) {
                continue;
            }
            self.take_out(other);
            self.out.push(other);
            fits = self.fits();
            if fits {
                break;
            }
        }
        if !fits {
            return Vec::new();
        }
        self.spare();
        self.out
    }
}

impl Rehearsal for Trial<'_, '_> {
    fn out(&mut self) -> &mut Vec<u32> {
        &mut self.out
    }

    fn take_out(&mut self, job: u32) {
        self.run.lift(&mut self.nodes, job);
        let leaf = self.leaf_of(job);
        self.held.remove(self.kai.tree, leaf, self.run.shape(job).amount(), self.run.is_firm(job));
    }

    fn put_back(&mut self, job: u32) -> bool {
        let back = self.run.lower(&mut self.nodes, job);
        let leaf = self.leaf_of(job);
        self.held.add(self.kai.tree, leaf, self.run.shape(job).amount(), self.run.is_firm(job));
        back
    }

    fn fits(&self) -> bool {
        self.held.allows(self.kai.tree, self.leaf, self.amount, self.run.is_firm(self.job))
            && (self.stage == Stage::Preempt || self.keeps_order())
            && self.run.placer.fits(&self.nodes, self.ask)
    }
}

impl Run<'_> {
    /// Whether others may be stopped for jobs of a line at all.
    pub(super) fn may_stop_others(&self, stage: Stage, shares: &Shares, leaf: u16, line: Line) -> bool {
        let Some(kai) = self.kai() else { return false };
        let (at, amount) = (usize::from(leaf), self.amount_of(line));
        let quota = kai.tree.queues()[at].quota;
        let is_beyond_quota = line.firm && quota.is_some_and(|quota| kai.held.firm[at] + amount > quota);
        let is_beyond_share = stage == Stage::Reclaim && kai.held.all[at] + amount > shares.fair[at];
        !is_beyond_quota && !is_beyond_share
    }

    /// Whom to stop in a stage for a job of a line for which others may be.
    pub(super) fn victims_of(&self, stage: Stage, shares: &Shares, job: u32) -> Search {
        let Some(kai) = self.kai() else { return Search::default() };
        let (leaf, amount) = (self.workload.vc[job as usize], self.shape(job).amount());
        let mut later_ms: Option<i64> = None;
        let mut ranked = Vec::new();
        for segment in self.running.iter().map(|segment| &self.schedule.segments[*segment as usize]) {
            let other = segment.job;
            let their_leaf = self.workload.vc[other as usize];
            let may = match stage {
                Stage::Reclaim => their_leaf != leaf,
                Stage::Preempt => their_leaf == leaf && self.priority(other) < self.priority(job),
            };
            if !may || self.is_firm(other) || self.schedule.preemptions[other as usize] >= MOST_PREEMPTIONS {
                continue;
            }
            let level = if stage == Stage::Preempt { leaf } else { kai.tree.parted(leaf, their_leaf).1 };
            let least = segment.start_ms + kai.tree.min_runtime_ms(level, stage == Stage::Preempt);
            let from_ms = least.max(self.useful_ms(segment));
            if self.now < from_ms {
                later_ms = later_ms.into_iter().chain([from_ms.max(self.now + 1000)]).min();
                continue;
            }
            ranked.push(Reverse(self.kai_rank(other)));
        }
        if ranked.is_empty() {
            return Search { victims: Vec::new(), later_ms, is_hopeless: true };
        }
        ranked.sort_unstable();
        let mut lines: Stacks = vec![VecDeque::new(); self.cluster.vcs.len()];
        for Reverse((_, _, other)) in ranked {
            lines[usize::from(self.workload.vc[other as usize])].push_back(other);
        }
        let trial = Trial {
            run: self,
            kai,
            shares,
            stage,
            job,
            leaf,
            amount,
            ask: self.ask(job),
            held: kai.held.clone(),
            nodes: self.nodes.clone(),
            out: Vec::new(),
        };
        let victims = trial.solve(lines);
        Search { later_ms: later_ms.filter(|_| victims.is_empty()), victims, is_hopeless: false }
    }
}
