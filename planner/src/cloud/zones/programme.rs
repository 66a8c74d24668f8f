//! The semi-Markov programme over zones: what each zone would cost from here, given what was seen of it, and what the zones cost on average after that.
//!
//! What is known of the zones comes from `zones_learned`: [phases](tracecast_predictors::spot::phases), hours of the day and a belief of each. At each tick the
//! programme prices what can be done, in dollars. An instance of zone z is priced until it is lost, or the work is done: with S(j) the chance to be kept for j
//! steps, by the belief, p its price now and V what the [pool](crate::cloud::zones::pool) of zones costs after the loss,
//!
//! ```text
//! Q(z) = egress + Σ over j of  p·½[S(j) + S(j+1)]  +  [S(j) − S(j+1)]·V(work left then, spare time left then, z)
//! ```
//!
//! The instance held is priced in the same way without a changeover, so a job moves when another zone is cheaper by more than the changeover and the egress. Where
//! nothing is held, or on-demand, it also prices to hold on (`wait`) with that: until a cheaper zone comes up, or one that is up has shown that it lasts. What is cheapest is held for the tick, and all
//! is priced again at the next. What costs the same is won by work, on spot before on-demand: where spare time is worth nothing, the rounding of a table would wait.
//! The [safety net](crate::cloud::zones::market) makes the deadline exact.
//!
//! **Zones that are not seen at every tick** ([`probe`](crate::cloud::zones::probe)) have spot with chance q, by the belief, which follows the chances until they are seen again. They are tried one after another, a tick each, in the order of Q + r·(1 − q)/q, where r is what a tick costs in which a try fails; a zone that is seen has q = 1.
//! With Q(i) and q(i) in this order and E(n + 1) what there is to fall back on, what is held or the pool without spot, a try costs
//!
//! ```text
//! E(i) = q(i)·Q(i) + (1 − q(i))·(E(i + 1) + r)
//! ```
//!
//! To hold on until a zone comes up, or has shown that it lasts, is to hold on until a probe shows it. What the pool says is still of zones that are seen.
//! Worked example: a zone with q = 0.8 costs 10 dollars and one that is seen 11; with r = 0.1 the first is tried, as 10 + 0.1·0.2/0.8 = 10.025 is less than 11, and that costs 0.8·10 + 0.2·11.1 = 10.22.
//!
//! O(ticks × zones × steps of work). Worked number: 50 h of work in 100 h over nine zones and ticks of 195 s take about half a second. Worked example: a zone
//! that is never lost costs p·(work + changeover): with 2 h of work, 0.2 h of changeover and 1 dollar an hour, 2.2 dollars.

mod wait;

use tracecast_predictors::spot::factor::HOURS;

use crate::cloud::job::DeadlineJob;
use crate::cloud::zones::learned::{Learned, Record, ZonesLearned};
use crate::cloud::zones::market::{Places, ZoneHolding, ZonesPilot, ZonesView};
use crate::cloud::zones::pool::{IDLE, NEVER, ON_DEMAND, Pool, Standing};
use crate::cloud::zones::probe::Probes;
use tracecast_predictors::spot::phases::{Belief, PhaseMatrix, Phases};

/// A chance to be kept at which an instance counts as lost.
const GONE: f64 = 1e-4;
/// Hours over which what is seen now fades.
const HOLDS_H: f64 = 4.0;
/// Rounds in which zones are compared.
const ROUNDS: usize = 12;
/// By how many changeovers another zone must be cheaper than what is held, beyond what the move costs.
const MARGIN: f64 = 1.0;
/// Share of what the work would cost on-demand by which waiting must be cheaper than work, and on-demand than spot: more than the table of the pool rounds.
const TIE: f64 = 1e-6;

/// A chance to have spot at which a zone that is not seen is tried.
const LEAST_CHANCE: f64 = 0.01;

/// A zone as it stands, and how it moves on over a step in each hour of the day: chances, and chances to be kept.
#[derive(Debug, Clone)]
struct Zone {
    phases: Phases,
    belief: Belief,
    over: Vec<(PhaseMatrix, PhaseMatrix)>,
    price: f64,
}

impl Zone {
    fn step(chances: &PhaseMatrix, from: &[f64], to: &mut [f64]) {
        to.fill(0.0);
        for (chance, row) in from.iter().zip(chances) {
            if *chance > 0.0 {
                to.iter_mut().zip(row).for_each(|(sum, onward)| *sum += chance * onward);
            }
        }
    }

    /// The chance that it has spot, and the belief if it has.
    fn if_up(&self) -> (f64, Vec<f64>) {
        let ups = self.phases.of(true);
        let chance: f64 = self.belief.0.get(ups.clone()).unwrap_or_default().iter().sum();
        let of = |phase: usize| if ups.contains(&phase) { self.belief.0[phase] / chance } else { 0.0 };
        (chance, (0..self.belief.0.len()).map(of).collect())
    }
}

/// A programme, as it was learned at one tick of the job.
#[derive(Debug, Clone)]
struct Fit {
    from: usize,
    zones: Vec<Zone>,
    pool: Pool,
    /// When zones are looked at; nothing where they are at every tick.
    probes: Option<Probes>,
}

/// The programme as a policy.
#[derive(Debug, Clone)]
pub struct ZonesProgramme {
    fits: Vec<Fit>,
    fit: usize,
    tick: usize,
    /// What it has seen, where that is not all.
    record: Option<Record>,
    /// Milliseconds from the first tick of the traces to the start of the job.
    start_ms: i64,
}

/// Where a job is, in steps.
#[derive(Debug, Clone, Copy)]
struct Place {
    work: f64,
    spare: f64,
    /// Milliseconds since the first tick of the traces.
    at_ms: i64,
    /// Milliseconds since the start of the job.
    since_ms: i64,
}

impl ZonesProgramme {
    /// For a job that begins at tick `start`.
    pub(in crate::cloud) fn new(places: &Places, learned: &ZonesLearned, start: usize, job: &DeadlineJob) -> Self {
        let fits = learned.fits.iter().filter(|of| of.from < job.ticks(places.tick_ms));
        let probes = learned.record.as_ref().map(|record| record.probes);
        Self {
            fits: fits.map(|of| Fit::of(places, of, job, probes)).collect(),
            fit: 0,
            tick: 0,
            record: learned.record.clone(),
            start_ms: start as i64 * places.tick_ms,
        }
    }

    /// Takes in what was seen since the last tick, and what this one shows; fits anew where it is time to.
    fn see(&mut self, job: &DeadlineJob, places: &Places, view: &ZonesView<'_>) {
        if let Some((zone, up)) = view.tried
            && let Some(of) = self.fits.get_mut(self.fit).and_then(|fit| fit.zones.get_mut(zone))
        {
            of.phases.show(&mut of.belief, up);
        }
        if let Some(record) = &mut self.record {
            if let Some((zone, up)) = view.tried {
                record.tried(zone, up);
            }
            if record.is_due(self.tick)
                && let Some(fit) = self.fits.last()
            {
                let phases: Vec<&Phases> = fit.zones.iter().map(|zone| &zone.phases).collect();
                let price = (0..fit.zones.len()).map(|zone| view.sight.costs(zone)).collect();
                let learned = record.learned(self.tick, Some(phases.as_slice()), price);
                self.fits.push(Fit::of(places, &learned, job, Some(record.probes)));
            }
            record.see(|zone| view.sight.seen(zone));
        }
        if self.fits.get(self.fit + 1).is_some_and(|next| next.from <= self.tick) {
            self.fit += 1;
        }
        self.tick += 1;
        let Some(fit) = self.fits.get_mut(self.fit) else { return };
        for (zone, of) in fit.zones.iter_mut().enumerate() {
            of.phases.see(&mut of.belief, view.sight.seen(zone));
            let price = view.sight.costs(zone);
            if price.is_finite() {
                of.price = price;
            }
        }
    }
}

/// A zone that has spot now, or may have.
#[derive(Debug, Clone)]
struct Offer {
    zone: usize,
    /// Whether that is seen.
    is_seen: bool,
    /// The chance of it, 1 where it is seen.
    chance: f64,
    /// The belief of the zone if it has.
    belief: Vec<f64>,
    /// What is known of an instance begun there.
    begun: Begun,
    /// Cost of beginning there, without egress, with average zones after a loss.
    cost: f64,
    /// The chance that it is lost while what is now still holds.
    soon: f64,
    /// Dollars by which it is worse than an average zone, what follows a loss included.
    worse: f64,
}

/// An instance begun in a zone, phase by phase of its spot: what it costs, without egress, with average zones after a loss, and the chance that it is lost while what
/// is now still holds. Nothing in the phases of no spot.
#[derive(Debug, Clone)]
struct Begun(Vec<(f64, f64)>);

impl Begun {
    /// Cost and chance of loss under a belief, which need not sum to 1.
    fn of(&self, belief: &[f64]) -> (f64, f64) {
        let each = self.0.iter().zip(belief);
        each.fold((0.0, 0.0), |(cost, soon), ((of, lost), chance)| (cost + chance * of, soon + chance * lost))
    }
}

/// By how much the zone that one would go to from `from` is worse than an average one: the best that has spot.
fn worse(places: &Places, offers: &[Offer], from: usize) -> f64 {
    let at = places.region.get(from).copied();
    let each = offers.iter().map(|of| (of.worse + places.moves(at, of.zone), of.chance));
    if offers.iter().all(|of| of.is_seen) {
        let best = each.map(|(worse, _)| worse).fold(f64::INFINITY, f64::min);
        return if best.is_finite() { best.max(0.0) } else { 0.0 };
    }
    let mut each: Vec<(f64, f64)> = each.collect();
    each.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut expected, mut none) = (0.0, 1.0);
    for (worse, chance) in each {
        expected += none * chance * worse;
        none *= 1.0 - chance;
        if none <= 0.0 {
            break;
        }
    }
    expected.max(0.0)
}

/// An instance that can be begun, or tried.
#[derive(Debug, Clone, Copy)]
struct Way {
    zone: usize,
    is_seen: bool,
    chance: f64,
    /// Cost of the offer, if there is one.
    cost: f64,
    /// By what it is put in order: that, and what tries cost that fail before one does not.
    order: f64,
}

/// The first way to try, and what the tries cost one after another, until one is sure or there is only `rest` to fall back on; nothing where no way is better than that. A try that fails costs `failed` more.
fn tries(ways: &[Way], rest: f64, failed: f64) -> Option<(usize, f64)> {
    let mut cost = rest;
    let better = |way: &&Way| way.is_seen || way.order < rest;
    let until_sure = ways.iter().position(|way| way.is_seen).map_or(ways.len(), |sure| sure + 1);
    let tried: Vec<&Way> = ways.iter().take(until_sure).filter(better).collect();
    for way in tried.iter().rev() {
        cost = if way.is_seen { way.cost } else { way.chance * way.cost + (1.0 - way.chance) * (cost + failed) };
    }
    tried.first().map(|way| (way.zone, cost))
}

impl Fit {
    fn of(places: &Places, learned: &Learned, job: &DeadlineJob, probes: Option<Probes>) -> Self {
        let zones = || learned.zones.iter().zip(&learned.price);
        let standing: Vec<Standing> = zones().map(|((phases, _), price)| Standing::of(phases, *price)).collect();
        let pool = Pool::new(places, &standing, &learned.seen, job);
        let zones = zones().map(|((phases, belief), price)| Zone {
            over: (0..HOURS).map(|hour| phases.over(pool.steps.step_ms, hour)).collect(),
            phases: phases.clone(),
            belief: belief.clone(),
            price: *price,
        });
        Self { from: learned.from, zones: zones.collect(), pool, probes }
    }

    /// Whether zones are looked at in a step from a place on, or by its end.
    fn looks(&self, place: Place, step: usize) -> bool {
        let after_ms = place.since_ms as f64 + step as f64 * self.pool.steps.step_ms;
        self.probes.is_none_or(|probes| probes.are_between(after_ms, after_ms + self.pool.steps.step_ms))
    }

    /// The zones that have spot, or may have, and how they compare.
    fn offers(&self, places: &Places, view: &ZonesView<'_>, place: Place) -> Vec<Offer> {
        let average = self.pool.at(place.work, place.spare, self.pool.steps.reserve, IDLE[1]);
        let mut offers: Vec<Offer> = Vec::new();
        for (zone, of) in self.zones.iter().enumerate() {
            let is_seen = view.sight.seen(zone) == Some(true);
            let (chance, belief) = match view.sight.seen(zone) {
                Some(true) => (1.0, of.belief.0.clone()),
                Some(false) => continue,
                None => of.if_up(),
            };
            if chance >= LEAST_CHANCE && view.sight.costs(zone).is_finite() {
                let begun = self.begun(zone, place);
                let (cost, soon) = begun.of(&belief);
                let worse = (cost - average).max(0.0);
                offers.push(Offer { zone, is_seen, chance, belief, begun, cost, soon, worse });
            }
        }
        for _ in 0..ROUNDS {
            let before = offers.clone();
            for of in &mut offers {
                of.worse = (of.cost - average + of.soon * worse(places, &before, of.zone)).max(0.0);
            }
        }
        offers
    }

    /// What there is to fall back on where no try gets an instance, and what a try costs that fails: a tick of what is held. A spot instance that costs `held` is kept meanwhile.
    fn if_failed(&self, view: &ZonesView<'_>, place: Place, held: f64) -> (f64, f64) {
        let tick = view.tick_ms as f64 / self.pool.steps.step_ms;
        let (rest, later) = match view.held {
            ZoneHolding::Spot(_) => return (held, 0.0),
            ZoneHolding::OnDemand(_) => {
                let of = |work: f64| self.pool.at(work, place.spare, 0.0, ON_DEMAND[0]);
                (of(place.work), self.pool.list() * tick + of((place.work - tick).max(0.0)))
            }
            ZoneHolding::Idle => {
                let of = |spare: f64| self.pool.at(place.work, spare, self.pool.steps.reserve, IDLE[0]);
                (of(place.spare), of(place.spare - tick))
            }
        };
        (rest, (later - rest).max(0.0))
    }

    /// What is known of an instance begun in a zone from here.
    fn begun(&self, zone: usize, place: Place) -> Begun {
        let Some(of) = self.zones.get(zone) else { return Begun(Vec::new()) };
        let mut begun = vec![(0.0, 0.0); of.belief.0.len()];
        for phase in of.phases.of(true) {
            let mut sure = vec![0.0; begun.len()];
            sure[phase] = 1.0;
            begun[phase] = self.instance(zone, &sure, place, self.pool.steps.setup);
        }
        Begun(begun)
    }

    /// What an instance of a zone costs from here, given the belief of the zone and the steps of its changeover that are left; and the chance that it is lost, each
    /// loss weighed by how much of what is now still holds then.
    fn instance(&self, zone: usize, belief: &[f64], place: Place, setup: f64) -> (f64, f64) {
        let Some(of) = self.zones.get(zone) else { return (NEVER, 0.0) };
        let fades = self.pool.steps.hours() / HOLDS_H;
        let mut soon = 0.0;
        let price = of.price * self.pool.steps.hours();
        let all = setup + place.work;
        let (mut now, mut next) = (belief.to_vec(), belief.to_vec());
        let (mut kept, mut cost, mut step) = (1.0, 0.0, 0usize);
        while (step as f64) < all {
            let length = (all - step as f64).min(1.0);
            let at_ms = place.at_ms + (step as f64 * self.pool.steps.step_ms) as i64;
            let Some((_, stays)) = of.over.get(of.phases.hour(at_ms)) else { return (NEVER, 0.0) };
            Zone::step(stays, &now, &mut next);
            std::mem::swap(&mut now, &mut next);
            let lost = (kept - now.iter().sum::<f64>()).max(0.0) * length;
            cost += price * length * (kept - 0.5 * lost);
            if lost > 0.0 {
                let elapsed = step as f64 + 0.5 * length;
                let (work, spare) = (place.work - (elapsed - setup).max(0.0), place.spare - elapsed.min(setup));
                cost += lost * self.pool.lost(zone, work, spare);
                soon += lost * (-elapsed * fades).exp();
            }
            kept -= lost;
            step += 1;
            if kept < GONE {
                let elapsed = step as f64;
                let (work, spare) = (place.work - (elapsed - setup).max(0.0), place.spare - elapsed.min(setup));
                return (cost + kept * self.pool.lost(zone, work, spare), soon);
            }
        }
        (cost - kept * self.pool.done(place.spare - setup), soon)
    }
}

impl ZonesPilot for ZonesProgramme {
    fn hold(&mut self, job: &DeadlineJob, places: &Places, view: &ZonesView<'_>) -> ZoneHolding {
        self.see(job, places, view);
        let Some(fit) = self.fits.get(self.fit) else { return ZoneHolding::Idle };
        let steps = fit.pool.steps;
        let place = Place {
            work: view.work_ms as f64 / steps.step_ms,
            spare: (view.left_ms - view.work_ms) as f64 / steps.step_ms,
            at_ms: self.start_ms + view.elapsed_ms,
            since_ms: view.elapsed_ms,
        };
        let belief = |zone: usize| fit.zones.get(zone).map(|of| of.belief.0.as_slice()).unwrap_or_default();
        let offers = fit.offers(places, view, place);
        // Spot: what is held, and what else there is.
        let margin = MARGIN * steps.setup * steps.hours();
        let mut best = (NEVER, ZoneHolding::Idle);
        if let ZoneHolding::Spot(zone) = view.held
            && view.safe(job, view.held)
        {
            let (cost, soon) = fit.instance(zone, belief(zone), place, view.setup_ms as f64 / steps.step_ms);
            best = (cost + soon * worse(places, &offers, zone) - margin * view.sight.costs(zone), view.held);
        }
        // Who begins spot must be able to begin on-demand after it, however soon it is lost.
        let room = view.left_ms - view.work_ms >= 2 * job.changeover_ms
            || view.work_ms + job.changeover_ms <= view.tick_ms.min(view.left_ms);
        let (rest, failed) = fit.if_failed(view, place, best.0);
        let mut ways: Vec<Way> = Vec::new();
        for offer in offers.iter().filter(|_| room) {
            if view.held != ZoneHolding::Spot(offer.zone) && view.safe(job, ZoneHolding::Spot(offer.zone)) {
                let next = worse(places, &offers, offer.zone);
                let cost = places.moves(view.at, offer.zone) + offer.cost + offer.soon * next;
                let order = cost + failed * (1.0 - offer.chance) / offer.chance;
                ways.push(Way { zone: offer.zone, is_seen: offer.is_seen, chance: offer.chance, cost, order });
            }
        }
        ways.sort_by(|a, b| a.order.total_cmp(&b.order));
        if let Some((zone, cost)) = tries(&ways, rest, failed)
            && cost < best.0
        {
            best = (cost, ZoneHolding::Spot(zone));
        }
        if matches!(view.held, ZoneHolding::Spot(_)) && best.1 != ZoneHolding::Idle {
            // A running instance is left for another, or for nothing, only where it is dearer than on-demand.
            let list = places.on_demand.iter().copied().fold(f64::INFINITY, f64::min);
            if best.1.zone().is_some_and(|zone| view.sight.costs(zone) < list) {
                return best.1;
            }
        }
        let ahead = fit.ahead(places, view, place, &offers);
        let cheapest = places.cheapest(view.at, view.work_ms + job.changeover_ms);
        let (held_setup, demand) = match view.held {
            ZoneHolding::OnDemand(_) => (view.setup_ms as f64 / steps.step_ms, view.held),
            _ => (steps.setup, ZoneHolding::OnDemand(cheapest)),
        };
        // On-demand, from the end of its changeover on; falls back on itself.
        let onward = |setup: f64| {
            let then = Place { spare: (place.spare - setup).max(0.0), ..place };
            let rest = |step: usize| {
                let work = (then.work - step as f64).max(0.0);
                fit.pool.at(work, then.spare, 0.0, ON_DEMAND[0])
            };
            setup * fit.pool.list() + fit.until(&ahead, then, false, best.0, rest)
        };
        let moves = if demand == view.held { 0.0 } else { places.moves(view.at, cheapest) };
        let on_demand = moves + onward(held_setup);
        // What does less now must be cheaper by more than rounding.
        let tie = TIE * fit.pool.list() * (place.work + steps.setup);
        if on_demand < best.0 - tie {
            best = (on_demand, demand);
        }
        if view.safe(job, ZoneHolding::Idle) && !matches!(view.held, ZoneHolding::OnDemand(_)) {
            let rest = |step: usize| {
                let spare = place.spare - step as f64;
                if spare < steps.reserve { NEVER } else { fit.pool.at(place.work, spare, steps.reserve, IDLE[0]) }
            };
            let spot = if matches!(best.1, ZoneHolding::Spot(_)) { best.0 } else { NEVER };
            let cost = fit.until(&ahead, place, true, spot, rest);
            if cost < best.0 - tie {
                best = (cost, ZoneHolding::Idle);
            }
        }
        best.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloud::zones::learned::learned_zones;
    use crate::cloud::zones::market::tests::places;
    use crate::cloud::zones::market::{Market, travel};
    use crate::cloud::zones::optimum::zones_optimum;

    const HOUR: i64 = 3_600_000;
    const MIN: i64 = 60_000;

    /// The worked example, and the same behind a try that is not worth it, or with nothing that is sure.
    #[test]
    fn zones_are_tried_in_the_order_of_what_they_cost() {
        let way = |zone: usize, chance: f64, cost: f64| {
            let order = cost + 0.1 * (1.0 - chance) / chance;
            Way { zone, is_seen: chance >= 1.0, chance, cost, order }
        };
        let near = |result: Option<(usize, f64)>, zone: usize, cost: f64| {
            result.is_some_and(|(of, is)| of == zone && (is - cost).abs() < 1e-12)
        };
        let ways = [way(3, 0.8, 10.0), way(5, 1.0, 11.0), way(1, 1.0, 12.0)];
        assert!(near(tries(&ways, 20.0, 0.1), 3, 10.22), "{:?}", tries(&ways, 20.0, 0.1));
        assert!(near(tries(&ways[1..], 2.0, 0.1), 5, 11.0));
        assert!(near(tries(&ways[..1], 20.0, 0.1), 3, 8.0 + 0.2 * 20.1) && tries(&ways[..1], 10.0, 0.1).is_none());
        assert!(tries(&[], 10.0, 0.1).is_none());
    }

    /// Zones that are always up, after a long past of the same: the cheapest is begun at once and kept, which is the optimum.
    #[test]
    fn zones_that_are_never_lost_cost_the_optimum() -> crate::error::Result<()> {
        let rows = vec![(vec![true, true, true], vec![1.2, 0.9, 1.0]); 4000];
        let market = Market::from_rows(places(&[0, 1, 1], &[3.0; 3], 1.0, 12 * MIN), &rows);
        for deadline_h in [11, 15, 20] {
            let job = DeadlineJob {
                work_ms: 10 * HOUR,
                deadline_ms: deadline_h * HOUR,
                changeover_ms: 12 * MIN,
                price_ratio: 3.0,
            };
            let learned = learned_zones(&market, 3000, job.ticks(12 * MIN));
            let mut pilot = ZonesProgramme::new(&market.places, &learned, 3000, &job);
            let run = travel(&mut pilot, &market, 3000, &job, &mut |_| ());
            let least = zones_optimum(&market, 3000, &job)?;
            assert!((run.cost - least).abs() < 1e-9 * least && (least - 10.2 * 0.9).abs() < 1e-9, "{run:?} {least}");
        }
        Ok(())
    }

    /// What is held from tick 480 on, of half-hours in which the zones have spot by turns, three hours each, without a changeover, 12 h of work in 20 h. All have
    /// spot in the first tick.
    fn by_turns(zones: usize, on_demand: f64) -> Vec<ZoneHolding> {
        let row = |tick: usize| (0..zones).map(|zone| tick >= 480 || tick / 6 % zones == zone).collect();
        let rows: Vec<_> = (0..481).map(|tick| (row(tick), vec![1.0; zones])).collect();
        let region: Vec<usize> = (0..zones).collect();
        let market = Market::from_rows(places(&region, &vec![on_demand; zones], 0.0, 30 * MIN), &rows);
        let job = DeadlineJob { work_ms: 12 * HOUR, deadline_ms: 20 * HOUR, changeover_ms: 0, price_ratio: 3.0 };
        let learned = learned_zones(&market, 480, job.ticks(30 * MIN));
        let mut pilot = ZonesProgramme::new(&market.places, &learned, 480, &job);
        let mut held = Vec::new();
        travel(&mut pilot, &market, 480, &job, &mut |of| held.push(of));
        held
    }

    /// Without a changeover nothing is gained by waiting while spot is there.
    #[test]
    fn spot_that_is_there_is_taken() {
        for zones in [2, 3] {
            let held = by_turns(zones, 3.0);
            assert!(matches!(held[0], ZoneHolding::Spot(_)), "{zones}: {held:?}");
        }
    }

    /// On-demand that costs what spot costs leaves nothing to choose: whatever is done costs the same, and so it is work.
    #[test]
    fn ties_are_won_by_work() {
        let held = by_turns(2, 1.0);
        assert!(matches!(held[0], ZoneHolding::Spot(_)) && !held[..24].contains(&ZoneHolding::Idle), "{held:?}");
    }

    /// A zone without spot for as long as one can see: nobody waits for it beyond what is spare, and none costs more than on-demand and a tick of waiting.
    #[test]
    fn zones_without_spot_cost_on_demand() {
        let rows = vec![(vec![false, false], vec![1.0, 0.9]); 600];
        let market = Market::from_rows(places(&[0, 1], &[3.0, 2.9], 1.0, 12 * MIN), &rows);
        let job = DeadlineJob { work_ms: 10 * HOUR, deadline_ms: 14 * HOUR, changeover_ms: 12 * MIN, price_ratio: 3.0 };
        let learned = learned_zones(&market, 500, job.ticks(12 * MIN));
        let run =
            travel(&mut ZonesProgramme::new(&market.places, &learned, 500, &job), &market, 500, &job, &mut |_| ());
        assert!(!run.missed && (run.cost - 10.2 * 2.9).abs() < 1e-9, "{run:?}");
    }
}
