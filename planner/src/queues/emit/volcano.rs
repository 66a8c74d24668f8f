//! The plan for Volcano.
//!
//! Each VC gets a queue with its own share as `deserved`, its ceiling as `capability`, and `reclaimable` where the plan reclaims. Volcano's `capacity` plugin must be on and
//! its `proportion` plugin off, and the action `reclaim` must be there for the plan to reclaim. GPUs of all types count alike. Processors and memory are not in these
//! objects, so no `capability` bounds them; some releases reclaim nothing for pods that ask for a resource that `deserved` does not name (volcano-sh/volcano issue
//! 4658), which the file says.
//!
//! Format: `queues.scheduling.volcano.sh`, v1beta1. Worked example: a VC of 96 GPUs with a ceiling of 1.5 has 96 deserved and a capability of 144.

use serde_json::{Value, json};

use super::super::answer::QueuesAnswer;
use super::super::share::Sharing;
use super::{VOLCANO_FILE, about, named, shared, steps};
use crate::error::Result;
use crate::plan::Emitted;
use crate::plan::emit::kubernetes::object;
use crate::yaml::stream;

/// What Volcano must be told beside the objects.
pub(in super::super) const PLUGIN: &str = "In volcano-scheduler.conf: the plugin capacity in place of proportion, enablePreemptable: false for gang and drf, and the action reclaim.\n\
                      If pods that ask for processors or memory as well reclaim nothing (volcano-sh/volcano issue 4658), add cpu and memory to deserved.\n\
                      Pods need schedulerName: volcano. A job names its queue as spec.queue, pods of others by the annotation scheduling.volcano.sh/queue-name.";

/// A queue; no `most` is no ceiling.
fn queue(name: &str, gpu_resource: &str, (own, most): (f64, Option<f64>), reclaims: bool) -> Value {
    // Quantities are strings, as Kubernetes writes them.
    let gpus = |gpus: f64| json!({ gpu_resource: format!("{gpus:.0}") });
    let mut spec = json!({ "deserved": gpus(own), "reclaimable": reclaims });
    if let (Some(most), Some(fields)) = (most, spec.as_object_mut()) {
        fields.insert("capability".to_owned(), gpus(most));
    }
    object("scheduling.volcano.sh/v1beta1", "Queue", name, &spec)
}

/// Queues for Volcano; `gpu_resource` is how the cluster calls a GPU. No file where there is nothing to set.
///
/// # Errors
/// If a VC has no name that Kubernetes takes.
pub fn volcano(answer: &QueuesAnswer, gpu_resource: &str) -> Result<Vec<Emitted>> {
    let file = |content: String| Ok(vec![(VOLCANO_FILE.to_owned(), content)]);
    let Some(sharing) = shared(answer) else { return Ok(Vec::new()) };
    let steps = steps(VOLCANO_FILE, "queues.scheduling.volcano.sh");
    let first = format!("{}\n{steps}\n{PLUGIN}\n", about(answer).join("\n"));
    if sharing == Sharing::OnePool {
        let all: f64 = answer.body.vcs.iter().map(|vc| vc.own_gpus.floor()).sum();
        let what = format!("{first}All VCs queue here.");
        return file(stream(&[(what, queue("shared", gpu_resource, (all, None), false))]));
    }
    let mut documents = Vec::new();
    for (name, vc) in named(&answer.body)? {
        let most = vc.most_gpus.map(f64::floor);
        let about = if documents.is_empty() { first.as_str() } else { "" };
        let what = format!("{about}{}: its jobs name this queue.", vc.vc.escape_debug());
        documents.push((what, queue(&name, gpu_resource, (vc.own_gpus.floor(), most), sharing.reclaims())));
    }
    file(stream(&documents))
}
