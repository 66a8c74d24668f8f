//! `/v1/share`: beside which of the running jobs a new one should go. Not responsible for the forecast, which is
//! [`interference::share`](crate::interference::share)'s.
//!
//! In: the GPU type, the new job, and the running ones, each with its job type, perhaps its family, and what was seen of it (any quantity of a profile, such as
//! `sm_util_pct`); within `limits`, `slo`, `most_out_of_memory` and `least_progress` where they are not 1.5, 0.05 and 1. Out: the candidates, the best first, with expected
//! progress, the 0.9 quantile of the slowdown of the worse, both speeds as quantiles, and whether to share; with `top`, no more than the best so many of them. What is unknown widens
//! the interval and is no error; a quantity that is none is one. A GPU type on which no pair was measured is marked, with those on which some was.
//!
//! A candidate may run several jobs already (`jobs` in the place of `job_type`): it is answered as a group, composed from couples, and what counts is by how much the new job raises their progress. With `slices`, the answer also says how fast
//! the new job runs on MIG slices, where the model was trained with such.
//!
//! Running jobs of which the same is said are forecast once. O(candidates + different ones × jobs² × members). Worked example: `{"gpu_type":"v100","job":{"job_type":"A3C"},"running":[{"id":"7","job_type":"A3C"}]}` is answered
//! `{"candidates":[{"id":"7","rank":1,"share":false,…}]}`.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::refusal::Refusal;
use crate::interference::predictor::{MOST_TOGETHER, SharingJob, SharingPredictor};
use crate::interference::share::{self, GroupAnswer, PairAnswer, SharingLimits};
use crate::interference::slice::SliceSpeed;
use crate::interference::table::Quantity;

/// Remedy for a malformed request.
pub(super) const REMEDY: &str = r#"send {"gpu_type":"…","job":{"job_type":"…","seen":{"sm_util_pct":…}},"running":[{"id":"…","job_type":"…"}]}, "jobs":[{"job_type":"…"},…] in the place of a job_type where several run, and where they differ "limits":{"slo":1.5,"most_out_of_memory":0.05}"#;
/// Most bytes of a candidate in the answer, beside its names.
const CANDIDATE_BYTES: usize = 1536;
/// Most bytes of each job of a group, and of each slice, beside names.
const MEMBER_BYTES: usize = 512;
/// Most slices that are asked about.
const MOST_SLICES: usize = 64;
/// Forecasts of couples in a piece of work.
const PIECE_FORECASTS: usize = 64;
/// Bound on how often an answer repeats a name, escaped or not.
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

/// A candidate: a running job, or several on one GPU.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AskedPlace {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    job_type: Option<String>,
    #[serde(default)]
    family: Option<String>,
    #[serde(default)]
    seen: BTreeMap<String, Option<f64>>,
    #[serde(default)]
    jobs: Vec<AskedJob>,
}

/// A request for partners.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ShareAsked {
    gpu_type: String,
    job: AskedJob,
    running: Vec<AskedPlace>,
    #[serde(default)]
    limits: SharingLimits,
    /// Most candidates that are answered; all if `None`.
    #[serde(default)]
    top: Option<usize>,
    /// MIG slices on which the new job is asked about; those that were measured if empty.
    #[serde(default)]
    slices: Option<Vec<String>>,
}

/// Statement of a job without its identifier.
type Said = (String, Option<String>, Vec<(String, Option<u64>)>);

/// Answers about running jobs of which the same is said.
pub(super) type Known = HashMap<Vec<Said>, CandidateAnswer>;

/// The answer about a candidate.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub(super) enum CandidateAnswer {
    Pair(PairAnswer),
    Group(GroupAnswer),
}

/// A candidate with its place.
#[derive(Debug, Serialize)]
struct Candidate {
    rank: usize,
    #[serde(flatten)]
    answer: CandidateAnswer,
}

/// Answer to a [`ShareAsked`].
#[derive(Debug, Serialize)]
pub(super) struct ShareAnswer {
    gpu_type_measured: bool,
    /// GPU types on which pairs were measured, where this one is none of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    measured_gpu_types: Option<Vec<String>>,
    /// Mean absolute error of speeds on GPU types left out entirely, where this one was not
    /// measured and the model knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    gpu_type_left_out_mae: Option<f64>,
    candidates: Vec<Candidate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    slices: Option<Vec<SliceSpeed>>,
}

impl CandidateAnswer {
    fn share(&self) -> bool {
        match self {
            Self::Pair(of) => of.share,
            Self::Group(of) => of.share,
        }
    }

    /// Rise of the expected progress of the GPU by the new job.
    fn gain(&self) -> f64 {
        match self {
            Self::Pair(of) => of.expected_progress - 1.0,
            Self::Group(of) => of.expected_progress - of.progress_before.unwrap_or(1.0),
        }
    }

    fn of_id(&self, id: Option<String>) -> Self {
        match self {
            Self::Pair(of) => Self::Pair(PairAnswer { id, ..of.clone() }),
            Self::Group(of) => Self::Group(GroupAnswer { id, ..of.clone() }),
        }
    }
}

/// Statement of a job in a request.
#[derive(Clone, Copy)]
struct JobSaid<'a> {
    job_type: &'a str,
    family: Option<&'a String>,
    seen: &'a BTreeMap<String, Option<f64>>,
}

impl JobSaid<'_> {
    /// Checks what was seen of it.
    fn check(self, what: &dyn Fn() -> String) -> Result<(), Refusal> {
        for (name, value) in self.seen {
            let Some(quantity) = Quantity::of_column(name) else {
                let known: Vec<&str> = Quantity::ALL.iter().map(|quantity| quantity.name()).collect();
                return Err(Refusal::bad(
                    format!("{}: `{}` is no quantity of a job", what(), name.escape_debug()),
                    format!("name one of {}", known.join(", ")),
                ));
            };
            let most = if quantity.is_percent() { 100.0 } else { f64::MAX };
            if value.is_some_and(|value| !(0.0..=most).contains(&value)) {
                return Err(Refusal::bad(
                    format!("{}: `{name}` is {}", what(), value.unwrap_or_default()),
                    "send a number of at least 0, percent up to 100, or null where it is unknown",
                ));
            }
        }
        Ok(())
    }

    fn job(self) -> SharingJob {
        let mut job = SharingJob { family: self.family.cloned(), ..SharingJob::new(self.job_type) };
        for (name, value) in self.seen {
            if let Some(quantity) = Quantity::of_column(name) {
                job.seen.set(quantity, *value);
            }
        }
        job
    }

    /// Key by which equal statements are found.
    fn as_key(self) -> Said {
        let seen = self.seen.iter().map(|(name, value)| (name.clone(), value.map(f64::to_bits)));
        (self.job_type.to_owned(), self.family.cloned(), seen.collect())
    }
}

impl AskedJob {
    fn said(&self) -> JobSaid<'_> {
        JobSaid { job_type: &self.job_type, family: self.family.as_ref(), seen: &self.seen }
    }

    fn name_bytes(&self) -> usize {
        self.job_type.len() + self.id.as_ref().map_or(0, String::len)
    }
}

impl AskedPlace {
    fn check(&self, at: usize) -> Result<(), Refusal> {
        let what = || format!("running job {at} (counted from 0)");
        let bare = self.family.is_none() && self.seen.is_empty();
        match (&self.job_type, self.jobs.as_slice()) {
            (Some(_), []) => self.jobs().try_for_each(|job| job.check(&what)),
            (None, [_, ..]) if bare && self.jobs.len() < MOST_TOGETHER => {
                (0usize..).zip(&self.jobs).try_for_each(|(job, request)| {
                    request.said().check(&|| format!("running job {at}, job {job} of it (both counted from 0)"))
                })
            }
            (None, [_, ..]) if bare => Err(Refusal::bad(
                format!("{}: {} jobs run there already", what(), self.jobs.len()),
                format!("send at most {}: more than {MOST_TOGETHER} on one GPU are not forecast", MOST_TOGETHER - 1),
            )),
            _ => {
                Err(Refusal::bad(format!("{} has no `job_type`, or `jobs` beside what is said of one", what()), REMEDY))
            }
        }
    }

    /// The jobs that run there.
    fn jobs(&self) -> impl Iterator<Item = JobSaid<'_>> {
        let one = |job_type| JobSaid { job_type, family: self.family.as_ref(), seen: &self.seen };
        self.job_type.as_deref().map(one).into_iter().chain(self.jobs.iter().map(AskedJob::said))
    }

    fn name_bytes(&self) -> usize {
        let own = self.job_type.as_ref().map_or(0, String::len) + self.id.as_ref().map_or(0, String::len);
        own + self.jobs.iter().map(AskedJob::name_bytes).sum::<usize>()
    }

    /// Number of forecasts of couples that it takes.
    fn forecasts(&self) -> usize {
        1 + self.jobs.len().pow(2)
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
        if self.slices.as_ref().is_some_and(|slices| slices.len() > MOST_SLICES) {
            return Err(Refusal::bad(
                "`slices` names too many".to_owned(),
                format!("send at most {MOST_SLICES}, or none for all that were measured"),
            ));
        }
        self.job.said().check(&|| "the job".to_owned())?;
        self.running.iter().enumerate().try_for_each(|(at, place)| place.check(at))
    }

    /// Number of candidates.
    pub(super) fn candidates(&self) -> usize {
        self.running.len()
    }

    /// The next piece of work: candidates from `from` on, one at least.
    pub(super) fn piece(&self, from: usize) -> Range<usize> {
        let mut forecasts = 0;
        let some = self.running.iter().skip(from).take_while(|place| {
            let first = forecasts == 0;
            forecasts += place.forecasts();
            first || forecasts <= PIECE_FORECASTS
        });
        from..from + some.count().max(1)
    }

    /// Most bytes of the answer.
    pub(super) fn answer_bytes(&self) -> usize {
        // All are answered before the best of them are kept.
        let names = self.running.iter().map(AskedPlace::name_bytes).sum::<usize>();
        let members = self.running.iter().map(|place| place.jobs.len()).sum::<usize>();
        let each = CANDIDATE_BYTES + (self.gpu_type.len() + self.job.name_bytes()) * NAME_TIMES;
        let request = self.slices.iter().flatten().map(String::len).sum::<usize>();
        let slices =
            self.slices.as_ref().map_or(0, |_| MOST_SLICES * (MEMBER_BYTES + self.job.name_bytes() * NAME_TIMES));
        self.running.len() * each + members * MEMBER_BYTES + slices + (names + request) * NAME_TIMES
    }

    /// Answers about some of the candidates, in the order of the request. `known` holds earlier
    /// answers.
    pub(super) fn some(
        &self,
        predictor: &SharingPredictor,
        which: Range<usize>,
        known: &mut Known,
    ) -> Vec<CandidateAnswer> {
        let new = self.job.said().job();
        let some = self.running.iter().skip(which.start).take(which.len());
        some.map(|place| {
            let key = place.jobs().map(JobSaid::as_key).collect();
            let jobs = || place.jobs().map(JobSaid::job).collect::<Vec<_>>();
            let answer = known.entry(key).or_insert_with(|| match jobs().as_slice() {
                [one] => CandidateAnswer::Pair(share::pair(predictor, &self.gpu_type, &new, one, &self.limits)),
                all => CandidateAnswer::Group(share::joining(predictor, &self.gpu_type, &new, all, &self.limits)),
            });
            answer.of_id(place.id.clone())
        })
        .collect()
    }

    /// The new job on MIG slices, if that is asked.
    pub(super) fn on_slices(&self, predictor: &SharingPredictor) -> Result<Option<Vec<SliceSpeed>>, Refusal> {
        let Some(request) = &self.slices else { return Ok(None) };
        let Some(slices) = predictor.slices() else {
            return Err(Refusal::bad(
                "this model knows no speeds on slices".to_owned(),
                "train it with `tracecast model train interference --slices`, or leave `slices` out",
            ));
        };
        let new = self.job.said().job();
        let result = slices.speeds_on(&new.job_type, new.family.as_deref(), &new.seen, request);
        result.map(Some).map_err(|name| {
            Refusal::bad(
                format!("`{}` is no slice", name.chars().take(64).collect::<String>().escape_debug()),
                "name slices as NVIDIA does, such as 3g.20gb",
            )
        })
    }

    /// Number of candidates in the answer.
    pub(super) fn top(&self) -> usize {
        self.top.unwrap_or(usize::MAX)
    }

    /// The answer, the best candidate first, and no more than are asked for.
    pub(super) fn answer(
        &self,
        predictor: &SharingPredictor,
        mut answers: Vec<CandidateAnswer>,
        slices: Option<Vec<SliceSpeed>>,
    ) -> ShareAnswer {
        answers.sort_by(|one, other| other.share().cmp(&one.share()).then(other.gain().total_cmp(&one.gain())));
        answers.truncate(self.top());
        let candidates = answers.into_iter().zip(1..).map(|(answer, rank)| Candidate { rank, answer }).collect();
        let (measured, trained) = (predictor.is_measured_on(&self.gpu_type), predictor.trained());
        ShareAnswer {
            gpu_type_measured: measured,
            measured_gpu_types: (!measured).then(|| trained.measured_gpu_types.clone()),
            gpu_type_left_out_mae: trained.gpu_type_left_out_mae.filter(|_| !measured),
            candidates,
            slices,
        }
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

    /// Regression test: 1,000 running jobs of one type took 1,000 forecasts.
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
        let request = ask(&jobs, "");
        request.check().unwrap();
        let mut known = Known::new();
        let mut all = request.some(&predictor, 0..40, &mut known);
        all.extend(request.some(&predictor, 40..60, &mut known));
        // Four job types, each with and without what was seen of it.
        assert_eq!((all.len(), known.len()), (60, 8));
        for (one, answer) in jobs.iter().zip(&all) {
            let alone = ask(std::slice::from_ref(one), "").some(&predictor, 0..1, &mut Known::new());
            assert_eq!(alone, std::slice::from_ref(answer));
        }
        // The best three of all.
        let best = ask(&jobs, r#","top":3"#);
        let (whole, three) = (request.answer(&predictor, all.clone(), None), best.answer(&predictor, all, None));
        let id = |one: &Candidate| match &one.answer {
            CandidateAnswer::Pair(of) => of.id.clone(),
            CandidateAnswer::Group(of) => of.id.clone(),
        };
        let ids = |of: &ShareAnswer| of.candidates.iter().map(id).collect::<Vec<_>>();
        assert_eq!((ids(&three).as_slice(), three.candidates[2].rank), (&ids(&whole)[..3], 3));
        assert!(ask(&jobs, r#","top":0"#).check().is_err());
    }
    #[test]
    fn a_gpu_that_runs_several_is_ranked_by_what_the_new_job_adds() {
        let predictor = predictor();
        let text = r#"{"gpu_type":"h","job":{"job_type":"m0 (batch size 8)"},"running":[
            {"id":"two","jobs":[{"job_type":"m1 (batch size 8)"},{"job_type":"m2 (batch size 8)","seen":{"sm_util_pct":70}}]},
            {"id":"one","job_type":"m1 (batch size 8)"},
            {"id":"same","jobs":[{"job_type":"m1 (batch size 8)"}]}]}"#;
        let ask =
            |gpu: &str| -> ShareAsked { serde_json::from_str(&text.replace(r#""h""#, &format!("\"{gpu}\""))).unwrap() };
        let request = ask("g");
        request.check().unwrap();
        let answers = request.some(&predictor, 0..3, &mut Known::new());
        let [CandidateAnswer::Group(group), CandidateAnswer::Pair(pair), CandidateAnswer::Pair(same)] =
            answers.as_slice()
        else {
            panic!("{answers:?}");
        };
        assert_eq!((group.id.as_deref(), group.jobs.len(), group.composed_from_pairs), (Some("two"), 3, true));
        assert_eq!(PairAnswer { id: None, ..same.clone() }, PairAnswer { id: None, ..pair.clone() });
        let before = group.progress_before.unwrap();
        assert!(
            before > 1.0
                && group.expected_progress > before
                && group.expected_progress - before < pair.expected_progress - 1.0
        );
        let told = request.answer(&predictor, answers, None);
        assert!(told.gpu_type_measured && told.measured_gpu_types.is_none());
        let text = serde_json::to_string(&told).unwrap();
        assert!(
            text.starts_with(
                r#"{"gpu_type_measured":true,"candidates":[{"rank":1,"gpu_type":"g","gpu_type_measured":true,"#
            ),
            "{text}"
        );
        // A GPU type that was not measured is marked, and those that were are named.
        let request = ask("h");
        let told = request.answer(&predictor, request.some(&predictor, 0..1, &mut Known::new()), None);
        assert!(!told.gpu_type_measured && told.measured_gpu_types == Some(vec!["g".to_owned()]));
        // Work is cut by what it takes: 5 forecasts, 1 and 2.
        assert_eq!((request.piece(0), request.piece(2)), (0..3, 2..3));
        let many = vec![r#"{"job_type":"m0"}"#; MOST_TOGETHER - 1].join(",");
        let places = |text: &str| -> ShareAsked {
            serde_json::from_str(&format!(r#"{{"gpu_type":"g","job":{{"job_type":"m0"}},"running":[{text}]}}"#))
                .unwrap()
        };
        let wide = places(&vec![format!(r#"{{"jobs":[{many}]}}"#); 2].join(","));
        assert!(wide.check().is_ok() && wide.piece(0) == (0..1));
        let result = wide.some(&predictor, wide.piece(0), &mut Known::new());
        let bytes = serde_json::to_string(&wide.answer(&predictor, result, None)).unwrap().len();
        assert!(2 * bytes < wide.answer_bytes(), "{bytes} {}", wide.answer_bytes());
        for wrong in [
            format!(r#"{{"jobs":[{many},{{"job_type":"m0"}}]}}"#),
            r#"{"jobs":[]}"#.to_owned(),
            r#"{"job_type":"m0","jobs":[{"job_type":"m0"}]}"#.to_owned(),
            r#"{"family":"m","jobs":[{"job_type":"m0"}]}"#.to_owned(),
            r#"{"jobs":[{"job_type":"m0","seen":{"sm_util_pct":140}}]}"#.to_owned(),
        ] {
            assert!(places(&wrong).check().is_err(), "{wrong}");
        }
        // It was trained without slices.
        let request: ShareAsked =
            serde_json::from_str(r#"{"gpu_type":"g","job":{"job_type":"m0"},"running":[],"slices":[]}"#).unwrap();
        assert!(request.on_slices(&predictor).is_err());
    }
}
