#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::super::supply::tests::simple;
use super::super::supply::{Commitment, Rental, Term};
use super::*;

fn of(needs: &[(f64, f64)]) -> Vec<HourDemand> {
    needs.iter().map(|(firm, total)| HourDemand { firm: *firm, total: *total }).collect()
}

/// The newsvendor: the most GPUs that are needed for more than `ratio` of the hours.
fn newsvendor(needs: &[f64], ratio: f64) -> u32 {
    let hours = needs.len() as f64;
    let most = needs.iter().copied().fold(0.0, f64::max) as u32;
    let used = |gpus: u32| needs.iter().filter(|need| **need >= f64::from(gpus)).count() as f64 / hours;
    (1..=most).take_while(|gpus| used(*gpus) > ratio + 1e-12).last().unwrap_or(0)
}

#[test]
fn the_worked_example() {
    let supply = simple(1.0, 2.5, None);
    let levels = levels(&supply, of(&[(2.0, 2.0), (4.0, 4.0), (6.0, 6.0)]));
    let mix = solve(&supply, &levels).unwrap();
    assert_eq!(mix.counts, [4]);
    assert!((mix.cost - 17.0).abs() < 1e-9 && mix.gap() < 1e-9, "{mix:?}");
}

#[test]
fn spot_and_a_firm_part_by_hand() {
    // Ten hours of 4 GPUs, of which 1 is firm; spot at 0.5, on-demand at 2, reserved at 1. The firm GPU is reserved, and three run on spot: 10·(1 + 1.5).
    let supply = simple(1.0, 2.0, Some((0.5, 1.0)));
    let needs = levels(&supply, of(&[(1.0, 4.0); 10]));
    let mix = solve(&supply, &needs).unwrap();
    assert_eq!(mix.counts, [1]);
    assert!((mix.cost - 25.0).abs() < 1e-9);
    // Spot is there for half of the time only: a GPU of spot costs 0.5·0.5 + 0.5·2 = 1.25, so all four are reserved.
    let supply = simple(1.0, 2.0, Some((0.5, 0.5)));
    let mix = solve(&supply, &needs).unwrap();
    assert_eq!(mix.counts, [4]);
    assert!((mix.cost - 40.0).abs() < 1e-9);
}

#[test]
fn cells_bound_the_cost_from_below() {
    let supply = simple(1.0, 2.5, Some((0.7, 0.8)));
    let needs: Vec<HourDemand> = (0..2000u32)
        .map(|hour| {
            let total = 100.0 + 60.0 * (f64::from(hour) * 0.26).sin() + f64::from(hour * 7919 % 41);
            HourDemand { firm: total * (0.4 + f64::from(hour % 5) / 20.0), total }
        })
        .collect();
    let levels = levels(&supply, needs);
    let mix = solve(&supply, &levels).unwrap();
    assert!(mix.gap() < 2e-3, "{}", mix.gap());
    let enumerated = (0..=210).map(|gpus| cost(&supply, &levels, &[gpus])).fold(f64::INFINITY, f64::min);
    assert!((mix.cost - enumerated).abs() < 1e-6 * enumerated);
    assert!(mix.bound <= enumerated + 1e-6);
}

/// Needs of up to 12 hours, whole GPUs, and prices.
fn cases() -> impl Strategy<Value = (Vec<(u8, u8)>, FleetSupply)> {
    let needs = prop::collection::vec((0u8..9, 0u8..5), 1..12);
    let prices = (1u8..40, 1u8..40, 1u8..40, 10u8..60, 1u8..40, 0u8..=10);
    let limits = (prop::option::of(0u8..6), prop::option::of(0u8..6), prop::option::of(0u8..4), prop::bool::ANY);
    (needs, prices, limits).prop_map(|(needs, (one, two, other, steady, spot, share), (limit, spots, most, small))| {
        let mut supply = simple(
            f64::from(one) / 10.0,
            f64::from(steady) / 10.0,
            Some((f64::from(spot) / 10.0, f64::from(share) / 10.0)),
        );
        supply.commitments.push(Commitment {
            name: "b".to_owned(),
            term: Term::Owned,
            gpus: 3.0,
            per_h: 3.0 * f64::from(two) / 10.0,
            listed: 0.0,
            limit: most.map(u32::from),
        });
        supply.spot[0].limit = spots.map_or(f64::INFINITY, f64::from);
        if small {
            supply.on_demand[0].limit = limit.map_or(f64::INFINITY, f64::from);
            let dear = Rental {
                per_gpu_h: f64::from(other) / 10.0 + supply.on_demand[0].per_gpu_h,
                limit: 4.0,
                ..supply.on_demand[0].clone()
            };
            supply.on_demand.push(dear);
        }
        (needs, supply)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_programme_equals_enumeration((needs, supply) in cases()) {
        let needs: Vec<(f64, f64)> = needs.iter().map(|(firm, more)| (f64::from(*firm), f64::from(firm + more))).collect();
        let levels = levels(&supply, of(&needs));
        let (counts, bound) = integer(&supply, &levels, &most(&supply, &levels)).unwrap();
        let mut least = f64::INFINITY;
        for one in 0..=13 {
            for two in 0..=most(&supply, &levels)[1] {
                least = least.min(cost(&supply, &levels, &[one, two]));
            }
        }
        prop_assert!((bound - least).abs() < 1e-6 * (1.0 + least), "the solver {bound}, all choices {least}");
        let exact = cost(&supply, &levels, &counts);
        prop_assert!((exact - least).abs() < 1e-6 * (1.0 + least), "{counts:?} cost {exact}, the least is {least}");
        let mix = solve(&supply, &levels).unwrap();
        prop_assert!((mix.cost - least).abs() < 1e-6 * (1.0 + least) && mix.gap() < 1e-6);
    }

    #[test]
    fn one_type_is_the_newsvendor(needs in prop::collection::vec(0u8..30, 1..60), reserved in 1u8..30, on_demand in 10u8..30) {
        let supply = simple(f64::from(reserved) / 10.0, f64::from(on_demand) / 10.0, None);
        let needs: Vec<f64> = needs.into_iter().map(f64::from).collect();
        let pairs: Vec<(f64, f64)> = needs.iter().map(|need| (*need, *need)).collect();
        let levels = levels(&supply, of(&pairs));
        let mix = solve(&supply, &levels).unwrap();
        let closed = newsvendor(&needs, f64::from(reserved) / f64::from(on_demand));
        // Where the ratio is met exactly several numbers cost the same.
        prop_assert!((mix.cost - cost(&supply, &levels, &[closed])).abs() < 1e-6 * (1.0 + mix.cost), "{:?} against {closed}", mix.counts);
    }
}
