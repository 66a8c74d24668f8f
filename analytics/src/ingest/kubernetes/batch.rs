//! `batch/v1` Jobs: a job of their own where no Workload stands for them.
//!
//! A Job asks at any moment for what `parallelism` pods ask for (at most `completions`). It ends with its condition `Complete` or
//! `Failed`; `completionTime` is only there after success. `status.startTime` is when its controller took it up, not when a pod got
//! its GPUs: the start of a job comes from its pods, and from here only where no pod is left.
//!
//! Worked example: parallelism 4, completions 2, one GPU a pod: 2 GPUs. `Failed` with reason `DeadlineExceeded`: timed out.

use serde_json::Value;

use super::object::{Meta, condition, count, moment, tag, text};
use super::pod::{asked, product};
use super::quantity::Amounts;
use super::store::Stored;
use super::topology;
use super::workload::stage;
use crate::quality::RowAudit;
use crate::schema::JobState;

/// A `batch/v1` Job.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Job {
    pub(super) meta: Meta,
    /// Sum of the requests of the Job's pods.
    pub(super) asked: Amounts,
    pub(super) pods: u64,
    pub(super) selected: Option<Box<str>>,
    pub(super) local_queue: Option<Box<str>>,
    pub(super) queue: Option<Box<str>>,
    pub(super) priority: Option<Box<str>>,
    pub(super) time_limit_s: Option<f64>,
    pub(super) state: JobState,
    pub(super) reported: Box<str>,
    /// Why it waits, where it is suspended.
    pub(super) waits: Option<Box<str>>,
    pub(super) start: Option<i64>,
    pub(super) end: Option<i64>,
    /// Topology that the Job's pods request.
    pub(super) topology: Option<Box<str>>,
}

impl Job {
    pub(super) fn read(object: &Value, meta: Meta, row: &mut RowAudit<'_>) -> Self {
        let spec = object.get("spec").unwrap_or(&Value::Null);
        let template = spec.pointer("/template/spec").unwrap_or(&Value::Null);
        let parallelism = count(spec.get("parallelism"), "parallelism", row).unwrap_or(1);
        let completions = count(spec.get("completions"), "completions", row).unwrap_or(parallelism);
        let pods = parallelism.min(completions).min(1_000_000);
        let active = count(object.pointer("/status/active"), "active", row).unwrap_or(0);
        let limit = count(spec.get("activeDeadlineSeconds"), "activeDeadlineSeconds", row);
        let mut holds = |name| condition(object, name, row).filter(|condition| condition.holds);
        let (complete, failed, suspended) = (holds("Complete"), holds("Failed"), holds("Suspended"));
        let done = moment(object.pointer("/status/completionTime"), "completionTime", row);
        let start = moment(object.pointer("/status/startTime"), "startTime", row);
        let (state, end, reported) = match (complete, failed) {
            (Some(condition), _) => (JobState::Completed, done.or(condition.at), "Complete"),
            (None, Some(condition)) if condition.reason == "DeadlineExceeded" => {
                (JobState::Timeout, condition.at, condition.reason)
            }
            (None, Some(condition)) => (JobState::Failed, condition.at, "Failed"),
            (None, None) if suspended.is_some() => (JobState::Pending, None, "Suspended"),
            (None, None) if start.is_some() && active > 0 => (JobState::Running, None, "Active"),
            (None, None) => (JobState::Pending, None, "Pending"),
        };
        let owned = |text: Option<&str>| text.map(Into::into);
        let label = |key| tag(object, "labels", key);
        Self {
            asked: asked(template, row).times(pods as f64),
            pods,
            selected: owned(product(template.get("nodeSelector"))),
            local_queue: owned(label("kueue.x-k8s.io/queue-name")),
            queue: owned(label("kai.scheduler/queue").or_else(|| label("runai/queue"))),
            priority: owned(text(template.get("priorityClassName"))),
            time_limit_s: limit.map(|seconds| seconds as f64),
            state,
            reported: reported.into(),
            waits: suspended.filter(|_| state == JobState::Pending).and_then(|condition| condition.said()),
            start: start.filter(|_| state != JobState::Pending),
            end,
            topology: spec.get("template").and_then(|template| topology::annotated(template, row)),
            meta,
        }
    }
}

impl Stored for Job {
    fn meta(&self) -> &Meta {
        &self.meta
    }
    fn stage(&self) -> u8 {
        stage(self.state)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::super::object::Kind;
    use super::*;

    #[test]
    fn how_a_job_stands_and_what_it_asks_for_at_a_time() {
        let job = |spec: Value, status: Value| {
            let mut object = json!({"metadata": {"name": "j"}, "spec": spec, "status": status});
            object["spec"]["template"] =
                json!({"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": 2}}}]}});
            let mut row = RowAudit::new("f", 1);
            let meta = Meta::read(&object, Kind::Job, &mut row).unwrap();
            let job = Job::read(&object, meta, &mut row);
            (job.asked.gpus(), job.state, job.end.is_some(), job.start.is_some())
        };
        let at = "2026-03-02T10:00:00Z";
        let is = |kind: &str, reason: &str| json!([{"type": kind, "status": "True", "reason": reason, "lastTransitionTime": at}]);
        let none = (Some(2.0), JobState::Pending, false, false);
        assert_eq!(job(json!({}), json!({})), none);
        assert_eq!(job(json!({}), json!({"startTime": at, "conditions": is("Suspended", "JobSuspended")})), none);
        let parallel =
            |parallelism: u32, completions: u32| json!({"parallelism": parallelism, "completions": completions});
        let active = json!({"startTime": at, "active": 1});
        assert_eq!(job(parallel(4, 3), active), (Some(6.0), JobState::Running, false, true));
        let failed = |reason: &str| json!({"startTime": at, "conditions": is("Failed", reason)});
        assert_eq!(job(parallel(2, 8), failed("BackoffLimitExceeded")), (Some(4.0), JobState::Failed, true, true));
        assert_eq!(job(parallel(0, 1), failed("DeadlineExceeded")), (Some(0.0), JobState::Timeout, true, true));
    }
}
