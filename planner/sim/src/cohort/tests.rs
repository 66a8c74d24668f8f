//! The arithmetic of quotas, on the examples of Kueue's documentation and by hand.

use super::*;

/// Thousandths of so many GPUs.
const GPU: u64 = 1000;

fn quota(nominal: u64, borrowing: Option<u64>, lending: Option<u64>) -> Quota {
    let milli = |limit: Option<u64>| limit.map(|gpus| gpus * GPU);
    Quota { nominal: nominal * GPU, borrowing_limit: milli(borrowing), lending_limit: milli(lending) }
}

/// Members of one flavor: (name, parent, quota, weight), and how many are queues.
fn forest(queues: usize, members: &[(&str, Option<u16>, Option<Quota>, u64)]) -> Result<Cohorts> {
    let of = |(name, parent, quota, weight_milli): &(&str, Option<u16>, Option<Quota>, u64)| Member {
        name: (*name).to_owned(),
        parent: *parent,
        quotas: vec![*quota],
        weight_milli: *weight_milli,
    };
    let flavors = vec![Flavor { name: "default".to_owned(), gpu_type: None }];
    let rules = vec![QueueRules { flavors: vec![0], ..QueueRules::default() }; queues];
    Cohorts::new(flavors, members.iter().map(of).collect(), rules, None)
}

#[test]
fn what_a_queue_may_use_is_as_documented() {
    // Kueue, ClusterQueue: team-a has 9 and team-b 12 of one cohort.
    let free = |a: Option<Quota>, b: Option<Quota>| {
        let cohorts = forest(2, &[("a", Some(2), a, 1000), ("b", Some(2), b, 1000), ("ab", None, None, 1000)]).unwrap();
        let usage = cohorts.unused();
        [0, 1].map(|queue| cohorts.available(&usage, queue, 0) / i128::from(GPU))
    };
    assert_eq!(free(Some(quota(9, None, None)), Some(quota(12, None, None))), [21, 21]);
    // With a borrowing limit of 1, 9 + 1; the other may borrow all.
    assert_eq!(free(Some(quota(9, Some(1), None)), Some(quota(12, None, None))), [10, 21]);
    // Lending limit: of 12, 5 are lent, so 9 + 5; the lender still has its own and the other's.
    assert_eq!(free(Some(quota(9, None, None)), Some(quota(12, None, Some(5)))), [14, 21]);
    // Nothing lent.
    assert_eq!(free(Some(quota(9, None, None)), Some(quota(12, None, Some(0)))), [9, 21]);
}

#[test]
fn use_is_seen_above_only_beyond_what_is_never_lent() {
    let members = [
        ("a", Some(2), Some(quota(9, None, Some(4))), 1000),
        ("b", Some(2), Some(quota(3, None, None)), 1000),
        ("ab", None, None, 1000),
    ];
    let cohorts = forest(2, &members).unwrap();
    let mut usage = cohorts.unused();
    // a keeps 5 to itself: those do not count in the cohort, whose quota is 4 + 3.
    cohorts.add(&mut usage, 0, 0, 5 * GPU);
    assert_eq!((cohorts.used(&usage, 2, 0), cohorts.available(&usage, 1, 0)), (0, 7000));
    cohorts.add(&mut usage, 0, 0, 2 * GPU);
    assert_eq!((cohorts.used(&usage, 2, 0), cohorts.available(&usage, 1, 0)), (2000, 5000));
    cohorts.remove(&mut usage, 0, 0, 4 * GPU);
    assert_eq!((cohorts.used(&usage, 2, 0), cohorts.available(&usage, 0, 0)), (0, 9000));
}

#[test]
fn cohorts_have_quotas_and_limits_themselves() {
    // A root with 10 of its own over two cohorts; the one on the left may borrow 2 from it, and has a queue of 4.
    let members = [
        ("left queue", Some(2), Some(quota(4, None, None)), 1000),
        ("right queue", Some(3), Some(quota(6, None, None)), 1000),
        ("left", Some(4), Some(quota(0, Some(2), None)), 1000),
        ("right", Some(4), Some(quota(0, None, Some(1))), 1000),
        ("root", None, Some(quota(10, None, None)), 1000),
    ];
    let cohorts = forest(2, &members).unwrap();
    let usage = cohorts.unused();
    // 4 + 2; the right has its 6, and all that the root has: 10 and the left's 4.
    assert_eq!(cohorts.available(&usage, 0, 0), 6000);
    assert_eq!(cohorts.available(&usage, 1, 0), 20_000);
    assert_eq!([cohorts.potential(0, 0), cohorts.potential(1, 0)], [6000, 20_000]);
    // 5 GPUs go beyond the queue and its cohort, to the root, which is two levels high.
    assert_eq!(cohorts.reach(&usage, 0, 0, 5 * GPU), (2, false));
    assert_eq!(cohorts.reach(&usage, 0, 0, 4 * GPU), (0, true));
}

#[test]
fn shares_are_of_what_can_be_lent() {
    let members = [
        ("a", Some(3), Some(quota(2, None, None)), 1000),
        ("b", Some(3), Some(quota(6, None, None)), 2000),
        ("c", Some(3), Some(quota(8, None, None)), 0),
        ("all", None, None, 1000),
    ];
    let cohorts = forest(3, &members).unwrap();
    let mut usage = cohorts.unused();
    assert!(cohorts.share(&usage, 0).is_zero());
    cohorts.add(&mut usage, 0, 0, 4 * GPU);
    cohorts.add(&mut usage, 1, 0, 10 * GPU);
    // a borrows 2 of 16 at weight 1, b 4 of 16 at weight 2: the same.
    assert_eq!(cohorts.share(&usage, 0), cohorts.share(&usage, 1));
    cohorts.add(&mut usage, 1, 0, 1);
    assert!(cohorts.share(&usage, 0) < cohorts.share(&usage, 1));
    // Weight 0: none while it borrows nothing, more than any other once it does.
    cohorts.add(&mut usage, 2, 0, 8 * GPU);
    assert!(cohorts.share(&usage, 2).is_zero());
    cohorts.add(&mut usage, 2, 0, 1);
    assert!(cohorts.share(&usage, 2) > cohorts.share(&usage, 1));
}

#[test]
fn what_is_no_tree_is_refused() {
    let told = |result: Result<Cohorts>| result.unwrap_err().to_string();
    let circle =
        [("a", Some(1), Some(quota(1, None, None)), 1000), ("x", Some(2), None, 1000), ("y", Some(1), None, 1000)];
    assert!(told(forest(1, &circle)).contains("its own parent"));
    let queue_as_cohort =
        [("a", Some(1), Some(quota(1, None, None)), 1000), ("b", None, Some(quota(1, None, None)), 1000)];
    assert!(told(forest(2, &queue_as_cohort)).contains("no cohort"));
    assert!(told(forest(1, &[("a", None, None, 1000)])).contains("no quota of a flavor"));
}
