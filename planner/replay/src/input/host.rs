//! Processors and memory of jobs and nodes, from a trace ([`tracecast_sim`], section *Processors and memory*).
//!
//! * **Jobs**: processors and memory given, else those asked for. Slurm's record of what was asked for knows nothing of `--cpus-per-gpu`, nor of the memory that each of these processors brings with `--mem-per-cpu`; and what is given is whole cores. Each is divided by the job's GPUs and rounded down, to a thousandth of a core and a MiB for each GPU (for a part of a GPU: of the part), so that what a job takes is never
//!   more than it was given. Slurm may give the nodes of a job different shares (7 tasks of 3 processors on two nodes; the same memory on a node with 4 GPUs and on one with 1): `sacct` has the sum alone. A job of which one of them is not recorded asks for nothing of it, and is counted.
//! * **Nodes**: cores and memory of the machine list, or of a cluster file. What is not recorded is without bound. Sizes of VCs over time are of nodes as the machine list has them, if all of these are alike.
//! * **Nodes that are alike**: a machine list (Kubernetes and PBS write Ki) often tells nodes of one make apart by a few MiB. Of nodes with as many GPUs, of the same type, those are one kind that have the same number of whole cores, and cores and memory that are less by at most 2 % than
//!   the most in the kind. Kinds are made from the most down, cores before memory. All nodes of a kind have the least in it, so that none is promised what it lacks: it may show room for one GPU less than there was. A job that for this alone fits nowhere takes 2 % less.
//! * **Quarantine**: a job that ran, and whose processors and memory the nodes of the trace's own that it may use (those of its VC, and of the type of GPU that it must have) do not hold, not even empty, says something else in this trace (memory of a whole node for each process,
//!   perhaps). It takes GPUs alone, and is counted. So does a job that had more nodes than the replay cuts it to and fits on so many, which is counted apart. A job that is too large for the nodes of a cluster file only is rejected by the replay, as there it is the answer.
//! * **Kinds of jobs**: the replay knows at most [`MOST_SHAPES`]. Where jobs ask for more different amounts, all are rounded down to as many binary digits as it takes, and a note says how far that may be off.
//!
//! Where every node has enough of both for all its GPUs, whichever jobs have these, processors and memory never decide, and GPUs alone are replayed: nodes are then of the kinds, and in the order, that they have without a word of processors.
//!
//! O(jobs × groups of nodes + nodes × log nodes). Worked numbers: a job of 8 GPUs with 90 processors and 500,001 MiB asks for 11.25 cores and 62,500 MiB for each GPU. Nodes of 8 GPUs, 96 cores, and 1,000,000, 990,000, 985,000 and 970,000 MiB are of two kinds: three nodes with 985,000 MiB
//! (980,000 is the least beside 1,000,000), and one with 970,000.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use tracecast_analytics::Trace;
use tracecast_analytics::report::format;
use tracecast_analytics::schema::Table;

use crate::error::{Error, Result};
use tracecast_sim::cluster::{Cluster, Group};
use tracecast_sim::host::{HostNeed, HostRoom};
use tracecast_sim::workload::Shape;

/// Most kinds of jobs, as what a replay costs grows with them.
const MOST_SHAPES: usize = 1_000;
/// Bytes of a MiB.
const MIB: f64 = 1_048_576.0;

/// The part by which nodes of one kind may have less than the most in it.
const NEAR: f64 = 0.02;

/// A job that is kept.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asking {
    /// Row in the trace.
    pub(super) row: usize,
    /// VC, an index into those of the cluster.
    pub(super) vc: u16,
    /// Shape of the job.
    pub(super) shape: Shape,
}

/// The nodes of a replay.
#[derive(Debug, Clone, Copy)]
pub(super) struct Nodes<'c> {
    /// The nodes that are replayed.
    pub(super) cluster: &'c Cluster,
    /// The trace's own, where `cluster` are others and these are known; of the same VCs.
    pub(super) own: Option<&'c Cluster>,
    /// Whether `cluster` comes from a file.
    pub(super) of_file: bool,
}

/// Whether processors and memory count in a replay, beside GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Hosts {
    /// GPUs alone.
    #[default]
    Ignored,
    /// Processors and memory as jobs and nodes have them; GPUs alone, without a note, where either
    /// does not say or they never decide.
    Usual,
    /// Processors and memory as jobs and nodes have them, with a note where they do not count.
    AsRecorded,
}

impl FromStr for Hosts {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "none" => Ok(Self::Ignored),
            "as-recorded" => Ok(Self::AsRecorded),
            _ => Err(Error::Malformed {
                what: "choice of processors and memory",
                found: text.to_owned(),
                remedy: "write none or as-recorded".to_owned(),
            }),
        }
    }
}

/// A recorded amount in whole units; nothing if it is not known, or no amount.
fn whole(amount: Option<f64>, units: f64) -> Option<f64> {
    amount.filter(|amount| (0.0..1e15).contains(amount)).map(|amount| (amount * units + 1e-6).floor())
}

fn bounded(amount: f64) -> u32 {
    amount.clamp(0.0, f64::from(u32::MAX)) as u32
}

/// Processors and memory of the nodes of a row of the machine list, to the MiB.
fn room(trace: &Trace, row: usize) -> HostRoom {
    let nodes = &trace.nodes;
    let bytes = nodes.mem_bytes.get(row).map(|bytes| bytes as f64 / MIB);
    // No processor at all, or no memory, is no machine, but a gap in the list.
    let some = |amount: Option<f64>| amount.filter(|amount| *amount >= 1.0).map(bounded);
    HostRoom { cores_milli: some(whole(nodes.cpus.get(row), 1000.0)), memory_mib: some(whole(bytes, 1.0)) }
}

/// Rooms from the greatest down, a new list wherever one is not `alike` the first of its list.
fn chained(rooms: &[HostRoom], alike: impl Fn(HostRoom, HostRoom) -> bool) -> Vec<Vec<HostRoom>> {
    let mut lists: Vec<Vec<HostRoom>> = Vec::new();
    for room in rooms {
        match lists.last_mut() {
            Some(list) if list.first().is_some_and(|most| alike(*most, *room)) => list.push(*room),
            _ => lists.push(vec![*room]),
        }
    }
    lists
}

/// Maps each room in `exact` to the room that it counts as: the least of its kind.
fn levelled(exact: &BTreeSet<HostRoom>) -> BTreeMap<HostRoom, HostRoom> {
    let near = |most: Option<u32>, amount: Option<u32>| match (most, amount) {
        (Some(most), Some(amount)) => f64::from(amount) >= f64::from(most) * (1.0 - NEAR),
        (most, amount) => most == amount,
    };
    let whole = |room: HostRoom| room.cores_milli.map(|milli| milli / 1000);
    let down: Vec<HostRoom> = exact.iter().rev().copied().collect();
    let mut levelled = BTreeMap::new();
    for mut of in chained(&down, |most, room| whole(most) == whole(room) && near(most.cores_milli, room.cores_milli)) {
        of.sort_by_key(|room| Reverse(room.memory_mib));
        for kind in chained(&of, |most, room| near(most.memory_mib, room.memory_mib)) {
            let cores_milli = kind.iter().filter_map(|room| room.cores_milli).min();
            let memory_mib = kind.iter().filter_map(|room| room.memory_mib).min();
            levelled.extend(kind.into_iter().map(|room| (room, HostRoom { cores_milli, memory_mib })));
        }
    }
    levelled
}

/// Returns, by row of the machine list, the room that its nodes count as; nodes that are alike
/// count the same. O(nodes × log nodes).
pub(super) fn rooms(trace: &Trace) -> Vec<HostRoom> {
    let nodes = &trace.nodes;
    let mut rooms: Vec<HostRoom> = (0..nodes.len()).map(|row| room(trace, row)).collect();
    let kind = |row: usize| (nodes.gpus.get(row).map_or(0, |gpus| gpus as u32), nodes.gpu_type.get(row));
    let mut exact: BTreeMap<(u32, Option<&str>), BTreeSet<HostRoom>> = BTreeMap::new();
    for (row, room) in rooms.iter().enumerate() {
        exact.entry(kind(row)).or_default().insert(*room);
    }
    let exact: BTreeMap<_, _> = exact.into_iter().map(|(kind, exact)| (kind, levelled(&exact))).collect();
    for (row, room) in rooms.iter_mut().enumerate() {
        let counted = exact.get(&kind(row)).and_then(|levelled| levelled.get(room));
        *room = counted.copied().unwrap_or(*room);
    }
    rooms
}

/// Room of the nodes with GPUs, of a VC or of all, where all of them are alike; else unknown.
pub(super) fn alike(trace: &Trace, vc: Option<&str>) -> HostRoom {
    let nodes = &trace.nodes;
    let has_gpus = |row: &usize| nodes.gpus.get(*row).is_some_and(|gpus| gpus >= 1.0);
    let rows = (0..nodes.len()).filter(has_gpus).filter(|row| vc.is_none() || nodes.vc.get(*row) == vc);
    let kinds: BTreeSet<HostRoom> = levelled(&rows.map(|row| room(trace, row)).collect()).into_values().collect();
    kinds.first().copied().filter(|_| kinds.len() == 1).unwrap_or_default()
}

/// Nodes that a job of so many whole GPUs had, else asked for; 0 if that is not known, or there was none for each of its GPUs.
pub(super) fn recorded_nodes(trace: &Trace, row: usize, gpus: u32) -> u16 {
    let nodes = trace.jobs.alloc_nodes.get(row).or_else(|| trace.jobs.req_nodes.get(row)).unwrap_or(0);
    if nodes > 0 && nodes <= i64::from(gpus) { u16::try_from(nodes).unwrap_or(0) } else { 0 }
}

/// Processors and memory that a job is recorded with.
fn recorded(trace: &Trace, row: usize) -> (Option<f64>, Option<f64>) {
    let jobs = &trace.jobs;
    let cpus = jobs.alloc_cpus.get(row).or_else(|| jobs.req_cpus.get(row));
    let bytes = jobs.alloc_mem_bytes.get(row).or_else(|| jobs.req_mem_bytes.get(row)).map(|bytes| bytes as f64 / MIB);
    (whole(cpus, 1000.0), whole(bytes, 1.0))
}

/// Processors and memory that a job is recorded with, for each GPU of its shape or for its part of
/// one.
fn need(trace: &Trace, row: usize, shape: Shape) -> HostNeed {
    let (cores, memory) = recorded(trace, row);
    let each = |amount: Option<f64>| bounded((amount.unwrap_or(0.0) / f64::from(shape.gpus.max(1))).floor());
    HostNeed { cores_milli: each(cores), memory_mib: each(memory) }
}

/// Whether these nodes, empty, hold `shape`, cut as the replay cuts it.
fn is_held(groups: &[&Group], shape: Shape) -> bool {
    if shape.milli > 0 {
        return groups.iter().any(|group| group.host.holds(shape.host));
    }
    let largest = groups.iter().map(|group| group.gpus_per_node).max().unwrap_or(0);
    let Some((piece, full, rest)) = shape.cut(largest) else { return false };
    let room = |group: &Group| group.gpus_per_node.min(group.host.gpus(shape.host));
    let pieces: u64 = groups.iter().map(|group| u64::from(group.most_nodes()) * u64::from(room(group) / piece)).sum();
    pieces >= u64::from(full) && groups.iter().any(|group| room(group) >= rest)
}

/// Fit of a job's recorded processors and memory to the nodes that it may use.
enum Fit {
    /// With this need, or too large by its GPUs alone, which is no fault of processors and memory.
    Fits(HostNeed),
    /// Fits on as many nodes as the job had, which are more than the replay gives it.
    OnMoreNodes,
    /// Fits nowhere.
    Nowhere,
}

impl Fit {
    fn of(groups: &[&Group], shape: Shape, nodes: u16) -> Self {
        let with = |host: HostNeed| Shape { host, ..shape };
        let less = |amount: u32| (f64::from(amount) * (1.0 - NEAR)).floor() as u32;
        // Its node may have been the greatest of its kind, and count as the least.
        let near = HostNeed { cores_milli: less(shape.host.cores_milli), memory_mib: less(shape.host.memory_mib) };
        if let Some(host) = [shape.host, near].into_iter().find(|host| is_held(groups, with(*host))) {
            return Self::Fits(host);
        }
        if !is_held(groups, with(HostNeed::default())) {
            return Self::Fits(shape.host);
        }
        if nodes > 0 && is_held(groups, Shape { nodes, ..with(near) }) { Self::OnMoreNodes } else { Self::Nowhere }
    }
}

/// The most that any job takes for each whole GPU that it takes a part of, if its GPUs are filled with its like.
fn most_each(shapes: &BTreeSet<Shape>) -> HostNeed {
    let each = |shape: &Shape| match shape.milli {
        0 => shape.host,
        milli => shape.host.times(1000 / u32::from(milli)),
    };
    shapes.iter().map(each).fold(HostNeed::default(), |most, of| HostNeed {
        cores_milli: most.cores_milli.max(of.cores_milli),
        memory_mib: most.memory_mib.max(of.memory_mib),
    })
}

/// Whether some nodes may run out of processors or memory before GPUs.
fn may_decide(cluster: &Cluster, most: HostNeed) -> bool {
    let groups = cluster.pools.iter().flat_map(|pool| &pool.groups);
    groups.into_iter().any(|group| !group.host.holds(most.times(group.gpus_per_node)))
}

/// Leaves nodes without a word of processors and memory.
pub(super) fn forget(cluster: &mut Cluster) {
    for group in cluster.pools.iter_mut().flat_map(|pool| &mut pool.groups) {
        group.host = HostRoom::default();
    }
}

/// An amount rounded down to so many binary digits.
fn coarse(amount: u32, digits: u32) -> u32 {
    let beyond = (u32::BITS - amount.leading_zeros()).saturating_sub(digits);
    amount >> beyond << beyond
}

/// Jobs that do not take what they had, by why.
#[derive(Debug, Default)]
struct Without {
    cores: u64,
    memory: u64,
    on_more_nodes: u64,
    nowhere: u64,
}

impl Without {
    /// Returns the notes for the report.
    fn in_words(&self) -> Vec<String> {
        let says = |jobs: u64, one: &str, several: &str| (jobs > 0).then(|| format::counted(jobs, one, several));
        let cores = says(self.cores, "job does not say how many processors", "jobs do not say how many processors");
        let memory = says(self.memory, "job does not say how much memory", "jobs do not say how much memory");
        let mut notes: Vec<String> =
            [cores, memory].into_iter().flatten().map(|say| format!("{say} they had: they take none.")).collect();
        if let Some(had) = says(self.on_more_nodes, "job had", "jobs had") {
            notes.push(format!(
                "{had} more nodes than the replay gives them, whose processors and memory are not enough: these take GPUs alone. --site gangs=as-recorded gives them as many as they had."
            ));
        }
        if let Some(ran) = says(self.nowhere, "job ran", "jobs ran") {
            notes.push(format!(
                "**{ran} although no node that they may use has the processors and memory recorded for it**: these take GPUs alone. What the trace calls a job's memory or processors may be something else; look before you rely on the rest."
            ));
        }
        notes
    }
}

/// Gives jobs what they are recorded with, but for those that ran on the trace's own nodes and do not fit there.
fn ask(trace: &Trace, kept: &mut [Asking], nodes: Nodes<'_>) -> Without {
    let own = nodes.own.or((!nodes.of_file).then_some(nodes.cluster));
    let mut usable: BTreeMap<(u16, Option<u16>), Vec<&Group>> = BTreeMap::new();
    let mut without = Without::default();
    for Asking { row, vc, shape } in kept.iter_mut() {
        let (cores, memory) = recorded(trace, *row);
        without.cores += u64::from(cores.is_none());
        without.memory += u64::from(memory.is_none());
        shape.host = need(trace, *row, *shape);
        let Some(own) = own.filter(|_| trace.jobs.start.get(*row).is_some() && !shape.host.is_none()) else { continue };
        let wanted = trace.jobs.gpu_type.get(*row);
        let wanted = (0u16..).zip(&own.gpu_types).find(|(_, known)| Some(known.as_str()) == wanted).map(|(at, _)| at);
        let groups = usable.entry((*vc, wanted)).or_insert_with(|| {
            let pool = own.vcs.get(usize::from(*vc)).and_then(|vc| own.pools.get(usize::from(vc.pool)));
            let is_of_type = |group: &&Group| wanted.is_none() || group.gpu_type == wanted;
            pool.iter()
                .flat_map(|pool| &pool.groups)
                .filter(|group| group.most_nodes() > 0)
                .filter(is_of_type)
                .collect()
        });
        shape.host = match Fit::of(groups, *shape, recorded_nodes(trace, *row, shape.gpus)) {
            Fit::Fits(host) => host,
            Fit::OnMoreNodes => {
                without.on_more_nodes += 1;
                HostNeed::default()
            }
            Fit::Nowhere => {
                without.nowhere += 1;
                HostNeed::default()
            }
        };
    }
    without
}

fn kinds(kept: &[Asking]) -> BTreeSet<Shape> {
    kept.iter().map(|job| job.shape).collect()
}

/// Rounds what jobs ask for down until they are of at most [`MOST_SHAPES`] kinds, and says so.
fn round(kept: &mut [Asking]) -> Option<String> {
    let all = kinds(kept).len();
    if all <= MOST_SHAPES {
        return None;
    }
    let exact: Vec<HostNeed> = kept.iter().map(|job| job.shape.host).collect();
    let mut digits = 10;
    loop {
        for (job, exact) in kept.iter_mut().zip(&exact) {
            let (cores_milli, memory_mib) = (coarse(exact.cores_milli, digits), coarse(exact.memory_mib, digits));
            job.shape.host = HostNeed { cores_milli, memory_mib };
        }
        let left = kinds(kept).len();
        if left <= MOST_SHAPES || digits == 1 {
            return Some(format!(
                "Jobs ask for {} different combinations of GPUs, processors and memory. Their processors and memory are rounded down, by less than {}, to {}.",
                format::count(all as u64),
                format::percent(0.5f64.powi(digits as i32 - 1)),
                format::count(left as u64)
            ));
        }
        digits -= 1;
    }
}

/// Gives jobs their processors and memory, if these may decide on the nodes that are replayed or on the trace's own; else they ask for none. Says what was assumed, and whether they may. If not, the nodes are to be made without them.
pub(super) fn settle(
    trace: &Trace,
    kept: &mut [Asking],
    nodes: Nodes<'_>,
    hosts: Hosts,
    notes: &mut Vec<String>,
) -> bool {
    if hosts == Hosts::Ignored {
        return false;
    }
    let told = hosts == Hosts::AsRecorded;
    let asks = kept.iter().any(|job| !need(trace, job.row, job.shape).is_none());
    if !asks || !nodes.cluster.has_hosts() {
        if told {
            let who = if asks { "No node" } else { "No job" };
            notes.push(format!("{who} says anything of processors or memory, so GPUs alone count."));
        }
        return false;
    }
    let without = ask(trace, kept, nodes);
    let most = most_each(&kinds(kept));
    if !may_decide(nodes.cluster, most) && !nodes.own.is_some_and(|own| may_decide(own, most)) {
        kept.iter_mut().for_each(|job| job.shape.host = HostNeed::default());
        if told {
            notes.push(
                "Every node has processors and memory for all its GPUs, whichever jobs have them: GPUs alone decide."
                    .to_owned(),
            );
        }
        return false;
    }
    notes.push("Processors and memory of nodes count beside GPUs; --site hosts=none replays GPUs alone.".to_owned());
    notes.extend(without.in_words());
    notes.extend(round(kept));
    true
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
