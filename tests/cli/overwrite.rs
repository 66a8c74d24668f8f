//! What is there already stays, unless `--force` says otherwise.

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
