//! A job type alone, as numbers: **traits** that say which jobs are alike, and **loads** that say how much of a GPU one takes.
//!
//! Traits are for likeness: jobs with like traits are expected to share alike, up or down. Of a job type on a GPU type (names in brackets: [`Trait`]):
//!
//! * natural log of steps a second (`Rate`), and the same less the mean of its family there (`RateInFamily`);
//! * log ratio of its steps a second on a GPU type to those on the next slower one (`Speedup`), for up to three pairs of neighbours; GPU types are in order
//!   of their mean log steps a second over the jobs that all of them ran;
//! * slope of log steps a second against log batch within its family (`Elasticity`): −1 where a step of twice the batch takes twice as long, 0 where it
//!   takes no longer;
//! * log batch less the family's mean, where no steps a second are known (`BatchInFamily`); log FLOPs, parameters, bits of precision.
//!
//! Traits are standardised over the jobs that teach, and an unknown one is 0, the mean. **Loads** are shares: utilisations of a whole, PCIe and power of the
//! largest known value. More load never makes a pair faster: `super::load` sees to that, and traits hold nothing that is a load.
//!
//! Worked number: at 16 and 32 samples a batch 35.9 and 17.9 steps a second are an elasticity of ln(17.9 / 35.9) / ln 2 = −1.0.

use tracecast_analytics::stats::sum;

use super::table::{JobProfile, Quantity, SharingTable};

/// Number of traits.
pub const TRAITS: usize = 10;
/// Most speed-ups between neighbouring GPU types.
const SPEEDUPS: usize = 3;
/// A standardised trait lies within this.
const FARTHEST: f64 = 3.0;

/// Loads of a job.
pub const LOADS: [Quantity; 7] = [
    Quantity::SmUtilPct,
    Quantity::MemUtilPct,
    Quantity::SmActivePct,
    Quantity::TensorActivePct,
    Quantity::DramActivePct,
    Quantity::PcieMbS,
    Quantity::PowerW,
];

/// Place of a trait in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trait {
    /// Log steps a second.
    Rate,
    /// Log steps a second less the family's mean.
    RateInFamily,
    /// Slope against log batch.
    Elasticity,
    /// The first of three log ratios between neighbouring GPU types.
    Speedup,
    /// Log batch less its family's mean.
    BatchInFamily,
    /// Log FLOPs.
    Flops,
    /// Log parameters.
    Parameters,
    /// Bits of precision.
    Precision,
}

impl Trait {
    fn place(self) -> usize {
        match self {
            Self::Rate => 0,
            Self::RateInFamily => 1,
            Self::Elasticity => 2,
            Self::Speedup => 3,
            Self::BatchInFamily => 3 + SPEEDUPS,
            Self::Flops => 4 + SPEEDUPS,
            Self::Parameters => 5 + SPEEDUPS,
            Self::Precision => 6 + SPEEDUPS,
        }
    }
}

/// Traits of one job, unknown ones `None`.
type Known = [Option<f64>; TRAITS];

/// Loads of one job, shares in the order of [`LOADS`]; unknown ones `None`.
pub type Loads = [Option<f64>; LOADS.len()];

/// Traits and loads of every job type alone, on every GPU type.
#[derive(Debug, Clone)]
pub struct Alone {
    /// Traits by GPU type and job.
    traits: Vec<Vec<Known>>,
    /// Loads by GPU type and job.
    loads: Vec<Vec<Loads>>,
    /// Full value of each load, by GPU type.
    wholes: Vec<[f64; LOADS.len()]>,
    /// Mean log steps a second by GPU type, over jobs known on all.
    pace: Vec<Option<f64>>,
}

/// Mean of some numbers; `None` of none.
/// Slopes of y against x at each point, as the mean difference quotient to its neighbours; points in order of x.
fn slopes(points: &[(f64, f64)]) -> Vec<Option<f64>> {
    let quotient = |one: Option<&(f64, f64)>, other: Option<&(f64, f64)>| {
        let ((x0, y0), (x1, y1)) = one.zip(other)?;
        (x1 > x0).then(|| (y1 - y0) / (x1 - x0))
    };
    (0..points.len())
        .map(|at| {
            let before = at.checked_sub(1).and_then(|before| quotient(points.get(before), points.get(at)));
            let after = quotient(points.get(at), points.get(at + 1));
            sum::mean(before.into_iter().chain(after))
        })
        .collect()
}

impl Alone {
    /// Traits and loads of the jobs of a table.
    pub fn new(table: &SharingTable) -> Self {
        let (gpus, jobs) = (table.gpu_types().len(), table.jobs().len());
        let log_rate = |gpu: usize, job: usize| table.profile(gpu, job).steps_per_s().map(f64::ln);
        let everywhere: Vec<usize> =
            (0..jobs).filter(|job| (0..gpus).all(|gpu| log_rate(gpu, *job).is_some())).collect();
        let pace: Vec<Option<f64>> =
            (0..gpus).map(|gpu| sum::mean(everywhere.iter().filter_map(|job| log_rate(gpu, *job)))).collect();
        let mut by_pace: Vec<usize> = (0..gpus).collect();
        by_pace.sort_by(|a, b| {
            pace.get(*a).partial_cmp(&pace.get(*b)).unwrap_or(std::cmp::Ordering::Equal).then(a.cmp(b))
        });
        let mut traits = vec![vec![Known::default(); jobs]; gpus];
        for (gpu, traits) in traits.iter_mut().enumerate() {
            for (job, known) in traits.iter_mut().enumerate() {
                let profile = table.profile(gpu, job);
                let mut put = |at: usize, value: Option<f64>| {
                    if let Some(slot) = known.get_mut(at) {
                        *slot = value.filter(|value| value.is_finite());
                    }
                };
                let log = |quantity| profile.get(quantity).filter(|value| *value > 0.0).map(f64::ln);
                put(Trait::Rate.place(), log_rate(gpu, job));
                for (at, neighbours) in by_pace.windows(2).take(SPEEDUPS).enumerate() {
                    if let [slow, fast] = neighbours {
                        let ratio = log_rate(*fast, job).zip(log_rate(*slow, job)).map(|(fast, slow)| fast - slow);
                        put(Trait::Speedup.place() + at, ratio);
                    }
                }
                put(Trait::Flops.place(), log(Quantity::Flops));
                put(Trait::Parameters.place(), log(Quantity::Parameters));
                put(Trait::Precision.place(), profile.get(Quantity::PrecisionBits));
            }
            within_families(table, gpu, traits);
        }
        let wholes: Vec<[f64; LOADS.len()]> = (0..gpus).map(|gpu| wholes(table, gpu)).collect();
        let of_gpu = |(gpu, whole): (usize, &[f64; LOADS.len()])| {
            (0..jobs).map(|job| shares(&table.profile(gpu, job), whole)).collect()
        };
        let loads = wholes.iter().enumerate().map(of_gpu).collect();
        Self { traits, loads, wholes, pace }
    }

    /// Mean log steps a second of a GPU type over the jobs known on all; `None` if there is none.
    pub fn pace(&self, gpu: usize) -> Option<f64> {
        self.pace.get(gpu).copied().flatten()
    }

    /// Loads of a job type.
    pub fn loads(&self, gpu: usize, job: usize) -> Loads {
        self.loads.get(gpu).and_then(|jobs| jobs.get(job)).copied().unwrap_or_default()
    }

    /// Loads of a profile on a GPU type.
    pub fn loads_of(&self, gpu: usize, profile: &JobProfile) -> Loads {
        self.wholes.get(gpu).map_or_else(Loads::default, |whole| shares(profile, whole))
    }

    /// Traits of a job type as they are, unknown ones `None`.
    pub fn traits(&self, gpu: usize, job: usize) -> [Option<f64>; TRAITS] {
        self.traits.get(gpu).and_then(|jobs| jobs.get(job)).copied().unwrap_or_default()
    }

    /// Traits of all jobs on a GPU type, standardised over the jobs that teach, and which of them differ between these.
    pub fn standardised(&self, gpu: usize, teaches: &[bool]) -> (Vec<[f64; TRAITS]>, [bool; TRAITS]) {
        let rows = self.traits.get(gpu).map(Vec::as_slice).unwrap_or_default();
        let mut out = vec![[0.0; TRAITS]; rows.len()];
        let mut differ = [false; TRAITS];
        for (at, differs) in differ.iter_mut().enumerate() {
            let value = |row: &Known| row.get(at).copied().flatten();
            let taught = || rows.iter().zip(teaches).filter(|(_, teaches)| **teaches).filter_map(|(row, _)| value(row));
            let Some(middle) = sum::mean(taught()) else { continue };
            let spread = sum::mean(taught().map(|value| (value - middle).powi(2))).unwrap_or_default().sqrt();
            if spread < 1e-9 {
                continue;
            }
            *differs = true;
            for (row, out) in rows.iter().zip(&mut out) {
                if let (Some(value), Some(slot)) = (value(row), out.get_mut(at)) {
                    *slot = ((value - middle) / spread).clamp(-FARTHEST, FARTHEST);
                }
            }
        }
        (out, differ)
    }
}

/// Traits that are relative to a job's family.
fn within_families(table: &SharingTable, gpu: usize, traits: &mut [Known]) {
    let rated = traits.iter().any(|known| known.get(Trait::Rate.place()).copied().flatten().is_some());
    for family in 0..table.families().len() {
        let members: Vec<usize> = (0..traits.len()).filter(|job| table.family(*job) == family).collect();
        let log_batch = |job: usize| {
            let batches = (0..table.gpu_types().len()).filter_map(|gpu| table.profile(gpu, job).get(Quantity::Batch));
            table.profile(gpu, job).get(Quantity::Batch).or(batches.fold(None, |first, batch| first.or(Some(batch))))
        };
        let log_batch = |job: usize| log_batch(job).filter(|batch| *batch > 0.0).map(f64::ln);
        let rate = |traits: &[Known], job: usize| {
            traits.get(job).and_then(|known| known.get(Trait::Rate.place())?.as_ref().copied())
        };
        let mean_rate = sum::mean(members.iter().filter_map(|job| rate(traits, *job)));
        let mean_batch = sum::mean(members.iter().filter_map(|job| log_batch(*job)));
        let mut points: Vec<(f64, f64, usize)> =
            members.iter().filter_map(|job| Some((log_batch(*job)?, rate(traits, *job)?, *job))).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.2.cmp(&b.2)));
        let curve: Vec<(f64, f64)> = points.iter().map(|(x, y, _)| (*x, *y)).collect();
        let mut put = |job: usize, at: Trait, value: Option<f64>| {
            if let Some(slot) = traits.get_mut(job).and_then(|known| known.get_mut(at.place())) {
                *slot = value;
            }
        };
        for ((_, _, job), slope) in points.iter().zip(slopes(&curve)) {
            put(*job, Trait::Elasticity, slope);
        }
        for job in members {
            let own = table.profile(gpu, job).steps_per_s().map(f64::ln);
            put(job, Trait::RateInFamily, own.zip(mean_rate).map(|(rate, mean)| rate - mean));
            if !rated {
                put(job, Trait::BatchInFamily, log_batch(job).zip(mean_batch).map(|(batch, mean)| batch - mean));
            }
        }
    }
}

/// Full value of each load on a GPU type: 100 %, or the largest known value.
fn wholes(table: &SharingTable, gpu: usize) -> [f64; LOADS.len()] {
    LOADS.map(|quantity| {
        let known = (0..table.jobs().len()).filter_map(|job| table.profile(gpu, job).get(quantity));
        if quantity.is_percent() { 100.0 } else { known.fold(0.0, f64::max) }
    })
}

fn shares(profile: &JobProfile, wholes: &[f64; LOADS.len()]) -> Loads {
    let mut shares = Loads::default();
    for ((share, quantity), whole) in shares.iter_mut().zip(LOADS).zip(wholes) {
        *share = profile.get(quantity).filter(|_| *whole > 0.0).map(|value| value / whole);
    }
    shares
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::table::JobProfile;
    use super::*;

    #[test]
    fn traits_are_as_worked_out_by_hand() {
        let mut table = SharingTable::new();
        let (slow, fast) = (table.gpu_type("slow"), table.gpu_type("fast"));
        for (name, batch, slow_rate, fast_rate) in
            [("m (batch size 16)", 16.0, 17.9, 35.9), ("m (batch size 32)", 32.0, 8.0, 17.9)]
        {
            let job = table.job(name);
            let of = |rate| JobProfile::default().with(Quantity::StepsPerS, rate).with(Quantity::Batch, batch);
            table.set_profile(slow, job, &of(slow_rate));
            table.set_profile(fast, job, &of(fast_rate));
        }
        let alone = Alone::new(&table);
        let elasticity = alone.traits[fast][0][Trait::Elasticity.place()].unwrap();
        assert!((elasticity - (17.9f64 / 35.9).ln() / 2f64.ln()).abs() < 1e-12);
        // The order of GPU types is by pace and not by name.
        let speedup = alone.traits[slow][0][Trait::Speedup.place()].unwrap();
        assert!((speedup - (35.9f64 / 17.9).ln()).abs() < 1e-12 && alone.pace(fast) > alone.pace(slow));
        let (rows, differ) = alone.standardised(fast, &[true, true]);
        assert!(differ[Trait::Rate.place()] && !differ[Trait::Flops.place()]);
        assert!((rows[0][0] - 1.0).abs() < 1e-9 && (rows[1][0] + 1.0).abs() < 1e-9);
        // One job alone teaches no difference; nothing is NaN.
        let (rows, differ) = alone.standardised(fast, &[true, false]);
        assert!(differ.iter().all(|differs| !differs) && rows.iter().flatten().all(|value| *value == 0.0));
    }
}
