//! A trained predictor of demand in one file: of each series the forecaster that was chosen, its calibration, and the slots it looks back on.
//!
//! Training back-tests the models on what there is, chooses one a series on the last 40 % of its slots, and fits it once more on all. Put to a newer record
//! of the same source it rolls on: it forecasts each slot that came since, learns from how far it was off, and forecasts the next k.
//!
//! **File**: one line of JSON (format, version, what it was trained on, sections with their sizes and SHA-256), then the sections, each compressed with
//! zstd: the state as JSON, and of each series its slots and calibration as numbers and its trees as numbers. Files of
//! version 1 had trees of another form, and are to be made again; an earlier program refuses a later file by its version.
//!
//! Worked example: trained on ten-minute slots up to 12:00 with 36 horizons, it says of the slots from 12:00 to 18:00 what they will need; put to the
//! same log as it stands at 13:00, of those from 13:00 to 19:00.

use std::fmt::Write as _;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tracecast_analytics::report::markup::csv_text;
use tracecast_analytics::time::{DAY_MS, format_utc};

use super::backtest::{self, DemandBacktestOptions, DemandTracks, Recent};
use super::calibrate::DemandCalibrator;
use super::fan::{Bounds, Fan, LEVELS};
use super::forecast::boosted::{BoostedDemand, GROWN};
use super::forecast::naive::{Persistence, Seasonal};
use super::forecast::smoothing::Smoothing;
use super::forecast::structural::{Held, Jobs, Log, State as Structure, Structural};
use super::forecast::{self, FittedForecaster, ForecastModel, ForecastSettings, Forecaster as _};
use super::gather::{self, Asked};
use crate::error::{Error, Result};
use crate::holdout::{Parts, position};
use crate::model::boosted::FittedTrees;
use crate::model_file::Format;
use tracecast_analytics::facts::demand::{Series, Slot, Unit};
use tracecast_analytics::watch::Watch;

/// The file.
const FORMAT: Format = Format {
    name: "tracecast-demand-model",
    version: 2,
    oldest: 2,
    longest: 1 << 30,
    of: "demand",
    command: "tracecast model train demand",
};
/// Share of the slots on which the model is chosen.
const CHOOSE_FROM: f64 = 0.6;
/// Days of slots kept: smoothing looks back on up to eight weeks.
const KEPT_DAYS: i64 = 57;
/// Slots that a forecaster rolls over at once.
const ROLLED_AT_ONCE: usize = 512;
/// Version of the forecast's JSON.
pub const SCHEMA: &str = "model-predict-demand/1";

/// Options the series were gathered with, so that a newer record is gathered alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Gathering {
    /// Length of a slot, milliseconds.
    pub slot_ms: i64,
    /// Unit that demand is counted in.
    pub unit: Unit,
    /// Definition of demand.
    pub asked: Asked,
    /// GPUs of a node, if it was said.
    pub gpus_per_node: Option<f64>,
    /// Whether a cluster at 0 is idle.
    pub outages_are_idle: bool,
    /// Whether it came from jobs.
    pub from_jobs: bool,
    /// Only these VCs; empty: all.
    pub vcs: Vec<String>,
}

impl Gathering {
    /// The options that gather alike.
    pub fn options(&self) -> gather::GatherOptions {
        gather::GatherOptions {
            slot_ms: self.slot_ms,
            unit: Some(self.unit),
            source: if self.from_jobs { gather::Source::Jobs } else { gather::Source::Activity },
            asked: self.asked,
            gpus_per_node: self.gpus_per_node,
            outages_are_idle: self.outages_are_idle,
            vcs: self.vcs.clone(),
            ..gather::GatherOptions::default()
        }
    }
}

/// Parameters of a series' forecaster, less its trees.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Parameters {
    Persistence(Persistence),
    Seasonal(Seasonal),
    Smoothing(Smoothing),
    Boosted { scales: Vec<f64> },
    Structural { state: Box<Structure>, open: Vec<Held> },
}

/// A series as it stands in the file.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Entry {
    name: String,
    zone: String,
    counts_pending: bool,
    start_ms: i64,
    model: ForecastModel,
    /// Pinball loss divided by persistence's on the slots the forecaster was chosen on.
    choice_loss: f64,
    parameters: Parameters,
}

/// A series, its forecaster and its calibration.
#[derive(Debug, Clone)]
pub struct Member {
    /// The slots it looks back on.
    pub series: Series,
    /// The model chosen.
    pub model: ForecastModel,
    /// Pinball loss divided by persistence's, on the slots the forecaster was chosen on.
    pub choice_loss: f64,
    fitted: FittedForecaster,
    calibrator: DemandCalibrator,
}

/// A trained predictor.
#[derive(Debug, Clone)]
pub struct DemandPredictor {
    /// Options the series were gathered with.
    pub gathering: Gathering,
    /// Settings the forecasters were fitted with.
    pub settings: ForecastSettings,
    /// The series, in order.
    pub series: Vec<Member>,
}

#[derive(Debug, Serialize, Deserialize)]
struct State {
    gathering: Gathering,
    settings: ForecastSettings,
    series: Vec<Entry>,
}

/// Header of the file beyond its format: empty.
#[derive(Debug, Serialize, Deserialize)]
struct Header {}

/// The forecast of one series.
#[derive(Debug, Clone, PartialEq)]
pub struct Forecast {
    /// Name of the series.
    pub name: String,
    /// Unit that demand is counted in.
    pub unit: Unit,
    /// Model.
    pub model: ForecastModel,
    /// Beginning of the first slot forecast, milliseconds since the epoch.
    pub from_ms: i64,
    /// Length of a slot, milliseconds.
    pub slot_ms: i64,
    /// Forecast of the next slots.
    pub fan: Fan,
}

impl DemandPredictor {
    /// Trains a forecaster for each series; `log` are the jobs, for the structural one. `watch` is told of every fit.
    ///
    /// # Errors
    /// If a series is too short, or a learner fails.
    pub fn train(
        all: &[Series],
        log: Option<&Log>,
        gathering: Gathering,
        options: &DemandBacktestOptions,
        watch: &dyn Watch,
    ) -> Result<Self> {
        let settings = options.settings;
        let mut series = Vec::new();
        for each in all {
            let jobs = log.map(|log| log.jobs(each, &gathering.vcs, gathering.asked));
            series.push(train_one(each, jobs.as_ref(), options, watch)?);
        }
        Ok(Self { gathering, settings, series })
    }

    /// Forecasts the slots after the training, for each series.
    ///
    /// # Errors
    /// If a learner refuses.
    pub fn forecast(&self) -> Result<Vec<Forecast>> {
        self.series.iter().map(Member::forecast).collect()
    }

    /// Rolls on over newer slots: forecasts each, learns from how far it was off. Series that the predictor does not know are passed over; of one
    /// that is not there any more, nothing changes.
    ///
    /// # Errors
    /// If a series is of other slots, or leaves a hole after those known, or a learner refuses.
    pub fn roll(&mut self, newer: &[Series], log: Option<&Log>) -> Result<()> {
        let (vcs, asked) = (self.gathering.vcs.clone(), self.gathering.asked);
        for member in &mut self.series {
            let Some(newer) = newer.iter().find(|newer| newer.name == member.series.name) else { continue };
            member.roll(newer, log.map(|log| log.jobs(newer, &vcs, asked)))?;
        }
        Ok(())
    }

    /// The file.
    ///
    /// # Errors
    /// If a learner cannot write its trees.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let wrong = |reason: String| Error::Learner { learner: "predictor of demand", reason };
        let entry = |member: &Member| Entry {
            name: member.series.name.clone(),
            zone: member.series.zone.clone(),
            counts_pending: member.series.counts_pending,
            start_ms: member.series.start_ms,
            model: member.model,
            choice_loss: member.choice_loss,
            parameters: match &member.fitted {
                FittedForecaster::Persistence(fitted) => Parameters::Persistence(*fitted),
                FittedForecaster::Seasonal(fitted) => Parameters::Seasonal(*fitted),
                FittedForecaster::Smoothing(fitted) => Parameters::Smoothing(*fitted),
                FittedForecaster::Boosted(fitted) => Parameters::Boosted { scales: fitted.scales.clone() },
                FittedForecaster::Structural(fitted) => Parameters::Structural {
                    state: Box::new(fitted.state.clone()),
                    open: fitted.open(member.series.time_ms(member.series.slots.len())),
                },
            },
        };
        let state = State {
            gathering: self.gathering.clone(),
            settings: self.settings,
            series: self.series.iter().map(entry).collect(),
        };
        let state = serde_json::to_vec(&state).map_err(|error| wrong(error.to_string()))?;
        let mut parts = vec![("state".to_owned(), state)];
        for (at, member) in self.series.iter().enumerate() {
            parts.push((format!("slots-{at}"), slots_to_bytes(&member.series.slots)));
            parts.push((format!("calibration-{at}"), member.calibrator.to_bytes()));
            if let FittedForecaster::Boosted(fitted) = &member.fitted {
                parts.push((format!("trees-{at}"), fitted.trees.encode()));
            }
        }
        FORMAT.write(Header {}, parts).map_err(wrong)
    }

    /// The predictor from the bytes of a file; `file` is what to call it in messages.
    ///
    /// # Errors
    /// If it is no such file, is damaged, or of a later version.
    pub fn from_bytes(file: &str, bytes: &[u8]) -> Result<Self> {
        let mut opened = FORMAT.open::<Header>(file, bytes)?;
        let state: State = opened.take_json("state")?;
        let State { gathering, settings, series: entries } = state;
        let mut series = Vec::new();
        for (at, entry) in entries.into_iter().enumerate() {
            let slots = slots_from_bytes(&opened.take(&format!("slots-{at}"))?);
            let calibrator =
                DemandCalibrator::from_bytes(&opened.take(&format!("calibration-{at}"))?, settings.horizon.max(1))
                    .ok_or_else(|| opened.refusal.damaged(format!("the calibration of {} is damaged", entry.name)))?;
            let fitted = match entry.parameters {
                Parameters::Persistence(model) => FittedForecaster::Persistence(model),
                Parameters::Seasonal(model) => FittedForecaster::Seasonal(model),
                Parameters::Smoothing(model) => FittedForecaster::Smoothing(model),
                Parameters::Boosted { scales } => {
                    let trees = FittedTrees::decode(&opened.take(&format!("trees-{at}"))?)
                        .filter(|trees| trees.outputs() == GROWN.len())
                        .ok_or_else(|| opened.refusal.damaged(format!("the trees of {} are damaged", entry.name)))?;
                    FittedForecaster::Boosted(Box::new(BoostedDemand { scales, trees }))
                }
                Parameters::Structural { state, open } => {
                    FittedForecaster::Structural(Box::new(Structural::new(*state, Arc::from(open))))
                }
            };
            let history = Series {
                name: entry.name,
                unit: gathering.unit,
                counts_pending: entry.counts_pending,
                start_ms: entry.start_ms,
                slot_ms: gathering.slot_ms,
                zone: entry.zone,
                slots,
            };
            series.push(Member {
                series: history,
                model: entry.model,
                choice_loss: entry.choice_loss,
                fitted,
                calibrator,
            });
        }
        Ok(Self { gathering, settings, series })
    }
}

fn train_one(
    series: &Series,
    jobs: Option<&Jobs>,
    options: &DemandBacktestOptions,
    watch: &dyn Watch,
) -> Result<Member> {
    let count = series.slots.len();
    let (first, choose) = (position(0.35, count), position(CHOOSE_FROM, count));
    if first < 2 * options.settings.horizon.max(1) {
        return Err(Error::TooFew(format!(
            "{}: {count} slots are too few to choose and calibrate a forecaster that looks {} slots ahead; take a shorter slot or horizon",
            series.name, options.settings.horizon
        )));
    }
    let result: DemandTracks =
        backtest::tracks_of(series, jobs, options, Parts { first, choose, report: count, end: count }, false, watch)?;
    let losses = backtest::choice(&result);
    // The ensemble is several models, of which a file holds one.
    let single = result
        .tracks
        .iter()
        .zip(&losses)
        .filter_map(|(track, loss)| Some((track.model?, track.calibrator.clone(), *loss)));
    let Some((model, calibrator, choice_loss)) = single.min_by(|a, b| a.2.total_cmp(&b.2)) else {
        return Err(Error::TooFew(format!("{}: no model could be fitted", series.name)));
    };
    let fitted = forecast::fit(model, series.before(count), jobs, &options.settings)?;
    Ok(Member { series: newest(series), model, choice_loss, fitted, calibrator })
}

/// Slots of a day.
fn day_slots(series: &Series) -> usize {
    usize::try_from(DAY_MS / series.slot_ms.max(1)).unwrap_or(1).max(1)
}

/// The newest slots of a series, a whole number of days.
fn newest(series: &Series) -> Series {
    let day = day_slots(series);
    let kept = KEPT_DAYS as usize * day;
    let dropped = series.slots.len().saturating_sub(kept).div_ceil(day) * day;
    let slots = series.slots.get(dropped..).unwrap_or_default().to_vec();
    Series { start_ms: series.time_ms(dropped), slots, ..series.clone() }
}

impl Member {
    fn told(&self, raw: &Fan, at: usize) -> Fan {
        self.calibrator.moved(raw, self.model.point_is_median()).within(Bounds::before(&self.series, at))
    }

    fn forecast(&self) -> Result<Forecast> {
        let at = self.series.slots.len();
        let raw = self.fitted.forecast(self.series.before(at))?;
        Ok(Forecast {
            name: self.series.name.clone(),
            unit: self.series.unit,
            model: self.model,
            from_ms: self.series.time_ms(at),
            slot_ms: self.series.slot_ms,
            fan: self.told(&raw, at),
        })
    }

    fn roll(&mut self, newer: &Series, jobs: Option<Jobs>) -> Result<()> {
        let old = &self.series;
        let known = old.slots.len();
        let name = &old.name;
        let apart = newer.start_ms - old.start_ms;
        if newer.slot_ms != old.slot_ms || newer.unit != old.unit || apart.rem_euclid(old.slot_ms) != 0 {
            return Err(Error::NotTheSequel(format!(
                "{name}: the newer slots are not those the predictor was trained on"
            )));
        }
        // Slots of the newer record from the end of those known on.
        let skip = apart / old.slot_ms;
        let from = i64::try_from(known).unwrap_or(i64::MAX) - skip;
        let Ok(from) = usize::try_from(from) else {
            // Beyond a hole it begins anew, if the newer record is as long as what is kept.
            let kept = newest(newer).slots.len().min(newer.slots.len() / 2);
            if kept >= KEPT_DAYS as usize * day_slots(newer) {
                self.series = Series { slots: newer.slots.get(..kept).unwrap_or_default().to_vec(), ..newer.clone() };
                return self.roll(newer, jobs);
            }
            return Err(Error::NotTheSequel(format!(
                "{name}: what is known ends at {} and the newer record begins at {} (UTC); name one that reaches back so far",
                format_utc(old.time_ms(known)),
                format_utc(newer.start_ms)
            )));
        };
        let Some(added) = newer.slots.get(from..).filter(|added| !added.is_empty()) else { return Ok(()) };
        self.series.slots.extend_from_slice(added);
        if let (FittedForecaster::Structural(structural), Some(jobs)) = (&mut self.fitted, jobs) {
            **structural = Structural::new(structural.state.clone(), jobs.held);
        }
        let count = self.series.slots.len();
        let mut recent = Recent::default();
        // In parts, so that memory stays small.
        for from in (known..count).step_by(ROLLED_AT_ONCE) {
            let part = from..(from + ROLLED_AT_ONCE).min(count);
            for (at, raw) in part.clone().zip(self.fitted.forecasts(&self.series, part)?) {
                recent.teach(&mut self.calibrator, &self.series, at.checked_sub(1));
                let told = self.told(&raw, at);
                recent.push(raw, told);
            }
        }
        recent.teach(&mut self.calibrator, &self.series, count.checked_sub(1));
        Ok(())
    }
}

fn slots_to_bytes(slots: &[Slot]) -> Vec<u8> {
    let numbers = slots.iter().flat_map(|slot| {
        [slot.peak, slot.last, slot.mean, slot.pending, slot.total, f64::from(u8::from(slot.counted))]
    });
    numbers.flat_map(f64::to_le_bytes).collect()
}

fn slots_from_bytes(bytes: &[u8]) -> Vec<Slot> {
    let number = |eight: &[u8]| eight.try_into().map_or(f64::NAN, f64::from_le_bytes);
    let slot = |record: &[u8]| {
        let mut numbers = record.chunks_exact(8).map(number);
        let mut next = || numbers.next().unwrap_or(f64::NAN);
        Slot { peak: next(), last: next(), mean: next(), pending: next(), total: next(), counted: next() > 0.5 }
    };
    bytes.chunks_exact(48).map(slot).collect()
}

fn column(level: f64) -> String {
    format!("p{:02.0}", level * 100.0)
}

fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Nodes => "nodes",
        Unit::Gpus => "gpus",
    }
}

/// Forecasts as CSV: a row a series and slot, quantiles p05 to p99 in the series' unit, times in UTC.
///
/// # Errors
/// If the writer fails.
pub fn csv(forecasts: &[Forecast]) -> Result<Vec<u8>> {
    let wrong = |reason: String| Error::Table { file: "forecasts".to_owned(), reason };
    let mut writer = csv::Writer::from_writer(Vec::new());
    let head = ["series", "unit", "model", "horizon", "slot_start", "slot_end", "point"].map(str::to_owned);
    writer.write_record(head.into_iter().chain(LEVELS.map(column))).map_err(|error| wrong(error.to_string()))?;
    for forecast in forecasts {
        for (ahead, (point, quantiles)) in forecast.fan.point.iter().zip(&forecast.fan.quantiles).enumerate() {
            let from = forecast.from_ms + forecast.slot_ms * ahead as i64;
            let plain = [
                csv_text(&forecast.name),
                unit(forecast.unit).to_owned(),
                forecast.model.name().to_owned(),
                (ahead + 1).to_string(),
                format_utc(from) + "Z",
                format_utc(from + forecast.slot_ms) + "Z",
            ];
            let numbers = std::iter::once(point).chain(quantiles).map(|value| {
                let mut text = String::new();
                // Writing to a string cannot fail.
                let _ = write!(text, "{value:.3}");
                text
            });
            writer.write_record(plain.into_iter().chain(numbers)).map_err(|error| wrong(error.to_string()))?;
        }
    }
    writer.into_inner().map_err(|error| wrong(error.to_string()))
}

/// Forecasts as `model predict demand --format json` writes them.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Forecasts {
    /// Version of the form.
    pub schema: String,
    /// Levels of the quantiles.
    pub levels: Vec<f64>,
    /// Forecast of each VC, then of the pool.
    pub series: Vec<ForecastOf>,
}

/// The forecast of a series.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct ForecastOf {
    /// Name of the series.
    pub name: String,
    /// Unit that demand is counted in.
    pub unit: Unit,
    /// Model.
    pub model: ForecastModel,
    /// Length of a slot, milliseconds.
    pub slot_ms: i64,
    /// The slots forecast, in order of time.
    pub slots: Vec<ForecastSlot>,
}

/// Forecast of one slot.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct ForecastSlot {
    /// Slots ahead, from 1.
    pub horizon: usize,
    /// Beginning of the slot, milliseconds since the Unix epoch.
    pub start_ms: i64,
    /// The most likely peak.
    pub point: f64,
    /// Quantiles of the peak, at the levels.
    pub quantiles: Vec<f64>,
}

/// Forecasts as data (`model-predict-demand/1`).
pub fn forecasts(of: &[Forecast]) -> Forecasts {
    let slot = |forecast: &Forecast, ahead: usize, point: f64, quantiles: &[f64]| ForecastSlot {
        horizon: ahead + 1,
        start_ms: forecast.from_ms + forecast.slot_ms * ahead as i64,
        point,
        quantiles: quantiles.to_vec(),
    };
    let one = |forecast: &Forecast| {
        let said = forecast.fan.point.iter().zip(&forecast.fan.quantiles).enumerate();
        ForecastOf {
            name: forecast.name.clone(),
            unit: forecast.unit,
            model: forecast.model,
            slot_ms: forecast.slot_ms,
            slots: said.map(|(ahead, (point, quantiles))| slot(forecast, ahead, *point, quantiles)).collect(),
        }
    };
    Forecasts { schema: SCHEMA.to_owned(), levels: LEVELS.to_vec(), series: of.iter().map(one).collect() }
}

/// The JSON Schema of [`Forecasts`].
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(Forecasts).to_value()
}
