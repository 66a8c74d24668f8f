use tracecast_tests::{conform, read, real_trace, render};

// Trap: a price of the whole instance that is blank beside one of a GPU, which holds now one, now the other (line 6); a number of GPUs that is blank (line 7); a price of 0 that is none (line 8) and one that is no
// number (line 9); a row that comes twice (line 5); clouds in capitals; memory in brackets. 80 GiB are 85,899,345,920 bytes.
#[test]
fn instances_of_several_clouds() {
    let trace = conform("cloud-gpus", &["cloud-gpus/cloud-gpus.csv", "cloud-gpus/serverless-gpus.csv"]);
    insta::assert_snapshot!(render(&trace), @"
    prices (6 rows)
      provider=alpha instance=a8.large gpu_type=A100 gpus=8 gpu_mem_bytes=85899345920 usd_per_h=40 kind=ondemand
      provider=alpha instance=a8.large gpu_type=A100 gpus=8 gpu_mem_bytes=85899345920 usd_per_h=12 kind=spot
      provider=alpha instance=a4.large gpu_type=A100 gpus=8 gpu_mem_bytes=42949672960 usd_per_h=32 kind=ondemand
      provider=beta cloud gpu_type=V100 gpus=1 gpu_mem_bytes=17179869184 usd_per_h=3 kind=ondemand
      provider=gamma instance=n2 gpu_type=A10 gpus=1 usd_per_h=0.25 kind=spot
      provider=delta gpu_type=T4 gpus=1 gpu_mem_bytes=17179869184 usd_per_h=0.63 kind=ondemand
    quality: read 9 = kept 5 + repaired 0 + quarantined 4
      Quarantined no_hourly_price × 2 (lines 6, 9)
      Quarantined duplicate_row × 1 (lines 5)
      Quarantined no_gpus × 1 (lines 7)
    ");
}

/// The published table, as it is: 257 rows, of which six have no price of the instance and two come again.
#[test]
fn the_published_table() {
    let Some(path) = real_trace("cloud_prices/cloud-gpus.csv") else { return };
    let trace = read(&[path]).unwrap();
    let quarantined = |reason: &str| trace.ledger.count(reason);
    assert_eq!((trace.ledger.read, quarantined("no_hourly_price"), quarantined("duplicate_row")), (257, 6, 2));
    assert_eq!(trace.ledger.quarantined, 8);
    let kinds = (0..trace.prices.ts.len()).filter(|row| trace.prices.kind.get(*row) == Some("ondemand")).count();
    assert_eq!(kinds, 249);
}
