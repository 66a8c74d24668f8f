//! How the queue is walked: who starts now.
//!
//! Each walk asks the engine for one action after another ([`Run::apply`]), which checks and carries it out, so that what follows
//! sees what was done. Where the order is fixed, jobs of a VC and shape share their fate: when one does not fit, none does until
//! something is given back, so a walk looks at classes and not at jobs.

mod cells;
mod conservative;
mod dismiss;
mod easy;
mod kai;
mod kueue;
mod loose;
mod preempt;
mod rehearsal;
mod slurm;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod story;
mod strict;
mod volcano;

use super::engine::{Action, Queue, Run};
use super::key::Key;
use super::policy::{Compat, Order, Preemption, Scan};
use crate::error::Result;

/// How often a job is stopped at most under the schedulers of Kubernetes, so that a replay ends.
const MOST_PREEMPTIONS: u32 = 100;

/// Why a job did not start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refusal {
    /// The VC's quota.
    Quota,
    /// No nodes.
    Nodes,
}

/// Jobs held up by a strict walk behind those that did not start; other scans hold up nothing.
#[derive(Debug, Default)]
struct HeldUp {
    all: bool,
    vcs: Vec<u16>,
}

impl HeldUp {
    /// Whether a job of the VC may not start any more.
    fn holds(&self, vc: u16) -> bool {
        self.all || self.vcs.contains(&vc)
    }

    /// A job of the VC did not start.
    fn behind(&mut self, scan: Scan, vc: u16, refusal: Refusal) {
        match (scan, refusal) {
            (Scan::Strict, Refusal::Nodes) => self.all = true,
            (Scan::Strict, Refusal::Quota) => self.vcs.push(vc),
            _ => {}
        }
    }
}

/// State of a walk, for the jobs that it has looked at.
pub(super) enum Walk {
    Loose(loose::Walk),
    Preempting(preempt::Walk),
    Dismissing(dismiss::Walk),
    Easy(easy::Walk),
    Conservative(conservative::Plan),
    Slurm(slurm::Walk),
}

impl Walk {
    /// Whether a job was stopped, so that another decision is due.
    pub(super) fn has_stopped(&self) -> bool {
        match self {
            Self::Loose(walk) => walk.stopped,
            Self::Preempting(walk) => walk.stopped,
            Self::Dismissing(walk) => walk.stopped,
            Self::Slurm(walk) => walk.stopped,
            Self::Easy(_) | Self::Conservative(_) => false,
        }
    }

    /// How many jobs it has looked at, where that may be bounded.
    fn looked(&mut self) -> Option<&mut u32> {
        match self {
            Self::Conservative(plan) => Some(&mut plan.looked),
            Self::Slurm(walk) => Some(&mut walk.looked),
            Self::Loose(_) | Self::Preempting(_) | Self::Dismissing(_) | Self::Easy(_) => None,
        }
    }
}

impl Run<'_> {
    /// Starts (and stops) jobs as the policy has it.
    pub(super) fn decide(&mut self) -> Result<()> {
        if self.policy.compat == Compat::Helios && self.policy.order == Order::Qssf {
            return self.decide_helios();
        }
        if self.is_idle() {
            return Ok(());
        }
        if self.cells.is_some() {
            return self.walk_cells();
        }
        match (&self.queue, self.policy.scan) {
            (_, Scan::Conservative | Scan::Slurm) | (Queue::Loose(_), Scan::Easy) => self.walk().map(|_| ()),
            (_, Scan::Kueue) => self.walk_kueue(),
            (_, Scan::Kai) => self.walk_kai(),
            (_, Scan::Volcano) => self.walk_volcano(),
            (Queue::Ranked(..), Scan::Strict) => self.walk_strict(),
            (Queue::Ranked(..), Scan::Skip) => self.walk_skip(),
            (Queue::Ranked(..), Scan::Easy) => self.walk_easy(),
            (Queue::Loose(_), _) if self.guaranteed || self.policy.preemption == Preemption::Never => self.walk_loose(),
            (Queue::Loose(_), _) => {
                if self.walk()? {
                    self.due_next();
                }
                Ok(())
            }
        }
    }

    /// The state of a walk through a queue that is in no order, job by job: [`Run::look_at`] each in turn.
    pub(super) fn begin_walk(&mut self) -> Walk {
        match self.policy.scan {
            Scan::Easy => {
                self.reservation = None;
                Walk::Easy(easy::Walk::default())
            }
            Scan::Conservative => Walk::Conservative(conservative::Plan::new(
                &self.nodes,
                self.now,
                self.policy.window_ms,
                &self.held(),
                self.used.clone(),
            )),
            Scan::Slurm => Walk::Slurm(self.begin_slurm()),
            _ if self.dismisses() => Walk::Dismissing(dismiss::Walk::default()),
            _ if self.guaranteed || self.policy.preemption == Preemption::Never => Walk::Loose(loose::Walk::default()),
            _ => Walk::Preempting(self.begin_preempting()),
        }
    }

    /// The next job of a walk: it starts, or waits on. One that is over a limit of its QOS holds up nobody.
    pub(super) fn look_at(&mut self, walk: &mut Walk, job: u32) -> Result<()> {
        if self.over_limit(job).is_some() {
            self.queue.insert(job);
            return Ok(());
        }
        if let (Some(most), Some(looked)) = (self.policy.most_looked_at(), walk.looked()) {
            if *looked >= most {
                self.queue.insert(job);
                return Ok(());
            }
            *looked += 1;
        }
        match walk {
            Walk::Loose(walk) => self.look(walk, job, false),
            Walk::Preempting(walk) => self.look_preempting(walk, job),
            Walk::Dismissing(walk) => self.look_dismissing(walk, job),
            Walk::Easy(walk) => self.look_easy(walk, job),
            Walk::Conservative(plan) => self.look_conservative(plan, job),
            Walk::Slurm(walk) => self.look_slurm(walk, job),
        }
    }

    /// Walks through the whole queue of the pool; whether a job was stopped.
    fn walk(&mut self) -> Result<bool> {
        let order = self.sorted();
        let (looked_at, others) = order.split_at(self.reach(&order));
        others.iter().for_each(|job| self.queue.insert(*job));
        if looked_at.is_empty() {
            return Ok(false);
        }
        let mut walk = self.begin_walk();
        for job in looked_at {
            self.look_at(&mut walk, *job)?;
        }
        Ok(walk.has_stopped())
    }

    /// How many of the waiting jobs a decision looks at. Where each gets a reservation, jobs behind the last one that has room now cannot start in it. Their reservations could only delay
    /// jobs behind them, which cannot start either. So they are not looked at. Where jobs may be stopped, and under other scans, all are. O(jobs + shapes × a placement).
    pub(super) fn reach(&self, order: &[u32]) -> usize {
        if !self.policy.scan.reserves_for_all() || self.dismisses() {
            return order.len();
        }
        let mut refused = Refused::default();
        let mut pieces = Vec::new();
        let has_room = |job: &u32| {
            if refused.holds(self, *job) {
                return false;
            }
            let has_room = match self.policy.scan {
                Scan::Slurm => self.has_room_slurm(self.shape(*job)),
                _ => self.placer.place(&self.nodes, self.ask(*job), &mut pieces),
            };
            if !has_room {
                refused.insert(self, *job);
            }
            has_room
        };
        order.iter().rposition(has_room).map_or(0, |last| last + 1)
    }

    /// Starts `job` if it fits.
    fn try_start(&mut self, job: u32) -> Result<std::result::Result<(), Refusal>> {
        if !self.fits_quota(job) {
            return Ok(Err(Refusal::Quota));
        }
        let mut pieces = std::mem::take(&mut self.scratch);
        let placed = self.placer.place(&self.nodes, self.ask(job), &mut pieces);
        if placed {
            self.apply(Action::Start { job, pieces: &pieces })?;
        }
        self.scratch = pieces;
        Ok(if placed { Ok(()) } else { Err(Refusal::Nodes) })
    }

    /// Whether a walk would change nothing.
    pub(super) fn is_idle(&self) -> bool {
        let stops_nobody = || self.policy.preemption == Preemption::Never && !self.dismisses();
        self.queue.len() == 0 || (stops_nobody() && self.is_full())
    }

    /// Whether nothing at all can start now.
    pub(super) fn is_full(&self) -> bool {
        self.nodes.eligible_free() == 0 && !self.shares
    }

    /// The waiting jobs in order, and none left in the queue; what does not start must be put back.
    fn sorted(&mut self) -> Vec<u32> {
        self.sorted_bands().0
    }

    /// Returns the waiting jobs in order, and how many of them, the first, are within the
    /// guarantees of their VCs.
    fn sorted_bands(&mut self) -> (Vec<u32>, usize) {
        let order = self.in_order();
        self.banded(order)
    }

    /// Returns the waiting jobs in the order's order alone.
    fn in_order(&mut self) -> Vec<u32> {
        let mut keyed = self.keyed();
        // Submissions are in order of index.
        keyed.sort_unstable();
        keyed.into_iter().map(|(_, job)| job).collect()
    }

    /// The waiting jobs with their keys, in no order, and none left in the queue.
    pub(super) fn keyed(&mut self) -> Vec<(Key, u32)> {
        let Queue::Loose(jobs) = &mut self.queue else { return Vec::new() };
        let jobs = std::mem::take(jobs);
        jobs.into_iter().map(|job| (self.key(job), job)).collect()
    }
}

/// Jobs that were refused in a walk, by class: VC, shape, and whether they may spread. The answer for one job of a class is the answer for all, until
/// something is given back.
#[derive(Debug, Default)]
struct Refused(Vec<bool>);

impl Refused {
    fn place(run: &Run<'_>, job: u32) -> usize {
        let at = job as usize;
        let class = usize::from(run.workload.vc[at]) * run.workload.shapes.len() + usize::from(run.workload.shape[at]);
        2 * class + usize::from(run.ask(job).relaxed)
    }

    /// Whether a job of the class was refused. O(1).
    fn holds(&self, run: &Run<'_>, job: u32) -> bool {
        !self.0.is_empty() && self.0.get(Self::place(run, job)).copied().unwrap_or(false)
    }

    /// A job was refused. O(1), but for the first.
    fn insert(&mut self, run: &Run<'_>, job: u32) {
        if self.0.is_empty() {
            self.0.resize(2 * run.cluster.vcs.len() * run.workload.shapes.len(), false);
        }
        if let Some(refused) = self.0.get_mut(Self::place(run, job)) {
            *refused = true;
        }
    }
}
