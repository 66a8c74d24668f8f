//! The omniscient optimum of one job with a deadline: the least cost if all availability were known, by exact dynamic programming.
//!
//! It chooses, tick by tick, what the [contract](super::job) allows, without a safety net: it needs none. Let *need* q be the work left and what is left
//! of the changeover of the instance held; to take an instance adds a whole changeover d. With p the price and ℓ the length of tick i:
//!
//! ```text
//! run_h(i, q)   = p_h·q where q ≤ ℓ, else p_h·ℓ + V_h(i+1, q−ℓ)      h on-demand, or spot where there is some
//! V_idle(i, q)  = min { V_idle(i+1, q), run_spot(i, q+d), run_on-demand(i, q+d) }
//! V_h(i, q)     = min { run_h(i, q), V_idle(i, q) }
//! ```
//!
//! An instance dropped before its changeover has passed leaves a need that is too high; no optimum takes such an instance, as waiting does the same
//! for nothing, so the least cost is exact. Needs are counted in the greatest common divisor of tick, changeover and work, so
//! nothing is rounded. Only needs that can be met by the deadline, and can have come about by tick i, are computed. O(ticks × needs within the spare
//! time).
//!
//! Worked example: that of the [contract](super::job): 2 h of work in 3 h, spot in the second hour only. On-demand from the start costs 3·132 = 396 spot
//! minutes; on-demand, spot, on-demand costs 348. Nothing is cheaper.

use super::job::{DeadlineJob, Holding};
use crate::error::{Error, Result};
use tracecast_analytics::stats::divisor;

/// Most states that are computed: some minutes of work.
const MOST_STATES: i64 = 20_000_000_000;
/// Most needs that are told apart: six rows of costs of a gigabyte in all.
const MOST_NEEDS: i64 = (1 << 30) / 48;
/// Most choices that are kept, a byte each, to say what the optimum holds.
const MOST_KEPT: usize = 1 << 28;

/// The best of the three choices, for one tick and need: two bits for what to do from idle and one
/// each for holding on.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Best(u8);

impl Best {
    const SPOT: u8 = 1;
    const ON_DEMAND: u8 = 2;
    const KEEP_SPOT: u8 = 4;
    const KEEP_ON_DEMAND: u8 = 8;
}

/// The grid of needs: times in units.
pub(super) struct Grid {
    /// The unit, milliseconds.
    pub(super) unit_ms: i64,
    /// Length of a tick.
    pub(super) tick: usize,
    /// A changeover.
    pub(super) changeover: usize,
    /// The work; of several amounts the most.
    pub(super) work: usize,
    /// The least work that is asked for.
    pub(super) least: usize,
    /// Ticks until the deadline.
    pub(super) ticks: usize,
    /// Length of the last tick, which the deadline may cut.
    pub(super) last: usize,
}

impl Grid {
    /// Creates the grid of a job in ticks; an error if it is too fine to be exact.
    pub(super) fn new(tick_ms: i64, job: &DeadlineJob) -> Result<Self> {
        Self::among(tick_ms, job, &[job.work_ms])
    }

    /// Creates the grid of a job that may have each of some amounts of work, of which its own is
    /// the most.
    pub(super) fn among(tick_ms: i64, job: &DeadlineJob, works_ms: &[i64]) -> Result<Self> {
        let unit_ms = works_ms
            .iter()
            .fold(divisor(divisor(tick_ms, job.changeover_ms), job.work_ms), |unit_ms, work_ms| {
                divisor(unit_ms, *work_ms)
            })
            .max(1);
        let ticks = job.ticks(tick_ms);
        let needs = (job.work_ms + job.changeover_ms) / unit_ms;
        let within = (job.spare_ms() / unit_ms + 1).min(needs);
        if ticks as i64 > MOST_STATES / within.max(1) || needs > MOST_NEEDS {
            return Err(Error::malformed(
                "job whose optimum can be computed",
                format!("{:.3} h of work in ticks of {} ms", job.work_ms as f64 / 3.6e6, tick_ms),
                format!(
                    "ticks, work and changeover have only {unit_ms} ms in common; round work and changeover to whole minutes, and the ticks (the gap between samples) to whole seconds"
                ),
            ));
        }
        let units = |ms: i64| usize::try_from(ms / unit_ms).unwrap_or(0);
        let before_last = (ticks as i64 - 1) * tick_ms;
        Ok(Self {
            unit_ms,
            tick: units(tick_ms),
            changeover: units(job.changeover_ms),
            work: units(job.work_ms),
            least: units(works_ms.iter().copied().min().unwrap_or(job.work_ms)),
            ticks,
            last: units(job.deadline_ms - before_last),
        })
    }

    /// Costs of each amount of work, from the least to the most, in units; `keep` is told the best choices of each tick and need.
    pub(super) fn solve(
        &self,
        (up, price): (&[bool], &[f64]),
        price_ratio: f64,
        mut keep: impl FnMut(usize, usize, Best),
    ) -> Vec<f64> {
        let most = self.work + self.changeover;
        let fresh = || {
            let mut costs = vec![f64::INFINITY; most + 1];
            if let Some(done) = costs.first_mut() {
                *done = 0.0;
            }
            costs
        };
        // From the next tick on, and from this one on.
        let [mut idle_next, mut spot_next, mut demand_next] = [fresh(), fresh(), fresh()];
        let [mut idle, mut spot, mut demand] = [fresh(), fresh(), fresh()];
        for tick in (0..self.ticks).rev() {
            let length = if tick + 1 == self.ticks { self.last } else { self.tick };
            let left = self.last + (self.ticks - 1 - tick) * self.tick;
            let low = self.least.saturating_sub(tick * self.tick).max(1);
            let high = most.min(left);
            let up = up.get(tick).copied().unwrap_or(false);
            let price = price.get(tick).copied().unwrap_or(1.0);
            for need in low..=high {
                let (rest, part) = (need.saturating_sub(length), need.min(length) as f64);
                demand[need] = price_ratio * part + if need > length { demand_next[rest] } else { 0.0 };
                spot[need] = match (up, need > length) {
                    (false, _) => f64::INFINITY,
                    (true, true) => price * part + spot_next[rest],
                    (true, false) => price * part,
                };
            }
            for need in low..=high {
                let mut best = Best::default();
                let mut least = idle_next[need];
                let begun = need + self.changeover;
                if begun <= high {
                    if spot[begun] < least {
                        (least, best.0) = (spot[begun], Best::SPOT);
                    }
                    if demand[begun] < least {
                        (least, best.0) = (demand[begun], Best::ON_DEMAND);
                    }
                }
                idle[need] = least;
                best.0 |= if spot[need] <= least && up { Best::KEEP_SPOT } else { 0 };
                best.0 |= if demand[need] <= least { Best::KEEP_ON_DEMAND } else { 0 };
                keep(tick, need, best);
            }
            for need in low..=high {
                spot[need] = spot[need].min(idle[need]);
                demand[need] = demand[need].min(idle[need]);
            }
            std::mem::swap(&mut idle, &mut idle_next);
            std::mem::swap(&mut spot, &mut spot_next);
            std::mem::swap(&mut demand, &mut demand_next);
        }
        idle_next.truncate(self.work + 1);
        idle_next.split_off(self.least)
    }
}

/// The least cost of a job over `up`, spot milliseconds, where a tick of spot costs `price` times what it costs without (1 beyond its end); infinite if the
/// deadline cannot be made.
///
/// # Errors
/// If tick, work and changeover have too little in common for an exact answer.
pub fn optimum(up: &[bool], price: &[f64], tick_ms: i64, job: &DeadlineJob) -> Result<f64> {
    let grid = Grid::new(tick_ms, job)?;
    let costs = grid.solve((up, price), job.price_ratio, |_, _, _| ());
    Ok(costs.first().copied().unwrap_or(f64::INFINITY) * grid.unit_ms as f64)
}

/// Optimal costs as by [`optimum`], for each of some amounts of work with one deadline, none of
/// them more than the job's own.
///
/// # Errors
/// Errors of [`optimum`].
pub(super) fn optima(
    up: &[bool],
    price: &[f64],
    tick_ms: i64,
    job: &DeadlineJob,
    works_ms: &[i64],
) -> Result<Vec<f64>> {
    let grid = Grid::among(tick_ms, job, works_ms)?;
    let costs = grid.solve((up, price), job.price_ratio, |_, _, _| ());
    let of = |work_ms: &i64| {
        let place = usize::try_from(work_ms / grid.unit_ms).ok().and_then(|units| units.checked_sub(grid.least));
        place.and_then(|place| costs.get(place)).copied().unwrap_or(f64::INFINITY) * grid.unit_ms as f64
    };
    Ok(works_ms.iter().map(of).collect())
}

/// What the optimum holds in each tick until its work is done; nothing if the deadline cannot be made, or where ticks times needs are more than are kept in memory.
///
/// # Errors
/// Errors of [`optimum`].
pub(super) fn optimal_holdings(up: &[bool], price: &[f64], tick_ms: i64, job: &DeadlineJob) -> Result<Vec<Holding>> {
    let grid = Grid::new(tick_ms, job)?;
    let width = grid.work + grid.changeover + 1;
    if grid.ticks.saturating_mul(width) > MOST_KEPT {
        return Ok(Vec::new());
    }
    let mut kept = vec![Best::default(); grid.ticks * width];
    let costs = grid.solve((up, price), job.price_ratio, |tick, need, best| {
        if let Some(place) = kept.get_mut(tick * width + need) {
            *place = best;
        }
    });
    let mut held = Vec::new();
    if costs.first().is_none_or(|least| least.is_infinite()) {
        return Ok(held);
    }
    let (mut need, mut holding) = (grid.work, Holding::Idle);
    for tick in 0..grid.ticks {
        if holding == Holding::Spot && !up.get(tick).copied().unwrap_or(false) {
            holding = Holding::Idle;
        }
        let best = kept[tick * width + need].0;
        let keeps = match holding {
            Holding::Idle => false,
            Holding::Spot => best & Best::KEEP_SPOT != 0,
            Holding::OnDemand => best & Best::KEEP_ON_DEMAND != 0,
        };
        if !keeps {
            holding = match best & (Best::SPOT | Best::ON_DEMAND) {
                Best::SPOT => Holding::Spot,
                Best::ON_DEMAND => Holding::OnDemand,
                _ => Holding::Idle,
            };
            need += if holding == Holding::Idle { 0 } else { grid.changeover };
        }
        held.push(holding);
        if holding != Holding::Idle {
            need = need.saturating_sub(if tick + 1 == grid.ticks { grid.last } else { grid.tick });
            if need == 0 {
                break;
            }
        }
    }
    Ok(held)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::super::job::Script;
    use super::*;
    use crate::cloud::elastic::ride_without_net;

    /// The least cost over every way to hold something in each tick, by trying them all with the contract itself.
    pub(in super::super) fn by_trying(up: &[bool], price: &[f64], tick_ms: i64, job: &DeadlineJob) -> f64 {
        let ticks = job.ticks(tick_ms);
        let mut least = f64::INFINITY;
        for number in 0..3usize.pow(ticks as u32) {
            let way: Vec<Holding> = (0..ticks)
                .map(|tick| [Holding::Idle, Holding::Spot, Holding::OnDemand][number / 3usize.pow(tick as u32) % 3])
                .collect();
            let run = ride_without_net(&mut Script(way.into_iter()), up, price, tick_ms, job, &mut |_| ());
            if !run.missed {
                least = least.min(run.cost);
            }
        }
        least
    }

    #[test]
    fn the_worked_example() {
        let job = DeadlineJob { work_ms: 7_200_000, deadline_ms: 10_800_000, changeover_ms: 720_000, price_ratio: 3.0 };
        let up = [false, true, false];
        assert!((optimum(&up, &[], 3_600_000, &job).unwrap() - 348.0 * 60e3).abs() < 1e-9);
        let held = optimal_holdings(&up, &[], 3_600_000, &job).unwrap();
        assert_eq!(held, [Holding::OnDemand, Holding::Spot, Holding::OnDemand]);
        let odd = DeadlineJob { work_ms: 7_200_000_001, deadline_ms: 10_800_000_000, ..job };
        assert!(optimum(&up, &[], 3_600_000, &odd).unwrap_err().to_string().contains("whole minutes"));
    }

    proptest! {
        #[test]
        fn nothing_is_cheaper_and_its_way_costs_what_it_says(
            up in prop::collection::vec(any::<bool>(), 9),
            tick_ms in 2i64..7,
            work_ms in 1i64..25,
            spare_ms in 0i64..20,
            changeover_ms in 0i64..9,
            price_ratio in 1.0f64..5.0,
        ) {
            let job = DeadlineJob { work_ms, deadline_ms: work_ms + changeover_ms + spare_ms, changeover_ms, price_ratio };
            prop_assume!(job.ticks(tick_ms) <= 9);
            let least = optimum(&up, &[], tick_ms, &job).unwrap();
            let tried = by_trying(&up, &[], tick_ms, &job);
            prop_assert!((least - tried).abs() <= 1e-9 * tried, "{least} against {tried}");
            let works: Vec<i64> = (1..=work_ms).collect();
            let all = optima(&up, &[], tick_ms, &job, &works).unwrap();
            for (work_ms, result) in works.into_iter().zip(all) {
                let alone = optimum(&up, &[], tick_ms, &DeadlineJob { work_ms, ..job }).unwrap();
                prop_assert!((result - alone).abs() <= 1e-9 * alone, "{work_ms}: {result} against {alone}");
            }
            let held = optimal_holdings(&up, &[], tick_ms, &job).unwrap();
            let run = ride_without_net(&mut Script(held.into_iter()), &up, &[], tick_ms, &job, &mut |_| ());
            prop_assert!(!run.missed && (run.cost - least).abs() <= 1e-9 * least, "{} against {least}", run.cost);
        }
    }
}
