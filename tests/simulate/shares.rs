//! Shares of accounts and limits of usage: the engine against the naive reference, timelines worked out by hand, and what must not leak.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tracecast_planner::sim::limit::{Accounting, Algorithm, Association, Limits, Partition, Qos, Shares};
use tracecast_planner::sim::{Cluster, Order, Policy, Scan, Shape, Weights, Workload, simulate};
use tracecast_tests::reference::naive;

use super::limits;
use super::naive::fates;

/// Cases that are always run; `TRACECAST_CASES=300000` for a longer look.
const CASES: u64 = 6_000;

fn pick<T: Clone>(random: &mut ChaCha8Rng, from: &[T]) -> T {
    from[random.random_range(0..from.len())].clone()
}

/// A replay of [`limits::draw`] with a tree of accounts that has shares, and limits of usage.
fn draw(seed: u64) -> (Workload, Cluster, Policy) {
    let (mut workload, mut cluster, mut policy) = limits::draw(seed ^ 0x7368_6172);
    let mut random = ChaCha8Rng::seed_from_u64(seed ^ 0x7472_6565);
    let before = cluster.limits.take().unwrap();
    // So that jobs wait for their turn, and not for limits alone.
    let lenient = random.random_bool(0.6);
    let mut qos = before.qos().to_vec();
    for of in &mut qos {
        if lenient {
            *of = Qos { preempts: of.preempts.clone(), stopped: of.stopped, priority: of.priority, ..Qos::default() };
        }
        of.used_milli = random.random_bool(0.2).then(|| random.random_range(0..40) * 250);
        of.used_wall_ms = random.random_bool(0.1).then(|| random.random_range(0..300) * 1000);
        of.keeps_usage = random.random_bool(0.3);
        of.account_milli = random.random_bool(0.15).then(|| random.random_range(0..=24) * 500);
        of.account_jobs = random.random_bool(0.15).then(|| random.random_range(0..=4));
    }
    let mut tree = limits::accounts(&mut random, !lenient);
    for at in 0..tree.len() {
        if lenient {
            tree[at] = Association { parent: tree[at].parent, ..Association::default() };
        }
        tree[at].parent = (at > 0).then(|| tree[at].parent.unwrap_or(0));
    }
    let above: Vec<u32> = tree.iter().filter_map(|of| of.parent).collect();
    for (at, of) in (0..).zip(&mut tree) {
        of.is_user = at > 0 && !above.contains(&at) && random.random_bool(0.9);
    }
    for _ in 0..random.random_range(0..6) {
        let accounts: Vec<u32> = (0..).zip(&tree).filter(|(_, of)| !of.is_user).map(|(at, _)| at).collect();
        tree.push(Association {
            parent: Some(pick(&mut random, &accounts)),
            is_user: random.random_bool(0.9),
            ..Association::default()
        });
    }
    for of in &mut tree {
        of.shares =
            if random.random_bool(0.12) { Shares::Parent } else { Shares::Of(pick(&mut random, &[0, 1, 1, 1, 2, 3])) };
        of.used_milli = random.random_bool(0.1).then(|| random.random_range(0..40) * 250);
        of.used_wall_ms = random.random_bool(0.05).then(|| random.random_range(0..300) * 1000);
    }
    let weights = Weights {
        age: pick(&mut random, &[0.0, 1.0, 20.0]),
        max_age_ms: 300_000,
        fair_share: pick(&mut random, &[10.0, 100.0]),
        size: pick(&mut random, &[0.0, 5.0]),
        half_life_ms: pick(&mut random, &[Weights::default().half_life_ms, 70_000]),
        ..Weights::default()
    };
    let from_limits = random.random_bool(0.2);
    let accounting = Accounting {
        algorithm: pick(&mut random, &[Algorithm::Tree, Algorithm::Tree, Algorithm::Classic]),
        half_life_ms: pick(&mut random, &[None, Some(30_000), Some(100_000)]),
        period_ms: pick(&mut random, &[1, 10_000, 30_000, 60_000]),
        first_ms: pick(&mut random, &[0, 0, 7_000, -3_000, 100_000]),
        dampening: pick(&mut random, &[1, 3]),
        safe: random.random_bool(0.3),
        weights: from_limits.then_some(weights),
    };
    let count = tree.len() as u32;
    let limits = Limits::new(qos, before.partitions().to_vec()).unwrap().requeued_after(before.requeue_ms());
    cluster.limits = Some(limits.under(tree).unwrap().accounted(accounting).unwrap());
    workload.association =
        (0..workload.len()).map(|_| random.random_bool(0.95).then(|| random.random_range(0..count))).collect();
    if random.random_bool(0.3) {
        workload.charge = (0..workload.len()).map(|_| random.random_range(0..9) * 500).collect();
    }
    if random.random_bool(0.85) {
        let none = Weights { half_life_ms: weights.half_life_ms, ..Weights::default() };
        policy.order = Order::Multifactor(if from_limits { none } else { weights });
    }
    // Usage decays for as long as jobs wait: not too many looks.
    policy.interval_ms = pick(&mut random, &[None, policy.interval_ms.map(|interval| interval.max(10_000)), Some(20_000)]);
    if policy.validate(&workload).is_err() || policy.goes_with(&cluster).is_err() {
        policy.preemption = tracecast_planner::sim::Preemption::Never;
    }
    policy.validate(&workload).unwrap();
    policy.goes_with(&cluster).unwrap();
    (workload, cluster, policy)
}

#[test]
fn thousands_of_small_cases_are_replayed_alike() {
    let count = std::env::var("TRACECAST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(CASES);
    let (mut by_tree, mut by_usage, mut after_all) = (0, 0, 0);
    for seed in 0..count {
        let (workload, cluster, policy) = draw(seed);
        let schedule = simulate(&workload, &cluster, &policy).unwrap();
        let (found, expected) = (fates(&schedule), naive::replay(&workload, &cluster, &policy));
        for job in 0..workload.len() {
            assert_eq!(found[job], expected[job], "seed {seed}, job {job}, {policy:?}\n{workload:#?}\n{cluster:#?}");
        }
        let differ = |limits: Limits| {
            let other = Cluster { limits: Some(limits), ..cluster.clone() };
            let other = simulate(&workload, &other, &policy).unwrap();
            (0..workload.len()).filter(|job| schedule.start_ms(*job) != other.start_ms(*job)).count()
        };
        let limits = cluster.limits.as_ref().unwrap();
        let rebuilt = |qos: Vec<Qos>, tree: Vec<Association>| {
            let new = Limits::new(qos, limits.partitions().to_vec()).unwrap().requeued_after(limits.requeue_ms());
            new.under(tree).unwrap().accounted(*limits.accounting()).unwrap()
        };
        let mut tree = limits.associations().to_vec();
        tree.iter_mut().for_each(|of| of.shares = Shares::default());
        by_tree += differ(rebuilt(limits.qos().to_vec(), tree));
        let (mut qos, mut tree) = (limits.qos().to_vec(), limits.associations().to_vec());
        qos.iter_mut().for_each(|of| (of.used_milli, of.used_wall_ms) = (None, None));
        tree.iter_mut().for_each(|of| (of.used_milli, of.used_wall_ms) = (None, None));
        by_usage += differ(rebuilt(qos, tree));
        // Someone who started when all others had ended, long after the last submission: usage had decayed.
        let last = workload.submit_ms.iter().max().copied().unwrap_or(0);
        after_all += (0..workload.len())
            .filter_map(|job| schedule.start_ms(job))
            .filter(|start| {
                *start > last && schedule.segments.iter().all(|of| of.start_ms >= *start || of.end_ms < start - 20_000)
            })
            .count();
    }
    println!(
        "{count} cases, all alike: {by_tree} jobs start otherwise than with equal shares, {by_usage} than without limits of usage, {after_all} start on an empty cluster as usage has decayed"
    );
    assert!(by_tree > count as usize / 4 && by_usage > count as usize / 2 && after_all > count as usize / 100);
}
