//! The semi-Markov programme over zones: what each zone would cost from here, given what was seen of it, and what the zones cost on average after that.
//!
//! Each zone has its own [phases](super::phases), hours of the day and belief, fitted as in [one zone](super::programme). What is remembered is the last `PAST_MS` before the job and less
//! than a day more, as weeks in which nothing was lost say little of a bad day. The phases are fitted at the start, at each third of the job, and whenever what was seen has doubled, from `FIRST_MS` on: a start with little past learns soonest. At each tick the
//! programme prices what can be done, in dollars. An instance of zone z is priced until it is lost, or the work is done: with S(j) the chance to be kept for j
//! steps, by the belief, p its price now and V what the [pool](super::pool) of zones costs after the loss,
//!
//! ```text
//! Q(z) = egress + Σ over j of  p·½[S(j) + S(j+1)]  +  [S(j) − S(j+1)]·V(work left then, spare time left then, z)
//! ```
//!
//! The instance held is priced in the same way without a changeover, so a job moves when another zone is cheaper by more than the changeover and the egress. Where
//! nothing is held, or on-demand, it also prices to hold on (`wait`) with that: until a cheaper zone comes up, or one that is up has shown that it lasts. What is cheapest is held for the tick, and all
//! is priced again at the next. What costs the same is won by work, on spot before on-demand: where spare time is worth nothing, the rounding of a table would wait.
//! The [safety net](super::market) makes the deadline exact.
//!
//! O(ticks × zones × steps of work). Worked number: 50 h of work in 100 h over nine zones and ticks of 195 s take about half a second. Worked example: a zone
//! that is never lost costs p·(work + changeover): with 2 h of work, 0.2 h of changeover and 1 dollar an hour, 2.2 dollars.

mod wait;

use tracecast_analytics::time::{DAY_MS, HOUR_MS};
use tracecast_predictors::spot::factor::HOURS;

use super::job::DeadlineJob;
use super::market::{Market, Places, ZoneHolding, ZonesPilot, ZonesView};
use super::phases::{Belief, Matrix, Phases};
use super::policy::{CloudPolicy, evenly, learned_at};
use super::pool::{IDLE, NEVER, ON_DEMAND, Pool, Seen, Standing};

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

/// How long before the job is remembered, and less than a day more, milliseconds.
const PAST_MS: i64 = 72 * HOUR_MS;
/// What has been seen when a job without a past first learns from it, milliseconds.
const FIRST_MS: i64 = HOUR_MS;

/// What is learned of the zones from a tick of the job on.
#[derive(Debug, Clone)]
pub(super) struct Learned {
    /// The first tick of the job decided with it.
    from: usize,
    /// Phases of each zone, and the belief before that tick.
    zones: Vec<(Phases, Belief)>,
    /// The pool as seen.
    seen: Seen,
    /// Dollars an hour of spot in each zone, by then; infinite if unknown.
    price: Vec<f64>,
}

/// The first tick that is not forgotten by tick `start`: a day begins with it, so that hours of the day are what they are.
fn remembered(start: usize, tick_ms: i64) -> usize {
    let days = (start as i64 * tick_ms - PAST_MS).max(0) / DAY_MS;
    usize::try_from((days * DAY_MS + tick_ms - 1) / tick_ms.max(1)).unwrap_or(0).min(start)
}

/// When zones are fitted in a job of so many ticks after a past of so many: evenly, and whenever all that was seen has doubled.
fn moments(past: usize, ticks: usize, tick_ms: i64) -> Vec<usize> {
    let mut moments = evenly(ticks);
    let mut seen = past.max(usize::try_from(FIRST_MS / tick_ms.max(1)).unwrap_or(0)).max(1);
    while seen < past + ticks {
        moments.push(seen - past);
        seen *= 2;
    }
    moments.sort_unstable();
    moments.dedup();
    moments
}

/// What is learned of a market for a job that begins at tick `start` and lasts `ticks` at most.
pub(super) fn learned_zones(market: &Market, start: usize, ticks: usize) -> Vec<Learned> {
    let (zones, tick_ms) = (market.places.names.len(), market.places.tick_ms);
    let first = remembered(start, tick_ms);
    let moments = moments(start - first, ticks, tick_ms);
    let by_zone: Vec<Vec<(usize, Phases, Belief)>> = (0..zones)
        .map(|zone| {
            let up = market.of_zone(zone, start + ticks);
            let up = up.get(first..).unwrap_or_default();
            learned_at(&moments, up, (start - first).min(up.len()), CloudPolicy::SemiMarkov, tick_ms)
        })
        .collect();
    let fits = by_zone.iter().map(Vec::len).min().unwrap_or(0);
    (0..fits)
        .map(|fit| {
            let of: Vec<&(usize, Phases, Belief)> = by_zone.iter().filter_map(|fits| fits.get(fit)).collect();
            let from = of.first().map_or(0, |(from, ..)| *from);
            let until = (start + from).min(market.ticks);
            let mut seen = Seen::default();
            let any = |tick: usize| market.sight(tick).zones().next().is_some();
            for tick in first + 1..until {
                match (any(tick - 1), any(tick)) {
                    (true, is) => {
                        seen.up += 1.0;
                        seen.goes += f64::from(u8::from(!is));
                    }
                    (false, is) => {
                        seen.down += 1.0;
                        seen.comes += f64::from(u8::from(is));
                    }
                }
            }
            // What is quoted as the tick begins is known.
            let sight = market.sight(until.min(market.ticks.saturating_sub(1)));
            Learned {
                from,
                zones: of.into_iter().map(|(_, phases, before)| (phases.clone(), before.clone())).collect(),
                seen,
                price: (0..zones).map(|zone| sight.costs(zone)).collect(),
            }
        })
        .collect()
}

/// A zone as it stands, and how it moves on over a step in each hour of the day: chances, and chances to be kept.
#[derive(Debug, Clone)]
struct Zone {
    phases: Phases,
    belief: Belief,
    over: Vec<(Matrix, Matrix)>,
    price: f64,
}

impl Zone {
    fn step(chances: &Matrix, from: &[f64], to: &mut [f64]) {
        to.fill(0.0);
        for (chance, row) in from.iter().zip(chances) {
            if *chance > 0.0 {
                to.iter_mut().zip(row).for_each(|(sum, onward)| *sum += chance * onward);
            }
        }
    }
}

/// A programme, as it was learned at one tick of the job.
#[derive(Debug, Clone)]
struct Fit {
    from: usize,
    zones: Vec<Zone>,
    pool: Pool,
}

/// The programme as a policy.
#[derive(Debug, Clone)]
pub struct ZonesProgramme {
    fits: Vec<Fit>,
    fit: usize,
    tick: usize,
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
}

impl ZonesProgramme {
    /// For a job that begins at tick `start`.
    pub(super) fn new(places: &Places, learned: &[Learned], start: usize, job: &DeadlineJob) -> Self {
        let fits = learned.iter().filter(|of| of.from < job.ticks(places.tick_ms)).map(|of| {
            let standing: Vec<Standing> =
                of.zones.iter().zip(&of.price).map(|((phases, _), price)| Standing::of(phases, *price)).collect();
            let pool = Pool::of(places, &standing, &of.seen, job);
            let zones = of.zones.iter().zip(&of.price).map(|((phases, belief), price)| Zone {
                over: (0..HOURS).map(|hour| phases.over(pool.steps.step_ms, hour)).collect(),
                phases: phases.clone(),
                belief: belief.clone(),
                price: *price,
            });
            Fit { from: of.from, zones: zones.collect(), pool }
        });
        Self { fits: fits.collect(), fit: 0, tick: 0, start_ms: start as i64 * places.tick_ms }
    }
}

/// A zone that has spot now.
#[derive(Debug, Clone)]
struct Offer {
    zone: usize,
    /// What is known of an instance begun there.
    begun: Begun,
    /// What it costs to begin there, without egress, with average zones after a loss.
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
    /// Of a belief, which need not sum to 1.
    fn of(&self, belief: &[f64]) -> (f64, f64) {
        let each = self.0.iter().zip(belief);
        each.fold((0.0, 0.0), |(cost, soon), ((of, lost), chance)| (cost + chance * of, soon + chance * lost))
    }
}

/// By how much the zone that one would go to from `from` is worse than an average one.
fn worse(places: &Places, offers: &[Offer], from: usize) -> f64 {
    let at = places.region.get(from).copied();
    let best = offers.iter().map(|of| of.worse + places.moves(at, of.zone)).fold(f64::INFINITY, f64::min);
    if best.is_finite() { best.max(0.0) } else { 0.0 }
}

impl Fit {
    /// The zones that have spot, and how they compare.
    fn offers(&self, places: &Places, view: &ZonesView<'_>, place: Place) -> Vec<Offer> {
        let average = self.pool.at(place.work, place.spare, self.pool.steps.reserve, IDLE[1]);
        let mut offers: Vec<Offer> = Vec::new();
        for (zone, of) in self.zones.iter().enumerate() {
            if view.sight.has(zone) && view.sight.costs(zone).is_finite() {
                let begun = self.begun(zone, place);
                let (cost, soon) = begun.of(&of.belief.0);
                offers.push(Offer { zone, begun, cost, soon, worse: (cost - average).max(0.0) });
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
        if self.fits.get(self.fit + 1).is_some_and(|next| next.from <= self.tick) {
            self.fit += 1;
        }
        self.tick += 1;
        let Some(fit) = self.fits.get_mut(self.fit) else { return ZoneHolding::Idle };
        for (zone, of) in fit.zones.iter_mut().enumerate() {
            of.phases.see(&mut of.belief, view.sight.has(zone));
            let price = view.sight.costs(zone);
            if price.is_finite() {
                of.price = price;
            }
        }
        let fit = &*fit;
        let steps = fit.pool.steps;
        let place = Place {
            work: view.work_ms as f64 / steps.step_ms,
            spare: (view.left_ms - view.work_ms) as f64 / steps.step_ms,
            at_ms: self.start_ms + view.elapsed_ms,
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
        for offer in offers.iter().filter(|_| room) {
            if view.held != ZoneHolding::Spot(offer.zone) && view.safe(job, ZoneHolding::Spot(offer.zone)) {
                let next = worse(places, &offers, offer.zone);
                let cost = places.moves(view.at, offer.zone) + offer.cost + offer.soon * next;
                if cost < best.0 {
                    best = (cost, ZoneHolding::Spot(offer.zone));
                }
            }
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
    use super::super::market::tests::places;
    use super::super::market::travel;
    use super::super::zones_optimum::zones_optimum;
    use super::*;

    const HOUR: i64 = 3_600_000;
    const MIN: i64 = 60_000;

    /// In ticks of half an hour: with no past after an hour, two, four and so on, and in thirds; with three days of it in thirds, and when there are six. What is forgotten ends with a day.
    #[test]
    fn a_job_learns_when_what_it_saw_has_doubled() {
        let half = HOUR / 2;
        assert_eq!(moments(0, 60, half), [0, 2, 4, 8, 16, 20, 32, 40]);
        assert_eq!(moments(144, 150, half), [0, 50, 100, 144]);
        assert_eq!(moments(0, 1, HOUR * 2), [0]);
        assert_eq!([0, 144, 191, 192, 240].map(|start| remembered(start, half)), [0, 0, 0, 48, 96]);
        assert_eq!(remembered(1000, 7 * HOUR), 988);
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
