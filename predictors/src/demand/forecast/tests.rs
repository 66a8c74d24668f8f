#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use super::*;
use crate::demand::backtest::{self, DemandBacktestOptions};
use crate::demand::fan::LEVELS;
use crate::demand::gather::Asked;
use crate::demand::predictor::{DemandPredictor, Gathering, csv, forecasts};
use structural::Held;
use tracecast_analytics::facts::demand::{Slot, Unit};

const SLOT_MS: i64 = 1_800_000;

/// A pseudo-random number from 0 to 1 for each place.
fn drawn(at: usize) -> f64 {
    let mixed = (at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed ^ (mixed >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40) as f64 / (1u64 << 24) as f64
}

/// Forty days of half hours: a daily wave with noise.
fn wave() -> Series {
    let slot = |at: usize| {
        let day = at as f64 / 48.0 * std::f64::consts::TAU;
        let peak = (60.0 + 30.0 * day.sin() + 20.0 * drawn(at)).round();
        Slot {
            peak,
            last: peak - 1.0,
            mean: peak - 0.5,
            pending: (at % 5) as f64,
            total: 110.0,
            counted: !at.is_multiple_of(97),
        }
    };
    Series {
        name: "wave".to_owned(),
        unit: Unit::Gpus,
        counts_pending: true,
        start_ms: 0,
        slot_ms: SLOT_MS,
        zone: "Europe/Berlin".to_owned(),
        slots: (0..48 * 40).map(slot).collect(),
    }
}

/// Jobs that keep two half hours, one a slot.
fn jobs() -> Jobs {
    let job = |at: i64| Held {
        submit_ms: at * SLOT_MS + 1,
        start_ms: Some(at * SLOT_MS + 60_000),
        end_ms: Some((at + 2) * SLOT_MS),
        gpus: 1.0 + (at % 8) as f64,
        vc: None,
        distribution: None,
    };
    Jobs { held: (0..48 * 40).map(job).collect(), pending_counts: false }
}

fn options() -> DemandBacktestOptions {
    let mut settings = ForecastSettings { horizon: 6, most_rows: 3_000, ..ForecastSettings::default() };
    settings.trees.trees = 20;
    DemandBacktestOptions { settings, ..DemandBacktestOptions::default() }
}

#[test]
fn seasons_and_persistence_are_what_was() {
    let mut series = wave();
    series.slots.truncate(4);
    for (slot, peak) in series.slots.iter_mut().zip([5.0, 7.0, 9.0, 6.0]) {
        slot.peak = peak;
    }
    let fan = naive::Seasonal { period: 3, horizon: 4 }.forecast(series.before(4)).unwrap();
    assert_eq!(fan.point, [7.0, 9.0, 6.0, 7.0]);
    let far = naive::Seasonal { period: 10, horizon: 2 }.forecast(series.before(4)).unwrap();
    assert_eq!(far.point, [6.0, 6.0]);
    assert_eq!(naive::Persistence { horizon: 2 }.forecast(series.before(3)).unwrap().point, [9.0, 9.0]);
}

#[test]
fn smoothing_with_full_weight_is_persistence_and_one_in_a_row_is_as_one_alone() {
    let series = wave();
    let plain = smoothing::Smoothing { alpha: 1.0, beta: 0.0, gamma: 0.0, phi: 0.9, period: 48, horizon: 3 };
    let last = series.slots[..700].iter().rev().find(|slot| slot.counted).unwrap().peak;
    assert!(plain.forecast(series.before(700)).unwrap().point.iter().all(|point| (point - last).abs() < 1e-9));
    let model = smoothing::Smoothing { alpha: 0.3, beta: 0.1, gamma: 0.2, ..plain };
    // Two look backs of 28 days lie within.
    let row = model.forecasts(&series, 1000..1500).unwrap();
    for (at, fan) in (1000..1500).zip(&row) {
        assert_eq!(fan, &model.forecast(series.before(at)).unwrap());
    }
    // A wave is forecast by its season better than by its last value.
    let fitted = smoothing::Smoothing::fit(series.before(1400), 12);
    let apart = |fan: &Fan, at: usize| (fan.point[11] - series.slots[at + 11].peak).abs();
    let (mut season, mut naive) = (0.0, 0.0);
    for at in 1400..1600 {
        season += apart(&fitted.forecast(series.before(at)).unwrap(), at);
        naive += apart(&naive::Persistence { horizon: 12 }.forecast(series.before(at)).unwrap(), at);
    }
    assert!(season < 0.7 * naive, "{season} {naive}");
}

#[test]
fn no_forecast_changes_when_the_future_does() {
    let (series, jobs) = (wave(), jobs());
    let now = 1_500;
    let mut other = series.clone();
    for (at, slot) in other.slots.iter_mut().enumerate().skip(now) {
        let value = 100.0 * drawn(at + 7);
        *slot = Slot { peak: value, last: value, mean: value, pending: value, total: 500.0, counted: at % 2 == 0 };
    }
    let cut = series.time_ms(now);
    let mut others = jobs.held.to_vec();
    for job in &mut others {
        job.start_ms = job.start_ms.map(|start| if start >= cut { start + 9_999_999 } else { start });
        job.end_ms = job.end_ms.filter(|end| *end < cut);
    }
    others.retain(|job| job.submit_ms < cut || job.gpus > 4.0);
    let others = Jobs { held: others.into(), ..jobs.clone() };
    let settings = options().settings;
    for model in ForecastModel::ALL {
        let one = fit(model, series.before(now), Some(&jobs), &settings).unwrap();
        let two = fit(model, other.before(now), Some(&others), &settings).unwrap();
        assert_eq!(one.forecast(series.before(now)).unwrap(), two.forecast(other.before(now)).unwrap(), "{model:?}");
        // Also of those made in a row, up to that moment.
        let (one, two) = (one.forecasts(&series, 1_400..now + 1), two.forecasts(&other, 1_400..now + 1));
        assert_eq!(one.unwrap(), two.unwrap(), "{model:?}");
    }
    // And of all that the back-test says, calibration and ensemble included, before that moment; the choice was made before.
    let cut = |series: &Series, jobs: &Jobs| {
        let mut options = options();
        options.report_from_ms = Some(series.time_ms(1_450));
        let result = backtest::tracks(series, Some(jobs), &options).unwrap();
        let told = result.tracks.iter().map(|track| track.fans[..=now - result.first].to_vec()).collect::<Vec<_>>();
        (told, result.ensemble, backtest::choice(&backtest::tracks(series, Some(jobs), &options).unwrap()))
    };
    assert_eq!(cut(&series, &jobs), cut(&other, &others));
}

#[test]
fn the_back_test_scores_persistence_as_plain_loops_do_and_calibrated_intervals_hold() {
    let (series, jobs) = (wave(), jobs());
    let result = backtest::run(&series, Some(&jobs), &options()).unwrap();
    let (from, to) = (1440, 1920);
    assert_eq!((result.reported.slots, result.reported.from_ms), (480, series.time_ms(from)));
    let persistence = &result.models[0];
    for ahead in [1usize, 6] {
        let mut smape = Vec::new();
        for at in (from..to).filter(|at| series.slots[*at].counted) {
            // The wave's slots that were not counted keep their numbers, so the last slot is the last slot.
            let (said, came) = (series.slots[at - ahead].peak, series.slots[at].peak);
            smape.push(200.0 * (said - came).abs() / (said + came));
        }
        let at_horizon = &persistence.by_horizon[ahead - 1];
        assert_eq!(at_horizon.score.slots, smape.len());
        assert!((at_horizon.score.smape - smape.iter().sum::<f64>() / smape.len() as f64).abs() < 1e-9);
    }
    for model in &result.models {
        let score = &model.score;
        assert!(
            (score.coverage80 - 0.8).abs() < 0.06 && (score.coverage90 - 0.9).abs() < 0.05,
            "{} {score:?}",
            model.name
        );
        assert!(score.pinball.len() == LEVELS.len() && score.width90 >= score.width80);
    }
    // A wave has a season: whatever was chosen sees it.
    let chosen = result.models.iter().find(|model| model.name == result.chosen).unwrap();
    assert!(chosen.of_persistence < 0.8, "{} {}", result.chosen, chosen.of_persistence);
    assert_eq!(result.ensemble.iter().map(|member| member.weight).sum::<f64>().round(), 1.0);
}

#[test]
fn a_model_that_cannot_be_fitted_is_left_out_and_says_why() {
    let result = backtest::run(&wave(), None, &options()).unwrap();
    let [left] = result.left_out.as_slice() else { unreachable!() };
    assert!(left.model == ForecastModel::Structural && left.why.contains("jobs"));
}

#[test]
fn a_file_gives_back_the_same_forecasts_and_rolls_on() {
    let (series, jobs) = (wave(), jobs());
    let gathering = Gathering {
        slot_ms: SLOT_MS,
        unit: Unit::Gpus,
        asked: Asked::InUse,
        gpus_per_node: None,
        outages_are_idle: false,
        from_jobs: true,
        vcs: Vec::new(),
    };
    let log = structural::Log { held: jobs.held.to_vec() };
    let mut early = series.clone();
    early.slots.truncate(1_700);
    for model in ForecastModel::ALL {
        let options = DemandBacktestOptions { models: vec![model], ..options() };
        let mut predictor =
            DemandPredictor::train(std::slice::from_ref(&early), Some(&log), gathering.clone(), &options, &()).unwrap();
        let bytes = predictor.to_bytes().unwrap();
        let mut back = DemandPredictor::from_bytes("demand.tcm", &bytes).unwrap();
        let said = predictor.forecast().unwrap();
        assert_eq!(said, back.forecast().unwrap(), "{model:?}");
        assert_eq!((said[0].from_ms, said[0].fan.horizons()), (series.time_ms(1_700), 6));
        let newer = std::slice::from_ref(&series);
        predictor.roll(newer, Some(&log)).unwrap();
        back.roll(newer, Some(&log)).unwrap();
        let later = predictor.forecast().unwrap();
        assert_eq!(later, back.forecast().unwrap());
        assert_eq!(later[0].from_ms, series.time_ms(1_920));
        let text = String::from_utf8(csv(&later).unwrap()).unwrap();
        assert!(text.starts_with(
            "series,unit,model,horizon,slot_start,slot_end,point,p05,p10,p25,p50,p75,p90,p95,p99\nwave,gpus,"
        ));
        assert_eq!((text.lines().count(), forecasts(&later).series[0].slots.len()), (7, 6));
        // Damage is found, and another version is refused by its number.
        let mut damaged = bytes.clone();
        *damaged.last_mut().unwrap() ^= 1;
        assert!(DemandPredictor::from_bytes("demand.tcm", &damaged).unwrap_err().to_string().contains("damaged"));
        let head = bytes.iter().position(|byte| *byte == b'\n').unwrap();
        let line = String::from_utf8(bytes[..head].to_vec()).unwrap().replace("\"version\":2", "\"version\":3");
        let later = [line.as_bytes(), &bytes[head..]].concat();
        assert!(DemandPredictor::from_bytes("demand.tcm", &later).unwrap_err().to_string().contains("version 3"));
    }
}

/// A record of many years is gathered from its newest slots alone: where these begin after what is known, the forecast begins anew.
#[test]
fn a_record_that_begins_after_a_hole_is_taken_up_if_it_is_long_enough() {
    let options = DemandBacktestOptions { models: vec![ForecastModel::SeasonalDay], ..options() };
    let gathering = Gathering {
        slot_ms: SLOT_MS,
        unit: Unit::Gpus,
        asked: Asked::InUse,
        gpus_per_node: None,
        outages_are_idle: false,
        from_jobs: false,
        vcs: Vec::new(),
    };
    let series = wave();
    let trained = DemandPredictor::train(std::slice::from_ref(&series), None, gathering, &options, &()).unwrap();
    let after = |slots: usize| {
        let all = series.slots.iter().cycle().take(slots).copied().collect();
        Series { start_ms: series.time_ms(series.slots.len() + 10_000), slots: all, ..series.clone() }
    };
    let day = (86_400_000 / SLOT_MS) as usize;
    let long = after(day * 57 * 2);
    let mut rolled = trained.clone();
    rolled.roll(std::slice::from_ref(&long), None).unwrap();
    assert_eq!(rolled.forecast().unwrap()[0].from_ms, long.time_ms(long.slots.len()));
    let refused = trained.clone().roll(&[after(day * 57)], None).unwrap_err().to_string();
    assert!(refused.contains("reaches back so far"), "{refused}");
}
