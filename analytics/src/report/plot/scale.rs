//! Maps values to distances, and places the ticks.
//!
//! A [`Span`] maps `[first, last]` to `[start, end]` units, linearly or by logarithm. Worked number: on a logarithmic span from
//! 1 s to 10,000 s over 400 units, 100 s stands at log(100) / log(10,000) × 400 = 200.
//!
//! Ticks are round in the unit a person counts in: 1, 2, 5 × 10^k for numbers, minutes, hours and days for durations, midnights,
//! Mondays and firsts of the month in the trace's time zone for dates.

use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan, Zoned};

use crate::report::chart::{Axis, Scale, Ticks};
use crate::report::format;

/// Durations that read well on a logarithmic axis, about a factor of six apart, in seconds.
const LOG_DURATIONS_S: [f64; 14] = [
    0.001,
    0.01,
    0.1,
    1.0,
    10.0,
    60.0,
    600.0,
    3_600.0,
    21_600.0,
    86_400.0,
    604_800.0,
    2_592_000.0,
    31_536_000.0,
    315_360_000.0,
];

/// Steps of a linear duration axis, in seconds.
const DURATION_STEPS_S: [f64; 28] = [
    0.001,
    0.01,
    0.1,
    0.5,
    1.0,
    2.0,
    5.0,
    10.0,
    15.0,
    30.0,
    60.0,
    120.0,
    300.0,
    600.0,
    900.0,
    1_800.0,
    3_600.0,
    7_200.0,
    10_800.0,
    21_600.0,
    43_200.0,
    86_400.0,
    172_800.0,
    432_000.0,
    604_800.0,
    1_209_600.0,
    2_592_000.0,
    7_776_000.0,
];

/// A stretch of values laid along a stretch of the sheet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Span {
    pub(super) scale: Scale,
    pub(super) first: f64,
    pub(super) last: f64,
    pub(super) start: f64,
    pub(super) end: f64,
}

impl Span {
    /// Position of a value; `None` if it has none (not finite, or not positive on a logarithmic
    /// axis).
    pub(super) fn at(&self, value: f64) -> Option<f64> {
        let place = |v: f64| match self.scale {
            Scale::Linear => v,
            Scale::Log => v.ln(),
        };
        if !value.is_finite() || (self.scale == Scale::Log && value <= 0.0) {
            return None;
        }
        let (a, b) = (place(self.first), place(self.last));
        let at = self.start + (place(value) - a) / (b - a) * (self.end - self.start);
        at.is_finite().then_some(at)
    }

    /// Position of a value, moved to the nearer end if it lies outside.
    pub(super) fn clamped(&self, value: f64) -> Option<f64> {
        let (low, high) = (self.start.min(self.end), self.start.max(self.end));
        self.at(value).map(|at| at.clamp(low, high))
    }
}

/// A tick and its label.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tick {
    pub(super) value: f64,
    pub(super) label: String,
}

/// The range an axis shows, from the values on it. Never empty, and positive on a logarithmic axis.
pub(super) fn range(axis: &Axis, values: impl Iterator<Item = f64>) -> (f64, f64) {
    let log = axis.scale == Scale::Log;
    let usable = |v: &f64| v.is_finite() && (!log || *v > 0.0);
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for value in values.filter(usable) {
        low = low.min(value);
        high = high.max(value);
    }
    let min = axis.min.filter(usable);
    let max = axis.max.filter(usable);
    if low > high {
        (low, high) = match (min, max) {
            (Some(a), _) => (a, a),
            (None, Some(b)) => (b, b),
            (None, None) => (1.0, 1.0),
        };
    }
    // Amounts are compared with nothing: their axis begins at zero unless all of them are far from it.
    if !log && min.is_none() && !matches!(axis.ticks, Ticks::Time(_)) && low > 0.0 && low < 0.6 * high {
        low = 0.0;
    }
    low = min.unwrap_or(low);
    high = max.unwrap_or(high);
    // A range narrower than a billionth of its values is one value: ticks could not be told apart.
    let wide = high - low > 1e-9 * low.abs().max(high.abs());
    if wide && (high - low).is_finite() {
        return (low, high);
    }
    if log {
        return ((low / 2.0).max(f64::MIN_POSITIVE), (low * 2.0).min(f64::MAX));
    }
    match (&axis.ticks, low) {
        (Ticks::Time(_), v) => (v - 43_200.0, v + 43_200.0),
        (_, 0.0) => (0.0, 1.0),
        (_, v) if v > 0.0 => (0.0, (v * 1.25).min(f64::MAX)),
        (_, v) => ((v * 1.25).max(f64::MIN), 0.0),
    }
}

/// The range widened to the next round number above, so that the highest value does not touch the frame.
pub(super) fn rounded_up(axis: &Axis, (low, high): (f64, f64), count: usize) -> (f64, f64) {
    if axis.scale == Scale::Log || !matches!(axis.ticks, Ticks::Auto | Ticks::Percent | Ticks::Duration) {
        return (low, high);
    }
    let step = linear_step(axis, high - low, count);
    let up = |v: f64| (v / step - 1e-9).ceil() * step;
    let down = |v: f64| (v / step + 1e-9).floor() * step;
    let first = if axis.min.is_some() { low } else { down(low) };
    let last = if axis.max.is_some() { high } else { up(high) };
    if last > first && (last - first).is_finite() { (first, last) } else { (low, high) }
}

/// The step of a linear axis that has about `count` ticks over `width`.
fn linear_step(axis: &Axis, width: f64, count: usize) -> f64 {
    let wanted = width / count.max(1) as f64;
    if axis.ticks == Ticks::Duration
        && let Some(step) = DURATION_STEPS_S.iter().find(|s| **s >= wanted * 0.9)
        && *step > 0.001
    {
        return *step;
    }
    // Longer than the steps above: whole days.
    let unit = if axis.ticks == Ticks::Duration && wanted > 86_400.0 { 86_400.0 } else { 1.0 };
    let decade = unit * 10_f64.powf((wanted / unit).log10().floor());
    let factor = wanted / decade;
    let step = if factor <= 1.5 {
        decade
    } else if factor <= 3.0 {
        2.0 * decade
    } else if factor <= 7.0 {
        5.0 * decade
    } else {
        10.0 * decade
    };
    if step.is_finite() && step > 0.0 { step } else { width.max(f64::MIN_POSITIVE) }
}

/// The ticks of an axis over `[first, last]`, about `count` of them.
pub(super) fn ticks(axis: &Axis, (first, last): (f64, f64), count: usize) -> Vec<Tick> {
    match (&axis.ticks, axis.scale) {
        (Ticks::Time(zone), _) => time_ticks(zone, first, last, count),
        (Ticks::Doubling, _) => doubling_ticks(first, last, count),
        (Ticks::Duration, Scale::Log) => {
            let inside = LOG_DURATIONS_S.iter().filter(|s| **s >= first * 0.999 && **s <= last * 1.001);
            let some: Vec<Tick> = inside.map(|s| Tick { value: *s, label: tick_duration(*s) }).collect();
            if some.len() >= 2 { some } else { log_ticks(first, last, count, tick_duration) }
        }
        (Ticks::Duration, Scale::Linear) => stepped(first, last, linear_step(axis, last - first, count), tick_duration),
        (Ticks::Percent, Scale::Log) => log_ticks(first, last, count, |v| tick_percent(v, v)),
        (Ticks::Percent, Scale::Linear) => {
            let step = linear_step(axis, last - first, count);
            stepped(first, last, step, |v| tick_percent(v, step))
        }
        (Ticks::Auto, Scale::Log) => log_ticks(first, last, count, |v| tick_number(v, v, v)),
        (Ticks::Auto, Scale::Linear) => {
            let step = linear_step(axis, last - first, count);
            let largest = first.abs().max(last.abs());
            stepped(first, last, step, |v| tick_number(v, step, largest))
        }
    }
}

/// Multiples of `step` in the range.
fn stepped(first: f64, last: f64, step: f64, label: impl Fn(f64) -> String) -> Vec<Tick> {
    let from = (first / step - 1e-6).ceil();
    let to = (last / step + 1e-6).floor();
    if !(from.is_finite() && to.is_finite()) || to - from > 200.0 {
        return Vec::new();
    }
    let count = (to - from).max(-1.0) as i64 + 1;
    (0..count)
        .map(|i| {
            // `+ 0.0` turns a negative zero into zero.
            let value = (from + i as f64) * step + 0.0;
            Tick { value, label: label(value) }
        })
        .collect()
}

/// Powers of ten; with 2 and 5 between them where the range spans fewer than three.
fn log_ticks(first: f64, last: f64, count: usize, label: impl Fn(f64) -> String) -> Vec<Tick> {
    let (low, high) = (first.log10(), last.log10());
    let decades = high - low;
    if decades < 0.5 {
        // Too narrow for powers: round steps.
        let axis = Axis::linear("");
        let step = linear_step(&axis, last - first, count);
        let largest = last.abs();
        return stepped(first, last, step, |v| if v == v.round() { label(v) } else { tick_number(v, step, largest) });
    }
    let between: &[f64] = if decades < 3.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let stride = (decades / count.max(1) as f64).ceil().max(1.0);
    let mut out = Vec::new();
    let mut power = (low.floor() / stride).floor() * stride;
    while power <= high + 1e-9 && out.len() < 200 {
        for factor in between {
            let value = factor * 10_f64.powf(power);
            if value >= first * 0.999_999 && value <= last * 1.000_001 {
                out.push(Tick { value, label: label(value) });
            }
        }
        power += stride;
    }
    out
}

/// Powers of two, every second or third one where there are many.
fn doubling_ticks(first: f64, last: f64, count: usize) -> Vec<Tick> {
    let (low, high) = ((first.log2() - 1e-9).ceil(), (last.log2() + 1e-9).floor());
    let stride = ((high - low + 1.0) / count.max(1) as f64).ceil().max(1.0);
    let mut out = Vec::new();
    let mut power = low;
    while power <= high && out.len() < 100 {
        let value = power.exp2();
        out.push(Tick { value, label: tick_number(value, value, value) });
        power += stride;
    }
    out
}

/// A duration in one unit, the largest in which it takes at most one decimal, so that a tick says the value it stands at: `30 d`, `1.5 h`, and
/// `30 h` rather than `1.3 d`.
fn tick_duration(seconds: f64) -> String {
    let size = seconds.abs();
    if size == 0.0 {
        return "0 s".to_string();
    }
    let units = [(86_400.0, "d"), (3_600.0, "h"), (60.0, "min"), (1.0, "s"), (0.001, "ms")];
    let says = |unit_s: f64| {
        let tenths = size / unit_s * 10.0;
        (tenths - tenths.round()).abs() <= 1e-6 * tenths.max(1.0)
    };
    let (unit_s, name) =
        units.into_iter().find(|(unit_s, _)| size >= *unit_s && says(*unit_s)).unwrap_or((0.001, "ms"));
    format!("{} {name}", plain(seconds / unit_s, 1))
}

/// A share as percent with the decimals its step needs.
fn tick_percent(ratio: f64, step: f64) -> String {
    format!("{} %", plain(ratio * 100.0, decimals(step * 100.0)))
}

/// A number with the decimals its step needs; shortened by an SI letter where the axis reaches a million.
fn tick_number(value: f64, step: f64, largest: f64) -> String {
    let (unit, letter) = if largest >= 1e12 {
        (1e12, " T")
    } else if largest >= 1e9 {
        (1e9, " G")
    } else if largest >= 1e6 {
        (1e6, " M")
    } else {
        (1.0, "")
    };
    if value == 0.0 {
        return "0".to_string();
    }
    if value.abs() < 1e-4 || value.abs() >= 1e15 {
        return format!("{value:.1e}").replace(".0e", "e").replace('-', "−");
    }
    format!("{}{letter}", plain(value / unit, decimals(step / unit)))
}

/// Decimals that a multiple of `step` needs, at most six.
fn decimals(step: f64) -> usize {
    (0..6)
        .find(|d| ((step * 10_f64.powi(*d)).fract()).abs().min(1.0 - (step * 10_f64.powi(*d)).fract().abs()) < 1e-6)
        .unwrap_or(6) as usize
}

/// A number with at most `digits` decimals, without trailing zeros.
fn plain(value: f64, digits: usize) -> String {
    let text = format::float(value, digits);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_string() } else { text }
}

/// Distance between the ticks of a time axis.
#[derive(Debug, Clone, Copy)]
enum TimeStep {
    Hours(i64),
    Days(i64),
    Weeks(i64),
    Months(i64),
    Years(i64),
}

const TIME_STEPS: [(TimeStep, f64); 18] = [
    (TimeStep::Hours(1), 3_600.0),
    (TimeStep::Hours(3), 10_800.0),
    (TimeStep::Hours(6), 21_600.0),
    (TimeStep::Hours(12), 43_200.0),
    (TimeStep::Days(1), 86_400.0),
    (TimeStep::Days(2), 172_800.0),
    (TimeStep::Weeks(1), 604_800.0),
    (TimeStep::Weeks(2), 1_209_600.0),
    (TimeStep::Months(1), 2_629_800.0),
    (TimeStep::Months(2), 5_259_600.0),
    (TimeStep::Months(3), 7_889_400.0),
    (TimeStep::Months(6), 15_778_800.0),
    (TimeStep::Years(1), 31_557_600.0),
    (TimeStep::Years(2), 63_115_200.0),
    (TimeStep::Years(5), 157_788_000.0),
    (TimeStep::Years(10), 315_576_000.0),
    (TimeStep::Years(50), 1_577_880_000.0),
    (TimeStep::Years(500), 15_778_800_000.0),
];

/// Ticks at round local times. Times outside what a calendar holds have none.
fn time_ticks(zone: &TimeZone, first: f64, last: f64, count: usize) -> Vec<Tick> {
    let wanted = (last - first) / count.max(1) as f64;
    let Some((step, _)) = TIME_STEPS.iter().find(|(_, s)| *s >= wanted) else {
        return Vec::new();
    };
    calendar_ticks(zone, first, last, *step).unwrap_or_default()
}

fn calendar_ticks(zone: &TimeZone, first: f64, last: f64, step: TimeStep) -> Option<Vec<Tick>> {
    let begin = Timestamp::from_second(first.floor() as i64).ok()?.to_zoned(zone.clone());
    let midnight = begin.start_of_day().ok()?;
    let origin: Zoned = match step {
        TimeStep::Hours(_) | TimeStep::Days(1) => midnight,
        // Every second day counts from the first of the month's first day shown; weeks begin on Monday.
        TimeStep::Days(_) => midnight,
        TimeStep::Weeks(_) => {
            let back = i64::from(midnight.weekday().to_monday_zero_offset());
            midnight.checked_sub(back.days()).ok()?
        }
        TimeStep::Months(n) => {
            let month = i64::from(midnight.month() - 1);
            let kept = i8::try_from(month / n * n + 1).ok()?;
            midnight.with().month(1).day(1).build().ok()?.with().month(kept).build().ok()?
        }
        TimeStep::Years(n) => {
            let year = i16::try_from(i64::from(midnight.year()).div_euclid(n) * n).ok()?;
            midnight.with().month(1).day(1).build().ok()?.with().year(year).build().ok()?
        }
    };
    let mut out: Vec<Tick> = Vec::new();
    let mut year_shown = None;
    for k in 0..400_i64 {
        let span = match step {
            TimeStep::Hours(n) => (k * n).hours(),
            TimeStep::Days(n) => (k * n).days(),
            TimeStep::Weeks(n) => (k * n).weeks(),
            TimeStep::Months(n) => (k * n).months(),
            TimeStep::Years(n) => (k * n).years(),
        };
        let Ok(at) = origin.checked_add(span) else {
            break;
        };
        let value = at.timestamp().as_second() as f64;
        if value > last {
            break;
        }
        if value < first {
            continue;
        }
        let new_year = year_shown != Some(at.year());
        let pattern = match step {
            TimeStep::Hours(_) if at.hour() != 0 || at.minute() != 0 => "%H:%M",
            TimeStep::Hours(_) | TimeStep::Days(_) | TimeStep::Weeks(_) if new_year => "%-d %b %Y",
            TimeStep::Hours(_) | TimeStep::Days(_) | TimeStep::Weeks(_) => "%-d %b",
            TimeStep::Months(_) if new_year => "%b %Y",
            TimeStep::Months(_) => "%b",
            TimeStep::Years(_) => "%Y",
        };
        if pattern.contains("%Y") {
            year_shown = Some(at.year());
        }
        out.push(Tick { value, label: at.strftime(pattern).to_string() });
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(ticks: &[Tick]) -> Vec<&str> {
        ticks.iter().map(|t| t.label.as_str()).collect()
    }

    #[test]
    fn a_log_span_places_equal_ratios_equally_far() {
        let span = Span { scale: Scale::Log, first: 1.0, last: 10_000.0, start: 0.0, end: 400.0 };
        // log 100 / log 10,000 = 1/2.
        assert!((span.at(100.0).unwrap_or(f64::NAN) - 200.0).abs() < 1e-9);
        assert_eq!(span.at(0.0), None);
        assert_eq!(span.at(f64::NAN), None);
        assert_eq!(span.clamped(1e9), Some(400.0));
    }

    #[test]
    fn ranges_are_never_empty() {
        let none = || std::iter::empty::<f64>();
        assert_eq!(range(&Axis::linear(""), none()), (0.0, 1.25));
        assert_eq!(range(&Axis::log(""), none()), (0.5, 2.0));
        assert_eq!(range(&Axis::log(""), [0.0, -3.0].into_iter()), (0.5, 2.0));
        assert_eq!(range(&Axis::linear(""), [0.0, 0.0].into_iter()), (0.0, 1.0));
        assert_eq!(range(&Axis::linear(""), [8.0, 8.0].into_iter()), (0.0, 10.0));
        assert_eq!(range(&Axis::share(""), [0.3].into_iter()), (0.0, 1.0));
        // 900 to 1,000 is far from zero, 100 to 1,000 is not.
        assert_eq!(range(&Axis::linear(""), [900.0, 1000.0].into_iter()), (900.0, 1000.0));
        assert_eq!(range(&Axis::linear(""), [100.0, 1000.0].into_iter()), (0.0, 1000.0));
    }

    #[test]
    fn numbers_step_by_one_two_five() {
        let axis = Axis::linear("");
        // 93 / 5 = 18.6, and the next of 1, 2, 5 × 10^k is 20.
        assert_eq!(labels(&ticks(&axis, (0.0, 93.0), 5)), ["0", "20", "40", "60", "80"]);
        assert_eq!(rounded_up(&axis, (0.0, 93.0), 5), (0.0, 100.0));
        assert_eq!(labels(&ticks(&axis, (0.0, 4.0e6), 4)), ["0", "1 M", "2 M", "3 M", "4 M"]);
        assert_eq!(labels(&ticks(&axis, (0.0, 0.5), 5)), ["0", "0.1", "0.2", "0.3", "0.4", "0.5"]);
        assert_eq!(labels(&ticks(&Axis::share(""), (0.0, 1.0), 5)), ["0 %", "20 %", "40 %", "60 %", "80 %", "100 %"]);
    }

    #[test]
    fn durations_are_round_in_the_units_people_count_in() {
        let log = Axis::log_duration("");
        assert_eq!(
            labels(&ticks(&log, (1.0, 700_000.0), 8)),
            ["1 s", "10 s", "1 min", "10 min", "1 h", "6 h", "1 d", "7 d"]
        );
        let linear = Axis::duration("");
        // 4 h over 4 ticks: 1 h.
        assert_eq!(labels(&ticks(&linear, (0.0, 14_400.0), 4)), ["0 s", "1 h", "2 h", "3 h", "4 h"]);
        // 1.25 d has no one decimal, so it is told in hours.
        assert_eq!(
            [tick_duration(108_000.0), tick_duration(129_600.0), tick_duration(1_000.0)],
            ["30 h", "1.5 d", "1,000 s"]
        );
        // Years: 6 × 10⁷ s are 694 d, so every 100 d.
        assert_eq!(
            labels(&ticks(&linear, (0.0, 6e7), 5)),
            ["0 s", "100 d", "200 d", "300 d", "400 d", "500 d", "600 d"]
        );
    }

    #[test]
    fn powers_of_ten_and_two() {
        assert_eq!(
            labels(&ticks(&Axis::log(""), (1.0, 1e6), 8)),
            ["1", "10", "100", "1,000", "10,000", "100,000", "1 M"]
        );
        assert_eq!(labels(&ticks(&Axis::doubling(""), (1.0, 8.0), 8)), ["1", "2", "4", "8"]);
    }

    #[test]
    fn dates_follow_the_calendar_of_the_zone() {
        // 1506816000 is 2017-10-01 00:00 UTC, a Sunday; four weeks hold the Mondays 2, 9, 16 and 23 October.
        let first = 1_506_816_000.0;
        let weeks = ticks(&Axis::time("", TimeZone::UTC), (first, first + 27.0 * 86_400.0), 5);
        assert_eq!(labels(&weeks), ["2 Oct 2017", "9 Oct", "16 Oct", "23 Oct"]);
        // In Shanghai, eight hours ahead, Monday begins at 16:00 UTC on Sunday.
        let zone = TimeZone::get("Asia/Shanghai").unwrap_or(TimeZone::UTC);
        let there = ticks(&Axis::time("", zone), (first, first + 27.0 * 86_400.0), 5);
        assert_eq!(there.first().map(|t| t.value), Some(first + 16.0 * 3_600.0));
        let months = ticks(&Axis::time("", TimeZone::UTC), (first, first + 150.0 * 86_400.0), 6);
        assert_eq!(labels(&months), ["Oct 2017", "Nov", "Dec", "Jan 2018", "Feb"]);
        assert!(ticks(&Axis::time("", TimeZone::UTC), (-1e18, 1e18), 6).is_empty());
    }
}
