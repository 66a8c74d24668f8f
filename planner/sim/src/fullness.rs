//! How many GPUs each block, rack or the like of a pool has free, kept up to date as nodes are taken and given.
//!
//! Buddy cells go by it: a domain is whole if all its GPUs are free on nodes that take jobs, and a job of several nodes goes to the fullest domain that has room. O(levels) for a change of a node, O(1) for a question.
//! Worked number: of a rack of two nodes of 8 one has 3 GPUs in use: 13 are free. If the other takes no jobs, 5 are.

use std::sync::Arc;

use super::topology::{Domains, MOST_LEVELS};

/// No domain: the node lies in none.
const NONE: u32 = u32::MAX;

/// Parts that do not change while nodes are taken and given.
#[derive(Debug, PartialEq, Eq)]
struct Fixed {
    domains: Arc<Domains>,
    /// By level, the domain of each node of the pool.
    of: Vec<Vec<u32>>,
    /// By level, the GPUs of each domain.
    gpus: Vec<Vec<u32>>,
}

/// Free GPUs of the domains of a pool's nodes.
#[derive(Debug, Clone)]
pub(crate) struct Fullness {
    fixed: Arc<Fixed>,
    /// By level, the GPUs of each domain that are free on nodes that take jobs.
    free: Vec<Vec<u32>>,
}

impl Fullness {
    /// Domains of nodes that have, each, so many GPUs and so many that are free on nodes that take jobs. O(nodes × levels).
    pub(super) fn new(domains: Arc<Domains>, nodes: &[(u32, u32)]) -> Self {
        let levels = 0..domains.lowest();
        let mut of = vec![vec![NONE; nodes.len()]; domains.lowest()];
        let zero: Vec<Vec<u32>> = levels.clone().map(|level| vec![0; domains.count(level)]).collect();
        let (mut gpus, mut free) = (zero.clone(), zero);
        for level in levels {
            for domain in 0..domains.count(level) as u32 {
                for node in domains.nodes().get(domains.span(level, domain)).unwrap_or_default() {
                    let (all, left) = nodes.get(*node as usize).copied().unwrap_or_default();
                    of[level][*node as usize] = domain;
                    gpus[level][domain as usize] += all;
                    free[level][domain as usize] += left;
                }
            }
        }
        Self { fixed: Arc::new(Fixed { domains, of, gpus }), free }
    }

    /// The domains.
    pub(crate) fn domains(&self) -> &Domains {
        &self.fixed.domains
    }

    /// A node had so many free GPUs on which jobs may go, and has so many now.
    pub(super) fn change(&mut self, node: u32, before: u32, after: u32) {
        for (free, of) in self.free.iter_mut().zip(&self.fixed.of) {
            let domain = of.get(node as usize).copied().unwrap_or(NONE);
            if let Some(free) = free.get_mut(domain as usize) {
                *free = *free + after - before;
            }
        }
    }

    /// Free GPUs of a domain.
    pub(crate) fn free(&self, level: usize, domain: u32) -> u32 {
        self.free.get(level).and_then(|free| free.get(domain as usize)).copied().unwrap_or(0)
    }

    /// GPUs of the widest domain about a node all of which are free; 0 if there is none.
    pub(crate) fn home(&self, node: u32) -> u32 {
        let of_level = |((free, gpus), of): ((&Vec<u32>, &Vec<u32>), &Vec<u32>)| {
            let domain = *of.get(node as usize)? as usize;
            let all = *gpus.get(domain)?;
            (free.get(domain) == Some(&all)).then_some(all)
        };
        self.free.iter().zip(&self.fixed.gpus).zip(&self.fixed.of).filter_map(of_level).max().unwrap_or(0)
    }

    /// Free GPUs of a domain, of that of the next wider level in which it lies, and so on.
    pub(crate) fn outward(&self, level: usize, domain: u32) -> [u32; MOST_LEVELS] {
        let mut outward = [0; MOST_LEVELS];
        let first = self.domains().span(level, domain).start;
        let Some(node) = self.domains().nodes().get(first) else { return outward };
        for (known, level) in outward.iter_mut().zip((0..=level).rev()) {
            let domain = self.fixed.of.get(level).and_then(|of| of.get(*node as usize)).copied();
            *known = domain.map_or(0, |domain| self.free(level, domain));
        }
        outward
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::nodes::Nodes;
    use crate::topology::Topology;
    use crate::{Group, Piece, Pool};

    /// The worked number, on the first of two racks of a block.
    #[test]
    fn what_is_free_follows_its_nodes() {
        let topology = Topology::regular(vec!["block".into(), "rack".into()], &[2, 2], 4).unwrap();
        let domains = Arc::new(Domains::new(&topology, 0, 4));
        let pool = Pool { groups: vec![Group::fixed(4, 8)] };
        let mut nodes = Nodes::new(&pool, 0).within(Some(domains));
        let of = |nodes: &Nodes| {
            let full = nodes.fullness().unwrap();
            (full.free(1, 0), full.free(0, 0), full.home(1), full.home(2), full.outward(1, 0)[..3].to_vec())
        };
        assert_eq!(of(&nodes), (16, 32, 32, 32, vec![16, 32, 0]));
        nodes.take(&Piece::whole(0, 0b111)).unwrap();
        assert_eq!(of(&nodes), (13, 29, 0, 16, vec![13, 29, 0]));
        nodes.set_eligible(1, false);
        assert_eq!(of(&nodes), (5, 21, 0, 16, vec![5, 21, 0]));
        // What a job gives back on a node that takes none does not count until it does.
        nodes.set_eligible(0, false);
        nodes.give(&Piece::whole(0, 0b111));
        assert_eq!(of(&nodes), (0, 16, 0, 16, vec![0, 16, 0]));
        nodes.set_eligible(0, true);
        nodes.set_eligible(1, true);
        assert_eq!(of(&nodes), (16, 32, 32, 32, vec![16, 32, 0]));
    }
}
