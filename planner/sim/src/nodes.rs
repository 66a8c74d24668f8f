//! The nodes of one pool while a replay runs: which GPUs are free, and which nodes may take a job.
//!
//! Nodes are indexed by how many GPUs they have free, so that "the lowest node with exactly *f* free" costs a few word
//! operations whatever the size of the pool; taking and giving GPUs cost O(1). Parts of GPUs are kept beside, on the nodes
//! that have any, and so is what is left of processors and memory, where nodes have bounds of these. Every take is checked: a GPU that is not free,
//! processors or memory that are not there, or a node that may not take a job, is refused.
//!
//! Worked number: 1,250 nodes are 20 words of 64 bits and one word above them, for each of 9 counts of free GPUs.

use std::sync::Arc;

use super::cluster::Pool;
use super::fullness::Fullness;
use super::host::HostRoom;
use super::schedule::Piece;
use super::topology::Domains;
use super::workload::Shape;
use crate::error::{Error, Result};

/// Thousandths in a GPU.
pub(crate) const WHOLE: u16 = 1000;

/// A GPU that jobs share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shared {
    /// Number of the GPU on the node.
    pub(crate) gpu: u8,
    /// Thousandths that are left.
    pub(crate) left: u16,
}

/// A set of node indices that finds its lowest member fast.
#[derive(Debug, Clone, Default)]
struct Bits {
    words: Vec<u64>,
    /// Which words are not zero.
    summary: Vec<u64>,
    /// Members. An insertion is always of one that is not there, a removal of one that is.
    len: usize,
}

impl Bits {
    fn new(len: usize) -> Self {
        let words = len.div_ceil(64);
        Self { words: vec![0; words], summary: vec![0; words.div_ceil(64)], len: 0 }
    }

    fn insert(&mut self, at: usize) {
        self.len += 1;
        self.words[at / 64] |= 1 << (at % 64);
        self.summary[at / 4096] |= 1 << (at / 64 % 64);
    }

    fn remove(&mut self, at: usize) {
        self.len -= 1;
        let word = &mut self.words[at / 64];
        *word &= !(1 << (at % 64));
        if *word == 0 {
            self.summary[at / 4096] &= !(1 << (at / 64 % 64));
        }
    }

    /// Members, lowest first.
    fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        ones(&self.summary).flat_map(|word| {
            let base = word * 64;
            ones_of(self.words.get(word as usize).copied().unwrap_or(0)).map(move |bit| base + bit)
        })
    }
}

/// The places of the bits of a word that are set, rising.
pub(super) fn ones_of(mut word: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        if word == 0 {
            return None;
        }
        let bit = word.trailing_zeros();
        word &= word - 1;
        Some(bit)
    })
}

/// The places of the bits that are set, rising.
fn ones(words: &[u64]) -> impl Iterator<Item = u32> + '_ {
    (0u32..).zip(words).flat_map(|(at, word)| ones_of(*word).map(move |bit| at * 64 + bit))
}

/// The nodes of a pool.
#[derive(Debug, Clone)]
pub(crate) struct Nodes {
    /// Number, over all pools, of the first node.
    first: u32,
    size: Vec<u8>,
    gpu_type: Vec<Option<u16>>,
    free: Vec<u64>,
    shared: Vec<Vec<Shared>>,
    /// Processors and memory left on each; empty where no node has a bound.
    host: Vec<HostRoom>,
    /// How many pieces of jobs are on each.
    pieces: Vec<u16>,
    eligible: Vec<bool>,
    /// Eligible nodes by the number of free GPUs.
    by_free: Vec<Bits>,
    /// Free GPUs on eligible nodes.
    eligible_free: u64,
    /// The largest size of the groups of each type, and of all.
    largest: Vec<(Option<u16>, u32)>,
    /// Fullness of the domains that the nodes lie in, where the cluster has a topology.
    fullness: Option<Fullness>,
}

impl Nodes {
    /// Creates all nodes there ever are in `pool`, empty and eligible. The first is number `first`
    /// over all pools.
    pub(crate) fn new(pool: &Pool, first: u32) -> Self {
        let most = pool.groups.iter().map(|group| group.gpus_per_node).max().unwrap_or(0);
        let mut largest = vec![(None, most)];
        let mut nodes = Self {
            first,
            size: Vec::new(),
            gpu_type: Vec::new(),
            free: Vec::new(),
            shared: Vec::new(),
            host: Vec::new(),
            pieces: Vec::new(),
            eligible: Vec::new(),
            by_free: Vec::new(),
            eligible_free: 0,
            largest: Vec::new(),
            fullness: None,
        };
        let bounded = pool.groups.iter().any(|group| !group.host.is_unbounded());
        for group in &pool.groups {
            if bounded {
                nodes.host.extend((0..group.most_nodes()).map(|_| group.host));
            }
            for _ in 0..group.most_nodes() {
                nodes.size.push(group.gpus_per_node as u8);
                nodes.gpu_type.push(group.gpu_type);
                nodes.free.push(full(group.gpus_per_node));
            }
            if let Some(known) = group.gpu_type {
                match largest.iter_mut().find(|(of, _)| *of == Some(known)) {
                    Some((_, size)) => *size = (*size).max(group.gpus_per_node),
                    None => largest.push((Some(known), group.gpus_per_node)),
                }
            }
        }
        nodes.largest = largest;
        nodes.shared = vec![Vec::new(); nodes.size.len()];
        nodes.pieces = vec![0; nodes.size.len()];
        nodes.eligible = vec![false; nodes.size.len()];
        nodes.by_free = vec![Bits::new(nodes.size.len()); most as usize + 1];
        for node in 0..nodes.len() {
            nodes.set_eligible(node, true);
        }
        nodes
    }

    /// Puts the nodes into domains.
    #[must_use]
    pub(crate) fn within(self, domains: Option<Arc<Domains>>) -> Self {
        let eligible = |node: u32| if self.is_eligible(node) { self.free(node) } else { 0 };
        let nodes = |nodes: &Self| (0..nodes.len()).map(|node| (nodes.size(node), eligible(node))).collect::<Vec<_>>();
        let fullness = domains.map(|domains| Fullness::new(domains, &nodes(&self)));
        Self { fullness, ..self }
    }

    /// The domains that they lie in; `None` without a topology.
    pub(crate) fn domains(&self) -> Option<&Domains> {
        self.fullness.as_ref().map(Fullness::domains)
    }

    /// Returns the fullness of the domains that the nodes lie in; `None` without a topology.
    pub(crate) fn fullness(&self) -> Option<&Fullness> {
        self.fullness.as_ref()
    }

    /// Nodes, whether in service or not.
    pub(crate) fn len(&self) -> u32 {
        self.size.len() as u32
    }

    /// The number over all pools of a node of this one.
    pub(crate) fn number(&self, node: u32) -> u32 {
        self.first + node
    }

    /// The node of this pool that has `number` over all pools.
    pub(crate) fn local(&self, number: u32) -> u32 {
        number.wrapping_sub(self.first)
    }

    /// GPUs of a node.
    pub(crate) fn size(&self, node: u32) -> u32 {
        self.size.get(node as usize).copied().map_or(0, u32::from)
    }

    /// *L*: the GPUs of the largest nodes of a type, of any type for `None`. 0 if there are none.
    pub(crate) fn largest(&self, gpu_type: Option<u16>) -> u32 {
        self.largest.iter().find(|(of, _)| *of == gpu_type).map_or(0, |(_, size)| *size)
    }

    /// Whether a node has the GPU type asked for.
    pub(crate) fn is_type(&self, node: u32, gpu_type: Option<u16>) -> bool {
        gpu_type.is_none() || self.gpu_type.get(node as usize).copied().flatten() == gpu_type
    }

    /// Whether a node may take a job.
    pub(crate) fn is_eligible(&self, node: u32) -> bool {
        self.eligible.get(node as usize).copied().unwrap_or(false)
    }

    /// Which GPUs of a node no job touches, one bit each.
    pub(crate) fn free_bits(&self, node: u32) -> u64 {
        self.free.get(node as usize).copied().unwrap_or(0)
    }

    /// How many GPUs of a node no job touches.
    pub(crate) fn free(&self, node: u32) -> u32 {
        self.free_bits(node).count_ones()
    }

    /// Processors and memory left on a node.
    pub(crate) fn host(&self, node: u32) -> HostRoom {
        self.host.get(node as usize).copied().unwrap_or_default()
    }

    /// Processors and memory left on each; none where no node has a bound.
    pub(crate) fn hosts(&self) -> &[HostRoom] {
        &self.host
    }

    /// How many pieces of jobs are on each.
    pub(crate) fn pieces(&self) -> &[u16] {
        &self.pieces
    }

    /// Returns the eligible ones of the 64 nodes from 64 · `word` on with at least `free` free
    /// GPUs, a bit each. O(counts of free GPUs).
    pub(crate) fn with_at_least(&self, free: u32, word: usize) -> u64 {
        let some = self.by_free.iter().skip(free as usize).filter_map(|bits| bits.words.get(word));
        some.fold(0, |all, some| all | some)
    }

    /// Whether processors or memory of nodes may keep a shape away that GPUs would not.
    pub(crate) fn bounds(&self, shape: Shape) -> bool {
        !self.host.is_empty() && !shape.host.is_none()
    }

    /// How many GPUs of a node a shape of whole GPUs could use: those that no job touches, as far as there are processors and memory for them.
    pub(crate) fn room(&self, node: u32, shape: Shape) -> u32 {
        let free = self.free(node);
        if self.bounds(shape) { free.min(self.host(node).gpus(shape.host)) } else { free }
    }

    /// Whether a node has processors and memory for so many GPUs of a shape, or for its part of one.
    pub(crate) fn holds(&self, node: u32, shape: Shape, gpus: u32) -> bool {
        !self.bounds(shape) || self.host(node).holds(shape.host_of(gpus))
    }

    /// The shared GPUs of a node, by number.
    pub(crate) fn shared(&self, node: u32) -> &[Shared] {
        self.shared.get(node as usize).map_or(&[], Vec::as_slice)
    }

    /// Returns the free amount of a node, in thousandths of a GPU.
    pub(crate) fn amount(&self, node: u32) -> u64 {
        let rests: u64 = self.shared(node).iter().map(|gpu| u64::from(gpu.left)).sum();
        u64::from(self.free(node)) * u64::from(WHOLE) + rests
    }

    /// Whether no job touches a node.
    pub(crate) fn is_empty(&self, node: u32) -> bool {
        self.free_bits(node) == full(self.size(node))
    }

    /// Busy GPUs of a node, shared ones included.
    pub(crate) fn busy(&self, node: u32) -> u32 {
        self.size(node) - self.free(node)
    }

    /// GPUs no job touches on eligible nodes.
    pub(crate) fn eligible_free(&self) -> u64 {
        self.eligible_free
    }

    /// The most free GPUs a node can have.
    pub(crate) fn most(&self) -> u32 {
        self.by_free.len().saturating_sub(1) as u32
    }

    /// Eligible nodes with exactly `free` free GPUs, lowest first.
    pub(crate) fn with_free(&self, free: u32) -> impl Iterator<Item = u32> + '_ {
        self.by_free.get(free as usize).into_iter().flat_map(Bits::iter)
    }

    /// How many eligible nodes have exactly `free` free GPUs.
    pub(crate) fn count_with_free(&self, free: u32) -> usize {
        self.by_free.get(free as usize).map_or(0, |bits| bits.len)
    }

    /// The type of a node.
    pub(crate) fn gpu_type(&self, node: u32) -> Option<u16> {
        self.gpu_type.get(node as usize).copied().flatten()
    }

    /// Eligible nodes, lowest first.
    pub(crate) fn eligible(&self) -> impl Iterator<Item = u32> + '_ {
        (0u32..).zip(&self.eligible).filter(|(_, eligible)| **eligible).map(|(node, _)| node)
    }

    /// Lets a node take jobs, or not.
    pub(crate) fn set_eligible(&mut self, node: u32, eligible: bool) {
        let at = node as usize;
        let free = self.free(node);
        let Some(known) = self.eligible.get_mut(at) else { return };
        if *known == eligible {
            return;
        }
        *known = eligible;
        if let Some(fullness) = &mut self.fullness {
            let (before, after) = if eligible { (0, free) } else { (free, 0) };
            fullness.change(node, before, after);
        }
        let Some(bits) = self.by_free.get_mut(free as usize) else { return };
        if eligible {
            bits.insert(at);
            self.eligible_free += u64::from(free);
        } else {
            bits.remove(at);
            self.eligible_free -= u64::from(free);
        }
    }

    fn set_free(&mut self, node: u32, bits: u64) {
        let at = node as usize;
        let before = self.free(node);
        let after = bits.count_ones();
        self.free[at] = bits;
        if self.eligible[at] && before != after {
            self.by_free[before as usize].remove(at);
            self.by_free[after as usize].insert(at);
            self.eligible_free = self.eligible_free + u64::from(after) - u64::from(before);
            if let Some(fullness) = &mut self.fullness {
                fullness.change(node, before, after);
            }
        }
    }

    /// Takes the GPUs of `piece`.
    ///
    /// # Errors
    /// If the node may not take a job, or what is asked for is not free; nothing is taken then.
    pub(crate) fn take(&mut self, piece: &Piece) -> Result<()> {
        if !self.is_eligible(self.local(piece.node)) {
            return Err(Error::Action(format!("node {} takes no job now", piece.node)));
        }
        self.retake(piece)
    }

    /// Takes the GPUs of `piece` even if its node takes nothing new, as for a job that was there before.
    ///
    /// # Errors
    /// If what is asked for is not free; nothing is taken then.
    pub(crate) fn retake(&mut self, piece: &Piece) -> Result<()> {
        let node = self.local(piece.node);
        let refuse = || Err(Error::Action(format!("GPUs {:#x} of node {} are not free", piece.gpus, piece.node)));
        if node >= self.len() || piece.gpus == 0 {
            return refuse();
        }
        if !self.host.is_empty() && !self.host(node).holds(piece.host) {
            return Err(Error::Action(format!("node {} has no processors or memory for that", piece.node)));
        }
        let free = self.free_bits(node);
        if piece.milli == 0 {
            if free & piece.gpus != piece.gpus {
                return refuse();
            }
            self.set_free(node, free & !piece.gpus);
            self.set_host(node, |left| left.less(piece.host));
            self.pieces[node as usize] += 1;
            return Ok(());
        }
        let gpu = piece.gpus.trailing_zeros() as u8;
        if piece.gpus.count_ones() != 1 || piece.milli >= WHOLE {
            return refuse();
        }
        let shared = &mut self.shared[node as usize];
        match shared.binary_search_by_key(&gpu, |known| known.gpu) {
            Ok(at) if shared[at].left >= piece.milli => shared[at].left -= piece.milli,
            Err(at) if free & piece.gpus != 0 => {
                shared.insert(at, Shared { gpu, left: WHOLE - piece.milli });
                self.set_free(node, free & !piece.gpus);
            }
            _ => return refuse(),
        }
        self.set_host(node, |left| left.less(piece.host));
        self.pieces[node as usize] += 1;
        Ok(())
    }

    fn set_host(&mut self, node: u32, how: impl FnOnce(HostRoom) -> HostRoom) {
        if let Some(left) = self.host.get_mut(node as usize) {
            *left = how(*left);
        }
    }

    /// Gives back the GPUs of `piece`, which were taken.
    pub(crate) fn give(&mut self, piece: &Piece) {
        let node = self.local(piece.node);
        if node >= self.len() {
            return;
        }
        self.set_host(node, |left| left.and(piece.host));
        self.pieces[node as usize] = self.pieces[node as usize].saturating_sub(1);
        let free = self.free_bits(node);
        if piece.milli == 0 {
            self.set_free(node, free | piece.gpus);
            return;
        }
        let gpu = piece.gpus.trailing_zeros() as u8;
        let shared = &mut self.shared[node as usize];
        if let Ok(at) = shared.binary_search_by_key(&gpu, |known| known.gpu) {
            shared[at].left += piece.milli;
            if shared[at].left >= WHOLE {
                shared.remove(at);
                self.set_free(node, free | piece.gpus);
            }
        }
    }

    /// Keeps of every GPU, and of processors and memory, only what is free here and in `other`, a state of the same nodes.
    pub(crate) fn intersect(&mut self, other: &Self) {
        for (mine, theirs) in self.host.iter_mut().zip(&other.host) {
            *mine = mine.in_both(*theirs);
        }
        for node in 0..self.len() {
            let at = node as usize;
            let (mine, theirs) = (self.free[at], other.free[at]);
            if mine == theirs && self.shared[at].is_empty() && other.shared[at].is_empty() {
                continue;
            }
            let left = |nodes: &Self, gpu: u8| {
                if nodes.free[at] >> gpu & 1 == 1 {
                    return WHOLE;
                }
                nodes.shared[at].iter().find(|known| known.gpu == gpu).map_or(0, |known| known.left)
            };
            let mut shared = Vec::new();
            for gpu in 0..self.size[at] {
                let both = left(self, gpu).min(left(other, gpu));
                if both > 0 && both < WHOLE {
                    shared.push(Shared { gpu, left: both });
                }
            }
            self.shared[at] = shared;
            self.set_free(node, mine & theirs);
        }
    }
}

/// All GPUs of a node of `size`.
fn full(size: u32) -> u64 {
    if size >= 64 { u64::MAX } else { (1 << size) - 1 }
}

/// `count` bits from `position` on.
pub(crate) fn block(position: u32, count: u32) -> u64 {
    full(count) << position
}

/// The lowest `count` bits of `bits`.
pub(crate) fn lowest(bits: u64, count: u32) -> u64 {
    if bits.count_ones() <= count {
        return bits;
    }
    let mut rest = bits;
    for _ in 0..count {
        rest &= rest - 1;
    }
    bits & !rest
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{Nodes, lowest};
    use crate::{Group, HostNeed, HostRoom, Piece, Pool, Shape};

    fn pool(nodes: u32) -> Nodes {
        Nodes::new(&Pool { groups: vec![Group::fixed(nodes, 8)] }, 10)
    }

    #[test]
    fn nodes_are_found_by_what_they_have_free() {
        let mut nodes = pool(5000);
        nodes.take(&Piece::whole(10, 0b111)).unwrap();
        nodes.take(&Piece::whole(10 + 4999, 0b101)).unwrap();
        assert_eq!(nodes.with_free(5).collect::<Vec<_>>(), [0]);
        assert_eq!(nodes.with_free(6).collect::<Vec<_>>(), [4999]);
        assert_eq!(nodes.with_free(8).next(), Some(1));
        assert_eq!(nodes.eligible_free(), 5000 * 8 - 5);
        nodes.set_eligible(0, false);
        assert_eq!(nodes.with_free(5).next(), None);
        assert_eq!(nodes.eligible_free(), 4999 * 8 - 2);
        nodes.give(&Piece::whole(10, 0b111));
        assert!(nodes.is_empty(0));
    }

    #[test]
    fn what_is_taken_cannot_be_taken_again() {
        let mut nodes = pool(1);
        let piece = Piece::whole(10, 0b11);
        nodes.take(&piece).unwrap();
        assert!(nodes.take(&piece).is_err());
        assert!(nodes.take(&Piece::whole(11, 1)).is_err());
        assert!(nodes.take(&Piece { milli: 300, ..Piece::whole(10, 1) }).is_err());
        nodes.set_eligible(0, false);
        assert!(nodes.take(&Piece::whole(10, 0b100)).is_err());
    }

    #[test]
    fn parts_share_a_gpu_until_it_is_full() {
        let mut nodes = pool(1);
        let part = |milli| Piece { milli, ..Piece::whole(10, 0b10) };
        nodes.take(&part(600)).unwrap();
        assert_eq!((nodes.free(0), nodes.amount(0)), (7, 7400));
        assert!(nodes.take(&part(500)).is_err());
        nodes.take(&part(400)).unwrap();
        nodes.give(&part(600));
        assert_eq!(nodes.amount(0), 7600);
        nodes.give(&part(400));
        assert!(nodes.is_empty(0));
    }

    #[test]
    fn processors_and_memory_go_with_gpus() {
        let host = HostRoom { cores_milli: Some(64_000), memory_mib: None };
        let mut nodes = Nodes::new(&Pool { groups: vec![Group { host, ..Group::fixed(1, 8) }] }, 10);
        let shape =
            |cores: u32| Shape { host: HostNeed { cores_milli: cores * 1000, memory_mib: 1 << 30 }, ..Shape::whole(1) };
        let two = Piece { host: HostNeed { cores_milli: 48_000, memory_mib: 5 }, ..Piece::whole(10, 0b11) };
        let before = nodes.clone();
        nodes.take(&two).unwrap();
        // 6 GPUs are free and 16 cores left; memory has no bound.
        assert_eq!([1, 5, 20].map(|cores| nodes.room(0, shape(cores))), [6, 3, 0]);
        assert_eq!(nodes.room(0, Shape::whole(1)), 6);
        let three = Piece { gpus: 0b1100, ..two };
        assert!(nodes.take(&three).is_err());
        assert_eq!(nodes.free(0), 6);
        // What is free throughout is the least that is left.
        let mut throughout = before;
        throughout.intersect(&nodes);
        assert_eq!(throughout.host(0).cores_milli, Some(16_000));
        nodes.give(&two);
        assert_eq!((nodes.host(0), nodes.free(0)), (host, 8));
    }

    #[test]
    fn what_is_free_throughout_is_free_in_both_states() {
        let mut now = pool(1);
        let mut later = pool(1);
        now.take(&Piece::whole(10, 0b1)).unwrap();
        later.take(&Piece { milli: 250, ..Piece::whole(10, 0b10) }).unwrap();
        now.intersect(&later);
        assert_eq!((now.free_bits(0), now.amount(0)), (0b1111_1100, 6750));
    }

    #[test]
    fn the_lowest_bits_are_taken_first() {
        assert_eq!(lowest(0b1101_0100, 2), 0b1_0100);
        assert_eq!(lowest(0b1, 3), 0b1);
        assert_eq!(lowest(u64::MAX, 64), u64::MAX);
    }
}
