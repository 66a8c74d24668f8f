//! What was said of a job's usage when it was submitted, for whoever places jobs by it.
//!
//! What is said rests on readings taken before the submission, by models fitted on what had been read by then, and the model is chosen point in time as
//! well: for each tenth of the jobs, the one of least RMSLE on the jobs that had ended before the first of that tenth, and while fewer than
//! 20 of these were scored, `group`. So what comes later changes nothing but where the tenths lie. `mean`, the mean of what is known, is the
//! simplest rule beside it.
//!
//! O(models × fits × learning). Worked number: of 1,000 jobs, for jobs 500 to 599 the model is that of least RMSLE on jobs 300 to 499, as far as they had ended.

use std::collections::BTreeMap;

use super::history::{Usage, UsageHistory};
use super::learner::UsageForecast;
use super::model::UsageModel;
use super::score::rmsle;
use super::walk::{LEAST_JOBS, PARTS, Walk};
use crate::error::Result;
use crate::holdout::position;

/// What a job used, and what was said of it when it was submitted: percent or MiB.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UsageEstimate {
    /// What it used.
    pub truth: f64,
    /// The mean of what was known.
    pub mean: f64,
    /// What the model said that was best until then.
    pub model: f64,
}

/// What was said of the usages ([`Usage::ALL`]) of each job of a record when it was submitted, by its key.
/// Nothing of jobs that used GPUs before the first reading, or were read too seldom.
///
/// # Errors
/// If a learner fails.
pub fn at_submission(mut history: UsageHistory, seed: u64) -> Result<Vec<BTreeMap<String, UsageEstimate>>> {
    for job in &mut history.jobs {
        job.start_ms = job.submit_ms;
    }
    history.jobs.sort_by_key(|job| job.start_ms);
    Usage::ALL.into_iter().map(|usage| of_usage(&history, usage, seed)).collect()
}

/// What was said of one usage of jobs that are in order of their submissions.
fn of_usage(history: &UsageHistory, usage: Usage, seed: u64) -> Result<BTreeMap<String, UsageEstimate>> {
    let jobs = Walk::of(history, &[], usage);
    let count = jobs.asked.len();
    let [first, ..] = PARTS.map(|share| position(share, count));
    let mut estimates: Vec<(UsageModel, Vec<UsageForecast>)> = Vec::new();
    for model in UsageModel::ALL {
        estimates.push((model, jobs.points(model, first, seed)?));
    }
    let of = |model: UsageModel| estimates.iter().find(|(one, _)| *one == model).map(|(_, points)| points.as_slice());
    let mut result = BTreeMap::new();
    for block in jobs.blocks() {
        let mut best = (UsageModel::Group, f64::INFINITY);
        for (model, points) in &estimates {
            let scored = jobs.to_choose_by(points, first..block.start);
            if let Some(rmsle) = rmsle(&scored).filter(|rmsle| scored.len() >= LEAST_JOBS && *rmsle < best.1) {
                best = (*model, rmsle);
            }
        }
        let (Some(chosen), Some(mean)) = (of(best.0), of(UsageModel::Mean)) else { continue };
        for (at, asked) in jobs.asked.iter().enumerate().take(block.end).skip(block.start) {
            let (Some(key), Some(model), Some(mean)) = (&asked.job.key, chosen.get(at), mean.get(at)) else { continue };
            let [truth, mean, model] = [asked.truth, mean.point, model.point].map(f64::exp_m1);
            result.insert(key.clone(), UsageEstimate { truth, mean, model });
        }
    }
    Ok(result)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::super::backtest::tests::world;
    use super::*;

    fn error(known: &BTreeMap<String, UsageEstimate>, of: fn(&UsageEstimate) -> f64) -> f64 {
        known.values().map(|known| (of(known) - known.truth).abs()).sum::<f64>() / known.len() as f64
    }

    #[test]
    fn recurring_groups_are_told_apart() {
        let known = at_submission(world(400, 3), 1).unwrap().swap_remove(0);
        // Of the first job nothing is said: nothing was known.
        assert_eq!(known.len(), 399);
        let [model, mean] = [error(&known, |known| known.model), error(&known, |known| known.mean)];
        assert!(model < mean / 3.0, "{model} {mean}");
    }

    #[test]
    fn what_is_read_after_a_submission_changes_nothing_that_was_said() {
        let history = world(300, 3);
        let whole = at_submission(history.clone(), 1).unwrap().swap_remove(0);
        let now_ms = history.jobs[200].submit_ms;
        let mut garbled = history.clone();
        for moment in garbled.jobs.iter_mut().flat_map(|job| &mut job.moments).filter(|moment| moment.ts_ms >= now_ms) {
            moment.util_pct = Some(99.0 - moment.util_pct.unwrap() / 2.0);
        }
        let other = at_submission(garbled, 1).unwrap().swap_remove(0);
        let estimates = |known: &BTreeMap<String, UsageEstimate>, at: usize| {
            known.get(history.jobs[at].key.as_ref().unwrap()).map(|known| [known.mean, known.model])
        };
        assert!((0..=200).all(|at| estimates(&whole, at) == estimates(&other, at)));
        assert_ne!(estimates(&whole, 299), estimates(&other, 299));
    }
}
