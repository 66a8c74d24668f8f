//! Timelines worked out by hand, and what holds for every workload.

use super::*;

const RULES: [Rule; 5] = [Rule::Fifo, Rule::Sjf, Rule::Qssf, Rule::Srtf, Rule::Tiresias];

/// Submit, run, GPUs; the estimate is true.
fn jobs(rows: &[(i64, i64, u32)]) -> Vec<Job> {
    rows.iter().map(|&(submit_s, run_s, gpus)| Job { submit_s, run_s, gpus, estimate_s: run_s as f64 }).collect()
}

/// Submit, run, GPUs, estimate.
fn estimated(rows: &[(i64, i64, u32, f64)]) -> Vec<Job> {
    rows.iter().map(|&(submit_s, run_s, gpus, estimate_s)| Job { submit_s, run_s, gpus, estimate_s }).collect()
}

fn consolidated(jobs: &[Job], nodes: usize, rule: Rule) -> Vec<Outcome> {
    replay(jobs, nodes, rule, Place::Consolidate, 0)
}

fn starts_and_ends(outcomes: &[Outcome]) -> Vec<(i64, i64)> {
    outcomes.iter().map(|outcome| (outcome.start_s.unwrap(), outcome.end_s.unwrap())).collect()
}

fn preemptions(outcomes: &[Outcome]) -> Vec<u32> {
    outcomes.iter().map(|outcome| outcome.preemptions).collect()
}

#[test]
fn fifo_goes_by_submit_then_file_order_and_stops_at_the_first_that_does_not_fit() {
    // One node. A has all GPUs from 0 to 10. B and C (4 + 4) start at 10: B ends at 15, C at 13. D wants all 8: at 13
    // only 4 are free, so it starts at 15. E would fit at 13, but D is before it: 8 + 1 > 8 at 15, so it starts when
    // D ends, at 16.
    let outcomes = consolidated(&jobs(&[(0, 10, 8), (0, 5, 4), (1, 3, 4), (2, 1, 8), (2, 2, 1)]), 1, Rule::Fifo);
    assert_eq!(starts_and_ends(&outcomes), [(0, 10), (10, 15), (10, 13), (15, 16), (16, 18)]);

    // The same jobs with the file in another order: D and E change places, as both were submitted at 2. At 13 E (1
    // GPU) starts, ends at 15; then D.
    let outcomes = consolidated(&jobs(&[(2, 2, 1), (2, 1, 8), (1, 3, 4), (0, 10, 8), (0, 5, 4)]), 1, Rule::Fifo);
    // At 10 B, C take 4 + 4: E waits for C until 13.
    assert_eq!(starts_and_ends(&outcomes), [(13, 15), (15, 16), (10, 13), (0, 10), (10, 15)]);
}

#[test]
fn sjf_goes_by_true_run_time_and_ties_keep_queue_order() {
    // One node, every job wants it all. A 0-10; then the runs 3, 3, 5: C before D as it came first. B 16-21.
    let outcomes = consolidated(&jobs(&[(0, 10, 8), (1, 5, 8), (2, 3, 8), (3, 3, 8)]), 1, Rule::Sjf);
    assert_eq!(starts_and_ends(&outcomes), [(0, 10), (16, 21), (10, 13), (13, 16)]);
}

#[test]
fn qssf_orders_by_gpus_alone_in_the_second_of_joining_an_empty_queue() {
    // Both join at 0: by GPUs B is first though its priority is 100 × 1 against 1 × 8. B 0-10, A when it ends.
    let rows = estimated(&[(0, 2, 8, 1.0), (0, 10, 1, 100.0)]);
    assert_eq!(starts_and_ends(&consolidated(&rows, 1, Rule::Qssf)), [(10, 12), (0, 10)]);

    // The same two join at 5, but W (8 GPUs, 100 × 8 = 800) has waited since 1 for H to end at 5. Now all have
    // priorities: A (8) 5-7, B (100) 7-17, W (800) when B ends.
    let rows = estimated(&[(0, 5, 8, 5.0), (1, 1, 8, 100.0), (5, 2, 8, 1.0), (5, 10, 1, 100.0)]);
    assert_eq!(starts_and_ends(&consolidated(&rows, 1, Rule::Qssf)), [(0, 5), (17, 18), (5, 7), (7, 17)]);
}

#[test]
fn qssf_breaks_ties_of_priority_by_gpus() {
    // H has the node until 10. X (1 GPU × 100 = 100) and Y (8 × 2 = 16) join at 1, Z (2 × 8 = 16) at 3. At 10 the
    // order by priority is Z, Y (both 16, fewer GPUs first), X. Z 10-13; Y does not fit beside it and X is behind Y:
    // Y 13-17, X 17-18.
    let rows = estimated(&[(0, 10, 8, 1.0), (1, 1, 1, 100.0), (1, 4, 8, 2.0), (3, 3, 2, 8.0)]);
    assert_eq!(starts_and_ends(&consolidated(&rows, 1, Rule::Qssf)), [(0, 10), (17, 18), (13, 17), (10, 13)]);

    // A negative estimate goes first: -1 × 8 before 1 × 8, both behind H.
    let rows = estimated(&[(0, 10, 8, 1.0), (1, 5, 8, 1.0), (1, 4, 8, -1.0)]);
    assert_eq!(starts_and_ends(&consolidated(&rows, 1, Rule::Qssf)), [(0, 10), (14, 19), (10, 14)]);
}

#[test]
fn srtf_preempts_and_charges_by_size() {
    // 8 GPUs: at 3 A has 10 - 3 = 7 s left, B 2: A is preempted with 7 + 30 = 37. B 3 to 3 + 2 + 1 = 6; A 6 to 6 + 37
    // + 1 = 44.
    let outcomes = consolidated(&jobs(&[(0, 10, 8), (3, 2, 8)]), 1, Rule::Srtf);
    assert_eq!((starts_and_ends(&outcomes), preemptions(&outcomes)), (vec![(0, 44), (3, 6)], vec![1, 0]));

    // 1 GPU: at 2 A has 8 s left, B 1: A is left with 8 + 7 = 15. B 2 to 2 + 1 + 1 = 4, A 4 to 4 + 15 + 1 = 20.
    let outcomes = consolidated(&jobs(&[(0, 10, 1), (2, 1, 8)]), 1, Rule::Srtf);
    assert_eq!((starts_and_ends(&outcomes), preemptions(&outcomes)), (vec![(0, 20), (2, 4)], vec![1, 0]));

    // 16 GPUs on two nodes: at 2 A has 8 s left, B (1 GPU) 1 s, and 15 GPUs are not enough: A is left with 8 + 60 =
    // 68. B 2 to 4, A 4 to 4 + 68 + 1 = 73.
    let outcomes = consolidated(&jobs(&[(0, 10, 16), (2, 1, 1)]), 2, Rule::Srtf);
    assert_eq!((starts_and_ends(&outcomes), preemptions(&outcomes)), (vec![(0, 73), (2, 4)], vec![1, 0]));
}

#[test]
fn srtf_prefers_the_waiting_job_on_a_tie() {
    // At 4 A has 6 s left and so has B: B is first. A is left with 36. B 4 to 4 + 6 + 1 = 11, A 11 to 11 + 36 + 1 =
    // 48.
    let outcomes = consolidated(&jobs(&[(0, 10, 8), (4, 6, 8)]), 1, Rule::Srtf);
    assert_eq!((starts_and_ends(&outcomes), preemptions(&outcomes)), (vec![(0, 48), (4, 11)], vec![1, 0]));
}

#[test]
fn srtf_can_preempt_a_job_twice() {
    // A has 7 left at 3 and 37 after B's coming; it runs again from 6. C comes at 8 when A has 37 - 2 = 35 left, C 1:
    // A is left with 65. C 8 to 10; A 10 to 10 + 65 + 1 = 76. In sum: 76 = waited 3 + 2, run 10, 1, and two times 30.
    let outcomes = consolidated(&jobs(&[(0, 10, 8), (3, 2, 8), (8, 1, 8)]), 1, Rule::Srtf);
    assert_eq!((starts_and_ends(&outcomes), preemptions(&outcomes)), (vec![(0, 76), (3, 6), (8, 10)], vec![2, 0, 0]));
}

#[test]
fn srtf_skips_what_exceeds_the_quota() {
    // A holds 6 of 8 GPUs until 0 + 10 + 1 = 11. B (4) exceeds the 2 left, C (2) does not: C 2 to 2 + 30 + 1 = 33. B
    // 11 to 32.
    let outcomes = consolidated(&jobs(&[(0, 10, 6), (1, 20, 4), (2, 30, 2)]), 1, Rule::Srtf);
    assert_eq!((starts_and_ends(&outcomes), preemptions(&outcomes)), (vec![(0, 11), (11, 32), (2, 33)], vec![0, 0, 0]));
}

#[test]
fn srtf_skips_what_is_inside_the_quota_but_cannot_be_placed() {
    // Two nodes. A (5 GPUs) on node 0, B (5) on node 1: 3 and 3 free, 16 - 5 - 5 = 6 of the quota left. C (4) is
    // inside it but fits no node; D (2), 6 - 4 = 2 left, goes to node 0 at 1. A ends at 11: node 0 has 8 - 2 = 6 free
    // and takes C, 11 to 32.
    let outcomes = consolidated(&jobs(&[(0, 10, 5), (0, 12, 5), (1, 20, 4), (1, 30, 2)]), 2, Rule::Srtf);
    assert_eq!(starts_and_ends(&outcomes), [(0, 11), (0, 13), (11, 32), (1, 32)]);
    assert_eq!(outcomes[2].nodes, [(0, 4)]);
    assert_eq!(outcomes[3].nodes, [(0, 2)]);
}

#[test]
fn tiresias_decides_once_a_minute_after_the_origin() {
    // Origin 0: A, submitted at 5, starts at 60 and ends at 60 + 100 + 1 = 161; B at the next minute, 180, to 180 +
    // 10 + 1.
    let rows = jobs(&[(5, 100, 8), (6, 10, 8)]);
    assert_eq!(starts_and_ends(&consolidated(&rows, 1, Rule::Tiresias)), [(60, 161), (180, 191)]);
    // Origin 5: minutes at 5, 65, 125. A 5 to 106, B 125 to 136.
    let outcomes = replay(&rows, 1, Rule::Tiresias, Place::Consolidate, 5);
    assert_eq!(starts_and_ends(&outcomes), [(5, 106), (125, 136)]);
}

#[test]
fn tiresias_lowers_a_job_above_18000_gpu_seconds() {
    // One node; A (5 GPUs, 4,000 s) and B (5 GPUs, 10 s). At 3,600 A has attained exactly 18,000: still high and
    // before B by submit. At 3,660 it has 18,300: low, preempted with 4,000 - 3,660 + 40 = 380 left. B 3,660 to
    // 3,671. A runs again from 3,720 to 3,720 + 380 + 1 = 4,101.
    let outcomes = consolidated(&jobs(&[(0, 4_000, 5), (1, 10, 5)]), 1, Rule::Tiresias);
    assert_eq!((starts_and_ends(&outcomes), preemptions(&outcomes)), (vec![(0, 4_101), (3_660, 3_671)], vec![1, 0]));

    // Three nodes, 24 GPUs each: 24 × 720 = 17,280 is high, 24 × 780 = 18,720 is low. A is left with 2,000 - 780 + 60
    // = 1,280. B 780 to 791; A from 840 to 840 + 1,280 + 1 = 2,121.
    let outcomes = consolidated(&jobs(&[(0, 2_000, 24), (1, 10, 24)]), 3, Rule::Tiresias);
    assert_eq!((starts_and_ends(&outcomes), preemptions(&outcomes)), (vec![(0, 2_121), (780, 791)], vec![1, 0]));
}

#[test]
fn tiresias_leaves_a_running_job_alone_on_a_tie() {
    // Same submit: A goes on. 0 to 0 + 100 + 1; B at the next minute, 120, to 221.
    let outcomes = consolidated(&jobs(&[(0, 100, 16), (0, 100, 16)]), 2, Rule::Tiresias);
    assert_eq!((starts_and_ends(&outcomes), preemptions(&outcomes)), (vec![(0, 101), (120, 221)], vec![0, 0]));
}

#[test]
fn a_gang_takes_free_nodes_and_its_remainder_the_most_free_node() {
    let nodes_of_last = |rows: &[(i64, i64, u32)], nodes| {
        let outcomes = consolidated(&jobs(rows), nodes, Rule::Fifo);
        let last = outcomes.last().unwrap().clone();
        (last.start_s.unwrap(), last.nodes)
    };
    // All free: 8 on node 0, 4 on node 1.
    assert_eq!(nodes_of_last(&[(0, 9, 12)], 3), (0, vec![(0, 8), (1, 4)]));
    // Node 0 has 4 free, just the remainder; but node 2 is completely free and preferred: worst fit.
    assert_eq!(nodes_of_last(&[(0, 9, 4), (0, 9, 12)], 3), (0, vec![(1, 8), (2, 4)]));
    // No further free node: node 0 has 5.
    assert_eq!(nodes_of_last(&[(0, 9, 3), (0, 9, 12)], 2), (0, vec![(0, 4), (1, 8)]));
    // Free 3, 4, 8: the most free beside node 2 is node 1.
    assert_eq!(nodes_of_last(&[(0, 9, 5), (0, 9, 4), (0, 9, 12)], 3), (0, vec![(1, 4), (2, 8)]));
    // Free 3, 3, 8 and a remainder of 3: the lower index.
    assert_eq!(nodes_of_last(&[(0, 9, 5), (0, 9, 5), (0, 9, 11)], 3), (0, vec![(0, 3), (2, 8)]));
    // Free 3, 3, 8 are 14 GPUs, but the remainder 4 fits nowhere: waits for the first to end at 9.
    assert_eq!(nodes_of_last(&[(0, 9, 5), (0, 12, 5), (0, 9, 12)], 3), (9, vec![(0, 8), (2, 4)]));
    // 16 GPUs want two free nodes: free 7, 8 and later 8, 8.
    assert_eq!(nodes_of_last(&[(0, 9, 1), (0, 9, 16)], 2), (9, vec![(0, 8), (1, 8)]));
    // Up to 8 GPUs: the tightest node. Free 3, 2, 8: two GPUs go to node 1, three to node 0, four to node 2.
    for (gpus, node) in [(2, 1), (3, 0), (4, 2)] {
        assert_eq!(nodes_of_last(&[(0, 9, 5), (0, 9, 6), (0, 9, gpus)], 3), (0, vec![(node, gpus)]));
    }
}

#[test]
fn random_placement_fills_nodes_in_order() {
    // Two nodes. A takes 3 of node 0; B 5 there and 1 on node 1; C wants 8, 7 are free: waits for A at 9, then 3 + 5.
    let outcomes = replay(&jobs(&[(0, 9, 3), (0, 20, 6), (0, 9, 8)]), 2, Rule::Fifo, Place::Random, 0);
    let nodes: Vec<_> = outcomes.iter().map(|outcome| outcome.nodes.clone()).collect();
    assert_eq!(nodes, [vec![(0, 3)], vec![(0, 5), (1, 1)], vec![(0, 3), (1, 5)]]);
    assert_eq!(starts_and_ends(&outcomes), [(0, 9), (0, 20), (9, 18)]);
}

#[test]
fn a_job_of_zero_seconds_ends() {
    // It starts and ends at 0, its GPUs are free from 1: B 1 to 6.
    let rows = jobs(&[(0, 0, 8), (0, 5, 8)]);
    for rule in [Rule::Fifo, Rule::Sjf, Rule::Qssf] {
        assert_eq!(starts_and_ends(&consolidated(&rows, 1, rule)), [(0, 0), (1, 6)], "{rule:?}");
    }
    // SRTF: 0 + 0 + 1; B 1 to 1 + 5 + 1. Tiresias: the same, but B starts at 60.
    assert_eq!(starts_and_ends(&consolidated(&rows, 1, Rule::Srtf)), [(0, 1), (1, 7)]);
    assert_eq!(starts_and_ends(&consolidated(&rows, 1, Rule::Tiresias)), [(0, 1), (60, 66)]);
}

#[test]
fn a_job_larger_than_its_vc_never_joins_the_queue() {
    // Nor does one without GPUs. A is not held up by either: ends at 1, and one second later under SRTF and Tiresias.
    for rule in RULES {
        let outcomes = consolidated(&jobs(&[(0, 5, 12), (0, 5, 0), (0, 1, 8)]), 1, rule);
        assert_eq!(outcomes[..2], [Outcome::default(), Outcome::default()], "{rule:?}");
        let end_s = if matches!(rule, Rule::Srtf | Rule::Tiresias) { 2 } else { 1 };
        let nodes = vec![(0, 8)];
        assert_eq!(outcomes[2], Outcome { start_s: Some(0), end_s: Some(end_s), preemptions: 0, nodes }, "{rule:?}");
    }
    assert_eq!(consolidated(&[], 1, Rule::Fifo), []);
    assert_eq!(consolidated(&jobs(&[(0, 5, 1)]), 0, Rule::Srtf), [Outcome::default()]);
}

#[test]
fn random_workloads_are_nasty_and_replay_within_the_laws() {
    let (mut ties, mut odd_gangs, mut zero, mut oversize, mut waited, mut preempted) = (0, 0, 0, 0, 0, 0);
    let mut lowered = 0;
    for seed in 0..120 {
        let nodes = 1 + seed as usize % 4;
        let longest_s = if seed % 3 == 0 { 3_000 } else { 200 };
        let jobs = random_jobs(seed, nodes, 24, longest_s);
        assert_eq!(jobs, random_jobs(seed, nodes, 24, longest_s), "the same for the same seed");
        assert!(jobs.iter().all(|job| (1..=24).contains(&job.gpus) && (0..=longest_s).contains(&job.run_s)));
        assert!(jobs.is_sorted_by_key(|job| job.submit_s));
        ties += jobs.windows(2).filter(|pair| pair[0].submit_s == pair[1].submit_s).count();
        odd_gangs += jobs.iter().filter(|job| job.gpus > 8 && job.gpus % 8 > 0).count();
        zero += jobs.iter().filter(|job| job.run_s == 0).count();
        for rule in RULES {
            for place in [Place::Consolidate, Place::Random] {
                let outcomes = replay(&jobs, nodes, rule, place, 1_000);
                for (job, outcome) in jobs.iter().zip(&outcomes) {
                    if job.gpus > NODE_GPUS * nodes as u32 {
                        assert_eq!(*outcome, Outcome::default());
                        oversize += 1;
                        continue;
                    }
                    let (start_s, end_s) = (outcome.start_s.unwrap(), outcome.end_s.unwrap());
                    assert!(start_s >= job.submit_s);
                    assert_eq!(outcome.nodes.iter().map(|(_, gpus)| gpus).sum::<u32>(), job.gpus);
                    assert!(outcome.nodes.iter().all(|(node, gpus)| *node < nodes && (1..=8).contains(gpus)));
                    waited += usize::from(start_s > job.submit_s);
                    preempted += outcome.preemptions;
                    if matches!(rule, Rule::Srtf | Rule::Tiresias) {
                        // What it ran in all, and between start and end it can only have waited besides.
                        let ran_s = job.run_s + 1 + i64::from(outcome.preemptions) * overhead_s(rule, job.gpus);
                        assert!(end_s - start_s >= ran_s);
                        assert!(outcome.preemptions > 0 || end_s - start_s == ran_s);
                    } else {
                        assert_eq!((end_s - start_s, outcome.preemptions), (job.run_s, 0));
                        // No node is ever asked for more than it has: checked at this job's start.
                        for node in 0..nodes {
                            let held: u32 = jobs
                                .iter()
                                .zip(&outcomes)
                                .filter(|(job, outcome)| {
                                    let from = outcome.start_s.unwrap_or(i64::MAX);
                                    (from..from.saturating_add(job.run_s.max(1))).contains(&start_s)
                                })
                                .flat_map(|(_, outcome)| &outcome.nodes)
                                .filter(|(other, _)| *other == node)
                                .map(|(_, gpus)| gpus)
                                .sum();
                            assert!(held <= NODE_GPUS, "node {node} at {start_s}: {held} GPUs");
                        }
                    }
                    lowered += usize::from(rule == Rule::Tiresias && job.run_s * i64::from(job.gpus) > 18_000);
                }
            }
        }
    }
    // All of it happens, and often.
    for (what, count) in [("ties", ties), ("odd gangs", odd_gangs), ("zero", zero), ("oversize", oversize)] {
        assert!(count > 100, "{what}: {count}");
    }
    assert!(waited > 1_000 && preempted > 500 && lowered > 50, "{waited} waited, {preempted}, {lowered} lowered");
}
