//! A plan of queues as Slurm and Kueue read it.
//!
//! **Slurm**: each VC gets two partitions over all nodes. The first has the higher `PriorityTier`, so that its jobs go before all others, and a QOS
//! that holds it to the VC's own share; the second is for what the VC borrows, with a QOS that holds it to the ceiling less that share. A job asks for both
//! (`--partition=vision,vision-borrow`), which `job_submit.lua` does for it, and starts where it may first. Where the plan reclaims, jobs of the second
//! partition are requeued for those of the first, the youngest first. Without shares one partition is left.
//!
//! **Kueue**: each VC gets a ClusterQueue in one cohort, with its own share as `nominalQuota` and what it may borrow as `borrowingLimit`. Kueue admits
//! what stays within the nominal quota before what borrows, and reclaims by preemption where the plan does.
//!
//! O(VCs). Worked example: a VC of 96 GPUs with a ceiling of 1.5 has `GrpTRES=gres/gpu=96` on one QOS and `gres/gpu=48` on the other, and
//! `nominalQuota: 96`, `borrowingLimit: 48`.

use serde_json::{Value, json};

use super::answer::{QueuesAnswer, VcPlan};
use super::share::Sharing;
use crate::error::{Error, Result};
use crate::plan::slug::slug;
use crate::plan::yaml::stream;

/// How Kueue calls a GPU unless said otherwise.
pub const GPU_RESOURCE: &str = "nvidia.com/gpu";

/// What Kueue must be told beside the objects.
const COVERED: &str = "Kueue admits nothing that asks for a resource it does not cover: add processors and memory here, or exclude them (resources.excludeResourcePrefixes).";

/// A file of a configuration: its name and content.
pub type Emitted = (String, String);

/// The VCs with names that Slurm and Kubernetes take.
fn named(answer: &QueuesAnswer) -> Result<Vec<(String, &VcPlan)>> {
    let mut found: Vec<(String, &VcPlan)> = Vec::new();
    for vc in &answer.vcs {
        let remedy = "rename it in the trace or with a mapping, with letters, digits and `-`";
        let Some(name) = slug(&vc.vc) else {
            return Err(Error::Malformed { what: "name of a queue", found: vc.vc.clone(), remedy: remedy.to_owned() });
        };
        if found.iter().any(|(other, _)| *other == name) {
            let what = format!("{} (as {name}, which another VC is called, too)", vc.vc);
            return Err(Error::Malformed { what: "name of a queue", found: what, remedy: remedy.to_owned() });
        }
        found.push((name, vc));
    }
    Ok(found)
}

/// How the plan shares nodes, if it is to be followed and they are shared at all.
fn shared(answer: &QueuesAnswer) -> Option<Sharing> {
    let setup = answer.setup().filter(|_| answer.followed)?;
    (!matches!(setup.sharing, Sharing::AsToday | Sharing::Private)).then_some(setup.sharing)
}

fn plain(text: &str) -> String {
    text.replace("**", "")
}

/// What both say first.
fn about(answer: &QueuesAnswer) -> Vec<String> {
    let mut said = vec![plain(&answer.action)];
    if let Some(recommendation) = &answer.recommendation {
        for effect in &recommendation.effects {
            let (low, high) = (effect.low.unwrap_or(effect.change), effect.high.unwrap_or(effect.change));
            said.push(format!(
                "{} on later jobs: {:+.0} s ({:+.0} to {:+.0}), against {}.",
                effect.what, effect.change, low, high, recommendation.against
            ));
        }
    }
    if answer.setup().is_some_and(|setup| answer.followed && setup.policy != answer.today) {
        said.push("The order of jobs is not in these files: let the submission plugin set it from `tracecast predict` or `serve`.".to_owned());
    }
    said
}

fn nothing(answer: &QueuesAnswer, file: &str) -> Vec<Emitted> {
    vec![(
        file.to_owned(),
        about(answer).join("\n") + "\nThe nodes stay as they are, so there is no configuration of queues.\n",
    )]
}

/// Files for Slurm; `nodes` is what its partitions name, such as `gpu[001-064]`.
///
/// # Errors
/// If a VC has no name that Slurm takes.
pub fn slurm(answer: &QueuesAnswer, nodes: &str) -> Result<Vec<Emitted>> {
    let Some(sharing) = shared(answer) else { return Ok(nothing(answer, "slurm-notes.txt")) };
    if sharing == Sharing::OnePool {
        let text = format!(
            "{}# In place of the partitions of the VCs in slurm.conf. Jobs no longer name a partition.\nPartitionName=shared Nodes={nodes} Default=YES State=UP\n",
            comments(answer)
        );
        return Ok(vec![("slurm-partitions.conf".to_owned(), text)]);
    }
    let named = named(answer)?;
    let mut partitions = format!(
        "{}# In place of the partitions of the VCs in slurm.conf. It needs AccountingStorageTRES=gres/gpu and AccountingStorageEnforce=limits,qos.\n# Keep the other settings that your partitions have (MaxTime, AllowAccounts and so on).\n",
        comments(answer)
    );
    let reclaims = matches!(sharing, Sharing::Borrowing { reclaim: true, .. });
    if reclaims {
        partitions
            .push_str("# Partitions that are not in this list need PreemptMode=OFF, or their jobs are stopped, too.\n# Add preempt_youngest_first to your SchedulerParameters: who started last is stopped first.\nPreemptType=preempt/partition_prio\nPreemptMode=REQUEUE\n");
    }
    let mode = |stops: &str| if reclaims { format!(" PreemptMode={stops}") } else { String::new() };
    let mut qos = format!(
        "#!/bin/sh\n{}# Limits of the partitions. Undo: sacctmgr -i delete qos NAME\nset -eu\n",
        comments(answer)
    );
    let mut lua = String::from(
        "-- Into slurm_job_submit of job_submit.lua: a job that names the partition of a VC may also borrow.\nlocal borrows = {\n",
    );
    for (name, vc) in &named {
        let own = vc.own_gpus.floor();
        let rest = vc.most_gpus.map(|most| (most - own).max(0.0));
        partitions.push_str(&format!(
            "# {}: {own} GPUs of its own{}.\n",
            vc.vc.escape_debug(),
            rest.map_or_else(|| ", and all that is idle".to_owned(), |rest| format!(", and up to {rest} more"))
        ));
        partitions.push_str(&format!(
            "PartitionName={name} Nodes={nodes} State=UP PriorityTier=20 QOS={name}{}\n",
            mode("OFF")
        ));
        partitions.push_str(&format!(
            "PartitionName={name}-borrow Nodes={nodes} State=UP PriorityTier=10 QOS={name}-borrow{}\n",
            mode("REQUEUE")
        ));
        let limit = |qos: &str, gpus: Option<f64>| {
            let most = gpus.map_or_else(|| "-1".to_owned(), |gpus| gpus.to_string());
            format!("sacctmgr -i add qos {qos} || true\nsacctmgr -i modify qos {qos} set GrpTRES=gres/gpu={most}\n")
        };
        qos.push_str(&limit(name, Some(own)));
        qos.push_str(&limit(&format!("{name}-borrow"), rest));
        lua.push_str(&format!("  [\"{name}\"] = \"{name},{name}-borrow\",\n"));
    }
    lua.push_str("}\nif borrows[job_desc.partition] then\n  job_desc.partition = borrows[job_desc.partition]\nend\n");
    Ok(vec![
        ("slurm-partitions.conf".to_owned(), partitions),
        ("slurm-qos.sh".to_owned(), qos),
        ("slurm-job-submit.lua".to_owned(), lua),
    ])
}

fn comments(answer: &QueuesAnswer) -> String {
    about(answer).iter().map(|line| format!("# {line}\n")).collect()
}

/// Objects for Kueue; `gpu_resource` is how the cluster calls a GPU.
///
/// # Errors
/// If a VC has no name that Kubernetes takes.
pub fn kueue(answer: &QueuesAnswer, gpu_resource: &str) -> Result<Vec<Emitted>> {
    let Some(sharing) = shared(answer) else { return Ok(nothing(answer, "kueue-notes.txt")) };
    let named = named(answer)?;
    let mut types: Vec<Option<&str>> =
        answer.vcs.iter().flat_map(|vc| &vc.own).map(|own| own.gpu_type.as_deref()).collect();
    types.sort_unstable();
    types.dedup();
    let flavor = |gpu_type: Option<&str>| gpu_type.and_then(slug).unwrap_or_else(|| "gpu".to_owned());
    let meta = |name: &str| json!({ "name": name });
    let mut documents: Vec<(String, Value)> = Vec::new();
    for gpu_type in &types {
        let name = flavor(*gpu_type);
        let mut spec = json!({});
        if let (Some(gpu_type), Some(fields)) = (gpu_type, spec.as_object_mut()) {
            fields.insert("nodeLabels".to_owned(), json!({ "nvidia.com/gpu.product": gpu_type }));
        }
        documents.push((
            format!("{}\nNodes of one kind; their labels must be those of your nodes.", about(answer).join("\n")),
            json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": meta(&name), "spec": spec}),
        ));
    }
    let reclaims = matches!(sharing, Sharing::Borrowing { reclaim: true, .. });
    let strategy = if answer.setup().is_some_and(|setup| setup.strict) { "StrictFIFO" } else { "BestEffortFIFO" };
    let queue = |name: &str, flavors: Value, cohort: bool| {
        let mut spec = json!({
            "namespaceSelector": {},
            "queueingStrategy": strategy,
            "resourceGroups": [{ "coveredResources": [gpu_resource], "flavors": flavors }],
            "preemption": { "reclaimWithinCohort": if reclaims { "Any" } else { "Never" }, "withinClusterQueue": "Never" },
        });
        if let (true, Some(fields)) = (cohort, spec.as_object_mut()) {
            fields.insert("cohortName".to_owned(), Value::from("tracecast"));
        }
        json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": meta(name), "spec": spec})
    };
    let quota = |gpus: f64, borrow: Option<f64>| {
        let mut quota = json!({ "name": gpu_resource, "nominalQuota": gpus.floor() as u64 });
        if let (Some(borrow), Some(fields)) = (borrow, quota.as_object_mut()) {
            fields.insert("borrowingLimit".to_owned(), Value::from(borrow.floor() as u64));
        }
        quota
    };
    if sharing == Sharing::OnePool {
        let flavors: Vec<Value> = types
            .iter()
            .map(|gpu_type| {
                let own = answer.vcs.iter().flat_map(|vc| &vc.own).filter(|own| own.gpu_type.as_deref() == *gpu_type);
                json!({ "name": flavor(*gpu_type), "resources": [quota(own.map(|own| own.gpus).sum(), None)] })
            })
            .collect();
        let what = format!("All VCs queue here: point their LocalQueues at it. {COVERED}");
        documents.push((what, queue("shared", Value::from(flavors), false)));
        return Ok(vec![("kueue.yaml".to_owned(), stream(&documents))]);
    }
    for (name, vc) in &named {
        let flavors: Vec<Value> = vc
            .own
            .iter()
            .map(|own| {
                // What may be borrowed is divided among types as the VC's own GPUs are.
                let part = if vc.own_gpus > 0.0 { own.gpus / vc.own_gpus } else { 0.0 };
                let borrow = vc.most_gpus.map(|most| (most - vc.own_gpus).max(0.0) * part);
                json!({ "name": flavor(own.gpu_type.as_deref()), "resources": [quota(own.gpus, borrow)] })
            })
            .collect();
        let what = format!("{}: its LocalQueue points here. {COVERED}", vc.vc.escape_debug());
        documents.push((what, queue(name, Value::from(flavors), true)));
    }
    Ok(vec![("kueue.yaml".to_owned(), stream(&documents))])
}
