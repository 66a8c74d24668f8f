//! The back-test of duration: what each model would have said of each job when it was submitted, refitted each week on what was known then,
//! held against what the job really ran.
//!
//! The jobs are in order of submission. Models predict from the share `predict_from` (50 %) on, so that calibration has jobs to learn from; the
//! one to use is **chosen** on the jobs between `choose_from` (60 %) and `report_from` (80 %), and everything reported is of those after. A model fitted at s knows jobs that had ended at s, predicts those
//! submitted in the week from s on, and its calibration learns from each job when it ends. Only jobs that ran and ended are scored: the run of
//! one that did not is not known.
//!
//! An **ensemble** averages the quantiles of models, with the weights (in tenths) of least pinball loss on the jobs it is chosen on, and is
//! calibrated as one. Worked example: of 1,000 jobs, 1–500 only teach models, 501–600 calibration too, 601–800 choose, 801–1,000 are reported.

use rayon::prelude::*;
use serde::Serialize;
use tracecast_analytics::describe::SizeClass;
use tracecast_analytics::time::DAY_MS;

use crate::duration::calibrate::{Calibrator, Spread};
use crate::duration::forecast::{self, Model, Said, Settings};
use crate::duration::law::Law;
use crate::duration::rows::{Rows, play};
use crate::error::{Error, Result};
use crate::feature::History;
use crate::score::{Score, Scored, pinball, score};
use crate::timeline::Timeline;

/// What is back-tested, and where.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Share of jobs after which models predict: those up to `choose_from` only teach the calibration.
    pub predict_from: f64,
    /// Share of jobs after which models are chosen.
    pub choose_from: f64,
    /// Share of jobs after which results are reported.
    pub report_from: f64,
    /// Days between fits.
    pub refit_days: i64,
    /// Models, each once.
    pub models: Vec<Model>,
    /// How they are fitted.
    pub settings: Settings,
    /// How far one job moves a calibrated level (see [`Calibrator::new`]).
    pub adapt: f64,
}

impl Default for Options {
    fn default() -> Self {
        use Model::{Boosted, Qssf, RecentMedian, RunningMean, ShrunkMean, Survival, WeightedMean};
        Self {
            predict_from: 0.5,
            choose_from: 0.6,
            report_from: 0.8,
            refit_days: 7,
            models: vec![RunningMean, WeightedMean, ShrunkMean, RecentMedian, Qssf, Survival, Boosted],
            settings: Settings::default(),
            adapt: 8.0,
        }
    }
}

/// How a model did.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct ModelScore {
    /// Name.
    pub name: String,
    /// On the jobs reported.
    #[serde(flatten)]
    pub score: Score,
    /// Mean of its three pinball losses over those of `running_mean` on the jobs it was chosen on.
    pub choice_loss: f64,
    /// On the jobs reported, by size.
    pub by_size: Vec<Part>,
    /// On the jobs reported, by what was known of their like.
    pub by_history: Vec<Part>,
}

/// A score of some of the jobs.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Part {
    /// Which jobs.
    pub class: String,
    /// Their score.
    #[serde(flatten)]
    pub score: Score,
}

/// What an ensemble is made of.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Weight {
    /// Model.
    pub model: Model,
    /// Its weight; they add up to 1.
    pub weight: f64,
}

/// Some jobs by time.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Span {
    /// Jobs submitted in it.
    pub jobs: usize,
    /// First submission, milliseconds since the Unix epoch.
    pub from_ms: i64,
    /// Last submission.
    pub to_ms: i64,
}

/// A back-test.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Backtest {
    /// Jobs that only taught.
    pub taught: Span,
    /// Jobs the model was chosen on.
    pub chosen_on: Span,
    /// Jobs reported.
    pub reported: Span,
    /// Of the jobs reported, those that never ran or never ended, and are not scored.
    pub unscored: usize,
    /// Fits made.
    pub fits: usize,
    /// Models, in the order asked for, then the ensemble.
    pub models: Vec<ModelScore>,
    /// The model of least loss on the jobs it was chosen on.
    pub chosen: String,
    /// What the ensemble is made of.
    pub ensemble: Vec<Weight>,
}

/// What a model would have said of each job, on the log scale; `None` before its first fit.
#[derive(Debug, Clone)]
pub struct Track {
    /// Name.
    pub name: String,
    /// Point and spread, a job each.
    pub said: Vec<Option<Said>>,
    /// Calibrated law, for models that are calibrated.
    pub laws: Vec<Option<Law>>,
}

impl Track {
    fn scored(&self, at: usize, y: f64) -> Option<Scored> {
        let said = self.said.get(at).copied().flatten()?;
        Some(match self.laws.get(at).copied().flatten() {
            Some(law) => Scored { y, point: said.point, quantiles: law.scored() },
            None => Scored { y, point: said.point, quantiles: said.quantiles },
        })
    }
}

/// Predictions of all models for all jobs from the first fit on, each made with what was known then.
#[derive(Debug)]
pub struct Tracks {
    /// The jobs.
    pub rows: Rows,
    /// One a model, then the ensemble.
    pub tracks: Vec<Track>,
    /// Fits made.
    pub fits: usize,
    /// What the ensemble is made of.
    pub ensemble: Vec<Weight>,
}

/// Position of a share of n jobs.
fn position(share: f64, jobs: usize) -> usize {
    ((jobs as f64 * share) as usize).min(jobs)
}

/// Predicts all jobs from the share `predict_from` on; the ensemble is weighed on those up to `report_from`.
///
/// # Errors
/// If too few jobs have ended before the first fit, or a learner fails.
pub fn tracks(timeline: &Timeline, options: &Options) -> Result<Tracks> {
    let (rows, _) = play(timeline);
    let count = rows.rows.len();
    let first = position(options.predict_from, count);
    let choose = position(options.choose_from, count);
    let report = position(options.report_from, count);
    if first == 0 || choose < first || report <= choose || report >= count {
        return Err(Error::TooFew(format!("{count} jobs are too few to teach, choose and report on parts of them")));
    }
    let moments = fits(&rows, first, options.refit_days.max(1) * DAY_MS);
    let mut tracks: Vec<Track> = Vec::new();
    for model in &options.models {
        tracks.push(track(*model, &rows, &moments, options)?);
    }
    let (ensemble, weights) = weigh(&rows, &tracks, options, choose, report);
    if let Some(mut track) = ensemble {
        calibrate(&rows, &mut track, first, options.adapt);
        tracks.push(track);
    }
    Ok(Tracks { rows, tracks, fits: moments.len(), ensemble: weights })
}

/// Jobs that must have ended before the first fit of [`track_between`].
const LEAST: usize = 500;

/// Predictions of one model for the jobs submitted from `from_ms` on and before `to_ms`, refitted as often as `options` says, with the jobs of
/// up to two weeks before for calibration.
///
/// # Errors
/// If too few jobs have ended before `to_ms`, or a learner fails.
pub fn track_between(model: Model, rows: &Rows, from_ms: i64, to_ms: i64, options: &Options) -> Result<Track> {
    let step_ms = options.refit_days.max(1) * DAY_MS;
    let mut ends: Vec<i64> = rows.rows.iter().filter_map(|row| row.end_ms.filter(|_| row.y.is_some())).collect();
    ends.sort_unstable();
    let begin_ms = ends.get(LEAST).copied().unwrap_or(from_ms).max(from_ms - 14 * DAY_MS);
    let first = rows.rows.partition_point(|row| row.submit_ms <= begin_ms);
    let until = rows.rows.partition_point(|row| row.submit_ms < to_ms);
    let mut moments = fits(rows, first, step_ms);
    moments.retain(|(_, from, _)| *from < until);
    track(model, rows, &moments, options)
}

fn track(model: Model, rows: &Rows, moments: &[(i64, usize, usize)], options: &Options) -> Result<Track> {
    let count = rows.rows.len();
    let mut said: Vec<Option<Said>> = vec![None; count];
    let part = |(now_ms, from, to): &(i64, usize, usize)| -> Result<Vec<(usize, Said)>> {
        let which: Vec<u32> = (*from..*to).map(|at| at as u32).collect();
        let fitted = forecast::fit(model, rows, *now_ms, &options.settings)?;
        Ok((*from..*to).zip(fitted.say(rows, &which)?).collect())
    };
    // Fits are independent; each comes back in its place, so the number of threads changes nothing.
    let parts: Vec<Result<Vec<(usize, Said)>>> = moments.par_iter().map(part).collect();
    for found in parts {
        for (at, own) in found? {
            if let Some(slot) = said.get_mut(at) {
                *slot = Some(own);
            }
        }
    }
    let mut track = Track { name: model.name().to_owned(), said, laws: vec![None; count] };
    if model == Model::Boosted {
        let first = moments.first().map_or(count, |(_, from, _)| *from);
        calibrate(rows, &mut track, first, options.adapt);
    }
    Ok(track)
}

/// Moments of fits, and the jobs each serves.
fn fits(rows: &Rows, first: usize, step_ms: i64) -> Vec<(i64, usize, usize)> {
    let mut moments = Vec::new();
    let mut from = first;
    let Some(mut now_ms) = rows.rows.get(first).map(|row| row.submit_ms) else { return moments };
    while from < rows.rows.len() {
        let to = rows.rows.partition_point(|row| row.submit_ms < now_ms + step_ms);
        if to > from {
            moments.push((now_ms, from, to));
        }
        from = to;
        now_ms += step_ms;
    }
    moments
}

/// Fills the laws of a track: each from the jobs that had ended when it was submitted. Gives the calibrator as it is after the last end.
pub(crate) fn calibrate(rows: &Rows, track: &mut Track, first: usize, adapt: f64) -> Calibrator {
    let mut ends: Vec<(i64, usize)> = rows
        .rows
        .iter()
        .enumerate()
        .skip(first)
        .filter_map(|(at, row)| Some((row.end_ms?, at)).filter(|_| row.y.is_some()))
        .collect();
    ends.sort_unstable();
    let mut calibrator = Calibrator::new(adapt);
    let mut ended = ends.into_iter().peekable();
    let learn = |calibrator: &mut Calibrator, track: &Track, other: usize| {
        let said = track.said.get(other).copied().flatten();
        let law = track.laws.get(other).copied().flatten();
        let row = rows.rows.get(other);
        if let (Some(said), Some(law), Some((class, y))) = (said, law, row.and_then(|row| Some((row.class, row.y?)))) {
            calibrator.learn(class, said.spread, &law, y);
        }
    };
    for (at, row) in rows.rows.iter().enumerate().skip(first) {
        while let Some((_, other)) = ended.next_if(|(end, other)| *end <= row.submit_ms && *other < at) {
            learn(&mut calibrator, track, other);
        }
        if let (Some(said), Some(slot)) = (track.said.get(at).copied().flatten(), track.laws.get_mut(at)) {
            *slot = Some(calibrator.law(row.class, said.spread));
        }
    }
    for (_, other) in ended {
        learn(&mut calibrator, track, other);
    }
    calibrator
}

/// Weighs the models on the jobs from `first` to `report`: starting from the best, the tenth that helps most is moved, until none does.
fn weigh(
    rows: &Rows,
    tracks: &[Track],
    options: &Options,
    first: usize,
    report: usize,
) -> (Option<Track>, Vec<Weight>) {
    let members: Vec<(Model, &Track)> = options.models.iter().copied().zip(tracks).collect();
    // What had ended when the choice is made.
    let now_ms = rows.rows.get(report).map_or(i64::MAX, |row| row.submit_ms);
    let jobs: Vec<(usize, f64)> = (first..report)
        .filter_map(|at| {
            let row = rows.rows.get(at)?;
            Some((at, row.y.filter(|_| row.end_ms.is_some_and(|end| end <= now_ms))?))
        })
        .collect();
    if members.len() < 2 || jobs.is_empty() {
        return (None, Vec::new());
    }
    let three = |track: &Track, at: usize| {
        let said = track.said.get(at).copied().flatten();
        said.map(|said| [said.spread.low, said.spread.middle, said.spread.high].map(f64::from))
    };
    let table: Vec<Vec<[f64; 3]>> = members
        .iter()
        .map(|(_, track)| jobs.iter().map(|(at, _)| three(track, *at).unwrap_or([f64::NAN; 3])).collect())
        .collect();
    let loss_of = |tenths: &[u32]| -> f64 {
        let one = |(ix, (_, y)): (usize, &(usize, f64))| {
            let mut mixed = [0.0; 3];
            for (weight, member) in tenths.iter().zip(&table).filter(|(weight, _)| **weight > 0) {
                for (slot, value) in mixed.iter_mut().zip(member.get(ix).copied().unwrap_or([f64::NAN; 3])) {
                    *slot += f64::from(*weight) / 10.0 * value;
                }
            }
            let [low, middle, high] = mixed;
            [pinball(*y, low, 0.1), pinball(*y, middle, 0.5), pinball(*y, high, 0.9)].iter().sum::<f64>()
        };
        jobs.iter().enumerate().map(one).sum::<f64>() / jobs.len() as f64
    };
    let pure =
        |member: usize| (0..members.len()).map(|other| if other == member { 10 } else { 0 }).collect::<Vec<u32>>();
    let Some(mut best) = (0..members.len()).map(pure).min_by(|a, b| loss_of(a).total_cmp(&loss_of(b))) else {
        return (None, Vec::new());
    };
    let mut least = loss_of(&best);
    loop {
        let moves: Vec<Vec<u32>> = (0..members.len())
            .flat_map(|from| (0..members.len()).map(move |to| (from, to)))
            .filter(|(from, to)| from != to && best.get(*from).is_some_and(|weight| *weight > 0))
            .map(|(from, to)| {
                let mut moved = best.clone();
                if let Some(weight) = moved.get_mut(from) {
                    *weight -= 1;
                }
                if let Some(weight) = moved.get_mut(to) {
                    *weight += 1;
                }
                moved
            })
            .collect();
        let losses: Vec<f64> = moves.par_iter().map(|moved| loss_of(moved)).collect();
        let found = moves.into_iter().zip(losses).min_by(|a, b| a.1.total_cmp(&b.1));
        match found {
            Some((moved, loss)) if loss < least - 1e-9 => {
                least = loss;
                best = moved;
            }
            _ => break,
        }
    }
    let weights: Vec<(f64, &Track)> =
        best.iter().map(|weight| f64::from(*weight) / 10.0).zip(tracks).filter(|(weight, _)| *weight > 0.0).collect();
    let mix = |at: usize| -> Option<Said> {
        let (mut point, mut mixed, mut quantiles) = (0.0, [0.0f64; 3], [0.0f64; 5]);
        for (weight, track) in &weights {
            let said = track.said.get(at).copied().flatten()?;
            point += weight * said.point;
            for (slot, value) in mixed.iter_mut().zip([said.spread.low, said.spread.middle, said.spread.high]) {
                *slot += weight * f64::from(value);
            }
            for (slot, value) in quantiles.iter_mut().zip(said.quantiles) {
                *slot += weight * value;
            }
        }
        let [low, middle, high] = mixed.map(|value| value as f32);
        Some(Said { point, spread: Spread::of(low, middle, high), quantiles })
    };
    let said: Vec<Option<Said>> = (0..rows.rows.len()).map(mix).collect();
    let made_of = members
        .iter()
        .zip(&best)
        .filter(|(_, weight)| **weight > 0)
        .map(|((model, _), weight)| Weight { model: *model, weight: f64::from(*weight) / 10.0 })
        .collect();
    let laws = vec![None; rows.rows.len()];
    (Some(Track { name: "ensemble".to_owned(), said, laws }), made_of)
}

/// Runs the back-test.
///
/// # Errors
/// As [`tracks`].
pub fn run(timeline: &Timeline, options: &Options) -> Result<Backtest> {
    let tracks = tracks(timeline, options)?;
    summarise(&tracks, options)
}

/// Scores what [`tracks`] gave.
///
/// # Errors
/// If no job that is reported ever ended.
pub fn summarise(found: &Tracks, options: &Options) -> Result<Backtest> {
    let rows = &found.rows.rows;
    let (first, report) = (position(options.choose_from, rows.len()), position(options.report_from, rows.len()));
    let known = |from: usize, to: usize| {
        (from..to).filter_map(|at| Some((at, rows.get(at)?.y?))).collect::<Vec<(usize, f64)>>()
    };
    let span = |from: usize, to: usize| Span {
        jobs: to - from,
        from_ms: rows.get(from).map_or(0, |row| row.submit_ms),
        to_ms: rows.get(to.saturating_sub(1)).map_or(0, |row| row.submit_ms),
    };
    let now_ms = rows.get(report).map_or(i64::MAX, |row| row.submit_ms);
    let choice: Vec<(usize, f64)> = known(first, report)
        .into_iter()
        .filter(|(at, _)| rows.get(*at).and_then(|row| row.end_ms).is_some_and(|end| end <= now_ms))
        .collect();
    let reported = known(report, rows.len());
    let scored = |track: &Track, which: &[(usize, f64)]| -> Vec<Scored> {
        which.iter().filter_map(|(at, y)| track.scored(*at, *y)).collect()
    };
    let base = found.tracks.iter().find(|track| track.name == Model::RunningMean.name()).or(found.tracks.first());
    let base = base.and_then(|track| score(&scored(track, &choice))).map(|score| score.pinball);
    let mut models = Vec::new();
    for track in &found.tracks {
        let nothing = || Error::TooFew("no job to report on ran and ended".to_owned());
        let own = score(&scored(track, &reported)).ok_or_else(nothing)?;
        let chosen = score(&scored(track, &choice)).map(|score| score.pinball);
        let choice_loss = match (base, chosen) {
            (Some(base), Some(own)) => (own.p10 / base.p10 + own.p50 / base.p50 + own.p90 / base.p90) / 3.0,
            _ => f64::NAN,
        };
        let part = |name: &str, keep: &dyn Fn(usize) -> bool| {
            let which: Vec<(usize, f64)> = reported.iter().copied().filter(|(at, _)| keep(*at)).collect();
            Some(Part { class: name.to_owned(), score: score(&scored(track, &which))? })
        };
        let class = |at: usize| rows.get(at).map(|row| row.class);
        let by_size = SizeClass::ALL
            .into_iter()
            .filter_map(|size| part(size.name(), &|at| class(at).is_some_and(|class| class.size == size)))
            .collect();
        let by_history = History::ALL
            .into_iter()
            .filter_map(|history| part(history.name(), &|at| class(at).is_some_and(|class| class.history == history)))
            .collect();
        models.push(ModelScore { name: track.name.clone(), score: own, choice_loss, by_size, by_history });
    }
    let chosen = models
        .iter()
        .min_by(|a, b| a.choice_loss.total_cmp(&b.choice_loss))
        .map_or_else(String::new, |model| model.name.clone());
    Ok(Backtest {
        taught: span(0, first),
        chosen_on: span(first, report),
        reported: span(report, rows.len()),
        unscored: rows.len() - report - reported.len(),
        fits: found.fits,
        models,
        chosen,
        ensemble: found.ensemble.clone(),
    })
}
