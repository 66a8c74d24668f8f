//! `tracecast simulate --share`, as a user meets it.

use serde_json::Value;

use super::*;

/// Jobs of one GPU from midnight on, as (name, submission, run) in seconds; each really ran alone and at once.
fn jobs(folder: &Folder, file: &str, of: &[(&str, u32, u32)], more: &str) -> String {
    let mut text = "JobID|JobName|User|Account|Partition|State|Submit|Start|End|AllocTRES\n".to_owned();
    let at = |s: u32| format!("2024-03-04T{:02}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
    for (number, (name, submit, run)) in (1..).zip(of) {
        let (begin, end) = (at(*submit), at(submit + run));
        text += &format!("{number}|{name}|u|a|gpu|COMPLETED|{begin}|{begin}|{end}|cpu=4,gres/gpu=1,node=1\n");
    }
    folder.file(file, &(text + more))
}

/// A wide job type and a narrow one: 0.6 and 0.5 as fast beside each other, 0.4 each of two wide ones, and two narrow ones do not fit.
const PAIRS: &str = "gpu_type,job_a,job_b,speed_a,speed_b
v100,wide,narrow,0.6,0.5
v100,wide,wide,0.4,0.4
v100,narrow,narrow,,
";

fn of<'a>(found: &'a Value, policy: &str) -> &'a Value {
    found["policies"].as_array().unwrap().iter().find(|of| of["policy"] == policy).unwrap()
}

fn simulated(arguments: &[&str]) -> String {
    let output = tracecast(&[&["simulate"], arguments, &["--quiet"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    stdout(&output)
}

/// On one GPU, in seconds: the wide job begins at 0, and the first narrow one beside it. After 300 both are looked at: they make 1.1 of one, and stay. The narrow one has done its 400 at 800, when the
/// wide one has done 480. The second narrow one, submitted at 100, then takes its place, and has done its 60 at 920. The wide one has done 72 in that time, and needs 48 alone.
#[test]
fn three_jobs_on_one_gpu_worked_out_by_hand() {
    let folder = Folder::new();
    let pairs = folder.file("pairs.csv", PAIRS);
    let two_gpus = "4|wide|u|a|gpu|COMPLETED|2024-03-04T00:05:00|2024-03-04T00:05:00|2024-03-04T00:06:00|cpu=4,gres/gpu=2,node=1\n";
    let source = jobs(&folder, "sacct.txt", &[("wide", 0, 600), ("narrow", 0, 400), ("narrow", 100, 60)], two_gpus);
    let rows = folder.path("rows.csv");
    let asked = [source.as_str(), "--share", "gandiva", "--pairs", &pairs, "--gpus", "1"];
    let found = json(&simulated(&[&asked[..], &["--schedule", &rows, "--format", "json"]].concat()));
    let told = std::fs::read_to_string(&rows).unwrap();
    let expected = "\
job_id,job_type,type_from,submit_s,run_s,start_s,end_s,wait_s,held_s,shared_s,slowdown,failed,taken_out,end_exclusive_s,scored
1,wide,name,0,600,0,968,0,968,920,1.6133,0,0,600,true
2,narrow,name,0,400,0,800,0,800,800,2.0000,0,0,1000,true
3,narrow,name,100,60,800,920,700,120,120,2.0000,0,0,1060,true
";
    assert_eq!(told, expected);
    assert_eq!((found["schema"].as_str(), found["gpu_type"].as_str()), (Some("simulate-sharing/1"), Some("v100")));
    let counts = ["gpus", "jobs", "scored_jobs", "left_out", "larger", "drawn_types"].map(|key| found[key].as_u64());
    assert_eq!(counts, [1, 3, 3, 1, 1, 0].map(Some));
    assert!(found["eval_from"].is_null() && found["measured"].is_null() && found["gpus_chosen"] == false, "{found}");
    let names: Vec<&str> =
        found["policies"].as_array().unwrap().iter().map(|of| of["policy"].as_str().unwrap()).collect();
    assert_eq!(names, ["exclusive", "gandiva", "oracle"]);
    let near = |policy: &str, key: &str, wanted: f64| {
        let place = of(&found, policy);
        let value = place.get(key).unwrap_or(&place["figures"][key]).as_f64().unwrap();
        assert!((value - wanted).abs() < 1e-3, "{policy} {key}: {value}");
    };
    // With nobody sharing: 0 to 600, 600 to 1000, 1000 to 1060. The oracle shares nothing here, as the narrow one would be twice as slow.
    for policy in ["exclusive", "oracle"] {
        near(policy, "mean_wait_s", 500.0);
        near(policy, "p50_wait_s", 600.0);
        near(policy, "p95_wait_s", 870.0);
        near(policy, "mean_jct_s", 2560.0 / 3.0);
        near(policy, "gpu_hours", 1060.0 / 3600.0);
        near(policy, "shared_jobs", 0.0);
        assert!(of(&found, policy)["mean_slowdown"].is_null());
    }
    near("gandiva", "mean_wait_s", 700.0 / 3.0);
    near("gandiva", "p50_wait_s", 0.0);
    near("gandiva", "p95_wait_s", 630.0);
    near("gandiva", "mean_jct_s", 2588.0 / 3.0);
    near("gandiva", "gpu_hours", 968.0 / 3600.0);
    near("gandiva", "shared_jobs", 3.0);
    near("gandiva", "mean_slowdown", (968.0 / 600.0 + 4.0) / 3.0);
    near("gandiva", "slowdown90", 2.0);
    near("gandiva", "over_slo_jobs", 3.0);
    near("gandiva", "lost_jobs", 1.0);
    near("gandiva", "lost_s", 368.0);
    let text = simulated(&asked);
    for words in [
        "1 job left out is of more than one GPU",
        "14 min 23 s",
        "3 jobs that ended, of 3 replayed, on 1 GPU of type v100",
    ] {
        assert!(text.split_whitespace().collect::<Vec<_>>().join(" ").contains(words), "{words}: {text}");
    }
    assert_eq!(simulated(&[&asked[..], &["--format", "csv", "--section", "sharing"]].concat()).lines().count(), 4);
    // Who is slowed: the wide job ends 368 s later, the first narrow one 200 s sooner, and the second 140 s sooner.
    let gandiva = of(&found, "gandiva");
    let group = |by: &str, at: usize| &gandiva[by][at];
    assert_eq!((group("by_vc", 0)["name"].as_str(), group("by_vc", 0)["jobs"].as_u64()), (Some("gpu"), Some(3)));
    assert_eq!(group("by_user", 0)["jobs"].as_u64(), Some(3));
    let told = |at: usize| {
        let of = group("by_job_type", at);
        (of["name"].as_str(), of["jobs"].as_u64(), of["lost_jobs"].as_u64(), of["over_slo_jobs"].as_u64())
    };
    assert_eq!(
        [told(0), told(1)],
        [(Some("wide"), Some(1), Some(1), Some(1)), (Some("narrow"), Some(2), Some(0), Some(2))]
    );
    let delays = ["exclusive_mean_delay_s", "mean_delay_s"].map(|key| group("by_job_type", 1)[key].as_f64());
    assert_eq!(delays, [Some(750.0), Some(580.0)]);
    // One job of one type ends later: both are told, and who is left out and what is at stake. The job of two GPUs holds 120 of 1,180 GPU-seconds.
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [
        "1 job ends later than with nobody sharing, by 6 min 8 s on average; they are of 1 of 1 user and of 1 of 1 VC",
        "3 jobs of one GPU are replayed; jobs of one GPU hold 89.8 % of the trace's GPU-hours",
        "Left out: 1 of more than one GPU.",
        "By job type; first who has most jobs that end later",
        "+6 min 8 s",
        "where others share, the queue moves",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    // With an SLO of 2 the oracle does what Gandiva does.
    let wider = json(&simulated(&[&asked[..], &["--slo", "2", "--format", "json"]].concat()));
    assert_eq!(of(&wider, "oracle")["figures"]["mean_wait_s"], of(&wider, "gandiva")["figures"]["mean_wait_s"]);
    assert_eq!(of(&wider, "gandiva")["over_slo_jobs"], 0);
    // Only the jobs from a moment on are reported, in a replay of all.
    let late = json(&simulated(&[&asked[..], &["--eval-from", "2024-03-04T00:01", "--format", "json"]].concat()));
    assert_eq!(
        (late["scored_jobs"].as_u64(), of(&late, "gandiva")["figures"]["mean_wait_s"].as_f64()),
        (Some(1), Some(700.0))
    );
    assert_eq!(late["eval_from"], "2024-03-04T00:01:00Z");
}

/// Regression test: `all` failed with measurements that say nothing of utilisation. Here are also
/// too few job types to forecast from, and too few jobs to choose a threshold on.
#[test]
fn all_leaves_out_what_cannot_be_replayed() {
    let folder = Folder::new();
    let pairs = folder.file("pairs.csv", PAIRS);
    let no_gpus = "3|wide|u|a|gpu|COMPLETED|2024-03-04T00:05:00|2024-03-04T00:05:00|2024-03-04T00:06:00|cpu=4,node=1\n";
    let source = jobs(&folder, "sacct.txt", &[("x", 0, 600), ("y", 0, 400)], no_gpus);
    let asked = [source.as_str(), "--pairs", &pairs, "--gpus", "1", "--share"];
    let found = json(&simulated(&[&asked[..], &["all", "--format", "json"]].concat()));
    let policies: Vec<&str> =
        found["policies"].as_array().unwrap().iter().map(|of| of["policy"].as_str().unwrap()).collect();
    assert_eq!(policies, ["exclusive", "first_fit", "gandiva", "antman", "salus_fair", "salus_attained", "oracle"]);
    let notes: Vec<&str> = found["notes"].as_array().unwrap().iter().map(|note| note.as_str().unwrap()).collect();
    for (out, why) in [
        ("least-loaded, horus-published, horus (", "sm_util_pct"),
        ("forecast, forecast-trial (", "too few jobs"),
        ("lucid, mean-forecast (", "families"),
    ] {
        let told = notes.iter().find(|note| note.contains(&format!("cannot be replayed: {out}")));
        assert!(told.is_some_and(|told| told.contains(why)), "{out}: {notes:?}");
    }
    assert!(notes.iter().any(|note| note.ends_with("Left out: 1 without GPUs.")), "{notes:?}");
    // What is named beside it stays an error.
    let named = tracecast(&[&["simulate"], &asked[..], &["all,horus"]].concat());
    assert!(named.status.code() == Some(5) && stderr(&named).contains("horus needs sm_util_pct"), "{}", stderr(&named));
    // Names that are no job types: all types are drawn, and not most of them.
    let text = simulated(&[&asked[..], &["gandiva"]].concat());
    assert!(text.contains("The types of all of these jobs are drawn"), "{text}");
}

/// The second narrow job fails beside the first at 0, pauses until 120, and is then never put beside another: it starts when the first ends.
#[test]
fn what_does_not_fit_fails_and_waits() {
    let folder = Folder::new();
    let pairs = folder.file("pairs.csv", PAIRS);
    let source = jobs(&folder, "sacct.txt", &[("narrow", 0, 300), ("narrow", 0, 50)], "");
    let asked =
        [source.as_str(), "--share", "gandiva,salus-fair", "--pairs", &pairs, "--gpus", "1", "--format", "json"];
    let found = json(&simulated(&asked));
    let gandiva = of(&found, "gandiva");
    assert_eq!(
        (gandiva["figures"]["failed"].as_u64(), gandiva["figures"]["mean_wait_s"].as_f64()),
        (Some(1), Some(150.0))
    );
    assert!((gandiva["paused_h"].as_f64().unwrap() - 120.0 / 3600.0).abs() < 1e-9, "{gandiva}");
    // Salus asks for memory first.
    assert_eq!(of(&found, "salus_fair")["figures"]["failed"], 0);
}

#[test]
fn the_figures_are_those_of_the_plan() {
    let folder = Folder::new();
    let (pairs, profiles) = sharing::measured(&folder);
    let source = sharing::named_jobs(&folder);
    let with = ["--pairs", &pairs, "--profiles", &profiles, "--slo", "2", "--format", "json", "--quiet"];
    for more in
        [&["--gpus", "6"][..], &["--measured", "3"], &["--gpus", "7", "--eval-from", "2020-07-10", "--seed", "5"]]
    {
        let ask = |command: &[&str]| {
            let output = tracecast(&[command, &[source.as_str()], &with, more].concat());
            assert!(output.status.success(), "{}", stderr(&output));
            json(&stdout(&output))
        };
        let found = ask(&["simulate", "--share=all"]);
        let (plan, watched) = (ask(&["plan", "share", "couples"]), ask(&["plan", "share", "couples", "--watched"]));
        assert_eq!((&found["gpus"], &found["eval_from"]), (&plan["plans"][0]["gpus"], &plan["trial"]["eval_from"]));
        assert_eq!(found["scored_jobs"], plan["plans"][0]["later_jobs"]);
        let policies = found["policies"].as_array().unwrap();
        assert_eq!(policies.len(), 16);
        for own in policies {
            // The plan chooses one threshold, for its own rule.
            let plan = if own["policy"] == "forecast_trial" { &watched } else { &plan };
            let tried = plan["plans"][0]["tried"].as_array().unwrap();
            let theirs = tried.iter().find(|of| of["policy"] == own["policy"] && of["how"] == own["how"]).unwrap();
            assert_eq!(own["figures"], theirs["later"], "{more:?} {}", own["policy"]);
            for key in ["couples", "couples_kept", "mean_wait_change_s", "lost_s"] {
                assert_eq!(own[key], theirs[key], "{more:?} {} {key}", own["policy"]);
            }
            assert_eq!(own["mean_jct_change_s"], theirs["mean_delay_change_s"]);
            // Runs are the same, so the time to end differs as the delay does.
            let of = |of: &Value, key: &str| of[key].as_f64().unwrap();
            let run = of(own, "mean_jct_s") - of(&own["figures"], "mean_delay_s");
            let first = of(&policies[0], "mean_jct_s") - of(&policies[0]["figures"], "mean_delay_s");
            assert!((run - first).abs() < 1e-6 && of(own, "gpu_hours") > 0.0);
        }
        let choice = &found["chosen"][0];
        assert_eq!((&choice["policy"], &choice["candidates"]), (&"forecast".into(), &plan["plans"][0]["candidates"]));
    }
    let command = [&["simulate", &source, "--share=all", "--gpus", "6"][..], &with[..6]].concat();
    is_the_same_with_any_threads(&command);
}

#[test]
fn what_cannot_be_is_said() {
    let folder = Folder::new();
    let pairs = folder.file("pairs.csv", PAIRS);
    let here = folder.path("");
    let two = folder.file("two.csv", &format!("{PAIRS}k80,wide,wide,0.3,0.3\n"));
    let source = jobs(&folder, "sacct.txt", &[("wide", 0, 600), ("narrow", 0, 400)], "");
    let ask = |more: &[&str]| tracecast(&[&["simulate", source.as_str()], more].concat());
    for (more, code, words) in [
        (&["--share", "gandiva"][..], 2, &["--pairs", "pairs.csv"][..]),
        (&["--pairs", &pairs], 2, &["--share"]),
        (&["--slo", "2"], 2, &["--share"]),
        (&["--share", "gandvia", "--pairs", &pairs], 2, &["`gandvia`", "gandiva, lucid"]),
        (
            &["--share", "lucid", "--pairs", &pairs, "--scan", "easy"],
            2,
            &["--scan does not go with --share", "leave --scan out"],
        ),
        (&["--compare", "fifo,sjf", "--share", "lucid", "--pairs", &pairs], 2, &["--compare does not go with --share"]),
        (
            &["--share", "lucid", "--pairs", &pairs, "--site", &format!("quota={pairs}")],
            2,
            &["--site does not go with --share"],
        ),
        (&["--share", "lucid", "--pairs", &pairs, "--from", "2024-03-04"], 2, &["--from does not go", "--eval-from"]),
        (&["--share", "gandiva", "--pairs", &two, "--gpus", "1"], 2, &["--gpu-type: k80, v100"]),
        (
            &["--share", "gandiva", "--pairs", &pairs, "--gpus", "1", "--gpu-type", "h100"],
            5,
            &["GPU type h100", "v100"],
        ),
        (&["--share", "gandiva", "--pairs", &pairs], 5, &["too few", "name it with --gpus"]),
        (&["--share", "forecast", "--pairs", &pairs, "--gpus", "1"], 5, &["too few", "leave these out"]),
        (&["--share", "lucid", "--pairs", &pairs, "--gpus", "1"], 5, &["too few", "families"]),
        (&["--share", "horus", "--pairs", &pairs, "--gpus", "1"], 5, &["horus needs sm_util_pct", "--profiles"]),
        (&["--share", "gandiva", "--pairs", &pairs, "--gpus", "1", "--slo", "0.5"], 2, &["at least 1"]),
        (&["--share", "gandiva", "--pairs", &pairs, "--gpus", "1", "--measured", "2"], 2, &["--measured", "lucid"]),
        (&["--share", "gandiva", "--pairs", &here, "--gpus", "1"], 1, &["is a folder", "a file in it"]),
        (
            &["--share", "gandiva", "--pairs", &pairs, "--gpus", "1", "--eval-from", "2025-01-01"],
            5,
            &["choose an earlier time"],
        ),
        (&["--share", "gandiva", "--pairs", &pairs, "--gpus", "1", "--where", "gpus = 1"], 2, &["--where"]),
    ] {
        let output = ask(more);
        let told = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{more:?}: {told}");
        assert!(words.iter().all(|word| told.contains(word)), "{more:?}: {told}");
    }
    // A site's settings are not typed, and no conflict.
    let settings = folder.file("tracecast.toml", "[simulate]\nscan = \"easy\"\n");
    let output = Command::new(env!("CARGO_BIN_EXE_tracecast"))
        .args(["simulate", &source, "--share", "gandiva", "--pairs", &pairs, "--gpus", "1", "--quiet"])
        .env("TRACECAST_CONFIG", &settings)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    // Jobs of several GPUs alone leave nobody to replay.
    let header = "JobID|JobName|User|Account|Partition|State|Submit|Start|End|AllocTRES\n";
    let row = "1|wide|u|a|gpu|COMPLETED|2024-03-04T00:05:00|2024-03-04T00:05:00|2024-03-04T00:06:00|cpu=4,gres/gpu=2,node=1\n";
    let wide = folder.file("wide.txt", &format!("{header}{row}"));
    let output = tracecast(&["simulate", &wide, "--share", "gandiva", "--pairs", &pairs, "--gpus", "1"]);
    assert!(output.status.code() == Some(5) && stderr(&output).contains("no job of one GPU"), "{}", stderr(&output));
}
