use tracecast_tests::{conform, render};

// Two documents one after another; the second has one of two attached GPUs. `N/A` is unknown, `ERR!` is unknown and counted.
#[test]
fn documents_become_samples() {
    let trace = conform("nvidia-smi-xml", &["nvidia-smi-xml/n7.xml"]);
    insta::assert_snapshot!(render(&trace), @"
    gpu_samples (3 rows)
      ts=2024-05-01 12:00:00 node=n7 gpu=0 gpu_type=NVIDIA A100-SXM4-80GB util_ratio=0.5 pcie_bytes_per_s=4000000 mem_used_bytes=2097152 mem_total_bytes=4194304 power_w=200 temp_c=27
      ts=2024-05-01 12:00:00 node=n7 gpu=1 gpu_type=NVIDIA A100-SXM4-80GB pcie_bytes_per_s=4000000 mem_total_bytes=4194304 power_w=67.03 temp_c=27
      ts=2024-05-01 12:01:00 node=n7 gpu=GPU-a gpu_type=NVIDIA A100-SXM4-80GB util_ratio=0.51 pcie_bytes_per_s=4000000 mem_used_bytes=2097152 mem_total_bytes=4194304 temp_c=27
    quality: read 3 = kept 2 + repaired 1 + quarantined 0
      Repaired failed_reading × 1 (lines 3)
    ");
}

// What comes before the cut is used: the first GPU is whole, the second is not.
#[test]
fn a_cut_document_gives_its_whole_gpus() {
    let dir = tempfile::tempdir().unwrap();
    let whole = std::fs::read_to_string(tracecast_tests::fixture("nvidia-smi-xml/n7.xml")).unwrap();
    let path = dir.path().join("n7.xml");
    std::fs::write(&path, &whole[..whole.find("67.03").unwrap()]).unwrap();
    let trace = tracecast_tests::read(&[path]).unwrap();
    assert_eq!((trace.gpu_samples.ts.len(), trace.ledger.damage.len()), (1, 1));
    assert_eq!(trace.gpu_samples.power_w.get(0), Some(200.0));
}
