//! Patches to queues of Kubernetes: ClusterQueues of Kueue, Queues of KAI and of Volcano.
//!
//! A VC's queue is the object of that kind whose name is the VC's, or what [`emit`](super::super::emit) would call it. Of a ClusterQueue the group that covers GPUs counts, and in it the flavors of
//! the plan's GPU types: those whose names or node labels say so, or the only one there is. All queues come into the cohort that most of them are in.
//!
//! O(changes × bytes). Worked example: `- name: "nvidia.com/gpu"`, `nominalQuota: "64"` of a VC with 96 GPUs of its own becomes `nominalQuota: "96"`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::super::answer::{QueuesAnswer, VcPlan};
use super::super::emit::{PLUGIN, about, lent, named, reclaiming, runs_for, shared, strategy};
use super::super::share::Sharing;
use super::effect;
use crate::error::Result;
use crate::plan::emit::own::{Changes, OwnFile, Patch, patch};
use crate::replay::input::is_of_type;
use crate::yaml::amend::{Amended, Step};

/// Files with the changes so far.
struct Editing<'f> {
    files: Vec<(&'f OwnFile, Amended)>,
    changes: Changes,
}

/// Where an object is: its file and its place in it.
type At = (usize, usize);

impl<'f> Editing<'f> {
    fn new(files: &'f [OwnFile]) -> Self {
        let files = files.iter().filter_map(|file| Some((file, file.objects.clone()?))).collect();
        Self { files, changes: Changes::default() }
    }

    /// The object of a kind, and of a version that begins with `group`, that has one of the names.
    fn find(&self, group: &str, kind: &str, names: &[&str]) -> Option<At> {
        self.all(group, kind).find(|(name, _)| names.contains(name)).map(|(_, at)| at)
    }

    /// All objects of a kind, with their names.
    fn all<'a>(&'a self, group: &'a str, kind: &'a str) -> impl Iterator<Item = (&'a str, At)> {
        let places = self.files.iter().enumerate().flat_map(|(file, (_, of))| {
            of.objects().iter().enumerate().map(move |(place, object)| ((file, place), object))
        });
        places.filter_map(move |(at, object)| {
            let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            let is = text("/kind") == kind && text("/apiVersion").starts_with(group);
            is.then(|| (text("/metadata/name"), at))
        })
    }

    /// The ClusterQueue that all LocalQueues lead to which have one of the names, or whose namespace has.
    fn behind_local_queues(&self, group: &str, names: &[&str]) -> Option<At> {
        let text = |at: At, pointer: &str| self.object(at).pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let local = self.all(group, "LocalQueue");
        let theirs =
            local.filter(|(name, at)| names.contains(name) || names.contains(&text(*at, "/metadata/namespace")));
        let mut behind: Vec<&str> = theirs.map(|(_, at)| text(at, "/spec/clusterQueue")).collect();
        behind.sort_unstable();
        behind.dedup();
        if let [queue] = behind.as_slice() { self.find(group, "ClusterQueue", &[queue]) } else { None }
    }

    fn object(&self, at: At) -> &Value {
        self.files.get(at.0).and_then(|(_, file)| file.objects().get(at.1)).unwrap_or(&Value::Null)
    }

    /// Sets a value, or takes it out; tells of it as of `what`, and why, with what the plan does to the VC's waits.
    fn set(&mut self, (at, what, vc): (At, &str, &VcPlan), path: &[Step], to: Option<&Value>, why: &str) {
        let Some((file, amended)) = self.files.get_mut(at.0) else { return };
        let name = path.iter().rev().find_map(|step| match step {
            Step::Key(key) => Some(key.as_str()),
            Step::Item { .. } => None,
        });
        let name = name.unwrap_or_default();
        let text = |value: Option<&Value>| {
            value.map_or_else(|| "none".to_owned(), |value| value.as_str().map_or(value.to_string(), str::to_owned))
        };
        let after = text(to);
        match amended.set(at.1, path, to) {
            Ok(None) => {}
            Ok(Some(changed)) => {
                let before = text(changed.before.as_ref());
                let effect = effect(vc);
                self.changes.made.push(format!("{}: {what}: {name} {before} → {after}: {why}{effect}", file.name));
            }
            Err(error) => self.changes.left.push(format!("{}: {what}: {name} → {after} ({why}): {error}", file.name)),
        }
    }

    /// The patch; `steps` are what has to be done beside it.
    fn emitted(self, name: &str, answer: &QueuesAnswer, steps: &str) -> Patch {
        let files =
            self.files.iter().map(|(file, amended)| ([file.path(), file.text.as_str()], amended.text().to_owned()));
        patch(name, about(answer), (&self.changes, steps), files)
    }
}

fn keys(path: &[&str]) -> Vec<Step> {
    path.iter().map(|key| Step::Key((*key).to_owned())).collect()
}

/// The queues of the VCs, those that are in the files under the VC's name or, of Kueue, behind LocalQueues or a namespace of that name; of the others it is told
/// that `file` has them, and of one that serves several VCs that it stays.
fn queues(
    editing: &mut Editing<'_>,
    answer: &QueuesAnswer,
    (group, kind, file): (&str, &str, &str),
) -> Result<Vec<(At, String, VcPlan)>> {
    let mut result: Vec<(At, String, VcPlan)> = Vec::new();
    for (slug, vc) in named(&answer.body)? {
        let names = [vc.vc.as_str(), slug.as_str()];
        let behind = || (kind == "ClusterQueue").then(|| editing.behind_local_queues(group, &names)).flatten();
        let Some(at) = editing.find(group, kind, &names).or_else(behind) else {
            editing.changes.left.push(format!("{}: the files have no {kind} of that name; {file} has one, to which you add what yours have beside GPUs", vc.vc));
            continue;
        };
        let name = editing.object(at).pointer("/metadata/name").and_then(Value::as_str).unwrap_or(&slug);
        let via = if names.contains(&name) { String::new() } else { format!(" (of {})", vc.vc) };
        result.push((at, format!("{kind} {name}{via}"), vc));
    }
    let many = |of: At| result.iter().filter(|(at, ..)| *at == of).count();
    let shared: Vec<At> = result.iter().map(|(at, ..)| *at).filter(|at| many(*at) > 1).collect();
    result.retain(|(at, what, _)| {
        let alone = !shared.contains(at);
        if !alone {
            let told = format!("{what} serves other VCs, too, and each needs one of its own, which {file} has");
            editing.changes.left.push(told);
        }
        alone
    });
    Ok(result)
}

/// What a VC owns and what it may use beyond, in whole GPUs; the latter is bounded by the plan or not.
fn shares(vc: &VcPlan) -> (u64, Option<u64>) {
    (vc.own_gpus.floor() as u64, vc.most_gpus.map(|most| most.floor() as u64))
}

/// How the plan shares nodes, if queues are to be patched for it; else it is told why not.
fn patched(editing: &mut Editing<'_>, answer: &QueuesAnswer) -> Option<Sharing> {
    match shared(answer)? {
        sharing @ Sharing::Borrowing { .. } => Some(sharing),
        _ => {
            let what = "the plan is one queue for all VCs, which is an object of its own and is in the other file";
            editing.changes.left.push(what.to_owned());
            None
        }
    }
}

/// Why jobs are stopped, or not.
fn stops(sharing: Sharing) -> &'static str {
    if sharing.reclaims() {
        "jobs that borrow are stopped for a queue that needs its own share"
    } else {
        "nobody is stopped"
    }
}

/// A patch to ClusterQueues; `gpu_resource` is how the cluster calls a GPU.
///
/// # Errors
/// If a VC has no name that Kubernetes takes.
pub fn kueue(answer: &QueuesAnswer, gpu_resource: &str, files: &[OwnFile]) -> Result<Patch> {
    let mut editing = Editing::new(files);
    let mut steps = String::new();
    if let Some(sharing) = patched(&mut editing, answer) {
        let queues = queues(&mut editing, answer, ("kueue.x-k8s.io/", "ClusterQueue", "kueue.yaml"))?;
        let mut cohorts: BTreeMap<String, usize> = BTreeMap::new();
        for (at, ..) in &queues {
            if let Some(cohort) = cohort_of(editing.object(*at)) {
                *cohorts.entry(cohort.to_owned()).or_default() += 1;
            }
        }
        // The first by name of those that as many are in.
        let most = cohorts.iter().rev().max_by_key(|(_, queues)| **queues);
        let cohort = most.map_or_else(|| "tracecast".to_owned(), |(name, _)| name.clone());
        steps = format!(
            "All queues of the plan are in the cohort {cohort}; so must be those that you add from kueue.yaml, with the names of your flavors."
        );
        let ours: Vec<At> = queues.iter().map(|(at, ..)| *at).collect();
        let all = editing.all("kueue.x-k8s.io/", "ClusterQueue");
        let others =
            all.filter(|(_, at)| !ours.contains(at) && cohort_of(editing.object(*at)) == Some(cohort.as_str()));
        let told = |(name, _): (&str, At)| {
            format!(
                "ClusterQueue {name}: it is in the cohort {cohort}, too, and no VC of the trace has its name; it borrows as it did"
            )
        };
        let told: Vec<String> = others.map(told).collect();
        editing.changes.left.extend(told);
        let strategy = strategy(&answer.body);
        let types: BTreeSet<Option<&str>> =
            answer.body.vcs.iter().flat_map(|vc| &vc.own).map(|own| own.gpu_type.as_deref()).collect();
        for (at, what, vc) in queues {
            quotas(&mut editing, at, &what, (&vc, answer.trial.lends()), (&types, gpu_resource));
            let of_vc = (at, what.as_str(), &vc);
            let object = editing.object(at);
            let has = |pointer: &str| object.pointer(pointer).is_some();
            let old = object.get("apiVersion").and_then(Value::as_str).is_some_and(|of| of.ends_with("v1beta1"));
            let key = if has("/spec/cohort") || old && !has("/spec/cohortName") { "cohort" } else { "cohortName" };
            let borrows = has("/spec/preemption/borrowWithinCohort/policy");
            // Kueue takes what is not said for BestEffortFIFO.
            let ordered = has("/spec/queueingStrategy") || strategy != "BestEffortFIFO";
            let within = object.pointer("/spec/preemption/withinClusterQueue").and_then(Value::as_str);
            if let Some(within) = within.filter(|within| *within != "Never").map(str::to_owned) {
                let left = format!("{what}: withinClusterQueue stays {within}; the replay knows no priorities");
                editing.changes.left.push(left);
            }
            if ordered {
                let path = keys(&["spec", "queueingStrategy"]);
                editing.set(of_vc, &path, Some(&strategy.into()), "as it was replayed");
            }
            let why = "queues borrow from queues of their cohort, processors and memory as well";
            editing.set(of_vc, &keys(&["spec", key]), Some(&cohort.as_str().into()), why);
            let to = reclaiming(sharing).into();
            editing.set(of_vc, &keys(&["spec", "preemption", "reclaimWithinCohort"]), Some(&to), stops(sharing));
            if borrows && !sharing.reclaims() {
                let path = keys(&["spec", "preemption", "borrowWithinCohort", "policy"]);
                editing.set(of_vc, &path, Some(&to), "Kueue takes it only where reclaiming is on");
            }
        }
    }
    Ok(editing.emitted("kueue.patch", answer, &steps))
}

/// The cohort of a ClusterQueue.
fn cohort_of(queue: &Value) -> Option<&str> {
    ["/spec/cohortName", "/spec/cohort"].iter().find_map(|pointer| queue.pointer(pointer)?.as_str())
}

/// Sets what a VC owns of each of the plan's GPU types, and what it may borrow and lend.
fn quotas(
    editing: &mut Editing<'_>,
    at: At,
    what: &str,
    (vc, lends): (&VcPlan, Option<f64>),
    (types, gpu_resource): (&BTreeSet<Option<&str>>, &str),
) {
    let covers = |group: &&Value| {
        let covered = group.get("coveredResources").and_then(Value::as_array);
        covered.into_iter().flatten().any(|resource| resource.as_str() == Some(gpu_resource))
    };
    let groups = editing.object(at).pointer("/spec/resourceGroups").and_then(Value::as_array);
    let group = groups.into_iter().flatten().find(covers);
    let flavors = group.and_then(|group| group.get("flavors")).and_then(Value::as_array);
    let names = flavors.into_iter().flatten().filter_map(|flavor| Some(flavor.get("name")?.as_str()?.to_owned()));
    let names: Vec<String> = names.collect();
    let owned = vc.own_by_type();
    let mut result: BTreeMap<Option<&str>, &str> = BTreeMap::new();
    for name in &names {
        let known = types.iter().copied().find(|of| is_of(editing, name, *of));
        let only = || owned.keys().next().copied().filter(|_| names.len() == 1 && owned.len() == 1);
        if let Some(gpu_type) = known.or_else(only) {
            result.insert(gpu_type, name);
        }
    }
    for (gpu_type, _) in owned.iter().filter(|(gpu_type, _)| !result.contains_key(*gpu_type)) {
        let kind = gpu_type.unwrap_or("an unknown type");
        let why = format!("{what}: no flavor of it is known to be for GPUs ({gpu_resource}) of {kind}");
        editing.changes.left.push(why);
    }
    let borrow = vc.may_borrow().map(|gpus| gpus.floor() as u64);
    for (gpu_type, flavor) in result {
        let path = |key: &str| {
            let mut path = keys(&["spec", "resourceGroups"]);
            path.push(Step::Item { key: "coveredResources", is: gpu_resource.to_owned() });
            path.extend(keys(&["flavors"]));
            path.push(Step::Item { key: "name", is: flavor.to_owned() });
            path.extend(keys(&["resources"]));
            path.push(Step::Item { key: "name", is: gpu_resource.to_owned() });
            path.extend(keys(&[key]));
            path
        };
        let what = format!("{what}, flavor {flavor}");
        let own = owned.get(&gpu_type).copied().unwrap_or(0.0).floor() as u64;
        editing.set((at, &what, vc), &path("nominalQuota"), Some(&own.into()), "its own share");
        let why = if borrow.is_some() { "what it may use beyond" } else { "it may use all that is idle" };
        editing.set((at, &what, vc), &path("borrowingLimit"), borrow.map(Value::from).as_ref(), why);
        let lent = lends.map(|part| lent(own as f64, part));
        let why = match lent {
            Some(_) => "what others may borrow of it at most, by Kueue's own rules on the earlier jobs",
            None => "others may borrow all that it leaves idle",
        };
        editing.set((at, &what, vc), &path("lendingLimit"), lent.map(Value::from).as_ref(), why);
    }
}

/// Whether a flavor is for nodes of a GPU type: by its name, or the node labels of its object in the files.
fn is_of(editing: &Editing<'_>, flavor: &str, gpu_type: Option<&str>) -> bool {
    let object = editing.find("kueue.x-k8s.io/", "ResourceFlavor", &[flavor]).map(|at| editing.object(at));
    let labels = object.and_then(|object| object.pointer("/spec/nodeLabels")).and_then(Value::as_object);
    let labels = labels.into_iter().flatten().filter_map(|(_, label)| label.as_str());
    gpu_type.is_some_and(|gpu_type| is_of_type(flavor, labels, gpu_type))
}

/// A patch to Queues of KAI.
///
/// # Errors
/// Errors of [`kueue()`].
pub fn kai(answer: &QueuesAnswer, files: &[OwnFile]) -> Result<Patch> {
    let mut editing = Editing::new(files);
    if let Some(sharing) = patched(&mut editing, answer) {
        for (at, what, vc) in queues(&mut editing, answer, ("scheduling.run.ai/", "Queue", "kai.yaml"))? {
            let (own, most) = shares(&vc);
            let of_vc = (at, what.as_str(), &vc);
            let of = |key: &str| keys(&["spec", "resources", "gpu", key]);
            editing.set(of_vc, &of("quota"), Some(&own.into()), "its own share");
            let why = if most.is_some() { "the most it may use" } else { "it may use all that is idle" };
            editing.set(of_vc, &of("limit"), Some(&most.map_or_else(|| (-1).into(), Value::from)), why);
            let runs_for = runs_for(sharing).map(Value::from);
            editing.set(of_vc, &keys(&["spec", "reclaimMinRuntime"]), runs_for.as_ref(), stops(sharing));
            if editing.object(at).pointer("/spec/resources/gpu/overQuotaWeight").is_none() {
                let why = "what is idle is shared by it";
                editing.set(of_vc, &of("overQuotaWeight"), Some(&own.max(1).into()), why);
            }
        }
    }
    let steps = "Quotas and limits of queues above these bound them, and stay as they are.";
    Ok(editing.emitted("kai.patch", answer, steps))
}

/// A patch to Queues of Volcano; `gpu_resource` is how the cluster calls a GPU.
///
/// # Errors
/// Errors of [`kueue()`].
pub fn volcano(answer: &QueuesAnswer, gpu_resource: &str, files: &[OwnFile]) -> Result<Patch> {
    let mut editing = Editing::new(files);
    if let Some(sharing) = patched(&mut editing, answer) {
        for (at, what, vc) in queues(&mut editing, answer, ("scheduling.volcano.sh/", "Queue", "volcano.yaml"))? {
            let (own, most) = shares(&vc);
            let of_vc = (at, what.as_str(), &vc);
            let gpus = |gpus: u64| Value::from(gpus.to_string());
            let of = |key: &str| keys(&["spec", key, gpu_resource]);
            let alone = editing
                .object(at)
                .pointer("/spec/capability")
                .and_then(Value::as_object)
                .is_some_and(|of| of.len() == 1);
            editing.set(of_vc, &of("deserved"), Some(&gpus(own)), "its own share");
            let why = if most.is_some() { "the most it may use" } else { "it may use all that is idle" };
            let capability = if most.is_none() && alone { keys(&["spec", "capability"]) } else { of("capability") };
            editing.set(of_vc, &capability, most.map(gpus).as_ref(), why);
            let reclaimable = sharing.reclaims().into();
            editing.set(of_vc, &keys(&["spec", "reclaimable"]), Some(&reclaimable), stops(sharing));
        }
    }
    Ok(editing.emitted("volcano.patch", answer, PLUGIN))
}
