//! What the [programme over zones](crate::cloud::zones::programme) learns from what was seen of them, before the job and in it.
//!
//! Each zone has its own [phases](tracecast_predictors::spot::phases), hours of the day and belief, fitted as in [one zone](crate::cloud::programme). What is remembered is the last `PAST_MS` before the job and less
//! than a day more, as weeks in which nothing was lost say little of a bad day. The phases are fitted at the start, at each third of the job, and whenever what was seen has doubled, from `FIRST_MS` on: a start with little past learns soonest.
//! Of the zones together it counts how often any has spot, from tick to tick, for the [pool](crate::cloud::zones::pool).
//!
//! Zones that are seen at every tick show the same to every job that begins with them, so that all fits are made once. Where they are seen by [probes](crate::cloud::zones::probe), what is seen depends on what a job holds and tries. Then the fit of the start
//! alone is shared, and each job keeps a record and fits from it; a tick that it did not see may have been either. The zones together are counted from one tick to the next at which all were seen: a change between counts once, and so many ticks as lie between count as spent before it, so that changes are counted too few where probes are rare.
//!
//! O(ticks) a fit. Worked example: in ticks of half an hour, a job that begins with three days of past in mind and lasts 150 ticks is fitted at ticks 0, 50 and 100, and at 144, when there are six days.

use tracecast_analytics::time::{DAY_MS, HOUR_MS};

use crate::cloud::policy::{CloudPolicy, evenly, learned_at, learned_from};
use crate::cloud::zones::market::Market;
use crate::cloud::zones::pool::Seen;
use crate::cloud::zones::probe::Probes;
use tracecast_predictors::spot::phases::{Belief, MOST, Phases};

/// How long before the job is remembered, and less than a day more, milliseconds.
const PAST_MS: i64 = 72 * HOUR_MS;
/// What has been seen when a job without a past first learns from it, milliseconds.
const FIRST_MS: i64 = HOUR_MS;

/// What is learned of the zones from a tick of the job on.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::cloud) struct Learned {
    /// The first tick of the job decided with it.
    pub(in crate::cloud) from: usize,
    /// Phases of each zone, and the belief before that tick.
    pub(in crate::cloud) zones: Vec<(Phases, Belief)>,
    /// The pool as seen.
    pub(in crate::cloud) seen: Seen,
    /// Dollars an hour of spot in each zone, by then; infinite if unknown.
    pub(in crate::cloud) price: Vec<f64>,
}

/// What zones showed, tick by tick, to a job that does not see all of them, and when it learns from that again.
#[derive(Debug, Clone)]
pub(in crate::cloud) struct Record {
    /// When zones are probed.
    pub(in crate::cloud) probes: Probes,
    /// What was seen of each zone since the first tick that is remembered.
    zones: Vec<Vec<Option<bool>>>,
    /// Ticks of the job at which it is fitted again.
    moments: Vec<usize>,
    tick_ms: i64,
}

/// What is learned for a job.
#[derive(Debug, Clone)]
pub(in crate::cloud) struct ZonesLearned {
    /// Fits in the order of ticks; of the start alone where the job learns by itself.
    pub(in crate::cloud) fits: Vec<Learned>,
    /// What such a job knows at its start.
    pub(in crate::cloud) record: Option<Record>,
}

/// The first tick that is not forgotten by tick `start`: a day begins with it, so that hours of the day are what they are.
pub(in crate::cloud) fn remembered(start: usize, tick_ms: i64) -> usize {
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

/// What was seen of zones together, of which each tick says whether any has spot, if all were seen.
fn together(any: impl Iterator<Item = Option<bool>>) -> Seen {
    let mut seen = Seen::default();
    let mut before: Option<(bool, usize)> = None;
    for (tick, any) in any.enumerate() {
        let Some(is) = any else { continue };
        if let Some((was, since)) = before {
            let (ticks, changed) = ((tick - since) as f64, f64::from(u8::from(was != is)));
            let (spent, changes) = if was { (&mut seen.up, &mut seen.goes) } else { (&mut seen.down, &mut seen.comes) };
            *spent += ticks;
            *changes += changed;
        }
        before = Some((is, tick));
    }
    seen
}

/// What is learned of a market for a job that begins at tick `start` and lasts `ticks` at most.
pub(in crate::cloud) fn learned_zones(market: &Market, start: usize, ticks: usize) -> ZonesLearned {
    let (zones, tick_ms) = (market.places.names.len(), market.places.tick_ms);
    let first = remembered(start, tick_ms);
    let moments = moments(start - first, ticks, tick_ms);
    // What is quoted as a tick begins is known.
    let price = |tick: usize| -> Vec<f64> {
        let sight = market.sight(tick.min(market.ticks.saturating_sub(1)));
        (0..zones).map(|zone| sight.costs(zone)).collect()
    };
    if let Some(probes) = market.probes {
        let of = |zone: usize| -> Vec<Option<bool>> {
            let past = first..start.min(market.ticks);
            past.map(|tick| market.saw(tick, start).then(|| market.sight(tick).has(zone))).collect()
        };
        let end = (start + ticks).min(market.ticks);
        let moments = moments.into_iter().filter(|from| *from > 0 && start + from < end).collect();
        let record = Record { probes, zones: (0..zones).map(of).collect(), moments, tick_ms };
        let fits = vec![record.learned(0, None, price(start))];
        return ZonesLearned { fits, record: Some(record) };
    }
    let by_zone: Vec<Vec<(usize, Phases, Belief)>> = (0..zones)
        .map(|zone| {
            let up = market.of_zone(zone, start + ticks);
            let up = up.get(first..).unwrap_or_default();
            learned_at(&moments, up, (start - first).min(up.len()), CloudPolicy::SemiMarkov, tick_ms)
        })
        .collect();
    let fits = by_zone.iter().map(Vec::len).min().unwrap_or(0);
    let fits = (0..fits)
        .map(|fit| {
            let of: Vec<&(usize, Phases, Belief)> = by_zone.iter().filter_map(|fits| fits.get(fit)).collect();
            let from = of.first().map_or(0, |(from, ..)| *from);
            let until = (start + from).min(market.ticks);
            Learned {
                from,
                zones: of.into_iter().map(|(_, phases, before)| (phases.clone(), before.clone())).collect(),
                seen: together((first..until).map(|tick| Some(market.sight(tick).zones().next().is_some()))),
                price: price(until),
            }
        })
        .collect();
    ZonesLearned { fits, record: None }
}

impl Record {
    /// Takes in what a tick shows of each zone.
    pub(in crate::cloud) fn see(&mut self, seen: impl Fn(usize) -> Option<bool>) {
        self.zones.iter_mut().enumerate().for_each(|(zone, ticks)| ticks.push(seen(zone)));
    }

    /// Records the result of a try in the last tick.
    pub(in crate::cloud) fn tried(&mut self, zone: usize, up: bool) {
        if let Some(last) = self.zones.get_mut(zone).and_then(|ticks| ticks.last_mut()) {
            *last = Some(up);
        }
    }

    /// Whether the job learns at a tick.
    pub(in crate::cloud) fn is_due(&self, tick: usize) -> bool {
        self.moments.contains(&tick)
    }

    /// What is learned of all that was seen, for a job from tick `from` on, from what was learned before.
    pub(in crate::cloud) fn learned(&self, from: usize, before: Option<&[&Phases]>, price: Vec<f64>) -> Learned {
        let of = |(zone, past): (usize, &Vec<Option<bool>>)| {
            learned_from(past, before.and_then(|phases| phases.get(zone).copied()), MOST, self.tick_ms)
        };
        let ticks = self.zones.first().map_or(0, Vec::len);
        let any = |tick: usize| {
            let all: Option<Vec<bool>> = self.zones.iter().map(|seen| seen.get(tick).copied().flatten()).collect();
            all.map(|up| up.into_iter().any(|up| up))
        };
        Learned {
            from,
            zones: self.zones.iter().enumerate().map(of).collect(),
            seen: together((0..ticks).map(any)),
            price,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;

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

    /// Up, up, down, up: two ticks up with a loss after the second, one down that ends. Seen at the first and the last alone, three ticks up and no change.
    #[test]
    fn zones_together_are_counted_from_one_sighting_to_the_next() {
        let of = |seen: [Option<bool>; 4]| {
            let Seen { up, down, goes, comes } = together(seen.into_iter());
            [up, down, goes, comes]
        };
        assert_eq!(of([true, true, false, true].map(Some)), [2.0, 1.0, 1.0, 1.0]);
        assert_eq!(of([Some(true), None, None, Some(true)]), [3.0, 0.0, 0.0, 0.0]);
    }
}
