//! `plan nodes`, as a user meets it.

use serde_json::Value;

use super::*;

const SAMPLE: [&str; 8] = ["plan", "nodes", "datasets/sample", "--scan", "skip", "--target-p95", "1h", "--quiet"];

/// A log of two nodes of ten, one of which fails every week.
fn faults() -> String {
    let week = 604_800;
    let rows = (0..20).map(|at| format!("a,{},{}\n", at * week, at * week + 86_400));
    format!("node,down_from,down_to\n{}b,500000,{}\n", rows.collect::<String>(), 20 * week)
}

#[test]
fn the_sample_is_planned_and_its_nodes_are_replayed() {
    let folder = Folder::new();
    let (out, log) = (folder.path("nodes"), folder.file("faults.csv", &faults()));
    let more =
        ["--emit", "cluster,slurm", "--emit-to", &out, "--faults", &log, "--fault-nodes", "10", "--format", "json"];
    let output = tracecast(&[&SAMPLE[..], &more].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let answer = json(&stdout(&output));
    assert_eq!(answer["schema"], "plan-nodes/2");
    let number = |value: &Value| value.as_u64().unwrap();
    let nodes = answer["nodes"].as_array().unwrap();
    for of in nodes {
        let needed = &of["needed"];
        if needed.is_null() {
            assert_eq!(of["recommended"], of["now"]);
            assert!(!of["not_judged"].is_null(), "{of}");
            continue;
        }
        let value = number(&needed["value"]);
        let [low, high] = ["low", "high"].map(|key| needed[key].as_u64());
        assert!(low.is_none_or(|low| low <= value) && high.is_none_or(|high| value <= high), "{of}");
        assert!(of["note"].is_string() == (low.is_none() || high.is_none()), "{of}");
        // Kept today if there are as many as are needed, where waits fall with every node.
        assert!(of["kept_now"] == (number(&of["now"]) >= value) || of["uneven"] == true, "{of}");
    }
    assert_eq!(nodes.iter().map(|of| number(&of["now"])).sum::<u64>(), 40);
    // With hindsight the target is always kept, and with the fewest nodes.
    let rule =
        |by: &str| answer["trial"]["rules"].as_array().unwrap().iter().find(|rule| rule["id"] == by).unwrap().clone();
    let oracle = rule("oracle");
    assert_eq!(oracle["pools_kept"], oracle["pools"]);
    assert!(rule("upper")["nodes"].as_f64() >= rule("needed")["nodes"].as_f64());
    assert_eq!(answer["faults"]["of_log"]["nodes"], 10);
    // What is written is what is recommended.
    let written = std::fs::read_to_string(folder.path("nodes/cluster.toml")).unwrap();
    let sum: u64 = written.lines().filter_map(|line| line.strip_prefix("nodes = ")?.parse::<u64>().ok()).sum();
    assert_eq!(sum, number(&answer["in_all"]["recommended"]));
    let conf = std::fs::read_to_string(folder.path("nodes/slurm-nodes.conf")).unwrap();
    assert!(conf.contains("Gres=gpu:8"));
    // Where sharing comes first, the files say that they are the other way.
    let shares = answer["action"].as_str().unwrap().starts_with("**See whether the VCs can share");
    assert!(shares && [&conf, &written].iter().all(|text| text.contains("This file is the other way")), "{conf}");
    let again = tracecast(&[
        "simulate",
        "datasets/sample",
        "--scan",
        "skip",
        "--site",
        &folder.path("nodes/cluster.toml"),
        "--quiet",
    ]);
    assert!(again.status.success(), "{}", stderr(&again));
}

/// Regression test: a plan for a trace without dates named days of 1970.
#[test]
fn a_trace_without_dates_has_no_days_of_1970() {
    let folder = Folder::new();
    // A job of 4 hours every hour for 40 days on a node of two GPUs: times are seconds since the trace began.
    let mut pods = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n".to_owned();
    for at in 0..960 {
        let from = at * 3600;
        pods += &format!("p{at},1000,1024,1,1000,,LS,Succeeded,{from},{},{from}\n", from + 4 * 3600);
    }
    folder.file("openb_pod_list_default.csv", &pods);
    let nodes = (0..6).map(|at| format!("n{at},64000,262144,2,T4\n")).collect::<String>();
    folder.file("openb_node_list_all_node.csv", &format!("sn,cpu_milli,memory_mib,gpu,model\n{nodes}"));
    let output = tracecast(&["plan", "nodes", &folder.path(""), "--target-p95", "1h", "--json", "--quiet"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let answer = json(&stdout(&output));
    let from = answer["trial"]["windows"][0]["from"].as_str().unwrap();
    assert!(from.ends_with(" d 23 h after the beginning"), "{from}");
    assert!(!stdout(&output).contains("1970"));
    // Nor has a plan of power, in words and in actions.
    let actions = folder.path("actions");
    let output = tracecast(&["plan", "power", &folder.path(""), "--emit", "actions", "--emit-to", &actions]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(
        !stdout(&output).contains("1970") && stdout(&output).contains("(since the beginning)"),
        "{}",
        stdout(&output)
    );
    let written = std::fs::read_to_string(format!("{actions}/power-actions.jsonl")).unwrap();
    assert!(written.contains("since the beginning)"), "{written}");
}

/// Plans that leave the nodes unchanged write no file.
#[test]
fn nothing_is_written_where_the_nodes_stay() {
    let folder = Folder::new();
    let mut text =
        "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n".to_owned();
    for at in 0..240 {
        let moment = format!("2020-09-{:02} {:02}", 1 + at / 8, at % 8 * 3);
        text += &format!("{at},u,va,1,4,1,COMPLETED,{moment}:00:00,{moment}:00:00,{moment}:50:00,3000,0\n");
    }
    let jobs = folder.file("jobs.csv", &text);
    let site = folder.file("site.toml", "[[vc]]\nname = \"va\"\nnodes = 1\ngpus_per_node = 8\n");
    let out = folder.path("nodes");
    let asked = ["plan", "nodes", &jobs, "--site", &site, "--target-p95", "1h", "--emit", "cluster"];
    let output = tracecast(&[&asked[..], &["--emit-to", &out, "--quiet"]].concat());
    assert!(output.status.success() && stdout(&output).contains("Change nothing"), "{}", stdout(&output));
    assert!(stderr(&output).contains("nothing is written to --emit-to: no change is advised"), "{}", stderr(&output));
    assert!(!std::path::Path::new(&out).exists());
}

/// The kinds of the repository, in which every price is invented.
const KINDS: [&str; 2] = ["--node-types", "datasets/node-types/example.toml"];

#[test]
fn a_mix_of_kinds_is_priced_tested_and_written() {
    let folder = Folder::new();
    let out = folder.path("nodes");
    let without = json(&stdout(&tracecast(&[&SAMPLE[..], &["--format", "json"]].concat())));
    let more = ["--emit", "cluster,slurm", "--emit-to", &out, "--format", "json"];
    let output = tracecast(&[&SAMPLE[..], &KINDS, &more].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let answer = json(&stdout(&output));
    // What was told without kinds is told as before.
    assert!(without.get("mix").is_none());
    for key in ["nodes", "in_all", "trial", "curve", "theory"] {
        assert_eq!(answer[key], without[key], "{key}");
    }
    let mix = &answer["mix"];
    let money = |value: &Value| value.as_f64().unwrap();
    let cost =
        |by: &str| money(&mix["cost"].as_array().unwrap().iter().find(|row| row["by"] == by).unwrap()["per_month"]);
    // Forty nodes that are there, at 12 an hour.
    assert!((cost("static") - 40.0 * 12.0 * 730.5).abs() < 1e-6);
    assert!(cost("cheapest") < cost("proportions") && cost("upper") <= cost("proportions_upper"));
    for pool in mix["pools"].as_array().unwrap() {
        let [same, cheapest] = ["in_proportions", "cheapest"].map(|key| money(&pool[key]["per_month"]));
        assert!(cheapest <= same && pool["complete"] == true, "{pool}");
    }
    let rule =
        |by: &str| mix["trial"]["rules"].as_array().unwrap().iter().find(|rule| rule["id"] == by).unwrap().clone();
    let oracle = rule("oracle");
    assert_eq!(oracle["pools_kept"], oracle["pools"]);
    // By the same tests as the numbers are.
    let numbers = answer["trial"]["rules"].as_array().unwrap();
    let needed = numbers.iter().find(|rule| rule["id"] == "needed").unwrap();
    assert_eq!(rule("proportions")["pools_kept"], needed["pools_kept"]);
    // A slower kind takes more nodes.
    let newer: Vec<u64> = mix["another"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["kind"] == "8 newer GPUs")
        .map(|row| row["nodes"].as_u64().unwrap())
        .collect();
    assert!(newer.len() == 3 && newer.is_sorted_by(|a, b| a >= b), "{newer:?}");
    // What is written is what is recommended.
    let recommended =
        mix["pools"].as_array().unwrap().iter().flat_map(|pool| pool["recommended"]["nodes"].as_array().unwrap());
    let recommended: u64 = recommended.map(|of| of["nodes"].as_u64().unwrap()).sum();
    let written = std::fs::read_to_string(folder.path("nodes/cluster.toml")).unwrap();
    let sum: u64 = written.lines().filter_map(|line| line.strip_prefix("nodes = ")?.parse::<u64>().ok()).sum();
    assert_eq!(sum, recommended);
    let conf = std::fs::read_to_string(folder.path("nodes/slurm-nodes.conf")).unwrap();
    assert!(conf.contains("Gres=gpu:half:4") && conf.contains("Gres=gpu:8"), "{conf}");
    let apart = mix["pools"].as_array().unwrap().iter().any(|pool| pool["recommended"]["stand"] == "one_apart");
    assert_eq!(
        (conf.contains("a partition of its own"), written.contains("which are to be sent here")),
        (apart, apart)
    );
    let cluster = folder.path("nodes/cluster.toml");
    let again = tracecast(&["simulate", "datasets/sample", "--scan", "skip", "--site", &cluster, "--quiet"]);
    assert!(again.status.success(), "{}", stderr(&again));
    // Of one pool that later windows do not bear out, no nodes are told as the effect.
    let effects = answer["recommendation"]["effects"].as_array().unwrap();
    let told: Vec<&str> = effects.iter().map(|effect| effect["what"].as_str().unwrap()).collect();
    assert_eq!(told, ["Cost of the nodes"]);
    assert_eq!(effects[0]["unit"], "USD a month");
}

#[test]
fn kinds_that_cannot_be_read_are_refused() {
    let folder = Folder::new();
    let example = std::fs::read_to_string(root().join(KINDS[1])).unwrap();
    let said = |from: &str, to: &str| {
        assert!(example.contains(from), "{from}");
        let path = folder.file("kinds.toml", &example.replacen(from, to, 1));
        let output = tracecast(&[&SAMPLE[..], &["--node-types", &path]].concat());
        assert!(!output.status.success());
        stderr(&output)
    };
    assert!(said("per_hour = 20.0", "per_hour = -20.0").contains("kinds.toml, line 8: 8 GPUs: per_hour is -20"));
    assert!(said("gpus_per_node = 8", "gpus_per_node = 16").contains("without gpu_type and what a node costs"));
    assert!(said("speed = 1.8", "speed = 0").contains("as fast jobs run"));
    assert!(said("name = \"4 GPUs\"", "name = \"8 GPUs\"").contains("give each kind a name of its own"));
    assert!(said("[[kind]]", "[[kinds]]").contains("unknown field `kinds`"));
    let missing = tracecast(&[&SAMPLE[..], &["--node-types", "nowhere.toml"]].concat());
    assert!(!missing.status.success() && stderr(&missing).contains("nowhere.toml"), "{}", stderr(&missing));
}

#[test]
fn the_number_of_threads_changes_nothing() {
    // Each engine that it asks is held by a test of its own.
    if !tracecast_tests::full_tier() {
        return;
    }
    let with = |threads: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_tracecast"))
            .args(SAMPLE)
            .args(["--format", "json", "--scale", "1.3", "--draws", "2"])
            .args(KINDS)
            .env("RAYON_NUM_THREADS", threads)
            .current_dir(root())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        output.stdout
    };
    let one = with("1");
    assert_eq!(one, with("2"));
    let answer = json(&String::from_utf8(one).unwrap());
    assert_eq!(answer["growth"]["factor"], 1.3);
}

/// More work never needs fewer nodes, and what is said of today's nodes is of the grown work.
#[test]
fn more_work_is_no_reason_for_fewer_nodes() {
    let of = |arguments: &[&str]| {
        let output = tracecast(&[&SAMPLE[..], &["--format", "json"], arguments].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        json(&stdout(&output))
    };
    let (now, grown) = (of(&[]), of(&["--scale", "1.1", "--draws", "2"]));
    for (now, grown) in now["nodes"].as_array().unwrap().iter().zip(grown["nodes"].as_array().unwrap()) {
        assert_eq!(now["name"], grown["name"]);
        for number in ["value", "low", "high"] {
            let of = |of: &Value| of["needed"][number].as_u64();
            assert!(of(grown) >= of(now) || of(grown).is_none(), "{number}: {now} {grown}");
        }
        let draws = grown["kept_draws"].as_u64();
        assert_eq!(draws == Some(2), grown["kept_now"] == true, "{grown}");
        assert!(now["kept_draws"].is_null());
    }
}

#[test]
fn what_cannot_be_planned_is_refused() {
    let said = |arguments: &[&str]| {
        let output = tracecast(&[&SAMPLE[..], arguments].concat());
        assert!(!output.status.success());
        stderr(&output)
    };
    assert!(said(&["--target-p95", "2h"]).contains("given twice"));
    assert!(said(&["--target-p95", "3-4=2h"]).contains("size classes are"));
    assert!(said(&["--target-p95", "1=soon"]).contains("write 90s"));
    assert!(said(&["--where", "vc = 'vision'"]).contains("needs them all"));
    assert!(said(&["--eval-from", "2035-01-01"]).contains("choose a day that has jobs before and after it"));
    assert!(said(&["--scale", "90"]).contains("from 0.05 to 20"));
    assert!(said(&["--availability", "2"]).contains("up to 1"));
    assert!(said(&["--emit", "slurm"]).contains("--emit-to"));
    assert!(said(&["--emit-to", "nodes"]).contains("one or more of cluster, slurm, such as --emit cluster"));
    assert!(said(&["--draws", "3"]).contains("--scale"));
    for alone in [["--availability", "0.9"], ["--checkpoint-cost", "1min"], ["--restart-cost", "1min"]] {
        assert!(said(&alone).contains("--faults"), "{alone:?}");
    }
    let folder = Folder::new();
    let log = folder.file("faults.csv", "node,down_from,down_to\na,1,2\nb,x,2\n");
    assert!(said(&["--faults", &log, "--fault-nodes", "4000000000"]).contains("10000000"));
    let nodes = folder.path("nodes");
    assert!(said(&["--resource", "cpus", "--emit", "slurm", "--emit-to", &nodes]).contains("the lines count GPUs"));
    assert!(said(&["--faults", &log]).contains("line 3"));
    let output = tracecast(&["plan", "nodes", "datasets/sample", "--target-p95", "1=1h"]);
    assert!(stderr(&output).contains("target of all jobs"), "{}", stderr(&output));
}
