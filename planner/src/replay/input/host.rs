//! Processors and memory of jobs and nodes, from a trace ([`crate::sim`], section *Processors and memory*).
//!
//! * **Jobs**: processors and memory given, else those asked for. Slurm's record of what was asked for knows nothing of `--cpus-per-gpu`, nor of the memory that each of these processors brings with `--mem-per-cpu`; and what is given is whole cores. Each is divided by the job's GPUs and rounded down, to a thousandth of a core and a MiB for each GPU (for a part of a GPU: of the part), so that what a job takes is never
//!   more than it was given. Slurm may give the nodes of a job different shares (7 tasks of 3 processors on two nodes; the same memory on a node with 4 GPUs and on one with 1): `sacct` has the sum alone. A job of which one of them is not recorded asks for nothing of it, and is counted.
//! * **Nodes**: cores and memory of the machine list, or of a cluster file. What is not recorded is without bound. Sizes of VCs over time are of nodes as the machine list has them, if all of these are alike.
//! * **Quarantine**: a job that ran, and whose processors and memory no node of the trace's own holds, not even an empty one, says something else in this trace (memory of a whole node for each process, perhaps). It asks for GPUs alone, and is counted. A job
//!   that is too large for the nodes of a cluster file only is rejected by the replay, as there it is the answer.
//! * **Kinds of jobs**: the replay knows at most [`MOST_SHAPES`]. Where jobs ask for more different amounts, all are rounded down to as many binary digits as it takes, and a note says how far that may be off.
//!
//! Where every node has enough of both for all its GPUs, whichever jobs have these, processors and memory never decide, and GPUs alone are replayed.
//!
//! O(jobs + shapes × groups of nodes). Worked number: a job of 8 GPUs with 90 processors and 500,001 MiB asks for 11.25 cores and 62,500 MiB for each GPU.

use std::collections::BTreeSet;
use std::str::FromStr;

use tracecast_analytics::Trace;
use tracecast_analytics::report::format;
use tracecast_analytics::schema::Table;

use crate::error::{Error, Result};
use crate::sim::cluster::Cluster;
use crate::sim::host::{HostNeed, HostRoom};
use crate::sim::workload::Shape;

/// Most kinds of jobs, as what a replay costs grows with them.
const MOST_SHAPES: usize = 1_000;
/// Bytes of a MiB.
const MIB: f64 = 1_048_576.0;

/// A job that is kept: its row in the trace, and its shape.
pub(super) type Asking = (u32, Shape);

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

/// What the nodes of a row of the machine list have.
pub(super) fn room(trace: &Trace, row: usize) -> HostRoom {
    let nodes = &trace.nodes;
    let bytes = nodes.mem_bytes.get(row).map(|bytes| bytes as f64 / MIB);
    // No processor at all, or no memory, is no machine, but a gap in the list.
    let some = |amount: Option<f64>| amount.filter(|amount| *amount >= 1.0).map(bounded);
    HostRoom { cores_milli: some(whole(nodes.cpus.get(row), 1000.0)), memory_mib: some(whole(bytes, 1.0)) }
}

/// What the nodes with GPUs have, of a VC or of all, where all of them have the same; else nothing is known.
pub(super) fn alike(trace: &Trace, vc: Option<&str>) -> HostRoom {
    let nodes = &trace.nodes;
    let has_gpus = |row: &usize| nodes.gpus.get(*row).is_some_and(|gpus| gpus >= 1.0);
    let mut rows = (0..nodes.len()).filter(has_gpus).filter(|row| vc.is_none() || nodes.vc.get(*row) == vc);
    let Some(first) = rows.next().map(|row| room(trace, row)) else { return HostRoom::default() };
    if rows.all(|row| room(trace, row) == first) { first } else { HostRoom::default() }
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

/// Whether a node of `cluster`, empty, could hold the largest piece of a shape; of any type of GPUs.
fn is_held(cluster: &Cluster, shape: Shape) -> bool {
    let groups = || cluster.pools.iter().flat_map(|pool| &pool.groups).filter(|group| group.most_nodes() > 0);
    let largest = groups().map(|group| group.gpus_per_node).max().unwrap_or(0);
    let piece = match shape.nodes {
        0 => shape.gpus.min(largest),
        nodes => shape.gpus.div_ceil(u32::from(nodes)),
    };
    groups().any(|group| group.gpus_per_node >= piece && group.host.holds(shape.host_of(piece)))
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

fn forget(cluster: &mut Cluster) {
    for group in cluster.pools.iter_mut().flat_map(|pool| &mut pool.groups) {
        group.host = HostRoom::default();
    }
}

/// An amount rounded down to so many binary digits.
fn coarse(amount: u32, digits: u32) -> u32 {
    let beyond = (u32::BITS - amount.leading_zeros()).saturating_sub(digits);
    amount >> beyond << beyond
}

/// Gives jobs their processors and memory, if these count on `cluster` or on the trace's own nodes, `own` where `cluster` are others; if not, nodes have them no longer. Says what was assumed, and whether they count.
/// `of_file` is whether `cluster` are others and the trace's own are not known.
pub(super) fn settle(
    trace: &Trace,
    kept: &mut [Asking],
    (cluster, own): (&mut Cluster, Option<&mut Cluster>),
    (hosts, of_file): (Hosts, bool),
    notes: &mut Vec<String>,
) -> bool {
    let told = hosts == Hosts::AsRecorded;
    let none = |cluster: &mut Cluster, own: Option<&mut Cluster>| {
        forget(cluster);
        if let Some(own) = own {
            forget(own);
        }
        false
    };
    if hosts == Hosts::Ignored {
        return none(cluster, own);
    }
    let asks = kept.iter().any(|(row, shape)| !need(trace, *row as usize, *shape).is_none());
    if !asks || !cluster.has_hosts() {
        if told {
            let who = if asks { "No node" } else { "No job" };
            notes.push(format!("{who} says anything of processors or memory, so GPUs alone count."));
        }
        return none(cluster, own);
    }
    let (mut without_cores, mut without_memory, mut too_large) = (0u64, 0u64, 0u64);
    for (row, shape) in kept.iter_mut() {
        let row = *row as usize;
        let (cores, memory) = recorded(trace, row);
        without_cores += u64::from(cores.is_none());
        without_memory += u64::from(memory.is_none());
        let asking = Shape { host: need(trace, row, *shape), ..*shape };
        let ran = trace.jobs.start.get(row).is_some();
        let fits = is_held(own.as_deref().unwrap_or(cluster), asking);
        if !ran || fits || of_file {
            *shape = asking;
        } else {
            too_large += 1;
        }
    }
    let kinds = |kept: &[Asking]| kept.iter().map(|(_, shape)| *shape).collect::<BTreeSet<Shape>>();
    let most = most_each(&kinds(kept));
    if !may_decide(cluster, most) && !own.as_deref().is_some_and(|own| may_decide(own, most)) {
        kept.iter_mut().for_each(|(_, shape)| shape.host = HostNeed::default());
        if told {
            notes.push(
                "Every node has processors and memory for all its GPUs, whichever jobs have them: GPUs alone decide."
                    .to_owned(),
            );
        }
        return none(cluster, own);
    }
    notes.push("Processors and memory of nodes count beside GPUs; --hosts none replays GPUs alone.".to_owned());
    for (jobs, what) in [(without_cores, "processors"), (without_memory, "memory")] {
        if jobs > 0 {
            let ask = format::counted(jobs, "job does not say how many", "jobs do not say how many");
            let ask = if what == "memory" { ask.replace("many", "much") } else { ask };
            notes.push(format!("{ask} {what} they had: they take none."));
        }
    }
    if too_large > 0 {
        let ran = format::counted(too_large, "job ran", "jobs ran");
        notes.push(format!(
            "**{ran} although no node has the processors and memory recorded for it**: these take GPUs alone. What the trace calls a job's memory or processors may be something else; look before you rely on the rest."
        ));
    }
    let all = kinds(kept).len();
    if all > MOST_SHAPES {
        let exact: Vec<HostNeed> = kept.iter().map(|(_, shape)| shape.host).collect();
        for digits in (1..=10).rev() {
            for ((_, shape), exact) in kept.iter_mut().zip(&exact) {
                let (cores_milli, memory_mib) = (coarse(exact.cores_milli, digits), coarse(exact.memory_mib, digits));
                shape.host = HostNeed { cores_milli, memory_mib };
            }
            let left = kinds(kept).len();
            if left <= MOST_SHAPES || digits == 1 {
                notes.push(format!(
                    "Jobs ask for {} different combinations of GPUs, processors and memory. Their processors and memory are rounded down, by less than {}, to {}.",
                    format::count(all as u64),
                    format::percent(0.5f64.powi(digits as i32 - 1)),
                    format::count(left as u64)
                ));
                break;
            }
        }
    }
    true
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tracecast_analytics::schema::{JobRow, NodeRow};

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
        assert!(found.notes.join("\n").contains("**1 job ran although no node has"), "{:?}", found.notes);
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
