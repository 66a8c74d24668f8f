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
    arguments.extend(cluster.iter().flat_map(|file| ["--site", file]));
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
        "--site",
        &path,
    ]);
    assert!(output.status.success(), "{}", stderr(&output));
}

/// A source without nodes: at most 1 GPU and 8 GPUs ran at once in `va`, 9 in all, so two nodes.
#[test]
fn what_is_inferred_is_said() {
    let folder = Folder::new();
    let source = folder.file("cluster_log.csv", JOBS);
    let text = file(&[&source]);
    assert!(text.contains("# INFERRED: the source does not say how many GPUs there are."), "{text}");
    assert!(text.contains("name = \"va\"\nnodes = 2\ngpus_per_node = 8\n"), "{text}");
}

/// Nodes n1 and n3 lie in a rack, n2 in another of the same block; n4 has no rack. The zone, which a cloud sets on every node, does not count beside a Topology.
#[test]
fn labels_of_nodes_say_where_they_lie() {
    let folder = Folder::new();
    let dump = "tests/fixtures/kubernetes/topology.json";
    let text = file(&[dump]);
    assert!(text.contains("\n[topology]\nlevels = [\"block\", \"rack\"]\n"), "{text}");
    let entry = |nodes: u32, lie: &str| format!("nodes = {nodes}\ngpus_per_node = 8\n{lie}\n");
    assert!(text.contains(&entry(2, "topology = { block = \"b1\", rack = \"r1\" }")), "{text}");
    assert!(text.contains(&entry(1, "topology = { block = \"b1\", rack = \"r2\" }")), "{text}");
    assert!(text.ends_with("rack = \"r2\" }\n\n[[vc]]\nname = \"train\"\nnodes = 1\ngpus_per_node = 8\n"), "{text}");
    // A replay on the file is the one on the dump's own nodes.
    let path = folder.file("k.toml", &text);
    assert_eq!(metrics(dump, Some(&path)), metrics(dump, None));
    let zones = file(&[dump, "--topology-labels", "topology.kubernetes.io/zone"]);
    assert!(zones.contains("levels = [\"zone\"]") && zones.contains("topology = { zone = \"z2\" }"), "{zones}");
    let twice = file(&[dump, "--topology-labels", "topology.kubernetes.io/zone,topology.kubernetes.io/zone"]);
    assert_eq!(twice, zones);
    for labels in ["", "topology.kubernetes.io/zone,"] {
        let empty = tracecast(&["cluster", dump, "--topology-labels", labels]);
        assert!(!empty.status.success() && stderr(&empty).contains("a label is empty"), "{}", stderr(&empty));
    }
    let none = tracecast(&["cluster", dump, "--topology-labels", "example.com/row"]);
    assert!(
        !none.status.success() && stderr(&none).contains("no node of the source has example.com/row"),
        "{}",
        stderr(&none)
    );
}

/// Jobs on n0 and n1 (one partition) and on n2 (another), of 4 GPUs on a node; n9 is in no file.
const SACCT: &str = "\
JobID|Partition|User|Submit|Start|End|State|NNodes|AllocTRES|NodeList
1|pa|ua|2024-03-04T10:00:00|2024-03-04T10:00:00|2024-03-04T11:00:00|COMPLETED|2|gres/gpu=8,node=2|n[0-1]
2|pb|ub|2024-03-04T10:00:00|2024-03-04T10:00:00|2024-03-04T11:00:00|COMPLETED|1|gres/gpu=4,node=1|n2
";

#[test]
fn switches_of_slurm_say_where_nodes_lie() {
    let folder = Folder::new();
    let source = folder.file("sacct.txt", SACCT);
    let tree = file(&[&source, "--topology-file", "tests/fixtures/slurm-topology/tree.conf"]);
    assert!(tree.contains("levels = [\"spine\", \"leaf\"]"), "{tree}");
    // Each partition has its own nodes; n3 ran no job.
    let entry = |name: &str, nodes: u32, leaf: &str| {
        format!(
            "[[vc]]\nname = \"{name}\"\nnodes = {nodes}\ngpus_per_node = 4\ntopology = {{ spine = \"top\", leaf = \"{leaf}\" }}\n"
        )
    };
    assert!(tree.contains(&entry("pa", 2, "s0")) && tree.contains(&entry("pb", 1, "s1")), "{tree}");
    assert!(tree.contains("1 node of the file ran no job, and is left out: n3."), "{tree}");
    let printed = file(&[&source, "--topology-file", "tests/fixtures/slurm-topology/scontrol.txt"]);
    assert_eq!(printed.replace("scontrol.txt", "tree.conf"), tree);
    let blocks = file(&[&source, "--topology-file", "tests/fixtures/slurm-topology/blocks.conf"]);
    assert!(blocks.contains("levels = [\"block4\", \"block\"]"), "{blocks}");
    let printed = file(&[&source, "--topology-file", "tests/fixtures/slurm-topology/scontrol-blocks.txt"]);
    let described = |text: &str| text.split_once("\n[topology]\n").unwrap().1.to_owned();
    assert_eq!(described(&printed), described(&blocks));
    // Where partitions share a node, all share all.
    let shared = folder.file("shared.txt", &SACCT.replace("|n2\n", "|n[1,9]\n"));
    let text = file(&[&shared, "--topology-file", "tests/fixtures/slurm-topology/tree.conf"]);
    assert!(
        text.contains("[[pool]]") && text.contains("1 node that jobs ran on is not in the file, and lies nowhere: n9."),
        "{text}"
    );
    let path = folder.file("c.toml", &text);
    let output =
        tracecast(&["simulate", &shared, "--site", &path, "--scan", "skip", "--site", "topology=required:leaf:8"]);
    assert!(output.status.success(), "{}", stderr(&output));
    // A machine list with other names is of another cluster.
    let other = tracecast(&[
        "cluster",
        "tests/fixtures/kubernetes/topology.json",
        "--topology-file",
        "tests/fixtures/slurm-topology/broken-other.conf",
    ]);
    assert!(stderr(&other).contains("no node of the source is in it"), "{}", stderr(&other));
}

#[test]
fn a_topology_file_that_cannot_be_is_refused_with_its_line() {
    let folder = Folder::new();
    let source = folder.file("sacct.txt", SACCT);
    for (name, line, what) in [
        ("list", 2, "such as n[1-16,20]"),
        ("twice", 2, "node n1 lies in s0 already"),
        ("unknown", 2, "add SwitchName=s1"),
        ("circle", 1, "below itself"),
        ("sizes", 2, "multiple of the first"),
        ("yaml", 1, "scontrol show topology"),
        ("slurm-conf", 1, "`nodename`"),
        ("empty", 1, "no SwitchName and no BlockName"),
        ("other", 1, "no node that jobs ran on is in it"),
    ] {
        let path = format!("tests/fixtures/slurm-topology/broken-{name}.conf");
        let output = tracecast(&["cluster", &source, "--topology-file", &path]);
        let message = stderr(&output);
        assert!(!output.status.success() && stdout(&output).is_empty(), "{name}");
        assert!(
            message.contains(&format!("broken-{name}.conf, line {line}")) && message.contains(what),
            "{name}: {message}"
        );
    }
}
