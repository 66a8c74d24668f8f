//! Whom a job may stop, without fair sharing.
//!
//! *Candidates* for a job of queue q and a flavor are running jobs of that flavor that have done something useful since they started: of q itself, as its rule
//! [`Within`] has it; of other queues of q's tree that borrow, as [`Reclaim`] has it. The cohorts above q are gone through from the nearest one, and
//! the other queues in each that were not seen yet are looked at, in subtrees that borrow only. A candidate found under cohort k is one of *hierarchy* if the job is within the quota of q, or of a cohort below k;
//! else it is one of *priority*: then it may be stopped while q borrows only if `borrowWithinCohort` allows that and it has lower priority than the job, and at most the threshold.
//!
//! Candidates are taken out in turn until the job fits: those of hierarchy, of priority, of q, each the lowest priority first, then the last started, then the last submitted. One of another queue is passed over once its
//! queue, or a cohort between it and k, no longer borrows. Then, from the last but one to the first, each that can be put back so that the job still fits is put back. Up to two
//! attempts are made, with borrowing (q may end up above its quota) and without: only with it, if there are no candidates of other queues, or `borrowWithinCohort` is off and q's usage has reached its nominal quota;
//! without and then with it, if `borrowWithinCohort` is off and there are none of hierarchy; with and then without it otherwise.
//!
//! O(running × log running) to find them, a placement and O(depth) for each. Source: Kueue's concept page *Preemption*, section *Classic Preemption*.
//!
//! Worked example: see [`super`].

use std::cmp::Reverse;

use super::super::MOST_PREEMPTIONS;
use crate::cohort::{Cohorts, Reclaim, Usage, Within};
use crate::engine::Run;
use crate::nodes::Nodes;
use crate::place::Ask;
use crate::schedule::Segment;

/// A running job that might be stopped.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    pub(super) job: u32,
    pub(super) queue: u16,
    pub(super) priority: i32,
    start_ms: i64,
}

impl Candidate {
    /// Who is stopped first: the lowest priority, then the last started, then the last submitted.
    fn order(&self) -> (i32, Reverse<i64>, Reverse<u32>) {
        (self.priority, Reverse(self.start_ms), Reverse(self.job))
    }
}

/// Whom a job would stop.
#[derive(Debug, Default)]
pub(super) struct Search {
    pub(super) victims: Vec<u32>,
    /// Whether there is someone who may be stopped only later.
    pub(super) later: bool,
}

/// Trial of stopping jobs for one.
pub(super) struct Trial<'r, 'a> {
    run: &'r Run<'a>,
    pub(super) cohorts: &'a Cohorts,
    pub(super) usage: Usage,
    nodes: Nodes,
    pub(super) queue: u16,
    pub(super) flavor: u16,
    pub(super) amount: u64,
    ask: Ask,
}

impl Trial<'_, '_> {
    /// A running job is taken off its GPUs.
    pub(super) fn take_out(&mut self, job: u32) {
        let Some(segment) = self.run.schedule.last_segment(job as usize) else { return };
        for piece in self.run.schedule.pieces_of(segment) {
            self.nodes.give(piece);
        }
        self.cohorts.remove(
            &mut self.usage,
            self.run.workload.vc[job as usize],
            self.flavor,
            self.run.shape(job).amount(),
        );
    }

    /// Puts a job back; `false` if its GPUs are gone.
    fn put_back(&mut self, job: u32) -> bool {
        let Some(segment) = self.run.schedule.last_segment(job as usize) else { return false };
        let back = self.run.schedule.pieces_of(segment).iter().all(|piece| self.nodes.retake(piece).is_ok());
        self.cohorts.add(
            &mut self.usage,
            self.run.workload.vc[job as usize],
            self.flavor,
            self.run.shape(job).amount(),
        );
        back
    }

    /// Whether the job fits, `borrowing` or not.
    pub(super) fn fits(&self, borrowing: bool) -> bool {
        (borrowing || self.cohorts.borrowed(&self.usage, self.queue, self.flavor, self.amount) == 0)
            && self.cohorts.allows(&self.usage, self.queue, self.flavor, self.amount)
            && self.run.placer.fits(&self.nodes, self.ask)
    }

    /// Whether a member uses no more than its quota.
    fn is_within(&self, member: u16) -> bool {
        self.cohorts.borrowed(&self.usage, member, self.flavor, 0) == 0
    }

    /// Puts back whom the job does not need to have stopped, the last but one first.
    pub(super) fn put_back_needless(&mut self, mut out: Vec<u32>, borrowing: bool) -> Vec<u32> {
        for at in (0..out.len().saturating_sub(1)).rev() {
            let job = out[at];
            if self.put_back(job) && self.fits(borrowing) {
                out.remove(at);
            } else {
                self.take_out(job);
            }
        }
        out
    }
}

impl<'a> Run<'a> {
    /// Nothing stopped yet for a job with a flavor.
    pub(super) fn trial(&self, job: u32, flavor: u16) -> Option<Trial<'_, 'a>> {
        let admission = self.admission.as_ref()?;
        Some(Trial {
            run: self,
            cohorts: admission.cohorts,
            usage: admission.usage.clone(),
            nodes: self.nodes.clone(),
            queue: self.workload.vc[job as usize],
            flavor,
            amount: self.shape(job).amount(),
            ask: self.ask_of(job, flavor),
        })
    }

    /// Running jobs of a flavor that `job` may stop as the rules of its queue have it, in order, and those that it might once they have done something
    /// useful; whether they borrow is not asked. O(running × log running).
    pub(super) fn candidates(&self, job: u32, flavor: u16) -> (Vec<Candidate>, Vec<Candidate>) {
        let Some(admission) = &self.admission else { return (Vec::new(), Vec::new()) };
        let cohorts = admission.cohorts;
        let queue = self.workload.vc[job as usize];
        let rules = &cohorts.rules()[usize::from(queue)];
        if rules.within == Within::Never && rules.reclaim == Reclaim::Never {
            // Nobody needs to be looked at.
            return (Vec::new(), Vec::new());
        }
        let (root, priority) = (cohorts.root(queue), self.priority(job));
        let allowed = |segment: &Segment| {
            let other = segment.job;
            let (of, its) = (self.workload.vc[other as usize], self.priority(other));
            let may = if of == queue {
                let newer = || {
                    its == priority && self.workload.submit_ms[other as usize] > self.workload.submit_ms[job as usize]
                };
                match rules.within {
                    Within::Never => false,
                    Within::LowerPriority => its < priority,
                    Within::LowerOrNewerEqual => its < priority || newer(),
                }
            } else {
                match rules.reclaim {
                    Reclaim::Never => false,
                    Reclaim::LowerPriority => its < priority,
                    Reclaim::Any => true,
                }
            };
            let there = admission.flavor_of(other) == Some(flavor) && cohorts.root(of) == root;
            let spared = self.schedule.preemptions[other as usize] >= MOST_PREEMPTIONS;
            (may && there && !spared).then_some(Candidate {
                job: other,
                queue: of,
                priority: its,
                start_ms: segment.start_ms,
            })
        };
        let (mut result, mut early) = (Vec::new(), Vec::new());
        for segment in self.running.iter().map(|segment| &self.schedule.segments[*segment as usize]) {
            match allowed(segment) {
                Some(candidate) if self.has_progressed(segment) => result.push(candidate),
                Some(candidate) => early.push(candidate),
                None => {}
            }
        }
        result.sort_unstable_by_key(Candidate::order);
        (result, early)
    }

    /// Whom to stop for a job, without fair sharing.
    pub(super) fn victims(&self, job: u32, flavor: u16) -> Search {
        let (candidates, early) = self.candidates(job, flavor);
        if candidates.is_empty() && early.is_empty() {
            // A trial copies all nodes.
            return Search::default();
        }
        let Some(trial) = self.trial(job, flavor) else { return Search::default() };
        let later = !Ranked::of(&trial, early).candidates.is_empty();
        let nobody = Search { victims: Vec::new(), later };
        let rules = &trial.cohorts.rules()[usize::from(trial.queue)];
        let ranked = Ranked::of(&trial, candidates);
        let no_others = ranked.hierarchy == 0 && ranked.priority == 0;
        let never_borrowing = rules.borrow_within.is_none();
        let used = trial.cohorts.used(&trial.usage, trial.queue, flavor);
        let is_full = used >= trial.cohorts.nominal(trial.queue, flavor);
        let attempts: &[bool] = if no_others || (never_borrowing && is_full) {
            &[true]
        } else if never_borrowing && ranked.hierarchy == 0 {
            &[false, true]
        } else {
            &[true, false]
        };
        let threshold = rules.borrow_within;
        let own_priority = self.priority(job);
        for borrowing in attempts.iter().copied() {
            let Some(mut trial) = self.trial(job, flavor) else { return nobody };
            let mut out = Vec::new();
            let mut fits = false;
            for (candidate, under, is_of_hierarchy) in &ranked.candidates {
                if candidate.queue != trial.queue {
                    let low = threshold.is_some_and(|most| {
                        candidate.priority < own_priority && most.is_none_or(|most| candidate.priority <= most)
                    });
                    let between = trial.cohorts.above(candidate.queue).take_while(|cohort| Some(*cohort) != *under);
                    let borrows =
                        !trial.is_within(candidate.queue) && between.into_iter().all(|cohort| !trial.is_within(cohort));
                    if (borrowing && !is_of_hierarchy && !low) || !borrows {
                        continue;
                    }
                }
                trial.take_out(candidate.job);
                out.push(candidate.job);
                if trial.fits(borrowing) {
                    fits = true;
                    break;
                }
            }
            if fits {
                return Search { victims: trial.put_back_needless(out, borrowing), later };
            }
        }
        nobody
    }
}

/// Candidates in the order in which they are taken out, with the cohort under which each was found and whether it is one of hierarchy.
struct Ranked {
    candidates: Vec<(Candidate, Option<u16>, bool)>,
    hierarchy: usize,
    priority: usize,
}

impl Ranked {
    /// Sorts out who is a candidate of hierarchy, of priority, or of the queue itself.
    fn of(trial: &Trial<'_, '_>, candidates: Vec<Candidate>) -> Self {
        let Trial { cohorts, usage, queue, flavor, amount, .. } = trial;
        // For every other queue: the cohort under which it is found, and whether the job has the advantage there.
        let mut result: Vec<Option<(u16, bool)>> = vec![None; cohorts.rules().len()];
        let mut advantage = cohorts.borrowed(usage, *queue, *flavor, *amount) == 0;
        let mut rest = amount.saturating_sub(cohorts.own_rest(usage, *queue, *flavor));
        let mut seen = *queue;
        for cohort in cohorts.above(*queue) {
            let mut open: Vec<u16> = vec![cohort];
            while let Some(member) = open.pop() {
                for child in cohorts.children(member) {
                    if child == seen || trial.is_within(child) {
                        continue;
                    }
                    match result.get_mut(usize::from(child)) {
                        Some(of) => *of = Some((cohort, advantage)),
                        None => open.push(child),
                    }
                }
            }
            let fits = cohorts.borrowed(usage, cohort, *flavor, rest) == 0;
            rest = rest.saturating_sub(cohorts.own_rest(usage, cohort, *flavor));
            advantage |= fits;
            seen = cohort;
        }
        let (mut hierarchy, mut priority, mut own) = (Vec::new(), Vec::new(), Vec::new());
        for candidate in candidates {
            if candidate.queue == *queue {
                own.push((candidate, None, false));
            } else if let Some((cohort, is_of_hierarchy)) = result[usize::from(candidate.queue)] {
                let list = if is_of_hierarchy { &mut hierarchy } else { &mut priority };
                list.push((candidate, Some(cohort), is_of_hierarchy));
            }
        }
        let counts = (hierarchy.len(), priority.len());
        let candidates = hierarchy.into_iter().chain(priority).chain(own).collect();
        Self { candidates, hierarchy: counts.0, priority: counts.1 }
    }
}
