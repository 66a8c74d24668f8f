#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use super::boosted::{Boosted, FittedTrees, Target, Trees};
use super::forest::Forest;
use super::linear::Linear;
use super::{Fit, Predict, Training};
use crate::matrix::Matrix;

/// Numbers that look drawn, in 0 to 1.
pub(super) fn drawn(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u64 << 24) as f32
    };
    (0..count).map(|_| next()).collect()
}

/// y = 3 x₀ + noise in −½ to ½; x₁ is nothing; every tenth x₁ is unknown.
fn data(rows: usize, seed: u64) -> (Matrix, Vec<f32>) {
    let values = drawn(3 * rows, seed);
    let mut table = Vec::new();
    let mut labels = Vec::new();
    for (at, three) in values.chunks(3).enumerate() {
        table.extend([three[0], if at % 10 == 0 { f32::NAN } else { three[1] }]);
        labels.push(3.0 * three[0] + three[2] - 0.5);
    }
    (Matrix::of(2, table).unwrap(), labels)
}

pub(super) const SMALL: Trees =
    Trees { trees: 120, leaves: 8, rate: 0.1, rows: 0.8, columns: 1.0, least: 5.0, lambda: 1.0, bins: 64, seed: 3 };

/// Checks what every back end must do: beat the mean, repeat itself, take unknown values, refuse
/// what it cannot learn from.
fn conforms<F: Fit>(learner: &F) {
    let (rows, labels) = data(2000, 1);
    let (fresh, truth) = data(500, 2);
    let training = Training { rows: &rows, labels: &labels, censored: &[] };
    let predicted = learner.fit(training).unwrap().predict(&fresh).unwrap();
    assert_eq!(predicted.len(), 500);
    let mean = labels.iter().sum::<f32>() / labels.len() as f32;
    let error = |result: &dyn Fn(usize) -> f32| {
        truth.iter().enumerate().map(|(at, y)| (y - result(at)).powi(2)).sum::<f32>() / truth.len() as f32
    };
    let (learned, naive) = (error(&|at| predicted[at]), error(&|_| mean));
    // The noise has variance 1/12 = 0.083, all of y 9/12 + 1/12 = 0.83.
    assert!(learned < 0.11, "error {learned} is far from the noise, 0.083");
    assert!(naive > 0.7);
    let again = learner.fit(training).unwrap().predict(&fresh).unwrap();
    assert_eq!(predicted, again);
    assert!(learner.fit(Training { rows: &Matrix::new(2), labels: &[], censored: &[] }).is_err());
}

#[test]
fn boosted_trees_conform() {
    conforms(&Boosted::one(Target::Mean, SMALL));
}

#[test]
fn forests_conform() {
    conforms(&Forest { trees: 30, depth: 8, seed: 1 });
}

#[test]
fn least_squares_conform_and_find_the_line() {
    conforms(&Linear);
    let rows = Matrix::of(1, vec![0.0, 1.0, 2.0]).unwrap();
    let fitted = Linear.fit(Training { rows: &rows, labels: &[0.0, 2.0, 4.0], censored: &[] }).unwrap();
    let at = fitted.predict(&Matrix::of(1, vec![5.0]).unwrap()).unwrap();
    // The ridge takes a ten-thousandth away.
    assert!((at[0] - 10.0).abs() < 5e-3, "{at:?}");
}

#[test]
fn a_quantile_is_exceeded_by_its_share() {
    let (rows, labels) = data(6000, 1);
    let (fresh, truth) = data(3000, 2);
    for level in [0.1, 0.5, 0.9] {
        let learner = Boosted::one(Target::Quantile(level), SMALL);
        let fitted = learner.fit(Training { rows: &rows, labels: &labels, censored: &[] }).unwrap();
        let below = fitted.predict(&fresh).unwrap().iter().zip(&truth).filter(|(q, y)| *y <= *q).count();
        let share = below as f64 / 3000.0;
        assert!((share - level).abs() < 0.05, "{share} of the truth is below the {level} quantile");
    }
}

#[test]
fn a_censored_job_is_a_bound_and_not_a_length() {
    // Half the rows (x = 1) run e⁴ s, but were seen for only e² s; those of x = 0 ended after e² s.
    let rows = Matrix::of(1, (0..400).map(|at| (at % 2) as f32).collect()).unwrap();
    let mut labels = vec![2.0; 400];
    let mut censored: Vec<bool> = (0..400).map(|at| at % 2 == 1).collect();
    // A quarter of those of x = 1 were seen to the end.
    for at in (1..400).step_by(8) {
        labels[at] = 4.0;
        censored[at] = false;
    }
    let trees = Trees { rows: 1.0, ..SMALL };
    let survival = Boosted::one(Target::Survival(0.5), trees);
    let fitted = survival.fit(Training { rows: &rows, labels: &labels, censored: &censored }).unwrap();
    let at = fitted.predict(&Matrix::of(1, vec![0.0, 1.0]).unwrap()).unwrap();
    assert!((at[0] - 2.0).abs() < 0.3, "{at:?}");
    assert!(at[1] > 3.2, "{at:?}: the bounds pull it up, not down to their mean 2.5");
    let mean = Boosted::one(Target::Mean, trees);
    let kept = mean.fit(Training { rows: &rows, labels: &labels, censored: &censored }).unwrap();
    let only_ended = kept.predict(&Matrix::of(1, vec![1.0]).unwrap()).unwrap();
    assert!((only_ended[0] - 4.0).abs() < 0.3, "a learner of ended jobs leaves the others out");
}

#[test]
fn rank_learns_the_order() {
    let (rows, labels) = data(3000, 1);
    let learner = Boosted::one(Target::Rank, SMALL);
    let fitted = learner.fit(Training { rows: &rows, labels: &labels, censored: &[] }).unwrap();
    let at = fitted.predict(&Matrix::of(2, vec![0.1, 0.5, 0.5, 0.5, 0.9, 0.5]).unwrap()).unwrap();
    assert!(at[0] < at[1] && at[1] < at[2], "{at:?}");
}

#[test]
fn trees_are_written_and_read_and_threads_change_nothing() {
    let (rows, labels) = data(2000, 1);
    let learner = Boosted { targets: vec![vec![Target::Quantile(0.9)], vec![Target::Mean]], trees: SMALL };
    let fit = || learner.fit(Training { rows: &rows, labels: &labels, censored: &[] }).unwrap();
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap().install(fit);
    let three = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap().install(fit);
    assert_eq!(one.encode(), three.encode());
    let read = FittedTrees::decode(&one.encode()).unwrap();
    assert_eq!(read.predict(&rows).unwrap(), one.predict(&rows).unwrap());
    assert!(one.predict(&Matrix::of(1, vec![1.0]).unwrap()).is_err(), "a row of another width");
}
