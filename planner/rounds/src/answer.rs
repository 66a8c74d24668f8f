//! The answer of `plan allocation`, as JSON (`plan-allocation/1`): policies beside each other on
//! the same jobs, and a bound that no schedule undercuts.
//!
//! Drawn jobs are drawn once a seed. A figure is then the mean over the seeds, and its interval where 95 % of 1,000 draws of the seeds with replacement lie; policies are compared on the same draws. Jobs from a file are one set, and
//! figures of them have no interval. What is **advised** is the policy that knows types with the least mean completion time, beside the best of those that know none; one that changes how many GPUs jobs have is no candidate. With four seeds or more, both are chosen on the first half
//! of the seeds, and what the advice says of them is of the other half; with fewer they are chosen on what they are told of, and the answer says so. Where shares of time are
//! allocated anew whenever a job comes or ends, both are replayed a second time with [32 min](KEPT_MS) between allocations, as what types are worth hangs on that.
//!
//! O(seeds × policies) replays, in parallel. Worked example: mean completion times of 10 h under FIFO, 7 h under the best policy without types and 4 h under the best with them: of the 6 h saved, half come
//! from taking turns and half from types.

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::report::format;
use tracecast_analytics::stats::quantile;
use tracecast_analytics::watch::Watch;

use super::bound::bound;
use super::job::{GangJob, JobDraw, draw};
use super::policy::AllocationPolicy;
use super::pool::{GpuPool, TypedFleet};
use super::programme::PART;
use super::replay::{AllocationReplay, RoundOptions, replay};
use tracecast_plan::forecast::Forecasting;
use tracecast_plan::interval;
use tracecast_plan::{Error, Result};

mod deadlines;
mod host;
mod render;
mod users;

pub use deadlines::{AllocationDeadlines, FewestMissed};
pub use host::{AllocationDominant, AllocationHost, AllocationHostAdvice, AllocationHostUse, AllocationNode};
pub use users::AllocationUsers;

/// Version of the JSON.
pub const SCHEMA: &str = "plan-allocation/1";
/// Seeds from which on policies are chosen on other seeds than they are told of.
const SEVERAL: usize = 4;

/// Least time between allocations in the second replay of those that are advised, milliseconds: that of Gavel's simulator.
pub const KEPT_MS: i64 = 32 * 60_000;

/// A figure, with its 95 % interval where jobs were drawn several times.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct AllocationFigure {
    /// The figure.
    pub value: f64,
    /// Lower end.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
}

/// Figures of a policy on one set of jobs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct AllocationRun {
    /// Seed of the jobs; none of jobs from a file.
    pub seed: Option<u64>,
    /// The policy.
    pub policy: AllocationPolicy,
    /// Mean time from submission to end, seconds.
    pub mean_jct_s: f64,
    /// Median time from submission to end, seconds.
    pub p50_jct_s: f64,
    /// 95 % quantile of the time from submission to end, seconds.
    pub p95_jct_s: f64,
    /// From the first submission to the last end, seconds.
    pub makespan_s: f64,
    /// The greatest finish-time ratio.
    pub worst_ratio: f64,
    /// Share of the jobs with a finish-time ratio above 1.1.
    pub unfair: f64,
    /// Share of each type's GPU time that was held, until the last end.
    pub held: Vec<f64>,
    /// Starts on other GPUs, or after a pause.
    pub restarts: u64,
    /// Allocations made.
    pub allocations: u64,
    /// Programmes solved for them.
    pub programmes: u64,
    /// How users fared; only where jobs are of several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub users: Option<AllocationUsers<f64>>,
    /// Missed and met deadlines; only where jobs have some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadlines: Option<AllocationDeadlines<f64>>,
    /// Use of processors and memory; only where nodes have them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<AllocationHostUse<f64>>,
    /// Time that they took on this machine, seconds, in all and at most: never the same twice, so in no answer.
    #[serde(skip)]
    #[schemars(skip)]
    pub allocating_s: (f64, f64),
}

/// A policy over all sets of jobs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct AllocationRow {
    /// The policy.
    pub policy: AllocationPolicy,
    /// Whether the policy knows how fast jobs are on which type.
    pub knows_types: bool,
    /// Mean time from submission to end, seconds.
    pub mean_jct_s: AllocationFigure,
    /// Median time from submission to end, seconds.
    pub p50_jct_s: AllocationFigure,
    /// 95 % quantile of the time from submission to end, seconds.
    pub p95_jct_s: AllocationFigure,
    /// From the first submission to the last end, seconds.
    pub makespan_s: AllocationFigure,
    /// The greatest finish-time ratio of a set of jobs.
    pub worst_ratio: AllocationFigure,
    /// Share of the jobs with a finish-time ratio above 1.1.
    pub unfair: AllocationFigure,
    /// Share of each type's GPU time that was held, in order of the fleet.
    pub held: Vec<f64>,
    /// Starts on other GPUs or after a pause, a job.
    pub restarts_per_job: f64,
    /// Mean time over that under the first policy, less 1.
    pub against_first: AllocationFigure,
    /// How users fared; only where jobs are of several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub users: Option<AllocationUsers<AllocationFigure>>,
    /// Missed and met deadlines; only where jobs have some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadlines: Option<AllocationDeadlines<AllocationFigure>>,
    /// Use of processors and memory; only where nodes have them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<AllocationHostUse<AllocationFigure>>,
}

/// Lower bounds of any schedule.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct AllocationLimits {
    /// Bound of the mean time from submission to end, seconds.
    pub mean_jct_s: AllocationFigure,
    /// Bound of the makespan, seconds.
    pub makespan_s: AllocationFigure,
    /// Bound of the share of missed deadlines; only where jobs have some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missed: Option<AllocationFigure>,
}

/// The advised policy, and the figures that it rests on.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct AllocationAdvice {
    /// The policy that knows types.
    pub policy: AllocationPolicy,
    /// The best that knows none.
    pub blind: AllocationPolicy,
    /// Mean time under `fifo`, seconds; none where that was not replayed.
    pub fifo_jct_s: Option<AllocationFigure>,
    /// Mean time under the best without types, seconds.
    pub blind_jct_s: AllocationFigure,
    /// Mean time under the policy, seconds.
    pub jct_s: AllocationFigure,
    /// Saving of the mean time by knowing types, a share of that under the best without types.
    pub saving: AllocationFigure,
    /// Saving with at least 32 min between two allocations; none where so much or more was
    /// replayed, or neither policy gives shares of time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(default)]
    pub kept_saving: Option<AllocationFigure>,
    /// The greatest finish-time ratio of a job under the policy, of all sets of jobs that these figures are of.
    pub worst_ratio: f64,
    /// The greatest finish-time ratio of a job under the best without types.
    pub blind_worst_ratio: f64,
    /// Whether both were chosen on other seeds than these figures are of.
    pub chosen_apart: bool,
}

/// The whole answer.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct AllocationAnswer {
    /// Version of this form.
    pub schema: &'static str,
    /// Sources of the throughputs and jobs.
    pub title: String,
    /// The fleet.
    pub pools: Vec<GpuPool>,
    /// Jobs of a set.
    pub jobs: usize,
    /// Description of the drawn jobs; none of jobs from a file.
    pub drawn: Option<String>,
    /// Length of a round, seconds.
    pub round_s: f64,
    /// Cost of a start on other GPUs, seconds.
    pub restart_s: f64,
    /// Least time between two allocations of shares, seconds.
    #[schemars(default)]
    pub reallocate_s: f64,
    /// GPUs of a node, if gangs are put onto nodes.
    pub gpus_per_node: Option<u32>,
    /// Processors and memory of nodes; only where they count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<AllocationHost>,
    /// Policies, in the order asked for.
    pub policies: Vec<AllocationRow>,
    /// Lower bounds of any schedule.
    pub limits: AllocationLimits,
    /// Every replay.
    pub runs: Vec<AllocationRun>,
    /// The recommended action, in a sentence.
    pub action: String,
    /// Figures that the action rests on; none where no policy with types stands beside one without.
    pub advice: Option<AllocationAdvice>,
    /// Who misses the fewest deadlines; only where jobs have some.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(default)]
    pub fewest_missed: Option<FewestMissed>,
    /// Assumptions.
    pub notes: Vec<String>,
    /// Worth of the forecast that the plan rests on.
    #[serde(flatten)]
    pub forecasting: Forecasting,
}

/// The JSON Schema of [`AllocationAnswer`].
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(AllocationAnswer).to_value()
}

/// Jobs to replay.
#[derive(Debug, Clone, PartialEq)]
pub enum AllocationJobs {
    /// Jobs of a file, in order of submission.
    Listed(Vec<GangJob>),
    /// Drawn, once a seed.
    Drawn(JobDraw, Vec<u64>),
}

/// Policies and jobs to replay.
#[derive(Debug, Clone, PartialEq)]
pub struct AllocationRequest {
    /// Policies, each once.
    pub policies: Vec<AllocationPolicy>,
    /// The jobs.
    pub jobs: AllocationJobs,
    /// How rounds go.
    pub options: RoundOptions,
}

/// Replays of one set of jobs, and its lower bounds.
struct Tried<'a> {
    runs: &'a [AllocationRun],
    least_jct_s: f64,
    least_makespan_s: f64,
    /// Deadlines that must be missed, and all deadlines.
    least_missed: (f64, f64),
}

impl AllocationAnswer {
    /// Replays all policies on all sets of jobs.
    ///
    /// # Errors
    /// If no policy or no seed is named, one twice, or a replay fails.
    pub fn new(fleet: &TypedFleet, title: String, request: &AllocationRequest, watch: &dyn Watch) -> Result<Self> {
        let policies = &request.policies;
        let twice =
            policies.iter().enumerate().find(|(at, policy)| policies.iter().take(*at).any(|other| other == *policy));
        if let Some((_, policy)) = twice {
            return Err(Error::policy(format!("{} is named twice", policy.name())));
        }
        if policies.is_empty() {
            return Err(Error::no_scenario("name at least one policy"));
        }
        let sets: Vec<(Option<u64>, Vec<GangJob>)> = match &request.jobs {
            AllocationJobs::Listed(jobs) => vec![(None, jobs.clone())],
            AllocationJobs::Drawn(what, seeds) => {
                seeds.iter().map(|seed| Ok((Some(*seed), draw(fleet, what, *seed)?))).collect::<Result<_>>()?
            }
        };
        let Some((_, first)) = sets.first().filter(|(_, jobs)| !jobs.is_empty()) else {
            return Err(Error::no_jobs("there is no job to replay".to_owned()));
        };
        let count = first.len();
        let by_deadline = policies.iter().find(|policy| policy.by_deadline());
        if let Some(policy) =
            by_deadline.filter(|_| sets.iter().all(|(_, jobs)| jobs.iter().all(|job| job.due_ms.is_none())))
        {
            return Err(Error::policy(format!(
                "{} is for deadlines, and no job has one; give jobs a column `deadline_s`, or draw some with `--deadlines 0.5:1.5-4`",
                policy.name()
            )));
        }
        let by_user = policies.iter().find(|policy| policy.by_user());
        if let Some(policy) = by_user.filter(|_| first.iter().all(|job| job.user.is_none())) {
            return Err(Error::policy(format!(
                "{} gives GPUs to users, and no job has one; give jobs a column `user`, or draw them with `--users 6 --rate 6`",
                policy.name()
            )));
        }
        let cases: Vec<(usize, AllocationPolicy)> =
            (0..sets.len()).flat_map(|set| policies.iter().map(move |policy| (set, *policy))).collect();
        host::check(fleet, policies)?;
        let replays: Vec<(AllocationRun, Vec<i64>)> = cases
            .par_iter()
            .map(|(set, policy)| {
                let (seed, jobs) = sets.get(*set).ok_or_else(|| Error::defect("a set of jobs is gone".to_owned()))?;
                let result = replay(fleet, jobs, *policy, &request.options)?;
                watch.made();
                Ok((run(fleet, jobs, *seed, *policy, &result), result.ends_ms))
            })
            .collect::<Result<_>>()?;
        let replays = host::with_later(replays, policies);
        let tried = sets
            .iter()
            .zip(replays.chunks(policies.len()))
            .map(|((_, jobs), runs)| {
                let least = bound(fleet, jobs)?;
                let first_s = jobs.first().map_or(0.0, |job| job.submit_ms as f64 / 1e3);
                let dues = jobs.iter().filter(|job| job.due_ms.is_some()).count();
                Ok(Tried {
                    runs,
                    least_jct_s: least.mean_s,
                    least_makespan_s: least.makespan_s - first_s,
                    least_missed: (least.late as f64, dues as f64),
                })
            })
            .collect::<Result<Vec<Tried<'_>>>>()?;
        let mut advice = advice(policies, &tried);
        if let Some(advice) = &mut advice {
            let (_, told, _) = apart(&sets);
            advice.kept_saving = kept_saving(fleet, told, advice, &request.options)?;
        }
        let fewest_missed = deadlines::fewest(policies, &tried, advice.as_ref().map(|advice| advice.policy));
        let host = host::whole(fleet, request, &tried);
        let mut answer = Self {
            schema: SCHEMA,
            title,
            pools: fleet.pools.clone(),
            jobs: count,
            drawn: match &request.jobs {
                AllocationJobs::Listed(_) => None,
                AllocationJobs::Drawn(what, seeds) => Some(render::drawn_in_words(what, fleet, seeds)),
            },
            round_s: request.options.round_ms as f64 / 1e3,
            restart_s: request.options.restart_ms as f64 / 1e3,
            reallocate_s: request.options.reallocate_ms as f64 / 1e3,
            gpus_per_node: request.options.per_node,
            host,
            policies: (0..policies.len()).filter_map(|at| row(at, count, &tried)).collect(),
            limits: AllocationLimits {
                mean_jct_s: over(&tried, &|set| Some(set.least_jct_s)),
                makespan_s: over(&tried, &|set| Some(set.least_makespan_s)),
                missed: tried.iter().any(|set| set.least_missed.1 > 0.0).then(|| {
                    over(&tried, &|set| Some(set.least_missed.0 / set.least_missed.1).filter(|share| share.is_finite()))
                }),
            },
            runs: replays,
            action: String::new(),
            advice,
            fewest_missed,
            notes: notes(fleet, count, request),
            forecasting: Forecasting::none("throughputs are as measured, and jobs are replayed as they are told"),
        };
        answer.action = answer.advised();
        Ok(answer)
    }

    /// The row of a policy.
    pub fn row(&self, policy: AllocationPolicy) -> Option<&AllocationRow> {
        self.policies.iter().find(|row| row.policy == policy)
    }
}

/// Computes the figures of one replay.
fn run(
    fleet: &TypedFleet,
    jobs: &[GangJob],
    seed: Option<u64>,
    policy: AllocationPolicy,
    result: &AllocationReplay,
) -> AllocationRun {
    let took: Vec<f64> = result.ends_ms.iter().zip(jobs).map(|(end, job)| (end - job.submit_ms) as f64 / 1e3).collect();
    let levels = quantile::quantiles(&took, &[0.5, 0.95]);
    let level = |at: usize| levels.get(at).copied().flatten().unwrap_or(0.0);
    let first_ms = jobs.first().map_or(0, |job| job.submit_ms);
    let span_ms = result.ends_ms.iter().max().map_or(0, |last| last - first_ms);
    let held = |(pool, held): (&GpuPool, &i64)| *held as f64 / (f64::from(pool.gpus) * span_ms.max(1) as f64);
    AllocationRun {
        seed,
        policy,
        mean_jct_s: interval::average(took.iter().copied()),
        p50_jct_s: level(0),
        p95_jct_s: level(1),
        makespan_s: span_ms as f64 / 1e3,
        worst_ratio: result.ratios.iter().copied().fold(0.0, f64::max),
        unfair: interval::average(result.ratios.iter().map(|ratio| f64::from(u8::from(*ratio > 1.1)))),
        held: fleet.pools.iter().zip(&result.held_ms).map(held).collect(),
        restarts: result.restarts,
        allocations: result.allocations,
        programmes: result.programmes,
        users: users::of(fleet, jobs, result),
        deadlines: deadlines::of(jobs, result),
        host: host::of(fleet, span_ms, result),
        allocating_s: result.allocating_s,
    }
}

/// A figure over sets of jobs.
fn over(tried: &[Tried<'_>], of: &dyn Fn(&Tried<'_>) -> Option<f64>) -> AllocationFigure {
    ratio(tried, &|set| Some((of(set)?, 1.0)))
}

/// The sum of one figure over the sum of another.
fn ratio<T>(tried: &[T], of: &dyn Fn(&T) -> Option<(f64, f64)>) -> AllocationFigure {
    let values: Vec<(f64, f64)> = tried.iter().filter_map(of).collect();
    let [result] = interval::drawn(values.len(), &|sets| {
        let sets: Vec<usize> = sets.collect();
        let of = |part: fn(&(f64, f64)) -> f64| sets.iter().filter_map(|set| values.get(*set)).map(part).sum::<f64>();
        [of(|value| value.0) / of(|value| value.1)]
    });
    let several = values.len() > 1;
    AllocationFigure { value: result.value, low: several.then_some(result.low), high: several.then_some(result.high) }
}

/// The row of the policy at a place.
fn row(at: usize, jobs: usize, tried: &[Tried<'_>]) -> Option<AllocationRow> {
    let policy = tried.first()?.runs.get(at)?.policy;
    let figure = |of: fn(&AllocationRun) -> f64| over(tried, &|set| set.runs.get(at).map(of));
    let types = tried.first()?.runs.get(at)?.held.len();
    let held = |gpu: usize| interval::average(tried.iter().filter_map(|set| set.runs.get(at)?.held.get(gpu).copied()));
    let restarts = tried.iter().filter_map(|set| set.runs.get(at)).map(|run| run.restarts as f64);
    let mut against_first = ratio(tried, &|set| Some((set.runs.get(at)?.mean_jct_s, set.runs.first()?.mean_jct_s)));
    for end in [Some(&mut against_first.value), against_first.low.as_mut(), against_first.high.as_mut()] {
        end.into_iter().for_each(|end| *end -= 1.0);
    }
    Some(AllocationRow {
        policy,
        users: users::over_sets(at, tried),
        deadlines: deadlines::over_sets(at, tried),
        host: host::over_sets(at, tried),
        knows_types: policy.knows_types(),
        mean_jct_s: figure(|run| run.mean_jct_s),
        p50_jct_s: figure(|run| run.p50_jct_s),
        p95_jct_s: figure(|run| run.p95_jct_s),
        makespan_s: figure(|run| run.makespan_s),
        worst_ratio: figure(|run| run.worst_ratio),
        unfair: figure(|run| run.unfair),
        held: (0..types).map(held).collect(),
        restarts_per_job: interval::average(restarts) / jobs.max(1) as f64,
        against_first,
    })
}

/// The sets of jobs on which policies are chosen, those that figures are told of, and whether these are others.
fn apart<T>(tried: &[T]) -> (&[T], &[T], bool) {
    if tried.len() < SEVERAL {
        return (tried, tried, false);
    }
    let (choose, told) = tried.split_at(tried.len() / 2);
    (choose, told, true)
}

/// The policy with types to take, beside the best without.
fn advice(policies: &[AllocationPolicy], tried: &[Tried<'_>]) -> Option<AllocationAdvice> {
    let (choose, told, chosen_apart) = apart(tried);
    let best = |knows: bool| {
        let mean = |at: usize| interval::average(choose.iter().filter_map(|set| Some(set.runs.get(at)?.mean_jct_s)));
        // Who has other GPUs than it asked for is no fair comparison.
        // Nor is it one of types alone who divides processors and memory.
        let may = |policy: &AllocationPolicy| policy.knows_types() == knows && !policy.resizes() && !policy.by_host();
        let places = (0..policies.len()).filter(|at| policies.get(*at).is_some_and(may));
        places.min_by(|a, b| mean(*a).total_cmp(&mean(*b)))
    };
    let (typed, blind) = (best(true)?, best(false)?);
    let fifo = policies.iter().position(|policy| *policy == AllocationPolicy::Fifo);
    let mean = |at: usize| over(told, &|set| Some(set.runs.get(at)?.mean_jct_s));
    let saving = ratio(told, &|set| {
        let (typed, blind) = (set.runs.get(typed)?.mean_jct_s, set.runs.get(blind)?.mean_jct_s);
        Some((blind - typed, blind))
    });
    let worst = |at: usize| told.iter().filter_map(|set| Some(set.runs.get(at)?.worst_ratio)).fold(0.0, f64::max);
    Some(AllocationAdvice {
        policy: *policies.get(typed)?,
        blind: *policies.get(blind)?,
        fifo_jct_s: fifo.map(mean),
        blind_jct_s: mean(blind),
        jct_s: mean(typed),
        saving,
        kept_saving: None,
        worst_ratio: worst(typed),
        blind_worst_ratio: worst(blind),
        chosen_apart,
    })
}

/// Computes the saving of the advised policy where allocations of shares are kept for longer than
/// requested.
fn kept_saving(
    fleet: &TypedFleet,
    told: &[(Option<u64>, Vec<GangJob>)],
    advice: &AllocationAdvice,
    options: &RoundOptions,
) -> Result<Option<AllocationFigure>> {
    let policies = [advice.policy, advice.blind];
    if options.reallocate_ms >= KEPT_MS || !policies.into_iter().any(AllocationPolicy::shares) {
        return Ok(None);
    }
    let options = RoundOptions { reallocate_ms: KEPT_MS, ..*options };
    let runs: Vec<Vec<AllocationRun>> = told
        .par_iter()
        .map(|(seed, jobs)| {
            let of = |policy| Ok(run(fleet, jobs, *seed, policy, &replay(fleet, jobs, policy, &options)?));
            policies.into_iter().map(of).collect()
        })
        .collect::<Result<_>>()?;
    let means: Vec<(f64, f64)> =
        runs.iter().filter_map(|runs| Some((runs.first()?.mean_jct_s, runs.last()?.mean_jct_s))).collect();
    Ok(Some(ratio(&means, &|(typed, blind)| Some((blind - typed, *blind)))))
}

/// Returns the assumptions, in words.
fn notes(fleet: &TypedFleet, jobs: usize, request: &AllocationRequest) -> Vec<String> {
    let mut notes = vec![
        "The throughputs are taken as they are: known beforehand, the same all the time, and of gangs that lie close together.".to_owned(),
        "Jobs can be stopped and moved between GPU types at the end of every round; a policy in order of submission moves none unless it knows types.".to_owned(),
    ];
    if request.options.restart_ms == 0 {
        notes.push("A move costs nothing here. `--restart 60s` says what a checkpoint and a restart take.".to_owned());
    }
    if fleet.nowhere > 0 {
        notes.push(format!(
            "{} of the throughputs run nowhere on this fleet: they are larger than any type on which they run, or were measured on others.",
            format::counted(fleet.nowhere as u64, "kind of job", "kinds of job")
        ));
    }
    notes.extend(host::notes(fleet, request));
    if request.policies.iter().any(|policy| policy.resizes()) {
        notes.push("genie changes how many GPUs a job has. The bounds are for the GPUs that jobs ask for, so they do not hold for it, and it is no candidate for the advice.".to_owned());
    }
    if jobs > PART {
        notes.push(format!(
            "Where more than {PART} jobs are there at once, programmes are split into parts with a share of every type each (POP), so allocations may be a little off their optimum."
        ));
    }
    notes
}
