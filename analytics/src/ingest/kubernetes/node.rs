//! Nodes: the machine list.
//!
//! GPUs are those of `status.capacity`, failed ones included (`allocatable` leaves these out); where that counts parts of GPUs, they are
//! those that there are ([`super::division`]). HAMi counts each GPU as often as it may be shared, and lists the GPUs in the annotation
//! `hami.io/node-nvidia-register`. The model is what the label
//! `nvidia.com/gpu.product` or its like says. The instance type (`node.kubernetes.io/instance-type`), cordons and conditions have no
//! column in the machine list: they are counted.
//!
//! A machine that leaves the cluster and joins it again under its name is another object, with another identity. It is one machine:
//! [`machines`] keeps the latest registration of each name.
//!
//! Worked example: capacity `{"nvidia.com/gpu": "8", "cpu": "96", "memory": "2113374896Ki"}` and the label
//! `nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3`: 8 GPUs of that model, 96 cores, 2,164,095,893,504 bytes.

use std::collections::BTreeMap;

use serde_json::Value;

use super::division::{Division, cut_from, model, unshared};
use super::object::{Meta, condition, tag, text};
use super::pod::product;
use super::quantity::{Amounts, GPU, SHARED, quantity, slice};
use super::store::{Kept, Store, Stored};
use crate::ingest::field::MIB;
use crate::quality::RowAudit;
use crate::schema::NodeRow;

/// Annotations in which HAMi lists the GPUs of a node.
const REGISTERS: [&str; 2] = ["hami.io/node-nvidia-register", "4pd.io/node-nvidia-register"];

/// GPUs as HAMi lists them.
#[derive(Debug, PartialEq)]
struct Registered {
    gpus: f64,
    /// Memory of one, mebibytes, if all have the same.
    memory_mib: Option<f64>,
    model: Option<String>,
}

/// Reads what HAMi lists: a JSON list of `{"id", "count", "devmem", "devcore", "type", …}`, or, of older versions,
/// `id,count,devmem,devcore,type,numa,health` for each GPU, with a colon after it. `None` if it is neither.
fn registered(text: &str) -> Option<Registered> {
    let text = text.trim();
    let devices: Vec<(Option<f64>, Option<String>)> = if text.starts_with('[') {
        let list: Vec<Value> = serde_json::from_str(text).ok()?;
        let of = |device: &Value| {
            (device.get("devmem").and_then(quantity), device.get("type").and_then(Value::as_str).map(str::to_owned))
        };
        list.iter().map(of).collect()
    } else {
        let of = |device: &str| {
            let fields: Vec<&str> = device.split(',').collect();
            let memory = fields.get(2)?.trim().parse::<f64>().ok()?;
            Some((Some(memory), fields.get(4).map(|model| model.trim().to_owned())))
        };
        text.split(':').filter(|device| !device.trim().is_empty()).map(of).collect::<Option<_>>()?
    };
    let (memory_mib, model) = devices.first()?.clone();
    let alike = devices.iter().all(|(memory, _)| *memory == memory_mib);
    Some(Registered {
        gpus: devices.len() as f64,
        memory_mib: memory_mib.filter(|memory| alike && *memory > 0.0),
        model: model.filter(|model| !model.is_empty()),
    })
}

/// A node.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    pub(super) meta: Meta,
    /// All its labels: flavors name some.
    labels: Vec<(Box<str>, Box<str>)>,
    /// The GPU model.
    product: Option<Box<str>>,
    /// Model by the product label, as node selectors name it.
    pub(super) label: Option<Box<str>>,
    capacity: Amounts,
    /// Amounts of the resources that may be parts of GPUs, as the node hands them out.
    handed: Amounts,
    /// Division of the GPUs, if they are divided.
    pub(super) division: Option<Division>,
    gpu_mem_bytes: Option<i64>,
    pub(super) ready: bool,
    pub(super) cordoned: bool,
    pub(super) instance: bool,
}

impl Node {
    pub(super) fn read(object: &Value, meta: Meta, row: &mut RowAudit<'_>) -> Self {
        let labels = object.pointer("/metadata/labels");
        let pairs = labels.and_then(Value::as_object).into_iter().flatten();
        let given = object.pointer("/status/capacity").or_else(|| object.pointer("/status/allocatable"));
        let mut capacity = Amounts::read(given, row);
        let handed = capacity.clone();
        let label = |key| tag(object, "labels", key);
        let number = |key: &str| labels.and_then(|labels| labels.get(key)).and_then(quantity);
        let registered = REGISTERS.iter().find_map(|key| registered(tag(object, "annotations", key)?));
        let division = Division::new(labels, handed.of(GPU) + handed.of(SHARED)).filter(|_| registered.is_none());
        if let Some(gpus) = registered.as_ref().map(|of| of.gpus).or(division.as_ref().map(|division| division.gpus)) {
            capacity.take(SHARED);
            capacity.set_gpus(Some(gpus));
        }
        let slices: f64 = handed.slices().map(|(_, many)| many).sum();
        if slices > 0.0 {
            let cut = cut_from(product(labels).unwrap_or_default(), handed.slices());
            let counted = number("nvidia.com/gpu.count").filter(|count| (1.0..=1e3).contains(count));
            let gpus = (capacity.of(GPU) + capacity.of(SHARED) + cut).max(counted.unwrap_or(0.0));
            capacity.retain_others();
            capacity.set_gpus(Some(gpus));
        }
        let memory = number("nvidia.com/gpu.memory").or(registered.as_ref().and_then(|of| of.memory_mib));
        let sliced = || handed.gpu_names().find_map(slice).map(Into::into);
        let by_register = || registered.as_ref().and_then(|of| of.model.as_deref().map(Into::into));
        Self {
            product: product(labels).map(|label| model(label).into()).or_else(sliced).or_else(by_register),
            label: product(labels).map(Into::into),
            // The label gives mebibytes of one GPU, or of one slice.
            gpu_mem_bytes: memory
                .filter(|mib| (1.0..1e9).contains(mib) && division.as_ref().is_none_or(|of| of.profile.is_none()))
                .map(|mib| (mib * MIB) as i64),
            ready: condition(object, "Ready", row).is_none_or(|condition| condition.holds),
            cordoned: object.pointer("/spec/unschedulable").and_then(Value::as_bool) == Some(true),
            instance: label("node.kubernetes.io/instance-type")
                .or_else(|| label("beta.kubernetes.io/instance-type"))
                .is_some(),
            labels: pairs.filter_map(|(key, value)| Some((key.as_str().into(), text(Some(value))?.into()))).collect(),
            capacity,
            handed,
            division,
            meta,
        }
    }

    /// Amount of a resource as the node hands it out, which may be parts of GPUs.
    pub(super) fn units(&self, resource: &str) -> f64 {
        self.handed.of(resource)
    }

    /// Memory of one of its GPUs, mebibytes.
    pub(super) fn memory_mib(&self) -> Option<f64> {
        self.gpu_mem_bytes.map(|bytes| bytes as f64 / MIB)
    }

    /// GPUs that such a unit is.
    pub(super) fn part(&self) -> f64 {
        self.division.as_ref().map_or(1.0, |division| division.part)
    }

    /// The GPU model that jobs get here, with the profile of a slice.
    pub(super) fn given(&self) -> Option<&str> {
        let sliced = self.division.as_ref().is_some_and(|division| division.profile.is_some());
        if sliced { self.label.as_deref().map(unshared) } else { self.product.as_deref() }
    }

    /// The value of a label.
    pub(super) fn tagged(&self, key: &str) -> Option<&str> {
        self.labels.iter().find(|(known, _)| **known == *key).map(|(_, value)| &**value)
    }

    /// Whether the node has all of these labels.
    pub(super) fn has(&self, labels: &[(Box<str>, Box<str>)]) -> bool {
        labels.iter().all(|label| self.labels.contains(label))
    }

    pub(super) fn gpus(&self) -> Option<f64> {
        self.capacity.gpus()
    }

    pub(super) fn row(&self) -> NodeRow<'_> {
        NodeRow {
            node: Some((&*self.meta.name).into()),
            gpu_type: self.product.as_deref().filter(|_| self.gpus() != Some(0.0)).map(Into::into),
            gpus: self.gpus(),
            gpu_mem_bytes: self.gpu_mem_bytes,
            cpus: self.capacity.cpus(),
            mem_bytes: self.capacity.mem_bytes(),
            ..NodeRow::default()
        }
    }
}

/// The latest registration of each name, by name. O(n log n).
pub(super) fn machines(nodes: &Store<Node>) -> Vec<&Kept<Node>> {
    let mut latest: BTreeMap<&str, &Kept<Node>> = BTreeMap::new();
    let made = |kept: &Kept<Node>| (kept.object.meta.created, kept.object.meta.version);
    for kept in nodes.iter() {
        let known = latest.entry(&kept.object.meta.name).or_insert(kept);
        if made(known) < made(kept) {
            *known = kept;
        }
    }
    latest.into_values().collect()
}

impl Stored for Node {
    fn meta(&self) -> &Meta {
        &self.meta
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::super::object::Kind;
    use super::*;

    // The worked example of the module; one GPU has failed, so that only 7 can be given out.
    #[test]
    fn a_node_has_the_gpus_of_its_capacity() {
        let object = json!({
            "metadata": {"name": "n1", "labels": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "pool": "h"}},
            "spec": {"unschedulable": true},
            "status": {
                "capacity": {"nvidia.com/gpu": "8", "cpu": "96", "memory": "2113374896Ki"},
                "allocatable": {"nvidia.com/gpu": "7"},
                "conditions": [{"type": "Ready", "status": "Unknown"}]
            }
        });
        let mut row = RowAudit::new("f", 1);
        let meta = Meta::read(&object, Kind::Node, &mut row).unwrap();
        let node = Node::read(&object, meta, &mut row);
        let written = node.row();
        assert_eq!((written.gpus, written.cpus, written.mem_bytes), (Some(8.0), Some(96.0), Some(2_164_095_893_504)));
        assert_eq!(written.gpu_type.as_deref(), Some("NVIDIA-H100-80GB-HBM3"));
        assert!(node.cordoned && !node.ready && !node.instance && row.is_clean());
        assert!(node.has(&[("pool".into(), "h".into())]) && !node.has(&[("pool".into(), "a".into())]));
    }

    fn gpus(labels: &Value, annotations: &Value, capacity: &Value) -> (Option<f64>, Option<f64>) {
        let object = json!({
            "metadata": {"name": "n", "labels": labels, "annotations": annotations}, "status": {"capacity": capacity}
        });
        let mut row = RowAudit::new("f", 1);
        let meta = Meta::read(&object, Kind::Node, &mut row).unwrap();
        let node = Node::read(&object, meta, &mut row);
        (node.gpus(), node.memory_mib())
    }

    // Two GPUs that ten may share each, as older and as newer versions list them.
    #[test]
    fn a_node_of_hami_has_the_gpus_that_are_listed() {
        let units = json!({"nvidia.com/gpu": "20"});
        for text in [
            "GPU-a,10,16384,100,Tesla V100,0,true:GPU-b,10,16384,100,Tesla V100,0,true:",
            r#"[{"id":"GPU-a","count":10,"devmem":16384,"devcore":100,"type":"V100"},{"id":"GPU-b","count":10,"devmem":16384}]"#,
        ] {
            let result = gpus(&json!({}), &json!({"hami.io/node-nvidia-register": text}), &units);
            assert_eq!(result, (Some(2.0), Some(16_384.0)), "{text}");
        }
        for text in ["", "[]", "[1", "odd"] {
            assert_eq!(registered(text), None, "{text}");
        }
    }

    // 7 slices of one H100; four whole A100 and slices of two more, and a label that knows of eight.
    #[test]
    fn slices_with_resources_of_their_own_are_cut_from_gpus() {
        let product = |product: &str| json!({"nvidia.com/gpu.product": product});
        let of = |labels: Value, capacity: Value| gpus(&labels, &json!({}), &capacity).0;
        assert_eq!(of(product("NVIDIA-H100-80GB-HBM3"), json!({"nvidia.com/mig-1g.10gb": "7"})), Some(1.0));
        let mixed = json!({"nvidia.com/gpu": "4", "nvidia.com/mig-3g.20gb": "3", "nvidia.com/mig-1g.5gb": "1"});
        assert_eq!(of(product("A100-SXM4-40GB"), mixed.clone()), Some(6.0));
        let counted = json!({"nvidia.com/gpu.product": "A100-SXM4-40GB", "nvidia.com/gpu.count": "8"});
        assert_eq!(of(counted, mixed), Some(8.0));
    }
}
