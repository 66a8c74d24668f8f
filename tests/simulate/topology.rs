//! Jobs that ask for blocks and racks, in the engine against the naive reference: under every scan that knows them, Kueue's admission with those whom it stops among them, on clusters that shrink and fail.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tracecast_planner::sim::{Cluster, Nearness, Policy, Schedule, Topology, TopologyRequest, Workload, simulate};
use tracecast_tests::reference::naive;

use super::naive::fates;
use super::{cases, kai, kueue, volcano};

/// Cases that are always run; twenty times as many with `TRACECAST_FULL=1`.
const CASES: u64 = 1_500;

/// Blocks and racks for all nodes but some, in order or in none.
fn topology(random: &mut ChaCha8Rng, nodes: u32) -> Topology {
    let levels = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    match random.random_range(0..3) {
        0 => Topology::regular(levels(&["rack"]), &[random.random_range(1..=4)], nodes),
        1 => {
            let sizes = [random.random_range(1..=3), random.random_range(1..=3)];
            Topology::regular(levels(&["block", "rack"]), &sizes, nodes)
        }
        _ => {
            let lies = |random: &mut ChaCha8Rng| {
                let (block, rack) = (random.random_range(0..3), random.random_range(0..3));
                random.random_bool(0.9).then(|| vec![block, 10 * block + rack])
            };
            Topology::new(levels(&["block", "rack"]), (0..nodes).map(|_| lies(random)).collect())
        }
    }
    .unwrap()
}

fn request(random: &mut ChaCha8Rng, topology: &Topology) -> TopologyRequest {
    let lowest = topology.node_level();
    let level = random.random_range(0..=lowest);
    let (request, widest) = match random.random_range(0..3) {
        0 => (TopologyRequest::required(level), level),
        1 => (TopologyRequest::preferred(level), level),
        _ => (TopologyRequest::unconstrained(), 0),
    };
    if random.random_bool(0.3) {
        return request.sliced(random.random_range(widest..=lowest), random.random_range(1..=3));
    }
    request
}

/// A case of others with a topology, and with requests for most of its jobs; valid by construction.
pub(crate) fn asking(
    (mut workload, mut cluster, policy): (Workload, Cluster, Policy),
    seed: u64,
) -> (Workload, Cluster, Policy) {
    let mut random = ChaCha8Rng::seed_from_u64(seed ^ 0x7461_7300);
    // More and larger jobs of several pods, on more nodes, or few would lie in several domains.
    let factor = random.random_range(1..=4);
    for (_, nodes) in cluster.pools.iter_mut().flat_map(|pool| &mut pool.groups).flat_map(|group| &mut group.sizes) {
        *nodes *= factor;
    }
    let topology = topology(&mut random, cluster.most_nodes());
    let many_pods = random.random_bool(0.7);
    for shape in workload.shapes.iter_mut().filter(|shape| shape.milli == 0) {
        if many_pods && shape.nodes == 0 && random.random_bool(0.6) {
            shape.nodes = random.random_range(1..=6);
            shape.gpus = u32::from(shape.nodes) * [1, 2, 4, 4, 8][random.random_range(0..5)];
            shape.gpus -= u32::from(shape.nodes > 1 && shape.gpus > u32::from(shape.nodes) && random.random_bool(0.2));
        }
        if random.random_bool(0.8) {
            shape.request = Some(request(&mut random, &topology));
        }
    }
    cluster.topology = Some(topology);
    (workload, cluster, policy)
}

/// Starts on several nodes of jobs that require one domain; each must lie in one.
fn within(workload: &Workload, cluster: &Cluster, schedule: &Schedule) -> usize {
    let topology = cluster.topology.as_ref().unwrap();
    let mut many = 0;
    for segment in &schedule.segments {
        let pieces = schedule.pieces_of(segment);
        let request = workload.shape_of(segment.job as usize).request;
        if let Some(Nearness::Required(level)) = request.map(|request| request.nearness) {
            let first = topology.domain(pieces[0].node, level);
            assert!(first.is_some());
            assert!(pieces.iter().all(|piece| topology.domain(piece.node, level) == first), "{request:?} {pieces:?}");
            many += usize::from(pieces.len() > 1);
        }
    }
    many
}

fn alike(count: u64, draw: impl Fn(u64) -> (Workload, Cluster, Policy)) {
    let count = cases::many(count);
    let (mut many, mut spread, mut preemptions, mut waited) = (0, 0, 0, 0);
    for seed in 0..count {
        let (workload, cluster, policy) = asking(draw(seed), seed);
        let schedule = simulate(&workload, &cluster, &policy).unwrap();
        let (found, expected) = (fates(&schedule), naive::replay(&workload, &cluster, &policy));
        for job in 0..workload.len() {
            assert_eq!(found[job], expected[job], "seed {seed}, job {job}, {policy:?}\n{workload:#?}\n{cluster:#?}");
            waited += usize::from(schedule.start_ms(job).is_some_and(|start| start > workload.submit_ms[job].max(0)));
        }
        many += within(&workload, &cluster, &schedule);
        spread += schedule.segments.iter().filter(|segment| segment.pieces > 1).count();
        preemptions += schedule.preemptions.iter().sum::<u32>();
    }
    println!(
        "{count} cases alike, {spread} starts on several nodes, {many} of jobs that require one domain, {waited} jobs waited, {preemptions} preemptions"
    );
    // Jobs lie on several nodes of one rack, queues form and jobs are stopped, or nothing was tested.
    let count = count as usize;
    assert!(many * 10 > count && spread * 2 > count && waited > count && preemptions as usize * 20 > count);
}

#[test]
fn thousands_of_small_cases_lie_alike_under_kueue() {
    alike(CASES, kueue::draw);
}

#[test]
fn thousands_of_small_cases_lie_alike_under_other_scans() {
    alike(CASES, cases::draw);
}

#[test]
fn kais_queues_are_alike_where_jobs_ask_for_racks() {
    alike(CASES / 2, kai::draw);
}

#[test]
fn volcanos_queues_are_alike_where_jobs_ask_for_racks() {
    alike(CASES / 2, volcano::draw);
}
