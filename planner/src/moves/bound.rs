//! What no schedule of moves undercuts, all prices known.
//!
//! A schedule begins anywhere, moves at whole hours from the start on, as often as it likes, and makes S steps within a time. For any λ ≥ 0 dollars a step, its cost is at least
//!
//! ```text
//! L(λ) = λ·S + min over all paths, of any length, of Σ (price · time + egress − λ · steps)
//! ```
//!
//! as a schedule is one of these paths, with Σ steps = S. The minimum is a programme over hours and offers; the last hour, which may be cut anywhere, is counted at the least price within it. L is concave in λ, and the greatest L of a golden-section search is the **bound**. It is a
//! bound, not a schedule: none need reach it.
//!
//! O(λ × hours × offers). Worked example: one offer at 1.00 an hour and 10 steps a second for ever, and 36,000 steps without a start: for λ up to 1/36,000 dollars the empty path is best and L = 36,000·λ, so the bound is 1.00, which is what the job costs.

use std::collections::BTreeMap;
use std::ops::Range;

use tracecast_analytics::time::HOUR_MS;

use super::market::{PriceHistory, PricedJob};
use super::run::MoveTerms;

/// Time between moments at which a schedule may move, milliseconds.
pub const GRID_MS: i64 = HOUR_MS;
/// Values of λ that are tried.
const TRIES: usize = 40;

/// An offer over the hours of the grid.
struct Lane {
    /// Steps an hour, and steps of the first hour after a move.
    steps: (f64, f64),
    /// Dollars of each hour, and the least price in it; nothing where the price is not known.
    hours: Vec<Option<(f64, f64)>>,
    region: usize,
}

/// Dollars below which no schedule of hourly moves makes the job within a time, from its beginning on; 0 if nothing is known.
pub fn bound(history: &PriceHistory, job: &PricedJob, within_ms: &Range<i64>, terms: &MoveTerms) -> f64 {
    let (begin_ms, length_ms) = (within_ms.start, within_ms.end - within_ms.start);
    let hours = usize::try_from((length_ms.max(0) + GRID_MS - 1) / GRID_MS).unwrap_or(0);
    let regions: Vec<&str> = history.offers.iter().map(|offer| offer.region.as_str()).collect();
    let lanes: Vec<Lane> = (history.offers.iter().enumerate())
        .filter_map(|(at, offer)| {
            let hour = |number: usize| {
                let from_ms = begin_ms + number as i64 * GRID_MS;
                let usd = offer.price.cost(from_ms, from_ms + GRID_MS)?;
                let least = offer.price.between(from_ms, from_ms + GRID_MS).map(|(_, price)| price).reduce(f64::min)?;
                Some((usd, least))
            };
            let speed = job.on(at)?;
            let first_ms = (GRID_MS - terms.start_ms).max(0);
            Some(Lane {
                steps: (speed * GRID_MS as f64 / 1e3, speed * first_ms as f64 / 1e3),
                // The last hour may be cut by the end of the history.
                hours: (0..hours).map(hour).collect(),
                region: regions.iter().position(|region| *region == offer.region).unwrap_or(at),
            })
        })
        .collect();
    // Above the worst price of a step every step is worth making.
    let worst = lanes
        .iter()
        .flat_map(|lane| lane.hours.iter().flatten().map(|(usd, _)| usd / lane.steps.0))
        .fold(0.0, f64::max);
    let value = |lambda: f64| lambda * job.steps + cheapest_path(&lanes, lambda, terms.egress_usd);
    let golden = (5f64.sqrt() - 1.0) / 2.0;
    let (mut low, mut high) = (0.0, 2.0 * worst);
    let mut inner = [high - golden * (high - low), low + golden * (high - low)];
    let mut values = inner.map(value);
    let mut best = values[0].max(values[1]).max(0.0);
    for _ in 0..TRIES {
        if values[0] >= values[1] {
            high = inner[1];
            inner = [high - golden * (high - low), inner[0]];
            values = [value(inner[0]), values[0]];
        } else {
            low = inner[0];
            inner = [inner[1], low + golden * (high - low)];
            values = [values[1], value(inner[1])];
        }
        best = best.max(values[0]).max(values[1]);
    }
    best
}

/// The least of Σ (dollars − λ · steps) over paths of any length, the empty one among them.
fn cheapest_path(lanes: &[Lane], lambda: f64, egress: f64) -> f64 {
    let hours = lanes.first().map_or(0, |lane| lane.hours.len());
    // Of paths that are on each lane by the beginning of an hour; nothing where none is.
    let mut on: Vec<Option<f64>> = vec![None; lanes.len()];
    let mut best: f64 = 0.0;
    for hour in 0..hours {
        let mut near: BTreeMap<usize, f64> = BTreeMap::new();
        for (lane, cost) in lanes.iter().zip(&on) {
            if let Some(cost) = cost {
                let least = near.entry(lane.region).or_insert(*cost);
                *least = least.min(*cost);
            }
        }
        let least = near.values().copied().reduce(f64::min);
        let anywhere = if hour == 0 { Some(0.0) } else { least.map(|cost| cost + egress) };
        let mut next = Vec::with_capacity(lanes.len());
        for (lane, stayed) in lanes.iter().zip(&on) {
            let Some((usd, price)) = lane.hours.get(hour).copied().flatten() else {
                next.push(None);
                continue;
            };
            let come = [anywhere, near.get(&lane.region).copied()].into_iter().flatten().reduce(f64::min);
            let stayed = *stayed;
            // A cut hour, at the least price in it, for as long as that is worth it.
            let cut = (price - lambda * lane.steps.0).min(0.0);
            let here = [come, stayed].into_iter().flatten().reduce(f64::min);
            best = here.map_or(best, |here| best.min(here + cut));
            let through = [
                stayed.map(|cost| cost + usd - lambda * lane.steps.0),
                come.map(|cost| cost + usd - lambda * lane.steps.1),
            ];
            next.push(through.into_iter().flatten().reduce(f64::min));
        }
        on = next;
    }
    best
}

#[cfg(test)]
mod tests {
    use super::super::market::tests::{history, job};
    use super::*;

    const TERMS: MoveTerms = MoveTerms { start_ms: 0, egress_usd: 0.0, trusted_ms: 1000 * HOUR_MS };

    #[test]
    fn the_worked_example() {
        let prices = history(&[("us-east-1a", &[(0, 1.0)])], 50);
        assert!((bound(&prices, &job(1.0, &[10.0]), &(0..50 * HOUR_MS), &TERMS) - 1.0).abs() < 1e-6);
    }

    /// 10 h at 1.00, or 5 h there and 5 h in the other zone at 0.50: 7.50. A start of 6 min is paid on both, and an egress where the regions differ.
    #[test]
    fn the_best_schedule_is_found_where_there_is_one() {
        let (steady, falling) = ([(0, 1.0)], [(0, 2.0), (5, 0.5)]);
        let near = history(&[("us-east-1a", &steady[..]), ("us-east-1b", &falling[..])], 10);
        let far = history(&[("us-east-1a", &steady[..]), ("eu-west-1b", &falling[..])], 12);
        let ten = job(10.0, &[10.0, 10.0]);
        assert!((bound(&near, &ten, &(0..10 * HOUR_MS), &TERMS) - 7.5).abs() < 1e-6);
        let paid = MoveTerms { start_ms: HOUR_MS / 10, egress_usd: 0.25, ..TERMS };
        let least = bound(&far, &ten, &(0..12 * HOUR_MS), &paid);
        // The two hours that are left after it let the bound sink below what is made, as paths of another length count.
        // Made: 4.9 h of work by 5 h, a start at 0.50, and 5.1 h of work at 0.50, with the egress.
        let made = 5.0 + 0.25 + 0.5 * 5.2;
        assert!(least <= made + 1e-9 && least > 0.94 * made, "{least} against {made}");
    }
}
