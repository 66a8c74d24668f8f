//! A job under a rule, from a start to its end, at the prices that came.
//!
//! A rule sees the prices of the moment and before, and nothing else. What holds where is said in [`super`].
//!
//! O(checks × offers × log quotes). Worked example: a job of 20 h at 1.00 an hour, checked every 10 h; at the first check another zone of the same region costs 0.50, and starts in 6 min: 10.00 and 10.1 h at 0.50 are 15.05, 4.95 less than staying.

use std::ops::Range;

use schemars::JsonSchema;
use serde::Serialize;

use super::market::{PriceHistory, PricedJob};

/// What moves cost, and which prices are trusted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MoveTerms {
    /// From the order of an instance to the first step, milliseconds; paid for.
    pub start_ms: i64,
    /// Dollars of a move to another region.
    pub egress_usd: f64,
    /// Nothing begins at a price that was quoted longer ago, milliseconds.
    pub trusted_ms: i64,
}

/// Where a job begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FirstPlace {
    /// Where the job would have cost least at the mean prices so far.
    OnAverage,
    /// Where the job costs least at the prices of now.
    Now,
}

/// When it moves.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Moving {
    /// Time between two checks, seconds.
    pub check_s: f64,
    /// Share of the cost of the rest that a move must save.
    pub margin: f64,
}

/// A rule.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct MoveRule {
    /// Where it begins.
    pub first: FirstPlace,
    /// When it moves; never without.
    pub moving: Option<Moving>,
}

impl MoveRule {
    /// Begins where it costs least now, and stays.
    pub const STAY: Self = Self { first: FirstPlace::Now, moving: None };
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MoveRun {
    /// Dollars, egress included.
    pub usd: f64,
    /// From the start to the end, milliseconds.
    pub time_ms: i64,
    /// Moves.
    pub moves: usize,
}

/// What the rest of a job costs on an offer at the price of a moment, where it begins anew or goes on.
pub fn rest(
    history: &PriceHistory,
    job: &PricedJob,
    offer: usize,
    at_ms: i64,
    left: f64,
    start_ms: i64,
) -> Option<f64> {
    let price = history.offers.get(offer)?.price.at(at_ms)?;
    Some((start_ms as f64 / 1e3 + left / job.on(offer)?) * price / 3600.0)
}

/// Whether a price is known and was quoted not too long ago.
fn is_trusted(history: &PriceHistory, offer: usize, at_ms: i64, terms: &MoveTerms) -> bool {
    let quoted = history.offers.get(offer).and_then(|offer| offer.price.standing(at_ms));
    quoted.is_some_and(|(quoted_ms, _)| at_ms - quoted_ms <= terms.trusted_ms)
}

/// The offer with the least of a figure, the first of equals, among those whose price is trusted.
fn least(
    history: &PriceHistory,
    at_ms: i64,
    terms: &MoveTerms,
    figure: impl Fn(usize) -> Option<f64>,
) -> Option<(usize, f64)> {
    let trusted = (0..history.offers.len()).filter(|offer| is_trusted(history, *offer, at_ms, terms));
    trusted
        .filter_map(|offer| Some((offer, figure(offer)?)))
        .reduce(|best, next| if next.1 < best.1 { next } else { best })
}

/// Where a job begins; nothing where no price is trusted on which it runs.
pub fn first(
    history: &PriceHistory,
    job: &PricedJob,
    at_ms: i64,
    place: FirstPlace,
    terms: &MoveTerms,
) -> Option<usize> {
    let figure = |offer: usize| {
        let now = rest(history, job, offer, at_ms, job.steps, terms.start_ms)?;
        let price = &history.offers.get(offer)?.price;
        match place {
            FirstPlace::Now => Some(now),
            FirstPlace::OnAverage => {
                let past = price.between(history.begins_ms, at_ms);
                let (length, usd) =
                    past.fold((0.0, 0.0), |(length, usd), (ms, price)| (length + ms as f64, usd + ms as f64 * price));
                Some(if length > 0.0 { now / price.at(at_ms)? * usd / length } else { now })
            }
        }
    };
    least(history, at_ms, terms, figure).map(|(offer, _)| offer)
}

/// What a move from one place to another costs beside its start.
pub fn egress(history: &PriceHistory, from: usize, to: usize, terms: &MoveTerms) -> f64 {
    let region = |offer: usize| history.offers.get(offer).map(|offer| offer.region.as_str());
    if region(from) == region(to) { 0.0 } else { terms.egress_usd }
}

/// Where else the rest of a job would cost least, and what; nothing where there is nothing else.
pub fn elsewhere(
    history: &PriceHistory,
    job: &PricedJob,
    here: usize,
    at_ms: i64,
    left: f64,
    terms: &MoveTerms,
) -> Option<(usize, f64)> {
    let figure = |offer: usize| {
        let moved = (offer != here).then(|| rest(history, job, offer, at_ms, left, terms.start_ms))?;
        moved.map(|usd| usd + egress(history, here, offer, terms))
    };
    least(history, at_ms, terms, figure)
}

/// Runs a job from the beginning of a time on; nothing if it has nowhere to begin, or does not end within that time.
pub fn run(
    history: &PriceHistory,
    job: &PricedJob,
    within_ms: &Range<i64>,
    rule: &MoveRule,
    terms: &MoveTerms,
) -> Option<MoveRun> {
    let begin_ms = within_ms.start;
    let mut here = first(history, job, begin_ms, rule.first, terms)?;
    let (mut at_ms, mut starting_ms, mut left) = (begin_ms, terms.start_ms, job.steps);
    let (mut usd, mut moves) = (0.0, 0);
    loop {
        let speed = job.on(here)?;
        // A conversion of floats saturates.
        let done_ms = (at_ms + starting_ms).saturating_add((left / speed * 1e3).ceil() as i64);
        let check_ms = rule.moving.map_or(i64::MAX, |moving| {
            let check_ms = ((moving.check_s * 1e3) as i64).max(1);
            begin_ms + ((at_ms - begin_ms) / check_ms + 1) * check_ms
        });
        let until_ms = done_ms.min(check_ms);
        if until_ms > within_ms.end {
            return None;
        }
        usd += history.offers.get(here)?.price.cost(at_ms, until_ms)?;
        if until_ms == done_ms {
            return Some(MoveRun { usd, time_ms: done_ms - begin_ms, moves });
        }
        let worked_ms = (until_ms - at_ms - starting_ms).max(0);
        starting_ms = (starting_ms - (until_ms - at_ms)).max(0);
        left -= speed * worked_ms as f64 / 1e3;
        at_ms = until_ms;
        let margin = rule.moving.map_or(0.0, |moving| moving.margin);
        let stay = rest(history, job, here, at_ms, left, starting_ms)?;
        if let Some((next, least)) = elsewhere(history, job, here, at_ms, left, terms)
            && least < (1.0 - margin) * stay
        {
            usd += egress(history, here, next, terms);
            (here, starting_ms) = (next, terms.start_ms);
            moves += 1;
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use tracecast_analytics::time::HOUR_MS;

    use super::super::bound::bound;
    use super::super::market::tests::{history, job};
    use super::*;

    const TERMS: MoveTerms = MoveTerms { start_ms: 360_000, egress_usd: 0.0, trusted_ms: 1000 * HOUR_MS };

    const ALL: Range<i64> = 0..100 * HOUR_MS;
    const TEN: Range<i64> = 0..10 * HOUR_MS;
    const DAYS: Range<i64> = 0..72 * HOUR_MS;

    fn every(hours: i64, margin: f64) -> MoveRule {
        MoveRule { first: FirstPlace::Now, moving: Some(Moving { check_s: hours as f64 * 3600.0, margin }) }
    }

    fn usd(run: Option<MoveRun>) -> f64 {
        (run.unwrap().usd * 1e6).round() / 1e6
    }

    #[test]
    fn the_worked_example() {
        let terms = MoveTerms { start_ms: 0, ..TERMS };
        let prices = history(&[("us-east-1a", &[(0, 1.0)]), ("us-east-1b", &[(0, 2.0), (5, 0.5)])], 100);
        let long = job(20.0, &[10.0, 10.0]);
        assert_eq!(usd(run(&prices, &long, &ALL, &MoveRule::STAY, &terms)), 20.0);
        let moved = run(&prices, &long, &ALL, &every(10, 0.0), &terms);
        assert_eq!((usd(moved), moved.unwrap().moves), (15.0, 1));
        // A start of 6 min is paid at the beginning, at 1.00, and after the move, at 0.50; at the check 10 h have gone by, and 9.9 h of work.
        let moved = run(&prices, &long, &ALL, &every(10, 0.0), &TERMS).unwrap();
        assert_eq!(usd(Some(moved)), 10.0 + 0.5 * 10.2);
        assert_eq!(moved.time_ms, 20 * HOUR_MS + 2 * TERMS.start_ms);
    }

    #[test]
    fn a_move_must_save_its_start_its_egress_and_its_margin() {
        let (steady, falling) = ([(0, 1.0)], [(0, 2.0), (1, 0.9)]);
        let near = history(&[("us-east-1a", &steady[..]), ("us-east-1b", &falling[..])], 100);
        let far = history(&[("us-east-1a", &steady[..]), ("eu-west-1b", &falling[..])], 100);
        let terms = MoveTerms { egress_usd: 1.0, ..TERMS };
        let ten = job(10.0, &[10.0, 10.0]);
        let moves = |prices: &PriceHistory, rule: MoveRule| run(prices, &ten, &ALL, &rule, &terms).unwrap().moves;
        // The rest is 9.1 h for 9.10 here, and 9.2 h for 8.28 there: 9 % less. The egress makes that 9.28.
        assert_eq!([moves(&near, every(1, 0.05)), moves(&near, every(1, 0.1)), moves(&far, every(1, 0.0))], [1, 0, 0]);
        // Nothing begins at an old price.
        let old = MoveTerms { trusted_ms: HOUR_MS / 2, ..TERMS };
        let stale = history(&[("us-east-1a", &[(0, 1.0), (1, 1.0), (2, 1.0)]), ("us-east-1b", &[(0, 0.5)])], 100);
        assert_eq!(first(&stale, &ten, HOUR_MS, FirstPlace::Now, &old), Some(0));
        assert_eq!(first(&stale, &ten, 0, FirstPlace::Now, &old), Some(1));
    }

    #[test]
    fn a_faster_place_may_cost_more_an_hour_and_less_in_all() {
        let prices = history(&[("us-east-1a", &[(0, 1.0)]), ("us-east-1b", &[(0, 1.5)])], 100);
        let terms = MoveTerms { start_ms: 0, ..TERMS };
        assert_eq!(first(&prices, &job(10.0, &[10.0, 20.0]), 0, FirstPlace::Now, &terms), Some(1));
        let on_average = history(&[("us-east-1a", &[(0, 1.0)]), ("us-east-1b", &[(0, 3.0), (9, 0.5)])], 100);
        let even = job(10.0, &[10.0, 10.0]);
        assert_eq!(first(&on_average, &even, 10 * HOUR_MS, FirstPlace::OnAverage, &terms), Some(0));
        assert_eq!(first(&on_average, &even, 10 * HOUR_MS, FirstPlace::Now, &terms), Some(1));
    }

    #[test]
    fn a_run_ends_within_the_history_or_not_at_all() {
        let prices = history(&[("us-east-1a", &[(0, 1.0)])], 10);
        assert!(run(&prices, &job(9.9, &[10.0]), &TEN, &MoveRule::STAY, &TERMS).is_some());
        assert!(run(&prices, &job(9.95, &[10.0]), &TEN, &MoveRule::STAY, &TERMS).is_none());
        assert!(run(&prices, &job(1.0, &[10.0]), &(-1..TEN.end), &MoveRule::STAY, &TERMS).is_none());
        assert!(run(&prices, &job(1e15, &[1e-9]), &TEN, &every(1, 0.0), &TERMS).is_none());
    }

    /// Drawn prices of three or four places in two regions over three days.
    fn drawn(random: &mut ChaCha8Rng) -> (PriceHistory, PricedJob) {
        let zones = ["us-east-1a", "us-east-1b", "eu-west-1a", "eu-west-1b"];
        let places = random.random_range(3..=4);
        let quotes: Vec<Vec<(i64, f64)>> = (0..places)
            .map(|_| {
                let mut hours = vec![0];
                hours.extend((0..random.random_range(0..8)).map(|_| random.random_range(1..72)));
                hours.into_iter().map(|hour| (hour, f64::from(random.random_range(1..=20)) / 10.0)).collect()
            })
            .collect();
        let offers: Vec<(&str, &[(i64, f64)])> = zones.into_iter().zip(quotes.iter().map(Vec::as_slice)).collect();
        let speeds: Vec<f64> = (0..places).map(|_| f64::from(random.random_range(5..=20))).collect();
        (history(&offers, 72), job(f64::from(random.random_range(1..=20)), &speeds))
    }

    #[test]
    fn no_rule_costs_less_than_the_bound() {
        let (mut tried, mut near) = (0, 0);
        for seed in 0..400 {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            let (prices, job) = drawn(&mut random);
            let terms = MoveTerms {
                start_ms: i64::from(random.random_range(0..=6)) * 600_000,
                egress_usd: f64::from(random.random_range(0..=2)) / 2.0,
                trusted_ms: 1000 * HOUR_MS,
            };
            let least = bound(&prices, &job, &DAYS, &terms);
            let stay = MoveRule { first: FirstPlace::OnAverage, moving: None };
            for rule in [MoveRule::STAY, stay, every(1, 0.0), every(3, 0.0), every(1, 0.1), every(24, 0.05)] {
                let Some(run) = run(&prices, &job, &DAYS, &rule, &terms) else { continue };
                assert!(least <= run.usd * (1.0 + 1e-9), "seed {seed}, {rule:?}: {least} above {}", run.usd);
                tried += 1;
                near += usize::from(run.usd < 1.02 * least);
            }
        }
        assert!(tried > 1500 && near > 200, "{tried} runs, {near} of them within 2 % of the bound");
    }

    /// What is quoted after a check changes nothing that was decided by then.
    #[test]
    fn later_prices_change_no_earlier_decision() {
        for seed in 0..200 {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            let (prices, job) = drawn(&mut random);
            let at_ms = i64::from(random.random_range(1..40)) * HOUR_MS;
            let mut other = prices.clone();
            for offer in &mut other.offers {
                let known: Vec<(i64, f64)> =
                    (0..=at_ms / HOUR_MS).filter_map(|hour| offer.price.standing(hour * HOUR_MS)).collect();
                let later = (1..10).map(|hour| (at_ms + hour * HOUR_MS, f64::from(random.random_range(1..=50)) / 10.0));
                let quotes = known.into_iter().chain(later);
                offer.price = crate::cloud::price::PriceSteps::of(
                    quotes.map(|(at_ms, usd)| crate::cloud::price::Quote { at_ms, usd_per_h: Some(usd) }),
                );
            }
            for place in [FirstPlace::Now, FirstPlace::OnAverage] {
                assert_eq!(first(&prices, &job, at_ms, place, &TERMS), first(&other, &job, at_ms, place, &TERMS));
            }
            let left = job.steps / 2.0;
            assert_eq!(
                elsewhere(&prices, &job, 0, at_ms, left, &TERMS),
                elsewhere(&other, &job, 0, at_ms, left, &TERMS)
            );
        }
    }
}
