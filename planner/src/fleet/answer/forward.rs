//! The mix to come, chosen on all weeks of the record, and what surrounds it: intervals, break-even, other prices, lost zones, nodes of one's own.
//!
//! O(draws × hours × states). Worked example: 4 of the reserved instances in the choice and 3 to 5 in 95 % of the draws of its weeks are told as 4 (3 to 5).

use rayon::prelude::*;
use tracecast_analytics::stats::{rank, resample};
use tracecast_analytics::time::{HOUR_MS, WEEK_MS};

use super::super::commit::{FleetMix, solve};
use super::super::heldout::{Spent, bill, seen};
use super::super::rule::FleetRule;
use super::super::stress::{ServedPool, ZoneLoss, stress};
use super::{FleetBreakEven, FleetBuying, FleetDemand, FleetMixRow, FleetRequest, FleetSensitivity, LoadCurve};
use crate::market::demand::{HourDemand, PoolDemand, PoolJobs};
use crate::market::levels::{NeedLevel, levels, peak};
use crate::market::offers::Offers;
use crate::market::purchase::BoughtAs;
use crate::market::rent::HourRents;
use crate::market::supply::{Commitment, PoolSupply, Rental, SupplyOptions};
use crate::plan::interval;
use crate::plan::money::MONTH_H;
use crate::plan::weeks::{WeekSplit, blocks, whole};
use crate::replay::compare::IntervalEstimate;

/// Draws of weeks for the interval of the numbers.
const DRAWS: u64 = 40;
/// Points of a curve of load.
const POINTS: usize = 100;

/// All that looks forward.
pub(super) struct Forward {
    pub(super) demand: Vec<FleetDemand>,
    pub(super) mix: Vec<FleetMixRow>,
    pub(super) cost_per_month: IntervalEstimate,
    pub(super) on_demand_per_month: IntervalEstimate,
    pub(super) waiting_gpu_hours_per_week: f64,
    pub(super) gap: f64,
    pub(super) break_even: Vec<FleetBreakEven>,
    pub(super) sensitivity: Vec<FleetSensitivity>,
    pub(super) stress: Vec<ZoneLoss>,
    pub(super) buying: Option<FleetBuying>,
    /// Carbon of the mix, and of all on demand, kg a month; 0 where it is not known.
    pub(super) carbon_kg_per_month: [f64; 2],
    pub(super) curves: Vec<LoadCurve>,
}

/// A pool with its choice.
struct Planned {
    gpu: String,
    demand: PoolDemand,
    supply: PoolSupply,
    levels: Vec<NeedLevel>,
    chosen: FleetMix,
}

pub(super) fn plan(
    jobs: &PoolJobs<'_>,
    offers: &Offers,
    split: &WeekSplit,
    options: &SupplyOptions,
    request: &FleetRequest,
    reserves_nothing: bool,
    day: &dyn Fn(i64) -> String,
) -> Forward {
    let (begin, end) = whole(&split.all);
    let mut demand = jobs.demand((begin, end), i64::MAX);
    for hour in demand.iter_mut().flat_map(|pool| &mut pool.hours) {
        *hour = hour.times(request.scale);
    }
    let weeks = (end - begin) as f64 / WEEK_MS as f64;
    let told = demand.iter().zip(&offers.pools).map(|(demand, pool)| (pool.gpu.clone(), demand)).collect::<Vec<_>>();
    let demanded = told.iter().map(|(gpu, demand)| summary(gpu, demand, weeks, request.scale));
    let mut summaries: Vec<FleetDemand> = demanded.collect();
    let choose = |rule: FleetRule| -> Vec<Planned> {
        let of = |(at, demand): (usize, &PoolDemand)| {
            let gpu = offers.pools.get(at).map_or_else(String::new, |pool| pool.gpu.clone());
            let supply = seen(rule, offers, at, demand, options)?;
            let levels = levels(&supply, demand.hours.iter().copied());
            let chosen = match reserves_nothing && rule == FleetRule::Mix {
                true => FleetMix { counts: vec![0; supply.commitments.len()], cost: 0.0, bound: 0.0 },
                false => solve(&supply, &levels),
            };
            Some(Planned { gpu, demand: demand.clone(), supply, levels, chosen })
        };
        demand.iter().enumerate().filter_map(of).collect()
    };
    let planned = choose(FleetRule::Mix);
    for (summary, planned) in summaries.iter_mut().zip(&planned) {
        let none = vec![0; planned.chosen.counts.len()];
        let paid = bill(&planned.supply.without_spot(), &planned.demand.hours, &none).on_demand_gpu_h;
        summary.paid_gpu_hours_per_week = paid / weeks.max(f64::MIN_POSITIVE);
    }
    let blocks = blocks(&split.all);
    let costs = |steady: bool| -> Vec<f64> {
        let of = |block: &std::ops::Range<usize>| {
            let cost = |planned: &Planned| {
                let hours = planned.demand.hours.get(block.clone()).unwrap_or(&[]);
                if steady {
                    bill(&planned.supply.without_spot(), hours, &vec![0; planned.chosen.counts.len()]).cost()
                } else {
                    bill(&planned.supply, hours, &planned.chosen.counts).cost()
                }
            };
            planned.iter().map(cost).sum::<f64>() / block.len().max(1) as f64 * MONTH_H
        };
        blocks.iter().map(of).collect()
    };
    let spent = |planned: &Planned| bill(&planned.supply, &planned.demand.hours, &planned.chosen.counts);
    let month = |planned: &Planned| MONTH_H / planned.demand.hours.len().max(1) as f64;
    let steady_kg = |planned: &Planned| {
        let none = vec![0; planned.chosen.counts.len()];
        bill(&planned.supply.without_spot(), &planned.demand.hours, &none).carbon_kg * month(planned)
    };
    let carbon_kg_per_month = [
        planned.iter().map(|planned| spent(planned).carbon_kg * month(planned)).sum(),
        planned.iter().map(steady_kg).sum(),
    ];
    let waiting: f64 = planned.iter().map(|planned| spent(planned).waiting_gpu_h).sum();
    let (cost, bound) = planned.iter().fold((0.0, 0.0), |sum, of| (sum.0 + of.chosen.cost, sum.1 + of.chosen.bound));
    let buying = if offers.owned.is_empty() {
        None
    } else {
        let bought = choose(FleetRule::Buying);
        let mix: Vec<FleetMixRow> = bought.iter().flat_map(|planned| rows(planned, offers, &[])).collect();
        Some(FleetBuying { cost_per_month: mix.iter().map(|row| row.cost_per_month).sum(), mix })
    };
    let drawn = |of: &Planned| if reserves_nothing { Vec::new() } else { drawn(of, &blocks) };
    Forward {
        demand: summaries,
        mix: planned.iter().flat_map(|of| rows(of, offers, &drawn(of))).collect(),
        cost_per_month: interval::mean(&costs(false)),
        on_demand_per_month: interval::mean(&costs(true)),
        waiting_gpu_hours_per_week: waiting / weeks.max(f64::MIN_POSITIVE),
        gap: if cost > 0.0 { ((cost - bound) / cost).max(0.0) } else { 0.0 },
        break_even: planned.iter().enumerate().flat_map(|(at, of)| break_even(of, offers, at, options)).collect(),
        sensitivity: sensitivity(&planned),
        stress: stressed(&planned, offers, request, &|hour| day(begin + hour as i64 * HOUR_MS)),
        buying,
        carbon_kg_per_month,
        curves: planned.iter().map(curve).collect(),
    }
}

fn summary(gpu: &str, demand: &PoolDemand, weeks: f64, scale: f64) -> FleetDemand {
    let hours = demand.hours.len().max(1) as f64;
    FleetDemand {
        gpu: gpu.to_owned(),
        jobs: demand.jobs,
        gpu_hours_per_week: demand.gpu_hours * scale / weeks.max(f64::MIN_POSITIVE),
        paid_gpu_hours_per_week: 0.0,
        mean_gpus: demand.hours.iter().map(|hour| hour.total).sum::<f64>() / hours,
        peak_gpus: HourDemand::most(&demand.hours),
        flexible_share: if demand.gpu_hours > 0.0 { demand.flexible_gpu_hours / demand.gpu_hours } else { 0.0 },
    }
}

/// The numbers of each commitment in draws of the blocks: 2.5 % and 97.5 % of them.
fn drawn(planned: &Planned, blocks: &[std::ops::Range<usize>]) -> Vec<(u32, u32)> {
    let mut result: Vec<Vec<u32>> = vec![Vec::new(); planned.chosen.counts.len()];
    let counts = |draw: u64| {
        let hours = resample::whole(blocks.len(), draw, 1)
            .filter_map(|block| blocks.get(block))
            .flat_map(|block| planned.demand.hours.get(block.clone()).unwrap_or(&[]).iter().copied());
        solve(&planned.supply, &levels(&planned.supply, hours)).counts
    };
    let all: Vec<Vec<u32>> = (0..DRAWS).into_par_iter().map(counts).collect();
    for counts in all {
        result.iter_mut().zip(counts).for_each(|(all, count)| all.push(count));
    }
    let ends = |mut all: Vec<u32>| {
        all.sort_unstable();
        let at = |share: f64| rank::closest_sorted(&all, share).unwrap_or(0);
        (at(0.025), at(0.975))
    };
    result.into_iter().map(ends).collect()
}

/// GPUs of a rental: on average over hours and states, and the most.
type MeanAndMost = (f64, f64);

/// The GPUs of each on-demand offer, and of each spot offer.
fn used(planned: &Planned) -> (Vec<MeanAndMost>, Vec<MeanAndMost>) {
    let supply = &planned.supply;
    let room = supply.committed_gpus(&planned.chosen.counts);
    let rents = HourRents::new(supply, peak(&planned.levels));
    let mut steady = vec![(0.0, 0.0f64); supply.on_demand.len()];
    let mut spot = vec![(0.0, 0.0f64); supply.spot.len()];
    let hours: f64 = planned.levels.iter().map(|level| level.hours).sum();
    for level in &planned.levels {
        for (at, state) in supply.states.iter().enumerate() {
            let fill = rents.fill(level.need, room, at);
            let weight = level.hours * state.weight / hours.max(1.0);
            let add = |into: &mut [(f64, f64)], gpus: &[f64]| {
                for (sum, gpus) in into.iter_mut().zip(gpus) {
                    *sum = (sum.0 + weight * gpus, sum.1.max(*gpus));
                }
            };
            add(&mut steady, &fill.on_demand);
            add(&mut spot, &fill.spot);
        }
    }
    (steady, spot)
}

/// The lines of a pool's mix: commitments that are made (in some draw), and what is rented at all.
fn rows(planned: &Planned, offers: &Offers, ends: &[(u32, u32)]) -> Vec<FleetMixRow> {
    let supply = &planned.supply;
    let offer = |name: &str| offers.instances.iter().find(|offer| offer.name == name);
    let whose = |name: &str| offer(name)?.whose();
    let instance_type = |name: &str| offer(name)?.instance_type.clone();
    let mut result = Vec::new();
    for (at, (of, count)) in supply.commitments.iter().zip(&planned.chosen.counts).enumerate() {
        let ends = ends.get(at).copied();
        if *count == 0 && ends.is_none_or(|(_, high)| high == 0) {
            continue;
        }
        let (how, months) = of.term.how();
        result.push(FleetMixRow {
            gpu: planned.gpu.clone(),
            offer: of.name.clone(),
            instance_type: instance_type(&of.name),
            zone: None,
            provider: whose(&of.name),
            how,
            months,
            count: Some(*count),
            low: ends.map(|ends| ends.0),
            high: ends.map(|ends| ends.1),
            mean_instances: f64::from(*count),
            peak_instances: f64::from(*count),
            gpus_per_instance: of.gpus,
            price_per_h: of.listed,
            overhead: 1.0,
            cost_per_month: f64::from(*count) * of.per_h * MONTH_H,
        });
    }
    let (steady, spot) = used(planned);
    let rented = |of: &Rental, (mean, peak): (f64, f64), how: BoughtAs| FleetMixRow {
        gpu: planned.gpu.clone(),
        offer: of.name.clone(),
        instance_type: instance_type(&of.name),
        zone: of.zone.clone(),
        provider: whose(&of.name),
        how,
        months: None,
        count: None,
        low: None,
        high: None,
        mean_instances: mean / of.gpus,
        peak_instances: peak / of.gpus,
        gpus_per_instance: of.gpus,
        price_per_h: of.listed,
        overhead: of.overhead,
        cost_per_month: mean * of.per_gpu_h * MONTH_H,
    };
    let all = supply.on_demand.iter().zip(steady).map(|(of, used)| (of, used, BoughtAs::OnDemand));
    let all = all.chain(supply.spot.iter().zip(spot).map(|(of, used)| (of, used, BoughtAs::Spot)));
    result.extend(all.filter(|(_, used, _)| used.1 > 0.0).map(|(of, used, how)| rented(of, used, how)));
    result
}

/// From which use on each commitment of a pool is worth it.
fn break_even(planned: &Planned, offers: &Offers, pool: usize, options: &SupplyOptions) -> Vec<FleetBreakEven> {
    let supply =
        seen(FleetRule::Buying, offers, pool, &planned.demand, options).unwrap_or_else(|| planned.supply.clone());
    let steady = supply.on_demand.first().map_or(0.0, |rental| rental.per_gpu_h);
    let hours: f64 = planned.levels.iter().map(|level| level.hours).sum();
    let row = |of: &Commitment| {
        let utilisation = of.per_h / of.gpus / steady;
        let busy = |gpus: f64| {
            let at_least = planned.levels.iter().filter(|level| level.need.total >= gpus - 1e-9);
            at_least.map(|level| level.hours).sum::<f64>() / hours.max(1.0)
        };
        let pays = |count: &u32| {
            let share = busy(f64::from(*count) * of.gpus);
            share > 0.0 && share >= utilisation
        };
        let count = (1u32..).take_while(pays).last();
        let gpus = f64::from(count.unwrap_or(0)) * of.gpus;
        let served: f64 = planned.levels.iter().map(|level| level.need.total.min(gpus) * level.hours).sum();
        let (how, months) = of.term.how();
        FleetBreakEven {
            gpu: planned.gpu.clone(),
            offer: of.name.clone(),
            how,
            months,
            per_gpu_h: of.per_h / of.gpus,
            on_demand_per_gpu_h: steady,
            utilisation,
            gpus_above: gpus,
            used: (gpus > 0.0).then(|| served / (gpus * hours.max(1.0))),
        }
    };
    supply.commitments.iter().map(row).collect()
}

/// The mix under other prices and other demand.
fn sensitivity(planned: &[Planned]) -> Vec<FleetSensitivity> {
    type Change = fn(&mut PoolSupply, f64);
    let reserved: Change = |supply, by| supply.commitments.iter_mut().for_each(|of| of.per_h *= by);
    let steady: Change = |supply, by| supply.on_demand.iter_mut().for_each(|of| of.per_gpu_h *= by);
    let spot: Change = |supply, by| supply.spot.iter_mut().for_each(|of| of.per_gpu_h *= by);
    let gone: Change = |supply, _| *supply = supply.without_spot();
    let same: Change = |_, _| ();
    let has_spot = planned.iter().any(|of| !of.supply.spot.is_empty());
    let mut changes: Vec<(&str, Change, f64, f64)> = vec![
        ("reserved 20 % cheaper", reserved, 0.8, 1.0),
        ("reserved 20 % dearer", reserved, 1.2, 1.0),
        ("on-demand 20 % cheaper", steady, 0.8, 1.0),
        ("on-demand 20 % dearer", steady, 1.2, 1.0),
    ];
    if has_spot {
        changes.extend([
            ("spot at half the price", spot, 0.5, 1.0),
            ("spot at twice the price", spot, 2.0, 1.0),
            ("no spot", gone, 0.0, 1.0),
        ]);
    }
    changes.extend([
        ("0.8 times the demand", same, 1.0, 0.8),
        ("1.25 times the demand", same, 1.0, 1.25),
        ("1.5 times the demand", same, 1.0, 1.5),
    ]);
    let row = |(what, change, by, demand): (&str, Change, f64, f64)| {
        let mut result = FleetSensitivity {
            what: what.to_owned(),
            committed_gpus: 0.0,
            cost_per_month: 0.0,
            kept_cost_per_month: 0.0,
            on_demand_per_month: 0.0,
        };
        for of in planned {
            let mut supply = of.supply.clone();
            change(&mut supply, by);
            let needs: Vec<HourDemand> = of.demand.hours.iter().map(|hour| hour.times(demand)).collect();
            let levels = levels(&supply, needs.iter().copied());
            let counts = solve(&supply, &levels).counts;
            let month = MONTH_H / needs.len().max(1) as f64;
            let cost = |spent: Spent| spent.cost() * month;
            result.committed_gpus += supply.committed_gpus(&counts);
            result.cost_per_month += cost(bill(&supply, &needs, &counts));
            result.kept_cost_per_month += cost(bill(&supply, &needs, &of.chosen.counts));
            result.on_demand_per_month += cost(bill(&supply.without_spot(), &needs, &vec![0; counts.len()]));
        }
        result
    };
    changes.into_par_iter().map(row).collect()
}

/// The loss of each zone's spot at the worst moment.
fn stressed(
    planned: &[Planned],
    offers: &Offers,
    request: &FleetRequest,
    name: &dyn Fn(usize) -> String,
) -> Vec<ZoneLoss> {
    let lost_h = |rental: &Rental| {
        let offer = offers.instances.iter().find(|offer| offer.name == rental.name);
        let every = offer.and_then(|offer| offer.spot.as_ref()?.interrupted_every_s);
        // Half of an interval where one is written down, and the time to start again.
        (every.map_or(0.0, |every| request.costs.daly_s(every) / 2.0) + request.costs.restart_s) / 3600.0
    };
    let served: Vec<ServedPool<'_>> = planned
        .iter()
        .map(|of| ServedPool {
            supply: &of.supply,
            hours: &of.demand.hours,
            counts: &of.chosen.counts,
            lost_h: of.supply.spot.iter().map(lost_h).collect(),
        })
        .collect();
    stress(&served, request.stress_hours, name)
}

/// How many GPUs are needed for which share of the hours.
fn curve(planned: &Planned) -> LoadCurve {
    let of = |need: fn(&HourDemand) -> f64| {
        let mut needs: Vec<f64> = planned.demand.hours.iter().map(need).collect();
        needs.sort_unstable_by(|a, b| b.total_cmp(a));
        let at = |point: usize| {
            let share = point as f64 / POINTS as f64;
            Some((share, rank::closest_sorted(&needs, share)?))
        };
        (0..=POINTS).filter_map(at).collect()
    };
    LoadCurve {
        gpu: planned.gpu.clone(),
        points: of(|hour| hour.total),
        firm: of(|hour| hour.firm),
        committed: planned.supply.committed_gpus(&planned.chosen.counts),
    }
}
