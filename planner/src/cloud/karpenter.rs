//! A cloud plan as node pools of Karpenter, and in words which of them to use when.
//!
//! A pool on spot for each zone in the plan's order, the first with the greatest weight, and one on-demand where it is begun, with the least. Their taint keeps others off. Karpenter tries pools by
//! weight and knows no deadline, so pods say by their node selector whether on-demand is open to them, and the notes say when. It runs in a cluster of one region: pools of several regions
//! are files of their own.
//!
//! A trace names GPUs (`V100:1`), not instance types. On AWS and Azure pools ask for them by the labels of the provider's Karpenter; where a trace names an instance type, by that. A zone of no known
//! form is nobody's: its pool names neither zone nor GPUs, and its class of nodes is left to be filled in. The limit is the GPUs that the job takes at once, where their number is known.
//!
//! O(zones). Worked example: 16 instances of `V100:1` in `us-east-1a` are `karpenter.k8s.aws/instance-gpu-name In [v100]`, `…-count In [1]` and the limit `nvidia.com/gpu: 16`.

use serde_json::Value;

use super::emit::{back_to_spot, headed, moments};
use super::job::Holding;
use super::plan::CloudPlanAnswer;
use crate::market::zone::{infra, region_of};
use crate::plan::Emitted;
use crate::plan::emit::karpenter::{FILL_IN, NodeClass, NodePool, POOLS, within};
use crate::plan::slug::slug;
use crate::yaml::stream;

/// The taint of the job's nodes: only pods that tolerate it run there.
const TAINT: &str = "tracecast.dev/deadline";
/// The label by which pods choose between spot and on-demand.
const CAPACITY: &str = "karpenter.sh/capacity-type";

/// What an instance is, as far as a trace says it.
enum Instance<'a> {
    /// So many GPUs of a model.
    Gpus(&'a str, u64),
    /// An instance type.
    Type(&'a str),
    /// Unknown: the trace does not say.
    Unknown,
}

impl<'a> Instance<'a> {
    fn new(instance: Option<&'a str>) -> Self {
        let Some(name) = instance.filter(|name| !name.is_empty()) else { return Self::Unknown };
        match name.split_once(':').map(|(gpu, count)| (gpu, count.parse())) {
            Some((gpu, Ok(count))) if count > 0 && !gpu.is_empty() => Self::Gpus(gpu, count),
            Some(_) => Self::Unknown,
            None => Self::Type(name),
        }
    }

    /// What its nodes must be, by a provider's labels.
    fn requirements(&self, provider: Option<&str>) -> Vec<Value> {
        let (gpu, count) = match self {
            Self::Gpus(gpu, count) => (*gpu, count.to_string()),
            Self::Type(name) => return vec![within("node.kubernetes.io/instance-type", [*name])],
            Self::Unknown => return Vec::new(),
        };
        // `A100-80GB` says the memory of a GPU, in the words of SkyPilot.
        let (model, gib) = match gpu.rsplit_once('-') {
            Some((model, size)) => match size.strip_suffix("GB").and_then(|size| size.parse::<u64>().ok()) {
                Some(gib) => (model, Some(gib)),
                None => (gpu, None),
            },
            None => (gpu, None),
        };
        match provider {
            Some("aws") => {
                let mut result = vec![
                    within("karpenter.k8s.aws/instance-gpu-name", [model.to_ascii_lowercase().as_str()]),
                    within("karpenter.k8s.aws/instance-gpu-count", [count.as_str()]),
                ];
                result.extend(
                    gib.map(|gib| within("karpenter.k8s.aws/instance-gpu-memory", [(gib * 1024).to_string().as_str()])),
                );
                result
            }
            Some("azure") => vec![
                within("karpenter.azure.com/sku-gpu-name", [model]),
                within("karpenter.azure.com/sku-gpu-count", [count.as_str()]),
            ],
            _ => Vec::new(),
        }
    }
}

/// A zone of the plan: its name, and its provider, if that is known.
fn placed(zone: Option<&str>) -> (Option<&str>, Option<String>) {
    let Some(place) = zone.and_then(|zone| infra(None, zone)) else { return (None, None) };
    (zone, place.split('/').next().map(str::to_owned))
}

/// A pool in a zone, with what is said above it.
fn pool(answer: &CloudPlanAnswer, spot: bool, (turn, zone): (u32, Option<&str>)) -> (String, Value) {
    let instance = Instance::new(answer.body.instance.as_deref());
    let (zone, provider) = placed(zone);
    let mut requirements = instance.requirements(provider.as_deref());
    let mut about = match spot {
        true => format!("Spot, number {} to be tried.", turn + 1),
        false => "On demand, for when the notes say so: KARPENTER.txt.".to_owned(),
    };
    let class = NodeClass::new(provider.as_deref());
    about.push_str(&format!("\nFor pods that tolerate the taint {TAINT}. {}", class.to_do()));
    match (&instance, requirements.is_empty()) {
        (Instance::Gpus(gpu, count), true) => about.push_str(&format!(
            "\nIt does not name the instance type, which has {count} of {gpu}: add node.kubernetes.io/instance-type."
        )),
        (Instance::Gpus(..), false) => about.push_str(
            "\nThe trace names GPUs, not instance types: every type that has them may come. Add node.kubernetes.io/instance-type for one of them.",
        ),
        (Instance::Unknown, _) => {
            about.push_str("\nThe trace does not say what its instances are: add node.kubernetes.io/instance-type and limits.");
        }
        (Instance::Type(_), _) => {}
    }
    if let Some(zone) = zone {
        requirements.push(within("topology.kubernetes.io/zone", [zone]));
    } else {
        about.push_str("\nThe zone of the trace is not known: add topology.kubernetes.io/zone.");
    }
    let about = headed(answer, &about);
    let kind = if spot { "spot" } else { "on-demand" };
    let name = match zone.and_then(slug) {
        Some(zone) => format!("deadline-{kind}-{zone}"),
        None => format!("deadline-{kind}"),
    };
    let pool = NodePool {
        name,
        weight: Some(if spot { 100u32.saturating_sub(turn).max(2) } else { 1 }),
        spot,
        requirements,
        gpus: match instance {
            Instance::Gpus(_, count) => Some(count * u64::from(answer.body.need)),
            _ => None,
        },
        taint: Some(TAINT),
        stays: true,
        class,
        empty_after: "5m".to_owned(),
        budgets: Vec::new(),
    };
    (about, pool.object())
}

/// The node pools of a plan, and notes.
pub fn karpenter(answer: &CloudPlanAnswer) -> Vec<Emitted> {
    let zones = answer.body.zones.as_ref();
    // Zones of no known form are told apart by nothing that a pool could name, so that one pool stands for all of them.
    let mut on_spot: Vec<Option<&str>> = match zones {
        Some(zones) => zones.order.iter().map(|zone| placed(Some(zone)).0).collect(),
        None => vec![placed(answer.body.zone.as_deref()).0],
    };
    let unnamed = on_spot.iter().position(Option::is_none);
    let mut at = 0;
    on_spot.retain(|zone| {
        at += 1;
        zone.is_some() || unnamed == Some(at - 1)
    });
    let begun = zones.map_or(answer.body.zone.as_deref(), |zones| Some(zones.on_demand_zone.as_str()));
    let mut pools: Vec<(String, bool, (String, Value))> = Vec::new();
    let region = |zone: Option<&str>| zone.map_or_else(String::new, |zone| region_of(zone).to_owned());
    for (turn, zone) in (0u32..).zip(on_spot.iter().copied()) {
        pools.push((region(zone), true, pool(answer, true, (turn, zone))));
    }
    pools.push((region(placed(begun).0), false, pool(answer, false, (0, begun))));
    let mut regions: Vec<&str> = Vec::new();
    for (region, ..) in &pools {
        if !regions.contains(&region.as_str()) {
            regions.push(region);
        }
    }
    let file = |region: &str| match (regions.len(), slug(region)) {
        (1, _) | (_, None) => POOLS.to_owned(),
        (_, Some(region)) => POOLS.replace(".yaml", &format!("-{region}.yaml")),
    };
    let mut files: Vec<Emitted> = regions
        .iter()
        .map(|region| {
            let of = pools.iter().filter(|(of, ..)| of == region).map(|(.., pool)| pool.clone());
            (file(region), stream(&of.collect::<Vec<_>>()))
        })
        .collect();
    files.push(("KARPENTER.txt".to_owned(), notes(answer, regions.len()).join("\n\n") + "\n"));
    files
}

/// Notes on which pools to use when.
fn notes(answer: &CloudPlanAnswer, regions: usize) -> Vec<String> {
    let mut notes = moments(answer, "the pods on on-demand nodes");
    let named = answer.body.zones.iter().flat_map(|zones| zones.order.iter().chain([&zones.on_demand_zone]));
    let named: Vec<Option<&str>> = match answer.body.zones {
        Some(_) => named.map(|zone| Some(zone.as_str())).collect(),
        None => vec![answer.body.zone.as_deref()],
    };
    let is_known = |zone: &Option<&str>| NodeClass::new(placed(*zone).1.as_deref()) != NodeClass::Unknown;
    if !named.iter().all(is_known) {
        notes.push(format!(
            "Some pools CANNOT BE APPLIED YET: the name of the zone does not say whose it is, so their nodeClassRef says {FILL_IN}. Put in what your provider's Karpenter calls the class of nodes; the pools say which are known."
        ));
    }
    let now = match (answer.body.now.if_up, answer.body.now.if_down) {
        (Holding::Spot, Holding::OnDemand) => format!(
            "Now: the pods select no {CAPACITY}. Karpenter then tries the pools on spot by their weights, and on-demand where none can be had."
        ),
        (Holding::Spot, _) => format!(
            "Now: the pods have the node selector `{CAPACITY}: spot`. Karpenter tries the pools on spot by their weights, and the pods wait where none can be had."
        ),
        (Holding::OnDemand, _) => format!("Now: the pods have the node selector `{CAPACITY}: on-demand`."),
        (Holding::Idle, _) => {
            "Now: do not make the pods yet, and ask again at the next moment of the trace.".to_owned()
        }
    };
    notes.push(now);
    notes.push(format!(
        "All pods of the job tolerate the taint `{TAINT}`, ask for `nvidia.com/gpu`, and have the annotation `karpenter.sh/do-not-disrupt: \"true\"`, so that Karpenter moves none of them."
    ));
    notes.push(format!(
        "A spot node that is lost ends its pods. Their Job makes them again, and Karpenter takes the first pool by weight that can be had. It knows no deadline: at the moment above, delete the Job and make it again \
         with the node selector `{CAPACITY}: on-demand`. When spot is lost before that, ask `tracecast plan rent job` again with the work and the time that are left."
    ));
    notes.push(back_to_spot(answer));
    notes.push(format!(
        "Karpenter does not go back by itself: the pods run on, and with the node selector `{CAPACITY}: on-demand` they may not run on spot. To go back let the job write a checkpoint, delete it, and make it again with the \
         node selector `{CAPACITY}: spot`. Where a changeover is all the time that is spare, stay."
    ));
    notes.push(
        "The pods find their work in a checkpoint that the job writes to storage that outlives its node.".to_owned(),
    );
    if let Some(nodes) = &answer.body.nodes {
        notes.push(format!(
            "The job is elastic: each pod is one of its nodes, of which up to {} work at once. Make as many pods of each kind as this says. Spot nodes {}.",
            answer.body.need,
            nodes.in_words()
        ));
    } else if answer.body.need > 1 {
        notes.push(format!(
            "The job needs all {} nodes at once, and Karpenter brings them one by one: let a queue such as Kueue start its pods together.",
            answer.body.need
        ));
    }
    if regions > 1 {
        notes.push(
            "Karpenter runs in a cluster of one region, and the pools are of several: each file is for the cluster of its region. To move to another region, make the Job in the cluster there."
                .to_owned(),
        );
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_trace_says_of_instances() {
        let of = |instance: Option<&str>, provider: &str| {
            let result = Instance::new(instance).requirements(Some(provider));
            let told = |of: &Value| format!("{}={}", of["key"].as_str().unwrap_or_default(), of["values"][0]);
            result.iter().map(told).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            of(Some("V100:1"), "aws"),
            "karpenter.k8s.aws/instance-gpu-name=\"v100\" karpenter.k8s.aws/instance-gpu-count=\"1\""
        );
        assert!(of(Some("A100-80GB:8"), "aws").ends_with("instance-gpu-memory=\"81920\""));
        assert!(of(Some("A100-80GB:8"), "aws").contains("instance-gpu-name=\"a100\""));
        assert!(of(Some("T4:4"), "azure").contains("sku-gpu-name=\"T4\""));
        assert_eq!(of(Some("p3.2xlarge"), "aws"), "node.kubernetes.io/instance-type=\"p3.2xlarge\"");
        // Nothing is made up: of Google's labels, of no instance, and of none that can be read.
        for (instance, provider) in
            [(Some("V100:1"), "gcp"), (None, "aws"), (Some("V100:x"), "aws"), (Some(":0"), "aws")]
        {
            assert_eq!(of(instance, provider), "");
        }
    }
}
