//! A plan of sharing as Slurm and Kubernetes read it.
//!
//! Neither knows who is beside whom on a GPU, only which jobs may be on shared ones: a class of job types, in which every two may share.
//!
//! **Slurm** has one class, that which saves most, and no nodes of its own: `gres/shard` with two shards a GPU, or `gres/mps` with which a job gets half of one, on all nodes. A job of the
//! class asks for a shard, all others for a GPU as before. A shard has the type of its GPU, so who asks for a GPU of the plan's type asks for a shard of that type. Slurm 24.11 gives a GPU either whole or in shards at a time, so nobody shares but the class; 22.05 forgets the second of two
//! shards when the first is back (`tests/e2e/shards.rs`). `LL_SHARED_GRES` chooses the GPU of a node that is used least, and `LLN=YES` of a partition the node, so that two share where hardly
//! any is empty; in the replay none is. Slurm watches no memory of shards. Of `gres/mps` only one GPU of a node is used at a time, so nodes of several are refused.
//!
//! **Kubernetes** cannot give a GPU whole and in parts. Each class has nodes of its own there: a configuration of NVIDIA's device plugin (time-slicing, or
//! MPS, which gives each of two half of the memory), chosen by the label `nvidia.com/device-plugin.config` of a node; pods of a class select its nodes by label. Such a class cannot use what
//! others leave idle, so whether it is worth it is replayed apart, and nothing is set where it is not.
//!
//! A job's type is told by its name: by the file of types where there is one (`script`), else by the name itself. A job whose type was drawn has neither, and takes a whole GPU: the files say of how much of the GPU time that is. Nothing in Kubernetes
//! goes by names: who writes the pods sets the label, for which the file of types stands in a ConfigMap.
//!
//! A job goes by its name alone to one class, so files are of one GPU type; more than one followed is refused. Of a plan that is not followed nothing is written; where there is nothing to set in
//! Kubernetes alone, its files are comments. What would replace a parameter of the whole site is a comment as well.
//!
//! O(job types). Worked example: nodes of 8 GPUs have `Name=shard Count=16` each, and a job of the class asks for `gres/shard:1`.

use serde_json::{Value, json};
use tracecast_analytics::report::format;

use super::answer::{SharingClass, SharingPlan, SharingPlanAnswer};
use super::study::HowSet;
use super::way::SharingWay;
use crate::error::{Error, Result};
use crate::plan::emit::kubernetes::{self, config_map};
use crate::plan::emit::{
    GPU_RESOURCE, check_gpus_per_node, check_name, check_namespace, comments, csv_as_it_is, signed,
};
use crate::plan::verdict::Verdict;
use crate::plan::{Emitted, nothing_advised};
use crate::yaml::stream;

mod script;

/// Jobs on a shared GPU.
const TOGETHER: u32 = 2;
/// Shares of a GPU under `gres/mps`.
const MPS: u32 = 100;
/// What stands for the nodes with GPUs in Slurm's files.
const NODES: &str = "gpu-nodes";

/// What the files need to know beside the plan.
#[derive(Debug, Clone, PartialEq)]
pub struct SharingSite {
    /// How two jobs share a GPU; as the pairs of the plan were measured, else by time slicing, if `None`.
    pub way: Option<SharingWay>,
    /// GPUs of a node.
    pub gpus_per_node: u32,
    /// Name of the plan's GPUs in Slurm's files, such as `h100`; the name of the GPU type if
    /// `None`.
    pub slurm_type: Option<String>,
    /// Name of a GPU in Kubernetes.
    pub gpu_resource: String,
    /// Namespace of the device plugin.
    pub namespace: String,
}

impl Default for SharingSite {
    fn default() -> Self {
        Self {
            way: None,
            gpus_per_node: 8,
            slurm_type: None,
            gpu_resource: GPU_RESOURCE.to_owned(),
            namespace: "gpu-operator".to_owned(),
        }
    }
}

impl SharingSite {
    fn check(&self) -> Result<()> {
        check_gpus_per_node(self.gpus_per_node)?;
        if let Some(name) = &self.slurm_type {
            check_name("name of a GPU in Slurm", name, "-_.", "give one such as h100, as it stands in Gres")?;
        }
        check_name("name of a GPU", &self.gpu_resource, "-_./", "give one such as nvidia.com/gpu")?;
        check_namespace(&self.namespace)
    }
}

/// Whether a file holds comments alone, or a program that does nothing, so that it sets nothing.
///
/// Worked example: `# Share no v100 GPU` sets nothing; `Name=shard Count=16` does.
pub fn sets_nothing(name: &str, content: &str) -> bool {
    let comment = if std::path::Path::new(name).extension().is_some_and(|end| end == "lua") { "--" } else { "#" };
    content.lines().map(str::trim).all(|line| line.is_empty() || line.starts_with(comment))
}

/// Why nothing is written of an answer: no plan of it is followed.
pub fn refused(answer: &SharingPlanAnswer) -> Option<String> {
    if answer.is_advised() {
        return None;
    }
    let drawn = answer.body.plans.iter().find(|plan| plan.verdict == Verdict::Untested).map(|plan| {
        format!(
            " Only {} of the GPU time is of jobs whose name is a job type of the table, and the types of the others are drawn; name the job types first, with --types FILE, a CSV with the columns name and job_type.",
            format::percent(plan.named_gpu_time)
        )
    });
    Some(nothing_advised(&answer.action) + &drawn.unwrap_or_default())
}

/// Checks that a plan can be written; the way in which it is.
fn check(answer: &SharingPlanAnswer, site: &SharingSite) -> Result<SharingWay> {
    site.check()?;
    let followed: Vec<&str> =
        answer.body.plans.iter().filter(|plan| plan.is_followed()).map(|plan| plan.gpu_type.as_str()).collect();
    if followed.len() > 1 {
        return Err(Error::NotEmitted(format!(
            "a job has one name, and would go to a class of each of {}; name one of them with --gpu-type",
            followed.join(", ")
        )));
    }
    if let Some(why) = refused(answer) {
        return Err(Error::NotEmitted(why));
    }
    if let Some(gpu_type) = followed.iter().find(|gpu_type| gpu_type.ends_with("(MIG)")) {
        return Err(Error::NotEmitted(format!(
            "{gpu_type}: its pairs were measured on instances, and the files let jobs share whole GPUs; measure them by time slicing or through MPS"
        )));
    }
    let measured = followed.first().and_then(|gpu_type| SharingWay::of(gpu_type)).map(|(_, way)| way);
    match (site.way, measured) {
        (Some(request), Some(measured)) if request != measured => Err(Error::NotEmitted(format!(
            "the pairs of the plan were measured by {}; by {} jobs would run at other speeds",
            measured.in_words(),
            request.in_words()
        ))),
        (request, measured) => Ok(request.or(measured).unwrap_or(SharingWay::TimeSlicing)),
    }
}

/// Comment lines at the top of every file, of a rule that is set so.
pub(super) fn about(answer: &SharingPlanAnswer, how: HowSet) -> Vec<String> {
    let mut said = Vec::new();
    for plan in &answer.body.plans {
        said.push(plan.action.replace("**", ""));
        let Some(recommendation) = &plan.recommendation else { continue };
        if how == HowSet::OwnGpus && !plan.why_not_on_own_gpus.is_empty() {
            said.push(format!(
                "That is where jobs of a class may share any GPU. Here each class needs nodes of its own, and it is not to be followed so: {}.",
                plan.why_not_on_own_gpus
            ));
            continue;
        }
        let (words, rule) = match how {
            HowSet::OwnGpus => ("GPUs of its own for each class", plan.of(plan.rule, how)),
            _ => ("one class that may share any GPU", plan.of(plan.rule, HowSet::OneClass)),
        };
        let Some(rule) = rule else { continue };
        for (what, change) in [("Mean delay", &rule.mean_delay_change_s), ("Mean wait", &rule.mean_wait_change_s)] {
            said.push(format!(
                "{what} of the later jobs, with {words}: {} ({} to {}), against {}.",
                signed(change.value),
                signed(change.low),
                signed(change.high),
                recommendation.against
            ));
        }
        if let Some(gpus) = rule.gpus_instead {
            said.push(format!("{gpus} GPUs give the 95 % wait of {} that nobody shares.", plan.gpus));
        }
        said.push(format!("Confidence: {}. {}", recommendation.confidence.in_words(), recommendation.risk));
    }
    if let Some(plan) = answer.body.plans.iter().find(|plan| plan.is_followed() && plan.is_watched()) {
        said.push(format!(
            "The plan needs somebody who watches: 10 min after a job began beside another, if either is more than {} times as slow as alone, or if both together make no more than one alone: write a checkpoint of the newer job, then requeue it, as the replay keeps what it has done. These files do not do that.",
            format::float(plan.limits.slo, 2)
        ));
    }
    said.extend(answer.body.plans.iter().filter(|plan| plan.is_followed()).filter_map(SharingPlan::left_whole));
    let nothing = match how {
        HowSet::OwnGpus => answer.body.plans.iter().all(|plan| plan.on_own_gpus().is_empty()),
        _ => answer.verdict != Verdict::Advised,
    };
    if nothing {
        said.push("The GPUs stay as they are, so there is nothing to set here.".to_owned());
    }
    // Nothing but ASCII in files that old tools read, as far as names allow.
    said.iter().map(|line| line.replace('−', "-")).collect()
}

/// The plan that is to be followed, and the class whose jobs may share any GPU.
pub(super) fn one_class(answer: &SharingPlanAnswer) -> Option<(&SharingPlan, &SharingClass)> {
    answer.body.plans.iter().filter(|plan| plan.is_followed()).find_map(|plan| Some((plan, plan.one_class()?)))
}

/// Classes with GPUs of their own.
fn own_gpus(answer: &SharingPlanAnswer) -> impl Iterator<Item = &SharingClass> {
    answer.body.plans.iter().flat_map(SharingPlan::on_own_gpus)
}

/// A name as a word of Slurm's configuration.
pub(super) fn word(name: &str) -> String {
    name.chars().map(|letter| if letter.is_ascii_alphanumeric() || letter == '_' { letter } else { '_' }).collect()
}

/// The GPU of a plan as Slurm's files call it: else its GPU type, without the way in which pairs were measured on it.
pub(super) fn gpu_of<'a>(plan: &'a SharingPlan, site: &'a SharingSite) -> &'a str {
    let measured = SharingWay::of(&plan.gpu_type).map_or(plan.gpu_type.as_str(), |(gpu, _)| gpu);
    site.slurm_type.as_deref().unwrap_or(measured)
}

/// What Slurm calls a part of a GPU, and how many of them a GPU has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SlurmPart {
    pub(super) kind: &'static str,
    pub(super) of_gpu: u32,
}

impl SlurmPart {
    pub(super) const MPS: Self = Self { kind: "mps", of_gpu: MPS };
    pub(super) const SHARD: Self = Self { kind: "shard", of_gpu: TOGETHER };

    /// How many of them a job of the class asks for.
    fn for_one(self) -> u32 {
        self.of_gpu / TOGETHER
    }

    /// Part of Slurm's configuration that a plan needs.
    ///
    /// # Errors
    /// Errors of [`slurm`].
    pub(super) fn new(answer: &SharingPlanAnswer, site: &SharingSite) -> Result<Self> {
        let way = check(answer, site)?;
        if way == SharingWay::Mps && site.gpus_per_node > 1 && one_class(answer).is_some() {
            return Err(Error::NotEmitted(format!(
                "Slurm lets only one GPU of a node be shared through gres/mps at a time, and nodes have {}; use time slicing, or give --gpus-per-node 1 where that is so",
                site.gpus_per_node
            )));
        }
        Ok(if way == SharingWay::Mps { Self::MPS } else { Self::SHARD })
    }
}

/// Files for Slurm.
///
/// # Errors
/// If the site has no GPU on a node, or several and MPS is to be used, more than one GPU type is followed, the job types are drawn, or pairs were measured
/// in another way than is asked for.
pub fn slurm(answer: &SharingPlanAnswer, site: &SharingSite) -> Result<Vec<Emitted>> {
    let part = SlurmPart::new(answer, site)?;
    let said = about(answer, HowSet::OneClass);
    let (mut gres, mut conf, mut script) = (comments("#", &said), comments("#", &said), comments("--", &said));
    if let Some((plan, class)) = one_class(answer) {
        let (kind, per_node) = (part.kind, site.gpus_per_node);
        let count = per_node * part.of_gpu;
        let devices =
            if per_node == 1 { "/dev/nvidia0".to_owned() } else { format!("/dev/nvidia[0-{}]", per_node - 1) };
        let gpu_type = word(gpu_of(plan, site));
        gres.push_str(&format!(
            "# In gres.conf. {NODES} stands for your nodes with these GPUs, all of them: put their names in its place, here and in slurm-sharing.conf.\n\
             NodeName={NODES} Name=gpu Type={gpu_type} File={devices}\nNodeName={NODES} Name={kind} Count={count}\n"
        ));
        conf.push_str(&format!(
            "# In slurm.conf, in place of Gres in the lines of these nodes; keep what else they have. Then drain the nodes, restart slurmctld and their slurmd, and resume them.\n\
             # To undo: drain them, put the old lines back in both files, restart, and take job_submit.lua's lines out.\n\
             # Parameters of the whole site, which these files do not set:\n\
             #   GresTypes: add {kind} to those that are there, such as GresTypes=gpu,{kind}.\n\
             #   SelectType: it must be select/cons_tres.\n\
             #   SelectTypeParameters: add LL_SHARED_GRES to those that are there; a job then goes to the GPU of its node that is used least.\n\
             #   PartitionName: add LLN=YES to the partitions of these nodes, or jobs fill one node after another and share while GPUs of others are empty.\n\
             # It takes Slurm 24.11: 22.05 gives a GPU whole while a job still has a part of it, and does not start with LL_SHARED_GRES. What lies between was not tried.\n"
        ));
        conf.push_str(if kind == SlurmPart::MPS.kind {
            "# With mps, nvidia-cuda-mps-control must be there on the nodes.\n"
        } else {
            "# Slurm does not watch the memory of shards: what a job takes beyond its part, the other lacks.\n"
        });
        conf.push_str(&format!("NodeName={NODES} Gres=gpu:{gpu_type}:{per_node},{kind}:{count} State=UNKNOWN\n"));
        script.push_str(&script::lines(&class.job_types, &answer.body.types, part, gpu_of(plan, site)));
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
/// If a name of the site is none that Kubernetes takes, more than one GPU type is followed, the job types are drawn, or pairs were measured
/// in another way than is asked for.
pub fn kubernetes(answer: &SharingPlanAnswer, site: &SharingSite) -> Result<Vec<Emitted>> {
    let way = check(answer, site)?;
    let said = about(answer, HowSet::OwnGpus);
    let mut labels = format!("#!/bin/sh\n{}", comments("#", &said));
    let mut yaml = comments("#", &said);
    if own_gpus(answer).next().is_some() {
        let means = if way == SharingWay::Mps { "mps" } else { "timeSlicing" };
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
        for class in own_gpus(answer) {
            let resources = json!([{ "name": site.gpu_resource, "replicas": TOGETHER }]);
            let mut sharing = json!({ "resources": resources });
            if way == SharingWay::TimeSlicing
                && let Some(of) = sharing.as_object_mut()
            {
                of.insert("failRequestsGreaterThanOne".to_owned(), Value::Bool(true));
            }
            let config = json!({ "version": "v1", "sharing": { means: sharing } });
            configs.insert(class.name.clone(), Value::String(serde_json::to_string(&config).unwrap_or_default()));
            types.insert(class.name.clone(), Value::String(class.job_types.join("\n")));
            labels.push_str(&format!("# {}: nodes with {} GPUs in all.\n", class.name, class.gpus));
        }
        configs.insert("any".to_owned(), Value::String("{\"version\": \"v1\"}".to_owned()));
        let set = ["nvidia.com/device-plugin.config", "tracecast.io/share-class"];
        labels.push_str(&kubernetes::labels("class", &set));
        if !answer.body.types.is_empty() {
            let class = |job_type: &String| own_gpus(answer).find(|class| class.job_types.contains(job_type));
            let rows = answer.body.types.iter().map(|line| {
                [
                    line.name.clone(),
                    line.job_type.clone(),
                    class(&line.job_type).map_or_else(String::new, |of| of.name.clone()),
                ]
            });
            // Names are to be matched.
            let names = csv_as_it_is("names.csv", ["name", "job_type", "class"], rows)?;
            types.insert("names.csv".to_owned(), Value::String(names));
        }
        let by_name = if answer.body.types.is_empty() {
            ""
        } else {
            " Under names.csv, the names as the plan was told of them: * stands for any text, ? for one letter, and the first line that matches counts; of a name without a class the pods take whole GPUs."
        };
        let example = own_gpus(answer).next().map_or_else(String::new, |class| class.name.clone());
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
                config_map("tracecast-sharing", &site.namespace, &configs),
            ),
            (
                format!(
                    "The job types of each class, for who writes the pods: nothing in Kubernetes goes by a job's name.{by_name}"
                ),
                config_map("tracecast-share-classes", &site.namespace, &types),
            ),
        ]);
        let example = stream(&[("A pod of a class.".to_owned(), pod)]);
        yaml.push_str(&comments("#", &example.lines().map(str::to_owned).collect::<Vec<_>>()));
    }
    Ok(vec![("kubernetes-sharing.yaml".to_owned(), yaml), ("kubernetes-labels.sh".to_owned(), labels)])
}
