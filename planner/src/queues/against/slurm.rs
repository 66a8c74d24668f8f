//! A patch to Slurm's files: the partitions of the VCs, what lies beside them for borrowing, and what preemption and limits need.
//!
//! A line that names a VC's partition keeps all its keys but `Nodes`, `PriorityTier`, `QOS` and, where jobs are or were stopped by partition, `PreemptMode`; the partition for borrowing is a copy of it, never
//! the default. Where jobs are stopped, other partitions get `PreemptMode=OFF` unless they or their defaults say otherwise. `SchedulerType=sched/builtin` gives way where the plan starts jobs past one that
//! does not fit, and `PriorityType=priority/basic` where its order needs weights. Keys of the whole cluster are set where they stand; new ones go into the file that names
//! the cluster. The QOS are those of `slurm-qos.sh`, which runs first.
//!
//! O(bytes × changes). Worked example: `PartitionName=vision Nodes=n[1-8] MaxTime=7-0 # ours` becomes `PartitionName=vision Nodes=ALL MaxTime=7-0
//! PriorityTier=20 QOS=vision-own # ours`, and below it stands `PartitionName=vision-borrow Nodes=ALL MaxTime=7-0 PriorityTier=10 QOS=vision-borrow Default=NO`.

use super::super::answer::{QueuesAnswer, VcPlan};
use super::super::emit::{
    BACKFILL, SlurmPartition, backfills, multifactor, named, partition, partitions, priorities, shared,
};
use super::super::share::Sharing;
use super::conf::{Conf, ConfLine};
use super::{Changes, OwnFile, Patch, effect, patch};
use crate::error::Result;

/// What the patch alone does not do.
const STEPS: &str = "Before slurmctld is restarted, run slurm-qos.sh: it does not start with a partition whose QOS is not there. Put slurm-job-submit.lua into job_submit.lua, with JobSubmitPlugins=lua, without which nobody \
                     borrows. Jobs need an association in the accounting. Take the patch back before you delete a QOS.";

/// Files with the changes so far.
struct Editing<'f> {
    files: Vec<(&'f OwnFile, Conf)>,
    changes: Changes,
}

impl Editing<'_> {
    /// The place of the file that says something.
    fn file(&self, says: impl Fn(&Conf) -> bool) -> Option<usize> {
        self.files.iter().position(|(_, conf)| says(conf))
    }

    fn with_partition(&self, name: &str) -> Option<usize> {
        self.file(|conf| conf.partition(name).is_some())
    }

    fn tell(&mut self, file: usize, what: &str, (before, after): (Option<&str>, &str), why: &str) {
        let name = self.files.get(file).map_or("", |(file, _)| file.name.as_str());
        let before = before.unwrap_or("none");
        self.changes.made.push(format!("{name}: {what} {before} → {after}: {why}"));
    }

    fn leave(&mut self, what: String) {
        self.changes.left.push(what);
    }

    /// The value of a key of the whole cluster.
    fn global(&self, key: &str) -> Option<&str> {
        self.files.iter().rev().find_map(|(_, conf)| conf.get(&conf.global(key)?, key))
    }

    /// Sets a key of the whole cluster.
    fn set(&mut self, key: &str, value: &str, why: &str) {
        if let Some(file) = self.files.iter().rposition(|(_, conf)| conf.global(key).is_some()) {
            let Some((_, conf)) = self.files.get_mut(file) else { return };
            let Some(line) = conf.global(key) else { return };
            if line.is_odd() {
                return self
                    .leave(format!("{key}={value} ({why}): its value goes on in the next line, or is added to"));
            }
            if let Some(before) = conf.set(&line, key, value) {
                self.tell(file, key, (before.as_deref(), value), why);
            }
            return;
        }
        let names_cluster = |conf: &Conf| ["ClusterName", "SlurmctldHost"].iter().any(|key| conf.global(key).is_some());
        let Some(file) = self.file(names_cluster) else {
            return self
                .leave(format!("{key}={value} ({why}): it belongs into slurm.conf, which is not among the files"));
        };
        if let Some((_, conf)) = self.files.get_mut(file) {
            conf.insert(None, &format!("{key}={value}"));
        }
        self.tell(file, key, (None, value), why);
    }

    /// Adds words to a list that a key of the whole cluster is, those that are not in it.
    fn add(&mut self, key: &str, words: &[&str], why: &str) {
        let now = self.global(key).unwrap_or_default().to_owned();
        let mut list: Vec<&str> = now.split(',').filter(|word| !word.is_empty()).collect();
        let has = |list: &[&str], word: &str| list.iter().any(|one| one.eq_ignore_ascii_case(word));
        // `safe` means limits, and more; `all` all but what jobs are refused for.
        let covered = |word: &str| word == "limits" && has(&list, "safe") || has(&list, "all");
        let missing: Vec<&str> = words.iter().copied().filter(|word| !has(&list, word) && !covered(word)).collect();
        if !missing.is_empty() {
            list.extend(missing);
            self.set(key, &list.join(","), why);
        }
    }

    /// Sets keys of a partition, each for a reason, with what the plan does to its jobs; whether it is written in a way that can be.
    fn set_partition(&mut self, file: usize, name: &str, keys: &[(&str, &str, &str)], effect: &str) -> bool {
        for (key, value, why) in keys {
            let Some((_, conf)) = self.files.get_mut(file) else { return false };
            let Some(line) = conf.partition(name) else { return false };
            if line.is_odd() {
                let what =
                    "a value goes on in the next line, or is added to; slurm-partitions.conf has what it should be";
                self.leave(format!("partition {name}: {what}"));
                return false;
            }
            if let Some(before) = conf.set(&line, key, value) {
                let why = format!("{why}{effect}");
                self.tell(file, &format!("partition {name}: {key}"), (before.as_deref(), value), &why);
            }
        }
        true
    }
}

/// A patch to the files that are Slurm's; `nodes` is what its partitions name, such as `gpu[001-064]`.
///
/// # Errors
/// If a VC has no name that Slurm takes.
pub fn slurm(answer: &QueuesAnswer, nodes: &str, files: &[OwnFile]) -> Result<Patch> {
    let files = files.iter().filter(|file| file.is_slurm());
    let files = files.map(|file| (file, Conf { text: file.text.clone() })).collect();
    let mut editing = Editing { files, changes: Changes::default() };
    scheduling(&mut editing, answer);
    match shared(answer) {
        None => {}
        Some(Sharing::Borrowing { reclaim, .. }) => {
            let names: Vec<(String, String, VcPlan)> = named(answer)?
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
        Some(_) => editing.leave("the plan is one partition for all VCs, which slurm-partitions.conf has".to_owned()),
    }
    let files = editing.files.iter().map(|(file, conf)| (*file, conf.text.clone()));
    Ok(patch("slurm.patch", answer, (&editing.changes, STEPS), files))
}

/// The order of jobs, and whether those that fit start past one that does not.
fn scheduling(editing: &mut Editing<'_>, answer: &QueuesAnswer) {
    let is_basic = editing.global("PriorityType").is_some_and(|kind| !kind.ends_with("multifactor"));
    let (keys, why) = if is_basic {
        (multifactor(answer), "the order of jobs, which priority/basic does not know; to undo, put the old value back")
    } else {
        (priorities(answer), "the order of jobs")
    };
    for (key, value) in keys {
        editing.set(key, &value, why);
    }
    // Without the key, Slurm backfills.
    let waits = editing.global(BACKFILL).filter(|kind| !kind.ends_with("backfill")).map(str::to_owned);
    if let Some(before) = waits.filter(|_| backfills(answer)) {
        let why = format!(
            "jobs that fit start past one that does not, by their time limits, as in the plan's replay; to undo, put {before} back and restart slurmctld"
        );
        editing.set(BACKFILL, "sched/backfill", &why);
    }
}

fn borrowing(editing: &mut Editing<'_>, names: &[(String, String, VcPlan)], (nodes, reclaims): (&str, bool)) {
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
        let copied = editing.files.get(file).and_then(|(_, conf)| Some(conf.copy(&conf.partition(name)?)));
        let mode = |of: &SlurmPartition| (reclaims || by_partition).then_some(if reclaims { of.mode } else { "OFF" });
        let effect = effect(vc);
        let [own, borrows] = partitions(name, slug);
        let all = "all VCs share the nodes (--slurm-nodes says which)";
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
        let mut line = Conf { text: copied.unwrap_or_default() };
        for (key, value) in [("PartitionName", other)].into_iter().chain(keys.iter().map(|of| (of.0, of.1))) {
            if let Some(words) = line.lines().first() {
                line.set(words, key, value);
            }
        }
        if let Some((_, conf)) = editing.files.get_mut(file) {
            let behind = conf.partition(name);
            conf.insert(behind.as_ref(), &line.text);
        }
        editing.tell(file, "PartitionName", (None, other), &format!("{why}{effect}"));
    }
    if reclaims {
        others(editing, names);
    }
}

/// Partitions that are none of the VCs': their jobs are not stopped, unless somebody wrote that they are.
fn others(editing: &mut Editing<'_>, names: &[(String, String, VcPlan)]) {
    let ours = |name: &str| names.iter().any(|(vc, slug, _)| partitions(vc, slug).iter().any(|of| of.name == name));
    for file in 0..editing.files.len() {
        let Some((_, conf)) = editing.files.get(file) else { continue };
        let named = conf.lines().into_iter().filter_map(|line| {
            let name = conf.get(&line, "PartitionName")?.to_owned();
            (!name.eq_ignore_ascii_case("default") && !ours(&name)).then_some((line, name))
        });
        let said =
            |line: &ConfLine| conf.get(line, "PreemptMode").is_some() || conf.default_of(line, "PreemptMode").is_some();
        let silent: Vec<String> = named.filter(|(line, _)| !said(line)).map(|(_, name)| name).collect();
        for name in silent {
            editing.set_partition(file, &name, &[("PreemptMode", "OFF", "the plan stops nobody here")], "");
        }
    }
}
