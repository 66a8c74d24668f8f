//! Gandiva-fair's trades: equal shares of every GPU type, and then fast GPU time for more slow time.
//!
//! Every job begins with its equal share of each type. Then, for each pair of types, the job that gains most from the faster one buys time on it from the job that gains least, and pays with time on
//! the slower one. A job's **gain** is its speed on the faster type over that on the slower. The price lies between the two gains, at their geometric mean (the original takes the second-highest bid in an auction), so both
//! make more steps than before. A trade goes on until one of the two has nothing left to give; at most all pairs of jobs trade once for each pair of types.
//!
//! The tickets of the original are the weights. O(types² × jobs). Worked example: a V100 and a K80, on which a, b and c make 4, 2 and 1, and 1 each steps a second; each has a third of both. a buys from c
//! at a price of 2: 1/6 of the V100 for all its K80, and makes 2 steps a second, where it made 5/3; c makes 5/6, where it made 2/3. Then b buys the rest of c's V100 at a price of 1.41: it makes 1.10, where it made 1, and c 0.90.

use super::active::{ActiveJob, equal_shares};

/// Gains that differ by less than this factor bring no trade.
const WORTHWHILE: f64 = 1.01;
/// A gain above this, or below one over it, is as good as one that large.
const LARGEST_GAIN: f64 = 1e3;

/// The shares after all trades.
pub fn traded(active: &[ActiveJob<'_>], gpus: &[f64]) -> Vec<Vec<f64>> {
    let all: f64 = gpus.iter().sum();
    let equal = equal_shares(active, gpus);
    let mut shares: Vec<Vec<f64>> =
        equal.iter().map(|share| gpus.iter().map(|gpus| share * gpus / all).collect()).collect();
    for fast in 0..gpus.len() {
        for slow in fast + 1..gpus.len() {
            trade(active, &mut shares, (fast, slow));
        }
    }
    // Nobody holds what it cannot run on.
    for (shares, job) in shares.iter_mut().zip(active) {
        for (share, speed) in shares.iter_mut().zip(&job.kind.steps_per_s) {
            *share = if *speed > 0.0 { *share } else { 0.0 };
        }
    }
    shares
}

/// All trades between two types.
fn trade(active: &[ActiveJob<'_>], shares: &mut [Vec<f64>], (fast, slow): (usize, usize)) {
    let speed = |job: &ActiveJob<'_>, at: usize| job.kind.steps_per_s.get(at).copied().unwrap_or(0.0);
    let gain = |job: &ActiveJob<'_>| {
        let (fast, slow) = (speed(job, fast), speed(job, slow));
        let gain = if slow > 0.0 { fast / slow } else { LARGEST_GAIN };
        (fast + slow > 0.0).then_some(gain.clamp(1.0 / LARGEST_GAIN, LARGEST_GAIN))
    };
    let mut order: Vec<(f64, usize)> =
        active.iter().enumerate().filter_map(|(at, job)| Some((gain(job)?, at))).collect();
    order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let (mut buyer, mut seller) = (0, order.len().saturating_sub(1));
    while buyer < seller {
        let (Some((most, by)), Some((least, of))) = (order.get(buyer).copied(), order.get(seller).copied()) else {
            return;
        };
        let (Some(buys), Some(sells)) = (active.get(by), active.get(of)) else { return };
        if most < least * WORTHWHILE {
            return;
        }
        let price = (most * least).sqrt();
        // In GPUs: what each has of a type, and the time that it has left.
        let held = |job: usize, at: usize| shares.get(job).and_then(|shares| shares.get(at)).copied().unwrap_or(0.0);
        let spare = |job: usize| (1.0 - shares.get(job).map_or(1.0, |shares| shares.iter().sum())).max(0.0);
        let limit = |spare: f64, more: f64| if more > 0.0 { spare / more } else { f64::INFINITY };
        let buyer_has = (held(by, slow) * buys.gpus() / price).min(limit(spare(by) * buys.gpus(), 1.0 - price));
        let seller_has = (held(of, fast) * sells.gpus()).min(limit(spare(of) * sells.gpus(), price - 1.0));
        let amount = buyer_has.min(seller_has);
        let mut change = |job: usize, at: usize, by: f64| {
            if let Some(share) = shares.get_mut(job).and_then(|shares| shares.get_mut(at)) {
                *share = (*share + by).max(0.0);
            }
        };
        change(by, fast, amount / buys.gpus());
        change(by, slow, -amount * price / buys.gpus());
        change(of, fast, -amount / sells.gpus());
        change(of, slow, amount * price / sells.gpus());
        if buyer_has <= seller_has {
            buyer += 1;
        } else {
            seller -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::active::tests::{active, kind};
    use super::*;

    fn speed(job: &ActiveJob<'_>, shares: &[f64]) -> f64 {
        job.kind.steps_per_s.iter().zip(shares).map(|(speed, share)| speed * share).sum()
    }

    #[test]
    fn the_worked_example() {
        let kinds = [kind(1, &[4.0, 1.0]), kind(1, &[2.0, 1.0]), kind(1, &[1.0, 1.0])];
        let jobs = active(&kinds);
        let result = traded(&jobs, &[1.0, 1.0]);
        let told = [2.0, 1.0976, 0.9024];
        for ((job, shares), told) in jobs.iter().zip(&result).zip(told) {
            assert!((speed(job, shares) - told).abs() < 1e-4, "{shares:?}");
        }
    }

    proptest! {
        #[test]
        fn nobody_loses_and_nothing_is_given_twice(
            jobs in proptest::collection::vec((0u32..4, proptest::collection::vec(0.5f64..9.0, 3)), 1..20),
            gpus in proptest::collection::vec(8u32..12, 3),
        ) {
            let kinds: Vec<_> = jobs.iter().map(|(size, speeds)| kind(1 << size, speeds)).collect();
            let jobs = active(&kinds);
            let gpus: Vec<f64> = gpus.into_iter().map(f64::from).collect();
            let result = traded(&jobs, &gpus);
            let all: f64 = gpus.iter().sum();
            for ((job, shares), equal) in jobs.iter().zip(&result).zip(equal_shares(&jobs, &gpus)) {
                let before: Vec<f64> = gpus.iter().map(|gpus| equal * gpus / all).collect();
                prop_assert!(speed(job, shares) >= speed(job, &before) * (1.0 - 1e-9));
                prop_assert!(shares.iter().sum::<f64>() <= 1.0 + 1e-9);
            }
            for (at, gpus) in gpus.iter().enumerate() {
                let used: f64 = jobs.iter().zip(&result).map(|(job, shares)| job.gpus() * shares[at]).sum();
                prop_assert!(used <= gpus * (1.0 + 1e-9));
            }
        }
    }
}
