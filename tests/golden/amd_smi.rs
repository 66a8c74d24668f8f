use tracecast_tests::{conform, render};

// The list form and the object form. 1,714,564,800 s is 2024-05-01 12:00:00 UTC, from the file's name or the GPU itself.
// What the tool calls MB are mebibytes. `N/A` is unknown; an entry without a GPU is quarantined.
#[test]
fn lists_and_objects_become_samples() {
    let trace = conform("amd-smi", &["amd-smi/n7_1714564800.json", "amd-smi/n8.json"]);
    insta::assert_snapshot!(render(&trace), @"
    gpu_samples (4 rows)
      ts=2024-05-01 12:00:00 node=n7 gpu=0 gpu_type=Instinct MI300X util_ratio=0.73 mem_util_ratio=0.12 mem_used_bytes=1048576 mem_total_bytes=4194304 power_w=142 energy_j_cum=12.5 temp_c=45
      ts=2024-05-01 12:00:00 node=n7 gpu=1 power_w=90 temp_c=50
      ts=2024-05-01 12:00:00 node=n8 gpu=0 util_ratio=0.5 power_w=100
      ts=2024-05-01 12:00:10 node=n8 gpu=0 util_ratio=0.6 power_w=110
    quality: read 5 = kept 4 + repaired 0 + quarantined 1
      Quarantined no_key × 1 (lines 3)
    ");
}
