//! A plan of queues as schedulers read it: [Slurm](slurm()), [Kueue](kueue()), [KAI](kai()) and [Volcano](volcano()), a file each.
//!
//! | | a VC's own share | what it may borrow | reclaiming |
//! |---|---|---|---|
//! | Slurm | `GrpTRES` of a QOS, on a partition that goes first | `GrpTRES` of a second QOS, on a second partition | `PreemptMode=REQUEUE` there |
//! | Kueue | `nominalQuota`, of which `lendingLimit` is lent | `borrowingLimit` | `reclaimWithinCohort` |
//! | KAI | `quota` | `limit` less the quota | always, but of jobs that have run for `reclaimMinRuntime` |
//! | Volcano | `deserved` | `capability` less what is deserved | `reclaimable` |
//!
//! A queue of short jobs is one more queue beside its VC's. Fair share of users, age and size are weights of Slurm's multifactor; the others do not have them, and the files say so. No
//! scheduler orders by predicted runs by itself.
//!
//! A file is written where it sets something. Who has nothing to set gets no file, and is named in [notes](notes()).
//!
//! O(VCs). Worked example: a VC of 96 GPUs with a ceiling of 1.5 has `GrpTRES=gres/gpu=96` on one QOS and `gres/gpu=48` on the other; `nominalQuota: 96` and
//! `borrowingLimit: 48`; `quota: 96` and `limit: 144`; `deserved` 96 and `capability` 144.

mod kai;
mod kueue;
mod slurm;
mod volcano;

pub use kai::kai;
pub(super) use kai::runs_for;
pub use kueue::kueue;
pub(super) use kueue::{lent, quotas, reclaiming, strategy};
pub(super) use slurm::{
    BACKFILL, SlurmPartition, backfilled, backfills, multifactor, partition, partitions, priorities,
};
pub use slurm::{shared_nodes, slurm};
pub(super) use volcano::PLUGIN;
pub use volcano::volcano;

use tracecast_analytics::report::format;

use super::answer::{QueuesAnswer, QueuesBody, SHORT_SUFFIX, VcPlan};
use super::setup::QueueChange;
use super::share::Sharing;
use crate::error::{Error, Result};
use crate::plan::emit::signed;
use crate::plan::slug::{is_taken, slug};
use crate::plan::{Assurance, Emitted};

/// The file that says for whom there is nothing to set, and why.
pub const NOTES: &str = "NOTES.txt";

/// The files for Slurm, as many of them as set something: partitions, limits of QOS, and what chooses them.
pub const SLURM_FILES: [&str; 3] = ["slurm-partitions.conf", "slurm-qos.sh", "slurm-job-submit.lua"];
/// The file for Kueue.
pub const KUEUE_FILE: &str = "kueue.yaml";
/// The file for KAI.
pub const KAI_FILE: &str = "kai.yaml";
/// The file for Volcano.
pub const VOLCANO_FILE: &str = "volcano.yaml";

fn unnamed(name: String) -> Error {
    let remedy = "rename it in the trace or with a mapping, with letters, digits and `-`";
    Error::malformed("name of a queue", name, remedy.to_owned())
}

/// The VCs, and their queues of short jobs, with names that Kubernetes takes, and Slurm for a QOS.
pub(super) fn named(body: &QueuesBody) -> Result<Vec<(String, VcPlan)>> {
    let mut result: Vec<(String, VcPlan)> = Vec::new();
    for vc in body.queues() {
        let name = slug(&vc.vc).ok_or_else(|| unnamed(vc.vc.clone()))?;
        if is_taken(result.iter().map(|(other, _)| other.as_str()), &name, Some("-borrow")) {
            return Err(unnamed(format!("{} (as {name}, which another is called, too)", vc.vc)));
        }
        result.push((name, vc));
    }
    Ok(result)
}

/// How the plan shares nodes, if it is advised and they are shared at all.
pub(super) fn shared(answer: &QueuesAnswer) -> Option<Sharing> {
    answer.body.shares().filter(|_| answer.is_advised())
}

/// Comment lines at the top of every file.
pub(super) fn about(answer: &QueuesAnswer) -> Vec<String> {
    let mut said: Vec<String> =
        answer.cautions.iter().chain([&answer.action]).map(|said| said.replace("**", "")).collect();
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
    }
    said.extend(answer.assurance.as_ref().map(Assurance::sentence));
    said.extend(answer.body.assumed.iter().cloned());
    said.extend(answer.recommendation.as_ref().map(|recommendation| format!("Undo: {}", recommendation.undo)));
    said.extend(answer.trial.stops().filter(|_| answer.is_advised()).map(|stops| format!("{stops}.")));
    if let Some(setup) = answer.body.setup().filter(|setup| answer.is_advised() && setup.policy != answer.body.today) {
        if let Some(alone) = answer.body.in_todays_order.filter(|_| shared(answer).is_some()) {
            said.push(format!(
                "What these files set, without the order: a mean wait of the later jobs of {}, against {} today.",
                format::duration(alone.mean_wait_s),
                format::duration(answer.trial.today.mean_wait_s)
            ));
        }
        if answer.body.in_todays_order_allowed == Some(false) {
            let grown = if answer.body.growth.is_some() { " or with more work" } else { "" };
            said.push(format!(
                "Without the order they are not allowed: on the earlier jobs{grown} a VC waits longer than on nodes of its own, or jobs do not run. Do not apply them before the order is in place."
            ));
        }
        let priorities = !slurm::priorities(answer).is_empty();
        said.push(if priorities {
            format!(
                "The order of jobs ({}) is in the file for Slurm alone: Kueue, KAI and Volcano share among queues, not among users, and know priorities of jobs that somebody sets. Backfill is \
                 SchedulerType=sched/backfill by time limits.",
                setup.order
            )
        } else {
            format!(
                "No file sets the order of jobs ({}) as it was replayed. Slurm backfills with SchedulerType=sched/backfill by time limits, and takes priorities from a submission \
                 plugin that asks `tracecast model predict duration` or `serve`; Kueue, KAI and Volcano know priorities alone.",
                setup.order
            )
        });
        said.extend((setup.changes.contains(&QueueChange::Placement)).then(|| {
            "Packing is in no file: Slurm packs unless SelectTypeParameters or a partition has LLN, Kubernetes with MostAllocated of NodeResourcesFit, KAI and Volcano with binpack."
                .to_owned()
        }));
    }
    if let Some(short) = answer.body.setup().and_then(|setup| setup.short_queue).filter(|_| answer.is_advised()) {
        said.push(format!(
            "Jobs that run {} at most have queues of their own, called {SHORT_SUFFIX} after their VC. The plan sends a job there by what is predicted; slurm-job-submit.lua does by its time limit, and pods name \
             their queue.",
            format::duration(f64::from(short.within_s))
        ));
    }
    if shared(answer).is_none() {
        said.push("The nodes stay as they are.".to_owned());
    }
    said
}

/// Notes in place of files: that there is nothing to set for some schedulers, with what the plan says.
pub fn notes(answer: &QueuesAnswer, without: &[&str]) -> Emitted {
    let first = format!("There is nothing to set for {}, so no configuration is written.", without.join(", "));
    let said: Vec<String> = std::iter::once(first).chain(about(answer)).collect();
    (NOTES.to_owned(), said.join("\n\n") + "\n")
}

/// How objects of Kubernetes in a file are applied and taken back; `kinds` are what they are called.
fn steps(file: &str, kinds: &str) -> String {
    format!(
        "Before: kubectl get {kinds} -o yaml > before.yaml, and kubectl apply --dry-run=server -f {file}. To undo: kubectl delete -f {file}, then kubectl apply -f before.yaml."
    )
}

/// Text as comments that begin with `mark`.
fn comments(mark: &str, answer: &QueuesAnswer) -> String {
    crate::plan::emit::comments(mark, &about(answer))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
pub(super) mod tests {
    use serde_json::json;
    use tracecast_analytics::Trace;
    use tracecast_analytics::schema::{NodeRow, NodeTable};
    use tracecast_analytics::time::{DAY_MS, HOUR_MS};

    use super::super::answer::OwnGpus;
    use super::super::journal::SearchRun;
    use super::super::search::tests::{request, uneven};
    use super::super::share::ShortQueue;
    use super::*;
    use crate::plan::emit::GPU_RESOURCE;
    use crate::plan::emit::own::OwnFile;
    use crate::plan::verdict::Verdict;
    use crate::sim::{Estimate, Order, Policy, Scan};

    /// VCs vision (96 GPUs of its own) and speech (8), as if `sharing` had been chosen.
    pub(in super::super) fn plan(sharing: Sharing, ceiling: Option<f64>) -> QueuesAnswer {
        let mut answer =
            crate::queues::plan(&Trace::default(), &uneven(300), String::new(), &request(None), SearchRun::default())
                .unwrap();
        answer.verdict = Verdict::Advised;
        let chosen = answer.body.chosen;
        answer.body.candidates[chosen].sharing = sharing;
        for (vc, (name, gpus)) in answer.body.vcs.iter_mut().zip([("Vision_A", 96.0), ("speech", 8.0)]) {
            (vc.vc, vc.own_gpus, vc.largest_job_gpus) = (name.to_owned(), gpus, 8.0);
            vc.own = vec![OwnGpus { gpu_type: None, gpus }];
            vc.most_gpus = ceiling.map(|ceiling| gpus * ceiling);
        }
        answer
    }

    fn read(text: &str) -> Vec<serde_json::Value> {
        tracecast_replay::yaml::values("emitted.yaml", text).unwrap()
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
        let documents = read(file(&kai(&answer).unwrap(), "kai.yaml"));
        let of = |at: usize| (&documents[at]["metadata"]["name"], &documents[at]["spec"]["resources"]["gpu"]);
        let gpus = |quota: f64, limit: f64| json!({ "quota": quota, "limit": limit, "overQuotaWeight": quota });
        assert_eq!(of(0), (&json!("tracecast"), &gpus(104.0, -1.0)));
        assert_eq!(of(1), (&json!("vision-a"), &gpus(96.0, 144.0)));
        assert_eq!(documents[1]["spec"]["parentQueue"], "tracecast");
        assert!(documents[1]["spec"].get("reclaimMinRuntime").is_none());
        let documents = read(file(&volcano(&answer, GPU_RESOURCE).unwrap(), "volcano.yaml"));
        assert_eq!(documents[0]["spec"]["deserved"], json!({ GPU_RESOURCE: "96" }));
        assert_eq!(documents[0]["spec"]["capability"], json!({ GPU_RESOURCE: "144" }));
        assert_eq!(documents[0]["spec"]["reclaimable"], true);
    }

    #[test]
    fn what_a_queue_lends_may_have_a_limit() {
        let sharing = Sharing::Borrowing { ceiling: Some(1.5), reclaim: false };
        let answer = plan(sharing, Some(1.5));
        let quota = |lends: Option<f64>, at: usize| {
            let documents = read(&quotas(&answer.body, (sharing, lends), GPU_RESOURCE, "").unwrap());
            documents[at]["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["lendingLimit"].as_u64()
        };
        assert_eq!([1, 2].map(|at| quota(Some(0.25), at)), [Some(24), Some(2)]);
        assert_eq!([1, 2].map(|at| quota(None, at)), [None, None]);
    }

    #[test]
    fn a_queue_of_short_jobs_is_one_more_queue() {
        let mut answer = plan(Sharing::Borrowing { ceiling: Some(1.5), reclaim: false }, Some(1.5));
        let chosen = answer.body.chosen;
        answer.body.candidates[chosen].short_queue = Some(ShortQueue { within_s: 3_600, part: 0.25 });
        answer.body.vcs.iter_mut().for_each(|vc| vc.short_gpus = Some(vc.own_gpus / 4.0));
        let files = slurm(&answer, "ALL").unwrap();
        // Of 96 GPUs 24 are kept, and half of either may be borrowed.
        let qos = file(&files, "slurm-qos.sh");
        for (name, gpus) in [("-own", 72), ("-borrow", 36), ("-short-own", 24), ("-short-borrow", 12)] {
            assert!(qos.contains(&format!("modify qos vision-a{name} set GrpTRES=gres/gpu={gpus}\n")), "{qos}");
        }
        let lua = file(&files, "slurm-job-submit.lua");
        for line in [
            "  [\"Vision_A-short\"] = \"Vision_A-short,Vision_A-short-borrow\",\n",
            "  [\"Vision_A\"] = 24,\n",
            "job_desc.time_limit <= 60 and",
            "job_desc.partition = job_desc.partition .. \"-short\"\n",
        ] {
            assert!(lua.contains(line), "{lua}");
        }
        // A job is sent there before it is let borrow.
        assert!(lua.find("local short") < lua.find("if borrows["));
        let documents = read(file(&kueue(&answer, GPU_RESOURCE).unwrap(), "kueue.yaml"));
        let quota = |at: usize| {
            let spec = &documents[at]["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0];
            (documents[at]["metadata"]["name"].as_str().unwrap(), spec["nominalQuota"].as_u64().unwrap())
        };
        assert_eq!(
            [1, 2, 3, 4].map(quota),
            [("vision-a", 72), ("vision-a-short", 24), ("speech", 6), ("speech-short", 2)]
        );
    }

    #[test]
    fn fair_share_is_slurms_alone() {
        let mut answer = plan(Sharing::Borrowing { ceiling: None, reclaim: false }, None);
        let chosen = answer.body.chosen;
        let candidate = &mut answer.body.candidates[chosen];
        (candidate.policy, candidate.changes) =
            ("fair share".to_owned(), vec![QueueChange::Sharing, QueueChange::Order]);
        candidate.setup.policy.order = Order::FairShare(DAY_MS);
        let files = slurm(&answer, "ALL").unwrap();
        let partitions = file(&files, "slurm-partitions.conf");
        for line in ["PriorityType=priority/multifactor", "PriorityWeightFairshare=10000", "PriorityDecayHalfLife=1-0"]
        {
            assert!(partitions.contains(&format!("\n{line}\n")), "{partitions}");
        }
        assert!(file(&kueue(&answer, GPU_RESOURCE).unwrap(), "kueue.yaml").contains("in the file for Slurm alone"));
        // The least predicted GPU time first is the site factor of a submission plugin, and age beside it.
        for (order, age) in [(Order::Qssf, 0), (Order::Aged(HOUR_MS), 91_202)] {
            let policy = &mut answer.body.candidates[chosen].setup.policy;
            (policy.order, policy.estimate) = (order, Estimate::Predicted);
            let files = slurm(&answer, "ALL").unwrap();
            let partitions = file(&files, "slurm-partitions.conf");
            let weight = format!("\nPriorityWeightAge={age}\n");
            assert!(partitions.contains(&weight) && partitions.contains("--slurm FOLDER"), "{partitions}");
        }
        answer.body.candidates[chosen].setup.policy.order = Order::Sjf;
        let files = slurm(&answer, "ALL").unwrap();
        assert!(!file(&files, "slurm-partitions.conf").contains("PriorityType"));
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
        let spec = &read(file(&kai(&answer).unwrap(), "kai.yaml"))[1]["spec"];
        assert_eq!(spec["reclaimMinRuntime"], "8760h");
        assert_eq!(spec["resources"]["gpu"]["limit"], -1.0);
        let spec = &read(file(&volcano(&answer, GPU_RESOURCE).unwrap(), "volcano.yaml"))[0]["spec"];
        assert!(spec.get("capability").is_none() && spec["reclaimable"] == false);
    }

    #[test]
    fn one_pool_is_one_queue_of_all_kinds_of_nodes() {
        let mut answer = plan(Sharing::OnePool, None);
        answer.body.vcs[1].own = vec![OwnGpus { gpu_type: Some("A100".to_owned()), gpus: 8.0 }];
        let documents = read(file(&kueue(&answer, "gpus").unwrap(), "kueue.yaml"));
        assert_eq!(documents.len(), 3);
        let flavors = documents[2]["spec"]["resourceGroups"][0]["flavors"].as_array().unwrap();
        let of =
            |at: usize| (flavors[at]["name"].as_str().unwrap(), flavors[at]["resources"][0]["nominalQuota"].as_u64());
        assert_eq!([of(0), of(1)], [("a100", Some(8)), ("gpu", Some(96))]);
        let documents = read(file(&kai(&answer).unwrap(), "kai.yaml"));
        assert_eq!((documents.len(), &documents[1]["metadata"]["name"]), (2, &json!("shared")));
        let documents = read(file(&volcano(&answer, "gpus").unwrap(), "volcano.yaml"));
        assert_eq!((documents.len(), &documents[0]["spec"]["deserved"]), (1, &json!({ "gpus": "104" })));
        // Jobs keep their partitions, over the same nodes and without limits.
        let files = slurm(&answer, "ALL").unwrap();
        let partitions = file(&files, "slurm-partitions.conf");
        let set: Vec<&str> = partitions.lines().filter(|line| line.starts_with("PartitionName")).collect();
        assert_eq!(set, ["PartitionName=Vision_A Nodes=ALL State=UP", "PartitionName=speech Nodes=ALL State=UP"]);
        assert_eq!(files.len(), 1);
    }

    #[test]
    fn shared_nodes_are_those_of_the_partitions_or_of_the_inventory() {
        let mut answer = plan(Sharing::OnePool, None);
        answer.trial.nodes = 2;
        let mut inventory = NodeTable::default();
        for (node, gpus) in [("g1", 8.0), ("g2", 8.0), ("login", 0.0)] {
            inventory.push(NodeRow { node: Some(node.into()), gpus: Some(gpus), ..NodeRow::default() });
        }
        let nodes = |conf: Option<&str>| {
            let files = conf.map(|text| OwnFile::new("slurm.conf".to_owned(), text.to_owned()).unwrap());
            shared_nodes(&answer, &inventory, &files.into_iter().collect::<Vec<_>>()).unwrap()
        };
        assert_eq!(nodes(None), "g[1-2]");
        let (first, second) = ("PartitionName=Vision_A Nodes=n[1-2]\n", "PartitionName=speech Nodes=n[2,7]\n");
        assert_eq!(nodes(Some(&[first, second].concat())), "n[1-2,7]");
        // Where a VC has no partition, or one of all nodes, nothing says which nodes are shared.
        assert_eq!(nodes(Some(first)), "ALL");
        assert_eq!(nodes(Some(&[first, "PartitionName=speech Nodes=ALL\n"].concat())), "ALL");
        // As where the plan is of other nodes than the trace names.
        answer.trial.nodes = 3;
        assert_eq!(shared_nodes(&answer, &inventory, &[]).unwrap(), "ALL");
    }

    /// The files of all schedulers, by their names.
    fn all_files(answer: &QueuesAnswer) -> Vec<Emitted> {
        let files = [slurm(answer, "ALL"), kueue(answer, GPU_RESOURCE), kai(answer), volcano(answer, GPU_RESOURCE)];
        files.into_iter().flat_map(Result::unwrap).collect()
    }

    /// Regression test: files of comments alone were written.
    #[test]
    fn where_nothing_changes_no_file_is_written() {
        let mut answer = plan(Sharing::OnePool, None);
        let names: Vec<String> = all_files(&answer).into_iter().map(|(name, _)| name).collect();
        // One queue for all needs neither QOS nor lines for job_submit.lua.
        assert_eq!(names, ["slurm-partitions.conf", "kueue.yaml", "kai.yaml", "volcano.yaml"]);
        answer.verdict = Verdict::NoSaving;
        assert_eq!(all_files(&answer), []);
        let (name, said) = notes(&answer, &["Slurm", "Kueue"]);
        assert!(name == NOTES && said.starts_with("There is nothing to set for Slurm, Kueue,"), "{said}");
    }

    /// Regression test: files that set nothing quoted "a mean wait of the later jobs of 16 min 15
    /// s, against 16 min 15 s today".
    #[test]
    fn an_order_alone_is_slurms_where_backfill_is_new_and_nobodys_else() {
        let mut answer = plan(Sharing::AsToday, None);
        let chosen = answer.body.chosen;
        answer.body.today = Policy { scan: Scan::Strict, ..Policy::default() }.describe();
        let candidate = &mut answer.body.candidates[chosen];
        (candidate.policy, candidate.changes) = ("easy".to_owned(), vec![QueueChange::Backfill]);
        candidate.setup.policy.scan = Scan::Easy;
        answer.body.in_todays_order = Some(answer.trial.today);
        let files = all_files(&answer);
        assert_eq!(files.len(), 1);
        let partitions = file(&files, "slurm-partitions.conf");
        assert!(
            partitions.contains("\nSchedulerType=sched/backfill\n") && !partitions.contains("What these files set"),
            "{partitions}"
        );
        // A backfill by other runs is nothing that Slurm could be told.
        answer.body.candidates[chosen].changes.clear();
        assert_eq!(all_files(&answer), []);
    }

    #[test]
    fn names_that_cannot_be_are_refused() {
        let mut answer = plan(Sharing::Borrowing { ceiling: None, reclaim: false }, None);
        for (first, second) in [("a", "a-borrow"), ("A", "a"), ("default", "b"), ("ä", "b")] {
            (answer.body.vcs[0].vc, answer.body.vcs[1].vc) = (first.to_owned(), second.to_owned());
            assert!(slurm(&answer, "ALL").unwrap_err().to_string().contains("name of a queue"), "{first} {second}");
        }
    }

    /// Names as an attacker, or a careless user, would choose them.
    const HOSTILE: [&str; 14] = [
        "a\nPartitionName=evil Nodes=ALL",
        "a\rreboot",
        "a\u{85}kind: Evil",
        "a\u{2028}kind: Evil",
        "\"] = os.execute(\"reboot\") --",
        "x]] os.exit() --[[",
        "$(reboot)",
        "`reboot`; reboot",
        "' ; reboot #",
        "-rf",
        "a \\",
        "#a",
        "\0\u{1b}[2J\u{7f}",
        "---\nkind: Evil\n---",
    ];

    /// Found under attack: what plans say of a VC stood in comments as it is, and a line end in its name began a line of the file.
    #[test]
    fn hostile_names_end_no_line_and_no_string() {
        let plain = plan(Sharing::Borrowing { ceiling: Some(1.5), reclaim: true }, Some(1.5));
        let expected: Vec<usize> = all_files(&plain).iter().map(|(_, text)| documents_of(text)).collect();
        for hostile in HOSTILE {
            let mut answer = plain.clone();
            answer.body.vcs[0].vc = hostile.to_owned();
            answer.action = format!("**Share** with {hostile}");
            answer.cautions.push(format!("Mind {hostile}."));
            answer.body.assumed.push(hostile.to_owned());
            let files = all_files(&answer);
            assert_eq!(files.iter().map(|(_, text)| documents_of(text)).collect::<Vec<_>>(), expected, "{hostile:?}");
            for (name, text) in &files {
                let (mark, begins): (&str, &[&str]) = match name.as_str() {
                    "slurm-partitions.conf" => {
                        ("#", &["PartitionName=", "PreemptType=", "PreemptMode=", "SchedulerType="])
                    }
                    "slurm-qos.sh" => ("#", &["set -eu", "sacctmgr -i add qos ", "sacctmgr -i modify qos "]),
                    "slurm-job-submit.lua" => {
                        ("--", &["local borrows = {", "  [\"", "}", "if borrows[", "  job_desc.", "end"])
                    }
                    _ => {
                        let objects = yaml_rust2::YamlLoader::load_from_str(text).unwrap();
                        assert!(objects.iter().all(|object| object["kind"].as_str() != Some("Evil")), "{text}");
                        continue;
                    }
                };
                for line in text.split(['\n', '\r', '\u{85}', '\u{2028}']).filter(|line| !line.is_empty()) {
                    let known = line.starts_with(mark) || begins.iter().any(|begin| line.starts_with(begin));
                    assert!(known && !line.contains(['\0', '\u{1b}']), "{hostile:?}: {name}: {line:?}");
                }
                if name == "slurm-qos.sh" {
                    let folder = tempfile::tempdir().unwrap();
                    std::fs::write(folder.path().join(name), text).unwrap();
                    let parsed = std::process::Command::new("sh").arg("-n").arg(folder.path().join(name)).status();
                    assert!(parsed.unwrap().success(), "{text}");
                }
            }
        }
        assert!(slurm(&plain, "n1 State=DOWN").unwrap_err().to_string().contains("host list"));
    }

    /// Objects of a file of YAML; 0 of another.
    fn documents_of(text: &str) -> usize {
        if text.starts_with("---\n") { yaml_rust2::YamlLoader::load_from_str(text).unwrap().len() } else { 0 }
    }
}
