//! Answers about several jobs on one GPU: all of them together, and a new one beside those that run there already.
//!
//! Forecasts are those of [`SharingPredictor::group`], with what they are composed from. A new job must raise the progress above what those make that run there without it.
//!
//! O(k² × members). Worked number: two jobs make a progress of 1.4, and three of 1.3: the third is refused, though 1.3 is more than one alone makes.

use serde::Serialize;

use super::super::predictor::{Basis, GroupForecast, SharingJob, SharingPredictor};
use super::{BrokenLimit, Refused, SharingLimits, SpeedAnswer, merit_of};

/// A job among several on a GPU.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct GroupMember {
    /// Job type.
    pub job: String,
    /// Speed beside all others.
    pub speed: SpeedAnswer,
}

/// The answer about several jobs on one GPU.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct GroupAnswer {
    /// GPU type.
    pub gpu_type: String,
    /// Whether any pair was measured on the GPU type; else the answer is carried over from others,
    /// or a guess.
    pub gpu_type_measured: bool,
    /// Identifier of those that run there already, where it was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The jobs, as they were named; the new one first, if there is one.
    pub jobs: Vec<GroupMember>,
    /// Chance that they do not fit together.
    pub out_of_memory: f64,
    /// Whether the memory of each is known; else that chance is hardly more than that of the worst
    /// couple, and may be too low.
    pub memory_known: bool,
    /// Expected progress of all, where one alone makes 1.
    pub expected_progress: f64,
    /// Expected progress of those that run there already, without the new one; null where none is new.
    pub progress_before: Option<f64>,
    /// Slowdown of the slowest of them, as a factor, at the 0.9 quantile; null where too little is
    /// known to bound it.
    pub slowdown90: Option<f64>,
    /// Whether to share, within the limits.
    pub share: bool,
    /// Why not: the worst of `broken`.
    pub refused: Option<Refused>,
    /// Limits that are not kept, and by which of the jobs.
    pub broken: Vec<BrokenLimit>,
    /// The least of what its couples rest on.
    pub basis: Basis,
    /// Whether the answer is composed from forecasts of couples: no group of more than two teaches,
    /// and `model backtest interference --groups` says how well composing does on measured ones.
    pub composed_from_pairs: bool,
}

/// Expected progress, and the 0.9 quantile of the slowdown of the slowest.
fn merit(told: &GroupForecast) -> (f64, Option<f64>) {
    merit_of(told.speeds.iter().map(|speed| speed.mean).sum(), told.low.iter().copied(), told.out_of_memory)
}

/// The answer about jobs that all share one GPU.
pub fn group(predictor: &SharingPredictor, gpu_type: &str, jobs: &[SharingJob], limits: &SharingLimits) -> GroupAnswer {
    answered(predictor, gpu_type, jobs, limits, None)
}

/// The answer about a new job beside several that share a GPU already.
pub fn joining(
    predictor: &SharingPredictor,
    gpu_type: &str,
    new: &SharingJob,
    running: &[SharingJob],
    limits: &SharingLimits,
) -> GroupAnswer {
    let (before, _) = merit(&predictor.group(predictor.gpu_type(gpu_type), running).0);
    let jobs: Vec<SharingJob> = std::iter::once(new).chain(running).cloned().collect();
    answered(predictor, gpu_type, &jobs, limits, Some(before))
}

fn answered(
    predictor: &SharingPredictor,
    gpu_type: &str,
    jobs: &[SharingJob],
    limits: &SharingLimits,
    progress_before: Option<f64>,
) -> GroupAnswer {
    let gpu_type = predictor.gpu_type(gpu_type);
    let (told, basis) = predictor.group(gpu_type, jobs);
    let (expected_progress, slowdown90) = merit(&told);
    let least_progress = limits.least_progress.max(progress_before.unwrap_or_default());
    let limits = SharingLimits { least_progress, ..*limits };
    let lows: Vec<(&str, f64)> = jobs.iter().zip(&told.low).map(|(job, low)| (job.job_type.as_str(), *low)).collect();
    let member =
        |(job, speed): (&SharingJob, _)| GroupMember { job: job.job_type.clone(), speed: SpeedAnswer::from(speed) };
    let broken = BrokenLimit::all(&limits, basis, (expected_progress, told.out_of_memory), &lows);
    GroupAnswer {
        gpu_type: gpu_type.to_owned(),
        gpu_type_measured: predictor.is_measured_on(gpu_type),
        id: None,
        jobs: jobs.iter().zip(&told.speeds).map(member).collect(),
        out_of_memory: told.out_of_memory,
        memory_known: told.is_memory_known,
        expected_progress,
        progress_before,
        slowdown90,
        share: broken.is_empty(),
        refused: broken.first().map(|worst| worst.limit),
        broken,
        basis,
        composed_from_pairs: jobs.len() > 2,
    }
}
