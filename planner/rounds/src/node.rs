//! Nodes with GPUs, processors and memory, and whether gangs fit onto them.
//!
//! Nodes have k GPUs, the last of a type maybe fewer; a smaller node has processors and memory in proportion. Gangs are put onto nodes by first fit, one after the other: a gang of k or more takes whole free nodes, and what is left of it, or a smaller gang, goes onto the first node with room. [`super::room`] asks so by GPUs alone, too.
//!
//! O(gangs · nodes). Worked example: two nodes of 4 GPUs and 8 processors; gangs of 2 GPUs with 6, 6 and 2 processors: the first has node 1, the second node 2, the third fits beside the first.

use schemars::JsonSchema;
use serde::Serialize;

/// Tolerance for the rounding of sums of floats.
const ROUNDING: f64 = 1e-9;

/// Processors and memory.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, JsonSchema)]
pub struct HostNeeds {
    /// Processors.
    pub cpus: f64,
    /// Memory, GB.
    pub memory_gb: f64,
}

impl HostNeeds {
    /// Returns the needs times a factor.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        Self { cpus: self.cpus * factor, memory_gb: self.memory_gb * factor }
    }

    /// Returns the sum of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { cpus: self.cpus + other.cpus, memory_gb: self.memory_gb + other.memory_gb }
    }

    /// The lesser of each.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        Self { cpus: self.cpus.min(other.cpus), memory_gb: self.memory_gb.min(other.memory_gb) }
    }

    /// The greater of each.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self { cpus: self.cpus.max(other.cpus), memory_gb: self.memory_gb.max(other.memory_gb) }
    }

    /// Whether there is room for so much, but for the rounding of sums.
    pub fn within(self, room: Self) -> bool {
        let fits = |needs: f64, room: f64| needs <= room + ROUNDING * (1.0 + room.abs());
        fits(self.cpus, room.cpus) && fits(self.memory_gb, room.memory_gb)
    }
}

/// A gang to put onto nodes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gang {
    /// GPUs.
    pub gpus: u32,
    /// Needs of each GPU; `None` if those are its share of the node.
    pub needs: Option<HostNeeds>,
}

impl From<u32> for Gang {
    fn from(gpus: u32) -> Self {
        Self { gpus, needs: None }
    }
}

/// A node, and what is free of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OpenNode {
    /// GPUs.
    pub gpus: u32,
    /// Processors and memory.
    pub host: HostNeeds,
}

impl OpenNode {
    /// Whether a part of a gang fits.
    pub fn has(&self, gpus: u32, needs: HostNeeds) -> bool {
        self.gpus >= gpus && needs.times(f64::from(gpus)).within(self.host)
    }

    /// Takes a part of a gang.
    pub fn take(&mut self, gpus: u32, needs: HostNeeds) {
        self.gpus -= gpus.min(self.gpus);
        self.host = self.host.plus(needs.times(-f64::from(gpus)));
    }
}

/// The nodes of a type with so many GPUs, all free.
pub fn nodes(gpus: u32, per_node: u32, share: HostNeeds) -> Vec<OpenNode> {
    let per_node = per_node.min(gpus).max(1);
    let of = |gpus: u32| OpenNode { gpus, host: share.times(f64::from(gpus)) };
    let mut result = vec![of(per_node); (gpus / per_node) as usize];
    let rest = gpus % per_node;
    result.extend((rest > 0).then(|| of(rest)));
    result
}

/// Parts of a gang on nodes: the node and GPUs.
pub type Parts = Vec<(usize, u32)>;

/// Puts a gang by first fit, whose GPUs need so much each; nothing if it does not fit.
pub fn put(nodes: &mut [OpenNode], per_node: u32, gpus: u32, needs: HostNeeds) -> Option<Parts> {
    let (mut left, mut parts) = (gpus, Parts::new());
    for (at, node) in nodes.iter().enumerate() {
        if left < per_node {
            break;
        }
        // A whole node is free of everybody.
        if node.gpus == per_node && node.has(per_node, needs) {
            parts.push((at, per_node));
            left -= per_node;
        }
    }
    if left > 0 {
        let taken = |at: usize| parts.iter().any(|(other, _)| *other == at);
        let (at, _) = nodes.iter().enumerate().find(|(at, node)| !taken(*at) && node.has(left, needs))?;
        if left >= per_node {
            return None;
        }
        parts.push((at, left));
    }
    for (at, gpus) in &parts {
        if let Some(node) = nodes.get_mut(*at) {
            node.take(*gpus, needs);
        }
    }
    Some(parts)
}

/// The order in which gangs are put onto nodes: the largest first, then by processors and memory, then in their own.
fn largest_first(gangs: &[Gang], share: HostNeeds) -> Vec<usize> {
    let mut order: Vec<usize> = (0..gangs.len()).collect();
    let needs = |at: &usize| gangs.get(*at).map_or(share, |gang| gang.needs.unwrap_or(share));
    let gpus = |at: &usize| gangs.get(*at).map_or(0, |gang| gang.gpus);
    order.sort_by(|a, b| {
        let (of_a, of_b) = (needs(a), needs(b));
        gpus(b)
            .cmp(&gpus(a))
            .then(of_b.cpus.total_cmp(&of_a.cpus))
            .then(of_b.memory_gb.total_cmp(&of_a.memory_gb))
            .then(a.cmp(b))
    });
    order
}

/// Whether gangs fit onto the nodes of a type together.
pub fn fits(gpus: u32, per_node: u32, share: HostNeeds, gangs: &[Gang]) -> bool {
    let (mut nodes, per_node) = (nodes(gpus, per_node, share), per_node.min(gpus));
    largest_first(gangs, share).into_iter().filter_map(|at| gangs.get(at)).all(|gang| {
        let needs = gang.needs.unwrap_or(share);
        put(&mut nodes, per_node, gang.gpus, needs).is_some()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs(cpus: f64, memory_gb: f64) -> HostNeeds {
        HostNeeds { cpus, memory_gb }
    }

    #[test]
    fn the_worked_example() {
        let share = needs(2.0, 10.0);
        let gang = |cpus: f64| Gang { gpus: 2, needs: Some(needs(cpus / 2.0, 0.0)) };
        assert!(fits(8, 4, share, &[gang(6.0), gang(6.0), gang(2.0)]));
        assert!(!fits(8, 4, share, &[gang(6.0), gang(6.0), gang(3.0)]));
        // Who takes its share fits where GPUs fit.
        assert!(fits(8, 4, share, &[4.into(), 2.into(), 2.into()]) && !fits(8, 4, share, &[5.into(), 4.into()]));
        assert!(fits(8, 4, share, &[6.into(), 2.into()]));
    }

    #[test]
    fn a_smaller_node_has_less_of_everything() {
        let all = nodes(10, 4, needs(3.0, 20.0));
        assert_eq!(all.iter().map(|node| node.gpus).collect::<Vec<_>>(), [4, 4, 2]);
        assert_eq!((all[0].host, all[2].host), (needs(12.0, 80.0), needs(6.0, 40.0)));
        assert_eq!(nodes(3, 8, needs(1.0, 1.0)), [OpenNode { gpus: 3, host: needs(3.0, 3.0) }]);
        // Memory alone keeps a gang out.
        let hungry = |gpus: u32, memory_gb: f64| Gang { gpus, needs: Some(needs(0.0, memory_gb)) };
        assert!(fits(10, 4, needs(3.0, 20.0), &[hungry(1, 80.0), hungry(1, 80.0), hungry(1, 40.0)]));
        assert!(!fits(10, 4, needs(3.0, 20.0), &[hungry(1, 80.0), hungry(1, 80.0), hungry(1, 41.0)]));
    }
}
