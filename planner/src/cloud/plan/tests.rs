//! A zone that is regular, planned by hand.

use super::super::emit::sky_pilot;
use super::*;

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
    let request = CloudRequest {
        work_ms: 24 * 3_600_000,
        deadline_ms: None,
        slacks: vec![0.6],
        changeover_ms: 720_000,
        price_ratio: 3.0,
        is_ratio_given: true,
        starts: 5,
        need: 1,
        elastic: false,
        together: None,
        uncertain: None,
    };
    let answer = CloudPlanAnswer::of(std::slice::from_ref(&zone), "regular".to_owned(), &request, &()).unwrap();
    assert_eq!((answer.now.if_up, answer.now.if_down), (Holding::Spot, Holding::Idle));
    // 16 h are spare, 12 min of which on-demand needs to begin: the last half hour that leaves them ends at 15.5 h.
    assert!((answer.now.latest_on_demand_s - 15.5 * 3600.0).abs() < 1e-6, "{:?}", answer.now);
    let recommendation = answer.recommendation.as_ref().unwrap();
    let regret = recommendation.regret.as_ref().unwrap();
    assert!(recommendation.effects[0].change < -0.3 && regret.oracle_change <= recommendation.effects[0].change);
    let files = sky_pilot(&answer);
    assert!(files[0].1.contains("\"use_spot\": true") && files[1].1.contains("\"use_spot\": false"));
    assert!(files[0].1.contains("aws/us-east-1/us-east-1a") && files[0].1.contains("V100:1"));
    let short = CloudRequest { work_ms: 340 * 3_600_000, ..request };
    let said = CloudPlanAnswer::of(&[zone], "regular".to_owned(), &short, &()).unwrap_err().to_string();
    assert!(said.contains("once to choose on"), "{said}");
}
