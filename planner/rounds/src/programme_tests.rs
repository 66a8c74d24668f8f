#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;

pub(in super::super) fn claim(gpus: f64, speeds: &[f64], need: f64) -> Claim {
    Claim { gpus, speeds: speeds.to_vec(), need }
}

/// Nothing over-allocated, and as much as is said.
fn feasible(claims: &[Claim], gpus: &[f64], result: &Levelled) {
    for (claim, shares) in claims.iter().zip(&result.shares) {
        assert!(shares.iter().all(|share| *share >= 0.0) && shares.iter().sum::<f64>() <= 1.0 + 1e-6, "{shares:?}");
        assert!(claim.speed(shares) >= result.level * claim.need * (1.0 - 1e-6));
    }
    for (at, gpus) in gpus.iter().enumerate() {
        let used: f64 = claims.iter().zip(&result.shares).map(|(claim, shares)| claim.gpus * shares[at]).sum();
        assert!(used <= gpus * (1.0 + 1e-6), "{used} of {gpus}");
    }
}

#[test]
fn the_worked_example() {
    let claims = [claim(1.0, &[4.0, 1.0], 5.0 / 3.0), claim(1.0, &[2.0, 1.0], 1.0), claim(1.0, &[1.0, 1.0], 2.0 / 3.0)];
    let result = levelled(&claims, &[1.0, 1.0]).unwrap();
    feasible(&claims, &[1.0, 1.0], &result);
    assert!((result.level - 1.2).abs() < 1e-6, "{result:?}");
    let told = [[0.5, 0.0], [0.5, 0.2], [0.0, 0.8]];
    for (shares, told) in result.shares.iter().zip(told) {
        assert!(shares.iter().zip(told).all(|(share, told)| (share - told).abs() < 1e-5), "{shares:?}");
    }
    let (prices, bound) = dual(&claims, &[1.0, 1.0], true).unwrap();
    assert!((bound - 1.2).abs() < 1e-6 && prices[0] > prices[1], "{prices:?} {bound}");
}

#[test]
fn parts_have_as_many_jobs_and_as_much_to_do() {
    // Six jobs: each part has three of them, and half of the GPUs.
    let claims: Vec<Claim> = (0..6).map(|_| claim(1.0, &[4.0], 1.0)).collect();
    assert!((levelled_in(&claims, &[3.0], 2, true).unwrap().level - 2.0).abs() < 1e-6);
    // One needs as much as the four others: it has a part with the last of them, as three is the most.
    let claims: Vec<Claim> = [4.0, 1.0, 1.0, 1.0, 1.0].map(|need| claim(4.0, &[4.0], need)).to_vec();
    assert_eq!(dealt(&claims, 2), [vec![0, 4], vec![1, 2, 3]]);
}

/// The greatest level of two jobs on two types by a grid.
fn by_grid(claims: &[Claim], gpus: &[f64]) -> f64 {
    const STEPS: usize = 40;
    let mut best = 0.0f64;
    let share = |at: usize| at as f64 / STEPS as f64;
    for a in 0..=STEPS {
        for b in 0..=(STEPS - a) {
            for c in 0..=STEPS {
                for d in 0..=(STEPS - c) {
                    let shares = [[share(a), share(b)], [share(c), share(d)]];
                    let fits =
                        |at: usize| claims[0].gpus * shares[0][at] + claims[1].gpus * shares[1][at] <= gpus[at] + 1e-9;
                    if fits(0) && fits(1) {
                        let of = |job: usize| claims[job].speed(&shares[job]) / claims[job].need;
                        best = best.max(of(0).min(of(1)));
                    }
                }
            }
        }
    }
    best
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn answers_are_feasible_and_their_dual_proves_them(
        jobs in proptest::collection::vec((0u32..4, proptest::collection::vec(0.0f64..10.0, 3), 0.01f64..50.0), 1..24),
        gpus in proptest::collection::vec(1u32..9, 3),
    ) {
        let gpus: Vec<f64> = gpus.into_iter().map(f64::from).collect();
        let claims: Vec<Claim> = jobs.iter().map(|(size, speeds, need)| {
            // A slow type may as well be one on which the job does not run.
            let speeds: Vec<f64> = speeds.iter().map(|speed| if *speed < 2.0 { 0.0 } else { *speed }).collect();
            let speeds = if speeds.iter().all(|speed| *speed == 0.0) { vec![3.0, 0.0, 1.0] } else { speeds };
            claim(f64::from(1u32 << size), &speeds, *need)
        }).collect();
        let result = levelled(&claims, &gpus).unwrap();
        feasible(&claims, &gpus, &result);
        let (_, bound) = dual(&claims, &gpus, true).unwrap();
        prop_assert!((result.level - bound).abs() <= 1e-5 * bound, "{} {bound}", result.level);
        // Parts are worse or as good, and as feasible.
        let parts = levelled_in(&claims, &gpus, 3, true).unwrap();
        feasible(&claims, &gpus, &parts);
        prop_assert!(parts.level <= bound * (1.0 + 1e-6));
    }

    #[test]
    fn no_point_of_a_grid_is_better(
        speeds in proptest::collection::vec(0.5f64..8.0, 4),
        needs in (0.5f64..4.0, 0.5f64..4.0),
        sizes in (1u32..3, 1u32..3),
        gpus in (1u32..3, 1u32..3),
    ) {
        let claims = [
            claim(f64::from(sizes.0), &speeds[..2], needs.0),
            claim(f64::from(sizes.1), &speeds[2..], needs.1),
        ];
        let gpus = [f64::from(gpus.0), f64::from(gpus.1)];
        let (result, grid) = (levelled(&claims, &gpus).unwrap().level, by_grid(&claims, &gpus));
        // A step of the grid is a fortieth of each of two shares.
        prop_assert!(grid <= result * (1.0 + 1e-6) && result <= grid + 2.0 / 40.0 * 8.0 / needs.0.min(needs.1), "{result} {grid}");
    }
}
