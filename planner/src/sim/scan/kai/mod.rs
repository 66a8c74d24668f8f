//! Scheduling in cycles, as NVIDIA's KAI scheduler does it: jobs start in the order of their queues' shares, then jobs are stopped for other queues, then for their own.
//!
//! # Contract
//!
//! Under [`Scan::Kai`](crate::sim::Scan) all VCs are leaves of the cluster's [`Hierarchy`](crate::sim::kai::Hierarchy), on one pool. A leaf's jobs stand in order of (priority, highest first; key of the policy's order; submission). A job of
//! priority 100 or more is *firm*: it is never stopped, and runs within quotas alone. What a queue *holds* is what the running jobs of its leaves ask for. A queue *may have* a job of g GPUs if no queue from its leaf up to the top
//! would hold more than its limit, nor, if the job is firm, more than its quota with firm jobs. A job that no empty cluster would let its queue have is rejected.
//!
//! A decision is one cycle. The fair share of every queue ([`crate::sim::kai`]) is computed at its beginning, from what runs and waits then, and holds to its end. The *allocatable* share of a queue is the larger of fair share and quota,
//! at most its limit, and everything where quota or limit are unlimited. Three stages follow; each looks at the jobs that still wait, one at a time, in the order of *queues*.
//!
//! **Order of queues** ([`order`]). From the top down the first of the queues with a job left is taken, by: holds at most its fair share; would hold at most its quota with its next job; higher priority; not an allocatable share of nothing;
//! less held, with the job, of its allocatable share; less held without it; smaller allocatable share; earlier created; earlier in the tree. (A queue's next job is that of the queue which is first below it. Of an allocatable share of
//! nothing n GPUs are n·1000 times too much; of an unlimited one they are a part of all in service.)
//!
//! 1. **Allocate.** A job starts if its queue may have it and the placement rule finds nodes. One that does not start holds up nobody.
//! 2. **Reclaim**, unless the policy stops nobody. For a job with which its leaf holds at most its fair share, and within its quota with firm jobs if it is firm, jobs of other leaves may be stopped ([`victims`]): those that are not firm. Compared are
//!    the two queues just below the last one that both jobs share. A job of theirs may be stopped if, with what was taken from them before, they hold more than their allocatable share, or if they hold more than their quota and ours would hold at most its
//!    quota with the job.
//! 3. **Preempt**, likewise. For a job, jobs of its own leaf may be stopped that are not firm and have lower priority.
//!
//! In stages 2 and 3 a job is passed over if one of its leaf that asks for the same, and is as firm, was in vain before it in the stage. Who is stopped joins its queue and is not looked at again in this decision; another is due in one second. Only jobs are stopped that have
//! done something useful since their start (see *Preemption* in [`crate::sim`]), have run for the minimum runtime (that of the queue just below the shared one, for jobs of other leaves; of the leaf, for its own), and were not stopped a hundred times
//! already, so that a replay ends. Where such a time alone keeps a job from being stopped, another decision is due when it is over, in one second at the earliest. With time-based share another is due at the next measurement of usage while a job waits and
//! anything runs or is to come (if jobs may be stopped at all). With a decision interval decisions are at its multiples alone, as under every scan.
//!
//! What differs from KAI: who is stopped is gone at once, and who stopped it starts in the same moment; jobs are gangs, stopped whole; nothing is moved to make room (consolidation), nor are jobs that are reclaimed put elsewhere in the same cycle; the
//! order in which sets of jobs to stop are tried is simpler; usage is exact, and none from before the replay. Of the alpha features neither reclaim within quotas by queue priority nor steady fair shares are replayed.
//!
//! O(waiting × queues) a cycle, and O(running × queues + nodes) for a job for which others might stop. Worked example, KAI's story of two queues: 16 GPUs, two queues without quotas, jobs of 16 GPUs. Without time-based share both are due 8 GPUs: whoever
//! runs is over its share, but the other's job asks for more than its share, and waits. With it, the fair share of the queue that runs sinks to 0 and that of the other rises to 16: the running job is stopped, and they take turns.

mod order;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
mod victims;

use std::cmp::Reverse;
use std::collections::VecDeque;

use order::Shares;

use super::{Refusal, Refused};
use crate::error::{Error, Result};
use crate::sim::divided::Divided;
use crate::sim::engine::{Action, Queue, Run};
use crate::sim::key::Key;
use crate::sim::policy::Preemption;

/// For whom jobs are stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Jobs of other leaves.
    Reclaim,
    /// Jobs of the same leaf.
    Preempt,
}

/// Jobs of each leaf, the first in front.
type Lines = Vec<VecDeque<u32>>;

impl Run<'_> {
    /// One of KAI's cycles.
    pub(super) fn walk_kai(&mut self) -> Result<()> {
        let Queue::Loose(waiting) = &mut self.queue else { return Ok(()) };
        let waiting = std::mem::take(waiting);
        let Some(shares) = self.shares(&waiting) else {
            self.queue = Queue::Loose(waiting);
            return Ok(());
        };
        let mut lines = self.kai_lines(waiting);
        if !self.is_full() {
            lines = self.allocate(&shares, lines)?;
        }
        let mut wake: Option<i64> = None;
        if self.policy.preemption != Preemption::Never {
            let stopped = self.queue.len();
            for stage in [Stage::Reclaim, Stage::Preempt] {
                lines = self.stop_for(stage, &shares, lines, &mut wake)?;
            }
            if self.queue.len() > stopped {
                wake = Some(self.now + 1000);
            }
        }
        for job in lines.into_iter().flatten() {
            self.queue.insert(job);
        }
        if self.policy.interval_ms.is_some() || self.queue.len() == 0 {
            return Ok(());
        }
        let measured = self.divided.as_ref().and_then(|queues| queues.changes_ms(self.now));
        let stops = self.policy.preemption != Preemption::Never;
        if let Some(at) = wake.into_iter().chain(measured.filter(|_| stops && self.has_more())).min() {
            self.due(at);
        }
        Ok(())
    }

    /// Shares as they are now, with these jobs waiting.
    fn shares(&mut self, waiting: &[u32]) -> Option<Shares> {
        let (now, total) = (self.now, self.service.gpus(&self.nodes) * 1000);
        let workload = self.workload;
        let Some(Divided::Kai(kai)) = self.divided.as_mut() else { return None };
        let mut requests: Vec<u64> = kai.held.all.iter().take(kai.tree.leaves()).copied().collect();
        for job in waiting {
            let leaf = usize::from(workload.vc[*job as usize]);
            requests[leaf] += workload.shape_of(*job as usize).amount();
        }
        let usage = kai.usage.as_mut().map_or(&[][..], |usage| usage.known(now));
        let fair = kai.tree.fair_shares(total, &kai.tree.requests(&requests), usage);
        Some(Shares { fair, total })
    }

    /// What jobs of a leaf are ordered by, with the key.
    fn kai_rank(&self, job: u32) -> (Reverse<i32>, Key, u32) {
        (Reverse(self.priority(job)), self.key(job), job)
    }

    /// Jobs by leaf, in order.
    fn kai_lines(&self, jobs: Vec<u32>) -> Lines {
        let mut ranked: Vec<_> = jobs.into_iter().map(|job| self.kai_rank(job)).collect();
        ranked.sort_unstable();
        let mut lines = vec![VecDeque::new(); self.cluster.vcs.len()];
        for (_, _, job) in ranked {
            lines[usize::from(self.workload.vc[job as usize])].push_back(job);
        }
        lines
    }

    /// Starts what fits; who waits on.
    fn allocate(&mut self, shares: &Shares, mut lines: Lines) -> Result<Lines> {
        let mut left: Lines = vec![VecDeque::new(); lines.len()];
        let mut refused = Refused::default();
        while let Some(job) = self.next_job(shares, &mut lines) {
            let starts = self.queue_allows(job) && !self.is_full() && !refused.holds(self, job);
            let result = if starts { self.try_start(job)? } else { Err(Refusal::Quota) };
            if result.is_err() {
                if starts {
                    refused.insert(self, job);
                }
                left[usize::from(self.workload.vc[job as usize])].push_back(job);
            }
        }
        Ok(left)
    }

    /// Stops jobs for others; who waits on. `wake` is when someone could be stopped who cannot be yet.
    fn stop_for(&mut self, stage: Stage, shares: &Shares, mut lines: Lines, wake: &mut Option<i64>) -> Result<Lines> {
        let mut left: Lines = vec![VecDeque::new(); lines.len()];
        let mut refused = [Refused::default(), Refused::default()];
        while let Some(job) = self.next_job(shares, &mut lines) {
            let alike = usize::from(self.is_firm(job));
            let is_new = !refused[alike].holds(self, job);
            if is_new && self.stop_and_start(stage, shares, job, wake)? {
                continue;
            }
            if is_new {
                refused[alike].insert(self, job);
            }
            left[usize::from(self.workload.vc[job as usize])].push_back(job);
        }
        Ok(left)
    }

    /// Starts a job if jobs that may be stopped for it make room.
    fn stop_and_start(&mut self, stage: Stage, shares: &Shares, job: u32, wake: &mut Option<i64>) -> Result<bool> {
        let search = self.victims_of(stage, shares, job);
        *wake = (*wake).into_iter().chain(search.later_ms).min();
        if search.victims.is_empty() {
            return Ok(false);
        }
        for victim in search.victims {
            self.apply(Action::Preempt { job: victim })?;
        }
        match self.try_start(job)? {
            Ok(()) => Ok(true),
            Err(_) => Err(Error::Action(format!("others stop for job {job}, which does not start"))),
        }
    }
}
