//! Sums of readings by kind of device: the part of a [ledger](super::measure) that rests on
//! readings, for those who describe readings and model nothing.
//!
//! Window, gaps, counters and bounds are the ledger's own, as it is the same measurement: energy by counter, by power readings and
//! over short gaps is summed, and what a model fills is kept apart.
//!
//! O(readings + cells log cells). Worked number: a GPU at 100 W for an hour, then silent for an hour while another GPU of its node
//! reads on: 360,000 J are read in one of two hours, and a model has the other.

use std::collections::BTreeMap;

use super::{Basis, Bundle, Fleet, Readings, Sink};
use crate::stats::sum::NeumaierSum;

/// Energy and time of devices.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Drawn {
    /// Energy from energy counters, joules.
    pub counter_j: f64,
    /// Energy from all readings, joules: counters, power, and short gaps between readings bridged.
    pub read_j: f64,
    /// Energy that a model fills in, joules.
    pub modelled_j: f64,
    /// Device time that readings tell, seconds.
    pub read_s: f64,
    /// Device time from the first to the last reading of each device's node, seconds.
    pub span_s: f64,
}

impl Drawn {
    fn of(parts: impl Iterator<Item = (Basis, f64, f64)>) -> Self {
        let mut sums = [NeumaierSum::new(); 5];
        for (basis, joules, s) in parts {
            let [counter_j, read_j, modelled_j, read_s, span_s] = &mut sums;
            if basis == Basis::Model {
                modelled_j.add(joules);
            } else {
                read_j.add(joules);
                read_s.add(s);
            }
            if basis == Basis::Counter {
                counter_j.add(joules);
            }
            span_s.add(s);
        }
        let [counter_j, read_j, modelled_j, read_s, span_s] = sums.map(NeumaierSum::value);
        Self { counter_j, read_j, modelled_j, read_s, span_s }
    }

    /// Energy of the devices in a sink.
    pub(super) fn of_sink(sink: &Sink) -> Self {
        let parts = sink.sorted();
        Self::of(parts.iter().map(|((.., basis), bundle)| (*basis, bundle.energy_j(), bundle.s)))
    }

    /// Energy of nodes by their own meters.
    pub(super) fn of_meters(fleet: &Fleet) -> Self {
        let hours = fleet.facts.iter().filter_map(|facts| facts.meter.as_ref()).flatten();
        Self::of(hours.map(|((_, basis), [joules, _, _, s])| (*basis, *joules, *s)))
    }
}

/// Joules and seconds.
#[derive(Debug, Clone, Copy, Default)]
pub struct EnergyPart {
    /// Joules.
    pub energy_j: NeumaierSum,
    /// Seconds.
    pub s: NeumaierSum,
}

impl EnergyPart {
    pub(in crate::energy) fn add(&mut self, joules: f64, s: f64) {
        self.energy_j.add(joules);
        self.s.add(s);
    }

    /// Adds another.
    pub fn merge(&mut self, other: &Self) {
        self.energy_j.merge(other.energy_j);
        self.s.merge(other.s);
    }
}

/// Energy of GPU readings by who held the GPU.
#[derive(Debug, Clone, Default)]
pub struct Holders {
    /// Jobs of the table, by row.
    pub jobs: BTreeMap<usize, EnergyPart>,
    /// Jobs that the table does not hold.
    pub unlisted: EnergyPart,
    /// No job.
    pub nobody: EnergyPart,
    /// Unknown holder.
    pub unknown: EnergyPart,
}

/// Sums of the readings of a trace.
#[derive(Debug, Clone, Default)]
pub struct Devices {
    /// GPUs with readings.
    pub gpus: Drawn,
    /// Energy of the GPUs by holder.
    pub holders: Holders,
    /// Nodes with a meter of their own.
    pub nodes: Drawn,
    /// Counts of the readings.
    pub counts: Readings,
}

impl Sink {
    /// All cells, in order.
    pub(in crate::energy) fn sorted(&self) -> Vec<((i64, super::Claim, Basis), Bundle)> {
        let mut cells: Vec<_> = self.cells.iter().map(|(key, total)| (*key, total.value())).collect();
        cells.sort_by_key(|(key, _)| *key);
        cells
    }
}
