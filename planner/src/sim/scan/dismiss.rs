//! Strict and skip, where jobs of a QOS stop those of another.
//!
//! Worked example: see [`crate::sim::limit`].

use super::Refusal;
use crate::error::Result;
use crate::sim::engine::Run;
use crate::sim::policy::Scan;

/// What a walk has found so far.
#[derive(Default)]
pub(in crate::sim) struct Walk {
    blocked_vcs: Vec<u16>,
    over: bool,
    /// Whether a job stopped at once.
    pub(super) stopped: bool,
}

impl Run<'_> {
    /// Starts a job if it fits, now or once others have stopped; else it waits on.
    pub(super) fn look_dismissing(&mut self, walk: &mut Walk, job: u32) -> Result<()> {
        let vc = self.workload.vc[job as usize];
        if walk.over || walk.blocked_vcs.contains(&vc) {
            self.queue.insert(job);
            return Ok(());
        }
        let Err(refusal) = self.try_start(job)? else { return Ok(()) };
        let candidates = self.dismissable(job);
        let chosen = if candidates.is_empty() { Vec::new() } else { self.choose(job, candidates.into_iter()) };
        let mut gone = !chosen.is_empty();
        for victim in chosen {
            let stopped = self.dismiss(victim)?;
            walk.stopped |= stopped;
            gone &= stopped;
        }
        if gone && self.try_start(job)?.is_ok() {
            return Ok(());
        }
        self.queue.insert(job);
        if self.policy.scan == Scan::Strict {
            match refusal {
                Refusal::Nodes => walk.over = true,
                Refusal::Quota => walk.blocked_vcs.push(vc),
            }
        }
        Ok(())
    }
}
