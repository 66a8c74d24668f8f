//! Cost of loads: a part of the speed that more load never raises, whatever is known.
//!
//! With x the own load and y the partner's (shares, see [`super::alone::LOADS`]), a speed falls by Σ β h(x, y) with β ≥ 0 over the terms y, x,
//! max(0, x + y − 1), max(0, x + y − 1½) and 1 − min(1, 1 / (x + y)) of each load. Every term rises with x and with y, so the speed of
//! either job never rises with any load of either. The last is what two jobs lose that take turns on a full resource. A load that is unknown is taken to be
//! the mean of those known; loads that nobody knows have no terms. O(loads) a pair.
//!
//! Worked number: at 80 and 70 % utilisation the last term is 1 − 1 / 1.5 = 0.33.

use super::alone::{Alone, LOADS, Loads};

/// Terms a load.
pub(super) const TERMS: usize = 5;

/// The terms of pairs.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LoadTerms {
    /// Stand-ins for unknown loads; `None` where a load is known of no job.
    usual: [Option<f64>; LOADS.len()],
}

impl LoadTerms {
    /// Stand-ins from the jobs (GPU type, job) that teach.
    pub(super) fn new(alone: &Alone, jobs: impl Iterator<Item = (usize, usize)>) -> Self {
        let mut sums = [(0.0, 0u32); LOADS.len()];
        for (gpu, job) in jobs {
            for (sum, load) in sums.iter_mut().zip(alone.loads(gpu, job)) {
                if let Some(load) = load {
                    *sum = (sum.0 + load, sum.1 + 1);
                }
            }
        }
        Self { usual: sums.map(|(sum, count)| (count > 0).then(|| sum / f64::from(count))) }
    }

    /// Number of terms.
    pub(super) fn count(&self) -> usize {
        self.usual.iter().flatten().count() * TERMS
    }

    /// The terms of one job beside another; each at least 0.
    pub(super) fn of_pair(&self, own: Loads, beside: Loads) -> Vec<f64> {
        let mut terms = Vec::with_capacity(self.count());
        for ((usual, own), beside) in self.usual.iter().zip(own).zip(beside) {
            let Some(usual) = usual else { continue };
            let (x, y) = (own.unwrap_or(*usual).max(0.0), beside.unwrap_or(*usual).max(0.0));
            let sum = x + y;
            let lost = if sum > 1.0 { 1.0 - 1.0 / sum } else { 0.0 };
            terms.extend([y, x, (sum - 1.0).max(0.0), (sum - 1.5).max(0.0), lost]);
        }
        terms
    }
}
