//! What one pool would do to the jobs of a trace: the same jobs replayed on the VCs as they stand, each on its own nodes,
//! and on one pool of the same nodes.
//!
//! How often waiting met idle GPUs elsewhere (topic `pool` of a description) bounds nothing that a pool does over time,
//! because a job that starts sooner also ends sooner. The replay answers the question: [`compare()`] replays FIFO in two ways,
//! strict and passing over jobs that do not fit ([`Scan::Strict`], [`Scan::Skip`]), as the record seldom says which it was.
//! The way that comes nearer to the recorded GPU-hours waited on the VCs as they stand **leads**, and how near it comes is
//! said beside it.
//!
//! What the pool leaves out: jobs may run on any node with the GPU type they must have; who owns nodes, data that lie near
//! them and promises to VCs do not count. Jobs are submitted as they were, though users may submit more where they wait
//! less.
//!
//! **Waits and lost work stand apart**: time in the queue, and work that a failing node undid ([`times`](crate::replay::metric::times)). Which of
//! several equal nodes a number stands for is chance, and so is which jobs a failure hits. So where nodes fail, both are told with their
//! [range over numberings](numbering) of the nodes.
//!
//! Beside the replays stands what [queueing theory](theory) says of the same queues.
//!
//! Complexity: that of four replays, run side by side.
//!
//! Worked number: VCs a and b with a node of one GPU each; a's three jobs of 100 s and b's one job of 100 s are all submitted
//! at 0 s. As they stand, a's wait 0, 100 and 200 s: 300 GPU-seconds. On one pool of two GPUs the four start at 0, 0, 100 and
//! 100 s: 200 GPU-seconds.

pub mod numbering;
mod render;
pub mod theory;

use std::collections::BTreeMap;

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::Trace;
use tracecast_analytics::facts::JobFacts;
use tracecast_analytics::report::format;
use tracecast_analytics::stats::sum;

use crate::error::Result;
use crate::replay::compare::{self, IntervalEstimate};
use crate::replay::fidelity::Fidelity;
use crate::replay::input::{Hosts, Loaded, Options, last_two, load};
use crate::replay::metric::{JobTimes, OfferedLoads, Times, VcLoad};
use crate::sim::{Cluster, Policy, Scan, Workload, simulate};
use numbering::Numberings;
use theory::{PoolingCheck, VcQueue};

/// Why a trace without sizes allows no replay.
pub(crate) const NO_SIZES: &str = "the source does not say how many GPUs its VCs have";
/// Share of the GPU time that must be that of jobs which can be replayed: the others would make room that was not there.
const LEAST_REPLAYED: f64 = 0.9;
/// Share of the jobs replayed whose start must be recorded.
const LEAST_STARTS: f64 = 0.9;
/// Jobs beyond which a report does not replay by itself.
const MOST_JOBS: usize = 1_000_000;
/// Jobs × distinct requests beyond which it does not, either: passing over jobs costs that much at worst.
const MOST_WORK: usize = 100_000_000;
/// Seed of the bootstrap.
const SEED: u64 = 1;

/// Waits of jobs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Waited {
    /// GPUs × time in the queue, summed, GPU-hours; in the record until the first start, as it does not say more.
    pub gpu_hours: f64,
    /// GPUs × what they held beyond their runs, summed, GPU-hours: work that failing nodes undid; `null` in the record, which does not say it.
    pub lost_gpu_hours: Option<f64>,
    /// Wait of the jobs, lost work included, seconds.
    pub wait_s: Times,
}

/// One way to walk the queue, on both clusters.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Pair {
    /// The policy in words.
    pub policy: String,
    /// How it walks the queue.
    #[serde(skip)]
    pub scan: Scan,
    /// Waits on the VCs as they stand, each on private nodes.
    pub apart: Waited,
    /// Waits on one pool of the same nodes.
    pub pooled: Waited,
}

/// Waits of the jobs of one VC under the policy that leads.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct OfVc {
    /// Name of the VC.
    pub vc: String,
    /// Number of its jobs that are compared.
    pub jobs: u64,
    /// GPU-hours they were queued on their own nodes.
    pub apart_gpu_hours: f64,
    /// GPU-hours they were queued on one pool.
    pub pooled_gpu_hours: f64,
    /// Mean wait on private nodes, seconds.
    pub apart_mean_wait_s: f64,
    /// Mean wait on one pool, seconds.
    pub pooled_mean_wait_s: f64,
}

/// Comparison of jobs on the VCs as they stand with those jobs on one pool.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Pooling {
    /// GPU jobs compared: those with a recorded start that end in every replay.
    pub jobs: u64,
    /// GPU jobs replayed that are not compared, as one replay has no place for them or their start is not recorded.
    pub not_compared: u64,
    /// GPU jobs of the trace that are not replayed, as their run, GPUs or VC are unknown or they had not ended.
    pub not_replayed: u64,
    /// Nodes with GPUs, the most there are at one time from the first to the last submission.
    pub nodes: u64,
    /// GPUs of these nodes.
    pub gpus: u64,
    /// VCs.
    pub vcs: u64,
    /// Waits of the jobs in the record.
    pub recorded: Waited,
    /// The replays; the first leads, as it comes nearest to the record on the VCs as they stand.
    pub replays: Vec<Pair>,
    /// What other numberings of the nodes give under the policy that leads; `null` where no node fails, or they were too much work.
    pub numberings: Option<Numberings>,
    /// How near the leading replay on the VCs as they stand comes to the record.
    pub fidelity: Fidelity,
    /// Change of the mean wait of a job by one pool under the policy that leads, seconds, with an
    /// interval by moving-block bootstrap, which covers all numberings of the nodes where some
    /// fail; `None` without jobs that end in both replays.
    pub mean_wait_change_s: Option<IntervalEstimate>,
    /// By VC under the policy that leads, most GPU-hours waited apart first.
    pub by_vc: Vec<OfVc>,
    /// What queueing theory says, beside the replays under the policy that leads; `None` where VCs share nodes, or too few jobs come to tell.
    pub theory: Option<PoolingCheck>,
    /// Assumptions, in words.
    pub notes: Vec<String>,
}

/// Replays what was [`loaded`] on the VCs as they stand and on one pool.
///
/// # Errors
/// In one line why the trace does not allow it.
pub fn compare(facts: &JobFacts<'_>, loaded: &Loaded) -> std::result::Result<Pooling, String> {
    if loaded.cluster.pools.len() < 2 {
        return Err("the source does not divide its nodes among at least two VCs with GPU jobs".to_owned());
    }
    let gpu_jobs = (0..facts.len()).filter(|job| facts.is_gpu_job(*job)).count();
    replay(loaded, gpu_jobs).map_err(|error| error.to_string())
}

/// The GPU jobs of a trace that a report replays by itself, each predicted to run as long as the last two alike, and the nodes that it records.
///
/// # Errors
/// In one line why the trace does not allow it: nodes, starts or most of the GPU time are unknown, or there are too many jobs.
pub fn loaded(trace: &Trace, facts: &JobFacts<'_>) -> std::result::Result<Loaded, String> {
    let gpu_jobs = (0..facts.len()).filter(|job| facts.is_gpu_job(*job)).count();
    if gpu_jobs == 0 {
        return Err("the source holds no job that is known to have GPUs".to_owned());
    }
    if gpu_jobs > MOST_JOBS {
        return Err(format!(
            "{} GPU jobs are more than a report replays by itself; `tracecast simulate` and `tracecast plan queues` replay any number",
            format::count(gpu_jobs as u64)
        ));
    }
    let options = Options { hosts: Hosts::Usual, ..Options::default() };
    let mut loaded = load(trace, None, &options).map_err(|error| match error {
        tracecast_replay::Error::ClusterNotRecorded(_) => NO_SIZES.to_owned(),
        other => {
            let text = other.to_string();
            let first = text.lines().next().unwrap_or_default();
            first.strip_prefix("cluster: ").unwrap_or(first).to_owned()
        }
    })?;
    let requests = loaded.workload.shapes.len();
    if loaded.workload.len().saturating_mul(requests) > MOST_WORK {
        return Err(format!(
            "{} GPU jobs with {} distinct requests are more than a report replays by itself; use `tracecast simulate`",
            format::count(loaded.workload.len() as u64),
            format::count(requests as u64)
        ));
    }
    let replayed = sum::NeumaierSum::from_iter(loaded.rows.iter().filter_map(|row| facts.gpu_s(*row as usize))).value();
    let part = if facts.total_gpu_s() > 0.0 { replayed / facts.total_gpu_s() } else { 1.0 };
    if part < LEAST_REPLAYED {
        return Err(format!(
            "only {} of the GPU time is of jobs that can be replayed (with a known VC of known size, and a known run that ended)",
            format::percent(part)
        ));
    }
    let starts = loaded.recorded_start_ms.iter().flatten().count();
    if (starts as f64) < LEAST_STARTS * loaded.workload.len() as f64 {
        return Err(
            "the starts of jobs are not recorded, so what the replay gives cannot be compared with what was".to_owned()
        );
    }
    loaded.workload.predicted_s = last_two(facts, &loaded);
    Ok(loaded)
}

/// The four replays.
fn replay(loaded: &Loaded, gpu_jobs: usize) -> std::result::Result<Pooling, crate::Error> {
    let workload = &loaded.workload;
    let pool = loaded.cluster.pooled();
    let policies = [Scan::Skip, Scan::Strict].map(|scan| Policy { scan, ..Policy::default() });
    let runs: Vec<(&Policy, &Cluster)> =
        policies.iter().flat_map(|policy| [(policy, &loaded.cluster), (policy, &pool)]).collect();
    let schedules: Result<Vec<_>> =
        runs.into_par_iter().map(|(policy, cluster)| Ok(simulate(workload, cluster, policy)?)).collect();
    let schedules = schedules?;
    let times: tracecast_replay::Result<Vec<JobTimes>> =
        schedules.iter().map(|schedule| JobTimes::new(workload, schedule)).collect();
    let times = times?;
    let compared: Vec<usize> = (0..workload.len())
        .filter(|job| loaded.recorded_start_ms.get(*job).copied().flatten().is_some())
        .filter(|job| times.iter().all(|times| times.wait_ms(*job).is_some()))
        .collect();
    let none = || crate::Error::no_jobs("no job ends in every replay".to_owned());
    let queued = |job: usize, start: Option<i64>| Some((start? - workload.submit_ms.get(job)?).max(0));
    let recorded = |job: usize| Some((queued(job, loaded.recorded_start_ms.get(job).copied().flatten())?, None));
    let recorded = Waited::new(workload, &compared, &recorded).ok_or_else(none)?;
    let mut pairs = Vec::new();
    for ((policy, times), schedules) in policies.iter().zip(times.chunks_exact(2)).zip(schedules.chunks_exact(2)) {
        if let ([apart, pooled], [schedule, _]) = (times, schedules) {
            let waited = |times| Waited::replayed(workload, &compared, times).ok_or_else(none);
            let pair =
                Pair { policy: policy.describe(), scan: policy.scan, apart: waited(apart)?, pooled: waited(pooled)? };
            // The record is known until the first start alone, and so both are compared until there.
            let first = |job: usize| Some((queued(job, schedule.start_ms(job))?, None));
            let first = Waited::new(workload, &compared, &first).ok_or_else(none)?;
            pairs.push(((first.gpu_hours - recorded.gpu_hours).abs(), pair, (policy, schedule), apart, pooled));
        }
    }
    // Stable: of two that come as near, the one that passes over jobs leads.
    pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let Some((_, _, (policy, schedule), apart, pooled)) = pairs.first() else { return Err(none()) };
    let mut notes = loaded.notes.clone();
    let numberings = Numberings::of(workload, [&loaded.cluster, &pool], policy, &compared)?;
    if numberings.is_none() && !loaded.cluster.outages.is_empty() {
        notes.push(
            "Nodes fail, and other numberings of them were too much work here: which jobs the failures hit is chance."
                .to_owned(),
        );
    }
    let fidelity = Fidelity::new(workload, schedule, &loaded.recorded_start_ms)?;
    let submitted = |at: Option<&i64>, else_ms: i64| at.copied().unwrap_or(else_ms);
    let (first, last) = (workload.submit_ms.first(), workload.submit_ms.last());
    let (nodes, gpus) = loaded.cluster.largest_within(submitted(first, i64::MIN), submitted(last, i64::MAX));
    let by_vc = by_vc(loaded, &compared, apart, pooled);
    let waits_s = pairs.first().map(|(_, pair, ..)| [&pair.apart, &pair.pooled].map(|of| of.wait_s.mean_s));
    let theory = waits_s.and_then(|waits_s| in_theory(loaded, &by_vc, waits_s));
    let change = compare::compare(workload, &[("apart", apart), ("pooled", pooled)], SEED)?;
    Ok(Pooling {
        mean_wait_change_s: change.differences.first().map(|change| over_both(change.mean_wait_s, numberings.as_ref())),
        jobs: compared.len() as u64,
        not_compared: (workload.len() - compared.len()) as u64,
        not_replayed: gpu_jobs.saturating_sub(workload.len()) as u64,
        nodes,
        gpus,
        vcs: loaded.cluster.vcs.len() as u64,
        recorded,
        fidelity,
        by_vc,
        theory,
        numberings,
        notes,
        replays: pairs.into_iter().map(|(_, pair, ..)| pair).collect(),
    })
}

/// A change with its interval of the bootstrap, put around the mean over numberings of the nodes and widened to cover all of them.
fn over_both(drawn: IntervalEstimate, numberings: Option<&Numberings>) -> IntervalEstimate {
    let Some(over) = numberings.map(|numberings| numberings.mean_wait_change_s) else { return drawn };
    let moved = over.value - drawn.value;
    IntervalEstimate {
        value: over.value,
        low: over.low.min(drawn.low + moved),
        high: over.high.max(drawn.high + moved),
    }
}

fn by_vc(loaded: &Loaded, compared: &[usize], apart: &JobTimes, pooled: &JobTimes) -> Vec<OfVc> {
    let workload = &loaded.workload;
    let mut jobs: BTreeMap<u16, Vec<usize>> = BTreeMap::new();
    for job in compared {
        jobs.entry(workload.vc.get(*job).copied().unwrap_or(0)).or_default().push(*job);
    }
    let mut result: Vec<OfVc> = jobs
        .into_iter()
        .filter_map(|(vc, jobs)| {
            let of = |times: &JobTimes| Waited::replayed(workload, &jobs, times);
            let (apart, pooled) = (of(apart)?, of(pooled)?);
            Some(OfVc {
                vc: loaded.cluster.vcs.get(usize::from(vc))?.name.clone(),
                jobs: jobs.len() as u64,
                apart_gpu_hours: apart.gpu_hours,
                pooled_gpu_hours: pooled.gpu_hours,
                apart_mean_wait_s: apart.wait_s.mean_s,
                pooled_mean_wait_s: pooled.wait_s.mean_s,
            })
        })
        .collect();
    result.sort_by(|a, b| b.apart_gpu_hours.total_cmp(&a.apart_gpu_hours).then_with(|| a.vc.cmp(&b.vc)));
    result
}

/// What queueing theory says of the jobs, with the mean waits of the replays apart and pooled, seconds.
fn in_theory(loaded: &Loaded, by_vc: &[OfVc], replayed_s: [f64; 2]) -> Option<PoolingCheck> {
    let workload = &loaded.workload;
    let offered = OfferedLoads::new(workload, &loaded.cluster, |_| true)?;
    let replayed = |name: &str| by_vc.iter().find(|vc| vc.vc == name).map(|vc| vc.apart_mean_wait_s);
    fn queue(of: &VcLoad, replayed: impl Fn(&str) -> Option<f64>) -> Option<VcQueue<'_>> {
        Some(VcQueue { name: &of.vc, gpus: of.own_gpus?, replayed_mean_wait_s: replayed(&of.vc) })
    }
    let vcs: Option<Vec<VcQueue<'_>>> = offered.by_vc.iter().map(|of| queue(of, replayed)).collect();
    let (first, last) = (workload.submit_ms.first()?, workload.submit_ms.last()?);
    PoolingCheck::of(workload, &vcs?, (*first, last + 1), replayed_s)
}

impl Waited {
    /// Waits of some jobs: `of` gives the time that each was queued and what it lost, milliseconds.
    /// `None` of none.
    fn new(workload: &Workload, jobs: &[usize], of: &dyn Fn(usize) -> Option<(i64, Option<i64>)>) -> Option<Self> {
        let known: Vec<(usize, i64, Option<i64>)> =
            jobs.iter().filter_map(|job| of(*job).map(|(queued, lost)| (*job, queued, lost))).collect();
        let gpu_hours = |job: usize, ms: i64| workload.shape_of(job).as_gpus() * ms as f64 / 3.6e6;
        let queued = known.iter().map(|(job, queued, _)| gpu_hours(*job, *queued));
        let lost: Option<Vec<f64>> = known.iter().map(|(job, _, lost)| Some(gpu_hours(*job, (*lost)?))).collect();
        let waits = known.iter().map(|(_, queued, lost)| (queued + lost.unwrap_or(0)) as f64 / 1000.0);
        Some(Self {
            gpu_hours: sum::NeumaierSum::from_iter(queued).value(),
            lost_gpu_hours: lost.map(|lost| sum::NeumaierSum::from_iter(lost).value()),
            wait_s: Times::of(waits.collect())?,
        })
    }

    /// Waits of jobs in a replay.
    fn replayed(workload: &Workload, jobs: &[usize], times: &JobTimes) -> Option<Self> {
        Self::new(workload, jobs, &|job| Some((times.queued_ms(job)?, times.lost_ms.get(job).copied())))
    }
}

impl Pooling {
    /// Whether the replay comes near enough to the record to build on.
    pub fn is_believed(&self) -> bool {
        self.fidelity.is_believed()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tracecast_analytics::schema::{CapacityRow, JobRow};

    use super::*;

    fn of(trace: &Trace) -> std::result::Result<Pooling, String> {
        let facts = JobFacts::new(trace);
        compare(&facts, &loaded(trace, &facts)?)
    }

    fn job(key: &str, vc: &str, gpus: f64, submit_s: i64, start_s: i64, run_s: i64) -> JobRow<'static> {
        JobRow {
            job_key: Some(key.to_owned().into()),
            vc: Some(vc.to_owned().into()),
            submit: Some(submit_s * 1_000),
            start: Some(start_s * 1_000),
            end: Some((start_s + run_s) * 1_000),
            run_s: Some(run_s as f64),
            req_gpus: Some(gpus),
            state: Some("completed".into()),
            ..JobRow::default()
        }
    }

    fn quota(vc: &str, gpus: f64, nodes: f64) -> CapacityRow<'static> {
        CapacityRow {
            scope: Some("vc".into()),
            name: Some(vc.to_owned().into()),
            from: Some(0),
            gpus: Some(gpus),
            nodes: Some(nodes),
            ..CapacityRow::default()
        }
    }

    /// The worked number: VCs a and b of one GPU each.
    fn trace() -> Trace {
        let mut trace = Trace::default();
        for (key, vc, start) in [("1", "a", 0), ("2", "a", 100), ("3", "a", 200), ("4", "b", 0)] {
            trace.jobs.push(job(key, vc, 1.0, 0, start, 100));
        }
        trace.capacity.push(quota("a", 1.0, 1.0));
        trace.capacity.push(quota("b", 1.0, 1.0));
        trace
    }

    #[test]
    fn the_worked_number() {
        let result = of(&trace()).unwrap();
        assert_eq!((result.jobs, result.not_compared, result.not_replayed), (4, 0, 0));
        assert_eq!((result.nodes, result.gpus, result.vcs), (2, 2, 2));
        let first = result.replays.first().unwrap();
        let hours = |gpu_s: f64| gpu_s / 3600.0;
        assert_eq!((result.recorded.gpu_hours, first.apart.gpu_hours), (hours(300.0), hours(300.0)));
        assert_eq!((first.pooled.gpu_hours, first.pooled.wait_s.mean_s), (hours(200.0), 50.0));
        // By VC, what pooling costs the one that had room is there to see: b's job stands fourth in the one queue.
        let by_vc: Vec<_> =
            result.by_vc.iter().map(|vc| (vc.vc.as_str(), vc.apart_mean_wait_s, vc.pooled_mean_wait_s)).collect();
        assert_eq!(by_vc, [("a", 100.0, 100.0 / 3.0), ("b", 0.0, 100.0)]);
    }

    #[test]
    fn a_pool_may_serve_more_than_what_met_idle_gpus_at_the_moment() {
        // a (4 GPUs) is full until 100 s, and three jobs of 4 GPUs and 10 s wait for it, all submitted at 0 s. b (4 GPUs) is idle
        // for the first 10 s only, then full until 300 s. At a moment, b's 4 idle GPUs serve 4 of the 12 that wait, 40 of the 1,320
        // GPU-seconds, 3 %. The replay on one pool starts the first of them at once.
        let mut trace = Trace::default();
        trace.jobs.push(job("long", "a", 4.0, 0, 0, 100));
        for (key, start) in [("x", 100), ("y", 110), ("z", 120)] {
            trace.jobs.push(job(key, "a", 4.0, 0, start, 10));
        }
        trace.jobs.push(job("late", "b", 4.0, 10, 10, 290));
        trace.capacity.push(quota("a", 4.0, 1.0));
        trace.capacity.push(quota("b", 4.0, 1.0));
        let result = of(&trace).unwrap();
        let first = result.replays.first().unwrap();
        // Apart: 4 × (100 + 110 + 120). On one pool: x at 0, y at 10, z at 20 s, and `late` at 30 s instead of 10.
        let seconds = |waited: &Waited| (waited.gpu_hours * 3600.0).round();
        assert_eq!((seconds(&first.apart), seconds(&first.pooled)), (1_320.0, 4.0 * (10.0 + 20.0 + 20.0)));
    }

    #[test]
    fn what_is_not_known_is_said_in_one_line() {
        let reason = |trace: &Trace| of(trace).unwrap_err();
        assert!(reason(&Trace::default()).contains("no job"));
        let mut no_capacity = trace();
        no_capacity.capacity = tracecast_analytics::schema::CapacityTable::default();
        assert_eq!(reason(&no_capacity), "the source does not say how many GPUs its VCs have");
        let mut one = trace();
        one.jobs = tracecast_analytics::schema::JobTable::default();
        one.jobs.push(job("1", "a", 1.0, 0, 0, 100));
        assert!(reason(&one).contains("at least two VCs"));
        let mut no_starts = trace();
        for row in 0..3 {
            no_starts.jobs.start.set(row, None);
        }
        assert!(reason(&no_starts).contains("starts of jobs are not recorded"));
        // A job of most of the GPU time in no VC leaves room that was not there.
        let mut nowhere = trace();
        let mut row = job("5", "", 1.0, 0, 0, 10_000);
        row.vc = None;
        nowhere.jobs.push(row);
        assert!(reason(&nowhere).contains("of the GPU time is of jobs that can be replayed"));
        assert!(Pooling::unavailable("why").unavailable.is_some());
    }
}
