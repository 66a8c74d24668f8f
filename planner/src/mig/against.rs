//! A plan of partitions as a patch to a site's own `slurm.conf` and `gres.conf`, beside the files that [`emit`] writes anew.
//!
//! Nodes with GPUs of the plan's type are given its configurations in the order of the files: first those that have one already, so that the same patch asked for again changes nothing, then all others. Of a node that gets slices, `Gres`
//! in `slurm.conf` has them by type, and `gres.conf` lets NVML find them: a line that names the whole GPUs goes, or keeps its other nodes. Both or neither. A line of nodes that get several configurations is divided, each part with all that the line
//! said. What cannot be put in is told with the reason: GPUs without a type, parts of GPUs (`shard`, `mps`), another number of GPUs, `gres.conf` lines for all nodes, lines that cannot be divided.
//!
//! O(nodes × configurations + bytes × lines). Worked example: a plan of a node of 2 × `2x3g.20gb` and 6 whole GPUs makes of `NodeName=gpu[01-04] Gres=gpu:a100:8` the lines `NodeName=gpu01 Gres=gpu:a100:6,gpu:a100_3g.20gb:4`
//! and `NodeName=gpu[02-04] Gres=gpu:a100:8`, and of `NodeName=gpu[01-04] Name=gpu Type=a100 File=/dev/nvidia[0-7]` in `gres.conf` one for `gpu[02-04]`, with `NodeName=gpu01 AutoDetect=nvml` behind it.

use std::collections::{BTreeMap, BTreeSet};

use super::answer::MigAnswer;
use super::emit::{self, MigSite};
use crate::error::Result;
use crate::plan::emit::own::{OwnFile, Patch};
use crate::plan::emit::slurm::hosts::{list, names};
use crate::plan::emit::slurm::{Conf, ConfLine, Gres, SlurmFiles};
use crate::replay::input::plain_type;

/// What was done, or why not.
type Told<T> = std::result::Result<T, String>;

/// Keys of a line of nodes that have a value for each of them.
const OF_EACH: [&str; 4] = ["NodeHostname", "NodeAddr", "Port", "BcastAddr"];
/// Steps that the patch alone does not do.
const STEPS: &str = "Drain the nodes that change, partition their GPUs (nvidia-mig-parted apply -f mig-parted.yaml -c CONFIGURATION), load the files by a restart of slurmctld and of their slurmd, compare slurmd -G with the new Gres on one of each \
                     configuration, and resume them. Slurm must be built with NVML; where it is not, write the slices as lines with MultipleFiles in place of AutoDetect=nvml, as slurm-mig-gres.conf says.";
/// What to do where a line cannot be changed.
const REMEDY: &str = "slurm-mig.conf has what it should be";

/// A configuration that nodes are to have.
struct Wanted {
    name: String,
    /// Nodes that do not have it yet.
    left: u32,
    /// GPUs and slices, as `Gres` lists them.
    gpus: String,
    /// Whether it has slices.
    is_cut: bool,
}

/// A line of nodes with GPUs of the plan's type.
struct Nodes {
    file: usize,
    /// Names of the nodes as the line writes them.
    written: String,
    names: Vec<String>,
    gres: String,
    /// GPUs of the line, without other resources, in order.
    gpus: String,
    /// What each node is to have, by its place among the configurations.
    get: Vec<Option<usize>>,
}

/// Whether a type is the plan's GPU, or a slice of it (`a100_3g.20gb`).
fn is_meant(of: &str, gpu: &str) -> bool {
    let whole = |text: &str| plain_type(text) == plain_type(gpu);
    whole(of) || of.rsplit_once('_').is_some_and(|(before, profile)| whole(before) && profile.contains("g."))
}

/// The GPUs of a `Gres` as they are compared: in order of their types.
fn sorted(gpus: &str) -> String {
    let mut parts: Vec<&str> = gpus.split(',').collect();
    parts.sort_unstable();
    parts.join(",")
}

/// The lines of nodes that the plan may be for. Those that cannot be changed for it are told.
fn nodes_of(editing: &mut SlurmFiles<'_>, gpu: &str, per_node: u32) -> Vec<Nodes> {
    let mut lines: Vec<(usize, String, String, bool)> = Vec::new();
    for (file, (_, conf)) in editing.files.iter().enumerate() {
        lines.extend(conf.lines().iter().filter_map(|line| {
            Some((file, line.get("NodeName")?.to_owned(), line.get("Gres")?.to_owned(), line.is_divided))
        }));
    }
    let mut result = Vec::new();
    for (file, written, gres, is_odd) in lines {
        let list = Gres::list(&gres);
        let gpus: Vec<&Gres<'_>> = list.iter().filter(|one| one.is_gpu()).collect();
        let of_plan = gpus.iter().any(|one| one.gpu_type.is_some_and(|of| is_meant(of, gpu)));
        let why = if gpus.is_empty() || (!of_plan && gpus.iter().all(|one| one.gpu_type.is_some())) {
            continue;
        } else if gpus.iter().any(|one| one.gpu_type.is_none()) {
            format!("their GPUs have no type, and slices have one; write gpu:{gpu}:{per_node}, and ask again")
        } else if gpus.iter().any(|one| !one.gpu_type.is_some_and(|of| is_meant(of, gpu))) {
            "they have GPUs of other types as well".to_owned()
        } else if written.eq_ignore_ascii_case("default") {
            "the line holds for those below it; give these a Gres of their own".to_owned()
        } else if list.iter().any(|one| ["shard", "mps"].iter().any(|part| one.name.eq_ignore_ascii_case(part))) {
            format!("they have parts of GPUs ({gres}), which are of whole GPUs; take these back first")
        } else if is_odd {
            format!("a value goes on in the next line, or is added to; {REMEDY}")
        } else {
            // The number of GPUs in slices is not known.
            let whole = gpus.iter().all(|one| one.gpu_type.is_some_and(|of| plain_type(of) == plain_type(gpu)));
            let count = gpus.iter().fold(0u32, |sum, one| sum.saturating_add(one.count));
            if whole && count != per_node {
                format!("they have {count} GPUs each, and the plan is for {per_node}; give --gpus-per-node {count}")
            } else {
                let bare = |one: &&Gres<'_>| one.written.split('(').next().unwrap_or_default().to_owned();
                let gpus = gpus.iter().map(bare).collect::<Vec<String>>().join(",");
                let names = names(&written);
                let get = vec![None; names.len()];
                result.push(Nodes { file, written, names, gres, gpus, get });
                continue;
            }
        };
        editing.leave(format!("nodes {written}: {why}"));
    }
    result
}

/// Why `gres.conf` cannot let NVML find the slices of some of these nodes; none where it can.
fn refused(conf: &Conf, of: &Nodes) -> Option<String> {
    let ours: BTreeSet<&String> = of.names.iter().collect();
    for (at, line) in conf.lines().iter().enumerate() {
        let name = line.get("Name").unwrap_or_default();
        let Some(nodes) = line.get("NodeName") else {
            if ["gpu", "shard", "mps"].iter().any(|kind| name.eq_ignore_ascii_case(kind)) {
                return Some(format!(
                    "gres.conf has `{}` for all nodes; give it the NodeName of those that keep whole GPUs",
                    conf.copy(at)
                ));
            }
            continue;
        };
        if !names(nodes).iter().any(|node| ours.contains(node)) {
            continue;
        }
        let why = if line.is_divided {
            "which goes on in the next line"
        } else if ["shard", "mps"].iter().any(|kind| name.eq_ignore_ascii_case(kind)) {
            "of whole GPUs; take it out first"
        } else {
            continue;
        };
        return Some(format!("gres.conf has `{}`, {why}", conf.copy(at)));
    }
    None
}

/// Deals the configurations out to nodes.
fn deal(lines: &mut [Nodes], wanted: &mut [Wanted]) {
    for has_it in [true, false] {
        for of in lines.iter_mut() {
            for get in of.get.iter_mut().filter(|get| get.is_none()) {
                let suits = |one: &Wanted| one.left > 0 && (!has_it || sorted(&one.gpus) == sorted(&of.gpus));
                let Some(at) = wanted.iter().position(suits) else { continue };
                if let Some(one) = wanted.get_mut(at) {
                    one.left -= 1;
                }
                *get = Some(at);
            }
        }
    }
}

/// Nodes of a line that get the same.
struct Part {
    names: Vec<String>,
    gres: String,
    /// Configuration of the nodes; none where they stay as they are.
    of: Option<usize>,
}

/// The `Gres` of a line with other GPUs, in the place of the first.
fn with_gpus(gres: &str, gpus: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for one in Gres::list(gres) {
        if !one.is_gpu() {
            parts.push(one.written);
        } else if !parts.contains(&gpus) {
            parts.push(gpus);
        }
    }
    parts.join(",")
}

/// The parts of a line, in the order of their first nodes.
fn parts(of: &Nodes, wanted: &[Wanted]) -> Vec<Part> {
    let mut result: Vec<Part> = Vec::new();
    for (name, get) in of.names.iter().zip(&of.get) {
        let target = get.and_then(|at| wanted.get(at));
        let gres = match target {
            Some(target) if sorted(&target.gpus) != sorted(&of.gpus) => with_gpus(&of.gres, &target.gpus),
            _ => of.gres.clone(),
        };
        match result.iter_mut().find(|part| part.gres == gres) {
            Some(part) => part.names.push(name.clone()),
            None => result.push(Part { names: vec![name.clone()], gres, of: *get }),
        }
    }
    result
}

/// What the keys with a value for each node are for some of them; the key that cannot be divided, if there is one.
fn of_each(line: &ConfLine, all: &[String], some: &[String]) -> Told<Vec<(&'static str, String)>> {
    let mut result = Vec::new();
    for key in OF_EACH {
        let Some(value) = line.get(key) else { continue };
        let values = names(value);
        if values.len() == 1 {
            continue;
        }
        if values.len() != all.len() {
            return Err(format!("{key}={value} does not have a value for each node"));
        }
        let of: BTreeMap<&String, &String> = all.iter().zip(&values).collect();
        let kept: Vec<String> = some.iter().filter_map(|name| of.get(name).map(|value| (*value).clone())).collect();
        result.push((key, list(&kept)));
    }
    Ok(result)
}

/// Puts a configuration into the lines of `slurm.conf`; the nodes that get slices, or why the line cannot be divided.
fn divide(editing: &mut SlurmFiles<'_>, of: &Nodes, wanted: &[Wanted]) -> Told<BTreeSet<String>> {
    let parts = parts(of, wanted);
    let Some((_, conf)) = editing.files.get_mut(of.file) else { return Ok(BTreeSet::new()) };
    let Some(at) = conf.find(&[("NodeName", of.written.as_str())]) else { return Ok(BTreeSet::new()) };
    let Some(line) = conf.lines().get(at) else { return Ok(BTreeSet::new()) };
    let mut keys: Vec<Vec<(&str, String)>> = Vec::new();
    for part in &parts {
        let mut own = if parts.len() > 1 { of_each(line, &of.names, &part.names)? } else { Vec::new() };
        own.push(("Gres", part.gres.clone()));
        own.extend((parts.len() > 1).then(|| ("NodeName", list(&part.names))));
        keys.push(own);
    }
    // The last part first, as each comes right behind the line.
    for own in keys.iter().skip(1).rev() {
        let mut copy = Conf::read(&conf.copy(at));
        for (key, value) in own {
            copy.set(0, key, value);
        }
        conf.insert(Some(at), copy.text());
    }
    for (key, value) in keys.first().into_iter().flatten() {
        conf.set(at, key, value);
    }
    for part in parts.iter().filter(|part| part.gres != of.gres) {
        let target = part.of.and_then(|at| wanted.get(at));
        let why = target.map_or_else(String::new, |target| format!("configuration {} of mig-parted.yaml", target.name));
        editing.tell(of.file, &format!("nodes {}: Gres", list(&part.names)), (Some(&of.gres), &part.gres), &why);
    }
    let cut = of.names.iter().zip(&of.get);
    let is_cut = |get: &Option<usize>| get.and_then(|at| wanted.get(at)).is_some_and(|of| of.is_cut);
    Ok(cut.filter(|(_, get)| is_cut(get)).map(|(name, _)| name.clone()).collect())
}

/// Lets NVML find the slices of these nodes.
fn devices(editing: &mut SlurmFiles<'_>, file: usize, cut: &BTreeSet<String>) {
    let why = "NVML finds slices";
    let (mut all_find, mut finding) = (false, BTreeSet::new());
    let mut at = 0;
    while let Some((_, conf)) = editing.files.get_mut(file) {
        let Some(line) = conf.lines().get(at) else { break };
        at += 1;
        let is_gpu = line.get("Name").is_some_and(|name| name.eq_ignore_ascii_case("gpu"));
        let finds = line.get("AutoDetect").map(|by| by.eq_ignore_ascii_case("nvml"));
        let Some(written) = line.get("NodeName").map(str::to_owned) else {
            all_find = finds.unwrap_or(all_find);
            continue;
        };
        let on = names(&written);
        if !is_gpu && finds == Some(true) {
            finding.extend(on);
            continue;
        }
        let kept: Vec<String> = on.iter().filter(|node| !cut.contains(*node)).cloned().collect();
        if !(is_gpu || finds.is_some()) || kept.len() == on.len() {
            continue;
        }
        if kept.is_empty() {
            at -= 1;
            let copy = conf.copy(at);
            conf.remove(at);
            editing.tell(file, "line", (Some(&copy), "none"), why);
        } else {
            let kept = list(&kept);
            conf.set(at - 1, "NodeName", &kept);
            editing.tell(file, "NodeName of whole GPUs", (Some(&written), &kept), why);
        }
    }
    // What a node says of itself holds for it; what said otherwise is gone by now.
    let missing: Vec<String> = cut.iter().filter(|node| !all_find && !finding.contains(*node)).cloned().collect();
    if missing.is_empty() {
        return;
    }
    let nodes = list(&missing);
    if let Some((_, conf)) = editing.files.get_mut(file) {
        conf.insert(None, &format!("NodeName={nodes} AutoDetect=nvml"));
    }
    editing.tell(file, &format!("nodes {nodes}: AutoDetect"), (None, "nvml"), why);
}

/// Gives nodes the configurations; whether some have one then.
fn put_in(editing: &mut SlurmFiles<'_>, gpu: &str, per_node: u32, wanted: &mut [Wanted]) -> bool {
    let Some(file) = editing.devices() else {
        editing.leave("gres.conf is not among the files, or says nothing of GPUs; without its lines the nodes would not find the slices that slurm.conf says they have".to_owned());
        return false;
    };
    let mut lines = nodes_of(editing, gpu, per_node);
    lines.retain(|of| {
        let why = editing.files.get(file).and_then(|(_, conf)| refused(conf, of));
        if let Some(why) = &why {
            editing.leave(format!("nodes {}: {why}", of.written));
        }
        why.is_none()
    });
    deal(&mut lines, wanted);
    let mut cut = BTreeSet::new();
    let mut is_in = false;
    for of in &lines {
        match divide(editing, of, wanted) {
            Ok(nodes) => {
                is_in |= of.get.iter().any(Option::is_some);
                cut.extend(nodes);
            }
            Err(why) => {
                editing.leave(format!("nodes {}: the line cannot be divided, as {why}; {REMEDY}", of.written));
            }
        }
    }
    for one in wanted.iter().filter(|one| one.left > 0) {
        editing.leave(format!(
            "configuration {}: the files have no more nodes with {per_node} {gpu} GPUs that can be changed, and {} would have to have it",
            one.name, one.left
        ));
    }
    let shared = editing
        .global("GresTypes")
        .unwrap_or_default()
        .split(',')
        .find(|kind| ["shard", "mps"].iter().any(|part| kind.eq_ignore_ascii_case(part)));
    if let Some(kind) = shared.map(str::to_owned).filter(|_| !cut.is_empty()) {
        editing.leave(format!(
            "GresTypes has {kind}: with it Slurm 22.05 takes each file of a slice for a GPU where slices are lines with MultipleFiles, and jobs start with fewer GPUs than they asked for, or none; take {kind} out where no node has any, or try a job of each type before you rely on it"
        ));
    }
    if !cut.is_empty() {
        devices(editing, file, &cut);
        editing.add("GresTypes", &["gpu"], "slices are GPUs of a type");
    }
    is_in
}

/// A patch to the files that are Slurm's.
///
/// # Errors
/// Errors of [`emit::slurm`], and if nothing of the plan can be put into the files.
pub fn slurm(answer: &MigAnswer, site: &MigSite, files: &[OwnFile]) -> Result<Patch> {
    emit::check(answer)?;
    let (configurations, gpu) = (emit::nodes(answer, site)?, emit::slurm_type(answer, site));
    let mut wanted: Vec<Wanted> = configurations
        .iter()
        .map(|of| Wanted {
            name: of.name.clone(),
            left: of.nodes,
            gpus: emit::gres(answer, gpu, of),
            is_cut: of.gpus.iter().any(|(row, _)| !row.is_whole()),
        })
        .collect();
    let mut said = emit::about(answer);
    said.extend(configurations.iter().map(emit::in_words));
    let mut editing = SlurmFiles::new(files);
    let is_in = put_in(&mut editing, gpu, site.gpus_per_node, &mut wanted);
    editing.patch(said, STEPS).whole_or_told(is_in)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    const SLURM: &str = "ClusterName=site\nGresTypes=gpu\nNodeName=gpu[01-04] NodeAddr=10.0.0.[11-14] Gres=nic:2,gpu:a100:8(S:0-1) CPUs=128 # ours\nNodeName=old1 Gres=gpu:k80:4\nPartitionName=batch Nodes=ALL\n";
    const GRES: &str = "AutoDetect=off\nNodeName=gpu[01-04] Name=gpu Type=a100 File=/dev/nvidia[0-7]\nNodeName=old1 Name=gpu Type=k80 File=/dev/nvidia[0-3]\n";

    fn wanted(all: &[(u32, &str)]) -> Vec<Wanted> {
        let of = |(at, (left, gpus)): (usize, &(u32, &str))| Wanted {
            name: format!("mig-{}", at + 1),
            left: *left,
            gpus: (*gpus).to_owned(),
            is_cut: gpus.contains("g."),
        };
        all.iter().enumerate().map(of).collect()
    }

    /// The texts of both files with these configurations, and the patch.
    fn patched(slurm: &str, gres: &str, all: &[(u32, &str)]) -> (String, String, Result<Patch>) {
        let own = |name: &str, text: &str| OwnFile::new(name.to_owned(), text.to_owned()).unwrap();
        let files = [own("slurm.conf", slurm), own("gres.conf", gres)];
        let mut editing = SlurmFiles::new(&files);
        let is_in = put_in(&mut editing, "a100", 8, &mut wanted(all));
        let text = |at: usize| editing.files[at].1.text().to_owned();
        let (slurm, gres) = (text(0), text(1));
        (slurm, gres, editing.patch(Vec::new(), STEPS).whole_or_told(is_in))
    }

    /// Two nodes of one configuration, one of another, and one that stays: the line becomes three, with the addresses of their nodes.
    #[test]
    fn a_line_of_nodes_is_divided_and_the_same_again_changes_nothing() {
        let all = [(2, "gpu:a100_3g.20gb:16"), (1, "gpu:a100:6,gpu:a100_3g.20gb:2,gpu:a100_1g.5gb:7")];
        let (slurm, gres, patch) = patched(SLURM, GRES, &all);
        let divided = "NodeName=gpu[01-02] NodeAddr=10.0.0.[11-12] Gres=nic:2,gpu:a100_3g.20gb:16 CPUs=128 # ours\n\
                       NodeName=gpu03 NodeAddr=10.0.0.13 Gres=nic:2,gpu:a100:6,gpu:a100_3g.20gb:2,gpu:a100_1g.5gb:7 CPUs=128\n\
                       NodeName=gpu04 NodeAddr=10.0.0.14 Gres=nic:2,gpu:a100:8(S:0-1) CPUs=128\n";
        let (before, after) = SLURM.split_once("NodeName=gpu[01-04]").unwrap();
        let after = after.split_once('\n').unwrap().1;
        assert_eq!(slurm, format!("{before}{divided}{after}"));
        let result = "AutoDetect=off\nNodeName=gpu04 Name=gpu Type=a100 File=/dev/nvidia[0-7]\nNodeName=old1 Name=gpu Type=k80 File=/dev/nvidia[0-3]\nNodeName=gpu[01-03] AutoDetect=nvml\n";
        assert_eq!(gres, result);
        let patch = patch.unwrap();
        assert_eq!((patch.made, patch.left.len()), (4, 0), "{}", patch.file.1);
        for told in [
            "slurm.conf: nodes gpu[01-02]: Gres nic:2,gpu:a100:8(S:0-1) → nic:2,gpu:a100_3g.20gb:16: configuration mig-1 of mig-parted.yaml.",
            "gres.conf: NodeName of whole GPUs gpu[01-04] → gpu04: NVML finds slices.",
        ] {
            assert!(patch.file.1.contains(told), "{}", patch.file.1);
        }
        let (again, gres, patch) = patched(&slurm, &gres, &all);
        assert_eq!((again, gres), (slurm, result.to_owned()));
        let patch = patch.unwrap();
        assert!(patch.made == 0 && patch.told() == "slurm.patch: nothing to change in your files", "{}", patch.told());
    }

    /// All nodes of a line get the same, and nothing but slices: its line of whole GPUs goes.
    #[test]
    fn a_line_whose_nodes_get_the_same_stays_one() {
        let (slurm, gres, patch) = patched(SLURM, GRES, &[(4, "gpu:a100_1g.5gb:56")]);
        assert!(
            slurm.contains(
                "NodeName=gpu[01-04] NodeAddr=10.0.0.[11-14] Gres=nic:2,gpu:a100_1g.5gb:56 CPUs=128 # ours\n"
            ),
            "{slurm}"
        );
        assert!(!gres.contains("Type=a100") && gres.ends_with("NodeName=gpu[01-04] AutoDetect=nvml\n"), "{gres}");
        assert_eq!(patch.unwrap().made, 3);
        // Where NVML finds everything already, gres.conf stays.
        let (_, gres, patch) = patched(SLURM, "AutoDetect=nvml\n", &[(4, "gpu:a100_1g.5gb:56")]);
        assert_eq!((gres.as_str(), patch.unwrap().made), ("AutoDetect=nvml\n", 1));
        let own = "AutoDetect=nvml\nNodeName=gpu[01-02] AutoDetect=off Name=gpu File=/dev/nvidia[0-7]\n";
        let (_, gres, _) = patched(SLURM, own, &[(4, "gpu:a100_1g.5gb:56")]);
        assert_eq!(gres, "AutoDetect=nvml\n");
    }

    #[test]
    fn what_cannot_be_put_in_is_told() {
        let cut = [(1, "gpu:a100_1g.5gb:56")];
        for (slurm, gres, told) in [
            (
                SLURM.replace("gpu:a100:8(S:0-1)", "gpu:8"),
                GRES.to_owned(),
                "nodes gpu[01-04]: their GPUs have no type, and slices have one; write gpu:a100:8",
            ),
            (
                SLURM.replace("a100:8", "a100:4"),
                GRES.to_owned(),
                "they have 4 GPUs each, and the plan is for 8; give --gpus-per-node 4",
            ),
            (SLURM.replace("nic:2", "shard:16"), GRES.to_owned(), "they have parts of GPUs"),
            (SLURM.replace("nic:2", "gpu:t4:2"), GRES.to_owned(), "they have GPUs of other types as well"),
            (
                SLURM.replace("[11-14]", "[11-13]"),
                GRES.to_owned(),
                "the line cannot be divided, as NodeAddr=10.0.0.[11-13] does not have a value for each node",
            ),
            (
                SLURM.replace("gpu[01-04]", "DEFAULT"),
                GRES.to_owned(),
                "nodes DEFAULT: the line holds for those below it",
            ),
            (
                SLURM.to_owned(),
                "Name=gpu Type=a100 File=/dev/nvidia[0-7]\n".to_owned(),
                "for all nodes; give it the NodeName of those that keep whole GPUs",
            ),
            (
                SLURM.to_owned(),
                format!("{GRES}NodeName=gpu02 Name=shard Count=16\n"),
                "of whole GPUs; take it out first",
            ),
            (SLURM.to_owned(), "# nothing\n".to_owned(), "gres.conf is not among the files"),
            (
                SLURM.replace("a100", "h100"),
                GRES.to_owned(),
                "no more nodes with 8 a100 GPUs that can be changed, and 1 would have to have it",
            ),
        ] {
            let (now, devices, patch) = patched(&slurm, &gres, &cut);
            let error = patch.unwrap_err().to_string();
            assert!(
                error.contains(told) && error.contains("nothing of the plan can be put into your files"),
                "{told}: {error}"
            );
            assert_eq!((now, devices), (slurm, gres), "{told}");
        }
        // What was seen of a real Slurm is told beside a whole patch.
        let (_, _, patch) = patched(&SLURM.replace("GresTypes=gpu", "GresTypes=gpu,shard"), GRES, &cut);
        let patch = patch.unwrap();
        assert!(
            patch.left.len() == 1 && patch.left[0].starts_with("GresTypes has shard: with it Slurm 22.05"),
            "{:?}",
            patch.left
        );
        // More nodes than there are: what there are get it.
        let (_, _, patch) = patched(SLURM, GRES, &[(6, "gpu:a100_1g.5gb:56")]);
        let patch = patch.unwrap();
        assert!(
            patch.made == 3 && patch.left[0].starts_with("configuration mig-1: the files have no more nodes"),
            "{:?}",
            patch.left
        );
    }
}
