//! Helios: job log, daily capacity and minute series. Traps: 16 (durations recomputed), 25 (still running), 26 (zero and
//! negative lengths), 27 (renamed VC, daily capacity), 28 (cut-off row).

use std::collections::BTreeMap;
use std::path::PathBuf;

use tracecast_tests::{check, conform, read, real_trace, render};

/// Shanghai is UTC+8: 08:00 is 00:00 UTC. Job 2 never started and is a CPU job (0 GPUs, known). Job 3 took 0 s (trap 26).
/// Job 4 ends an hour before it starts: end unknown, and its negative duration too. Job 5 still runs (trap 25). Job 6
/// starts a minute before its submission; `SUSPENDED` holds its resources. The repeat of job 1 is quarantined.
///
/// Capacity (trap 27): vcAa 16 on 1-2 April, 24 on 3-4 April, and, after a missing day, 24 on 6 April. Local midnight is
/// 16:00 UTC the day before. The VCs of 4 April add up to 24, not 25; the second 4 April is a repeat.
#[test]
fn jobs_and_capacity() {
    let trace = conform("helios", &["helios/cluster_log.csv", "helios/cluster_gpu_number.csv"]);
    insta::assert_snapshot!(render(&trace), @r"
    jobs (6 rows)
      job_key=1 user=u1 vc=vcAa state=completed reported_state=COMPLETED submit=2020-04-01 00:00:00 start=2020-04-01 00:10:00 end=2020-04-01 01:10:00 req_nodes=1 req_cpus=32 req_gpus=8 alloc_nodes=1 alloc_cpus=32 alloc_gpus=8 run_s=3600 reported_run_s=3600 reported_wait_s=600
      job_key=2 user=u2 vc=vcAa state=cancelled reported_state=CANCELLED submit=2020-04-01 01:00:00 end=2020-04-01 01:05:00 attempts=0 req_nodes=1 req_cpus=4 req_gpus=0 reported_wait_s=300
      job_key=3 user=u1 vc=vcGone state=failed reported_state=FAILED submit=2020-04-01 16:00:00 start=2020-04-01 16:00:01 end=2020-04-01 16:00:01 req_nodes=1 req_cpus=4 req_gpus=1 alloc_nodes=1 alloc_cpus=4 alloc_gpus=1 run_s=0 reported_run_s=0 reported_wait_s=1
      job_key=4 user=u1 vc=vcBb state=node_fail reported_state=NODE_FAIL submit=2020-04-03 04:00:00 start=2020-04-03 04:00:00 req_nodes=2 req_cpus=64 req_gpus=16 alloc_nodes=2 alloc_cpus=64 alloc_gpus=16 reported_wait_s=0
      job_key=5 user=u3 vc=vcBb state=running reported_state=RUNNING submit=2020-04-03 16:00:00 start=2020-04-03 16:01:00 censored=1 req_nodes=1 req_cpus=16 req_gpus=4 alloc_nodes=1 alloc_cpus=16 alloc_gpus=4 reported_wait_s=60
      job_key=6 user=u3 vc=vcBb state=running reported_state=SUSPENDED submit=2020-04-03 17:00:00 start=2020-04-03 16:59:00 end=2020-04-03 18:00:00 req_nodes=1 req_cpus=16 req_gpus=1 alloc_nodes=1 alloc_cpus=16 alloc_gpus=1 run_s=3660 reported_run_s=3660
    capacity (6 rows)
      scope=vc name=vcAa from=2020-03-31 16:00:00 to=2020-04-02 16:00:00 gpus=16 state=up
      scope=vc name=vcBb from=2020-03-31 16:00:00 to=2020-04-02 16:00:00 gpus=8 state=up
      scope=vc name=vcAa from=2020-04-02 16:00:00 to=2020-04-04 16:00:00 gpus=24 state=up
      scope=vc name=vcBb from=2020-04-02 16:00:00 to=2020-04-04 16:00:00 gpus=0 state=up
      scope=vc name=vcAa from=2020-04-05 16:00:00 to=2020-04-06 16:00:00 gpus=24 state=up
      scope=vc name=vcBb from=2020-04-05 16:00:00 to=2020-04-06 16:00:00 gpus=8 state=up
    quality: read 13 = kept 8 + repaired 3 + quarantined 2
      Quarantined duplicate_row × 2 (lines 8, 6)
      Repaired negative_value × 2 (lines 5, 7)
      Repaired end_before_start × 1 (lines 5)
      Repaired start_before_submit × 1 (lines 7)
      Repaired total_differs × 1 (lines 5)
    ");
    // vcGone has no column. vcBb had 0 GPUs when jobs 4, 5 and 6 were submitted (3 and 4 April).
    let notes: Vec<&String> = trace.notes.iter().filter(|note| note.contains("left as it is")).collect();
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(notes[0].contains("1 jobs belong to VC vcGone"), "{notes:?}");
    assert!(notes[1].contains("3 jobs were submitted to VC vcBb while it had 0 GPUs"), "{notes:?}");
}

/// Earth and Venus each have a job 1 and a VC vcAa; read together they stay apart. Only Venus' capacity is given.
#[test]
fn two_clusters_do_not_mix() {
    let names =
        ["helios/two/earth_cluster_log.csv", "helios/two/venus_cluster_log.csv", "helios/two/venus_gpu_number.csv"];
    let trace = conform("helios", &names);
    insta::assert_snapshot!(render(&trace), @r"
    jobs (2 rows)
      cluster=earth job_key=earth/1 user=u1 vc=earth/vcAa state=completed reported_state=COMPLETED submit=2020-04-01 00:00:00 start=2020-04-01 00:10:00 end=2020-04-01 01:10:00 req_nodes=1 req_cpus=32 req_gpus=8 alloc_nodes=1 alloc_cpus=32 alloc_gpus=8 run_s=3600 reported_run_s=3600 reported_wait_s=600
      cluster=venus job_key=venus/1 user=u1 vc=venus/vcAa state=failed reported_state=FAILED submit=2020-04-01 00:00:01 start=2020-04-01 00:10:00 end=2020-04-01 01:10:00 req_nodes=1 req_cpus=4 req_gpus=1 alloc_nodes=1 alloc_cpus=4 alloc_gpus=1 run_s=3600 reported_run_s=3600 reported_wait_s=599
    capacity (1 rows)
      scope=vc name=venus/vcAa from=2020-03-31 16:00:00 to=2020-04-01 16:00:00 gpus=16 state=up
    quality: read 3 = kept 3 + repaired 0 + quarantined 0
    ");
    assert!(trace.notes.iter().any(|note| note.contains("1 jobs belong to VC earth/vcAa")), "{:?}", trace.notes);
}

/// 00:00 in Shanghai is 16:00 UTC the day before. 59 of 64 GPUs; an idle minute is 0, not unknown; a ratio above 1 is
/// impossible; the last row is cut off (trap 28).
#[test]
fn minute_series() {
    let trace = conform("helios-activity", &["helios/earth_vc_1min/vc3sl.csv"]);
    insta::assert_snapshot!(render(&trace), @r"
    activity (3 rows)
      scope=vc name=vc3sl ts=2020-04-30 16:00:00 jobs_running=11 jobs_pending=1 gpus_total=64 gpus_running=59 gpus_pending=8 gpus_idle=5 reported_util_ratio=0.922
      scope=vc name=vc3sl ts=2020-04-30 16:01:00 jobs_running=0 jobs_pending=0 gpus_total=64 gpus_running=0 gpus_pending=0 gpus_idle=64 reported_util_ratio=0
      scope=vc name=vc3sl ts=2020-04-30 16:02:00 jobs_running=12 jobs_pending=0 gpus_total=64 gpus_running=72 gpus_pending=0 gpus_idle=0
    quality: read 4 = kept 2 + repaired 1 + quarantined 1
      Quarantined field_count × 1 (lines 5)
      Repaired out_of_range × 1 (lines 4)
    ");
}

/// Mean reported utilisation of each of the eight Earth VCs, May 2020, against a plain loop over the files.
#[test]
fn the_real_earth_minutes() {
    let names = ["vc3sl", "vc6YE", "vcMod", "vcSoL", "vcTJs", "vccaA", "vcdI0", "vcvlY"];
    let paths: Vec<PathBuf> =
        names.iter().filter_map(|name| real_trace(&format!("helios/earth_vc_1min/{name}.csv.gz"))).collect();
    if paths.len() < names.len() {
        return;
    }
    let mut expected: BTreeMap<String, (f64, u64)> = BTreeMap::new();
    for (name, path) in names.iter().zip(&paths) {
        let file = flate2::read::MultiGzDecoder::new(std::fs::File::open(path).unwrap());
        let mut rows = csv::Reader::from_reader(file);
        let at = rows.headers().unwrap().iter().position(|column| column == "gpu_utilization").unwrap();
        for row in rows.records() {
            let entry = expected.entry((*name).to_owned()).or_default();
            entry.0 += row.unwrap()[at].parse::<f64>().unwrap();
            entry.1 += 1;
        }
    }
    let trace = read(&paths).unwrap();
    check(&trace);
    assert_eq!(trace.ledger.kept, trace.ledger.read);
    let activity = &trace.activity;
    let mut ours: BTreeMap<String, (f64, u64)> = BTreeMap::new();
    for ix in 0..activity.ts.len() {
        let entry = ours.entry(activity.name.get(ix).unwrap().to_owned()).or_default();
        entry.0 += activity.reported_util_ratio.get(ix).unwrap();
        entry.1 += 1;
    }
    assert_eq!(ours, expected);
    // Published for the whole month: 90.3 % for vc6YE, the largest VC.
    let (sum, count) = ours["vc6YE"];
    assert_eq!(format!("{:.1}", 100.0 * sum / count as f64), "90.3");
}

/// GPU-days of each VC of the real daily tables against a plain loop; the intervals hold neither more nor fewer.
#[test]
fn the_real_daily_capacity() {
    for name in ["helios/Earth_gpu_number.csv", "helios/Venus_cluster_gpu_number.csv"] {
        let Some(path) = real_trace(name) else { return };
        let mut rows = csv::Reader::from_path(&path).unwrap();
        let names: Vec<String> = rows.headers().unwrap().iter().map(str::to_owned).collect();
        let mut expected: BTreeMap<String, f64> = BTreeMap::new();
        for row in rows.records() {
            for (name, cell) in names.iter().zip(&row.unwrap()) {
                if name.starts_with("vc") {
                    *expected.entry(name.clone()).or_default() += cell.parse::<f64>().unwrap();
                }
            }
        }
        let trace = read(&[path]).unwrap();
        check(&trace);
        assert_eq!((trace.ledger.read, trace.ledger.kept), (181, 181));
        let capacity = &trace.capacity;
        let mut ours: BTreeMap<String, f64> = BTreeMap::new();
        for ix in 0..capacity.from.len() {
            let days = (capacity.to.get(ix).unwrap() - capacity.from.get(ix).unwrap()) as f64 / 86_400_000.0;
            *ours.entry(capacity.name.get(ix).unwrap().to_owned()).or_default() +=
                days * capacity.gpus.get(ix).unwrap();
        }
        assert_eq!(ours, expected);
        assert!(capacity.from.len() < 181 * ours.len() / 10, "equal days are joined");
    }
}

/// Means of the `gpu_utilization` columns as published with the series (May 2020, percent), and the pooling figures
/// against a recount minute by minute in whole GPUs.
#[test]
fn published_utilisations_of_earth_and_a_recount_of_poolable_waiting() {
    let Some(folder) = real_trace("helios/earth_vc_1min") else { return };
    let trace = read(&[folder]).unwrap();
    let description = tracecast_analytics::describe::Description::new(&trace);
    let vcs = description.vc.unwrap().vcs;
    for (name, percent) in
        [("vc6YE", 90.3), ("vcvlY", 67.4), ("vc3sl", 62.7), ("vcMod", 51.3), ("vcTJs", 73.0), ("vcSoL", 47.6)]
    {
        let vc = vcs.iter().find(|vc| vc.vc.ends_with(name)).unwrap();
        // As published, over all samples; the description leaves out those of an outage of the counting.
        let rows = (0..trace.activity.ts.len()).filter(|row| trace.activity.name.get(*row) == Some(vc.vc.as_str()));
        let all: Vec<f64> = rows.filter_map(|row| trace.activity.reported_util_ratio.get(row)).collect();
        let published = 100.0 * all.iter().sum::<f64>() / all.len() as f64;
        assert!((published - percent).abs() < 0.05, "{name}: {published} instead of {percent}");
        let reported = 100.0 * vc.reported_utilisation_mean.unwrap();
        // Derived from GPUs running over GPUs there are; the published column is rounded to three digits.
        assert!((100.0 * vc.utilisation.unwrap().mean - reported).abs() < 0.05);
    }
    let mut minutes: BTreeMap<i64, Vec<(i64, i64)>> = BTreeMap::new();
    let mut use_of: BTreeMap<i64, (f64, f64)> = BTreeMap::new();
    let activity = &trace.activity;
    for row in 0..activity.ts.len() {
        let (pending, idle) = (activity.gpus_pending.get(row).unwrap(), activity.gpus_idle.get(row).unwrap());
        let sums = use_of.entry(activity.ts.get(row).unwrap()).or_default();
        *sums = (sums.0 + activity.gpus_running.get(row).unwrap(), sums.1 + activity.gpus_total.get(row).unwrap());
        minutes.entry(activity.ts.get(row).unwrap()).or_default().push((pending as i64, idle as i64));
    }
    let (mut all, mut poolable, mut covered, mut joint) = (0, 0, 0, 0);
    // The one stretch at zero is an outage of the counting.
    minutes.retain(|ts, _| use_of[ts].0 > 0.02 * use_of[ts].1);
    for vcs in minutes.values() {
        let (pending, idle): (i64, i64) = vcs.iter().fold((0, 0), |sum, vc| (sum.0 + vc.0, sum.1 + vc.1));
        let cut = vcs.iter().map(|(p, i)| pending - p + idle - i).min().unwrap();
        joint += pending.min(idle).min(cut);
        for (p, i) in vcs {
            all += p;
            poolable += p.min(&(idle - i));
            covered += if idle - i >= *p { *p } else { 0 };
        }
    }
    let pool = description.pool.unwrap();
    let near =
        |share: f64, part: i64| assert!((share - part as f64 / all as f64).abs() < 1e-9, "{share} {part} of {all}");
    near(pool.poolable_share, poolable);
    near(pool.covered_share, covered);
    near(pool.jointly_poolable_share, joint);
    assert!((pool.pending_gpu_hours - all as f64 / 60.0).abs() < 1e-6);
}

/// The table of GPUs by day is known by its form: a date, numbers, and a total they add up to. A budget with a total that
/// does not add up is none.
#[test]
fn capacity_is_known_by_its_form() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cluster_gpu_number.csv");
    std::fs::write(&path, "date,vision,nlp,total\n2020-04-01,16,8,24\n2020-04-02,16,16,32\n").unwrap();
    let trace = tracecast_tests::read(std::slice::from_ref(&path)).unwrap();
    assert_eq!(trace.sources[0].reader, "helios");
    assert_eq!(trace.capacity.name.iter().collect::<Vec<_>>(), [Some("vision"), Some("nlp"), Some("nlp")]);
    assert_eq!(trace.capacity.gpus.iter().collect::<Vec<_>>(), [Some(16.0), Some(8.0), Some(16.0)]);
    std::fs::write(&path, "date,income,costs,total\n2020-04-01,16,8,8\n2020-04-02,16,16,0\n").unwrap();
    assert!(tracecast_tests::read(&[path]).is_err());
}

/// A job cancelled while it waited is written with its cancellation as start and end: it never started.
#[test]
fn jobs_cancelled_in_the_queue_never_started() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cluster_log.csv");
    let header = "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue";
    let row = "1,u,v,8,32,1,CANCELLED,2020-04-01 00:00:00,2020-04-01 01:00:00,2020-04-01 01:00:00,0,3600";
    std::fs::write(&path, format!("{header}\n{row}\n")).unwrap();
    let jobs = tracecast_tests::read(&[path]).unwrap().jobs;
    assert_eq!((jobs.start.get(0), jobs.run_s.get(0), jobs.waited_in_vain_s(0)), (None, None, Some(3_600.0)));
    assert_eq!((jobs.req_gpus.get(0), jobs.alloc_gpus.get(0)), (Some(8.0), None));
}
