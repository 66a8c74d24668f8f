//! Walks that may stop running jobs for waiting ones that come before them in the order.
//!
//! For a waiting job that does not fit, running jobs with a greater key are taken out, the last in order first, until it fits; those
//! that turn out not to be in its way are put back. O(waiting × running) for a decision.
//!
//! Worked example: shortest remaining time first on one node of 8 GPUs, where a job of 8 GPUs has 100 s left. One of 1 GPU and 10 s comes:
//! the first is stopped, the second starts; a second later the first still does not fit; at 10 s it goes on, with its cost to pay.

use super::HeldUp;
use crate::engine::{Action, Run};
use crate::error::Result;
use crate::key::Key;
use crate::nodes::Nodes;

/// State of a walk.
pub(crate) struct Walk {
    /// Jobs that ran when it began and may be stopped, the last in order first.
    victims: Vec<(Key, u32)>,
    held_up: HeldUp,
    /// Whether one was stopped.
    pub(super) stopped: bool,
}

impl Run<'_> {
    /// A walk of strict or skip begins, with preemption.
    pub(super) fn begin_preempting(&self) -> Walk {
        // Greatest key first; of equals the last submitted.
        let running = self.running.iter().map(|segment| &self.schedule.segments[*segment as usize]);
        let mut victims: Vec<(Key, u32)> = running
            .filter(|segment| self.has_progressed(segment))
            .map(|segment| (self.key(segment.job), segment.job))
            .collect();
        victims.sort_unstable_by(|a, b| b.cmp(a));
        Walk { victims, held_up: HeldUp::default(), stopped: false }
    }

    /// Starts a job if it fits, or if it fits once others are stopped; else it waits on.
    pub(super) fn look_preempting(&mut self, walk: &mut Walk, job: u32) -> Result<()> {
        let vc = self.workload.vc[job as usize];
        if walk.held_up.holds(vc) {
            self.queue.insert(job);
            return Ok(());
        }
        let Err(refusal) = self.try_start(job)? else { return Ok(()) };
        let key = self.key(job);
        let later = walk.victims.iter().take_while(|(other, _)| *other > key).map(|(_, victim)| *victim);
        let chosen = self.choose(job, later);
        if chosen.is_empty() {
            self.queue.insert(job);
            walk.held_up.behind(self.policy.scan, vc, refusal);
            return Ok(());
        }
        for victim in &chosen {
            self.apply(Action::Preempt { job: *victim })?;
        }
        walk.victims.retain(|(_, victim)| !chosen.contains(victim));
        walk.stopped = true;
        // It was seen to fit once they are gone; if it does not, it waits on.
        if self.try_start(job)?.is_err() {
            self.queue.insert(job);
        }
        Ok(())
    }

    /// Which of `victims` have to stop so that `job` fits; none if it would not fit without all of them.
    pub(super) fn choose(&self, job: u32, victims: impl Iterator<Item = u32>) -> Vec<u32> {
        let vc = usize::from(self.workload.vc[job as usize]);
        let amount = self.shape(job).amount();
        let ask = self.ask(job);
        let mut nodes = self.nodes.clone();
        let mut used = self.used[vc];
        let fits = |nodes: &Nodes, used: u64| {
            self.quota[vc].is_none_or(|quota| used + amount <= quota) && self.placer.fits(nodes, ask)
        };
        let mut taken: Vec<u32> = Vec::new();
        let mut result = false;
        for victim in victims {
            let Some(segment) = self.schedule.last_segment(victim as usize) else { continue };
            for piece in self.schedule.pieces_of(segment) {
                nodes.give(piece);
            }
            if usize::from(self.workload.vc[victim as usize]) == vc {
                used -= self.shape(victim).amount();
            }
            taken.push(victim);
            if fits(&nodes, used) {
                result = true;
                break;
            }
        }
        if !result {
            return Vec::new();
        }
        let mut kept: Vec<u32> = Vec::new();
        for victim in taken.iter().rev() {
            let Some(segment) = self.schedule.last_segment(*victim as usize) else { continue };
            let same_vc = usize::from(self.workload.vc[*victim as usize]) == vc;
            let pieces = self.schedule.pieces_of(segment);
            let mut trial = nodes.clone();
            if !pieces.iter().all(|piece| trial.retake(piece).is_ok()) {
                continue;
            }
            let more = used + if same_vc { self.shape(*victim).amount() } else { 0 };
            if fits(&trial, more) {
                nodes = trial;
                used = more;
                kept.push(*victim);
            }
        }
        taken.retain(|victim| !kept.contains(victim));
        taken
    }
}
