//! MIT Supercloud: Slurm's job table as numbers, and GPU samples. Traps: 17 (resource numbers), 8 (requeued ids), 25 (still
//! running), 26 (zero length), 28 (cut-off row).

use tracecast_tests::{conform, render};

/// 1621555200 is 2021-05-21 00:00:00 UTC. In jobs 100, 103, 104 `gres_used` agrees with resource 1002 (2, 1, 1) while 4 is
/// the nodes (trap 17); job 101 has no 1002: 0 GPUs, known. Limit 1,440 min = 86,400 s; 4294967295 is none. Status 256
/// is exit code 1. Job 102 never started: its `tres_alloc` is empty, so its GPUs are unknown. Job 103 still runs (trap
/// 25). Job 104 took 0 s (trap 26), state 99 is none of Slurm's and `x` no resource. The second 100 is a requeue (trap
/// 8), the second 101 a repeat; job 105 has no submit time.
#[test]
fn job_table() {
    let trace = conform("supercloud", &["supercloud/slurm-log.csv"]);
    insta::assert_snapshot!(render(&trace), @r"
    jobs (6 rows)
      job_key=100 user=7 vc=gaia name=train state=completed reported_state=3 submit=2021-05-21 00:00:00 eligible=2021-05-21 00:00:00 start=2021-05-21 00:01:00 end=2021-05-21 01:01:00 req_cpus=40 req_gpus=2 alloc_nodes=1 alloc_cpus=40 alloc_gpus=2 nodes_hostlist=r1-n1 time_limit_s=86400 run_s=3600 exit_code=0
      job_key=101 parent_job=99 user=7 vc=xeon name=mpi state=failed reported_state=5 submit=2021-05-21 00:01:40 eligible=2021-05-21 00:01:40 start=2021-05-21 00:01:40 end=2021-05-21 00:03:20 req_cpus=96 req_gpus=0 alloc_nodes=2 alloc_cpus=96 alloc_gpus=0 nodes_hostlist=r1-n2,r1-n3 run_s=100 exit_code=1
      job_key=102 user=8 vc=gaia name=early state=cancelled reported_state=4 submit=2021-05-21 00:03:20 end=2021-05-21 00:05:00 attempts=0 req_cpus=20 time_limit_s=3600 exit_code=0
      job_key=103 user=8 vc=gaia name=live state=running reported_state=1 submit=2021-05-21 00:05:00 eligible=2021-05-21 00:05:00 start=2021-05-21 00:06:40 censored=1 req_cpus=20 req_gpus=1 alloc_nodes=1 alloc_cpus=20 alloc_gpus=1 nodes_hostlist=r1-n4 time_limit_s=3600 exit_code=0
      job_key=104 user=9 vc=gaia name=odd state=unknown reported_state=99 submit=2021-05-21 00:06:40 eligible=2021-05-21 00:06:40 start=2021-05-21 00:08:20 end=2021-05-21 00:08:20 req_cpus=20 req_gpus=1 alloc_nodes=1 alloc_cpus=20 alloc_gpus=1 nodes_hostlist=r1-n4 time_limit_s=3600 run_s=0 exit_code=0
      job_key=100#2 parent_job=100 user=7 vc=gaia name=train state=node_fail reported_state=7 submit=2021-05-21 01:20:00 eligible=2021-05-21 01:20:00 start=2021-05-21 01:21:00 end=2021-05-21 01:22:00 req_cpus=40 req_gpus=2 alloc_nodes=1 alloc_cpus=40 alloc_gpus=2 nodes_hostlist=r1-n1 time_limit_s=86400 run_s=60 exit_code=0
    quality: read 8 = kept 5 + repaired 1 + quarantined 2
      Quarantined duplicate_row × 1 (lines 8)
      Quarantined no_submit × 1 (lines 9)
      Repaired not_a_number × 1 (lines 6)
      Repaired unknown_state × 1 (lines 6)
    ");
    assert!(trace.notes.iter().any(|note| note.contains("GPUs are resource 1002")), "{:?}", trace.notes);
    assert!(trace.notes.iter().any(|note| note.contains("1 rows repeat a job id")), "{:?}", trace.notes);
}

/// Without `gres_used` GPUs are 1001 and 1002, as on the published cluster: 2 of job 100, none of job 101, whose
/// two nodes (resource 4) are no GPUs (trap 17). The note says that nothing in the file confirms it.
#[test]
fn gres_used_may_be_empty() {
    let trace = conform("supercloud", &["supercloud/no_gres.csv"]);
    assert_eq!(trace.jobs.alloc_gpus.iter().collect::<Vec<_>>(), [Some(2.0), Some(0.0)]);
    assert!(trace.counts_gpus);
    assert!(trace.notes.iter().any(|note| note.contains("nothing in the file confirms it")), "{:?}", trace.notes);
}

/// Job and node come from the file's name. 2,510 MiB = 2,631,925,760 bytes; used and free are 32,510 MiB =
/// 34,089,205,760 bytes. 130 % is impossible; empty cells are unknown; the last row is cut off (trap 28).
#[test]
fn gpu_samples() {
    let trace = conform("supercloud", &["supercloud/gpu/100-r1-n1.csv"]);
    insta::assert_snapshot!(render(&trace), @r"
    gpu_samples (3 rows)
      ts=2021-05-21 00:01:00.100 node=r1-n1 gpu=0 util_ratio=0.93 mem_util_ratio=0.4 mem_used_bytes=2631925760 mem_total_bytes=34089205760 power_w=201.5 temp_c=55 job_key=100
      ts=2021-05-21 00:01:00.200 node=r1-n1 gpu=1 util_ratio=0 mem_util_ratio=0 mem_used_bytes=0 mem_total_bytes=34089205760 power_w=38.25 temp_c=30 job_key=100
      ts=2021-05-21 00:01:00.300 node=r1-n1 gpu=0 job_key=100
    quality: read 4 = kept 2 + repaired 1 + quarantined 1
      Quarantined field_count × 1 (lines 5)
      Repaired out_of_range × 1 (lines 4)
    ");
}
