//! From which second on which nodes of a pool have a number of GPUs, if running jobs end with their limits.
//!
//! Sets of nodes that only grow, one for each node that is ready later: O(nodes² / 64) to list them. O(1) for a question, if times rise from one to the next.
//!
//! Worked number: node 2 has 4 GPUs free now, node 0 from 65 s and node 1 from 80 s on. Of nodes 0 and 1 one has 4 from 65 s, and both from 80 s on; by 70 s both have not.

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
    pub(super) fn new(left: &Left, gpus: u32, given: impl Iterator<Item = (i64, Part)>) -> Self {
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

    /// The nodes that have them now, 64 to a word.
    pub(super) fn now(&self) -> &[u64] {
        self.step(0)
    }

    /// Returns the nodes that have them by a second, this included; at any if there is none.
    /// `passed` of the seconds have been passed when it is asked for times that rise.
    pub(super) fn by(&self, by_s: Option<i64>, passed: &mut usize) -> &[u64] {
        let is_past = |from_s: &&i64| by_s.is_none_or(|by_s| **from_s <= by_s);
        *passed += self.from_s[*passed..].iter().take_while(is_past).count();
        self.step(passed.saturating_sub(1))
    }

    fn step(&self, at: usize) -> &[u64] {
        &self.nodes[at * self.words..(at + 1) * self.words]
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
        let ready = Ready::new(&left, 4, given.into_iter());
        let of = |nodes: &[u32]| nodes.iter().map(|node| 1 << node).sum::<u64>();
        assert_eq!(ready.now(), [of(&[2, 3])]);
        let mut passed = 0;
        let risen = [0, 64, 65, 79, 80].map(|by_s| ready.by(Some(by_s), &mut passed)[0]);
        assert_eq!(risen, [of(&[2, 3]), of(&[2, 3]), of(&[0, 2, 3]), of(&[0, 2, 3]), of(&[0, 1, 2, 3])]);
        assert_eq!(ready.by(None, &mut 0), [of(&[0, 1, 2, 3])]);
    }
}
