//! Forecasts of priors for groups that were left out, before and after some pairs of their job
//! types were measured.
//!
//! A group (a family) is left out of what teaches, and its speeds are forecast. Where that leaves job types of which no pair was measured on a GPU type, their pairs are then measured: of
//! each, in an order drawn from a seed, the first 1, 3 and 5 ([`COUNTS`]). The models learn both speeds of each, and forecast what is left. So errors and spreads after some pairs are known from
//! groups that had no part in the fit, as those before any are.
//!
//! A forecast is of a **count**: the pairs measured of that of its two job types of which fewer were.
//!
//! O(priors × groups × (effects³ + learned × effects²)). Worked example: of a family of 4 job types beside 28 others at least 4 pairs and at most 20 are learned.

use std::collections::{BTreeMap, BTreeSet};

use rand::SeedableRng;
use rand::seq::SliceRandom as _;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use tracecast_analytics::stats::quantile::weighted_quantile;
use tracecast_analytics::stats::sum;

use super::super::alone::Alone;
use super::super::effects::{Directed, EffectForecast, Lesson, Prior};
use super::super::table::{SharingTable, distinct};
use super::reach::{COUNTS, Chosen, Reaches, level};
use super::{Groups, SLOWEST, together};

/// Stream of the draws of pairs: none that a prior is drawn from.
const STREAM: u64 = 1 << 40;

/// A pair: GPU type, and both job types in order.
type PairAt = (usize, usize, usize);

/// Pair of a speed.
fn pair_of(row: &Directed) -> PairAt {
    (row.gpu, row.own.min(row.beside), row.own.max(row.beside))
}

/// Pairs measured of each job type, by GPU type and job type.
pub(super) type Counts = BTreeMap<(usize, usize), usize>;

/// Pairs of each job type among some rows; a job beside its like counts once.
pub(super) fn counts(rows: &[Directed]) -> Counts {
    let pairs: BTreeSet<PairAt> = rows.iter().map(pair_of).collect();
    let mut out = Counts::new();
    for (gpu, a, b) in pairs {
        for job in distinct([a, b]) {
            *out.entry((gpu, job)).or_default() += 1;
        }
    }
    out
}

/// The pairs measured of that of two job types of which fewer were.
pub(super) fn fewest(counts: &Counts, gpu: usize, own: usize, beside: usize) -> usize {
    let of = |job: usize| counts.get(&(gpu, job)).copied().unwrap_or_default();
    of(own).min(of(beside))
}

/// A speed that is forecast while its group is left out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    pub(super) row: Directed,
    pub(super) of: Groups,
    /// Place in [`COUNTS`] of the pairs that were measured of the group.
    pub(super) stage: usize,
    /// Place in [`COUNTS`] of the pairs that were measured of both job types.
    pub(super) level: usize,
}

/// A group left out: the rows that teach, then the rows asked and learned in turn.
struct Left {
    teaches: Vec<Directed>,
    wanted: Vec<usize>,
    stages: Vec<Stage>,
}

/// Rows learned, and the rows asked after them.
struct Stage {
    learned: Vec<Directed>,
    asked: Vec<Asked>,
}

impl Left {
    fn of(group: usize, rows: &[Directed], groups: &[Groups], seed: u64) -> Self {
        let (mut teaches, mut held) = (Vec::new(), Vec::new());
        for (row, of) in rows.iter().zip(groups) {
            if of.0 != group && of.1 != group {
                teaches.push(*row);
            } else {
                held.push((*row, *of));
            }
        }
        let wanted = held.iter().filter(|(_, of)| of.0 == group).map(|(row, _)| row.gpu).collect();
        let taught = counts(&teaches);
        let orders = orders(group, &held, &taught, seed);
        let mut measured: BTreeSet<PairAt> = BTreeSet::new();
        let mut known = teaches.clone();
        let mut stages = Vec::new();
        for (stage, count) in COUNTS.iter().enumerate() {
            let now: BTreeSet<PairAt> = orders.iter().flat_map(|order| order.iter().take(*count).copied()).collect();
            if stage > 0 && now.len() == measured.len() {
                break;
            }
            let news = |row: &&Directed| now.contains(&pair_of(row)) && !measured.contains(&pair_of(row));
            let learned: Vec<Directed> = held.iter().map(|(row, _)| row).filter(news).copied().collect();
            known.extend(&learned);
            let counts = counts(&known);
            let open = held.iter().filter(|(row, of)| of.0 == group && !now.contains(&pair_of(row)));
            let asked = open.map(|(row, of)| {
                let level = level(fewest(&counts, row.gpu, row.own, row.beside));
                Asked { row: *row, of: *of, stage, level }
            });
            // What no pair was measured for was asked before.
            let asked = asked.filter(|asked| stage == 0 || asked.level > 0).collect();
            stages.push(Stage { learned, asked });
            measured = now;
        }
        Self { teaches, wanted, stages }
    }

    /// Forecasts of a model fitted with a prior for all that is asked; `None` where the fit failed.
    fn said(&self, alone: &Alone, lesson: &Lesson<'_>, prior: &Prior) -> Option<Vec<EffectForecast>> {
        let mut fitted = lesson.fit(prior)?;
        let mut said = Vec::new();
        for stage in &self.stages {
            for row in &stage.learned {
                fitted.learn(alone, row)?;
            }
            for Asked { row, .. } in &stage.asked {
                said.push(fitted.forecast(alone, row.gpu, row.own, row.beside)?);
            }
        }
        Some(said)
    }
}

/// The pairs of each job type of which none teaches, in the order in which they are measured.
fn orders(group: usize, held: &[(Directed, Groups)], taught: &Counts, seed: u64) -> Vec<Vec<PairAt>> {
    let mut of_job: BTreeMap<(usize, usize), BTreeSet<PairAt>> = BTreeMap::new();
    for (row, _) in held.iter().filter(|(row, of)| of.0 == group && !taught.contains_key(&(row.gpu, row.own))) {
        of_job.entry((row.gpu, row.own)).or_default().insert(pair_of(row));
    }
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(STREAM + group as u64);
    of_job
        .into_values()
        .map(|pairs| {
            let mut order: Vec<_> = pairs.into_iter().collect();
            order.shuffle(&mut rng);
            order
        })
        .collect()
}

/// Groups that are left out one after the other.
pub(super) struct Trial {
    left: Vec<Left>,
    /// All that is asked, in the order in which a prior's forecasts stand.
    pub(super) asked: Vec<Asked>,
}

impl Trial {
    pub(super) fn of(rows: &[Directed], groups: &[Groups], seed: u64) -> Self {
        let names = distinct(groups.iter().map(|(own, _)| *own));
        let left: Vec<Left> = names.iter().map(|group| Left::of(*group, rows, groups, seed)).collect();
        let asked = left.iter().flat_map(|left| &left.stages).flat_map(|stage| &stage.asked).copied().collect();
        Self { left, asked }
    }

    /// Number of groups left out.
    pub(super) fn groups(&self) -> usize {
        self.left.len()
    }

    /// Forecasts of every prior for all that is asked; `None` where a fit failed.
    pub(super) fn said(
        &self,
        table: &SharingTable,
        alone: &Alone,
        priors: &[Prior],
    ) -> Vec<Option<Vec<EffectForecast>>> {
        let lessons: Vec<Lesson<'_>> =
            self.left.iter().map(|left| Lesson::new(table, alone, &left.teaches, &left.wanted)).collect();
        let one = |prior: &Prior| {
            let mut said = Vec::with_capacity(self.asked.len());
            for (left, lesson) in self.left.iter().zip(&lessons) {
                said.extend(left.said(alone, lesson, prior)?);
            }
            Some(said)
        };
        priors.par_iter().map(one).collect()
    }
}

/// Forecasts of every prior, and the observed speeds.
pub(super) struct HeldBack<'a> {
    trial: &'a Trial,
    said: &'a [Option<Vec<EffectForecast>>],
    fastest: f64,
    /// Number of priors, from the first, that may forecast where no pair was measured; all may
    /// where some were.
    plain: usize,
    /// Priors that are chosen.
    most: usize,
}

impl<'a> HeldBack<'a> {
    pub(super) fn new(
        trial: &'a Trial,
        said: &'a [Option<Vec<EffectForecast>>],
        fastest: f64,
        (plain, most): (usize, usize),
    ) -> Self {
        Self { trial, said, fastest, plain, most }
    }

    /// The best priors before and after pairs were measured, on all groups or on all but one; `None` where nothing was left out.
    pub(super) fn chosen(&self, without: Option<usize>) -> Option<Chosen> {
        let errors: Vec<Option<[Option<f64>; 2]>> =
            self.said.iter().map(|said| said.as_ref().map(|said| self.errors(said, without))).collect();
        let ranked = |part: usize, among: usize| {
            let all = errors.iter().take(among).enumerate();
            let of = |errors: &[Option<f64>; 2]| errors.get(part).copied().flatten();
            let mut order: Vec<(f64, usize)> =
                all.filter_map(|(at, errors)| Some((of(errors.as_ref()?)?, at))).collect();
            order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            order.truncate(self.most);
            order.into_iter().map(|(_, at)| at).collect::<Vec<usize>>()
        };
        let (new, measured) = (ranked(0, self.plain), ranked(1, errors.len()));
        match (new.is_empty(), measured.is_empty()) {
            (true, true) => None,
            (true, false) => Some(Chosen { new: measured.clone(), measured }),
            (false, true) => Some(Chosen { measured: new.clone(), new }),
            (false, false) => Some(Chosen { new, measured }),
        }
    }

    /// Mean absolute error of a prior where no pair was measured, and where some were; `None` where nothing was asked.
    fn errors(&self, said: &[EffectForecast], without: Option<usize>) -> [Option<f64>; 2] {
        let mut sums = [(0.0, 0u32); 2];
        let counts = |of: &Groups| without.is_none_or(|group| of.0 != group && of.1 != group);
        for (asked, one) in self.trial.asked.iter().zip(said).filter(|(asked, _)| counts(&asked.of)) {
            if let Some(sum) = sums.get_mut(usize::from(asked.level > 0)) {
                *sum = (sum.0 + self.miss(asked, one.effects - one.lost), sum.1 + 1);
            }
        }
        sums.map(|(sum, count)| (count > 0).then(|| sum / f64::from(count)))
    }

    fn miss(&self, request: &Asked, told: f64) -> f64 {
        (request.row.speed - told.clamp(SLOWEST, self.fastest)).abs()
    }

    /// Reach of intervals, and the mean absolute error before any pair of a group was measured.
    /// Each group is forecast by the priors that are best on the others.
    pub(super) fn calibrated(&self) -> (Reaches, Option<f64>) {
        let mut errors = Vec::new();
        let mut levels: [Misses; COUNTS.len()] = Default::default();
        for group in distinct(self.trial.asked.iter().map(|asked| asked.of.0)) {
            let Some(best) = self.chosen(Some(group)) else { continue };
            let mut here: [Vec<f64>; COUNTS.len()] = Default::default();
            for (at, asked) in self.trial.asked.iter().enumerate().filter(|(_, asked)| asked.of.0 == group) {
                let priors = if asked.level == 0 { &best.new } else { &best.measured };
                let said = priors.iter().filter_map(|prior| self.said.get(*prior)?.as_ref()?.get(at));
                let (mean, spread) = together(&said.copied().collect::<Vec<EffectForecast>>());
                let miss = self.miss(asked, mean);
                if let Some(here) = here.get_mut(asked.level) {
                    here.push(miss / spread.max(1e-9));
                }
                if asked.stage == 0 {
                    errors.push(miss);
                }
            }
            levels.iter_mut().zip(here).for_each(|(level, here)| level.add(here));
        }
        (Reaches::new(levels.map(|level| level.reach())), sum::mean(&errors))
    }
}

/// Misses in spreads, each group with the same weight.
#[derive(Default)]
struct Misses {
    values: Vec<f64>,
    weights: Vec<f64>,
    groups: u32,
}

impl Misses {
    fn add(&mut self, group: Vec<f64>) {
        let weight = 1.0 / group.len().max(1) as f64;
        self.groups += u32::from(!group.is_empty());
        self.weights.extend(group.iter().map(|_| weight));
        self.values.extend(group);
    }

    /// The 80 and 90 % quantiles, times (n + 1) / n for n groups; `None` of none.
    fn reach(&self) -> Option<(f64, f64)> {
        let wider = (f64::from(self.groups) + 1.0) / f64::from(self.groups);
        let reach = |level: f64| weighted_quantile(&self.values, &self.weights, level).map(|reach| reach * wider);
        let (reach80, reach90) = reach(0.8).zip(reach(0.9))?;
        Some((reach80, reach90.max(reach80)))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
