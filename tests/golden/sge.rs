//! Grid Engine's accounting file: every value below was worked out by hand from the fixture's lines.

use tracecast_tests::{check, conform, fixture, read, render};

/// Traps by job. 1: 2 GPUs of a model, limit 24 h, 8 slots of a parallel environment whose hosts the file does not tell. Array
/// 2: task 1 done; task 2 killed (100, 137) 1 s after its limit of 60 s. 3: rescheduled (25) after 30 s, then 60 s. 4: two
/// slave tasks add their hosts; the category holds colons (1 h); no GPUs: 0. 5: could not open its output (26): it never
/// started. 6: could not be started, and has no times. 7: `gpu=true` is no number. 8: Univa, in milliseconds: 0.75 s, deleted
/// by its user. 9: rescheduled, so it waits. Line 18 is line 5 again, 19 has too few fields, 20 is cut.
#[test]
fn lines_of_ended_jobs() {
    let trace = conform("sge", &["sge/accounting"]);
    assert!(trace.counts_gpus);
    for part in ["Slave tasks of 1 parallel job add", "The hosts of 1 parallel run are", "counted by the slot"] {
        assert!(trace.notes.iter().any(|note| note.contains(part)), "{part}: {:?}", trace.notes);
    }
    insta::assert_snapshot!(render(&trace), @r"
    jobs (9 rows)
      job_key=1 user=ana account=vision vc=gpu.q name=train gpu_type=v100 state=completed reported_state=failed 0 submit=2024-03-04 10:00:00 start=2024-03-04 10:05:00 end=2024-03-04 11:05:00 censored=0 attempts=1 req_cpus=8 req_gpus=2 alloc_cpus=8 alloc_gpus=2 time_limit_s=86400 run_s=3600 reported_run_s=3600 exit_code=0
      job_key=2.1 parent_job=2 user=ben vc=gpu.q name=sweep state=completed reported_state=failed 0 submit=2024-03-04 10:01:00 start=2024-03-04 10:02:00 end=2024-03-04 10:02:30 censored=0 attempts=1 req_cpus=1 req_gpus=1 alloc_nodes=1 alloc_cpus=1 alloc_gpus=1 nodes_hostlist=g1 time_limit_s=60 run_s=30 reported_run_s=30 exit_code=0
      job_key=2.2 parent_job=2 user=ben vc=gpu.q name=sweep state=timeout reported_state=failed 100 submit=2024-03-04 10:01:00 start=2024-03-04 10:03:00 end=2024-03-04 10:04:01 censored=0 attempts=1 req_cpus=1 req_gpus=1 alloc_nodes=1 alloc_cpus=1 alloc_gpus=1 nodes_hostlist=g2 time_limit_s=60 run_s=61 reported_run_s=61 exit_code=137
      job_key=3 user=ana vc=gpu.q name=again state=completed reported_state=failed 0 submit=2024-03-04 10:06:00 start=2024-03-04 10:10:00 end=2024-03-04 10:21:00 censored=0 attempts=2 req_cpus=1 req_gpus=1 alloc_nodes=1 alloc_cpus=1 alloc_gpus=1 nodes_hostlist=g2 run_s=90 reported_run_s=90 exit_code=0
      job_key=4 user=cem account=bio vc=cpu.q name=mpi state=completed reported_state=failed 0 submit=2024-03-04 10:14:00 start=2024-03-04 10:15:00 end=2024-03-04 10:16:00 censored=0 attempts=1 req_cpus=4 req_gpus=0 alloc_nodes=3 alloc_cpus=4 alloc_gpus=0 nodes_hostlist=h[1-3] time_limit_s=3600 run_s=60 reported_run_s=60 exit_code=0
      job_key=5 user=dee vc=gpu.q name=no output state=failed reported_state=failed 26 submit=2024-03-04 10:30:00 censored=0 attempts=0 req_cpus=1 req_gpus=1
      job_key=7 user=dee vc=gpu.q name=flag state=failed reported_state=failed 0 submit=2024-03-04 10:31:00 start=2024-03-04 10:32:00 end=2024-03-04 10:33:00 censored=0 attempts=1 req_cpus=1 alloc_nodes=1 alloc_cpus=1 nodes_hostlist=g2 run_s=60 reported_run_s=60 exit_code=1
      job_key=8 user=dee vc=gpu.q name=deleted state=cancelled reported_state=failed 100 submit=2024-03-04 10:34:00 start=2024-03-04 10:35:00.250 end=2024-03-04 10:35:01 censored=0 attempts=1 req_cpus=1 req_gpus=1 alloc_nodes=1 alloc_cpus=1 alloc_gpus=1 nodes_hostlist=g2 run_s=0.75 reported_run_s=0.75 exit_code=143
      job_key=9 user=ana vc=gpu.q name=waits state=pending reported_state=failed 25 submit=2024-03-04 10:36:00 start=2024-03-04 10:37:00 censored=1 attempts=1 req_cpus=1 req_gpus=4 alloc_nodes=1 alloc_cpus=1 alloc_gpus=4 nodes_hostlist=g1 run_s=60 reported_run_s=60 exit_code=0
    attempts (3 rows)
      job_key=3 attempt=1 start=2024-03-04 10:10:00 end=2024-03-04 10:10:30 censored=0 end_reason=cancelled nodes_hostlist=g1 alloc_gpus=1 alloc_cpus=1
      job_key=3 attempt=2 start=2024-03-04 10:20:00 end=2024-03-04 10:21:00 censored=0 end_reason=completed nodes_hostlist=g2 alloc_gpus=1 alloc_cpus=1
      job_key=9 attempt=1 start=2024-03-04 10:37:00 end=2024-03-04 10:38:00 censored=0 end_reason=cancelled nodes_hostlist=g1 alloc_gpus=4 alloc_cpus=1
    placements (10 rows)
      job_key=2.1 attempt=1 node=g1 gpus=1
      job_key=2.2 attempt=1 node=g2 gpus=1
      job_key=3 attempt=1 node=g1 gpus=1
      job_key=3 attempt=2 node=g2 gpus=1
      job_key=4 attempt=1 node=h1 gpus=0
      job_key=4 attempt=1 node=h2 gpus=0
      job_key=4 attempt=1 node=h3 gpus=0
      job_key=7 attempt=1 node=g2
      job_key=8 attempt=1 node=g2 gpus=1
      job_key=9 attempt=1 node=g1 gpus=4
    quality: read 16 = kept 11 + repaired 1 + quarantined 4
      Quarantined field_count × 2 (lines 19, 20)
      Quarantined duplicate_row × 1 (lines 18)
      Quarantined no_times × 1 (lines 14)
      Repaired gpu_flag × 1 (lines 15)
    ");
}

#[test]
fn lines_in_any_order_tell_the_same() {
    let text = std::fs::read_to_string(fixture("sge/accounting")).unwrap();
    let tables = |text: &str| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("accounting.1");
        std::fs::write(&path, text).unwrap();
        let trace = read(&[path]).unwrap();
        check(&trace);
        render(&trace).split("quality:").next().unwrap().to_owned()
    };
    // Slaves are ended, and so written, before their job; the comment is wherever it is.
    let reversed: Vec<&str> = text.lines().filter(|line| !line.contains(":1.h")).rev().collect();
    let slaves: Vec<&str> = text.lines().filter(|line| line.contains(":1.h")).collect();
    assert_eq!(tables(&[reversed, slaves].concat().join("\n")), tables(&text));
}

/// The job number begins again: another submission is another job. A file of comments alone is a trace without jobs.
#[test]
fn a_number_used_again_and_nothing_but_comments() {
    let text = std::fs::read_to_string(fixture("sge/accounting")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("accounting");
    let line = text.lines().find(|line| line.contains(":again:") && line.contains(":0:0:60:")).unwrap();
    let later = line.replace("17095", "17195");
    std::fs::write(&path, format!("{line}\n{later}\n")).unwrap();
    let trace = read(std::slice::from_ref(&path)).unwrap();
    // 2024-03-04 10:06:00 and 10,000,000 s later.
    assert_eq!(trace.jobs.job_key.iter().collect::<Vec<_>>(), [Some("3"), Some("3@1719546760")]);
    std::fs::write(&path, "# Version: 8.1.9\n#\n").unwrap();
    let options = tracecast_analytics::ingest::ReadOptions { reader: Some("sge".to_owned()), ..Default::default() };
    let file = tracecast_analytics::ingest::SourceFile::new(&path);
    let trace = tracecast_analytics::ingest::read(&[file], &options).unwrap();
    assert_eq!((trace.jobs.submit.len(), trace.empty.len()), (0, 1));
}
