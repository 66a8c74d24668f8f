//! Nodes on switches, chosen in the plainest way from the rules that `tracecast_planner`'s module `sim::scan::slurm::tree` states. A switch is the way to it: the first node of the widest switch that it hangs on, of the next, and of
//! itself. What is below it is counted anew from the nodes at every question.
//!
//! Worked number: nodes 0 and 1 on one leaf, 2 on another, both below one spine, which has 3: the ways to the leaves are [0, 0] and [0, 2].

use std::collections::BTreeSet;

use tracecast_planner::sim::{Scan, Topology};

use super::Pool;

type Way = Vec<usize>;

/// Comparison of two leaves by fit.
#[derive(PartialEq)]
enum Better {
    First,
    Second,
    Neither,
}

impl Pool<'_> {
    pub(super) fn hangs_on_switches(&self) -> bool {
        let topology = self.cluster.topology.as_ref();
        self.policy.scan == Scan::Slurm && topology.is_some_and(Topology::is_of_switches)
    }

    /// Whether the job could run on all nodes there ever are.
    pub(super) fn has_a_network(&self, job: usize) -> bool {
        let all: Vec<usize> = (0..self.nodes.len()).filter(|node| self.is_type(*node, job)).collect();
        !self.hangs_on_switches() || self.fit_among(job, &all, &[]).is_some()
    }

    /// Whether a switch is none of its own, as one below stands for it.
    fn is_missing(&self, switch: &[usize]) -> bool {
        let (node, level) = (self.first + switch[switch.len() - 1] as u32, switch.len() as u8 - 1);
        let topology = self.cluster.topology.as_ref();
        topology.is_some_and(|topology| topology.domain(node, level).is_some_and(|of| topology.is_stood_for(level, of)))
    }

    fn switch_way(&self, node: usize) -> Option<Way> {
        let topology = self.cluster.topology.as_ref()?;
        let domain = |node: usize, level: usize| topology.domain(self.first + node as u32, level as u8);
        let first = |level: usize| {
            let own = domain(node, level)?;
            (0..self.nodes.len()).find(|other| domain(*other, level) == Some(own))
        };
        (0..topology.levels().len()).map(first).collect()
    }

    /// A leaf and what is above it, the widest last.
    fn line(&self, leaf: &Way) -> Vec<Way> {
        let above = (1..=leaf.len()).rev().map(|depth| leaf[..depth].to_vec());
        above.filter(|switch| !self.is_missing(switch)).collect()
    }

    pub(super) fn on_switches(&self, fitting: &[usize], wanted: usize) -> Option<Vec<usize>> {
        let hanging: Vec<(Way, usize)> =
            fitting.iter().filter_map(|node| self.switch_way(*node).map(|way| (way, *node))).collect();
        let below = |switch: &Way| hanging.iter().filter(|(way, _)| way.starts_with(switch)).count();
        let leaves: BTreeSet<&Way> = hanging.iter().map(|(way, _)| way).collect();
        let lines: Vec<Vec<Way>> = leaves.into_iter().map(|leaf| self.line(leaf)).collect();
        // The widest have the shortest way; of those the last.
        let mut networks: Vec<&Way> = lines.iter().filter_map(|line| line.last()).collect();
        networks.retain(|network| below(network) >= wanted);
        let shortest = networks.iter().map(|network| network.len()).min()?;
        let network = networks.into_iter().filter(|network| network.len() == shortest).max()?;
        let lines: Vec<&Vec<Way>> = lines.iter().filter(|line| line.last() == Some(network)).collect();
        let mut chosen: Vec<usize> = Vec::new();
        let mut taken: Vec<&Vec<Way>> = Vec::new();
        while chosen.len() < wanted {
            let missing = wanted - chosen.len();
            let distance = |line: &Vec<Way>| -> usize {
                // Switches of either line that the other does not have.
                let alone =
                    |one: &Vec<Way>, other: &Vec<Way>| one.iter().filter(|switch| !other.contains(switch)).count();
                taken.iter().map(|other| alone(line, other) + alone(other, line)).sum()
            };
            let mut best: Option<&Vec<Way>> = None;
            for line in lines.iter().copied().filter(|line| !taken.contains(line)) {
                let Some(held) = best else {
                    best = Some(line);
                    continue;
                };
                let better = fit_better(line, held, missing, &below);
                let nearer = distance(line) < distance(held) && better != Better::Second;
                let as_near = distance(line) == distance(held) && better == Better::First;
                if nearer || as_near {
                    best = Some(line);
                }
            }
            let line = best?;
            chosen.extend(hanging.iter().filter(|(way, _)| *way == line[0]).map(|(_, node)| *node).take(missing));
            taken.push(line);
        }
        chosen.sort_unstable();
        Some(chosen)
    }
}

/// Holds the first switches of two lines against each other, then those above them.
fn fit_better(first: &[Way], second: &[Way], missing: usize, below: &impl Fn(&Way) -> usize) -> Better {
    let (of_first, of_second) = (below(&first[0]), below(&second[0]));
    if of_first >= missing && of_second < missing {
        return Better::First;
    }
    if of_first < missing && of_second >= missing {
        return Better::Second;
    }
    let more = if of_first >= missing {
        of_second.cmp(&of_first)
    } else {
        let above = |line: &'_ [Way]| if line.len() > 1 { line[1..].to_vec() } else { line.to_vec() };
        let (above_first, above_second) = (above(first), above(second));
        if first.len() + second.len() > 2 && above_first[0] != above_second[0] {
            return fit_better(&above_first, &above_second, missing, below);
        }
        of_first.cmp(&of_second)
    };
    // The lower level has the longer way.
    match more.then(first[0].len().cmp(&second[0].len())) {
        std::cmp::Ordering::Less => Better::Second,
        std::cmp::Ordering::Equal => Better::Neither,
        std::cmp::Ordering::Greater => Better::First,
    }
}
