//! Existing files stay, unless `--force` is given.

use super::*;

#[test]
fn a_file_is_replaced_with_force_alone() {
    let folder = Folder::new();
    let (jobs, out) = (folder.file("cluster_log.csv", JOBS), folder.file("out.json", "mine"));
    let describe = ["describe", &jobs, "--json", "--out", &out, "--quiet"];
    let refused = tracecast(&describe);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("out.json is there already; add --force"), "{}", stderr(&refused));
    assert_eq!(std::fs::read_to_string(&out).unwrap(), "mine");
    assert!(tracecast(&[&describe[..], &["--force"]].concat()).status.success());
    assert!(json(&std::fs::read_to_string(&out).unwrap()).is_object());
}

#[test]
fn a_folder_is_written_into_if_it_is_empty() {
    let folder = Folder::new();
    let jobs = folder.file("cluster_log.csv", JOBS);
    let charts = folder.path("charts");
    let describe = ["describe", &jobs, "--charts", &charts, "--quiet"];
    assert!(tracecast(&describe).status.success());
    let refused = tracecast(&describe);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("charts is not empty; add --force"), "{}", stderr(&refused));
    assert!(tracecast(&[&describe[..], &["--force"]].concat()).status.success());
    // The report of a folder that was named; the usual folder is the command's own.
    let out = folder.path("report");
    let report = ["report", &jobs, "--quick", "--out", &out, "--quiet"];
    assert!(tracecast(&report).status.success());
    assert!(stderr(&tracecast(&report)).contains("report.html is there already"));
    let usual = || {
        let arguments = ["report", &jobs, "--quick", "--quiet"];
        let mut command = Command::new(env!("CARGO_BIN_EXE_tracecast"));
        command.args(arguments).current_dir(folder.0.path()).status().unwrap().success()
    };
    assert!(usual() && usual());
}

#[test]
fn a_folder_takes_the_answer_under_the_name_of_the_command() {
    let folder = Folder::new();
    let (jobs, out) = (folder.file("cluster_log.csv", JOBS), format!("{}/", folder.path("new")));
    for form in ["table", "json", "markdown", "html"] {
        let output = tracecast(&["describe", &jobs, "--format", form, "--out", &out, "--quiet"]);
        assert!(output.status.success() && output.stdout.is_empty(), "{}", stderr(&output));
    }
    let mut names: Vec<String> =
        std::fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["describe.html", "describe.json", "describe.md", "describe.txt"]);
}

#[test]
fn tables_are_written_as_csv_with_numbers_as_they_are() {
    let folder = Folder::new();
    let jobs = folder.file("cluster_log.csv", JOBS);
    let size = stdout(&tracecast(&["describe", &jobs, "--format", "csv", "--section", "size", "--quiet"]));
    let several = tracecast(&["describe", &jobs, "--format", "csv", "--quiet"]);
    assert_eq!(several.status.code(), Some(2), "{size}");
    assert!(stderr(&several).contains("--out FOLDER/"), "{}", stderr(&several));
    let out = format!("{}/", folder.path("tables"));
    let all = ["describe", &jobs, "--format", "csv", "--out", &out, "--quiet"];
    assert!(tracecast(&all).status.success());
    let names: Vec<String> =
        std::fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert!(
        names.len() > 3 && names.iter().all(|name| name.starts_with("describe-") && name.ends_with(".csv")),
        "{names:?}"
    );
    assert!(stderr(&tracecast(&all)).contains("add --force"));
    // The name of a file says its form, unless the form is said.
    let page = folder.path("page.html");
    assert!(tracecast(&["describe", &jobs, "--out", &page, "--quiet"]).status.success());
    assert!(std::fs::read_to_string(&page).unwrap().starts_with("<!doctype html>"));
    let text = folder.path("text.html");
    assert!(tracecast(&["describe", &jobs, "--format", "table", "--out", &text, "--quiet"]).status.success());
    assert!(!std::fs::read_to_string(&text).unwrap().contains("<html"));
    let refused = tracecast(&["report", &jobs, "--quick", "--out", &folder.path("report.html")]);
    assert!(refused.status.code() == Some(2) && stderr(&refused).contains("name a folder"), "{}", stderr(&refused));
}

/// Two outputs in one file: the later would replace the earlier, with `--force` or without. Nothing is read before that is said.
#[test]
fn one_file_for_two_outputs_is_refused() {
    let folder = Folder::new();
    let (jobs, nodes) = (folder.path("nowhere.csv"), folder.path("nowhere.toml"));
    let (out, same) = (folder.path("out.csv"), folder.path("./out.csv"));
    for line in [
        &["simulate", &jobs, "--site", &nodes, "--schedule", &out][..],
        &["plan", "power", &jobs, "--save", &out],
        &["audit", &jobs, "--by-job", &out],
        &["model", "predict", "duration", &jobs, "--model", &nodes, "--textfile", &out],
        &["model", "predict", "utilisation", &jobs, "--jobs", &jobs, "--save-profiles", &out],
    ] {
        let refused = tracecast(&[line, &["--out", &same, "--force"]].concat());
        assert_eq!(refused.status.code(), Some(2), "{line:?}: {}", stderr(&refused));
        assert!(stderr(&refused).contains("out.csv is named for two outputs"), "{line:?}: {}", stderr(&refused));
        assert!(!Path::new(&out).exists());
    }
}

/// Commands that write where they are told: run twice, the second time refused with what is there
/// as it was, then with `--force`.
#[test]
fn no_command_replaces_what_it_was_not_told_to() {
    let folder = Folder::new();
    let jobs = folder.file("cluster_log.csv", JOBS);
    let nodes = folder.file("nodes.toml", "[[vc]]\nname = \"*\"\nnodes = 2\ngpus_per_node = 8\n");
    let pairs = folder.file(
        "pairs.csv",
        "gpu_type,job_a,job_b,speed_a,speed_b\nv100,a,a,0.5,0.5\nv100,a,b,0.7,0.8\nv100,b,b,0.9,0.9\n",
    );
    let spot = folder.file("us-east-1a_v100_1.json", &cloud::regular(1));
    let out = |name: &str| folder.path(name);
    let lines: Vec<(Vec<&str>, &str, String)> = vec![
        (vec!["simulate", &jobs, "--site", &nodes], "--schedule", out("schedule.csv")),
        (vec!["simulate", &jobs, "--site", &nodes], "--out", out("simulate.txt")),
        (vec!["inspect", &jobs], "--quarantine", out("bad.jsonl")),
        (vec!["model", "train", "interference", &pairs], "--out", out("share.model")),
        (vec!["model", "train", "spot", &spot], "--out", out("spot.model")),
        (
            vec!["model", "backtest", "duration", "datasets/sample", "--methods", "running_mean"],
            "--out",
            out("backtest.txt"),
        ),
        (vec!["describe", &jobs], "--tables", out("tables")),
        (vec!["query", &jobs, "select count(*) as jobs from jobs"], "--out", out("query.csv")),
    ];
    for (line, option, path) in &lines {
        let command: Vec<&str> = [&line[..], &[option, path, "--quiet"]].concat();
        let first = tracecast(&command);
        assert!(first.status.success(), "{command:?}: {}", stderr(&first));
        let is_file = Path::new(path).is_file();
        let before = if is_file { std::fs::read(path).unwrap() } else { Vec::new() };
        let second = tracecast(&command);
        assert!(
            !second.status.success() && stderr(&second).contains("add --force"),
            "{command:?}: {}",
            stderr(&second)
        );
        assert!(!is_file || std::fs::read(path).unwrap() == before, "{command:?}");
        let third = tracecast(&[&command[..], &["--force"]].concat());
        assert!(third.status.success(), "{command:?}: {}", stderr(&third));
    }
    // What is no file is written to as it is.
    assert!(tracecast(&["describe", &jobs, "--out", "/dev/null", "--quiet"]).status.success());
    // What is there to be brought up to date.
    for _ in 0..2 {
        let manual = tracecast(&["manual", "--out", &out("share"), "--quiet"]);
        assert!(manual.status.success(), "{}", stderr(&manual));
    }
}
