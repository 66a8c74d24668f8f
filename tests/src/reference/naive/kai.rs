//! KAI's cycles in the plainest way, from the rules that `tracecast_planner::sim::scan::kai` and `tracecast_planner::sim::kai` state: what queues hold, request and
//! used is summed anew from the jobs at every question.
//!
//! Worked number: see those pages.

mod share;

use std::cmp::Ordering;

use tracecast_planner::sim::kai::Hierarchy;
use tracecast_planner::sim::{Piece, Preemption, Scan, Stop};

use super::{Phase, Place, Pool};

/// Number of stops after which a job is left alone.
const MOST_STOPS: u32 = 100;

/// Fair share of each queue, and the GPUs in service.
struct Due {
    fair: Vec<i128>,
    total: i128,
}

/// Whose jobs are stopped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum From {
    Others,
    Own,
}

impl Pool<'_> {
    /// The queues, if they are KAI's.
    pub(super) fn hierarchy(&self) -> Option<&Hierarchy> {
        self.cluster.kai.as_ref().filter(|_| self.policy.scan == Scan::Kai)
    }

    /// GPUs in service.
    fn gpus(&self) -> u64 {
        let there = |(node, _): &(&super::Node, &usize)| node.place != Place::Away && node.failures == 0;
        self.nodes.iter().zip(&self.sizes).filter(there).map(|(_, size)| *size as u64).sum()
    }

    /// Notes what is in service now.
    pub(super) fn serve(&mut self) {
        if self.hierarchy().is_some() {
            self.served.push((self.now, self.gpus()));
        }
    }

    fn is_firm(&self, job: usize) -> bool {
        self.priority(job) >= 100
    }

    fn lies_below(tree: &Hierarchy, queue: usize, above: usize) -> bool {
        queue == above
            || tree.queues()[queue].parent.is_some_and(|parent| Self::lies_below(tree, usize::from(parent), above))
    }

    fn all_queues(tree: &Hierarchy) -> std::ops::Range<usize> {
        0..tree.queues().len()
    }

    /// GPUs held by the running jobs of a queue's leaves, but for `gone`.
    fn holds(&self, tree: &Hierarchy, queue: usize, gone: &[usize]) -> i128 {
        self.holds_such(tree, queue, gone, |_| true)
    }

    fn holds_such(&self, tree: &Hierarchy, queue: usize, gone: &[usize], such: impl Fn(usize) -> bool) -> i128 {
        let running = self.in_phase(Phase::Running).into_iter().filter(|job| !gone.contains(job) && such(*job));
        running.filter(|job| Self::lies_below(tree, self.vc(*job), queue)).map(|job| self.amount(job)).sum()
    }

    fn may_have(&self, tree: &Hierarchy, job: usize, gone: &[usize]) -> bool {
        Self::all_queues(tree).filter(|queue| Self::lies_below(tree, self.vc(job), *queue)).all(|queue| {
            let of = &tree.queues()[queue];
            let firm = self.holds_such(tree, queue, gone, |other| self.is_firm(other));
            let (limit, quota) = (of.limit.map(i128::from), of.quota.map(i128::from));
            limit.is_none_or(|limit| self.holds(tree, queue, gone) + self.amount(job) <= limit)
                && (!self.is_firm(job) || quota.is_none_or(|quota| firm + self.amount(job) <= quota))
        })
    }

    /// Whether an empty cluster would let its queue have a job.
    pub(super) fn could_have(&self, tree: &Hierarchy, job: usize) -> bool {
        self.may_have(tree, job, &self.in_phase(Phase::Running))
    }

    /// The GPUs a job gets once `gone` are gone.
    pub(super) fn fits_without(&self, tree: &Hierarchy, job: usize, gone: &[usize]) -> Option<Vec<Piece>> {
        if !self.may_have(tree, job, gone) {
            return None;
        }
        let mut view = self.empty(false);
        for other in self.in_phase(Phase::Running).into_iter().filter(|other| !gone.contains(other)) {
            self.take(&mut view, &self.jobs[other].pieces);
        }
        self.place(&view, job, self.is_relaxed(job))
    }

    /// Makes one decision; returns whether another is due in a second.
    pub(super) fn kai(&mut self) -> bool {
        let tree = self.hierarchy().expect("this scan needs queues").clone();
        let total = i128::from(self.gpus()) * 1000;
        let mut left = self.in_phase(Phase::Waiting);
        let due = Due { fair: self.fair(&tree, total), total };
        left.sort_by_key(|job| (-self.priority(*job), self.key(*job), *job));
        let mut kept = Vec::new();
        while let Some(job) = self.take_next(&tree, &due, &mut left) {
            match self.fits_without(&tree, job, &[]) {
                Some(pieces) => self.start(job, pieces),
                None => kept.push(job),
            }
        }
        let (mut stopped, mut early) = (false, None::<i64>);
        if self.policy.preemption != Preemption::Never {
            for from in [From::Others, From::Own] {
                let mut left = std::mem::take(&mut kept);
                left.sort_by_key(|job| (-self.priority(*job), self.key(*job), *job));
                let mut vain: Vec<(usize, u16, bool, bool)> = Vec::new();
                while let Some(job) = self.take_next(&tree, &due, &mut left) {
                    let like = (self.vc(job), self.workload.shape[job], self.is_relaxed(job), self.is_firm(job));
                    if vain.contains(&like) {
                        kept.push(job);
                        continue;
                    }
                    let victims = self.victims_for(&tree, &due, job, from, &mut early);
                    if victims.is_empty() {
                        vain.push(like);
                        kept.push(job);
                        continue;
                    }
                    let pieces = self.fits_without(&tree, job, &victims).expect("it was found to fit");
                    victims.into_iter().for_each(|victim| self.stop(victim, Stop::Preempted));
                    self.start(job, pieces);
                    stopped = true;
                }
            }
        }
        if self.policy.interval_ms.is_none() && !self.in_phase(Phase::Waiting).is_empty() {
            if let Some(at) = early.filter(|_| !stopped) {
                self.note(at);
            }
            let every = tree.rules().usage.map(|rule| rule.fetch_ms);
            if let Some(every) = every.filter(|_| self.policy.preemption != Preemption::Never && self.has_more()) {
                self.note((self.now / every + 1) * every);
            }
        }
        stopped
    }

    fn take_next(&self, tree: &Hierarchy, due: &Due, left: &mut Vec<usize>) -> Option<usize> {
        let job = self.next_below(tree, due, left, None)?;
        left.retain(|other| *other != job);
        Some(job)
    }

    /// The next job below a queue: of its own in their order, or of the queue that comes first below it.
    fn next_below(&self, tree: &Hierarchy, due: &Due, left: &[usize], queue: Option<usize>) -> Option<usize> {
        if let Some(leaf) = queue.filter(|queue| *queue < tree.leaves()) {
            return left.iter().copied().find(|job| self.vc(*job) == leaf);
        }
        let mut best: Option<(usize, usize)> = None;
        for below in Self::all_queues(tree).filter(|at| tree.queues()[*at].parent.map(usize::from) == queue) {
            let Some(job) = self.next_below(tree, due, left, Some(below)) else { continue };
            let with = |queue: usize, job: usize| self.holds(tree, queue, &[]) + self.amount(job);
            let is_first = best.is_none_or(|(other, its)| {
                let (a, b) = (with(below, job), with(other, its));
                self.before(tree, due, (below, a, a), (other, b, b)) == Ordering::Less
            });
            if is_first {
                best = Some((below, job));
            }
        }
        best.map(|(_, job)| job)
    }

    fn allocatable(tree: &Hierarchy, due: &Due, queue: usize) -> Option<i128> {
        let of = &tree.queues()[queue];
        let limit = of.limit.map(i128::from);
        match (of.quota, limit) {
            (None, limit) => limit,
            (Some(quota), None) => Some(due.fair[queue].max(i128::from(quota))),
            (Some(quota), Some(limit)) => Some(due.fair[queue].max(i128::from(quota)).min(limit)),
        }
    }

    /// Order of two queues, each with what counts of its share and of its quota.
    fn before(&self, tree: &Hierarchy, due: &Due, a: (usize, i128, i128), b: (usize, i128, i128)) -> Ordering {
        let of = |at: usize| &tree.queues()[at];
        let held = |at: usize| self.holds(tree, at, &[]);
        let is_over = |at: usize| held(at) > due.fair[at];
        let is_beyond = |at: usize, quota: i128| of(at).quota.is_some_and(|own| quota > i128::from(own));
        let most = |at: usize| Self::allocatable(tree, due, at);
        let has_nothing = |at: usize, quota: i128| most(at) == Some(0) && quota > 0;
        let part = |at: usize, held: i128| match most(at).unwrap_or(due.total) {
            0 => (held, 1),
            whole => (held, whole),
        };
        let ratio = |(a, b): (i128, i128), (c, d): (i128, i128)| (a * d).cmp(&(c * b));
        let unlimited_last = |at: usize| most(at).unwrap_or(i128::MAX);
        is_over(a.0)
            .cmp(&is_over(b.0))
            .then(is_beyond(a.0, a.2).cmp(&is_beyond(b.0, b.2)))
            .then(of(b.0).priority.cmp(&of(a.0).priority))
            .then(has_nothing(a.0, a.2).cmp(&has_nothing(b.0, b.2)))
            .then(ratio(part(a.0, a.1), part(b.0, b.1)))
            .then(ratio(part(a.0, held(a.0)), part(b.0, held(b.0))))
            .then(unlimited_last(a.0).cmp(&unlimited_last(b.0)))
            .then((of(a.0).created, a.0).cmp(&(of(b.0).created, b.0)))
    }

    fn way(tree: &Hierarchy, leaf: usize) -> Vec<usize> {
        let mut way = vec![leaf];
        while let Some(parent) = tree.queues()[way[way.len() - 1]].parent {
            way.push(usize::from(parent));
        }
        way
    }

    /// The queues just below the last one that both leaves share: of the first, and of the second.
    fn part_at(tree: &Hierarchy, one: usize, other: usize) -> (usize, usize) {
        let (ours, theirs) = (Self::way(tree, one), Self::way(tree, other));
        let below = |way: &[usize], others: &[usize]| *way.iter().rfind(|at| !others.contains(at)).unwrap();
        (below(&ours, &theirs), below(&theirs, &ours))
    }

    /// Whom to stop for a job; `early` is when someone could be who cannot be yet.
    fn victims_for(&self, tree: &Hierarchy, due: &Due, job: usize, from: From, early: &mut Option<i64>) -> Vec<usize> {
        let leaf = self.vc(job);
        let quota = |queue: usize| tree.queues()[queue].quota.map(i128::from);
        let firm = self.holds_such(tree, leaf, &[], |other| self.is_firm(other)) + self.amount(job);
        if self.is_firm(job) && quota(leaf).is_some_and(|quota| firm > quota) {
            return Vec::new();
        }
        if from == From::Others && self.holds(tree, leaf, &[]) + self.amount(job) > due.fair[leaf] {
            return Vec::new();
        }
        let mut open = self.in_phase(Phase::Running);
        open.retain(|other| {
            let suits = match from {
                From::Others => self.vc(*other) != leaf,
                From::Own => self.vc(*other) == leaf && self.priority(*other) < self.priority(job),
            };
            suits && !self.is_firm(*other) && self.jobs[*other].fate.preemptions < MOST_STOPS
        });
        let ripe = |other: usize| {
            let at = if from == From::Own { leaf } else { Self::part_at(tree, leaf, self.vc(other)).1 };
            let says = |at: usize| {
                let queue = &tree.queues()[at];
                if from == From::Own { queue.preempt_min_ms } else { queue.reclaim_min_ms }
            };
            let rules = tree.rules();
            let all = if from == From::Own { rules.preempt_min_ms } else { rules.reclaim_min_ms };
            let least = Self::way(tree, at).into_iter().find_map(says).unwrap_or(all);
            self.jobs[other].since + least.max(self.jobs[other].owed + 1)
        };
        let soon: Option<i64> =
            open.iter().map(|other| ripe(*other)).filter(|at| *at > self.now).map(|at| at.max(self.now + 1000)).min();
        open.retain(|other| ripe(*other) <= self.now);
        // The last first.
        open.sort_by_key(|other| (-self.priority(*other), self.key(*other), *other));
        open.reverse();
        let mut gone: Vec<usize> = Vec::new();
        let mut result = false;
        while let Some(other) = self.last_below(tree, due, &open, &gone, None) {
            open.retain(|job| *job != other);
            if from == From::Others {
                let (ours, theirs) = Self::part_at(tree, leaf, self.vc(other));
                let held = self.holds(tree, theirs, &gone);
                let over = Self::allocatable(tree, due, theirs).is_some_and(|most| held > most);
                let owed = quota(ours).is_none_or(|own| self.holds(tree, ours, &[]) + self.amount(job) <= own);
                let lends = quota(theirs).is_some_and(|own| held > own);
                if !(over || owed && lends) {
                    continue;
                }
            }
            gone.push(other);
            if self.would_fit(tree, due, job, from, &gone) {
                result = true;
                break;
            }
        }
        if !result {
            *early = early.iter().copied().chain(soon).min();
            return Vec::new();
        }
        for at in (0..gone.len() - 1).rev() {
            let fewer: Vec<usize> = gone.iter().copied().filter(|job| *job != gone[at]).collect();
            if self.would_fit(tree, due, job, from, &fewer) {
                gone = fewer;
            }
        }
        gone
    }

    /// Next job to stop of `open`, the last of each leaf first.
    fn last_below(
        &self,
        tree: &Hierarchy,
        due: &Due,
        open: &[usize],
        gone: &[usize],
        queue: Option<usize>,
    ) -> Option<usize> {
        if let Some(leaf) = queue.filter(|queue| *queue < tree.leaves()) {
            return open.iter().copied().find(|job| self.vc(*job) == leaf);
        }
        let mut best: Option<(usize, usize)> = None;
        for below in Self::all_queues(tree).filter(|at| tree.queues()[*at].parent.map(usize::from) == queue) {
            let Some(job) = self.last_below(tree, due, open, gone, Some(below)) else { continue };
            let counts = |queue: usize, job: usize| {
                (queue, self.holds(tree, queue, gone) - self.amount(job), self.holds(tree, queue, &[]))
            };
            let is_last = best.is_none_or(|(other, its)| {
                self.before(tree, due, counts(below, job), counts(other, its)) == Ordering::Greater
            });
            if is_last {
                best = Some((below, job));
            }
        }
        best.map(|(_, job)| job)
    }

    fn would_fit(&self, tree: &Hierarchy, due: &Due, job: usize, from: From, gone: &[usize]) -> bool {
        if self.fits_without(tree, job, gone).is_none() {
            return false;
        }
        let multiplier = i128::from(tree.rules().saturation_milli);
        let ways: Vec<Vec<usize>> = gone.iter().map(|other| Self::way(tree, self.vc(*other))).collect();
        from == From::Own
            || Self::way(tree, self.vc(job)).into_iter().all(|ours| {
                let with = self.holds(tree, ours, gone) + self.amount(job);
                let beside = |other: &usize| {
                    *other != ours
                        && tree.queues()[*other].parent == tree.queues()[ours].parent
                        && ways.iter().any(|way| way.contains(other))
                        && due.fair[*other] > 0
                };
                with <= due.fair[ours]
                    || Self::all_queues(tree).filter(beside).all(|other| {
                        let held = self.holds(tree, other, gone);
                        with * multiplier * due.fair[other] < held * due.fair[ours] * 1000
                    })
            })
    }
}
