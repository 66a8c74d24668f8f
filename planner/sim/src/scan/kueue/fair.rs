//! Fair sharing: whose head is admitted first, and whom it may stop, by shares of what is borrowed.
//!
//! Shares are those of [`crate::cohort`]. **Order of a cycle.** Of the heads left, one at a time: in the tree of the first queue that has one, from the root down, the child whose
//! share would be the least if the head it puts forward were admitted with the flavor that it is nominated for (what is kept for others counts as used); of equals the higher priority, then the earlier in the order. A cohort puts forward the head that wins among its own children in this way.
//!
//! **Whom to stop.** The head's GPUs are counted as used by its queue. From the root down the child with the greatest share is taken, of equals the later, a cohort before a queue;
//! queues without candidates left are left out, and queues and cohorts that do not borrow of any flavor, unless the head's own queue lies there. (A candidate's own queue must borrow of the flavor, as in [`super::preempt`];
//! whether the cohorts between do is not asked.) In the queue that is found:
//!
//! * if it is the head's own, its next candidate is stopped;
//! * else its candidates are gone through in order. One is stopped if the strategy allows it, and the search begins again at the root; one that is not waits for the second strategy.
//!
//! The strategies compare the shares of the two queues just below their lowest common cohort (of the queue, or of the cohort it lies in): `LessThanOrEqualToFinalShare` that of the head's to the other's
//! without the candidate, `LessThanInitialShare` to the other's as it is. The second strategy, if there is one, looks at the first candidate left of each queue once. It ends when the head
//! fits; then who need not be stopped is put back, as in [`super::preempt`].
//!
//! O(candidates × members). Source: Kueue's concept page *Preemption*, section *Fair Sharing*, and its enhancement proposal 1714. Worked number: a and b borrow 6 and 0 of 8 GPUs that can be lent; b's job of 3 stops one of a's of 3: its share
//! would be 3/8, and a's without the job is 3/8 as well.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::Nominated;
use super::preempt::{Candidate, Search, Trial};
use crate::cohort::{Cohorts, FairPreemption, Share, Usage};
use crate::engine::Run;

impl Run<'_> {
    /// Which of the heads is processed next.
    pub(super) fn fairest(&self, heads: &[Nominated]) -> usize {
        let Some(admission) = &self.admission else { return 0 };
        let cohorts = admission.cohorts;
        let by_queue: BTreeMap<u16, usize> = heads.iter().enumerate().map(|(at, head)| (head.queue, at)).collect();
        let Some((first, at)) = by_queue.first_key_value() else { return 0 };
        let root = cohorts.root(*first);
        if root == *first {
            return *at;
        }
        // The share of each member on the way from a head's queue to the root, were the head admitted.
        let mut shares: BTreeMap<(u16, usize), Share> = BTreeMap::new();
        let mut usage = admission.usage.clone();
        for (queue, at) in by_queue.iter().filter(|(queue, _)| cohorts.root(**queue) == root) {
            let head = &heads[*at];
            cohorts.add(&mut usage, *queue, head.flavor, head.amount);
            for member in std::iter::once(*queue).chain(cohorts.above(*queue)) {
                shares.insert((member, *at), cohorts.share(&usage, member));
            }
            cohorts.remove(&mut usage, *queue, head.flavor, head.amount);
        }
        self.winner(cohorts, root, heads, &by_queue, &shares).unwrap_or(*at)
    }

    fn winner(
        &self,
        cohorts: &Cohorts,
        cohort: u16,
        heads: &[Nominated],
        by_queue: &BTreeMap<u16, usize>,
        shares: &BTreeMap<(u16, usize), Share>,
    ) -> Option<usize> {
        let put_forward = cohorts.children(cohort).filter_map(|child| {
            let at = if usize::from(child) < cohorts.rules().len() {
                by_queue.get(&child).copied()
            } else {
                self.winner(cohorts, child, heads, by_queue, shares)
            }?;
            let share = shares.get(&(child, at)).copied().unwrap_or(Share::ZERO);
            Some((share, self.rank(heads[at].job), heads[at].job, at))
        });
        put_forward.min().map(|(_, _, _, at)| at)
    }

    /// Whom to stop for a job, under fair sharing.
    pub(super) fn fair_victims(&self, job: u32, flavor: u16) -> Search {
        let (candidates, early) = self.candidates(job, flavor);
        if candidates.is_empty() && early.is_empty() {
            return Search::default();
        }
        let Some(mut trial) = self.trial(job, flavor) else { return Search::default() };
        let (queue, cohorts) = (trial.queue, trial.cohorts);
        let borrows = |of: u16| cohorts.borrowed(&trial.usage, of, flavor, 0) > 0;
        let stoppable = |candidate: &Candidate| candidate.queue == queue || borrows(candidate.queue);
        let nobody = Search { victims: Vec::new(), later: early.iter().any(stoppable) };
        let candidates: Vec<Candidate> = candidates.into_iter().filter(stoppable).collect();
        let (first, second) = match cohorts.fair() {
            None => return nobody,
            Some(FairPreemption::Final) => (true, false),
            Some(FairPreemption::Initial) => (false, false),
            Some(FairPreemption::Both) => (true, true),
        };
        let mut out = Vec::new();
        let mut left = Vec::new();
        let mut search = VictimOrder::new(&trial, candidates);
        let mut fits = false;
        while !fits && let Some(target) = search.next(&trial) {
            if target == queue {
                let Some(candidate) = search.pop(target) else { break };
                fits = trial.stops(candidate.job, &mut out);
                continue;
            }
            let (above, beyond) = below_common(cohorts, queue, target);
            let with_job = trial.with_job();
            let (mine, before) = (cohorts.share(&with_job, above), cohorts.share(&with_job, beyond));
            while let Some(candidate) = search.pop(target) {
                let mut without = with_job.clone();
                cohorts.remove(&mut without, target, flavor, self.shape(candidate.job).amount());
                let allowed = if first { mine <= cohorts.share(&without, beyond) } else { mine < before };
                if allowed {
                    fits = trial.stops(candidate.job, &mut out);
                    break;
                }
                left.push(candidate);
            }
        }
        if !fits && second {
            let mut search = VictimOrder::new(&trial, left);
            while !fits && let Some(target) = search.next(&trial) {
                let (above, beyond) = below_common(cohorts, queue, target);
                let with_job = trial.with_job();
                if let Some(candidate) = search.pop(target)
                    && cohorts.share(&with_job, above) < cohorts.share(&with_job, beyond)
                {
                    fits = trial.stops(candidate.job, &mut out);
                }
                search.drop_queue(target);
            }
        }
        if !fits {
            return nobody;
        }
        Search { victims: trial.put_back_needless(out, true), ..nobody }
    }
}

impl Trial<'_, '_> {
    /// Returns the use with the job counted.
    fn with_job(&self) -> Usage {
        let mut usage = self.usage.clone();
        self.cohorts.add(&mut usage, self.queue, self.flavor, self.amount);
        usage
    }

    /// Takes a job out; whether the other fits then.
    fn stops(&mut self, job: u32, out: &mut Vec<u32>) -> bool {
        self.take_out(job);
        out.push(job);
        self.fits(true)
    }
}

/// The members just below the lowest common cohort of two queues, on the way to each.
fn below_common(cohorts: &Cohorts, a: u16, b: u16) -> (u16, u16) {
    let way = |queue: u16| -> Vec<u16> { std::iter::once(queue).chain(cohorts.above(queue)).collect() };
    let (to_a, to_b) = (way(a), way(b));
    let common = to_a.iter().rev().zip(to_b.iter().rev()).take_while(|(a, b)| a == b).count();
    let below = |way: &[u16], queue: u16| {
        way.len().checked_sub(common + 1).and_then(|at| way.get(at).copied()).unwrap_or(queue)
    };
    (below(&to_a, a), below(&to_b, b))
}

/// Which queue is looked at next for someone to stop.
struct VictimOrder {
    candidates: Vec<VecDeque<Candidate>>,
    pruned: BTreeSet<u16>,
}

impl VictimOrder {
    fn new(trial: &Trial<'_, '_>, candidates: Vec<Candidate>) -> Self {
        let mut by_queue = vec![VecDeque::new(); trial.cohorts.rules().len()];
        for candidate in candidates {
            by_queue[usize::from(candidate.queue)].push_back(candidate);
        }
        Self { candidates: by_queue, pruned: BTreeSet::new() }
    }

    fn pop(&mut self, queue: u16) -> Option<Candidate> {
        self.candidates[usize::from(queue)].pop_front()
    }

    fn drop_queue(&mut self, queue: u16) {
        self.pruned.insert(queue);
    }

    /// The next queue; `None` if nobody is left.
    fn next(&mut self, trial: &Trial<'_, '_>) -> Option<u16> {
        let root = trial.cohorts.root(trial.queue);
        if root == trial.queue {
            return (!self.candidates[usize::from(root)].is_empty()).then_some(root);
        }
        let usage = trial.with_job();
        while !self.pruned.contains(&root) {
            if let Some(result) = self.greatest(trial, &usage, root) {
                return Some(result);
            }
        }
        None
    }

    /// The queue under a cohort, going to the greatest share at each level; `None` if only members were pruned.
    fn greatest(&mut self, trial: &Trial<'_, '_>, usage: &Usage, cohort: u16) -> Option<u16> {
        let cohorts = trial.cohorts;
        let queues = cohorts.rules().len();
        // The greatest share; of equals a cohort, then the later.
        let mut best: Option<(Share, bool, u16)> = None;
        for child in cohorts.children(cohort) {
            if self.pruned.contains(&child) {
                continue;
            }
            let share = cohorts.share(usage, child);
            let is_queue = usize::from(child) < queues;
            let is_own = child == trial.queue || cohorts.above(trial.queue).any(|above| above == child);
            let is_spent = is_queue && self.candidates[usize::from(child)].is_empty();
            if (share.is_zero() && !is_own) || is_spent {
                self.pruned.insert(child);
                continue;
            }
            best = best.max(Some((share, !is_queue, child)));
        }
        match best {
            None => {
                self.pruned.insert(cohort);
                None
            }
            Some((_, true, child)) => self.greatest(trial, usage, child),
            Some((_, false, child)) => Some(child),
        }
    }
}
