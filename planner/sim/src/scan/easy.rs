//! EASY backfill: a job may overtake if the head of the queue starts no later for it.
//!
//! The head's reservation is the first expected end of running jobs after which it fits (the shadow time) and the nodes as they
//! are then (the shadow). It is kept from one decision to the next as long as nothing happened that could change it: ends that come
//! when they were expected, and jobs started beside the reservation, change neither time nor nodes. On a ranked queue, candidates
//! are found by class: while a class's jobs would delay the head, only those short enough are looked at. O(classes × log n) per job
//! started, and O(running jobs) for a new reservation.
//!
//! Worked example: see [the contract](crate).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Refusal, Refused};
use crate::engine::{Action, Queue, Reservation, Run};
use crate::error::Result;
use crate::schedule::Piece;

/// State of a walk job by job.
#[derive(Default)]
pub(crate) struct Walk {
    /// Whether the head has a reservation.
    reserved: bool,
    refused: Refused,
}

impl Reservation {
    /// Takes a job's pieces out of the shadow, if the head still fits then; puts them back otherwise.
    fn admits(&mut self, run: &Run<'_>, job: u32, pieces: &[Piece]) -> bool {
        let vc = usize::from(run.workload.vc[job as usize]);
        let amount = run.shape(job).amount();
        // A node that takes nothing new is none of the head's, so what is taken there does not matter.
        let taken = pieces.iter().take_while(|piece| self.nodes.retake(piece).is_ok()).count();
        self.used[vc] += amount;
        if taken == pieces.len() && self.head_fits(run) {
            return true;
        }
        for piece in &pieces[..taken] {
            self.nodes.give(piece);
        }
        self.used[vc] -= amount;
        false
    }

    /// Whether the head fits in the shadow.
    fn head_fits(&self, run: &Run<'_>) -> bool {
        let vc = usize::from(run.workload.vc[self.head as usize]);
        let amount = run.shape(self.head).amount();
        run.quota[vc].is_none_or(|quota| self.used[vc] + amount <= quota)
            && run.placer.fits(&self.nodes, run.ask(self.head))
    }
}

impl Run<'_> {
    /// The reservation of `head`, found anew unless the one at hand still holds.
    fn reserve(&mut self, head: u32) {
        if self.reservation.as_ref().is_some_and(|known| known.head == head) {
            return;
        }
        let mut result = Reservation { head, at_ms: None, nodes: self.nodes.clone(), used: self.used.clone() };
        let mut ends = self.expected.iter().peekable();
        while let Some((at, segment)) = ends.next() {
            let record = &self.schedule.segments[*segment as usize];
            for piece in self.schedule.pieces_of(record) {
                result.nodes.give(piece);
            }
            result.used[usize::from(self.workload.vc[record.job as usize])] -= self.shape(record.job).amount();
            if ends.peek().is_none_or(|(next, _)| next > at) && result.head_fits(self) {
                result.at_ms = Some(*at);
                break;
            }
        }
        #[cfg(test)]
        self.promises.extend(result.at_ms.map(|at| (head, at)));
        self.reservation = Some(result);
    }

    /// Starts `job` behind the reservation if it fits now and does not delay the head. `Err` says whether it would fit.
    fn try_backfill(&mut self, job: u32, expected_ms: i64) -> Result<std::result::Result<(), bool>> {
        if !self.fits_quota(job) {
            return Ok(Err(false));
        }
        let mut pieces = std::mem::take(&mut self.scratch);
        if !self.placer.place(&self.nodes, self.ask(job), &mut pieces) {
            self.scratch = pieces;
            return Ok(Err(false));
        }
        let allowed = match self.reservation.take() {
            None => true,
            Some(mut reservation) => {
                let allowed = reservation.at_ms.is_none_or(|at| {
                    self.now.saturating_add(expected_ms) <= at || reservation.admits(self, job, &pieces)
                });
                self.reservation = Some(reservation);
                allowed
            }
        };
        if allowed {
            self.apply(Action::Start { job, pieces: &pieces })?;
        }
        self.scratch = pieces;
        Ok(if allowed { Ok(()) } else { Err(true) })
    }

    /// Ranked: classes are VCs and shapes.
    pub(super) fn walk_easy(&mut self) -> Result<()> {
        let Queue::Ranked(ranked, ranking) = &self.queue else { return Ok(()) };
        let ranking = *ranking;
        let classes = ranked.classes();
        let mut heads: BinaryHeap<_> =
            (0..classes).filter_map(|class| Some(Reverse((ranked.head(class)?, class)))).collect();
        // Strict until the first that does not fit.
        let mut closed = vec![false; classes as usize];
        let mut from = loop {
            let Some(Reverse((rank, class))) = heads.pop() else { return Ok(()) };
            let job = ranking.job(rank);
            if self.try_start(job)?.is_err() {
                closed[class as usize] = true;
                self.reserve(job);
                break rank + 1;
            }
            self.reservation = None;
            self.take(class, rank);
            if let Queue::Ranked(ranked, _) = &self.queue
                && let Some(next) = ranked.head(class)
            {
                heads.push(Reverse((next, class)));
            }
        };
        let room_ms = match self.reservation.as_ref().and_then(|known| known.at_ms) {
            Some(at) => at - self.now,
            None => i64::MAX - 1,
        };
        // A class is closed when its jobs do not fit now, and narrow while those that outlast the shadow time delay the head.
        'starts: loop {
            let mut narrow = vec![false; classes as usize];
            let Queue::Ranked(ranked, _) = &self.queue else { return Ok(()) };
            let open = (0..classes).filter(|class| !closed[*class as usize]);
            let next = |class: u32| Some(Reverse((ranked.first(class, from, i64::MAX - 1)?, class)));
            let mut candidates: BinaryHeap<_> = open.filter_map(next).collect();
            while let Some(Reverse((rank, class))) = candidates.pop() {
                let job = ranking.job(rank);
                match self.try_backfill(job, self.expected_ms(job))? {
                    Ok(()) => {
                        self.take(class, rank);
                        from = rank + 1;
                        if self.is_full() {
                            return Ok(());
                        }
                        continue 'starts;
                    }
                    Err(false) => closed[class as usize] = true,
                    Err(true) => {
                        narrow[class as usize] = true;
                        let Queue::Ranked(ranked, _) = &self.queue else { return Ok(()) };
                        if let Some(next) = ranked.first(class, rank + 1, room_ms) {
                            candidates.push(Reverse((next, class)));
                        }
                    }
                }
            }
            return Ok(());
        }
    }

    /// Job by job, where the order must be found anew or jobs of a shape do not share their fate.
    pub(super) fn look_easy(&mut self, walk: &mut Walk, job: u32) -> Result<()> {
        let started = if walk.refused.holds(self, job) {
            false
        } else if walk.reserved {
            let outcome = self.try_backfill(job, self.expected_ms(job))?;
            if outcome == Err(false) {
                walk.refused.insert(self, job);
            }
            outcome.is_ok()
        } else {
            let outcome: std::result::Result<(), Refusal> = self.try_start(job)?;
            if outcome.is_err() {
                walk.reserved = true;
                self.reserve(job);
                walk.refused.insert(self, job);
            }
            outcome.is_ok()
        };
        if !started {
            self.queue.insert(job);
        }
        Ok(())
    }
}
