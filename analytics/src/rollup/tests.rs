//! The pass against an in-memory implementation that follows the definitions literally.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::schema::{JobRow, JobState, JobTable};
use crate::storage::write_parquet;
use crate::time::HOUR_MS;

/// A job as the property test makes it.
#[derive(Debug, Clone)]
struct Case {
    submit: Option<i64>,
    start: Option<i64>,
    end: Option<i64>,
    run_s: Option<f64>,
    reported_run_s: Option<f64>,
    alloc_gpus: Option<f64>,
    req_gpus: Option<f64>,
    suspended_s: Option<f64>,
    state: Option<&'static str>,
    user: Option<String>,
}

fn table(cases: &[Case]) -> JobTable {
    let mut table = JobTable::default();
    for case in cases {
        table.push(JobRow {
            submit: case.submit,
            start: case.start,
            end: case.end,
            run_s: case.run_s,
            reported_run_s: case.reported_run_s,
            alloc_gpus: case.alloc_gpus,
            req_gpus: case.req_gpus,
            suspended_s: case.suspended_s,
            state: case.state.map(Into::into),
            user: case.user.as_deref().map(Into::into),
            ..JobRow::default()
        });
    }
    table
}

/// The table as text, columns in an order of their own and with one that nobody asked for.
fn text(cases: &[Case]) -> String {
    fn shown<T: ToString>(value: &Option<T>) -> String {
        value.as_ref().map(ToString::to_string).unwrap_or_default()
    }
    let mut text = "user,vc,submit,start,end,state,run_s,reported_run_s,req_gpus,alloc_gpus,suspended_s\n".to_owned();
    for case in cases {
        writeln!(
            text,
            "{},a vc,{},{},{},{},{},{},{},{},{}",
            shown(&case.user),
            shown(&case.submit),
            shown(&case.start),
            shown(&case.end),
            case.state.unwrap_or_default(),
            shown(&case.run_s),
            shown(&case.reported_run_s),
            shown(&case.req_gpus),
            shown(&case.alloc_gpus),
            shown(&case.suspended_s)
        )
        .unwrap();
    }
    text
}

/// Answers by the definitions, computed with sorting and nested loops.
struct Naive {
    /// GPUs in hundredths (every size here is a multiple) to durations in milliseconds and all jobs' GPU time in hours.
    sizes: BTreeMap<i64, (u64, Vec<i64>, f64)>,
    states: BTreeMap<JobState, (u64, f64)>,
    users: BTreeMap<String, (u64, f64)>,
    hours: BTreeMap<i64, u64>,
    intervals: Vec<(i64, i64, f64)>,
}

fn naive(cases: &[Case]) -> Naive {
    let mut naive = Naive {
        sizes: BTreeMap::new(),
        states: BTreeMap::new(),
        users: BTreeMap::new(),
        hours: BTreeMap::new(),
        intervals: Vec::new(),
    };
    let known = |value: Option<f64>| value.filter(|value| *value >= 0.0);
    let suspended = |case: &Case| known(case.suspended_s).map_or(0, |seconds| (seconds * 1e3).round() as i64);
    // What still runs tells until when it had run.
    let ran_until = |case: &Case| {
        let running = case.end.is_none() && case.state == Some("running");
        let run_ms = (known(case.reported_run_s).filter(|_| running)? * 1e3).round() as i64;
        Some(case.start? + run_ms + suspended(case))
    };
    let last = cases.iter().flat_map(|case| [case.submit, case.start, case.end, ran_until(case)]).flatten().max();
    for case in cases {
        let gpus = known(case.alloc_gpus).or(known(case.req_gpus));
        let ms = |seconds: Option<f64>| known(seconds).map(|run| (run * 1e3).round() as i64);
        let span = match (case.start, case.end) {
            (Some(start), Some(end)) if end >= start => Some(end - start),
            _ => None,
        };
        // What still runs was in use until the last moment of any job; how long it will run is unknown.
        let running = case.start.filter(|_| case.end.is_none() && case.state == Some("running"));
        let so_far = running.zip(last).map(|(start, last)| last - start);
        let duration = ms(case.run_s).or(span).or(ms(case.reported_run_s)).filter(|_| running.is_none());
        let held = so_far.or(duration.map(|ms| ms + suspended(case)));
        let hours = gpus.zip(held).map_or(0.0, |(gpus, ms)| gpus * ms as f64 / HOUR_MS as f64);
        if let Some(gpus) = gpus {
            let size = naive.sizes.entry((gpus * 100.0).round() as i64).or_default();
            size.0 += 1;
            size.1.extend(duration);
            size.2 += hours;
        }
        let state = case.state.map_or(JobState::Unknown, JobState::from_id);
        let share = naive.states.entry(state).or_default();
        *share = (share.0 + 1, share.1 + hours);
        if let Some(user) = &case.user {
            let total = naive.users.entry(user.clone()).or_default();
            *total = (total.0 + 1, total.1 + hours);
        }
        if let Some(submit) = case.submit {
            *naive.hours.entry(submit.div_euclid(HOUR_MS)).or_default() += 1;
        }
        if let (Some(gpus), Some(start), Some(ms)) = (gpus, case.start, so_far.or(span).or(held)) {
            naive.intervals.push((start, start + ms, gpus));
        }
    }
    naive
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs()) + 1e-9
}

fn check(rollup: &Rollup, cases: &[Case]) {
    let naive = naive(cases);
    assert_eq!((rollup.rows, rollup.quarantined, rollup.ledger.read), (cases.len() as u64, 0, cases.len() as u64));

    // 1 and 2: sizes with their cumulative shares, and durations.
    assert_eq!(rollup.size.len(), naive.sizes.len());
    let (jobs, hours) = naive.sizes.values().fold((0, 0.0), |sum, size| (sum.0 + size.0, sum.1 + size.2));
    let (mut below, mut hours_below) = (0, 0.0);
    for (size, (hundredths, (count, durations, gpu_hours))) in rollup.size.iter().zip(&naive.sizes) {
        below += count;
        hours_below += gpu_hours;
        assert!(close(size.gpus, *hundredths as f64 / 100.0));
        assert_eq!(size.jobs, *count);
        assert!(close(size.gpu_hours, *gpu_hours));
        assert!(close(size.jobs_cdf_ratio, below as f64 / jobs as f64));
        match size.gpu_time_cdf_ratio {
            Some(ratio) => assert!(close(ratio, hours_below / hours)),
            None => assert_eq!(hours, 0.0),
        }
        let mut durations = durations.clone();
        durations.sort_unstable();
        let Some(told) = size.duration else {
            assert!(durations.is_empty());
            continue;
        };
        assert_eq!(told.jobs, durations.len() as u64);
        for (percent, told_s) in [(50, told.p50_s), (90, told.p90_s), (99, told.p99_s)] {
            let exact_ms = durations[(durations.len() * percent).div_ceil(100) - 1] as f64;
            let error = (told_s * 1e3 - exact_ms).abs();
            assert!(error <= exact_ms * rollup.duration_error_ratio + 1e-6, "p{percent}: {told_s} s, {exact_ms} ms");
        }
    }
    assert_eq!(rollup.unknown.gpus, cases.len() as u64 - jobs);

    // 3: states.
    let states: Vec<_> = rollup.states.iter().map(|share| (share.state, share.jobs)).collect();
    assert_eq!(states, naive.states.iter().map(|(state, share)| (*state, share.0)).collect::<Vec<_>>());
    for (share, (jobs, hours)) in rollup.states.iter().zip(naive.states.values()) {
        assert!(close(share.gpu_hours, *hours) && close(share.jobs_ratio, *jobs as f64 / cases.len() as f64));
    }

    // 4: users, most GPU time first.
    assert_eq!(rollup.distinct_users, naive.users.len() as u64);
    assert_eq!(rollup.users.len(), naive.users.len().min(TOP_USERS));
    for user in &rollup.users {
        let (jobs, hours) = naive.users[&user.user];
        assert!(user.jobs == jobs && close(user.gpu_hours, hours));
    }
    assert!(rollup.users.windows(2).all(|pair| pair[0].gpu_hours >= pair[1].gpu_hours));
    let least = rollup.users.last().map_or(0.0, |user| user.gpu_hours);
    let better = naive.users.values().filter(|(_, hours)| *hours > least + 1e-9).count();
    assert!(better <= TOP_USERS, "no user left out has more than the last one listed");

    // 5: arrivals.
    let told: BTreeMap<i64, u64> = rollup
        .arrivals
        .iter()
        .flat_map(|series| {
            assert_eq!(series.step_ms, HOUR_MS);
            series.jobs.iter().enumerate().map(|(ix, jobs)| (series.first_ms / HOUR_MS + ix as i64, *jobs))
        })
        .filter(|(_, jobs)| *jobs > 0)
        .collect();
    assert_eq!(told, naive.hours);

    // 6: GPUs in use at every instant of a grid that covers all jobs.
    let ten = 600_000;
    let first = naive.intervals.iter().map(|job| job.0).min().unwrap_or(0).div_euclid(ten) - 1;
    let last = naive.intervals.iter().map(|job| job.1).max().unwrap_or(0).div_euclid(ten) + 1;
    for instant in first..=last {
        let at = instant * ten;
        let exact: f64 = naive.intervals.iter().filter(|job| job.0 <= at && at < job.1).map(|job| job.2).sum();
        let told = rollup.in_use.as_ref().map_or(0.0, |series| {
            let ix = instant - series.first_ms / ten;
            usize::try_from(ix).ok().and_then(|ix| series.gpus.get(ix)).copied().unwrap_or(0.0)
        });
        assert!(close(exact, told), "{at}: {told} for {exact}");
    }
}

fn case() -> impl Strategy<Value = Case> {
    // Around a day, on both sides of the epoch, so that negative times meet the grid too.
    let time = || proptest::option::weighted(0.9, -40_000_000i64..40_000_000);
    let seconds = || proptest::option::of((-5i64..2_000_000).prop_map(|ms| ms as f64 / 1e3));
    let gpus = || {
        proptest::option::weighted(
            0.7,
            prop_oneof![
                4 => (0u8..9).prop_map(f64::from),
                2 => (1u8..100).prop_map(|hundredths| f64::from(hundredths) / 100.0),
                1 => Just(300.0),
                1 => Just(-1.0),
            ],
        )
    };
    let state = proptest::option::of(prop::sample::select(vec!["completed", "failed", "running", "no such state"]));
    let user = proptest::option::of((0u8..30).prop_map(|user| format!("user {user}")));
    let times = (time(), time(), time());
    (times, seconds(), seconds(), seconds(), gpus(), gpus(), state, user).prop_map(
        |((submit, start, end), run_s, reported_run_s, suspended_s, alloc_gpus, req_gpus, state, user)| Case {
            submit,
            start,
            end,
            run_s,
            reported_run_s,
            alloc_gpus,
            req_gpus,
            suspended_s,
            state,
            user,
        },
    )
}

/// The rollup of both forms of a table with 1 and 4 threads; they must be one and the same.
fn from_every_side(cases: &[Case], folder: &Path) -> Rollup {
    let (parquet, csv) = (folder.join("jobs.parquet"), folder.join("jobs.csv"));
    write_parquet(&table(cases), &parquet).unwrap();
    std::fs::write(&csv, text(cases)).unwrap();
    let rollup = run(folder, &RollupOptions { threads: 1 }).unwrap();
    for path in [&parquet, &csv] {
        for threads in [1, 4] {
            assert_eq!(run(path, &RollupOptions { threads }).unwrap(), rollup, "{} on {threads}", path.display());
        }
    }
    rollup
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_pass_agrees_with_the_definitions(cases in prop::collection::vec(case(), 0..60)) {
        let folder = tempfile::tempdir().unwrap();
        check(&from_every_side(&cases, folder.path()), &cases);
    }
}

#[test]
fn three_jobs_by_hand() {
    let minute = 60_000;
    let job = |submit: i64, start: i64, end: Option<i64>, gpus: f64, state, user: Option<&str>| Case {
        submit: Some(submit * minute),
        start: Some(start * minute),
        end: end.map(|end| end * minute),
        run_s: None,
        reported_run_s: None,
        alloc_gpus: None,
        req_gpus: Some(gpus),
        suspended_s: None,
        state: Some(state),
        user: user.map(str::to_owned),
    };
    let cases = [
        job(0, 5, Some(25), 2.0, "completed", Some("ann")),
        job(10, 10, Some(70), 0.5, "failed", Some("bob")),
        job(130, 140, None, 2.0, "running", None),
    ];
    let folder = tempfile::tempdir().unwrap();
    let rollup = from_every_side(&cases, folder.path());
    // The half GPU for an hour is 0.5 GPU-hours; two GPUs for 20 minutes are 2/3.
    assert_eq!(
        rollup.users.iter().map(|user| (user.user.as_str(), user.jobs)).collect::<Vec<_>>(),
        [("ann", 1), ("bob", 1)]
    );
    assert!(close(rollup.users[0].gpu_hours, 2.0 / 3.0) && close(rollup.users[1].gpu_hours, 0.5));
    // One of three jobs has half a GPU; its share of the time is 0.5 / (0.5 + 2/3) = 3/7.
    assert_eq!(rollup.size.iter().map(|size| (size.gpus, size.jobs)).collect::<Vec<_>>(), [(0.5, 1), (2.0, 2)]);
    assert!(close(rollup.size[0].jobs_cdf_ratio, 1.0 / 3.0));
    assert!(close(rollup.size[0].gpu_time_cdf_ratio.unwrap(), 3.0 / 7.0));
    assert_eq!(rollup.size[1].duration.unwrap().jobs, 1, "the running job has no duration yet");
    assert_eq!(
        rollup.states.iter().map(|share| share.state.id()).collect::<Vec<_>>(),
        ["completed", "failed", "running"]
    );
    // Submitted in hours 0, 0 and 2.
    assert_eq!(rollup.arrivals, Some(ArrivalTotals { first_ms: 0, step_ms: HOUR_MS, jobs: vec![2, 0, 1] }));
    // At :10 both run, at :20 too, from :30 to :60 bob's alone, at :70 it is over (half-open).
    assert_eq!(
        rollup.in_use,
        Some(InUse { first_ms: 10 * minute, step_ms: 10 * minute, gpus: vec![2.5, 2.5, 0.5, 0.5, 0.5, 0.5, 0.0] })
    );
    assert_eq!(
        rollup.unknown,
        UnknownTotals { submit: 0, gpus: 0, duration: 1, gpu_time: 0, interval: 0, user: 1, state: 0 }
    );
    // The running job starts at the last moment there is, so that it had nothing yet.
    assert_eq!(rollup.running, 1);
}

#[test]
fn the_top_users_are_twenty_and_equals_go_by_name() {
    let cases: Vec<Case> = (0..25)
        .rev()
        .map(|user| Case {
            submit: Some(0),
            start: Some(0),
            end: Some(HOUR_MS),
            run_s: None,
            reported_run_s: None,
            // Users 0 to 22 have a GPU-hour each, 23 and 24 have two.
            alloc_gpus: Some(if user < 23 { 1.0 } else { 2.0 }),
            req_gpus: None,
            suspended_s: None,
            state: None,
            user: Some(format!("u{user:02}")),
        })
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let rollup = from_every_side(&cases, folder.path());
    let names: Vec<&str> = rollup.users.iter().map(|user| user.user.as_str()).collect();
    assert_eq!((names.len(), rollup.distinct_users), (20, 25));
    assert_eq!(names[..4], ["u23", "u24", "u00", "u01"]);
    assert_eq!(names[19], "u17");
}

#[test]
fn a_user_seen_only_in_quarantined_rows_is_no_user() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.csv");
    std::fs::write(&path, "user,submit\nann,0\nbob,soon\n").unwrap();
    let rollup = run(&path, &RollupOptions::default()).unwrap();
    assert_eq!((rollup.rows, rollup.quarantined, rollup.distinct_users, rollup.users.len()), (1, 1, 1, 1));
}

#[test]
fn an_empty_table_has_no_answers_but_is_no_error() {
    let folder = tempfile::tempdir().unwrap();
    let rollup = from_every_side(&[], folder.path());
    assert_eq!((rollup.rows, rollup.size.len(), rollup.arrivals, rollup.in_use), (0, 0, None, None));
}

#[test]
fn other_parquet_types_mean_the_same() {
    use arrow::array::{
        Array, ArrayRef, Float32Array, Int32Array, Int64Array, LargeStringArray, RecordBatch, TimestampMicrosecondArray,
    };
    use std::sync::Arc;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other.parquet");
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("user", Arc::new(Int64Array::from(vec![7, 7, 8]))),
        ("submit", Arc::new(TimestampMicrosecondArray::from(vec![0, 1_000, 3_600_000_000]))),
        ("start", Arc::new(Int64Array::from(vec![0, 0, 0]))),
        ("end", Arc::new(Int32Array::from(vec![Some(3_600_000), Some(3_600_000), None]))),
        ("req_gpus", Arc::new(Float32Array::from(vec![1.0, 2.0, 0.5]))),
        ("state", Arc::new(LargeStringArray::from(vec!["Pass", "FAILED", "Pass"]))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    assert_eq!(batch.column(0).len(), 3);
    let mut writer =
        parquet::arrow::ArrowWriter::try_new(std::fs::File::create(&path).unwrap(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();

    let rollup = run(&path, &RollupOptions::default()).unwrap();
    let users: Vec<_> = rollup.users.iter().map(|user| (user.user.as_str(), user.gpu_hours)).collect();
    assert_eq!(users, [("7", 3.0), ("8", 0.0)]);
    assert_eq!(rollup.arrivals.unwrap().jobs, [2, 1]);
    assert_eq!(
        rollup.states.iter().map(|share| (share.state.id(), share.jobs)).collect::<Vec<_>>(),
        [("completed", 2), ("failed", 1)]
    );
}

#[test]
fn a_parquet_file_without_submit_is_an_error_that_says_so() {
    use arrow::array::{ArrayRef, Int64Array, RecordBatch};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other.parquet");
    let column: ArrayRef = std::sync::Arc::new(Int64Array::from(vec![1]));
    let batch = RecordBatch::try_from_iter([("x", column)]).unwrap();
    let mut writer =
        parquet::arrow::ArrowWriter::try_new(std::fs::File::create(&path).unwrap(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    assert!(run(&path, &RollupOptions::default()).unwrap_err().to_string().contains("column submit"));
}
