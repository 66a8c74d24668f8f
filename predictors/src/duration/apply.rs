//! A trained predictor put to a trace: what it says of the jobs that came after its training, and of those that are open.
//!
//! Jobs submitted after the end of the training are played in order of time: each is predicted when it is submitted, from what had ended by
//! then, and learned from when it ends. Jobs that were open when the training ended are predicted as of that moment,
//! given how long they had run. All others were learned from, and are counted.
//!
//! Worked example: trained on Monday's dump and put to Tuesday's, which holds Monday's jobs too: those that ended on Monday are counted as
//! known, those that run since Monday get what is left to them, Tuesday's are predicted one by one.

use tracecast_analytics::time::SECOND_MS;

use super::predictor::Predictor;
use crate::error::Result;
use crate::job::{Event, Prediction};
use crate::timeline::{Kind, Timeline};

/// Predictions for a trace.
#[derive(Debug, Clone, Default)]
pub struct Applied {
    /// A prediction a job, in order of submission.
    pub predictions: Vec<Prediction>,
    /// Expected end of each job, milliseconds since the Unix epoch in whole seconds: its start plus
    /// the expected run, given its age at the end of the record if it still runs; `None` for a job
    /// that is not known to have started.
    pub expected_ends_ms: Vec<Option<i64>>,
    /// VC of each, for summaries.
    pub vcs: Vec<Option<String>>,
    /// GPUs of each.
    pub gpus: Vec<f64>,
    /// Submission of each, milliseconds since the Unix epoch.
    pub submits_ms: Vec<i64>,
    /// Jobs the predictor had learned from, which get no prediction.
    pub known: usize,
    /// Number of predictions for jobs open since before the end of the training.
    pub open: usize,
    /// Events that were refused (of a job that comes twice, or is not known), which teach nothing.
    pub refused: usize,
}

/// Puts `predictor` to `timeline`; it has learned the jobs that ended afterwards.
///
/// # Errors
/// If the learner refuses the features.
pub fn apply(predictor: &mut Predictor, timeline: &Timeline) -> Result<Applied> {
    let trained_ms = predictor.trained().to_ms;
    let mut applied = Applied::default();
    let mut said: Vec<Option<Prediction>> = vec![None; timeline.jobs.len()];
    for (slot, job) in said.iter_mut().zip(&timeline.jobs) {
        if job.submission.submit_ms > trained_ms {
            continue;
        }
        if job.end_ms.is_some_and(|end| end <= trained_ms) {
            applied.known += 1;
            continue;
        }
        let distributions = predictor.distributions(std::slice::from_ref(&job.submission), Some(trained_ms))?;
        let started = job.start_ms.filter(|start| *start < trained_ms);
        if let Some(foretold) = distributions.first() {
            let age_s = started.map_or(0.0, |start| (trained_ms - start) as f64 / 1000.0);
            *slot =
                Some(predictor.prediction(&job.submission, &foretold.distribution.given_age(age_s), foretold.short));
            applied.open += 1;
        }
    }
    let mut last_ms = trained_ms;
    for (time, kind, at) in timeline.moments() {
        last_ms = last_ms.max(time);
        if time <= trained_ms {
            continue;
        }
        let Some(job) = timeline.jobs.get(at as usize) else { continue };
        let job_id = &job.submission.job_id;
        let event = match kind {
            Kind::Submit => {
                let predictions = predictor.predict(std::slice::from_ref(&job.submission), None)?;
                if let Some(slot) = said.get_mut(at as usize) {
                    *slot = predictions.into_iter().next();
                }
                Event::Submitted(job.submission.clone())
            }
            Kind::Start => Event::Started { job_id: job_id.clone(), time_ms: time },
            Kind::End => {
                Event::Ended { job_id: job_id.clone(), time_ms: time, run_s: job.run_s, failed: Some(job.failed) }
            }
        };
        applied.refused += usize::from(predictor.observe(&event).is_err());
    }
    for (prediction, job) in said.into_iter().zip(&timeline.jobs) {
        let Some(prediction) = prediction else { continue };
        let run_s = match job.start_ms {
            Some(start) if job.end_ms.is_none() && start < last_ms => {
                let now = predictor.distributions(std::slice::from_ref(&job.submission), Some(last_ms))?;
                let age_s = (last_ms - start) as f64 / 1000.0;
                now.first().map_or(prediction.mean_s, |now| now.distribution.given_age(age_s).mean_s())
            }
            _ => prediction.mean_s,
        };
        let end = |start_ms: i64| (start_ms as f64 / 1000.0 + run_s).round() as i64;
        applied.expected_ends_ms.push(job.start_ms.map(|start| end(start).saturating_mul(SECOND_MS)));
        applied.predictions.push(prediction);
        applied.vcs.push(job.submission.vc.clone());
        applied.gpus.push(job.submission.gpus);
        applied.submits_ms.push(job.submission.submit_ms);
    }
    Ok(applied)
}
