//! `sacct --json`: every value below was worked out by hand from the fixture.

use tracecast_analytics::ingest::{self, ReadOptions, SourceFile};
use tracecast_tests::{conform, fixture, render};

/// (12) numbers in structs and bare, state as a list and a word, `NO_VAL` as task, limit and energy, bare `Infinity`
/// and `NaN`. Job 41 is task 1 of array 40; memory 1,024 MiB × 16 cores; utilisation 600 % over 8 GPUs = 0.75; limit
/// 120 min. Job 42 runs and asked for no GPU on a cluster that counts them: 0. (7) Job 43 stands for two waiting tasks.
/// The last element names no job.
#[test]
fn numbers_in_structs_states_in_lists_and_bare_words() {
    let trace = conform("sacct-json", &["sacct-json/new.json"]);
    insta::assert_snapshot!(render(&trace), @r"
    jobs (4 rows)
      cluster=oak job_key=40_1 parent_job=40 user=ana account=vision vc=gpu qos=normal name=sweep|1 gpu_type=a100 state=completed reported_state=COMPLETED submit=2024-03-04 10:00:00 eligible=2024-03-04 10:00:00 start=2024-03-04 10:01:00 end=2024-03-04 11:01:00 censored=0 attempts=1 req_nodes=2 req_cpus=16 req_mem_bytes=17179869184 req_gpus=8 alloc_nodes=2 alloc_cpus=16 alloc_gpus=8 alloc_mem_bytes=17179869184 nodes_hostlist=o[01-02] time_limit_s=7200 run_s=3600 suspended_s=0 reported_run_s=3600 reported_wait_s=60 reported_energy_j=7200000 reported_gpu_util_ratio=0.75 exit_code=0
      cluster=oak job_key=42 user=ben vc=gpu name=runs state=running reported_state=RUNNING submit=2024-03-04 10:01:40 eligible=2024-03-04 10:01:40 start=2024-03-04 10:02:40 censored=1 attempts=1 req_nodes=1 req_cpus=4 req_mem_bytes=2147483648 req_gpus=0 alloc_nodes=1 alloc_cpus=4 alloc_gpus=0 nodes_hostlist=o03 reported_run_s=30 exit_code=0
      cluster=oak job_key=43_2 parent_job=43 user=ben vc=gpu name=waits state=pending reported_state=PENDING submit=2024-03-04 10:03:20 censored=1 attempts=0 req_nodes=1 req_cpus=1 req_gpus=1
      cluster=oak job_key=43_3 parent_job=43 user=ben vc=gpu name=waits state=pending reported_state=PENDING submit=2024-03-04 10:03:20 censored=1 attempts=0 req_nodes=1 req_cpus=1 req_gpus=1
    placements (3 rows)
      job_key=40_1 attempt=1 node=o01 gpus=4
      job_key=40_1 attempt=1 node=o02 gpus=4
      job_key=42 attempt=1 node=o03 gpus=0
    quality: read 4 = kept 3 + repaired 0 + quarantined 1
      Quarantined no_key × 1 (lines 4)
    ");
}

/// A document cut in its third job gives the first two, and says where it ended.
#[test]
fn a_document_cut_short_gives_the_jobs_before_the_cut() {
    let whole = std::fs::read_to_string(fixture("sacct-json/new.json")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cut.json");
    std::fs::write(&path, whole.split_once("\"waits\"").unwrap().0).unwrap();
    let trace = ingest::read(&[SourceFile::new(&path)], &ReadOptions::default()).unwrap();
    assert_eq!((trace.jobs.submit.len(), trace.ledger.read, trace.ledger.damage.len()), (2, 2, 1));
    std::fs::write(&path, "{\"jobs\": 3}").unwrap();
    let options = ReadOptions { reader: Some("sacct-json".to_owned()), ..ReadOptions::default() };
    assert!(ingest::read(&[SourceFile::new(&path)], &options).is_err());
}

/// Output of Slurm 22.05: (12) bare numbers, `null` counts, the state as a word; (7) job 71 is
/// component 1 of 70. 10 MiB = 10,485,760 bytes; the nodes asked for are not listed. (3) Job 72 was
/// cancelled before it started: start 0 is unset.
#[test]
fn an_old_version_with_bare_numbers() {
    let trace = conform("sacct-json", &["sacct-json/old.json"]);
    insta::assert_snapshot!(render(&trace), @r"
    jobs (2 rows)
      cluster=ash job_key=70+1 parent_job=70 user=cem account=bio vc=gpu qos=normal name=left state=failed reported_state=FAILED submit=2024-03-04 10:00:00 eligible=2024-03-04 10:00:00 start=2024-03-04 10:01:00 end=2024-03-04 10:01:05 censored=0 attempts=1 req_cpus=1 req_mem_bytes=10485760 req_gpus=1 alloc_nodes=1 alloc_cpus=1 alloc_gpus=1 nodes_hostlist=a1 run_s=5 suspended_s=0 reported_run_s=5 exit_code=3
      cluster=ash job_key=72 user=cem account=bio vc=gpu state=cancelled reported_state=CANCELLED submit=2024-03-04 10:00:00 eligible=2024-03-04 10:00:00 end=2024-03-04 10:01:40 censored=0 attempts=0 req_cpus=2 time_limit_s=300 exit_code=0
    placements (1 rows)
      job_key=70+1 attempt=1 node=a1 gpus=1
    quality: read 2 = kept 2 + repaired 0 + quarantined 0
    ");
}

/// (28) An empty file is an error, a document without jobs a trace without jobs.
#[test]
fn nothing_to_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.json");
    let options = || ReadOptions { reader: Some("sacct-json".to_owned()), ..ReadOptions::default() };
    std::fs::write(&path, "").unwrap();
    assert!(ingest::read(&[SourceFile::new(&path)], &options()).is_err());
    std::fs::write(&path, "{\"meta\": {\"Slurm\": {}}, \"jobs\": []}\r\n").unwrap();
    let trace = ingest::read(&[SourceFile::new(&path)], &options()).unwrap();
    assert_eq!((trace.jobs.submit.len(), trace.ledger.read), (0, 0));
}

#[test]
fn a_time_out_of_reach_is_unknown_and_noted() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("jobs.json");
    let text =
        r#"{"jobs":[{"job_id":1,"time":{"submission":9e15,"start":0,"end":0},"state":{"current":["PENDING"]}}]}"#;
    std::fs::write(&path, text).unwrap();
    let options = ReadOptions { reader: Some("sacct-json".to_owned()), ..ReadOptions::default() };
    let trace = ingest::read(&[SourceFile::new(&path)], &options).unwrap();
    assert_eq!((trace.jobs.submit.get(0), trace.ledger.count("not_a_time")), (None, 1));
    assert_eq!((trace.ledger.read, trace.ledger.repaired), (1, 1));
}

/// Two exports, one after the other in a file: all jobs of both are read, each once. Job 9 was
/// cancelled in the queue; its start is the moment of that, and it never ran.
#[test]
fn a_second_document_in_the_file_is_read_too() {
    let job = |id: u32, state: &str, start: u32, nodes: &str| {
        format!(
            r#"{{"job_id":{id},"association":{{}},"state":{{"current":["{state}"]}},"nodes":"{nodes}",
            "time":{{"submission":1000,"start":{start},"end":2000,"elapsed":{},"planned":{}}}}}"#,
            2000 - start,
            start - 1000,
        )
    };
    let page = |jobs: &[String]| format!("{{\"jobs\": [{}]}}\n", jobs.join(","));
    let (ran, gave_up) = (job(8, "COMPLETED", 1_500, "n1"), job(9, "CANCELLED", 2_000, "None assigned"));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("jobs.json");
    std::fs::write(&path, page(std::slice::from_ref(&ran)) + &page(&[gave_up, ran])).unwrap();
    let trace = ingest::read(&[SourceFile::new(&path)], &ReadOptions::default()).unwrap();
    assert_eq!((trace.ledger.read, trace.ledger.kept, trace.ledger.count("duplicate_row")), (3, 2, 1));
    assert_eq!(trace.jobs.job_key.iter().collect::<Vec<_>>(), [Some("8"), Some("9")]);
    assert_eq!(trace.jobs.run_s.iter().collect::<Vec<_>>(), [Some(500.0), None]);
    assert_eq!(trace.jobs.waited_in_vain_s(1), Some(1_000.0));
    // What follows and is no document is damage, not silence.
    let mut text = std::fs::read_to_string(&path).unwrap();
    text.push_str("oops");
    std::fs::write(&path, text).unwrap();
    let trace = ingest::read(&[SourceFile::new(&path)], &ReadOptions::default()).unwrap();
    assert_eq!((trace.ledger.read, trace.ledger.damage.len()), (3, 1));
}

/// `state.reason` is why a job was last blocked; only what waits has it.
#[test]
fn the_reason_of_what_waits_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let job = |id: u32, state: &str, reason: &str, start: u32| {
        format!(
            r#"{{"job_id":{id},"association":{{"id":1}},"state":{{"current":["{state}"],"reason":"{reason}"}},
            "time":{{"submission":{},"start":{start},"end":0,"eligible":0}}}}"#,
            1_709_546_400 + id
        )
    };
    let jobs = [job(1, "PENDING", "Resources", 0), job(2, "RUNNING", "Priority", 1_709_546_500)];
    let path = dir.path().join("jobs.json");
    std::fs::write(&path, format!(r#"{{"jobs":[{}]}}"#, jobs.join(","))).unwrap();
    let trace = ingest::read(&[SourceFile::new(&path)], &ReadOptions::default()).unwrap();
    assert_eq!(trace.jobs.pending_reason.iter().collect::<Vec<_>>(), [Some("Resources"), None]);
}
