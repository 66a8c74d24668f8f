//! Acme: job traces of Seren and Kalos, and wide telemetry. Traps: 16 (Kalos durations), 25 (still running), 26 (zero and
//! negative lengths).

use tracecast_tests::{conform, render};

/// Seren is +08:00: 00:18:22 is 16:18:22 UTC the day before; job 1 ran 117 s. Job 2 took 0 s (trap 26). Job 3 never
/// started.
/// Kalos is +00:00: dlc1 ran 11:00:10 to 11:00:18, 8 s, while the source says 18 (trap 16: from submission);
/// 1,000 GB x 8 pods = 8e12 bytes. dlc2 still runs (trap 25), so its end is not one. dlc3's state is unknown and its end
/// lies before its start. dlc1's repeat and dlc4, without a submit time, are quarantined.
#[test]
fn jobs() {
    let trace = conform("acme", &["acme/trace_seren.csv", "acme/trace_kalos.csv"]);
    insta::assert_snapshot!(render(&trace), @r"
    jobs (6 rows)
      cluster=seren job_key=1 user=u1 job_type=Other state=failed reported_state=FAILED submit=2023-02-28 16:18:22 start=2023-02-28 16:18:54 end=2023-02-28 16:20:51 req_nodes=1 req_cpus=128 req_gpus=8 alloc_nodes=1 alloc_cpus=128 alloc_gpus=8 run_s=117 reported_run_s=117 reported_wait_s=32
      cluster=seren job_key=2 user=u1 job_type=Debug state=timeout reported_state=TIMEOUT submit=2023-02-28 17:00:00 start=2023-02-28 17:00:00 end=2023-02-28 17:00:00 req_nodes=1 req_cpus=16 req_gpus=0 alloc_nodes=1 alloc_cpus=16 alloc_gpus=0 run_s=0 reported_run_s=0 reported_wait_s=0
      cluster=seren job_key=3 user=u2 job_type=Pretrain state=cancelled reported_state=CANCELLED submit=2023-02-28 18:00:00 end=2023-02-28 18:10:00 attempts=0 req_nodes=2 req_cpus=256 req_gpus=16
      cluster=kalos job_key=dlc1 user=uf1 job_type=Other state=failed reported_state=FAILED submit=2023-05-17 11:00:00 start=2023-05-17 11:00:10 end=2023-05-17 11:00:18 req_nodes=8 req_cpus=960 req_mem_bytes=8000000000000 req_gpus=64 alloc_nodes=8 alloc_cpus=960 alloc_gpus=64 run_s=8 reported_run_s=18 reported_wait_s=10
      cluster=kalos job_key=dlc2 user=uf1 job_type=Evaluation state=running reported_state=RUNNING submit=2023-05-17 12:00:00 start=2023-05-17 12:00:30 censored=1 req_nodes=1 req_cpus=120 req_gpus=8 alloc_nodes=1 alloc_cpus=120 alloc_gpus=8 reported_run_s=6523200 reported_wait_s=30
      cluster=kalos job_key=dlc3 user=uf2 job_type=Evaluation state=unknown reported_state=Paused submit=2023-05-17 13:00:00 start=2023-05-17 13:00:30 req_nodes=1 req_cpus=120 req_mem_bytes=100000000000 req_gpus=8 alloc_nodes=1 alloc_cpus=120 alloc_gpus=8 reported_run_s=10 reported_wait_s=30
    quality: read 8 = kept 4 + repaired 2 + quarantined 2
      Quarantined duplicate_row × 1 (lines 5)
      Quarantined no_submit × 1 (lines 6)
      Repaired end_before_start × 1 (lines 4)
      Repaired end_while_running × 1 (lines 3)
      Repaired unknown_state × 1 (lines 4)
    ");
    assert!(trace.notes.iter().any(|note| note.contains("duration of 1 of 6 jobs")), "{:?}", trace.notes);
}

/// 10:51:15 +08:00 is 02:51:15 UTC. 97 % is 0.97; an empty cell makes no sample; 250 % is impossible; the column
/// `172.31.0.1-0.1` is no GPU; `soon` is no time.
#[test]
fn telemetry() {
    let trace = conform("acme", &["acme/GPU_UTIL.csv", "acme/POWER_USAGE.csv", "acme/NODE_CPU_UTILIZATION.csv"]);
    insta::assert_snapshot!(render(&trace), @r"
    gpu_samples (3 rows)
      ts=2023-08-12 02:51:15 node=172.31.0.1 gpu=0 util_ratio=0.97
      ts=2023-08-12 02:51:15 node=172.31.0.1 gpu=0 power_w=403.5
      ts=2023-08-12 02:51:30 node=172.31.0.1 gpu=0 util_ratio=0
    node_samples (2 rows)
      ts=2023-07-01 00:00:00 node=10.140.1.10 cpu_util_ratio=0.08101000000000001
      ts=2023-07-01 00:00:00 node=10.140.1.54 cpu_util_ratio=0.07809
    quality: read 5 = kept 3 + repaired 1 + quarantined 1
      Quarantined not_a_time × 1 (lines 4)
      Repaired out_of_range × 1 (lines 3)
    ");
    assert!(trace.notes.iter().any(|note| note.contains("1 columns of gpu_util.csv")), "{:?}", trace.notes);
}
