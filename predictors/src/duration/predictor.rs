//! A trained predictor of durations: boosted trees, their calibration, and the history they look at, in one file (`file`); it learns from events.
//!
//! Training plays the whole trace, calibrates on what models fitted earlier would have said of its last 30 % (and up to two weeks before) (no job is calibrated on by a model
//! that learned from it), and fits the trees once more on all that ended. On the same 30 % it is seen whether the trees may be used: if their intervals did
//! not hold, they were worse than the running mean, or a simple rule that passes has less loss, that one is used. If none passes, if the intervals did not hold on the later half of these jobs,
//! or if the record has jobs of fewer than ten days, what is predicted is marked `unsure`. A job that has been submitted can be asked about again at an age.
//!
//! Worked example: trained on 1,000 jobs, `model predict duration` for a job of a user with ten
//! like jobs of about 100 s gives a median near 100 s; after
//! `observe` of an eleventh that ran 1,000 s it gives more.

mod file;
mod trial;

use std::collections::{HashMap, VecDeque};

use serde::{Deserialize, Serialize};
use tracecast_analytics::facts::SizeClass;
use tracecast_analytics::time::within_reach;

use super::calibrate::{About, Calibrator, Class, Spread};
use super::distribution::Distribution;
use super::forecast::{self, Model, Plain, Quartet, Settings};
use super::rows::{Rows, play};
use crate::duration::backtest::{self, BacktestOptions};
use crate::error::{Error, Result};
use crate::feature::{Past, Store, log_limit, log_run};
use crate::job::{Event, Prediction, Submission};
use crate::matrix::Matrix;
use crate::model::boosted::FittedTrees;
use crate::timeline::Timeline;
use tracecast_analytics::watch::Watch;
use trial::{Chosen, Trial, trial};
pub use trial::{PastRun, predict_past};

/// Rows kept to train on again.
const KEPT: usize = 50_000;
/// Open jobs remembered, some 2 KB each: beyond, the tenth that have been open longest are forgotten.
const MOST_OPEN: usize = 200_000;

/// Times below this many milliseconds (1973) are likely seconds.
const SECONDS_BELOW: i64 = 100_000_000_000;
/// Record that a predictor was trained on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trained {
    /// Jobs that had ended.
    pub jobs: usize,
    /// First submission, milliseconds since the Unix epoch.
    pub from_ms: i64,
    /// Last event.
    pub to_ms: i64,
    /// GPUs of the cluster, if its record says.
    #[serde(default)]
    pub cluster_gpus: Option<f64>,
    /// Settings the trees were grown with.
    pub settings: Settings,
    /// The model whose intervals held and which was no worse than the running mean on the last part of the jobs, before it was fitted to all; the best
    /// simple rule if there was none.
    #[serde(default = "trees")]
    pub model: Model,
    /// Whether such a model was found, its intervals held on the later half of these jobs, too, and
    /// the record is long enough to trust them.
    #[serde(default)]
    pub held: bool,
    /// The simple rule of least loss on these jobs, and the loss of the model over that rule's.
    #[serde(default)]
    pub beside: Option<(Model, f64)>,
    /// Days that the record tells of.
    #[serde(default)]
    pub record_days: Option<f64>,
    /// Level of the quantile by which its predictions ordered those jobs best: `predicted_duration_s`.
    #[serde(default)]
    pub ranked_at: f64,
}

/// Default model, for files of the first version.
fn trees() -> Model {
    Model::Boosted
}

/// An open job that the predictor was told of.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Open {
    number: u64,
    submit_ms: i64,
    about: About,
    past: Past,
    said: Option<(Spread, Distribution)>,
    /// Features of the job, learned from once it ends.
    #[serde(with = "bits")]
    row: Vec<f32>,
}

/// A row to train on again.
#[derive(Debug, Clone, Default)]
struct Kept {
    y: f32,
    row: Vec<f32>,
}

/// Numbers by their bits: JSON has no NaN.
mod bits {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(row: &[f32], to: S) -> Result<S::Ok, S::Error> {
        row.iter().map(|value| value.to_bits()).collect::<Vec<u32>>().serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<f32>, D::Error> {
        Ok(Vec::<u32>::deserialize(from)?.into_iter().map(f32::from_bits).collect())
    }
}

/// State that events change.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct State {
    trained: Trained,
    columns: Vec<u32>,
    store: Store,
    /// The model used instead of the trees, where their intervals did not hold or it was the better one.
    plain: Option<Plain>,
    /// Codes of users, by which the calibration knows them.
    #[serde(with = "crate::feature::pairs")]
    users: HashMap<String, u32>,
    calibrator: Calibrator,
    #[serde(with = "crate::feature::pairs")]
    open: HashMap<String, Open>,
    /// Ended jobs to learn from; stored in a section of the file of their own.
    #[serde(skip)]
    kept: VecDeque<Kept>,
    ended_since: u64,
    /// Last event it was told of, milliseconds.
    last_ms: i64,
}

/// A trained predictor.
#[derive(Debug, Clone)]
pub struct Predictor {
    state: State,
    trees: FittedTrees,
}

/// Prediction for a job.
#[derive(Debug, Clone, Copy)]
pub struct Foretold {
    /// Mean log run.
    pub point: f64,
    /// Quantiles the model predicted.
    pub spread: Spread,
    /// The calibrated distribution.
    pub distribution: Distribution,
    /// Whether too few jobs have ended to calibrate it.
    pub short: bool,
}

/// Trees trained again, to be taken up by [`Predictor::adopt`].
#[derive(Debug)]
pub struct Retrained {
    quartet: Quartet,
    trained: Trained,
    seen: u64,
}

impl Predictor {
    /// Trains on all of a timeline.
    ///
    /// # Errors
    /// If too few jobs have ended, or the learner fails.
    pub fn train(timeline: &Timeline, options: &BacktestOptions) -> Result<Self> {
        Self::train_watched(timeline, options, &())
    }

    /// Trains a predictor as [`Predictor::train`] does, reporting progress to `watch`.
    ///
    /// # Errors
    /// Errors of [`Predictor::train`].
    pub fn train_watched(timeline: &Timeline, options: &BacktestOptions, watch: &dyn Watch) -> Result<Self> {
        Ok(Self::train_on(timeline, options, false, watch)?.0)
    }

    /// Trains as [`Self::train_watched`] does, and gives the runs of the later half of the record as they
    /// were predicted at submission.
    ///
    /// # Errors
    /// Errors of [`Self::train`].
    pub fn train_with_past(
        timeline: &Timeline,
        options: &BacktestOptions,
        watch: &dyn Watch,
    ) -> Result<(Self, Vec<PastRun>)> {
        Self::train_on(timeline, options, true, watch)
    }

    fn train_on(
        timeline: &Timeline,
        options: &BacktestOptions,
        past: bool,
        watch: &dyn Watch,
    ) -> Result<(Self, Vec<PastRun>)> {
        // The last fit, of all that ended.
        watch.more(1);
        let settings = options.settings;
        let Trial { rows, store, to_ms, aside, chosen, past } = trial(timeline, options, past, watch)?;
        let Chosen { model, held, ranked_at, beside, calibrator } = chosen;
        let lesson = rows.lesson(to_ms.saturating_add(1), false, settings.most_rows);
        let record_days = backtest::record_days(&rows.rows);
        let plain = match model {
            Model::Boosted => None,
            plain => forecast::fit(plain, &rows, to_ms.saturating_add(1), &settings)?.plain(plain),
        };
        let quartet = forecast::fit(Model::Boosted, &rows, to_ms.saturating_add(1), &settings)?
            .quartet()
            .ok_or_else(|| Error::Defect("boosted trees were asked for".to_owned()))?;
        watch.made();
        let trained = Trained {
            jobs: lesson.rows.len(),
            from_ms: rows.rows.first().map_or(0, |row| row.submit_ms),
            to_ms,
            cluster_gpus: timeline.cluster_gpus,
            settings,
            model,
            held: held && record_days >= backtest::ENOUGH_DAYS,
            beside,
            record_days: Some(record_days),
            ranked_at,
        };
        let mut users = HashMap::new();
        for (job, row) in timeline.jobs.iter().zip(&rows.rows) {
            if let (Some(user), Some(code)) = (&job.submission.user, row.user) {
                users.entry(user.clone()).or_insert(code);
            }
        }
        let kept = kept_rows(&rows, &lesson.rows);
        let open = open_jobs(timeline, &rows, aside, model.knows_limits());
        let Quartet { columns, trees } = quartet;
        let state =
            State { trained, columns, store, plain, users, calibrator, open, kept, ended_since: 0, last_ms: to_ms };
        let mut predictor = Self { state, trees };
        predictor.say_open()?;
        Ok((predictor, past))
    }

    /// Says what was to be said of the jobs that are open, so that their ends teach the calibration.
    fn say_open(&mut self) -> Result<()> {
        let mut ids: Vec<String> = self.state.open.keys().cloned().collect();
        ids.sort_unstable();
        let request: Vec<Submission> =
            ids.iter().map(|id| Submission { job_id: id.clone(), ..Submission::default() }).collect();
        for (id, foretold) in ids.iter().zip(self.distributions(&request, None)?) {
            let Some(open) = self.state.open.get_mut(id) else { continue };
            open.said = Some((foretold.spread, foretold.distribution));
            let (number, about) = (open.number, open.about);
            self.state.calibrator.watch(number, about, foretold.spread, foretold.distribution);
            if let Some(start_ms) = self.state.store.started(number) {
                self.state.calibrator.started(number, start_ms);
            }
        }
        Ok(())
    }

    /// Last event it was told of, milliseconds since the Unix epoch.
    pub fn last_ms(&self) -> i64 {
        self.state.last_ms
    }

    /// Record that the predictor was trained on.
    pub fn trained(&self) -> &Trained {
        &self.state.trained
    }

    /// Jobs that ended since it was trained.
    pub fn ended_since_training(&self) -> u64 {
        self.state.ended_since
    }

    /// Jobs it knows to be open.
    pub fn open(&self) -> usize {
        self.state.open.len()
    }

    /// Features used, and the share of what the splits gained each has, most first.
    pub fn importance(&self) -> Vec<(String, f64)> {
        let names = self.state.store.columns();
        let gains = self.trees.gains();
        let all: f64 = gains.iter().map(|(_, gain)| gain).sum();
        let name = |feature: u32| {
            let column = self.state.columns.get(feature as usize).copied().unwrap_or(u32::MAX);
            names.get(column as usize).cloned().unwrap_or_default()
        };
        gains.into_iter().map(|(feature, gain)| (name(feature), gain / all.max(f64::MIN_POSITIVE))).collect()
    }

    /// Predicts jobs as of `now_ms`, or as of the submission of each.
    ///
    /// # Errors
    /// If the learner refuses the features.
    pub fn predict(&self, jobs: &[Submission], now_ms: Option<i64>) -> Result<Vec<Prediction>> {
        let distributions = self.distributions(jobs, now_ms)?.into_iter();
        Ok(distributions
            .zip(jobs)
            .map(|(foretold, job)| self.prediction(job, &foretold.distribution, foretold.short))
            .collect())
    }

    /// Prediction made from a distribution of this predictor.
    pub(crate) fn prediction(&self, job: &Submission, distribution: &Distribution, short: bool) -> Prediction {
        Prediction {
            job_id: job.job_id.clone(),
            mean_s: distribution.mean_s(),
            p05_s: distribution.quantile_s(0.05),
            p10_s: distribution.quantile_s(0.1),
            p50_s: distribution.quantile_s(0.5),
            p90_s: distribution.quantile_s(0.9),
            p95_s: distribution.quantile_s(0.95),
            predicted_duration_s: distribution.quantile_s(self.state.trained.ranked_at),
            unsure: short || !self.state.trained.held,
        }
    }

    /// Whether distributions are capped by time limits.
    fn capped(&self) -> bool {
        self.state.store.known().limit && self.state.plain.is_none_or(|plain| plain.model.knows_limits())
    }

    /// Facts of the job that its calibration depends on.
    fn about(&self, store: &Store, job: &Submission) -> About {
        let class = Class { size: SizeClass::new(job.gpus), history: store.history(job) };
        let user = job.user.as_ref().and_then(|user| self.state.users.get(user).copied());
        About { class, user, log_limit: log_limit(job).filter(|_| self.capped()) }
    }

    /// Distributions predicted for jobs.
    ///
    /// # Errors
    /// Errors of [`Predictor::predict`].
    pub fn distributions(&self, jobs: &[Submission], now_ms: Option<i64>) -> Result<Vec<Foretold>> {
        Ok(self.laws_from(&self.state.store, jobs, now_ms))
    }

    /// Distributions for jobs as of the last submission in `timeline`. A record that goes on until
    /// the last job has ended shows a cluster at rest in the end, which is no moment at which jobs
    /// are submitted: whoever has many jobs running looks like somebody who has none. Where
    /// `timeline` is not what the predictor was trained on, or it has learned since, it is as of
    /// the last event.
    ///
    /// # Errors
    /// Errors of [`Predictor::predict`].
    pub(crate) fn laws_as_last_submitted(&self, timeline: &Timeline, jobs: &[Submission]) -> Result<Vec<Foretold>> {
        let state = &self.state;
        let submits = || timeline.jobs.iter().map(|job| job.submission.submit_ms);
        let same = state.ended_since == 0 && submits().min() == Some(state.trained.from_ms);
        let last_ms = submits().max().filter(|last| same && *last < state.last_ms);
        if let Some(last_ms) = last_ms
            && let Ok(part) = timeline.clone().until(last_ms)
        {
            let (_, store) = play(&part);
            if store.columns() == state.store.columns() {
                return Ok(self.laws_from(&store, jobs, Some(last_ms)));
            }
        }
        self.distributions(jobs, Some(state.last_ms))
    }

    fn laws_from(&self, store: &Store, jobs: &[Submission], now_ms: Option<i64>) -> Vec<Foretold> {
        let state = &self.state;
        let mut all = vec![f32::NAN; store.width()];
        let mut part = Matrix::new(state.columns.len());
        let mut known = Vec::with_capacity(jobs.len());
        for job in jobs {
            // Of a job that it was told of, what was known when it was submitted: the store holds the job itself by now.
            if let Some(open) = state.open.get(&job.job_id) {
                for (cell, column) in part.push().iter_mut().zip(&state.columns) {
                    *cell = open.row.get(*column as usize).copied().unwrap_or(f32::NAN);
                }
                known.push((open.about, open.past));
                continue;
            }
            store.features(job, now_ms.unwrap_or(job.submit_ms), &mut all);
            for (cell, column) in part.push().iter_mut().zip(&state.columns) {
                *cell = all.get(*column as usize).copied().unwrap_or(f32::NAN);
            }
            let past = if state.plain.is_some() { store.past(job) } else { Past::default() };
            known.push((self.about(store, job), past));
        }
        self.say(&part, &known)
    }

    fn say(&self, part: &Matrix, known: &[(About, Past)]) -> Vec<Foretold> {
        let foretold = |point: f64, spread: Spread, about: &About| {
            let told = self.state.calibrator.distribution(about, spread);
            Foretold { point, spread, distribution: told.distribution, short: told.short }
        };
        if let Some(plain) = &self.state.plain {
            let of_past = |(about, past): &(About, Past)| {
                let said = plain.say(past);
                foretold(said.point, said.spread, about)
            };
            return known.iter().map(of_past).collect();
        }
        let said = forecast::said(&self.trees, part).into_iter().zip(known);
        said.map(|((point, spread), (about, _))| foretold(point, spread, about)).collect()
    }

    /// The distribution of the whole run of a job that has run since its start, as of `now_ms`; `None` if it is not known to run.
    pub fn law_of_running(&self, job_id: &str, now_ms: i64) -> Option<Distribution> {
        let open = self.state.open.get(job_id)?;
        let start = self.state.store.started(open.number)?;
        Some(open.said?.1.given_age(now_ms.saturating_sub(start).max(0) as f64 / 1000.0))
    }

    /// Bounds what the predictor remembers of users, names and groups from now on
    /// ([`Store::bound`]); of open jobs it always is.
    pub fn bound(&mut self) {
        self.state.store.bound();
    }

    /// Learns an event; an error says why it is refused, and nothing has changed then.
    ///
    /// # Errors
    /// If the job is unknown or known already, or the event comes before its submission or start.
    pub fn observe(&mut self, event: &Event) -> std::result::Result<(), String> {
        let (Event::Submitted(Submission { submit_ms: time_ms, .. })
        | Event::Started { time_ms, .. }
        | Event::Ended { time_ms, .. }) = event;
        // Seconds where milliseconds belong are a moment of 1970; only traces without true times have jobs there.
        let in_seconds = *time_ms < SECONDS_BELOW && self.state.trained.from_ms >= SECONDS_BELOW;
        if within_reach(*time_ms).is_none() || in_seconds {
            return Err(format!("{time_ms} ms is no time of such a job; write milliseconds since 1970"));
        }
        match event {
            Event::Submitted(job) => self.submitted(job),
            Event::Started { job_id, time_ms } => {
                let open = self.state.open.get(job_id).ok_or_else(|| unknown(job_id))?;
                if *time_ms < open.submit_ms {
                    return Err(format!("job {job_id} would start before its submission"));
                }
                let number = open.number;
                if !self.state.store.start(number, *time_ms) {
                    return Err(format!("job {job_id} has started already"));
                }
                self.state.calibrator.advance(*time_ms);
                self.state.calibrator.started(number, *time_ms);
                Ok(())
            }
            Event::Ended { job_id, time_ms, run_s, failed } => {
                self.ended(job_id, *time_ms, *run_s, failed.unwrap_or(false))
            }
        }
    }

    fn submitted(&mut self, job: &Submission) -> std::result::Result<(), String> {
        if self.state.open.contains_key(&job.job_id) {
            return Err(format!("job {} is known already", job.job_id));
        }
        if !(0.0..=1e6).contains(&job.gpus) {
            return Err(format!("job {} asks for {} GPUs", job.job_id, job.gpus));
        }
        let amount = |value: Option<f64>| value.is_none_or(|value| (0.0..=1e12).contains(&value));
        if !amount(job.cpus) || !amount(job.limit_s) {
            return Err(format!("job {} asks for an impossible number of CPUs or time limit", job.job_id));
        }
        let mut row = vec![f32::NAN; self.state.store.width()];
        self.state.store.features(job, job.submit_ms, &mut row);
        self.state.calibrator.advance(job.submit_ms);
        let (about, past) = (self.about(&self.state.store, job), self.state.store.past(job));
        let said =
            self.distributions(std::slice::from_ref(job), None).map_err(|error| error.to_string())?.first().copied();
        if self.state.open.len() >= MOST_OPEN {
            self.forget_oldest();
        }
        let number = self.state.store.submit(job);
        let said = said.map(|foretold| (foretold.spread, foretold.distribution));
        if let Some((spread, distribution)) = said {
            self.state.calibrator.watch(number, about, spread, distribution);
        }
        let open = Open { number, submit_ms: job.submit_ms, about, past, said, row };
        self.state.open.insert(job.job_id.clone(), open);
        Ok(())
    }

    /// Forgets the jobs that have been open longest, a tenth of all: the ends of so many were never told.
    fn forget_oldest(&mut self) {
        let mut numbers: Vec<u64> = self.state.open.values().map(|open| open.number).collect();
        numbers.sort_unstable();
        let Some(from) = numbers.get(numbers.len() / 10).copied() else { return };
        for number in numbers.into_iter().take_while(|number| *number < from) {
            self.state.store.end(number, self.state.last_ms, None, false);
            self.state.calibrator.ended(number, self.state.last_ms, None);
        }
        self.state.open.retain(|_, open| open.number >= from);
    }

    fn ended(
        &mut self,
        job_id: &str,
        time_ms: i64,
        run_s: Option<f64>,
        failed: bool,
    ) -> std::result::Result<(), String> {
        let open = self.state.open.get(job_id).ok_or_else(|| unknown(job_id))?;
        let start = self.state.store.started(open.number);
        if time_ms < start.unwrap_or(open.submit_ms) {
            return Err(format!("job {job_id} would end before it began"));
        }
        if let Some(run) = run_s.filter(|run| !(0.0..=1e10).contains(run)) {
            return Err(format!("job {job_id} would have run {run} s"));
        }
        // A job that never started has no run, whatever time passed.
        let run_s = run_s.or_else(|| start.map(|start| (time_ms - start) as f64 / 1000.0));
        let Some(open) = self.state.open.remove(job_id) else { return Err(unknown(job_id)) };
        self.state.store.end(open.number, time_ms, run_s, failed);
        self.state.calibrator.advance(time_ms);
        self.state.calibrator.ended(open.number, open.submit_ms, run_s.map(log_run));
        let Some(y) = run_s.map(log_run) else { return Ok(()) };
        if self.state.kept.len() == KEPT {
            self.state.kept.pop_front();
        }
        self.state.kept.push_back(Kept { y: y as f32, row: open.row });
        self.state.ended_since += 1;
        self.state.last_ms = self.state.last_ms.max(time_ms);
        Ok(())
    }

    /// Returns a closure that trains the predictor again, to be run on another thread.
    pub fn trainer(&self) -> impl FnOnce() -> Result<Retrained> + Send + use<> {
        let kept: Vec<Kept> = self.state.kept.iter().cloned().collect();
        let width = self.state.store.width();
        let (mut trained, seen) = (self.state.trained.clone(), self.state.ended_since);
        trained.to_ms = self.state.last_ms;
        move || {
            let mut features = Matrix::new(width);
            let mut labels = Vec::with_capacity(kept.len());
            for example in &kept {
                for (cell, value) in features.push().iter_mut().zip(&example.row) {
                    *cell = *value;
                }
                labels.push(example.y);
            }
            let quartet = forecast::quartet(&features, &labels, &trained.settings)?;
            trained.jobs = labels.len();
            Ok(Retrained { quartet, trained, seen })
        }
    }

    /// Takes up trees trained again; what was learned meanwhile stays.
    pub fn adopt(&mut self, retrained: Retrained) {
        let Retrained { quartet: Quartet { columns, trees }, trained, seen } = retrained;
        self.state.trained = trained;
        self.state.columns = columns;
        self.state.ended_since = self.state.ended_since.saturating_sub(seen);
        self.trees = trees;
    }
}

fn unknown(job_id: &str) -> String {
    format!("job {job_id} is not known to be open; post its submission first")
}

fn kept_rows(rows: &Rows, which: &[u32]) -> VecDeque<Kept> {
    let keep = |at: &u32| {
        let y = rows.rows.get(*at as usize)?.y? as f32;
        Some(Kept { y, row: rows.features.row(*at as usize).to_vec() })
    };
    which.iter().skip(which.len().saturating_sub(KEPT)).filter_map(keep).collect()
}

/// Jobs that had not ended when the trace did, with their features by row: their ends may still be told.
fn open_jobs(timeline: &Timeline, rows: &Rows, aside: HashMap<usize, Vec<f32>>, capped: bool) -> HashMap<String, Open> {
    // The store numbers jobs in the order in which they were played, which is that of the rows.
    let entry = |(at, features): (usize, Vec<f32>)| {
        let (job, row) = timeline.jobs.get(at).zip(rows.rows.get(at))?;
        let about = row.about();
        let about = About { log_limit: about.log_limit.filter(|_| capped), ..about };
        let (number, submit_ms, past) = (at as u64, row.submit_ms, row.past);
        Some((job.submission.job_id.clone(), Open { number, submit_ms, about, past, said: None, row: features }))
    };
    // Of jobs of one name the last.
    let mut aside: Vec<(usize, Vec<f32>)> = aside.into_iter().collect();
    aside.sort_unstable_by_key(|(at, _)| *at);
    aside.into_iter().filter_map(entry).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests;
