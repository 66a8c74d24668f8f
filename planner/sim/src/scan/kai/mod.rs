//! Scheduling in cycles, as NVIDIA's KAI scheduler does it: jobs start in the order of their queues' shares, then jobs are stopped for other queues, then for their own.
//!
//! # Contract
//!
//! Under [`Scan::Kai`](crate::Scan) all VCs are leaves of the cluster's [`Hierarchy`](crate::kai::Hierarchy), on one pool. A leaf's jobs stand in order of (priority, highest first; key of the policy's order; submission). A job of
//! priority 100 or more is *firm*: it is never stopped, and runs within quotas alone. What a queue *holds* is what the running jobs of its leaves ask for. A queue *may have* a job of g GPUs if no queue from its leaf up to the top
//! would hold more than its limit, nor, if the job is firm, more than its quota with firm jobs. A job that no empty cluster would let its queue have is rejected.
//!
//! A decision is one cycle. The fair share of every queue ([`crate::kai`]) is computed at its beginning, from what runs and waits then, and holds to its end. The *allocatable* share of a queue is the larger of fair share and quota,
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
//! done something useful since their start (see *Preemption* in [the contract](crate)), have run for the minimum runtime (that of the queue just below the shared one, for jobs of other leaves; of the leaf, for its own), and were not stopped a hundred times
//! already, so that a replay ends. Where such a time alone keeps a job from being stopped, another decision is due when it is over, in one second at the earliest. With time-based share another is due at the next measurement of usage while a job waits and
//! anything runs or is to come (if jobs may be stopped at all). With a decision interval decisions are at its multiples alone, as under every scan.
//!
//! What differs from KAI: who is stopped is gone at once, and who stopped it starts in the same moment; jobs are gangs, stopped whole; nothing is moved to make room (consolidation), nor are jobs that are reclaimed put elsewhere in the same cycle; the
//! order in which sets of jobs to stop are tried is simpler; usage is exact, and none from before the replay. Of the alpha features neither reclaim within quotas by queue priority nor steady fair shares are replayed.
//!
//! Jobs that a stage passes over change nothing, but who stands in front of a queue says where it stands. So jobs wait in lines (those of a leaf that ask for the same and are as firm), and [`order`] finds the next job of a line that was not in vain without
//! looking at those before it. O(2^depth × lines × log + shapes × nodes) for each job that is tried, with lines at most a few for each queue, whatever the number of waiting jobs; where the order of jobs changes while they wait they are sorted, O(waiting × log). O(running × queues + nodes) for a job for which
//! others might stop. Worked example, KAI's story of two queues: 16 GPUs, two queues without quotas, jobs of 16 GPUs. Without time-based share both are due 8 GPUs: whoever
//! runs is over its share, but the other's job asks for more than its share, and waits. With it, the fair share of the queue that runs sinks to 0 and that of the other rises to 16: the running job is stopped, and they take turns.

mod order;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
mod victims;

use std::cmp::Reverse;

use crate::divided::Divided;
use crate::engine::{Action, Line, Lines, Run};
use crate::error::{Error, Result};
use crate::key::Key;
use crate::policy::Preemption;
use order::{Head, Passed, Shares};

/// For whom jobs are stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Jobs of other leaves.
    Reclaim,
    /// Jobs of the same leaf.
    Preempt,
}

/// Which lines are open: whose jobs could start now.
#[derive(Debug, Clone, Copy)]
enum Open {
    Nobody,
    /// Lines of one leaf, of which this job is the first.
    Leaf(Head),
    /// Lines of several leaves.
    Leaves,
}

impl<'a> Run<'a> {
    /// Runs a cycle of KAI.
    pub(super) fn walk_kai(&mut self) -> Result<()> {
        let stops = self.policy.preemption != Preemption::Never;
        // Asked for once jobs of several leaves could start, or others might stop: most cycles see neither. They are still those of the beginning then, as a start changes nothing of what its queue requests, nor of what was used before.
        let mut shares = None;
        let mut lines = self.take_lines(true);
        self.allocate(&mut shares, &mut lines)?;
        let mut wake: Option<i64> = None;
        if stops
            && !lines.is_empty()
            && let Some(shares) = shares.or_else(|| self.shares())
        {
            for stage in [Stage::Reclaim, Stage::Preempt] {
                self.stop_for(stage, &shares, &mut lines, &mut wake)?;
            }
            if self.queue.len() > 0 {
                wake = Some(self.now + 1000);
            }
        }
        self.put_lines(lines);
        if self.policy.interval_ms.is_some() || self.queue.len() == 0 {
            return Ok(());
        }
        let measured = self.divided.as_ref().and_then(|queues| queues.changes_ms(self.now));
        if let Some(at) = wake.into_iter().chain(measured.filter(|_| stops && self.has_more())).min() {
            self.due(at);
        }
        Ok(())
    }

    /// Shares as they are now.
    fn shares(&mut self) -> Option<Shares> {
        let (now, total) = (self.now, self.service.gpus(&self.nodes) * 1000);
        let Some(Divided::Kai(kai)) = self.divided.as_mut() else { return None };
        let requests: Vec<u64> = kai.held.all.iter().zip(&kai.waiting).map(|(held, waiting)| held + waiting).collect();
        let usage = kai.usage.as_mut().map_or(&[][..], |usage| usage.known(now));
        let fair = kai.tree.fair_shares(total, &kai.tree.requests(&requests), usage);
        Some(Shares { fair, total })
    }

    /// Returns the sort key of a job within its leaf.
    fn kai_rank(&self, job: u32) -> (Reverse<i32>, Key, u32) {
        (Reverse(self.priority(job)), self.key(job), job)
    }

    /// Starts what fits.
    fn allocate(&mut self, shares: &mut Option<Shares>, lines: &mut Lines<'a>) -> Result<()> {
        let mut passed = Passed::new(lines, self.cluster.vcs.len());
        let mut request = Vec::new();
        while !self.is_full() && !lines.is_empty() {
            // Nothing is given back before the end, so that who cannot start now cannot later.
            let next = match self.refuse_who_cannot_start(lines, &mut passed, &mut request) {
                Open::Nobody => break,
                // Where all that are open lie in one leaf, so does who is next, in its order, whatever stands where. Lines only close within a cycle: the order of the queues is not asked for any more, and need not be kept.
                Open::Leaf(head) => head,
                Open::Leaves => {
                    if shares.is_none() {
                        *shares = self.shares();
                    }
                    let Some(shares) = shares else { break };
                    let Some(next) = self.next_job(shares, lines, &passed, &|_, _| true) else { break };
                    passed.pass(&next);
                    next.head
                }
            };
            match self.try_start(lines.job(next.rank))? {
                Ok(()) => self.leave_line(lines, next.leaf, next.line, next.rank),
                Err(_) => passed.refuse(next.line),
            }
        }
        Ok(())
    }

    /// Passes over the lines whose queue may not have their jobs, or for which there are no nodes; who is left. `asked` is kept for its memory.
    fn refuse_who_cannot_start(&self, lines: &Lines<'_>, passed: &mut Passed, request: &mut Vec<Option<bool>>) -> Open {
        // What was asked of the nodes: by shape, and whether jobs may spread.
        request.clear();
        request.resize(2 * self.workload.shapes.len(), None);
        let mut open = Open::Nobody;
        for leaf in 0..self.cluster.vcs.len() as u16 {
            let mut first: Option<Head> = None;
            for line in lines.of(leaf) {
                let Some(rank) = lines.head(*line).filter(|_| !passed.is_refused(*line)) else { continue };
                let job = lines.job(rank);
                let fits = || self.placer.fits(&self.nodes, self.ask(job));
                let known = request.get_mut(2 * usize::from(line.shape) + usize::from(line.relaxed));
                let may = self.queue_allows(job) && known.is_none_or(|known| *known.get_or_insert_with(fits));
                if !may {
                    passed.refuse(*line);
                } else if first.is_none_or(|first| rank < first.rank) {
                    first = Some(Head { leaf, line: *line, rank });
                }
            }
            open = match (open, first) {
                (open, None) => open,
                (Open::Nobody, Some(head)) => Open::Leaf(head),
                _ => Open::Leaves,
            };
        }
        open
    }

    /// Stops jobs for others. `wake` is when someone could be stopped who cannot be yet.
    fn stop_for(&mut self, stage: Stage, shares: &Shares, lines: &mut Lines<'a>, wake: &mut Option<i64>) -> Result<()> {
        let mut passed = Passed::new(lines, self.cluster.vcs.len());
        // By leaf, the highest priority for which nobody at all can be stopped: who runs has not changed since it was asked.
        let mut hopeless: Vec<Option<i32>> = vec![None; self.cluster.vcs.len()];
        loop {
            let may = |leaf: u16, line: Line| self.may_stop_others(stage, shares, leaf, line);
            let Some(next) = self.next_job(shares, lines, &passed, &may) else { return Ok(()) };
            // Who came before it was in vain, although nobody had to be asked.
            passed.refuse_passed(lines, &next);
            passed.pass(&next);
            let Head { leaf, line, rank } = next.head;
            let job = lines.job(rank);
            let (priority, known) = (self.priority(job), &mut hopeless[usize::from(leaf)]);
            if known.is_some_and(|known| priority <= known) {
                passed.refuse(line);
                continue;
            }
            let search = self.victims_of(stage, shares, job);
            *wake = (*wake).into_iter().chain(search.later_ms).min();
            if search.is_hopeless {
                *known = Some(priority);
            }
            if search.victims.is_empty() {
                passed.refuse(line);
            } else {
                self.stop_and_start(job, search.victims)?;
                self.leave_line(lines, leaf, line, rank);
                hopeless.fill(None);
            }
        }
    }

    /// Starts a job for which others stop.
    fn stop_and_start(&mut self, job: u32, victims: Vec<u32>) -> Result<()> {
        for victim in victims {
            self.apply(Action::Preempt { job: victim })?;
        }
        match self.try_start(job)? {
            Ok(()) => Ok(()),
            Err(_) => Err(Error::Action(format!("others stop for job {job}, which does not start"))),
        }
    }
}
