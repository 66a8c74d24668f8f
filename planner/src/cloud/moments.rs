//! The windows that a cloud plan is tried on: the same moments in all zones where traces are of one time.
//!
//! Zones can be compared only on the same days. So where traces have ticks of one length, and either say when they begin or are taken to begin together, the windows are [spread] over the time that all of them have: over its first two
//! thirds to choose on, over its last third to report on (or both halves, where a third does not hold one). Otherwise each trace has windows of its own, and [`Moments::apart`] says why.
//!
//! O(zones × windows). Worked example: two traces of 40 and 30 days are tried on the first 20 days, and reported on the next 10. What the longer one has after that is used for the plan from the end of the data on.

use tracecast_analytics::report::format;

use super::job::DeadlineJob;
use super::request::{longest, too_short};
use crate::error::Result;
use crate::market::availability::SpotSeries;
use crate::plan::window::{Window, learn_and_choose, spread};

/// Windows zone by zone: to choose on, and to report on.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Moments {
    /// Windows of each zone.
    pub(super) zones: Vec<[Vec<Window>; 2]>,
    /// Why those of different zones begin at different moments; nothing where they begin at the same ones, or there is one zone.
    pub(super) apart: Option<String>,
}

/// Windows of `needed` ticks within some, to choose on and to report on; nothing where they do not hold both.
fn within(ticks: std::ops::Range<usize>, needed: usize, starts: usize) -> Option<[Vec<Window>; 2]> {
    let (early, late) = learn_and_choose(&ticks);
    let middle = ticks.start + ticks.len() / 2;
    let (early, late) = if late.len() >= needed { (early, late) } else { (ticks.start..middle, middle..ticks.end) };
    let result = [spread(&early, needed, starts), spread(&late, needed, starts)];
    (!result.iter().any(Vec::is_empty)).then_some(result)
}

/// How many ticks after the beginning of the first trace named all of them still have.
pub(super) fn common_end(series: &[SpotSeries]) -> usize {
    let offsets = offsets(series);
    common(&offsets, series).end.saturating_sub(offsets.first().copied().unwrap_or(0))
}

/// The ticks that all traces have, counted as `offsets` are.
fn common(offsets: &[usize], series: &[SpotSeries]) -> std::ops::Range<usize> {
    let ends = offsets.iter().zip(series).map(|(offset, zone)| offset.saturating_add(zone.counts.len()));
    offsets.iter().max().copied().unwrap_or(0)..ends.min().unwrap_or(0)
}

/// By how many ticks each trace begins after the first of them.
fn offsets(series: &[SpotSeries]) -> Vec<usize> {
    let begins: Option<Vec<i64>> = series.iter().map(|zone| zone.begins_ms).collect();
    let Some(begins) = begins else { return vec![0; series.len()] };
    let first = begins.iter().min().copied().unwrap_or(0);
    let after = |(begins, zone): (&i64, &SpotSeries)| {
        usize::try_from((begins - first + zone.tick_ms / 2) / zone.tick_ms.max(1)).unwrap_or(usize::MAX)
    };
    begins.iter().zip(series).map(after).collect()
}

impl Moments {
    /// Cuts traces into windows, for the longest of some jobs.
    ///
    /// # Errors
    /// If a trace is too short for a window to choose on and another to report on.
    ///
    /// # Errors
    /// If a trace is too short for a window to choose on and another to report on.
    pub(super) fn of(series: &[SpotSeries], jobs: &[DeadlineJob], starts: usize) -> Result<Self> {
        let apart = match Self::together(series, jobs, starts) {
            Ok(zones) => return Ok(Self { zones, apart: None }),
            Err(why) => why,
        };
        let own = |zone: &SpotSeries| {
            let (ticks, needed) = (zone.counts.len(), longest(zone, jobs));
            within(0..ticks, needed, starts).ok_or_else(|| too_short(zone, ticks, needed, 2))
        };
        Ok(Self { zones: series.iter().map(own).collect::<Result<_>>()?, apart: (series.len() > 1).then_some(apart) })
    }

    /// Windows at equal moments in all zones, or why there are none.
    fn together(
        series: &[SpotSeries],
        jobs: &[DeadlineJob],
        starts: usize,
    ) -> std::result::Result<Vec<[Vec<Window>; 2]>, String> {
        let Some(first) = series.first() else { return Err(String::new()) };
        if let Some(other) = series.iter().find(|zone| zone.tick_ms != first.tick_ms) {
            let apart = |zone: &SpotSeries| format::duration(zone.tick_ms as f64 / 1e3);
            return Err(format!(
                "samples of {} are {} apart, and those of {} {}",
                first.name,
                apart(first),
                other.name,
                apart(other)
            ));
        }
        let offsets = offsets(series);
        let ticks = common(&offsets, series);
        let needed = longest(first, jobs);
        let Some(windows) = within(ticks.start..ticks.end.max(ticks.start), needed, starts) else {
            let held = ticks.len() as f64 * first.tick_ms as f64 / 1e3;
            return Err(format!(
                "the traces have {} in common, which holds no window to choose on and another to report on",
                format::duration(held)
            ));
        };
        let moved = |by: usize, windows: &[Window]| -> Vec<Window> {
            windows
                .iter()
                .map(|of| Window { past: 0..of.ahead.start - by, ahead: of.ahead.start - by..of.ahead.end - by })
                .collect()
        };
        let [choose, report] = &windows;
        Ok(offsets.into_iter().map(|by| [moved(by, choose), moved(by, report)]).collect())
    }
}

/// How many of these windows fit without overlap: as many as speak for themselves.
pub(super) fn disjoint(windows: &[Window]) -> usize {
    let (mut count, mut free) = (0, 0);
    for window in windows {
        if window.ahead.start >= free {
            count += 1;
            free = window.ahead.end;
        }
    }
    count
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;

    fn zone(name: &str, hours: usize, begins_h: Option<i64>) -> SpotSeries {
        SpotSeries {
            begins_ms: begins_h.map(|hours| hours * HOUR),
            ..SpotSeries::of_counts(name, HOUR, vec![1.0; hours])
        }
    }

    fn starts(of: &[Window]) -> Vec<usize> {
        of.iter().map(|window| window.ahead.start).collect()
    }

    fn job() -> [DeadlineJob; 1] {
        [DeadlineJob { work_ms: 8 * HOUR, deadline_ms: 10 * HOUR, changeover_ms: 0, price_ratio: 3.0 }]
    }

    #[test]
    fn the_same_moments_in_all_zones() {
        let result = Moments::of(&[zone("a", 120, None), zone("b", 90, None)], &job(), 3).unwrap();
        assert_eq!(result.apart, None);
        for [choose, report] in &result.zones {
            assert_eq!((starts(choose), starts(report)), (vec![0, 25, 50], vec![60, 70, 80]));
        }
        // One that begins six hours later has fewer ticks before the same moment.
        let result = Moments::of(&[zone("a", 120, Some(100)), zone("b", 90, Some(106))], &job(), 2).unwrap();
        let [[a, _], [b, _]] = result.zones.as_slice() else { panic!("{result:?}") };
        assert_eq!((starts(a), starts(b)), (vec![6, 56], vec![0, 50]));
        assert!(b[1].past == (0..50) && a[1].past == (0..56));
    }

    #[test]
    fn what_is_of_other_times_has_windows_of_its_own() {
        let other = SpotSeries::of_counts("b", HOUR / 2, vec![1.0; 120]);
        let result = Moments::of(&[zone("a", 90, None), other], &job(), 2).unwrap();
        assert!(result.apart.unwrap().contains("samples of a are 1 h apart, and those of b 30 min"));
        assert_eq!((starts(&result.zones[0][1]), starts(&result.zones[1][1])), (vec![60, 80], vec![80, 100]));
        let result = Moments::of(&[zone("a", 90, Some(0)), zone("b", 90, Some(80))], &job(), 2).unwrap();
        assert!(result.apart.unwrap().contains("10 h in common"));
        let short = Moments::of(&[zone("a", 19, None)], &job(), 2).unwrap_err().to_string();
        assert!(short.contains("once to choose on"), "{short}");
        assert_eq!(Moments::of(&[zone("a", 90, None)], &job(), 2).unwrap().apart, None);
    }

    #[test]
    fn windows_that_speak_for_themselves() {
        assert_eq!(disjoint(&spread(&(0..40), 10, 31)), 4);
        assert_eq!(disjoint(&spread(&(0..12), 10, 3)), 1);
        assert_eq!(disjoint(&[]), 0);
    }
}
