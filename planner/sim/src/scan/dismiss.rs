//! Strict and skip, where jobs of a QOS stop those of another.
//!
//! Worked example: see [`crate::limit`].

use super::HeldUp;
use crate::engine::Run;
use crate::error::Result;

/// State of a walk.
#[derive(Default)]
pub(crate) struct Walk {
    held_up: HeldUp,
    /// Whether a job stopped at once.
    pub(super) stopped: bool,
}

impl Run<'_> {
    /// Starts a job if it fits, now or once others have stopped; else it waits on.
    pub(super) fn look_dismissing(&mut self, walk: &mut Walk, job: u32) -> Result<()> {
        let vc = self.workload.vc[job as usize];
        if walk.held_up.holds(vc) {
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
        walk.held_up.behind(self.policy.scan, vc, refusal);
        Ok(())
    }
}
