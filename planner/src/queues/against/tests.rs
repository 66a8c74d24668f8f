//! Files as operators write them, with a plan put into them.

use super::super::answer::{QueuesAnswer, UnderKueue};
use super::super::emit::tests::plan;
use super::super::share::Sharing;
use super::*;
use crate::plan::emit::GPU_RESOURCE;
use crate::plan::emit::own::{OwnFile, Patch};
use crate::plan::verdict::Verdict;

const RECLAIMING: Sharing = Sharing::Borrowing { ceiling: Some(1.5), reclaim: true };

fn file(name: &str, text: &str) -> OwnFile {
    OwnFile::new(name.to_owned(), text.to_owned()).unwrap()
}

/// The lines of a patch that go and come, and its comments.
fn lines(patch: &str) -> (Vec<&str>, Vec<&str>) {
    let (said, diff): (Vec<&str>, Vec<&str>) = patch.lines().partition(|line| line.starts_with("# "));
    let changed = |line: &&str| line.starts_with(['+', '-']) && !line.starts_with("+++ ") && !line.starts_with("--- ");
    (diff.into_iter().filter(changed).collect(), said)
}

const KUEUE: &str = r#"# Ask Ada before you touch this.
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata:
  name: vision-a
spec:
  cohort: research
  namespaceSelector: {}
  x-unknown: [1, 2]
  resourceGroups:
  - coveredResources: ["cpu", "nvidia.com/gpu"]
    flavors:
    - name: default-flavor
      resources:
      - name: cpu
        nominalQuota: 900
      - name: "nvidia.com/gpu"
        nominalQuota: "64" # since March
  preemption:
    withinClusterQueue: LowerPriority
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: speech}
spec:
  cohort: research
  resourceGroups:
  - coveredResources: ["nvidia.com/gpu"]
    flavors:
    - name: default-flavor
      resources:
      - {name: nvidia.com/gpu, nominalQuota: 8}
"#;

#[test]
fn the_worked_example() {
    let mut answer = plan(RECLAIMING, Some(1.5));
    answer.body.vcs[1].most_gpus = None;
    let Patch { file: (name, patch), .. } = kueue(&answer, GPU_RESOURCE, &[file("./q/kueue.yaml", KUEUE)]).unwrap();
    assert_eq!(name, "kueue.patch");
    let (changed, said) = lines(&patch);
    assert_eq!(
        changed,
        [
            "-        nominalQuota: \"64\" # since March",
            "+        nominalQuota: \"96\" # since March",
            "+        borrowingLimit: 48",
            "+    reclaimWithinCohort: Any",
            "+  preemption:",
            "+    reclaimWithinCohort: Any",
        ],
        "{patch}"
    );
    assert!(patch.contains("--- a/q/kueue.yaml\n+++ b/q/kueue.yaml\n"), "{patch}");
    let told = said.join("\n");
    assert!(
        told.contains("ClusterQueue vision-a, flavor default-flavor: nominalQuota 64 → 96: its own share"),
        "{told}"
    );
    assert!(told.contains("vision-a: withinClusterQueue stays LowerPriority"), "{told}");
    // Every change has its reason, and what the VC's jobs waited.
    let made: Vec<&&str> = said.iter().filter(|line| line.contains(" → ")).collect();
    assert_eq!(made.len(), 4, "{told}");
    assert!(made.iter().all(|line| line.contains("95 % of its later jobs waited at most")), "{told}");
    let other = KUEUE.replace("{name: speech}", "{name: night}");
    let Patch { file: (_, patch), .. } = kueue(&answer, GPU_RESOURCE, &[file("q/kueue.yaml", &other)]).unwrap();
    assert!(patch.contains("ClusterQueue night: it is in the cohort research, too"), "{patch}");
}

#[test]
fn queues_of_several_cohorts_come_into_one_and_what_is_not_found_is_told() {
    let mut answer = plan(Sharing::Borrowing { ceiling: None, reclaim: false }, None);
    answer.body.vcs[0].own[0].gpu_type = Some("A100".to_owned());
    answer.body.vcs[0].own.push(super::super::answer::OwnGpus { gpu_type: Some("H100".to_owned()), gpus: 4.0 });
    let text = KUEUE.replacen("cohort: research", "cohort: other", 1).replace("name: speech", "name: Sprache");
    let flavors = text.replacen("name: default-flavor", "name: a-100", 1);
    let Patch { file: (_, patch), .. } = kueue(&answer, GPU_RESOURCE, &[file("kueue.yaml", &flavors)]).unwrap();
    let (changed, said) = lines(&patch);
    assert!(changed.contains(&"+        nominalQuota: \"96\" # since March"), "{patch}");
    assert!(!changed.iter().any(|line| line.contains("borrowingLimit")), "{patch}");
    let told = said.join("\n");
    assert!(told.contains("no flavor of it is known to be for GPUs (nvidia.com/gpu) of H100"), "{told}");
    assert!(
        told.contains("speech: the files have no ClusterQueue of that name; kueue.yaml has one, to which"),
        "{told}"
    );
    // One queue is left, and its cohort is as good as any.
    assert!(!changed.iter().any(|line| line.contains("cohort")), "{patch}");
    let apart = KUEUE.replacen("cohort: research", "cohort: other", 1);
    let Patch { file: (_, patch), .. } = kueue(&answer, GPU_RESOURCE, &[file("kueue.yaml", &apart)]).unwrap();
    // Both have equally many cohorts.
    let cohorts: Vec<&str> = lines(&patch).0.into_iter().filter(|line| line.contains("cohort")).collect();
    assert_eq!(cohorts, ["-  cohort: research", "+  cohort: other"]);
}

#[test]
fn a_queue_is_found_behind_local_queues_unless_several_vcs_submit_there() {
    let answer = plan(RECLAIMING, Some(1.5));
    let local = |name: &str, space: &str, queue: &str| {
        format!(
            "---\napiVersion: kueue.x-k8s.io/v1beta1\nkind: LocalQueue\nmetadata: {{name: {name}, namespace: {space}}}\nspec: {{clusterQueue: {queue}}}\n"
        )
    };
    let renamed = KUEUE.replace("name: vision-a", "name: images").replace("{name: speech}", "{name: sound}");
    let patched = |more: &[String]| {
        let text = format!("{renamed}{}", more.concat());
        kueue(&answer, GPU_RESOURCE, &[file("kueue.yaml", &text)]).unwrap().file.1
    };
    // By its name, and by its namespace, whose two queues lead to the same place.
    let patch =
        patched(&[local("vision-a", "x", "images"), local("a", "speech", "sound"), local("b", "speech", "sound")]);
    let told = lines(&patch).1.join("\n");
    assert!(told.contains("ClusterQueue images (of Vision_A), flavor default-flavor: nominalQuota 64 → 96"), "{told}");
    assert!(told.contains("ClusterQueue sound (of speech)"), "{told}");
    let patch = patched(&[local("vision-a", "x", "images"), local("a", "speech", "images")]);
    assert!(patch.contains("ClusterQueue images (of speech) serves other VCs, too"), "{patch}");
    assert!(lines(&patch).0.is_empty(), "{patch}");
    // A namespace whose queues lead to two places says nothing.
    let patch = patched(&[local("a", "speech", "images"), local("b", "speech", "sound")]);
    assert!(patch.contains("speech: the files have no ClusterQueue of that name"), "{patch}");
}

#[test]
fn queues_of_kai_and_volcano() {
    let answer = plan(RECLAIMING, Some(1.5));
    let kai_queue = "apiVersion: scheduling.run.ai/v2\nkind: Queue\nmetadata:\n  name: vision-a\nspec:\n  reclaimMinRuntime: 1h\n  resources:\n    gpu: {quota: 8, limit: -1, overQuotaWeight: 3}\n";
    let Patch { file: (_, patch), .. } = kai(&answer, &[file("kai.yaml", kai_queue)]).unwrap();
    assert_eq!(
        lines(&patch).0,
        [
            "-  reclaimMinRuntime: 1h",
            "-    gpu: {quota: 8, limit: -1, overQuotaWeight: 3}",
            "+    gpu: {quota: 96, limit: 144, overQuotaWeight: 3}",
        ]
    );
    let volcano_queue = kai_queue.replace("scheduling.run.ai/v2", "scheduling.volcano.sh/v1beta1").replace(
        "  reclaimMinRuntime: 1h\n  resources:\n    gpu: {quota: 8, limit: -1, overQuotaWeight: 3}",
        "  weight: 3 # ours",
    );
    let Patch { file: (_, patch), .. } =
        volcano(&answer, GPU_RESOURCE, &[file("volcano.yaml", &volcano_queue)]).unwrap();
    let (changed, _) = lines(&patch);
    assert!(changed.contains(&"+    nvidia.com/gpu: \"96\""), "{patch}");
    assert!(changed.contains(&"+    nvidia.com/gpu: \"144\"") && changed.contains(&"+  reclaimable: true"), "{patch}");
    assert!(changed.iter().all(|line| line.starts_with('+')), "{patch}");
}

#[test]
fn where_nobody_is_stopped_and_nothing_bounds_limits_go() {
    let mut answer = plan(Sharing::Borrowing { ceiling: None, reclaim: false }, None);
    // Nodes of one type, in two groups.
    answer.body.vcs[0].own[0].gpus = 32.0;
    answer.body.vcs[0].own.push(super::super::answer::OwnGpus { gpu_type: None, gpus: 64.0 });
    let text = KUEUE
        .replacen(
            "        nominalQuota: \"64\" # since March\n",
            "        nominalQuota: 64\n        lendingLimit: 0\n",
            1,
        )
        .replacen("LowerPriority\n", "Any\n    borrowWithinCohort:\n      policy: LowerPriority\n", 1);
    let Patch { file: (_, patch), .. } = kueue(&answer, GPU_RESOURCE, &[file("kueue.yaml", &text)]).unwrap();
    let (changed, _) = lines(&patch);
    assert_eq!(
        &changed[..6],
        [
            "-        nominalQuota: 64",
            "-        lendingLimit: 0",
            "+        nominalQuota: 96",
            "+    reclaimWithinCohort: Never",
            "-      policy: LowerPriority",
            "+      policy: Never",
        ]
    );
    // A limit that is better under Kueue is set, of the share that there is.
    let later = answer.trial.recommended;
    answer.trial.under_kueue =
        Some(UnderKueue { lends: Some(0.5), lending: Vec::new(), later, stopped: 0, lost_gpu_hours: 0.0 });
    let Patch { file: (_, patch), .. } = kueue(&answer, GPU_RESOURCE, &[file("kueue.yaml", &text)]).unwrap();
    assert!(lines(&patch).0.contains(&"+        lendingLimit: 48"), "{patch}");
    answer.trial.under_kueue = None;
    let queue = |api: &str, spec: &str| {
        let text = format!("apiVersion: {api}\nkind: Queue\nmetadata:\n  name: vision-a\nspec:\n{spec}");
        [file("queue.yaml", &text)]
    };
    let old = "  weight: 1\n  capability:\n    nvidia.com/gpu: 8\n  reclaimable: true\n";
    let Patch { file: (_, patch), .. } =
        volcano(&answer, GPU_RESOURCE, &queue("scheduling.volcano.sh/v1beta1", old)).unwrap();
    let (changed, _) = lines(&patch);
    for line in ["-  capability:", "-    nvidia.com/gpu: 8", "-  reclaimable: true", "+  reclaimable: false"] {
        assert!(changed.contains(&line), "{line}: {patch}");
    }
    let old = "  resources:\n    gpu:\n      limit: 8\n";
    let Patch { file: (_, patch), .. } = kai(&answer, &queue("scheduling.run.ai/v2", old)).unwrap();
    let (changed, _) = lines(&patch);
    for line in ["-      limit: 8", "+      limit: -1", "+      quota: 96", "+      overQuotaWeight: 96"] {
        assert!(changed.contains(&line), "{line}: {patch}");
    }
    assert!(changed.contains(&"+  reclaimMinRuntime: \"8760h\""), "{patch}");
    let conf = "ClusterName=a\nPreemptType=preempt/partition_prio\nPreemptMode=REQUEUE\n";
    let files =
        [file("slurm.conf", conf), file("partitions.conf", "PartitionName=speech Nodes=n1\nPartitionName=debug\n")];
    let Patch { file: (_, patch), .. } = slurm(&answer, "ALL", &files).unwrap();
    let (changed, said) = lines(&patch);
    assert_eq!(
        changed,
        [
            "+AccountingStorageTRES=gres/gpu",
            "+AccountingStorageEnforce=limits,qos",
            "-PartitionName=speech Nodes=n1",
            "+PartitionName=speech Nodes=ALL PriorityTier=20 QOS=speech-own PreemptMode=OFF",
            "+PartitionName=speech-borrow Nodes=ALL PriorityTier=10 QOS=speech-borrow Default=NO PreemptMode=OFF",
        ]
    );
    assert!(said.join("\n").contains("Vision_A: the files have no partition of that name"));
    let alone = [file("my partitions.conf", "PartitionName=speech Nodes=n1,\\\nn2 MaxTime=7-0\n")];
    let Patch { file: (_, patch), .. } = slurm(&answer, "ALL", &alone).unwrap();
    assert!(
        patch.contains("partition speech: a value goes on in the next line") && lines(&patch).0.is_empty(),
        "{patch}"
    );
    assert!(
        patch.contains("AccountingStorageTRES=gres/gpu (limits of QOS count GPUs): it belongs into slurm.conf"),
        "{patch}"
    );
}

const SLURM: &str = "\
ClusterName=ours # and nobody else's
AccountingStorageEnforce=safe
schedulerparameters=bf_continue
NodeName=n[1-13] Gres=gpu:8
PartitionName=DEFAULT State=UP
PartitionName=Vision_A Nodes=n[1-12] Default=YES \\
  MaxTime=7-0 qos=old # Vision's own
PartitionName=speech Nodes=n13
PartitionName=debug Nodes=n13 MaxTime=10
PartitionName=night Nodes=n13 PreemptMode=CANCEL";

#[test]
fn partitions_keep_what_else_they_have() {
    let answer = plan(RECLAIMING, Some(1.5));
    let files = [file("/etc/slurm/slurm.conf", SLURM), file("kueue.yaml", KUEUE)];
    let Patch { file: (name, patch), .. } = slurm(&answer, "n[1-13]", &files).unwrap();
    assert_eq!(name, "slurm.patch");
    assert_eq!(
        lines(&patch).0,
        [
            "-AccountingStorageEnforce=safe",
            "-schedulerparameters=bf_continue",
            "+AccountingStorageEnforce=safe,qos",
            "+schedulerparameters=bf_continue,preempt_youngest_first",
            "+AccountingStorageTRES=gres/gpu",
            "+PreemptType=preempt/partition_prio",
            "+PreemptMode=REQUEUE",
            "-PartitionName=Vision_A Nodes=n[1-12] Default=YES \\",
            "-  MaxTime=7-0 qos=old # Vision's own",
            "-PartitionName=speech Nodes=n13",
            "-PartitionName=debug Nodes=n13 MaxTime=10",
            "+PartitionName=Vision_A Nodes=n[1-13] Default=YES \\",
            "+  MaxTime=7-0 qos=vision-a-own PriorityTier=20 PreemptMode=OFF # Vision's own",
            "+PartitionName=Vision_A-borrow Nodes=n[1-13] Default=NO MaxTime=7-0 qos=vision-a-borrow PriorityTier=10 PreemptMode=REQUEUE",
            "+PartitionName=speech Nodes=n[1-13] PriorityTier=20 QOS=speech-own PreemptMode=OFF",
            "+PartitionName=speech-borrow Nodes=n[1-13] PriorityTier=10 QOS=speech-borrow Default=NO PreemptMode=REQUEUE",
            "+PartitionName=debug Nodes=n13 MaxTime=10 PreemptMode=OFF",
        ]
    );
    assert!(patch.contains("--- a/etc/slurm/slurm.conf\n") && patch.contains("No newline at end of file"), "{patch}");
    // What is in place is not set again.
    let applied = {
        let mut conf = String::new();
        for line in patch.lines().skip_while(|line| !line.starts_with("+++ ")).skip(1) {
            if let Some((" " | "+", rest)) = line.split_at_checked(1) {
                conf.push_str(&format!("{rest}\n"));
            }
        }
        conf
    };
    let Patch { file: (_, again), .. } = slurm(&answer, "n[1-13]", &[file("slurm.conf", &applied)]).unwrap();
    assert!(again.contains("# Nothing in the files is to be changed."), "{again}");
}

#[test]
fn one_pool_changes_the_nodes_of_partitions_alone_and_no_change_nothing() {
    let mut answer = plan(Sharing::OnePool, None);
    let files = [file("slurm.conf", SLURM), file("kueue.yaml", KUEUE)];
    for followed in [true, false] {
        answer.verdict = if followed { Verdict::Advised } else { Verdict::NoSaving };
        for Patch { file: (_, patch), .. } in [
            kueue(&answer, GPU_RESOURCE, &files).unwrap(),
            kai(&answer, &files).unwrap(),
            volcano(&answer, GPU_RESOURCE, &files).unwrap(),
        ] {
            assert!(patch.lines().all(|line| line.starts_with("# ")), "{patch}");
            assert_eq!(patch.contains("one queue for all VCs"), followed);
        }
        let Patch { file: (_, patch), .. } = slurm(&answer, "ALL", &files).unwrap();
        let set: Vec<&str> = patch.lines().filter(|line| line.starts_with("+P")).collect();
        assert_eq!(set.is_empty(), !followed, "{patch}");
        let old = |line: &&str| SLURM.lines().any(|old| old.split(' ').next() == line[1..].split(' ').next());
        assert!(set.iter().all(|line| line.contains("Nodes=ALL") && !line.contains("-own") && old(line)), "{patch}");
        assert!(!patch.contains("slurm-qos.sh"), "{patch}");
    }
    let broken = OwnFile::new("kueue.yaml".to_owned(), "a: [1\nb: 2\n".to_owned());
    assert!(broken.unwrap_err().to_string().contains("kueue.yaml, line"));
}

#[test]
fn a_scheduler_that_cannot_do_what_was_replayed_gives_way() {
    let mut answer = plan(RECLAIMING, Some(1.5));
    let chosen = answer.body.chosen;
    let conf = "ClusterName=ours\nSchedulerType=sched/builtin\nPriorityType=priority/basic\n";
    let patched = |answer: &QueuesAnswer, conf: &str| {
        let Patch { file: (_, patch), .. } = slurm(answer, "ALL", &[file("slurm.conf", conf)]).unwrap();
        patch
    };
    let patch = patched(&answer, conf);
    let (changed, said) = lines(&patch);
    assert!(changed.contains(&"-SchedulerType=sched/builtin"), "{patch}");
    assert!(changed.contains(&"+SchedulerType=sched/backfill"), "{patch}");
    let told = said.join("\n");
    assert!(told.contains("SchedulerType sched/builtin → sched/backfill: jobs that fit start past one"), "{told}");
    assert!(told.contains("to undo, put sched/builtin back"), "{told}");
    // First come first served needs no weights.
    assert!(!changed.iter().any(|line| line.contains("Priority")), "{patch}");
    // An order that does, needs them also where it is today's.
    answer.body.candidates[chosen].changes.retain(|change| *change != super::super::setup::QueueChange::Order);
    answer.body.candidates[chosen].setup.policy.order = crate::sim::Order::FairShare(tracecast_analytics::time::DAY_MS);
    let patch = patched(&answer, conf);
    let (changed, _) = lines(&patch);
    for line in ["-PriorityType=priority/basic", "+PriorityType=priority/multifactor", "+PriorityDecayHalfLife=1-0"] {
        assert!(changed.contains(&line), "{line}: {patch}");
    }
    let patch = patched(&answer, &conf.replace("basic", "multifactor"));
    assert!(!lines(&patch).0.iter().any(|line| line.contains("Priority")), "{patch}");
    // A plan that is strict leaves the scheduler as it is, and so does one that is not followed.
    answer.body.candidates[chosen].setup.policy.scan = crate::sim::Scan::Strict;
    let patch = patched(&answer, conf);
    assert!(!lines(&patch).0.iter().any(|line| line.contains("SchedulerType")), "{patch}");
    answer.body.candidates[chosen].setup.policy.scan = crate::sim::Scan::Easy;
    answer.verdict = Verdict::NoSaving;
    let patch = patched(&answer, conf);
    assert!(lines(&patch).0.is_empty(), "{patch}");
}
