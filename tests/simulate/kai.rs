//! KAI's queues in the engine against the naive reference: trees with quotas, limits, weights and priorities, firm jobs, minimum runtimes, saturation and usage of the
//! past, on clusters that shrink and fail; and what must hold of every replay.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tracecast_planner::sim::kai::{Hierarchy, KaiQueue, KaiRules, UsageRule, UsageWindow};
use tracecast_planner::sim::{Cluster, Outcome, Policy, Preemption, Scan, Schedule, Shape, Vc, Workload, simulate};

use super::cases;
use super::kueue::{self, pick};

/// Cases that are always run; twenty times as many with `TRACECAST_FULL=1`.
const CASES: u64 = 2_000;

/// A case in a tree of KAI's queues; valid by construction.
pub(super) fn draw(seed: u64) -> (Workload, Cluster, Policy) {
    let mut random = ChaCha8Rng::seed_from_u64(seed ^ 0x6b_6169);
    let (mut workload, mut cluster, mut policy, leaves) = kueue::queued(&mut random, seed);
    if random.random_bool(0.7) {
        let classes =
            pick(&mut random, &[&[50] as &[i32], &[50, 75], &[50, 50, 100], &[50, 75, 100, 125], &[1, 2, 3, 4]]);
        workload.priority = (0..workload.len()).map(|_| pick(&mut random, classes)).collect();
    }
    kueue::smaller(&mut random, &mut workload);
    cluster.kai = Some(tree(&mut random, leaves));
    policy.scan = Scan::Kai;
    policy.preemption = kueue::preemption(&mut random);
    kueue::checked(workload, cluster, policy)
}

fn tree(random: &mut ChaCha8Rng, leaves: usize) -> Hierarchy {
    let above: usize = random.random_range(0..=5);
    let halves = random.random_bool(0.2);
    let generous = random.random_bool(0.3);
    let prioritised = random.random_bool(0.4);
    let patient = random.random_bool(0.3);
    let mut queues: Vec<KaiQueue> = Vec::new();
    for at in 0..leaves + above {
        let unit = if halves { 500 } else { 1000 };
        let most = if generous { 24 } else { 8 };
        let is_leaf = at < leaves;
        // A queue's parent is one after the leaves and, of those above, one before it.
        let parent = if is_leaf {
            (above > 0 && random.random_bool(0.8)).then(|| leaves + random.random_range(0..above))
        } else {
            (at > leaves && random.random_bool(0.6)).then(|| random.random_range(leaves..at))
        };
        let least =
            |random: &mut ChaCha8Rng| (patient && random.random_bool(0.4)).then(|| random.random_range(0..=6) * 5000);
        queues.push(KaiQueue {
            name: format!("queue{at}"),
            parent: parent.map(|parent| parent as u16),
            quota: (!random.random_bool(0.1)).then(|| random.random_range(0..=most) * unit),
            limit: random.random_bool(0.3).then(|| random.random_range(0..=16) * unit),
            weight_milli: pick(random, &[0, 500, 1000, 1000, 1000, 2000, 3000]),
            priority: if prioritised { random.random_range(99..=101) } else { 100 },
            created: random.random_range(0..3),
            reclaim_min_ms: least(random),
            preempt_min_ms: least(random),
        });
    }
    let usage = random.random_bool(0.6).then(|| UsageRule {
        window: match random.random_range(0..3) {
            0 => UsageWindow::Tumbling {
                start_ms: random.random_range(-30..60) * 1000,
                size_ms: random.random_range(1..100) * 1000,
            },
            _ => UsageWindow::Sliding { size_ms: random.random_range(1..200) * 1000 },
        },
        half_life_ms: random.random_bool(0.5).then(|| random.random_range(1..60) * 1000),
        fetch_ms: pick(random, &[500, 1000, 5000, 7000, 60_000]),
    });
    let rules = KaiRules {
        k_milli: pick(random, &[0, 500, 1000, 1000, 2000]),
        usage,
        saturation_milli: pick(random, &[1000, 1000, 1200, 2000]),
        reclaim_min_ms: if patient { random.random_range(0..=3) * 10_000 } else { 0 },
        preempt_min_ms: if patient { random.random_range(0..=3) * 10_000 } else { 0 },
    };
    Hierarchy::new(queues, leaves, rules).unwrap()
}

/// A case in a few lines.
fn told(workload: &Workload, cluster: &Cluster, policy: &Policy) -> String {
    let jobs = kueue::told_jobs(workload);
    let tree = cluster.kai.as_ref().unwrap();
    let queues: Vec<String> = tree.queues().iter().map(|queue| format!("{queue:?}")).collect();
    format!(
        "{policy:?}\n{:?} {:?}\n{:?}\n{}\n{}",
        cluster.pools,
        cluster.outages,
        tree.rules(),
        queues.join("\n"),
        jobs
    )
}

/// GPUs held by a queue and those below it at the start of a segment, of the jobs for which `such`
/// holds.
fn held(
    workload: &Workload,
    tree: &Hierarchy,
    schedule: &Schedule,
    at: usize,
    queue: u16,
    such: impl Fn(u32) -> bool,
) -> u64 {
    let started = &schedule.segments[at];
    let runs =
        schedule.segments[..=at].iter().enumerate().filter(|(ix, other)| *ix == at || other.end_ms > started.start_ms);
    runs.map(|(_, other)| other.job)
        .filter(|job| such(*job) && tree.path(workload.vc[*job as usize]).any(|above| above == queue))
        .map(|job| workload.shape_of(job as usize).amount())
        .sum()
}

/// Checks that no queue holds more than its limit, nor more than its quota with firm jobs.
fn keeps_bounds(workload: &Workload, cluster: &Cluster, schedule: &Schedule) -> bool {
    let tree = cluster.kai.as_ref().unwrap();
    let is_firm = |job: u32| workload.priority.get(job as usize).is_some_and(|priority| *priority >= 100);
    (0..schedule.segments.len()).all(|at| {
        tree.path(workload.vc[schedule.segments[at].job as usize]).all(|queue| {
            let of = &tree.queues()[usize::from(queue)];
            of.limit.is_none_or(|limit| held(workload, tree, schedule, at, queue, |_| true) <= limit)
                && of.quota.is_none_or(|quota| held(workload, tree, schedule, at, queue, is_firm) <= quota)
        })
    })
}

#[test]
fn thousands_of_small_cases_are_scheduled_alike() {
    let seeds = cases::seeds(CASES);
    let count = seeds.end - seeds.start;
    let (mut segments, mut preemptions, mut timed, mut rejected, mut differ, mut broken) = (0, 0, 0, 0, 0, 0);
    for seed in seeds {
        let (workload, cluster, policy) = draw(seed);
        let Some(schedule) = kueue::alike(seed, (&workload, &cluster, &policy), &mut differ, told) else { continue };
        if !keeps_bounds(&workload, &cluster, &schedule) {
            broken += 1;
            println!("seed {seed}: a queue is over its bounds");
        }
        segments += schedule.segments.len();
        let stopped = schedule.preemptions.iter().sum::<u32>();
        preemptions += stopped;
        timed += u32::from(stopped > 0 && cluster.kai.as_ref().unwrap().rules().usage.is_some());
        rejected += schedule.outcome.iter().filter(|outcome| **outcome == Outcome::Rejected).count();
    }
    println!(
        "{count} cases, {differ} differ, {broken} over bounds, {segments} segments, {rejected} rejected, {preemptions} preemptions, {timed} cases of time-based share with preemptions"
    );
    assert_eq!((differ, broken), (0, 0));
    // Jobs are stopped, and usage counts, or nothing was tested.
    assert!(count < 1000 || u64::from(preemptions) * 10 > count && u64::from(timed) * 50 > count);
}

#[test]
fn no_decision_depends_on_what_comes_after() {
    assert!(kueue::later_jobs_change_nothing(draw, 0..150) > 100);
}

/// Queues that hold no more than their quotas lose nothing to others, on the level where they part.
#[test]
fn who_is_within_its_quota_is_never_reclaimed_from() {
    let mut stopped = 0;
    for seed in 0..3000 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let leaves = random.random_range(2..=4);
        let mut workload = Workload::default();
        let mut now = 0;
        for _ in 0..random.random_range(5..30) {
            now += random.random_range(0..20) * 1000;
            workload.push(now, random.random_range(1..100) * 1000, Shape::whole(random.random_range(1..=4)));
            *workload.vc.last_mut().unwrap() = random.random_range(0..leaves) as u16;
        }
        let mut cluster = Cluster::of_vcs(&[("all", 1, 8)]);
        cluster.vcs = (0..leaves).map(|at| Vc::new(format!("vc{at}"), 0)).collect();
        let built = tree(&mut random, leaves);
        // All at the top: the level where any two part is their own.
        let queues: Vec<KaiQueue> =
            built.queues()[..leaves].iter().map(|queue| KaiQueue { parent: None, ..queue.clone() }).collect();
        let tree = Hierarchy::new(queues, leaves, built.rules().clone()).unwrap();
        cluster.kai = Some(tree.clone());
        let policy = Policy { scan: Scan::Kai, preemption: Preemption::Requeue, ..Policy::default() };
        let schedule = simulate(&workload, &cluster, &policy).unwrap();
        for (at, segment) in schedule.segments.iter().enumerate() {
            if segment.stop != tracecast_planner::sim::Stop::Preempted {
                continue;
            }
            stopped += 1;
            // The most that the queue can have held when its job was stopped: with what started at this moment, and what was stopped at it.
            let leaf = workload.vc[segment.job as usize];
            let at_ms = segment.end_ms;
            let there = schedule.segments.iter().enumerate().filter(|(ix, other)| {
                *ix == at
                    || (other.start_ms <= at_ms && other.end_ms > at_ms)
                    || (other.start_ms < at_ms && other.end_ms == at_ms && other.stop == segment.stop)
            });
            let held: u64 = there
                .filter(|(_, other)| workload.vc[other.job as usize] == leaf)
                .map(|(_, other)| workload.shape_of(other.job as usize).amount())
                .sum();
            let quota = tree.queues()[usize::from(leaf)].quota;
            let limit = tree.queues()[usize::from(leaf)].limit;
            // (Where a limit lies below the quota, what is over the limit is over.)
            assert!(
                quota.is_none_or(|quota| held > quota.min(limit.unwrap_or(u64::MAX))),
                "seed {seed}, job {}",
                segment.job
            );
        }
    }
    assert!(stopped > 1000, "{stopped}");
}
