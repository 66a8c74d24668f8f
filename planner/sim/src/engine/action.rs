//! Starts and stops of jobs, and their effects on nodes, quotas, keys and the schedule.
//!
//! Policies ask through [`Run::apply`], which checks: that the GPUs are free and complete, that the quota allows them, that who is preempted
//! runs. Ends, failures and outlived estimates come from the event loop. O(log n + pieces) each; a failure looks at all running jobs.
//!
//! Worked number: a job of 100 s that is preempted after 30 s at a cost of 7 s needs 100 − 30 + 7 = 77 s when it starts again.

use super::event::Event;
use super::{Action, Run, SECOND_MS};
use crate::error::{Error, Result};
use crate::policy::Preemption;
use crate::schedule::{NO_SEGMENT, Outcome, Piece, Segment, Stop};

/// Corrections of an outlived estimate, milliseconds (Tsafrir et al.); the last one repeats.
const CORRECTIONS_MS: [i64; 10] = [
    60_000,
    15 * 60_000,
    30 * 60_000,
    3_600_000,
    2 * 3_600_000,
    5 * 3_600_000,
    10 * 3_600_000,
    20 * 3_600_000,
    50 * 3_600_000,
    100 * 3_600_000,
];

impl Run<'_> {
    /// Carries out what a policy asks for, if that can be.
    pub(crate) fn apply(&mut self, action: Action<'_>) -> Result<()> {
        match action {
            Action::Start { job, pieces } => self.start(job, pieces),
            Action::Preempt { job } => self.preempt(job),
        }
    }

    fn start(&mut self, job: u32, pieces: &[Piece]) -> Result<()> {
        let at = job as usize;
        let amount: u64 = pieces.iter().map(|piece| piece.amount()).sum();
        let shape = self.shape(job);
        if amount != shape.amount() {
            return Err(Error::Action(format!("job {job} starts with {amount} thousandths of {}", shape.amount())));
        }
        let takes_other = |piece: &Piece| piece.host != shape.host_of(piece.gpus.count_ones());
        if !shape.host.is_none() && pieces.iter().any(takes_other) {
            return Err(Error::Action(format!("job {job} starts with other processors or memory than it asks for")));
        }
        if !self.fits_quota(job) {
            return Err(Error::Action(format!("job {job} starts over the quota of its VC")));
        }
        if self.over_limit(job).is_some() {
            return Err(Error::Action(format!("job {job} starts over a limit of its QOS")));
        }
        let user = self.user(job);
        if let Some(admission) = &mut self.admission {
            admission.start(job, (self.workload.vc[at], user), amount, self.now)?;
        }
        self.queue_start(job, amount)?;
        for piece in pieces {
            let was_empty = self.power.is_some() && self.nodes.is_empty(self.nodes.local(piece.node));
            self.nodes.take(piece)?;
            if let Some(power) = self.power.as_mut().filter(|_| was_empty) {
                power.filled();
            }
        }
        if let Some(power) = &mut self.power {
            power.started(amount, self.now);
        }
        let past = self.past.get(at).copied().unwrap_or_default();
        let needs = (self.workload.run_ms[at] - past.done_ms).saturating_add(past.owed_ms);
        let end_ms = self.now.saturating_add(needs);
        let segment = self.schedule.segments.len() as u32;
        let first_piece = self.schedule.pieces.len() as u32;
        self.schedule.pieces.extend_from_slice(pieces);
        let record =
            Segment { job, first_piece, pieces: pieces.len() as u32, start_ms: self.now, end_ms, stop: Stop::Done };
        self.schedule.segments.push(record);
        if self.schedule.last_segment[at] == NO_SEGMENT {
            self.schedule.first_start_ms[at] = self.now;
        }
        self.schedule.last_segment[at] = segment;
        self.used[usize::from(self.workload.vc[at])] += amount;
        if let Some(ledger) = &mut self.ledger {
            ledger.start(self.workload, job, self.now);
        }
        if self.traits.tracks_running || self.traits.keeps_past {
            self.running.insert(segment);
        }
        if self.traits.uses_keys {
            self.keys.started(job, self.now);
        }
        if self.traits.backfill {
            let expected = self.now.saturating_add(self.expected_ms(job));
            self.expected_end[at] = (expected, 0);
            self.expected.insert((expected, segment));
            self.expect_everywhere(None, Some((expected, job)));
            if expected < end_ms {
                self.announce(expected, Event::Outlived { segment });
            }
        }
        // Helios' simulator gives GPUs back in the tick after, even those of a job of length zero.
        let freed_ms = if self.traits.helios { end_ms.max(self.now + SECOND_MS) } else { end_ms };
        self.announce(freed_ms, Event::End { segment });
        Ok(())
    }

    /// Takes a running segment off its nodes.
    fn release(&mut self, segment: u32) -> Segment {
        let record = self.schedule.segments[segment as usize];
        let vc = usize::from(self.workload.vc[record.job as usize]);
        let amount = self.shape(record.job).amount();
        self.used[vc] -= amount;
        if let Some(ledger) = &mut self.ledger {
            ledger.stop(self.workload, record.job, self.now);
        }
        let user = self.user(record.job);
        if let Some(admission) = &mut self.admission {
            admission.stop(record.job, (vc as u16, user), amount, self.now);
        }
        self.queue_stop(record.job, amount);
        if let Some(cells) = &mut self.cells {
            cells.leave(record.job, vc as u16);
        }
        let first = record.first_piece as usize;
        for piece in &self.schedule.pieces[first..first + record.pieces as usize] {
            self.nodes.give(piece);
            self.service.emptied(&mut self.nodes, piece.node);
        }
        if let Some(power) = &mut self.power {
            power.stopped();
        }
        if self.power.is_some() {
            for at in first..first + record.pieces as usize {
                let number = self.schedule.pieces[at].node;
                self.power_left(number);
            }
        }
        if self.traits.tracks_running || self.traits.keeps_past {
            self.running.remove(&segment);
            if self.ending.remove(&segment) {
                // It is over before its grace is.
                self.to_come -= 1;
            }
        }
        if self.traits.backfill {
            let expected = self.expected_end[record.job as usize].0;
            self.expected.remove(&(expected, segment));
            self.expect_everywhere(Some((expected, record.job)), None);
        }
        if self.traits.uses_keys {
            self.keys.stopped(record.job, self.now);
        }
        record
    }

    pub(super) fn end(&mut self, segment: u32) -> bool {
        let record = self.schedule.segments[segment as usize];
        if record.stop != Stop::Done {
            return false;
        }
        if self.traits.backfill && self.expected_end[record.job as usize].0 != self.now {
            // Sooner than expected: what was reserved may come sooner.
            self.reservation = None;
        }
        // The last job of a node that drains takes the node with it.
        let drains = self.service.drains();
        self.release(segment);
        if drains {
            self.tell_service();
        }
        let job = record.job as usize;
        self.schedule.outcome[job] = Outcome::Finished;
        self.schedule.end_ms[job] = record.end_ms;
        if self.traits.uses_keys {
            self.keys.finished(record.job);
            self.keys.left(record.job);
        }
        true
    }

    /// Ends a running segment before its time and notes what its job has done.
    pub(super) fn cut(&mut self, segment: u32, stop: Stop) {
        let job = self.schedule.segments[segment as usize].job;
        let progress = self.progress(job);
        let drains = self.service.drains();
        // Its end is not to come any more, nor that it outlives its estimate.
        let planned_ms = self.schedule.segments[segment as usize].end_ms;
        let outlives = self.expected_end.get(job as usize).is_some_and(|(expected, _)| *expected < planned_ms);
        self.to_come -= 1 + usize::from(outlives);
        self.release(segment);
        if drains {
            self.tell_service();
        }
        let record = &mut self.schedule.segments[segment as usize];
        record.end_ms = self.now;
        record.stop = stop;
        self.reservation = None;
        let shape = self.shape(job);
        let cancelled = stop == Stop::Preempted && self.is_cancelled(job);
        if cancelled {
            self.schedule.preemptions[job as usize] += 1;
        }
        if cancelled || (stop == Stop::Failed && self.once.binary_search(&job).is_ok()) {
            self.schedule.outcome[job as usize] = Outcome::Finished;
            self.schedule.end_ms[job as usize] = self.now;
            if self.traits.uses_keys {
                self.keys.left(job);
            }
            return;
        }
        self.admission_gives_back();
        let Some(past) = self.past.get_mut(job as usize) else { return };
        past.attained = progress.attained;
        past.owed_ms = progress.owed_ms;
        if stop == Stop::Preempted {
            self.schedule.preemptions[job as usize] += 1;
        } else {
            self.schedule.restarts[job as usize] += 1;
        }
        if stop == Stop::Preempted && matches!(self.policy.preemption, Preemption::Checkpoint { .. }) {
            past.done_ms = progress.done_ms;
            past.saved_ms = progress.done_ms;
            past.owed_ms += self.policy.preemption.cost_ms(shape);
        } else {
            let at_checkpoint = self.policy.checkpoint_ms.map_or(0, |every| progress.done_ms / every * every);
            past.saved_ms = past.saved_ms.max(at_checkpoint);
            past.done_ms = past.saved_ms;
        }
        if let Some(power) = &mut self.power {
            power.waits(shape.amount());
        }
        if stop == Stop::Preempted && self.dismisses() {
            self.requeue(job);
        } else {
            self.join(job);
        }
    }

    fn preempt(&mut self, job: u32) -> Result<()> {
        let segment = self.schedule.last_segment[job as usize];
        if self.policy.preemption == Preemption::Never || !self.running.contains(&segment) {
            return Err(Error::Action(format!("job {job} is preempted but cannot be")));
        }
        self.cut(segment, Stop::Preempted);
        Ok(())
    }

    pub(super) fn fail(&mut self, node: u32) {
        let number = self.nodes.number(node);
        let on_node: Vec<u32> = self
            .running
            .iter()
            .copied()
            .filter(|segment| {
                let record = &self.schedule.segments[*segment as usize];
                self.schedule.pieces_of(record).iter().any(|piece| piece.node == number)
            })
            .collect();
        for segment in on_node {
            self.cut(segment, Stop::Failed);
        }
        self.service.fail(&mut self.nodes, node);
        self.tell_service();
    }

    pub(super) fn resize(&mut self, group: u32, nodes: u32) {
        self.service.resize(&mut self.nodes, group, nodes);
    }

    /// Nodes have come or gone.
    pub(super) fn tell_service(&mut self) {
        self.reservation = None;
        if self.traits.uses_keys {
            self.keys.in_service(self.service.gpus(&self.nodes));
        }
        self.queue_service();
        self.power_service();
    }

    pub(super) fn outlived(&mut self, segment: u32) -> bool {
        let record = self.schedule.segments[segment as usize];
        let job = record.job as usize;
        if record.stop != Stop::Done || self.expected_end[job].0 != self.now || record.end_ms <= self.now {
            return false;
        }
        let (expected, corrections) = self.expected_end[job];
        let at = usize::from(corrections).min(CORRECTIONS_MS.len() - 1);
        let corrected = expected.saturating_add(CORRECTIONS_MS[at]);
        self.expected.remove(&(expected, segment));
        self.expected.insert((corrected, segment));
        self.expect_everywhere(Some((expected, record.job)), Some((corrected, record.job)));
        self.expected_end[job] = (corrected, corrections.saturating_add(1));
        if corrected < record.end_ms {
            self.announce(corrected, Event::Outlived { segment });
        }
        self.reservation = None;
        true
    }
}
