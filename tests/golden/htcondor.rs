//! HTCondor's ClassAds: every value below was worked out by hand from the fixtures' attributes.

use tracecast_tests::{conform, render};

/// 12.0: repeated attributes count with their last value: completed, 2 GPUs; suspended for 600 s of its hour. 13.2: two runs, of
/// which the first took 30 s, as the second took 300 s of 330. 14.0: removed while it waited; its GPUs are an expression. 15.0 is
/// of the scheduler universe. An ad without a cluster. 16.0 runs and asks for no GPUs: 0. 17.0 is held after three runs, of which
/// the last took 60 s. 18.0: killed by a signal; `GPUsProvisioned` tells what its expression became. The JSON holds an earlier
/// ad of 12.0, too.
#[test]
fn ads_of_history_and_queue() {
    let trace = conform("htcondor", &["htcondor/history", "htcondor/queue.txt", "htcondor/history.json"]);
    assert!(trace.counts_gpus);
    assert!(trace.notes.iter().any(|note| note.starts_with("1 job of the scheduler")), "{:?}", trace.notes);
    insta::assert_snapshot!(render(&trace), @r"
    jobs (6 rows)
      cluster=submit.fir job_key=12.0 user=ana account=vision vc=vision name=train.sh state=completed reported_state=JobStatus 4 submit=2024-03-04 10:00:00 start=2024-03-04 10:01:00 end=2024-03-04 11:01:00 censored=0 attempts=1 req_cpus=8 req_mem_bytes=4294967296 req_gpus=2 alloc_nodes=1 alloc_cpus=8 alloc_gpus=2 nodes_hostlist=g1.fir run_s=3000 suspended_s=600 reported_run_s=3000 exit_code=0
      cluster=submit.fir job_key=13.2 parent_job=13 user=ben name=sweep state=failed reported_state=JobStatus 4 submit=2024-03-04 10:02:00 start=2024-03-04 10:03:00 end=2024-03-04 10:15:00 censored=0 attempts=2 req_cpus=1 req_gpus=1 alloc_nodes=1 alloc_cpus=1 alloc_gpus=1 nodes_hostlist=g2.fir run_s=330 reported_run_s=330 exit_code=1
      cluster=submit.fir job_key=14.0 user=ben state=cancelled reported_state=JobStatus 3 submit=2024-03-04 10:05:00 end=2024-03-04 10:06:00 censored=0 attempts=0 req_cpus=1
      cluster=submit.fir job_key=16.0 user=cem state=running reported_state=JobStatus 2 submit=2024-03-04 10:16:40 start=2024-03-04 10:17:40 censored=1 attempts=1 req_cpus=4 req_gpus=0 alloc_nodes=1 alloc_cpus=4 alloc_gpus=0 nodes_hostlist=c1.fir
      cluster=submit.fir job_key=17.0 user=cem state=pending reported_state=JobStatus 5 pending_reason=Job has gone over memory limit submit=2024-03-04 10:18:20 start=2024-03-04 10:18:30 censored=1 attempts=3 req_cpus=1 req_gpus=1 alloc_nodes=1 alloc_cpus=1 alloc_gpus=1 nodes_hostlist=g2.fir reported_run_s=100
      cluster=submit.fir job_key=18.0 user=dee account=Folding vc=bio state=failed reported_state=JobStatus 4 submit=2024-03-04 10:26:40 start=2024-03-04 10:27:40 end=2024-03-04 10:28:40 censored=0 attempts=1 req_cpus=2 req_mem_bytes=1073741824 alloc_nodes=1 alloc_cpus=2 alloc_gpus=4 nodes_hostlist=g3.fir time_limit_s=3600 run_s=60 reported_run_s=60
    attempts (4 rows)
      job_key=13.2 attempt=1 start=2024-03-04 10:03:00 end=2024-03-04 10:03:30 censored=0 end_reason=cancelled alloc_gpus=1 alloc_cpus=1
      job_key=13.2 attempt=2 start=2024-03-04 10:10:00 end=2024-03-04 10:15:00 censored=0 end_reason=failed nodes_hostlist=g2.fir alloc_gpus=1 alloc_cpus=1
      job_key=17.0 attempt=1 start=2024-03-04 10:18:30 censored=0 end_reason=cancelled alloc_gpus=1 alloc_cpus=1
      job_key=17.0 attempt=3 start=2024-03-04 10:23:20 end=2024-03-04 10:24:20 censored=0 end_reason=cancelled nodes_hostlist=g2.fir alloc_gpus=1 alloc_cpus=1
    placements (5 rows)
      job_key=12.0 attempt=1 node=g1.fir gpu_ids=GPU-aa,GPU-bb gpus=2
      job_key=13.2 attempt=2 node=g2.fir gpus=1
      job_key=16.0 attempt=1 node=c1.fir gpus=0
      job_key=17.0 attempt=3 node=g2.fir gpus=1
      job_key=18.0 attempt=1 node=g3.fir gpus=4
    quality: read 9 = kept 5 + repaired 2 + quarantined 2
      Quarantined duplicate_row × 1 (lines 1)
      Quarantined no_key × 1 (lines 73)
      Repaired expression × 2 (lines 49, 2)
    ");
}
