//! The bound and the search against all schedules of small cases.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::super::choose::ReplicaPrice;
use super::super::service::tests::EXAMPLE;
use super::*;

const SLOT_US: i64 = 30_000_000;

/// Replicas that start within a slot.
fn service() -> ReplicaService {
    ReplicaService::parse("s.toml", &EXAMPLE.replace("90s", "30s")).unwrap()
}

fn case<'a>(requests: &'a [LoggedRequest], service: &'a ReplicaService, target: ServingTarget) -> ServingCase<'a> {
    let price = ReplicaPrice { on_demand: 1.0, spot: 1.0 };
    ServingCase { service, target, requests, from_us: 0, slot_us: SLOT_US, price, spot: None }
}

#[test]
fn the_worked_example() {
    let requests = vec![LoggedRequest { at_us: 0, input: 4_000, output: 1 }; 100];
    let target = ServingTarget { ttft_s: 200.0, ..ServingTarget::default() };
    assert!((bound_s(&requests, &service(), target, (0, 300_000_000)) - 95.0).abs() < 1e-9);
    // Those whose time does not end within the window need not be served in it.
    assert_eq!(bound_s(&requests, &service(), target, (0, 199_000_000)), 0.0);
}

#[test]
fn a_quiet_stretch_needs_fewer_replicas() {
    // For two minutes a request of 4 s every 2 s, which two replicas just serve; then one a minute for six minutes.
    let busy = (0..60).map(|at| LoggedRequest { at_us: at * 2_000_000, input: 16_000, output: 1 });
    let quiet = (0..6).map(|at| LoggedRequest { at_us: 125_000_000 + at * 60_000_000, input: 16_000, output: 1 });
    let requests: Vec<LoggedRequest> = busy.chain(quiet).collect();
    let service = service();
    let target = ServingTarget { ttft_s: 5.0, tpot_s: 0.1, share: 1.0 };
    let of = case(&requests, &service, target);
    let window = (0, 480_000_000);
    let found = of.hindsight(ServingLoad::of(&service, &requests), window).unwrap();
    // Two in each of the first four slots, one after that: 2 × 120 + 360 s, and what the second serves when it is stopped.
    assert_eq!(found.counts.iter().filter(|count| **count == 2).count(), 4, "{:?}", found.counts);
    assert!(of.keeps(&found.score, target) && found.score.cost < 610.0, "{:?}", found.score);
}

/// Up to eight requests over four slots.
fn any_requests() -> impl Strategy<Value = Vec<LoggedRequest>> {
    let request = (0i64..110, 4_000u32..60_000, 1u32..40);
    proptest::collection::vec(request, 2..9).prop_map(|of| {
        let mut requests: Vec<LoggedRequest> =
            of.into_iter().map(|(s, input, output)| LoggedRequest { at_us: s * 1_000_000, input, output }).collect();
        requests.sort_by_key(|request| request.at_us);
        requests
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Of all schedules of at most two replicas in four slots, none that keeps the target costs less than the bound; and what the search finds costs no less than the
    /// least of them.
    #[test]
    fn nothing_that_keeps_the_target_is_cheaper_than_the_bound(requests in any_requests(), ttft in 10u32..40, share in 0usize..2) {
        let service = service();
        let share = [1.0, 0.75][share];
        let target = ServingTarget { ttft_s: f64::from(ttft), tpot_s: 0.5, share };
        let of = case(&requests, &service, target);
        let window = (0, 4 * SLOT_US);
        let bound = bound_s(&requests, &service, target, window);
        let mut least = f64::INFINITY;
        for number in 0..81u32 {
            let counts: Vec<u32> = (0..4).map(|slot| number / 3u32.pow(slot) % 3).collect();
            let score = of.scored_schedule(&counts, window);
            if of.keeps(&score, target) {
                prop_assert!(score.cost >= bound - 1e-6, "{counts:?} costs {} and the bound is {bound}", score.cost);
                least = least.min(score.cost);
            }
        }
        if let Some(found) = of.hindsight(ServingLoad::of(&service, &requests), window) {
            prop_assert!(of.keeps(&found.score, target) && found.score.cost >= bound - 1e-6);
            if found.counts.iter().all(|count| *count <= 2) {
                prop_assert!(found.score.cost >= least - 1e-6, "{found:?} is less than the least of all, {least}");
            }
        }
    }
}
