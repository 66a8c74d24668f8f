//! The walks without reservations where the order must be found anew, and where VCs have guarantees.
//!
//! Without guarantees there is one band, and one walk. With them strict goes through the two bands of the queue. Skip goes through the queue twice: first come the jobs that keep their VC within its guarantee as it is
//! at their turn, then the others; what was passed over holds up nobody. With preemption, jobs of the first round (or band) stop jobs that borrow. O(waiting)
//! placements, and O(running) more for each job that stops others.
//!
//! Worked example: VC a is guaranteed 8 GPUs, uses 4, and has jobs of 8 and 2 GPUs in the queue. Neither band nor round takes in the first (12). Strict
//! counts it before the second (14); under skip the second is within the guarantee (6).

use super::{HeldUp, Refused};
use crate::engine::{Action, Run};
use crate::error::{Error, Result};
use crate::policy::{Preemption, Scan};

/// State of a walk.
#[derive(Default)]
pub(crate) struct Walk {
    /// Jobs that may be stopped, the first to go first; found when the first job needs them. What started since stands last and is none of them.
    victims: Option<Vec<u32>>,
    /// Jobs that did not fit, even once all victims had stopped; they do not until someone stops.
    refused: Refused,
    held_up: HeldUp,
    /// Whether one was stopped.
    pub(super) stopped: bool,
}

impl Run<'_> {
    /// Strict and skip, where the order must be found anew or VCs have guarantees.
    pub(super) fn walk_loose(&mut self) -> Result<()> {
        // Where nothing is free, only who may stop others can start.
        if self.is_full() && !self.queue.any(|job| self.is_within(job)) {
            return Ok(());
        }
        let mut walk = Walk::default();
        if self.policy.scan == Scan::Strict {
            let (order, within) = self.sorted_bands();
            for (at, job) in order.into_iter().enumerate() {
                self.look(&mut walk, job, at < within)?;
            }
        } else {
            let mut others = Vec::new();
            for job in self.in_order() {
                if self.is_within(job) { self.look(&mut walk, job, true)? } else { others.push(job) }
            }
            for job in others {
                self.look(&mut walk, job, false)?;
            }
        }
        if walk.stopped {
            self.due_next();
        }
        Ok(())
    }

    /// Starts a job if it fits, or if it fits once others are stopped and it may stop them; else it waits on.
    pub(super) fn look(&mut self, walk: &mut Walk, job: u32, may_stop: bool) -> Result<()> {
        let vc = self.workload.vc[job as usize];
        if walk.held_up.holds(vc) || walk.refused.holds(self, job) {
            self.queue.insert(job);
            return Ok(());
        }
        let Err(refusal) = self.try_start(job)? else { return Ok(()) };
        let mut chosen = Vec::new();
        if may_stop && self.policy.preemption != Preemption::Never {
            let victims = walk.victims.get_or_insert_with(|| self.borrowers());
            if !victims.is_empty() {
                chosen = self.choose(job, victims.iter().copied());
            }
        }
        if chosen.is_empty() {
            self.queue.insert(job);
            if self.policy.scan == Scan::Strict {
                walk.held_up.behind(Scan::Strict, vc, refusal);
            } else {
                walk.refused.insert(self, job);
            }
            return Ok(());
        }
        for victim in &chosen {
            self.apply(Action::Preempt { job: *victim })?;
        }
        if let Some(victims) = &mut walk.victims {
            victims.retain(|victim| !chosen.contains(victim));
        }
        walk.refused = Refused::default();
        walk.stopped = true;
        // Else both would take turns, a second each.
        match self.try_start(job)? {
            Ok(()) => Ok(()),
            Err(_) => Err(Error::Action(format!("others stop for job {job}, which does not start"))),
        }
    }
}
