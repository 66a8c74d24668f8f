use super::super::QuotaFile;
use super::*;

const QUEUES: &str = "apiVersion: v1
kind: List
items:
- apiVersion: scheduling.run.ai/v2
  kind: Queue
  metadata: {name: all}
  spec:
    resources:
      gpu: {quota: -1, limit: -1, overQuotaWeight: 1}
- apiVersion: scheduling.run.ai/v2
  kind: Queue
  metadata: {name: vision, creationTimestamp: \"2026-01-02T00:00:00Z\"}
  spec:
    parentQueue: all
    priority: 200
    reclaimMinRuntime: 1h30m
    resources:
      cpu: {quota: 2000, limit: -1, overQuotaWeight: 1}
      gpu: {quota: 4, limit: 10.5, overQuotaWeight: 2}
- apiVersion: scheduling.run.ai/v2
  kind: Queue
  metadata: {name: speech, creationTimestamp: \"2026-01-01T00:00:00Z\"}
  spec: {parentQueue: all}
- apiVersion: kai.scheduler/v1
  kind: SchedulingShard
  metadata: {name: default}
  spec:
    kValue: 0.5
    minRuntime: {preemptMinRuntime: 5m}
    usageDBConfig:
      clientType: prometheus
      usageParams: {halfLifePeriod: 10m, windowSize: 1w, windowType: tumbling, tumblingWindowStartTime: \"2026-01-05T00:00:00Z\"}
- apiVersion: scheduling.k8s.io/v1
  kind: PriorityClass
  metadata: {name: urgent}
  value: 90
- kind: ConfigMap
  metadata: {name: other}
";

fn governed(text: &str) -> (Cluster, Vec<String>) {
    let file = QuotaFile::parse("q.yaml", text).unwrap();
    let mut notes = Vec::new();
    let cluster = Cluster::of_vcs(&[("vision", 2, 8), ("speech", 0, 8)]);
    let origin_ms = parse_with_offset("2026-01-05T00:01:00Z").unwrap();
    (file.govern(&cluster, Resource::Gpus, origin_ms, &mut notes).unwrap(), notes)
}

#[test]
fn what_kai_says_becomes_a_tree() {
    let (cluster, notes) = governed(QUEUES);
    let names: Vec<&str> = cluster.vcs.iter().map(|vc| vc.name.as_str()).collect();
    assert_eq!(names, ["vision", "speech"]);
    let tree = cluster.kai.unwrap();
    let (vision, speech, all) = (&tree.queues()[0], &tree.queues()[1], &tree.queues()[2]);
    assert_eq!(
        (vision.quota, vision.limit, vision.weight_milli, vision.priority),
        (Some(4000), Some(10_500), 2000, 200)
    );
    assert_eq!((vision.parent, vision.reclaim_min_ms, vision.preempt_min_ms), (Some(2), Some(5_400_000), None));
    // What is not written is nothing.
    assert_eq!((speech.quota, speech.limit, speech.weight_milli, speech.priority), (Some(0), Some(0), 0, 100));
    assert_eq!((all.quota, all.limit, all.created, speech.created, vision.created), (None, None, 0, 1, 2));
    let usage = UsageRule {
        window: UsageWindow::Tumbling { start_ms: -60_000, size_ms: 7 * 86_400_000 },
        half_life_ms: Some(600_000),
        fetch_ms: 60_000,
    };
    let rules = KaiRules { k_milli: 500, usage: Some(usage), preempt_min_ms: 300_000, ..KaiRules::default() };
    assert_eq!(tree.rules(), &rules);
    let told = notes.join("\n");
    assert!(
        told.contains("1 × ConfigMap") && told.contains("run nothing: speech") && told.contains("kValue 0.5"),
        "{told}"
    );
}

#[test]
fn priorities_are_those_of_classes() {
    let file = QuotaFile::parse("q.yaml", QUEUES).unwrap();
    let of = |class: &str| file.priority(class);
    assert_eq!((of("urgent"), of("inference"), of("normal")), (Some(90), Some(125), None));
    assert_eq!((file.usual_priority(), file.names()), (50, vec!["vision".to_owned(), "speech".to_owned()]));
}

#[test]
fn lengths_of_time() {
    let of = milliseconds;
    assert_eq!(
        (of("10m"), of("1h30m"), of("1w2d"), of("0")),
        (Some(600_000), Some(5_400_000), Some(777_600_000), Some(0))
    );
    assert_eq!(
        (of("10"), of(""), of("-5m"), of("5 m"), of("1.2.3s"), of("1e9y")),
        (None, None, None, None, None, None)
    );
}

#[test]
fn what_is_wrong_is_named_with_its_line() {
    let refused = |from: &str, to: &str| {
        assert!(QUEUES.contains(from), "{from}");
        QuotaFile::parse("q.yaml", &QUEUES.replace(from, to)).unwrap_err().to_string()
    };
    let has = |message: String, words: &[&str]| {
        assert!(words.iter().all(|word| message.contains(word)), "{message}");
    };
    has(
        refused("{parentQueue: all}", "{parentQueue: none}"),
        &["q.yaml, line 20", "Queue speech", "none is not in the file"],
    );
    has(
        refused(
            "  spec:\n    resources:\n      gpu: {quota: -1",
            "  spec:\n    parentQueue: all\n    resources:\n      gpu: {quota: -1",
        ),
        &["is its own parent"],
    );
    has(refused("quota: 4", "quota: -4"), &["line 10", "Queue vision", "quota of gpu is -4", "-1"]);
    has(refused("overQuotaWeight: 2", "overQuotaWeight: -2"), &["overQuotaWeight of gpu is -2"]);
    has(refused("limit: 10.5", "limit: many"), &["limit of gpu is \"many\""]);
    has(refused("limit: 10.5", "limits: 10.5"), &["no field `limits`"]);
    has(refused("priority: 200", "priority: high"), &["spec.priority"]);
    has(refused("reclaimMinRuntime: 1h30m", "reclaimMinRuntime: soon"), &["\"soon\"", "1h30m"]);
    has(refused("name: speech", "name: vision"), &["there twice"]);
    has(refused("kValue: 0.5", "kValue: -1"), &["SchedulingShard default", "kValue is -1"]);
    has(refused("kValue: 0.5", "kvalue: 0.5"), &["SchedulingShard default", "`kvalue` is no field", "`kValue`"]);
    has(refused("windowType: tumbling", "windowType: cron"), &["cron"]);
    has(refused("windowType: tumbling", "windowType: weekly"), &["sliding, tumbling"]);
    has(refused("\"2026-01-05T00:00:00Z\"", "soon"), &["tumblingWindowStartTime"]);
    has(refused("windowSize: 1w", "windowSize: 0s"), &["a second at least"]);
}
