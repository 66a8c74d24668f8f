//! Job types as they are, and as a policy is told them: of jobs whose type no name tells, by what they use.
//!
//! A record seldom says of which measured type a job is, but telemetry says how much of its GPU it used. Such a job **is** of the measured type that is nearest to its
//! mean utilisation and peak memory, and a policy is **told** the type nearest to what was predicted of both when the job was submitted
//! ([`at_submission`](tracecast_predictors::utilisation::at_submission)). Of a job that runs it knows the true type, as its GPU is read; only the rule in classes, which
//! are labels, goes by what was told. Beside that stand the type nearest to the mean of what was known, the simplest rule,
//! and the true type. Jobs of which there are no readings, or too early ones, have a drawn type, and everybody is told it.
//!
//! ```text
//! distance   |u − u'| / 100 + |m − m'| / largest m' of all types, each term where both are known; of equal ones the first type
//! u, m       utilisation in percent and memory in MiB of the job, as it was or as it is said; u', m' those of the type, as its profile has them
//! ```
//!
//! A replay needs both: how fast two are goes by what they are, who goes beside whom by what is told. So it has a kind for each pair of the two that occurs (`JobsAsKnown`).
//!
//! O(jobs × types + pairs²). Worked number: types at 40 and 90 %, a job that used 80 % and was predicted at 50 %: it is of the second type, and told as the first.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::Trace;
use tracecast_analytics::report::format;
use tracecast_predictors::interference::table::Quantity;
use tracecast_predictors::utilisation::at_submission::{UsageEstimate, at_submission};
use tracecast_predictors::utilisation::history::{Usage, UsageHistory};

use super::engine::{self, PairSpeeds, SharingRule, SharingTimes};
use super::evidence::PairEvidence;
use super::pool::ClassPools;
use crate::error::{Error, Result};
use crate::one_gpu::{OneGpuJobs, TypedJobs, named_share};
use crate::plan::interval::average;

/// What tells the type of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TypeFrom {
    /// Its name.
    Name,
    /// What it used.
    Telemetry,
    /// Nothing: it is drawn.
    Draw,
}

impl TypeFrom {
    /// As a column has it.
    pub(super) fn id(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Telemetry => "telemetry",
            Self::Draw => "draw",
        }
    }
}

/// What a policy is told of the types of jobs that no name tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Knowledge {
    /// The type nearest to what was predicted of a job when it was submitted.
    Predicted,
    /// The type nearest to the mean of the jobs before it.
    Mean,
    /// The true type.
    Truth,
}

/// How many jobs have a type by what they used, and how often the type that is told is the true one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct TypesByUse {
    /// Jobs whose type is that nearest to what they used.
    pub jobs: usize,
    /// Share of the GPU time that is theirs.
    pub gpu_time: f64,
    /// Share of them of which the predicted type is the true one.
    pub predicted_right: f64,
    /// Share of them of which the type of the mean is the true one.
    pub mean_right: f64,
    /// Mean absolute error of the predicted utilisation, points.
    pub predicted_error_points: f64,
    /// Mean absolute error of the mean of the jobs before, points.
    pub mean_error_points: f64,
}

impl TypesByUse {
    /// What was said of the jobs when they were submitted, in short.
    pub(super) fn finding(&self) -> String {
        format!(
            "The types of {} are by what they used. Predicted when they were submitted, {} are right (by the mean of the jobs before: {}).",
            format::counted(self.jobs as u64, "job", "jobs"),
            format::percent(self.predicted_right),
            format::percent(self.mean_right)
        )
    }

    /// What a reader must know, in a sentence.
    pub(super) fn note(&self) -> String {
        format!(
            "{} of the measured type nearest to what telemetry says that they used. A policy is told the type nearest to what was predicted when a job was submitted, which is the true one \
             of {} (the mean of the jobs before: of {}); the predicted utilisation misses by {} points on average (the mean of the jobs before: by {}).",
            format::counted(self.jobs as u64, "job is", "jobs are"),
            format::percent(self.predicted_right),
            format::percent(self.mean_right),
            format::float(self.predicted_error_points, 1),
            format::float(self.mean_error_points, 1)
        )
    }
}

/// What jobs used, and what was said of that, in the order of the jobs.
#[derive(Debug, Clone, Default)]
pub struct JobUse {
    of: Vec<[Option<UsageEstimate>; Usage::ALL.len()]>,
}

impl JobUse {
    /// Of the jobs of a trace; of none if it has no telemetry of jobs, or of no measured types all utilisations
    /// are known, so that none is the nearest.
    ///
    /// # Errors
    /// If a learner fails.
    pub fn new<'e>(
        trace: &Trace,
        all: &OneGpuJobs,
        evidence: impl IntoIterator<Item = &'e PairEvidence>,
        seed: u64,
    ) -> Result<Self> {
        if evidence.into_iter().all(|evidence| Profiles::new(evidence).of.is_empty()) {
            return Ok(Self::default());
        }
        // Without telemetry there is nothing to learn from, which is no error here.
        let Ok(history) = UsageHistory::new(trace) else { return Ok(Self::default()) };
        let of_usage = at_submission(history, seed)?;
        let of_job = |key: &String| {
            let mut estimates = [None; Usage::ALL.len()];
            estimates.iter_mut().zip(&of_usage).for_each(|(slot, of)| *slot = of.get(key).copied());
            estimates
        };
        Ok(Self { of: all.keys.iter().map(of_job).collect() })
    }

    /// The type of a job by its place, as it is and as it is told; `None` where its utilisation is not known.
    fn types(&self, job: usize, profiles: &Profiles) -> Option<JobType> {
        let of = self.of.get(job)?;
        let utilisation = of.first().copied().flatten()?;
        let nearest =
            |value: fn(&UsageEstimate) -> f64| profiles.nearest(&of.map(|estimate| estimate.as_ref().map(value)));
        let [is, predicted, mean] = [nearest(|of| of.truth)?, nearest(|of| of.model)?, nearest(|of| of.mean)?];
        Some(JobType { is, predicted, mean, utilisation })
    }
}

/// Type of a job by what it used.
struct JobType {
    is: u16,
    predicted: u16,
    mean: u16,
    utilisation: UsageEstimate,
}

/// Utilisation and memory of each measured type; empty where the utilisation of one is not known.
struct Profiles {
    of: Vec<[Option<f64>; Usage::ALL.len()]>,
    scale: [f64; Usage::ALL.len()],
}

impl Profiles {
    fn new(evidence: &PairEvidence) -> Self {
        let of: Vec<_> =
            evidence.profiles.iter().map(|profile| Usage::ALL.map(|usage| profile.get(usage.quantity()))).collect();
        let is_known = evidence.profiles.iter().all(|profile| profile.get(Quantity::SmUtilPct).is_some());
        let largest = of.iter().filter_map(|[_, memory]| *memory).fold(1.0, f64::max);
        Self { of: if is_known { of } else { Vec::new() }, scale: [100.0, largest] }
    }

    /// The type nearest to a utilisation and a memory.
    fn nearest(&self, of: &[Option<f64>; Usage::ALL.len()]) -> Option<u16> {
        let distance = |profile: &[Option<f64>; Usage::ALL.len()]| -> f64 {
            let both = profile.iter().zip(of).zip(self.scale);
            both.filter_map(|((profile, of), scale)| Some((((*profile)? - (*of)?) / scale).abs())).sum()
        };
        let kinds = (0u16..).zip(&self.of).map(|(kind, profile)| (kind, distance(profile)));
        // `min_by` takes the first of equal ones.
        kinds.min_by(|one, other| one.1.total_cmp(&other.1)).map(|(kind, _)| kind)
    }
}

/// Share of the GPU time that is of jobs whose type is from this.
fn gpu_time_of(jobs: &TypedJobs, from: &[TypeFrom], what: TypeFrom) -> f64 {
    named_share(jobs, &from.iter().map(|from| *from == what).collect::<Vec<bool>>())
}

/// Types of jobs: what they are, and what is told of them.
#[derive(Debug, Clone)]
pub(super) struct JobTypes {
    /// Jobs with the types they are of.
    pub(super) jobs: TypedJobs,
    /// What tells the type of each.
    pub(super) from: Vec<TypeFrom>,
    /// The types by what jobs used; none where there are no such jobs.
    pub(super) by_use: Option<TypesByUse>,
    predicted: Vec<u16>,
    mean: Vec<u16>,
}

impl JobTypes {
    /// The types of jobs: of their name, else of what they used, else drawn.
    pub(super) fn new(all: &OneGpuJobs, of_use: &JobUse, evidence: &PairEvidence, seed: u64) -> Self {
        let (mut jobs, is_named) = all.with_kinds(&evidence.kinds, evidence.kinds.len(), seed);
        let profiles = Profiles::new(evidence);
        let (mut predicted, mut mean) = (jobs.kind.clone(), jobs.kind.clone());
        let mut from = Vec::with_capacity(is_named.len());
        let mut by_use: Vec<JobType> = Vec::new();
        let others = predicted.iter_mut().zip(&mut mean);
        for (job, ((is_named, kind), (predicted, mean))) in
            is_named.into_iter().zip(&mut jobs.kind).zip(others).enumerate()
        {
            let of_use = if is_named { None } else { of_use.types(job, &profiles) };
            from.push(match (is_named, &of_use) {
                (true, _) => TypeFrom::Name,
                (false, Some(_)) => TypeFrom::Telemetry,
                (false, None) => TypeFrom::Draw,
            });
            let Some(of) = of_use else { continue };
            (*kind, *predicted, *mean) = (of.is, of.predicted, of.mean);
            by_use.push(of);
        }
        let average = |of: fn(&JobType) -> f64| average(by_use.iter().map(of));
        let by_use = (!by_use.is_empty()).then(|| TypesByUse {
            jobs: by_use.len(),
            gpu_time: gpu_time_of(&jobs, &from, TypeFrom::Telemetry),
            predicted_right: average(|of| f64::from(u8::from(of.predicted == of.is))),
            mean_right: average(|of| f64::from(u8::from(of.mean == of.is))),
            predicted_error_points: average(|of| (of.utilisation.model - of.utilisation.truth).abs()),
            mean_error_points: average(|of| (of.utilisation.mean - of.utilisation.truth).abs()),
        });
        Self { jobs, from, by_use, predicted, mean }
    }

    /// How many have their type from this.
    pub(super) fn from(&self, what: TypeFrom) -> usize {
        self.from.iter().filter(|from| **from == what).count()
    }

    /// Share of the GPU time that is of jobs whose name is a job type.
    pub(super) fn named_gpu_time(&self) -> f64 {
        gpu_time_of(&self.jobs, &self.from, TypeFrom::Name)
    }

    /// Kinds that are told.
    pub(super) fn kinds(&self, knowledge: Knowledge) -> &[u16] {
        match knowledge {
            Knowledge::Predicted => &self.predicted,
            Knowledge::Mean => &self.mean,
            Knowledge::Truth => &self.jobs.kind,
        }
    }

    /// The jobs with the types that are told.
    pub(super) fn jobs_by(&self, knowledge: Knowledge) -> TypedJobs {
        TypedJobs { kind: self.kinds(knowledge).to_vec(), ..self.jobs.clone() }
    }
}

/// Jobs with a kind for each pair of what they are and what is told of them.
pub(super) struct JobsAsKnown {
    jobs: TypedJobs,
    /// What each kind is, and is told.
    pairs: Vec<(u16, u16)>,
}

impl JobsAsKnown {
    pub(super) fn new(types: &JobTypes, knowledge: Knowledge) -> Self {
        let both = || types.jobs.kind.iter().copied().zip(types.kinds(knowledge).iter().copied());
        let pairs: BTreeSet<(u16, u16)> = both().collect();
        let places: BTreeMap<(u16, u16), u16> = pairs.iter().copied().zip(0u16..).collect();
        let kind = both().map(|pair| places.get(&pair).copied().unwrap_or_default()).collect();
        Self { jobs: TypedJobs { kind, ..types.jobs.clone() }, pairs: pairs.into_iter().collect() }
    }

    /// Speeds of the kinds: those of what they are.
    fn speeds(&self, speeds: &PairSpeeds) -> PairSpeeds {
        let mut result = PairSpeeds::new(self.pairs.len());
        for (a, (is, _)) in self.pairs.iter().enumerate() {
            for (b, (other, _)) in self.pairs.iter().enumerate().skip(a) {
                if let Some(both) = speeds.get(*is, *other).zip(speeds.get(*other, *is)) {
                    result.set_millionths(a, b, both);
                }
            }
        }
        result
    }

    /// The rule over the kinds, by what is told of new jobs; of a running one by what it is, unless the rule goes by labels.
    fn rule(&self, rule: &SharingRule) -> SharingRule {
        let mut result = rule.empty(self.pairs.len());
        for (a, (_, new)) in self.pairs.iter().enumerate() {
            for (b, (is, known)) in self.pairs.iter().enumerate() {
                let running = if rule.reads_running { *is } else { *known };
                if let Some(preference) = rule.preference(usize::from(*new), usize::from(running)) {
                    result.allow(a, b, preference);
                }
            }
        }
        result
    }

    /// Replays the jobs under a rule that goes by what is told, on GPUs that are divided or not.
    ///
    /// # Errors
    /// As those of [`engine::replay`] and of [`ClassPools::replay`].
    pub(super) fn replay(
        &self,
        gpus: u32,
        speeds: &PairSpeeds,
        rule: &SharingRule,
        pools: Option<&ClassPools>,
    ) -> Result<Vec<SharingTimes>> {
        if self.pairs.len() > usize::from(u16::MAX) {
            return Err(Error::defect("there are more kinds than can be counted".to_owned()));
        }
        let (speeds, rule) = (self.speeds(speeds), self.rule(rule));
        match pools {
            Some(pools) => {
                pools.of_kinds(self.pairs.iter().map(|(_, known)| *known)).replay(&self.jobs, gpus, &speeds, &rule)
            }
            None => engine::replay(&self.jobs, gpus, &speeds, &rule),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tracecast_analytics::schema::JobRow;
    use tracecast_predictors::interference::share::SharingLimits;
    use tracecast_predictors::interference::table::JobProfile;

    use super::super::evidence::Forecasts;
    use super::super::policy::SharingPolicy;
    use super::*;

    /// Types at 10, 50 and 90 %; two share a GPU by their utilisation.
    fn evidence() -> PairEvidence {
        let used = [10.0, 50.0, 90.0];
        let profile = |of: f64| JobProfile::default().with(Quantity::SmUtilPct, of);
        let types: Vec<(&str, JobProfile)> =
            ["light", "middling", "heavy"].into_iter().zip(used.map(profile)).collect();
        PairEvidence::of_types(&types, |a, b| {
            let speed = (100.0 / (used.get(a)? + used.get(b)?)).min(1.0);
            Some((speed, speed))
        })
    }

    /// A job every 40 s that runs 200 s, of Ann, whose jobs use 10 %, or of Ben, whose jobs use 90 %.
    fn trace(jobs: i64) -> Trace {
        let mut trace = Trace::default();
        for at in 0..jobs {
            let is_light = (at * 7 + at / 3) % 5 < 3;
            let submit = at * 40_000;
            trace.jobs.push(JobRow {
                job_key: Some(at.to_string().into()),
                user: Some(if is_light { "ann" } else { "ben" }.into()),
                submit: Some(submit),
                start: Some(submit),
                end: Some(submit + 200_000),
                run_s: Some(200.0),
                alloc_gpus: Some(1.0),
                reported_gpu_util_ratio: Some(if is_light { 0.1 } else { 0.9 }),
                ..JobRow::default()
            });
        }
        trace
    }

    fn types(trace: &Trace, evidence: &PairEvidence) -> JobTypes {
        let all = OneGpuJobs::new(trace);
        JobTypes::new(&all, &JobUse::new(trace, &all, [evidence], 1).unwrap(), evidence, 1)
    }

    #[test]
    fn the_worked_number() {
        let profiles = Profiles::new(&evidence());
        let nearest = |utilisation: f64| profiles.nearest(&[Some(utilisation), None]);
        assert_eq!([nearest(80.0), nearest(45.0), nearest(30.0), nearest(0.0)], [Some(2), Some(1), Some(0), Some(0)]);
    }

    #[test]
    fn a_placement_by_predicted_use_is_nearly_as_good_as_by_the_truth() {
        let evidence = evidence();
        let types = types(&trace(600), &evidence);
        let by_use = types.by_use.unwrap();
        // The first jobs end before anything is known of any.
        assert_eq!((types.from(TypeFrom::Telemetry), types.from(TypeFrom::Name)), (by_use.jobs, 0));
        assert!(by_use.jobs > 580 && by_use.predicted_right > 0.95 && by_use.mean_right < 0.7, "{by_use:?}");
        let forecasts = Forecasts::unknown(3);
        let held_s = |policy: SharingPolicy, knowledge: Knowledge| {
            let rule = policy.rule(&evidence, &forecasts, &SharingLimits::default()).unwrap();
            let times = JobsAsKnown::new(&types, knowledge).replay(3, &evidence.truth, &rule, None).unwrap();
            let ends = times.iter().zip(&types.jobs.submit_ms).map(|(times, submit)| times.end_ms - submit);
            ends.sum::<i64>() as f64 / 1e3 / times.len() as f64
        };
        let [mean, predicted, truth] = [Knowledge::Mean, Knowledge::Predicted, Knowledge::Truth]
            .map(|knowledge| held_s(SharingPolicy::Horus, knowledge));
        assert!(truth <= predicted && predicted - truth < 0.2 * (mean - truth), "{mean} {predicted} {truth}");
        // What is read of those that run is known whatever is said of jobs at submission.
        let [mean, truth] =
            [Knowledge::Mean, Knowledge::Truth].map(|knowledge| held_s(SharingPolicy::LeastLoaded, knowledge));
        assert!((mean - truth).abs() < 1e-9);
    }

    /// With types that names tell, a replay is that of the engine.
    #[test]
    fn told_the_truth_a_replay_is_that_of_the_engine() {
        let evidence = evidence();
        let types = types(&trace(300), &evidence);
        let rule = SharingPolicy::Gandiva.rule(&evidence, &Forecasts::unknown(3), &SharingLimits::default()).unwrap();
        let known = JobsAsKnown::new(&types, Knowledge::Truth).replay(4, &evidence.truth, &rule, None).unwrap();
        assert_eq!(known, engine::replay(&types.jobs, 4, &evidence.truth, &rule).unwrap());
    }

    #[test]
    fn a_trace_without_telemetry_has_drawn_types() {
        let all = OneGpuJobs::new(&trace(200));
        let types = JobTypes::new(&all, &JobUse::default(), &evidence(), 1);
        assert_eq!((types.by_use, types.from(TypeFrom::Draw)), (None, 200));
        assert_eq!(types.kinds(Knowledge::Predicted), types.kinds(Knowledge::Truth));
    }
}
