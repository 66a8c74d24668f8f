//! Kueue's admission in the engine against the naive reference: trees of cohorts, borrowing and lending limits, flavors, priorities, every rule
//! of who is stopped, and fair sharing, on clusters that shrink and fail.

use std::ops::Range;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tracecast_planner::sim::cohort::{
    Cohorts, FairPreemption, Flavor, Member, QueueRules, Queueing, Quota, Reclaim, Within,
};
use tracecast_planner::sim::{
    Cluster, Outcome, Placement, Policy, Pool, Preemption, Scan, Schedule, Vc, Workload, simulate,
};
use tracecast_tests::reference::naive::{self, Fate};

use super::cases;
use super::naive::fates;

/// Cases that are always run; twenty times as many with `TRACECAST_FULL=1`.
const CASES: u64 = 4_000;

pub(super) fn pick<T: Clone>(random: &mut ChaCha8Rng, from: &[T]) -> T {
    from[random.random_range(0..from.len())].clone()
}

/// A case of [`cases::draw`] with all its nodes in one pool, and its jobs in some queues.
pub(super) fn queued(random: &mut ChaCha8Rng, seed: u64) -> (Workload, Cluster, Policy, usize) {
    let (mut workload, mut cluster, policy) = cases::draw(seed);
    // Nodes are numbered over all pools, so that outages still name the same ones.
    let groups = cluster.pools.drain(..).flat_map(|pool| pool.groups).collect();
    cluster.pools = vec![Pool { groups }];
    let queues = random.random_range(1..=4);
    // What guarantees of VCs there were stays: it must not count.
    cluster.vcs.iter_mut().for_each(|vc| vc.pool = 0);
    for at in cluster.vcs.len()..queues {
        cluster.vcs.push(Vc::new(format!("more{at}"), 0));
    }
    cluster.vcs.truncate(queues);
    workload.vc.iter_mut().for_each(|vc| *vc = random.random_range(0..queues) as u16);
    (workload, cluster, policy, queues)
}

/// Smaller jobs, or most would be rejected.
pub(super) fn smaller(random: &mut ChaCha8Rng, workload: &mut Workload) {
    let divisor = pick(random, &[1, 2, 4, 4]);
    for shape in workload.shapes.iter_mut().filter(|shape| shape.nodes == 0) {
        shape.gpus = shape.gpus.div_ceil(divisor);
    }
}

/// Draws what becomes of a job that is stopped.
pub(super) fn preemption(random: &mut ChaCha8Rng) -> Preemption {
    pick(
        random,
        &[
            Preemption::Never,
            Preemption::Requeue,
            Preemption::Requeue,
            Preemption::Checkpoint { one_ms: 0, node_ms: 2000, many_ms: 10_000 },
            Preemption::Checkpoint { one_ms: 1000, node_ms: 5000, many_ms: 10_000 },
        ],
    )
}

/// The case, if it is valid.
pub(super) fn checked(workload: Workload, cluster: Cluster, policy: Policy) -> (Workload, Cluster, Policy) {
    workload.validate(cluster.vcs.len()).unwrap();
    cluster.validate().unwrap();
    policy.validate(&workload).unwrap();
    policy.goes_with(&cluster).unwrap();
    (workload, cluster, policy)
}

/// A case in queues with quotas; valid by construction.
pub(crate) fn draw(seed: u64) -> (Workload, Cluster, Policy) {
    let mut random = ChaCha8Rng::seed_from_u64(seed ^ 0x6b75_6575);
    let (mut workload, mut cluster, mut policy, queues) = queued(&mut random, seed);
    if random.random_bool(0.7) {
        let levels = random.random_range(1..=4);
        workload.priority = (0..workload.len()).map(|_| random.random_range(0..levels) - 1).collect();
    }
    smaller(&mut random, &mut workload);
    cluster.cohorts = Some(cohorts(&mut random, queues));
    policy.scan = Scan::Kueue;
    policy.preemption = preemption(&mut random);
    checked(workload, cluster, policy)
}

fn cohorts(random: &mut ChaCha8Rng, queues: usize) -> Cohorts {
    let types: &[Option<u16>] =
        pick(random, &[&[None, None, None] as &[_], &[Some(0), Some(1), None], &[None, Some(0), Some(1)]]);
    let count = pick(random, &[1, 1, 2, 2, 3]);
    let flavors: Vec<Flavor> =
        (0..count).map(|at| Flavor { name: format!("flavor{at}"), gpu_type: types[at] }).collect();
    let inner: usize = random.random_range(0..=4);
    let limits = random.random_bool(0.5);
    let halves = random.random_bool(0.2);
    let generous = random.random_bool(0.3);
    let quota = |random: &mut ChaCha8Rng, is_queue: bool| {
        let unit = if halves { 500 } else { 1000 };
        let most = if generous { 30 } else { 12 };
        let nominal = if is_queue || random.random_bool(0.4) {
            random.random_range(u64::from(is_queue)..=most) * unit
        } else {
            0
        };
        let limit =
            |random: &mut ChaCha8Rng| (limits && random.random_bool(0.4)).then(|| random.random_range(0..=8) * unit);
        Quota { nominal, borrowing_limit: limit(random), lending_limit: limit(random) }
    };
    let mut members = Vec::new();
    let mut rules = Vec::new();
    let weighted = random.random_bool(0.5);
    let same = random.random_bool(0.3);
    let weight =
        |random: &mut ChaCha8Rng| if weighted { pick(random, &[0, 500, 1000, 1000, 2000, 3000]) } else { 1000 };
    for at in 0..queues {
        let parent = if inner > 0 && random.random_bool(0.9) {
            Some((queues + random.random_range(0..inner)) as u16)
        } else {
            None
        };
        let quotas: Vec<Option<Quota>> =
            flavors.iter().map(|_| random.random_bool(0.9).then(|| quota(random, true))).collect();
        let mut tried: Vec<u16> = (0..count as u16).filter(|flavor| quotas[usize::from(*flavor)].is_some()).collect();
        if random.random_bool(0.5) {
            tried.reverse();
        }
        let own = QueueRules {
            strategy: pick(random, &[Queueing::Strict, Queueing::BestEffort, Queueing::BestEffort]),
            within: pick(random, &[Within::Never, Within::LowerPriority, Within::LowerOrNewerEqual]),
            reclaim: pick(random, &[Reclaim::Never, Reclaim::LowerPriority, Reclaim::Any, Reclaim::Any]),
            borrow_within: pick(random, &[None, None, Some(None), Some(Some(0)), Some(Some(1))]),
            next_before_borrowing: random.random_bool(0.4),
            next_before_preempting: random.random_bool(0.4),
            flavors: tried.clone(),
            usage_half_life_ms: pick(random, &[None, None, Some(1), Some(20_000), Some(3_600_000)]),
        };
        let first: Option<QueueRules> = rules.first().cloned().filter(|_| same);
        rules.push(first.map_or(own, |first| QueueRules { flavors: tried, ..first }));
        members.push(Member { name: format!("queue{at}"), parent, quotas, weight_milli: weight(random) });
    }
    for at in 0..inner {
        // A cohort's parent is one before it, so that there are no circles; at most three levels of them.
        let depth = |members: &[Member], mut node: usize| {
            let mut depth = 1;
            while let Some(parent) = members[node].parent {
                node = usize::from(parent);
                depth += 1;
            }
            depth
        };
        let parent = if at > 0 && random.random_bool(0.75) { Some(queues + random.random_range(0..at)) } else { None };
        let parent = parent.filter(|parent| depth(&members, *parent) < 3).map(|parent| parent as u16);
        let quotas = flavors.iter().map(|_| random.random_bool(0.6).then(|| quota(random, false))).collect();
        members.push(Member { name: format!("cohort{at}"), parent, quotas, weight_milli: weight(random) });
    }
    let fair = pick(
        random,
        &[None, None, Some(FairPreemption::Final), Some(FairPreemption::Initial), Some(FairPreemption::Both)],
    );
    Cohorts::new(flavors, members, rules, fair).unwrap()
}

/// Starts at which a queue held more than the quotas of all its flavors.
fn borrowed(workload: &Workload, cluster: &Cluster, schedule: &Schedule) -> usize {
    let members = cluster.cohorts.as_ref().unwrap().members();
    let nominal =
        |queue: u16| -> u64 { members[usize::from(queue)].quotas.iter().flatten().map(|quota| quota.nominal).sum() };
    let of = |job: u32| (workload.vc[job as usize], workload.shape_of(job as usize).amount());
    let beyond = |at: &usize| {
        let started = &schedule.segments[*at];
        let (queue, _) = of(started.job);
        let held = schedule.segments[..=*at].iter().enumerate();
        let held = held.filter(|(ix, other)| ix == at || other.end_ms > started.start_ms);
        let used: u64 =
            held.map(|(_, other)| of(other.job)).filter(|other| other.0 == queue).map(|other| other.1).sum();
        used > nominal(queue)
    };
    (0..schedule.segments.len()).filter(beyond).count()
}

/// The first moment at which engine and reference differ, and what they say of the jobs that differ then; `None` if they are alike.
pub(super) fn difference(workload: &Workload, cluster: &Cluster, policy: &Policy) -> Option<(i64, String)> {
    let found = match simulate(workload, cluster, policy) {
        Ok(schedule) => fates(&schedule),
        Err(error) => return Some((i64::MIN, format!("{error}"))),
    };
    let expected = naive::replay(workload, cluster, policy);
    let starts = |fate: &Fate| -> Vec<i64> { fate.segments.iter().map(|segment| segment.0).collect() };
    let jobs = (0..workload.len()).filter(|job| found[*job] != expected[*job]);
    jobs.map(|job| {
        let (a, b) = (starts(&found[job]), starts(&expected[job]));
        let alike = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
        let at = a.get(alike).into_iter().chain(b.get(alike)).min().copied().unwrap_or(i64::MAX);
        (at, format!("job {job}: {:?}\ninstead of {:?}", found[job], expected[job]))
    })
    .min()
}

/// Shrinks a case to as few jobs, outages and changes of size as still differ.
pub(super) fn shrunk(workload: &Workload, cluster: &Cluster, policy: &Policy) -> (Workload, Cluster) {
    let (mut workload, mut cluster) = (workload.clone(), cluster.clone());
    let differs = |workload: &Workload, cluster: &Cluster| difference(workload, cluster, policy).is_some();
    loop {
        let before = (workload.len(), cluster.outages.len());
        for at in (0..workload.len()).rev() {
            let jobs: Vec<u32> = (0..workload.len() as u32).filter(|job| *job as usize != at).collect();
            let fewer = workload.arranged(&jobs, jobs.iter().map(|job| workload.submit_ms[*job as usize]).collect());
            if differs(&fewer, &cluster) {
                workload = fewer;
            }
        }
        for at in (0..cluster.outages.len()).rev() {
            let mut fewer = cluster.clone();
            fewer.outages.remove(at);
            if differs(&workload, &fewer) {
                cluster = fewer;
            }
        }
        for group in 0..cluster.pools[0].groups.len() {
            while cluster.pools[0].groups[group].sizes.len() > 1 {
                let mut fewer = cluster.clone();
                fewer.pools[0].groups[group].sizes.pop();
                if fewer.outages.iter().any(|outage| outage.node >= fewer.most_nodes()) || !differs(&workload, &fewer) {
                    break;
                }
                cluster = fewer;
            }
        }
        if (workload.len(), cluster.outages.len()) == before {
            return (workload, cluster);
        }
    }
}

/// A case in the engine, and beside it in the reference; `differ` counts those that do not, of which the first four are shown by `told`, made smaller. No schedule if the engine makes none.
pub(super) fn alike(
    seed: u64,
    (workload, cluster, policy): (&Workload, &Cluster, &Policy),
    differ: &mut u64,
    told: impl Fn(&Workload, &Cluster, &Policy) -> String,
) -> Option<Schedule> {
    let schedule = match simulate(workload, cluster, policy) {
        Ok(schedule) => schedule,
        Err(error) => {
            println!("{seed} {error:?}");
            *differ += 1;
            return None;
        }
    };
    if fates(&schedule) != naive::replay(workload, cluster, policy) {
        *differ += 1;
        if *differ < 5 {
            let (workload, cluster) = shrunk(workload, cluster, policy);
            let (at, what) = difference(&workload, &cluster, policy).unwrap();
            println!("== seed {seed}, {} jobs, at {at}\n{what}\n{}", workload.len(), told(&workload, &cluster, policy));
        }
    }
    Some(schedule)
}

/// Checks that what happens after a moment changes nothing before it: later jobs may be anything,
/// of any queue, with a priority among `priorities`. Returns the number of preemptions.
pub(super) fn later_jobs_change_nothing(
    draw: impl Fn(u64) -> (Workload, Cluster, Policy),
    priorities: Range<i32>,
) -> u32 {
    let mut preemptions = 0;
    for seed in 0..2000 {
        let (workload, cluster, policy) = draw(seed);
        if policy.placement == Placement::Fragmentation {
            // It knows the shapes of all jobs.
            continue;
        }
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let moment = workload.submit_ms[random.random_range(0..workload.len())].max(1);
        let mut other = workload.clone();
        for job in (0..workload.len()).filter(|job| workload.submit_ms[*job] >= moment) {
            other.run_ms[job] *= random.random_range(0..4);
            other.vc[job] = random.random_range(0..cluster.vcs.len()) as u16;
            other.shape[job] = random.random_range(0..workload.shapes.len()) as u16;
            if let Some(priority) = other.priority.get_mut(job) {
                *priority = random.random_range(priorities.clone());
            }
        }
        let before = |workload: &Workload| {
            let schedule = simulate(workload, &cluster, &policy).unwrap();
            let stopped: u32 = schedule.preemptions.iter().sum();
            let early = schedule.segments.iter().filter(|segment| segment.start_ms < moment);
            let ends = |end_ms: i64| if end_ms < moment { end_ms } else { moment };
            let early: Vec<_> = early
                .map(|segment| {
                    (segment.job, segment.start_ms, ends(segment.end_ms), schedule.pieces_of(segment).to_vec())
                })
                .collect();
            (early, stopped)
        };
        let ((one, stopped), (two, _)) = (before(&workload), before(&other));
        assert_eq!(one, two, "seed {seed}, before {moment}");
        preemptions += stopped;
    }
    preemptions
}

/// The jobs of a case, a line for each.
pub(super) fn told_jobs(workload: &Workload) -> String {
    let job = |job: usize| {
        let warm = if workload.warm.iter().any(|warm| warm.job as usize == job) { " warm" } else { "" };
        let priority = workload.priority.get(job).copied().unwrap_or(0);
        let (submit, run) = (workload.submit_ms[job], workload.run_ms[job]);
        format!(
            "job {job}{warm}: {submit} runs {run}, queue {}, priority {priority}, {:?}",
            workload.vc[job],
            workload.shape_of(job)
        )
    };
    (0..workload.len()).map(job).collect::<Vec<String>>().join("\n")
}

/// A case in a few lines.
fn told(workload: &Workload, cluster: &Cluster, policy: &Policy) -> String {
    let jobs = told_jobs(workload);
    let cohorts = cluster.cohorts.as_ref().unwrap();
    let member = |at: usize| format!("{at}: {:?} {:?}", cohorts.members()[at], cohorts.rules().get(at));
    let members: Vec<String> = (0..cohorts.members().len()).map(member).collect();
    format!(
        "{policy:?}\n{:?} {:?}\n{:?} fair {:?}\n{}\n{}",
        cluster.pools,
        cluster.outages,
        cohorts.flavors(),
        cohorts.fair(),
        members.join("\n"),
        jobs
    )
}

#[test]
fn thousands_of_small_cases_are_admitted_alike() {
    let seeds = cases::seeds(CASES);
    let count = seeds.end - seeds.start;
    let (mut segments, mut preemptions, mut loans, mut fair, mut rejected, mut differ) = (0, 0, 0, 0, 0, 0);
    for seed in seeds {
        let (workload, cluster, policy) = draw(seed);
        let Some(schedule) = alike(seed, (&workload, &cluster, &policy), &mut differ, told) else { continue };
        segments += schedule.segments.len();
        let stopped = schedule.preemptions.iter().sum::<u32>();
        preemptions += stopped;
        fair += u32::from(stopped > 0 && cluster.cohorts.as_ref().unwrap().fair().is_some());
        loans += borrowed(&workload, &cluster, &schedule);
        rejected += schedule.outcome.iter().filter(|outcome| **outcome == Outcome::Rejected).count();
    }
    println!(
        "{count} cases, {differ} differ, {segments} segments, {rejected} rejected, {preemptions} preemptions, {loans} starts on borrowed GPUs, {fair} cases of \
         fair sharing with preemptions"
    );
    assert_eq!(differ, 0);
    // Jobs are stopped, GPUs borrowed and shared fairly, or nothing was tested.
    assert!(
        count < 1000
            || u64::from(preemptions) * 10 > count && loans as u64 * 10 > count && u64::from(fair) * 100 > count
    );
}
