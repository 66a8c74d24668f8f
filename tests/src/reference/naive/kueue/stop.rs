//! Whom a job may stop, without fair sharing.
//!
//! Worked number: of a queue of 4 GPUs whose cohort lent it 4 more, a job of the lender of 4 GPUs stops the last 4 jobs of 1 GPU.

use std::cmp::Reverse;

use tracecast_planner::sim::cohort::{Cohorts, Reclaim, Within};

use super::super::{Phase, Pool};
use super::tree::{Held, Tree};

/// Why a job may be stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reason {
    Hierarchy,
    Priority,
    Own,
}

impl Pool<'_> {
    /// Whether the rules of the job's queue let it stop another of that queue, or of a queue that borrows.
    fn rules_let(&self, cohorts: &Cohorts, job: usize, other: usize) -> bool {
        let rules = &cohorts.rules()[self.vc(job)];
        let (priority, its) = (self.priority(job), self.priority(other));
        if self.vc(job) == self.vc(other) {
            let newer = self.workload.submit_ms[other] > self.workload.submit_ms[job];
            return match rules.within {
                Within::Never => false,
                Within::LowerPriority => its < priority,
                Within::LowerOrNewerEqual => its < priority || its == priority && newer,
            };
        }
        match rules.reclaim {
            Reclaim::Never => false,
            Reclaim::LowerPriority => its < priority,
            Reclaim::Any => true,
        }
    }

    /// The lowest cohort of both queues.
    pub(super) fn meet(tree: Tree<'_>, queue: usize, other: usize) -> Option<usize> {
        let above = tree.path(other);
        tree.path(queue).into_iter().find(|node| above.contains(node))
    }

    /// Whether a queue, and what lies between it and a cohort above it, borrows.
    fn borrows_below(tree: Tree<'_>, held: &Held, queue: usize, cohort: usize, flavor: usize) -> bool {
        tree.path(queue).into_iter().take_while(|node| *node != cohort).all(|node| tree.borrows(held, node, flavor))
    }

    /// Running jobs that may be stopped, the first to be stopped first; only those that have done something, or all.
    pub(super) fn candidates(&self, cohorts: &Cohorts, job: usize, flavor: usize, progressed: bool) -> Vec<usize> {
        let tree = Tree(cohorts);
        let (queue, fair) = (self.vc(job), cohorts.fair().is_some());
        let held = self.held_without(&[]);
        let mut result = self.in_phase(Phase::Running);
        result.retain(|other| {
            let theirs = self.vc(*other);
            let lies_right = theirs == queue
                || Self::meet(tree, queue, theirs).is_some_and(|cohort| {
                    // Fair sharing looks at cohorts itself.
                    let borrows = || Self::borrows_below(tree, &held, theirs, cohort, flavor);
                    if fair { tree.borrows(&held, theirs, flavor) } else { borrows() }
                });
            lies_right && self.may_be_stopped(*other, flavor, progressed) && self.rules_let(cohorts, job, *other)
        });
        result.sort_by_key(|other| self.stop_order(*other));
        result
    }

    /// The lowest priority first, then the last started, then the last submitted.
    fn stop_order(&self, job: usize) -> (i64, Reverse<i64>, Reverse<(i64, usize)>) {
        (self.priority(job), Reverse(self.jobs[job].since), Reverse((self.workload.submit_ms[job], job)))
    }

    /// Jobs to stop for a job.
    pub(super) fn stops(&self, cohorts: &Cohorts, job: usize, flavor: usize) -> Vec<usize> {
        let tree = Tree(cohorts);
        let (queue, amount) = (self.vc(job), self.amount(job));
        let rules = &cohorts.rules()[queue];
        let held = self.held_without(&[]);
        let after: Held = [held.clone(), vec![(queue, flavor, amount)]].concat();
        let reason = |other: usize| {
            if self.vc(other) == queue {
                return Reason::Own;
            }
            let cohort = Self::meet(tree, queue, self.vc(other)).expect("they are in one tree");
            let mut below = tree.path(queue).into_iter().take_while(|node| *node != cohort);
            if below.any(|node| !tree.borrows(&after, node, flavor)) { Reason::Hierarchy } else { Reason::Priority }
        };
        let mut candidates: Vec<(Reason, usize)> =
            self.candidates(cohorts, job, flavor, true).into_iter().map(|other| (reason(other), other)).collect();
        // A stable sort: within a reason the order stays.
        candidates.sort_by_key(|(reason, _)| *reason);
        let has = |wanted: Reason| candidates.iter().any(|(reason, _)| *reason == wanted);
        let off = rules.borrow_within.is_none();
        let nominal = i128::from(tree.quota(queue, flavor).nominal);
        let others = has(Reason::Hierarchy) || has(Reason::Priority);
        let attempts: &[bool] = if !others || off && tree.usage(&held, queue, flavor) >= nominal {
            &[true]
        } else if off && !has(Reason::Hierarchy) {
            &[false, true]
        } else {
            &[true, false]
        };
        attempts
            .iter()
            .map(|borrowing| self.attempt(cohorts, job, flavor, &candidates, *borrowing))
            .find(|gone| !gone.is_empty())
            .unwrap_or_default()
    }

    fn attempt(
        &self,
        cohorts: &Cohorts,
        job: usize,
        flavor: usize,
        candidates: &[(Reason, usize)],
        borrowing: bool,
    ) -> Vec<usize> {
        let tree = Tree(cohorts);
        let queue = self.vc(job);
        let fits = |gone: &[usize]| {
            let held = self.held_without(gone);
            let after: Held = [held.clone(), vec![(queue, flavor, self.amount(job))]].concat();
            let allowed = borrowing || !tree.borrows(&after, queue, flavor);
            allowed && self.fits_with(cohorts, job, flavor, gone, &held).is_some()
        };
        let mut gone: Vec<usize> = Vec::new();
        for (reason, other) in candidates {
            if *reason == Reason::Priority && borrowing {
                let lower = self.priority(*other) < self.priority(job);
                let allowed = cohorts.rules()[queue].borrow_within.is_some_and(|threshold| {
                    lower && threshold.is_none_or(|most| self.priority(*other) <= i64::from(most))
                });
                if !allowed {
                    continue;
                }
            }
            let theirs = self.vc(*other);
            if theirs != queue {
                let cohort = Self::meet(tree, queue, theirs).expect("they are in one tree");
                if !Self::borrows_below(tree, &self.held_without(&gone), theirs, cohort, flavor) {
                    continue;
                }
            }
            gone.push(*other);
            if fits(&gone) {
                return self.put_back(&gone, fits);
            }
        }
        Vec::new()
    }

    /// Puts back the jobs that need not be stopped, from the last but one to the first.
    pub(super) fn put_back(&self, gone: &[usize], fits: impl Fn(&[usize]) -> bool) -> Vec<usize> {
        let mut kept = gone.to_vec();
        for other in gone.iter().rev().skip(1) {
            let fewer: Vec<usize> = kept.iter().copied().filter(|gone| gone != other).collect();
            if fits(&fewer) {
                kept = fewer;
            }
        }
        kept
    }
}
