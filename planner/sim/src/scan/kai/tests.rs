//! KAI's documented examples, and a few more, worked out by hand.

use super::super::story::{self, jobs, name, pool, starts};
use crate::kai::{Hierarchy, KaiQueue, KaiRules, UsageRule, UsageWindow, tests};
use crate::{Cluster, Policy, Scan, Schedule, Workload, simulate};

/// A queue under test, with a quota in GPUs.
fn queue(quota: u64) -> KaiQueue {
    tests::queue("", None, quota)
}

/// Leaves, then queues above them, on one node for every 8 GPUs.
fn cluster(nodes: u32, leaves: &[KaiQueue], above: &[KaiQueue], rules: KaiRules) -> Cluster {
    let named = |(at, queue): (usize, &KaiQueue)| KaiQueue { name: name(at), created: at as u32, ..queue.clone() };
    let queues: Vec<KaiQueue> = leaves.iter().chain(above).enumerate().map(named).collect();
    let names: Vec<String> = (0..leaves.len()).map(name).collect();
    let tree = Hierarchy::new(queues, leaves.len(), rules).unwrap();
    Cluster { kai: Some(tree), ..pool(nodes, &names) }
}

fn plain(nodes: u32, leaves: &[KaiQueue]) -> Cluster {
    cluster(nodes, leaves, &[], KaiRules::default())
}

fn replay(jobs: &Workload, cluster: &Cluster) -> Schedule {
    story::replay(jobs, cluster, Scan::Kai, None)
}

#[test]
fn a_queue_uses_what_others_leave_up_to_its_limit() {
    let list = [(0, 0, 100, 4, 50), (0, 0, 100, 2, 50), (0, 0, 100, 2, 50)];
    assert_eq!(starts(&replay(&jobs(&list), &plain(1, &[queue(2), queue(4)]))), [[0], [0], [0]]);
    let limited = KaiQueue { limit: Some(6000), ..queue(2) };
    assert_eq!(starts(&replay(&jobs(&list), &plain(1, &[limited, queue(4)]))), [[0], [0], [100]]);
    // The limit of the queue above holds for both; what could never run is rejected.
    let below = |quota: u64| KaiQueue { parent: Some(2), ..queue(quota) };
    let above = KaiQueue { limit: Some(6000), ..queue(6) };
    let all = cluster(1, &[below(2), below(4)], &[above], KaiRules::default());
    let list = [(0, 0, 100, 4, 50), (1, 0, 100, 4, 50), (1, 0, 100, 7, 50)];
    assert_eq!(starts(&replay(&jobs(&list), &all)), [vec![100], vec![0], vec![]]);
}

#[test]
fn who_is_within_its_quota_comes_first() {
    // a holds its 4, and both wait for 4 GPUs: those that end go to b, though a's job came first.
    let list = [(0, 0, 500, 4, 50), (0, 0, 100, 4, 50), (0, 10, 50, 4, 50), (1, 20, 50, 4, 50)];
    let never = Policy { scan: Scan::Kai, ..Policy::default() };
    let result = simulate(&jobs(&list), &plain(1, &[queue(4), queue(4)]), &never).unwrap();
    assert_eq!(starts(&result), [[0], [0], [150], [100]]);
    // A job that does not fit holds up nobody.
    let list = [(0, 0, 100, 6, 50), (0, 10, 10, 4, 50), (0, 20, 10, 2, 50)];
    assert_eq!(starts(&replay(&jobs(&list), &plain(1, &[queue(8)]))), [[0], [100], [20]]);
}

#[test]
fn what_is_over_the_share_is_reclaimed_from_the_last_submitted() {
    let mut list = vec![(1, 0, 100, 1, 50); 8];
    list.push((0, 10, 50, 4, 50));
    let result = replay(&jobs(&list), &plain(1, &[queue(4), queue(4)]));
    assert_eq!(result.preemptions, [0, 0, 0, 0, 1, 1, 1, 1, 0]);
    // They begin anew when a's job ends.
    let all = starts(&result);
    assert_eq!((&all[3], &all[4], &all[8]), (&vec![0], &vec![0, 60], &vec![10]));
    // A job that asks for more than its fair share waits, and stops nobody.
    list[8] = (0, 10, 50, 6, 50);
    let result = replay(&jobs(&list), &plain(1, &[queue(4), queue(4)]));
    assert_eq!((result.preemptions.iter().sum::<u32>(), starts(&result)[8].clone()), (0, vec![100]));
    // Within its quota a queue loses nothing.
    list[8] = (0, 10, 50, 4, 50);
    let result = replay(&jobs(&list), &plain(1, &[queue(4), queue(8)]));
    assert_eq!(result.preemptions.iter().sum::<u32>(), 0);
    // Firm jobs are not stopped: those that run within the quota of 8 cannot be.
    let firm: Vec<_> = list.iter().map(|job| (job.0, job.1, job.2, job.3, 100)).collect();
    let result = replay(&jobs(&firm), &plain(1, &[queue(4), queue(8)]));
    assert_eq!(result.preemptions.iter().sum::<u32>(), 0);
}

#[test]
fn firm_jobs_run_within_quotas_alone() {
    // Two of quota 4 with limit: the third firm job waits although GPUs are free; a preemptible one does not.
    let list = [(0, 0, 100, 2, 100), (0, 0, 100, 2, 125), (0, 0, 50, 2, 100), (0, 1, 50, 2, 50), (0, 1, 50, 5, 100)];
    let result = replay(&jobs(&list), &plain(1, &[queue(4), queue(4)]));
    assert_eq!(starts(&result), [vec![0], vec![0], vec![100], vec![1], vec![]]);
}

/// The documented example: a queue limited to one GPU, a train job (50), then a build job (100).
#[test]
fn higher_priority_preempts_in_its_own_queue() {
    let limited = KaiQueue { limit: Some(1000), ..queue(1) };
    let list = [(0, 0, 100, 1, 50), (0, 10, 20, 1, 100)];
    assert_eq!(starts(&replay(&jobs(&list), &plain(1, std::slice::from_ref(&limited)))), [vec![0, 30], vec![10]]);
    // Not of the same priority, and not before the minimum runtime.
    let same = [(0, 0, 100, 1, 75), (0, 10, 20, 1, 75)];
    assert_eq!(starts(&replay(&jobs(&same), &plain(1, std::slice::from_ref(&limited)))), [vec![0], vec![100]]);
    let patient = KaiQueue { preempt_min_ms: Some(40_000), ..limited };
    assert_eq!(starts(&replay(&jobs(&list), &plain(1, &[patient]))), [vec![0, 60], vec![40]]);
}

/// KAI's issue 1934: a queue that parts from the others at the top, over a queue without quota,
/// takes what is within the quotas below it.
#[test]
fn quotas_protect_on_the_level_where_queues_part() {
    let below = |quota: u64| KaiQueue { parent: Some(3), ..queue(quota) };
    let leaves = [below(4), below(4), queue(1000)];
    let all = cluster(1, &leaves, &[queue(0)], KaiRules::default());
    let list = [(0, 0, 100, 4, 50), (1, 0, 100, 4, 50), (2, 10, 10, 8, 50)];
    assert_eq!(replay(&jobs(&list), &all).preemptions, [1, 1, 0]);
    // The same with a quota above them stops nobody.
    let all = cluster(1, &leaves, &[queue(8)], KaiRules::default());
    assert_eq!(replay(&jobs(&list), &all).preemptions, [0, 0, 0]);
}

/// KAI's first story: two queues without quotas, each with jobs as large as the cluster.
#[test]
fn with_time_based_share_two_queues_take_turns() {
    let list = [(0, 0, 1800, 16, 50), (1, 0, 1800, 16, 50)];
    let without = replay(&jobs(&list), &plain(2, &[queue(0), queue(0)]));
    assert_eq!(starts(&without), [[0], [1800]]);
    let rule = UsageRule { window: UsageWindow::Sliding { size_ms: 600_000 }, ..UsageRule::WEEK };
    let rules = KaiRules { usage: Some(rule), ..KaiRules::default() };
    let with = replay(&jobs(&list), &cluster(2, &[queue(0), queue(0)], &[], rules.clone()));
    let result = starts(&with);
    // At the first measurement a has used everything: its share is 0, b's 16. From then on who runs has all of the window (all but 1/32, so that 15.5 GPUs are
    // rounded up) after ten minutes more.
    assert_eq!((&result[0][..3], &result[1][..3]), (&[0, 660, 1860][..], &[60, 1260, 2460][..]));
    // Neither has a checkpoint: they stop each other until one has been stopped a hundred times.
    assert_eq!(*with.preemptions.iter().max().unwrap(), 100);
    // With a minimum runtime of the whole job nobody is stopped.
    let rules = KaiRules { reclaim_min_ms: 1_800_000, ..rules };
    let patient = replay(&jobs(&list), &cluster(2, &[queue(0), queue(0)], &[], rules));
    assert_eq!(starts(&patient), [[0], [1800]]);
}

/// a holds 9 of 16 GPUs, c the other 7 with a firm job. b, due 4 of them, waits for all 16, so that a is due 5. d's job of 2 would bring e, above c and d, to 9 of its 7.
#[test]
fn who_stops_others_stays_less_saturated_than_they_do() {
    let below = |quota: u64| KaiQueue { parent: Some(4), ..queue(quota) };
    let weightless = |quota: u64| KaiQueue { weight_milli: 0, ..queue(quota) };
    let mut list = vec![(0, 0, 100, 1, 50); 9];
    list.extend([(2, 0, 100, 7, 100), (1, 1, 100, 16, 50), (3, 10, 10, 2, 50)]);
    let stopped = |saturation_milli: u64| {
        let rules = KaiRules { saturation_milli, ..KaiRules::default() };
        let leaves = [queue(0), weightless(4), below(7), below(2)];
        replay(&jobs(&list), &cluster(2, &leaves, &[weightless(7)], rules)).preemptions[..9].iter().sum::<u32>()
    };
    // 9/7 is less than a's 7/5 without two of its jobs, but not a fifth less.
    assert_eq!((stopped(1000), stopped(1200)), (2, 0));
}

#[test]
fn a_replay_without_a_tree_is_refused() {
    let policy = Policy { scan: Scan::Kai, ..Policy::default() };
    let error = simulate(&Workload::default(), &Cluster::of_vcs(&[("a", 1, 8)]), &policy).unwrap_err();
    assert!(error.to_string().contains("--site quota"), "{error}");
}
