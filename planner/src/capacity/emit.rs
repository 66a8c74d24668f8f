//! The recommended nodes as `simulate` and Slurm read them.
//!
//! **cluster.toml** has a `[[vc]]` for each VC with nodes of its own (one for each kind of them), and a `[[pool]]` for each that several VCs queue for, with
//! their quotas and guarantees grown with the pool. With a [mix](super::mix) there is one for each kind of it; a kind apart is a `[[vc]]` of its own, with the jobs that are to
//! be sent there as a comment. **slurm-nodes.conf** has a `NodeName` line for each kind of nodes; processors and memory that are not known are the
//! operator's to add.
//!
//! O(parts). Worked example: a VC `vision` with 12 nodes of 8 GPUs is `NodeName=vision-[001-012] Gres=gpu:8 State=UNKNOWN`.

use tracecast_analytics::facts::SizeClass;
use tracecast_analytics::report::quote::toml as quoted;
use tracecast_analytics::schema::Resource;

use super::answer::CapacityAnswer;
use super::part::Part;
use crate::error::{Error, Result};
use crate::plan::emit::comments;
use crate::plan::slug::{is_taken, slug};
use crate::plan::{Assurance, Emitted};
use crate::replay::input::cluster_file::sized;
use crate::sim::{Group, HostRoom};

fn head(answer: &CapacityAnswer) -> String {
    let mut lines: Vec<String> =
        answer.cautions.iter().chain([&answer.action]).map(|said| said.replace("**", "")).collect();
    lines.extend(answer.assurance.as_ref().map(Assurance::sentence));
    lines.extend(answer.body.assumed.iter().cloned());
    lines.extend(answer.recommendation.as_ref().map(|recommendation| format!("Undo: {}", recommendation.undo)));
    if answer.body.shares_first() {
        lines.push("This file is the other way: each VC keeps nodes of its own, and all that are to be bought stand in it. The files of `plan queues` let the VCs share.".to_owned());
    }
    comments("#", &lines)
}

/// The nodes of a part that are written, by kind.
struct Written<'a> {
    part: &'a Part,
    counts: Vec<u32>,
    /// Whether kinds that there are to be none of are written as well.
    all: bool,
    /// A kind apart: its position, nodes, name and the sizes of its jobs.
    apart: Option<&'a (usize, u32, String, Vec<SizeClass>)>,
}

/// Recommendation: the mix, if kinds were given and it is advised.
fn written(answer: &CapacityAnswer) -> Vec<Written<'_>> {
    match answer.body.mix.as_ref().filter(|mix| mix.is_advised()) {
        None => answer
            .body
            .sized
            .iter()
            .map(|(part, nodes)| Written { part, counts: part.counts(*nodes), all: true, apart: None })
            .collect(),
        Some(mix) => mix
            .chosen
            .iter()
            .map(|of| Written { part: &of.part, counts: of.counts.clone(), all: false, apart: of.apart.as_ref() })
            .collect(),
    }
}

/// Kinds that are written.
fn kinds<'w>(of: &'w Written<'_>) -> impl Iterator<Item = (usize, &'w Group, u32)> {
    let counted = of.part.groups().iter().zip(&of.counts).enumerate();
    counted.map(|(at, (group, nodes))| (at, group, *nodes)).filter(|(_, _, nodes)| of.all || *nodes > 0)
}

/// A kind of nodes as lines of TOML.
fn kind(part: &Part, group: &Group, nodes: u32) -> String {
    sized(nodes, group.gpus_per_node, part.gpu_type(group), group.host)
}

/// Who is to queue for a kind apart, as a comment; `more` says what is to be known of it.
fn for_whom(part: &Part, classes: &[SizeClass], more: &str) -> String {
    let classes: Vec<&str> = classes.iter().filter(|class| **class != SizeClass::Cpu).map(|class| class.id()).collect();
    comments("#", &[format!("For the jobs of {} with {} GPUs, {more}.", part.name, classes.join(", "))])
}

/// The cluster with the recommended nodes, as `--site` takes it.
pub fn cluster(answer: &CapacityAnswer) -> Emitted {
    let mut text = head(answer);
    if answer.body.mix.as_ref().is_some_and(super::mix::MixAnswer::is_advised) {
        text.push_str("# Nodes have no speed here: a replay of this file has today's runs on every kind.\n");
    }
    for (at, of) in written(answer).iter().enumerate() {
        let part = of.part;
        let cluster = part.with_counts(&of.counts);
        let alone =
            matches!(cluster.vcs.as_slice(), [vc] if vc.quota_milli.is_empty() && vc.guarantee_milli.is_empty());
        let pool = format!("pool-{}", at + 1);
        let (table, name) =
            if alone { ("vc", part.vcs.first().map_or("", String::as_str)) } else { ("pool", pool.as_str()) };
        for (_, group, nodes) in kinds(of) {
            text.push_str(&format!("\n[[{table}]]\nname = {}\n{}", quoted(name), kind(part, group, nodes)));
        }
        for vc in cluster.vcs.iter().filter(|_| !alone) {
            text.push_str(&format!("\n[[vc]]\nname = {}\npool = {}\n", quoted(&vc.name), quoted(&pool)));
            for (key, amounts) in [("quota_gpus", &vc.quota_milli), ("guaranteed_gpus", &vc.guarantee_milli)] {
                if let Some((_, milli)) = amounts.last() {
                    text.push_str(&format!("{key} = {:?}\n", *milli as f64 / 1e3));
                }
            }
        }
        if let Some((at, nodes, name, classes)) = of.apart
            && let Some(group) = part.groups().get(*at)
        {
            let name = quoted(&format!("{}: {name}", part.vcs.join("-")));
            let whom = for_whom(part, classes, "which are to be sent here; a replay of this file does not send them");
            text.push_str(&format!("\n{whom}[[vc]]\nname = {name}\n{}", kind(part, group, *nodes)));
        }
    }
    ("cluster.toml".to_owned(), text)
}

/// Processors and memory of a node, as far as they are known: ` CPUs=96 RealMemory=393216`, the latter in MiB.
fn host(host: HostRoom) -> String {
    let cpus = host.cores_milli.map(|milli| format!(" CPUs={}", milli / 1000));
    let memory = host.memory_mib.map(|mib| format!(" RealMemory={mib}"));
    cpus.unwrap_or_default() + &memory.unwrap_or_default()
}

/// Lines for slurm.conf.
///
/// # Errors
/// If the nodes have no GPUs, or a VC or a GPU type has no name that Slurm takes, or two pools get the same one.
pub fn slurm(answer: &CapacityAnswer) -> Result<Emitted> {
    if answer.body.resource != Resource::Gpus {
        return Err(Error::malformed(
            "resource for NodeName lines",
            answer.body.resource.many().to_owned(),
            "the lines count GPUs; take --emit cluster, or --resource gpus if the jobs have any".to_owned(),
        ));
    }
    let mut text = head(answer);
    text.push_str("# In place of the NodeName lines of slurm.conf; rename the nodes, and add CPUs and RealMemory where they are missing.\n");
    let wrong = |result: String| {
        Error::malformed(
            "name of nodes",
            result,
            "rename it in the trace or with a mapping, with letters, digits and `-`".to_owned(),
        )
    };
    let named = |name: &str| slug(name).ok_or_else(|| wrong(name.to_owned()));
    let mut taken: Vec<String> = Vec::new();
    for of in written(answer) {
        let part = of.part;
        let mut rows: Vec<(usize, &Group, u32)> = kinds(&of).collect();
        if let Some((at, nodes, _, classes)) = of.apart
            && let Some(group) = part.groups().get(*at)
        {
            text.push_str(&for_whom(part, classes, "a partition of its own: the last of these lines"));
            rows.push((*at, group, *nodes));
        }
        let several = part.own_kinds() > 1 || rows.len() > 1;
        for (at, group, count) in rows {
            let mut name = named(&part.vcs.join("-"))?;
            if several {
                name = format!("{name}-{}", at + 1);
            }
            if is_taken(taken.iter().map(String::as_str), &name, None) {
                return Err(wrong(format!("{} (as {name}, which another is called, too)", part.name)));
            }
            taken.push(name.clone());
            if count == 0 {
                continue;
            }
            let gpu_type =
                part.gpu_type(group).map(named).transpose()?.map_or_else(String::new, |name| format!("{name}:"));
            text.push_str(&format!(
                "NodeName={name}-[001-{count:03}]{} Gres=gpu:{gpu_type}{} State=UNKNOWN\n",
                host(group.host),
                group.gpus_per_node
            ));
        }
    }
    Ok(("slurm-nodes.conf".to_owned(), text))
}
