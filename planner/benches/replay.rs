//! How fast the engine replays, and how that grows: `cargo bench -p tracecast-planner --bench replay`.
//!
//! Jobs are drawn from a fixed law (Poisson arrivals; 1, 2, 4, 8, 16, 32 GPUs for 68, 10, 9, 10, 2, 1 % of jobs; run times lognormal,
//! median 10 min, mean about 75 min) for one pool of 10,000 GPUs (1,250 nodes of 8) at a load of 0.95. Each line is the least of
//! some runs on one thread. With the argument `growth`, FIFO and EASY go on to ten million jobs. With `hosts` only 100,000 jobs are replayed, with GPUs alone
//! and with processors and memory, on nodes that always have enough of both and on nodes that often have not. With `cells` only 100,000 jobs are replayed, in
//! buddy cells, on nodes that lie in no rack and on nodes in racks of 16 and blocks of 8 racks. With `backfill` only Philly is replayed,
//! under the scans that reserve for every waiting job.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::path::{Path, PathBuf};
use std::time::Instant;

use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp, LogNormal};
use tracecast_analytics::ingest::{self, ReadOptions};
use tracecast_analytics::time::parse_with_offset;
use tracecast_planner::replay::input::{Loaded, Options, load};
use tracecast_planner::sim::{
    Cluster, Estimate, HostNeed, HostRoom, Order, Placement, Policy, Scan, Shape, Topology, Workload, simulate,
};

const NODES: u32 = 1250;
const LOAD: f64 = 0.95;

fn workload(jobs: usize, load: f64) -> Workload {
    let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(3);
    let length = LogNormal::new(600f64.ln(), 2.0).unwrap();
    let sizes = [(0.68, 1), (0.78, 2), (0.87, 4), (0.97, 8), (0.99, 16), (1.0, 32)];
    let mut drawn: Vec<(f64, u32)> = Vec::with_capacity(jobs);
    for _ in 0..jobs {
        let at: f64 = random.random();
        let gpus = sizes.iter().find(|(upto, _)| at < *upto).map_or(1, |(_, gpus)| *gpus);
        drawn.push((length.sample(&mut random).min(1e6).round().max(1.0), gpus));
    }
    let work: f64 = drawn.iter().map(|(run, gpus)| run * f64::from(*gpus)).sum();
    let gap = Exp::new(jobs as f64 * load * f64::from(NODES * 8) / work).unwrap();
    let mut workload = Workload::default();
    let mut now = 0.0;
    for (run, gpus) in drawn {
        now += gap.sample(&mut random);
        workload.push((now * 1000.0) as i64, (run * 1000.0) as i64, Shape::whole(gpus));
    }
    workload
}

/// The same jobs, which ask for one of three amounts of processors and memory for each GPU, on nodes with so many cores.
fn beside(workload: &Workload, cluster: &Cluster, cores: u32) -> (Workload, Cluster) {
    let amounts = [(8, 60), (12, 90), (16, 40)];
    let (mut workload, mut cluster) = (workload.clone(), cluster.clone());
    let shapes = workload.shapes.len() as u16;
    let of = |(cores, gib): (u32, u32)| HostNeed { cores_milli: cores * 1000, memory_mib: gib * 1024 };
    workload.shapes = amounts
        .iter()
        .flat_map(|amount| workload.shapes.iter().map(|shape| Shape { host: of(*amount), ..*shape }))
        .collect();
    for (job, shape) in workload.shape.iter_mut().enumerate() {
        *shape += shapes * (job % amounts.len()) as u16;
    }
    for group in cluster.pools.iter_mut().flat_map(|pool| &mut pool.groups) {
        group.host = HostRoom { cores_milli: Some(cores * 1000), memory_mib: Some(768 * 1024) };
    }
    (workload, cluster)
}

/// 100,000 jobs with GPUs alone, and with processors and memory.
fn hosts() {
    let cluster = Cluster::of_vcs(&[("all", NODES, 8)]);
    let jobs = workload(100_000, LOAD);
    let roomy = beside(&jobs, &cluster, 128);
    let short = beside(&jobs, &cluster, 100);
    for (name, policy) in [
        ("FIFO", Policy::default()),
        ("FIFO, skip", Policy { scan: Scan::Skip, ..Policy::default() }),
        ("EASY", Policy { scan: Scan::Easy, ..Policy::default() }),
        ("FIFO, FGD", Policy { placement: Placement::Fragmentation, ..Policy::default() }),
    ] {
        measure(name, &jobs, &cluster, &policy, 5);
        measure(&format!("{name}, 128 cores"), &roomy.0, &roomy.1, &policy, 5);
        measure(&format!("{name}, 100 cores"), &short.0, &short.1, &policy, 5);
    }
}

/// 100,000 jobs in buddy cells, on nodes in no rack and in racks and blocks, consolidated beside.
fn cells() {
    let plain = Cluster::of_vcs(&[("all", NODES, 8)]);
    let racks = Topology::regular(vec!["block".to_owned(), "rack".to_owned()], &[8, 16], NODES).unwrap();
    let racks = Cluster { topology: Some(racks), ..plain.clone() };
    let jobs = workload(100_000, LOAD);
    for (name, scan) in [("FIFO", Scan::Strict), ("FIFO, skip", Scan::Skip), ("EASY", Scan::Easy)] {
        let consolidated = Policy { scan, ..Policy::default() };
        let buddy = Policy { placement: Placement::Buddy, ..consolidated.clone() };
        measure(name, &jobs, &plain, &consolidated, 3);
        measure(&format!("{name}, buddy"), &jobs, &plain, &buddy, 3);
        measure(&format!("{name}, buddy, racks"), &jobs, &racks, &buddy, 3);
    }
}

/// Philly under the scans that reserve for all waiting jobs, as a decision every minute plans, with and without Slurm's usual bounds.
fn backfill() {
    let Some(loaded) = philly() else { return };
    let minute = Policy { interval_ms: Some(60_000), ..Policy::default() };
    let (depth, window_ms) = (Some(500), Some(86_400_000));
    for (name, scan) in [("slurm", Scan::Slurm), ("conservative", Scan::Conservative)] {
        let all = Policy { scan, ..minute.clone() };
        measure(&format!("Philly, {name}"), &loaded.workload, &loaded.cluster, &all, 1);
        let bounded = Policy { depth, window_ms, ..all };
        measure(&format!("Philly, {name} 500, 1 d"), &loaded.workload, &loaded.cluster, &bounded, 1);
    }
}

/// Most memory this process had, bytes.
fn peak() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<f64>().ok()).unwrap_or(0.0) * 1024.0
}

fn measure(name: &str, workload: &Workload, cluster: &Cluster, policy: &Policy, runs: usize) {
    let mut best = f64::INFINITY;
    let mut wait = 0.0;
    for _ in 0..runs {
        let began = Instant::now();
        let schedule = simulate(workload, cluster, policy).unwrap();
        best = best.min(began.elapsed().as_secs_f64());
        let waits = (0..workload.len()).filter_map(|job| Some(schedule.start_ms(job)? - workload.submit_ms[job]));
        wait = waits.sum::<i64>() as f64 / 1000.0 / workload.len() as f64;
    }
    let each = best / workload.len() as f64 * 1e9;
    println!(
        "{name:<24} {:>10} jobs {best:>8.3} s {each:>7.0} ns/job   mean wait {wait:>9.1} s   peak {:>6.0} MiB",
        workload.len(),
        peak() / 1_048_576.0
    );
}

/// The jobs of Philly's 11 VCs of known size, submitted in October and November 2017, on those VCs; `None` without the trace.
fn philly() -> Option<Loaded> {
    let root = std::env::var_os("TRACECAST_TRACES")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/traces"), PathBuf::from);
    let files: Vec<PathBuf> = ["philly_jobs.csv.gz", "philly_vc.csv"].map(|name| root.join("philly").join(name)).into();
    if !files.iter().all(|file| file.exists()) {
        println!("Philly is skipped: set TRACECAST_TRACES to a folder with the public traces");
        return None;
    }
    let trace = ingest::read(&ingest::expand(&files).unwrap(), &ReadOptions::default()).unwrap();
    let day = |text: &str| parse_with_offset(text).unwrap();
    let window = Options {
        from_ms: Some(day("2017-10-01T00:00:00Z")),
        to_ms: Some(day("2017-12-01T00:00:00Z")),
        whole_seconds: true,
        ..Options::default()
    };
    Some(load(&trace, None, &window).unwrap())
}

fn orders(loaded: &Loaded) {
    for (name, order) in [("Philly, FIFO", Order::Fifo), ("Philly, SJF", Order::Sjf), ("Philly, QSSF", Order::Qssf)] {
        let policy = Policy { order, ..Policy::default() };
        measure(name, &loaded.workload, &loaded.cluster, &policy, 9);
    }
    let easy = Policy { scan: Scan::Easy, ..Policy::default() };
    measure("Philly, EASY", &loaded.workload, &loaded.cluster, &easy, 9);
}

fn main() {
    if std::env::args().any(|argument| argument == "hosts") {
        return hosts();
    }
    if std::env::args().any(|argument| argument == "cells") {
        return cells();
    }
    if std::env::args().any(|argument| argument == "backfill") {
        return backfill();
    }
    if let Some(loaded) = philly() {
        orders(&loaded);
    }
    let cluster = Cluster::of_vcs(&[("all", NODES, 8)]);
    let fifo = Policy::default();
    let sjf = Policy { order: Order::Sjf, ..Policy::default() };
    let qssf = Policy { order: Order::Qssf, estimate: Estimate::True, ..Policy::default() };
    let skip = Policy { scan: Scan::Skip, ..Policy::default() };
    let easy = Policy { scan: Scan::Easy, ..Policy::default() };
    let million = workload(1_000_000, LOAD);
    for (name, policy) in [("FIFO", &fifo), ("SJF", &sjf), ("QSSF", &qssf), ("FIFO skip", &skip), ("EASY", &easy)] {
        measure(name, &million, &cluster, policy, 3);
    }
    let crowded = workload(1_000_000, 1.1);
    for (name, policy) in [("FIFO, load 1.1", &fifo), ("QSSF, load 1.1", &qssf), ("EASY, load 1.1", &easy)] {
        measure(name, &crowded, &cluster, policy, 1);
    }
    if std::env::args().any(|argument| argument == "growth") {
        for jobs in [100_000, 1_000_000, 3_000_000, 10_000_000] {
            let workload = workload(jobs, LOAD);
            measure("FIFO", &workload, &cluster, &fifo, 1);
            measure("EASY", &workload, &cluster, &easy, 1);
        }
    }
}
