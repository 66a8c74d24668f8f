//! Jobs that want to lie near to each other: Kueue's topology-aware scheduling.
//!
//! # Contract
//!
//! A job of whole GPUs may have a [`TopologyRequest`]; it is then placed as follows, whatever the placement rule. Domains and levels are those of [`crate::topology`]; the lowest level is the node.
//!
//! **Pods.** A job of n GPUs that asks for k nodes is made of pods of g = ⌈n/k⌉ GPUs each, one that asks for none of k = ⌈n/L⌉ such; there are p = ⌈n/g⌉ of them. Pods may share a node. The last one has
//! what is left, but a place for g GPUs is found for it.
//!
//! **Room.** A node that is eligible has room for ⌊room/g⌋ pods (its room for the shape in GPUs: see [the contract](crate)), any other for none; nodes that lie in no domain do not count. A domain has room for as many pods as its nodes together.
//! Where the job has slices of s pods, a domain of their level has room for ⌊pods/s⌋ *slices*, a wider one for as many as the domains in it together, a narrower one for none (it is filled with pods). Without slices, or
//! if p is no multiple of s, a slice is one pod, and its level the node.
//!
//! **Order.** Domains are in order of: room for slices, most first; room for pods, fewest first; the domain's own order. That is by its first node, those within one domain together. For an *unconstrained* job room for slices is fewest first.
//!
//! **Filling** domains that are in order with u slices: the next takes as many as it has room for, and so on. But if it has room for all that are left, these go to the one that is the best fit of it and those after it: the least room that is enough, of equals the
//! first. An unconstrained job takes the next itself. Filling with pods is the same, by room for pods.
//!
//! **Search.** At the level asked for (the node if unconstrained; the widest level if unconstrained with slices; those of one pod on a node count as none):
//!
//! * An unconstrained job takes the first domain in order with room for all its slices. If there is none it fills domains in order.
//! * Any other takes the best fit of all, if one has room for all its slices. If none has: *required* does not fit; *preferred* is searched at the next wider level; at the widest it fills domains in order.
//! * If there is no room for all, the job does not fit.
//!
//! **Descent.** From the level found, level by level: down to the slices' level all domains within those that were filled, together and in order, are filled with the slices. From there on each domain that was filled is looked at by itself: those
//! within it, in order, are filled with its pods. (Their room for slices counts as none, so this is in order of room for pods, fewest first.) What nodes get is the place.
//!
//! A job of a part of one GPU, and one without a request, is placed by the placement rule; so a locality timeout changes nothing for a job with a request.
//!
//! Source: Kueue's concept page *Topology Aware Scheduling*, its enhancement proposal 2724 and what its scheduler does in version 0.15 and later, with the profile it has by default: best fit, and least free capacity if unconstrained.
//! What differs: of equal domains Kueue takes the first by name; the node is a level here even where the `Topology` names none for it; balanced placement, leaders and workers of several pod sets, slices within slices and
//! the replacement of a failed node while the job runs on are not replayed.
//!
//! O(nodes × log nodes). Worked example: the nodes of a rack have room for 3, 3, 2 and 1 pods. Seven pods take 3 + 3, and the last goes where it fits best: 3, 3, 0, 1. Unconstrained they take 1, 2, 3 and 1 of the last.

use std::cmp::Reverse;

use super::piece;
use crate::nodes::Nodes;
use crate::schedule::Piece;
use crate::topology::{Domains, Nearness, TopologyRequest};
use crate::workload::Shape;

/// A job with a request, as it is looked at.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    nearness: Nearness,
    /// Whether the least room comes first.
    least_first: bool,
    pods: u32,
    /// GPUs of a pod.
    each: u32,
    /// Pods of a slice, and the level of slices.
    slice: u32,
    slice_level: usize,
}

impl Wanted {
    fn new(shape: Shape, request: TopologyRequest, largest: u32, lowest: usize) -> Self {
        let (pods, each) = shape.pods(largest);
        let slices = request.slices.filter(|slices| slices.pods > 0 && pods.is_multiple_of(u32::from(slices.pods)));
        Self {
            nearness: request.nearness,
            least_first: request.nearness == Nearness::Unconstrained,
            pods,
            each,
            slice: slices.map_or(1, |slices| u32::from(slices.pods)),
            slice_level: slices.map_or(lowest, |slices| usize::from(slices.level)),
        }
    }

    fn slices(&self) -> u32 {
        self.pods / self.slice
    }

    /// The level at which the search begins.
    fn level(&self, lowest: usize) -> usize {
        match self.nearness {
            Nearness::Required(level) | Nearness::Preferred(level) => usize::from(level),
            Nearness::Unconstrained if self.slice_level < lowest || self.slice > 1 => 0,
            Nearness::Unconstrained => lowest,
        }
    }
}

/// Room in a domain.
#[derive(Debug, Clone, Copy, Default)]
struct Room {
    pods: u32,
    slices: u32,
}

/// Pods that a domain is filled with.
#[derive(Debug, Clone, Copy)]
struct Filled {
    domain: u32,
    pods: u32,
}

/// The domains of a pool with their room for a job.
struct Survey<'n> {
    domains: &'n Domains,
    wanted: Wanted,
    /// By level, then domain.
    room: Vec<Vec<Room>>,
}

impl<'n> Survey<'n> {
    /// O(nodes).
    fn of(nodes: &Nodes, domains: &'n Domains, shape: Shape, wanted: Wanted) -> Self {
        let lowest = domains.lowest();
        let own = |node: &u32| {
            let usable = nodes.is_eligible(*node) && nodes.is_type(*node, shape.gpu_type);
            let pods = if usable { nodes.room(*node, shape) / wanted.each } else { 0 };
            Room { pods, slices: if lowest == wanted.slice_level { pods / wanted.slice } else { 0 } }
        };
        let mut room: Vec<Vec<Room>> = vec![domains.nodes().iter().map(own).collect()];
        for level in (0..lowest).rev() {
            let below = room.last().map_or(&[][..], Vec::as_slice);
            let sum = |domain: u32| {
                let within = domains.below(level, domain);
                let within = &below[within.start as usize..within.end as usize];
                let pods = within.iter().map(|room| room.pods).sum();
                let slices = match level == wanted.slice_level {
                    true => pods / wanted.slice,
                    false => within.iter().map(|room| room.slices).sum(),
                };
                Room { pods, slices }
            };
            let of_level = (0..domains.count(level) as u32).map(sum).collect();
            room.push(of_level);
        }
        room.reverse();
        Self { domains, wanted, room }
    }

    fn room(&self, level: usize, domain: u32) -> Room {
        self.room[level][domain as usize]
    }

    /// Domains of a level in order.
    fn in_order(&self, level: usize, mut domains: Vec<u32>, by_slices: bool) -> Vec<u32> {
        domains.sort_unstable_by_key(|domain| {
            let Room { pods, slices } = self.room(level, *domain);
            let slices = if by_slices { slices } else { 0 };
            let most_first = if self.wanted.least_first { (Reverse(0), slices) } else { (Reverse(slices), 0) };
            (most_first, pods, *domain)
        });
        domains
    }

    /// Fills domains that are in order with slices (or with pods); `None` if they have no room for all.
    fn filled(&self, level: usize, domains: &[u32], pods: u32, by_slices: bool) -> Option<Vec<Filled>> {
        let size = if by_slices { self.wanted.slice } else { 1 };
        let room = |domain: u32| {
            let of = self.room(level, domain);
            if by_slices { of.slices } else { of.pods }
        };
        let mut left = pods / size;
        let mut filled = Vec::new();
        for (at, next) in domains.iter().enumerate() {
            if left == 0 {
                break;
            }
            let enough = room(*next) >= left;
            let domain =
                if enough && !self.wanted.least_first { self.best(&domains[at..], left, room)? } else { *next };
            let taken = room(domain).min(left);
            filled.push(Filled { domain, pods: taken * size });
            left -= taken;
        }
        (left == 0).then_some(filled)
    }

    /// The domain with the least room that is enough, of equals the first.
    fn best(&self, domains: &[u32], enough: u32, room: impl Fn(u32) -> u32) -> Option<u32> {
        domains.iter().copied().filter(|domain| room(*domain) >= enough).min_by_key(|domain| room(*domain))
    }

    /// The level at which the job fits, and what is filled there.
    fn search(&self) -> Option<(usize, Vec<Filled>)> {
        let Wanted { pods, nearness, least_first, .. } = self.wanted;
        let slices = self.wanted.slices();
        let mut level = self.wanted.level(self.domains.lowest());
        loop {
            let all = self.in_order(level, (0..self.domains.count(level) as u32).collect(), true);
            let room = |domain: u32| self.room(level, domain).slices;
            let one = match least_first {
                true => all.iter().copied().find(|domain| room(*domain) >= slices),
                false => self.best(&all, slices, room),
            };
            match (one, nearness) {
                (Some(domain), _) => return Some((level, vec![Filled { domain, pods }])),
                (None, Nearness::Required(_)) => return None,
                (None, Nearness::Preferred(_)) if level > 0 => level -= 1,
                (None, _) => return Some((level, self.filled(level, &all, pods, true)?)),
            }
        }
    }

    /// Pods of each node.
    fn place(&self) -> Option<Vec<Filled>> {
        let lowest = self.domains.lowest();
        let (mut level, mut filled) = self.search()?;
        while level < lowest {
            let by_slices = level < self.wanted.slice_level;
            let below = |of: &Filled| self.domains.below(level, of.domain);
            if by_slices {
                let within = filled.iter().flat_map(below).collect();
                filled = self.filled(level + 1, &self.in_order(level + 1, within, true), self.wanted.pods, true)?;
            } else {
                let each = filled.iter().map(|of| {
                    let within = self.in_order(level + 1, below(of).collect(), false);
                    self.filled(level + 1, &within, of.pods, false)
                });
                filled = each.collect::<Option<Vec<_>>>()?.into_iter().flatten().collect();
            }
            level += 1;
        }
        Some(filled)
    }
}

/// Places a job of whole GPUs with a request.
pub(super) fn place(nodes: &Nodes, shape: Shape, request: TopologyRequest, pieces: &mut Vec<Piece>) -> bool {
    let Some(domains) = nodes.domains() else { return false };
    let wanted = Wanted::new(shape, request, nodes.largest(shape.gpu_type), domains.lowest());
    let Some(filled) = Survey::of(nodes, domains, shape, wanted).place() else { return false };
    let mut places: Vec<(u32, u32)> =
        filled.iter().filter_map(|of| Some((*domains.nodes().get(of.domain as usize)?, of.pods))).collect();
    places.sort_unstable();
    let mut left = shape.gpus;
    for (node, pods) in places {
        let count = (pods * wanted.each).min(left);
        left -= count;
        if count > 0 {
            pieces.push(piece(nodes, node, shape, count));
        }
    }
    left == 0
}

/// Whether [`place`] would find a place. O(nodes).
pub(super) fn fits(nodes: &Nodes, shape: Shape, request: TopologyRequest) -> bool {
    let Some(domains) = nodes.domains() else { return false };
    let wanted = Wanted::new(shape, request, nodes.largest(shape.gpu_type), domains.lowest());
    let survey = Survey::of(nodes, domains, shape, wanted);
    let room = |level: usize| survey.room.get(level).into_iter().flatten().map(|room| room.slices);
    match wanted.nearness {
        Nearness::Required(level) => room(usize::from(level)).any(|slices| slices >= wanted.slices()),
        // What has no room in one domain is spread over the widest.
        Nearness::Preferred(_) | Nearness::Unconstrained => room(0).sum::<u32>() >= wanted.slices(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::topology::Topology;
    use crate::{Group, Pool};

    /// Nodes of a pool with so many GPUs free each, of `size`, in domains as (block, rack).
    fn nodes(free: &[u32], size: u32, domains: &[(u32, u32)]) -> Nodes {
        let list = domains.iter().map(|(block, rack)| Some(vec![*block, *rack])).collect();
        let topology = Topology::new(vec!["block".to_owned(), "rack".to_owned()], list).unwrap();
        let count = free.len() as u32;
        let pool = Pool { groups: vec![Group::fixed(count, size)] };
        let mut nodes = Nodes::new(&pool, 0).within(Some(Arc::new(Domains::new(&topology, 0, count))));
        for (node, free) in (0u32..).zip(free) {
            if *free < size {
                nodes.take(&Piece::whole(node, (1 << (size - free)) - 1)).unwrap();
            }
        }
        nodes
    }

    /// GPUs on each node; none if it does not fit.
    fn placed(nodes: &Nodes, shape: Shape, request: TopologyRequest) -> Vec<u32> {
        let mut pieces = Vec::new();
        let fit = place(nodes, shape, request, &mut pieces);
        assert_eq!(fits(nodes, shape, request), fit);
        if !fit {
            return Vec::new();
        }
        let on = |node: u32| -> u32 {
            pieces.iter().filter(|piece| piece.node == node).map(|piece| piece.gpus.count_ones()).sum()
        };
        (0..nodes.len()).map(on).collect()
    }

    /// Shape of so many pods of one GPU.
    fn single(pods: u16) -> Shape {
        Shape { nodes: pods, ..Shape::whole(u32::from(pods)) }
    }

    const NOWHERE: [u32; 0] = [];
    const BLOCK: u8 = 0;
    const RACK: u8 = 1;
    const HOST: u8 = 2;

    #[test]
    fn the_last_domain_is_the_one_that_fits_best() {
        // The example of the proposal: a rack of four nodes with room for 3, 3, 2 and 1 pods, and 7 pods.
        let rack = nodes(&[3, 3, 2, 1], 4, &[(0, 0); 4]);
        assert_eq!(placed(&rack, single(7), TopologyRequest::required(RACK)), [3, 3, 0, 1]);
        assert_eq!(placed(&rack, single(7), TopologyRequest::preferred(HOST)), [3, 3, 0, 1]);
        // Unconstrained: 1, 2, 3, and of the last what is left.
        assert_eq!(placed(&rack, single(7), TopologyRequest::unconstrained()), [3, 1, 2, 1]);
    }

    #[test]
    fn slices_fill_the_tightest_of_the_domains_with_equal_room() {
        // The example of the proposal: nodes with room for 6, 5, 4, 3 and 2 pods; slices of 2 pods lie on one node each.
        let rack = nodes(&[6, 5, 4, 3, 2], 8, &[(0, 0); 5]);
        assert_eq!(placed(&rack, single(12), TopologyRequest::required(RACK).sliced(HOST, 2)), [6, 0, 4, 0, 2]);
        // Ten pods, least free first: the nodes of 2, 3 (one slice) and 4 (before 5: both take two), and one slice of the node of 5.
        assert_eq!(placed(&rack, single(10), TopologyRequest::unconstrained().sliced(HOST, 2)), [0, 2, 4, 2, 2]);
        // Seven pods are no slices of 2: they are single ones.
        assert_eq!(placed(&rack, single(7), TopologyRequest::required(RACK).sliced(HOST, 2)), [6, 0, 0, 0, 1]);
        // Three nodes with room for 3 pods: two on each, as a slice does not lie on two.
        let three = nodes(&[3, 3, 3], 4, &[(0, 0); 3]);
        assert_eq!(placed(&three, single(6), TopologyRequest::required(BLOCK).sliced(HOST, 2)), [2, 2, 2]);
        assert_eq!(placed(&three, single(8), TopologyRequest::required(BLOCK).sliced(HOST, 2)), NOWHERE);
    }

    /// Kueue's own test tree: block 0 has rack 0 with one node and rack 1 with three, block 1 has racks 2 and 3 with a node each; all have room for one pod, but the last for two.
    fn tree() -> Nodes {
        nodes(&[1, 1, 1, 1, 1, 2], 2, &[(0, 0), (0, 1), (0, 1), (0, 1), (1, 2), (1, 3)])
    }

    #[test]
    fn what_is_required_lies_in_one_domain_or_waits() {
        let tree = tree();
        // Four pods fit into block 0, over both its racks. Five fit into no block.
        assert_eq!(placed(&tree, single(4), TopologyRequest::required(BLOCK)), [1, 1, 1, 1, 0, 0]);
        assert_eq!(placed(&tree, single(5), TopologyRequest::required(BLOCK)), NOWHERE);
        // Three pods fit into rack 1, four into no rack.
        assert_eq!(placed(&tree, single(3), TopologyRequest::required(RACK)), [0, 1, 1, 1, 0, 0]);
        assert_eq!(placed(&tree, single(4), TopologyRequest::required(RACK)), NOWHERE);
        // One goes to the first of the racks with the least room, two to the one with just that; on one node only the last has room for two.
        assert_eq!(placed(&tree, single(1), TopologyRequest::required(RACK)), [1, 0, 0, 0, 0, 0]);
        assert_eq!(placed(&tree, single(2), TopologyRequest::required(RACK)), [0, 0, 0, 0, 0, 2]);
        assert_eq!(placed(&tree, single(2), TopologyRequest::required(HOST)), [0, 0, 0, 0, 0, 2]);
        // Within the block that fits best, block 1, both racks are used: the larger first, and what is left to the other.
        assert_eq!(placed(&tree, single(3), TopologyRequest::required(BLOCK)), [0, 0, 0, 0, 1, 2]);
    }

    #[test]
    fn what_is_preferred_goes_up_and_is_spread_at_the_top() {
        let tree = tree();
        // No rack has room for four: the next wider level is the block.
        assert_eq!(placed(&tree, single(4), TopologyRequest::preferred(RACK)), [1, 1, 1, 1, 0, 0]);
        // No block has room for six: all of block 0 and two of block 1, there in the rack that fits best.
        assert_eq!(placed(&tree, single(6), TopologyRequest::preferred(RACK)), [1, 1, 1, 1, 0, 2]);
        assert_eq!(placed(&tree, single(6), TopologyRequest::preferred(BLOCK)), [1, 1, 1, 1, 0, 2]);
        // Ten fit nowhere.
        assert_eq!(placed(&tree, single(10), TopologyRequest::preferred(BLOCK)), NOWHERE);
    }

    #[test]
    fn a_pod_is_not_split_and_the_last_has_what_is_left() {
        // Pods of 2 GPUs do not fit on nodes with 1 free, however many there are.
        assert_eq!(placed(&tree(), Shape { nodes: 2, ..Shape::whole(4) }, TopologyRequest::required(BLOCK)), NOWHERE);
        // 7 GPUs on two nodes are pods of 4 and 3; both need a place for 4.
        let pair = nodes(&[4, 4, 3], 8, &[(0, 0), (0, 0), (0, 1)]);
        let seven = Shape { nodes: 2, ..Shape::whole(7) };
        assert_eq!(placed(&pair, seven, TopologyRequest::required(RACK)), [4, 3, 0]);
        assert_eq!(placed(&nodes(&[4, 3], 8, &[(0, 0); 2]), seven, TopologyRequest::required(RACK)), NOWHERE);
        // 12 GPUs that ask for no number of nodes are two pods of 6 on nodes of 8. Each node with 6 to 8 free has room for one.
        assert_eq!(
            placed(&nodes(&[5, 8, 6, 7], 8, &[(0, 0); 4]), Shape::whole(12), TopologyRequest::required(RACK)),
            [0, 6, 6, 0]
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(600))]

        /// Placed pods are free, complete, and where they were asked for; and where one domain has
        /// room, a preferred placement lies in one.
        #[test]
        fn what_is_placed_is_free_and_near(
            drawn in prop::collection::vec((0u32..=8, 0u32..3, 0u32..3, any::<bool>()), 1..14),
            pods in 1u16..10,
            each in 1u32..=8,
            level in 0u8..=2,
            below in 0u8..=2,
            slice in 1u16..4,
            kind in 0usize..3,
            sliced in any::<bool>(),
        ) {
            let free: Vec<u32> = drawn.iter().map(|of| of.0).collect();
            let domains: Vec<(u32, u32)> = drawn.iter().map(|of| (of.1, of.1 * 10 + of.2)).collect();
            let mut nodes = nodes(&free, 8, &domains);
            for (node, of) in (0u32..).zip(&drawn) {
                nodes.set_eligible(node, of.3);
            }
            let shape = Shape { nodes: pods, ..Shape::whole(u32::from(pods) * each) };
            let request = [TopologyRequest::required(level), TopologyRequest::preferred(level), TopologyRequest::unconstrained()][kind];
            let inner = if kind == 2 { below } else { level.max(below) };
            let request = if sliced { request.sliced(inner, slice) } else { request };
            let mut pieces = Vec::new();
            let fit = place(&nodes, shape, request, &mut pieces);
            prop_assert_eq!(fits(&nodes, shape, request), fit);
            let pods_of = |node: usize| if drawn[node].3 { free[node] / each } else { 0 };
            let domain = |node: usize, level: u8| [domains[node].0, domains[node].1, node as u32][usize::from(level)];
            let room = |level: u8, of: u32| -> u32 { (0..free.len()).filter(|node| domain(*node, level) == of).map(pods_of).sum() };
            let one_fits = |level: u8| (0..free.len()).any(|node| room(level, domain(node, level)) >= u32::from(pods));
            if !sliced && kind == 0 {
                prop_assert_eq!(fit, one_fits(level));
            }
            if !sliced && kind > 0 {
                prop_assert_eq!(fit, (0..free.len()).map(pods_of).sum::<u32>() >= u32::from(pods));
            }
            if !fit {
                return Ok(());
            }
            prop_assert_eq!(pieces.iter().map(|piece| piece.amount()).sum::<u64>(), shape.amount());
            let used = |level: u8| {
                let mut used: Vec<u32> = pieces.iter().map(|piece| domain(piece.node as usize, level)).collect();
                used.sort_unstable();
                used.dedup();
                used.len()
            };
            if kind == 0 || (kind == 1 && !sliced && one_fits(level)) {
                prop_assert_eq!(used(level), 1);
            }
            if sliced && pods.is_multiple_of(slice) {
                // Pods in each domain of the slices' level are whole slices.
                for piece in &pieces {
                    let of = domain(piece.node as usize, inner);
                    let there = pieces.iter().filter(|other| domain(other.node as usize, inner) == of);
                    let gpus: u32 = there.map(|other| other.gpus.count_ones()).sum();
                    prop_assert!((gpus / each).is_multiple_of(u32::from(slice)));
                }
            }
            for piece in &pieces {
                prop_assert!(nodes.take(piece).is_ok());
            }
        }
    }
}
