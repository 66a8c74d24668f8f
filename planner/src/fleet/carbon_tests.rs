//! Fronts by enumeration, and what is not told is refused.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use tracecast_analytics::facts::JobFacts;
use tracecast_analytics::time::{DAY_MS, WEEK_HOURS};

use super::super::heldout::bill;
use super::*;
use crate::market::demand::tests::{Drawn, changed_after_the_split, changes, drawn, nine_days};
use crate::market::demand::{DemandTimes, Flexible, HourDemand, PoolJobs};
use crate::market::supply::tests::simple;
use crate::market::supply::{Commitment, Rental};
use crate::plan::checkpoint::CheckpointCosts;

/// Two instances on demand that differ in price and carbon, and a reservation of each.
fn supply([dear, clean]: [f64; 2], [dirty, low]: [f64; 2], reserved: [f64; 2]) -> PoolSupply {
    let one = simple(1.0, dear, None);
    let rental = |per_gpu_h: f64, kg: f64| Rental { per_gpu_h, kg_per_gpu_h: kg, ..one.on_demand[0].clone() };
    let commitment =
        |per_h: f64, kg: f64| Commitment { per_h, kg_per_h: kg, limit: Some(3), ..one.commitments[0].clone() };
    PoolSupply {
        on_demand: vec![rental(dear, dirty), rental(clean, low)],
        commitments: vec![commitment(reserved[0], dirty), commitment(reserved[1], low)],
        ..one
    }
}

/// Needs of the first hours of a week.
fn demand(needs: &[u32]) -> PoolDemand {
    let hour = |(at, need): (usize, &u32)| HourDemand {
        of_week: Some(at),
        ..HourDemand::new(f64::from(*need), f64::from(*need))
    };
    PoolDemand { hours: needs.iter().enumerate().map(hour).collect(), jobs: 1, ..PoolDemand::default() }
}

/// A shape whose first hours have these factors.
fn shape(factors: &[f64]) -> WeekShape {
    let rest = std::iter::repeat_n(1.0, WEEK_HOURS - factors.len());
    WeekShape::new(&factors.iter().copied().chain(rest).collect::<Vec<_>>())
}

/// A supply whose two zones have these shapes.
fn shaped(mut supply: PoolSupply, shapes: [&[f64]; 2]) -> PoolSupply {
    for (at, factors) in shapes.into_iter().enumerate() {
        let rented = supply.on_demand.get_mut(at).map(|of| &mut of.by_hour);
        let held = supply.commitments.get_mut(at).map(|of| &mut of.by_hour);
        rented.into_iter().chain(held).for_each(|of| *of = shape(factors));
    }
    supply
}

/// Cost and carbon of every number of commitments with every way to rent the rest: in each hour all of one, or all of the other.
fn all_mixes(supply: &PoolSupply, demand: &PoolDemand) -> Vec<(f64, f64)> {
    let mut result = Vec::new();
    for held in (0..=3u32).flat_map(|first| (0..=3u32).map(move |second| [first, second])) {
        for ways in 0..1u32 << demand.hours.len() {
            let (mut cost, mut kg) = (0.0, 0.0);
            for (at, hour) in demand.hours.iter().enumerate() {
                for (of, count) in supply.commitments.iter().zip(held.map(f64::from)) {
                    cost += of.per_h * count;
                    kg += of.kg_per_h * of.by_hour.at(hour.of_week) * count;
                }
                let rest = (hour.total - f64::from(held[0] + held[1])).max(0.0);
                let rental = &supply.on_demand[(ways >> at & 1) as usize];
                cost += rest * rental.per_gpu_h;
                kg += rest * rental.kg_per_gpu_h * rental.by_hour.at(hour.of_week);
            }
            result.push((cost, kg));
        }
    }
    result
}

#[test]
fn the_worked_example() {
    let supply = PoolSupply { commitments: Vec::new(), ..supply([2.0, 2.5], [0.4, 0.1], [9.0, 9.0]) };
    let needs = demand(&[1]);
    let result = front(&[(supply.clone(), &needs)]);
    let told: Vec<(f64, f64)> = result.iter().map(|of| (of.spent.cost(), of.spent.carbon_kg)).collect();
    assert_eq!(told, [(2.0, 0.4), (2.5, 0.1)]);
    // Of two at one price the cleaner alone is told, whichever stands first.
    for kg in [[0.4, 0.1], [0.1, 0.4]] {
        let even = PoolSupply { commitments: Vec::new(), ..self::supply([2.0, 2.0], kg, [9.0, 9.0]) };
        let result = front(&[(even, &needs)]);
        assert_eq!(result.iter().map(|of| of.spent.carbon_kg).collect::<Vec<_>>(), [0.1]);
    }
    // Where the cheapest is the cleanest there is one mix.
    let needs = demand(&[2, 3]);
    let clean = PoolSupply { on_demand: supply.on_demand[..1].to_vec(), ..supply };
    assert_eq!(front(&[(clean, &needs)]).len(), 1);
}

/// The first zone emits 0.5 kg in one hour and 0.1 in the next, 0.3 on average, at 2; the second 0.2 at 2.2. By the hour the second is rented in the dirty hour alone, which by the mean no weight does.
#[test]
fn a_dirty_hour_is_rented_elsewhere() {
    let supply = PoolSupply { commitments: Vec::new(), ..supply([2.0, 2.2], [0.3, 0.2], [9.0, 9.0]) };
    let supply = shaped(supply, [&[5.0 / 3.0, 1.0 / 3.0], &[]]);
    let needs = demand(&[1, 1]);
    let close = |spent: &Spent, (cost, kg): (f64, f64)| {
        assert!((spent.cost() - cost).abs() < 1e-9 && (spent.carbon_kg - kg).abs() < 1e-9, "{spent:?}");
    };
    let pools = [(supply, &needs)];
    let result = front(&pools);
    assert_eq!(result.len(), 2);
    close(&result[0].spent, (4.0, 0.6));
    close(&result[1].spent, (4.2, 0.3));
    let at_mean = pools[0].0.at_mean();
    close(
        &bill_as(&pools[0].0, &HourPrices::new(&at_mean, result[1].per_kg, &needs.hours), &needs.hours, &[]),
        (4.4, 0.4),
    );
    // Of hours that nobody knows the time of, the mean counts.
    let unknown = PoolDemand { hours: vec![HourDemand::new(1.0, 1.0); 2], ..needs.clone() };
    let result = front(&[(pools[0].0.clone(), &unknown)]);
    close(&result[1].spent, (4.4, 0.4));
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
        factors in prop::array::uniform2(prop::collection::vec(0u32..30, 5)),
    ) {
        let two = |(a, b): (u32, u32)| [f64::from(a) / 10.0, f64::from(b) / 10.0];
        let factors = factors.map(|of| of.iter().map(|factor| f64::from(*factor) / 10.0).collect::<Vec<_>>());
        let supply = shaped(supply(two(prices), two(carbon), two(reserved)), [&factors[0], &factors[1]]);
        let demand = demand(&needs);
        let all = all_mixes(&supply, &demand);
        let result = front(&[(supply, &demand)]);
        for of in &result {
            let weighed = |(cost, kg): (f64, f64)| cost + of.per_kg * kg;
            let own = weighed((of.spent.cost(), of.spent.carbon_kg));
            let least = all.iter().copied().map(weighed).fold(f64::INFINITY, f64::min);
            prop_assert!((own - least).abs() <= 1e-6 * (1.0 + least), "{own} and {least} at {}", of.per_kg);
        }
        let least_kg = all.iter().map(|of| of.1).fold(f64::INFINITY, f64::min);
        let last = result.last().unwrap().spent;
        prop_assert!(last.carbon_kg <= least_kg + 1e-6);
        for pair in result.windows(2) {
            prop_assert!(pair[0].spent.cost() <= pair[1].spent.cost() + 1e-9);
            prop_assert!(pair[0].spent.carbon_kg >= pair[1].spent.carbon_kg - 1e-9);
        }
        // With fewer mixes than are told at most, none of the hull is missing: between two of the front nothing is below their line.
        if result.len() < MOST_POINTS {
            for pair in result.windows(2) {
                let (a, b) = (pair[0].spent, pair[1].spent);
                let per_kg = (b.cost() - a.cost()) / (a.carbon_kg - b.carbon_kg);
                let line = a.cost() + per_kg * a.carbon_kg;
                let least = all.iter().map(|(cost, kg)| cost + per_kg * kg).fold(f64::INFINITY, f64::min);
                prop_assert!(least >= line - 1e-6 * (1.0 + line), "{least} is below {line}");
            }
        }
    }

    /// What hours emit is what they are billed for together, and flat grids by the hour are the mean.
    #[test]
    fn hours_add_up(needs in prop::collection::vec(0u32..5, 1..6), factors in prop::collection::vec(0u32..30, 5), counts in (0u32..3, 0u32..3)) {
        let factors: Vec<f64> = factors.iter().map(|factor| f64::from(*factor) / 10.0).collect();
        let flat = supply([2.0, 2.4], [0.4, 0.1], [1.2, 1.5]);
        let (supply, demand, counts) = (shaped(flat.clone(), [&factors, &[]]), demand(&needs), [counts.0, counts.1]);
        let all = bill(&supply, &demand.hours, &counts);
        let each: f64 = demand.hours.chunks(1).map(|hour| bill(&supply, hour, &counts).carbon_kg).sum();
        prop_assert!((all.carbon_kg - each).abs() < 1e-9, "{} and {each}", all.carbon_kg);
        prop_assert_eq!(all.cost().to_bits(), bill(&flat, &demand.hours, &counts).cost().to_bits());
        let hours = demand.hours.iter().map(|hour| HourDemand { of_week: None, ..*hour }).collect();
        let unknown = PoolDemand { hours, ..demand.clone() };
        let (by_hour, by_mean) = (front(&[(flat, &demand)]), front(&[(supply, &unknown)]));
        prop_assert_eq!(by_hour.len(), by_mean.len());
        for (hour, mean) in by_hour.iter().zip(&by_mean) {
            prop_assert_eq!(&hour.counts, &mean.counts);
            prop_assert_eq!(hour.spent.cost().to_bits(), mean.spent.cost().to_bits());
            prop_assert!((hour.spent.carbon_kg - mean.spent.carbon_kg).abs() < 1e-9);
        }
    }
}

/// Two zones of which one is on demand alone, with spot in the other.
const ZONES: &str = "[[instance]]\nname = \"a\"\ngpu = \"V100\"\ngpus = 4\nzone = \"z-1a\"\non_demand = 10.0\npower_kw = 2.0\nreserved = [{ months = 12, price = 5.0 }]\nspot = { price = 3.0 }\n[[instance]]\nname = \"b\"\ngpu = \"V100\"\ngpus = 2\nzone = \"z-2b\"\non_demand = 5.5\npower_kw = 1.0\nreserved = [{ months = 12, price = 2.9 }]\n";

/// Carbon of nine days, chosen on six, with what is known of two grids: before the split, and after it.
fn nine_days_of(jobs: &Drawn, grids: [[&[f64]; 2]; 2], turned: bool) -> FleetCarbon {
    let trace = nine_days(jobs);
    let facts = JobFacts::new(&trace);
    let week = |factors: &[f64], g: f64| GridWeek { shape: shape(factors), ..GridWeek::flat(g) };
    let known = |place: &str, [before, after]: [&[f64]; 2], g: f64| {
        let week = KnownWeek { before: week(before, g), after: week(after, 1.3 * g), all: week(after, g), known: None };
        FleetGrid::known(place, "G", week, Vec::new())
    };
    let mut request = FleetCarbonRequest {
        grids: vec![known("z-1a", grids[0], 400.0), known("z-2b", grids[1], 250.0)],
        power_kw: Vec::new(),
    };
    if turned {
        request.grids.reverse();
    }
    let mut offers = KnownOffers::new(Offers::parse("o.toml", ZONES).unwrap());
    request.tell_all(&mut offers).unwrap();
    let jobs = PoolJobs::new(&facts, &offers.all, DemandTimes::Unwaited, &Flexible::UpTo(Some(4.0))).unwrap();
    let split = WeekSplit::new((0, 9 * DAY_MS), Some(6 * DAY_MS)).unwrap();
    let before = jobs.demand(whole(&split.before), split.split_ms());
    let after = jobs.demand(whole(&split.after), i64::MAX);
    let costs = CheckpointCosts { checkpoint_s: 300.0, restart_s: 600.0 };
    let options = SupplyOptions { horizon_months: 12.0, buy: false, costs };
    carbon(&request, &offers, (&before, &after), &split, &options).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Neither what jobs nor what grids do after the split changes a mix, and the order in which grids are named changes nothing.
    #[test]
    fn what_happens_after_the_split_changes_no_mix(
        jobs in drawn(),
        changes in changes(),
        grids in prop::array::uniform3(prop::collection::vec(1u32..30, WEEK_HOURS)),
    ) {
        let grids = grids.map(|of| of.iter().map(|factor| f64::from(*factor) / 15.0).collect::<Vec<f64>>());
        let other = changed_after_the_split(&jobs, changes);
        let [one, two, three] = &grids;
        let told = nine_days_of(&jobs, [[one, two], [two, three]], false);
        let changed = nine_days_of(&other, [[one, three], [two, one]], false);
        let chosen = |of: &FleetCarbon| -> Vec<(Option<f64>, f64, f64, f64, f64)> {
            let point = |of: &FleetCarbonPoint| (of.per_tonne, of.committed_gpus, of.by_mean.committed_gpus, of.earlier_cost_per_month, of.earlier_kg_per_month);
            of.front.iter().map(point).collect()
        };
        prop_assert_eq!(chosen(&told), chosen(&changed));
        let turned = nine_days_of(&jobs, [[one, two], [two, three]], true);
        prop_assert_eq!((&told.front, &told.offers), (&turned.front, &turned.offers));
    }
}

const OFFERS: &str = "[[instance]]\nname = \"a\"\ngpu = \"V100\"\ngpus = 2\nzone = \"z-1a\"\non_demand = 4.0\npower_kw = 1.0\n[[instance]]\nname = \"b\"\ngpu = \"V100\"\ngpus = 1\nzone = \"z-2b\"\non_demand = 2.5\n";

fn grid(place: &str, g_per_kwh: f64) -> FleetGrid {
    FleetGrid::known(place, "G", KnownWeek::new(GridWeek::flat(g_per_kwh)), Vec::new())
}

#[test]
fn carbon_is_of_power_and_grid() {
    let mut offers = Offers::parse("o.toml", OFFERS).unwrap();
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
    let hourly = Hourly::new([(0, 100.0), (hour, 200.0), (3 * hour, 600.0)]);
    let result = FleetGrid::new("z", "G", &hourly).unwrap();
    assert!((result.g_per_kwh - 300.0).abs() < 1e-9 && result.hours == 3);
}

/// What a file says of itself is told once for each grid, and what two say alike once.
#[test]
fn what_files_say_is_told_once() {
    let noted = |place: &str, notes: &[&str]| FleetGrid {
        notes: notes.iter().map(|note| (*note).to_owned()).collect(),
        ..grid(place, 1.0)
    };
    let grids = vec![noted("a", &["one", "two"]), noted("b", &["two", "three"])];
    let told = FleetCarbonRequest { grids, power_kw: Vec::new() }.notes((0, DAY_MS));
    assert!(told[0].contains("too short to be cut in two"), "{told:?}");
    assert_eq!(told[1..], ["one", "two", "three"]);
}

/// Hours of days 2 to 12 that mixes are chosen with, and a record that is split on some day and ends on another.
#[test]
fn hours_that_were_not_known_at_the_split_are_told() {
    let mut known = grid("a", 1.0);
    known.week.known = Some((2 * DAY_MS, 12 * DAY_MS));
    let request = FleetCarbonRequest { grids: vec![known], power_kw: Vec::new() };
    let told = |split: i64, end: i64| request.notes((split * DAY_MS, end * DAY_MS));
    assert!(told(5, 20)[0].contains("go on after the split"), "{:?}", told(5, 20));
    // All of them lie before the split, or the record ends before they begin.
    for (split, end) in [(12, 20), (1, 2)] {
        assert!(told(split, end).is_empty());
    }
}

#[test]
fn as_much_money_by_the_mean() {
    let mixes = [(140.0, 30.0), (100.0, 50.0), (110.0, 60.0)];
    assert_eq!(
        [90.0, 100.0, 120.0, 150.0].map(|cost| on_line(&mixes, cost)),
        [None, Some(50.0), Some(40.0), Some(30.0)]
    );
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
