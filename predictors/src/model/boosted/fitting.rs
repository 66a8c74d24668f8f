//! Fitting: what rows ask for, tree after tree, and by how much leaves move what is predicted.
//!
//! The table of [`super`] says what a row pulls and what a leaf is worth. O(trees × rows × outputs) beside the growing. Worked number: labels 0 and 1 with the
//! median at 0.5 pull −½ and ½ times the scale 2, so each has a variance of one.

use tracecast_analytics::stats::fit::normal_hazard;

use super::bins::Binned;
use super::fitted::{MOST_LEAVES, Tree, logistic};
use super::grow::{self, Draw, Shape, Spare, Sum, plus};
use super::{Target, Trees};

/// Neighbouring rows whose order is learned together.
const LIST: usize = 64;
/// Least curvature of a row.
const FLAT: f32 = 1e-16;

/// A structure that is fitted, tree by tree.
pub(super) trait Structure: Send {
    /// Grows its next tree on what is drawn.
    fn grow(&mut self, draw: &Draw<'_>);

    /// Constant base of each output, and the trees.
    fn grown(self: Box<Self>) -> (Vec<f32>, Vec<Tree>);
}

/// A model being fitted, with one lane fewer outputs than `W`.
pub(super) struct Fitting<'a, const W: usize> {
    targets: &'a [Target],
    /// Number of its first output.
    first: usize,
    settings: Trees,
    /// Growth settings, with the weight that a leaf of these rows needs.
    growth: Trees,
    binned: &'a Binned,
    labels: &'a [f32],
    /// Whether the label is a bound from below, one a row; empty if none is.
    censored: &'a [bool],
    /// Factor for each output that gives gradients a variance of one.
    scales: Sum<W>,
    /// Constant prediction before any tree.
    base: Sum<W>,
    /// Prediction so far, by row.
    said: Vec<Sum<W>>,
    /// Negative gradients and weight, by row.
    pulls: Vec<Sum<W>>,
    trees: Vec<Tree>,
    spare: Spare<W>,
}

/// The quantile of values, which are put out of order; between two of them, in proportion.
fn quantile(values: &mut [f32], level: f64) -> f32 {
    let at = level * values.len().saturating_sub(1) as f64;
    let place = at as usize;
    if place >= values.len() {
        return 0.0;
    }
    let (_, low, above) = values.select_nth_unstable_by(place, f32::total_cmp);
    let low = *low;
    let high = above.iter().copied().min_by(f32::total_cmp).unwrap_or(low);
    low + (high - low) * at.fract() as f32
}

/// Pull and curvature of a log run that is `off` above what is said, with normal noise; of a bound from below those of the chance to be above it.
fn survival(off: f64, noise: f64, bound: bool) -> (f64, f64) {
    let z = off / noise;
    let curvature = 1.0 / (noise * noise);
    if !bound {
        return (z / noise, curvature);
    }
    let hazard = normal_hazard(z);
    (hazard / noise, hazard * (hazard - z) * curvature)
}

impl<'a, const W: usize> Fitting<'a, W> {
    /// Fitting of outputs that begin at `first`.
    pub(super) fn new(
        (targets, first): (&'a [Target], usize),
        settings: Trees,
        binned: &'a Binned,
        labels: &'a [f32],
        censored: &'a [bool],
    ) -> Self {
        let many = labels.len() as f64;
        let mean = labels.iter().map(|y| f64::from(*y)).sum::<f64>() / many;
        let variance = labels.iter().map(|y| (f64::from(*y) - mean).powi(2)).sum::<f64>() / many;
        let (mut base, mut scales) = ([0.0; W], [1.0; W]);
        let mut values = labels.to_vec();
        for ((base, scale), target) in base.iter_mut().zip(&mut scales).zip(targets) {
            (*base, *scale) = match *target {
                Target::Quantile(level) => {
                    (quantile(&mut values, level), 1.0 / (level * (1.0 - level)).max(1e-4).sqrt() as f32)
                }
                Target::Chance => {
                    let chance = mean.clamp(1e-6, 1.0 - 1e-6);
                    ((chance / (1.0 - chance)).ln() as f32, 1.0)
                }
                Target::Rank => (0.0, 1.0),
                Target::Mean | Target::Survival(_) => {
                    (mean as f32, if targets.len() == 1 { 1.0 } else { 1.0 / variance.max(1e-12).sqrt() as f32 })
                }
            };
        }
        // Of few rows, a part of them.
        let least = |part: f64| settings.least.min((many / part).max(1.0));
        let least = match targets {
            // A row weighs p (1 − p), which is least where events are rare.
            [Target::Chance] => least(1000.0),
            // As many rows as elsewhere, at the curvature of a job that has ended.
            [Target::Survival(scale)] => least(20.0) / scale.powi(2).max(1e-12),
            _ => least(20.0),
        };
        let growth = Trees { leaves: settings.leaves.clamp(2, MOST_LEAVES), least, ..settings };
        let (said, pulls) = (vec![base; labels.len()], vec![[0.0; W]; labels.len()]);
        let (trees, spare) = (Vec::with_capacity(settings.trees), Spare::default());
        Self { targets, first, settings, growth, binned, labels, censored, scales, base, said, pulls, trees, spare }
    }

    /// Computes the negative gradient and the weight of each row.
    fn pull(&self, pulls: &mut [Sum<W>]) {
        if self.targets == [Target::Rank] {
            return self.pull_apart(pulls);
        }
        for (row, ((pull, said), y)) in pulls.iter_mut().zip(&self.said).zip(self.labels).enumerate() {
            let mut weight = 1.0;
            let outputs = pull.iter_mut().zip(said).zip(&self.scales).zip(self.targets);
            for (((pull, said), scale), target) in outputs {
                let asks = match *target {
                    Target::Quantile(level) => level as f32 - f32::from(u8::from(y <= said)),
                    Target::Chance => {
                        let chance = logistic(*said);
                        weight = (chance * (1.0 - chance)).max(FLAT);
                        y - chance
                    }
                    Target::Survival(noise) => {
                        let bound = self.censored.get(row).copied().unwrap_or(false);
                        let (asks, curvature) = survival(f64::from(y - said), noise, bound);
                        weight = (curvature as f32).max(FLAT);
                        asks as f32
                    }
                    Target::Mean | Target::Rank => y - said,
                };
                *pull = scale * asks;
            }
            if let Some(last) = pull.last_mut() {
                *last = weight;
            }
        }
    }

    /// Computes the negative gradients of rows whose order is learned: each pair of a list is
    /// pulled apart, the more the less it is in order.
    fn pull_apart(&self, pulls: &mut [Sum<W>]) {
        let lists = pulls.chunks_mut(LIST).zip(self.said.chunks(LIST)).zip(self.labels.chunks(LIST));
        for ((pulls, said), labels) in lists {
            for (one, ((pull, said_of_one), y)) in pulls.iter_mut().zip(said).zip(labels).enumerate() {
                let (mut asks, mut weight) = (0.0, 0.0);
                for (other, (said, other_y)) in said.iter().zip(labels).enumerate() {
                    if other == one || other_y == y {
                        continue;
                    }
                    // How likely the longer one is said to be the shorter.
                    let apart = said_of_one.first().copied().unwrap_or(0.0) - said.first().copied().unwrap_or(0.0);
                    let wrong = logistic(if y > other_y { -apart } else { apart });
                    asks += if y > other_y { wrong } else { -wrong };
                    weight += wrong * (1.0 - wrong);
                }
                *pull = [asks; W];
                if let Some(last) = pull.last_mut() {
                    *last = weight.max(FLAT);
                }
            }
        }
    }

    /// Value of each leaf, by output.
    fn values(&self, shape: &Shape<W>) -> Vec<Sum<W>> {
        let settings = self.settings;
        let mut left = Vec::new();
        let of = |(rows, sum): &(Vec<u32>, Sum<W>)| {
            let weight = sum.last().copied().unwrap_or(0.0) + settings.lambda as f32;
            let mut value = [0.0; W];
            for (output, (slot, target)) in value.iter_mut().zip(self.targets).enumerate() {
                let lane = |lanes: &Sum<W>| lanes.get(output).copied().unwrap_or(0.0);
                let moved = match *target {
                    Target::Quantile(level) => {
                        left.clear();
                        left.extend(rows.iter().filter_map(|row| {
                            let row = *row as usize;
                            Some(self.labels.get(row)? - lane(self.said.get(row)?))
                        }));
                        quantile(&mut left, level)
                    }
                    _ => lane(sum) / lane(&self.scales) / weight,
                };
                *slot = moved * settings.rate as f32;
            }
            value
        };
        shape.leaves.iter().map(of).collect()
    }

    /// Moves what is predicted of each row.
    fn say(&mut self, shape: &Shape<W>, values: &[Sum<W>]) {
        for ((rows, _), value) in shape.leaves.iter().zip(values) {
            for row in rows {
                if let Some(said) = self.said.get_mut(*row as usize) {
                    plus(said, value);
                }
            }
        }
    }
}

impl<const W: usize> Structure for Fitting<'_, W> {
    fn grow(&mut self, draw: &Draw<'_>) {
        let mut pulls = std::mem::take(&mut self.pulls);
        self.pull(&mut pulls);
        let mut shape = grow::grow(draw, &pulls, &self.growth, &mut self.spare);
        // Where it is empty, another draw may find what this one did not.
        if !shape.branches.is_empty() {
            shape.gather(self.binned, &pulls);
            let values = self.values(&shape);
            self.say(&shape, &values);
            let outputs = self.first..self.first + self.targets.len();
            self.trees.push(Tree::of(&shape, &self.binned.cuts, &values, outputs));
        }
        self.pulls = pulls;
    }

    fn grown(self: Box<Self>) -> (Vec<f32>, Vec<Tree>) {
        (self.base.iter().copied().take(self.targets.len()).collect(), self.trees)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_pulls_up_alone() {
        // At the bound: φ(0) / ½ = 0.7979, and its curvature 0.7979² = 2/π.
        let (pull, curvature) = survival(0.0, 1.0, true);
        assert!(
            (pull - 0.797_885).abs() < 1e-6 && (curvature - std::f64::consts::FRAC_2_PI).abs() < 1e-6,
            "{pull} {curvature}"
        );
        // Said far above the bound it is met, and far below it pulls as a job that ended there.
        assert!(survival(-8.0, 1.0, true).0 < 1e-10);
        for off in [29.9, 30.1, 1e6] {
            let (pull, curvature) = survival(off, 1.0, true);
            assert!((pull / off - 1.0).abs() < 2e-3 && (0.9..=1.1).contains(&curvature), "{off}: {pull} {curvature}");
        }
        assert_eq!(survival(3.0, 2.0, false), (0.75, 0.25));
    }

    #[test]
    fn quantiles_lie_between_values() {
        assert!((quantile(&mut [10.0, 1.0, 3.0, 2.0], 0.9) - 7.9).abs() < 1e-6);
        assert_eq!((quantile(&mut [], 0.5), quantile(&mut [4.0], 0.9)), (0.0, 4.0));
    }
}
