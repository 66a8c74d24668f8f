//! `simulate --site quota`, as a user meets it: Kueue's quotas, and the queues of KAI and Volcano.

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
    let (folder, jobs, nodes) = site();
    folder.file("stays.yaml", &queues("preemption: {reclaimWithinCohort: Never}"));
    folder.file("taken.yaml", &queues("preemption: {reclaimWithinCohort: Any}"));
    let compare = folder.file(
        "compare.toml",
        "[[scenario]]\nname = \"stays\"\nquota = \"stays.yaml\"\n\n[[scenario]]\nname = \"taken\"\nquota = \"taken.yaml\"\n\n[[scenario]]\nname = \"pool\"\nscan = \"skip\"\n",
    );
    let found = data(&[&jobs, "--site", &nodes, "--recorded", "fifo/skip", "--compare", &compare]);
    let wait = |metrics: &serde_json::Value, vc: &str| {
        let of = metrics["by_vc"].as_array().unwrap().iter().find(|of| of["name"] == vc).unwrap();
        of["wait_s"]["mean"].as_f64().unwrap()
    };
    // Without reclaim va waits until 100 s, as in the record.
    assert_eq!(wait(&found["metrics"], "va"), 90.0);
    // With it the job of vb that started last stops at 10 s and starts anew at 60 s: it holds no GPU for 50 s, and the 9 s that it ran before are lost.
    let taken = &found["others"][0]["metrics"];
    assert_eq!((wait(taken, "va"), wait(taken, "vb")), (0.0, 29.5));
    let quota = |metrics: &serde_json::Value, at: usize| metrics["quotas"][at].clone();
    assert_eq!((quota(taken, 0)["name"].as_str(), quota(taken, 1)["stopped"].as_u64()), (Some("va"), Some(1)));
    assert!(quota(&found["metrics"], 0)["owed_gpus"].as_f64().unwrap() > 2.0);
    // A scan that knows no quotas has none to tell of.
    let pool = &found["others"][1]["metrics"];
    assert!(pool.get("quotas").is_none() && wait(pool, "va") == 90.0, "{pool}");
}

#[test]
fn queues_without_jobs_and_jobs_without_the_others_are_told() {
    let (folder, jobs, nodes) = site();
    let queues = folder
        .file("three.yaml", &(queues("stopPolicy: None") + &queues("stopPolicy: None").replace("name: v", "name: w")));
    let told = |rest: &[&str]| {
        let asked = [&jobs, "--site", &nodes, "--recorded", "fifo/skip", "--site", &format!("quota={queues}")];
        stdout(&quietly(&[&asked[..], rest].concat())).split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let all = told(&[]);
    assert!(
        all.contains("No job that is replayed is of wa (4 GPUs), wb (4 GPUs): all of that counts as idle"),
        "{all}"
    );
    // Two jobs of vb that do not wait, and one of va that waits 90 s, as nobody is stopped for it.
    assert!(all.contains("va 1 1 min 30 s 4.0") && all.contains("vb 2 0 s 4.0") && all.contains("wa 0 – 4.0"), "{all}");
    assert!(!all.contains("on the nodes of all queues"));
    let one = told(&["--vcs", "va"]);
    assert!(
        one.contains("Only jobs of va are replayed, on the nodes of all queues") && one.contains("va 1 0 s 4.0"),
        "{one}"
    );
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
        "--site",
        "quota=datasets/clusters/sample_queues/borrow.yaml",
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
        "--models",
        "none",
        "--scan",
        "skip",
        "--scale",
        "1.2",
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
    let under = &answer["trial"]["under_kueue"];
    // The same sharing in the plan's own replay, which knows guarantees where Kueue has cohorts.
    let chosen = &answer["candidates"][usize::try_from(answer["chosen"].as_u64().unwrap()).unwrap()];
    let is_alone = |of: &&serde_json::Value| of["sharing"] == chosen["sharing"] && of["policy"] == answer["today"];
    let alone = answer["candidates"].as_array().unwrap().iter().find(is_alone).unwrap();
    let mean = |value: &serde_json::Value| value.as_f64().unwrap();
    let (here, there) = (mean(&under["later"]["mean_wait_s"]), mean(&alone["later"]["mean_wait_s"]));
    assert!((here / there - 1.0).abs() < 0.2, "{here} {there}");
    // The file is one that is read.
    let file = format!("{out}/kueue.yaml");
    let found = data(&["datasets/sample", "--site", &format!("quota={file}"), "--recorded", "fifo/skip"]);
    assert_eq!(found["metrics"]["quotas"].as_array().unwrap().len(), 6);
    assert!(here < mean(&answer["trial"]["static"]["mean_wait_s"]) / 2.0, "{under}");
    assert!(std::fs::read_to_string(&file).unwrap().contains("Replayed as Kueue admits jobs"));
}

#[test]
fn what_is_wrong_with_quotas_is_told() {
    let (folder, jobs, nodes) = site();
    let refused = |arguments: &[&str]| {
        let output = quietly(&[&[&jobs, "--site", &nodes], arguments].concat());
        assert!(stdout(&output).is_empty());
        (output.status.code().unwrap(), stderr(&output))
    };
    let (code, message) = refused(&["--scan", "kueue"]);
    assert!(code == 2 && message.contains("--site quota"), "{code} {message}");
    let wrong = folder.file("wrong.yaml", &queues("queueingStrategy: Fifo"));
    let (code, message) = refused(&["--site", &format!("quota={wrong}")]);
    assert!(
        code == 1 && message.contains("wrong.yaml, line 1: ClusterQueue va") && message.contains("StrictFIFO"),
        "{code} {message}"
    );
    // As it would be read, va and vb were no cohort.
    let apart = folder.file("apart.yaml", &queues("stopPolicy: None").replace("cohortName:", "cohortNam:"));
    let (code, message) = refused(&["--site", &format!("quota={apart}")]);
    assert!(code == 1 && message.contains("spec has no field `cohortNam`; there is cohortName"), "{code} {message}");
    let others = folder.file("others.yaml", &queues("stopPolicy: None").replace("name: va", "name: vc"));
    let found = data(&[&jobs, "--site", &nodes, "--site", &format!("quota={others}")]);
    // va is no ClusterQueue there: its job is left out, and that is said.
    assert_eq!(
        (found["subject"]["jobs"].as_u64(), found["subject"]["left_out"][0]["jobs"].as_u64()),
        (Some(2), Some(1))
    );
    assert!(found["subject"]["left_out"][0]["reason"].as_str().unwrap().contains("no ClusterQueue"));
}

/// KAI's queues of the same names below one, each with a quota of 4 GPUs and a limit.
fn fair_queues(limit: &str, rest: &str) -> String {
    let queue = |name: &str, parent: &str, gpus: &str| {
        format!(
            "apiVersion: scheduling.run.ai/v2\nkind: Queue\nmetadata: {{name: {name}}}\nspec:\n{parent}  resources:\n    gpu: {{{gpus}, overQuotaWeight: 1}}\n---\n"
        )
    };
    let below = |name: &str| queue(name, "  parentQueue: all\n", &format!("quota: 4, limit: {limit}"));
    queue("all", "", "quota: 8, limit: -1") + &below("va") + &below("vb") + rest
}

#[test]
fn under_kai_s_queues_what_is_over_the_share_is_reclaimed() {
    let (folder, jobs, nodes) = site();
    folder.file("open.yaml", &fair_queues("-1", ""));
    folder.file("shut.yaml", &fair_queues("4", ""));
    let patient = "apiVersion: kai.scheduler/v1\nkind: SchedulingShard\nmetadata: {name: default}\nspec:\n  minRuntime: {reclaimMinRuntime: 1h}\n";
    folder.file("patient.yaml", &fair_queues("-1", patient));
    let compare = folder.file(
        "compare.toml",
        "[[scenario]]\nname = \"open\"\nquota = \"open.yaml\"\n\n[[scenario]]\nname = \"shut\"\nquota = \"shut.yaml\"\n\n[[scenario]]\nname = \"patient\"\nquota = \"patient.yaml\"\n",
    );
    let found = data(&[&jobs, "--site", &nodes, "--recorded", "fifo/skip", "--compare", &compare]);
    let wait = |metrics: &serde_json::Value, vc: &str| {
        let of = metrics["by_vc"].as_array().unwrap().iter().find(|of| of["name"] == vc).unwrap();
        of["wait_s"]["mean"].as_f64().unwrap()
    };
    // vb is over its share of 4 when va's job comes: its last job stops at 10 s and starts anew at 60 s, 59 s after it came.
    let open = &found["metrics"];
    assert_eq!((wait(open, "va"), wait(open, "vb")), (0.0, 29.5));
    // Within its limit vb runs one job after the other.
    let shut = &found["others"][0]["metrics"];
    assert_eq!((wait(shut, "va"), wait(shut, "vb")), (0.0, 49.5));
    // Who runs an hour at least is not stopped.
    let patient = &found["others"][1]["metrics"];
    assert_eq!((wait(patient, "va"), wait(patient, "vb")), (90.0, 0.0));
    let queues = patient["quotas"].as_array().unwrap();
    let of = |at: usize, field: &str| queues[at][field].as_f64().unwrap();
    assert_eq!((queues[2]["name"].as_str(), queues[2]["above"].as_bool()), (Some("all"), Some(true)));
    // va starves for 90 of the 150 s, in which its 4 GPUs are with vb.
    assert!((of(0, "short_gpus") - 4.0 * 90.0 / 150.0).abs() < 0.05, "{queues:?}");
    assert!(of(1, "borrowed_gpus") > 2.0 && open["quotas"][1]["stopped"].as_u64() == Some(1), "{queues:?}");
    let alone = quietly(&[
        &jobs,
        "--site",
        &nodes,
        "--site",
        &format!("quota={}", folder.file("q.yaml", &fair_queues("-1", ""))),
    ]);
    let text = stdout(&alone);
    assert!(text.contains("fair shares of queues as KAI's") && text.contains("Fair share"), "{text}");
}

#[test]
fn the_sample_s_queues_under_kai_are_compared() {
    let compare = "datasets/clusters/sample_kai/compare.toml";
    let found = data(&["datasets/sample", "--recorded", "fifo/skip", "--compare", compare]);
    assert_eq!(found["fidelity"]["verdict"], "exact");
    let stopped = |metrics: &serde_json::Value| -> u64 {
        let queues = metrics["quotas"].as_array().unwrap().iter().filter(|queue| queue["above"].is_null());
        queues.map(|queue| queue["stopped"].as_u64().unwrap()).sum()
    };
    let all = [&found["metrics"], &found["others"][0]["metrics"], &found["others"][1]["metrics"]];
    // As the guide has it.
    assert_eq!(all.map(stopped), [280, 215, 190]);
    let mean = |metrics: &serde_json::Value| metrics["overall"]["wait_s"]["mean"].as_f64().unwrap();
    assert!(all.iter().all(|metrics| mean(metrics) < 3600.0 / 4.0));
}

/// A folder with jobs and a node, and their files.
fn site() -> (Folder, String, String) {
    let folder = Folder::new();
    let (jobs, nodes) = (folder.file("cluster_log.csv", JOBS), folder.file("cluster.toml", NODE));
    (folder, jobs, nodes)
}

/// The exit code and the message of jobs on a node within a file of queues that is refused.
fn refused(text: &str, arguments: &[&str]) -> (i32, String) {
    let (folder, jobs, nodes) = site();
    let file = folder.file("wrong.yaml", text);
    let output = quietly(&[&[&jobs, "--site", &nodes, "--site", &format!("quota={file}")], arguments].concat());
    assert!(stdout(&output).is_empty());
    (output.status.code().unwrap(), stderr(&output))
}

/// Checks that a file of queues is refused with this code, in these words.
fn told(text: &str, code: i32, words: &[&str]) {
    let (found, message) = refused(text, &[]);
    assert!(found == code && words.iter().all(|word| message.contains(word)), "{found} {message}");
}

/// The sample within the queues that `plan queues` writes for a scheduler.
fn planned(scheduler: &str) -> serde_json::Value {
    let folder = Folder::new();
    let out = folder.path("queues");
    let plan = [
        "plan",
        "queues",
        "datasets/sample",
        "--scan",
        "skip",
        "--scale",
        "1.2",
        "--emit",
        scheduler,
        "--emit-to",
        &out,
        "--quiet",
    ];
    let output = tracecast(&plan);
    assert!(output.status.success(), "{}", stderr(&output));
    data(&["datasets/sample", "--site", &format!("quota={out}/{scheduler}.yaml"), "--recorded", "fifo/skip"])
}

#[test]
fn the_plan_for_kai_is_replayed() {
    let found = planned("kai");
    let queues = found["metrics"]["quotas"].as_array().unwrap();
    assert_eq!(queues.iter().filter(|queue| queue["above"].is_null()).count(), 6);
    assert!(queues.iter().all(|queue| queue["fair_gpus"].is_f64()), "{queues:?}");
}

#[test]
fn what_is_wrong_with_kai_s_queues_is_told() {
    let (folder, jobs, nodes) = site();
    let good = fair_queues("-1", "");
    told(
        &good.replace("parentQueue: all", "parentQueue: none"),
        1,
        &["wrong.yaml, line 8", "Queue va", "parentQueue none is not in the file"],
    );
    told(&good.replace("quota: 4", "quota: -3"), 1, &["Queue va", "quota of gpu is -3", "-1 for no bound"]);
    told(&good.replace("spec:\n  resources", "spec:\n  parentQueue: all\n  resources"), 1, &["its own parent"]);
    told(&good.replace("quota: 4,", "qouta: 4,"), 1, &["no field `qouta`"]);
    told(&(good.clone() + &good), 1, &["there twice"]);
    // Of another scheduler.
    let (code, message) = refused(&good, &["--scan", "kueue"]);
    assert!(code == 2 && message.contains("`kueue` needs the quotas"), "{code} {message}");
    let (code, message) = refused(&queues("stopPolicy: None"), &["--scan", "kai"]);
    assert!(code == 2 && message.contains("`kai` needs the quotas"), "{code} {message}");
    // A VC without a queue, or with one above others, is left out and that is said; a queue without a limit runs nothing.
    let others = folder.file("others.yaml", &good.replace("{name: va}", "{name: vc}"));
    let found = data(&[&jobs, "--site", &nodes, "--site", &format!("quota={others}")]);
    let left = &found["subject"]["left_out"][0];
    assert_eq!((found["subject"]["jobs"].as_u64(), left["jobs"].as_u64()), (Some(2), Some(1)));
    assert!(left["reason"].as_str().unwrap().contains("no queue of the quotas"), "{left}");
    let shut = folder.file("shut.yaml", &good.replace("quota: 4, limit: -1", "quota: 4"));
    let found = data(&[&jobs, "--site", &nodes, "--site", &format!("quota={shut}")]);
    assert!(found["subject"]["notes"].to_string().contains("run nothing: va, vb"), "{}", found["subject"]["notes"]);
}

/// Volcano's queues of the same names, each with what it deserves or weighs, and the plugin and actions of the scheduler.
fn volcano_queues(spec: &str, plugin: &str, actions: &str) -> String {
    let queue = |name: &str| {
        format!(
            "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {{name: {name}}}\nspec: {{{spec}}}\n---\n"
        )
    };
    let conf = format!(
        "kind: ConfigMap\nmetadata: {{name: volcano-scheduler-configmap}}\ndata:\n  volcano-scheduler.conf: |\n    actions: \"{actions}\"\n    tiers:\n    - plugins:\n      - name: priority\n      - name: gang\n        enablePreemptable: false\n    - plugins:\n      - name: drf\n      - name: {plugin}\n"
    );
    queue("va") + &queue("vb") + &conf
}

#[test]
fn under_volcano_s_queues_what_is_beyond_is_reclaimed() {
    let (folder, jobs, nodes) = site();
    let (deserved, weight) = ("deserved: {nvidia.com/gpu: 4}", "weight: 2");
    folder.file("capacity.yaml", &volcano_queues(deserved, "capacity", "allocate, reclaim"));
    folder.file("weights.yaml", &volcano_queues(weight, "proportion", "allocate, reclaim"));
    folder.file("stays.yaml", &volcano_queues(deserved, "capacity", "allocate, backfill"));
    let capped = "deserved: {nvidia.com/gpu: 4}, capability: {nvidia.com/gpu: 4}";
    folder.file("capped.yaml", &volcano_queues(capped, "capacity", "allocate"));
    let scenario = |name: &str| format!("[[scenario]]\nname = \"{name}\"\nquota = \"{name}.yaml\"\n\n");
    let all = ["capacity", "weights", "stays", "capped"].map(scenario).concat();
    let compare = folder.file("compare.toml", &all);
    let found = data(&[&jobs, "--site", &nodes, "--recorded", "fifo/skip", "--compare", &compare]);
    let wait = |metrics: &serde_json::Value, vc: &str| {
        let of = metrics["by_vc"].as_array().unwrap().iter().find(|of| of["name"] == vc).unwrap();
        of["wait_s"]["mean"].as_f64().unwrap()
    };
    let other = |at: usize| &found["others"][at]["metrics"];
    // vb holds more than it deserves when va's job comes, by what is said or by weight: its last job stops at 10 s and starts anew at 60 s, 59 s after it came.
    for metrics in [&found["metrics"], other(0)] {
        assert_eq!((wait(metrics, "va"), wait(metrics, "vb")), (0.0, 29.5));
        assert_eq!(metrics["quotas"][1]["stopped"].as_u64(), Some(1));
    }
    let stays = other(1);
    assert_eq!((wait(stays, "va"), wait(stays, "vb")), (90.0, 0.0));
    assert_eq!((wait(other(2), "va"), wait(other(2), "vb")), (0.0, 49.5));
    let of = |at: usize, field: &str| stays["quotas"][at][field].as_f64().unwrap();
    // va starves for 90 of the 150 s, in which its 4 GPUs are with vb; vb is overused for 99 or 100 of them.
    assert!((of(0, "short_gpus") - 4.0 * 90.0 / 150.0).abs() < 0.05, "{stays}");
    assert!((of(1, "overused_ratio") - 99.0 / 150.0).abs() < 0.02 && of(0, "overused_ratio") == 0.0, "{stays}");
    assert!(of(1, "borrowed_gpus") > 2.0);
    let file = folder.file("q.yaml", &volcano_queues(deserved, "capacity", "allocate"));
    let text = stdout(&quietly(&[&jobs, "--site", &nodes, "--site", &format!("quota={file}")]));
    let said = ["what queues deserve as Volcano's", "vb was overused most", "va starved most", "vb borrowed most"];
    assert!(said.iter().all(|said| text.contains(said)), "{text}");
}

#[test]
fn the_sample_s_queues_under_volcano_are_compared() {
    let compare = "datasets/clusters/sample_volcano/compare.toml";
    let found = data(&["datasets/sample", "--recorded", "fifo/skip", "--compare", compare]);
    assert_eq!(found["fidelity"]["verdict"], "exact");
    let stopped = |metrics: &serde_json::Value| -> u64 {
        metrics["quotas"].as_array().unwrap().iter().map(|queue| queue["stopped"].as_u64().unwrap()).sum()
    };
    let all = [&found["metrics"], &found["others"][0]["metrics"], &found["others"][1]["metrics"]];
    // As the guide has it.
    assert_eq!(all.map(stopped), [63, 66, 0]);
    let own = |metrics: &serde_json::Value| -> f64 {
        metrics["quotas"].as_array().unwrap().iter().map(|queue| queue["nominal_gpus"].as_f64().unwrap()).sum()
    };
    assert!((own(all[0]) - 320.0).abs() < 1.0, "{}", own(all[0]));
}

#[test]
fn the_plan_for_volcano_is_replayed() {
    let found = planned("volcano");
    let queues = found["metrics"]["quotas"].as_array().unwrap();
    assert_eq!(queues.len(), 6);
    assert!(queues.iter().all(|queue| queue["overused_ratio"].is_f64()), "{queues:?}");
    let notes = found["subject"]["notes"].to_string();
    assert!(notes.contains("plugin capacity") && notes.contains("No volcano-scheduler.conf"), "{notes}");
}

#[test]
fn what_is_wrong_with_volcano_s_queues_is_told() {
    let (folder, jobs, nodes) = site();
    let good = volcano_queues("deserved: {nvidia.com/gpu: 4}", "capacity", "allocate, reclaim");
    let tree = good.replace("      - name: capacity", "      - name: capacity\n        enableHierarchy: true");
    let below = |parent: &str| tree.replacen("spec: {deserved", &format!("spec: {{parent: {parent}, deserved"), 1);
    told(&below("none"), 1, &["wrong.yaml, line 1", "Queue va", "parent none is not in the file"]);
    told(&below("va"), 1, &["its own parent"]);
    told(&good.replace("gpu: 4", "gpu: four"), 1, &["Queue va", "\"four\"", "quantity"]);
    told(&good.replace("spec: {", "spec: {weight: -1, "), 1, &["Queue va", "spec.weight is -1"]);
    told(&good.replace("- name: drf", "- name: proportion"), 1, &["proportion and capacity are both on"]);
    told(&good.replace("deserved:", "deserve:"), 1, &["no field `deserve`"]);
    told(&(good.clone() + "---\n" + &good), 1, &["there twice"]);
    // Of another scheduler.
    let (code, message) = refused(&good, &["--scan", "kai"]);
    assert!(code == 2 && message.contains("`kai` needs the quotas"), "{code} {message}");
    let (code, message) = refused(&queues("stopPolicy: None"), &["--scan", "volcano"]);
    assert!(code == 2 && message.contains("`volcano` needs the quotas"), "{code} {message}");
    // A VC without a queue is left out, and that is said.
    let others = folder.file("others.yaml", &good.replace("{name: va}", "{name: vc}"));
    let found = data(&[&jobs, "--site", &nodes, "--site", &format!("quota={others}")]);
    let left = &found["subject"]["left_out"][0];
    assert_eq!((found["subject"]["jobs"].as_u64(), left["jobs"].as_u64()), (Some(2), Some(1)));
    assert!(left["reason"].as_str().unwrap().contains("no queue of the quotas"), "{left}");
}

#[test]
fn admission_fair_sharing_of_the_file_is_followed_and_told() {
    // ua holds the whole node to 100 s; then a job of ua, submitted at 10 s, and one of uc, submitted at 20 s, want it.
    let jobs = "\
job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
a,ua,va,8,4,1,COMPLETED,2020-04-01 00:00:00,2020-04-01 00:00:00,2020-04-01 00:01:40,100,0
b,ua,va,8,4,1,COMPLETED,2020-04-01 00:00:10,2020-04-01 00:01:40,2020-04-01 00:02:30,50,90
c,uc,va,8,4,1,COMPLETED,2020-04-01 00:00:20,2020-04-01 00:02:30,2020-04-01 00:03:20,50,130
";
    let folder = Folder::new();
    let jobs = folder.file("cluster_log.csv", jobs);
    let nodes = folder.file("nodes.toml", "[[vc]]\nname = \"va\"\nnodes = 1\ngpus_per_node = 8\n");
    let map = "kind: ConfigMap\nmetadata: {name: kueue-manager-config}\ndata:\n  controller_manager_config.yaml: |\n    kind: Configuration\n    admissionFairSharing:\n      usageHalfLifeTime: 168h\n      usageSamplingInterval: 5m\n";
    let queue = |scope: &str| {
        let queues = queues(scope).split("---\n").next().unwrap().replace("nominalQuota: 4", "nominalQuota: 8");
        format!("{queues}---\n{map}")
    };
    let asks = "admissionScope: {admissionMode: UsageBasedAdmissionFairSharing}";
    let run = |name: &str, scope: &str| {
        let quota = folder.file(name, &queue(scope));
        data(&[&jobs, "--site", &nodes, "--scheduler", "kueue", "--site", &format!("quota={quota}")])
    };
    let told = |answer: &serde_json::Value| answer["subject"]["notes"].to_string();
    let mean = |answer: &serde_json::Value| {
        answer["metrics"]["by_user"]
            .as_array()
            .unwrap()
            .iter()
            .map(|of| (of["name"].as_str().unwrap().to_owned(), of["wait_s"]["mean"].as_f64().unwrap()))
            .collect::<Vec<_>>()
    };
    // By time b runs from 100 s and c from 150 s; by usage c from 100 s and b from 150 s.
    let by_time = run("time.yaml", "queueingStrategy: BestEffortFIFO");
    assert_eq!(mean(&by_time), [("ua".to_owned(), 45.0), ("uc".to_owned(), 130.0)]);
    assert!(told(&by_time).contains("no ClusterQueue asks for it"), "{}", told(&by_time));
    let by_usage = run("usage.yaml", asks);
    assert_eq!(mean(&by_usage), [("ua".to_owned(), 70.0), ("uc".to_owned(), 80.0)]);
    let told = told(&by_usage);
    assert!(told.contains("with a half-life of 7 d") && told.contains("entry penalty"), "{told}");
}
