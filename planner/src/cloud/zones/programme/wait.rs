//! What it costs to hold on with nothing, or with on-demand: until a better zone comes up, or until one that is up has shown that it lasts.
//!
//! Spot that has just come up may be gone within minutes, and whoever takes it then has paid a changeover, in money and in spare time, for nothing. A belief learns with
//! the age of a run, and so may who waits. To hold on for K steps and then choose costs, with c what a step costs (on-demand; waiting costs spare time alone), N(j) the
//! chance that no zone that is down now and would be cheaper has come up in j steps, A what those cost that come up, and R what is left to do then,
//!
//! ```text
//! W(K) = Σ over j ≤ K of  N(j−1)·c + [N(j−1) − N(j)]·A  +  N(K)·R(K)
//! R(K) = the cheapest zone still up of those that are up now, z with chance S(K, z) at Q(z, belief at age K);  else on-demand, or the pool without spot
//! ```
//!
//! A zone that comes up is priced in the same way: begun at once, or after the steps that make it cheapest. As what a zone costs is a mean over the phases of its spot, the
//! price at any age is that of each phase, weighed by the belief of that age. All is priced from here, and what is left later by what the [pool](crate::cloud::zones::pool) says of the
//! work and the spare time then: whoever holds on-demand has paid its changeover in spare time too. Where there is no time for two changeovers, no spot is begun. K is the best
//! of all up to `MOST_WAIT`.
//!
//! Where zones are not seen at every tick, one that is not seen comes up where a [probe](crate::cloud::zones::probe) shows it, and what is held on for is chosen when one does.
//!
//! O(zones × K × works). Worked example: half of a zone's runs are lost within their first step and half never. 10 steps of work at 1 dollar with 2 steps of changeover cost ½·12 +
//! ½·(0.5 + F) if it is begun as it comes up, F what follows a loss. After a step of waiting they cost ½·12 + ½·F: a quarter of a dollar less, for a step of spare time.

use super::{Begun, Fit, Offer, Place, Zone, worse};
use crate::cloud::zones::market::{Places, ZonesView};
use crate::cloud::zones::pool::{IDLE, NEVER};

/// Most steps that it thinks of holding on.
const MOST_WAIT: usize = 60;

/// A zone after some steps in which it was up.
#[derive(Debug, Clone, Copy)]
struct Aged {
    /// The chance that it was.
    kept: f64,
    /// Cost of beginning there then, from here.
    cost: f64,
}

/// A zone that is down, or not seen.
#[derive(Debug, Clone)]
struct Arrival {
    /// The chance to be seen to come up in each step.
    comes: Vec<f64>,
    /// How it ages from then on.
    ages: Vec<Aged>,
}

/// What may come while one holds on, priced from one place.
#[derive(Debug, Clone)]
pub(super) struct Ahead {
    place: Place,
    /// Zones that are up now.
    up: Vec<Vec<Aged>>,
    /// Zones that are down, or not seen.
    down: Vec<Arrival>,
}

impl Fit {
    /// What may come from here on.
    pub(super) fn ahead(&self, places: &Places, view: &ZonesView<'_>, place: Place, offers: &[Offer]) -> Ahead {
        let ages = |at: usize, zone: &Zone, begun: &Begun, belief: Vec<f64>| {
            let (moves, next) = (places.moves(view.at, at), worse(places, offers, at));
            self.ages(zone, place, belief, |belief| {
                let (cost, soon) = begun.of(belief);
                moves + cost + soon * next
            })
        };
        let mut ahead = Ahead { place, up: Vec::new(), down: Vec::new() };
        for offer in offers.iter().filter(|offer| offer.is_seen) {
            if let Some(zone) = self.zones.get(offer.zone) {
                ahead.up.push(ages(offer.zone, zone, &offer.begun, offer.belief.clone()));
            }
        }
        for (at, zone) in self.zones.iter().enumerate() {
            if view.sight.seen(at) != Some(true)
                && zone.price.is_finite()
                && let (comes, Some(first)) = self.arrival(zone, place)
            {
                ahead.down.push(Arrival { comes, ages: ages(at, zone, &self.begun(at, place), first) });
            }
        }
        ahead
    }

    /// For a zone that is down, or not seen: the chance to be seen to come up in each step, which
    /// is one with a look, and the belief of the first.
    fn arrival(&self, zone: &Zone, place: Place) -> (Vec<f64>, Option<Vec<f64>>) {
        let (mut now, mut next) = (zone.belief.0.clone(), zone.belief.0.clone());
        let (mut chances, mut first) = (Vec::with_capacity(MOST_WAIT), None);
        for step in 0..MOST_WAIT {
            let Some((any, _)) = zone.over.get(self.hour(zone, place, step)) else { break };
            Zone::step(any, &now, &mut next);
            if !self.looks(place, step) {
                chances.push(0.0);
                std::mem::swap(&mut now, &mut next);
                continue;
            }
            let ups = zone.phases.of(true);
            let comes: f64 = next.get(ups.clone()).unwrap_or_default().iter().sum();
            chances.push(comes);
            if first.is_none() && comes > 0.0 {
                let mut belief = vec![0.0; next.len()];
                ups.clone().for_each(|phase| belief[phase] = next[phase] / comes);
                first = Some(belief);
            }
            ups.for_each(|phase| next[phase] = 0.0);
            std::mem::swap(&mut now, &mut next);
        }
        (chances, first)
    }

    /// How a zone that has spot ages from a belief on, the first without a step.
    fn ages(&self, zone: &Zone, place: Place, belief: Vec<f64>, cost: impl Fn(&[f64]) -> f64) -> Vec<Aged> {
        let mut next = belief.clone();
        let mut now = belief;
        let mut ages = Vec::with_capacity(MOST_WAIT + 1);
        for step in 0..=MOST_WAIT {
            let kept: f64 = now.iter().sum();
            next.iter_mut().zip(&now).for_each(|(share, chance)| *share = chance / kept.max(f64::MIN_POSITIVE));
            ages.push(Aged { kept, cost: cost(&next) });
            let Some((_, stays)) = zone.over.get(self.hour(zone, place, step)) else { break };
            Zone::step(stays, &now, &mut next);
            std::mem::swap(&mut now, &mut next);
        }
        ages
    }

    /// The hour of the day after some steps.
    fn hour(&self, zone: &Zone, place: Place, step: usize) -> usize {
        zone.phases.hour(place.at_ms + (step as f64 * self.pool.steps.step_ms) as i64)
    }

    /// The least expected cost of holding on from a place for one step or more: `wait` says whether nothing or on-demand is held, `now` is what the best spot of now
    /// would cost, and `last` what there is to fall back on after so many steps.
    pub(super) fn until(&self, ahead: &Ahead, from: Place, wait: bool, now: f64, last: impl Fn(usize) -> f64) -> f64 {
        let idle = |work: f64, spare: f64| self.pool.at(work, spare, self.pool.steps.reserve, IDLE[1]);
        let base = idle(ahead.place.work, ahead.place.spare);
        // Work and spare time that are left after so many steps, and what was priced ahead is dearer by then, or less.
        let left = |steps: f64| {
            if wait { (from.work, from.spare - steps) } else { ((from.work - steps).max(0.0), from.spare) }
        };
        let shift = |steps: f64| {
            let (work, spare) = left(steps);
            idle(work, spare) - base
        };
        let list = if wait { 0.0 } else { self.pool.list() };
        let most = if wait { from.spare - self.pool.steps.reserve } else { from.work.ceil() };
        let most = (most.max(0.0) as usize).min(MOST_WAIT);
        let bound = now.min(last(1));
        // What a zone costs that comes up: begun at once, or once it has shown that it lasts to who looks.
        let arrived = Place { since_ms: 0, ..from };
        let patient = |ages: &[Aged]| {
            let looked =
                ages.iter().enumerate().take(most + 1).skip(1).filter(|(step, _)| self.looks(arrived, step - 1));
            let later = looked.map(|(step, age)| {
                let steps = step as f64;
                list * steps + age.kept * (age.cost + shift(steps)) + (1.0 - age.kept) * last(step)
            });
            later.fold(ages.first().map_or(NEVER, |age| age.cost), f64::min)
        };
        let priced = ahead.down.iter().map(|of| (patient(&of.ages), of.comes.as_slice()));
        let better: Vec<(f64, &[f64])> = priced.filter(|(cost, _)| *cost < bound).collect();
        let (mut least, mut cost) = (NEVER, 0.0);
        // The chance that none came up, zone by zone and of all.
        let mut down: Vec<f64> = vec![1.0; better.len()];
        let mut none = 1.0;
        for step in 0..most {
            let length = if wait { 1.0 } else { (from.work - step as f64).min(1.0) };
            cost += none * list * length;
            let later = step as f64 + length;
            let rest = last(step + 1);
            if left(later).1 < 2.0 * self.pool.steps.setup || !self.looks(from, step) {
                least = least.min(cost + none * rest);
                continue;
            }
            let (mut sum, mut comes) = (0.0, 0.0);
            let mut stay = 1.0;
            for ((price, chances), down) in better.iter().zip(&mut down) {
                let chance = (chances.get(step).copied().unwrap_or(0.0) / down.max(1e-12)).min(1.0);
                sum += chance * price;
                comes += chance;
                stay *= 1.0 - chance;
                *down *= 1.0 - chance;
            }
            if comes > 0.0 {
                let came = none * (1.0 - stay);
                cost += came * (sum / comes + shift(later));
                none *= stay;
            }
            least = least.min(cost + none * still_up(&ahead.up, step + 1, shift(later), rest));
        }
        least
    }
}

/// What is left to do after so many steps: the cheapest of the zones that are still up, dearer by `shift` than from here, else `rest`.
fn still_up(zones: &[Vec<Aged>], steps: usize, shift: f64, rest: f64) -> f64 {
    let mut aged: Vec<Aged> = zones.iter().filter_map(|ages| ages.get(steps).copied()).collect();
    aged.sort_by(|a, b| a.cost.total_cmp(&b.cost));
    let (mut cost, mut none) = (0.0, 1.0);
    for age in aged.into_iter().filter(|age| age.cost + shift < rest) {
        cost += none * age.kept * (age.cost + shift);
        none *= 1.0 - age.kept;
    }
    cost + none * rest
}

#[cfg(test)]
mod tests {
    use super::super::ZonesProgramme;
    use super::*;
    use crate::cloud::job::{DeadlineJob, JobRun};
    use crate::cloud::zones::learned::learned_zones;
    use crate::cloud::zones::market::tests::places;
    use crate::cloud::zones::market::{Market, ZoneHolding, travel};

    const HOUR: i64 = 3_600_000;
    const MIN: i64 = 60_000;

    /// Two zones are still up with a half and four fifths, at 10 and 12 dollars and 1 more by then; else 14. A third costs more than that: ½·11 + ½·(0.8·13 + 0.2·14) = 12.1.
    #[test]
    fn the_cheapest_that_is_still_up_is_taken() {
        let zone = |kept: f64, cost: f64| vec![Aged { kept: 1.0, cost: 0.0 }, Aged { kept, cost }];
        let zones = [zone(0.8, 12.0), zone(0.9, 13.5), zone(0.5, 10.0)];
        assert!((still_up(&zones, 1, 1.0, 14.0) - 12.1).abs() < 1e-12);
        assert!((still_up(&zones, 2, 1.0, 14.0) - 14.0).abs() < 1e-12);
    }

    /// What is held from the end of a past on, in a zone at 1 dollar where on-demand costs 3, with ticks of 10 min.
    fn held(past: &[bool], ahead: &[bool], job: &DeadlineJob) -> (Vec<ZoneHolding>, JobRun) {
        let rows: Vec<_> = past.iter().chain(ahead).map(|up| (vec![*up], vec![1.0])).collect();
        let market = Market::from_rows(places(&[0], &[3.0], 0.0, 10 * MIN), &rows);
        let learned = learned_zones(&market, past.len(), job.ticks(10 * MIN));
        let mut pilot = ZonesProgramme::new(&market.places, &learned, past.len(), job);
        let mut held = Vec::new();
        let run = travel(&mut pilot, &market, past.len(), job, &mut |of| held.push(of));
        (held, run)
    }

    /// Half of the runs last one tick and half four hours, whichever came before; a changeover takes three ticks. With twenty hours to spare a run is left to show itself before
    /// it is taken.
    #[test]
    fn a_run_shows_that_it_lasts_before_it_is_taken() {
        let run = |up: usize| [(true, up), (false, 2)];
        let turn = [24, 1, 1, 24].map(run).into_iter().flatten();
        let past: Vec<bool> =
            std::iter::repeat_n(turn, 15).flatten().flat_map(|(up, ticks)| std::iter::repeat_n(up, ticks)).collect();
        let job = DeadlineJob { work_ms: 8 * HOUR, deadline_ms: 28 * HOUR, changeover_ms: 30 * MIN, price_ratio: 3.0 };
        let (held, _) = held(&past, &[true; 168], &job);
        assert_eq!(held[0], ZoneHolding::Idle, "{held:?}");
        assert!(held[1..6].contains(&ZoneHolding::Spot(0)) && held.last() == Some(&ZoneHolding::Spot(0)), "{held:?}");
    }

    /// With less than two changeovers to spare, spot would have to be left for on-demand before it has done anything.
    #[test]
    fn spot_is_begun_only_with_time_for_on_demand_after_it() {
        let job = |spare_min: i64| DeadlineJob {
            work_ms: 4 * HOUR,
            deadline_ms: 4 * HOUR + spare_min * MIN,
            changeover_ms: 30 * MIN,
            price_ratio: 3.0,
        };
        let (_, run) = held(&[true; 1000], &[true; 40], &job(50));
        assert!(run.changeovers == 1 && (run.cost - 13.5).abs() < 1e-9, "{run:?}");
        let (_, run) = held(&[true; 1000], &[true; 40], &job(60));
        assert!(run.changeovers == 1 && (run.cost - 4.5).abs() < 1e-9, "{run:?}");
    }
}
