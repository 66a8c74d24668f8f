//! Standard Workload Format: every value below was worked out by hand from the fixture.

use std::io::Read;

use tracecast_analytics::time::TimeBasis;
use tracecast_tests::{conform, read, real_trace, render};

/// (24) -1 is unknown in each field; job 5 has a line for itself and two partial executions: 20 + 5 = 25 to 45 s, then
/// 10 s later, 55 to 95 s. Job 2 has no wait, so neither start nor end, but its run time. Job 3 has fractions. Job 4
/// was cancelled after waiting 50 s and never ran. Job 6 is unknown but for its submission. Job 7 has a negative run.
/// Two lines are too short, or repeat job 1. The log begins at 1709546400 = 2024-03-04 10:00:00 UTC.
#[test]
fn unknown_fields_and_partial_executions() {
    let trace = conform("swf", &["swf/partial.swf"]);
    assert_eq!((trace.basis.clone(), trace.zone.as_str(), trace.counts_gpus), (TimeBasis::Utc, "US/Pacific", false));
    assert!(trace.notes.iter().any(|note| note.contains("were lost - their submit times are true")));
    assert!(!trace.notes.iter().any(|note| note.contains("lunch")));
    insta::assert_snapshot!(render(&trace), @r"
    jobs (7 rows)
      cluster=Imagined iron job_key=1 user=3 account=1 vc=batch name=2 state=completed reported_state=1 submit=2024-03-04 10:00:00 start=2024-03-04 10:00:10 end=2024-03-04 10:00:40 censored=0 attempts=1 req_cpus=8 req_mem_bytes=8388608 alloc_cpus=8 time_limit_s=60 run_s=30 reported_run_s=30 reported_wait_s=10
      cluster=Imagined iron job_key=2 user=4 account=1 vc=interactive state=failed reported_state=0 submit=2024-03-04 10:00:05 censored=0 attempts=1 req_cpus=16 alloc_cpus=16 run_s=40 reported_run_s=40
      cluster=Imagined iron job_key=3 user=4 account=1 vc=9 state=completed reported_state=1 submit=2024-03-04 10:00:07.500 start=2024-03-04 10:00:09.750 end=2024-03-04 10:00:10.250 censored=0 attempts=1 req_cpus=1 alloc_cpus=1 run_s=0.5 reported_run_s=0.5 reported_wait_s=2.25 depends_on=1
      cluster=Imagined iron job_key=4 user=5 account=2 vc=batch state=cancelled reported_state=5 submit=2024-03-04 10:00:08 end=2024-03-04 10:00:58 censored=0 attempts=0 req_cpus=4 time_limit_s=100 reported_wait_s=50
      cluster=Imagined iron job_key=5 user=5 account=2 vc=batch state=completed reported_state=1 submit=2024-03-04 10:00:20 start=2024-03-04 10:00:25 end=2024-03-04 10:01:35 censored=0 attempts=2 req_cpus=4 alloc_cpus=4 time_limit_s=100 run_s=60 reported_run_s=60 reported_wait_s=5
      cluster=Imagined iron job_key=6 state=unknown submit=2024-03-04 10:00:30
      cluster=Imagined iron job_key=7 user=1 account=1 vc=batch name=1 state=completed reported_state=1 submit=2024-03-04 10:00:31 start=2024-03-04 10:00:33 censored=0 attempts=1 req_cpus=1 alloc_cpus=1 reported_wait_s=2
    attempts (2 rows)
      job_key=5 attempt=1 start=2024-03-04 10:00:25 end=2024-03-04 10:00:45 censored=0 end_reason=preempted alloc_cpus=4
      job_key=5 attempt=2 start=2024-03-04 10:00:55 end=2024-03-04 10:01:35 censored=0 end_reason=completed alloc_cpus=4
    quality: read 11 = kept 8 + repaired 1 + quarantined 2
      Quarantined duplicate_row × 1 (lines 24)
      Quarantined field_count × 1 (lines 23)
      Repaired negative_value × 1 (lines 22)
    ");
}

/// The NASA Ames log of 1993 against a plain loop over its lines.
#[test]
fn the_nasa_log() {
    let Some(path) = real_trace("swf_nasa/NASA-iPSC-1993-3.1-cln.swf.gz") else { return };
    let mut text = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(&path).unwrap()).read_to_string(&mut text).unwrap();
    let rows: Vec<Vec<i64>> = text
        .lines()
        .filter(|line| !line.starts_with(';'))
        .map(|line| line.split_whitespace().map(|number| number.parse().unwrap()).collect())
        .filter(|row: &Vec<i64>| !row.is_empty())
        .collect();
    let trace = read(&[path]).unwrap();
    assert_eq!(trace.jobs.submit.len(), rows.len());
    assert_eq!((trace.ledger.read, trace.ledger.quarantined), (rows.len() as u64, 0));
    assert_eq!(trace.zone, "US/Pacific");
    let run_s: f64 = trace.jobs.run_s.iter().flatten().sum();
    assert_eq!(run_s, rows.iter().map(|row| row[3]).filter(|run| *run >= 0).sum::<i64>() as f64);
    let cpus: f64 = trace.jobs.alloc_cpus.iter().flatten().sum();
    assert_eq!(cpus, rows.iter().map(|row| row[4]).filter(|procs| *procs > 0).sum::<i64>() as f64);
    // The header says when the clock began; the log has no waits, and says so.
    assert_eq!(trace.jobs.submit.get(0), Some((749_458_803 + rows[0][1]) * 1_000));
    assert!(trace.jobs.start.is_all_unknown());
    assert!(trace.notes.iter().any(|note| note.contains("no information on wait times")), "{:?}", trace.notes);
}

/// (28) A header alone is a trace without jobs; an empty file is an error. (24) Without `UnixStartTime` there is no
/// calendar, and partial executions without a line for the job are summed: 20 + 40 s, from 5 to 75 s.
#[test]
fn no_calendar_no_summary_and_nothing_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.swf");
    std::fs::write(&path, "").unwrap();
    assert!(read(std::slice::from_ref(&path)).is_err());
    std::fs::write(&path, "\u{feff}; UnixStartTime: 5\r\n; MaxProcs: 4\r\n").unwrap();
    assert_eq!(read(std::slice::from_ref(&path)).unwrap().jobs.submit.len(), 0);
    let rows = "5 0 5 20 4 -1 -1 4 -1 -1 2 5 2 -1 1 -1 -1 -1\n5 -1 10 40 4 -1 -1 4 -1 -1 4 5 2 -1 1 -1 -1 -1\n";
    std::fs::write(&path, rows).unwrap();
    let trace = read(&[path]).unwrap();
    assert_eq!(trace.basis, TimeBasis::Relative);
    assert_eq!((trace.jobs.run_s.get(0), trace.jobs.state.get(0)), (Some(60.0), Some("failed")));
    assert_eq!((trace.jobs.start.get(0), trace.jobs.end.get(0)), (Some(5_000), Some(75_000)));
    assert_eq!(trace.attempts.attempt.len(), 2);
}

/// A log whose lines go on after the 18 fields (a site's own): the 18 are read as ever, what follows is counted. A line
/// with 17 is quarantined as such. Job 3 was cancelled after 20 s in the queue with a run of 0: it never ran.
#[test]
fn more_than_eighteen_fields() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("site.swf");
    let text = "; UnixStartTime: 1000\n\
                1 0 5 30 4 -1 -1 4 60 -1 1 1 1 1 1 1 -1 -1 7 a100\n\
                2 10 5 30 4 -1 -1 4 60 -1 1 1 1 1 1 1 -1\n\
                3 20 20 0 -1 -1 -1 4 60 -1 5 1 1 1 1 1 -1 -1 8 a100\n";
    std::fs::write(&path, text).unwrap();
    let trace = read(&[path]).unwrap();
    assert_eq!(trace.sources[0].reader, "swf");
    assert_eq!(trace.jobs.run_s.iter().collect::<Vec<_>>(), [Some(30.0), None]);
    assert_eq!(trace.jobs.reported_run_s.get(1), None);
    assert_eq!(trace.jobs.waited_in_vain_s(1), Some(20.0));
    assert_eq!((trace.ledger.count("more_fields"), trace.ledger.count("field_count")), (2, 1));
    let entry = trace.ledger.entries.iter().find(|entry| entry.reason == "field_count").unwrap();
    assert!(entry.what.contains("fewer than the 18 fields"), "{}", entry.what);
}
