//! Tests of known and unknown energy: windows without readings, unknown idle power, bounds,
//! registers, and nodes with nothing but a meter.

use super::tests::{by, close, conserved, counters, given, job, measured, minutes, of, powers, sample, sum};
use super::*;
use crate::energy::ledger::Use;
use crate::schema::{NodeRow, NodeSampleRow};

const HOUR_J: f64 = 3_600.0;

fn refused(trace: &Trace, options: &Options) -> String {
    measure(trace, options).unwrap_err().to_string()
}

fn window(from_s: i64, to_s: i64) -> Options {
    Options { from_ms: Some(from_s * 1_000), to_ms: Some(to_s * 1_000), ..given() }
}

#[test]
fn a_window_without_readings_is_an_error_that_says_what_the_readings_cover() {
    // From 0:00 to 0:10 and from 2:00 to 2:10.
    let readings: Vec<(f64, f64)> = minutes(10).chain(minutes(10).map(|s| s + 7_200.0)).map(|s| (s, 100.0)).collect();
    let mut trace = powers(&readings);
    // An inventory and a job would be modelled for any time.
    trace.nodes.push(NodeRow {
        node: Some("m".into()),
        gpu_type: Some("A100".into()),
        gpus: Some(8.0),
        ..NodeRow::default()
    });
    job(&mut trace, "a", 0, 90_000, 1.0, Some(("n", Some("0"))));
    for (from, to) in [(-36_000, -3_600), (36_000, 72_000)] {
        let said = refused(&trace, &window(from, to));
        assert!(said.contains("no reading lies in the window from"), "{said}");
        assert!(said.contains("readings go from 1970-01-01 00:00:00 UTC to 1970-01-01 02:10:00 UTC"), "{said}");
    }
    let said = refused(&trace, &window(3_600, 5_400));
    assert!(
        said.contains(
            "the last before it at 1970-01-01 00:10:00 UTC and the first after it at 1970-01-01 02:00:00 UTC"
        ),
        "{said}"
    );
    // A counter knows what was drawn between readings.
    let ledger = measured(&counters(&[(0.0, 0.0), (60.0, 6_000.0), (7_200.0, 720_000.0)]), &window(3_600, 5_400));
    close(by(&ledger, Basis::Counter), 180_000.0);
}

#[test]
fn in_a_window_covered_in_part_what_is_modelled_is_apart() {
    // Readings from 0:00 to 1:00 at 100 W; audited from an hour before to an hour after.
    let trace = powers(&minutes(60).map(|s| (s, 100.0)).collect::<Vec<_>>());
    let ledger = measured(&trace, &window(-3_600, 7_200));
    close(sum(&ledger, |entry| entry.basis != Basis::Model), 360_000.0);
    close(by(&ledger, Basis::Model), 720_000.0);
    close(ledger.coverage_ratio.unwrap(), 1.0 / 3.0);
    assert_eq!(
        (ledger.record.map(|record| (record.from_ms, record.to_ms)), ledger.hours_read),
        (Some((0, 3_600_000)), 1)
    );
    // Of a node's meter, too: what it did not read it is not said to have read.
    let mut trace = Trace::default();
    for s in minutes(60) {
        register(&mut trace, "c", s, None, Some(200.0));
    }
    let ledger = measured(&trace, &window(-3_600, 7_200));
    close(ledger.metered_j.unwrap(), 200.0 * HOUR_J);
    close(ledger.filled_j, 400.0 * HOUR_J);
    assert!(
        ledger.notes.iter().any(|note| note.contains("together they read 0.200000 kWh. A model puts 0.400000 kWh")),
        "{:?}",
        ledger.notes
    );
}

#[test]
fn a_gpu_that_is_never_idle_is_not_all_idle() {
    let mut trace = Trace::default();
    for s in minutes(60) {
        sample(&mut trace, "0", (s, None, Some(600.0), Some(0.95)), None);
    }
    job(&mut trace, "a", 0, 3_600, 1.0, Some(("n", Some("0"))));
    let ledger = measured(&trace, &Options::default());
    // Its idle power is between 0 and 600 W: any of it may be work.
    close(of(&ledger, Use::Unsplit), 600.0 * HOUR_J);
    assert_eq!((of(&ledger, Use::IdleAllocated), of(&ledger, Use::IdleUnallocated)), (0.0, 0.0));
    close(ledger.jobs[0].unsplit_j, 600.0 * HOUR_J);
    // Each entry is as large as it was read: bounds of the split are no bounds of the energy.
    assert!(ledger.entries.iter().all(|entry| entry.lower_j == entry.energy_j && entry.energy_j == entry.upper_j));
    assert!(ledger.notes.iter().any(|note| note.contains("idle unknown, between 0 and 600 W")), "{:?}", ledger.notes);
}

#[test]
fn the_most_of_a_gap_is_no_less_than_the_device_has_drawn() {
    let mut trace = Trace::default();
    for s in minutes(5).chain(minutes(5).map(|s| s + 3_600.0)) {
        sample(&mut trace, "0", (s, None, Some(480.0), Some(1.0)), None);
    }
    trace.gpu_samples.gpu_type = crate::schema::Label::default();
    for _ in 0..12 {
        trace.gpu_samples.gpu_type.push(Some("NVIDIA A100-SXM4-80GB"));
    }
    let ledger = measured(&trace, &Options::default());
    let most: f64 = ledger.entries.iter().filter(|entry| entry.basis == Basis::Model).map(|entry| entry.upper_j).sum();
    // 3,300 s without readings.
    close(most, 480.0 * 3_300.0);
}

#[test]
fn utilisation_without_power_bounds_the_split() {
    let mut trace = Trace::default();
    for s in minutes(60) {
        sample(&mut trace, "0", (s, None, None, Some(0.037)), None);
    }
    job(&mut trace, "a", 0, 3_600, 1.0, Some(("n", Some("0"))));
    let power = BTreeMap::from([("*".to_owned(), Given { idle_w: Some(70.0), tdp_w: Some(700.0) })]);
    let ledger = measured(&trace, &Options { power, ..Options::default() });
    // 0.037 · 630 W of 93.31 W, and never more.
    close(of(&ledger, Use::Active), 23.31 * HOUR_J);
    close(ledger.entries.iter().map(|entry| entry.upper_j).sum(), 93.31 * HOUR_J);
    close(ledger.entries.iter().map(|entry| entry.lower_j).sum(), 70.0 * HOUR_J);
    assert!(ledger.entries.iter().all(|entry| entry.basis == Basis::Model));
    // Without the power of the type there is no energy, and that is what is said.
    let said = refused(&trace, &Options::default());
    assert!(
        said.contains("the 61 readings have neither power nor energy: they have utilisation") && said.contains("(X)"),
        "{said}"
    );
}

#[test]
fn what_is_missing_is_called_by_its_name() {
    let mut trace = powers(&[(0.0, 100.0), (60.0, 100.0)]);
    trace.gpu_samples.ts = crate::schema::Numbers::default();
    for _ in 0..2 {
        trace.gpu_samples.ts.push(None);
    }
    let said = refused(&trace, &Options::default());
    assert!(said.contains("the 2 readings have no times"), "{said}");
    let said = refused(&powers(&[(0.0, 100.0)]), &Options::default());
    assert!(said.contains("no device has two readings of power or energy") && said.contains("period_s"), "{said}");
    let said = refused(&Trace::default(), &Options::default());
    assert!(said.contains("no readings of power or energy, and no jobs"), "{said}");
    let mut trace = Trace::default();
    job(&mut trace, "a", 0, 60, 1.0, None);
    let said = refused(&trace, &Options::default());
    assert!(said.contains("nothing is known of the power of the jobs' GPUs"), "{said}");
    let said = refused(&trace, &window(600, 1_200));
    assert!(said.contains("no job runs in the window"), "{said}");
}

fn register(trace: &mut Trace, node: &str, s: f64, kwh: Option<f64>, watts: Option<f64>) {
    trace.node_samples.push(NodeSampleRow {
        ts: Some((s * 1_000.0) as i64),
        node: Some(node.to_owned().into()),
        power_w: watts,
        energy_j_cum: kwh.map(|kwh| kwh * 3.6e6),
        ..NodeSampleRow::default()
    });
}

#[test]
fn registers_of_whole_kwh_are_read_over_standstill_wrap_and_reset() {
    // 4 to 6 kWh in 50 minutes, in steps of 1 kWh: 1 kWh in the first half hour, 1 kWh in twenty minutes.
    let mut trace = Trace::default();
    for (place, kwh) in [4.0, 4.0, 4.0, 5.0, 5.0, 6.0].into_iter().enumerate() {
        register(&mut trace, "c", place as f64 * 600.0, Some(kwh), None);
    }
    let (ledger, counts) = measure_counted(&trace, &Options::default()).unwrap();
    conserved(&ledger);
    close(ledger.metered_j.unwrap(), 2.0 * 3.6e6);
    assert_eq!((ledger.coverage_ratio, counts.bad_counter, counts.resets), (Some(1.0), 0, 0));
    assert!(ledger.notes.iter().any(|note| note.contains("count in steps of up to 1")), "{:?}", ledger.notes);
    // Over 99,999 kWh to 1: 2 kWh in an hour; then a new meter begins at 0, of which 0.5 kWh are seen.
    let mut trace = Trace::default();
    for (hour, kwh) in [99_998.0, 99_999.0, 1.0, 2.0, 0.5, 1.5].into_iter().enumerate() {
        register(&mut trace, "c", hour as f64 * 3_600.0, Some(kwh), None);
    }
    let (ledger, counts) = measure_counted(&trace, &Options::default()).unwrap();
    conserved(&ledger);
    assert_eq!((counts.wraps, counts.resets), (1, 1));
    close(ledger.total_j, 5.5 * 3.6e6);
}

/// A node of 8 GPUs, with a meter alone, over two hours: 800 W in the first, 2,400 W in the second, in which `jobs` hold GPUs.
fn node(listed: bool, idle_w: Option<f64>, jobs: &[(&str, f64)]) -> Trace {
    let mut trace = Trace::default();
    if listed {
        trace.nodes.push(NodeRow { node: Some("n".into()), gpus: Some(8.0), idle_w, ..NodeRow::default() });
    }
    for s in minutes(120) {
        register(&mut trace, "n", s, None, Some(if s < 3_600.0 { 800.0 } else { 2_400.0 }));
    }
    for (key, gpus) in jobs {
        job(&mut trace, key, 3_600, 7_200, *gpus, Some(("n", None)));
    }
    trace
}

#[test]
fn a_nodes_meter_reaches_its_jobs_by_gpus_and_time_with_idle_power_apart() {
    let trace = node(true, Some(800.0), &[("a", 4.0), ("b", 2.0)]);
    let ledger = measured(&trace, &Options::default());
    // In the second hour, of which the minute before is a ramp: 1,600 W of work by 2 : 1; of 800 W idle a half and a quarter.
    let kwh = |joules: f64| (joules / 3.6e6 * 1e9).round() / 1e9;
    let result: Vec<_> = ledger
        .jobs
        .iter()
        .map(|job| (job.job_key.as_str(), kwh(job.active_j), kwh(job.idle_j), job.gpu_s / 3_600.0))
        .collect();
    assert_eq!(
        result,
        [("a", 1.6 * 2.0 / 3.0, 0.4, 4.0), ("b", 1.6 / 3.0, 0.2, 2.0)].map(|job| (
            job.0,
            kwh(job.1 * 3.6e6),
            kwh(job.2 * 3.6e6),
            job.3
        ))
    );
    close(ledger.total_j, ledger.metered_j.unwrap());
    assert_eq!((of(&ledger, Use::Overhead), of(&ledger, Use::Residual)), (0.0, 0.0));
    // GPU time is that of all 8 GPUs.
    close(ledger.gpu_hours, 16.0);
    assert_eq!((ledger.coverage_ratio, ledger.jobs[0].coverage_ratio), (Some(1.0), Some(1.0)));
    assert_eq!(ledger.owners.len(), 2);
}

/// Found in review: of nodes with meters alone, what they need beside their GPUs was called idle power of GPUs, beside a fit of it to their like.
#[test]
fn overhead_has_one_name_whether_gpus_have_readings_or_not() {
    // Node n has readings of its GPU, at 60 W and idle, and a meter at 260 W; node m has a meter alone, and a job for the second hour.
    let audited = |type_of_m: &'static str| {
        let mut trace = Trace::default();
        for (name, gpu_type) in [("n", "X"), ("m", type_of_m)] {
            trace.nodes.push(NodeRow {
                node: Some(name.into()),
                gpu_type: Some(gpu_type.into()),
                gpus: Some(1.0),
                ..NodeRow::default()
            });
        }
        for s in minutes(120) {
            sample(&mut trace, "0", (s, None, Some(60.0), Some(0.0)), None);
            register(&mut trace, "n", s, None, Some(260.0));
            register(&mut trace, "m", s, None, Some(260.0));
        }
        job(&mut trace, "a", 3_600, 7_200, 1.0, Some(("m", None)));
        measured(&trace, &given())
    };
    let ledger = audited("X");
    conserved(&ledger);
    close(of(&ledger, Use::Overhead), 4.0 * 200.0 * HOUR_J);
    close(of(&ledger, Use::IdleAllocated), 60.0 * HOUR_J);
    close(of(&ledger, Use::IdleUnallocated), 3.0 * 60.0 * HOUR_J);
    close(ledger.jobs[0].overhead_j, 200.0 * HOUR_J);
    assert_eq!((of(&ledger, Use::NodeIdleAllocated), of(&ledger, Use::NodeIdleUnallocated)), (0.0, 0.0));
    // Of another kind nothing tells what is beside the GPUs, so its idle power is that of the whole node.
    let ledger = audited("Y");
    conserved(&ledger);
    close(of(&ledger, Use::Overhead), 2.0 * 200.0 * HOUR_J);
    close(of(&ledger, Use::IdleUnallocated), 2.0 * 60.0 * HOUR_J);
    let whole = of(&ledger, Use::NodeIdleAllocated) + of(&ledger, Use::NodeIdleUnallocated);
    close(whole, 2.0 * 260.0 * HOUR_J);
}

#[test]
fn idle_power_of_a_node_is_read_while_no_job_is_placed_on_it() {
    // 59 minutes at 800 W; the last goes up to the job's 2,400 W: (59 · 800 + 1,600) / 60 W.
    let idle = (59.0 * 800.0 + 1_600.0) / 60.0;
    let ledger = measured(&node(true, None, &[("a", 8.0)]), &Options::default());
    close(of(&ledger, Use::NodeIdleAllocated), idle * HOUR_J);
    close(of(&ledger, Use::Active), (2_400.0 - idle) * HOUR_J);
    // Held all the time, its idle power is unknown: at most its lowest reading, and all of it may be work.
    let mut trace = node(true, None, &[]);
    job(&mut trace, "a", 0, 7_200, 8.0, Some(("n", None)));
    let ledger = measured(&trace, &Options::default());
    assert_eq!((of(&ledger, Use::IdleAllocated), of(&ledger, Use::NodeIdleAllocated)), (0.0, 0.0));
    close(of(&ledger, Use::Unsplit), 800.0 * 2.0 * HOUR_J);
    // A node that no inventory lists has as many GPUs as were held at a time.
    let ledger = measured(&node(false, None, &[("a", 4.0)]), &Options::default());
    close(ledger.gpu_hours, 8.0);
    assert!(ledger.notes.iter().any(|note| note.contains("the most that jobs held at a time")), "{:?}", ledger.notes);
    // Without placements on it a node is nobody's, as before.
    let ledger = measured(&node(false, None, &[]), &Options::default());
    close(of(&ledger, Use::Overhead), ledger.total_j);
}
