//! Scheduling in sessions, as Volcano does it: jobs start in the order of their queues' shares, as far as these deserve; then jobs are stopped for other queues, and for their own.
//!
//! # Contract
//!
//! Under [`Scan::Volcano`](crate::Scan) all VCs are leaves of the cluster's [`VolcanoQueues`](crate::volcano::VolcanoQueues), on one pool. A leaf's jobs stand in order of (priority, highest first, if the plugin `priority` orders jobs; key of the policy's order; submission). (`drf` orders jobs by what they hold. A
//! gang that waits holds nothing, so it tells only running jobs apart.) What a queue *holds* is what the running jobs of its leaves ask for. A job that is more than the capability of its queue, or of one above it, is rejected.
//!
//! A decision is one session. What queues deserve and their bounds ([`crate::volcano`]) are computed at its beginning, from what runs and waits then, and hold to its end. A queue *may have* a job if with it, under `proportion`, it would hold at most what it deserves; under `capacity`, if neither
//! it nor a queue above it would hold more than its bound.
//!
//! **Order of queues**: those leaves of the highest priority first; of these from the top down, at each level the queue with the least share of what it holds now; of equals who deserves something before who deserves nothing; then who was created first.
//!
//! 1. **Allocate.** Again and again the first queue that has a job left is taken, and in it the first job. It starts if its queue may have it and the placement rule finds nodes. One that does not start holds up nobody.
//! 2. **Reclaim** and **preempt**, unless the policy stops nobody, those of them that are among the actions, in their order. Each looks once at every queue in which a job still waits, always the first in order of those it has not looked at, and at its jobs in order. Jobs may be stopped for one ([`victims`]):
//!    * *Reclaim*, under `proportion` for no queue that holds all it deserves when it is looked at; for a job with which its leaf would hold at most what it deserves: jobs of other leaves that are reclaimable and hold more than they deserve, or, where no plugin is asked that knows this, hold anything.
//!    * *Preempt*: jobs of the same leaf of lower priority.
//!
//!    A job for which nobody needs to stop, as others made room before, starts. One that asks for the same as a job of its leaf that was in vain before it in the action is passed over.
//!
//! Who is stopped joins its queue and is not looked at again in this decision; another is due in one second. Only jobs are stopped that have done something useful since their start (see *Preemption* in [the contract](crate)) and were not stopped a hundred times already, so that a replay ends. Where the
//! former alone keeps a job from being stopped, another decision is due when it is over, in one second at the earliest. With a decision interval decisions are at its multiples alone, as under every scan.
//!
//! What differs from Volcano: every job is a gang whose pods start and stop together, and all jobs may be stopped (`volcano.sh/preemptable`); so the plugins `gang` and `drf` let no job be stopped where they are asked, which the reader of the configuration heeds. Who is stopped is gone at once, and who stopped it
//! starts in the same moment. `allocate` always comes first. Who is stopped is chosen over all nodes, where the actions `preempt` and `reclaim` choose node by node and pod by pod; a queue that holds less than a pod of the job asks for is not spared. The action `enqueue` is not replayed: all jobs are looked at, where Volcano
//! keeps jobs back that are beyond a queue's capability or the overcommit factor, with those that came before them. `backfill` starts pods that ask for nothing. Strategies of dequeuing other than `traverse`, reclaim by ancestors (`ancestorReclaimLevel`), hierarchical drf and what plugins say of nodes are not replayed. Where queues lie below each other, ties on a level go to
//! the queue of that level that was created first, where Volcano compares the leaves.
//!
//! O((queues + lines) × log) a session beside what starts, where a line is the waiting jobs of a queue and a shape, and O(running + nodes) for a job for which others might stop. Worked example, Volcano's guide to capacity: see [`crate::volcano`]; six of the eight jobs are stopped, the last first.

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
mod victims;

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use super::Refusal;
use crate::engine::{Action, Line, Lines, Run};
use crate::error::{Error, Result};
use crate::policy::Preemption;
use crate::volcano::Eviction;
use crate::volcano::deserved::Due;
use crate::volcano::state::VolcanoState;

/// Heads of the lines of a queue, the first on top: rank, and which of the queue's lines.
type Heads = BinaryHeap<Reverse<(u32, usize)>>;

impl<'a> Run<'a> {
    /// Runs a session of Volcano.
    pub(super) fn walk_volcano(&mut self) -> Result<()> {
        let total = self.service.gpus(&self.nodes) * 1000;
        let Some((tree, due)) = self.volcano().map(|volcano| (volcano.tree, volcano.due(total))) else { return Ok(()) };
        let mut lines = self.take_lines(tree.orders_by_priority());
        self.allocate_due(&due, &mut lines)?;
        let mut wake: Option<i64> = None;
        if self.policy.preemption != Preemption::Never && !lines.is_empty() {
            for eviction in &tree.rules().evictions {
                self.evict(*eviction, &due, &mut lines, &mut wake)?;
            }
            if self.queue.len() > 0 {
                wake = Some(self.now + 1000);
            }
        }
        self.put_lines(lines);
        if let Some(at) = wake.filter(|_| self.policy.interval_ms.is_none() && self.queue.len() > 0) {
            self.due(at);
        }
        Ok(())
    }

    /// The heads of a queue's lines.
    fn heads(lines: &Lines<'_>, leaf: u16, such: impl Fn(Line) -> bool) -> Heads {
        let of = lines.of(leaf).iter().enumerate().filter(|(_, line)| such(**line));
        of.filter_map(|(at, line)| Some(Reverse((lines.head(*line)?, at)))).collect()
    }

    /// Whether a queue may have a job of a line now.
    fn may_have(&self, due: &Due, leaf: u16, line: Line) -> bool {
        self.volcano().is_some_and(|volcano| volcano.tree.may_have(due, &volcano.held, leaf, self.amount_of(line)))
    }

    /// The first queue that is such.
    fn first_queue(&self, due: &Due, such: &[bool]) -> Option<u16> {
        let VolcanoState { tree, held, .. } = self.volcano()?;
        tree.first(due, held, |leaf| such[usize::from(leaf)])
    }

    /// Queues in which jobs wait.
    fn with_jobs(&self) -> Vec<bool> {
        self.volcano().map_or_else(Vec::new, |volcano| volcano.waiting.iter().map(|waiting| *waiting > 0).collect())
    }

    /// A job that was the head of a line has started.
    fn started(&mut self, lines: &mut Lines<'a>, heads: &mut Heads, (leaf, at, rank): (u16, usize, u32)) {
        let Some(line) = lines.of(leaf).get(at).copied() else { return };
        self.leave_line(lines, leaf, line, rank);
        heads.extend(lines.head(line).map(|rank| Reverse((rank, at))));
    }

    /// Starts what fits of what queues deserve.
    fn allocate_due(&mut self, due: &Due, lines: &mut Lines<'a>) -> Result<()> {
        let mut open = self.with_jobs();
        let mut heads: Vec<Option<Heads>> = vec![None; open.len()];
        // Shapes for which there are no nodes: nothing is given back before the end.
        let mut refused: BTreeSet<(u16, bool)> = BTreeSet::new();
        while !self.is_full() && !lines.is_empty() {
            let Some(leaf) = self.first_queue(due, &open) else { break };
            let mut own = heads[usize::from(leaf)].take().unwrap_or_else(|| {
                let may = |line: Line| !refused.contains(&(line.shape, line.relaxed)) && self.may_have(due, leaf, line);
                Self::heads(lines, leaf, may)
            });
            open[usize::from(leaf)] = false;
            while let Some(Reverse((rank, at))) = own.pop() {
                let line = lines.of(leaf)[at];
                let shape = (line.shape, line.relaxed);
                if refused.contains(&shape) || !self.may_have(due, leaf, line) {
                    continue;
                }
                match self.try_start(lines.job(rank))? {
                    Ok(()) => {
                        self.started(lines, &mut own, (leaf, at, rank));
                        open[usize::from(leaf)] = true;
                        break;
                    }
                    Err(Refusal::Nodes | Refusal::Quota) => refused.insert(shape),
                };
            }
            heads[usize::from(leaf)] = Some(own);
        }
        Ok(())
    }

    /// Stops jobs for others. `wake` is when someone could be stopped who cannot be yet.
    fn evict(&mut self, eviction: Eviction, due: &Due, lines: &mut Lines<'a>, wake: &mut Option<i64>) -> Result<()> {
        let mut left = self.with_jobs();
        while let Some(leaf) = self.first_queue(due, &left) {
            left[usize::from(leaf)] = false;
            if !self.may_evict(eviction, due, leaf) {
                continue;
            }
            let mut heads = Self::heads(lines, leaf, |_| true);
            while let Some(Reverse((rank, at))) = heads.pop() {
                if self.evict_and_start(eviction, due, lines.job(rank), wake)? {
                    self.started(lines, &mut heads, (leaf, at, rank));
                }
            }
        }
        Ok(())
    }

    /// Starts a job if jobs that may be stopped for it make room, or nobody needs to.
    fn evict_and_start(&mut self, eviction: Eviction, due: &Due, job: u32, wake: &mut Option<i64>) -> Result<bool> {
        let search = self.evicted_for(eviction, due, job);
        *wake = (*wake).into_iter().chain(search.later_ms).min();
        let Some(victims) = search.victims else { return Ok(false) };
        for victim in victims {
            self.apply(Action::Preempt { job: victim })?;
        }
        match self.try_start(job)? {
            Ok(()) => Ok(true),
            Err(_) => Err(Error::Action(format!("others stop for job {job}, which does not start"))),
        }
    }
}
