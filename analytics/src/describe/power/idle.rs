//! GPUs that do nothing: how often, at what power, and the energy that takes.
//!
//! A reading is idle at a utilisation of at most [`IDLE`]; one without a utilisation is neither idle nor busy.
//!
//! O(n log n) in readings. Worked number: 100 W idle, 300 W busy and 100 W idle again, standing for 30, 60 and 30 s: idle
//! for two thirds of the readings and 6,000 of 24,000 J.

use schemars::JsonSchema;
use serde::Serialize;

use super::energy::kwh;
use crate::describe::topic::{hours, share};
use crate::facts::samples::{Holder, HolderSource};
use crate::stats;
use crate::stats::sum::NeumaierSum;

/// A GPU of at most this utilisation is idle.
const IDLE: f64 = 0.01;

/// GPUs that do nothing.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Idle {
    /// Readings with both power and utilisation.
    pub known_readings: u64,
    /// Known readings over all readings with power.
    pub coverage: f64,
    /// Idle readings over the known ones.
    pub reading_share: f64,
    /// Power of an idle GPU, watts.
    pub idle_w: Option<stats::quantile::Summary>,
    /// Power of a GPU that works, watts.
    pub busy_w: Option<stats::quantile::Summary>,
    /// Energy drawn while idle, kilowatt-hours.
    pub idle_kwh: f64,
    /// Energy drawn while working, kilowatt-hours.
    pub busy_kwh: f64,
    /// Idle energy over the energy of all readings with a utilisation.
    pub idle_energy_share: Option<f64>,
    /// GPU-hours idle.
    pub idle_gpu_hours: f64,
    /// Energy drawn while idle and held by a job, kilowatt-hours; `null` if holders are unknown.
    pub held_idle_kwh: Option<f64>,
}

/// Running sums of idle GPUs.
#[derive(Debug, Default)]
pub(super) struct Idling {
    idle_w: Vec<f64>,
    busy_w: Vec<f64>,
    busy_j: NeumaierSum,
    idle_j: NeumaierSum,
    idle_s: NeumaierSum,
    held_idle_j: NeumaierSum,
}

impl Idling {
    pub(super) fn add(&mut self, util: f64, watts: f64, hold_s: f64, holder: Holder) {
        if util > IDLE {
            self.busy_w.push(watts);
            self.busy_j.add(watts * hold_s);
            return;
        }
        self.idle_w.push(watts);
        self.idle_j.add(watts * hold_s);
        self.idle_s.add(hold_s);
        if holder.held() == Some(true) {
            self.held_idle_j.add(watts * hold_s);
        }
    }

    pub(super) fn finish(self, with_power: u64, holders: HolderSource) -> Option<Idle> {
        let (idle, busy) = (self.idle_w.len() as f64, self.busy_w.len() as f64);
        Some(Idle {
            known_readings: (self.idle_w.len() + self.busy_w.len()) as u64,
            coverage: share(idle + busy, with_power as f64)?,
            reading_share: share(idle, idle + busy)?,
            idle_w: stats::quantile::Summary::of_vec(self.idle_w),
            busy_w: stats::quantile::Summary::of_vec(self.busy_w),
            idle_kwh: kwh(self.idle_j.value()),
            busy_kwh: kwh(self.busy_j.value()),
            idle_energy_share: share(self.idle_j.value(), self.idle_j.value() + self.busy_j.value()),
            idle_gpu_hours: hours(self.idle_s.value()),
            held_idle_kwh: (holders != HolderSource::Unknown).then(|| kwh(self.held_idle_j.value())),
        })
    }
}
