#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::float_cmp)]

use super::*;
use crate::model::tests::{SMALL, drawn};

/// y = 3 x₀ + noise in −½ to ½, and 5 where x₁ is unknown, as every tenth is.
fn data(rows: usize, seed: u64) -> (Matrix, Vec<f32>) {
    let mut table = Vec::new();
    let mut labels = Vec::new();
    for (at, three) in drawn(3 * rows, seed).chunks(3).enumerate() {
        let unknown = at % 10 == 0;
        table.extend([three[0], if unknown { f32::NAN } else { three[1] }]);
        labels.push(if unknown { 5.0 } else { 3.0 * three[0] + three[2] - 0.5 });
    }
    (Matrix::of(2, table).unwrap(), labels)
}

fn four() -> Vec<Target> {
    vec![Target::Mean, Target::Quantile(0.1), Target::Quantile(0.5), Target::Quantile(0.9)]
}

fn fit(together: Vec<Target>, trees: Trees, (rows, labels): &(Matrix, Vec<f32>)) -> FittedTrees {
    Boosted { targets: vec![together], trees }.fit(Training { rows, labels, censored: &[] }).unwrap()
}

#[test]
fn the_worked_example() {
    // Nothing to split on: what is left is what all rows say.
    let rows = Matrix::of(1, vec![7.0; 4]).unwrap();
    let fitted = fit(
        vec![Target::Mean, Target::Quantile(0.5), Target::Quantile(0.9)],
        SMALL,
        &(rows, vec![1.0, 2.0, 3.0, 10.0]),
    );
    // Nine tenths of the way from the first to the last is at 2.7: 3 + 0.7 × 7.
    let said = fitted.say(&Matrix::of(1, vec![0.0]).unwrap());
    assert!(said[0] == 4.0 && said[1] == 2.5 && (said[2] - 7.9).abs() < 1e-5, "{said:?}");
}

#[test]
fn one_structure_tells_the_mean_and_the_quantiles_and_where_the_unknown_belongs() {
    let fitted = fit(four(), SMALL, &data(6000, 1));
    let (fresh, truth) = data(3000, 2);
    let said = fitted.say(&fresh);
    let rows: Vec<&[f32]> = said.chunks(4).collect();
    let known = |at: &usize| !at.is_multiple_of(10);
    let error: f32 = (0..3000).filter(known).map(|at| (truth[at] - rows[at][0]).powi(2)).sum::<f32>() / 2700.0;
    // The noise has variance 1/12 = 0.083.
    assert!(error < 0.1, "{error}");
    for (output, level) in [(1, 0.1), (2, 0.5), (3, 0.9)] {
        let below = (0..3000).filter(known).filter(|at| truth[*at] <= rows[*at][output]).count();
        let share = below as f64 / 2700.0;
        assert!((share - level).abs() < 0.05, "{share} of the truth is below the {level} quantile");
    }
    for at in (0..3000).step_by(10) {
        assert!(rows[at].iter().all(|said| (said - 5.0).abs() < 0.1), "{:?}", rows[at]);
    }
}

#[test]
fn chances_are_learned_alone() {
    let (rows, labels) = data(6000, 1);
    // Above 1.5, or unknown: as good as x₀ > ½.
    let events: Vec<f32> = labels.iter().map(|y| f32::from(u8::from(*y > 1.5))).collect();
    let fitted = fit(vec![Target::Chance], SMALL, &(rows, events));
    let said = fitted.say(&Matrix::of(2, vec![0.1, 0.5, 0.5, 0.5, 0.9, 0.5, 0.1, f32::NAN]).unwrap());
    assert!(said[0] < 0.05 && (0.3..0.7).contains(&said[1]) && said[2] > 0.95 && said[3] > 0.9, "{said:?}");
    let rows = Matrix::of(1, vec![1.0, 2.0]).unwrap();
    let training = Training { rows: &rows, labels: &[0.0, 1.0], censored: &[] };
    let alone = [Target::Chance, Target::Rank, Target::Survival(1.0)];
    for targets in alone.map(|target| vec![target, Target::Mean]).into_iter().chain([Vec::new()]) {
        assert!(Boosted { targets: vec![targets.clone()], trees: SMALL }.fit(training).is_err(), "{targets:?}");
    }
    let few = Training { rows: &Matrix::new(1), labels: &[], censored: &[] };
    assert!(Boosted { targets: vec![vec![Target::Mean]], trees: SMALL }.fit(few).is_err());
}

#[test]
fn parts_say_what_each_says_alone() {
    let (rows, labels) = data(3000, 1);
    let both =
        Boosted { targets: vec![vec![Target::Mean, Target::Quantile(0.9)], vec![Target::Quantile(0.1)]], trees: SMALL }
            .fit(Training { rows: &rows, labels: &labels, censored: &[] })
            .unwrap();
    assert_eq!(FittedTrees::decode(&both.encode()).unwrap(), both);
    let data = (rows, labels);
    let first = fit(vec![Target::Mean, Target::Quantile(0.9)], SMALL, &data).say(&data.0);
    let second = fit(vec![Target::Quantile(0.1)], SMALL, &data).say(&data.0);
    for (at, three) in both.say(&data.0).chunks(3).enumerate() {
        assert_eq!(three, [first[2 * at], first[2 * at + 1], second[at]]);
    }
    // A file for XGBoost has the trees of its output alone.
    let text = both.xgboost_json(2).to_string();
    for (result, said) in as_xgboost(&text, &data.0).iter().zip(&second) {
        assert!((result - f64::from(*said)).abs() < 1e-4, "{result} for {said}");
    }
}

#[test]
fn many_rows_at_once_are_told_what_one_is_told() {
    let data = data(3000, 1);
    // Few leaves are swept by bits, many are walked.
    for leaves in [2, 8, 31, 32, 33, 60] {
        let fitted = fit(four(), Trees { leaves, trees: 20, ..SMALL }, &data);
        // A block and a part of one.
        let some = data.0.select(&(0..100).collect::<Vec<u32>>(), &[0, 1]);
        let said = fitted.say(&some);
        let mut one = [0.0; 4];
        for row in 0..100 {
            fitted.say_one(some.row(row), &mut one);
            assert_eq!(one, said[4 * row..4 * row + 4], "{leaves} leaves, row {row}");
        }
    }
}

#[test]
fn trees_are_written_and_read_and_what_is_damaged_is_refused() {
    let data = data(2000, 1);
    let fitted = fit(four(), SMALL, &data);
    assert_eq!(fitted, fit(four(), SMALL, &data), "the same rows, the same trees");
    let bytes = fitted.encode();
    assert_eq!(FittedTrees::decode(&bytes).unwrap(), fitted);
    assert!(FittedTrees::decode(b"nothing").is_none() && FittedTrees::decode(&bytes[..bytes.len() - 1]).is_none());
    // Whatever single byte is wrong: it is refused, or every walk still ends.
    for at in 0..bytes.len().min(2000) {
        let mut wrong = bytes.clone();
        wrong[at] ^= 0x55;
        if let Some(read) = FittedTrees::decode(&wrong).filter(|read| read.outputs() == 4) {
            read.say_one(data.0.row(0), &mut [0.0; 4]);
        }
    }
}

/// Predictions of a model in XGBoost's JSON, as XGBoost makes them: the base score, and of each
/// tree the leaf that a row comes to, from node 0, to the left where the value is less than the
/// condition; what is unknown goes where the default is.
fn as_xgboost(text: &str, rows: &Matrix) -> Vec<f64> {
    let model: serde_json::Value = serde_json::from_str(text).unwrap();
    let learner = &model["learner"];
    let base = learner["learner_model_param"]["base_score"].as_str().unwrap();
    let base: f64 = base.trim_matches(['[', ']']).parse().unwrap();
    let trees = learner["gradient_booster"]["model"]["trees"].as_array().unwrap();
    let leaf = |tree: &serde_json::Value, row: &[f32]| {
        let mut at = 0;
        loop {
            let left = tree["left_children"][at].as_i64().unwrap();
            let condition = tree["split_conditions"][at].as_f64().unwrap();
            if left < 0 {
                return condition;
            }
            let value = row[tree["split_indices"][at].as_u64().unwrap() as usize];
            let goes_left = if value.is_nan() { tree["default_left"][at] == 1 } else { value < condition as f32 };
            at = if goes_left { left } else { tree["right_children"][at].as_i64().unwrap() } as usize;
        }
    };
    (0..rows.rows()).map(|row| base + trees.iter().map(|tree| leaf(tree, rows.row(row))).sum::<f64>()).collect()
}

#[test]
fn what_is_written_for_xgboost_says_the_same() {
    let data = data(2000, 1);
    let fitted = fit(four(), Trees { trees: 30, ..SMALL }, &data);
    let said = fitted.say(&data.0);
    for output in 0..4 {
        let text = fitted.xgboost_json(output).to_string();
        for (at, result) in as_xgboost(&text, &data.0).iter().enumerate() {
            assert!((result - f64::from(said[4 * at + output])).abs() < 1e-4, "{result} for {}", said[4 * at + output]);
        }
    }
}

#[test]
fn gains_name_what_was_split_on() {
    let (rows, labels) = data(2000, 1);
    let gains = fit(vec![Target::Mean], SMALL, &(rows, labels)).gains();
    assert_eq!(gains.len(), 2);
    assert!(gains[0].1 > gains[1].1 && gains.iter().all(|(_, gain)| *gain > 0.0));
}
