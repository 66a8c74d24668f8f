//! The plan for NVIDIA's KAI scheduler.
//!
//! One parent queue holds all GPUs; each VC is a queue below it with its own share as `quota` and its ceiling as `limit` (−1 is none). KAI gives every queue its
//! quota before it gives beyond, and reclaims by itself what is used beyond a quota from jobs that have run for `reclaimMinRuntime`; where the plan does not
//! reclaim, that is a year. What is beyond the quotas is shared by `overQuotaWeight`, here the own shares. KAI counts GPUs of all types alike, and runs jobs that may not be
//! preempted within the quota alone; processors and memory are left unbounded.
//!
//! Format: `queues.scheduling.run.ai`, v2. Worked example: a VC of 96 GPUs with a ceiling of 1.5 has `quota: 96` and `limit: 144`.

use serde_json::{Value, json};

use super::super::answer::QueuesAnswer;
use super::super::share::Sharing;
use super::{KAI_FILE, about, named, shared, steps};
use crate::error::Result;
use crate::plan::Emitted;
use crate::plan::emit::kubernetes::object;
use crate::yaml::stream;

/// The queue above those of the VCs.
const PARENT: &str = "tracecast";
/// What a pod needs.
const PODS: &str =
    "Pods need schedulerName: kai-scheduler and the label kai.scheduler/queue with the name of their queue.";
/// How long a job runs before it is stopped for another, where the plan stops none.
const NEVER: &str = "8760h";

/// How long jobs that borrow run before they may be stopped; none if they may be at once.
pub(in super::super) fn runs_for(sharing: Sharing) -> Option<&'static str> {
    (!sharing.reclaims()).then_some(NEVER)
}

/// A queue; a `limit` of `None` is no limit.
fn queue(name: &str, parent: Option<&str>, (quota, limit): (f64, Option<f64>), runs_for: Option<&str>) -> Value {
    let of = |quota: f64, limit: f64, weight: f64| json!({ "quota": quota, "limit": limit, "overQuotaWeight": weight });
    let unbounded = of(-1.0, -1.0, 1.0);
    let gpu = of(quota, limit.unwrap_or(-1.0), quota.max(1.0));
    let mut spec = json!({ "resources": { "cpu": unbounded, "gpu": gpu, "memory": unbounded } });
    if let Some(fields) = spec.as_object_mut() {
        let text = |text: &str| Value::from(text);
        fields.extend(parent.map(|parent| ("parentQueue".to_owned(), text(parent))));
        fields.extend(runs_for.map(|time| ("reclaimMinRuntime".to_owned(), text(time))));
    }
    object("scheduling.run.ai/v2", "Queue", name, &spec)
}

/// Queues for KAI; no file where there is nothing to set.
///
/// # Errors
/// If a VC has no name that Kubernetes takes.
pub fn kai(answer: &QueuesAnswer) -> Result<Vec<Emitted>> {
    let file = |content: String| Ok(vec![(KAI_FILE.to_owned(), content)]);
    let Some(sharing) = shared(answer) else { return Ok(Vec::new()) };
    let all: f64 = answer.body.vcs.iter().map(|vc| vc.own_gpus.floor()).sum();
    let steps = steps(KAI_FILE, "queues.scheduling.run.ai");
    let what = format!("{}\n{steps}\n{PODS}", about(answer).join("\n"));
    let mut documents = vec![(what, queue(PARENT, None, (all, None), None))];
    if sharing == Sharing::OnePool {
        let what = "All VCs queue here.".to_owned();
        documents.push((what, queue("shared", Some(PARENT), (all, None), None)));
        return file(stream(&documents));
    }
    for (name, vc) in named(&answer.body)? {
        let limit = vc.most_gpus.map(f64::floor);
        let what = format!("{}.", vc.vc.escape_debug());
        documents.push((what, queue(&name, Some(PARENT), (vc.own_gpus.floor(), limit), runs_for(sharing))));
    }
    file(stream(&documents))
}
