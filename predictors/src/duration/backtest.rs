//! The back-test of duration: what each model would have said of each job when it was submitted, refitted each week on what was known then,
//! held against what the job really ran.
//!
//! The jobs are in order of submission. Models predict from the share `predict_from` (50 %; 20 % where fewer than 10,000 jobs lie between it and
//! `choose_from`) on, so that calibration has jobs to learn from; the one to use is **chosen** on the jobs between `choose_from` (60 %) and `report_from` (80 %), and everything reported is of those after. A model fitted at s knows jobs that had ended at s, predicts those
//! submitted in the week from s on, and its calibration learns from each job when it ends. Only jobs that ran and ended are scored: the run of
//! one that did not is not known.
//!
//! Every model but the quoted limit is **calibrated** the same way, so that intervals are compared with intervals. To be chosen, a model's 80 and 90 %
//! intervals must have held no less than 80 and 90 % of the runs it is chosen on, but for 5 points and what chance allows so few jobs, and its pinball losses at 50 and
//! 90 % must not be above the running mean's; of those left, the one of least loss is chosen. What holds only because little
//! history makes it wide is not counted as holding. If none is left it is the best simple rule.
//!
//! The **best simple rule** is the one of least loss on the jobs to choose on, of those for which no learner is fitted. It stands beside the model.
//!
//! Whether intervals **held** is decided by the jobs reported, not by those the model was chosen on: `held` is true if they held there as they had to where
//! it was chosen, and if the record has jobs of at least ten days.
//!
//! An **ensemble** averages the quantiles of models, with the weights (in tenths) of least pinball loss on the jobs it is chosen on, and is
//! calibrated as one. Worked example: of 1,000 jobs, 1–500 only teach models, 501–600 calibration too, 601–800 choose, 801–1,000 are reported.

use std::ops::Range;

use rayon::prelude::*;
use serde::Serialize;
use tracecast_analytics::facts::SizeClass;
use tracecast_analytics::time::DAY_MS;

use crate::duration::calibrate::{About, Calibrator, Spread};
pub use crate::duration::choice::Refusal;
use crate::duration::choice::{holds, loss_over, ranked_at, refusal};
use crate::duration::forecast::{self, Model, Said};
use crate::duration::moments::{first_predicted, moments_between, step_between, submissions};
pub use crate::duration::options::BacktestOptions;
use crate::duration::order;
use crate::duration::rows::{Row, Rows, play};
pub use crate::duration::track::Track;
use crate::ensemble;
use crate::error::{Error, Result};
use crate::feature::History;
use crate::holdout::{Refit, by_time, position};
use crate::score::{Score, Scored, pinball, score};
use crate::timeline::{DrawnWaits, Timeline};
use tracecast_analytics::watch::Watch;

/// Scores of one model.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct ModelScore {
    /// Name.
    pub name: String,
    /// Score on the jobs reported.
    #[serde(flatten)]
    pub score: Score,
    /// Mean of its three pinball losses over those of `running_mean` on the jobs it was chosen on; the least of the simple
    /// rules is the best of them.
    #[schemars(with = "Option<f64>")]
    pub choice_loss: f64,
    /// Share of runs within the 80 % interval on the jobs it was chosen on.
    #[schemars(with = "Option<f64>")]
    pub choice_coverage80: f64,
    /// Share of runs within the 90 % interval on the jobs it was chosen on.
    #[schemars(with = "Option<f64>")]
    pub choice_coverage90: f64,
    /// Why it could not be chosen.
    pub refused: Option<Refusal>,
    /// Reported jobs whose interval is wide because too few jobs had ended to calibrate it.
    pub short_history: usize,
    /// Share of the jobs reported that have a time limit and whose 90 % quantile is beyond it; `None` where none has one.
    pub p90_beyond_limit: Option<f64>,
    /// Scores on the jobs reported, by size.
    pub by_size: Vec<Part>,
    /// Scores on the jobs reported, by the amount of history of jobs like them.
    pub by_history: Vec<Part>,
}

/// A score of some of the jobs.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Part {
    /// Class of the jobs.
    pub class: String,
    /// Score on these jobs.
    #[serde(flatten)]
    pub score: Score,
}

/// A member of the ensemble and its weight.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Weight {
    /// Model.
    pub model: Model,
    /// Weight of the member; weights add up to 1.
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
    /// Reported jobs that never ran or never ended, which are not scored.
    pub unscored: usize,
    /// Fits made.
    pub fits: usize,
    /// Models, in the order asked for, then the ensemble.
    pub models: Vec<ModelScore>,
    /// The model of least loss on the jobs it was chosen on, of those whose intervals held there; the best simple rule if none did.
    pub chosen: String,
    /// The simple rule of least loss on the same jobs: of the models without a learner, the one to compare with.
    pub simple: String,
    /// Whether the intervals of the chosen model can be relied upon: they held on the jobs it was
    /// chosen on and on those reported, and the record is not [too short](ENOUGH_DAYS).
    pub held: bool,
    /// Whether a model's intervals held on the jobs to choose on.
    pub held_when_chosen: bool,
    /// Days that the record tells of: from the first submission to the last, or the days with submissions where these are fewer.
    pub record_days: f64,
    /// Level of the quantile by which jobs are best ordered, chosen on the same jobs for the model chosen.
    pub ranked_at: f64,
    /// Members of the ensemble.
    pub ensemble: Vec<Weight>,
}

/// Days of a record below which no interval is trusted: it has seen one weekend at most, and one burst may be most of it.
pub const ENOUGH_DAYS: f64 = 10.0;

/// Days that rows tell of: from the first submission to the last, or the days (of 24 h from the first on) with submissions where these are fewer.
pub(crate) fn record_days(rows: &[Row]) -> f64 {
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return 0.0 };
    let mut days: Vec<i64> = rows.iter().map(|row| (row.submit_ms - first.submit_ms).div_euclid(DAY_MS)).collect();
    days.dedup();
    ((last.submit_ms - first.submit_ms) as f64 / DAY_MS as f64).min(days.len() as f64)
}

/// Predictions of all models for all jobs from the first fit on, each made with what was known then.
#[derive(Debug)]
pub struct Tracks {
    /// The jobs.
    pub rows: Rows,
    /// Track of each model, then of the ensemble.
    pub tracks: Vec<Track>,
    /// Fits made.
    pub fits: usize,
    /// Members of the ensemble.
    pub ensemble: Vec<Weight>,
}

/// Predicts all jobs from the share `predict_from` on; the ensemble is weighed on those up to `report_from`.
///
/// # Errors
/// If too few jobs have ended before the first fit, or a learner fails.
pub fn tracks(timeline: &Timeline, options: &BacktestOptions) -> Result<Tracks> {
    tracks_watched(timeline, options, &())
}

/// Predicts all jobs as [`tracks`] does, reporting progress to `watch`.
///
/// # Errors
/// Errors of [`tracks`].
pub fn tracks_watched(timeline: &Timeline, options: &BacktestOptions, watch: &dyn Watch) -> Result<Tracks> {
    let (rows, _) = play(timeline);
    let count = rows.rows.len();
    let first = first_predicted(&rows, options);
    let choose = position(options.choose_from, count);
    let report = position(options.report_from, count);
    if first == 0 || choose < first || report <= choose || report >= count {
        return Err(Error::TooFew(format!("{count} jobs are too few to teach, choose and report on parts of them")));
    }
    let moments = by_time(&submissions(&rows.rows), first, step_between(&rows.rows, first..count, options));
    let mut tracks: Vec<Track> = Vec::new();
    watch.more(moments.len() * options.models.iter().filter(|model| model.learns()).count());
    for model in options.models.iter().filter(|model| timeline.known.limit || !model.needs_limits()) {
        tracks.push(said_by(*model, &rows, &moments, options, watch)?);
    }
    let (ensemble, weights) = weigh(&rows, &tracks, choose, report);
    tracks.extend(ensemble);
    // Tracks are independent of each other.
    tracks.par_iter_mut().filter(|track| !track.model.is_some_and(Model::is_quote)).for_each(|track| {
        calibrate(&rows, track, first, options.adapt);
    });
    Ok(Tracks { rows, tracks, fits: moments.len(), ensemble: weights })
}

/// Predictions of one model for the jobs submitted from `from_ms` on and before `to_ms`, refitted as often as `options` says, with the jobs of
/// up to two weeks before for calibration.
///
/// # Errors
/// If too few jobs have ended before `to_ms`, or a learner fails.
pub fn track_between(model: Model, rows: &Rows, from_ms: i64, to_ms: i64, options: &BacktestOptions) -> Result<Track> {
    let moments = moments_between(&rows.rows, (from_ms, to_ms), options);
    let mut track = said_by(model, rows, &moments, options, &())?;
    if !model.is_quote() {
        let first = moments.first().map_or(rows.rows.len(), |refit| refit.serves.start);
        calibrate(rows, &mut track, first, options.adapt);
    }
    Ok(track)
}

/// Track of one model, not calibrated.
pub(crate) fn said_by(
    model: Model,
    rows: &Rows,
    moments: &[Refit],
    options: &BacktestOptions,
    watch: &dyn Watch,
) -> Result<Track> {
    let mut said: Vec<Option<Said>> = vec![None; rows.rows.len()];
    put(&mut said, &predictions(model, rows, moments, options, watch)?);
    Ok(Track::new(Some(model), said))
}

/// Predictions of one model for the rows that each fit serves; `rows` must hold their features, and
/// those of the rows each fit learns from.
pub(crate) fn predictions(
    model: Model,
    rows: &Rows,
    moments: &[Refit],
    options: &BacktestOptions,
    watch: &dyn Watch,
) -> Result<Vec<(Range<usize>, Vec<Said>)>> {
    let part = |refit: &Refit| -> Result<(Range<usize>, Vec<Said>)> {
        let which: Vec<u32> = refit.serves.clone().map(|at| at as u32).collect();
        let said = forecast::fit(model, rows, refit.now_ms, &options.settings)?.say(rows, &which)?;
        if model.learns() {
            watch.made();
        }
        Ok((refit.serves.clone(), said))
    };
    // Fits are independent; each comes back in its place, so the number of threads changes nothing.
    let parts: Vec<Result<(Range<usize>, Vec<Said>)>> = moments.par_iter().map(part).collect();
    parts.into_iter().collect()
}

/// Puts what was said of rows in their places.
pub(crate) fn put(said: &mut [Option<Said>], parts: &[(Range<usize>, Vec<Said>)]) {
    for (serves, told) in parts {
        for (slot, told) in said.get_mut(serves.clone()).unwrap_or_default().iter_mut().zip(told) {
            *slot = Some(*told);
        }
    }
}

/// Fills the distributions of a track: each from what had ended, and how long the others had run, when it was submitted. Gives the calibrator as it is after
/// the last end; it knows jobs by their rows.
pub(crate) fn calibrate(rows: &Rows, track: &mut Track, first: usize, adapt: f64) -> Calibrator {
    // What happens to each job: its start, then its end.
    let mut happened: Vec<(i64, usize, bool)> = Vec::with_capacity(2 * rows.rows.len());
    for (at, row) in rows.rows.iter().enumerate() {
        happened.extend(row.start_ms.filter(|_| at >= first).map(|start| (start, at, false)));
        happened.extend(row.end_ms.map(|end| (end, at, true)));
    }
    happened.sort_unstable();
    let mut calibrator = Calibrator::new(adapt);
    let mut happened = happened.into_iter().peekable();
    let blind = track.model.is_some_and(|model| !model.knows_limits());
    let about = |row: &Row| {
        let about = row.about();
        About { log_limit: about.log_limit.filter(|_| !blind), ..about }
    };
    let tell = |calibrator: &mut Calibrator, (time_ms, at, ended): (i64, usize, bool)| {
        calibrator.advance(time_ms);
        if ended {
            let row = rows.rows.get(at);
            calibrator.ended(at as u64, row.map_or(time_ms, |row| row.submit_ms), row.and_then(|row| row.y));
        } else {
            calibrator.started(at as u64, time_ms);
        }
    };
    for (at, row) in rows.rows.iter().enumerate().skip(first) {
        while let Some(event) = happened.next_if(|(time, other, _)| *time <= row.submit_ms && *other < at) {
            tell(&mut calibrator, event);
        }
        calibrator.advance(row.submit_ms);
        if let (Some(said), Some(slot)) = (track.said.get(at).copied().flatten(), track.distributions.get_mut(at)) {
            let calibrated = calibrator.distribution(&about(row), said.spread);
            calibrator.watch(at as u64, about(row), said.spread, calibrated.distribution);
            *slot = Some(calibrated.distribution);
            if let Some(slot) = track.short.get_mut(at) {
                *slot = calibrated.short;
            }
        }
    }
    for event in happened {
        tell(&mut calibrator, event);
    }
    calibrator
}

/// Weighs the models on the jobs from `first` to `report`: starting from the best, the tenth that helps most is moved, until none does.
fn weigh(rows: &Rows, tracks: &[Track], first: usize, report: usize) -> (Option<Track>, Vec<Weight>) {
    let tracks: Vec<&Track> = tracks.iter().filter(|track| !track.model.is_some_and(Model::is_quote)).collect();
    let members: Vec<(Model, &Track)> = tracks.iter().filter_map(|track| Some((track.model?, *track))).collect();
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
    let Some(best) = ensemble::tenths(members.len(), loss_of) else { return (None, Vec::new()) };
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
    (Some(Track::new(None, said)), made_of)
}

/// A model's scores where waits are drawn in place of assumed starts.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct UnderDrawnWaits {
    /// Waits that were drawn.
    #[serde(flatten)]
    pub waits: DrawnWaits,
    /// Scores of the best simple rule, and of the chosen model, or of the best member of a chosen
    /// ensemble.
    pub models: Vec<ModelScore>,
}

/// Assumed starts from which share of the jobs on the scores are shown under drawn waits, too.
const MOSTLY_ASSUMED: f64 = 0.1;

/// The scores of the model chosen, and of the best simple rule, if waits are drawn in place of assumed starts (see [`Timeline::with_drawn_waits`]); `None`
/// where fewer than a tenth of the starts are assumed, or too few are recorded to draw from. Of an ensemble, the best of its members stands in.
///
/// # Errors
/// Errors of [`tracks`].
pub fn under_drawn_waits(
    timeline: &Timeline,
    options: &BacktestOptions,
    result: &Backtest,
) -> Result<Option<UnderDrawnWaits>> {
    if (timeline.assumed_starts as f64) < MOSTLY_ASSUMED * timeline.jobs.len() as f64 {
        return Ok(None);
    }
    let Some((later, waits)) = timeline.with_drawn_waits(options.settings.trees.seed) else { return Ok(None) };
    let most = result.ensemble.iter().max_by(|a, b| a.weight.total_cmp(&b.weight)).map(|member| member.model);
    let called = |name: &str| Model::ALL.into_iter().find(|model| model.name() == name);
    let mut shown = vec![called(&result.simple).unwrap_or(Model::RunningMean)];
    shown.extend(called(&result.chosen).or(most).filter(|model| !shown.contains(model)));
    // All losses are shares of its.
    let mut models = shown.clone();
    models.extend((!shown.contains(&Model::RunningMean)).then_some(Model::RunningMean));
    let again = run(&later, &BacktestOptions { models, ..options.clone() })?.models;
    let of = |model: &Model| again.iter().find(|score| score.name == model.name()).cloned();
    Ok(Some(UnderDrawnWaits { waits, models: shown.iter().filter_map(of).collect() }))
}

/// Runs the back-test.
///
/// # Errors
/// Errors of [`tracks`].
pub fn run(timeline: &Timeline, options: &BacktestOptions) -> Result<Backtest> {
    let tracks = tracks(timeline, options)?;
    summarise(&tracks, options)
}

/// Scores what [`tracks`] gave.
///
/// # Errors
/// If no job that is reported ever ended.
pub fn summarise(result: &Tracks, options: &BacktestOptions) -> Result<Backtest> {
    let rows = &result.rows.rows;
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
    let base = result.tracks.iter().find(|track| track.model == Some(Model::RunningMean)).or(result.tracks.first());
    let base = base.and_then(|track| score(&scored(track, &choice))).map(|score| score.pinball);
    let mut models = Vec::new();
    for track in &result.tracks {
        let nothing = || Error::TooFew("no job to report on ran and ended".to_owned());
        let reported_score = score(&scored(track, &reported)).ok_or_else(nothing)?;
        let chosen = score(&scored(track, &choice));
        let choice_loss = match (base, chosen.as_ref().map(|score| score.pinball)) {
            (Some(base), Some(pinball)) => loss_over(pinball, base),
            _ => f64::NAN,
        };
        let refused = match (&chosen, base) {
            _ if track.model.is_some_and(Model::is_quote) => Some(Refusal::NoInterval),
            (Some(judged), Some(base)) => refusal(judged, base, track.mostly_short(&choice)),
            _ => Some(Refusal::Coverage),
        };
        let short_history = reported.iter().filter(|(at, _)| track.short.get(*at).copied().unwrap_or(false)).count();
        let p90_beyond_limit = beyond_limit(rows, track, &reported);
        let coverage = |of: fn(&Score) -> f64| chosen.as_ref().map_or(f64::NAN, of);
        let (choice_coverage80, choice_coverage90) =
            (coverage(|score| score.coverage80), coverage(|score| score.coverage90));
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
        models.push(ModelScore {
            name: track.name.clone(),
            score: reported_score,
            choice_loss,
            choice_coverage80,
            choice_coverage90,
            refused,
            short_history,
            p90_beyond_limit,
            by_size,
            by_history,
        });
    }
    let fit = models.iter().filter(|model| model.refused.is_none());
    let best = fit.min_by(|a, b| a.choice_loss.total_cmp(&b.choice_loss)).map(|model| model.name.clone());
    let held_when_chosen = best.is_some();
    let is_simple = |name: &str| result.tracks.iter().any(|track| track.name == name && track.is_simple());
    let simple = models.iter().filter(|model| is_simple(&model.name));
    let simple = simple.min_by(|a, b| a.choice_loss.total_cmp(&b.choice_loss)).or(models.first());
    let simple = simple.map_or_else(String::new, |model| model.name.clone());
    let chosen = best.unwrap_or_else(|| simple.clone());
    let ranked = result.tracks.iter().find(|track| track.name == chosen);
    let ranked_at = ranked.map_or(order::USUAL, |track| ranked_at(rows, track, &choice));
    let later = models.iter().find(|model| model.name == chosen).map(|model| &model.score);
    let short = ranked.is_some_and(|track| track.mostly_short(&reported));
    let record_days = record_days(rows);
    let held = held_when_chosen && later.is_some_and(holds) && !short && record_days >= ENOUGH_DAYS;
    Ok(Backtest {
        taught: span(0, first),
        chosen_on: span(first, report),
        reported: span(report, rows.len()),
        unscored: rows.len() - report - reported.len(),
        fits: result.fits,
        models,
        chosen,
        simple,
        held,
        held_when_chosen,
        record_days,
        ranked_at,
        ensemble: result.ensemble.clone(),
    })
}

/// Share of jobs with a limit whose 90 % quantile is beyond it, by more than a thousandth.
fn beyond_limit(rows: &[Row], track: &Track, which: &[(usize, f64)]) -> Option<f64> {
    let (mut beyond, mut all) = (0u32, 0u32);
    for (at, y) in which {
        let (Some(limit), Some(scored)) = (rows.get(*at).and_then(|row| row.past.log_limit), track.scored(*at, *y))
        else {
            continue;
        };
        let [_, _, _, p90, _] = scored.quantiles;
        all += 1;
        beyond += u32::from(p90 > limit + 1e-3);
    }
    (all > 0).then(|| f64::from(beyond) / f64::from(all))
}
