//! Timelines worked out by hand, and what holds of every replay.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::super::rule::{Deciding, ServingLoad, ServingRule};
use super::super::service::tests::EXAMPLE;
use super::*;

fn service() -> ReplicaService {
    ReplicaService::parse("s.toml", EXAMPLE).unwrap()
}

/// A request at a time in milliseconds.
fn at(ms: i64, input: u32, output: u32) -> LoggedRequest {
    LoggedRequest { at_us: ms * 1000, input, output }
}

/// Slots of 30 s.
fn slots(count: usize) -> Slots {
    Slots { from_us: 0, slot_us: 30_000_000, count }
}

fn constant(requests: &[LoggedRequest], count: u32) -> ServedLog {
    replay(requests, &service(), slots(4), count, &|_| 0, &mut |_| WantedReplicas::on_demand(count))
}

fn times(replayed: &ServedLog) -> Vec<(i64, i64)> {
    replayed.served.iter().map(|served| (served.first_us, served.done_us)).collect()
}

#[test]
fn the_worked_example() {
    let alone = constant(&[at(0, 4_000, 3)], 1);
    assert_eq!(times(&alone), [(1_000_000, 1_045_100)]);
    let two = constant(&[at(0, 4_000, 3), at(1_010, 4_000, 1)], 1);
    assert_eq!(times(&two), [(1_000_000, 2_045_100), (2_022_550, 2_022_550)]);
}

#[test]
fn sequences_share_steps() {
    // Two prefills of 0.5 s; then steps of 23.1 ms for both, until the first has its three tokens, and of 22.55 ms for the other alone.
    let replayed = constant(&[at(0, 2_000, 3), at(0, 2_000, 5)], 1);
    assert_eq!(times(&replayed), [(500_000, 1_046_200), (1_000_000, 1_046_200 + 2 * 22_550)]);
}

#[test]
fn memory_and_batch_make_requests_wait() {
    // The two do not fit together into 200,000 tokens: the second begins when the first is done, after 30 s and one step.
    let replayed = constant(&[at(0, 120_000, 2), at(0, 100_000, 1)], 1);
    assert_eq!(times(&replayed), [(30_000_000, 30_022_550), (55_022_550, 55_022_550)]);
    let narrow = ReplicaService::parse("s.toml", &EXAMPLE.replace("max_batch = 48", "max_batch = 1")).unwrap();
    let replayed = replay(&[at(0, 4_000, 2), at(0, 4_000, 1)], &narrow, slots(1), 1, &|_| 0, &mut |_| {
        WantedReplicas::on_demand(1)
    });
    assert_eq!(times(&replayed), [(1_000_000, 1_022_550), (2_022_550, 2_022_550)]);
}

#[test]
fn a_request_goes_to_the_replica_with_the_fewest() {
    let replayed = constant(&[at(0, 4_000, 1), at(0, 4_000, 1), at(100, 4_000, 1), at(2_000, 4_000, 1)], 2);
    let replicas: Vec<u32> = replayed.served.iter().map(|served| served.replica).collect();
    // The third waits behind the first, and both have ended when the fourth comes: all are equal, and the oldest takes it.
    assert_eq!(replicas, [0, 1, 0, 0]);
    assert_eq!(replayed.served[2].first_us, 2_000_000);
}

#[test]
fn replicas_start_late_and_take_over_what_waits() {
    // Twelve prefills of 10 s at once on one replica. At the first slot one more is asked for, which serves after 90 s.
    let requests: Vec<LoggedRequest> = (0..12).map(|_| at(0, 40_000, 1)).collect();
    let replayed = replay(&requests, &service(), slots(8), 1, &|_| 0, &mut |_| WantedReplicas::on_demand(2));
    let first: Vec<i64> = replayed.served.iter().map(|served| served.first_us / 1_000_000).collect();
    // Nine prefills by 90 s. Then the tenth and, at the new replica, the eleventh begin together; the twelfth follows.
    assert_eq!(first, [10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 100, 110]);
    assert_eq!(replayed.ready, [1, 1, 1, 2, 2, 2, 2, 2]);
    // Both are paid for from the beginning, as the second was asked for then: eight slots each.
    assert!((replayed.paid_s(HeldAs::OnDemand, (0, 240_000_000)) - 480.0).abs() < 1e-9);
    assert_eq!(replayed.starts((0, 240_000_000)), 1);
}

#[test]
fn what_is_stopped_serves_what_it_has() {
    // Two replicas with a prefill of 40 s each; at 30 s one is wanted. Of equals the youngest stops: it ends its request at 40 s, and is paid for until then.
    let replayed = replay(&[at(0, 160_000, 1), at(0, 160_000, 1)], &service(), slots(3), 2, &|_| 0, &mut |seen| {
        WantedReplicas::on_demand(if seen.slot == 0 { 2 } else { 1 })
    });
    assert_eq!(times(&replayed), [(40_000_000, 40_000_000); 2]);
    assert_eq!(replayed.paid.iter().map(|paid| paid.to_us).collect::<Vec<_>>(), [90_000_000, 40_000_000]);
    // What has not begun to serve is stopped first, at once.
    let replayed = replay(&[at(0, 4_000, 1)], &service(), slots(3), 1, &|_| 0, &mut |seen| {
        WantedReplicas::on_demand(if seen.slot == 0 { 2 } else { 1 })
    });
    assert_eq!(replayed.paid[1].to_us, 30_000_000);
    assert!((replayed.paid_s(HeldAs::OnDemand, (0, 90_000_000)) - 120.0).abs() < 1e-9);
}

#[test]
fn spot_that_is_taken_away_gives_its_requests_back() {
    // One replica on spot, up from 90 s to 120 s, and none on demand. The request of 40 s begins at 90 s, is taken away at 120 s, and is begun again when spot is back
    // at 150 s and has started, at 240 s.
    let spot = |at: i64| u32::from(at != 120_000_000);
    let replayed = replay(&[at(0, 160_000, 1)], &service(), slots(10), 0, &spot, &mut |_| WantedReplicas {
        on_demand: 0,
        spot: 1,
    });
    assert_eq!((times(&replayed), replayed.served[0].begun), (vec![(280_000_000, 280_000_000)], 2));
    assert!((replayed.paid_s(HeldAs::Spot, (0, 300_000_000)) - 270.0).abs() < 1e-9);
}

#[test]
fn nobody_is_left_without_a_replica() {
    let replayed = replay(&[at(0, 4_000, 1)], &service(), slots(1), 0, &|_| 0, &mut |_| WantedReplicas::on_demand(0));
    // After the last slot one is started for what waits.
    assert_eq!(times(&replayed), [(121_000_000, 121_000_000)]);
}

/// Requests over five minutes, and numbers of replicas slot by slot.
fn any_case() -> impl Strategy<Value = (Vec<LoggedRequest>, Vec<(u32, u32)>, Vec<u32>)> {
    let request = (0i64..300_000, 0u32..9_000, 0u32..60).prop_map(|(ms, input, output)| at(ms, input, output));
    let requests = proptest::collection::vec(request, 1..60).prop_map(|mut requests| {
        requests.sort_by_key(|request| request.at_us);
        requests
    });
    (requests, proptest::collection::vec((0u32..4, 0u32..3), 12), proptest::collection::vec(0u32..3, 12))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn each_request_is_served_once_by_a_replica_that_is_up((requests, asked, up) in any_case()) {
        let spot = |at: i64| up.get((at / 30_000_000) as usize).copied().unwrap_or(0);
        let run = || replay(&requests, &service(), slots(12), 1, &spot, &mut |seen| {
            let (on_demand, spot) = asked[seen.slot];
            WantedReplicas { on_demand, spot }
        });
        let replayed = run();
        prop_assert_eq!(&replayed, &run());
        for (request, served) in requests.iter().zip(&replayed.served) {
            let paid = replayed.paid[served.replica as usize];
            prop_assert!(served.begun >= 1 && served.begun_us >= request.at_us && served.begun_us >= paid.ready_us, "{:?} {:?}", served, paid);
            prop_assert_eq!(served.first_us, served.begun_us + service().prefill_us(request.input));
            // Each further token takes a step, at least as long as that of a sequence alone; nothing is served after its replica is gone.
            prop_assert!(served.done_us >= served.first_us + (i64::from(request.output.max(1)) - 1) * 22_550);
            prop_assert!(served.done_us <= paid.to_us, "{:?} {:?}", served, paid);
        }
        // A replica works one prefill at a time.
        let mut begun: Vec<(u32, i64, i64)> = replayed.served.iter().map(|of| (of.replica, of.begun_us, of.first_us)).collect();
        begun.sort_unstable();
        for pair in begun.windows(2) {
            prop_assert!(pair[0].0 != pair[1].0 || pair[1].1 >= pair[0].2, "{pair:?}");
        }
    }

    /// Requests after a moment change nothing that was decided by then.
    #[test]
    fn decisions_do_not_see_what_comes((requests, _, _) in any_case(), cut in 1usize..10, swap in 0u32..3) {
        let moment = cut as i64 * 30_000_000;
        let rule = match swap {
            0 => ServingRule::Reactive { target: 2, least: 1, hold_slots: 2 },
            1 => ServingRule::Forecast { window_slots: 2, quantile: 0.9, margin: 0.1, root: 0.3, use_share: 0.5, guard: Some(5), least: 1, hold_slots: 2 },
            _ => ServingRule::Constant { replicas: 2 },
        };
        let load = ServingLoad { input_token_s: 0.000_25, mean_output: 30.0, output_token_s: 0.001 };
        let decided = |requests: &[LoggedRequest]| {
            let mut deciding = Deciding::new(rule, None, load, 30_000_000, 1);
            replay(requests, &service(), slots(10), 1, &|_| 0, &mut |seen| deciding.decide(seen)).wanted
        };
        // What comes later is turned round, and comes twice.
        let (before, after): (Vec<LoggedRequest>, Vec<LoggedRequest>) = requests.iter().partition(|request| request.at_us < moment);
        let mut other = before;
        other.extend(after.iter().rev().zip(&after).flat_map(|(of, when)| {
            let moved = LoggedRequest { at_us: when.at_us, input: of.input / 2, output: of.output + 7 };
            [moved, moved]
        }));
        prop_assert_eq!(&decided(&requests)[..=cut], &decided(&other)[..=cut]);
    }
}

#[test]
fn a_replica_that_is_stopped_before_it_serves_deals_nothing_out() {
    // The first is busy until 100 s, and the third request waits behind it, as both had one when it came. A third replica is started at 0, would serve at 90 s, and is
    // stopped at 30 s: at 90 s nothing is dealt out anew, and the request is served after the one before it.
    let requests = [at(0, 400_000, 1), at(0, 4_000, 1), at(500, 4_000, 1)];
    let served = replay(&requests, &service(), slots(4), 2, &|_| 0, &mut |seen| {
        WantedReplicas::on_demand(if seen.slot == 0 { 3 } else { 2 })
    });
    let first: Vec<i64> = served.served.iter().map(|one| one.first_us).collect();
    assert_eq!(first, [100_000_000, 1_000_000, 101_000_000]);
}
