//! Replay of jobs on GPUs that may each hold two: event-driven, deterministic, in integers.
//!
//! This page is the contract. The engine here and the naive reference of its tests, which goes millisecond by millisecond, are both written from it and must give
//! the same times for every job. It is an engine of its own beside [`sim`](crate::sim): there, a job that was started ends after its run, on GPUs that are its own, and
//! orders, scans, reservations and power rest on that; here, when a job ends depends on who comes and goes beside it.
//!
//! # State
//!
//! There are *G* GPUs of one type, and jobs of one GPU each, in order of submission. A job has a **kind** (its job type) and a run: the time it takes alone. What is
//! left of a job is its run in millionths of a millisecond; alone on a GPU it loses 1,000,000 of these each millisecond, beside another its *speed*, a whole number. It ends
//! at the first whole millisecond at which nothing is left.
//!
//! Speeds are those of the rule's [`Pace`] (its [page](pace) is part of this one). By default that of a job beside one of kind b is its own kind's beside b, as measured
//! ([`PairSpeeds`]). Otherwise the first on a GPU keeps a speed and the other is held back, or both run in turns. A job may then stand still for a while on its GPU, which counts as time on it.
//!
//! # Events
//!
//! At one instant, in this order: ends; two that have become even ([`Pace::LeastAttained`]); trials that are over; jobs whose pause is over; submissions; in each by job. Then comes one
//! *decision*. A job of no length ends at the instant of its start, after the decision, and another decision follows.
//!
//! # Decision
//!
//! Jobs wait in order of submission (of equals, as they are numbered), wherever they come from.
//!
//! 1. While a GPU is empty and a job waits, the first that waits starts on the empty GPU of the lowest number.
//! 2. If none is empty, the jobs that wait are taken in order. A job goes beside another on a GPU with one job, if the rule ([`SharingRule`]) allows the two kinds: of
//!    those the one that the rule prefers most for the new job, of equals the GPU of the lowest number. A job for which there is none is passed over.
//!
//! * **What does not fit.** If the two do not fit, the new job fails at once. It pauses for `pause_ms`, then waits again. The other runs on unharmed. Under a rule that *asks*
//!   for memory first, a job beside which it does not fit does not count among those it may go to.
//! * **Trial.** With a [`Trial`], `after_ms` after the new job began beside the other, if both are still together: the new job is taken out, and waits again, if the sum of
//!   both speeds, as they are then, is at most `least_total`, or one of them is below `least_speed`. It keeps what it has done.
//! * **Memory.** A rule that *remembers* never puts two jobs of the two kinds together again once they did not fit or failed a trial (those that are together
//!   stay so until their own trial). One that does not never again puts that job beside another; others may still be put beside it.
//!
//! Nobody is moved from one GPU to another: who is left behind by a partner runs on alone, and may be joined again.
//!
//! # Cost
//!
//! O(events × kinds + joins × log jobs). Worked example: one GPU; kinds a and b, 600,000 and 500,000 beside each other. a is submitted at 0 s with a run of 60 s, b at 0 s with
//! one of 40 s; all may share. Both begin at 0 s. b is done after 80 s; a has done 48 s by then, and its last 12 s take until 92 s. Alone, one after the
//! other, b would have ended at 100 s.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use crate::error::{Error, Result};
use crate::one_gpu::TypedJobs;

pub mod pace;
#[cfg(test)]
mod tests;

pub use pace::Pace;
use pace::Turn;

/// Speed alone.
pub const ALONE: u32 = 1_000_000;
/// No job.
const NONE: u32 = u32::MAX;

/// How fast each kind is beside each other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PairSpeeds {
    kinds: usize,
    speed: Vec<Option<u32>>,
}

impl PairSpeeds {
    /// A table of so many kinds, of which no two fit.
    pub fn new(kinds: usize) -> Self {
        Self { kinds, speed: vec![None; kinds * kinds] }
    }

    /// Kinds.
    pub fn kinds(&self) -> usize {
        self.kinds
    }

    /// Sets both speeds of two kinds, as shares of the speed alone, rounded to millionths and at least one.
    pub fn set(&mut self, a: usize, b: usize, speeds: (f64, f64)) {
        let part = |speed: f64| (speed * f64::from(ALONE)).round().clamp(1.0, f64::from(u32::MAX / 4)) as u32;
        self.set_millionths(a, b, (part(speeds.0), part(speeds.1)));
    }

    /// Sets both speeds of two kinds, in millionths of the speed alone.
    pub(super) fn set_millionths(&mut self, a: usize, b: usize, speeds: (u32, u32)) {
        for (at, speed) in [(a * self.kinds + b, speeds.0), (b * self.kinds + a, speeds.1)] {
            if let Some(slot) = self.speed.get_mut(at) {
                *slot = Some(speed);
            }
        }
    }

    /// Speed of a kind beside another, in millionths; `None` if they do not fit.
    pub fn get(&self, own: u16, beside: u16) -> Option<u32> {
        self.speed.get(usize::from(own) * self.kinds + usize::from(beside)).copied().flatten()
    }
}

/// Two jobs that began together are looked at again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trial {
    /// When, after they began.
    pub after_ms: i64,
    /// The new job is taken out if both speeds together are at most this.
    pub least_total: u64,
    /// The new job is also taken out if one of the two speeds is below this.
    pub least_speed: u32,
}

/// Rule that says which kinds may share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharingRule {
    kinds: usize,
    preference: Vec<Option<i32>>,
    /// Whether pairs are tried out.
    pub trial: Option<Trial>,
    /// Whether what failed is remembered of kinds, and not of jobs.
    pub remembers: bool,
    /// How long a job pauses that did not fit.
    pub pause_ms: i64,
    /// How fast two on a GPU are.
    pub pace: Pace,
    /// Whether memory is asked for first, so that what does not fit is not tried.
    pub asks_memory: bool,
    /// Whether it goes by what is read of those that run, and so by what these are, and not by what was told of them.
    pub reads_running: bool,
}

impl SharingRule {
    /// A rule under which nobody shares.
    pub fn exclusive(kinds: usize) -> Self {
        Self {
            kinds,
            preference: vec![None; kinds * kinds],
            trial: None,
            remembers: true,
            pause_ms: 120_000,
            pace: Pace::Together,
            asks_memory: false,
            reads_running: true,
        }
    }

    /// The rule over so many kinds, of which no two may share yet.
    pub(super) fn empty(&self, kinds: usize) -> Self {
        Self { kinds, preference: vec![None; kinds * kinds], ..self.clone() }
    }

    /// Lets a new job of kind `new` go beside a running one; the highest preference is taken first.
    pub fn allow(&mut self, new: usize, running: usize, preference: i32) {
        if let Some(slot) = self.preference.get_mut(new * self.kinds + running).filter(|_| running < self.kinds) {
            *slot = Some(preference);
        }
    }

    /// The preference, if a new job of kind `new` may go beside a running one.
    pub fn preference(&self, new: usize, running: usize) -> Option<i32> {
        self.preference.get(new * self.kinds + running).filter(|_| running < self.kinds).copied().flatten()
    }
}

/// Outcome of a job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SharingTimes {
    /// First start, milliseconds.
    pub start_ms: i64,
    /// End.
    pub end_ms: i64,
    /// Time on a GPU.
    pub held_ms: i64,
    /// Time beside another job within that.
    pub shared_ms: i64,
    /// How often it did not fit.
    pub failed: u32,
    /// How often a trial ended badly for it.
    pub taken_out: u32,
}

impl SharingTimes {
    /// From submission to end, less the time on a GPU.
    pub fn wait_ms(&self, submit_ms: i64) -> i64 {
        self.end_ms - submit_ms - self.held_ms
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Job {
    left: i64,
    since_ms: i64,
    gpu: u32,
    runs: bool,
    started: bool,
    alone: bool,
    /// Counts changes of its speed, so that an end foreseen before one is passed over.
    version: u32,
}

#[derive(Debug, Clone, Copy)]
struct Gpu {
    first: u32,
    second: u32,
    /// Counts the pairs it held.
    pair: u32,
    /// Whose turn it is, of two.
    turn: Turn,
}

impl Gpu {
    const EMPTY: Self = Self { first: NONE, second: NONE, pair: 0, turn: Turn::Both };
}

/// Event of the replay, in the order of classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    End { job: u32, version: u32 },
    Even { gpu: u32, pair: u32 },
    Trial { job: u32, gpu: u32, pair: u32 },
    Paused { job: u32 },
}

struct Engine<'a> {
    jobs: &'a TypedJobs,
    speeds: &'a PairSpeeds,
    rule: &'a SharingRule,
    now: i64,
    state: Vec<Job>,
    times: Vec<SharingTimes>,
    gpus: Vec<Gpu>,
    empty: BTreeSet<u32>,
    /// GPUs with one job, by its kind.
    single: Vec<BTreeSet<u32>>,
    waiting: BTreeSet<u32>,
    /// Waiting jobs that may be put beside another, by kind.
    joining: Vec<BTreeSet<u32>>,
    forbidden: Vec<bool>,
    events: BinaryHeap<Reverse<(i64, Event)>>,
}

/// Replays the jobs on `gpus` GPUs under a rule.
///
/// # Errors
/// If columns differ in length, submissions fall, a run is negative or longer than 139 years, a kind is not in the table, or there is no GPU.
pub fn replay(jobs: &TypedJobs, gpus: u32, speeds: &PairSpeeds, rule: &SharingRule) -> Result<Vec<SharingTimes>> {
    check(jobs, gpus, speeds, rule)?;
    let count = jobs.submit_ms.len();
    let mut engine = Engine {
        jobs,
        speeds,
        rule,
        now: i64::MIN,
        state: vec![Job::default(); count],
        times: vec![SharingTimes::default(); count],
        gpus: vec![Gpu::EMPTY; gpus as usize],
        empty: (0..gpus).collect(),
        single: vec![BTreeSet::new(); speeds.kinds],
        waiting: BTreeSet::new(),
        joining: vec![BTreeSet::new(); speeds.kinds],
        forbidden: vec![false; speeds.kinds * speeds.kinds],
        events: BinaryHeap::new(),
    };
    let mut submissions = (0u32..).zip(&jobs.submit_ms).peekable();
    loop {
        let event = engine.events.peek().map(|Reverse((at, _))| *at);
        let submission = submissions.peek().map(|(_, at)| **at);
        let Some(now) = event.into_iter().chain(submission).min() else { break };
        engine.now = now;
        while let Some(Reverse((at, event))) = engine.events.peek().copied() {
            if at > now {
                break;
            }
            engine.events.pop();
            engine.happens(event);
        }
        while let Some((job, _)) = submissions.next_if(|(_, at)| **at <= now) {
            if let Some(state) = engine.state.get_mut(job as usize) {
                state.left = jobs.run_ms.get(job as usize).copied().unwrap_or(0) * i64::from(ALONE);
            }
            engine.queue(job);
        }
        engine.decide();
    }
    Ok(engine.times)
}

fn check(jobs: &TypedJobs, gpus: u32, speeds: &PairSpeeds, rule: &SharingRule) -> Result<()> {
    jobs.check(speeds.kinds)?;
    let wrong = |what: &str| Err(Error::workload(0, what));
    if gpus == 0 || rule.kinds != speeds.kinds {
        return wrong("there is no GPU, or the rule is of other kinds than the speeds");
    }
    if matches!(rule.pace, Pace::Guaranteed { least } if least > ALONE) {
        return wrong("the first on a GPU cannot be guaranteed more than its speed alone");
    }
    Ok(())
}

impl Engine<'_> {
    fn kind(&self, job: u32) -> u16 {
        self.jobs.kind.get(job as usize).copied().unwrap_or_default()
    }

    fn gpu(&self, gpu: u32) -> Gpu {
        self.gpus.get(gpu as usize).copied().unwrap_or(Gpu::EMPTY)
    }

    /// The job beside a job that runs.
    fn partner(&self, job: u32) -> Option<u32> {
        let gpu = self.gpu(self.state.get(job as usize)?.gpu);
        let other = if gpu.first == job { gpu.second } else { gpu.first };
        (other != NONE).then_some(other)
    }

    fn speed(&self, job: u32) -> i64 {
        let gpu = self.state.get(job as usize).map_or(Gpu::EMPTY, |state| self.gpu(state.gpu));
        if gpu.second == NONE {
            return i64::from(ALONE);
        }
        let measured = |own, beside| self.speeds.get(self.kind(own), self.kind(beside)).unwrap_or(ALONE);
        let both = [measured(gpu.first, gpu.second), measured(gpu.second, gpu.first)];
        let [first, second] = self.rule.pace.speeds(both, gpu.turn);
        i64::from(if gpu.first == job { first } else { second })
    }

    /// What a job has done, in millionths of a millisecond.
    fn attained(&self, job: u32) -> i64 {
        let run = self.jobs.run_ms.get(job as usize).copied().unwrap_or_default() * i64::from(ALONE);
        run - self.state.get(job as usize).map_or(0, |state| state.left)
    }

    /// Whether a GPU still holds the pair that it held then.
    fn holds(&self, gpu: u32, pair: u32) -> bool {
        let held = self.gpu(gpu);
        held.pair == pair && held.first != NONE && held.second != NONE
    }

    /// Takes account of what a job did until now.
    fn settle(&mut self, job: u32) {
        let (speed, shares) = (self.speed(job), self.partner(job).is_some());
        let (Some(state), Some(times)) = (self.state.get_mut(job as usize), self.times.get_mut(job as usize)) else {
            return;
        };
        let passed = self.now - state.since_ms;
        state.since_ms = self.now;
        state.left = (state.left - passed.saturating_mul(speed)).max(0);
        times.held_ms += passed;
        times.shared_ms += if shares { passed } else { 0 };
    }

    /// Foresees the end of a job at its present speed.
    fn foresee(&mut self, job: u32) {
        let speed = self.speed(job);
        let Some(state) = self.state.get_mut(job as usize) else { return };
        state.version += 1;
        // Who stands still has no end in sight.
        let takes = match speed {
            _ if state.left == 0 => 0,
            0 => return,
            _ => (state.left + speed - 1) / speed,
        };
        self.events.push(Reverse((self.now + takes, Event::End { job, version: state.version })));
    }

    fn queue(&mut self, job: u32) {
        self.waiting.insert(job);
        let kind = usize::from(self.kind(job));
        let alone = self.state.get(job as usize).is_some_and(|state| state.alone);
        if let Some(joining) = self.joining.get_mut(kind).filter(|_| !alone) {
            joining.insert(job);
        }
    }

    fn unqueue(&mut self, job: u32) {
        self.waiting.remove(&job);
        let kind = usize::from(self.kind(job));
        if let Some(joining) = self.joining.get_mut(kind) {
            joining.remove(&job);
        }
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::End { job, version } => {
                if self.state.get(job as usize).is_some_and(|state| state.runs && state.version == version) {
                    self.leave(job);
                    if let Some(times) = self.times.get_mut(job as usize) {
                        times.end_ms = self.now;
                    }
                }
            }
            Event::Even { gpu, pair } => {
                if !self.holds(gpu, pair) {
                    return;
                }
                let Gpu { first, second, .. } = self.gpu(gpu);
                self.settle(first);
                self.settle(second);
                if let Some(gpu) = self.gpus.get_mut(gpu as usize) {
                    gpu.turn = Turn::Both;
                }
                self.foresee(first);
                self.foresee(second);
            }
            Event::Trial { job, gpu, pair } => {
                if !self.holds(gpu, pair) {
                    return;
                }
                let (Some(trial), Some(other)) = (self.rule.trial, self.partner(job)) else { return };
                let both = [self.speed(job), self.speed(other)];
                let total = both.iter().sum::<i64>() <= i64::try_from(trial.least_total).unwrap_or(i64::MAX);
                if total || both.iter().any(|speed| *speed < i64::from(trial.least_speed)) {
                    self.leave(job);
                    if let Some(times) = self.times.get_mut(job as usize) {
                        times.taken_out += 1;
                    }
                    self.remember(job, other);
                    self.queue(job);
                }
            }
            Event::Paused { job } => self.queue(job),
        }
    }

    /// Remembers that two jobs do not go together; the first is the newer.
    fn remember(&mut self, job: u32, other: u32) {
        if self.rule.remembers {
            let (a, b) = (usize::from(self.kind(job)), usize::from(self.kind(other)));
            for at in [a * self.speeds.kinds + b, b * self.speeds.kinds + a] {
                if let Some(slot) = self.forbidden.get_mut(at) {
                    *slot = true;
                }
            }
        } else if let Some(state) = self.state.get_mut(job as usize) {
            state.alone = true;
        }
    }

    /// Puts a job on a GPU that has room.
    fn enter(&mut self, job: u32, at: u32) {
        let beside = Some(self.gpu(at).first).filter(|other| *other != NONE);
        if let Some(other) = beside {
            self.settle(other);
            let kind = usize::from(self.kind(other));
            if let Some(single) = self.single.get_mut(kind) {
                single.remove(&at);
            }
        } else {
            self.empty.remove(&at);
            let kind = usize::from(self.kind(job));
            if let Some(single) = self.single.get_mut(kind) {
                single.insert(at);
            }
        }
        let turn =
            beside.map_or((Turn::Both, 0), |other| self.rule.pace.turn([self.attained(other), self.attained(job)]));
        let (mut pair, mut even_in_ms) = (0, 0);
        if let Some(gpu) = self.gpus.get_mut(at as usize) {
            if gpu.first == NONE {
                gpu.first = job;
            } else {
                gpu.second = job;
                gpu.pair += 1;
                (gpu.turn, even_in_ms) = turn;
                pair = gpu.pair;
            }
        }
        let now = self.now;
        if let Some(state) = self.state.get_mut(job as usize) {
            if let Some(times) = self.times.get_mut(job as usize).filter(|_| !state.started) {
                times.start_ms = now;
            }
            (state.gpu, state.runs, state.started, state.since_ms) = (at, true, true, now);
        }
        self.foresee(job);
        if let Some(other) = beside {
            self.foresee(other);
            if even_in_ms > 0 {
                self.events.push(Reverse((now + even_in_ms, Event::Even { gpu: at, pair })));
            }
            if let Some(trial) = self.rule.trial {
                self.events.push(Reverse((now + trial.after_ms, Event::Trial { job, gpu: at, pair })));
            }
        }
    }

    /// Takes a job off its GPU.
    fn leave(&mut self, job: u32) {
        self.settle(job);
        let Some(at) = self.state.get(job as usize).map(|state| state.gpu) else { return };
        let other = self.partner(job);
        if let Some(other) = other {
            self.settle(other);
        }
        if let Some(gpu) = self.gpus.get_mut(at as usize) {
            (gpu.first, gpu.second) = (other.unwrap_or(NONE), NONE);
        }
        if let Some(state) = self.state.get_mut(job as usize) {
            state.runs = false;
        }
        let kind = usize::from(self.kind(other.unwrap_or(job)));
        if let Some(single) = self.single.get_mut(kind) {
            if other.is_some() {
                single.insert(at);
            } else {
                single.remove(&at);
            }
        }
        match other {
            Some(other) => self.foresee(other),
            None => {
                self.empty.insert(at);
            }
        }
    }

    /// The GPU on which a new job of a kind is best beside another; who is there.
    fn best(&self, kind: u16) -> Option<(u32, u32)> {
        let mut result: Option<(i32, u32)> = None;
        for (running, single) in (0u16..).zip(&self.single) {
            let Some(gpu) = single.first() else { continue };
            let forbidden = self.forbidden.get(usize::from(kind) * self.speeds.kinds + usize::from(running));
            let fits = !self.rule.asks_memory || self.speeds.get(kind, running).is_some();
            let may = fits && forbidden == Some(&false);
            let Some(preference) = self.rule.preference(kind.into(), running.into()).filter(|_| may) else {
                continue;
            };
            if result.is_none_or(|(most, lowest)| preference > most || (preference == most && *gpu < lowest)) {
                result = Some((preference, *gpu));
            }
        }
        result.map(|(_, gpu)| (gpu, self.gpu(gpu).first))
    }

    fn decide(&mut self) {
        while let (Some(gpu), Some(job)) = (self.empty.first().copied(), self.waiting.first().copied()) {
            self.unqueue(job);
            self.enter(job, gpu);
        }
        if !self.empty.is_empty() || self.waiting.is_empty() {
            return;
        }
        // Once a kind finds no partner it finds none in this decision: those that are alone only grow fewer.
        let mut hopeless = vec![false; self.speeds.kinds];
        loop {
            let heads = self.joining.iter().zip(&hopeless).filter(|(_, hopeless)| !**hopeless);
            let Some(job) = heads.filter_map(|(joining, _)| joining.first().copied()).min() else { break };
            let kind = self.kind(job);
            let Some((gpu, other)) = self.best(kind) else {
                if let Some(slot) = hopeless.get_mut(usize::from(kind)) {
                    *slot = true;
                }
                continue;
            };
            self.unqueue(job);
            if self.speeds.get(kind, self.kind(other)).is_some() {
                self.enter(job, gpu);
            } else {
                if let Some(times) = self.times.get_mut(job as usize) {
                    times.failed += 1;
                }
                self.remember(job, other);
                self.events.push(Reverse((self.now + self.rule.pause_ms.max(1), Event::Paused { job })));
            }
        }
    }
}
