//! The later jobs: what each way did to them, job by job beside today and nodes of one's own, and the simplest way that does as well as the best.
//!
//! A way is **followed** if the later jobs clearly wait less than today and cost less by the objective, all of them run, and no VC has a 95 % wait beyond its interval
//! longer than on nodes of its own, which of one VC alone is not asked. Allowed ways that are better than today on the earlier jobs and have less to set than the best are looked at by how little that is,
//! of as little the one that was best on the earlier jobs alone. The first that would be followed, that costs no more than the best by the margin, and that the best is not better than by more than chance (its
//! waits less theirs, job by job, have an interval that holds none) is chosen; where the best wrongs a VC or cannot run all jobs, the first that would be followed. So the later jobs choose nothing but less change, which flatters
//! what they say of it a little.
//!
//! O(kinds of change) replays and comparisons at most, after those of the ways. Worked number: where the best waits 222 s with shares, reclaiming and another order, and one plain pool 77 s, the pool is chosen.

use rayon::prelude::*;

use super::{FEWEST_JOBS, LaterOutcome, TriedSetup, VcOutcome, too_few};
use crate::error::{Error, Result};
use crate::plan::incentive::FEWEST_OF_VC;
use crate::plan::{WORTH, worth};
use crate::queues::measure::{Classes, Times, by_vc, compared};
use crate::queues::objective::{JobWaits, Measured, Objective};
use crate::queues::setup::{Ground, Setup};
use crate::queues::trial::{MARGIN, times, told_of};
use crate::replay::compare::{Comparison, Difference};
use crate::sim::{Policy, Workload};

/// The later jobs, and what they are held against.
pub(super) struct Later<'a> {
    workload: &'a Workload,
    ground: Ground<'a>,
    objective: &'a Objective,
    told: Vec<usize>,
    classes: Classes,
    /// Jobs that run today, by position.
    of_today: Vec<usize>,
    /// Jobs that run today and on private nodes, by position.
    pub(super) jobs: Vec<usize>,
    pub(super) private: Times,
    pub(super) today: Times,
}

/// A way on the later jobs.
pub(super) struct Tested {
    /// Change against today, of this setup and of the best with hindsight.
    pub(super) change: Comparison,
    pub(super) by_vc: Vec<VcOutcome>,
    pub(super) is_followed: bool,
}

impl<'a> Later<'a> {
    /// Collects the jobs submitted from `split_ms` on.
    ///
    /// # Errors
    /// If they are too few, or a policy does not go with the jobs.
    pub(super) fn new(
        workload: &'a Workload,
        (ground, objective): (Ground<'a>, &'a Objective),
        (private, today): (&Setup, &Setup),
        split_ms: i64,
    ) -> Result<Self> {
        let told = told_of(workload, split_ms, objective);
        let private = times(&ground, private, workload, &[])?;
        let today = times(&ground, today, workload, &told)?;
        let of_today = today.counted(workload, split_ms, i64::MAX);
        let jobs: Vec<usize> = of_today.iter().copied().filter(|job| private.wait_ms(*job).is_some()).collect();
        if jobs.len() < FEWEST_JOBS {
            return too_few("after", jobs.len(), workload.len());
        }
        let classes = Classes::new(objective, workload, (&private, &today), &jobs);
        Ok(Self { workload, ground, objective, told, classes, of_today, jobs, private, today })
    }

    /// Replays all jobs.
    pub(super) fn replayed(&self, setup: &Setup) -> Result<Times> {
        times(&self.ground, setup, self.workload, &self.told)
    }

    /// Replays all jobs, none of which is told when it would start.
    pub(super) fn replayed_untold(&self, setup: &Setup) -> Result<Times> {
        times(&self.ground, setup, self.workload, &[])
    }

    /// Outcome of a replay on these jobs.
    pub(super) fn outcome(&self, times: &Times) -> LaterOutcome {
        let (workload, private) = (self.workload, &self.private);
        let measured = times.measured(self.objective, private, workload, &self.jobs).unwrap_or(Measured::NONE);
        let (stopped, lost_gpu_hours) = times.stopped(workload, &self.jobs);
        LaterOutcome {
            waits: measured.waits,
            measured,
            cost: self.classes.cost(self.objective, workload, (private, times)).unwrap_or(1.0),
            cannot_run: self.of_today.iter().filter(|job| times.wait_ms(**job).is_none()).count(),
            stopped,
            lost_gpu_hours,
        }
    }

    /// Whether what was told of a way is what a replay of it says.
    pub(super) fn is_told_so(&self, of: &TriedSetup, times: &Times) -> bool {
        of.later.waits == times.waited(&self.jobs).unwrap_or(JobWaits::NONE)
    }

    /// Jobs that run in each of some replays.
    fn ran(&self, all: &[&Times]) -> Vec<usize> {
        let runs = |job: &usize| all.iter().all(|times| times.wait_ms(*job).is_some());
        self.jobs.iter().copied().filter(runs).collect()
    }

    /// A replay less `other`, job by job; `None` if no job ran in both.
    fn less(&self, times: &Times, other: &Times) -> Result<Option<Difference>> {
        let named = [("other", other), ("this", times)];
        Ok(compared(self.workload, &self.ran(&[times, other]), &named)?.differences.into_iter().next())
    }

    /// A replay less today.
    pub(super) fn beside_today(&self, times: &Times) -> Result<Option<Difference>> {
        self.less(times, &self.today)
    }

    /// Holds a way against today, the best with hindsight and nodes of one's own.
    fn test(&self, tried: &TriedSetup, times: &Times, ideal: &Times) -> Result<Tested> {
        let ran = self.ran(&[times, ideal]);
        let change = compared(self.workload, &ran, &[("today", &self.today), ("chosen", times), ("hindsight", ideal)])?;
        let of_vcs: Result<Vec<VcOutcome>> = by_vc(self.workload, &ran)
            .into_par_iter()
            .map(|(vc, jobs)| {
                let named = [("private", &self.private), ("chosen", times)];
                let change = match jobs.len() >= FEWEST_OF_VC {
                    true => compared(self.workload, &jobs, &named)?.differences.into_iter().next(),
                    false => None,
                };
                let of = |times: &Times| times.waited(&jobs).unwrap_or(JobWaits::NONE);
                Ok(VcOutcome { vc, today: of(&self.today), private: of(&self.private), chosen: of(times), change })
            })
            .collect();
        let by_vc = of_vcs?;
        let is_followed = tried.later.cost < 1.0
            && tried.later.cannot_run == 0
            && !self.is_wronged(&by_vc)
            && change.differences.first().is_some_and(|change| self.is_worth(tried, change));
        Ok(Tested { change, by_vc, is_followed })
    }

    /// Whether a VC waits longer than on nodes of its own, where there are others to share with.
    fn is_wronged(&self, by_vc: &[VcOutcome]) -> bool {
        self.ground.is_shared() && by_vc.iter().any(VcOutcome::is_wronged)
    }

    /// Whether a change from today is worth making.
    fn is_worth(&self, tried: &TriedSetup, change: &Difference) -> bool {
        let base = self.today.waited(&self.jobs).unwrap_or(JobWaits::NONE).merit;
        if self.objective.is_of_the_tail() {
            worth(-change.p95_wait_s.value, -change.p95_wait_s.high, base.p95_wait_s)
        } else if self.objective.is_of_waits() {
            worth(-change.mean_wait_s.value, -change.mean_wait_s.high, base.mean_wait_s)
        } else {
            // There is no interval for a cost that is no wait: it has to be less on the later jobs
            // as well, and nobody may wait longer for it.
            tried.later.cost <= 1.0 - WORTH && change.mean_wait_s.low <= 0.0
        }
    }

    /// The position of the best, or of the simplest of `tried` that does as well, and how that stands. `contradicted` is said where a replay of the best is not what a journal tells.
    ///
    /// # Errors
    /// If that is so, or a policy does not go with the jobs.
    pub(super) fn simplest(
        &self,
        (best, of_best, tried): (usize, &TriedSetup, &[TriedSetup]),
        (ideal, today): (&Times, &Policy),
        contradicted: &dyn Fn() -> Error,
    ) -> Result<(usize, Tested)> {
        let times = self.replayed_untold(&of_best.setup)?;
        if !self.is_told_so(of_best, &times) {
            return Err(contradicted());
        }
        let tested = self.test(of_best, &times, ideal)?;
        let misses = of_best.later.cannot_run > 0 || self.is_wronged(&tested.by_vc);
        if !(tested.is_followed || misses) || !self.objective.is_of_waits() {
            return Ok((best, tested));
        }
        let plainness = |tried: &TriedSetup| tried.setup.plainness(today);
        let is_simpler = |(at, other): &(usize, &TriedSetup)| {
            let is_better = *at > 0 && other.is_allowed() && other.earlier.mean_cost() < 1.0;
            is_better && plainness(other) < plainness(of_best)
        };
        let mut simpler: Vec<(usize, &TriedSetup)> = tried.iter().enumerate().filter(is_simpler).collect();
        simpler.sort_by(|a, b| {
            plainness(a.1).cmp(&plainness(b.1)).then(a.1.earlier.mean_cost().total_cmp(&b.1.earlier.mean_cost()))
        });
        simpler.dedup_by(|a, b| plainness(a.1) == plainness(b.1));
        for (at, other) in simpler {
            let of_other = self.replayed_untold(&other.setup)?;
            let beaten = || -> Result<bool> {
                let costs_more = other.later.cost > of_best.later.cost * (1.0 + MARGIN.0) + MARGIN.1;
                let less = self.less(&times, &of_other)?;
                Ok(costs_more || less.is_none_or(|less| self.objective.is_clearly_less(&less)))
            };
            if !misses && beaten()? {
                continue;
            }
            let tested = self.test(other, &of_other, ideal)?;
            if tested.is_followed {
                return Ok((at, tested));
            }
        }
        Ok((best, tested))
    }
}
