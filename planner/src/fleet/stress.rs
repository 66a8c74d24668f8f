//! Every spot instance of a zone gone for some hours, at the worst moment.
//!
//! Interruptions come together: a zone runs out for all. So the hours of the record are served with the mix, and again with no spot of one zone for some hours from
//! each hour on. What could run on spot runs on demand meanwhile, or on the spot of other zones, or waits where limits leave no room. The work since the last
//! checkpoint is done again at the price of a GPU on demand: half of Daly's interval and a restart for each GPU that was on that zone's spot when it went. The worst moment is the one that costs most.
//!
//! O(hours × zones). Worked example: 8 GPUs on spot at 1 an hour go for 2 hours, on-demand costs 3: 32 more for those hours. With a checkpoint every 2 hours and a restart
//! of 10 minutes, 8 × (1 + 1/6) = 9.33 GPU-hours are lost and done again on demand, for 28.

use schemars::JsonSchema;
use serde::Serialize;

use crate::market::demand::HourDemand;
use crate::market::rent::HourRents;
use crate::market::supply::{PoolSupply, SpotState};

/// A pool as it is served.
#[derive(Debug, Clone)]
pub struct ServedPool<'a> {
    /// What serves it.
    pub supply: &'a PoolSupply,
    /// Need, hour by hour.
    pub hours: &'a [HourDemand],
    /// Commitments.
    pub counts: &'a [u32],
    /// Work that is lost with each GPU of spot, GPU-hours; one figure for each spot offer.
    pub lost_h: Vec<f64>,
}

/// Effect of the loss of a zone.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ZoneLoss {
    /// The zone; none where offers name none.
    pub zone: Option<String>,
    /// For how long its spot is gone, hours.
    pub hours: u32,
    /// When that costs most.
    pub from: String,
    /// GPUs on its spot when it goes, whole instances.
    pub gpus: f64,
    /// GPU-hours that run elsewhere.
    pub moved_gpu_hours: f64,
    /// GPU-hours that are lost and done again.
    pub lost_gpu_hours: f64,
    /// GPU-hours that wait, as there is no room for them.
    pub waiting_gpu_hours: f64,
    /// What it costs beyond the same hours with all spot.
    pub extra_cost: f64,
}

/// What one hour is when a zone's spot goes in it.
#[derive(Debug, Clone, Copy, Default)]
struct HourLoss {
    gpus: f64,
    extra: f64,
    waiting: f64,
    lost: f64,
    again: f64,
}

/// The worst hour for each zone whose spot is used, with what its loss does. `name` says the moment of a position.
pub fn stress(pools: &[ServedPool<'_>], hours: u32, name: &dyn Fn(usize) -> String) -> Vec<ZoneLoss> {
    let mut zones: Vec<Option<&str>> = Vec::new();
    for rental in pools.iter().flat_map(|pool| &pool.supply.spot) {
        if !zones.contains(&rental.zone.as_deref()) {
            zones.push(rental.zone.as_deref());
        }
    }
    // A zone whose spot is never used loses nothing.
    zones.into_iter().filter_map(|zone| worst(pools, zone, hours, name)).filter(|loss| loss.gpus > 0.0).collect()
}

fn worst(pools: &[ServedPool<'_>], zone: Option<&str>, hours: u32, name: &dyn Fn(usize) -> String) -> Option<ZoneLoss> {
    let count = pools.iter().map(|pool| pool.hours.len()).max().unwrap_or(0);
    let mut losses = vec![HourLoss::default(); count];
    for pool in pools {
        add(pool, zone, &mut losses);
    }
    let length = (hours as usize).max(1);
    let sum = |from: usize, of: fn(&HourLoss) -> f64| losses.iter().skip(from).take(length).map(of).sum::<f64>();
    let total = |from: usize| sum(from, |hour| hour.extra) + losses.get(from).map_or(0.0, |hour| hour.again);
    // What waits comes first: it is worse than what costs.
    let key = |from: usize| (sum(from, |hour| hour.waiting), total(from));
    let result = (0..count).max_by(|a, b| {
        let (one, two) = (key(*a), key(*b));
        one.0.total_cmp(&two.0).then(one.1.total_cmp(&two.1)).then(b.cmp(a))
    })?;
    let at = losses.get(result)?;
    Some(ZoneLoss {
        zone: zone.map(str::to_owned),
        hours,
        from: name(result),
        gpus: at.gpus,
        moved_gpu_hours: sum(result, |hour| hour.gpus) - sum(result, |hour| hour.waiting),
        lost_gpu_hours: at.lost,
        waiting_gpu_hours: sum(result, |hour| hour.waiting),
        extra_cost: total(result),
    })
}

/// Adds what the loss of a zone does to a pool, hour by hour.
fn add(pool: &ServedPool<'_>, zone: Option<&str>, losses: &mut [HourLoss]) {
    let of_zone = |at: usize| pool.supply.spot.get(at).is_some_and(|rental| rental.zone.as_deref() == zone);
    let state = |shares: Vec<f64>| SpotState { weight: 1.0, shares };
    let spot = pool.supply.spot.len();
    let states = vec![state(vec![1.0; spot]), state((0..spot).map(|at| f64::from(!of_zone(at))).collect())];
    let (full, gone) = (0, 1);
    let supply = PoolSupply { states, ..pool.supply.clone() };
    let rents = HourRents::new(&supply, HourDemand::most(pool.hours));
    let room = pool.supply.committed_gpus(pool.counts);
    let again = pool.supply.on_demand.first().map_or(0.0, |rental| rental.per_gpu_h);
    for (need, loss) in pool.hours.iter().zip(losses) {
        let need = pool.supply.rounded(*need);
        let (with, without) = (rents.fill(need, room, full), rents.fill(need, room, gone));
        let on_zone: Vec<f64> =
            with.spot.iter().enumerate().map(|(at, gpus)| if of_zone(at) { *gpus } else { 0.0 }).collect();
        let lost: f64 = on_zone.iter().zip(&pool.lost_h).map(|(gpus, lost)| gpus * lost).sum();
        loss.gpus += on_zone.iter().sum::<f64>();
        loss.extra += without.cost - with.cost;
        loss.waiting += without.waiting - with.waiting;
        loss.lost += lost;
        loss.again += lost * again;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::market::supply::tests::simple;

    #[test]
    fn the_worked_example() {
        let mut supply = simple(2.0, 3.0, Some((1.0, 1.0)));
        let need = |total: f64| HourDemand::new(0.0, total);
        let hours = [need(2.0), need(8.0), need(8.0), need(1.0)];
        let told = |supply: &PoolSupply| {
            let pool = ServedPool { supply, hours: &hours, counts: &[0], lost_h: vec![1.0 + 1.0 / 6.0] };
            stress(&[pool], 2, &|at| format!("hour {at}")).remove(0)
        };
        let loss = told(&supply);
        assert_eq!((loss.from.as_str(), loss.gpus, loss.moved_gpu_hours), ("hour 1", 8.0, 16.0));
        assert!((loss.lost_gpu_hours - 28.0 / 3.0).abs() < 1e-9 && (loss.extra_cost - 60.0).abs() < 1e-9, "{loss:?}");
        // With room for five on demand, three wait in each of the two hours.
        supply.on_demand[0].limit = 5.0;
        let loss = told(&supply);
        assert_eq!((loss.waiting_gpu_hours, loss.moved_gpu_hours), (6.0, 10.0));
        assert!((loss.extra_cost - (5.0 * 3.0 - 8.0) * 2.0 - 28.0).abs() < 1e-9, "{loss:?}");
    }
}
