//! Rows of one job: the job, its attempts where there were several, and where it ran.
//!
//! Pods of one job may follow one another (a failed one is made anew) or stand beside each other. What the job was given is the most
//! that its pods held at the same time; so it is on each node. The GPU model is that of the nodes where its pods ran, else what it
//! was promised or asked for; a MIG slice adds its profile.
//!
//! Worked example: pods `a` (2 GPUs, 10:00 to 11:00) and `b` (2 GPUs, from 11:00 on) on one node: 2 GPUs. With `c` (4 GPUs, from 10:30
//! on) on another: 6 GPUs, of which 2 are on the first node.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::division::unshared;
use super::node::Node;
use super::pod::Pod;
use super::quantity::{slice, without_dust};
use super::queue::Flavor;
use super::store::Place;
use super::timeline::Attempt;
use crate::ingest::check_job;
use crate::quality::RowAudit;
use crate::schema::{AttemptRow, JobRow, PlacementRow};
use crate::trace::Trace;

/// The most of an amount that pods held, or ask for, at the same time; `None` if it is unknown of one of them. O(n log n).
pub(super) fn peak(pods: &[&Pod], amount: impl Fn(&Pod) -> Option<f64>) -> Option<f64> {
    let mut changes: Vec<(i64, f64)> = Vec::with_capacity(2 * pods.len());
    let bound = bound(pods);
    for pod in pods {
        let amount = amount(pod)?;
        let from = pod.start.or(pod.meta.created).unwrap_or(i64::MIN);
        changes.push((from, amount));
        // Even a pod that ended at once held what it asked for.
        let end = pod.end.or_else(|| replaced(pod, &bound));
        changes.extend(end.map(|end| (end.max(from.saturating_add(1)), -amount)));
    }
    // What ends goes before what begins then.
    changes.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let (mut held, mut most) = (0.0_f64, 0.0_f64);
    for (_, change) in changes {
        held += change;
        most = most.max(held);
    }
    Some(without_dust(most))
}

/// Times at which the pods of each owner were made and bound, in order.
fn bound<'o>(pods: &[&'o Pod]) -> HashMap<&'o str, Vec<(i64, i64)>> {
    let mut bound: HashMap<&str, Vec<(i64, i64)>> = HashMap::new();
    for pod in pods {
        if let (Some(owner), Some(start)) = (&pod.meta.owner, pod.start) {
            bound.entry(&owner.uid).or_default().push((pod.meta.created.unwrap_or(start), start));
        }
    }
    bound.values_mut().for_each(|times| times.sort_unstable());
    bound
}

/// Latest moment at which a pod that is over without an end (an evicted one whose containers were
/// cleared away) can have held something: the binding of the next pod of its owner, made after it
/// was bound.
fn replaced(pod: &Pod, bound: &HashMap<&str, Vec<(i64, i64)>>) -> Option<i64> {
    let start = pod.start.filter(|_| pod.state.is_final())?;
    let times = bound.get(&*pod.meta.owner.as_ref()?.uid)?;
    times.get(times.partition_point(|(made, _)| *made <= start)..)?.first().map(|(_, bound)| *bound)
}

/// GPU models of nodes and flavors.
#[derive(Debug, Default)]
pub(super) struct Machines<'o> {
    pub(super) products: HashMap<&'o str, &'o str>,
    pub(super) flavors: HashMap<&'o str, &'o str>,
}

impl<'o> Machines<'o> {
    /// Collects all nodes and flavors. A flavor whose labels name no model has that of the nodes
    /// that have its labels, if they agree.
    pub(super) fn new(nodes: &[&'o Node], flavors: impl Iterator<Item = &'o Flavor>) -> Self {
        let products = nodes.iter().filter_map(|node| Some((&*node.meta.name, node.given()?))).collect();
        let mut machines = Self { products, ..Self::default() };
        for flavor in flavors {
            let of_nodes = || {
                let with = nodes.iter().filter(|node| !flavor.labels.is_empty() && node.has(&flavor.labels));
                let models: BTreeSet<&str> = with.filter_map(|node| node.given()).collect();
                (models.len() == 1).then(|| models.into_iter().next()).flatten()
            };
            if let Some(model) = flavor.product.as_deref().map(unshared).or_else(of_nodes) {
                machines.flavors.insert(&flavor.meta.name, model);
            }
        }
        machines
    }

    /// The model of the nodes that pods ran on.
    pub(super) fn of_pods(&self, pods: &[&'o Pod]) -> BTreeSet<&'o str> {
        pods.iter().filter_map(|pod| self.products.get(pod.node.as_deref()?).copied()).collect()
    }
}

/// The GPU type of a job: models, several joined by `|`, and the profile of a MIG slice where the model does not name it.
pub(super) fn gpu_type<'n>(models: &BTreeSet<&str>, resources: impl Iterator<Item = &'n str>) -> Option<String> {
    let slices: BTreeSet<Option<String>> = resources.map(slice).collect();
    // Whole GPUs beside slices have no profile in common.
    let slice = if slices.len() == 1 { slices.into_iter().next().flatten() } else { None };
    if models.is_empty() {
        return slice;
    }
    let with = |model: &&str| match &slice {
        Some(slice) if !model.contains("MIG") => format!("{model}-{slice}"),
        _ => (*model).to_owned(),
    };
    Some(models.iter().map(with).collect::<Vec<_>>().join("|"))
}

/// Rows of one job, as far as they are known.
#[derive(Debug)]
pub(super) struct Draft<'o> {
    pub(super) row: JobRow<'o>,
    pub(super) attempts: Vec<Attempt>,
    /// Pods with the attempt they belong to, from 0.
    pub(super) pods: Vec<(usize, &'o Pod)>,
    /// GPUs of each attempt whose pods do not tell them.
    pub(super) gpus: Option<f64>,
    pub(super) place: Place,
}

impl Draft<'_> {
    /// Writes the rows under `key`.
    pub(super) fn write(mut self, key: &str, file: &str, trace: &mut Trace) {
        let mut audit = RowAudit::new(file, self.place.line);
        self.row.job_key = Some(Cow::Owned(key.to_owned()));
        check_job(&mut self.row, &mut audit);
        trace.ledger.amend(audit, self.place.clean);
        // A single attempt that ended when the job did needs no row of its own.
        let last = self.attempts.last();
        let plain = self.attempts.len() <= 1
            && last.is_none_or(|last| last.open || last.end == self.row.end || last.end.is_none());
        trace.jobs.push(self.row);
        let mut nodes: BTreeMap<(usize, &str), Vec<&Pod>> = BTreeMap::new();
        for (attempt, pod) in &self.pods {
            if let Some(node) = pod.node.as_deref() {
                nodes.entry((if plain { 0 } else { *attempt }, node)).or_default().push(pod);
            }
        }
        if !plain {
            let mut placed: Vec<Vec<&Pod>> = vec![Vec::new(); self.attempts.len()];
            for (attempt, pod) in &self.pods {
                placed.get_mut(*attempt).into_iter().for_each(|of| of.push(pod));
            }
            for (ix, (attempt, of)) in self.attempts.iter().zip(placed).enumerate() {
                let hosts: Vec<&str> = hosts(&of).into_iter().collect();
                let gpus = self.gpus.or_else(|| (!of.is_empty()).then(|| peak(&of, Pod::gpus)).flatten());
                trace.attempts.push(AttemptRow {
                    job_key: Some(Cow::Borrowed(key)),
                    attempt: i64::try_from(ix + 1).ok(),
                    start: attempt.start,
                    end: attempt.end.filter(|end| attempt.start.is_none_or(|start| *end >= start)),
                    censored: Some(attempt.open),
                    end_reason: attempt.reason.filter(|_| !attempt.open).map(|state| Cow::Borrowed(state.id())),
                    nodes_hostlist: (!hosts.is_empty()).then(|| Cow::Owned(hosts.join(","))),
                    alloc_gpus: gpus,
                    ..AttemptRow::default()
                });
            }
        }
        for ((attempt, node), pods) in nodes {
            trace.placements.push(PlacementRow {
                job_key: Some(Cow::Borrowed(key)),
                attempt: i64::try_from(attempt + 1).ok(),
                node: Some(Cow::Borrowed(node)),
                gpu_ids: None,
                gpus: peak(&pods, Pod::gpus),
            });
        }
    }
}

/// Names of the nodes of some pods, in order, each once.
pub(super) fn hosts<'o>(pods: &[&'o Pod]) -> BTreeSet<&'o str> {
    pods.iter().filter_map(|pod| pod.node.as_deref()).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::super::object::{Kind, Meta, Owner};
    use super::*;
    use crate::schema::JobState;

    fn pod(gpus: u32, start: i64, end: Option<i64>) -> Pod {
        let object = json!({
            "metadata": {"name": "a"},
            "spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": gpus}}}]}
        });
        let mut row = RowAudit::new("f", 1);
        let meta = Meta::read(&object, Kind::Pod, &mut row).unwrap();
        Pod { start: Some(start), end, ..Pod::read(&object, meta, &mut row) }
    }

    // 2 until 11, 2 from 11 on, 4 from 10.5 on (times in halves): 6 at most. One that ended as it began counts for itself.
    #[test]
    fn what_was_held_at_the_same_time() {
        let (a, b, c) = (pod(2, 20, Some(22)), pod(2, 22, None), pod(4, 21, None));
        assert_eq!(peak(&[&a, &b], Pod::gpus), Some(2.0));
        assert_eq!(peak(&[&a, &b, &c], Pod::gpus), Some(6.0));
        assert_eq!(peak(&[&pod(8, 5, Some(5))], Pod::gpus), Some(8.0));
        assert_eq!(peak(&[], Pod::gpus), Some(0.0));
    }

    // The first was evicted and has no end. The second was made after it was bound, so the two were never there at once; beside one
    // that was made with it, or that has another owner, it counts.
    #[test]
    fn an_evicted_pod_without_an_end_gives_way_to_the_next_of_its_owner() {
        let of = |owner: &str, start: i64, created: i64, state: JobState| {
            let mut pod = pod(2, start, None);
            let owner = Owner { kind: "Job".into(), name: "j".into(), uid: owner.into() };
            (pod.meta.owner, pod.meta.created, pod.state) = (Some(owner), Some(created), state);
            pod
        };
        let lost = of("j", 20, 10, JobState::Preempted);
        let most = |other: &Pod| peak(&[&lost, other], Pod::gpus);
        assert_eq!(most(&of("j", 40, 30, JobState::Running)), Some(2.0));
        assert_eq!(most(&of("j", 40, 10, JobState::Running)), Some(4.0));
        assert_eq!(most(&of("k", 40, 30, JobState::Running)), Some(4.0));
    }

    #[test]
    fn a_slice_adds_its_profile_where_the_model_does_not_name_it() {
        let of = |models: &[&str], resources: &[&'static str]| {
            gpu_type(&models.iter().copied().collect(), resources.iter().copied())
        };
        assert_eq!(of(&["A100"], &["nvidia.com/gpu"]).as_deref(), Some("A100"));
        assert_eq!(of(&["A100"], &["nvidia.com/mig-1g.5gb"]).as_deref(), Some("A100-MIG-1g.5gb"));
        assert_eq!(of(&["A100-MIG-1g.5gb"], &["nvidia.com/mig-1g.5gb"]).as_deref(), Some("A100-MIG-1g.5gb"));
        assert_eq!(of(&[], &["nvidia.com/mig-1g.5gb"]).as_deref(), Some("MIG-1g.5gb"));
        assert_eq!(of(&["H100", "A100"], &["nvidia.com/gpu"]).as_deref(), Some("A100|H100"));
        assert_eq!(of(&[], &["nvidia.com/gpu"]), None);
    }
}
