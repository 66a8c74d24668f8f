//! Forecasts of demand on real counts: what persistence scored in our own runs before, and what a forecast must be better than.

use tracecast_analytics::time::{Written, Zone};
use tracecast_predictors::demand::backtest::{self, DemandBacktest, DemandBacktestOptions};
use tracecast_predictors::demand::forecast::{ForecastModel, ForecastSettings};
use tracecast_predictors::demand::gather;
use tracecast_predictors::demand::{Series, Unit};
use tracecast_tests::{read, real_trace};

fn philly(outages_are_idle: bool) -> Option<(Series, Vec<String>)> {
    let trace = read(&[real_trace("philly/philly_node_sequence.csv.gz")?]).unwrap();
    let options = gather::GatherOptions { outages_are_idle, ..gather::GatherOptions::default() };
    let mut found = gather::gather(&trace, &options).unwrap();
    assert_eq!(found.series.len(), 1);
    Some((found.series.remove(0), found.notes))
}

fn tested(series: &Series, from: &str, to: &str, options: DemandBacktestOptions) -> DemandBacktest {
    let zone = Zone::named(&series.zone).unwrap();
    let at = |text: &str| Written::parse(text).unwrap();
    let (report_from_ms, report_to_ms) = (at(from).first_ms(&zone).ok(), at(to).end_ms(&zone).ok());
    backtest::run(series, None, &DemandBacktestOptions { report_from_ms, report_to_ms, ..options }).unwrap()
}

#[test]
fn one_hour_persistence_on_philly_scores_as_before_and_trees_cost_less() {
    let Some((series, _)) = philly(true) else { return };
    assert_eq!((series.unit, series.zone.as_str()), (Unit::Nodes, "America/Los_Angeles"));
    let options = DemandBacktestOptions {
        models: vec![ForecastModel::Persistence, ForecastModel::Boosted],
        ..DemandBacktestOptions::default()
    };
    let found = tested(&series, "2017-12-01", "2017-12-14", options);
    // Fourteen days of 144 slots.
    assert_eq!((found.reported.slots, found.unscored), (2016, 0));
    let persistence = &found.models[0];
    let hour = &persistence.by_horizon[5];
    assert!((hour.ahead_s - 3600.0).abs() < 1e-9 && hour.score.slots == 2016);
    assert!((hour.score.smape - 2.39).abs() < 0.005, "{}", hour.score.smape);
    assert!((hour.score.rmse - 18.1).abs() < 0.05, "{}", hour.score.rmse);
    // 420 nodes, of which 68.98 % are in use on average.
    assert!((found.mean_peak / 420.0 - 0.6898).abs() < 0.01, "{}", found.mean_peak);
    for model in &found.models {
        println!("{}: {:?}", model.name, model.score);
    }
    let boosted = &found.models[1];
    assert!(boosted.of_persistence < 1.0 && boosted.choice_loss < 1.0, "{}", boosted.of_persistence);
    assert!((boosted.score.coverage80 - 0.8).abs() < 0.05 && (boosted.score.coverage90 - 0.9).abs() < 0.04);
}

#[test]
fn the_outages_of_philly_are_told_and_left_out() {
    let (Some((idle, _)), Some((series, notes))) = (philly(true), philly(false)) else { return };
    assert_eq!(idle.slots.len(), series.slots.len());
    // On 6 December from 17:43 to 18:22 nothing is counted: slots 17:50, 18:00 and 18:10 are empty, and 0 if taken at their word.
    let zone = Zone::named(&series.zone).unwrap();
    let first = |text: &str| Written::parse(text).unwrap().first_ms(&zone).unwrap();
    let at = |text: &str| (first(text) - series.start_ms) / series.slot_ms;
    for text in ["2017-12-06T17:50:00", "2017-12-06T18:00:00", "2017-12-06T18:10:00"] {
        let at = at(text) as usize;
        assert!(idle.slots[at].peak == 0.0 && idle.slots[at].counted);
        assert!(series.slots[at].peak > 200.0 && !series.slots[at].counted);
    }
    // Three stretches: 26 October (1,086 samples at 0 to 7 nodes), 3 December (10) and 6 December (40).
    assert!(notes.iter().any(|note| note.contains("1,136 samples are in 3 stretches")), "{notes:?}");
}

#[test]
fn each_earth_vc_and_the_pool_are_forecast_beside_persistence() {
    let Some(folder) = real_trace("helios/earth_vc_1min") else { return };
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "gz"));
    files.sort();
    let trace = read(&files).unwrap();
    let series =
        gather::series(&trace, &gather::GatherOptions { slot_ms: 1_800_000, ..gather::GatherOptions::default() })
            .unwrap();
    assert_eq!((series.len(), series[8].name.as_str()), (9, gather::POOL));
    // A day of half hours is enough to see that all are scored and covered.
    let mut options = DemandBacktestOptions {
        settings: ForecastSettings { horizon: 4, ..ForecastSettings::default() },
        ..DemandBacktestOptions::default()
    };
    options.settings.trees.trees = 20;
    for each in &series {
        assert!(each.counts_pending && each.slots.len() == 31 * 48);
        let found = tested(each, "2020-05-22", "2020-05-31", options.clone());
        let pool = found.name == gather::POOL;
        assert_eq!((found.reported.slots, found.models[0].name.as_str()), (480, "persistence"));
        let chosen = found.models.iter().find(|model| model.name == found.chosen).unwrap();
        println!("{}: {} {:.3}", found.name, found.chosen, chosen.of_persistence);
        assert!(chosen.score.coverage90 > 0.82, "{}: {}", found.name, chosen.score.coverage90);
        assert!(!pool || chosen.of_persistence < 1.02, "{}", chosen.of_persistence);
    }
}
