//! Processors and memory of jobs and nodes, from a trace ([`crate::sim`], section *Processors and memory*).
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
use crate::sim::cluster::{Cluster, Group};
use crate::sim::host::{HostNeed, HostRoom};
use crate::sim::workload::Shape;

/// Most kinds of jobs, as what a replay costs grows with them.
const MOST_SHAPES: usize = 1_000;
/// Bytes of a MiB.
const MIB: f64 = 1_048_576.0;

/// The part by which nodes of one kind may have less than the most in it.
const NEAR: f64 = 0.02;

/// A job that is kept.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asking {
    /// Its row in the trace.
    pub(super) row: usize,
    /// Its VC, an index into those of the cluster.
    pub(super) vc: u16,
    /// What it asks for.
    pub(super) shape: Shape,
}

/// The nodes of a replay.
#[derive(Debug, Clone, Copy)]
pub(super) struct Nodes<'c> {
    /// Those that are replayed.
    pub(super) cluster: &'c Cluster,
    /// The trace's own, where `cluster` are others and these are known; of the same VCs.
    pub(super) own: Option<&'c Cluster>,
    /// Whether `cluster` are those of a file.
    pub(super) of_file: bool,
}

/// Whether processors and memory count in a replay, beside GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Hosts {
    /// GPUs alone.
    #[default]
    Ignored,
    /// As jobs and nodes have them; GPUs alone, without a word, where either does not say or they never decide.
    Usual,
    /// The same, and told where they do not count.
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

/// What the nodes of a row of the machine list have, to the MiB.
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

/// What each of `exact` is counted as: the least of its kind.
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

/// What the nodes of each row of the machine list count as having: those that are alike, the same. O(nodes × log nodes).
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

/// What the nodes with GPUs have, of a VC or of all, where all of them are alike; else nothing is known.
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

/// The same for each GPU of its shape, or for its part of one.
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
    let piece = match shape.nodes {
        0 => shape.gpus.min(largest),
        nodes => shape.gpus.div_ceil(u32::from(nodes)),
    };
    let piece = piece.max(1);
    let room = |group: &Group| group.gpus_per_node.min(group.host.gpus(shape.host));
    let pieces: u64 = groups.iter().map(|group| u64::from(group.most_nodes()) * u64::from(room(group) / piece)).sum();
    // The last piece is what is left.
    let last = shape.gpus % piece;
    pieces >= u64::from(shape.gpus / piece) && groups.iter().any(|group| room(group) >= last)
}

/// How what a job is recorded with fits the nodes that it may use.
enum Fit {
    /// As this, or too large by its GPUs alone, for which nobody is to blame here.
    Fits(HostNeed),
    /// On as many nodes as it had, which are more than the replay gives it.
    OnMoreNodes,
    /// Not at all.
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
    /// In words, for the report.
    fn in_words(&self) -> Vec<String> {
        let says = |jobs: u64, one: &str, several: &str| (jobs > 0).then(|| format::counted(jobs, one, several));
        let cores = says(self.cores, "job does not say how many processors", "jobs do not say how many processors");
        let memory = says(self.memory, "job does not say how much memory", "jobs do not say how much memory");
        let mut notes: Vec<String> =
            [cores, memory].into_iter().flatten().map(|say| format!("{say} they had: they take none.")).collect();
        if let Some(had) = says(self.on_more_nodes, "job had", "jobs had") {
            notes.push(format!(
                "{had} more nodes than the replay gives them, whose processors and memory are not enough: these take GPUs alone. --gangs-as-recorded gives them as many as they had."
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
    notes.push("Processors and memory of nodes count beside GPUs; --hosts none replays GPUs alone.".to_owned());
    notes.extend(without.in_words());
    notes.extend(round(kept));
    true
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tracecast_analytics::schema::{CapacityRow, JobRow, NodeRow};

    use super::*;
    use crate::replay::input::{Loaded, Options, Site, load};

    const GIB: i64 = 1 << 30;

    /// (GPUs, processors, GiB) of jobs that run one after another, and of nodes.
    fn trace(jobs: &[(f64, Option<f64>, Option<i64>)], nodes: &[(f64, f64, i64)]) -> Trace {
        let mut trace = Trace::default();
        for (at, (gpus, cpus, gib)) in (0..).zip(jobs) {
            trace.jobs.push(JobRow {
                job_key: Some(format!("j{at}").into()),
                submit: Some(at * 1000),
                start: Some(at * 1000),
                end: Some(at * 1000 + 500),
                run_s: Some(0.5),
                state: Some("completed".into()),
                req_gpus: Some(*gpus),
                req_cpus: *cpus,
                req_mem_bytes: gib.map(|gib| gib * GIB),
                ..JobRow::default()
            });
        }
        for (at, (gpus, cpus, gib)) in nodes.iter().enumerate() {
            trace.nodes.push(NodeRow {
                node: Some(format!("n{at}").into()),
                gpus: Some(*gpus),
                cpus: Some(*cpus),
                mem_bytes: Some(gib * GIB),
                ..NodeRow::default()
            });
        }
        trace
    }

    fn loaded(trace: &Trace, site: Option<&str>, hosts: Hosts) -> Loaded {
        let site = site.map(|text| Site::parse("cluster.toml", text).unwrap());
        load(trace, site.as_ref(), &Options { hosts, ..Options::default() }).unwrap()
    }

    #[test]
    fn amounts_are_of_each_gpu_and_rounded_down() {
        let jobs = [(8.0, Some(90.0), Some(500)), (3.0, Some(10.0), None), (0.3, Some(2.5), Some(7))];
        let trace = trace(&jobs, &[(8.0, 96.0, 512), (8.0, 64.0, 512)]);
        let found = loaded(&trace, None, Hosts::Usual);
        let of = |job: usize| found.workload.shape_of(job).host;
        assert_eq!(of(0), HostNeed { cores_milli: 11_250, memory_mib: 64_000 });
        assert_eq!(of(1), HostNeed { cores_milli: 3_333, memory_mib: 0 });
        assert_eq!(of(2), HostNeed { cores_milli: 2_500, memory_mib: 7 * 1024 });
        let hosts: Vec<Option<u32>> = found.cluster.pools[0].groups.iter().map(|of| of.host.cores_milli).collect();
        assert_eq!(hosts, [Some(64_000), Some(96_000)]);
        let notes = found.notes.join("\n");
        assert!(notes.contains("Processors and memory of nodes count"), "{notes}");
        assert!(notes.contains("1 job does not say how much memory"), "{notes}");
        // GPUs alone, as everywhere else.
        let alone = loaded(&trace, None, Hosts::Ignored);
        assert!(!alone.workload.asks_hosts() && !alone.cluster.has_hosts());
        assert_eq!(alone.cluster.pools[0].groups.len(), 1);
    }

    /// Slurm's record of a job with `--gres=gpu:3 --cpus-per-gpu=3 --mem-per-cpu=1000` on cores of two threads.
    #[test]
    fn what_was_given_counts_before_what_was_asked_for() {
        let mut trace = trace(&[(3.0, Some(1.0), None)], &[(8.0, 16.0, 512)]);
        trace.jobs.push(JobRow {
            job_key: Some("given".into()),
            submit: Some(9_000),
            start: Some(9_000),
            end: Some(9_500),
            run_s: Some(0.5),
            state: Some("completed".into()),
            req_gpus: Some(3.0),
            req_cpus: Some(1.0),
            alloc_cpus: Some(10.0),
            req_mem_bytes: Some(1_000 << 20),
            alloc_mem_bytes: Some(10_000 << 20),
            ..JobRow::default()
        });
        let found = loaded(&trace, None, Hosts::Usual);
        assert_eq!(found.workload.shape_of(1).host, HostNeed { cores_milli: 3_333, memory_mib: 3_333 });
    }

    #[test]
    fn what_ran_and_fits_nowhere_takes_gpus_alone() {
        let jobs = [(1.0, Some(8.0), Some(4000)), (1.0, Some(80.0), Some(4))];
        let trace = trace(&jobs, &[(8.0, 96.0, 512)]);
        let found = loaded(&trace, None, Hosts::Usual);
        assert!(found.workload.shape_of(0).host.is_none() && !found.workload.shape_of(1).host.is_none());
        assert!(
            found.notes.join("\n").contains("**1 job ran although no node that they may use has"),
            "{:?}",
            found.notes
        );
        // On smaller nodes of a file what fitted the trace's own is not let off.
        let small = "[[vc]]\nname = \"*\"\nnodes = 1\ncpus_per_node = 64\nmemory_gib_per_node = 100\n";
        let found = loaded(&trace, Some(small), Hosts::Usual);
        assert_eq!(found.workload.shape_of(1).host.cores_milli, 80_000);
        assert_eq!(found.cluster.pools[0].groups[0].host.memory_mib, Some(102_400));
    }

    #[test]
    fn what_never_decides_is_left_out() {
        let trace = trace(&[(1.0, Some(12.0), Some(64)), (0.5, Some(6.0), Some(32))], &[(8.0, 96.0, 512)]);
        assert!(!loaded(&trace, None, Hosts::Usual).workload.asks_hosts());
        let told = loaded(&trace, None, Hosts::AsRecorded);
        assert!(told.notes.join("\n").contains("GPUs alone decide"), "{:?}", told.notes);
        assert_eq!("none".parse::<Hosts>().unwrap(), Hosts::Ignored);
        assert!("both".parse::<Hosts>().is_err());
    }

    #[test]
    fn nodes_are_those_of_gpus_alone_where_nothing_is_decided() {
        let jobs = [(4.0, Some(4.0), Some(4)), (4.0, Some(4.0), Some(4))];
        let mut trace = trace(&jobs, &[(8.0, 128.0, 512), (8.0, 96.0, 512), (8.0, 96.0, 512)]);
        trace.capacity.push(CapacityRow {
            scope: Some("node".into()),
            name: Some("n0".into()),
            state: Some("down".into()),
            from: Some(100),
            to: Some(200),
            ..CapacityRow::default()
        });
        let site = "[[pool]]\nname = \"p\"\nnodes = 2\ncpus_per_node = 64\n[[vc]]\nname = \"*\"\npool = \"p\"\n";
        for site in [None, Some(site)] {
            let [usual, told, alone] =
                [Hosts::Usual, Hosts::AsRecorded, Hosts::Ignored].map(|hosts| loaded(&trace, site, hosts));
            assert_eq!((&usual.cluster, &usual.recorded_cluster), (&alone.cluster, &alone.recorded_cluster));
            assert_eq!((&told.cluster, &told.recorded_cluster), (&alone.cluster, &alone.recorded_cluster));
            assert_eq!(usual.notes, alone.notes);
            let own = usual.recorded_cluster.as_ref().unwrap_or(&usual.cluster);
            assert_eq!((own.pools[0].groups.len(), own.outages[0].node), (1, 0));
        }
    }

    /// Nodes of 8 GPUs with 96 cores and so many MiB.
    fn of_memory(mib: &[i64]) -> Trace {
        let mut trace = Trace::default();
        for (at, mib) in mib.iter().enumerate() {
            trace.nodes.push(NodeRow {
                node: Some(format!("n{at}").into()),
                gpus: Some(8.0),
                cpus: Some(96.0),
                mem_bytes: Some(mib << 20),
                ..NodeRow::default()
            });
        }
        trace
    }

    #[test]
    fn nodes_that_are_alike_are_one_kind_with_the_least() {
        let of = |mib: &[i64]| -> Vec<u32> {
            rooms(&of_memory(mib)).into_iter().map(|room| room.memory_mib.unwrap()).collect()
        };
        assert_eq!(of(&[970_000, 985_000, 1_000_000, 990_000]), [970_000, 985_000, 985_000, 985_000]);
        assert_eq!(of(&[980_000, 1_000_000]), [980_000, 980_000]);
        assert_eq!(of(&[979_999, 1_000_000]), [979_999, 1_000_000]);
        assert_eq!(alike(&of_memory(&[980_000, 1_000_000]), None).memory_mib, Some(980_000));
        assert!(alike(&of_memory(&[970_000, 1_000_000]), None).is_unbounded());
        // Whole cores tell nodes apart, as do GPUs; what is unknown is like what is unknown.
        let mut trace = of_memory(&[1_000_000; 5]);
        for (row, cpus) in [Some(95.5), Some(95.9), Some(96.0), Some(95.5), None].into_iter().enumerate() {
            trace.nodes.cpus.set(row, cpus);
        }
        trace.nodes.gpus.set(3, Some(4.0));
        let cores: Vec<Option<u32>> = rooms(&trace).into_iter().map(|room| room.cores_milli).collect();
        assert_eq!(cores, [Some(95_500), Some(95_500), Some(96_000), Some(95_500), None]);
    }

    #[test]
    fn the_outage_of_a_node_is_that_of_one_of_its_kind() {
        let nodes = [(8.0, 96.0, 512), (8.0, 64.0, 512), (8.0, 96.0, 511)];
        let mut trace = trace(&[(1.0, Some(80.0), Some(4))], &nodes);
        trace.capacity.push(CapacityRow {
            scope: Some("node".into()),
            name: Some("n2".into()),
            state: Some("down".into()),
            from: Some(100),
            to: Some(200),
            ..CapacityRow::default()
        });
        let cluster = loaded(&trace, None, Hosts::Usual).cluster;
        let groups: Vec<(u32, Option<u32>)> =
            cluster.pools[0].groups.iter().map(|group| (group.most_nodes(), group.host.memory_mib)).collect();
        assert_eq!(groups, [(1, Some(512 * 1024)), (2, Some(511 * 1024))]);
        assert_eq!(cluster.outages[0].node, 2);
        // What had all of the greater node is not told to be wrong.
        trace.jobs.req_mem_bytes.set(0, Some(512 * GIB));
        let found = loaded(&trace, None, Hosts::Usual);
        assert_eq!(found.workload.shape_of(0).host.memory_mib, 513_802);
        assert!(!found.notes.join("\n").contains("although"), "{:?}", found.notes);
    }

    #[test]
    fn more_nodes_than_the_replay_gives_are_no_mistake_of_the_record() {
        let jobs = [(8.0, Some(128.0), Some(64)), (4.0, Some(64.0), Some(64))];
        let mut trace = trace(&jobs, &[(8.0, 96.0, 512); 3]);
        trace.jobs.alloc_nodes.set(0, Some(2));
        trace.jobs.alloc_nodes.set(1, Some(1));
        let found = loaded(&trace, None, Hosts::Usual);
        let notes = found.notes.join("\n");
        assert!(found.workload.shape_of(0).host.is_none() && !found.workload.shape_of(1).host.is_none());
        assert!(
            notes.contains("1 job had more nodes than the replay gives them") && !notes.contains("although"),
            "{notes}"
        );
        let options = Options { hosts: Hosts::Usual, gangs_as_recorded: true, ..Options::default() };
        let found = load(&trace, None, &options).unwrap();
        assert_eq!(found.workload.shape_of(0).host.cores_milli, 16_000);
        assert!(!found.notes.join("\n").contains("more nodes than"), "{:?}", found.notes);
    }

    #[test]
    fn what_ran_is_held_against_the_nodes_it_may_use() {
        let jobs = [(8.0, Some(96.0), Some(64)), (8.0, Some(96.0), Some(64)), (4.0, Some(20.0), Some(64))];
        // By VC, or by the type of GPU that a job must have.
        let of_parts = |types: bool, jobs: &[(f64, Option<f64>, Option<i64>)], nodes: &[(f64, f64, i64)]| {
            let mut trace = trace(jobs, nodes);
            let Trace { jobs: table, nodes: list, .. } = &mut trace;
            let (of_jobs, of_nodes) =
                if types { (&mut table.gpu_type, &mut list.gpu_type) } else { (&mut table.vc, &mut list.vc) };
            (0..jobs.len()).for_each(|row| of_jobs.set(row, Some(if row == 0 { "v" } else { "w" })));
            (0..nodes.len()).for_each(|row| of_nodes.set(row, Some(if row == 0 { "v" } else { "w" })));
            trace
        };
        for types in [false, true] {
            let found = loaded(&of_parts(types, &jobs, &[(8.0, 96.0, 512), (8.0, 64.0, 512)]), None, Hosts::Usual);
            let asks: Vec<bool> = (0..3).map(|job| !found.workload.shape_of(job).host.is_none()).collect();
            assert_eq!(asks, [true, false, true], "{types}");
            assert!(found.notes.join("\n").contains("**1 job ran although no node that"), "{:?}", found.notes);
        }
        // The pieces are those of the VC's own nodes: 8 GPUs on two nodes of 4, with 64 cores each.
        let jobs = [(8.0, Some(64.0), Some(64)), (8.0, Some(128.0), Some(64)), (1.0, Some(64.0), None)];
        let trace = of_parts(false, &jobs, &[(8.0, 64.0, 512), (4.0, 64.0, 512), (4.0, 64.0, 512)]);
        let found = loaded(&trace, None, Hosts::Usual);
        assert_eq!(found.workload.shape_of(1).host.cores_milli, 16_000);
        assert!(!found.notes.join("\n").contains("although"), "{:?}", found.notes);
    }

    #[test]
    fn many_amounts_become_few() {
        let jobs: Vec<_> = (0..3000).map(|at| (1.0, Some(4.0 + f64::from(at) / 1000.0), Some(40))).collect();
        let found = loaded(&trace(&jobs, &[(8.0, 32.0, 512)]), None, Hosts::Usual);
        assert!(found.workload.shapes.len() <= MOST_SHAPES);
        for (job, (_, cpus, _)) in jobs.iter().enumerate() {
            let (exact, found) = (cpus.unwrap() * 1000.0, f64::from(found.workload.shape_of(job).host.cores_milli));
            assert!(found < exact + 0.01 && found > exact * (1.0 - 1.0 / 256.0), "{exact} {found}");
        }
        assert!(found.notes.join("\n").contains("3,000 different combinations"), "{:?}", found.notes);
        assert_eq!([coarse(1000, 3), coarse(7, 3), coarse(0, 3), coarse(u32::MAX, 1)], [896, 7, 0, 1 << 31]);
    }
}
