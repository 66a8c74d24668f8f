//! Where a record of jobs thins out before it ends: its last days hold so few jobs that they tell of the record and not of the cluster.
//!
//! A record that lists jobs once they have ended lacks those that still ran when it was taken, and one that was cut by hand may fade in other ways. A plan to
//! put nodes to sleep that is tried on such days looks better than it is.
//!
//! The days thin out from the first one on from which every day, to the end, is below half of the median of up to 28 days before it. Fewer than three days
//! are a weekend and not a tail, and more than 28 are what the cluster does by now. Counts that the cluster made itself do not fade this way. O(days²). Worked example: 120 days at some 200 nodes in use, then
//! ten at 60 and less: the last ten are a tail.

use tracecast_analytics::stats::rank;
use tracecast_analytics::time::DAY_MS;
use tracecast_predictors::demand::Series;

use crate::plan::interval::average;

/// Share of the usual day below which a day is thin.
const THIN: f64 = 0.5;
/// Fewest days that are a tail.
const LEAST: usize = 3;
/// Most of them: what lasts for longer is no end of a record.
const MOST: usize = 28;
/// Days that tell what is usual: at least, and at most.
const USUAL: (usize, usize) = (7, 28);

/// The last days of a record that thins out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Thinning {
    /// Beginning of the thin days, milliseconds since the epoch.
    pub from_ms: i64,
    /// How many they are.
    pub days: usize,
    /// Nodes in use in them, mean.
    pub nodes: f64,
    /// Nodes in use before, median of the days that tell what is usual.
    pub usual: f64,
}

impl Thinning {
    /// Finds the thin last days of a series, if it has any.
    pub fn new(series: &Series) -> Option<Self> {
        let per_day = usize::try_from(DAY_MS / series.slot_ms.max(1)).ok().filter(|slots| *slots > 0)?;
        // Whole days, back from the end.
        let skipped = series.slots.len() % per_day;
        let slots = series.slots.get(skipped..)?;
        let days: Vec<f64> = slots.chunks(per_day).map(|day| average(day.iter().map(|slot| slot.mean))).collect();
        let usual = |first: usize| {
            let before = days.get(first.saturating_sub(USUAL.1)..first).unwrap_or_default();
            (before.len() >= USUAL.0).then(|| rank::upper(&mut before.to_vec(), 0.5).unwrap_or(0.0))
        };
        let is_tail = |first: &usize| {
            let tail = days.get(*first..).unwrap_or_default();
            usual(*first).is_some_and(|usual| tail.iter().all(|day| *day < THIN * usual))
        };
        let first = (USUAL.0..=days.len().checked_sub(LEAST)?).find(is_tail)?;
        let tail = days.get(first..).filter(|tail| tail.len() <= MOST)?;
        Some(Self {
            from_ms: series.time_ms(skipped + first * per_day),
            days: tail.len(),
            nodes: average(tail.iter().copied()),
            usual: usual(first)?,
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::power::made;

    /// A series of one slot a day.
    fn daily(days: &[f64]) -> Series {
        let mut series = made::series(days.iter().map(|nodes| (*nodes, 400.0)).collect::<Vec<_>>());
        series.slot_ms = DAY_MS;
        for slot in &mut series.slots {
            slot.mean = slot.peak;
        }
        series
    }

    #[test]
    fn a_fading_end_is_a_tail_and_a_weekend_is_none() {
        let busy = vec![200.0; 30];
        let with = |tail: &[f64]| Thinning::new(&daily(&[busy.as_slice(), tail].concat()));
        let result = with(&[90.0, 60.0, 30.0, 60.0]).unwrap();
        assert_eq!((result.days, result.usual, result.nodes), (4, 200.0, 60.0));
        assert_eq!(result.from_ms, daily(&busy).time_ms(30));
        // Two days, days that recover, and days of just more than half are no tail.
        assert_eq!(with(&[20.0, 20.0]), None);
        assert_eq!(with(&[20.0, 20.0, 20.0, 150.0]), None);
        assert_eq!(with(&[101.0, 101.0, 101.0, 101.0]), None);
        // Nor is what lasts: a cluster that is used less from the second month on.
        assert_eq!(with(&[80.0; 28]).map(|result| result.days), Some(28));
        assert_eq!(with(&[80.0; 29]), None);
        assert_eq!(with(&[80.0; 300]), None);
    }

    #[test]
    fn a_record_that_begins_slowly_or_is_short_has_no_tail() {
        let slow: Vec<f64> = (0..30).map(|day| f64::from(day) * 5.0).collect();
        assert_eq!(Thinning::new(&daily(&slow)), None);
        assert_eq!(Thinning::new(&daily(&[9.0, 1.0, 1.0, 1.0])), None);
        assert_eq!(Thinning::new(&daily(&[])), None);
    }
}
