//! How long jobs wait in a replay of a setup, and what that is worth.
//!
//! **Wait** is that of [`times`](crate::replay::metric::times): what a job loses when it is stopped, or a node fails, counts. What a setup costs is for the [objective](super::objective) to say, from what is
//! measured here: waits, how the VC that fares worst fares, how far starts are from what could be told, and GPU time held. It is found for the earlier time as a whole and for each third of it.
//!
//! O(jobs log jobs) a setup. Worked number: a VC that waits 9 min on average and would wait 4 on nodes of its own fares (9 + 1) / (4 + 1) = 2 times as badly.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tracecast_analytics::stats::quantile::quantiles_in_place;

use super::objective::{JobWaits, MINUTE_S, Measured, Objective};
use super::setup::Scene;
use super::told;
use crate::error::Result;
use crate::plan::incentive::{FEWEST_OF_VC, is_longer};
use crate::plan::interval::average;
use crate::replay::compare::{self, Comparison, Merit};
use crate::replay::metric::JobTimes;
use crate::sim::{Cluster, Estimate, Outcome, Policy, Schedule, Workload, simulate};

/// The quantile of the wait that counts beside the mean.
const TAIL: f64 = 0.95;
/// Seed of the bootstrap.
const SEED: u64 = 1;
/// Parts of the earlier time that a setup has to stand in.
pub(super) const WINDOWS: usize = 3;
/// GPUs of the largest job of each class of size but the last.
const CLASSES: [f64; 2] = [1.0, 8.0];

/// Times of each job in a replay.
pub(super) struct Times {
    of: JobTimes,
    /// Whether it was stopped for another.
    stopped: Vec<bool>,
    /// How far starts are from what these jobs could be told, milliseconds; empty if nobody asked.
    told_error_ms: BTreeMap<usize, i64>,
}

impl Times {
    /// A replay.
    pub(super) fn run(workload: &Workload, cluster: &Cluster, policy: &Policy) -> Result<Self> {
        Self::scheduled(workload, &simulate(workload, cluster, policy)?)
    }

    fn scheduled(workload: &Workload, schedule: &Schedule) -> Result<Self> {
        let times = JobTimes::new(workload, schedule)?;
        let stopped = schedule.preemptions.iter().map(|stops| *stops > 0).collect();
        Ok(Self { of: times, stopped, told_error_ms: BTreeMap::new() })
    }

    /// A replay of what was prepared.
    pub(super) fn of(scene: &Scene<'_>) -> Result<Self> {
        Self::run(&scene.workload, &scene.cluster, &scene.policy)
    }

    /// Replays a scene, with the errors of the starts estimated for `jobs` by what is known of
    /// runs.
    pub(super) fn telling(scene: &Scene<'_>, estimate: Estimate, jobs: &[usize]) -> Result<Self> {
        let schedule = simulate(&scene.workload, &scene.cluster, &scene.policy)?;
        let told_error_ms = told::errors_ms(scene, &schedule, estimate, jobs)?.into_iter().collect();
        Ok(Self { told_error_ms, ..Self::scheduled(&scene.workload, &schedule)? })
    }

    /// How many of some jobs were stopped for others, and what those held beyond their runs, GPU-hours.
    pub(super) fn stopped(&self, workload: &Workload, jobs: &[usize]) -> (usize, f64) {
        let stopped: Vec<usize> = jobs.iter().copied().filter(|job| self.stopped.get(*job) == Some(&true)).collect();
        let lost = |job: &usize| Some(workload.shape_of(*job).as_gpus() * *self.of.lost_ms.get(*job)? as f64 / 3.6e6);
        (stopped.len(), stopped.iter().filter_map(lost).sum())
    }

    pub(super) fn wait_ms(&self, job: usize) -> Option<i64> {
        self.of.wait_ms(job)
    }

    /// Waits of those of some jobs that ran.
    pub(super) fn waited(&self, jobs: &[usize]) -> Option<JobWaits> {
        let mut waits: Vec<f64> = jobs.iter().filter_map(|job| Some(self.wait_ms(*job)? as f64 / 1e3)).collect();
        let (jobs, mean_wait_s) = (waits.len(), average(waits.iter().copied()));
        let &[Some(median_wait_s), Some(p95_wait_s)] = quantiles_in_place(&mut waits, &[0.5, TAIL]).as_slice() else {
            return None;
        };
        Some(JobWaits { jobs, merit: Merit { mean_wait_s, p95_wait_s }, median_wait_s })
    }

    /// How far the starts of those of some jobs that were told one are from it, on average, seconds.
    pub(super) fn told_error_s(&self, jobs: &[usize]) -> Option<f64> {
        let told: Vec<f64> =
            jobs.iter().filter_map(|job| self.told_error_ms.get(job)).map(|error| *error as f64 / 1e3).collect();
        (!told.is_empty()).then(|| average(told.iter().copied()))
    }

    /// GPU time held, GPU-seconds.
    pub(super) fn held_gpu_s(&self, workload: &Workload, jobs: &[usize]) -> f64 {
        let held = |job: &usize| Some(workload.shape_of(*job).as_gpus() * *self.of.held_ms.get(*job)? as f64 / 1e3);
        jobs.iter().filter_map(held).sum()
    }

    /// How the VC that fares worst fares beside `private`.
    pub(super) fn worst_vc(&self, private: &Self, workload: &Workload, jobs: &[usize]) -> Option<f64> {
        let of = |jobs: &Vec<usize>| -> Option<f64> {
            let (here, alone) = (self.waited(jobs)?.merit.mean_wait_s, private.waited(jobs)?.merit.mean_wait_s);
            Some((here + MINUTE_S) / (alone + MINUTE_S))
        };
        let judged = by_vc(workload, jobs).into_values().filter(|jobs| jobs.len() >= FEWEST_OF_VC);
        judged.filter_map(|jobs| of(&jobs)).reduce(f64::max)
    }

    /// Measures of some jobs that an objective looks at; `None` if none ran.
    pub(super) fn measured(
        &self,
        objective: &Objective,
        private: &Self,
        workload: &Workload,
        jobs: &[usize],
    ) -> Option<Measured> {
        Some(Measured {
            waits: self.waited(jobs)?,
            worst_vc: if objective.is_fair() { self.worst_vc(private, workload, jobs) } else { None },
            told_error_s: self.told_error_s(jobs),
            held_gpu_s: self.held_gpu_s(workload, jobs),
        })
    }

    /// Jobs that it counts, by position, submitted from `from` until `to`.
    pub(super) fn counted(&self, workload: &Workload, from: i64, to: i64) -> Vec<usize> {
        let within = |job: &usize| workload.submit_ms.get(*job).is_some_and(|submit| (from..to).contains(submit));
        (0..workload.len()).filter(within).filter(|job| self.wait_ms(*job).is_some()).collect()
    }

    /// Rows of some jobs alone, to be compared.
    fn rows(&self, jobs: &[usize]) -> JobTimes {
        JobTimes::of_rows(jobs.iter().map(|job| {
            let outcome = self.of.outcome.get(*job).copied().unwrap_or(Outcome::Stranded);
            let jct = self.of.jct_ms.get(*job).copied().flatten();
            (outcome, self.of.is_counted(*job), jct.zip(self.wait_ms(*job)))
        }))
    }
}

/// Jobs by VC.
pub(super) fn by_vc(workload: &Workload, jobs: &[usize]) -> BTreeMap<usize, Vec<usize>> {
    let mut result: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for job in jobs {
        result.entry(workload.vc.get(*job).copied().map_or(0, usize::from)).or_default().push(*job);
    }
    result
}

/// Compares on some jobs alone: the first with the others.
pub(super) fn compared(workload: &Workload, jobs: &[usize], of: &[(&str, &Times)]) -> Result<Comparison> {
    let at: Vec<u32> = jobs.iter().filter_map(|job| u32::try_from(*job).ok()).collect();
    let mut part = workload.only(&at);
    (part.warm, part.unfinished) = (Vec::new(), Vec::new());
    let rows: Vec<(&str, JobTimes)> = of.iter().map(|(name, times)| (*name, times.rows(jobs))).collect();
    let named: Vec<(&str, &JobTimes)> = rows.iter().map(|(name, times)| (*name, times)).collect();
    Ok(compare::compare(&part, &named, SEED)?)
}

/// Outcome of a setup in the earlier time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EarlierOutcome {
    /// Waits of the earlier jobs.
    pub waits: JobWaits,
    /// Cost; today's is 1.
    pub cost: f64,
    /// Cost in each third of the earlier time with at least 20 jobs.
    pub by_window: Vec<f64>,
    /// VCs that the incentive was broken for, by position.
    pub wronged: Vec<usize>,
    /// Whether every job ran that runs today.
    pub complete: bool,
}

impl EarlierOutcome {
    /// Whether the setup may be chosen.
    pub fn is_allowed(&self) -> bool {
        self.complete && self.wronged.is_empty()
    }

    /// Mean cost over the thirds.
    pub fn mean_cost(&self) -> f64 {
        average(self.by_window.iter().copied())
    }
}

/// Jobs by class of size, if the objective asks for classes, each with at least 20 jobs and with what is measured of them today.
pub(super) struct Classes(Vec<(Vec<usize>, Measured)>);

impl Classes {
    /// Classes of some jobs; the replays are those on private nodes and today.
    pub(super) fn new(
        objective: &Objective,
        workload: &Workload,
        (private, today): (&Times, &Times),
        jobs: &[usize],
    ) -> Self {
        let class = |job: usize| match objective.is_by_class() {
            true => CLASSES.partition_point(|most| workload.shape_of(job).as_gpus() > *most),
            false => 0,
        };
        let mut by_class: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        jobs.iter().for_each(|job| by_class.entry(class(*job)).or_default().push(*job));
        let large = by_class.into_values().filter(|jobs| jobs.len() >= FEWEST_OF_VC);
        let measured = |jobs: Vec<usize>| {
            let measured = today.measured(objective, private, workload, &jobs)?;
            Some((jobs, measured))
        };
        Self(large.filter_map(measured).collect())
    }

    /// Cost of a replay on these jobs, where today's is 1; `None` if there are too few.
    pub(super) fn cost(
        &self,
        objective: &Objective,
        workload: &Workload,
        (private, times): (&Times, &Times),
    ) -> Option<f64> {
        let of = |(jobs, today): &(Vec<usize>, Measured)| {
            Some(objective.cost(&times.measured(objective, private, workload, jobs)?, today))
        };
        (!self.0.is_empty()).then(|| average(self.0.iter().filter_map(of)))
    }
}

/// What setups are held against in the earlier time.
pub(super) struct Yardstick<'a> {
    workload: &'a Workload,
    objective: Objective,
    private: Times,
    /// Jobs that run today, by position.
    of_today: Vec<usize>,
    /// Jobs that run today and on private nodes, by position.
    pub(super) jobs: Vec<usize>,
    halves: [Vec<usize>; 2],
    /// Whether several VCs share the nodes, so that one may be wronged.
    is_shared: bool,
    /// Jobs of the whole time and of each third.
    classes: Vec<Classes>,
}

impl<'a> Yardstick<'a> {
    /// One for jobs that come in a stretch of time.
    pub(super) fn new(
        workload: &'a Workload,
        ((from_ms, to_ms), objective): ((i64, i64), &Objective),
        (private, today): (Times, &Times),
        is_shared: bool,
    ) -> Self {
        let of_today = today.counted(workload, i64::MIN, i64::MAX);
        let jobs: Vec<usize> = of_today.iter().copied().filter(|job| private.wait_ms(*job).is_some()).collect();
        let between = |from: i64, to: i64| -> Vec<usize> {
            let within = |job: &&usize| workload.submit_ms.get(**job).is_some_and(|submit| (from..to).contains(submit));
            jobs.iter().filter(within).copied().collect()
        };
        let half = from_ms + (to_ms - from_ms) / 2;
        let halves = [(i64::MIN, half), (half, i64::MAX)].map(|(from, to)| between(from, to));
        let third = (to_ms - from_ms) / WINDOWS as i64;
        let (first, second) = (from_ms + third, from_ms + 2 * third);
        let mut windows = vec![jobs.clone(), between(i64::MIN, first), between(first, second)];
        windows.push(between(second, i64::MAX));
        let classes = windows.iter().map(|jobs| Classes::new(objective, workload, (&private, today), jobs)).collect();
        Self { workload, objective: objective.clone(), private, of_today, jobs, halves, is_shared, classes }
    }

    /// How a setup did.
    pub(super) fn judge(&self, times: &Times) -> EarlierOutcome {
        let mut wronged: Vec<usize> = self.halves.iter().flat_map(|half| self.wronged(half, times)).collect();
        wronged.sort_unstable();
        wronged.dedup();
        let mut costs = self.classes.iter().map(|of| of.cost(&self.objective, self.workload, (&self.private, times)));
        EarlierOutcome {
            waits: times.waited(&self.jobs).unwrap_or(JobWaits::NONE),
            cost: costs.next().flatten().unwrap_or(1.0),
            by_window: costs.flatten().collect(),
            wronged,
            complete: self.of_today.iter().all(|job| times.wait_ms(*job).is_some()),
        }
    }

    /// VCs that wait longer than on nodes of their own, by position.
    fn wronged(&self, jobs: &[usize], times: &Times) -> Vec<usize> {
        let mut result = Vec::new();
        if !self.is_shared {
            return result;
        }
        for (vc, jobs) in by_vc(self.workload, jobs) {
            let (Some(waits), Some(private)) = (times.waited(&jobs), self.private.waited(&jobs)) else { continue };
            if jobs.len() >= FEWEST_OF_VC && is_longer(&waits.merit, &private.merit) {
                result.push(vc);
            }
        }
        result
    }
}
