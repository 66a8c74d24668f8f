//! A patch to Slurm's files: the partitions of the VCs, what lies beside them for borrowing, and what preemption and limits need.
//!
//! A line that names a VC's partition keeps all its keys but `Nodes`, `PriorityTier`, `QOS` and, where jobs are or were stopped by partition, `PreemptMode`; the partition for borrowing is a copy of it, never
//! the default. Where jobs are stopped, other partitions get `PreemptMode=OFF` unless they or their defaults say otherwise. `SchedulerType=sched/builtin` gives way where the plan starts jobs past one that
//! does not fit, and `PriorityType=priority/basic` where its order needs weights. Keys of the whole cluster are set where they stand; new ones go into the file that names
//! the cluster. The QOS are those of `slurm-qos.sh`, which runs first. Of one pool without shares, the partitions of all VCs name all nodes, and nothing else of them changes.
//!
//! O(bytes × changes). Worked example: `PartitionName=vision Nodes=n[1-8] MaxTime=7-0 # ours` becomes `PartitionName=vision Nodes=ALL MaxTime=7-0
//! PriorityTier=20 QOS=vision-own # ours`, and below it stands `PartitionName=vision-borrow Nodes=ALL MaxTime=7-0 PriorityTier=10 QOS=vision-borrow Default=NO`.

use super::super::answer::{QueuesAnswer, VcPlan};
use super::super::emit::{
    BACKFILL, SlurmPartition, about, backfilled, backfills, multifactor, named, partition, partitions, priorities,
    shared,
};
use super::super::setup::by_predicted_gpu_time;
use super::super::share::Sharing;
use super::effect;
use crate::error::Result;
use crate::plan::emit::own::{OwnFile, Patch};
use crate::plan::emit::slurm::{Conf, SlurmFiles};

/// Steps that the patch alone does not do.
const STEPS: &str = "Before slurmctld is restarted, run slurm-qos.sh: it does not start with a partition whose QOS is not there. Put slurm-job-submit.lua into job_submit.lua, with JobSubmitPlugins=lua, without which nobody \
                     borrows. Jobs need an association in the accounting. Take the patch back before you delete a QOS.";

/// A patch to the files that are Slurm's; `nodes` is what its partitions name, such as `gpu[001-064]`.
///
/// # Errors
/// If a VC has no name that Slurm takes.
pub fn slurm(answer: &QueuesAnswer, nodes: &str, files: &[OwnFile]) -> Result<Patch> {
    let mut editing = SlurmFiles::new(files);
    scheduling(&mut editing, answer);
    match shared(answer) {
        None => {}
        Some(Sharing::Borrowing { reclaim, .. }) => {
            let names: Vec<(String, String, VcPlan)> = named(&answer.body)?
                .into_iter()
                .map(|(slug, vc)| Ok((partition(&vc, &slug)?, slug, vc)))
                .collect::<Result<_>>()?;
            for (name, ..) in &names {
                if editing.with_partition(name).is_none() {
                    editing.leave(format!(
                        "{name}: the files have no partition of that name; slurm-partitions.conf has it, and the one for borrowing"
                    ));
                }
            }
            if names.iter().any(|(name, ..)| editing.with_partition(name).is_some()) {
                borrowing(&mut editing, &names, (nodes, reclaim));
            }
        }
        Some(_) => {
            for (slug, vc) in named(&answer.body)? {
                let name = partition(&vc, &slug)?;
                let key = ("Nodes", nodes, "all VCs share the nodes (--host-list says which)");
                match editing.with_partition(&name) {
                    Some(file) => {
                        editing.set_partition(file, &name, &[key], &effect(&vc));
                    }
                    None => editing.leave(format!(
                        "{name}: the files have no partition of that name; slurm-partitions.conf has it"
                    )),
                }
            }
        }
    }
    let borrows = matches!(shared(answer), Some(Sharing::Borrowing { .. }));
    Ok(editing.patch(about(answer), if borrows { STEPS } else { "" }))
}

/// The order of jobs, and whether those that fit start past one that does not.
fn scheduling(editing: &mut SlurmFiles<'_>, answer: &QueuesAnswer) {
    let is_basic = editing.global("PriorityType").is_some_and(|kind| !kind.ends_with("multifactor"));
    let (keys, why) = if is_basic {
        (multifactor(answer), "the order of jobs, which priority/basic does not know; to undo, put the old value back")
    } else {
        (priorities(answer), "the order of jobs")
    };
    let is_predicted = answer.body.setup().is_some_and(|setup| by_predicted_gpu_time(&setup.setup.policy));
    if is_predicted && !keys.is_empty() {
        editing.add("JobSubmitPlugins", &["lua"], "job_submit.lua sets the predicted GPU time of each job");
    }
    for (key, value) in keys {
        editing.set(key, &value, why);
    }
    // Without the key, Slurm backfills.
    let waits = editing.global(BACKFILL).filter(|kind| !kind.ends_with("backfill")).map(str::to_owned);
    if let Some(before) = waits.filter(|_| backfills(answer)) {
        let why = format!(
            "jobs that fit start past one that does not, {}; to undo, put {before} back and restart slurmctld",
            backfilled(answer)
        );
        editing.set(BACKFILL, "sched/backfill", &why);
    }
}

fn borrowing(editing: &mut SlurmFiles<'_>, names: &[(String, String, VcPlan)], (nodes, reclaims): (&str, bool)) {
    editing.add("AccountingStorageTRES", &["gres/gpu"], "limits of QOS count GPUs");
    editing.add("AccountingStorageEnforce", &["limits", "qos"], "limits of QOS hold");
    let by_partition =
        editing.global("PreemptType").is_some_and(|kind| kind.eq_ignore_ascii_case("preempt/partition_prio"));
    if reclaims {
        let why = "jobs that borrow are stopped for who owns the nodes";
        editing.set("PreemptType", "preempt/partition_prio", why);
        editing.set("PreemptMode", "REQUEUE", why);
        editing.add("SchedulerParameters", &["preempt_youngest_first"], "who started last is stopped first");
    }
    for (name, slug, vc) in names {
        let Some(file) = editing.with_partition(name) else { continue };
        let copied = editing.files.get(file).and_then(|(_, conf)| Some(conf.copy(conf.partition(name)?)));
        let mode = |of: &SlurmPartition| (reclaims || by_partition).then_some(if reclaims { of.mode } else { "OFF" });
        let effect = effect(vc);
        let [own, borrows] = partitions(name, slug);
        let all = "all VCs share the nodes (--host-list says which)";
        let mut keys = vec![
            ("Nodes", nodes, all),
            ("PriorityTier", own.tier, "its jobs within its own share go first"),
            ("QOS", own.qos.as_str(), "its own share"),
        ];
        keys.extend(mode(&own).map(|mode| ("PreemptMode", mode, "nobody is stopped within its own share")));
        if !editing.set_partition(file, name, &keys, &effect) {
            continue;
        }
        let (other, why) = (borrows.name.as_str(), "what the VC borrows");
        let mut keys = vec![
            ("Nodes", nodes, why),
            ("PriorityTier", borrows.tier, why),
            ("QOS", borrows.qos.as_str(), why),
            ("Default", "NO", why),
        ];
        keys.extend(mode(&borrows).map(|mode| ("PreemptMode", mode, why)));
        if let Some(file) = editing.with_partition(other) {
            editing.set_partition(file, other, &keys, &effect);
            continue;
        }
        let mut line = Conf::read(&copied.unwrap_or_default());
        for (key, value) in [("PartitionName", other)].into_iter().chain(keys.iter().map(|of| (of.0, of.1))) {
            line.set(0, key, value);
        }
        if let Some((_, conf)) = editing.files.get_mut(file) {
            conf.insert(conf.partition(name), line.text());
        }
        editing.tell(file, "PartitionName", (None, other), &format!("{why}{effect}"));
    }
    if reclaims {
        others(editing, names);
    }
}

/// Partitions that are none of the VCs': their jobs are not stopped, unless somebody wrote that they are.
fn others(editing: &mut SlurmFiles<'_>, names: &[(String, String, VcPlan)]) {
    let ours = |name: &str| names.iter().any(|(vc, slug, _)| partitions(vc, slug).iter().any(|of| of.name == name));
    for file in 0..editing.files.len() {
        let Some((_, conf)) = editing.files.get(file) else { continue };
        let silent = conf.lines().iter().enumerate().filter_map(|(at, line)| {
            let name = line.get("PartitionName").filter(|name| !name.eq_ignore_ascii_case("default") && !ours(name))?;
            let said = line.get("PreemptMode").or_else(|| conf.default_of(at, "PreemptMode"));
            said.is_none().then(|| name.to_owned())
        });
        let silent: Vec<String> = silent.collect();
        for name in silent {
            editing.set_partition(file, &name, &[("PreemptMode", "OFF", "the plan stops nobody here")], "");
        }
    }
}
