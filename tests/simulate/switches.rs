//! Slurm's backfill on switches (topology/tree), in the engine against the naive reference: trees and forests of one to three levels, nodes on no switch, under limits and jobs that are stopped for others among them.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tracecast_planner::sim::{Cluster, Outcome, Policy, Preemption, Scan, Shape, Topology, Workload, simulate};
use tracecast_tests::reference::naive;

use super::naive::fates;
use super::{cases, limits};

/// Cases that are always run; twenty times as many with `TRACECAST_FULL=1`.
const CASES: u64 = 1_500;

/// Switches for all nodes but some, in order or in none.
fn switches(random: &mut ChaCha8Rng, nodes: u32) -> Topology {
    let names: &[&str] = [&["leaf"][..], &["spine", "leaf"], &["core", "spine", "leaf"]][random.random_range(0..3)];
    let levels: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    if random.random_bool(0.4) {
        let sizes: Vec<u32> = levels.iter().map(|_| random.random_range(1..=4)).collect();
        return Topology::regular(levels, &sizes, nodes).unwrap();
    }
    // Of one widest switch mostly, as networks are; some leaves hang on it beside spines.
    let (widest, uneven) = (if random.random_bool(0.7) { 1 } else { 3 }, random.random_bool(0.4));
    let lies = |random: &mut ChaCha8Rng| {
        let mut path = vec![format!("w{}", random.random_range(0..if levels.len() > 1 { widest } else { 4 }))];
        for _ in 1..levels.len() {
            path.push(format!("{}.{}", path[path.len() - 1], random.random_range(0..3)));
        }
        if uneven && path.len() > 1 && path[path.len() - 1].ends_with('0') {
            // It stands for the one above it, or is a network by itself.
            let (from, last) = (random.random_range(0..2), path.len() - 1);
            let name = format!("{}-{from}", path[last]);
            path[last.min(1 - from)..].fill(name);
        }
        random.random_bool(0.95).then_some(path)
    };
    let paths: Vec<Option<Vec<String>>> = (0..nodes).map(|_| lies(random)).collect();
    let lent: Vec<Option<Vec<&str>>> =
        paths.iter().map(|path| path.as_ref().map(|path| path.iter().map(String::as_str).collect())).collect();
    Topology::of_names(levels, &lent).unwrap()
}

/// A case of others under Slurm's backfill, on more nodes that hang on switches, and with more jobs of several nodes.
pub(super) fn draw(seed: u64) -> (Workload, Cluster, Policy) {
    let mut random = ChaCha8Rng::seed_from_u64(seed ^ 0x7377_6974);
    // Under limits jobs are stopped for others only where nodes are few.
    let limited = seed.is_multiple_of(3);
    let (mut workload, mut cluster, mut policy) = if limited { limits::draw(seed) } else { cases::draw(seed) };
    (policy.scan, policy.preemption) = (Scan::Slurm, Preemption::Never);
    workload.origin_ms = 1_600_000_000_000 + seed as i64 % 7 * 9_500;
    let factor = if limited { 1 } else { random.random_range(1..=4) };
    for (_, nodes) in cluster.pools.iter_mut().flat_map(|pool| &mut pool.groups).flat_map(|group| &mut group.sizes) {
        *nodes *= factor;
    }
    for shape in &mut workload.shapes {
        if shape.milli > 0 {
            *shape = Shape::whole(1);
        }
        if shape.nodes == 0 && random.random_bool(if limited { 0.2 } else { 0.6 }) {
            shape.nodes = random.random_range(1..=6);
            shape.gpus = u32::from(shape.nodes) * [1, 2, 4, 4, 8][random.random_range(0..5)];
        }
    }
    cluster.topology = Some(switches(&mut random, cluster.most_nodes()));
    (workload, cluster, policy)
}

#[test]
fn thousands_of_small_cases_hang_on_switches_alike() {
    let count = cases::many(CASES);
    let (mut spread, mut moved, mut waited, mut stopped, mut rejected) = (0, 0, 0, 0, 0);
    for seed in 0..count {
        let (workload, cluster, policy) = draw(seed);
        let schedule = simulate(&workload, &cluster, &policy).unwrap();
        let (found, expected) = (fates(&schedule), naive::replay(&workload, &cluster, &policy));
        let apart = Cluster { topology: cluster.topology.clone().map(Topology::unfollowed), ..cluster.clone() };
        let without = simulate(&workload, &apart, &policy).unwrap();
        let of_none = fates(&without);
        for job in 0..workload.len() {
            assert_eq!(found[job], expected[job], "seed {seed}, job {job}, {policy:?}\n{workload:#?}\n{cluster:#?}");
            waited += usize::from(schedule.start_ms(job).is_some_and(|start| start > workload.submit_ms[job].max(0)));
            moved += usize::from(found[job] != of_none[job]);
            let is_rejected = |outcome: &Outcome| *outcome == Outcome::Rejected;
            rejected += usize::from(is_rejected(&schedule.outcome[job]) && !is_rejected(&without.outcome[job]));
        }
        let plain = simulate(&workload, &Cluster { topology: None, ..cluster.clone() }, &policy).unwrap();
        assert_eq!(fates(&plain), of_none, "seed {seed}: switches that are not followed change nothing");
        spread += schedule.segments.iter().filter(|segment| segment.pieces > 1).count();
        stopped += schedule.preemptions.iter().sum::<u32>();
    }
    println!(
        "{count} cases alike, {spread} starts on several nodes, {moved} jobs run otherwise than without switches, {rejected} are rejected for them, {waited} jobs waited, {stopped} preemptions"
    );
    // Jobs lie on several nodes, elsewhere than without switches; queues form, and jobs are stopped, or nothing was tested.
    let count = count as usize;
    assert!(spread > count && moved * 2 > count && waited > count && rejected > 0 && stopped > 0);
}
