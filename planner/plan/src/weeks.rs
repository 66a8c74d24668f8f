//! The weeks that a mix is chosen on, and those it is priced on.
//!
//! Demand has weeks, so whole weeks are kept together: those before the split, back from it, and those after it. A record that is too short for that is cut into days,
//! and says so. What is left over at the beginning of a record is left out, where a cluster fills up that is empty only in the record. A stretch that lacks less than an hour is whole.
//!
//! O(windows). Worked example: of 31 days, the last two weeks are priced on, as a third of four whole weeks, rounded up, is two; the mix is chosen on the two before.

use std::ops::Range;

use tracecast_analytics::report::format;
use tracecast_analytics::time::{DAY_MS, HOUR_MS, WEEK_MS, to_the_minute};

use super::interval;
use super::money::MONTH_H;
use crate::error::{Error, Result};
use crate::window::Stretches;

/// A stretch of time from a moment to another, ms.
pub type Moments = (i64, i64);

/// Split of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WeekSplit {
    /// Weeks or days that the mix is chosen on, in order.
    pub before: Vec<Moments>,
    /// Weeks or days that it is priced on, in order.
    pub after: Vec<Moments>,
    /// Weeks or days that the future mix is chosen on: all, counted back from the end.
    pub all: Vec<Moments>,
}

/// Whole weeks of a stretch if there are `least`, else whole days; counted back from its end, or on from its beginning.
fn cut((from, to): Moments, least: i64, back: bool) -> Vec<Moments> {
    let whole = |unit: i64| (to - from).max(0) / unit;
    let unit = if whole(WEEK_MS) >= least { WEEK_MS } else { DAY_MS };
    let begin = if back { to - whole(unit) * unit } else { from };
    (0..whole(unit)).map(|at| (begin + at * unit, begin + (at + 1) * unit)).collect()
}

impl WeekSplit {
    /// Cuts a record at `eval_from_ms`, or where a third of it is left.
    ///
    /// # Errors
    /// With fewer than two days before the split, or none after it.
    pub fn new((from, to): Moments, eval_from_ms: Option<i64>) -> Result<Self> {
        // A record of four weeks that begins with its first job has four weeks.
        let from = from - HOUR_MS;
        let few = |days: f64| Error::TooFewDays { series: "the demand for GPUs".to_owned(), days, least: 2.0 };
        let days = |span: i64| (span as f64 / DAY_MS as f64).max(0.0);
        let split = match eval_from_ms {
            Some(split) => {
                if split >= to || to - split < DAY_MS {
                    let what = "after --eval-from there is no whole day to test on; choose an earlier one".to_owned();
                    return Err(Error::NothingToEvaluate(what));
                }
                split
            }
            None => {
                let unit = if to - from >= 3 * WEEK_MS { WEEK_MS } else { DAY_MS };
                let whole = (to - from).max(0) / unit;
                to - (whole + 2) / 3 * unit
            }
        };
        let before = cut((from, split), 2, true);
        if before.len() < 2 {
            return Err(few(days(split - from)));
        }
        let all = cut((from, to), 2, true);
        Ok(Self { before, after: cut((split, to), 1, false), all })
    }

    /// The moment of the split.
    pub fn split_ms(&self) -> i64 {
        self.after.first().map_or(0, |(from, _)| *from)
    }

    /// Hours of the windows that are priced on.
    pub fn hours_after(&self) -> i64 {
        self.after.iter().map(|(from, to)| (to - from) / HOUR_MS).sum()
    }

    /// Months that were chosen or are priced on.
    pub fn months(&self) -> f64 {
        let [before, after] = [&self.before, &self.after].map(|of| whole(of));
        (after.1 - before.0) as f64 / HOUR_MS as f64 / MONTH_H
    }

    /// Returns the stretches in the form of a trial; `day` writes a moment as text. Amounts are per
    /// month.
    pub fn stretches(&self, day: &dyn Fn(i64) -> String) -> Stretches {
        let is_long = draws_weeks(&self.after);
        let drawn = if is_long { "weeks" } else { "days" };
        Stretches {
            chosen_from: day(whole(&self.before).0),
            split: day(self.split_ms()),
            chosen_on: format!("{} {}", self.before.len(), unit(&self.before)),
            windows: self.after.iter().map(|(from, to)| (day(*from), day(*to))).collect(),
            per: "a month",
            spans: self.hours_after() as f64 / MONTH_H,
            interval: format!("95 % of {} draws of the {drawn} after the split", format::count(interval::DRAWS)),
            is_long,
        }
    }

    /// Returns a sentence on the part of the record before the first whole window; `fate` says what
    /// becomes of it. `None` if there is no such part.
    pub fn left_over(&self, begins_ms: i64, day: &dyn Fn(i64) -> String, fate: &str) -> Option<String> {
        let first = whole(&self.all).0;
        (first > begins_ms).then(|| {
            format!(
                "The {} before {} are {fate}: they fill no whole {}.",
                format::duration((first - begins_ms) as f64 / 1e3),
                to_the_minute(&day(first)),
                unit(&self.all).trim_end_matches('s')
            )
        })
    }
}

/// Returns the unit of the stretches, in the plural.
pub fn unit(stretches: &[Moments]) -> &'static str {
    if stretches.first().is_some_and(|(from, to)| to - from == WEEK_MS) { "weeks" } else { "days" }
}

/// Returns the stretch from the start of the first to the end of the last.
pub fn whole(stretches: &[Moments]) -> Moments {
    (stretches.first().map_or(0, |first| first.0), stretches.last().map_or(0, |last| last.1))
}

/// The hours of each stretch, as positions within [`whole`].
pub fn hours(stretches: &[Moments]) -> Vec<Range<usize>> {
    let (begin, _) = whole(stretches);
    let at = |ms: i64| usize::try_from((ms - begin) / HOUR_MS).unwrap_or(0);
    stretches.iter().map(|(from, to)| at(*from)..at(*to)).collect()
}

/// Stretches from which on they are drawn whole for intervals, and are enough for a sure test.
const DRAWN_WHOLE: usize = 4;

/// Whether intervals draw whole weeks.
pub fn draws_weeks(stretches: &[Moments]) -> bool {
    stretches.len() >= DRAWN_WHOLE && unit(stretches) == "weeks"
}

/// Blocks that intervals draw: the stretches, or their days where there are fewer than four;
/// positions of hours.
pub fn blocks(stretches: &[Moments]) -> Vec<Range<usize>> {
    if stretches.len() >= DRAWN_WHOLE {
        return hours(stretches);
    }
    let days = |hours: Range<usize>| hours.clone().step_by(24).map(move |from| from..(from + 24).min(hours.end));
    hours(stretches).into_iter().flat_map(days).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_example() {
        let split = WeekSplit::new((0, 31 * DAY_MS), None).unwrap();
        assert_eq!(split.before, [(3 * DAY_MS, 10 * DAY_MS), (10 * DAY_MS, 17 * DAY_MS)]);
        assert_eq!(split.after, [(17 * DAY_MS, 24 * DAY_MS), (24 * DAY_MS, 31 * DAY_MS)]);
        assert_eq!((split.all.len(), split.split_ms()), (4, 17 * DAY_MS));
        assert_eq!(hours(&split.after), [0..168, 168..336]);
        assert_eq!((blocks(&split.after).len(), unit(&split.after)), (14, "weeks"));
    }

    #[test]
    fn short_records_are_cut_into_days() {
        let split = WeekSplit::new((0, 6 * DAY_MS + HOUR_MS), None).unwrap();
        assert_eq!((split.before.len(), split.after.len(), unit(&split.after)), (4, 2, "days"));
        let request = WeekSplit::new((0, 6 * DAY_MS), Some(5 * DAY_MS)).unwrap();
        assert_eq!((request.before.len(), request.after.clone()), (5, vec![(5 * DAY_MS, 6 * DAY_MS)]));
        assert!(WeekSplit::new((0, 2 * DAY_MS), None).unwrap_err().to_string().contains("too few"));
        assert!(WeekSplit::new((0, 9 * DAY_MS), Some(9 * DAY_MS)).unwrap_err().to_string().contains("--eval-from"));
    }
}
