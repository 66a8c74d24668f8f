//! Admission in cycles, as Kueue does it: one head of every queue a cycle, quotas in cohorts, flavors in order, jobs stopped for others.
//!
//! # Contract
//!
//! Under [`Scan::Kueue`](crate::Scan) all VCs are queues of the cluster's [`Cohorts`](crate::cohort::Cohorts), on one pool. A queue's jobs stand in order of
//! (priority, highest first; key of the policy's order; submission). In a queue with a half-life of usage the decayed GPU time of the job's user in that queue comes before these, least first
//! ([`crate::order`]): Kueue's usage-based admission fair sharing. Between heads of several queues it does not count.
//!
//! **Cycle.** The *head* of each queue is the first of its jobs that was not set aside. Every head is *nominated* (below). Nominated heads are processed in order:
//! without fair sharing by (level, priority with the highest first, key, submission), the level being the height of the lowest subtree of the cohort within whose quota the job stays once the jobs found to stop have stopped
//! (0 for the queue itself, 1 more than its highest child for a cohort);
//! with fair sharing as in [`fair`]. What was nominated is carried out if it still can be, after what was done before in the cycle:
//!
//! * *fit*: the job starts. If it fits no longer, it stays the head of its queue.
//! * *preempt*: the jobs found are stopped and it starts at once, unless one of them has been stopped in this cycle already, or it would not fit: then it stays the head.
//! * *no candidates*: it would be admitted within its rights if others stopped, but there are none to stop. Unless its queue may reclaim from any job, what it could use of its quota
//!   (its GPUs, at most nominal − usage if it would not borrow, nominal + borrowing limit − usage if it would) is kept for it until the cycle ends.
//! * *no fit*: it is not admitted.
//!
//! After the last two a queue with [`Queueing::BestEffort`] sets the job *aside*: it is not looked at again until an event other than a submission has happened, or a job was preempted (if that was in this decision, once it is over). With
//! [`Queueing::Strict`] it stays the head, and nobody of its queue passes it. A job that could not be admitted although jobs that have done nothing useful since their start
//! (see *Preemption* in [the contract](crate)) might be stopped for it is not set aside beyond the decision; for it, and for the head of a strict queue in the same case, another decision is due in one second.
//!
//! Without a decision interval a decision goes on with the next cycle until one neither starts nor sets aside any job. With an interval a decision is one cycle, so that an interval is the
//! time that a cycle takes, and a queue admits at most one job in each; after one that starts or sets aside a job the next is due at the next multiple. A job that was stopped joins its queue after the decision.
//!
//! **Nomination.** Flavors are tried in the queue's order. For each: no fit if the job wants another GPU type, or more than the queue's potential; fit if its GPUs are available to the queue and
//! the placement rule finds nodes of the flavor's type; else, if the quota lacks and the job is within its rights (its GPUs alone are at most the nominal quota, or a subtree smaller than the whole tree has quota for it,
//! or the queue may stop others while it borrows: `borrowWithinCohort`, or fair sharing where it may reclaim at all), or if only nodes lack: *reclaim* if jobs of other queues alone would stop and it would not borrow then,
//! *preempt* if any jobs would stop ([`preempt`], [`fair`]), no candidates if the quota lacks, no fit else. The best is taken, in the order fit, reclaim, preempt, no candidates, no fit, then by the lower level, then
//! by the flavors' order. The search ends at a flavor that fits without borrowing; that fits with it, unless `whenCanBorrow` is `TryNextFlavor`; or that can be had by stopping others, if
//! `whenCanPreempt` is not, and neither is `whenCanBorrow` or it would not borrow once they have stopped.
//!
//! Where jobs ask for blocks or racks, *finds nodes* means: as they ask (the module `place::domain`), after others have stopped as well.
//!
//! What differs from Kueue: nodes are part of admission, as under its topology-aware scheduling, where Kueue without it would admit the job and leave its pods pending; a job that asks for a block or rack is admitted with any flavor, whether that names a `Topology` or not; who is stopped is gone at once, and who stopped it
//! starts in the same moment; flavors are tried from the first in each cycle; usage is that of users, where Kueue has LocalQueues with weights, of GPUs alone, and to the moment, where Kueue
//! samples it and charges an entry penalty meanwhile; who is stopped does not go by it; a job that was stopped a hundred times is left alone, so that a replay ends.
//!
//! O(queues × flavors) nominations a cycle, and O(running + nodes) for one that looks for jobs to stop. Worked example: queues a and b of 4 GPUs each in one cohort of 8 GPUs; b runs 8 jobs of 1 GPU,
//! four of them borrowed. A job of 4 GPUs comes to a, which may reclaim from any: the four jobs of b that started last are stopped, and it starts.

mod fair;
mod preempt;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

use std::cmp::Reverse;
use std::collections::VecDeque;

use crate::cohort::{QueueRules, Queueing, Reclaim};
use crate::engine::{Action, Admission, Queue, Run};
use crate::error::{Error, Result};
use crate::key::Key;
use crate::place::Ask;
use crate::policy::Preemption;
use crate::workload::Shape;

/// Outcomes for a job, the best last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Grade {
    NoFit,
    NoCandidates,
    Preempt,
    Reclaim,
    Fit,
}

/// The head of a queue as a cycle sees it.
#[derive(Debug, Clone)]
struct Nominated {
    job: u32,
    queue: u16,
    flavor: u16,
    amount: u64,
    grade: Grade,
    level: u32,
    /// Jobs to stop for it.
    victims: Vec<u32>,
    /// Whether jobs that have just started might be stopped for it later.
    later: bool,
}

/// A decision under way.
struct Cycles {
    /// Jobs of each queue, the head first.
    lines: Vec<VecDeque<u32>>,
    /// Jobs that are not looked at again in this decision.
    done: Vec<u32>,
    /// Whether another decision is due soon.
    again: bool,
}

impl Run<'_> {
    /// Kueue's cycles.
    pub(super) fn walk_kueue(&mut self) -> Result<()> {
        let Some(mut cycles) = self.lines() else { return Ok(()) };
        loop {
            let nominated =
                cycles.lines.iter().filter_map(|line| line.front()).map(|job| self.nominate(*job)).collect();
            let moved = self.cycle(nominated, &mut cycles)?;
            if let Some(interval) = self.policy.interval_ms {
                if moved {
                    self.due(self.now.saturating_add(interval));
                }
                break;
            }
            if !moved {
                break;
            }
        }
        for job in cycles.lines.into_iter().flatten().chain(cycles.done) {
            self.queue.insert(job);
        }
        if cycles.again {
            self.due_next();
        }
        Ok(())
    }

    /// The jobs of each queue in order, those that were set aside left out, and none left in the queue of the pool.
    fn lines(&mut self) -> Option<Cycles> {
        let Queue::Loose(waiting) = &mut self.queue else { return None };
        let waiting = std::mem::take(waiting);
        let admission = self.admission.as_mut()?;
        admission.refresh(&waiting);
        let (done, open): (Vec<u32>, Vec<u32>) = waiting.into_iter().partition(|job| admission.is_aside(*job));
        let mut open: Vec<_> = open.into_iter().map(|job| (self.usage_key(job), self.rank(job), job)).collect();
        open.sort_unstable();
        let mut lines = vec![VecDeque::new(); self.cluster.vcs.len()];
        for (_, _, job) in open {
            lines[usize::from(self.workload.vc[job as usize])].push_back(job);
        }
        Some(Cycles { lines, done, again: false })
    }

    /// Returns the sort key of a job in its queue, or of a head on its level; of equals the first
    /// submitted comes first.
    fn rank(&self, job: u32) -> (Reverse<i32>, Key) {
        (Reverse(self.priority(job)), self.key(job))
    }

    /// One cycle; whether a job started or was set aside.
    fn cycle(&mut self, mut nominated: Vec<Nominated>, cycles: &mut Cycles) -> Result<bool> {
        let fair = self.admission.as_ref().is_some_and(|admission| admission.cohorts.fair().is_some());
        if !fair {
            nominated.sort_by_key(|head| (head.level, self.rank(head.job), head.job));
        }
        let (mut moved, mut kept) = (false, Vec::new());
        let mut stopped: Vec<u32> = Vec::new();
        while !nominated.is_empty() {
            let next = if fair { self.fairest(&nominated) } else { 0 };
            let head = nominated.remove(next);
            match head.grade {
                Grade::Fit | Grade::Preempt | Grade::Reclaim => {
                    if head.victims.iter().any(|victim| stopped.contains(victim)) || !self.still_fits(&head) {
                        continue;
                    }
                    for victim in &head.victims {
                        self.apply(Action::Preempt { job: *victim })?;
                    }
                    cycles.again |= !head.victims.is_empty();
                    stopped.extend_from_slice(&head.victims);
                    if self.start_head(&head)? {
                        cycles.lines[usize::from(head.queue)].pop_front();
                        moved = true;
                    } else if !head.victims.is_empty() {
                        return Err(Error::Action(format!("others stop for job {}, which does not start", head.job)));
                    }
                }
                Grade::NoFit | Grade::NoCandidates => {
                    let Some(admission) = &mut self.admission else { continue };
                    let rules = &admission.cohorts.rules()[usize::from(head.queue)];
                    if head.grade == Grade::NoCandidates && rules.reclaim != Reclaim::Any {
                        let amount = kept_for(admission, &head);
                        admission.cohorts.add(&mut admission.usage, head.queue, head.flavor, amount);
                        kept.push((head.queue, head.flavor, amount));
                    }
                    cycles.again |= head.later;
                    if rules.strategy == Queueing::BestEffort {
                        if !head.later {
                            admission.set_aside(head.job);
                        }
                        cycles.lines[usize::from(head.queue)].pop_front();
                        cycles.done.push(head.job);
                        moved = true;
                    }
                }
            }
        }
        if let Some(admission) = &mut self.admission {
            for (queue, flavor, amount) in kept {
                admission.cohorts.remove(&mut admission.usage, queue, flavor, amount);
            }
        }
        Ok(moved)
    }

    /// Starts a head if there are nodes for it.
    fn start_head(&mut self, head: &Nominated) -> Result<bool> {
        let mut pieces = std::mem::take(&mut self.scratch);
        let placed = self.placer.place(&self.nodes, self.ask_of(head.job, head.flavor), &mut pieces);
        if let Some(admission) = self.admission.as_mut().filter(|_| placed) {
            admission.choose(head.job, head.flavor);
            self.apply(Action::Start { job: head.job, pieces: &pieces })?;
        }
        self.scratch = pieces;
        Ok(placed)
    }

    /// A job as the placement rule sees it if it is to have nodes of a flavor.
    pub(crate) fn ask_of(&self, job: u32, flavor: u16) -> Ask {
        let ask = self.ask(job);
        let flavors = self.admission.as_ref().map(|admission| admission.cohorts.flavors());
        let gpu_type = flavors.and_then(|flavors| flavors.get(usize::from(flavor))?.gpu_type);
        Ask { shape: Shape { gpu_type: gpu_type.or(ask.shape.gpu_type), ..ask.shape }, ..ask }
    }

    /// The best that can be done for a job.
    fn nominate(&self, job: u32) -> Nominated {
        let queue = self.workload.vc[job as usize];
        let amount = self.shape(job).amount();
        let mut best = Nominated {
            job,
            queue,
            flavor: 0,
            amount,
            grade: Grade::NoFit,
            level: 0,
            victims: Vec::new(),
            later: false,
        };
        let Some(admission) = &self.admission else { return best };
        let rules = &admission.cohorts.rules()[usize::from(queue)];
        let mut later = false;
        for (at, flavor) in rules.flavors.iter().enumerate() {
            let result = self.try_flavor(admission, rules, job, *flavor);
            later |= result.later;
            let ends = ends_search(rules, &result);
            if at == 0 || (Reverse(result.grade), result.level) < (Reverse(best.grade), best.level) {
                best = result;
            }
            if ends {
                break;
            }
        }
        best.later = later;
        best
    }

    /// Returns the best outcome for a job with one flavor.
    fn try_flavor(&self, admission: &Admission<'_>, rules: &QueueRules, job: u32, flavor: u16) -> Nominated {
        let Admission { cohorts, usage, .. } = admission;
        let queue = self.workload.vc[job as usize];
        let amount = self.shape(job).amount();
        let (level, inside) = cohorts.reach(usage, queue, flavor, amount);
        let of =
            |grade: Grade| Nominated { job, queue, flavor, amount, grade, level, victims: Vec::new(), later: false };
        if !self.has_flavor(job, flavor) || amount > cohorts.potential(queue, flavor) {
            return of(Grade::NoFit);
        }
        let quota_lacks = !cohorts.allows(usage, queue, flavor, amount);
        if !quota_lacks && self.placer.fits(&self.nodes, self.ask_of(job, flavor)) {
            return of(Grade::Fit);
        }
        let borrows_by_stopping =
            rules.borrow_within.is_some() || (cohorts.fair().is_some() && rules.reclaim != Reclaim::Never);
        let rightful = amount <= cohorts.nominal(queue, flavor) || inside || borrows_by_stopping;
        if quota_lacks && !rightful {
            return of(Grade::NoFit);
        }
        let fallback = if quota_lacks { Grade::NoCandidates } else { Grade::NoFit };
        if self.policy.preemption == Preemption::Never {
            return of(fallback);
        }
        let search = if cohorts.fair().is_some() { self.fair_victims(job, flavor) } else { self.victims(job, flavor) };
        let others_only = search.victims.iter().all(|victim| self.workload.vc[*victim as usize] != queue);
        let grade = match search.victims.is_empty() {
            true => fallback,
            false if others_only && cohorts.borrowed(usage, queue, flavor, amount) == 0 => Grade::Reclaim,
            false => Grade::Preempt,
        };
        if search.victims.is_empty() {
            return Nominated { later: search.later, ..of(grade) };
        }
        // How far it reaches once they are gone.
        let mut left = usage.clone();
        for victim in &search.victims {
            let vc = self.workload.vc[*victim as usize];
            cohorts.remove(&mut left, vc, flavor, self.shape(*victim).amount());
        }
        let (level, _) = cohorts.reach(&left, queue, flavor, amount);
        Nominated { level, victims: search.victims, ..of(grade) }
    }

    /// Whether what was nominated can still be done, but for the nodes of a head for which nobody stops.
    fn still_fits(&self, head: &Nominated) -> bool {
        if head.victims.is_empty() {
            return self.admission.as_ref().is_some_and(|admission| {
                admission.cohorts.allows(&admission.usage, head.queue, head.flavor, head.amount)
            });
        }
        let Some(mut trial) = self.trial(head.job, head.flavor) else { return false };
        head.victims.iter().for_each(|victim| trial.take_out(*victim));
        trial.fits(true)
    }
}

/// Whether no further flavor is tried.
fn ends_search(rules: &QueueRules, result: &Nominated) -> bool {
    let borrows = result.level > 0;
    match result.grade {
        Grade::Fit => !borrows || !rules.next_before_borrowing,
        Grade::Preempt | Grade::Reclaim => !rules.next_before_preempting && (!borrows || !rules.next_before_borrowing),
        Grade::NoFit | Grade::NoCandidates => false,
    }
}

/// Returns the quota of a queue that is kept for its job that waits for others to stop.
fn kept_for(admission: &Admission<'_>, head: &Nominated) -> u64 {
    let Admission { cohorts, usage, .. } = admission;
    let nominal = cohorts.nominal(head.queue, head.flavor);
    let used = cohorts.used(usage, head.queue, head.flavor);
    if cohorts.borrowed(usage, head.queue, head.flavor, head.amount) == 0 {
        return head.amount.min(nominal.saturating_sub(used));
    }
    let limit = cohorts.borrowing_limit(head.queue, head.flavor);
    limit.map_or(head.amount, |limit| head.amount.min((nominal + limit).saturating_sub(used)))
}
