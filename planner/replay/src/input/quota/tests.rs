//! Tests of files of quotas, and of the errors of wrong ones.

use super::*;
use tracecast_sim::{Group, Pool};

const QUEUES: &str = r#"apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: big}
spec:
  nodeLabels: {nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: vision}
spec:
  cohortName: all
  queueingStrategy: StrictFIFO
  preemption:
    withinClusterQueue: LowerOrNewerEqualPriority
    reclaimWithinCohort: Any
    borrowWithinCohort: {policy: LowerPriority, maxPriorityThreshold: 10}
  flavorFungibility: {whenCanBorrow: TryNextFlavor, whenCanPreempt: MayStopSearch}
  fairSharing: {weight: "1500m"}
  resourceGroups:
  - coveredResources: [cpu, memory]
    flavors:
    - name: any
      resources:
      - {name: cpu, nominalQuota: 40}
      - {name: memory, nominalQuota: 2Ti}
  - coveredResources: [nvidia.com/gpu]
    flavors:
    - name: v100
      resources:
      - {name: nvidia.com/gpu, nominalQuota: "4", borrowingLimit: 2, lendingLimit: 1}
    - name: big
      resources:
      - {name: nvidia.com/gpu, nominalQuota: 16}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: speech}
spec:
  cohort: all
  resourceGroups:
  - coveredResources: [nvidia.com/gpu]
    flavors:
    - name: big
      resources:
      - {name: nvidia.com/gpu, nominalQuota: 8}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: Cohort
metadata: {name: all}
spec: {parentName: site}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: WorkloadPriorityClass
metadata: {name: urgent}
value: 1000
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: lq, namespace: a}
spec: {clusterQueue: vision}
"#;

fn cluster(types: &[&str]) -> Cluster {
    let groups = (0u16..).zip(types).map(|(at, _)| Group { gpu_type: Some(at), ..Group::fixed(2, 8) });
    Cluster {
        pools: vec![Pool { groups: groups.collect() }],
        vcs: vec![Vc::new("vision", 0), Vc::new("speech", 0)],
        gpu_types: types.iter().map(|name| (*name).to_owned()).collect(),
        ..Cluster::default()
    }
}

#[test]
fn what_kueue_says_becomes_rules_and_quotas() {
    let file = QuotaFile::parse("q.yaml", QUEUES).unwrap();
    assert_eq!(file.names(), ["vision", "speech"]);
    assert_eq!((file.priority("urgent"), file.priority("other")), (Some(1000), None));
    assert_eq!(file.nominal_gpus(), 28.0);
    let mut notes = Vec::new();
    let result = file.govern(&cluster(&["V100", "nvidia_a100_sxm4_80gb"]), Resource::Gpus, 0, &mut notes).unwrap();
    let cohorts = result.cohorts.as_ref().unwrap();
    let flavors: Vec<_> = cohorts.flavors().iter().map(|flavor| (flavor.name.as_str(), flavor.gpu_type)).collect();
    assert_eq!(flavors, [("v100", Some(0)), ("big", Some(1))]);
    let members: Vec<_> =
        cohorts.members().iter().map(|member| (member.name.as_str(), member.parent, member.weight_milli)).collect();
    assert_eq!(
        members,
        [("vision", Some(2), 1500), ("speech", Some(2), 1000), ("all", Some(3), 1000), ("site", None, 1000)]
    );
    let own = Quota { nominal: 4000, borrowing_limit: Some(2000), lending_limit: Some(1000) };
    assert_eq!(cohorts.members()[0].quotas, [Some(own), Some(Quota { nominal: 16_000, ..Quota::default() })]);
    assert_eq!(cohorts.members()[1].quotas, [None, Some(Quota { nominal: 8_000, ..Quota::default() })]);
    let strict = QueueRules {
        strategy: Queueing::Strict,
        within: Within::LowerOrNewerEqual,
        reclaim: Reclaim::Any,
        borrow_within: Some(Some(10)),
        next_before_borrowing: true,
        next_before_preempting: false,
        flavors: vec![0, 1],
        usage_half_life_ms: None,
    };
    // What is not said is Kueue's default.
    let usual = QueueRules { next_before_preempting: true, flavors: vec![1], ..QueueRules::default() };
    assert_eq!(cohorts.rules(), [strict, usual]);
    assert_eq!(cohorts.fair(), None);
    assert!(notes.iter().any(|note| note.contains("1 × LocalQueue")), "{notes:?}");
    // Processors have quotas of their own.
    let cpus = file.govern(&cluster(&["V100"]), Resource::Cpus, 0, &mut notes).unwrap();
    assert_eq!(cpus.cohorts.unwrap().members()[0].quotas[0].unwrap().nominal, 40_000);
}

#[test]
fn fair_sharing_is_on_where_the_configuration_has_it() {
    let with = |configuration: &str| QuotaFile::parse("q.yaml", &format!("{QUEUES}---\n{configuration}")).unwrap().fair;
    let sharing = |rest: &str| {
        format!("apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\nfairSharing:\n  {rest}\n")
    };
    assert_eq!(with(&sharing("enable: true")), Some(FairPreemption::Both));
    assert_eq!(with(&sharing("enable: false")), None);
    assert_eq!(with(&sharing("preemptionStrategies: [LessThanInitialShare]")), Some(FairPreemption::Initial));
    // The old version must switch it on.
    let old = |rest: &str| sharing(rest).replace("v1beta2", "v1beta1");
    assert_eq!(with(&old("preemptionStrategies: [LessThanInitialShare]")), None);
    assert_eq!(with(&old("enable: true")), Some(FairPreemption::Both));
    // As it lies in the cluster.
    let map = "kind: ConfigMap\nmetadata: {name: kueue-manager-config}\ndata:\n  controller_manager_config.yaml: |\n    kind: Configuration\n    fairSharing:\n      preemptionStrategies: [LessThanOrEqualToFinalShare]\n";
    assert_eq!(with(map), Some(FairPreemption::Final));
}

#[test]
fn what_is_wrong_is_told_with_its_line_and_object() {
    let told = |text: &str| QuotaFile::parse("q.yaml", text).unwrap_err().to_string();
    let changed = |from: &str, to: &str| {
        assert!(QUEUES.contains(from));
        told(&QUEUES.replacen(from, to, 1))
    };
    assert_eq!(
        changed("StrictFIFO", "Fifo"),
        "q.yaml, line 7: ClusterQueue vision: /spec/queueingStrategy is \"Fifo\"; there are BestEffortFIFO, StrictFIFO"
    );
    assert!(
        changed("nominalQuota: \"4\"", "nominalQuota: four")
            .contains("nominalQuota of nvidia.com/gpu in v100 is \"four\"; write a quantity such as 8")
    );
    assert!(changed("nominalQuota: 16", "borrowingLimit: 16").contains("nvidia.com/gpu in big has no nominalQuota"));
    assert!(changed("nominalQuota: 16", "nominalQuota: -1").contains("is -1"));
    assert!(
        changed("lendingLimit: 1}", "lendngLimit: 1}")
            .contains("has no field `lendngLimit`; there are name, nominalQuota")
    );
    assert!(
        changed("reclaimWithinCohort", "reclaimInCohort").contains("spec.preemption has no field `reclaimInCohort`")
    );
    assert!(changed("lendingLimit: 1}", "lendingLimit: 5}").contains("above its nominalQuota"));
    assert!(changed("nominalQuota: 16}", "nominalQuota: 16Gi}").contains("is \"16Gi\"; write a quantity"));
    assert!(changed("kind: Cohort\n", "kind: Cohrt\n").contains("Kueue has no such kind of object"));
    assert!(changed("name: speech", "name: vision").contains("it is there twice"));
    assert!(changed("parentName: site", "parentName: all").contains("its own parent"));
    assert!(changed("value: 1000", "value: high").contains("WorkloadPriorityClass urgent"));
    assert!(told("kind: Cohort\nmetadata: {name: all}\n").contains("no ClusterQueue; export with"));
    assert!(told("").contains("no ClusterQueue"));
    let cpu_only = "kind: ClusterQueue\nmetadata: {name: a}\nspec:\n  resourceGroups:\n  - flavors:\n    - name: any\n      resources:\n      - {name: cpu, nominalQuota: 40}\n";
    let file = QuotaFile::parse("q.yaml", cpu_only).unwrap();
    let error = file.govern(&cluster(&["V100"]), Resource::Gpus, 0, &mut Vec::new()).unwrap_err().to_string();
    assert!(error.contains("no queue has a quota of GPUs"), "{error}");
}

/// The queues, of which `asking` ask for admission fair sharing, with more objects.
fn by_usage(asking: &[&str], more: &str) -> QuotaFile {
    let mut text = QUEUES.to_owned();
    for name in asking {
        let place = format!("metadata: {{name: {name}}}\nspec:\n");
        assert!(text.contains(&place));
        let scope = "  admissionScope: {admissionMode: UsageBasedAdmissionFairSharing}\n";
        text = text.replacen(&place, &format!("{place}{scope}"), 1);
    }
    QuotaFile::parse("q.yaml", &format!("{text}---\n{more}")).unwrap()
}

fn half_lives(file: &QuotaFile, resource: Resource) -> (Vec<Option<i64>>, String) {
    let mut notes = Vec::new();
    let result = file.govern(&cluster(&["V100", "nvidia_a100_sxm4_80gb"]), resource, 0, &mut notes).unwrap();
    let rules = result.cohorts.unwrap().rules().iter().map(|rules| rules.usage_half_life_ms).collect();
    (rules, notes.join(" "))
}

const USAGE: &str = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\nadmissionFairSharing:\n  usageHalfLifeTime: 168h0m0s\n  usageSamplingInterval: 5m\n";

#[test]
fn admission_fair_sharing_has_the_half_life_of_the_configuration() {
    let week = Some(168 * 3_600_000);
    let (result, told) = half_lives(&by_usage(&["vision", "speech"], USAGE), Resource::Gpus);
    assert_eq!(result, [week, week]);
    assert!(
        told.contains(
            "vision, speech: jobs of the user who has used least of the queue lately go first, with a half-life of 7 d"
        ),
        "{told}"
    );
    assert!(told.contains("usageSamplingInterval"), "{told}");
    // Queue by queue.
    let (result, told) = half_lives(&by_usage(&["speech"], USAGE), Resource::Gpus);
    assert_eq!(result, [None, week]);
    assert!(told.contains("speech: jobs of the user") && !told.contains("vision, speech"), "{told}");
    // As it lies in the cluster.
    let map = format!(
        "kind: ConfigMap\nmetadata: {{name: kueue-manager-config}}\ndata:\n  controller_manager_config.yaml: |\n    {}",
        USAGE.trim_end().replace('\n', "\n    ")
    );
    assert_eq!(half_lives(&by_usage(&["vision"], &map), Resource::Gpus).0, [week, None]);
}

#[test]
fn admission_fair_sharing_that_is_not_followed_is_told() {
    let (result, told) = half_lives(&by_usage(&["vision"], ""), Resource::Gpus);
    assert_eq!(result, [None, None]);
    assert!(told.contains("vision asks for admission fair sharing, and no Configuration of q.yaml has"), "{told}");
    let (result, told) = half_lives(&by_usage(&[], USAGE), Resource::Gpus);
    assert_eq!(result, [None, None]);
    assert!(told.contains("no ClusterQueue asks for it"), "{told}");
    let (result, told) = half_lives(&by_usage(&["vision"], &USAGE.replace("168h0m0s", "0s")), Resource::Gpus);
    assert_eq!(result, [None, None]);
    assert!(told.contains("a half-life of 0"), "{told}");
    // Where GPUs weigh nothing, what counts in Kueue is not known here.
    let weights = format!("{USAGE}  resourceWeights: {{nvidia.com/gpu: 0, cpu: 1}}\n");
    let (result, told) = half_lives(&by_usage(&["vision"], &weights), Resource::Gpus);
    assert_eq!(result, [None, None]);
    assert!(told.contains("resourceWeights gives GPUs no weight"), "{told}");
    assert_eq!(half_lives(&by_usage(&["vision"], &weights), Resource::Cpus).0[0], Some(168 * 3_600_000));
    let local = "apiVersion: kueue.x-k8s.io/v1beta2\nkind: LocalQueue\nmetadata: {name: x, namespace: y}\nspec: {clusterQueue: vision, fairSharing: {weight: 2}}\n---\n";
    let (_, told) = half_lives(&by_usage(&["vision"], &format!("{local}{USAGE}")), Resource::Gpus);
    assert!(told.contains("1 LocalQueue has a weight"), "{told}");
    // A file that says nothing of it is told nothing.
    let (_, told) = half_lives(&by_usage(&[], ""), Resource::Gpus);
    assert!(!told.contains("admission fair sharing"), "{told}");
    let wrong = |text: &str| QuotaFile::parse("q.yaml", &format!("{QUEUES}---\n{text}")).unwrap_err().to_string();
    assert!(
        wrong(&USAGE.replace("168h0m0s", "a week")).contains("usageHalfLifeTime is \"a week\"; write a length of time")
    );
    assert!(wrong(&USAGE.replace("usageHalfLifeTime", "usageHalfLifetime")).contains("no field `usageHalfLifetime`"));
}
