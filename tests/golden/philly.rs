//! Philly: the joined job table, the official trace and the node counts. Traps: 9 (the hour that happened twice), 13
//! (no attempts, `None` texts, trailing comma, wrong GPU counts), 25 (still running), 26 (zero and negative lengths), 28
//! (CRLF, cut-off rows).

use std::collections::BTreeMap;
use std::path::PathBuf;

use tracecast_analytics::time::{TimeBasis, parse_with_offset};
use tracecast_tests::{check, conform, fixture, read, real_trace, render};

/// Row 0 has a length but no start (its end stays unknown). `app_1`: start 01:00:12 + 100 s = 01:01:52, two attempts, so
/// run_s is not end - start. `app_2`: 08:30:05 + 60 s. Row 3 is a zero-length job (trap 26), then its exact repeat.
/// Row 4 has a negative duration (trap 26), row 5 no submit time, row 6 no GPU count and a word we do not know, row 7
/// is cut off.
#[test]
fn joined_jobs() {
    let trace = conform("philly-joined", &["philly/joined.csv"]);
    let why = trace.notes.iter().find(|note| note.contains("start, end and wait are known for")).unwrap();
    assert!(why.contains("only jobs of four GPUs and more"), "{why}");
    insta::assert_snapshot!(render(&trace), @r"
    jobs (6 rows)
      cluster=philly job_key=row-0 state=unknown reported_state=not_Pass submit=2017-09-01 00:00:00 req_gpus=1 alloc_gpus=1 reported_run_s=3600
      cluster=philly job_key=app_1 vc=vc-a state=completed reported_state=Pass submit=2017-09-01 01:00:00 start=2017-09-01 01:00:12 end=2017-09-01 01:01:52 attempts=2 req_gpus=8 alloc_gpus=8 reported_run_s=100 reported_attempts_s=90 reported_wait_s=12
      cluster=philly job_key=app_2 vc=vc-b state=completed reported_state=Pass submit=2017-11-05 08:30:00 start=2017-11-05 08:30:05 end=2017-11-05 08:31:05 attempts=1 req_gpus=4 alloc_gpus=4 run_s=60 reported_run_s=60 reported_attempts_s=60 reported_wait_s=5
      cluster=philly job_key=row-3 vc=vc-b state=completed reported_state=Pass submit=2017-11-05 08:31:00 req_gpus=1 alloc_gpus=1 reported_run_s=0 reported_attempts_s=0
      cluster=philly job_key=row-4 state=unknown reported_state=not_Pass submit=2017-11-05 08:32:00 req_gpus=1 alloc_gpus=1
      cluster=philly job_key=row-6 state=unknown reported_state=Odd submit=2017-11-05 09:00:00 reported_run_s=30
    quality: read 9 = kept 4 + repaired 2 + quarantined 3
      Quarantined duplicate_row × 1 (lines 8)
      Quarantined field_count × 1 (lines 10)
      Quarantined no_submit × 1 (lines 7)
      Repaired negative_value × 1 (lines 6)
      Repaired unknown_state × 1 (lines 9)
    ");
}

/// Job count, sizes, outcomes and GPU-hours of the real table against a plain loop over its rows.
#[test]
fn the_real_joined_table() {
    let Some(path) = real_trace("philly/philly_jobs.csv.gz") else { return };
    let mut sizes: BTreeMap<u64, u64> = BTreeMap::new();
    let (mut gpu_s, mut passed, mut started) = (0.0, 0, 0);
    let file = flate2::read::MultiGzDecoder::new(std::fs::File::open(&path).unwrap());
    for row in csv::Reader::from_reader(file).records() {
        let row = row.unwrap();
        let gpus: f64 = row[3].parse().unwrap();
        gpu_s += gpus * row[4].parse::<f64>().unwrap();
        *sizes.entry(gpus as u64).or_default() += 1;
        passed += u64::from(&row[12] == "Pass");
        started += usize::from(!row[10].is_empty());
    }
    let trace = read(&[path]).unwrap();
    check(&trace);
    let jobs = &trace.jobs;
    let mut ours: BTreeMap<u64, u64> = BTreeMap::new();
    let mut our_gpu_s = 0.0;
    for ix in 0..jobs.req_gpus.len() {
        let gpus = jobs.req_gpus.get(ix).unwrap();
        *ours.entry(gpus as u64).or_default() += 1;
        our_gpu_s += gpus * jobs.reported_run_s.get(ix).unwrap();
    }
    assert_eq!(ours, sizes);
    assert_eq!([1, 2, 4, 8].map(|size| ours[&size]), [96_662, 2_522, 5_487, 5_716]);
    assert_eq!((trace.ledger.read, trace.ledger.kept), (111_549, 111_549));
    assert_eq!(our_gpu_s, gpu_s);
    assert_eq!(format!("{:.2}", our_gpu_s / 3.6e9), "3.62", "million GPU-hours");
    assert_eq!(jobs.state.iter().filter(|state| *state == Some("completed")).count() as u64, passed);
    assert_eq!(jobs.start.known_count(), started);
}

/// Times are UTC as they stand.
/// Job 1: 74 s + 600 s = 674 s in two attempts; 2 GPUs asked for (first attempt), 3 given at most, on two nodes last.
/// Job 2 never ran (trap 13); its VC `None` and its user are unknown. Job 3's last end is null: still running (trap 25).
/// Job 4's first attempt has no start, so neither has the job, and its run time is unknown; the last took 0 s (trap 26).
/// Job 5 ends before it starts: its end is unknown, which does not make it a running one.
/// Element 6 is never closed and costs only itself; 7 repeats job 1, 8 has no id, 9 no submit time.
/// Job 9 is the extract's spelling: 11.35 min = 681 s from first start to last end, 74 + 600 = 674 s in attempts.
#[test]
fn official_job_log() {
    let trace = conform("philly", &["philly/cluster_job_log.json"]);
    insta::assert_snapshot!(render(&trace), @r"
    jobs (6 rows)
      cluster=philly job_key=application_1_1 user=u1 vc=vc-a state=completed reported_state=Pass submit=2017-10-07 01:11:39 start=2017-10-07 01:12:09 end=2017-10-07 01:23:30 attempts=2 req_gpus=2 alloc_nodes=2 alloc_gpus=3 nodes_hostlist=m2,m3 run_s=674
      cluster=philly job_key=application_1_2 state=cancelled reported_state=Killed submit=2017-10-07 02:00:00 attempts=0
      cluster=philly job_key=application_1_3 user=u2 vc=vc-b state=running reported_state=Failed submit=2017-11-05 08:30:00 start=2017-11-05 08:31:00 censored=1 attempts=1 req_gpus=1 alloc_nodes=1 alloc_gpus=1 nodes_hostlist=m1
      cluster=philly job_key=application_1_4 user=u2 vc=vc-b state=failed reported_state=Failed submit=2017-11-05 09:00:00 end=2017-11-05 09:20:00 attempts=2 req_gpus=1 alloc_nodes=1 alloc_gpus=1 nodes_hostlist=m4
      cluster=philly job_key=application_1_5 user=u2 vc=vc-b state=failed reported_state=Failed submit=2017-11-05 10:00:00 start=2017-11-05 10:05:00 attempts=1 req_gpus=1 alloc_nodes=1 alloc_gpus=1 nodes_hostlist=m4
      cluster=philly job_key=application_1_9 state=unknown submit=2017-12-01 00:00:00 start=2017-12-01 00:00:09 end=2017-12-01 00:11:30 attempts=2 req_gpus=8 alloc_gpus=8 run_s=674 reported_run_s=681
    attempts (8 rows)
      job_key=application_1_1 attempt=1 start=2017-10-07 01:12:09 end=2017-10-07 01:13:23 nodes_hostlist=m1 alloc_gpus=2
      job_key=application_1_1 attempt=2 start=2017-10-07 01:13:30 end=2017-10-07 01:23:30 end_reason=completed nodes_hostlist=m2,m3 alloc_gpus=3
      job_key=application_1_3 attempt=1 start=2017-11-05 08:31:00 censored=1 nodes_hostlist=m1 alloc_gpus=1
      job_key=application_1_4 attempt=1 end=2017-11-05 09:10:00
      job_key=application_1_4 attempt=2 start=2017-11-05 09:20:00 end=2017-11-05 09:20:00 end_reason=failed nodes_hostlist=m4 alloc_gpus=1
      job_key=application_1_5 attempt=1 start=2017-11-05 10:05:00 end_reason=failed nodes_hostlist=m4 alloc_gpus=1
      job_key=application_1_9 attempt=1 start=2017-12-01 00:00:09 end=2017-12-01 00:01:23
      job_key=application_1_9 attempt=2 start=2017-12-01 00:01:30 end=2017-12-01 00:11:30
    placements (6 rows)
      job_key=application_1_1 attempt=1 node=m1 gpu_ids=gpu0,gpu1 gpus=2
      job_key=application_1_1 attempt=2 node=m2 gpu_ids=gpu0,gpu1 gpus=2
      job_key=application_1_1 attempt=2 node=m3 gpu_ids=gpu7 gpus=1
      job_key=application_1_3 attempt=1 node=m1 gpu_ids=gpu3 gpus=1
      job_key=application_1_4 attempt=2 node=m4 gpu_ids=gpu0 gpus=1
      job_key=application_1_5 attempt=1 node=m4 gpu_ids=gpu0 gpus=1
    quality: read 10 = kept 5 + repaired 1 + quarantined 4
      Quarantined duplicate_row × 1 (lines 7)
      Quarantined malformed_row × 1 (lines 6)
      Quarantined no_key × 1 (lines 8)
      Quarantined no_submit × 1 (lines 9)
      Repaired end_before_start × 1 (lines 5)
    ");
    assert_eq!((trace.zone.as_str(), trace.basis), ("America/Los_Angeles", TimeBasis::Utc));
}

/// m1 has 2 GPUs by the official list and 8 by the revised, which wins (trap 13); 12 GiB = 12,884,901,888 bytes and
/// 24 GiB = 25,769,803,776. The second m31 is a repeat. m5's count is unknown, not 0. m9 is in the revised list only.
#[test]
fn machine_lists_and_vc_sizes() {
    let trace =
        conform("philly", &["philly/cluster_machine_list.csv", "philly/revised_machine_list.csv", "philly/vc.csv"]);
    insta::assert_snapshot!(render(&trace), @r"
    nodes (4 rows)
      node=m1 gpus=8 gpu_mem_bytes=12884901888
      node=m31 gpus=8 gpu_mem_bytes=25769803776
      node=m5
      node=m9 gpus=4
    capacity (2 rows)
      scope=vc name=vc-a nodes=64 state=up
      scope=vc name=vc-b nodes=8 state=up
    quality: read 10 = kept 8 + repaired 0 + quarantined 2
      Quarantined duplicate_row × 1 (lines 4)
      Quarantined no_key × 1 (lines 4)
    ");
    assert!(trace.notes.iter().any(|note| note.contains("differ on the GPUs of 1 of 4 nodes")), "{:?}", trace.notes);
}

/// 01:30 PDT is 08:30 UTC and 01:30 PST 09:30 UTC (trap 9). `NA` keeps its row without a value, the empty third GPU has
/// none. 101.5 % is impossible. Memory: (1000 - 250) KiB = 768,000 bytes; more free than there is, is unknown.
/// 2017-11-27 00:04 PST is 08:04 UTC, 2017-10-03 00:06 PDT is 07:06 UTC.
#[test]
fn utilisation() {
    let trace = conform(
        "philly",
        &["philly/cluster_gpu_util.csv", "philly/cluster_cpu_util.csv", "philly/cluster_mem_util.csv"],
    );
    insta::assert_snapshot!(render(&trace), @r"
    gpu_samples (6 rows)
      ts=2017-11-05 08:30:00 node=m1 gpu=gpu0 util_ratio=0.608
      ts=2017-11-05 08:30:00 node=m1 gpu=gpu1
      ts=2017-11-05 09:30:00 node=m1 gpu=gpu0 util_ratio=0
      ts=2017-11-05 09:30:00 node=m1 gpu=gpu1 util_ratio=1
      ts=2017-11-05 09:31:00 node=m1 gpu=gpu0
      ts=2017-11-05 09:31:00 node=m1 gpu=gpu1 util_ratio=0.5
    node_samples (4 rows)
      ts=2017-10-03 07:06:00 node=m1 mem_used_bytes=768000
      ts=2017-10-03 07:07:00 node=m1
      ts=2017-11-27 08:04:00 node=m1 cpu_util_ratio=0.31845
      ts=2017-11-27 08:05:00 node=m1
    quality: read 9 = kept 5 + repaired 2 + quarantined 2
      Quarantined field_count × 1 (lines 6)
      Quarantined not_a_time × 1 (lines 5)
      Repaired out_of_range × 2 (lines 4, 3)
    ");
}

/// Midnight PDT is 07:00 UTC; 01:30 on 2017-11-05 happened twice and the first (08:30 UTC) is taken (trap 9), 02:30 is
/// PST, 10:30 UTC. An empty count is unknown.
#[test]
fn node_sequence() {
    let trace = conform("philly-nodes", &["philly/philly_node_sequence.csv"]);
    insta::assert_snapshot!(render(&trace), @r"
    activity (4 rows)
      scope=cluster name=philly ts=2017-10-03 07:00:00 nodes_active=312 nodes_total=420
      scope=cluster name=philly ts=2017-11-05 08:30:00 nodes_active=300 nodes_total=420
      scope=cluster name=philly ts=2017-11-05 10:30:00 nodes_active=301 nodes_total=420
      scope=cluster name=philly ts=2017-12-01 08:00:00 nodes_total=420
    quality: read 5 = kept 3 + repaired 1 + quarantined 1
      Quarantined not_a_time × 1 (lines 6)
      Repaired dst_fold × 1 (lines 3)
    ");
}

/// `app_1` is in the job log and in the joined table, `app_9` only in the log: 5 of the table's 6 jobs plus 2 make 7. The
/// log knows the attempts (run time 30 + 60 = 90 s) but neither VC nor outcome; the table knows those. In either order
/// the job is the same.
#[test]
fn job_log_and_joined_table_overlap() {
    let (log, joined) = (fixture("philly/overlap.json"), fixture("philly/joined.csv"));
    for paths in [[log.clone(), joined.clone()], [joined, log]] {
        let trace = read(&paths).unwrap();
        check(&trace);
        let jobs = &trace.jobs;
        assert_eq!((jobs.job_key.len(), trace.attempts.job_key.len()), (7, 3));
        let ix = jobs.job_key.iter().position(|key| key == Some("app_1")).unwrap();
        assert_eq!((jobs.vc.get(ix), jobs.state.get(ix)), (Some("vc-a"), Some("completed")));
        assert_eq!((jobs.run_s.get(ix), jobs.reported_run_s.get(ix)), (Some(90.0), Some(100.0)));
        assert_eq!(trace.basis, TimeBasis::Utc);
    }
}

/// The whole real folder: each job once, whichever files describe it.
#[test]
fn the_real_folder() {
    let Some(folder) = real_trace("philly") else { return };
    let trace = read(&[folder]).unwrap();
    check(&trace);
    assert_eq!((trace.jobs.job_key.len(), trace.nodes.node.len()), (111_549, 552));
    let passed = trace.jobs.state.iter().filter(|state| *state == Some("completed")).count();
    assert_eq!((passed, trace.attempts.job_key.len()), (82_257, 4_490));
}

/// Attempts, run times and GPUs of the real extract against a plain loop over its JSON.
#[test]
fn the_real_job_log_extract() {
    let Some(path) = real_trace("philly/philly_cluster_job_log_ge4gpu.json.gz") else { return };
    let file = flate2::read::MultiGzDecoder::new(std::fs::File::open(&path).unwrap());
    let jobs: Vec<serde_json::Value> = serde_json::from_reader(std::io::BufReader::new(file)).unwrap();
    let seconds = |text: &serde_json::Value| parse_with_offset(&format!("{}Z", text.as_str().unwrap())).unwrap() / 1000;
    let (mut attempts, mut run_s, mut gpus) = (0, 0, 0.0);
    for job in &jobs {
        gpus += job["num_gpus"].as_f64().unwrap();
        for attempt in job["attempts"].as_array().unwrap() {
            attempts += 1;
            run_s += seconds(&attempt["end_time"]) - seconds(&attempt["start_time"]);
        }
    }
    let trace = read(&[path]).unwrap();
    check(&trace);
    assert_eq!((trace.jobs.job_key.len(), jobs.len()), (3_034, 3_034));
    assert_eq!(trace.attempts.attempt.len(), attempts);
    assert_eq!(trace.jobs.run_s.iter().flatten().sum::<f64>(), run_s as f64);
    assert_eq!(trace.jobs.req_gpus.iter().flatten().sum::<f64>(), gpus);
    // The clock is UTC: a job id holds the epoch milliseconds at which its scheduler started, which no job can precede,
    // and the first job of one scheduler followed within a minute.
    let mut soonest_s = i64::MAX;
    for (key, submit) in trace.jobs.job_key.iter().zip(trace.jobs.submit.iter()) {
        let started_ms: i64 = key.unwrap().split('_').nth(1).unwrap().parse().unwrap();
        assert!(submit.unwrap() >= started_ms);
        soonest_s = soonest_s.min((submit.unwrap() - started_ms) / 1000);
    }
    assert!(soonest_s < 60, "{soonest_s} s");
}

/// The real inventory: 552 nodes, of which 238 of the 321 that the official list gives 2 GPUs have eight; and the mean
/// share of active nodes of 2017-12-01 to 12-14 (local days) by a plain loop.
#[test]
fn the_real_inventory_and_node_sequence() {
    let (Some(official), Some(revised), Some(nodes)) = (
        real_trace("philly/cluster_machine_list.csv"),
        real_trace("philly/revised_machine_list.csv"),
        real_trace("philly/philly_node_sequence.csv.gz"),
    ) else {
        return;
    };
    let count = |path: &PathBuf| {
        let trace = read(std::slice::from_ref(path)).unwrap();
        let nodes = trace.nodes.node.iter().map(|node| node.unwrap().to_owned()).collect::<Vec<_>>();
        nodes.into_iter().zip(trace.nodes.gpus.iter().collect::<Vec<_>>()).collect::<BTreeMap<_, _>>()
    };
    let (before, after) = (count(&official), count(&revised));
    let twos: Vec<&String> = before.iter().filter(|(_, gpus)| **gpus == Some(2.0)).map(|(node, _)| node).collect();
    let eights = twos.iter().filter(|node| after[**node] == Some(8.0)).count();
    assert_eq!((before.len(), twos.len(), eights), (552, 321, 238));
    let both = read(&[official, revised]).unwrap();
    assert_eq!(both.nodes.gpus.iter().flatten().sum::<f64>(), after.values().flatten().sum::<f64>());

    let file = flate2::read::MultiGzDecoder::new(std::fs::File::open(&nodes).unwrap());
    let (mut sum, mut rows) = (0.0, 0);
    // Most used within each ten minutes: what the published figure averages.
    let mut slots: BTreeMap<String, f64> = BTreeMap::new();
    for row in csv::Reader::from_reader(file).records() {
        let row = row.unwrap();
        if ("2017-12-01".."2017-12-15").contains(&&row[0][..10]) {
            let used = row[1].parse::<f64>().unwrap() / row[2].parse::<f64>().unwrap();
            sum += used;
            rows += 1;
            let slot = slots.entry(row[0][..15].to_owned()).or_default();
            *slot = slot.max(used);
        }
    }
    let trace = read(&[nodes]).unwrap();
    check(&trace);
    let from = parse_with_offset("2017-12-01 00:00:00-08:00").unwrap();
    let to = parse_with_offset("2017-12-15 00:00:00-08:00").unwrap();
    let activity = &trace.activity;
    let ours: Vec<f64> = (0..activity.ts.len())
        .filter(|ix| (from..to).contains(&activity.ts.get(*ix).unwrap()))
        .map(|ix| activity.nodes_active.get(ix).unwrap() / activity.nodes_total.get(ix).unwrap())
        .collect();
    assert_eq!((ours.len(), ours.iter().sum::<f64>()), (rows, sum));
    assert_eq!(format!("{:.2}", 100.0 * slots.values().sum::<f64>() / slots.len() as f64), "68.98");
    // One minute in each row of the hour that happened twice: 60 repairs.
    assert_eq!(trace.ledger.count("dst_fold"), 60);
}
