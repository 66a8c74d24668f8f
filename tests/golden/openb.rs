//! openb 2023 pods and nodes.

use tracecast_analytics::schema::Table;
use tracecast_analytics::time::TimeBasis;
use tracecast_tests::{conform, read, real_trace, render};

/// Trap 15: fractions are per GPU (pod-a 1 × 460/1000 = 0.46; pod-b 8 × 1000/1000 = 8; pod-d none = 0), pod-c was never
/// scheduled, pod-a's phase `Running` is older than its deletion. Trap 25: pod-e and pod-f have no deletion and are
/// censored, running and waiting. Trap 26: pod-g ends before it starts, so its end is unknown; pod-i is of zero length.
/// Trap 28: byte order mark and CRLF. Bytes: 1024 MiB = 1,073,741,824.
#[test]
fn pods_and_nodes() {
    let trace = conform("openb", &["openb/pods.csv", "openb/nodes.csv"]);
    assert_eq!(trace.basis, TimeBasis::Relative);
    insta::assert_snapshot!(render(&trace), @r#"
    jobs (8 rows)
      job_key=pod-a qos=LS state=unknown reported_state=Running submit=1970-01-01 00:00:00 start=1970-01-01 00:00:10 end=1970-01-01 01:00:00 censored=0 req_nodes=1 req_cpus=4 req_mem_bytes=1073741824 req_gpus=0.46 alloc_nodes=1 alloc_cpus=4 alloc_gpus=0.46 run_s=3590
      job_key=pod-d qos=Burstable state=failed reported_state=Failed submit=1970-01-01 00:00:50 start=1970-01-01 00:00:51 end=1970-01-01 00:01:00 censored=0 req_nodes=1 req_cpus=1.5 req_mem_bytes=268435456 req_gpus=0 alloc_nodes=1 alloc_cpus=1.5 alloc_gpus=0 run_s=9
      job_key=pod-b qos=BE gpu_type=V100M32|P100 state=completed reported_state=Succeeded submit=1970-01-01 00:01:40 start=1970-01-01 00:02:10 end=1970-01-01 00:06:40 censored=0 req_nodes=1 req_cpus=96 req_mem_bytes=2147483648 req_gpus=8 alloc_nodes=1 alloc_cpus=96 alloc_gpus=8 run_s=270
      job_key=pod-c qos=BE state=cancelled reported_state=Pending submit=1970-01-01 00:03:20 end=1970-01-01 00:04:10 censored=0 req_nodes=1 req_cpus=8 req_mem_bytes=536870912 req_gpus=1
      job_key=pod-e qos=LS state=running reported_state=Running submit=1970-01-01 00:05:00 start=1970-01-01 00:05:10 censored=1 req_nodes=1 req_cpus=2 req_mem_bytes=268435456 req_gpus=0.5 alloc_nodes=1 alloc_cpus=2 alloc_gpus=0.5
      job_key=pod-f qos=LS state=pending reported_state=Pending submit=1970-01-01 00:05:20 censored=1 req_nodes=1 req_cpus=2 req_mem_bytes=268435456 req_gpus=0.5
      job_key=pod-g qos=LS state=failed reported_state=Failed submit=1970-01-01 00:05:30 start=1970-01-01 00:05:50 censored=0 req_nodes=1 req_cpus=2 req_mem_bytes=268435456 req_gpus=0.5 alloc_nodes=1 alloc_cpus=2 alloc_gpus=0.5
      job_key=pod-i qos=LS state=unknown reported_state=Evaporated submit=1970-01-01 00:06:40 start=1970-01-01 00:06:40 end=1970-01-01 00:06:40 censored=0 req_nodes=1 req_mem_bytes=268435456 alloc_nodes=1 run_s=0
    nodes (2 rows)
      node=node-1 gpu_type=V100M32 gpus=8 cpus=96 mem_bytes=1073741824
      node=node-2 gpus=0 cpus=32 mem_bytes=2147483648
    quality: read 15 = kept 8 + repaired 2 + quarantined 5
      Quarantined duplicate_row × 2 (lines 9, 4)
      Quarantined field_count × 1 (lines 13)
      Quarantined no_key × 1 (lines 10)
      Quarantined no_submit × 1 (lines 11)
      Repaired end_before_start × 1 (lines 8)
      Repaired negative_value × 1 (lines 12)
      Repaired not_a_number × 1 (lines 12)
      Repaired unknown_state × 1 (lines 12)
    "#);
}

/// The facts are counted with a plain CSV loop.
#[test]
fn the_real_trace() {
    let (Some(pods), Some(nodes)) =
        (real_trace("openb_2023/openb_pod_list_default.csv.gz"), real_trace("openb_2023/openb_node_list_all_node.csv"))
    else {
        return;
    };
    let mut plain = csv::Reader::from_reader(flate2::read::GzDecoder::new(std::fs::File::open(&pods).unwrap()));
    let (mut jobs, mut with_gpus, mut fractional, mut never, mut gpus) = (0, 0, 0, 0, 0.0);
    for row in plain.records() {
        let row = row.unwrap();
        let (count, milli): (f64, f64) = (row[3].parse().unwrap(), row[4].parse().unwrap());
        jobs += 1;
        with_gpus += usize::from(count > 0.0);
        fractional += usize::from(count > 0.0 && milli < 1_000.0);
        never += usize::from(row[10].is_empty());
        gpus += count * milli / 1_000.0;
    }
    let trace = read(&[pods, nodes]).unwrap();
    assert_eq!((trace.jobs.len(), trace.ledger.kept, trace.ledger.quarantined), (jobs, 8_152 + 1_523, 0));
    let asked: Vec<f64> = trace.jobs.req_gpus.iter().flatten().collect();
    assert_eq!(asked.iter().filter(|gpus| **gpus > 0.0).count(), with_gpus);
    assert_eq!(asked.iter().filter(|gpus| **gpus > 0.0 && **gpus < 1.0).count(), fractional);
    // 43.6 % of GPU pods ask for a fraction.
    assert_eq!((1_000 * fractional + with_gpus / 2) / with_gpus, 436);
    assert!((asked.iter().sum::<f64>() - gpus).abs() < 1e-6);
    assert_eq!(trace.jobs.start.iter().filter(Option::is_none).count(), never);
    let nodes: Vec<f64> = trace.nodes.gpus.iter().flatten().filter(|gpus| *gpus > 0.0).collect();
    assert_eq!((nodes.len(), nodes.iter().sum::<f64>()), (1_213, 6_212.0));
}
