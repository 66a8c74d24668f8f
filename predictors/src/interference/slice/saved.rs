//! Speeds on slices as a model file keeps them: what was measured, and a forecast for all else.
//!
//! A job is known by its job type, else by its family, with the mean loads of its job types, else by what was seen of it. Of one of which nothing is known the forecast is that of usual loads, and what is reached with a chance of 90 %
//! is found as if it filled the GPU. A slice on which the job type was **measured** is answered as it was; where loads were seen, it is moved by as much as they move the forecast. Other slices of such a job type lie between smaller and
//! larger ones that were measured.
//!
//! O(job types + measured speeds) an answer. Worked number: 0.60 was measured on `3g.20gb` and 0.55 is forecast there; under the loads that were seen it is 0.50, and 0.55 is answered.

use serde::{Deserialize, Serialize};
use tracecast_analytics::stats::sum;

use super::super::table::{JobProfile, Quantity, family_of_name};
use super::{FILLED_BY, Missed, Slice, SliceModel, SliceTable, untaught};
use crate::error::Result;

/// Share of the memory in a slice's name that jobs can use, as NVIDIA's smallest profiles have it: 4,864 MiB of `1g.5gb`.
const USABLE: f64 = 0.95;
/// The slowest speed that is forecast.
const SLOWEST: f64 = 0.01;

/// Basis of a speed on a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SliceBasis {
    /// Nothing is known of the job.
    Nothing,
    /// Observed quantities of the job.
    Seen,
    /// Profiles of others of its family.
    Family,
    /// The profile of its job type.
    Profile,
    /// The job type was measured on the slice.
    Measured,
}

impl SliceBasis {
    /// Basis in words.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Seen => "what was seen",
            Self::Family => "profiles of its family",
            Self::Profile => "its profile",
            Self::Measured => "measured",
        }
    }
}

/// Speed of a job on a slice, as a share of its speed on the whole GPU.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct SliceSpeed {
    /// GPU type that was cut into slices.
    pub gpu_type: String,
    /// Job type.
    pub job: String,
    /// MIG profile.
    pub slice: String,
    /// Expected speed.
    pub speed: f64,
    /// Speed that is reached with a chance of 90 %; the measured one where it was measured.
    pub p10: f64,
    /// Whether the job was measured there, or the memory of the slice holds its memory on the whole
    /// GPU; null where that is not known.
    pub memory_suffices: Option<bool>,
    /// Basis of the speed.
    pub basis: SliceBasis,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct KnownJob {
    name: String,
    family: String,
    loads: [Option<f64>; 3],
    memory_mb: Option<f64>,
    /// Speeds on slices.
    measured: Vec<(Slice, f64)>,
}

/// Speeds on slices of one GPU type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SlicePredictor {
    gpu_type: String,
    model: SliceModel,
    /// Shortfall from the forecast that nine of ten speeds of unknown families do not exceed.
    short: f64,
    jobs: Vec<KnownJob>,
}

impl SlicePredictor {
    /// Learns from a whole table.
    ///
    /// # Errors
    /// If fewer than two families teach.
    pub fn train(slices: &SliceTable) -> Result<Self> {
        let all = |_: usize| true;
        let short = Missed::new(slices, &all)?.quantile(|miss| miss).max(0.0);
        let model = SliceModel::train(slices, all).ok_or_else(untaught)?;
        let of = |(job, name): (usize, &String)| KnownJob {
            name: name.clone(),
            family: slices.family(job).to_owned(),
            loads: slices.known(job),
            memory_mb: slices.memory_mb(job),
            measured: slices.rows.iter().filter(|row| row.job == job).map(|row| (row.slice, row.speed)).collect(),
        };
        Ok(Self {
            gpu_type: slices.table.gpu_types().first().cloned().unwrap_or_default(),
            model,
            short,
            jobs: slices.jobs().iter().enumerate().map(of).collect(),
        })
    }

    /// GPU type that was cut into slices.
    pub fn gpu_type(&self) -> &str {
        &self.gpu_type
    }

    /// Number of measured speeds.
    pub fn speeds(&self) -> usize {
        self.jobs.iter().map(|job| job.measured.len()).sum()
    }

    /// Slices that were measured, the whole included, the smallest first.
    pub fn slices(&self) -> Vec<String> {
        let measured = self.jobs.iter().flat_map(|job| job.measured.iter().map(|(slice, _)| *slice));
        super::names(measured.chain([self.model.whole]))
    }

    /// Whether all numbers are what they must be.
    pub(in super::super) fn is_sound(&self) -> bool {
        let slice = |slice: &Slice| slice.parts > 0.0 && slice.memory_gb > 0.0 && slice.memory_gb.is_finite();
        let positive = |value: &f64| value.is_finite() && *value > 0.0;
        let model = &self.model;
        let numbers = [self.short, model.constant].into_iter().chain(model.slopes).chain(model.wholes);
        numbers.chain(model.usual).all(f64::is_finite)
            && model.slopes.iter().all(|slope| *slope >= 0.0)
            && slice(&model.whole)
            && self.jobs.iter().flat_map(|job| &job.measured).all(|(of, speed)| slice(of) && positive(speed))
    }

    /// The speed of a job on each of some slices, on all that were measured if none is named.
    ///
    /// # Errors
    /// The name that is no slice.
    pub fn speeds_on(
        &self,
        job: &str,
        family: Option<&str>,
        seen: &JobProfile,
        named: &[String],
    ) -> std::result::Result<Vec<SliceSpeed>, String> {
        let all = if named.is_empty() { self.slices() } else { named.to_vec() };
        all.into_iter().map(|name| self.speed(job, family, seen, &name).ok_or(name)).collect()
    }

    /// The speed of a job on a slice such as `3g.20gb`, by its job type, its family where the name does not tell that, and what was seen of it; `None` if that is no slice.
    pub fn speed(&self, job: &str, family: Option<&str>, seen: &JobProfile, slice: &str) -> Option<SliceSpeed> {
        let of = Slice::new(slice)?;
        let known = self.jobs.iter().find(|known| known.name == job);
        let (usual, basis, memory_mb) = self.base(family.unwrap_or_else(|| family_of_name(job)), known);
        let seen = |quantity: Quantity| seen.get(quantity);
        let mut loads = usual;
        for (slot, quantity) in loads.iter_mut().zip(FILLED_BY) {
            *slot = seen(quantity).or(*slot);
        }
        let basis =
            if basis == SliceBasis::Nothing && loads.iter().any(Option::is_some) { SliceBasis::Seen } else { basis };
        let memory_mb = seen(Quantity::MemoryMb).or(memory_mb);
        let told = |speed: f64, p10: f64, basis: SliceBasis| SliceSpeed {
            gpu_type: self.gpu_type.clone(),
            job: job.to_owned(),
            slice: slice.to_owned(),
            speed,
            p10: p10.min(speed),
            memory_suffices: memory_mb.map(|mb| mb <= of.memory_gb * 1024.0 * USABLE),
            basis,
        };
        if of == self.model.whole {
            return Some(told(1.0, 1.0, known.map_or(basis, |_| SliceBasis::Measured)));
        }
        let forecast = self.model.at(loads, of);
        let measured = known.and_then(|known| known.measured.iter().find(|(on, _)| *on == of));
        if let Some((_, measured)) = measured {
            let speed = (measured + forecast - self.model.at(usual, of)).max(SLOWEST);
            // It fitted.
            return Some(SliceSpeed { memory_suffices: Some(true), ..told(speed, speed, SliceBasis::Measured) });
        }
        let (least, most) = known.map_or((0.0, 1.0), |known| known.around(of));
        let within = |speed: f64| speed.max(least).min(most);
        let low = if basis == SliceBasis::Nothing { of.share(self.model.whole) } else { forecast };
        Some(told(within(forecast).max(SLOWEST), within((low - self.short).max(0.0)), basis))
    }

    /// Known quantities of a job, apart from observed ones: loads, their basis, and memory.
    fn base(&self, family: &str, known: Option<&KnownJob>) -> ([Option<f64>; 3], SliceBasis, Option<f64>) {
        let anything = |loads: &[Option<f64>; 3]| loads.iter().any(Option::is_some);
        if let Some(known) = known.filter(|known| anything(&known.loads)) {
            return (known.loads, SliceBasis::Profile, known.memory_mb);
        }
        let members: Vec<&KnownJob> = self.jobs.iter().filter(|known| known.family == family).collect();
        let mut loads = [None; 3];
        for (at, slot) in loads.iter_mut().enumerate() {
            let values: Vec<f64> = members.iter().filter_map(|job| job.loads.get(at).copied().flatten()).collect();
            *slot = sum::mean(&values);
        }
        let basis = if anything(&loads) { SliceBasis::Family } else { SliceBasis::Nothing };
        (loads, basis, known.and_then(|known| known.memory_mb))
    }
}

impl KnownJob {
    /// Between which speeds one on a slice lies, by what was measured on smaller and larger ones.
    fn around(&self, of: Slice) -> (f64, f64) {
        let measured = |on: fn(Slice, Slice) -> bool| {
            self.measured.iter().filter(move |(other, _)| on(*other, of)).map(|(_, speed)| *speed)
        };
        let smaller = |other: Slice, of: Slice| other.parts <= of.parts && other.memory_gb <= of.memory_gb;
        let larger = |other: Slice, of: Slice| other.parts >= of.parts && other.memory_gb >= of.memory_gb;
        let most = measured(larger).fold(1.0, f64::min);
        // Measured speeds of neighbours may be the wrong way round by their noise.
        (measured(smaller).fold(0.0, f64::max).min(most), most)
    }
}
