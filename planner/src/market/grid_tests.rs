//! Hours of the week by hand: with few hours, and with two halves.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use tracecast_analytics::time::DAY_MS;

use super::*;

/// Midnight of the first Monday of the epoch, ms.
const MONDAY: i64 = 4 * DAY_MS;

#[test]
fn the_worked_example() {
    let known = KnownWeek::learn(&Hourly::new([(MONDAY, 100.0), (MONDAY + HOUR_MS, 500.0)])).unwrap();
    let week = &known.all;
    assert_eq!((week.g_per_kwh, week.hours, week.missing, known.known), (300.0, 2, 166, None));
    let kg = |hour: Option<usize>| (2.0 * week.g_per_kwh * week.shape.at(hour)).round() / 1e3;
    // Monday at 0:00, 1:00 and 2:00, Tuesday at 0:00, and nobody knows when.
    assert_eq!([Some(0), Some(1), Some(2), Some(24), None].map(kg), [0.2, 1.0, 0.6, 0.2, 0.6]);
    assert_eq!((&known.before, &known.after), (week, week));
    let (least, most) = week.shape.range();
    assert!((least - 1.0 / 3.0).abs() < 1e-9 && (most - 5.0 / 3.0).abs() < 1e-9);
    assert!(KnownWeek::learn(&Hourly::constant(5.0)).is_none());
}

/// Five weeks: two are known before the split, and three tell what came.
#[test]
fn what_is_chosen_with_is_not_what_it_is_scored_with() {
    let g = |hour: i64| if hour < 2 * WEEK_HOURS as i64 { 100.0 } else { 100.0 + 30.0 * (hour % 2) as f64 };
    let hourly = Hourly::new((0..5 * WEEK_HOURS as i64).map(|hour| (MONDAY + hour * HOUR_MS, g(hour))));
    let known = KnownWeek::learn(&hourly).unwrap();
    assert!(known.known.is_some());
    assert_eq!(known.before, GridWeek { hours: 336, ..GridWeek::flat(100.0) });
    assert_eq!((known.after.g_per_kwh, known.after.hours, known.all.g_per_kwh), (115.0, 504, 109.0));
    // In all of them, odd hours are 118 g and even ones 100.
    assert!((known.all.shape.at(Some(1)) * 109.0 - 118.0).abs() < 1e-9);
}

#[test]
fn sums_of_equal_hours_are_flat() {
    // 0.1 is no binary fraction: its sums over 53 and 52 weeks differ in the last places.
    let hours = 52 * WEEK_HOURS as i64 + 24;
    let hourly = Hourly::new((0..hours).map(|hour| (hour * HOUR_MS, 123.1)));
    let known = KnownWeek::learn(&hourly).unwrap();
    assert!((known.all.g_per_kwh - 123.1).abs() < 1e-9);
    assert_eq!([known.all, known.before, known.after].map(|of| of.shape), [(); 3].map(|()| WeekShape::default()));
}
