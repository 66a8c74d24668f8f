//! `/v1/share`: beside which of the running jobs a new one should go. Not responsible for the forecast, which is
//! [`interference::share`](crate::interference::share)'s.
//!
//! In: the GPU type, the new job, and the running ones, each with its job type, perhaps its family, and what was seen of it (any quantity of a profile, such as
//! `sm_util_pct`); within `limits`, `slo`, `most_out_of_memory` and `least_progress` where they are not 1.5, 0.05 and 1. Out: the candidates, the best first, with expected
//! progress, the 0.9 quantile of the slowdown of the worse, both speeds as quantiles, and whether to share; with `top`, no more than the best so many of them. What is unknown widens
//! the interval and is no error; a quantity that is none is one.
//!
//! Running jobs of which the same is said are forecast once. O(candidates + different ones × members). Worked example: `{"gpu_type":"v100","job":{"job_type":"A3C"},"running":[{"id":"7","job_type":"A3C"}]}` is answered
//! `{"candidates":[{"id":"7","rank":1,"share":false,…}]}`.

use std::collections::{BTreeMap, HashMap};
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
    /// Most candidates that are answered; all if `None`.
    #[serde(default)]
    top: Option<usize>,
}

/// All that is said of a job but its identifier.
type Said = (String, Option<String>, Vec<(String, Option<u64>)>);

/// Answers about running jobs of which the same is said.
pub(super) type Known = HashMap<Said, PairAnswer>;

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

    fn said(&self) -> Said {
        let seen = self.seen.iter().map(|(name, value)| (name.clone(), value.map(f64::to_bits)));
        (self.job_type.clone(), self.family.clone(), seen.collect())
    }

    fn name_bytes(&self) -> usize {
        self.job_type.len() + self.id.as_ref().map_or(0, String::len)
    }
}

impl ShareAsked {
    /// Checks what a number cannot be.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        self.limits.check().map_err(|error| Refusal::bad(error.to_string(), REMEDY))?;
        if self.top == Some(0) {
            return Err(Refusal::bad(
                "`top` is 0".to_owned(),
                "send how many of the best are wanted, at least 1, or leave it out",
            ));
        }
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
        // All are answered before the best of them are kept.
        let names = self.running.iter().map(AskedJob::name_bytes).sum::<usize>();
        let each = CANDIDATE_BYTES + (self.gpu_type.len() + self.job.name_bytes()) * NAME_TIMES;
        self.running.len() * each + names * NAME_TIMES
    }

    /// Answers about some of the candidates, in the order of the request. What was answered before is in `known`.
    pub(super) fn some(&self, predictor: &SharingPredictor, which: Range<usize>, known: &mut Known) -> Vec<PairAnswer> {
        let new = self.job.job();
        let some = self.running.iter().skip(which.start).take(which.len());
        some.map(|running| {
            let answer = known
                .entry(running.said())
                .or_insert_with(|| share::pair(predictor, &self.gpu_type, &new, &running.job(), &self.limits));
            PairAnswer { id: running.id.clone(), ..answer.clone() }
        })
        .collect()
    }

    /// How many of the candidates are answered.
    pub(super) fn top(&self) -> usize {
        self.top.unwrap_or(usize::MAX)
    }
}

impl ShareAnswer {
    /// The answer, the best candidate first, and no more than so many.
    pub(super) fn of(mut answers: Vec<PairAnswer>, top: usize) -> Self {
        share::rank(&mut answers);
        answers.truncate(top);
        let candidates = answers.into_iter().zip(1..).map(|(answer, rank)| Candidate { rank, answer }).collect();
        Self { candidates }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::interference::table::{JobProfile, SharedPair, SharingTable, Speeds};

    fn predictor() -> SharingPredictor {
        let mut table = SharingTable::new();
        let gpu = table.gpu_type("g");
        let mut pairs = Vec::new();
        for b in 0..6usize {
            let job = table.job(&format!("m{} (batch size {})", b / 2, 8 << (b % 2)));
            table.set_profile(gpu, job, &JobProfile::default().with(Quantity::SmUtilPct, 20.0 + 12.0 * b as f64));
            let speed = |own: usize, beside: usize| 1.0 - 0.02 * own as f64 - 0.04 * beside as f64;
            let pair = |a: usize| SharedPair { gpu, a, b, speeds: Some(Speeds { a: speed(a, b), b: speed(b, a) }) };
            pairs.extend((0..=b).map(pair));
        }
        table.add_pairs(pairs);
        SharingPredictor::train(&table.sorted(), 1).unwrap()
    }

    /// Found by an audit: 1,000 running jobs of one type took 1,000 forecasts.
    #[test]
    fn equal_jobs_are_forecast_once_and_answered_as_if_asked_alone() {
        let predictor = predictor();
        let job = |at: u32| {
            let seen = if at.is_multiple_of(3) { r#","seen":{"sm_util_pct":50}"# } else { "" };
            format!(r#"{{"id":"{at}","job_type":"m{} (batch size 8)"{seen}}}"#, at % 4)
        };
        let ask = |jobs: &[String], top: &str| -> ShareAsked {
            let text = format!(
                r#"{{"gpu_type":"g","job":{{"job_type":"m1 (batch size 16)"}},"running":[{}]{top}}}"#,
                jobs.join(",")
            );
            serde_json::from_str(&text).unwrap()
        };
        let jobs: Vec<String> = (0..60).map(job).collect();
        let asked = ask(&jobs, "");
        asked.check().unwrap();
        let mut known = Known::new();
        let mut all = asked.some(&predictor, 0..40, &mut known);
        all.extend(asked.some(&predictor, 40..60, &mut known));
        // Four job types, each with and without what was seen of it.
        assert_eq!((all.len(), known.len()), (60, 8));
        for (one, answer) in jobs.iter().zip(&all) {
            let alone = ask(std::slice::from_ref(one), "").some(&predictor, 0..1, &mut Known::new());
            assert_eq!(alone, std::slice::from_ref(answer));
        }
        // The best three of all.
        let best = ask(&jobs, r#","top":3"#);
        let (whole, three) = (ShareAnswer::of(all.clone(), asked.top()), ShareAnswer::of(all, best.top()));
        let ids = |of: &ShareAnswer| of.candidates.iter().map(|one| one.answer.id.clone()).collect::<Vec<_>>();
        assert_eq!((ids(&three).as_slice(), three.candidates[2].rank), (&ids(&whole)[..3], 3));
        assert!(ask(&jobs, r#","top":0"#).check().is_err());
    }
}
