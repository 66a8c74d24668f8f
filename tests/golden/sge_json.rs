//! Grid Engine's accounting file in JSON: every value below was worked out by hand from the fixture's lines.

use tracecast_tests::{conform, read, real_trace, render};

/// Times are microseconds. 1: 2 GPUs, waited 60 s, ran 1 h, hosts known in part. 2.3: rescheduled (25) after 30 s, then 60 s. 4:
/// one slave task adds its host; it names no GPUs: 0. 5: deleted by its user after 0.75 s. 6 never started. Line 8 is line 1
/// again, line 9 has no number, line 10 is cut.
#[test]
fn lines_of_ended_jobs() {
    let trace = conform("sge-json", &["sge-json/accounting.jsonl"]);
    assert!(trace.counts_gpus);
    insta::assert_snapshot!(render(&trace), @r"
    jobs (5 rows)
      job_key=1 user=ana vc=gpu.q name=train state=completed reported_state=failed 0 submit=2024-03-04 10:00:00 start=2024-03-04 10:01:00 end=2024-03-04 11:01:00 censored=0 attempts=1 req_cpus=8 req_gpus=2 alloc_cpus=8 alloc_gpus=2 time_limit_s=86400 run_s=3600 reported_run_s=3600 exit_code=0
      job_key=2.3 parent_job=2 user=ben account=lab vc=gpu.q name=sweep state=completed reported_state=failed 0 submit=2024-03-04 10:00:00 start=2024-03-04 10:02:00 end=2024-03-04 10:11:00 censored=0 attempts=2 req_cpus=1 req_gpus=1 alloc_nodes=1 alloc_cpus=1 alloc_gpus=1 nodes_hostlist=g2 run_s=90 reported_run_s=90 exit_code=0
      job_key=4 user=cem vc=cpu.q name=mpi state=completed reported_state=failed 0 submit=2024-03-04 10:14:00 start=2024-03-04 10:15:00 end=2024-03-04 10:16:00 censored=0 attempts=1 req_cpus=4 req_gpus=0 alloc_nodes=2 alloc_cpus=4 alloc_gpus=0 nodes_hostlist=h[1-2] run_s=60 reported_run_s=60 exit_code=0
      job_key=5 user=dee vc=gpu.q name=deleted state=cancelled reported_state=failed 100 submit=2024-03-04 10:26:30 start=2024-03-04 10:26:40.250 end=2024-03-04 10:26:41 censored=0 attempts=1 req_cpus=1 req_gpus=1 alloc_nodes=1 alloc_cpus=1 alloc_gpus=1 nodes_hostlist=g2 run_s=0.75 reported_run_s=0.75 exit_code=143
      job_key=6 user=dee vc=gpu.q name=no output state=failed reported_state=failed 26 submit=2024-03-04 10:27:00 censored=0 attempts=0 req_cpus=1 req_gpus=1
    attempts (2 rows)
      job_key=2.3 attempt=1 start=2024-03-04 10:02:00 end=2024-03-04 10:02:30 censored=0 end_reason=cancelled nodes_hostlist=g1 alloc_gpus=1 alloc_cpus=1
      job_key=2.3 attempt=2 start=2024-03-04 10:10:00 end=2024-03-04 10:11:00 censored=0 end_reason=completed nodes_hostlist=g2 alloc_gpus=1 alloc_cpus=1
    placements (5 rows)
      job_key=2.3 attempt=1 node=g1 gpus=1
      job_key=2.3 attempt=2 node=g2 gpus=1
      job_key=4 attempt=1 node=h1 gpus=0
      job_key=4 attempt=1 node=h2 gpus=0
      job_key=5 attempt=1 node=g2 gpus=1
    quality: read 10 = kept 7 + repaired 0 + quarantined 3
      Quarantined duplicate_row × 1 (lines 8)
      Quarantined malformed_row × 1 (lines 10)
      Quarantined no_key × 1 (lines 9)
    ");
}

/// The case of the public bug tracker: 2 GPUs for an hour after 60 s, and a task that was rescheduled once.
#[test]
fn the_case_reads_as_its_readme_says() {
    let Some(path) = real_trace("cases/grid-engine-jsonl/accounting.jsonl") else { return };
    let jobs = read(&[path]).unwrap().jobs;
    assert_eq!(jobs.job_key.iter().collect::<Vec<_>>(), [Some("101"), Some("102.3")]);
    assert_eq!((jobs.alloc_gpus.get(0), jobs.run_s.get(0), jobs.attempts.get(1)), (Some(2.0), Some(3_600.0), Some(2)));
    assert_eq!(jobs.start.get(0).zip(jobs.submit.get(0)).map(|(start, submit)| start - submit), Some(60_000));
}
