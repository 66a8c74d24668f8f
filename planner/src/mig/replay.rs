//! Replay of jobs on GPUs that are cut into slices: event-driven, deterministic, in integers.
//!
//! This page is the contract. The engine here and the naive reference of its tests, which goes millisecond by millisecond, are both written from it and must give the same times for every job.
//!
//! # State
//!
//! There are slices, numbered, each of a profile; profiles are in order of size, the whole GPU last. Jobs have a **kind** (their job type), the time they run alone on a whole GPU, and the profiles that
//! they **ask** for. A kind has a speed on a profile, in millionths of that on the whole GPU, or does not fit there. Slices have SMs and memory of their own, so nobody slows another: a
//! job holds a slice for ⌈run × 1,000,000 / speed⌉ milliseconds.
//!
//! # Events
//!
//! At one instant, in this order: ends; jobs whose pause is over; submissions. Then comes one *decision*. A job of no length ends at the instant of its start, after the decision, and another decision follows.
//!
//! # Decision
//!
//! Jobs wait in order of submission (of equals, as they are numbered), wherever they come from, and are taken in that order. A job takes the empty slice of the smallest profile that it *may have*, of equals that of the
//! lowest number. One for which none is empty is passed over.
//!
//! * **What does not fit.** On a slice where its kind has no speed, the job fails at once, and the slice is empty again. The job pauses for [`PAUSE_MS`], then waits again. From then on no job of the kind may have that
//!   profile.
//! * **What a job may have** are the profiles that it asks for, of which the fleet has a slice and which its kind may have. If none is left, it may have all of the fleet on which its kind has a speed: somebody asks for more
//!   after a failure. If there is none of these either, there is **no room** for it, and it never runs.
//!
//! # Cost
//!
//! O(starts × groups), where a group is all that wait of one kind that ask for the same. Worked example: a GPU is cut into two slices, on which a kind runs at 600,000. Three jobs of 60 s come at 0 s. Two run from 0 to 100 s, the third from then to
//! 200 s. On a whole GPU, one after the other, they would have ended at 60, 120 and 180 s.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use crate::error::{Error, Result};
use crate::one_gpu::TypedJobs;

#[cfg(test)]
mod tests;

/// Speed on the whole GPU.
pub const WHOLE_SPEED: u32 = 1_000_000;
/// How long a job pauses that did not fit.
pub const PAUSE_MS: i64 = 120_000;

/// Profiles, a bit each, the smallest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Profiles(u8);

impl Profiles {
    /// No profile.
    pub const NONE: Self = Self(0);

    /// One profile; none from the ninth on, which no GPU has.
    pub fn one(profile: usize) -> Self {
        Self(u32::try_from(profile).ok().and_then(|at| 1u8.checked_shl(at)).unwrap_or(0))
    }

    /// Union of two sets.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Intersection of two sets.
    #[must_use]
    pub fn within(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Difference of two sets.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether there is none.
    pub fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Indices of the profiles in the set, the smallest first.
    pub fn places(self) -> impl Iterator<Item = usize> {
        (0..8).filter(move |at| self.0 >> at & 1 == 1)
    }
}

impl FromIterator<usize> for Profiles {
    fn from_iter<I: IntoIterator<Item = usize>>(places: I) -> Self {
        places.into_iter().fold(Self::NONE, |all, place| all.and(Self::one(place)))
    }
}

/// How fast each kind is on each profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SliceSpeeds {
    kinds: usize,
    profiles: usize,
    speed: Vec<Option<u32>>,
}

impl SliceSpeeds {
    /// A table in which no kind fits on any profile.
    pub fn new(kinds: usize, profiles: usize) -> Self {
        Self { kinds, profiles, speed: vec![None; kinds * profiles] }
    }

    /// Sets a speed, as a share of that on the whole GPU, rounded to millionths and at least one.
    pub fn set(&mut self, kind: usize, profile: usize, speed: f64) {
        let part = (speed * f64::from(WHOLE_SPEED)).round().clamp(1.0, f64::from(u32::MAX)) as u32;
        if let Some(slot) = self.speed.get_mut(kind * self.profiles + profile).filter(|_| profile < self.profiles) {
            *slot = Some(part);
        }
    }

    /// The speed of a kind on a profile, in millionths; `None` if it does not fit.
    pub fn get(&self, kind: usize, profile: usize) -> Option<u32> {
        self.speed.get(kind * self.profiles + profile).filter(|_| profile < self.profiles).copied().flatten()
    }

    /// Profiles on which a kind has a speed.
    fn of(&self, kind: usize) -> Profiles {
        (0..self.profiles).filter(|profile| self.get(kind, *profile).is_some()).collect()
    }
}

/// Outcome of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SliceTimes {
    /// Start, milliseconds.
    pub start_ms: i64,
    /// End.
    pub end_ms: i64,
    /// Profile that it ran on.
    pub profile: usize,
    /// How often it did not fit.
    pub failed: u32,
}

impl SliceTimes {
    /// Time on a slice.
    pub fn held_ms(&self) -> i64 {
        self.end_ms - self.start_ms
    }
}

/// Event of the replay, in the order of classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    End { job: u32, slice: u32 },
    Paused { job: u32 },
}

struct Engine<'a> {
    jobs: &'a TypedJobs,
    asks: &'a [Profiles],
    fleet: &'a [usize],
    speeds: &'a SliceSpeeds,
    pause_ms: i64,
    now: i64,
    /// Profiles of which there is a slice.
    there: Profiles,
    /// Empty slices by profile.
    empty: Vec<BTreeSet<u32>>,
    /// Profiles that are known not to fit, by kind.
    bad: Vec<Profiles>,
    /// Waiting jobs, by kind and by what is asked.
    waiting: BTreeMap<(u16, Profiles), BTreeSet<u32>>,
    failed: Vec<u32>,
    times: Vec<Option<SliceTimes>>,
    events: BinaryHeap<Reverse<(i64, Event)>>,
}

/// Replays the jobs on a fleet of slices, each told by its profile. `None` for a job that there is no room for.
///
/// # Errors
/// If the jobs fail [`TypedJobs::check`], not every job asks, or there is no slice or one of an unknown profile.
pub fn replay(
    jobs: &TypedJobs,
    asks: &[Profiles],
    fleet: &[usize],
    speeds: &SliceSpeeds,
) -> Result<Vec<Option<SliceTimes>>> {
    replay_with(jobs, asks, fleet, speeds, PAUSE_MS)
}

fn replay_with(
    jobs: &TypedJobs,
    asks: &[Profiles],
    fleet: &[usize],
    speeds: &SliceSpeeds,
    pause_ms: i64,
) -> Result<Vec<Option<SliceTimes>>> {
    jobs.check(speeds.kinds)?;
    let wrong = |what: &str| Err(Error::workload(0, what));
    let count = jobs.submit_ms.len();
    if asks.len() != count {
        return wrong("not every job asks for profiles");
    }
    if fleet.is_empty() || fleet.len() >= u32::MAX as usize || fleet.iter().any(|profile| *profile >= speeds.profiles) {
        return wrong("there is no slice, or one of a profile that is not in the table of speeds");
    }
    let mut empty = vec![BTreeSet::new(); speeds.profiles];
    for (slice, profile) in (0u32..).zip(fleet) {
        empty.get_mut(*profile).map(|of| of.insert(slice));
    }
    let mut engine = Engine {
        jobs,
        asks,
        fleet,
        speeds,
        pause_ms,
        now: i64::MIN,
        there: fleet.iter().copied().collect(),
        empty,
        bad: vec![Profiles::NONE; speeds.kinds],
        waiting: BTreeMap::new(),
        failed: vec![0; count],
        times: vec![None; count],
        events: BinaryHeap::new(),
    };
    let mut submissions = (0u32..).zip(&jobs.submit_ms).peekable();
    loop {
        let event = engine.events.peek().map(|Reverse((at, _))| *at);
        let submission = submissions.peek().map(|(_, at)| **at);
        let Some(now) = event.into_iter().chain(submission).min() else { break };
        engine.now = now;
        while let Some(Reverse((_, event))) = engine.events.peek().copied().filter(|Reverse((at, _))| *at <= now) {
            engine.events.pop();
            match event {
                Event::End { slice, .. } => engine.give_back(slice),
                Event::Paused { job } => engine.queue(job),
            }
        }
        while let Some((job, _)) = submissions.next_if(|(_, at)| **at <= now) {
            engine.queue(job);
        }
        engine.decide();
    }
    Ok(engine.times)
}

impl Engine<'_> {
    fn kind(&self, job: u32) -> u16 {
        self.jobs.kind.get(job as usize).copied().unwrap_or_default()
    }

    fn give_back(&mut self, slice: u32) {
        let profile = self.fleet.get(slice as usize).copied().unwrap_or_default();
        self.empty.get_mut(profile).map(|of| of.insert(slice));
    }

    fn queue(&mut self, job: u32) {
        let ask = self.asks.get(job as usize).copied().unwrap_or_default();
        self.waiting.entry((self.kind(job), ask)).or_default().insert(job);
    }

    /// Profiles that a job of a kind may have that asks for some.
    fn may_have(&self, kind: u16, ask: Profiles) -> Profiles {
        let bad = self.bad.get(usize::from(kind)).copied().unwrap_or_default();
        let asked = ask.within(self.there).without(bad);
        if asked.is_none() { self.speeds.of(usize::from(kind)).within(self.there) } else { asked }
    }

    /// The empty slice for a job of a kind, with its profile.
    fn slice(&self, kind: u16, ask: Profiles) -> Option<(usize, u32)> {
        self.may_have(kind, ask).places().find_map(|profile| Some((profile, *self.empty.get(profile)?.first()?)))
    }

    fn decide(&mut self) {
        loop {
            let heads = self.waiting.iter().filter_map(|((kind, ask), jobs)| {
                let job = *jobs.first()?;
                Some((job, (*kind, *ask), self.slice(*kind, *ask)?))
            });
            let Some((job, group, (profile, slice))) = heads.min_by_key(|(job, ..)| *job) else { break };
            if let Some(jobs) = self.waiting.get_mut(&group) {
                jobs.remove(&job);
                if jobs.is_empty() {
                    self.waiting.remove(&group);
                }
            }
            self.put(job, profile, slice);
        }
    }

    fn put(&mut self, job: u32, profile: usize, slice: u32) {
        let kind = usize::from(self.kind(job));
        let Some(speed) = self.speeds.get(kind, profile) else {
            if let Some(bad) = self.bad.get_mut(kind) {
                *bad = bad.and(Profiles::one(profile));
            }
            if let Some(failed) = self.failed.get_mut(job as usize) {
                *failed += 1;
            }
            self.events.push(Reverse((self.now + self.pause_ms, Event::Paused { job })));
            return;
        };
        self.empty.get_mut(profile).map(|of| of.remove(&slice));
        let run = self.jobs.run_ms.get(job as usize).copied().unwrap_or_default();
        let speed = i64::from(speed);
        let end_ms = self.now + (run * i64::from(WHOLE_SPEED) + speed - 1) / speed;
        let failed = self.failed.get(job as usize).copied().unwrap_or_default();
        if let Some(times) = self.times.get_mut(job as usize) {
            *times = Some(SliceTimes { start_ms: self.now, end_ms, profile, failed });
        }
        self.events.push(Reverse((end_ms, Event::End { job, slice })));
    }
}
