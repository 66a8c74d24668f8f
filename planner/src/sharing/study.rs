//! What sharing would do to the jobs of a trace: the rule chosen on earlier jobs, held against later ones.
//!
//! ```text
//! jobs        those of one GPU; each has the job type of its name where the table knows one, else that nearest to what it used ([`job_type`](super::job_type)), else one
//!             that is drawn: number n among them, in order of submission, has kind draw(seed, n, 0) mod kinds
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
//! between is not tried. Intervals are of days drawn anew ([`interval`](crate::plan::interval)), by the day of submission.
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

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::watch::{self, Watch};
use tracecast_predictors::interference::share::SharingLimits;

use super::engine::{SharingRule, SharingTimes};
use super::evidence::{Forecasts, PairEvidence};
use super::figures::{SharingFigures, changes, couples, figures, losses, p95_wait_s};
use super::job_type::{JobUse, JobsAsKnown, Knowledge, TypeFrom, TypesByUse};
use super::policy::SharingPolicy;
use super::pool::{ClassPools, offered};
use super::setting::{AsSet, Choice, Setting, SharingCandidate, SharingRequest, began};
use crate::error::Result;
use crate::one_gpu::{OneGpuJobs, Parts, by_day, fewest};
use crate::plan::forecast::Driven;
use crate::replay::compare::IntervalEstimate;

/// How a rule is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HowSet {
    /// The policy itself says who goes beside whom, which no scheduler here can be told.
    Free,
    /// One class, whose jobs may share any GPU, while all others take whole ones; as in Slurm.
    OneClass,
    /// Classes, each on GPUs of its own; as in Kubernetes.
    OwnGpus,
}

impl HowSet {
    /// A policy that is set so, in words.
    pub(super) fn name_of(self, policy: SharingPolicy) -> String {
        let words = policy.in_words();
        match self {
            Self::Free => words.to_owned(),
            Self::OneClass => format!("{words}, in one class"),
            Self::OwnGpus => format!("{words}, in classes on GPUs of their own"),
        }
    }
}

/// A policy on the later jobs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SharingTried {
    /// Policy that was tried.
    pub policy: SharingPolicy,
    /// How it is set.
    pub how: HowSet,
    /// GPUs of each class, and, last, of all other jobs; empty where GPUs are not divided.
    pub class_gpus: Vec<u32>,
    /// Couples of job types that may share.
    pub couples: usize,
    /// Couples among those that were measured to keep what the rule asks: they fit, make more than
    /// one alone, and are within the SLO.
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
    /// Later jobs of the type.
    pub jobs: usize,
    /// Total run of these jobs, hours.
    pub run_h: f64,
    /// Mean delay with nobody sharing, seconds.
    pub exclusive_delay_s: f64,
    /// Mean delay under the plan, seconds.
    pub planned_delay_s: f64,
    /// 0.9 quantile of the slowdown of those that shared; none where none did.
    pub slowdown90: Option<f64>,
}

/// Findings on one GPU type.
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
    /// Jobs whose type is that nearest to what they used; none where there are none.
    pub by_use: Option<TypesByUse>,
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
    /// Delays of the later jobs, seconds, day by day, by what drives sharing; empty where one of the
    /// policies does not go with the pairs.
    pub driven: Vec<Driven>,
}

/// Studies one GPU type.
///
/// # Errors
/// If too few jobs lie before or after the split, or more GPUs than can be tried are needed.
pub fn study(
    (all, of_use): (&OneGpuJobs, &JobUse),
    evidence: &PairEvidence,
    forecasts: &Forecasts,
    request: &SharingRequest,
    watch: &dyn Watch,
) -> Result<SharingStudy> {
    let setting = Setting::new(all, of_use, evidence, request)?;
    let choice = setting.choose(request.planned(), evidence, forecasts, request.limits, watch)?;
    let Choice { candidates, shares, limits } = choice;
    let Setting { types, parts: Parts { split_ms, earlier, later, .. }, gpus } = &setting;
    let (split_ms, gpus) = (*split_ms, *gpus);
    let (jobs, kinds) = (&types.jobs, evidence.kinds.len());
    let [known, predicted] =
        [Knowledge::Truth, Knowledge::Predicted].map(|knowledge| JobsAsKnown::new(types, knowledge));
    let mut rules: Vec<(SharingPolicy, HowSet, Option<ClassPools>, SharingRule)> = Vec::new();
    for policy in SharingPolicy::ALL {
        // The threshold of progress was chosen for the rule of the plan; the others keep what was asked.
        let own = if policy.is_thresholded() { limits } else { request.limits };
        let Some(rule) = policy.rule(evidence, forecasts, &own) else { continue };
        let planned = (policy == request.planned()).then(|| setting.as_set(&rule, evidence, forecasts));
        rules.push((policy, HowSet::Free, None, rule));
        if let Some(AsSet { one_class, own_gpus, pools }) = planned {
            rules.push((policy, HowSet::OneClass, None, one_class));
            if pools.gpus(gpus).is_some() {
                rules.push((policy, HowSet::OwnGpus, Some(pools), own_gpus));
            }
        }
    }
    let base = known.replay(gpus, &evidence.truth, &SharingRule::exclusive(kinds), None)?;
    let base_p95 = p95_wait_s(jobs, &base, later);
    let days = by_day(jobs, later);
    watch.more(rules.len());
    let try_rule =
        |(policy, how, pools, rule): &(SharingPolicy, HowSet, Option<ClassPools>, SharingRule)| -> Result<(SharingTried, Vec<SharingTimes>)> {
            let seen = if *policy == SharingPolicy::Oracle { &known } else { &predicted };
            let on = |gpus: u32| seen.replay(gpus, &evidence.truth, rule, pools.as_ref());
            let times = if *policy == SharingPolicy::Exclusive { base.clone() } else { on(gpus)? };
            let enough = |gpus: u32| -> Result<bool> {
                if pools.as_ref().is_some_and(|pools| pools.gpus(gpus).is_none()) {
                    return Ok(false);
                }
                Ok(p95_wait_s(jobs, &on(gpus)?, later) <= base_p95)
            };
            let gpus_instead = if *policy == SharingPolicy::Exclusive {
                Some(gpus)
            } else if p95_wait_s(jobs, &times, later) <= base_p95 {
                // With no GPU at all nobody would ever run.
                Some(fewest(0, gpus, &enough)?)
            } else if enough(gpus.saturating_mul(2))? {
                Some(fewest(gpus, gpus.saturating_mul(2), &enough)?)
            } else {
                None
            };
            let (allowed, couples_kept) = couples(evidence, rule, &limits);
            let [mean_wait_change_s, mean_delay_change_s] = changes(jobs, &days, &base, &times);
            let (lost, lost_s) = losses(jobs, later, &base, &times);
            let tried = SharingTried {
                policy: *policy,
                how: *how,
                class_gpus: pools.as_ref().and_then(|pools| pools.gpus(gpus)).unwrap_or_default(),
                couples: allowed,
                couples_kept,
                later: figures(jobs, &times, later, limits.slo),
                mean_delay_change_s,
                mean_wait_change_s,
                lost: lost as f64 / later.len().max(1) as f64,
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
            let (alone, shared) = (figures(jobs, &base, &own, limits.slo), figures(jobs, planned, &own, limits.slo));
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
    let free = |policy: SharingPolicy| {
        let result = tried.iter().find(|(tried, _)| tried.policy == policy && tried.how == HowSet::Free);
        result.map(|(_, times)| times)
    };
    let delays =
        |times: &[SharingTimes], day: &[usize]| figures(jobs, times, day, limits.slo).mean_delay_s * day.len() as f64;
    let drivers = free(SharingPolicy::Gandiva).zip(free(request.planned())).zip(free(SharingPolicy::Oracle));
    let driven = drivers.map_or_else(Vec::new, |((naive, model), truth)| {
        let of_day = |day: &Vec<usize>| Driven {
            naive: delays(naive, day),
            model: Some(delays(model, day)),
            truth: delays(truth, day),
        };
        days.iter().map(of_day).collect()
    });
    Ok(SharingStudy {
        driven,
        split_ms,
        gpus,
        jobs: (earlier.len(), later.len()),
        drawn: types.from(TypeFrom::Draw),
        by_use: types.by_use,
        named_gpu_time: types.named_gpu_time(),
        candidates,
        limits,
        shares,
        tried: tried.into_iter().map(|(tried, _)| tried).collect(),
        load: offered(jobs, kinds, jobs.submit_ms.last().copied().unwrap_or_default() - began(jobs)),
        by_kind,
    })
}
