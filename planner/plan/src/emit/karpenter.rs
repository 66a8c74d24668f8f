//! A node pool of Karpenter (`karpenter.sh/v1`), as plans write it: a capacity type, what else its nodes must be, and a limit of GPUs.
//!
//! Nodes go only once they are empty, so that no job is moved for the sake of packing. The class of its nodes is the site's own: plans name the kind that Karpenter has for the provider, and `default` for the
//! object. Where nobody says whose the nodes are, the reference is left to be filled in, and nothing can be applied before.
//!
//! O(requirements). Worked example: spot in `us-east-1a`, 16 GPUs at most, are the requirements `karpenter.sh/capacity-type In [spot]` and
//! `topology.kubernetes.io/zone In [us-east-1a]`, and the limit `nvidia.com/gpu: 16`.

use serde_json::{Map, Value, json};

use super::GPU_RESOURCE;
use super::kubernetes::object;

/// The file of node pools.
pub const POOLS: &str = "karpenter-nodepools.yaml";

/// A node pool.
#[derive(Debug, Clone)]
pub struct NodePool {
    /// Name of the pool.
    pub name: String,
    /// The greater, the sooner it is tried: from 1 to 100, if that counts.
    pub weight: Option<u32>,
    /// Whether its nodes are spot.
    pub spot: bool,
    /// Further requirements on the nodes: [`within`].
    pub requirements: Vec<Value>,
    /// Most GPUs, if that is known.
    pub gpus: Option<u64>,
    /// Taint of the nodes: only pods that tolerate it run there.
    pub taint: Option<&'static str>,
    /// Whether nodes stay however old they are; Karpenter ends others after 30 days.
    pub stays: bool,
    /// The kind of class of its nodes.
    pub class: NodeClass,
    /// After how long empty nodes go, such as `5m`.
    pub empty_after: String,
    /// How many may go at once; any number if none.
    pub budgets: Vec<Value>,
}

/// Placeholder for a value that only the site knows.
pub const FILL_IN: &str = "FILL-IN";

/// The kind of class that describes nodes, which each provider has of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeClass {
    /// On AWS.
    Ec2,
    /// On Azure.
    Aks,
    /// On Google Cloud.
    Gce,
    /// Nobody says whose the nodes are, or Karpenter has no class for it here.
    Unknown,
}

impl NodeClass {
    /// The kinds that are known.
    const KNOWN: [Self; 3] = [Self::Ec2, Self::Gce, Self::Aks];

    /// Returns the class of a provider's nodes, by the provider's name in `infra`.
    pub fn new(provider: Option<&str>) -> Self {
        match provider {
            Some("aws") => Self::Ec2,
            Some("azure") => Self::Aks,
            Some("gcp") => Self::Gce,
            _ => Self::Unknown,
        }
    }

    /// Returns the API group and kind of the class.
    fn group_and_kind(self) -> (&'static str, &'static str) {
        match self {
            Self::Ec2 => ("karpenter.k8s.aws", "EC2NodeClass"),
            Self::Aks => ("karpenter.azure.com", "AKSNodeClass"),
            Self::Gce => ("karpenter.k8s.gcp", "GCENodeClass"),
            Self::Unknown => (FILL_IN, FILL_IN),
        }
    }

    /// Returns the sentence above a pool that says what the reader still has to fill in.
    pub fn to_do(self) -> String {
        if self != Self::Unknown {
            return "Give it the class of your site: nodeClassRef.".to_owned();
        }
        let known = Self::KNOWN.map(Self::group_and_kind).map(|(group, kind)| format!("{group}, {kind}"));
        format!(
            "IT CANNOT BE APPLIED YET: whose nodes these are is not known. In nodeClassRef put group, kind and name of your provider's class in place of {FILL_IN} ({}).",
            known.join("; ")
        )
    }

    /// Returns the reference from a pool to its node class.
    pub fn reference(self) -> Value {
        let (group, kind) = self.group_and_kind();
        let name = if self == Self::Unknown { FILL_IN } else { "default" };
        json!({"group": group, "kind": kind, "name": name})
    }
}

/// The requirement that a label is one of some values.
pub fn within<'v>(label: &str, values: impl IntoIterator<Item = &'v str>) -> Value {
    json!({"key": label, "operator": "In", "values": values.into_iter().collect::<Vec<_>>()})
}

impl NodePool {
    /// The object.
    pub fn object(&self) -> Value {
        let capacity = if self.spot { "spot" } else { "on-demand" };
        let mut requirements = vec![within("karpenter.sh/capacity-type", [capacity])];
        requirements.extend(self.requirements.iter().cloned());
        let mut nodes = Map::new();
        nodes.insert("nodeClassRef".to_owned(), self.class.reference());
        nodes.insert("requirements".to_owned(), Value::from(requirements));
        if let Some(taint) = self.taint {
            nodes.insert("taints".to_owned(), json!([{"key": taint, "value": "true", "effect": "NoSchedule"}]));
        }
        if self.stays {
            nodes.insert("expireAfter".to_owned(), Value::from("Never"));
        }
        let mut disruption = json!({"consolidationPolicy": "WhenEmpty", "consolidateAfter": self.empty_after});
        if let (false, Some(fields)) = (self.budgets.is_empty(), disruption.as_object_mut()) {
            fields.insert("budgets".to_owned(), self.budgets.clone().into());
        }
        let mut spec = json!({"disruption": disruption, "template": {"spec": nodes}});
        if let Some(spec) = spec.as_object_mut() {
            spec.extend(self.weight.map(|weight| ("weight".to_owned(), weight.into())));
            spec.extend(self.gpus.map(|gpus| ("limits".to_owned(), json!({GPU_RESOURCE: gpus.to_string()}))));
        }
        object("karpenter.sh/v1", "NodePool", &self.name, &spec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_example() {
        let pool = NodePool {
            name: "a".to_owned(),
            weight: Some(100),
            spot: true,
            requirements: vec![within("topology.kubernetes.io/zone", ["us-east-1a"])],
            gpus: Some(16),
            taint: Some("x.dev/job"),
            stays: true,
            class: NodeClass::new(Some("aws")),
            empty_after: "5m".to_owned(),
            budgets: Vec::new(),
        };
        let object = pool.object();
        let nodes = &object["spec"]["template"]["spec"];
        assert_eq!(nodes["requirements"][0]["values"], json!(["spot"]));
        assert_eq!(nodes["requirements"][1]["values"], json!(["us-east-1a"]));
        assert_eq!(
            (&object["spec"]["limits"]["nvidia.com/gpu"], &nodes["expireAfter"]),
            (&json!("16"), &json!("Never"))
        );
        let bare = NodePool {
            spot: false,
            gpus: None,
            taint: None,
            stays: false,
            class: NodeClass::new(Some("azure")),
            weight: None,
            budgets: vec![json!({"nodes": "2"})],
            ..pool
        };
        let unknown = NodePool { class: NodeClass::new(Some("here")), ..bare.clone() }.object();
        assert_eq!(
            unknown["spec"]["template"]["spec"]["nodeClassRef"],
            json!({"group": "FILL-IN", "kind": "FILL-IN", "name": "FILL-IN"})
        );
        assert!(NodeClass::Unknown.to_do().contains("karpenter.k8s.gcp, GCENodeClass"));
        assert_eq!(NodeClass::new(Some("gcp")).group_and_kind().1, "GCENodeClass");
        let bare = bare.object();
        let nodes = &bare["spec"]["template"]["spec"];
        assert_eq!(nodes["requirements"][0]["values"], json!(["on-demand"]));
        assert!(bare["spec"]["weight"].is_null() && object["spec"]["weight"] == 100);
        assert_eq!(bare["spec"]["disruption"]["budgets"], json!([{"nodes": "2"}]));
        assert!(bare["spec"]["limits"].is_null() && nodes["taints"].is_null() && nodes["expireAfter"].is_null());
        assert_eq!(nodes["nodeClassRef"]["kind"], "AKSNodeClass");
    }
}
