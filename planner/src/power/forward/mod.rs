//! What to do from now on: the first slot as the rule decides it, and a schedule of the next day from forecast quantiles.
//!
//! * **Now**: the chosen rule, fitted on all days and under its promise if there is one, decides the slot after the last one of the data.
//! * **The next day**, for sites without a loop: each hour's largest demand is forecast by the [demand](tracecast_predictors::demand) forecasters, and a
//!   quantile of it and a buffer are powered, and in the first hour no fewer than are powered now. Which forecaster, quantile and buffer, is chosen on earlier days, each day planned at its beginning, by
//!   what such schedules would have cost (or, under a service, by the sleep of those that kept to it); what the choice would have meant on the last
//!   quarter of the days is told beside it.
//!
//! O(forecasters × slots × hours of a day). Worked example: if the 95 % quantile of the hour from 9:00 is 310 nodes and the buffer 5, 315 are powered.

pub(in crate::power) mod clock;
pub mod config;
pub mod decide;
pub mod plan;
pub mod saved;

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::report::format;
use tracecast_analytics::time::{HOUR_MS, format_rfc3339};
use tracecast_predictors::demand::backtest::{self, DemandBacktestOptions, DemandTracks};
use tracecast_predictors::demand::forecast::{ForecastModel, ForecastSettings};
use tracecast_predictors::demand::gather::Asked;
use tracecast_predictors::demand::predictor::{DemandPredictor, Gathering};
use tracecast_predictors::demand::{Series, Slot};

use crate::error::{Error, Result};
use crate::power::rule::Setting;
use crate::power::score::service::Service;
use crate::power::score::{NodeDemand, Sums};
use crate::power::study::Request;
use crate::power::study::choice::Judge;
use clock::Clock;
use decide::{Decision, PoolState};
use plan::Action;
use saved::{Learned, SavedPlan, SavedPool};

/// Hours that are scheduled.
const HOURS: usize = 24;
/// Quantiles that may be powered.
const LEVELS: [f64; 5] = [0.5, 0.75, 0.9, 0.95, 0.99];
/// Buffers beyond them, as shares of the nodes there are; with the last all nodes stay on, which is best where sleep does not pay.
const BUFFERS: [f64; 7] = [0.0, 0.02, 0.05, 0.1, 0.15, 0.25, ALL];
/// All nodes there are.
const ALL: f64 = 1.0;
/// Forecasters that a schedule is chosen among.
const FORECASTERS: [ForecastModel; 5] = [
    ForecastModel::Persistence,
    ForecastModel::SeasonalDay,
    ForecastModel::SeasonalWeek,
    ForecastModel::Smoothing,
    ForecastModel::Boosted,
];

/// One hour of a schedule.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Hour {
    /// Beginning of the hour, UTC; in a trace without dates the day and hour since it began, such
    /// as `day 150, 08:00`.
    pub at: String,
    /// Nodes that are expected to be needed: the median of the forecast.
    pub expected: f64,
    /// Nodes to power.
    pub powered: f64,
}

/// A schedule of the next day, and what such schedules meant on days they knew nothing of.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Schedule")]
pub struct DaySchedule {
    /// The forecaster.
    pub forecaster: String,
    /// The quantile that is powered.
    pub level: f64,
    /// Nodes beyond it.
    pub buffer: f64,
    /// Hour by hour.
    pub hours: Vec<Hour>,
    /// Days on which it was tried, after those it was chosen on.
    pub tried_days: f64,
    /// Mean number of nodes asleep on these.
    pub nodes_asleep_mean: f64,
    /// What they brought a day: such a schedule does not watch, so no promise is made for it.
    pub realised: Service,
    /// Why all nodes stay on over the day, if they do; what such schedules brought is then of the one that was not taken.
    pub all_on: Option<String>,
}

/// What to do with a pool from now on.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Forward {
    /// The first slot.
    pub now: Decision,
    /// The rule that decided it, fitted on all days.
    pub setting: Setting,
    /// The next day; `None` where demand cannot be forecast.
    pub schedule: Option<DaySchedule>,
    /// Why there is no schedule.
    pub no_schedule: Option<String>,
}

/// Decides forward from the end of a series, which counts nodes; and the rule to save. `note` is what whoever follows it must know.
///
/// # Errors
/// If a learner fails.
pub fn forward(
    series: &Series,
    setting: Setting,
    request: &Request,
    note: Option<&str>,
) -> Result<(Forward, SavedPool)> {
    let fitted = SavedPool::fit(series, setting, request.budget.as_ref(), request.boot_slots)?;
    let saved = SavedPool { note: note.map(str::to_owned), ..fitted };
    let learned = Learned { learned_from_ms: series.start_ms, learned_to_ms: series.time_ms(series.slots.len()) };
    let plan = SavedPlan { learned, pools: vec![saved.clone()] };
    let now = decide::decide(&plan, &PoolState { pool: None, slots: Vec::new() })?;
    let (schedule, no_schedule) = match schedule(series, request, matches!(setting, Setting::AlwaysOn)) {
        Ok(result) => (Some(result.beginning_with(&now, request.budget.is_some())), None),
        Err(error) => (None, Some(error.to_string())),
    };
    Ok((Forward { now, setting, schedule, no_schedule }, saved))
}

impl DaySchedule {
    /// Raises the first hour to at least the nodes that the rule powers at its beginning: what is
    /// in use or waits then cannot sleep. If a service is `promised`, later hours are raised too:
    /// the guard knows no more of them, and nobody looks again.
    fn beginning_with(mut self, now: &Decision, promised: bool) -> Self {
        let held = if promised { self.hours.len() } else { 1 };
        for hour in self.hours.iter_mut().take(held) {
            hour.powered = hour.powered.max(now.powered);
        }
        self
    }
}

impl Forward {
    /// Tells its moments by a clock, where they have no dates.
    pub(super) fn tell_by(&mut self, clock: &Clock) {
        let now = &mut self.now;
        let hours = self.schedule.iter_mut().flat_map(|schedule| &mut schedule.hours).map(|hour| &mut hour.at);
        for at in [&mut now.at, &mut now.until].into_iter().chain(&mut now.promised_until).chain(hours) {
            *at = clock.moment(at);
        }
    }

    /// Returns the plan as actions: moments from which on so many nodes are powered.
    pub fn actions(&self) -> Vec<Action> {
        let mut result: Vec<Action> = Vec::new();
        let mut add = |at: &str, powered: f64| {
            let Some(at_ms) = tracecast_analytics::time::parse_with_offset(at) else { return };
            let powered = powered.max(0.0) as u32;
            let before = result.last().map(|action: &Action| action.powered);
            if before != Some(powered) {
                let change = before.map_or(0, |before| i64::from(powered) - i64::from(before));
                result.push(Action { at_ms, powered, change: i32::try_from(change).unwrap_or(0) });
            }
        };
        match &self.schedule {
            Some(schedule) => schedule.hours.iter().for_each(|hour| add(&hour.at, hour.powered)),
            None => add(&self.now.at, self.now.powered),
        }
        result
    }
}

/// A series in longer slots: `per` of its own each; the last one ends where the series does.
fn coarser(series: &Series, per: usize) -> Series {
    let skipped = series.slots.len() % per;
    let slots = series.slots.get(skipped..).unwrap_or_default().chunks(per).map(|part| {
        let last = part.last().copied().unwrap_or_default();
        Slot {
            peak: part.iter().map(|slot| slot.peak.min(slot.total)).fold(0.0, f64::max),
            mean: part.iter().map(|slot| slot.mean).sum::<f64>() / part.len().max(1) as f64,
            pending: part.iter().map(|slot| slot.pending).fold(0.0, f64::max),
            counted: part.iter().any(|slot| slot.counted),
            ..last
        }
    });
    Series {
        start_ms: series.time_ms(skipped),
        slot_ms: series.slot_ms * i64::try_from(per).unwrap_or(1),
        slots: slots.collect(),
        ..series.clone()
    }
}

/// What is powered, of a forecaster.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    track: usize,
    level: f64,
    buffer: f64,
}

/// What the search for a schedule needs.
struct Search<'a> {
    series: &'a Series,
    hourly: &'a Series,
    per: usize,
    tracks: &'a DemandTracks,
    need: &'a [f64],
    total: &'a [f64],
    request: &'a Request,
}

impl Search<'_> {
    /// What a candidate would have meant in the hours from `from` to `to`, each day planned at its beginning.
    fn tried(&self, candidate: &Candidate, from: usize, to: usize) -> (Sums, Judged) {
        let skipped = self.series.slots.len() % self.per;
        let mut orders = Vec::with_capacity((to - from) * self.per);
        let fans = self.tracks.tracks.get(candidate.track).map(|track| track.fans.as_slice()).unwrap_or_default();
        for hour in from..to {
            let ahead = (hour - from) % HOURS;
            let planned = (hour - ahead).checked_sub(self.tracks.first).and_then(|place| fans.get(place));
            let quantile = planned.and_then(|fan| fan.quantile(ahead + 1, candidate.level)).unwrap_or(f64::MAX);
            let order = (quantile + candidate.buffer).ceil();
            orders.extend(std::iter::repeat_n(order, self.per));
        }
        let range = skipped + from * self.per..skipped + to * self.per;
        let demand = NodeDemand {
            need: self.need.get(range.clone()).unwrap_or_default(),
            total: self.total.get(range.clone()).unwrap_or_default(),
            weights: &[],
            before: self.total.get(range.start).copied().unwrap_or(f64::MAX),
            boot_slots: self.request.boot_slots,
            slot_ms: self.series.slot_ms,
            constants: &self.request.constants,
            worth: &self.request.worth,
        };
        let sums = Sums::new(&demand.in_blocks(&orders, 0.0, usize::MAX));
        let outcome = demand.outcome(&sums);
        let days = demand.days().max(f64::MIN_POSITIVE);
        let realised = Service::of(&outcome, days);
        (sums, Judged { asleep: outcome.nodes_asleep_mean, realised, days })
    }

    fn judge(&self) -> Judge<'_> {
        let demand = NodeDemand {
            need: self.need,
            total: self.total,
            weights: &[],
            before: 0.0,
            boot_slots: 0.0,
            slot_ms: self.series.slot_ms,
            constants: &self.request.constants,
            worth: &self.request.worth,
        };
        Judge::new(&demand, self.request.budget.as_ref())
    }
}

/// Outcome of a schedule.
struct Judged {
    asleep: f64,
    realised: Service,
    days: f64,
}

/// The schedule; if `all_on`, the rule lets none sleep and neither does it.
fn schedule(series: &Series, request: &Request, all_on: bool) -> Result<DaySchedule> {
    let per = usize::try_from(HOUR_MS / series.slot_ms.max(1)).unwrap_or(1).max(1);
    let hourly = coarser(series, per);
    // Where all nodes stay on whatever comes, what is expected is told by the plainest alone.
    let models: &[ForecastModel] = if all_on { &[ForecastModel::SeasonalDay] } else { &FORECASTERS };
    let options = DemandBacktestOptions {
        models: models.to_vec(),
        settings: ForecastSettings { horizon: HOURS, ..ForecastSettings::default() },
        ..DemandBacktestOptions::default()
    };
    let tracks = backtest::tracks(&hourly, None, &options)?;
    let need: Vec<f64> = series.slots.iter().map(|slot| slot.peak.min(slot.total)).collect();
    let total: Vec<f64> = series.slots.iter().map(|slot| slot.total).collect();
    let search = Search { series, hourly: &hourly, per, tracks: &tracks, need: &need, total: &total, request };
    let most = total.iter().copied().fold(0.0, f64::max);
    let singles = tracks.tracks.iter().enumerate().filter(|(_, track)| track.model.is_some());
    let candidates: Vec<Candidate> = singles
        .flat_map(|(track, _)| {
            LEVELS.into_iter().flat_map(move |level| {
                let shares = BUFFERS.into_iter().filter(move |share| !all_on || *share == ALL);
                shares.map(move |share| Candidate { track, level, buffer: (share * most).round() })
            })
        })
        .collect();
    let judge = search.judge();
    let tried: Vec<(Candidate, Sums)> = candidates
        .iter()
        .map(|candidate| (*candidate, search.tried(candidate, tracks.choose, tracks.report).0))
        .collect();
    let best = tried.iter().min_by(|a, b| judge.order(&a.1, &b.1)).map(|(candidate, _)| *candidate);
    let best = best.ok_or_else(|| Error::Power(format!("{}: no forecaster could be fitted", series.name)))?;
    let (later, meant) = search.tried(&best, tracks.report, tracks.end);
    let model = tracks.tracks.get(best.track).and_then(|track| track.model).unwrap_or(ForecastModel::Persistence);
    let gathering = Gathering {
        slot_ms: search.hourly.slot_ms,
        unit: hourly.unit,
        asked: Asked::InUse,
        gpus_per_node: None,
        outages_are_idle: false,
        from_jobs: false,
        vcs: Vec::new(),
    };
    let trained = DemandPredictor::train(
        std::slice::from_ref(&hourly),
        None,
        gathering,
        &DemandBacktestOptions { models: vec![model], ..options },
        &(),
    )?;
    let forecasts = trained.forecast()?;
    let forecast =
        forecasts.first().ok_or_else(|| Error::Power(format!("{}: nothing could be forecast", series.name)))?;
    let there = total.last().copied().unwrap_or(0.0);
    let asked = request.budget.filter(|_| !judge.keeps(&later));
    let broken = asked.map(|asked| {
        format!(
            "on {} tried later, schedules like the one that kept to the service on the days before brought {} unserved node-slots a day and {} node-wakes a day, where at most {} and {} were asked for",
            format::duration(meant.days * 86_400.0),
            format::compact(meant.realised.unserved_per_day),
            format::compact(meant.realised.node_wakes_per_day),
            format::compact(asked.unserved_per_day),
            format::compact(asked.node_wakes_per_day)
        )
    });
    let all_on = match (&broken, best.buffer >= most) {
        (Some(_), _) => broken,
        (None, true) if all_on => Some("the rule lets none sleep".to_owned()),
        (None, true) => Some("no schedule that lets nodes sleep was better on earlier days".to_owned()),
        (None, false) => None,
    };
    let buffer = if all_on.is_some() { there.max(most) } else { best.buffer };
    let hours = (0..forecast.fan.horizons().min(HOURS)).map(|ahead| {
        let of = |level: f64| forecast.fan.quantile(ahead + 1, level).unwrap_or(there);
        Hour {
            at: format_rfc3339(forecast.from_ms + forecast.slot_ms * i64::try_from(ahead).unwrap_or(0)),
            expected: of(0.5).min(there),
            powered: (of(best.level) + buffer).ceil().clamp(0.0, there),
        }
    });
    Ok(DaySchedule {
        forecaster: forecast.model.name().to_owned(),
        level: best.level,
        buffer,
        hours: hours.collect(),
        tried_days: meant.days,
        nodes_asleep_mean: meant.asleep,
        realised: meant.realised,
        all_on,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::power::made;

    /// Found while mending what a newcomer found: where sleep did not pay, the headline kept all nodes on and the schedule put some to sleep.
    #[test]
    fn a_schedule_beside_a_rule_that_keeps_all_on_keeps_all_on() {
        // Two nodes by day, none at night, of four: by its own cost a schedule would put some to sleep.
        let day = |hour: usize| if (8..20).contains(&(hour % 24)) { 2.0 } else { 0.0 };
        let series = made::series((0..40 * 24).map(|hour| (day(hour), 4.0)).collect::<Vec<_>>());
        let request = Request {
            fit: 0..30 * 24,
            eval: 30 * 24..40 * 24,
            families: vec![],
            boot_slots: 0.0,
            rates: crate::power::score::tariff::Rates::default(),
            constants: crate::power::score::constants::Constants::default(),
            worth: crate::power::score::Worth::default(),
            ces: crate::power::rule::ces::Thresholds::EARTH,
            budget: None,
            services: vec![],
        };
        let least = |all_on: bool| {
            let result = schedule(&series, &request, all_on).unwrap();
            result.hours.iter().map(|hour| hour.powered).fold(f64::INFINITY, f64::min)
        };
        assert_eq!(least(true), 4.0);
        assert!(least(false) < 4.0, "{}", least(false));
    }

    #[test]
    fn longer_slots_end_where_the_series_does() {
        let mut series = made::series([7.0, 1.0, 3.0, 2.0, 6.0].map(|peak| (peak, 9.0)));
        series.slot_ms = HOUR_MS / 2;
        let hourly = coarser(&series, 2);
        assert_eq!((hourly.start_ms, hourly.slot_ms), (HOUR_MS / 2, HOUR_MS));
        let peaks: Vec<(f64, f64, f64)> = hourly.slots.iter().map(|slot| (slot.peak, slot.last, slot.mean)).collect();
        assert_eq!(peaks, vec![(3.0, 3.0, 2.0), (6.0, 6.0, 4.0)]);
    }
}
