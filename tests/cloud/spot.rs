//! Chances of spot on real availability: what must hold of them, and the figures of `predictors/RESULTS.md`.

use proptest::prelude::*;
use tracecast_predictors::spot::backtest::{SpotBacktest, SpotModel, SpotTarget, SpotTestOptions, backtest};
use tracecast_predictors::spot::predictor::{HOURS_AHEAD, REFIT_DAYS, SpotPredictor};
use tracecast_predictors::spot::process::{Circumstances, SpotProcess};
use tracecast_predictors::spot::record::SpotRecord;
use tracecast_predictors::spot::track::track;

use super::*;

fn tested(series: &[SpotSeries], need: u32) -> SpotBacktest {
    let records: Vec<_> = series.iter().map(|zone| zone.record(None)).collect();
    let options =
        SpotTestOptions { need, together: true, hours: HOURS_AHEAD.to_vec(), refit_days: REFIT_DAYS, seed: 1 };
    backtest(&records, &options, &()).unwrap()
}

/// Mean Brier score and mean log loss over targets and horizons.
fn means(found: &SpotBacktest, model: SpotModel) -> (f64, Option<f64>) {
    let horizons = &found.models.iter().find(|score| score.model == model).unwrap().horizons;
    assert_eq!(horizons.len(), 10);
    let count = horizons.len() as f64;
    let losses: Option<Vec<f64>> = horizons.iter().map(|at| at.score.log_loss).collect();
    (horizons.iter().map(|at| at.score.brier).sum::<f64>() / count, losses.map(|of| of.iter().sum::<f64>() / count))
}

fn say_chances(what: &str, found: &SpotBacktest) {
    println!("{what}: chosen {:?}, {} days", found.chosen, found.days);
    for score in &found.models {
        println!("  {:?} {:.4?}", score.model, means(found, score.model));
    }
    let chosen = found.models.iter().find(|score| score.model == found.chosen).unwrap();
    for at in &chosen.horizons {
        println!(
            "  {:?} {} h: came {:.3}, {:?}, over persistence {:.3?}, over shares {:.3?}",
            at.target, at.hours, at.score.happened, at.score, at.over_persistence, at.over_shares
        );
    }
}

/// Every score is a score, baselines say what baselines say, and the chosen model beats persistence that says 0 or 1 and the memoryless chain.
fn beats_the_simple(found: &SpotBacktest) {
    let (brier, loss) = means(found, found.chosen);
    assert!(brier < means(found, SpotModel::Persistence).0, "{brier}");
    assert!(loss < means(found, SpotModel::Markov).1, "{loss:?}");
    assert_eq!(means(found, SpotModel::Persistence).1, None);
    for at in found.models.iter().flat_map(|score| &score.horizons) {
        assert!((0.0..=1.0).contains(&at.score.brier) && (0.0..=1.0).contains(&at.score.calibration_error));
        assert!(at.over_shares.is_none_or(|skill| skill.low <= skill.high));
    }
    // What is asked through is asked where there is enough now, so a forecast for longer happens no more often.
    let through = found.models[0].horizons.iter().filter(|at| at.target == SpotTarget::Through);
    assert!(through.map(|at| at.score.happened).is_sorted_by(|a, b| a >= b));
}

/// One V100 in nine zones of February, with prices.
#[test]
fn chances_of_one_instance_in_nine_zones() {
    let Some(series) = priced() else { return };
    let found = tested(&series, 1);
    say_chances("1 of 1, nine zones", &found);
    beats_the_simple(&found);
    let records: Vec<_> = series.iter().map(|zone| zone.record(None)).collect();
    let (model, _) = SpotPredictor::train(records, 1, true).unwrap();
    assert_eq!(model.zones().count(), 9);
}

/// Four V100 at once in three zones of August.
#[test]
fn chances_of_four_instances() {
    let zones =
        ["us-east-1f", "us-east-2a", "us-west-2c"].map(|zone| format!("preemption/4-node/aws-08-03-2023/{zone}"));
    let Some(series) = super::series(&zones.each_ref().map(String::as_str)) else { return };
    let found = tested(&series, 4);
    say_chances("4 of 4, three zones", &found);
    beats_the_simple(&found);
}

/// Eight and sixteen V100 at once in three zones of August.
#[test]
fn chances_of_eight_and_sixteen_instances() {
    let zones =
        ["us-east-2b", "us-west-2a", "us-west-2c"].map(|zone| format!("availability/16-node/aws-08-27-2023/{zone}"));
    let Some(series) = super::series(&zones.each_ref().map(String::as_str)) else { return };
    for need in [8, 16] {
        let found = tested(&series, need);
        say_chances(&format!("{need} of 16, three zones"), &found);
        beats_the_simple(&found);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    /// Whatever was seen: chances are chances, enough through a time is never likelier than enough at its end or through a part of it, and nothing that comes later changes them.
    #[test]
    fn chances_are_chances(
        counts in prop::collection::vec(prop::option::weighted(0.95, 0u32..6), 20..200),
        other in prop::collection::vec(prop::option::weighted(0.95, 0u32..6), 20..200),
        prices in prop::collection::vec(prop::option::weighted(0.9, 0.5f64..2.0), 20..200),
        later in prop::collection::vec(prop::option::weighted(0.95, 0u32..6), 1..50),
        need in 1u32..6,
        tick_min in 1i64..90,
        knows in prop::array::uniform4(any::<bool>()),
    ) {
        let [memory, week, crowd, price] = knows;
        let knows = Circumstances { memory, week, crowd, price };
        let cut = counts.len().min(other.len());
        let tick_ms = tick_min * 60_000;
        let record = |counts: &[Option<u32>], prices: &[Option<f64>]| SpotRecord {
            tick_ms,
            counts: counts.to_vec(),
            prices: prices.to_vec(),
            ..SpotRecord::default()
        };
        let told = |records: &[SpotRecord]| {
            let seen = track(records, 0, need, true);
            let process = SpotProcess::fit(&seen[..cut], tick_ms, need > 1, knows);
            seen[cut - 1].map(|now| process.forecast(&now, &[0, 1, 2, 7, 30, 100]))
        };
        let priced: Vec<Option<f64>> = (0..cut).map(|tick| prices.get(tick).copied().flatten()).collect();
        let now = told(&[record(&counts[..cut], &priced), record(&other[..cut], &[])]);
        if let Some(outlooks) = &now {
            prop_assert_eq!(outlooks.len(), 6);
            for outlook in outlooks {
                prop_assert!((0.0..=1.0).contains(&outlook.at) && outlook.through <= outlook.at + 1e-9);
            }
            prop_assert!(outlooks.windows(2).all(|pair| pair[1].through <= pair[0].through));
        }
        let longer = |counts: &[Option<u32>]| [&counts[..cut], &later].concat();
        let after = [record(&longer(&counts), &[&priced[..], &[Some(9.0); 40]].concat()), record(&longer(&other), &[])];
        prop_assert_eq!(now, told(&after));
    }
}
