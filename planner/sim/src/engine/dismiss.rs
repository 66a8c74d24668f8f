//! Jobs that are stopped for those of another QOS: who may be, who is told to, and what becomes of them.
//!
//! The rules stand in [`crate::limit`]. O(running × log running) for a job that looks for others to stop.
//!
//! Worked number: a job of QOS low that has run for 40 s is told to stop at 100 s with a grace of 30 s: it stops at 130 s, has lost 70 s of work, and may start again from 250 s on
//! if that takes 2 min.

use super::Run;
use super::event::Event;
use crate::error::{Error, Result};
use crate::limit::{Limits, Stopped};
use crate::schedule::Stop;

/// How often a job is stopped at most.
const MOST_STOPS: u32 = 1_000;
/// The greatest priority of a QOS that counts here.
const MOST_PRIORITY: u32 = 65_535;

impl Run<'_> {
    /// Whether a QOS stops jobs of another.
    pub(crate) fn dismisses(&self) -> bool {
        self.cluster.limits.as_ref().is_some_and(Limits::preempts)
    }

    /// Running jobs that a waiting one may stop, the first to go first.
    pub(crate) fn dismissable(&self, job: u32) -> Vec<u32> {
        let Some(limits) = self.cluster.limits.as_ref().filter(|limits| limits.preempts()) else { return Vec::new() };
        let segments = self.running.iter().map(|segment| &self.schedule.segments[*segment as usize]);
        let mut result: Vec<(u32, usize, u32)> = segments
            .filter_map(|segment| {
                let qos = limits.may_stop(self.workload, job, segment.job)?;
                let has_run_ms = self.now - segment.start_ms;
                let spared = has_run_ms <= 0
                    || has_run_ms < qos.exempt_ms
                    || self.schedule.preemptions[segment.job as usize] >= MOST_STOPS;
                let nodes = self.schedule.pieces_of(segment).len();
                (!spared).then_some((qos.priority.min(MOST_PRIORITY), nodes, segment.job))
            })
            .collect();
        result.sort_unstable();
        result.into_iter().map(|(_, _, job)| job).collect()
    }

    /// Tells a running job to stop; whether it has.
    pub(crate) fn dismiss(&mut self, job: u32) -> Result<bool> {
        let segment = self.schedule.last_segment[job as usize];
        let qos = self.cluster.limits.as_ref().and_then(|limits| limits.own(self.workload, job));
        let grace_ms = match qos {
            Some(qos) if qos.stopped != Stopped::Never && self.running.contains(&segment) => qos.grace_ms,
            _ => return Err(Error::Action(format!("job {job} is told to stop but cannot be"))),
        };
        if grace_ms == 0 {
            self.cut(segment, Stop::Preempted);
            return Ok(true);
        }
        if self.ending.insert(segment) {
            self.announce(self.now.saturating_add(grace_ms), Event::Expire { segment });
        }
        Ok(false)
    }

    /// The grace of a segment is over; whether it still ran.
    pub(super) fn expire(&mut self, segment: u32) -> bool {
        let runs = self.ending.remove(&segment);
        if runs {
            self.cut(segment, Stop::Preempted);
        }
        runs
    }

    /// Whether a job that is stopped is over.
    pub(super) fn is_cancelled(&self, job: u32) -> bool {
        let own = self.cluster.limits.as_ref().and_then(|limits| limits.own(self.workload, job));
        self.dismisses() && own.is_some_and(|qos| qos.stopped == Stopped::Cancelled)
    }

    /// A job that has been stopped waits again, once it may.
    pub(super) fn requeue(&mut self, job: u32) {
        let at = self.now.saturating_add(self.cluster.limits.as_ref().map_or(0, Limits::requeue_ms));
        self.keys.renewed(job, at);
        if at > self.now {
            self.announce(at, Event::Eligible { job });
        } else {
            self.join(job);
        }
    }
}
