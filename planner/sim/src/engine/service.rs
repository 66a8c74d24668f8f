//! Which nodes of a pool are in service: groups that grow and shrink, nodes that drain, fail and come back.
//!
//! A node takes jobs if it belongs to its group at its present size, does not drain, has not failed and is powered. Worked example: a
//! group of 4 nodes with 3, 0, 0 and 8 busy GPUs shrinks to 2: nodes 2 and 1 leave (none busy, highest index first).

use std::cell::Cell;

use crate::cluster::Pool;
use crate::nodes::Nodes;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Belongs to its group.
    In,
    /// Takes nothing new and leaves when it is empty.
    Draining,
    /// Does not exist for now.
    Away,
}

#[derive(Debug, Clone, Copy)]
struct State {
    place: Place,
    /// Failures not yet repaired.
    failures: u32,
    /// Neither asleep nor on its way to sleep or back.
    powered: bool,
}

/// The nodes of a group.
#[derive(Debug, Clone)]
struct Members {
    first: u32,
    most: u32,
    sizes: Vec<(i64, u32)>,
}

/// Which nodes are in service.
#[derive(Debug, Clone)]
pub(crate) struct Service {
    nodes: Vec<State>,
    groups: Vec<Members>,
    draining: usize,
    /// GPUs in service, once asked for since a node came or went: schedulers that divide the
    /// cluster ask in every decision.
    gpus: Cell<Option<u64>>,
}

impl Service {
    /// All nodes of `pool`, in service.
    pub(super) fn new(pool: &Pool) -> Self {
        let mut first = 0;
        let mut groups = Vec::with_capacity(pool.groups.len());
        for group in &pool.groups {
            let most = group.most_nodes();
            groups.push(Members { first, most, sizes: group.sizes.clone() });
            first += most;
        }
        Self {
            nodes: vec![State { place: Place::In, failures: 0, powered: true }; first as usize],
            groups,
            draining: 0,
            gpus: Cell::new(None),
        }
    }

    /// The sizes of a group.
    pub(super) fn sizes(&self, group: u32) -> &[(i64, u32)] {
        self.groups.get(group as usize).map_or(&[], |members| &members.sizes)
    }

    /// Whether any node drains.
    pub(super) fn drains(&self) -> bool {
        self.draining > 0
    }

    /// GPUs of nodes that have not failed and are there, draining ones included. O(1) unless a node has come or gone.
    pub(crate) fn gpus(&self, nodes: &Nodes) -> u64 {
        if let Some(known) = self.gpus.get() {
            return known;
        }
        let there = |(node, state): (u32, &State)| {
            if state.place != Place::Away && state.failures == 0 { u64::from(nodes.size(node)) } else { 0 }
        };
        let result = (0u32..).zip(&self.nodes).map(there).sum();
        self.gpus.set(Some(result));
        result
    }

    /// A node has failed.
    pub(super) fn fail(&mut self, nodes: &mut Nodes, node: u32) {
        if let Some(state) = self.nodes.get_mut(node as usize) {
            state.failures += 1;
        }
        self.settle(nodes, node);
    }

    /// A node is back.
    pub(super) fn repair(&mut self, nodes: &mut Nodes, node: u32) {
        if let Some(state) = self.nodes.get_mut(node as usize) {
            state.failures = state.failures.saturating_sub(1);
        }
        self.settle(nodes, node);
    }

    /// Whether a node is there and has not failed; it may drain.
    pub(super) fn is_there(&self, node: u32) -> bool {
        self.nodes.get(node as usize).is_some_and(|state| state.place != Place::Away && state.failures == 0)
    }

    /// Whether a node belongs to its group and has not failed.
    pub(super) fn is_member(&self, node: u32) -> bool {
        self.nodes.get(node as usize).is_some_and(|state| state.place == Place::In && state.failures == 0)
    }

    /// A node has been powered, or goes to sleep.
    pub(super) fn set_powered(&mut self, nodes: &mut Nodes, node: u32, powered: bool) {
        if let Some(state) = self.nodes.get_mut(node as usize) {
            state.powered = powered;
        }
        self.settle(nodes, node);
    }

    /// A job has left the node with this number over all pools.
    pub(super) fn emptied(&mut self, nodes: &mut Nodes, number: u32) {
        if self.draining > 0 {
            self.settle(nodes, nodes.local(number));
        }
    }

    /// Brings a group to a size.
    pub(super) fn resize(&mut self, nodes: &mut Nodes, group: u32, target: u32) {
        let Some(Members { first, most, .. }) = self.groups.get(group as usize) else { return };
        let members = *first..first + most;
        let with = |service: &Self, place: Place| -> Vec<u32> {
            members.clone().filter(|node| service.nodes[*node as usize].place == place).collect()
        };
        let mut there = with(self, Place::In);
        let present = there.len() as u32;
        if present > target {
            there.sort_by_key(|node| (nodes.busy(*node), std::cmp::Reverse(*node)));
            for node in there.into_iter().take((present - target) as usize) {
                self.nodes[node as usize].place = Place::Draining;
                self.draining += 1;
                self.settle(nodes, node);
            }
        } else {
            let back = with(self, Place::Draining).into_iter().chain(with(self, Place::Away));
            for node in back.take((target - present) as usize) {
                let state = &mut self.nodes[node as usize];
                if state.place == Place::Draining {
                    self.draining -= 1;
                }
                state.place = Place::In;
                self.settle(nodes, node);
            }
        }
    }

    /// Updates whether a node takes jobs, by its state.
    fn settle(&mut self, nodes: &mut Nodes, node: u32) {
        self.gpus.set(None);
        let Some(state) = self.nodes.get_mut(node as usize) else { return };
        if state.place == Place::Draining && nodes.is_empty(node) {
            state.place = Place::Away;
            self.draining -= 1;
        }
        nodes.set_eligible(node, state.place == Place::In && state.failures == 0 && state.powered);
    }
}
