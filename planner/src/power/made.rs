//! Series and stretches for tests: hours from midnight of a Thursday on, nothing pending.

use std::ops::Range;

use tracecast_analytics::time::HOUR_MS;
use tracecast_predictors::demand::{Series, Slot, Unit};

use crate::power::rule::ces::Thresholds;
use crate::power::rule::family::Stretch;
use crate::power::score::constants::Constants;
use crate::power::score::{NodeDemand, Worth};
use tracecast_predictors::demand::reach::Readings;

/// A series from the largest count of each slot and the nodes there are.
pub(super) fn series(slots: impl IntoIterator<Item = (f64, f64)>) -> Series {
    let slot = |(peak, total)| Slot { peak, last: peak, mean: peak, pending: 0.0, total, counted: true };
    Series {
        name: "pool".to_owned(),
        unit: Unit::Nodes,
        counts_pending: false,
        start_ms: 0,
        slot_ms: HOUR_MS,
        zone: "UTC".to_owned(),
        slots: slots.into_iter().map(slot).collect(),
    }
}

/// What a stretch borrows.
pub(super) struct Known {
    pub(super) need: Vec<f64>,
    pub(super) total: Vec<f64>,
    pub(super) readings: Readings,
    constants: Constants,
    worth: Worth,
}

impl Known {
    /// What is known of a series, without chances of levels.
    pub(super) fn of(series: &Series) -> Self {
        Self {
            need: series.slots.iter().map(|slot| slot.peak).collect(),
            total: series.slots.iter().map(|slot| slot.total).collect(),
            readings: Readings { in_use: Vec::new(), reached: Vec::new() },
            constants: Constants::default(),
            worth: Worth::default(),
        }
    }

    /// The slots of `range`, with so many nodes powered before the first.
    pub(super) fn stretch(&self, range: Range<usize>, before: f64) -> Stretch<'_> {
        Stretch {
            need: &self.need,
            total: &self.total,
            readings: &self.readings,
            demand: NodeDemand {
                need: self.need.get(range.clone()).unwrap_or_default(),
                total: self.total.get(range.clone()).unwrap_or_default(),
                weights: &[],
                before,
                boot_slots: 0.0,
                slot_ms: HOUR_MS,
                constants: &self.constants,
                worth: &self.worth,
            },
            range,
            ces: Thresholds::EARTH,
        }
    }
}
