use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use tracecast_analytics::describe::Topic;
use tracecast_analytics::describe::power::Power;
use tracecast_analytics::facts::JobFacts;
use tracecast_analytics::time::{Zone, parse_local};
use tracecast_tests::{read, real_trace};

/// Watts by time in ms, of each (node, sensor); readings a sensor cannot have are left out.
fn plain(path: &Path) -> BTreeMap<(String, String), BTreeMap<i64, f64>> {
    let utc = Zone::utc();
    let mut text = String::new();
    flate2::read::MultiGzDecoder::new(std::fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    let mut meters: BTreeMap<(String, String), BTreeMap<i64, f64>> = BTreeMap::new();
    for line in text.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let shared = fields[2] == "PSU Power" || fields[2] == "Chassis Power";
        if fields[3] == "25550" || (shared && fields[3] == "2555") {
            continue;
        }
        let (ts, _) = utc.resolve(parse_local(fields[1]).unwrap()).unwrap();
        let meter = meters.entry((fields[0].to_owned(), fields[2].to_owned())).or_default();
        meter.entry(ts).or_insert_with(|| fields[3].parse().unwrap());
    }
    meters
}

/// Joules, seconds bridged and seconds spanned of one meter, by the definition: each gap on its own.
fn trapezoid(meter: &BTreeMap<i64, f64>) -> (f64, f64, f64) {
    let points: Vec<(f64, f64)> = meter.iter().map(|(ms, watts)| (*ms as f64 / 1_000.0, *watts)).collect();
    let mut gaps: Vec<f64> = points.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    if gaps.is_empty() {
        return (0.0, 0.0, 0.0);
    }
    let span = points[points.len() - 1].0 - points[0].0;
    // The sample period is the lower median of the first 15 gaps.
    gaps.truncate(15);
    gaps.sort_by(f64::total_cmp);
    let longest = 3.0 * gaps[(gaps.len() - 1) / 2];
    let (mut joules, mut bridged) = (0.0, 0.0);
    for pair in points.windows(2) {
        let gap = pair[1].0 - pair[0].0;
        if gap <= longest {
            joules += gap * (pair[0].1 + pair[1].1) / 2.0;
            bridged += gap;
        }
    }
    (joules, bridged, span)
}

// Energy, coverage and mean of every sensor and of the nodes, against a plain loop over the lines of the file.
#[test]
fn the_real_series_has_the_energy_of_a_plain_loop() {
    let Some(path) = real_trace("harvard_ipmi/power_1min_2025-06-03.csv.gz") else { return };
    let meters = plain(&path);
    let trace = read(&[path]).unwrap();
    let power = Power::of(&JobFacts::new(&trace)).unwrap();
    assert!(power.gpus.is_none() && power.reported.is_none());
    let nodes = power.nodes.unwrap();
    let close = |found: f64, expected: f64| (found - expected).abs() <= 1e-9 * expected.abs().max(1.0);

    let mut by_sensor: BTreeMap<&str, Vec<&BTreeMap<i64, f64>>> = BTreeMap::new();
    let mut main: BTreeMap<&str, (&str, &BTreeMap<i64, f64>)> = BTreeMap::new();
    for ((node, sensor), meter) in &meters {
        by_sensor.entry(sensor).or_default().push(meter);
        if sensor == "Sys Power" || (sensor == "Pwr Consumption" && !main.contains_key(node.as_str())) {
            main.insert(node, (sensor, meter));
        }
    }
    let sums = |meters: &[&BTreeMap<i64, f64>]| {
        let mut sums = (0.0, 0.0, 0.0);
        for (joules, bridged, span) in meters.iter().map(|meter| trapezoid(meter)) {
            sums = (sums.0 + joules, sums.1 + bridged, sums.2 + span);
        }
        let watts: Vec<f64> = meters.iter().flat_map(|meter| meter.values().copied()).collect();
        (sums, watts.len() as u64, watts.iter().sum::<f64>() / watts.len() as f64)
    };

    assert_eq!(nodes.sensors.len(), by_sensor.len());
    for (found, (sensor, meters)) in nodes.sensors.iter().zip(&by_sensor) {
        assert_eq!(found.sensor.as_deref(), Some(*sensor));
        let ((joules, bridged, span), readings, mean) = sums(meters);
        assert_eq!(found.power_w.count, readings, "{sensor}");
        assert!(close(found.power_w.mean, mean), "{sensor}");
        assert_eq!(found.energy.is_none(), *sensor == "Chassis Power" || *sensor == "PSU Power");
        if let Some(energy) = &found.energy {
            assert!(close(energy.energy_kwh, joules / 3.6e6) && close(energy.bridged_h, bridged / 3_600.0), "{sensor}");
            assert!(close(energy.span_h, span / 3_600.0), "{sensor}");
        }
    }

    let total = nodes.total.unwrap();
    let of_main: Vec<&BTreeMap<i64, f64>> = main.values().map(|(_, meter)| *meter).collect();
    let ((joules, bridged, span), readings, mean) = sums(&of_main);
    assert_eq!(
        (nodes.nodes, total.energy.meters, total.power_w.count),
        (main.len() as u64, main.len() as u64, readings)
    );
    assert!(close(total.power_w.mean, mean) && close(total.energy.energy_kwh, joules / 3.6e6));
    assert!(close(total.energy.bridged_h, bridged / 3_600.0) && close(total.energy.span_h, span / 3_600.0));
    // The stretches of power over time hold the same meter-hours, each counted once.
    let last = of_main.iter().filter_map(|meter| meter.keys().next_back()).max().unwrap();
    let ends = nodes.over_time.iter().skip(1).map(|point| point.ts).chain([*last]);
    let held_ms: f64 = nodes.over_time.iter().zip(ends).map(|(at, end)| at.meters * (end - at.ts) as f64).sum();
    assert!(close(held_ms / 3_600_000.0, bridged / 3_600.0), "{held_ms} ms against {bridged} s");
    assert!(nodes.over_time.len() <= 600);
}
