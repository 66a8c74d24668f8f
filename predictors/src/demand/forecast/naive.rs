//! The baselines: what was last, and what was a period ago. O(1) a horizon.
//!
//! Worked example: of slots 5, 7, 9, 6 with a period of 3, the next three are said to be 7, 9, 6; the fourth, of which the period before is
//! itself to come, the period before that again: 7.

use serde::{Deserialize, Serialize};

use super::{Fan, Forecaster, Seen};
use crate::error::Result;

/// The last slot's peak.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Persistence {
    /// Slots to forecast.
    pub horizon: usize,
}

impl Forecaster for Persistence {
    fn forecast(&self, seen: Seen<'_>) -> Result<Fan> {
        let last = seen.slots.last().map_or(f64::NAN, |slot| slot.peak);
        Ok(Fan::of_points(vec![last; self.horizon]))
    }
}

/// The peak a period before; where the record does not reach back so far, the last slot's.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Seasonal {
    /// Slots of a period.
    pub period: usize,
    /// Slots to forecast.
    pub horizon: usize,
}

impl Seasonal {
    /// New forecaster with a period of `period_ms`, milliseconds, rounded down to whole slots.
    pub fn new(period_ms: i64, slot_ms: i64, horizon: usize) -> Self {
        let period = usize::try_from(period_ms / slot_ms.max(1)).unwrap_or(1).max(1);
        Self { period, horizon }
    }
}

/// The newest slot known before `now` that is whole periods before slot `target`.
pub(super) fn period_before(target: usize, now: usize, period: usize) -> Option<usize> {
    let ahead = (target + 1).saturating_sub(now);
    let periods = ahead.div_ceil(period.max(1)).max(1);
    target.checked_sub(periods * period.max(1))
}

impl Forecaster for Seasonal {
    fn forecast(&self, seen: Seen<'_>) -> Result<Fan> {
        let now = seen.slots.len();
        let last = seen.slots.last().map_or(f64::NAN, |slot| slot.peak);
        let one = |ahead: usize| {
            let before = period_before(now + ahead, now, self.period).and_then(|at| seen.slots.get(at));
            before.map_or(last, |slot| slot.peak)
        };
        Ok(Fan::of_points((0..self.horizon).map(one).collect()))
    }
}
