//! Nodes that a cycle of Slurm's backfill keeps for jobs that wait: from which second on which of them are kept.
//!
//! A line of steps, each with a bit for every node. O(steps × nodes / 64) for each question, with at most two steps for each job that nodes are kept for.
//!
//! Worked number: node 0 is kept from 60 s to 180 s and node 1 from 120 s to 240 s. Before 60 s none is kept; 0 from 60 s, both from 120 s, 1 from 180 s, none from 240 s. After 60 s the first release is at 180 s.

/// A set of the nodes of a pool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Mask(Vec<u64>);

impl Mask {
    /// The nodes below `count` for which it holds.
    pub(super) fn of(count: u32, holds: impl Fn(u32) -> bool) -> Self {
        Self::of_nodes(count, (0..count).filter(|node| holds(*node)))
    }

    /// These nodes of `count`.
    pub(super) fn of_nodes(count: u32, nodes: impl IntoIterator<Item = u32>) -> Self {
        let mut mask = Self(vec![0; count.div_ceil(64) as usize]);
        nodes.into_iter().for_each(|node| mask.0[node as usize / 64] |= 1 << (node % 64));
        mask
    }

    pub(super) fn contains(&self, node: u32) -> bool {
        self.0[node as usize / 64] >> (node % 64) & 1 == 1
    }

    /// How many they are.
    pub(super) fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The nodes, 64 to a word.
    pub(super) fn words(&self) -> &[u64] {
        &self.0
    }

    fn unite(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(mine, theirs)| *mine |= theirs);
    }

    fn meets(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).any(|(mine, theirs)| mine & theirs != 0)
    }

    /// Whether it has a node that the other lacks.
    fn has_more_than(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).any(|(mine, theirs)| mine & !theirs != 0)
    }
}

/// What is kept, by seconds.
#[derive(Debug)]
pub(super) struct Kept {
    /// From which second on which nodes are kept, rising; the first is from ever on.
    steps: Vec<(i64, Mask)>,
    /// Rows of Slurm's table that are taken: the steps that were ever made, as no row is used again.
    rows: u32,
    /// The seconds that the table is of, until before its end. It has no row that begins later.
    now_s: i64,
    end_s: i64,
}

impl Kept {
    /// Nothing, of `count` nodes, in a table from `now_s` until `end_s`.
    pub(super) fn new(count: u32, now_s: i64, end_s: i64) -> Self {
        Self { steps: vec![(i64::MIN, Mask::of_nodes(count, []))], rows: 1, now_s, end_s }
    }

    /// Whether the table ends before what begins at this second.
    pub(super) fn is_beyond(&self, begin_s: i64) -> bool {
        begin_s >= self.end_s
    }

    /// Rows of the table that are taken.
    pub(super) fn rows(&self) -> u32 {
        self.rows
    }

    /// Steps that touch the seconds from `from_s` until before `to_s`.
    fn within(&self, from_s: i64, to_s: i64) -> &[(i64, Mask)] {
        let first = self.steps.partition_point(|(at_s, _)| *at_s <= from_s).saturating_sub(1);
        let after = self.steps.partition_point(|(at_s, _)| *at_s < to_s).max(first);
        &self.steps[first..after]
    }

    /// Of `nodes` those that are not kept at any second from `from_s` to `until_s`, this included; into `spared`, as this is asked again and again.
    pub(super) fn spares(&self, nodes: &Mask, from_s: i64, until_s: i64, spared: &mut Mask) {
        spared.0.clone_from(&nodes.0);
        for (_, kept) in self.within(from_s, until_s.saturating_add(1)) {
            spared.0.iter_mut().zip(&kept.0).for_each(|(mine, theirs)| *mine &= !theirs);
        }
    }

    /// The first second after `from_s` at which a node is kept no more.
    pub(super) fn next_release(&self, from_s: i64) -> Option<i64> {
        let first = self.steps.partition_point(|(at_s, _)| *at_s <= from_s);
        let edges = self.steps.windows(2).skip(first.saturating_sub(1));
        edges.filter_map(|pair| pair[0].1.has_more_than(&pair[1].1).then_some(pair[1].0)).next()
    }

    /// Whether one of `nodes` is kept at a second from `begin_s` until before `end_s`.
    pub(super) fn meets(&self, nodes: &Mask, begin_s: i64, end_s: i64) -> bool {
        self.within(begin_s, end_s).iter().any(|(_, kept)| kept.meets(nodes))
    }

    /// Keeps nodes from `begin_s` until before `end_s`. Of two neighbouring steps that keep the same, the first such, the later goes.
    pub(super) fn keep(&mut self, nodes: &Mask, begin_s: i64, end_s: i64) {
        if self.is_beyond(begin_s) {
            return;
        }
        let first = self.split(begin_s.max(self.now_s));
        let after = if end_s < self.end_s { self.split(end_s) } else { self.steps.len() };
        self.steps[first..after].iter_mut().for_each(|(_, kept)| kept.unite(nodes));
        if let Some(at) = self.steps.windows(2).position(|pair| pair[0].1 == pair[1].1) {
            self.steps.remove(at + 1);
        }
    }

    /// The step that begins at `at_s`, made if there is none.
    fn split(&mut self, at_s: i64) -> usize {
        let at = self.steps.partition_point(|(from_s, _)| *from_s < at_s);
        if self.steps.get(at).is_none_or(|(from_s, _)| *from_s != at_s) {
            let kept = self.steps[at - 1].1.clone();
            self.steps.insert(at, (at_s, kept));
            self.rows += 1;
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The worked number of the module.
    #[test]
    fn nodes_are_kept_from_second_to_second() {
        let (all, of) = (Mask::of(70, |node| [0, 1, 69].contains(&node)), |nodes: &[u32]| {
            Mask::of_nodes(70, nodes.iter().copied())
        });
        let mut kept = Kept::new(70, 0, 1000);
        let spares = |kept: &Kept, from, until| {
            let mut spared = Mask::default();
            kept.spares(&all, from, until, &mut spared);
            spared
        };
        assert_eq!((spares(&kept, 0, 1000), kept.next_release(0)), (all.clone(), None));
        kept.keep(&of(&[0]), 60, 180);
        kept.keep(&of(&[1]), 120, 240);
        assert_eq!(spares(&kept, 0, 59), all);
        // The last second counts.
        assert_eq!(spares(&kept, 0, 60), of(&[1, 69]));
        assert_eq!(spares(&kept, 180, 239), of(&[0, 69]));
        assert_eq!(spares(&kept, 100, 120), of(&[69]));
        assert_eq!(spares(&kept, 240, 300).len(), 3);
        assert_eq!(
            [0, 60, 179, 180, 239, 240].map(|from| kept.next_release(from)),
            [Some(180), Some(180), Some(180), Some(240), Some(240), None]
        );
        assert!(kept.meets(&of(&[0]), 179, 180) && !kept.meets(&of(&[0]), 180, 400) && !kept.meets(&of(&[0]), 0, 60));
        assert!(kept.meets(&of(&[69, 1]), 0, 400) && !kept.meets(&of(&[69]), 0, 400));
        // Kept on without a break: no release in between.
        kept.keep(&of(&[0]), 180, 300);
        assert_eq!([60, 240].map(|from| kept.next_release(from)), [Some(240), Some(300)]);
        assert!(all.contains(69) && !all.contains(68));
    }

    /// At most two rows for each time nodes are kept. Of two rows that say the same one goes, but is not there again.
    #[test]
    fn rows_of_the_table_are_counted() {
        let of = |nodes: &[u32]| Mask::of_nodes(3, nodes.iter().copied());
        let mut kept = Kept::new(3, 90, 300);
        assert_eq!(kept.rows(), 1);
        kept.keep(&of(&[0]), 60, 120);
        // From 90 s on, as the table begins there.
        assert_eq!((kept.rows(), kept.steps[1].0), (3, 90));
        kept.keep(&of(&[0, 1]), 120, 180);
        kept.keep(&of(&[1]), 60, 120);
        // 90 s, 120 s and 180 s were made; 120 s says what 90 s does by now.
        assert_eq!((kept.rows(), kept.steps.len()), (4, 3));
        kept.keep(&of(&[2]), 120, 400);
        // It ends behind the table, so that 120 s alone is made, again.
        assert_eq!((kept.rows(), kept.steps.len()), (5, 4));
        kept.keep(&of(&[0]), 300, 360);
        assert_eq!(kept.rows(), 5);
    }
}
