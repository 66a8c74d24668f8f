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
//! Scores are by horizon: horizon h of a slot is of the forecast made h − 1 slots before it begins. O(models × slots × horizons). Memory: calibrated forecasts
//! are scored as they are made and then forgotten, unless a caller wants them; what models said is held for the ensemble, one number for each level and horizon
//! of a slot, or one for all levels where a model states one number. Worked example:
//! with ten-minute slots, horizon 6 of persistence for the slot from 12:50 to 13:00 is the peak from 11:50 to 12:00: one hour before.

use std::collections::VecDeque;
use std::ops::Range;

use rayon::prelude::*;
use serde::Serialize;

use tracecast_analytics::time::DAY_MS;

use super::calibrate::DemandCalibrator;
use super::fan::{Bounds, Fan, LEVELS, Quantiles};
use super::forecast::structural::{Jobs, Log};
use super::forecast::{self, ForecastModel, ForecastSettings, Forecaster as _};
use super::gather::Asked;
use super::peaks::{self, NamedFans, PeakBacktest};
use super::score::{DemandScore, ForecastAndTruth, Sums};
use crate::ensemble;
use crate::error::{Error, Result};
use crate::holdout::{Parts, by_slot, position};
use crate::score::pinball;
use tracecast_analytics::facts::demand::{Series, Unit};
use tracecast_analytics::watch::{self, Watch};

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

/// Models and periods of a back-test of demand.
#[derive(Debug, Clone, PartialEq)]
pub struct DemandBacktestOptions {
    /// Models, each once; persistence is always there.
    pub models: Vec<ForecastModel>,
    /// Settings the models are fitted with.
    pub settings: ForecastSettings,
    /// Days between fits.
    pub refit_days: i64,
    /// Step by which each slot moves a calibrated level (see [`DemandCalibrator::new`]).
    pub adapt: f64,
    /// Days of scores that calibration keeps.
    pub window_days: i64,
    /// Slots from here on are reported, milliseconds; else the last quarter.
    pub report_from_ms: Option<i64>,
    /// Slots that begin before this are reported; else all.
    pub report_to_ms: Option<i64>,
    /// Whether the most of the next slots is tested, too.
    pub peaks: bool,
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
            peaks: false,
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
    /// Time from the forecast to the end of the slot, seconds.
    pub ahead_s: f64,
    /// The score.
    #[serde(flatten)]
    pub score: DemandScore,
}

/// Scores of one model.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct DemandModelScore {
    /// Name.
    pub name: String,
    /// Over all horizons together.
    #[serde(flatten)]
    pub score: DemandScore,
    /// Mean pinball loss divided by persistence's; below 1 is better.
    pub of_persistence: f64,
    /// Loss divided by persistence's on the slots the model was chosen on, a mean over horizons.
    pub choice_loss: f64,
    /// Horizon by horizon.
    pub by_horizon: Vec<AtHorizon>,
}

/// A member of the ensemble and its weight.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct DemandWeight {
    /// Model.
    pub model: ForecastModel,
    /// Weight of the member; weights add up to 1.
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
    /// Observed count; `None` if nothing was counted.
    pub truth: Option<f64>,
    /// Forecast quantiles, in the order of the levels.
    pub quantiles: Vec<f64>,
}

/// The back-test of one series.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct DemandBacktest {
    /// Name of the series.
    pub name: String,
    /// Unit that demand is counted in.
    pub unit: Unit,
    /// Slots that only taught, forecasters or their calibration.
    pub taught: DemandSpan,
    /// Slots the model was chosen on.
    pub chosen_on: DemandSpan,
    /// Slots reported.
    pub reported: DemandSpan,
    /// Reported slots in which nothing was counted, which are not scored.
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
    /// Members of the ensemble.
    pub ensemble: Vec<DemandWeight>,
    /// Horizon of the fan that is shown.
    pub shown_horizon: usize,
    /// Forecasts of the chosen model for the last days reported.
    pub shown: Vec<Shown>,
    /// The most of the next slots; absent where it was not asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peaks: Option<PeakBacktest>,
}

/// Forecasts of one model, slot by slot.
#[derive(Debug, Clone)]
pub struct DemandTrack {
    /// Name.
    pub name: String,
    /// The model; `None` of the ensemble.
    pub model: Option<ForecastModel>,
    /// Calibrated forecasts from slot [`DemandTracks::first`] on, where they were to be kept ([`tracks`]).
    pub fans: Vec<Fan>,
    /// Calibration after the last slot.
    pub calibrator: DemandCalibrator,
    /// Sums by horizon over the slots to choose on, and over those reported.
    chosen_on: Vec<Sums>,
    reported: Vec<Sums>,
    /// Calibrated quantiles of each slot to choose on, for each horizon that the ensemble is weighed on.
    weighed: Vec<Vec<Option<Quantiles>>>,
    /// Forecasts of the last days reported.
    shown: Vec<Shown>,
}

/// A forecast as a model made it; where all levels are one number, that number alone.
#[derive(Debug, Clone)]
enum Raw {
    Points(Vec<f64>),
    Fan(Fan),
}

impl From<Fan> for Raw {
    fn from(fan: Fan) -> Self {
        let is_point =
            |(point, levels): (&f64, &Quantiles)| levels.iter().all(|value| value.to_bits() == point.to_bits());
        let all = fan.point.len() == fan.quantiles.len() && fan.point.iter().zip(&fan.quantiles).all(is_point);
        if all { Self::Points(fan.point) } else { Self::Fan(fan) }
    }
}

impl Raw {
    fn fan(&self) -> Fan {
        match self {
            Self::Points(points) => Fan::of_points(points.clone()),
            Self::Fan(fan) => fan.clone(),
        }
    }
}

/// The newest forecasts, as a model made them and as calibrated: as many as have horizons that are not over.
#[derive(Debug, Default)]
pub(super) struct Recent(VecDeque<(Fan, Fan)>);

impl Recent {
    /// Adds the forecast made before the next slot.
    pub(super) fn push(&mut self, raw: Fan, told: Fan) {
        if self.0.len() >= raw.horizons().max(1) {
            self.0.pop_front();
        }
        self.0.push_back((raw, told));
    }

    /// Teaches what became of the slot that ended, before which the newest forecast was made: to every forecast of it.
    pub(super) fn teach(&self, calibrator: &mut DemandCalibrator, series: &Series, ended: Option<usize>) {
        let Some(slot) = ended.and_then(|ended| series.slots.get(ended)).filter(|slot| slot.counted) else { return };
        for (ahead, (raw, told)) in
            self.0.iter().rev().enumerate().take_while(|(ahead, (raw, _))| *ahead < raw.horizons())
        {
            calibrator.learn(ahead, raw, told, slot.peak);
        }
    }
}

/// Forecasts of all models.
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
    /// Track of each model, then of the ensemble.
    pub tracks: Vec<DemandTrack>,
    /// Models that could not be fitted.
    pub left_out: Vec<LeftOut>,
    /// Fits made, of each model.
    pub fits: usize,
    /// Members of the ensemble.
    pub ensemble: Vec<DemandWeight>,
}

/// First slots of the parts of a series (forecasts, choice, report), and its end.
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
    tracks_of(series, jobs, options, parts(series, options)?, true, &())
}

/// Slots between two fits.
fn refit_slots(series: &Series, options: &DemandBacktestOptions) -> usize {
    usize::try_from(options.refit_days.max(1) * DAY_MS / series.slot_ms.max(1)).unwrap_or(usize::MAX)
}

/// Makes all forecasts of a series within `parts`; calibrated forecasts are kept if `keep`.
pub(super) fn tracks_of(
    series: &Series,
    jobs: Option<&Jobs>,
    options: &DemandBacktestOptions,
    parts: Parts,
    keep: bool,
    watch: &dyn Watch,
) -> Result<DemandTracks> {
    let step = refit_slots(series, options);
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
    let done: Vec<Result<Vec<Raw>>> = work.par_iter().map(fit).collect();
    let mut done = done.into_iter();
    let mut fitted: Vec<(ForecastModel, Vec<Raw>)> = Vec::new();
    let mut left_out = Vec::new();
    for model in models {
        let outcomes: Vec<Result<Vec<Raw>>> = done.by_ref().take(moments.len()).collect();
        let last_failed = outcomes.last().is_some_and(Result::is_err);
        let mut raw = Vec::new();
        let mut why = None;
        for (result, serves) in outcomes.into_iter().zip(&moments) {
            match result {
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
    let horizon = options.settings.horizon.max(1);
    let tracking = Tracking { series, parts, options, window, horizon, keep };
    let told = |(model, raw): &(ForecastModel, Vec<Raw>)| {
        let fan = |step: usize| raw.get(step).map(Raw::fan).unwrap_or_default();
        tracking.track(Some(*model), model.point_is_median(), raw.len(), fan)
    };
    let mut tracks: Vec<DemandTrack> = fitted.par_iter().map(told).collect();
    let mut ensemble = Vec::new();
    if let Some(tenths) = weigh(series, &tracks, parts, horizon) {
        let members = fitted.iter().zip(&tenths).filter(|(_, tenth)| **tenth > 0);
        let members: Vec<(u32, &(ForecastModel, Vec<Raw>))> = members.map(|(member, tenth)| (*tenth, member)).collect();
        ensemble.extend(
            members.iter().map(|(tenth, (model, _))| DemandWeight { model: *model, weight: f64::from(*tenth) / 10.0 }),
        );
        let count = fitted.iter().map(|(_, raw)| raw.len()).min().unwrap_or(0);
        let mixed = |step: usize| {
            let of = |(tenth, (_, raw)): &(u32, &(ForecastModel, Vec<Raw>))| Some((*tenth, raw.get(step)?.fan()));
            let fans: Vec<(u32, Fan)> = members.iter().filter_map(of).collect();
            let at =
                |ahead: usize| fans.iter().filter_map(move |(tenth, fan)| Some((*tenth, fan.quantiles.get(ahead)?)));
            let quantiles: Vec<Quantiles> = (0..horizon).map(|ahead| mix(at(ahead))).collect();
            let point = quantiles.iter().map(|set| set.get(super::fan::MEDIAN).copied().unwrap_or(f64::NAN)).collect();
            Fan { point, quantiles }
        };
        tracks.push(tracking.track(None, true, count, mixed));
    }
    Ok(DemandTracks { first, choose, report, end, tracks, left_out, fits: moments.len(), ensemble })
}

fn said(
    model: ForecastModel,
    series: &Series,
    jobs: Option<&Jobs>,
    serves: &Range<usize>,
    options: &DemandBacktestOptions,
) -> Result<Vec<Raw>> {
    let fitted = forecast::fit(model, series.before(serves.start), jobs, &options.settings)?;
    Ok(fitted.forecasts(series, serves.clone())?.into_iter().map(Raw::from).collect())
}

/// Inputs shared by the tracks of a series.
struct Tracking<'a> {
    series: &'a Series,
    parts: Parts,
    options: &'a DemandBacktestOptions,
    /// Scores that calibration keeps.
    window: usize,
    horizon: usize,
    keep: bool,
}

impl Tracking<'_> {
    /// Calibrates the forecasts of a model, `raw(step)` of so many steps from the first on, each by slots that had ended, and scores them.
    fn track(
        &self,
        model: Option<ForecastModel>,
        point_is_median: bool,
        steps: usize,
        raw: impl Fn(usize) -> Fan,
    ) -> DemandTrack {
        let Self { series, parts, horizon, .. } = *self;
        let on = weighed_on(horizon);
        let none = vec![None; parts.report.saturating_sub(parts.choose)];
        let mut track = DemandTrack {
            name: model.map_or("ensemble", ForecastModel::name).to_owned(),
            model,
            fans: Vec::new(),
            calibrator: DemandCalibrator::new(horizon, self.options.adapt, self.window),
            chosen_on: vec![Sums::default(); horizon],
            reported: vec![Sums::default(); horizon],
            weighed: vec![none; on.len()],
            shown: Vec::new(),
        };
        let mut recent = Recent::default();
        for step in 0..steps {
            let at = parts.first + step;
            recent.teach(&mut track.calibrator, series, at.checked_sub(1));
            let raw = raw(step);
            let told = track.calibrator.moved(&raw, point_is_median).within(Bounds::before(series, at));
            self.score(&mut track, &told, at, &on);
            if self.keep {
                track.fans.push(told.clone());
            }
            recent.push(raw, told);
        }
        recent.teach(&mut track.calibrator, series, (parts.first + steps).checked_sub(1));
        track
    }

    /// Scores a calibrated forecast made before slot `at`.
    fn score(&self, track: &mut DemandTrack, fan: &Fan, at: usize, on: &[usize]) {
        let Parts { choose, report, end, .. } = self.parts;
        for (ahead, (point, quantiles)) in fan.point.iter().zip(&fan.quantiles).enumerate() {
            let target = at + ahead;
            let Some(slot) = self.series.slots.get(target).filter(|slot| slot.counted) else { continue };
            let told = ForecastAndTruth { point: *point, quantiles: *quantiles, truth: slot.peak };
            let sums = match target {
                target if (choose..report).contains(&target) => &mut track.chosen_on,
                target if (report..end).contains(&target) => &mut track.reported,
                _ => continue,
            };
            if let Some(sum) = sums.get_mut(ahead) {
                sum.add(&told);
            }
            for (list, _) in track.weighed.iter_mut().zip(on).filter(|(_, weighed)| **weighed == ahead) {
                if let Some(slot) = target.checked_sub(choose).and_then(|place| list.get_mut(place)) {
                    *slot = Some(*quantiles);
                }
            }
        }
        let ahead = shown_horizon(self.horizon) - 1;
        let shown_slots = usize::try_from(SHOWN_DAYS * DAY_MS / self.series.slot_ms.max(1)).unwrap_or(0);
        let target = at + ahead;
        if (end.saturating_sub(shown_slots).max(report)..end).contains(&target)
            && let Some((slot, quantiles)) = self.series.slots.get(target).zip(fan.quantiles.get(ahead))
        {
            let truth = slot.counted.then_some(slot.peak);
            track.shown.push(Shown { time_ms: self.series.time_ms(target), truth, quantiles: quantiles.to_vec() });
        }
    }
}

/// Horizon of the fan that is shown, from 1.
fn shown_horizon(horizon: usize) -> usize {
    horizon.clamp(1, 6)
}

/// Horizons, from 0, that the ensemble is weighed on.
fn weighed_on(horizon: usize) -> Vec<usize> {
    (1..=WEIGHED_ON).map(|part| (horizon * part).div_ceil(WEIGHED_ON) - 1).collect()
}

/// Weighs the models on the slots to choose on: starting from the best, the tenth that helps most is moved, until none does.
fn weigh(series: &Series, tracks: &[DemandTrack], parts: Parts, horizon: usize) -> Option<Vec<u32>> {
    if tracks.len() < 2 {
        return None;
    }
    let mut cases: Vec<(f64, f64, Vec<Quantiles>)> = Vec::new();
    for on in 0..weighed_on(horizon).len() {
        let mut counted = Vec::new();
        let mut base = 0.0;
        for (place, target) in (parts.choose..parts.report).enumerate() {
            let all: Option<Vec<Quantiles>> =
                tracks.iter().map(|track| track.weighed.get(on)?.get(place).copied().flatten()).collect();
            let Some((all, slot)) = all.zip(series.slots.get(target)) else { continue };
            base += all.first().map_or(0.0, |quantiles| loss(quantiles, slot.peak));
            counted.push((slot.peak, all));
        }
        // Each horizon weighs the same: its losses count over persistence's.
        let scale = if base > 0.0 { counted.len() as f64 / base } else { 1.0 };
        cases.extend(counted.into_iter().map(|(truth, said)| (truth, scale, said)));
    }
    if cases.is_empty() {
        return None;
    }
    let of = |tenths: &[u32]| -> f64 {
        let one = |(truth, scale, said): &(f64, f64, Vec<Quantiles>)| {
            scale * loss(&mix(tenths.iter().copied().zip(said)), *truth)
        };
        cases.iter().map(one).sum::<f64>() / cases.len() as f64
    };
    ensemble::tenths(tracks.len(), of)
}

/// Quantiles averaged with weights in tenths.
fn mix<'a>(members: impl Iterator<Item = (u32, &'a Quantiles)>) -> Quantiles {
    let mut mixed = [0.0; LEVELS.len()];
    for (weight, quantiles) in members.filter(|(weight, _)| *weight > 0) {
        for (slot, value) in mixed.iter_mut().zip(quantiles) {
            *slot += f64::from(weight) / 10.0 * value;
        }
    }
    mixed
}

/// Mean pinball loss over the levels.
fn loss(quantiles: &Quantiles, truth: f64) -> f64 {
    quantiles.iter().zip(LEVELS).map(|(value, level)| pinball(truth, *value, level)).sum::<f64>() / LEVELS.len() as f64
}

/// Model of least loss on the slots to choose on, and the loss of each: the mean over horizons of its pinball loss over persistence's.
pub(super) fn choice(tracks: &DemandTracks) -> Vec<f64> {
    let part = |track: &DemandTrack| -> Vec<f64> {
        track.chosen_on.iter().map(|sum| sum.score().map_or(f64::NAN, |score| score.pinball_mean)).collect()
    };
    let base = tracks.tracks.first().map(&part).unwrap_or_default();
    let over = |losses: Vec<f64>| {
        // A horizon that persistence never missed cannot tell models apart.
        let shares: Vec<f64> =
            losses.iter().zip(&base).filter(|(_, base)| **base > 0.0).map(|(value, base)| value / base).collect();
        if shares.is_empty() { 1.0 } else { shares.iter().sum::<f64>() / shares.len() as f64 }
    };
    tracks.tracks.iter().map(|track| over(part(track))).collect()
}

/// Back-tests a series.
///
/// # Errors
/// Errors of [`tracks`], or if nothing was counted in the slots reported.
pub fn run(series: &Series, jobs: Option<&Jobs>, options: &DemandBacktestOptions) -> Result<DemandBacktest> {
    summarise(series, &tracks(series, jobs, options)?)
}

/// Back-tests each series; the jobs of `log`, if there is one, are those of its VC. `watch` is told of every fit.
///
/// # Errors
/// Errors of [`run`].
pub fn run_all(
    all: &[Series],
    log: Option<&Log>,
    vcs: &[String],
    request: Asked,
    options: &DemandBacktestOptions,
    watch: &dyn Watch,
) -> Result<Vec<DemandBacktest>> {
    all.iter()
        .map(|series| {
            let jobs = log.map(|log| log.jobs(series, vcs, request));
            let parts = parts(series, options)?;
            let tracks = tracks_of(series, jobs.as_ref(), options, parts, options.peaks, watch)?;
            let fans: Vec<NamedFans<'_>> =
                tracks.tracks.iter().map(|track| (track.name.as_str(), track.fans.as_slice())).collect();
            let ahead = (refit_slots(series, options), options.settings.horizon);
            let peaks = options.peaks.then(|| peaks::backtest(series, parts, ahead, &fans)).transpose()?;
            Ok(DemandBacktest { peaks, ..summarise(series, &tracks)? })
        })
        .collect()
}

/// Scores what [`tracks`] gave.
///
/// # Errors
/// If nothing was counted in the slots reported.
pub fn summarise(series: &Series, result: &DemandTracks) -> Result<DemandBacktest> {
    let DemandTracks { choose, report, end, .. } = *result;
    let span = |from: usize, to: usize| DemandSpan {
        slots: to - from,
        from_ms: series.time_ms(from),
        to_ms: series.time_ms(to),
    };
    let losses = choice(result);
    let scored: Vec<&[Sums]> = result.tracks.iter().map(|track| track.reported.as_slice()).collect();
    let whole = |horizon_sums: &[Sums]| {
        let mut all = Sums::default();
        horizon_sums.iter().for_each(|sum| all.merge(sum));
        all.score()
    };
    let base = scored.first().and_then(|horizon_sums| whole(horizon_sums)).map(|score| score.pinball_mean);
    let mut models = Vec::new();
    for ((track, horizon_sums), choice_loss) in result.tracks.iter().zip(&scored).zip(&losses) {
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
    let chosen = result.tracks.get(best).map_or_else(String::new, |track| track.name.clone());
    let horizon = scored.first().map_or(1, |by_horizon| by_horizon.len());
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
        fits: result.fits,
        models,
        left_out: result.left_out.clone(),
        chosen,
        ensemble: result.ensemble.clone(),
        shown_horizon: shown_horizon(horizon),
        shown: result.tracks.get(best).map(|track| track.shown.clone()).unwrap_or_default(),
        peaks: None,
    })
}
