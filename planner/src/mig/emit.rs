//! A plan of partitions as NVIDIA's tools, Slurm and Kubernetes read it.
//!
//! GPUs with a partition are put onto nodes: first nodes on which all GPUs have the same, then what is left. Nodes that are alike have one **configuration**, `mig-1` and so on. A GPU of a node that the plan
//! has no use for stays whole. The configurations are those of NVIDIA's `mig-parted`, which its MIG manager uses in Kubernetes as well; `all-disabled` is among them, to go back.
//!
//! **Slurm**: `gres.conf` lets NVML find the slices (`AutoDetect=nvml`), and `slurm.conf` has them by type: `gpu:a100_3g.20gb:2`. Where Slurm was built without NVML, each slice is a line with
//! `MultipleFiles`, whose numbers only the node knows; the file says how to find them. **Kubernetes**: a ConfigMap for the MIG manager, and a script that sets the label `nvidia.com/mig.config`. The
//! device plugin needs the strategy `mixed`, as GPUs of a node differ.
//!
//! O(partitions × nodes). Worked example: 10 GPUs `2x3g.20gb` and 3 GPUs `7x1g.5gb` at 8 a node are one node of 8 × `2x3g.20gb`, and one with 2 and 3 of them and 3 whole GPUs.

use serde_json::{Map, Value, json};
use tracecast_analytics::report::format;

use super::answer::{MigAnswer, jobs};
use super::gpu::COMPUTE_SLICES;
use super::partition::WHOLE;
use super::rule::MigPartitionRow;
use crate::error::{Error, Result};
use crate::plan::Emitted;
use crate::plan::emit::kubernetes::{self, config_map};
use crate::plan::emit::{check_gpus_per_node, check_name, check_namespace, comments};
use crate::yaml::{document, stream};

/// The configuration that goes back to whole GPUs, by the name that NVIDIA's own files give it.
const ALL_DISABLED: &str = "all-disabled";

/// What the files need to know beside the plan.
#[derive(Debug, Clone, PartialEq)]
pub struct MigSite {
    /// GPUs of a node.
    pub gpus_per_node: u32,
    /// Name of the GPU in Slurm, if not the usual one.
    pub slurm_type: Option<String>,
    /// Namespace of NVIDIA's operator.
    pub namespace: String,
}

impl Default for MigSite {
    fn default() -> Self {
        Self { gpus_per_node: 8, slurm_type: None, namespace: "gpu-operator".to_owned() }
    }
}

/// Nodes that are alike.
#[derive(Debug, Clone, PartialEq)]
pub struct MigNodes {
    /// Name of the configuration.
    pub name: String,
    /// How many.
    pub nodes: u32,
    /// Partitions of its GPUs in order, with how many have each; whole GPUs last.
    pub gpus: Vec<(MigPartitionRow, u32)>,
}

/// GPUs on nodes, alike ones together.
///
/// # Errors
/// If a node has no GPU, or a name of the site is none.
pub fn nodes(answer: &MigAnswer, site: &MigSite) -> Result<Vec<MigNodes>> {
    let per_node = site.gpus_per_node;
    check_gpus_per_node(per_node)?;
    check_namespace(&site.namespace)?;
    if let Some(name) = &site.slurm_type {
        check_name("type of a GPU in Slurm", name, "-_.", "give one such as a100")?;
    }
    let mut result: Vec<(Vec<(MigPartitionRow, u32)>, u32)> = Vec::new();
    let mut rest: Vec<(MigPartitionRow, u32)> = Vec::new();
    // Whole GPUs last, so that those which are not needed stand beside them.
    let whole = |row: &&MigPartitionRow| row.is_whole();
    let rows = &answer.body.plan.partitions;
    for row in rows.iter().filter(|row| !whole(row)).chain(rows.iter().filter(whole)) {
        if row.gpus >= per_node {
            result.push((vec![(row.clone(), per_node)], row.gpus / per_node));
        }
        if row.gpus % per_node > 0 {
            rest.push((row.clone(), row.gpus % per_node));
        }
    }
    let mut node: Vec<(MigPartitionRow, u32)> = Vec::new();
    let mut free = per_node;
    for (row, mut gpus) in rest {
        while gpus > 0 {
            let here = gpus.min(free);
            node.push((row.clone(), here));
            (gpus, free) = (gpus - here, free - here);
            if free == 0 {
                result.push((std::mem::take(&mut node), 1));
                free = per_node;
            }
        }
    }
    if !node.is_empty() {
        let spare = MigPartitionRow { partition: WHOLE.to_owned(), slices: Vec::new(), gpus: 0 };
        match node.last_mut().filter(|(row, _)| row.is_whole()) {
            Some((_, gpus)) => *gpus += free,
            None => node.push((spare, free)),
        }
        result.push((node, 1));
    }
    let named = |(at, (gpus, nodes)): (usize, (Vec<(MigPartitionRow, u32)>, u32))| MigNodes {
        name: format!("mig-{}", at + 1),
        nodes,
        gpus,
    };
    Ok(result.into_iter().enumerate().map(named).collect())
}

/// Whether a plan can be written at all.
///
/// # Errors
/// If it is not followed.
pub fn check(answer: &MigAnswer) -> Result<()> {
    if answer.is_advised() { Ok(()) } else { Err(Error::NotEmitted(answer.action.replace("**", ""))) }
}

/// Comment lines at the top of every file.
pub(super) fn about(answer: &MigAnswer) -> Vec<String> {
    let mut said = vec![answer.action.replace("**", "")];
    if let Some(recommendation) = &answer.recommendation {
        said.push(format!("Confidence: {}. {}", recommendation.confidence.in_words(), recommendation.risk));
    }
    if let Some(change) = &answer.body.change {
        said.push(format!(
            "GPUs with another partition now: {} of the plan, of which {} are drained first ({} GPU-hours).",
            change.changed,
            change.drained,
            format::float(change.gpu_hours, 1)
        ));
    }
    // Nothing but ASCII in files that old tools read, as far as names allow.
    said.iter().map(|line| line.replace('−', "-").replace('×', "x").replace(['\n', '\r'], " ")).collect()
}

/// What nodes of a configuration are, in a line.
pub(super) fn in_words(of: &MigNodes) -> String {
    let gpus: Vec<String> = of.gpus.iter().map(|(row, gpus)| format!("{gpus} x {}", row.partition)).collect();
    format!("{}, {}: {}", of.name, format::counted(u64::from(of.nodes), "node", "nodes"), gpus.join(", "))
}

/// Where jobs go, a line each, with what a job asks for.
fn placements(answer: &MigAnswer, asks: &dyn Fn(&str) -> String) -> Vec<String> {
    let mut said = vec!["What jobs ask for:".to_owned()];
    said.extend(answer.body.placed.iter().map(|placed| {
        let jobs = jobs(placed.jobs);
        let of = if answer.body.busy.is_some() { "jobs an hour" } else { "jobs" };
        format!("  {}: {}, {jobs} {of}", placed.job.replace(['\n', '\r'], " "), asks(&placed.profile))
    }));
    said
}

/// The configurations as `mig-parted` reads them.
fn configurations(nodes: &[MigNodes]) -> Value {
    let mut configs = Map::new();
    configs.insert(ALL_DISABLED.to_owned(), json!([{ "devices": "all", "mig-enabled": false }]));
    for of in nodes {
        let mut first = 0;
        let mut devices = Vec::new();
        for (row, gpus) in &of.gpus {
            let which: Vec<u32> = (first..first + gpus).collect();
            first += gpus;
            devices.push(if row.is_whole() {
                json!({ "devices": which, "mig-enabled": false })
            } else {
                let slices: Map<String, Value> =
                    row.slices.iter().map(|slice| (slice.profile.clone(), slice.count.into())).collect();
                json!({ "devices": which, "mig-enabled": true, "mig-devices": slices })
            });
        }
        configs.insert(of.name.clone(), Value::Array(devices));
    }
    json!({ "version": "v1", "mig-configs": configs })
}

/// Whether a profile is the whole GPU.
fn is_whole(answer: &MigAnswer, profile: &str) -> bool {
    answer.body.profiles.iter().any(|known| known.profile == profile && known.compute_slices == COMPUTE_SLICES)
}

/// Name of the whole GPU in Slurm.
pub(super) fn slurm_type<'a>(answer: &'a MigAnswer, site: &'a MigSite) -> &'a str {
    site.slurm_type.as_deref().unwrap_or(&answer.body.slurm_type)
}

/// GPUs and slices of a node, as `Gres` lists them. Whole GPUs come first, as those of them that no slice comes before are given rightly even where Slurm counts the files of slices (`sharing::against`).
pub(super) fn gres(answer: &MigAnswer, gpu: &str, of: &MigNodes) -> String {
    let mut types: Vec<(String, u32)> = Vec::new();
    let mut add = |name: String, count: u32| match types.iter_mut().find(|(known, _)| *known == name) {
        Some((_, known)) => *known += count,
        None => types.push((name, count)),
    };
    let of_type = |profile: &str| slice_of(answer, gpu, profile);
    for (row, gpus) in &of.gpus {
        if row.is_whole() {
            add(format!("gpu:{gpu}"), *gpus);
        }
        row.slices
            .iter()
            .filter(|_| !row.is_whole())
            .for_each(|slice| add(of_type(&slice.profile), gpus * slice.count));
    }
    types.sort_by_key(|(name, _)| *name != format!("gpu:{gpu}"));
    types.into_iter().map(|(name, count)| format!("{name}:{count}")).collect::<Vec<String>>().join(",")
}

/// A slice, or the whole GPU, as a job asks for it.
fn slice_of(answer: &MigAnswer, gpu: &str, profile: &str) -> String {
    if is_whole(answer, profile) { format!("gpu:{gpu}") } else { format!("gpu:{gpu}_{profile}") }
}

/// Files for Slurm: configurations of `mig-parted`, and lines for `gres.conf` and `slurm.conf`.
///
/// # Errors
/// If the plan is not followed, or a name of the site is none.
pub fn slurm(answer: &MigAnswer, site: &MigSite) -> Result<Vec<Emitted>> {
    check(answer)?;
    let nodes = nodes(answer, site)?;
    let gpu = slurm_type(answer, site);
    let mut said = about(answer);
    said.extend(nodes.iter().map(in_words));
    let mut parted = said.clone();
    parted.push("On each node, free of jobs: nvidia-mig-parted apply -f mig-parted.yaml -c CONFIGURATION".to_owned());
    parted.push(format!("To undo: nvidia-mig-parted apply -f mig-parted.yaml -c {ALL_DISABLED}"));
    let parted = stream(&[(parted.join("\n"), configurations(&nodes))]);
    let mut conf = comments("#", &said);
    conf.push_str(&comments(
        "#",
        &placements(answer, &|profile| format!("--gres={}:1", slice_of(answer, gpu, profile))),
    ));
    conf.push_str(
        "# In slurm.conf, in place of the lines of these nodes; keep what else they have. Put your own nodes in place of each name, here and in slurm-mig-gres.conf.\n\
         # To apply: drain the nodes, partition their GPUs (mig-parted.yaml), restart slurmctld and their slurmd, check with `slurmd -G` on a node, and resume them.\n\
         # To undo: drain them, apply all-disabled, put the old lines back in both files, restart, and resume.\n\
         # Parameters of the whole site, which these files do not set:\n\
         #   GresTypes: it must have gpu.\n\
         #   AccountingStorageTRES: add a gres/gpu:TYPE for each type whose use is to be recorded.\n",
    );
    let mut lines = comments("#", &said);
    lines.push_str(&format!(
        "# In gres.conf. NVML finds the slices; it must know a type by a name that has the one in slurm.conf in it: see `slurmd -G` on a node, and --slurm-type.\n\
         # Where Slurm was built without NVML, write a line for each slice in place of these, with the numbers that the node has in /proc/driver/nvidia-caps/mig-minors:\n\
         #   NodeName=NODE Name=gpu Type={gpu}_{} MultipleFiles=/dev/nvidia0,/dev/nvidia-caps/nvidia-capGI,/dev/nvidia-caps/nvidia-capCI\n\
         # Not so with Slurm 22.05 where GresTypes has shard or mps: it then takes each of these files for a GPU, and jobs start with fewer GPUs than they asked for, or none.\n",
        answer.body.profiles.first().map_or("", |profile| profile.profile.as_str())
    ));
    for of in &nodes {
        let what = comments("#", &[in_words(of)]);
        lines.push_str(&format!("{what}NodeName={} AutoDetect=nvml\n", of.name));
        conf.push_str(&format!(
            "{what}NodeName={name} Gres={} Feature={name} State=UNKNOWN\n",
            gres(answer, gpu, of),
            name = of.name
        ));
    }
    let name = |name: &str| name.to_owned();
    Ok(vec![(name("mig-parted.yaml"), parted), (name("slurm-mig-gres.conf"), lines), (name("slurm-mig.conf"), conf)])
}

/// Files for Kubernetes: the MIG manager's ConfigMap, and a script of labels.
///
/// # Errors
/// If the plan is not followed, or a name of the site is none.
pub fn kubernetes(answer: &MigAnswer, site: &MigSite) -> Result<Vec<Emitted>> {
    check(answer)?;
    let nodes = nodes(answer, site)?;
    let asks = |profile: &str| {
        let name = if is_whole(answer, profile) { "gpu".to_owned() } else { format!("mig-{profile}") };
        format!("nvidia.com/{name}: 1")
    };
    let mut said = about(answer);
    said.extend(nodes.iter().map(in_words));
    let config = document(&configurations(&nodes));
    let data = [("config.yaml".to_owned(), config.into())].into_iter().collect();
    let map = config_map("tracecast-mig", &site.namespace, &data);
    let mut yaml = said.clone();
    yaml.extend(placements(answer, &asks));
    yaml.extend([
        "To apply: kubectl apply -f kubernetes-mig.yaml, then let the operator use it, and show slices of each profile as a resource of its own:".to_owned(),
        "  helm upgrade ... --set mig.strategy=mixed --set migManager.config.name=tracecast-mig".to_owned(),
        "A device plugin without the operator has the option --mig-strategy=mixed. Then set the labels: kubernetes-mig-labels.sh.".to_owned(),
        "To undo: set the label to all-disabled on the nodes, and name the ConfigMap of before to the operator.".to_owned(),
    ]);
    let mut labels = format!("#!/bin/sh\n{}", comments("#", &said));
    labels.push_str(&format!(
        "# Run it with a configuration and its nodes: sh kubernetes-mig-labels.sh CONFIGURATION NODE...\n\
         # First apply kubernetes-mig.yaml. No pod may use a GPU of a node whose partitions change: drain it first (kubectl drain NODE --ignore-daemonsets), and uncordon it\n\
         # once nvidia.com/mig.config.state is success.\n\
         # To undo, once the nodes are drained: sh kubernetes-mig-labels.sh {ALL_DISABLED} NODE...\n\
         {}",
        kubernetes::labels("configuration", &["nvidia.com/mig.config"])
    ));
    Ok(vec![
        ("kubernetes-mig.yaml".to_owned(), stream(&[(yaml.join("\n"), map)])),
        ("kubernetes-mig-labels.sh".to_owned(), labels),
    ])
}
