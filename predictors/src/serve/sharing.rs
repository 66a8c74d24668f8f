//! `/v1/share`: beside which of the running jobs a new one should go. Not responsible for the forecast, which is
//! [`interference::share`](crate::interference::share)'s.
//!
//! In: the GPU type, the new job, and the running ones, each with its job type, perhaps its family, and what was seen of it (any quantity of a profile, such as
//! `sm_util_pct`); within `limits`, `slo`, `most_out_of_memory` and `least_progress` where they are not 1.5, 0.05 and 1. Out: the candidates, the best first, with expected
//! progress, the 0.9 quantile of the slowdown of the worse, both speeds as quantiles, and whether to share. What is unknown widens the interval and is
//! no error; a quantity that is none is one.
//!
//! O(candidates). Worked example: `{"gpu_type":"v100","job":{"job_type":"A3C"},"running":[{"id":"7","job_type":"A3C"}]}` is answered
//! `{"candidates":[{"id":"7","rank":1,"share":false,…}]}`.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::refusal::Refusal;
use crate::interference::predictor::{SharingJob, SharingPredictor};
use crate::interference::share::{self, PairAnswer, SharingLimits};
use crate::interference::table::Quantity;

/// What would mend a request.
pub(super) const REMEDY: &str = r#"send {"gpu_type":"…","job":{"job_type":"…","seen":{"sm_util_pct":…}},"running":[{"id":"…","job_type":"…"}]}, and where they differ "limits":{"slo":1.5,"most_out_of_memory":0.05}"#;
/// Bytes that a candidate takes at most in the answer, beside its names.
const CANDIDATE_BYTES: usize = 1024;
/// How often names may stand in it, escaped or not.
const NAME_TIMES: usize = 8;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AskedJob {
    job_type: String,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    family: Option<String>,
    #[serde(default)]
    seen: BTreeMap<String, Option<f64>>,
}

/// What is asked.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ShareAsked {
    gpu_type: String,
    job: AskedJob,
    running: Vec<AskedJob>,
    #[serde(default)]
    limits: SharingLimits,
}

/// A candidate with its place.
#[derive(Debug, Serialize)]
struct Candidate {
    rank: usize,
    #[serde(flatten)]
    answer: PairAnswer,
}

/// What is answered.
#[derive(Debug, Serialize)]
pub(super) struct ShareAnswer {
    candidates: Vec<Candidate>,
}

impl AskedJob {
    fn check(&self, what: &str) -> Result<(), Refusal> {
        for (name, value) in &self.seen {
            let Some(quantity) = Quantity::of_column(name) else {
                let known: Vec<&str> = Quantity::ALL.iter().map(|quantity| quantity.name()).collect();
                return Err(Refusal::bad(
                    format!("{what}: `{}` is no quantity of a job", name.escape_debug()),
                    format!("name one of {}", known.join(", ")),
                ));
            };
            let most = if quantity.is_percent() { 100.0 } else { f64::MAX };
            if value.is_some_and(|value| !(0.0..=most).contains(&value)) {
                return Err(Refusal::bad(
                    format!("{what}: `{name}` is {}", value.unwrap_or_default()),
                    "send a number of at least 0, percent up to 100, or null where it is unknown",
                ));
            }
        }
        Ok(())
    }

    fn job(&self) -> SharingJob {
        let mut job = SharingJob { family: self.family.clone(), ..SharingJob::new(self.job_type.clone()) };
        for (name, value) in &self.seen {
            if let Some(quantity) = Quantity::of_column(name) {
                job.seen.set(quantity, *value);
            }
        }
        job
    }

    fn name_bytes(&self) -> usize {
        self.job_type.len() + self.id.as_ref().map_or(0, String::len)
    }
}

impl ShareAsked {
    /// Checks what a number cannot be.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        self.limits.check().map_err(|error| Refusal::bad(error.to_string(), REMEDY))?;
        self.job.check("the job")?;
        self.running
            .iter()
            .enumerate()
            .try_for_each(|(at, job)| job.check(&format!("running job {at} (counted from 0)")))
    }

    /// How many candidates there are.
    pub(super) fn candidates(&self) -> usize {
        self.running.len()
    }

    /// Bytes that the answer takes at most.
    pub(super) fn answer_bytes(&self) -> usize {
        let names: usize = self.running.iter().map(AskedJob::name_bytes).sum();
        let each = CANDIDATE_BYTES + (self.gpu_type.len() + self.job.name_bytes()) * NAME_TIMES;
        self.running.len() * each + names * NAME_TIMES
    }

    /// Answers about some of the candidates, in the order of the request.
    pub(super) fn some(&self, predictor: &SharingPredictor, which: Range<usize>) -> Vec<PairAnswer> {
        let new = self.job.job();
        let some = self.running.iter().skip(which.start).take(which.len());
        some.map(|running| {
            let answer = share::pair(predictor, &self.gpu_type, &new, &running.job(), &self.limits);
            PairAnswer { id: running.id.clone(), ..answer }
        })
        .collect()
    }
}

impl ShareAnswer {
    /// The answer, the best candidate first.
    pub(super) fn of(mut answers: Vec<PairAnswer>) -> Self {
        share::rank(&mut answers);
        let candidates = answers.into_iter().zip(1..).map(|(answer, rank)| Candidate { rank, answer }).collect();
        Self { candidates }
    }
}
