//! The fewest nodes of a part that keep the waits of some of its jobs within a target, by exact replays.
//!
//! ```text
//! kept      of all judged jobs, and of each size class with at least 20 of them, at most 5 % wait longer than the target
//!           (which is to say that the 95 % quantile by nearest rank is within it), and every job runs that runs today
//! needed    the least n that keeps it with n, n + 1 and n + 2 nodes
//! interval  days (weeks, if there are eight) are drawn with replacement, 1,000 times: the least n that keeps it in 2.5 % and in 97.5 % of the draws;
//!           none with fewer than seven days, and an end that no number reaches is not known
//! ```
//!
//! More nodes do not always shorten waits: with one node more a long job may start earlier, and others stand behind it. So the search begins with steps
//! that double, and bisection, then walks up until the two numbers above are kept as well, and down as long as the next smaller one is. Two more below are
//! looked at, and if one of them is kept after all the answer says so. O(log nodes) replays of the part's jobs.
//!
//! The **wait** of a job is that of [`times`](crate::replay::metric::times): what it loses when it is stopped, or a node fails, counts.
//! Worked number: of 40 jobs with a target of 1 h two may wait longer; with 39 judged one may.

use std::collections::BTreeMap;

use tracecast_analytics::facts::SizeClass;
use tracecast_analytics::stats::resample;
use tracecast_analytics::time::{DAY_MS, WEEK_MS};

use super::part::Part;
use crate::error::{Error, Result};
use crate::plan::interval::DRAWS;
use crate::plan::waits::{FEWEST_OF_CLASS, NEVER};
use crate::replay::metric::JobTimes;
use crate::sim::{Outcome, Policy, Schedule, Workload, simulate};

/// The share of the jobs that may wait longer than the target.
pub const MAY_WAIT: f64 = 0.05;
/// Weeks from which weeks are drawn, and not days.
const FEWEST_WEEKS: i64 = 8;
/// Fewest blocks that are drawn: of fewer days there is no interval.
pub const FEWEST_BLOCKS: usize = 7;
/// Shares of the draws that bound the interval.
pub(super) const BOUNDS: (f64, f64) = (0.025, 0.975);
/// Numbers above the needed one that must be enough, too.
pub(super) const STEADY: u32 = 2;
/// All jobs, and each size class.
const GROUPS: usize = 1 + SizeClass::ALL.len();
/// How long jobs may wait: the 95 % quantile.
#[derive(Debug, Clone, PartialEq)]
pub struct WaitTarget {
    /// Target of all jobs, and of each class without its own, seconds.
    pub all_s: f64,
    /// Targets of classes, seconds.
    pub by_class: BTreeMap<SizeClass, f64>,
}

impl WaitTarget {
    /// Target of a class, seconds.
    pub fn of(&self, class: SizeClass) -> f64 {
        self.by_class.get(&class).copied().unwrap_or(self.all_s)
    }

    fn ms(&self, group: usize) -> i64 {
        let class = group.checked_sub(1).and_then(|at| SizeClass::ALL.get(at));
        (class.map_or(self.all_s, |class| self.of(*class)) * 1e3).round() as i64
    }
}

/// Waits of the judged jobs in a replay with some number of nodes.
#[derive(Debug, Clone, PartialEq)]
pub struct SizedReplay {
    /// Waits of the judged jobs, milliseconds, in their order; [`NEVER`] for one that did not end.
    pub waits_ms: Vec<i64>,
    /// Whether the target was kept.
    pub kept: bool,
    /// The share of resampled days or weeks in which it was kept.
    pub kept_share: f64,
    /// Share of the GPU time in the judged window that jobs held.
    pub utilisation: f64,
    /// Jobs that waited in the judged window, those that never start to its end, mean over time.
    pub queue_jobs: f64,
}

/// Fewest nodes, with what other days like these might have asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needed {
    /// Fewest that keep the target.
    pub value: u32,
    /// Lower end; `None` if it is not known.
    pub low: Option<u32>,
    /// Upper end; `None` if it is not known.
    pub high: Option<u32>,
    /// Whether one or two fewer than `value - 1` kept it, too: waits then do not fall with every node.
    pub uneven: bool,
    /// Days or weeks that were drawn, or draws of growth; with fewer than [`FEWEST_BLOCKS`] days there is no interval.
    pub blocks: usize,
}

impl Needed {
    /// The upper end of the interval, or the number itself where that is not known.
    pub fn upper(&self) -> u32 {
        self.high.unwrap_or(self.value)
    }

    /// Maximum of two needs, value by value; an end that either does not know is not known.
    #[must_use]
    pub fn at_least(&self, other: &Self) -> Self {
        let end = |mine: Option<u32>, theirs: Option<u32>| Some(mine?.max(theirs?));
        Self {
            value: self.value.max(other.value),
            low: end(self.low, other.low),
            high: end(self.high, other.high),
            ..*self
        }
    }
}

/// The judged jobs of a part, and the replays so far.
#[derive(Debug)]
pub struct Search<'a> {
    part: &'a Part,
    workload: &'a Workload,
    policy: &'a Policy,
    target: &'a WaitTarget,
    window: (i64, i64),
    /// Judged jobs.
    judged: Vec<u32>,
    /// Size class of each judged job, a group.
    class: Vec<usize>,
    /// Block of each judged job.
    block: Vec<usize>,
    /// Jobs of the window that today's nodes could never run.
    impossible: u64,
    /// Judged jobs by block and group.
    jobs: Vec<[u64; GROUPS]>,
    /// How often each block is in each draw.
    draws: Vec<Vec<u64>>,
    /// Replays so far, by nodes of each kind.
    seen: BTreeMap<Vec<u32>, SizedReplay>,
}

/// Whether the target is kept in a share of the days drawn anew of so many draws of grown work together; `kept_shares` is the sum of [`SizedReplay::kept_share`] over them.
pub(super) fn is_kept_together(kept_shares: f64, share: f64, draws: usize) -> bool {
    // The sum of shares is a sum of whole thousandths, but for what floats make of it.
    kept_shares + 1e-9 >= share * draws as f64
}

/// Length of the blocks of a window that are drawn: weeks, if there are eight.
fn block_ms((from, to): (i64, i64)) -> i64 {
    if to - from >= FEWEST_WEEKS * WEEK_MS { WEEK_MS } else { DAY_MS }
}

/// Jobs that may wait longer, of so many.
fn may_wait(jobs: u64) -> u64 {
    (jobs as f64 * MAY_WAIT + 1e-9) as u64
}

impl<'a> Search<'a> {
    /// Judges the jobs submitted within `window` (milliseconds from time 0) that run with the nodes of today. `workload` holds the part's jobs alone.
    ///
    /// # Errors
    /// Errors of [`simulate`].
    pub fn new(
        part: &'a Part,
        workload: &'a Workload,
        with: (&'a Policy, &'a WaitTarget),
        window: (i64, i64),
    ) -> Result<Self> {
        let mut search = Self::of(part, workload, with, window);
        let (schedule, times) = search.replay(part.now())?;
        let runs = |job: &u32| {
            let finished = schedule.outcome.get(*job as usize) == Some(&Outcome::Finished);
            times.is_counted(*job as usize) && finished
        };
        search.judge_these((0u32..).take(workload.len()).filter(runs));
        let within = |(submit, outcome): &(&i64, &Outcome)| {
            (window.0..window.1).contains(*submit) && **outcome == Outcome::Rejected
        };
        search.impossible = workload.submit_ms.iter().zip(&schedule.outcome).filter(within).count() as u64;
        let today = search.judge(&schedule, &times, part.now());
        search.seen.insert(part.now().to_vec(), today);
        Ok(search)
    }

    /// Creates a search that judges the given jobs submitted within `window`. Nothing is replayed
    /// yet.
    pub fn judging(
        part: &'a Part,
        workload: &'a Workload,
        with: (&'a Policy, &'a WaitTarget),
        window: (i64, i64),
        jobs: &[u32],
    ) -> Self {
        let mut search = Self::of(part, workload, with, window);
        search.judge_these(jobs.iter().copied());
        search
    }

    fn of(
        part: &'a Part,
        workload: &'a Workload,
        (policy, target): (&'a Policy, &'a WaitTarget),
        window: (i64, i64),
    ) -> Self {
        let (from, to) = window;
        let length = block_ms(window);
        let blocks = usize::try_from((to - from).max(1).div_euclid(length)).unwrap_or(1).max(1);
        let draws = (0..DRAWS).map(|draw| {
            let mut times = vec![0; blocks];
            for block in resample::whole(blocks, 1, draw) {
                if let Some(times) = times.get_mut(block) {
                    *times += 1;
                }
            }
            times
        });
        Self {
            part,
            workload,
            policy,
            target,
            window,
            judged: Vec::new(),
            class: Vec::new(),
            block: Vec::new(),
            impossible: 0,
            jobs: vec![[0; GROUPS]; blocks],
            draws: draws.collect(),
            seen: BTreeMap::new(),
        }
    }

    /// Takes those of `jobs` for judged that are submitted within the window.
    fn judge_these(&mut self, jobs: impl Iterator<Item = u32>) {
        let (from, to) = self.window;
        let length = block_ms(self.window);
        for job in jobs {
            let Some(submit) = self.workload.submit_ms.get(job as usize).filter(|submit| (from..to).contains(submit))
            else {
                continue;
            };
            let class = SizeClass::new(self.workload.shape_of(job as usize).as_gpus()) as usize + 1;
            // What is left beyond the last whole day belongs to it.
            let block = usize::try_from((submit - from) / length).unwrap_or(0).min(self.jobs.len() - 1);
            for group in [0, class] {
                if let Some(count) = self.jobs.get_mut(block).and_then(|counts| counts.get_mut(group)) {
                    *count += 1;
                }
            }
            self.judged.push(job);
            self.class.push(class);
            self.block.push(block);
        }
    }

    /// Jobs of the window that today's nodes could never run, all of them empty; 0 of jobs that were [told](Self::judging).
    pub fn impossible(&self) -> u64 {
        self.impossible
    }

    /// Judged jobs.
    pub fn judged(&self) -> &[u32] {
        &self.judged
    }

    /// Size class of each judged job.
    pub fn classes(&self) -> impl Iterator<Item = SizeClass> {
        self.class.iter().filter_map(|group| SizeClass::ALL.get(group.checked_sub(1)?).copied())
    }

    fn replay(&self, counts: &[u32]) -> Result<(Schedule, JobTimes)> {
        let schedule = simulate(self.workload, &self.part.with_counts(counts), self.policy)?;
        let times = JobTimes::new(self.workload, &schedule)?;
        little(self.workload, &schedule, &times)?;
        Ok((schedule, times))
    }

    /// What `nodes` nodes do; replayed once.
    ///
    /// # Errors
    /// Errors of [`simulate`].
    pub fn with(&mut self, nodes: u32) -> Result<&SizedReplay> {
        let counts = self.part.counts(nodes);
        if !self.seen.contains_key(&counts) {
            let result = self.with_counts(&counts)?;
            self.seen.insert(counts.clone(), result);
        }
        self.seen.get(&counts).ok_or_else(|| Error::defect("a replay was lost".to_owned()))
    }

    /// What so many nodes by kind do; nothing is remembered.
    ///
    /// # Errors
    /// Errors of [`simulate`].
    pub fn with_counts(&self, counts: &[u32]) -> Result<SizedReplay> {
        let (schedule, times) = self.replay(counts)?;
        Ok(self.judge(&schedule, &times, counts))
    }

    /// Whether there are days enough to draw from for an interval.
    pub fn has_interval(&self) -> bool {
        self.jobs.len() >= FEWEST_BLOCKS
    }

    fn judge(&self, schedule: &Schedule, times: &JobTimes, counts: &[u32]) -> SizedReplay {
        let waits_ms: Vec<i64> = self.judged.iter().map(|job| times.wait_ms(*job as usize).unwrap_or(NEVER)).collect();
        let targets: [i64; GROUPS] = std::array::from_fn(|group| self.target.ms(group));
        let mut over = vec![[0u64; GROUPS]; self.jobs.len()];
        for ((wait, class), block) in waits_ms.iter().zip(&self.class).zip(&self.block) {
            for group in [0, *class] {
                let longer = targets.get(group).is_some_and(|target| wait > target);
                if let Some(count) = over.get_mut(*block).and_then(|counts| counts.get_mut(group)) {
                    *count += u64::from(longer);
                }
            }
        }
        // Of blocks that stand there so many times: judged jobs and those that wait longer, by group.
        let total = |times: &dyn Fn(usize) -> u64| {
            let mut result = [[0u64; GROUPS]; 2];
            for (block, (jobs, over)) in self.jobs.iter().zip(&over).enumerate() {
                let times = times(block);
                if times == 0 || jobs[0] == 0 {
                    continue;
                }
                for (sums, counts) in result.iter_mut().zip([jobs, over]) {
                    sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += times * count);
                }
            }
            result
        };
        let [whole, _] = total(&|_| 1);
        let runs = waits_ms.iter().all(|wait| *wait != NEVER);
        let keeps = |times: &dyn Fn(usize) -> u64| {
            // Where one never runs the target is not kept, whatever the draw.
            runs && {
                let [jobs, over] = total(times);
                (0..GROUPS).all(|group| {
                    let of = |counts: &[u64; GROUPS]| counts.get(group).copied().unwrap_or(0);
                    of(&over) <= may_wait(of(&jobs)) || (group > 0 && of(&whole) < FEWEST_OF_CLASS as u64)
                })
            }
        };
        let kept = self.draws.iter().filter(|draw| keeps(&|block| draw.get(block).copied().unwrap_or(0))).count();
        let (from, to) = self.window;
        let within = |start: i64, end: i64| (end.min(to) - start.max(from)).max(0) as f64;
        let held: f64 = schedule
            .segments
            .iter()
            .map(|segment| {
                self.workload.shape_of(segment.job as usize).as_gpus() * within(segment.start_ms, segment.end_ms)
            })
            .sum();
        let span = (to - from).max(1) as f64;
        // One that never starts waits to the end.
        let queued = |(submit, start): (&i64, Option<i64>)| within(*submit, start.unwrap_or(to));
        let starts = (0..self.workload.len()).map(|job| schedule.start_ms(job));
        let queued: f64 = self.workload.submit_ms.iter().zip(starts).map(queued).sum();
        SizedReplay {
            kept: keeps(&|_| 1),
            kept_share: kept as f64 / self.draws.len().max(1) as f64,
            utilisation: held / (self.part.gpus_of(counts).max(1) as f64 * span),
            queue_jobs: queued / span,
            waits_ms,
        }
    }

    /// Fewest nodes that keep the target, with their interval; the search begins at `guess`. `None` if no number does: jobs then wait for something
    /// other than nodes.
    ///
    /// # Errors
    /// Errors of [`simulate`].
    pub fn needed(&mut self, guess: u32) -> Result<Option<Needed>> {
        let Some(value) = self.least(&|result| result.kept, guess)? else { return Ok(None) };
        let blocks = self.jobs.len();
        let (mut low, mut high) = (None, None);
        if self.has_interval() {
            low = self.least(&|result| result.kept_share >= BOUNDS.0, value)?.map(|low| low.min(value));
            high = self.least(&|result| result.kept_share >= BOUNDS.1, value)?.map(|high| high.max(value));
        }
        let mut uneven = false;
        for below in [2, 3] {
            if let Some(nodes) = value.checked_sub(below).filter(|nodes| *nodes > 0) {
                uneven |= self.with(nodes)?.kept;
            }
        }
        Ok(Some(Needed { value, low, high, uneven, blocks }))
    }

    /// Fewest nodes that keep the target on these jobs; as [`Search::needed`] without the interval.
    ///
    /// # Errors
    /// Errors of [`simulate`].
    pub fn fewest(&mut self, guess: u32) -> Result<Option<u32>> {
        self.least(&|result| result.kept, guess)
    }

    fn least(&mut self, ok: &dyn Fn(&SizedReplay) -> bool, guess: u32) -> Result<Option<u32>> {
        let most = self.part.nodes().max(guess).saturating_mul(8).saturating_add(64);
        // From the guess, in steps that double, until one is enough and one is not; 0 nodes never are.
        let (mut low, mut high) = (0, guess.max(1));
        if ok(self.with(high)?) {
            let mut step = 1;
            while let Some(nodes) = high.checked_sub(step).filter(|nodes| *nodes > 0) {
                if !ok(self.with(nodes)?) {
                    low = nodes;
                    break;
                }
                (high, step) = (nodes, step * 2);
            }
        } else {
            let mut step = 1;
            loop {
                (low, high) = (high, high.saturating_add(step));
                if high > most {
                    return Ok(None);
                }
                if ok(self.with(high)?) {
                    break;
                }
                step *= 2;
            }
        }
        while high - low > 1 {
            let middle = u32::midpoint(low, high);
            if ok(self.with(middle)?) { high = middle } else { low = middle }
        }
        // Up, until the next ones are enough as well; down, as long as the one below is.
        let mut run = 0;
        let mut nodes = high;
        while run <= STEADY {
            if nodes > most {
                return Ok(None);
            }
            run = if ok(self.with(nodes)?) { run + 1 } else { 0 };
            nodes += 1;
        }
        let mut least = nodes - 1 - STEADY;
        while least > 1 && ok(self.with(least - 1)?) {
            least -= 1;
        }
        Ok(Some(least))
    }
}

/// Little's law on a replay: jobs that wait, summed over time, are the waits, summed over jobs. Both sides are taken apart: the first by walking the
/// events in order of time. O(n log n).
fn little(workload: &Workload, schedule: &Schedule, times: &JobTimes) -> Result<()> {
    let ended = |job: usize| times.jct_ms.get(job).copied().flatten().is_some();
    let mut events: Vec<(i64, i64)> = Vec::with_capacity(4 * workload.len());
    let mut waits = 0i128;
    for (job, submit) in workload.submit_ms.iter().enumerate().filter(|(job, _)| ended(*job)) {
        waits += i128::from(times.queued_ms(job).unwrap_or(0));
        events.push((*submit, 1));
        events.push((schedule.end_ms(job).unwrap_or(*submit), -1));
    }
    for segment in schedule.segments.iter().filter(|segment| ended(segment.job as usize)) {
        events.push((segment.start_ms, -1));
        events.push((segment.end_ms, 1));
    }
    events.sort_unstable();
    let (mut waiting, mut area, mut last) = (0i128, 0i128, 0i64);
    for (now, change) in events {
        area += waiting * i128::from(now - last);
        (waiting, last) = (waiting + i128::from(change), now);
    }
    if area == waits && waiting == 0 {
        Ok(())
    } else {
        Err(Error::defect(format!("a replay breaks Little's law: {area} ms of queue, {waits} ms of waits")))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests;
