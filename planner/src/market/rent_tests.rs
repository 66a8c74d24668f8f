#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use proptest::prelude::*;

use super::super::supply::tests::simple;
use super::super::supply::{SpotState, WAITING};
use super::*;

fn need(firm: f64, total: f64) -> HourDemand {
    HourDemand::new(firm, total)
}

/// On-demand of several sizes, each with its price of an instance and a limit of instances.
fn sized(offers: &[(f64, f64, Option<u32>)]) -> PoolSupply {
    let one = simple(1.0, 1.0, None);
    let rental = |(gpus, price, limit): &(f64, f64, Option<u32>)| Rental {
        gpus: *gpus,
        per_gpu_h: price / gpus,
        listed: *price,
        limit: limit.map_or(f64::INFINITY, |limit| f64::from(limit) * gpus),
        ..one.on_demand[0].clone()
    };
    PoolSupply { on_demand: offers.iter().map(rental).collect(), ..one }
}

#[test]
fn one_gpu_pays_the_whole_instance() {
    let supply = PoolSupply { unit: 8.0, ..sized(&[(8.0, 24.0, None)]) };
    let rents = HourRents::new(&supply, 20.0);
    let fill = rents.fill(need(1.0, 1.0), 0.0, 0);
    assert_eq!((fill.on_demand, fill.cost, fill.waiting), (vec![8.0], 24.0, 0.0));
    assert_eq!(rents.fill(need(9.0, 9.0), 0.0, 0).cost, 48.0);
    // Of 17 GPUs, 16 are committed to: one more pays an instance.
    assert_eq!(rents.fill(need(17.0, 17.0), 16.0, 0).cost, 24.0);
    assert_eq!(rents.fill(need(16.0, 16.0), 16.0, 0).cost, 0.0);
}

#[test]
fn the_worked_example() {
    let supply = sized(&[(8.0, 8.0, None), (1.0, 1.5, None)]);
    let rents = HourRents::new(&supply, 40.0);
    let rented = |gpus: f64| {
        let fill = rents.fill(need(gpus, gpus), 0.0, 0);
        (fill.on_demand[0] / 8.0, fill.on_demand[1], fill.cost)
    };
    assert_eq!(rented(1.0), (0.0, 1.0, 1.5));
    assert_eq!(rented(5.0), (0.0, 5.0, 7.5));
    assert_eq!(rented(6.0), (1.0, 0.0, 8.0));
    assert_eq!(rented(9.0), (1.0, 1.0, 9.5));
    assert_eq!(rented(15.0), (2.0, 0.0, 16.0));
    // A part of a GPU needs a whole one.
    assert_eq!(rented(0.25), (0.0, 1.0, 1.5));
    // Of equal prices, the fewest instances.
    let even = sized(&[(1.0, 3.06, None), (4.0, 12.24, None), (8.0, 24.48, None)]);
    let fill = HourRents::new(&even, 40.0).fill(need(29.0, 29.0), 0.0, 0);
    assert_eq!(fill.on_demand, [1.0, 4.0, 24.0]);
}

#[test]
fn spot_limits_and_what_waits() {
    let mut supply = simple(1.0, 2.5, Some((1.0, 1.0)));
    supply.states = [1.0, 0.0, 0.5].map(|share| SpotState { weight: 1.0, shares: vec![share] }).to_vec();
    let (there, gone, half) = (0, 1, 2);
    let ten = need(6.0, 10.0);
    let fill = HourRents::new(&supply, 10.0).fill(ten, 4.0, there);
    assert_eq!((fill.on_demand, fill.spot, fill.waiting, fill.cost), (vec![2.0], vec![4.0], 0.0, 9.0));
    // Without spot in that hour all six are on demand; with room for five, one waits.
    supply.on_demand[0].limit = 5.0;
    let rents = HourRents::new(&supply, 10.0);
    let fill = rents.fill(ten, 4.0, gone);
    assert_eq!((fill.on_demand, fill.spot, fill.waiting, fill.cost), (vec![5.0], vec![0.0], 1.0, 12.5));
    assert!((rents.cost(ten, 4.0, gone) - 12.5 - WAITING * 2.5).abs() < 1e-6);
    // Half of seven instances are three: a part of an instance is none.
    supply.spot[0].limit = 7.0;
    let fill = HourRents::new(&supply, 10.0).fill(need(0.0, 6.0), 0.0, half);
    assert_eq!((fill.spot, fill.on_demand), (vec![3.0], vec![3.0]));
    // Of 5 instances of 4 GPUs 0.7 leaves 3.
    supply.spot[0] = Rental { gpus: 4.0, per_gpu_h: 0.5, limit: 20.0, ..supply.spot[0].clone() };
    supply.states[half].shares = vec![0.7];
    let fill = HourRents::new(&supply, 20.0).fill(need(0.0, 17.0), 0.0, half);
    assert_eq!((fill.spot, fill.on_demand, fill.waiting), (vec![12.0], vec![5.0], 0.0));
    // Spot that costs more than on-demand, overhead included, is not taken, however dear it is.
    for (gpus, price) in [(1.0, 3.0), (1.0, 1e30), (8.0, 1e30)] {
        supply.spot[0] = Rental { gpus, per_gpu_h: price, ..supply.spot[0].clone() };
        assert_eq!(HourRents::new(&supply, 2.0).fill(need(0.0, 2.0), 0.0, there).on_demand, [2.0]);
    }
    // What is needed beyond the tables waits.
    assert_eq!(HourRents::new(&supply, 2.0).fill(need(0.0, 3.0), 0.0, there).waiting, 1.0);
}

/// Offers of two or three sizes, some limited, with spot of two that comes and goes.
pub(crate) fn mixed() -> impl Strategy<Value = PoolSupply> {
    let size = prop::sample::select(vec![1.0, 2.0, 3.0, 4.0, 8.0]);
    let offer = (size, 1u8..40, prop::option::weighted(0.4, 0u8..5));
    let offers = prop::collection::vec(offer.clone(), 1..4);
    (offers, prop::collection::vec((offer, 0u8..=10), 0..3)).prop_map(|(offers, spots)| {
        let rental =
            |(gpus, price, limit): (f64, u8, Option<u8>)| (gpus, gpus * f64::from(price) / 10.0, limit.map(u32::from));
        let mut supply = sized(&offers.into_iter().map(rental).collect::<Vec<_>>());
        let (kinds, shares): (Vec<_>, Vec<u8>) = spots.into_iter().unzip();
        supply.spot = sized(&kinds.into_iter().map(rental).collect::<Vec<_>>()).on_demand;
        let some: Vec<f64> = shares.into_iter().map(|share| f64::from(share) / 10.0).collect();
        let state = |weight: f64, shares: Vec<f64>| SpotState { weight, shares };
        supply.states =
            vec![state(0.5, vec![1.0; some.len()]), state(0.3, some.clone()), state(0.2, vec![0.0; some.len()])];
        supply
    })
}

/// All numbers of instances, one by one: the least that waits, and the least cost of these.
fn enumerated(supply: &PoolSupply, need: HourDemand, state: usize) -> (f64, f64) {
    let most = need.total.max(need.firm);
    let mut kinds: Vec<(f64, f64, u32, bool)> = Vec::new();
    for rental in &supply.on_demand {
        let room = (rental.limit / rental.gpus).min((most / rental.gpus).ceil());
        kinds.push((rental.gpus, rental.gpus * rental.per_gpu_h, room as u32, true));
    }
    for (rental, share) in supply.spot.iter().zip(&supply.states[state].shares) {
        let room = if *share > 0.0 { (rental.limit / rental.gpus * share + 1e-9).floor() } else { 0.0 };
        kinds.push((rental.gpus, rental.gpus * rental.per_gpu_h, room.min((most / rental.gpus).ceil()) as u32, false));
    }
    let mut best = (f64::INFINITY, f64::INFINITY, f64::INFINITY);
    let mut counts = vec![0u32; kinds.len()];
    loop {
        let of = |steady: bool| -> f64 {
            kinds
                .iter()
                .zip(&counts)
                .filter(|(kind, _)| kind.3 == steady)
                .map(|(kind, count)| kind.0 * f64::from(*count))
                .sum()
        };
        let (steady, spot) = (of(true), of(false));
        let firm_waits = (need.firm - steady).max(0.0);
        let waits = firm_waits + (most - firm_waits - steady - spot).max(0.0);
        let cost: f64 = kinds.iter().zip(&counts).map(|(kind, count)| kind.1 * f64::from(*count)).sum();
        // Firm needs go first.
        if firm_waits < best.0 - 1e-9
            || (firm_waits < best.0 + 1e-9 && (waits < best.1 - 1e-9 || (waits < best.1 + 1e-9 && cost < best.2)))
        {
            best = (firm_waits, waits, cost);
        }
        let Some(at) = (0..kinds.len()).find(|at| counts[*at] < kinds[*at].2) else { return (best.1, best.2) };
        counts[at] += 1;
        counts[..at].fill(0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn nothing_that_serves_as_much_is_cheaper(supply in mixed(), firm in 0u8..12, more in 0u8..10, committed in 0u8..6) {
        let needed = need(f64::from(firm), f64::from(firm + more));
        let rents = HourRents::new(&supply, needed.total);
        let beside = need((needed.firm - f64::from(committed)).max(0.0), (needed.total - f64::from(committed)).max(0.0));
        for state in 0..supply.states.len() {
            let fill = rents.fill(needed, f64::from(committed), state);
            let (waits, cost) = enumerated(&supply, beside, state);
            prop_assert!((fill.waiting - waits).abs() < 1e-9, "waits {} and not {waits}", fill.waiting);
            prop_assert!((fill.cost - cost).abs() < 1e-6, "{fill:?} costs more than {cost}");
            let priced = fill.cost + fill.waiting * supply.waiting_price();
            prop_assert!((rents.cost(needed, f64::from(committed), state) - priced).abs() < 1e-6);
            // Whole instances, within the limits.
            for (rental, gpus) in supply.on_demand.iter().zip(&fill.on_demand) {
                prop_assert!((gpus / rental.gpus).fract().abs() < 1e-9 && *gpus <= rental.limit);
            }
            for ((rental, gpus), share) in supply.spot.iter().zip(&fill.spot).zip(&supply.states[state].shares) {
                prop_assert!((gpus / rental.gpus).fract().abs() < 1e-9);
                prop_assert!(*gpus == 0.0 || *gpus <= rental.limit * share + 1e-6);
            }
        }
    }

    /// Large needs, where few of the ways to cover them are looked at: against all of them.
    #[test]
    fn what_is_not_looked_at_is_not_cheaper(supply in mixed(), firm in 0u16..200, more in 0u16..200) {
        let needed = need(f64::from(firm), f64::from(firm + more));
        let narrow = HourRents::new(&supply, needed.total);
        let mut wide = narrow.clone();
        wide.spot.iter_mut().for_each(|(_, reach)| *reach = Reach::All);
        for state in 0..supply.states.len() {
            prop_assert!((narrow.cost(needed, 0.0, state) - wide.cost(needed, 0.0, state)).abs() < 1e-6);
        }
    }
}
