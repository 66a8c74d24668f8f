//! The model: effects of both jobs of a pair, Gaussian, with what is known alone as prior. It is fitted in closed form and learns from each measured pair.
//!
//! The normalised speed of job type a beside b on GPU type g is
//!
//! ```text
//! speed = level(g) + own(g, a) + beside(g, b) + between(g, family of a, family of b) + same(g)·[one family] − Σ β h(loads of a, loads of b) + noise
//! ```
//!
//! `own` and `beside` are Gaussian with mean 0 and the covariance of a sum: a part of each job type, a part of its family, and a part for each trait
//! ([`super::alone`]), w exp(−d² / 2 l²) at distance d of the standardised traits. What a job type takes and what it suffers are correlated by −½: who holds the
//! GPU longer slows the other. A new family has no part of its own yet, and leans on its traits; its partners are known from other pairs. β ≥ 0 and the
//! terms h are those of `super::load`, less their mean over the rows of the GPU type: the level of a model with β = 0 is the mean speed, and that of any other is what is left of it without loads. Across GPU types effects are correlated by `kinship`, and are in units of how much speeds vary there; a
//! GPU type without pairs has the level of those like it in pace.
//!
//! Noise is at least the mean square of what the fit leaves.
//!
//! The posterior is A⁻¹ with A = P⁻¹ + Φᵀ Φ / noise: O(n³) in the n effects (102 for 26 job types of 7 families), whatever the number of pairs. A pair measured
//! later changes it in O(n²), as a Kalman filter does. How wide the priors are is a [`Prior`]; [`super::committee`] chooses among drawn ones. The variance of a
//! forecast does not depend on loads, so its quantiles fall with loads as its mean does.
//!
//! Worked number: with a level of 0.6, an own effect of −0.1 and a partner's of 0.05 the expected speed is 0.55.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tracecast_analytics::stats::sum;

use super::alone::{Alone, Loads, TRAITS};
use super::cholesky::{Square, dot};
use super::load::LoadTerms;
use super::table::{SharingTable, distinct};

mod design;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

/// One job beside another, measured: half a pair.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Directed {
    /// GPU type.
    pub gpu: usize,
    /// The job whose speed it is.
    pub own: usize,
    /// The job beside it.
    pub beside: usize,
    /// Normalised speed.
    pub speed: f64,
}

/// Variances of speeds that effects are expected to have.
#[derive(Debug, Clone, PartialEq)]
pub struct Prior {
    own_traits: [f64; TRAITS],
    beside_traits: [f64; TRAITS],
    /// Distances over which jobs are alike, standard deviations of each trait.
    lengths: [f64; TRAITS],
    own_family: f64,
    own_job: f64,
    beside_family: f64,
    beside_job: f64,
    between: f64,
    same: f64,
    noise: f64,
    /// Correlation of a job's effects on two GPU types.
    kinship: f64,
}

/// Correlation of what a job takes and what it suffers, less its sign.
const AGAINST: f64 = 0.5;
/// Share of traits that a drawn prior heeds.
const HEEDED: f64 = 0.7;
/// Variance of a coefficient of a load.
const LOAD_VARIANCE: f64 = 0.1;
/// Most effects between families; with more families only the jobs' own remain.
const MOST_BETWEEN: usize = 400;
/// Difference of pace (log steps a second) at which a GPU type counts for 1 / e in the level of another.
const PACE_SCALE: f64 = 0.5;
/// Added to the diagonal of a prior, so that it can be inverted.
const JITTER: f64 = 1e-8;

impl Prior {
    /// Prior `number` of those that a seed gives. Variances are drawn evenly on the scale of logs.
    pub fn draw(seed: u64, number: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(number);
        let mut log_even = |low: f64, high: f64| (low.ln() + rng.random::<f64>() * (high.ln() - low.ln())).exp();
        let mut traits = |low: f64, high: f64| {
            let mut out = [0.0; TRAITS];
            for slot in &mut out {
                // Two numbers a trait, heeded or not, so that a further trait would change none before it.
                let heeded = log_even(1.0, std::f64::consts::E).ln() < HEEDED;
                let variance = log_even(low, high);
                *slot = if heeded { variance } else { 0.0 };
            }
            out
        };
        let own_traits = traits(0.002, 0.05);
        let beside_traits = traits(0.001, 0.025);
        let mut lengths = [0.0; TRAITS];
        for slot in &mut lengths {
            *slot = log_even(0.8, 4.0);
        }
        Self {
            own_traits,
            beside_traits,
            lengths,
            own_family: log_even(0.001, 0.02),
            own_job: log_even(2e-4, 0.01),
            beside_family: log_even(0.001, 0.02),
            beside_job: log_even(2e-4, 0.01),
            between: log_even(3e-4, 0.01),
            same: log_even(0.001, 0.02),
            noise: log_even(8e-4, 0.01),
            kinship: log_even(0.3, 0.7),
        }
    }

    /// Prior with a share of the variance of all effects; the noise and the costs of loads stay.
    pub(super) fn narrower(&self, share: f64) -> Self {
        let all = |traits: [f64; TRAITS]| traits.map(|variance| variance * share);
        Self {
            own_traits: all(self.own_traits),
            beside_traits: all(self.beside_traits),
            own_family: self.own_family * share,
            own_job: self.own_job * share,
            beside_family: self.beside_family * share,
            beside_job: self.beside_job * share,
            between: self.between * share,
            same: self.same * share,
            ..self.clone()
        }
    }
}

/// A forecast of one speed by one model, before it is made to hold.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct EffectForecast {
    /// Level and effects.
    pub(super) effects: f64,
    /// Speed lost to loads.
    pub(super) lost: f64,
    /// Variance of effects and noise.
    pub(super) variance: f64,
}

/// The model fitted with one prior.
#[derive(Debug, Clone)]
pub(super) struct Posterior {
    /// GPU types it knows, in order.
    types: Vec<usize>,
    jobs: usize,
    families: usize,
    family_of: Vec<usize>,
    has_between: bool,
    levels: Vec<f64>,
    noises: Vec<f64>,
    mean: Vec<f64>,
    covariance: Square,
    terms: LoadTerms,
    costs: Vec<f64>,
}

/// Parts of a fit that do not depend on the prior: the rows that teach, their GPU types and their
/// level.
#[derive(Debug)]
pub(super) struct Lesson<'a> {
    table: &'a SharingTable,
    alone: &'a Alone,
    rows: &'a [Directed],
    types: Vec<usize>,
    traits: Vec<Vec<[f64; TRAITS]>>,
    heeded: [bool; TRAITS],
    levels: Vec<f64>,
    scales: Vec<f64>,
    terms: LoadTerms,
    /// Mean terms of the rows of each GPU type, of which costs are the difference: else every cost would be held against the mean speed.
    usual: Vec<Vec<f64>>,
}

/// Mean and mean squared distance from it (divisor n) of some numbers; both 0 of none.
fn moments(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let variance = sum::variance(values).map_or(0.0, |variance| variance * (count - 1.0) / count);
    (sum::mean(values).unwrap_or_default(), variance)
}

fn has_between(table: &SharingTable, types: usize) -> bool {
    let families = table.families().len();
    families * families * types <= MOST_BETWEEN
}

/// Number of effects that the model of a table has on so many GPU types.
pub(super) fn effects(table: &SharingTable, types: usize) -> usize {
    let families = table.families().len();
    let between = if has_between(table, types) { families * families * types } else { 0 };
    2 * types * table.jobs().len() + between + types
}

impl<'a> Lesson<'a> {
    /// Lesson from rows, for forecasts on their GPU types and on those named.
    pub(super) fn new(table: &'a SharingTable, alone: &'a Alone, rows: &'a [Directed], wanted: &[usize]) -> Self {
        let types = distinct(rows.iter().map(|row| row.gpu).chain(wanted.iter().copied()));
        let jobs = table.jobs().len();
        let mut all = vec![false; jobs];
        let mark = |teaches: &mut [bool], row: &Directed| {
            for job in [row.own, row.beside] {
                if let Some(slot) = teaches.get_mut(job) {
                    *slot = true;
                }
            }
        };
        rows.iter().for_each(|row| mark(&mut all, row));
        let (mut traits, mut heeded) = (Vec::new(), [false; TRAITS]);
        let (mut taught, mut spreads) = (Vec::new(), Vec::new());
        for gpu in &types {
            let here: Vec<f64> = rows.iter().filter(|row| row.gpu == *gpu).map(|row| row.speed).collect();
            let mut teaches = vec![false; jobs];
            rows.iter().filter(|row| row.gpu == *gpu).for_each(|row| mark(&mut teaches, row));
            let (standard, differ) = alone.standardised(*gpu, if here.is_empty() { &all } else { &teaches });
            heeded.iter_mut().zip(differ).for_each(|(heeded, differs)| *heeded |= differs);
            traits.push(standard);
            let (level, variance) = moments(&here);
            taught.push((!here.is_empty()).then_some(level));
            spreads.push((!here.is_empty()).then(|| variance.max(1e-6).sqrt()));
        }
        let levels =
            types.iter().zip(&taught).map(|(gpu, own)| own.unwrap_or_else(|| like(alone, *gpu, &types, &taught)));
        let levels = levels.collect();
        // Effects are in units of how much speeds vary on a GPU type, beside the middle of all.
        let logs: Vec<f64> = spreads.iter().flatten().map(|spread: &f64| spread.ln()).collect();
        let middle = moments(&logs).0.exp();
        let scales = spreads.iter().map(|spread| spread.map_or(1.0, |spread| spread / middle)).collect();
        let terms = LoadTerms::new(alone, rows.iter().map(|row| (row.gpu, row.own)));
        let usual = usual_terms(&terms, alone, rows, &types);
        Self { table, alone, rows, types, traits, heeded, levels, scales, terms, usual }
    }

    /// Number of effects.
    pub(super) fn size(&self) -> usize {
        effects(self.table, self.types.len())
    }

    fn has_between(&self) -> bool {
        has_between(self.table, self.types.len())
    }

    /// Covariance of a job's effects on two GPU types, in units of their spread.
    fn kin(&self, prior: &Prior) -> Square {
        let mut kin = Square::zeros(self.types.len());
        for (i, one) in self.scales.iter().enumerate() {
            for (j, other) in self.scales.iter().enumerate() {
                kin.set(i, j, one * other * if i == j { 1.0 } else { prior.kinship });
            }
        }
        kin
    }

    /// Prior covariance of all own effects, then all of being beside.
    fn prior_of_jobs(&self, prior: &Prior, kin: &Square) -> Square {
        let jobs = self.table.jobs().len();
        let half = self.types.len() * jobs;
        let mut out = Square::zeros(2 * half);
        let heeded =
            |at: usize, variance: f64| if self.heeded.get(at).copied().unwrap_or(false) { variance } else { 0.0 };
        let parts: Vec<(f64, f64, f64, usize)> = (0..TRAITS)
            .zip(prior.own_traits.iter().zip(&prior.beside_traits).zip(&prior.lengths))
            .map(|(at, ((own, beside), length))| (heeded(at, *own), heeded(at, *beside), *length, at))
            .filter(|(own, beside, _, _)| own + beside > 0.0)
            .collect();
        let none = [0.0; TRAITS];
        for (i, one) in self.traits.iter().enumerate() {
            for (j, other) in self.traits.iter().enumerate().take(i + 1) {
                for a in 0..jobs {
                    let x = one.get(a).unwrap_or(&none);
                    for b in 0..jobs {
                        let y = other.get(b).unwrap_or(&none);
                        let (mut own, mut beside, mut cross) = (0.0, 0.0, 0.0);
                        let mut part = |own_part: f64, beside_part: f64, like: f64| {
                            own += own_part * like;
                            beside += beside_part * like;
                            cross += (own_part * beside_part).sqrt() * like;
                        };
                        for (own_part, beside_part, length, at) in &parts {
                            let far = (x.get(*at).unwrap_or(&0.0) - y.get(*at).unwrap_or(&0.0)) / length;
                            part(*own_part, *beside_part, (-0.5 * far * far).exp());
                        }
                        if self.table.family(a) == self.table.family(b) {
                            part(prior.own_family, prior.beside_family, 1.0);
                        }
                        if a == b {
                            part(prior.own_job, prior.beside_job, 1.0);
                        }
                        let kin = kin.get(i, j);
                        let jitter = if i == j && a == b { JITTER } else { 0.0 };
                        let (p, q) = (i * jobs + a, j * jobs + b);
                        for (row, column) in [(p, q), (q, p)] {
                            out.set(row, column, kin * own + jitter);
                            out.set(half + row, half + column, kin * beside + jitter);
                            out.set(row, half + column, -AGAINST * kin * cross);
                            out.set(half + row, column, -AGAINST * kin * cross);
                        }
                    }
                }
            }
        }
        out
    }

    /// Fits the model with a prior; `None` if the numbers do not allow it.
    pub(super) fn fit(&self, prior: &Prior) -> Option<Posterior> {
        let (jobs, families, types) = (self.table.jobs().len(), self.table.families().len(), self.types.len());
        let size = self.size();
        let mut posterior = Posterior {
            types: self.types.clone(),
            jobs,
            families,
            family_of: (0..jobs).map(|job| self.table.family(job)).collect(),
            has_between: self.has_between(),
            levels: self.levels.clone(),
            noises: self.scales.iter().map(|scale| prior.noise * scale * scale).collect(),
            mean: vec![0.0; size],
            covariance: Square::zeros(size),
            terms: self.terms.clone(),
            costs: vec![0.0; self.terms.count()],
        };
        let count = self.terms.count();
        let mut precision = Square::zeros(size + count);
        let kin = self.kin(prior);
        let of_jobs = self.prior_of_jobs(prior, &kin).factor()?.inverse();
        for row in 0..of_jobs.size() {
            for (column, value) in of_jobs.row(row).iter().enumerate() {
                precision.set(row, column, *value);
            }
        }
        let kin_inverse = kin.factor()?.inverse();
        let blocks = (size - of_jobs.size()) / types.max(1);
        for block in 0..blocks {
            // The last block is that of one family beside itself.
            let variance = if block + 1 == blocks { prior.same } else { prior.between };
            let from = of_jobs.size() + block * types;
            for i in 0..types {
                for j in 0..types {
                    precision.set(from + i, from + j, kin_inverse.get(i, j) / variance);
                }
            }
        }
        let mut told = vec![0.0; size + count];
        for at in size..size + count {
            precision.set(at, at, 1.0 / LOAD_VARIANCE);
        }
        for row in self.rows {
            let Some(kind) = posterior.kind(row.gpu) else { continue };
            let noise = posterior.noises.get(kind).copied()?;
            let level = posterior.levels.get(kind).copied()?;
            let touched: Vec<usize> = posterior.touched(kind, row.own, row.beside).collect();
            let terms = self.terms.of_pair(self.alone.loads(row.gpu, row.own), self.alone.loads(row.gpu, row.beside));
            let usual = self.usual.get(kind)?;
            let terms: Vec<f64> = terms.iter().zip(usual).map(|(term, usual)| term - usual).collect();
            let weighted: Vec<(usize, f64)> = touched
                .iter()
                .map(|at| (*at, 1.0))
                .chain(terms.iter().enumerate().map(|(at, term)| (size + at, -term)))
                .collect();
            for (i, one) in &weighted {
                for (j, other) in &weighted {
                    precision.add(*i, *j, one * other / noise);
                }
                if let Some(slot) = told.get_mut(*i) {
                    *slot += one * (row.speed - level) / noise;
                }
            }
        }
        posterior.solve(&precision, &told)?;
        for (level, usual) in posterior.levels.iter_mut().zip(&self.usual) {
            *level += dot(usual, &posterior.costs);
        }
        self.heed_what_is_left(&mut posterior);
        Some(posterior)
    }

    /// Number of values of a posterior of this lesson ([`Posterior::numbers`]).
    pub(super) fn numbers(&self) -> usize {
        let size = self.size();
        2 * self.types.len() + size + self.terms.count() + size * (size + 1) / 2
    }

    /// Restores the posterior with these numbers; `None` if they are not as many as it has, or not
    /// all finite.
    pub(super) fn restore(&self, numbers: &[f64]) -> Option<Posterior> {
        if numbers.len() != self.numbers() || numbers.iter().any(|number| !number.is_finite()) {
            return None;
        }
        let (types, size) = (self.types.len(), self.size());
        let (levels, rest) = numbers.split_at_checked(types)?;
        let (noises, rest) = rest.split_at_checked(types)?;
        let (mean, rest) = rest.split_at_checked(size)?;
        let (costs, mut rest) = rest.split_at_checked(self.terms.count())?;
        let mut covariance = Square::zeros(size);
        for row in 0..size {
            let (values, after) = rest.split_at_checked(row + 1)?;
            for (column, value) in values.iter().enumerate() {
                covariance.set(row, column, *value);
                covariance.set(column, row, *value);
            }
            rest = after;
        }
        let jobs = self.table.jobs().len();
        Some(Posterior {
            types: self.types.clone(),
            jobs,
            families: self.table.families().len(),
            family_of: (0..jobs).map(|job| self.table.family(job)).collect(),
            has_between: self.has_between(),
            levels: levels.to_vec(),
            noises: noises.to_vec(),
            mean: mean.to_vec(),
            covariance,
            terms: self.terms.clone(),
            costs: costs.to_vec(),
        })
    }

    /// Raises the noise to the mean square of what the fit leaves of its rows: a prior with less would trust every later pair too much.
    fn heed_what_is_left(&self, posterior: &mut Posterior) {
        for (kind, gpu) in self.types.iter().enumerate() {
            let here = self.rows.iter().filter(|row| row.gpu == *gpu);
            let left: Vec<f64> = here
                .filter_map(|row| {
                    let told = posterior.forecast(self.alone, row.gpu, row.own, row.beside)?;
                    Some((row.speed - (told.effects - told.lost)).powi(2))
                })
                .collect();
            if let Some(noise) = posterior.noises.get_mut(kind).filter(|_| !left.is_empty()) {
                *noise = noise.max(sum::mean(&left).unwrap_or_default());
            }
        }
    }
}

/// Mean terms of the rows of each GPU type; of one without rows, the plain mean over the others, however like it in pace they are.
fn usual_terms(terms: &LoadTerms, alone: &Alone, rows: &[Directed], types: &[usize]) -> Vec<Vec<f64>> {
    let mean = |of: &mut dyn Iterator<Item = Vec<f64>>| {
        let (mut sums, mut count) = (vec![0.0; terms.count()], 0.0);
        for row in of {
            sums.iter_mut().zip(row).for_each(|(sum, term)| *sum += term);
            count += 1.0;
        }
        (count > 0.0).then(|| sums.into_iter().map(|sum| sum / count).collect::<Vec<f64>>())
    };
    let of_row = |row: &Directed| terms.of_pair(alone.loads(row.gpu, row.own), alone.loads(row.gpu, row.beside));
    let result: Vec<Option<Vec<f64>>> =
        types.iter().map(|gpu| mean(&mut rows.iter().filter(|row| row.gpu == *gpu).map(of_row))).collect();
    let all = mean(&mut result.iter().flatten().cloned()).unwrap_or_else(|| vec![0.0; terms.count()]);
    result.into_iter().map(|one| one.unwrap_or_else(|| all.clone())).collect()
}

/// The level of a GPU type without pairs: the mean of the others', those of like pace first.
fn like(alone: &Alone, gpu: usize, types: &[usize], taught: &[Option<f64>]) -> f64 {
    let (mut sum, mut weights) = (0.0, 0.0);
    for (other, level) in types.iter().zip(taught) {
        let Some(level) = level else { continue };
        let far = alone.pace(gpu).zip(alone.pace(*other)).map_or(0.0, |(one, other)| (one - other).abs());
        let weight = (-far / PACE_SCALE).exp().max(1e-6);
        sum += weight * level;
        weights += weight;
    }
    if weights > 0.0 { sum / weights } else { 1.0 }
}

impl Posterior {
    /// All learned values: levels, noises, means, costs, then the covariance row by row up to its
    /// diagonal.
    pub(super) fn numbers(&self) -> Vec<f64> {
        let mut out = Vec::new();
        for part in [&self.levels, &self.noises, &self.mean, &self.costs] {
            out.extend_from_slice(part);
        }
        for row in 0..self.covariance.size() {
            out.extend_from_slice(self.covariance.row(row).get(..=row).unwrap_or_default());
        }
        out
    }

    /// Place of a GPU type among those it knows.
    fn kind(&self, gpu: usize) -> Option<usize> {
        self.types.iter().position(|known| *known == gpu)
    }

    /// Places of the effects that one job beside another has.
    fn touched(&self, kind: usize, own: usize, beside: usize) -> impl Iterator<Item = usize> + use<> {
        let (types, jobs) = (self.types.len(), self.jobs);
        let family = |job: usize| self.family_of.get(job).copied().unwrap_or_default();
        let (of_own, of_beside) = (family(own), family(beside));
        let from = 2 * types * jobs;
        let between = if self.has_between { self.families * self.families } else { 0 };
        let pair = self.has_between.then(|| from + (of_own * self.families + of_beside) * types + kind);
        let same = (of_own == of_beside).then_some(from + between * types + kind);
        [kind * jobs + own, types * jobs + kind * jobs + beside].into_iter().chain(pair).chain(same)
    }

    /// Mean, costs and covariance from the precision. A cost that came out negative is 0.
    fn solve(&mut self, precision: &Square, told: &[f64]) -> Option<()> {
        let size = self.mean.len();
        let effects: Vec<usize> = (0..size).collect();
        let mut free: Vec<usize> = (size..precision.size()).collect();
        let own = if free.is_empty() { None } else { Some(precision.part(&effects).factor()?) };
        loop {
            let places: Vec<usize> = effects.iter().chain(&free).copied().collect();
            let known: Vec<f64> = places.iter().filter_map(|at| told.get(*at).copied()).collect();
            let factor = precision.part(&places).factor()?;
            let result = factor.solve(&known);
            let (mean, costs) = result.split_at_checked(size)?;
            if costs.iter().any(|cost| *cost < 0.0) {
                free = free.iter().zip(costs).filter(|(_, cost)| **cost >= 0.0).map(|(at, _)| *at).collect();
                continue;
            }
            self.mean = mean.to_vec();
            for (at, cost) in free.iter().zip(costs) {
                if let Some(slot) = self.costs.get_mut(at - size) {
                    *slot = *cost;
                }
            }
            self.covariance = own.as_ref().unwrap_or(&factor).inverse();
            return self.mean.iter().all(|value| value.is_finite()).then_some(());
        }
    }

    /// Forecasts the speed of one job beside another; `None` on a GPU type that it does not know.
    pub(super) fn forecast(&self, alone: &Alone, gpu: usize, own: usize, beside: usize) -> Option<EffectForecast> {
        self.forecast_at(gpu, (own, alone.loads(gpu, own)), (beside, alone.loads(gpu, beside)))
    }

    /// Forecast for jobs under other loads than those of their type.
    pub(super) fn forecast_at(
        &self,
        gpu: usize,
        (own, own_loads): (usize, Loads),
        (beside, beside_loads): (usize, Loads),
    ) -> Option<EffectForecast> {
        let kind = self.kind(gpu)?;
        let touched: Vec<usize> = self.touched(kind, own, beside).collect();
        let effects = touched.iter().filter_map(|at| self.mean.get(*at)).sum::<f64>();
        let variance: f64 = touched.iter().flat_map(|i| touched.iter().map(|j| self.covariance.get(*i, *j))).sum();
        let lost = dot(&self.terms.of_pair(own_loads, beside_loads), &self.costs);
        let noise = self.noises.get(kind).copied()?;
        Some(EffectForecast {
            effects: self.levels.get(kind).copied()? + effects,
            lost,
            variance: variance.max(0.0) + noise,
        })
    }

    /// Learns from one more measured speed.
    pub(super) fn learn(&mut self, alone: &Alone, row: &Directed) -> Option<()> {
        let kind = self.kind(row.gpu)?;
        let told = self.forecast(alone, row.gpu, row.own, row.beside)?;
        let touched: Vec<usize> = self.touched(kind, row.own, row.beside).collect();
        let gains: Vec<f64> =
            (0..self.mean.len()).map(|i| touched.iter().map(|j| self.covariance.get(*j, i)).sum()).collect();
        let surprise = row.speed - (told.effects - told.lost);
        for (mean, gain) in self.mean.iter_mut().zip(&gains) {
            *mean += gain * surprise / told.variance;
        }
        self.covariance.less_outer(&gains, told.variance);
        Some(())
    }
}
