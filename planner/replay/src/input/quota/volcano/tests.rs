use super::super::QuotaFile;
use super::*;
use tracecast_sim::volcano::{Eviction, JobOrder, ReclaimFrom};

const QUEUES: &str = "apiVersion: v1
kind: List
items:
- apiVersion: scheduling.volcano.sh/v1beta1
  kind: Queue
  metadata: {name: root}
  spec: {weight: 1}
- apiVersion: scheduling.volcano.sh/v1beta1
  kind: Queue
  metadata: {name: vision, creationTimestamp: \"2026-01-02T00:00:00Z\"}
  spec:
    weight: 3
    priority: 5
    parent: research
    deserved: {nvidia.com/gpu: \"8\", cpu: 96, memory: 1Ti}
    guarantee: {resource: {nvidia.com/gpu: 2}}
    capability: {nvidia.com/gpu: 12}
  status: {state: Open}
- apiVersion: scheduling.volcano.sh/v1beta1
  kind: Queue
  metadata: {name: speech, creationTimestamp: \"2026-01-01T00:00:00Z\"}
  spec: {parent: root, reclaimable: false}
- apiVersion: scheduling.volcano.sh/v1beta1
  kind: Queue
  metadata: {name: research}
  spec:
    parent: root
    deserved: {nvidia.com/gpu: 8}
- apiVersion: scheduling.k8s.io/v1
  kind: PriorityClass
  metadata: {name: urgent}
  value: 90
- apiVersion: scheduling.k8s.io/v1
  kind: PriorityClass
  metadata: {name: normal}
  globalDefault: true
  value: 10
- kind: Service
  metadata: {name: other}
";

/// A configuration with the plugin of the queues and the actions that stop jobs.
fn conf(actions: &str, gang: &str, rest: &str) -> String {
    format!(
        "---
kind: ConfigMap
metadata: {{name: volcano-scheduler-configmap}}
data:
  volcano-scheduler.conf: |
    actions: \"{actions}\"
    tiers:
    - plugins:
      - name: priority
      - name: gang
{gang}      - name: conformance
    - plugins:
      - name: drf
        enablePreemptable: false
{rest}      - name: nodeorder
"
    )
}

const CAPACITY: &str = "      - name: capacity\n        enableHierarchy: true\n";
const PROPORTION: &str = "      - name: proportion\n";

fn governed(text: &str) -> (Cluster, Vec<String>) {
    let file = QuotaFile::parse("q.yaml", text).unwrap();
    let mut notes = Vec::new();
    let cluster = Cluster::of_vcs(&[("vision", 2, 8), ("speech", 0, 8)]);
    (file.govern(&cluster, Resource::Gpus, 0, &mut notes).unwrap(), notes)
}

#[test]
fn what_volcano_says_becomes_a_tree() {
    let text = QUEUES.to_owned() + &conf("enqueue, allocate, backfill, reclaim", "", CAPACITY);
    let (cluster, notes) = governed(&text);
    let names: Vec<&str> = cluster.vcs.iter().map(|vc| vc.name.as_str()).collect();
    assert_eq!(names, ["vision", "speech"]);
    let tree = cluster.volcano.unwrap();
    let [vision, speech, research] = tree.queues() else { panic!("{tree:?}") };
    assert_eq!(
        (vision.weight, vision.deserved, vision.guarantee, vision.capability, vision.priority, vision.reclaimable),
        (3, Some(8000), 2000, Some(12_000), 5, true)
    );
    assert_eq!(
        (speech.weight, speech.deserved, speech.guarantee, speech.capability, speech.priority, speech.reclaimable),
        (1, None, 0, None, 0, false)
    );
    assert_eq!((vision.parent, speech.parent, research.parent), (Some(2), None, None));
    assert_eq!((research.created, speech.created, vision.created), (0, 1, 2));
    let rules = VolcanoRules {
        plugin: Plugin::Capacity,
        order: vec![JobOrder::Priority, JobOrder::Drf],
        evictions: vec![Eviction::Reclaim(ReclaimFrom::Over)],
    };
    assert_eq!(tree.rules(), &rules);
    let told = notes.join("\n");
    assert!(
        told.contains("1 × Service") && told.contains("enqueue is not replayed") && told.contains("16 GPUs"),
        "{told}"
    );
    // Priorities are those of classes, or of the one that all have by default.
    let file = QuotaFile::parse("q.yaml", &text).unwrap();
    assert_eq!((file.priority("urgent"), file.priority("other"), file.usual_priority()), (Some(90), None, 10));
}

#[test]
fn without_a_configuration_what_is_usual_holds() {
    let (cluster, notes) = governed(QUEUES);
    let tree = cluster.volcano.unwrap();
    assert_eq!((tree.rules().plugin, tree.leaves()), (Plugin::Capacity, 2));
    assert!(notes.join("\n").contains("No volcano-scheduler.conf"), "{notes:?}");
    // Without `deserved` it is Volcano's own configuration, in which all queues are equal and nobody is stopped.
    let plain = QUEUES
        .replace("deserved: {nvidia.com/gpu: \"8\", cpu: 96, memory: 1Ti}", "weight: 2")
        .replace("    weight: 3\n", "");
    let plain = plain.replace("deserved: {nvidia.com/gpu: 8}", "weight: 1");
    let (cluster, notes) = governed(&plain);
    let tree = cluster.volcano.unwrap();
    assert_eq!((tree.rules(), tree.leaves()), (&VolcanoRules::default(), 3));
    assert!(notes.join("\n").contains("`parent`"), "{notes:?}");
}

#[test]
fn the_tiers_say_who_is_stopped() {
    let evictions = |actions: &str, gang: &str, plugin: &str| {
        let (cluster, notes) = governed(&(QUEUES.to_owned() + &conf(actions, gang, plugin)));
        (cluster.volcano.unwrap().rules().evictions.clone(), notes.join("\n"))
    };
    let (over, any) = (Eviction::Reclaim(ReclaimFrom::Over), Eviction::Reclaim(ReclaimFrom::Any));
    let no = "        enablePreemptable: false\n";
    // gang protects whole gangs in its tier; the next one is asked about queues, not about priorities.
    let (result, told) = evictions("allocate, preempt, reclaim", "", PROPORTION);
    assert!(result == [over] && told.contains("preempt stops nobody"), "{told}");
    assert_eq!(evictions("allocate, preempt, reclaim", no, PROPORTION).0, [Eviction::Preempt, over]);
    assert_eq!(evictions("allocate, reclaim, preempt", no, CAPACITY).0, [over, Eviction::Preempt]);
    // conformance decides alone if gang abstains.
    let abstains = "        enablePreemptable: false\n        enableReclaimable: false\n";
    let (result, told) = evictions("allocate, reclaim", abstains, CAPACITY);
    assert!(result == [any] && told.contains("any reclaimable queue"), "{told}");
    let protects = "      - name: gang\n".to_owned() + CAPACITY;
    let (result, told) = evictions("allocate, reclaim", "", &protects);
    assert!(result.is_empty() && told.contains("reclaim stops nobody"), "{told}");
    assert_eq!(evictions("allocate, gangreclaim, gangpreempt", "", CAPACITY).0, [over, Eviction::Preempt]);
    assert!(evictions("allocate, gangreclaim", "", PROPORTION).1.contains("asks the plugin capacity"));
    // The configuration may stand there as it is.
    let bare = "actions: allocate\ntiers:\n- plugins:\n  - {name: drf}\n  - {name: priority, enableJobOrder: false}\n  - {name: proportion}\n---\n";
    let tree = governed(&(bare.to_owned() + QUEUES)).0.volcano.unwrap();
    assert_eq!((tree.rules().order.as_slice(), tree.rules().evictions.len()), ([JobOrder::Drf].as_slice(), 0));
}

#[test]
fn what_is_wrong_is_named_with_its_line() {
    let text = QUEUES.to_owned() + &conf("allocate, reclaim", "", CAPACITY);
    let refused = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        QuotaFile::parse("q.yaml", &text.replace(from, to)).unwrap_err().to_string()
    };
    let has = |message: String, words: &[&str]| {
        assert!(words.iter().all(|word| message.contains(word)), "{message}");
    };
    has(refused("parent: research", "parent: none"), &["q.yaml, line 8", "Queue vision", "none is not in the file"]);
    has(refused("    parent: root\n    deserved", "    parent: research\n    deserved"), &["is its own parent"]);
    has(refused("weight: 3", "weight: -3"), &["line 8", "Queue vision", "spec.weight is -3", "from 1"]);
    has(refused("weight: 3", "weight: heavy"), &["spec.weight"]);
    has(refused("\"8\"", "\"many\""), &["nvidia.com/gpu in /spec/deserved", "\"many\"", "quantity"]);
    has(refused("\"8\"", "-8"), &["nvidia.com/gpu in /spec/deserved", "-8"]);
    has(refused("memory: 1Ti", "memory: lots"), &["memory in /spec/deserved"]);
    has(refused("capability: {nvidia.com/gpu: 12}", "capability: 12"), &["/spec/capability is 12"]);
    has(refused("nvidia.com/gpu: 12", "nvidia.com/gpu: 4"), &["line 8", "above its capability"]);
    has(refused("{nvidia.com/gpu: 2}", "{nvidia.com/gpu: 9}"), &["guarantee is above its deserved"]);
    has(refused("reclaimable: false", "reclaimable: maybe"), &["spec.reclaimable"]);
    has(refused("priority: 5", "priority: high"), &["spec.priority"]);
    has(refused("capability:", "capabilty:"), &["no field `capabilty`"]);
    has(refused("name: speech", "name: vision"), &["there twice"]);
    has(refused("value: 90", "value: much"), &["PriorityClass urgent"]);
    let both = format!("{PROPORTION}{CAPACITY}");
    has(refused(CAPACITY, &both), &["both on"]);
    has(refused(CAPACITY, ""), &["neither the plugin proportion nor capacity"]);
    has(refused("allocate, reclaim", "allocate, reclame"), &["no action `reclame`", "reclaim"]);
    has(refused("actions: \"allocate, reclaim\"", "actions: \"reclaim\""), &["allocate"]);
    has(refused("enableHierarchy", "enablehierarchy"), &["`enablehierarchy` is no field", "`enableHierarchy`"]);
    has(refused("enableHierarchy: true", "enableHierarchy: often"), &["true or false"]);
    let twice = text.clone() + &conf("allocate", "", CAPACITY);
    has(QuotaFile::parse("q.yaml", &twice).unwrap_err().to_string(), &["another configuration"]);
    let alone = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: root}\n";
    has(QuotaFile::parse("q.yaml", alone).unwrap_err().to_string(), &["no Queue but root"]);
    let loops = text.replace("allocate, reclaim", "allocate, preempt").replace("      - name: priority\n", "");
    let loops = loops.replace("      - name: gang\n", "      - name: gang\n        enablePreemptable: false\n");
    has(QuotaFile::parse("q.yaml", &loops).unwrap_err().to_string(), &["preempt without the plugin priority"]);
}
