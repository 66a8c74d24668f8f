//! Notes on a trace of Kubernetes objects: what was assumed, what is unknown, and what was read and
//! has no column.
//!
//! Worked example: 3 Services and a borrowing limit in a dump: "read and not used: Service (3); borrowing limits (1)".

use super::node::Node;
use super::object::Kind;
use super::objects::Objects;
use super::part::Divided;
use super::quantity::{Amounts, slice};
use super::queue::Quotas;
use super::store::Kept;
use crate::report::format::{compact, count, counted};
use crate::schema::Table;
use crate::trace::Trace;

/// Counts of what the notes tell.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Deleted before they were seen to end.
    pub(super) lost: u64,
    /// Evicted before, and when their earlier attempts ran is not known.
    pub(super) partly: u64,
    /// Earlier attempts without a time that are not listed.
    pub(super) unlisted: u64,
    /// Workloads that may shrink.
    pub(super) elastic: u64,
    /// Jobs whose start is that of their controller.
    pub(super) by_controller: u64,
    /// Jobs whose pods do not all ask to lie as near to each other.
    pub(super) differing: u64,
    /// Jobs whose LocalQueue is not known.
    pub(super) without_queue: u64,
    /// Counts of GPUs handed out in parts.
    pub(super) divided: Divided,
}

fn jobs(many: u64) -> String {
    counted(many, "job", "jobs")
}

/// Writes the notes; `machines` are the nodes, each name once.
pub(super) fn notes(
    objects: &Objects,
    machines: &[&Kept<Node>],
    counts: &Counts,
    quotas: &Quotas<'_>,
    trace: &mut Trace,
) {
    let (any_jobs, has_quotas) = (!trace.jobs.is_empty(), !trace.capacity.is_empty());
    let mut say = |text: String| trace.note(format!("kubernetes: {text}"));
    if objects.workloads.iter().next().is_some() {
        say("a Workload is submitted when it is made, starts when it is admitted and ends when it is finished; it holds its \
             GPUs from its admission on, before its pods are ready."
            .to_owned());
    }
    if any_jobs {
        say("a dump does not say when it was taken; what ran or waited in it is counted until the latest moment that any job \
             names."
            .to_owned());
    }
    if counts.lost > 0 {
        say(format!(
            "the end of {} is unknown: a later snapshot no longer holds what was seen to run or to wait.",
            jobs(counts.lost)
        ));
    }
    if counts.partly > 0 {
        say(format!(
            "earlier attempts of {} have no times: Kueue keeps those of the last admission only. Where the first attempt has \
             none, the wait is unknown. More snapshots, or events, tell more.",
            jobs(counts.partly)
        ));
    }
    if counts.unlisted > 0 {
        say(format!(
            "{} of which no time is known are not listed, and the jobs they are of do not say how many they had.",
            counted(counts.unlisted, "earlier attempt", "earlier attempts")
        ));
    }
    let doubted = doubted(objects);
    if doubted > 0 {
        say(format!(
            "a later list lacks {}, and holds objects of one other namespace only: it may be a list of that namespace, so they \
             are taken to run or wait on. Export all namespaces into one list (-A).",
            counted(doubted, "object that was seen to run or to wait", "objects that were seen to run or to wait")
        ));
    }
    if objects.documents.empty > 0 && objects.documents.many() > 1 {
        say(format!(
            "{} without objects: of which kind and namespace is not written, so nothing is taken to be deleted because of it.",
            counted(objects.documents.empty, "list is", "lists are")
        ));
    }
    if counts.by_controller > 0 {
        say(format!(
            "no pod is left of {}: the start is when the controller took it up, and what pods waited after that counts as run.",
            jobs(counts.by_controller)
        ));
    }
    if counts.differing > 0 {
        say(format!(
            "pods of {} differ in how near to each other they ask to lie: for the job counts what most of its GPUs ask.",
            jobs(counts.differing)
        ));
    }
    if counts.without_queue > 0 {
        say(format!(
            "the VC of {} is unknown: the LocalQueue is not in the dump. Export localqueues too.",
            jobs(counts.without_queue)
        ));
    }
    let divided = &counts.divided;
    if divided.nodes > 0 {
        say(format!(
            "{} out parts of GPUs (time slicing, MPS, or MIG with the strategy single): {} units are counted as {}, and a request \
             for one as the part that it holds. A GPU with slices is taken to be cut into as many as fit.",
            counted(divided.nodes, "node hands", "nodes hand"),
            compact(divided.units),
            counted(divided.gpus as u64, "GPU", "GPUs")
        ));
    }
    if divided.whole > 0 {
        say(format!(
            "{} for GPUs, and nothing says whether of a node that hands out parts: what is asked for is counted as whole GPUs.",
            counted(divided.whole, "pod, Workload or Job asks", "pods, Workloads and Jobs ask")
        ));
    }
    if slices(objects) {
        say("a MIG slice counts as its compute slices of those that a GPU has (1g.10gb: one of seven).".to_owned());
    }
    if divided.unknown_shares {
        say("a share of a GPU (nvidia.com/gpu.shared) is counted as one GPU: the object does not say how much of a GPU it is."
            .to_owned());
    }
    if has_quotas {
        say("quotas are those of the latest copy of each queue; since when they hold is unknown.".to_owned());
    } else if !(quotas.cluster_queues.is_empty() && quotas.queues.is_empty()) {
        say("quotas are left out: some queue is without bound, and without the nodes the others would pass for the cluster. \
             Export nodes too."
            .to_owned());
    }
    let nodes = || machines.iter().map(|kept| &kept.object);
    let states = [
        (nodes().filter(|node| !node.ready).count(), "nodes that are not ready"),
        (nodes().filter(|node| node.cordoned).count(), "cordoned nodes"),
        (nodes().filter(|node| node.instance).count(), "instance types of nodes"),
    ];
    let again = objects.nodes.iter().count().saturating_sub(machines.len());
    if again > 0 {
        say(format!(
            "{} under a name that another has now: the machine counts once, as it is now.",
            counted(again as u64, "earlier registration of a node is", "earlier registrations of nodes are")
        ));
    }
    let gone = machines.iter().filter(|kept| objects.documents.deleted(Kind::Node, kept)).count();
    if gone > 0 {
        say(format!("a later snapshot lacks {} of the machine list.", counted(gone as u64, "node", "nodes")));
    }
    let repeated = objects.workloads.repeated()
        + objects.pods.repeated()
        + objects.jobs.repeated()
        + objects.nodes.repeated()
        + objects.cluster_queues.repeated();
    if repeated > 0 {
        say(format!("of {} there are several copies; the latest counts.", counted(repeated, "object", "objects")));
    }
    let passed = objects.passed.iter().map(|(what, many)| (what.as_str(), *many));
    let of_nodes = states.into_iter().map(|(many, what)| (what, many as u64));
    let least = [("least pods of workloads that may shrink", counts.elastic)];
    let unused = passed.chain(quotas.unused()).chain(least).chain(of_nodes).filter(|(_, many)| *many > 0);
    let unused: Vec<String> = unused.map(|(what, many)| format!("{what} ({})", count(many))).collect();
    if !unused.is_empty() {
        say(format!("read and not used: {}.", unused.join("; ")));
    }
}

/// Objects that were seen to run or to wait, and of which it is not known whether a later list should hold them.
fn doubted(objects: &Objects) -> u64 {
    let documents = &objects.documents;
    let works = objects.workloads.iter().filter(|kept| !kept.object.state.is_final());
    let works = works.filter(|kept| documents.in_doubt(Kind::Workload, kept)).count();
    let pods = objects.pods.iter().filter(|kept| !kept.object.state.is_final());
    let pods = pods.filter(|kept| documents.in_doubt(Kind::Pod, kept)).count();
    works.saturating_add(pods) as u64
}

/// Whether MIG slices that have a resource of their own are asked for.
fn slices(objects: &Objects) -> bool {
    let workloads = objects.workloads.iter().flat_map(|kept| &kept.object.asked);
    let pods = objects.pods.iter().map(|kept| &kept.object.amounts);
    let jobs = objects.jobs.iter().map(|kept| &kept.object.asked);
    workloads.chain(pods).chain(jobs).flat_map(Amounts::gpu_names).any(|name| slice(name).is_some())
}
