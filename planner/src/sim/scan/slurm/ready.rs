//! From which second on which nodes of a pool have a number of GPUs, if running jobs end with their limits.
//!
//! Sets of nodes that only grow, the one of a second found by bisection. O(nodes / 64 + log nodes) for a question.
//!
//! Worked number: node 2 has 4 GPUs free now, node 0 from 65 s and node 1 from 80 s on. Of nodes 0 and 1 one has 4 from 65 s, and both from 80 s on; by 70 s both have not.

use super::kept::Mask;
use super::left::{Left, Part, Room};

/// When nodes have a number of GPUs.
pub(super) struct Ready {
    gpus: u32,
    /// Seconds from which on one node more has them, rising; the first is from ever on.
    from_s: Vec<i64>,
    /// The nodes that have them from each of these on, `words` of them one after the other.
    nodes: Vec<u64>,
    words: usize,
}

impl Ready {
    /// When nodes have `gpus`, if these parts are given back, in this order, at these seconds.
    pub(super) fn of(left: &Left, gpus: u32, given: impl Iterator<Item = (i64, Part)>) -> Self {
        let mut free = left.free().to_vec();
        let words = free.len().div_ceil(64);
        let nodes = (0..words).map(|word| left.with_gpus(gpus, word)).collect();
        let mut ready = Self { gpus, from_s: vec![i64::MIN], nodes, words };
        for (end_s, part) in given {
            let free = &mut free[part.node as usize];
            let before = u32::from(*free);
            *free += part.gpus as u8;
            if before < gpus && u32::from(*free) >= gpus {
                let last = ready.nodes.len();
                ready.from_s.push(end_s);
                ready.nodes.extend_from_within(last - words..);
                ready.nodes[last + part.node as usize / 64] |= 1 << (part.node % 64);
            }
        }
        ready
    }

    /// The number of GPUs.
    pub(super) fn gpus(&self) -> u32 {
        self.gpus
    }

    /// Whether at least `least` of some nodes have them now.
    pub(super) fn are_enough_now(&self, nodes: &Mask, least: usize) -> bool {
        self.are_enough(0, nodes, least)
    }

    /// Whether at least `least` of some nodes have them by a second, this included; at any if there is none.
    pub(super) fn are_enough_by(&self, nodes: &Mask, least: usize, by_s: Option<i64>) -> bool {
        let steps = by_s.map_or(self.from_s.len(), |by_s| self.from_s.partition_point(|from_s| *from_s <= by_s));
        self.are_enough(steps - 1, nodes, least)
    }

    fn are_enough(&self, at: usize, nodes: &Mask, least: usize) -> bool {
        let ready = &self.nodes[at * self.words..(at + 1) * self.words];
        ready.iter().zip(nodes.words()).map(|(ready, asked)| (ready & asked).count_ones() as usize).sum::<usize>()
            >= least
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The worked number of the module; node 3 has 8.
    #[test]
    fn nodes_have_their_gpus_one_after_the_other() {
        let left = Left::with_free(&[1, 0, 4, 8], 8);
        let given = [(65, Part::bare(0, 3)), (80, Part::bare(1, 3)), (80, Part::bare(1, 1)), (90, Part::bare(1, 1))];
        let ready = Ready::of(&left, 4, given.into_iter());
        let of = |nodes: &[u32]| Mask::of_nodes(4, nodes.iter().copied());
        let by = |nodes: &[u32], least, by_s| ready.are_enough_by(&of(nodes), least, by_s);
        assert_eq!([64, 65].map(|by_s| by(&[0, 1], 1, Some(by_s))), [false, true]);
        assert_eq!([70, 79, 80].map(|by_s| by(&[0, 1], 2, Some(by_s))), [false, false, true]);
        assert_eq!([64, 65].map(|by_s| by(&[0, 1, 2, 3], 3, Some(by_s))), [false, true]);
        assert!(by(&[0, 1], 2, None) && !by(&[0, 1], 3, None));
        assert!(ready.are_enough_now(&of(&[0, 2]), 1) && !ready.are_enough_now(&of(&[0, 1, 2]), 2));
    }
}
