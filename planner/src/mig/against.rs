//! A plan of partitions as a patch to a site's own `slurm.conf` and `gres.conf`, beside the files that [`emit`](super::emit) writes anew.
//!
//! Which nodes get which configuration is open in the plan, as they are alike. The patch takes them in the order of the `NodeName` lines whose GPUs are of the plan's type, or the only GPUs that there are, and have as many
//! on a node. Where a line has nodes of several configurations it becomes several, each a copy with the `Gres` of its own; nodes that the plan does not need stay in the old one. `gres.conf` gets
//! `AutoDetect=nvml` for nodes with slices, if no line there lists their GPUs; else it is told which nodes to take out of that line.
//!
//! O(bytes × nodes). Worked example: of `NodeName=gpu[01-04] Gres=gpu:a100:8 CPUs=128` two nodes get `mig-1`: `NodeName=gpu[03-04] Gres=gpu:a100:8 CPUs=128` is left, and behind it comes
//! `NodeName=gpu[01-02] Gres=gpu:a100_3g.20gb:16 CPUs=128`.

use std::collections::BTreeSet;

use tracecast_analytics::ingest::slurm::hostlist;

use super::answer::MigAnswer;
use super::emit::{MigNodes, MigSite, about, check, gres_of, nodes, slurm_gpu};
use crate::error::Result;
use crate::own_files::{Conf, Gres, NodeLine, OwnFile, Patch, SlurmFiles};

/// Nodes that the name of a line may stand for at most.
const MOST_NODES: usize = 100_000;
/// What the patch alone does not do.
const STEPS: &str = "On each node with another Gres, drained and free of jobs: nvidia-mig-parted apply -f mig-parted.yaml -c CONFIGURATION (below, by node); to undo, with -c all-disabled. Then restart slurmctld and their slurmd, check \
                     with `slurmd -G`, and resume them.";
/// Keys of a line whose lists go with its nodes one by one.
const BY_NODE: [&str; 3] = ["NodeAddr", "NodeHostname", "Port"];

/// Nodes of a line that get a configuration.
#[derive(Debug, PartialEq)]
struct Given<'m> {
    to: &'m MigNodes,
    nodes: Vec<String>,
}

/// A line with what becomes of its nodes.
struct Divided<'m> {
    line: NodeLine,
    given: Vec<Given<'m>>,
    /// Nodes that stay as they are.
    rest: Vec<String>,
}

/// A patch to the files that are Slurm's.
///
/// # Errors
/// As [`emit::slurm`](super::emit::slurm).
pub fn slurm(answer: &MigAnswer, site: &MigSite, files: &[OwnFile]) -> Result<Patch> {
    check(answer)?;
    let wanted = nodes(answer, site)?;
    let gpu = slurm_gpu(answer, site);
    let mut editing = SlurmFiles::of(files);
    let gres = |of: &MigNodes| gres_of(answer, gpu, of);
    put_in(&mut editing, (gpu, site.gpus_per_node), &wanted, &gres);
    Ok(editing.patch(about(answer), STEPS))
}

/// Gives nodes their configurations.
fn put_in(
    editing: &mut SlurmFiles<'_>,
    (gpu, per_node): (&str, u32),
    wanted: &[MigNodes],
    gres: &dyn Fn(&MigNodes) -> String,
) {
    let mut lines = NodeLine::with_gpus(editing, gpu);
    lines.retain(|line| {
        if line.gpus != per_node {
            editing.leave(format!(
                "nodes {}: they have {} GPUs each, and the plan is for {per_node} (--gpus-per-node)",
                line.nodes, line.gpus
            ));
        }
        line.gpus == per_node
    });
    let (divided, missing) = divide(lines, wanted);
    for (name, nodes) in missing {
        editing.leave(format!("{name}: {nodes} more nodes of {per_node} GPUs of the type {gpu} than the files have"));
    }
    let mut sliced: BTreeSet<String> = BTreeSet::new();
    for of in &divided {
        if set(editing, of, gres) {
            let slices = of.given.iter().filter(|given| given.to.gpus.iter().any(|(row, _)| !row.is_whole()));
            sliced.extend(slices.flat_map(|given| given.nodes.iter().cloned()));
        }
    }
    devices(editing, &sliced);
}

/// The nodes of lines, in order, to configurations; and how many nodes of which lack.
fn divide<'m>(lines: Vec<NodeLine>, wanted: &'m [MigNodes]) -> (Vec<Divided<'m>>, Vec<(&'m str, usize)>) {
    let mut left: Vec<(&MigNodes, usize)> = wanted.iter().map(|of| (of, of.nodes as usize)).collect();
    let mut found = Vec::new();
    for line in lines {
        let mut rest = hostlist::expand(&line.nodes, MOST_NODES).unwrap_or_else(|_| vec![line.nodes.clone()]);
        let mut given = Vec::new();
        for (to, nodes) in left.iter_mut().filter(|(_, nodes)| *nodes > 0) {
            let here = rest.len().min(*nodes);
            *nodes -= here;
            let taken: Vec<String> = rest.drain(..here).collect();
            if !taken.is_empty() {
                given.push(Given { to: *to, nodes: taken });
            }
        }
        if !given.is_empty() {
            found.push(Divided { line, given, rest });
        }
    }
    let missing = left.into_iter().filter(|(_, nodes)| *nodes > 0).map(|(of, nodes)| (of.name.as_str(), nodes));
    (found, missing.collect())
}

/// Gives the nodes of a line their `Gres`; whether it could be.
fn set(editing: &mut SlurmFiles<'_>, of: &Divided<'_>, gres: &dyn Fn(&MigNodes) -> String) -> bool {
    let Divided { line, given, rest } = of;
    let with = [("NodeName", line.nodes.as_str())];
    let Some((copied, is_odd, by_node)) = editing.files.get(line.file).and_then(|(_, conf)| {
        let at = conf.line(&with)?;
        let by_node = BY_NODE.iter().copied().find(|key| conf.get(&at, key).is_some());
        Some((conf.copy(&at), at.is_odd(), by_node))
    }) else {
        return false;
    };
    let names: Vec<String> = given.iter().map(|given| hostlist::compress(&given.nodes)).collect();
    if let Some(key) = by_node.filter(|_| given.len() > 1 || !rest.is_empty()) {
        let told: Vec<String> =
            names.iter().zip(given).map(|(names, given)| format!("{names} {}", given.to.name)).collect();
        editing.leave(format!(
            "nodes {}: {key} goes with the nodes one by one, so the line is not divided; by hand: {}",
            line.nodes,
            told.join(", ")
        ));
        return false;
    }
    if is_odd {
        editing.leave(format!(
            "nodes {}: a value goes on in the next line, or is added to; slurm-mig.conf has what it should be",
            line.nodes
        ));
        return false;
    }
    // What a node has beside GPUs stays.
    let beside: Vec<&str> =
        Gres::list(&line.gres).into_iter().filter(|one| !one.is_gpu()).map(|one| one.written).collect();
    let wanted = |given: &Given<'_>| {
        std::iter::once(gres(given.to).as_str()).chain(beside.iter().copied()).collect::<Vec<&str>>().join(",")
    };
    let mut lines: Vec<(String, String, &str)> =
        names.into_iter().zip(given).map(|(names, given)| (names, wanted(given), given.to.name.as_str())).collect();
    if !rest.is_empty() {
        lines.insert(0, (hostlist::compress(rest), line.gres.clone(), ""));
    }
    for (at, (nodes, gres, name)) in lines.iter().enumerate() {
        let Some((_, conf)) = editing.files.get_mut(line.file) else { return false };
        if at == 0 {
            for (key, value) in [("Gres", gres), ("NodeName", nodes)] {
                if let Some(line) = conf.line(&with) {
                    conf.set(&line, key, value);
                }
            }
        } else {
            let mut copy = Conf { text: copied.clone() };
            for (key, value) in [("NodeName", nodes), ("Gres", gres)] {
                if let Some(line) = copy.lines().first() {
                    copy.set(line, key, value);
                }
            }
            let behind = lines.get(at - 1).and_then(|(before, ..)| conf.line(&[("NodeName", before)]));
            conf.insert(behind.as_ref(), &copy.text);
        }
        if !name.is_empty() {
            editing.tell(
                line.file,
                &format!("nodes {nodes}: Gres"),
                (Some(&line.gres), gres),
                &format!("configuration {name}"),
            );
        }
    }
    true
}

/// NVML finds the slices of nodes, if no line of `gres.conf` lists their GPUs.
fn devices(editing: &mut SlurmFiles<'_>, sliced: &BTreeSet<String>) {
    if sliced.is_empty() {
        return;
    }
    let names: Vec<&String> = sliced.iter().collect();
    let nodes = hostlist::compress(&names);
    let Some(file) = editing.devices() else {
        return editing.leave(format!(
            "NodeName={nodes} AutoDetect=nvml: it belongs into gres.conf, which is not among the files"
        ));
    };
    let Some((_, conf)) = editing.files.get_mut(file) else { return };
    let everywhere = conf.lines().iter().any(|line| {
        conf.get(line, "NodeName").is_none()
            && conf.get(line, "AutoDetect").is_some_and(|how| how.eq_ignore_ascii_case("nvml"))
    });
    let listed: Vec<String> = conf
        .lines()
        .iter()
        .filter(|line| conf.get(line, "Name").is_some_and(|name| name.eq_ignore_ascii_case("gpu")))
        .filter_map(|line| conf.get(line, "NodeName"))
        .filter(|of| hostlist::expand(of, MOST_NODES).is_ok_and(|of| of.iter().any(|node| sliced.contains(node))))
        .map(str::to_owned)
        .collect();
    if !listed.is_empty() {
        return editing.leave(format!(
            "gres.conf: lines list the GPUs of {}; take {nodes} out of them and add NodeName={nodes} AutoDetect=nvml, or list each slice (slurm-mig-gres.conf says how)",
            listed.join(", ")
        ));
    }
    if !everywhere {
        conf.insert(None, &format!("NodeName={nodes} AutoDetect=nvml"));
        editing.tell(file, &format!("nodes {nodes}: AutoDetect"), (None, "nvml"), "NVML finds the slices");
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::super::partition::WHOLE;
    use super::super::rule::MigPartitionRow;
    use super::*;

    fn own(name: &str, text: &str) -> OwnFile {
        OwnFile::new(name.to_owned(), text.to_owned()).unwrap()
    }

    fn configuration(name: &str, nodes: u32, partition: &str) -> MigNodes {
        let row = MigPartitionRow { partition: partition.to_owned(), slices: Vec::new(), gpus: 8 };
        MigNodes { name: name.to_owned(), nodes, gpus: vec![(row, 8)] }
    }

    /// The lines that go and come, and what the patch says at its head.
    fn patched(files: &[OwnFile], wanted: &[MigNodes]) -> (Vec<String>, String) {
        let mut editing = SlurmFiles::of(files);
        put_in(&mut editing, ("a100", 8), wanted, &|of| format!("gpu:{}:16", of.name));
        let (_, text) = editing.patch(Vec::new(), STEPS).file;
        let (said, diff): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with("# "));
        let changed = diff
            .iter()
            .filter(|line| line.starts_with(['+', '-']) && !line.starts_with("+++") && !line.starts_with("---"));
        (changed.map(|line| (*line).to_owned()).collect(), said.join("\n"))
    }

    #[test]
    fn nodes_get_configurations_in_their_order() {
        let conf = "NodeName=gpu[01-04] Gres=gpu:a100:8,nic:1 CPUs=128 # ours\nNodeName=gpu[05-06] Gres=gpu:a100:8\nNodeName=old Gres=gpu:k80:8\n";
        let wanted = [configuration("mig-1", 2, "2x3g.20gb"), configuration("mig-2", 3, WHOLE)];
        let (changed, said) = patched(&[own("slurm.conf", conf), own("gres.conf", "AutoDetect=off\n")], &wanted);
        let expected = [
            "-NodeName=gpu[01-04] Gres=gpu:a100:8,nic:1 CPUs=128 # ours",
            "-NodeName=gpu[05-06] Gres=gpu:a100:8",
            "+NodeName=gpu[01-02] Gres=gpu:mig-1:16,nic:1 CPUs=128 # ours",
            "+NodeName=gpu[03-04] Gres=gpu:mig-2:16,nic:1 CPUs=128",
            "+NodeName=gpu06 Gres=gpu:a100:8",
            "+NodeName=gpu05 Gres=gpu:mig-2:16",
            "+NodeName=gpu[01-02] AutoDetect=nvml",
        ];
        assert_eq!(changed, expected, "{said}");
        assert!(
            said.contains("nodes gpu[01-02]: Gres gpu:a100:8,nic:1 → gpu:mig-1:16,nic:1: configuration mig-1"),
            "{said}"
        );
    }

    #[test]
    fn what_cannot_be_put_in_is_told() {
        let conf = "NodeName=gpu[1-2] Gres=gpu:a100:8 NodeAddr=10.0.0.[1-2]\nNodeName=small Gres=gpu:a100:4\n";
        let wanted = [configuration("mig-1", 1, "2x3g.20gb"), configuration("mig-2", 4, "7x1g.5gb")];
        let (changed, said) = patched(&[own("slurm.conf", conf)], &wanted);
        assert!(changed.is_empty(), "{changed:?}");
        for told in [
            "small: they have 4 GPUs each",
            "mig-2: 3 more nodes",
            "NodeAddr goes with the nodes one by one",
            "gpu1 mig-1, gpu2 mig-2",
        ] {
            assert!(said.contains(told), "{told}: {said}");
        }
        let listed = "NodeName=gpu[1-9] Name=gpu Type=a100 File=/dev/nvidia[0-7]\n";
        let (changed, said) = patched(
            &[own("slurm.conf", "NodeName=gpu[1-9] Gres=gpu:a100:8\n"), own("gres.conf", listed)],
            &wanted[..1],
        );
        assert_eq!(
            changed,
            [
                "-NodeName=gpu[1-9] Gres=gpu:a100:8",
                "+NodeName=gpu[2-9] Gres=gpu:a100:8",
                "+NodeName=gpu1 Gres=gpu:mig-1:16"
            ]
        );
        assert!(said.contains("lines list the GPUs of gpu[1-9]; take gpu1 out of them"), "{said}");
    }
}
