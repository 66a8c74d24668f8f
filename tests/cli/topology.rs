//! `simulate --site topology`, as a user meets it.

use super::simulate::{data, quietly};
use super::*;

/// Four nodes of 8 GPUs. Three jobs of a node run to 100, 200 and 300 s; one of two nodes comes at 10 s and runs 50 s.
const JOBS: &str = "\
job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
a,ua,va,8,4,1,COMPLETED,2020-04-01 00:00:00,2020-04-01 00:00:00,2020-04-01 00:01:40,100,0
b,ub,va,8,4,1,COMPLETED,2020-04-01 00:00:00,2020-04-01 00:00:00,2020-04-01 00:03:20,200,0
c,uc,va,8,4,1,COMPLETED,2020-04-01 00:00:00,2020-04-01 00:00:00,2020-04-01 00:05:00,300,0
d,ud,va,16,4,2,COMPLETED,2020-04-01 00:00:10,2020-04-01 00:01:40,2020-04-01 00:02:30,50,90
";
const NODES: &str = "[[vc]]\nname = \"va\"\nnodes = 4\ngpus_per_node = 8\n";
const RACKS: &str = "[topology]\nlevels = [\"rack\"]\nsizes = [2]\n\n";

fn queue(rest: &str) -> String {
    format!(
        "kind: ClusterQueue\nmetadata: {{name: va}}\nspec:\n  resourceGroups:\n  - flavors:\n    - name: any\n      resources:\n      - {{name: nvidia.com/gpu, nominalQuota: 32}}\n---\nkind: ResourceFlavor\nmetadata: {{name: any}}\n{rest}"
    )
}
const FLAVOR: &str = "spec: {topologyName: site}\n---\nkind: Topology\nmetadata: {name: site}\nspec:\n  levels:\n  - nodeLabel: example.com/topology-rack\n  - nodeLabel: kubernetes.io/hostname\n";

fn wait(metrics: &serde_json::Value) -> f64 {
    // Three of four jobs wait for nothing.
    4.0 * metrics["overall"]["wait_s"]["mean"].as_f64().unwrap()
}

/// Standard output of a command in one line.
fn said(arguments: &[&str]) -> String {
    let output = quietly(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
    stdout(&output).split_whitespace().collect::<Vec<_>>().join(" ")
}

fn refused(arguments: &[&str], what: &[&str]) {
    let output = quietly(arguments);
    let message = stderr(&output);
    assert!(!output.status.success() && stdout(&output).is_empty(), "{arguments:?}");
    assert!(what.iter().all(|what| message.contains(what)), "{arguments:?}: {message}");
}

#[test]
fn a_job_that_requires_a_rack_waits_for_one() {
    let folder = Folder::new();
    let jobs = folder.file("cluster_log.csv", JOBS);
    let nodes = folder.file("cluster.toml", &format!("{RACKS}{NODES}"));
    folder.file("queues.yaml", &queue(FLAVOR));
    let compare = folder.file(
        "compare.toml",
        "[[scenario]]\nname = \"anywhere\"\n\n[[scenario]]\nname = \"required\"\ntopology = \"required:rack:16\"\n\n[[scenario]]\nname = \"preferred\"\ntopology = \"preferred:rack:16\"\n\n[[scenario]]\nname = \"kueue\"\ntopology = \"required:example.com/topology-rack:16\"\nquota = \"queues.yaml\"\n",
    );
    let found = data(&[&jobs, "--site", &nodes, "--recorded", "fifo/skip", "--compare", &compare]);
    let of = |at: usize| found["others"][at]["metrics"].clone();
    // At 100 s nodes 0 and 3 are free, at 200 s the first rack is.
    assert_eq!([wait(&found["metrics"]), wait(&of(0)), wait(&of(1)), wait(&of(2))], [90.0, 190.0, 90.0, 190.0]);
    // How well the record is met has nothing to do with what jobs are made to ask.
    assert_eq!(found["fidelity"], data(&[&jobs, "--site", &nodes, "--recorded", "fifo/skip"])["fidelity"]);
    // Who asks for nothing is counted as well: by chance, d lay in two racks.
    let anywhere = &found["metrics"]["topology"][0];
    assert_eq!(
        (&anywhere["request"], &anywhere["on_several_nodes"], &anywhere["in_one_domain"]),
        (&"nothing".into(), &1.into(), &0.into())
    );
    let required = &of(0)["topology"][0];
    assert_eq!(
        (&required["request"], &required["jobs"], &required["waited"]),
        (&"requires one rack".into(), &1.into(), &1.into())
    );
    assert!((required["wait_hours"].as_f64().unwrap() * 3600.0 - 100.0).abs() < 1e-6);
    assert_eq!((&required["in_one_domain"], &of(1)["topology"][0]["in_one_domain"]), (&1.into(), &0.into()));
    let causes = of(0)["delay"]["all"]["causes"].clone();
    assert!(
        causes.as_array().unwrap().iter().any(|cause| cause["cause"] == "topology" && cause["jobs"] == 1),
        "{causes}"
    );
    // Under Kueue the other jobs are unconstrained, as their queue's flavor names a Topology.
    assert_eq!((&of(2)["topology"][1]["request"], &of(2)["topology"][1]["jobs"]), (&"anywhere".into(), &3.into()));
    let text = said(&[&jobs, "--site", &nodes, "--scan", "skip", "--site", "topology=required:rack:16"]);
    assert!(text.contains("Blocks and racks") && text.contains("1 of 1 (100.0 %) lay in one domain"), "{text}");
    assert!(text.contains("The nodes lie in 2 racks. What jobs ask: requires one rack (1 job)"), "{text}");
}

#[test]
fn the_sample_s_racks_are_compared() {
    let compare = "datasets/clusters/sample_topology/compare.toml";
    let found = data(&["datasets/sample", "--recorded", "fifo/skip", "--compare", compare]);
    assert_eq!(found["fidelity"]["verdict"], "exact");
    let others = &found["others"];
    let replays = [&found["metrics"], &others[0]["metrics"], &others[1]["metrics"], &others[2]["metrics"]];
    // As the guide has it.
    let near = replays.map(|of| of["topology"][0]["in_one_domain"].as_u64().unwrap());
    assert_eq!(near, [154, 475, 535, 472]);
    let of_large = |of: &serde_json::Value| {
        let sizes = of["by_size"].as_array().unwrap();
        sizes.iter().find(|of| of["size"] == ">8").unwrap()["wait_s"]["mean"].as_f64().unwrap()
    };
    let [anywhere, preferred, required, cells] = replays.map(of_large);
    // Cells bring most jobs into one rack without being asked to, and aligned blocks cost waiting.
    assert!(cells > anywhere && cells < required, "{cells}");
    // What is preferred costs nothing here; what is required more than doubles the wait.
    assert!((anywhere - preferred).abs() < 1.0 && required > 2.0 * anywhere, "{anywhere} {preferred} {required}");
}

#[test]
fn what_no_rack_can_take_is_rejected_and_said() {
    let folder = Folder::new();
    let jobs = folder.file("cluster_log.csv", JOBS);
    let nodes = folder.file("cluster.toml", &format!("{}{NODES}", RACKS.replace("[2]", "[1]")));
    let found = data(&[&jobs, "--site", &nodes, "--scan", "skip", "--site", "topology=required:rack:16"]);
    assert_eq!(
        (&found["metrics"]["overall"]["rejected"], &found["metrics"]["topology"][0]["rejected"]),
        (&1.into(), &1.into())
    );
    let text = said(&[&jobs, "--site", &nodes, "--scan", "skip", "--site", "topology=required:rack:16"]);
    assert!(text.contains("One job is too large for any domain and never runs."), "{text}");
    // Whose longest job never runs is no rival, however short the others wait.
    let compare = "[[scenario]]\nname = \"all\"\n\n[[scenario]]\nname = \"small\"\ntopology = \"required:rack:16\"\n";
    let compare = folder.file("compare.toml", compare);
    let text = said(&[&jobs, "--site", &nodes, "--recorded", "fifo/skip", "--compare", &compare]);
    assert!(text.contains("Jobs that never start or end are more under small (1 more)"), "{text}");
    assert!(text.contains("all has the least mean wait") && text.contains("fewer jobs end"), "{text}");
}

/// Two of four nodes lie in no rack. The job of two nodes may lie anywhere, and finds two of those
/// at 100 s; it waits for a rack until 200 s.
#[test]
fn nodes_in_no_rack_take_no_job_that_asks_and_that_is_said() {
    let folder = Folder::new();
    let jobs = folder.file("cluster_log.csv", JOBS);
    let group = |rack: &str| format!("[[vc]]\nname = \"va\"\nnodes = 2\ngpus_per_node = 8\n{rack}\n");
    let nodes = format!("[topology]\nlevels = [\"rack\"]\n\n{}{}", group("topology = { rack = \"r1\" }"), group(""));
    let nodes = folder.file("cluster.toml", &nodes);
    let asks = ["--scan", "skip", "--site", "topology=unconstrained:16"];
    let found = data(&[&[&jobs, "--site", &nodes][..], &asks].concat());
    let used = found["metrics"]["topology"][0].clone();
    assert!((used["wait_hours"].as_f64().unwrap() * 3600.0 - 100.0).abs() < 1e-6, "{used}");
    let text = said(&[&[&jobs, "--site", &nodes][..], &asks].concat());
    assert!(
        text.contains("2 nodes with 16 GPUs lie in no domain, so that no job that is placed by topology runs there")
            && text.contains("not even one that may lie anywhere"),
        "{text}"
    );
    assert!(
        text.contains("not near enough to each other, or lie in no domain.")
            && text.contains("a part of that wait may be for these GPUs"),
        "{text}"
    );
}

#[test]
fn slurm_s_backfill_follows_switches_unless_that_is_turned_off() {
    let folder = Folder::new();
    let jobs = folder.file("cluster_log.csv", JOBS);
    // Two networks of a leaf each: from the last on, a and b fill the second and c half of the first; d lies in one, and waits for b.
    let leaves = folder.file("leaves.toml", &format!("{}{NODES}", RACKS.replace("rack", "leaf")));
    let racks = folder.file("racks.toml", &format!("{RACKS}{NODES}"));
    let compare = folder.file(
        "compare.toml",
        "[[scenario]]\nname = \"switches\"\n\n[[scenario]]\nname = \"none\"\ntopology = \"none\"\n",
    );
    let found = data(&[&jobs, "--site", &leaves, "--scan", "slurm", "--compare", &compare]);
    assert_eq!([wait(&found["metrics"]), wait(&found["others"][0]["metrics"])], [190.0, 90.0]);
    // Racks are no switches.
    assert_eq!(wait(&data(&[&jobs, "--site", &racks, "--scan", "slurm"])["metrics"]), 90.0);
    let arguments = [jobs.as_str(), "--site", &leaves, "--scan", "slurm"];
    let text = said(&arguments);
    assert!(
        text.contains("The nodes hang on 2 leaves") && text.contains("--site topology=none turns that off"),
        "{text}"
    );
    assert!(!said(&[&arguments[..], &["--site", "topology=none"]].concat()).contains("hang on"));
    refused(
        &[&arguments[..], &["--site", "topology=required:leaf"]].concat(),
        &["--switches gives up after a delay", "leave out the rules of --site topology"],
    );
}

#[test]
fn rules_that_mean_nothing_are_refused_with_a_remedy() {
    let folder = Folder::new();
    let jobs = folder.file("cluster_log.csv", JOBS);
    let (nodes, racks) = (folder.file("nodes.toml", NODES), folder.file("racks.toml", &format!("{RACKS}{NODES}")));
    refused(&[&jobs, "--site", &racks, "--site", "topology=rack"], &["--site topology", "required:rack:16"]);
    refused(&[&jobs, "--site", &racks, "--site", "topology=required:rack:9:32"], &["one least number of GPUs"]);
    refused(&[&jobs, "--site", &racks, "--site", "topology=required:block"], &["`block`", "there are rack, node"]);
    refused(
        &[&jobs, "--site", &nodes, "--site", "topology=required:rack"],
        &["which nodes lie together", "[topology]"],
    );
    refused(
        &[&jobs, "--site", &racks, "--site", "topology=required:rack", "--scan", "slurm"],
        &["slurm", "--site topology"],
    );
    refused(
        &[&jobs, "--site", &racks, "--site", "topology=required:rack", "--site", "compat=helios"],
        &["--site topology"],
    );
    let wrong = folder.file("wrong.toml", &format!("[topology]\nlevels = [\"rack\"]\n{NODES}"));
    refused(&[&jobs, "--site", &wrong], &["wrong.toml, line 2", "sizes"]);
}

#[test]
fn a_topology_of_kueue_s_that_no_node_has_is_said() {
    let folder = Folder::new();
    let jobs = folder.file("cluster_log.csv", JOBS);
    let nodes = folder.file("cluster.toml", NODES);
    let with = folder.file("with.yaml", &queue(FLAVOR));
    let text = said(&[&jobs, "--site", &nodes, "--site", &format!("quota={with}")]);
    assert!(text.contains("Nothing says which nodes lie together in the Topology site (example.com/topology-rack, kubernetes.io/hostname)"), "{text}");
    // With the Node objects it is known, without a word on it in the cluster file.
    let node = |rack: &str| {
        format!(
            "---\nkind: Node\nmetadata:\n  labels: {{example.com/topology-rack: {rack}}}\nstatus:\n  allocatable: {{nvidia.com/gpu: \"8\"}}\n"
        )
    };
    let labelled = ["r1", "r2", "r1", "r2"].map(node).concat();
    let nodes_too = folder.file("nodes.yaml", &format!("{}{labelled}", queue(FLAVOR)));
    let asks = [
        &jobs,
        "--site",
        &nodes,
        "--site",
        &format!("quota={nodes_too}"),
        "--site",
        "topology=required:example.com/topology-rack:16",
    ];
    let text = said(&asks);
    assert!(
        text.contains("Where nodes lie is what the labels of the Node objects in") && text.contains("lie in 2 racks"),
        "{text}"
    );
    assert_eq!(data(&asks)["metrics"]["topology"][0]["request"], "requires one rack");
    let without = folder.file("without.yaml", &queue("spec: {topologyName: site}\n"));
    let text = said(&[&jobs, "--site", &nodes, "--site", &format!("quota={without}")]);
    assert!(text.contains("a Topology that the file does not have: site"), "{text}");
    let broken = folder
        .file("broken.yaml", &queue("spec: {}\n---\nkind: Topology\nmetadata: {name: site}\nspec: {levels: []}\n"));
    refused(
        &[&jobs, "--site", &nodes, "--site", &format!("quota={broken}")],
        &["broken.yaml", "Topology site", "nodeLabel"],
    );
}

/// A Workload that was admitted and finished; times in seconds after 10:00:00.
fn workload(name: &str, (made, admitted, finished): (u32, u32, u32), (pods, gpus): (u32, u32), asks: &str) -> String {
    let at = |second: u32| format!("2026-03-02T10:{:02}:{:02}Z", second / 60, second % 60);
    let condition = |kind: &str, reason: &str, second: u32| {
        format!(
            r#"{{"type": "{kind}", "status": "True", "reason": "{reason}", "lastTransitionTime": "{}"}}"#,
            at(second)
        )
    };
    format!(
        r#"{{"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": {{"name": "{name}", "namespace": "lab", "uid": "{name}", "creationTimestamp": "{}"}},
        "spec": {{"podSets": [{{"name": "main", "count": {pods}, "topologyRequest": {{{asks}}}, "template": {{"spec": {{"containers": [{{"resources": {{"requests": {{"nvidia.com/gpu": "{gpus}"}}}}}}]}}}}}}]}},
        "status": {{"admission": {{"clusterQueue": "lab", "podSetAssignments": [{{"name": "main", "count": {pods}, "resourceUsage": {{"nvidia.com/gpu": "{}"}}}}]}}, "conditions": [{}, {}]}}}}"#,
        at(made),
        pods * gpus,
        condition("Admitted", "Admitted", admitted),
        condition("Finished", "Succeeded", finished)
    )
}

/// Four nodes of 8 GPUs in two racks, and the jobs of [`JOBS`] as Kueue ran them: `d` of two pods requires a rack and waited for one until 200 s; `e` of one GPU asks for a level that there is not.
fn dump(labelled: bool) -> String {
    let node = |at: u32| {
        let rack = if labelled { format!(r#""example.com/topology-rack": "r{}""#, at / 2) } else { String::new() };
        format!(
            r#"{{"apiVersion": "v1", "kind": "Node", "metadata": {{"name": "n{at}", "uid": "n{at}", "labels": {{{rack}}}}}, "status": {{"capacity": {{"nvidia.com/gpu": "8"}}}}}}"#
        )
    };
    let topology = r#"{"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Topology", "metadata": {"name": "site", "uid": "t"}, "spec": {"levels": [{"nodeLabel": "example.com/topology-rack"}, {"nodeLabel": "kubernetes.io/hostname"}]}}"#;
    let mut items: Vec<String> = (0..4).map(node).chain([topology.to_owned()]).collect();
    items.extend([
        workload("a", (0, 0, 100), (1, 8), ""),
        workload("b", (0, 0, 200), (1, 8), ""),
        workload("c", (0, 0, 300), (1, 8), ""),
        workload("d", (10, 200, 250), (2, 8), r#""required": "example.com/topology-rack""#),
        workload("e", (250, 250, 260), (1, 1), r#""required": "example.com/zone""#),
    ]);
    format!(r#"{{"apiVersion": "v1", "kind": "List", "items": [{}]}}"#, items.join(",\n"))
}

#[test]
fn what_jobs_asked_themselves_is_replayed() {
    let folder = Folder::new();
    let jobs = folder.file("dump.json", &dump(true));
    let wait = |metrics: &serde_json::Value| (5.0 * metrics["overall"]["wait_s"]["mean"].as_f64().unwrap()).round();
    let compare = folder.file(
        "compare.toml",
        "[[scenario]]\nname = \"as asked\"\n\n[[scenario]]\nname = \"nothing\"\ntopology = \"none\"\n\n[[scenario]]\nname = \"ruled\"\ntopology = \"none,preferred:rack:16\"\n\n[[scenario]]\nname = \"both\"\ntopology = \"unconstrained:1\"\n",
    );
    let found = data(&[&jobs, "--recorded", "fifo/skip", "--compare", &compare]);
    let of = |at: usize| found["others"][at]["metrics"].clone();
    // At 100 s the free nodes are of two racks, at 200 s of one.
    assert_eq!([wait(&found["metrics"]), wait(&of(0)), wait(&of(1)), wait(&of(2))], [190.0, 90.0, 90.0, 190.0]);
    assert_eq!(found["metrics"]["topology"][0]["request"], "requires one rack");
    // What was is held against what jobs asked themselves: every start is met.
    assert_eq!((&found["fidelity"]["jobs"], &found["fidelity"]["max_abs_error_s"]), (&5.into(), &0.0.into()));
    let both = of(2)["topology"].clone();
    assert_eq!(
        (&both[0]["request"], &both[0]["jobs"], &both[1]["jobs"]),
        (&"requires one rack".into(), &1.into(), &4.into())
    );
    let text = said(&[&jobs, "--scan", "skip"]);
    assert!(
        text.contains("1 job asked so themselves, as the trace records; --site topology=none leaves that out"),
        "{text}"
    );
    assert!(text.contains("1 job asked for what the topology does not have"), "{text}");
    assert!(text.contains("`example.com/zone`; there are rack, node"), "{text}");
    let text = said(&[&jobs, "--scan", "skip", "--site", "topology=none"]);
    assert!(!text.contains("asked so themselves"), "{text}");
    // A trace folder holds the same.
    let stored = folder.path("stored");
    assert!(tracecast(&["ingest", &jobs, "--out", &stored]).status.success());
    assert_eq!(data(&[&stored, "--scan", "skip"])["metrics"], data(&[&jobs, "--scan", "skip"])["metrics"]);
    refused(&[&jobs, "--scan", "slurm"], &["slurm", "--site topology=none"]);
    assert_eq!(wait(&data(&[&jobs, "--scan", "slurm", "--site", "topology=none"])["metrics"]), 90.0);
}

#[test]
fn where_nothing_says_which_nodes_lie_together_requests_are_told_and_not_replayed() {
    let folder = Folder::new();
    let jobs = folder.file("dump.json", &dump(false));
    let text = said(&[&jobs, "--scan", "skip"]);
    assert!(text.contains("2 jobs asked how near their pods lie (required:example.com/topology-rack, 1 job; required:example.com/zone, 1 job)"), "{text}");
    assert!(text.contains("so that counts for nothing") && text.contains("--topology-labels A,B"), "{text}");
    assert!(!said(&[&jobs, "--scan", "skip", "--site", "topology=none"]).contains("asked how near"));
    // A cluster file says it.
    let nodes = folder.file(
        "racks.toml",
        &format!("{RACKS}[[pool]]\nname = \"p\"\nnodes = 4\ngpus_per_node = 8\n\n[[vc]]\nname = \"*\"\npool = \"p\"\n"),
    );
    let found = data(&[&jobs, "--scan", "skip", "--site", &nodes]);
    assert_eq!((5.0 * found["metrics"]["overall"]["wait_s"]["mean"].as_f64().unwrap()).round(), 190.0);
}
