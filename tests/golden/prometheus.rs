use tracecast_tests::{conform, fixture, read, render};

// Trap 20: "NaN" (chunk-1 point 2, unknown) and "+Inf" (point 5, unknown and counted); the chunks overlap in one point
// (chunk-2 point 1). A point without a value (chunk-1 point 6), a series without a GPU (chunk-2 point 3), the power of a
// node at all ones (25,550 W, point 5). The vector has no metric name, its file has; chunk-2
// point 7 has none in either. 1,684,936,800 s is 14:00:00.
#[test]
fn chunks_are_merged_and_overlaps_counted() {
    let trace = conform(
        "prometheus",
        &["prometheus/chunk-1.json", "prometheus/chunk-2.json", "prometheus/dcgm_fi_dev_power_usage.json"],
    );
    insta::assert_snapshot!(render(&trace), @"
    gpu_samples (5 rows)
      ts=2023-05-24 14:00:00 node=10.0.0.1 gpu=0 util_ratio=0.5 energy_j_cum=1 job_key=ml/train-0
      ts=2023-05-24 14:00:00 node=n1 gpu=1 power_w=300.5
      ts=2023-05-24 14:00:30.500 node=10.0.0.1 gpu=0 job_key=ml/train-0
      ts=2023-05-24 14:01:00 node=10.0.0.1 gpu=0 util_ratio=0.75 job_key=ml/train-0
      ts=2023-05-24 14:01:30 node=10.0.0.1 gpu=0 util_ratio=1 job_key=ml/train-0
    node_samples (3 rows)
      ts=2023-05-24 14:00:00 node=10.0.0.1 sensor=DCMI power_w=640
      ts=2023-05-24 14:00:00 node=10.0.0.1 sensor=Sys Power power_w=650
      ts=2023-05-24 14:01:00 node=10.0.0.1 sensor=DCMI
    quality: read 16 = kept 10 + repaired 2 + quarantined 4
      Quarantined duplicate_row × 1 (lines 1)
      Quarantined malformed_row × 1 (lines 6)
      Quarantined no_key × 1 (lines 3)
      Quarantined no_metric_name × 1 (lines 7)
      Repaired blank_reading × 1 (lines 5)
      Repaired not_a_number × 1 (lines 5)
    ");
    assert_eq!(
        trace.notes,
        [
            "Prometheus warned: query processing was slow",
            "2 values of 1 other metrics were passed over: DCGM_FI_DEV_SM_CLOCK.",
        ]
    );
}

#[test]
fn a_failed_query_is_told_as_such() {
    let error = read(&[fixture("prometheus/failed.json")]).unwrap_err().to_string();
    assert!(error.contains("the query failed: bad_data: exceeded maximum resolution"), "{error}");
}
