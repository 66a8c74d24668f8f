//! Forecasters of demand behind one trait: told a series up to a slot, each says what the next k slots will need.
//!
//! All are **direct**: each horizon is forecast from what is known now, never from a forecast. What is forecast is the slot's peak, which is
//! what capacity must serve.
//!
//! | model | file | says |
//! |---|---|---|
//! | `persistence` | [`naive`] | the last slot's peak |
//! | `seasonal_day`, `seasonal_week` | [`naive`] | the peak a day, a week before |
//! | `smoothing` | [`smoothing`] | damped trend and daily season, exponentially smoothed |
//! | `boosted` | [`boosted`] | quantile trees on lags, rolling extremes, the calendar and what waits |
//! | `structural` | [`structural`] | who of those running will run still, and who will come |
//!
//! The naive ones and smoothing give one number; their spread comes from [`calibrate`](super::calibrate). Worked example: GPUs in use 8, 8, 6:
//! persistence says 6 for every horizon.

pub mod boosted;
pub mod naive;
pub mod smoothing;
pub mod structural;

use std::ops::Range;

use serde::{Deserialize, Serialize};
use tracecast_analytics::time::DAY_MS;

use super::fan::Fan;
use crate::error::{Error, Result};
use crate::model::boosted::Trees;
use structural::Jobs;
use tracecast_analytics::facts::demand::{Seen, Series};

/// A forecaster, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ForecastModel {
    /// The last slot's peak.
    Persistence,
    /// The peak a day before.
    SeasonalDay,
    /// The peak a week before.
    SeasonalWeek,
    /// Exponential smoothing with damped trend and daily season.
    Smoothing,
    /// Quantile trees.
    Boosted,
    /// Remaining times of running jobs, and arrivals.
    Structural,
}

impl ForecastModel {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Persistence, Self::SeasonalDay, Self::SeasonalWeek, Self::Smoothing, Self::Boosted, Self::Structural];

    /// Name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Persistence => "persistence",
            Self::SeasonalDay => "seasonal_day",
            Self::SeasonalWeek => "seasonal_week",
            Self::Smoothing => "smoothing",
            Self::Boosted => "boosted",
            Self::Structural => "structural",
        }
    }

    /// Whether the model's point is its calibrated median; other models publish their own point.
    pub(crate) fn point_is_median(self) -> bool {
        matches!(self, Self::Boosted | Self::Structural)
    }
}

/// Settings that models are fitted with.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ForecastSettings {
    /// Slots to forecast.
    pub horizon: usize,
    /// Settings that trees are grown with.
    pub trees: Trees,
    /// Most rows that trees learn from.
    pub most_rows: usize,
}

impl Default for ForecastSettings {
    /// Six hours of ten-minute slots; few and small trees, for a series is a few thousand slots that resemble each other: of those tried on the
    /// slots to choose on of Philly's nodes and of Earth's VCs (not on those reported), 60 trees of 12 leaves, none of less than five rows, lost least.
    fn default() -> Self {
        Self {
            horizon: 36,
            trees: Trees {
                trees: 60,
                leaves: 12,
                rate: 0.06,
                rows: 0.5,
                columns: 0.5,
                least: 5.0,
                lambda: 1.0,
                bins: 127,
                seed: 1,
            },
            most_rows: 40_000,
        }
    }
}

/// Something that forecasts.
pub trait Forecaster {
    /// Forecasts the next slots from what is known.
    ///
    /// # Errors
    /// If a learner refuses.
    fn forecast(&self, seen: Seen<'_>) -> Result<Fan>;

    /// The forecasts for each slot of `origins`, each made before that slot begins. As [`Forecaster::forecast`] for each, in one go.
    ///
    /// # Errors
    /// Errors of [`Forecaster::forecast`].
    fn forecasts(&self, series: &Series, origins: Range<usize>) -> Result<Vec<Fan>> {
        origins.map(|at| self.forecast(series.before(at))).collect()
    }
}

/// A fitted forecaster.
#[derive(Debug, Clone)]
pub enum FittedForecaster {
    /// See [`naive::Persistence`].
    Persistence(naive::Persistence),
    /// See [`naive::Seasonal`].
    Seasonal(naive::Seasonal),
    /// See [`smoothing::Smoothing`].
    Smoothing(smoothing::Smoothing),
    /// See [`boosted::BoostedDemand`].
    Boosted(Box<boosted::BoostedDemand>),
    /// See [`structural::Structural`].
    Structural(Box<structural::Structural>),
}

impl FittedForecaster {
    fn inner(&self) -> &dyn Forecaster {
        match self {
            Self::Persistence(model) => model,
            Self::Seasonal(model) => model,
            Self::Smoothing(model) => model,
            Self::Boosted(model) => model.as_ref(),
            Self::Structural(model) => model.as_ref(),
        }
    }
}

impl Forecaster for FittedForecaster {
    fn forecast(&self, seen: Seen<'_>) -> Result<Fan> {
        self.inner().forecast(seen)
    }

    fn forecasts(&self, series: &Series, origins: Range<usize>) -> Result<Vec<Fan>> {
        self.inner().forecasts(series, origins)
    }
}

/// Fits a model on what is known; `jobs` are those of the series, for the structural forecast.
///
/// # Errors
/// If too little is known, the structural forecast has no jobs or is asked for nodes, or a learner fails.
pub fn fit(
    model: ForecastModel,
    seen: Seen<'_>,
    jobs: Option<&Jobs>,
    settings: &ForecastSettings,
) -> Result<FittedForecaster> {
    let horizon = settings.horizon.max(1);
    if seen.slots.is_empty() {
        return Err(Error::TooFew("no slot has ended when the forecaster was to be fitted".to_owned()));
    }
    Ok(match model {
        ForecastModel::Persistence => FittedForecaster::Persistence(naive::Persistence { horizon }),
        ForecastModel::SeasonalDay => {
            FittedForecaster::Seasonal(naive::Seasonal::new(DAY_MS, seen.series.slot_ms, horizon))
        }
        ForecastModel::SeasonalWeek => {
            FittedForecaster::Seasonal(naive::Seasonal::new(7 * DAY_MS, seen.series.slot_ms, horizon))
        }
        ForecastModel::Smoothing => FittedForecaster::Smoothing(smoothing::Smoothing::fit(seen, horizon)),
        ForecastModel::Boosted => FittedForecaster::Boosted(Box::new(boosted::BoostedDemand::fit(seen, settings)?)),
        ForecastModel::Structural => {
            let jobs = jobs.ok_or_else(|| {
                Error::Unsuited(
                    "the structural forecast needs the jobs themselves; leave it out of the models where only counts are known"
                        .to_owned(),
                )
            })?;
            FittedForecaster::Structural(Box::new(structural::Structural::fit(seen, jobs, settings)?))
        }
    })
}

#[cfg(test)]
mod tests;
