//! The back-test on a trace: what would have been said of each job when it started, and what its telemetry then read.
//!
//! Jobs are in order of their starts; those that began before the first reading teach, and nothing is said of them. What is said of a job rests on readings taken
//! before its start: of jobs that had ended, or of others as far as they had run (module `past`). Learners are fitted again each tenth of the jobs, on
//! what had been read by then. Intervals are as wide as the model missed the last 300 jobs that were over by the job's start.
//!
//! Of the jobs, 30 % only teach, the next 20 % serve intervals too, on the next 25 % the model is chosen (by RMSLE, of those that were over by then), and the last 25 % are reported.
//! Features are mean and last value of each level of groups, how many jobs the recurring group and the user had, GPUs, cores and time limit.
//!
//! O(fits × learners + n (log n + window)). Worked number: of 1,000 jobs 250 are scored, and learners are fitted at jobs 300, 400, … 900.

use serde::Serialize;

use super::history::{LEAST_MOMENTS, SampledJob, Usage, UsageHistory};
use super::learner::{RULES, Reach, UsageForecast, UsageModel, learn};
use super::past::{Known, KnownBy, Past, estimate, narrowest};
use super::score::{Said, UsageScore, mae, rmsle, score};
use crate::error::{Error, Result};
use crate::holdout::position;
use crate::matrix::Matrix;

/// Where the parts begin, as shares of the jobs: predicted, to choose on, reported.
const PARTS: [f64; 3] = [0.3, 0.5, 0.75];
/// Fits of a learner over all jobs.
const FITS: usize = 10;
/// Jobs by whose errors intervals are drawn.
const WINDOW: usize = 300;
/// Times at most at which intervals are drawn anew.
const REDRAWS: usize = 2_000;
/// Fewest jobs that can be tested.
const LEAST_JOBS: usize = 20;
/// Features of a job.
const FEATURES: usize = 13;

/// What is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "LeftOut")]
pub enum UsageLeftOut {
    /// What came later.
    Later,
    /// A family of job types, such as a model at all batch sizes.
    Family,
    /// Some job types; others of their families teach.
    JobType,
}

/// Jobs by what was known of them.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct UsageByKnown {
    /// The narrowest group of which something was known.
    pub known_by: KnownBy,
    /// Jobs scored.
    pub jobs: usize,
    /// Error of the chosen model, percent or MiB.
    pub mae: f64,
    /// Its RMSLE.
    pub rmsle: f64,
}

/// One usage, tested in one way.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct UsageSplit {
    /// What is predicted.
    pub usage: Usage,
    /// What was left out.
    pub left_out: UsageLeftOut,
    /// Jobs or job types that teach: of those in order of time, before the first that is scored.
    pub taught: usize,
    /// Groups left out, one after the other; 0 where later jobs are.
    pub folds: usize,
    /// Jobs or job types scored.
    pub scored: usize,
    /// Mean of what came, percent or MiB.
    pub mean: f64,
    /// The rules, then the learners.
    pub models: Vec<UsageScore>,
    /// The model of least RMSLE on what is not reported; of profiles, `choice`: for each group that is left out, that of least RMSLE on the others.
    pub chosen: String,
    /// The chosen model by what was known of a job; empty where no time is.
    pub by_known: Vec<UsageByKnown>,
}

/// A job that is asked about, and what was known of it.
struct Asked<'h> {
    job: &'h SampledJob,
    /// What came, on the log scale.
    truth: f64,
    rules: [f64; RULES],
    known_by: KnownBy,
}

fn features(job: &SampledJob, known: &Known, into: &mut [f32]) {
    let count = |at: usize| known.get(at).copied().flatten().map(|of| f64::from(of.jobs).ln_1p());
    let own = [count(0), count(1), job.gpus, job.cpus, job.limit_s.map(f64::ln_1p)];
    let groups = known.iter().flat_map(|of| [of.map(|of| of.mean), of.map(|of| of.last)]);
    for (slot, value) in into.iter_mut().zip(groups.chain(own)) {
        *slot = value.map_or(f32::NAN, |value| value as f32);
    }
}

/// All jobs that are asked about, walked through once.
struct Walk<'h> {
    asked: Vec<Asked<'h>>,
    rows: Matrix,
    /// Of each fit: the first job that it serves, and what was known by then of the jobs before it (NaN: too little).
    fits: Vec<(usize, Vec<f32>)>,
}

impl<'h> Walk<'h> {
    fn of(history: &'h UsageHistory, usage: Usage) -> Self {
        let first_ms = history.first_ms.unwrap_or(i64::MIN);
        let mut past = Past::of(&history.jobs, usage);
        let may = |job: &SampledJob| job.start_ms > first_ms && job.truth(usage).is_some();
        let step = history.jobs.iter().filter(|job| may(job)).count().div_ceil(FITS).max(1);
        let mut walk = Self { asked: Vec::new(), rows: Matrix::new(FEATURES), fits: Vec::new() };
        let mut places: Vec<usize> = Vec::new();
        for (at, job) in history.jobs.iter().enumerate() {
            let Some(truth) = job.truth(usage).filter(|_| may(job)) else { continue };
            past.advance(job.start_ms);
            let known = past.known(at);
            let [.., all] = known;
            let (Some((known_by, narrow)), Some(all), Some(group)) = (narrowest(&known), all, estimate(&known)) else {
                continue;
            };
            if walk.asked.len().is_multiple_of(step) {
                let so_far = |place: &usize| past.so_far(*place, LEAST_MOMENTS).map_or(f32::NAN, |value| value as f32);
                walk.fits.push((walk.asked.len(), places.iter().map(so_far).collect()));
            }
            features(job, &known, walk.rows.push());
            let rules = [all.mean, narrow.last, group];
            walk.asked.push(Asked { job, truth: truth.ln_1p(), rules, known_by });
            places.push(at);
        }
        walk
    }

    /// What a model says of the jobs from `first` on, with intervals; those before are what a rule would have said of them.
    fn say(&self, model: UsageModel, first: usize, usage: Usage, seed: u64) -> Result<Vec<UsageForecast>> {
        let jobs = self.asked.len();
        let mut said: Vec<UsageForecast> = Vec::with_capacity(jobs);
        let all: Vec<u32> = (0u32..).take(FEATURES).collect();
        let ends = self.fits.iter().skip(1).map(|fit| fit.0).chain([jobs]);
        for ((from, labels), to) in self.fits.iter().zip(ends) {
            // What a learner would have said before `first` nobody asks for: the mean stands there.
            if let Some(rule) = model.rule().or_else(|| (to <= first).then_some(0)) {
                let of = |asked: &Asked<'_>| UsageForecast::one(asked.rules.get(rule).copied().unwrap_or_default());
                said.extend(self.asked.get(*from..to).unwrap_or_default().iter().map(of));
                continue;
            }
            let (known, labels): (Vec<u32>, Vec<f32>) =
                (0u32..).zip(labels.iter().copied()).filter(|(_, label)| !label.is_nan()).unzip();
            let serves: Vec<u32> = (*from as u32..to as u32).collect();
            let (rows, asked) = (self.rows.select(&known, &all), self.rows.select(&serves, &all));
            said.extend(learn(model, &rows, &labels, &asked, seed)?);
        }
        Ok(self.with_intervals(&said, first, usage))
    }

    /// The same with intervals from what was missed of jobs that were over when each started.
    fn with_intervals(&self, said: &[UsageForecast], first: usize, usage: Usage) -> Vec<UsageForecast> {
        let mut over: Vec<(i64, usize)> =
            (first..).zip(self.asked.iter().skip(first)).map(|(at, asked)| (asked.job.done_ms, at)).collect();
        over.sort_unstable();
        let redraw = said.len().div_ceil(REDRAWS).max(1);
        let (mut reach, mut known) = (Reach::default(), 0usize);
        let mut out = Vec::with_capacity(said.len());
        for (at, (told, asked)) in said.iter().zip(&self.asked).enumerate() {
            if at.is_multiple_of(redraw) {
                let by_now = over.partition_point(|(done_ms, _)| *done_ms <= asked.job.start_ms);
                if by_now > known {
                    known = by_now;
                    let window = over.get(by_now.saturating_sub(WINDOW)..by_now).unwrap_or_default();
                    let missed: Said = window
                        .iter()
                        .filter_map(|(_, at)| Some((*said.get(*at)?, self.asked.get(*at)?.truth)))
                        .collect();
                    reach = Reach::of(&missed);
                }
            }
            out.push(told.reaching(&reach, usage));
        }
        out
    }
}

fn one(walk: &Walk<'_>, usage: Usage, seed: u64) -> Result<Option<UsageSplit>> {
    let jobs = walk.asked.len();
    let [first, choose, report] = PARTS.map(|share| position(share, jobs));
    let reported_from = walk.asked.get(report).map_or(i64::MAX, |asked| asked.job.start_ms);
    let mut models = Vec::new();
    let mut of_chosen: Option<(f64, UsageModel, Said)> = None;
    for model in UsageModel::ALL {
        let said = walk.say(model, first, usage, seed)?;
        let pairs: Said = said.into_iter().zip(walk.asked.iter().map(|asked| asked.truth)).collect();
        let known_then = pairs
            .iter()
            .zip(&walk.asked)
            .take(report)
            .skip(choose)
            .filter(|(_, asked)| asked.job.done_ms <= reported_from)
            .map(|(pair, _)| *pair);
        let choice = rmsle(&known_then.collect::<Vec<_>>());
        let reported = pairs.get(report..).unwrap_or_default();
        models.extend(score(model.name(), reported, choice));
        // Of equal ones the first, which is the simpler.
        if let Some(choice) = choice.filter(|choice| of_chosen.as_ref().is_none_or(|(least, ..)| choice < least)) {
            of_chosen = Some((choice, model, reported.to_vec()));
        }
    }
    let Some((_, chosen, pairs)) = of_chosen else { return Ok(None) };
    let by_known = KnownBy::EACH.into_iter().filter_map(|known_by| {
        let of = |(pair, asked): (&(UsageForecast, f64), &Asked<'_>)| (asked.known_by == known_by).then_some(*pair);
        let pairs: Said = pairs.iter().zip(walk.asked.iter().skip(report)).filter_map(of).collect();
        Some(UsageByKnown { known_by, jobs: pairs.len(), mae: mae(&pairs)?, rmsle: rmsle(&pairs)? })
    });
    Ok(Some(UsageSplit {
        usage,
        left_out: UsageLeftOut::Later,
        taught: report,
        folds: 0,
        scored: pairs.len(),
        mean: pairs.iter().map(|(_, came)| came.exp_m1()).sum::<f64>() / pairs.len().max(1) as f64,
        by_known: by_known.collect(),
        models,
        chosen: chosen.name().to_owned(),
    }))
}

/// Tests what is said of the utilisation and the memory of the jobs of a trace.
///
/// # Errors
/// If of neither usage there are enough jobs that started after the first reading, or a learner fails.
pub fn run(history: &UsageHistory, seed: u64) -> Result<Vec<UsageSplit>> {
    let (mut splits, mut most) = (Vec::new(), 0);
    for usage in Usage::ALL {
        let walk = Walk::of(history, usage);
        most = most.max(walk.asked.len());
        if walk.asked.len() >= LEAST_JOBS {
            splits.extend(one(&walk, usage, seed)?);
        }
    }
    if splits.is_empty() {
        return Err(Error::TooFew(format!(
            "{} jobs have telemetry, and {most} of them have {LEAST_MOMENTS} readings at least and started after the first reading: {LEAST_JOBS} such jobs are needed; read the \
             meters for longer",
            history.jobs.len()
        )));
    }
    Ok(splits)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::super::past::tests::job;
    use super::*;

    /// Jobs of six recurring groups of three users, each group with a utilisation of its own, and some noise.
    fn world(jobs: usize) -> UsageHistory {
        let one = |at: usize| {
            let group = (at * 7 + at / 5) % 6;
            let util = 10.0 + 14.0 * group as f64;
            let noise = |read: usize| ((at * 31 + read * 17) % 11) as f64 - 5.0;
            let utils: Vec<f64> = (0..5).map(|read| util + noise(read)).collect();
            let name = format!("work-{}-{at}", ["a", "b", "c", "d", "e", "f"][group]);
            job(["ann", "ben", "cyd"][group % 3], &name, at as i64 * 3, &utils)
        };
        UsageHistory { jobs: (0..jobs).map(one).collect(), first_ms: Some(-1), ..UsageHistory::default() }
    }

    #[test]
    fn recurring_groups_are_told_apart_and_intervals_hold() {
        let splits = run(&world(400), 1).unwrap();
        assert_eq!(splits.iter().map(|split| split.usage).collect::<Vec<_>>(), Usage::ALL);
        let util = &splits[0];
        let of = |name: &str| util.models.iter().find(|model| model.name == name).unwrap();
        assert_eq!((util.scored, util.taught), (of("mean").scored, 399 - util.scored));
        for name in ["last", "group", "linear", "forest", "boosted"] {
            assert!(of(name).rmsle < of("mean").rmsle / 3.0, "{name}: {:?} {:?}", of(name), of("mean"));
            assert!((0.8..=1.0).contains(&of(name).coverage90), "{:?}", of(name));
        }
        assert_eq!(util.by_known.len(), 1);
        assert_eq!((util.by_known[0].known_by, util.by_known[0].jobs), (KnownBy::Recurring, util.scored));
        assert_eq!(run(&world(400), 1).unwrap(), splits);
    }

    #[test]
    fn what_comes_later_changes_nothing_that_was_said() {
        let history = world(200);
        let cut = 150;
        let mut garbled = history.clone();
        let now_ms = history.jobs[cut].start_ms;
        for job in &mut garbled.jobs {
            for moment in job.moments.iter_mut().filter(|moment| moment.ts_ms >= now_ms) {
                moment.util_pct = Some(99.0 - moment.util_pct.unwrap() / 2.0);
            }
        }
        let (one, other) = (Walk::of(&history, Usage::GpuUtilPct), Walk::of(&garbled, Usage::GpuUtilPct));
        // The first job is not asked about: nothing was known.
        let asked = cut - 1;
        for model in UsageModel::ALL {
            let say = |walk: &Walk<'_>| walk.say(model, 60, Usage::GpuUtilPct, 1).unwrap();
            assert_eq!(say(&one)[..=asked], say(&other)[..=asked], "{model:?}");
            assert_ne!(say(&one)[asked + 1..], say(&other)[asked + 1..], "{model:?}");
        }
    }

    #[test]
    fn too_few_jobs_are_refused_with_what_would_help() {
        let told = run(&world(15), 1).unwrap_err().to_string();
        // Of the first job nothing is said, as nothing was known.
        assert!(told.contains("15 jobs have telemetry, and 14 of them") && told.contains("for longer"), "{told}");
    }
}
