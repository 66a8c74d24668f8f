//! The back-test of demand: what each forecaster would have said at the beginning of each slot, refitted as time went on, held against what came.
//!
//! The slots of a series are in order. Up to the first 35 % of those before the report only teach the forecasters; from there on each forecasts
//! every slot, which teaches its calibration; on the slots between 60 % and the report one is **chosen**; everything reported is of later slots.
//! A forecaster fitted at slot s knows the slots before s (and of jobs, what had happened by its beginning) and forecasts until it is fitted
//! again. It says what persistence says until it has enough to be fitted on.
//!
//! The **ensemble** averages the models' quantiles, with the weights (in tenths) with which their calibrated ones have the least pinball loss on
//! the slots it is chosen on, and is calibrated as one: averages of calibrated quantiles would be too wide. Slots in which nothing was counted teach nothing and are not scored.
//!
//! Scores are by horizon: horizon h of a slot is of the forecast made h − 1 slots before it begins. O(models × slots × horizons). Worked example:
//! with ten-minute slots, horizon 6 of persistence for the slot from 12:50 to 13:00 is the peak from 11:50 to 12:00: one hour before.

use std::ops::Range;

use rayon::prelude::*;
use serde::Serialize;

use tracecast_analytics::time::DAY_MS;

use super::calibrate::DemandCalibrator;
use super::fan::{Bounds, Fan, LEVELS, Quantiles};
use super::forecast::structural::{Jobs, Log};
use super::forecast::{self, ForecastModel, ForecastSettings, Forecaster as _};
use super::gather::Asked;
use super::score::{DemandScore, ForecastAndTruth, Sums};
use crate::ensemble;
use crate::error::{Error, Result};
use crate::holdout::{Parts, by_slot, position};
use crate::score::pinball;
use crate::watch::{self, Watch};
use tracecast_analytics::facts::demand::{Series, Unit};

/// Share of the slots before the report after which forecasters forecast.
const PREDICT_FROM: f64 = 0.35;
/// Share after which they are chosen.
const CHOOSE_FROM: f64 = 0.6;
/// Share of all slots after which results are reported, where no day is named.
const REPORT_FROM: f64 = 0.75;
/// Horizons the ensemble is weighed on.
const WEIGHED_ON: usize = 4;
/// Slots of the fan that is shown, days.
const SHOWN_DAYS: i64 = 3;

/// What is back-tested, and where.
#[derive(Debug, Clone, PartialEq)]
pub struct DemandBacktestOptions {
    /// Models, each once; persistence is always there.
    pub models: Vec<ForecastModel>,
    /// How they are fitted.
    pub settings: ForecastSettings,
    /// Days between fits.
    pub refit_days: i64,
    /// How far a slot moves a calibrated level (see [`DemandCalibrator::new`]).
    pub adapt: f64,
    /// Days of scores that calibration keeps.
    pub window_days: i64,
    /// Slots from here on are reported, milliseconds; else the last quarter.
    pub report_from_ms: Option<i64>,
    /// Slots that begin before this are reported; else all.
    pub report_to_ms: Option<i64>,
}

impl Default for DemandBacktestOptions {
    fn default() -> Self {
        Self {
            models: ForecastModel::ALL.to_vec(),
            settings: ForecastSettings::default(),
            refit_days: 7,
            adapt: 0.005,
            window_days: 14,
            report_from_ms: None,
            report_to_ms: None,
        }
    }
}

/// Some slots by time.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct DemandSpan {
    /// Slots in it.
    pub slots: usize,
    /// Beginning of the first, milliseconds since the Unix epoch.
    pub from_ms: i64,
    /// End of the last.
    pub to_ms: i64,
}

/// Scores of one horizon.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct AtHorizon {
    /// Slots ahead, from 1.
    pub horizon: usize,
    /// From the forecast to the end of the slot, seconds.
    pub ahead_s: f64,
    /// The score.
    #[serde(flatten)]
    pub score: DemandScore,
}

/// How a model did.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct DemandModelScore {
    /// Name.
    pub name: String,
    /// Over all horizons together.
    #[serde(flatten)]
    pub score: DemandScore,
    /// Its mean pinball loss over persistence's; below 1 is better.
    pub of_persistence: f64,
    /// The same on the slots it was chosen on, a mean over horizons.
    pub choice_loss: f64,
    /// Horizon by horizon.
    pub by_horizon: Vec<AtHorizon>,
}

/// What an ensemble is made of.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct DemandWeight {
    /// Model.
    pub model: ForecastModel,
    /// Its weight; they add up to 1.
    pub weight: f64,
}

/// A model that could not be fitted, and why.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct LeftOut {
    /// Model.
    pub model: ForecastModel,
    /// Why.
    pub why: String,
}

/// A slot of the fan that is shown.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Shown {
    /// Beginning of the slot, milliseconds since the Unix epoch.
    pub time_ms: i64,
    /// What came; `None` if it was not counted.
    pub truth: Option<f64>,
    /// What was said, in the order of the levels.
    pub quantiles: Vec<f64>,
}

/// The back-test of one series.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct DemandBacktest {
    /// Of what.
    pub name: String,
    /// What is counted.
    pub unit: Unit,
    /// Slots that only taught, forecasters or their calibration.
    pub taught: DemandSpan,
    /// Slots the model was chosen on.
    pub chosen_on: DemandSpan,
    /// Slots reported.
    pub reported: DemandSpan,
    /// Of the slots reported, those in which nothing was counted, and that are not scored.
    pub unscored: usize,
    /// Mean peak of the slots reported.
    pub mean_peak: f64,
    /// Fits made, of each model.
    pub fits: usize,
    /// Models, then the ensemble.
    pub models: Vec<DemandModelScore>,
    /// Models that could not be fitted.
    pub left_out: Vec<LeftOut>,
    /// The model of least loss on the slots it was chosen on.
    pub chosen: String,
    /// What the ensemble is made of.
    pub ensemble: Vec<DemandWeight>,
    /// Horizon of the fan that is shown.
    pub shown_horizon: usize,
    /// What the chosen one said of the last days reported.
    pub shown: Vec<Shown>,
}

/// What one model would have said, slot by slot.
#[derive(Debug, Clone)]
pub struct DemandTrack {
    /// Name.
    pub name: String,
    /// The model; `None` of the ensemble.
    pub model: Option<ForecastModel>,
    /// As said by the model, from slot [`DemandTracks::first`] on.
    pub raw: Vec<Fan>,
    /// As calibrated.
    pub fans: Vec<Fan>,
    /// Calibration after the last slot.
    pub calibrator: DemandCalibrator,
}

/// What all models would have said.
#[derive(Debug)]
pub struct DemandTracks {
    /// First slot forecast.
    pub first: usize,
    /// First slot to choose on.
    pub choose: usize,
    /// First slot reported.
    pub report: usize,
    /// First slot after those reported.
    pub end: usize,
    /// One a model, then the ensemble.
    pub tracks: Vec<DemandTrack>,
    /// Models that could not be fitted.
    pub left_out: Vec<LeftOut>,
    /// Fits made, of each model.
    pub fits: usize,
    /// What the ensemble is made of.
    pub ensemble: Vec<DemandWeight>,
}

/// Where the parts of a series begin: forecasts, choice, report, and where it ends.
fn parts(series: &Series, options: &DemandBacktestOptions) -> Result<Parts> {
    let count = series.slots.len();
    let at = |ms: i64| {
        let slots = (ms - series.start_ms).max(0).unsigned_abs().div_ceil(series.slot_ms.max(1).unsigned_abs());
        usize::try_from(slots).unwrap_or(count).min(count)
    };
    let report = options.report_from_ms.map_or(position(REPORT_FROM, count), at);
    let end = options.report_to_ms.map_or(count, at);
    let first = position(PREDICT_FROM, report);
    let choose = position(CHOOSE_FROM, report);
    let few = first < 2 * options.settings.horizon.max(1) || end <= report;
    if few {
        return Err(Error::TooFew(format!(
            "{}: {count} slots, {report} of them before the report and {} in it, are too few to teach, choose and report on parts of them; name other days or a shorter slot",
            series.name,
            end.saturating_sub(report)
        )));
    }
    Ok(Parts { first, choose, report, end })
}

/// All forecasts of a series, each made with what was known then.
///
/// # Errors
/// If there are too few slots, or a learner fails.
pub fn tracks(series: &Series, jobs: Option<&Jobs>, options: &DemandBacktestOptions) -> Result<DemandTracks> {
    tracks_of(series, jobs, options, parts(series, options)?, &())
}

pub(super) fn tracks_of(
    series: &Series,
    jobs: Option<&Jobs>,
    options: &DemandBacktestOptions,
    parts: Parts,
    watch: &dyn Watch,
) -> Result<DemandTracks> {
    let step = usize::try_from(options.refit_days.max(1) * DAY_MS / series.slot_ms.max(1)).unwrap_or(usize::MAX);
    let Parts { first, choose, report, end } = parts;
    let moments = by_slot(parts, step);
    let mut models = vec![ForecastModel::Persistence];
    models.extend(options.models.iter().copied().filter(|model| *model != ForecastModel::Persistence));
    let window = usize::try_from(options.window_days.max(1) * DAY_MS / series.slot_ms.max(1)).unwrap_or(usize::MAX);
    // Fits are independent; each comes back in its place, so the number of threads changes nothing.
    let work: Vec<(ForecastModel, Range<usize>)> =
        models.iter().flat_map(|model| moments.iter().map(move |serves| (*model, serves.clone()))).collect();
    watch.more(work.len());
    let fit = |(model, serves): &(ForecastModel, Range<usize>)| {
        watch::part(watch, || said(*model, series, jobs, serves, options))
    };
    let done: Vec<Result<Vec<Fan>>> = work.par_iter().map(fit).collect();
    let mut done = done.into_iter();
    let mut fitted: Vec<(ForecastModel, Vec<Fan>)> = Vec::new();
    let mut left_out = Vec::new();
    for model in models {
        let outcomes: Vec<Result<Vec<Fan>>> = done.by_ref().take(moments.len()).collect();
        let last_failed = outcomes.last().is_some_and(Result::is_err);
        let mut raw = Vec::new();
        let mut why = None;
        for (found, serves) in outcomes.into_iter().zip(&moments) {
            match found {
                Ok(fans) => raw.extend(fans),
                Err(error @ (Error::TooFew(_) | Error::Unsuited(_))) => {
                    raw.extend(said(ForecastModel::Persistence, series, jobs, serves, options)?);
                    why = Some(error.to_string());
                }
                Err(other) => return Err(other),
            }
        }
        match why {
            Some(why) if last_failed => left_out.push(LeftOut { model, why }),
            _ => fitted.push((model, raw)),
        }
    }
    let told = |(model, raw): (ForecastModel, Vec<Fan>)| {
        let (fans, calibrator) = calibrate(series, first, &raw, model.point_is_median(), options, window);
        DemandTrack { name: model.name().to_owned(), model: Some(model), raw, fans, calibrator }
    };
    let mut tracks: Vec<DemandTrack> = fitted.into_par_iter().map(told).collect();
    let (mixed, ensemble) = weigh(series, &tracks, first, choose, report);
    if let Some(raw) = mixed {
        let (fans, calibrator) = calibrate(series, first, &raw, true, options, window);
        tracks.push(DemandTrack { name: "ensemble".to_owned(), model: None, raw, fans, calibrator });
    }
    Ok(DemandTracks { first, choose, report, end, tracks, left_out, fits: moments.len(), ensemble })
}

fn said(
    model: ForecastModel,
    series: &Series,
    jobs: Option<&Jobs>,
    serves: &Range<usize>,
    options: &DemandBacktestOptions,
) -> Result<Vec<Fan>> {
    forecast::fit(model, series.before(serves.start), jobs, &options.settings)?.forecasts(series, serves.clone())
}

/// The fans as calibrated, each from slots that had ended, and the calibration after the last.
fn calibrate(
    series: &Series,
    first: usize,
    raw: &[Fan],
    point_is_median: bool,
    options: &DemandBacktestOptions,
    window: usize,
) -> (Vec<Fan>, DemandCalibrator) {
    let horizon = options.settings.horizon.max(1);
    let mut calibrator = DemandCalibrator::new(horizon, options.adapt, window);
    let mut fans: Vec<Fan> = Vec::with_capacity(raw.len());
    for (step, fan) in raw.iter().enumerate() {
        let at = first + step;
        learn_slot(&mut calibrator, series, first, at.wrapping_sub(1), raw, &fans);
        fans.push(calibrator.moved(fan, point_is_median).within(Bounds::before(series, at)));
    }
    learn_slot(&mut calibrator, series, first, (first + raw.len()).wrapping_sub(1), raw, &fans);
    (fans, calibrator)
}

/// Teaches what became of slot `ended`, to every forecast of it that was made.
pub(super) fn learn_slot(
    calibrator: &mut DemandCalibrator,
    series: &Series,
    first: usize,
    ended: usize,
    raw: &[Fan],
    told: &[Fan],
) {
    let Some(slot) = series.slots.get(ended).filter(|slot| slot.counted) else { return };
    let Some(newest) = ended.checked_sub(first) else { return };
    for (ahead, step) in (0..=newest).rev().enumerate() {
        let Some((raw, moved)) = raw.get(step).zip(told.get(step)) else { continue };
        if ahead >= raw.horizons() {
            break;
        }
        calibrator.learn(ahead, raw, moved, slot.peak);
    }
}

/// What a track said of slot `target`, `ahead` (from 0) slots before, and what came.
fn told(series: &Series, track: &DemandTrack, first: usize, target: usize, ahead: usize) -> Option<ForecastAndTruth> {
    let slot = series.slots.get(target).filter(|slot| slot.counted)?;
    let fan = track.fans.get(target.checked_sub(ahead)?.checked_sub(first)?)?;
    Some(ForecastAndTruth { point: *fan.point.get(ahead)?, quantiles: *fan.quantiles.get(ahead)?, truth: slot.peak })
}

/// Weighs the models on the slots to choose on: starting from the best, the tenth that helps most is moved, until none does.
fn weigh(
    series: &Series,
    tracks: &[DemandTrack],
    first: usize,
    choose: usize,
    report: usize,
) -> (Option<Vec<Fan>>, Vec<DemandWeight>) {
    let horizon = tracks.first().and_then(|track| track.raw.first()).map_or(0, Fan::horizons);
    if tracks.len() < 2 || horizon == 0 {
        return (None, Vec::new());
    }
    let on: Vec<usize> = (1..=WEIGHED_ON).map(|part| (horizon * part).div_ceil(WEIGHED_ON) - 1).collect();
    let mut cases: Vec<(f64, f64, Vec<Quantiles>)> = Vec::new();
    for ahead in &on {
        let mut counted = Vec::new();
        let mut base = 0.0;
        for target in choose..report {
            let all: Option<Vec<ForecastAndTruth>> =
                tracks.iter().map(|track| told(series, track, first, target, *ahead)).collect();
            let Some(all) = all else { continue };
            let Some(truth) = all.first().map(|told| told.truth) else { continue };
            base += all.first().map_or(0.0, |told| loss(&told.quantiles, truth));
            counted.push((truth, all.into_iter().map(|told| told.quantiles).collect::<Vec<Quantiles>>()));
        }
        // Each horizon weighs the same: its losses count over persistence's.
        let scale = if base > 0.0 { counted.len() as f64 / base } else { 1.0 };
        cases.extend(counted.into_iter().map(|(truth, said)| (truth, scale, said)));
    }
    if cases.is_empty() {
        return (None, Vec::new());
    }
    let of = |tenths: &[u32]| -> f64 {
        let one = |(truth, scale, said): &(f64, f64, Vec<Quantiles>)| scale * loss(&mix(tenths, said.iter()), *truth);
        cases.iter().map(one).sum::<f64>() / cases.len() as f64
    };
    let Some(best) = ensemble::tenths(tracks.len(), of) else { return (None, Vec::new()) };
    let count = tracks.iter().map(|track| track.raw.len()).min().unwrap_or(0);
    let fan = |step: usize| -> Fan {
        let all: Vec<&Fan> = tracks.iter().filter_map(|track| track.raw.get(step)).collect();
        let quantiles: Vec<Quantiles> =
            (0..horizon).map(|ahead| mix(&best, all.iter().filter_map(|fan| fan.quantiles.get(ahead)))).collect();
        let point = quantiles.iter().map(|set| set.get(super::fan::MEDIAN).copied().unwrap_or(f64::NAN)).collect();
        Fan { point, quantiles }
    };
    let weights = tracks
        .iter()
        .zip(&best)
        .filter(|(_, weight)| **weight > 0)
        .filter_map(|(track, weight)| Some(DemandWeight { model: track.model?, weight: f64::from(*weight) / 10.0 }))
        .collect();
    (Some((0..count).map(fan).collect()), weights)
}

fn mix<'a>(tenths: &[u32], said: impl Iterator<Item = &'a Quantiles>) -> Quantiles {
    let mut mixed = [0.0; LEVELS.len()];
    for (weight, quantiles) in tenths.iter().zip(said).filter(|(weight, _)| **weight > 0) {
        for (slot, value) in mixed.iter_mut().zip(quantiles) {
            *slot += f64::from(*weight) / 10.0 * value;
        }
    }
    mixed
}

/// Mean pinball loss over the levels.
fn loss(quantiles: &Quantiles, truth: f64) -> f64 {
    quantiles.iter().zip(LEVELS).map(|(value, level)| pinball(truth, *value, level)).sum::<f64>() / LEVELS.len() as f64
}

/// Sums by horizon over the targets of a part.
fn sums(series: &Series, track: &DemandTrack, first: usize, from: usize, to: usize) -> Vec<Sums> {
    let horizon = track.raw.first().map_or(0, Fan::horizons);
    let mut sums = vec![Sums::default(); horizon];
    for (ahead, sum) in sums.iter_mut().enumerate() {
        for target in from.max(first + ahead)..to {
            if let Some(told) = told(series, track, first, target, ahead) {
                sum.add(&told);
            }
        }
    }
    sums
}

/// Model of least loss on the slots to choose on, and the loss of each: the mean over horizons of its pinball loss over persistence's.
pub(super) fn choice(series: &Series, tracks: &DemandTracks) -> Vec<f64> {
    let part = |track: &DemandTrack| -> Vec<f64> {
        let by_horizon = sums(series, track, tracks.first, tracks.choose, tracks.report);
        by_horizon.iter().map(|sum| sum.score().map_or(f64::NAN, |score| score.pinball_mean)).collect()
    };
    let base = tracks.tracks.first().map(&part).unwrap_or_default();
    let over = |losses: Vec<f64>| {
        // A horizon that persistence never missed cannot tell models apart.
        let shares: Vec<f64> =
            losses.iter().zip(&base).filter(|(_, base)| **base > 0.0).map(|(value, base)| value / base).collect();
        if shares.is_empty() { 1.0 } else { shares.iter().sum::<f64>() / shares.len() as f64 }
    };
    tracks.tracks.par_iter().map(|track| over(part(track))).collect()
}

/// Back-tests a series.
///
/// # Errors
/// As [`tracks`], or if nothing was counted in the slots reported.
pub fn run(series: &Series, jobs: Option<&Jobs>, options: &DemandBacktestOptions) -> Result<DemandBacktest> {
    summarise(series, &tracks(series, jobs, options)?)
}

/// Back-tests each series; the jobs of `log`, if there is one, are those of its VC. `watch` is told of every fit.
///
/// # Errors
/// As [`run`].
pub fn run_all(
    all: &[Series],
    log: Option<&Log>,
    vcs: &[String],
    asked: Asked,
    options: &DemandBacktestOptions,
    watch: &dyn Watch,
) -> Result<Vec<DemandBacktest>> {
    all.iter()
        .map(|series| {
            let jobs = log.map(|log| log.jobs(series, vcs, asked));
            summarise(series, &tracks_of(series, jobs.as_ref(), options, parts(series, options)?, watch)?)
        })
        .collect()
}

/// Scores what [`tracks`] gave.
///
/// # Errors
/// If nothing was counted in the slots reported.
pub fn summarise(series: &Series, found: &DemandTracks) -> Result<DemandBacktest> {
    let DemandTracks { first, choose, report, end, .. } = *found;
    let span = |from: usize, to: usize| DemandSpan {
        slots: to - from,
        from_ms: series.time_ms(from),
        to_ms: series.time_ms(to),
    };
    let losses = choice(series, found);
    let scored: Vec<Vec<Sums>> = found.tracks.par_iter().map(|track| sums(series, track, first, report, end)).collect();
    let whole = |horizon_sums: &[Sums]| {
        let mut all = Sums::default();
        horizon_sums.iter().for_each(|sum| all.merge(sum));
        all.score()
    };
    let base = scored.first().and_then(|horizon_sums| whole(horizon_sums)).map(|score| score.pinball_mean);
    let mut models = Vec::new();
    for ((track, horizon_sums), choice_loss) in found.tracks.iter().zip(&scored).zip(&losses) {
        let nothing = || Error::TooFew(format!("{}: nothing was counted in the slots to report on", series.name));
        let score = whole(horizon_sums).ok_or_else(nothing)?;
        let by_horizon = horizon_sums
            .iter()
            .enumerate()
            .filter_map(|(ahead, sum)| {
                let ahead_s = (ahead + 1) as f64 * series.slot_ms as f64 / 1000.0;
                Some(AtHorizon { horizon: ahead + 1, ahead_s, score: sum.score()? })
            })
            .collect();
        let of_persistence = base.filter(|base| *base > 0.0).map_or(1.0, |base| score.pinball_mean / base);
        models.push(DemandModelScore {
            name: track.name.clone(),
            score,
            of_persistence,
            choice_loss: *choice_loss,
            by_horizon,
        });
    }
    let best = losses.iter().enumerate().min_by(|a, b| a.1.total_cmp(b.1)).map_or(0, |(at, _)| at);
    let chosen = found.tracks.get(best).map_or_else(String::new, |track| track.name.clone());
    let horizon = found.tracks.first().and_then(|track| track.raw.first()).map_or(1, Fan::horizons);
    let shown_horizon = horizon.min(6);
    let shown_slots = usize::try_from(SHOWN_DAYS * DAY_MS / series.slot_ms.max(1)).unwrap_or(0);
    let show = |target: usize| -> Option<Shown> {
        let fan = found.tracks.get(best)?.fans.get((target + 1).checked_sub(shown_horizon)?.checked_sub(first)?)?;
        let slot = series.slots.get(target)?;
        let quantiles = fan.quantiles.get(shown_horizon - 1)?.to_vec();
        Some(Shown { time_ms: series.time_ms(target), truth: slot.counted.then_some(slot.peak), quantiles })
    };
    let part = series.slots.get(report..end).unwrap_or_default();
    let counted: Vec<f64> = part.iter().filter(|slot| slot.counted).map(|slot| slot.peak).collect();
    Ok(DemandBacktest {
        name: series.name.clone(),
        unit: series.unit,
        taught: span(0, choose),
        chosen_on: span(choose, report),
        reported: span(report, end),
        unscored: part.len() - counted.len(),
        mean_peak: counted.iter().sum::<f64>() / counted.len().max(1) as f64,
        fits: found.fits,
        models,
        left_out: found.left_out.clone(),
        chosen,
        ensemble: found.ensemble.clone(),
        shown_horizon,
        shown: (end.saturating_sub(shown_slots).max(report)..end).filter_map(show).collect(),
    })
}
