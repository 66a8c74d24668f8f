//! Alibaba spot GPU trace 2026.

use tracecast_tests::{conform, render};

/// Requests are per worker: j1 has 4 × 0.5 = 2 GPUs and 4 × 8 = 32 cores, j2 2 × 8 = 16 GPUs. j3 does not say how many
/// workers it has, so its GPUs are unknown, and its duration is negative. The node file's columns stand in the order of
/// the file, not of its documentation.
#[test]
fn jobs_and_nodes() {
    let trace = conform("alibaba-spot", &["alibaba_spot/job_info_df.csv", "alibaba_spot/node_info_df.csv"]);
    insta::assert_snapshot!(render(&trace), @r#"
    jobs (3 rows)
      job_key=j1 account=org-a qos=Spot gpu_type=A100 submit=1970-01-01 00:00:00 req_cpus=32 req_gpus=2 reported_run_s=600
      job_key=j2 account=org-b qos=HP gpu_type=H800 submit=1970-01-01 00:00:30 req_cpus=32 req_gpus=16 reported_run_s=7200
      job_key=j3 qos=HP gpu_type=A100 submit=1970-01-01 00:00:45
    nodes (2 rows)
      node=n1 gpu_type=A100 gpus=8 cpus=128
      node=n2 gpu_type=H800 gpus=8
    quality: read 7 = kept 4 + repaired 1 + quarantined 2
      Quarantined duplicate_row × 1 (lines 5)
      Quarantined no_key × 1 (lines 4)
      Repaired negative_value × 1 (lines 4)
    "#);
}
