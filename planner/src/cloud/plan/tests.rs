//! A zone that is regular, planned by hand.

use super::super::emit::sky_pilot;
use super::super::job::Holding;
use super::*;
use crate::cloud::zones::choice::ZoneRule;

/// 24 h of work at a slack of 0.6, tried from so many starts.
fn asked(starts: usize) -> CloudRequest {
    CloudRequest {
        work_ms: 24 * 3_600_000,
        slacks: vec![0.6],
        changeover_ms: 720_000,
        price_ratio: 3.0,
        is_ratio_given: true,
        starts,
        need: 1,
        ..CloudRequest::default()
    }
}

/// Three hours up, three down, for forty days: 24 h of work in 40 h are done on spot for the most part.
#[test]
fn a_regular_zone_is_planned_on_spot() {
    let zone = SpotSeries {
        zone: Some("us-east-1a".to_owned()),
        instance: Some("V100:1".to_owned()),
        ..SpotSeries::of_counts(
            "regular",
            1_800_000,
            (0..1920).map(|tick| f64::from(u8::from(tick / 6 % 2 == 0))).collect(),
        )
    };
    let request = asked(5);
    let answer = plan(std::slice::from_ref(&zone), "regular".to_owned(), &request, &()).unwrap();
    assert_eq!((answer.body.now.if_up, answer.body.now.if_down), (Holding::Spot, Holding::Idle));
    // 16 h are spare, 12 min of which on-demand needs to begin: the last half hour that leaves them ends at 15.5 h.
    assert!((answer.body.now.latest_on_demand_s - 15.5 * 3600.0).abs() < 1e-6, "{:?}", answer.body.now);
    let recommendation = answer.recommendation.as_ref().unwrap();
    let regret = recommendation.regret.as_ref().unwrap();
    assert!(recommendation.effects[0].change < -0.3 && regret.oracle_change <= recommendation.effects[0].change);
    let files = sky_pilot(&answer);
    assert!(files[0].1.contains("\"use_spot\": true") && files[1].1.contains("\"use_spot\": false"));
    assert!(files[0].1.contains("aws/us-east-1/us-east-1a") && files[0].1.contains("V100:1"));
    let short = CloudRequest { work_ms: 340 * 3_600_000, ..request };
    let said = plan(&[zone], "regular".to_owned(), &short, &()).unwrap_err().to_string();
    assert!(said.contains("once to choose on"), "{said}");
}

/// Spot of one zone is good for the first half and then gone; of the other the other way around. The mean of the windows of choice is for the first; what came last, and what holds now, is for the second. Over both together the job is no dearer.
#[test]
fn a_zone_that_was_good_is_left_for_one_that_is() {
    let zone = |name: &str, early: bool| {
        let up = |tick: usize| f64::from(u8::from((tick < 1000) == early && tick % 24 < 18));
        let series = SpotSeries::of_counts(name, 1_800_000, (0..1920).map(up).collect());
        SpotSeries { zone: Some(name.to_owned()), ..series }
    };
    let request = asked(6);
    let series = [zone("us-east-1a", true), zone("us-west-2a", false)];
    let answer = plan(&series, "two".to_owned(), &request, &()).unwrap();
    assert_eq!((answer.body.trace.as_str(), answer.trial.judged.as_str()), ("us-west-2a", chosen::ANEW));
    let compared = answer.body.compared.as_ref().unwrap();
    let cost = |rule: ZoneRule| compared.rules.iter().find(|of| of.rule == rule).unwrap().cost_ratio.value;
    assert!(cost(ZoneRule::Anew) + 0.3 < cost(ZoneRule::Earlier), "{:?}", compared.rules);
    assert!((cost(ZoneRule::Earlier) - 1.0).abs() < 1e-9 && cost(ZoneRule::Hindsight) <= cost(ZoneRule::Anew));
    let [best, other] = compared.zones.as_slice() else { panic!("{compared:?}") };
    assert_eq!((best.trace.as_str(), best.chosen_for, best.cheapest_in, other.chosen_for), ("us-west-2a", 6, 6, 0));
    assert!(best.expected_now < other.expected_now && other.gone_now && !best.gone_now, "{compared:?}");
    let together = compared.together.as_ref().unwrap();
    assert!(together.misses == 0 && together.cost_ratio.value < cost(ZoneRule::Anew) + 0.05, "{together:?}");
    // What the plan came to is what it cost in the zone that was chosen for each window.
    let judged =
        answer.trial.candidates.iter().find(|of| of.trace == chosen::ANEW && of.policy == answer.trial.chosen).unwrap();
    assert!((judged.report_cost_ratio.value - cost(ZoneRule::Anew)).abs() < 1e-12);
    let text = tracecast_analytics::report::markdown::render(&report(&answer));
    assert!(text.contains("Which zone?") && text.contains("Confidence in the zone"), "{text}");
    // Of other times they are judged each on its own days, and the answer says so.
    let other = SpotSeries { tick_ms: 900_000, ..series[1].clone() };
    let apart = plan(&[series[0].clone(), other], "two".to_owned(), &request, &()).unwrap();
    assert!(apart.body.compared.is_none() && apart.notes.iter().any(|note| note.contains("judged on different days")));
}
