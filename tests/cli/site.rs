//! `--site`: one file of nodes and rules, and single rules beside it.

use super::*;

const NODES: &str =
    "[[vc]]\nname = \"va\"\nnodes = 1\ngpus_per_node = 4\n[[vc]]\nname = \"vb\"\nnodes = 1\ngpus_per_node = 8\n";

fn simulated(folder: &Folder, more: &[&str]) -> Output {
    let jobs = folder.file("cluster_log.csv", JOBS);
    tracecast(&[&["simulate", &jobs, "--format", "json"], more].concat())
}

#[test]
fn a_rule_stands_in_the_file_or_is_typed() {
    let folder = Folder::new();
    let with = |name: &str, rules: &str| folder.file(name, &format!("{NODES}[rules]\n{rules}"));
    let policy = |more: &[&str]| json(&stdout(&simulated(&folder, more)))["policy"].clone();
    let minute = with("minute.toml", "interval = \"60s\"\n");
    let found = policy(&["--site", &minute]);
    assert_eq!(found, policy(&["--site", &with("plain.toml", ""), "--site", "interval=60s"]));
    assert_ne!(found, policy(&["--site", &minute, "--site", "interval=1h"]), "what is typed comes first");
    // A file of rules alone leaves the nodes to the record.
    let rules = folder.file("rules.toml", "[rules]\ninterval = \"60s\"\n");
    assert_eq!(policy(&["--site", &minute, "--site", &rules]), found);
    // Files are found beside the one that names them.
    std::fs::create_dir(folder.path("etc")).unwrap();
    folder.file("etc/limits.toml", "[[qos]]\nname = \"normal\"\n");
    let named = folder.file("etc/site.toml", &format!("{NODES}[rules]\nlimits = \"limits.toml\"\n"));
    let output = simulated(&folder, &["--site", &named]);
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn what_is_wrong_with_a_site_is_refused() {
    let folder = Folder::new();
    let (one, two) = (folder.file("one.toml", NODES), folder.file("two.toml", NODES));
    let unknown = folder.file("unknown.toml", &format!("{NODES}[rules]\nintervall = \"60s\"\n"));
    for (arguments, code, words) in [
        (&["--site", "intervall=60s"][..], 2, "there is no rule `intervall`"),
        (&["--site", &unknown], 1, "unknown.toml, line 10"),
        (&["--site", &one, "--site", &two], 2, "both list nodes"),
        (&["--site", "interval=soon"], 2, "no length of time"),
        (&["--site", "depth=few"], 2, "--site depth"),
        (&["--site", "gangs=maybe"], 2, "as-recorded or by-rule"),
    ] {
        let output = simulated(&folder, arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(words), "{arguments:?}: {}", stderr(&output));
    }
}
