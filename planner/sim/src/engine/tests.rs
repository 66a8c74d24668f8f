//! Timelines worked out by hand.
#![allow(clippy::unwrap_used)]

use crate::*;

fn jobs(list: &[(i64, i64, u32)]) -> Workload {
    let mut workload = Workload::default();
    for (submit_s, run_s, gpus) in list {
        workload.push(submit_s * 1000, run_s * 1000, Shape::whole(*gpus));
    }
    workload
}

fn starts(workload: &Workload, cluster: &Cluster, policy: &Policy) -> Vec<Option<i64>> {
    let schedule = simulate(workload, cluster, policy).unwrap();
    (0..workload.len()).map(|job| schedule.start_ms(job).map(|start| start / 1000)).collect()
}

/// A: 6 GPUs, 0–100 s. B: 4 at 10 s for 50 s, does not fit beside A. C: 1 at 20 s for 5 s, stands behind B.
#[test]
fn the_contract_s_example() {
    let node = Cluster::of_vcs(&[("all", 1, 8)]);
    let mut workload = jobs(&[(0, 100, 6), (10, 50, 4), (20, 5, 1)]);
    let with = |scan| Policy { scan, ..Policy::default() };
    assert_eq!(starts(&workload, &node, &with(Scan::Strict)), [Some(0), Some(100), Some(100)]);
    assert_eq!(starts(&workload, &node, &with(Scan::Skip)), [Some(0), Some(100), Some(20)]);
    assert_eq!(starts(&workload, &node, &with(Scan::Easy)), [Some(0), Some(100), Some(20)]);
    // 200 s instead of 5: at 100 s B needs 4 of the 7 that C leaves.
    workload.run_ms[2] = 200_000;
    assert_eq!(starts(&workload, &node, &with(Scan::Easy)), [Some(0), Some(100), Some(20)]);
    // With B asking 8, a C of 200 s would be in its way, one of 80 s (20–100) would not.
    let mut workload = jobs(&[(0, 100, 6), (10, 50, 8), (20, 200, 1)]);
    assert_eq!(starts(&workload, &node, &with(Scan::Easy)), [Some(0), Some(100), Some(150)]);
    workload.run_ms[2] = 80_000;
    assert_eq!(starts(&workload, &node, &with(Scan::Easy)), [Some(0), Some(100), Some(20)]);
}

/// One pool of 8 GPUs, full until 100 s. In the queue: b's job of 8 GPUs and 10 s, then a's of 2, 4 and 2 GPUs and 50 s. a is guaranteed 6 GPUs: its first
/// two jobs are within that and pass b's, its third is not. At 150 s a has nothing at work, so the third is within as well, and b's waits for it.
#[test]
fn jobs_within_a_guarantee_go_first() {
    let mut pool = Cluster::of_vcs(&[("a", 1, 8), ("b", 1, 8)]).pooled();
    pool.pools[0].groups[0].sizes = vec![(0, 1)];
    let mut workload = jobs(&[(0, 100, 8), (10, 10, 8), (20, 50, 2), (30, 50, 4), (40, 50, 2)]);
    workload.vc = vec![1, 1, 0, 0, 0];
    let strict = Policy::default();
    assert_eq!(starts(&workload, &pool, &strict), [0, 100, 110, 110, 110].map(Some));
    pool.vcs[0].guarantee_milli = vec![(0, 6_000)];
    assert_eq!(starts(&workload, &pool, &strict), [0, 200, 100, 100, 150].map(Some));
    // Under skip the third takes what is left beside them, as b's does not fit.
    let skip = Policy { scan: Scan::Skip, ..Policy::default() };
    assert_eq!(starts(&workload, &pool, &skip), [0, 150, 100, 100, 100].map(Some));
}

/// One pool of 8 GPUs. b is guaranteed 2 and runs jobs of 2, 4 and 2 GPUs for 100 s from 0, 10 and 20 s on: the last two borrow. At 30 s a, which is
/// guaranteed 6, submits a job of 3 GPUs and 10 s: the job of 2 GPUs goes first, as it started last, and then that of 4; with that gone, the job of 2
/// need not go. a's next job, of
/// 4 GPUs at 32 s, would bring it to 7: it stops nobody. At 40 s a has nothing at work, so that job is within its guarantee and passes the stopped one, which
/// begins anew at 50 s.
#[test]
fn jobs_that_borrow_are_stopped_for_what_is_guaranteed() {
    let mut pool = Cluster::of_vcs(&[("a", 1, 8), ("b", 1, 8)]).pooled();
    pool.pools[0].groups[0].sizes = vec![(0, 1)];
    pool.vcs[0].guarantee_milli = vec![(0, 6_000)];
    pool.vcs[1].guarantee_milli = vec![(0, 2_000)];
    let mut workload = jobs(&[(0, 100, 2), (10, 100, 4), (20, 100, 2), (30, 10, 3), (32, 10, 4)]);
    workload.vc = vec![1, 1, 1, 0, 0];
    let policy = Policy { preemption: Preemption::Requeue, scan: Scan::Skip, ..Policy::default() };
    let schedule = simulate(&workload, &pool, &policy).unwrap();
    assert_eq!(schedule.preemptions, [0, 1, 0, 0, 0]);
    assert_eq!((schedule.start_ms(3), schedule.end_ms(1)), (Some(30_000), Some(150_000)));
    assert_eq!(schedule.start_ms(4), Some(40_000));
    // With a checkpoint every 15 s the job loses 5 of its 20 s.
    let saved = Policy { checkpoint_ms: Some(15_000), ..policy };
    assert_eq!(simulate(&workload, &pool, &saved).unwrap().end_ms(1), Some(135_000));
}

#[test]
fn jobs_of_length_zero_and_jobs_too_large_end_properly() {
    let node = Cluster::of_vcs(&[("all", 1, 8)]);
    let workload = jobs(&[(0, 0, 8), (0, 10, 9), (0, 0, 8), (0, 5, 8)]);
    let schedule = simulate(&workload, &node, &Policy::default()).unwrap();
    assert_eq!(schedule.outcome[1], Outcome::Rejected);
    assert_eq!((schedule.start_ms(3), schedule.end_ms(3)), (Some(0), Some(5000)));
    let helios = Policy { compat: Compat::Helios, ..Policy::default() };
    let schedule = simulate(&workload, &node, &helios).unwrap();
    // Given back in the tick after: at 1 s and 2 s.
    assert_eq!((schedule.start_ms(2), schedule.end_ms(2)), (Some(1000), Some(1000)));
    assert_eq!(schedule.start_ms(3), Some(2000));
}

/// Two nodes; the group shrinks to one at 50 s and grows again at 200 s. A takes node 0 until 100 s, B node 1 until 70 s.
/// At 50 s both are busy with 8: node 1 (the highest index) drains and is gone at 70 s. C waits for A; D for the second node.
#[test]
fn a_group_that_shrinks_drains_its_nodes() {
    let mut cluster = Cluster::of_vcs(&[("all", 2, 8)]);
    cluster.pools[0].groups[0].sizes = vec![(0, 2), (50_000, 1), (200_000, 2)];
    let workload = jobs(&[(0, 100, 8), (0, 70, 8), (60, 150, 8), (61, 10, 8)]);
    assert_eq!(starts(&workload, &cluster, &Policy::default()), [Some(0), Some(0), Some(100), Some(200)]);
}

/// The node fails at 30 s for 20 s. A has done 30 s of its 100: without checkpoints it runs 50–150 s, with one every 12 s it has
/// 24 s saved and runs 50–126 s.
#[test]
fn a_failing_node_takes_its_jobs_with_it() {
    let mut cluster = Cluster::of_vcs(&[("all", 1, 8)]);
    cluster.outages.push(Outage { node: 0, from_ms: 30_000, to_ms: 50_000 });
    let workload = jobs(&[(0, 100, 4)]);
    let schedule = simulate(&workload, &cluster, &Policy::default()).unwrap();
    assert_eq!((schedule.end_ms(0), schedule.restarts[0]), (Some(150_000), 1));
    let policy = Policy { checkpoint_ms: Some(12_000), ..Policy::default() };
    assert_eq!(simulate(&workload, &cluster, &policy).unwrap().end_ms(0), Some(126_000));
}

/// Two VCs share a node of 8; VC 0 may use 4. Its second job waits for its first, and does not hold up VC 1.
#[test]
fn a_quota_holds_up_its_own_vc_only() {
    let mut cluster = Cluster::of_vcs(&[("a", 1, 8)]);
    cluster.vcs[0].quota_milli = vec![(0, 4000)];
    cluster.vcs.push(Vc::new("b", 0));
    let mut workload = jobs(&[(0, 100, 4), (1, 10, 1), (2, 10, 4)]);
    workload.vc[2] = 1;
    assert_eq!(starts(&workload, &cluster, &Policy::default()), [Some(0), Some(100), Some(2)]);
    // Eight GPUs are more than the quota ever is.
    let mut workload = jobs(&[(0, 100, 8), (1, 10, 1)]);
    workload.vc[1] = 1;
    assert_eq!(starts(&workload, &cluster, &Policy::default()), [None, Some(1)]);
}

/// Decisions at multiples of 60 s only: the job of 10 s is submitted at 5 s and starts at 60 s; the next, submitted at 60 s, starts then
/// too; one that comes at 61 s starts at 120 s.
#[test]
fn an_interval_makes_jobs_wait_for_it() {
    let workload = jobs(&[(5, 10, 1), (60, 10, 1), (61, 10, 1)]);
    let policy = Policy { interval_ms: Some(60_000), ..Policy::default() };
    assert_eq!(starts(&workload, &Cluster::of_vcs(&[("all", 1, 8)]), &policy), [Some(60), Some(60), Some(120)]);
}

/// A runs at time 0 with 40 s left on 6 GPUs; B, submitted 10 s before, needs 4 and waits for it.
#[test]
fn jobs_that_run_already_hold_their_gpus() {
    let mut workload = jobs(&[(-100, 40, 6), (-10, 20, 4)]);
    workload.warm.push(Warm { job: 0, start_ms: -50_000 });
    assert_eq!(starts(&workload, &Cluster::of_vcs(&[("all", 1, 8)]), &Policy::default()), [Some(-50), Some(40)]);
}

/// A is thought to run 10 s and runs 100. EASY: B (8 GPUs) is first promised 10 s, then 70 s (one minute later). C (30 s) comes at
/// 20 s and would be done at 50 s, so it may start; D (60 s) comes at 21 s and would not be done by 70 s.
#[test]
fn an_estimate_that_is_outlived_is_corrected() {
    let mut workload = jobs(&[(0, 100, 6), (1, 10, 8), (20, 30, 1), (21, 60, 1)]);
    workload.predicted_s = vec![Some(10.0), Some(10.0), Some(30.0), Some(60.0)];
    let policy = Policy { scan: Scan::Easy, estimate: Estimate::Predicted, ..Policy::default() };
    // At 70 s A is expected to end at 70 s + 15 min, and D may start.
    let result = starts(&workload, &Cluster::of_vcs(&[("all", 1, 8)]), &policy);
    assert_eq!(result, [Some(0), Some(130), Some(20), Some(70)]);
}

/// The conservative scan's worked example, with a D of 1 GPU and 30 s that fits beside everything.
#[test]
fn everyone_has_a_reservation() {
    let node = Cluster::of_vcs(&[("all", 1, 8)]);
    let policy = Policy { scan: Scan::Conservative, ..Policy::default() };
    let mut workload = jobs(&[(0, 100, 6), (0, 50, 8), (5, 90, 2), (6, 30, 1)]);
    // C would end at 95 s. D does not fit beside C until then, would be in B's way from 70 s on, and comes after B.
    assert_eq!(starts(&workload, &node, &policy), [Some(0), Some(100), Some(5), Some(150)]);
    workload.run_ms[2] = 120_000;
    // C is promised 150 s; D takes one of the two GPUs now.
    assert_eq!(starts(&workload, &node, &policy), [Some(0), Some(100), Some(150), Some(6)]);
    // One job is looked at each time: B, then C at 150 s, and D when C has ended.
    let policy = Policy { depth: Some(1), ..policy };
    workload.run_ms[2] = 90_000;
    assert_eq!(starts(&workload, &node, &policy), [Some(0), Some(100), Some(150), Some(240)]);
}

/// Shortest remaining time first with a cost of 30 s for 8 GPUs: A (8 GPUs, 100 s) is stopped at 10 s for B (1 GPU, 10 s); at 20 s A goes
/// on, owing 30 s and 90 s of run, and ends at 140 s.
#[test]
fn a_shorter_job_stops_a_longer_one() {
    let node = Cluster::of_vcs(&[("all", 1, 8)]);
    let policy = Policy { order: Order::Srtf, scan: Scan::Skip, preemption: Preemption::HELIOS, ..Policy::default() };
    let workload = jobs(&[(0, 100, 8), (10, 10, 1)]);
    let schedule = simulate(&workload, &node, &policy).unwrap();
    assert_eq!((schedule.start_ms(1), schedule.end_ms(1)), (Some(10_000), Some(20_000)));
    assert_eq!((schedule.end_ms(0), schedule.preemptions[0]), (Some(140_000), 1));
    // A job of 200 s stops no one.
    let workload = jobs(&[(0, 100, 8), (10, 200, 1)]);
    assert_eq!(starts(&workload, &node, &policy), [Some(0), Some(100)]);
}

/// Two jobs of 4 run when one of 4 with higher priority comes: only the one with the greater key is stopped, not both.
#[test]
fn no_more_jobs_are_stopped_than_are_in_the_way() {
    let node = Cluster::of_vcs(&[("all", 1, 8)]);
    let policy = Policy { order: Order::Srtf, scan: Scan::Strict, preemption: Preemption::HELIOS, ..Policy::default() };
    let workload = jobs(&[(0, 100, 4), (0, 200, 4), (10, 10, 4)]);
    let schedule = simulate(&workload, &node, &policy).unwrap();
    assert_eq!(schedule.preemptions, [0, 1, 0]);
}

/// The contract's example of power: one node, timeout 100 s, shutdown 10 s, boot 20 s; jobs at 0 and 300 s.
#[test]
fn a_node_sleeps_and_is_woken() {
    use crate::power::{Rules, State, Supervisor, Timeout};
    let workload = jobs(&[(0, 50, 8), (300, 10, 1)]);
    let rules = Rules { idle_ms: Some(100_000), shutdown_ms: 10_000, boot_ms: 20_000, ..Rules::default() };
    let cluster = Cluster::of_vcs(&[("all", 1, 8)]);
    let run = |rules: &Rules| {
        simulate_powered(&workload, &cluster, &Policy::default(), &mut Supervisor::reactive(rules.clone())).unwrap()
    };
    let (schedule, record) = run(&rules);
    assert_eq!((schedule.start_ms(1), schedule.end_ms(1)), (Some(320_000), Some(330_000)));
    let changes: Vec<(i64, State)> = record.changes.iter().map(|change| (change.at_ms / 1000, change.state)).collect();
    let expected = [
        (150, State::ShuttingDown),
        (160, State::Asleep),
        (300, State::Booting),
        (320, State::Powered),
        // 330 + 100 s.
        (430, State::ShuttingDown),
        (440, State::Asleep),
    ];
    assert_eq!(changes, expected);
    // Asleep for at least 200 s it may be woken at 360 s; a canary never sleeps; nor does a node that stays idle to be there.
    let rest = Rules { min_off_ms: 200_000, ..rules.clone() };
    assert_eq!(run(&rest).0.start_ms(1), Some(380_000));
    let canary = Rules { canaries: 1, ..rules.clone() };
    assert!(run(&canary).1.changes.is_empty());
    let buffer = Rules { keep_idle: 1, ..rules.clone() };
    assert!(run(&buffer).1.changes.is_empty());
    // A pool's own timeout and idle nodes come before the common ones.
    let of_pool = |idle_ms, keep_idle| Rules { by_pool: vec![Timeout { idle_ms, keep_idle }], ..rules.clone() };
    assert_eq!(run(&of_pool(Some(140_000), 0)).1.changes.first().map(|change| change.at_ms), Some(190_000));
    assert!(run(&of_pool(Some(140_000), 1)).1.changes.is_empty() && run(&of_pool(None, 0)).1.changes.is_empty());
    // All nodes are powered since before time 0: a minimum of 250 s changes nothing for the first sleep.
    let on = Rules { min_on_ms: 250_000, ..rules.clone() };
    assert_eq!(run(&on).1.changes.first().map(|change| change.at_ms), Some(150_000));
    // Without wake on demand the job waits for ever, and the slots end.
    let never = Rules { wake_on_demand: false, ..rules };
    assert_eq!(run(&never).0.outcome[1], Outcome::Stranded);
}

/// Two nodes, slots of 100 s, a controller that asks for one node until 200 s and for two from then on. Boot 30 s. Job B needs two nodes.
#[test]
fn a_controller_puts_nodes_to_sleep_and_wakes_them() {
    use crate::power::PowerPolicy;
    use crate::power::{Controller, Rules, State, Supervisor};
    use tracecast_analytics::facts::demand::Seen;
    struct Steps;
    impl PowerPolicy for Steps {
        fn name(&self) -> String {
            "steps".into()
        }
        fn target(&mut self, seen: Seen<'_>, _: f64) -> f64 {
            if seen.slots.len() < 2 { 0.4 } else { 2.0 }
        }
    }
    // A holds 4 GPUs of node 0 from 20 to 70 s, B wants 16 from 150 s on.
    let workload = jobs(&[(20, 50, 4), (150, 10, 16)]);
    let rules =
        Rules { slot_ms: 100_000, boot_ms: 30_000, shutdown_ms: 5_000, wake_on_demand: false, ..Rules::default() };
    let controller = Controller { policy: Box::new(Steps), history: Vec::new() };
    let mut supervisor = Supervisor { rules, controllers: vec![Some(controller)] };
    let cluster = Cluster::of_vcs(&[("all", 2, 8)]);
    let (schedule, record) = simulate_powered(&workload, &cluster, &Policy::default(), &mut supervisor).unwrap();
    // Asked at 100 s for 0.4, which is one node: node 1 sleeps. At 200 s it is woken.
    assert_eq!(schedule.start_ms(1), Some(230_000));
    let changes: Vec<(i64, u32, State)> =
        record.changes.iter().map(|change| (change.at_ms / 1000, change.node, change.state)).collect();
    let expected =
        [(100, 1, State::ShuttingDown), (105, 1, State::Asleep), (200, 1, State::Booting), (230, 1, State::Powered)];
    assert_eq!(changes, expected);
    let slots = &record.pools[0].seen.slots;
    // One node for 50 s of 100 s; then 16 GPUs wait on nodes of 8.
    assert_eq!((slots[0].peak, slots[0].last, slots[0].mean, slots[0].pending), (1.0, 0.0, 0.5, 0.0));
    assert_eq!((slots[1].peak, slots[1].pending, slots[1].total), (0.0, 2.0, 2.0));
    assert_eq!((slots[2].peak, slots[2].mean, slots[2].pending), (2.0, 0.2, 2.0));
}
