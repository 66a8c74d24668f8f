//! Kubernetes objects: every value below was worked out by hand from the fixtures.

use std::path::{Path, PathBuf};

use tracecast_analytics::Trace;
use tracecast_analytics::facts::JobFacts;
use tracecast_analytics::ingest::{self, ReadOptions, SourceFile};
use tracecast_analytics::schema::Table as _;
use tracecast_tests::{check, conform, fixture, read, real_trace, render};

/// A cluster with Kueue.
///
/// * `job-train` (v1beta1; `JobFinished`, where the message says that it succeeded): 2 pods with 8 GPUs, limits only; its Job is no
///   job of its own, its two pods place it.
/// * `job-tune` (v1beta2, `priorityClassRef`): evicted once after 600 s. An event says at 10:25, so it had begun at 10:15. The init
///   container needs 2 cores, the others 0.5. The event of the second admission is a second late and is the same admission.
/// * `pod-slice`: two MIG slices on an H100, which are 2/7 of it; running. `job-later`: pending for want of flavors, 4 × 250m cores; its LocalQueue tells the VC.
/// * `job-long`: deactivated at its time limit of 1,800 s (written `PastExexcution`); released 10:40, so it began at 10:10.
/// * `sweep` has no workload: a pod out of memory, a minute of pause, a second pod: 1,195 + 2,340 = 3,535 s in two attempts.
/// * `old`: a Job without pods, parallelism 4 but 2 completions of 2 GPUs. Pods of a ReplicaSet are each a job.
/// * The reservation pod, the pod without GPUs, the Service and one event are counted and no jobs.
/// * 16 + 8 GPUs of quota; 8 + 8 + 1 + 0 in the cluster; 81,920 MiB are 85,899,345,920 bytes.
#[test]
fn a_cluster_with_kueue() {
    let mut files = [
        "kubernetes/workloads.json",
        "kubernetes/queues.json",
        "kubernetes/nodes.json",
        "kubernetes/pods.json",
        "kubernetes/jobs.json",
        "kubernetes/events.json",
    ];
    let trace = conform("kubernetes", &files);
    files.reverse();
    assert_eq!(render(&read(&files.map(fixture)).unwrap()), render(&trace), "in the other order");
    insta::assert_snapshot!(render(&trace), @r"
    jobs (9 rows)
      job_key=team-c/old account=team-c name=old job_type=Job state=timeout reported_state=DeadlineExceeded submit=2026-03-02 08:30:00 start=2026-03-02 08:30:10 end=2026-03-02 09:00:10 censored=0 attempts=1 req_gpus=4 pods=2 alloc_gpus=4 run_s=1800
      job_key=team-c/sweep account=team-c name=sweep job_type=Job gpu_type=NVIDIA-A100-SXM4-80GB state=completed reported_state=Complete submit=2026-03-02 09:59:50 start=2026-03-02 10:00:05 end=2026-03-02 11:00:00 censored=0 attempts=2 req_gpus=2 pods=1 alloc_nodes=1 alloc_gpus=2 nodes_hostlist=n1 time_limit_s=7200 run_s=3535 exit_code=0
      job_key=team-a/job-train-1a2b3 account=team-a vc=vision qos=high name=train job_type=Job gpu_type=NVIDIA-A100-SXM4-80GB state=completed reported_state=JobFinished submit=2026-03-02 10:00:00 start=2026-03-02 10:05:00 end=2026-03-02 11:05:00 censored=0 attempts=1 req_cpus=32 req_mem_bytes=137438953472 req_gpus=16 pods=2 alloc_nodes=2 alloc_cpus=32 alloc_gpus=16 nodes_hostlist=n1,n2 run_s=3600 exit_code=0
      job_key=team-b/job-long-d3e4f account=team-b vc=nlp name=long job_type=Job state=timeout reported_state=DeactivatedDueToMaximumExecutionTimeExceeded submit=2026-03-02 10:00:00 start=2026-03-02 10:10:00 end=2026-03-02 10:40:00 censored=0 attempts=1 req_gpus=1 pods=1 time_limit_s=1800 run_s=1800
      job_key=team-a/job-tune-4c5d6 account=team-a vc=vision qos=low name=tune job_type=PyTorchJob gpu_type=NVIDIA-A100-SXM4-80GB state=failed reported_state=Failed submit=2026-03-02 10:10:00 start=2026-03-02 10:15:00 end=2026-03-02 12:00:00 censored=0 attempts=2 req_cpus=2 req_mem_bytes=4294967296 req_gpus=4 pods=1 alloc_nodes=1 alloc_cpus=2 alloc_gpus=4 nodes_hostlist=n2 run_s=4200 reported_run_s=4200 reported_attempts_s=4200 exit_code=1
      job_key=team-c/serve-x1 account=team-c name=serve-x1 job_type=ReplicaSet gpu_type=NVIDIA-A100-SXM4-80GB state=running reported_state=Running submit=2026-03-02 11:10:00 start=2026-03-02 11:10:10 censored=1 attempts=1 req_gpus=1 pods=1 alloc_nodes=1 alloc_gpus=1 nodes_hostlist=n1
      job_key=team-c/serve-x2 account=team-c name=serve-x2 job_type=ReplicaSet state=pending reported_state=Pending submit=2026-03-02 11:10:00 censored=1 attempts=0 req_gpus=1 pods=1
      job_key=team-b/pod-slice-7e8f9 account=team-b vc=nlp name=slice job_type=Pod gpu_type=NVIDIA-H100-80GB-HBM3-MIG-1g.10gb state=running reported_state=Admitted submit=2026-03-02 11:30:00 start=2026-03-02 11:40:00 censored=1 attempts=1 req_gpus=0.285714 pods=1 alloc_nodes=1 alloc_gpus=0.285714 nodes_hostlist=n3
      job_key=team-b/job-later-a1b2c account=team-b vc=nlp name=later job_type=Job gpu_type=NVIDIA-A100-SXM4-80GB state=pending reported_state=Pending pending_reason=couldn't assign flavors submit=2026-03-02 12:00:00 censored=1 attempts=0 req_cpus=1 req_mem_bytes=2147483648 req_gpus=4 pods=4
    attempts (4 rows)
      job_key=team-c/sweep attempt=1 start=2026-03-02 10:00:05 end=2026-03-02 10:20:00 censored=0 end_reason=out_of_memory nodes_hostlist=n2 alloc_gpus=2
      job_key=team-c/sweep attempt=2 start=2026-03-02 10:21:00 end=2026-03-02 11:00:00 censored=0 end_reason=completed nodes_hostlist=n1 alloc_gpus=2
      job_key=team-a/job-tune-4c5d6 attempt=1 start=2026-03-02 10:15:00 end=2026-03-02 10:25:00 censored=0 end_reason=preempted alloc_gpus=4
      job_key=team-a/job-tune-4c5d6 attempt=2 start=2026-03-02 11:00:00 end=2026-03-02 12:00:00 censored=0 end_reason=failed nodes_hostlist=n2 alloc_gpus=4
    placements (7 rows)
      job_key=team-c/sweep attempt=1 node=n2 gpus=2
      job_key=team-c/sweep attempt=2 node=n1 gpus=2
      job_key=team-a/job-train-1a2b3 attempt=1 node=n1 gpus=8
      job_key=team-a/job-train-1a2b3 attempt=1 node=n2 gpus=8
      job_key=team-a/job-tune-4c5d6 attempt=2 node=n2 gpus=4
      job_key=team-c/serve-x1 attempt=1 node=n1 gpus=1
      job_key=team-b/pod-slice-7e8f9 attempt=1 node=n3 gpus=0.285714
    nodes (4 rows)
      node=n1 gpu_type=NVIDIA-A100-SXM4-80GB gpus=8 gpu_mem_bytes=85899345920 cpus=96 mem_bytes=1099511627776
      node=n2 gpu_type=NVIDIA-A100-SXM4-80GB gpus=8 gpu_mem_bytes=85899345920 cpus=96 mem_bytes=1099511627776
      node=n3 gpu_type=NVIDIA-H100-80GB-HBM3 gpus=1 cpus=95.5 mem_bytes=1099511627776
      node=n4 gpus=0 cpus=8 mem_bytes=34359738368
    capacity (3 rows)
      scope=vc name=nlp gpus=8 cpus=64 state=up
      scope=vc name=vision gpus=16 cpus=64 state=up
      scope=cluster gpus=17 state=up
    quality: read 33 = kept 33 + repaired 0 + quarantined 0
    ");
    insta::assert_snapshot!(trace.notes.join("\n"), @r"
    kubernetes: a Workload is submitted when it is made, starts when it is admitted and ends when it is finished; it holds its GPUs from its admission on, before its pods are ready.
    kubernetes: a dump does not say when it was taken; what ran or waited in it is counted until the latest moment that any job names.
    kubernetes: no pod is left of 1 job: the start is when the controller took it up, and what pods waited after that counts as run.
    kubernetes: a MIG slice counts as its compute slices of those that a GPU has (1g.10gb: one of seven).
    kubernetes: quotas are those of the latest copy of each queue; since when they hold is unknown.
    kubernetes: read and not used: Event (1); Service (1); pod that reserves a GPU for those that share it (1); pod without GPUs (1); borrowing limits (1); cohorts (1); least pods of workloads that may shrink (1); nodes that are not ready (1); instance types of nodes (2).
    ");
}

/// The KAI scheduler: two pods of a PodGroup are one job of 8 GPUs that began with the first; `half` shares a GPU. Only the queue without
/// queues below it and with a bound has a capacity; the cluster has that of its nodes.
#[test]
fn a_cluster_with_the_kai_scheduler() {
    let trace = conform("kubernetes", &["kubernetes/kai.json"]);
    insta::assert_snapshot!(render(&trace), @r"
    jobs (2 rows)
      job_key=lab/pg-mpi-1 account=lab vc=research qos=train name=pg-mpi-1 job_type=PodGroup gpu_type=NVIDIA-L40S state=running reported_state=Running submit=2026-03-02 09:00:00 start=2026-03-02 09:01:00 censored=1 attempts=1 req_gpus=8 pods=2 alloc_nodes=2 alloc_gpus=8 nodes_hostlist=k1,k2
      job_key=lab/half account=lab vc=prod name=half job_type=Pod gpu_type=NVIDIA-L40S state=completed reported_state=Succeeded submit=2026-03-02 09:10:00 start=2026-03-02 09:11:00 end=2026-03-02 09:41:00 censored=0 attempts=1 req_gpus=0.5 pods=1 alloc_nodes=1 alloc_gpus=0.5 nodes_hostlist=k1 run_s=1800 exit_code=0
    placements (3 rows)
      job_key=lab/pg-mpi-1 attempt=1 node=k1 gpus=4
      job_key=lab/pg-mpi-1 attempt=1 node=k2 gpus=4
      job_key=lab/half attempt=1 node=k1 gpus=0.5
    nodes (2 rows)
      node=k1 gpu_type=NVIDIA-L40S gpus=8 cpus=64 mem_bytes=549755813888
      node=k2 gpu_type=NVIDIA-L40S gpus=8 cpus=64 mem_bytes=549755813888
    capacity (2 rows)
      scope=vc name=research gpus=8 state=up
      scope=cluster gpus=16 state=up
    quality: read 9 = kept 9 + repaired 0 + quarantined 0
    ");
}

/// Two snapshots, in either order. `moved` was evicted between them after 1,500 s: 10:05 to 10:30, then from 12:00 on. `gone` is in the
/// first only: its end is unknown. So is `told`, whose Job ended at 11:15. `same` is in both and still runs.
#[test]
fn two_snapshots_in_either_order() {
    let (first, second) = ("kubernetes/snapshot-1.json", "kubernetes/snapshot-2.json");
    let trace = conform("kubernetes", &[first, second]);
    insta::assert_snapshot!(render(&trace), @r"
    jobs (4 rows)
      job_key=snap/gone account=snap vc=snap name=gone job_type=Job state=unknown reported_state=Admitted submit=2026-03-03 10:00:00 start=2026-03-03 10:10:00 attempts=1 req_gpus=1 pods=1 alloc_gpus=1
      job_key=snap/moved account=snap vc=snap name=moved job_type=Job state=running reported_state=Admitted submit=2026-03-03 10:00:00 start=2026-03-03 10:05:00 censored=1 attempts=2 req_gpus=1 pods=1 alloc_gpus=1
      job_key=snap/same account=snap vc=snap name=same job_type=Job state=running reported_state=Admitted submit=2026-03-03 10:00:00 start=2026-03-03 10:20:00 censored=1 attempts=1 req_gpus=1 pods=1 alloc_gpus=1
      job_key=snap/told account=snap vc=snap name=told job_type=Job state=completed reported_state=Complete submit=2026-03-03 10:00:00 start=2026-03-03 10:15:00 end=2026-03-03 11:15:00 censored=0 attempts=1 req_gpus=1 pods=1 alloc_gpus=1 run_s=3600
    attempts (2 rows)
      job_key=snap/moved attempt=1 start=2026-03-03 10:05:00 end=2026-03-03 10:30:00 censored=0 end_reason=preempted alloc_gpus=1
      job_key=snap/moved attempt=2 start=2026-03-03 12:00:00 censored=1 alloc_gpus=1
    quality: read 7 = kept 7 + repaired 0 + quarantined 0
    ");
    let turned = conform("kubernetes", &[second, first]);
    assert_eq!(render(&turned), render(&trace));
    assert_eq!(turned.notes, trace.notes);
    // The second alone knows neither when `moved` began first nor anything of `gone`.
    let alone = conform("kubernetes", &[second]);
    let start = |trace: &Trace, key: &str| {
        let job = (0..trace.jobs.job_key.len()).find(|job| trace.jobs.job_key.get(*job) == Some(key));
        job.map(|job| trace.jobs.start.get(job).is_some())
    };
    assert_eq!((start(&trace, "snap/moved"), start(&alone, "snap/moved")), (Some(true), Some(false)));
    assert_eq!((start(&trace, "snap/gone"), start(&alone, "snap/gone")), (Some(true), None));
}

/// Reads the topology that pods ask for, and the places of nodes.
///
/// * `ring`: 4 pods of 4 GPUs in one block, each two in one rack; its pod set counts, and not what its template says. `star` says it in its template. Of `pair` the workers have 6 of 7 GPUs, so they count.
/// * `both` requires and prefers, which Kueue refuses. A pod of `loose` has slices of `four`: it asks for none, and both pods prefer one block. `alone` may lie anywhere.
/// * The Topology counts, and not the well-known zone; `n4` has no rack.
#[test]
fn what_pods_ask_of_the_topology_and_where_nodes_lie() {
    let trace = conform("kubernetes", &["kubernetes/topology.json"]);
    let jobs = &trace.jobs;
    let of = |row: usize| (jobs.name.get(row), jobs.pods.get(row), jobs.topology.get(row));
    let found: Vec<_> = (0..jobs.job_key.len()).map(of).collect();
    assert_eq!(
        found,
        [
            (
                Some("ring"),
                Some(4),
                Some("required:cloud.example.com/topology-block:slices=cloud.example.com/topology-rack/2")
            ),
            (Some("star"), Some(2), Some("preferred:cloud.example.com/topology-rack")),
            (Some("pair"), Some(4), Some("required:cloud.example.com/topology-rack")),
            (Some("both"), Some(1), None),
            (Some("loose"), Some(2), Some("preferred:cloud.example.com/topology-block")),
            (Some("alone"), Some(2), Some("unconstrained")),
        ]
    );
    let places: Vec<_> = trace.nodes.place.iter().collect();
    let place = |rack: &'static str| {
        Some(format!("cloud.example.com/topology-block=b1,cloud.example.com/topology-rack={rack}"))
    };
    assert_eq!(
        places.iter().map(|place| place.map(str::to_owned)).collect::<Vec<_>>(),
        [place("r1"), place("r2"), place("r1"), None]
    );
    assert_eq!((trace.ledger.count("topology_conflict"), trace.ledger.count("topology_slices")), (1, 1));
    assert_eq!((trace.ledger.repaired, trace.ledger.quarantined), (2, 0));
    let notes = trace.notes.join("\n");
    assert!(notes.contains("pods of 1 job differ in how near to each other they ask to lie"), "{notes}");
    assert!(notes.contains("(the levels of the Topology site). 1 node with GPUs lacks one"), "{notes}");
}

/// Thousands of pods, of which every second has a broken size of slices, every third names no label, and every fifth asks in two ways: all are jobs, and each of these is counted.
#[test]
fn pods_that_ask_for_what_cannot_be_are_counted_and_stay() {
    let annotation = |of: &str, value: &str| format!(r#""kueue.x-k8s.io/podset-{of}": "{value}""#);
    let pods: Vec<String> = (0..3_000)
        .map(|at| {
            let mut all = vec![annotation("required-topology", if at % 3 == 0 { "no label" } else { "example.com/rack" })];
            if at % 2 == 0 {
                all.push(annotation("slice-required-topology", "example.com/rack"));
                all.push(annotation("slice-size", "-1"));
            }
            if at % 5 == 0 {
                all.push(annotation("unconstrained-topology", "true"));
            }
            format!(
                r#"{{"apiVersion": "v1", "kind": "Pod", "metadata": {{"name": "p{at}", "uid": "u{at}", "creationTimestamp": "2026-03-02T10:00:00Z", "annotations": {{{}}}}}, "spec": {{"nodeName": "n", "containers": [{{"resources": {{"limits": {{"nvidia.com/gpu": 1}}}}}}]}}, "status": {{"phase": "Running", "startTime": "2026-03-02T10:00:00Z"}}}}"#,
                all.join(", ")
            )
        })
        .collect();
    let dir = tempfile::tempdir().unwrap();
    let text = format!(r#"{{"apiVersion": "v1", "kind": "List", "items": [{}]}}"#, pods.join(","));
    let trace = read(&[file(dir.path(), "pods.json", &text)]).unwrap();
    assert_eq!((trace.jobs.job_key.len(), trace.ledger.quarantined), (3_000, 0));
    let count = |reason: &str| trace.ledger.count(reason);
    // Who names no label asks in one way only: of every fifth, two of three.
    assert_eq!([count("topology_slices"), count("topology_request"), count("topology_conflict")], [1_500, 1_000, 400]);
    let mut asked: std::collections::BTreeMap<Option<&str>, usize> = std::collections::BTreeMap::new();
    for topology in trace.jobs.topology.iter() {
        *asked.entry(topology).or_default() += 1;
    }
    // 2,000 name a label, of which 400 ask in two ways; 200 of the other 1,000 may lie anywhere.
    assert_eq!(
        asked.into_iter().collect::<Vec<_>>(),
        [(None, 1_200), (Some("required:example.com/rack"), 1_600), (Some("unconstrained"), 200)]
    );
}

/// `text` in a file of its own.
fn file(dir: &Path, name: &str, text: &str) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

fn pod(name: &str, uid: &str, rest: &str) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}","namespace":"n","uid":"{uid}",
        "creationTimestamp":"2026-03-02T10:00:00Z"{rest}}},"spec":{{"nodeName":"n1","containers":[
        {{"resources":{{"limits":{{"nvidia.com/gpu":"1"}}}}}}]}},"status":{{"phase":"Running","startTime":"2026-03-02T10:01:00Z"}}}}"#
    )
}

fn list(items: &[String]) -> String {
    format!(r#"{{"apiVersion":"v1","items":[{}],"kind":"List"}}"#, items.join(","))
}

/// A list, a watch of objects one after the other, a watch of events, and the raw answer of the API server, whose items name no
/// kind: the same two pods.
#[test]
fn every_form_of_a_dump_is_read_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let pods = [pod("a", "1", ""), pod("b", "2", "")];
    let bare = pods.clone().map(|pod| pod.replace(r#""apiVersion":"v1","kind":"Pod","#, ""));
    let event = |what: &str, pod: &str| format!(r#"{{"type":"{what}","object":{pod}}}"#);
    let bookmark = event("BOOKMARK", r#"{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"9"}}"#);
    let forms = [
        ("list.json", list(&pods)),
        ("objects.json", pods.join("\n")),
        ("array.json", format!("[{}]", pods.join(","))),
        ("raw.json", format!(r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{}},"items":[{}]}}"#, bare.join(","))),
        ("watch.json", pods.clone().map(|pod| event("ADDED", &pod)).join("\n") + &bookmark),
    ];
    let mut first: Option<String> = None;
    for (name, text) in forms {
        let path = file(dir.path(), name, &text);
        let sniffed = ingest::sniff(&SourceFile::new(&path)).unwrap().map(ingest::Reader::id);
        assert_eq!(sniffed, Some("kubernetes"), "{name}");
        let trace = read(&[path]).unwrap();
        check(&trace);
        assert_eq!((trace.jobs.job_key.len(), trace.ledger.kept), (2, 2), "{name}");
        let rendered = render(&trace);
        assert_eq!(*first.get_or_insert_with(|| rendered.clone()), rendered, "{name}");
    }
    // A watch says that a pod was deleted: it ended, and when is unknown.
    let text = event("ADDED", &pods[0]) + "\n" + &event("DELETED", &pods[0]);
    let trace = read(&[file(dir.path(), "deleted.json", &text)]).unwrap();
    assert_eq!((trace.jobs.state.get(0), trace.jobs.end.get(0)), (Some("unknown"), None));
}

/// A list cut in its third pod gives the two before, and says where. What a list that was cut lacks was not deleted.
#[test]
fn a_list_cut_short_gives_what_is_before_the_cut() {
    let dir = tempfile::tempdir().unwrap();
    let version = |version: u32| format!(r#","resourceVersion":"{version}""#);
    let later = |pod: String| pod.replace("T10:", "T11:");
    let (a, b) = (later(pod("a", "1", &version(8))), later(pod("b", "2", &version(9))));
    let pods = [a, b, pod("c", "3", &version(2))];
    let whole = file(dir.path(), "whole.json", &list(&[pods[2].clone()]));
    let text = list(&pods);
    let cut = file(dir.path(), "cut.json", &text[..text.len() - 200]);
    let trace = read(&[whole, cut.clone()]).unwrap();
    assert_eq!((trace.jobs.job_key.len(), trace.ledger.read, trace.ledger.damage.len()), (3, 3, 1));
    assert_eq!(trace.jobs.state.iter().collect::<Vec<_>>(), [Some("running"); 3]);
    let strict = ReadOptions { strict: true, ..ReadOptions::default() };
    assert!(ingest::read(&[SourceFile::new(&cut)], &strict).unwrap_err().to_string().contains("ends early"));
}

/// Unusable objects: not an object, an object without a kind, without a name, a pod and a Workload
/// without a creation, a refusal, a pod twice, a node with two values that are no amounts: six
/// cannot be used, one repeats, one is repaired.
#[test]
fn what_cannot_be_used_is_counted_with_its_reason() {
    let dir = tempfile::tempdir().unwrap();
    let items = [
        "3".to_owned(),
        "{}".to_owned(),
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{}}"#.to_owned(),
        pod("a", "1", "").replace("2026-03-02T10:00:00Z", "soon"),
        r#"{"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"Workload","metadata":{"name":"w","namespace":"n"}}"#.to_owned(),
        r#"{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"Forbidden","metadata":{}}"#.to_owned(),
        pod("b", "2", ""),
        pod("b", "2", ""),
        r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"n1"},"status":{"capacity":{"nvidia.com/gpu":"-8","cpu":"many"}}}"#.to_owned(),
    ];
    let trace = read(&[file(dir.path(), "a.json", &list(&items))]).unwrap();
    check(&trace);
    let ledger = &trace.ledger;
    assert_eq!((ledger.read, ledger.kept, ledger.repaired, ledger.quarantined), (9, 1, 1, 7));
    let counts = ["no_kind", "no_key", "no_submit", "api_refused", "duplicate_row", "negative_value", "not_a_number"];
    assert_eq!(counts.map(|reason| ledger.count(reason)), [2, 1, 2, 1, 1, 1, 1]);
    assert_eq!((trace.jobs.job_key.len(), trace.nodes.gpus.get(0)), (1, None));
}

/// Empty, no JSON, and YAML are errors that say what to do; a list of nothing is no row.
#[test]
fn nothing_to_read() {
    let dir = tempfile::tempdir().unwrap();
    let read_as = |text: &str| {
        let options = ReadOptions { reader: Some("kubernetes".to_owned()), ..ReadOptions::default() };
        ingest::read(&[SourceFile::new(file(dir.path(), "a.json", text))], &options)
    };
    for text in ["", " \n", "apiVersion: v1\nkind: List\n", "{"] {
        let error = read_as(text).unwrap_err().to_string();
        assert!(error.contains("kubectl get") || error.contains("export it again"), "{text:?}: {error}");
    }
    let trace = read_as(&list(&[])).unwrap();
    assert_eq!((trace.jobs.job_key.len(), trace.ledger.read, trace.empty.len()), (0, 0, 1));
}

/// A Job whose pod was deleted between two snapshots (its node was drained) and made anew: it began at 10:01 and holds one GPU, not two.
#[test]
fn a_pod_that_took_the_place_of_a_deleted_one_counts_once() {
    let dir = tempfile::tempdir().unwrap();
    let owner = r#","ownerReferences":[{"kind":"Job","name":"j","uid":"9","controller":true}]"#;
    let (before, after) = (pod("j-a", "1", owner), pod("j-b", "2", owner).replace("T10:", "T11:"));
    let paths = [("1.json", before), ("2.json", after)].map(|(name, pod)| file(dir.path(), name, &list(&[pod])));
    let trace = read(&paths).unwrap();
    check(&trace);
    assert_eq!((trace.jobs.job_key.len(), trace.jobs.state.get(0)), (1, Some("running")));
    assert_eq!((trace.jobs.alloc_gpus.get(0), trace.placements.gpus.get(0)), (Some(1.0), Some(1.0)));
    let minutes = |ms: Option<i64>, from: Option<i64>| ms.zip(from).map(|(ms, from)| (ms - from) / 60_000);
    assert_eq!(minutes(trace.jobs.start.get(0), trace.jobs.submit.get(0)), Some(1));
}

/// A name that is used again: the second pod `a` was made later, so its key carries the second of its creation, 2026-03-02 11:00:00.
#[test]
fn a_name_used_again_is_another_job() {
    let dir = tempfile::tempdir().unwrap();
    let again = pod("a", "2", "").replace("T10:", "T11:");
    let trace = read(&[file(dir.path(), "a.json", &list(&[again, pod("a", "1", "")]))]).unwrap();
    assert_eq!(trace.jobs.job_key.iter().collect::<Vec<_>>(), [Some("n/a"), Some("n/a@1772449200")]);
}

/// The fixtures lie where the command can read them as a folder.
#[test]
fn the_folder_is_read_as_one() {
    let trace = read(&[fixture("kubernetes")]).unwrap();
    check(&trace);
    assert_eq!(trace.ledger.quarantined, 0);
    assert!(trace.skipped.is_empty());
}

/// A Job of one GPU of an MPIJob or JobSet `m`.
fn job(name: &str, uid: &str, hour: &str, gpus: u32, status: &str) -> String {
    format!(
        r#"{{"apiVersion":"batch/v1","kind":"Job","metadata":{{"name":"{name}","namespace":"n","uid":"{uid}",
        "creationTimestamp":"2026-03-02T{hour}:00:00Z","ownerReferences":[{{"kind":"X","name":"m","uid":"m","controller":true}}]}},
        "spec":{{"template":{{"spec":{{"containers":[{{"resources":{{"limits":{{"nvidia.com/gpu":"{gpus}"}}}}}}]}}}}}},
        "status":{{{status}}}}}"#
    )
}

/// The launcher of an MPIJob is a Job without GPUs; its two workers with one each belong to the MPIJob: 0 + 2 GPUs.
#[test]
fn workers_that_belong_to_no_job_are_asked_for_too() {
    let dir = tempfile::tempdir().unwrap();
    let owner = r#","ownerReferences":[{"kind":"X","name":"m","uid":"m","controller":true}]"#;
    let items = [job("m-launcher", "l", "10", 0, ""), pod("m-0", "1", owner), pod("m-1", "2", owner)];
    let trace = read(&[file(dir.path(), "a.json", &list(&items))]).unwrap();
    check(&trace);
    assert_eq!(
        (trace.jobs.job_key.len(), trace.jobs.req_gpus.get(0), trace.jobs.alloc_gpus.get(0)),
        (1, Some(2.0), Some(2.0))
    );
}

/// A JobSet made its Job anew: the first failed or was lost, the second completed. One GPU, and completed.
#[test]
fn a_job_that_was_made_anew_counts_once() {
    let dir = tempfile::tempdir().unwrap();
    let is = |kind: &str, hour: &str| {
        format!(
            r#""startTime":"2026-03-02T10:00:00Z","conditions":[{{"type":"{kind}","status":"True","lastTransitionTime":"2026-03-02T{hour}:00:00Z"}}]"#
        )
    };
    for first in [is("Failed", "11"), String::new()] {
        let items = [job("m-0", "1", "10", 1, &first), job("m-0", "2", "12", 1, &is("Complete", "13"))];
        let trace = read(&[file(dir.path(), "a.json", &list(&items))]).unwrap();
        check(&trace);
        assert_eq!((trace.jobs.state.get(0), trace.jobs.req_gpus.get(0)), (Some("completed"), Some(1.0)), "{first}");
    }
}

/// A Workload of one GPU. `conditions` in pairs: type, status, reason and time of day.
fn workload(version: u32, conditions: &[[&str; 4]], spec: &str, status: &str) -> String {
    let condition = |[kind, status, reason, at]: &[&str; 4]| {
        format!(
            r#"{{"type":"{kind}","status":"{status}","reason":"{reason}","lastTransitionTime":"2026-03-02T{at}:00Z"}}"#
        )
    };
    let conditions: Vec<String> = conditions.iter().map(condition).collect();
    let containers = r#"[{"resources":{"limits":{"nvidia.com/gpu":"1"}}}]"#;
    format!(
        r#"{{"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"Workload","metadata":{{"name":"w","namespace":"n","uid":"7",
        "resourceVersion":"{version}","creationTimestamp":"2026-03-02T10:00:00Z"}},"spec":{{"podSets":[{{"name":"main",
        "count":1,"template":{{"spec":{{"containers":{containers}}}}}}}]{spec}}},"status":{{"conditions":[{}]{status}}}}}"#,
        conditions.join(",")
    )
}

/// Three snapshots: 10:05 to 10:15 (600 s past when it was admitted again), 10:30 to 11:00, then deactivated. Kueue's sum of 2,400 s
/// holds both.
#[test]
fn a_deactivated_workload_counts_its_last_attempt_once() {
    let dir = tempfile::tempdir().unwrap();
    let admitted = |at: &'static str| ["Admitted", "True", "Admitted", at];
    let evictions = |deactivated: u32| {
        let preempted = r#"{"reason":"Preempted","underlyingCause":"","count":1}"#;
        format!(
            r#""schedulingStats":{{"evictions":[{preempted},{{"reason":"Deactivated","underlyingCause":"","count":{deactivated}}}]}}"#
        )
    };
    let past = |seconds: u32, deactivated: u32| {
        format!(r#","accumulatedPastExecutionTimeSeconds":{seconds},{}"#, evictions(deactivated))
    };
    let over = [["Admitted", "False", "NoReservation", "11:00"], ["Evicted", "True", "Deactivated", "11:00"]];
    let snapshots = [
        workload(1, &[admitted("10:05")], "", ""),
        workload(2, &[admitted("10:30")], "", &past(600, 0)),
        workload(3, &over, r#","active":false"#, &past(2_400, 1)),
    ];
    let names = ["1.json", "2.json", "3.json"];
    let paths: Vec<PathBuf> =
        names.into_iter().zip(snapshots).map(|(name, of)| file(dir.path(), name, &list(&[of]))).collect();
    let trace = read(&paths).unwrap();
    check(&trace);
    let jobs = &trace.jobs;
    assert_eq!((jobs.state.get(0), jobs.attempts.get(0)), (Some("cancelled"), Some(2)));
    assert_eq!((jobs.run_s.get(0), jobs.reported_run_s.get(0)), (Some(2_400.0), Some(2_400.0)));
}

/// A Kueue admission names no GPUs, as Kueue was configured to leave them out of its quotas: how
/// many were held is unknown, not 0. The pod on `n1` is all there is of it, and holds one.
#[test]
fn gpus_that_kueue_does_not_count_are_not_zero() {
    let dir = tempfile::tempdir().unwrap();
    let given = r#","admission":{"clusterQueue":"q","podSetAssignments":[{"name":"main","count":1,"resourceUsage":{"cpu":"4"}}]}"#;
    let work = workload(1, &[["Admitted", "True", "Admitted", "10:00"]], "", given);
    let pod = pod("p", "1", r#","annotations":{"kueue.x-k8s.io/workload":"w"}"#);
    for (name, items, gpus) in
        [("alone.json", vec![work.clone()], None), ("placed.json", vec![work.clone(), pod], Some(1.0))]
    {
        let trace = read(&[file(dir.path(), name, &list(&items))]).unwrap();
        check(&trace);
        assert_eq!((trace.jobs.req_gpus.get(0), trace.jobs.alloc_gpus.get(0)), (Some(1.0), gpus), "{name}");
    }
}

/// Pods in three namespaces, and later in two: the list is of all namespaces, and the pod of the third was deleted. Later in one: it may
/// be a list of that namespace, and a note says so.
#[test]
fn the_last_pod_of_a_namespace_is_seen_to_be_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let in_space = |name: &str, hour: &str| {
        pod(name, name, "").replace(r#""namespace":"n""#, &format!(r#""namespace":"{name}""#)).replace("T10:", hour)
    };
    let first: Vec<String> = ["x", "y", "z"].iter().map(|name| in_space(name, "T10:")).collect();
    let new = in_space("y", "T10:").replace(r#""uid":"y""#, r#""uid":"y2""#).replace(r#""name":"y""#, r#""name":"y2""#);
    let later = [new.replace("T10:", "T12:"), first[1].clone(), first[2].clone()];
    let read = |name: &str, later: &[String]| {
        let paths = [file(dir.path(), "first.json", &list(&first)), file(dir.path(), name, &list(later))];
        let trace = read(&paths).unwrap();
        check(&trace);
        trace
    };
    let doubt = |trace: &Trace| trace.notes.iter().filter(|note| note.contains("one other namespace")).count();
    let (two, one) = (read("two.json", &later), read("one.json", &later[..2]));
    let states = |trace: &Trace| -> Vec<Option<String>> {
        trace.jobs.state.iter().map(|state| state.map(str::to_owned)).collect()
    };
    let of =
        |states: &[&str]| -> Vec<Option<String>> { states.iter().map(|state| Some((*state).to_owned())).collect() };
    assert_eq!((states(&two), doubt(&two)), (of(&["unknown", "running", "running", "running"]), 0));
    assert_eq!((states(&one), doubt(&one)), (of(&["running"; 4]), 1));
}

/// A node with GPUs.
fn node(name: &str, uid: &str, hour: &str, labels: &str, gpus: u32) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"Node","metadata":{{"name":"{name}","uid":"{uid}",
        "creationTimestamp":"2026-03-02T{hour}:00:00Z","labels":{{{labels}}}}},
        "status":{{"capacity":{{"nvidia.com/gpu":"{gpus}"}},"conditions":[{{"type":"Ready","status":"True"}}]}}}}"#
    )
}

/// `n1` had 4 GPUs, left, and joined again at 12:00 with 8 under another identity; `n2` has 8: 16 GPUs, not 20. In one list as in two
/// snapshots, in either order.
#[test]
fn a_node_that_joins_again_counts_once() {
    let dir = tempfile::tempdir().unwrap();
    let before = node("n1", "a", "07", r#""nvidia.com/gpu.product":"A30""#, 4);
    let after = node("n1", "b", "12", r#""nvidia.com/gpu.product":"H100""#, 8);
    let other = node("n2", "c", "07", r#""nvidia.com/gpu.product":"H100""#, 8);
    let first = file(dir.path(), "first.json", &list(&[before.clone(), other.clone()]));
    let second = file(dir.path(), "second.json", &list(&[other.clone(), after.clone()]));
    let both = file(dir.path(), "both.json", &list(&[after, other, before, pod("p", "1", "")]));
    let queue = r#"{"apiVersion":"scheduling.run.ai/v2","kind":"Queue","metadata":{"name":"q"},"spec":{"resources":{"gpu":{"quota":8}}}}"#;
    let queue = file(dir.path(), "queue.json", queue);
    for paths in [[&first, &second].as_slice(), &[&second, &first], &[&both]] {
        let paths: Vec<PathBuf> = paths.iter().copied().chain([&queue]).cloned().collect();
        let trace = read(&paths).unwrap();
        check(&trace);
        assert_eq!(trace.nodes.gpus.iter().collect::<Vec<_>>(), [Some(8.0); 2]);
        assert_eq!(trace.nodes.gpu_type.iter().collect::<Vec<_>>(), [Some("H100"); 2]);
        assert_eq!(trace.capacity.gpus.iter().collect::<Vec<_>>(), [Some(8.0), Some(16.0)]);
        assert!(
            trace.notes.iter().any(|note| note.contains("1 earlier registration of a node is")),
            "{:?}",
            trace.notes
        );
    }
    // What ran on `n1` is said to have run on what it is now.
    assert_eq!(read(&[both]).unwrap().jobs.gpu_type.get(0), Some("H100"));
}

/// An audit log calls its entries `Event` as well, and one may hold a whole pod. Alone it is an error that says what it is; beside a dump
/// its entries are counted and left out, and the pod in one is no job. A list of the webhook names no kind for its items.
#[test]
fn an_audit_log_is_no_dump() {
    let dir = tempfile::tempdir().unwrap();
    let entry = |id: u32| {
        let pod = pod("created", "9", "");
        format!(
            r#"{{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"RequestResponse","auditID":"{id}","stage":"ResponseComplete",
            "verb":"create","objectRef":{{"resource":"pods"}},"responseObject":{pod}}}"#
        )
    };
    let log = file(dir.path(), "audit.log", &format!("{}\n{}\n", entry(1), entry(2)));
    let bare = entry(3).replace(r#""kind":"Event","apiVersion":"audit.k8s.io/v1","#, "");
    let webhook = format!(r#"{{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{{}},"items":[{bare}]}}"#);
    let webhook = file(dir.path(), "webhook.json", &webhook);
    for path in [&log, &webhook] {
        let error = read(std::slice::from_ref(path)).unwrap_err().to_string();
        assert!(error.contains("an audit log of the API server") && error.contains("kubectl get events -A"), "{error}");
    }
    let dump = file(dir.path(), "pods.json", &list(&[pod("p", "1", "")]));
    let trace = read(&[log, dump, webhook]).unwrap();
    check(&trace);
    assert_eq!(trace.jobs.job_key.iter().collect::<Vec<_>>(), [Some("n/p")]);
    let ledger = &trace.ledger;
    assert_eq!((ledger.read, ledger.kept, ledger.quarantined, ledger.count("audit_entry")), (4, 1, 3, 3));
}

/// Nodes that hand out parts of GPUs as `nvidia.com/gpu`.
///
/// * `t1`: 4 T4 with 4 replicas, 16 units: 4 GPUs, a unit is 1/4. `m1`: 14 slices `1g.5gb` of A100 with 40 GB, 7 fit on one: 2 GPUs, a unit
///   is 1/7, and the memory of a slice is not that of a GPU. `w1`: 8 whole H100 (MIG is set up and off). 4 + 2 + 8 = 14 GPUs.
/// * `notebook` holds 1/4, `infer` 2/7 = 0.285714. `asks` waits for two T4 replicas by its node selector: 2/4. `train` asks for 8 of
///   whatever: counted whole, and a note says so. `sweep` was admitted to 7 slices: 7/7 = 1 GPU.
/// * Quota: 16/4 + 7/7 + 8 = 13 GPUs.
#[test]
fn what_device_plugins_divide_is_counted_in_gpus() {
    let trace = conform("kubernetes", &["kubernetes/parts.json"]);
    insta::assert_snapshot!(render(&trace), @r"
    jobs (5 rows)
      job_key=lab/job-sweep account=lab vc=lab name=sweep job_type=Job gpu_type=NVIDIA-A100-SXM4-40GB-MIG-1g.5gb state=running reported_state=Admitted submit=2026-03-02 09:00:00 start=2026-03-02 09:05:00 censored=1 attempts=1 req_gpus=1 pods=7 alloc_gpus=1
      job_key=lab/notebook account=lab name=notebook job_type=Pod gpu_type=Tesla-T4 state=running reported_state=Running submit=2026-03-02 09:10:00 start=2026-03-02 09:11:00 censored=1 attempts=1 req_gpus=0.25 pods=1 alloc_nodes=1 alloc_gpus=0.25 nodes_hostlist=t1
      job_key=lab/infer account=lab name=infer job_type=Pod gpu_type=NVIDIA-A100-SXM4-40GB-MIG-1g.5gb state=completed reported_state=Succeeded submit=2026-03-02 09:20:00 start=2026-03-02 09:21:00 end=2026-03-02 09:51:00 censored=0 attempts=1 req_gpus=0.285714 pods=1 alloc_nodes=1 alloc_gpus=0.285714 nodes_hostlist=m1 run_s=1800 exit_code=0
      job_key=lab/asks account=lab name=asks job_type=Pod gpu_type=Tesla-T4 state=pending reported_state=Pending submit=2026-03-02 09:30:00 censored=1 attempts=0 req_gpus=0.5 pods=1
      job_key=lab/train account=lab name=train job_type=Pod state=pending reported_state=Pending submit=2026-03-02 09:40:00 censored=1 attempts=0 req_gpus=8 pods=1
    placements (2 rows)
      job_key=lab/notebook attempt=1 node=t1 gpus=0.25
      job_key=lab/infer attempt=1 node=m1 gpus=0.285714
    nodes (3 rows)
      node=m1 gpu_type=NVIDIA-A100-SXM4-40GB gpus=2 cpus=64 mem_bytes=549755813888
      node=t1 gpu_type=Tesla-T4 gpus=4 gpu_mem_bytes=16106127360 cpus=32 mem_bytes=137438953472
      node=w1 gpu_type=NVIDIA-H100-80GB-HBM3 gpus=8 cpus=96 mem_bytes=1099511627776
    capacity (2 rows)
      scope=vc name=lab gpus=13 state=up
      scope=cluster gpus=14 state=up
    quality: read 13 = kept 13 + repaired 0 + quarantined 0
    ");
    let said = |words: &str| trace.notes.iter().filter(|note| note.contains(words)).count();
    assert_eq!(
        said("2 nodes hand out parts of GPUs (time slicing, MPS, or MIG with the strategy single): 30 units"),
        1
    );
    assert_eq!(said("1 pod, Workload or Job asks for GPUs, and nothing says whether"), 1);
    assert_eq!(said("is counted as one GPU"), 0, "{:?}", trace.notes);
}

/// Renamed units (`nvidia.com/gpu.shared`): 2 GPUs with 4 replicas each are 8 units, and one waits for any. Without the labels of the
/// node a unit counts as a GPU, and a note says that nobody knows how large it is.
#[test]
fn renamed_shares_are_parts_where_the_node_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let shared = |text: String| text.replace(r#""nvidia.com/gpu":"#, r#""nvidia.com/gpu.shared":"#);
    let labels = r#""nvidia.com/gpu.product":"Tesla-T4","nvidia.com/gpu.count":"2","nvidia.com/gpu.replicas":"4""#;
    for (name, labels, gpus) in [("told.json", labels, [0.25, 2.0]), ("untold.json", "", [1.0, 8.0])] {
        let pod = shared(pod("p", "1", "")).replace(r#""nodeName":"n1","#, "").replace("Running", "Pending");
        let items = [shared(node("n1", "a", "07", labels, 8)), pod];
        let trace = read(&[file(dir.path(), name, &list(&items))]).unwrap();
        check(&trace);
        assert_eq!([trace.jobs.req_gpus.get(0), trace.nodes.gpus.get(0)], gpus.map(Some), "{name}");
        let unsized_share = trace.notes.iter().any(|note| note.contains("a share of a GPU"));
        assert_eq!(unsized_share, name == "untold.json", "{:?}", trace.notes);
    }
}

/// A Workload that waits for quota, a pod that fits on no node, a suspended Job, and a pod that runs: three reasons. In a later snapshot
/// the pod is bound: the latest copy counts, and its reason is gone.
#[test]
fn what_waits_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let condition = |kind: &str, reason: &str, message: &str| {
        format!(
            r#"{{"type":"{kind}","status":"{}","reason":"{reason}","message":"{message}","lastTransitionTime":"2026-03-02T10:00:00Z"}}"#,
            if kind == "Suspended" { "True" } else { "False" }
        )
    };
    let quota = "insufficient unused quota for nvidia.com/gpu in flavor a100, 8 more needed";
    let work = workload(1, &[], "", "").replace("[]", &format!("[{}]", condition("QuotaReserved", "Pending", quota)));
    let full = "0/4 nodes are available: 4 Insufficient nvidia.com/gpu.";
    let version = |version: u32| format!(r#","resourceVersion":"{version}""#);
    let conditions = condition("PodScheduled", "Unschedulable", full);
    let waits = pod("p", "1", &version(5)).replace(r#""nodeName":"n1","#, "").replace(
        r#""phase":"Running","startTime":"2026-03-02T10:01:00Z""#,
        &format!(r#""phase":"Pending","conditions":[{conditions}]"#),
    );
    let suspended = job(
        "j",
        "2",
        "10",
        1,
        &format!(r#""conditions":[{}]"#, condition("Suspended", "JobSuspended", "Job suspended")),
    );
    let first = file(dir.path(), "first.json", &list(&[work, waits, suspended, pod("runs", "3", "")]));
    let reasons = |trace: &Trace| -> Vec<(String, Option<String>)> {
        let of = |job: usize| trace.jobs.pending_reason.get(job).map(str::to_owned);
        trace.jobs.job_key.iter().flatten().enumerate().map(|(job, key)| (key.to_owned(), of(job))).collect()
    };
    let said = |key: &str, reason: Option<&str>| (key.to_owned(), reason.map(str::to_owned));
    let trace = read(std::slice::from_ref(&first)).unwrap();
    check(&trace);
    assert_eq!(
        reasons(&trace),
        [said("n/m", Some("Job suspended")), said("n/p", Some(full)), said("n/runs", None), said("n/w", Some(quota))]
    );
    let later = read(&[first, file(dir.path(), "later.json", &list(&[pod("p", "1", &version(9))]))]).unwrap();
    assert_eq!(reasons(&later).get(1), Some(&said("n/p", None)));
}

/// A node with one A100 that HAMi lets ten share. `a` and `b` hold a quarter and, by its memory, a half of it for an hour; `c` waits for
/// two tenths of two GPUs. The device plugin counts ten.
#[test]
fn gpus_that_hami_shares() {
    let trace = conform("kubernetes", &["kubernetes/hami.json"]);
    let gpus: Vec<(Option<&str>, Option<f64>, Option<f64>)> = (0..3)
        .map(|job| (trace.jobs.name.get(job), trace.jobs.req_gpus.get(job), trace.jobs.alloc_gpus.get(job)))
        .collect();
    assert_eq!(
        gpus,
        [(Some("a"), Some(0.25), Some(0.25)), (Some("b"), Some(0.5), Some(0.5)), (Some("c"), Some(0.4), None),]
    );
    assert_eq!((trace.nodes.gpus.get(0), trace.nodes.gpu_mem_bytes.get(0)), (Some(1.0), Some(40_960 << 20)));
    let Some(folder) = real_trace("cases/hami") else { return };
    let trace = read(&[folder.join("pods.json"), folder.join("nodes.json")]).unwrap();
    assert_eq!(trace.nodes.gpus.iter().collect::<Vec<_>>(), [Some(1.0)]);
    assert_eq!((trace.jobs.len(), JobFacts::new(&trace).total_gpu_s()), (4, 3_605.0));
}
