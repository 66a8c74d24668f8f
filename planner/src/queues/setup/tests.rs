use super::super::search::tests::{request, uneven};
use super::*;

const MIN: i64 = 60_000;

fn borrowing(reclaim: bool) -> Sharing {
    Sharing::Borrowing { ceiling: Some(2.0), reclaim }
}

#[test]
fn what_is_taken_back_is_no_change_any_more() {
    let today = request(None).today;
    let policy = Policy { order: Order::Sjf, scan: Scan::Easy, estimate: Estimate::Predicted, ..today.clone() };
    let short = Some(ShortQueue { within_s: 3_600, part: 0.5 });
    let setup = Setup { moved: 0.5, short, ..Setup::new(borrowing(true), policy) };
    let changes = setup.changes(&today);
    assert_eq!(
        changes,
        [
            QueueChange::Sharing,
            QueueChange::Reclaim,
            QueueChange::Shares,
            QueueChange::ShortQueue,
            QueueChange::Order,
            QueueChange::Backfill
        ]
    );
    for change in changes {
        let without = setup.without(change, &today);
        assert!(!without.changes(&today).contains(&change), "{change:?}");
    }
    // Shares and what is kept of them go with the sharing, and what is known of runs with what goes by it.
    assert_eq!(
        setup.without(QueueChange::Sharing, &today).changes(&today),
        [QueueChange::Order, QueueChange::Backfill]
    );
    let plain = setup.without(QueueChange::Order, &today).without(QueueChange::Backfill, &today);
    assert_eq!(plain.policy, today);
    assert_eq!(setup.in_todays_order(&today), plain);
}

#[test]
fn what_stands_beside_a_setup_differs_in_one_thing() {
    let loaded = uneven(300);
    let today = request(None).today;
    let knobs = Knobs::new(&loaded.workload, &loaded.cluster, &today);
    let setup = Setup::new(borrowing(false), today.clone());
    let beside = knobs.beside(&setup);
    for other in &beside {
        let differences = [
            other.sharing != setup.sharing,
            other.policy.order != today.order,
            other.policy.scan != today.scan,
            other.moved > 0.0,
            other.short.is_some(),
        ];
        assert_eq!(differences.into_iter().filter(|differs| *differs).count(), 1, "{other:?}");
        assert!(other.replayed().validate(&loaded.workload).is_ok());
    }
    // Nobody is named, so nobody has a fair share.
    assert!(!beside.iter().any(|other| matches!(other.policy.order, Order::FairShare(_))));
    // Without shares there is no part of them to keep.
    let pool = knobs.beside(&Setup::new(Sharing::OnePool, today.clone()));
    assert!(pool.iter().all(|other| other.short.is_none() && other.moved == 0.0));
    // Backfill reserves for jobs that run on.
    let reclaims = knobs.beside(&Setup::new(borrowing(true), today.clone()));
    assert!(reclaims.iter().all(|other| other.policy.scan != Scan::Easy));
}

/// Regression test: where every job was predicted to run an hour, the shortest predicted run first
/// was tried, and reported as an order.
#[test]
fn nothing_goes_by_predictions_that_tell_no_job_from_another() {
    let mut loaded = uneven(300);
    loaded.workload.predicted_s.iter_mut().for_each(|run| *run = Some(3600.0));
    assert_eq!(predicted_alike_s(&loaded.workload), Some(3600.0));
    let today = request(None).today;
    let knobs = Knobs::new(&loaded.workload, &loaded.cluster, &today);
    let beside = knobs.beside(&Setup::new(borrowing(false), today.clone()));
    let all: Vec<Setup> = knobs.list(usize::MAX).into_iter().chain(beside).collect();
    let by_runs = |setup: &&Setup| {
        let order = &setup.policy.order;
        (*order != today.order && *order != Order::FewestGpus) || setup.short.is_some()
    };
    assert_eq!(all.iter().find(by_runs), None);
    // Backfill needs no run to be right, and one job that differs is known apart.
    assert!(all.iter().any(|setup| setup.policy.scan == Scan::Easy));
    loaded.workload.predicted_s[0] = Some(60.0);
    assert_eq!(predicted_alike_s(&loaded.workload), None);
    let knobs = Knobs::new(&loaded.workload, &loaded.cluster, &today);
    assert!(knobs.list(usize::MAX).iter().any(|setup| setup.policy.order == Order::Sjf));
}

#[test]
fn a_short_queue_is_a_vc_of_its_own() {
    // a's jobs run 18 min on 6 GPUs, b's 5 min on 2; each has 8, half of which are kept for jobs of 10 min.
    let loaded = uneven(3);
    let shares = Shares::new(&loaded.cluster).unwrap();
    let ground =
        Ground { cluster: &loaded.cluster, shares: &shares, asked: &[1.0, 3.0], estimate: Estimate::Predicted };
    let short = Some(ShortQueue { within_s: 600, part: 0.5 });
    let setup = Setup { short, ..Setup::new(borrowing(false), Policy::default()) };
    let scene = ground.scene(&setup, &loaded.workload).unwrap();
    assert_eq!(scene.workload.vc, [0, 3, 0, 3, 0, 3]);
    let promised: Vec<(u64, u64)> =
        scene.cluster.vcs.iter().map(|vc| (vc.guarantee_at(0), vc.quota_milli[0].1)).collect();
    assert_eq!(promised, [(4_000, 8_000); 4]);
    // With shares moved all the way a has 4 of 16 and b 12.
    let moved = Setup { moved: 1.0, ..setup.clone() };
    let scene = ground.scene(&moved, &loaded.workload).unwrap();
    assert_eq!([0, 1, 2, 3].map(|vc: usize| scene.cluster.vcs[vc].guarantee_at(0)), [2_000, 6_000, 2_000, 6_000]);
    // What is larger than what is kept goes with the others, however short.
    let mut long = loaded.workload.clone();
    long.predicted_s.iter_mut().for_each(|run| *run = Some(60.0));
    assert_eq!(ground.scene(&setup.without(QueueChange::Shares, &Policy::default()), &long).unwrap().workload.vc[0], 0);
}

#[test]
fn short_jobs_no_longer_wait_behind_long_ones() {
    // Two VCs of 4 GPUs. a has jobs of 2 GPUs for 100 min at 0, 1, 2 and 3 min, and one of 1 GPU for 2 min at 10 min. Borrowing up to twice its share, its long jobs take all 8 GPUs, and the
    // short one waits until 100 min. With a quarter of each share kept, one GPU is left of each: long jobs are bound by 2 × 3 GPUs, so the fourth does not start and the short one does at once.
    let mut workload = Workload::default();
    for (submit_min, run_min, gpus) in [(0, 100, 2), (1, 100, 2), (2, 100, 2), (3, 100, 2), (10, 2, 1)] {
        workload.push(submit_min * MIN, run_min * MIN, crate::sim::Shape::whole(gpus));
        *workload.predicted_s.last_mut().unwrap() = Some(run_min as f64 * 60.0);
    }
    let cluster = Cluster::of_vcs(&[("a", 1, 4), ("b", 1, 4)]);
    let shares = Shares::new(&cluster).unwrap();
    let ground = Ground { cluster: &cluster, shares: &shares, asked: &[1.0, 1.0], estimate: Estimate::Predicted };
    let start = |short: Option<ShortQueue>| {
        let policy = Policy { scan: Scan::Skip, ..Policy::default() };
        let setup = Setup { short, ..Setup::new(borrowing(false), policy) };
        let scene = ground.scene(&setup, &workload).unwrap();
        let schedule = crate::sim::simulate(&scene.workload, &scene.cluster, &scene.policy).unwrap();
        schedule.start_ms(4).unwrap() / MIN
    };
    assert_eq!(start(None), 100);
    assert_eq!(start(Some(ShortQueue { within_s: 600, part: 0.25 })), 10);
}
