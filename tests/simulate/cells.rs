//! Guarantees in cells: the engine against the naive reference, and what a VC is promised, whatever the others do.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tracecast_planner::sim::{Cluster, Outcome, Placement, Policy, Preemption, Scan, Shape, Stop, Workload, simulate};
use tracecast_tests::reference::naive;

use super::cases;
use super::naive::fates;

/// Cases that are always run; twenty times as many with `TRACECAST_FULL=1`.
const CASES: u64 = 1_500;

/// A case of all that the simulator knows, with what does not go with cells left out, and cells in some of its pools, in most for as many GPUs as they have.
fn draw(seed: u64) -> (Workload, Cluster, Policy) {
    let (mut workload, mut cluster, mut policy) = cases::draw(seed);
    let mut random = ChaCha8Rng::seed_from_u64(seed ^ 0x00ce_115e);
    for shape in &mut workload.shapes {
        if shape.milli > 0 {
            *shape = Shape::whole(1);
        }
    }
    cluster.vcs.iter_mut().for_each(|vc| vc.guarantee_milli.clear());
    for (at, pool) in cluster.pools.iter_mut().enumerate() {
        if at > 0 && random.random_bool(0.3) {
            continue;
        }
        let whole = [2, 4, 8, 8, 16][random.random_range(0..5)];
        for group in &mut pool.groups {
            (group.gpus_per_node, group.gpu_type) = (whole, None);
            group.sizes.iter_mut().for_each(|(_, nodes)| *nodes = (*nodes).max(1));
        }
        let fewest: u32 =
            pool.groups.iter().map(|group| group.sizes.iter().map(|(_, nodes)| *nodes).min().unwrap_or(0)).sum();
        let mut left = fewest * whole;
        let members: Vec<usize> =
            (0..cluster.vcs.len()).filter(|vc| usize::from(cluster.vcs[*vc].pool) == at).collect();
        for vc in &members {
            cluster.vcs[*vc].quota_milli.clear();
        }
        for _ in 0..random.random_range(1..12) {
            let size = 1 << random.random_range(0..=whole.ilog2());
            let cells = &mut cluster.vcs[members[random.random_range(0..members.len())]].guarantee_cells;
            if size <= left {
                left -= size;
                match cells.iter_mut().find(|(known, _)| *known == size) {
                    Some((_, count)) => *count += 1,
                    None => cells.push((size, 1)),
                }
                cells.sort_unstable();
            }
        }
    }
    policy.scan = [Scan::Strict, Scan::Skip, Scan::Skip][random.random_range(0..3)];
    let checkpoint = Preemption::Checkpoint { one_ms: 1000, node_ms: 5000, many_ms: 10_000 };
    policy.preemption = if random.random_bool(0.7) { Preemption::Requeue } else { checkpoint };
    if policy.goes_with(&cluster).is_err() {
        // A pool without cells.
        policy.preemption = checkpoint;
    }
    if policy.validate(&workload).is_err() {
        policy.interval_ms = Some(10_000);
    }
    policy.validate(&workload).unwrap();
    policy.goes_with(&cluster).unwrap();
    (workload, cluster, policy)
}

#[test]
fn thousands_of_small_cases_are_replayed_alike() {
    let count = cases::many(CASES);
    let (mut segments, mut preemptions, mut otherwise) = (0, 0, 0);
    for seed in 0..count {
        let (workload, cluster, policy) = draw(seed);
        let schedule = simulate(&workload, &cluster, &policy).unwrap();
        let (found, expected) = (fates(&schedule), naive::replay(&workload, &cluster, &policy));
        for job in 0..workload.len() {
            assert_eq!(found[job], expected[job], "seed {seed}, job {job}, {policy:?}\n{workload:#?}\n{cluster:#?}");
        }
        segments += schedule.segments.len();
        preemptions += schedule.preemptions.iter().sum::<u32>();
        // The same promised in GPUs.
        let mut in_gpus = cluster.clone();
        for vc in &mut in_gpus.vcs {
            vc.guarantee_milli = vec![(0, 1000 * vc.cell_gpus())];
            vc.guarantee_cells.clear();
        }
        let other = simulate(&workload, &in_gpus, &policy).unwrap();
        otherwise += (0..workload.len()).filter(|job| schedule.start_ms(*job) != other.start_ms(*job)).count();
    }
    println!(
        "{count} cases, {segments} segments, {preemptions} preemptions, all alike; {otherwise} jobs start otherwise than with guarantees in GPUs"
    );
    assert!(preemptions > count as u32 / 4 && otherwise > count as usize / 4, "{preemptions} {otherwise}");
}

/// A VC that never asks for more cells of a size than it is promised never waits. Its jobs start
/// when they are submitted and are never stopped, whoever else is there, under any order and
/// placement.
#[test]
fn a_vc_within_its_cells_never_waits() {
    let (mut kept, mut waited) = (0, 0);
    for seed in 0..3_000 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        // Cells of a: of 1, 2, 4 and 8 GPUs; b and c are promised some of what is left.
        let own: Vec<u32> = (0..4).map(|_| random.random_range(0..3)).collect();
        let mut others = [[0u32; 4]; 2];
        for _ in 0..random.random_range(0..6) {
            others[random.random_range(0..2)][random.random_range(0..4)] += 1;
        }
        let gpus = |cells: &[u32]| -> u32 { cells.iter().enumerate().map(|(level, count)| count << level).sum() };
        let all = gpus(&own) + gpus(&others[0]) + gpus(&others[1]);
        if gpus(&own) == 0 {
            continue;
        }
        let nodes = all.div_ceil(8) + u32::from(random.random_bool(0.2));
        let mut cluster = Cluster::of_vcs(&[("a", nodes, 8), ("b", 0, 8), ("c", 0, 8)]).pooled();
        for (vc, cells) in cluster.vcs.iter_mut().zip([own.as_slice(), &others[0], &others[1]]) {
            let rising = (0u32..).zip(cells).filter(|(_, count)| **count > 0);
            vc.guarantee_cells = rising.map(|(level, count)| (1 << level, *count)).collect();
        }
        // Jobs of a: each in a cell of its own, until when each cell is in use.
        let mut until: Vec<Vec<i64>> = own.iter().map(|count| vec![i64::MIN; *count as usize]).collect();
        let mut list: Vec<(i64, i64, u16, u32)> = Vec::new();
        let mut now = 0;
        for _ in 0..random.random_range(5..40) {
            now += random.random_range(0..15);
            let run = random.random_range(0..60);
            let vc = random.random_range(0..3u16);
            let level = random.random_range(0..4usize);
            // A job needs the next power of two; two whole nodes need two cells.
            let gpus = [1, 2, if random.random_bool(0.5) { 3 } else { 4 }, random.random_range(5..=8)][level];
            let twice = level == 3 && random.random_bool(0.3);
            let free: Vec<usize> = (0..until[level].len()).filter(|at| until[level][*at] <= now).collect();
            let wants = 1 + usize::from(twice);
            if vc == 0 && free.len() < wants {
                continue;
            }
            if vc == 0 {
                free.iter().take(wants).for_each(|at| until[level][*at] = now + run);
            }
            list.push((now, run, vc, if twice { gpus + 8 } else { gpus }));
        }
        let mut workload = Workload::default();
        for (submit, run, vc, gpus) in list {
            workload.push(submit * 1000, run * 1000, Shape::whole(gpus));
            *workload.vc.last_mut().unwrap() = vc;
        }
        let (_, _, drawn) = cases::draw(seed);
        let scan = if random.random_bool(0.5) { Scan::Skip } else { Scan::Strict };
        let policy = Policy {
            order: drawn.order,
            placement: if random.random_bool(0.3) { Placement::WorstFit } else { drawn.placement },
            scan,
            preemption: Preemption::Requeue,
            ..Policy::default()
        };
        workload.score = vec![0.0; workload.len()];
        workload.history_gpu_s = (0..40).map(f64::from).collect();
        let schedule = simulate(&workload, &cluster, &policy).unwrap();
        for job in 0..workload.len() {
            if workload.vc[job] == 0 {
                let told = format!("seed {seed}, job {job}, {policy:?}\n{workload:#?}\n{cluster:#?}");
                assert_eq!(schedule.start_ms(job), Some(workload.submit_ms[job]), "{told}");
                assert_eq!(schedule.preemptions[job], 0, "{told}");
                kept += 1;
            } else if schedule.outcome[job] == Outcome::Finished {
                waited += usize::from(schedule.start_ms(job) > Some(workload.submit_ms[job]));
            }
        }
        assert!(schedule.segments.iter().all(|of| of.stop != Stop::Preempted || workload.vc[of.job as usize] != 0));
    }
    println!("{kept} jobs within their cells started at once, {waited} others waited");
    assert!(kept > 5_000 && waited > 5_000);
}
