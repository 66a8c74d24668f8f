//! Whom to stop for a job, in another queue or its own: the rules of [`super`].
//!
//! If the job fits as it is, nobody is stopped. Else jobs that may be stopped are taken out one at a time until it fits. **The next** is the last job of the last queue: under `capacity`, of the queues that share most queues above them with that of the job; of these the last in the order of queues, where what they hold counts without
//! who was taken out; in it the job that comes last in the order of the plugins `priority` and `drf` (which puts first who holds least), in their order, then of the policy's order. Under `proportion` and `capacity` a queue is asked no further once it holds no more than it deserves, and under `capacity` a job is passed over without
//! which its queue would hold less than its guarantee.
//!
//! The job **fits** if its queue may have it and the placement rule finds nodes, both without who was taken out. When it fits, of those taken out, from the last but one to the first, each that can be put back so that the job still fits is put back.
//!
//! O(running × queues), and a placement for each. Worked example: a deserves 4 of 8 GPUs, and holds all with jobs of 4, 3 and 1, in order of submission. A job of 4 comes to b, which deserves 4: those of 1 and 3 are stopped, and with `drf` that of 4, which holds most.

use std::cmp::Reverse;
use std::collections::VecDeque;

use super::super::MOST_PREEMPTIONS;
use super::super::rehearsal::Rehearsal;
use crate::engine::Run;
use crate::key::Key;
use crate::nodes::Nodes;
use crate::place::Ask;
use crate::volcano::deserved::Due;
use crate::volcano::state::{VolcanoState, change};
use crate::volcano::{Eviction, JobOrder, Plugin, ReclaimFrom};

/// Sort key of running jobs, the least first.
type Rank = ([i64; 2], Key, u32);

/// Whom a job would stop.
#[derive(Debug, Default)]
pub(super) struct Search {
    /// Jobs to stop, if the job fits then; perhaps none.
    pub(super) victims: Option<Vec<u32>>,
    /// When someone could be stopped who cannot be yet.
    pub(super) later_ms: Option<i64>,
}

/// Trial of stopping jobs for one.
struct Trial<'r, 'a> {
    run: &'r Run<'a>,
    volcano: &'r VolcanoState<'a>,
    due: &'r Due,
    eviction: Eviction,
    leaf: u16,
    amount: u64,
    ask: Ask,
    held: Vec<u64>,
    nodes: Nodes,
    out: Vec<u32>,
}

impl Rehearsal for Trial<'_, '_> {
    fn out(&mut self) -> &mut Vec<u32> {
        &mut self.out
    }

    fn take_out(&mut self, job: u32) {
        self.run.lift(&mut self.nodes, job);
        self.change(job, false);
    }

    fn put_back(&mut self, job: u32) -> bool {
        let back = self.run.lower(&mut self.nodes, job);
        self.change(job, true);
        back
    }

    fn fits(&self) -> bool {
        self.volcano.tree.may_have(self.due, &self.held, self.leaf, self.amount)
            && self.run.placer.fits(&self.nodes, self.ask)
    }
}

impl Trial<'_, '_> {
    fn change(&mut self, job: u32, takes: bool) {
        let (leaf, amount) = (self.run.workload.vc[job as usize], self.run.shape(job).amount());
        change(self.volcano.tree, &mut self.held, leaf, amount, takes);
    }

    /// Whether a queue may lose jobs at this turn.
    fn may_lose(&self, leaf: u16) -> bool {
        self.eviction != Eviction::Reclaim(ReclaimFrom::Over)
            || self.due.is_over(usize::from(leaf), self.held[usize::from(leaf)])
    }

    /// Whether a queue may lose this job.
    fn may_lose_job(&self, leaf: u16, job: u32) -> bool {
        let tree = self.volcano.tree;
        let is_guarded =
            self.eviction == Eviction::Reclaim(ReclaimFrom::Over) && tree.rules().plugin == Plugin::Capacity;
        let left = self.held[usize::from(leaf)].saturating_sub(self.run.shape(job).amount());
        !is_guarded || tree.queues()[usize::from(leaf)].guarantee <= left
    }

    /// The queue that loses a job next, of those with such a job left.
    fn next(&self, lines: &[VecDeque<u32>]) -> Option<u16> {
        let tree = self.volcano.tree;
        let such = |leaf: u16| !lines[usize::from(leaf)].is_empty() && self.may_lose(leaf);
        let shared = |leaf: u16| tree.forest().shared(self.leaf, leaf);
        let nearest = (0..tree.leaves() as u16).filter(|leaf| such(*leaf)).map(shared).max()?;
        tree.last(self.due, &self.held, |leaf| such(leaf) && shared(leaf) == nearest)
    }

    /// Returns the jobs to stop, if there are enough.
    fn solve(mut self, mut lines: Vec<VecDeque<u32>>) -> Option<Vec<u32>> {
        while !self.fits() {
            let leaf = self.next(&lines)?;
            let Some(job) = lines[usize::from(leaf)].pop_front() else { continue };
            if self.may_lose_job(leaf, job) {
                self.take_out(job);
                self.out.push(job);
            }
        }
        self.spare();
        Some(self.out)
    }
}

impl Run<'_> {
    /// Whether an action stops jobs for a queue at all.
    pub(super) fn may_evict(&self, eviction: Eviction, due: &Due, leaf: u16) -> bool {
        let Some(volcano) = self.volcano() else { return false };
        let at = usize::from(leaf);
        let reclaims = eviction != Eviction::Preempt;
        !reclaims || volcano.tree.rules().plugin == Plugin::Capacity || !due.has_all(at, volcano.held[at])
    }

    /// Where a running job stands among those of its queue.
    fn eviction_rank(&self, volcano: &VolcanoState<'_>, job: u32) -> Rank {
        let mut ranks = [0; 2];
        for (rank, order) in ranks.iter_mut().zip(&volcano.tree.rules().order) {
            *rank = match order {
                JobOrder::Priority => -i64::from(self.priority(job)),
                JobOrder::Drf => i64::try_from(self.shape(job).amount()).unwrap_or(i64::MAX),
            };
        }
        (ranks, self.key(job), job)
    }

    /// Whether jobs of a queue might be stopped for one of another.
    fn may_reclaim_from(&self, volcano: &VolcanoState<'_>, due: &Due, reclaim: ReclaimFrom, leaf: u16) -> bool {
        let at = usize::from(leaf);
        let held = volcano.held[at];
        let is_such = match reclaim {
            ReclaimFrom::Over => due.is_over(at, held),
            ReclaimFrom::Any => held > 0,
        };
        is_such && volcano.tree.queues()[at].reclaimable
    }

    /// Whom an action stops for a job.
    pub(super) fn evicted_for(&self, eviction: Eviction, due: &Due, job: u32) -> Search {
        let Some(volcano) = self.volcano() else { return Search::default() };
        let (leaf, amount) = (self.workload.vc[job as usize], self.shape(job).amount());
        let at = usize::from(leaf);
        let leaves = 0..volcano.tree.leaves() as u16;
        let from: Vec<bool> = match eviction {
            Eviction::Reclaim(_) if !due.is_within(at, volcano.held[at] + amount) => return Search::default(),
            Eviction::Reclaim(reclaim) => {
                leaves.map(|other| other != leaf && self.may_reclaim_from(volcano, due, reclaim, other)).collect()
            }
            Eviction::Preempt => {
                let lower = volcano.lowest(leaf).is_some_and(|lowest| lowest < self.priority(job));
                leaves.map(|other| other == leaf && lower).collect()
            }
        };
        let mut search = Search::default();
        let mut ranked = Vec::new();
        if from.contains(&true) {
            for segment in self.running.iter().map(|segment| &self.schedule.segments[*segment as usize]) {
                let other = segment.job;
                let is_higher = eviction == Eviction::Preempt && self.priority(other) >= self.priority(job);
                if !from[usize::from(self.workload.vc[other as usize])]
                    || is_higher
                    || self.schedule.preemptions[other as usize] >= MOST_PREEMPTIONS
                {
                    continue;
                }
                let from_ms = self.useful_ms(segment);
                if self.now < from_ms {
                    let at = from_ms.max(self.now + 1000);
                    search.later_ms = search.later_ms.into_iter().chain([at]).min();
                    continue;
                }
                ranked.push(Reverse(self.eviction_rank(volcano, other)));
            }
        }
        let ask = self.ask(job);
        if ranked.is_empty() {
            // Nobody to stop: it fits as it is, or not.
            let fits = volcano.tree.may_have(due, &volcano.held, leaf, amount) && self.placer.fits(&self.nodes, ask);
            search.victims = fits.then(Vec::new);
        } else {
            ranked.sort_unstable();
            let mut lines = vec![VecDeque::new(); volcano.tree.leaves()];
            for Reverse((_, _, other)) in ranked {
                lines[usize::from(self.workload.vc[other as usize])].push_back(other);
            }
            let (held, nodes) = (volcano.held.clone(), self.nodes.clone());
            let trial = Trial { run: self, volcano, due, eviction, leaf, amount, ask, held, nodes, out: Vec::new() };
            search.victims = trial.solve(lines);
        }
        search.later_ms = search.later_ms.filter(|_| search.victims.is_none());
        search
    }
}
