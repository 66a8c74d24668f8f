//! A back-test of starts: the jobs of a trace are replayed under a policy, jobs that had to wait are asked about as they were submitted, and what was said is held against when they started there.
//!
//! ```text
//! truth      the replay of all jobs under the policy
//! asked      up to `options.questions` jobs that waited at all, evenly of all in order of submission; who starts at once has nothing to ask
//! known      at the submission of a job: who runs and since when, who waits, runs of jobs that had ended, waits of jobs that had started, answers that had come true
//! models     `replay` (drawn forward and corrected), `drawn` (the same, not corrected), and the simple rules; an interval of a rule is as wide as it missed before
//! scored     the later half of the asked; on the quarter before it the model is chosen: of those whose 80 and 90 % intervals hold at most 15 points fewer there the one of least median error
//! ```
//!
//! O(asked × draws × replay of a pool). Worked number: of 600 asked 300 are scored, each by 60 replays of the jobs of its pool.

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::stats::quantile::quantile;
use tracecast_analytics::watch::{self, Watch};

use super::baseline::PastWaits;
use super::calibrate::{HORIZONS_S, Record, WaitEstimate};
use super::runs::{Like, PastRuns, RunsAhead};
use super::scene::{Scene, cluster_at};
use crate::error::{Error, Result};
use crate::sim::{self, Cluster, Policy, Schedule, Workload};

/// Levels of both intervals and the median.
const LEVELS: [f64; 5] = [0.05, 0.1, 0.5, 0.9, 0.95];
/// Place of the median among them.
const MEDIAN: usize = 2;
/// How far a coverage may be below what it says where a model is chosen.
const OFF: f64 = 0.15;
/// Jobs asked about in a row by one thread.
const PART: usize = 32;
/// Fewest jobs that must have waited.
const LEAST: usize = 40;

/// Options of a back-test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StartTestOptions {
    /// Jobs that are asked about, at most.
    pub questions: usize,
    /// Replays of each.
    pub draws: usize,
    /// Seed of the draws.
    pub seed: u64,
}

/// What tells a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StartModel {
    /// The replay forward, corrected by earlier answers.
    Replay,
    /// The replay forward as it is drawn.
    Drawn,
    /// The mean wait of its VC and size.
    ClassMean,
    /// The mean of the last waits of its VC.
    MovingAverage,
    /// The binomial bound.
    BinomialBound,
}

impl StartModel {
    /// All.
    pub const ALL: [Self; 5] = [Self::Replay, Self::Drawn, Self::ClassMean, Self::MovingAverage, Self::BinomialBound];

    /// Name in words.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Replay => "replay forward",
            Self::Drawn => "replay forward, not corrected",
            Self::ClassMean => "mean of VC and size",
            Self::MovingAverage => "moving average",
            Self::BinomialBound => "binomial bound",
        }
    }
}

/// How near answers came.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct StartAccuracy {
    /// Jobs.
    pub jobs: usize,
    /// Share within the 80 % interval.
    pub coverage80: f64,
    /// Share within the 90 % interval.
    pub coverage90: f64,
    /// Median of the absolute error of the median, seconds.
    pub median_abs_error_s: f64,
}

/// Scores of answers within a horizon.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct HorizonOfStarts {
    /// Answers whose median was at most so many seconds, and more than the horizon before; null of the last.
    pub up_to_s: Option<f64>,
    /// How near they came.
    #[serde(flatten)]
    pub accuracy: StartAccuracy,
}

/// Scores of a model.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct StartScore {
    /// Which.
    pub name: StartModel,
    /// How near its answers came.
    #[serde(flatten)]
    pub accuracy: StartAccuracy,
    /// Median of the same on the quarter of the answers before, which the choice rests on.
    pub earlier_error_s: f64,
    /// By horizon.
    pub by_horizon: Vec<HorizonOfStarts>,
}

/// Results of a back-test of starts.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct StartBacktest {
    /// Jobs that are replayed.
    pub jobs: usize,
    /// Jobs among them that waited.
    pub waited: usize,
    /// Jobs that were asked about.
    pub questions: usize,
    /// Scores on the later half of them.
    pub models: Vec<StartScore>,
    /// The model chosen on the quarter before.
    pub chosen: StartModel,
}

/// A job that is asked about.
struct Question {
    job: u32,
    now_ms: i64,
    wait_s: f64,
}

/// What a model says: waits at [`LEVELS`].
#[derive(Debug, Clone, Copy)]
struct Statement {
    at: [f64; LEVELS.len()],
    horizon: usize,
}

/// Replays the past of a trace and asks about its jobs.
///
/// # Errors
/// If the engine does not take the jobs, or too few waited.
pub fn backtest(
    workload: &Workload,
    cluster: &Cluster,
    policy: &Policy,
    options: &StartTestOptions,
    watch: &dyn Watch,
) -> Result<StartBacktest> {
    let schedule = sim::simulate(workload, cluster, policy)?;
    let past = Past::new(workload, cluster, &schedule);
    let waited: Vec<Question> = past.waited();
    if waited.len() < LEAST {
        return Err(Error::no_jobs(format!(
            "{} jobs had to wait in the replay, and {LEAST} are needed to test answers on; replay on fewer nodes (--site), or more of the trace",
            waited.len()
        )));
    }
    let every = waited.len().div_ceil(options.questions.max(1)).max(1);
    let (count, questions): (usize, Vec<Question>) =
        (waited.len(), waited.into_iter().enumerate().filter(|(at, _)| at % every == 0).map(|(_, of)| of).collect());
    watch.more(questions.len());
    // Each part reads the runs before it once.
    let drawn: Vec<Result<Vec<Vec<f64>>>> = questions
        .par_chunks(PART)
        .map(|part| {
            let (mut runs, mut known) = (PastRuns::default(), 0);
            let mut draw = |question: &Question| -> Result<Vec<f64>> {
                known = past.learn_runs(&mut runs, known, question.now_ms);
                watch::part(watch, || past.draw(question, &runs, policy, options))
            };
            part.iter().map(&mut draw).collect()
        })
        .collect();
    let drawn: Vec<Vec<f64>> = drawn.into_iter().collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
    let statements = past.say(&questions, &drawn);
    let half = questions.len() / 2;
    // Before that nobody has a record to be corrected by.
    let choose = questions.len() / 4..half;
    let mut models = Vec::new();
    let mut best: Option<(f64, StartModel)> = None;
    for (name, of) in StartModel::ALL.into_iter().zip(&statements) {
        let earlier = StartAccuracy::new(&pairs(of, &questions, choose.clone()));
        let error_s = if earlier.jobs > 0 { earlier.median_abs_error_s } else { f64::INFINITY };
        let holds = earlier.coverage80 >= 0.8 - OFF && earlier.coverage90 >= 0.9 - OFF;
        if holds && best.is_none_or(|(least, _)| error_s < least) {
            best = Some((error_s, name));
        }
        models.push(score(name, &pairs(of, &questions, half..questions.len()), error_s));
    }
    let chosen = best.map_or(StartModel::Replay, |(_, name)| name);
    Ok(StartBacktest { jobs: workload.len(), waited: count, questions: questions.len(), models, chosen })
}

type Pair = (Statement, f64);

fn pairs(statements: &[Option<Statement>], questions: &[Question], range: std::ops::Range<usize>) -> Vec<Pair> {
    let of = statements.iter().zip(questions).take(range.end).skip(range.start);
    of.filter_map(|(statement, question)| Some(((*statement)?, question.wait_s))).collect()
}

/// Share within the interval from this level to its mirror.
fn coverage(pairs: &[Pair], low: usize) -> f64 {
    let within = |(statement, came): &&Pair| {
        let [from, to] = [low, LEVELS.len() - 1 - low].map(|at| statement.at.get(at).copied().unwrap_or(f64::NAN));
        from - 0.5 <= *came && *came <= to + 0.5
    };
    pairs.iter().filter(within).count() as f64 / pairs.len().max(1) as f64
}

impl StartAccuracy {
    /// Of some answers.
    fn new(pairs: &[Pair]) -> Self {
        let error = |(statement, came): &Pair| (statement.at.get(MEDIAN).copied().unwrap_or(f64::NAN) - came).abs();
        Self {
            jobs: pairs.len(),
            coverage80: coverage(pairs, 1),
            coverage90: coverage(pairs, 0),
            median_abs_error_s: quantile(&pairs.iter().map(error).collect::<Vec<_>>(), 0.5).unwrap_or(f64::NAN),
        }
    }
}

fn score(name: StartModel, pairs: &[Pair], earlier_error_s: f64) -> StartScore {
    let of_horizon = |(horizon, most): (usize, &f64)| {
        let within: Vec<Pair> = pairs.iter().filter(|(statement, _)| statement.horizon == horizon).copied().collect();
        let accuracy = StartAccuracy::new(&within);
        (accuracy.jobs > 0).then(|| HorizonOfStarts { up_to_s: most.is_finite().then_some(*most), accuracy })
    };
    let by_horizon = HORIZONS_S.iter().enumerate().filter_map(of_horizon).collect();
    StartScore { name, accuracy: StartAccuracy::new(pairs), earlier_error_s, by_horizon }
}

/// A replay, as what was known at its moments.
struct Past<'a> {
    workload: &'a Workload,
    cluster: &'a Cluster,
    pool_of: Vec<u16>,
    start_ms: Vec<Option<i64>>,
    end_ms: Vec<Option<i64>>,
    /// Jobs in order of their ends, with these.
    ends: Vec<(i64, u32)>,
    /// Jobs in order of their starts, with these.
    starts: Vec<(i64, u32)>,
}

impl<'a> Past<'a> {
    fn new(workload: &'a Workload, cluster: &'a Cluster, schedule: &Schedule) -> Self {
        let start_ms: Vec<Option<i64>> = (0..workload.len()).map(|job| schedule.start_ms(job)).collect();
        let end_ms: Vec<Option<i64>> = (0..workload.len()).map(|job| schedule.end_ms(job)).collect();
        let sorted = |of: &[Option<i64>]| {
            let mut all: Vec<(i64, u32)> = of.iter().zip(0u32..).filter_map(|(at, job)| Some(((*at)?, job))).collect();
            all.sort_unstable();
            all
        };
        let pool = |vc: &u16| cluster.vcs.get(usize::from(*vc)).map_or(0, |vc| vc.pool);
        Self {
            pool_of: workload.vc.iter().map(pool).collect(),
            ends: sorted(&end_ms),
            starts: sorted(&start_ms),
            workload,
            cluster,
            start_ms,
            end_ms,
        }
    }

    fn like(&self, job: u32) -> Like {
        Like::new(self.workload, job)
    }

    fn vc(&self, job: u32) -> u16 {
        self.workload.vc.get(job as usize).copied().unwrap_or_default()
    }

    /// Jobs that waited, as they are asked about at their submission, in order.
    fn waited(&self) -> Vec<Question> {
        let uncounted = self.workload.uncounted();
        let of = |(job, submit): (u32, &i64)| {
            let start = self.start_ms.get(job as usize).copied().flatten()?;
            let is_asked = start > *submit && *submit >= 0 && !uncounted.contains(&job);
            is_asked.then(|| Question { job, now_ms: *submit, wait_s: (start - submit) as f64 / 1e3 })
        };
        (0u32..).zip(&self.workload.submit_ms).filter_map(of).collect()
    }

    /// Takes in the runs that had ended by a moment, from the `known`-th end on; how many there are.
    fn learn_runs(&self, past: &mut PastRuns, known: usize, now_ms: i64) -> usize {
        let until = self.ends.partition_point(|(end, _)| *end <= now_ms);
        for (_, job) in self.ends.get(known..until).unwrap_or_default() {
            let run = self.workload.run_ms.get(*job as usize).copied().unwrap_or_default();
            past.learn(self.like(*job), run as f64 / 1e3);
        }
        until.max(known)
    }

    /// Draws of the wait of a job, seconds.
    fn draw(
        &self,
        question: &Question,
        past: &PastRuns,
        policy: &Policy,
        options: &StartTestOptions,
    ) -> Result<Vec<f64>> {
        let now_ms = question.now_ms;
        let pool = self.pool_of.get(question.job as usize).copied().unwrap_or_default();
        let is_in = |job: u32| self.pool_of.get(job as usize) == Some(&pool);
        let started = self.starts.iter().take_while(|(start, _)| *start <= now_ms);
        let still = |job: u32| self.end_ms.get(job as usize).copied().flatten().is_none_or(|end| end > now_ms);
        let running = started.filter(|(start, job)| *start < now_ms && is_in(*job) && still(*job));
        let waits = |job: u32| self.start_ms.get(job as usize).copied().flatten().is_none_or(|start| start >= now_ms);
        // Those of the same instant that come after it are not known yet.
        let waiting: Vec<u32> = (0..=question.job).filter(|job| is_in(*job) && waits(*job)).collect();
        let scene = Scene {
            workload: self.workload,
            cluster: cluster_at(self.cluster, now_ms),
            policy,
            now_ms,
            running: running.map(|(start, job)| (*job, *start)).collect(),
            waiting,
        };
        let ahead = |job: u32, elapsed_s: f64| -> RunsAhead {
            let limit = self.workload.requested_ms.get(job as usize).copied().flatten();
            past.ahead(self.like(job), elapsed_s, limit.map(|limit| limit as f64 / 1e3))
        };
        let seed = options.seed ^ (u64::from(question.job) << 20);
        let starts = scene.draw(options.draws, seed, &ahead, &is_in)?;
        Ok(starts.last().into_iter().flatten().map(|start| *start as f64 / 1e3).collect())
    }

    /// What each model says of each job that is asked about, in order of [`StartModel::ALL`].
    fn say(&self, questions: &[Question], drawn: &[Vec<f64>]) -> Vec<Vec<Option<Statement>>> {
        let mut waits = PastWaits::default();
        let mut next = 0;
        let mut records: Vec<Record> = vec![Record::default(); StartModel::ALL.len()];
        let mut result = vec![Vec::with_capacity(questions.len()); StartModel::ALL.len()];
        let uncounted = self.workload.uncounted();
        for (question, draws) in questions.iter().zip(drawn) {
            while let Some((start, job)) = self.starts.get(next).filter(|(start, _)| *start <= question.now_ms) {
                let submit = self.workload.submit_ms.get(*job as usize).copied().unwrap_or(*start);
                if !uncounted.contains(job) {
                    let amount = self.workload.shape_of(*job as usize).amount();
                    waits.learn(self.vc(*job), amount, (start - submit).max(0) as f64 / 1e3);
                }
                next += 1;
            }
            let (vc, amount) = (self.vc(question.job), self.like(question.job).amount);
            for ((model, record), statements) in StartModel::ALL.into_iter().zip(&mut records).zip(&mut result) {
                let estimate = match model {
                    StartModel::Replay | StartModel::Drawn => WaitEstimate::new(draws.iter().copied()),
                    StartModel::ClassMean => waits.class_mean_s(vc, amount).and_then(one),
                    StartModel::MovingAverage | StartModel::BinomialBound => waits.moving_average_s(vc).and_then(one),
                };
                let statement = estimate.as_ref().and_then(|estimate| {
                    let at = match model {
                        StartModel::BinomialBound => waits.binomial_bounds_s(vc, LEVELS)?,
                        StartModel::Drawn => estimate.drawn(LEVELS),
                        // A rule is one number, and its interval as wide as it missed before.
                        StartModel::Replay | StartModel::ClassMean | StartModel::MovingAverage => {
                            record.quantiles(estimate, question.now_ms, LEVELS)
                        }
                    };
                    Some(Statement { at, horizon: estimate.horizon() })
                });
                statements.push(statement);
                if let Some(estimate) = estimate {
                    record.add(&estimate, question.now_ms, question.wait_s);
                }
            }
        }
        result
    }
}

/// What a rule says that is one number.
fn one(wait_s: f64) -> Option<WaitEstimate> {
    WaitEstimate::new(std::iter::once(wait_s))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use crate::sim::Shape;

    const HOUR: i64 = 3_600_000;

    /// One node; a job of all of it every 50 min that runs an hour if it is of Ann, and 30 min if it is of Ben: the queue grows and shrinks.
    fn workload(jobs: i64) -> Workload {
        let (mut workload, mut state) = (Workload::default(), 7u64);
        for at in 0..jobs {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let is_ann = (state >> 33) % 5 < 3;
            workload.push(at * 50 * 60_000, if is_ann { HOUR } else { HOUR / 2 }, Shape::whole(8));
            *workload.user.last_mut().unwrap() = u32::from(is_ann);
        }
        workload.users = vec!["ben".to_owned(), "ann".to_owned()];
        workload
    }

    fn options(questions: usize) -> StartTestOptions {
        StartTestOptions { questions, draws: 14, seed: 1 }
    }

    fn run(workload: &Workload) -> StartBacktest {
        let cluster = Cluster::of_vcs(&[("all", 1, 8)]);
        backtest(workload, &cluster, &Policy::default(), &options(300), &()).unwrap()
    }

    #[test]
    fn who_knows_users_foresees_the_queue() {
        let result = run(&workload(400));
        let of = |name: StartModel| result.models.iter().find(|of| of.name == name).unwrap();
        let [replay, rule] = [StartModel::Replay, StartModel::MovingAverage].map(of);
        assert!(
            replay.accuracy.median_abs_error_s < 1.0 && rule.accuracy.median_abs_error_s > 200.0,
            "{replay:?} {rule:?}"
        );
        assert!(result.chosen == StartModel::Replay || result.chosen == StartModel::Drawn, "{result:?}");
        assert_eq!(result, run(&workload(400)));
    }

    /// What comes after the last of the jobs asked about has no part in what was said of them.
    #[test]
    fn what_comes_later_changes_no_earlier_answer() {
        let whole = workload(400);
        let mut garbled = whole.clone();
        let schedule = sim::simulate(&whole, &Cluster::of_vcs(&[("all", 1, 8)]), &Policy::default()).unwrap();
        let now_ms = whole.submit_ms[300];
        // Runs of jobs that had not ended by then.
        for job in 0..garbled.len() {
            if schedule.end_ms(job).is_none_or(|end| end > now_ms) {
                garbled.run_ms[job] *= 3;
            }
        }
        let statements = |workload: &Workload| {
            let cluster = Cluster::of_vcs(&[("all", 1, 8)]);
            let schedule = sim::simulate(workload, &cluster, &Policy::default()).unwrap();
            let past = Past::new(workload, &cluster, &schedule);
            let questions: Vec<Question> = past.waited().into_iter().filter(|of| of.job <= 300).collect();
            let draw = |question: &Question| {
                let mut runs = PastRuns::default();
                past.learn_runs(&mut runs, 0, question.now_ms);
                past.draw(question, &runs, &Policy::default(), &options(300)).unwrap()
            };
            let drawn: Vec<Vec<f64>> = questions.iter().map(draw).collect();
            let statements = past.say(&questions, &drawn);
            statements.iter().flatten().map(|of| of.map(|of| of.at)).collect::<Vec<_>>()
        };
        assert_eq!(statements(&whole), statements(&garbled));
    }

    #[test]
    fn who_never_waits_has_nothing_to_ask() {
        let estimate =
            backtest(&workload(400), &Cluster::of_vcs(&[("all", 9, 8)]), &Policy::default(), &options(9), &());
        assert!(estimate.unwrap_err().to_string().contains("40 are needed"));
    }
}
