//! Jobs that ask for blocks, racks or the like, placed in the plainest way, from the rules that `tracecast_planner`'s module `sim::place::domain` states. A domain is the way to it:
//! the first node of its block, the first of its rack, and so on; its room is summed anew from its nodes at every question.
//!
//! Worked number: nodes 0 and 1 are a rack, node 2 another, both of one block: the ways to the nodes are [0, 0, 0], [0, 0, 1] and [0, 2, 2].

use std::cmp::Reverse;
use std::collections::BTreeSet;

use tracecast_planner::sim::{Nearness, Piece, Shape, TopologyRequest};

use super::place::{room, whole};
use super::{Pool, View};

type Way = Vec<usize>;

/// One job that looks for a place.
struct Look<'v> {
    view: &'v View,
    shape: Shape,
    /// Ways to the nodes that lie in domains, and whether each has the type asked for.
    nodes: Vec<(Way, bool)>,
    /// GPUs of a pod.
    each: usize,
    slice: usize,
    slice_level: usize,
    unconstrained: bool,
}

impl Look<'_> {
    fn pods(&self, domain: &[usize]) -> usize {
        let room = |(way, usable): &(Way, bool)| {
            let node = way[way.len() - 1];
            if *usable && self.view[node].1 { room(self.view, node, self.shape) / self.each } else { 0 }
        };
        self.nodes.iter().filter(|(way, _)| way.starts_with(domain)).map(room).sum()
    }

    /// Domains of a level within one.
    fn within(&self, domain: &[usize], level: usize) -> BTreeSet<Way> {
        self.nodes.iter().filter(|(way, _)| way.starts_with(domain)).map(|(way, _)| way[..=level].to_vec()).collect()
    }

    fn slices(&self, domain: &[usize]) -> usize {
        let level = domain.len() - 1;
        if level > self.slice_level {
            return 0;
        }
        self.within(domain, self.slice_level).iter().map(|inner| self.pods(inner) / self.slice).sum()
    }

    fn sort(&self, domains: &mut [Way], slices: bool) {
        domains.sort_by_key(|domain| {
            let room = if slices { self.slices(domain) as i64 } else { 0 };
            (if self.unconstrained { room } else { -room }, self.pods(domain), domain.clone())
        });
    }

    /// Fills domains with units: (domain, units of it).
    fn fill(&self, mut domains: Vec<Way>, units: usize, slices: bool) -> Option<Vec<(Way, usize)>> {
        self.sort(&mut domains, slices);
        let room = |domain: &Way| if slices { self.slices(domain) } else { self.pods(domain) };
        let mut got = Vec::new();
        let mut left = units;
        while left > 0 {
            if domains.is_empty() {
                return None;
            }
            let mut at = 0;
            if !self.unconstrained && room(&domains[0]) >= left {
                at = (0..domains.len())
                    .filter(|at| room(&domains[*at]) >= left)
                    .min_by_key(|at| (room(&domains[*at]), *at))?;
            }
            let domain = domains.remove(at);
            let taken = room(&domain).min(left);
            left -= taken;
            got.push((domain, taken));
        }
        Some(got)
    }
}

impl Pool<'_> {
    /// Placement of a job with a request.
    pub(super) fn place_near(&self, view: &View, shape: Shape, request: TopologyRequest) -> Option<Vec<Piece>> {
        let topology = self.cluster.topology.as_ref()?;
        let lowest = topology.levels().len();
        let domain = |node: usize, level: usize| topology.domain(self.first + node as u32, level as u8);
        let way = |node: usize| -> Option<Way> {
            (0..=lowest)
                .map(|level| {
                    let of = domain(node, level)?;
                    (0..view.len()).find(|other| domain(*other, level) == Some(of))
                })
                .collect()
        };
        let is_type = |node: usize| shape.gpu_type.is_none() || self.nodes[node].gpu_type == shape.gpu_type;
        let largest = (0..view.len()).filter(|node| is_type(*node)).map(|node| self.sizes[node]).max().unwrap_or(0);
        let wanted = shape.gpus as usize;
        let asked = if shape.nodes > 0 { usize::from(shape.nodes) } else { wanted.div_ceil(largest.max(1)) };
        let each = wanted.div_ceil(asked);
        let pods = wanted.div_ceil(each);
        let sliced = request.slices.filter(|slices| pods.is_multiple_of(usize::from(slices.pods)));
        let look = Look {
            view,
            shape,
            nodes: (0..view.len()).filter_map(|node| Some((way(node)?, is_type(node)))).collect(),
            each,
            slice: sliced.map_or(1, |slices| usize::from(slices.pods)),
            slice_level: sliced.map_or(lowest, |slices| usize::from(slices.level)),
            unconstrained: request.nearness == Nearness::Unconstrained,
        };
        let units = pods / look.slice;
        let plain = look.slice == 1 && look.slice_level == lowest;
        let mut level = match request.nearness {
            Nearness::Required(level) | Nearness::Preferred(level) => usize::from(level),
            Nearness::Unconstrained => {
                if plain {
                    lowest
                } else {
                    0
                }
            }
        };
        let mut filled = loop {
            let mut all: Vec<Way> = look.within(&[], level).into_iter().collect();
            look.sort(&mut all, true);
            let mut roomy = all.iter().filter(|domain| look.slices(domain) >= units);
            // The first in order, or the one with the least room.
            let one = if look.unconstrained { roomy.next() } else { roomy.min_by_key(|domain| look.slices(domain)) };
            match (one, request.nearness) {
                (Some(domain), _) => break vec![(domain.clone(), units)],
                (None, Nearness::Required(_)) => return None,
                (None, Nearness::Preferred(_)) if level > 0 => level -= 1,
                (None, _) => break look.fill(all, units, true)?,
            }
        };
        while level < look.slice_level {
            let within = filled.iter().flat_map(|(domain, _)| look.within(domain, level + 1)).collect();
            filled = look.fill(within, units, true)?;
            level += 1;
        }
        let mut filled: Vec<(Way, usize)> =
            filled.into_iter().map(|(domain, slices)| (domain, slices * look.slice)).collect();
        while level < lowest {
            let mut next = Vec::new();
            for (domain, pods) in filled {
                next.extend(look.fill(look.within(&domain, level + 1).into_iter().collect(), pods, false)?);
            }
            filled = next;
            level += 1;
        }
        let mut nodes: Vec<(usize, usize)> = filled.into_iter().map(|(way, pods)| (way[lowest], pods)).collect();
        nodes.sort_by_key(|(node, _)| Reverse(*node));
        let mut pieces = Vec::new();
        // The last pod, on the last node, lacks what is not asked for.
        let mut lacks = pods * each - wanted;
        for (node, pods) in nodes.into_iter().filter(|(_, pods)| *pods > 0) {
            let gpus = view[node].0.iter().enumerate().filter(|(_, left)| **left == 1000).take(pods * each - lacks);
            lacks = 0;
            pieces.push(whole(self.first + node as u32, shape, gpus.map(|(gpu, _)| gpu)));
        }
        pieces.reverse();
        Some(pieces)
    }
}
