//! A set of the nodes of a pool, for Slurm's backfill: 64 nodes to a word, as most questions are of all of them at once.
//!
//! O(nodes / 64) for a question of all, O(1) for one of a node. Worked number: nodes 1 and 69 of 70 are the words 2 and 32.

/// A set of the nodes of a pool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Mask(Vec<u64>);

impl Mask {
    /// The nodes below `count` for which it holds.
    pub(super) fn new(count: u32, holds: impl Fn(u32) -> bool) -> Self {
        Self::of_nodes(count, (0..count).filter(|node| holds(*node)))
    }

    /// Builds the mask of these nodes of `count`.
    pub(super) fn of_nodes(count: u32, nodes: impl IntoIterator<Item = u32>) -> Self {
        let mut mask = Self::default();
        mask.become_nodes(count, nodes);
        mask
    }

    /// Sets the mask to these nodes of `count`, and no others, without new memory.
    pub(super) fn become_nodes(&mut self, count: u32, nodes: impl IntoIterator<Item = u32>) {
        self.0.clear();
        self.0.resize(count.div_ceil(64) as usize, 0);
        nodes.into_iter().for_each(|node| self.0[node as usize / 64] |= 1 << (node % 64));
    }

    /// Copies another mask without new memory.
    pub(super) fn become_as(&mut self, other: &Self) {
        self.0.clone_from(&other.0);
    }

    /// Removes others, 64 of these to a word.
    pub(super) fn remove(&mut self, others: &[u64]) {
        self.0.iter_mut().zip(others).for_each(|(mine, other)| *mine &= !other);
    }

    /// How many nodes.
    pub(super) fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    pub(super) fn contains(&self, node: u32) -> bool {
        self.0[node as usize / 64] >> (node % 64) & 1 == 1
    }

    /// Whether at least `least` of the nodes are among others, 64 of these to a word.
    pub(super) fn shares(&self, others: &[u64], least: usize) -> bool {
        self.0.iter().zip(others).map(|(mine, other)| (mine & other).count_ones() as usize).sum::<usize>() >= least
    }

    /// The nodes, 64 to a word.
    pub(super) fn words(&self) -> &[u64] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::Mask;

    /// The worked number of the module.
    #[test]
    fn nodes_are_bits_of_words() {
        let mut mask = Mask::new(70, |node| [1, 69].contains(&node));
        assert_eq!((mask.words(), mask.count()), (&[2, 32][..], 2));
        assert!(mask.contains(69) && !mask.contains(68));
        assert!(mask.shares(&[2, 0], 1) && !mask.shares(&[2, 0], 2));
        mask.remove(&[3, 0]);
        assert_eq!(mask, Mask::of_nodes(70, [69]));
    }
}
