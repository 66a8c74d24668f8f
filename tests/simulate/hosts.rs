//! Jobs that ask for processors and memory, in the engine against the naive reference: under every
//! scan and placement, with topologies, limits, queues, guarantees and nodes that shrink, fail and
//! sleep. Checks of every such replay: no node ever gives more than it has.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tracecast_planner::sim::{
    Cluster, Estimate, Group, HostNeed, HostRoom, Order, Outcome, Placement, Policy, Pool, Preemption, Scan, Schedule,
    Shape, Vc, Workload, simulate, simulate_powered,
};
use tracecast_tests::reference::naive;

use super::naive::fates;
use super::power::supervisor;
use super::{cases, kai, kueue, limits, switches, topology, volcano};

/// Cases that are always run for each scan; twenty times as many with `TRACECAST_FULL=1`.
const CASES: u64 = 1_000;

/// A case of others where nodes have processors and memory, most of them too few of one for all their GPUs, and jobs ask for some.
fn beside((mut workload, mut cluster, policy): (Workload, Cluster, Policy), seed: u64) -> (Workload, Cluster, Policy) {
    let mut random = ChaCha8Rng::seed_from_u64(seed ^ 0x686f_7374);
    for group in cluster.pools.iter_mut().flat_map(|pool| &mut pool.groups) {
        let mut of = |each: u32| {
            let some = random.random_range(group.gpus_per_node * each / 2..=group.gpus_per_node * each * 2);
            random.random_bool(0.8).then_some(some.max(each))
        };
        group.host = HostRoom { cores_milli: of(4_000), memory_mib: of(30) };
    }
    // Few different amounts, so that shapes share them.
    let amounts: [(u32, u32); 6] = [(0, 0), (4_000, 0), (4_000, 30), (1_500, 60), (9_999, 7), (500, 31)];
    for shape in &mut workload.shapes {
        let (cores_milli, memory_mib) = amounts[random.random_range(0..amounts.len())];
        shape.host = HostNeed { cores_milli, memory_mib };
    }
    (workload, cluster, policy)
}

/// Checks that no node gives more processors or memory than it has, and that every piece takes its
/// GPUs times what the job asks for each. Returns the largest share taken of a bound.
fn within(workload: &Workload, cluster: &Cluster, schedule: &Schedule) -> f64 {
    let rooms: Vec<HostRoom> = cluster
        .pools
        .iter()
        .flat_map(|pool| &pool.groups)
        .flat_map(|group| (0..group.most_nodes()).map(|_| group.host))
        .collect();
    // (node, when, gives back first, cores, memory)
    let mut changes: Vec<(u32, i64, i64, i64)> = Vec::new();
    for segment in &schedule.segments {
        let shape = workload.shape_of(segment.job as usize);
        for piece in schedule.pieces_of(segment) {
            let times = if shape.milli > 0 { 1 } else { i64::from(piece.gpus.count_ones()) };
            assert_eq!(i64::from(piece.host.cores_milli), i64::from(shape.host.cores_milli) * times);
            assert_eq!(i64::from(piece.host.memory_mib), i64::from(shape.host.memory_mib) * times);
            let (cores, memory) = (i64::from(piece.host.cores_milli), i64::from(piece.host.memory_mib));
            if segment.end_ms > segment.start_ms {
                changes.push((piece.node, segment.start_ms, cores, memory));
                changes.push((piece.node, segment.end_ms, -cores, -memory));
            }
        }
    }
    // At one instant what ends gives back before what starts takes.
    changes.sort_by_key(|(node, at, cores, memory)| (*node, *at, cores + memory > 0));
    let mut most: f64 = 0.0;
    for of_node in changes.chunk_by(|a, b| a.0 == b.0) {
        let room = rooms[of_node[0].0 as usize];
        let mut held = (0, 0);
        for (_, _, cores, memory) in of_node {
            held = (held.0 + cores, held.1 + memory);
            for (held, bound) in [(held.0, room.cores_milli), (held.1, room.memory_mib)] {
                let Some(bound) = bound else { continue };
                assert!(held <= i64::from(bound), "{held} of {bound}");
                most = most.max(held as f64 / f64::from(bound));
            }
        }
    }
    most
}

/// Cases in the engine and in the reference; jobs must start later than with GPUs alone, or nothing was tested.
fn alike(count: u64, draw: impl Fn(u64) -> (Workload, Cluster, Policy)) {
    let count = cases::many(count);
    let (mut otherwise, mut full, mut rejected, mut preemptions) = (0, 0, 0, 0);
    for seed in 0..count {
        let (mut workload, cluster, policy) = beside(draw(seed), seed);
        let schedule = simulate(&workload, &cluster, &policy).unwrap();
        let (found, expected) = (fates(&schedule), naive::replay(&workload, &cluster, &policy));
        for job in 0..workload.len() {
            assert_eq!(found[job], expected[job], "seed {seed}, job {job}, {policy:?}\n{workload:#?}\n{cluster:#?}");
        }
        full += usize::from(within(&workload, &cluster, &schedule) > 0.9);
        preemptions += schedule.preemptions.iter().sum::<u32>();
        workload.shapes.iter_mut().for_each(|shape| shape.host = HostNeed::default());
        let alone = simulate(&workload, &cluster, &policy).unwrap();
        otherwise += (0..workload.len()).filter(|job| alone.start_ms(*job) != schedule.start_ms(*job)).count();
        let is = |of: &Schedule, job: usize| of.outcome[job] == Outcome::Rejected;
        rejected += (0..workload.len()).filter(|job| is(&schedule, *job) && !is(&alone, *job)).count();
    }
    println!(
        "{count} cases alike: {otherwise} jobs start otherwise than with GPUs alone, {rejected} are rejected that were not, in {full} cases a node gives nearly all it has, {preemptions} preemptions"
    );
    let count = count as usize;
    assert!(otherwise > count && full * 10 > count && rejected * 10 > count);
}

#[test]
fn every_scan_and_placement_is_alike() {
    alike(3 * CASES, cases::draw);
}

#[test]
fn slurms_backfill_is_alike() {
    alike(CASES, |seed| {
        let (mut workload, cluster, mut policy) = cases::draw(seed);
        workload.shapes.iter_mut().filter(|shape| shape.milli > 0).for_each(|shape| *shape = Shape::whole(1));
        (policy.scan, policy.preemption) = (Scan::Slurm, Preemption::Never);
        workload.origin_ms = 1_600_000_000_000 + seed as i64 % 7 * 9_500;
        (workload, cluster, policy)
    });
}

#[test]
fn blocks_and_racks_are_alike() {
    alike(CASES, |seed| topology::asking(cases::draw(seed), seed));
}

#[test]
fn switches_are_alike() {
    alike(CASES / 2, switches::draw);
}

#[test]
fn limits_are_alike() {
    alike(CASES, limits::draw);
}

#[test]
fn kueues_admission_is_alike() {
    alike(CASES, kueue::draw);
}

#[test]
fn kais_and_volcanos_queues_are_alike() {
    alike(CASES / 2, kai::draw);
    alike(CASES / 2, volcano::draw);
}

#[test]
fn nodes_sleep_alike() {
    for seed in 0..CASES / 2 {
        let (workload, cluster, policy) = beside(cases::draw(seed), seed);
        let (schedule, _) = simulate_powered(&workload, &cluster, &policy, &mut supervisor(seed, &cluster)).unwrap();
        let (expected, _) = naive::replay_powered(&workload, &cluster, &policy, supervisor(seed, &cluster));
        assert_eq!(fates(&schedule), expected, "seed {seed}, {policy:?}\n{workload:#?}\n{cluster:#?}");
        within(&workload, &cluster, &schedule);
    }
}

/// Processors and memory of nodes do not matter where jobs ask for none, and the other way round.
#[test]
fn where_one_side_says_nothing_gpus_alone_count() {
    for seed in 0..1_000 {
        let (mut workload, mut cluster, policy) = cases::draw(seed);
        let plain = fates(&simulate(&workload, &cluster, &policy).unwrap());
        let (asking, bounded, _) = beside((workload.clone(), cluster.clone(), policy.clone()), seed);
        cluster.pools.clone_from(&bounded.pools);
        assert_eq!(fates(&simulate(&workload, &cluster, &policy).unwrap()), plain, "seed {seed}");
        workload.shapes.clone_from(&asking.shapes);
        cluster.pools.iter_mut().flat_map(|pool| &mut pool.groups).for_each(|group| group.host = HostRoom::default());
        let unbounded = simulate(&workload, &cluster, &policy).unwrap();
        // Nothing keeps them, but they take what they ask for.
        for (found, plain) in fates(&unbounded).into_iter().zip(plain) {
            let times = |fate: &naive::Fate| fate.segments.iter().map(|of| (of.0, of.1)).collect::<Vec<_>>();
            assert_eq!(times(&found), times(&plain), "seed {seed}");
        }
    }
}

/// GPUs, cores of each, memory of each (MiB).
type Asks = (u32, u32, u32);

/// (submit s, run s, what it asks for).
fn jobs(rows: &[(i64, i64, Asks)]) -> Workload {
    let mut workload = Workload::default();
    for (submit_s, run_s, (gpus, cores, memory_mib)) in rows {
        let host = HostNeed { cores_milli: cores * 1000, memory_mib: *memory_mib };
        workload.push(submit_s * 1000, run_s * 1000, Shape { host, ..Shape::whole(*gpus) });
    }
    workload
}

fn nodes(count: u32, gpus: u32, cores: u32, memory_mib: u32) -> Cluster {
    let host = HostRoom { cores_milli: Some(cores * 1000), memory_mib: Some(memory_mib) };
    let pools = vec![Pool { groups: vec![Group { host, ..Group::fixed(count, gpus) }] }];
    Cluster { pools, vcs: vec![Vc::new("all", 0)], ..Cluster::default() }
}

/// Starts in seconds, and the node of the first piece.
fn starts(workload: &Workload, cluster: &Cluster, policy: &Policy) -> Vec<Option<(i64, u32)>> {
    let schedule = simulate(workload, cluster, policy).unwrap();
    let of = |job: usize| {
        let node = schedule.pieces_of(schedule.last_segment(job)?)[0].node;
        Some((schedule.start_ms(job)? / 1000, node))
    };
    (0..workload.len()).map(of).collect()
}

/// The contract's example: a node of 8 GPUs with 64 cores. 2 GPUs with 24 cores each leave 16 cores; 3 with 5 each start; 1 with 1 starts, and another with 1 waits although 2 GPUs are free.
#[test]
fn free_gpus_without_a_core_stay_free() {
    let workload = jobs(&[(0, 100, (2, 24, 1)), (1, 50, (3, 5, 1)), (2, 100, (1, 1, 1)), (3, 10, (1, 1, 1))]);
    let found = starts(&workload, &nodes(1, 8, 64, 1000), &Policy::default());
    assert_eq!(found, [Some((0, 0)), Some((1, 0)), Some((2, 0)), Some((51, 0))]);
}

/// Two nodes of 8 GPUs with 32 cores: 4 GPUs with 8 cores each take all cores of a node, so 8 GPUs are two nodes' whatever is free; 8 GPUs with 5 cores each fit on no node, and are rejected, but not under spread.
#[test]
fn what_no_node_holds_is_rejected_unless_it_may_spread() {
    let workload = jobs(&[(0, 10, (4, 8, 1)), (0, 10, (4, 8, 1)), (1, 10, (8, 5, 1)), (2, 10, (8, 4, 1))]);
    let cluster = nodes(2, 8, 32, 1000);
    assert_eq!(starts(&workload, &cluster, &Policy::default()), [Some((0, 0)), Some((0, 1)), None, Some((10, 0))]);
    let spread = Policy { placement: Placement::Spread, ..Policy::default() };
    // 2 GPUs with 8 cores of each node at first; 8 with 5 are 4 and 4 (20 of 32 cores), then 8 with 4 (12 cores are 3 of each) wait for them.
    assert_eq!(starts(&workload, &cluster, &spread), [Some((0, 0)), Some((0, 0)), Some((10, 0)), Some((20, 0))]);
}

/// EASY: the head asks for the memory that a running job gives back at 100 s. A job of one GPU that takes a little of it and would run on until 150 s waits; one without memory starts.
#[test]
fn memory_is_reserved_as_gpus_are() {
    let rows = [(0, 100, (1, 0, 600)), (1, 10, (2, 0, 400)), (2, 148, (1, 0, 250)), (3, 200, (1, 0, 0))];
    let policy = Policy { scan: Scan::Easy, estimate: Estimate::True, ..Policy::default() };
    let found = starts(&jobs(&rows), &nodes(1, 8, 64, 1000), &policy);
    assert_eq!(found, [Some((0, 0)), Some((100, 0)), Some((110, 0)), Some((3, 0))]);
    // Conservative alike: the second job's reservation from 100 to 110 s leaves 200 MiB.
    let policy = Policy { scan: Scan::Conservative, ..policy };
    assert_eq!(starts(&jobs(&rows), &nodes(1, 8, 64, 1000), &policy), found);
}

/// Shortest remaining time first: a short job stops a long one for its cores, though GPUs are free.
#[test]
fn jobs_stop_others_for_their_cores() {
    let workload = jobs(&[(0, 1000, (1, 60, 1)), (10, 20, (1, 10, 1))]);
    let preemption = Preemption::Checkpoint { one_ms: 0, node_ms: 0, many_ms: 0 };
    let policy = Policy { order: Order::Srtf, preemption, ..Policy::default() };
    let schedule = simulate(&workload, &nodes(1, 8, 64, 1000), &policy).unwrap();
    assert_eq!((schedule.start_ms(1), schedule.preemptions[0], schedule.end_ms(0)), (Some(10_000), 1, Some(1_020_000)));
}

/// Parts of a GPU take what they ask for as a whole: three of 0.25 with 20 cores each leave 4 of 64, and the fourth waits.
#[test]
fn parts_of_a_gpu_take_cores() {
    let mut workload = Workload::default();
    let host = HostNeed { cores_milli: 20_000, memory_mib: 0 };
    (0..4).for_each(|_| workload.push(0, 10_000, Shape { host, ..Shape::part(250) }));
    let found = starts(&workload, &nodes(1, 8, 64, 1000), &Policy::default());
    assert_eq!(found, [Some((0, 0)), Some((0, 0)), Some((0, 0)), Some((10, 0))]);
}

/// Fragmentation: of 9 jobs of 1 GPU with 2 cores and one of 4 GPUs none runs any more; node 0 has 2 of 4 GPUs and 6 of 8 cores free, beside a job of 2 GPUs with 2 cores, and node 1 all. A job of 1 GPU with 5 cores comes. GPUs alone: on node 0
/// the waste grows by 1 for the job of 2 GPUs and falls by 1 for that of 4, and on node 1 it grows by 3 for that of 4; so it goes to node 0. With cores it would leave 1 core there beside 1 GPU, so that the waste grows by 9 more for the most
/// frequent and by 1 for its like; on node 1 it grows by 3 more for its like. So it goes to node 1, where best fit, which sees free GPUs alone, does not.
#[test]
fn fragmentation_counts_gpus_without_cores() {
    let mut rows = vec![(0, 1, (1, 2, 1)); 9];
    rows.extend([(0, 1, (4, 0, 1)), (10, 1000, (2, 1, 1)), (20, 1000, (1, 5, 1))]);
    let last = |placement: Placement, cores: u32| {
        let policy = Policy { placement, ..Policy::default() };
        let found = starts(&jobs(&rows), &nodes(2, 4, cores, 1000), &policy);
        assert_eq!(found[10], Some((10, 0)));
        found[11]
    };
    assert_eq!(last(Placement::Fragmentation, 8), Some((20, 1)));
    assert_eq!(last(Placement::BestFit, 8), Some((20, 0)));
    assert_eq!(last(Placement::Fragmentation, 1000), Some((20, 0)));
}
