//! Numbers of nodes or GPUs of each VC and of the pool, as a caller [gives](GivenNodes) them, else
//! as the trace records them.
//!
//! * A node without GPUs serves no job that asks for GPUs: it is none of the nodes there are, in use or idle.
//! * A source may hold the jobs of some VCs and the nodes of all. Where no job of a VC is in it, its nodes are [not known to be
//!   idle](Capacity::vcs_with_jobs) and are left out, and how many is said.
//!
//! O(capacities + nodes). Worked example: the jobs of two VCs on 22 nodes, and a table of 25 VCs on 135 nodes: there are 22, and a note names the 113 of the others.

use std::collections::{BTreeMap, BTreeSet};

use tracecast_analytics::Trace;
use tracecast_analytics::facts::load::CountInterval;
use tracecast_analytics::facts::occupancy::{Steps, beyond, sum};
use tracecast_analytics::facts::{Capacity, JobFacts, sizes};
use tracecast_analytics::report::format;
use tracecast_analytics::schema::Table as _;

use super::Unit;

/// VCs that a note names.
pub(super) const NAMED: usize = 5;

/// Nodes of a cluster that a caller describes, which go before what the trace records: (from, to, nodes) with times in milliseconds since the epoch.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GivenNodes {
    /// Source of the description, such as the name of a file.
    pub of: String,
    /// The VCs it knows, with their own nodes; `None` for one that shares nodes with others. Jobs of other VCs are left out.
    pub by_vc: BTreeMap<String, Option<Vec<CountInterval>>>,
    /// All nodes.
    pub pool: Vec<CountInterval>,
    /// GPUs of a node, on average.
    pub gpus_per_node: f64,
    /// GPUs of the smallest and of the largest node.
    pub gpus_range: (u32, u32),
    /// Nodes described but not counted, a sentence each.
    pub left_out: Vec<String>,
}

impl GivenNodes {
    /// Counts of a list of nodes, in nodes or GPUs.
    fn counted(&self, list: &[CountInterval], unit: Unit) -> Steps {
        let each = if unit == Unit::Gpus { self.gpus_per_node } else { 1.0 };
        Steps::of_intervals(list.iter().map(|(from, to, nodes)| (*from, *to, nodes * each)))
    }

    /// Count of a VC; `None` where it shares nodes.
    pub(super) fn of_vc(&self, vc: &str, unit: Unit) -> Option<Steps> {
        self.by_vc.get(vc)?.as_ref().map(|list| self.counted(list, unit))
    }

    /// Count of the pool.
    pub(super) fn of_pool(&self, unit: Unit) -> Steps {
        self.counted(&self.pool, unit)
    }

    /// Count of the VCs asked for: of all nodes where none is named; `None` where one shares nodes
    /// with others.
    pub(super) fn of_asked(&self, vcs: &[String], unit: Unit) -> Option<Steps> {
        if vcs.is_empty() {
            return Some(self.of_pool(unit));
        }
        let own: Option<Vec<Steps>> = vcs.iter().map(|vc| self.of_vc(vc, unit)).collect();
        own.map(|own| sum(own.iter()))
    }
}

/// The fewest nodes that hold so many GPUs; nodes may have a fraction of one on the mean. Worked example: 15 nodes of 13/3 GPUs hold 65, though 65 / (13/3) is more than 15 by rounding.
pub(super) fn nodes_of(gpus: f64, per_node: f64) -> f64 {
    (gpus / per_node - 1e-9).ceil().max(0.0)
}

/// Numbers of nodes or GPUs of each VC and of the pool.
#[derive(Debug, Default)]
pub(super) struct Totals {
    pub(super) by_vc: BTreeMap<String, Steps>,
    pub(super) pool: Steps,
    /// Sizes recorded but not counted, a sentence each.
    pub(super) left_out: Vec<String>,
}

impl Totals {
    /// Totals a caller gives.
    pub(super) fn given(nodes: &GivenNodes, unit: Unit) -> Self {
        let own = nodes.by_vc.keys().filter_map(|vc| Some((vc.clone(), nodes.of_vc(vc, unit)?)));
        Self { by_vc: own.collect(), pool: nodes.of_pool(unit), left_out: nodes.left_out.clone() }
    }

    /// Totals the trace records; nodes known by GPUs alone are counted at `per_node` GPUs each.
    pub(super) fn recorded(facts: &JobFacts<'_>, unit: Unit, per_node: f64, (from, to): (i64, i64)) -> Self {
        let trace = facts.trace;
        let mut result = Recorded { per_node, unit, from, to, ..Recorded::default() };
        if let Some(others) = Capacity::of_other_vcs(trace) {
            // Left out, with the inventory beside it, of which nobody can say whose it is.
            let left_out = format!(
                "**The recorded capacity is of VCs of which no job is in the source ({})** and is left out.",
                format::names(&others, NAMED)
            );
            return Self { left_out: vec![left_out], ..Self::default() };
        }
        result.of_table(trace);
        if result.by_vc.is_empty() && result.cluster.is_empty() {
            result.of_inventory(trace);
        }
        result.totals(Capacity::vcs_with_jobs(facts).as_ref())
    }
}

/// Sizes a trace records, while it is read.
#[derive(Debug)]
struct Recorded {
    unit: Unit,
    per_node: f64,
    from: i64,
    to: i64,
    by_vc: BTreeMap<String, Vec<CountInterval>>,
    cluster: Vec<CountInterval>,
    /// Whether the table tells what VCs have, and not what all have.
    is_by_vc: bool,
    /// VCs of which the table has no size but 0.
    of_none: BTreeSet<String>,
    /// Nodes without GPUs, and all nodes of the inventory.
    without_gpus: (u64, u64),
}

impl Default for Recorded {
    fn default() -> Self {
        Self {
            unit: Unit::Nodes,
            per_node: 1.0,
            from: 0,
            to: 0,
            by_vc: BTreeMap::new(),
            cluster: Vec::new(),
            is_by_vc: false,
            of_none: BTreeSet::new(),
            without_gpus: (0, 0),
        }
    }
}

impl Recorded {
    fn value(&self, gpus: Option<f64>, nodes: Option<f64>) -> Option<f64> {
        let many = match self.unit {
            Unit::Gpus => gpus,
            Unit::Nodes => nodes.or_else(|| gpus.map(|gpus| nodes_of(gpus, self.per_node))),
        };
        many.filter(|many| *many > 0.0 && gpus != Some(0.0))
    }

    fn of_table(&mut self, trace: &Trace) {
        let table = &trace.capacity;
        for (row, held) in sizes::held(trace).into_iter().enumerate() {
            if table.state.get(row).is_some_and(|state| state != "up") {
                continue;
            }
            let (gpus, nodes) = (table.gpus.get(row), table.nodes.get(row));
            let Some(many) = self.value(gpus, nodes) else {
                let is_none = gpus.or(nodes) == Some(0.0);
                let vc = table.name.get(row).filter(|_| is_none && table.scope.get(row) == Some("vc"));
                self.of_none.extend(vc.map(str::to_owned));
                continue;
            };
            let (since, until) = held.within(self.from, self.to.saturating_add(1));
            let stretch = (since, until, many);
            match (table.scope.get(row), table.name.get(row)) {
                (Some("vc"), Some(name)) => self.by_vc.entry(name.to_owned()).or_default().push(stretch),
                (Some("cluster"), _) => self.cluster.push(stretch),
                _ => {}
            }
        }
    }

    fn of_inventory(&mut self, trace: &Trace) {
        let nodes = &trace.nodes;
        for row in 0..nodes.len() {
            let gpus = nodes.gpus.get(row);
            self.without_gpus.0 += u64::from(gpus == Some(0.0));
            self.without_gpus.1 += 1;
            let Some(many) = self.value(gpus, Some(1.0)) else { continue };
            let stretch = (self.from, self.to.saturating_add(1), many);
            self.cluster.push(stretch);
            if let Some(vc) = nodes.vc.get(row) {
                self.by_vc.entry(vc.to_owned()).or_default().push(stretch);
            }
        }
    }

    /// Without the VCs of which no job is there, if the VCs with jobs are `named`.
    fn totals(mut self, named: Option<&BTreeSet<&str>>) -> Totals {
        self.is_by_vc = self.cluster.is_empty();
        let mut left_out = Vec::new();
        if self.unit == Unit::Nodes && self.without_gpus.0 > 0 && self.without_gpus.0 < self.without_gpus.1 {
            left_out.push(format!(
                "**{} of {} have no GPU and are left out**: they are not part of what follows.",
                format::count(self.without_gpus.0),
                format::counted(self.without_gpus.1, "node", "nodes")
            ));
        }
        let jobless = |vc: &str| named.is_some_and(|named| !named.contains(vc));
        // Where no VC of the inventory is one of the jobs', the two name different things.
        let (without, with): (Vec<_>, Vec<_>) = self.by_vc.iter().partition(|(vc, _)| jobless(vc));
        if !without.is_empty() && !with.is_empty() {
            left_out.push(self.jobless_in_words(&without));
            // What the cluster has beyond its VCs is of nobody alone, and stays.
            let steps = |list: &mut dyn Iterator<Item = &CountInterval>| Steps::of_intervals(list.copied());
            let of_vcs = steps(&mut self.by_vc.values().flatten());
            let window = (self.from, self.to.saturating_add(1));
            let of_no_vc = beyond(&steps(&mut self.cluster.iter()), &of_vcs, window);
            self.by_vc.retain(|vc, _| !jobless(vc));
            self.cluster = self.by_vc.values().flatten().copied().collect();
            self.cluster.extend(of_no_vc.stretches(window.0, window.1));
        }
        // What some VCs with jobs have besides is not known, so of how many there are in all nothing is.
        let unrecorded: Vec<&str> =
            named.into_iter().flatten().copied().filter(|vc| !self.by_vc.contains_key(*vc)).collect();
        if !self.by_vc.is_empty() && self.is_by_vc && !unrecorded.is_empty() {
            let (none, unknown): (Vec<&str>, Vec<&str>) =
                unrecorded.into_iter().partition(|vc| self.of_none.contains(*vc));
            for (vcs, how) in [(unknown, "not recorded"), (none, "recorded as 0 at all times, though jobs ran there")] {
                if !vcs.is_empty() {
                    left_out.push(format!(
                        "**What {} {} is {how}** ({}), so how many there are in all is not known.",
                        format::counted(vcs.len() as u64, "VC", "VCs"),
                        if vcs.len() == 1 { "has" } else { "have" },
                        format::names(&vcs, NAMED)
                    ));
                }
            }
            self.cluster.clear();
        } else if self.cluster.is_empty() {
            self.cluster = self.by_vc.values().flatten().copied().collect();
        }
        Totals {
            by_vc: self.by_vc.into_iter().map(|(vc, list)| (vc, Steps::of_intervals(list))).collect(),
            pool: Steps::of_intervals(self.cluster),
            left_out,
        }
    }

    /// Numbers of VCs and nodes left out because they have no jobs, in words: those at the end, or
    /// if there are none then, those there ever were.
    fn jobless_in_words(&self, without: &[(&String, &Vec<CountInterval>)]) -> String {
        let (from, to) = (self.from, self.to);
        let last =
            |list: &Vec<CountInterval>| Steps::of_intervals(list.iter().copied()).at(to.saturating_sub(1).max(from));
        let ever = |list: &Vec<CountInterval>| Steps::of_intervals(list.iter().copied()).max(from, to);
        let at_the_end = without.iter().any(|(_, list)| last(list) > 0.0);
        let many = |list: &Vec<CountInterval>| if at_the_end { last(list) } else { ever(list) };
        let there = || self.by_vc.values().map(many).filter(|many| *many > 0.0);
        let names: Vec<&str> = without.iter().filter(|(_, list)| many(list) > 0.0).map(|(vc, _)| vc.as_str()).collect();
        format!(
            "**{} of {} VCs have no job in the source, so that {} of {} {} are left out** ({}): whether they are idle is not known, as their jobs may be missing.",
            names.len(),
            there().count(),
            format::compact(without.iter().map(|(_, list)| many(list)).sum()),
            format::compact(there().sum()),
            if self.unit == Unit::Nodes { "nodes" } else { "GPUs" },
            format::names(&names, NAMED)
        )
    }
}
