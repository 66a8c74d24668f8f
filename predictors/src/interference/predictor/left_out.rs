//! Error of forecasts on a GPU type without any measured pair: each measured type is left out
//! entirely, once.
//!
//! Equals what `model backtest interference --hold-out gpu-type` does with the predictor. O(GPU
//! types) trainings; where these would take more than a training may, nothing is tested. Worked
//! number: missed by 0.10, 0.10 and 0.20 on three GPU types is 0.13.

use rayon::prelude::*;
use tracecast_analytics::stats::sum;

use super::super::backtest::{MOST_STEPS, STEPS_OF_FIT};
use super::super::committee::{Committee, Groups, directed, drawn, folds};
use super::super::effects::{Directed, effects};
use super::super::table::{SharingTable, distinct};

/// Steps that a training on a table takes, more or less.
pub(super) fn steps(table: &SharingTable) -> f64 {
    let size = effects(table, table.gpu_types().len());
    let groups = folds(size).min(table.families().len()) as f64;
    drawn(size) as f64 * groups * STEPS_OF_FIT * (size as f64).powi(3)
}

/// Mean over GPU types of the mean absolute error on each; `None` where fewer than two were measured, what teaches is too little, or there is too much to do.
pub(super) fn mae(table: &SharingTable, seed: u64) -> Option<f64> {
    let rows = directed(table);
    let types = distinct(rows.iter().map(|row| row.gpu));
    if types.len() < 2 || steps(table) * types.len() as f64 > MOST_STEPS {
        return None;
    }
    let missed = |gpu: &usize| {
        let (request, teaching): (Vec<Directed>, Vec<Directed>) = rows.iter().copied().partition(|row| row.gpu == *gpu);
        let groups: Vec<Groups> = teaching.iter().map(|row| (row.gpu, row.gpu)).collect();
        let fits: Vec<bool> = table.pairs().iter().map(|pair| pair.gpu != *gpu).collect();
        let committee = Committee::train(table, &teaching, &groups, &fits, &[*gpu], seed).ok()?;
        let miss = |row: &Directed| (committee.speed(row.gpu, row.own, row.beside).mean - row.speed).abs();
        sum::mean(request.iter().map(miss))
    };
    let all: Option<Vec<f64>> = types.par_iter().map(missed).collect();
    sum::mean(&all?)
}
