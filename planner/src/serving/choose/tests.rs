//! More requests, settings that are tried, and targets that no number of replicas keeps.
#![allow(clippy::unwrap_used)]

use super::super::service::tests::EXAMPLE;
use super::*;

fn service() -> ReplicaService {
    ReplicaService::parse("s.toml", EXAMPLE).unwrap()
}

fn case<'a>(requests: &'a [LoggedRequest], service: &'a ReplicaService) -> ServingCase<'a> {
    let price = ReplicaPrice { on_demand: 1.0, spot: 1.0 };
    let target = ServingTarget::default();
    ServingCase { service, target, requests, from_us: 0, slot_us: 30_000_000, price, spot: None }
}

#[test]
fn more_requests_put_no_more_than_the_true_load_into_any_second() {
    // Ten requests a second for ten minutes, a minute of which would go beyond the end.
    let requests: Vec<LoggedRequest> =
        (0..6_000).map(|at| LoggedRequest { at_us: at * 100_000, input: 1_000, output: 2 }).collect();
    for (share, more) in [(0.2, 1_200), (0.5, 3_000)] {
        let found = grown(&requests, share);
        assert_eq!(found.len(), 6_000 + more);
        assert!(found.is_sorted_by_key(|request| request.at_us) && found.iter().all(|one| one.at_us < 600_000_000));
        let mut seconds = vec![0; 600];
        found.iter().for_each(|request| seconds[(request.at_us / 1_000_000) as usize] += 1);
        let most = seconds.iter().max().unwrap() - 10;
        assert!(most <= 10, "{share}: {most} more in one second");
    }
}

#[test]
fn the_worked_example_of_what_comes_earlier() {
    // The second request comes again 7.92 s later, beyond the end, so it does before; the fourth would 23.758 s later.
    let at = |second: i64| LoggedRequest { at_us: second * 1_000_000, input: 1, output: 1 };
    let found: Vec<i64> = grown(&[at(0), at(50), at(51), at(52)], 0.5).iter().map(|one| one.at_us).collect();
    assert_eq!(found, [0, 28_242_000, 42_080_000, 50_000_000, 51_000_000, 52_000_000]);
}

#[test]
fn reactive_targets_are_shares_of_the_batch() {
    let of = |batch: &str| {
        let text = EXAMPLE.replace("max_batch = 48", &format!("max_batch = {batch}"));
        let service = ReplicaService::parse("s.toml", &text).unwrap();
        case(&[], &service).targets()
    };
    assert_eq!(of("48"), TARGETS);
    assert_eq!(of("1"), [1, 2]);
    let large = of("256");
    assert_eq!((&large[..4], &large[large.len() - 3..]), (&[1, 2, 4, 5][..], &[256, 341, 512][..]));
}

#[test]
fn a_target_that_no_replica_keeps_alone_takes_one_replay() {
    // A tenth of the prompts takes 3 s of the 2 s promised; a twentieth may be late.
    let service = service();
    let requests: Vec<LoggedRequest> = (0..100)
        .map(|at| LoggedRequest { at_us: at * 1_000_000, input: if at % 10 == 0 { 12_000 } else { 400 }, output: 3 })
        .collect();
    let of = case(&requests, &service);
    let (window, load) = ((0, 100_000_000), ServingLoad::of(&service, &requests));
    assert_eq!((of.late_alone(of.target, window), of.late_alone(of.target, (1, 10_000_001))), ((100, 10), (10, 1)));
    let found = of.fewest(of.target, load, window);
    assert_eq!((found.kept, found.tried, found.rule), (false, 1, ServingRule::Constant { replicas: 1 }));
    // With 3 s promised, none of them is late alone; with 20 ms a token, all are.
    assert_eq!(of.late_alone(ServingTarget { ttft_s: 3.0, ..of.target }, window), (100, 0));
    assert_eq!(of.late_alone(ServingTarget { tpot_s: 0.02, ..of.target }, window), (100, 100));
}
