use tracecast_analytics::ingest::{ReadOptions, expand};
use tracecast_analytics::time::Zone;
use tracecast_tests::{conform, fixture, render};

// Trap 19: units in values (n1) and none (n2); `[N/A]` and `[Not Supported]` are unknown, `[Unknown Error]` (n1 line 3),
// `ERR!` (7) and `[Insufficient Permissions]` (n2 line 2) are unknown and counted; a lost GPU cannot be named (8). The
// header comes again as it was (line 4, no row) and then with two columns swapped (10): what is under it is not read.
// Trap 28: n1 has CRLF. 81,920 MiB are 85,899,345,920 bytes, 16,000 MiB are 16,777,216,000.
#[test]
fn logs_with_and_without_header() {
    let files = ["nvidia-smi/n1-nvidia-smi.csv", "nvidia-smi/n2_2023-05-01T12-00-00.csv"];
    let trace = conform("nvidia-smi", &files);
    insta::assert_snapshot!(render(&trace), @"
    gpu_samples (6 rows)
      ts=2023-05-01 12:00:00.123 node=n1 gpu=0 gpu_type=NVIDIA A100-SXM4-80GB util_ratio=0.12 mem_util_ratio=0.03 mem_used_bytes=1073741824 mem_total_bytes=85899345920 power_w=250.31 temp_c=45
      ts=2023-05-01 12:00:00.124 node=n1 gpu=1 gpu_type=NVIDIA A100-SXM4-80GB mem_used_bytes=0 mem_total_bytes=85899345920 temp_c=30
      ts=2023-05-01 12:00:00.500 node=n2 gpu=0 gpu_type=Tesla V100-SXM2-16GB util_ratio=0.99 mem_util_ratio=0.5 mem_used_bytes=16777216000 mem_total_bytes=17179869184 power_w=299.5 temp_c=70
      ts=2023-05-01 12:00:01.123 node=n1 gpu=0 gpu_type=NVIDIA A100-SXM4-80GB util_ratio=0 mem_util_ratio=0 mem_used_bytes=10485760 mem_total_bytes=85899345920 power_w=60 temp_c=41
      ts=2023-05-01 12:00:01.500 node=n2 gpu=0 gpu_type=Tesla V100-SXM2-16GB util_ratio=0.98 mem_used_bytes=16777216000 mem_total_bytes=17179869184 power_w=299.75 temp_c=71
      ts=2023-05-01 12:00:02.123 node=n1 gpu=0 gpu_type=NVIDIA A100-SXM4-80GB mem_util_ratio=0.01 mem_used_bytes=10485760 mem_total_bytes=85899345920
    quality: read 11 = kept 3 + repaired 3 + quarantined 5
      Quarantined other_header × 2 (lines 10, 11)
      Quarantined duplicate_row × 1 (lines 6)
      Quarantined field_count × 1 (lines 9)
      Quarantined no_key × 1 (lines 8)
      Repaired failed_reading × 3 (lines 3, 7, 2)
      Repaired out_of_range × 1 (lines 7)
    ");

    // The host's clock was Berlin's: noon there in May is 10:00 UTC.
    let options = ReadOptions { zone: Some(Zone::named("Europe/Berlin").unwrap()), ..ReadOptions::default() };
    let berlin = tracecast_analytics::ingest::read(&expand(&[fixture(files[1])]).unwrap(), &options).unwrap();
    assert!(render(&berlin).contains("ts=2023-05-01 10:00:00.500 node=n2"));
}

// A query without `timestamp`, in a loop: two rounds of two GPUs. Nothing is lost, as no row repeats another's moment.
#[test]
fn rows_without_a_time_are_rounds() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("n4.csv");
    std::fs::write(&path, "index, power.draw [W]\n0, 60 W\n1, 61 W\n0, 62 W\n1, 61 W\n").unwrap();
    let trace = tracecast_tests::read(&[path]).unwrap();
    assert_eq!(
        render(&trace),
        "gpu_samples (4 rows)\n  node=n4 gpu=0 power_w=60\n  node=n4 gpu=1 power_w=61\n  node=n4 gpu=0 power_w=62\n  \
         node=n4 gpu=1 power_w=61\nquality: read 4 = kept 4 + repaired 0 + quarantined 0\n"
    );
    assert!(trace.notes.iter().any(|note| note.contains("no timestamp column")), "{:?}", trace.notes);
}

/// One GPU, so nobody asked for its index: three samples ten seconds apart, of GPU 0. Such rows in
/// bursts of two, two milliseconds apart, are of two GPUs that nothing tells apart: refused, with
/// the remedy.
#[test]
fn one_gpu_needs_no_index_and_several_do() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("n5.csv");
    let header = "timestamp, utilization.gpu [%], power.draw [W]\n";
    let row = |second: u32, ms: u32, watts: u32| format!("2024/05/01 12:00:{second:02}.{ms:03}, 50 %, {watts} W\n");
    let one: String = (0..4).map(|ix| row(ix * 10, 7, 100 + ix)).collect();
    std::fs::write(&path, format!("{header}{one}")).unwrap();
    let trace = tracecast_tests::read(std::slice::from_ref(&path)).unwrap();
    let samples = &trace.gpu_samples;
    assert_eq!(samples.power_w.iter().collect::<Vec<_>>(), [100.0, 101.0, 102.0, 103.0].map(Some));
    assert_eq!((samples.gpu.get(0), samples.node.get(0), trace.ledger.kept), (Some("0"), Some("n5"), 4));
    assert!(trace.notes.iter().any(|note| note.contains("taken as one GPU")), "{:?}", trace.notes);
    let two: String = (0..4).map(|ix| row(ix * 10, 7, 100) + &row(ix * 10, 9, 300)).collect();
    std::fs::write(&path, format!("{header}{two}")).unwrap();
    let error = tracecast_tests::read(std::slice::from_ref(&path)).unwrap_err().to_string();
    assert!(error.contains("several GPUs") && error.contains("query index or uuid"), "{error}");
    // Neither time nor index, as of `--query-gpu=utilization.gpu,power.draw`: rounds of one GPU.
    std::fs::write(&path, "utilization.gpu [%], power.draw [W]\n50 %, 100 W\n60 %, 110 W\n").unwrap();
    let trace = tracecast_tests::read(&[path]).unwrap();
    assert_eq!(trace.gpu_samples.power_w.iter().collect::<Vec<_>>(), [Some(100.0), Some(110.0)]);
}
