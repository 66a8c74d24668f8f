//! The predictor: models of several priors together, chosen on families that were left out, with intervals widened until they held there.
//!
//! Nobody can say beforehand how alike jobs of one family are, or whether steps a second say more than the batch. So [`Prior`]s are drawn from a seed. Each
//! is fitted with every group (family) left out in turn and scored on it; the best third is the committee, whose forecasts are averaged. This happens
//! within what teaches: a family that is held back to test the predictor has no part in it. How far the committee misses a group that was left out is
//! told by the third that is best on the pairs without that group: those picked on a group's own rows would look better there than they are.
//!
//! **After measured pairs** other priors are best. How wide effects are beside the noise hardly matters to a forecast of a family of which nothing was measured, but says how much one
//! measured pair is to be trusted. So 1, 3 and 5 pairs of each job type that was left out are then measured (`held_back`), and the priors that forecast the rest best are a second committee, for couples of which some pair of
//! both was measured. Among them are priors with a tenth and a hundredth of the drawn effects: where loads say all there is to say, a measured pair is mostly noise, and is to change little.
//!
//! The spread of a forecast is the root of its mean variance and of the variance of the members' effects. Where the committee missed groups that were left
//! out, it missed by |y − p| / spread; the 80 and 90 % quantiles of that, each group with the same weight, times (n + 1) / n for n groups, are how
//! many spreads the 80 and 90 % intervals reach. They are found for each count of measured pairs (`reach`): what a family has of its own is most of the spread before any pair was measured, and noise is
//! most of it later, and the one may be taken for too wide while the other is too narrow. Loads have no part in the spread, so every quantile falls as loads rise.
//!
//! O(priors × groups × effects³). Worked number: with 7 groups that were missed by 1.7 spreads in nine of ten cases, the 90 % interval of a forecast of 0.55
//! with spread 0.04 is 0.55 ± 1.7 × 8 / 7 × 0.04, 0.47 to 0.63.

use rayon::prelude::*;
use serde::Serialize;

use super::alone::{Alone, Loads};
use super::effects::{Directed, EffectForecast, Lesson, Posterior, Prior, effects};
use super::memory::Memory;
use super::score::NORMAL90;
use super::table::{JobProfile, Quantity, SharingTable, distinct};
use crate::error::{Error, Result};

/// Levels of the quantiles of a forecast.
pub const LEVELS: [f64; 5] = [0.05, 0.1, 0.5, 0.9, 0.95];
/// Slowest speed that is forecast.
pub(super) const SLOWEST: f64 = 0.02;
/// Priors drawn, and from how many effects on fewer.
const DRAWN: [(usize, u64); 3] = [(150, 32), (400, 12), (usize::MAX, 6)];
/// The first of so many of the priors drawn also stand with effects that are narrower: a share of their variance.
const NARROWED: u64 = 3;
const NARROWER: [f64; 2] = [0.1, 0.01];
/// Spreads that 80 and 90 % intervals reach where nothing could be left out: those of a normal distribution, and half more.
const UNTESTED: (f64, f64) = (1.92, 2.47);

mod held_back;
mod reach;

use held_back::{Counts, HeldBack, Trial, counts, fewest};
pub(super) use reach::{Chosen, Reaches};

/// Forecast of the speed of one job beside another.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SpeedForecast {
    /// Expected normalised speed.
    pub mean: f64,
    /// Quantiles at [`LEVELS`].
    pub quantiles: [f64; 5],
    /// Standard deviation that the 90 % interval stands for.
    pub deviation: f64,
}

impl SpeedForecast {
    /// The chance that the speed is below `speed`, from 0 to 1 and rising with it.
    ///
    /// The normal distribution function is taken as the logistic one of 1.702 z, which is within 0.01 of it.
    pub fn below(&self, speed: f64) -> f64 {
        let z = (speed - self.mean) / self.deviation.max(1e-9);
        1.0 / (1.0 + (-1.702 * z).exp())
    }
}

/// Forecast of two jobs on one GPU.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PairForecast {
    /// Speed of the first job.
    pub a: SpeedForecast,
    /// Speed of the second job.
    pub b: SpeedForecast,
    /// The chance that the two do not fit into the GPU's memory.
    pub out_of_memory: f64,
}

impl PairForecast {
    /// The chance that the slower of the two runs below `speed`.
    pub fn worse_below(&self, speed: f64) -> f64 {
        worse_below(&self.a, &self.b, speed)
    }
}

/// The chance that the slower of two speeds is below `speed`, as if they were independent.
pub fn worse_below(a: &SpeedForecast, b: &SpeedForecast, speed: f64) -> f64 {
    1.0 - (1.0 - a.below(speed)) * (1.0 - b.below(speed))
}

/// The predictor, trained.
#[derive(Debug, Clone)]
pub struct Committee {
    alone: Alone,
    /// Models of the chosen priors.
    members: Vec<Posterior>,
    /// Models that forecast, before and after pairs were measured.
    chosen: Chosen,
    reaches: Reaches,
    counts: Counts,
    fastest: f64,
    /// Mean absolute error on the groups that were left out in training; `None` where there were too few to leave one out.
    pub held_back_mae: Option<f64>,
    memory: Memory,
}

/// Half pairs of a table: both speeds of each pair that fitted.
pub fn directed(table: &SharingTable) -> Vec<Directed> {
    let mut rows = Vec::new();
    for pair in table.pairs() {
        let Some(speeds) = pair.speeds else { continue };
        rows.push(Directed { gpu: pair.gpu, own: pair.a, beside: pair.b, speed: speeds.a });
        if pair.a != pair.b {
            rows.push(Directed { gpu: pair.gpu, own: pair.b, beside: pair.a, speed: speeds.b });
        }
    }
    rows
}

/// Priors of a model of so many effects: those drawn, then some of them with narrower effects.
fn priors(effects: usize, seed: u64) -> Vec<Prior> {
    let (drawn, some) = (drawn(effects), drawn(effects).div_ceil(NARROWED));
    let narrower = NARROWER.iter().flat_map(|share| (0..some).map(|number| Prior::draw(seed, number).narrower(*share)));
    (0..drawn).map(|number| Prior::draw(seed, number)).chain(narrower).collect()
}

/// Priors drawn for a model of so many effects.
pub(super) fn drawn(effects: usize) -> u64 {
    DRAWN.iter().find(|(most, _)| effects <= *most).map_or(6, |(_, drawn)| *drawn)
}

/// Most folds of families, and from how many effects on fewer.
const FOLDS: [(usize, usize); 2] = [(400, 16), (usize::MAX, 8)];

/// Most folds of families of a model of so many effects.
pub(super) fn folds(effects: usize) -> usize {
    FOLDS.iter().find(|(most, _)| effects <= *most).map_or(8, |(_, folds)| *folds)
}

/// Two groups of a row: where either is left out, the row does not teach.
pub type Groups = (usize, usize);

/// Forecast of several models together: effects, what loads take, and the spread.
fn together(forecasts: &[EffectForecast]) -> (f64, f64) {
    let count = forecasts.len().max(1) as f64;
    let mean = |of: &dyn Fn(&EffectForecast) -> f64| forecasts.iter().map(of).sum::<f64>() / count;
    let effects = mean(&|one| one.effects);
    let spread = mean(&|one| one.variance) + mean(&|one| (one.effects - effects).powi(2));
    (effects - mean(&|one| one.lost), spread.sqrt())
}

/// The forecast where nothing is known: between nothing and the fastest.
fn anything(fastest: f64) -> SpeedForecast {
    SpeedForecast { mean: 0.5, quantiles: [0.0, 0.0, 0.5, fastest, fastest], deviation: fastest / 2.0 / NORMAL90 }
}

impl Committee {
    /// Trains on some rows of a table, each of the groups named beside it, to forecast on their GPU types and on those in `wanted`. `fits` says of
    /// pairs (in the table's order) which may teach what fits.
    ///
    /// # Errors
    /// If there are fewer than four rows, or no model can be fitted to them.
    pub fn train(
        table: &SharingTable,
        rows: &[Directed],
        groups: &[Groups],
        fits: &[bool],
        wanted: &[usize],
        seed: u64,
    ) -> Result<Self> {
        if rows.len() < 4 {
            return Err(Error::TooFew(format!(
                "{} measured speeds are too few to learn how jobs share; measure at least four pairs",
                rows.len()
            )));
        }
        let alone = Alone::new(table);
        let lesson = Lesson::new(table, &alone, rows, wanted);
        let priors = priors(lesson.size(), seed);
        let fastest = rows.iter().map(|row| row.speed).fold(1.0, f64::max);
        let plain = drawn(lesson.size()) as usize;
        let most = (plain / 3).max(1);
        let trial = Trial::of(rows, groups, seed);
        let said = if trial.groups() > 1 { trial.said(table, &alone, &priors) } else { Vec::new() };
        let held = HeldBack::new(&trial, &said, fastest, (plain, most));
        let order = held.chosen(None).unwrap_or_else(|| Chosen::first(most));
        let used = distinct(order.all());
        let fitted: Vec<(usize, Option<Posterior>)> =
            used.par_iter().map(|at| (*at, priors.get(*at).and_then(|prior| lesson.fit(prior)))).collect();
        let fitted: Vec<(usize, Posterior)> =
            fitted.into_iter().filter_map(|(at, posterior)| Some((at, posterior?))).collect();
        let chosen = order.among(&fitted.iter().map(|(at, _)| *at).collect::<Vec<usize>>());
        let members: Vec<Posterior> = fitted.into_iter().map(|(_, posterior)| posterior).collect();
        if !chosen.is_sound(members.len()) {
            return Err(Error::Learner {
                learner: "effects of jobs",
                reason: "no prior gives a positive definite posterior".to_owned(),
            });
        }
        let (reaches, held_back_mae) = held.calibrated();
        let memory = Memory::train(table, fits);
        let counts = counts(rows);
        Ok(Self { alone, members, chosen, reaches, counts, fastest, held_back_mae, memory })
    }

    /// Choice of models, and reach of intervals, which the [numbers](Self::numbers) do not hold.
    pub(super) fn choice(&self) -> (&Chosen, &Reaches) {
        (&self.chosen, &self.reaches)
    }

    /// Shift of the log odds that a pair with a new family does not fit, on each GPU type; none
    /// where they stand as they were found.
    pub(super) fn shifts(&self) -> Vec<Option<f64>> {
        self.memory.shifts()
    }

    /// The numbers of a trained predictor: how far intervals reach where nothing was measured, the fastest speed, the error on groups left out (negative if unknown), then those of
    /// every member.
    pub(super) fn numbers(&self) -> Vec<f64> {
        let (reach80, reach90) = self.reaches.at(0);
        let mut out = vec![reach80, reach90, self.fastest, self.held_back_mae.unwrap_or(-1.0)];
        self.members.iter().for_each(|member| out.extend(member.numbers()));
        out
    }

    /// Restores the predictor that was [trained](Self::new) on a table, from its numbers, its
    /// [choice](Self::choice) and its [shifts](Self::shifts); `None` if they are not of that table.
    /// Where there is no choice, all models forecast everything, and intervals reach as far
    /// whatever was measured; without shifts, chances of new families are not calibrated.
    pub(super) fn restore(
        table: &SharingTable,
        numbers: &[f64],
        choice: Option<(Chosen, Reaches)>,
        shifts: &[Option<f64>],
    ) -> Option<Self> {
        let (alone, rows) = (Alone::new(table), directed(table));
        let gpus: Vec<usize> = (0..table.gpu_types().len()).collect();
        let lesson = Lesson::new(table, &alone, &rows, &gpus);
        let (head, rest) = numbers.split_at_checked(4)?;
        let [reach80, reach90, fastest, mae] = *head else { return None };
        let parts = rest.chunks_exact(lesson.numbers().max(1));
        if !parts.remainder().is_empty() || head.iter().any(|number| !number.is_finite()) {
            return None;
        }
        let members: Vec<Posterior> = parts.map(|part| lesson.restore(part)).collect::<Option<_>>()?;
        let (chosen, reaches) =
            choice.unwrap_or_else(|| (Chosen::first(members.len()), Reaches::even((reach80, reach90))));
        if !chosen.is_sound(members.len()) || !reaches.is_sound() {
            return None;
        }
        let memory = Memory::restore(table, shifts);
        let (held_back_mae, counts) = ((mae >= 0.0).then_some(mae), counts(&rows));
        Some(Self { alone, members, chosen, reaches, counts, fastest, held_back_mae, memory })
    }

    /// Trains on all pairs of a table, families as groups, of which at most as many are left out as in a back-test.
    ///
    /// # Errors
    /// Errors of [`Self::train`].
    pub fn new(table: &SharingTable, seed: u64) -> Result<Self> {
        let rows = directed(table);
        let most = folds(effects(table, table.gpu_types().len()));
        let fold = |job: usize| table.family(job) % most;
        let groups: Vec<Groups> = rows.iter().map(|row| (fold(row.own), fold(row.beside))).collect();
        let gpus: Vec<usize> = (0..table.gpu_types().len()).collect();
        Self::train(table, &rows, &groups, &vec![true; table.pairs().len()], &gpus, seed)
    }

    /// The fastest speed that is forecast.
    pub(super) fn fastest(&self) -> f64 {
        self.fastest
    }

    /// Forecasts the speed of one job type beside another. On a GPU type that it was not trained for, anything is possible.
    pub fn speed(&self, gpu: usize, own: usize, beside: usize) -> SpeedForecast {
        self.speed_at(gpu, (own, self.alone.loads(gpu, own)), (beside, self.alone.loads(gpu, beside)))
    }

    /// The deviation of a forecast as if a pair of both job types had been measured, so that it only falls with what is.
    pub(super) fn deviation_once_measured(&self, gpu: usize, own: usize, beside: usize) -> f64 {
        let (own, beside) = ((own, self.alone.loads(gpu, own)), (beside, self.alone.loads(gpu, beside)));
        self.speed_after(1, gpu, own, beside).deviation
    }

    fn speed_at(&self, gpu: usize, own: (usize, Loads), beside: (usize, Loads)) -> SpeedForecast {
        self.speed_after(fewest(&self.counts, gpu, own.0, beside.0), gpu, own, beside)
    }

    /// The forecast of the models that forecast after so many measured pairs, with the interval of that count.
    fn speed_after(&self, count: usize, gpu: usize, own: (usize, Loads), beside: (usize, Loads)) -> SpeedForecast {
        let members = self.chosen.at(count).iter().filter_map(|at| self.members.get(*at));
        let all: Vec<EffectForecast> = members.filter_map(|member| member.forecast_at(gpu, own, beside)).collect();
        if all.is_empty() {
            return anything(self.fastest);
        }
        let (mean, spread) = together(&all);
        let told = mean.clamp(SLOWEST, self.fastest);
        let (reach80, reach90) = self.reaches.at(count);
        let at = |reach: f64| (mean + reach * spread).clamp(0.0, self.fastest);
        SpeedForecast {
            mean: told,
            quantiles: [
                at(-reach90).min(told),
                at(-reach80).min(told),
                told,
                at(reach80).max(told),
                at(reach90).max(told),
            ],
            deviation: (reach90 * spread / NORMAL90).max(1e-6),
        }
    }

    /// Forecasts two job types on one GPU. The order of the two only swaps the answer.
    pub fn pair(&self, gpu: usize, a: usize, b: usize) -> PairForecast {
        PairForecast {
            a: self.speed(gpu, a, b),
            b: self.speed(gpu, b, a),
            out_of_memory: self.memory.chance(gpu, (a, None), (b, None)),
        }
    }

    /// Forecast for two jobs whose loads and memory were observed, and may differ from those of
    /// their type. No speed rises with any load, and the chance that they do not fit falls with no
    /// memory.
    pub fn pair_with(&self, gpu: usize, a: (usize, &JobProfile), b: (usize, &JobProfile)) -> PairForecast {
        let seen = |(job, profile): (usize, &JobProfile)| (job, self.alone.loads_of(gpu, profile));
        let memory = |(job, profile): (usize, &JobProfile)| (job, profile.get(Quantity::MemoryMb));
        PairForecast {
            a: self.speed_at(gpu, seen(a), seen(b)),
            b: self.speed_at(gpu, seen(b), seen(a)),
            out_of_memory: self.memory.chance(gpu, memory(a), memory(b)),
        }
    }

    /// The chance that several jobs do not fit together, each with its memory where that was seen.
    pub(super) fn group_out_of_memory(&self, gpu: usize, all: &[(usize, Option<f64>)]) -> f64 {
        self.memory.chance_of_group(gpu, all)
    }

    /// `count` partners for each of the new job types on a GPU type, as (new, partner) in the order in which to measure them. Nobody is measured twice with the same partner.
    pub fn to_measure(&self, gpu: usize, new: &[usize], partners: &[usize], count: usize) -> Vec<(usize, usize)> {
        let mut wiser = self.clone();
        let mut result: Vec<(usize, usize)> = Vec::new();
        let is_known =
            |result: &[(usize, usize)], a: usize, b: usize| result.contains(&(a, b)) || result.contains(&(b, a));
        for _ in 0..count {
            for job in new {
                let mut best: Option<(f64, usize)> = None;
                for partner in partners.iter().filter(|partner| !is_known(&result, *job, **partner)) {
                    let falls = wiser.falls(gpu, (*job, *partner), new, partners);
                    if best.is_none_or(|(most, _)| falls > most + 1e-12) {
                        best = Some((falls, *partner));
                    }
                }
                if let Some((_, partner)) = best {
                    wiser.looks_at(gpu, *job, partner);
                    result.push((*job, partner));
                }
            }
        }
        result
    }

    /// Decrease of the variances of all forecasts of some jobs beside each partner by measuring a
    /// pair: the mean over the models.
    fn falls(&self, gpu: usize, pair: (usize, usize), jobs: &[usize], partners: &[usize]) -> f64 {
        let members = self.chosen.measured.iter().filter_map(|at| self.members.get(*at));
        let all: f64 = members.map(|member| member.falls(gpu, pair, jobs, partners)).sum();
        all / self.chosen.measured.len().max(1) as f64
    }

    /// Counts a pair as measured, whatever came of it.
    pub(super) fn looks_at(&mut self, gpu: usize, a: usize, b: usize) {
        for job in distinct([a, b]) {
            *self.counts.entry((gpu, job)).or_default() += 1;
        }
        for member in &mut self.members {
            member.looks_at(&self.alone, gpu, (a, b));
        }
    }

    /// Learns from measured speeds; both halves of a pair are a row each.
    pub fn learn(&mut self, rows: &[Directed]) {
        for (of, more) in counts(rows) {
            *self.counts.entry(of).or_default() += more;
        }
        for member in &mut self.members {
            for row in rows {
                // A GPU type that it does not know teaches nothing.
                let _ = member.learn(&self.alone, row);
            }
        }
    }
}
