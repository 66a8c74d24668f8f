//! Timelines worked out by hand.
#![allow(clippy::unwrap_used)]

use crate::sim::*;

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
    cluster.vcs.push(Vc { name: "b".into(), pool: 0, quota_milli: Vec::new() });
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
    let found = starts(&workload, &Cluster::of_vcs(&[("all", 1, 8)]), &policy);
    assert_eq!(found, [Some(0), Some(130), Some(20), Some(70)]);
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
