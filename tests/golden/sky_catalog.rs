use tracecast_tests::{conform, render};

// Trap 21: a spot price of zero (vast), GpuInfo as a Python literal (aws), 24 "MiB" that are GiB (runpod), blanks before
// names and values (runpod), a fraction of a GPU (vast), a row without instance type (aws line 7), a row without a price
// (line 6), one that comes twice (line 3). 16,384 MiB are 17,179,869,184 bytes, 24 GiB are 25,769,803,776.
#[test]
fn catalogs_of_three_clouds() {
    let trace =
        conform("sky-catalog", &["sky-catalog/aws/vms.csv", "sky-catalog/runpod/vms.csv", "sky-catalog/vast/vms.csv"]);
    insta::assert_snapshot!(render(&trace), @"
    prices (10 rows)
      provider=aws zone=us-east-1a instance=p3.8xlarge gpu_type=V100 gpus=4 gpu_mem_bytes=17179869184 usd_per_h=12.24 kind=ondemand
      provider=aws zone=us-east-1a instance=p3.8xlarge gpu_type=V100 gpus=4 gpu_mem_bytes=17179869184 usd_per_h=3.5 kind=spot
      provider=aws zone=us-east-1f instance=p3.8xlarge gpu_type=V100 gpus=4 usd_per_h=12.24 kind=ondemand
      provider=aws zone=us-east-1a instance=m5.large usd_per_h=0.096 kind=ondemand
      provider=aws zone=us-east-1a instance=m5.large usd_per_h=0.04 kind=spot
      provider=aws zone=us-central1-a gpu_type=A100 gpus=1 usd_per_h=2.9 kind=accelerator
      provider=aws zone=us-central1-a gpu_type=A100 gpus=1 usd_per_h=1.2 kind=accelerator_spot
      provider=runpod zone=CA instance=1x_RTX4090_SECURE gpu_type=RTX4090 gpus=1 gpu_mem_bytes=25769803776 usd_per_h=0.69 kind=ondemand
      provider=runpod zone=CA instance=1x_RTX4090_SECURE gpu_type=RTX4090 gpus=1 gpu_mem_bytes=25769803776 usd_per_h=0.69 kind=spot
      provider=vast zone=Oslo, NO instance=half gpu_type=A10 gpus=0.5 usd_per_h=0.5 kind=ondemand
    quality: read 9 = kept 4 + repaired 2 + quarantined 3
      Quarantined duplicate_row × 1 (lines 3)
      Quarantined no_key × 1 (lines 8)
      Quarantined no_price × 1 (lines 6)
      Repaired gib_as_mib × 1 (lines 2)
      Repaired zero_price × 1 (lines 2)
    ");
    assert!(trace.notes.iter().any(|note| note.contains("1 rows have a spot price equal to the on-demand price")));
    assert!(trace.notes.iter().any(|note| note.contains("1 rows name no instance type")));
}
