//! The nodes of all pools while a finished schedule is walked through: what is free, and whether a gang would fit.
//!
//! Kept apart from the engine's own bookkeeping: this one is told what happened and decides nothing, so it takes every
//! schedule as it is. Which nodes are in service follows the rules of [`crate::sim`] (sizes, failures). *Free* is what no
//! job holds on nodes that take jobs; a GPU in parts counts with what is left of it.
//!
//! A change of one node costs O(1), a question O(GPUs a node).
//!
//! Worked number: nodes with 3, 8 and 5 free GPUs, all of 8, have 16 free. A gang of 12 is a piece of 8 and one of 4 and
//! fits; one of 16 is two pieces of 8 and does not.

use std::collections::BTreeMap;

use crate::sim::cluster::{Cluster, MAX_GPUS_PER_NODE};
use crate::sim::schedule::Piece;
use crate::sim::workload::Shape;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    In,
    Draining,
    Away,
}

#[derive(Debug, Clone)]
struct Node {
    pool: usize,
    /// The free counts it belongs to beside those of all types.
    slot: Option<usize>,
    size: u32,
    /// GPUs one job holds.
    whole: u32,
    /// GPUs in parts: (number, thousandths held).
    shared: Vec<(u8, u64)>,
    place: Place,
    failures: u32,
}

impl Node {
    fn held(&self) -> u64 {
        u64::from(self.whole) * 1000 + self.shared.iter().map(|(_, held)| *held).sum::<u64>()
    }

    fn is_eligible(&self) -> bool {
        self.place == Place::In && self.failures == 0
    }

    fn free_gpus(&self) -> u32 {
        self.size.saturating_sub(self.whole).saturating_sub(self.shared.len() as u32)
    }
}

/// What is free on nodes of one type (or of any) of a pool.
#[derive(Debug, Clone)]
struct Free {
    /// Most GPUs on any node, in service or not.
    largest: u32,
    /// Nodes that take jobs, by the number of GPUs no job touches.
    by_free: [u32; MAX_GPUS_PER_NODE as usize + 1],
    /// Thousandths.
    milli: u64,
    /// What is left of GPUs in parts: thousandths, and how many such GPUs.
    rests: BTreeMap<u64, u32>,
}

impl Free {
    fn new() -> Self {
        Self { largest: 0, by_free: [0; MAX_GPUS_PER_NODE as usize + 1], milli: 0, rests: BTreeMap::new() }
    }

    /// Nodes with at least so many GPUs free.
    fn nodes_with(&self, gpus: u32) -> u32 {
        self.by_free.get(gpus as usize..).map_or(0, |counts| counts.iter().sum())
    }

    /// How many gangs of `gpus` whole GPUs fit at once, each on as few nodes as it needs. Of the last pieces of gangs of several nodes each gets a node of
    /// its own.
    fn room(&self, gpus: u32) -> u64 {
        let with = |least: u32| u64::from(self.nodes_with(least));
        if gpus <= self.largest {
            let counts = (0u32..).zip(&self.by_free).skip(gpus as usize);
            return counts.map(|(free, nodes)| u64::from(free / gpus.max(1)) * u64::from(*nodes)).sum();
        }
        if self.largest == 0 {
            return 0;
        }
        let (full, rest) = (u64::from(gpus / self.largest), gpus % self.largest);
        let of_full = with(self.largest) / full;
        if rest == 0 { of_full } else { of_full.min(with(rest) / (full + 1)) }
    }

    /// Whether the consolidated rule finds nodes.
    fn fits(&self, shape: Shape) -> bool {
        if shape.milli > 0 {
            return self.nodes_with(1) > 0
                || self.rests.last_key_value().is_some_and(|(most, _)| *most >= u64::from(shape.milli));
        }
        let piece = match (shape.nodes, self.largest) {
            (0, largest) if shape.gpus > largest => largest,
            (0, _) => shape.gpus,
            (nodes, _) => shape.gpus.div_ceil(u32::from(nodes)),
        };
        if piece == 0 {
            return false;
        }
        let (full, rest) = (shape.gpus / piece, shape.gpus % piece);
        // A node that takes a full piece could take the rest as well, so the rest needs one node more.
        self.nodes_with(piece) >= full && (rest == 0 || self.nodes_with(rest) > full)
    }
}

/// A group of equal nodes.
#[derive(Debug, Clone, Copy)]
struct Members {
    first: usize,
    most: usize,
}

/// The nodes of all pools at one moment.
#[derive(Debug, Clone)]
pub(super) struct State {
    nodes: Vec<Node>,
    groups: Vec<Members>,
    /// By pool, then slot: 0 is any type, 1 + t is type t.
    free: Vec<Vec<Free>>,
    /// Free in the whole cluster by slot, thousandths.
    cluster_free: Vec<u64>,
    /// Free on nodes that hold a job, thousandths.
    pub(super) partly_free: u64,
    /// Held by jobs, thousandths.
    pub(super) held: u64,
    /// In service, thousandths: nodes that take jobs, and what jobs hold on those that do not.
    pub(super) in_service: u64,
}

impl State {
    /// All nodes there ever are, empty and in service. Groups are numbered over all pools.
    pub(super) fn new(cluster: &Cluster) -> Self {
        let slots = cluster.gpu_types.len() + 1;
        let mut state = Self {
            nodes: Vec::new(),
            groups: Vec::new(),
            free: vec![vec![Free::new(); slots]; cluster.pools.len()],
            cluster_free: vec![0; slots],
            partly_free: 0,
            held: 0,
            in_service: 0,
        };
        for (pool, spec) in cluster.pools.iter().enumerate() {
            for group in &spec.groups {
                let slot = group.gpu_type.map(|known| usize::from(known) + 1);
                let most = group.most_nodes() as usize;
                state.groups.push(Members { first: state.nodes.len(), most });
                for slot in [Some(0), slot].into_iter().flatten() {
                    if let Some(free) = state.free.get_mut(pool).and_then(|slots| slots.get_mut(slot)) {
                        free.largest = free.largest.max(group.gpus_per_node);
                    }
                }
                for _ in 0..most {
                    state.nodes.push(Node {
                        pool,
                        slot,
                        size: group.gpus_per_node,
                        whole: 0,
                        shared: Vec::new(),
                        place: Place::In,
                        failures: 0,
                    });
                    state.count(state.nodes.len() - 1, true);
                }
            }
        }
        state
    }

    /// Free in the whole cluster on nodes a shape may use, thousandths.
    pub(super) fn cluster_free(&self, shape: Shape) -> u64 {
        self.cluster_free.get(slot_of(shape)).copied().unwrap_or(0)
    }

    /// Free in a pool on nodes a shape may use, thousandths.
    pub(super) fn pool_free(&self, pool: usize, shape: Shape) -> u64 {
        self.of(pool, shape).map_or(0, |free| free.milli)
    }

    /// Free on all nodes of a pool, thousandths.
    pub(super) fn all_free(&self, pool: usize) -> u64 {
        self.pool_free(pool, Shape::default())
    }

    /// Free on all nodes, thousandths.
    pub(super) fn free(&self) -> u64 {
        self.cluster_free(Shape::default())
    }

    /// The most GPUs on a node of a pool that a shape may use, in service or not.
    pub(super) fn largest(&self, pool: usize, shape: Shape) -> u32 {
        self.of(pool, shape).map_or(0, |free| free.largest)
    }

    /// Nodes of a pool that take jobs and that a shape may use. O(nodes).
    pub(super) fn nodes_of(&self, pool: usize, shape: Shape) -> impl Iterator<Item = usize> + '_ {
        let wanted = shape.gpu_type.map(|_| slot_of(shape));
        let usable =
            move |node: &Node| node.pool == pool && node.is_eligible() && (wanted.is_none() || node.slot == wanted);
        self.nodes.iter().enumerate().filter(move |(_, node)| usable(node)).map(|(at, _)| at)
    }

    /// GPUs of a node that no job touches.
    pub(super) fn free_gpus(&self, node: usize) -> u32 {
        self.nodes.get(node).map_or(0, Node::free_gpus)
    }

    /// Whether the consolidated rule would find nodes in a pool now.
    pub(super) fn fits(&self, pool: usize, shape: Shape) -> bool {
        self.of(pool, shape).is_some_and(|free| free.fits(shape))
    }

    /// How many gangs of so many GPUs of any type would fit in a pool at once.
    pub(super) fn room(&self, pool: usize, gpus: u32) -> u64 {
        self.of(pool, Shape::default()).map_or(0, |free| free.room(gpus))
    }

    /// A job takes a piece.
    pub(super) fn take(&mut self, piece: &Piece) {
        self.change(piece.node as usize, |node| {
            if piece.milli == 0 {
                node.whole += piece.gpus.count_ones();
                return;
            }
            let gpu = piece.gpus.trailing_zeros() as u8;
            match node.shared.iter_mut().find(|(number, _)| *number == gpu) {
                Some((_, held)) => *held += u64::from(piece.milli),
                None => node.shared.push((gpu, u64::from(piece.milli))),
            }
        });
    }

    /// A job gives a piece back.
    pub(super) fn give(&mut self, piece: &Piece) {
        self.change(piece.node as usize, |node| {
            if piece.milli == 0 {
                node.whole = node.whole.saturating_sub(piece.gpus.count_ones());
            } else {
                let gpu = piece.gpus.trailing_zeros() as u8;
                if let Some((_, held)) = node.shared.iter_mut().find(|(number, _)| *number == gpu) {
                    *held = held.saturating_sub(u64::from(piece.milli));
                }
                node.shared.retain(|(_, held)| *held > 0);
            }
            if node.place == Place::Draining && node.held() == 0 {
                node.place = Place::Away;
            }
        });
    }

    /// A node fails.
    pub(super) fn fail(&mut self, node: u32) {
        self.change(node as usize, |node| node.failures += 1);
    }

    /// A node is back.
    pub(super) fn repair(&mut self, node: u32) {
        self.change(node as usize, |node| node.failures = node.failures.saturating_sub(1));
    }

    /// The pool of a node.
    pub(super) fn pool_of(&self, node: u32) -> Option<usize> {
        self.nodes.get(node as usize).map(|node| node.pool)
    }

    /// Whether a node takes jobs.
    #[cfg(test)]
    pub(super) fn takes_jobs(&self, node: u32) -> bool {
        self.nodes.get(node as usize).is_some_and(Node::is_eligible)
    }

    /// Brings a group to a size.
    pub(super) fn resize(&mut self, group: usize, target: u32) {
        let Some(Members { first, most }) = self.groups.get(group).copied() else { return };
        let at = |state: &Self, place: Place| -> Vec<usize> {
            (first..first + most)
                .filter(|node| state.nodes.get(*node).is_some_and(|node| node.place == place))
                .collect()
        };
        let mut there = at(self, Place::In);
        let target = target as usize;
        if there.len() > target {
            let leave = there.len() - target;
            there.sort_by_key(|ix| {
                let busy = self.nodes.get(*ix).map_or(0, |node| node.size - node.free_gpus().min(node.size));
                (busy, std::cmp::Reverse(*ix))
            });
            for ix in there.into_iter().take(leave) {
                self.change(ix, |node| node.place = if node.held() == 0 { Place::Away } else { Place::Draining });
            }
        } else {
            let come = target - there.len();
            let back = at(self, Place::Draining).into_iter().chain(at(self, Place::Away));
            for ix in back.take(come) {
                self.change(ix, |node| node.place = Place::In);
            }
        }
    }

    fn of(&self, pool: usize, shape: Shape) -> Option<&Free> {
        self.free.get(pool)?.get(slot_of(shape))
    }

    fn change(&mut self, ix: usize, how: impl FnOnce(&mut Node)) {
        if ix >= self.nodes.len() {
            return;
        }
        self.count(ix, false);
        if let Some(node) = self.nodes.get_mut(ix) {
            how(node);
        }
        self.count(ix, true);
    }

    /// Adds a node to all sums, or takes it out.
    fn count(&mut self, ix: usize, add: bool) {
        let Some(node) = self.nodes.get(ix) else { return };
        let apply = |total: &mut u64, amount: u64| {
            *total = if add { *total + amount } else { total.saturating_sub(amount) };
        };
        let held = node.held();
        let whole = u64::from(node.size) * 1000;
        apply(&mut self.held, held);
        apply(&mut self.in_service, if node.is_eligible() { whole } else { held });
        if !node.is_eligible() {
            return;
        }
        let free = whole.saturating_sub(held);
        if held > 0 {
            apply(&mut self.partly_free, free);
        }
        for slot in [Some(0), node.slot].into_iter().flatten() {
            if let Some(total) = self.cluster_free.get_mut(slot) {
                apply(total, free);
            }
            let Some(of) = self.free.get_mut(node.pool).and_then(|slots| slots.get_mut(slot)) else { continue };
            apply(&mut of.milli, free);
            if let Some(nodes) = of.by_free.get_mut(node.free_gpus() as usize) {
                *nodes = if add { *nodes + 1 } else { nodes.saturating_sub(1) };
            }
            for (_, held) in &node.shared {
                let left = 1000u64.saturating_sub(*held);
                let gpus = of.rests.entry(left).or_insert(0);
                *gpus = if add { *gpus + 1 } else { gpus.saturating_sub(1) };
                if *gpus == 0 {
                    of.rests.remove(&left);
                }
            }
        }
    }
}

fn slot_of(shape: Shape) -> usize {
    shape.gpu_type.map_or(0, |known| usize::from(known) + 1)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::sim::cluster::{Group, Pool, Vc};

    fn gpus(node: u32, mask: u64) -> Piece {
        Piece { node, milli: 0, gpus: mask }
    }

    #[test]
    fn gangs_fit_by_pieces() {
        let mut state = State::new(&Cluster::of_vcs(&[("all", 3, 8)]));
        state.take(&gpus(0, 0b1_1111));
        state.take(&gpus(2, 0b111));
        // Free 3, 8 and 5: 16 in all.
        assert_eq!(state.free(), 16_000);
        assert!(state.fits(0, Shape::whole(8)));
        // 8 on the second, 4 of the third's 5.
        assert!(state.fits(0, Shape::whole(12)));
        // 8 and 6: no second node has 6.
        assert!(!state.fits(0, Shape::whole(14)));
        assert!(!state.fits(0, Shape::whole(16)));
        // 9 on 3 nodes is 3 + 3 + 3; 10 on 3 is 4 + 4 + 2; 15 on 3 is 5 + 5 + 5, and one node has 3.
        assert!(state.fits(0, Shape { nodes: 3, ..Shape::whole(9) }));
        assert!(state.fits(0, Shape { nodes: 3, ..Shape::whole(10) }));
        assert!(!state.fits(0, Shape { nodes: 3, ..Shape::whole(15) }));
        // One of 8; of 3 GPUs 1 + 2 + 1; of 12 the full piece takes the one node with 8 free, of 16 it takes two.
        assert_eq!([8, 3, 12, 16].map(|gpus| state.room(0, gpus)), [1, 4, 1, 0]);
        // Two nodes are partly used, with 3 + 5 free.
        assert_eq!(state.partly_free, 8_000);
        state.give(&gpus(0, 0b1_1111));
        assert_eq!((state.partly_free, state.free(), state.held), (5_000, 21_000, 3_000));
    }

    #[test]
    fn parts_share_gpus() {
        let mut state = State::new(&Cluster::of_vcs(&[("all", 1, 2)]));
        state.take(&Piece { node: 0, milli: 600, gpus: 0b01 });
        state.take(&Piece { node: 0, milli: 700, gpus: 0b10 });
        // 0.4 and 0.3 are left: 0.7 in all, but no GPU has half of itself left.
        assert_eq!(state.free(), 700);
        assert!(state.fits(0, Shape::part(400)) && !state.fits(0, Shape::part(500)));
        state.give(&Piece { node: 0, milli: 700, gpus: 0b10 });
        assert!(state.fits(0, Shape::part(999)) && state.fits(0, Shape::whole(1)) && !state.fits(0, Shape::whole(2)));
    }

    #[test]
    fn nodes_drain_fail_and_come_back() {
        let mut state = State::new(&Cluster::of_vcs(&[("all", 4, 8)]));
        state.take(&gpus(0, 0b111));
        state.take(&gpus(3, 0xFF));
        // To two nodes: 2 and 1 leave (not busy, highest first).
        state.resize(0, 2);
        assert_eq!((state.in_service, state.free()), (16_000, 5_000));
        // To one: node 0 has fewer busy, drains; its 3 GPUs stay in service until the job ends.
        state.resize(0, 1);
        assert_eq!((state.in_service, state.free()), (11_000, 0));
        state.give(&gpus(0, 0b111));
        assert_eq!(state.in_service, 8_000);
        // Back to two: nothing drains, so the lowest of those away.
        state.resize(0, 2);
        assert_eq!((state.in_service, state.free()), (16_000, 8_000));
        state.fail(0);
        assert_eq!((state.in_service, state.free()), (8_000, 0));
        state.repair(0);
        assert_eq!(state.free(), 8_000);
    }

    #[test]
    fn of_equally_busy_nodes_the_highest_leaves() {
        let mut state = State::new(&Cluster::of_vcs(&[("all", 3, 8)]));
        state.resize(0, 2);
        // Node 2 is away, so a job put there adds to what is in service; nodes 0 and 1 take jobs.
        state.take(&gpus(2, 0xFF));
        assert_eq!((state.in_service, state.free()), (24_000, 16_000));
        state.take(&gpus(0, 0xFF));
        assert_eq!((state.in_service, state.free()), (24_000, 8_000));
    }

    #[test]
    fn types_are_counted_apart() {
        let mut cluster = Cluster { gpu_types: vec!["a".into(), "b".into()], ..Cluster::default() };
        let group = |nodes, of| Group { gpu_type: Some(of), ..Group::fixed(nodes, 4) };
        cluster.pools.push(Pool { groups: vec![group(1, 0), group(2, 1)] });
        cluster.vcs.push(Vc::new("all", 0));
        let state = State::new(&cluster);
        let of = |gpus, kind| Shape { gpu_type: Some(kind), ..Shape::whole(gpus) };
        assert_eq!((state.free(), state.cluster_free(of(1, 0)), state.pool_free(0, of(1, 1))), (12_000, 4_000, 8_000));
        assert!(state.fits(0, of(8, 1)) && !state.fits(0, of(8, 0)));
    }
}
