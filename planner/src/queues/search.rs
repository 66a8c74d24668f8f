//! Which way to share, with which policy: replayed on earlier jobs, held against later ones.
//!
//! ```text
//! earlier jobs  submitted before the split; runs are cut off at the split, and jobs that had not started by then are left out, as nobody could have
//!               known more
//! candidates    every way to share × every policy: today's, today's with EASY backfill, and the shortest job first, by predicted runs
//! incentive     a candidate is allowed if in each half of the earlier time no VC's mean or 95 % wait exceeds that on nodes of its own by more than
//!               5 % and a minute, and every job runs that runs today
//! criterion     of those, the least mean of two shares: of today's mean wait and of today's 95 % wait, a minute added to each wait
//! later jobs    submitted from the split on, in a replay of all jobs: today, nodes of one's own, the chosen, and the best of the candidates seen with
//!               hindsight
//! ```
//!
//! The replay starts at the first job with empty nodes, so the later jobs meet nodes in use. Everything is replayed on the same nodes. A VC with fewer than
//! 20 jobs in a stretch is not judged there. **Wait** is from submission to end less the run, so that what a job loses when it is stopped
//! counts. Intervals are by a moving-block bootstrap over jobs ([`compare`]).
//!
//! **Nodes instead**: how many times today's nodes, each VC's rounded up, would give the later jobs the mean wait of the chosen with everything else as
//! today, to a sixteenth, up to four times.
//!
//! O(candidates × two replays), side by side. Worked number: VCs a and b have a node of one GPU each; a's three jobs of 100 s come at 0 s, b's one at
//! 150 s. Apart, a's jobs wait 0, 100 and 200 s; with borrowing they wait 0, 0 and 100 s, and b's waits 0 s, as one of its GPUs is free by then.

use std::collections::BTreeMap;

use rayon::prelude::*;
use tracecast_analytics::stats::quantile::quantile;

use super::share::{Shares, Sharing};
use crate::error::{Error, Result};
use crate::plan::interval::average;
use crate::plan::window;
use crate::replay::compare::{self, Comparison, Difference, Merit};
use crate::replay::fidelity::Fidelity;
use crate::replay::input::Loaded;
use crate::replay::metric::JobTimes;
use crate::sim::{Cluster, Estimate, Group, Order, Outcome, Policy, Preemption, Scan, Workload, simulate};

/// Fewest jobs of a VC that are judged.
const FEWEST_OF_VC: usize = 20;
/// Fewest jobs in the earlier and the later part.
const FEWEST_JOBS: usize = 100;
/// How much longer than on nodes of its own a VC may wait in the earlier time: as a share of that wait, and beyond.
pub const SLACK: (f64, f64) = (0.05, 60.0);
/// The quantile of the wait that counts beside the mean.
const TAIL: f64 = 0.95;
/// Seed of the bootstrap.
const SEED: u64 = 1;
/// Most of today's nodes that are tried in place of the chosen sharing, in sixteenths.
const MOST_NODES: u32 = 64;

/// What is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct QueuesRequest {
    /// The split: earlier jobs to choose on, later ones to report on, milliseconds since the Unix epoch. Where two thirds of the jobs are submitted if `None`.
    pub eval_from_ms: Option<i64>,
    /// Today's policy.
    pub today: Policy,
}

/// One way to share, with a policy.
#[derive(Debug, Clone, PartialEq)]
pub struct Setup {
    /// How nodes are shared.
    pub sharing: Sharing,
    /// In which order jobs are served.
    pub policy: Policy,
}

/// What jobs of a VC, or all, waited.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JobWaits {
    /// Jobs.
    pub jobs: usize,
    /// Their waits.
    pub merit: Merit,
}

/// A candidate and how it did.
#[derive(Debug, Clone, PartialEq)]
pub struct TriedSetup {
    /// What it is.
    pub setup: Setup,
    /// Waits of the earlier jobs.
    pub earlier: JobWaits,
    /// VCs that the incentive was broken for in the earlier time, by position.
    pub wronged: Vec<usize>,
    /// Whether every job ran that runs today.
    pub complete: bool,
    /// Waits of the later jobs.
    pub later: JobWaits,
    /// Later jobs that run today and not under it.
    pub cannot_run: usize,
    /// Later jobs that were stopped for others.
    pub stopped: usize,
    /// What those held beyond their runs, GPU-hours.
    pub lost_gpu_hours: f64,
}

impl TriedSetup {
    /// Whether it may be chosen.
    pub fn is_allowed(&self) -> bool {
        self.complete && self.wronged.is_empty()
    }
}

/// A VC on the later jobs.
#[derive(Debug, Clone, PartialEq)]
pub struct VcOutcome {
    /// Its position.
    pub vc: usize,
    /// As today.
    pub today: JobWaits,
    /// On nodes of its own.
    pub private: JobWaits,
    /// As chosen.
    pub chosen: JobWaits,
    /// The chosen against nodes of its own; `None` of a VC with fewer than 20 jobs.
    pub change: Option<Difference>,
}

/// What the search found.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchOutcome {
    /// The split, milliseconds from the origin.
    pub split_ms: i64,
    /// Every candidate; the first is today.
    pub tried: Vec<TriedSetup>,
    /// Position of the chosen.
    pub chosen: usize,
    /// Position of the allowed candidate that is best on the later jobs, seen with hindsight.
    pub hindsight: usize,
    /// The later jobs on nodes of the VCs' own, under today's policy.
    pub private: JobWaits,
    /// The chosen (first) and the best with hindsight against today, on the later jobs.
    pub change: Comparison,
    /// VC by VC on the later jobs.
    pub by_vc: Vec<VcOutcome>,
    /// Nodes that would give the mean wait of the chosen with everything else as today; `None` if more than four times would not, nodes fail, or the
    /// chosen waits no less than today.
    pub nodes_instead: Option<u64>,
    /// How near the replay of today comes to the record.
    pub fidelity: Fidelity,
}

/// What a replay did to each job.
struct Times {
    of: JobTimes,
    /// From submission to end, less the run: what is lost when a job is stopped counts as waiting.
    wait_ms: Vec<Option<i64>>,
    /// Whether it was stopped for another.
    stopped: Vec<bool>,
}

impl Times {
    /// How many of some jobs were stopped for others, and what those held beyond their runs, GPU-hours.
    fn stopped(&self, workload: &Workload, jobs: &[usize]) -> (usize, f64) {
        let stopped: Vec<usize> = jobs.iter().copied().filter(|job| self.stopped.get(*job) == Some(&true)).collect();
        let lost = |job: &usize| -> Option<f64> {
            let beyond = self.of.held_ms.get(*job)? - workload.run_ms.get(*job)?;
            Some(workload.shape_of(*job).as_gpus() * beyond.max(0) as f64 / 3.6e6)
        };
        (stopped.len(), stopped.iter().filter_map(lost).sum())
    }

    fn wait_ms(&self, job: usize) -> Option<i64> {
        self.wait_ms.get(job).copied().flatten()
    }
}

/// The mean of two shares of today's waits, each with [`SLACK`]'s minute more, so that where today hardly waits seconds do not count as multiples.
fn cost(merit: &Merit, today: &Merit) -> f64 {
    let share = |of: f64, base: f64| (of + SLACK.1) / (base + SLACK.1);
    f64::midpoint(share(merit.mean_wait_s, today.mean_wait_s), share(merit.p95_wait_s, today.p95_wait_s))
}

fn waited(times: &Times, jobs: &[usize]) -> Option<JobWaits> {
    let waits: Vec<f64> = jobs.iter().filter_map(|job| Some(times.wait_ms(*job)? as f64 / 1e3)).collect();
    let merit = Merit { mean_wait_s: average(waits.iter().copied()), p95_wait_s: quantile(&waits, TAIL)? };
    Some(JobWaits { jobs: waits.len(), merit })
}

/// The policies that are tried: today's first. Runs are those of the time limits where today goes by them and most jobs have one, else predicted.
fn policies(workload: &Workload, today: &Policy) -> Vec<Policy> {
    let shortest = |estimate| Policy { order: Order::Sjf, estimate, ..today.clone() };
    let limits = today.estimate == Estimate::Requested && !shortest(Estimate::Requested).is_oracle(workload);
    let estimate = if limits { Estimate::Requested } else { Estimate::Predicted };
    let backfill = Policy { scan: Scan::Easy, estimate, ..today.clone() };
    // Backfill reserves for jobs that run on.
    let backfill = Some(backfill).filter(|_| today.preemption == Preemption::Never);
    let mut all = vec![today.clone()];
    for policy in backfill.into_iter().chain([shortest(estimate)]) {
        if !all.contains(&policy) {
            all.push(policy);
        }
    }
    all
}

/// Jobs that a replay counts, by position, submitted from `from` until `to`.
fn counted(times: &Times, workload: &Workload, from: i64, to: i64) -> Vec<usize> {
    let within = |job: &usize| workload.submit_ms.get(*job).is_some_and(|submit| (from..to).contains(submit));
    (0..workload.len()).filter(within).filter(|job| times.wait_ms(*job).is_some()).collect()
}

fn by_vc(workload: &Workload, jobs: &[usize]) -> BTreeMap<usize, Vec<usize>> {
    let mut found: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for job in jobs {
        found.entry(workload.vc.get(*job).copied().map_or(0, usize::from)).or_default().push(*job);
    }
    found
}

/// A replay of one setup, job by job.
fn run(workload: &Workload, cluster: &Cluster, policy: &Policy) -> Result<Times> {
    let schedule = simulate(workload, cluster, policy)?;
    let times = JobTimes::of(workload, &schedule)?;
    let stopped = schedule.preemptions.iter().map(|stops| *stops > 0).collect();
    let wait = |(job, run): (usize, &i64)| Some(times.jct_ms.get(job).copied().flatten()? - run);
    Ok(Times { wait_ms: workload.run_ms.iter().enumerate().map(wait).collect(), of: times, stopped })
}

/// VCs that wait longer than on nodes of their own, by position.
fn wronged(workload: &Workload, jobs: &[usize], times: &Times, private: &Times) -> Vec<usize> {
    let (share, beyond_s) = SLACK;
    let longer = |a: f64, b: f64| a > b * (1.0 + share) + beyond_s;
    let mut found = Vec::new();
    for (vc, jobs) in by_vc(workload, jobs) {
        let (Some(waits), Some(private)) = (waited(times, &jobs), waited(private, &jobs)) else { continue };
        let (a, b) = (waits.merit, private.merit);
        let is_longer = longer(a.mean_wait_s, b.mean_wait_s) || longer(a.p95_wait_s, b.p95_wait_s);
        if jobs.len() >= FEWEST_OF_VC && is_longer {
            found.push(vc);
        }
    }
    found
}

/// Rows of some jobs alone, to be compared.
fn rows(times: &Times, jobs: &[usize]) -> JobTimes {
    JobTimes::of_rows(jobs.iter().map(|job| {
        let outcome = times.of.outcome.get(*job).copied().unwrap_or(Outcome::Stranded);
        let jct = times.of.jct_ms.get(*job).copied().flatten();
        (outcome, times.of.is_counted(*job), jct.zip(times.wait_ms(*job)))
    }))
}

/// Compares on some jobs alone: the first with the others.
fn compared(workload: &Workload, jobs: &[usize], of: &[(&str, &Times)]) -> Result<Comparison> {
    let at: Vec<u32> = jobs.iter().filter_map(|job| u32::try_from(*job).ok()).collect();
    let submits = jobs.iter().filter_map(|job| workload.submit_ms.get(*job).copied()).collect();
    let mut part = workload.arranged(&at, submits);
    (part.warm, part.unfinished) = (Vec::new(), Vec::new());
    let rows: Vec<(&str, JobTimes)> = of.iter().map(|(name, times)| (*name, rows(times, jobs))).collect();
    let named: Vec<(&str, &JobTimes)> = rows.iter().map(|(name, times)| (*name, times)).collect();
    compare::compare(&part, &named, SEED)
}

/// A cluster with so many sixteenths of the nodes, each group rounded up.
fn grown(cluster: &Cluster, sixteenths: u32) -> Cluster {
    let more = |nodes: u32| (nodes.saturating_mul(sixteenths)).div_ceil(16);
    let mut found = cluster.clone();
    for group in found.pools.iter_mut().flat_map(|pool| &mut pool.groups) {
        let sizes = group.sizes.iter().map(|(from, nodes)| (*from, more(*nodes))).collect();
        *group = Group { sizes, ..group.clone() };
    }
    for vc in &mut found.vcs {
        for (_, milli) in vc.quota_milli.iter_mut().chain(&mut vc.guarantee_milli) {
            *milli = milli.saturating_mul(u64::from(sixteenths)).div_ceil(16);
        }
    }
    found
}

/// Searches. `done` is called after each replay; there are [`replays`] of them, and some more for the nodes.
///
/// # Errors
/// If too few jobs lie before or after the split, a policy does not go with the workload, or nothing says what is a VC's own.
pub fn search(loaded: &Loaded, request: &QueuesRequest, done: &(dyn Fn() + Sync)) -> Result<SearchOutcome> {
    let (workload, cluster) = (&loaded.workload, &loaded.cluster);
    if cluster.vcs.len() < 2 {
        return Err(Error::NoJobs(
            "the jobs are of one VC, so there is nothing to share; a plan of queues needs at least two VCs".to_owned(),
        ));
    }
    let shares = Shares::of(cluster)?;
    let split_ms = window::split_ms(&workload.submit_ms, workload.origin_ms, request.eval_from_ms);
    let known = loaded.known_at(split_ms);
    let setups = setups(&known, &request.today);
    // Nodes of one's own, under today's policy, then every candidate.
    let private = Setup { sharing: Sharing::Private, policy: request.today.clone() };
    let mut runs: Vec<(Cluster, Policy)> = vec![(shares.shared(cluster, Sharing::Private)?, replayed(&private))];
    for setup in &setups {
        let policy = replayed(setup);
        policy.validate(workload)?;
        runs.push((shares.shared(cluster, setup.sharing)?, policy));
    }
    let replay = |workload: &Workload| -> Result<Vec<Times>> {
        let one = |(cluster, policy): &(Cluster, Policy)| {
            let times = run(workload, cluster, policy);
            done();
            times
        };
        runs.par_iter().map(one).collect()
    };
    let times = replay(&known)?;
    let [private, today, ..] = times.as_slice() else { return Err(Error::NoScenario("there is no candidate")) };
    let both = |times: &Times, jobs: Vec<usize>| -> Vec<usize> {
        jobs.into_iter().filter(|job| times.wait_ms(*job).is_some()).collect()
    };
    let of_today = counted(today, &known, i64::MIN, i64::MAX);
    let jobs = both(private, of_today.clone());
    let later = |what: &str, found: usize| {
        Err(Error::NoJobs(format!(
            "{found} jobs {what} the split that run today and on nodes of their VC's own are too few to plan on ({FEWEST_JOBS} are the least), of {} in all; choose \
             another --eval-from, larger shares, or a longer record",
            workload.len()
        )))
    };
    if jobs.len() < FEWEST_JOBS {
        return later("before", jobs.len());
    }
    let halves: [Vec<usize>; 2] = [(i64::MIN, split_ms / 2), (split_ms / 2, i64::MAX)].map(|(from, to)| {
        let within = |job: &&usize| known.submit_ms.get(**job).is_some_and(|submit| (from..to).contains(submit));
        jobs.iter().filter(within).copied().collect()
    });
    let of_all = times.get(1..).unwrap_or_default();
    let earlier: Vec<(JobWaits, Vec<usize>, bool)> = of_all
        .iter()
        .map(|times| {
            let waits = waited(times, &jobs).unwrap_or(NONE);
            let mut wronged_vcs: Vec<usize> =
                halves.iter().flat_map(|half| wronged(&known, half, times, private)).collect();
            wronged_vcs.sort_unstable();
            wronged_vcs.dedup();
            (waits, wronged_vcs, of_today.iter().all(|job| times.wait_ms(*job).is_some()))
        })
        .collect();
    // The later jobs, in a replay of all.
    let times = replay(workload)?;
    let [private, today, ..] = times.as_slice() else { return Err(Error::NoScenario("there is no candidate")) };
    let of_today = counted(today, workload, split_ms, i64::MAX);
    let jobs = both(private, of_today.clone());
    if jobs.len() < FEWEST_JOBS {
        return later("after", jobs.len());
    }
    let of_all = times.get(1..).unwrap_or_default();
    let tried: Vec<TriedSetup> = setups
        .into_iter()
        .zip(earlier)
        .zip(of_all)
        .map(|((setup, (earlier, wronged, complete)), times)| {
            let (stopped, lost_gpu_hours) = times.stopped(workload, &jobs);
            TriedSetup {
                setup,
                earlier,
                wronged,
                complete,
                later: waited(times, &jobs).unwrap_or(NONE),
                cannot_run: of_today.iter().filter(|job| times.wait_ms(**job).is_none()).count(),
                stopped,
                lost_gpu_hours,
            }
        })
        .collect();
    let Some(first) = tried.first() else { return Err(Error::NoScenario("there is no candidate")) };
    let best = |of: &dyn Fn(&TriedSetup) -> f64| {
        let allowed = tried.iter().enumerate().filter(|(_, tried)| tried.is_allowed());
        // The first of equals: today, then what changes least.
        allowed.min_by(|a, b| of(a.1).total_cmp(&of(b.1))).map_or(0, |(at, _)| at)
    };
    let chosen = best(&|tried| cost(&tried.earlier.merit, &first.earlier.merit));
    // Who runs fewer jobs is not the better for it.
    let whole = |tried: &TriedSetup| if tried.cannot_run == 0 { 0.0 } else { f64::INFINITY };
    let hindsight = best(&|tried| whole(tried) + cost(&tried.later.merit, &first.later.merit));
    let (Some(picked), Some(ideal)) = (of_all.get(chosen), of_all.get(hindsight)) else {
        return Err(Error::Defect("the chosen candidate was not replayed".to_owned()));
    };
    let ran: Vec<usize> =
        jobs.iter().copied().filter(|job| [picked, ideal].iter().all(|times| times.wait_ms(*job).is_some())).collect();
    let change = compared(workload, &ran, &[("today", today), ("chosen", picked), ("hindsight", ideal)])?;
    let of_vcs: Result<Vec<VcOutcome>> = by_vc(workload, &ran)
        .into_par_iter()
        .map(|(vc, jobs)| {
            let change = if jobs.len() >= FEWEST_OF_VC {
                let change = compared(workload, &jobs, &[("private", private), ("chosen", picked)])?;
                change.differences.into_iter().next()
            } else {
                None
            };
            let of = |times: &Times| waited(times, &jobs).unwrap_or(NONE);
            Ok(VcOutcome { vc, today: of(today), private: of(private), chosen: of(picked), change })
        })
        .collect();
    let wanted_s = tried.get(chosen).map_or(0.0, |tried| tried.later.merit.mean_wait_s);
    let nodes_instead = if wanted_s < first.later.merit.mean_wait_s {
        nodes_instead(loaded, &request.today, &jobs, wanted_s)?
    } else {
        None
    };
    // The record's own nodes may guarantee nothing that today's policy could requeue for.
    let recorded = loaded.recorded_cluster.as_ref().filter(|before| request.today.goes_with(before).is_ok());
    let schedule = simulate(workload, recorded.unwrap_or(cluster), &request.today)?;
    Ok(SearchOutcome {
        split_ms,
        private: waited(private, &jobs).unwrap_or(NONE),
        chosen,
        hindsight,
        change,
        by_vc: of_vcs?,
        nodes_instead,
        fidelity: Fidelity::of(workload, &schedule, &loaded.recorded_start_ms)?,
        tried,
    })
}

/// Of no job.
const NONE: JobWaits = JobWaits { jobs: 0, merit: Merit { mean_wait_s: 0.0, p95_wait_s: 0.0 } };

/// Every way to share with every policy; today as it is first. Nothing is shared under a policy that knows how long jobs run, which nobody does, or
/// that cannot reclaim.
fn setups(workload: &Workload, today: &Policy) -> Vec<Setup> {
    let policies = policies(workload, today);
    let with = |sharing: Sharing| {
        let all = policies.iter().map(move |policy| Setup { sharing, policy: policy.clone() });
        all.filter(|setup| {
            let is_today = setup.sharing == Sharing::AsToday && setup.policy == *today;
            is_today || (!setup.policy.is_oracle(workload) && replayed(setup).validate(workload).is_ok())
        })
    };
    std::iter::once(Sharing::AsToday).chain(Sharing::TRIED).flat_map(with).collect()
}

/// The policy that a setup is replayed with: who is stopped for whom is a matter of how nodes are shared.
fn replayed(setup: &Setup) -> Policy {
    let preemption = match (setup.sharing, setup.policy.preemption) {
        (Sharing::AsToday, as_today) => as_today,
        (Sharing::Borrowing { reclaim: true, .. }, _) => Preemption::Requeue,
        // Without guarantees there is nothing to requeue for.
        (Sharing::Borrowing { reclaim: false, .. }, _) | (_, Preemption::Requeue) => Preemption::Never,
        (Sharing::Private | Sharing::OnePool, as_today) => as_today,
    };
    Policy { preemption, ..setup.policy.clone() }
}

/// Waits of the jobs submitted from `split_ms` on in one replay, how many of them are stopped for others, and what those hold beyond their runs, GPU-hours.
pub(super) fn outcome(
    workload: &Workload,
    cluster: &Cluster,
    policy: &Policy,
    split_ms: i64,
) -> Result<(Option<JobWaits>, u64, f64)> {
    let times = run(workload, cluster, policy)?;
    let jobs = counted(&times, workload, split_ms, i64::MAX);
    let (stopped, lost_gpu_hours) = times.stopped(workload, &jobs);
    Ok((waited(&times, &jobs), stopped as u64, lost_gpu_hours))
}

/// Replays of a search.
pub fn replays(loaded: &Loaded, today: &Policy) -> usize {
    2 * (1 + setups(&loaded.workload, today).len())
}

/// How many nodes would give these jobs a mean wait of at most `wanted_s`.
fn nodes_instead(loaded: &Loaded, today: &Policy, jobs: &[usize], wanted_s: f64) -> Result<Option<u64>> {
    // Nodes are numbered over all pools, so one more node of a pool would be another node that fails.
    if !loaded.cluster.outages.is_empty() {
        return Ok(None);
    }
    let enough = |sixteenths: u32| -> Result<bool> {
        let times = run(&loaded.workload, &grown(&loaded.cluster, sixteenths), today)?;
        Ok(waited(&times, jobs).is_some_and(|waited| waited.merit.mean_wait_s <= wanted_s))
    };
    let (mut low, mut high) = (16, 20);
    while !enough(high)? {
        if high >= MOST_NODES {
            return Ok(None);
        }
        (low, high) = (high, (high * 3 / 2).min(MOST_NODES));
    }
    while high - low > 1 {
        let middle = u32::midpoint(low, high);
        if enough(middle)? { high = middle } else { low = middle }
    }
    Ok(Some(grown(&loaded.cluster, high).largest().0))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
pub(super) mod tests;
