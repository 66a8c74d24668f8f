//! Predictions of durations on real traces, on the last fifth of their jobs by time: what must hold, and that the future does not leak.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod demand;
mod interference;
mod intervals;
mod utilisation;

use tracecast_analytics::storage;
use tracecast_predictors::duration::backtest::{self, Backtest, BacktestOptions, ModelScore};
use tracecast_predictors::duration::forecast::Model;
use tracecast_predictors::timeline::{self, Timeline};
use tracecast_tests::{read, real_trace};

fn tested(path: &str, jobs: timeline::TimelineOptions, models: &[Model]) -> Option<Backtest> {
    let trace = read(&[real_trace(path)?]).unwrap();
    let timeline = Timeline::new(&trace, jobs).unwrap();
    Some(backtest::run(&timeline, &BacktestOptions { models: models.to_vec(), ..BacktestOptions::default() }).unwrap())
}

fn named<'a>(found: &'a Backtest, name: &str) -> &'a ModelScore {
    found.models.iter().find(|model| model.name == name).unwrap()
}

/// Pinball losses at 10, 50 and 90 % as shares of another model's.
fn losses(model: &ModelScore, other: &ModelScore) -> [f64; 3] {
    let (one, other) = (model.score.pinball, other.score.pinball);
    [one.p10 / other.p10, one.p50 / other.p50, one.p90 / other.p90]
}

#[test]
fn philly_jobs_with_a_vc() {
    let jobs = timeline::TimelineOptions { known_vc_only: true, ..timeline::TimelineOptions::default() };
    let models = [Model::RunningMean, Model::WeightedMean, Model::Boosted];
    let Some(found) = tested("philly/philly_jobs.csv.gz", jobs, &models) else { return };
    assert_eq!(found.taught.jobs + found.chosen_on.jobs + found.reported.jobs, 82_247);
    let (base, boosted) = (named(&found, "running_mean"), named(&found, "boosted"));
    // What is known of these jobs: a causal running mean has Spearman .590 and R² .38, an exponentially weighted one .720.
    assert!((base.score.spearman - 0.59).abs() < 0.005 && (base.score.r2 - 0.38).abs() < 0.01, "{base:?}");
    assert!((named(&found, "weighted_mean").score.spearman - 0.72).abs() < 0.005);
    println!("boosted: {:?}, losses {:?}", boosted.score, losses(boosted, base));
    assert!(boosted.score.spearman > 0.76 && boosted.score.r2 > 0.52);
    assert!(losses(boosted, base).iter().all(|share| *share < 0.78));
    assert!((boosted.score.coverage80 - 0.8).abs() < 0.02 && (boosted.score.coverage90 - 0.9).abs() < 0.02);
    for part in &boosted.by_size {
        let held = (part.score.coverage80 - 0.8).abs() < 0.05 && (part.score.coverage90 - 0.9).abs() < 0.05;
        assert!(held, "{}: {:?}", part.class, part.score);
    }
}

#[test]
fn venus_with_users() {
    let models = [Model::RunningMean, Model::WeightedMean, Model::ShrunkMean, Model::RecentMedian, Model::Boosted];
    let jobs = timeline::TimelineOptions::default();
    let Some(found) = tested("helios/helios_venus_2vc_sept.csv", jobs, &models) else { return };
    let boosted = named(&found, "boosted");
    for base in found.models.iter().filter(|model| !["boosted", "ensemble"].contains(&model.name.as_str())) {
        assert!(boosted.score.spearman > base.score.spearman && boosted.score.r2 > base.score.r2, "{}", base.name);
        assert!(losses(boosted, base).iter().all(|share| *share < 1.0), "{}: {:?}", base.name, losses(boosted, base));
    }
}

/// Shuffling what happens after a moment changes no prediction made before it.
#[test]
fn the_future_does_not_leak_into_predictions() {
    let sample = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../datasets/sample");
    let trace = storage::load(&sample).unwrap();
    let mut timeline = Timeline::new(&trace, timeline::TimelineOptions::default()).unwrap();
    timeline.jobs.truncate(4000);
    let now_ms = timeline.jobs[3000].submission.submit_ms;
    let mut changed = timeline.clone();
    // What had not ended by then runs on, by another length each.
    for (at, job) in changed.jobs.iter_mut().enumerate() {
        if job.end_ms.is_some_and(|end| end > now_ms) && job.run_s.is_some() {
            let start_ms = job.start_ms.unwrap().min(now_ms);
            let run_s = (now_ms - start_ms) as f64 / 1000.0 + 1.0 + (at * 7919 % 5000) as f64;
            job.end_ms = Some(job.start_ms.unwrap() + (run_s * 1000.0) as i64);
            job.run_s = Some(run_s);
        }
    }
    let mut options =
        BacktestOptions { models: vec![Model::RunningMean, Model::Qssf, Model::Boosted], ..BacktestOptions::default() };
    options.settings.trees.trees = 20;
    options.refit_days = 1;
    let (one, other) = (backtest::tracks(&timeline, &options).unwrap(), backtest::tracks(&changed, &options).unwrap());
    for (track, same) in one.tracks.iter().zip(&other.tracks).take(3) {
        assert_eq!(track.said[..=3000], same.said[..=3000], "{}", track.name);
        assert_eq!(track.distributions[..=3000], same.distributions[..=3000], "{}", track.name);
        assert!(track.said[2000..=3000].iter().all(Option::is_some));
        assert!(track.said[3001..] != same.said[3001..], "{}: it would tell", track.name);
    }
}
