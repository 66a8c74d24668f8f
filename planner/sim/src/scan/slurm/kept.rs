//! Nodes that a cycle of Slurm's backfill keeps for jobs that wait: from which second on which of them are kept.
//!
//! A line of steps, each with a bit for every node. O(steps × nodes / 64) for each question, with at most two steps for each job that nodes are kept for.
//!
//! Worked number: node 0 is kept from 60 s to 180 s and node 1 from 120 s to 240 s. Before 60 s none is kept; 0 from 60 s, both from 120 s, 1 from 180 s, none from 240 s. After 60 s the first release is at 180 s.

use super::mask::Mask;
use super::ready::Ready;

/// How a step follows the one before.
#[derive(Debug, Clone, Copy, Default)]
struct Edge {
    /// Whether the step keeps the same nodes.
    same: bool,
    /// Whether a node that was kept is kept no more.
    releases: bool,
}

/// Kept nodes, by seconds.
#[derive(Debug)]
pub(super) struct Kept {
    /// From which second on, rising; the first is from ever on.
    steps: Vec<i64>,
    /// Which nodes each step keeps, `words` of them one after the other.
    nodes: Vec<u64>,
    words: usize,
    /// How each step follows the one before; the first, none.
    edges: Vec<Edge>,
    /// Rows of Slurm's table that are taken: the steps that were ever made, as no row is used again.
    rows: u32,
    /// The seconds that the table is of, until before its end. It has no row that begins later.
    now_s: i64,
    end_s: i64,
}

impl Kept {
    /// Nothing, of `count` nodes, in a table from `now_s` until `end_s`.
    pub(super) fn new(count: u32, now_s: i64, end_s: i64) -> Self {
        let words = count.div_ceil(64) as usize;
        Self {
            steps: vec![i64::MIN],
            nodes: vec![0; words],
            words,
            edges: vec![Edge::default()],
            rows: 1,
            now_s,
            end_s,
        }
    }

    /// Whether the table ends before what begins at this second.
    pub(super) fn is_beyond(&self, begin_s: i64) -> bool {
        begin_s >= self.end_s
    }

    /// Rows of the table that are taken.
    pub(super) fn rows(&self) -> u32 {
        self.rows
    }

    fn step(&self, at: usize) -> &[u64] {
        &self.nodes[at * self.words..(at + 1) * self.words]
    }

    /// The step that a second is in.
    fn step_of(&self, at_s: i64) -> usize {
        self.steps.partition_point(|from_s| *from_s <= at_s).saturating_sub(1)
    }

    /// How a step follows the one before, anew.
    fn follow(&mut self, at: usize) {
        let (mut same, mut releases) = (true, false);
        for (before, now) in self.step(at - 1).iter().zip(self.step(at)) {
            same &= before == now;
            releases |= before & !now != 0;
        }
        self.edges[at] = Edge { same, releases };
    }

    /// The first step after one that begins with a release.
    fn release_after(&self, at: usize) -> Option<usize> {
        self.edges[at + 1..].iter().position(|edge| edge.releases).map(|more| at + 1 + more)
    }

    /// Puts those of `nodes` that are not kept from a step on until `until_s`, this included, into
    /// `spared`, as this is asked again and again. Returns whether they are at least `least`.
    fn spares(&self, nodes: &Mask, first: usize, until_s: i64, least: usize, spared: &mut Mask) -> bool {
        spared.become_as(nodes);
        for at in first..=self.step_of(until_s).max(first) {
            spared.remove(self.step(at));
        }
        spared.count() >= least
    }

    /// Whether at least `least` of `nodes` that are among others, too, are not kept from a step on until `until_s`, this included.
    fn spares_among(&self, nodes: &Mask, others: &[u64], first: usize, until_s: i64, least: usize) -> bool {
        let of_word = |word: usize| nodes.words()[word] & others[word];
        // Mostly too many are kept already.
        let not_kept = |word: usize| of_word(word) & !self.step(first)[word];
        if (0..self.words).map(|word| not_kept(word).count_ones() as usize).sum::<usize>() < least {
            return false;
        }
        let last = self.step_of(until_s).max(first);
        let kept = |word: usize| (first..=last).fold(0, |kept, at| kept | self.nodes[at * self.words + word]);
        let spared = |word: usize| of_word(word) & !kept(word);
        (0..self.words).map(|word| spared(word).count_ones() as usize).sum::<usize>() >= least
    }

    /// The first of `from_s` and the releases after it from which on at least `least` of `nodes` are not kept for `for_s`, the last second included, and the release after it; these nodes are then in `spared`.
    /// Where it is known when nodes have their GPUs, as many must have them by that release. Each that is not takes one of `attempts`; nothing once none is left.
    pub(super) fn spared_from(
        &self,
        nodes: &Mask,
        (mut from_s, for_s): (i64, i64),
        least: usize,
        mut ready: Option<(&Ready, &mut usize)>,
        attempts: &mut usize,
        spared: &mut Mask,
    ) -> Option<(i64, Option<i64>)> {
        let mut at = self.step_of(from_s);
        while *attempts > 0 {
            let until_s = from_s.saturating_add(for_s);
            let later = self.release_after(at);
            let later_s = later.map(|at| self.steps[at]);
            let may = ready
                .as_mut()
                .is_none_or(|(ready, passed)| self.spares_among(nodes, ready.by(later_s, passed), at, until_s, least));
            if may && self.spares(nodes, at, until_s, least, spared) {
                return Some((from_s, later_s));
            }
            *attempts -= 1;
            at = later?;
            from_s = self.steps[at];
        }
        None
    }

    /// Whether one of `nodes` is kept at a second from `begin_s` until before `end_s`.
    pub(super) fn meets(&self, nodes: &Mask, begin_s: i64, end_s: i64) -> bool {
        let meets = |at: usize| self.step(at).iter().zip(nodes.words()).any(|(kept, request)| kept & request != 0);
        begin_s < end_s && (self.step_of(begin_s)..=self.step_of(end_s - 1)).any(meets)
    }

    /// Keeps nodes from `begin_s` until before `end_s`. Of two neighbouring steps that keep the same, the first such, the later goes.
    pub(super) fn keep(&mut self, nodes: &Mask, begin_s: i64, end_s: i64) {
        if self.is_beyond(begin_s) {
            return;
        }
        let first = self.split(begin_s.max(self.now_s));
        let after = if end_s < self.end_s { self.split(end_s) } else { self.steps.len() };
        for at in first..after {
            for (kept, more) in self.nodes[at * self.words..].iter_mut().zip(nodes.words()) {
                *kept |= more;
            }
        }
        for at in first.max(1)..(after + 1).min(self.steps.len()) {
            self.follow(at);
        }
        if let Some(at) = self.edges.iter().position(|edge| edge.same) {
            self.steps.remove(at);
            self.nodes.drain(at * self.words..(at + 1) * self.words);
            // The step behind it follows one that keeps the same.
            self.edges.remove(at);
        }
    }

    /// The step that begins at `at_s`, made if there is none.
    fn split(&mut self, at_s: i64) -> usize {
        let at = self.steps.partition_point(|from_s| *from_s < at_s);
        if self.steps.get(at) != Some(&at_s) {
            self.steps.insert(at, at_s);
            let before = (at - 1) * self.words;
            self.nodes.extend_from_within(before..before + self.words);
            self.nodes[at * self.words..].rotate_right(self.words);
            self.edges.insert(at, Edge { same: true, releases: false });
            self.rows += 1;
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::super::left::{Left, Part};
    use super::*;

    /// The first second after `from_s` at which a node is kept no more.
    fn next_release(kept: &Kept, from_s: i64) -> Option<i64> {
        kept.release_after(kept.step_of(from_s)).map(|at| kept.steps[at])
    }

    /// The worked number of the module.
    #[test]
    fn nodes_are_kept_from_second_to_second() {
        let (all, of) = (Mask::new(70, |node| [0, 1, 69].contains(&node)), |nodes: &[u32]| {
            Mask::of_nodes(70, nodes.iter().copied())
        });
        let mut kept = Kept::new(70, 0, 1000);
        let spares = |kept: &Kept, from, until| {
            let mut spared = Mask::default();
            assert!(kept.spares(&all, kept.step_of(from), until, 0, &mut spared));
            spared
        };
        assert_eq!((spares(&kept, 0, 1000), next_release(&kept, 0)), (all.clone(), None));
        kept.keep(&of(&[0]), 60, 180);
        kept.keep(&of(&[1]), 120, 240);
        assert_eq!(spares(&kept, 0, 59), all);
        // The last second counts.
        assert_eq!(spares(&kept, 0, 60), of(&[1, 69]));
        assert_eq!(spares(&kept, 180, 239), of(&[0, 69]));
        assert_eq!(spares(&kept, 100, 120), of(&[69]));
        assert_eq!(spares(&kept, 240, 300).count(), 3);
        assert_eq!(
            [0, 60, 179, 180, 239, 240].map(|from| next_release(&kept, from)),
            [Some(180), Some(180), Some(180), Some(240), Some(240), None]
        );
        assert!(kept.meets(&of(&[0]), 179, 180) && !kept.meets(&of(&[0]), 180, 400) && !kept.meets(&of(&[0]), 0, 60));
        assert!(kept.meets(&of(&[69, 1]), 0, 400) && !kept.meets(&of(&[69]), 0, 400));
        // Kept on without a break: no release in between.
        kept.keep(&of(&[0]), 180, 300);
        assert_eq!([60, 240].map(|from| next_release(&kept, from)), [Some(240), Some(300)]);
        assert!(all.contains(69) && !all.contains(68));
    }

    /// Jumps over releases equal attempts one by one: from each release on, whether enough nodes
    /// are spared, and by the next one have their GPUs where that is known. Of nodes 64 to 69 two
    /// have them now, and the others one after the other.
    #[test]
    fn releases_are_passed_over_where_too_much_is_kept() {
        let (all, of) =
            (Mask::new(70, |_| true), |nodes: &[u32]| Mask::of_nodes(70, (0..64).chain(nodes.iter().copied())));
        let mut kept = Kept::new(70, 0, 10_000);
        for (nodes, from, until) in
            [(&[64][..], 0, 60), (&[64, 65], 60, 300), (&[66, 67, 68], 120, 180), (&[69], 300, 420)]
        {
            kept.keep(&of(nodes), from, until);
        }
        let free: Vec<u8> = (0..70).map(|node| u8::from(node < 66)).collect();
        let given = [(100, 66), (200, 67), (310, 68), (400, 69)].map(|(end_s, node)| (end_s, Part::bare(node, 1)));
        let by = Ready::new(&Left::with_free(&free, 1), 1, given.into_iter());
        let cases = [false, true].into_iter().flat_map(|known| (1..=8).map(move |least| (known, least)));
        for (known, least) in cases {
            for from_s in [0, 59, 60, 130, 299, 300, 500] {
                for for_s in [0, 59, 60, 150, 1000] {
                    for most in [1, 2, 3, 400] {
                        let (mut left, mut spared, mut passed) = (most, Mask::default(), 0);
                        let ready = known.then_some((&by, &mut passed));
                        let result = kept.spared_from(&all, (from_s, for_s), least, ready, &mut left, &mut spared);
                        let mut from = Some(from_s);
                        let mut slowly = Mask::default();
                        for attempt in 0..=most {
                            let Some(at_s) = from.filter(|_| attempt < most) else {
                                assert_eq!(result, None, "{known} {least} {from_s} {for_s} {most}");
                                break;
                            };
                            kept.spares(&all, kept.step_of(at_s), at_s + for_s, 0, &mut slowly);
                            let later_s = next_release(&kept, at_s);
                            let of_them: &[u64] = if known { by.by(later_s, &mut 0) } else { all.words() };
                            if slowly.shares(of_them, least) {
                                assert_eq!((result, &spared, left), (Some((at_s, later_s)), &slowly, most - attempt));
                                break;
                            }
                            from = later_s;
                        }
                    }
                }
            }
        }
    }

    /// At most two rows for each time nodes are kept. Of two rows that say the same one goes, but is not there again.
    #[test]
    fn rows_of_the_table_are_counted() {
        let of = |nodes: &[u32]| Mask::of_nodes(3, nodes.iter().copied());
        let mut kept = Kept::new(3, 90, 300);
        assert_eq!(kept.rows(), 1);
        kept.keep(&of(&[0]), 60, 120);
        // From 90 s on, as the table begins there.
        assert_eq!((kept.rows(), kept.steps[1]), (3, 90));
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
