//! Kueue's admission in the plainest way, from the rules that `tracecast_planner::sim::scan::kueue` and `tracecast_planner::sim::cohort` state:
//! quotas, borrowing and shares are summed anew from the jobs that run at every question.
//!
//! Worked number: see those pages.

mod fair;
mod stop;
mod tree;

use tracecast_planner::sim::cohort::{Cohorts, Queueing, Reclaim};
use tracecast_planner::sim::{Key, Piece, Preemption, Scan, Shape, Stop};

use self::tree::{Held, Tree};
use super::{Phase, Pool};

/// Number of stops after which a job is left alone.
const MOST_STOPS: u32 = 100;

/// Result that a flavor promises, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Mode {
    Fit,
    Reclaim,
    Preempt,
    NoCandidates,
    NoFit,
}

/// A head with the flavor that suits it best.
#[derive(Debug, Clone)]
struct Nominated {
    job: usize,
    mode: Mode,
    flavor: usize,
    level: usize,
    borrows: bool,
    victims: Vec<usize>,
    /// Whether jobs that have done nothing yet might be stopped for it.
    early: bool,
}

/// Priority (highest first), key, submission: lowest first.
type Standing = (i64, Key, i64, usize);
/// Order in the queue: what the user has used of it, where that counts, then the [`Standing`].
type InQueue = (Key, Standing);

impl Pool<'_> {
    /// The cohorts, if admission is Kueue's.
    pub(super) fn cohorts(&self) -> Option<&Cohorts> {
        self.cluster.cohorts.as_ref().filter(|_| self.policy.scan == Scan::Kueue)
    }

    /// Looks again at the jobs that were set aside.
    pub(super) fn look_again(&mut self) {
        self.jobs.iter_mut().for_each(|job| job.aside = false);
    }

    pub(super) fn priority(&self, job: usize) -> i64 {
        self.workload.priority.get(job).copied().map_or(0, i64::from)
    }

    pub(super) fn amount(&self, job: usize) -> i128 {
        i128::from(self.shape(job).amount())
    }

    /// The job's shape on the nodes of a flavor, unless it wants others.
    fn shape_with(&self, cohorts: &Cohorts, job: usize, flavor: usize) -> Option<Shape> {
        let shape = self.shape(job);
        match (shape.gpu_type, cohorts.flavors()[flavor].gpu_type) {
            (Some(wanted), Some(has)) if wanted != has => None,
            (wanted, has) => Some(Shape { gpu_type: wanted.or(has), ..shape }),
        }
    }

    /// Rejected is a job for which no flavor of its queue has potential and nodes.
    pub(super) fn is_ever_admitted(&self, cohorts: &Cohorts, job: usize) -> bool {
        let queue = self.vc(job);
        cohorts.rules()[queue].flavors.iter().map(|flavor| usize::from(*flavor)).any(|flavor| {
            let enough = Tree(cohorts).potential(queue, flavor) >= self.amount(job);
            let shape = self.shape_with(cohorts, job, flavor);
            enough && shape.is_some_and(|shape| self.place_as(&self.empty(true), job, shape, true).is_some())
        })
    }

    /// The first flavor with which a job that runs at time 0 fits, which it takes.
    pub(super) fn flavored(&mut self, job: usize) -> Option<Vec<Piece>> {
        let cohorts = self.cohorts()?;
        let flavors = cohorts.rules()[self.vc(job)].flavors.iter().map(|flavor| usize::from(*flavor));
        let held = self.held_by(&self.in_phase(Phase::Running));
        let mut result = flavors.filter_map(|flavor| Some((flavor, self.fits_with(cohorts, job, flavor, &[], &held)?)));
        let (flavor, pieces) = result.next()?;
        self.jobs[job].flavor = Some(flavor);
        Some(pieces)
    }

    fn held_by(&self, jobs: &[usize]) -> Held {
        jobs.iter().filter_map(|job| Some((self.vc(*job), self.jobs[*job].flavor?, self.amount(*job)))).collect()
    }

    /// GPUs held by the running jobs, but for `gone`.
    fn held_without(&self, gone: &[usize]) -> Held {
        let rest: Vec<usize> = self.in_phase(Phase::Running).into_iter().filter(|job| !gone.contains(job)).collect();
        self.held_by(&rest)
    }

    /// The GPUs a job gets with a flavor, once `gone` are gone and `held` is what is used.
    fn fits_with(
        &self,
        cohorts: &Cohorts,
        job: usize,
        flavor: usize,
        gone: &[usize],
        held: &Held,
    ) -> Option<Vec<Piece>> {
        if Tree(cohorts).available(held, self.vc(job), flavor) < self.amount(job) {
            return None;
        }
        let mut view = self.empty(false);
        for other in self.in_phase(Phase::Running) {
            if !gone.contains(&other) {
                self.take(&mut view, &self.jobs[other].pieces);
            }
        }
        self.place_as(&view, job, self.shape_with(cohorts, job, flavor)?, self.is_relaxed(job))
    }

    /// Usage of its queue by the job's user, if the queue goes by it.
    fn used_of_queue(&self, cohorts: &Cohorts, job: usize) -> Key {
        let (queue, user) = (self.vc(job), self.workload.user[job]);
        let Some(half_life_ms) = cohorts.rules()[queue].usage_half_life_ms else { return Key(0) };
        let same = |other: usize| self.vc(other) == queue && self.workload.user[other] == user;
        Key::new(self.decayed_gpu_s(same, half_life_ms))
    }

    /// Makes one decision; returns whether another is due in a second.
    pub(super) fn kueue(&mut self) -> bool {
        let cohorts = self.cohorts().expect("this scan needs cohorts").clone();
        let waiting = self.in_phase(Phase::Waiting);
        let standing = |job: usize| (-self.priority(job), self.key(job), self.workload.submit_ms[job], job);
        let used = |job: usize| self.used_of_queue(&cohorts, job);
        let mut queue: Vec<InQueue> = waiting.iter().map(|job| (used(*job), standing(*job))).collect();
        queue.sort();
        let mut stopped: Vec<usize> = Vec::new();
        let mut early: Vec<usize> = Vec::new();
        loop {
            let changed = self.cycle(&cohorts, &queue, &mut stopped, &mut early);
            self.moved = changed;
            if !changed || self.policy.interval_ms.is_some() {
                break;
            }
        }
        for job in &early {
            self.jobs[*job].aside = false;
        }
        if !stopped.is_empty() {
            self.look_again();
        }
        !stopped.is_empty() || !early.is_empty()
    }

    /// Runs one cycle; returns whether it started a job or set one aside.
    fn cycle(
        &mut self,
        cohorts: &Cohorts,
        queue: &[InQueue],
        stopped: &mut Vec<usize>,
        early: &mut Vec<usize>,
    ) -> bool {
        let tree = Tree(cohorts);
        let is_head = |(_, standing): &&InQueue, of: usize| {
            let job = standing.3;
            let waits = self.jobs[job].phase == Phase::Waiting && !stopped.contains(&job);
            self.vc(job) == of && waits && !self.jobs[job].aside
        };
        let heads = (0..cohorts.rules().len()).filter_map(|of| queue.iter().find(|standing| is_head(standing, of)));
        let mut left: Vec<(Standing, Nominated)> =
            heads.map(|(_, standing)| (*standing, self.nominate(cohorts, standing.3))).collect();
        let mut kept: Held = Vec::new();
        let mut gone: Vec<usize> = Vec::new();
        let mut changed = false;
        while !left.is_empty() {
            let next = if cohorts.fair().is_some() {
                let held: Held = [self.held_without(&[]), kept.clone()].concat();
                self.next_by_share(tree, &held, &left)
            } else {
                (0..left.len()).min_by_key(|at| (left[*at].1.level, left[*at].0)).unwrap()
            };
            let (_, head) = left.remove(next);
            let Nominated { job, flavor, .. } = head;
            let of = self.vc(job);
            match head.mode {
                Mode::Fit | Mode::Reclaim | Mode::Preempt => {
                    if head.victims.iter().any(|victim| gone.contains(victim)) {
                        continue;
                    }
                    let held: Held = [self.held_without(&head.victims), kept.clone()].concat();
                    let Some(pieces) = self.fits_with(cohorts, job, flavor, &head.victims, &held) else { continue };
                    for victim in head.victims {
                        self.stop(victim, Stop::Preempted);
                        gone.push(victim);
                        stopped.push(victim);
                    }
                    self.start(job, pieces);
                    self.jobs[job].flavor = Some(flavor);
                    changed = true;
                }
                Mode::NoCandidates | Mode::NoFit => {
                    let rules = &cohorts.rules()[of];
                    if head.mode == Mode::NoCandidates && rules.reclaim != Reclaim::Any {
                        let held: Held = [self.held_without(&[]), kept.clone()].concat();
                        let quota = tree.quota(of, flavor);
                        let usage = tree.usage(&held, of, flavor);
                        let most = match quota.borrowing_limit {
                            _ if !head.borrows => i128::from(quota.nominal) - usage,
                            Some(limit) => i128::from(quota.nominal) + i128::from(limit) - usage,
                            None => self.amount(job),
                        };
                        kept.push((of, flavor, most.min(self.amount(job)).max(0)));
                    }
                    if head.early && !early.contains(&job) {
                        early.push(job);
                    }
                    if rules.strategy == Queueing::BestEffort {
                        self.jobs[job].aside = true;
                        changed = true;
                    }
                }
            }
        }
        changed
    }

    /// The flavor that suits a head best.
    fn nominate(&self, cohorts: &Cohorts, job: usize) -> Nominated {
        let queue = self.vc(job);
        let rules = &cohorts.rules()[queue];
        let mut tried: Vec<Nominated> = Vec::new();
        for flavor in rules.flavors.iter().map(|flavor| usize::from(*flavor)) {
            let of = self.nominate_with(cohorts, job, flavor);
            let ends = match of.mode {
                Mode::Fit => !of.borrows || !rules.next_before_borrowing,
                Mode::Reclaim | Mode::Preempt => {
                    !rules.next_before_preempting && (!rules.next_before_borrowing || !of.borrows)
                }
                Mode::NoCandidates | Mode::NoFit => false,
            };
            tried.push(of);
            if ends {
                break;
            }
        }
        let early = tried.iter().any(|of| of.early);
        // Of equals the first.
        let best =
            tried.into_iter().min_by_key(|of| (of.mode, of.level)).expect("a queue without flavors admits nobody");
        Nominated { early, ..best }
    }

    fn nominate_with(&self, cohorts: &Cohorts, job: usize, flavor: usize) -> Nominated {
        let tree = Tree(cohorts);
        let (queue, amount) = (self.vc(job), self.amount(job));
        let rules = &cohorts.rules()[queue];
        let held = self.held_without(&[]);
        let with_job = |held: &Held| -> Held { [held.clone(), vec![(queue, flavor, amount)]].concat() };
        let judged = |mode: Mode, held: &Held, victims: Vec<usize>, early: bool| {
            let after = with_job(held);
            let borrows = tree.borrows(&after, queue, flavor);
            Nominated { job, mode, flavor, level: tree.level(&after, queue, flavor), borrows, victims, early }
        };
        if self.shape_with(cohorts, job, flavor).is_none() || amount > tree.potential(queue, flavor) {
            return judged(Mode::NoFit, &held, Vec::new(), false);
        }
        if self.fits_with(cohorts, job, flavor, &[], &held).is_some() {
            return judged(Mode::Fit, &held, Vec::new(), false);
        }
        let lacks = tree.available(&held, queue, flavor) < amount;
        let nominal = i128::from(tree.quota(queue, flavor).nominal);
        let fair = cohorts.fair().is_some() && rules.reclaim != Reclaim::Never;
        let rights = amount <= nominal
            || tree.is_within_a_part(&with_job(&held), queue, flavor)
            || rules.borrow_within.is_some()
            || fair;
        if lacks && !rights {
            return judged(Mode::NoFit, &held, Vec::new(), false);
        }
        let victims = match cohorts.fair() {
            Some(strategies) => self.stops_by_share(cohorts, job, flavor, strategies),
            None => self.stops(cohorts, job, flavor),
        };
        if victims.is_empty() {
            let early = self.candidates(cohorts, job, flavor, false).iter().any(|other| !self.has_progressed(*other));
            return judged(if lacks { Mode::NoCandidates } else { Mode::NoFit }, &held, victims, early);
        }
        let mode = {
            let after = with_job(&self.held_without(&victims));
            let others = victims.iter().all(|victim| self.vc(*victim) != queue);
            if others && !tree.borrows(&after, queue, flavor) { Mode::Reclaim } else { Mode::Preempt }
        };
        judged(mode, &self.held_without(&victims), victims, false)
    }

    fn has_progressed(&self, job: usize) -> bool {
        self.now - self.jobs[job].since > self.jobs[job].owed
    }

    fn may_be_stopped(&self, job: usize, flavor: usize, progressed: bool) -> bool {
        let state = &self.jobs[job];
        self.policy.preemption != Preemption::Never
            && state.flavor == Some(flavor)
            && state.fate.preemptions < MOST_STOPS
            && (!progressed || self.has_progressed(job))
    }
}
