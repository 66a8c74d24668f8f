//! A plan of sharing as a patch to a site's own `slurm.conf` and `gres.conf`, beside the files that [`emit`](super::emit) writes anew.
//!
//! Of each `NodeName` line whose `Gres` has GPUs of the plan's type (or of none, where no line names one), `Gres` gets the parts of a GPU, and `gres.conf` a line for the same nodes: both or neither, as a node
//! that reports fewer than it is to have is drained. `GresTypes` and `SelectTypeParameters` get what they lack, and `LLN=YES` the partitions of these nodes, which is told, as it is for all of their jobs. What cannot be put in is told with the
//! reason: slices as lines with `MultipleFiles`, each file of which Slurm 22.05 takes for a GPU once there are shards (`tests/e2e/sharing.rs`), no `gres.conf`, one that does not say where the nodes' GPUs are, parts of GPUs that it has for other nodes of a line, another `SelectType`, `LLN=NO`, lines that leave their nodes to `NodeName=DEFAULT`, nodes with GPUs of several types.
//! Where nothing of a plan that is to be followed can be put in, that is an error with all reasons, and no file is written.
//!
//! O(bytes × nodes). Worked example: `NodeName=gpu[01-04] Gres=gpu:a100:8 CPUs=128` becomes `NodeName=gpu[01-04] Gres=gpu:a100:8,shard:16 CPUs=128`, and `gres.conf` gets
//! `NodeName=gpu[01-04] Name=shard Count=16`.

use std::collections::BTreeSet;

use tracecast_analytics::report::format;

use super::answer::SharingPlanAnswer;
use super::emit::{SharingSite, SlurmPart, about, gpu_of, one_class};
use super::study::HowSet;
use crate::error::Result;
use crate::plan::emit::own::{OwnFile, Patch};
use crate::plan::emit::slurm::hosts::names;
use crate::plan::emit::slurm::{ConfLine, Gres, NodeLine, SlurmFiles};
use crate::replay::input::is_of_type;

/// Steps that the patch alone does not do.
const STEPS: &str = "It takes Slurm 24.11. Drain the nodes first; then restart slurmctld and their slurmd, and resume them. Put slurm-sharing-job-submit.lua into job_submit.lua, with JobSubmitPlugins=lua, without which no job asks \
                     for a part of a GPU, and take its lines out before you take the patch back.";
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
        let parts = line.gpus.saturating_mul(part.of_gpu);
        let wanted = format!("{}:{parts}", part.kind);
        let is_part = |one: &&Gres<'_>| one.name.eq_ignore_ascii_case(part.kind);
        let kept = list.iter().filter(|one| !is_part(one)).map(|one| one.written.to_owned());
        // What is there already stays where it is.
        let gres = match list.iter().filter(is_part).collect::<Vec<_>>()[..] {
            [one] if one.written == wanted => line.gres.clone(),
            _ => kept.chain([wanted]).collect::<Vec<String>>().join(","),
        };
        Shared { file: line.file, nodes: line.nodes, gres, parts }
    };
    let mut lines = NodeLine::with_gpus(editing, gpu);
    lines.retain(|line| {
        let refused = part == SlurmPart::MPS && line.gpus > 1;
        if refused {
            editing.leave(format!(
                "nodes {}: Slurm lets only one GPU of a node be shared through gres/mps at a time, and they have {}",
                line.nodes, line.gpus
            ));
        }
        !refused
    });
    lines.into_iter().map(shared).collect()
}

/// Whether a key of a line of nodes is of some of these; a line without `NodeName` is of all.
fn is_of(line: &ConfLine, nodes: &BTreeSet<String>) -> bool {
    line.get("NodeName").is_none_or(|other| names(other).iter().any(|node| nodes.contains(node)))
}

/// Whether `gres.conf` says where all GPUs of these nodes are, by a line or by looking for them; without that Slurm has nothing of which parts could be.
fn has_devices(editing: &mut SlurmFiles<'_>, file: usize, of: &Shared, part: SlurmPart) -> bool {
    let Some((own, conf)) = editing.files.get(file) else { return false };
    let nodes: BTreeSet<String> = names(&of.nodes).into_iter().collect();
    let (mut named, mut finding, mut not_finding) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let mut all_find = false;
    for line in conf.lines() {
        let on: Option<Vec<String>> = line.get("NodeName").map(names);
        if line.get("Name").is_some_and(|name| name.eq_ignore_ascii_case("gpu")) {
            named.extend(on.clone().unwrap_or_else(|| nodes.iter().cloned().collect()));
        }
        // `off` finds none; what a node says of itself holds for it.
        match (line.get("AutoDetect").map(|by| !by.eq_ignore_ascii_case("off")), on) {
            (Some(finds), None) => all_find = finds,
            (Some(true), Some(on)) => finding.extend(on),
            (Some(false), Some(on)) => not_finding.extend(on),
            (None, _) => {}
        }
    }
    let has =
        |node: &&String| named.contains(*node) || finding.contains(*node) || (all_find && !not_finding.contains(*node));
    let missing: Vec<String> = nodes.iter().filter(|node| !has(node)).cloned().collect();
    if missing.is_empty() {
        return true;
    }
    let told = format!(
        "nodes {}: {} has no line for the GPUs of {}, of which {} {} would be parts; give them one, such as NodeName={} Name=gpu File=/dev/nvidia[0-{}], or AutoDetect=nvml, and ask again",
        of.nodes,
        own.name,
        format::names(&missing, 6),
        of.parts,
        part.kind,
        of.nodes,
        (of.parts / part.of_gpu).saturating_sub(1)
    );
    editing.leave(told);
    false
}

/// Whether `gres.conf` can have these parts: it has none for them yet, or a line of its own for the same nodes.
fn can_follow(editing: &mut SlurmFiles<'_>, file: usize, of: &Shared, part: SlurmPart) -> bool {
    let Some((_, conf)) = editing.files.get(file) else { return false };
    let ours: BTreeSet<String> = names(&of.nodes).into_iter().collect();
    let is_part = |line: &ConfLine| line.get("Name").is_some_and(|name| name.eq_ignore_ascii_case(part.kind));
    let others = conf.lines().iter().enumerate().filter(|(_, line)| {
        is_part(line) && is_of(line, &ours) && (line.get("NodeName") != Some(of.nodes.as_str()) || line.is_divided)
    });
    let told: Vec<String> = others.map(|(at, _)| conf.copy(at)).collect();
    if told.is_empty() {
        return true;
    }
    editing.leave(format!(
        "nodes {}: gres.conf has `{}`, which is of other nodes as well, or goes on in the next line; divide it by hand, to Count={} for these nodes",
        of.nodes,
        told.join("`, `"),
        of.parts
    ));
    false
}

/// The lines of `gres.conf`.
fn devices(editing: &mut SlurmFiles<'_>, file: usize, shared: &[Shared], part: SlurmPart) {
    let why = "two jobs of the class on a GPU";
    for of in shared {
        let (count, with) = (of.parts.to_string(), [("NodeName", of.nodes.as_str()), ("Name", part.kind)]);
        let Some((_, conf)) = editing.files.get_mut(file) else { return };
        if conf.find(&with).is_some() {
            let what = format!("{} of {}", part.kind, of.nodes);
            editing.set_in((file, &with, &what), ("Count", &count), why, REMEDY);
            continue;
        }
        let behind = conf.find(&[("NodeName", &of.nodes), ("Name", "gpu")]);
        conf.insert(behind, &format!("NodeName={} Name={} Count={count}", of.nodes, part.kind));
        editing.tell(file, &format!("{} of {}: Count", part.kind, of.nodes), (None, &count), why);
    }
}

/// Partitions that have one of these nodes: a job goes to the node that is used least.
fn partitions(editing: &mut SlurmFiles<'_>, shared: &[Shared]) {
    let ours: BTreeSet<String> = shared.iter().flat_map(|of| names(&of.nodes)).collect();
    let known = editing.files.iter().flat_map(|(_, conf)| conf.values("NodeName"));
    let known: BTreeSet<String> = known.flat_map(names).collect();
    let (mut result, mut left) = (Vec::new(), Vec::new());
    for (file, (_, conf)) in editing.files.iter().enumerate() {
        for (at, line) in conf.lines().iter().enumerate() {
            let Some(name) = line.get("PartitionName").filter(|name| !name.eq_ignore_ascii_case("default")) else {
                continue;
            };
            let nodes = line.get("Nodes").or_else(|| conf.default_of(at, "Nodes"));
            let has =
                |nodes: &str| nodes.eq_ignore_ascii_case("all") || names(nodes).iter().any(|node| ours.contains(node));
            let Some(nodes) = nodes else { continue };
            if has(nodes) {
                match line.get("LLN") {
                    Some(value) if !value.eq_ignore_ascii_case("yes") => left.push(format!(
                        "partition {name}: it has LLN={value}; with YES fewer jobs would share while GPUs of other nodes are empty"
                    )),
                    _ => result.push((file, name.to_owned())),
                }
            } else if names(nodes).iter().any(|node| !known.contains(node)) {
                left.push(format!("partition {name}: no line of the files names its nodes ({nodes}); if they are among these, give it LLN=YES"));
            }
        }
    }
    if result.is_empty() && left.is_empty() {
        editing.leave("LLN=YES of the partitions of these nodes: the files have no such partition; without it jobs fill one node after another, and share while GPUs of others are empty".to_owned());
    }
    left.into_iter().for_each(|told| editing.leave(told));
    for (file, name) in result {
        let why = "a job goes to the node that is used least, so that two share where hardly any GPU is empty; that holds for all jobs of the partition, and spreads those that need processors alone";
        editing.set_in((file, &[("PartitionName", &name)], &format!("partition {name}")), ("LLN", "YES"), why, REMEDY);
    }
}

/// A patch to the files that are Slurm's.
///
/// # Errors
/// Errors of [`emit::slurm`](super::emit::slurm), and if nothing of a plan that is to be followed
/// can be put into the files.
pub fn slurm(answer: &SharingPlanAnswer, site: &SharingSite, files: &[OwnFile]) -> Result<Patch> {
    let part = SlurmPart::new(answer, site)?;
    let mut editing = SlurmFiles::new(files);
    let is_in = one_class(answer).is_some_and(|(plan, _)| put_in(&mut editing, gpu_of(plan, site), part));
    editing.patch(about(answer, HowSet::OneClass), STEPS).whole_or_told(is_in)
}

/// Lets jobs share the GPUs of a type; whether some nodes let them then.
fn put_in(editing: &mut SlurmFiles<'_>, gpu: &str, part: SlurmPart) -> bool {
    if let Some(kind) = editing.global("SelectType").filter(|kind| !kind.eq_ignore_ascii_case("select/cons_tres")) {
        let kind = kind.to_owned();
        editing.leave(format!("SelectType={kind}: parts of GPUs need select/cons_tres, which changes how all jobs are placed; set it by hand, and ask again"));
        return false;
    }
    let Some(file) = editing.devices() else {
        editing.leave("gres.conf is not among the files, or says nothing of GPUs; without its lines the nodes would have fewer parts of GPUs than slurm.conf says, and be drained".to_owned());
        return false;
    };
    if editing.files.iter().any(|(_, conf)| conf.values("MultipleFiles").next().is_some()) {
        editing.leave(format!(
            "GresTypes={}: gres.conf has slices as lines with MultipleFiles, and beside such parts Slurm 22.05 takes each of their files for a GPU, so that jobs start with fewer GPUs than they asked for, or none; later versions were not tried: let NVML find the slices, or try it by hand",
            part.kind
        ));
        return false;
    }
    let mut shared = nodes_of(editing, gpu, part);
    let why = format!("two jobs of the class may share a GPU, which has {} {}", part.of_gpu, part.kind);
    shared.retain(|of| {
        let (with, what) = ([("NodeName", of.nodes.as_str())], format!("nodes {}", of.nodes));
        has_devices(editing, file, of, part)
            && can_follow(editing, file, of, part)
            && editing.set_in((of.file, &with, &what), ("Gres", &of.gres), &why, REMEDY)
    });
    if shared.is_empty() {
        editing.leave(format!(
            "the nodes: the files have no line with NodeName that can be changed and GPUs of the type {gpu} in its Gres{}; {REMEDY}",
            others(editing, gpu)
        ));
        return false;
    }
    devices(editing, file, &shared, part);
    editing.add("GresTypes", &["gpu", part.kind], "nodes have parts of GPUs");
    placing(editing);
    partitions(editing, &shared);
    true
}

/// The GPU types that the files do name, where the plan's may be one of them under another name.
fn others(editing: &SlurmFiles<'_>, gpu: &str) -> String {
    let all = editing.files.iter().flat_map(|(_, conf)| conf.values("Gres"));
    let types: BTreeSet<String> = all.flat_map(Gres::gpu_types).filter(|of| !of.is_empty()).collect();
    let is_there = types.iter().any(|of| is_of_type(of, std::iter::empty(), gpu));
    let Some(first) = types.first().filter(|_| !is_there) else { return String::new() };
    let all = types.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    format!(
        " (they have {all}; if the plan's GPUs are among these, say so with --slurm-type, such as --slurm-type {first})"
    )
}

/// How Slurm chooses GPUs: what is added to what the site has.
fn placing(editing: &mut SlurmFiles<'_>) {
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
    use crate::plan::emit::slurm::check_gpus;

    const SLURM: &str = "ClusterName=site\nGresTypes=gpu\nSelectType=select/cons_tres\nSelectTypeParameters=CR_Core_Memory # ours\n\
                         NodeName=gpu[01-04] Gres=gpu:a100:8(S:0-1),nic:2 CPUs=128\nNodeName=old1 Gres=gpu:k80:4\nNodeName=cpu[1-9] CPUs=64\n\
                         PartitionName=batch Nodes=gpu[03-04],cpu1 MaxTime=7-0\nPartitionName=old Nodes=old1\nPartitionName=all Nodes=ALL LLN=NO\n";
    const GRES: &str = "AutoDetect=off\nNodeName=gpu[01-04] Name=gpu Type=a100 File=/dev/nvidia[0-7]\nNodeName=old1 Name=gpu Type=k80 File=/dev/nvidia[0-3]\n";

    fn own(name: &str, text: &str) -> OwnFile {
        OwnFile::new(name.to_owned(), text.to_owned()).unwrap()
    }

    /// The lines that go and come, and what the patch says at its head.
    fn patched(files: &[OwnFile], gpu: &str) -> (Vec<String>, String) {
        let mut editing = SlurmFiles::new(files);
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
            "+GresTypes=gpu,shard",
            "+SelectTypeParameters=CR_Core_Memory,LL_SHARED_GRES # ours",
            "+NodeName=gpu[01-04] Gres=gpu:a100:8(S:0-1),nic:2,shard:16 CPUs=128",
            "+PartitionName=batch Nodes=gpu[03-04],cpu1 MaxTime=7-0 LLN=YES",
            "+NodeName=gpu[01-04] Name=shard Count=16",
        ];
        let sorted = |mut lines: Vec<String>| {
            lines.sort_unstable();
            lines
        };
        assert_eq!(sorted(changed), sorted(expected.map(str::to_owned).to_vec()), "{said}");
        assert!(said.contains("nodes gpu[01-04]: Gres gpu:a100:8(S:0-1),nic:2 → gpu:a100:8(S:0-1),nic:2,shard:16: two jobs of the class"), "{said}");
        // What somebody decided otherwise stays, and is told.
        assert!(
            said.contains("Not in this patch:\n#   partition all: it has LLN=NO") && said.matches("#   ").count() == 6,
            "{said}"
        );
    }

    /// Pairs of one's own name the GPU as its driver does.
    #[test]
    fn where_no_nodes_are_found_the_types_of_the_files_are_told() {
        let files = [own("slurm.conf", SLURM), own("gres.conf", GRES)];
        let (changed, said) = patched(&files, "NVIDIA H100 80GB HBM3");
        assert_eq!(changed, Vec::<String>::new());
        let hint = "they have a100, k80; if the plan's GPUs are among these, say so with --slurm-type, such as --slurm-type a100";
        assert!(said.contains(hint), "{said}");
        // The nodes are there, and cannot be changed for another reason.
        let (_, said) = patched(&[own("slurm.conf", SLURM), own("gres.conf", "NodeName=old1 Name=gpu\n")], "A100");
        assert!(said.contains("no line with NodeName that can be changed") && !said.contains("--slurm-type"), "{said}");
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

    /// Where one file cannot follow, the other is left alone as well: a node that reports fewer parts than it is to have is drained.
    #[test]
    fn half_of_it_is_never_put_in() {
        let linear = SLURM.replace("select/cons_tres", "select/linear");
        let sliced = format!(
            "{GRES}NodeName=mig1 Name=gpu Type=a100_1g.5gb MultipleFiles=/dev/nvidia0,/dev/nvidia-caps/nvidia-cap30,/dev/nvidia-caps/nvidia-cap31\n"
        );
        let whole = format!("{GRES}Name=shard Count=8\n");
        let part = format!("{GRES}NodeName=gpu[01-02] Name=shard Count=8\n");
        // Regression test: nodes whose GPUs gres.conf does not name got shards.
        let nowhere =
            "AutoDetect=off\nNodeName=gpu[01-02] Name=gpu File=/dev/nvidia[0-7]\nNodeName=gpu03 AutoDetect=off\n";
        for (conf, gres, told) in [
            (SLURM, None, "gres.conf is not among the files"),
            (SLURM, Some(whole.as_str()), "nodes gpu[01-04]: gres.conf has `Name=shard Count=8`"),
            (SLURM, Some(part.as_str()), "divide it by hand, to Count=16"),
            (
                SLURM,
                Some(nowhere),
                "gres.conf has no line for the GPUs of gpu03, gpu04, of which 16 shard would be parts; give them one, such as NodeName=gpu[01-04] Name=gpu File=/dev/nvidia[0-7], or AutoDetect=nvml",
            ),
            (SLURM, Some(sliced.as_str()), "gres.conf has slices as lines with MultipleFiles"),
            (linear.as_str(), Some(GRES), "SelectType=select/linear: parts of GPUs need select/cons_tres"),
        ] {
            let files: Vec<OwnFile> = [Some(own("slurm.conf", conf)), gres.map(|gres| own("gres.conf", gres))]
                .into_iter()
                .flatten()
                .collect();
            let (changed, said) = patched(&files, "a100");
            assert!(changed.is_empty() && said.contains(told), "{told}: {changed:?} {said}");
        }
    }

    /// Regression test: files without nodes were patched with nothing, and all was reported to be
    /// well.
    #[test]
    fn files_into_which_nothing_can_be_put_are_refused() {
        let told = |files: &[OwnFile]| check_gpus(files).map_or_else(|error| error.to_string(), |()| String::new());
        let (slurm, gres) = (own("slurm.conf", SLURM), own("gres.conf", GRES));
        let bare = own("etc/cgroup.conf", "CgroupPlugin=autodetect\nConstrainDevices=yes\n");
        let result = told(&[bare.clone(), gres.clone()]);
        assert!(
            result.contains("no line of etc/cgroup.conf (2 lines), gres.conf (3 lines) has NodeName and GPUs")
                && result.contains("name the slurm.conf that has the nodes"),
            "{result}"
        );
        assert_eq!((told(&[slurm.clone(), bare]), told(&[])), (String::new(), String::new()));
        let put = |files: &[OwnFile], gpu: &str| {
            let mut editing = SlurmFiles::new(files);
            let is_in = put_in(&mut editing, gpu, SlurmPart::SHARD);
            editing.patch(Vec::new(), STEPS).whole_or_told(is_in)
        };
        let error = put(std::slice::from_ref(&slurm), "a100").unwrap_err().to_string();
        assert!(error.contains("nothing of the plan can be put into your files: gres.conf is not among"), "{error}");
        assert!(put(&[slurm, gres], "a100").is_ok_and(|patch| patch.made == 5));
    }

    /// Regression test: where something of a plan cannot be put in, asking for the patch again
    /// after it was applied was an error.
    #[test]
    fn a_patch_that_was_applied_has_nothing_to_change() {
        let set = SLURM
            .replace("(S:0-1),nic:2", "(S:0-1),shard:16,nic:2")
            .replace("GresTypes=gpu", "GresTypes=gpu,shard")
            .replace("CR_Core_Memory", "CR_Core_Memory,LL_SHARED_GRES")
            .replace("MaxTime=7-0", "MaxTime=7-0 LLN=YES");
        let devices = format!("{GRES}NodeName=gpu[01-04] Name=shard Count=16\n");
        let files = [own("slurm.conf", &set), own("gres.conf", &devices)];
        let mut editing = SlurmFiles::new(&files);
        let is_in = put_in(&mut editing, "a100", SlurmPart::SHARD);
        let patch = editing.patch(Vec::new(), STEPS).whole_or_told(is_in).unwrap();
        let (_, text) = &patch.file;
        assert!(text.contains("# Nothing in the files is to be changed.") && !text.contains("\n+"), "{text}");
        assert!(patch.left.len() == 1 && patch.left[0].starts_with("partition all: it has LLN=NO"), "{:?}", patch.left);
        assert!(
            patch.told().starts_with("slurm.patch: nothing to change in your files; 1 part of the plan"),
            "{}",
            patch.told()
        );
    }

    /// Regression test: nodes that do not look for their GPUs got shards where all others do.
    #[test]
    fn a_node_that_does_not_look_for_its_gpus_needs_a_line() {
        let both = "AutoDetect=nvml\nNodeName=gpu[03-04] AutoDetect=off\n";
        let named = format!("{both}NodeName=gpu[03-04] Name=gpu Type=a100 File=/dev/nvidia[0-7]\n");
        let backwards = "NodeName=gpu[01-04] AutoDetect=nvml\nAutoDetect=off\n";
        for (gres, told) in [(both, Some("no line for the GPUs of gpu03, gpu04")), (&named, None), (backwards, None)] {
            let (changed, said) = patched(&[own("slurm.conf", SLURM), own("gres.conf", gres)], "a100");
            match told {
                Some(told) => assert!(changed.is_empty() && said.contains(told), "{gres}: {changed:?} {said}"),
                None => {
                    assert!(changed.contains(&"+NodeName=gpu[01-04] Name=shard Count=16".to_owned()), "{gres}: {said}");
                }
            }
        }
    }

    /// Nodes that look for their GPUs by themselves need no line for them.
    #[test]
    fn gpus_that_nodes_find_need_no_line() {
        for gres in
            ["AutoDetect=nvml\n", "NodeName=gpu[01-04] AutoDetect=nvml\n", "Name=gpu Type=a100 File=/dev/nvidia[0-7]\n"]
        {
            let (changed, said) = patched(&[own("slurm.conf", SLURM), own("gres.conf", gres)], "a100");
            assert!(changed.contains(&"+NodeName=gpu[01-04] Name=shard Count=16".to_owned()), "{gres} {said}");
        }
    }

    #[test]
    fn what_cannot_be_put_in_is_told() {
        let bare =
            SLURM.replace("SelectTypeParameters=CR_Core_Memory # ours\n", "").replace("Nodes=old1", "Nodes=set_a");
        let (changed, said) = patched(&[own("slurm.conf", &bare), own("gres.conf", GRES)], "a100");
        assert!(changed.iter().any(|line| line.contains("shard:16")), "{changed:?}");
        assert!(said.contains("SelectTypeParameters: add LL_SHARED_GRES"), "{said}");
        assert!(said.contains("partition old: no line of the files names its nodes (set_a)"), "{said}");
        // Two types in the files, and none of them is that of the plan.
        let (changed, said) = patched(&[own("slurm.conf", SLURM), own("gres.conf", GRES)], "h100");
        assert!(changed.is_empty() && said.contains("GPUs of the type h100"), "{said}");
        let mixed =
            SLURM.replace("nic:2", "gpu:t4:2").replace("NodeName=old1", "NodeName=DEFAULT").replace("k80", "a100");
        let (changed, said) = patched(&[own("slurm.conf", &mixed), own("gres.conf", GRES)], "a100");
        assert!(changed.is_empty(), "{changed:?}");
        assert!(said.contains("of several types (a100, t4)") && said.contains("NodeName=DEFAULT"), "{said}");
    }
}
