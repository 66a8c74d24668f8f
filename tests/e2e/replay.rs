//! Replay of a real Slurm: the recorded jobs under `--scan slurm`, start by start.
//!
//! The replay is told what `sacct` says of submissions, runs, time limits and nodes asked for, and when the backfill looked at the queue.
//! The latter is in no record; its first moment and its period (2.000 to 2.030 s, as each look takes some milliseconds) are those that explain most
//! recorded start seconds. That is all that is taken from recorded starts: two numbers for 160 jobs.

use std::collections::BTreeSet;

use tracecast_analytics::Trace;
use tracecast_analytics::ingest::slurm::hostlist;
use tracecast_planner::replay::fidelity::kendall_tau_b;
use tracecast_planner::replay::input::{LimitFile, Loaded, Options, Site, load};
use tracecast_planner::sim::{Estimate, Order, Policy, Scan, Schedule, Weights, simulate};

use crate::recording::{self, INTERVAL, WARM_UP, looks};

const NODES: &str = "[[vc]]\nname = \"*\"\nnodes = 4\ngpus_per_node = 8\n";

/// Agreement of a replay with the record.
pub(crate) struct Agreement {
    pub(crate) median_s: i64,
    most_s: i64,
    pub(crate) tau: f64,
}

impl std::fmt::Display for Agreement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { median_s, most_s, tau } = self;
        write!(f, "|start error| median {median_s} s, most {most_s} s; order of starts τ-b = {tau:.4}")
    }
}

/// Replays the recorded jobs of `trace` and demands that starts are met within the scheduling interval and their order is.
pub(crate) fn agrees(trace: &Trace) {
    let mut loaded = jobs(trace);
    let period_ms = align(&mut loaded);

    let slurm = |scan| Policy { scan, ..slurm(Weights::default(), period_ms) };
    let mut found = None;
    for (name, scan) in [
        ("slurm", Scan::Slurm),
        ("conservative", Scan::Conservative),
        ("EASY", Scan::Easy),
        ("strict", Scan::Strict),
        ("skip", Scan::Skip),
    ] {
        let schedule = simulate(&loaded.workload, &loaded.cluster, &slurm(scan)).unwrap();
        let agreement = compare(&loaded, &schedule);
        println!("scan {name:<12} {agreement}");
        found.get_or_insert(agreement);
    }
    let submitted = loaded.workload.submit_ms.iter().zip(&loaded.recorded_start_ms);
    let tau = kendall_tau_b(submitted.map(|(submit, start)| (start.unwrap(), *submit)).collect()).unwrap();
    println!("order of submission alone: τ-b = {tau:.4}");

    let Agreement { median_s, tau, .. } = found.unwrap();
    assert!(median_s <= INTERVAL.as_secs() as i64, "median error of a start {median_s} s");
    assert!(tau >= 0.95, "order of starts τ-b = {tau}");
}

/// The recorded jobs, so many, on `nodes` (TOML) under these limits, where time 0 is a look of the backfill; and the period of looks, milliseconds.
pub(crate) fn under_limits(trace: &Trace, limits: &str, nodes: &str, jobs: u64) -> (Loaded, i64) {
    let recorded = |name: &str| !WARM_UP.contains(&name);
    let limits = LimitFile::parse("limits.txt", limits).unwrap();
    let options = Options {
        from_ms: first_ms(trace, recorded),
        gangs_as_recorded: true,
        limits: Some(std::sync::Arc::new(limits)),
        ..Options::default()
    };
    let mut loaded = load(trace, Some(&Site::parse("lab", nodes).unwrap()), &options).unwrap();
    assert_eq!(loaded.workload.len() as u64, jobs, "{:?}", loaded.excluded);
    let period_ms = align(&mut loaded);
    (loaded, period_ms)
}

/// Makes time 0 a look of the backfill, the last before the first submission; the period of looks, milliseconds.
pub(crate) fn align(loaded: &mut Loaded) -> i64 {
    let starts_s: Vec<i64> = loaded.recorded_start_ms.iter().flatten().map(|start| start / 1000).collect();
    let (phase_ms, period_ms, hits) = looks(&starts_s);
    let before_ms = period_ms - phase_ms;
    loaded.workload.origin_ms -= before_ms;
    loaded.workload.submit_ms.iter_mut().for_each(|submit| *submit += before_ms);
    loaded.recorded_start_ms.iter_mut().flatten().for_each(|start| *start += before_ms);
    println!(
        "the backfill looked {phase_ms} ms after the first submission and every {period_ms} ms: that explains {hits} of {} start seconds",
        loaded.rows.len()
    );
    period_ms
}

/// Policy of the lab's Slurm: backfill by time limits at looks that are `period_ms` apart, in the
/// order of these weights.
pub(crate) fn slurm(weights: Weights, period_ms: i64) -> Policy {
    Policy {
        order: Order::Multifactor(weights),
        scan: Scan::Slurm,
        estimate: Estimate::Requested,
        interval_ms: Some(period_ms),
        ..Policy::default()
    }
}

/// The nodes that a job had, counted from 0, of a lab whose nodes are n1, n2 and so on.
pub(crate) fn recorded_nodes(trace: &Trace, loaded: &Loaded, job: u32) -> BTreeSet<u32> {
    let list = trace.jobs.nodes_hostlist.get(loaded.rows[job as usize] as usize).unwrap();
    let number = |name: String| name.trim_start_matches('n').parse::<u32>().unwrap() - 1;
    hostlist::expand(list, 100).unwrap().into_iter().map(number).collect()
}

/// The first submission of jobs with such names.
pub(crate) fn first_ms(trace: &Trace, such: impl Fn(&str) -> bool) -> Option<i64> {
    let is_such = |ix: &usize| trace.jobs.name.get(*ix).is_some_and(&such);
    (0..trace.jobs.submit.len()).filter(is_such).filter_map(|ix| trace.jobs.submit.get(ix)).min()
}

/// The jobs but for those that warm the lab up, on its 4 nodes.
fn jobs(trace: &Trace) -> Loaded {
    let first = first_ms(trace, |name| !WARM_UP.contains(&name));
    let options = Options { from_ms: first, gangs_as_recorded: true, ..Options::default() };
    let loaded = load(trace, Some(&Site::parse("lab", NODES).unwrap()), &options).unwrap();
    assert!(loaded.workload.warm.is_empty() && loaded.workload.len() >= 150, "{} jobs", loaded.workload.len());
    assert!(loaded.workload.requested_ms.iter().all(Option::is_some));
    loaded
}

pub(crate) fn compare(loaded: &Loaded, schedule: &Schedule) -> Agreement {
    // sacct cuts a start off to the whole second.
    let second = |ms: i64| (loaded.workload.origin_ms + ms).div_euclid(1000);
    let pairs: Vec<(i64, i64)> = loaded
        .recorded_start_ms
        .iter()
        .enumerate()
        .map(|(job, recorded)| (second(recorded.unwrap()), second(schedule.start_ms(job).unwrap())))
        .collect();
    let mut errors: Vec<i64> = pairs.iter().map(|(recorded, replayed)| (recorded - replayed).abs()).collect();
    errors.sort_unstable();
    Agreement {
        median_s: errors[errors.len() / 2],
        most_s: errors[errors.len() - 1],
        tau: kendall_tau_b(pairs).unwrap(),
    }
}

/// A recording made before: `TRACECAST_SLURM_RECORDING` names it (`slurm-recording.txt`, as the test above leaves it).
#[test]
fn a_recording_made_before_is_replayed() {
    if let Some(trace) = recording::made_before("TRACECAST_SLURM_RECORDING") {
        agrees(&trace);
    }
}
