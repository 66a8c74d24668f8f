//! Fronts by enumeration, and what is not told is refused.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::super::demand::HourDemand;
use super::super::supply::tests::simple;
use super::super::supply::{Commitment, Rental};
use super::*;

/// Two instances on demand that differ in price and carbon, and a reservation of each.
fn supply([dear, clean]: [f64; 2], [dirty, low]: [f64; 2], reserved: [f64; 2]) -> FleetSupply {
    let one = simple(1.0, dear, None);
    let rental = |per_gpu_h: f64, kg: f64| Rental { per_gpu_h, kg_per_gpu_h: kg, ..one.on_demand[0].clone() };
    let commitment =
        |per_h: f64, kg: f64| Commitment { per_h, kg_per_h: kg, limit: Some(3), ..one.commitments[0].clone() };
    FleetSupply {
        on_demand: vec![rental(dear, dirty), rental(clean, low)],
        commitments: vec![commitment(reserved[0], dirty), commitment(reserved[1], low)],
        ..one
    }
}

fn demand(needs: &[u32]) -> PoolDemand {
    let hour = |need: &u32| HourDemand { firm: f64::from(*need), total: f64::from(*need) };
    PoolDemand { hours: needs.iter().map(hour).collect(), jobs: 1, ..PoolDemand::default() }
}

/// Cost and carbon of every number of commitments with every way to rent the rest: all of one, or all of the other.
fn all_mixes(supply: &FleetSupply, demand: &PoolDemand) -> Vec<(f64, f64)> {
    let mut found = Vec::new();
    for first in 0..=3u32 {
        for second in 0..=3u32 {
            let room = f64::from(first + second);
            let hours = demand.hours.len() as f64;
            let held = [f64::from(first), f64::from(second)];
            let of = |figure: &dyn Fn(&Commitment) -> f64| -> f64 {
                supply.commitments.iter().zip(held).map(|(of, count)| figure(of) * count * hours).sum()
            };
            let (cost, kg) = (of(&|of| of.per_h), of(&|of| of.kg_per_h));
            let rest: f64 = demand.hours.iter().map(|hour| (hour.total - room).max(0.0)).sum();
            for rental in &supply.on_demand {
                found.push((cost + rest * rental.per_gpu_h, kg + rest * rental.kg_per_gpu_h));
            }
        }
    }
    found
}

#[test]
fn the_worked_example() {
    let supply = FleetSupply { commitments: Vec::new(), ..supply([2.0, 2.5], [0.4, 0.1], [9.0, 9.0]) };
    let needs = demand(&[1]);
    let found = front(&[(supply.clone(), &needs)]);
    let told: Vec<(f64, f64)> = found.iter().map(|of| (of.spent.cost(), of.spent.carbon_kg)).collect();
    assert_eq!(told, [(2.0, 0.4), (2.5, 0.1)]);
    // Of two at one price the cleaner alone is told, whichever stands first.
    for kg in [[0.4, 0.1], [0.1, 0.4]] {
        let even = FleetSupply { commitments: Vec::new(), ..self::supply([2.0, 2.0], kg, [9.0, 9.0]) };
        let found = front(&[(even, &needs)]);
        assert_eq!(found.iter().map(|of| of.spent.carbon_kg).collect::<Vec<_>>(), [0.1]);
    }
    // Where the cheapest is the cleanest there is one mix.
    let needs = demand(&[2, 3]);
    let clean = FleetSupply { on_demand: supply.on_demand[..1].to_vec(), ..supply };
    assert_eq!(front(&[(clean, &needs)]).len(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Every mix of the front is the best of all for its weight, the ends are the cheapest and the cleanest of all, and the others lie between them in order.
    #[test]
    fn enumeration_finds_nothing_below_the_front(
        needs in prop::collection::vec(0u32..5, 1..6),
        prices in (20u32..60, 20u32..60),
        carbon in (1u32..50, 1u32..50),
        reserved in (10u32..50, 10u32..50),
    ) {
        let two = |(a, b): (u32, u32)| [f64::from(a) / 10.0, f64::from(b) / 10.0];
        let supply = supply(two(prices), two(carbon), two(reserved));
        let demand = demand(&needs);
        let all = all_mixes(&supply, &demand);
        let found = front(&[(supply, &demand)]);
        for of in &found {
            let weighed = |(cost, kg): (f64, f64)| cost + of.per_kg * kg;
            let own = weighed((of.spent.cost(), of.spent.carbon_kg));
            let least = all.iter().copied().map(weighed).fold(f64::INFINITY, f64::min);
            prop_assert!((own - least).abs() <= 1e-6 * (1.0 + least), "{own} and {least} at {}", of.per_kg);
        }
        let least_kg = all.iter().map(|of| of.1).fold(f64::INFINITY, f64::min);
        let last = found.last().unwrap().spent;
        prop_assert!(last.carbon_kg <= least_kg + 1e-6);
        for pair in found.windows(2) {
            prop_assert!(pair[0].spent.cost() <= pair[1].spent.cost() + 1e-9);
            prop_assert!(pair[0].spent.carbon_kg >= pair[1].spent.carbon_kg - 1e-9);
        }
        // With fewer mixes than are told at most, none of the hull is missing: between two of the front nothing is below their line.
        if found.len() < MOST_POINTS {
            for pair in found.windows(2) {
                let (a, b) = (pair[0].spent, pair[1].spent);
                let per_kg = (b.cost() - a.cost()) / (a.carbon_kg - b.carbon_kg);
                let line = a.cost() + per_kg * a.carbon_kg;
                let least = all.iter().map(|(cost, kg)| cost + per_kg * kg).fold(f64::INFINITY, f64::min);
                prop_assert!(least >= line - 1e-6 * (1.0 + line), "{least} is below {line}");
            }
        }
    }
}

const OFFERS: &str = "[[instance]]\nname = \"a\"\ngpu = \"V100\"\ngpus = 2\nzone = \"z-1a\"\non_demand = 4.0\npower_kw = 1.0\n[[instance]]\nname = \"b\"\ngpu = \"V100\"\ngpus = 1\nzone = \"z-2b\"\non_demand = 2.5\n";

fn grid(place: &str, g_per_kwh: f64) -> FleetGrid {
    FleetGrid { place: place.to_owned(), grid: "G".to_owned(), g_per_kwh, hours: 24, notes: Vec::new() }
}

#[test]
fn carbon_is_of_power_and_grid() {
    let mut offers = FleetOffers::parse("o.toml", OFFERS).unwrap();
    let request = FleetCarbonRequest {
        grids: vec![grid("z-1a", 400.0), grid("z-2b", 100.0), grid("b", 50.0)],
        power_kw: vec![("b".to_owned(), 0.5)],
    };
    request.tell(&mut offers).unwrap();
    // The name of an offer goes before its zone.
    assert_eq!(offers.instances.iter().map(|of| of.kg_per_h).collect::<Vec<_>>(), [Some(0.4), Some(0.025)]);
    let asked = [demand(&[1])];
    assert!(request.check(&offers, &asked).is_ok());
    let said = |request: &FleetCarbonRequest| request.check(&offers, &asked).unwrap_err().to_string();
    let powerless = FleetCarbonRequest { power_kw: Vec::new(), ..request.clone() };
    assert!(said(&powerless).contains("what an instance of `b` draws"), "{}", said(&powerless));
    let adrift = FleetCarbonRequest { grids: vec![grid("z-1a", 400.0)], ..request.clone() };
    assert!(said(&adrift).contains("on which grid `b` are"), "{}", said(&adrift));
    // Nobody asks for what no job needs.
    assert!(adrift.check(&offers, &[PoolDemand::default()]).is_ok());
    let mut offers = offers.clone();
    let nowhere = FleetCarbonRequest { grids: vec![grid("z-9", 1.0)], ..request.clone() };
    assert!(nowhere.tell(&mut offers).unwrap_err().to_string().contains("no offer is in the zone `z-9`"));
    let unnamed = FleetCarbonRequest { power_kw: vec![("c".to_owned(), 1.0)], ..request };
    assert!(unnamed.tell(&mut offers).unwrap_err().to_string().contains("no offer is called `c`"));
}

#[test]
fn the_mean_of_a_grid() {
    let hour = tracecast_analytics::time::HOUR_MS;
    let hourly = Hourly::of([(0, 100.0), (hour, 200.0), (3 * hour, 600.0)]);
    let found = FleetGrid::of("z", "G", &hourly).unwrap();
    assert!((found.g_per_kwh - 300.0).abs() < 1e-9 && found.hours == 3);
}

/// What a file says of itself is told once for each grid, and what two say alike once.
#[test]
fn what_files_say_is_told_once() {
    let noted = |place: &str, notes: &[&str]| FleetGrid {
        notes: notes.iter().map(|note| (*note).to_owned()).collect(),
        ..grid(place, 1.0)
    };
    let grids = vec![noted("a", &["one", "two"]), noted("b", &["two", "three"])];
    assert_eq!(FleetCarbonRequest { grids, power_kw: Vec::new() }.notes(), ["one", "two", "three"]);
}

#[test]
fn a_tonne_less_has_a_price() {
    let cheapest = (2000.0, 400.0, 0.0);
    assert_eq!(per_tonne_saved(cheapest, (2500.0, 150.0, 0.0)), Some(2000.0));
    // One that turned out cheaper as well, one that saves nothing, and one that leaves other work undone.
    assert_eq!(per_tonne_saved(cheapest, (1900.0, 200.0, 0.0)), Some(-500.0));
    assert_eq!(per_tonne_saved(cheapest, cheapest), None);
    assert_eq!(per_tonne_saved(cheapest, (2500.0, 500.0, 0.0)), None);
    assert_eq!(per_tonne_saved(cheapest, (2500.0, 150.0, 7.0)), None);
}
