//! The search against trying every number, and by hand.

use proptest::prelude::*;
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::plan::waits::nearest_rank_s;
use crate::sim::{Cluster, Scan, Shape};

const HOUR_MS: i64 = 3_600_000;

fn target(all_s: f64) -> WaitTarget {
    WaitTarget { all_s, by_class: BTreeMap::new() }
}

/// Forty days of jobs at random.
fn record(seed: u64, gap_ms: f64, most_gpus: u32) -> Workload {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut jobs = Workload::default();
    let mut now = 0.0;
    while now < 40.0 * DAY_MS as f64 {
        let gpus = 1 << rng.random_range(0..=most_gpus.ilog2());
        jobs.push(now as i64, rng.random_range(60_000..12 * HOUR_MS), Shape::whole(gpus));
        now += -(1.0 - rng.random::<f64>()).ln() * gap_ms;
    }
    jobs
}

#[test]
fn by_hand() {
    // Forty jobs of 8 GPUs and an hour, all at once: with n nodes the last begin after 40 / n - 1 hours, rounded up.
    let mut jobs = Workload::default();
    (0..40).for_each(|_| jobs.push(0, HOUR_MS, Shape::whole(8)));
    let cluster = Cluster::of_vcs(&[("a", 4, 8)]);
    let part = Part::all(&cluster, 0).remove(0);
    let (policy, target) = (Policy::default(), target(3600.0));
    let mut search = Search::new(&part, &jobs, (&policy, &target), (0, 7 * DAY_MS)).unwrap();
    // Two may wait longer than an hour: 38 must have begun by then, in two rounds of 19.
    let needed = search.needed(1).unwrap().unwrap();
    // All jobs are on the first of seven days, which (6/7)^7 = 34 % of the draws leave out.
    assert_eq!((needed.value, needed.high, needed.uneven), (19, Some(19), false));
    let mut day = Search::new(&part, &jobs, (&policy, &target), (0, DAY_MS)).unwrap();
    let of_a_day = day.needed(1).unwrap().unwrap();
    assert_eq!((of_a_day.value, of_a_day.low, of_a_day.high, of_a_day.upper()), (19, None, None, 19));
    let of_19 = search.with(19).unwrap();
    assert_eq!(nearest_rank_s(&of_19.waits_ms, 0.95), Some(3600.0));
    assert!(of_19.kept && !search.with(18).unwrap().kept);
    // A class of its own target: nobody of it may wait at all, but two.
    let strict = WaitTarget { by_class: BTreeMap::from([(SizeClass::Node, 0.0)]), ..target };
    let mut search = Search::new(&part, &jobs, (&policy, &strict), (0, DAY_MS)).unwrap();
    assert_eq!(search.fewest(4).unwrap(), Some(38));
}

#[test]
fn a_job_that_runs_today_must_run() {
    let mut jobs = Workload::default();
    jobs.push(0, HOUR_MS, Shape::whole(24));
    (1..100).for_each(|at| jobs.push(at * 2 * HOUR_MS, HOUR_MS, Shape::whole(1)));
    let cluster = Cluster::of_vcs(&[("a", 4, 8)]);
    let part = Part::all(&cluster, 0).remove(0);
    let (policy, target) = (Policy { scan: Scan::Skip, ..Policy::default() }, target(60.0));
    let mut search = Search::new(&part, &jobs, (&policy, &target), (0, 10 * DAY_MS)).unwrap();
    assert_eq!(search.fewest(4).unwrap(), Some(3));
    // One that does not run today is none of the judged.
    jobs.push(100 * 2 * HOUR_MS, HOUR_MS, Shape::whole(64));
    let mut search = Search::new(&part, &jobs, (&policy, &target), (0, 10 * DAY_MS)).unwrap();
    assert_eq!((search.judged().len(), search.impossible()), (100, 1));
    // It waits from 200 h to the end, 240 h, and with four nodes nobody else does.
    let queue = search.with(4).unwrap().queue_jobs;
    assert!((queue - 40.0 / 240.0).abs() < 1e-9, "{queue}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn the_search_finds_what_trying_every_number_finds(seed in 0u64..1000, skip in any::<bool>(), guess in 1u32..40) {
        let jobs = record(seed, 1.2e6, 16);
        let cluster = Cluster::of_vcs(&[("a", 30, 8)]);
        let part = Part::all(&cluster, 0).remove(0);
        let policy = Policy { scan: if skip { Scan::Skip } else { Scan::Strict }, ..Policy::default() };
        let target = target(1800.0);
        let mut search = Search::new(&part, &jobs, (&policy, &target), (DAY_MS, 40 * DAY_MS)).unwrap();
        let result = search.needed(guess).unwrap().unwrap();
        let kept: Vec<bool> = (1..=60).map(|nodes| search.with(nodes).unwrap().kept).collect();
        // Where waits fall with every node there is one such number.
        let steady: Vec<u32> = (1..=58u32).filter(|nodes| kept[*nodes as usize - 1..*nodes as usize + 2].iter().all(|kept| *kept)).collect();
        prop_assert!(steady.contains(&result.value));
        prop_assert!(result.value == 1 || !kept[result.value as usize - 2]);
        if kept.is_sorted() {
            prop_assert_eq!(result.value, steady[0]);
            prop_assert!(!result.uneven);
        }
        prop_assert!(result.low.is_none_or(|low| low <= result.value) && result.high.is_none_or(|high| result.value <= high));
        // Kept is what the quantile says.
        let replay = search.with(result.value).unwrap();
        prop_assert!(nearest_rank_s(&replay.waits_ms, 0.95).unwrap() <= 1800.0);
    }
}

/// Where work only grows, neither the number nor an end is less than without growth.
#[test]
fn more_work_needs_no_less() {
    let of = |value, low, high| Needed { value, low, high, uneven: false, blocks: 9 };
    let (grown, record) = (of(21, Some(19), Some(21)), of(23, Some(15), Some(23)));
    assert_eq!(grown.at_least(&record), of(23, Some(19), Some(23)));
    assert_eq!(grown.at_least(&of(20, Some(20), None)), of(21, Some(20), None));
}
