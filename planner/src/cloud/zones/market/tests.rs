use super::*;
use crate::cloud::zones::probe::Past;

const HOUR: i64 = 3_600_000;

/// Zones a1, a2, … of regions as numbered.
pub(in crate::cloud) fn places(region: &[usize], on_demand: &[f64], egress: f64, tick_ms: i64) -> Places {
    let regions = region.iter().copied().max().unwrap() + 1;
    Places {
        names: region.iter().enumerate().map(|(zone, region)| format!("{region}{zone}")).collect(),
        region: region.to_vec(),
        regions: (0..regions).map(|region| region.to_string()).collect(),
        on_demand: on_demand.to_vec(),
        egress,
        tick_ms,
    }
}

/// Ticks of two zones, each with spot for a dollar or with none.
pub(in crate::cloud) fn at_a_dollar(up: &[(bool, bool)]) -> Vec<(Vec<bool>, Vec<f64>)> {
    up.iter().map(|(a, b)| (vec![*a, *b], vec![1.0, 1.0])).collect()
}

#[test]
fn the_worked_example() {
    use ZoneHolding::{Idle, Spot};
    let rows = at_a_dollar(&[(true, false), (false, true), (true, false), (false, false)]);
    let market = Market::from_rows(places(&[0, 1], &[3.0, 3.0], 1.0, HOUR), &rows);
    let job = DeadlineJob { work_ms: 2 * HOUR, deadline_ms: 4 * HOUR, changeover_ms: 0, price_ratio: 3.0 };
    let cost = |way: Vec<ZoneHolding>| travel(&mut Listed::new(way, true), &market, 0, &job, &mut |_| ());
    let (stays, moves) = (cost(vec![Spot(0), Idle, Spot(0)]), cost(vec![Spot(0), Spot(1)]));
    assert!(!stays.missed && (stays.cost - 2.0).abs() < 1e-12 && (moves.cost - 3.0).abs() < 1e-12);
    assert_eq!(moves.changeovers, 2);
    assert!((market.places.all_on_demand(&job) - 6.0).abs() < 1e-12);
}

/// On-demand that just makes it is not left for a cheaper zone, which would take a changeover more.
#[test]
fn on_demand_stays_where_it_is_when_there_is_no_time_to_move() {
    let job = DeadlineJob { work_ms: 2 * HOUR, deadline_ms: 3 * HOUR, changeover_ms: HOUR, price_ratio: 3.0 };
    let rows = vec![(vec![false, false], vec![1.0, 1.0]); 3];
    let market = Market::from_rows(places(&[0, 1], &[4.0, 3.0], 0.5, HOUR), &rows);
    let mut held = Vec::new();
    let way = vec![ZoneHolding::OnDemand(0), ZoneHolding::OnDemand(1), ZoneHolding::Idle];
    let run = travel(&mut Listed::new(way, true), &market, 0, &job, &mut |of| held.push(of));
    assert!(!run.missed && (run.cost - 12.0).abs() < 1e-12);
    assert_eq!(held, [ZoneHolding::OnDemand(0); 3]);
    // Left to itself, the net begins where it costs least.
    let run = travel(&mut Listed::new(Vec::new(), true), &market, 0, &job, &mut |_| ());
    assert!((run.cost - 9.0).abs() < 1e-12);
}

/// Probes every three hours, each of six minutes in zones with spot. Zone a has it in hours 1, 2 and 5, zone b in hours 1 and 4, both at 1 dollar.
/// The job begins in a and loses it in hour 3. It tries b there, which is down: an hour is gone. In hour 4 both are probed and b alone is up, but it wants a, which it sees to be down. In hour 5 it tries a.
#[test]
fn a_try_that_fails_costs_a_tick() {
    use ZoneHolding::{Idle, OnDemand, Spot};
    let rows =
        at_a_dollar(&[(true, true), (true, false), (false, false), (false, true), (true, false), (false, false)]);
    let probes = Probes { every_ms: 3 * HOUR, bill_ms: HOUR / 10, past: Past::Probed };
    let market = Market::from_rows(places(&[0, 0], &[3.0, 3.0], 0.0, HOUR), &rows).probed(Some(probes));
    let job = DeadlineJob { work_ms: 3 * HOUR, deadline_ms: 6 * HOUR, changeover_ms: 0, price_ratio: 3.0 };
    let way = vec![Spot(0), Spot(0), Spot(1), Spot(0), Spot(0)];
    let mut held = Vec::new();
    let run = travel(&mut Listed::new(way.clone(), true), &market, 0, &job, &mut |of| held.push(of));
    assert_eq!(held, [Spot(0), Spot(0), Idle, Idle, Spot(0)]);
    assert_eq!((run.failed, run.asked, run.lost, run.missed), (1, 4, 1, false));
    // Three hours of spot, and probes that found two zones and one.
    assert!((run.cost - 3.3).abs() < 1e-12, "{run:?}");
    let unasked = travel(&mut Listed::new(way, false), &market, 0, &job, &mut |_| ());
    assert!((unasked.cost - 3.0).abs() < 1e-12 && unasked.asked == 0, "{unasked:?}");
    // With an hour less there is time for a try in hour 3 that gets an instance, and not for one that fails: on-demand begins.
    let tight = DeadlineJob { deadline_ms: 3 * HOUR, ..job };
    let mut held = Vec::new();
    let run = travel(&mut Listed::new(vec![Spot(0), Spot(1)], true), &market, 1, &tight, &mut |of| held.push(of));
    assert_eq!(held, [Spot(0), OnDemand(0), OnDemand(0)]);
    assert!(!run.missed && (run.cost - 7.1).abs() < 1e-12 && run.failed == 0, "{run:?}");
}

fn zone(name: &str, instance: &str, list_price: Option<f64>) -> SpotSeries {
    SpotSeries {
        name: format!("{name}_file"),
        zone: Some(name.to_owned()),
        instance: Some(instance.to_owned()),
        tick_ms: HOUR,
        counts: vec![1.0; 3],
        unread: Vec::new(),
        begins_ms: None,
        price: None,
        list_price,
        sources: Vec::new(),
    }
}

/// On-demand at 6 and 3 dollars in the files, three times the price of spot: spot costs 2 and 1. If one file says nothing, it is 3 dollars beside 1 everywhere.
#[test]
fn what_files_say_of_on_demand_gives_the_price_of_spot() {
    let of = |prices: [Option<f64>; 2]| {
        let zones = [zone("us-east-1a", "V100:1", prices[0]), zone("us-west-2a", "V100:1", prices[1])];
        let market = Market::new(&zones, 1, 3.0, 0.0).unwrap();
        (market.places.on_demand.clone(), market.sight(1).price.to_vec())
    };
    assert_eq!(of([Some(6.0), Some(3.0)]), (vec![6.0, 3.0], vec![2.0, 1.0]));
    assert_eq!(of([Some(6.0), None]), (vec![3.0, 3.0], vec![1.0, 1.0]));
}

#[test]
fn zones_of_different_instances_are_no_places_of_one_job() {
    for other in ["V100:8", "K80:1"] {
        let zones = [zone("us-east-1a", "V100:1", None), zone("us-west-2a", other, None)];
        let said = Market::new(&zones, 1, 3.0, 0.0).unwrap_err().to_string();
        assert!(said.contains(&format!("us-east-1a_file is of V100:1, and us-west-2a_file of {other}")), "{said}");
    }
}

#[test]
fn regions_of_zones() {
    let of = ["us-east-1a", "us-central1-a", "eastus", "local", "us-gov-west-1b", "eastus-1", "rack-1"].map(region_of);
    assert_eq!(of, ["us-east-1", "us-central1", "eastus", "local", "us-gov-west-1", "eastus", "rack-1"]);
}
