//! Speed on a slice of a GPU (MIG), from what the job takes of the whole.
//!
//! A slice `3g.20gb` has three of seven parts of the SMs, and 20 of 40 GB with as much of the memory's bandwidth. With f the geometric mean of both shares
//! and q how far the job fills the whole GPU, a step takes (1 + (q / f)²)^½ in units of what is not limited by the GPU, so the speed relative to the whole is
//!
//! ```text
//! speed(f) = ((1 + q²) / (1 + (q / f)²))^½
//! ```
//!
//! near 1 for a job that hardly fills the GPU, and near f for one that fills it. The whole is the largest slice that was measured, with a note where that has
//! fewer than seven parts. ln q is a constant and a slope ≥ 0 for each of SM utilisation, memory
//! utilisation and power, by least squares held to 0 a little, each family of jobs with the same weight: more load never makes a slice look faster, and a
//! larger slice is never slower. The 80 and 90 % intervals are where families left out in training were missed.
//!
//! A [`SliceForecaster`] says for any slice what is expected, and what is reached with a chance of 90 %: families that were left out fell short of the
//! forecast by no more than the difference, nine times of ten.
//!
//! Read are MISO's tables: `model,batch,mig_profile,step_s_median` and `model,batch,sm_util_pct,mem_util_pct,power_w,…` ([`super::read`]). Naive is the
//! share of SMs. O(jobs) a fit, O(families × jobs) a forecaster. Worked number: at q = 1 on `3g.20gb`, f = √(3/7 × 1/2) = 0.46 and the speed (2 / (1 + 4.67))^½ = 0.59.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use tracecast_analytics::stats::quantile::weighted_quantile;
use tracecast_analytics::stats::sum;

use super::cholesky::Square;
use super::read::{MISO_GPU, miso_job, read_profiles};
use super::table::{Quantity, SharingTable, distinct};
use crate::error::{Error, Result};
use crate::sheet::{Sheet, text};

mod saved;

pub use saved::{SliceBasis, SlicePredictor, SliceSpeed};

/// Parts that the SMs of a GPU are cut into.
const PARTS: f64 = 7.0;
/// Loads that fill a GPU.
const FILLED_BY: [Quantity; 3] = [Quantity::SmUtilPct, Quantity::MemUtilPct, Quantity::PowerW];
/// Weight that holds slopes to 0, in units of a family's weight.
const HOLD: f64 = 0.05;
/// Families without which no forecast is tested or made.
const LEAST_FAMILIES: usize = 3;
/// Fillings that are tried for a job with known speeds: ln q from −4 to 4.
const TRIED: i32 = 400;

/// A MIG profile: its parts of the SMs and its memory.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Slice {
    parts: f64,
    memory_gb: f64,
}

impl Slice {
    /// Parses a name such as `3g.20gb`.
    fn new(name: &str) -> Option<Self> {
        let (parts, memory) = name.split_once("g.")?;
        let parts: f64 = parts.parse().ok()?;
        let memory_gb: f64 = memory.strip_suffix("gb")?.parse().ok()?;
        (parts > 0.0 && parts <= PARTS && memory_gb > 0.0).then_some(Self { parts, memory_gb })
    }

    /// Share of the SMs of a whole GPU.
    fn of_sms(self, whole: Self) -> f64 {
        self.parts / whole.parts
    }

    /// Geometric mean of its shares of the SMs and of the memory of a whole.
    fn share(self, whole: Self) -> f64 {
        (self.of_sms(whole) * (self.memory_gb / whole.memory_gb).min(1.0)).sqrt()
    }
}

/// Names of slices, the smallest first, each once.
fn names(slices: impl Iterator<Item = Slice>) -> Vec<String> {
    let mut all: Vec<Slice> = slices.collect();
    all.sort_by(|a, b| a.parts.total_cmp(&b.parts).then(a.memory_gb.total_cmp(&b.memory_gb)));
    all.dedup();
    all.iter().map(|slice| format!("{}g.{}gb", slice.parts, slice.memory_gb)).collect()
}

/// Measured speed of one job type on one slice.
#[derive(Debug, Clone, PartialEq)]
struct OnSlice {
    job: usize,
    slice: Slice,
    speed: f64,
}

/// Speeds of job types on slices, with their profiles.
#[derive(Debug, Clone)]
pub struct SliceTable {
    table: SharingTable,
    rows: Vec<OnSlice>,
    whole: Slice,
}

/// Whether a file is a table of step times on slices.
///
/// # Errors
/// If it cannot be read.
pub fn is_slices(path: &Path) -> Result<bool> {
    let content = text(path)?;
    Ok(!content.trim_start().starts_with('{') && Sheet::open(path, &content)?.has(&["mig_profile", "step_s_median"]))
}

impl SliceTable {
    /// Reads step times on slices, and profiles of the same job types on the whole GPU.
    ///
    /// # Errors
    /// If a file is not what it should be, or no job has a step time on the largest slice.
    pub fn read(steps: &Path, profiles: &Path) -> Result<Self> {
        let mut table = SharingTable::new();
        read_profiles(profiles, &mut table)?;
        table.gpu_type(MISO_GPU);
        let content = text(steps)?;
        let mut told: Vec<(usize, Slice, f64)> = Vec::new();
        let mut strange: BTreeMap<String, usize> = BTreeMap::new();
        Sheet::open(steps, &content)?.rows(|row| {
            let job = table.job(&miso_job(row.name("model")?, row.name("batch")?));
            let name = row.name("mig_profile")?;
            // Such as `1g.10gb+me`, whose share of the SMs does not say all that it has.
            let Some(slice) = Slice::new(name) else {
                *strange.entry(name.to_owned()).or_default() += 1;
                return Ok(());
            };
            if let Some(step_s) = row.number("step_s_median")?.filter(|step_s| *step_s > 0.0) {
                told.push((job, slice, step_s));
            }
            Ok(())
        })?;
        let file = steps.display();
        let names = strange.keys().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let larger = |a: &Slice, b: &Slice| a.parts.total_cmp(&b.parts).then(a.memory_gb.total_cmp(&b.memory_gb));
        let whole = told.iter().map(|(_, slice, _)| *slice).max_by(larger).ok_or_else(|| {
            Error::TooFew(if strange.is_empty() {
                format!("{file}: there is no step time in it; name a table of step times on slices")
            } else {
                format!("{file}: every step time is on a profile that is not known ({names}); name slices as NVIDIA does, such as 3g.20gb")
            })
        })?;
        if !strange.is_empty() {
            let passed = strange.values().sum::<usize>();
            table.notes.push(format!("{file}: {passed} rows on profiles that are not known are passed over: {names}."));
        }
        if whole.parts < PARTS {
            table.notes.push(format!(
                "{file}: the largest slice has {} of {PARTS} parts: speeds are relative to it, and not to the whole GPU.",
                whole.parts
            ));
        }
        let alone = |job: usize| told.iter().find(|(of, slice, _)| *of == job && *slice == whole).map(|told| told.2);
        let rows: Vec<OnSlice> = told
            .iter()
            .filter(|(_, slice, _)| *slice != whole)
            .filter_map(|(job, slice, step_s)| Some(OnSlice { job: *job, slice: *slice, speed: alone(*job)? / step_s }))
            .collect();
        if rows.is_empty() {
            return Err(Error::TooFew(format!(
                "{}: no job type has step times on the whole GPU and on a slice",
                steps.display()
            )));
        }
        Ok(Self { table, rows, whole })
    }

    /// Notes on the data for readers, a sentence each.
    pub fn notes(&self) -> &[String] {
        &self.table.notes
    }

    /// Job types, those of which only the profile is known as well.
    pub fn jobs(&self) -> &[String] {
        self.table.jobs()
    }

    /// The place of a job type.
    pub fn job(&self, name: &str) -> Option<usize> {
        self.table.jobs().iter().position(|known| known == name)
    }

    /// Name of the family of a job type.
    pub fn family(&self, job: usize) -> &str {
        self.table.families().get(self.table.family(job)).map_or("", String::as_str)
    }

    /// Memory that a job type uses on the whole GPU, MB, if that is known.
    pub fn memory_mb(&self, job: usize) -> Option<f64> {
        self.table.profile(0, job).get(Quantity::MemoryMb)
    }

    /// Whether speeds are relative to a slice with all parts of the SMs.
    pub fn is_of_whole_gpu(&self) -> bool {
        self.whole.parts >= PARTS
    }

    /// Names of the slices that were measured, the whole included, the smallest first.
    pub fn slices(&self) -> Vec<String> {
        names(self.rows.iter().map(|row| row.slice).chain([self.whole]))
    }

    /// Speed of a job type on a slice as it was measured, relative to the whole; `None` if it was not.
    pub fn measured(&self, job: usize, slice: &str) -> Option<f64> {
        let slice = Slice::new(slice)?;
        let mut rows = self.rows.iter().filter(|row| row.job == job);
        if slice == self.whole {
            return rows.next().map(|_| 1.0);
        }
        rows.find(|row| row.slice == slice).map(|row| row.speed)
    }

    /// Share of the SMs that a slice has of the whole: what naive rules take for its speed.
    pub fn share_of_sms(&self, slice: &str) -> Option<f64> {
        Slice::new(slice).map(|slice| slice.of_sms(self.whole))
    }

    /// Families with speeds on slices.
    fn families(&self) -> Vec<usize> {
        distinct(self.rows.iter().map(|row| self.table.family(row.job)))
    }

    fn known(&self, job: usize) -> [Option<f64>; 3] {
        FILLED_BY.map(|quantity| self.table.profile(0, job).get(quantity))
    }
}

/// Speed on a slice of share `share` of a job that fills the GPU by `filling`.
fn speed(filling: f64, share: f64) -> f64 {
    ((1.0 + filling * filling) / (1.0 + (filling / share).powi(2))).sqrt()
}

/// The predictor of speeds on slices, trained.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SliceModel {
    constant: f64,
    /// Slopes of [`FILLED_BY`], for shares of the largest known value.
    slopes: [f64; 3],
    wholes: [f64; 3],
    usual: [f64; 3],
    whole: Slice,
}

impl SliceModel {
    /// Trains on the job types that `teaches` marks.
    fn train(slices: &SliceTable, teaches: impl Fn(usize) -> bool) -> Option<Self> {
        let table = &slices.table;
        let jobs = distinct(slices.rows.iter().map(|row| row.job).filter(|job| teaches(*job)));
        let known = |job: usize| FILLED_BY.map(|quantity| table.profile(0, job).get(quantity));
        let mut wholes = FILLED_BY.map(|quantity| if quantity.is_percent() { 100.0 } else { 0.0 });
        for job in &jobs {
            for (whole, value) in wholes.iter_mut().zip(known(*job)) {
                *whole = f64::max(*whole, value.unwrap_or_default());
            }
        }
        let mut out = Self { constant: 0.0, slopes: [0.0; 3], wholes, usual: [0.5; 3], whole: slices.whole };
        for (at, usual) in out.usual.iter_mut().enumerate() {
            let values: Vec<f64> = jobs
                .iter()
                .filter_map(|job| known(*job).get(at).copied().flatten())
                .zip(std::iter::repeat(wholes.get(at).copied().unwrap_or(1.0)))
                .map(|(value, whole)| value / whole.max(1e-9))
                .collect();
            *usual = sum::mean(&values).unwrap_or(*usual);
        }
        let size = |job: usize| jobs.iter().filter(|other| table.family(**other) == table.family(job)).count() as f64;
        let rows: Vec<([f64; 4], f64, f64)> = jobs
            .iter()
            .map(|job| {
                let [a, b, c] = out.loads(known(*job));
                ([1.0, a, b, c], filling(slices, *job).ln(), 1.0 / size(*job).max(1.0))
            })
            .collect();
        let mut free = vec![0, 1, 2, 3];
        loop {
            let mut normal = Square::zeros(4);
            let mut told = [0.0; 4];
            for at in 1..4 {
                normal.set(at, at, HOLD);
            }
            normal.set(0, 0, 1e-9);
            for (row, y, weight) in &rows {
                for (i, x) in row.iter().enumerate() {
                    for (j, other) in row.iter().enumerate() {
                        normal.add(i, j, weight * x * other);
                    }
                    if let Some(slot) = told.get_mut(i) {
                        *slot += weight * x * y;
                    }
                }
            }
            let wanted: Vec<f64> = free.iter().filter_map(|at| told.get(*at).copied()).collect();
            let result = normal.part(&free).factor()?.solve(&wanted);
            let kept: Vec<usize> =
                free.iter().zip(&result).filter(|(at, value)| **at == 0 || **value >= 0.0).map(|(at, _)| *at).collect();
            if kept.len() < free.len() {
                free = kept;
                continue;
            }
            for (at, value) in free.iter().zip(result) {
                match at.checked_sub(1).and_then(|at| out.slopes.get_mut(at)) {
                    Some(slope) => *slope = value,
                    None => out.constant = value,
                }
            }
            return Some(out);
        }
    }

    fn loads(&self, known: [Option<f64>; 3]) -> [f64; 3] {
        let mut out = self.usual;
        for ((slot, value), whole) in out.iter_mut().zip(known).zip(self.wholes) {
            if let Some(value) = value.filter(|_| whole > 0.0) {
                *slot = (value / whole).max(0.0);
            }
        }
        out
    }

    fn at(&self, known: [Option<f64>; 3], slice: Slice) -> f64 {
        let filled: f64 = self.loads(known).iter().zip(self.slopes).map(|(load, slope)| load * slope).sum();
        speed((self.constant + filled).clamp(-4.0, 4.0).exp(), slice.share(self.whole))
    }
}

/// The filling of a job type that its speeds on slices tell best.
fn filling(slices: &SliceTable, job: usize) -> f64 {
    let rows = || slices.rows.iter().filter(|row| row.job == job);
    let miss = |filling: f64| -> f64 {
        rows().map(|row| (speed(filling, row.slice.share(slices.whole)) - row.speed).abs()).sum()
    };
    let tried = (-TRIED..=TRIED).map(|at| (f64::from(at) / 100.0).exp());
    tried.min_by(|a, b| miss(*a).total_cmp(&miss(*b))).unwrap_or(1.0)
}

/// Score of a model of slices.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct SliceScore {
    /// Name.
    pub name: String,
    /// Mean absolute error of the speed relative to the whole GPU.
    pub mae: f64,
    /// Share of couples of slices of one job type, the whole GPU apart, that are put in the right order; none where there is no couple.
    pub ranked_right: Option<f64>,
    /// Share of speeds within the 90 % interval; none of the naive one, which has none.
    pub coverage90: Option<f64>,
}

/// Slices of a GPU, tested on families left out.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct SliceBacktest {
    /// GPU type.
    pub gpu_type: String,
    /// Families left out, one after the other.
    pub families: usize,
    /// Speeds scored.
    pub speeds: usize,
    /// Scores of the naive share of SMs, then of the predictor.
    pub models: Vec<SliceScore>,
}

/// A forecast of the speed on a slice, relative to the whole.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SliceForecast {
    /// Expected speed.
    pub speed: f64,
    /// Speed reached with a chance of 90 %; at least 0.
    pub low: f64,
}

/// A model of slices, and how far families that it did not know fell short of it.
#[derive(Debug, Clone)]
pub struct SliceForecaster {
    model: SliceModel,
    /// Shortfall from the forecast that nine of ten speeds of unknown families do not exceed.
    short: f64,
}

impl SliceForecaster {
    /// Learns from all families but that of `leaving`, if a job type is named there.
    ///
    /// # Errors
    /// If fewer than two families teach.
    pub fn train(slices: &SliceTable, leaving: Option<usize>) -> Result<Self> {
        let left = leaving.map(|job| slices.table.family(job));
        let teaches = |job: usize| Some(slices.table.family(job)) != left;
        let missed = Missed::new(slices, &teaches)?;
        let model = SliceModel::train(slices, teaches).ok_or_else(untaught)?;
        Ok(Self { model, short: missed.quantile(|miss| miss).max(0.0) })
    }

    /// The forecast for a job type on a slice such as `3g.20gb`; `None` if that is no slice. On the whole every speed is 1.
    pub fn forecast(&self, slices: &SliceTable, job: usize, slice: &str) -> Option<SliceForecast> {
        let slice = Slice::new(slice)?;
        if slice == slices.whole {
            return Some(SliceForecast { speed: 1.0, low: 1.0 });
        }
        let speed = self.model.at(slices.known(job), slice);
        Some(SliceForecast { speed, low: (speed - self.short).max(0.0) })
    }
}

fn untaught() -> Error {
    Error::Learner { learner: "speed on slices", reason: "the profiles do not differ".to_owned() }
}

/// Forecast less speed of families that were left out in turn, each family with the same weight.
struct Missed {
    misses: Vec<f64>,
    weights: Vec<f64>,
    families: usize,
}

impl Missed {
    /// Errors on the families that `teaches` marks.
    fn new(slices: &SliceTable, teaches: &dyn Fn(usize) -> bool) -> Result<Self> {
        let taught = slices.rows.iter().filter(|row| teaches(row.job));
        let families = distinct(taught.map(|row| slices.table.family(row.job)));
        if families.len() + 1 < LEAST_FAMILIES {
            return Err(too_few(families.len()));
        }
        let (mut misses, mut weights) = (Vec::new(), Vec::new());
        for left in &families {
            let model = SliceModel::train(slices, |job| teaches(job) && slices.table.family(job) != *left)
                .ok_or_else(untaught)?;
            let here: Vec<&OnSlice> = slices.rows.iter().filter(|row| slices.table.family(row.job) == *left).collect();
            let weight = 1.0 / here.len().max(1) as f64;
            misses.extend(here.iter().map(|row| model.at(slices.known(row.job), row.slice) - row.speed));
            weights.resize(misses.len(), weight);
        }
        Ok(Self { misses, weights, families: families.len() })
    }

    /// The 0.9 quantile of what is made of the misses, wider by as much as one family more would have been worth.
    fn quantile(&self, of: fn(f64) -> f64) -> f64 {
        let made: Vec<f64> = self.misses.iter().copied().map(of).collect();
        let wider = (self.families + 1) as f64 / self.families as f64;
        weighted_quantile(&made, &self.weights, 0.9).unwrap_or_default() * wider
    }
}

fn too_few(families: usize) -> Error {
    Error::TooFew(format!("{families} families are too few to leave one out; measure three"))
}

/// Tests the predictor of speeds on slices, each family left out in turn.
///
/// # Errors
/// If there are fewer than three families.
pub fn backtest(slices: &SliceTable) -> Result<SliceBacktest> {
    let families = slices.families();
    if families.len() < LEAST_FAMILIES {
        return Err(too_few(families.len()));
    }
    let mut told = vec![0.0; slices.rows.len()];
    let mut held = 0usize;
    for left in &families {
        let others = |job: usize| slices.table.family(job) != *left;
        let model = SliceModel::train(slices, others).ok_or_else(untaught)?;
        let reach = Missed::new(slices, &others)?.quantile(f64::abs);
        for (row, told) in slices.rows.iter().zip(&mut told).filter(|(row, _)| !others(row.job)) {
            *told = model.at(slices.known(row.job), row.slice);
            held += usize::from((row.speed - *told).abs() <= reach);
        }
    }
    let naive: Vec<f64> = slices.rows.iter().map(|row| row.slice.of_sms(slices.whole)).collect();
    let count = slices.rows.len() as f64;
    let score = |name: &str, told: &[f64], coverage90: Option<f64>| SliceScore {
        name: name.to_owned(),
        mae: slices.rows.iter().zip(told).map(|(row, told)| (row.speed - told).abs()).sum::<f64>() / count,
        ranked_right: ranked(slices, told),
        coverage90,
    };
    let models = vec![score("share_of_sms", &naive, None), score("filling", &told, Some(held as f64 / count))];
    Ok(SliceBacktest {
        gpu_type: slices.table.gpu_types().first().cloned().unwrap_or_default(),
        families: families.len(),
        speeds: slices.rows.len(),
        models,
    })
}

/// Share of couples of slices of one job type that are in the right order; `None` where there is no couple.
///
/// The whole GPU is in none: that it is the fastest needs no model.
fn ranked(slices: &SliceTable, told: &[f64]) -> Option<f64> {
    let (mut right, mut all) = (0u32, 0u32);
    for (at, (row, said)) in slices.rows.iter().zip(told).enumerate() {
        for (other, other_said) in slices.rows.iter().zip(told).skip(at + 1).filter(|(other, _)| other.job == row.job) {
            all += 1;
            right += u32::from((row.speed < other.speed) == (*said < *other_said));
        }
    }
    sum::share(f64::from(right), f64::from(all))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(super) mod tests {
    use super::super::table::JobProfile;
    use super::*;
    use crate::sheet::tests::file;

    #[test]
    fn the_worked_number_and_its_limits() {
        let slice = Slice::new("3g.20gb").unwrap();
        let whole = Slice::new("7g.40gb").unwrap();
        let share = slice.share(whole);
        assert!((share - (3.0 / 14.0f64).sqrt()).abs() < 1e-12 && (speed(1.0, share) - 0.594).abs() < 1e-3);
        assert!(speed(1e-6, share) > 0.999 && (speed(1e6, share) - share).abs() < 1e-6);
        // The whole has speed 1, also where it is no seven parts.
        let four = Slice::new("4g.20gb").unwrap();
        assert!((four.share(four) - 1.0).abs() < 1e-12 && (speed(3.0, four.share(four)) - 1.0).abs() < 1e-12);
        assert!(Slice::new("full").is_none() && Slice::new("9g.80gb").is_none() && Slice::new("1g.10gb+me").is_none());
    }

    /// Step times of five models at two batch sizes that fill the GPU by their memory utilisation, and profiles.
    pub(in crate::interference) fn world() -> (tempfile::NamedTempFile, tempfile::NamedTempFile) {
        let (mut steps, mut profiles) =
            ("model,batch,mig_profile,step_s_median\n".to_owned(), "model,batch,mem_util_pct,memory_mb\n".to_owned());
        for model in 0..5 {
            for batch in [8, 16] {
                let load = f64::from(model * 16 + batch);
                profiles += &format!("m{model},{batch},{load},{}\n", 100.0 * load);
                for name in ["1g.5gb", "3g.20gb", "7g.40gb"] {
                    let share = Slice::new(name).unwrap().share(Slice::new("7g.40gb").unwrap());
                    steps += &format!("m{model},{batch},{name},{}\n", 1.0 / speed((load / 40.0 - 1.0).exp(), share));
                }
            }
        }
        (file(&steps), file(&profiles))
    }

    #[test]
    fn what_was_measured_and_what_is_forecast() {
        let (steps, profiles) = world();
        let slices = SliceTable::read(steps.path(), profiles.path()).unwrap();
        assert_eq!(slices.slices(), ["1g.5gb", "3g.20gb", "7g.40gb"]);
        assert!(slices.is_of_whole_gpu() && slices.job("m9 (batch size 8)").is_none());
        let job = slices.job("m2 (batch size 16)").unwrap();
        assert_eq!((slices.family(job), slices.memory_mb(job)), ("m2", Some(4800.0)));
        let share = Slice::new("3g.20gb").unwrap().share(slices.whole);
        let truth = speed(0.2f64.exp(), share);
        assert!((slices.measured(job, "3g.20gb").unwrap() - truth).abs() < 1e-9);
        assert_eq!((slices.measured(job, "7g.40gb"), slices.measured(job, "2g.10gb")), (Some(1.0), None));
        assert!((slices.share_of_sms("3g.20gb").unwrap() - 3.0 / 7.0).abs() < 1e-12);
        // Without its family, and of a slice that nobody measured: below the larger one, and cautious.
        let forecaster = SliceForecaster::train(&slices, Some(job)).unwrap();
        let of = |slice: &str| forecaster.forecast(&slices, job, slice).unwrap();
        assert!((of("3g.20gb").speed - truth).abs() < 0.05, "{:?}", of("3g.20gb"));
        assert!(of("2g.10gb").speed < of("3g.20gb").speed && of("3g.20gb").low <= of("3g.20gb").speed);
        assert_eq!(of("7g.40gb"), SliceForecast { speed: 1.0, low: 1.0 });
        assert!(forecaster.forecast(&slices, job, "half").is_none());
    }

    #[test]
    fn a_saved_predictor_answers_as_measured_else_from_what_is_known_and_load_never_helps() {
        let (steps, profiles) = world();
        let slices = SliceTable::read(steps.path(), profiles.path()).unwrap();
        let trained = SlicePredictor::train(&slices).unwrap();
        let saved: SlicePredictor = serde_json::from_str(&serde_json::to_string(&trained).unwrap()).unwrap();
        assert!(saved.is_sound() && saved.slices() == slices.slices() && saved.speeds() == 20);
        let none = JobProfile::default();
        let told = |job: &str, seen: &JobProfile, slice: &str| saved.speed(job, None, seen, slice).unwrap();
        let known = "m2 (batch size 16)";
        let measured = slices.measured(slices.job(known).unwrap(), "3g.20gb").unwrap();
        let result = told(known, &none, "3g.20gb");
        assert!((result.speed - measured).abs() < 1e-9 && result.basis == SliceBasis::Measured);
        assert_eq!((result.memory_suffices, told(known, &none, "1g.5gb").memory_suffices), (Some(true), Some(true)));
        assert_eq!(told("m4 (batch size 16)", &none, "2g.5gb").memory_suffices, Some(false));
        // Not measured: between its neighbours.
        let (low, middle) = (told(known, &none, "1g.5gb"), told(known, &none, "2g.10gb"));
        assert!(low.speed <= middle.speed && middle.speed <= result.speed && middle.basis == SliceBasis::Profile);
        assert_eq!(told(known, &none, "7g.40gb").speed, 1.0);
        assert!(saved.speed(known, None, &none, "half").is_none());
        // A further job type of a family, one of which utilisation was seen, and one of which nothing is known: that may fill the GPU.
        let of_family = told("m2 (batch size 999)", &none, "3g.20gb");
        let seen = told("new", &JobProfile::default().with(Quantity::MemUtilPct, 48.0), "3g.20gb");
        let nothing = told("new", &none, "3g.20gb");
        assert_eq!(
            [of_family.basis, seen.basis, nothing.basis],
            [SliceBasis::Family, SliceBasis::Seen, SliceBasis::Nothing]
        );
        assert!(
            (seen.speed - measured).abs() < 0.05 && nothing.p10 < of_family.p10 && nothing.memory_suffices.is_none()
        );
        for job in [known, "m2", "new"] {
            for slice in ["1g.5gb", "2g.10gb", "3g.20gb", "7g.40gb"] {
                let mut before: Option<SliceSpeed> = None;
                for load in [0.0, 20.0, 60.0, 100.0] {
                    let now = told(job, &JobProfile::default().with(Quantity::MemUtilPct, load), slice);
                    assert!(now.speed.is_finite() && now.speed > 0.0 && (0.0..=now.speed).contains(&now.p10));
                    assert!(
                        before.is_none_or(|before| now.speed <= before.speed + 1e-12 && now.p10 <= before.p10 + 1e-12)
                    );
                    before = Some(now);
                }
            }
        }
    }

    #[test]
    fn a_world_of_fillings_is_learned() {
        let (steps, profiles) = world();
        assert!(is_slices(steps.path()).unwrap() && !is_slices(profiles.path()).unwrap());
        let result = backtest(&SliceTable::read(steps.path(), profiles.path()).unwrap()).unwrap();
        assert_eq!((result.families, result.speeds), (5, 20));
        assert!(result.models[1].mae < result.models[0].mae / 2.0, "{result:?}");
        // Both models know that more is faster: the order tells them apart nowhere.
        assert_eq!([result.models[0].ranked_right, result.models[1].ranked_right], [Some(1.0), Some(1.0)]);
        let wrong = file("model,batch,mig_profile,step_s_median\nm,1,half,1\n");
        let told = SliceTable::read(wrong.path(), profiles.path()).unwrap_err().to_string();
        assert!(told.contains("not known (`half`); name slices as NVIDIA does"), "{told}");
        let mixed = file(
            "model,batch,mig_profile,step_s_median\nm1,8,4g.20gb,1\nm1,8,1g.10gb+me,2\nm1,8,1g.5gb,3\nm1,8,2g.10gb,2\n",
        );
        let slices = SliceTable::read(mixed.path(), profiles.path()).unwrap();
        assert_eq!(slices.rows.len(), 2);
        let told = slices.notes().join("\n");
        assert!(told.contains("1 rows on profiles that are not known are passed over: `1g.10gb+me`"), "{told}");
        assert!(told.contains("has 4 of 7 parts: speeds are relative to it"), "{told}");
    }
}
