//! Nodes that sleep: the engine against the naive reference, schedule by schedule and state by state, and what holds of
//! every record.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tracecast_planner::sim::power::PowerPolicy;
use tracecast_planner::sim::power::{Controller, Record, Rules, State, Supervisor};
use tracecast_planner::sim::{Cluster, Schedule, Workload, simulate, simulate_powered};
use tracecast_predictors::demand::{Seen, Slot};
use tracecast_tests::reference::naive;

use super::cases;

/// Cases that are always run; twenty times as many with `TRACECAST_FULL=1`.
const CASES: u64 = 2_000;

/// Asks for what was busy and pending, and something drawn from all it is told.
struct Drawn(u64);

impl PowerPolicy for Drawn {
    fn name(&self) -> String {
        "drawn".into()
    }

    fn target(&mut self, seen: Seen<'_>, powered: f64) -> f64 {
        let Some(slot) = seen.slots.last() else { return f64::NAN };
        let told = [slot.peak, slot.last, slot.mean, slot.pending, slot.total, powered, seen.now_ms() as f64];
        let mut hash = self.0 ^ seen.slots.len() as u64;
        for value in told {
            hash = (hash ^ value.to_bits()).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
        }
        match hash % 8 {
            0 => f64::NAN,
            1 => -1.0,
            2 | 3 => slot.peak + slot.pending,
            4 | 5 => slot.mean + 0.3,
            _ => (hash >> 8) as f64 % 6.0,
        }
    }
}

fn rules(random: &mut ChaCha8Rng) -> Rules {
    let mut pick = |from: &[i64]| from[random.random_range(0..from.len())] * 1000;
    let (slot_ms, boot_ms, shutdown_ms) = (pick(&[10, 20, 60]), pick(&[0, 1, 5, 10, 30]), pick(&[0, 1, 5, 10]));
    let (min_on_ms, min_off_ms) = (pick(&[0, 0, 5, 20, 60]), pick(&[0, 0, 5, 20, 60]));
    let (idle_ms, until_ms) = (pick(&[0, 1, 5, 10, 30]), pick(&[0, 0, 100, 400]));
    Rules {
        slot_ms,
        boot_ms,
        shutdown_ms,
        failed_boot_ratio: if random.random_bool(0.3) { 0.4 } else { 0.0 },
        seed: random.random_range(0..100),
        canaries: random.random_range(0..10u32).saturating_sub(7),
        keep_idle: random.random_range(0..10u32).saturating_sub(7),
        min_on_ms,
        min_off_ms,
        wakes_per_minute: random.random_range(0..8u32).saturating_sub(4),
        sleeps_per_minute: random.random_range(0..8u32).saturating_sub(4),
        wakes_per_node_day: random.random_range(0..6u32).saturating_sub(3),
        idle_ms: random.random_bool(0.6).then_some(idle_ms),
        by_pool: Vec::new(),
        wake_on_demand: random.random_bool(0.6),
        until_ms,
        patience_ms: 300_000,
        zone: "UTC".into(),
    }
}

/// Drawn twice, the same twice.
pub(crate) fn supervisor(seed: u64, cluster: &Cluster) -> Supervisor {
    let mut random = ChaCha8Rng::seed_from_u64(seed ^ 0x5eed);
    let rules = rules(&mut random);
    let controllers = cluster.pools.iter().map(|_| {
        let history = if random.random_bool(0.3) {
            vec![Slot { peak: 1.0, total: 2.0, ..Slot::default() }; 2]
        } else {
            Vec::new()
        };
        random.random_bool(0.7).then(|| Controller { policy: Box::new(Drawn(seed)), history })
    });
    Supervisor { controllers: controllers.collect(), rules }
}

/// Checks that nothing runs on a node that is not powered, and that the states of all nodes add up
/// to nodes × time, to the millisecond.
fn check(schedule: &Schedule, record: &Record, context: &str) {
    let end = schedule.segments.iter().map(|segment| segment.end_ms).max().unwrap_or(0) + 1_000_000;
    let sum: i64 = record.durations(0, end).iter().sum();
    assert_eq!(sum, i64::from(record.nodes) * end, "{context}");
    let states = record.by_node();
    for segment in &schedule.segments {
        for piece in schedule.pieces_of(segment) {
            let node = &states[piece.node as usize];
            let ends = node.iter().skip(1).map(|(at, _)| *at).chain([i64::MAX]);
            for ((from, state), to) in node.iter().zip(ends) {
                let overlaps = *from < segment.end_ms && to > segment.start_ms && to > *from;
                assert!(
                    !overlaps || *state == State::Powered,
                    "{context}: {segment:?} on node {} {state:?}",
                    piece.node
                );
            }
        }
    }
}

#[test]
fn thousands_of_small_cases_sleep_alike() {
    let count = cases::many(CASES);
    let (mut segments, mut wakes, mut failed, mut asleep_ms, mut orders) = (0, 0, 0, 0, 0);
    for seed in 0..count {
        let (workload, cluster, policy) = cases::draw(seed);
        let mut ours = supervisor(seed, &cluster);
        let context = format!("seed {seed}, {:?}, {policy:?}\n{workload:#?}\n{cluster:#?}", ours.rules);
        let (schedule, record) = simulate_powered(&workload, &cluster, &policy, &mut ours).unwrap();
        let (fates, expected) = naive::replay_powered(&workload, &cluster, &policy, supervisor(seed, &cluster));
        let found = super::naive::fates(&schedule);
        let mut node = 0;
        let states: Vec<Vec<(i64, State)>> = record.by_node().into_iter().map(|states| states[1..].to_vec()).collect();
        for (pool, expected) in record.pools.iter().zip(&expected) {
            for expected in &expected.nodes {
                assert_eq!(&states[node], expected, "node {node}, {context}");
                node += 1;
            }
            assert_eq!(pool.seen.slots, expected.slots, "{context}");
            let same = |a: f64, b: f64| a == b || (a.is_nan() && b.is_nan());
            assert_eq!(pool.orders.len(), expected.orders.len(), "{context}");
            for (a, b) in pool.orders.iter().zip(&expected.orders) {
                assert!((a.at_ms, a.on) == (b.at_ms, b.on) && same(a.asked, b.asked), "{a:?} {b:?} {context}");
            }
            orders += pool.orders.len();
        }
        for job in 0..workload.len() {
            assert_eq!(found[job], fates[job], "job {job}, {context}");
        }
        check(&schedule, &record, &context);
        segments += schedule.segments.len();
        let (woken, failures) = record.wakes(0, i64::MAX);
        (wakes, failed) = (wakes + woken, failed + failures);
        asleep_ms += record.durations(0, 1_000_000)[State::Asleep as usize];
    }
    println!(
        "{count} cases, {segments} segments, {wakes} wakes, {failed} failed boots, {orders} orders, {} node-hours asleep, all alike",
        asleep_ms / 3_600_000
    );
    assert!(wakes > 0 && failed > 0 && orders > 0, "the cases reach sleep, boots that fail and controllers");
}

/// Rules that put nothing to sleep leave the schedule as it is without them.
#[test]
fn nodes_that_never_sleep_change_nothing() {
    for seed in 0..2_000 {
        let (workload, cluster, policy): (Workload, _, _) = cases::draw(seed);
        let rules = Rules { slot_ms: 10_000, ..Rules::default() };
        let (schedule, record) =
            simulate_powered(&workload, &cluster, &policy, &mut Supervisor::reactive(rules)).unwrap();
        assert_eq!(schedule, simulate(&workload, &cluster, &policy).unwrap(), "seed {seed}");
        assert!(record.changes.iter().all(|change| matches!(change.state, State::Out | State::Powered)));
    }
}

/// Events after a moment change no order and no state before it.
#[test]
fn the_future_does_not_leak_into_sleep() {
    let mut compared = 0;
    for seed in 0..3_000 {
        let (workload, cluster, policy) = cases::draw(seed);
        // Submissions from here on come later, run longer, and are others; that a job comes at all is known to no one.
        let moment = 60_000;
        let mut other = workload.clone();
        for job in 0..other.len() {
            if other.submit_ms[job] >= moment {
                other.submit_ms[job] += 17_000;
                other.run_ms[job] = other.run_ms[job] / 2 + 7_000;
                other.predicted_s[job] = None;
            }
        }
        let run = |workload: &Workload| {
            simulate_powered(workload, &cluster, &policy, &mut supervisor(seed, &cluster)).unwrap().1
        };
        let (first, second) = (run(&workload), run(&other));
        let before = |record: &Record| {
            let changes: Vec<_> = record.changes.iter().filter(|change| change.at_ms < moment).copied().collect();
            let orders = record.pools.iter().flat_map(|pool| &pool.orders).filter(|order| order.at_ms < moment);
            (changes, orders.map(|order| (order.at_ms, order.asked.to_bits(), order.on)).collect::<Vec<_>>())
        };
        let (first, second) = (before(&first), before(&second));
        compared += first.0.len();
        assert_eq!(first, second, "seed {seed}");
    }
    assert!(compared > 1_000);
}
