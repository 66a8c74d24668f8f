//! Partitions of a fleet, worked out by hand.

use super::*;

#[test]
fn jobs_are_dealt_out_as_the_plan_has_them() {
    // The worked number, by places of profiles.
    let mut of = [(1, 1.0, 0.0), (2, 2.0, 0.0)];
    let dealt: Vec<usize> = (0..6).map(|_| next(&mut of)).collect();
    assert_eq!(dealt, [2, 1, 2, 2, 1, 2]);
    // After many, each has its part to one job.
    (6..3_000).for_each(|_| {
        next(&mut of);
    });
    assert!((of[0].2 - 1_000.0).abs() <= 1.0 && (of[1].2 - 2_000.0).abs() <= 1.0);
}

#[test]
fn a_demand_is_jobs_an_hour_and_their_mean_run() {
    let jobs = TypedJobs { submit_ms: vec![0, 1, 2], run_ms: vec![60_000, 30_000, 10_000], kind: vec![0, 0, 1] };
    let names = ["a".to_owned(), "b".to_owned()];
    let result = demand(&names, &jobs, &[0, 1, 2], (0, 7_200_000));
    let rows: Vec<(f64, Option<f64>)> = result.rows.iter().map(|row| (row.jobs, row.run_s)).collect();
    assert_eq!(rows, [(1.0, Some(45.0)), (0.5, Some(10.0))]);
    assert!((result.load() * 7200.0 - 100.0).abs() < 1e-9);
    // A hundred at once that run for a day keep a hundred GPUs busy, not thousands.
    let at_once = TypedJobs { submit_ms: vec![5; 100], run_ms: vec![86_400_000; 100], kind: vec![0; 100] };
    let every: Vec<usize> = (0..100).collect();
    assert!((demand(&names, &at_once, &every, (5, 5)).load() - 100.0).abs() < 1e-9);
    let spread = TypedJobs { submit_ms: (0..100).map(|job| job * 100).collect(), ..at_once };
    let load = demand(&names, &spread, &every, (0, 9_900)).load();
    assert!(load > 99.0 && load <= 100.0, "{load}");
}

#[test]
fn who_has_no_room_is_beyond_the_slo_and_waits_for_ever() {
    let jobs = TypedJobs { submit_ms: vec![0, 0, 0], run_ms: vec![1000; 3], kind: vec![0; 3] };
    let ran = |start_ms: i64, end_ms: i64| Some(SliceTimes { start_ms, end_ms, profile: 0, failed: 1 });
    let result = figures(&jobs, &[ran(500, 2_000), ran(0, 3_000), None], &[0, 1, 2], 2.0);
    assert_eq!((result.without_room, result.failed, result.p95_wait_s), (1, 2, None));
    assert!((result.over_slo - 2.0 / 3.0).abs() < 1e-12 && (result.mean_wait_s - 0.25).abs() < 1e-12);
    assert!((result.mean_delay_s - 1.5).abs() < 1e-12);
}
