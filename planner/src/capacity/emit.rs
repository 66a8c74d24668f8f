//! The recommended nodes as `simulate` and Slurm read them.
//!
//! **cluster.toml** has a `[[vc]]` for each VC with nodes of its own (one for each kind of them), and a `[[pool]]` for each that several VCs queue for, with
//! their quotas and guarantees grown with the pool. **slurm-nodes.conf** has a `NodeName` line for each kind of nodes; processors and memory are the
//! operator's to add.
//!
//! O(parts). Worked example: a VC `vision` with 12 nodes of 8 GPUs is `NodeName=vision-[001-012] Gres=gpu:8 State=UNKNOWN`.

use tracecast_analytics::schema::Resource;

use super::answer::CapacityAnswer;
use super::part::Part;
use crate::error::{Error, Result};
use crate::plan::Emitted;
use crate::plan::slug::{is_taken, slug};

fn head(answer: &CapacityAnswer) -> String {
    let mut lines = vec![answer.action.replace("**", "")];
    if let Some(recommendation) = &answer.recommendation {
        lines.push(format!("Confidence: {}. {}", recommendation.confidence.in_words(), recommendation.risk));
        lines.push(format!("Undo: {}", recommendation.undo));
    }
    if answer.shares_first() {
        lines.push("This file is the other way: each VC keeps nodes of its own, and all that are to be bought stand in it. The files of `plan queues` let the VCs share.".to_owned());
    }
    // A name of the trace must not end the comment.
    lines.iter().map(|line| format!("# {}\n", line.replace(['\n', '\r'], " "))).collect()
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// The kinds of nodes of a part as lines of TOML: nodes, GPUs and their type.
fn kinds(part: &Part, nodes: u32) -> Vec<String> {
    let counts = part.counts(nodes);
    let kind = |(group, nodes): (&crate::sim::Group, u32)| {
        let gpu_type = part.gpu_type(group).map_or_else(String::new, |name| format!("gpu_type = {}\n", quoted(name)));
        format!("nodes = {nodes}\ngpus_per_node = {}\n{gpu_type}", group.gpus_per_node)
    };
    part.groups().iter().zip(counts).map(kind).collect()
}

/// The cluster with the recommended nodes, as `--cluster` takes it.
pub fn cluster(answer: &CapacityAnswer) -> Emitted {
    let mut text = head(answer);
    for (at, (part, nodes)) in answer.sized.iter().enumerate() {
        let cluster = part.with(*nodes);
        let alone =
            matches!(cluster.vcs.as_slice(), [vc] if vc.quota_milli.is_empty() && vc.guarantee_milli.is_empty());
        let pool = format!("pool-{}", at + 1);
        for kind in kinds(part, *nodes) {
            let (table, name) = if alone { ("vc", part.vcs.first()) } else { ("pool", Some(&pool)) };
            text.push_str(&format!("\n[[{table}]]\nname = {}\n{kind}", quoted(name.map_or("", String::as_str))));
        }
        for vc in cluster.vcs.iter().filter(|_| !alone) {
            text.push_str(&format!("\n[[vc]]\nname = {}\npool = {}\n", quoted(&vc.name), quoted(&pool)));
            for (key, amounts) in [("quota_gpus", &vc.quota_milli), ("guaranteed_gpus", &vc.guarantee_milli)] {
                if let Some((_, milli)) = amounts.last() {
                    text.push_str(&format!("{key} = {:?}\n", *milli as f64 / 1e3));
                }
            }
        }
    }
    ("cluster.toml".to_owned(), text)
}

/// Lines for slurm.conf.
///
/// # Errors
/// If the nodes have no GPUs, or a VC or a GPU type has no name that Slurm takes, or two pools get the same one.
pub fn slurm(answer: &CapacityAnswer) -> Result<Emitted> {
    if answer.resource != Resource::Gpus {
        return Err(Error::Malformed {
            what: "resource for NodeName lines",
            found: answer.resource.many().to_owned(),
            remedy: "the lines count GPUs; take --emit cluster, or --resource gpus if the jobs have any".to_owned(),
        });
    }
    let mut text = head(answer);
    text.push_str("# In place of the NodeName lines of slurm.conf; rename the nodes, and add CPUs and RealMemory.\n");
    let wrong = |found: String| Error::Malformed {
        what: "name of nodes",
        found,
        remedy: "rename it in the trace or with a mapping, with letters, digits and `-`".to_owned(),
    };
    let named = |name: &str| slug(name).ok_or_else(|| wrong(name.to_owned()));
    let mut taken: Vec<String> = Vec::new();
    for (part, nodes) in &answer.sized {
        let several = part.groups().len() > 1;
        for (at, (group, count)) in part.groups().iter().zip(part.counts(*nodes)).enumerate() {
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
                "NodeName={name}-[001-{count:03}] Gres=gpu:{gpu_type}{} State=UNKNOWN\n",
                group.gpus_per_node
            ));
        }
    }
    Ok(("slurm-nodes.conf".to_owned(), text))
}
