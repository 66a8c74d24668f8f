//! `simulate --quota`, as a user meets it.

use super::simulate::{data, quietly};
use super::*;

/// One node of 8 GPUs. vb holds all of it from 0 to 100 s with two jobs of 4 GPUs; va's job of 4 comes at 10 s and runs 50 s.
const JOBS: &str = "\
job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
a,ua,vb,4,4,1,COMPLETED,2020-04-01 00:00:00,2020-04-01 00:00:00,2020-04-01 00:01:40,100,0
b,ub,vb,4,4,1,COMPLETED,2020-04-01 00:00:01,2020-04-01 00:00:01,2020-04-01 00:01:41,100,0
c,uc,va,4,4,1,COMPLETED,2020-04-01 00:00:10,2020-04-01 00:01:40,2020-04-01 00:02:30,50,90
";
const NODE: &str = "[[vc]]\nname = \"va\"\nnodes = 1\ngpus_per_node = 8\n\n[[vc]]\nname = \"vb\"\nnodes = 0\n";

/// Both queues have 4 GPUs in one cohort.
fn queues(rest: &str) -> String {
    let queue = |name: &str| {
        format!(
            "kind: ClusterQueue\nmetadata: {{name: {name}}}\nspec:\n  cohortName: all\n  {rest}\n  resourceGroups:\n  - flavors:\n    - name: any\n      resources:\n      - {{name: nvidia.com/gpu, nominalQuota: 4}}\n---\n"
        )
    };
    queue("va") + &queue("vb")
}

#[test]
fn what_was_lent_is_taken_back_as_the_quotas_say() {
    let folder = Folder::new();
    let jobs = folder.file("cluster_log.csv", JOBS);
    let nodes = folder.file("cluster.toml", NODE);
    folder.file("stays.yaml", &queues("preemption: {reclaimWithinCohort: Never}"));
    folder.file("taken.yaml", &queues("preemption: {reclaimWithinCohort: Any}"));
    let compare = folder.file(
        "compare.toml",
        "[[scenario]]\nname = \"stays\"\nquota = \"stays.yaml\"\n\n[[scenario]]\nname = \"taken\"\nquota = \"taken.yaml\"\n\n[[scenario]]\nname = \"pool\"\nscan = \"skip\"\n",
    );
    let found = data(&[&jobs, "--cluster", &nodes, "--recorded", "fifo/skip", "--compare", &compare]);
    let wait = |metrics: &serde_json::Value, vc: &str| {
        let of = metrics["by_vc"].as_array().unwrap().iter().find(|of| of["name"] == vc).unwrap();
        of["wait_s"]["mean"].as_f64().unwrap()
    };
    // Without reclaim va waits until 100 s, as in the record.
    assert_eq!(wait(&found["metrics"], "va"), 90.0);
    // With it the job of vb that started last stops at 10 s and starts anew at 60 s: it holds no GPU for 50 s.
    let taken = &found["others"][0]["metrics"];
    assert_eq!((wait(taken, "va"), wait(taken, "vb")), (0.0, 25.0));
    let quota = |metrics: &serde_json::Value, at: usize| metrics["quotas"][at].clone();
    assert_eq!((quota(taken, 0)["name"].as_str(), quota(taken, 1)["stopped"].as_u64()), (Some("va"), Some(1)));
    assert!(quota(&found["metrics"], 0)["owed_gpus"].as_f64().unwrap() > 2.0);
    // A scan that knows no quotas has none to tell of.
    let pool = &found["others"][1]["metrics"];
    assert!(pool.get("quotas").is_none() && wait(pool, "va") == 90.0, "{pool}");
}

#[test]
fn the_sample_s_quotas_are_compared() {
    let compare = "datasets/clusters/sample_queues/compare.toml";
    let found = data(&["datasets/sample", "--recorded", "fifo/skip", "--compare", compare]);
    assert_eq!(found["fidelity"]["verdict"], "exact");
    let of = |metrics: &serde_json::Value, field: &str| {
        metrics["quotas"].as_array().unwrap().iter().map(|queue| queue[field].as_f64().unwrap()).sum::<f64>()
    };
    let (own, borrowing, fair) = (&found["metrics"], &found["others"][0]["metrics"], &found["others"][1]["metrics"]);
    for metrics in [own, borrowing, fair] {
        assert_eq!(of(metrics, "nominal_gpus"), 320.0);
    }
    assert_eq!((of(own, "borrowed_gpus"), of(own, "stopped")), (0.0, 0.0));
    let mean = |metrics: &serde_json::Value| metrics["overall"]["wait_s"]["mean"].as_f64().unwrap();
    // As the guide has it.
    assert_eq!((of(borrowing, "stopped"), of(fair, "stopped")), (92.0, 148.0));
    for lends in [borrowing, fair] {
        assert!(of(lends, "borrowed_gpus") > 5.0);
        assert!(mean(lends) < mean(own) / 10.0, "{} of {}", mean(lends), mean(own));
    }
    let text = stdout(&quietly(&[
        "datasets/sample",
        "--quota",
        "datasets/clusters/sample_queues/borrow.yaml",
        "--section",
        "quotas",
    ]));
    assert!(text.contains("language borrowed most"), "{text}");
}

#[test]
fn the_plan_for_kueue_is_replayed_as_kueue_would() {
    let folder = Folder::new();
    let out = folder.path("queues");
    let plan = [
        "plan",
        "queues",
        "datasets/sample",
        "--scan",
        "skip",
        "--emit",
        "kueue",
        "--emit-to",
        &out,
        "--format",
        "json",
        "--quiet",
    ];
    let output = tracecast(&plan);
    assert!(output.status.success(), "{}", stderr(&output));
    let answer = json(&stdout(&output));
    let under = &answer["held_out"]["under_kueue"];
    // The same sharing in the plan's own replay, which knows guarantees where Kueue has cohorts.
    let chosen = &answer["candidates"][usize::try_from(answer["chosen"].as_u64().unwrap()).unwrap()];
    let is_alone = |of: &&serde_json::Value| of["sharing"] == chosen["sharing"] && of["policy"] == answer["today"];
    let alone = answer["candidates"].as_array().unwrap().iter().find(is_alone).unwrap();
    let mean = |value: &serde_json::Value| value.as_f64().unwrap();
    let (here, there) = (mean(&under["later"]["mean_wait_s"]), mean(&alone["later"]["mean_wait_s"]));
    assert!((here / there - 1.0).abs() < 0.2, "{here} {there}");
    // The file is one that is read.
    let file = format!("{out}/kueue.yaml");
    let found = data(&["datasets/sample", "--quota", &file, "--recorded", "fifo/skip"]);
    assert_eq!(found["metrics"]["quotas"].as_array().unwrap().len(), 6);
    assert!(here < mean(&answer["held_out"]["static"]["mean_wait_s"]) / 2.0, "{under}");
    assert!(std::fs::read_to_string(&file).unwrap().contains("Replayed as Kueue admits jobs"));
}

#[test]
fn what_is_wrong_with_quotas_is_told() {
    let folder = Folder::new();
    let jobs = folder.file("cluster_log.csv", JOBS);
    let nodes = folder.file("cluster.toml", NODE);
    let refused = |arguments: &[&str]| {
        let output = quietly(&[&[&jobs, "--cluster", &nodes], arguments].concat());
        assert!(stdout(&output).is_empty());
        (output.status.code().unwrap(), stderr(&output))
    };
    let (code, message) = refused(&["--scan", "kueue"]);
    assert!(code == 2 && message.contains("--quota"), "{code} {message}");
    let wrong = folder.file("wrong.yaml", &queues("queueingStrategy: Fifo"));
    let (code, message) = refused(&["--quota", &wrong]);
    assert!(
        code == 1 && message.contains("wrong.yaml, line 1: ClusterQueue va") && message.contains("StrictFIFO"),
        "{code} {message}"
    );
    let others = folder.file("others.yaml", &queues("stopPolicy: None").replace("name: va", "name: vc"));
    let found = data(&[&jobs, "--cluster", &nodes, "--quota", &others]);
    // va is no ClusterQueue there: its job is left out, and that is said.
    assert_eq!(
        (found["subject"]["jobs"].as_u64(), found["subject"]["left_out"][0]["jobs"].as_u64()),
        (Some(2), Some(1))
    );
    assert!(found["subject"]["left_out"][0]["reason"].as_str().unwrap().contains("no ClusterQueue"));
}
