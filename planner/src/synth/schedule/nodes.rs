//! Nodes, the units free on each, and which of them a job gets.
//!
//! A job of at most one node's units goes to the node with the fewest free units that fits (lowest index on ties); a
//! larger one takes completely free nodes, and its remainder goes where a job of that size would. Nodes that are down or
//! about to change hands are off the list and get nothing.
//!
//! O(log nodes) to list a node, O(units per node × log nodes) for a placement. Worked number: 20 units of nodes of 8 are
//! two free nodes and 4 units of the fullest node with 4 left.

use std::collections::BTreeSet;

use super::{MAX_UNITS, Pool, Slice};

/// One node.
#[derive(Debug)]
pub(super) struct Node {
    /// The VC it belongs to.
    pub(super) vc: u32,
    /// Units no job holds, one bit each.
    pub(super) free: u128,
    /// Whether it is in service.
    pub(super) up: bool,
    /// Where it goes once empty, and since when.
    pub(super) leaving: Option<(u32, i64)>,
    /// Attempts that hold units of it.
    pub(super) running: Vec<u32>,
}

/// All nodes, and those that take jobs by VC and free units.
#[derive(Debug)]
pub(super) struct Nodes {
    units_per_node: u32,
    nodes: Vec<Node>,
    /// For each VC, nodes that take jobs, by their free units.
    by_free: Vec<Vec<BTreeSet<u32>>>,
}

impl Nodes {
    /// The nodes of `pool`, all up and free.
    pub(super) fn new(pool: &Pool) -> Self {
        let units_per_node = pool.units_per_node.clamp(1, MAX_UNITS);
        let free = mask(units_per_node);
        let nodes: Vec<Node> = pool
            .node_vc
            .iter()
            .map(|vc| Node { vc: *vc, free, up: true, leaving: None, running: Vec::new() })
            .collect();
        let by_free = (0..pool.vcs).map(|_| vec![BTreeSet::new(); units_per_node as usize + 1]).collect();
        let mut all = Self { units_per_node, nodes, by_free };
        for node in 0..all.nodes.len() as u32 {
            all.list(node);
        }
        all
    }

    /// Every node, in order of index.
    pub(super) fn all(&self) -> &[Node] {
        &self.nodes
    }

    /// One node, to change; unlist it before its free units change and list it afterwards.
    pub(super) fn get_mut(&mut self, node: u32) -> Option<&mut Node> {
        self.nodes.get_mut(node as usize)
    }

    /// Offers a node's free units to its VC, if it takes jobs.
    pub(super) fn list(&mut self, node: u32) {
        let Some(state) = self.nodes.get(node as usize) else { return };
        if !state.up || state.leaving.is_some() {
            return;
        }
        let free = state.free.count_ones() as usize;
        if let Some(set) = self.by_free.get_mut(state.vc as usize).and_then(|by_free| by_free.get_mut(free)) {
            set.insert(node);
        }
    }

    /// Takes a node's free units off its VC's list.
    pub(super) fn unlist(&mut self, node: u32) {
        let Some(state) = self.nodes.get(node as usize) else { return };
        let free = state.free.count_ones() as usize;
        if let Some(set) = self.by_free.get_mut(state.vc as usize).and_then(|by_free| by_free.get_mut(free)) {
            set.remove(&node);
        }
    }

    /// Takes `units` units of `vc`, or nothing if they are not to be had together.
    pub(super) fn place(&mut self, vc: u32, units: u32) -> Option<Vec<Slice>> {
        let per_node = self.units_per_node;
        let (whole, rest) = if units <= per_node { (0, units) } else { (units / per_node, units % per_node) };
        let by_free = self.by_free.get(vc as usize)?;
        let empty = by_free.get(per_node as usize)?;
        if empty.len() < whole as usize {
            return None;
        }
        let mut chosen: Vec<(u32, u32)> = empty.iter().take(whole as usize).map(|node| (*node, per_node)).collect();
        if rest > 0 || whole == 0 {
            // The tightest node that fits; of the free ones, one that was not just taken.
            let tight = by_free
                .iter()
                .take(per_node as usize)
                .skip(rest as usize)
                .find_map(|nodes| nodes.first())
                .or_else(|| empty.iter().nth(whole as usize))?;
            chosen.push((*tight, rest));
        }
        let mut slices = Vec::with_capacity(chosen.len());
        for (node, units) in chosen {
            self.unlist(node);
            if let Some(state) = self.nodes.get_mut(node as usize) {
                let taken = lowest(state.free, units);
                state.free &= !taken;
                slices.push(Slice { node, units: taken });
            }
            self.list(node);
        }
        Some(slices)
    }
}

/// The lowest `units` bits.
pub(super) fn mask(units: u32) -> u128 {
    if units >= MAX_UNITS { u128::MAX } else { (1 << units) - 1 }
}

/// The lowest `units` of the bits set in `free`.
fn lowest(free: u128, units: u32) -> u128 {
    let (mut left, mut taken) = (free, 0);
    for _ in 0..units {
        let bit = left & left.wrapping_neg();
        taken |= bit;
        left &= !bit;
    }
    taken
}
