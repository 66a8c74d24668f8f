//! What to do from the end of the data on in a job over several zones: what to hold now, and where to go when it is lost.
//!
//! The policy is asked at the tick after the last, with zones as they were last seen, with all of them up, and with none; where zones are [probed](crate::cloud::zones::probe), they are at that tick. Then the zones that it takes are
//! lost one after another, the checkpoint in the region of the first: that is the order in which to try them. It may hold on before it takes the next, until that has shown that it lasts; it is followed for `FOLLOWED_MS`. O(zones × programme).
//!
//! Worked example: with all up it takes `us-west-2b`; without that `us-west-2a`; without both it goes to `us-east-2a`, and without that it waits.

use schemars::JsonSchema;
use serde::Serialize;

use crate::cloud::job::{DeadlineJob, FromNow, Holding};
use crate::cloud::policy::CloudPolicy;
use crate::cloud::zones::learned::learned_zones;
use crate::cloud::zones::market::{Market, ZoneHolding, travel};
use crate::cloud::zones::zones_pilot;

/// For how long it is seen which zone a policy takes next, milliseconds.
const FOLLOWED_MS: i64 = 6 * 3_600_000;

/// A zone of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PlannedZone {
    /// Name of the zone.
    pub zone: String,
    /// Region of the zone.
    pub region: String,
    /// Whether spot could be had in the last tick.
    pub last_up: bool,
    /// Share of the ticks with enough instances.
    pub up_share: f64,
    /// Dollars an hour of spot in the last tick, if known.
    pub spot_usd_per_h: Option<f64>,
    /// Dollars an hour of on-demand.
    pub on_demand_usd_per_h: f64,
}

/// What to do over several zones.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ZonesNow {
    /// What to hold now, with zones as they were last seen.
    pub hold: Holding,
    /// Zone to hold it in.
    pub zone: Option<String>,
    /// Zones to take on spot, in order: each where those before it cannot be had or are lost.
    pub order: Vec<String>,
    /// What to do where none of them can be had.
    pub then: Holding,
    /// Where on-demand is begun.
    pub on_demand_zone: String,
    /// All zones.
    pub zones: Vec<PlannedZone>,
}

fn holding(held: ZoneHolding) -> Holding {
    match held {
        ZoneHolding::Idle => Holding::Idle,
        ZoneHolding::Spot(_) => Holding::Spot,
        ZoneHolding::OnDemand(_) => Holding::OnDemand,
    }
}

/// What a policy does after the last tick of a market.
pub(in crate::cloud) fn zones_from_now(market: &Market, policy: CloudPolicy, job: &DeadlineJob) -> (FromNow, ZonesNow) {
    let places = &market.places;
    let (start, zones, tick_ms) = (market.ticks, places.names.len(), places.tick_ms);
    let last: Vec<bool> = (0..zones).map(|zone| market.sight(start.saturating_sub(1)).has(zone)).collect();
    let learned = learned_zones(market, start, job.ticks(tick_ms));
    let request = |ticks: &[Vec<bool>]| -> Vec<ZoneHolding> {
        let market = market.followed_by(ticks);
        let mut pilot = zones_pilot(policy, &market, &learned, start, job);
        let mut held = Vec::new();
        travel(pilot.as_mut(), &market, start, job, &mut |of| held.push(of));
        held
    };
    let followed = usize::try_from(FOLLOWED_MS / tick_ms.max(1)).unwrap_or(1).max(1);
    let first = |up: &[bool]| request(&[up.to_vec()]).first().copied().unwrap_or(ZoneHolding::Idle);
    let now = first(&last);
    let (all, none) = (vec![true; zones], vec![false; zones]);
    let (mut order, mut then) = (Vec::new(), holding(first(&none)));
    if let ZoneHolding::Spot(zone) = first(&all) {
        order.push(zone);
        let mut left = all.clone();
        while let Some(lost) = order.last().copied() {
            if let Some(up) = left.get_mut(lost) {
                *up = false;
            }
            let ticks: Vec<Vec<bool>> =
                std::iter::once(all.clone()).chain(std::iter::repeat_n(left.clone(), followed)).collect();
            let held = request(&ticks);
            let after = held.get(1..held.len().min(ticks.len())).unwrap_or_default();
            let next = after.iter().find_map(|of| match of {
                ZoneHolding::Spot(next) if !order.contains(next) => Some(*next),
                _ => None,
            });
            match (next, after.first()) {
                (Some(next), _) => order.push(next),
                (None, Some(held)) => {
                    then = holding(*held);
                    break;
                }
                (None, None) => break,
            }
        }
    }
    let waits = |held: &[ZoneHolding]| {
        (held.iter().take_while(|of| **of == ZoneHolding::Idle).count() as i64 * tick_ms) as f64 / 1e3
    };
    let name = |zone: usize| places.names.get(zone).cloned().unwrap_or_default();
    let spare = (job.spare_ms() - job.changeover_ms) / tick_ms.max(1);
    let result = FromNow {
        if_up: holding(first(&all)),
        if_down: holding(first(&none)),
        last_up: last.iter().any(|up| *up),
        wait_at_most_s: waits(&request(&[])),
        latest_on_demand_s: (spare.max(0) * tick_ms) as f64 / 1e3,
    };
    let sight = market.sight(start.saturating_sub(1));
    let planned = (0..zones).map(|zone| {
        let up = market.of_zone(zone, start);
        PlannedZone {
            zone: name(zone),
            region: places.region.get(zone).and_then(|at| places.regions.get(*at)).cloned().unwrap_or_default(),
            last_up: sight.has(zone),
            up_share: up.iter().filter(|up| **up).count() as f64 / up.len().max(1) as f64,
            spot_usd_per_h: Some(sight.costs(zone)).filter(|price| price.is_finite()),
            on_demand_usd_per_h: places.on_demand.get(zone).copied().unwrap_or(0.0),
        }
    });
    let zones_now = ZonesNow {
        hold: holding(now),
        zone: now.zone().map(name),
        order: order.into_iter().map(name).collect(),
        then,
        on_demand_zone: name(
            places.cheapest(now.zone().and_then(|zone| places.region.get(zone).copied()), job.work_ms),
        ),
        zones: planned.collect(),
    };
    (result, zones_now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloud::zones::market::tests::places;

    const HOUR: i64 = 3_600_000;

    /// Three zones that are nearly always up, the dearest alone in its region: the cheaper two come first, on-demand where it is cheapest.
    #[test]
    fn zones_are_taken_by_what_they_cost() {
        let rows: Vec<(Vec<bool>, Vec<f64>)> = (0..900usize)
            .map(|tick| (vec![tick % 50 != 3, tick % 50 != 20, tick % 50 != 40], vec![1.5, 1.0, 1.1]))
            .collect();
        let market = Market::from_rows(places(&[0, 1, 1], &[3.0, 3.2, 3.2], 1.0, HOUR), &rows);
        let job = DeadlineJob { work_ms: 40 * HOUR, deadline_ms: 60 * HOUR, changeover_ms: HOUR / 5, price_ratio: 3.0 };
        let (now, zones) = zones_from_now(&market, CloudPolicy::SemiMarkov, &job);
        assert_eq!((zones.hold, zones.zone.as_deref()), (Holding::Spot, Some("11")));
        assert_eq!(zones.order.first().map(String::as_str), Some("11"));
        // Without it the job takes the next, or waits, as an outage has never lasted longer than a tick.
        assert!(zones.order.len() > 1 || zones.then == Holding::Idle, "{zones:?}");
        assert_eq!((now.if_up, now.last_up), (Holding::Spot, true));
        // 20 h are spare, a fifth of an hour of which on-demand needs.
        assert!((now.latest_on_demand_s - 19.0 * 3600.0).abs() < 1e-9);
        let (_, all) = zones_from_now(&market, CloudPolicy::OnDemand, &job);
        assert_eq!((all.hold, all.zone.as_deref(), all.order.len()), (Holding::OnDemand, Some("00"), 0));
    }
}
