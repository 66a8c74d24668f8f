//! A plan of sharing as Slurm and Kubernetes read it.
//!
//! Neither knows who is beside whom on a GPU, only which jobs may be on shared ones. So each class of job types, in which every two may share, has nodes of its own, on which
//! a GPU holds two jobs; all other jobs stay where they are. How many GPUs a class gets is its share of the GPU time.
//!
//! **Slurm**: `gres/shard` with two shards a GPU, or `gres/mps` with which a job gets half of one. `LL_SHARED_GRES` puts a job on the GPU that is used least, so that two share only
//! where none is empty, as in the replay. Slurm watches no memory of shards. **Kubernetes**: a configuration of NVIDIA's device plugin for each class (time-slicing, or
//! MPS, which gives each of two half of the memory), chosen by the label `nvidia.com/device-plugin.config` of a node; pods of a class select its nodes by label.
//!
//! A job goes by its name alone to one class, so files are of one GPU type; more than one followed is refused, as is a plan whose job types are drawn. Else the same files are
//! written whatever the plan says, so that none of an earlier plan stays behind: where there is nothing to set they are comments. What would replace a parameter
//! of the whole site is a comment as well.
//!
//! O(job types). Worked example: a class with 30 % of the GPU time on 64 GPUs of 8 a node gets 19 GPUs, so 3 nodes, each with `Name=shard Count=16`.

use serde_json::{Value, json};
use tracecast_analytics::report::format;

use super::answer::{SharingClass, SharingPlan, SharingPlanAnswer};
use crate::error::{Error, Result};
use crate::plan::Emitted;
use crate::plan::emitted::{check_gpus_per_node, check_name, check_namespace, comments};
use crate::queues::emit::GPU_RESOURCE;
use crate::yaml::stream;

/// Jobs on a shared GPU.
const TOGETHER: u32 = 2;
/// Shares of a GPU under `gres/mps`.
const MPS: u32 = 100;

/// How two jobs share a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Means {
    /// In turns: `gres/shard`, time-slicing.
    TimeSlicing,
    /// At once, through NVIDIA's MPS.
    Mps,
}

/// What the files need to know beside the plan.
#[derive(Debug, Clone, PartialEq)]
pub struct SharingSite {
    /// How two jobs share a GPU.
    pub means: Means,
    /// GPUs of a node.
    pub gpus_per_node: u32,
    /// What Kubernetes calls a GPU.
    pub gpu_resource: String,
    /// Namespace of the device plugin.
    pub namespace: String,
}

impl Default for SharingSite {
    fn default() -> Self {
        Self {
            means: Means::TimeSlicing,
            gpus_per_node: 8,
            gpu_resource: GPU_RESOURCE.to_owned(),
            namespace: "gpu-operator".to_owned(),
        }
    }
}

impl SharingSite {
    fn check(&self) -> Result<()> {
        check_gpus_per_node(self.gpus_per_node)?;
        check_name("name of a GPU", &self.gpu_resource, "-_./", "give one such as nvidia.com/gpu")?;
        check_namespace(&self.namespace)
    }
}

/// Checks that a plan can be written.
fn check(answer: &SharingPlanAnswer) -> Result<()> {
    let followed: Vec<&str> =
        answer.plans.iter().filter(|plan| plan.followed).map(|plan| plan.gpu_type.as_str()).collect();
    if followed.len() > 1 {
        return Err(Error::NotEmitted(format!(
            "a job has one name, and would go to a class of each of {}; name one of them with --gpu-type",
            followed.join(", ")
        )));
    }
    if let Some(plan) = answer.plans.iter().find(|plan| followed.is_empty() && plan.is_of_drawn_types()) {
        return Err(Error::NotEmitted(format!(
            "only {} of the GPU time is of jobs whose name is a job type of the table, and the types of the others are drawn; name the job types first",
            format::percent(plan.named_gpu_time)
        )));
    }
    Ok(())
}

/// What all files say first.
fn about(answer: &SharingPlanAnswer) -> Vec<String> {
    let mut said = Vec::new();
    for plan in &answer.plans {
        said.push(plan.action.replace("**", ""));
        let Some(recommendation) = &plan.recommendation else { continue };
        for effect in &recommendation.effects {
            let unit = |value: f64| {
                let sign = if value < 0.0 { "-" } else { "+" };
                if effect.unit == "s" {
                    format!("{sign}{}", format::duration(value.abs()))
                } else {
                    format!("{sign}{} {}", value.abs(), effect.unit)
                }
            };
            let ends = effect.low.zip(effect.high);
            let ends = ends.map_or_else(String::new, |(low, high)| format!(" ({} to {})", unit(low), unit(high)));
            said.push(format!(
                "{} on later jobs, with the rule in classes: {}{ends}, against {}.",
                effect.what,
                unit(effect.change),
                recommendation.against
            ));
        }
        said.push(format!("Confidence: {}. {}", recommendation.confidence.in_words(), recommendation.risk));
    }
    if let Some(plan) = answer.plans.iter().find(|plan| plan.followed && plan.is_watched()) {
        said.push(format!(
            "The plan needs somebody who watches: 10 min after a job began beside another, if either is more than {} times as slow as alone, or if both together make no more than one alone: write a checkpoint of the newer job, then requeue it, as the replay keeps what it has done. These files do not do that.",
            format::float(plan.limits.slo, 2)
        ));
    }
    if !answer.plans.iter().any(|plan| plan.followed) {
        said.push("The GPUs stay as they are, so there is nothing to set here.".to_owned());
    }
    // Nothing but ASCII in files that old tools read, as far as names allow.
    said.iter().map(|line| line.replace('−', "-")).collect()
}

/// Classes of the plans that are to be followed, with GPUs for each.
fn followed(answer: &SharingPlanAnswer) -> impl Iterator<Item = (&SharingPlan, &SharingClass, u32)> {
    let plans = answer.plans.iter().filter(|plan| plan.followed);
    plans.flat_map(|plan| {
        let gpus = |class: &SharingClass| ((f64::from(plan.gpus) * class.gpu_time).floor() as u32).max(1);
        plan.classes.iter().map(move |class| (plan, class, gpus(class)))
    })
}

/// A name as a word of Slurm's configuration.
fn word(name: &str) -> String {
    name.chars().map(|letter| if letter.is_ascii_alphanumeric() || letter == '_' { letter } else { '_' }).collect()
}

/// A text within double quotes of Lua.
fn lua(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            letter if letter.is_control() => out.push(' '),
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}

/// Files for Slurm.
///
/// # Errors
/// If the site has no GPU on a node, more than one GPU type is followed, or the job types are drawn.
pub fn slurm(answer: &SharingPlanAnswer, site: &SharingSite) -> Result<Vec<Emitted>> {
    site.check()?;
    check(answer)?;
    let head = comments("#", &about(answer));
    let (mut gres, mut conf, mut script) = (head.clone(), head, comments("--", &about(answer)));
    let kind = if site.means == Means::Mps { "mps" } else { "shard" };
    if followed(answer).next().is_some() {
        gres.push_str(
            "# In gres.conf. A class is named where its nodes stand: put your own in place of that name, here and in slurm-sharing.conf.\n",
        );
        conf.push_str(&format!(
            "# In slurm.conf, in place of the lines of these nodes; keep what else they have. Then drain the nodes, restart slurmctld and their slurmd, and resume them.\n\
             # To undo: drain them, put the old lines back in both files, restart, and take job_submit.lua's lines out.\n\
             # Parameters of the whole site, which these files do not set:\n\
             #   GresTypes: add {kind} to those that are there, such as GresTypes=gpu,{kind}.\n\
             #   SelectType: it must be select/cons_tres.\n\
             #   SelectTypeParameters: add LL_SHARED_GRES to those that are there; a job then goes to the GPU that is used least.\n"
        ));
        if site.means == Means::Mps {
            conf.push_str("# With mps, nvidia-cuda-mps-control must be there on the nodes; older versions of Slurm let only one GPU of a node be used so.\n");
        } else {
            conf.push_str(
                "# Slurm does not watch the memory of shards: what a job takes beyond its part, the other lacks.\n",
            );
        }
        script.push_str("-- Into slurm_job_submit of job_submit.lua: a job of one GPU whose name is a job type of a class goes to its partition.\nlocal shares = {\n");
    }
    for (plan, class, gpus) in followed(answer) {
        let per_node = site.gpus_per_node;
        let nodes = gpus.div_ceil(per_node);
        let devices =
            if per_node == 1 { "/dev/nvidia0".to_owned() } else { format!("/dev/nvidia[0-{}]", per_node - 1) };
        let count = per_node * if site.means == Means::Mps { MPS } else { TOGETHER };
        let what = format!(
            "# {}: {} of {}, {} in all: {}.\n",
            class.name,
            format::counted(u64::from(nodes), "node", "nodes"),
            format::counted(u64::from(per_node), "GPU", "GPUs"),
            format::counted(u64::from(gpus), "GPU", "GPUs"),
            class.job_types.join("; ").replace(['\n', '\r'], " ")
        );
        let gpu_type = word(&plan.gpu_type);
        gres.push_str(&format!(
            "{what}NodeName={name} Name=gpu Type={gpu_type} File={devices}\nNodeName={name} Name={kind} Count={count}\n",
            name = class.name
        ));
        conf.push_str(&format!(
            "{what}NodeName={name} Gres=gpu:{gpu_type}:{per_node},{kind}:{count} Feature={name} State=UNKNOWN\nPartitionName={name} Nodes={name} State=UP\n",
            name = class.name
        ));
        for job_type in &class.job_types {
            script.push_str(&format!("  [{}] = {},\n", lua(job_type), lua(&class.name)));
        }
    }
    if followed(answer).next().is_some() {
        let part = if site.means == Means::Mps { format!("mps:{}", MPS / TOGETHER) } else { "shard:1".to_owned() };
        script.push_str(&format!(
            "}}\nlocal asked = job_desc.tres_per_node or job_desc.tres_per_job or \"\"\n\
             if shares[job_desc.name] and (asked == \"gres/gpu:1\" or asked == \"gres:gpu:1\" or asked == \"gpu:1\") then\n  \
             job_desc.partition = shares[job_desc.name]\n  job_desc.tres_per_job = nil\n  job_desc.tres_per_node = \"gres/{part}\"\nend\n"
        ));
    }
    let name = |name: &str| name.to_owned();
    Ok(vec![
        (name("slurm-gres.conf"), gres),
        (name("slurm-sharing.conf"), conf),
        (name("slurm-sharing-job-submit.lua"), script),
    ])
}

/// Files for Kubernetes: the configuration of NVIDIA's device plugin, and what labels to set.
///
/// # Errors
/// If a name of the site is none that Kubernetes takes, more than one GPU type is followed, or the job types are drawn.
pub fn kubernetes(answer: &SharingPlanAnswer, site: &SharingSite) -> Result<Vec<Emitted>> {
    site.check()?;
    check(answer)?;
    let said = about(answer);
    let mut labels = format!("#!/bin/sh\n{}", comments("#", &said));
    let mut yaml = comments("#", &said);
    if followed(answer).next().is_some() {
        let means = if site.means == Means::Mps { "mps" } else { "timeSlicing" };
        let mut configs = serde_json::Map::new();
        let mut types = serde_json::Map::new();
        labels.push_str(
            "# Run it with the class and its nodes: sh kubernetes-labels.sh CLASS NODE...\n\
             # First apply kubernetes-sharing.yaml, and name the ConfigMap to the operator: devicePlugin.config.name=tracecast-sharing with default \"any\".\n\
             # The device plugin reads one ConfigMap: where the site has one already, merge these keys into it, and keep its name and its default.\n\
             # No taint is set: it would shut out NVIDIA's own DaemonSets. So pods of no class may come to these nodes and get half a GPU. To keep them away, give them\n\
             # a nodeAffinity with tracecast.io/share-class DoesNotExist.\n\
             # To undo, for each node: kubectl label node NODE nvidia.com/device-plugin.config- tracecast.io/share-class-\n",
        );
        for (_, class, gpus) in followed(answer) {
            let resources = json!([{ "name": site.gpu_resource, "replicas": TOGETHER }]);
            let mut sharing = json!({ "resources": resources });
            if site.means == Means::TimeSlicing
                && let Some(of) = sharing.as_object_mut()
            {
                of.insert("failRequestsGreaterThanOne".to_owned(), Value::Bool(true));
            }
            let config = json!({ "version": "v1", "sharing": { means: sharing } });
            configs.insert(class.name.clone(), Value::String(serde_json::to_string(&config).unwrap_or_default()));
            types.insert(class.name.clone(), Value::String(class.job_types.join("\n")));
            labels.push_str(&format!("# {}: nodes with {} GPUs in all.\n", class.name, gpus));
        }
        configs.insert("any".to_owned(), Value::String("{\"version\": \"v1\"}".to_owned()));
        labels.push_str(
            "set -eu\nclass=$1\nshift\nfor node in \"$@\"; do\n  kubectl label node \"$node\" --overwrite \"nvidia.com/device-plugin.config=$class\" \"tracecast.io/share-class=$class\"\ndone\n",
        );
        let map = |name: &str, data: serde_json::Map<String, Value>| {
            json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": { "name": name, "namespace": site.namespace },
                "data": data
            })
        };
        let example = followed(answer).next().map_or_else(String::new, |(_, class, _)| class.name.clone());
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": "example", "labels": { "tracecast.io/share-class": example } },
            "spec": {
                "nodeSelector": { "tracecast.io/share-class": example },
                "containers": [{ "name": "main", "image": "example", "resources": { "limits": { site.gpu_resource.clone(): 1 } } }]
            }
        });
        yaml = stream(&[
            (
                format!(
                    "{}\nWhat the device plugin does on the nodes of each class. Where the site has such a ConfigMap already, merge these keys into it: the plugin reads one.",
                    said.join("\n")
                ),
                map("tracecast-sharing", configs),
            ),
            ("The job types of each class, for who writes the pods.".to_owned(), map("tracecast-share-classes", types)),
        ]);
        let example = stream(&[("A pod of a class.".to_owned(), pod)]);
        yaml.push_str(&comments("#", &example.lines().map(str::to_owned).collect::<Vec<_>>()));
    }
    Ok(vec![("kubernetes-sharing.yaml".to_owned(), yaml), ("kubernetes-labels.sh".to_owned(), labels)])
}
