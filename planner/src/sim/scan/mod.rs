//! How the queue is walked: who starts now.
//!
//! Each walk asks the engine for one action after another ([`Run::apply`]), which checks and carries it out, so that what follows
//! sees what was done. Where the order is fixed, jobs of a VC and shape share their fate: when one does not fit, none does until
//! something is given back, so a walk looks at classes and not at jobs.

mod conservative;
mod easy;
mod kueue;
mod loose;
mod preempt;
mod slurm;
mod strict;

use super::engine::{Action, Queue, Run};
use super::policy::{Compat, Order, Preemption, Scan};
use crate::error::Result;

/// Why a job did not start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refusal {
    /// Its VC's quota.
    Quota,
    /// No nodes.
    Nodes,
}

impl Run<'_> {
    /// Starts (and stops) jobs as the policy has it.
    pub(super) fn decide(&mut self) -> Result<()> {
        if self.policy.compat == Compat::Helios && self.policy.order == Order::Qssf {
            return self.decide_helios();
        }
        if self.queue.len() == 0 || (self.policy.preemption == Preemption::Never && self.is_full()) {
            return Ok(());
        }
        match (&self.queue, self.policy.scan) {
            (_, Scan::Conservative) => self.walk_conservative(),
            (_, Scan::Slurm) => self.walk_slurm(),
            (_, Scan::Kueue) => self.walk_kueue(),
            (Queue::Ranked(..), Scan::Strict) => self.walk_strict(),
            (Queue::Ranked(..), Scan::Skip) => self.walk_skip(),
            (Queue::Ranked(..), Scan::Easy) => self.walk_easy(),
            (Queue::Loose(_), Scan::Easy) => self.walk_easy_loose(),
            (Queue::Loose(_), _) if self.guaranteed || self.policy.preemption == Preemption::Never => self.walk_loose(),
            (Queue::Loose(_), _) => self.walk_preempting(),
        }
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

    /// Whether nothing at all can start now.
    fn is_full(&self) -> bool {
        self.nodes.eligible_free() == 0 && !self.shares
    }

    /// The waiting jobs in order, and none left in the queue; what does not start must be put back.
    fn sorted(&mut self) -> Vec<u32> {
        self.sorted_bands().0
    }

    /// The same, and how many of them, the first, are within the guarantees of their VCs.
    fn sorted_bands(&mut self) -> (Vec<u32>, usize) {
        let order = self.in_order();
        self.banded(order)
    }

    /// The same in the order's order alone.
    fn in_order(&mut self) -> Vec<u32> {
        let Queue::Loose(jobs) = &mut self.queue else { return Vec::new() };
        let jobs = std::mem::take(jobs);
        let mut keyed: Vec<_> = jobs.into_iter().map(|job| (self.key(job), job)).collect();
        // Submissions are in order of index.
        keyed.sort_unstable();
        keyed.into_iter().map(|(_, job)| job).collect()
    }

    /// Conservative backfill.
    fn walk_conservative(&mut self) -> Result<()> {
        let order = self.sorted();
        let waiting: Vec<conservative::Waiting> = order
            .iter()
            .map(|job| conservative::Waiting {
                ask: self.ask(*job),
                vc: self.workload.vc[*job as usize],
                amount: self.shape(*job).amount(),
                estimate_ms: self.expected_ms(*job),
            })
            .collect();
        let held: Vec<conservative::Held<'_>> = self
            .expected
            .iter()
            .map(|(expected_end_ms, segment)| {
                let record = &self.schedule.segments[*segment as usize];
                conservative::Held {
                    expected_end_ms: *expected_end_ms,
                    pieces: self.schedule.pieces_of(record),
                    vc: self.workload.vc[record.job as usize],
                    amount: self.shape(record.job).amount(),
                }
            })
            .collect();
        let starts = conservative::starts(
            &self.nodes,
            &self.placer,
            self.now,
            &held,
            &waiting,
            conservative::Quotas { quota: &self.quota, used: &self.used },
            self.policy.depth,
        );
        let mut started: Vec<u32> = starts.iter().map(|(job, _)| *job).collect();
        for (job, pieces) in &starts {
            self.apply(Action::Start { job: *job, pieces })?;
        }
        started.sort_unstable();
        for job in order {
            if started.binary_search(&job).is_err() {
                self.queue.insert(job);
            }
        }
        Ok(())
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
