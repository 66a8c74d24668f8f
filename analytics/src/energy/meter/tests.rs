#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;
use crate::energy::ledger::{EnergyEntry, Use};
use crate::schema::{AttemptRow, GpuSampleRow, JobRow, NodeRow, NodeSampleRow, PlacementRow};

/// A sample: seconds, counter, power, utilisation.
pub(super) type Said = (f64, Option<f64>, Option<f64>, Option<f64>);

pub(super) fn sample(trace: &mut Trace, gpu: &str, said: Said, job: Option<&str>) {
    let (s, counter, power, util) = said;
    trace.gpu_samples.push(GpuSampleRow {
        ts: Some((s * 1_000.0) as i64),
        node: Some("n".into()),
        gpu: Some(gpu.to_owned().into()),
        gpu_type: Some("X".into()),
        energy_j_cum: counter,
        power_w: power,
        util_ratio: util,
        job_key: job.map(Into::into),
        ..GpuSampleRow::default()
    });
}

pub(super) fn powers(readings: &[(f64, f64)]) -> Trace {
    let mut trace = Trace::default();
    for (s, watts) in readings {
        sample(&mut trace, "0", (*s, None, Some(*watts), None), None);
    }
    trace
}

pub(super) fn counters(readings: &[(f64, f64)]) -> Trace {
    let mut trace = Trace::default();
    for (s, joules) in readings {
        sample(&mut trace, "0", (*s, Some(*joules), None, None), None);
    }
    trace
}

/// Idle 60 W and at most 400 W of every type.
pub(super) fn given() -> Options {
    let power = BTreeMap::from([("*".to_owned(), Given { idle_w: Some(60.0), tdp_w: Some(400.0) })]);
    Options { power, ..Options::default() }
}

pub(super) fn sum(ledger: &EnergyLedger, keep: impl Fn(&EnergyEntry) -> bool) -> f64 {
    ledger.entries.iter().filter(|entry| keep(entry)).map(|entry| entry.energy_j).sum()
}

pub(super) fn of(ledger: &EnergyLedger, spent_on: Use) -> f64 {
    sum(ledger, |entry| entry.spent_on == spent_on)
}

pub(super) fn by(ledger: &EnergyLedger, basis: Basis) -> f64 {
    sum(ledger, |entry| entry.basis == basis)
}

pub(super) fn close(result: f64, expected: f64) {
    assert!((result - expected).abs() <= 1e-9 * expected.abs().max(1.0), "{result} instead of {expected}");
}

/// Everything adds up.
pub(super) fn conserved(ledger: &EnergyLedger) {
    let near = |a: f64, b: f64| {
        let scale = ledger.entries.iter().map(|entry| entry.energy_j.abs()).sum::<f64>().max(1.0);
        assert!((a - b).abs() <= 1e-9 * scale, "{a} and {b}");
    };
    near(sum(ledger, |_| true), ledger.total_j);
    if let Some(metered) = ledger.metered_j {
        near(metered + ledger.filled_j, ledger.total_j);
    }
    let jobs: f64 = ledger.jobs.iter().map(|job| job.active_j + job.unsplit_j + job.idle_j + job.overhead_j).sum();
    let overhead: f64 = ledger.jobs.iter().map(|job| job.overhead_j).sum();
    let active: f64 = ledger.jobs.iter().map(|job| job.active_j + job.unsplit_j).sum();
    let unowned = of(ledger, Use::Active) + of(ledger, Use::Unsplit) - active;
    assert!(unowned > -1e-6, "{unowned}");
    near(
        ledger.jobs.iter().map(|job| job.idle_j).sum(),
        of(ledger, Use::IdleAllocated) + of(ledger, Use::NodeIdleAllocated),
    );
    let free = of(ledger, Use::IdleUnallocated) + of(ledger, Use::NodeIdleUnallocated);
    let rest = free + of(ledger, Use::Overhead) - overhead + of(ledger, Use::Residual);
    near(jobs + unowned + rest, ledger.total_j);
    for entry in &ledger.entries {
        assert!(entry.lower_j <= entry.energy_j + 1e-9 && entry.energy_j <= entry.upper_j + 1e-9, "{entry:?}");
    }
}

pub(super) fn measured(trace: &Trace, options: &Options) -> EnergyLedger {
    let ledger = measure(trace, options).unwrap();
    conserved(&ledger);
    ledger
}

pub(super) fn minutes(count: i32) -> impl Iterator<Item = f64> {
    (0..=count).map(|minute| f64::from(minute) * 60.0)
}

#[test]
fn constant_power_and_a_ramp() {
    // 100 W for 2 h: 720,000 J, in two hours of 360,000 J.
    let flat: Vec<(f64, f64)> = minutes(120).map(|s| (s, 100.0)).collect();
    let ledger = measured(&powers(&flat), &given());
    close(ledger.total_j, 720_000.0);
    close(sum(&ledger, |entry| entry.hour_ms == 3_600_000), 360_000.0);
    assert_eq!((ledger.coverage_ratio, ledger.gpu_hours, ledger.from_ms, ledger.to_ms), (Some(1.0), 2.0, 0, 7_200_000));
    // From 0 W by 1 W a second to 120 W in 2 minutes: 120² / 2 = 7,200 J. Above 60 W: 60² / 2 = 1,800 J.
    let ramp: Vec<(f64, f64)> = [0.0, 60.0, 120.0].map(|s| (s, s)).to_vec();
    let ledger = measured(&powers(&ramp), &given());
    close(ledger.total_j, 7_200.0);
    close(of(&ledger, Use::Active), 1_800.0);
    // Every 40 s, so that 60 W lies within a gap: the triangle from 60 to 80 W is 20² / 2, the rest (20 + 60) / 2 · 40.
    let ramp: Vec<(f64, f64)> = [0.0, 40.0, 80.0, 120.0].map(|s| (s, s)).to_vec();
    close(of(&measured(&powers(&ramp), &given()), Use::Active), 200.0 + 1_600.0);
}

#[test]
fn a_gap_of_three_periods_is_bridged_and_a_longer_one_modelled() {
    // Every minute 100 W; a reading of 200 W three minutes after that of 2 min: 180 · 150 J.
    let mut readings: Vec<(f64, f64)> = minutes(2).map(|s| (s, 100.0)).collect();
    readings.extend([(300.0, 200.0), (360.0, 200.0), (420.0, 200.0)]);
    let ledger = measured(&powers(&readings), &given());
    close(by(&ledger, Basis::Power), 2.0 * 6_000.0 + 2.0 * 12_000.0);
    close(by(&ledger, Basis::Bridged), 27_000.0);
    assert!(ledger.entries.iter().all(|entry| entry.basis != Basis::Model));
    // 240 of 420 s are read.
    close(ledger.coverage_ratio.unwrap(), 240.0 / 420.0);
    // One of four minutes: whose it is is unknown, so the mean of all readings, (3 · 100 + 3 · 200) / 6 = 150 W for 240 s,
    // no less than 60 and no more than 400 W.
    let mut readings: Vec<(f64, f64)> = minutes(2).map(|s| (s, 100.0)).collect();
    readings.extend([(360.0, 200.0), (420.0, 200.0), (480.0, 200.0)]);
    let ledger = measured(&powers(&readings), &given());
    close(by(&ledger, Basis::Model), 36_000.0);
    let model: Vec<&EnergyEntry> = ledger.entries.iter().filter(|entry| entry.basis == Basis::Model).collect();
    close(model.iter().map(|entry| entry.lower_j).sum(), 240.0 * 60.0);
    close(model.iter().map(|entry| entry.upper_j).sum(), 240.0 * 400.0);
    assert!(ledger.notes.iter().any(|note| note.starts_with("1 gaps of more than three")), "{:?}", ledger.notes);
}

#[test]
fn a_counter_counts_over_gaps_resets_and_wraps() {
    // 1,000 to 2,100 is 1,100; a reset, 50; then 1,000: 2,150 J. The lost part is at most 400 W · 60 s.
    let (ledger, counts) =
        measure_counted(&counters(&[(0.0, 1_000.0), (60.0, 2_100.0), (120.0, 50.0), (180.0, 1_050.0)]), &given())
            .unwrap();
    conserved(&ledger);
    close(ledger.total_j, 2_150.0);
    assert_eq!((counts.resets, counts.wraps, counts.bad_counter), (1, 0, 0));
    close(ledger.entries.iter().map(|entry| entry.upper_j).sum(), 1_100.0 + 24_000.0 + 1_000.0);
    // Over 2^32 mJ: 967.296 + 5,032.704 = 6,000 J, and 6,000 J more.
    let (ledger, counts) =
        measure_counted(&counters(&[(0.0, 4_294_000.0), (60.0, 5_032.704), (120.0, 11_032.704)]), &given()).unwrap();
    close(ledger.total_j, 12_000.0);
    assert_eq!((counts.resets, counts.wraps), (0, 1));
    // A counter is right over a gap of ten hours: 100 W all the time.
    let ledger =
        measured(&counters(&[(0.0, 0.0), (60.0, 6_000.0), (120.0, 12_000.0), (36_000.0, 3_600_000.0)]), &given());
    close(ledger.total_j, 3_600_000.0);
    assert_eq!(ledger.coverage_ratio, Some(1.0));
    close(sum(&ledger, |entry| entry.hour_ms == 18_000_000), 360_000.0);
}

#[test]
fn a_false_counter_reading_is_quarantined_high_or_low() {
    for wrong in [9e15, 5.0] {
        let readings: Vec<(f64, f64)> =
            minutes(6).map(|s| (s, if s == 180.0 { wrong } else { 5e9 + 100.0 * s })).collect();
        let (ledger, counts) = measure_counted(&counters(&readings), &given()).unwrap();
        // 100 W for 6 minutes.
        close(ledger.total_j, 36_000.0);
        assert_eq!((counts.bad_counter, counts.resets), (1, 0), "{wrong}");
    }
}

#[test]
fn a_counter_goes_before_power_and_power_stands_in_where_it_cannot_be() {
    let mut trace = Trace::default();
    // Power reads 500 W all the time; the counter says 100 W, until it jumps by what no GPU can draw and goes on.
    for (s, joules) in [(0.0, 0.0), (60.0, 6_000.0), (120.0, 1e9), (180.0, 1e9 + 6_000.0)] {
        sample(&mut trace, "0", (s, Some(joules), Some(300.0), None), None);
    }
    let ledger = measured(&trace, &given());
    close(by(&ledger, Basis::Counter), 12_000.0);
    close(by(&ledger, Basis::Power), 18_000.0);
}

#[test]
fn repeated_and_disordered_samples_change_nothing() {
    let readings: Vec<(f64, f64)> = minutes(30).map(|s| (s, 100.0 + s / 10.0)).collect();
    let expected = measured(&powers(&readings), &given());
    // 1,800 s from 100 to 280 W: 190 · 1,800 J.
    close(expected.total_j, 342_000.0);
    let mut mixed = readings.clone();
    mixed.swap(3, 4);
    mixed.insert(10, (readings[9].0, 399.0));
    mixed.rotate_left(15);
    let (ledger, counts) = measure_counted(&powers(&mixed), &given()).unwrap();
    close(ledger.total_j, 342_000.0);
    // The second reading of a moment; the one that was swapped, and those that came after the later half.
    assert_eq!((counts.rows, counts.duplicates), (32, 1));
    assert!(counts.out_of_order >= 15, "{counts:?}");
}

#[test]
fn readings_that_cannot_be_are_counted_and_left_out() {
    let mut readings: Vec<(f64, f64)> = minutes(10).map(|s| (s, 100.0)).collect();
    for (at, wrong) in [(2, -5.0), (5, 1e7), (8, f64::NAN)] {
        readings[at].1 = wrong;
    }
    let (ledger, counts) = measure_counted(&powers(&readings), &given()).unwrap();
    assert_eq!(counts.bad_power, 3);
    close(ledger.total_j, 60_000.0);
    // Three gaps of two minutes are bridged.
    close(by(&ledger, Basis::Bridged), 36_000.0);
}

#[test]
fn utilisation_stands_in_for_power() {
    let mut trace = Trace::default();
    // One GPU teaches: 60 W idle, 160 W at half load. The other has no power: 10 minutes at a quarter, 110 W.
    for (place, s) in minutes(40).enumerate() {
        let busy = place % 2 == 1;
        sample(
            &mut trace,
            "0",
            (s, None, Some(if busy { 160.0 } else { 60.0 }), Some(if busy { 0.5 } else { 0.0 })),
            None,
        );
    }
    for s in minutes(10) {
        sample(&mut trace, "1", (s, None, None, Some(0.25)), None);
    }
    let ledger = measured(&trace, &Options { to_ms: Some(600_000), ..given() });
    close(by(&ledger, Basis::Model), 66_000.0);
    // The first hour of the other: 10 gaps of 110 W.
    close(by(&ledger, Basis::Power), 66_000.0);
    assert_eq!(ledger.coverage_ratio, Some(0.5));
}

#[test]
fn time_at_the_edges_of_the_window_is_filled() {
    // Readings from 60 to 240 s, audited from 0 to 1,000 s: a minute before is held at 100 W; of 760 s behind nothing is
    // known but the mean, 100 W.
    let readings: Vec<(f64, f64)> = minutes(4).skip(1).map(|s| (s, 100.0)).collect();
    let options = Options { from_ms: Some(0), to_ms: Some(1_000_000), ..given() };
    let ledger = measured(&powers(&readings), &options);
    close(by(&ledger, Basis::Bridged), 6_000.0);
    close(by(&ledger, Basis::Power), 18_000.0);
    close(by(&ledger, Basis::Model), 76_000.0);
    // And cut: from 90 to 150 s.
    let options = Options { from_ms: Some(90_000), to_ms: Some(150_000), ..given() };
    close(measured(&powers(&readings), &options).total_j, 6_000.0);
}

pub(super) fn job(trace: &mut Trace, key: &str, from: i64, to: i64, gpus: f64, place: Option<(&str, Option<&str>)>) {
    trace.jobs.push(JobRow {
        job_key: Some(key.to_owned().into()),
        user: Some(format!("u{key}").into()),
        vc: Some("v".into()),
        submit: Some(0),
        start: Some(from * 1_000),
        end: Some(to * 1_000),
        alloc_gpus: Some(gpus),
        ..JobRow::default()
    });
    if let Some((node, ids)) = place {
        trace.placements.push(PlacementRow {
            job_key: Some(key.to_owned().into()),
            node: Some(node.to_owned().into()),
            gpu_ids: ids.map(|ids| ids.to_owned().into()),
            gpus: Some(gpus),
            ..PlacementRow::default()
        });
    }
}

fn energies(ledger: &EnergyLedger) -> Vec<(&str, f64, f64, f64)> {
    let round = |joules: f64| (joules * 1e6).round() / 1e6;
    let of = |job: &'_ _| -> (f64, f64, f64) {
        let job: &crate::energy::ledger::JobEnergy = job;
        (round(job.active_j), round(job.idle_j), round(job.gpu_s))
    };
    ledger.jobs.iter().map(|job| (job.job_key.as_str(), of(job).0, of(job).1, of(job).2)).collect()
}

#[test]
fn a_placed_job_gets_what_its_gpu_draws_to_the_second() {
    let mut trace = powers(&minutes(60).map(|s| (s, 160.0)).collect::<Vec<_>>());
    // From 90 s to 1,890 s.
    job(&mut trace, "a", 90, 1_890, 1.0, Some(("n", Some("0"))));
    let ledger = measured(&trace, &given());
    // 100 W above idle for 1,800 s, and 60 W.
    assert_eq!(energies(&ledger), [("a", 180_000.0, 108_000.0, 1_800.0)]);
    assert_eq!(ledger.jobs[0].coverage_ratio, Some(1.0));
    close(of(&ledger, Use::IdleUnallocated), 160.0 * 1_800.0);
    assert_eq!((ledger.owners[0].user.as_deref(), ledger.allocated_gpu_hours), (Some("ua"), 0.5));
}

#[test]
fn jobs_on_one_gpu_share_it_by_their_parts() {
    let mut trace = powers(&minutes(10).map(|s| (s, 160.0)).collect::<Vec<_>>());
    job(&mut trace, "a", 0, 600, 0.5, Some(("n", Some("0"))));
    job(&mut trace, "b", 0, 600, 0.25, Some(("n", Some("0"))));
    let ledger = measured(&trace, &given());
    // 60,000 J above idle by 2 : 1; of 36,000 J idle a half and a quarter.
    assert_eq!(energies(&ledger), [("a", 40_000.0, 18_000.0, 300.0), ("b", 20_000.0, 9_000.0, 150.0)]);
    close(of(&ledger, Use::IdleUnallocated), 9_000.0);
}

#[test]
fn samples_that_name_jobs_say_who_held() {
    let mut trace = Trace::default();
    // a until halfway between 120 and 180 s, then b and one that is not listed together, then nobody from 270 s.
    for (s, name) in minutes(5).zip([Some("a"), Some("a"), Some("a"), Some("b,x"), Some("b,x"), None]) {
        sample(&mut trace, "0", (s, None, Some(160.0), None), name);
    }
    job(&mut trace, "a", 0, 10, 1.0, None);
    job(&mut trace, "b", 0, 10, 1.0, None);
    let ledger = measured(&trace, &given());
    // 150 s · 100 W; 120 s of two at one half; 30 s · 160 W of nobody.
    assert_eq!(
        energies(&ledger),
        [("a", 15_000.0, 9_000.0, 150.0), ("b", 6_000.0, 3_600.0, 60.0), ("x", 6_000.0, 3_600.0, 60.0)]
    );
    close(of(&ledger, Use::IdleUnallocated), 4_800.0);
    assert!(ledger.jobs[2].owner.is_none());
}

#[test]
fn a_name_in_samples_reaches_no_further_than_its_job_runs() {
    // Samples name a from 0 to 300 s and c from 1,800 to 2,100 s; the window is of 3,600 s. a runs
    // to 600 s, c from 1,500 to 2,400 s; x is in no list.
    let mut trace = Trace::default();
    for (gpu, first, second) in [("0", "a", "c"), ("1", "x", "x")] {
        for (from, name) in [(0.0, first), (1_800.0, second)] {
            for s in minutes(5) {
                sample(&mut trace, gpu, (from + s, None, Some(160.0), None), Some(name));
            }
        }
    }
    job(&mut trace, "a", 0, 600, 1.0, None);
    job(&mut trace, "c", 1_500, 2_400, 1.0, None);
    let options = Options { from_ms: Some(-1_000_000), to_ms: Some(3_600_000), ..given() };
    let hours = |trace: &Trace| -> Vec<(String, f64)> {
        energies(&measured(trace, &options)).iter().map(|(job, .., s)| ((*job).to_owned(), *s)).collect()
    };
    // x holds GPU 1 over the gap between its samples, and not outside of them.
    let named = |a: f64, c: f64| vec![("a".to_owned(), a), ("c".to_owned(), c), ("x".to_owned(), 2_100.0)];
    assert_eq!(hours(&trace), named(600.0, 900.0));
    // Placements go before names: b holds GPU 0 from 400 to 1,600 s.
    job(&mut trace, "b", 400, 1_600, 1.0, Some(("n", Some("0"))));
    let mut placed = named(400.0, 800.0);
    placed.insert(1, ("b".to_owned(), 1_200.0));
    assert_eq!(hours(&trace), placed);
}

#[test]
fn jobs_without_gpu_ids_share_what_is_not_placed() {
    let mut trace = Trace::default();
    for gpu in ["0", "1"] {
        for s in minutes(60) {
            sample(&mut trace, gpu, (s, None, Some(160.0), None), None);
        }
    }
    // a has one of the two GPUs of the node, nobody knows which, for the hour; b has no placement at all for a quarter.
    job(&mut trace, "a", 0, 3_600, 1.0, Some(("n", None)));
    let ledger = measured(&trace, &given());
    // All of 2 · 100 W above idle: no other job is known, and 340 W · 3,600 s could be drawn. Half of 2 · 60 W idle.
    assert_eq!(energies(&ledger), [("a", 720_000.0, 216_000.0, 3_600.0)]);
    close(of(&ledger, Use::IdleUnallocated), 216_000.0);

    let mut trace = powers(&minutes(60).map(|s| (s, 360.0)).collect::<Vec<_>>());
    job(&mut trace, "b", 0, 900, 1.0, None);
    let ledger = measured(&trace, &given());
    // A quarter of the GPU time can draw at most 340 · 900 J of 300 · 3,600 J above idle.
    assert_eq!(energies(&ledger), [("b", 306_000.0, 54_000.0, 900.0)]);
    close(of(&ledger, Use::Active), 1_080_000.0);
    assert!(ledger.notes.iter().any(|note| note.starts_with("1 of 1 runs of jobs have no placement")));
}

#[test]
fn a_gap_is_filled_by_what_the_job_log_tells() {
    let mut readings: Vec<(f64, f64)> = minutes(5).map(|s| (s, 160.0)).collect();
    readings.extend(minutes(5).map(|s| (3_600.0 + s, 160.0)));
    let mut trace = powers(&readings);
    // The gap is from 300 to 3,600 s; the job holds the GPU until 1,300 s.
    job(&mut trace, "a", 0, 1_300, 1.0, Some(("n", Some("0"))));
    let ledger = measured(&trace, &given());
    // 1,000 s at the mean of the readings, 160 W, and 2,300 s at idle power.
    close(by(&ledger, Basis::Model), 160_000.0 + 138_000.0);
    close(ledger.jobs[0].coverage_ratio.unwrap(), 300.0 / 1_300.0);
}

fn meter(trace: &mut Trace, node: &str, sensor: &str, s: f64, watts: f64) {
    trace.node_samples.push(NodeSampleRow {
        ts: Some((s * 1_000.0) as i64),
        node: Some(node.to_owned().into()),
        sensor: Some(sensor.to_owned().into()),
        power_w: Some(watts),
        ..NodeSampleRow::default()
    });
}

#[test]
fn a_whole_node_meter_is_the_total_with_the_residual_its_own() {
    let mut trace = powers(&minutes(60).map(|s| (s, 300.0)).collect::<Vec<_>>());
    for s in minutes(60) {
        meter(&mut trace, "n", "Sys Power", s, 500.0);
        meter(&mut trace, "n", "CPU Power", s, 90.0);
    }
    job(&mut trace, "a", 0, 1_800, 1.0, Some(("n", Some("0"))));
    let ledger = measured(&trace, &Options { node_overhead_w: Some(180.0), ..given() });
    // 500 = 300 + 180 + 20 W for 3,600 s; half of the overhead is the job's.
    assert_eq!(ledger.metered_j.map(f64::round), Some(1_800_000.0));
    close(of(&ledger, Use::Overhead), 648_000.0);
    close(of(&ledger, Use::Residual), 72_000.0);
    close(ledger.jobs[0].overhead_j, 324_000.0);
    // GPUs that read more than the meter: the residual is negative.
    let ledger = measured(&trace, &Options { node_overhead_w: Some(250.0), ..given() });
    close(of(&ledger, Use::Residual), -180_000.0);
    // Without a given overhead the only node is as its like.
    let ledger = measured(&trace, &given());
    close(of(&ledger, Use::Overhead), 720_000.0);
    close(of(&ledger, Use::Residual), 0.0);
}

#[test]
fn overhead_is_fitted_to_nodes_of_a_kind_and_their_differences_are_residual() {
    let mut trace = Trace::default();
    for (node, watts) in [("n1", 480.0), ("n2", 520.0), ("n3", f64::NAN)] {
        for s in minutes(60) {
            trace.gpu_samples.push(GpuSampleRow {
                ts: Some((s * 1_000.0) as i64),
                node: Some(node.into()),
                gpu: Some("0".into()),
                power_w: Some(300.0),
                ..GpuSampleRow::default()
            });
            if watts.is_finite() {
                meter(&mut trace, node, "DCMI", s, watts);
            }
        }
    }
    let ledger = measured(&trace, &given());
    // 180 and 220 W beside the GPUs: 200 W, and -20 and +20 W. The third has no meter: 200 W as a model.
    close(of(&ledger, Use::Overhead), 3.0 * 720_000.0);
    let residual: Vec<f64> =
        ledger.entries.iter().filter(|entry| entry.spent_on == Use::Residual).map(|entry| entry.energy_j).collect();
    close(residual.iter().sum(), 0.0);
    close(sum(&ledger, |entry| entry.spent_on == Use::Overhead && entry.basis == Basis::Model), 720_000.0);
    assert_eq!(ledger.metered_j, None);
    close(ledger.total_j, 3_600_000.0 + 3.0 * 0.0 + 500.0 * 3_600.0);
    assert!(
        ledger
            .notes
            .iter()
            .any(|note| note.starts_with("2 nodes have a whole-node meter; together they read 1.000000 kWh."))
    );
}

#[test]
fn a_node_without_gpus_is_all_overhead_and_its_gaps_are_lines() {
    let mut trace = Trace::default();
    for s in minutes(2).chain([1_200.0, 1_260.0]) {
        meter(&mut trace, "c", "Sys Power", s, if s < 600.0 { 200.0 } else { 300.0 });
    }
    meter(&mut trace, "c", "Sys Power", 60.5, 25_550.0);
    let (ledger, counts) = measure_counted(&trace, &Options::default()).unwrap();
    conserved(&ledger);
    assert_eq!(counts.bad_power, 1);
    // 120 s · 200 W + 1,080 s · 250 W + 60 s · 300 W.
    // Of these the gap was not read.
    close(ledger.metered_j.unwrap(), 24_000.0 + 18_000.0);
    close(ledger.filled_j, 270_000.0);
    close(of(&ledger, Use::Overhead), 312_000.0);
    close(ledger.coverage_ratio.unwrap(), 180.0 / 1_260.0);
    let model = ledger.entries.iter().find(|entry| entry.basis == Basis::Model).unwrap();
    close(model.lower_j, 1_080.0 * 200.0);
    close(model.upper_j, 1_080.0 * 300.0);
}

#[test]
fn devices_without_readings_are_modelled_from_the_inventory_and_jobs() {
    let mut trace = Trace::default();
    trace.nodes.push(NodeRow {
        node: Some("m".into()),
        gpu_type: Some("A100".into()),
        gpus: Some(2.0),
        ..NodeRow::default()
    });
    job(&mut trace, "a", 0, 3_600, 1.0, Some(("m", Some("1"))));
    // A100: 60 W idle (published), 400 W at most; held at 50 %: 230 W. One GPU works, one does not, for an hour.
    let ledger = measured(&trace, &Options { assumed_util_ratio: Some(0.5), ..Options::default() });
    assert_eq!(energies(&ledger), [("a", 170.0 * 3_600.0, 60.0 * 3_600.0, 3_600.0)]);
    close(of(&ledger, Use::IdleUnallocated), 60.0 * 3_600.0);
    assert_eq!(ledger.coverage_ratio, Some(0.0));

    // Without an inventory: the GPU time of jobs alone; and of an unknown type nothing is said.
    let mut trace = Trace::default();
    job(&mut trace, "a", 0, 7_200, 4.0, None);
    assert!(matches!(measure(&trace, &Options::default()), Err(Error::Empty { .. })));
    let ledger = measured(&trace, &Options { assumed_util_ratio: Some(0.5), ..given() });
    // 60 + 340 / 2 = 230 W · 4 GPUs · 7,200 s.
    close(ledger.total_j, 230.0 * 28_800.0);
    assert_eq!(energies(&ledger), [("a", 170.0 * 28_800.0, 60.0 * 28_800.0, 28_800.0)]);
}

#[test]
fn a_cut_board_is_one_device() {
    let mut trace = Trace::default();
    for s in minutes(10) {
        for gpu in ["0/1g.10gb:1", "0/1g.10gb:2"] {
            sample(&mut trace, gpu, (s, None, Some(200.0), Some(0.9)), Some("a"));
        }
    }
    let (ledger, counts) = measure_counted(&trace, &given()).unwrap();
    conserved(&ledger);
    close(ledger.total_j, 120_000.0);
    assert_eq!((counts.duplicates, ledger.jobs.len()), (0, 0));
}

#[test]
fn attempts_hold_gpus_while_they_run() {
    let mut trace = powers(&minutes(60).map(|s| (s, 160.0)).collect::<Vec<_>>());
    job(&mut trace, "a", 0, 3_600, 1.0, None);
    for (attempt, from, to) in [(1, 0, 600), (2, 3_000, 3_600)] {
        trace.attempts.push(AttemptRow {
            job_key: Some("a".into()),
            attempt: Some(attempt),
            start: Some(from * 1_000),
            end: Some(to * 1_000),
            ..AttemptRow::default()
        });
        trace.placements.push(PlacementRow {
            job_key: Some("a".into()),
            attempt: Some(attempt),
            node: Some("n".into()),
            gpu_ids: Some("0".into()),
            gpus: Some(1.0),
        });
    }
    assert_eq!(energies(&measured(&trace, &given())), [("a", 120_000.0, 72_000.0, 1_200.0)]);
}

#[test]
fn where_samples_name_jobs_placements_tell_of_the_devices_without_samples() {
    let mut trace = Trace::default();
    for s in minutes(60) {
        sample(&mut trace, "0", (s, None, Some(160.0), None), Some("a"));
    }
    trace.nodes.push(NodeRow {
        node: Some("m".into()),
        gpu_type: Some("X".into()),
        gpus: Some(2.0),
        ..NodeRow::default()
    });
    job(&mut trace, "a", 0, 3_600, 1.0, Some(("n", Some("0"))));
    job(&mut trace, "b", 0, 1_800, 1.0, Some(("m", Some("1"))));
    let ledger = measured(&trace, &given());
    // 100 W above 60 W for an hour, and (by the mean of the readings) for half an hour on the node without samples.
    assert_eq!(energies(&ledger), [("a", 360_000.0, 216_000.0, 3_600.0), ("b", 180_000.0, 108_000.0, 1_800.0)]);
    // All jobs are placed, so nobody holds GPU 0 of m, nor GPU 1 in the second half hour.
    close(of(&ledger, Use::IdleUnallocated), 60.0 * 5_400.0);
    // A job that no placement tells of may hold them: power is the mean of the readings then, and nobody's.
    job(&mut trace, "c", 0, 3_600, 1.0, None);
    let ledger = measured(&trace, &given());
    close(sum(&ledger, |entry| entry.spent_on == Use::Active && entry.owner.is_none()), 100.0 * 5_400.0);
}

#[test]
fn senseless_options_are_refused() {
    let trace = powers(&[(0.0, 1.0), (60.0, 1.0)]);
    let wrong = Given { idle_w: Some(500.0), tdp_w: Some(400.0) };
    for options in [
        Options { from_ms: Some(5), to_ms: Some(5), ..Options::default() },
        Options { period_s: Some(0.0), ..Options::default() },
        Options { assumed_util_ratio: Some(1.5), ..Options::default() },
        Options { node_overhead_w: Some(-1.0), ..Options::default() },
        Options { wraps_j: vec![f64::NAN], ..Options::default() },
        Options { power: BTreeMap::from([("*".to_owned(), wrong)]), ..Options::default() },
    ] {
        assert!(matches!(measure(&trace, &options), Err(Error::Setting { .. })), "{options:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn energy_is_conserved(
        samples in prop::collection::vec(
            (0_u32..3, 0_u32..200, prop::option::of(0.0_f64..3e5), prop::option::of(-10.0_f64..600.0), prop::option::of(0.0_f64..1.0)),
            1..120,
        ),
        meters in prop::collection::vec((0_u32..2, 0_u32..200, 0.0_f64..3_000.0), 0..60),
        jobs in prop::collection::vec((0_i64..10_000, 1_i64..6_000, 0.1_f64..3.0, 0_u32..4), 0..8),
        overhead in prop::option::of(0.0_f64..500.0),
        knows in any::<bool>(),
        named in any::<bool>(),
    ) {
        let mut trace = Trace::default();
        for (place, (gpu, minute, counter, power, util)) in samples.iter().enumerate() {
            let name = ["j0", "j1", "j2,j0", "other"][place % 4];
            sample(&mut trace, &gpu.to_string(), (f64::from(*minute) * 60.0, *counter, *power, *util), named.then_some(name));
        }
        for (node, minute, watts) in &meters {
            meter(&mut trace, ["n", "c"][*node as usize], "Sys Power", f64::from(*minute) * 60.0, *watts);
        }
        for (place, (from, length, gpus, kind)) in jobs.iter().enumerate() {
            let place_at = match kind { 0 => None, 1 => Some(("n", None)), 2 => Some(("n", Some("0"))), _ => Some(("n", Some("0,1"))) };
            job(&mut trace, &format!("j{place}"), *from, from + length, *gpus, place_at);
        }
        let base = if knows { given() } else { Options::default() };
        if let Ok(ledger) = measure(&trace, &Options { node_overhead_w: overhead, ..base }) {
            conserved(&ledger);
        }
    }
}
