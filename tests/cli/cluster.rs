//! `tracecast cluster`, as a user meets it.

use super::*;

/// Runs it and gives the file.
fn file(arguments: &[&str]) -> String {
    let output = tracecast(&[&["cluster"], arguments].concat());
    assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
    stdout(&output)
}

/// The metrics of a replay of a source, on a cluster file if one is named.
fn metrics(source: &str, cluster: Option<&str>) -> serde_json::Value {
    let mut arguments = vec!["simulate", source, "--scan", "skip", "--format", "json"];
    arguments.extend(cluster.iter().flat_map(|file| ["--cluster", file]));
    let output = tracecast(&arguments);
    assert!(output.status.success(), "{}", stderr(&output));
    json(&stdout(&output))["metrics"].clone()
}

/// The sample's VCs change in size and its nodes fail: over time the file says all of that, and the replay is the same in every figure. As
/// of the last moment it is not.
#[test]
fn a_replay_on_the_file_is_the_replay_on_the_sources_own_nodes() {
    let folder = Folder::new();
    let own = metrics("datasets/sample", None);
    let over_time = folder.path("over-time.toml");
    let output = tracecast(&["cluster", "datasets/sample", "--over-time", "--out", &over_time]);
    assert!(output.status.success() && stdout(&output).is_empty(), "{}", stderr(&output));
    assert_eq!(metrics("datasets/sample", Some(&over_time)), own);
    let now = folder.file("now.toml", &file(&["datasets/sample"]));
    assert_ne!(metrics("datasets/sample", Some(&now)), own);
    // What is there is not replaced unasked.
    let again = tracecast(&["cluster", "datasets/sample", "--out", &over_time]);
    assert_eq!(again.status.code(), Some(1));
    assert!(stderr(&again).contains("--force"), "{}", stderr(&again));
}

#[test]
fn the_sample_as_of_a_day_and_as_of_its_end() {
    insta::assert_snapshot!(file(&["datasets/sample"]));
    let early = file(&["datasets/sample", "--at", "2024-03-05"]);
    // The end of that day in the sample's zone, 8 h ahead of UTC.
    assert!(early.contains("as of 2024-03-05T15:59:59.999Z"), "{early}");
}

/// Nodes by model, and the quotas of ClusterQueues that share them: 16 + 8 of nominal quota on 2 nodes of 8 A100 and one of 7 slices.
#[test]
fn a_kubernetes_cluster_has_a_pool_with_quotas() {
    let folder = Folder::new();
    let text = file(&[
        "tests/fixtures/kubernetes/workloads.json",
        "tests/fixtures/kubernetes/queues.json",
        "tests/fixtures/kubernetes/nodes.json",
    ]);
    insta::assert_snapshot!(text);
    let path = folder.file("k.toml", &text);
    let output = tracecast(&[
        "simulate",
        "tests/fixtures/kubernetes/workloads.json",
        "tests/fixtures/kubernetes/queues.json",
        "tests/fixtures/kubernetes/nodes.json",
        "--cluster",
        &path,
    ]);
    assert!(output.status.success(), "{}", stderr(&output));
}

/// Nothing says how many nodes there are: at most 1 GPU and 8 GPUs ran at once in `va`, 9 in all, so two nodes.
#[test]
fn what_is_inferred_is_said() {
    let folder = Folder::new();
    let source = folder.file("cluster_log.csv", JOBS);
    let text = file(&[&source]);
    assert!(text.contains("# INFERRED: the source does not say how many GPUs there are."), "{text}");
    assert!(text.contains("name = \"va\"\nnodes = 2\ngpus_per_node = 8\n"), "{text}");
}
