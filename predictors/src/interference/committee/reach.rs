//! Choice of models, and reach of their intervals in spreads, by the number of measured pairs of
//! both job types.

use serde::{Deserialize, Serialize};

use super::UNTESTED;

/// Measured pairs of a job type at which forecasts are tried.
pub(super) const COUNTS: [usize; 4] = [0, 1, 3, 5];

/// The place in [`COUNTS`] of the largest that is not above a count.
pub(super) fn level(count: usize) -> usize {
    COUNTS.iter().rposition(|at| *at <= count).unwrap_or_default()
}

/// Reach of 80 and 90 % intervals, in spreads.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(in crate::interference) struct Reaches {
    /// Reach at each of [`COUNTS`].
    by_level: [(f64, f64); COUNTS.len()],
}

impl Reaches {
    /// One reach at every count.
    pub(super) fn even(reach: (f64, f64)) -> Self {
        Self { by_level: [reach; COUNTS.len()] }
    }

    /// Fills in the reaches that were found. A count at which nothing was found has that of the
    /// next lower one, or else of the next higher one.
    pub(super) fn new(result: [Option<(f64, f64)>; COUNTS.len()]) -> Self {
        let mut last = result.iter().flatten().next().copied().unwrap_or(UNTESTED);
        let by_level = result.map(|one| {
            last = one.unwrap_or(last);
            last
        });
        Self { by_level }
    }

    /// Reach at a count of measured pairs: interpolated between the two that were tried around it.
    pub(super) fn at(&self, count: usize) -> (f64, f64) {
        let (low, next) = (level(count), level(count) + 1);
        let of = |at: usize| self.by_level.get(at).copied();
        let (here, after) = (of(low).unwrap_or(UNTESTED), of(next));
        let between = COUNTS.get(low).zip(COUNTS.get(next)).zip(after);
        between.map_or(here, |((from, to), after)| {
            let share = (count - from) as f64 / (to - from) as f64;
            (here.0 + share * (after.0 - here.0), here.1 + share * (after.1 - here.1))
        })
    }

    /// Whether every one is a number.
    pub(super) fn is_sound(&self) -> bool {
        self.by_level.iter().all(|(one, other)| one.is_finite() && other.is_finite())
    }
}

/// Models that forecast, by their places.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::interference) struct Chosen {
    /// Models where, for at least one of the two job types, no pair was measured on the GPU type.
    pub(super) new: Vec<usize>,
    /// Models where some pair of each job type was measured.
    pub(super) measured: Vec<usize>,
}

impl Chosen {
    /// The first so many.
    pub(super) fn first(count: usize) -> Self {
        Self { new: (0..count).collect(), measured: (0..count).collect() }
    }

    /// Models that forecast where so many pairs were measured.
    pub(super) fn at(&self, count: usize) -> &[usize] {
        if count == 0 { &self.new } else { &self.measured }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = usize> {
        self.new.iter().chain(&self.measured).copied()
    }

    /// Models by their places in a list; those not in it are left out.
    pub(super) fn among(&self, list: &[usize]) -> Self {
        let places =
            |of: &[usize]| of.iter().filter_map(|at| list.iter().position(|one| one == at)).collect::<Vec<usize>>();
        Self { new: places(&self.new), measured: places(&self.measured) }
    }

    /// Whether there is a model for everything, and a place for each.
    pub(super) fn is_sound(&self, models: usize) -> bool {
        !self.new.is_empty() && !self.measured.is_empty() && self.all().all(|at| at < models)
    }
}
