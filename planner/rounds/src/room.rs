//! Room for gangs on the GPUs of each type: what fits beside what is there.
//!
//! Without nodes, a gang fits if as many GPUs of the type are free. With nodes of k GPUs (the last may be smaller), gangs are put onto nodes anew each round, the largest first: a gang of k or more takes whole
//! nodes, and what is left of it, or a smaller gang, goes onto the first node with room for it. A gang that does not fit so does not fit. Where nodes have processors and memory ([`super::node`]), gangs that need other amounts than their GPUs' share must fit by these too.
//!
//! O(gangs · nodes) a gang. Worked example: three nodes of 4 GPUs hold 3, 3, 3 and 1, and not 3, 3, 3 and 2, though three GPUs are free.

use super::node::{self, Gang, HostNeeds};

/// GPUs of each type, and what a node has.
#[derive(Debug, Clone, PartialEq)]
pub struct GangRoom {
    /// GPUs of each type.
    pub gpus: Vec<u32>,
    /// GPUs of a node, `None` if gangs may lie anywhere.
    pub per_node: Option<u32>,
    /// Processors and memory of a GPU's share of a node of each type, `None` if they do not count.
    pub host: Option<Vec<HostNeeds>>,
}

/// Room of which gangs have taken some.
#[derive(Debug)]
pub(super) struct OpenRoom<'a> {
    room: &'a GangRoom,
    free: Vec<u32>,
    gangs: Vec<Vec<Gang>>,
}

impl GangRoom {
    /// With nobody in it.
    pub(super) fn open(&self) -> OpenRoom<'_> {
        OpenRoom { room: self, free: self.gpus.clone(), gangs: vec![Vec::new(); self.gpus.len()] }
    }

    /// GPUs of a node of a type; none where gangs may lie anywhere in it.
    fn per_node(&self, at: usize) -> Option<u32> {
        self.per_node.filter(|per_node| self.gpus.get(at).is_some_and(|gpus| per_node < gpus))
    }

    /// GPUs of a whole node of a type: all of it where gangs may lie anywhere.
    pub fn gpus_of_node(&self, at: usize) -> u32 {
        let gpus = self.gpus.get(at).copied().unwrap_or(0);
        self.per_node.map_or(gpus, |per_node| per_node.min(gpus))
    }

    /// Processors and memory of a GPU's share of a node of a type; nothing where they do not count.
    pub fn share(&self, at: usize) -> HostNeeds {
        self.host.as_ref().and_then(|host| host.get(at)).copied().unwrap_or_default()
    }

    /// Whether gangs fit on a type together by what they need of nodes. Where all take their shares, GPUs decide.
    fn fits_nodes(&self, at: usize, gangs: &[Gang]) -> bool {
        if self.host.is_none() || gangs.iter().all(|gang| gang.needs.is_none()) {
            return true;
        }
        node::fits(self.gpus.get(at).copied().unwrap_or(0), self.gpus_of_node(at), self.share(at), gangs)
    }

    /// Whether gangs of these sizes fit on a type together by GPUs alone.
    pub fn fits(&self, at: usize, gangs: &[u32]) -> bool {
        let gpus = self.gpus.get(at).copied().unwrap_or(0);
        let Some(per_node) = self.per_node(at) else {
            return gangs.iter().sum::<u32>() <= gpus;
        };
        let alone: Vec<Gang> = gangs.iter().copied().map(Gang::from).collect();
        node::fits(gpus, per_node, HostNeeds::default(), &alone)
    }

    /// Whether gangs fit on a type together, by GPUs and by what they need of nodes.
    fn holds(&self, at: usize, gangs: &[Gang]) -> bool {
        let sizes: Vec<u32> = gangs.iter().map(|gang| gang.gpus).collect();
        self.fits(at, &sizes) && self.fits_nodes(at, gangs)
    }
}

impl OpenRoom<'_> {
    /// Lets a gang onto a type, if it fits there beside those that are there.
    pub(super) fn take(&mut self, at: usize, gang: impl Into<Gang>) -> bool {
        let gang = gang.into();
        let (Some(gangs), Some(free)) = (self.gangs.get_mut(at), self.free.get_mut(at)) else { return false };
        if *free < gang.gpus {
            return false;
        }
        gangs.push(gang);
        // Where gangs may lie anywhere and need nothing but GPUs, the free ones say it all.
        let by_nodes = self.room.per_node(at).is_some() || self.room.host.is_some();
        if by_nodes && !self.room.holds(at, gangs) {
            gangs.pop();
            return false;
        }
        *free -= gang.gpus;
        true
    }

    /// Whether a gang fits onto a type beside those that are there by GPUs alone.
    pub(super) fn has_gpus(&self, at: usize, gpus: u32) -> bool {
        let (Some(gangs), Some(free)) = (self.gangs.get(at), self.free.get(at)) else { return false };
        if *free < gpus || self.room.per_node(at).is_none() {
            return *free >= gpus;
        }
        let sizes: Vec<u32> = gangs.iter().map(|gang| gang.gpus).chain([gpus]).collect();
        self.room.fits(at, &sizes)
    }

    /// The types on which a job runs, by its speeds: the fastest first, or the one with most free GPUs; equals in their order.
    pub(super) fn types(&self, speeds: &[f64], fastest: bool) -> Vec<usize> {
        let worth = |at: &usize| {
            if fastest {
                speeds.get(*at).copied().unwrap_or(0.0)
            } else {
                f64::from(self.free.get(*at).copied().unwrap_or(0))
            }
        };
        let runs = |at: &usize| speeds.get(*at).is_some_and(|speed| *speed > 0.0);
        let mut types: Vec<usize> = (0..self.free.len()).filter(runs).collect();
        types.sort_by(|a, b| worth(b).total_cmp(&worth(a)).then(a.cmp(b)));
        types
    }
}
