//! More requests, settings that are tried, and targets that no number of replicas keeps.
#![allow(clippy::unwrap_used)]

use super::super::service::tests::EXAMPLE;
use super::*;

fn service() -> ReplicaService {
    ReplicaService::parse("s.toml", EXAMPLE).unwrap()
}

/// Bursts of a minute in every four: three requests a second, and one in eight seconds between them.
fn bursts() -> Vec<LoggedRequest> {
    let every = |second: i64| if second % 240 < 60 { 333_000 } else { 8_000_000 };
    let mut at_us = 0;
    std::iter::from_fn(|| {
        at_us += every(at_us / 1_000_000);
        (at_us < 1_200_000_000).then_some(LoggedRequest { at_us, input: 3_000 + (at_us % 1_900) as u32, output: 40 })
    })
    .collect()
}

fn case<'a>(requests: &'a [LoggedRequest], service: &'a ReplicaService) -> ServingCase<'a> {
    let price = ReplicaPrice { on_demand: 1.0, spot: 1.0 };
    let target = ServingTarget::default();
    ServingCase {
        service,
        target,
        requests,
        from_us: 0,
        slot_us: 30_000_000,
        price,
        spot: None,
        standard: ServedStandard::Reactive,
        naive: false,
    }
}

#[test]
fn more_requests_put_no_more_than_the_true_load_into_any_second() {
    // Ten requests a second for ten minutes, a minute of which would go beyond the end.
    let requests: Vec<LoggedRequest> =
        (0..6_000).map(|at| LoggedRequest { at_us: at * 100_000, input: 1_000, output: 2 }).collect();
    for (share, more) in [(0.2, 1_200), (0.5, 3_000)] {
        let result = grown(&requests, share);
        assert_eq!(result.len(), 6_000 + more);
        assert!(result.is_sorted_by_key(|request| request.at_us) && result.iter().all(|one| one.at_us < 600_000_000));
        let mut seconds = vec![0; 600];
        result.iter().for_each(|request| seconds[(request.at_us / 1_000_000) as usize] += 1);
        let most = seconds.iter().max().unwrap() - 10;
        assert!(most <= 10, "{share}: {most} more in one second");
    }
}

#[test]
fn the_worked_example_of_what_comes_earlier() {
    // The second request comes again 7.92 s later, beyond the end, so it does before; the fourth would 23.758 s later.
    let at = |second: i64| LoggedRequest { at_us: second * 1_000_000, input: 1, output: 1 };
    let result: Vec<i64> = grown(&[at(0), at(50), at(51), at(52)], 0.5).iter().map(|one| one.at_us).collect();
    assert_eq!(result, [0, 28_242_000, 42_080_000, 50_000_000, 51_000_000, 52_000_000]);
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
    let (window, load) = ((0, 100_000_000), ServingLoad::new(&service, &requests));
    assert_eq!((of.late_alone(of.target, window), of.late_alone(of.target, (1, 10_000_001))), ((100, 10), (10, 1)));
    let result = of.fewest(of.target, load, window);
    assert_eq!((result.kept, result.tried, result.rule), (false, 1, ServingRule::Constant { replicas: 1 }));
    // Nineteen in twenty of them need 3 s for their first token, nine in ten 100 ms.
    assert_eq!((of.least_ttft_s(0.95, window), of.least_ttft_s(0.9, window)), (3.0, 0.1));
    // With 3 s promised, none of them is late alone; with 20 ms a token, all are.
    assert_eq!(of.late_alone(ServingTarget { ttft_s: 3.0, ..of.target }, window), (100, 0));
    assert_eq!(of.late_alone(ServingTarget { tpot_s: 0.02, ..of.target }, window), (100, 100));
}

#[test]
fn what_is_saved_is_half_spent_on_fewer_late() {
    let (service, requests) = (service(), bursts());
    let (more, far) = (grown(&requests, 0.2), grown(&requests, 0.5));
    let of = case(&requests, &service);
    let (grown, far_grown) = (case(&more, &service), case(&far, &service));
    let (window, load) = ((240_000_000, 1_200_000_000), ServingLoad::new(&service, &requests));
    let within = ChoosingIn { grown: &grown, far_grown: &far_grown, load, initial: 4, window };
    let settings: Vec<ScalingSetting> = (1..=12).map(|replicas| (ServingRule::Constant { replicas }, None)).collect();
    let tried = of.tried(settings.clone(), &within);
    // By hand: what each constant is late with now, and in all.
    let late = |replicas: u32| {
        let score = |case: &ServingCase<'_>| case.scored(ServingRule::Constant { replicas }, None, load, 4, window);
        let (now, more, far) = (score(&of), score(&grown), score(&far_grown));
        let kept = of.keeps(&now, of.target.with_reserve()) && of.keeps(&more, of.target.with_reserve());
        (now.late(), now.late() + more.late() + far.late(), now.cost, kept)
    };
    let known: Vec<_> = (1..=12).map(late).collect();
    let cheapest = of.cheapest(&tried, &within).unwrap();
    let enough = known.iter().position(|(_, _, _, kept)| *kept).unwrap();
    assert_eq!((cheapest.rule, cheapest.kept), (settings[enough].0, true));
    // A reactive rule that is late with as many as that constant, for twice its cost.
    let (late_now, late, cost, _) = known[enough];
    let alike = of.with_more(settings[enough], &cheapest.score, &within).unwrap();
    assert_eq!((alike.score.late(), alike.late), (late_now, late));
    let bar = Finalist { cost: 2.0 * alike.cost, ..alike };
    let finalists = of.finalists(&tried, &within, &bar);
    // A constant number costs three times as much on three logs.
    assert!((alike.cost - 3.0 * cost).abs() < 0.02 * alike.cost);
    let most = most_for_safety(finalists.iter(), &bar).unwrap();
    assert!((most - 1.5 * alike.cost).abs() < 1e-9);
    let safe = safest(&finalists, most).unwrap();
    let fewest =
        known.iter().filter(|(now, all, cost, kept)| *kept && *now <= late_now && *all <= late && 3.0 * *cost <= most);
    assert_eq!(Some(safe.late), fewest.map(|(_, all, _, _)| *all).min());
    assert!(safe.late < late && safe.cost > alike.cost && safe.chosen(12).as_good);
    // One that is late with none is not reached, and one that costs less is not undercut.
    let none = Finalist { late: 0, score: ServingScore { in_time: alike.score.requests, ..alike.score }, ..bar };
    assert!(of.finalists(&tried, &within, &none).iter().all(|one| one.late == 0));
    assert!(of.finalists(&tried, &within, &Finalist { cost: 0.9 * alike.cost, ..bar }).is_empty());
    // Nobody is told against a reactive rule that is not asked for.
    let reactive = ChosenSetting { kept: true, ..cheapest };
    assert!(within.bar(&of, &reactive).is_some());
    assert!(within.bar(&ServingCase { standard: ServedStandard::Target, ..of }, &reactive).is_none());
    assert!(within.bar(&of, &ChosenSetting { kept: false, ..cheapest }).is_none());
}

#[test]
fn forecasts_are_tried_with_margins_by_root_and_with_guards() {
    let (service, requests) = (service(), bursts());
    let (more, far) = (grown(&requests, 0.2), grown(&requests, 0.5));
    let of = case(&requests, &service);
    let (grown, far_grown) = (case(&more, &service), case(&far, &service));
    let load = ServingLoad::new(&service, &requests);
    let within =
        ChoosingIn { grown: &grown, far_grown: &far_grown, load, initial: 4, window: (240_000_000, 1_200_000_000) };
    let tried = of.forecasts(&within);
    let count = |of: &dyn Fn(f64, f64, Option<u32>) -> bool| {
        let rules = tried.settings.iter().filter(|(rule, _)| match rule {
            ServingRule::Forecast { margin, root, guard, .. } => of(*margin, *root, *guard),
            _ => false,
        });
        rules.count()
    };
    assert!(count(&|_, root, guard| root != 0.0 && guard.is_none()) > 500);
    assert!(count(&|margin, _, guard| margin != 0.0 && guard.is_none()) > 500);
    assert!(count(&|_, _, guard| guard == Some(16)) > 0 && count(&|_, _, guard| guard == Some(24)) > 0);
    assert_eq!(tried.settings.len(), tried.scores.len());
}
