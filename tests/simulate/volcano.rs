//! Volcano's queues in the engine against the naive reference: both plugins, trees of queues, guarantees, capabilities, weights and priorities, every action that stops jobs, and every order of jobs, on clusters that shrink and fail; and
//! what must hold of every replay.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tracecast_planner::sim::volcano::{
    Eviction, JobOrder, Plugin, ReclaimFrom, VolcanoQueue, VolcanoQueues, VolcanoRules,
};
use tracecast_planner::sim::{Cluster, Order, Outcome, Placement, Policy, Scan, Schedule, Workload, simulate};

use super::cases;
use super::kueue::{self, pick};
use super::naive::fates;

/// Cases that are always run; twenty times as many with `TRACECAST_FULL=1`.
const CASES: u64 = 2_000;

/// A case in Volcano's queues; valid by construction.
pub(super) fn draw(seed: u64) -> (Workload, Cluster, Policy) {
    let mut random = ChaCha8Rng::seed_from_u64(seed ^ 0x766f_6c63);
    let (mut workload, mut cluster, mut policy, leaves) = kueue::queued(&mut random, seed);
    if random.random_bool(0.7) {
        let classes = pick(&mut random, &[&[0] as &[i32], &[0, 1], &[0, 0, 5], &[-1, 0, 1, 2]]);
        workload.priority = (0..workload.len()).map(|_| pick(&mut random, classes)).collect();
    }
    kueue::smaller(&mut random, &mut workload);
    cluster.volcano = Some(queues(&mut random, leaves));
    policy.scan = Scan::Volcano;
    policy.preemption = kueue::preemption(&mut random);
    // Often an order that is fixed: then lines are kept from one session to the next.
    if random.random_bool(0.6) {
        policy.order = pick(&mut random, &[Order::Fifo, Order::FewestGpus, Order::Sjf]);
        if matches!(policy.placement, Placement::Locality(_)) {
            policy.placement = Placement::Consolidate;
        }
    }
    kueue::checked(workload, cluster, policy)
}

fn queues(random: &mut ChaCha8Rng, leaves: usize) -> VolcanoQueues {
    let plugin = pick(random, &[Plugin::Proportion, Plugin::Capacity]);
    let above: usize = if plugin == Plugin::Capacity { random.random_range(0..=3) } else { 0 };
    let unit = if random.random_bool(0.2) { 500 } else { 1000 };
    let most = if random.random_bool(0.3) { 24 } else { 8 };
    let (guarded, bounded) = (random.random_bool(0.4), random.random_bool(0.5));
    let prioritised = random.random_bool(0.4);
    let mut queues = Vec::new();
    for at in 0..leaves + above {
        // A queue's parent is one after the leaves and, of those above, one before it.
        let parent = if at < leaves {
            (above > 0 && random.random_bool(0.8)).then(|| leaves + random.random_range(0..above))
        } else {
            (at > leaves && random.random_bool(0.6)).then(|| random.random_range(leaves..at))
        };
        let capability = (bounded && random.random_bool(0.5)).then(|| random.random_range(0..=16) * unit);
        let top = capability.unwrap_or(u64::MAX);
        let deserved = (!random.random_bool(0.15)).then(|| (random.random_range(0..=most) * unit).min(top));
        let guarantee = if guarded && random.random_bool(0.5) { random.random_range(0..=4) * unit } else { 0 };
        queues.push(VolcanoQueue {
            name: format!("queue{at}"),
            parent: parent.map(|parent| parent as u16),
            weight: random.random_range(1..=4),
            deserved,
            guarantee: guarantee.min(deserved.unwrap_or(top)).min(top),
            capability,
            reclaimable: !random.random_bool(0.15),
            priority: if prioritised { random.random_range(-1..=1) } else { 0 },
            created: random.random_range(0..3),
        });
    }
    let (priority, drf) = (JobOrder::Priority, JobOrder::Drf);
    let orders: &[&[JobOrder]] = &[&[priority, drf], &[priority, drf], &[drf, priority], &[priority], &[drf], &[]];
    let (over, any) = (Eviction::Reclaim(ReclaimFrom::Over), Eviction::Reclaim(ReclaimFrom::Any));
    let preempt = Eviction::Preempt;
    let evictions: &[&[Eviction]] = &[
        &[],
        &[over],
        &[over],
        &[preempt],
        &[over, preempt],
        &[preempt, over],
        &[over, preempt],
        &[any],
        &[any, preempt],
    ];
    let rules =
        VolcanoRules { plugin, order: pick(random, orders).to_vec(), evictions: pick(random, evictions).to_vec() };
    VolcanoQueues::new(queues, leaves, rules).unwrap()
}

/// A case in a few lines.
fn told(workload: &Workload, cluster: &Cluster, policy: &Policy) -> String {
    let tree = cluster.volcano.as_ref().unwrap();
    let queues: Vec<String> = tree.queues().iter().map(|queue| format!("{queue:?}")).collect();
    let jobs = kueue::told_jobs(workload);
    format!("{policy:?}\n{:?} {:?}\n{:?}\n{}\n{jobs}", cluster.pools, cluster.outages, tree.rules(), queues.join("\n"))
}

/// GPUs held by a queue and those below it at the start of a segment.
fn held(workload: &Workload, tree: &VolcanoQueues, schedule: &Schedule, at: usize, queue: u16) -> u64 {
    let started = &schedule.segments[at];
    let runs =
        schedule.segments[..=at].iter().enumerate().filter(|(ix, other)| *ix == at || other.end_ms > started.start_ms);
    runs.map(|(_, other)| other.job)
        .filter(|job| tree.path(workload.vc[*job as usize]).any(|above| above == queue))
        .map(|job| workload.shape_of(job as usize).amount())
        .sum()
}

/// Checks that no queue holds more than its capability.
fn keeps_bounds(workload: &Workload, cluster: &Cluster, schedule: &Schedule) -> bool {
    let tree = cluster.volcano.as_ref().unwrap();
    (0..schedule.segments.len()).all(|at| {
        tree.path(workload.vc[schedule.segments[at].job as usize]).all(|queue| {
            let most = tree.queues()[usize::from(queue)].capability;
            most.is_none_or(|most| held(workload, tree, schedule, at, queue) <= most)
        })
    })
}

#[test]
fn thousands_of_small_cases_are_scheduled_alike() {
    let seeds = cases::seeds(CASES);
    let count = seeds.end - seeds.start;
    let (mut segments, mut rejected, mut differ, mut broken) = (0, 0, 0, 0);
    let mut stopped = [0u64; 2];
    for seed in seeds {
        let (workload, cluster, policy) = draw(seed);
        let Some(schedule) = kueue::alike(seed, (&workload, &cluster, &policy), &mut differ, told) else { continue };
        if !keeps_bounds(&workload, &cluster, &schedule) {
            broken += 1;
            println!("seed {seed}: a queue is over its capability");
        }
        segments += schedule.segments.len();
        let plugin = cluster.volcano.as_ref().unwrap().rules().plugin;
        stopped[usize::from(plugin == Plugin::Capacity)] +=
            schedule.preemptions.iter().map(|n| u64::from(*n)).sum::<u64>();
        rejected += schedule.outcome.iter().filter(|outcome| **outcome == Outcome::Rejected).count();
    }
    println!(
        "{count} cases, {differ} differ, {broken} over bounds, {segments} segments, {rejected} rejected, {} preemptions under proportion and {} under capacity",
        stopped[0], stopped[1]
    );
    assert_eq!((differ, broken), (0, 0));
    // Jobs are stopped under both plugins, or nothing was tested.
    assert!(count < 1000 || stopped.iter().all(|stopped| stopped * 50 > count));
}

#[test]
fn no_decision_depends_on_what_comes_after() {
    let preemptions = kueue::later_jobs_change_nothing(draw, -5..5);
    assert!(preemptions > 100, "{preemptions}");
}

/// Gangs that wait hold nothing, so `drf` changes no replay in which nobody is stopped.
#[test]
fn drf_orders_no_gangs_that_wait() {
    for seed in 0..1000 {
        let (workload, mut cluster, policy) = draw(seed);
        let tree = cluster.volcano.take().unwrap();
        let replay = |order: Vec<JobOrder>| {
            let rules = VolcanoRules { order, evictions: Vec::new(), ..tree.rules().clone() };
            let tree = VolcanoQueues::new(tree.queues().to_vec(), tree.leaves(), rules).unwrap();
            let cluster = Cluster { volcano: Some(tree), ..cluster.clone() };
            fates(&simulate(&workload, &cluster, &policy).unwrap())
        };
        assert_eq!(replay(vec![JobOrder::Priority, JobOrder::Drf]), replay(vec![JobOrder::Priority]), "seed {seed}");
    }
}
