//! `simulate --site hosts`, as a user meets it.

use super::simulate::{data, quietly};
use super::*;

/// A node of 8 GPUs with 64 cores. The first job takes 60 of them until 100 s; the second asks for 8 at 10 s, and started at 100 s though 7 GPUs were free. One without a GPU is not replayed.
const PODS: &str = "\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
p0,60000,1024,1,1000,,LS,Succeeded,0,100,0
p1,8000,1024,1,1000,,LS,Succeeded,10,200,100
p2,4000,1024,0,0,,LS,Succeeded,20,200,20
";
const NODES: &str = "sn,cpu_milli,memory_mib,gpu,model\nn0,64000,262144,8,V100M32\n";

fn wait_s(answer: &serde_json::Value) -> f64 {
    2.0 * answer["metrics"]["overall"]["wait_s"]["mean"].as_f64().unwrap()
}

fn hours(answer: &serde_json::Value, cause: &str) -> Option<f64> {
    let causes = answer["metrics"]["delay"]["all"]["causes"].as_array().unwrap();
    causes.iter().find(|of| of["cause"] == cause).map(|of| of["wait_hours"].as_f64().unwrap())
}

#[test]
fn gpus_wait_for_processors_as_they_did() {
    let folder = Folder::new();
    let (pods, nodes) = (folder.file("pods.csv", PODS), folder.file("nodes.csv", NODES));
    let usual = data(&[&pods, &nodes]);
    assert_eq!((wait_s(&usual), usual["fidelity"]["max_abs_error_s"].as_f64()), (90.0, Some(0.0)));
    assert!((hours(&usual, "processors").unwrap() * 3600.0 - 90.0).abs() < 1e-6);
    assert_eq!(hours(&usual, "memory"), Some(0.0));
    // 4 cores are left beside 7 GPUs until 100 s, of 200 s, and nobody asks for less than 8.
    let hostless = usual["metrics"]["overall"]["fragmentation"]["hostless_gpus"].as_f64().unwrap();
    assert!((hostless - 7.0 * 100.0 / 200.0).abs() < 1e-9, "{hostless}");
    assert_eq!(data(&[&pods, &nodes, "--site", "hosts=as-recorded"])["metrics"], usual["metrics"]);
    let alone = data(&[&pods, &nodes, "--site", "hosts=none"]);
    assert_eq!((wait_s(&alone), hours(&alone, "processors")), (0.0, None));
    assert!(alone["metrics"]["overall"]["fragmentation"].get("hostless_gpus").is_none());
    let report = stdout(&quietly(&[&pods, &nodes]));
    let said = report.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("because free GPUs were on nodes without enough free processors"), "{said}");
    assert!(said.contains("GPUs free without processors or memory for any job"), "{said}");
    assert!(said.contains("1 job without a GPU is not replayed"), "{said}");
}

#[test]
fn other_nodes_have_other_processors() {
    let folder = Folder::new();
    let (pods, nodes) = (folder.file("pods.csv", PODS), folder.file("nodes.csv", NODES));
    let output = tracecast(&["cluster", &pods, &nodes]);
    let text = stdout(&output);
    assert!(text.contains("gpu_type = \"V100M32\"\ncpus_per_node = 64\nmemory_gib_per_node = 256\n"), "{text}");
    let same = folder.file("same.toml", &text);
    assert_eq!(wait_s(&data(&[&pods, &nodes, "--site", &same])), 90.0);
    // With 68 cores both run at once. With memory for one job alone, the second waits for memory.
    let more = folder.file("more.toml", &text.replace("cpus_per_node = 64", "cpus_per_node = 68"));
    assert_eq!(wait_s(&data(&[&pods, &nodes, "--site", &more])), 0.0);
    let less = text.replace("cpus_per_node = 64", "cpus_per_node = 68").replace("= 256", "= 1.5");
    let less = data(&[&pods, &nodes, "--site", &folder.file("less.toml", &less)]);
    assert_eq!((wait_s(&less), hours(&less, "processors")), (90.0, Some(0.0)));
    assert!((hours(&less, "memory").unwrap() * 3600.0 - 90.0).abs() < 1e-6);
    // A comparison has both.
    let compare = "[[scenario]]\nname = \"as they are\"\n\n[[scenario]]\nname = \"GPUs alone\"\nhosts = \"none\"\n";
    let both = data(&[&pods, &nodes, "--compare", &folder.file("compare.toml", compare)]);
    let mean = |answer: &serde_json::Value| answer["metrics"]["overall"]["wait_s"]["mean"].as_f64();
    assert_eq!((mean(&both), mean(&both["others"][0])), (Some(45.0), Some(0.0)));
}

#[test]
fn what_cannot_be_is_refused() {
    let folder = Folder::new();
    let (pods, nodes) = (folder.file("pods.csv", PODS), folder.file("nodes.csv", NODES));
    let refused = |arguments: &[&str], what: &str| {
        let output = quietly(arguments);
        let message = stderr(&output);
        assert!(!output.status.success() && stdout(&output).is_empty() && message.contains(what), "{message}");
    };
    refused(&[&pods, &nodes, "--site", "hosts=some"], "write none or as-recorded");
    let file = |line: &str| {
        folder.file("wrong.toml", &format!("[[vc]]\nname = \"*\"\nnodes = 1\ngpu_type = \"V100M32\"\n{line}\n"))
    };
    refused(&[&pods, &nodes, "--site", &file("cpu_per_node = 64")], "cpu_per_node");
    for amount in ["0", "nan", "0.0005", "1e300"] {
        let file = file(&format!("memory_gib_per_node = {amount}"));
        refused(&[&pods, &nodes, "--site", &file], "cannot be; write 0.001 to 4000000");
        assert!(stderr(&quietly(&[&pods, &nodes, "--site", &file])).len() < 300);
    }
    refused(&[&pods, &nodes, "--site", &file("cpus_per_node = 1000001")], "write 0.001 to 1000000");
    let compare = folder.file("compare.toml", "[[scenario]]\nname = \"a\"\nhosts = \"all\"\n");
    refused(&[&pods, &nodes, "--compare", &compare], "write none or as-recorded");
    refused(&[&pods, &nodes, "--site", "hosts=as-recorded", "--site", "compat=helios"], "processors and memory");
    // Nothing is said of processors: asked for, that is told.
    let plain = folder.file("plain.toml", "[[vc]]\nname = \"*\"\nnodes = 1\n");
    let output = quietly(&[&pods, "--site", &plain, "--site", "hosts=as-recorded"]);
    assert!(stdout(&output).contains("No node says anything of processors or memory"), "{}", stderr(&output));
}

/// Files of 400 jobs of one GPU, one every ten seconds for 95 s, and of six nodes of 8 GPUs; with so many thousandths of a core each.
fn steady(folder: &Folder, of_job: u32, of_node: impl Fn(u32) -> u32) -> (String, String) {
    let head = PODS.lines().next().unwrap();
    let pods: String = (0..400)
        .map(|job| (job, job * 10))
        .map(|(job, at)| format!("p{job},{of_job},1024,1,1000,,LS,Succeeded,{at},{},{at}\n", at + 95))
        .collect();
    let nodes: String = (0..6).map(|node| format!("n{node},{},262144,8,V100M32\n", of_node(node))).collect();
    (
        folder.file("pods.csv", &format!("{head}\n{pods}")),
        folder.file("nodes.csv", &format!("sn,cpu_milli,memory_mib,gpu,model\n{nodes}")),
    )
}

/// Nodes of two makes, of which one has more cores than all jobs could take and the other enough.
#[test]
fn what_never_decides_is_not_planned_for() {
    let folder = Folder::new();
    let (pods, nodes) = steady(&folder, 4_000, |node| 64_000 + node % 2 * 32_000);
    let plan = |more: &[&str]| {
        let plan = ["plan", "nodes", &pods, &nodes, "--scan", "skip", "--target-p95", "1s", "--quiet"];
        let output = tracecast(&[&plan[..], more, &["--format", "json"]].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        json(&stdout(&output))["nodes"].clone()
    };
    assert_eq!(plan(&[]).as_array().unwrap().len(), 1);
    assert_eq!(plan(&[]), plan(&["--site", "hosts=none"]));
}

/// Every ten seconds a job of one GPU that takes half of a node's cores for 95 s: ten run at a time, on five nodes. GPUs alone would do with two.
#[test]
fn nodes_are_sized_for_processors_too() {
    let folder = Folder::new();
    let (pods, nodes) = steady(&folder, 32_000, |_| 64_000);
    let plan = ["plan", "nodes", &pods, &nodes, "--scan", "skip", "--target-p95", "1s", "--quiet"];
    let needed = |more: &[&str]| {
        let output = tracecast(&[&plan[..], more, &["--format", "json"]].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        json(&stdout(&output))["nodes"][0]["needed"]["value"].as_u64().unwrap()
    };
    assert_eq!((needed(&[]), needed(&["--site", "hosts=none"])), (5, 2));
    let to = folder.path("out");
    // For twice the work, as the nodes of today are to stay.
    let output = tracecast(&[&plan[..], &["--scale", "2", "--emit", "cluster,slurm", "--emit-to", &to]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let read = |name: &str| std::fs::read_to_string(PathBuf::from(&to).join(name)).unwrap();
    assert!(
        read("cluster.toml").contains("cpus_per_node = 64\nmemory_gib_per_node = 256\n"),
        "{}",
        read("cluster.toml")
    );
    assert!(read("slurm-nodes.conf").contains("] CPUs=64 RealMemory=262144 Gres=gpu:"), "{}", read("slurm-nodes.conf"));
}
