//! Flux: every value below was worked out by hand from the fixture's objects.

use tracecast_tests::{conform, render};

/// 1001: 2 nodes of 8 cores and 4 GPUs for an hour, after 60.5 s; the second document is an earlier snapshot of it. 1002:
/// cancelled while it waited. 1003 runs, and its summary names no GPUs: 0. 1004 waits for it. 1005: bits in place of words, a
/// queue from the annotations, and no summary: GPUs unknown. f2TRHV5mR: at its limit. 1007: a time, a state and a host list
/// that are none. Then an object without an identifier and one without any time.
#[test]
fn jobs_in_every_state() {
    let trace = conform("flux", &["flux/jobs.json"]);
    assert!(trace.counts_gpus);
    insta::assert_snapshot!(render(&trace), @r"
    jobs (7 rows)
      job_key=1001 user=ana account=vision vc=gpu name=train state=completed reported_state=COMPLETED submit=2024-03-04 10:00:00 start=2024-03-04 10:01:00.500 end=2024-03-04 11:01:00.500 censored=0 attempts=1 req_nodes=2 req_cpus=16 req_gpus=8 alloc_nodes=2 alloc_cpus=16 alloc_gpus=8 nodes_hostlist=f[01-02] time_limit_s=7200 run_s=3600 reported_run_s=3600 exit_code=0
      job_key=1002 user=ben vc=gpu name=gone state=cancelled reported_state=CANCELED submit=2024-03-04 10:02:00 end=2024-03-04 10:03:00.250 censored=0 attempts=0 req_cpus=1
      job_key=1003 user=cem vc=cpu name=cpu state=running reported_state=RUN submit=2024-03-04 10:04:00 start=2024-03-04 10:05:00 censored=1 attempts=1 req_nodes=1 req_cpus=4 req_gpus=0 alloc_nodes=1 alloc_cpus=4 alloc_gpus=0 nodes_hostlist=f03
      job_key=1004 user=ana vc=gpu name=next state=pending reported_state=SCHED pending_reason=insufficient resources submit=2024-03-04 10:06:00 censored=1 attempts=0 req_nodes=2 req_cpus=8 time_limit_s=600 depends_on=afterok:1003
      job_key=1005 user=504 vc=gpu name=bits state=failed reported_state=FAILED submit=2024-03-04 10:07:00 start=2024-03-04 10:08:00 end=2024-03-04 10:09:00 censored=0 attempts=1 req_nodes=1 req_cpus=1 alloc_nodes=1 alloc_cpus=1 nodes_hostlist=f04 run_s=60 exit_code=1
      job_key=f2TRHV5mR user=dee vc=gpu name=slow state=timeout reported_state=TIMEOUT submit=2024-03-04 10:10:00 start=2024-03-04 10:11:00 end=2024-03-04 10:12:00 censored=0 attempts=1 req_nodes=1 req_cpus=1 req_gpus=1 alloc_nodes=1 alloc_cpus=1 alloc_gpus=1 nodes_hostlist=f04 time_limit_s=60 run_s=60 exit_code=142
      job_key=1007 user=dee name=odd state=unknown reported_state=DREAMING submit=2024-03-04 10:13:00 attempts=0
    placements (5 rows)
      job_key=f2TRHV5mR attempt=1 node=f04 gpus=1
      job_key=1001 attempt=1 node=f01
      job_key=1001 attempt=1 node=f02
      job_key=1003 attempt=1 node=f03 gpus=0
      job_key=1005 attempt=1 node=f04
    quality: read 10 = kept 6 + repaired 1 + quarantined 3
      Quarantined duplicate_row × 1 (lines 10)
      Quarantined no_key × 1 (lines 8)
      Quarantined no_submit × 1 (lines 9)
      Repaired bad_node × 1 (lines 7)
      Repaired not_a_time × 1 (lines 7)
      Repaired unknown_state × 1 (lines 7)
    ");
}
