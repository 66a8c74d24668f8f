//! When a job over several zones looks which of them have spot: at every tick, or at probes alone.
//!
//! Nobody tells a user whether spot can be had in a zone. One asks for an instance there, and gets one or not. **Probes** do that in all zones at once: at the start of the job, and then at the first tick at or after each
//! whole period. Between them a zone shows itself only
//!
//! * where the job holds a spot instance: it is kept or lost;
//! * where the job tries to begin: it gets one, or the zone is down.
//!
//! A try that fails is known by the next tick. Until then the job goes on with what it holds, so a try from nothing costs a tick of waiting, and one from an instance nothing: that is let go only when the next is there. That is long for ticks of an hour and about right for those of three minutes:
//! clouds refuse within seconds, and who provisions through a queue or a tool within minutes. Prices are public, and seen at every tick. On-demand can always be had.
//!
//! A probe that finds spot begins an instance and ends it, for which clouds bill a least time (AWS a minute). Those of it that `bill_ms` says are paid for, at the price of the zone; a probe that finds none is free. Whoever runs on-demand from beginning to end asks nobody, and pays for none.
//!
//! **What came before the job** is what probes with the same period would have seen of it ([`Past::Probed`]), or all of it, where the record is a public one ([`Past::Recorded`]).
//!
//! O(zones) a tick. Worked number: with ticks of 195 s and probes every 10 min, ticks 0, 4, 7, 10, 13 and 16 of a job are probed: 0, 780, 1365, 1950, 2535 and 3120 s. Nine zones of which eight have spot at 1 dollar an hour cost 8/60 dollars a probe at a minute each.

use schemars::JsonSchema;
use serde::Serialize;

/// What was seen of the time before the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Past {
    /// What probes with the same period would have seen.
    #[default]
    Probed,
    /// All that is in the record.
    Recorded,
}

/// When zones are probed, and what that costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probes {
    /// Time from one probe to the next, milliseconds; more than 0.
    pub every_ms: i64,
    /// Time of spot that is paid for in each zone that is found to have it, milliseconds.
    pub bill_ms: i64,
    /// What was seen before the job.
    pub past: Past,
}

impl Probes {
    /// Whether all zones are probed at a tick, counted from the start of the job; before it, ticks are below 0.
    pub(in crate::cloud) fn are_at(&self, tick: i64, tick_ms: i64) -> bool {
        let whole = |tick: i64| tick.saturating_mul(tick_ms).div_euclid(self.every_ms.max(1));
        whole(tick) != whole(tick - 1)
    }

    /// Whether a tick before the job, counted from its start, was seen.
    pub(in crate::cloud) fn saw(&self, tick: i64, tick_ms: i64) -> bool {
        self.past == Past::Recorded || self.are_at(tick, tick_ms)
    }

    /// Whether a probe falls between two moments, the later included, milliseconds since the start of the job.
    pub(in crate::cloud) fn are_between(&self, after_ms: f64, until_ms: f64) -> bool {
        let every_ms = self.every_ms.max(1) as f64;
        (until_ms / every_ms).floor() > (after_ms / every_ms).floor()
    }
}

/// What a job has seen of zones: which had spot when somebody last looked, and which were looked at in this tick.
#[derive(Debug, Clone)]
pub(in crate::cloud) struct Lookout {
    probes: Probes,
    tick_ms: i64,
    last: Vec<bool>,
    now: Vec<bool>,
}

impl Lookout {
    /// Creates the state of so many zones, none of which has been looked at.
    pub(in crate::cloud) fn new(probes: Probes, zones: usize, tick_ms: i64) -> Self {
        Self { probes, tick_ms, last: vec![false; zones], now: vec![false; zones] }
    }

    /// Looks, at a tick of the job in which zones have spot as told and a spot instance was held in `held`. Returns whether all were probed.
    pub(in crate::cloud) fn look(&mut self, tick: i64, up: &[bool], held: Option<usize>) -> bool {
        let probed = self.probes.are_at(tick, self.tick_ms);
        for (zone, (last, now)) in self.last.iter_mut().zip(&mut self.now).enumerate() {
            *now = probed || held == Some(zone);
            if *now {
                *last = up.get(zone).copied().unwrap_or(false);
            }
        }
        probed
    }

    /// Records the result of a try.
    pub(in crate::cloud) fn tried(&mut self, zone: usize, up: bool) {
        if let Some(last) = self.last.get_mut(zone) {
            *last = up;
        }
    }

    /// Whether each zone had spot when it was last seen, and whether that is now.
    pub(in crate::cloud) fn seen(&self) -> (&[bool], &[bool]) {
        (&self.last, &self.now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIN: i64 = 60_000;

    fn every(every_ms: i64) -> Probes {
        Probes { every_ms, bill_ms: 0, past: Past::Probed }
    }

    /// The worked number; the same before the job, and at every tick where the period is a tick or less.
    #[test]
    fn the_worked_number() {
        let probes = every(10 * MIN);
        let at = |ticks: std::ops::Range<i64>| ticks.filter(|tick| probes.are_at(*tick, 195_000)).collect::<Vec<_>>();
        assert_eq!(at(0..19), [0, 4, 7, 10, 13, 16]);
        assert_eq!(at(-10..0), [-9, -6, -3]);
        for every_ms in [1, MIN, 195_000] {
            assert!((-50..50).all(|tick| every(every_ms).are_at(tick, 195_000)), "{every_ms}");
        }
        assert!(probes.are_between(0.0, 600_000.0) && !probes.are_between(600_000.0, 1_199_999.0));
    }

    /// Probes every three ticks. The zone that is held shows that it is lost, and one that is tried that it is down; the third is as it was.
    #[test]
    fn what_is_not_looked_at_is_as_it_was() {
        let mut lookout = Lookout::new(every(3 * MIN), 3, MIN);
        assert!(lookout.look(0, &[true, true, false], None));
        assert_eq!(lookout.seen(), (&[true, true, false][..], &[true; 3][..]));
        assert!(!lookout.look(1, &[false, false, true], Some(0)));
        assert_eq!(lookout.seen(), (&[false, true, false][..], &[true, false, false][..]));
        lookout.tried(1, false);
        lookout.look(2, &[true, true, true], None);
        assert_eq!(lookout.seen(), (&[false; 3][..], &[false; 3][..]));
        lookout.look(3, &[true, true, true], None);
        assert_eq!(lookout.seen(), (&[true; 3][..], &[true; 3][..]));
    }
}
