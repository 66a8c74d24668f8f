//! Sonar's CSV and JSON: every value below was worked out by hand from the fixtures' records.

use tracecast_analytics::facts::JobFacts;
use tracecast_analytics::schema::Table as _;
use tracecast_tests::{conform, read, real_trace, render};

/// Three GPUs: an empty place is 0; job 41 uses 0 and 1, a process outside the batch system 2. Five minutes later no GPU does
/// anything, so that the utilisation is left out, and one power is no number. Then a time that is none, no host, a failed
/// probe, and a line of the unnamed form.
#[test]
fn samples_in_free_csv() {
    insta::assert_snapshot!(render(&conform("sonar", &["sonar/samples.csv"])), @r"
    gpu_samples (6 rows)
      ts=2024-03-04 10:00:00 node=g1.fir gpu=0 util_ratio=0.78 mem_util_ratio=0.2 mem_used_bytes=1073741824 power_w=209 temp_c=71 job_key=41
      ts=2024-03-04 10:00:00 node=g1.fir gpu=1 util_ratio=0.58 mem_util_ratio=0.13 mem_used_bytes=2147483648 power_w=214 temp_c=73 job_key=41
      ts=2024-03-04 10:00:00 node=g1.fir gpu=2 util_ratio=0 mem_util_ratio=0 mem_used_bytes=0 power_w=30 temp_c=25 job_key=g1.fir/4242
      ts=2024-03-04 10:05:00 node=g1.fir gpu=0 util_ratio=0 power_w=31
      ts=2024-03-04 10:05:00 node=g1.fir gpu=1 util_ratio=0 power_w=32
      ts=2024-03-04 10:05:00 node=g1.fir gpu=2 util_ratio=0
    quality: read 8 = kept 4 + repaired 0 + quarantined 4
      Quarantined failed_probe × 1 (lines 7)
      Quarantined malformed_row × 1 (lines 8)
      Quarantined no_key × 1 (lines 6)
      Quarantined not_a_time × 1 (lines 5)
    ");
}

/// 41: 2 GPUs for an hour, its step adds nothing. 42: a name with `=`, no GPUs: 0; its record comes twice. 43_7: cancelled while
/// it waited. `x` is no identifier.
#[test]
fn slurm_jobs_in_free_csv() {
    let trace = conform("sonar", &["sonar/slurm-sacct.csv"]);
    assert!(trace.counts_gpus);
    insta::assert_snapshot!(render(&trace), @r"
    jobs (3 rows)
      job_key=41 user=ana account=vision vc=gpu name=train gpu_type=a100 state=completed reported_state=COMPLETED submit=2024-03-04 10:00:00 start=2024-03-04 10:01:00 end=2024-03-04 11:01:00 censored=0 attempts=1 req_nodes=1 req_cpus=8 req_mem_bytes=34359738368 alloc_nodes=1 alloc_cpus=8 alloc_gpus=2 alloc_mem_bytes=34359738368 nodes_hostlist=g1 time_limit_s=86400 run_s=3600 reported_run_s=3600
      job_key=42 user=ben account=bio vc=cpu name=a=b state=failed reported_state=FAILED submit=2024-03-04 10:09:00 start=2024-03-04 10:10:00 end=2024-03-04 10:11:00 censored=0 attempts=1 req_nodes=1 req_cpus=4 req_mem_bytes=16777216000 alloc_nodes=1 alloc_cpus=4 alloc_gpus=0 alloc_mem_bytes=16777216000 nodes_hostlist=c1 run_s=60 reported_run_s=60 exit_code=2
      job_key=43_7 parent_job=43 user=ben account=bio vc=cpu name=- state=cancelled reported_state=CANCELLED by 501 submit=2024-03-04 10:12:00 end=2024-03-04 10:20:00 censored=0 attempts=0 req_nodes=1 req_cpus=1
    placements (2 rows)
      job_key=41 attempt=1 node=g1 gpus=2
      job_key=42 attempt=1 node=c1 gpus=0
    quality: read 6 = kept 4 + repaired 0 + quarantined 2
      Quarantined duplicate_row × 1 (lines 5)
      Quarantined malformed_row × 1 (lines 6)
    ");
}

/// Index and utilisation left out are 0; a GPU that fails has no readings. Job 44 runs on 2 nodes with a limit of 60 minutes
/// (62 less 2), 45_2 waits without one. The node has 2 × 32 cores. A cluster is passed over, an error quarantined. The old form
/// is one object a sample.
#[test]
fn envelopes_and_single_objects() {
    let trace = conform("sonar", &["sonar/new.json", "sonar/old.json"]);
    insta::assert_snapshot!(render(&trace), @r"
    jobs (2 rows)
      cluster=fir job_key=44 user=ana account=vision vc=gpu name=train gpu_type=a100 state=running reported_state=RUNNING submit=2024-03-04 09:50:00 start=2024-03-04 09:55:00 censored=1 attempts=1 req_nodes=2 req_cpus=8 req_mem_bytes=2147483648 req_gpus=4 alloc_nodes=2 alloc_cpus=8 alloc_gpus=4 nodes_hostlist=g[2-3] time_limit_s=3600
      cluster=fir job_key=45_2 parent_job=45 user=ben vc=gpu name=sweep state=pending reported_state=PENDING submit=2024-03-04 10:20:00 censored=1 attempts=0 req_nodes=1 req_cpus=1 req_gpus=1
    placements (2 rows)
      job_key=44 attempt=1 node=g2 gpus=2
      job_key=44 attempt=1 node=g3 gpus=2
    nodes (1 rows)
      node=g2 gpu_type=NVIDIA A100 gpus=2 gpu_mem_bytes=42949672960 cpus=64 mem_bytes=1073741824
    gpu_samples (5 rows)
      ts=2024-03-04 10:00:00 node=g2 gpu=0 util_ratio=0.5 mem_util_ratio=0.1 mem_used_bytes=1073741824 power_w=200 temp_c=60 job_key=44
      ts=2024-03-04 10:00:00 node=g2 gpu=1 util_ratio=0 power_w=40 job_key=44
      ts=2024-03-04 10:00:00 node=g2 gpu=2
      ts=2024-03-04 10:15:00 node=g1.fir gpu=0 util_ratio=0.1 mem_used_bytes=2097152 power_w=50 job_key=41
      ts=2024-03-04 10:15:00 node=g1.fir gpu=1 util_ratio=0 power_w=25
    quality: read 7 = kept 6 + repaired 0 + quarantined 1
      Quarantined failed_probe × 1 (lines 5)
    ");
}

/// A day of sacct by Sonar on a real cluster: 294 jobs, 84 with GPUs, 39.0 GPU-hours, 1,247.03 core-hours.
#[test]
fn the_day_of_the_case_adds_up() {
    let Some(path) = real_trace("cases/sonar/cluster1.uio.no_2025_05_03_slurm-sacct.csv.gz") else { return };
    let trace = read(&[path]).unwrap();
    let facts = JobFacts::new(&trace);
    let gpu_jobs = (0..facts.len()).filter(|job| facts.is_gpu_job(*job)).count();
    assert_eq!((trace.jobs.len(), gpu_jobs), (294, 84));
    let gpu_hours = facts.total_gpu_s() / 3_600.0;
    let core_s = |job: usize| Some(trace.jobs.alloc_cpus.get(job)? * facts.run_s(job)?);
    let core_hours = (0..facts.len()).filter_map(core_s).sum::<f64>() / 3_600.0;
    assert!((gpu_hours - 39.0).abs() < 0.05, "{gpu_hours}");
    assert!((core_hours - 1_247.03).abs() < 0.005, "{core_hours}");
}

/// Two samples of the four GPUs of one node in two forms, a day apart.
#[test]
fn the_samples_of_the_case_are_read() {
    for (name, rows, watts) in [
        ("cases/sonar/cluster1.uio.no_2025_04_12_n1.cluster1.uio.no.csv", 8, 209.0),
        ("cases/sonar/cluster1.uio.no_2025_04_13_0+sample-n1.cluster1.uio.no.json", 8, 208.0),
    ] {
        let Some(path) = real_trace(name) else { return };
        let samples = read(&[path]).unwrap().gpu_samples;
        assert_eq!(
            (samples.len(), samples.gpu.get(0), samples.power_w.get(0)),
            (rows, Some("0"), Some(watts)),
            "{name}"
        );
    }
}
