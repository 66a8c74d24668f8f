//! One job with a deadline over several zones: the contract that every policy over zones, the programme and the optimum keep to.
//!
//! It is the contract of [one zone](crate::cloud::job) with places and dollars. At the beginning of a tick the job sees in which zones spot can be had, and what it costs
//! there in this tick. It then holds one thing for the tick ([`ZoneHolding`]): nothing, a spot instance in a zone that has it, or an on-demand instance in any zone.
//! Whoever takes another instance than the one held pays a changeover, in which the work stands still, wherever the instance is. The **checkpoint** lies in
//! the region in which an instance was begun last. To begin in another region moves it there, and costs the **egress**: its size times a price per gigabyte.
//! The first instance has nothing to move. Moving within a region is free, and the time it takes is in the changeover.
//!
//! **Safety net**, exact to the tick. Let w be the work left, L the time left, d the changeover and g the tick. What is held stays *safe* if after this tick
//! on-demand, begun at the next, still makes the deadline: w′ + d ≤ L − g, or, on-demand, if what is left of its changeover and of the work fits L. A choice that is
//! not safe is replaced: on-demand stays as it is, else it begins in the zone where it costs least, egress included. By induction no deadline is missed that
//! on-demand alone would make from the start. All times are in whole milliseconds.
//!
//! **Not all zones need be seen** ([`Market::probed`]): between [probes](crate::cloud::zones::probe) a zone shows itself only where the job holds a spot instance or tries to begin one. A try where there is no spot leaves the job with what it held for the tick, and the net begins on-demand unless
//! that is safe as well.
//!
//! O(ticks × zones). Worked example: 2 h of work, 4 h to the deadline, no changeover, ticks of 1 h, a checkpoint of 50 GB at 2 cents: egress 1 dollar. Zone a1 of
//! region a has spot for 1 dollar in hour 1, zone b1 of region b for 1 dollar in hour 2, and a1 again in hour 3. To take a1, wait and take a1 costs 2 dollars; to take
//! a1 and then b1 costs 3.

use crate::cloud::job::{DeadlineJob, JobRun};
use crate::cloud::zones::probe::{Lookout, Probes};
use crate::error::{Error, Result};
use crate::market::availability::SpotSeries;
use crate::market::zone::region_of;

/// Holding of a job over zones for a tick; zones by their position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZoneHolding {
    /// Nothing: it waits.
    Idle,
    /// A spot instance in a zone.
    Spot(usize),
    /// An on-demand instance in a zone.
    OnDemand(usize),
}

impl ZoneHolding {
    /// Zone of the instance, `None` if idle.
    pub fn zone(self) -> Option<usize> {
        match self {
            Self::Idle => None,
            Self::Spot(zone) | Self::OnDemand(zone) => Some(zone),
        }
    }
}

/// What does not change of the zones.
#[derive(Debug, Clone, PartialEq)]
pub struct Places {
    /// Names of the zones.
    pub names: Vec<String>,
    /// Region of each zone, by position.
    pub region: Vec<usize>,
    /// Names of the regions.
    pub regions: Vec<String>,
    /// Dollars an hour of on-demand in each zone.
    pub on_demand: Vec<f64>,
    /// Dollars that it costs to move the checkpoint to another region.
    pub egress: f64,
    /// Length of a tick, milliseconds.
    pub tick_ms: i64,
}

/// What a tick shows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sight<'a> {
    /// Whether spot can be had in each zone, as it was last seen.
    pub up: &'a [bool],
    /// Whether each zone was looked at in this tick; nothing where all were.
    pub now: Option<&'a [bool]>,
    /// Dollars an hour of spot in each zone.
    pub price: &'a [f64],
}

/// Zones with their spot, tick by tick.
#[derive(Debug, Clone, PartialEq)]
pub struct Market {
    /// What does not change.
    pub places: Places,
    /// Ticks.
    pub ticks: usize,
    /// When zones are looked at; nothing where they are at every tick.
    pub probes: Option<Probes>,
    /// Whether spot can be had, tick by tick and within a tick zone by zone.
    up: Vec<bool>,
    /// Dollars an hour of spot likewise.
    price: Vec<f64>,
}

fn wrong(series: &[SpotSeries], found: String, remedy: &'static str) -> Error {
    let file = series.iter().map(|zone| zone.name.as_str()).collect::<Vec<_>>().join(", ");
    Error::SpotTrace { file, found, remedy }
}

/// What each file says on-demand costs, where no zone has prices of spot and all files say it; else nothing, as a dollar beside a ratio compares nothing.
pub(in crate::cloud) fn listed_by_all(series: &[SpotSeries]) -> Vec<f64> {
    let of = |zone: &SpotSeries| if zone.price.is_none() { zone.list_price } else { None };
    series.iter().map(of).collect::<Option<Vec<f64>>>().unwrap_or_default()
}

/// Whether costs over zones are dollars that somebody pays: without prices a market counts in a unit of its own.
pub(in crate::cloud) fn is_paid_in_dollars(series: &[SpotSeries]) -> bool {
    series.iter().any(|zone| zone.price.is_some()) || !listed_by_all(series).is_empty()
}

impl Market {
    /// Of traces that begin at the same moment, cut to the shortest. Without prices of spot, on-demand costs what the files say if all say it, and spot that over
    /// `ratio`; else spot costs 1 dollar an hour and on-demand `ratio` dollars.
    ///
    /// # Errors
    /// If two are of one zone or of different instances, their ticks differ in length, or only some have prices.
    pub fn new(series: &[SpotSeries], need: u32, ratio: f64, egress: f64) -> Result<Self> {
        let Some(first) = series.first() else {
            return Err(Error::no_scenario("no trace is named; name at least one"));
        };
        if let Some(other) = series.iter().find(|zone| zone.tick_ms != first.tick_ms) {
            let result =
                format!("{} has ticks of {} ms, and {} of {} ms", first.name, first.tick_ms, other.name, other.tick_ms);
            return Err(wrong(
                series,
                result,
                "name traces of one series of samples, or tell the time between samples with --gap",
            ));
        }
        for (at, zone) in series.iter().enumerate() {
            if zone.zone.is_some() && series.iter().take(at).any(|other| other.zone == zone.zone) {
                let problem = format!("{} comes twice", zone.zone.as_deref().unwrap_or(""));
                return Err(wrong(series, problem, "name each zone once, by traces of the same time"));
            }
        }
        let known = |zone: &&SpotSeries| zone.instance.is_some();
        if let Some(first) = series.iter().find(known)
            && let Some(other) = series.iter().filter(known).find(|zone| zone.instance != first.instance)
        {
            let of = |zone: &SpotSeries| zone.instance.clone().unwrap_or_default();
            let problem = format!("{} is of {}, and {} of {}", first.name, of(first), other.name, of(other));
            return Err(wrong(
                &[first.clone(), other.clone()],
                problem,
                "one job runs on one kind of instance: name traces of the same accelerators and number",
            ));
        }
        let priced = series.iter().filter(|zone| zone.price.is_some()).count();
        if priced > 0 && priced < series.len() {
            let without: Vec<&str> =
                series.iter().filter(|zone| zone.price.is_none()).map(|zone| zone.name.as_str()).collect();
            let problem = format!("there are prices of some zones and not of {}", without.join(", "));
            return Err(wrong(
                series,
                problem,
                "give prices of all zones, with --prices FILE, or use none, with --prices none",
            ));
        }
        let (mut regions, mut region): (Vec<String>, Vec<usize>) = (Vec::new(), Vec::new());
        for zone in series {
            let name = zone.zone.as_deref().map_or(zone.name.as_str(), region_of);
            let at = regions.iter().position(|known| known == name).unwrap_or(regions.len());
            if at == regions.len() {
                regions.push(name.to_owned());
            }
            region.push(at);
        }
        let ticks = series.iter().map(|zone| zone.counts.len()).min().unwrap_or(0);
        let zones = series.len();
        let listed = listed_by_all(series);
        let (mut up, mut price) = (vec![false; ticks * zones], vec![1.0; ticks * zones]);
        for (at, zone) in series.iter().enumerate() {
            for (tick, is) in zone.up(need).into_iter().take(ticks).enumerate() {
                up[tick * zones + at] = is;
                match (&zone.price, listed.get(at)) {
                    (Some(known), _) => {
                        price[tick * zones + at] = known.spot.get(tick).copied().flatten().unwrap_or(f64::INFINITY);
                    }
                    (None, Some(on_demand)) => price[tick * zones + at] = on_demand / ratio,
                    (None, None) => {}
                }
            }
        }
        let on_demand = series
            .iter()
            .enumerate()
            .map(|(at, zone)| match &zone.price {
                Some(known) => known.on_demand_or(ratio).unwrap_or(ratio),
                None => listed.get(at).copied().unwrap_or(ratio),
            })
            .collect();
        let names = series.iter().map(|zone| zone.zone.clone().unwrap_or_else(|| zone.name.clone())).collect();
        let places = Places { names, region, regions, on_demand, egress, tick_ms: first.tick_ms };
        Ok(Self { places, ticks, probes: None, up, price })
    }

    /// With zones that are looked at by probes alone; nothing for all of them at every tick.
    #[must_use]
    pub fn probed(mut self, probes: Option<Probes>) -> Self {
        self.probes = probes;
        self
    }

    /// From rows of ticks, for tests.
    #[cfg(test)]
    pub(in crate::cloud) fn from_rows(places: Places, rows: &[(Vec<bool>, Vec<f64>)]) -> Self {
        Self {
            ticks: rows.len(),
            probes: None,
            up: rows.iter().flat_map(|(up, _)| up.clone()).collect(),
            price: rows.iter().flat_map(|(_, price)| price.clone()).collect(),
            places,
        }
    }

    /// With more ticks after its end, in which zones have spot as told, at their last prices.
    #[must_use]
    pub fn followed_by(&self, ticks: &[Vec<bool>]) -> Self {
        let last = self.sight(self.ticks.saturating_sub(1));
        let mut longer = self.clone();
        for up in ticks {
            longer.up.extend(
                (0..self.places.names.len())
                    .map(|zone| up.get(zone).copied().unwrap_or(false) && last.costs(zone).is_finite()),
            );
            longer.price.extend((0..self.places.names.len()).map(|zone| last.costs(zone)));
            longer.ticks += 1;
        }
        longer
    }

    /// What a tick shows to who looks at all zones; beyond the end, no spot.
    pub fn sight(&self, tick: usize) -> Sight<'_> {
        let zones = self.places.names.len();
        let of = tick * zones..(tick + 1) * zones;
        let (up, price) = (self.up.get(of.clone()), self.price.get(of));
        Sight { up: up.unwrap_or_default(), now: None, price: price.unwrap_or_default() }
    }

    /// Whether a tick was looked at by who waits for a job that begins at tick `start`.
    pub(in crate::cloud) fn saw(&self, tick: usize, start: usize) -> bool {
        self.probes.is_none_or(|probes| probes.saw(tick as i64 - start as i64, self.places.tick_ms))
    }

    /// Whether spot can be had in a zone, tick by tick, before `end`.
    pub fn of_zone(&self, zone: usize, end: usize) -> Vec<bool> {
        (0..end.min(self.ticks)).map(|tick| self.sight(tick).has(zone)).collect()
    }
}

impl Sight<'_> {
    /// Whether spot can be had in a zone, as it was last seen.
    pub fn has(&self, zone: usize) -> bool {
        self.up.get(zone).copied().unwrap_or(false)
    }

    /// Whether spot can be had in a zone; nothing where nobody looked in this tick.
    pub fn seen(&self, zone: usize) -> Option<bool> {
        let is_now = self.now.is_none_or(|now| now.get(zone).copied().unwrap_or(false));
        is_now.then(|| self.has(zone))
    }

    /// Dollars an hour of spot in a zone; infinite where unknown.
    pub fn costs(&self, zone: usize) -> f64 {
        self.price.get(zone).copied().unwrap_or(f64::INFINITY)
    }

    /// The zones that have spot, as they were last seen.
    pub fn zones(&self) -> impl Iterator<Item = usize> + '_ {
        self.up.iter().enumerate().filter(|(_, up)| **up).map(|(zone, _)| zone)
    }
}

impl Places {
    /// Dollars that it costs to begin in a zone with the checkpoint in region `at`.
    pub fn moves(&self, at: Option<usize>, zone: usize) -> f64 {
        let to = self.region.get(zone).copied();
        if at.is_none() || at == to { 0.0 } else { self.egress }
    }

    /// The zone in which on-demand for so long costs least, egress included; of equals the first.
    pub fn cheapest(&self, at: Option<usize>, ms: i64) -> usize {
        let cost = |zone: usize| {
            dollars(self.on_demand.get(zone).copied().unwrap_or(f64::INFINITY), ms) + self.moves(at, zone)
        };
        (0..self.names.len()).min_by(|a, b| cost(*a).total_cmp(&cost(*b))).unwrap_or(0)
    }

    /// Cost of a job on-demand from beginning to end in the zone cheapest for it, dollars.
    pub fn all_on_demand(&self, job: &DeadlineJob) -> f64 {
        let ms = job.work_ms + job.changeover_ms;
        dollars(self.on_demand.get(self.cheapest(None, ms)).copied().unwrap_or(f64::INFINITY), ms)
    }
}

/// Cost of a time at a price an hour.
pub fn dollars(usd_per_h: f64, ms: i64) -> f64 {
    usd_per_h * ms as f64 / 3.6e6
}

/// What a policy over zones sees at the beginning of a tick.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ZonesView<'a> {
    /// Time since the start, milliseconds.
    pub elapsed_ms: i64,
    /// Time to the deadline, milliseconds.
    pub left_ms: i64,
    /// Work left, milliseconds.
    pub work_ms: i64,
    /// Instance held from the tick before.
    pub held: ZoneHolding,
    /// Time left of its changeover, milliseconds.
    pub setup_ms: i64,
    /// Region of the checkpoint, if there is one.
    pub at: Option<usize>,
    /// The zone that was tried in the tick before, though nobody had looked there, and whether it had spot.
    pub tried: Option<(usize, bool)>,
    /// What the tick shows.
    pub sight: Sight<'a>,
    /// Length of the tick, milliseconds.
    pub tick_ms: i64,
}

impl ZonesView<'_> {
    /// Whether `wanted` leaves enough time for on-demand from the next tick on, and what is held does, if it stays where there is no spot after all.
    pub fn safe(&self, job: &DeadlineJob, wanted: ZoneHolding) -> bool {
        self.leaves_time(job, wanted) && (!self.is_try(wanted) || self.leaves_time(job, self.held))
    }

    /// Whether `wanted` is spot in a zone at which nobody looked in this tick.
    fn is_try(&self, wanted: ZoneHolding) -> bool {
        matches!(wanted, ZoneHolding::Spot(zone) if self.sight.seen(zone).is_none())
    }

    fn leaves_time(&self, job: &DeadlineJob, wanted: ZoneHolding) -> bool {
        let setup = if wanted == self.held { self.setup_ms } else { job.changeover_ms };
        match wanted {
            ZoneHolding::OnDemand(_) => self.work_ms + setup <= self.left_ms,
            ZoneHolding::Idle => self.work_ms + job.changeover_ms <= self.left_ms - self.tick_ms,
            ZoneHolding::Spot(_) if setup + self.work_ms <= self.tick_ms => setup + self.work_ms <= self.left_ms,
            ZoneHolding::Spot(_) => {
                let done = (self.tick_ms - setup).max(0);
                self.work_ms - done + job.changeover_ms <= self.left_ms - self.tick_ms
            }
        }
    }
}

/// A policy over zones: it is asked once a tick, in order, and sees nothing of the future.
pub trait ZonesPilot {
    /// What to hold for the tick that begins. Spot where there is none counts as waiting, or, where nobody looked, as what is held.
    fn hold(&mut self, job: &DeadlineJob, places: &Places, view: &ZonesView<'_>) -> ZoneHolding;

    /// Whether it asks zones for spot, and so pays for probes.
    fn asks(&self) -> bool {
        true
    }
}

/// Runs a job over the zones from tick `start` on, under a policy and the safety net. Its costs are dollars. `seen` is told what each tick held.
pub fn travel(
    pilot: &mut dyn ZonesPilot,
    market: &Market,
    start: usize,
    job: &DeadlineJob,
    seen: &mut dyn FnMut(ZoneHolding),
) -> JobRun {
    walk(pilot, market, start, job, true, seen)
}

/// A policy that holds what a list says, tick by tick, and then waits.
#[derive(Debug, Clone)]
pub(in crate::cloud) struct Listed {
    list: std::vec::IntoIter<ZoneHolding>,
    asks: bool,
}

impl Listed {
    /// Creates a policy from a list of holdings; `asks` if its holder asked zones for spot.
    pub(in crate::cloud) fn new(list: Vec<ZoneHolding>, asks: bool) -> Self {
        Self { list: list.into_iter(), asks }
    }

    /// How much of the list is left.
    #[cfg(test)]
    pub(in crate::cloud) fn left(&self) -> usize {
        self.list.len()
    }
}

impl ZonesPilot for Listed {
    fn hold(&mut self, _: &DeadlineJob, _: &Places, _: &ZonesView<'_>) -> ZoneHolding {
        self.list.next().unwrap_or(ZoneHolding::Idle)
    }

    fn asks(&self) -> bool {
        self.asks
    }
}

/// Runs a job as [`travel`] does, without the safety net: for decisions known to be safe, or made
/// with all known.
pub(in crate::cloud) fn travel_without_net(
    pilot: &mut dyn ZonesPilot,
    market: &Market,
    start: usize,
    job: &DeadlineJob,
) -> JobRun {
    walk(pilot, market, start, job, false, &mut |_| ())
}

fn walk(
    pilot: &mut dyn ZonesPilot,
    market: &Market,
    start: usize,
    job: &DeadlineJob,
    net: bool,
    seen: &mut dyn FnMut(ZoneHolding),
) -> JobRun {
    let mut run = JobRun::default();
    let (places, tick_ms) = (&market.places, market.places.tick_ms);
    let mut lookout = market.probes.map(|probes| (probes, Lookout::new(probes, places.names.len(), tick_ms)));
    let (mut work_ms, mut setup_ms, mut held, mut at, mut tried) = (job.work_ms, 0, ZoneHolding::Idle, None, None);
    for tick in 0..job.ticks(tick_ms) {
        let elapsed_ms = tick as i64 * tick_ms;
        let left_ms = job.deadline_ms - elapsed_ms;
        let truth = market.sight(start + tick);
        let on_spot = if let ZoneHolding::Spot(zone) = held { Some(zone) } else { None };
        if let Some((probes, lookout)) = &mut lookout
            && lookout.look(tick as i64, truth.up, on_spot)
            && pilot.asks()
        {
            let asked = (0..places.names.len()).filter(|zone| on_spot != Some(*zone));
            for zone in asked {
                run.asked += 1;
                if truth.has(zone) && probes.bill_ms > 0 {
                    run.cost += dollars(truth.costs(zone), probes.bill_ms);
                    run.probed_ms += probes.bill_ms;
                }
            }
        }
        if on_spot.is_some_and(|zone| !truth.has(zone)) {
            (held, setup_ms) = (ZoneHolding::Idle, 0);
            run.lost += 1;
        }
        let sight = match &lookout {
            Some((_, lookout)) => Sight { up: lookout.seen().0, now: Some(lookout.seen().1), ..truth },
            None => truth,
        };
        let view = ZonesView { elapsed_ms, left_ms, work_ms, held, setup_ms, at, tried, sight, tick_ms };
        let mut next = pilot.hold(job, places, &view);
        let can = match next {
            ZoneHolding::Idle => true,
            ZoneHolding::Spot(zone) => zone < places.names.len() && sight.seen(zone) != Some(false),
            ZoneHolding::OnDemand(zone) => zone < places.names.len(),
        };
        if !can {
            next = ZoneHolding::Idle;
        }
        if net && !view.safe(job, next) {
            next = match held {
                ZoneHolding::OnDemand(_) => held,
                _ => ZoneHolding::OnDemand(places.cheapest(at, work_ms + job.changeover_ms)),
            };
        }
        tried = None;
        if let ZoneHolding::Spot(zone) = next
            && view.is_try(next)
        {
            tried = Some((zone, truth.has(zone)));
            if !truth.has(zone) {
                next = held;
                run.failed += 1;
            }
        }
        if let (Some((zone, up)), Some((_, lookout))) = (tried, &mut lookout) {
            lookout.tried(zone, up);
        }
        if next != held {
            setup_ms = if next == ZoneHolding::Idle { 0 } else { job.changeover_ms };
            run.changeovers += usize::from(next != ZoneHolding::Idle);
            held = next;
            if let Some(zone) = next.zone() {
                run.cost += places.moves(at, zone);
                at = places.region.get(zone).copied();
            }
        }
        seen(held);
        let used = tick_ms.min(left_ms).min(setup_ms + work_ms);
        match held {
            ZoneHolding::Idle => continue,
            ZoneHolding::Spot(zone) => {
                run.spot_ms += used;
                run.cost += dollars(truth.costs(zone), used);
            }
            ZoneHolding::OnDemand(zone) => {
                run.on_demand_ms += used;
                run.cost += dollars(places.on_demand.get(zone).copied().unwrap_or(f64::INFINITY), used);
            }
        }
        let set_up = setup_ms.min(used);
        setup_ms -= set_up;
        work_ms -= used - set_up;
        if work_ms <= 0 {
            break;
        }
    }
    run.missed = work_ms > 0;
    run
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(in crate::cloud) mod tests;
