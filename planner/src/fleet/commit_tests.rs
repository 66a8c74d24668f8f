#![allow(clippy::indexing_slicing)]

use proptest::prelude::*;

use super::*;
use crate::market::demand::HourDemand;
use crate::market::grid::WeekShape;
use crate::market::levels::levels;
use crate::market::rent::tests::mixed;
use crate::market::supply::tests::simple;
use crate::market::supply::{Commitment, Term};

fn of(needs: &[(f64, f64)]) -> Vec<HourDemand> {
    needs.iter().map(|(firm, total)| HourDemand::new(*firm, *total)).collect()
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
    let mix = solve(&supply, &levels);
    assert_eq!(mix.counts, [4]);
    assert!((mix.cost - 17.0).abs() < 1e-9 && mix.gap() < 1e-9, "{mix:?}");
}

#[test]
fn spot_and_a_firm_part_by_hand() {
    // Ten hours of 4 GPUs, of which 1 is firm; spot at 0.5, on-demand at 2, reserved at 1. The firm GPU is reserved, and three run on spot: 10·(1 + 1.5).
    let supply = simple(1.0, 2.0, Some((0.5, 1.0)));
    let needs = levels(&supply, of(&[(1.0, 4.0); 10]));
    let mix = solve(&supply, &needs);
    assert_eq!(mix.counts, [1]);
    assert!((mix.cost - 25.0).abs() < 1e-9);
    // Spot is there for half of the time only: a GPU of spot costs 0.5·0.5 + 0.5·2 = 1.25, so all four are reserved.
    let supply = simple(1.0, 2.0, Some((0.5, 0.5)));
    let mix = solve(&supply, &needs);
    assert_eq!(mix.counts, [4]);
    assert!((mix.cost - 40.0).abs() < 1e-9);
}

#[test]
fn one_gpu_of_eight_is_not_worth_a_reservation() {
    // Instances of 8 GPUs: 24 an hour on demand, 12 reserved. One GPU in 4 of 10 hours pays four instances, and reserving one would pay ten.
    let eights = |hours: usize| {
        let mut supply = simple(1.0, 3.0, None);
        supply.on_demand[0].gpus = 8.0;
        supply.commitments[0] = Commitment { gpus: 8.0, per_h: 12.0, ..supply.commitments[0].clone() };
        supply.unit = 8.0;
        let needs = (0..10).map(|hour| if hour < hours { 1.0 } else { 0.0 });
        let levels = levels(&supply, needs.map(|total| HourDemand::new(total, total)));
        let mix = solve(&supply, &levels);
        (mix.counts[0], mix.cost.round())
    };
    assert_eq!(eights(4), (0, 96.0));
    assert_eq!(eights(6), (1, 120.0));
}

#[test]
fn many_hours_equal_enumeration() {
    let supply = simple(1.0, 2.5, Some((0.7, 0.8)));
    let needs: Vec<HourDemand> = (0..2000u32)
        .map(|hour| {
            let total = 100.0 + 60.0 * (f64::from(hour) * 0.26).sin() + f64::from(hour * 7919 % 41);
            HourDemand::new(total * (0.4 + f64::from(hour % 5) / 20.0), total)
        })
        .collect();
    let levels = levels(&supply, needs);
    let mix = solve(&supply, &levels);
    assert!(mix.gap() < 1e-9, "{}", mix.gap());
    let enumerated = (0..=210).map(|gpus| cost(&supply, &levels, &[gpus])).fold(f64::INFINITY, f64::min);
    assert!((mix.cost - enumerated).abs() < 1e-6 * enumerated);
}

/// Needs of up to 12 hours, and offers of several sizes with two commitments.
fn cases() -> impl Strategy<Value = (Vec<(u8, u8)>, PoolSupply)> {
    let needs = prop::collection::vec((0u8..9, 0u8..9), 1..12);
    let size = prop::sample::select(vec![1.0, 2.0, 3.0, 8.0]);
    let commitment = (size, 1u8..40, prop::option::of(0u8..4));
    (needs, mixed(), [commitment.clone(), commitment]).prop_map(|(needs, mut supply, commitments)| {
        let of = |(gpus, price, limit): (f64, u8, Option<u8>)| Commitment {
            name: "c".to_owned(),
            term: Term::Owned,
            gpus,
            per_h: gpus * f64::from(price) / 10.0,
            listed: 0.0,
            limit: limit.map(u32::from),
            kg_per_h: 0.0,
            by_hour: WeekShape::default(),
        };
        supply.commitments = commitments.map(of).to_vec();
        (needs, supply)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_mix_of_several_sizes_costs_less((needs, supply) in cases()) {
        let needs: Vec<(f64, f64)> = needs.iter().map(|(firm, more)| (f64::from(*firm), f64::from(firm + more))).collect();
        let levels = levels(&supply, of(&needs));
        let most = |at: usize| (16.0 / supply.commitments[at].gpus).ceil().min(supply.commitments[at].limit.map_or(16.0, f64::from)) as u32;
        let mut least = f64::INFINITY;
        for one in 0..=most(0) {
            for two in 0..=most(1) {
                least = least.min(cost(&supply, &levels, &[one, two]));
            }
        }
        let mix = solve(&supply, &levels);
        prop_assert!((mix.cost - least).abs() < 1e-6 * (1.0 + least), "{mix:?}, all choices {least}");
        let exact = cost(&supply, &levels, &mix.counts);
        prop_assert!((exact - least).abs() < 1e-6 * (1.0 + least), "{:?} cost {exact}, the least is {least}", mix.counts);
        prop_assert!(mix.gap() < 1e-9);
        for (count, of) in mix.counts.iter().zip(&supply.commitments) {
            prop_assert!(of.limit.is_none_or(|limit| *count <= limit));
        }
    }

    /// A search that may not cost all sums tells how far below its choice another may be.
    #[test]
    fn a_search_that_ends_early_bounds_what_it_did_not_cost((needs, supply) in cases(), most in 2usize..6) {
        let needs: Vec<(f64, f64)> = needs.iter().map(|(firm, more)| (f64::from(*firm), f64::from(firm + more))).collect();
        let levels = levels(&supply, of(&needs));
        let early = search(&supply, &levels, &[HourRents::new(&supply, peak(&levels))], most);
        let least = solve(&supply, &levels).cost;
        let hair = 1e-6 * (1.0 + least);
        prop_assert!(early.bound <= least + hair && least <= early.cost + hair, "{early:?}, the least is {least}");
        prop_assert!((cost(&supply, &levels, &early.counts) - early.cost).abs() < hair, "{early:?}");
    }

    #[test]
    fn one_type_is_the_newsvendor(needs in prop::collection::vec(0u8..30, 1..60), reserved in 1u8..30, on_demand in 10u8..30) {
        let supply = simple(f64::from(reserved) / 10.0, f64::from(on_demand) / 10.0, None);
        let needs: Vec<f64> = needs.into_iter().map(f64::from).collect();
        let pairs: Vec<(f64, f64)> = needs.iter().map(|need| (*need, *need)).collect();
        let levels = levels(&supply, of(&pairs));
        let mix = solve(&supply, &levels);
        let closed = newsvendor(&needs, f64::from(reserved) / f64::from(on_demand));
        // Where the ratio is met exactly several numbers cost the same.
        prop_assert!((mix.cost - cost(&supply, &levels, &[closed])).abs() < 1e-6 * (1.0 + mix.cost), "{:?} against {closed}", mix.counts);
    }
}
