//! Shares of accounts and limits of usage: the engine against the naive reference, timelines worked out by hand, and what must not leak.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tracecast_planner::sim::limit::{Accounting, Algorithm, Association, Fairshare, Limits, Partition, Qos};
use tracecast_planner::sim::{Cluster, Estimate, Order, Policy, Preemption, Weights, Workload, simulate};
use tracecast_tests::reference::naive;

use super::cases;
use super::limits::{self, Row, jobs, starts};
use super::naive::fates;

/// Cases that are always run; twenty times as many with `TRACECAST_FULL=1`.
const CASES: u64 = 2_000;

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
    for (at, of) in tree.iter_mut().enumerate() {
        let parent = (at > 0).then(|| of.parent.unwrap_or(0));
        *of = if lenient {
            Association { parent, ..Association::default() }
        } else {
            Association { parent, ..of.clone() }
        };
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
        of.shares = if random.random_bool(0.12) {
            Fairshare::Parent
        } else {
            Fairshare::Of(pick(&mut random, &[0, 1, 1, 1, 2, 3]))
        };
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
        // Jobs that get away uncharged stop each other a thousand times, until usage is too small a number for either program.
        charges_ends: policy.preemption != Preemption::Never
            || qos.iter().any(|of| !of.preempts.is_empty())
            || random.random_bool(0.6),
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
    policy.interval_ms =
        pick(&mut random, &[None, policy.interval_ms.map(|interval| interval.max(10_000)), Some(20_000)]);
    if policy.validate(&workload).is_err() || policy.goes_with(&cluster).is_err() {
        policy.preemption = Preemption::Never;
    }
    policy.validate(&workload).unwrap();
    policy.goes_with(&cluster).unwrap();
    (workload, cluster, policy)
}

#[test]
fn thousands_of_small_cases_are_replayed_alike() {
    let count = cases::many(CASES);
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
        tree.iter_mut().for_each(|of| of.shares = Fairshare::default());
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

/// Jobs that are submitted from some moment on change no start before it: whoever they are charged
/// to, and whatever they are charged.
#[test]
fn no_start_depends_on_who_comes_after() {
    let mut compared = 0;
    for seed in 0..1_500 {
        let (workload, cluster, policy) = draw(seed);
        // The number of users is known from the beginning where shares are theirs.
        let by_tree = matches!(policy.order, Order::Multifactor(_));
        if !by_tree || workload.len() < 3 || !workload.warm.is_empty() {
            continue;
        }
        let kept = workload.len() / 2;
        let from_ms = workload.submit_ms[kept];
        let kept: Vec<u32> = (0..kept as u32).collect();
        let submits = workload.submit_ms[..kept.len()].to_vec();
        let all = simulate(&workload, &cluster, &policy).unwrap();
        let early = simulate(&workload.arranged(&kept, submits), &cluster, &policy).unwrap();
        for job in 0..kept.len() {
            let before = |start: Option<i64>| start.filter(|start| *start < from_ms);
            assert_eq!(before(all.start_ms(job)), before(early.start_ms(job)), "seed {seed}, job {job}");
            compared += usize::from(before(all.start_ms(job)).is_some());
        }
    }
    println!("{compared} starts compared");
    assert!(compared > 1_500);
}

fn account(parent: Option<u32>, shares: u32) -> Association {
    Association { parent, shares: Fairshare::Of(shares), ..Association::default() }
}

fn user(parent: u32, shares: u32) -> Association {
    Association { is_user: true, ..account(Some(parent), shares) }
}

/// One node of 8 GPUs.
fn node(qos: &[Qos], tree: Vec<Association>, accounting: Accounting) -> Cluster {
    let limits = Limits::new(qos.to_vec(), vec![Partition::default()]).unwrap().under(tree).unwrap();
    Cluster { limits: Some(limits.accounted(accounting).unwrap()), ..Cluster::of_vcs(&[("all", 1, 8)]) }
}

/// Jobs, each with its association.
fn charged(rows: &[(Row, u32)]) -> Workload {
    let mut workload = jobs(&rows.iter().map(|(row, _)| *row).collect::<Vec<_>>());
    workload.association = rows.iter().map(|(_, association)| Some(*association)).collect();
    workload
}

const MINUTE_MS: i64 = 60_000;

/// Ada is of account a and bob of b; all jobs take 8 GPUs for 100 s. Ada's runs first. At 100 s the factors are those of 60 s: b has used nothing, so bob is first. At 200 s they are those of 180 s: a has used 800
/// GPU-seconds, b 640. With 3 shares of a and 1 of b, LF are 0.75/0.556 = 1.35 and 0.25/0.444 = 0.56, so ada's second comes before bob's, who asked earlier; with 1 and 3 they are 0.45 and 1.69, and bob's comes first. As users alone,
/// with equal shares, ada has had a little less, as what she had is older.
#[test]
fn an_account_goes_by_its_shares() {
    let row = |submit: i64, user: u32| (submit, 100, 8, user, None, 100);
    let workload = charged(&[(row(0, 0), 3), (row(3, 1), 4), (row(4, 1), 4), (row(5, 0), 3)]);
    let weights = Weights { fair_share: 1000.0, ..Weights::default() };
    let accounting =
        Accounting { half_life_ms: None, period_ms: MINUTE_MS, weights: Some(weights), ..Accounting::default() };
    let shared = |a: u32, b: u32| {
        let tree = vec![account(None, 1), account(Some(0), a), account(Some(0), b), user(1, 1), user(2, 1)];
        node(&[], tree, accounting)
    };
    let named = Policy { order: Order::Multifactor(weights), ..Policy::default() };
    // An order that names no weights has those of the limits.
    let bare = Policy { order: Order::Multifactor(Weights::default()), ..Policy::default() };
    let (ada_first, bob_first) = ([0, 100, 300, 200].map(Some), [0, 100, 200, 300].map(Some));
    for policy in [&named, &bare] {
        assert_eq!(starts(&workload, &shared(3, 1), policy), ada_first);
        assert_eq!(starts(&workload, &shared(1, 3), policy), bob_first);
    }
    let alone = Cluster { limits: None, ..shared(1, 3) };
    assert_eq!(starts(&workload, &alone, &named), ada_first);
    assert_eq!(starts(&workload, &alone, &bare), bob_first);
}

/// Ada and bob of one account. Ada's job runs to 50 s; her next was submitted before bob's. Factors of time 0 know of no usage, so hers starts; those of 50 s, or of 45 s, put bob first. If a job is charged nothing, nothing is known either.
#[test]
fn factors_hold_for_a_period() {
    let row = |submit: i64, user: u32| (submit, 50, 8, user, None, 50);
    let mut workload = charged(&[(row(0, 0), 1), (row(1, 0), 1), (row(2, 1), 2)]);
    let tree = vec![account(None, 1), user(0, 1), user(0, 1)];
    let weights = Weights { fair_share: 1.0, ..Weights::default() };
    let policy = Policy { order: Order::Multifactor(weights), ..Policy::default() };
    let of = |workload: &Workload, period_ms: i64, first_ms: i64| {
        let accounting = Accounting { period_ms, first_ms, ..Accounting::default() };
        starts(workload, &node(&[], tree.clone(), accounting), &policy)
    };
    assert_eq!(of(&workload, MINUTE_MS, 0), [0, 50, 100].map(Some));
    assert_eq!(of(&workload, 10_000, 0), [0, 100, 50].map(Some));
    assert_eq!(of(&workload, MINUTE_MS, 45_000), [0, 100, 50].map(Some));
    assert_eq!(of(&workload, MINUTE_MS, -15_000), [0, 100, 50].map(Some));
    workload.charge = vec![0, 0, 0];
    assert_eq!(of(&workload, 10_000, 0), [0, 50, 100].map(Some));
}

/// Ada's job runs to 50 s, cy's from then to 120 s, and ada's next was submitted before bob's. Reckoned at 55 s and 115 s, ada has had 50 s; but a Slurm that enforces no limits charges her nothing, as no reckoning came while her job ran, and
/// her next comes first. With a reckoning at 45 s it charges her 45 s.
#[test]
fn who_is_charged_at_reckonings_alone_may_get_away() {
    let row = |submit: i64, run: i64, user: u32| ((submit, run, 8, user, None, run), 1 + user);
    let workload = charged(&[row(0, 50, 0), row(1, 70, 2), row(2, 50, 0), row(3, 50, 1)]);
    let tree = vec![account(None, 1), user(0, 1), user(0, 1), user(0, 1)];
    let weights = Weights { fair_share: 1.0, ..Weights::default() };
    let policy = Policy { order: Order::Multifactor(weights), ..Policy::default() };
    let of = |charges_ends: bool, first_ms: i64| {
        let accounting = Accounting { period_ms: MINUTE_MS, first_ms, charges_ends, ..Accounting::default() };
        starts(&workload, &node(&[], tree.clone(), accounting), &policy)
    };
    let (bob_first, ada_first) = ([0, 50, 170, 120].map(Some), [0, 50, 120, 170].map(Some));
    assert_eq!([of(true, 55_000), of(false, 55_000), of(false, 45_000)], [bob_first, ada_first, bob_first]);
}

/// The worked number of the contract: 10 GPU-minutes, a half-life of 1 h. The third job waits until 65.06 min, and starts at the next look. Without looks, or decay, or under a QOS that keeps usage, it never does; without decay the
/// first has used all 10.0 at 5 min, so that the second does not start either.
#[test]
fn gpu_minutes_come_back_as_usage_decays() {
    let spent = Association { used_milli: Some(10_000), ..account(None, 1) };
    let row = |submit: i64, qos| ((submit, 300, 2, 0, qos, 600), 0);
    let workload = charged(&[row(0, None), row(300, None), row(610, None)]);
    let looking = Policy { interval_ms: Some(MINUTE_MS), ..Policy::default() };
    let hour = Accounting { half_life_ms: Some(60 * MINUTE_MS), ..Accounting::default() };
    let cluster = node(&[], vec![spent.clone()], hour);
    assert_eq!(starts(&workload, &cluster, &looking), [0, 300, 3960].map(Some));
    assert_eq!(starts(&workload, &cluster, &Policy::default()), [Some(0), Some(300), None]);
    let for_ever = node(&[], vec![spent], Accounting { half_life_ms: None, ..hour });
    assert_eq!(starts(&workload, &for_ever, &looking), [Some(0), None, None]);
    let (reason, of, limit) = refused(&for_ever, &workload);
    assert_eq!((reason, of.as_str(), limit), ("AssocGrpGRESMinutes", "", 10.0));
    // The same of a QOS, where no account has such a limit.
    let workload = charged(&[row(0, Some(0)), row(300, Some(0)), row(610, Some(0))]);
    let qos = Qos { used_milli: Some(10_000), ..Qos::default() };
    let of = |qos: Qos| starts(&workload, &node(&[qos], vec![account(None, 1)], hour), &looking);
    assert_eq!(of(qos.clone()), [0, 300, 3960].map(Some));
    assert_eq!(of(Qos { keeps_usage: true, ..qos }), [Some(0), None, None]);
}

/// Reason for which a job waits at the end, by the metrics.
fn refused(cluster: &Cluster, workload: &Workload) -> (&'static str, String, f64) {
    use tracecast_planner::replay::metric::evaluate;
    let schedule = simulate(workload, cluster, &Policy::default()).unwrap();
    let found = evaluate(workload, cluster, &schedule, 1).unwrap().metrics.limits;
    let wait = found.into_iter().next().unwrap();
    (wait.reason.leak(), wait.of, wait.limit)
}

/// 10 GPU-minutes, `safe`: a job of 2 GPUs and a limit of 5 min may take all 10, so one of 1 GPU and 1 min waits until it has ended, at 2 min, with 4 used. One of 2 GPUs and 4 min is then over what is left (4 + 1 + 8), and without `safe` it is not.
/// One that asks for more than 10 never starts.
#[test]
fn a_safe_slurm_starts_what_may_end_within_the_limit() {
    let spent = Association { used_milli: Some(10_000), ..account(None, 1) };
    let row = |submit: i64, gpus: u32, run: i64, limit: i64| ((submit, run, gpus, 0, None, limit), 0);
    let workload = charged(&[row(0, 2, 120, 300), row(10, 1, 30, 60), row(20, 2, 60, 240), row(30, 4, 60, 180)]);
    let of = |safe: bool| {
        let accounting = Accounting { half_life_ms: None, safe, ..Accounting::default() };
        starts(&workload, &node(&[], vec![spent.clone()], accounting), &Policy::default())
    };
    // Four minutes and half a one are used at 150 s, which leaves 5.5.
    assert_eq!(of(true), [Some(0), Some(120), None, None]);
    // The last waits for GPUs.
    assert_eq!(of(false), [0, 10, 20, 40].map(Some));
}

/// An account may have run for 10 min (`GrpWall`), whatever its jobs hold: two of 5 min at once use that up.
#[test]
fn time_that_was_run_is_limited() {
    let spent = Association { used_wall_ms: Some(10 * MINUTE_MS), ..account(None, 1) };
    let row = |submit: i64, gpus: u32| ((submit, 300, gpus, 0, None, 300), 0);
    let workload = charged(&[row(0, 1), row(0, 4), row(299, 1), row(300, 1)]);
    let cluster = node(&[], vec![spent], Accounting { half_life_ms: None, ..Accounting::default() });
    assert_eq!(starts(&workload, &cluster, &Policy::default()), [Some(0), Some(0), Some(299), None]);
    assert_eq!(refused(&cluster, &workload).0, "AssocGrpWallLimit");
}

/// A QOS allows one job, or 2 GPUs, of each account: bob's of nlp waits for ada's of nlp, and ada's of vision does not.
#[test]
fn a_qos_limits_each_account() {
    let tree = vec![account(None, 1), account(Some(0), 1), account(Some(0), 1), user(1, 1), user(1, 1), user(2, 1)];
    let row = |submit: i64, user: u32| (submit, 50, 2, user, Some(0), 50);
    let workload = charged(&[(row(0, 0), 3), (row(1, 1), 4), (row(2, 0), 5)]);
    for (qos, reason) in [
        (Qos { account_jobs: Some(1), ..Qos::default() }, "MaxJobsPerAccount"),
        (Qos { account_milli: Some(2_000), ..Qos::default() }, "MaxGRESPerAccount"),
    ] {
        let cluster = node(&[qos], tree.clone(), Accounting::default());
        let policy = Policy { estimate: Estimate::Requested, ..Policy::default() };
        assert_eq!(starts(&workload, &cluster, &policy), [0, 50, 2].map(Some), "{reason}");
        assert_eq!(refused(&cluster, &workload).0, reason);
    }
}
