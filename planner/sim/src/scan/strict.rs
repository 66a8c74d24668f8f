//! The walks without reservations: strict and skip.
//!
//! Strict on a ranked queue looks at one job per start and one more: O(log n) each. Skip looks at one job per start and one
//! per class. Worked example: 5 free GPUs and a queue of 8, 4, 4, 1: strict starts none, skip starts a 4 and the 1.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Refusal;
use crate::engine::{Queue, Run};
use crate::error::Result;
use crate::policy::Order;

impl Run<'_> {
    /// Strict, ranked: classes are VCs.
    pub(super) fn walk_strict(&mut self) -> Result<()> {
        let Queue::Ranked(ranked, ranking) = &self.queue else { return Ok(()) };
        let ranking = *ranking;
        let classes = ranked.classes();
        let mut blocked = vec![];
        loop {
            let Queue::Ranked(ranked, _) = &self.queue else { return Ok(()) };
            let open = (0..classes).filter(|class| !blocked.contains(class));
            let Some((rank, class)) = open.filter_map(|class| Some((ranked.head(class)?, class))).min() else {
                return Ok(());
            };
            match self.try_start(ranking.job(rank))? {
                Ok(()) => self.take(class, rank),
                Err(Refusal::Quota) => blocked.push(class),
                Err(Refusal::Nodes) => return Ok(()),
            }
        }
    }

    /// Skip, ranked: classes are VCs and shapes.
    pub(super) fn walk_skip(&mut self) -> Result<()> {
        let Queue::Ranked(ranked, ranking) = &self.queue else { return Ok(()) };
        let ranking = *ranking;
        let heads = (0..ranked.classes()).filter_map(|class| Some(Reverse((ranked.head(class)?, class))));
        let mut heads: BinaryHeap<_> = heads.collect();
        while let Some(Reverse((rank, class))) = heads.pop() {
            if self.try_start(ranking.job(rank))?.is_ok() {
                self.take(class, rank);
                if let Queue::Ranked(ranked, _) = &self.queue
                    && let Some(next) = ranked.head(class)
                {
                    heads.push(Reverse((next, class)));
                }
            }
        }
        Ok(())
    }

    /// Takes a job that started out of a ranked queue.
    pub(super) fn take(&mut self, class: u32, rank: u32) {
        if let Queue::Ranked(ranked, _) = &mut self.queue {
            ranked.remove(class, rank);
        }
    }

    /// The walk of the Helios simulator's QSSF: jobs that arrive at an empty queue go by GPUs in their first tick, all others by
    /// priority.
    pub(super) fn decide_helios(&mut self) -> Result<()> {
        debug_assert_eq!(self.policy.order, Order::Qssf);
        let mut newcomers = std::mem::take(&mut self.newcomers);
        if self.queue.len() > 0 || newcomers.is_empty() {
            for job in newcomers {
                self.queue.insert(job);
            }
            return if self.queue.len() > 0 { self.walk_strict() } else { Ok(()) };
        }
        newcomers.sort_by_key(|job| (self.shape(*job).amount(), *job));
        let mut over = false;
        for job in newcomers {
            if over || self.try_start(job)?.is_err() {
                over = true;
                self.queue.insert(job);
            }
        }
        if self.queue.len() > 0 {
            self.due_next();
        }
        Ok(())
    }
}
