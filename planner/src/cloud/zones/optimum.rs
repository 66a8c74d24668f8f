//! The omniscient optimum of one job over several zones: the least cost if all availability and all prices were known, by exact dynamic programming.
//!
//! As in [one zone](crate::cloud::optimum), a state is a tick and a **need** q, the work left and what is left of the changeover of the instance held; beside them stands what
//! is held: spot in a zone, on-demand in a region, or nothing with the checkpoint in a region R. With p the price, ℓ the length of tick i, d a changeover and e the
//! egress where regions differ:
//!
//! ```text
//! run_m(i, q)  = p_m(i)·q where q ≤ ℓ, else p_m(i)·ℓ + V_m(i+1, q−ℓ)      m spot in a zone that has it, or on-demand
//! idle_R(i, q) = min { idle_R(i+1, q),  min over m of e(R, m) + run_m(i, q+d) }
//! V_m(i, q)    = min { run_m(i, q), idle_R(m)(i, q) }
//! ```
//!
//! On-demand is asked for in the cheapest zone of each region only, as a move within a region gains nothing. Egress is one price between any two regions, so to
//! begin somewhere on the way, only to move the checkpoint, is never cheaper than to go there at once; and an instance dropped before its changeover has passed
//! is never worth it. So counting needs so is exact, and without rounding. Several amounts of work with one deadline are one pass, as each is a need with nothing begun. O(ticks × needs within the spare time of the least work × (zones + regions)).
//!
//! Worked example: that of the [contract](crate::cloud::zones::market): 2 h of work in 4 h, spot for 1 dollar an hour in hours 1 and 3 here and in hour 2 there, egress 1 dollar: 2
//! dollars.

use crate::cloud::job::DeadlineJob;
use crate::cloud::optimum::Grid;
use crate::cloud::zones::market::Market;
use crate::error::Result;

/// Costs by need, of spot in each zone and then of on-demand in each region; and of waiting with the checkpoint in each region.
struct Costs {
    run: Vec<Vec<f64>>,
    idle: Vec<Vec<f64>>,
}

/// The costs of a tick, for whoever wants to follow the optimum.
#[cfg(test)]
pub(in crate::cloud) struct Solved {
    run: Vec<Vec<f64>>,
    idle: Vec<Vec<f64>>,
    none: f64,
}

/// The cheapest on-demand zone of each region.
fn listed(market: &Market) -> Vec<usize> {
    let places = &market.places;
    (0..places.regions.len())
        .map(|region| {
            let of = (0..places.names.len()).filter(|zone| places.region.get(*zone) == Some(&region));
            let price = |zone: &usize| places.on_demand.get(*zone).copied().unwrap_or(f64::INFINITY);
            of.min_by(|a, b| price(a).total_cmp(&price(b))).unwrap_or(0)
        })
        .collect()
}

/// The least cost of each amount of work from the grid's least to its most, dollars. `keep` is told of each tick, from the last to the first, the costs of running, of waiting, and of waiting without a checkpoint with the most work.
fn solve(
    grid: &Grid,
    market: &Market,
    start: usize,
    mut keep: impl FnMut(usize, &[Vec<f64>], &[Vec<f64>], f64),
) -> Vec<f64> {
    let places = &market.places;
    let (zones, regions) = (places.names.len(), places.regions.len());
    let on_demand = listed(market);
    let region = |mode: usize| if mode < zones { places.region[mode] } else { mode - zones };
    let egress = places.egress * 3.6e6 / grid.unit_ms as f64;
    let most = grid.work + grid.changeover;
    let fresh = || Costs {
        run: vec![vec![f64::INFINITY; most + 1]; zones + regions],
        idle: vec![vec![f64::INFINITY; most + 1]; regions],
    };
    let (mut next, mut now) = (fresh(), fresh());
    // The least cost of beginning in each region, and anywhere, by the need before.
    let mut begin = vec![vec![f64::INFINITY; most + 1]; regions];
    let mut anywhere = vec![f64::INFINITY; most + 1];
    // Waiting with nothing begun: all the work is left, of each amount.
    let mut none = vec![f64::INFINITY; grid.work - grid.least + 1];
    for tick in (0..grid.ticks).rev() {
        let length = if tick + 1 == grid.ticks { grid.last } else { grid.tick };
        let left = grid.last + (grid.ticks - 1 - tick) * grid.tick;
        let low = grid.least.saturating_sub(tick * grid.tick).max(1);
        let high = most.min(left);
        if low > high {
            continue;
        }
        let sight = market.sight(start + tick);
        anywhere[low..=high].fill(f64::INFINITY);
        begin.iter_mut().for_each(|costs| costs[low..=high].fill(f64::INFINITY));
        for mode in 0..zones + regions {
            let price = match mode.checked_sub(zones) {
                None if sight.has(mode) => sight.costs(mode),
                None => continue,
                Some(region) => places.on_demand[on_demand[region]],
            };
            let (run, onward) = (&mut now.run[mode], &next.run[mode]);
            let within = high.min(length);
            for (need, cost) in run.iter_mut().enumerate().take(within + 1).skip(low) {
                *cost = price * need as f64;
            }
            let from = low.max(length + 1);
            if from <= high {
                let whole = price * length as f64;
                let onward = &onward[from - length..=high - length];
                run[from..=high].iter_mut().zip(onward).for_each(|(cost, rest)| *cost = whole + rest);
            }
            if low + grid.changeover <= high {
                let begun = &run[low + grid.changeover..=high];
                let least = &mut begin[region(mode)][low..=high - grid.changeover];
                least.iter_mut().zip(begun).for_each(|(least, cost)| *least = least.min(*cost));
            }
        }
        for costs in &begin {
            let of = anywhere[low..=high].iter_mut().zip(&costs[low..=high]);
            of.for_each(|(least, cost)| *least = least.min(*cost));
        }
        for ((idle, wait), here) in now.idle.iter_mut().zip(&next.idle).zip(&begin) {
            let begin = here[low..=high].iter().zip(&anywhere[low..=high]);
            for ((cost, wait), (here, away)) in idle[low..=high].iter_mut().zip(&wait[low..=high]).zip(begin) {
                *cost = wait.min(*here).min(away + egress);
            }
        }
        for (work, least) in (grid.least..).zip(&mut none).filter(|(work, _)| (low..=high).contains(work)) {
            *least = least.min(anywhere[work]);
        }
        keep(tick, &now.run, &now.idle, none.last().copied().unwrap_or(f64::INFINITY));
        for mode in 0..zones + regions {
            let idle = &now.idle[region(mode)][low..=high];
            let run = &mut now.run[mode][low..=high];
            if mode < zones && !sight.has(mode) {
                run.copy_from_slice(idle);
            } else {
                run.iter_mut().zip(idle).for_each(|(cost, idle)| *cost = cost.min(*idle));
            }
        }
        std::mem::swap(&mut now, &mut next);
    }
    none.into_iter().map(|cost| cost * grid.unit_ms as f64 / 3.6e6).collect()
}

/// The least cost of a job that begins at tick `start`, dollars; infinite if the deadline cannot be made.
///
/// # Errors
/// If tick, work and changeover have too little in common for an exact answer.
pub fn zones_optimum(market: &Market, start: usize, job: &DeadlineJob) -> Result<f64> {
    let grid = Grid::new(market.places.tick_ms, job)?;
    Ok(solve(&grid, market, start, |_, _, _, _| ()).first().copied().unwrap_or(f64::INFINITY))
}

/// Optimal costs as by [`zones_optimum`], for each of some amounts of work with one deadline, none
/// of them more than the job's own.
///
/// # Errors
/// Errors of [`zones_optimum`].
pub(in crate::cloud) fn zones_optima(
    market: &Market,
    start: usize,
    job: &DeadlineJob,
    works_ms: &[i64],
) -> Result<Vec<f64>> {
    let grid = Grid::among(market.places.tick_ms, job, works_ms)?;
    let costs = solve(&grid, market, start, |_, _, _, _| ());
    let of = |work_ms: &i64| {
        let place = usize::try_from(work_ms / grid.unit_ms).ok().and_then(|units| units.checked_sub(grid.least));
        place.and_then(|place| costs.get(place)).copied().unwrap_or(f64::INFINITY)
    };
    Ok(works_ms.iter().map(of).collect())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::float_cmp)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::cloud::zones::market::tests::{at_a_dollar, places};
    use crate::cloud::zones::market::{Listed, Places, ZoneHolding, travel_without_net};

    /// The least cost over every way to hold something in each tick, by trying them all with the contract itself.
    pub(in crate::cloud) fn by_trying_zones(market: &Market, start: usize, job: &DeadlineJob) -> f64 {
        let zones = market.places.names.len();
        let (ticks, choices) = (job.ticks(market.places.tick_ms), 2 * zones + 1);
        let held = |choice: usize| match choice {
            0 => ZoneHolding::Idle,
            spot if spot <= zones => ZoneHolding::Spot(spot - 1),
            demand => ZoneHolding::OnDemand(demand - zones - 1),
        };
        let mut least = f64::INFINITY;
        for number in 0..choices.pow(ticks as u32) {
            let way: Vec<ZoneHolding> =
                (0..ticks).map(|tick| held(number / choices.pow(tick as u32) % choices)).collect();
            // Who tries all asks nobody.
            let run = travel_without_net(&mut Listed::new(way, false), market, start, job);
            if !run.missed {
                least = least.min(run.cost);
            }
        }
        least
    }

    /// Several amounts in one pass cost what each costs by itself.
    #[test]
    fn amounts_cost_together_what_they_cost_alone() {
        let rows: Vec<(Vec<bool>, Vec<f64>)> =
            (0..12usize).map(|tick| (vec![tick % 3 != 1, tick % 4 == 1], vec![1.0 + 0.1 * tick as f64, 0.7])).collect();
        let market = Market::from_rows(places(&[0, 1], &[3.0, 2.5], 0.4, HOUR), &rows);
        let job = DeadlineJob { work_ms: 8 * HOUR, deadline_ms: 11 * HOUR, changeover_ms: HOUR / 4, price_ratio: 3.0 };
        let works = [HOUR, 3 * HOUR + HOUR / 2, 6 * HOUR, 8 * HOUR];
        let result = zones_optima(&market, 0, &job, &works).unwrap();
        for (work_ms, cost) in works.iter().zip(&result) {
            let alone = zones_optimum(&market, 0, &DeadlineJob { work_ms: *work_ms, ..job }).unwrap();
            assert!((cost - alone).abs() < 1e-9 && alone.is_finite(), "{work_ms}: {cost} and {alone}");
        }
    }

    /// What the optimum holds: the programme that decides with all known.
    fn with_foresight(market: &Market, start: usize, job: &DeadlineJob) -> Vec<ZoneHolding> {
        let grid = Grid::new(market.places.tick_ms, job).unwrap();
        let mut solved: Vec<Solved> = Vec::new();
        solve(&grid, market, start, |_, run, idle, none| {
            solved.push(Solved { run: run.to_vec(), idle: idle.to_vec(), none });
        });
        solved.reverse();
        let places: &Places = &market.places;
        let zones = places.names.len();
        let on_demand = listed(market);
        let region = |mode: usize| if mode < zones { places.region[mode] } else { mode - zones };
        let egress = places.egress * 3.6e6 / grid.unit_ms as f64;
        let (mut need, mut mode, mut at) = (grid.work, None::<usize>, None::<usize>);
        let mut held = Vec::new();
        for tick in 0..grid.ticks {
            let Some(of) = solved.get(tick) else { break };
            let sight = market.sight(start + tick);
            let can = |mode: usize| mode >= zones || sight.has(mode);
            mode = mode.filter(|mode| can(*mode));
            let stays = mode.is_some_and(|mode| of.run[mode][need] <= of.idle[region(mode)][need]);
            if !stays {
                let (cost, wait) = match at {
                    None => (of.none, solved.get(tick + 1).map_or(f64::INFINITY, |next| next.none)),
                    Some(at) => {
                        (of.idle[at][need], solved.get(tick + 1).map_or(f64::INFINITY, |next| next.idle[at][need]))
                    }
                };
                mode = None;
                if wait > cost {
                    let begun = |mode: &usize| {
                        let moves = if at.is_none_or(|at| at == region(*mode)) { 0.0 } else { egress };
                        moves + of.run[*mode].get(need + grid.changeover).copied().unwrap_or(f64::INFINITY)
                    };
                    let best = (0..zones + places.regions.len())
                        .filter(|mode| can(*mode))
                        .min_by(|a, b| begun(a).total_cmp(&begun(b)))
                        .unwrap();
                    need += grid.changeover;
                    at = Some(region(best));
                    mode = Some(best);
                }
            }
            held.push(match mode {
                None => ZoneHolding::Idle,
                Some(zone) if zone < zones => ZoneHolding::Spot(zone),
                Some(mode) => ZoneHolding::OnDemand(on_demand[mode - zones]),
            });
            if mode.is_some() {
                need = need.saturating_sub(if tick + 1 == grid.ticks { grid.last } else { grid.tick });
                if need == 0 {
                    break;
                }
            }
        }
        held
    }

    const HOUR: i64 = 3_600_000;

    #[test]
    fn the_worked_example() {
        let rows = at_a_dollar(&[(true, false), (false, true), (true, false), (false, false)]);
        let job = DeadlineJob { work_ms: 2 * HOUR, deadline_ms: 4 * HOUR, changeover_ms: 0, price_ratio: 3.0 };
        let market = Market::from_rows(places(&[0, 1], &[3.0, 3.0], 1.0, HOUR), &rows);
        assert!((zones_optimum(&market, 0, &job).unwrap() - 2.0).abs() < 1e-12);
        // With free egress and an hour less, the other zone takes the second hour.
        let market = Market::from_rows(places(&[0, 1], &[3.0, 3.0], 0.0, HOUR), &rows);
        let job = DeadlineJob { deadline_ms: 2 * HOUR, ..job };
        assert!((zones_optimum(&market, 0, &job).unwrap() - 2.0).abs() < 1e-12);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]
        #[test]
        fn nothing_is_cheaper_and_its_way_costs_what_it_says(
            up in prop::collection::vec(prop::array::uniform3(any::<bool>()), 5),
            price in prop::collection::vec(prop::array::uniform3(0.1f64..2.0), 5),
            on_demand in prop::array::uniform3(0.8f64..3.0),
            far in prop::array::uniform3(0usize..2),
            egress in 0.0f64..3.0,
            tick in 2i64..7,
            work in 1i64..15,
            spare in 0i64..12,
            changeover in 0i64..6,
        ) {
            let scale = 600_000;
            let (tick_ms, work_ms, changeover_ms) = (tick * scale, work * scale, changeover * scale);
            let deadline_ms = work_ms + changeover_ms + spare * scale;
            let job = DeadlineJob { work_ms, deadline_ms, changeover_ms, price_ratio: 3.0 };
            prop_assume!(job.ticks(tick_ms) <= 5);
            let rows: Vec<(Vec<bool>, Vec<f64>)> =
                up.iter().zip(&price).map(|(up, price)| (up.to_vec(), price.to_vec())).collect();
            let market = Market::from_rows(places(&[0, far[1], far[2]], &on_demand, egress, tick_ms), &rows);
            let least = zones_optimum(&market, 0, &job).unwrap();
            let tried = by_trying_zones(&market, 0, &job);
            prop_assert!((least - tried).abs() <= 1e-9 * tried, "{least} against {tried}");
            let held = with_foresight(&market, 0, &job);
            let run = travel_without_net(&mut Listed::new(held, true), &market, 0, &job);
            prop_assert!(!run.missed && (run.cost - least).abs() <= 1e-9 * least, "{} against {least}", run.cost);
        }
    }
}
