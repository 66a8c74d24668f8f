//! What sharing would do to the jobs of a trace: the rule chosen on earlier jobs, held against later ones.
//!
//! ```text
//! jobs        those of one GPU; each has the job type of its name where the table knows one, else one that is drawn: number n among them, in order of
//!             submission, has kind draw(seed, n, 0) mod kinds
//! GPUs        as asked, else the fewest with which the 95 % wait of the earlier jobs is within 30 min while nobody shares
//! earlier     submitted before the split; runs are cut off there, jobs that had not started by then are left out, and those that had not ended hold GPUs but do not count
//! candidates  nobody shares; the rule of the plan (the forecast rule, with a trial where somebody watches) with an expected progress above 1, 1.1, 1.25 and 1.5,
//!             each in one class, as that is what can be set
//! choice      the earlier jobs are replayed with speeds as they are forecast, so that no measured speed of a couple that is decided on has a part in it
//! criterion   of those with which the 0.9 quantile of the slowdown of jobs that shared is within the SLO, the least mean delay on the earlier jobs
//! later       submitted from the split on, in a replay of all jobs with the measured speeds: every policy
//! ```
//!
//! **Wait** is all time in the queue, **delay** from submission to end less the run: what sharing costs those who share counts. A job's **slowdown** is its time
//! on a GPU over its run. **GPUs instead**: the fewest, by bisection, with which the 95 % wait of the later jobs is at most that of nobody sharing on all GPUs; what lies
//! between is not tried. Intervals are of days drawn anew ([`interval`]), by the day of submission.
//!
//! No scheduler here can be told who is beside whom on a GPU. So the rule of the plan is replayed as it can be set, too, by [classes](super::class) in which every two may share:
//!
//! * **One class**, that which saves most: its jobs may share any GPU, and all others take whole ones. Slurm can be set so, and it decides whether the plan is to be followed.
//! * **Own GPUs** for each class ([`pool`](super::pool), sized by the load of the earlier jobs and by speeds as forecast). Kubernetes needs it so.
//!
//! That nodes are whole is not replayed.
//!
//! O(policies × log GPUs × replay). Worked number: a job that ran 60 min alone and 75 beside others, after 10 in the queue, has a wait of 10 min, a slowdown of 1.25, and
//! a delay of 25 min.

use std::path::PathBuf;

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::stats::quantile::quantile;
use tracecast_predictors::interference::share::SharingLimits;
use tracecast_predictors::watch::{self, Watch};

use super::class::{classes, rule_of_classes};
use super::engine::{self, SharingRule, SharingTimes};
use super::evidence::{Forecasts, PairEvidence};
use super::policy::SharingPolicy;
use super::pool::{ClassPools, offered};
use crate::error::Result;
use crate::one_gpu::{
    OneGpuJobs, Parts, TypedJobs, USUAL_WAIT_MS, by_day, fewest, fewest_of_any, mean_change, named_share, parts,
    slowdown,
};
use crate::plan::interval;
use crate::replay::compare::IntervalEstimate;

/// Expected progress that is tried as a threshold.
const PROGRESS: [f64; 4] = [1.0, 1.1, 1.25, 1.5];
/// Share of its delay by which a job must be later to have lost.
const LOST: f64 = 0.01;

/// What is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct SharingRequest {
    /// The split, milliseconds since the Unix epoch; where two thirds of the jobs are submitted if `None`.
    pub eval_from_ms: Option<i64>,
    /// GPUs; by the wait of the earlier jobs if `None`.
    pub gpus: Option<u32>,
    /// What sharing must keep.
    pub limits: SharingLimits,
    /// Pairs of each new job type that are measured before the plan.
    pub measured: usize,
    /// Whether somebody watches new pairs and takes a job out where the limits are not kept.
    pub watched: bool,
    /// Seed of job types and of the pairs measured.
    pub seed: u64,
    /// GPU types to plan for; all that were measured if empty.
    pub gpu_types: Vec<String>,
    /// A file that tells job types of names.
    pub types: Option<PathBuf>,
}

impl SharingRequest {
    /// The rule of the plan.
    pub fn planned(&self) -> SharingPolicy {
        if self.watched { SharingPolicy::ForecastTrial } else { SharingPolicy::Forecast }
    }
}

/// How jobs fared.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct SharingFigures {
    /// Mean time in the queue, seconds.
    pub mean_wait_s: f64,
    /// 95 % quantile of it.
    pub p95_wait_s: f64,
    /// Mean time from submission to end less the run alone, seconds.
    pub mean_delay_s: f64,
    /// 95 % quantile of it.
    pub p95_delay_s: f64,
    /// Share of the jobs that were beside another for any time.
    pub shared: f64,
    /// 0.9 quantile of the slowdown of those; none where nobody shared.
    pub slowdown90: Option<f64>,
    /// Share of those that were slower than the SLO allows.
    pub over_slo: f64,
    /// How often a job did not fit beside another and failed.
    pub failed: u64,
    /// How often one was taken out after a trial.
    pub taken_out: u64,
}

/// Figures of some jobs.
fn figures(jobs: &TypedJobs, times: &[SharingTimes], which: &[usize], slo: f64) -> SharingFigures {
    let (mut waits, mut delays, mut slowdowns) = (Vec::new(), Vec::new(), Vec::new());
    let (mut over, mut failed, mut taken_out, mut shared) = (0usize, 0, 0, 0usize);
    for job in which {
        let (Some(times), Some(submit), Some(run)) = (times.get(*job), jobs.submit_ms.get(*job), jobs.run_ms.get(*job))
        else {
            continue;
        };
        waits.push(times.wait_ms(*submit) as f64 / 1e3);
        delays.push((times.end_ms - submit - run) as f64 / 1e3);
        failed += u64::from(times.failed);
        taken_out += u64::from(times.taken_out);
        if times.shared_ms > 0 {
            shared += 1;
            let (slowdown, is_over) = slowdown(times.held_ms, *run, slo);
            over += usize::from(is_over);
            slowdowns.push(slowdown);
        }
    }
    let share = |part: usize, of: usize| if of == 0 { 0.0 } else { part as f64 / of as f64 };
    SharingFigures {
        mean_wait_s: interval::average(waits.iter().copied()),
        p95_wait_s: quantile(&waits, 0.95).unwrap_or_default(),
        mean_delay_s: interval::average(delays.iter().copied()),
        p95_delay_s: quantile(&delays, 0.95).unwrap_or_default(),
        shared: share(shared, which.len()),
        slowdown90: quantile(&slowdowns, 0.9),
        over_slo: share(over, slowdowns.len()),
        failed,
        taken_out,
    }
}

/// The 95 % wait of some jobs, seconds.
fn p95_wait_s(jobs: &TypedJobs, times: &[SharingTimes], which: &[usize]) -> f64 {
    let wait = |job: &usize| Some(times.get(*job)?.wait_ms(*jobs.submit_ms.get(*job)?) as f64 / 1e3);
    quantile(&which.iter().filter_map(wait).collect::<Vec<_>>(), 0.95).unwrap_or_default()
}

/// A candidate of the choice, on the earlier jobs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SharingCandidate {
    /// Expected progress that sharing must exceed; none if nobody shares.
    pub least_progress: Option<f64>,
    /// Couples of job types that may share, in one class.
    pub couples: usize,
    /// How the earlier jobs fare with speeds as they are forecast.
    pub earlier: SharingFigures,
    /// Whether it was chosen.
    pub chosen: bool,
}

/// How a rule is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HowSet {
    /// As the policy says who goes beside whom, which no scheduler here can be told.
    Free,
    /// One class, whose jobs may share any GPU, while all others take whole ones; as in Slurm.
    OneClass,
    /// Classes, each on GPUs of its own; as in Kubernetes.
    OwnGpus,
}

/// A policy on the later jobs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SharingTried {
    /// Which.
    pub policy: SharingPolicy,
    /// How it is set.
    pub how: HowSet,
    /// GPUs of each class, and, last, of all other jobs; empty where GPUs are not divided.
    pub class_gpus: Vec<u32>,
    /// Couples of job types that may share.
    pub couples: usize,
    /// Of those, couples that were measured to keep what the rule asks: they fit, make more than one alone, and are within the SLO.
    pub couples_kept: usize,
    /// How the later jobs fared.
    pub later: SharingFigures,
    /// Change of the mean delay against nobody sharing, seconds.
    pub mean_delay_change_s: IntervalEstimate,
    /// Change of the mean wait.
    pub mean_wait_change_s: IntervalEstimate,
    /// Share of the later jobs that end later than with nobody sharing, by more than 1 % of their run.
    pub lost: f64,
    /// By how much these end later on average, seconds.
    pub lost_s: f64,
    /// GPUs with which the 95 % wait is that of nobody sharing on all; none where not even twice as many give it.
    pub gpus_instead: Option<u32>,
}

/// A job type on the later jobs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct KindOutcome {
    /// Job type.
    pub job_type: String,
    /// Its later jobs.
    pub jobs: usize,
    /// Their runs together, hours.
    pub run_h: f64,
    /// Mean delay with nobody sharing, seconds.
    pub exclusive_delay_s: f64,
    /// As planned.
    pub planned_delay_s: f64,
    /// 0.9 quantile of the slowdown of those that shared; none where none did.
    pub slowdown90: Option<f64>,
}

/// What was found on one GPU type.
#[derive(Debug, Clone, PartialEq)]
pub struct SharingStudy {
    /// The split, milliseconds from time 0.
    pub split_ms: i64,
    /// GPUs.
    pub gpus: u32,
    /// Earlier and later jobs that count.
    pub jobs: (usize, usize),
    /// Jobs whose type was drawn.
    pub drawn: usize,
    /// Share of the GPU time that is of jobs whose name is a job type.
    pub named_gpu_time: f64,
    /// The candidates on the earlier jobs.
    pub candidates: Vec<SharingCandidate>,
    /// Limits of the chosen.
    pub limits: SharingLimits,
    /// Whether sharing was chosen at all.
    pub shares: bool,
    /// Every policy on the later jobs; the first is nobody sharing.
    pub tried: Vec<SharingTried>,
    /// GPUs that jobs of each kind ask for, over the whole record.
    pub load: Vec<f64>,
    /// Job types on the later jobs, under the chosen rule in one class.
    pub by_kind: Vec<KindOutcome>,
}

/// Couples of kinds that a rule lets share, and how many of them keep what is asked.
fn couples(evidence: &PairEvidence, rule: &SharingRule, limits: &SharingLimits) -> (usize, usize) {
    let kept = |(a, b): &(usize, usize)| {
        evidence.speeds(*a, *b).is_some_and(|(x, y)| x + y > 1.0 && 1.0 / x.min(y) <= limits.slo)
    };
    let allowed: Vec<(usize, usize)> =
        evidence.couples().filter(|(a, b)| rule.preference(*a, *b).or(rule.preference(*b, *a)).is_some()).collect();
    (allowed.len(), allowed.iter().filter(|couple| kept(couple)).count())
}

/// Studies one GPU type.
///
/// # Errors
/// If too few jobs lie before or after the split, or more GPUs than can be tried are needed.
pub fn study(
    all: &OneGpuJobs,
    evidence: &PairEvidence,
    forecasts: &Forecasts,
    request: &SharingRequest,
    watch: &dyn Watch,
) -> Result<SharingStudy> {
    let limits = request.limits;
    let (jobs, is_named) = all.with_kinds(&evidence.kinds, evidence.kinds.len(), request.seed);
    let Parts { split_ms, known, earlier, later } = parts(all, &jobs, request.eval_from_ms)?;
    let kinds = evidence.kinds.len();
    let exclusive = SharingRule::exclusive(kinds);
    let replay = |jobs: &TypedJobs, gpus: u32, rule: &SharingRule| engine::replay(jobs, gpus, &evidence.truth, rule);
    let gpus = match request.gpus {
        Some(gpus) => gpus,
        None => {
            let enough = |gpus: u32| -> Result<bool> {
                let times = replay(&known, gpus, &exclusive)?;
                Ok(p95_wait_s(&known, &times, &earlier) <= USUAL_WAIT_MS as f64 / 1e3)
            };
            fewest_of_any(&enough)?
        }
    };
    // The choice, on the earlier jobs: the measured speeds have no part in it, as they are those of the couples that are decided on.
    let expected = evidence.forecast_speeds(forecasts);
    let began = |jobs: &TypedJobs| jobs.submit_ms.first().copied().unwrap_or_default();
    let known_load = offered(&known, kinds, split_ms - began(&known));
    // A rule as it can be set: in one class, and in classes with GPUs of their own.
    let set = |rule: &SharingRule| {
        let classes = classes(rule, kinds);
        let pools = ClassPools::of(&classes, &known_load, &expected);
        let best = pools.saves_most().and_then(|best| classes.get(best));
        let one = rule_of_classes(rule, best.map_or(&[][..], std::slice::from_ref), kinds);
        (one, rule_of_classes(rule, &classes, kinds), pools)
    };
    let of_progress = |least_progress: f64| SharingLimits { least_progress, ..limits };
    let options: Vec<Option<f64>> = std::iter::once(None).chain(PROGRESS.map(Some)).collect();
    watch.more(options.len());
    let tried: Vec<Result<(SharingRule, SharingFigures)>> = options
        .par_iter()
        .map(|least| {
            let rule = least.and_then(|least| request.planned().rule(evidence, forecasts, &of_progress(least)));
            let rule = rule.map_or_else(|| exclusive.clone(), |rule| set(&rule).0);
            let times = watch::part(watch, || engine::replay(&known, gpus, &expected, &rule))?;
            Ok((rule, figures(&known, &times, &earlier, limits.slo)))
        })
        .collect();
    let tried: Vec<(SharingRule, SharingFigures)> = tried.into_iter().collect::<Result<_>>()?;
    let keeps = |figures: &SharingFigures| figures.slowdown90.is_none_or(|slowdown| slowdown <= limits.slo);
    let mut chosen = 0;
    for (at, (_, found)) in tried.iter().enumerate() {
        let best = tried.get(chosen).map_or(f64::INFINITY, |(_, best)| best.mean_delay_s);
        if keeps(found) && found.mean_delay_s < best {
            chosen = at;
        }
    }
    let candidates = options
        .iter()
        .zip(&tried)
        .enumerate()
        .map(|(at, (least, (rule, earlier)))| SharingCandidate {
            least_progress: *least,
            couples: couples(evidence, rule, &limits).0,
            earlier: *earlier,
            chosen: at == chosen,
        })
        .collect();
    let shares = chosen > 0;
    // Where nobody is to share, the rule is shown as it was asked for.
    let limits = of_progress(options.get(chosen).copied().flatten().unwrap_or(limits.least_progress));
    let mut rules: Vec<(SharingPolicy, HowSet, Option<ClassPools>, SharingRule)> = Vec::new();
    for policy in SharingPolicy::ALL {
        // The threshold of progress was chosen for the rule of the plan; the others keep what was asked.
        let of_plan = matches!(policy, SharingPolicy::Forecast | SharingPolicy::ForecastTrial);
        let own = if of_plan { limits } else { request.limits };
        let Some(rule) = policy.rule(evidence, forecasts, &own) else { continue };
        let planned = (policy == request.planned()).then(|| set(&rule));
        rules.push((policy, HowSet::Free, None, rule));
        if let Some((one, own, pools)) = planned {
            rules.push((policy, HowSet::OneClass, None, one));
            if pools.gpus(gpus).is_some() {
                rules.push((policy, HowSet::OwnGpus, Some(pools), own));
            }
        }
    }
    let base = replay(&jobs, gpus, &exclusive)?;
    let base_p95 = p95_wait_s(&jobs, &base, &later);
    let days = by_day(&jobs, &later);
    watch.more(rules.len());
    let try_rule =
        |(policy, how, pools, rule): &(SharingPolicy, HowSet, Option<ClassPools>, SharingRule)| -> Result<(SharingTried, Vec<SharingTimes>)> {
            let on = |gpus: u32| match pools {
                Some(pools) => pools.replay(&jobs, gpus, &evidence.truth, rule),
                None => replay(&jobs, gpus, rule),
            };
            let times = if *policy == SharingPolicy::Exclusive { base.clone() } else { on(gpus)? };
            let enough = |gpus: u32| -> Result<bool> {
                if pools.as_ref().is_some_and(|pools| pools.gpus(gpus).is_none()) {
                    return Ok(false);
                }
                Ok(p95_wait_s(&jobs, &on(gpus)?, &later) <= base_p95)
            };
            let gpus_instead = if *policy == SharingPolicy::Exclusive {
                Some(gpus)
            } else if p95_wait_s(&jobs, &times, &later) <= base_p95 {
                // With no GPU at all nobody would ever run.
                Some(fewest(0, gpus, &enough)?)
            } else if enough(gpus.saturating_mul(2))? {
                Some(fewest(gpus, gpus.saturating_mul(2), &enough)?)
            } else {
                None
            };
            let (allowed, couples_kept) = couples(evidence, rule, &limits);
            let both = |job: usize| Some((times.get(job)?, base.get(job)?));
            let mean_wait_change_s = mean_change(&days, &|job| {
                let ((now, before), submit) = (both(job)?, jobs.submit_ms.get(job)?);
                Some((now.wait_ms(*submit) - before.wait_ms(*submit)) as f64 / 1e3)
            });
            let mean_delay_change_s = mean_change(&days, &|job| {
                let (now, before) = both(job)?;
                Some((now.end_ms - before.end_ms) as f64 / 1e3)
            });
            let (lost, lost_s) = losses(&jobs, &later, &base, &times);
            let tried = SharingTried {
                policy: *policy,
                how: *how,
                class_gpus: pools.as_ref().and_then(|pools| pools.gpus(gpus)).unwrap_or_default(),
                couples: allowed,
                couples_kept,
                later: figures(&jobs, &times, &later, limits.slo),
                mean_delay_change_s,
                mean_wait_change_s,
                lost,
                lost_s,
                gpus_instead,
            };
            Ok((tried, times))
        };
    let tried: Vec<Result<(SharingTried, Vec<SharingTimes>)>> =
        rules.par_iter().map(|rule| watch::part(watch, || try_rule(rule))).collect();
    let tried: Vec<(SharingTried, Vec<SharingTimes>)> = tried.into_iter().collect::<Result<_>>()?;
    let planned = tried.iter().find(|(tried, _)| tried.how == HowSet::OneClass);
    let planned = planned.map_or(&base, |(_, times)| times);
    let by_kind = (0..kinds)
        .map(|kind| {
            let own: Vec<usize> = later
                .iter()
                .copied()
                .filter(|job| jobs.kind.get(*job).map(|of| usize::from(*of)) == Some(kind))
                .collect();
            let (alone, shared) = (figures(&jobs, &base, &own, limits.slo), figures(&jobs, planned, &own, limits.slo));
            KindOutcome {
                job_type: evidence.kinds.get(kind).cloned().unwrap_or_default(),
                jobs: own.len(),
                run_h: own.iter().filter_map(|job| jobs.run_ms.get(*job)).map(|run| *run as f64 / 3.6e6).sum(),
                exclusive_delay_s: alone.mean_delay_s,
                planned_delay_s: shared.mean_delay_s,
                slowdown90: shared.slowdown90,
            }
        })
        .collect();
    Ok(SharingStudy {
        split_ms,
        gpus,
        jobs: (earlier.len(), later.len()),
        drawn: is_named.iter().filter(|named| !**named).count(),
        named_gpu_time: named_share(&jobs, &is_named),
        candidates,
        limits,
        shares,
        tried: tried.into_iter().map(|(tried, _)| tried).collect(),
        load: offered(&jobs, kinds, jobs.submit_ms.last().copied().unwrap_or_default() - began(&jobs)),
        by_kind,
    })
}

/// Share of the jobs that end later, and by how many seconds on average.
fn losses(jobs: &TypedJobs, which: &[usize], base: &[SharingTimes], times: &[SharingTimes]) -> (f64, f64) {
    let mut later = Vec::new();
    for job in which {
        let (Some(before), Some(now), Some(run)) = (base.get(*job), times.get(*job), jobs.run_ms.get(*job)) else {
            continue;
        };
        let by = now.end_ms - before.end_ms;
        if by as f64 > LOST * *run as f64 && by > 0 {
            later.push(by as f64 / 1e3);
        }
    }
    (later.len() as f64 / which.len().max(1) as f64, interval::average(later.iter().copied()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_number() {
        let jobs = TypedJobs { submit_ms: vec![0], run_ms: vec![3_600_000], kind: vec![0] };
        let times = SharingTimes {
            start_ms: 600_000,
            end_ms: 5_100_000,
            held_ms: 4_500_000,
            shared_ms: 900_000,
            failed: 0,
            taken_out: 0,
        };
        let found = figures(&jobs, &[times], &[0], 1.2);
        assert_eq!((found.mean_wait_s, found.mean_delay_s, found.slowdown90), (600.0, 1500.0, Some(1.25)));
        assert!((found.over_slo - 1.0).abs() < 1e-12);
    }
}
