//! How fast each job type runs on each slice, how that is known, and where a plan may put it.
//!
//! A speed is relative to the whole GPU. A slice is **allowed** for a job type if its memory holds the job and the job is at most SLO times as slow there as on the whole GPU: by the measured
//! speed where there is one, else by the forecast that is reached with a chance of 90 %. A job that was measured on a slice fits there. Else the memory that it uses on the whole GPU must be known
//! and no more than the slice lets a job use: many jobs take what they are given and would do with less, so this is cautious.
//!
//! O(job types × profiles). Worked example: 0.62 is expected on `3g.20gb` and 0.48 reached with a chance of 90 %: the slowdown at the 0.9 quantile is 2.1, beyond an SLO of 2.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_predictors::interference::slice::{SliceForecast, SliceForecaster, SliceTable};

use super::demand::MigDemand;
use super::gpu::{MigGpu, MigProfile};
use crate::error::{Error, Result};

/// How a speed is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SpeedBasis {
    /// The whole GPU, which speeds are shares of.
    Whole,
    /// Measured.
    Measured,
    /// Forecast from the profile.
    Forecast,
    /// Nothing is known.
    Unknown,
}

/// What a plan takes for the speed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpeedBelief {
    /// What was measured, else a forecast with its 0.9 quantile.
    BestKnown,
    /// A forecast without any step time of the family, with its 0.9 quantile.
    ForecastQuantile,
    /// The mean of such a forecast, taken as if it were sure.
    ForecastMean,
    /// The share of the SMs.
    ShareOfSms,
    /// What was measured, and no other slice.
    Measured,
}

/// A job type on a slice.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MigSpeed {
    /// Expected speed, relative to the whole GPU; 0 where nothing is known.
    pub speed: f64,
    /// Speed by which the SLO is checked.
    pub low: f64,
    /// How it is known.
    pub basis: SpeedBasis,
    /// Whether the job fits.
    pub fits: bool,
}

impl MigSpeed {
    const NOTHING: Self = Self { speed: 0.0, low: 0.0, basis: SpeedBasis::Unknown, fits: false };

    /// Whether a job may be put there.
    pub fn is_allowed(&self, slo: f64) -> bool {
        self.fits && self.speed > 0.0 && self.low * slo >= 1.0 - 1e-9
    }
}

/// The job types of a demand in a table of step times, with what forecasts need.
#[derive(Debug)]
pub struct MigEvidence<'t> {
    table: &'t SliceTable,
    gpu: &'static MigGpu,
    /// Indices of the job types in the table.
    jobs: Vec<usize>,
    /// Taught by all families; none where there are too few.
    all: Option<SliceForecaster>,
    /// Taught without the family of each job type.
    without: Vec<Option<SliceForecaster>>,
}

impl<'t> MigEvidence<'t> {
    /// Looks the job types up and trains.
    ///
    /// # Errors
    /// If the table is of another GPU or not of the whole one, a job type is not in it, or one does not fit on the GPU.
    pub fn new(table: &'t SliceTable, gpu: &'static MigGpu, demand: &MigDemand) -> Result<Self> {
        if let Some(other) = table.slices().into_iter().find(|name| gpu.profile(name).is_none()) {
            return Err(Error::NothingToEvaluate(format!(
                "step times were measured on slices such as {other}, which an {} does not have; name the GPU that was measured with --gpu",
                gpu.name
            )));
        }
        if !table.is_of_whole_gpu() {
            let whole = gpu.profiles.get(gpu.whole()).map_or("", |profile| profile.name);
            return Err(Error::NothingToEvaluate(format!(
                "no step time is of the whole GPU ({whole}), so it is not known what a slice costs; measure it there, too"
            )));
        }
        let place = |name: &String| {
            table.job(name).ok_or_else(|| {
                let near: Vec<&str> = table.jobs().iter().take(5).map(String::as_str).collect();
                Error::NothingToEvaluate(format!(
                    "`{name}` has neither step times nor a profile; measure it, or name it as in these files, such as {}",
                    near.join(", ")
                ))
            })
        };
        let jobs: Vec<usize> = demand.rows.iter().map(|row| place(&row.job)).collect::<Result<_>>()?;
        // One for each family, as all its job types are left out together.
        let mut of_family: BTreeMap<&str, Option<SliceForecaster>> = BTreeMap::new();
        let without = jobs
            .iter()
            .map(|job| {
                let family = of_family.entry(table.family(*job));
                family.or_insert_with(|| SliceForecaster::train(table, Some(*job)).ok()).clone()
            })
            .collect();
        let result = Self { table, gpu, jobs, all: SliceForecaster::train(table, None).ok(), without };
        for (at, row) in demand.rows.iter().enumerate() {
            if !result.fits(at, gpu.whole()) {
                return Err(Error::NothingToEvaluate(format!(
                    "`{}` uses {} MB, which is more than an {} has; leave it out",
                    row.job,
                    result.memory_mb(at).unwrap_or_default(),
                    gpu.name
                )));
            }
        }
        Ok(result)
    }

    /// The GPU.
    pub fn gpu(&self) -> &'static MigGpu {
        self.gpu
    }

    /// Whether every job type can be forecast without its family.
    pub fn can_be_tested(&self) -> bool {
        self.without.iter().all(Option::is_some)
    }

    /// Whether anything can be forecast.
    pub fn can_forecast(&self) -> bool {
        self.all.is_some()
    }

    /// Family of a job type of the demand.
    pub fn family(&self, at: usize) -> &str {
        self.jobs.get(at).map_or("", |job| self.table.family(*job))
    }

    fn memory_mb(&self, at: usize) -> Option<f64> {
        self.jobs.get(at).and_then(|job| self.table.memory_mb(*job))
    }

    /// Whether a profile was measured for any job type, or is the whole GPU.
    pub fn was_measured(&self, profile: usize) -> bool {
        let name = self.gpu.profiles.get(profile).map_or("", |profile| profile.name);
        profile == self.gpu.whole() || self.table.slices().iter().any(|slice| slice == name)
    }

    /// The measured speed of a job type of the demand; 1 on the whole GPU.
    pub fn measured(&self, at: usize, profile: usize) -> Option<f64> {
        if profile == self.gpu.whole() {
            return Some(1.0);
        }
        let name = self.gpu.profiles.get(profile)?.name;
        self.table.measured(*self.jobs.get(at)?, name)
    }

    /// Whether the memory holds the job by what is known of it on the whole GPU; on the whole GPU also if nothing is known.
    fn fits(&self, at: usize, profile: usize) -> bool {
        let Some(of) = self.gpu.profiles.get(profile) else { return false };
        self.memory_mb(at).map_or(of.is_whole(), |memory| memory <= f64::from(of.usable_mib))
    }

    fn forecast(&self, by: Option<&SliceForecaster>, at: usize, profile: usize) -> Option<SliceForecast> {
        let name = self.gpu.profiles.get(profile)?.name;
        by?.forecast(self.table, *self.jobs.get(at)?, name)
    }

    /// A forecast between what was measured on smaller and on larger slices: on a larger one a job fits, and is as fast at least.
    fn between_measured(&self, at: usize, profile: usize, told: MigSpeed) -> MigSpeed {
        let Some(of) = self.gpu.profiles.get(profile) else { return told };
        let measured = |on: fn(&MigProfile, &MigProfile) -> bool| {
            let others = self.gpu.profiles.iter().enumerate().filter(move |(_, other)| on(other, of));
            others.filter_map(|(other, _)| self.measured(at, other))
        };
        let slowest = measured(|other, of| other.compute <= of.compute && other.memory <= of.memory).reduce(f64::max);
        let fastest =
            measured(|other, of| other.compute >= of.compute && other.memory >= of.memory).fold(1.0, f64::min);
        // Measured speeds of neighbours may be the wrong way round by their noise.
        let least = slowest.unwrap_or(0.0).min(fastest);
        let within = |speed: f64| speed.clamp(least, fastest);
        MigSpeed { speed: within(told.speed), low: within(told.low), fits: told.fits || slowest.is_some(), ..told }
    }

    /// A job type of the demand on a profile, as `belief` has it.
    pub fn speed(&self, at: usize, profile: usize, belief: SpeedBelief) -> MigSpeed {
        let sure = |speed: f64, basis| MigSpeed { speed, low: speed, basis, fits: true };
        if profile == self.gpu.whole() {
            return sure(1.0, SpeedBasis::Whole);
        }
        let fits = self.fits(at, profile);
        let measured = self.measured(at, profile).map(|speed| sure(speed, SpeedBasis::Measured));
        let forecast = |by: Option<&SliceForecaster>| {
            let told = self.forecast(by, at, profile)?;
            Some(MigSpeed { speed: told.speed, low: told.low, basis: SpeedBasis::Forecast, fits })
        };
        let without = || forecast(self.without.get(at).and_then(Option::as_ref));
        let result = match belief {
            SpeedBelief::Measured => measured,
            SpeedBelief::BestKnown => measured.or_else(|| {
                let told = forecast(self.all.as_ref())?;
                Some(self.between_measured(at, profile, told))
            }),
            SpeedBelief::ForecastQuantile => without(),
            SpeedBelief::ForecastMean => without().map(|told| MigSpeed { low: told.speed, ..told }),
            SpeedBelief::ShareOfSms => {
                let name = self.gpu.profiles.get(profile).map_or("", |profile| profile.name);
                let share = self.table.share_of_sms(name);
                share.map(|share| MigSpeed { fits, ..sure(share, SpeedBasis::Forecast) })
            }
        };
        result.unwrap_or(MigSpeed::NOTHING)
    }

    /// All job types of the demand on all profiles.
    pub fn speeds(&self, belief: SpeedBelief) -> Vec<Vec<MigSpeed>> {
        let of = |at: usize| (0..self.gpu.profiles.len()).map(|profile| self.speed(at, profile, belief)).collect();
        (0..self.jobs.len()).map(of).collect()
    }
}
