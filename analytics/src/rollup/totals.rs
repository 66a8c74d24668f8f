//! Counts of one thread, and how the counts of two threads are merged.
//!
//! A job adds to one cell of size × state, one duration bin, one user, one hour and two grid instants; totals by size
//! and by state are sums over the cells. O(1) a job, no allocation unless a size, user or page is new.

use std::collections::HashMap;

use super::grid::Grid;
use super::histogram::Histogram;
use super::intern::Words;
use super::value::{Job, MICRO};
use crate::schema::JobState;
use crate::time::{HOUR_MS, MINUTE_MS};

/// The step of GPUs in use.
pub(super) const TEN_MINUTES_MS: i64 = 10 * MINUTE_MS;
/// Number of job states.
pub(super) const STATES: usize = JobState::ALL.len();
/// Whole GPUs found without hashing.
const DIRECT: usize = 257;

/// Jobs and their GPU time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) jobs: u64,
    /// Millionths of a GPU × milliseconds, of jobs that ended.
    pub(super) micro_gpu_ms: i128,
    /// Millionths of a GPU of jobs that still run.
    pub(super) running_micro: i128,
    /// Millionths of a GPU × milliseconds since the epoch at which they started.
    pub(super) running_since: i128,
}

impl Sum {
    pub(super) fn add(&mut self, other: Self) {
        self.jobs += other.jobs;
        self.micro_gpu_ms += other.micro_gpu_ms;
        self.running_micro += other.running_micro;
        self.running_since += other.running_since;
    }

    /// Counts jobs that still run until `end_ms`, the end of the observation, which is known only when all rows are read:
    /// Σ GPUs × (end − start) = end × Σ GPUs − Σ GPUs × start.
    pub(super) fn until(mut self, end_ms: i64) -> Self {
        self.micro_gpu_ms += i128::from(end_ms) * self.running_micro - self.running_since;
        (self.running_micro, self.running_since) = (0, 0);
        self
    }
}

/// Jobs of one size.
#[derive(Debug, Clone, Default)]
pub(super) struct Size {
    /// GPUs in millionths; `None` gathers jobs whose GPUs are unknown.
    pub(super) micro_gpus: Option<i64>,
    /// Sums by state, in the order of `JobState::ALL`.
    pub(super) states: [Sum; STATES],
    pub(super) durations: Histogram,
}

/// Jobs with something unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Gaps {
    pub(super) submit: u64,
    pub(super) duration: u64,
    pub(super) gpu_time: u64,
    pub(super) interval: u64,
}

/// Everything counted.
#[derive(Debug)]
pub(super) struct Totals {
    pub(super) jobs: u64,
    /// Jobs still running, with known GPUs.
    pub(super) running: u64,
    /// GPUs of the running jobs, millionths.
    pub(super) running_micro: i64,
    /// The last moment that any job names: the end of the observation.
    pub(super) last_ms: Option<i64>,
    pub(super) gaps: Gaps,
    /// The first is for jobs whose GPUs are unknown.
    pub(super) sizes: Vec<Size>,
    index: HashMap<i64, usize>,
    direct: Vec<usize>,
    pub(super) users: Words,
    /// The first is for jobs whose user is unknown.
    pub(super) by_user: Vec<Sum>,
    pub(super) arrivals: Grid<HOUR_MS>,
    /// Change of GPUs in use (millionths) at each instant.
    pub(super) changes: Grid<TEN_MINUTES_MS>,
}

impl Totals {
    pub(super) fn new() -> Self {
        Self {
            jobs: 0,
            running: 0,
            running_micro: 0,
            last_ms: None,
            gaps: Gaps::default(),
            sizes: vec![Size::default()],
            index: HashMap::new(),
            direct: vec![0; DIRECT],
            users: Words::new(),
            by_user: vec![Sum::default()],
            arrivals: Grid::default(),
            changes: Grid::default(),
        }
    }

    /// Number of the user called `name`.
    #[inline]
    pub(super) fn user(&mut self, name: &[u8]) -> u32 {
        let number = self.users.number(name);
        if number as usize >= self.by_user.len() {
            self.by_user.resize(number as usize + 1, Sum::default());
        }
        number
    }

    /// Counts a job.
    #[inline]
    pub(super) fn add(&mut self, job: &Job) {
        self.jobs += 1;
        match job.submit {
            Some(submit) => self.arrivals.add(Grid::<HOUR_MS>::cell(submit), 1),
            None => self.gaps.submit += 1,
        }
        self.last_ms = self.last_ms.max(job.submit).max(job.start).max(job.end).max(job.ran_until());
        let micro_gpus = job.micro_gpus();
        let running = job.running_since();
        // How long a job runs that still does is not known.
        let duration_ms = if running.is_some() { None } else { job.duration_ms() };
        let size = micro_gpus.map_or(0, |micro| self.size(micro));
        let mut sum = Sum { jobs: 1, ..Sum::default() };
        match (micro_gpus, duration_ms, running) {
            (Some(micro), Some(ms), _) => {
                sum.micro_gpu_ms = i128::from(micro) * (i128::from(ms) + i128::from(job.suspended_ms()));
            }
            (Some(micro), None, Some(start)) => {
                sum.running_micro = i128::from(micro);
                sum.running_since = i128::from(micro) * i128::from(start);
            }
            _ => self.gaps.gpu_time += 1,
        }
        if let Some(size) = self.sizes.get_mut(size) {
            if let Some(cell) = size.states.get_mut(job.state as usize) {
                cell.add(sum);
            }
            match duration_ms {
                Some(ms) => size.durations.add(ms as u64),
                None => self.gaps.duration += 1,
            }
        }
        if let Some(user) = self.by_user.get_mut(job.user as usize) {
            user.add(sum);
        }
        if let (Some(start), Some(micro)) = (running, micro_gpus) {
            self.running += 1;
            self.running_micro = self.running_micro.wrapping_add(micro);
            self.changes.add(Grid::<TEN_MINUTES_MS>::cell_from(start), micro);
            return;
        }
        let end = match (job.start, job.end) {
            (Some(start), Some(end)) if end >= start => Some(end),
            (Some(start), _) => duration_ms
                .map(|ms| start.saturating_add(ms).saturating_add(job.suspended_ms()))
                .and_then(super::value::in_range),
            (None, _) => None,
        };
        match (job.start, end, micro_gpus) {
            (Some(start), Some(end), Some(micro)) => {
                let (from, to) = (Grid::<TEN_MINUTES_MS>::cell_from(start), Grid::<TEN_MINUTES_MS>::cell_from(end));
                if from != to {
                    self.changes.add(from, micro);
                    self.changes.add(to, -micro);
                }
            }
            _ => self.gaps.interval += 1,
        }
    }

    /// Place of the jobs of a size.
    #[inline]
    fn size(&mut self, micro: i64) -> usize {
        let whole = micro as u64 / MICRO as u64;
        if whole * MICRO as u64 == micro as u64
            && let Some(place) = self.direct.get(whole as usize)
            && *place != 0
        {
            return *place;
        }
        self.size_by_hash(micro)
    }

    fn size_by_hash(&mut self, micro: i64) -> usize {
        if let Some(place) = self.index.get(&micro) {
            return *place;
        }
        let place = self.sizes.len();
        self.sizes.push(Size { micro_gpus: Some(micro), ..Size::default() });
        self.index.insert(micro, place);
        if micro % MICRO == 0
            && let Some(direct) = self.direct.get_mut((micro / MICRO) as usize)
        {
            *direct = place;
        }
        place
    }

    /// Ends the observation, when all rows are counted: what still runs was in use until then.
    pub(super) fn close(&mut self) {
        let Some(end_ms) = self.last_ms.filter(|_| self.running > 0) else { return };
        for size in &mut self.sizes {
            size.states.iter_mut().for_each(|sum| *sum = sum.until(end_ms));
        }
        self.by_user.iter_mut().for_each(|sum| *sum = sum.until(end_ms));
        self.changes.add(Grid::<TEN_MINUTES_MS>::cell_from(end_ms), self.running_micro.wrapping_neg());
        self.running_micro = 0;
    }

    /// Adds the counts of `other`.
    pub(super) fn merge(&mut self, other: Self) {
        self.jobs += other.jobs;
        self.running += other.running;
        self.running_micro = self.running_micro.wrapping_add(other.running_micro);
        self.last_ms = self.last_ms.max(other.last_ms);
        self.gaps.submit += other.gaps.submit;
        self.gaps.duration += other.gaps.duration;
        self.gaps.gpu_time += other.gaps.gpu_time;
        self.gaps.interval += other.gaps.interval;
        for theirs in &other.sizes {
            let place = theirs.micro_gpus.map_or(0, |micro| self.size(micro));
            if let Some(mine) = self.sizes.get_mut(place) {
                mine.states.iter_mut().zip(&theirs.states).for_each(|(sum, more)| sum.add(*more));
                mine.durations.merge(&theirs.durations);
            }
        }
        if let (Some(mine), Some(theirs)) = (self.by_user.first_mut(), other.by_user.first()) {
            mine.add(*theirs);
        }
        for (name, sum) in other.users.words().zip(other.by_user.iter().skip(1)) {
            let user = self.user(name);
            if let Some(mine) = self.by_user.get_mut(user as usize) {
                mine.add(*sum);
            }
        }
        self.arrivals.merge(other.arrivals);
        self.changes.merge(other.changes);
    }
}

/// Position in `JobState::ALL` of the state that a word stands for; unknown if it is none.
pub(super) fn state_of(word: &str) -> u8 {
    let state = match JobState::from_id(word) {
        JobState::Unknown => JobState::parse(word).unwrap_or(JobState::Unknown),
        state => state,
    };
    JobState::ALL.iter().position(|other| *other == state).unwrap_or(UNKNOWN_STATE as usize) as u8
}

/// Position of [`JobState::Unknown`] in `JobState::ALL`.
pub(super) const UNKNOWN_STATE: u8 = (STATES - 1) as u8;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn unknown_is_the_last_state() {
        assert_eq!(JobState::ALL[UNKNOWN_STATE as usize], JobState::Unknown);
        assert_eq!([state_of("completed"), state_of("Pass"), state_of("banana")], [0, 0, UNKNOWN_STATE]);
    }

    #[test]
    fn a_job_is_in_use_at_the_instants_it_covers() {
        let mut totals = Totals::new();
        let minute = 60_000;
        let job = Job { req_gpus: Some(2.0), start: Some(5 * minute), end: Some(25 * minute), ..Job::default() };
        totals.add(&job);
        // Starts and ends between the same two instants: never seen on the grid.
        totals.add(&Job { start: Some(31 * minute), end: Some(39 * minute), ..job });
        // +2 at 00:10, nothing new at 00:20, -2 at 00:30.
        assert_eq!(totals.changes.cells(), Some((10 * minute, vec![2 * MICRO, 0, -2 * MICRO])));
        // 2 GPUs × (20 min + 8 min) = 2e6 µGPU × 1,680,000 ms.
        assert_eq!(totals.by_user[0], Sum { jobs: 2, micro_gpu_ms: 2_000_000 * 1_680_000, ..Sum::default() });
        assert_eq!(totals.gaps, Gaps { submit: 2, ..Gaps::default() });
    }

    #[test]
    fn a_job_that_still_runs_counts_until_the_last_moment_of_any_thread() {
        let minute = 60_000;
        let (mut totals, mut other) = (Totals::new(), Totals::new());
        let running = Job {
            req_gpus: Some(2.0),
            start: Some(5 * minute),
            state: state_of("running"),
            run_s: Some(1.0),
            ..Job::default()
        };
        totals.add(&running);
        // What ends last was counted by another thread; a job that ended in an unknown way has no end, and no GPU time.
        other.add(&Job { submit: Some(25 * minute), ..Job::default() });
        other.add(&Job { state: UNKNOWN_STATE, run_s: None, ..running });
        totals.merge(other);
        totals.close();
        // 2 GPUs from 00:05 to 00:25: seen at 00:10 and 00:20.
        let sum = Sum { jobs: 3, micro_gpu_ms: i128::from(2 * MICRO * 20 * minute), ..Sum::default() };
        assert_eq!(totals.by_user[0], sum);
        assert_eq!(totals.changes.cells(), Some((10 * minute, vec![2 * MICRO, 0, -2 * MICRO])));
        assert_eq!((totals.running, totals.gaps.gpu_time, totals.gaps.duration), (1, 2, 3));
    }
}
