//! `tracecast simulate`, as a user meets it.

use super::*;

/// Runs it and gives what it says on stdout.
fn answer(arguments: &[&str]) -> String {
    let output = tracecast(&[&["simulate"], arguments].concat());
    assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
    stdout(&output)
}

/// Answer of the command as JSON.
pub(crate) fn data(arguments: &[&str]) -> serde_json::Value {
    json(&answer(&[arguments, &["--format", "json"]].concat()))
}

/// Runs it, and says nothing of how far it is.
pub(crate) fn quietly(arguments: &[&str]) -> std::process::Output {
    tracecast(&[&["simulate"], arguments, &["--quiet"]].concat())
}

/// Exit code and message.
fn refusal(arguments: &[&str]) -> (i32, String) {
    let output = tracecast(&[&["simulate"], arguments].concat());
    assert!(stdout(&output).is_empty(), "nothing but answers on stdout");
    (output.status.code().unwrap(), stderr(&output))
}

fn number(value: &serde_json::Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// Three jobs on one node of 8 GPUs. The first holds 6 GPUs from 0 to 100 s. The second wants 4 at 10 s for 50 s, the third 1
/// at 20 s for 5 s.
const THREE: &str = "\
job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
a,ua,va,6,4,1,COMPLETED,2020-04-01 00:00:00,2020-04-01 00:00:00,2020-04-01 00:01:40,100,0
b,ub,va,4,4,1,COMPLETED,2020-04-01 00:00:10,2020-04-01 00:01:40,2020-04-01 00:02:30,50,90
c,ua,va,1,4,1,COMPLETED,2020-04-01 00:00:20,2020-04-01 00:01:40,2020-04-01 00:01:45,5,80
";
const NODE: &str = "[[vc]]\nname = \"va\"\nnodes = 1\ngpus_per_node = 8\n";

#[test]
fn three_jobs_by_hand() {
    let folder = Folder::new();
    let (source, node) = (folder.file("cluster_log.csv", THREE), folder.file("cluster.toml", NODE));
    // Strict: b does not fit beside a, and c stands behind b. Both start at 100 s: waits 0, 90 and 80 s.
    let schedule = folder.path("strict.csv");
    let strict = data(&[&source, "--site", &node, "--schedule", &schedule]);
    assert_eq!(strict["schema"], "simulate/1");
    let overall = &strict["metrics"]["overall"];
    assert_eq!((&overall["jobs"], &overall["rejected"], &overall["stranded"]), (&3.into(), &0.into(), &0.into()));
    assert!((number(&overall["wait_s"]["mean"]) - 170.0 / 3.0).abs() < 1e-9);
    assert_eq!(number(&overall["wait_s"]["median"]), 80.0);
    // Quantiles of 0, 80, 90: 80 + 0.9 · 10 and 80 + 0.98 · 10.
    assert!((number(&overall["wait_s"]["p95"]) - 89.0).abs() < 1e-9);
    assert!((number(&overall["wait_s"]["p99"]) - 89.8).abs() < 1e-9);
    // 100, 140 and 85 s.
    assert!((number(&overall["jct_s"]["mean"]) - 325.0 / 3.0).abs() < 1e-9);
    assert!(number(&strict["engine_seconds"]) >= 0.0);
    // Recorded starts are there, but three jobs are too few to judge by.
    assert_eq!((&strict["fidelity"]["verdict"], &strict["fidelity"]["jobs"]), (&"unknown".into(), &3.into()));
    assert_eq!(
        std::fs::read_to_string(&schedule).unwrap(),
        "job_id,vc,gpus,submit_s,start_s,end_s,wait_s,preemptions,nodes\n\
         a,va,6,0,0,100,0,0,0:6\n\
         b,va,4,10,100,150,90,0,0:4\n\
         c,va,1,20,100,105,80,0,0:1\n"
    );
    // Skip: c starts at once.
    let skip = data(&[&source, "--site", &node, "--scan", "skip"]);
    assert_eq!(number(&skip["metrics"]["overall"]["wait_s"]["mean"]), 30.0);
    // A node of 4 GPUs can never run a.
    let small = folder.file("small.toml", &NODE.replace('8', "4"));
    let small = data(&[&source, "--site", &small]);
    assert_eq!(small["metrics"]["overall"]["rejected"], 1);
    // Of the schedule nothing half written is left.
    assert!(folder.names().iter().all(|name| !name.starts_with('.')), "{:?}", folder.names());
}

/// Regression test: "1 job could never run" named neither the cause nor the job.
#[test]
fn jobs_that_could_never_run_are_told_with_cause_and_example() {
    let folder = Folder::new();
    let source = folder.file("cluster_log.csv", THREE);
    let four = folder.file("four.toml", &NODE.replace('8', "4"));
    let told = answer(&[&source, "--site", &four]).split_whitespace().collect::<Vec<_>>().join(" ");
    let why =
        "1 job could never run where submitted: 1 asks for more GPUs than all nodes of the VC or pool have (job a).";
    assert!(told.contains(why) && told.contains("Jobs that could never run"), "{told}");
    // On two nodes of 4 there are GPUs enough, but a ran on one node; that is so only if gangs are as they were.
    let two = folder.file("two.toml", &NODE.replace('8', "4").replace("nodes = 1", "nodes = 2"));
    let found = data(&[&source, "--site", &two, "--site", "gangs=as-recorded"]);
    let rejection = &found["metrics"]["rejections"][0];
    assert_eq!((&rejection["cause"], &rejection["example"]), (&"nodes".into(), &"a".into()), "{rejection}");
    assert!(data(&[&source, "--site", &two])["metrics"]["rejections"].is_null());
    // Policies that reject the same say so once, others each for itself.
    let scenario = |name: &str, file: &str| format!("[[scenario]]\nname = \"{name}\"\ncluster = \"{file}\"\n");
    let both = folder.file("both.toml", &(scenario("small", "four.toml") + &scenario("large", "two.toml")));
    let text = answer(&[&source, "--compare", &both, "--section", "rejected"]);
    assert!(text.contains("under small: 1 asks for more GPUs"), "{text}");
    assert_eq!(text.matches("Asks for more GPUs than").count(), 1, "{text}");
}

/// Regression test: of several policies only the first had its causes of waiting shown, under a
/// heading that did not say so.
#[test]
fn each_policy_has_its_causes_of_waiting() {
    let text = answer(&["datasets/sample", "--compare", "fifo/skip,sjf", "--section", "causes"]);
    let table = text.split("Why jobs waited under each policy").nth(1).unwrap();
    let (of_each, of_first) = table.split_once("Why jobs waited, under fifo/skip: share").unwrap();
    let rows = |name: &str| of_each.lines().filter(|line| line.starts_with(name)).count();
    assert_eq!((rows("fifo/skip "), rows("sjf ")), (1, 1), "{text}");
    assert!(of_first.contains("By VC, under fifo/skip"), "{text}");
    let alone = answer(&["datasets/sample", "--section", "causes"]);
    assert!(!alone.contains("under each policy") && alone.contains("Why jobs waited: share"), "{alone}");
}

/// Regression test: a what-if on quotas that the cluster never had was called far from what
/// happened.
#[test]
fn a_what_if_that_the_record_knows_nothing_of_is_not_called_far_off() {
    let quota = ["--site", "quota=datasets/clusters/sample_queues/borrow.yaml"];
    let found = data(&[&["datasets/sample"][..], &quota].concat());
    assert_eq!(found["fidelity"]["verdict"], "unknown");
    let text = answer(&[&["datasets/sample", "--section", "fidelity"][..], &quota].concat());
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("cannot be told: it is on the quotas of a file, of which the trace does not say"), "{text}");
    assert!(
        words.contains("its policy was another: name that, in `simulate` with --recorded")
            && !words.contains("Do not act"),
        "{text}"
    );
    assert!(text.contains("Mean wait, recorded"), "{text}");
    // With the policy of the record it is held against the trace's own nodes.
    let found = data(&[&["datasets/sample", "--recorded", "fifo/skip"][..], &quota].concat());
    assert_eq!(found["fidelity"]["verdict"], "exact");
    // A file of nodes beside nodes that the trace records changes nothing of that.
    let folder = Folder::new();
    let large = folder.file("large.toml", "[[vc]]\nname = \"*\"\nnodes = 20\ngpus_per_node = 8\n");
    let found = data(&["datasets/sample", "--recorded", "fifo/skip", "--scan", "skip", "--site", &large]);
    assert_eq!(found["fidelity"]["verdict"], "exact");
}

#[test]
fn names_of_a_list_may_have_blanks_around_them() {
    let jobs = |vcs: &str| data(&["datasets/sample", "--vcs", vcs])["metrics"]["overall"]["jobs"].clone();
    assert_eq!(jobs("vision, speech "), jobs("vision,speech"));
    let text = answer(&["datasets/sample", "--section", "waits, use"]);
    assert!(text.contains("Waits and completion times") && text.contains("Use of the GPUs"), "{text}");
}

/// Regression test: `--site interval=60` and the like were taken as seconds, whatever was meant.
#[test]
fn lengths_of_time_have_a_unit() {
    for arguments in
        [["--site", "interval=60"], ["--site", "window=24"], ["--max-run", "24"], ["--site", "checkpoint=1"]]
    {
        let (code, told) = refusal(&[&["datasets/sample"][..], &arguments].concat());
        assert!(code == 2 && told.contains("no unit; write 24h, 90min or 3600s"), "{told}");
    }
}

#[test]
fn bounds_of_a_backfill_need_one() {
    for bound in [["--site", "window=1d"], ["--site", "depth=500"]] {
        let (code, told) = refusal(&[&["datasets/sample", "--scan", "easy"][..], &bound].concat());
        assert!(code == 2 && told.contains("name one of these with --scan"), "{told}");
        let compared =
            ["datasets/sample", "--compare", "fifo/easy,fifo/slurm", "--to", "2024-03-08", "--site", "interval=60s"];
        let text = answer(&[&compared[..], &bound].concat());
        assert!(
            text.contains(if bound[1] == "depth=500" { "looking at 500 jobs" } else { "reserving 1 d ahead" }),
            "{text}"
        );
    }
    let (code, told) = refusal(&["datasets/sample", "--scan", "slurm", "--site", "depth=0"]);
    assert!(code == 2 && told.contains("a depth of 1 or more"), "{told}");
}

/// Regression test: the advice was to choose a section, which had been done.
#[test]
fn csv_of_a_section_with_several_tables_says_what_to_do() {
    let (code, told) = refusal(&["datasets/sample", "--section", "waits", "--format", "csv", "--quiet"]);
    assert_eq!(code, 2);
    assert!(told.contains("of --section waits there are ") && told.contains("waits-1"), "{told}");
    assert!(told.contains("for all of them, name a folder: --out FOLDER/"), "{told}");
    assert!(told.contains("choose one of these sections, such as --section fidelity: fidelity, "), "{told}");
    assert!(!answer(&["datasets/sample", "--section", "fidelity", "--format", "csv"]).is_empty());
}

/// Regression test: `multifactor:age=` stood above `1000,size=500/ea` and `sy/requested`.
#[test]
fn long_names_of_policies_are_broken_where_they_can_be() {
    let compare = "fifo,multifactor:age=1000,size=500/easy/requested,sjf/conservative/requested";
    let output = Command::new(env!("CARGO_BIN_EXE_tracecast"))
        .args(["simulate", "datasets/sample", "--compare", compare, "--section", "comparison", "--quiet"])
        .current_dir(root())
        .env("COLUMNS", "80")
        .output()
        .unwrap();
    let text = stdout(&output);
    assert!(text.lines().any(|line| line.starts_with("multifactor:  ")), "{text}");
    assert!(text.lines().any(|line| line.starts_with("age=1000,")), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn predictions_and_scores_order_the_queue() {
    let folder = Folder::new();
    let (source, node) = (folder.file("cluster_log.csv", THREE), folder.file("cluster.toml", NODE));
    let run = |more: &[&str]| {
        let schedule = folder.path("out.csv");
        let found = data(&[&[&source, "--site", &node, "--schedule", &schedule, "--force"][..], more].concat());
        let text = std::fs::read_to_string(&schedule).unwrap();
        let starts: Vec<f64> =
            text.lines().skip(1).map(|row| row.split(',').nth(4).unwrap().parse().unwrap()).collect();
        (found, starts)
    };
    // c is said to take longest, so with 4 · 1 s against 1 · 500 s b goes first: c starts behind it, at 100 s.
    let predictions = folder.file("est.csv", "job_id,predicted_duration_s\na,1\nb,1\nc,500\n");
    let (found, starts) = run(&["--order", "qssf", "--predictions", &predictions]);
    assert_eq!((found["name"].as_str(), starts), (Some("QSSF"), vec![0.0, 100.0, 100.0]));
    assert_eq!(found["yardstick"]["without_predictions"], false);
    // Mean waits: QSSF 170 / 3 s; fewest GPUs first and the oracle start c at once, 90 / 3 s. There is no gap to close.
    assert_eq!(number(&found["yardstick"]["fewest_gpus_mean_wait_s"]), 30.0);
    assert_eq!(number(&found["yardstick"]["oracle_mean_wait_s"]), 30.0);
    assert!(found["yardstick"]["gap_closed"].is_null());
    let names: Vec<&str> = found["others"].as_array().unwrap().iter().map(|of| of["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["fewest GPUs first", "QSSF (oracle)"]);
    // Without predictions it knows the truth, and is called so.
    let (found, starts) = run(&["--order", "qssf"]);
    assert_eq!((found["name"].as_str(), starts), (Some("QSSF (oracle)"), vec![0.0, 100.0, 20.0]));
    assert_eq!(found["yardstick"]["without_predictions"], true);
    // A score file: c first, then b.
    let scores = folder.file("score.csv", "job_id,score\nc,-1\nb,2\na,3\n");
    assert_eq!(run(&["--order", "score", "--score", &scores]).1, [0.0, 100.0, 20.0]);
}

/// Switches of every kind on the bundled sample; what must hold whatever they do.
#[test]
fn the_sample_under_many_policies() {
    let folder = Folder::new();
    let fixed = folder.file("fixed.toml", "[[vc]]\nname = \"*\"\nnodes = 6\n");
    for policy in [
        &["--order", "fifo"][..],
        &["--order", "sjf", "--scan", "skip", "--place", "best-fit"],
        &["--order", "fifo", "--scan", "easy", "--place", "worst-fit", "--max-run", "2d"],
        &["--order", "fewest-gpus", "--scan", "conservative", "--site", "depth=20", "--vcs", "vision,speech"],
        &["--order", "fifo", "--scan", "slurm", "--site", "depth=500", "--site", "window=1d", "--site", "interval=60s"],
        &["--order", "srtf", "--scan", "skip", "--preempt", "7s,30s,60s"],
        &["--order", "las", "--scan", "skip", "--preempt", "tiresias", "--site", "interval=10m"],
        &["--order", "fair-share:2d", "--site", "tenants=vc"],
        &["--order", "multifactor:age=1000,size=500,favor_small", "--site", "interval=60s"],
        &["--order", "gittins", "--from", "2024-03-10", "--to", "2024-03-17T00:00:00Z"],
        // That simulator knows no sizes that change.
        &["--order", "srtf", "--site", "compat=helios", "--vcs", "search", "--site", &fixed],
    ] {
        let found = data(&[&["datasets/sample"][..], policy].concat());
        let overall = &found["metrics"]["overall"];
        let count = |key: &str| overall[key].as_u64().unwrap();
        assert_eq!(count("finished") + count("rejected") + count("stranded"), count("jobs"), "{policy:?}");
        assert!(count("jobs") > 100, "{policy:?}");
        let share = number(&overall["utilisation"]);
        assert!(share > 0.0 && share <= 1.0, "{policy:?}: {share}");
        let wait = |key: &str| number(&overall["wait_s"][key]);
        assert!(wait("median") <= wait("p95") && wait("p95") <= wait("p99"), "{policy:?}");
        let sizes = found["metrics"]["by_size"].as_array().unwrap();
        assert_eq!(sizes.iter().map(|of| of["jobs"].as_u64().unwrap()).sum::<u64>(), count("jobs"), "{policy:?}");
        assert!(found["fidelity"]["verdict"].is_string() && found["subject"]["left_out"].is_array());
        let preempts = policy.contains(&"--preempt") || policy.contains(&"compat=helios");
        assert_eq!(count("preemptions") > 0, preempts, "{policy:?}");
    }
}

#[test]
fn fidelity_comes_first_and_is_told_apart() {
    let text = answer(&["datasets/sample", "--recorded", "fifo/strict"]);
    let place = |what: &str| text.find(what).unwrap_or_else(|| panic!("no `{what}` in\n{text}"));
    let order = ["Can the replay be believed?", "What was replayed", "Why jobs waited"];
    assert!(order.windows(2).all(|pair| place(pair[0]) < place(pair[1])));
    // The sample was made with jobs overtaking others: as strict FIFO it is far off, and the reader is told not to act on it.
    assert!(text.contains("do not build advice on it") && text.contains("Do not act on what follows"));
    let exact = data(&["datasets/sample"]);
    assert_eq!((&exact["fidelity"]["verdict"], number(&exact["fidelity"]["max_abs_error_s"])), (&"exact".into(), 0.0));
    // A trace without starts cannot be checked, and says so.
    let folder = Folder::new();
    let source = folder.file("site.csv", "id,submit,gpus,seconds\n1,0,1,60\n2,5,1,60\n");
    let mapping = folder.file(
        "site.toml",
        "name = \"site\"\ntable = \"jobs\"\n[columns]\njob_key = { column = \"id\" }\n\
         submit = { column = \"submit\", unit = \"s\" }\nreq_gpus = { column = \"gpus\" }\n\
         reported_attempts_s = { column = \"seconds\", unit = \"s\" }\n",
    );
    let node = folder.file("cluster.toml", "[[vc]]\nname = \"all\"\nnodes = 1\ngpus_per_node = 1\n");
    let found = data(&[&source, "--mapping", &mapping, "--site", &node]);
    assert_eq!(found["fidelity"]["verdict"], "unknown");
    assert!(found["fidelity"]["why"].as_str().unwrap().contains("no job has a recorded start"));
    // One GPU: the second waits from 5 to 60 s.
    assert_eq!(number(&found["metrics"]["overall"]["wait_s"]["mean"]), 27.5);
}

/// The recorded policy is replayed, but for the switches that are given otherwise.
#[test]
fn the_recorded_policy_is_replayed_unless_told_otherwise() {
    let folder = Folder::new();
    let (source, node) = (folder.file("cluster_log.csv", THREE), folder.file("cluster.toml", NODE));
    let run = |more: &[&str]| {
        let found = data(&[&[&source, "--site", &node][..], more].concat());
        let mean = number(&found["metrics"]["overall"]["wait_s"]["mean"]);
        (found["policy"].as_str().unwrap().to_owned(), mean)
    };
    // As in `three_jobs_by_hand`: c passes b under skip, which makes 90 / 3 s of 170 / 3.
    assert_eq!(run(&["--recorded", "fifo/skip"]), ("FIFO, skip, consolidated".to_owned(), 30.0));
    assert!((run(&["--recorded", "fifo/skip", "--scan", "strict"]).1 - 170.0 / 3.0).abs() < 1e-9);
    // Another order is walked as the cluster walked its queue.
    assert!(run(&["--recorded", "fifo/skip", "--order", "sjf"]).0.contains("skip"));
    let compared = data(&[&source, "--site", &node, "--recorded", "fifo/skip", "--compare", "fifo,sjf"]);
    assert!(compared["policy"].as_str().unwrap().contains("skip"));
    assert!(compared["others"][0]["policy"].as_str().unwrap().contains("skip"));
    // So is a limit that the scheduler went by.
    assert!(run(&["--recorded", "sjf/skip/requested"]).0.contains("skip"));
    let (code, message) = refusal(&[&source, "--site", &node, "--recorded", "fifo/skip/true/x"]);
    assert!(code == 2 && message.contains("write ORDER, ORDER/SCAN or ORDER/SCAN/ESTIMATE"), "{code} {message}");
}

/// Regression test: with `--order fifo --scan skip`, which repeats the record, the answer said that
/// its replay was far from it, and to name what was named.
#[test]
fn a_replay_that_repeats_the_record_stands_for_it_where_nobody_named_one() {
    let skip = data(&["datasets/sample", "--order", "fifo", "--scan", "skip"]);
    assert_eq!(skip["fidelity"]["verdict"], "exact");
    assert_eq!(
        (&skip["recorded_policy"], &skip["policy"]),
        (&"FIFO, skip, consolidated".into(), &"FIFO, skip, consolidated".into())
    );
    assert!(skip["subject"]["notes"].to_string().contains("Recorded policy: FIFO, skip"));
    // So does FIFO with the scan of another order.
    let sjf = data(&["datasets/sample", "--order", "sjf", "--scan", "skip"]);
    assert_eq!((&sjf["fidelity"], &sjf["recorded_policy"]), (&skip["fidelity"], &skip["recorded_policy"]));
    // So it does beside every scan, unless another policy is named for the record.
    let easy = data(&["datasets/sample", "--order", "sjf", "--scan", "easy"]);
    assert_eq!((&easy["fidelity"], &easy["recorded_policy"]), (&skip["fidelity"], &skip["recorded_policy"]));
    let found = data(&["datasets/sample", "--recorded", "fifo/strict", "--scan", "skip"]);
    assert_eq!(
        (&found["fidelity"]["verdict"], &found["fidelity"]["nearest"]["scan"]),
        (&"far_off".into(), &"skip".into())
    );
    assert_eq!(found["recorded_policy"], "FIFO, strict, consolidated");
    assert_eq!(found["fidelity"]["assumed"].as_str(), None);
}

/// Four processors, no GPU anywhere, and a header that says how many there are.
const PROCESSORS: &str = "\
; UnixStartTime: 1000000000
; MaxNodes: 2
; MaxProcs: 4
1 0 0 100 3 -1 -1 3 200 -1 1 1 1 -1 1 -1 -1 -1
2 10 90 50 2 -1 -1 2 100 -1 1 2 1 -1 1 -1 -1 -1
3 20 0 5 1 -1 -1 1 10 -1 1 1 1 -1 -1 -1 -1 -1
";

#[test]
fn processors_are_replayed_like_gpus() {
    let folder = Folder::new();
    let log = folder.file("log.swf", PROCESSORS);
    // Job 2 does not fit beside job 1, and job 3 stands behind it: both start at 100 s, waits 0, 90 and 80 s. With skip, job 3
    // starts at once. It takes the one processor that is left, whatever node that is on.
    let strict = data(&[&log]);
    assert_eq!((&strict["subject"]["resource"], &strict["subject"]["gpus"]), (&"cpus".into(), &4.into()));
    assert_eq!(strict["policy"], "FIFO, strict, anywhere");
    assert!((number(&strict["metrics"]["overall"]["wait_s"]["mean"]) - 170.0 / 3.0).abs() < 1e-9);
    assert_eq!(number(&data(&[&log, "--scan", "skip"])["metrics"]["overall"]["wait_s"]["mean"]), 30.0);
    // The time asked for is what backfill goes by: until 200 s job 3, which asks for 10 s, holds nobody up.
    let easy = data(&[&log, "--scan", "easy", "--estimate", "requested"]);
    assert_eq!(number(&easy["metrics"]["overall"]["wait_s"]["mean"]), 30.0);
    let text = answer(&[&log]);
    assert!(text.contains("3 jobs on 4 processors"), "{text}");
    // The reader's own note says that the format knows no GPUs; after that nothing speaks of them.
    assert!(!text[text.find("Can the replay be believed?").unwrap()..].contains("GPU"), "{text}");
    // GPUs it has none.
    let (code, message) = refusal(&[&log, "--resource", "gpus"]);
    assert!(code != 0 && message.contains("the number of GPUs is unknown"), "{code} {message}");
    // Without a word on the machine, a command is named that infers a file which works as it stands.
    let unsaid = folder.file("unsaid.swf", &PROCESSORS.replace("; MaxNodes: 2\n; MaxProcs: 4\n", ""));
    let (code, message) = refusal(&[&unsaid]);
    assert!(code == 5 && message.contains("tracecast cluster SOURCE --resource cpus"), "{code} {message}");
    let site = folder.path("cluster.toml");
    assert!(tracecast(&["cluster", &unsaid, "--resource", "cpus", "--out", &site]).status.success());
    assert_eq!(data(&[&unsaid, "--site", &site])["subject"]["resource"], "cpus");
}

/// Other nodes change what is replayed, not what was: the recorded policy is held against the trace's own nodes.
#[test]
fn fidelity_is_that_of_the_nodes_there_were() {
    let folder = Folder::new();
    let file = folder.file("cluster.toml", "[[vc]]\nname = \"*\"\nnodes = 40\n");
    let settings = ["--recorded", "fifo/skip", "--scan", "skip"];
    let was = data(&[&["datasets/sample"], &settings[..]].concat());
    let other = data(&[&["datasets/sample", "--site", &file], &settings[..]].concat());
    assert_eq!(was["fidelity"], other["fidelity"]);
    assert!(number(&was["metrics"]["overall"]["wait_s"]["mean"]) > 0.0);
    assert!(
        number(&other["metrics"]["overall"]["wait_s"]["mean"]) < number(&was["metrics"]["overall"]["wait_s"]["mean"])
    );
}

#[test]
fn a_comparison_is_paired_and_ends_in_intervals() {
    let found = data(&["datasets/sample", "--compare", "fifo,sjf,tiresias:3250,7200", "--scan", "skip"]);
    let comparison = &found["comparison"];
    assert_eq!(comparison["baseline"], "fifo");
    let differences = comparison["differences"].as_array().unwrap();
    let names: Vec<&str> = differences.iter().map(|of| of["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["sjf", "tiresias:3250,7200"]);
    let mean = |of: &serde_json::Value| number(&of["metrics"]["overall"]["wait_s"]["mean"]);
    let sjf = &differences[0]["mean_wait_s"];
    // Every job ends under both, so the mean of the differences is the difference of the means.
    assert_eq!(comparison["left_out"], 0);
    assert!((number(&sjf["value"]) - (mean(&found["others"][0]) - mean(&found))).abs() < 1e-6);
    assert!(number(&sjf["low"]) <= number(&sjf["value"]) && number(&sjf["value"]) <= number(&sjf["high"]));
    let ties = &found["ties"];
    assert!(number(&ties["min_mean_wait_s"]) <= mean(&found) && mean(&found) <= number(&ties["max_mean_wait_s"]));
    // A file of scenarios says the same in other words; what it leaves open is taken from the switches.
    let folder = Folder::new();
    let file = folder.file(
        "scenarios.toml",
        "[[scenario]]\nname = \"fifo\"\n[[scenario]]\nname = \"sjf\"\norder = \"sjf\"\n[[scenario]]\nname = \"tiresias:3250,7200\"\norder = \"tiresias:3250,7200\"\n",
    );
    let same = data(&["datasets/sample", "--compare", &file, "--scan", "skip"]);
    assert_eq!((&same["comparison"], &same["others"]), (comparison, &found["others"]));
}

/// Three jobs of 8 GPUs, submitted together, that run 100 s: on one node they wait 0, 100 and 200 s, on two 0, 0 and 100.
#[test]
fn scenarios_may_have_nodes_of_their_own() {
    let folder = Folder::new();
    let row = |id: &str| {
        format!("{id},u,va,8,4,1,COMPLETED,2020-04-01 00:00:00,2020-04-01 00:00:00,2020-04-01 00:01:40,100,0\n")
    };
    let head = THREE.lines().next().unwrap();
    let jobs = folder.file("cluster_log.csv", &format!("{head}\n{}{}{}", row("a"), row("b"), row("c")));
    let one = folder.file("one.toml", NODE);
    folder.file("two.toml", &NODE.replace("nodes = 1", "nodes = 2"));
    let scenarios = "[[scenario]]\nname = \"today\"\n[[scenario]]\nname = \"two nodes\"\ncluster = \"two.toml\"\n";
    let compare = folder.file("scenarios.toml", scenarios);
    let found = data(&[&jobs, "--site", &one, "--compare", &compare]);
    let wait = |metrics: &serde_json::Value| number(&metrics["overall"]["wait_s"]["mean"]);
    let other = &found["others"][0];
    assert_eq!((wait(&found["metrics"]), other["name"].as_str()), (100.0, Some("two nodes")));
    assert!((wait(&other["metrics"]) - 100.0 / 3.0).abs() < 1e-9);
    assert!(other["policy"].as_str().unwrap().contains("two.toml"), "{}", other["policy"]);
    let change = &found["comparison"]["differences"][0]["mean_wait_s"];
    assert!((number(&change["value"]) + 200.0 / 3.0).abs() < 1e-9);
    // In parts, of which the second has a node that the first does not have.
    let parts = folder.path("parts");
    for shard in ["1/2", "2/2"] {
        let part = ["--compare", &compare, "--shard", shard, "--results", &parts];
        let output = tracecast(&[&["simulate", &jobs, "--site", &one][..], &part].concat());
        assert!(output.status.success(), "{}", stderr(&output));
    }
    let mut whole = found.clone();
    whole.as_object_mut().unwrap().remove("engine_seconds");
    assert_eq!(data(&[&jobs, "--site", &one, "--compare", &compare, "--merge", &parts]), whole);
    // Where nothing else names nodes, the first scenario does; QSSF has its rows on its own nodes.
    let own = folder.file(
        "own.toml",
        "[[scenario]]\nname = \"qssf\"\norder = \"qssf\"\ncluster = \"two.toml\"\n[[scenario]]\nname = \"one\"\ncluster = \"one.toml\"\n",
    );
    let found = data(&[&jobs, "--compare", &own]);
    let waits: Vec<f64> = found["others"].as_array().unwrap().iter().map(|other| wait(&other["metrics"])).collect();
    assert_eq!((waits.len(), waits[0]), (2, 100.0));
    assert!((waits[1] - 100.0 / 3.0).abs() < 1e-9 && (wait(&found["metrics"]) - 100.0 / 3.0).abs() < 1e-9);
    // Nodes that take a part of the jobs alone, none of them, and growth, which knows one cluster.
    let both = folder.file("both.toml", &format!("{NODE}{}", NODE.replace("\"va\"", "\"vb\"")));
    let mixed = folder.file("mixed_cluster_log.csv", &format!("{head}\n{}{}", row("a"), row("b").replace("va", "vb")));
    let (code, message) = refusal(&[&mixed, "--reader", "helios", "--site", &both, "--compare", &compare]);
    assert!(code != 0 && message.contains("name in it every VC"), "{code} {message}");
    folder.file("two.toml", &NODE.replace("\"va\"", "\"vb\""));
    let (code, message) = refusal(&[&jobs, "--site", &one, "--compare", &compare]);
    assert!(
        code != 0
            && message.contains("a scenario on the nodes of ")
            && message.contains("two.toml names no VC of the trace"),
        "{code} {message}"
    );
    folder.file("two.toml", &NODE.replace("nodes = 1", "nodes = 2"));
    let (_, message) = refusal(&[&jobs, "--site", &one, "--compare", &compare, "--scale", "1.2"]);
    assert!(message.contains("on one cluster"), "{message}");
}

/// Regression test: a scenario with a cluster file took the trace's failures from the row of today,
/// too, and nothing was said of failures on one side only.
#[test]
fn a_cluster_file_leaves_the_row_of_today_as_it_was() {
    let folder = Folder::new();
    let wait = |metrics: &serde_json::Value| number(&metrics["overall"]["wait_s"]["mean"]);
    let today = data(&["datasets/sample", "--recorded", "fifo/skip", "--scan", "skip"]);
    let plain = folder.file("plain.toml", &stdout(&tracecast(&["cluster", "datasets/sample", "--over-time"])));
    let text = std::fs::read_to_string(&plain).unwrap();
    let calm = text.split("\n[[outage]]").next().unwrap();
    folder.file("calm.toml", calm);
    let compared = |scenarios: &str| {
        let file = folder.file("scenarios.toml", scenarios);
        let arguments = ["datasets/sample", "--recorded", "fifo/skip", "--compare", &file];
        (data(&arguments), answer(&[&arguments[..], &["--format", "markdown"]].concat()))
    };
    let unequal = "failures of nodes are unequal";
    let (found, text) =
        compared("[[scenario]]\nname = \"today\"\n[[scenario]]\nname = \"calm\"\ncluster = \"calm.toml\"\n");
    assert_eq!(found["metrics"], today["metrics"]);
    assert_eq!((&found["node_failures"], &found["others"][0]["node_failures"]), (&22.into(), &0.into()));
    let told = text.find(unequal).unwrap();
    assert!(told < text.find("least mean wait").unwrap(), "first of all");
    assert!(text.contains("today 22, calm none"), "{text}");
    // The other way round, and with the same failures in the file.
    let (found, text) = compared(
        "[[scenario]]\nname = \"calm\"\ncluster = \"calm.toml\"\n[[scenario]]\nname = \"stormy\"\ncluster = \"plain.toml\"\n",
    );
    assert!(text.contains(unequal) && text.contains("calm none, stormy 22"), "{text}");
    assert!(text.contains("**calm does not have the recorded cluster**"), "{text}");
    assert_eq!(found["on_other_nodes"], true);
    let (found, text) =
        compared("[[scenario]]\nname = \"today\"\n[[scenario]]\nname = \"same\"\ncluster = \"plain.toml\"\n");
    assert!(!text.contains(unequal) && found["failures_differ"] == false, "{text}");
    assert!((wait(&found["others"][0]["metrics"]) - wait(&today["metrics"])).abs() < 1e-6);
}

/// Regression test: estimates that fall back to true runs were labelled as if they did not.
#[test]
fn jobs_without_a_limit_are_told_and_so_is_why_a_row_is_an_oracle() {
    let alone = answer(&["datasets/sample", "--recorded", "fifo/skip", "--order", "sjf", "--estimate", "requested"]);
    let flat = alone.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("of the jobs have no time limit and are known by their true run"), "{flat}");
    assert!(
        flat.contains(
            "Replay under SJF, skip, consolidated, durations by time limit, 30.2 % of the jobs by their true run"
        ),
        "{flat}"
    );
    let several = answer(&["datasets/sample", "--recorded", "fifo/skip", "--compare", "fifo,fifo/easy/requested"]);
    let flat = several.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        flat.contains(
            "30.2 % of the jobs have no time limit and are known by their true run under fifo/easy/requested"
        ),
        "{flat}"
    );
    assert!(
        flat.contains(
            "fifo/easy/requested: FIFO, EASY backfill, consolidated, durations by time limit, 30.2 % of the jobs"
        ),
        "{flat}"
    );
}

#[test]
fn parts_merge_into_the_same_bytes() {
    let folder = Folder::new();
    let parts = [folder.path("1"), folder.path("2")];
    let compare = ["datasets/sample", "--compare", "fifo,sjf,qssf", "--scan", "skip"];
    for (part, results) in parts.iter().enumerate() {
        let shard = format!("{}/2", part + 1);
        let output = tracecast(&[&["simulate"], &compare[..], &["--shard", &shard, "--results", results]].concat());
        assert!(output.status.success() && stdout(&output).is_empty(), "{}", stderr(&output));
        // fifo, QSSF (oracle) / sjf, fewest GPUs first.
        assert!(stderr(&output).contains(&format!("part {shard}: 2 of 4 scenarios")), "{}", stderr(&output));
    }
    let both = ["--merge", parts[1].as_str(), parts[0].as_str()];
    let merge = [&compare[..], &both].concat();
    assert_eq!(answer(&merge), answer(&compare));
    let mut whole = data(&compare);
    whole.as_object_mut().unwrap().remove("engine_seconds").unwrap();
    assert_eq!(data(&merge), whole);
    // One part alone, or of another comparison, is refused.
    let (code, message) = refusal(&merge[..merge.len() - 1]);
    assert!(code == 2 && message.contains("2 of 4 scenarios are missing: 1, 3"), "{code} {message}");
    let (code, message) = refusal(&[&merge[..], &["--place", "best-fit"]].concat());
    assert!(code == 2 && message.contains("not of these scenarios"), "{code} {message}");
    // Other nodes for the same jobs, or a switch that no one sees in the policy's name, are another comparison.
    let nodes = folder.file("nodes.toml", "[[vc]]\nname = \"*\"\nnodes = 7\n");
    let (code, message) = refusal(&[&merge[..], &["--site", &nodes]].concat());
    assert!(code == 2 && message.contains("not of these jobs and nodes"), "{code} {message}");
    let (code, message) = refusal(&[&merge[..], &["--seed", "2"]].concat());
    assert!(code == 2 && message.contains("not of these scenarios"), "{code} {message}");
    let (code, message) = refusal(&[&merge[..], &["--max-run", "1h"]].concat());
    assert!(code == 2 && message.contains("not of these jobs and nodes"), "{code} {message}");
}

#[test]
fn the_same_bytes_for_any_number_of_threads() {
    let run = |threads: &str, format: &str| {
        let output = tracecast(&[
            "--threads",
            threads,
            "simulate",
            "datasets/sample",
            "--compare",
            "fifo,sjf,qssf",
            "--scan",
            "easy",
            "--format",
            format,
        ]);
        assert!(output.status.success(), "{}", stderr(&output));
        stdout(&output)
    };
    for format in ["table", "markdown", "html"] {
        assert!(run("1", format) == run("4", format), "{format}");
    }
    let data = |threads: &str| {
        let mut data = json(&run(threads, "json"));
        assert!(data.as_object_mut().unwrap().remove("engine_seconds").unwrap().is_f64());
        data
    };
    assert_eq!(data("1"), data("4"));
}

#[test]
fn more_work_is_replayed_beside_the_record() {
    // Three weeks of a user a and a user b, one job of 8 GPUs each a day, of 6 and of 3 hours: 8 × 9 × 7 = 504 GPU-hours a week.
    let folder = Folder::new();
    let mut jobs = String::from(THREE.lines().next().unwrap());
    for day in 0..22 {
        let at = |hour: u32| format!("2020-04-{:02} {hour:02}:00:00", day + 1);
        for (user, hour, run_h) in [("ua", 1, 6), ("ub", 8, 3)] {
            let (start, end) = (at(hour), at(hour + run_h));
            jobs += &format!("\n{user}{day},{user},va,8,4,1,COMPLETED,{start},{start},{end},{},0", run_h * 3600);
        }
    }
    jobs.push('\n');
    let (source, node) = (folder.file("cluster_log.csv", &jobs), folder.file("cluster.toml", NODE));
    let team = folder.file("team.toml", "[[team]]\nname = \"new\"\ngpu_hours_per_week = 168\nlike_users = [\"ub\"]\n");
    let more = |arguments: &[&str]| data(&[&[source.as_str(), "--site", &node], arguments].concat())["growth"].clone();
    assert!(more(&[]).is_null());

    // Nothing more: every figure is that of the record, and no draw differs.
    let same = more(&["--scale", "1"]);
    assert_eq!((number(&same["gpu_time_ratio"]["low"]), number(&same["gpu_time_ratio"]["high"])), (1.0, 1.0));
    assert_eq!(same["policies"][0]["mean_wait_s"]["mean"], same["policies"][0]["mean_wait_now_s"]);
    let twice = more(&["--scale", "2", "--draws", "3"]);
    assert_eq!((number(&twice["gpu_time_ratio"]["mean"]), number(&twice["jobs_ratio"]["mean"])), (2.0, 2.0));
    assert!(number(&twice["policies"][0]["mean_wait_s"]["mean"]) > 0.0, "two jobs of 8 GPUs at once on 8");

    // A team as large as ub: a third more GPU time, half as many jobs again.
    let joined = more(&["--add", &team]);
    assert_eq!((number(&joined["factor"]), &joined["teams"][0]["name"]), (1.0, &"new".into()));
    assert!((number(&joined["gpu_time_ratio"]["mean"]) - 4.0 / 3.0).abs() < 0.05, "{joined}");
    let told = answer(&[&source, "--site", &node, "--scale", "2", "--add", &team]);
    assert!(told.contains("With 2.00 times the work and the team new"), "{told}");

    let nobody = folder.file("nobody.toml", "[[team]]\nname = \"x\"\ngpu_hours_per_week = 1\nlike_users = [\"uz\"]\n");
    for (arguments, why) in [
        (["--scale", "0"].as_slice(), "0.05 to 20"),
        (&["--add", &nobody], "no job of the replay is by a user `uz`"),
        (&["--add", &node], "line 1: unknown field `vc`"),
        (&["--draws", "3"], "--scale"),
    ] {
        let (code, message) = refusal(&[&[source.as_str(), "--site", &node], arguments].concat());
        assert!(matches!(code, 1 | 2) && message.contains(why), "{arguments:?}: {code} {message}");
    }
}

#[test]
fn reports_and_charts_are_written() {
    let folder = Folder::new();
    let (page, charts) = (folder.path("replay.html"), folder.path("charts"));
    let arguments = ["datasets/sample", "--compare", "fifo,sjf,fewest-gpus", "--scan", "skip"];
    let written = answer(&[&arguments[..], &["--format", "html", "--out", &page, "--charts", &charts]].concat());
    assert!(written.is_empty());
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.starts_with("<!doctype html>") || page.starts_with("<!DOCTYPE html>"), "{}", &page[..40]);
    let mut names: Vec<String> =
        std::fs::read_dir(charts).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    let expected: Vec<String> = ["gang-room", "gpus-in-use", "policies", "queue", "wait-by-size", "wait-by-vc"]
        .iter()
        .flat_map(|name| [format!("{name}.png"), format!("{name}.svg")])
        .collect();
    assert_eq!(names, expected);
    let markdown = answer(&[&arguments[..], &["--format", "markdown"]].concat());
    assert!(markdown.starts_with("# "), "{}", markdown.lines().next().unwrap_or_default());
    assert!(!markdown.contains("engine"), "the one figure that changes from run to run is in the JSON only");
}

#[test]
fn what_cannot_be_replayed_is_told_with_a_remedy() {
    let folder = Folder::new();
    let sample = "datasets/sample";
    let source = folder.file("cluster_log.csv", THREE);
    for (arguments, code, words) in [
        (&[sample, "--order", "shortest"][..], 2, &["`shortest` is no order", "qssf"][..]),
        (&[sample, "--scan", "loose"], 2, &["`loose` is no scan", "conservative"]),
        (&[sample, "--place", "here"], 2, &["`here` is no placement", "consolidate"]),
        (&[sample, "--preempt", "maybe"], 2, &["`maybe` is no preemption", "never"]),
        (&[sample, "--site", "interval=soon"], 2, &["`soon` is no length of time", "90s"]),
        (&[sample, "--preempt", "helios", "--scan", "easy"], 2, &["backfill", "strict"]),
        (&[sample, "--order", "las", "--preempt", "helios"], 2, &["--site interval"]),
        (&[sample, "--order", "score"], 2, &["--score"]),
        (&[sample, "--order", "sjf", "--scan", "easy", "--estimate", "predicted"], 2, &["--predictions", "requested"]),
        (&[sample, "--compare", "fifo,sjf/easy/predicted"], 2, &["sjf/easy/predicted: ", "--predictions"]),
        (&[sample, "--recorded", "fifo/easy/predicted"], 2, &["--predictions"]),
        (&[sample, "--order", "gittins"], 2, &["--from"]),
        (&[sample, "--compare", "fifo,fifo"], 2, &["`fifo`", "its own name"]),
        (&[sample, "--compare", "fifo", "--order", "sjf"], 2, &["--order", "--compare"]),
        (&[sample, "--compare", "no.toml"], 1, &["no.toml", "no such file"]),
        (&[sample, "--shard", "3/2", "--results", "r"], 2, &["3/2", "2/5"]),
        (&[sample, "--shard", "1/2"], 2, &["--results"]),
        (&[sample, "--from", "yesterday"], 2, &["yesterday", "2017-10-03"]),
        (&[sample, "--max-run", "long"], 2, &["`long`", "7d"]),
        (
            &[sample, "--vcs", "vision,nowhere"],
            5,
            &["no job is of the VC `nowhere`; the VCs of the jobs are", "vision"],
        ),
        (&[sample, "--site", "no.toml"], 1, &["no.toml"]),
        (&[&source], 5, &["--site", "tracecast cluster SOURCE --resource gpus"]),
        (&["no-such-trace.csv"], 1, &["no-such-trace.csv"]),
    ] {
        let (found, message) = refusal(arguments);
        assert_eq!(found, code, "{arguments:?}: {message}");
        for word in words {
            assert!(message.contains(word), "{arguments:?}: no `{word}` in {message}");
        }
    }
}

#[test]
fn wrong_files_are_named_with_their_line() {
    let folder = Folder::new();
    let source = folder.file("cluster_log.csv", THREE);
    for (option, name, text, words) in [
        ("--site", "c.toml", "[[vc]]\nname = \"va\"\nnods = 3\n", &["c.toml, line 3", "nods"][..]),
        ("--site", "d.toml", "[[vc]]\nname = \"va\"\n", &["d.toml, line 2", "nodes"]),
        ("--predictions", "e.csv", "job_id,seconds\na,1\n", &["e.csv, line 1", "predicted_duration_s"]),
        ("--predictions", "f.csv", "job_id,predicted_duration_s\na,1\nb,-5\n", &["f.csv, line 3", "job b", "-5"]),
        ("--predictions", "g.csv", "job_id,predicted_duration_s\nx,1\n", &["g.csv, line 2", "`x`", "`a`"]),
        ("--score", "h.csv", "job_id,score\na,1\na,2\n", &["h.csv, line 3", "line 2"]),
        ("--compare", "i.toml", "\n[[scenario]]\nname = \"s\"\nscan = \"loose\"\n", &["i.toml, line 2", "`loose`"]),
    ] {
        let file = folder.file(name, text);
        let node = folder.file("cluster.toml", NODE);
        let mut arguments = vec![source.as_str(), option, &file];
        if option != "--site" {
            arguments.extend(["--site", &node]);
        }
        let (code, message) = refusal(&arguments);
        assert_eq!(code, 1, "{message}");
        assert!(words.iter().all(|word| message.contains(word)), "{words:?} in {message}");
    }
    // A quarantined row is counted, and an error under --strict.
    let (source, node) = (folder.file("bad.csv", JOBS), folder.file("two.toml", "[[vc]]\nname = \"*\"\nnodes = 1\n"));
    let found = data(&[&source, "--reader", "helios", "--site", &node]);
    assert_eq!(found["metrics"]["overall"]["jobs"], 2);
    let (code, message) = refusal(&[&source, "--reader", "helios", "--site", &node, "--strict"]);
    assert!(code == 3 && message.contains("line 5"), "{code} {message}");
}

/// The commands and files of the guide are run as they stand there; only what they write goes to a folder of its own.
#[test]
fn the_guide_can_be_followed() {
    let pages = ["simulate.md", "reference/simulate.md", "reference/quotas.md"];
    let guide = pages.map(|page| std::fs::read_to_string(root().join("cli/guide").join(page)).unwrap()).concat();
    let folder = Folder::new();
    let mut commands = 0;
    let shown = ["tracecast simulate datasets/sample", "tracecast cluster datasets/sample"];
    for line in guide.lines().filter(|line| shown.iter().any(|command| line.starts_with(command))) {
        let typed = line.split(['#', '|']).next().unwrap();
        let arguments: Vec<String> = typed
            .split_whitespace()
            .skip(1)
            .map(|word| {
                if ["out.csv", "replay.html", "more.toml"].contains(&word) {
                    folder.path(word)
                } else {
                    word.to_owned()
                }
            })
            .collect();
        let output = tracecast(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(output.status.success(), "{line}: {}", stderr(&output));
        commands += 1;
    }
    assert!(commands >= 2, "{commands} commands shown");
    let files: Vec<&str> = guide.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    let of = |what: &str| *files.iter().find(|text| text.starts_with(what)).unwrap();
    let cluster = folder.file("cluster.toml", &format!("{}\n{}", of("[[vc]]"), of("[[outage]]")));
    let found = data(&["datasets/sample", "--site", &cluster]);
    // `vision` has 14 nodes at most, `shared` 20, for the six VCs of the sample.
    assert_eq!((&found["subject"]["nodes"], &found["subject"]["vcs"]), (&34.into(), &6.into()));
    for begins in ["DefaultQOS", "PreemptMode"] {
        let limits = folder.file("limits.toml", of(begins));
        let found = data(&["datasets/sample", "--site", &format!("limits={limits}"), "--recorded", "fifo/skip"]);
        assert_eq!(found["subject"]["jobs"], 8_392, "{begins}");
    }
    let scenarios = folder.file("scenarios.toml", of("[[scenario]]"));
    let found = data(&["datasets/sample", "--compare", &scenarios]);
    assert_eq!((&found["name"], &found["others"][0]["name"]), (&"today".into(), &"backfill by limits, local".into()));
}

/// Regression test: `--scale 1.2` answered 23 h under strict FIFO, though it had found that
/// fifo/skip repeats the record.
#[test]
fn more_work_is_asked_of_the_policy_that_repeats_the_record() {
    let asked = |more: &[&str]| data(&[&["datasets/sample", "--scale", "1.2", "--draws", "2"], more].concat());
    let found = asked(&[]);
    assert_eq!(found["fidelity"]["verdict"], "exact");
    assert_eq!(found["policy"], asked(&["--scan", "skip"])["policy"]);
    assert!(
        found["subject"]["notes"]
            .as_array()
            .unwrap()
            .iter()
            .any(|note| note.as_str().unwrap().starts_with("Scan: skip"))
    );
    // What is named stays.
    assert_ne!(asked(&["--scan", "strict"])["policy"], found["policy"]);
}
