use proptest::prelude::*;

use super::*;
use crate::sim::{Estimate, Order, Preemption, Scan, Shape, Warm};

const MIN: i64 = 60_000;

/// Two VCs of a node of 8 GPUs each. Jobs come every ten minutes: those of a are of 6 GPUs for 18 min, more than its node can do; b has one of 2 GPUs
/// for 5 min in every ten. As recorded, all start at once.
pub(in crate::queues) fn uneven(jobs: usize) -> Loaded {
    let mut workload = Workload::default();
    for job in 0..jobs {
        let at = job as i64 * 10 * MIN;
        workload.push(at, 18 * MIN, Shape::whole(6));
        workload.push(at, 5 * MIN, Shape::whole(2));
    }
    workload.vc = (0..2 * jobs).map(|job| (job % 2) as u16).collect();
    workload.predicted_s = workload.run_ms.iter().map(|run| Some(*run as f64 / 1e3)).collect();
    Loaded {
        recorded_start_ms: workload.submit_ms.iter().map(|submit| Some(*submit)).collect(),
        cluster: Cluster::of_vcs(&[("a", 1, 8), ("b", 1, 8)]),
        workload,
        ..Loaded::default()
    }
}

pub(in crate::queues) fn request(eval_from_ms: Option<i64>) -> QueuesRequest {
    QueuesRequest::of_list(eval_from_ms, Policy { scan: Scan::Skip, ..Policy::default() })
}

#[test]
fn the_worked_number() {
    let mut workload = Workload::default();
    for (submit_s, vc) in [(0, 0), (0, 0), (0, 0), (150, 1)] {
        workload.push(submit_s * 1000, 100_000, Shape::whole(1));
        *workload.vc.last_mut().unwrap() = vc;
    }
    let cluster = Cluster::of_vcs(&[("a", 1, 1), ("b", 1, 1)]);
    let shares = Shares::new(&cluster).unwrap();
    let waits = |sharing: Sharing| -> Vec<i64> {
        let cluster = shares.shared(&cluster, sharing).unwrap();
        let times = Times::run(&workload, &cluster, &Policy::default()).unwrap();
        (0..4).map(|job| times.wait_ms(job).unwrap() / 1000).collect()
    };
    assert_eq!(waits(Sharing::Private), [0, 100, 200, 0]);
    assert_eq!(waits(Sharing::Borrowing { ceiling: None, reclaim: false }), [0, 0, 100, 0]);
}

#[test]
fn what_a_stopped_job_loses_counts_as_waiting() {
    // One pool of two GPUs, one each of a and b. a borrows b's from 0 s on; b's job of 60 s stops it, and it begins anew there.
    let mut workload = Workload::default();
    for (submit_s, vc) in [(0, 0), (0, 0), (60, 1)] {
        workload.push(submit_s * 1000, 100_000, Shape::whole(1));
        *workload.vc.last_mut().unwrap() = vc;
    }
    let cluster = Cluster::of_vcs(&[("a", 1, 1), ("b", 1, 1)]);
    let sharing = Sharing::Borrowing { ceiling: None, reclaim: true };
    let pool = Shares::new(&cluster).unwrap().shared(&cluster, sharing).unwrap();
    let policy = Setup::new(sharing, Policy::default()).replayed();
    let times = Times::run(&workload, &pool, &policy).unwrap();
    // It ran 60 s for nothing, waits until the first job ends at 100 s, and ends at 200 s: 100 s more than its run.
    assert_eq!((0..3).map(|job| times.wait_ms(job).unwrap() / 1000).collect::<Vec<_>>(), [0, 100, 0]);
}

#[test]
fn an_uneven_cluster_is_shared_and_the_idle_half_is_not_wronged() {
    let loaded = uneven(300);
    let result = search(&loaded, &request(None), SearchRun::default()).unwrap();
    let (best, chosen) = (&result.tried[result.best], &result.tried[result.chosen]);
    assert!(matches!(best.setup.sharing, Sharing::Borrowing { .. }), "{:?}", best.setup);
    // Its shares and ceilings gain nothing beyond chance on the later jobs, so that the simplest way is chosen.
    assert_eq!(chosen.setup, Setup::new(Sharing::OnePool, request(None).today));
    assert!(chosen.is_allowed() && result.is_followed && result.best != result.chosen);
    assert!(chosen.later.waits.merit.mean_wait_s < result.tried[0].later.waits.merit.mean_wait_s / 2.0, "{chosen:?}");
    let b = &result.by_vc[1];
    assert!(b.chosen.merit.p95_wait_s <= b.private.merit.p95_wait_s + 60.0, "{b:?}");
    // Two thirds of the jobs come before the split.
    assert_eq!((result.split_ms, chosen.later.waits.jobs), (200 * 10 * MIN, 200));
    assert!(result.nodes_instead.unwrap() > 2);
    // Nodes of one's own are what there is today.
    assert_eq!(result.private, result.tried[0].later.waits);
}

/// A setup that costs so much in each third, and wrongs nobody.
fn costing(by_window: [f64; 3]) -> EarlierOutcome {
    let cost = by_window.iter().sum::<f64>() / 3.0;
    EarlierOutcome { waits: JobWaits::NONE, cost, by_window: by_window.to_vec(), wronged: Vec::new(), complete: true }
}

#[test]
fn the_simpler_stays_unless_it_is_beaten_everywhere() {
    let simple = costing([0.2, 0.2, 0.2]);
    assert!(beats(&costing([0.2, 0.1, 0.1]), &simple));
    // A twentieth of 0.2 is no more than a hundredth of today's.
    assert!(!beats(&costing([0.19, 0.19, 0.191]), &simple));
    // One burst that went better does not make up for another that went worse.
    assert!(!beats(&costing([0.0, 0.0, 0.23]), &simple));
    assert!(beats(&costing([0.0, 0.0, 0.215]), &simple));
    // Who wrongs a VC beats nobody, and is beaten by everybody.
    let wrongs = EarlierOutcome { wronged: vec![1], ..costing([0.0; 3]) };
    assert!(!beats(&wrongs, &simple) && beats(&simple, &wrongs));
}

#[test]
fn what_the_search_adds_is_better_than_the_list_or_not_chosen() {
    let loaded = uneven(300);
    let list = search(&loaded, &request(None), SearchRun::default()).unwrap();
    assert_eq!(list.best, list.of_list);
    assert!(list.tried.iter().all(|tried| tried.round == 0));
    let with =
        |replays: usize| search(&loaded, &QueuesRequest { replays, ..request(None) }, SearchRun::default()).unwrap();
    let result = with(60);
    assert_eq!(result.tried[..list.tried.len()], list.tried[..]);
    assert_eq!(result.of_list, list.best);
    let (best, simple) = (&result.tried[result.best], &result.tried[result.of_list]);
    let is_better = result.best == result.of_list || beats(&best.earlier, &simple.earlier);
    assert!(best.is_allowed() && is_better, "{best:?}");
    let chosen = &result.tried[result.chosen];
    // Nothing is tried twice.
    for (at, one) in result.tried.iter().enumerate() {
        assert!(!result.tried[..at].iter().any(|other| other.setup == one.setup), "{:?}", one.setup);
    }
    // Each change of the chosen is taken back once.
    let today = request(None).today;
    let taken: Vec<QueueChange> = result.ablated.iter().filter_map(|ablated| ablated.change).collect();
    assert_eq!(taken, chosen.setup.changes(&today));
    for ablated in &result.ablated {
        let without = &ablated.without.setup;
        assert!(ablated.change.is_none_or(|change| *without == chosen.setup.without(change, &today)));
    }
    // No more replays than the list, or none beyond it, find the same.
    assert_eq!(with(10), list);
}

#[test]
fn where_nobody_waits_nothing_is_changed() {
    let mut loaded = uneven(300);
    loaded.workload.run_ms.iter_mut().for_each(|run| *run = MIN);
    let result = search(&loaded, &request(None), SearchRun::default()).unwrap();
    assert_eq!((result.chosen, result.nodes_instead), (0, None));
}

/// One VC has nothing to share, and may be served in another order: short jobs no longer wait behind long ones, though some wait longer.
#[test]
fn of_one_vc_the_order_is_planned() {
    let mut workload = Workload::default();
    for job in 0..600i64 {
        // On one node of 8 GPUs a long job of all its GPUs and seven short ones of one, all at once, every two hours.
        let is_long = job % 8 == 0;
        let (run, gpus) = if is_long { (90 * MIN, 8) } else { (MIN, 1) };
        workload.push(job / 8 * 120 * MIN, run, Shape::whole(gpus));
    }
    workload.vc = vec![0; 600];
    workload.predicted_s = workload.run_ms.iter().map(|run| Some(*run as f64 / 1e3)).collect();
    let loaded = Loaded {
        recorded_start_ms: workload.submit_ms.iter().map(|submit| Some(*submit)).collect(),
        cluster: Cluster::of_vcs(&[("a", 1, 8)]),
        workload,
        ..Loaded::default()
    };
    let result = search(&loaded, &request(None), SearchRun::default()).unwrap();
    assert!(result.tried.iter().all(|tried| tried.setup.sharing == Sharing::AsToday));
    let chosen = &result.tried[result.chosen];
    // As they come, the seven wait 90 min: 79 on average. The long one waits a minute behind them.
    assert!((result.tried[0].later.waits.merit.mean_wait_s - 90.0 * 60.0 * 7.0 / 8.0).abs() < 30.0);
    assert!((chosen.later.waits.merit.mean_wait_s - 60.0 / 8.0).abs() < 1.0, "{chosen:?}");
    // The order that needs no prediction stands first.
    assert_eq!((chosen.setup.policy.order.clone(), result.is_followed), (Order::FewestGpus, true));
    // With fewer ways, today's nodes and those with the least to set are left.
    let few = search(&loaded, &QueuesRequest { most_listed: 2, ..request(None) }, SearchRun::default()).unwrap();
    assert_eq!((few.tried.len(), few.tried[0].setup.changes(&request(None).today).len()), (2, 0));
}

#[test]
fn what_cannot_be_planned_is_refused() {
    let said = |loaded: &Loaded, from: Option<i64>| {
        search(loaded, &request(from), SearchRun::default()).unwrap_err().to_string()
    };
    assert!(said(&uneven(40), None).contains("too few to plan on"));
    assert!(said(&uneven(300), Some(i64::MAX / 2)).contains("after the split"));
    let pooled = Loaded { cluster: uneven(1).cluster.pooled(), ..uneven(300) };
    assert!(said(&pooled, None).contains("guaranteed_gpus"));
}

#[test]
fn who_is_stopped_hangs_on_how_nodes_are_shared() {
    let with =
        |sharing, preemption| Setup::new(sharing, Policy { preemption, ..Policy::default() }).replayed().preemption;
    let borrowing = |reclaim| Sharing::Borrowing { ceiling: None, reclaim };
    assert_eq!(with(borrowing(true), Preemption::Never), Preemption::Requeue);
    assert_eq!(with(borrowing(false), Preemption::HELIOS), Preemption::Never);
    assert_eq!(with(Sharing::Private, Preemption::Requeue), Preemption::Never);
    assert_eq!(with(Sharing::AsToday, Preemption::Requeue), Preemption::Requeue);
    // Today a pool that reclaims: nodes of one's own, and one pool without shares, have nobody to reclaim for.
    let mut pooled = uneven(300);
    pooled.cluster = pooled.cluster.pooled();
    pooled.cluster.vcs.iter_mut().for_each(|vc| vc.guarantee_milli = vec![(0, 8_000)]);
    let today = Policy { scan: Scan::Skip, preemption: Preemption::Requeue, ..Policy::default() };
    assert!(search(&pooled, &QueuesRequest::of_list(None, today), SearchRun::default()).is_ok());
}

#[test]
fn what_rests_on_runs_that_nobody_knew_is_not_chosen() {
    let loaded = uneven(300);
    // Without time limits, "requested" would be the true run.
    let requested = Policy { scan: Scan::Skip, estimate: Estimate::Requested, ..Policy::default() };
    let list = |today: &Policy| Knobs::new(&loaded.workload, &loaded.cluster, today).list(usize::MAX);
    let result = list(&requested);
    // The fewest GPUs first needs to know no run.
    let knows = |setup: &Setup| setup.policy.order != Order::FewestGpus && setup.policy.estimate != Estimate::Predicted;
    assert!(result.iter().filter(|setup| knows(setup)).all(|setup| setup.policy == requested));
    let oracle = Policy { order: Order::Sjf, ..Policy::default() };
    let of_oracle: Vec<Sharing> = list(&oracle)
        .into_iter()
        .filter(|setup| setup.policy.estimate == Estimate::True && knows(setup))
        .map(|setup| setup.sharing)
        .collect();
    assert_eq!(of_oracle, [Sharing::AsToday]);
}

/// Found in review: where today is a backfill, nothing that reclaims was tried, and nobody was told.
#[test]
fn nodes_are_reclaimed_where_today_is_a_backfill() {
    let loaded = uneven(300);
    let easy = Policy { scan: Scan::Easy, estimate: Estimate::Predicted, ..Policy::default() };
    let reclaiming = |today: &Policy| -> Vec<Setup> {
        let list = Knobs::new(&loaded.workload, &loaded.cluster, today).list(usize::MAX);
        list.into_iter().filter(|setup| setup.sharing.reclaims()).collect()
    };
    let of_easy = reclaiming(&easy);
    assert!(!of_easy.is_empty() && of_easy.iter().all(|setup| setup.replayed().scan == Scan::Skip));
    // Without limits, one that goes by them would know true runs; what reclaims does not, and is told as today's.
    let by_limits = Policy { estimate: Estimate::Requested, ..easy.clone() };
    assert!(reclaiming(&by_limits).iter().any(|setup| setup.policy == by_limits));
    // A backfill that today does not have is none to reclaim with.
    assert!(reclaiming(&Policy::default()).iter().all(|setup| setup.policy.scan == Scan::Strict));
    assert!(search(&loaded, &QueuesRequest::of_list(None, easy), SearchRun::default()).is_ok());
}

#[test]
fn a_later_job_above_a_ceiling_is_counted() {
    // The last job of b asks for all 16 GPUs that there are: alone it cannot run, with a ceiling of 1.25 × 8 neither.
    let mut loaded = uneven(300);
    loaded.cluster = loaded.cluster.pooled();
    loaded.cluster.vcs.iter_mut().for_each(|vc| vc.guarantee_milli = vec![(0, 8_000)]);
    loaded.workload.shapes.push(Shape::whole(16));
    *loaded.workload.shape.last_mut().unwrap() = 2;
    let result = search(&loaded, &request(None), SearchRun::default()).unwrap();
    for tried in &result.tried {
        let bounded = matches!(tried.setup.sharing, Sharing::Borrowing { ceiling: Some(ceiling), .. } if ceiling < 2.0);
        assert_eq!(tried.later.cannot_run, usize::from(bounded), "{:?}", tried.setup);
        assert!(tried.earlier.complete);
    }
    assert_eq!(result.tried[result.oracle].later.cannot_run, 0);
}

#[test]
fn what_is_known_at_a_moment() {
    // At 25 min: jobs of 0, 10 and 20 min have come; the second pair is late and starts at 26 min. Runs are cut off at 25 min.
    let mut loaded = uneven(4);
    loaded.recorded_start_ms[2] = Some(26 * MIN);
    loaded.workload.warm.push(Warm { job: 0, start_ms: -5 * MIN });
    let known = loaded.known_at(25 * MIN);
    assert_eq!(known.submit_ms, [0, 0, 10 * MIN, 20 * MIN, 20 * MIN]);
    assert_eq!(known.run_ms, [18 * MIN, 5 * MIN, 5 * MIN, 5 * MIN, 5 * MIN]);
    // The run of the job of 20 min is cut off; that of 5 min just ended.
    assert_eq!(known.unfinished, [3]);
    assert_eq!(known.warm.len(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]
    /// Whatever comes after the split changes neither what is best nor how the earlier jobs are said to have waited, and chooses nothing but less to set of what the earlier jobs speak for.
    #[test]
    fn later_jobs_change_no_choice(runs in prop::collection::vec(1i64..40, 200), seed in 1i64..9) {
        let mut one = uneven(300);
        let split = 200 * 10 * MIN;
        let mut other = one.clone();
        for job in 400..600 {
            other.workload.run_ms[job] = runs[job - 400] * MIN;
            other.workload.vc[job] = u16::from(runs[job - 400] % seed == 0);
            other.recorded_start_ms[job] = Some(other.workload.submit_ms[job] + runs[job - 400]);
        }
        // A job that runs over the split may run for any time from then on.
        one.workload.run_ms[398] = 50 * MIN;
        other.workload.run_ms[398] = 90 * MIN;
        let request = QueuesRequest { replays: 50, ..request(Some(split)) };
        let result = |loaded: &Loaded| search(loaded, &request, SearchRun::default()).unwrap();
        let (one, other) = (result(&one), result(&other));
        prop_assert_eq!((one.best, one.of_list), (other.best, other.of_list));
        prop_assert_eq!(one.tried.len(), other.tried.len());
        for result in [&one, &other] {
            let (best, chosen) = (&result.tried[result.best], &result.tried[result.chosen]);
            let plainness = |tried: &TriedSetup| tried.setup.plainness(&request.today);
            let is_plainer = plainness(chosen) < plainness(best) && chosen.is_allowed() && chosen.earlier.mean_cost() < 1.0;
            prop_assert!(result.chosen == result.best || is_plainer, "{:?}", chosen);
        }
        for (one, other) in one.tried.iter().zip(&other.tried) {
            prop_assert_eq!((&one.setup, &one.earlier), (&other.setup, &other.earlier));
        }
    }
}

#[test]
fn an_objective_that_foretells_needs_runs_and_counts_what_was_told() {
    // Every other job of a is long, so that the shortest first passes it.
    let mut loaded = uneven(300);
    let runs = loaded.workload.run_ms.iter_mut().zip(&mut loaded.workload.predicted_s).step_by(2).enumerate();
    for (job, (run, predicted)) in runs {
        *run = if job % 2 == 0 { 30 * MIN } else { 6 * MIN };
        *predicted = Some(*run as f64 / 1e3);
    }
    let asked = |objective: &str| QueuesRequest { objective: objective.parse().unwrap(), ..request(None) };
    let result = search(&loaded, &asked("predictable"), SearchRun::default()).unwrap();
    let told = |of: &TriedSetup| of.later.measured.told_error_s.unwrap();
    // First come, first served on known runs: a job starts when it was told, as today.
    assert!(told(&result.tried[0]) < 1.0, "{:?}", result.tried[0].later);
    let shortest = result
        .tried
        .iter()
        .find(|tried| tried.setup.sharing == Sharing::AsToday && tried.setup.policy.order == Order::Sjf);
    assert!(told(shortest.unwrap()) > 600.0);
    assert!(told(&result.tried[result.chosen]) < 1.0);
    for tried in &result.tried {
        let cost = (told(tried) + 60.0) / (told(&result.tried[0]) + 60.0);
        assert!((tried.later.cost - cost).abs() < 1e-9);
    }
    // Without it nobody is told anything.
    let result = search(&loaded, &asked("wait"), SearchRun::default()).unwrap();
    assert!(result.tried.iter().all(|tried| tried.later.measured.told_error_s.is_none()));

    loaded.workload.predicted_s.iter_mut().for_each(|known| *known = None);
    let error = search(&loaded, &asked("predictable"), SearchRun::default()).unwrap_err().to_string();
    assert!(error.contains("--predictions"), "{error}");
}

#[test]
fn a_fair_objective_looks_at_the_vc_that_fares_worst() {
    let loaded = uneven(300);
    let asked = QueuesRequest { objective: "fair".parse().unwrap(), ..request(None) };
    let result = search(&loaded, &asked, SearchRun::default()).unwrap();
    let worst = |at: usize| result.tried[at].later.measured.worst_vc.unwrap();
    // Today the nodes are the VCs' own; nobody can fare better than with no VC longer than there.
    assert!((worst(0) - 1.0).abs() < 1e-12);
    assert!(worst(result.chosen) <= 1.0 + 1e-12);
    let ones = result.tried[result.chosen].later.measured;
    let by_hand =
        result.by_vc.iter().map(|vc| (vc.chosen.merit.mean_wait_s + 60.0) / (vc.private.merit.mean_wait_s + 60.0));
    assert!((by_hand.fold(0.0, f64::max) - ones.worst_vc.unwrap()).abs() < 1e-9);
}

#[test]
fn each_way_on_the_front_has_an_interval_against_today() {
    let loaded = uneven(300);
    let result = search(&loaded, &request(None), SearchRun::default()).unwrap();
    assert!(!result.front.is_empty());
    let today = result.tried[0].later.waits.merit;
    for of in &result.front {
        let (tried, change) = (&result.tried[of.at], of.change.as_ref().unwrap());
        assert!(tried.is_allowed());
        let beaten = result
            .tried
            .iter()
            .any(|other| other.is_allowed() && other.earlier.waits.merit.dominates(&tried.earlier.waits.merit));
        assert!(!beaten, "{:?}", tried.setup);
        // The difference of the means is the mean of the differences, and lies within its interval.
        let mean = change.mean_wait_s;
        assert!((mean.value - (tried.later.waits.merit.mean_wait_s - today.mean_wait_s)).abs() < 1e-6, "{mean:?}");
        assert!(mean.low <= mean.value && mean.value <= mean.high, "{mean:?}");
        assert!(change.p95_wait_s.low <= change.p95_wait_s.high);
    }
    let best = result.front.iter().any(|of| of.change.as_ref().unwrap().mean_wait_s.high < 0.0);
    assert!(best, "an uneven cluster gains by sharing: {:?}", result.front);
}
