//! Replay of jobs on a pool of GPUs of one's own, from which jobs go to the cloud when they have waited enough: event-driven, deterministic, in integers.
//!
//! This page is the contract. The engine here and the naive reference of its tests, which goes millisecond by millisecond, are both written from it and must give
//! the same times for every job. It is an engine of its own beside [`sim`](crate::sim): there, every job waits until it runs or is dismissed, and nodes, placement and
//! preemption make the state; here, a pool is a number, so that hundreds of sizes and policies can be replayed in the time of one such replay.
//!
//! # State
//!
//! The pool has a number of GPUs, in thousandths, and no nodes: a job fits where as many are free as it asks for, all at once (a gang). Jobs stand in order of submission (of
//! equals, as they are numbered). A job that starts in the pool runs there to its end. A job that goes to the cloud starts there at once, as the cloud has room for all, and is never moved
//! back. So every job runs exactly once, for the same time, here or there.
//!
//! Each job has a [`JobWait`]: how long it waits **at most**, and, if that is said, up to which **foreseen** wait it waits at all. The foreseen wait of a job is the work
//! that waits ahead of it over the pool: the sum of GPUs × expected run of the jobs that were submitted before it and still wait, divided by the GPUs of the pool, rounded down to a
//! millisecond. What runs is not counted: a pool that is always in use starts as much work in an hour as it has GPUs. The expected run is used for nothing else.
//!
//! # Events
//!
//! At one instant: ends, then submissions, then one *decision*. Instants are those of ends, of submissions, and those at which a job has waited as long as it may.
//!
//! # Decision
//!
//! The jobs that wait are taken in order. For each in its turn:
//!
//! 1. If the queue is not closed, and its GPUs are free, it starts in the pool.
//! 2. Else, if it is wider than the pool, or has waited as long as it may at most, it goes to the cloud.
//! 3. Else, if it was submitted at this instant, and the wait that is foreseen for it is longer than its limit of that, it goes to the cloud.
//! 4. Else it waits on. If it has waited for [`BurstPool::guard_ms`] or longer, the queue is **closed** behind it for the rest of this decision.
//!
//! So jobs pass those ahead of them that do not fit, first fit in order of submission, until one has waited for the guard. Then nobody passes it any more. A job without a
//! limit does not starve: once the guard is over, only jobs that were submitted before it and those that run already can hold it up. A guard of 0 is strict
//! order.
//!
//! # Cost
//!
//! O((jobs + instants) × distinct sizes + jobs log jobs). Worked example: a pool of 4 GPUs, nobody waits longer than 30 min. A job of 4 GPUs runs from 0:00 to 1:00. One of 2 GPUs is
//! submitted at 0:10 and goes to the cloud at 0:40; another at 0:45 starts in the pool at 1:00, after a wait of 15 min.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::error::{Error, Result};

#[cfg(test)]
mod tests;

/// Thousandths of a GPU.
pub const MILLI: u64 = 1_000;
/// Longest time, milliseconds: so that sums of work stay whole numbers of 128 bits, and moments of 64.
const LONGEST_MS: i64 = 1 << 60;
/// Most thousandths of a GPU that a job asks for.
const MOST_MILLI: u64 = 1 << 40;

/// How long a job waits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JobWait {
    /// Longest wait, milliseconds; without limit if `None`.
    pub most_ms: Option<i64>,
    /// The longest foreseen wait for which it waits at all, milliseconds; any if `None`.
    pub foreseen_ms: Option<i64>,
}

impl JobWait {
    /// Not at all.
    pub const NEVER: Self = Self { most_ms: Some(0), foreseen_ms: None };
    /// Without limit.
    pub const EVER: Self = Self { most_ms: None, foreseen_ms: None };
}

/// Jobs, in order of submission.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BurstJobs {
    /// Submission, milliseconds, never falling.
    pub submit_ms: Vec<i64>,
    /// Run, milliseconds, more than 0.
    pub run_ms: Vec<i64>,
    /// GPUs, in thousandths, more than 0.
    pub milli_gpus: Vec<u64>,
    /// Expected run, milliseconds: what waits of others are foreseen with.
    pub expected_ms: Vec<i64>,
}

/// The pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BurstPool {
    /// GPUs, in thousandths.
    pub milli_gpus: u64,
    /// How long a job has waited when nobody passes it any more, milliseconds.
    pub guard_ms: i64,
}

/// Outcome of a job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BurstTimes {
    /// Start of the job, milliseconds.
    pub start_ms: i64,
    /// Whether it ran in the cloud.
    pub cloud: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Future,
    Waits,
    Gone,
}

struct Engine<'a> {
    jobs: &'a BurstJobs,
    waits: &'a [JobWait],
    pool: BurstPool,
    now: i64,
    free: u64,
    state: Vec<State>,
    times: Vec<BurstTimes>,
    /// Distinct sizes, rising, and the jobs of each that wait, in order; some of them may be gone.
    sizes: Vec<(u64, VecDeque<u32>)>,
    /// Position of each job's size.
    size: Vec<u32>,
    /// All that wait, in order; some of them may be gone.
    queue: VecDeque<u32>,
    /// Σ GPUs × expected run of all that wait.
    work: i128,
    ends: BinaryHeap<Reverse<(i64, u32)>>,
    limits: BinaryHeap<Reverse<(i64, u32)>>,
}

/// Replays the jobs on a pool; `waits` says of each how long it waits.
///
/// # Errors
/// If columns differ in length, submissions fall, a time or a number of GPUs is out of bounds, or a wait is negative.
pub fn replay(jobs: &BurstJobs, pool: BurstPool, waits: &[JobWait]) -> Result<Vec<BurstTimes>> {
    check(jobs, pool, waits)?;
    let count = jobs.submit_ms.len();
    let mut distinct = jobs.milli_gpus.clone();
    distinct.sort_unstable();
    distinct.dedup();
    let size = jobs.milli_gpus.iter().map(|gpus| distinct.partition_point(|size| size < gpus) as u32).collect();
    let mut engine = Engine {
        jobs,
        waits,
        pool,
        now: i64::MIN,
        free: pool.milli_gpus,
        state: vec![State::Future; count],
        times: vec![BurstTimes::default(); count],
        sizes: distinct.into_iter().map(|size| (size, VecDeque::new())).collect(),
        size,
        queue: VecDeque::new(),
        work: 0,
        ends: BinaryHeap::new(),
        limits: BinaryHeap::new(),
    };
    let mut next = 0u32;
    loop {
        let submission = jobs.submit_ms.get(next as usize).copied();
        let end = engine.ends.peek().map(|Reverse((at, _))| *at);
        let Some(now) = submission.into_iter().chain(end).chain(engine.next_limit()).min() else { break };
        engine.now = now;
        engine.end();
        let first = next;
        while jobs.submit_ms.get(next as usize) == Some(&now) {
            next += 1;
        }
        engine.decide(first..next);
    }
    Ok(engine.times)
}

fn check(jobs: &BurstJobs, pool: BurstPool, waits: &[JobWait]) -> Result<()> {
    let wrong = |job: usize, what: &str| Err(Error::workload(job, what));
    let count = jobs.submit_ms.len();
    let lengths = [jobs.run_ms.len(), jobs.milli_gpus.len(), jobs.expected_ms.len(), waits.len()];
    if lengths.iter().any(|length| *length != count) || count >= u32::MAX as usize {
        return wrong(0, "columns differ in length, or there are too many jobs");
    }
    if pool.guard_ms < 0 || pool.milli_gpus > MOST_MILLI {
        return wrong(0, "the guard is negative, or the pool has too many GPUs");
    }
    if let Some(job) = jobs.submit_ms.windows(2).position(|pair| matches!(pair, [a, b] if a > b)) {
        return wrong(job + 1, "it is submitted before the job ahead of it");
    }
    if let Some(job) = jobs.submit_ms.iter().position(|at| at.checked_abs().is_none_or(|at| at > LONGEST_MS)) {
        return wrong(job, "its submission is out of bounds");
    }
    if let Some(job) = jobs.run_ms.iter().position(|run| !(1..=LONGEST_MS).contains(run)) {
        return wrong(job, "its run is not positive, or too long");
    }
    if let Some(job) = jobs.expected_ms.iter().position(|run| !(0..=LONGEST_MS).contains(run)) {
        return wrong(job, "its expected run is negative, or too long");
    }
    if let Some(job) = jobs.milli_gpus.iter().position(|gpus| !(1..=MOST_MILLI).contains(gpus)) {
        return wrong(job, "it asks for no GPU, or for too many");
    }
    let negative = |wait: &JobWait| [wait.most_ms, wait.foreseen_ms].into_iter().flatten().any(|ms| ms < 0);
    if let Some(job) = waits.iter().position(negative) {
        return wrong(job, "it may wait for less than no time");
    }
    Ok(())
}

impl Engine<'_> {
    fn waits_now(&self, job: u32) -> bool {
        self.state.get(job as usize) == Some(&State::Waits)
    }

    fn gpus(&self, job: u32) -> u64 {
        self.jobs.milli_gpus.get(job as usize).copied().unwrap_or(0)
    }

    fn wait(&self, job: u32) -> JobWait {
        self.waits.get(job as usize).copied().unwrap_or(JobWait::EVER)
    }

    fn waited_ms(&self, job: u32) -> i64 {
        self.now - self.jobs.submit_ms.get(job as usize).copied().unwrap_or(self.now)
    }

    /// Whether a job has waited as long as it may.
    fn is_due(&self, job: u32) -> bool {
        self.wait(job).most_ms.is_some_and(|most| self.waited_ms(job) >= most)
    }

    fn work_of(&self, job: u32) -> i128 {
        let expected = self.jobs.expected_ms.get(job as usize).copied().unwrap_or(0);
        i128::from(self.gpus(job)) * i128::from(expected)
    }

    /// The next instant at which a job that waits has waited as long as it may.
    fn next_limit(&mut self) -> Option<i64> {
        while let Some(Reverse((at, job))) = self.limits.peek().copied() {
            if self.waits_now(job) {
                return Some(at);
            }
            self.limits.pop();
        }
        None
    }

    /// Frees the GPUs of what ends now.
    fn end(&mut self) {
        while let Some(Reverse((at, job))) = self.ends.peek().copied() {
            if at > self.now {
                break;
            }
            self.ends.pop();
            self.free += self.gpus(job);
        }
    }

    /// A job begins, here or there.
    fn begin(&mut self, job: u32, cloud: bool) {
        if self.waits_now(job) {
            self.work -= self.work_of(job);
        }
        if let Some(state) = self.state.get_mut(job as usize) {
            *state = State::Gone;
        }
        if let Some(times) = self.times.get_mut(job as usize) {
            *times = BurstTimes { start_ms: self.now, cloud };
        }
        if !cloud {
            self.free -= self.gpus(job);
            let run = self.jobs.run_ms.get(job as usize).copied().unwrap_or(0);
            self.ends.push(Reverse((self.now + run, job)));
        }
    }

    /// The first that waits and fits.
    fn first_fit(&mut self) -> Option<u32> {
        let Self { sizes, state, free, .. } = self;
        let waits = |job: &u32| state.get(*job as usize) == Some(&State::Waits);
        let heads = sizes.iter_mut().take_while(|(size, _)| size <= free).filter_map(|(_, queue)| {
            while queue.front().is_some_and(|job| !waits(job)) {
                queue.pop_front();
            }
            queue.front().copied()
        });
        heads.min()
    }

    /// The first that waits and has not waited as long as it may.
    fn oldest(&mut self) -> Option<u32> {
        while self.queue.front().is_some_and(|job| !self.waits_now(*job)) {
            self.queue.pop_front();
        }
        self.queue.iter().copied().find(|job| self.waits_now(*job) && !self.is_due(*job))
    }

    fn closes(&self, job: u32) -> bool {
        self.waited_ms(job) >= self.pool.guard_ms
    }

    fn decide(&mut self, submitted: std::ops::Range<u32>) {
        // Who waited before: in order, each that fits, until one that does not has waited for the guard. Those that wait behind it have waited for less.
        let mut closed = false;
        while let Some(job) = self.first_fit() {
            closed = self.oldest().is_some_and(|oldest| oldest < job && self.closes(oldest));
            if closed {
                break;
            }
            self.begin(job, false);
        }
        closed |= self.oldest().is_some_and(|oldest| self.closes(oldest));
        while let Some(Reverse((at, job))) = self.limits.peek().copied() {
            if at > self.now {
                break;
            }
            self.limits.pop();
            if self.waits_now(job) {
                self.begin(job, true);
            }
        }
        for job in submitted {
            let (gpus, wait) = (self.gpus(job), self.wait(job));
            if !closed && gpus <= self.free {
                self.begin(job, false);
                continue;
            }
            let pool = i128::from(self.pool.milli_gpus);
            // Wider than the pool covers a pool of none, by which nothing is divided.
            let longer = |most: i64| self.work / pool > i128::from(most);
            if gpus > self.pool.milli_gpus || self.is_due(job) || wait.foreseen_ms.is_some_and(longer) {
                self.begin(job, true);
                continue;
            }
            if let Some(state) = self.state.get_mut(job as usize) {
                *state = State::Waits;
            }
            self.work += self.work_of(job);
            self.queue.push_back(job);
            let size = self.size.get(job as usize).copied().unwrap_or(0) as usize;
            if let Some((_, queue)) = self.sizes.get_mut(size) {
                queue.push_back(job);
            }
            // A limit beyond all time is none.
            if let Some(at) = wait.most_ms.and_then(|most| self.now.checked_add(most)) {
                self.limits.push(Reverse((at, job)));
            }
            closed |= self.closes(job);
        }
    }
}
