//! A plan of sharing as a patch to a site's own `slurm.conf` and `gres.conf`, beside the files that [`emit`](super::emit) writes anew.
//!
//! Of each `NodeName` line whose `Gres` has GPUs of the plan's type, or the only GPUs that there are, `Gres` gets the parts of a GPU, two for each. `gres.conf` gets a line for the same nodes. `GresTypes` and
//! `SelectTypeParameters` get what they lack, and `LLN=YES` the partitions of these nodes. Nothing that a site has is taken away: another `SelectType`, lines that leave their nodes to `NodeName=DEFAULT`, and nodes
//! with GPUs of several types are told as not in the patch, with the reason.
//!
//! O(bytes × nodes). Worked example: `NodeName=gpu[01-04] Gres=gpu:a100:8 CPUs=128` becomes `NodeName=gpu[01-04] Gres=gpu:a100:8,shard:16 CPUs=128`, and `gres.conf` gets
//! `NodeName=gpu[01-04] Name=shard Count=16`.

use std::collections::BTreeSet;

use tracecast_analytics::ingest::slurm::hostlist;

use super::answer::SharingPlanAnswer;
use super::emit::{SharingSite, SlurmPart, about, gpu_of, one_class};
use super::study::HowSet;
use crate::error::Result;
use crate::own_files::{Gres, NodeLine, OwnFile, Patch, SlurmFiles};

/// Nodes that the name of a line may stand for at most.
const MOST_NODES: usize = 100_000;
/// What the patch alone does not do.
const STEPS: &str = "Put slurm-sharing-job-submit.lua into job_submit.lua, with JobSubmitPlugins=lua, without which no job asks for a part of a GPU. Drain the nodes, restart slurmctld and their slurmd, and resume \
                     them. It takes Slurm 24.11. Take the lines out of job_submit.lua before you take the patch back.";
/// What to do where a line cannot be changed.
const REMEDY: &str = "slurm-sharing.conf has what it should be";

/// Nodes of a line, and how many parts of GPUs each has.
struct Shared {
    file: usize,
    nodes: String,
    gres: String,
    parts: u32,
}

/// The lines of nodes whose GPUs are to be shared. What of them cannot be is told.
fn nodes_of(editing: &mut SlurmFiles<'_>, gpu: &str, part: SlurmPart) -> Vec<Shared> {
    let shared = |line: NodeLine| {
        let list = Gres::list(&line.gres);
        let parts = line.gpus * part.of_gpu;
        let kept =
            list.iter().filter(|one| !one.name.eq_ignore_ascii_case(part.kind)).map(|one| one.written.to_owned());
        let gres = kept.chain([format!("{}:{parts}", part.kind)]).collect::<Vec<String>>().join(",");
        Shared { file: line.file, nodes: line.nodes, gres, parts }
    };
    NodeLine::with_gpus(editing, gpu).into_iter().map(shared).collect()
}

/// The lines of `gres.conf`.
fn devices(editing: &mut SlurmFiles<'_>, shared: &[Shared], part: SlurmPart) {
    let Some(file) = editing.devices() else {
        let lines: Vec<String> =
            shared.iter().map(|of| format!("NodeName={} Name={} Count={}", of.nodes, part.kind, of.parts)).collect();
        return editing.leave(format!("{}: it belongs into gres.conf, which is not among the files", lines.join("; ")));
    };
    let why = "two jobs of the class on a GPU";
    for of in shared {
        let (count, with) = (of.parts.to_string(), [("NodeName", of.nodes.as_str()), ("Name", part.kind)]);
        let Some((_, conf)) = editing.files.get_mut(file) else { return };
        if conf.line(&with).is_some() {
            let what = format!("{} of {}", part.kind, of.nodes);
            editing.set_in((file, &with, &what), ("Count", &count), why, "set it by hand");
            continue;
        }
        let behind = conf.line(&[("NodeName", &of.nodes), ("Name", "gpu")]);
        conf.insert(behind.as_ref(), &format!("NodeName={} Name={} Count={count}", of.nodes, part.kind));
        editing.tell(file, &format!("{} of {}: Count", part.kind, of.nodes), (None, &count), why);
    }
}

/// Partitions that have one of these nodes: a job goes to the node that is used least.
fn partitions(editing: &mut SlurmFiles<'_>, shared: &[Shared]) {
    let names = |text: &str| hostlist::expand(text, MOST_NODES).unwrap_or_else(|_| vec![text.to_owned()]);
    let ours: BTreeSet<String> = shared.iter().flat_map(|of| names(&of.nodes)).collect();
    let mut found = Vec::new();
    for (file, (_, conf)) in editing.files.iter().enumerate() {
        for line in conf.lines() {
            let Some(name) = conf.get(&line, "PartitionName").filter(|name| !name.eq_ignore_ascii_case("default"))
            else {
                continue;
            };
            let nodes = conf.get(&line, "Nodes").map(str::to_owned).or_else(|| conf.default_of(&line, "Nodes"));
            let has =
                |nodes: &str| nodes.eq_ignore_ascii_case("all") || names(nodes).iter().any(|node| ours.contains(node));
            if nodes.is_some_and(|nodes| has(&nodes)) {
                found.push((file, name.to_owned()));
            }
        }
    }
    if found.is_empty() {
        editing.leave("LLN=YES of the partitions of these nodes: the files have no such partition; without it jobs fill one node after another, and share while GPUs of others are empty".to_owned());
    }
    for (file, name) in found {
        let why = "a job goes to the node that is used least, so that two share where hardly any GPU is empty";
        editing.set_in((file, &[("PartitionName", &name)], &format!("partition {name}")), ("LLN", "YES"), why, REMEDY);
    }
}

/// A patch to the files that are Slurm's.
///
/// # Errors
/// As [`emit::slurm`](super::emit::slurm).
pub fn slurm(answer: &SharingPlanAnswer, site: &SharingSite, files: &[OwnFile]) -> Result<Patch> {
    let part = SlurmPart::of(answer, site)?;
    let mut editing = SlurmFiles::of(files);
    if let Some((plan, _)) = one_class(answer) {
        put_in(&mut editing, gpu_of(plan), part);
    }
    Ok(editing.patch(about(answer, HowSet::OneClass), STEPS))
}

/// Lets jobs share the GPUs of a type.
fn put_in(editing: &mut SlurmFiles<'_>, gpu: &str, part: SlurmPart) {
    let mut shared = nodes_of(editing, gpu, part);
    let why = format!("two jobs of the class may share a GPU, which has {} {}", part.of_gpu, part.kind);
    shared.retain(|of| {
        let (with, what) = ([("NodeName", of.nodes.as_str())], format!("nodes {}", of.nodes));
        editing.set_in((of.file, &with, &what), ("Gres", &of.gres), &why, REMEDY)
    });
    if shared.is_empty() {
        return editing.leave(format!(
            "the nodes: the files have no line with NodeName that can be changed and GPUs of the type {gpu} in its Gres; {REMEDY}"
        ));
    }
    devices(editing, &shared, part);
    editing.add("GresTypes", &["gpu", part.kind], "nodes have parts of GPUs");
    placing(editing);
    partitions(editing, &shared);
}

/// How Slurm chooses GPUs: what is added to what the site has.
fn placing(editing: &mut SlurmFiles<'_>) {
    if let Some(kind) = editing.global("SelectType").filter(|kind| !kind.eq_ignore_ascii_case("select/cons_tres")) {
        let kind = kind.to_owned();
        editing.leave(format!("SelectType={kind}: parts of GPUs need select/cons_tres, which changes how all jobs are placed; set it by hand, before all else"));
    }
    let why = "a job goes to the GPU of its node that is used least";
    if editing.global("SelectTypeParameters").is_some() {
        editing.add("SelectTypeParameters", &["LL_SHARED_GRES"], why);
    } else {
        editing
            .leave(format!("SelectTypeParameters: add LL_SHARED_GRES to what holds where the key is not set ({why})"));
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    const SLURM: &str = "ClusterName=site\nGresTypes=gpu\nSelectType=select/cons_tres\nSelectTypeParameters=CR_Core_Memory # ours\n\
                         NodeName=gpu[01-04] Gres=gpu:a100:8(S:0-1),nic:2 CPUs=128\nNodeName=old1 Gres=gpu:k80:4\nNodeName=cpu[1-9] CPUs=64\n\
                         PartitionName=batch Nodes=gpu[03-04],cpu1 MaxTime=7-0\nPartitionName=old Nodes=old1\nPartitionName=all Nodes=ALL LLN=NO\n";
    const GRES: &str = "AutoDetect=off\nNodeName=gpu[01-04] Name=gpu Type=a100 File=/dev/nvidia[0-7]\nNodeName=old1 Name=gpu Type=k80 File=/dev/nvidia[0-3]\n";

    fn own(name: &str, text: &str) -> OwnFile {
        OwnFile::new(name.to_owned(), text.to_owned()).unwrap()
    }

    /// The lines that go and come, and what the patch says at its head.
    fn patched(files: &[OwnFile], gpu: &str) -> (Vec<String>, String) {
        let mut editing = SlurmFiles::of(files);
        put_in(&mut editing, gpu, SlurmPart::SHARD);
        let (_, text) = editing.patch(Vec::new(), STEPS).file;
        let (said, diff): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with("# "));
        let changed = diff
            .iter()
            .filter(|line| line.starts_with(['+', '-']) && !line.starts_with("+++") && !line.starts_with("---"));
        (changed.map(|line| (*line).to_owned()).collect(), said.join("\n"))
    }

    #[test]
    fn the_worked_example() {
        let (changed, said) = patched(&[own("slurm.conf", SLURM), own("gres.conf", GRES)], "A100");
        let expected = [
            "-GresTypes=gpu",
            "-SelectTypeParameters=CR_Core_Memory # ours",
            "-NodeName=gpu[01-04] Gres=gpu:a100:8(S:0-1),nic:2 CPUs=128",
            "-PartitionName=batch Nodes=gpu[03-04],cpu1 MaxTime=7-0",
            "-PartitionName=all Nodes=ALL LLN=NO",
            "+GresTypes=gpu,shard",
            "+SelectTypeParameters=CR_Core_Memory,LL_SHARED_GRES # ours",
            "+NodeName=gpu[01-04] Gres=gpu:a100:8(S:0-1),nic:2,shard:16 CPUs=128",
            "+PartitionName=batch Nodes=gpu[03-04],cpu1 MaxTime=7-0 LLN=YES",
            "+PartitionName=all Nodes=ALL LLN=YES",
            "+NodeName=gpu[01-04] Name=shard Count=16",
        ];
        let sorted = |mut lines: Vec<String>| {
            lines.sort_unstable();
            lines
        };
        assert_eq!(sorted(changed), sorted(expected.map(str::to_owned).to_vec()), "{said}");
        assert!(said.contains("nodes gpu[01-04]: Gres gpu:a100:8(S:0-1),nic:2 → gpu:a100:8(S:0-1),nic:2,shard:16: two jobs of the class"), "{said}");
        assert!(!said.contains("Not in this patch"), "{said}");
    }

    #[test]
    fn what_is_set_already_stays() {
        let (set, devices) = (
            SLURM.replace("nic:2", "nic:2,shard:8").replace("GresTypes=gpu", "GresTypes=gpu,shard"),
            format!("{GRES}NodeName=gpu[01-04] Name=shard Count=8\n"),
        );
        let (changed, _) = patched(&[own("slurm.conf", &set), own("gres.conf", &devices)], "a100");
        assert!(changed.contains(&"+NodeName=gpu[01-04] Name=shard Count=16".to_owned()), "{changed:?}");
        assert!(changed.contains(&"-NodeName=gpu[01-04] Name=shard Count=8".to_owned()), "{changed:?}");
        assert!(!changed.iter().any(|line| line.contains("GresTypes")), "{changed:?}");
    }

    #[test]
    fn what_cannot_be_put_in_is_told() {
        let linear = SLURM
            .replace("select/cons_tres", "select/linear")
            .replace("SelectTypeParameters=CR_Core_Memory # ours\n", "");
        let (changed, said) = patched(&[own("slurm.conf", &linear)], "a100");
        assert!(
            changed.iter().any(|line| line.contains("shard:16"))
                && !changed.iter().any(|line| line.contains("SelectType")),
            "{changed:?}"
        );
        for told in [
            "it belongs into gres.conf",
            "SelectType=select/linear: parts of GPUs need select/cons_tres",
            "SelectTypeParameters: add LL_SHARED_GRES",
        ] {
            assert!(said.contains(told), "{told}: {said}");
        }
        // Two types in the files, and none of them is that of the plan.
        let (changed, said) = patched(&[own("slurm.conf", SLURM)], "h100");
        assert!(changed.is_empty() && said.contains("GPUs of the type h100"), "{said}");
        let mixed =
            SLURM.replace("nic:2", "gpu:t4:2").replace("NodeName=old1", "NodeName=DEFAULT").replace("k80", "a100");
        let (changed, said) = patched(&[own("slurm.conf", &mixed)], "a100");
        assert!(changed.is_empty(), "{changed:?}");
        assert!(said.contains("of several types (a100, t4)") && said.contains("NodeName=DEFAULT"), "{said}");
    }
}
