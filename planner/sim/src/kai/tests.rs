//! KAI's published examples of a division, and usage worked out by hand.

use super::division::{Claim, divide};
use super::usage::{ONE, Usage};
use super::{Hierarchy, KaiQueue, KaiRules, UsageRule, UsageWindow};

/// (quota, request, weight, limit, priority), GPUs.
type Written = (Option<u64>, u64, u64, Option<u64>, i32);

fn claims(queues: &[Written]) -> Vec<Claim> {
    let claim = |(at, (quota, request, weight, limit, priority)): (usize, &Written)| Claim {
        quota: quota.map(|gpus| gpus * 1000),
        wanted: limit.map_or(*request, |limit| limit.min(*request)) * 1000,
        weight_milli: weight * 1000,
        priority: *priority,
        rank: (at as u32, at as u16),
        usage: 0,
    };
    queues.iter().enumerate().map(claim).collect()
}

/// GPUs of each queue.
fn divided(total: u64, queues: &[Written]) -> Vec<u64> {
    divide(total * 1000, &claims(queues), 1000).into_iter().map(|share| share / 1000).collect()
}

#[test]
fn the_published_divisions() {
    let of = |request: u64, weight: u64| (Some(2), request, weight, None, 0);
    assert_eq!(divided(15, &[of(6, 2), of(6, 2)]), [6, 6]);
    assert_eq!(divided(12, &[of(6, 2), of(6, 2)]), [6, 6]);
    assert_eq!(divided(8, &[of(6, 1), of(6, 3)]), [3, 5]);
    // At most the limit: one GPU is left over.
    assert_eq!(divided(12, &[(Some(2), 6, 2, Some(5), 0), of(6, 2)]), [5, 6]);
    // 7 beyond the quotas: 1.4 and 5.6. The larger remainder gets the last one.
    assert_eq!(divided(11, &[of(10, 1), of(10, 4)]), [3, 8]);
    // Of equals who was created first.
    assert_eq!(divided(11, &[of(6, 2), of(6, 2)]), [6, 5]);
    assert_eq!(divided(5, &[of(3, 2), of(3, 2)]), [3, 2]);
    // Priority does not touch quotas, but comes before weights beyond them.
    let with = |weight: u64, priority: i32| (Some(2), 6, weight, None, priority);
    assert_eq!(divided(4, &[with(2, 1), with(2, 2)]), [2, 2]);
    assert_eq!(divided(6, &[with(100, 1), with(1, 2)]), [2, 4]);
    assert_eq!(divided(5, &[(Some(2), 5, 2, None, 2), (Some(2), 5, 2, None, 2), (Some(1), 0, 2, None, 1)]), [3, 2, 0]);
    // Rounding leaves nothing to a lower priority while a higher one wants more.
    let one = |priority: i32| (Some(1), 5, 1, None, priority);
    assert_eq!(divided(6, &[one(2), one(2), one(1)]), [3, 2, 1]);
    assert_eq!(divided(1000, &[(Some(250), 5000, 1, None, 0), (Some(150), 5000, 2, Some(400), 0)]), [600, 400]);
    let none = |weight: u64| (Some(0), 10_000, weight, None, 0);
    assert_eq!(divided(9999, &[none(6), none(2), none(1)]), [6666, 2222, 1111]);
    assert_eq!(divided(9999, &[(Some(1000), 10_000, 1, None, 0); 3]), [3333; 3]);
    // Without a weight nothing beyond the quota; quotas beyond what there is are all given.
    assert_eq!(divided(7, &[(Some(3), 5, 0, None, 0)]), [3]);
    assert_eq!(divided(10, &[(Some(5), 5, 1, None, 0); 3]), [5; 3]);
    // A quota of everything.
    assert_eq!(divided(10, &[(None, 8, 1, None, 0), (Some(0), 8, 1, None, 0)]), [8, 2]);
}

/// The published case of fractions: 32.55, 9.5 and 1.65 GPUs wanted of 45.
#[test]
fn fractions_that_are_asked_for_are_given() {
    let claim = |at: u16, quota: u64, wanted: u64| Claim {
        quota: Some(quota),
        wanted,
        weight_milli: quota,
        priority: 0,
        rank: (0, at),
        usage: 0,
    };
    let claims = [claim(0, 12_000, 32_550), claim(1, 7000, 9500), claim(2, 2000, 1650)];
    assert_eq!(divide(45_000, &claims, 1000), [32_550, 9500, 1650]);
    // Less than a GPU is left: it goes to one of them.
    let half = Claim { quota: Some(3000), wanted: 5000, ..claims[0] };
    assert_eq!(divide(3500, &[half], 1000), [3500]);
}

#[test]
fn who_used_more_is_due_less() {
    let with = |usage: f64| Claim { usage: (usage * ONE as f64) as u64, ..claims(&[(Some(0), 16, 1, None, 0)])[0] };
    let of = |k: u64, usage: [f64; 2]| {
        let mut claims = usage.map(with);
        claims[1].rank = (1, 1);
        divide(16_000, &claims, k)
    };
    // P = 1/2 + k (1/2 − U).
    assert_eq!(of(1000, [0.0, 0.0]), [8000, 8000]);
    assert_eq!(of(1000, [1.0, 0.0]), [0, 16_000]);
    // 0.75 and 1.25 over 2 of 16 GPUs: half of k.
    assert_eq!(of(1000, [0.25, 0.75]), [12_000, 4000]);
    assert_eq!(of(500, [0.25, 0.75]), [10_000, 6000]);
    assert_eq!(of(0, [0.25, 0.75]), [8000, 8000]);
    // All that want more have used so much that none is due anything: nothing is divided.
    assert_eq!(of(1000, [1.0, 1.0]), [0, 0]);
    // Quotas come first, whatever was used.
    let quota = Claim { quota: Some(4000), ..with(1.0) };
    assert_eq!(divide(16_000, &[quota, Claim { rank: (1, 1), ..with(0.0) }], 1000), [4000, 12_000]);
}

/// A queue with a quota in GPUs, and nothing else that matters.
pub(crate) fn queue(name: &str, parent: Option<u16>, quota: u64) -> KaiQueue {
    KaiQueue { name: name.to_owned(), parent, quota: Some(quota * 1000), ..KaiQueue::default() }
}

#[test]
fn what_a_queue_gets_is_divided_below_it() {
    let queues = vec![queue("a", Some(3), 2), queue("b", Some(3), 0), queue("c", None, 4), queue("top", None, 8)];
    let tree = Hierarchy::new(queues, 3, KaiRules::default()).unwrap();
    let requests = tree.requests(&[9000, 9000, 9000]);
    assert_eq!(requests, [9000, 9000, 9000, 18_000]);
    // 4 GPUs beyond the quotas are 2 each; of top's 10 a gets its 2, and of the 8 left 4.
    assert_eq!(tree.fair_shares(16_000, &requests, &[0; 4]), [6000, 4000, 6000, 10_000]);
    assert_eq!((tree.parted(0, 1), tree.parted(0, 2)), ((0, 1), (3, 2)));
    assert_eq!(tree.path(0).collect::<Vec<_>>(), [0, 3]);
    assert_eq!(tree.allocatable(2, 1000), Some(4000));
}

#[test]
fn minimum_runtimes_are_those_of_the_nearest_queue() {
    let mut queues = vec![queue("a", Some(2), 2), queue("b", Some(2), 0), queue("top", None, 8)];
    queues[0].preempt_min_ms = Some(5);
    queues[2].reclaim_min_ms = Some(7);
    let rules = KaiRules { preempt_min_ms: 3, ..KaiRules::default() };
    let tree = Hierarchy::new(queues, 2, rules).unwrap();
    let of = |queue: u16| (tree.min_runtime_ms(queue, false), tree.min_runtime_ms(queue, true));
    assert_eq!((of(0), of(1), of(2)), ((7, 5), (7, 3), (7, 3)));
}

/// A leaf below so many queues that lie in each other.
#[test]
fn queues_lie_at_most_seven_deep_above_a_leaf() {
    let tree = |above: u16| {
        let chain = (0..above).map(|at| queue("above", (at > 0).then_some(at), 4));
        let queues: Vec<KaiQueue> = [queue("leaf", (above > 0).then_some(above), 4)].into_iter().chain(chain).collect();
        Hierarchy::new(queues, 1, KaiRules::default())
    };
    assert!(tree(7).is_ok());
    let told = tree(8).unwrap_err().to_string();
    assert!(told.contains("queue leaf: more than 7 queues lie above it"), "{told}");
}

#[test]
fn a_tree_that_is_none_is_refused() {
    let refused = |queues: Vec<KaiQueue>, leaves: usize| {
        Hierarchy::new(queues, leaves, KaiRules::default()).unwrap_err().to_string()
    };
    let circle = vec![queue("a", Some(1), 0), queue("b", Some(2), 0), queue("c", Some(1), 0)];
    assert!(refused(circle, 1).contains("queue a is its own parent"));
    assert!(refused(vec![queue("a", Some(1), 0), queue("b", None, 0)], 2).contains("queue a: its parent"));
    assert!(refused(vec![queue("a", Some(7), 0)], 1).contains("its parent"));
    let heavy = KaiQueue { weight_milli: u64::MAX, ..queue("a", None, 0) };
    assert!(refused(vec![heavy], 1).contains("weight"));
}

/// The published number: 24 GPU-hours of 10 GPUs in 10 hours are 0.24.
#[test]
fn usage_is_a_part_of_what_was_in_service() {
    let hour = 3_600_000;
    let rule = UsageRule { window: UsageWindow::Sliding { size_ms: 10 * hour }, ..UsageRule::WEEK };
    let close =
        |result: u64, ratio: f64| assert!((result as f64 / ONE as f64 - ratio).abs() < 1e-9, "{result} {ratio}");
    let mut usage = Usage::new(rule, 2);
    usage.serve(0, 10_000);
    usage.hold(0, 5 * hour, 8000);
    usage.hold(0, 8 * hour, -8000);
    close(usage.known(10 * hour)[0], 0.24);
    // The window slides: of the three hours two are left at 16 h, none at 18 h.
    close(usage.known(16 * hour)[0], 0.16);
    close(usage.known(18 * hour)[0], 0.0);
    // A minute later it is still what it was at the last measurement.
    let mut usage = Usage::new(rule, 1);
    usage.serve(0, 10_000);
    usage.hold(0, 0, 10_000);
    close(usage.known(59_999)[0], 0.0);
    close(usage.known(60_000)[0], 1.0);
    usage.hold(0, 61_000, -10_000);
    close(usage.known(119_000)[0], 1.0);
    close(usage.known(120_000)[0], 61.0 / 120.0);
    assert_eq!(usage.next_ms(120_000), 180_000);
}

#[test]
fn usage_decays_and_windows_tumble() {
    let minute = 60_000;
    let close =
        |result: u64, ratio: f64| assert!((result as f64 / ONE as f64 - ratio).abs() < 1e-9, "{result} {ratio}");
    let rule = UsageRule {
        window: UsageWindow::Sliding { size_ms: 100 * minute },
        half_life_ms: Some(10 * minute),
        fetch_ms: minute,
    };
    let mut usage = Usage::new(rule, 1);
    usage.serve(0, 8000);
    usage.hold(0, 0, 8000);
    usage.hold(0, 10 * minute, -8000);
    // Ten minutes held, ten not, each of the first worth half of one of the second: 1/3.
    close(usage.known(20 * minute)[0], 1.0 / 3.0);
    // In half-lives: 2^-9 to 2^-10 of 1 to 2^-10 at 100 min; one more half-life on, nothing of it is in the window.
    let held = 0.5f64.powi(9) - 0.5f64.powi(10);
    close(usage.known(100 * minute)[0], held / (1.0 - 0.5f64.powi(10)));
    close(usage.known(110 * minute)[0], 0.0);

    let rule = UsageRule {
        window: UsageWindow::Tumbling { start_ms: 5 * minute, size_ms: 10 * minute },
        half_life_ms: None,
        fetch_ms: minute,
    };
    assert_eq!([0, 5, 6, 15, 16, 25, 26].map(|at| rule.begin_ms(at * minute) / minute), [0, 5, 5, 5, 15, 15, 25]);
    let mut usage = Usage::new(rule, 1);
    usage.serve(0, 8000);
    usage.hold(0, 0, 4000);
    close(usage.known(5 * minute)[0], 0.0);
    close(usage.known(6 * minute)[0], 0.5);
    usage.hold(0, 10 * minute, -4000);
    close(usage.known(15 * minute)[0], 0.25);
    close(usage.known(16 * minute)[0], 0.0);
}
