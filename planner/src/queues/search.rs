//! Which way to share, with which policy: replayed on earlier jobs, held against later ones.
//!
//! ```text
//! earlier jobs  submitted before the split; runs are cut off at the split, and jobs that had not started by then are left out, as nobody could have
//!               known more
//! list          every way to share × three policies: today's, today's with EASY backfill, and the shortest job first, by predicted runs; on today's nodes also the
//!               fewest GPUs first, the least predicted GPU time first, and passing over what does not fit
//! incentive     a setup is allowed if in each half of the earlier time no VC's mean or 95 % wait exceeds that on nodes of its own by more than
//!               5 % and a minute, and every job runs that runs today. Of one VC, which shares with nobody, only the latter is asked
//! criterion     of those, what costs least in the earlier time, by the [objective](super::objective)
//! search        from the best three of what was tried, everything that differs from one of them in one thing ([`setup`](super::setup)), until the best of all is no
//!               better by the margin or no replay is left. What is found replaces the list's choice only if it beats it
//! beats         costs less on the mean of three thirds of the earlier time, by a twentieth and by a hundredth of today's, and in no third more than a twentieth
//!               and a hundredth of today's more
//! growth        where more work is asked for, the choice has to hold for it as well ([`grown`](super::grown))
//! later jobs    submitted from the split on, in a replay of all jobs: today, nodes of one's own, the best, and the best of all that was tried seen with
//!               hindsight
//! simplest      of the ways that the best is no better than by more than chance on the later jobs, the simplest is chosen ([`later`])
//! ```
//!
//! The replay starts at the first job with empty nodes, so the later jobs meet nodes in use. Everything is replayed on the same nodes and jobs. A VC with fewer than
//! 20 jobs in a stretch is not judged there. Intervals are by a moving-block bootstrap over jobs ([`compare`](crate::replay::compare)).
//!
//! **Ablation**: what the earlier and the later jobs wait with each change of the chosen taken back alone.
//!
//! **Nodes instead**: how many times today's nodes, each VC's rounded up, would give the later jobs the mean wait of the chosen with everything else as
//! today, to a sixteenth, up to four times. Where the number of nodes changes over the record, both are counted when the last job comes.
//!
//! O(setups × two replays), side by side. Worked number: VCs a and b have a node of one GPU each; a's three jobs of 100 s come at 0 s, b's one at
//! 150 s. Apart, a's jobs wait 0, 100 and 200 s; with borrowing they wait 0, 0 and 100 s, and b's waits 0 s, as one of its GPUs is free by then.

mod later;

use std::path::Path;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use self::later::Later;
use super::grown::{GrownSetups, SetupGrown};
use super::journal::{Head, Journal, SearchRun};
use super::measure::{EarlierOutcome, Times};
use super::objective::{JobWaits, Measured, Objective};
use super::setup::{Ground, Knobs, QueueChange, Setup};
use super::share::{Shares, Sharing};
use super::trial::{Known, MARGIN, Trial, beats, least};
use crate::error::{Error, Result};
use crate::plan::window;
use crate::replay::compare::{Comparison, Difference};
use crate::replay::fidelity::Fidelity;
use crate::replay::growth::Growth;
use crate::replay::input::Loaded;
use crate::replay::nearest::met;
use crate::sim::{Cluster, Group, Policy, Workload};

/// Fewest jobs in the earlier and the later part.
const FEWEST_JOBS: usize = 100;
/// Most of today's nodes that are tried in place of the chosen sharing, in sixteenths.
const MOST_NODES: u32 = 64;
/// Setups that are varied in a round.
const KEPT: usize = 3;

/// Request for a plan of queues.
#[derive(Debug, Clone, PartialEq)]
pub struct QueuesRequest {
    /// The split: earlier jobs to choose on, later ones to report on, milliseconds since the Unix epoch. Where two thirds of the jobs are submitted if `None`.
    pub eval_from_ms: Option<i64>,
    /// Today's policy.
    pub today: Policy,
    /// Objective to minimise.
    pub objective: Objective,
    /// Setups that are replayed on the earlier jobs at most, those of the list among them; no more than the list with fewer.
    pub replays: usize,
    /// More work, for which the plan has to hold as well.
    pub growth: Option<Growth>,
    /// Ways of the list that are replayed at most, those with the least to set.
    pub most_listed: usize,
    /// Whether what is written for Kueue is replayed as well, which takes some more replays.
    pub under_kueue: bool,
}

impl QueuesRequest {
    /// The list alone, for the mean and the 95 % wait.
    pub fn of_list(eval_from_ms: Option<i64>, today: Policy) -> Self {
        let objective = Objective::default();
        Self { eval_from_ms, today, objective, replays: 0, growth: None, most_listed: usize::MAX, under_kueue: true }
    }
}

/// Outcome of a setup on the later jobs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LaterOutcome {
    /// Waits of the jobs.
    pub waits: JobWaits,
    /// Other measures of the objective.
    pub measured: Measured,
    /// Cost; today's is 1.
    pub cost: f64,
    /// Jobs that run today and not under this setup.
    pub cannot_run: usize,
    /// Jobs that were stopped for others.
    pub stopped: usize,
    /// GPU time that these held beyond their runs, GPU-hours.
    pub lost_gpu_hours: f64,
}

/// A setup and how it did.
#[derive(Debug, Clone, PartialEq)]
pub struct TriedSetup {
    /// The setup itself.
    pub setup: Setup,
    /// Round of the search that it came up in; 0 for the list.
    pub round: usize,
    /// How the earlier jobs did.
    pub earlier: EarlierOutcome,
    /// How the later jobs did.
    pub later: LaterOutcome,
}

impl TriedSetup {
    /// Whether it may be chosen.
    pub fn is_allowed(&self) -> bool {
        self.earlier.is_allowed()
    }
}

/// The chosen with one change taken back.
#[derive(Debug, Clone, PartialEq)]
pub struct Ablated {
    /// Change that was taken back; `None` for all that is order, backfill and placement.
    pub change: Option<QueueChange>,
    /// The setup without it.
    pub without: TriedSetup,
    /// The setup without the change, under more work; `None` where the chosen need not hold for
    /// more.
    pub grown: Option<SetupGrown>,
}

impl Ablated {
    /// Whether what is left could have been chosen.
    pub fn is_allowed(&self) -> bool {
        self.without.is_allowed() && self.grown.as_ref().is_none_or(SetupGrown::is_allowed)
    }
}

/// A VC on the later jobs.
#[derive(Debug, Clone, PartialEq)]
pub struct VcOutcome {
    /// Position of the VC.
    pub vc: usize,
    /// Waits today.
    pub today: JobWaits,
    /// Waits on private nodes.
    pub private: JobWaits,
    /// Waits under the chosen setup.
    pub chosen: JobWaits,
    /// The chosen against nodes of its own; `None` of a VC with fewer than 20 jobs.
    pub change: Option<Difference>,
}

impl VcOutcome {
    /// Whether its 95 % wait is longer than on nodes of its own, beyond the interval.
    pub fn is_wronged(&self) -> bool {
        self.change.as_ref().is_some_and(|change| change.p95_wait_s.value > 0.0 && change.p95_wait_s.low > 0.0)
    }
}

/// A setup that no allowed one beats in both the mean and the 95 % wait of the earlier jobs.
#[derive(Debug, Clone, PartialEq)]
pub struct OnFront {
    /// Position among the setups that were tried.
    pub at: usize,
    /// Change against today, on the later jobs that run under both; `None` if none does.
    pub change: Option<Difference>,
}

/// What the search found.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchOutcome {
    /// The split, milliseconds from the origin.
    pub split_ms: i64,
    /// Every setup; the first is today.
    pub tried: Vec<TriedSetup>,
    /// Position of what the list alone would choose.
    pub of_list: usize,
    /// Position of the best on the earlier jobs.
    pub best: usize,
    /// Position of the chosen: of the ways that the best is no better than by more than chance on the later jobs, the simplest.
    pub chosen: usize,
    /// Whether it is to be followed: the later jobs clearly wait less than today, cost less by the objective and all run, and no VC waits longer than on nodes of its own beyond its interval.
    pub is_followed: bool,
    /// The chosen without each of its changes, and in today's order.
    pub ablated: Vec<Ablated>,
    /// Shares of the chosen.
    pub shares: Shares,
    /// GPU time that each VC asked for in the earlier time, GPU-seconds.
    pub asked_gpu_s: Vec<f64>,
    /// Position of the allowed setup that is best on the later jobs, seen with hindsight.
    pub oracle: usize,
    /// The later jobs on nodes of the VCs' own, under today's policy.
    pub private: JobWaits,
    /// The chosen (first) and the best with hindsight against today, on the later jobs.
    pub change: Comparison,
    /// Effect of more work, if it was asked for.
    pub grown: Option<GrownSetups>,
    /// The Pareto front of the earlier jobs, with what each of it does to the later ones.
    pub front: Vec<OnFront>,
    /// VC by VC on the later jobs.
    pub by_vc: Vec<VcOutcome>,
    /// Nodes, when the last job comes, that would give the mean wait of the chosen with everything else as today; `None` if more than four times would not, nodes fail, or the
    /// chosen waits no less than today.
    pub nodes_instead: Option<u64>,
    /// How near the replay of today comes to the record.
    pub fidelity: Fidelity,
}

/// Index of the cheapest setup of the list.
fn of_list(tried: &[Known], listed: usize) -> usize {
    least(tried.iter().take(listed), |earlier| earlier.cost)
}

/// Index of the chosen setup: that of the list, unless another one beats it.
fn picked(tried: &[Known], listed: usize) -> usize {
    let (simple, found) = (of_list(tried, listed), least(tried.iter(), EarlierOutcome::mean_cost));
    let better = tried.get(found).zip(tried.get(simple)).is_some_and(|(of, simple)| beats(&of.2, &simple.2));
    if better { found } else { simple }
}

/// True for setups on the Pareto front of the earlier jobs.
fn on_front(tried: &[Known]) -> Vec<bool> {
    let allowed: Vec<&EarlierOutcome> = tried.iter().map(|(_, _, of)| of).filter(|of| of.is_allowed()).collect();
    let beaten = |of: &EarlierOutcome| allowed.iter().any(|other| other.waits.merit.dominates(&of.waits.merit));
    tried.iter().map(|(_, _, of)| of.is_allowed() && !beaten(of)).collect()
}

/// Tries what differs in one thing from the best, again and again.
fn climb(trial: &Trial<'_>, knobs: &Knobs<'_>, tried: &mut Vec<Known>, most: usize) -> Result<()> {
    for round in 1.. {
        let mut allowed: Vec<usize> =
            (0..tried.len()).filter(|at| tried.get(*at).is_some_and(|(_, _, earlier)| earlier.is_allowed())).collect();
        let cost = |at: &usize| tried.get(*at).map_or(f64::INFINITY, |(_, _, earlier)| earlier.mean_cost());
        allowed.sort_by(|a, b| cost(a).total_cmp(&cost(b)));
        let before = allowed.first().map_or(f64::INFINITY, cost);
        let mut next: Vec<Setup> = Vec::new();
        for (setup, ..) in allowed.iter().take(KEPT).filter_map(|at| tried.get(*at)) {
            for other in knobs.beside(setup) {
                if !next.contains(&other) && !tried.iter().any(|(known, ..)| *known == other) {
                    next.push(other);
                }
            }
        }
        next.truncate(most.saturating_sub(tried.len()));
        let result = trial.judge(next, round)?;
        let best = result.iter().filter(|(_, _, of)| of.is_allowed()).map(|(_, _, of)| of.mean_cost());
        let goes_on = best.fold(f64::INFINITY, f64::min) < before - MARGIN.1.max(before * MARGIN.0);
        tried.extend(result);
        if !goes_on {
            break;
        }
    }
    Ok(())
}

/// A cluster with so many sixteenths of the nodes, each group rounded up.
fn grown(cluster: &Cluster, sixteenths: u32) -> Cluster {
    let more = |nodes: u32| (nodes.saturating_mul(sixteenths)).div_ceil(16);
    let mut result = cluster.clone();
    for group in result.pools.iter_mut().flat_map(|pool| &mut pool.groups) {
        let sizes = group.sizes.iter().map(|(from, nodes)| (*from, more(*nodes))).collect();
        *group = Group { sizes, ..group.clone() };
    }
    for vc in &mut result.vcs {
        for (_, milli) in vc.quota_milli.iter_mut().chain(&mut vc.guarantee_milli) {
            *milli = milli.saturating_mul(u64::from(sixteenths)).div_ceil(16);
        }
    }
    result
}

/// GPU time that each VC's jobs ask for, GPU-seconds.
fn asked(workload: &Workload, vcs: usize) -> Vec<f64> {
    let mut asked = vec![0.0; vcs];
    for (job, vc) in workload.vc.iter().enumerate() {
        if let Some(asked) = asked.get_mut(usize::from(*vc)) {
            *asked += workload.gpu_s(job);
        }
    }
    asked
}

/// Where too few jobs are left to plan on.
fn too_few<T>(what: &str, result: usize, all: usize) -> Result<T> {
    Err(Error::no_jobs(format!(
        "{result} jobs {what} the split that run today and on nodes of their VC's own are too few to plan on ({FEWEST_JOBS} are the least), of {all} in all; choose \
         another --eval-from, larger shares, or a longer record",
    )))
}

/// Opens the journal of a search, or begins one.
///
/// # Errors
/// If the file is of another search, or of something else, if another search writes to it, or if the system refuses it.
pub fn journal(path: &Path, loaded: &Loaded, request: &QueuesRequest) -> Result<Journal> {
    let workload = &loaded.workload;
    let split_ms = window::split_ms(&workload.submit_ms, workload.origin_ms, request.eval_from_ms);
    Journal::open(path, &Head::new(loaded, (&request.today, &request.objective), split_ms))
}

/// Searches. There are at most [`replays`], and some more for the nodes.
///
/// # Errors
/// If too few jobs lie before or after the split, a policy does not go with the workload, or nothing says what is a VC's own.
pub fn search(loaded: &Loaded, request: &QueuesRequest, run: SearchRun<'_>) -> Result<SearchOutcome> {
    let (workload, cluster, today) = (&loaded.workload, &loaded.cluster, &request.today);
    let shares = Shares::new(cluster)?;
    let split_ms = window::split_ms(&workload.submit_ms, workload.origin_ms, request.eval_from_ms);
    let known = loaded.known_at(split_ms);
    let knobs = Knobs::new(&known, cluster, today);
    let asked_gpu_s = asked(&known, cluster.vcs.len());
    let ground = Ground { cluster, shares: &shares, asked: &asked_gpu_s, estimate: knobs.estimate() };
    let private = Setup::new(Sharing::Private, today.clone());
    let as_today = Setup::new(Sharing::AsToday, today.clone());
    if request.objective.foretells() && knobs.knows_no_runs() {
        return Err(Error::malformed("objective", request.objective.to_string(), "what a job could be told hangs on how long jobs are expected to run: give --predictions, or --estimate requested where jobs have time limits".to_owned()));
    }
    let earlier = ("earlier".to_owned(), (0, split_ms));
    let trial = Trial::new(earlier, &known, (ground, today, &request.objective), run)?;
    if trial.yardstick.jobs.len() < FEWEST_JOBS {
        return too_few("before", trial.yardstick.jobs.len(), workload.len());
    }
    let mut tried = trial.judge(knobs.list(request.most_listed), 0)?;
    let listed = tried.len();
    let searched = request.replays > listed;
    if searched {
        climb(&trial, &knobs, &mut tried, request.replays)?;
    }
    let pick = |tried: &[Known]| if searched { picked(tried, listed) } else { of_list(tried, listed) };
    let with = (ground, today, &request.objective);
    let more = |growth: &Growth| GrownSetups::new(growth, (&known, split_ms), with, (&tried, &pick), run);
    let grown = request.growth.as_ref().map(more).transpose()?;
    let best = grown.as_ref().and_then(|grown| grown.of_both).unwrap_or_else(|| pick(&tried));
    let of_list = of_list(&tried, listed);
    // The later jobs, in a replay of all.
    let later = Later::new(workload, (ground, &request.objective), (&private, &as_today), split_ms)?;
    let of_later = |(setup, round, earlier): Known| -> Result<TriedSetup> {
        let later = run.outcome("later", &setup, || Ok(later.outcome(&later.replayed(&setup)?)))?;
        Ok(TriedSetup { setup, round, earlier, later })
    };
    let is_on_front = on_front(&tried);
    let with_change = |(at, known): (usize, Known)| -> Result<(TriedSetup, Option<OnFront>)> {
        if is_on_front.get(at) != Some(&true) {
            return Ok((of_later(known)?, None));
        }
        // How surely it is better goes by its jobs, one by one, which no journal has.
        let (setup, round, earlier) = known;
        let times = later.replayed(&setup)?;
        run.watch.made();
        let change = later.beside_today(&times)?;
        let tried = TriedSetup { setup, round, earlier, later: later.outcome(&times) };
        Ok((tried, Some(OnFront { at, change })))
    };
    let both: Vec<(TriedSetup, Option<OnFront>)> =
        tried.into_par_iter().enumerate().map(with_change).collect::<Result<_>>()?;
    let (tried, front): (Vec<TriedSetup>, Vec<Option<OnFront>>) = both.into_iter().unzip();
    run.sync()?;
    let Some(first) = tried.first() else { return Err(Error::no_scenario("there is no candidate")) };
    // Who runs fewer jobs is not the better for it.
    let with_hindsight = |tried: &TriedSetup| {
        let whole = if tried.later.cannot_run == 0 { 0.0 } else { f64::INFINITY };
        whole + tried.later.cost
    };
    let allowed = tried.iter().enumerate().filter(|(_, tried)| tried.is_allowed());
    let oracle = allowed.min_by(|a, b| with_hindsight(a.1).total_cmp(&with_hindsight(b.1))).map_or(0, |(at, _)| at);
    let (Some(ideal), Some(of_best)) = (tried.get(oracle), tried.get(best)) else {
        return Err(Error::no_scenario("there is no candidate"));
    };
    let ideal = later.replayed_untold(&ideal.setup)?;
    // What a journal tells of today and of the best is replayed here anyway.
    if !later.is_told_so(first, &later.today) {
        return Err(run.contradicted());
    }
    // What has to hold for more work as well is not tested on later jobs alone.
    let of_both = grown.as_ref().and_then(|grown| grown.of_both);
    let simpler: &[TriedSetup] = if of_both.is_some() { &[] } else { &tried };
    let (chosen, tested) = later.simplest((best, of_best, simpler), (&ideal, today), &|| run.contradicted())?;
    let Some(chosen_setup) = tried.get(chosen).map(|tried| tried.setup.clone()) else {
        return Err(Error::no_scenario("there is no candidate"));
    };
    // What the chosen is without each of its changes.
    let mut back: Vec<(Option<QueueChange>, Setup)> = chosen_setup
        .changes(today)
        .into_iter()
        .map(|change| (Some(change), chosen_setup.without(change, today)))
        .collect();
    if chosen_setup.policy != *today {
        back.push((None, chosen_setup.in_todays_order(today)));
    }
    let place = |setup: &Setup| tried.iter().position(|tried| tried.setup == *setup);
    // If the chosen has to hold for more work, so has what is left of it.
    let grown_back: Vec<Option<SetupGrown>> = match (&request.growth, &grown) {
        (Some(growth), Some(grown)) if grown.of_both.is_some() => {
            let setups: Vec<_> = back.iter().map(|(_, setup)| (setup.clone(), place(setup))).collect();
            let of = grown.of_each(growth, (&known, split_ms), with, &setups, run)?;
            of.into_iter().map(Some).collect()
        }
        _ => vec![None; back.len()],
    };
    let ablated: Vec<Ablated> = back
        .into_iter()
        .zip(grown_back)
        .map(|((change, setup), grown)| {
            let without = match place(&setup).and_then(|at| tried.get(at)) {
                Some(tried) => tried.clone(),
                None => {
                    let judged = trial.judge(vec![setup], 0)?.into_iter().next();
                    of_later(judged.ok_or(Error::no_scenario("there is none"))?)?
                }
            };
            Ok(Ablated { change, without, grown })
        })
        .collect::<Result<_>>()?;
    run.sync()?;
    let wanted_s = tried.get(chosen).map_or(0.0, |tried| tried.later.waits.merit.mean_wait_s);
    let nodes_instead = if wanted_s < first.later.waits.merit.mean_wait_s {
        nodes_instead(loaded, today, &later.jobs, wanted_s)?
    } else {
        None
    };
    // The record's own nodes may guarantee nothing that today's policy could requeue for.
    let recorded = loaded.recorded_cluster.as_ref().filter(|before| today.goes_with(before).is_ok());
    let fidelity = met((workload, recorded.unwrap_or(cluster)), today, &loaded.recorded_start_ms)?;
    Ok(SearchOutcome {
        split_ms,
        private: later.private.waited(&later.jobs).unwrap_or(JobWaits::NONE),
        of_list,
        best,
        chosen,
        is_followed: tested.is_followed,
        ablated,
        shares: trial.ground.shares_of(&chosen_setup),
        asked_gpu_s: asked_gpu_s.clone(),
        oracle,
        change: tested.change,
        grown,
        front: front.into_iter().flatten().collect(),
        by_vc: tested.by_vc,
        nodes_instead,
        fidelity,
        tried,
    })
}

/// Waits of the jobs submitted from `split_ms` on in one replay, how many of them are stopped for others, and what those hold beyond their runs, GPU-hours.
pub(super) fn outcome(
    workload: &Workload,
    cluster: &Cluster,
    policy: &Policy,
    split_ms: i64,
) -> Result<(Option<JobWaits>, u64, f64)> {
    let times = Times::run(workload, cluster, policy)?;
    let jobs = times.counted(workload, split_ms, i64::MAX);
    let (stopped, lost_gpu_hours) = times.stopped(workload, &jobs);
    Ok((times.waited(&jobs), stopped as u64, lost_gpu_hours))
}

/// Setups of the list.
pub fn listed(loaded: &Loaded, request: &QueuesRequest) -> usize {
    Knobs::new(&loaded.workload, &loaded.cluster, &request.today).list(request.most_listed).len()
}

/// Replays of a search at most, those of nodes of one's own and of today among them as one.
pub fn replays(loaded: &Loaded, request: &QueuesRequest) -> usize {
    let draws = request.growth.as_ref().map_or(0, Growth::draws) as usize;
    let tried = listed(loaded, request).max(request.replays);
    1 + 2 * tried + draws * (1 + tried)
}

/// How many nodes would give these jobs a mean wait of at most `wanted_s`.
fn nodes_instead(loaded: &Loaded, today: &Policy, jobs: &[usize], wanted_s: f64) -> Result<Option<u64>> {
    // Nodes are numbered over all pools, so one more node of a pool would be another node that fails.
    if !loaded.cluster.outages.is_empty() {
        return Ok(None);
    }
    let enough = |sixteenths: u32| -> Result<bool> {
        let times = Times::run(&loaded.workload, &grown(&loaded.cluster, sixteenths), today)?;
        Ok(times.waited(jobs).is_some_and(|waited| waited.merit.mean_wait_s <= wanted_s))
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
    Ok(Some(grown(&loaded.cluster, high).nodes_at(last_ms(&loaded.workload))))
}

/// When the last job comes, milliseconds from the origin: the moment that nodes are counted at, where their number changes.
pub(super) fn last_ms(workload: &Workload) -> i64 {
    workload.submit_ms.last().copied().unwrap_or(i64::MAX)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
pub(super) mod tests;
