//! Windows in time: what teaches, what is chosen on, what is reported, and when models are fitted again.
//!
//! Items (jobs by submission, or slots) are in order of time, and are parted by their positions ([`Parts`]):
//!
//! ```text
//! 0 ─────────── first ─────────── choose ─────────── report ─────────── end
//!    teaches         predicted, teaches     models are        is reported
//!                    calibration            chosen on it
//! ```
//!
//! A [`Refit`] is a fit at a moment, with what had happened by then, and the items it predicts: those up to the next fit. Nothing of an item is
//! known to the fit that predicts it. O(fits × log items).
//!
//! Worked example: of 1,000 jobs with shares of 50, 60 and 80 %, 0–499 only teach, 500–599 calibration too, 600–799 choose and 800–999 are
//! reported. Ten slots from the third on, reported from the seventh on and refitted every three, are served by fits at 2, 3, 6 and 9
//! (positions from 0): back from the report in equal steps, and on from there.

use std::ops::Range;

/// Beginnings of the parts of a record, as positions of its items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts {
    /// First item that is predicted.
    pub first: usize,
    /// The first to choose on.
    pub choose: usize,
    /// The first reported.
    pub report: usize,
    /// The first after those reported.
    pub end: usize,
}

/// A fit, and the items that it predicts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refit {
    /// Time of the fit, milliseconds since the epoch: what had happened by then is known.
    pub now_ms: i64,
    /// The items it predicts.
    pub serves: Range<usize>,
}

/// Position of a share of the items.
pub fn position(share: f64, items: usize) -> usize {
    ((items as f64 * share) as usize).min(items)
}

/// Fits every `step_ms` from the time of item `first` on; one that would serve no item is not made. `times_ms` rise.
pub fn by_time(times_ms: &[i64], first: usize, step_ms: i64) -> Vec<Refit> {
    let mut refits = Vec::new();
    let mut from = first;
    let Some(mut now_ms) = times_ms.get(first).copied() else { return refits };
    while from < times_ms.len() {
        let to = times_ms.partition_point(|time| *time < now_ms + step_ms);
        if to > from {
            refits.push(Refit { now_ms, serves: from..to });
        }
        from = to;
        now_ms += step_ms;
    }
    refits
}

/// Slots that each fit serves, beginning with the slot at which it is made: back from the report in equal steps, and on from there.
pub fn by_slot(parts: Parts, step: usize) -> Vec<Range<usize>> {
    let step = step.max(1);
    let earlier = (0..).map(|back| parts.report.checked_sub(back * step));
    let mut starts: Vec<usize> = earlier.map_while(|at| at.filter(|at| *at > parts.first)).collect();
    starts.push(parts.first);
    starts.reverse();
    let mut next = parts.report + step;
    while next < parts.end {
        starts.push(next);
        next += step;
    }
    let ends = starts.iter().skip(1).copied().chain([parts.end]);
    starts.iter().copied().zip(ends).map(|(from, to)| from..to).filter(|serves| !serves.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_example() {
        assert_eq!([0.5, 0.6, 0.8, 1.1].map(|share| position(share, 1000)), [500, 600, 800, 1000]);
        let parts = Parts { first: 2, choose: 4, report: 6, end: 10 };
        assert_eq!(by_slot(parts, 3), [2..3, 3..6, 6..9, 9..10]);
    }

    #[test]
    fn fits_that_serve_nobody_are_not_made() {
        // Every 10 ms from the second item's time on; nobody comes between 25 and 45.
        let refits = by_time(&[0, 5, 9, 15, 24, 46], 1, 10);
        let result: Vec<_> = refits.into_iter().map(|refit| (refit.now_ms, refit.serves)).collect();
        assert_eq!(result, [(5, 1..3), (15, 3..5), (45, 5..6)]);
        assert!(by_time(&[], 0, 10).is_empty());
    }
}
