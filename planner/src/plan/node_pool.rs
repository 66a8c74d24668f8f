//! A node pool of Karpenter (`karpenter.sh/v1`), as plans write it: a capacity type, what else its nodes must be, and a limit of GPUs.
//!
//! Nodes go only once they are empty, so that no job is moved for the sake of packing. The class of its nodes is the site's own: plans name the default one of the provider.
//!
//! O(requirements). Worked example: spot in `us-east-1a`, 16 GPUs at most, are the requirements `karpenter.sh/capacity-type In [spot]` and
//! `topology.kubernetes.io/zone In [us-east-1a]`, and the limit `nvidia.com/gpu: 16`.

use serde_json::{Map, Value, json};

/// The file of node pools.
pub(crate) const POOLS: &str = "karpenter-nodepools.yaml";

/// A node pool.
#[derive(Debug, Clone)]
pub(crate) struct NodePool {
    /// Its name.
    pub(crate) name: String,
    /// The greater, the sooner it is tried: from 1 to 100.
    pub(crate) weight: u32,
    /// Whether its nodes are spot.
    pub(crate) spot: bool,
    /// What its nodes must be, beside that: [`within`].
    pub(crate) requirements: Vec<Value>,
    /// Most GPUs, if that is known.
    pub(crate) gpus: Option<u64>,
    /// Its taint: only pods that tolerate it run there.
    pub(crate) taint: Option<&'static str>,
    /// Whether nodes stay however old they are; Karpenter ends others after 30 days.
    pub(crate) stays: bool,
    /// Group and kind of the class of its nodes.
    pub(crate) class: (&'static str, &'static str),
}

/// The class of nodes on AWS.
pub(crate) const EC2: (&str, &str) = ("karpenter.k8s.aws", "EC2NodeClass");
/// The class of nodes on Azure.
pub(crate) const AKS: (&str, &str) = ("karpenter.azure.com", "AKSNodeClass");

/// The requirement that a label is one of some values.
pub(crate) fn within<'v>(label: &str, values: impl IntoIterator<Item = &'v str>) -> Value {
    json!({"key": label, "operator": "In", "values": values.into_iter().collect::<Vec<_>>()})
}

impl NodePool {
    /// The object.
    pub(crate) fn object(&self) -> Value {
        let capacity = if self.spot { "spot" } else { "on-demand" };
        let mut requirements = vec![within("karpenter.sh/capacity-type", [capacity])];
        requirements.extend(self.requirements.iter().cloned());
        let (group, kind) = self.class;
        let mut nodes = Map::new();
        nodes.insert("nodeClassRef".to_owned(), json!({"group": group, "kind": kind, "name": "default"}));
        nodes.insert("requirements".to_owned(), Value::from(requirements));
        if let Some(taint) = self.taint {
            nodes.insert("taints".to_owned(), json!([{"key": taint, "value": "true", "effect": "NoSchedule"}]));
        }
        if self.stays {
            nodes.insert("expireAfter".to_owned(), Value::from("Never"));
        }
        let mut spec = json!({
            "weight": self.weight,
            "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "5m"},
            "template": {"spec": nodes},
        });
        if let (Some(gpus), Some(spec)) = (self.gpus, spec.as_object_mut()) {
            let limits: Map<String, Value> =
                [("nvidia.com/gpu".to_owned(), Value::from(gpus.to_string()))].into_iter().collect();
            spec.insert("limits".to_owned(), limits.into());
        }
        json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": self.name}, "spec": spec})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_example() {
        let pool = NodePool {
            name: "a".to_owned(),
            weight: 100,
            spot: true,
            requirements: vec![within("topology.kubernetes.io/zone", ["us-east-1a"])],
            gpus: Some(16),
            taint: Some("x.dev/job"),
            stays: true,
            class: EC2,
        };
        let object = pool.object();
        let nodes = &object["spec"]["template"]["spec"];
        assert_eq!(nodes["requirements"][0]["values"], json!(["spot"]));
        assert_eq!(nodes["requirements"][1]["values"], json!(["us-east-1a"]));
        assert_eq!(
            (&object["spec"]["limits"]["nvidia.com/gpu"], &nodes["expireAfter"]),
            (&json!("16"), &json!("Never"))
        );
        let bare = NodePool { spot: false, gpus: None, taint: None, stays: false, class: AKS, ..pool }.object();
        let nodes = &bare["spec"]["template"]["spec"];
        assert_eq!(nodes["requirements"][0]["values"], json!(["on-demand"]));
        assert!(bare["spec"]["limits"].is_null() && nodes["taints"].is_null() && nodes["expireAfter"].is_null());
        assert_eq!(nodes["nodeClassRef"]["kind"], "AKSNodeClass");
    }
}
