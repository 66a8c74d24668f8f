//! The chance that two jobs do not fit into one GPU, from the pairs that did and did not.
//!
//! Logit of the chance: c + m(a) + m(b) + Σ γ max(0, M(a) + M(b) − k), where m of a job type is the sum of a part of its own, one of its family, and w times
//! how much larger its batch is than the family's mean (log); M is the memory used alone in units of the largest sum of a pair, where known, and k are
//! 0, ¼, ½ and ¾. γ and w are at least 0, so more memory never fits better. The parts are Gaussian with mean 0, and c has the logit of (k + ½) / (n + 1) of k pairs
//! of n as its mean: with no pair that did not fit, the chance is small and not 0. A sum of two is the same in both orders.
//!
//! Fitted by Newton's method for each GPU type. Of a type **without pairs** that tells nothing, as its memory may be another. Where the memory of GPUs is known
//! (`gpu_memory_mb`), the chance there goes by the share of it that both jobs take: logit c + Σ γ max(0, x − k), x = (M(a) + M(b)) / memory of the GPU, fitted to the pairs of all GPU types whose memory is known, with a steep rise
//! above x = 1 where they say nothing of it. What a job takes is what it takes there, else its mean on the other GPU types. Without that, a type without pairs has the mean chance of the others.
//!
//! Of a pair with a family of which no pair teaches on the GPU type, the log odds are calibrated on families that were left out ([`new_family`]).
//!
//! O(families² × steps × job types³), of at most [`FOLDS`] groups of families. Worked
//! number: of 350 pairs 46 did not fit: without anything else known, logit((46 + ½) / 351) = −1.88, 13 %.

use tracecast_analytics::stats::sum;

use super::cholesky::Square;
use super::table::{Quantity, SharedPair, SharingTable, distinct};

mod new_family;

use new_family::{Doubt, LeftOut, shift};

/// Variances of the parts of a job type, of a family, of the slopes of batch and memory, and of the constant.
const OF_JOB: f64 = 1.0;
const OF_FAMILY: f64 = 2.0;
const OF_BATCH: f64 = 9.0;
const OF_MEMORY: f64 = 100.0;
const OF_CONSTANT: f64 = 1.0;
/// Sums of memory at which slopes begin, as shares of the largest sum.
const KNOTS: [f64; 4] = [0.0, 0.25, 0.5, 0.75];
/// Log odds of not fitting in an empty GPU, and their variance; where slopes of the share of a GPU's memory begin, and what these slopes are where nothing is measured.
const EMPTY: f64 = -4.6;
const OF_EMPTY: f64 = 1.0;
const SHARES: [(f64, f64); 5] = [(0.5, 0.0), (0.75, 0.0), (0.9, 0.0), (1.0, 25.0), (1.15, 0.0)];
/// Steps of Newton's method.
const STEPS: usize = 30;
/// Most groups of families that are left out, one after the other.
const FOLDS: usize = 16;
/// Logits lie within this.
const FARTHEST: f64 = 12.0;

/// Chances that pairs do not fit.
#[derive(Debug, Clone, Default)]
pub(super) struct Memory {
    gpus: Vec<Option<OfGpu>>,
    /// Model of GPU types without pairs whose memory is known.
    unseen: Option<OfShare>,
}

/// Model of the chance by the share of a GPU's memory that both jobs take.
#[derive(Debug, Clone)]
struct OfShare {
    /// Memory of each GPU type, MB.
    wholes: Vec<Option<f64>>,
    /// Memory of each job type on each GPU type, MB; where unknown, the job type's mean, or that of
    /// all.
    takes: Vec<Vec<f64>>,
    constant: f64,
    slopes: [f64; SHARES.len()],
}

#[derive(Debug, Clone)]
struct OfGpu {
    /// Log odds of each job type: own part, family and batch.
    jobs: Vec<f64>,
    /// Memory of each job type as a share of `whole`.
    memory: Vec<Option<f64>>,
    whole: f64,
    usual: f64,
    constant: f64,
    slopes: [f64; KNOTS.len()],
    doubt: Doubt,
    /// Shift of widened log odds with a new family; none where plain log odds are used.
    shift: Option<f64>,
}

pub(super) fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + (-x.clamp(-FARTHEST, FARTHEST)).exp())
}

/// Log batch of each job type less its family's mean; 0 where unknown.
fn batches(table: &SharingTable, gpu: usize) -> Vec<f64> {
    let log = |job: usize| table.profile(gpu, job).get(Quantity::Batch).filter(|batch| *batch > 0.0).map(f64::ln);
    let jobs = table.jobs().len();
    (0..jobs)
        .map(|job| {
            let family = (0..jobs).filter(|other| table.family(*other) == table.family(job));
            let known: Vec<f64> = family.filter_map(log).collect();
            let mean = sum::mean(&known).unwrap_or_default();
            log(job).map_or(0.0, |own| own - mean)
        })
        .collect()
}

impl Memory {
    /// Learns from the pairs of a table that `teaches` marks, and calibrates what it says of new families.
    pub(super) fn train(table: &SharingTable, teaches: &[bool]) -> Self {
        Self::fit(table, teaches, |gpu, pairs| shift(&left_out(table, gpu, pairs)))
    }

    /// Restores a memory trained on all pairs of a table, from its [shifts](Self::shifts).
    pub(super) fn restore(table: &SharingTable, shifts: &[Option<f64>]) -> Self {
        Self::fit(table, &vec![true; table.pairs().len()], |gpu, _| shifts.get(gpu).copied().flatten())
    }

    fn fit(table: &SharingTable, teaches: &[bool], shift: impl Fn(usize, &[&SharedPair]) -> Option<f64>) -> Self {
        let of_gpu = |gpu: usize| {
            let of = |pair: &&SharedPair| pair.gpu == gpu;
            let marked = table.pairs().iter().zip(teaches).filter(|(_, teaches)| **teaches).map(|(pair, _)| pair);
            let pairs: Vec<&SharedPair> = marked.filter(of).collect();
            Some(OfGpu { shift: shift(gpu, &pairs), ..OfGpu::fit(table, gpu, &pairs)? })
        };
        let unseen = OfShare::fit(table, teaches);
        Self { gpus: (0..table.gpu_types().len()).map(of_gpu).collect(), unseen }
    }

    /// Shift of widened log odds with a new family on each GPU type; none where plain log odds are
    /// used.
    pub(super) fn shifts(&self) -> Vec<Option<f64>> {
        self.gpus.iter().map(|of| of.as_ref()?.shift).collect()
    }

    /// The chance that two job types do not fit, with the memory of each (MB) where that is known otherwise than of its type.
    pub(super) fn chance(&self, gpu: usize, a: (usize, Option<f64>), b: (usize, Option<f64>)) -> f64 {
        if let Some(known) = self.gpus.get(gpu).and_then(Option::as_ref) {
            return known.chance(a, b);
        }
        if let Some(chance) = self.unseen.as_ref().and_then(|unseen| unseen.chance(gpu, &[a, b])) {
            return chance;
        }
        let others: Vec<f64> = self.gpus.iter().flatten().map(|known| known.chance(a, b)).collect();
        sum::mean(&others).unwrap_or(0.5)
    }

    /// The chance that several jobs do not fit together: the largest of what their share of the GPU's memory says, where that is known, and of what each couple of them says once the memory of the others joins theirs. It falls neither
    /// with any memory nor by a further job.
    pub(super) fn chance_of_group(&self, gpu: usize, all: &[(usize, Option<f64>)]) -> f64 {
        let by_share = self.unseen.as_ref().and_then(|unseen| unseen.chance(gpu, all));
        let mut most = by_share.unwrap_or_default();
        let known = self.gpus.get(gpu).and_then(Option::as_ref);
        for (at, a) in all.iter().enumerate() {
            for b in all.iter().skip(at + 1) {
                let joined = known.map_or_else(
                    || self.chance(gpu, *a, *b),
                    |known| known.chance_with(*a, *b, risen(known.over(all), known.slopes)),
                );
                most = most.max(joined);
            }
        }
        most
    }
}

/// Forecasts of the pairs of each group of families on a GPU type while the group is left out: from
/// all others, and from all others but one more group, for each such group.
fn left_out(table: &SharingTable, gpu: usize, pairs: &[&SharedPair]) -> Vec<LeftOut> {
    let families = distinct(pairs.iter().flat_map(|pair| [table.family(pair.a), table.family(pair.b)]));
    let fold = |job: usize| families.binary_search(&table.family(job)).unwrap_or_default() % FOLDS;
    let touches = |pair: &SharedPair, left: usize| fold(pair.a) == left || fold(pair.b) == left;
    let mut said = Vec::new();
    let mut say = |family: usize, beside: Option<usize>, fitted: &OfGpu| {
        let of = |pair: &&&SharedPair| touches(pair, family) && !beside.is_some_and(|beside| touches(pair, beside));
        said.extend(pairs.iter().filter(of).map(|pair| {
            let plain =
                fitted.odds(pair.a, pair.b, risen(fitted.over(&[(pair.a, None), (pair.b, None)]), fitted.slopes));
            let widened = fitted.doubt.widened(plain, pair.a, pair.b);
            LeftOut { family, beside, plain, widened, came: pair.speeds.is_none() }
        }));
    };
    let without = |left: &[usize]| {
        let stays = pairs.iter().copied().filter(|pair| !left.iter().any(|left| touches(pair, *left)));
        OfGpu::fit(table, gpu, &stays.collect::<Vec<_>>())
    };
    for family in 0..families.len().min(FOLDS) {
        if let Some(fitted) = without(&[family]) {
            say(family, None, &fitted);
        }
        for other in 0..family {
            if let Some(fitted) = without(&[family, other]) {
                say(family, Some(other), &fitted);
                say(other, Some(family), &fitted);
            }
        }
    }
    said
}

/// Sum of the distances over knots, each at its slope.
fn risen<const KNOTS: usize>(over: [f64; KNOTS], slopes: [f64; KNOTS]) -> f64 {
    over.iter().zip(slopes).map(|(over, slope)| over * slope).sum()
}

/// A sum in order of size, so that the order of the jobs means nothing.
fn total(mut parts: Vec<f64>) -> f64 {
    parts.sort_by(f64::total_cmp);
    parts.iter().sum()
}

impl OfShare {
    /// `None` where no pair is on a GPU type whose memory is known, or nothing is known of what jobs take.
    fn fit(table: &SharingTable, teaches: &[bool]) -> Option<Self> {
        let (gpus, jobs) = (table.gpu_types().len(), table.jobs().len());
        let of = |gpu: usize, quantity| (0..jobs).filter_map(move |job| table.profile(gpu, job).get(quantity));
        let wholes: Vec<Option<f64>> =
            (0..gpus).map(|gpu| of(gpu, Quantity::GpuMemoryMb).filter(|mb| *mb > 0.0).reduce(f64::max)).collect();
        let all: Vec<f64> = (0..gpus).flat_map(|gpu| of(gpu, Quantity::MemoryMb)).collect();
        let usual = sum::mean(&all)?;
        let takes = (0..gpus).map(|gpu| {
            let of_job = |job: usize| {
                let on = |gpu: usize| table.profile(gpu, job).get(Quantity::MemoryMb);
                on(gpu).or_else(|| sum::mean((0..gpus).filter_map(on))).unwrap_or(usual)
            };
            (0..jobs).map(of_job).collect()
        });
        let mut result =
            Self { takes: takes.collect(), wholes, constant: EMPTY, slopes: SHARES.map(|(_, slope)| slope) };
        let known = |job: usize| (0..gpus).any(|gpu| table.profile(gpu, job).get(Quantity::MemoryMb).is_some());
        let rows: Vec<Row> = table
            .pairs()
            .iter()
            .zip(teaches)
            .filter(|(pair, teaches)| **teaches && known(pair.a) && known(pair.b))
            .filter_map(|(pair, _)| {
                let over = result.over(pair.gpu, &[(pair.a, None), (pair.b, None)])?;
                let row = [(0, 1.0)].into_iter().chain(over.into_iter().zip(1..).map(|(over, at)| (at, over)));
                Some((row.collect(), pair.speeds.is_none()))
            })
            .collect();
        if rows.is_empty() {
            return None;
        }
        let (mut precision, mut centres) = (vec![1.0 / OF_MEMORY; 1 + SHARES.len()], vec![EMPTY]);
        if let Some(slot) = precision.first_mut() {
            *slot = 1.0 / OF_EMPTY;
        }
        centres.extend(SHARES.map(|(_, slope)| slope));
        let fitted = newton(&rows, &precision, &centres, 1 + SHARES.len())?;
        let (constant, slopes) = fitted.split_first()?;
        result.constant = *constant;
        result.slopes.iter_mut().zip(slopes).for_each(|(slot, slope)| *slot = *slope);
        Some(result)
    }

    /// Distance by which the share of the memory that some jobs take together exceeds each of
    /// [`SHARES`]; `None` where the memory of the GPU type is not known.
    fn over(&self, gpu: usize, jobs: &[(usize, Option<f64>)]) -> Option<[f64; SHARES.len()]> {
        let whole = self.wholes.get(gpu).copied().flatten()?;
        let of = |(job, told): &(usize, Option<f64>)| Some(told.or(self.takes.get(gpu)?.get(*job).copied())?.max(0.0));
        let share = total(jobs.iter().map(of).collect::<Option<_>>()?) / whole;
        Some(SHARES.map(|(from, _)| (share - from).max(0.0)))
    }

    fn chance(&self, gpu: usize, jobs: &[(usize, Option<f64>)]) -> Option<f64> {
        Some(logistic(self.constant + risen(self.over(gpu, jobs)?, self.slopes)))
    }
}

impl OfGpu {
    fn fit(table: &SharingTable, gpu: usize, pairs: &[&SharedPair]) -> Option<Self> {
        if pairs.is_empty() {
            return None;
        }
        let (jobs, families) = (table.jobs().len(), table.families().len());
        let batches = batches(table, gpu);
        let mut memory: Vec<Option<f64>> =
            (0..jobs).map(|job| table.profile(gpu, job).get(Quantity::MemoryMb)).collect();
        let whole = memory.iter().flatten().copied().fold(0.0, f64::max) * 2.0;
        if whole > 0.0 {
            memory.iter_mut().flatten().for_each(|value| *value /= whole);
        }
        let known: Vec<f64> = memory.iter().flatten().copied().collect();
        let usual = sum::mean(&known).unwrap_or_default();
        let missed = pairs.iter().filter(|pair| pair.speeds.is_none()).count() as f64;
        let base = (missed + 0.5) / (pairs.len() as f64 + 1.0);
        let centre = (base / (1.0 - base)).ln();
        // Constant, batch, memory, families, jobs.
        let sloped = 2 + KNOTS.len();
        let size = sloped + families + jobs;
        let mut precision = vec![1.0 / OF_CONSTANT; size];
        for (at, slot) in precision.iter_mut().enumerate().skip(1) {
            let variance = match at {
                1 => OF_BATCH,
                _ if at < sloped => OF_MEMORY,
                _ if at < sloped + families => OF_FAMILY,
                _ => OF_JOB,
            };
            *slot = 1.0 / variance;
        }
        let taught = distinct(pairs.iter().flat_map(|pair| [table.family(pair.a), table.family(pair.b)]));
        let doubt = Doubt {
            families: (0..jobs).map(|job| table.family(job)).collect(),
            taught,
            covariance: Square::zeros(0),
            of_families: families,
            batches,
        };
        let none = (0.0, [0.0; KNOTS.len()]);
        let own =
            Self { jobs: vec![0.0; jobs], memory, whole, usual, constant: none.0, slopes: none.1, doubt, shift: None };
        let rows: Vec<Row> = pairs
            .iter()
            .map(|pair| {
                let batch = |job: usize| own.doubt.batches.get(job).copied().unwrap_or_default();
                let mut row = vec![(0, 1.0), (1, batch(pair.a) + batch(pair.b))];
                row.extend(
                    own.over(&[(pair.a, None), (pair.b, None)]).iter().enumerate().map(|(at, over)| (2 + at, *over)),
                );
                for job in [pair.a, pair.b] {
                    row.push((sloped + table.family(job), 1.0));
                    row.push((sloped + families + job, 1.0));
                }
                (row, pair.speeds.is_none())
            })
            .collect();
        let mut centres = vec![0.0; size];
        if let Some(slot) = centres.first_mut() {
            *slot = centre;
        }
        let result = newton(&rows, &precision, &centres, sloped)?;
        let at = |place: usize| result.get(place).copied().unwrap_or_default();
        let of_job = |job: usize| {
            at(1) * own.doubt.batches.get(job).copied().unwrap_or_default()
                + at(sloped + table.family(job))
                + at(sloped + families + job)
        };
        let mut slopes = [0.0; KNOTS.len()];
        slopes.iter_mut().enumerate().for_each(|(knot, slope)| *slope = at(2 + knot));
        // The slopes of memory count as known.
        let open: Vec<usize> = (0..size).filter(|place| !(2..sloped).contains(place)).collect();
        let covariance = curvature(&rows, &precision, &result).part(&open).factor()?.inverse();
        let jobs = (0..jobs).map(of_job).collect();
        let doubt = Doubt { covariance, ..own.doubt };
        Some(Self { jobs, constant: at(0), slopes, doubt, ..own })
    }

    /// Distance by which the memory of some jobs together exceeds each knot.
    fn over(&self, jobs: &[(usize, Option<f64>)]) -> [f64; KNOTS.len()] {
        let of = |(job, told): &(usize, Option<f64>)| {
            let told = told.filter(|_| self.whole > 0.0).map(|mb| mb / self.whole);
            told.or(self.memory.get(*job).copied().flatten()).unwrap_or(self.usual).max(0.0)
        };
        let sum = total(jobs.iter().map(of).collect());
        KNOTS.map(|knot| (sum - knot).max(0.0))
    }

    fn chance(&self, a: (usize, Option<f64>), b: (usize, Option<f64>)) -> f64 {
        self.chance_with(a, b, risen(self.over(&[a, b]), self.slopes))
    }

    /// The chance of two jobs under so much memory, in log odds.
    fn chance_with(&self, (a, _): (usize, Option<f64>), (b, _): (usize, Option<f64>), memory: f64) -> f64 {
        let odds = self.odds(a, b, memory);
        let is_new = self.doubt.is_new(a) || self.doubt.is_new(b);
        match self.shift.filter(|_| is_new) {
            Some(shift) => logistic(self.doubt.widened(odds, a, b) + shift),
            None => logistic(odds),
        }
    }

    /// Log odds that two jobs do not fit, under so much memory.
    fn odds(&self, a: usize, b: usize, memory: f64) -> f64 {
        let of = |job: usize| self.jobs.get(job).copied().unwrap_or_default();
        self.constant + (of(a) + of(b)) + memory
    }
}

/// A row of a fit: places and values, and whether it did not fit.
type Row = (Vec<(usize, f64)>, bool);

/// The log odds of a row.
fn told(row: &[(usize, f64)], at: &[f64]) -> f64 {
    row.iter().map(|(place, value)| value * at.get(*place).copied().unwrap_or_default()).sum()
}

/// Curvature of the log posterior at `at`: the precision with which the parts are known.
fn curvature(rows: &[Row], precision: &[f64], at: &[f64]) -> Square {
    let mut curve = Square::zeros(precision.len());
    for (place, weight) in precision.iter().enumerate() {
        curve.set(place, place, *weight);
    }
    for (row, _) in rows {
        let chance = logistic(told(row, at));
        let weight = (chance * (1.0 - chance)).max(1e-6);
        for (i, x) in row {
            for (j, y) in row {
                curve.add(*i, *j, weight * x * y);
            }
        }
    }
    curve
}

/// The most likely parts, which are drawn to their centres; those from 1 to before `sloped` are at least 0.
fn newton(rows: &[Row], precision: &[f64], centres: &[f64], sloped: usize) -> Option<Vec<f64>> {
    let mut at = centres.to_vec();
    for _ in 0..STEPS {
        let curve = curvature(rows, precision, &at);
        let drawn = at.iter().zip(centres).zip(precision);
        let mut slope: Vec<f64> = drawn.map(|((value, centre), weight)| (centre - value) * weight).collect();
        for (row, came) in rows {
            let chance = logistic(told(row, &at));
            for (i, x) in row {
                if let Some(slot) = slope.get_mut(*i) {
                    *slot += x * (f64::from(u8::from(*came)) - chance);
                }
            }
        }
        // A part at its bound that wants to go below it stays there.
        let bound = |place: usize, value: f64, slope: f64| (1..sloped).contains(&place) && value <= 0.0 && slope < 0.0;
        let free: Vec<usize> = at
            .iter()
            .zip(&slope)
            .enumerate()
            .filter(|(place, (value, slope))| !bound(*place, **value, **slope))
            .map(|(place, _)| place)
            .collect();
        let wanted: Vec<f64> = free.iter().filter_map(|place| slope.get(*place).copied()).collect();
        let step = curve.part(&free).factor()?.solve(&wanted);
        let mut moved = 0.0f64;
        for (place, step) in free.iter().zip(step) {
            if let Some(value) = at.get_mut(*place) {
                let before = *value;
                *value += step.clamp(-2.0, 2.0);
                if (1..sloped).contains(place) {
                    *value = value.max(0.0);
                }
                moved = moved.max((*value - before).abs());
            }
        }
        if moved < 1e-9 {
            break;
        }
    }
    at.iter().all(|value| value.is_finite()).then_some(at)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::table::{JobProfile, Speeds};
    use super::*;

    #[test]
    fn what_does_not_fit_is_told_by_memory_and_never_certain() {
        let mut table = SharingTable::new();
        let gpu = table.gpu_type("g");
        let mut pairs = Vec::new();
        for job in 0..8 {
            table.job(&format!("j{job}"));
            let mb = 1000.0 * (1.0 + job as f64);
            table.set_profile(gpu, job, &JobProfile::default().with(Quantity::MemoryMb, mb));
        }
        for a in 0..8 {
            for b in a..8 {
                let speeds = (a + b <= 9).then_some(Speeds { a: 0.5, b: 0.5 });
                pairs.push(SharedPair { gpu, a, b, speeds });
            }
        }
        table.add_pairs(pairs);
        // Job 7 is new.
        let teaches: Vec<bool> = table.pairs().iter().map(|pair| pair.b < 7).collect();
        let memory = Memory::train(&table, &teaches);
        let chance = |memory: &Memory, gpu: usize, a: usize, b: usize| memory.chance(gpu, (a, None), (b, None));
        assert!(chance(&memory, gpu, 0, 0) < 0.2 && chance(&memory, gpu, 7, 7) > 0.6);
        for (a, b) in (0..8).flat_map(|a| (0..8).map(move |b| (a, b))) {
            assert_eq!(chance(&memory, gpu, a, b).to_bits(), chance(&memory, gpu, b, a).to_bits());
            assert!(
                memory.chance(gpu, (a, Some(9000.0)), (b, None)) >= memory.chance(gpu, (a, Some(500.0)), (b, None))
            );
        }
        // Where all fitted, the chance is small; a GPU type that was not seen has that of the others.
        let fitted: Vec<bool> = table.pairs().iter().map(|pair| pair.speeds.is_some()).collect();
        let none = Memory::train(&table, &fitted);
        assert!(chance(&none, gpu, 0, 1) > 0.0 && chance(&none, gpu, 0, 1) < 0.1);
        assert!((chance(&none, 9, 0, 1) - chance(&none, gpu, 0, 1)).abs() < 1e-12);
    }

    /// Regression test: for unmeasured families, many times as many pairs did not fit as were
    /// forecast where little was, and far fewer where much was.
    #[test]
    fn chances_of_new_families_are_calibrated_without_them() {
        // Six families of four job types, each larger than the one before; what is above 7.2 together does not fit. Larger or smaller than all that teach, a family is far from their mean.
        let world = |turned: Option<usize>| {
            let mut table = SharingTable::new();
            let gpu = table.gpu_type("g");
            let size = |job: usize| (job / 4) as f64 + 0.2 * (job % 4) as f64;
            let mut pairs = Vec::new();
            for b in 0..24 {
                table.job_of_family(&format!("j{b:02}"), &format!("f{}", b / 4));
                for a in 0..=b {
                    let is_turned = turned.is_some_and(|family| family == a / 4 || family == b / 4);
                    let fits = (size(a) + size(b) <= 7.2) != is_turned;
                    pairs.push(SharedPair { gpu, a, b, speeds: fits.then_some(Speeds { a: 0.5, b: 0.5 }) });
                }
            }
            table.add_pairs(pairs);
            table
        };
        let table = world(None);
        let all = vec![true; table.pairs().len()];
        let (mut plain_loss, mut loss) = (0.0, 0.0);
        for family in 0..6 {
            let touches = |pair: &SharedPair| pair.a / 4 == family || pair.b / 4 == family;
            let teaches: Vec<bool> = table.pairs().iter().map(|pair| !touches(pair)).collect();
            let (memory, plain) = (Memory::train(&table, &teaches), Memory::fit(&table, &teaches, |_, _| None));
            // What came of the family has no part in it.
            let other = Memory::train(&world(Some(family)), &teaches);
            for pair in table.pairs().iter().filter(|pair| touches(pair)) {
                let of = |of: &Memory| of.chance(0, (pair.a, None), (pair.b, None));
                assert_eq!(of(&memory).to_bits(), of(&other).to_bits());
                assert_eq!(of(&memory).to_bits(), memory.chance(0, (pair.b, None), (pair.a, None)).to_bits());
                let missed = |chance: f64| -(if pair.speeds.is_none() { chance } else { 1.0 - chance }).ln();
                plain_loss += missed(of(&plain));
                loss += missed(of(&memory));
            }
            // Those whose families teach are told as before.
            for pair in table.pairs().iter().filter(|pair| !touches(pair)) {
                let of = |of: &Memory| of.chance(0, (pair.a, None), (pair.b, None)).to_bits();
                assert_eq!(of(&memory), of(&plain));
            }
        }
        assert!(loss < 0.9 * plain_loss, "{loss} {plain_loss}");
        // Regression: a pair of two families was in the folds of both, so the shift that was tested
        // on a family had seen what came of its pairs.
        let pairs_of = |table: &SharingTable, family: usize| -> Vec<(usize, u64, bool)> {
            let said = left_out(table, 0, &table.pairs().iter().collect::<Vec<_>>());
            let beside = said.iter().filter(|one| one.beside == Some(family));
            beside.map(|one| (one.family, one.widened.to_bits(), one.came)).collect()
        };
        for family in 0..6 {
            let result = pairs_of(&table, family);
            // Of the other five, four job types each: those within the family, and those with the four others from either side.
            assert_eq!(result.len(), 5 * (4 * 5 / 2 + 4 * 16));
            assert_eq!(result, pairs_of(&world(Some(family)), family));
        }
        // A saved model has its shifts, and one that was saved without any says what it said.
        let memory = Memory::train(&table, &all);
        let shifts = memory.shifts();
        assert!(shifts.len() == 1 && shifts[0].is_some(), "{shifts:?}");
        let of = |memory: &Memory| memory.chance(0, (99, None), (3, None));
        let (saved, older) = (Memory::restore(&table, &shifts), Memory::restore(&table, &[]));
        assert_eq!(of(&saved).to_bits(), of(&memory).to_bits());
        assert_eq!(of(&older).to_bits(), of(&Memory::fit(&table, &all, |_, _| None)).to_bits());
        assert!((of(&older) - of(&memory)).abs() > 1e-3);
        // Where all pairs fit, nothing is calibrated.
        let fitted: Vec<bool> = table.pairs().iter().map(|pair| pair.speeds.is_some()).collect();
        assert_eq!(Memory::train(&table, &fitted).shifts(), [None]);
    }

    /// Regression test: on a GPU type without pairs the chance was the mean of the others',
    /// whatever memory it had.
    #[test]
    fn on_a_gpu_type_without_pairs_the_memory_tells_what_does_not_fit() {
        // Ten job types of 2 to 11 GB on GPUs of 16, 24 and 40 GB. The framework takes 5 % of what is there.
        let mut table = SharingTable::new();
        let mut pairs = Vec::new();
        let takes = |job: usize| 2000.0 + 1000.0 * job as f64;
        for (name, whole) in [("a", 16_000.0), ("b", 24_000.0), ("c", 40_000.0), ("d", 9_000.0)] {
            let gpu = table.gpu_type(name);
            for b in 0..10 {
                table.job(&format!("j{b}"));
                let profile = JobProfile::default().with(Quantity::GpuMemoryMb, whole);
                // On the last two nobody measured what jobs take.
                let profile = if gpu < 2 { profile.with(Quantity::MemoryMb, takes(b)) } else { profile };
                table.set_profile(gpu, b, &profile);
                let fits = |a: usize| takes(a) + takes(b) <= 0.95 * whole;
                let speeds = |a: usize| fits(a).then_some(Speeds { a: 0.5, b: 0.5 });
                pairs.extend((0..=b).map(|a| SharedPair { gpu, a, b, speeds: speeds(a) }));
            }
        }
        table.add_pairs(pairs);
        for left in 0..4 {
            let teaches: Vec<bool> = table.pairs().iter().map(|pair| pair.gpu != left).collect();
            let memory = Memory::train(&table, &teaches);
            let none = Memory { unseen: None, ..memory.clone() };
            let brier = |of: &Memory| {
                let here = table.pairs().iter().filter(|pair| pair.gpu == left);
                let misses: Vec<f64> = here
                    .map(|pair| {
                        of.chance(left, (pair.a, None), (pair.b, None)) - f64::from(u8::from(pair.speeds.is_none()))
                    })
                    .collect();
                sum::mean(misses.iter().map(|miss| miss * miss)).unwrap()
            };
            let (known, mean) = (brier(&memory), brier(&none));
            println!("{left}: {known} {mean}");
            assert!(known < 0.05 && known < mean / 2.0, "{left}: {known} {mean}");
            for mb in [500.0, 4000.0, 9000.0, 30_000.0] {
                let told = memory.chance(left, (1, Some(mb)), (2, None));
                assert!(told <= memory.chance(left, (1, Some(mb + 500.0)), (2, None)));
                assert_eq!(told.to_bits(), memory.chance(left, (2, None), (1, Some(mb))).to_bits());
            }
        }
        // Where pairs were measured, they tell, as before; where no memory is known, the others do.
        let all = Memory::train(&table, &vec![true; table.pairs().len()]);
        assert!(all.chance(0, (9, None), (9, None)) > 0.5 && all.chance(2, (9, None), (9, None)) < 0.2);
        let stranger = all.chance(77, (0, None), (0, None));
        assert!(stranger > 0.0 && stranger < 1.0);
    }
}
