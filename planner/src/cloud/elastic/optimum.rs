//! The omniscient optimum of an elastic job: the least cost if all availability were known, by exact dynamic programming.
//!
//! In the [contract](crate::cloud::elastic) lanes share nothing but the work. So let C_j(w) be the least cost of w work in lane j alone, from the programme of [one
//! instance](crate::cloud::optimum) with spot where at least j nodes can be had: one pass gives it for every w. Then
//!
//! ```text
//! F_0(0) = 0,  F_j(W) = min over w of F_{j−1}(W − w) + C_j(w),  optimum = F_K(all the work)
//! ```
//!
//! Nodes could also be counted without lanes: s spot and v on-demand nodes in a tick. A test does so, and finds the optimum between what it costs if all are paid to the end of a
//! tick, and what it costs if any of them may be let go within one and another begun in its place.
//!
//! C is not convex, as each beginning costs a changeover, so the shares are not told by their marginal costs: all of them are tried. Between the amounts at which a lane would
//! begin, lose or end a node at a tick, C is linear or bent downwards. Of two lanes in such stretches one can give work to the other without cost until one of them
//! reaches an end, so some optimum has at most one lane inside, and shares in whole units lose nothing. The unit is the greatest common divisor of tick, changeover and work.
//! A lane may run to the very deadline, so the deadline must be whole in units, too: [`whole`] takes it down to that. Whatever on-demand could make before, it still makes.
//!
//! With N = units to the deadline: O(lanes × N × ticks) for C, each pattern of spot computed once, and O(lanes × W × N) for F, of which only sums are computed that
//! earlier and later lanes can make. Worked number: 16 lanes, 48 h of work in 60 h at ticks of 300 s and 12 min of changeover have N = 3,600 minutes, W = 46,080.
//!
//! Worked example: that of the [contract](crate::cloud::elastic): 4 node-hours on two lanes, spot in hours 1 and 2 of the first and in hour 2 of the second. C_1(w) = w up to 2 h and then
//! 3 an hour more; C_2(w) = w up to 1 h and then 3 an hour more. 4 h are 2 + 2 or 3 + 1 hours: 2 + 1 + 3 = 6 spot hours.

use crate::cloud::job::DeadlineJob;
use crate::cloud::optimum::Grid;
use crate::error::{Error, Result};
use tracecast_analytics::stats::divisor;

/// Most sums that are tried: half a minute of work.
const MOST_SUMS: f64 = 1e11;

/// The job with its deadline taken down to a whole number of units, so that an optimum of several lanes is exact.
#[must_use]
pub fn whole(job: &DeadlineJob, tick_ms: i64) -> DeadlineJob {
    whole_among(job, tick_ms, &[])
}

/// Rounds the deadline down as [`whole`] does, for a job that may have each of `works_ms` as its
/// work.
pub(in crate::cloud) fn whole_among(job: &DeadlineJob, tick_ms: i64, works_ms: &[i64]) -> DeadlineJob {
    let unit_ms = divisor(divisor(tick_ms, job.changeover_ms), job.work_ms);
    let unit_ms = works_ms.iter().fold(unit_ms, |unit_ms, work_ms| divisor(unit_ms, *work_ms)).max(1);
    DeadlineJob { deadline_ms: job.deadline_ms / unit_ms * unit_ms, ..*job }
}

/// Costs by work of each lane, in units, and for each lane which of them is its own.
struct ByLane {
    grid: Grid,
    costs: Vec<Vec<f64>>,
    of: Vec<usize>,
}

/// What each amount of work costs in each lane, up to what on-demand alone makes.
fn by_lane(
    (up, price): (&[u32], &[f64]),
    lanes: usize,
    tick_ms: i64,
    job: &DeadlineJob,
    works_ms: &[i64],
) -> Result<ByLane> {
    let grid = Grid { least: 0, ..Grid::among(tick_ms, job, works_ms)? };
    let units = (grid.ticks - 1) * grid.tick + grid.last;
    let grid = Grid { work: units.saturating_sub(grid.changeover), ..grid };
    let all = lanes as f64 * job.work_ms as f64 / grid.unit_ms as f64;
    if job.deadline_ms % grid.unit_ms != 0
        || all * lanes as f64 * grid.work as f64 > MOST_SUMS
        || (grid.work * grid.ticks) as f64 * lanes as f64 > MOST_SUMS
    {
        return Err(Error::malformed(
            "elastic job whose optimum can be computed",
            format!("{:.3} h of work on {lanes} nodes in ticks of {tick_ms} ms", job.work_ms as f64 / 3.6e6),
            format!(
                "ticks, work and changeover have only {} ms in common; round work and changeover to whole minutes, and the ticks (the gap between samples) to whole seconds, or ask for fewer nodes",
                grid.unit_ms
            ),
        ));
    }
    let (mut patterns, mut costs, mut of): (Vec<Vec<bool>>, Vec<Vec<f64>>, Vec<usize>) = Default::default();
    for lane in 0..lanes {
        let has: Vec<bool> = (0..grid.ticks).map(|tick| up.get(tick).is_some_and(|up| lane < *up as usize)).collect();
        let known = patterns.iter().position(|pattern| *pattern == has);
        of.push(known.unwrap_or(patterns.len()));
        if known.is_none() {
            costs.push(grid.solve((&has, price), job.price_ratio, |_, _, _| ()));
            patterns.push(has);
        }
    }
    Ok(ByLane { grid, costs, of })
}

impl ByLane {
    /// Least costs of the work of the first lanes together, lane by lane: where the sums begin, and their costs. All of them do from `least` to `all`. `keep` says whether all are asked for, or the last alone.
    fn sums(&self, least: usize, all: usize, keep: bool) -> Vec<(usize, Vec<f64>)> {
        let most = self.grid.work;
        let lanes = self.of.len();
        let mut sums: Vec<(usize, Vec<f64>)> = vec![(0, vec![0.0])];
        for (lane, of) in self.of.iter().enumerate() {
            let Some(((low, before), costs)) = sums.last().zip(self.costs.get(*of)) else { break };
            let high = low + before.len() - 1;
            // What the lanes after this one can do at most is left to them at most.
            let from = least.saturating_sub((lanes - 1 - lane) * most).max(*low);
            let to = all.min(high + most);
            let mut next = vec![f64::INFINITY; (to + 1).saturating_sub(from)];
            for (own, cost) in costs.iter().enumerate().filter(|(_, cost)| cost.is_finite()) {
                let (first, last) = ((*low).max(from.saturating_sub(own)), high.min(to.saturating_sub(own)));
                if own > to || first > last {
                    continue;
                }
                let least = next[first + own - from..].iter_mut();
                let known = &before[first - low..=last - low];
                least.zip(known).for_each(|(least, known)| *least = least.min(known + cost));
            }
            if !keep {
                sums.clear();
            }
            sums.push((from, next));
        }
        sums
    }
}

/// The least cost of an elastic job, of which `up` lanes can have spot tick by tick; spot milliseconds of one node. A tick of spot costs `price` times what it costs without (1
/// beyond its end). Infinite if the deadline cannot be made.
///
/// # Errors
/// If tick, work, changeover and deadline have too little in common for an exact answer: see [`whole`].
pub fn lanes_optimum(up: &[u32], lanes: usize, price: &[f64], tick_ms: i64, job: &DeadlineJob) -> Result<f64> {
    let costs = lanes_optima((up, price), lanes, tick_ms, job, &[job.work_ms])?;
    Ok(costs.first().copied().unwrap_or(f64::INFINITY))
}

/// Optimal costs as by [`lanes_optimum`], for each of `works_ms` with one deadline, none of them
/// more than the job's own work: one pass costs them all.
///
/// # Errors
/// Errors of [`lanes_optimum`].
pub(in crate::cloud) fn lanes_optima(
    (up, price): (&[u32], &[f64]),
    lanes: usize,
    tick_ms: i64,
    job: &DeadlineJob,
    works_ms: &[i64],
) -> Result<Vec<f64>> {
    let result = by_lane((up, price), lanes, tick_ms, job, works_ms)?;
    let units =
        |work_ms: i64| usize::try_from(work_ms / result.grid.unit_ms).unwrap_or(usize::MAX).saturating_mul(lanes);
    let ends = works_ms.iter().copied().min().zip(works_ms.iter().copied().max());
    let (least_ms, most_ms) = ends.unwrap_or((job.work_ms, job.work_ms));
    let sums = result.sums(units(least_ms), units(most_ms), false);
    let cost = |work_ms: &i64| {
        let least = sums.last().and_then(|(from, costs)| costs.get(units(*work_ms).checked_sub(*from)?)).copied();
        least.unwrap_or(f64::INFINITY) * result.grid.unit_ms as f64
    };
    Ok(works_ms.iter().map(cost).collect())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::float_cmp)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::cloud::elastic::ride_without_net;
    use crate::cloud::job::Script;
    use crate::cloud::optimum::optimum;
    use crate::cloud::optimum::{optimal_holdings, tests::by_trying};
    use crate::market::availability::Supply;

    /// A node from its beginning to its end, in ticks; spot or on-demand.
    type Run = (bool, usize, usize);

    /// The runs of nodes of which so many are held in each tick: what is let go is what was begun last.
    fn runs(counts: &[(u32, u32)]) -> Vec<Run> {
        let mut ended = Vec::new();
        for (spot, of) in [(true, 0), (false, 1)] {
            let mut begun: Vec<usize> = Vec::new();
            for tick in 0..=counts.len() {
                let count = counts.get(tick).map_or(0, |pair| if of == 0 { pair.0 } else { pair.1 }) as usize;
                while begun.len() > count {
                    ended.push((spot, begun.pop().unwrap(), tick));
                }
                while begun.len() < count {
                    begun.push(tick);
                }
            }
        }
        ended
    }

    /// The least cost over every way to share the work between lanes, and to hold something in each lane and tick, by trying them all with the contract of one instance.
    fn by_trying_lanes(up: &[u32], lanes: usize, price: &[f64], tick_ms: i64, job: &DeadlineJob) -> f64 {
        let supply = Supply { lanes, up: up.to_vec() };
        let all = job.work_ms * lanes as i64;
        let mut least = vec![f64::INFINITY; all as usize + 1];
        least[0] = 0.0;
        for lane in 0..lanes {
            let up = supply.lane(lane);
            let most = job.deadline_ms - job.changeover_ms;
            let cost = |work_ms: i64| match work_ms {
                0 => 0.0,
                _ => by_trying(&up, price, tick_ms, &DeadlineJob { work_ms, ..*job }),
            };
            let costs: Vec<f64> = (0..=most.min(all)).map(cost).collect();
            let with = |sum: usize| {
                let own = costs.iter().enumerate().take(sum + 1);
                own.map(|(own, cost)| least[sum - own] + cost).fold(f64::INFINITY, f64::min)
            };
            least = (0..least.len()).map(with).collect();
        }
        least[all as usize]
    }

    /// The least cost over all numbers of spot and on-demand nodes in each tick, without a thought of lanes; first where all nodes are paid to the end of a tick, and then where what
    /// is done too much is saved in any one tick: a run may stop there, and go on in the next.
    fn by_counting(up: &[u32], lanes: usize, price: &[f64], tick_ms: i64, job: &DeadlineJob) -> [f64; 2] {
        let ticks = job.ticks(tick_ms);
        let length = |tick: usize| tick_ms.min(job.deadline_ms - tick as i64 * tick_ms);
        let lanes = lanes as u32;
        let ways: Vec<(u32, u32)> =
            (0..=lanes).flat_map(|spot| (0..=lanes - spot).map(move |on_demand| (spot, on_demand))).collect();
        let mut least = [f64::INFINITY; 2];
        'ways: for number in 0..ways.len().pow(ticks as u32) {
            let mut counts = Vec::new();
            for tick in 0..ticks {
                let way = ways[number / ways.len().pow(tick as u32) % ways.len()];
                if way.0 > up.get(tick).copied().unwrap_or(0) {
                    continue 'ways;
                }
                counts.push(way);
            }
            let cost_of = |spot: bool, tick: usize| {
                if spot { price.get(tick).copied().unwrap_or(1.0) } else { job.price_ratio }
            };
            let (mut done, mut cost, mut ends) = (0, 0.0, Vec::new());
            for (spot, from, to) in runs(&counts) {
                let worked = ((from..to).map(length).sum::<i64>() - job.changeover_ms).max(0);
                done += worked;
                cost += (from..to).map(|tick| cost_of(spot, tick) * length(tick) as f64).sum::<f64>();
                ends.extend((from..to).map(|tick| (cost_of(spot, tick), worked.min(length(tick)))));
            }
            let over = done - job.work_ms * i64::from(lanes);
            if over >= 0 {
                let saved = ends.iter().map(|(price, most)| price * over.min(*most) as f64).fold(0.0, f64::max);
                least = [least[0].min(cost), least[1].min(cost - saved)];
            }
        }
        least
    }

    /// What the optimum does: each lane's share and what it holds, as one instance would. What it costs by the contract.
    fn with_foresight(up: &[u32], lanes: usize, price: &[f64], tick_ms: i64, job: &DeadlineJob) -> f64 {
        let result = by_lane((up, price), lanes, tick_ms, job, &[job.work_ms]).unwrap();
        let mut rest = (job.work_ms / result.grid.unit_ms) as usize * lanes;
        let sums = result.sums(rest, rest, true);
        let at = |lanes: usize, sum: usize| {
            let (from, costs) = &sums[lanes];
            sum.checked_sub(*from).and_then(|at| costs.get(at)).copied().unwrap_or(f64::INFINITY)
        };
        let supply = Supply { lanes, up: up.to_vec() };
        let mut cost = 0.0;
        for lane in (0..lanes).rev() {
            let costs = &result.costs[result.of[lane]];
            let total = |own: usize| at(lane, rest - own) + costs[own];
            let own = (0..=rest.min(result.grid.work)).min_by(|a, b| total(*a).total_cmp(&total(*b))).unwrap();
            rest -= own;
            if own > 0 {
                let one = DeadlineJob { work_ms: own as i64 * result.grid.unit_ms, ..*job };
                let held = optimal_holdings(&supply.lane(lane), price, tick_ms, &one).unwrap();
                let up = supply.lane(lane);
                let run = ride_without_net(&mut Script(held.into_iter()), &up, price, tick_ms, &one, &mut |_| ());
                assert!(!run.missed);
                cost += run.cost;
            }
        }
        assert_eq!(rest, 0);
        cost
    }

    #[test]
    fn the_worked_example() {
        let hour = 3_600_000;
        let job = DeadlineJob { work_ms: 2 * hour, deadline_ms: 3 * hour, changeover_ms: 0, price_ratio: 3.0 };
        assert_eq!(lanes_optimum(&[1, 2, 0], 2, &[], hour, &job).unwrap(), 6.0 * hour as f64);
        // A deadline that is not whole in units is refused, and taken down.
        let odd = DeadlineJob { deadline_ms: 3 * hour + 1, ..job };
        assert!(lanes_optimum(&[1, 2, 0], 2, &[], hour, &odd).is_err());
        assert_eq!(whole(&odd, hour), job);
    }

    #[test]
    fn a_run_stops_within_a_dear_tick_and_goes_on_in_the_next() {
        let job = DeadlineJob { work_ms: 5, deadline_ms: 11, changeover_ms: 0, price_ratio: 2.0 };
        let (up, price) = ([0, 2, 2, 1, 0], [0.2, 0.2, 1.9, 0.2, 0.2]);
        // Six units at 0.2 on both, two of one's dear tick, and the two that are left on the same.
        let least = lanes_optimum(&up, 2, &price, 3, &whole(&job, 3)).unwrap();
        assert!((least - (1.2 + 2.0 * 1.9 + 0.4)).abs() < 1e-9, "{least}");
        let [to_the_end, saving] = by_counting(&up, 2, &price, 3, &whole(&job, 3));
        assert!(saving <= least && least <= to_the_end, "{least} is not from {saving} to {to_the_end}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]
        #[test]
        fn nothing_is_cheaper_and_its_way_costs_what_it_says(
            lanes in 1usize..4,
            up in prop::collection::vec(0u32..4, 5),
            price in prop::collection::vec(0.2f64..2.5, 5),
            priced in any::<bool>(),
            tick in 2i64..6,
            work in 1i64..12,
            spare in 0i64..10,
            changeover in 0i64..6,
        ) {
            let job = DeadlineJob {
                work_ms: work,
                deadline_ms: work + changeover + spare,
                changeover_ms: changeover,
                price_ratio: 2.0,
            };
            // Ten ways a tick with three lanes.
            prop_assume!(job.ticks(tick) <= if lanes == 3 { 4 } else { 5 });
            let job = whole(&job, tick);
            let price = if priced { price } else { Vec::new() };
            let least = lanes_optimum(&up, lanes, &price, tick, &job).unwrap();
            let tried = by_trying_lanes(&up, lanes, &price, tick, &job);
            prop_assert!((least - tried).abs() <= 1e-9 * tried, "{least} against {tried}");
            let [to_the_end, saving] = by_counting(&up, lanes, &price, tick, &job);
            prop_assert!(
                saving <= least * (1.0 + 1e-9) && least <= to_the_end * (1.0 + 1e-9),
                "{least} is not from {saving} to {to_the_end}"
            );
            // Several amounts at once cost what each does alone.
            let works = [1.max(work / 3), work.div_euclid(2).max(1), work];
            let of = whole_among(&job, tick, &works);
            for (work_ms, cost) in works.iter().zip(lanes_optima((&up, &price), lanes, tick, &of, &works).unwrap()) {
                let one = DeadlineJob { work_ms: *work_ms, ..of };
                let alone = by_trying_lanes(&up, lanes, &price, tick, &one);
                prop_assert!((cost - alone).abs() <= 1e-9 * alone, "{work_ms}: {cost} against {alone}");
            }
            let way = with_foresight(&up, lanes, &price, tick, &job);
            prop_assert!((least - way).abs() <= 1e-9 * least, "{least} against {way}");
            if lanes == 1 {
                let one = optimum(&Supply { lanes, up }.lane(0), &price, tick, &job).unwrap();
                prop_assert!((least - one).abs() <= 1e-12 * one);
            }
        }
    }
}
