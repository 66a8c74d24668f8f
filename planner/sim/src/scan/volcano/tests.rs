//! Volcano's documented examples, and a few more, worked out by hand.

use super::super::story::{self, jobs, name, pool, starts};
use crate::volcano::{Eviction, JobOrder, Plugin, ReclaimFrom, VolcanoQueue, VolcanoQueues, VolcanoRules, tests};
use crate::{Cluster, Policy, Scan, Schedule, Workload, simulate};

const RECLAIM: Eviction = Eviction::Reclaim(ReclaimFrom::Over);

fn weighing(weight: u32) -> VolcanoQueue {
    VolcanoQueue { weight, ..tests::queue("") }
}

/// A queue that deserves so many GPUs.
fn deserving(gpus: u64) -> VolcanoQueue {
    VolcanoQueue { deserved: Some(gpus * 1000), ..tests::queue("") }
}

fn rules(plugin: Plugin, evictions: &[Eviction]) -> VolcanoRules {
    VolcanoRules { plugin, evictions: evictions.to_vec(), ..VolcanoRules::default() }
}

/// Leaves, then queues above them, on nodes of 8 GPUs.
fn cluster(nodes: u32, leaves: &[VolcanoQueue], above: &[VolcanoQueue], rules: VolcanoRules) -> Cluster {
    let named =
        |(at, queue): (usize, &VolcanoQueue)| VolcanoQueue { name: name(at), created: at as u32, ..queue.clone() };
    let queues: Vec<VolcanoQueue> = leaves.iter().chain(above).enumerate().map(named).collect();
    let names: Vec<String> = (0..leaves.len()).map(name).collect();
    let tree = VolcanoQueues::new(queues, leaves.len(), rules).unwrap();
    Cluster { volcano: Some(tree), ..pool(nodes, &names) }
}

fn replay(jobs: &Workload, cluster: &Cluster) -> Schedule {
    story::replay(jobs, cluster, Scan::Volcano, None)
}

/// Queues of weights 1 and 2 hold 2 and 5 of 8 GPUs in jobs of one GPU: a third of one stays free
/// for neither.
#[test]
fn under_proportion_a_queue_holds_what_it_deserves_at_most() {
    let mut list = vec![(0, 0, 100, 1, 0); 10];
    list.extend(vec![(1, 0, 100, 1, 0); 10]);
    let result = replay(&jobs(&list), &cluster(1, &[weighing(1), weighing(2)], &[], rules(Plugin::Proportion, &[])));
    let at_once = |jobs: std::ops::Range<usize>| starts(&result)[jobs].iter().filter(|starts| **starts == [0]).count();
    assert_eq!((at_once(0..10), at_once(10..20)), (2, 5));
    // Alone a queue deserves all.
    let result =
        replay(&jobs(&list[..10]), &cluster(1, &[weighing(1), weighing(2)], &[], rules(Plugin::Proportion, &[])));
    assert_eq!(starts(&result).iter().filter(|starts| **starts == [0]).count(), 8);
}

/// a deserves 4 of 8 while b's jobs wait: its job of 6 waits although a holds nothing, until b asks for 2 GPUs alone.
#[test]
fn under_proportion_a_gang_beyond_what_its_queue_deserves_waits() {
    let mut list = vec![(1, 0, 100, 2, 0); 9];
    list.push((0, 0, 10, 6, 0));
    let both = [weighing(1), weighing(1)];
    let result = starts(&replay(&jobs(&list), &cluster(1, &both, &[], rules(Plugin::Proportion, &[]))));
    // b runs two at a time within its 4 GPUs: the last begins at 400 s, from when on a deserves the rest.
    assert_eq!((result[..2].to_vec(), &result[8], &result[9]), (vec![vec![0], vec![0]], &vec![400], &vec![400]));
}

#[test]
fn under_proportion_what_is_over_is_reclaimed() {
    let mut list = vec![(1, 0, 100, 1, 0); 8];
    list.push((0, 10, 50, 4, 0));
    let both = [weighing(1), weighing(1)];
    let with = |evictions: &[Eviction], queues: &[VolcanoQueue]| {
        replay(&jobs(&list), &cluster(1, queues, &[], rules(Plugin::Proportion, evictions)))
    };
    // b deserves 4 once a asks: those of its jobs that were submitted last stop, and begin anew when a's ends.
    let result = with(&[RECLAIM], &both);
    assert_eq!(result.preemptions, [0, 0, 0, 0, 1, 1, 1, 1, 0]);
    assert_eq!((&starts(&result)[7], &starts(&result)[8]), (&vec![0, 60], &vec![10]));
    // Without the action, or where b is not reclaimable, a waits.
    let firm = [weighing(1), VolcanoQueue { reclaimable: false, ..weighing(1) }];
    for result in [with(&[], &both), with(&[RECLAIM], &firm)] {
        assert_eq!((result.preemptions.iter().sum::<u32>(), &starts(&result)[8]), (0, &vec![100]));
    }
}

/// Volcano's guide to capacity: queues that deserve 2 and 6 of 8; eight jobs of 1 in each.
#[test]
fn the_guide_to_capacity() {
    let mut list = vec![(0, 0, 1000, 1, 0); 8];
    list.extend(vec![(1, 10, 1000, 1, 0); 8]);
    let queues = [deserving(2), deserving(6)];
    let result = replay(&jobs(&list), &cluster(1, &queues, &[], rules(Plugin::Capacity, &[RECLAIM])));
    assert_eq!(result.preemptions[..8], [0, 0, 1, 1, 1, 1, 1, 1]);
    let at_ten = starts(&result)[8..].iter().filter(|starts| starts.first() == Some(&10)).count();
    assert_eq!(at_ten, 6);
    assert_eq!(result.preemptions[8..], [0; 8]);
}

/// Volcano's guide to gang-aware reclaim, in GPUs for processors: two gangs of 2 of a queue that
/// deserves 2 of 4; one stays.
#[test]
fn one_of_two_gangs_is_reclaimed_whole() {
    let list = [(1, 0, 100, 2, 0), (1, 1, 100, 2, 0), (0, 10, 100, 2, 0)];
    let mut all = cluster(1, &[deserving(2), deserving(2)], &[], rules(Plugin::Capacity, &[RECLAIM]));
    all.pools[0].groups[0].gpus_per_node = 4;
    assert_eq!(replay(&jobs(&list), &all).preemptions, [0, 1, 0]);
    // A job that asks for more than its queue deserves reclaims nothing.
    let list = [(1, 0, 100, 2, 0), (1, 1, 100, 2, 0), (0, 10, 100, 3, 0)];
    assert_eq!(replay(&jobs(&list), &all).preemptions, [0, 0, 0]);
}

/// Volcano's guide to gang-aware preemption: two gangs of priority 10 in a full queue, and one of
/// 100.
#[test]
fn higher_priority_preempts_in_its_own_queue() {
    let list = [(0, 0, 100, 2, 10), (0, 1, 100, 2, 10), (0, 10, 50, 2, 100), (1, 10, 50, 2, 100)];
    let mut all = cluster(1, &[deserving(4), deserving(0)], &[], rules(Plugin::Capacity, &[Eviction::Preempt]));
    all.pools[0].groups[0].gpus_per_node = 4;
    let result = replay(&jobs(&list), &all);
    assert_eq!((result.preemptions.clone(), &starts(&result)[2]), (vec![0, 1, 0, 0], &vec![10]));
    // Equal priority stops nobody, and capability counts for who preempts, too.
    let list = [(0, 0, 100, 2, 10), (0, 10, 50, 2, 10), (0, 20, 50, 1, 11)];
    let capped = VolcanoQueue { capability: Some(2000), ..deserving(2) };
    let all = cluster(1, &[capped], &[], rules(Plugin::Capacity, &[Eviction::Preempt]));
    let result = replay(&jobs(&list), &all);
    assert_eq!((result.preemptions.clone(), &starts(&result)[2]), (vec![1, 0, 0], &vec![20]));
}

/// A queue keeps its guarantee, though it holds more than it deserves with it.
#[test]
fn guarantees_are_not_reclaimed() {
    let guarded = VolcanoQueue { guarantee: 2000, ..deserving(2) };
    let list = [(0, 0, 100, 3, 0), (0, 1, 100, 1, 0), (1, 10, 50, 4, 0), (1, 10, 50, 2, 0)];
    let all = cluster(1, &[guarded, deserving(6)], &[], rules(Plugin::Capacity, &[RECLAIM]));
    let result = replay(&jobs(&list), &all);
    // Beside 4 GPUs of each 2 more do not fit. Without the job of 1 a holds 3, which fits no better; without that of 3 it would hold 0 or 1.
    assert_eq!((result.preemptions.clone(), starts(&result)), (vec![0; 4], vec![vec![0], vec![1], vec![10], vec![60]]));
}

/// Below d lie a and b, beside c. a's job takes from b, which shares d with it, before c, which is further over; of b's jobs the larger is first, by drf.
#[test]
fn who_is_nearest_is_reclaimed_from_first() {
    let below = |gpus: u64| VolcanoQueue { parent: Some(3), ..deserving(gpus) };
    let list = [(1, 0, 100, 2, 0), (1, 0, 100, 1, 0), (2, 0, 100, 5, 0), (0, 10, 50, 1, 0)];
    let rules = rules(Plugin::Capacity, &[RECLAIM]);
    let all = cluster(1, &[below(2), below(2), deserving(2)], &[deserving(4)], rules);
    assert_eq!(replay(&jobs(&list), &all).preemptions, [1, 0, 0, 0]);
}

#[test]
fn the_largest_of_equals_is_stopped_first_under_drf() {
    let list = [(0, 0, 100, 4, 0), (0, 1, 100, 3, 0), (0, 2, 100, 1, 0), (1, 10, 50, 4, 0)];
    let stopped = |order: &[JobOrder]| {
        let rules = VolcanoRules { order: order.to_vec(), ..rules(Plugin::Capacity, &[RECLAIM]) };
        replay(&jobs(&list), &cluster(1, &[deserving(4), deserving(4)], &[], rules)).preemptions
    };
    assert_eq!(stopped(&[JobOrder::Priority]), [0, 1, 1, 0]);
    assert_eq!(stopped(&[JobOrder::Priority, JobOrder::Drf]), [1, 0, 0, 0]);
}

/// A queue of higher priority comes first, whatever it holds.
#[test]
fn priority_of_queues_comes_before_shares() {
    let list = [(0, 0, 200, 4, 0), (1, 0, 100, 4, 0), (0, 10, 50, 4, 0), (1, 20, 50, 4, 0)];
    let next = |priority: i32| {
        let queues = [VolcanoQueue { priority, ..deserving(4) }, deserving(4)];
        starts(&replay(&jobs(&list), &cluster(1, &queues, &[], rules(Plugin::Capacity, &[]))))
    };
    // At 100 s b holds nothing; a's job of 10 s comes before b's of 20 s only with the higher priority.
    assert_eq!((next(0)[3][0], next(0)[2][0]), (100, 150));
    assert_eq!((next(1)[2][0], next(1)[3][0]), (100, 150));
}

#[test]
fn a_replay_without_queues_is_refused() {
    let policy = Policy { scan: Scan::Volcano, ..Policy::default() };
    let error = simulate(&Workload::default(), &Cluster::of_vcs(&[("a", 1, 8)]), &policy).unwrap_err();
    assert!(error.to_string().contains("--site quota"), "{error}");
}
