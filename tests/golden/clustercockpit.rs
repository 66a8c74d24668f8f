//! ClusterCockpit's job archive: every value below was worked out by hand from the fixtures.

use tracecast_tests::{conform, read, real_trace, render};

/// 501: 4 GPUs and 32 cores (64 threads, 2 a core) on 2 nodes for an hour after 100 s. Its GPUs have power, utilisation (170 % is
/// none) and memory; its processors' sockets are summed, and unknown where one is. 502: killed at a limit that the archive says
/// was 10 s; its nodes have no accelerators: 0 GPUs; the node's power counts and not its socket's. Data without a job.
#[test]
fn jobs_and_their_data() {
    let names = ["train/meta.json", "train/data.json", "mpi/data.json", "mpi/meta.json", "stray/data.json"];
    let paths: Vec<String> = names.iter().map(|name| format!("clustercockpit/{name}")).collect();
    let trace = conform("clustercockpit", &paths.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(trace.counts_gpus);
    insta::assert_snapshot!(render(&trace), @r"
    jobs (2 rows)
      cluster=alex job_key=501 user=ana account=vision vc=gpu name=train state=completed reported_state=completed submit=2024-03-04 09:58:20 start=2024-03-04 10:00:00 end=2024-03-04 11:00:00 censored=0 attempts=1 req_nodes=2 req_cpus=32 req_gpus=4 alloc_nodes=2 alloc_cpus=32 alloc_gpus=4 nodes_hostlist=a[1-2] time_limit_s=7200 run_s=3600 reported_run_s=3600
      cluster=alex job_key=502 user=ben vc=cpu state=timeout reported_state=timeout start=2024-03-04 10:01:40 end=2024-03-04 11:01:40 censored=0 attempts=1 req_nodes=1 req_gpus=0 alloc_nodes=1 alloc_gpus=0 nodes_hostlist=c1 run_s=3600 reported_run_s=3600
    placements (3 rows)
      job_key=501 attempt=1 node=a1 gpu_ids=00000000:01:00.0,00000000:41:00.0 gpus=2
      job_key=501 attempt=1 node=a2 gpu_ids=00000000:01:00.0,00000000:41:00.0 gpus=2
      job_key=502 attempt=1 node=c1 gpus=0
    gpu_samples (5 rows)
      ts=2024-03-04 10:00:00 node=a1 gpu=00000000:01:00.0 util_ratio=0.5 mem_used_bytes=2000000000 power_w=200 job_key=501
      ts=2024-03-04 10:00:00 node=a1 gpu=00000000:41:00.0 power_w=100 job_key=501
      ts=2024-03-04 10:01:00 node=a1 gpu=00000000:01:00.0 util_ratio=0.6 job_key=501
      ts=2024-03-04 10:01:00 node=a1 gpu=00000000:41:00.0 power_w=100 job_key=501
      ts=2024-03-04 10:02:00 node=a1 gpu=00000000:01:00.0 power_w=300 job_key=501
    node_samples (5 rows)
      ts=2024-03-04 10:00:00 node=a1 sensor=CPU Power power_w=170
      ts=2024-03-04 10:01:40 node=c1 sensor=CPU Power power_w=200
      ts=2024-03-04 10:02:00 node=a1 sensor=CPU Power
      ts=2024-03-04 10:31:40 node=c1 sensor=CPU Power power_w=210
      ts=2024-03-04 11:01:40 node=c1 sensor=CPU Power power_w=220
    quality: read 5 = kept 2 + repaired 2 + quarantined 1
      Quarantined no_meta × 1 (lines 1)
      Repaired out_of_range × 2 (lines 1, 1)
    ");
}

/// The archive's own example: 228.07 W on 32 nodes for 86,486 s are 175.3 kWh, of the processors alone.
#[test]
fn the_case_has_the_energy_of_its_processors() {
    let Some(path) = real_trace("cases/clustercockpit") else { return };
    let trace = read(&[path]).unwrap();
    assert_eq!((trace.jobs.job_key.get(0), trace.jobs.run_s.get(0)), (Some("1403244"), Some(86_486.0)));
    assert_eq!((trace.jobs.alloc_nodes.get(0), trace.jobs.alloc_gpus.get(0)), (Some(32), None));
    let samples = &trace.node_samples;
    assert!((0..samples.ts.len()).all(|ix| samples.sensor.get(ix) == Some("CPU Power")));
    let known: Vec<f64> = samples.power_w.iter().flatten().collect();
    let mean = known.iter().sum::<f64>() / known.len() as f64;
    let kwh = mean * 32.0 * 86_486.0 / 3.6e6;
    assert!((kwh - 175.3).abs() < 0.5, "{kwh}");
}
