//! Philly: the joined job table, the official trace and the node counts.

use std::collections::BTreeMap;

use tracecast_tests::{check, conform, read, real_trace, render};

/// Row 0 has a length but no start (its end stays unknown). `app_1`: start 01:00:12 + 100 s = 01:01:52, two attempts, so
/// run_s is not end - start. `app_2`: 08:30:05 + 60 s. Row 3 is a zero-length job (trap 26), then its exact repeat.
/// Row 4 has a negative duration (trap 26), row 5 no submit time, row 6 no GPU count and a word we do not know, row 7
/// is cut off.
#[test]
fn joined_jobs() {
    let trace = conform("philly-joined", &["philly/joined.csv"]);
    insta::assert_snapshot!(render(&trace), @r"
    jobs (6 rows)
      cluster=philly job_key=row-0 state=unknown reported_state=not_Pass submit=2017-09-01 00:00:00 req_gpus=1 alloc_gpus=1 reported_run_s=3600
      cluster=philly job_key=app_1 vc=vc-a state=completed reported_state=Pass submit=2017-09-01 01:00:00 start=2017-09-01 01:00:12 end=2017-09-01 01:01:52 attempts=2 req_gpus=8 alloc_gpus=8 reported_run_s=100 reported_wait_s=12
      cluster=philly job_key=app_2 vc=vc-b state=completed reported_state=Pass submit=2017-11-05 08:30:00 start=2017-11-05 08:30:05 end=2017-11-05 08:31:05 attempts=1 req_gpus=4 alloc_gpus=4 run_s=60 reported_run_s=60 reported_wait_s=5
      cluster=philly job_key=row-3 vc=vc-b state=completed reported_state=Pass submit=2017-11-05 08:31:00 req_gpus=1 alloc_gpus=1 reported_run_s=0
      cluster=philly job_key=row-4 state=unknown reported_state=not_Pass submit=2017-11-05 08:32:00 req_gpus=1 alloc_gpus=1
      cluster=philly job_key=row-6 state=unknown reported_state=Odd submit=2017-11-05 09:00:00 reported_run_s=30
    quality: read 9 = kept 4 + repaired 2 + quarantined 3
      Quarantined duplicate_row × 1 (lines 8)
      Quarantined field_count × 1 (lines 10)
      Quarantined no_submit × 1 (lines 7)
      Repaired negative_value × 1 (lines 6)
      Repaired unknown_state × 1 (lines 9)
    ");
}

/// Job count, sizes, outcomes and GPU-hours of the real table against a plain loop over its rows.
#[test]
fn the_real_joined_table() {
    let Some(path) = real_trace("philly/philly_jobs.csv.gz") else { return };
    let mut sizes: BTreeMap<u64, u64> = BTreeMap::new();
    let (mut gpu_s, mut passed, mut started) = (0.0, 0, 0);
    let file = flate2::read::MultiGzDecoder::new(std::fs::File::open(&path).unwrap());
    for row in csv::Reader::from_reader(file).records() {
        let row = row.unwrap();
        let gpus: f64 = row[3].parse().unwrap();
        gpu_s += gpus * row[4].parse::<f64>().unwrap();
        *sizes.entry(gpus as u64).or_default() += 1;
        passed += u64::from(&row[12] == "Pass");
        started += usize::from(!row[10].is_empty());
    }
    let trace = read(&[path]).unwrap();
    check(&trace);
    let jobs = &trace.jobs;
    let mut ours: BTreeMap<u64, u64> = BTreeMap::new();
    let mut our_gpu_s = 0.0;
    for ix in 0..jobs.req_gpus.len() {
        let gpus = jobs.req_gpus.get(ix).unwrap();
        *ours.entry(gpus as u64).or_default() += 1;
        our_gpu_s += gpus * jobs.reported_run_s.get(ix).unwrap();
    }
    assert_eq!(ours, sizes);
    assert_eq!([1, 2, 4, 8].map(|size| ours[&size]), [96_662, 2_522, 5_487, 5_716]);
    assert_eq!((trace.ledger.read, trace.ledger.kept), (111_549, 111_549));
    assert_eq!(our_gpu_s, gpu_s);
    assert_eq!(format!("{:.2}", our_gpu_s / 3.6e9), "3.62", "million GPU-hours");
    assert_eq!(jobs.state.iter().filter(|state| *state == Some("completed")).count() as u64, passed);
    assert_eq!(jobs.start.known_count(), started);
}
