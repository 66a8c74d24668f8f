//! The jobs of a trace in order of their starts, and what would have been said of each when it started; then what is said of jobs that have not started yet.
//!
//! Jobs that began before the first reading teach, and nothing is said of them. What is said of a job rests on readings taken before its start: of jobs that had ended, or of others as
//! far as they had run (module `past`). Learners are fitted again each tenth of the jobs, on what had been read by then. Intervals are as wide as the model missed the last 300 jobs that
//! were over by the job's start. Features are mean and last value of each level of groups, how many jobs the recurring group and the user had, GPUs, cores and time limit.
//!
//! Jobs that have not started are asked about at the end of the record: all readings are known, learners are fitted once more, and the same 300 jobs draw the intervals.
//!
//! O(fits × learners + n (log n + window)). Worked number: of 1,000 jobs, learners that serve from job 300 on are fitted at jobs 300, 400, … 900, and at the end.

use std::ops::Range;

use super::history::{AskedJob, JobKnown, LEAST_MOMENTS, SampledJob, Usage, UsageHistory};
use super::learner::{Reach, UsageForecast, learn};
use super::model::{RULES, UsageModel};
use super::past::{Known, KnownBy, Past, estimate, narrowest};
use super::score::Said;
use crate::error::{Error, Result};
use crate::matrix::Matrix;

/// Beginnings of the parts, as shares of the jobs: predicted, to choose on, reported. Choosing and
/// reporting get a quarter each, so that both rest on as many jobs; the first intervals need
/// errors, which the fifth before them gives.
pub(super) const PARTS: [f64; 3] = [0.3, 0.5, 0.75];
/// Fits of a learner over all jobs: no fit is older than a tenth of the record, and the time stays that of ten fits.
const FITS: usize = 10;
/// Jobs by whose errors intervals are drawn: 15 of them lie beyond each end of the 90 % interval, and only the latest errors count, as use changes.
const WINDOW: usize = 300;
/// Times at most at which intervals are drawn anew. Each sorts the window; of more jobs than that, a few in a row share an interval.
const REDRAWS: usize = 2_000;
/// Fewest jobs that can be tested: a quarter of them is five.
pub(super) const LEAST_JOBS: usize = 20;
/// Features of a job.
const FEATURES: usize = 13;

/// A job that is asked about, and what was known of it.
pub(super) struct Asked<'h> {
    pub(super) job: &'h SampledJob,
    /// Observed usage, on the log scale.
    pub(super) truth: f64,
    rules: [f64; RULES],
    pub(super) known_by: KnownBy,
}

fn features(job: &JobKnown, known: &Known, into: &mut [f32]) {
    let count = |at: usize| known.get(at).copied().flatten().map(|of| f64::from(of.jobs).ln_1p());
    let own = [count(0), count(1), job.gpus, job.cpus, job.limit_s.map(f64::ln_1p)];
    let groups = known.iter().flat_map(|of| [of.map(|of| of.mean), of.map(|of| of.last)]);
    for (slot, value) in into.iter_mut().zip(groups.chain(own)) {
        *slot = value.map_or(f32::NAN, |value| value as f32);
    }
}

/// Usage of jobs known at the last moment of `past`, on the log scale; NaN where too little is
/// known.
fn so_far(past: &Past<'_>, places: &[usize]) -> Vec<f32> {
    let of = |place: &usize| past.so_far(*place, LEAST_MOMENTS).map_or(f32::NAN, |value| value as f32);
    places.iter().map(of).collect()
}

/// Forecasts of the rules for a job with these groups, and the narrowest group known; None where
/// none is.
fn rules(known: &Known) -> Option<([f64; RULES], KnownBy)> {
    let [.., all] = known;
    let (known_by, narrow) = narrowest(known)?;
    Some(([(*all)?.mean, narrow.last, estimate(known)?], known_by))
}

/// Walk over all jobs that are asked about, once.
pub(super) struct Walk<'h> {
    pub(super) asked: Vec<Asked<'h>>,
    rows: Matrix,
    /// First job of each fit, and the usage known by then of the jobs before it (NaN: too little).
    fits: Vec<(usize, Vec<f32>)>,
    /// Forecasts of the rules, and the group known, for each job that has not started; None where
    /// nothing was read.
    open: Vec<Option<([f64; RULES], KnownBy)>>,
    open_rows: Matrix,
    /// Usage of the jobs asked about at the end of the record (NaN: too little).
    at_end: Vec<f32>,
}

/// Error that there are too few jobs; `most` can be asked about.
pub(super) fn too_few(history: &UsageHistory, most: usize) -> Error {
    Error::TooFew(format!(
        "{} jobs have telemetry, and {most} of them have {LEAST_MOMENTS} readings at least and started after the first reading: {LEAST_JOBS} such jobs are needed; read the meters for \
         longer",
        history.jobs.len()
    ))
}

impl<'h> Walk<'h> {
    /// Through all jobs of a history, and then to those that have not started.
    pub(super) fn of(history: &'h UsageHistory, open: &[AskedJob], usage: Usage) -> Self {
        let first_ms = history.first_ms.unwrap_or(i64::MIN);
        let mut past = Past::new(&history.jobs, open, usage);
        let may = |job: &SampledJob| job.start_ms > first_ms && job.truth(usage).is_some();
        let step = history.jobs.iter().filter(|job| may(job)).count().div_ceil(FITS).max(1);
        let mut result = Self {
            asked: Vec::new(),
            rows: Matrix::new(FEATURES),
            fits: Vec::new(),
            open: Vec::with_capacity(open.len()),
            open_rows: Matrix::new(FEATURES),
            at_end: Vec::new(),
        };
        let mut places: Vec<usize> = Vec::new();
        for (at, job) in history.jobs.iter().enumerate() {
            let Some(truth) = job.truth(usage).filter(|_| may(job)) else { continue };
            past.advance(job.start_ms);
            let known = past.known(at);
            let Some((rules, known_by)) = rules(&known) else { continue };
            if result.asked.len().is_multiple_of(step) {
                result.fits.push((result.asked.len(), so_far(&past, &places)));
            }
            features(&job.known, &known, result.rows.push());
            result.asked.push(Asked { job, truth: truth.ln_1p(), rules, known_by });
            places.push(at);
        }
        past.advance(i64::MAX);
        result.at_end = so_far(&past, &places);
        for (job, at) in open.iter().zip(history.jobs.len()..) {
            let known = past.known(at);
            features(&job.known, &known, result.open_rows.push());
            result.open.push(rules(&known));
        }
        result
    }

    /// The jobs between two fits, in their order.
    pub(super) fn blocks(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let ends = self.fits.iter().skip(1).map(|fit| fit.0).chain([self.asked.len()]);
        self.fits.iter().zip(ends).map(|((from, _), to)| *from..to)
    }

    /// Forecasts of a model for the jobs from `first` on, with intervals; jobs before it get a
    /// rule's forecasts.
    pub(super) fn say(&self, model: UsageModel, first: usize, usage: Usage, seed: u64) -> Result<Vec<UsageForecast>> {
        Ok(self.with_intervals(&self.points(model, first, seed)?, first, usage))
    }

    /// Forecasts of a model for the jobs from `first` on, without intervals; jobs before it get a
    /// rule's forecasts.
    pub(super) fn points(&self, model: UsageModel, first: usize, seed: u64) -> Result<Vec<UsageForecast>> {
        let jobs = self.asked.len();
        let mut said: Vec<UsageForecast> = Vec::with_capacity(jobs);
        let all: Vec<u32> = (0u32..).take(FEATURES).collect();
        for ((_, labels), block) in self.fits.iter().zip(self.blocks()) {
            // What a learner would have said before `first` nobody asks for: the mean stands there.
            if let Some(rule) = model.rule().or_else(|| (block.end <= first).then_some(0)) {
                let of = |asked: &Asked<'_>| UsageForecast::one(asked.rules.get(rule).copied().unwrap_or_default());
                said.extend(self.asked.get(block).unwrap_or_default().iter().map(of));
                continue;
            }
            let serves: Vec<u32> = (block.start as u32..block.end as u32).collect();
            said.extend(self.learned(model, labels, &self.rows.select(&serves, &all), seed)?);
        }
        Ok(said)
    }

    /// Forecasts of a learner fitted to the jobs of which enough was known.
    fn learned(&self, model: UsageModel, labels: &[f32], request: &Matrix, seed: u64) -> Result<Vec<UsageForecast>> {
        let (known, labels): (Vec<u32>, Vec<f32>) =
            (0u32..).zip(labels.iter().copied()).filter(|(_, label)| !label.is_nan()).unzip();
        let all: Vec<u32> = (0u32..).take(FEATURES).collect();
        learn(model, &self.rows.select(&known, &all), &labels, request, seed)
    }

    /// Forecasts of a model for the jobs that have not started, with intervals; `points` are its
    /// forecasts for the others.
    pub(super) fn say_open(
        &self,
        model: UsageModel,
        points: &[UsageForecast],
        first: usize,
        usage: Usage,
        seed: u64,
    ) -> Result<Vec<Option<(UsageForecast, KnownBy)>>> {
        let of_rules = |rule: usize| {
            let of = |rules: &[f64; RULES]| UsageForecast::one(rules.get(rule).copied().unwrap_or_default());
            self.open.iter().map(|open| open.as_ref().map_or(UsageForecast::one(0.0), |(rules, _)| of(rules))).collect()
        };
        let said: Vec<UsageForecast> = match model.rule() {
            Some(rule) => of_rules(rule),
            None => self.learned(model, &self.at_end, &self.open_rows, seed)?,
        };
        let over = self.over(first);
        let reach = self.reach(points, &over, over.len());
        let of = |(told, open): (UsageForecast, &Option<([f64; RULES], KnownBy)>)| {
            open.as_ref().map(|(_, known_by)| (told.reaching(&reach, usage), *known_by))
        };
        Ok(said.into_iter().zip(&self.open).map(of).collect())
    }

    /// Pairs of forecast and outcome to choose a model by: the jobs of a range that were over when
    /// the first job after it started.
    pub(super) fn to_choose_by(&self, said: &[UsageForecast], range: Range<usize>) -> Said {
        let then_ms = self.asked.get(range.end).map_or(i64::MAX, |asked| asked.job.start_ms);
        let jobs = said.iter().zip(&self.asked).take(range.end).skip(range.start);
        jobs.filter(|(_, asked)| asked.job.done_ms <= then_ms).map(|(said, asked)| (*said, asked.truth)).collect()
    }

    /// The jobs from `first` on, with when they were over, in that order.
    fn over(&self, first: usize) -> Vec<(i64, usize)> {
        let mut over: Vec<(i64, usize)> =
            (first..).zip(self.asked.iter().skip(first)).map(|(at, asked)| (asked.job.done_ms, at)).collect();
        over.sort_unstable();
        over
    }

    /// Reach of the intervals when the first `known` jobs of `over` are over, from the errors of
    /// the last of them.
    fn reach(&self, said: &[UsageForecast], over: &[(i64, usize)], known: usize) -> Reach {
        let window = over.get(known.saturating_sub(WINDOW)..known).unwrap_or_default();
        let missed: Said =
            window.iter().filter_map(|(_, at)| Some((*said.get(*at)?, self.asked.get(*at)?.truth))).collect();
        Reach::of(&missed)
    }

    /// Adds intervals to forecasts, from the errors on jobs that were over when each started.
    pub(super) fn with_intervals(&self, said: &[UsageForecast], first: usize, usage: Usage) -> Vec<UsageForecast> {
        let over = self.over(first);
        let redraw = said.len().div_ceil(REDRAWS).max(1);
        let (mut reach, mut known) = (Reach::default(), 0usize);
        let mut out = Vec::with_capacity(said.len());
        for (at, (told, asked)) in said.iter().zip(&self.asked).enumerate() {
            if at.is_multiple_of(redraw) {
                let by_now = over.partition_point(|(done_ms, _)| *done_ms <= asked.job.start_ms);
                if by_now > known {
                    known = by_now;
                    reach = self.reach(said, &over, known);
                }
            }
            out.push(told.reaching(&reach, usage));
        }
        out
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::super::backtest::tests::world;
    use super::*;

    #[test]
    fn what_comes_later_changes_nothing_that_was_said() {
        let history = world(200, 3);
        let cut = 150;
        let mut garbled = history.clone();
        let now_ms = history.jobs[cut].start_ms;
        for job in &mut garbled.jobs {
            for moment in job.moments.iter_mut().filter(|moment| moment.ts_ms >= now_ms) {
                moment.util_pct = Some(99.0 - moment.util_pct.unwrap() / 2.0);
            }
        }
        let (one, other) = (Walk::of(&history, &[], Usage::GpuUtilPct), Walk::of(&garbled, &[], Usage::GpuUtilPct));
        // The first job is not asked about: nothing was known.
        let request = cut - 1;
        for model in UsageModel::ALL {
            let say = |walk: &Walk<'_>| walk.say(model, 60, Usage::GpuUtilPct, 1).unwrap();
            assert_eq!(say(&one)[..=request], say(&other)[..=request], "{model:?}");
            assert_ne!(say(&one)[request + 1..], say(&other)[request + 1..], "{model:?}");
        }
    }

    /// A waiting job gets the same forecast as one that starts then.
    #[test]
    fn what_waits_is_told_as_what_starts() {
        let history = world(401, 10);
        let whole = Walk::of(&history, &[], Usage::GpuUtilPct);
        // Of the first job nothing is said, so the last of 400 asked about is the last of 401.
        for at in [300, 399] {
            let mut before = history.clone();
            let next = AskedJob { id: None, known: before.jobs[at + 1].known.clone() };
            before.jobs.truncate(at + 1);
            let walk = Walk::of(&before, &[next], Usage::GpuUtilPct);
            for model in UsageModel::ALL.into_iter().take(RULES) {
                let points = walk.points(model, 120, 1).unwrap();
                let told = walk.say_open(model, &points, 120, Usage::GpuUtilPct, 1).unwrap();
                let started = whole.say(model, 120, Usage::GpuUtilPct, 1).unwrap()[at];
                assert_eq!(told, [Some((started, KnownBy::Recurring))], "{model:?}");
            }
        }
    }
}
