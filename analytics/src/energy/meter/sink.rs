//! Sums of energy: by hour, by claim on the device, by basis; and by node, for whole-node meters.
//!
//! Where idle power is known between bounds only, what is drawn up to the lower one is idle, above the upper one is work, and between
//! them it is either.
//!
//! O(1) for a bundle. Worked numbers: a GPU at 160 W with an idle power of 60 W for 60 s adds 6,000 J above idle and 3,600 J idle; with one
//! between 50 and 90 W, 4,200 J above, 2,400 J of either and 3,000 J idle.

use std::collections::HashMap;

use crate::energy::ledger::Basis;
use crate::stats::sum::NeumaierSum;

/// Holder of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(in crate::energy) enum Claim {
    /// No job.
    Nobody,
    /// Unknown holder.
    Unknown,
    /// Jobs that hold this device: a place in the list of sets.
    Set(u32),
    /// Jobs that hold some of the devices of a pool: a place in the list of pools.
    Pool(u32),
}

impl Claim {
    /// Whether a job holds the device, `None` if unknown.
    pub(in crate::energy) fn held(self) -> Option<bool> {
        match self {
            Self::Nobody => Some(false),
            Self::Set(_) => Some(true),
            Self::Unknown | Self::Pool(_) => None,
        }
    }
}

/// Energy of a stretch of one device within an hour, joules, in parts above and below idle power, and of either.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(in crate::energy) struct Bundle {
    /// Energy above idle: energy, lower bound, upper bound.
    pub(in crate::energy) active: [f64; 3],
    /// Energy between the bounds of idle power: energy, lower bound, upper bound.
    pub(in crate::energy) either: [f64; 3],
    /// Energy up to idle power: energy, lower bound, upper bound.
    pub(in crate::energy) idle: [f64; 3],
    /// Seconds.
    pub(in crate::energy) s: f64,
    /// Seconds among them of which no energy is known, as the device has no model.
    pub(in crate::energy) blank_s: f64,
}

impl Bundle {
    /// Adds another.
    #[inline]
    pub(super) fn add(&mut self, other: &Self) {
        for ix in 0..3 {
            if let (Some(sum), Some(more)) = (self.active.get_mut(ix), other.active.get(ix)) {
                *sum += more;
            }
            if let (Some(sum), Some(more)) = (self.either.get_mut(ix), other.either.get(ix)) {
                *sum += more;
            }
            if let (Some(sum), Some(more)) = (self.idle.get_mut(ix), other.idle.get(ix)) {
                *sum += more;
            }
        }
        self.s += other.s;
        self.blank_s += other.blank_s;
    }

    /// Takes so many joules out of it, at most all: first of idle power, then of what may be, then of what is above.
    pub(in crate::energy) fn take(&mut self, joules: f64) -> [f64; 3] {
        let mut left = [joules.max(0.0); 3];
        for part in [&mut self.idle, &mut self.either, &mut self.active] {
            for (part, left) in part.iter_mut().zip(&mut left) {
                let taken = left.min(part.max(0.0));
                (*part, *left) = (*part - taken, *left - taken);
            }
        }
        left.map(|left| joules.max(0.0) - left)
    }

    /// Energy of all parts, joules.
    pub(in crate::energy) fn energy_j(&self) -> f64 {
        self.active[0] + self.either[0] + self.idle[0]
    }
}

/// Sum of bundles.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::energy) struct Total {
    sums: [NeumaierSum; 11],
}

impl Total {
    pub(in crate::energy) fn add(&mut self, bundle: &Bundle) {
        let [a, b, c] = bundle.active;
        let [d, e, f] = bundle.either;
        let [g, h, i] = bundle.idle;
        for (sum, term) in self.sums.iter_mut().zip([a, b, c, d, e, f, g, h, i, bundle.s, bundle.blank_s]) {
            sum.add(term);
        }
    }

    fn merge(&mut self, other: &Self) {
        for (sum, more) in self.sums.iter_mut().zip(other.sums) {
            sum.merge(more);
        }
    }

    pub(in crate::energy) fn value(&self) -> Bundle {
        let [a, b, c, d, e, f, g, h, i, s, blank_s] = self.sums.map(NeumaierSum::value);
        Bundle { active: [a, b, c], either: [d, e, f], idle: [g, h, i], s, blank_s }
    }
}

/// Sums over one part of the devices.
#[derive(Debug, Clone, Default)]
pub(in crate::energy) struct Sink {
    /// Energy by beginning of the hour (ms), claim and basis.
    pub(in crate::energy) cells: HashMap<(i64, Claim, Basis), Total>,
    /// Energy of whole nodes that jobs share by their meter, by node, beginning of the hour, claim
    /// and basis.
    pub(in crate::energy) whole: HashMap<(u32, i64, Claim, Basis), Total>,
    /// Joules and seconds by node, hour and claim; filled if `by_node`.
    pub(in crate::energy) nodes: HashMap<(u32, i64, Claim), (NeumaierSum, NeumaierSum)>,
    /// Whether to fill `nodes`.
    pub(in crate::energy) by_node: bool,
}

impl Sink {
    pub(in crate::energy) fn new(by_node: bool) -> Self {
        Self { by_node, ..Self::default() }
    }

    pub(in crate::energy) fn add(&mut self, node: u32, hour_ms: i64, claim: Claim, basis: Basis, bundle: &Bundle) {
        self.cells.entry((hour_ms, claim, basis)).or_default().add(bundle);
        if self.by_node {
            let (joules, s) = self.nodes.entry((node, hour_ms, claim)).or_default();
            joules.add(bundle.energy_j());
            s.add(bundle.s);
        }
    }

    /// Adds another part so many times over.
    pub(in crate::energy) fn add_times(&mut self, other: &Self, times: f64) {
        for (key, total) in &other.cells {
            let mut bundle = total.value();
            for part in [&mut bundle.active, &mut bundle.either, &mut bundle.idle] {
                part.iter_mut().for_each(|joules| *joules *= times);
            }
            (bundle.s, bundle.blank_s) = (bundle.s * times, bundle.blank_s * times);
            self.cells.entry(*key).or_default().add(&bundle);
        }
        for (key, (joules, s)) in &other.nodes {
            let total = self.nodes.entry(*key).or_default();
            total.0.add(joules.value() * times);
            total.1.add(s.value() * times);
        }
    }

    /// Adds another part. Merge parts in a fixed order.
    pub(in crate::energy) fn merge(&mut self, other: Self) {
        for (key, total) in other.cells {
            self.cells.entry(key).or_default().merge(&total);
        }
        for (key, (joules, s)) in other.nodes {
            let total = self.nodes.entry(key).or_default();
            total.0.merge(joules);
            total.1.merge(s);
        }
    }
}
