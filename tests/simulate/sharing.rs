//! Sharing on Gavel's measured pairs: what a rule lets share that never saw them, and what comes of it for the one-GPU jobs of the sample.
//!
//! The bounds are what was measured when the test was written (`planner/RESULTS.md`), with some room: a plan that lets pairs share blindly does not pass.

use tracecast_analytics::storage;
use tracecast_planner::one_gpu::OneGpuJobs;
use tracecast_planner::sharing::SharingRequest;
use tracecast_planner::sharing::evidence::PairEvidence;
use tracecast_planner::sharing::job_type::JobUse;
use tracecast_planner::sharing::policy::SharingPolicy;
use tracecast_planner::sharing::study::study;
use tracecast_predictors::interference::read;
use tracecast_predictors::interference::share::SharingLimits;
use tracecast_tests::{pairs, real_trace};

/// Decisions of `plan share couples` and `simulate --share` on a couple by forecasts stay, whatever
/// was measured of it.
#[test]
fn no_forecast_rule_sees_the_pairs_it_is_judged_by() {
    let folder = tempfile::tempdir().unwrap();
    let (text, profiles) = pairs::measured_on("v100", 0.45);
    // Both job types of m0 are light, and hardly slow each other.
    let slow = |line: &str| match line.matches("m0 (").count() {
        2 => format!("{},0.2,0.2\n", line.rsplitn(3, ',').last().unwrap()),
        _ => format!("{line}\n"),
    };
    let turned: String = text.lines().map(slow).collect();
    assert_eq!(turned.matches(",0.2,0.2\n").count(), 3);
    let limits = SharingLimits { slo: 2.0, ..SharingLimits::default() };
    let path = folder.path().join("profiles.csv");
    std::fs::write(&path, profiles).unwrap();
    let decided = |text: &str, policy: SharingPolicy| -> Vec<Option<i32>> {
        let file = folder.path().join("pairs.csv");
        std::fs::write(&file, text).unwrap();
        let table = read::sharing(&file, Some(path.as_path())).unwrap();
        let evidence = PairEvidence::new(&table, 0).unwrap();
        let told = evidence.forecasts(&table, &[0, 3], 1).unwrap();
        let light: Vec<usize> =
            (0..evidence.kinds.len()).filter(|kind| evidence.kinds[*kind].starts_with("m0 (")).collect();
        let rules = told.iter().map(|told| policy.rule(&evidence, told, &limits).unwrap());
        let of = |rule: tracecast_planner::sharing::engine::SharingRule| -> Vec<Option<i32>> {
            light.iter().flat_map(|a| light.iter().map(|b| rule.preference(*a, *b))).collect()
        };
        rules.flat_map(of).collect()
    };
    for policy in [SharingPolicy::MeanForecast, SharingPolicy::Forecast, SharingPolicy::ForecastTrial] {
        let known = decided(&text, policy);
        assert!(known.iter().any(Option::is_some), "{policy:?} lets nobody share");
        assert_eq!(known, decided(&turned, policy), "{policy:?}");
    }
    assert_ne!(decided(&text, SharingPolicy::Oracle), decided(&turned, SharingPolicy::Oracle));
}

#[test]
fn what_forecasts_let_share_of_gavels_pairs_and_what_comes_of_it() {
    let Some(path) = real_trace("gavel/simulation_throughputs.json.gz") else { return };
    let table = read::sharing(&path, None).unwrap();
    let gpu = table.gpu_types().iter().position(|name| name == "v100").unwrap();
    let evidence = PairEvidence::new(&table, gpu).unwrap();
    let limits = SharingLimits { slo: 2.0, ..SharingLimits::default() };
    let told = evidence.forecasts(&table, &[0, 3], 1).unwrap();
    let kept = |policy: SharingPolicy, forecasts: usize| {
        let rule = policy.rule(&evidence, &told[forecasts], &limits).unwrap();
        let allowed: Vec<(usize, usize)> =
            evidence.couples().filter(|(a, b)| rule.preference(*a, *b).is_some()).collect();
        let keeps = |(a, b): &&(usize, usize)| {
            evidence.speeds(*a, *b).is_some_and(|(x, y)| x + y > 1.0 && 1.0 / x.min(y) <= limits.slo)
        };
        let kept = allowed.iter().filter(keeps).count();
        println!("{policy:?}, forecasts {forecasts}: {kept} of {} couples keep the limits", allowed.len());
        (kept, allowed.len())
    };
    // Of all couples 208 keep them. Without a pair of either family the rule dares nothing or nearly so; the mean forecast is wrong in more than a third.
    assert_eq!(kept(SharingPolicy::Oracle, 0), (208, 208));
    let (right, all) = kept(SharingPolicy::MeanForecast, 1);
    assert!(all > 300 && right * 3 < all * 2, "{right} of {all}");
    let (right, all) = kept(SharingPolicy::Forecast, 1);
    assert!(all >= 1 && right * 5 >= all * 4, "{right} of {all}");
    assert!(kept(SharingPolicy::Forecast, 0).1 <= all);

    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../datasets/sample");
    let jobs = OneGpuJobs::new(&storage::load(std::path::Path::new(sample)).unwrap());
    let request = SharingRequest {
        eval_from_ms: None,
        gpus: Some(11),
        limits,
        measured: 3,
        watched: true,
        seed: 1,
        gpu_types: Vec::new(),
        types: None,
    };
    let found = study((&jobs, &JobUse::default()), &evidence, &told[1], &request, &()).unwrap();
    let of = |policy: SharingPolicy| found.tried.iter().find(|tried| tried.policy == policy).unwrap();
    for tried in &found.tried {
        println!("{:?} {:?}: {:?}, GPUs {:?}", tried.policy, tried.how, tried.later, tried.gpus_instead);
    }
    // Utilisation is not in Gavel's file, so Horus has no say.
    assert!(!found.tried.iter().any(|tried| tried.policy == SharingPolicy::Horus));
    let (alone, oracle, mean) =
        (of(SharingPolicy::Exclusive), of(SharingPolicy::Oracle), of(SharingPolicy::MeanForecast));
    let trial = of(SharingPolicy::ForecastTrial);
    assert!(oracle.later.mean_delay_s < alone.later.mean_delay_s && oracle.later.over_slo < 1e-9);
    assert!(trial.later.mean_delay_s < alone.later.mean_delay_s && trial.later.over_slo < mean.later.over_slo);
    assert!(mean.later.slowdown90 > Some(limits.slo), "packing by the mean forecast breaks the SLO");
    // In fair turns nobody is slower than by half. Who has what a guaranteed job leaves is slower than that. Nothing fails under either.
    let (antman, fair, attained) =
        (of(SharingPolicy::Antman), of(SharingPolicy::SalusFair), of(SharingPolicy::SalusAttained));
    assert!(fair.later.slowdown90 <= Some(2.0) && fair.later.over_slo < 1e-9);
    assert!(antman.later.slowdown90 > Some(2.0) && antman.later.over_slo > 0.0);
    for tried in [antman, fair, attained] {
        assert!(tried.later.failed == 0 && tried.later.mean_delay_s < alone.later.mean_delay_s, "{:?}", tried.policy);
    }
    assert!(oracle.gpus_instead < Some(11) && trial.gpus_instead <= Some(11));
}
