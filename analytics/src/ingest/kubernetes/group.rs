//! Jobs that no Workload stands for: the pods with GPUs of one owner, `batch/v1` Jobs, and single pods.
//!
//! The owner is followed upwards from pod to Job to what made the Job (a JobSet, an MPIJob; a CronJob makes a new Job every time, so
//! it is not followed). Where the Jobs of a JobSet are not in the dump, its label tells. Pods of a Deployment, a StatefulSet or a
//! DaemonSet are services: each is a job of its own.
//!
//! A job begins with its first pod, and ends as its Job says, else with its last pod. Pods that follow a failed one after a pause are
//! another attempt. A pod that was deleted before it was seen to end tells when the job began, and nothing else where another took
//! its place; so it is with a Job that was made anew under its name. A Job of which no pod is left begins when its controller took it up.
//!
//! Worked example: a Job of one pod with 4 GPUs; pod `a` from 10:00 to 10:20 failed, pod `b` from 10:21 to 11:00 succeeded, the Job is
//! complete at 11:00: 4 GPUs, two attempts, 20 + 39 minutes.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::batch::Job;
use super::division::unshared;
use super::job::{Draft, Machines, gpu_type, hosts, peak};
use super::object::{Kind, Meta, Owner};
use super::objects::Objects;
use super::pod::Pod;
use super::quantity::{Amounts, without_dust};
use super::queue::PodGroup;
use super::store::{Kept, Place};
use super::timeline::Attempt;
use crate::schema::{JobRow, JobState};

/// Owners whose pods are each a job of their own.
const SERVICES: [&str; 6] = ["ReplicaSet", "Deployment", "StatefulSet", "DaemonSet", "ReplicationController", "Node"];

/// Topmost owner of a pod or a Job.
#[derive(Debug, Clone, Copy)]
pub(super) struct Root<'o> {
    pub(super) namespace: &'o str,
    pub(super) name: &'o str,
    pub(super) kind: &'o str,
    /// Identity; the name where only labels are known.
    pub(super) uid: &'o str,
}

/// Follows an owner upwards, as far as Jobs are known.
pub(super) fn climb<'o>(objects: &'o Objects, owner: &'o Owner) -> &'o Owner {
    let mut top = owner;
    // A Job is made by one thing that is no Job; more steps would be a circle.
    for _ in 0..4 {
        let job = if &*top.kind == "Job" { objects.jobs.get(&top.uid) } else { None };
        match job.and_then(|job| job.object.meta.owner.as_ref()) {
            Some(up) if &*up.kind != "CronJob" => top = up,
            _ => break,
        }
    }
    top
}

impl<'o> Root<'o> {
    /// The root of a pod.
    pub(super) fn of_pod(objects: &'o Objects, pod: &'o Pod) -> Self {
        let namespace = &*pod.meta.namespace;
        let own = Self { namespace, name: &pod.meta.name, kind: "Pod", uid: &pod.meta.uid };
        match &pod.meta.owner {
            Some(owner) => {
                let top = climb(objects, owner);
                if SERVICES.contains(&&*top.kind) {
                    return Self { kind: &top.kind, ..own };
                }
                match pod.jobs.first() {
                    // The Job is not in the dump, what made it has a label.
                    Some(name) if &*top.kind == "Job" && objects.jobs.get(&top.uid).is_none() => {
                        Self { namespace, name, kind: "JobSet", uid: name }
                    }
                    _ => Self { namespace, name: &top.name, kind: &top.kind, uid: &top.uid },
                }
            }
            None => match pod.group.as_deref().or(pod.jobs.first().map(|name| &**name)) {
                Some(name) => Self { namespace, name, kind: "PodGroup", uid: name },
                None => own,
            },
        }
    }

    /// The root of a Job.
    pub(super) fn of_job(objects: &'o Objects, job: &'o Job) -> Self {
        let namespace = &*job.meta.namespace;
        match job.meta.owner.as_ref().filter(|owner| &*owner.kind != "CronJob") {
            Some(owner) => {
                let top = climb(objects, owner);
                Self { namespace, name: &top.name, kind: &top.kind, uid: &top.uid }
            }
            None => Self { namespace, name: &job.meta.name, kind: "Job", uid: &job.meta.uid },
        }
    }

    /// Key that tells the root from others.
    pub(super) fn key(&self) -> (&'o str, &'o str) {
        (self.namespace, self.uid)
    }
}

/// Pods and Jobs of one root.
#[derive(Debug)]
pub(super) struct Group<'o> {
    pub(super) root: Root<'o>,
    pub(super) pods: Vec<&'o Kept<Pod>>,
    pub(super) jobs: Vec<&'o Kept<Job>>,
}

/// PodGroup and VC of a group, from other objects.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Beside<'o> {
    pub(super) group: Option<&'o PodGroup>,
    pub(super) vc: Option<&'o str>,
}

/// Outcome of a group.
struct Fate {
    state: JobState,
    end: Option<i64>,
    /// Something of it was deleted before it was seen to end.
    lost: bool,
}

impl<'o> Group<'o> {
    pub(super) fn new(root: Root<'o>) -> Self {
        Self { root, pods: Vec::new(), jobs: Vec::new() }
    }

    fn metas(&self) -> impl Iterator<Item = &'o Meta> {
        let pods = self.pods.iter().map(|kept| &kept.object.meta);
        pods.chain(self.jobs.iter().map(|kept| &kept.object.meta))
    }

    pub(super) fn created(&self) -> Option<i64> {
        self.metas().filter_map(|meta| meta.created).min()
    }

    /// The queues that its pods and Jobs name: LocalQueue, queue of the KAI scheduler.
    pub(super) fn queues(&self) -> (Option<&'o str>, Option<&'o str>) {
        let jobs = || self.jobs.iter().map(|kept| (&kept.object.local_queue, &kept.object.queue));
        let pods = || self.pods.iter().map(|kept| (&kept.object.local_queue, &kept.object.queue));
        let local = jobs().chain(pods()).find_map(|(local, _)| local.as_deref());
        (local, jobs().chain(pods()).find_map(|(_, queue)| queue.as_deref()))
    }

    /// Jobs of the group, without those that a later one of the same name replaced.
    fn current_jobs(&self) -> Vec<&'o Kept<Job>> {
        let mut latest: BTreeMap<&str, &'o Kept<Job>> = BTreeMap::new();
        let made = |kept: &Kept<Job>| (kept.object.meta.created, kept.object.meta.version);
        for kept in &self.jobs {
            let known = latest.entry(&kept.object.meta.name).or_insert(kept);
            if made(known) < made(kept) {
                *known = kept;
            }
        }
        latest.into_values().collect()
    }

    /// Pods of the group, without lost ones that were replaced: a pod was made after they were
    /// bound.
    fn current_pods(&self, objects: &Objects) -> Vec<&'o Kept<Pod>> {
        let latest = self.pods.iter().filter_map(|kept| kept.object.meta.created).max();
        let replaced =
            |kept: &Kept<Pod>| kept.object.start.is_some_and(|start| latest > Some(start)) && is_lost(objects, kept);
        self.pods.iter().copied().filter(|kept| !replaced(kept)).collect()
    }

    fn fate(&self, objects: &Objects) -> Fate {
        let (jobs, pods) = (self.current_jobs(), self.current_pods(objects));
        let lost_pod = |kept: &Kept<Pod>| is_lost(objects, kept);
        let lost_job = |kept: &Kept<Job>| !kept.object.state.is_final() && objects.documents.deleted(Kind::Job, kept);
        let over = |state: JobState, end: Option<i64>| Fate { state, end, lost: false };
        let unfinished = jobs.iter().any(|kept| !kept.object.state.is_final());
        if !jobs.is_empty() && !unfinished {
            // Of several Jobs the one that did not complete tells, the last of them.
            let worst =
                jobs.iter().map(|kept| &kept.object).max_by_key(|job| (job.state != JobState::Completed, job.end));
            let ends: Option<Vec<i64>> = jobs.iter().map(|kept| kept.object.end).collect();
            return over(
                worst.map_or(JobState::Unknown, |job| job.state),
                ends.and_then(|ends| ends.into_iter().max()),
            );
        }
        let alive = |state: JobState| {
            let running = pods.iter().any(|kept| kept.object.state == state && !lost_pod(kept));
            // What Jobs say of their pods, the pods say better.
            running || (self.pods.is_empty() && jobs.iter().any(|kept| kept.object.state == state && !lost_job(kept)))
        };
        if alive(JobState::Running) {
            return over(JobState::Running, None);
        }
        let lost = pods.iter().any(|kept| lost_pod(kept)) || jobs.iter().any(|kept| lost_job(kept));
        // A Job that goes on makes new pods for those that failed.
        if alive(JobState::Pending) || (unfinished && !lost) {
            return over(JobState::Pending, None);
        }
        if lost {
            return Fate { state: JobState::Unknown, end: None, lost };
        }
        let last = pods.iter().map(|kept| &kept.object).max_by_key(|pod| (pod.end, pod.state));
        let ends: Option<Vec<i64>> = pods.iter().map(|kept| kept.object.end).collect();
        over(last.map_or(JobState::Unknown, |pod| pod.state), ends.and_then(|ends| ends.into_iter().max()))
    }

    /// Why it waits: as the first pod says that waits, else as its Job does.
    fn waits(&self, objects: &Objects) -> Option<&'o str> {
        let pods = self.current_pods(objects);
        let pod = pods.iter().filter(|kept| !is_lost(objects, kept)).find_map(|kept| kept.object.waits.as_deref());
        pod.or_else(|| self.current_jobs().iter().find_map(|kept| kept.object.waits.as_deref()))
    }

    /// Topology that most of the pods' GPUs request, else that of the Jobs; and whether they differ
    /// in that.
    fn topology(&self) -> (Option<&'o str>, bool) {
        let mut asked: BTreeMap<Option<&'o str>, f64> = BTreeMap::new();
        for kept in &self.pods {
            *asked.entry(kept.object.topology.as_deref()).or_default() += kept.object.gpus().unwrap_or(0.0);
        }
        if self.pods.is_empty() {
            for kept in self.current_jobs() {
                *asked.entry(kept.object.topology.as_deref()).or_default() += kept.object.asked.gpus().unwrap_or(0.0);
            }
        }
        let differs = asked.len() > 1;
        // Of equals the first by name.
        let most = asked.into_iter().rev().max_by(|(_, gpus), (_, others)| gpus.total_cmp(others));
        (most.and_then(|(text, _)| text), differs)
    }

    /// The job, and whether it was lost, whether its start is only that of its controller, and whether its pods differ in what they ask of the topology. O(n log n) for n pods.
    pub(super) fn draft(
        &self,
        objects: &Objects,
        machines: &Machines<'o>,
        beside: Beside<'o>,
    ) -> (Draft<'o>, [bool; 3]) {
        let fate = self.fate(objects);
        let order = |pod: &&'o Pod| (pod.start.unwrap_or(i64::MAX), pod.meta.created, pod.meta.uid.clone());
        let mut all: Vec<&'o Pod> = self.pods.iter().map(|kept| &kept.object).collect();
        all.sort_by_cached_key(order);
        // Until when a deleted pod held its GPUs is unknown. Beside the one that took its place it would count twice.
        let here = self.pods.iter().filter(|kept| !is_lost(objects, kept)).map(|kept| &kept.object);
        let mut pods: Vec<&'o Pod> = here.collect();
        pods.sort_by_cached_key(order);
        if pods.first().is_none_or(|pod| pod.start.is_none()) {
            pods.clone_from(&all);
        }
        let (mut attempts, placed) = attempts(&pods, &fate);
        let of_controller = pods.is_empty() && beside.group.is_none_or(|group| group.started.is_none());
        let controlled = || self.jobs.iter().filter_map(|kept| kept.object.start).min();
        let begun = all
            .first()
            .map_or_else(|| beside.group.and_then(|group| group.started).or_else(controlled), |first| first.start);
        if let (Some(last), Some(end)) = (attempts.last_mut(), fate.end) {
            last.end = Some(last.start.map_or(end, |start| end.max(start)));
        }
        if let (Some(first), Some(begun)) = (attempts.first_mut(), begun) {
            first.start = Some(begun);
        }
        // Pods by their attempt, in order of the attempts.
        let ran: Vec<Vec<&'o Pod>> = placed
            .chunk_by(|(one, _), (other, _)| one == other)
            .map(|of| of.iter().map(|(_, pod)| *pod).collect())
            .collect();
        let last_pods = ran.last().cloned().unwrap_or_default();
        let given = |amount: fn(&Pod) -> Option<f64>| -> Option<f64> {
            let each: Option<Vec<f64>> = ran.iter().map(|pods| peak(pods, amount)).collect();
            each.filter(|each| !each.is_empty())?.into_iter().reduce(f64::max)
        };
        let cpus = |pod: &Pod| pod.amounts.cpus();
        let memory = |pod: &Pod| pod.amounts.mem_bytes().map(|bytes| bytes as f64);
        let current = self.current_jobs();
        let jobs = || current.iter().map(|kept| &kept.object);
        // The workers of an MPIJob belong to no Job, only its launcher does.
        let owners: BTreeSet<&str> = self.jobs.iter().map(|kept| &*kept.object.meta.uid).collect();
        let owned = |pod: &Pod| pod.meta.owner.as_ref().is_some_and(|owner| owners.contains(&*owner.uid));
        let others: Vec<&Pod> = pods.iter().copied().filter(|pod| !owned(pod)).collect();
        let of_all = |of_job: fn(&Job) -> Option<f64>, of_pod: fn(&Pod) -> Option<f64>| {
            let sum = jobs().map(of_job).try_fold(0.0, |sum, part| Some(sum + part?))?;
            if others.is_empty() { Some(sum) } else { Some(sum + peak(&others, of_pod)?) }
        };
        let one = |_: &Pod| Some(1.0);
        let pods_at_once =
            if self.jobs.is_empty() { peak(&pods, one) } else { of_all(|job| Some(job.pods as f64), one) };
        let (topology, differs) = self.topology();
        let (req_gpus, req_cpus, req_mem) = if self.jobs.is_empty() {
            (peak(&pods, Pod::gpus), peak(&pods, cpus), peak(&pods, memory))
        } else {
            let of_job = |job: &Job| job.asked.mem_bytes().map(|bytes| bytes as f64);
            (of_all(|job| job.asked.gpus(), Pod::gpus), of_all(|job| job.asked.cpus(), cpus), of_all(of_job, memory))
        };
        let alloc_gpus = given(Pod::gpus).or(req_gpus.filter(|_| pods.is_empty() && begun.is_some()));
        let mut models = machines.of_pods(&last_pods);
        if models.is_empty() {
            let selected = pods.iter().map(|pod| &pod.selected).chain(jobs().map(|job| &job.selected));
            models = selected.filter_map(|label| label.as_deref().map(unshared)).collect();
        }
        let resources = pods.iter().map(|pod| &pod.amounts).chain(jobs().map(|job| &job.asked));
        let gpu_type = gpu_type(&models, resources.flat_map(Amounts::gpu_names));
        let nodes = hosts(&last_pods);
        let mut priorities = pods.iter().map(|pod| &pod.priority).chain(jobs().map(|job| &job.priority));
        let priority = priorities.find_map(|name| name.as_deref());
        let phase = pods.last().map(|pod| &*pod.phase);
        let reported = if current.len() == 1 { jobs().next().map(|job| &*job.reported) } else { phase };
        let runs: Option<Vec<f64>> = attempts.iter().map(Attempt::run_s).collect();
        let row = JobRow {
            user: None,
            account: Some(Cow::Borrowed(self.root.namespace)).filter(|name| !name.is_empty()),
            vc: beside.vc.map(Cow::Borrowed),
            qos: priority.or(beside.group.and_then(|group| group.priority.as_deref())).map(Cow::Borrowed),
            name: Some(Cow::Borrowed(self.root.name)),
            job_type: Some(Cow::Borrowed(self.root.kind)),
            gpu_type: gpu_type.map(Cow::Owned),
            state: Some(Cow::Borrowed(fate.state.id())),
            reported_state: reported.map(Cow::Borrowed),
            pending_reason: self.waits(objects).filter(|_| fate.state == JobState::Pending).map(Cow::Borrowed),
            submit: self.created().into_iter().chain(beside.group.and_then(|group| group.meta.created)).min(),
            start: begun,
            end: fate.end,
            censored: match fate.state {
                JobState::Running | JobState::Pending => Some(true),
                _ => (!fate.lost).then_some(false),
            },
            attempts: i64::try_from(attempts.len().max(usize::from(begun.is_some()))).ok(),
            req_cpus,
            req_mem_bytes: req_mem.map(|bytes| bytes as i64),
            req_gpus: req_gpus.map(without_dust),
            pods: pods_at_once.map(|pods| pods as i64).filter(|pods| *pods > 0),
            topology: topology.map(Cow::Borrowed),
            alloc_nodes: i64::try_from(nodes.len()).ok().filter(|nodes| *nodes > 0),
            alloc_cpus: given(|pod| pod.amounts.cpus()),
            alloc_gpus: alloc_gpus.map(without_dust),
            nodes_hostlist: (!nodes.is_empty()).then(|| Cow::Owned(joined(&nodes))),
            time_limit_s: jobs().next().filter(|_| current.len() == 1).and_then(|job| job.time_limit_s),
            run_s: runs.filter(|runs| runs.len() > 1).map(|runs| runs.iter().sum()),
            exit_code: last_pods.iter().filter_map(|pod| pod.exit_code).max(),
            ..JobRow::default()
        };
        let place = self.pods.first().map(|kept| kept.place).or_else(|| self.jobs.first().map(|kept| kept.place));
        let place = place.unwrap_or(Place { file: 0, line: 0, clean: true });
        let told = [fate.lost, of_controller && begun.is_some(), differs];
        (Draft { row, attempts, pods: placed, gpus: None, place }, told)
    }
}

/// Whether a pod was deleted before it was seen to end.
fn is_lost(objects: &Objects, kept: &Kept<Pod>) -> bool {
    !kept.object.state.is_final() && objects.documents.deleted(Kind::Pod, kept)
}

/// Names joined by commas.
pub(super) fn joined(names: &BTreeSet<&str>) -> String {
    names.iter().copied().collect::<Vec<_>>().join(",")
}

/// The attempts that pods, in order of their start, make; and to which each pod belongs.
fn attempts<'o>(pods: &[&'o Pod], fate: &Fate) -> (Vec<Attempt>, Vec<(usize, &'o Pod)>) {
    let mut result: Vec<(Attempt, bool)> = Vec::new();
    let mut placed = Vec::new();
    for pod in pods {
        let Some(start) = pod.start else { continue };
        let failed = pod.state.is_final() && pod.state != JobState::Completed;
        let end = pod.end.map(|end| end.max(start));
        let open = pod.state == JobState::Running && fate.state == JobState::Running;
        match result.last_mut() {
            // After a failure and a pause it is another attempt; pods that take turns are one.
            Some((last, broken)) if !(*broken && last.end.is_some_and(|end| start >= end)) => {
                last.end = last.end.zip(end).map(|(last, end)| last.max(end));
                last.open |= open;
                *broken |= failed;
                if failed || last.reason.is_none() {
                    last.reason = Some(pod.state).filter(|state| state.is_final());
                }
            }
            _ => {
                let reason = Some(pod.state).filter(|state| state.is_final());
                result.push((Attempt { start: Some(start), end, reason, open }, failed));
            }
        }
        placed.push((result.len() - 1, *pod));
    }
    let mut attempts: Vec<Attempt> = result.into_iter().map(|(attempt, _)| attempt).collect();
    if let Some(last) = attempts.last_mut() {
        last.reason = Some(fate.state).filter(|state| state.is_final());
    }
    (attempts, placed)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::super::store::{Store, Taken};
    use super::*;
    use crate::quality::RowAudit;

    /// Pods of one Job, each of 2 GPUs: pod k runs from 10 k to 10 k + 5 s and fails, so each is an attempt of its own.
    fn failing(many: i64) -> Store<Pod> {
        let object = json!({
            "metadata": {"name": "p", "ownerReferences": [{"kind": "Job", "name": "j", "uid": "j", "controller": true}]},
            "spec": {"nodeName": "n", "containers": [{"resources": {"limits": {"nvidia.com/gpu": 2}}}]},
            "status": {"phase": "Failed"}
        });
        let mut row = RowAudit::new("f", 1);
        let meta = Meta::read(&object, Kind::Pod, &mut row).unwrap();
        let pod = Pod::read(&object, meta, &mut row);
        let mut store = Store::default();
        let place = Place { file: 0, line: 1, clean: true };
        for at in (0..many).map(|k| 10_000 * k) {
            let mut pod = pod.clone();
            pod.meta.uid = at.to_string().into();
            (pod.meta.created, pod.start, pod.end) = (Some(at), Some(at), Some(at + 5_000));
            store.take(pod, Taken { place, document: 0, latest: None, deleted: false });
        }
        store
    }

    /// Attempts, GPUs given and run of the job that these pods are.
    fn drafted(store: &Store<Pod>) -> (usize, Option<f64>, Option<f64>) {
        let objects = Objects::default();
        let mut group = Group::new(Root { namespace: "n", name: "j", kind: "Job", uid: "j" });
        group.pods = store.iter().collect();
        let (draft, _) = group.draft(&objects, &Machines::default(), Beside::default());
        (draft.attempts.len(), draft.row.alloc_gpus, draft.row.run_s)
    }

    #[test]
    fn of_pods_that_differ_counts_what_most_of_their_gpus_ask() {
        let mut store = Store::default();
        for (at, gpus, topology) in [(0, 1, "preferred:rack"), (1, 1, "preferred:rack"), (2, 8, "required:rack")] {
            let object = json!({
                "metadata": {"name": "p", "uid": format!("p{at}")},
                "spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": gpus}}}]},
                "status": {"phase": "Pending"}
            });
            let mut row = RowAudit::new("f", 1);
            let meta = Meta::read(&object, Kind::Pod, &mut row).unwrap();
            let mut pod = Pod::read(&object, meta, &mut row);
            pod.topology = Some(topology.into());
            let place = Place { file: 0, line: 1, clean: true };
            store.take(pod, Taken { place, document: 0, latest: None, deleted: false });
        }
        let mut group = Group::new(Root { namespace: "n", name: "j", kind: "Job", uid: "j" });
        group.pods = store.iter().collect();
        assert_eq!(group.topology(), (Some("required:rack"), true));
    }

    // Were every attempt to look at every pod, this would be 6.4 billion steps.
    #[test]
    fn a_job_that_failed_very_often_has_an_attempt_for_each_pod() {
        assert_eq!(drafted(&failing(80_000)), (80_000, Some(2.0), Some(400_000.0)));
    }
}
