//! What a schedule must be: timelines worked out by hand, and no unit given twice whatever comes.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::nodes::mask;
use super::*;

fn job(submit_s: i64, vc: u32, units: u32, run_s: i64) -> Request {
    Request { submit_ms: submit_s * 1_000, vc, units, run_ms: run_s * 1_000, max_attempts: 2 }
}

fn pool(nodes: &[u32]) -> Pool {
    Pool { units_per_node: 8, node_vc: nodes.to_vec(), vcs: nodes.iter().max().map_or(0, |vc| vc + 1) }
}

/// (job, attempt, start s, end s, failed) of each attempt.
fn timeline(schedule: &Schedule) -> Vec<(u32, u32, i64, i64, bool)> {
    schedule
        .attempts
        .iter()
        .map(|a| (a.job, a.number, a.start_ms / 1_000, a.end_ms.map_or(-1, |end| end / 1_000), a.failed))
        .collect()
}

fn nodes(schedule: &Schedule, attempt: usize) -> Vec<(u32, u128)> {
    schedule.attempts[attempt].slices.iter().map(|slice| (slice.node, slice.units)).collect()
}

const STRICT: Queueing = Queueing { overtake: 0, patience_ms: 0 };
const LONG: i64 = 1_000_000_000;

#[test]
fn nothing_overtakes_a_job_that_does_not_fit() {
    // Node of 8: job 0 holds 6 of 8 for 0..100. Job 1 (4) waits; job 2 (1) would fit but stands behind it.
    let jobs = [job(0, 0, 6, 100), job(10, 0, 4, 50), job(20, 0, 1, 5)];
    let out = schedule(&jobs, &pool(&[0]), STRICT, &[], &[], LONG);
    assert_eq!(timeline(&out), [(0, 1, 0, 100, false), (1, 1, 100, 150, false), (2, 1, 100, 105, false)]);
}

#[test]
fn a_job_that_fits_overtakes_until_patience_ends() {
    // As above with 2 of 8 left beside job 0. Job 2 (1) passes job 1 (4) at 20 s, when that has waited 10 s; job 3, the
    // same at 80 s, does not, as by then it has waited 70 s, more than 60.
    let jobs = [job(0, 0, 6, 100), job(10, 0, 4, 50), job(20, 0, 1, 5), job(80, 0, 1, 5)];
    let queueing = Queueing { overtake: 1, patience_ms: 60_000 };
    let out = schedule(&jobs, &pool(&[0]), queueing, &[], &[], LONG);
    let expected = [(0, 1, 0, 100, false), (2, 1, 20, 25, false), (1, 1, 100, 150, false), (3, 1, 100, 105, false)];
    assert_eq!(timeline(&out), expected);
}

#[test]
fn small_jobs_go_to_the_tightest_node_and_large_ones_to_free_nodes() {
    // Three nodes. Job 0 takes 5 of node 0 (3 left), job 1 takes 6 of node 1 (best fit for 6 is a free node: lowest),
    // job 2 (2) fits node 1's 2 exactly, job 3 (3) node 0's 3 exactly, job 4 (8) the free node 2.
    let jobs = [job(0, 0, 5, 10), job(0, 0, 6, 10), job(0, 0, 2, 10), job(0, 0, 3, 10), job(0, 0, 8, 10)];
    let out = schedule(&jobs, &pool(&[0, 0, 0]), STRICT, &[], &[], LONG);
    assert_eq!(nodes(&out, 0), [(0, 0b0001_1111)]);
    assert_eq!(nodes(&out, 1), [(1, 0b0011_1111)]);
    assert_eq!(nodes(&out, 2), [(1, 0b1100_0000)]);
    assert_eq!(nodes(&out, 3), [(0, 0b1110_0000)]);
    assert_eq!(nodes(&out, 4), [(2, 0b1111_1111)]);
}

#[test]
fn a_gang_takes_free_nodes_and_puts_its_rest_where_it_fits_best() {
    // 20 = two free nodes and 4. Job 0 holds 3 of node 0, so 5 are left there: nodes 1 and 2 whole, 4 on node 0.
    let jobs = [job(0, 0, 3, 100), job(1, 0, 20, 10)];
    let out = schedule(&jobs, &pool(&[0, 0, 0]), STRICT, &[], &[], LONG);
    assert_eq!(nodes(&out, 1), [(1, 0xff), (2, 0xff), (0, 0b0111_1000)]);
    // With only two nodes there is one free node where two are needed: it waits for job 0, then fits only 16 of 20.
    let out = schedule(&jobs, &pool(&[0, 0]), STRICT, &[], &[], LONG);
    assert_eq!(timeline(&out), [(0, 1, 0, 100, false)]);
}

#[test]
fn vcs_do_not_borrow() {
    // VC 0 is full until 100 s; VC 1's node stays idle while job 1 waits.
    let jobs = [job(0, 0, 8, 100), job(5, 0, 1, 10), job(6, 1, 1, 10)];
    let out = schedule(&jobs, &pool(&[0, 1]), STRICT, &[], &[], LONG);
    assert_eq!(timeline(&out), [(0, 1, 0, 100, false), (2, 1, 6, 16, false), (1, 1, 100, 110, false)]);
}

#[test]
fn a_failed_node_requeues_its_jobs_from_the_beginning() {
    // One node, down 50..80 s. Job 0 (100 s) loses its 50 s and runs again 80..180; job 1, submitted at 10 s behind
    // it and not fitting, was first in the queue when the node came back and runs 80..90 with 8 of 8 units, so job 0
    // follows at 90 and ends at 190.
    let jobs = [job(0, 0, 8, 100), job(10, 0, 8, 10)];
    let down = [Outage { node: 0, from_ms: 50_000, to_ms: 80_000 }];
    let out = schedule(&jobs, &pool(&[0]), STRICT, &[], &down, LONG);
    assert_eq!(timeline(&out), [(0, 1, 0, 50, true), (1, 1, 80, 90, false), (0, 2, 90, 190, false)]);
    // With one attempt allowed it ends there.
    let once = jobs.map(|job| Request { max_attempts: 1, ..job });
    let out = schedule(&once, &pool(&[0]), STRICT, &[], &down, LONG);
    assert_eq!(timeline(&out), [(0, 1, 0, 50, true), (1, 1, 80, 90, false)]);
}

#[test]
fn a_node_changes_hands_when_its_last_job_ends() {
    // At 10 s one node of VC 0 is to go to VC 1. Node 1 holds less (1 against 8), so it is drained: it takes neither
    // job 2 (which waits for node 0) nor anything of VC 1 before job 1 ends at 60 s. Then job 3 starts on it.
    let jobs = [job(0, 0, 8, 100), job(0, 0, 1, 60), job(20, 0, 1, 5), job(30, 1, 8, 5)];
    let change = [Change { at_ms: 10_000, from: 0, to: 1, nodes: 1 }];
    let mut pool = pool(&[0, 0]);
    pool.vcs = 2;
    let out = schedule(&jobs, &pool, STRICT, &change, &[], LONG);
    assert_eq!(
        timeline(&out),
        [(0, 1, 0, 100, false), (1, 1, 0, 60, false), (3, 1, 60, 65, false), (2, 1, 100, 105, false)]
    );
    assert_eq!(nodes(&out, 2), [(1, 0xff)]);
    assert_eq!(out.handovers, [Handover { ordered_ms: 10_000, at_ms: 60_000, node: 1, from: 0, to: 1 }]);
}

#[test]
fn what_is_not_over_when_the_record_is_taken_has_no_end() {
    let out = schedule(&[job(0, 0, 1, 100), job(200, 0, 1, 1)], &pool(&[0]), STRICT, &[], &[], 100_000);
    assert_eq!(timeline(&out), [(0, 1, 0, -1, false)]);
}

/// Units in use and units there are, checked at every instant at which something starts.
fn check(requests: &[Request], pool: &Pool, queueing: Queueing, outages: &[Outage], out: &Schedule, until_ms: i64) {
    let vc_at = |node: u32, at_ms: i64| {
        let moved = out.handovers.iter().rev().find(|h| h.node == node && h.at_ms <= at_ms);
        moved.map_or(pool.node_vc[node as usize], |h| h.to)
    };
    for (ix, a) in out.attempts.iter().enumerate() {
        let request = requests[a.job as usize];
        let units: u32 = a.slices.iter().map(|slice| slice.units.count_ones()).sum();
        assert_eq!(units, request.units, "all units at once");
        assert!(a.start_ms >= request.submit_ms);
        let end = a.end_ms.unwrap_or(until_ms);
        if a.end_ms.is_some() && !a.failed {
            assert_eq!(end - a.start_ms, request.run_ms);
        }
        for slice in &a.slices {
            assert!(slice.units <= mask(pool.units_per_node));
            assert_eq!(vc_at(slice.node, a.start_ms), request.vc, "on a node of its VC when it starts");
            if a.end_ms.is_some() && end > a.start_ms {
                assert_eq!(vc_at(slice.node, end - 1), request.vc, "and as long as it runs");
            }
            for outage in outages.iter().filter(|outage| outage.node == slice.node) {
                assert!(end <= outage.from_ms || a.start_ms >= outage.to_ms, "not on a node that is down");
            }
            for b in out.attempts.iter().skip(ix + 1) {
                let b_end = b.end_ms.unwrap_or(until_ms);
                if a.start_ms < b_end && b.start_ms < end {
                    let shared = b.slices.iter().any(|o| o.node == slice.node && o.units & slice.units != 0);
                    assert!(!shared, "no unit is given twice");
                }
            }
        }
    }
    // Strict FIFO within a VC: first attempts start in order of submission.
    for vc in (0..pool.vcs).filter(|_| queueing.overtake == 0) {
        let mut firsts: Vec<(i64, u32, i64)> = out
            .attempts
            .iter()
            .filter(|a| a.number == 1 && requests[a.job as usize].vc == vc)
            .map(|a| (requests[a.job as usize].submit_ms, a.job, a.start_ms))
            .collect();
        firsts.sort_unstable();
        assert!(firsts.is_sorted_by_key(|(_, _, start)| *start), "first in, first out");
    }
}

proptest! {
    #[test]
    fn no_unit_is_given_twice(
        jobs in prop::collection::vec((0i64..500, 0u32..2, 1u32..=20, 0i64..120, 1u32..4), 1..60),
        change_s in 0i64..500,
        outage in (0u32..7, 0i64..500, 1i64..100),
        until_s in 100i64..2_000,
        overtake in 0u32..4,
    ) {
        let requests: Vec<Request> = jobs
            .iter()
            .map(|(submit, vc, units, run, tries)| Request { max_attempts: *tries, ..job(*submit, *vc, *units, *run) })
            .collect();
        // Four and three nodes of 8; after the change three and four: 20 units always fit.
        let pool = pool(&[0, 0, 0, 0, 1, 1, 1]);
        let change = [Change { at_ms: change_s * 1_000, from: 0, to: 1, nodes: 1 }];
        let (node, from, length) = outage;
        let outages = [Outage { node, from_ms: from * 1_000, to_ms: (from + length) * 1_000 }];
        let queueing = Queueing { overtake, patience_ms: 50_000 };
        let out = schedule(&requests, &pool, queueing, &change, &outages, until_s * 1_000);
        check(&requests, &pool, queueing, &outages, &out, until_s * 1_000);
        // Given time, every job starts.
        let done = schedule(&requests, &pool, queueing, &change, &outages, LONG);
        let started = done.attempts.iter().filter(|a| a.number == 1).count();
        prop_assert_eq!(started, requests.len());
    }
}
