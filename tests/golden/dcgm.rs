use tracecast_tests::{conform, render};

// Trap 18: a blank value (two-scrapes line 9), MIG labels (11 to 13, one ratio above one), an energy counter that was
// reset (5,000,000 mJ, then 1,000 mJ 30 s later), `Hostname` and `hostname`. Trap 28: stamped.prom has a byte order mark
// and CRLF. 1,684,936,800 s is 2023-05-24 14:00:00 UTC. 1,024 MiB are 1,073,741,824 bytes; used and free together are
// 3,072 MiB. n3 has its time in its name, which holds for the first of its two scrapes only.
#[test]
fn scrapes_become_samples() {
    let trace = conform("dcgm", &["dcgm/two-scrapes.prom", "dcgm/stamped.prom", "dcgm/n3_20230524-140100.prom"]);
    insta::assert_snapshot!(render(&trace), @"
    gpu_samples (10 rows)
      ts=2023-05-24 14:00:00 node=n1 gpu=0 gpu_type=NVIDIA A100-SXM4-80GB util_ratio=0.87 mem_used_bytes=1073741824 mem_total_bytes=3221225472 power_w=312.5 energy_j_cum=5000 job_key=ml/train-0
      ts=2023-05-24 14:00:00 node=n1 gpu=1/1g.10gb:3 util_ratio=0.25 sm_active_ratio=1
      ts=2023-05-24 14:00:00 node=n1 gpu=1/1g.10gb:4 sm_active_ratio=0.5
      ts=2023-05-24 14:00:00 node=n2 gpu=0 mem_util_ratio=0.4 job_key=ml/a,ml/b
      ts=2023-05-24 14:00:00.500 node=n2 gpu=0 tensor_active_ratio=0.125
      ts=2023-05-24 14:00:30 node=n1 gpu=0 gpu_type=NVIDIA A100-SXM4-80GB energy_j_cum=1 job_key=ml/train-0
      ts=2023-05-24 14:01:00 node=n3 gpu=0 temp_c=41
      ts=2023-05-24 14:01:00 node=n3 gpu=1 temp_c=42
      node=n3 gpu=0 temp_c=43
      node=n3 gpu=1 temp_c=44
    quality: read 24 = kept 17 + repaired 3 + quarantined 4
      Quarantined conflicting_reading × 1 (lines 15)
      Quarantined duplicate_row × 1 (lines 14)
      Quarantined malformed_row × 1 (lines 16)
      Quarantined no_key × 1 (lines 17)
      Repaired blank_reading × 1 (lines 9)
      Repaired out_of_range × 1 (lines 5)
      Repaired ratio_above_one × 1 (lines 12)
    ");
    let passed = "1 values of 1 other metrics were passed over: DCGM_FI_DEV_SM_CLOCK.";
    assert!(trace.notes.iter().any(|note| note == passed), "{:?}", trace.notes);
    assert!(trace.notes.iter().any(|note| note.contains("no time")), "{:?}", trace.notes);
}
