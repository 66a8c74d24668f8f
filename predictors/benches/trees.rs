//! Learners beside each other on the same made-up rows, and how fast boosted trees answer. One thread, so that wall time is CPU time.
//!
//! `cargo bench -p tracecast-predictors --bench trees [-- ROWS FOLDER]`: ROWS is 1,000,000 unless given; with FOLDER the rows are written there
//! for `lightgbm_same.py`, which trains LightGBM on them.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]

use std::time::Instant;

use tracecast_predictors::duration::forecast::OUTPUTS;
use tracecast_predictors::matrix::Matrix;
use tracecast_predictors::model::boosted::{Boosted, Target, Trees};
use tracecast_predictors::model::forest::Forest;
use tracecast_predictors::model::linear::Linear;
use tracecast_predictors::model::{Fit, Predict, Training};
use tracecast_predictors::score::spearman;

const COLUMNS: usize = 20;

/// Rows that look drawn: y = 3 sin(6 x₀) + 2 x₁ x₂ + [x₃ > ½] + noise of the same size.
fn rows(count: usize, seed: u64) -> (Matrix, Vec<f32>) {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u64 << 24) as f32
    };
    let mut values = Vec::with_capacity(count * COLUMNS);
    let mut labels = Vec::with_capacity(count);
    for _ in 0..count {
        let row: Vec<f32> = (0..COLUMNS).map(|_| next()).collect();
        let noise = (0..6).map(|_| next()).sum::<f32>() - 3.0;
        labels
            .push(3.0 * (6.0 * row[0]).sin() + 2.0 * row[1] * row[2] + f32::from(u8::from(row[3] > 0.5)) + 3.0 * noise);
        values.extend(row);
    }
    (Matrix::of(COLUMNS, values).unwrap(), labels)
}

fn told<F: Fit>(name: &str, learner: &F, train: &(Matrix, Vec<f32>), test: &(Matrix, Vec<f32>)) {
    let began = Instant::now();
    let fitted = learner.fit(Training { rows: &train.0, labels: &train.1, censored: &[] }).unwrap();
    let fit_s = began.elapsed().as_secs_f64();
    let began = Instant::now();
    let said = fitted.predict(&test.0).unwrap();
    let predict_s = began.elapsed().as_secs_f64();
    // The first of several outputs is the mean.
    let said: Vec<f32> = said.iter().step_by(said.len() / test.1.len()).copied().collect();
    let mean = test.1.iter().map(|y| f64::from(*y)).sum::<f64>() / test.1.len() as f64;
    let error: f64 = said.iter().zip(&test.1).map(|(p, y)| f64::from(y - p).powi(2)).sum();
    let spread: f64 = test.1.iter().map(|y| (f64::from(*y) - mean).powi(2)).sum();
    let wide = |values: &[f32]| values.iter().map(|value| f64::from(*value)).collect::<Vec<f64>>();
    println!(
        "{name:<34} {:>9} rows  fit {fit_s:>7.2} s  R² {:.4}  Spearman {:.4}  {:>10.0} rows predicted/s",
        train.1.len(),
        1.0 - error / spread,
        spearman(&wide(&said), &wide(&test.1)),
        test.1.len() as f64 / predict_s
    );
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let count = arguments.first().and_then(|argument| argument.parse().ok()).unwrap_or(1_000_000);
    rayon::ThreadPoolBuilder::new().num_threads(1).build_global().unwrap();
    let (train, test) = (rows(count, 1), rows(count / 4, 2));
    if let Some(folder) = arguments.get(1) {
        let bytes = |values: &[f32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
        for (name, (table, labels)) in [("train", &train), ("test", &test)] {
            std::fs::write(format!("{folder}/{name}.x"), bytes(table.values())).unwrap();
            std::fs::write(format!("{folder}/{name}.y"), bytes(labels)).unwrap();
        }
    }
    let trees = Trees {
        trees: 300,
        leaves: 63,
        rate: 0.1,
        rows: 1.0,
        columns: 1.0,
        least: 20.0,
        lambda: 0.0,
        bins: 255,
        seed: 1,
    };
    told("boosted, 300 trees of 63 leaves", &Boosted::one(Target::Mean, trees), &train, &test);
    told("boosted, as the predictor's mean", &Boosted::one(Target::Mean, Trees::default()), &train, &test);
    let four = Boosted { targets: OUTPUTS.map(<[Target]>::to_vec).to_vec(), trees: Trees::default() };
    told("boosted, mean and three quantiles", &four, &train, &test);
    told("boosted, 90 % quantile", &Boosted::one(Target::Quantile(0.9), Trees::default()), &train, &test);
    let small = rows(count / 20, 3);
    told("random forest, 40 trees", &Forest { trees: 40, depth: 14, seed: 1 }, &small, &test);
    told("least squares", &Linear, &train, &test);
}
