//! Energy as GPUs count it themselves, beside the trapezoid rule over the same stretches.
//!
//! Energy, resets and wraps are those of the energy ledger ([`meter`](crate::energy::meter)). Compared are neighbouring readings
//! that both know, where the counter simply rose.
//!
//! O(n) in readings. Worked number: 11,000, 12,100 and, after a reset, 50 and 1,050 J are 1,100 + 50 + 1,000 = 2,150 J.

use schemars::JsonSchema;
use serde::Serialize;

use super::energy::kwh;
use crate::describe::topic::share;
use crate::energy::meter::Devices;
use crate::stats::sum::NeumaierSum;

/// Energy as GPUs count it themselves.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Counted {
    /// GPUs with a counter.
    pub gpus: u64,
    /// Energy counted, kilowatt-hours; long gaps are covered too.
    pub energy_kwh: f64,
    /// Times a counter began again; what it counted between the last reading and the reset is lost.
    pub resets: u64,
    /// Times a counter ran over and went on from 0; what it counted is whole.
    pub wraps: u64,
    /// Increases over the stretches that the trapezoid rule bridges as well, kilowatt-hours.
    pub compared_kwh: f64,
    /// The trapezoid rule over the same stretches, kilowatt-hours.
    pub compared_trapezoid_kwh: f64,
    /// The trapezoid rule over the counter, less 1.
    pub trapezoid_excess: Option<f64>,
}

/// Running sums of counters.
#[derive(Debug, Default)]
pub(super) struct Counting {
    gpus: u64,
    pub(super) compared_j: NeumaierSum,
    pub(super) compared_trapezoid_j: NeumaierSum,
}

impl Counting {
    /// Adds a GPU that counts.
    pub(super) fn add(&mut self) {
        self.gpus += 1;
    }

    pub(super) fn finish(self, devices: &Devices) -> Option<Counted> {
        let (counter, trapezoid) = (self.compared_j.value(), self.compared_trapezoid_j.value());
        (self.gpus > 0).then(|| Counted {
            gpus: self.gpus,
            energy_kwh: kwh(devices.gpus.counter_j),
            resets: devices.counts.resets,
            wraps: devices.counts.wraps,
            compared_kwh: kwh(counter),
            compared_trapezoid_kwh: kwh(trapezoid),
            trapezoid_excess: share(trapezoid, counter).map(|ratio| ratio - 1.0),
        })
    }
}
