//! Energy as GPUs count it themselves, beside the trapezoid rule over the same stretches.
//!
//! A counter that falls began again: what it shows then is what it counted since. Such a stretch is not compared.
//!
//! O(n) in readings. Worked number: 1,000, 2,100 and, after a reset, 50 and 1,050 J are 1,100 + 50 + 1,000 = 2,150 J.

use schemars::JsonSchema;
use serde::Serialize;

use super::energy::kwh;
use crate::describe::topic::share;
use crate::stats::sampled::counter_step;
use crate::stats::sum::NeumaierSum;

/// Energy as GPUs count it themselves.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Counted {
    /// GPUs with a counter.
    pub gpus: u64,
    /// Sum of the increases, kilowatt-hours; long gaps are covered too.
    pub energy_kwh: f64,
    /// Times a counter began again; what it counted between the last reading and the reset is lost.
    pub resets: u64,
    /// Increases over the stretches that the trapezoid rule bridges as well, kilowatt-hours.
    pub compared_kwh: f64,
    /// The trapezoid rule over the same stretches, kilowatt-hours.
    pub compared_trapezoid_kwh: f64,
    /// The trapezoid rule over the counter, less 1.
    pub trapezoid_excess: Option<f64>,
}

/// What is gathered of counters.
#[derive(Debug, Default)]
pub(super) struct Counting {
    gpus: u64,
    resets: u64,
    energy_j: NeumaierSum,
    pub(super) compared_j: NeumaierSum,
    pub(super) compared_trapezoid_j: NeumaierSum,
}

impl Counting {
    /// Adds one GPU's counter readings.
    pub(super) fn add(&mut self, counter: &[f64]) {
        self.gpus += u64::from(!counter.is_empty());
        for (before, after) in counter.iter().zip(counter.iter().skip(1)) {
            let (increase, reset) = counter_step(*before, *after);
            self.energy_j.add(increase);
            self.resets += u64::from(reset);
        }
    }

    pub(super) fn finish(self) -> Option<Counted> {
        let (counter, trapezoid) = (self.compared_j.value(), self.compared_trapezoid_j.value());
        (self.gpus > 0).then(|| Counted {
            gpus: self.gpus,
            energy_kwh: kwh(self.energy_j.value()),
            resets: self.resets,
            compared_kwh: kwh(counter),
            compared_trapezoid_kwh: kwh(trapezoid),
            trapezoid_excess: share(trapezoid, counter).map(|ratio| ratio - 1.0),
        })
    }
}
