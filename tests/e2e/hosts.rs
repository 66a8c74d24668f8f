//! A real Slurm whose nodes run out of processors and memory (`CR_Core_Memory`): when its jobs started, where they lay, and what the replay says of both.
//!
//! Four nodes of 8 GPUs have 16 cores of two threads and 64,000 MB each, so 4 processors and 8,000 MB for each GPU. Most jobs ask for more of one of them, as users do: by the GPU, by the task, by the node, by the processor. The replay knows from `sacct` what each was given, and from a
//! cluster file what nodes have. It is held against the starts and the node lists that `sacct` has, beside the replay of the same jobs that counts GPUs alone.

use std::collections::BTreeSet;
use std::path::Path;

use tracecast_analytics::Trace;
use tracecast_planner::replay::input::{Hosts, Loaded, Options, Site, load};
use tracecast_planner::sim::{Schedule, Weights, simulate};

use crate::lab::Lab;
use crate::recording::{self, INTERVAL, WARM_UP};
use crate::replay::{Agreement, align, compare, first_ms, recorded_nodes, slurm};
use crate::workload::{Asked, SHORT_RUNS_S, SplitMix};

/// The nodes n1 to n4.
const NODES: u32 = 4;
const HOST: &str = "Sockets=2 CoresPerSocket=8 ThreadsPerCore=2 RealMemory=64000";
const CLUSTER: &str =
    "[[vc]]\nname = \"*\"\nnodes = 4\ngpus_per_node = 8\ncpus_per_node = 32\nmemory_gib_per_node = 62.5\n";
/// GPUs of jobs, and how many jobs of a hundred have so many: those of 10 are of two nodes.
const GPUS: [(u32, u64); 5] = [(1, 45), (2, 28), (3, 10), (4, 7), (10, 10)];
/// Processors of a node.
const CPUS: u32 = 32;

/// A job, and what it asks for beside GPUs.
struct Hosted {
    asked: Asked,
    /// Arguments of `sbatch`.
    beside: [String; 2],
    /// Allocation that `sacct` is to report on each node: processors and, where it says so, memory,
    /// MB.
    given: (u32, u32),
}

/// Drawn arguments for a job with so many GPUs on a node, and the allocation that comes of them.
fn beside(random: &mut SplitMix, gpus: u32) -> ([String; 2], (u32, u32)) {
    let each = random.of(&[3, 4, 6, 9, 11, 16]).min(CPUS / gpus);
    // One core is two processors, and what is begun is taken whole.
    let whole = |cpus: u32| cpus.next_multiple_of(2);
    let by_gpu = format!("--cpus-per-gpu={each}");
    let cpus = whole(each * gpus);
    match random.below(4) {
        0 => {
            let memory = random.of(&[2_000, 7_001, 15_000, 31_000]);
            ([by_gpu, format!("--mem={memory}")], (cpus, memory))
        }
        1 => {
            let memory = random.of(&[1_000, 4_001, 7_900]);
            ([by_gpu, format!("--mem-per-gpu={memory}")], (cpus, memory * gpus))
        }
        2 => {
            let memory = random.of(&[100, 1_000, 1_900]);
            ([by_gpu, format!("--mem-per-cpu={memory}")], (cpus, memory * cpus))
        }
        _ => {
            let tasks = random.of(&[1, 4, 7, 13, 20]);
            let memory = random.of(&[100, 1_000, 1_900]);
            ([format!("-c{tasks}"), format!("--mem-per-cpu={memory}")], (whole(tasks), memory * whole(tasks)))
        }
    }
}

/// 48 jobs in 4 bursts, one every 10 s.
fn jobs() -> Vec<Hosted> {
    let mut random = SplitMix::new(23);
    (0..48)
        .map(|job| {
            let gpus = random.of_shares(&GPUS);
            let asked = Asked {
                at_s: job / 12 * 10,
                name: format!("h{job:02}"),
                user: format!("u{}", 1 + random.below(4)),
                gpus,
                run_s: random.of(&SHORT_RUNS_S),
                limit_min: 1 + random.below(3) as u32,
            };
            let (beside, given) = beside(&mut random, asked.gpus_a_node());
            Hosted { asked, beside, given }
        })
        .collect()
}

fn submit(lab: &Lab, job: &Hosted) {
    let Hosted { asked, beside: [cpus, memory], .. } = job;
    let (nodes, limit, gpus) =
        (asked.nodes().to_string(), asked.limit_min.to_string(), format!("--gres=gpu:{}", asked.gpus_a_node()));
    let arguments = ["-N", &nodes, &gpus, cpus, memory, "-t", &limit];
    lab.submit(&asked.user, &asked.name, &arguments, &format!("sleep {}", asked.run_s));
}

/// The jobs but for those that warm the lab up.
fn loaded(trace: &Trace, hosts: Hosts) -> (Loaded, i64) {
    let from_ms = first_ms(trace, |name| !WARM_UP.contains(&name));
    let options = Options { from_ms, gangs_as_recorded: true, hosts, ..Options::default() };
    let mut loaded = load(trace, Some(&Site::parse("cluster.toml", CLUSTER).unwrap()), &options).unwrap();
    assert!(loaded.workload.warm.is_empty(), "{} jobs run already", loaded.workload.warm.len());
    assert_eq!((loaded.workload.len(), loaded.cluster.most_nodes()), (jobs().len(), NODES));
    assert_eq!(loaded.workload.asks_hosts(), hosts != Hosts::Ignored);
    let period_ms = align(&mut loaded);
    (loaded, period_ms)
}

/// Number of jobs that the replay places on the nodes of the record.
fn on_the_same_nodes(trace: &Trace, loaded: &Loaded, schedule: &Schedule) -> usize {
    let is_same = |segment: &&tracecast_planner::sim::Segment| {
        let replayed: BTreeSet<u32> = schedule.pieces_of(segment).iter().map(|piece| piece.node).collect();
        recorded_nodes(trace, loaded, segment.job) == replayed
    };
    schedule.segments.iter().filter(is_same).count()
}

/// Replays the recorded jobs with and without processors and memory, and demands that those with them are met.
fn agrees(trace: &Trace) {
    let replayed = |hosts: Hosts, name: &str| -> (Agreement, usize) {
        let (jobs, period_ms) = loaded(trace, hosts);
        let schedule = simulate(&jobs.workload, &jobs.cluster, &slurm(Weights::default(), period_ms)).unwrap();
        let (starts, same) = (compare(&jobs, &schedule), on_the_same_nodes(trace, &jobs, &schedule));
        println!("{name:<30} {starts}; of {} jobs {same} lie on the same nodes", jobs.workload.len());
        (starts, same)
    };
    let (starts, same) = replayed(Hosts::AsRecorded, "with processors and memory");
    let (without, same_without) = replayed(Hosts::Ignored, "GPUs alone");

    assert!(starts.median_s <= INTERVAL.as_secs() as i64, "{starts}");
    assert!(starts.tau >= 0.95, "{starts}");
    // Not all of them: the record does not say which processors of a node were of use to a job of several a task.
    assert!(same * 10 >= jobs().len() * 7, "{same}");
    // Or the recording would not tell the two apart.
    assert!(without.median_s > INTERVAL.as_secs() as i64 && without.tau < 0.92, "{without}");
    assert!(same_without * 10 <= same * 7, "{same_without} and {same}");
}

/// Checks that recorded allocations follow from the arguments of the jobs, though recorded requests
/// do not.
fn says_what_was_given(trace: &Trace) {
    const MIB: i64 = 1 << 20;
    let mut asked_less = 0;
    for job in jobs() {
        let row = (0..trace.jobs.submit.len()).find(|row| trace.jobs.name.get(*row) == Some(&job.asked.name)).unwrap();
        let nodes = job.asked.nodes();
        let (cpus, memory) = (f64::from(job.given.0 * nodes), i64::from(job.given.1 * nodes) * MIB);
        let found = (trace.jobs.alloc_cpus.get(row), trace.jobs.alloc_mem_bytes.get(row));
        assert_eq!(found, (Some(cpus), Some(memory)), "{} {:?}", job.asked.name, job.beside);
        asked_less += usize::from(trace.jobs.req_cpus.get(row).unwrap() < cpus);
    }
    println!("of {} jobs {asked_less} were given more processors than the record says they asked for", jobs().len());
}

#[test]
fn recorded_with_few_processors_and_little_memory() {
    let asked = jobs();
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("slurm-hosts.txt");
    let record = || {
        let lab = Lab::on_hosts(NODES, recording::SCHEDULER, HOST)?;
        Some(recording::record_bursts(&lab, &asked, |job| job.asked.at_s, |job| submit(&lab, job), &file))
    };
    let Some(trace) = recording::least_disturbed(record) else { return };
    assert_eq!(trace.ledger.quarantined, 0, "{:?}", trace.ledger);
    says_what_was_given(&trace);
    agrees(&trace);
}

/// A recording made before: `TRACECAST_SLURM_HOSTS` names it (`slurm-hosts.txt`, as the test above leaves it).
#[test]
fn a_recording_with_few_processors_made_before_is_replayed() {
    if let Some(trace) = recording::made_before("TRACECAST_SLURM_HOSTS") {
        agrees(&trace);
    }
}
