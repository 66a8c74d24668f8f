//! A real Slurm with `TopologyPlugin=topology/tree`: where its jobs lay, and where the replay puts them.
//!
//! Eight nodes of 8 GPUs hang on three leaf switches, two below one spine and one below another. The replay knows this from the `topology.conf` itself, by the cluster file that `tracecast cluster --topology-file` writes. It is held against the starts and the node lists
//! that `sacct` has, beside the replay of the same jobs that knows no switches. Where decisions differ once, those after them do as well, so that a share of equal node lists says more than it seems.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use tracecast_analytics::Trace;
use tracecast_planner::replay::input::{Loaded, NodePlaces, Options, Site, TopologyRules, Wanted, cluster_file, load};
use tracecast_planner::sim::{Cluster, Schedule, Topology, Weights, simulate};

use crate::lab::Lab;
use crate::recording::{self, INTERVAL, WARM_UP};
use crate::replay::{Agreement, align, compare, first_ms, recorded_nodes, slurm};
use crate::workload::{Asked, SHORT_RUNS_S, SplitMix};

/// The nodes n1 to n8.
const NODES: u32 = 8;
const SWITCHES: &str = "\
SwitchName=leaf1 Nodes=n[1-3]
SwitchName=leaf2 Nodes=n[4-5]
SwitchName=leaf3 Nodes=n[6-8]
SwitchName=spine1 Switches=leaf[1-2]
SwitchName=spine2 Switches=leaf3
SwitchName=core Switches=spine[1-2]
";
/// GPUs of jobs, and how many jobs of a hundred have so many: half are of several nodes.
const GPUS: [(u32, u64); 7] = [(1, 18), (4, 16), (8, 16), (16, 24), (24, 12), (32, 8), (40, 6)];

/// 40 jobs in 4 bursts, one every 12 s.
fn jobs() -> Vec<Asked> {
    let mut random = SplitMix::new(11);
    (0..40)
        .map(|job| {
            let gpus = random.of_shares(&GPUS);
            Asked {
                at_s: job / 10 * 12,
                name: format!("s{job:02}"),
                user: format!("u{}", 1 + random.below(4)),
                gpus,
                run_s: random.of(&SHORT_RUNS_S),
                limit_min: 1 + random.below(3) as u32,
            }
        })
        .collect()
}

/// The jobs but for those that warm the lab up, on nodes that hang on the switches.
fn loaded(trace: &Trace) -> Loaded {
    let places = NodePlaces::of_slurm("topology.conf", SWITCHES).unwrap();
    let wanted = Wanted { places: Some(places), ..Wanted::default() };
    let file = cluster_file(trace, "lab", &wanted).unwrap();
    let from_ms = first_ms(trace, |name| !WARM_UP.contains(&name));
    // As the command line has it, where nothing is said of it.
    let topology = Some(Arc::new(TopologyRules::as_recorded()));
    let options = Options { from_ms, topology, gangs_as_recorded: true, ..Options::default() };
    let loaded = load(trace, Some(&Site::parse("cluster.toml", &file).unwrap()), &options).unwrap();
    assert!(loaded.workload.warm.is_empty(), "{} jobs run already", loaded.workload.warm.len());
    assert_eq!((loaded.workload.len(), loaded.cluster.most_nodes()), (jobs().len(), NODES), "{file}");
    assert!(loaded.cluster.topology.as_ref().is_some_and(Topology::is_of_switches), "{file}");
    loaded
}

/// The switch of a node by its number in the cluster file, which names them in order.
fn leaf(node: u32) -> u32 {
    match node {
        0..3 => 1,
        3..5 => 2,
        _ => 3,
    }
}

/// Places of jobs in the record, and in a replay.
#[derive(Default)]
struct Places {
    several: usize,
    as_many_leaves: usize,
    same_nodes: usize,
    jobs: usize,
    all_same_nodes: usize,
    /// Leaves over all jobs on several nodes: recorded, replayed.
    leaves: (usize, usize),
}

fn places(trace: &Trace, loaded: &Loaded, schedule: &Schedule) -> Places {
    let mut found = Places::default();
    for segment in &schedule.segments {
        let recorded = recorded_nodes(trace, loaded, segment.job);
        let replayed: BTreeSet<u32> = schedule.pieces_of(segment).iter().map(|piece| piece.node).collect();
        assert_eq!(recorded.len(), replayed.len(), "{recorded:?}");
        let leaves = |nodes: &BTreeSet<u32>| nodes.iter().map(|node| leaf(*node)).collect::<BTreeSet<_>>().len();
        found.jobs += 1;
        found.all_same_nodes += usize::from(recorded == replayed);
        if recorded.len() > 1 {
            found.several += 1;
            found.as_many_leaves += usize::from(leaves(&recorded) == leaves(&replayed));
            found.same_nodes += usize::from(recorded == replayed);
            found.leaves.0 += leaves(&recorded);
            found.leaves.1 += leaves(&replayed);
        }
    }
    found
}

/// Replays the recorded jobs with and without their switches, and demands that those with them are met.
fn agrees(trace: &Trace) {
    let mut jobs = loaded(trace);
    let period_ms = align(&mut jobs);
    let policy = slurm(Weights::default(), period_ms);
    let replayed = |cluster: &Cluster, name: &str| -> (Agreement, Places) {
        let schedule = simulate(&jobs.workload, cluster, &policy).unwrap();
        let (starts, places) = (compare(&jobs, &schedule), places(trace, &jobs, &schedule));
        let Places { several, as_many_leaves, same_nodes, jobs, all_same_nodes, leaves } = &places;
        println!(
            "{name:<16} {starts}; of {several} jobs on several nodes {as_many_leaves} lie on as many leaves ({} recorded, {} replayed), {same_nodes} on the same nodes; of all {jobs} jobs {all_same_nodes} on the same nodes",
            leaves.0, leaves.1
        );
        (starts, places)
    };
    let (starts, found) = replayed(&jobs.cluster, "with switches");
    let plain = Cluster { topology: jobs.cluster.topology.clone().map(Topology::unfollowed), ..jobs.cluster.clone() };
    let (_, without) = replayed(&plain, "without switches");

    assert!(found.several >= 15, "{}", found.several);
    assert!(starts.median_s <= INTERVAL.as_secs() as i64, "{starts}");
    assert!(starts.tau >= 0.95, "{starts}");
    assert!(found.as_many_leaves * 20 >= found.several * 19, "{} of {}", found.as_many_leaves, found.several);
    assert!(found.same_nodes * 10 >= found.several * 9, "{} of {}", found.same_nodes, found.several);
    // Or the recording would not tell the two apart.
    assert!(without.same_nodes * 10 <= found.same_nodes * 8, "{} and {}", without.same_nodes, found.same_nodes);
}

#[test]
fn recorded_on_switches() {
    let asked = jobs();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (file, switches) = (folder.join("slurm-switches.txt"), folder.join("slurm-switches.conf"));
    std::fs::write(&switches, SWITCHES).unwrap();
    let record = || {
        let lab = Lab::on_switches(NODES, recording::SCHEDULER, &switches)?;
        assert!(lab.output("scontrol", &["show", "topology"]).contains("SwitchName=leaf2"));
        Some(recording::record(&lab, &asked, &file))
    };
    let Some(trace) = recording::least_disturbed(record) else { return };
    assert_eq!(trace.ledger.quarantined, 0, "{:?}", trace.ledger);
    agrees(&trace);
}

/// A recording made before: `TRACECAST_SLURM_SWITCHES` names it (`slurm-switches.txt`, as the test above leaves it).
#[test]
fn a_recording_on_switches_made_before_is_replayed() {
    if let Some(trace) = recording::made_before("TRACECAST_SLURM_SWITCHES") {
        agrees(&trace);
    }
}
