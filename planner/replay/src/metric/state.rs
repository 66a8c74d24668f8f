//! The nodes of all pools while a finished schedule is walked through: what is free, and whether a gang would fit.
//!
//! Kept apart from the engine's own bookkeeping: this one is told what happened and decides nothing, so it takes every
//! schedule as it is. Which nodes are in service follows the rules of [`tracecast_sim`] (sizes, failures). *Free* is what no
//! job holds on nodes that take jobs; a GPU in parts counts with what is left of it.
//!
//! Where nodes have processors and memory and jobs ask for these, what is left of them is kept as well. A change of one node costs O(1) (there: O(kinds of jobs that ask for least)), a question O(GPUs a node), and one that processors
//! and memory matter to O(nodes of the pool).
//!
//! Worked number: nodes with 3, 8 and 5 free GPUs, all of 8, have 16 free. A gang of 12 is a piece of 8 and one of 4 and
//! fits; one of 16 is two pieces of 8 and does not.

use std::collections::BTreeMap;
use std::ops::Range;

use super::host::Least;
use tracecast_sim::cluster::{Cluster, MAX_GPUS_PER_NODE};
use tracecast_sim::host::HostRoom;
use tracecast_sim::schedule::Piece;
use tracecast_sim::workload::Shape;

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
    /// Processors and memory left.
    host: HostRoom,
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

    /// GPUs that a shape of whole GPUs could use.
    fn usable(&self, shape: Shape, looked: Looked) -> u32 {
        self.free_gpus().min(self.left(looked).gpus(shape.host))
    }

    /// Processors and memory left, as far as they are looked at.
    fn left(&self, looked: Looked) -> HostRoom {
        match looked {
            Looked::Gpus => HostRoom::default(),
            Looked::Processors => self.host.processors_alone(),
            Looked::All => self.host,
        }
    }
}

/// Free GPUs on nodes of one type (or of any) of a pool.
#[derive(Debug, Clone)]
struct Free {
    /// Most GPUs on any node, in service or not.
    largest: u32,
    /// Nodes that take jobs, by the number of GPUs no job touches.
    by_free: [u32; MAX_GPUS_PER_NODE as usize + 1],
    /// Thousandths.
    milli: u64,
    /// Free parts of shared GPUs: thousandths, and how many such GPUs.
    rests: BTreeMap<u64, u32>,
}

impl Free {
    fn new() -> Self {
        Self { largest: 0, by_free: [0; MAX_GPUS_PER_NODE as usize + 1], milli: 0, rests: BTreeMap::new() }
    }

    /// Nodes with at least so many GPUs free.
    fn nodes_with(&self, gpus: u32) -> u32 {
        self.by_free.get(gpus as usize..=self.largest as usize).map_or(0, |counts| counts.iter().sum())
    }

    /// How many gangs of `gpus` whole GPUs fit at once, each on as few nodes as it needs. Of the last pieces of gangs of several nodes each gets a node of
    /// its own.
    fn room(&self, gpus: u32) -> u64 {
        let with = |least: u32| u64::from(self.nodes_with(least));
        if gpus <= self.largest {
            let counts = (0u32..=self.largest).zip(&self.by_free).skip(gpus as usize);
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
        let Some((piece, full, rest)) = shape.cut(self.largest) else { return false };
        // A node that takes a full piece could take the rest as well, so the rest needs one node more.
        self.nodes_with(piece) >= full && (rest == 0 || self.nodes_with(rest) > full)
    }
}

/// Resources of nodes that are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Looked {
    /// GPUs alone.
    Gpus,
    /// Processors as well.
    Processors,
    /// Processors and memory as well.
    All,
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
    /// Nodes of each pool.
    pools: Vec<Range<usize>>,
    /// Least needs of processors and memory, by pool; none where these do not matter.
    least: Vec<Vec<Least>>,
    /// Free on nodes whose processors or memory hold none of these, thousandths.
    pub(super) hostless: u64,
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
            pools: Vec::new(),
            least: vec![Vec::new(); cluster.pools.len()],
            hostless: 0,
            free: vec![vec![Free::new(); slots]; cluster.pools.len()],
            cluster_free: vec![0; slots],
            partly_free: 0,
            held: 0,
            in_service: 0,
        };
        for (pool, spec) in cluster.pools.iter().enumerate() {
            let first = state.nodes.len();
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
                        host: group.host,
                        place: Place::In,
                        failures: 0,
                    });
                    state.count(state.nodes.len() - 1, true);
                }
            }
            state.pools.push(first..state.nodes.len());
        }
        state
    }

    /// Sets the kinds of jobs, by pool, that are to find processors and memory; for a state in
    /// which all nodes are in service.
    pub(super) fn for_least(mut self, request: Vec<Vec<Least>>) -> Self {
        self.least = request.into_iter().map(least).collect();
        self.hostless = self.nodes.iter().map(|node| self.hostless_of(node)).sum();
        self
    }

    /// Free on a node whose processors or memory hold none of those that ask for least and may use it, thousandths.
    fn hostless_of(&self, node: &Node) -> u64 {
        let of_type = |of: &&Least| of.0.is_none_or(|wanted| node.slot == Some(usize::from(wanted) + 1));
        let mut usable = self.least.get(node.pool).into_iter().flatten().filter(of_type).peekable();
        if usable.peek().is_none() || usable.any(|(_, need)| node.host.holds(*need)) {
            return 0;
        }
        (u64::from(node.size) * 1000).saturating_sub(node.held())
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
        let usable = move |node: &Node| node.is_eligible() && (wanted.is_none() || node.slot == wanted);
        let own = self.pools.get(pool).cloned().unwrap_or_default();
        own.filter(move |at| self.nodes.get(*at).is_some_and(usable))
    }

    /// GPUs of a node that a shape of whole GPUs could use.
    pub(super) fn usable_gpus(&self, node: usize, shape: Shape, looked: Looked) -> u32 {
        self.nodes.get(node).map_or(0, |node| node.usable(shape, looked))
    }

    /// Whether the consolidated rule would find nodes in a pool now, processors and memory included. O(nodes of the pool).
    pub(super) fn fits_beside(&self, pool: usize, shape: Shape, looked: Looked) -> bool {
        if shape.host.is_none() || looked == Looked::Gpus {
            return self.fits(pool, shape);
        }
        let mut nodes = self.nodes_of(pool, shape).filter_map(|at| self.nodes.get(at));
        if shape.milli > 0 {
            let gpu = |node: &Node| {
                let rest = |(_, held): &(u8, u64)| *held + u64::from(shape.milli) <= 1000;
                node.free_gpus() > 0 || node.shared.iter().any(rest)
            };
            return nodes.any(|node| gpu(node) && node.left(looked).holds(shape.host));
        }
        let Some((piece, full, rest)) = shape.cut(self.largest(pool, shape)) else { return false };
        let (mut of_full, mut of_rest) = (0, 0);
        for node in nodes {
            let usable = node.usable(shape, looked);
            of_full += u32::from(usable >= piece);
            of_rest += u32::from(usable >= rest);
            if of_full >= full && (rest == 0 || of_rest > full) {
                return true;
            }
        }
        false
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
            node.host = node.host.less(piece.host);
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
            node.host = node.host.and(piece.host);
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
        let hostless = self.hostless_of(node);
        apply(&mut self.hostless, hostless);
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

/// Removes the kinds that ask for no less than another in both and may go nowhere else. O(kinds²).
fn least(mut request: Vec<Least>) -> Vec<Least> {
    request.sort_unstable();
    request.dedup();
    let dearer = |of: &Least, other: &Least| {
        let more = of.1.cores_milli >= other.1.cores_milli && of.1.memory_mib >= other.1.memory_mib;
        of != other && more && (other.0.is_none() || other.0 == of.0)
    };
    request.iter().filter(|of| !request.iter().any(|other| dearer(of, other))).copied().collect()
}

fn slot_of(shape: Shape) -> usize {
    shape.gpu_type.map_or(0, |known| usize::from(known) + 1)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use tracecast_sim::cluster::{Group, Pool, Vc};
    use tracecast_sim::host::HostNeed;

    fn gpus(node: u32, mask: u64) -> Piece {
        Piece::whole(node, mask)
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
        state.take(&Piece { milli: 600, ..gpus(0, 0b01) });
        state.take(&Piece { milli: 700, ..gpus(0, 0b10) });
        // 0.4 and 0.3 are left: 0.7 in all, but no GPU has half of itself left.
        assert_eq!(state.free(), 700);
        assert!(state.fits(0, Shape::part(400)) && !state.fits(0, Shape::part(500)));
        state.give(&Piece { milli: 700, ..gpus(0, 0b10) });
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
    #[test]
    fn gpus_need_processors_and_memory() {
        let host = HostRoom { cores_milli: Some(64_000), memory_mib: Some(1000) };
        let pool = Pool { groups: vec![Group { host, ..Group::fixed(2, 8) }] };
        let cluster = Cluster { pools: vec![pool], vcs: vec![Vc::new("all", 0)], ..Cluster::default() };
        let need = |cores: u32, memory_mib| HostNeed { cores_milli: cores * 1000, memory_mib };
        let mut state =
            State::new(&cluster).for_least(vec![vec![(None, need(4, 50)), (None, need(8, 50)), (None, need(2, 400))]]);
        // Node 0: 2 GPUs with 31 cores each, so that 2 cores and 6 GPUs are left, node 1: 2 GPUs with 350 MiB each, so that 300 MiB are.
        state.take(&Piece { host: need(62, 100), ..gpus(0, 0b11) });
        assert_eq!(state.hostless, 0);
        state.take(&Piece { host: need(8, 700), ..gpus(1, 0b11) });
        let of = |gpus, cores, memory| Shape { host: need(cores, memory), ..Shape::whole(gpus) };
        let fits = |shape, looked| state.fits_beside(0, shape, looked);
        // 4 GPUs with 4 cores each: node 1 has the cores, and the memory for 50 MiB each, not for 100.
        assert!(fits(of(4, 4, 50), Looked::All));
        assert!(fits(of(4, 4, 100), Looked::Processors) && !fits(of(4, 4, 100), Looked::All));
        assert!(fits(of(6, 10, 0), Looked::Gpus) && !fits(of(6, 10, 0), Looked::Processors));
        // 12 GPUs are 8 and 4, and no node has 8 free; 6 and 6 need both nodes.
        assert!(!fits(of(12, 0, 1), Looked::All) && fits(Shape { nodes: 2, ..of(12, 0, 1) }, Looked::All));
        assert!(!fits(Shape { nodes: 2, ..of(12, 1, 1) }, Looked::All));
        // Of node 0 the 2 cores that are left hold a GPU with 2 cores and 400 MiB. One core would not.
        assert_eq!(state.hostless, 0);
        state.take(&Piece { host: need(1, 0), ..gpus(0, 0b100) });
        assert_eq!(state.hostless, 5000);
        state.give(&Piece { host: need(1, 0), ..gpus(0, 0b100) });
        assert_eq!(state.hostless, 0);
    }
}
