//! Decisions of the naive reference: walks, victims, shadow times, reservations, by trying every moment.
//!
//! Worked number: see the contract's example in `tracecast_planner::sim`.

use tracecast_planner::sim::{Piece, Preemption, Scan, Stop};

use super::{Phase, Pool, View};

/// From, to, pieces, VC and amount of what runs or is reserved.
pub(super) type Holding = (i64, i64, Vec<Piece>, usize, u64);

impl Pool<'_> {
    /// Starts and stops jobs; whether any was preempted.
    pub(super) fn decide(&mut self) -> bool {
        let queue = self.queue();
        if self.has_cells() {
            return self.two_walks();
        }
        match self.policy.scan {
            Scan::Easy => self.easy(&queue),
            Scan::Conservative => self.conservative(&queue),
            Scan::Skip if self.guaranteed() => return self.rounds(),
            Scan::Strict | Scan::Skip => {
                let (within, borrowers) = (self.bands().0, self.borrowers());
                return self.walk(&queue, &within, &borrowers);
            }
            Scan::Slurm => self.slurm(&queue),
            Scan::Kueue => return self.kueue(),
            Scan::Kai => return self.kai(),
            Scan::Volcano => return self.volcano(),
        }
        false
    }

    /// Skip with guarantees: who is within one at its turn, then all others.
    fn rounds(&mut self) -> bool {
        let borrowers = self.borrowers();
        let (mut others, mut stopped) = (Vec::new(), false);
        for job in self.sorted(self.in_phase(Phase::Waiting)) {
            let vc = self.vc(job);
            let asked = self.used(vc, &self.in_phase(Phase::Running)) + self.shape(job).amount();
            if self.guarantee(vc).is_some_and(|guarantee| asked <= guarantee) {
                stopped |= self.walk(&[job], &[job], &borrowers);
            } else {
                others.push(job);
            }
        }
        self.walk(&others, &[], &borrowers) || stopped
    }

    pub(super) fn walk(&mut self, queue: &[usize], within: &[usize], borrowers: &[usize]) -> bool {
        let strict = self.policy.scan == Scan::Strict;
        let mut blocked: Vec<usize> = Vec::new();
        let mut stopped = false;
        for job in queue.iter().copied() {
            if blocked.contains(&self.vc(job)) {
                continue;
            }
            if let Some(pieces) = self.fits(job) {
                self.start(job, pieces);
                continue;
            }
            let victims = self.victims(job, within, borrowers);
            if !victims.is_empty() {
                for victim in victims {
                    self.stop(victim, Stop::Preempted);
                }
                stopped = true;
                let pieces = self.fits(job).expect("it fits once they are gone");
                self.start(job, pieces);
            } else if strict {
                if self.quota_allows(job, &self.in_phase(Phase::Running)) {
                    break;
                }
                blocked.push(self.vc(job));
            }
        }
        stopped
    }

    pub(super) fn victims(&self, job: usize, within: &[usize], borrowers: &[usize]) -> Vec<usize> {
        if self.policy.preemption == Preemption::Never {
            return Vec::new();
        }
        let running = self.in_phase(Phase::Running);
        let progressed = |other: &usize| self.now - self.jobs[*other].since > self.jobs[*other].owed;
        let mut candidates: Vec<usize> = if self.guaranteed() {
            if !within.contains(&job) {
                return Vec::new();
            }
            borrowers.iter().copied().filter(|other| running.contains(other)).collect()
        } else {
            let key = self.key(job);
            self.sorted(running.iter().copied().filter(|other| progressed(other) && self.key(*other) > key).collect())
        };
        candidates.reverse();
        let fits_without = |gone: &[usize]| {
            let rest: Vec<usize> = running.iter().copied().filter(|other| !gone.contains(other)).collect();
            let mut view = self.empty(false);
            for other in &rest {
                self.take(&mut view, &self.jobs[*other].pieces);
            }
            self.quota_allows(job, &rest) && self.place(&view, job, self.is_relaxed(job)).is_some()
        };
        let Some(count) = (1..=candidates.len()).find(|count| fits_without(&candidates[..*count])) else {
            return Vec::new();
        };
        let mut gone = candidates[..count].to_vec();
        for candidate in candidates[..count].iter().rev() {
            let fewer: Vec<usize> = gone.iter().copied().filter(|other| other != candidate).collect();
            if fits_without(&fewer) {
                gone = fewer;
            }
        }
        gone
    }

    pub(super) fn easy(&mut self, queue: &[usize]) {
        let mut rest = queue.iter().copied();
        let head = loop {
            let Some(job) = rest.next() else { return };
            match self.fits(job) {
                Some(pieces) => self.start(job, pieces),
                None => break job,
            }
        };
        let (head, shadow, mut others) = self.head(head);
        for job in rest {
            self.look_beside(head, shadow, &mut others, job);
        }
    }

    /// A head with its shadow time, and the jobs that still run then.
    pub(super) fn head(&self, head: usize) -> (usize, Option<i64>, Vec<usize>) {
        let running = self.in_phase(Phase::Running);
        let mut ends: Vec<i64> = running.iter().map(|job| self.expected_end(*job)).collect();
        ends.sort_unstable();
        let beside =
            |at: i64| -> Vec<usize> { running.iter().copied().filter(|job| self.expected_end(*job) > at).collect() };
        let shadow = ends.into_iter().find(|at| self.fits_beside(head, &beside(*at)));
        (head, shadow, shadow.map(beside).unwrap_or_default())
    }

    fn fits_beside(&self, head: usize, others: &[usize]) -> bool {
        let mut view = self.empty(false);
        for other in others {
            self.take(&mut view, &self.jobs[*other].pieces);
        }
        self.quota_allows(head, others) && self.place(&view, head, self.is_relaxed(head)).is_some()
    }

    /// Starts a job behind the head if that does not delay it; `others` run at the shadow time, those taken beside the reservation included.
    pub(super) fn look_beside(&mut self, head: usize, shadow: Option<i64>, others: &mut Vec<usize>, job: usize) {
        let Some(pieces) = self.fits(job) else { return };
        let Some(at) = shadow else {
            self.start(job, pieces);
            return;
        };
        if self.now + self.expected_ms(job) <= at {
            self.start(job, pieces);
            return;
        }
        let before = self.jobs[job].clone();
        self.start(job, pieces);
        others.push(job);
        if !self.fits_beside(head, others) {
            others.pop();
            self.jobs[job] = before;
        }
    }

    /// Placements of the running jobs.
    pub(super) fn holding(&self) -> Vec<Holding> {
        let running = self.in_phase(Phase::Running).into_iter();
        running
            .map(|job| {
                let (pieces, amount) = (self.jobs[job].pieces.clone(), self.shape(job).amount());
                (self.now, self.expected_end(job), pieces, self.vc(job), amount)
            })
            .collect()
    }

    pub(super) fn conservative(&mut self, queue: &[usize]) {
        let mut held = self.holding();
        for job in queue.iter().copied().take(self.policy.depth.map_or(usize::MAX, |depth| depth as usize)) {
            self.reserve_conservatively(&mut held, job);
        }
    }

    pub(super) fn reserve_conservatively(&mut self, held: &mut Vec<Holding>, job: usize) {
        let mut moments: Vec<i64> = held.iter().flat_map(|(from, to, ..)| [*from, *to]).chain([self.now]).collect();
        moments.sort_unstable();
        moments.dedup();
        let is_near = |from: &i64| self.policy.window_ms.is_none_or(|window| *from <= self.now + window);
        for from in moments.iter().copied().filter(is_near) {
            let to = from + self.expected_ms(job).max(1);
            let inside = moments.iter().copied().filter(|at| *at == from || (*at > from && *at < to));
            let mut throughout: Option<View> = None;
            let mut allowed = true;
            for at in inside {
                let mut view = self.empty(false);
                let mut used = 0;
                for (_, _, pieces, vc, amount) in held.iter().filter(|(from, to, ..)| *from <= at && at < *to) {
                    self.take(&mut view, pieces);
                    used += if *vc == self.vc(job) { *amount } else { 0 };
                }
                allowed &= self.quota[self.vc(job)].is_none_or(|quota| used + self.shape(job).amount() <= quota);
                throughout = Some(match throughout {
                    None => view,
                    Some(mut known) => {
                        for ((known, _, beside), (view, _, other)) in known.iter_mut().zip(&view) {
                            known.iter_mut().zip(view).for_each(|(known, left)| *known = (*known).min(*left));
                            beside.cores = beside.cores.min(other.cores);
                            beside.memory = beside.memory.min(other.memory);
                        }
                        known
                    }
                });
            }
            let Some(pieces) =
                throughout.filter(|_| allowed).and_then(|view| self.place(&view, job, self.is_relaxed(job)))
            else {
                continue;
            };
            if from == self.now {
                self.start(job, pieces.clone());
            }
            held.push((from, to, pieces, self.vc(job), self.shape(job).amount()));
            break;
        }
    }
}
