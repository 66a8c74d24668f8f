//! LSF's `lsb.acct`: every value below was worked out by hand from the fixture's lines.

use tracecast_analytics::ingest::{self, ReadOptions, SourceFile};
use tracecast_tests::{check, conform, fixture, read, render};

/// Traps by job. 300: GPUs per host, 2 × 2 = 4, with a model; usage of each host comes before the requirement. 301: task 2 of
/// an array, 1 GPU a task of 3 = 3, exit code 1. 302: killed and queued again (10), then done: attempts of 30 and 60 s. 303:
/// killed while it waited (14); per host and no host, so its GPUs are unknown. 304: not before 10:14; a whole
/// requirement without GPUs: 0. 305: the script asks for 1 GPU per host. 306: an old record says nothing of GPUs, so they
/// are unknown; exit status 32512 is 127. 307: over its limit of 60 s; the submission has the option; 140 is signal 12. 308:
/// a compound requirement. An advance reservation makes no job. Line 12 is line 1 again; in 13 two fields are not
/// separated; 14 has one field too many after the job description, and keeps its job; 15 is cut.
#[test]
fn records_of_finished_jobs() {
    let trace = conform("lsf", &["lsf/lsb.acct"]);
    assert!(trace.counts_gpus);
    assert!(trace.notes.iter().any(|note| note.contains("counted per host")), "{:?}", trace.notes);
    assert!(
        trace.notes.iter().any(|note| note.starts_with("No job is made of 1 record of resized")),
        "{:?}",
        trace.notes
    );
    insta::assert_snapshot!(render(&trace), @r"
    jobs (10 rows)
      job_key=300 user=ana account=vision vc=gpu qos=gold name=train gpu_type=TeslaV100 state=completed reported_state=DONE submit=2024-03-04 10:00:00 start=2024-03-04 10:05:00 end=2024-03-04 11:05:00 censored=0 attempts=1 req_cpus=4 req_gpus=4 alloc_nodes=2 alloc_cpus=4 alloc_gpus=4 nodes_hostlist=n[01-02] time_limit_s=43200 run_s=3600 reported_run_s=3600 exit_code=0
      job_key=301[2] parent_job=301 user=ben vc=gpu name=sweep[1-4] state=failed reported_state=EXIT TERM_UNKNOWN submit=2024-03-04 10:01:00 start=2024-03-04 10:10:00 end=2024-03-04 10:11:40 censored=0 attempts=1 req_cpus=3 req_gpus=3 alloc_nodes=1 alloc_cpus=3 alloc_gpus=3 nodes_hostlist=n03 run_s=100 reported_run_s=100 exit_code=1
      job_key=302 user=ana account=vision vc=gpu name=again state=completed reported_state=DONE submit=2024-03-04 10:02:00 start=2024-03-04 10:12:00 end=2024-03-04 10:21:00 censored=0 attempts=2 req_cpus=1 req_gpus=1 alloc_nodes=1 alloc_cpus=1 alloc_gpus=1 nodes_hostlist=n02 run_s=90 reported_run_s=90 exit_code=0
      job_key=303 user=ben vc=gpu name=gone state=cancelled reported_state=EXIT TERM_OWNER submit=2024-03-04 10:03:00 end=2024-03-04 10:11:00 censored=0 attempts=0 req_cpus=8 time_limit_s=3600 depends_on=done(300)
      job_key=304 user=cem account=bio vc=cpu name=cpu state=completed reported_state=DONE submit=2024-03-04 10:04:00 eligible=2024-03-04 10:14:00 start=2024-03-04 10:15:00 end=2024-03-04 10:16:00 censored=0 attempts=1 req_cpus=4 req_gpus=0 alloc_nodes=1 alloc_cpus=4 alloc_gpus=0 nodes_hostlist=c01 run_s=60 reported_run_s=60 exit_code=0
      job_key=305 user=dee vc=gpu state=completed reported_state=DONE submit=2024-03-04 10:29:00 start=2024-03-04 10:30:00 end=2024-03-04 10:31:00 censored=0 attempts=1 req_cpus=2 req_gpus=1 alloc_nodes=1 alloc_cpus=2 alloc_gpus=1 nodes_hostlist=n03 run_s=60 exit_code=0
      job_key=306 user=dee vc=gpu name=old state=failed reported_state=EXIT TERM_UNKNOWN submit=2024-03-04 10:31:00 start=2024-03-04 10:32:00 end=2024-03-04 10:33:00 censored=0 attempts=1 req_cpus=1 alloc_nodes=1 alloc_cpus=1 nodes_hostlist=n03 run_s=60 exit_code=127
      job_key=307 user=dee vc=gpu name=slow gpu_type=K80 state=timeout reported_state=EXIT TERM_RUNLIMIT submit=2024-03-04 10:34:00 start=2024-03-04 10:35:00 end=2024-03-04 10:36:00 censored=0 attempts=1 req_cpus=2 req_gpus=1 alloc_nodes=1 alloc_cpus=2 alloc_gpus=1 nodes_hostlist=n03 time_limit_s=60 run_s=60 reported_run_s=60 exit_code=140
      job_key=308 user=dee vc=gpu name=mixed state=completed reported_state=DONE submit=2024-03-04 10:36:00 start=2024-03-04 10:37:00 end=2024-03-04 10:38:00 censored=0 attempts=1 req_cpus=2 alloc_nodes=2 alloc_cpus=2 nodes_hostlist=n[03-04] run_s=60 reported_run_s=60 exit_code=0
      job_key=310 user=dee vc=gpu name=odd tail state=completed reported_state=DONE submit=2024-03-04 10:42:00 start=2024-03-04 10:43:00 end=2024-03-04 10:44:00 censored=0 attempts=1 req_cpus=1 alloc_nodes=1 alloc_cpus=1 nodes_hostlist=n03 run_s=60 exit_code=0
    attempts (2 rows)
      job_key=302 attempt=1 start=2024-03-04 10:12:00 end=2024-03-04 10:12:30 censored=0 end_reason=cancelled nodes_hostlist=n01 alloc_gpus=1 alloc_cpus=1
      job_key=302 attempt=2 start=2024-03-04 10:20:00 end=2024-03-04 10:21:00 censored=0 end_reason=completed nodes_hostlist=n02 alloc_gpus=1 alloc_cpus=1
    placements (12 rows)
      job_key=300 attempt=1 node=n01 gpus=2
      job_key=300 attempt=1 node=n02 gpus=2
      job_key=301[2] attempt=1 node=n03 gpus=3
      job_key=302 attempt=1 node=n01 gpus=1
      job_key=302 attempt=2 node=n02 gpus=1
      job_key=304 attempt=1 node=c01 gpus=0
      job_key=305 attempt=1 node=n03 gpus=1
      job_key=306 attempt=1 node=n03
      job_key=307 attempt=1 node=n03 gpus=1
      job_key=308 attempt=1 node=n03
      job_key=308 attempt=1 node=n04
      job_key=310 attempt=1 node=n03
    quality: read 15 = kept 10 + repaired 2 + quarantined 3
      Quarantined duplicate_row × 1 (lines 12)
      Quarantined field_count × 1 (lines 15)
      Quarantined malformed_row × 1 (lines 13)
      Repaired several_requirements × 1 (lines 10)
      Repaired unknown_tail × 1 (lines 14)
    ");
}

#[test]
fn records_in_any_order_tell_the_same() {
    let text = std::fs::read_to_string(fixture("lsf/lsb.acct")).unwrap();
    let tables = |text: &str| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lsb.acct.1");
        std::fs::write(&path, text).unwrap();
        let trace = read(&[path]).unwrap();
        check(&trace);
        render(&trace).split("quality:").next().unwrap().to_owned()
    };
    let reversed: Vec<&str> = text.lines().rev().collect();
    assert_eq!(tables(&reversed.join("\n")), tables(&text));
}

/// A log that never names GPUs: unknown for all, and said why.
#[test]
fn a_log_without_gpus_counts_none() {
    let text = std::fs::read_to_string(fixture("lsf/lsb.acct")).unwrap();
    let cpu: Vec<&str> = text.lines().filter(|line| line.contains(" 304 ") || line.contains(" 306 ")).collect();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lsb.acct");
    std::fs::write(&path, cpu.join("\r\n")).unwrap();
    let trace = ingest::read(&[SourceFile::new(path)], &ReadOptions::default()).unwrap();
    assert_eq!((trace.jobs.submit.len(), trace.counts_gpus), (2, false));
    assert!(trace.jobs.req_gpus.is_all_unknown() && trace.jobs.alloc_gpus.is_all_unknown());
    assert!(trace.notes.iter().any(|note| note.contains("GPU counts are unknown there, not 0")), "{:?}", trace.notes);
}
