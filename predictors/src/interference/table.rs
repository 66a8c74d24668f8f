//! Table of what is known of sharing: job types alone on a GPU type, and pairs of them on one GPU.
//!
//! A **job type** is what is profiled, such as a model with a batch size; a **family** is what must be left out together when a model is tested, such as
//! the model at all batch sizes. Anything about a job type may be unknown; zero is a number. A pair has the normalised speeds of both jobs, or did not fit.
//! The order of a pair means nothing: the same pair in both orders, or twice, is one pair with the mean of its speeds; where these are far apart, a note says so. One that fitted
//! and did not is taken not to fit, as a job that is out of memory is lost, and another note counts these.
//!
//! Memory: a number for each quantity, GPU type and job type. Worked example: 26 job types on three GPU types in all orders are 2,028 rows of a file
//! and 3 × 26 × 27 / 2 = 1,053 pairs here.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::error::Result;
use crate::sheet::SheetRow;

/// Something known of a job type alone on a GPU type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Quantity {
    /// GPU (SM) utilisation, percent.
    SmUtilPct,
    /// Utilisation of the memory interface, percent.
    MemUtilPct,
    /// Share of time in which SMs had work, percent.
    SmActivePct,
    /// Share of time in which tensor cores worked, percent.
    TensorActivePct,
    /// Share of time in which DRAM was accessed, percent.
    DramActivePct,
    /// PCIe traffic, MB/s.
    PcieMbS,
    /// GPU memory used, MB.
    MemoryMb,
    /// Power drawn, watts.
    PowerW,
    /// Batch size.
    Batch,
    /// Floating-point operations of a step.
    Flops,
    /// Parameters of the model.
    Parameters,
    /// Bits of a number in the model: 32, 16, 8.
    PrecisionBits,
    /// Steps a second, alone.
    StepsPerS,
    /// Length of a step alone, seconds.
    StepTimeS,
    /// Memory of the GPU itself, MB: says on which GPU types two jobs can fit.
    GpuMemoryMb,
}

impl Quantity {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::SmUtilPct,
        Self::MemUtilPct,
        Self::SmActivePct,
        Self::TensorActivePct,
        Self::DramActivePct,
        Self::PcieMbS,
        Self::MemoryMb,
        Self::PowerW,
        Self::Batch,
        Self::Flops,
        Self::Parameters,
        Self::PrecisionBits,
        Self::StepsPerS,
        Self::StepTimeS,
        Self::GpuMemoryMb,
    ];

    /// Name of its column in a file of profiles.
    pub fn name(self) -> &'static str {
        match self {
            Self::SmUtilPct => "sm_util_pct",
            Self::MemUtilPct => "mem_util_pct",
            Self::SmActivePct => "sm_active_pct",
            Self::TensorActivePct => "tensor_active_pct",
            Self::DramActivePct => "dram_active_pct",
            Self::PcieMbS => "pcie_mb_s",
            Self::MemoryMb => "memory_mb",
            Self::PowerW => "power_w",
            Self::Batch => "batch",
            Self::Flops => "flops",
            Self::Parameters => "parameters",
            Self::PrecisionBits => "precision_bits",
            Self::StepsPerS => "steps_per_s",
            Self::StepTimeS => "step_time_s",
            Self::GpuMemoryMb => "gpu_memory_mb",
        }
    }

    /// The quantity of a column, also under other names in use.
    pub fn of_column(name: &str) -> Option<Self> {
        let known = |quantity: &Self| quantity.name() == name;
        Self::ALL.into_iter().find(known).or(match name {
            "gpu_util_pct" | "gpu_util" | "sm_util" | "utilization" => Some(Self::SmUtilPct),
            "mem_util" | "gmem_util" | "gmem_util_pct" => Some(Self::MemUtilPct),
            "memory_used" | "memory_used_mb" | "gmem_mb" | "gmem" => Some(Self::MemoryMb),
            "memory_total" | "memory_total_mb" => Some(Self::GpuMemoryMb),
            "batch_size" => Some(Self::Batch),
            _ => None,
        })
    }

    /// Whether it is a share of a whole, in percent.
    pub fn is_percent(self) -> bool {
        matches!(
            self,
            Self::SmUtilPct | Self::MemUtilPct | Self::SmActivePct | Self::TensorActivePct | Self::DramActivePct
        )
    }

    fn place(self) -> usize {
        Self::ALL.into_iter().position(|quantity| quantity == self).unwrap_or_default()
    }
}

/// Quantities of one job type alone on one GPU type.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct JobProfile {
    values: [Option<f64>; Quantity::ALL.len()],
}

impl JobProfile {
    /// The value of a quantity, if it is known.
    pub fn get(&self, quantity: Quantity) -> Option<f64> {
        self.values.get(quantity.place()).copied().flatten()
    }

    /// Sets or forgets a quantity; what is not finite is unknown.
    pub fn set(&mut self, quantity: Quantity, value: Option<f64>) {
        if let Some(slot) = self.values.get_mut(quantity.place()) {
            *slot = value.filter(|value| value.is_finite());
        }
    }

    /// Sets a quantity, and returns the profile.
    #[must_use]
    pub fn with(mut self, quantity: Quantity, value: f64) -> Self {
        self.set(quantity, Some(value));
        self
    }

    /// Steps a second alone, from whichever of the two was given.
    pub fn steps_per_s(&self) -> Option<f64> {
        let told = self.get(Quantity::StepsPerS);
        told.or_else(|| self.get(Quantity::StepTimeS).map(|s| 1.0 / s)).filter(|rate| *rate > 0.0 && rate.is_finite())
    }
}

/// Normalised speeds of a pair that fitted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Speeds {
    /// Speed of the first job.
    pub a: f64,
    /// Speed of the second job.
    pub b: f64,
}

/// Speed above which a value is a mistake: the measurement alone, or a column in other units.
const FASTEST: f64 = 10.0;

/// Speeds of one pair that are further apart than this are told.
const FAR: f64 = 0.1;

/// Share of the speed alone that a cell holds; `None` where it is empty or 0, as the job did not
/// fit.
///
/// # Errors
/// If it holds no number of at least 0, or one that is no such share.
pub(super) fn share_alone(row: &SheetRow<'_>, column: &str) -> Result<Option<f64>> {
    let speed = row.number(column)?;
    if let Some(fast) = speed.filter(|speed| *speed > FASTEST) {
        return Err(row.wrong(
            format!("column `{column}` holds {fast}, which is more than {FASTEST} times the speed alone"),
            "write speeds as shares of the speed alone, such as 0.85",
        ));
    }
    Ok(speed.filter(|speed| *speed > 0.0))
}

impl Speeds {
    /// The speeds in two cells of a row; `None` where both are empty or one is 0, as the pair did not fit.
    ///
    /// # Errors
    /// If one alone is empty, or a cell holds no number of at least 0, or one that is no share of the speed alone.
    pub(super) fn of(row: &SheetRow<'_>, columns: [&str; 2]) -> Result<Option<Self>> {
        let [one, other] = columns;
        if row.cell(one).is_empty() != row.cell(other).is_empty() {
            return Err(row.wrong("one of the two speeds is empty".to_owned(), "write both, or leave both empty"));
        }
        let [a, b] = columns.map(|column| share_alone(row, column));
        Ok(a?.zip(b?).map(|(a, b)| Self { a, b }))
    }
}

/// Two job types on one GPU, measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SharedPair {
    /// GPU type, a place in [`SharingTable::gpu_types`].
    pub gpu: usize,
    /// Job type, a place in [`SharingTable::jobs`]; not above `b`.
    pub a: usize,
    /// The other.
    pub b: usize,
    /// Speeds of both; `None` if they did not fit.
    pub speeds: Option<Speeds>,
}

/// Telemetry that a profile rests on, as the table that it was read from has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RestsOn {
    /// Jobs that were read.
    pub jobs: Option<String>,
    /// Readings of their GPUs.
    pub readings: Option<String>,
}

/// Results of each pair, by GPU type and job types.
type Measured = BTreeMap<(usize, usize, usize), Vec<Option<Speeds>>>;

/// All that is known of sharing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SharingTable {
    gpu_types: Vec<String>,
    jobs: Vec<String>,
    families: Vec<String>,
    family_of: Vec<usize>,
    profiles: BTreeMap<(usize, usize), JobProfile>,
    rests_on: BTreeMap<(usize, usize), RestsOn>,
    pairs: Vec<SharedPair>,
    /// Notes on the data for readers, a sentence each.
    pub notes: Vec<String>,
}

/// Places in order, each once.
pub(crate) fn distinct(places: impl IntoIterator<Item = usize>) -> Vec<usize> {
    let once: BTreeSet<usize> = places.into_iter().collect();
    once.into_iter().collect()
}

/// The name at a place; empty where there is none.
pub(super) fn name_at(names: &[String], place: usize) -> &str {
    names.get(place).map_or("", String::as_str)
}

/// The place of a name, which is added if it is new.
fn place(names: &mut Vec<String>, name: &str) -> usize {
    names.iter().position(|known| known == name).unwrap_or_else(|| {
        names.push(name.to_owned());
        names.len() - 1
    })
}

/// The family of a job type that nobody named one for: its name without a batch size in brackets.
///
/// Worked example: `ResNet-18 (batch size 16)` is of the family `ResNet-18`.
pub fn family_of_name(job: &str) -> &str {
    let cut = job.find("(batch size").or_else(|| job.find("(batch ")).unwrap_or(job.len());
    job.get(..cut).unwrap_or(job).trim_end()
}

/// The batch size that the name of a job type tells.
///
/// Worked example: `ResNet-18 (batch size 16)` tells 16.
pub(crate) fn batch_of_name(job: &str) -> Option<f64> {
    let (_, rest) = job.split_once("(batch size ")?;
    rest.strip_suffix(')')?.parse().ok()
}

impl SharingTable {
    /// An empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// GPU types.
    pub fn gpu_types(&self) -> &[String] {
        &self.gpu_types
    }

    /// Job types.
    pub fn jobs(&self) -> &[String] {
        &self.jobs
    }

    /// Families.
    pub fn families(&self) -> &[String] {
        &self.families
    }

    /// Family of a job type, a place in [`Self::families`].
    pub fn family(&self, job: usize) -> usize {
        self.family_of.get(job).copied().unwrap_or_default()
    }

    /// Profile of a job type alone on a GPU type; empty if none was given.
    pub fn profile(&self, gpu: usize, job: usize) -> JobProfile {
        self.profiles.get(&(gpu, job)).copied().unwrap_or_default()
    }

    /// Number of job types that have a profile on a GPU type.
    pub(super) fn profiles_on(&self, gpu: usize) -> usize {
        self.profiles.range((gpu, 0)..=(gpu, usize::MAX)).count()
    }

    /// Telemetry that this profile rests on; empty if none was given.
    pub fn rests_on(&self, gpu: usize, job: usize) -> RestsOn {
        self.rests_on.get(&(gpu, job)).cloned().unwrap_or_default()
    }

    /// Pairs, in order of GPU type and jobs.
    pub fn pairs(&self) -> &[SharedPair] {
        &self.pairs
    }

    /// Table without the pairs of a family; what is known of its jobs alone stays.
    #[must_use]
    pub(super) fn without_pairs_of(&self, family: usize) -> Self {
        let is_of = |job: usize| self.family(job) == family;
        let pairs = self.pairs.iter().filter(|pair| !is_of(pair.a) && !is_of(pair.b)).copied().collect();
        Self { pairs, ..self.clone() }
    }

    /// The place of a GPU type, added if it is new.
    pub fn gpu_type(&mut self, name: &str) -> usize {
        place(&mut self.gpu_types, name)
    }

    /// The place of a job type, added if it is new, with the family that its name tells.
    pub fn job(&mut self, name: &str) -> usize {
        let at = place(&mut self.jobs, name);
        if at == self.family_of.len() {
            let family = place(&mut self.families, family_of_name(name));
            self.family_of.push(family);
        }
        at
    }

    /// Adds a job type of a family, whatever its name tells; its place, or that of the one of that name.
    pub(super) fn job_of_family(&mut self, name: &str, family: &str) -> usize {
        let at = place(&mut self.jobs, name);
        let family = place(&mut self.families, family);
        if at == self.family_of.len() {
            self.family_of.push(family);
        }
        at
    }

    /// Says which family a job type is of.
    pub fn set_family(&mut self, job: usize, family: &str) {
        let family = place(&mut self.families, family);
        if let Some(slot) = self.family_of.get_mut(job) {
            *slot = family;
        }
    }

    /// Adds what is known of a job type alone; what was known and is not named anew stays.
    pub fn set_profile(&mut self, gpu: usize, job: usize, profile: &JobProfile) {
        let known = self.profiles.entry((gpu, job)).or_default();
        for quantity in Quantity::ALL {
            if let Some(value) = profile.get(quantity) {
                known.set(quantity, Some(value));
            }
        }
    }

    /// Says what telemetry a profile rests on; what was said and is not said anew stays.
    pub fn set_rests_on(&mut self, gpu: usize, job: usize, told: RestsOn) {
        if told == RestsOn::default() {
            return;
        }
        let known = self.rests_on.entry((gpu, job)).or_default();
        known.jobs = told.jobs.or_else(|| known.jobs.take());
        known.readings = told.readings.or_else(|| known.readings.take());
    }

    /// Adds pairs as they were measured. The same pair again, in either order, counts as one with the mean of its speeds; it did not fit if it ever did not. Notes count those
    /// whose speeds are far apart, and those that fitted and did not.
    pub fn add_pairs(&mut self, measured: impl IntoIterator<Item = SharedPair>) {
        let mut result = Measured::new();
        for pair in std::mem::take(&mut self.pairs).into_iter().chain(measured) {
            let turned = pair.speeds.map(|speeds| Speeds { a: speeds.b, b: speeds.a });
            let (a, b, speeds) =
                if pair.a <= pair.b { (pair.a, pair.b, pair.speeds) } else { (pair.b, pair.a, turned) };
            // Two of one kind are not told apart.
            let alike = |speeds: Speeds| {
                let mean = f64::midpoint(speeds.a, speeds.b);
                Speeds { a: mean, b: mean }
            };
            let speeds = if a == b { speeds.map(alike) } else { speeds };
            result.entry((pair.gpu, a, b)).or_default().push(speeds);
        }
        self.notes.extend(self.contradiction(&result));
        self.notes.extend(self.disagreement(&result));
        self.pairs = result
            .into_iter()
            .map(|((gpu, a, b), all)| {
                let ran: Option<Vec<Speeds>> = all.into_iter().collect();
                let speeds = ran.map(|ran| {
                    let mean = |of: fn(&Speeds) -> f64| ran.iter().map(of).sum::<f64>() / ran.len() as f64;
                    Speeds { a: mean(|s| s.a), b: mean(|s| s.b) }
                });
                SharedPair { gpu, a, b, speeds }
            })
            .collect();
    }

    /// Number of pairs that both fitted and did not, in a sentence; none if there is none.
    fn contradiction(&self, result: &Measured) -> Option<String> {
        let both = |all: &[Option<Speeds>]| all.iter().any(Option::is_some) && all.iter().any(Option::is_none);
        let (pairs, first) = self.such(result, both)?;
        Some(format!(
            "Pairs that stand once with speeds and once without, as if they fitted and did not: {pairs}, such as {first}. **They are taken not to fit**; keep the rows that are right."
        ))
    }

    /// Number of pairs measured again with other speeds, in a sentence; none if there is none.
    fn disagreement(&self, result: &Measured) -> Option<String> {
        let far = |all: &[Option<Speeds>]| {
            let spread = |of: fn(&Speeds) -> f64| {
                let ran = all.iter().flatten().map(of);
                let (least, most) = ran.fold((f64::MAX, 0.0f64), |(least, most), s| (least.min(s), most.max(s)));
                most - least
            };
            all.iter().all(Option::is_some) && spread(|s| s.a).max(spread(|s| s.b)) > FAR
        };
        let (pairs, first) = self.such(result, far)?;
        Some(format!(
            "Pairs that stand more than once, with speeds more than {FAR} apart: {pairs}, such as {first}. Each counts as one pair with the mean of its speeds."
        ))
    }

    /// Number of pairs whose measurements satisfy `is_so`, and one of them in words; none if there
    /// is none.
    fn such(&self, result: &Measured, is_so: impl Fn(&[Option<Speeds>]) -> bool) -> Option<(usize, String)> {
        let mut such = result.iter().filter(|(_, all)| is_so(all)).map(|(pair, _)| *pair);
        let (gpu, a, b) = such.next()?;
        let [a, b] = [a, b].map(|job| name_at(&self.jobs, job));
        let first = format!("{a} beside {b} on {}", name_at(&self.gpu_types, gpu));
        Some((1 + such.count(), first))
    }

    /// Table in order of names, with the families that have a job: what files name first must not
    /// matter.
    #[must_use]
    pub fn sorted(self) -> Self {
        let order = |names: &[String]| {
            let mut order: Vec<usize> = (0..names.len()).collect();
            order.sort_by(|a, b| names.get(*a).cmp(&names.get(*b)));
            order
        };
        let mut out = Self { notes: self.notes.clone(), ..Self::default() };
        for gpu in order(&self.gpu_types) {
            out.gpu_type(name_at(&self.gpu_types, gpu));
        }
        let by_name = order(&self.jobs);
        let mut used: Vec<String> =
            by_name.iter().map(|job| name_at(&self.families, self.family(*job)).to_owned()).collect();
        used.sort_unstable();
        used.dedup();
        out.families = used;
        for job in by_name {
            out.jobs.push(name_at(&self.jobs, job).to_owned());
            let family = place(&mut out.families, name_at(&self.families, self.family(job)));
            out.family_of.push(family);
        }
        let gpus: Vec<usize> = self.gpu_types.iter().map(|name| place(&mut out.gpu_types, name)).collect();
        let jobs: Vec<usize> = self.jobs.iter().map(|name| out.jobs.binary_search(name).unwrap_or_default()).collect();
        let at = |places: &[usize], old: usize| places.get(old).copied().unwrap_or_default();
        for ((gpu, job), profile) in &self.profiles {
            out.profiles.insert((at(&gpus, *gpu), at(&jobs, *job)), *profile);
        }
        for ((gpu, job), told) in self.rests_on {
            out.rests_on.insert((at(&gpus, gpu), at(&jobs, job)), told);
        }
        let moved = self.pairs.iter().map(|pair| SharedPair {
            gpu: at(&gpus, pair.gpu),
            a: at(&jobs, pair.a),
            b: at(&jobs, pair.b),
            speeds: pair.speeds,
        });
        let moved: Vec<SharedPair> = moved.collect();
        out.add_pairs(moved);
        out
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_in_both_orders_is_one() {
        let mut table = SharingTable::new();
        let gpu = table.gpu_type("v100");
        let (b, a) = (table.job("b (batch size 4)"), table.job("a"));
        assert_eq!(table.families(), ["b", "a"]);
        let pair = |a, b, x, y| SharedPair { gpu, a, b, speeds: Some(Speeds { a: x, b: y }) };
        table.add_pairs([pair(b, a, 0.5, 0.8), pair(a, b, 0.6, 0.7), pair(a, a, 0.4, 0.6)]);
        let table = table.sorted();
        assert_eq!(table.jobs(), ["a", "b (batch size 4)"]);
        assert_eq!(table.families(), ["a", "b"]);
        let pairs = table.pairs();
        assert_eq!(pairs.len(), 2);
        assert_eq!(pairs[0].speeds, Some(Speeds { a: 0.5, b: 0.5 }));
        let both = pairs[1].speeds.unwrap();
        assert!((both.a - 0.7).abs() < 1e-12 && (both.b - 0.6).abs() < 1e-12);
    }

    #[test]
    fn results_of_one_pair_that_are_far_apart_are_told() {
        let mut table = SharingTable::new();
        let (gpu, a, b) = (table.gpu_type("v100"), table.job("a"), table.job("b"));
        let pair = |a, b, x, y| SharedPair { gpu, a, b, speeds: Some(Speeds { a: x, b: y }) };
        // The one is a job beside its like, so both speeds are their mean.
        table.add_pairs([pair(a, b, 0.5, 0.8), pair(b, a, 0.8, 0.59), pair(a, a, 0.2, 0.9)]);
        assert!(table.notes.is_empty(), "{:?}", table.notes);
        table.add_pairs([pair(b, a, 0.6, 0.545), pair(a, a, 0.3, 0.3)]);
        assert!(table.notes[0].contains("0.1 apart: 2, such as a beside a on v100."), "{:?}", table.notes);
    }

    /// Regression test: a row with speeds hid one that had run out of memory.
    #[test]
    fn a_pair_that_fitted_and_did_not_is_told_and_taken_not_to_fit() {
        let mut table = SharingTable::new();
        let (gpu, a, b) = (table.gpu_type("v100"), table.job("a"), table.job("b"));
        let speeds = Some(Speeds { a: 0.9, b: 0.5 });
        let pair = |a, b, speeds| SharedPair { gpu, a, b, speeds };
        table.add_pairs([pair(a, b, speeds), pair(a, a, speeds), pair(b, a, None), pair(b, b, None)]);
        let fits: Vec<bool> = table.pairs().iter().map(|pair| pair.speeds.is_some()).collect();
        assert_eq!(fits, [true, false, false]);
        let [note] = table.notes.as_slice() else { unreachable!("{:?}", table.notes) };
        assert!(note.contains("fitted and did not: 1, such as a beside b on v100."), "{note}");
        // Putting the table in order tells it no second time.
        assert_eq!(table.sorted().notes.len(), 1);
    }

    #[test]
    fn unknown_is_unknown_and_what_was_known_stays() {
        let mut table = SharingTable::new();
        let (gpu, job) = (table.gpu_type("k80"), table.job("x"));
        table.set_profile(gpu, job, &JobProfile::default().with(Quantity::StepTimeS, 0.25));
        table.set_profile(gpu, job, &JobProfile::default().with(Quantity::SmUtilPct, 0.0));
        let profile = table.profile(gpu, job);
        assert_eq!((profile.steps_per_s(), profile.get(Quantity::SmUtilPct)), (Some(4.0), Some(0.0)));
        assert_eq!(profile.get(Quantity::MemoryMb), None);
        assert_eq!(table.profile(7, 7), JobProfile::default());
        assert_eq!(Quantity::of_column("gpu_util"), Some(Quantity::SmUtilPct));
    }
}
