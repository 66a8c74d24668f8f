//! Conversion of objects into the tables of a trace: which pods belong to which job, jobs under
//! unique keys, nodes, quotas, and the notes for a report.
//!
//! A pod belongs to the Workload that its annotation names, that its owner (or the owner of its Job) is managed by, or that has the
//! name of its pod group; where an owner had several, to the latest made before the pod. A Job that a Workload stands for is no job
//! of its own, but tells the end where the Workload was deleted before it was seen to finish.
//!
//! The key of a job is `namespace/name`, of a Workload or of the owner of the pods. Names are used again: of several with the same,
//! all but the first are `namespace/name@` and the moment of their creation in epoch seconds.
//!
//! Worked example: pods `t-0` made at 1,000 s and, after its deletion, at 2,000 s in namespace `n` are the jobs `n/t-0` and
//! `n/t-0@2000`.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::division::unshared;
use super::group::{Beside, Group, Root, climb, joined};
use super::job::{Draft, Machines, gpu_type, hosts, peak};
use super::node::{Node, machines};
use super::note::{Counts, notes};
use super::object::{Kind, Owner};
use super::objects::Objects;
use super::part::Divided;
use super::place::Chosen;
use super::pod::Pod;
use super::quantity::{Amounts, without_dust};
use super::queue::{PodGroup, Quotas};
use super::store::Kept;
use super::timeline::{Attempt, History, Latest, timeline};
use super::workload::{Told, Workload};
use crate::schema::{CapacityRow, JobRow, JobState, NodeRow};
use crate::time::SECOND_MS;
use crate::trace::Trace;

/// A pod is bound a moment after its workload is admitted, by clocks of two machines.
const CLOCKS_MS: i64 = 2 * SECOND_MS;

/// A workload with what belongs to it.
struct Work<'o> {
    kept: &'o Kept<Workload>,
    pods: Vec<&'o Pod>,
    history: History,
}

/// Origin of a job.
enum Source<'s, 'o> {
    Work(&'s Work<'o>),
    Group(&'s Group<'o>),
}

/// Writes the trace; `divided` is what was counted in parts of GPUs, `node_labels` are those that say where nodes lie, if someone named them.
pub(super) fn assemble(objects: &Objects, divided: Divided, node_labels: &[String], trace: &mut Trace) {
    let mut links = Links::new(objects);
    let groups = links.attach(objects);
    let registered = machines(&objects.nodes);
    let nodes: Vec<&Node> = registered.iter().map(|kept| &kept.object).collect();
    let machines = Machines::new(&nodes, objects.flavors.iter().map(|kept| &kept.object));
    let queues = Queues::of(objects);
    let mut counts = Counts { divided, ..Counts::default() };
    // Jobs in order of their creation, so that keys do not depend on the order of files.
    let mut jobs: Vec<(Option<i64>, String, &str, Source<'_, '_>)> = Vec::new();
    for work in &links.works {
        let meta = &work.kept.object.meta;
        jobs.push((meta.created, meta.path(), &meta.uid, Source::Work(work)));
    }
    for group in groups.values() {
        let root = &group.root;
        let path =
            if root.namespace.is_empty() { root.name.to_owned() } else { format!("{}/{}", root.namespace, root.name) };
        jobs.push((group.created(), path, root.uid, Source::Group(group)));
    }
    jobs.sort_by(|a, b| (a.0, &a.1, a.2).cmp(&(b.0, &b.1, b.2)));
    let mut taken: BTreeSet<String> = BTreeSet::new();
    for (created, path, uid, source) in jobs {
        let draft = match source {
            Source::Work(work) => draft(work, objects, &machines, &queues, &mut counts),
            Source::Group(group) => {
                let beside = queues.beside(group, &mut counts);
                let (draft, [lost, by_controller, differs]) = group.draft(objects, &machines, beside);
                counts.lost += u64::from(lost);
                counts.differing += u64::from(differs);
                counts.by_controller += u64::from(by_controller);
                draft
            }
        };
        let at = created.unwrap_or_default().div_euclid(SECOND_MS);
        let spellings = [path.clone(), format!("{path}@{at}"), format!("{path}@{uid}"), format!("{path}@{at}@{uid}")];
        let key = spellings.into_iter().find(|key| !taken.contains(key)).unwrap_or(path);
        let file = objects.files.get(draft.place.file).map_or("", String::as_str);
        draft.write(&key, file, trace);
        taken.insert(key);
    }
    let quotas = quotas(objects);
    let chosen = Chosen::new(&nodes, &objects.topologies, node_labels);
    push_machines(&nodes, &chosen, &quotas, trace);
    trace.notes.extend(chosen.note(&nodes));
    notes(objects, &registered, &counts, &quotas, trace);
}

/// Index of workloads, to find the one that a pod or a Job belongs to.
#[derive(Default)]
struct Links<'o> {
    /// Workloads by creation.
    works: Vec<Work<'o>>,
    by_name: HashMap<(&'o str, &'o str), Vec<usize>>,
    by_owner: HashMap<&'o str, Vec<usize>>,
    by_owner_name: HashMap<(&'o str, &'o str), Vec<usize>>,
}

impl<'o> Links<'o> {
    fn new(objects: &'o Objects) -> Self {
        let mut links = Self::default();
        let mut kept: Vec<&Kept<Workload>> = objects.workloads.iter().collect();
        kept.sort_by_key(|kept| (kept.object.meta.created, &*kept.object.meta.uid));
        for kept in kept {
            let meta = &kept.object.meta;
            let ix = links.works.len();
            links.by_name.entry((&meta.namespace, &meta.name)).or_default().push(ix);
            if let Some(owner) = &meta.owner {
                if !owner.uid.is_empty() {
                    links.by_owner.entry(&owner.uid).or_default().push(ix);
                }
                links.by_owner_name.entry((&meta.namespace, &owner.name)).or_default().push(ix);
            }
            links.works.push(Work { kept, pods: Vec::new(), history: kept.history.clone() });
        }
        // What events tell of when attempts began and ended.
        let by_uid: HashMap<&str, usize> =
            links.works.iter().enumerate().map(|(ix, work)| (&*work.kept.object.meta.uid, ix)).collect();
        for event in &objects.events {
            let named = || links.by_name.get(&(&*event.of.0, &*event.of.1)).and_then(|list| list.last().copied());
            let ix = event.uid.as_deref().map_or_else(named, |uid| by_uid.get(uid).copied());
            let Some(work) = ix.and_then(|ix| links.works.get_mut(ix)) else { continue };
            for at in &event.at {
                match event.told {
                    Told::Admitted => {
                        work.history.admitted.insert(*at);
                    }
                    Told::Evicted(cause) => work.history.evict(*at, cause),
                }
            }
        }
        links
    }

    /// Latest workload of `list`, in order of creation, that is no later than `created`; else the
    /// first. O(log n).
    fn latest(&self, list: Option<&Vec<usize>>, created: Option<i64>) -> Option<usize> {
        let list = list?;
        let before = |ix: &usize| self.works.get(*ix).is_some_and(|work| work.kept.object.meta.created <= created);
        list.get(list.partition_point(before).saturating_sub(1)).copied()
    }

    fn of_owner(&self, objects: &'o Objects, owner: &'o Owner, created: Option<i64>) -> Option<usize> {
        let direct = self.latest(self.by_owner.get(&*owner.uid), created);
        direct.or_else(|| self.latest(self.by_owner.get(&*climb(objects, owner).uid), created))
    }

    fn of_pod(&self, objects: &'o Objects, pod: &'o Pod) -> Option<usize> {
        let meta = &pod.meta;
        let named = |name: &'o str| self.latest(self.by_name.get(&(&*meta.namespace, name)), meta.created);
        let labelled = |name: &'o str| {
            let of_owner = self.by_owner_name.get(&(&*meta.namespace, name));
            self.latest(of_owner, meta.created).or_else(|| named(name))
        };
        pod.workload
            .as_deref()
            .and_then(named)
            .or_else(|| self.latest(self.by_owner.get(&*meta.uid), meta.created))
            .or_else(|| self.of_owner(objects, meta.owner.as_ref()?, meta.created))
            .or_else(|| pod.jobs.iter().find_map(|name| labelled(name)))
    }

    /// Gives each pod to its workload; groups what has none by what made it.
    fn attach(&mut self, objects: &'o Objects) -> BTreeMap<(&'o str, &'o str), Group<'o>> {
        let mut groups: BTreeMap<(&'o str, &'o str), Group<'o>> = BTreeMap::new();
        for kept in objects.pods.iter() {
            let pod = &kept.object;
            if let Some(work) = self.of_pod(objects, pod).and_then(|ix| self.works.get_mut(ix)) {
                work.pods.push(pod);
            } else {
                let root = Root::of_pod(objects, pod);
                groups.entry(root.key()).or_insert_with(|| Group::new(root)).pods.push(kept);
            }
        }
        for kept in objects.jobs.iter() {
            let job = &kept.object;
            let own = self.by_owner.contains_key(&*job.meta.uid);
            let of_owner = |owner: &'o Owner| self.of_owner(objects, owner, job.meta.created);
            if !own && job.meta.owner.as_ref().and_then(of_owner).is_none() {
                let root = Root::of_job(objects, job);
                groups.entry(root.key()).or_insert_with(|| Group::new(root)).jobs.push(kept);
            }
        }
        groups
    }
}

/// Names of queues, by namespace and name.
struct Queues<'o> {
    /// The ClusterQueues of LocalQueues.
    cluster_queues: HashMap<(&'o str, &'o str), &'o str>,
    groups: HashMap<(&'o str, &'o str), &'o PodGroup>,
}

impl<'o> Queues<'o> {
    /// ClusterQueues are as the LocalQueues say; of those that are not in the dump, as the admissions of their workloads say, if
    /// these agree: a LocalQueue never changes its ClusterQueue.
    fn of(objects: &'o Objects) -> Self {
        let mut admitted: HashMap<(&str, &str), BTreeSet<&str>> = HashMap::new();
        for work in objects.workloads.iter().map(|kept| &kept.object) {
            if let (Some(local), Some(queue)) = (work.local_queue.as_deref(), work.cluster_queue.as_deref()) {
                admitted.entry((&work.meta.namespace, local)).or_default().insert(queue);
            }
        }
        let agreed = admitted.into_iter().filter(|(_, queues)| queues.len() == 1);
        let mut cluster_queues: HashMap<(&str, &str), &str> =
            agreed.filter_map(|(local, queues)| Some((local, queues.into_iter().next()?))).collect();
        for queue in objects.local_queues.iter().map(|kept| &kept.object) {
            if let Some(cluster_queue) = queue.cluster_queue.as_deref() {
                cluster_queues.insert((&queue.meta.namespace, &queue.meta.name), cluster_queue);
            }
        }
        let groups = objects.groups.iter().map(|kept| &kept.object);
        let groups = groups.map(|group| ((&*group.meta.namespace, &*group.meta.name), group)).collect();
        Self { cluster_queues, groups }
    }

    fn cluster_queue(&self, namespace: &'o str, local: &'o str) -> Option<&'o str> {
        self.cluster_queues.get(&(namespace, local)).copied()
    }

    /// The VC and the PodGroup of a group.
    fn beside(&self, group: &Group<'o>, counts: &mut Counts) -> Beside<'o> {
        let namespace = group.root.namespace;
        let named = group.pods.iter().find_map(|kept| kept.object.group.as_deref());
        let pod_group = named.and_then(|name| self.groups.get(&(namespace, name)).copied());
        let (local, queue) = group.queues();
        let of_kueue = local.and_then(|local| self.cluster_queue(namespace, local));
        counts.without_queue += u64::from(local.is_some() && of_kueue.is_none());
        Beside { group: pod_group, vc: of_kueue.or(queue).or(pod_group.and_then(|result| result.queue.as_deref())) }
    }
}

/// The job that a workload is.
fn draft<'o>(
    work: &Work<'o>,
    objects: &'o Objects,
    machines: &Machines<'o>,
    queues: &Queues<'o>,
    counts: &mut Counts,
) -> Draft<'o> {
    let workload = &work.kept.object;
    let meta = &workload.meta;
    counts.elastic += u64::from(workload.elastic);
    counts.differing += u64::from(workload.differs);
    let (mut state, mut end, mut reported) = (workload.state, workload.end, workload.reported.as_deref());
    let gone =
        matches!(state, JobState::Running | JobState::Pending) && objects.documents.deleted(Kind::Workload, work.kept);
    if gone {
        // Its Job may have been seen to end.
        let job = meta.owner.as_ref().and_then(|owner| objects.jobs.get(&owner.uid)).map(|kept| &kept.object);
        let told = job.filter(|job| job.state.is_final()).map(|job| (job.state, job.end, Some(&*job.reported)));
        (state, end, reported) = told.unwrap_or((JobState::Unknown, None, reported));
        counts.lost += u64::from(told.is_none());
    }
    let lost = gone && !state.is_final();
    let result = timeline(
        &work.history,
        Latest {
            running: workload.admitted.is_some(),
            gone: lost,
            over: (state.is_final() || end.is_some()).then_some((end, state)),
            past_s: workload.past_s,
            evictions: &workload.evictions,
            checked: workload.checked,
            created: meta.created,
        },
    );
    let attempts = result.attempts;
    let several = attempts.len() > 1;
    let runs: Option<Vec<f64>> = attempts.iter().map(Attempt::run_s).collect();
    counts.partly += u64::from(several && attempts.iter().any(|attempt| attempt.run_s().is_none() && !attempt.open));
    counts.unlisted = counts.unlisted.saturating_add(result.unlisted);
    let pods = in_attempts(&work.pods, &attempts);
    let last = attempts.len().saturating_sub(1);
    let last_pods: Vec<&Pod> = pods.iter().filter(|(ix, _)| *ix == last).map(|(_, pod)| *pod).collect();
    let nodes = hosts(&last_pods);
    let on_nodes = last_pods.iter().filter(|pod| pod.node.is_some()).count() as u64;
    // Where some pods are not in the dump, the nodes are not all that it ran on.
    let complete = on_nodes > 0 && workload.gpu_pods.is_some_and(|pods| on_nodes >= pods);
    let mut models = machines.of_pods(&last_pods);
    if models.is_empty() {
        models = workload.flavors.iter().filter_map(|flavor| machines.flavors.get(&**flavor).copied()).collect();
    }
    if models.is_empty() {
        models = workload.selected.iter().map(|label| unshared(label)).collect();
    }
    let amounts = workload.asked.iter().chain(&workload.given);
    let local = workload.local_queue.as_deref();
    let of_local = || queues.cluster_queue(&meta.namespace, local?);
    let vc = workload.cluster_queue.as_deref().or_else(of_local);
    counts.without_queue += u64::from(vc.is_none() && local.is_some());
    let begun = !attempts.is_empty();
    let given = workload.given.as_ref();
    let req_gpus = workload.asked.as_ref().and_then(Amounts::gpus).map(without_dust);
    // Kueue can leave resources out of its quotas: then what it gave says nothing of them.
    let asks = workload.asked.as_ref().is_some_and(Amounts::has_gpus);
    let alloc_gpus = given
        .filter(|given| given.names_gpus() || !asks)
        .and_then(Amounts::gpus)
        .map(without_dust)
        .or_else(|| (!last_pods.is_empty()).then(|| peak(&last_pods, Pod::gpus)).flatten().filter(|_| complete));
    let row = JobRow {
        account: Some(Cow::Borrowed(&*meta.namespace)).filter(|name| !name.is_empty()),
        vc: vc.map(Cow::Borrowed),
        qos: workload.priority_class.as_deref().map(Cow::Borrowed),
        name: Some(Cow::Borrowed(meta.owner.as_ref().map_or(&*meta.name, |owner| &*owner.name))),
        job_type: meta.owner.as_ref().map(|owner| Cow::Borrowed(&*owner.kind)),
        gpu_type: gpu_type(&models, amounts.flat_map(Amounts::gpu_names)).map(Cow::Owned),
        state: Some(Cow::Borrowed(state.id())),
        reported_state: reported.map(Cow::Borrowed),
        pending_reason: workload.waits.as_deref().filter(|_| state == JobState::Pending).map(Cow::Borrowed),
        submit: meta.created,
        start: attempts.first().and_then(|first| first.start).filter(|_| result.whole),
        end,
        censored: match state {
            JobState::Running | JobState::Pending => Some(true),
            _ => (!lost).then_some(false),
        },
        attempts: i64::try_from(attempts.len()).ok().filter(|_| result.whole),
        req_cpus: workload.asked.as_ref().and_then(Amounts::cpus),
        req_mem_bytes: workload.asked.as_ref().and_then(Amounts::mem_bytes),
        req_gpus,
        pods: workload.gpu_pods.and_then(|pods| i64::try_from(pods).ok()).filter(|pods| *pods > 0),
        topology: workload.topology.as_deref().map(Cow::Borrowed),
        alloc_nodes: i64::try_from(nodes.len()).ok().filter(|_| complete),
        alloc_cpus: given.and_then(Amounts::cpus).filter(|_| begun),
        alloc_gpus: alloc_gpus.filter(|_| begun),
        nodes_hostlist: complete.then(|| Cow::Owned(joined(&nodes))),
        time_limit_s: workload.time_limit_s,
        run_s: runs.filter(|runs| runs.len() > 1 && result.whole).map(|runs| runs.iter().sum()),
        reported_run_s: result.summed_s,
        reported_attempts_s: result.summed_s,
        exit_code: last_pods.iter().filter_map(|pod| pod.exit_code).max(),
        ..JobRow::default()
    };
    // A pod set that may not shrink is given what it asks for, every time.
    let gpus = req_gpus.filter(|_| !workload.elastic);
    Draft { row, attempts, pods, gpus, place: work.kept.place }
}

/// The attempt of each pod: the last that had begun when the pod was bound. O((pods + attempts) log attempts).
fn in_attempts<'o>(pods: &[&'o Pod], attempts: &[Attempt]) -> Vec<(usize, &'o Pod)> {
    let last = attempts.len().saturating_sub(1);
    let mut begun: Vec<(i64, usize)> =
        attempts.iter().enumerate().filter_map(|(ix, attempt)| Some((attempt.start?, ix))).collect();
    begun.sort_unstable();
    // To each start, the last of the attempts that had begun by then.
    let mut latest = 0;
    for (_, ix) in &mut begun {
        latest = latest.max(*ix);
        *ix = latest;
    }
    let of = |pod: &&'o Pod| {
        let bound = pod.start.map(|start| start.saturating_add(CLOCKS_MS));
        let many = begun.partition_point(|(start, _)| Some(*start) <= bound);
        (many.checked_sub(1).and_then(|at| begun.get(at)).map_or(last, |(_, ix)| *ix), *pod)
    };
    let mut placed: Vec<(usize, &Pod)> = pods.iter().filter(|pod| pod.node.is_some()).map(of).collect();
    placed.sort_by_key(|(ix, pod)| (*ix, pod.start, &*pod.meta.uid));
    placed
}

/// Writes the machine list, by name, and the quotas.
fn push_machines(nodes: &[&Node], chosen: &Chosen<'_>, quotas: &Quotas<'_>, trace: &mut Trace) {
    for node in nodes {
        trace.nodes.push(NodeRow { place: chosen.place(node).map(Cow::Owned), ..node.row() });
    }
    let gpus = nodes.iter().try_fold(0.0, |sum, node| Some(sum + node.gpus()?)).filter(|gpus| *gpus > 0.0);
    // Quotas are what VCs may use. What there is, the nodes say.
    if (quotas.are_whole() || gpus.is_some())
        && quotas.push(trace)
        && let Some(gpus) = gpus
    {
        trace.capacity.push(CapacityRow {
            scope: Some("cluster".into()),
            gpus: Some(gpus),
            state: Some("up".into()),
            ..CapacityRow::default()
        });
    }
}

/// The quotas of all queues, by name.
fn quotas(objects: &Objects) -> Quotas<'_> {
    let mut quotas = Quotas {
        cluster_queues: objects.cluster_queues.iter().map(|kept| &kept.object).collect(),
        cohorts: objects.cohorts.iter().map(|kept| &kept.object).collect(),
        queues: objects.queues.iter().map(|kept| &kept.object).collect(),
    };
    quotas.cluster_queues.sort_by(|a, b| (&a.meta.name, &a.meta.uid).cmp(&(&b.meta.name, &b.meta.uid)));
    quotas.queues.sort_by(|a, b| (&a.meta.name, &a.meta.uid).cmp(&(&b.meta.name, &b.meta.uid)));
    quotas
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::super::object::Meta;
    use super::*;
    use crate::quality::RowAudit;

    /// A pod bound to a node at a second.
    fn bound(second: Option<i64>) -> Pod {
        let object = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": [{}]}});
        let mut row = RowAudit::new("f", 1);
        let meta = Meta::read(&object, Kind::Pod, &mut row).unwrap();
        Pod { start: second.map(|second| second * SECOND_MS), ..Pod::read(&object, meta, &mut row) }
    }

    fn begun(seconds: &[Option<i64>]) -> Vec<Attempt> {
        let start = |second: &Option<i64>| second.map(|second| second * SECOND_MS);
        seconds.iter().map(|second| Attempt { start: start(second), ..Attempt::default() }).collect()
    }

    // Attempts from 10 s, an unknown time, 50 and 90 s on. Bound at 49 s: the third, as clocks differ by up to 2 s. At 47 s: the first.
    // Before all of them, or at an unknown time: the last.
    #[test]
    fn a_pod_belongs_to_the_last_attempt_that_had_begun() {
        let attempts = begun(&[Some(10), None, Some(50), Some(90)]);
        for (second, attempt) in [(Some(49), 2), (Some(47), 0), (Some(200), 3), (Some(1), 3), (None, 3)] {
            let pod = bound(second);
            assert_eq!(in_attempts(&[&pod], &attempts).first().map(|(ix, _)| *ix), Some(attempt), "{second:?}");
        }
        assert_eq!(in_attempts(&[&bound(Some(5))], &[]).first().map(|(ix, _)| *ix), Some(0));
    }

    // 200,000 pods, all bound at the first of 200,000 attempts: for a search from the last one, 40 billion steps and half a minute.
    #[test]
    fn a_workload_that_was_evicted_very_often_finds_each_pod_s_attempt() {
        const MANY: i64 = 200_000;
        let attempts = begun(&(0..MANY).map(|at| Some(10 * at)).collect::<Vec<_>>());
        let pod = bound(Some(0));
        let pods = vec![&pod; MANY as usize];
        let placed = in_attempts(&pods, &attempts);
        assert!(placed.len() == pods.len() && placed.iter().all(|(ix, _)| *ix == 0));
    }
}
