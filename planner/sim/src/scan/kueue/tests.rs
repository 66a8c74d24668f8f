//! Kueue's documented examples, and a few more, worked out by hand.

use super::super::story::{self, jobs, name, pool};
use crate::cohort::{Cohorts, FairPreemption, Flavor, Member, QueueRules, Queueing, Quota, Reclaim, Within};
use crate::{Cluster, Outcome, Policy, Scan, Schedule, Topology, TopologyRequest, Workload, simulate};

/// A queue under test.
#[derive(Clone)]
struct Queue {
    gpus: u64,
    borrowing: Option<u64>,
    lending: Option<u64>,
    weight_milli: u64,
    rules: QueueRules,
}

fn queue(gpus: u64) -> Queue {
    let rules = QueueRules { flavors: vec![0], next_before_preempting: true, ..QueueRules::default() };
    Queue { gpus, borrowing: None, lending: None, weight_milli: 1000, rules }
}

fn with(gpus: u64, change: impl Fn(&mut QueueRules)) -> Queue {
    let mut queue = queue(gpus);
    change(&mut queue.rules);
    queue
}

/// Queues of one cohort on one node for every 8 GPUs.
fn cluster(nodes: u32, queues: &[Queue], fair: Option<FairPreemption>) -> Cluster {
    let count = queues.len() as u16;
    let names: Vec<String> = (0..queues.len()).map(name).collect();
    let milli = |gpus: Option<u64>| gpus.map(|gpus| gpus * 1000);
    let mut members: Vec<Member> = queues
        .iter()
        .zip(&names)
        .map(|(queue, name)| Member {
            name: name.clone(),
            parent: Some(count),
            quotas: vec![Some(Quota {
                nominal: queue.gpus * 1000,
                borrowing_limit: milli(queue.borrowing),
                lending_limit: milli(queue.lending),
            })],
            weight_milli: queue.weight_milli,
        })
        .collect();
    members.push(Member { name: "all".to_owned(), parent: None, quotas: vec![None], weight_milli: 1000 });
    let rules = queues.iter().map(|queue| queue.rules.clone()).collect();
    let flavors = vec![Flavor { name: "default".to_owned(), gpu_type: None }];
    let cohorts = Cohorts::new(flavors, members, rules, fair).unwrap();
    Cluster { cohorts: Some(cohorts), ..pool(nodes, &names) }
}

fn replay(jobs: &Workload, cluster: &Cluster) -> Schedule {
    replay_every(jobs, cluster, None)
}

fn replay_every(jobs: &Workload, cluster: &Cluster, interval_ms: Option<i64>) -> Schedule {
    story::replay(jobs, cluster, Scan::Kueue, interval_ms)
}

/// When each job first started, seconds.
fn starts(schedule: &Schedule) -> Vec<i64> {
    (0..schedule.outcome.len()).map(|job| schedule.start_ms(job).map_or(-1, |ms| ms / 1000)).collect()
}

#[test]
fn a_queue_borrows_what_the_other_does_not_use() {
    // The borrowing example: 9 and 12. While b is idle, a uses 21; what is more waits until something ends.
    let all = cluster(3, &[queue(9), queue(12)], None);
    let list = [(0, 0, 100, 8, 0), (0, 0, 100, 8, 0), (0, 0, 100, 5, 0), (0, 0, 50, 1, 0)];
    assert_eq!(starts(&replay(&jobs(&list), &all)), [0, 0, 0, 100]);
    // With a borrowing limit of 1 it uses 10.
    let limited = cluster(3, &[Queue { borrowing: Some(1), ..queue(9) }, queue(12)], None);
    let list = [(0, 0, 100, 8, 0), (0, 0, 100, 2, 0), (0, 0, 50, 1, 0)];
    assert_eq!(starts(&replay(&jobs(&list), &limited)), [0, 0, 100]);
}

#[test]
fn within_its_quota_comes_before_who_borrows() {
    // All of a's quota is in use, and both queues wait for 4 GPUs: those that end go to b, though a's job came first.
    let all = cluster(1, &[queue(4), queue(4)], None);
    let list = [(0, 0, 500, 4, 0), (0, 0, 100, 4, 0), (0, 10, 50, 4, 0), (1, 20, 50, 4, 0)];
    assert_eq!(starts(&replay(&jobs(&list), &all)), [0, 0, 150, 100]);
}

#[test]
fn strict_queues_wait_behind_their_head_and_best_effort_ones_do_not() {
    let list = [(0, 0, 100, 6, 0), (0, 10, 10, 4, 0), (0, 20, 10, 2, 0)];
    let strict = cluster(1, &[with(8, |rules| rules.strategy = Queueing::Strict)], None);
    assert_eq!(starts(&replay(&jobs(&list), &strict)), [0, 100, 100]);
    let best_effort = cluster(1, &[queue(8)], None);
    assert_eq!(starts(&replay(&jobs(&list), &best_effort)), [0, 100, 20]);
}

#[test]
fn what_was_lent_is_reclaimed_from_the_last_started() {
    // b borrows 4 of a's 4. a's job of 4 stops two of b's jobs of 2 that started last; they wait until it is done, as they lost what they had done.
    let rules = |rules: &mut QueueRules| rules.reclaim = Reclaim::Any;
    let all = cluster(1, &[with(4, rules), queue(4)], None);
    let list = [(1, 0, 100, 2, 0), (1, 1, 100, 2, 0), (1, 2, 100, 2, 0), (1, 3, 100, 2, 0), (0, 10, 50, 4, 0)];
    let schedule = replay(&jobs(&list), &all);
    assert_eq!(starts(&schedule), [0, 1, 2, 3, 10]);
    assert_eq!(schedule.preemptions, [0, 0, 1, 1, 0]);
    assert_eq!(schedule.end_ms[2..4], [160_000, 160_000]);
}

#[test]
fn only_lower_priority_is_reclaimed_if_the_rule_says_so() {
    let all = cluster(1, &[with(4, |rules| rules.reclaim = Reclaim::LowerPriority), queue(4)], None);
    let list = [(1, 0, 100, 4, 5), (1, 1, 100, 4, 0), (0, 10, 50, 4, 5)];
    let schedule = replay(&jobs(&list), &all);
    // The job of priority 0 goes, although the other would do as well.
    assert_eq!((starts(&schedule), schedule.preemptions), (vec![0, 1, 10], vec![0, 1, 0]));
    let equal = [(1, 0, 100, 4, 5), (1, 1, 100, 4, 5), (0, 10, 50, 4, 5)];
    let schedule = replay(&jobs(&equal), &all);
    assert_eq!((starts(&schedule), schedule.preemptions), (vec![0, 1, 100], vec![0, 0, 0]));
}

#[test]
fn who_does_not_borrow_is_left_alone() {
    // b uses its own 4 only: a's job, which wants 8, is not within a's quota and stops nobody.
    let all = cluster(1, &[with(4, |rules| rules.reclaim = Reclaim::Any), queue(4)], None);
    let list = [(1, 0, 100, 4, 0), (0, 10, 50, 8, 0)];
    let schedule = replay(&jobs(&list), &all);
    assert_eq!((starts(&schedule), schedule.preemptions), (vec![0, 100], vec![0, 0]));
}

#[test]
fn within_a_queue_lower_priority_stops() {
    let lower = cluster(1, &[with(8, |rules| rules.within = Within::LowerPriority)], None);
    let list = [(0, 0, 100, 4, 1), (0, 1, 100, 4, 0), (0, 10, 50, 4, 2)];
    assert_eq!(replay(&jobs(&list), &lower).preemptions, [0, 1, 0]);
    // Of equal priority only the newer stops, and only if the rule says so: the first job came back from a node that failed.
    let newer = |within| {
        let mut cluster = cluster(2, &[with(16, |rules| rules.within = within)], None);
        cluster.outages.push(crate::Outage { node: 0, from_ms: 10_000, to_ms: 10_500_000 });
        let list = [(0, 0, 100, 8, 0), (0, 1, 500, 8, 0)];
        replay(&jobs(&list), &cluster).preemptions
    };
    assert_eq!(newer(Within::LowerPriority), [0, 0]);
    assert_eq!(newer(Within::LowerOrNewerEqual), [0, 1]);
}

#[test]
fn while_borrowing_only_low_priority_stops_and_only_if_allowed() {
    // a has 2 of 8 and wants 4. b has 6 and borrows nothing; c has none and borrows 4 with a job of priority 1.
    let reclaims = |threshold: Option<Option<i32>>| {
        let a = with(2, |rules| {
            rules.reclaim = Reclaim::LowerPriority;
            rules.borrow_within = threshold;
        });
        let list = [(2, 0, 100, 4, 1), (1, 0, 100, 4, 0), (0, 10, 50, 4, 9)];
        let schedule = replay(&jobs(&list), &cluster(1, &[a, queue(6), queue(0)], None));
        (starts(&schedule)[2], schedule.preemptions)
    };
    assert_eq!(reclaims(None), (100, vec![0, 0, 0]));
    assert_eq!(reclaims(Some(None)), (10, vec![1, 0, 0]));
    assert_eq!(reclaims(Some(Some(0))), (100, vec![0, 0, 0]));
    assert_eq!(reclaims(Some(Some(1))), (10, vec![1, 0, 0]));
}

#[test]
fn flavors_are_tried_in_order() {
    // Two nodes of two types, 8 GPUs each; a's own 4 are of the first, b's 4; of the second a has 8.
    let typed = |next_before_borrowing: bool| {
        let flavors = vec![
            Flavor { name: "reserved".to_owned(), gpu_type: Some(0) },
            Flavor { name: "spot".to_owned(), gpu_type: Some(1) },
        ];
        let own = |gpus: u64| Some(Quota { nominal: gpus * 1000, ..Quota::default() });
        let member = |name: &str, parent, quotas| Member { name: name.to_owned(), parent, quotas, weight_milli: 1000 };
        let members = vec![
            member("a", Some(2), vec![own(4), own(8)]),
            member("b", Some(2), vec![own(4), None]),
            member("all", None, vec![None, None]),
        ];
        let rules = |flavors| QueueRules {
            flavors,
            next_before_borrowing,
            next_before_preempting: true,
            ..QueueRules::default()
        };
        let mut cluster = Cluster::of_vcs(&[("a", 1, 8), ("b", 1, 8)]);
        cluster.gpu_types = vec!["A100".to_owned(), "V100".to_owned()];
        for (pool, gpu_type) in cluster.pools.iter_mut().zip([0, 1]) {
            pool.groups[0].gpu_type = Some(gpu_type);
        }
        let mut cluster = cluster.pooled();
        cluster.cohorts = Some(Cohorts::new(flavors, members, vec![rules(vec![0, 1]), rules(vec![0])], None).unwrap());
        let mut workload = jobs(&[(0, 0, 100, 6, 0), (0, 1, 100, 2, 0)]);
        workload.gpu_types.clone_from(&cluster.gpu_types);
        let schedule = replay(&workload, &cluster);
        schedule.segments.iter().map(|segment| schedule.pieces_of(segment)[0].node).collect::<Vec<_>>()
    };
    // By default it borrows of the first flavor; else it tries the second, and the small job stays within the first.
    assert_eq!(typed(false), [0, 0]);
    assert_eq!(typed(true), [1, 0]);
}

#[test]
fn a_queue_admits_one_job_a_cycle() {
    // Ten jobs of one GPU in a, one in b, on 16 free GPUs, at a cycle of 2.4 s: a's last waits nine cycles, b's none.
    let all = cluster(2, &[queue(12), queue(4)], None);
    let mut list: Vec<_> = (0..10).map(|_| (0, 0, 100, 1, 0)).collect();
    list.push((1, 0, 100, 1, 0));
    let schedule = replay_every(&jobs(&list), &all, Some(2400));
    let first: Vec<i64> = (0..11).map(|job| schedule.start_ms(job).unwrap()).collect();
    assert_eq!((first[0], first[9], first[10]), (0, 9 * 2400, 0));
}

#[test]
fn fair_sharing_admits_the_lowest_share_first() {
    // Nothing is anyone's own but c's 8, which a and b borrow. a uses 4 already: of the 4 left b gets its job though a's came first.
    let queues = [queue(0), queue(0), queue(8)];
    let list = [(0, 0, 100, 4, 0), (2, 0, 20, 4, 0), (0, 5, 50, 4, 0), (1, 10, 50, 4, 0)];
    let fair = replay(&jobs(&list), &cluster(1, &queues, Some(FairPreemption::Both)));
    assert_eq!(starts(&fair), [0, 0, 70, 20]);
    let first_come = replay(&jobs(&list), &cluster(1, &queues, None));
    assert_eq!(starts(&first_come), [0, 0, 20, 70]);
}

#[test]
fn fair_sharing_stops_who_has_more_until_the_shares_are_even() {
    // c lends 8; a has borrowed all with jobs of 2, b may have half: it stops the two that started last, and no third.
    let reclaiming = with(0, |rules| rules.reclaim = Reclaim::Any);
    let queues = [queue(0), reclaiming, queue(8)];
    let mut list: Vec<_> = (0..4).map(|at| (0, at, 1000, 2, 0)).collect();
    list.extend([(1, 10, 500, 2, 0), (1, 11, 500, 2, 0), (1, 12, 500, 2, 0)]);
    let schedule = replay(&jobs(&list), &cluster(1, &queues, Some(FairPreemption::Both)));
    assert_eq!(schedule.preemptions[..4], [0, 0, 1, 1]);
    assert_eq!(starts(&schedule)[4..], [10, 11, 510]);
}

/// Two racks of two nodes of 8. Jobs of priority 0 and 8 GPUs take nodes 0, 1 and 2; the first ends at 5 s. At 10 s comes a job of priority 5 and 16 GPUs.
fn beside_two_racks(request: Option<TopologyRequest>, within: Within) -> Schedule {
    let mut all = cluster(4, &[with(32, |rules| rules.within = within)], None);
    all.topology = Some(Topology::regular(vec!["rack".to_owned()], &[2], 4).unwrap());
    let mut list = jobs(&[(0, 0, 5, 8, 0), (0, 0, 100, 8, 0), (0, 0, 200, 8, 0), (0, 10, 50, 16, 5)]);
    let last = usize::from(list.shape[3]);
    list.shapes[last].request = request;
    replay(&list, &all)
}

#[test]
fn a_place_in_a_rack_is_part_of_admission() {
    let last = |request, within| {
        let schedule = beside_two_racks(request, within);
        (starts(&schedule)[3], schedule.preemptions)
    };
    // Nodes 0 and 3 are free at 10 s: enough, but in two racks. At 100 s the first rack is free.
    let rack = Some(TopologyRequest::required(0));
    assert_eq!(last(None, Within::Never), (10, vec![0; 4]));
    assert_eq!(last(Some(TopologyRequest::preferred(0)), Within::Never), (10, vec![0; 4]));
    assert_eq!(last(rack, Within::Never), (100, vec![0; 4]));
    // If it may stop others, it stops for a rack the job that was submitted last, and no other.
    assert_eq!(last(rack, Within::LowerPriority), (10, vec![0, 0, 1, 0]));
    assert_eq!(last(Some(TopologyRequest::preferred(0)), Within::LowerPriority), (10, vec![0; 4]));
}

#[test]
fn a_job_that_no_rack_can_take_is_rejected() {
    let mut all = cluster(4, &[queue(32)], None);
    all.topology = Some(Topology::regular(vec!["rack".to_owned()], &[2], 4).unwrap());
    let mut list = jobs(&[(0, 0, 5, 24, 0), (0, 0, 5, 25, 0)]);
    list.shapes[0].request = Some(TopologyRequest::required(0));
    list.shapes[1].request = Some(TopologyRequest::preferred(0));
    let schedule = replay(&list, &all);
    assert_eq!(schedule.outcome, [Outcome::Rejected, Outcome::Finished]);
    // A topology that is not there, and a level that it does not have, are refused.
    let policy = Policy { scan: Scan::Kueue, ..Policy::default() };
    let told = |jobs: &Workload, cluster: &Cluster| simulate(jobs, cluster, &policy).unwrap_err().to_string();
    assert!(told(&list, &Cluster { topology: None, ..all.clone() }).contains("no topology"));
    list.shapes[0].request = Some(TopologyRequest::required(2));
    assert!(told(&list, &all).contains("a level that the topology does not have"));
}

#[test]
fn replays_need_the_quotas() {
    let policy = Policy { scan: Scan::Kueue, ..Policy::default() };
    let error = simulate(&jobs(&[(0, 0, 1, 1, 0)]), &Cluster::of_vcs(&[("a", 1, 8)]), &policy).unwrap_err();
    assert!(error.to_string().contains("--site quota"), "{error}");
}

#[test]
fn who_used_least_of_a_queue_goes_first_there_and_nowhere_else() {
    // User 0 holds 4 of 4 GPUs from 0 to 100 s; then a job of user 0 (at 10 s) and one of user 1 (at 20 s) want them.
    let list = [(0, 0, 100, 4, 0), (0, 10, 50, 4, 0), (0, 20, 50, 4, 0)];
    let of_users = |list: &[(u16, i64, i64, u32, i32)], users: &[u32]| {
        let mut jobs = jobs(list);
        (jobs.user, jobs.users) = (users.to_vec(), vec!["one".to_owned(), "other".to_owned()]);
        jobs
    };
    let by_usage = |rules: &mut QueueRules| rules.usage_half_life_ms = Some(1_000_000);
    let first_come = cluster(1, &[queue(4)], None);
    assert_eq!(starts(&replay(&of_users(&list, &[0, 0, 1]), &first_come)), [0, 100, 150]);
    let fair = cluster(1, &[with(4, by_usage)], None);
    assert_eq!(starts(&replay(&of_users(&list, &[0, 0, 1]), &fair)), [0, 150, 100]);
    // It comes before the priority, as in Kueue.
    let urgent = [(0, 0, 100, 4, 0), (0, 10, 50, 4, 9), (0, 20, 50, 4, 0)];
    assert_eq!(starts(&replay(&of_users(&urgent, &[0, 0, 1]), &fair)), [0, 150, 100]);
    // What was used in another queue does not count: in the second queue user 1 has used 400 GPU-seconds, and user 0 none.
    let two = cluster(1, &[with(4, by_usage), with(4, by_usage)], None);
    let apart = [(0, 0, 1000, 4, 0), (1, 0, 100, 4, 0), (1, 10, 50, 4, 0), (1, 20, 50, 4, 0)];
    assert_eq!(starts(&replay(&of_users(&apart, &[0, 1, 1, 0]), &two)), [0, 0, 150, 100]);
}
