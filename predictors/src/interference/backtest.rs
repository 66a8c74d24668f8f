//! The back-test of sharing: what the predictor would have said of families, or of GPU types, of which no pair had been measured.
//!
//! A **family** is left out with every pair it is in; what is scored is the speed of its jobs, beside partners of other families and of its own. A **GPU
//! type** is left out whole. A **random** fifth of pairs is left out only to show how that flatters: the same jobs are then known from other pairs. The
//! predictor chooses its priors, and all models find their quantiles, on groups left out of what teaches; what is reported has no part in it, and
//! neither has the choice among the models: it is the one of least error on those groups.
//!
//! **After measured pairs**: of every job type of the family left out, 1, 3 or 5 pairs are measured, with partners of any family that leave the least unknown ([`Committee::to_measure`]), and beside that
//! with drawn ones. Both, and the predictor before it, are scored on the speeds that neither measured (module `after`).
//!
//! A pair is slow if the worse of its two speeds is below 85 %; the AUC is of the pairs that fit. A pair of two families is forecast with either left out, and
//! both forecasts count in AUC and Brier score; shares of pairs count it once. Where nothing can be left out of what teaches, the predictor is taken, and the
//! answer says that no data chose it.
//!
//! The same pairs measured **again** say how far apart two measurements are (module `again`). Groups of three jobs and more are tested in [`super::groups`].
//!
//! Families are left out in at most 16 folds, 8 in a model of more than 400 effects: two families left out together are told from too few. O(folds² × priors × effects³ + folds² × rows): what would take much more
//! than a minute or two is refused. Worked number: 26 job types of 7 families have 589 speeds of pairs that fit on a K80, each scored once.

use std::collections::BTreeMap;

use rayon::prelude::*;
use serde::Serialize;
use tracecast_analytics::stats::quantile::weighted_quantile;
use tracecast_analytics::stats::sum;

use super::alone::Alone;
use super::baseline::Baseline;
use super::committee::{Committee, Groups, SpeedForecast, directed, drawn, folds, worse_below};
use super::effects::{self, Directed};
use super::score::{NORMAL90, OomBin, SpeedAndTruth, SpeedScore, auc, reliability, speeds};
use super::table::{SharedPair, SharingTable, Speeds, distinct};
use crate::error::{Error, Result};
use crate::score::Pinball;
use tracecast_analytics::watch::{self, Watch};

mod after;
mod again;

pub use after::AfterMeasured;
use after::{LeftFamily, Told};
pub use again::{MeasuredAgain, again};

/// The predictor's name among the models.
pub const PREDICTOR: &str = "effects";
/// Speed of the worse job below which a pair is slow.
pub const SLOW: f64 = 0.85;
/// Most steps of a back-test: about two minutes on one core at 3·10⁹ a second. (66 job types of 14 families took 1.2·10¹¹ and 19 s.)
pub(super) const MOST_STEPS: f64 = 3.6e11;
/// Steps that a fit of the effects takes, in cubes of their number.
pub(super) const STEPS_OF_FIT: f64 = 2.0;
/// Steps that all baselines take for a row that teaches.
const STEPS_OF_ROW: f64 = 2e4;
/// Folds of pairs.
const RANDOM_FOLDS: usize = 5;

/// Data left out together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HoldOut {
    /// A family of job types.
    Family,
    /// A GPU type.
    GpuType,
    /// Any pairs: shows how that flatters.
    Random,
}

impl HoldOut {
    /// Name of the way of leaving out.
    pub fn name(self) -> &'static str {
        match self {
            Self::Family => "family",
            Self::GpuType => "gpu-type",
            Self::Random => "random",
        }
    }
}

/// Score of one model.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct InterferenceScore {
    /// Name of the model.
    pub name: String,
    /// Speeds scored.
    pub speeds: usize,
    /// Mean absolute error, as a share of the speed alone.
    pub mae: f64,
    /// Root of the mean squared error.
    pub rmse: f64,
    /// Pinball loss; none, as the next two, where nothing could be left out of what teaches, and so there was nothing to find quantiles by.
    pub pinball: Option<Pinball>,
    /// Share of speeds within the 90 % interval (5 to 95 %).
    pub coverage90: Option<f64>,
    /// Mean width of that interval.
    pub width90: Option<f64>,
    /// Mean absolute error of the speeds of known jobs beside those left out; none where a whole GPU type or any pair is left out.
    pub mae_of_partners: Option<f64>,
    /// Area under the curve of "the worse job runs below 85 %", a pair of two families once for each left out; none where all pairs are of one kind.
    pub auc_slower_15: Option<f64>,
    /// Brier score of the chance that a pair does not fit, a pair of two families once for each left out; none of models that say nothing of it.
    pub oom_brier: Option<f64>,
    /// Mean absolute error on the groups left out of what teaches, by which the model is chosen; none where nothing could be left out.
    pub choice_mae: Option<f64>,
}

/// Results for one GPU type, tested in one way.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct InterferenceSplit {
    /// Data left out.
    pub hold_out: HoldOut,
    /// GPU type.
    pub gpu_type: String,
    /// Groups left out, one after the other.
    pub folds: usize,
    /// Pairs that are scored.
    pub pairs: usize,
    /// Scored pairs that did not fit.
    pub did_not_fit: usize,
    /// Share of those that fit whose worse job runs below 85 %.
    pub slow_share: f64,
    /// Mean forecast chance that a pair does not fit, each pair with the mean of its forecasts.
    pub oom_forecast: f64,
    /// Bins of that chance, each forecast counted, and how often pairs of each bin did not fit.
    pub oom_reliability: Vec<OomBin>,
    /// The baselines, then the predictor.
    pub models: Vec<InterferenceScore>,
    /// The model of least error on the groups left out of what teaches; the predictor where nothing could be left out.
    pub chosen: String,
    /// Whether data chose it.
    pub chosen_by_data: bool,
    /// Error of the predictor after 0, 1, 3 and 5 measured pairs of each new job type.
    pub after_measured: Vec<AfterMeasured>,
}

/// Options of a back-test of sharing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InterferenceOptions {
    /// Data left out; all ways that the data allow if `None`.
    pub hold_out: Option<HoldOut>,
    /// Seed of all draws.
    pub seed: u64,
}

/// Forecasts of one model for one fold.
#[derive(Debug, Default)]
struct Said {
    own: Vec<SpeedAndTruth>,
    partners: Vec<f64>,
    slow: Vec<(f64, bool)>,
    memory: Vec<(f64, bool)>,
    /// The two jobs of each forecast in `memory`.
    of_pairs: Vec<(usize, usize)>,
    choice: (f64, usize),
}

impl Said {
    /// Mean chance that a pair does not fit, each pair once with the mean of its forecasts.
    fn oom_forecast(&self) -> f64 {
        let mut by_pair: BTreeMap<(usize, usize), Vec<f64>> = BTreeMap::new();
        for (pair, (chance, _)) in self.of_pairs.iter().zip(&self.memory) {
            by_pair.entry(*pair).or_default().push(*chance);
        }
        let each: Vec<f64> = by_pair.values().filter_map(sum::mean).collect();
        sum::mean(&each).unwrap_or_default()
    }
}

/// A way of testing one GPU type: rows that may teach, and the groups of rows and of pairs.
struct Plan<'a> {
    table: &'a SharingTable,
    alone: &'a Alone,
    hold_out: HoldOut,
    gpu: usize,
    rows: Vec<Directed>,
    groups: Vec<Groups>,
    pair_groups: Vec<Groups>,
    folds: Vec<usize>,
    baselines: Vec<Baseline>,
    seed: u64,
}

impl<'a> Plan<'a> {
    fn new(table: &'a SharingTable, alone: &'a Alone, hold_out: HoldOut, gpu: usize, seed: u64) -> Self {
        let here = |of: usize| hold_out == HoldOut::GpuType || of == gpu;
        let most = folds(effects::effects(table, 1));
        let fold = |family: usize| family % most;
        let group = |at: usize, pair: &SharedPair| match hold_out {
            HoldOut::Family => (fold(table.family(pair.a)), fold(table.family(pair.b))),
            HoldOut::GpuType => (pair.gpu, pair.gpu),
            // Whole numbers that have nothing to do with the order of the jobs.
            HoldOut::Random => {
                let mixed = (at as u64).wrapping_add(seed).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33;
                let fold = usize::try_from(mixed).unwrap_or_default() % RANDOM_FOLDS;
                (fold, fold)
            }
        };
        let pair_groups: Vec<Groups> = table.pairs().iter().enumerate().map(|(at, pair)| group(at, pair)).collect();
        let mut of_pairs = BTreeMap::new();
        for (pair, groups) in table.pairs().iter().zip(&pair_groups) {
            of_pairs.insert((pair.gpu, pair.a, pair.b), *groups);
        }
        let rows: Vec<Directed> = directed(table).into_iter().filter(|row| here(row.gpu)).collect();
        let groups: Vec<Groups> = rows
            .iter()
            .map(|row| {
                let (a, b) = (row.own.min(row.beside), row.own.max(row.beside));
                let found = of_pairs.get(&(row.gpu, a, b)).copied().unwrap_or_default();
                if row.own == a { found } else { (found.1, found.0) }
            })
            .collect();
        let folds = if hold_out == HoldOut::GpuType { vec![gpu] } else { distinct(groups.iter().map(|(own, _)| *own)) };
        let scored: Vec<Directed> = rows.iter().filter(|row| row.gpu == gpu).copied().collect();
        let types = hold_out == HoldOut::GpuType;
        let baselines = Baseline::ALL.into_iter().filter(|one| one.serves(table, &scored, types)).collect();
        Self { table, alone, hold_out, gpu, rows, groups, pair_groups, folds, baselines, seed }
    }

    /// Steps that a test takes, more or less.
    fn steps(&self) -> f64 {
        let size = effects::effects(self.table, distinct(self.rows.iter().map(|row| row.gpu)).len());
        let priors = drawn(size) as f64;
        let inner = distinct(self.groups.iter().map(|(own, _)| *own)).len().saturating_sub(1) as f64;
        let fits = inner * priors + priors / 3.0;
        self.folds.len() as f64
            * (fits * STEPS_OF_FIT * (size as f64).powi(3) + inner * self.rows.len() as f64 * STEPS_OF_ROW)
    }

    fn touches(groups: &Groups, fold: usize) -> bool {
        groups.0 == fold || groups.1 == fold
    }

    /// Rows that teach while a fold is left out.
    fn teaching(&self, fold: usize) -> (Vec<Directed>, Vec<Groups>) {
        let stays = |(_, of): &(&Directed, &Groups)| !Self::touches(of, fold);
        self.rows.iter().zip(&self.groups).filter(stays).map(|(row, of)| (*row, *of)).unzip()
    }

    /// Forecasts of all models for a fold: the baselines, then the predictor.
    fn fold(&self, fold: usize) -> Result<(Vec<Said>, Vec<Told>)> {
        let (rows, groups) = self.teaching(fold);
        let asked: Vec<(Directed, Groups)> = self
            .rows
            .iter()
            .zip(&self.groups)
            .filter(|(row, of)| row.gpu == self.gpu && Self::touches(of, fold))
            .map(|(row, of)| (*row, *of))
            .collect();
        let pairs: Vec<&SharedPair> = self
            .table
            .pairs()
            .iter()
            .zip(&self.pair_groups)
            .filter(|(pair, of)| pair.gpu == self.gpu && Self::touches(of, fold))
            .map(|(pair, _)| pair)
            .collect();
        let teaches: Vec<bool> = self
            .table
            .pairs()
            .iter()
            .zip(&self.pair_groups)
            .map(|(pair, of)| !Self::touches(of, fold) && (self.hold_out == HoldOut::GpuType || pair.gpu == self.gpu))
            .collect();
        let mut said = Vec::new();
        for baseline in &self.baselines {
            said.push(self.baseline(*baseline, (&rows, &groups), fold, &asked, &pairs, &teaches)?);
        }
        let committee = Committee::train(self.table, &rows, &groups, &teaches, &[self.gpu], self.seed)?;
        let mut predictor = Said {
            choice: committee.held_back_mae.map_or((0.0, 0), |mae| (mae * rows.len() as f64, rows.len())),
            ..Said::default()
        };
        let forecast = |row: &Directed| (committee.speed(row.gpu, row.own, row.beside), true);
        self.score_fold(&mut predictor, fold, &asked, &pairs, &forecast);
        predictor.memory = pairs
            .iter()
            .map(|pair| (committee.pair(pair.gpu, pair.a, pair.b).out_of_memory, pair.speeds.is_none()))
            .collect();
        predictor.of_pairs = pairs.iter().map(|pair| (pair.a, pair.b)).collect();
        said.push(predictor);
        let after = if self.hold_out == HoldOut::Family {
            let (gpu, seed) = (self.gpu, self.seed);
            LeftFamily { committee: &committee, gpu, fold, asked: &asked, pairs: &pairs, seed }.after()
        } else {
            Vec::new()
        };
        Ok((said, after))
    }

    /// Adds the speeds and the slow pairs of a fold to what a model said, and whether it has quantiles.
    fn score_fold(
        &self,
        said: &mut Said,
        fold: usize,
        request: &[(Directed, Groups)],
        pairs: &[&SharedPair],
        forecast: &dyn Fn(&Directed) -> (SpeedForecast, bool),
    ) {
        for (row, (own, _)) in request {
            let (told, has_quantiles) = forecast(row);
            if *own == fold {
                let quantiles = has_quantiles.then_some(told.quantiles);
                said.own.push(SpeedAndTruth { truth: row.speed, mean: told.mean, quantiles });
            } else {
                said.partners.push((row.speed - told.mean).abs());
            }
        }
        for pair in pairs {
            let Some(speeds) = pair.speeds else { continue };
            let half =
                |own: usize, beside: usize, speed: f64| forecast(&Directed { gpu: pair.gpu, own, beside, speed }).0;
            let (a, b) = (half(pair.a, pair.b, speeds.a), half(pair.b, pair.a, speeds.b));
            said.slow.push((worse_below(&a, &b, SLOW), speeds.a.min(speeds.b) < SLOW));
        }
    }

    fn baseline(
        &self,
        baseline: Baseline,
        (rows, groups): (&[Directed], &[Groups]),
        fold: usize,
        request: &[(Directed, Groups)],
        pairs: &[&SharedPair],
        teaches: &[bool],
    ) -> Result<Said> {
        let predict = |rows: &[Directed], request: &[Directed]| baseline.predict(self.table, self.alone, rows, request);
        let inner = distinct(groups.iter().map(|(own, _)| *own));
        // What it misses by on groups left out of what teaches: its quantiles, and its error to be chosen by.
        let (mut misses, mut weights) = (Vec::new(), Vec::new());
        let mut choice = (0.0, 0);
        for group in inner.iter().filter(|_| inner.len() > 1) {
            let (mut learn, mut ask) = (Vec::new(), Vec::new());
            for (row, of) in rows.iter().zip(groups) {
                if !Self::touches(of, *group) {
                    learn.push(*row);
                } else if of.0 == *group {
                    ask.push(*row);
                }
            }
            if learn.len() < 4 {
                continue;
            }
            for (row, told) in ask.iter().zip(predict(&learn, &ask)?) {
                misses.push(row.speed - told);
                weights.push(1.0 / ask.len() as f64);
                choice = (choice.0 + (row.speed - told).abs(), choice.1 + 1);
            }
        }
        let reach =
            super::committee::LEVELS.map(|level| weighted_quantile(&misses, &weights, level).unwrap_or_default());
        let plain: Vec<Directed> = request.iter().map(|(row, _)| *row).collect();
        let told: Vec<f64> = predict(rows, &plain)?;
        let mut by_row = BTreeMap::new();
        for (row, told) in plain.iter().zip(&told) {
            by_row.insert((row.own, row.beside), *told);
        }
        let forecast = |row: &Directed| {
            let mean = by_row.get(&(row.own, row.beside)).copied().unwrap_or(1.0);
            let quantiles = reach.map(|reach| (mean + reach).max(0.0));
            let [low, _, _, _, high] = reach;
            let deviation = ((high - low) / 2.0 / NORMAL90).max(1e-6);
            (SpeedForecast { mean, quantiles, deviation }, !misses.is_empty())
        };
        let mut said = Said { choice, ..Said::default() };
        self.score_fold(&mut said, fold, request, pairs, &forecast);
        if baseline == Baseline::Mean {
            let known: Vec<bool> = self
                .table
                .pairs()
                .iter()
                .zip(teaches)
                .filter(|(_, teaches)| **teaches)
                .map(|(pair, _)| pair.speeds.is_none())
                .collect();
            let share = known.iter().filter(|missed| **missed).count() as f64 / known.len().max(1) as f64;
            said.memory = pairs.iter().map(|pair| (share, pair.speeds.is_none())).collect();
        }
        Ok(said)
    }

    fn run(&self, watch: &dyn Watch) -> Result<InterferenceSplit> {
        let fit = |fold: &usize| watch::part(watch, || self.fold(*fold));
        let done: Vec<Result<_>> = self.folds.par_iter().map(fit).collect();
        let mut names: Vec<&str> = self.baselines.iter().map(|baseline| baseline.name()).collect();
        names.push(PREDICTOR);
        let mut all: Vec<Said> = names.iter().map(|_| Said::default()).collect();
        let mut later: Vec<Told> = Vec::new();
        for fold in done {
            let (said, after) = fold?;
            for (all, said) in all.iter_mut().zip(said) {
                all.own.extend(said.own);
                all.partners.extend(said.partners);
                all.slow.extend(said.slow);
                all.memory.extend(said.memory);
                all.of_pairs.extend(said.of_pairs);
                all.choice = (all.choice.0 + said.choice.0, all.choice.1 + said.choice.1);
            }
            later.extend(after);
        }
        let mut models = Vec::new();
        for (name, said) in names.iter().zip(&all) {
            let score = speeds(&said.own).ok_or_else(|| self.too_few())?;
            models.push(scored(name, &score, said));
        }
        let tried = models.iter().filter_map(|model| Some((model.choice_mae?, &model.name)));
        let best = tried.min_by(|a, b| a.0.total_cmp(&b.0));
        let chosen_by_data = best.is_some();
        let chosen = best.map_or_else(|| PREDICTOR.to_owned(), |(_, name)| name.clone());
        let (predictor, here) = (all.last(), self.table.pairs().iter().filter(|pair| pair.gpu == self.gpu));
        let ran: Vec<Speeds> = here.clone().filter_map(|pair| pair.speeds).collect();
        let missed = here.clone().count() - ran.len();
        // Of the table's pairs and not of the folds, where a pair of two families is in two.
        let slow = ran.iter().filter(|speeds| speeds.a.min(speeds.b) < SLOW).count();
        let none = predictor.filter(|_| self.hold_out == HoldOut::Family);
        let after_measured = none.map_or_else(Vec::new, |none| after::scored(&none.own, &none.slow, later));
        Ok(InterferenceSplit {
            hold_out: self.hold_out,
            gpu_type: self.table.gpu_types().get(self.gpu).cloned().unwrap_or_default(),
            folds: self.folds.len(),
            pairs: here.count(),
            did_not_fit: missed,
            slow_share: sum::share(slow as f64, ran.len() as f64).unwrap_or_default(),
            oom_forecast: predictor.map_or(0.0, Said::oom_forecast),
            oom_reliability: predictor.map_or_else(Vec::new, |said| reliability(&said.memory)),
            models,
            chosen,
            chosen_by_data,
            after_measured,
        })
    }

    fn too_few(&self) -> Error {
        let gpu = self.table.gpu_types().get(self.gpu).cloned().unwrap_or_default();
        Error::TooFew(format!("{gpu}: no pair that fitted is left to score; measure more pairs"))
    }
}

fn scored(name: &str, score: &SpeedScore, said: &Said) -> InterferenceScore {
    InterferenceScore {
        name: name.to_owned(),
        speeds: score.speeds,
        mae: score.mae,
        rmse: score.rmse,
        pinball: score.pinball,
        coverage90: score.coverage90,
        width90: score.width90,
        mae_of_partners: sum::mean(&said.partners),
        auc_slower_15: auc(&said.slow),
        oom_brier: crate::score::brier(&said.memory),
        choice_mae: sum::share(said.choice.0, said.choice.1 as f64),
    }
}

/// Tests every GPU type of a table in each way that the data allow.
///
/// # Errors
/// If there are fewer than two families (or GPU types, where these are to be left out), too few pairs, more job types than can be fitted in a minute or two,
/// or a learner fails.
pub fn run(table: &SharingTable, options: &InterferenceOptions) -> Result<Vec<InterferenceSplit>> {
    run_watched(table, options, &())
}

/// Back-tests a table as [`run`] does, reporting progress to `watch`.
///
/// # Errors
/// Errors of [`run`].
pub fn run_watched(
    table: &SharingTable,
    options: &InterferenceOptions,
    watch: &dyn Watch,
) -> Result<Vec<InterferenceSplit>> {
    let alone = Alone::new(table);
    let rows = directed(table);
    let ways =
        options.hold_out.map_or_else(|| vec![HoldOut::Family, HoldOut::GpuType, HoldOut::Random], |only| vec![only]);
    let mut plans = Vec::new();
    for hold_out in ways {
        for gpu in 0..table.gpu_types().len() {
            let families = distinct(rows.iter().filter(|row| row.gpu == gpu).map(|row| table.family(row.own)));
            let here = rows.iter().filter(|row| row.gpu == gpu).count();
            let elsewhere = rows.len() - here;
            let enough = match hold_out {
                HoldOut::Family => families.len() >= 3 && here >= 12,
                HoldOut::GpuType => here > 0 && elsewhere >= 4,
                HoldOut::Random => here >= 40,
            };
            if enough {
                plans.push(Plan::new(table, &alone, hold_out, gpu, options.seed));
            }
        }
    }
    if plans.is_empty() {
        let remedy = match options.hold_out {
            Some(HoldOut::GpuType) => "at least two GPU types with measured pairs are needed to leave one out",
            _ => "at least three families with twelve speeds on one GPU type are needed to leave a family out",
        };
        return Err(Error::TooFew(format!(
            "{} measured speeds of {} families on {} GPU types: {remedy}",
            rows.len(),
            table.families().len(),
            table.gpu_types().len()
        )));
    }
    let steps: f64 = plans.iter().map(Plan::steps).sum();
    if steps > MOST_STEPS {
        // The cube is most of it, so that the cube root says how many job types would do.
        let most = (table.jobs().len() as f64 * (MOST_STEPS / steps).cbrt()).floor();
        let reason = format!(
            "{} job types of {} families on {} GPU types would take about {:.0} times the two minutes that a back-test may; measure about {most} job types, \
             one GPU type at a time, or leave out only one kind (--hold-out)",
            table.jobs().len(),
            table.families().len(),
            table.gpu_types().len(),
            (steps / MOST_STEPS).ceil(),
        );
        return Err(Error::Learner { learner: "effects of jobs", reason });
    }
    watch.more(plans.iter().map(|plan| plan.folds.len()).sum());
    plans.iter().map(|plan| plan.run(watch)).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::answer::InterferenceAnswer;
    use super::*;

    /// Regression test: with two GPU types, of which one is left out, baselines had intervals of no
    /// width that held nothing.
    #[test]
    fn where_nothing_can_be_left_out_baselines_have_no_quantiles() {
        let mut table = SharingTable::new();
        for gpu in ["g", "h"] {
            let gpu = table.gpu_type(gpu);
            let mut pairs = Vec::new();
            for b in 0..6usize {
                table.job(&format!("m{} (batch size {})", b / 2, 8 << (b % 2)));
                for a in 0..=b {
                    let speed = |own: usize| 0.9 - 0.05 * own as f64 - 0.1 * gpu as f64;
                    pairs.push(SharedPair { gpu, a, b, speeds: Some(Speeds { a: speed(a), b: speed(b) }) });
                }
            }
            table.add_pairs(pairs);
        }
        let options = InterferenceOptions { hold_out: Some(HoldOut::GpuType), seed: 1 };
        let splits = run(&table.sorted(), &options).unwrap();
        assert_eq!(splits.len(), 2);
        for split in &splits {
            let (predictor, baselines) = split.models.split_last().unwrap();
            assert!(predictor.width90.unwrap() > 0.0 && predictor.pinball.is_some() && predictor.coverage90.is_some());
            assert!(baselines.len() > 5 && baselines.iter().all(|model| model.mae.is_finite()));
            let none =
                |model: &InterferenceScore| (model.pinball, model.coverage90, model.width90) == (None, None, None);
            assert!(baselines.iter().all(none), "{baselines:?}");
        }
        let answer = InterferenceAnswer::new("t".to_owned(), Vec::new(), 1, splits, None);
        let told = serde_json::to_string(&answer).unwrap();
        assert!(told.contains(r#""pinball":null,"coverage90":null,"width90":null"#), "{told}");
        let report = format!("{:?}", answer.report());
        assert!(report.contains("there was nothing to find them by"), "{report}");
    }
}
