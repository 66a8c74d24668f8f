//! Baselines that the predictor is compared with: simple rules, and learners on the same data.
//!
//! | name | says |
//! |---|---|
//! | `none` | 1: sharing costs nothing |
//! | `mean` | the mean of all measured speeds |
//! | `partner_mean` | the mean speed of the other jobs beside this partner |
//! | `carried` | the mean speed of the same pair on the other GPU types, where a whole type is left out |
//! | `utilisation` | min(1, 100 / Σ utilisation), where all jobs' utilisation is known |
//! | `linear` | least squares on traits and loads of both jobs and the partner's mean |
//! | `forest` | a random forest on the same (Co-scheML, Liquid) |
//! | `boosted` | boosted trees on the same (Horus) |
//! | `matrix_completion` | level, a part of each job and of each partner, and two factors, by alternating least squares (Gavel, Quasar) |
//!
//! A rule says of a GPU type without measured speeds what it says of the others on average. The partner's mean that a learner learns from is without
//! the family of the row itself, as it will be when it is asked. Worked number: at 90 and 60 % utilisation the rule says 100 / 150 = 0.67.

use std::collections::BTreeMap;

use tracecast_analytics::stats::sum;

use super::alone::{Alone, LOADS, TRAITS};
use super::effects::Directed;
use super::table::{Quantity, SharingTable, distinct};
use crate::error::Result;
use crate::matrix::Matrix;
use crate::model::boosted::{Boosted, Target, Trees};
use crate::model::forest::Forest;
use crate::model::linear::Linear;
use crate::model::{Fit as _, Predict as _, Training};

/// A rule or a learner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Baseline {
    None,
    Mean,
    PartnerMean,
    Carried,
    Utilisation,
    Linear,
    Forest,
    Boosted,
    MatrixCompletion,
}

/// Factors of the matrix completion, what holds them to 0, and rounds of fitting.
const FACTORS: usize = 2;
const HOLD: f64 = 1.0;
const ROUNDS: usize = 12;

impl Baseline {
    /// All of them.
    pub(super) const ALL: [Self; 9] = [
        Self::None,
        Self::Mean,
        Self::PartnerMean,
        Self::Carried,
        Self::Utilisation,
        Self::Linear,
        Self::Forest,
        Self::Boosted,
        Self::MatrixCompletion,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Mean => "mean",
            Self::PartnerMean => "partner_mean",
            Self::Carried => "carried",
            Self::Utilisation => "utilisation",
            Self::Linear => "linear",
            Self::Forest => "forest",
            Self::Boosted => "boosted",
            Self::MatrixCompletion => "matrix_completion",
        }
    }

    /// Whether the baseline has a forecast for all these rows; `types` if whole GPU types are left
    /// out.
    pub(super) fn serves(self, table: &SharingTable, rows: &[Directed], types: bool) -> bool {
        match self {
            Self::Carried => types,
            Self::Utilisation => rows.iter().all(|row| by_utilisation(table, row).is_some()),
            _ => true,
        }
    }

    /// Forecasts for the rows `asked`, from the rows to learn from.
    pub(super) fn predict(
        self,
        table: &SharingTable,
        alone: &Alone,
        rows: &[Directed],
        request: &[Directed],
    ) -> Result<Vec<f64>> {
        // All means of one kind in one pass over the rows: asked for one by one, they would take rows × rows.
        let whole = Means::new(rows, |_| ()).at(&()).unwrap_or(1.0);
        let types = distinct(rows.iter().map(|row| row.gpu));
        // The GPU types to learn from: the row's own, or else all, each with the same weight.
        let by_type = |row: &Directed, of: &dyn Fn(usize) -> f64| {
            if types.contains(&row.gpu) {
                return of(row.gpu);
            }
            let each: Vec<f64> = types.iter().map(|gpu| of(*gpu)).collect();
            sum::mean(&each).unwrap_or(whole)
        };
        let levels = Means::new(rows, |row| row.gpu);
        let level = |gpu: usize| levels.at(&gpu).unwrap_or(whole);
        Ok(match self {
            Self::None => vec![1.0; request.len()],
            Self::Mean => request.iter().map(|row| by_type(row, &level)).collect(),
            Self::PartnerMean => {
                let partners = Means::new(rows, |row| (row.gpu, row.beside));
                let of = |row: &Directed, gpu: usize| partners.at(&(gpu, row.beside)).unwrap_or_else(|| level(gpu));
                request.iter().map(|row| by_type(row, &|gpu| of(row, gpu))).collect()
            }
            Self::Carried => {
                let pairs = Means::new(rows, |row| (row.own, row.beside));
                request.iter().map(|row| pairs.at(&(row.own, row.beside)).unwrap_or(whole)).collect()
            }
            Self::Utilisation => request.iter().map(|row| by_utilisation(table, row).unwrap_or(1.0)).collect(),
            Self::Linear | Self::Forest | Self::Boosted => self.learned(table, alone, rows, request)?,
            Self::MatrixCompletion => {
                let completed = |gpu: &usize| (*gpu, Completed::new(table.jobs().len(), *gpu, level(*gpu), rows));
                let fitted: Vec<(usize, Completed)> = types.iter().map(completed).collect();
                let of = |row: &Directed, gpu: usize| {
                    let known = fitted.iter().find(|(of, _)| *of == gpu);
                    known.map_or(whole, |(_, known)| known.at(row.own, row.beside))
                };
                request.iter().map(|row| by_type(row, &|gpu| of(row, gpu))).collect()
            }
        })
    }

    fn learned(self, table: &SharingTable, alone: &Alone, rows: &[Directed], request: &[Directed]) -> Result<Vec<f64>> {
        let width = 2 * (TRAITS + LOADS.len()) + 2;
        let partners = Means::new(rows, |row| (row.gpu, row.beside));
        let of_family = Means::new(rows, |row| (row.gpu, row.beside, table.family(row.own)));
        let fill = |of: &[Directed]| {
            let mut matrix = Matrix::new(width);
            for row in of {
                let jobs = [row.own, row.beside];
                let known = jobs.iter().flat_map(|job| {
                    alone.traits(row.gpu, *job).into_iter().chain(alone.loads(row.gpu, *job)).collect::<Vec<_>>()
                });
                let family = table.family(row.own);
                let partner =
                    partners.without(&(row.gpu, row.beside), of_family.sum_and_count(&(row.gpu, row.beside, family)));
                let same = f64::from(u8::from(family == table.family(row.beside)));
                let values = known.chain([partner, Some(same)]);
                for (slot, value) in matrix.push().iter_mut().zip(values) {
                    *slot = value.map_or(f32::NAN, |value| value as f32);
                }
            }
            matrix
        };
        let (learn, ask) = (fill(rows), fill(request));
        // Columns that never differ, or are never known, teach nothing; the library for trees refuses some of them.
        let every: Vec<u32> = (0u32..).take(learn.rows()).collect();
        let telling = learn.telling_columns(&every);
        let learn = learn.select(&every, &telling);
        let asked_rows: Vec<u32> = (0u32..).take(ask.rows()).collect();
        let ask = ask.select(&asked_rows, &telling);
        let labels: Vec<f32> = rows.iter().map(|row| row.speed as f32).collect();
        let training = Training { rows: &learn, labels: &labels, censored: &[] };
        let result = match self {
            Self::Linear => Linear.fit(training)?.predict(&ask)?,
            Self::Forest => Forest { trees: 30, depth: 8, seed: 1 }.fit(training)?.predict(&ask)?,
            _ => {
                let trees = Trees {
                    trees: 60,
                    leaves: 6,
                    rate: 0.1,
                    rows: 0.7,
                    columns: 0.5,
                    least: 10.0,
                    bins: 64,
                    ..Trees::default()
                };
                Boosted::one(Target::Mean, trees).fit(training)?.predict(&ask)?
            }
        };
        Ok(result.into_iter().map(|value| f64::from(value).clamp(0.0, 2.0)).collect())
    }
}

/// Speed by the rule of utilisation; `None` where the utilisation of either job is unknown.
fn by_utilisation(table: &SharingTable, row: &Directed) -> Option<f64> {
    let of = |job: usize| table.profile(row.gpu, job).get(Quantity::SmUtilPct);
    let sum = of(row.own)? + of(row.beside)?;
    Some(if sum > 100.0 { 100.0 / sum } else { 1.0 })
}

/// Mean speeds of rows by what they have in common.
struct Means<K>(BTreeMap<K, (f64, u32)>);

impl<K: Ord> Means<K> {
    fn new(rows: &[Directed], key: impl Fn(&Directed) -> K) -> Self {
        let mut result: BTreeMap<K, (f64, u32)> = BTreeMap::new();
        for row in rows {
            let (sum, count) = result.entry(key(row)).or_default();
            *sum += row.speed;
            *count += 1;
        }
        Self(result)
    }

    fn sum_and_count(&self, key: &K) -> (f64, u32) {
        self.0.get(key).copied().unwrap_or_default()
    }

    fn at(&self, key: &K) -> Option<f64> {
        self.without(key, (0.0, 0))
    }

    /// The mean without some of its rows, given as their sum and count.
    fn without(&self, key: &K, (less, fewer): (f64, u32)) -> Option<f64> {
        let (sum, count) = self.sum_and_count(key);
        (count > fewer).then(|| (sum - less) / f64::from(count - fewer))
    }
}

/// A matrix of speeds, completed.
struct Completed {
    level: f64,
    own: Vec<f64>,
    beside: Vec<f64>,
    own_factors: Vec<[f64; FACTORS]>,
    beside_factors: Vec<[f64; FACTORS]>,
}

impl Completed {
    fn new(jobs: usize, gpu: usize, level: f64, rows: &[Directed]) -> Self {
        let mut out = Self {
            level,
            own: vec![0.0; jobs],
            beside: vec![0.0; jobs],
            own_factors: vec![[0.0; FACTORS]; jobs],
            // Any beginning that tells jobs apart will do, as long as it is always the same.
            beside_factors: (0..jobs)
                .map(|job| [(job as f64 + 1.0).sin() * 0.1, (job as f64 * 1.7).cos() * 0.1])
                .collect(),
        };
        let (mut by_own, mut by_beside) = (vec![Vec::new(); jobs], vec![Vec::new(); jobs]);
        for row in rows.iter().filter(|row| row.gpu == gpu) {
            for (rows, job) in [(&mut by_own, row.own), (&mut by_beside, row.beside)] {
                if let Some(slot) = rows.get_mut(job) {
                    slot.push(row);
                }
            }
        }
        for _ in 0..ROUNDS {
            for (job, of) in by_own.iter().enumerate() {
                let left = |row: &Directed| row.speed - out.at(row.own, row.beside) + at(&out.own, job);
                let part = of.iter().map(|row| left(row)).sum::<f64>() / (of.len() as f64 + HOLD);
                put(&mut out.own, job, part);
            }
            for (job, of) in by_beside.iter().enumerate() {
                let left = |row: &Directed| row.speed - out.at(row.own, row.beside) + at(&out.beside, job);
                let part = of.iter().map(|row| left(row)).sum::<f64>() / (of.len() as f64 + HOLD);
                put(&mut out.beside, job, part);
            }
            for (job, of) in by_own.iter().enumerate() {
                let told: Vec<([f64; FACTORS], f64)> = of
                    .iter()
                    .map(|row| {
                        let x = at(&out.beside_factors, row.beside);
                        (x, row.speed - out.at(row.own, row.beside) + product(at(&out.own_factors, job), x))
                    })
                    .collect();
                put(&mut out.own_factors, job, two(&told));
            }
            for (job, of) in by_beside.iter().enumerate() {
                let told: Vec<([f64; FACTORS], f64)> = of
                    .iter()
                    .map(|row| {
                        let x = at(&out.own_factors, row.own);
                        (x, row.speed - out.at(row.own, row.beside) + product(x, at(&out.beside_factors, job)))
                    })
                    .collect();
                put(&mut out.beside_factors, job, two(&told));
            }
        }
        out
    }

    fn at(&self, own: usize, beside: usize) -> f64 {
        let factors = product(at(&self.own_factors, own), at(&self.beside_factors, beside));
        self.level + at(&self.own, own) + at(&self.beside, beside) + factors
    }
}

fn at<T: Copy + Default>(values: &[T], place: usize) -> T {
    values.get(place).copied().unwrap_or_default()
}

fn put<T>(values: &mut [T], place: usize, value: T) {
    if let Some(slot) = values.get_mut(place) {
        *slot = value;
    }
}

fn product(one: [f64; FACTORS], other: [f64; FACTORS]) -> f64 {
    one.iter().zip(other).map(|(a, b)| a * b).sum()
}

/// Least squares of two unknowns, held to 0 by a tenth.
fn two(told: &[([f64; FACTORS], f64)]) -> [f64; FACTORS] {
    let (mut aa, mut ab, mut bb, mut ay, mut by) = (HOLD / 10.0, 0.0, HOLD / 10.0, 0.0, 0.0);
    for ([a, b], y) in told {
        aa += a * a;
        ab += a * b;
        bb += b * b;
        ay += a * y;
        by += b * y;
    }
    let det = aa * bb - ab * ab;
    [(ay * bb - by * ab) / det, (by * aa - ay * ab) / det]
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::table::JobProfile;
    use super::*;

    #[test]
    fn rules_say_what_they_should() {
        let mut table = SharingTable::new();
        let (g, h) = (table.gpu_type("g"), table.gpu_type("h"));
        for (name, util) in [("a", 90.0), ("b", 60.0), ("c", 20.0)] {
            let job = table.job(name);
            table.set_profile(g, job, &JobProfile::default().with(Quantity::SmUtilPct, util));
        }
        let row = |gpu, own, beside, speed| Directed { gpu, own, beside, speed };
        let rows = [row(g, 0, 1, 0.5), row(g, 1, 0, 0.7), row(g, 0, 2, 0.9), row(g, 2, 0, 0.9)];
        let alone = Alone::new(&table);
        let say = |of: Baseline, request: Directed| of.predict(&table, &alone, &rows, &[request]).unwrap()[0];
        assert!((say(Baseline::Mean, row(g, 1, 2, 0.0)) - 0.75).abs() < 1e-12);
        assert!((say(Baseline::PartnerMean, row(g, 2, 1, 0.0)) - 0.5).abs() < 1e-12);
        assert!((say(Baseline::Carried, row(h, 0, 1, 0.0)) - 0.5).abs() < 1e-12);
        assert!((say(Baseline::Utilisation, row(g, 0, 1, 0.0)) - 100.0 / 150.0).abs() < 1e-12);
        assert!(!Baseline::Utilisation.serves(&table, &[row(h, 0, 1, 0.0)], false));
    }

    #[test]
    fn a_matrix_of_two_factors_is_completed() {
        let truth =
            |i: usize, j: usize| 0.6 + 0.02 * i as f64 - 0.03 * j as f64 + 0.1 * (i as f64).sin() * (j as f64).cos();
        let cells = || (0..9).flat_map(|job| (0..9).map(move |partner| (job, partner)));
        let row =
            |(job, partner): (usize, usize)| Directed { gpu: 0, own: job, beside: partner, speed: truth(job, partner) };
        let rows: Vec<Directed> = cells().filter(|(i, j)| (i * 9 + j) % 7 != 0).map(row).collect();
        let level = rows.iter().map(|row| row.speed).sum::<f64>() / rows.len() as f64;
        let result = Completed::new(9, 0, level, &rows);
        let missing: Vec<f64> =
            cells().filter(|(i, j)| (i * 9 + j) % 7 == 0).map(|(i, j)| (result.at(i, j) - truth(i, j)).abs()).collect();
        assert!(missing.iter().sum::<f64>() / (missing.len() as f64) < 0.03, "{missing:?}");
    }
}
