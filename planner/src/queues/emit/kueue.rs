//! The plan for Kueue.
//!
//! Each VC gets a ClusterQueue in one cohort, with its own share as `nominalQuota` and what it may borrow as `borrowingLimit`. Kueue admits
//! what stays within the nominal quota before what borrows, and reclaims by preemption where the plan does. StrictFIFO holds up the jobs of one ClusterQueue,
//! where the replay's strict scan holds up the pool. What a queue lends of its own share may have a limit (`lendingLimit`), which Kueue alone knows.
//!
//! Worked example: a VC of 96 GPUs with a ceiling of 1.5 has `nominalQuota: 96` and `borrowingLimit: 48`.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tracecast_analytics::report::format;

use super::super::answer::{QueuesAnswer, QueuesBody};
use super::super::share::Sharing;
use super::{KUEUE_FILE, about, named, shared, steps, unnamed};
use crate::error::Result;
use crate::plan::Emitted;
use crate::plan::emit::kubernetes::object;
use crate::plan::slug::slug;
use crate::yaml::stream;

/// The version of Kueue's objects.
const API: &str = "kueue.x-k8s.io/v1beta2";

/// What Kueue must be told beside the objects.
const COVERED: &str = "Kueue admits nothing that asks for a resource it does not cover: add processors and memory here, or exclude them (resources.excludeResourcePrefixes).";

/// Objects for Kueue; `gpu_resource` is how the cluster calls a GPU. No file where there is nothing to set.
///
/// # Errors
/// If a VC or a GPU type has no name that Kubernetes takes.
pub fn kueue(answer: &QueuesAnswer, gpu_resource: &str) -> Result<Vec<Emitted>> {
    let Some(sharing) = shared(answer) else { return Ok(Vec::new()) };
    let said: Vec<String> = about(answer).into_iter().chain(admitted(answer)).collect();
    let text = quotas(&answer.body, (sharing, answer.trial.lends()), gpu_resource, &said.join("\n"))?;
    Ok(vec![(KUEUE_FILE.to_owned(), text)])
}

/// The text of that file, which `said` begins, with a limit of what each queue lends of its own
/// share.
///
/// # Errors
/// Errors of [`kueue`].
pub(in super::super) fn quotas(
    body: &QueuesBody,
    (sharing, lends): (Sharing, Option<f64>),
    gpu_resource: &str,
    said: &str,
) -> Result<String> {
    // Names of the kinds of nodes, and their GPUs in all.
    let mut flavors: BTreeMap<String, (Option<&str>, f64)> = BTreeMap::new();
    for own in body.vcs.iter().flat_map(|vc| &vc.own) {
        let gpu_type = own.gpu_type.as_deref();
        let kind = flavors.entry(flavor(gpu_type)).or_insert((gpu_type, 0.0));
        if kind.0 != gpu_type {
            return Err(unnamed(format!(
                "GPU type {} (as {}, which another is called, too)",
                gpu_type.unwrap_or("unknown"),
                flavor(gpu_type)
            )));
        }
        kind.1 += own.gpus;
    }
    let mut documents: Vec<(String, Value)> = Vec::new();
    for (name, (gpu_type, _)) in &flavors {
        let spec = gpu_type.map_or_else(|| json!({}), |of| json!({ "nodeLabels": { "nvidia.com/gpu.product": of } }));
        let labels = match gpu_type {
            Some(_) => "Nodes of one kind: check that your nodes have this label.",
            None => "All nodes: the trace names no GPU type, so add nodeLabels if you have several.",
        };
        let steps = steps(
            KUEUE_FILE,
            "clusterqueues.kueue.x-k8s.io,localqueues.kueue.x-k8s.io,resourceflavors.kueue.x-k8s.io -A",
        );
        let what = format!("{said}\n{steps}\n{labels}");
        documents.push((what, object(API, "ResourceFlavor", name, &spec)));
    }
    // `own` says how many GPUs of a kind of nodes are its own.
    let queue = |name: &str, own: &dyn Fn(&str) -> f64, (borrow, lends): (Option<f64>, Option<f64>), cohort: bool| {
        let quotas: Vec<Value> = flavors
            .keys()
            .map(|flavor| {
                let mut quota = json!({ "name": gpu_resource, "nominalQuota": own(flavor).floor() as u64 });
                if let (Some(borrow), Some(fields)) = (borrow, quota.as_object_mut()) {
                    fields.insert("borrowingLimit".to_owned(), Value::from(borrow.floor() as u64));
                }
                if let (Some(part), Some(fields)) = (lends, quota.as_object_mut()) {
                    fields.insert("lendingLimit".to_owned(), Value::from(lent(own(flavor), part)));
                }
                json!({ "name": flavor, "resources": [quota] })
            })
            .collect();
        let mut spec = json!({
            "namespaceSelector": {},
            "queueingStrategy": strategy(body),
            "resourceGroups": [{ "coveredResources": [gpu_resource], "flavors": quotas }],
            "preemption": { "reclaimWithinCohort": reclaiming(sharing), "withinClusterQueue": "Never" },
        });
        if let (true, Some(fields)) = (cohort, spec.as_object_mut()) {
            fields.insert("cohortName".to_owned(), Value::from("tracecast"));
        }
        object(API, "ClusterQueue", name, &spec)
    };
    if sharing == Sharing::OnePool {
        let all = |of: &str| flavors.get(of).map_or(0.0, |(_, gpus)| *gpus);
        documents.push((
            format!(
                "All VCs queue here. A LocalQueue cannot change its ClusterQueue: delete those of the VCs and make them again with clusterQueue: shared, once their jobs have ended or are suspended. \
                 Delete the ClusterQueues of before (or set stopPolicy: Hold), or their quotas admit jobs to the same GPUs a second time. {COVERED}"
            ),
            queue("shared", &all, (None, None), false),
        ));
        return Ok(stream(&documents));
    }
    for (name, vc) in named(body)? {
        let by_type = vc.own_by_type();
        let own = |of: &str| by_type.iter().find(|(kind, _)| flavor(**kind) == of).map_or(0.0, |(_, gpus)| *gpus);
        let what = format!("{}: its LocalQueue points here. {COVERED}", vc.vc.escape_debug());
        documents.push((what, queue(&name, &own, (vc.may_borrow(), lends), true)));
    }
    Ok(stream(&documents))
}

/// In which order Kueue looks at the jobs of a queue.
pub(in super::super) fn strategy(body: &QueuesBody) -> &'static str {
    if body.setup().is_some_and(|setup| setup.strict) { "StrictFIFO" } else { "BestEffortFIFO" }
}

/// Whom Kueue stops for a queue that needs its own share.
pub(in super::super) fn reclaiming(sharing: Sharing) -> &'static str {
    if sharing.reclaims() { "Any" } else { "Never" }
}

/// Whole GPUs that a queue with so many of its own lends at most.
pub(in super::super) fn lent(own_gpus: f64, part: f64) -> u64 {
    (own_gpus.floor() * part).floor() as u64
}

/// What Kueue itself would make of the file.
fn admitted(answer: &QueuesAnswer) -> Option<String> {
    let under = answer.trial.under_kueue.as_ref()?;
    let lends = under.lends.map_or_else(String::new, |part| {
        let why = match under.lending.first() {
            Some(all) if !all.wronged.is_empty() => {
                format!(
                    "without a limit, {} waited longer on the earlier jobs than on nodes of their own",
                    all.wronged.join(", ")
                )
            }
            Some(all) if !all.allowed => "without a limit, some jobs that run today would never run".to_owned(),
            _ => "that was clearly better on the earlier jobs".to_owned(),
        };
        format!(" Each queue lends {} of its own share at most (lendingLimit): {why}.", format::percent(part))
    });
    Some(format!(
        "Replayed as Kueue admits jobs, first come first served, with the quotas of this file: a mean wait of the later jobs of {} and a 95 % wait of {}; {} of them stopped for others.{lends}",
        format::duration(under.later.mean_wait_s),
        format::duration(under.later.p95_wait_s),
        format::count(under.stopped),
    ))
}

/// Name of a kind of nodes in Kueue.
fn flavor(gpu_type: Option<&str>) -> String {
    gpu_type.and_then(slug).unwrap_or_else(|| "gpu".to_owned())
}
