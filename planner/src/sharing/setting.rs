//! What a study of sharing on one GPU type begins with: the jobs in two parts, the GPUs, and the threshold of a forecast rule, chosen on the earlier jobs.
//!
//! `plan share couples` and `simulate --share` both begin so. What is chosen, and by what, stands
//! in [`study`](super::study). Where nothing is to be chosen there are no earlier jobs: all
//! are scored, or those from a moment on.
//!
//! O(replays of the earlier jobs). Worked number: thresholds of 1, 1.1, 1.25 and 1.5 and nobody sharing are five replays of the earlier jobs.

use std::path::PathBuf;

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::report::{Cell, format};
use tracecast_analytics::watch::{self, Watch};
use tracecast_predictors::interference::share::SharingLimits;

use super::class::{classes, rule_of_classes};
use super::engine::{self, SharingRule};
use super::evidence::{Forecasts, PairEvidence};
use super::figures::{SharingFigures, couples, figures, p95_wait_s};
use super::job_type::{JobTypes, JobUse, Knowledge};
use super::policy::SharingPolicy;
use super::pool::{ClassPools, offered};
use crate::error::{Error, Result};
use crate::one_gpu::{OneGpuJobs, Parts, TypedJobs, USUAL_WAIT_MS, ended_from, fewest_of_any, parts};

/// Expected progress that is tried as a threshold.
const PROGRESS: [f64; 4] = [1.0, 1.1, 1.25, 1.5];

/// Request for a plan of sharing.
#[derive(Debug, Clone, PartialEq)]
pub struct SharingRequest {
    /// The split, milliseconds since the Unix epoch; where two thirds of the jobs are submitted if `None`.
    pub eval_from_ms: Option<i64>,
    /// GPUs; by the wait of the earlier jobs if `None`.
    pub gpus: Option<u32>,
    /// Limits that sharing must keep.
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

impl SharingCandidate {
    /// Title of a table of them.
    pub(super) const TITLE: &str = "Candidates in one class on the earlier jobs, with speeds as forecast";
    /// Columns of it.
    pub(super) const COLUMNS: &str = "Progress above | #Couples | #Mean delay | #95 % wait | #Slowdown, 0.9 | Verdict";

    /// A row of it.
    pub(super) fn cells(&self) -> Vec<Cell> {
        vec![
            self.least_progress.map_or_else(|| "nobody shares".to_owned(), |least| format::float(least, 2)).into(),
            Cell::Int(self.couples as i64),
            Cell::Duration(self.earlier.mean_delay_s),
            Cell::Duration(self.earlier.p95_wait_s),
            Cell::opt(self.earlier.slowdown90, |slowdown| Cell::float(slowdown, 2)),
            if self.chosen { "chosen" } else { "" }.into(),
        ]
    }
}

/// The jobs of a study, and the GPUs on which they are replayed.
pub(super) struct Setting {
    /// Jobs with the kinds of the evidence, as they are and as they are told.
    pub(super) types: JobTypes,
    /// Earlier and later ones.
    pub(super) parts: Parts,
    /// GPUs.
    pub(super) gpus: u32,
}

/// A rule as it can be set.
pub(super) struct AsSet {
    /// Rule in the one class that saves most.
    pub(super) one_class: SharingRule,
    /// Rule in all classes.
    pub(super) own_gpus: SharingRule,
    /// GPUs of each of these.
    pub(super) pools: ClassPools,
}

/// Choice made on the earlier jobs.
pub(super) struct Choice {
    /// Candidates of the choice.
    pub(super) candidates: Vec<SharingCandidate>,
    /// Whether sharing was chosen at all.
    pub(super) shares: bool,
    /// Limits with the progress that was chosen.
    pub(super) limits: SharingLimits,
}

/// The first submission, milliseconds.
pub(super) fn began(jobs: &TypedJobs) -> i64 {
    jobs.submit_ms.first().copied().unwrap_or_default()
}

impl Setting {
    /// Jobs in two parts, on the GPUs that were asked for, else on as many as the earlier jobs need.
    ///
    /// # Errors
    /// If too few jobs lie before or after the split, or more GPUs than can be tried are needed.
    pub(super) fn new(
        all: &OneGpuJobs,
        of_use: &JobUse,
        evidence: &PairEvidence,
        request: &SharingRequest,
    ) -> Result<Self> {
        let types = JobTypes::new(all, of_use, evidence, request.seed);
        // Whatever is chosen on earlier jobs goes by what was told of them.
        let parts = parts(all, &types.jobs_by(Knowledge::Predicted), request.eval_from_ms)?;
        let gpus = match request.gpus {
            Some(gpus) => gpus,
            None => {
                let exclusive = SharingRule::exclusive(evidence.kinds.len());
                let enough = |gpus: u32| -> Result<bool> {
                    let times = engine::replay(&parts.known, gpus, &evidence.truth, &exclusive)?;
                    Ok(p95_wait_s(&parts.known, &times, &parts.earlier) <= USUAL_WAIT_MS as f64 / 1e3)
                };
                fewest_of_any(&enough)?
            }
        };
        Ok(Self { types, parts, gpus })
    }

    /// All jobs on so many GPUs, scored from a moment on (milliseconds since the Unix epoch) or all, where nothing is chosen on earlier ones.
    ///
    /// # Errors
    /// If no job is left to score.
    pub(super) fn unsplit(
        all: &OneGpuJobs,
        of_use: &JobUse,
        evidence: &PairEvidence,
        gpus: u32,
        request: &SharingRequest,
    ) -> Result<Self> {
        let types = JobTypes::new(all, of_use, evidence, request.seed);
        let from_ms = request.eval_from_ms;
        let split_ms = from_ms.map_or_else(|| began(&types.jobs), |from| from - all.origin_ms);
        let later = ended_from(all, &types.jobs, split_ms);
        if later.is_empty() {
            return Err(Error::no_jobs(match from_ms {
                Some(_) => "no job of one GPU that was submitted from --eval-from on has ended; choose an earlier time"
                    .to_owned(),
                None => "the trace has no job of one GPU that has ended, and only such jobs can share here".to_owned(),
            }));
        }
        let parts = Parts { split_ms, known: TypedJobs::default(), earlier: Vec::new(), later };
        Ok(Self { types, parts, gpus })
    }

    /// A rule as it can be set: in one class, and in classes with GPUs of their own, by the load of the earlier jobs and speeds as they are forecast.
    pub(super) fn as_set(&self, rule: &SharingRule, evidence: &PairEvidence, forecasts: &Forecasts) -> AsSet {
        let kinds = evidence.kinds.len();
        let known = &self.parts.known;
        let load = offered(known, kinds, self.parts.split_ms - began(known));
        let classes = classes(rule, kinds);
        let pools = ClassPools::new(&classes, &load, &evidence.forecast_speeds(forecasts));
        let best = pools.saves_most().and_then(|best| classes.get(best));
        let one_class = rule_of_classes(rule, best.map_or(&[][..], std::slice::from_ref), kinds);
        AsSet { one_class, own_gpus: rule_of_classes(rule, &classes, kinds), pools }
    }

    /// The threshold of progress of a rule by forecasts, chosen on the earlier jobs.
    ///
    /// The measured speeds have no part in it, as they are those of the couples that are decided on.
    ///
    /// # Errors
    /// If the jobs are none that the engine takes.
    pub(super) fn choose(
        &self,
        rule: SharingPolicy,
        evidence: &PairEvidence,
        forecasts: &Forecasts,
        limits: SharingLimits,
        watch: &dyn Watch,
    ) -> Result<Choice> {
        let Parts { known, earlier, .. } = &self.parts;
        let expected = evidence.forecast_speeds(forecasts);
        let of_progress = |least_progress: f64| SharingLimits { least_progress, ..limits };
        let options: Vec<Option<f64>> = std::iter::once(None).chain(PROGRESS.map(Some)).collect();
        watch.more(options.len());
        let tried: Vec<Result<(SharingRule, SharingFigures)>> = options
            .par_iter()
            .map(|least| {
                let rule = least.and_then(|least| rule.rule(evidence, forecasts, &of_progress(least)));
                let rule = rule.map_or_else(
                    || SharingRule::exclusive(evidence.kinds.len()),
                    |rule| self.as_set(&rule, evidence, forecasts).one_class,
                );
                let times = watch::part(watch, || engine::replay(known, self.gpus, &expected, &rule))?;
                Ok((rule, figures(known, &times, earlier, limits.slo)))
            })
            .collect();
        let tried: Vec<(SharingRule, SharingFigures)> = tried.into_iter().collect::<Result<_>>()?;
        let keeps = |figures: &SharingFigures| figures.slowdown90.is_none_or(|slowdown| slowdown <= limits.slo);
        let mut chosen = 0;
        for (at, (_, result)) in tried.iter().enumerate() {
            let best = tried.get(chosen).map_or(f64::INFINITY, |(_, best)| best.mean_delay_s);
            if keeps(result) && result.mean_delay_s < best {
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
        // Where nobody is to share, the rule is shown as it was asked for.
        let chosen_progress = options.get(chosen).copied().flatten().unwrap_or(limits.least_progress);
        Ok(Choice { candidates, shares: chosen > 0, limits: of_progress(chosen_progress) })
    }
}
