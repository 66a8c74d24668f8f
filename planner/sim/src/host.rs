//! Processors and memory: what jobs take of them beside GPUs, and what nodes have of them.
//!
//! Processors are counted in thousandths of a core, memory in MiB, both in whole numbers, so that what is taken and given back adds up. See [`super`], section *Processors and memory*, for
//! the rule.
//!
//! Worked number: a job of 8 GPUs asks for 90 cores and 500,000 MiB. Of each GPU these are 11,250 thousandths and 62,500 MiB. On a node with 96 cores and 400,000 MiB left it could have 6 GPUs: the processors hold 8, the
//! memory 6.

use serde::{Deserialize, Serialize};

/// Processors and memory that something asks for or takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct HostNeed {
    /// Thousandths of a core.
    pub cores_milli: u32,
    /// Memory, MiB.
    pub memory_mib: u32,
}

impl HostNeed {
    /// Whether nothing is needed.
    pub fn is_none(&self) -> bool {
        self.cores_milli == 0 && self.memory_mib == 0
    }

    /// Returns the need of `gpus` GPUs, this being that of one.
    #[must_use]
    pub fn times(self, gpus: u32) -> Self {
        Self { cores_milli: self.cores_milli.saturating_mul(gpus), memory_mib: self.memory_mib.saturating_mul(gpus) }
    }
}

/// Processors and memory of a node, or what is left of them; what is unknown is unbounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct HostRoom {
    /// Thousandths of a core.
    pub cores_milli: Option<u32>,
    /// Memory, MiB.
    pub memory_mib: Option<u32>,
}

impl HostRoom {
    /// Returns the room as the end of a sentence: `, 96 cores, 384 GiB`; nothing if all is
    /// unbounded.
    pub fn in_words(self) -> String {
        let cores = self.cores_milli.map(|milli| format!(", {} cores", f64::from(milli) / 1000.0));
        let memory = self.memory_mib.map(|mib| format!(", {} GiB", (f64::from(mib) / 1024.0).round()));
        cores.unwrap_or_default() + &memory.unwrap_or_default()
    }

    /// Whether both processors and memory are unbounded.
    pub fn is_unbounded(self) -> bool {
        self.cores_milli.is_none() && self.memory_mib.is_none()
    }

    /// Whether there is room for `need`.
    pub fn holds(self, need: HostNeed) -> bool {
        self.cores_milli.is_none_or(|left| left >= need.cores_milli)
            && self.memory_mib.is_none_or(|left| left >= need.memory_mib)
    }

    /// How many GPUs it has enough for, if each takes `each`.
    pub fn gpus(self, each: HostNeed) -> u32 {
        let of = |left: Option<u32>, each: u32| left.and_then(|left| left.checked_div(each)).unwrap_or(u32::MAX);
        of(self.cores_milli, each.cores_milli).min(of(self.memory_mib, each.memory_mib))
    }

    /// Returns the room with memory unbounded.
    #[must_use]
    pub fn processors_alone(self) -> Self {
        Self { memory_mib: None, ..self }
    }

    /// Returns the room once `need` is taken.
    #[must_use]
    pub fn less(self, need: HostNeed) -> Self {
        Self {
            cores_milli: self.cores_milli.map(|left| left.saturating_sub(need.cores_milli)),
            memory_mib: self.memory_mib.map(|left| left.saturating_sub(need.memory_mib)),
        }
    }

    /// Returns the room once `need` is given back.
    #[must_use]
    pub fn and(self, need: HostNeed) -> Self {
        Self {
            cores_milli: self.cores_milli.map(|left| left.saturating_add(need.cores_milli)),
            memory_mib: self.memory_mib.map(|left| left.saturating_add(need.memory_mib)),
        }
    }

    /// Returns the room left in both of two states of a node.
    #[must_use]
    pub(crate) fn in_both(self, other: Self) -> Self {
        Self {
            cores_milli: self.cores_milli.zip(other.cores_milli).map(|(a, b)| a.min(b)),
            memory_mib: self.memory_mib.zip(other.memory_mib).map(|(a, b)| a.min(b)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_are_held_by_what_is_scarcest() {
        let each = HostNeed { cores_milli: 11_250, memory_mib: 62_500 };
        let left = HostRoom { cores_milli: Some(96_000), memory_mib: Some(400_000) };
        assert_eq!((left.gpus(each), left.processors_alone().gpus(each)), (6, 8));
        assert!(left.holds(each.times(6)) && !left.holds(each.times(7)));
        assert_eq!(left.less(each.times(6)).and(each.times(6)), left);
        // What nothing is asked of bounds nothing, nor does what is unknown.
        assert_eq!(left.gpus(HostNeed::default()), u32::MAX);
        assert_eq!(HostRoom::default().gpus(each), u32::MAX);
        let later = HostRoom { cores_milli: Some(8000), memory_mib: Some(500_000) };
        assert_eq!(left.in_both(later), HostRoom { cores_milli: Some(8000), memory_mib: Some(400_000) });
        assert_eq!((left.in_words().as_str(), HostRoom::default().in_words().as_str()), (", 96 cores, 391 GiB", ""));
    }
}
