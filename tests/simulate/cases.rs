//! Small nasty replays drawn from a seed, over everything the simulator knows.

use std::ops::Range;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tracecast_planner::sim::{
    Cluster, Estimate, Group, Order, Outage, Placement, Policy, Pool, Preemption, Scan, Shape, Vc, Warm, Weights,
    Workload,
};

/// Returns the number of random cases to look at: `TRACECAST_CASES` if it is set, twenty times the usual number
/// where `TRACECAST_FULL=1` asks for the whole tier, else `usual`.
pub(crate) fn many(usual: u64) -> u64 {
    number("TRACECAST_CASES").unwrap_or(if tracecast_tests::is_full() { 20 * usual } else { usual })
}

/// Returns the seeds of the random cases to look at, from `TRACECAST_SEED` on.
pub(crate) fn seeds(usual: u64) -> Range<u64> {
    let first = number("TRACECAST_SEED").unwrap_or(0);
    first..first + many(usual)
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}

/// Everything for one replay; valid by construction.
pub(crate) fn draw(seed: u64) -> (Workload, Cluster, Policy) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let simple = random.random_bool(0.4);
    let guaranteed = random.random_bool(0.3);
    let cluster = cluster(&mut random, simple, guaranteed);
    let workload = workload(&mut random, &cluster, simple);
    let policy = loop {
        let policy = policy(&mut random);
        if policy.validate(&workload).is_ok() && policy.goes_with(&cluster).is_ok() {
            break policy;
        }
    };
    (workload, cluster, policy)
}

fn pick<T: Clone>(random: &mut ChaCha8Rng, from: &[T]) -> T {
    from[random.random_range(0..from.len())].clone()
}

/// Draws a moment that is likely to fall together with others, milliseconds.
fn moment(random: &mut ChaCha8Rng, below_s: i64) -> i64 {
    let every = pick(random, &[1, 10, 10, 30]);
    random.random_range(0..=below_s / every) * every * 1000
}

fn cluster(random: &mut ChaCha8Rng, simple: bool, guaranteed: bool) -> Cluster {
    let mut cluster = Cluster { gpu_types: vec!["a".into(), "b".into()], ..Cluster::default() };
    let pools = random.random_range(1..=2);
    for _ in 0..pools {
        let mut pool = Pool::default();
        for _ in 0..random.random_range(1..=if simple { 1 } else { 2 }) {
            let size = if simple { 8 } else { pick(random, &[1, 2, 4, 6, 8, 8, 16]) };
            let mut group = Group::fixed(random.random_range(1..=3), size);
            if !simple {
                group.gpu_type = pick(random, &[None, None, Some(0), Some(1)]);
                let mut at = -5_000;
                for _ in 0..random.random_range(0..4) {
                    at += 1000 + moment(random, 120);
                    let last = group.sizes.last().map_or(0, |(from, _)| *from);
                    if at > last {
                        group.sizes.push((at, random.random_range(0..=4)));
                    }
                }
            }
            pool.groups.push(group);
        }
        cluster.pools.push(pool);
    }
    for at in 0..random.random_range(pools..=3) {
        let pool = if at < pools { at } else { random.random_range(0..pools) };
        let mut quota_milli = Vec::new();
        if !simple && random.random_bool(0.4) {
            quota_milli.push((0, random.random_range(0..20) * 1000));
            if random.random_bool(0.5) {
                quota_milli.push((1000 + moment(random, 200), random.random_range(0..20) * 500));
            }
        }
        let mut guarantee_milli = Vec::new();
        if guaranteed && random.random_bool(0.7) {
            guarantee_milli.push((0, random.random_range(0..20) * 500));
            if random.random_bool(0.3) {
                guarantee_milli.push((1000 + moment(random, 200), random.random_range(0..20) * 500));
            }
        }
        cluster.vcs.push(Vc { quota_milli, guarantee_milli, ..Vc::new(format!("vc{at}"), pool as u16) });
    }
    if !simple && random.random_bool(0.4) {
        for _ in 0..random.random_range(1..4) {
            let from_ms = moment(random, 200) - 10_000;
            let to_ms = from_ms + 1000 + moment(random, 60);
            cluster.outages.push(Outage { node: random.random_range(0..cluster.most_nodes()), from_ms, to_ms });
        }
    }
    cluster
}

fn workload(random: &mut ChaCha8Rng, cluster: &Cluster, simple: bool) -> Workload {
    let mut workload = Workload::default();
    let jobs = random.random_range(3..=30);
    let mut submits: Vec<i64> = (0..jobs).map(|_| moment(random, 150)).collect();
    submits.sort_unstable();
    let users = random.random_range(1..=3);
    let wants_types = random.random_bool(0.3);
    let wants_parts = random.random_bool(0.4);
    for submit in submits {
        let mut shape = Shape::whole(pick(random, &[1, 1, 1, 2, 2, 3, 4, 5, 8, 8, 12, 16]));
        if !simple {
            if wants_parts && random.random_bool(0.5) {
                shape = Shape::part(pick(random, &[100, 250, 300, 500, 500, 700, 999]));
            } else if random.random_bool(0.15) {
                shape.nodes = random.random_range(1..=shape.gpus.min(3)) as u16;
            }
            if wants_types && random.random_bool(0.5) {
                shape.gpu_type = Some(random.random_range(0..2));
            }
        }
        let run = pick(random, &[0, 1, 5, 10, 10, 20, 30, 50, 100, 200]) * 1000;
        workload.push(submit, run, shape);
        let near = |random: &mut ChaCha8Rng| {
            run * pick(random, &[0, 1, 1, 2, 3]) / pick(random, &[1, 1, 2]) + pick(random, &[0, 0, 1000])
        };
        *workload.requested_ms.last_mut().unwrap() = if random.random_bool(0.7) { Some(near(random)) } else { None };
        *workload.predicted_s.last_mut().unwrap() =
            if random.random_bool(0.7) { Some(near(random) as f64 / 1000.0) } else { None };
        *workload.vc.last_mut().unwrap() = random.random_range(0..cluster.vcs.len()) as u16;
        *workload.user.last_mut().unwrap() = random.random_range(0..users);
        workload.score.push(f64::from(random.random_range(0..4)) / 3.0);
    }
    workload.users = (0..users).map(|user| format!("u{user}")).collect();
    workload.gpu_types.clone_from(&cluster.gpu_types);
    if random.random_bool(0.3) {
        workload.once = (0..jobs as u32).filter(|_| random.random_bool(0.3)).collect();
    }
    workload.history_gpu_s = (0..40).map(|_| f64::from(random.random_range(1..2000))).collect();
    if !simple && random.random_bool(0.3) {
        let early = random.random_range(1..=jobs.min(4));
        for job in 0..early {
            workload.submit_ms[job] = -1000 * (early - job) as i64;
            if random.random_bool(0.7) {
                workload.warm.push(Warm { job: job as u32, start_ms: workload.submit_ms[job] });
            }
        }
    }
    workload
}

fn policy(random: &mut ChaCha8Rng) -> Policy {
    let hour = 3_600_000;
    let weights = Weights {
        age: 1000.0,
        max_age_ms: pick(random, &[60_000, hour]),
        fair_share: pick(random, &[0.0, 500.0]),
        size: pick(random, &[0.0, 100.0]),
        qos: 0.0,
        favor_small: random.random_bool(0.5),
        half_life_ms: 100_000,
    };
    let orders = [
        Order::Fifo,
        Order::FewestGpus,
        Order::Sjf,
        Order::Ljf,
        Order::Srtf,
        Order::Qssf,
        Order::Aged(20_000),
        Order::Alike(pick(random, &[0.0, 0.5, 2.0])),
        Order::Las,
        Order::Tiresias(vec![50.0, 200.0]),
        Order::Gittins,
        Order::Wfp3,
        Order::F1,
        Order::Unicef,
        Order::Multifactor(weights),
        Order::FairShare(100_000),
        Order::LongTerm,
        Order::FinishTime,
        Order::Score,
    ];
    let placements = [
        Placement::Consolidate,
        Placement::FirstFit,
        Placement::BestFit,
        Placement::WorstFit,
        Placement::Spread,
        Placement::Random,
        Placement::Fragmentation,
        Placement::Buddy,
        Placement::Locality(20_000),
    ];
    Policy {
        order: pick(random, &orders),
        scan: pick(random, &[Scan::Strict, Scan::Skip, Scan::Easy, Scan::Conservative]),
        placement: pick(random, &placements),
        preemption: pick(
            random,
            &[
                Preemption::Never,
                Preemption::Never,
                Preemption::Checkpoint { one_ms: 1000, node_ms: 5000, many_ms: 10_000 },
                Preemption::Requeue,
            ],
        ),
        estimate: pick(random, &[Estimate::True, Estimate::Requested, Estimate::Predicted]),
        interval_ms: pick(random, &[None, None, Some(10_000), Some(7_000)]),
        depth: pick(random, &[None, None, Some(1), Some(5)]),
        window_ms: pick(random, &[None, None, Some(30_000), Some(120_000)]),
        checkpoint_ms: pick(random, &[None, Some(15_000)]),
        tenants_are_vcs: random.random_bool(0.3),
        seed: random.random_range(0..100),
        ..Policy::default()
    }
}
