//! The models of duration, each fitted at one moment on what was known then: baselines, QSSF as published, and gradient-boosted quantile trees.
//!
//! | name | point (log seconds) | quantiles |
//! |---|---|---|
//! | `running_mean` | mean of all ended jobs of the VC and size | point + quantiles of the training residuals |
//! | `weighted_mean` | the same, each job weighing ¹⁹⁄₂₀ of the next | same |
//! | `shrunk_mean` | mean by user, name, size, VC, each shrunk towards the wider group | same |
//! | `recent_median` | median of the last 30 of the most particular group | same |
//! | `limit` | the job's own time limit (where it has none, as `running_mean`) | the limit, all of them |
//! | `limit_share` | limit × the mean share of limits that runs used, on the log scale | limit × quantiles of that share |
//! | `qssf` | log(λ R + (1 − λ) M), λ = 0.1: R rolling mean of the user's like jobs, M boosted trees on seconds | same |
//! | `linear` | least squares on all features | same |
//! | `forest` | random forest on all features | same |
//! | `survival` | boosted accelerated failure time, running jobs as bounds | same |
//! | `rank` | boosted pairwise order, put on the log scale by isotonic regression | same |
//! | `boosted` | boosted trees on log runs | the same trees' for 50 and 90 %, others' for 10 %, then [`calibrate`](super::calibrate) |
//!
//! Worked example: training residuals −1, 0, 0, 2 around the running mean put its 90 % quantile at mean + 2.

use linfa::Dataset;
use linfa::traits::{Fit as _, Predict as _};
use linfa_linear::{FittedIsotonicRegression, IsotonicRegression};
use ndarray::{Array1, Array2};
use serde::{Deserialize, Serialize};
use tracecast_analytics::stats::quantile::quantile_sorted;

use super::calibrate::Spread;
use super::rows::{Lesson, Row, Rows};
use crate::error::{Error, Result};
use crate::feature::Past;
use crate::matrix::Matrix;
use crate::model::boosted::{Boosted, FittedTrees, SharedRows, Target, Trees};
use crate::model::forest::{FittedForest, Forest};
use crate::model::linear::{FittedLinear, Linear};
use crate::model::{Fit, Predict, Training};

/// Weight of the rolling estimate in QSSF, as in its authors' artifact.
const LAMBDA: f64 = 0.1;
/// Noise of the survival model, on the log scale.
const NOISE: f64 = 1.5;
/// Jobs that must have ended before a model is fitted.
pub const LEAST_ENDED: usize = 50;
/// Levels of quantiles of baselines.
pub const LEVELS: [f64; 5] = [0.05, 0.1, 0.5, 0.9, 0.95];

/// A model of duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Model {
    RunningMean,
    WeightedMean,
    ShrunkMean,
    RecentMedian,
    Limit,
    LimitShare,
    Qssf,
    Linear,
    Forest,
    Survival,
    Rank,
    Boosted,
}

impl Model {
    /// All of them, baselines first.
    pub const ALL: [Self; 12] = [
        Self::RunningMean,
        Self::WeightedMean,
        Self::ShrunkMean,
        Self::RecentMedian,
        Self::Limit,
        Self::LimitShare,
        Self::Qssf,
        Self::Linear,
        Self::Forest,
        Self::Survival,
        Self::Rank,
        Self::Boosted,
    ];

    /// Name, as on the command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::RunningMean => "running_mean",
            Self::WeightedMean => "weighted_mean",
            Self::ShrunkMean => "shrunk_mean",
            Self::RecentMedian => "recent_median",
            Self::Limit => "limit",
            Self::LimitShare => "limit_share",
            Self::Qssf => "qssf",
            Self::Linear => "linear",
            Self::Forest => "forest",
            Self::Survival => "survival",
            Self::Rank => "rank",
            Self::Boosted => "boosted",
        }
    }

    /// Whether it says nothing without the jobs' time limits.
    pub fn needs_limits(self) -> bool {
        matches!(self, Self::Limit | Self::LimitShare)
    }

    /// Whether the model is quoted unchanged: all its quantiles are one number, and it states no
    /// interval.
    pub fn is_quote(self) -> bool {
        self == Self::Limit
    }

    /// Whether the model uses time limits: they cap its distributions.
    pub fn knows_limits(self) -> bool {
        !matches!(self, Self::RunningMean | Self::WeightedMean | Self::ShrunkMean | Self::RecentMedian | Self::Qssf)
    }

    /// Whether a learner is fitted, which takes time; other models are read off the past.
    pub fn learns(self) -> bool {
        of_past(self).is_none()
    }

    /// Whether the model is a simple rule: no learner is fitted, and it states intervals.
    pub fn is_simple(self) -> bool {
        !self.learns() && !self.is_quote()
    }

    fn learns_from_running(self) -> bool {
        self == Self::Survival
    }
}

/// Settings that models are fitted with.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Settings that trees are grown with.
    pub trees: Trees,
    /// Rows learned from at most, the last submitted.
    pub most_rows: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self { trees: Trees::default(), most_rows: 300_000 }
    }
}

/// Boosted trees for the mean and the three quantiles.
#[derive(Debug, Clone)]
pub struct Quartet {
    /// Features used, by number.
    pub columns: Vec<u32>,
    /// Trees that predict the four outputs, in the order of [`OUTPUTS`].
    pub trees: FittedTrees,
}

/// Outputs of the trees, for a log run: the mean, the median and the 90 % quantile from one
/// structure, the 10 % quantile from another. The splits that separate short runs (failed at once,
/// or not) hardly separate long ones: in one structure with the others, the loss of the 10 %
/// quantile was 1 to 2 % higher on the earlier parts of three of four logs and 1 % lower on the
/// fourth. Four structures gained nothing more.
pub const OUTPUTS: [&[Target]; 2] =
    [&[Target::Mean, Target::Quantile(0.5), Target::Quantile(0.9)], &[Target::Quantile(0.1)]];
/// Names of the outputs, in the order of [`OUTPUTS`].
pub const OUTPUT_NAMES: [&str; 4] = ["mean", "p50", "p90", "p10"];

#[derive(Debug)]
enum Inner {
    Past(fn(&Past) -> Option<f64>),
    Quote(fn(&Past) -> Option<f64>),
    Qssf(FittedTrees),
    Linear(Vec<u32>, FittedLinear),
    Forest(Vec<u32>, FittedForest),
    Trees(Vec<u32>, FittedTrees),
    Rank(Vec<u32>, FittedTrees, FittedIsotonicRegression<f64>),
    Quartet(Box<Quartet>),
}

/// A model, fitted at one moment.
#[derive(Debug)]
pub struct Fitted {
    inner: Inner,
    /// Point where nothing has ended in the job's past.
    fallback: f64,
    /// Mean of the training residuals, where the point is to be moved by it.
    shift: f64,
    /// Quantiles of the training residuals at [`LEVELS`].
    residuals: [f64; LEVELS.len()],
}

/// A model's prediction for one job, on the log scale.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Said {
    /// The one number.
    pub point: f64,
    /// Quantiles of the prediction.
    pub spread: Spread,
    /// Quantiles at [`LEVELS`], for models that are not calibrated further.
    pub quantiles: [f64; LEVELS.len()],
}

/// A model that looks at the past alone, fitted: what [`Past`] says, and how far runs fell from it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Plain {
    /// The rule.
    pub model: Model,
    fallback: f64,
    shift: f64,
    residuals: [f64; LEVELS.len()],
}

impl Plain {
    /// Prediction for a job with this past.
    pub fn say(&self, past: &Past) -> Said {
        let point = of_past(self.model).and_then(|of| of(past)).unwrap_or(self.fallback) + self.shift;
        around(point, &self.residuals)
    }
}

/// A point, and quantiles around it.
fn around(point: f64, residuals: &[f64; LEVELS.len()]) -> Said {
    let quantiles = residuals.map(|residual| point + residual);
    let [_, low, middle, high, _] = quantiles;
    Said { point, spread: Spread::of(low as f32, middle as f32, high as f32), quantiles }
}

/// Function that reads the point of `model` from a job's past; `None` if a learner is fitted.
fn of_past(model: Model) -> Option<fn(&Past) -> Option<f64>> {
    Some(match model {
        Model::RunningMean => |past| past.running_mean,
        Model::WeightedMean => |past| past.weighted_mean,
        Model::ShrunkMean => |past| past.shrunk_mean,
        Model::RecentMedian => |past| past.median,
        // A job without a limit is told by the others like it.
        Model::Limit | Model::LimitShare => |past| past.log_limit.or(past.running_mean),
        _ => return None,
    })
}

/// Fits a model at `now_ms` on the rows known then.
///
/// # Errors
/// If too few jobs have ended, or the learner fails.
pub fn fit(model: Model, rows: &Rows, now_ms: i64, settings: &Settings) -> Result<Fitted> {
    let lesson = rows.lesson(now_ms, model.learns_from_running(), settings.most_rows);
    let ended = lesson.censored.iter().filter(|censored| !**censored).count();
    if ended < LEAST_ENDED {
        return Err(Error::TooFew(format!(
            "only {ended} jobs had ended when {} was to be trained; {LEAST_ENDED} are the least",
            model.name()
        )));
    }
    let fallback = lesson.labels.iter().map(|y| f64::from(*y)).sum::<f64>() / lesson.labels.len() as f64;
    let inner = grow(model, rows, &lesson, settings)?;
    let mut fitted = Fitted { inner, fallback, shift: 0.0, residuals: [0.0; LEVELS.len()] };
    if !matches!(fitted.inner, Inner::Quartet(_) | Inner::Quote(_)) {
        let points = fitted.points(rows, &lesson.rows)?;
        let known = points.iter().zip(&lesson.labels).zip(&lesson.censored).filter(|(_, censored)| !**censored);
        let mut residuals: Vec<f64> = known.map(|((point, y), _)| f64::from(*y) - point).collect();
        residuals.sort_unstable_by(f64::total_cmp);
        if model == Model::LimitShare && !residuals.is_empty() {
            fitted.shift = residuals.iter().sum::<f64>() / residuals.len() as f64;
            residuals.iter_mut().for_each(|residual| *residual -= fitted.shift);
        }
        fitted.residuals = LEVELS.map(|level| quantile_sorted(&residuals, level).unwrap_or(f64::NAN));
    }
    Ok(fitted)
}

fn grow(model: Model, rows: &Rows, lesson: &Lesson, settings: &Settings) -> Result<Inner> {
    let trees = settings.trees.for_rows(lesson.rows.len());
    if let Some(of) = of_past(model) {
        return Ok(if model.is_quote() { Inner::Quote(of) } else { Inner::Past(of) });
    }
    let table = || {
        let columns = rows.features.telling_columns(&lesson.rows);
        let part = rows.features.select(&lesson.rows, &columns);
        (columns, part)
    };
    let boosted = |part: &Matrix, labels: &[f32], target: Target| {
        Boosted::one(target, trees).fit(Training { rows: part, labels, censored: &lesson.censored })
    };
    match model {
        Model::RunningMean
        | Model::WeightedMean
        | Model::ShrunkMean
        | Model::RecentMedian
        | Model::Limit
        | Model::LimitShare => Err(Error::Defect(format!("{} is grown from nothing", model.name()))),
        Model::Qssf => {
            let all: Vec<u32> = (0..rows.attributes.columns() as u32).collect();
            let part = rows.attributes.select(&lesson.rows, &all);
            let seconds: Vec<f32> = lesson.labels.iter().map(|y| y.exp()).collect();
            boosted(&part, &seconds, Target::Mean).map(Inner::Qssf)
        }
        Model::Linear => {
            let (columns, part) = table();
            let training = Training { rows: &part, labels: &lesson.labels, censored: &[] };
            Ok(Inner::Linear(columns, Linear.fit(training)?))
        }
        Model::Forest => {
            let (columns, part) = table();
            let forest = Forest { trees: 40, depth: 14, seed: trees.seed };
            Ok(Inner::Forest(columns, forest.fit(Training { rows: &part, labels: &lesson.labels, censored: &[] })?))
        }
        Model::Survival => {
            let (columns, part) = table();
            Ok(Inner::Trees(columns, boosted(&part, &lesson.labels, Target::Survival(NOISE))?))
        }
        Model::Rank => {
            let (columns, part) = table();
            let fitted = boosted(&part, &lesson.labels, Target::Rank)?;
            let scores = fitted.predict(&part)?;
            let shape = |error: ndarray::ShapeError| Error::Defect(error.to_string());
            let scores = Array2::from_shape_vec((scores.len(), 1), scores.iter().map(|s| f64::from(*s)).collect());
            let labels: Array1<f64> = lesson.labels.iter().map(|y| f64::from(*y)).collect();
            let isotonic = IsotonicRegression::new().fit(&Dataset::new(scores.map_err(shape)?, labels));
            let refused = |error: linfa_linear::LinearError<f64>| Error::Learner {
                learner: "isotonic",
                reason: error.to_string(),
            };
            Ok(Inner::Rank(columns, fitted, isotonic.map_err(refused)?))
        }
        Model::Boosted => {
            let four = four(&rows.features, &lesson.rows, &lesson.labels, trees)?;
            Ok(Inner::Quartet(Box::new(four)))
        }
    }
}

/// Grows the four models on features and labels, on the columns that tell rows apart.
///
/// # Errors
/// If there are too few rows, or the learner fails.
pub fn quartet(features: &Matrix, labels: &[f32], settings: &Settings) -> Result<Quartet> {
    let all: Vec<u32> = (0..features.rows() as u32).collect();
    four(features, &all, labels, settings.trees.for_rows(labels.len()))
}

fn four(features: &Matrix, rows: &[u32], labels: &[f32], trees: Trees) -> Result<Quartet> {
    let columns = features.telling_columns(rows);
    let targets = OUTPUTS.map(<[Target]>::to_vec).to_vec();
    let shared = SharedRows::of_part(features, rows, &columns, trees.bins);
    let trees = Boosted { targets, trees }.fit_shared(&shared, labels)?;
    Ok(Quartet { columns, trees })
}

/// Rows that trees are asked about at once: their features are copied.
const ASKED_AT_ONCE: usize = 8192;

impl Quartet {
    /// Point and spread of each row of features.
    pub fn say(&self, features: &Matrix, rows: &[u32]) -> Vec<(f64, Spread)> {
        let parts = rows.chunks(ASKED_AT_ONCE);
        parts.flat_map(|part| said(&self.trees, &features.select(part, &self.columns))).collect()
    }
}

/// Point and spread of rows of the features that trees use.
pub(super) fn said(trees: &FittedTrees, rows: &Matrix) -> Vec<(f64, Spread)> {
    if rows.rows() == 1 {
        let mut four = [0.0; OUTPUT_NAMES.len()];
        trees.say_one(rows.row(0), &mut four);
        return vec![point_and_spread(four)];
    }
    trees.say(rows).as_chunks().0.iter().map(|four| point_and_spread(*four)).collect()
}

/// Point and spread from the outputs of one row, in the order of [`OUTPUTS`].
fn point_and_spread([mean, middle, high, low]: [f32; OUTPUT_NAMES.len()]) -> (f64, Spread) {
    (f64::from(mean), Spread::of(low, middle, high))
}

impl Fitted {
    /// The trees of `boosted`.
    pub fn quartet(self) -> Option<Quartet> {
        match self.inner {
            Inner::Quartet(quartet) => Some(*quartet),
            _ => None,
        }
    }

    /// The model as one that looks at the past alone, if `model`, which it was fitted as, is one.
    pub fn plain(&self, model: Model) -> Option<Plain> {
        of_past(model)?;
        Some(Plain { model, fallback: self.fallback, shift: self.shift, residuals: self.residuals })
    }

    fn points(&self, rows: &Rows, which: &[u32]) -> Result<Vec<f64>> {
        let past = |at: &u32| rows.rows.get(*at as usize).map(|row: &Row| row.past).unwrap_or_default();
        let widen = |values: Vec<f32>| values.into_iter().map(f64::from).collect::<Vec<f64>>();
        match &self.inner {
            Inner::Past(of) | Inner::Quote(of) => {
                Ok(which.iter().map(|at| of(&past(at)).unwrap_or(self.fallback) + self.shift).collect())
            }
            Inner::Qssf(trees) => {
                let all: Vec<u32> = (0..rows.attributes.columns() as u32).collect();
                let model = trees.predict(&rows.attributes.select(which, &all))?;
                let blend = |(at, model): (&u32, f32)| {
                    let rolling = past(at).mean_s.unwrap_or_else(|| self.fallback.exp());
                    (LAMBDA * rolling + (1.0 - LAMBDA) * f64::from(model)).max(1.0).ln()
                };
                Ok(which.iter().zip(model).map(blend).collect())
            }
            Inner::Linear(columns, model) => model.predict(&rows.features.select(which, columns)).map(widen),
            Inner::Forest(columns, model) => model.predict(&rows.features.select(which, columns)).map(widen),
            Inner::Trees(columns, model) => model.predict(&rows.features.select(which, columns)).map(widen),
            Inner::Rank(columns, model, isotonic) => {
                let scores = model.predict(&rows.features.select(which, columns))?;
                let count = scores.len();
                let scores = Array2::from_shape_vec((count, 1), scores.into_iter().map(f64::from).collect());
                let scores = scores.map_err(|error| Error::Defect(error.to_string()))?;
                // A step function ties what the scores order: a trace of them keeps the order.
                let steps = isotonic.predict(&scores);
                Ok(steps.iter().zip(scores.iter()).map(|(step, score)| step + 1e-6 * score).collect())
            }
            Inner::Quartet(quartet) => {
                Ok(quartet.say(&rows.features, which).into_iter().map(|(point, _)| point).collect())
            }
        }
    }

    /// Predicts the rows `which`.
    ///
    /// # Errors
    /// If the learner refuses them.
    pub fn say(&self, rows: &Rows, which: &[u32]) -> Result<Vec<Said>> {
        if let Inner::Quartet(quartet) = &self.inner {
            let said = quartet.say(&rows.features, which);
            let as_said = |(point, spread): (f64, Spread)| {
                let [low, middle, high] = [spread.low, spread.middle, spread.high].map(f64::from);
                // The 5 and 95 % quantiles lie beyond the 10 and 90 % ones as a normal distribution's do.
                let beyond = 1.644_853_6 / 1.281_551_6;
                let quantiles =
                    [middle - (middle - low) * beyond, low, middle, high, middle + (high - middle) * beyond];
                Said { point, spread, quantiles }
            };
            return Ok(said.into_iter().map(as_said).collect());
        }
        let as_said = |point: f64| around(point, &self.residuals);
        Ok(self.points(rows, which)?.into_iter().map(as_said).collect())
    }
}
