#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;

fn asking(demands: &[f64]) -> Vec<Asking> {
    demands.iter().map(|demand| Asking { weight: 1.0, demand: *demand }).collect()
}

fn near(result: &[f64], told: &[f64]) -> bool {
    result.len() == told.len() && result.iter().zip(told).all(|(result, told)| (result - told).abs() < 1e-6)
}

const A: [f64; 5] = [2.0, 4.0, 0.0, 2.0, 2.0];
const B: [f64; 5] = [2.0, 0.0, 4.0, 2.0, 2.0];
const C: [f64; 5] = [0.0, 0.0, 0.0, 6.0, 4.0];

#[test]
fn the_worked_example() {
    let mut karma = Karma::new(0.5, 6.0);
    let (mut had, mut by_round) = ([0.0; 3], [0.0; 3]);
    let credits = [[6.0, 6.0, 8.0], [4.0, 8.0, 10.0], [6.0, 6.0, 12.0], [7.0, 7.0, 10.0], [8.0, 8.0, 8.0]];
    for (round, credits) in credits.iter().enumerate() {
        let users = asking(&[A[round], B[round], C[round]]);
        let given = karma.round(6.0, &users);
        assert!(near(karma.credits(), credits), "round {round}: {:?}", karma.credits());
        had.iter_mut().zip(given).for_each(|(had, given)| *had += given);
        by_round.iter_mut().zip(max_min(6.0, &users)).for_each(|(had, given)| *had += given);
    }
    assert!(near(&had, &[8.0, 8.0, 8.0]), "{had:?}");
    assert!(near(&by_round, &[10.0, 10.0, 4.0]), "{by_round:?}");
}

#[test]
fn few_credits_limit_what_is_borrowed() {
    // With α = 1 all is guaranteed and no credits are given: who has none cannot borrow what others leave.
    let users = asking(&[8.0, 1.0]);
    assert!(near(&Karma::new(1.0, 0.0).round(8.0, &users), &[4.0, 1.0]));
    // Two credits buy two GPUs, and the other earns them.
    let mut karma = Karma::new(1.0, 2.0);
    assert!(near(&karma.round(8.0, &users), &[6.0, 1.0]));
    assert!(near(karma.credits(), &[0.0, 4.0]));
}

#[test]
fn weights_and_newcomers() {
    let mut karma = Karma::new(0.5, 10.0);
    let two = [Asking { weight: 2.0, demand: 9.0 }, Asking { weight: 1.0, demand: 9.0 }];
    // A user of weight 2 is two users of weight 1: two thirds of nine, guaranteed and shared.
    assert!(near(&karma.round(9.0, &two), &[6.0, 3.0]));
    assert!(near(karma.credits(), &[20.0, 10.0]));
    // One who comes has as many credits over weight as the others have, and a third of its own.
    let three = [two[0], two[1], Asking { weight: 1.0, demand: 9.0 }];
    assert!(near(&karma.round(9.0, &three), &[4.5, 2.25, 2.25]));
    assert!(near(karma.credits(), &[20.0, 10.0, 10.0]));
    assert!(near(&partition(9.0, &three), &[4.5, 2.25, 2.25]));
    assert!(near(
        &max_min(9.0, &[three[0], Asking { weight: 1.0, demand: 1.0 }, three[2]]),
        &[16.0 / 3.0, 1.0, 8.0 / 3.0]
    ));
}

#[test]
fn who_asks_in_bursts_gets_as_much_as_who_asks_evenly() {
    // The paper's setting: what is not had in a round is asked for no more. 16 users ask for 10 GPUs a round on average, all of 160; user u asks in one round of k_u, for 10·k_u, with k_u from 1 to 8.
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let (mut karma, mut had) = (Karma::new(0.5, MANY), [[0.0; 16]; 3]);
    for _ in 0..2000 {
        let users: [Asking; 16] = std::array::from_fn(|user| {
            let every = 1 + user as u32 / 2;
            Asking { weight: 1.0, demand: if random.random_range(0..every) == 0 { f64::from(10 * every) } else { 0.0 } }
        });
        let rounds = [partition(160.0, &users), max_min(160.0, &users), karma.round(160.0, &users)];
        for (had, given) in had.iter_mut().zip(rounds) {
            had.iter_mut().zip(given).for_each(|(had, given)| *had += given);
        }
    }
    let spread =
        |had: &[f64; 16]| had.iter().copied().fold(f64::INFINITY, f64::min) / had.iter().copied().fold(0.0, f64::max);
    let sum = |had: &[f64; 16]| had.iter().sum::<f64>() / (160.0 * 2000.0);
    for (name, had) in ["partition", "max-min", "karma"].iter().zip(&had) {
        println!("{name}: the least of a user over the greatest {:.3}, used {:.3}", spread(had), sum(had));
    }
    assert!(spread(&had[2]) > spread(&had[1]) && spread(&had[1]) > spread(&had[0]));
    assert!(spread(&had[2]) > 0.85, "{}", spread(&had[2]));
    // No less is used than under max-min.
    assert!((sum(&had[2]) - sum(&had[1])).abs() < 1e-6 && sum(&had[1]) > sum(&had[0]));
}

/// The contract word by word, a part of a GPU at a time. All weights are 1.
fn by_parts(alpha: f64, credits: &mut [f64], gpus: f64, demands: &[f64], parts: usize) -> Vec<f64> {
    let unit = 1.0 / parts as f64;
    let fair = gpus / demands.len() as f64;
    let guaranteed = alpha * fair;
    credits.iter_mut().for_each(|credits| *credits += (1.0 - alpha) * fair);
    let mut had: Vec<f64> = demands.iter().map(|demand| demand.min(guaranteed)).collect();
    let mut donated: Vec<f64> = demands.iter().map(|demand| (guaranteed - demand).max(0.0)).collect();
    let mut shared = (1.0 - alpha) * gpus;
    loop {
        let may = |user: &usize| had[*user] + unit / 2.0 < demands[*user] && credits[*user] > unit / 2.0;
        let borrower = (0..demands.len()).filter(may).max_by(|a, b| credits[*a].total_cmp(&credits[*b]));
        let gives = |user: &usize| donated[*user] > unit / 2.0;
        let donor = (0..demands.len()).filter(gives).min_by(|a, b| credits[*a].total_cmp(&credits[*b]));
        let Some(borrower) = borrower else { return had };
        if let Some(donor) = donor {
            donated[donor] -= unit;
            credits[donor] += unit;
        } else if shared > unit / 2.0 {
            shared -= unit;
        } else {
            return had;
        }
        had[borrower] += unit;
        credits[borrower] -= unit;
    }
}

fn demands() -> impl Strategy<Value = Vec<Vec<u32>>> {
    (2usize..6, 1usize..16)
        .prop_flat_map(|(users, rounds)| proptest::collection::vec(proptest::collection::vec(0u32..13, users), rounds))
}

/// GPUs that each user had and truly could use.
fn useful(alpha: f64, gpus: f64, said: &[Vec<u32>], truly: &[Vec<u32>]) -> Vec<f64> {
    let mut karma = Karma::new(alpha, 1e4);
    let mut had = vec![0.0; truly[0].len()];
    for (said, truly) in said.iter().zip(truly) {
        let users: Vec<Asking> = said.iter().map(|demand| Asking { weight: 1.0, demand: f64::from(*demand) }).collect();
        let given = karma.round(gpus, &users);
        had.iter_mut().zip(given).zip(truly).for_each(|((had, given), truly)| *had += given.min(f64::from(*truly)));
    }
    had
}

proptest! {
    #[test]
    fn rounds_are_those_of_the_contract(rounds in demands(), quarters in 0u32..5, begin in 0u32..40, fair in 1u32..5) {
        let (alpha, users) = (f64::from(quarters) / 4.0, rounds[0].len());
        let gpus = f64::from(fair) * users as f64;
        let mut karma = Karma::new(alpha, f64::from(begin));
        let mut credits = vec![f64::from(begin); users];
        for demands in rounds {
            let demands: Vec<f64> = demands.into_iter().map(f64::from).collect();
            let before: f64 = karma.credits().iter().sum::<f64>() + if karma.credits().is_empty() { f64::from(begin) * users as f64 } else { 0.0 };
            let given = karma.round(gpus, &asking(&demands));
            let told = by_parts(alpha, &mut credits, gpus, &demands, 64);
            // Parts are not divided: who is drawn first may have one more, and another may be the poorer for it.
            let apart = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            prop_assert!(apart(&given, &told) <= 3.0 / 64.0, "{given:?} {told:?}");
            prop_assert!(apart(karma.credits(), &credits) <= 3.0 / 64.0, "{:?} {credits:?}", karma.credits());
            credits.copy_from_slice(karma.credits());
            // Nobody has more than it asks for or less than is guaranteed, and nothing is given twice.
            let guaranteed = alpha * gpus / users as f64;
            for (given, demand) in given.iter().zip(&demands) {
                prop_assert!(*given <= demand + 1e-9 && *given >= demand.min(guaranteed) - 1e-9);
            }
            prop_assert!(given.iter().sum::<f64>() <= gpus + 1e-9);
            // Credits: those that are given, less those that went to nobody, for shared GPUs.
            let donated: f64 = demands.iter().map(|demand| (guaranteed - demand).max(0.0)).sum();
            let borrowed: f64 = given.iter().zip(&demands).map(|(given, demand)| given - demand.min(guaranteed)).sum();
            let after: f64 = karma.credits().iter().sum();
            let told = before + (1.0 - alpha) * gpus - (borrowed - donated).max(0.0);
            prop_assert!((after - told).abs() < 1e-6, "{after} {told}");
            prop_assert!(karma.credits().iter().all(|credits| *credits >= -1e-9));
        }
    }

    #[test]
    fn no_gpu_that_is_asked_for_is_idle_while_credits_last(rounds in demands(), quarters in 0u32..5) {
        let mut karma = Karma::new(f64::from(quarters) / 4.0, 1e4);
        for demands in rounds {
            let demands: Vec<f64> = demands.into_iter().map(f64::from).collect();
            let given: f64 = karma.round(10.0, &asking(&demands)).iter().sum();
            prop_assert!((given - demands.iter().sum::<f64>().min(10.0)).abs() < 1e-6);
        }
    }

    #[test]
    fn saying_less_gains_nothing_now_and_saying_more_gains_nothing_ever(rounds in demands(), at in any::<prop::sample::Index>(), says in 0u32..13) {
        // The paper's setting: one user says something else in one round, the others tell the truth, credits last; it proves both for α = 0.
        let at = at.index(rounds.len());
        let mut said = rounds.clone();
        said[at][0] = says;
        let until = if says < rounds[at][0] { at + 1 } else { rounds.len() };
        let gpus = 2.0 * rounds[0].len() as f64;
        let of = |said: &[Vec<u32>]| useful(0.0, gpus, &said[..until], &rounds[..until])[0];
        prop_assert!(of(&said) <= of(&rounds) + 1e-6, "{} {}", of(&said), of(&rounds));
    }

    #[test]
    fn without_guarantees_totals_are_evened_out(rounds in demands()) {
        // With α = 0 who has had less comes first: nobody has anything in a round while somebody who had less by then, and still asks, lacks it.
        let mut karma = Karma::new(0.0, 1e4);
        let mut had = vec![0.0; rounds[0].len()];
        for demands in rounds {
            let demands: Vec<f64> = demands.into_iter().map(f64::from).collect();
            let given = karma.round(5.0, &asking(&demands));
            had.iter_mut().zip(&given).for_each(|(had, given)| *had += given);
            for (one, lacks) in demands.iter().zip(&given).map(|(demand, given)| demand - given > 1e-6).enumerate() {
                for (other, given) in given.iter().enumerate().filter(|_| lacks) {
                    prop_assert!(*given < 1e-6 || had[other] <= had[one] + 1e-6, "{given} {had:?}");
                }
            }
        }
    }
}
