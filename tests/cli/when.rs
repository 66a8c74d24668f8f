//! `when` and `why`: dumps of a Slurm as it is, when jobs start, and what keeps them.

use serde_json::{Value, json};

use super::*;

/// Four nodes of 8 GPUs, of which one drains; three jobs at work, one of 16 GPUs that waits and one that is held.
fn dumps(folder: &Folder) -> String {
    std::fs::create_dir(folder.path("now")).unwrap();
    let set = |number: i64| json!({"set": true, "infinite": false, "number": number});
    let node = |name: &str, state: &[&str]| json!({"name": name, "state": state, "partitions": ["gpu"], "tres": "cpu=64,gres/gpu=8", "gres": "gpu:8"});
    let nodes = [node("n1", &["ALLOCATED"]), node("n2", &["ALLOCATED"]), node("n3", &["IDLE", "DRAIN"])];
    folder.file("now/a.json", &json!({"nodes": nodes, "last_update": set(1_000_000)}).to_string());
    let job = |id: u32, state: &str, gpus: u32, start: i64, on: &str| {
        json!({
            "job_id": id, "job_state": [state], "user_name": format!("u{}", id % 2), "partition": "gpu",
            "state_reason": if state == "PENDING" { "Resources" } else { "None" }, "priority": set(10),
            "submit_time": set(990_000), "start_time": set(start), "time_limit": set(600), "nodes": on,
            "node_count": set(i64::from(gpus / 8)), "tres_req_str": format!("gres/gpu={gpus}")
        })
    };
    let mut held = job(4, "PENDING", 8, 0, "");
    held["state_reason"] = "JobHeldUser".into();
    let jobs = [
        job(1, "RUNNING", 8, 996_400, "n1"),
        job(2, "RUNNING", 8, 999_000, "n2"),
        job(3, "PENDING", 16, 1_026_000, ""),
        held,
    ];
    folder.file("now/b.json", &json!({"jobs": jobs, "last_update": set(1_000_000)}).to_string());
    folder.file("now/notes.txt", "not a dump");
    folder.path("now")
}

/// Accounting of jobs of both users on one GPU node before: runs of 2 h.
fn accounting(folder: &Folder) -> String {
    let mut text = "JobID|JobName|User|Partition|State|Submit|Start|End|AllocTRES|ReqTRES|Elapsed\n".to_owned();
    for at in 0..40 {
        let tres = "cpu=8,gres/gpu=8";
        text.push_str(&format!(
            "{}|x|u{}|gpu|COMPLETED|1970-01-0{}T{:02}:00:00|1970-01-0{}T{:02}:10:00|1970-01-0{}T{:02}:10:00|{tres}|{tres}|02:00:00\n",
            100 + at, at % 2, 3 + at / 20, at % 20, 3 + at / 20, at % 20, 3 + at / 20, at % 20 + 2
        ));
    }
    folder.file("sacct.txt", &text)
}

fn when(arguments: &[&str]) -> Value {
    let output = tracecast(&[&["when"], arguments, &["--format", "json", "--quiet"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    json(&stdout(&output))
}

#[test]
fn a_job_starts_when_those_before_it_end() {
    let folder = Folder::new();
    let (now, history) = (dumps(&folder), accounting(&folder));
    let asked = ["--state", &now, "--history", &history, "--timezone", "UTC", "--scan", "strict"];
    let found = when(&[&["3"], &asked[..]].concat());
    // Both run 2 h as all before; the later one has run 1,000 s of that: 6,200 s are left.
    let start = "1970-01-12T15:30:00Z";
    assert_eq!(found["now"], "1970-01-12T13:46:40Z");
    for level in ["p10", "p50", "p80", "p90"] {
        assert_eq!(found["start"][level], start, "{found}");
    }
    let chances: Vec<f64> =
        found["chances"].as_array().unwrap().iter().map(|of| of["chance"].as_f64().unwrap()).collect();
    assert_eq!(chances, [0.0, 0.0, 1.0, 1.0, 1.0, 1.0]);
    let beside = &found["beside"];
    assert_eq!(
        (&beside["slurm"], &beside["moving_average"]),
        (&json!("1970-01-12T21:00:00Z"), &json!("1970-01-12T13:56:40Z"))
    );
    // Without a history the limit of 10 h alone is known.
    let unknown = when(&["3", "--state", &now]);
    assert!(unknown["start"]["p90"].as_str().unwrap() > start, "{unknown}");
    assert_eq!(unknown["beside"]["moving_average"], Value::Null);
    // A small one that somebody would submit is behind it, and does not fit before.
    let new = when(&[&["--gpus", "8", "--limit", "2h"], &asked[..]].concat());
    assert!(new["job"].is_null() && new["start"]["p50"].as_str().unwrap() > "1970-01-12T14:00:00Z", "{new}");
    let shown = stdout(&tracecast(&[&["when", "3"], &asked[..]].concat()));
    assert!(shown.lines().take(5).any(|line| line.contains("Most likely by 1970-01-12T15:30:00Z")), "{shown}");
}

#[test]
fn what_keeps_a_job_is_told_and_what_is_not_there_is_an_error() {
    let folder = Folder::new();
    let now = dumps(&folder);
    let held = when(&["4", "--state", &now]);
    assert_eq!((&held["blocked"], &held["start"]["p50"]), (&json!("somebody holds it"), &Value::Null));
    assert!(when(&["1", "--state", &now])["running_since"].is_string());
    let large = when(&["--gpus", "24", "--state", &now]);
    assert_eq!(large["blocked"], "no nodes that take jobs now hold it");
    let refused = |code: i32, arguments: &[&str]| {
        let output = tracecast(&[&["when"], arguments].concat());
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
        stderr(&output)
    };
    assert!(refused(2, &["77", "--state", &now]).contains("such as 1, 2, 3, 4"));
    assert!(refused(2, &["--gpus", "8", "--partition", "cpu", "--state", &now]).contains("there are gpu"));
    assert!(refused(5, &["3", "--state", &folder.path("now/b.json")]).contains("no dump of the nodes"));
    assert!(refused(1, &["3", "--state", &folder.path("now/notes.txt")]).contains("squeue --json"));
    let failed = folder.file("failed.json", "{\"errors\": [{\"error\": \"no slurmctld\"}], \"jobs\": []}");
    assert!(refused(1, &["3", "--state", &failed]).contains("no slurmctld"));
}

#[test]
fn a_record_tells_how_answers_came_true() {
    let folder = Folder::new();
    let (now, history, record) = (dumps(&folder), accounting(&folder), folder.path("record.jsonl"));
    let asked =
        ["3", "--state", &now, "--history", &history, "--timezone", "UTC", "--scan", "strict", "--record", &record];
    assert_eq!(when(&asked)["record"], json!({"answers": 0, "kept80": null, "kept90": null}));
    // Later it runs since the moment that was said.
    let path = folder.path("now/b.json");
    let mut later: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    later["jobs"][2]["job_state"] = json!(["RUNNING"]);
    later["jobs"][2]["start_time"]["number"] = json!(1_006_200);
    later["jobs"][2]["nodes"] = json!("n1,n2");
    later["last_update"]["number"] = json!(1_007_000);
    std::fs::write(&path, later.to_string()).unwrap();
    let found = when(&asked);
    assert_eq!(found["record"], json!({"answers": 1, "kept80": 1.0, "kept90": 1.0}));
    assert_eq!(std::fs::read_to_string(&record).unwrap().lines().count(), 1);
}

/// Recorded from real Slurms of two versions.
#[test]
fn real_dumps_are_read() {
    for version in ["24.11.5", "26.05.5"] {
        let Some(folder) = tracecast_tests::real_trace(&format!("slurm_live/{version}")) else { return };
        let folder = folder.display().to_string();
        // 5 needs a node that drains, 10 is held, 9 begins in two hours, and 7 waits for its turn.
        let of = |job: &str| when(&[job, "--state", &folder]);
        assert_eq!(of("5")["blocked"], "no nodes that take jobs now hold it");
        assert_eq!(of("10")["blocked"], "somebody holds it");
        let (nine, seven) = (of("9"), of("7"));
        assert_eq!(nine["start"]["p10"], nine["beside"]["slurm"], "{nine}");
        assert!(seven["start"]["p50"].as_str() > seven["now"].as_str(), "{seven}");
        assert!(of("1")["running_since"].is_string());
    }
}

#[test]
fn starts_are_tested_on_the_past() {
    let output = tracecast(&[
        "model",
        "backtest",
        "start",
        "datasets/sample",
        "--order",
        "fifo",
        "--scan",
        "strict",
        "--questions",
        "120",
        "--draws",
        "7",
        "--format",
        "json",
        "--quiet",
    ]);
    assert!(output.status.success(), "{}", stderr(&output));
    let found = json(&stdout(&output));
    let models = found["models"].as_array().unwrap();
    let names: Vec<&str> = models.iter().map(|of| of["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["replay", "drawn", "class_mean", "moving_average", "binomial_bound"]);
    for of in models {
        let jobs: u64 = of["by_horizon"].as_array().unwrap().iter().map(|of| of["jobs"].as_u64().unwrap()).sum();
        assert_eq!(Some(jobs), of["jobs"].as_u64());
        assert!(of["coverage80"].as_f64() <= of["coverage90"].as_f64(), "{of}");
    }
    let error =
        |name: &str| models.iter().find(|of| of["name"] == name).unwrap()["median_abs_error_s"].as_f64().unwrap();
    assert!(error("replay") < error("moving_average") && error("replay") < error("class_mean"));
}

/// Job 3 asks for both nodes that work; the third drains.
#[test]
fn what_keeps_a_job_is_proved_by_replay() {
    let folder = Folder::new();
    let (now, history) = (dumps(&folder), accounting(&folder));
    let asked = ["--state", &now, "--history", &history, "--timezone", "UTC", "--scan", "strict"];
    let why = |job: &str| {
        let output = tracecast(&[&["why", job], &asked[..], &["--format", "json", "--quiet"]].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        json(&stdout(&output))
    };
    let answer = why("3");
    assert_eq!((&answer["cause"]["kind"], &answer["cause"]["proven"]), (&json!("capacity"), &json!(true)));
    assert_eq!(answer["start"]["p50"], "1970-01-12T15:30:00Z");
    let ahead = answer["ahead"].as_array().unwrap();
    // The limit of 10 h.
    assert_eq!((&ahead[0]["job"], &ahead[0]["until"]), (&json!("1"), &json!("1970-01-12T22:46:40Z")));
    let sooner = &answer["sooner"][0];
    assert_eq!((&sooner["start"]["p50"], &sooner["harmed"]["jobs"]), (&json!("1970-01-12T14:46:40Z"), &json!(0)));
    assert_eq!(why("4")["cause"]["kind"], "held");
    assert!(why("1")["running_since"].is_string());
    let shown = stdout(&tracecast(&[&["why", "3"], &asked[..]].concat()));
    assert!(shown.lines().take(6).any(|line| line.contains("Capacity: It asks for 16 GPUs")), "{shown}");
    let output = tracecast(&["why", "77", "--state", &now]);
    assert!(output.status.code() == Some(2) && stderr(&output).contains("such as 1, 2, 3, 4"));
}

/// Jobs of a real Slurm as it was: one node of four drains, three are full.
#[test]
fn causes_in_a_real_slurm() {
    let dumps = ["24.11.5", "26.05.5"].map(|version| tracecast_tests::real_trace(&format!("slurm_live/{version}")));
    for dump in dumps.into_iter().flatten() {
        let file = |name: &str| dump.join(format!("{name}.json.gz")).display().to_string();
        let (jobs, nodes) = (file("squeue_json"), file("scontrol_show_node_json"));
        let cause = |job: &str| {
            let output =
                tracecast(&["why", job, "--state", &jobs, &nodes, "--format", "json", "--quiet", "--draws", "7"]);
            assert!(output.status.success(), "{}", stderr(&output));
            let cause = json(&stdout(&output))["cause"].clone();
            (cause["kind"].as_str().unwrap().to_owned(), cause["proven"] == true)
        };
        // Four nodes, all free GPUs on the one that drains, 8 GPUs, a begin time, and held.
        let named = ["5", "6", "11", "9", "10"].map(cause);
        let kinds = ["drained", "drained", "capacity", "begin_time", "held"];
        let proven = [false, true, true, false, false];
        for ((named, kind), proven) in named.iter().zip(kinds).zip(proven) {
            assert_eq!((named.0.as_str(), named.1), (kind, proven), "{}", dump.display());
        }
    }
}
