//! Volcano's sessions in the plainest way, from the rules that `tracecast_planner::sim::scan::volcano` and `tracecast_planner::sim::volcano` state: what queues hold, request and deserve is
//! summed anew from the jobs at every question.
//!
//! Worked number: see those pages.

use std::cmp::Ordering;

use tracecast_planner::sim::volcano::{Eviction, JobOrder, Plugin, ReclaimFrom, VolcanoQueues};
use tracecast_planner::sim::{Key, Piece, Preemption, Scan, Stop};

use super::{Phase, Place, Pool};

/// Number of stops after which a job is left alone.
const MOST_STOPS: u32 = 100;

/// Amounts due at a decision: millionths that queues deserve, thousandths that they may hold.
struct Due {
    deserved: Vec<i128>,
    bounds: Vec<i128>,
}

/// Sort key: a fraction, whether it deserves nothing, when it was created.
type Standing = (i128, i128, bool, u32, usize);

impl Pool<'_> {
    /// The queues, if they are Volcano's.
    pub(super) fn volcano_queues(&self) -> Option<&VolcanoQueues> {
        self.cluster.volcano.as_ref().filter(|_| self.policy.scan == Scan::Volcano)
    }

    fn on_way(tree: &VolcanoQueues, leaf: usize) -> Vec<usize> {
        let mut way = vec![leaf];
        while let Some(parent) = tree.queues()[way[way.len() - 1]].parent {
            way.push(usize::from(parent));
        }
        way
    }

    /// GPUs held by the running jobs of a queue's leaves, but for `gone`.
    fn has_now(&self, tree: &VolcanoQueues, queue: usize, gone: &[usize]) -> i128 {
        let running = self.in_phase(Phase::Running).into_iter().filter(|job| !gone.contains(job));
        running.filter(|job| Self::on_way(tree, self.vc(*job)).contains(&queue)).map(|job| self.amount(job)).sum()
    }

    /// Whether no capability forbids a job, once `gone` are gone.
    fn is_capable(&self, tree: &VolcanoQueues, job: usize, gone: &[usize]) -> bool {
        Self::on_way(tree, self.vc(job)).into_iter().all(|queue| {
            let most = tree.queues()[queue].capability.map(i128::from);
            most.is_none_or(|most| self.has_now(tree, queue, gone) + self.amount(job) <= most)
        })
    }

    /// Whether an empty cluster would let its queue have a job.
    pub(super) fn could_be_capable(&self, tree: &VolcanoQueues, job: usize) -> bool {
        self.is_capable(tree, job, &self.in_phase(Phase::Running))
    }

    /// The GPUs of a job that runs as the replay begins.
    pub(super) fn capable(&self, tree: &VolcanoQueues, job: usize) -> Option<Vec<Piece>> {
        if self.is_capable(tree, job, &[]) { self.placed_without(job, &[]) } else { None }
    }

    fn placed_without(&self, job: usize, gone: &[usize]) -> Option<Vec<Piece>> {
        let mut view = self.empty(false);
        for other in self.in_phase(Phase::Running).into_iter().filter(|other| !gone.contains(other)) {
            self.take(&mut view, &self.jobs[other].pieces);
        }
        self.place(&view, job, self.is_relaxed(job))
    }

    fn bound(tree: &VolcanoQueues, queue: usize, total: i128) -> i128 {
        let of = &tree.queues()[queue];
        let above = of.parent.map_or(total, |parent| Self::bound(tree, usize::from(parent), total));
        let beside = tree.queues().iter().filter(|other| other.parent == of.parent);
        let guaranteed: i128 = beside.map(|other| i128::from(other.guarantee)).sum();
        let left = (above - guaranteed).max(0) + i128::from(of.guarantee);
        of.capability.map_or(left, |most| left.min(i128::from(most)))
    }

    fn due_now(&self, tree: &VolcanoQueues) -> Due {
        let there = |(node, _): &(&super::Node, &usize)| node.place != Place::Away && node.failures == 0;
        let gpus: usize = self.nodes.iter().zip(&self.sizes).filter(there).map(|(_, size)| *size).sum();
        let total = gpus as i128 * 1000;
        let bounds: Vec<i128> = (0..tree.queues().len()).map(|queue| Self::bound(tree, queue, total)).collect();
        let of = |queue: usize| &tree.queues()[queue];
        if tree.rules().plugin == Plugin::Capacity {
            let deserved = (0..bounds.len()).map(|queue| {
                let said = i128::from(of(queue).deserved.unwrap_or(0));
                said.min(bounds[queue]).max(i128::from(of(queue).guarantee)) * 1000
            });
            return Due { deserved: deserved.collect(), bounds };
        }
        let jobs = [self.in_phase(Phase::Waiting), self.in_phase(Phase::Running)].concat();
        let request: Vec<i128> = (0..bounds.len())
            .map(|queue| jobs.iter().filter(|job| self.vc(**job) == queue).map(|job| self.amount(*job) * 1000).sum())
            .collect();
        let mut deserved = vec![0i128; bounds.len()];
        let mut met: Vec<bool> = request.iter().map(|request| *request == 0).collect();
        let mut left = total * 1000;
        loop {
            let weights: i128 = (0..met.len()).filter(|at| !met[*at]).map(|at| i128::from(of(at).weight)).sum();
            if weights == 0 {
                break;
            }
            let old = deserved.clone();
            for at in (0..met.len()).filter(|at| !met[*at]).collect::<Vec<_>>() {
                let part = left * i128::from(of(at).weight) / weights;
                let most = (bounds[at] * 1000).min(request[at]);
                deserved[at] = (old[at] + part).min(most).max(i128::from(of(at).guarantee) * 1000);
                met[at] = request[at] <= deserved[at] || deserved[at] == old[at];
            }
            let added: i128 = deserved.iter().sum::<i128>() - old.iter().sum::<i128>();
            let before = left;
            left = (left - added).max(0);
            if left < 100 || left == before {
                break;
            }
        }
        Due { deserved, bounds }
    }

    /// Whether an amount, thousandths, is more than what a queue deserves, by a ten-thousandth of a GPU at least.
    fn is_more(due: &Due, queue: usize, amount: i128) -> bool {
        amount * 1000 - due.deserved[queue] >= 100
    }

    fn may_now_have(&self, tree: &VolcanoQueues, due: &Due, job: usize, gone: &[usize]) -> bool {
        let leaf = self.vc(job);
        match tree.rules().plugin {
            Plugin::Proportion => !Self::is_more(due, leaf, self.has_now(tree, leaf, gone) + self.amount(job)),
            Plugin::Capacity => Self::on_way(tree, leaf)
                .into_iter()
                .all(|queue| self.has_now(tree, queue, gone) + self.amount(job) <= due.bounds[queue]),
        }
    }

    fn fits_without_these(&self, tree: &VolcanoQueues, due: &Due, job: usize, gone: &[usize]) -> Option<Vec<Piece>> {
        if self.may_now_have(tree, due, job, gone) { self.placed_without(job, gone) } else { None }
    }

    fn standing(&self, tree: &VolcanoQueues, due: &Due, queue: usize, gone: &[usize]) -> Standing {
        let (held, deserved) = (self.has_now(tree, queue, gone), due.deserved[queue]);
        let is_capacity = tree.rules().plugin == Plugin::Capacity;
        let (over, under) = match deserved {
            0 if is_capacity || held > 0 => (1, 1),
            0 => (0, 1),
            deserved => (held * 1000, deserved),
        };
        (over, under, is_capacity && deserved == 0, tree.queues()[queue].created, queue)
    }

    fn ordered(a: Standing, b: Standing) -> Ordering {
        (a.0 * b.1).cmp(&(b.0 * a.1)).then((a.2, a.3, a.4).cmp(&(b.2, b.3, b.4)))
    }

    /// The first of some leaves, or the last.
    fn at_end(&self, tree: &VolcanoQueues, due: &Due, leaves: &[usize], gone: &[usize], first: bool) -> Option<usize> {
        let priority = |leaf: &usize| tree.queues()[*leaf].priority;
        let all = leaves.iter().map(priority);
        let wanted = if first { all.max() } else { all.min() }?;
        let leaves: Vec<usize> = leaves.iter().copied().filter(|leaf| priority(leaf) == wanted).collect();
        let mut above: Option<usize> = None;
        loop {
            let below: Vec<usize> = (0..tree.queues().len())
                .filter(|at| tree.queues()[*at].parent.map(usize::from) == above)
                .filter(|at| leaves.iter().any(|leaf| Self::on_way(tree, *leaf).contains(at)))
                .collect();
            let mut best = below[0];
            for other in &below[1..] {
                let order = Self::ordered(self.standing(tree, due, *other, gone), self.standing(tree, due, best, gone));
                if order == if first { Ordering::Less } else { Ordering::Greater } {
                    best = *other;
                }
            }
            if best < tree.leaves() {
                return Some(best);
            }
            above = Some(best);
        }
    }

    fn leaves_of(&self, jobs: &[usize]) -> Vec<usize> {
        let mut leaves: Vec<usize> = jobs.iter().map(|job| self.vc(*job)).collect();
        leaves.sort_unstable();
        leaves.dedup();
        leaves
    }

    /// Makes one decision; returns whether another is due in a second.
    pub(super) fn volcano(&mut self) -> bool {
        let tree = self.volcano_queues().expect("this scan needs queues").clone();
        let due = self.due_now(&tree);
        let by_priority = tree.rules().order.contains(&JobOrder::Priority);
        let place = |pool: &Self, job: usize| -> (i64, Key, usize) {
            (if by_priority { -pool.priority(job) } else { 0 }, pool.key(job), job)
        };
        let mut left = self.in_phase(Phase::Waiting);
        left.sort_by_key(|job| place(self, *job));
        let mut kept = Vec::new();
        while let Some(leaf) = self.at_end(&tree, &due, &self.leaves_of(&left), &[], true) {
            let at = left.iter().position(|job| self.vc(*job) == leaf).unwrap();
            let job = left.remove(at);
            match self.fits_without_these(&tree, &due, job, &[]) {
                Some(pieces) => self.start(job, pieces),
                None => kept.push(job),
            }
        }
        kept.sort_by_key(|job| place(self, *job));
        let (mut stopped, mut early) = (false, None::<i64>);
        if self.policy.preemption != Preemption::Never {
            for eviction in &tree.rules().evictions {
                let mut open = self.leaves_of(&kept);
                let mut vain: Vec<(usize, u16, bool)> = Vec::new();
                while let Some(leaf) = self.at_end(&tree, &due, &open, &[], true) {
                    open.retain(|other| *other != leaf);
                    let has_all = due.deserved[leaf] - self.has_now(&tree, leaf, &[]) * 1000 < 100;
                    if *eviction != Eviction::Preempt && tree.rules().plugin == Plugin::Proportion && has_all {
                        continue;
                    }
                    let jobs: Vec<usize> = kept.iter().copied().filter(|job| self.vc(*job) == leaf).collect();
                    for job in jobs {
                        let like = (leaf, self.workload.shape[job], self.is_relaxed(job));
                        if vain.contains(&like) {
                            continue;
                        }
                        let Some(gone) = self.gone_for(&tree, &due, *eviction, job, &mut early) else {
                            vain.push(like);
                            continue;
                        };
                        let pieces = self.fits_without_these(&tree, &due, job, &gone).expect("it was found to fit");
                        stopped |= !gone.is_empty();
                        gone.into_iter().for_each(|other| self.stop(other, Stop::Preempted));
                        self.start(job, pieces);
                        kept.retain(|other| *other != job);
                    }
                }
            }
        }
        let waits = !self.in_phase(Phase::Waiting).is_empty();
        if let Some(at) = early.filter(|_| !stopped && waits && self.policy.interval_ms.is_none()) {
            self.note(at);
        }
        stopped
    }

    /// Whom to stop for a job, if it fits then; `early` is when someone could be who cannot be yet.
    fn gone_for(
        &self,
        tree: &VolcanoQueues,
        due: &Due,
        eviction: Eviction,
        job: usize,
        early: &mut Option<i64>,
    ) -> Option<Vec<usize>> {
        let leaf = self.vc(job);
        let of = |queue: usize| &tree.queues()[queue];
        let with = self.has_now(tree, leaf, &[]) + self.amount(job);
        if eviction != Eviction::Preempt && Self::is_more(due, leaf, with) {
            return None;
        }
        let over = |queue: usize, gone: &[usize]| Self::is_more(due, queue, self.has_now(tree, queue, gone));
        let may_lose = |other: usize, gone: &[usize]| match eviction {
            Eviction::Preempt => self.vc(other) == leaf && self.priority(other) < self.priority(job),
            Eviction::Reclaim(ReclaimFrom::Any) => self.vc(other) != leaf && of(self.vc(other)).reclaimable,
            Eviction::Reclaim(ReclaimFrom::Over) => {
                self.vc(other) != leaf && of(self.vc(other)).reclaimable && over(self.vc(other), gone)
            }
        };
        let ripe = |other: usize| self.jobs[other].since + self.jobs[other].owed + 1;
        let mut open = self.in_phase(Phase::Running);
        open.retain(|other| may_lose(*other, &[]) && self.jobs[*other].fate.preemptions < MOST_STOPS);
        let soon: Option<i64> =
            open.iter().map(|other| ripe(*other)).filter(|at| *at > self.now).map(|at| at.max(self.now + 1000)).min();
        open.retain(|other| ripe(*other) <= self.now);
        // The last first.
        open.sort_by_key(|other| {
            let by = |order: &JobOrder| match order {
                JobOrder::Priority => -i128::from(self.priority(*other)),
                JobOrder::Drf => self.amount(*other),
            };
            (tree.rules().order.iter().map(by).collect::<Vec<_>>(), self.key(*other), *other)
        });
        open.reverse();
        let mut gone: Vec<usize> = Vec::new();
        let fits = |gone: &[usize]| self.fits_without_these(tree, due, job, gone).is_some();
        let nearness = |other: usize| {
            let ours = Self::on_way(tree, leaf);
            Self::on_way(tree, self.vc(other)).into_iter().filter(|queue| ours.contains(queue)).count()
        };
        while !fits(&gone) {
            open.retain(|other| may_lose(*other, &gone));
            let Some(nearest) = open.iter().map(|other| nearness(*other)).max() else {
                *early = early.iter().copied().chain(soon).min();
                return None;
            };
            let near: Vec<usize> = open.iter().copied().filter(|other| nearness(*other) == nearest).collect();
            let from = self.at_end(tree, due, &self.leaves_of(&near), &gone, false)?;
            let other = near.into_iter().find(|other| self.vc(*other) == from)?;
            open.retain(|job| *job != other);
            let left = self.has_now(tree, from, &gone) - self.amount(other);
            let is_guarded =
                eviction == Eviction::Reclaim(ReclaimFrom::Over) && tree.rules().plugin == Plugin::Capacity;
            if !is_guarded || i128::from(of(from).guarantee) <= left {
                gone.push(other);
            }
        }
        for at in (0..gone.len().saturating_sub(1)).rev() {
            let fewer: Vec<usize> = gone.iter().copied().filter(|job| *job != gone[at]).collect();
            if fits(&fewer) {
                gone = fewer;
            }
        }
        Some(gone)
    }
}
