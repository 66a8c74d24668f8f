use tracecast_tests::{conform, render};

// Two queries, of which the second has one of two attached GPUs and calls it by its UUID. Memory of BAR1, of MIG instances
// and of processes, limits, and the power of the module are not the GPU's. GPU 1 is cut into MIG instances, so that its
// utilisation of 0 % says nothing; an error in place of its memory's is counted.
#[test]
fn queries_become_samples() {
    let trace = conform("nvidia-smi-q", &["nvidia-smi-q/n7.txt"]);
    insta::assert_snapshot!(render(&trace), @"
    gpu_samples (3 rows)
      ts=2024-05-01 12:00:00 node=n7 gpu=0 gpu_type=NVIDIA A100-SXM4-40GB util_ratio=0.7 mem_util_ratio=0.39 pcie_bytes_per_s=4000000 mem_used_bytes=2097152 mem_total_bytes=4194304 power_w=191.43 temp_c=86
      ts=2024-05-01 12:00:00 node=n7 gpu=1 gpu_type=NVIDIA A100-SXM4-40GB mem_used_bytes=3145728 mem_total_bytes=4194304 power_w=67.03
      ts=2024-05-01 12:01:00 node=n7 gpu=GPU-bbbb power_w=60
    quality: read 3 = kept 2 + repaired 1 + quarantined 0
      Repaired failed_reading × 1 (lines 2)
    ");
    assert!(trace.notes.iter().any(|note| note.contains("some of the attached GPUs")), "{:?}", trace.notes);
}
