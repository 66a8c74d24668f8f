//! Gradient-boosted trees: means, quantiles, the censored mean or the order of log runs, or the chance of an event.
//!
//! | target | a row pulls | a leaf moves its output by |
//! |---|---|---|
//! | [`Target::Mean`] | y − q | mean of y − q, drawn towards zero as if by λ rows more |
//! | [`Target::Quantile`] a | a where y > q, else a − 1 | the a quantile of y − q |
//! | [`Target::Survival`] s | z / s with z = (y − q) / s; of a job that still runs φ(z) / (1 − Φ(z)) / s | Σ pull / (Σ curvature + λ) |
//! | [`Target::Chance`] | label − p | the same, on the log odds; p (1 − p) is the curvature |
//! | [`Target::Rank`] | Σ of σ(q′ − q) over what ran shorter, less Σ of σ(q − q′) over what ran longer, of 64 neighbours | the same |
//!
//! times the rate; y is the label and q what is predicted so far. Survival is the accelerated failure time with normal noise of scale s; rank is pairwise
//! (Burges 2010), and only its order means something.
//!
//! **One structure, several answers.** Models of the same rows often have much the same structure, and growing it is what training costs. So a tree is grown once
//! for all outputs that are put together, on what they ask for, and each of its leaves holds a number for each of them. A split gains what it gains for all of
//! them, each on a scale of its own: what a row pulls has a variance of about one.
//!
//! Trees see a random part of rows and columns each, from a seed; once a tree has its shape, all rows come to its leaves and say by how much they
//! move (on the earlier parts of four logs that lowered the pinball losses by 2 to 8 %, against leaves that know the rows drawn alone). A structure is grown on
//! one thread, tree by tree on rows and columns that all structures share: the same rows give the same bytes.
//!
//! Memory: two numbers an output and row of each structure, as all grow side by side, and the bins of the rows. O(trees × (rows × columns + leaves × columns × bins)) to fit, O(trees × depth) to predict all outputs of a row. Worked example: labels 1, 2, 3, 10 and one leaf
//! without λ and a rate of 1 give the mean 4 and the median 2.5.

mod bins;
mod fitted;
mod fitting;
mod grow;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::{Fit, Predict, Training};
use crate::error::{Error, Result};
use crate::matrix::Matrix;
use bins::Binned;
pub use fitted::FittedTrees;
use fitted::MOST_COLUMNS;
use fitting::{Fitting, Structure};
use grow::Draw;

/// Statistic that is predicted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// The mean.
    Mean,
    /// A quantile, 0 to 1.
    Quantile(f64),
    /// The mean, with jobs that still run as bounds; the scale of the noise.
    Survival(f64),
    /// The chance that the label is 1 and not 0.
    Chance,
    /// The order.
    Rank,
}

impl Target {
    /// Whether one structure may serve it and others.
    fn shares(self) -> bool {
        matches!(self, Self::Mean | Self::Quantile(_))
    }
}

/// Settings that trees are grown with.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Trees {
    /// Number of trees.
    pub trees: usize,
    /// Leaves a tree.
    pub leaves: usize,
    /// Learning rate: the share of its step that each tree takes, 0 to 1.
    pub rate: f64,
    /// Share of rows a tree sees.
    pub rows: f64,
    /// Share of columns a tree sees.
    pub columns: f64,
    /// Weight of rows that a leaf needs.
    pub least: f64,
    /// Pull of the leaves towards zero.
    pub lambda: f64,
    /// Bins a feature is cut into.
    pub bins: usize,
    /// Seed of the random parts.
    pub seed: u64,
}

impl Default for Trees {
    /// Chosen for run times on the first 60 % of the jobs of four logs (Philly's with a VC, NASA's iPSC, HPC2N, two VCs of Venus), four seeds each. Half as many
    /// trees again of rate 0.055 lost 0 to 1.4 % less at 10 % and 2 % more at 90 % on Philly, for half as much time again: less than seeds differ. Half the weight
    /// in a leaf lost up to 8 % more.
    fn default() -> Self {
        Self {
            trees: 80,
            leaves: 31,
            rate: 0.08,
            rows: 0.4,
            columns: 0.3,
            least: 100.0,
            lambda: 1.0,
            bins: 64,
            seed: 1,
        }
    }
}

impl Trees {
    /// Settings adapted to the number of rows: with few, fewer leaves a tree, so that a leaf's
    /// quantile is one of some rows and not of two, and fewer bins, as there is less to tell apart.
    /// Nothing changes from 3,100 rows on.
    #[must_use]
    pub fn for_rows(self, rows: usize) -> Self {
        Self {
            leaves: self.leaves.min((rows / ROWS_A_LEAF).max(LEAST_LEAVES)),
            bins: self.bins.min((rows / ROWS_A_BIN).max(LEAST_BINS)),
            ..self
        }
    }
}

/// Rows for each leaf, bin; and the least of both.
const ROWS_A_LEAF: usize = 100;
const ROWS_A_BIN: usize = 10;
const LEAST_LEAVES: usize = 6;
const LEAST_BINS: usize = 32;

/// Rows of features that several models learn from, cut into bins once whatever the labels.
#[derive(Debug, Clone)]
pub struct SharedRows {
    binned: Binned,
}

impl SharedRows {
    /// The rows of a table, in at most so many bins a column: O(rows × columns × log bins).
    pub fn new(rows: &Matrix, bins: usize) -> Self {
        Self { binned: Binned::new(rows, bins) }
    }

    /// The rows and columns of a table that are named, without a copy of their values.
    pub fn of_part(table: &Matrix, rows: &[u32], columns: &[u32], bins: usize) -> Self {
        Self { binned: Binned::of_part(table, rows, columns, bins) }
    }

    /// The rows `rows`, in the same bins.
    #[must_use]
    pub fn only(&self, rows: &[u32]) -> Self {
        Self { binned: self.binned.only(rows) }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.binned.rows()
    }
}

/// Boosted trees, not fitted.
#[derive(Debug, Clone, PartialEq)]
pub struct Boosted {
    /// Targets of the trees, those of one structure together: at most five means and quantiles, or
    /// one of the others.
    pub targets: Vec<Vec<Target>>,
    /// Settings that the trees are grown with.
    pub trees: Trees,
}

fn refused(reason: String) -> Error {
    Error::Learner { learner: "boosted trees", reason }
}

impl Boosted {
    /// Trees that predict one thing.
    pub fn one(target: Target, trees: Trees) -> Self {
        Self { targets: vec![vec![target]], trees }
    }

    /// Learns from rows whose labels are all known, one a row.
    ///
    /// # Errors
    /// If there are too few rows, the labels are not one a row, or these outputs cannot be learned together.
    pub fn fit_shared(&self, rows: &SharedRows, labels: &[f32]) -> Result<FittedTrees> {
        self.grow(&rows.binned, labels, &[])
    }

    fn grow<'a>(&'a self, binned: &'a Binned, labels: &'a [f32], censored: &'a [bool]) -> Result<FittedTrees> {
        let columns = binned.cuts.len();
        if labels.len() < 2 || columns == 0 {
            return Err(Error::TooFew(format!(
                "{} rows of {columns} features are too few to grow trees",
                labels.len()
            )));
        }
        if binned.rows() != labels.len() || labels.iter().any(|label| !label.is_finite()) {
            return Err(refused(format!(
                "{} labels, not all of them finite or not one for each of {} rows",
                labels.len(),
                binned.rows()
            )));
        }
        if columns > MOST_COLUMNS {
            return Err(refused(format!("{columns} columns are too many; {MOST_COLUMNS} are the most")));
        }
        let mut firsts = Vec::with_capacity(self.targets.len());
        let mut outputs = 0;
        for together in &self.targets {
            if together.len() > 1 && !together.iter().all(|target| target.shares()) {
                return Err(refused("means and quantiles are learned together, and other targets alone".to_owned()));
            }
            firsts.push(outputs);
            outputs += together.len();
        }
        let settings = self.trees;
        let structure = |together: &'a [Target], first: usize| -> Result<Box<dyn Structure + 'a>> {
            let of = (together, first);
            Ok(match together.len() {
                1 => Box::new(Fitting::<2>::new(of, settings, binned, labels, censored)),
                2 => Box::new(Fitting::<3>::new(of, settings, binned, labels, censored)),
                3 => Box::new(Fitting::<4>::new(of, settings, binned, labels, censored)),
                4 => Box::new(Fitting::<5>::new(of, settings, binned, labels, censored)),
                5 => Box::new(Fitting::<6>::new(of, settings, binned, labels, censored)),
                many => return Err(refused(format!("{many} outputs cannot be learned together; 1 to 5 can"))),
            })
        };
        let structures = self.targets.par_iter().zip(firsts).map(|(together, first)| structure(together, first));
        let mut structures = structures.collect::<Result<Vec<_>>>()?;
        let mut draw = None;
        for tree in 0..settings.trees as u64 {
            let drawn = Draw::new(binned, &settings, tree, draw.take());
            // They are independent but for what is drawn.
            structures.par_iter_mut().for_each(|structure| structure.grow(&drawn));
            draw = Some(drawn);
        }
        let (mut base, mut trees) = (Vec::new(), Vec::new());
        for structure in structures {
            let (more, grown) = structure.grown();
            base.extend(more);
            trees.extend(grown);
        }
        let chances = self.targets.iter().flatten().map(|target| *target == Target::Chance).collect();
        Ok(FittedTrees::new(columns, base, trees, chances))
    }
}

impl Fit for Boosted {
    type Fitted = FittedTrees;

    fn fit(&self, training: Training<'_>) -> Result<FittedTrees> {
        let Training { rows, labels, censored } = training;
        if rows.rows() != labels.len() {
            return Err(refused(format!("{} labels for {} rows", labels.len(), rows.rows())));
        }
        let survival = |target: &Target| matches!(target, Target::Survival(_));
        if self.targets.iter().flatten().any(survival) {
            if self.targets.len() > 1 {
                return Err(refused("what learns from jobs that still run is learned alone".to_owned()));
            }
            return self.grow(&Binned::new(rows, self.trees.bins), labels, censored);
        }
        if !censored.contains(&true) {
            return self.grow(&Binned::new(rows, self.trees.bins), labels, &[]);
        }
        let open = |row: u32| censored.get(row as usize).copied().unwrap_or(false);
        let kept: Vec<u32> = (0..rows.rows() as u32).filter(|row| !open(*row)).collect();
        let all: Vec<u32> = (0..rows.columns() as u32).collect();
        let labels: Vec<f32> = kept.iter().filter_map(|row| labels.get(*row as usize)).copied().collect();
        self.grow(&Binned::new(&rows.select(&kept, &all), self.trees.bins), &labels, &[])
    }
}

impl Predict for FittedTrees {
    fn predict(&self, rows: &Matrix) -> Result<Vec<f32>> {
        if rows.rows() > 0 && rows.columns() != self.width() {
            return Err(refused(format!("{} columns where {} were learned from", rows.columns(), self.width())));
        }
        Ok(self.say(rows))
    }
}

#[cfg(test)]
mod tests;
