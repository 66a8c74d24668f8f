//! The nodes that a file names, where the trace records none; and how those of a file and of a trace differ.
//!
//! A log of jobs names the nodes that they ran on, and a file of switches or blocks names all. So the cluster is made of these: where each node ran jobs of one VC alone, that VC has it to itself, and a node that ran none is left out; else, or where jobs without a VC ran, all VCs share all. What a node holds is
//! what the largest job held that ran on one node. O(jobs + nodes × log nodes).
//!
//! Worked example: a file with n1 to n4, jobs of `va` on n1 and n2, of `vb` on n3, of which the largest on one node held 4 GPUs: `va` has two nodes of 4 GPUs and `vb` one; n4 is left out.

use std::collections::{BTreeMap, BTreeSet};

use tracecast_analytics::Trace;
use tracecast_analytics::facts::JobFacts;
use tracecast_analytics::ingest::slurm::hostlist;
use tracecast_analytics::report::format;
use tracecast_analytics::schema::{Resource, Table};

use super::super::place::NodePlaces;
use super::{CPUS_PER_NODE, POOL, comment, levels, lie, quoted, sized};
use crate::error::{Error, Result};
use crate::input::recorded::usual_node;
use crate::input::site::INFERRED;
use tracecast_sim::cluster::MAX_GPUS_PER_NODE;
use tracecast_sim::host::HostRoom;

/// Nodes of one job that are looked at.
const MOST_NODES: usize = 100_000;
/// Nodes that a comment names.
const LISTED: usize = 200;

/// No node of the trace is in the file.
pub(super) fn unmatched(trace: &Trace, places: &NodePlaces) -> Error {
    let of = |names: &mut dyn Iterator<Item = &str>| names.next().unwrap_or("none").to_owned();
    let (known, named) = (of(&mut trace.nodes.node.iter().flatten()), of(&mut places.of.keys().map(String::as_str)));
    let what = if trace.nodes.is_empty() {
        "the source records how many nodes there are and not what they are called, so which of them lie together cannot be told".to_owned()
    } else {
        format!("no node of the source is in it (the source has {known}, the file {named})")
    };
    Error::File {
        file: places.basis.clone(),
        line: 1,
        what: format!("{what}; give the file of this cluster, with the names that the source has"),
    }
}

/// The cluster is as many processors or nodes as the trace says, and which of them are on which node it does not.
pub(super) fn uncounted(resource: Resource, places: &NodePlaces) -> Error {
    Error::File {
        file: places.basis.clone(),
        line: 1,
        what: format!(
            "the cluster is counted in {} of all nodes together, so none of them has a place; leave out --topology-file, or count GPUs (--resource gpus)",
            resource.many()
        ),
    }
}

/// Says which nodes of the trace the file does not know, and the other way.
pub(super) fn compare(trace: &Trace, places: &NodePlaces, text: &mut String) {
    let with_gpus = |row: &usize| trace.nodes.gpus.get(*row).is_none_or(|gpus| gpus > 0.0);
    let known: BTreeSet<&str> =
        (0..trace.nodes.len()).filter(with_gpus).filter_map(|row| trace.nodes.node.get(row)).collect();
    comment(text, &format!("Where nodes lie is what {} says.", places.basis));
    let lost: Vec<&str> = known.iter().copied().filter(|node| !places.of.contains_key(*node)).collect();
    told(
        &lost,
        "node of the source is not in it, and lies nowhere",
        "nodes of the source are not in it, and lie nowhere",
        text,
    );
    let more: Vec<&str> = places.of.keys().map(String::as_str).filter(|node| !known.contains(node)).collect();
    told(
        &more,
        "node of it is not in the source, or has no GPU",
        "nodes of it are not in the source, or have no GPU",
        text,
    );
}

fn told(nodes: &[&str], one: &str, many: &str, text: &mut String) {
    if !nodes.is_empty() {
        let more = if nodes.len() > LISTED { ", …" } else { "" };
        let list = hostlist::compress(&nodes[..nodes.len().min(LISTED)]);
        comment(text, &format!("{}: {list}{more}.", format::counted(nodes.len() as u64, one, many)));
    }
}

/// VCs whose jobs ran on each node, by name; of jobs without one, the name that is none.
fn used<'t>(facts: &JobFacts<'t>) -> BTreeMap<String, BTreeSet<&'t str>> {
    let trace = facts.trace;
    let mut lists: BTreeSet<(&str, &str)> = BTreeSet::new();
    for row in 0..trace.jobs.len() {
        if let Some(list) = trace.jobs.nodes_hostlist.get(row) {
            lists.insert((list, trace.jobs.vc.get(row).unwrap_or_default()));
        }
    }
    let mut used: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for (list, vc) in lists {
        for node in hostlist::expand(list, MOST_NODES).unwrap_or_default() {
            used.entry(node).or_default().insert(vc);
        }
    }
    used
}

/// Largest amount that a job on one node held; `None` if none ran on one.
fn largest(facts: &JobFacts<'_>, resource: Resource) -> Option<f64> {
    let jobs = &facts.trace.jobs;
    let on_one = |row: &usize| {
        jobs.alloc_nodes.get(*row) == Some(1)
            || jobs.nodes_hostlist.get(*row).is_some_and(|list| hostlist::expand(list, 1).is_ok())
    };
    let held = (0..facts.len()).filter(on_one).filter_map(|row| resource.given(jobs, row));
    held.filter(|held| *held >= 1.0 && *held <= f64::from(MAX_GPUS_PER_NODE)).reduce(f64::max)
}

/// Writes the cluster of the nodes that `places` names.
pub(super) fn write(
    facts: &JobFacts<'_>,
    names: &[String],
    resource: Resource,
    places: &NodePlaces,
    text: &mut String,
) -> Result<()> {
    let used = used(facts);
    if !used.is_empty() && !used.keys().any(|node| places.of.contains_key(node)) {
        let (ran, named) = (used.keys().next(), places.of.keys().next());
        let name = |node: Option<&String>| node.map_or("none", String::as_str).to_owned();
        let what = format!(
            "no node that jobs ran on is in it (jobs ran on {}, the file has {}); give the file of this cluster",
            name(ran),
            name(named)
        );
        return Err(Error::File { file: places.basis.clone(), line: 1, what });
    }
    let each = largest(facts, resource).map(f64::ceil);
    let usual = match resource {
        Resource::Gpus => f64::from(usual_node(facts.trace)),
        Resource::Cpus => CPUS_PER_NODE,
        Resource::Nodes => 1.0,
    };
    let many = resource.many();
    comment(
        text,
        &format!(
            "{INFERRED}: the source does not say which nodes there are. These are those that {} names, and others that jobs ran on. Correct them before you rely on an answer.",
            places.basis
        ),
    );
    comment(
        text,
        &match each {
            Some(each) => format!(
                "How many {many} a node has is inferred: {each}, what the largest job held that ran on one node."
            ),
            None => format!("How many {many} a node has is assumed: {usual}."),
        },
    );
    let each = each.unwrap_or(usual).clamp(1.0, f64::from(MAX_GPUS_PER_NODE)) as u32;
    let lost: Vec<&str> = used.keys().map(String::as_str).filter(|node| !places.of.contains_key(*node)).collect();
    told(
        &lost,
        "node that jobs ran on is not in the file, and lies nowhere",
        "nodes that jobs ran on are not in the file, and lie nowhere",
        text,
    );
    // With one VC there is nothing to share.
    let nameless = used.iter().filter(|(_, vcs)| names.len() > 1 && vcs.contains(""));
    let strangers: Vec<&str> = nameless.map(|(node, _)| node.as_str()).collect();
    told(
        &strangers,
        "node ran jobs without a VC, so all VCs share all nodes",
        "nodes ran jobs without a VC, so all VCs share all nodes",
        text,
    );
    let alone = used.values().all(|vcs| vcs.len() == 1) && !used.is_empty() && names.len() > 1 && strangers.is_empty();
    let all: BTreeSet<&str> = used.keys().chain(places.of.keys()).map(String::as_str).collect();
    let idle: Vec<&str> = all.iter().copied().filter(|node| !used.is_empty() && !used.contains_key(*node)).collect();
    let [one, many] = if alone {
        ["node of the file ran no job, and is left out", "nodes of the file ran no job, and are left out"]
    } else {
        ["node of the file ran no job, and counts as there", "nodes of the file ran no job, and count as there"]
    };
    told(&idle, one, many, text);
    levels(&places.levels, text);
    let mut entries = |table: &str, name: &str, nodes: &mut dyn Iterator<Item = &str>| {
        // Those that lie nowhere last.
        let mut together: BTreeMap<(bool, Option<&Vec<String>>), u32> = BTreeMap::new();
        for node in nodes {
            let path = places.of.get(node);
            *together.entry((path.is_none(), path)).or_default() += 1;
        }
        for ((_, path), nodes) in together {
            let lies = path.map_or_else(String::new, |path| lie(&places.levels, path));
            text.push_str(&format!(
                "\n[[{table}]]\nname = {}\n{}{lies}",
                quoted(name),
                sized(nodes, each, None, HostRoom::default())
            ));
        }
    };
    match names {
        [only] => entries("vc", only, &mut all.iter().copied()),
        _ if alone => {
            for name in names {
                let own = used.iter().filter(|(_, vcs)| vcs.contains(name.as_str()));
                entries("vc", name, &mut own.map(|(node, _)| node.as_str()));
            }
        }
        _ => {
            entries("pool", POOL, &mut all.iter().copied());
            text.push_str(&format!("\n[[vc]]\nname = \"*\"\npool = {}\n", quoted(POOL)));
        }
    }
    Ok(())
}
