//! Queues and what they are entitled to: Kueue's LocalQueue, ClusterQueue, Cohort and ResourceFlavor, the KAI scheduler's Queue, and
//! PodGroups, which name the queue of their pods.
//!
//! The ClusterQueue is the VC of a job, and the nominal quota of GPUs, summed over its flavors, is the VC's capacity. So is the GPU
//! quota of a KAI queue that has no queue below it (a parent's quota is its children's). Where one of them is without bound and the
//! nodes are not known, no capacity is written: the sum of the others would pass for the cluster. Quotas have no date: the object
//! holds the present one. Borrowing and lending limits, cohorts, weights, preemption and a stopped queue have no column in the trace;
//! [`Quotas::unused`] lists how many there were.
//!
//! Worked example: flavors `a100` with 16 and `h100` with 8 of `nvidia.com/gpu`, `borrowingLimit` 8 on the first, `cohortName: all`:
//! a VC of 24 GPUs; one borrowing limit and one cohort are listed as read and not used.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::object::{Meta, moment, text};
use super::quantity::{Amounts, without_dust};
use super::store::Stored;
use crate::quality::RowAudit;
use crate::schema::CapacityRow;
use crate::trace::Trace;

/// A LocalQueue.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LocalQueue {
    pub(super) meta: Meta,
    pub(super) cluster_queue: Option<Box<str>>,
}

impl LocalQueue {
    pub(super) fn read(object: &Value, meta: Meta) -> Self {
        Self { cluster_queue: text(object.pointer("/spec/clusterQueue")).map(Into::into), meta }
    }
}

/// A ClusterQueue, or a Cohort, which can have quotas of its own.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ClusterQueue {
    pub(super) meta: Meta,
    /// Nominal quotas by flavor.
    pub(super) quotas: Vec<(Box<str>, Amounts)>,
    /// The cohort it is in; of a cohort its parent.
    cohort: Option<Box<str>>,
    /// Counts of items without a column, by name.
    unused: BTreeMap<&'static str, u64>,
}

impl ClusterQueue {
    pub(super) fn read(object: &Value, meta: Meta, row: &mut RowAudit<'_>) -> Self {
        let spec = object.get("spec").unwrap_or(&Value::Null);
        let mut quotas: Vec<(Box<str>, Amounts)> = Vec::new();
        let mut unused: BTreeMap<&'static str, u64> = BTreeMap::new();
        let list = |value: &Value, key: &str| value.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
        for group in list(spec, "resourceGroups") {
            for flavor in list(&group, "flavors") {
                let mut quota = Amounts::default();
                for resource in list(&flavor, "resources") {
                    for (key, what) in [("borrowingLimit", "borrowing limits"), ("lendingLimit", "lending limits")] {
                        if resource.get(key).is_some_and(|limit| !limit.is_null()) {
                            *unused.entry(what).or_default() += 1;
                        }
                    }
                    if let (Some(name), Some(nominal)) = (text(resource.get("name")), resource.get("nominalQuota")) {
                        let one = Map::from_iter([(name.to_owned(), nominal.clone())]);
                        quota.add(&Amounts::read(Some(&Value::Object(one)), row));
                    }
                }
                quotas.push((text(flavor.get("name")).unwrap_or_default().into(), quota));
            }
        }
        let stopped = text(spec.get("stopPolicy")).is_some_and(|policy| policy != "None");
        for (there, what) in [
            (stopped, "stop policies"),
            (spec.get("fairSharing").is_some_and(Value::is_object), "fair sharing weights"),
            (spec.get("preemption").is_some_and(Value::is_object), "preemption policies"),
        ] {
            *unused.entry(what).or_default() += u64::from(there);
        }
        // v1beta1 calls it `cohort`; a cohort names its parent.
        let cohort = ["cohortName", "cohort", "parentName", "parent"].into_iter().find_map(|key| text(spec.get(key)));
        Self { meta, quotas, cohort: cohort.map(Into::into), unused }
    }

    fn quota(&self) -> Amounts {
        let mut sum = Amounts::default();
        self.quotas.iter().for_each(|(_, quota)| sum.add(quota));
        sum
    }

    /// GPUs of its nominal quota; unknown where a part of it is.
    fn gpus(&self) -> Option<f64> {
        self.quota().gpus().map(without_dust)
    }

    /// Cores of its nominal quota.
    fn cpus(&self) -> Option<f64> {
        self.quota().cpus()
    }
}

/// A ResourceFlavor: the labels of the nodes it stands for.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Flavor {
    pub(super) meta: Meta,
    pub(super) labels: Vec<(Box<str>, Box<str>)>,
    /// The GPU model that these labels name.
    pub(super) product: Option<Box<str>>,
}

impl Flavor {
    pub(super) fn read(object: &Value, meta: Meta) -> Self {
        let labels = object.pointer("/spec/nodeLabels");
        let pairs = labels.and_then(Value::as_object).into_iter().flatten();
        Self {
            labels: pairs.filter_map(|(key, value)| Some((key.as_str().into(), value.as_str()?.into()))).collect(),
            product: super::pod::product(labels).map(Into::into),
            meta,
        }
    }
}

/// A queue of the KAI scheduler.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Queue {
    pub(super) meta: Meta,
    parent: Option<Box<str>>,
    /// GPUs it is entitled to; `None` without bound, or where none is written.
    quota: Option<f64>,
    limited: bool,
}

impl Queue {
    pub(super) fn read(object: &Value, meta: Meta) -> Self {
        let gpu = |key: &str| object.pointer("/spec/resources/gpu")?.get(key)?.as_f64();
        Self {
            parent: text(object.pointer("/spec/parentQueue")).map(Into::into),
            // -1 is without bound.
            quota: gpu("quota").filter(|quota| *quota >= 0.0),
            limited: gpu("limit").is_some_and(|limit| limit >= 0.0),
            meta,
        }
    }
}

/// A PodGroup of the KAI scheduler or of Volcano.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PodGroup {
    pub(super) meta: Meta,
    pub(super) queue: Option<Box<str>>,
    pub(super) priority: Option<Box<str>>,
    /// Last start of the group's pods, as the KAI scheduler notes it.
    pub(super) started: Option<i64>,
}

impl PodGroup {
    pub(super) fn read(object: &Value, meta: Meta, row: &mut RowAudit<'_>) -> Self {
        let key = "kai.scheduler/last-start-timestamp";
        let started = object.get("metadata").and_then(|meta| meta.get("annotations")?.get(key));
        Self {
            queue: text(object.pointer("/spec/queue")).map(Into::into),
            priority: text(object.pointer("/spec/priorityClassName")).map(Into::into),
            started: moment(started, key, row),
            meta,
        }
    }
}

/// Quotas of all queues.
#[derive(Debug, Default)]
pub(super) struct Quotas<'q> {
    pub(super) cluster_queues: Vec<&'q ClusterQueue>,
    pub(super) cohorts: Vec<&'q ClusterQueue>,
    pub(super) queues: Vec<&'q Queue>,
}

impl Quotas<'_> {
    /// Name, GPUs and cores of each VC: the ClusterQueues, and the KAI queues that have no queue below them.
    fn of_vcs(&self) -> impl Iterator<Item = (&str, Option<f64>, Option<f64>)> {
        let parents: BTreeSet<&str> = self.queues.iter().filter_map(|queue| queue.parent.as_deref()).collect();
        let of_kueue = self.cluster_queues.iter().map(|queue| (&*queue.meta.name, queue.gpus(), queue.cpus()));
        let leaves = self.queues.iter().filter(move |queue| !parents.contains(&*queue.meta.name));
        of_kueue.chain(leaves.map(|queue| (&*queue.meta.name, queue.quota, None)))
    }

    /// Whether all VCs have a bound, so that their sum is one of the cluster.
    pub(super) fn are_whole(&self) -> bool {
        self.of_vcs().all(|(_, gpus, _)| gpus.is_some())
    }

    /// Writes the capacity of each VC; gives whether any has GPUs.
    pub(super) fn push(&self, trace: &mut Trace) -> bool {
        let mut any = false;
        for (name, gpus, cpus) in self.of_vcs().filter(|(_, gpus, cpus)| gpus.or(*cpus).is_some()) {
            any |= gpus.is_some_and(|gpus| gpus > 0.0);
            trace.capacity.push(CapacityRow {
                scope: Some("vc".into()),
                name: Some(name.into()),
                gpus,
                cpus,
                state: Some("up".into()),
                ..CapacityRow::default()
            });
        }
        any
    }

    /// Items of queues that have no column in the trace, with their counts.
    pub(super) fn unused(&self) -> BTreeMap<&'static str, u64> {
        let mut unused: BTreeMap<&'static str, u64> = BTreeMap::new();
        for queue in self.cluster_queues.iter().chain(&self.cohorts) {
            for (what, many) in &queue.unused {
                *unused.entry(*what).or_default() += many;
            }
        }
        let named = self.cluster_queues.iter().chain(&self.cohorts).filter_map(|queue| queue.cohort.as_deref());
        let cohorts: BTreeSet<&str> = named.chain(self.cohorts.iter().map(|cohort| &*cohort.meta.name)).collect();
        unused.insert("cohorts", cohorts.len() as u64);
        let with_quota = self.cohorts.iter().filter(|cohort| cohort.gpus().is_none_or(|gpus| gpus > 0.0)).count();
        unused.insert("quotas of cohorts", with_quota as u64);
        let limits = self.queues.iter().filter(|queue| queue.limited).count();
        unused.insert("limits of KAI queues", limits as u64);
        let parents: BTreeSet<&str> = self.queues.iter().filter_map(|queue| queue.parent.as_deref()).collect();
        unused.insert("parent queues", parents.len() as u64);
        unused.retain(|_, many| *many > 0);
        unused
    }
}

impl Stored for LocalQueue {
    fn meta(&self) -> &Meta {
        &self.meta
    }
}

impl Stored for ClusterQueue {
    fn meta(&self) -> &Meta {
        &self.meta
    }
}

impl Stored for Flavor {
    fn meta(&self) -> &Meta {
        &self.meta
    }
}

impl Stored for Queue {
    fn meta(&self) -> &Meta {
        &self.meta
    }
}

impl Stored for PodGroup {
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

    fn queue(spec: &Value, row: &mut RowAudit<'_>) -> ClusterQueue {
        let object = json!({"metadata": {"name": "q"}, "spec": spec});
        let meta = Meta::read(&object, Kind::ClusterQueue, row).unwrap();
        ClusterQueue::read(&object, meta, row)
    }

    // 16 + 8 GPUs over two flavors; 100 cores; memory is no capacity of a trace.
    #[test]
    fn nominal_quotas_are_summed_over_flavors_and_limits_are_listed() {
        let mut row = RowAudit::new("f", 1);
        let flavor = |gpus: &str| {
            json!({"name": "f", "resources": [
                {"name": "nvidia.com/gpu", "nominalQuota": gpus, "borrowingLimit": 8},
                {"name": "cpu", "nominalQuota": "50"}, {"name": "memory", "nominalQuota": "1Ti"}
            ]})
        };
        let groups = json!([{"flavors": [flavor("16"), flavor("8")]}]);
        for spec in
            [json!({"resourceGroups": groups, "cohort": "all"}), json!({"resourceGroups": groups, "cohortName": "all"})]
        {
            let result = queue(&spec, &mut row);
            assert_eq!(
                (result.gpus(), result.cpus(), result.cohort.as_deref()),
                (Some(24.0), Some(100.0), Some("all"))
            );
            let quotas = Quotas { cluster_queues: vec![&result], ..Quotas::default() };
            assert_eq!(quotas.unused(), BTreeMap::from([("borrowing limits", 2), ("cohorts", 1)]));
        }
        assert!(row.is_clean());
    }

    #[test]
    fn a_quota_that_is_none_makes_the_sum_unknown() {
        let mut row = RowAudit::new("f", 1);
        let resources =
            json!([{"name": "nvidia.com/gpu", "nominalQuota": "8"}, {"name": "amd.com/gpu", "nominalQuota": "many"}]);
        let result = queue(&json!({"resourceGroups": [{"flavors": [{"resources": resources}]}]}), &mut row);
        assert_eq!(result.gpus(), None);
        assert!(!row.is_clean());
    }

    #[test]
    fn only_queues_without_queues_below_them_have_a_capacity() {
        let queue = |name: &str, parent: Option<&str>, quota: f64| {
            let object = json!({"metadata": {"name": name}, "spec": {"parentQueue": parent, "resources": {"gpu": {"quota": quota, "limit": -1}}}});
            let meta = Meta::read(&object, Kind::Queue, &mut RowAudit::new("f", 1)).unwrap();
            Queue::read(&object, meta)
        };
        let all = [queue("root", None, 24.0), queue("a", Some("root"), 16.0), queue("b", Some("root"), -1.0)];
        let mut trace = Trace::default();
        let quotas = Quotas { queues: all.iter().collect(), ..Quotas::default() };
        assert!(quotas.push(&mut trace));
        // What is without bound makes no sum.
        assert!(!quotas.are_whole() && Quotas { queues: vec![&all[1]], ..Quotas::default() }.are_whole());
        assert_eq!(trace.capacity.name.iter().collect::<Vec<_>>(), [Some("a")]);
        assert_eq!(trace.capacity.gpus.get(0), Some(16.0));
    }
}
