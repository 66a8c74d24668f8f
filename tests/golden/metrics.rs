use tracecast_analytics::Trace;
use tracecast_analytics::ingest::{self, ReadOptions, SourceFile, SourceMetric};
use tracecast_tests::{conform, fixture, read, real_trace, render};

fn with(file: &str, options: &ReadOptions<'_>) -> tracecast_analytics::Result<Trace> {
    ingest::read(&[SourceFile::new(fixture(file))], options)
}

// One table of metrics: each exporter's GPU is at 50 %, 200 W, as its labels and units tell. The energy of Kepler's node is
// the sum of two counters. The package power of AMD's is no reading, so that its power usage counts. `core` of Kepler's
// processors, GPUs that are down and processors of nodes have no column.
#[test]
fn every_exporter_has_its_units_and_labels() {
    let trace = conform("dcgm", &["dcgm/exporters.prom"]);
    insta::assert_snapshot!(render(&trace), @"
    activity (2 rows)
      scope=cluster name=cluster ts=2024-05-01 12:00:00 jobs_running=12 jobs_pending=3 gpus_running=6
      scope=vc name=gpu ts=2024-05-01 12:00:00 jobs_running=7
    gpu_samples (8 rows)
      ts=2024-05-01 12:00:00 node=amd gpu=0 gpu_type=MI300X util_ratio=0.5 mem_used_bytes=2097152 power_w=200 energy_j_cum=2.5 job_key=9
      ts=2024-05-01 12:00:00 node=ceems gpu=3 job_key=77
      ts=2024-05-01 12:00:00 node=jobexp gpu=0 gpu_type=NVIDIA A100 util_ratio=0.5 pcie_bytes_per_s=4000000 power_w=200 job_key=41
      ts=2024-05-01 12:00:00 node=jobstats gpu=0 gpu_type=NVIDIA A100 util_ratio=0.5 mem_used_bytes=17040539648 power_w=200 job_key=8197399
      ts=2024-05-01 12:00:00 node=kepler2 gpu=0 power_w=65.5
      ts=2024-05-01 12:00:00 node=lower gpu=0/1g.10gb:12 util_ratio=0.5 job_key=p
      ts=2024-05-01 12:00:00 node=omnistat gpu=0 util_ratio=0.5 mem_used_bytes=17175674880 mem_total_bytes=68702699520 power_w=200 energy_j_cum=12000 temp_c=42
      ts=2024-05-01 12:00:00 node=smiexp gpu=df6e gpu_type=NVIDIA A100 util_ratio=0.5 power_w=200
    node_samples (4 rows)
      ts=2024-05-01 12:00:00 node=ceems sensor=CPU package 0 energy_j_cum=258
      ts=2024-05-01 12:00:00 node=ceems sensor=DCMI power_w=594
      ts=2024-05-01 12:00:00 node=kepler sensor=Node Power energy_j_cum=123.5
      ts=2024-05-01 12:00:00 node=kepler2 sensor=CPU package power_w=80
    quality: read 39 = kept 38 + repaired 1 + quarantined 0
      Repaired blank_reading × 1 (lines 30)
    ");
}

#[test]
fn a_reading_of_a_shared_gpu_comes_once_for_each_pod() {
    let trace = conform("dcgm", &["dcgm/shared-gpu.prom"]);
    assert_eq!((trace.ledger.read, trace.ledger.kept, trace.gpu_samples.ts.len()), (6, 6, 1));
    assert_eq!(trace.gpu_samples.job_key.get(0), Some("default/a,default/b,default/c"));
    assert!(trace.notes.iter().any(|note| note.contains("the same reading, once for each pod")), "{:?}", trace.notes);
}

#[test]
fn a_series_without_a_name_asks_for_it_and_takes_it() {
    let file = "prometheus/expression.json";
    let error = with(file, &ReadOptions::default()).unwrap_err().to_string();
    assert!(error.contains("no name") && error.contains("--metric NAME"), "{error}");
    let named = |source: Option<&str>, name: &str| ReadOptions {
        unnamed: vec![SourceMetric { source: source.map(Into::into), name: name.to_owned() }],
        ..ReadOptions::default()
    };
    for source in [None, Some("expression.json")] {
        let trace = with(file, &named(source, "slurm_gpus")).unwrap();
        let activity = &trace.activity;
        assert_eq!(activity.gpus_running.iter().collect::<Vec<_>>(), [Some(6.0), Some(8.0)]);
        assert_eq!((activity.gpus_idle.get(0), trace.ledger.kept), (Some(2.0), 3));
    }
    let error = with(file, &named(None, "gpus_per_user")).unwrap_err().to_string();
    assert!(error.contains("none of its metrics is known: gpus_per_user"), "{error}");
    let error = with(file, &named(Some("other.json"), "slurm_gpus")).unwrap_err().to_string();
    assert!(error.contains("there is no source other.json"), "{error}");
}

#[test]
fn metrics_that_nothing_knows_are_told_and_a_users_table_knows_them() {
    let error = with("prometheus/strange.json", &ReadOptions::default()).unwrap_err().to_string();
    assert!(error.contains("rack_power") && error.contains("--metrics FILE"), "{error}");
    let options = ReadOptions { metrics: Some(fixture("dcgm/strange.toml")), ..ReadOptions::default() };
    let trace = with("prometheus/strange.json", &options).unwrap();
    let samples = &trace.node_samples;
    assert_eq!(
        (samples.node.get(0), samples.sensor.get(0), samples.power_w.get(0)),
        (Some("n1"), Some("Node Power"), Some(1_500.0))
    );
    assert!(trace.sources.iter().any(|source| source.reader == ingest::METRICS_FILE));
    let trace = with("prometheus/nothing.json", &ReadOptions::default()).unwrap();
    assert!(trace.notes.iter().any(|note| note.contains("no series")), "{:?}", trace.notes);
}

/// Rows and the mean of their utilisation and power.
fn means(trace: &Trace) -> (usize, Option<f64>, Option<f64>) {
    let mean = |values: Vec<f64>| (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
    let samples = &trace.gpu_samples;
    let (util, power) = (samples.util_ratio.iter().flatten().collect(), samples.power_w.iter().flatten().collect());
    (samples.ts.len(), mean(util), mean(power))
}

#[test]
fn the_real_cases_have_their_right_answers() {
    for name in ["jobstats-nvidia_gpu", "nvidia_smi_exporter", "omnistat-rocm", "slurm-job-exporter"] {
        let Some(path) = real_trace(&format!("cases/metric-names/{name}.prom")) else { return };
        let trace = read(&[path]).unwrap();
        assert_eq!(means(&trace), (61, Some(0.5), Some(200.0)), "{name}");
        assert_eq!(trace.ledger.quarantined, 0, "{name}");
    }
    let Some(path) = real_trace("cases/dcgm-sharing/metrics.prom.gz") else { return };
    let trace = read(&[path]).unwrap();
    assert_eq!((means(&trace).0, means(&trace).2, trace.ledger.quarantined), (61, Some(68.5), 0));
    let Some(path) = real_trace("cases/dcgm-sharing/mig-lowercase.prom") else { return };
    let trace = read(&[path]).unwrap();
    assert!(trace.gpu_samples.util_ratio.iter().all(|util| util.is_some()) && trace.ledger.quarantined == 0);
    let Some(path) = real_trace("cases/nvidia-smi/a100-sxm4-v12.xml") else { return };
    assert_eq!(means(&read(&[path]).unwrap()), (1, None, Some(67.03)));
    let Some(path) = real_trace("cases/nvidia-smi/nvidia-smi-q.txt") else { return };
    let trace = read(&[path]).unwrap();
    assert_eq!((means(&trace).0, trace.gpu_samples.power_w.get(0)), (4, Some(191.43)));
    let Some(path) = real_trace("cases/rocm/mi100_rocm602.json") else { return };
    let trace = read(&[path]).unwrap();
    assert_eq!((means(&trace).0, trace.gpu_samples.power_w.get(0)), (4, Some(36.0)));
    let Some(path) = real_trace("cases/redfish/dell/dell_power.json") else { return };
    let trace = read(&[path]).unwrap();
    assert_eq!((trace.node_samples.ts.len(), trace.node_samples.power_w.get(0)), (1, Some(429.0)));
    let Some(path) = real_trace("cases/prometheus/gpus-hour.json") else { return };
    assert!(read(&[path]).unwrap_err().to_string().contains("--metric NAME"));
}

// A meter's local times are of the trace beside it, not of UTC: 12:00 in Shanghai is 04:00 UTC. A zone that the user or the
// mapping names goes before, an offset in the text before both.
#[test]
fn local_times_of_meters_are_those_of_the_trace_beside_them() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let jobs = file("jobs.csv", "id,submit\n1,2024-05-01 12:00:00\n");
    let meter = file("meter.csv", "host,time,watts\nn1,2024-05-01 12:00:00,500\nn1,2024-05-01 05:00:00Z,510\n");
    let smi = file("n1.csv", "timestamp, index, power.draw [W]\n2024/05/01 12:00:00.000, 0, 99.5 W\n");
    let columns = "[columns]\njob_key = { column = \"id\" }\nsubmit = { column = \"submit\" }\n";
    let jobs_map = file("jobs.toml", &format!("table = \"jobs\"\n[source]\nzone = \"Asia/Shanghai\"\n{columns}"));
    let of_meter = |zone: &str| {
        format!(
            "table = \"node_samples\"\n[source]\n{zone}\n[columns]\nts = {{ column = \"time\" }}\n\
             node = {{ column = \"host\" }}\npower_w = {{ column = \"watts\" }}\n"
        )
    };
    let plain_map = file("plain.toml", &of_meter(""));
    let utc_map = file("utc.toml", &of_meter("zone = \"UTC\""));
    let read = |map: &std::path::Path, options: ReadOptions<'_>| {
        let mapping = |source: &str, mapping: &std::path::Path| ingest::SourceMapping {
            source: source.into(),
            mapping: mapping.to_path_buf(),
        };
        let mappings = vec![mapping("jobs.csv", &jobs_map), mapping("meter.csv", map)];
        // The meters are named first.
        let files = [&smi, &meter, &jobs].map(SourceFile::new);
        ingest::read(&files, &ReadOptions { mappings, ..options }).unwrap()
    };
    let hours = |trace: &Trace| {
        let hour = |ts: Option<i64>| ts.map(|ms| ms.div_euclid(3_600_000).rem_euclid(24));
        (
            trace.node_samples.ts.iter().map(hour).collect::<Vec<_>>(),
            hour(trace.gpu_samples.ts.get(0)),
            trace.zone.clone(),
        )
    };
    let shanghai = || "Asia/Shanghai".to_owned();
    let trace = read(&plain_map, ReadOptions::default());
    assert_eq!(hours(&trace), (vec![Some(4), Some(5)], Some(4), shanghai()));
    assert!(trace.notes.iter().any(|note| note.contains("are taken as those of Asia/Shanghai")), "{:?}", trace.notes);
    assert_eq!(hours(&read(&utc_map, ReadOptions::default())), (vec![Some(5), Some(12)], Some(4), shanghai()));
    let berlin = tracecast_analytics::time::Zone::named("Europe/Berlin").unwrap();
    let options = ReadOptions { zone: Some(berlin), ..ReadOptions::default() };
    assert_eq!(hours(&read(&plain_map, options)), (vec![Some(5), Some(10)], Some(10), "Europe/Berlin".to_owned()));
    // Beside a trace folder, whose zone is known before.
    let beside = tracecast_analytics::time::Zone::named("Asia/Shanghai").unwrap();
    let options = ReadOptions { mapping: Some(plain_map), zone_beside: Some(beside), ..ReadOptions::default() };
    let trace = ingest::read(&[SourceFile::new(&meter)], &options).unwrap();
    assert_eq!(hours(&trace), (vec![Some(4), Some(5)], None, shanghai()));
}
