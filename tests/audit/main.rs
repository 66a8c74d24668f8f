//! The energy audit on real telemetry: node power of a day on which nearly all nodes were powered off, and of one moment in
//! production (Harvard FASRC).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use tracecast_analytics::Trace;
use tracecast_analytics::describe::Topic as _;
use tracecast_analytics::describe::power::Power;
use tracecast_analytics::energy::ledger::{Basis, EnergyLedger, Use};
use tracecast_analytics::energy::meter::{Options, measure, measure_counted};
use tracecast_analytics::facts::JobFacts;
use tracecast_analytics::schema::{NodeSampleRow, Table};
use tracecast_analytics::storage::load;
use tracecast_tests::{read, real_trace};

const HOUR_MS: i64 = 3_600_000;

/// The node samples of each node, as a trace of its own.
fn by_node(trace: &Trace) -> BTreeMap<String, Trace> {
    let samples = &trace.node_samples;
    let mut nodes: BTreeMap<String, Trace> = BTreeMap::new();
    for ix in 0..samples.len() {
        let node = samples.node.get(ix).unwrap();
        nodes.entry(node.to_owned()).or_default().node_samples.push(NodeSampleRow {
            ts: samples.ts.get(ix),
            node: Some(node.into()),
            sensor: samples.sensor.get(ix).map(Into::into),
            power_w: samples.power_w.get(ix),
            ..NodeSampleRow::default()
        });
    }
    nodes
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    if values.len() % 2 == 1 { values[half] } else { (values[half - 1] + values[half]) / 2.0 }
}

fn conserved(ledger: &EnergyLedger) {
    let sum: f64 = ledger.entries.iter().map(|entry| entry.energy_j).sum();
    assert!((sum - ledger.total_j).abs() <= 1e-9 * ledger.total_j, "{sum} {}", ledger.total_j);
    let metered = ledger.metered_j.unwrap() + ledger.filled_j;
    assert!((metered - ledger.total_j).abs() <= 1e-9 * metered, "{metered} {}", ledger.total_j);
}

fn blanks(trace: &Trace) -> u64 {
    trace.ledger.entries.iter().filter(|entry| entry.reason == "blank_reading").map(|entry| entry.count).sum()
}

/// From midnight to two: all nodes but two are off.
#[test]
fn harvard_powered_off() {
    let Some(path) = real_trace("harvard_ipmi/power_1min_2025-06-03.csv.gz") else { return };
    let trace = read(&[path]).unwrap();
    // 22 times 25,550 W of a chassis and 12 times 2,555 W of a shared supply.
    assert_eq!(blanks(&trace), 34);
    let samples = &trace.node_samples;
    assert!((0..samples.len()).all(|ix| samples.power_w.get(ix).is_none_or(|watts| watts < 25_550.0)));
    let midnight = samples.ts.iter().flatten().min().unwrap() / HOUR_MS * HOUR_MS;
    let window = Options { from_ms: Some(midnight), to_ms: Some(midnight + 2 * HOUR_MS), ..Options::default() };
    let whole = measure(&trace, &window).unwrap();
    conserved(&whole);
    assert!(whole.entries.iter().all(|entry| entry.spent_on != Use::Residual || entry.energy_j == 0.0));
    let mut sum = 0.0;
    let mut watts = Vec::new();
    for node in by_node(&trace).values() {
        let ledger = measure(node, &window).unwrap();
        sum += ledger.total_j;
        watts.push(ledger.total_j / 7_200.0);
    }
    assert_eq!(watts.len(), 1_691);
    assert!((sum - whole.total_j).abs() <= 1e-9 * sum, "nodes one by one give {sum} J, together {} J", whole.total_j);
    let typical = median(watts.clone());
    println!("powered off: median {typical:.2} W a node, {:.3} kWh of {} nodes in 2 h", sum / 3.6e6, watts.len());
    assert!((typical - 10.0).abs() < 0.5, "{typical}");

    // The whole day: hours without readings are a line between their ends, within what the node reads, and no reading.
    let day = measure(&trace, &Options::default()).unwrap();
    conserved(&day);
    let coverage = day.coverage_ratio.unwrap();
    println!("the day: {:.1} kWh, coverage {coverage:.3}, {:?}", day.total_j / 3.6e6, day.notes);
    assert!(coverage < 0.5);
    let modelled: BTreeSet<i64> =
        day.entries.iter().filter(|entry| entry.basis == Basis::Model).map(|entry| entry.hour_ms).collect();
    assert!(modelled.contains(&(midnight + 12 * HOUR_MS)));
    assert!(
        day.entries
            .iter()
            .all(|entry| entry.lower_j <= entry.energy_j + 1e-6 && entry.energy_j <= entry.upper_j + 1e-6)
    );
}

/// One moment of production: each reading stands for its minute.
#[test]
fn harvard_snapshot() {
    let Some(path) = real_trace("harvard_ipmi/power_snapshot_2025-05-30T1334Z.csv.gz") else { return };
    let trace = read(&[path]).unwrap();
    assert_eq!(blanks(&trace), 9);
    let minute = Options { period_s: Some(60.0), ..Options::default() };
    let (mut gpu_w, mut cpu_w) = (Vec::new(), BTreeMap::<i64, u32>::new());
    let mut total_w = 0.0;
    for (name, node) in by_node(&trace) {
        let sensors: BTreeSet<&str> = node.node_samples.sensor.iter().flatten().collect();
        let ts = node.node_samples.ts.get(0).unwrap();
        let window = Options { from_ms: Some(ts), to_ms: Some(ts + 60_000), ..minute.clone() };
        let (ledger, counts) = measure_counted(&node, &window).unwrap();
        assert_eq!((counts.rows, counts.bad_power), (1, 0), "{name}: one main sensor");
        conserved(&ledger);
        let watts = ledger.total_j / 60.0;
        total_w += watts;
        if sensors.contains("GPU Board Power") {
            gpu_w.push(watts);
        } else {
            *cpu_w.entry(watts.round() as i64).or_default() += 1;
        }
    }
    gpu_w.sort_by(f64::total_cmp);
    let typical = median(gpu_w.clone());
    let p95 = gpu_w[(0.95 * gpu_w.len() as f64).floor() as usize];
    let idle = cpu_w.iter().max_by_key(|(_, count)| **count).map(|(watts, _)| *watts).unwrap();
    println!("snapshot: GPU nodes {}, median {typical} W, p95 {p95} W; CPU nodes mostly {idle} W", gpu_w.len());
    // 309 of 1,691 nodes have GPUs; all readings of main sensors add up to 1,028,616 W.
    assert_eq!((gpu_w.len(), cpu_w.values().sum::<u32>()), (309, 1_382));
    assert!((total_w - 1_028_616.0).abs() < 1e-3, "{total_w}");
    assert!((typical - 1_220.0).abs() < 1e-6 && (p95 - 2_860.0).abs() < 1e-6, "{typical} {p95}");
    assert_eq!(idle, 230);
}

/// Joules that readings tell, of all entries or of those of devices alone.
fn read_j(ledger: &EnergyLedger, of_devices: bool) -> f64 {
    let parts = ledger.entries.iter().filter(|entry| entry.basis != Basis::Model);
    let beside = |spent_on: Use| matches!(spent_on, Use::Overhead | Use::Residual);
    parts.filter(|entry| !(of_devices && beside(entry.spent_on))).map(|entry| entry.energy_j).sum()
}

/// A description and an audit of one trace tell the same energy: what GPUs and nodes read.
#[test]
fn a_description_tells_the_energy_of_the_ledger() {
    let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * a.abs().max(b.abs());
    let told = |trace: &Trace| Power::of(&JobFacts::new(trace)).unwrap();

    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../datasets/sample");
    let trace = load(&sample).unwrap();
    let ledger = measure(&trace, &Options::default()).unwrap();
    let power = told(&trace);
    let gpus = power.gpus.unwrap();
    let of_gpus = gpus.metered.as_ref().unwrap().energy.energy_kwh;
    let of_nodes = power.nodes.unwrap().total.unwrap().energy.energy_kwh;
    println!("the sample: GPUs {of_gpus:.3} kWh, nodes {of_nodes:.3} kWh by readings");
    assert!(near(of_gpus, read_j(&ledger, true) / 3.6e6), "{of_gpus} {}", read_j(&ledger, true) / 3.6e6);
    // Its four metered nodes have all the GPUs with readings: what their meters read is all that is read.
    assert!(near(of_nodes, read_j(&ledger, false) / 3.6e6), "{of_nodes} {}", read_j(&ledger, false) / 3.6e6);
    let by_holder: f64 = gpus.by_holder.iter().map(|part| part.energy_kwh).sum();
    assert!(near(by_holder, of_gpus), "{by_holder} {of_gpus}");

    let Some(path) = real_trace("harvard_ipmi/power_1min_2025-06-03.csv.gz") else { return };
    let trace = read(&[path]).unwrap();
    let ledger = measure(&trace, &Options::default()).unwrap();
    let energy = told(&trace).nodes.unwrap().total.unwrap().energy;
    let metered = ledger.metered_j.unwrap() / 3.6e6;
    println!("Harvard: {metered:.3} kWh by readings");
    assert!(near(energy.energy_kwh, metered), "{} {metered}", energy.energy_kwh);
    assert!((energy.time_coverage.unwrap() - ledger.coverage_ratio.unwrap()).abs() < 0.02);
}
