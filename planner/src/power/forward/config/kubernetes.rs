//! A plan for Kubernetes: Karpenter's node pools, or the cluster-autoscaler's arguments, and pods that hold idle nodes awake.
//!
//! | plan | Karpenter (`karpenter.sh/v1`) | cluster-autoscaler (its Helm chart's values) |
//! |---|---|---|
//! | `idle_s` | `disruption.consolidateAfter`, policy `WhenEmpty` | `scale-down-unneeded-time` |
//! | `boot_s` | – | `scale-down-delay-after-add`; `max-node-provision-time`, twice as long, at least a minute more |
//! | `sleeps_per_minute` | `disruption.budgets[].nodes`: as many as go at once | `max-scale-down-parallelism` |
//! | `keep_idle` | a pod a node, of a priority below all others | the same |
//! | `canaries` | an annotation of the nodes | the same, and `minSize` |
//! | `actions` | budgets of 0 nodes in the hours in which the schedule puts none to sleep | – |
//!
//! Field names are those of the `NodePool` resource of Karpenter 1, of the chart `autoscaler/cluster-autoscaler`, and of the autoscaler's FAQ.
//! Nodes that run a job are never emptied: Karpenter takes empty ones only, and the autoscaler's threshold of GPU use is next to nothing.
//! The placeholder's priority is −10, as the autoscaler makes no room for pods below that.
//! Every string of the YAML is quoted. O(text).
//!
//! Worked number: 6 sleeps a minute and 120 s to shut down are 6 × 2 = 12 nodes that go at once.

use serde_json::{Map, json};
use tracecast_analytics::time::HOUR_MS;

use super::Rendered;
use crate::error::{Error, Result};
use crate::plan::emit::GPU_RESOURCE;
use crate::plan::emit::karpenter::{NodeClass, NodePool, POOLS};
use crate::plan::emit::slurm::hosts::{Nodes, expand};
use crate::plan::slug::slugs;
use crate::power::forward::plan::{PoolPlan, PowerPlan};
use crate::yaml::stream;

/// cluster-autoscaler: label of nodes that names their group.
const GROUP: &str = "eks.amazonaws.com/nodegroup";
/// Image of the placeholder pods, which do nothing.
const PAUSE: &str = "registry.k8s.io/pause:3.10";
/// Name of the priority of placeholder pods.
const PRIORITY: &str = "tracecast-placeholder";

/// The names of pools as Kubernetes takes them: lower-case letters, digits and `-`.
fn names(plan: &PowerPlan, warnings: &mut Vec<String>) -> Result<Vec<String>> {
    let names = slugs("pool", plan.pools.iter().map(|pool| pool.name.as_str()))?;
    let renamed = plan.pools.iter().zip(&names).filter(|(pool, name)| pool.name != **name);
    warnings.extend(renamed.map(|(pool, name)| format!("pool {:?} is called {name} in Kubernetes", pool.name)));
    Ok(names)
}

/// Nodes that may go at once at the plan's rate; `None` without a limit.
fn at_once(plan: &PowerPlan) -> Option<u64> {
    let minutes = u64::from(plan.shutdown_s.div_ceil(60).max(1));
    (plan.sleeps_per_minute > 0).then(|| u64::from(plan.sleeps_per_minute) * minutes)
}

/// The class of priority and the pods that hold idle nodes of pools awake; `label` names the pool of a node.
fn placeholders(
    plan: &PowerPlan,
    names: &[String],
    label: &str,
    warnings: &mut Vec<String>,
) -> Option<(String, String)> {
    let mut documents = vec![(
        "Pods of this priority give way to all others, and hold nodes awake until then. Below -10 the cluster-autoscaler would\nmake no room for them."
            .to_owned(),
        json!({
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": PRIORITY},
            "value": -10,
            "globalDefault": false,
            "preemptionPolicy": "Never",
            "description": "Idle nodes kept awake by the power plan",
        }),
    )];
    for (pool, name) in plan.pools.iter().zip(names).filter(|(pool, _)| pool.keep_idle > 0) {
        let mut resources = Map::new();
        if pool.gpus_per_node > 0 {
            // A whole node; for such resources limit and request must be the same.
            let gpus = json!({GPU_RESOURCE: pool.gpus_per_node.to_string()});
            resources.insert("limits".to_owned(), gpus.clone());
            resources.insert("requests".to_owned(), gpus);
        } else {
            warnings.push(format!(
                "pool {}: its nodes have no GPUs by the plan, so a placeholder takes a node but not all of it",
                pool.name
            ));
        }
        let app = format!("tracecast-placeholder-{name}");
        let labels = json!({"app": app});
        documents.push((
            format!("Keeps {} idle nodes of pool {} awake, one pod a node.", pool.keep_idle, pool.name.escape_debug()),
            json!({
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": app, "namespace": "kube-system", "labels": labels},
                "spec": {
                    "replicas": pool.keep_idle,
                    "selector": {"matchLabels": labels},
                    "template": {
                        "metadata": {"labels": labels},
                        "spec": {
                            "priorityClassName": PRIORITY,
                            "terminationGracePeriodSeconds": 0,
                            "nodeSelector": {label: name},
                            "tolerations": [{"key": GPU_RESOURCE, "operator": "Exists", "effect": "NoSchedule"}],
                            "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                                {"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}
                            ]}},
                            "containers": [{"name": "placeholder", "image": PAUSE, "resources": resources}],
                        },
                    },
                },
            }),
        ));
    }
    (documents.len() > 1).then(|| ("placeholders.yaml".to_owned(), stream(&documents)))
}

/// The canaries, and the program that marks them with `annotation`.
fn canaries(plan: &PowerPlan, annotation: &str) -> Result<(Nodes, Option<(String, String)>)> {
    let Some(list) = &plan.canaries else { return Ok((Nodes::new(), None)) };
    let nodes = expand(list).map_err(|what| Error::Power(format!("canaries: {what}")))?;
    let mut text = "#!/bin/sh\n# Marks the nodes that never sleep.\nset -eu\n".to_owned();
    for node in &nodes {
        text.push_str(&format!("kubectl annotate --overwrite node {node} {annotation}=true\n"));
    }
    Ok((nodes, Some(("canaries.sh".to_owned(), text))))
}

/// Spans of hours of the day (UTC; first hour and length) in which a schedule puts no node to sleep.
fn quiet_hours(pool: &PoolPlan) -> Vec<(usize, usize)> {
    let mut sleeps = [false; 24];
    for action in pool.actions.iter().filter(|action| action.change < 0) {
        let hour = action.at_ms.div_euclid(HOUR_MS).rem_euclid(24);
        if let Some(hour) = usize::try_from(hour).ok().and_then(|hour| sleeps.get_mut(hour)) {
            *hour = true;
        }
    }
    // Begins after an hour with sleeps, so that a span over midnight is one.
    let Some(first) = sleeps.iter().position(|sleeps| *sleeps) else { return Vec::new() };
    let mut spans: Vec<(usize, usize)> = Vec::new();
    let mut open = false;
    for hour in (first..first + 24).map(|hour| hour % 24) {
        let quiet = !sleeps.get(hour).copied().unwrap_or(true);
        match spans.last_mut().filter(|_| open && quiet) {
            Some(span) => span.1 += 1,
            None if quiet => spans.push((hour, 1)),
            None => {}
        }
        open = quiet;
    }
    spans
}

/// Karpenter's node pools.
pub(super) fn karpenter(plan: &PowerPlan) -> Result<Rendered> {
    let mut warnings = Vec::new();
    let names = names(plan, &mut warnings)?;
    let mut documents = Vec::new();
    for (pool, name) in plan.pools.iter().zip(&names) {
        let may_go = u64::from(pool.total_nodes - pool.keep_idle.min(pool.total_nodes));
        let mut budgets = vec![json!({"nodes": at_once(plan).map_or(may_go, |most| most.min(may_go)).to_string()})];
        for (hour, hours) in quiet_hours(pool) {
            budgets.push(json!({"nodes": "0", "reasons": ["Empty"], "schedule": format!("0 {hour} * * *"), "duration": format!("{hours}h")}));
        }
        let gpus = u64::from(pool.total_nodes) * u64::from(pool.gpus_per_node);
        let node_pool = NodePool {
            name: name.clone(),
            weight: None,
            spot: false,
            requirements: Vec::new(),
            gpus: (gpus > 0).then_some(gpus),
            taint: None,
            stays: false,
            class: NodeClass::Ec2,
            empty_after: format!("{}s", pool.idle_s),
            budgets,
        };
        let about = format!(
            "Pool {}: at most {} nodes; empty ones go after {} s, as many at once as the budgets say.\nHours are UTC. Give it the machines of your site: nodeClassRef and requirements.",
            pool.name.escape_debug(),
            pool.total_nodes,
            pool.idle_s
        );
        documents.push((about, node_pool.object()));
    }
    let mut files = vec![(POOLS.to_owned(), stream(&documents))];
    files.extend(placeholders(plan, &names, "karpenter.sh/nodepool", &mut warnings));
    files.extend(canaries(plan, "karpenter.sh/do-not-disrupt")?.1);
    if plan.wakes_per_minute > 0 {
        warnings.push(format!(
            "Karpenter has no limit of nodes woken a minute; the plan's {} are not kept",
            plan.wakes_per_minute
        ));
    }
    if plan.pools.iter().any(|pool| !pool.actions.is_empty()) {
        warnings.push("Karpenter wakes nodes when pods ask for them, not by a schedule; its budgets keep nodes awake in the hours in which the schedule puts none to sleep".to_owned());
    }
    warnings.push(
        "for a NodePool that exists, take over spec.disruption only: its template says which machines it has"
            .to_owned(),
    );
    Ok(Rendered { files, diff: None, warnings })
}

/// The cluster-autoscaler's arguments, as values of its Helm chart.
pub(super) fn cluster_autoscaler(plan: &PowerPlan) -> Result<Rendered> {
    let mut warnings = Vec::new();
    let names = names(plan, &mut warnings)?;
    let (kept, marks) = canaries(plan, "cluster-autoscaler.kubernetes.io/scale-down-disabled")?;
    let mut groups = Vec::new();
    let longest_s = plan.pools.iter().map(|pool| pool.idle_s).max().unwrap_or_default();
    for (pool, name) in plan.pools.iter().zip(&names) {
        let nodes = match &pool.nodes {
            Some(list) => expand(list).map_err(|what| Error::Power(format!("pool {}: {what}", pool.name)))?,
            None => Nodes::new(),
        };
        let least = nodes.intersection(&kept).count();
        groups.push(json!({"name": name, "minSize": least, "maxSize": pool.total_nodes}));
        if pool.idle_s != longest_s {
            warnings.push(format!(
                "pool {}: its nodes would go after {} s, but the argument holds for all pools and is the longest, {longest_s} s; tag its group with k8s.io/cluster-autoscaler/node-template/autoscaling-options/scaledownunneededtime={}s",
                pool.name, pool.idle_s, pool.idle_s
            ));
        }
        if !pool.actions.is_empty() {
            warnings.push(format!(
                "pool {}: the cluster-autoscaler has no schedule; its {} actions are not in here",
                pool.name,
                pool.actions.len()
            ));
        }
    }
    let mut arguments = json!({
        "scale-down-enabled": true,
        "scale-down-unneeded-time": format!("{longest_s}s"),
        "scale-down-delay-after-add": format!("{}s", plan.boot_s),
        "max-node-provision-time": format!("{}s", plan.boot_s.saturating_mul(2).max(plan.boot_s.saturating_add(60))),
        // Next to nothing: nodes with a job are not emptied to save another node.
        "scale-down-gpu-utilization-threshold": "0.01",
        "enforce-node-group-min-size": true,
    });
    if let (Some(most), Some(arguments)) = (at_once(plan), arguments.as_object_mut()) {
        arguments.insert("max-scale-down-parallelism".to_owned(), most.into());
    }
    let about = "Values of the Helm chart autoscaler/cluster-autoscaler: helm upgrade cluster-autoscaler autoscaler/cluster-autoscaler\n--reuse-values -f cluster-autoscaler-values.yaml. Without Helm, each of extraArgs is an argument --name=value, and each group\n--nodes=minSize:maxSize:name.";
    let values = json!({"autoscalingGroups": groups, "extraArgs": arguments});
    let mut files = vec![("cluster-autoscaler-values.yaml".to_owned(), stream(&[(about.to_owned(), values)]))];
    files.extend(placeholders(plan, &names, GROUP, &mut warnings));
    files.extend(marks);
    if plan.wakes_per_minute > 0 {
        warnings.push(format!(
            "the cluster-autoscaler has no limit of nodes woken a minute; the plan's {} are not kept",
            plan.wakes_per_minute
        ));
    }
    Ok(Rendered { files, diff: None, warnings })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use serde_json::Value;

    use super::super::tests::{plan, pool};
    use super::super::{ConfigOptions, Rendered, Target, render};
    use super::*;
    use crate::power::forward::plan::Action;

    fn of(plan: &PowerPlan, target: Target) -> Rendered {
        render(plan, target, &ConfigOptions::default()).unwrap()
    }

    fn read(text: &str) -> Vec<Value> {
        tracecast_replay::yaml::values("emitted.yaml", text).unwrap()
    }

    fn documents(rendered: &Rendered, file: &str) -> Vec<Value> {
        read(&rendered.files.iter().find(|(name, _)| name == file).unwrap().1)
    }

    fn example() -> PowerPlan {
        let mut one = pool("A100 long", "n[1-16]", 16);
        (one.keep_idle, one.idle_s) = (2, 900);
        let hour = |hour: i64| hour * HOUR_MS;
        one.actions = [(6, 16, 4), (20, 12, -4), (30, 16, 4), (45, 14, -2)]
            .map(|(at, powered, change)| Action { at_ms: hour(at), powered, change })
            .to_vec();
        let mut plan = plan(vec![one, pool("cpu", "c[1-4]", 4)]);
        (plan.boot_s, plan.shutdown_s, plan.sleeps_per_minute) = (300, 110, 3);
        plan.canaries = Some("n[1-2]".to_owned());
        plan
    }

    #[test]
    fn karpenter_gets_node_pools() {
        let rendered = of(&example(), Target::Karpenter);
        let pools = documents(&rendered, "karpenter-nodepools.yaml");
        assert_eq!(pools.len(), 2);
        let spec = &pools[0]["spec"];
        assert_eq!((&pools[0]["apiVersion"], &pools[0]["kind"]), (&json!("karpenter.sh/v1"), &json!("NodePool")));
        assert_eq!(pools[0]["metadata"]["name"], "a100-long");
        assert_eq!(spec["limits"], json!({"nvidia.com/gpu": "128"}), "16 nodes of 8 GPUs");
        assert_eq!(
            (&spec["disruption"]["consolidationPolicy"], &spec["disruption"]["consolidateAfter"]),
            (&json!("WhenEmpty"), &json!("900s"))
        );
        // 3 a minute for 2 minutes are 6 at once. Nodes go to sleep at 20 h and at 45 - 24 = 21 h: from 22 h on none for 22 hours.
        assert_eq!(
            spec["disruption"]["budgets"],
            json!([{"nodes": "6"}, {"nodes": "0", "reasons": ["Empty"], "schedule": "0 22 * * *", "duration": "22h"}])
        );
        // Karpenter's own patterns: a budget's schedule and duration go together.
        assert_eq!(
            spec["template"]["spec"]["nodeClassRef"],
            json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"})
        );
        assert_eq!(pools[1]["spec"]["disruption"]["budgets"], json!([{"nodes": "4"}]), "no more than there are");

        let idle = documents(&rendered, "placeholders.yaml");
        assert_eq!((&idle[0]["kind"], &idle[0]["value"]), (&json!("PriorityClass"), &json!(-10)));
        let pods = &idle[1]["spec"];
        assert_eq!((idle.len(), &pods["replicas"]), (2, &json!(2)));
        assert_eq!(pods["selector"]["matchLabels"], pods["template"]["metadata"]["labels"]);
        let pod = &pods["template"]["spec"];
        assert_eq!(pod["nodeSelector"], json!({"karpenter.sh/nodepool": "a100-long"}));
        assert_eq!(
            pod["containers"][0]["resources"],
            json!({"limits": {"nvidia.com/gpu": "8"}, "requests": {"nvidia.com/gpu": "8"}})
        );
        let canaries = &rendered.files.iter().find(|(name, _)| name == "canaries.sh").unwrap().1;
        assert!(
            canaries.contains("kubectl annotate --overwrite node n2 karpenter.sh/do-not-disrupt=true\n"),
            "{canaries}"
        );
    }

    #[test]
    fn the_autoscaler_gets_arguments() {
        let rendered = of(&example(), Target::ClusterAutoscaler);
        let values = documents(&rendered, "cluster-autoscaler-values.yaml");
        assert_eq!(
            values,
            [json!({
                "autoscalingGroups": [{"name": "a100-long", "minSize": 2, "maxSize": 16}, {"name": "cpu", "minSize": 0, "maxSize": 4}],
                "extraArgs": {
                    "scale-down-enabled": true, "scale-down-unneeded-time": "900s", "scale-down-delay-after-add": "300s",
                    "max-node-provision-time": "600s", "scale-down-gpu-utilization-threshold": "0.01", "enforce-node-group-min-size": true,
                    "max-scale-down-parallelism": 6,
                },
            })]
        );
        // The other pool's 600 s are told with the tag that sets them.
        assert!(
            rendered.warnings.iter().any(|line| line.contains("scaledownunneededtime=600s")),
            "{:?}",
            rendered.warnings
        );
        let pod = documents(&rendered, "placeholders.yaml")[1]["spec"]["template"]["spec"].clone();
        assert_eq!(pod["nodeSelector"], json!({"eks.amazonaws.com/nodegroup": "a100-long"}));
    }

    #[test]
    fn hours_without_sleeps() {
        let mut one = pool("p", "n[1-4]", 4);
        let mut spans = |hours: &[i64]| {
            one.actions =
                hours.iter().map(|hour| Action { at_ms: hour * HOUR_MS + 1, powered: 1, change: -1 }).collect();
            quiet_hours(&one)
        };
        assert_eq!(spans(&[]), []);
        assert_eq!(spans(&[0]), [(1, 23)]);
        assert_eq!(spans(&[3, 12]), [(4, 8), (13, 14)], "13 to 3 is 14 hours");
        assert_eq!(spans(&[-1]), [(0, 23)], "an hour before the epoch is 23 h");
        assert_eq!(spans(&(0..24).collect::<Vec<_>>()), []);
    }

    #[test]
    fn names_that_cannot_be_are_refused() {
        let refused = |names: &[&str]| {
            let plan = plan(names.iter().map(|name| pool(name, "n1", 1)).collect());
            render(&plan, Target::Karpenter, &ConfigOptions::default()).unwrap_err().to_string()
        };
        assert!(refused(&["a_b", "a-b"]).contains("rename one"));
        assert!(refused(&["größe", "--"]).contains("no name"));
    }

    #[test]
    fn a_yaml_reader_agrees() {
        // Where Python has one.
        let here = std::process::Command::new("python3").args(["-c", "import yaml"]).output();
        if !here.is_ok_and(|output| output.status.success()) {
            return;
        }
        for target in [Target::Karpenter, Target::ClusterAutoscaler] {
            for (name, text) in of(&example(), target).files.iter().filter(|(name, _)| name.ends_with(".yaml")) {
                let folder = tempfile::tempdir().unwrap();
                let path = folder.path().join(name);
                std::fs::write(&path, text).unwrap();
                let program = "import json,sys,yaml; print(json.dumps(list(yaml.safe_load_all(open(sys.argv[1])))))";
                let output = std::process::Command::new("python3").args(["-c", program]).arg(&path).output().unwrap();
                let result: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
                assert_eq!(result, read(text), "{name}");
            }
        }
    }
}
