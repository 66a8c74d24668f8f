//! Policies tried on a window of a trace: what each costs a job that begins with it, beside the omniscient optimum.
//!
//! Where the work is uncertain, nobody knows the amount before it is done, so that jobs of all amounts hold the same until they are: the policy is followed once, for the top, and each run and the cost
//! of all on-demand is a mean over the [amounts](WorkDistribution::amounts). So it is with elastic jobs.
//!
//! O(programmes + optima). Worked number: 48 h of work in ticks of 195 s takes about a quarter of a second a window for three deadlines.

use rayon::prelude::*;
use tracecast_analytics::watch::{self, Watch};

use super::job::{DeadlineJob, Holding, JobRun};
use super::optimum::{optima, optimum};
use super::policy::{CloudPolicy, Lessons, lanes_pilot, lanes_programmes, relative};
use super::work::WorkDistribution;
use crate::cloud::elastic::optimum::{lanes_optima, lanes_optimum, whole, whole_among};
use crate::cloud::elastic::{LanesPilot, ride_held, ride_lanes, ride_misled, ride_uncertain};
use crate::error::Result;
use crate::market::price::ZonePrice;
use crate::plan::window::Window;

/// Cost of a window under each policy, for one job.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    /// Each policy that was tried, and what became of it.
    pub runs: Vec<(CloudPolicy, JobRun)>,
    /// Cost of all on-demand: spot milliseconds, or dollars over several zones.
    pub on_demand: f64,
}

impl Attempt {
    /// The run of a policy.
    pub fn run(&self, policy: CloudPolicy) -> JobRun {
        self.runs.iter().find(|(of, _)| *of == policy).map(|(_, run)| *run).unwrap_or_default()
    }

    /// Cost of a policy as a share of all on-demand.
    pub fn share(&self, policy: CloudPolicy) -> f64 {
        self.run(policy).cost / self.on_demand
    }

    /// Cost of a policy above that of the optimum, as a share of the optimum.
    pub fn over_omniscient(&self, policy: CloudPolicy) -> f64 {
        self.run(policy).cost / self.run(CloudPolicy::Omniscient).cost - 1.0
    }
}

/// What is known of an uncertain work, and whether programmes plan on it or on its top. Only of a job in one zone.
#[derive(Debug, Clone, Copy)]
pub(super) struct Told<'a> {
    /// Distribution of the work.
    pub(super) work: &'a WorkDistribution,
    /// Whether programmes plan on it.
    pub(super) planned: bool,
}

impl<'a> Told<'a> {
    /// Returns what is known of the work of a request, if it is uncertain.
    pub(super) fn of(work: Option<&'a WorkDistribution>) -> Option<Self> {
        work.map(|work| Self { work, planned: true })
    }
}

/// Tries each of some windows by `of`, side by side and in their order; `watch` is told of each.
///
/// # Errors
/// As `of`.
pub(super) fn on_windows(
    windows: &[Window],
    watch: &dyn Watch,
    of: impl Fn(&Window) -> Result<Vec<Attempt>> + Sync,
) -> Result<Vec<Attempt>> {
    watch.more(windows.len());
    let all: Result<Vec<Vec<Attempt>>> = windows.par_iter().map(|window| watch::part(watch, || of(window))).collect();
    Ok(all?.into_iter().flatten().collect())
}

/// Tries policies on a job that begins with a window, for each of `jobs`, which differ in their deadlines alone. `price` stands for their price ratio where it
/// is known. With several lanes the deadline is [`whole`]. Where the work is uncertain, a deadline is missed if it is for any amount up to the top.
///
/// # Errors
/// If the optimum cannot be computed exactly.
pub(super) fn attempt(
    policies: &[CloudPolicy],
    lessons: &Lessons,
    price: Option<&ZonePrice>,
    window: &Window,
    jobs: &[DeadlineJob],
    told: Option<Told<'_>>,
) -> Result<Vec<Attempt>> {
    let Lessons { supply, tick_ms, .. } = lessons;
    let (start, lanes, tick_ms) = (window.ahead.start, supply.lanes, *tick_ms);
    let works: Vec<i64> =
        told.map(|told| told.work.amounts()).into_iter().flatten().map(|(work_ms, _)| work_ms).collect();
    let priced: Vec<(DeadlineJob, Vec<f64>)> = jobs
        .iter()
        .map(|job| {
            let (prices, price_ratio) = relative(price, window, job.price_ratio);
            let job = DeadlineJob { price_ratio, ..*job };
            (if lanes > 1 { whole_among(&job, tick_ms, &works) } else { job }, prices)
        })
        .collect();
    let ticks = jobs.iter().map(|job| job.ticks(tick_ms)).max().unwrap_or(0);
    let ahead = supply.within(window.ahead.clone());
    let up: Vec<bool> = ahead.iter().map(|up| *up > 0).collect();
    // Known work is one amount.
    let amounts = |job: &DeadlineJob| told.map_or_else(|| vec![(job.work_ms, 1.0)], |told| told.work.amounts());
    let work = told.filter(|told| told.planned).map(|told| told.work);
    let mut attempts: Vec<Attempt> = priced
        .iter()
        .map(|(job, _)| {
            let cost = |(work_ms, chance): (i64, f64)| chance * DeadlineJob { work_ms, ..*job }.on_demand_cost();
            Attempt {
                runs: Vec::with_capacity(policies.len()),
                on_demand: amounts(job).into_iter().map(cost).sum::<f64>() * lanes as f64,
            }
        })
        .collect();
    for policy in policies.iter().copied() {
        let learned = lessons.of(start, policy, ticks);
        for ((job, prices), attempt) in priced.iter().zip(&mut attempts) {
            let run = match (policy, told) {
                (CloudPolicy::Omniscient, told) => {
                    let cost = match told {
                        Some(told) => mean_optimum((ahead, &up, prices), lanes, tick_ms, job, told.work)?,
                        None if lanes > 1 => lanes_optimum(ahead, lanes, prices, tick_ms, job)?,
                        None => optimum(&up, prices, tick_ms, job)?,
                    };
                    JobRun { cost, ..JobRun::default() }
                }
                (_, told) => {
                    let fitted = lanes_programmes(&learned, lanes, start, tick_ms, job, work);
                    let mut pilot = lanes_pilot(policy, lanes, &fitted, work);
                    match told {
                        Some(told) => mean_run(pilot.as_mut(), (ahead, prices), lanes, tick_ms, job, told.work),
                        None => ride_lanes(pilot.as_mut(), (ahead, prices), lanes, tick_ms, job, &mut |_| ()),
                    }
                }
            };
            attempt.runs.push((policy, run));
        }
    }
    Ok(attempts)
}

/// Mean cost of the optimum that knows which of its amounts the work is.
fn mean_optimum(
    (ahead, up, price): (&[u32], &[bool], &[f64]),
    lanes: usize,
    tick_ms: i64,
    job: &DeadlineJob,
    work: &WorkDistribution,
) -> Result<f64> {
    let amounts = work.amounts();
    let works: Vec<i64> = amounts.iter().map(|(work_ms, _)| *work_ms).collect();
    let costs = match lanes {
        0 | 1 => optima(up, price, tick_ms, job, &works)?,
        _ => lanes_optima((ahead, price), lanes, tick_ms, job, &works)?,
    };
    Ok(costs.iter().zip(&amounts).map(|(cost, (_, chance))| chance * cost).sum())
}

/// Mean over the amounts of a work of jobs that hold what that of the top does.
fn mean_run(
    pilot: &mut dyn LanesPilot,
    in_window: (&[u32], &[f64]),
    lanes: usize,
    tick_ms: i64,
    job: &DeadlineJob,
    work: &WorkDistribution,
) -> JobRun {
    let mut held = Vec::new();
    let mut seen = |of: &[Holding]| held.extend_from_slice(of);
    let top = ride_uncertain(pilot, in_window, lanes, tick_ms, (job, job.work_ms), &mut seen);
    let ride = |work_ms: i64| ride_held(&held, in_window, lanes, tick_ms, &DeadlineJob { work_ms, ..*job }).0;
    let runs = work.amounts().into_iter().map(|(work_ms, chance)| (chance, ride(work_ms)));
    // The top is kept as well, though it may have no chance of its own.
    weighed(runs.chain([(0.0, top)]))
}

/// The mean of runs by their chances; missed if any is.
pub(super) fn weighed(runs: impl Iterator<Item = (f64, JobRun)>) -> JobRun {
    let (mut mean, mut sums) = (JobRun::default(), [0.0; 7]);
    for (chance, run) in runs {
        mean.cost += chance * run.cost;
        mean.missed |= run.missed;
        let counts = [run.changeovers, run.lost, run.failed, run.asked].map(|count| count as f64);
        let figures = [run.spot_ms, run.on_demand_ms, run.probed_ms].map(|ms| ms as f64).into_iter().chain(counts);
        sums.iter_mut().zip(figures).for_each(|(sum, figure)| *sum += chance * figure);
    }
    let [spot_ms, on_demand_ms, probed_ms, changeovers, lost, failed, asked] = sums.map(f64::round);
    JobRun {
        spot_ms: spot_ms as i64,
        on_demand_ms: on_demand_ms as i64,
        probed_ms: probed_ms as i64,
        changeovers: changeovers as usize,
        lost: lost as usize,
        failed: failed as usize,
        asked: asked as usize,
        ..mean
    }
}

/// Outcome of a job that has other work than its policy was told.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct MisledRun {
    /// Cost until it is done, spot milliseconds.
    pub(super) cost: f64,
    /// Cost of all on-demand of the work that there is.
    pub(super) on_demand: f64,
    /// Whether its deadline passed before it was done.
    pub(super) missed: bool,
    /// How long after its deadline it was done, to the tick, milliseconds.
    pub(super) late_ms: i64,
}

/// Tries a policy, told `job`, on those that have each of `works_ms` of work instead and begin with a window.
pub(super) fn misled_by(
    lessons: &Lessons,
    price: Option<&ZonePrice>,
    window: &Window,
    (job, works_ms): (&DeadlineJob, &[i64]),
    policy: CloudPolicy,
) -> Vec<MisledRun> {
    let Lessons { supply, tick_ms, .. } = lessons;
    let (start, lanes, tick_ms) = (window.ahead.start, supply.lanes, *tick_ms);
    // The longest it may take: on-demand for all of it, from the deadline on.
    let longest_ms = job.deadline_ms + works_ms.iter().max().unwrap_or(&0) + 2 * job.changeover_ms;
    let ticks = DeadlineJob { deadline_ms: longest_ms, ..*job }.ticks(tick_ms);
    let window = Window { past: window.past.clone(), ahead: start..(start + ticks).min(supply.up.len()) };
    let (prices, price_ratio) = relative(price, &window, job.price_ratio);
    let told = DeadlineJob { price_ratio, ..*job };
    let told = if lanes > 1 { whole(&told, tick_ms) } else { told };
    let learned = lessons.of(start, policy, told.ticks(tick_ms));
    let fitted = lanes_programmes(&learned, lanes, start, tick_ms, &told, None);
    let ahead = supply.within(window.ahead);
    // All hold the same until they are done, as nobody knows the amount before: the policy is followed once, for the most.
    let mut held = Vec::new();
    if let Some(most_ms) = works_ms.iter().max() {
        let most = DeadlineJob { work_ms: *most_ms, deadline_ms: longest_ms, ..told };
        let mut pilot = lanes_pilot(policy, lanes, &fitted, None);
        let mut seen = |of: &[Holding]| held.extend_from_slice(of);
        ride_misled(pilot.as_mut(), &told, (ahead, &prices), lanes, tick_ms, &most, &mut seen);
    }
    let ride = |work_ms: i64, deadline_ms: i64| {
        let job = DeadlineJob { work_ms, deadline_ms, ..told };
        let (run, ticks) = ride_held(&held, (ahead, &prices), lanes, tick_ms, &job);
        (run, ticks * tick_ms)
    };
    let of = |work_ms: &i64| {
        let (run, ended_ms) = ride(*work_ms, longest_ms);
        let missed = ride(*work_ms, told.deadline_ms).0.missed;
        MisledRun {
            cost: run.cost,
            on_demand: DeadlineJob { work_ms: *work_ms, ..told }.on_demand_cost() * lanes as f64,
            missed,
            late_ms: if missed { (ended_ms - told.deadline_ms).max(0) } else { 0 },
        }
    };
    works_ms.iter().map(of).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
