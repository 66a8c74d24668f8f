//! `tracecast train utilisation` and `tracecast backtest utilisation`, as a user meets them.

use super::*;

const SAMPLE: &str = "datasets/sample";

/// Four families at five batch sizes on one GPU type, more with every batch.
pub(super) fn profiles() -> String {
    let mut text = "gpu_type,job,family,sm_util_pct,memory_mb,batch\n".to_owned();
    for family in 0..4 {
        for step in 0..5 {
            let (batch, util, memory) = (8 << step, 20 + 12 * family + 7 * step, 2_000 + 900 * family + 1_500 * step);
            text += &format!("a100,m{family} (batch size {batch}),m{family},{util},{memory},{batch}\n");
        }
    }
    text
}

#[test]
fn what_telemetry_knows_is_written_as_the_guide_says_and_taken_by_the_other_commands() {
    let folder = Folder::new();
    let out = folder.path("profiles.csv");
    let output = tracecast(&["train", "utilisation", SAMPLE, "--out", &out]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("profiles of") && stderr(&output).contains(&out), "{}", stderr(&output));
    let text = std::fs::read_to_string(&out).unwrap();
    assert!(text.starts_with("gpu_type,job,family,sm_util_pct,mem_util_pct,sm_active_pct,"), "{text}");
    assert!(text.lines().count() > 20, "{text}");
    let again = folder.path("again.csv");
    let output = tracecast(&["train", "utilisation", SAMPLE, "--out", &again, "--by", "user-name", "--threads", "1"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(std::fs::read_to_string(&again).unwrap().lines().nth(1).unwrap().contains('/'));
    // A file that is there is not replaced unasked.
    assert_eq!(tracecast(&["train", "utilisation", SAMPLE, "--out", &out]).status.code(), Some(1));
    let pairs = folder.file("pairs.csv", &interference::pairs());
    let asked = ["backtest", "interference", &pairs, "--profiles", &out, "--hold-out", "family", "--format", "json"];
    let output = tracecast(&asked);
    assert!(output.status.success(), "{}", stderr(&output));
    // What the sample ran is no job type of these pairs, and that is said.
    let notes = json(&stdout(&output))["notes"].to_string();
    assert!(notes.contains("are in no pair, such as"), "{notes}");
}

#[test]
fn jobs_are_forecast_in_order_of_time_in_every_form() {
    let ask = |more: &[&str]| tracecast(&[&["backtest", "utilisation", SAMPLE], more].concat());
    let output = ask(&["--format", "json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let found = json(&stdout(&output));
    assert_eq!(found["schema"].as_str(), Some("backtest-utilisation/1"));
    assert_eq!(found["published"]["rmsle"].as_f64(), Some(0.154));
    let splits = found["splits"].as_array().unwrap();
    let told: Vec<_> =
        splits.iter().map(|split| (split["usage"].as_str().unwrap(), split["left_out"].as_str().unwrap())).collect();
    assert_eq!(told, [("gpu_util_pct", "later"), ("memory_mb", "later")]);
    for split in splits {
        let names: Vec<&str> =
            split["models"].as_array().unwrap().iter().map(|model| model["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["mean", "last", "group", "linear", "forest", "boosted"]);
        let jobs: u64 = split["by_known"].as_array().unwrap().iter().map(|by| by["jobs"].as_u64().unwrap()).sum();
        assert_eq!(Some(jobs), split["scored"].as_u64());
    }
    let text = stdout(&ask(&[]));
    assert!(text.contains("(chosen)") && text.contains("cannot be compared"), "{text}");
    assert_eq!(text, stdout(&ask(&["--threads", "1"])));
    let told = stderr(&ask(&["--format", "csv", "--section", "memory-later"]));
    assert!(told.contains("there are 2: memory-later-1, memory-later-2"), "{told}");
}

#[test]
fn families_of_profiles_are_left_out() {
    let folder = Folder::new();
    let source = folder.file("profiles.csv", &profiles());
    let output = tracecast(&["backtest", "utilisation", &source, "--format", "json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let found = json(&stdout(&output));
    let splits = found["splits"].as_array().unwrap();
    let told: Vec<_> = splits.iter().map(|split| (split["left_out"].as_str(), split["folds"].as_u64())).collect();
    let of = |what, folds| (Some(what), Some(folds));
    assert!(splits.iter().all(|split| split["chosen"] == "choice"), "{splits:?}");
    assert_eq!(told, [of("family", 4), of("family", 4), of("job_type", 16), of("job_type", 16)]);
    let csv = tracecast(&["backtest", "utilisation", &source, "--format", "csv", "--section", "utilisation-family"]);
    assert!(stdout(&csv).contains("nearest"), "{}{}", stdout(&csv), stderr(&csv));
}

#[test]
fn what_is_wrong_is_said_with_what_would_mend_it() {
    let folder = Folder::new();
    let told = |command: &[&str]| {
        let output = tracecast(command);
        (output.status.code(), stderr(&output))
    };
    let jobs = folder.file("cluster_log.csv", JOBS);
    let (code, text) = told(&["backtest", "utilisation", &jobs]);
    assert!(code == Some(5) && text.contains("no job has telemetry"), "{text}");
    let out = folder.path("profiles.csv");
    let (code, text) = told(&["train", "utilisation", &jobs, "--out", &out]);
    assert!(code == Some(5) && text.contains("nvidia-smi samples"), "{text}");
    let few = folder.file("few.csv", "gpu_type,job,sm_util_pct\na100,a,40\na100,b,60\n");
    let (code, text) = told(&["backtest", "utilisation", &few]);
    assert!(code == Some(5) && text.contains("three families at least"), "{text}");
    let bad = folder.file("bad.csv", "gpu_type,job,sm_util_pct\na100,a,400\n");
    let (code, text) = told(&["backtest", "utilisation", &bad]);
    assert!(code == Some(1) && text.contains("bad.csv, line 2") && text.contains("write percent"), "{text}");
}
