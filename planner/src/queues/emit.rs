//! A plan of queues as Slurm and Kueue read it.
//!
//! **Slurm**: each VC gets two partitions over all nodes. The first has the higher `PriorityTier`, so that its jobs go before all others, and a QOS
//! that holds it to the VC's own share; the second is for what the VC borrows, with a QOS that holds it to the ceiling less that share, or to the VC's largest
//! job if that is more, as a job lies in one partition whole. A job asks for both (`--partition=vision,vision-borrow`), which `job_submit.lua` does for it,
//! and starts where it may first. Where the plan reclaims, jobs of the second partition are requeued for those of the first. A job that began there stays one that
//! borrows to its end, where the replay judges anew.
//!
//! **Kueue**: each VC gets a ClusterQueue in one cohort, with its own share as `nominalQuota` and what it may borrow as `borrowingLimit`. Kueue admits
//! what stays within the nominal quota before what borrows, and reclaims by preemption where the plan does. StrictFIFO holds up the jobs of one ClusterQueue,
//! where the replay's strict scan holds up the pool.
//!
//! The same files are written whatever the plan says, so that none of an earlier plan stays behind: where there is nothing to set they are comments.
//!
//! O(VCs). Worked example: a VC of 96 GPUs with a ceiling of 1.5 has `GrpTRES=gres/gpu=96` on one QOS and `gres/gpu=48` on the other, and
//! `nominalQuota: 96`, `borrowingLimit: 48`.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tracecast_analytics::report::format;

use super::answer::{QueuesAnswer, VcPlan};
use super::share::Sharing;
use crate::error::{Error, Result};
use crate::plan::slug::{is_taken, slug};
use crate::plan::yaml::stream;

/// How Kueue calls a GPU unless said otherwise.
pub const GPU_RESOURCE: &str = "nvidia.com/gpu";
/// What Kueue must be told beside the objects.
const COVERED: &str = "Kueue admits nothing that asks for a resource it does not cover: add processors and memory here, or exclude them (resources.excludeResourcePrefixes).";

/// A file of a configuration: its name and content.
pub type Emitted = (String, String);

fn unnamed(found: String) -> Error {
    let remedy = "rename it in the trace or with a mapping, with letters, digits and `-`";
    Error::Malformed { what: "name of a queue", found, remedy: remedy.to_owned() }
}

/// The VCs with names that Kubernetes takes, and Slurm for a QOS.
fn named(answer: &QueuesAnswer) -> Result<Vec<(String, &VcPlan)>> {
    let mut found: Vec<(String, &VcPlan)> = Vec::new();
    for vc in &answer.vcs {
        let name = slug(&vc.vc).ok_or_else(|| unnamed(vc.vc.clone()))?;
        if is_taken(found.iter().map(|(other, _)| other.as_str()), &name, Some("-borrow")) {
            return Err(unnamed(format!("{} (as {name}, which another is called, too)", vc.vc)));
        }
        found.push((name, vc));
    }
    Ok(found)
}

/// The name of a partition: as it is, so that scripts still name it, if Slurm takes that.
fn partition(vc: &VcPlan, slug: &str) -> Result<String> {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
    let name = if vc.vc.chars().all(plain) { vc.vc.clone() } else { slug.to_owned() };
    // Slurm takes that for what all later partitions have.
    if name.eq_ignore_ascii_case("default") { Err(unnamed(name)) } else { Ok(name) }
}

/// How the plan shares nodes, if it is to be followed and they are shared at all.
fn shared(answer: &QueuesAnswer) -> Option<Sharing> {
    let setup = answer.setup().filter(|_| answer.followed)?;
    (!matches!(setup.sharing, Sharing::AsToday | Sharing::Private)).then_some(setup.sharing)
}

/// What all files say first.
fn about(answer: &QueuesAnswer) -> Vec<String> {
    let mut said = vec![answer.action.replace("**", "")];
    if let Some(recommendation) = &answer.recommendation {
        for effect in &recommendation.effects {
            let (low, high) = (effect.low.unwrap_or(effect.change), effect.high.unwrap_or(effect.change));
            said.push(format!(
                "{} on later jobs: {} ({} to {}), against {}.",
                effect.what,
                signed(effect.change),
                signed(low),
                signed(high),
                recommendation.against
            ));
        }
        said.push(format!("Confidence: {}. {}", recommendation.confidence.in_words(), recommendation.risk));
        said.push(format!("Undo: {}", recommendation.undo));
    }
    if let Some(setup) = answer.setup().filter(|setup| answer.followed && setup.policy != answer.today) {
        said.push(format!(
            "The order of jobs ({}) is not in these files. Slurm backfills with SchedulerType=sched/backfill by time limits, and takes priorities from a submission \
             plugin that asks `tracecast predict` or `serve`; Kueue knows priorities alone.",
            setup.order
        ));
    }
    if shared(answer).is_none() {
        said.push("The nodes stay as they are, so there is nothing to set here.".to_owned());
    }
    said
}

/// A change of seconds.
fn signed(seconds: f64) -> String {
    let sign = if seconds < 0.0 { "-" } else { "+" };
    format!("{sign}{}", format::duration(seconds.abs()))
}

/// Text as comments that begin with `mark`.
fn comments(mark: &str, answer: &QueuesAnswer) -> String {
    about(answer).iter().map(|line| format!("{mark} {line}\n")).collect()
}

/// Files for Slurm; `nodes` is what its partitions name, such as `gpu[001-064]`.
///
/// # Errors
/// If a VC has no name that Slurm takes.
pub fn slurm(answer: &QueuesAnswer, nodes: &str) -> Result<Vec<Emitted>> {
    let mut partitions = comments("#", answer);
    let mut qos = format!("#!/bin/sh\n{partitions}");
    let mut lua = comments("--", answer);
    match shared(answer) {
        None => {}
        Some(Sharing::OnePool) => partitions.push_str(&format!(
            "# In place of the partitions of the VCs in slurm.conf. Jobs no longer name a partition.\nPartitionName=shared Nodes={nodes} Default=YES State=UP\n"
        )),
        Some(sharing) => {
            let reclaims = matches!(sharing, Sharing::Borrowing { reclaim: true, .. });
            borrowing(answer, nodes, reclaims, (&mut partitions, &mut qos, &mut lua))?;
        }
    }
    let name = |name: &str| name.to_owned();
    Ok(vec![
        (name("slurm-partitions.conf"), partitions),
        (name("slurm-qos.sh"), qos),
        (name("slurm-job-submit.lua"), lua),
    ])
}

fn borrowing(
    answer: &QueuesAnswer,
    nodes: &str,
    reclaims: bool,
    (partitions, qos, lua): (&mut String, &mut String, &mut String),
) -> Result<()> {
    partitions.push_str(
        "# First run slurm-qos.sh. Then put these lines in place of the partitions of the VCs in slurm.conf, and restart slurmctld. They need\n\
         # AccountingStorageTRES=gres/gpu and AccountingStorageEnforce=limits,qos, under which jobs need an association in the accounting.\n\
         # Keep what else your partitions have (Default, MaxTime, AllowAccounts and so on). To undo, put the old lines back before you delete a QOS.\n",
    );
    if reclaims {
        partitions.push_str(
            "# Partitions that are not in this list need PreemptMode=OFF, or their jobs are stopped, too.\n\
             # Add preempt_youngest_first to your SchedulerParameters: who started last is stopped first.\n\
             PreemptType=preempt/partition_prio\nPreemptMode=REQUEUE\n",
        );
    }
    qos.push_str(
        "# Limits of the partitions. Undo, once no partition names them: sacctmgr -i delete qos NAME\nset -eu\n",
    );
    lua.push_str(
        "-- Into slurm_job_submit of job_submit.lua: a job that names the partition of a VC may also borrow.\nlocal borrows = {\n",
    );
    let mode = |stops: &str| if reclaims { format!(" PreemptMode={stops}") } else { String::new() };
    for (slug, vc) in named(answer)? {
        let name = partition(vc, &slug)?;
        let own = vc.own_gpus.floor();
        let rest = vc.most_gpus.map(|most| (most - own).max(vc.largest_job_gpus).max(0.0));
        partitions.push_str(&format!(
            "# {}: {own} GPUs of its own{}.\n",
            vc.vc.escape_debug(),
            rest.map_or_else(|| ", and all that is idle".to_owned(), |rest| format!(", and up to {rest} more"))
        ));
        for (partition, tier, qos, mode) in [
            (name.clone(), 20, format!("{slug}-own"), mode("OFF")),
            (format!("{name}-borrow"), 10, format!("{slug}-borrow"), mode("REQUEUE")),
        ] {
            partitions.push_str(&format!(
                "PartitionName={partition} Nodes={nodes} State=UP PriorityTier={tier} QOS={qos}{mode}\n"
            ));
        }
        for (suffix, gpus) in [("own", Some(own)), ("borrow", rest)] {
            let most = gpus.map_or_else(|| "-1".to_owned(), |gpus| gpus.to_string());
            qos.push_str(&format!(
                "sacctmgr -i add qos {slug}-{suffix} || true\nsacctmgr -i modify qos {slug}-{suffix} set GrpTRES=gres/gpu={most}\n"
            ));
        }
        lua.push_str(&format!("  [\"{name}\"] = \"{name},{name}-borrow\",\n"));
    }
    lua.push_str("}\nif borrows[job_desc.partition] then\n  job_desc.partition = borrows[job_desc.partition]\nend\n");
    Ok(())
}

/// Objects for Kueue; `gpu_resource` is how the cluster calls a GPU.
///
/// # Errors
/// If a VC or a GPU type has no name that Kubernetes takes.
pub fn kueue(answer: &QueuesAnswer, gpu_resource: &str) -> Result<Vec<Emitted>> {
    let file = |content: String| Ok(vec![("kueue.yaml".to_owned(), content)]);
    let Some(sharing) = shared(answer) else { return file(comments("#", answer)) };
    // Names of the kinds of nodes, and their GPUs in all.
    let mut flavors: BTreeMap<String, (Option<&str>, f64)> = BTreeMap::new();
    for own in answer.vcs.iter().flat_map(|vc| &vc.own) {
        let gpu_type = own.gpu_type.as_deref();
        let kind = flavors.entry(flavor(gpu_type)).or_insert((gpu_type, 0.0));
        if kind.0 != gpu_type {
            return Err(unnamed(format!(
                "GPU type {} (as {}, which another is called, too)",
                gpu_type.unwrap_or("unknown"),
                flavor(gpu_type)
            )));
        }
        kind.1 += own.gpus;
    }
    let meta = |name: &str| json!({ "name": name });
    let mut documents: Vec<(String, Value)> = Vec::new();
    for (name, (gpu_type, _)) in &flavors {
        let spec = gpu_type.map_or_else(|| json!({}), |of| json!({ "nodeLabels": { "nvidia.com/gpu.product": of } }));
        let what =
            format!("{}\nNodes of one kind; their labels must be those of your nodes.", about(answer).join("\n"));
        documents.push((
            what,
            json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": meta(name), "spec": spec}),
        ));
    }
    let reclaims = matches!(sharing, Sharing::Borrowing { reclaim: true, .. });
    let strategy = if answer.setup().is_some_and(|setup| setup.strict) { "StrictFIFO" } else { "BestEffortFIFO" };
    // `own` says how many GPUs of a kind of nodes are its own.
    let queue = |name: &str, own: &dyn Fn(&str) -> f64, borrow: Option<f64>, cohort: bool| {
        let quotas: Vec<Value> = flavors
            .keys()
            .map(|flavor| {
                let mut quota = json!({ "name": gpu_resource, "nominalQuota": own(flavor).floor() as u64 });
                if let (Some(borrow), Some(fields)) = (borrow, quota.as_object_mut()) {
                    fields.insert("borrowingLimit".to_owned(), Value::from(borrow.floor() as u64));
                }
                json!({ "name": flavor, "resources": [quota] })
            })
            .collect();
        let mut spec = json!({
            "namespaceSelector": {},
            "queueingStrategy": strategy,
            "resourceGroups": [{ "coveredResources": [gpu_resource], "flavors": quotas }],
            "preemption": { "reclaimWithinCohort": if reclaims { "Any" } else { "Never" }, "withinClusterQueue": "Never" },
        });
        if let (true, Some(fields)) = (cohort, spec.as_object_mut()) {
            fields.insert("cohortName".to_owned(), Value::from("tracecast"));
        }
        json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": meta(name), "spec": spec})
    };
    if sharing == Sharing::OnePool {
        let all = |of: &str| flavors.get(of).map_or(0.0, |(_, gpus)| *gpus);
        documents.push((
            format!("All VCs queue here: point their LocalQueues at it. {COVERED}"),
            queue("shared", &all, None, false),
        ));
        return file(stream(&documents));
    }
    for (name, vc) in named(answer)? {
        let own = |of: &str| {
            vc.own.iter().filter(|own| flavor(own.gpu_type.as_deref()) == of).map(|own| own.gpus).sum::<f64>()
        };
        let borrow = vc.most_gpus.map(|most| (most - vc.own_gpus).max(0.0));
        let what = format!("{}: its LocalQueue points here. {COVERED}", vc.vc.escape_debug());
        documents.push((what, queue(&name, &own, borrow, true)));
    }
    file(stream(&documents))
}

/// What a kind of nodes is called.
fn flavor(gpu_type: Option<&str>) -> String {
    gpu_type.and_then(slug).unwrap_or_else(|| "gpu".to_owned())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use tracecast_analytics::Trace;

    use super::super::answer::OwnGpus;
    use super::super::search::tests::{request, uneven};
    use super::*;
    use crate::plan::yaml::tests::read;

    /// VCs vision (96 GPUs of its own) and speech (8), as if `sharing` had been chosen.
    fn plan(sharing: Sharing, ceiling: Option<f64>) -> QueuesAnswer {
        let mut answer =
            QueuesAnswer::of(&Trace::default(), &uneven(300), String::new(), &request(None), &|| ()).unwrap();
        answer.followed = true;
        let chosen = answer.chosen;
        answer.candidates[chosen].sharing = sharing;
        for (vc, (name, gpus)) in answer.vcs.iter_mut().zip([("Vision_A", 96.0), ("speech", 8.0)]) {
            (vc.vc, vc.own_gpus, vc.largest_job_gpus) = (name.to_owned(), gpus, 8.0);
            vc.own = vec![OwnGpus { gpu_type: None, gpus }];
            vc.most_gpus = ceiling.map(|ceiling| gpus * ceiling);
        }
        answer
    }

    fn file<'f>(files: &'f [Emitted], name: &str) -> &'f str {
        &files.iter().find(|(other, _)| other == name).unwrap().1
    }

    #[test]
    fn the_worked_example() {
        let answer = plan(Sharing::Borrowing { ceiling: Some(1.5), reclaim: true }, Some(1.5));
        let files = slurm(&answer, "n[1-13]").unwrap();
        let qos = file(&files, "slurm-qos.sh");
        assert!(qos.contains("modify qos vision-a-own set GrpTRES=gres/gpu=96\n"), "{qos}");
        assert!(qos.contains("modify qos vision-a-borrow set GrpTRES=gres/gpu=48\n"), "{qos}");
        // Half of 8 GPUs is less than its largest job, which lies in one partition whole.
        assert!(qos.contains("modify qos speech-borrow set GrpTRES=gres/gpu=8\n"), "{qos}");
        let partitions = file(&files, "slurm-partitions.conf");
        assert!(partitions.contains(
            "PartitionName=Vision_A Nodes=n[1-13] State=UP PriorityTier=20 QOS=vision-a-own PreemptMode=OFF\n"
        ));
        assert!(partitions.contains(
            "PartitionName=speech-borrow Nodes=n[1-13] State=UP PriorityTier=10 QOS=speech-borrow PreemptMode=REQUEUE\n"
        ));
        assert!(file(&files, "slurm-job-submit.lua").contains("[\"Vision_A\"] = \"Vision_A,Vision_A-borrow\""));
        let documents = read(file(&kueue(&answer, GPU_RESOURCE).unwrap(), "kueue.yaml"));
        let kinds: Vec<&str> = documents.iter().map(|of| of["kind"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["ResourceFlavor", "ClusterQueue", "ClusterQueue"]);
        let spec = &documents[1]["spec"];
        let quota = &spec["resourceGroups"][0]["flavors"][0]["resources"][0];
        assert_eq!((quota["nominalQuota"].as_u64(), quota["borrowingLimit"].as_u64()), (Some(96), Some(48)));
        assert_eq!(
            (spec["cohortName"].as_str(), &spec["preemption"]["reclaimWithinCohort"]),
            (Some("tracecast"), &"Any".into())
        );
        assert_eq!(documents[1]["metadata"]["name"], "vision-a");
    }

    #[test]
    fn without_reclaiming_nobody_is_stopped_and_without_ceiling_nothing_is_bounded() {
        let answer = plan(Sharing::Borrowing { ceiling: None, reclaim: false }, None);
        let files = slurm(&answer, "ALL").unwrap();
        assert!(!file(&files, "slurm-partitions.conf").contains("Preempt"));
        assert!(file(&files, "slurm-qos.sh").contains("modify qos speech-borrow set GrpTRES=gres/gpu=-1\n"));
        let spec = &read(file(&kueue(&answer, GPU_RESOURCE).unwrap(), "kueue.yaml"))[1]["spec"];
        assert_eq!(spec["preemption"]["reclaimWithinCohort"], "Never");
        assert!(spec["resourceGroups"][0]["flavors"][0]["resources"][0].get("borrowingLimit").is_none());
    }

    #[test]
    fn one_pool_is_one_queue_of_all_kinds_of_nodes() {
        let mut answer = plan(Sharing::OnePool, None);
        answer.vcs[1].own = vec![OwnGpus { gpu_type: Some("A100".to_owned()), gpus: 8.0 }];
        let documents = read(file(&kueue(&answer, "gpus").unwrap(), "kueue.yaml"));
        assert_eq!(documents.len(), 3);
        let flavors = documents[2]["spec"]["resourceGroups"][0]["flavors"].as_array().unwrap();
        let of =
            |at: usize| (flavors[at]["name"].as_str().unwrap(), flavors[at]["resources"][0]["nominalQuota"].as_u64());
        assert_eq!([of(0), of(1)], [("a100", Some(8)), ("gpu", Some(96))]);
        assert!(
            file(&slurm(&answer, "ALL").unwrap(), "slurm-partitions.conf")
                .contains("PartitionName=shared Nodes=ALL Default=YES")
        );
    }

    #[test]
    fn where_nothing_changes_all_files_are_comments() {
        let mut answer = plan(Sharing::OnePool, None);
        answer.followed = false;
        let files = [slurm(&answer, "ALL").unwrap(), kueue(&answer, GPU_RESOURCE).unwrap()].concat();
        assert_eq!(files.len(), 4);
        for (name, content) in &files {
            assert!(content.lines().all(|line| line.starts_with('#') || line.starts_with("--")), "{name}: {content}");
            assert!(content.contains("nothing to set here"));
        }
    }

    #[test]
    fn names_that_cannot_be_are_refused() {
        let mut answer = plan(Sharing::Borrowing { ceiling: None, reclaim: false }, None);
        for (first, second) in [("a", "a-borrow"), ("A", "a"), ("default", "b"), ("ä", "b")] {
            (answer.vcs[0].vc, answer.vcs[1].vc) = (first.to_owned(), second.to_owned());
            assert!(slurm(&answer, "ALL").unwrap_err().to_string().contains("name of a queue"), "{first} {second}");
        }
    }
}
