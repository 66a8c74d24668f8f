//! Logs of processors without GPUs: one that another simulator has replayed, with the mean waits that it published.

use std::io::Read as _;

use tracecast_analytics::schema::Resource;
use tracecast_planner::replay::input::{Loaded, Options, load};
use tracecast_planner::replay::metric::evaluate;
use tracecast_planner::sim::{Estimate, Order, Policy, simulate};
use tracecast_tests::{read, real_trace};

/// (jobs, mean wait in seconds).
fn waits(loaded: &Loaded, order: Order) -> (u64, f64) {
    let policy = Policy { order, estimate: Estimate::Requested, ..Policy::default() }.on(loaded.resource);
    let schedule = simulate(&loaded.workload, &loaded.cluster, &policy).unwrap();
    let overall = evaluate(&loaded.workload, &loaded.cluster, &schedule, 0).unwrap().metrics.overall;
    (overall.group.jobs, overall.group.wait.unwrap().mean_s)
}

/// The first 3,170 jobs of HPC2N Seth on its 240 processors. AccaSim publishes 5,579.96 s under FIFO and 3,439.83 s under shortest job first
/// (by the time asked for).
#[test]
fn processors_wait_as_long_as_in_another_simulator() {
    let Some(path) = real_trace("swf_hpc2n/hpc2n_first_3170.swf.gz") else { return };
    let workload = load(&read(std::slice::from_ref(&path)).unwrap(), None, &Options::default()).unwrap();
    assert_eq!((workload.resource, workload.cluster.most_gpus()), (Resource::Cpus, 240));
    // As the log is: 25 jobs whose run is unknown are left out, and 213 hold another number of processors than they asked for.
    let (jobs, fifo) = waits(&workload, Order::Fifo);
    assert_eq!(jobs, 3_145);
    assert!((fifo - 5_579.96).abs() < 0.01 * 5_579.96, "{fifo}");
    // As AccaSim takes it, every job holds what it asked for and an unknown run is one of 0 s: then nothing is left to differ by.
    let mut log = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(&path).unwrap()).read_to_string(&mut log).unwrap();
    let row = |line: &str| -> String {
        let mut fields: Vec<&str> = line.split_whitespace().collect();
        if line.starts_with(';') || fields.len() != 18 {
            return line.to_owned();
        }
        (fields[4], fields[10]) = ("-1", "1");
        if fields[3] == "-1" {
            fields[3] = "0";
        }
        fields.join(" ")
    };
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("seth.swf");
    std::fs::write(&file, log.lines().map(row).collect::<Vec<_>>().join("\n")).unwrap();
    let same = load(&read(&[file]).unwrap(), None, &Options::default()).unwrap();
    let ((jobs, fifo), (_, sjf)) = (waits(&same, Order::Fifo), waits(&same, Order::Sjf));
    println!("{jobs} jobs wait {fifo:.3} s under FIFO and {sjf:.3} s under SJF; published are 5579.96 and 3439.83");
    // To the two decimals that are published, which are cut off.
    assert_eq!(jobs, 3_170);
    assert!((fifo - 5_579.96).abs() < 0.01 && (sjf - 3_439.83).abs() < 0.01, "{fifo} {sjf}");
}
