use tracecast_tests::{conform, render};

// The file's name tells node and time, the time of its first snapshot only. `N/A` is unknown, 101 % is impossible, and the
// power limit is no reading; of MI300X the power that is known counts. 50 % of 1,000 bytes are 500. 2,500,000 µJ are 2.5 J.
// card2 says nothing that is known; `system` is no card.
#[test]
fn cards_become_samples() {
    let trace = conform("rocm-smi", &["rocm-smi/n7_20240501-120000.json"]);
    insta::assert_snapshot!(render(&trace), @"
    gpu_samples (3 rows)
      ts=2024-05-01 12:00:00 node=n7 gpu=0 gpu_type=Instinct MI100 util_ratio=0.12 mem_util_ratio=0.03 mem_used_bytes=6750208 mem_total_bytes=34342961152 power_w=43 energy_j_cum=2.5 temp_c=41
      ts=2024-05-01 12:00:00 node=n7 gpu=1 gpu_type=Instinct MI300X mem_used_bytes=500 mem_total_bytes=1000 power_w=550
      node=n7 gpu=0 gpu_type=Instinct MI100 power_w=40
    quality: read 4 = kept 2 + repaired 1 + quarantined 1
      Quarantined no_known_reading × 1 (lines 3)
      Repaired out_of_range × 1 (lines 2)
    ");
    assert!(trace.notes.iter().any(|note| note.contains("tells no time")), "{:?}", trace.notes);
}
