//! Hours and days of zones that are off by half an hour, or where a day has 23.

use super::*;
use crate::schema::ActivityRow;
use crate::trace::Trace;

// 1970-01-01 00:00 UTC is 05:30 in Kolkata: one hour of use lies half in hour 5 and half in hour 6 there.
#[test]
fn a_zone_off_by_half_an_hour_splits_use_as_it_splits_time() {
    let zone = Zone::named("Asia/Kolkata").unwrap();
    let mut seen: BTreeMap<u8, (f64, i64)> = BTreeMap::new();
    by_local_hour(&zone, &Steps::of_intervals([(0, HOUR_MS / 2, 4.0)]), 0, HOUR_MS, |local, area, length| {
        let hour = seen.entry(local.hour).or_default();
        hour.0 += area;
        hour.1 += length;
    });
    let half = HOUR_MS / 2;
    assert_eq!(seen, BTreeMap::from([(5, (4.0 * half as f64, half)), (6, (0.0, half))]));
}

#[test]
fn a_series_of_nodes_alone_is_load_too() {
    let mut trace = Trace::default();
    for (ts, active) in [(0, 3.0), (60_000, 5.0)] {
        trace.activity.push(ActivityRow {
            scope: Some("cluster".into()),
            name: Some("c".into()),
            ts: Some(ts),
            nodes_active: Some(active),
            nodes_total: Some(10.0),
            ..ActivityRow::default()
        });
    }
    let load = CalendarLoad::of(&JobFacts::new(&trace)).unwrap();
    let nodes = load.nodes_in_use.as_ref().unwrap();
    // 3 nodes for a minute, then 5 for another.
    assert_eq!((nodes.from_ms, nodes.to_ms), (0, 120_000));
    assert_eq!((nodes.mean_nodes, nodes.peak_nodes, nodes.utilisation), (4.0, 5.0, Some(0.4)));
    assert!(load.gpus_in_use.is_none() && load.by_hour.is_empty());
    assert_eq!(load.section().finding, "On average **4** nodes were in use of 10, **40.0 %**; at the peak 5.");
}
/// An hour each: 4 of 10 nodes, then 26 h at zero, then 4 again.
fn interrupted() -> Trace {
    let mut trace = Trace::default();
    for hour in 0..28 {
        let active = if hour == 0 || hour == 27 { 4.0 } else { 0.0 };
        trace.activity.push(ActivityRow {
            scope: Some("cluster".into()),
            name: Some("c".into()),
            ts: Some(hour * HOUR_MS),
            nodes_active: Some(active),
            nodes_total: Some(10.0),
            gpus_running: Some(active * 8.0),
            gpus_total: Some(80.0),
            ..ActivityRow::default()
        });
    }
    trace
}

#[test]
fn hours_in_which_a_whole_cluster_is_at_zero_are_left_out() {
    let trace = interrupted();
    let load = CalendarLoad::of(&JobFacts::new(&trace)).unwrap();
    let nodes = load.nodes_in_use.as_ref().unwrap();
    assert_eq!((nodes.mean_nodes, nodes.utilisation, nodes.outage_hours), (4.0, Some(0.4), 26.0));
    // 2 h of 4 nodes in 28 h of 10.
    assert!((nodes.utilisation_with_outages.unwrap() - 8.0 / 280.0).abs() < 1e-12);
    assert_eq!(nodes.curve.iter().map(|(_, nodes)| *nodes).fold(f64::NAN, f64::min), 4.0);
    let gpus = load.gpus_in_use.as_ref().unwrap();
    assert_eq!((gpus.mean_gpus, gpus.utilisation, gpus.outage_hours), (32.0, Some(0.4), 26.0));
    let section = load.section();
    let coverage = section.coverage.unwrap();
    assert!(coverage.contains("26.0 h") && coverage.contains("Counted as idle"), "{coverage}");
    // The mean of an hour of the day is over the hours that were counted: 00:00 and 03:00 of the next day.
    let mut dated = trace;
    dated.basis = crate::time::TimeBasis::Utc;
    let load = CalendarLoad::of(&JobFacts::new(&dated)).unwrap();
    let known: Vec<(u8, f64)> = load.by_hour.iter().filter_map(|h| Some((h.hour, h.gpus_in_use?))).collect();
    assert_eq!(known, [(0, 32.0), (3, 32.0)]);
}

#[test]
fn a_night_without_jobs_after_a_quiet_evening_is_idle() {
    let mut trace = interrupted();
    // 1 of 10 nodes before the fall: nothing says that the counting failed.
    trace.activity.nodes_active.set(0, Some(1.0));
    let load = CalendarLoad::of(&JobFacts::new(&trace)).unwrap();
    let nodes = load.nodes_in_use.as_ref().unwrap();
    assert_eq!((nodes.outage_hours, nodes.utilisation_with_outages), (0.0, None));
    assert!((nodes.mean_nodes - 5.0 / 28.0).abs() < 1e-12);
}
